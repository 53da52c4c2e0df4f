/* SPDX-License-Identifier: GPL-2.0-or-later */
/* provider_test [SEED]: all tests that need only one thread. */
#include "world.h"

int main(int argc, char **argv)
{
	int number;

	seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	srandom(seed);
	number = run_cases(data_cases, data_case_count, 0);
	number = run_cases(verbs_cases, verbs_case_count, number);
	number = run_cases(wq_cases, wq_case_count, number);
	printf("1..%d\n", number);
	return 0;
}
