/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * opcode.c against a second copy of IBTA table 38, in the order of the
 * specification: the opcodes of each service, and the headers that follow.
 */
#include "harness.h"
#include "opcode.h"

/* Operation codes (bits 4..0) of each service, as bit masks. */
#define UP_TO(n) ((2u << (n)) - 1)
#define BIT(n) (1u << (n))
#define RC_CODES (UP_TO(0x14) | BIT(0x16) | BIT(0x17) | BIT(0x1c) | BIT(0x1d))
#define UC_CODES UP_TO(0x0b)
#define RC_RESERVED (~RC_CODES)        /* refused as requests */
#define UD_CODES (BIT(0x04) | BIT(0x05))

static const struct {
    uint8_t base;
    RoceService service;
    uint32_t codes;
} services[8] = {
    { 0x00, ROCE_SERVICE_RC, RC_CODES | RC_RESERVED },
    { 0x20, ROCE_SERVICE_UC, UC_CODES },
    { 0x40, ROCE_SERVICE_NONE, 0 },     /* RD */
    { 0x60, ROCE_SERVICE_UD, UD_CODES },
    { 0x80, ROCE_SERVICE_CNP, BIT(0x01) },
    { 0xa0, ROCE_SERVICE_XRC, RC_CODES | RC_RESERVED },
    /* Manufacturer opcodes: masked atomics at the codes of plain ones. */
    { 0xc0, ROCE_SERVICE_RC, BIT(0x13) | BIT(0x14) },
    { 0xe0, ROCE_SERVICE_XRC, BIT(0x13) | BIT(0x14) },
};

static void each_service_has_its_opcodes(void)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const RoceOpcodeInfo *info = roce_opcode_info((uint8_t)opcode);
        bool known = services[opcode >> 5].codes >> (opcode & 31) & 1;

        CHECK_EQ(info->service, known ? services[opcode >> 5].service
                                      : ROCE_SERVICE_NONE);
        CHECK_EQ(info->name != NULL, known);
        CHECK_EQ(info->operation != ROCE_OP_NONE, known);
        if (!known) {
            CHECK_EQ(info->flags, 0);
            CHECK_EQ(info->header_size, 0);
        }
    }
}

/* Bytes behind the BTH by operation code: RC, UC. */
static const uint8_t rc_sizes[32] = {
    [0x03] = 4, [0x05] = 4, [0x06] = 16, [0x09] = 4, [0x0a] = 16, [0x0b] = 20,
    [0x0c] = 16, [0x0d] = 4, [0x0f] = 4, [0x10] = 4, [0x11] = 4, [0x12] = 12,
    [0x13] = 28, [0x14] = 28, [0x16] = 4, [0x17] = 4, [0x1c] = 20, [0x1d] = 16,
};

static void header_sizes_match_ibta_table(void)
{
    for (unsigned code = 0; code < 32; code++) {
        bool response = code >= 0x0d && code <= 0x12;

        CHECK_EQ(roce_opcode_info((uint8_t)code)->header_size, rc_sizes[code]);
        if (UC_CODES >> code & 1) {
            CHECK_EQ(roce_opcode_info((uint8_t)(0x20 | code))->header_size,
                     rc_sizes[code]);
        }
        if (RC_CODES >> code & 1) {
            CHECK_EQ(roce_opcode_info((uint8_t)(0xa0 | code))->header_size,
                     rc_sizes[code] + (response ? 0 : 4));
        }
    }
    CHECK_EQ(roce_opcode_info(0xd3)->header_size, 44);
    CHECK_EQ(roce_opcode_info(0xd4)->header_size, 44);
    CHECK_EQ(roce_opcode_info(0xf3)->header_size, 48);
    CHECK_EQ(roce_opcode_info(0xf4)->header_size, 48);
    CHECK_EQ(roce_opcode_info(0x64)->header_size, 8);
    CHECK_EQ(roce_opcode_info(0x65)->header_size, 12);
    CHECK_EQ(roce_opcode_info(0x81)->header_size, 0);
}

static void opcodes_are_requests_or_responses(void)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const RoceOpcodeInfo *info = roce_opcode_info((uint8_t)opcode);
        unsigned kind = info->flags & (ROCE_REQUEST | ROCE_RESPONSE);
        unsigned code = opcode & 31;

        if (info->service == ROCE_SERVICE_NONE ||
            info->service == ROCE_SERVICE_CNP) {
            CHECK_EQ(kind, 0);
        } else {
            CHECK_EQ(kind, code >= 0x0d && code <= 0x12 ? ROCE_RESPONSE
                                                        : ROCE_REQUEST);
        }
    }
}

static void check_place(uint8_t code, unsigned place)
{
    static const uint8_t bases[] = { 0x00, 0x20, 0xa0 };

    for (unsigned i = 0; i < TEST_COUNT(bases); i++) {
        const RoceOpcodeInfo *info = roce_opcode_info(bases[i] | code);

        if (info->service != ROCE_SERVICE_NONE) {
            CHECK_EQ(info->flags & ROCE_ONLY, place);
        }
    }
}

