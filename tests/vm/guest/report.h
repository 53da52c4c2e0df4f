/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints a TAP line for each check, and their number at the end.
 */
#ifndef FAKERNIC_GUEST_REPORT_H
#define FAKERNIC_GUEST_REPORT_H

#include <stdbool.h>
#include <stdio.h>

static int tests, failures;

static inline void report(bool fine, const char *what)
{
    printf("%sok %d - %s\n", fine ? "" : "not ", ++tests, what);
    failures += !fine;
}

/* The program's exit code. */
static inline int end_report(void)
{
    printf("1..%d\n", tests);
    return failures != 0;
}

#endif
