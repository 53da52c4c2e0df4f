/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The unit tests' harness: a table of named functions, TAP on stdout.
 *
 *     static void add_wraps(void) { CHECK_EQ(roce_psn_add(0xffffff, 1), 0); }
 *     static const Test tests[] = { TEST(add_wraps) };
 *     TEST_MAIN(tests)
 *
 * CHECK reports a failure and continues; REQUIRE ends the test. A program runs
 * only the tests whose names contain one of its arguments, if there are any.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Test {
    const char *name;
    void (*run)(void);
} Test;

#define TEST(name) { #name, name }
#define TEST_COUNT(table) (sizeof(table) / sizeof((table)[0]))

static bool test_failed;
static jmp_buf test_end;

static inline void test_check(bool good, const char *file, int line,
                              const char *text)
{
    if (!good) {
        printf("# %s:%d: %s\n", file, line, text);
        test_failed = true;
    }
}

static inline void test_check_eq(uint64_t got, uint64_t want, const char *file,
                                 int line, const char *text)
{
    if (got != want) {
        printf("# %s:%d: %s: got %" PRIu64 " (0x%" PRIx64 "), want %" PRIu64
               " (0x%" PRIx64 ")\n", file, line, text, got, got, want, want);
        test_failed = true;
    }
}

#define CHECK(condition) \
    test_check((condition), __FILE__, __LINE__, #condition)
/* Integers; negative ones compare as their two's complement. */
#define CHECK_EQ(got, want)                                         \
    test_check_eq((uint64_t)(got), (uint64_t)(want), __FILE__,      \
                  __LINE__, #got " == " #want)
#define CHECK_MEM(got, want, len) \
    test_check(memcmp((got), (want), (len)) == 0, __FILE__, __LINE__, \
               #got " has the bytes of " #want)
#define REQUIRE(condition)                                          \
    do {                                                            \
        if (!(condition)) {                                         \
            test_check(false, __FILE__, __LINE__, #condition);      \
            longjmp(test_end, 1);                                   \
        }                                                           \
    } while (0)

static inline bool test_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strstr(name, argv[i])) {
            return true;
        }
    }
    return argc <= 1;
}

static inline int test_main(const Test *tests, size_t count, int argc,
                            char **argv)
{
    volatile unsigned run = 0, failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (volatile size_t i = 0; i < count; i++) {
        if (!test_wanted(tests[i].name, argc, argv)) {
            continue;
        }
        test_failed = false;
        if (setjmp(test_end) == 0) {
            tests[i].run();
        }
        failed += test_failed;
        printf("%s %u - %s\n", test_failed ? "not ok" : "ok", ++run,
               tests[i].name);
    }
    printf("1..%u\n", run);
    return failed != 0 || run == 0;
}

#define TEST_MAIN(table)                                            \
    int main(int argc, char **argv)                                 \
    {                                                               \
        return test_main(table, TEST_COUNT(table), argc, argv);     \
    }

#endif
