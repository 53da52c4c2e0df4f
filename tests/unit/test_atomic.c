/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of atomics: roce_atomic_result() against a masked add that goes
 * bit by bit, for all boundaries of 4 bits and for many of 64.
 */
#include "harness.h"
#include "roce.h"

static uint64_t atomic_seed = 1;

static uint64_t atomic_random(void)
{
    atomic_seed ^= atomic_seed << 13;
    atomic_seed ^= atomic_seed >> 7;
    atomic_seed ^= atomic_seed << 17;
    return atomic_seed;
}

/* Adds field by field; the boundary has a bit at each field's top. */
static uint64_t atomic_add_bits(uint64_t a, uint64_t b, uint64_t boundary)
{
    uint64_t sum = 0;
    unsigned carry = 0;
    unsigned i;

    for (i = 0; i < 64; i++) {
        unsigned bits = (unsigned)(a >> i & 1) + (unsigned)(b >> i & 1) + carry;

        sum |= (uint64_t)(bits & 1) << i;
        carry = boundary >> i & 1 ? 0 : bits >> 1;
    }
    return sum;
}

static uint64_t atomic_masked_add(uint64_t value, uint64_t add,
                                  uint64_t boundary)
{
    RoceAtomic op = {
        .opcode = FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD,
        .swap_or_add = add,
        .swap_mask_or_boundary = boundary,
    };

    return roce_atomic_result(&op, value);
}

static void masked_add_of_four_bits(void)
{
    uint64_t a, b, boundary;

    for (boundary = 0; boundary < 16; boundary++) {
        for (a = 0; a < 16; a++) {
            for (b = 0; b < 16; b++) {
                CHECK_EQ(atomic_masked_add(a, b, boundary),
                         atomic_add_bits(a, b, boundary));
            }
        }
    }
}

static void masked_add_of_64_bits(void)
{
    unsigned i;

    for (i = 0; i < 20000; i++) {
        uint64_t a = atomic_random(), b = atomic_random();
        uint64_t boundary = atomic_random();

        boundary &= i % 2 ? atomic_random() & atomic_random() : UINT64_MAX;
        CHECK_EQ(atomic_masked_add(a, b, boundary),
                 atomic_add_bits(a, b, boundary));
    }
    /* Without boundaries it is the plain one. */
    CHECK_EQ(atomic_masked_add(UINT64_MAX, 2, 0), 1);
    CHECK_EQ(atomic_masked_add(0xff00000000ffffff, 0x0100000000000001,
                               0x8000000000800000), 0);
}

static void masked_swap(void)
{
    RoceAtomic op = {
        .opcode = FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP,
        .swap_or_add = 0x1111111111111111,
        .compare = 0x00000000000000aa,
        .swap_mask_or_boundary = 0x00000000ffff0000,
        .compare_mask = 0x00000000000000ff,
    };

    CHECK_EQ(roce_atomic_result(&op, 0x22222222222222aa), 0x22222222111122aa);
    CHECK_EQ(roce_atomic_result(&op, 0x22222222222222ab), 0x22222222222222ab);
    op.compare_mask = 0;
    CHECK_EQ(roce_atomic_result(&op, 0), 0x0000000011110000);
}

static void plain(void)
{
    RoceAtomic op = {
        .opcode = FAKERNIC_SQ_ATOMIC_CMP_SWAP, .swap_or_add = 7, .compare = 5,
        .swap_mask_or_boundary = 1, .compare_mask = 1,
    };

    CHECK_EQ(roce_atomic_result(&op, 5), 7);
    CHECK_EQ(roce_atomic_result(&op, 3), 3);
    op.opcode = FAKERNIC_SQ_ATOMIC_FETCH_ADD;
    CHECK_EQ(roce_atomic_result(&op, UINT64_MAX), 6);
}

static const Test tests[] = {
    TEST(plain),
    TEST(masked_swap),
    TEST(masked_add_of_four_bits),
    TEST(masked_add_of_64_bits),
};

TEST_MAIN(tests)
