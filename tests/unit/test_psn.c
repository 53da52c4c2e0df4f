/* SPDX-License-Identifier: GPL-2.0-or-later */
/* psn.h: 24-bit serial numbers around their wrap. */
#include "harness.h"
#include "psn.h"

static void add_wraps(void)
{
    CHECK_EQ(roce_psn_add(0xfffffe, 1), 0xffffff);
    CHECK_EQ(roce_psn_add(0xfffffe, 2), 0);
    CHECK_EQ(roce_psn_add(0xfffffe, 0x1000003), 1);
    CHECK_EQ(roce_psn_next(0xffffff), 0);
    CHECK_EQ(roce_psn_mask(0x12abcdef), 0xabcdef);
}

static void sub_wraps(void)
{
    CHECK_EQ(roce_psn_sub(0, 1), 0xffffff);
    CHECK_EQ(roce_psn_sub(5, 5), 0);
    CHECK_EQ(roce_psn_add(0, (uint32_t)-1), 0xffffff);
}

static void diff_is_signed(void)
{
    CHECK_EQ(roce_psn_diff(0, 0xffffff), 1);
    CHECK_EQ(roce_psn_diff(0xffffff, 0), -1);
    CHECK_EQ(roce_psn_diff(0x7fffff, 0), 0x7fffff);
    /* exactly half way counts as behind, from both sides */
    CHECK_EQ(roce_psn_diff(0x800000, 0), -0x800000);
    CHECK_EQ(roce_psn_diff(0, 0x800000), -0x800000);
}

static void diff_undoes_add(void)
{
    static const uint32_t starts[] = { 0, 1, 0x7fffff, 0x800000, 0xfffffe,
                                       0xffffff };

    for (unsigned i = 0; i < TEST_COUNT(starts); i++) {
        for (int32_t n = -0x800000; n <= 0x7fffff; n += 0xfff1) {
            uint32_t psn = roce_psn_add(starts[i], (uint32_t)n);

            CHECK(psn <= ROCE_PSN_MASK);
            CHECK_EQ(roce_psn_diff(psn, starts[i]), n);
        }
    }
}

static void before_and_within(void)
{
    CHECK(roce_psn_before(0xffffff, 0));
    CHECK(!roce_psn_before(0, 0xffffff));
    CHECK(!roce_psn_before(7, 7));
    CHECK(roce_psn_within(0, 0xfffffe, 2));
    CHECK(roce_psn_within(0xfffffe, 0xfffffe, 2));
    CHECK(roce_psn_within(2, 0xfffffe, 2));
    CHECK(!roce_psn_within(3, 0xfffffe, 2));
    CHECK(!roce_psn_within(0xfffffd, 0xfffffe, 2));
}

static const Test tests[] = {
    TEST(add_wraps),
    TEST(sub_wraps),
    TEST(diff_is_signed),
    TEST(diff_undoes_add),
    TEST(before_and_within),
};

TEST_MAIN(tests)