static void opcodes_are_first_middle_last_or_only(void)
{
    static const uint8_t first[] = { 0x00, 0x06, 0x0d };
    static const uint8_t middle[] = { 0x01, 0x07, 0x0e };
    static const uint8_t last[] = { 0x02, 0x03, 0x08, 0x09, 0x0f, 0x16 };
    static const uint8_t only[] = { 0x04, 0x05, 0x0a, 0x0b, 0x0c, 0x10, 0x11,
                                    0x12, 0x13, 0x14, 0x17, 0x1c, 0x1d };

    for (unsigned i = 0; i < TEST_COUNT(first); i++) {
        check_place(first[i], ROCE_FIRST);
    }
    for (unsigned i = 0; i < TEST_COUNT(middle); i++) {
        check_place(middle[i], 0);
    }
    for (unsigned i = 0; i < TEST_COUNT(last); i++) {
        check_place(last[i], ROCE_LAST);
    }
    for (unsigned i = 0; i < TEST_COUNT(only); i++) {
        check_place(only[i], ROCE_ONLY);
    }
    CHECK_EQ(roce_opcode_info(0xd3)->flags & ROCE_ONLY, ROCE_ONLY);
    CHECK_EQ(roce_opcode_info(0xf4)->flags & ROCE_ONLY, ROCE_ONLY);
    CHECK_EQ(roce_opcode_info(0x64)->flags & ROCE_ONLY, ROCE_ONLY);
    CHECK_EQ(roce_opcode_info(0x81)->flags & ROCE_ONLY, ROCE_ONLY);
}

static void payload_only_in_opcodes_with_data(void)
{
    static const uint8_t without[] = { 0x0c, 0x11, 0x12, 0x13, 0x14, 0x1c };

    for (unsigned code = 0; code < 32; code++) {
        bool data = true;

        for (unsigned i = 0; i < TEST_COUNT(without); i++) {
            data = data && without[i] != code;
        }
        CHECK_EQ(!!(roce_opcode_info((uint8_t)code)->flags & ROCE_HAS_PAYLOAD),
                 data);
    }
}

static void opcodes_name_their_operation(void)
{
    static const uint8_t want[32] = {
        ROCE_OP_SEND, ROCE_OP_SEND, ROCE_OP_SEND, ROCE_OP_SEND, ROCE_OP_SEND,
        ROCE_OP_SEND, ROCE_OP_WRITE, ROCE_OP_WRITE, ROCE_OP_WRITE,
        ROCE_OP_WRITE, ROCE_OP_WRITE, ROCE_OP_WRITE, ROCE_OP_READ_REQUEST,
        ROCE_OP_READ_RESPONSE, ROCE_OP_READ_RESPONSE, ROCE_OP_READ_RESPONSE,
        ROCE_OP_READ_RESPONSE, ROCE_OP_ACK, ROCE_OP_ATOMIC_ACK,
        ROCE_OP_CMP_SWAP, ROCE_OP_FETCH_ADD, ROCE_OP_RESERVED, ROCE_OP_SEND,
        ROCE_OP_SEND, ROCE_OP_RESERVED, ROCE_OP_RESERVED, ROCE_OP_RESERVED, ROCE_OP_RESERVED,
        ROCE_OP_FLUSH, ROCE_OP_ATOMIC_WRITE, ROCE_OP_RESERVED, ROCE_OP_RESERVED,
    };

    for (unsigned code = 0; code < 32; code++) {
        CHECK_EQ(roce_opcode_info((uint8_t)code)->operation, want[code]);
        CHECK_EQ(roce_opcode_info((uint8_t)(0xa0 | code))->operation,
                 want[code]);
    }
    CHECK_EQ(roce_opcode_info(0xd3)->operation, ROCE_OP_MASKED_CMP_SWAP);
    CHECK_EQ(roce_opcode_info(0xd4)->operation, ROCE_OP_MASKED_FETCH_ADD);
    CHECK_EQ(roce_opcode_info(0xf3)->operation, ROCE_OP_MASKED_CMP_SWAP);
    CHECK_EQ(roce_opcode_info(0xf4)->operation, ROCE_OP_MASKED_FETCH_ADD);
    CHECK_EQ(roce_opcode_info(0x81)->operation, ROCE_OP_CNP);
    CHECK_EQ(roce_opcode_info(0x64)->operation, ROCE_OP_SEND);
}

static const Test tests[] = {
    TEST(each_service_has_its_opcodes),
    TEST(header_sizes_match_ibta_table),
    TEST(opcodes_are_requests_or_responses),
    TEST(opcodes_are_first_middle_last_or_only),
    TEST(payload_only_in_opcodes_with_data),
    TEST(opcodes_name_their_operation),
};

TEST_MAIN(tests)
