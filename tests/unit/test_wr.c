/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wr.c against a second copy of fakernic/sq.h and the data sheet. This copy is
 * ordered by property, wr.c by opcode. The test covers all opcodes, also
 * unknown ones.
 */
#include "harness.h"
#include "engine.h"

#include "fakernic/regs.h"

#define BIT(name) (1u << FAKERNIC_SQ_##name)
#define SENDS     (BIT(SEND) | BIT(SEND_IMM) | BIT(SEND_INV))
#define WRITES    (BIT(RDMA_WRITE) | BIT(RDMA_WRITE_IMM))
#define READS     (BIT(RDMA_READ) | BIT(RDMA_READ_INV))
#define MASKED    (BIT(ATOMIC_MASKED_CMP_SWAP) | BIT(ATOMIC_MASKED_FETCH_ADD))
#define ATOMICS   (BIT(ATOMIC_CMP_SWAP) | BIT(ATOMIC_FETCH_ADD) | MASKED)
#define KEYS      (BIT(LOCAL_INV) | BIT(REG_MR) | BIT(BIND_MW))
#define KNOWN     ((2u << FAKERNIC_SQ_NOP) - 2)

static bool in(uint32_t set, unsigned opcode)
{
    return opcode < 32 && set >> opcode & 1;
}

static void known_opcodes_have_names(void)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const RoceWrInfo *info = roce_wr_info((uint8_t)opcode);

        CHECK_EQ(info->name != NULL, in(KNOWN, opcode));
        CHECK_EQ(info->kind != ROCE_KIND_UNKNOWN, in(KNOWN, opcode));
    }
}

static RoceWrSegment segment_of(unsigned opcode)
{
    if (in(WRITES | READS | BIT(FLUSH) | BIT(ATOMIC_WRITE), opcode)) {
        return ROCE_SEGMENT_RDMA;
    }
    if (in(ATOMICS, opcode)) {
        return ROCE_SEGMENT_ATOMIC;
    }
    if (in(BIT(REG_MR), opcode)) {
        return ROCE_SEGMENT_REG_MR;
    }
    return in(BIT(BIND_MW), opcode) ? ROCE_SEGMENT_BIND_MW : ROCE_SEGMENT_NONE;
}

static void segments_match_the_data_sheet(void)
{
    for (unsigned opcode = 1; opcode <= FAKERNIC_SQ_NOP; opcode++) {
        const RoceWrInfo *info = roce_wr_info((uint8_t)opcode);
        RoceWrSegment want = segment_of(opcode);

        CHECK_EQ(roce_wr_segment(info, FAKERNIC_QP_RC), want);
        CHECK_EQ(roce_wr_segment(info, FAKERNIC_QP_UC), want);
        CHECK_EQ(roce_wr_segment(info, FAKERNIC_QP_XRC_INI), want);
        CHECK_EQ(roce_wr_segment(info, FAKERNIC_QP_RAW_PACKET), want);
        want = in(SENDS, opcode) ? ROCE_SEGMENT_UD : want;
        CHECK_EQ(roce_wr_segment(info, FAKERNIC_QP_UD), want);
        CHECK_EQ(roce_wr_segment(info, FAKERNIC_QP_GSI), want);
    }
}

static void data_follow_the_segment(void)
{
    const size_t hdr = sizeof(struct fakernic_sq_hdr);

    CHECK_EQ(roce_wr_data_offset(ROCE_SEGMENT_NONE), hdr);
    CHECK_EQ(roce_wr_data_offset(ROCE_SEGMENT_RDMA),
             hdr + sizeof(struct fakernic_sq_rdma));
    CHECK_EQ(roce_wr_data_offset(ROCE_SEGMENT_UD),
             hdr + sizeof(struct fakernic_sq_ud));
    CHECK_EQ(roce_wr_data_offset(ROCE_SEGMENT_ATOMIC),
             hdr + sizeof(struct fakernic_sq_atomic));
    CHECK_EQ(roce_wr_data_offset(ROCE_SEGMENT_REG_MR),
             hdr + sizeof(struct fakernic_sq_reg_mr));
    CHECK_EQ(roce_wr_data_offset(ROCE_SEGMENT_BIND_MW),
             hdr + sizeof(struct fakernic_sq_bind_mw));
}

