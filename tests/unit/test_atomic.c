/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of atomics. A masked add bit by bit checks
 * roce_atomic_result() for all boundaries of 4 bits and for many of 64. Masked
 * atomics are also sent over RC and XRC.
 */
#include "pair.h"

#include "engine.h"

static uint64_t atomic_seed = 1;

static uint64_t atomic_random(void)
{
    atomic_seed ^= atomic_seed << 13;
    atomic_seed ^= atomic_seed >> 7;
    atomic_seed ^= atomic_seed << 17;
    return atomic_seed;
}

/* Adds field by field. The boundary has the top bit of each field set. */
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
    /* Without boundaries it is a plain add. */
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
    op.opcode = FAKERNIC_SQ_SEND;       /* not an atomic: changes nothing */
    CHECK_EQ(roce_atomic_result(&op, 77), 77);
}

/* ---- on the wire --------------------------------------------------------- */

static const uint8_t services[] = { FAKERNIC_QP_RC, FAKERNIC_QP_XRC_INI };

static RoceSendWr atomic_wr(const Pair *p, uint32_t index, uint8_t opcode)
{
    RoceSendWr wr = pair_wr(&p->a, index, opcode, 8 * index, 8);

    wr.atomic.remote_address = PAIR_MEMORY + 0x1000;
    wr.atomic.rkey = p->b.key;
    wr.atomic.swap_or_add = 0x0101010101010101;
    wr.atomic.compare = 0x00000000000000ff;
    wr.atomic.swap_mask_or_boundary = 0x8080808080808080;
    wr.atomic.compare_mask = 0x00000000000000ff;
    return wr;
}

static uint64_t atomic_value(const PairHost *h, uint32_t offset)
{
    return bytes_load64(h->memory + offset);
}

static void masked_atomics_change_memory(void)
{
    unsigned i;

    for (i = 0; i < TEST_COUNT(services); i++) {
        RoceSendWr wr;
        PAIR(p, services[i]);

        memset(p.b.memory + 0x1000, 0xff, 8);
        wr = atomic_wr(&p, 0, FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP);
        wr.atomic.swap_or_add = 0x0f;
        wr.atomic.swap_mask_or_boundary = 0xf0;
        pair_send(&p, &p.a, &wr);
        wr = atomic_wr(&p, 1, FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP);
        pair_send(&p, &p.a, &wr);           /* no longer equal */
        wr = atomic_wr(&p, 2, FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_MASKED_CMP_SWAP, 0,
                    FAKERNIC_WC_SUCCESS);
        CHECK_EQ(p.a.host->completions[0].byte_count, 8);
        pair_expect(&p.a, FAKERNIC_CQE_MASKED_CMP_SWAP, 1,
                    FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_MASKED_FETCH_ADD, 2,
                    FAKERNIC_WC_SUCCESS);
        CHECK_EQ(atomic_value(&p.a, 0), 0xffffffffffffffff);
        CHECK_EQ(atomic_value(&p.a, 8), 0xffffffffffffff0f);
        CHECK_EQ(atomic_value(&p.a, 16), 0xffffffffffffff0f);
        CHECK_EQ(atomic_value(&p.b, 0x1000), 0x0000000000000010);
    }
}