static void opcodes_need_their_feature(void)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        uint64_t want = 0;

        if (in(MASKED, opcode)) {
            want = FAKERNIC_FEATURE_ATOMIC_MASKED;
        } else if (in(ATOMICS, opcode)) {
            want = FAKERNIC_FEATURE_ATOMIC;
        } else if (opcode == FAKERNIC_SQ_ATOMIC_WRITE) {
            want = FAKERNIC_FEATURE_ATOMIC_WRITE;
        } else if (opcode == FAKERNIC_SQ_FLUSH) {
            want = FAKERNIC_FEATURE_FLUSH;
        }
        if (in(BIT(LOCAL_INV) | BIT(REG_MR), opcode)) {
            want |= FAKERNIC_FEATURE_FAST_REG;
        }
        if (in(BIT(LOCAL_INV) | BIT(BIND_MW), opcode)) {
            want |= FAKERNIC_FEATURE_MW;
        }
        CHECK_EQ(roce_wr_info((uint8_t)opcode)->features, want);
    }
}

static void check_counts(unsigned opcode, unsigned min, unsigned max,
                         bool inlines)
{
    const RoceWrInfo *info = roce_wr_info((uint8_t)opcode);

    for (unsigned count = 0; count < 256; count++) {
        CHECK_EQ(roce_wr_takes(info, 0, 0, count),
                 count >= min && count <= max);
        CHECK(!roce_wr_takes(info, 0, 1, count));
        CHECK_EQ(roce_wr_takes(info, FAKERNIC_SQ_INLINE, 8, count),
                 inlines && count == 0);
    }
    CHECK_EQ(roce_wr_takes(info, FAKERNIC_SQ_INLINE, 0, 0), inlines);
    CHECK_EQ(roce_wr_takes(info, FAKERNIC_SQ_INLINE, FAKERNIC_INLINE_MAX, 0),
             inlines);
    CHECK(!roce_wr_takes(info, FAKERNIC_SQ_INLINE, FAKERNIC_INLINE_MAX + 1, 0));
    CHECK(!roce_wr_takes(info, FAKERNIC_SQ_INLINE, UINT16_MAX, 0));
}

static void each_opcode_limits_sges_and_inline(void)
{
    for (unsigned opcode = 1; opcode <= FAKERNIC_SQ_NOP; opcode++) {
        bool inlines = in(SENDS | WRITES | BIT(ATOMIC_WRITE), opcode);
        unsigned min = in(ATOMICS | BIT(ATOMIC_WRITE), opcode);
        unsigned max = in(SENDS | WRITES | READS, opcode) ? FAKERNIC_SGE_MAX
                       : in(KEYS | BIT(NOP), opcode)      ? 0
                                                          : 1;

        check_counts(opcode, min, max, inlines);
    }
}

static void each_opcode_allows_its_flags(void)
{
    const uint32_t keys = BIT(SEND_IMM) | BIT(SEND_INV) | BIT(RDMA_WRITE_IMM) |
                          BIT(RDMA_READ_INV) | BIT(LOCAL_INV);
    const struct {
        unsigned flag;
        uint32_t opcodes;
    } want[] = {
        { ROCE_WR_IMM_OR_KEY, keys },
        { ROCE_WR_CONSUMES, SENDS | BIT(RDMA_WRITE_IMM) },
        { ROCE_WR_ANSWERED, READS | ATOMICS | BIT(ATOMIC_WRITE) | BIT(FLUSH) },
        { ROCE_WR_SCATTERS, READS | ATOMICS },
    };

    for (unsigned opcode = 0; opcode < 256; opcode++) {
        for (unsigned i = 0; i < TEST_COUNT(want); i++) {
            CHECK_EQ(!!(roce_wr_info((uint8_t)opcode)->flags & want[i].flag),
                     in(want[i].opcodes, opcode));
        }
    }
}

/* The CQE opcode of each work request. Unknown ones complete as a SEND. */
static void completion_opcodes(void)
{
    static const uint8_t want[] = {
        FAKERNIC_CQE_SEND, FAKERNIC_CQE_SEND, FAKERNIC_CQE_SEND,
        FAKERNIC_CQE_SEND, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_CQE_RDMA_WRITE,
        FAKERNIC_CQE_RDMA_READ, FAKERNIC_CQE_RDMA_READ, FAKERNIC_CQE_CMP_SWAP,
        FAKERNIC_CQE_FETCH_ADD, FAKERNIC_CQE_MASKED_CMP_SWAP,
        FAKERNIC_CQE_MASKED_FETCH_ADD, FAKERNIC_CQE_ATOMIC_WRITE,
        FAKERNIC_CQE_FLUSH, FAKERNIC_CQE_LOCAL_INV, FAKERNIC_CQE_REG_MR,
        FAKERNIC_CQE_BIND_MW, FAKERNIC_CQE_NOP,
    };

    for (unsigned opcode = 0; opcode < 256; opcode++) {
        CHECK_EQ(roce_wr_info((uint8_t)opcode)->cqe_opcode,
                 opcode < TEST_COUNT(want) ? want[opcode] : FAKERNIC_CQE_SEND);
    }
}

/* The packet opcode has the operation and headers of this work request. */
static void check_packet(unsigned opcode, uint8_t bth, unsigned place,
                         bool carries)
{
    const RoceOpcodeInfo *packet = roce_opcode_info(bth);
    bool imm = in(BIT(SEND_IMM) | BIT(RDMA_WRITE_IMM), opcode);

    CHECK_EQ(packet->flags & (ROCE_ONLY | ROCE_REQUEST | ROCE_RESPONSE),
             place | ROCE_REQUEST);
    CHECK_EQ(!!(packet->flags & ROCE_HAS_IMM), carries && imm);
    CHECK_EQ(!!(packet->flags & ROCE_HAS_IETH),
             carries && opcode == FAKERNIC_SQ_SEND_INV);
}

static void packets_match_the_operation(void)
{
    static const RoceOperation want[] = {
        ROCE_OP_NONE, ROCE_OP_SEND, ROCE_OP_SEND, ROCE_OP_SEND, ROCE_OP_WRITE,
        ROCE_OP_WRITE, ROCE_OP_READ_REQUEST, ROCE_OP_READ_REQUEST,
        ROCE_OP_CMP_SWAP, ROCE_OP_FETCH_ADD, ROCE_OP_MASKED_CMP_SWAP,
        ROCE_OP_MASKED_FETCH_ADD, ROCE_OP_ATOMIC_WRITE, ROCE_OP_FLUSH,
    };

    for (unsigned opcode = 1; opcode < TEST_COUNT(want); opcode++) {
        const RoceWrInfo *info = roce_wr_info((uint8_t)opcode);

        CHECK_EQ(roce_opcode_info(info->only)->operation, want[opcode]);
        check_packet(opcode, info->only, ROCE_ONLY, true);
        if (in(SENDS | WRITES, opcode)) {
            CHECK_EQ(roce_opcode_info(info->first)->operation, want[opcode]);
            CHECK_EQ(roce_opcode_info(info->middle)->operation, want[opcode]);
            CHECK_EQ(roce_opcode_info(info->last)->operation, want[opcode]);
            check_packet(opcode, info->first, ROCE_FIRST, false);
            check_packet(opcode, info->middle, 0, false);
            check_packet(opcode, info->last, ROCE_LAST, true);
        }
    }
}

/* A valid work request, which a test then changes. */
static RoceSend good(unsigned opcode)
{
    static RoceSendWr wr;

    wr = (RoceSendWr) { .opcode = (uint8_t)opcode };
    wr.sge_count = roce_wr_info((uint8_t)opcode)->sge_max > 0;
    wr.sge[0].length = 8;
    if (opcode == FAKERNIC_SQ_FLUSH) {
        wr.rdma.flush = FAKERNIC_FLUSH_GLOBAL;
    }
    return (RoceSend) { .wr = &wr };
}

static void check_refused(RoceSend send, uint8_t qp_type, uint8_t status,
                          uint16_t vendor_err)
{
    CHECK(!roce_send_check(&send, qp_type, 100));
    CHECK_EQ(send.status, status);
    CHECK_EQ(send.vendor_err, vendor_err);
    CHECK_EQ(send.length, 0);
}