static void masked_atomics_have_their_headers(void)
{
    static const uint8_t want[2][2] = { { 0xd3, 0xd4 }, { 0xf3, 0xf4 } };
    unsigned i;

    for (i = 0; i < 4; i++) {
        uint8_t buf[ROCE_FRAME_MAX];
        RocePacket packet;
        RoceSendWr wr;
        uint8_t *eth;
        PAIR(p, services[i / 2]);

        wr = atomic_wr(&p, 0, i % 2 ? FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD
                                    : FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP);
        wr.atomic.compare_mask = 0x1122334455667788;
        pair_send(&p, &p.a, &wr);
        REQUIRE(pair_take(&p, &p.a, buf, &packet));
        CHECK_EQ(packet.opcode, want[i / 2][i % 2]);
        CHECK(packet.ack_req);
        /* Behind Ethernet, IPv4, UDP, BTH (and XRCETH), big-endian. */
        eth = buf + 14 + 20 + 8 + 12 + (i / 2 ? 4 : 0);
        CHECK_EQ(eth[12], 0x01);                        /* swap or add */
        CHECK_EQ(eth[27], 0xff);                        /* compare */
        CHECK_EQ(eth[28], 0x80);                        /* mask or boundary */
        CHECK_EQ(eth[36], 0x11);                        /* compare mask */
        CHECK_EQ(eth[43], 0x88);
        pair_inject(&p, &p.b, &packet, NULL, 0);
        REQUIRE(pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(pair_opcode(&packet), ROCE_BTH_ATOMIC_ACK);
        CHECK_EQ(packet.opcode >> 5, i / 2 ? 5 : 0);
        CHECK_EQ(packet.atomic_ack, 0);
    }
}

/* A lost response is repeated, but the addition is executed once. */
static void masked_atomics_are_executed_once(void)
{
    unsigned i;

    for (i = 0; i < TEST_COUNT(services); i++) {
        RoceSendWr wr;
        PAIR(p, services[i]);

        pair_lose(&p.b, 1);
        pair_lose(&p.b, 2);
        wr = atomic_wr(&p, 0, FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD);
        pair_send(&p, &p.a, &wr);
        wr.index = 1;
        wr.sge[0].address += 8;
        pair_send(&p, &p.a, &wr);
        pair_run_until(&p, 1000000000);
        pair_expect(&p.a, FAKERNIC_CQE_MASKED_FETCH_ADD, 0,
                    FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_MASKED_FETCH_ADD, 1,
                    FAKERNIC_WC_SUCCESS);
        CHECK_EQ(atomic_value(&p.a, 0), 0);
        CHECK_EQ(atomic_value(&p.a, 8), 0x0101010101010101);
        CHECK_EQ(atomic_value(&p.b, 0x1000), 0x0202020202020202);
        CHECK(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES) >= 2);
    }
}

static void bad_masked_atomics_are_refused(void)
{
    static const struct {
        uint8_t type;
        uint32_t misalign, key, length, access;
        uint8_t status;
        uint16_t local, remote;
    } cases[] = {
        { FAKERNIC_QP_UC, 0, 0, 8, 0, FAKERNIC_WC_LOC_QP_OP_ERR,
          FAKERNIC_VENDOR_SQ_OPCODE, 0 },
        { FAKERNIC_QP_RC, 4, 0, 8, 0, FAKERNIC_WC_LOC_QP_OP_ERR,
          FAKERNIC_VENDOR_ALIGNMENT, 0 },
        { FAKERNIC_QP_RC, 0, 0, 16, 0, FAKERNIC_WC_LOC_LEN_ERR,
          FAKERNIC_VENDOR_ATOMIC_LENGTH, 0 },
        { FAKERNIC_QP_RC, 0, 1, 8, FAKERNIC_ACCESS_REMOTE_ATOMIC,
          FAKERNIC_WC_REM_ACCESS_ERR, FAKERNIC_VENDOR_NAK_REMOTE_ACCESS,
          FAKERNIC_VENDOR_KEY_TAG },
        { FAKERNIC_QP_RC, 0, 0, 8, FAKERNIC_ACCESS_REMOTE_WRITE,
          FAKERNIC_WC_REM_INV_REQ_ERR, FAKERNIC_VENDOR_NAK_INVALID_REQUEST,
          FAKERNIC_VENDOR_QP_ACCESS },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        RoceQpAttr attr = { .access_flags = cases[i].access };
        RoceSendWr wr;
        PAIR(p, cases[i].type);

        CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_ACCESS_FLAGS, &attr),
                 FAKERNIC_CMD_OK);
        wr = atomic_wr(&p, 0, FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP);
        wr.atomic.remote_address += cases[i].misalign;
        wr.atomic.rkey ^= cases[i].key;
        wr.sge[0].length = cases[i].length;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_MASKED_CMP_SWAP, 0, cases[i].status);
        CHECK_EQ(p.a.host->completions[0].vendor_err, cases[i].local);
        CHECK_EQ(p.b.host->event_count, cases[i].remote != 0);
        CHECK_EQ(p.b.host->events[0].vendor_err, cases[i].remote);
        CHECK_EQ(atomic_value(&p.b, 0x1000), 0);
    }
}

static const Test tests[] = {
    TEST(plain),
    TEST(masked_swap),
    TEST(masked_add_of_four_bits),
    TEST(masked_add_of_64_bits),
    TEST(masked_atomics_change_memory),
    TEST(masked_atomics_have_their_headers),
    TEST(masked_atomics_are_executed_once),
    TEST(bad_masked_atomics_are_refused),
};

TEST_MAIN(tests)