static void each_service_accepts_its_opcodes(void)
{
    const uint32_t unreliable = BIT(SEND) | BIT(SEND_IMM) | BIT(NOP);
    const struct {
        uint8_t qp_type;
        uint32_t opcodes;
    } want[] = {
        { FAKERNIC_QP_RC, KNOWN },
        { FAKERNIC_QP_XRC_INI, KNOWN },
        { FAKERNIC_QP_UC, unreliable | WRITES | KEYS },
        { FAKERNIC_QP_UD, unreliable },
        { FAKERNIC_QP_GSI, unreliable },
        { FAKERNIC_QP_RAW_PACKET, BIT(SEND) | BIT(NOP) },
    };

    for (unsigned i = 0; i < TEST_COUNT(want); i++) {
        for (unsigned opcode = 0; opcode < 256; opcode++) {
            RoceSend send = good(opcode);

            if (!in(want[i].opcodes, opcode)) {
                check_refused(send, want[i].qp_type,
                              FAKERNIC_WC_LOC_QP_OP_ERR,
                              FAKERNIC_VENDOR_SQ_OPCODE);
                continue;
            }
            CHECK(roce_send_check(&send, want[i].qp_type, 100));
            CHECK_EQ(send.status, FAKERNIC_WC_SUCCESS);
            CHECK_EQ(send.length,
                     in(KEYS | BIT(NOP) | BIT(FLUSH), opcode) ? 0 : 8);
        }
    }
}

/* Checks in order: the host's error, opcode, alignment, counts, length. */
static void failed_checks_of_wrs_have_an_order(void)
{
    RoceSend send = good(FAKERNIC_SQ_ATOMIC_CMP_SWAP);

    send.wr->sge[0].length = 101;
    check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_LEN_ERR,
                  FAKERNIC_VENDOR_LENGTH);
    send.wr->sge_count = FAKERNIC_SGE_MAX + 1;
    check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_QP_OP_ERR,
                  FAKERNIC_VENDOR_SQ_FORMAT);
    send.wr->atomic.remote_address = 4;
    check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_QP_OP_ERR,
                  FAKERNIC_VENDOR_ALIGNMENT);
    check_refused(send, FAKERNIC_QP_UC, FAKERNIC_WC_LOC_QP_OP_ERR,
                  FAKERNIC_VENDOR_SQ_OPCODE);
    send.wr->format_error = FAKERNIC_VENDOR_SQ_DMA;
    check_refused(send, FAKERNIC_QP_UC, FAKERNIC_WC_LOC_QP_OP_ERR,
                  FAKERNIC_VENDOR_SQ_DMA);
}

static void lengths_are_checked(void)
{
    for (unsigned opcode = 1; opcode <= FAKERNIC_SQ_FLUSH; opcode++) {
        RoceSend send = good(opcode);
        bool eight = in(ATOMICS | BIT(ATOMIC_WRITE), opcode);

        send.wr->sge[0].length = 101;
        check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_LEN_ERR,
                      FAKERNIC_VENDOR_LENGTH);
        send.wr->sge[0].length = 100;
        if (eight) {
            check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_LEN_ERR,
                          FAKERNIC_VENDOR_ATOMIC_LENGTH);
        } else {
            CHECK(roce_send_check(&send, FAKERNIC_QP_RC, 100));
        }
    }
}

static void flush_needs_a_type(void)
{
    RoceSend send = good(FAKERNIC_SQ_FLUSH);

    send.wr->rdma.flush = FAKERNIC_FLUSH_LEVEL_MR;
    check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_QP_OP_ERR,
                  FAKERNIC_VENDOR_SQ_FORMAT);
    send.wr->rdma.flush = FAKERNIC_FLUSH_PERSISTENT | 1u << 2;
    check_refused(send, FAKERNIC_QP_RC, FAKERNIC_WC_LOC_QP_OP_ERR,
                  FAKERNIC_VENDOR_SQ_FORMAT);
    send.wr->rdma.flush = FAKERNIC_FLUSH_PERSISTENT;
    CHECK(roce_send_check(&send, FAKERNIC_QP_RC, 100));
}

static const Test tests[] = {
    TEST(known_opcodes_have_names),
    TEST(segments_match_the_data_sheet),
    TEST(data_follow_the_segment),
    TEST(opcodes_need_their_feature),
    TEST(each_opcode_limits_sges_and_inline),
    TEST(each_opcode_allows_its_flags),
    TEST(completion_opcodes),
    TEST(packets_match_the_operation),
    TEST(each_service_accepts_its_opcodes),
    TEST(failed_checks_of_wrs_have_an_order),
    TEST(lengths_are_checked),
    TEST(flush_needs_a_type),
};

TEST_MAIN(tests)
