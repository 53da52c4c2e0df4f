/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of send work requests, and the checks that all services share:
 * format, opcode, counts, alignment and length. The caller checks memory,
 * because only the caller knows how it is used.
 */
#include "engine.h"

#include "fakernic/regs.h"

#define ALL        ROCE_WR_SERVICES
#define RELIABLE   ROCE_WR_RELIABLE
#define CONNECTED  (ROCE_WR_RELIABLE | ROCE_WR_UC)
#define INLINE     ROCE_WR_INLINE
#define IMM_OR_KEY ROCE_WR_IMM_OR_KEY
#define CONSUMES   ROCE_WR_CONSUMES
#define ANSWERED   ROCE_WR_ANSWERED
#define SCATTERS   ROCE_WR_SCATTERS

#define FEATURE(name) FAKERNIC_FEATURE_##name

#define ROW(code, knd, seg, set, min, max, cqe, packets)                    \
    [FAKERNIC_SQ_##code] = { .name = #code, .kind = ROCE_KIND_##knd,       \
                             .segment = ROCE_SEGMENT_##seg,                \
                             .flags = (set), .sge_min = (min),             \
                             .sge_max = (max),                             \
                             .cqe_opcode = FAKERNIC_CQE_##cqe, packets }

/*
 * Packets of a SEND or WRITE; 'x' is what the last and the only packet carry.
 */
#define PACKETS(base, x)                                                    \
    .first = ROCE_BTH_##base##_FIRST, .middle = ROCE_BTH_##base##_MIDDLE,   \
    .last = ROCE_BTH_##base##_LAST##x, .only = ROCE_BTH_##base##_ONLY##x
#define PACKET(operation, feature)                                          \
    .only = ROCE_BTH_##operation, .features = (feature)
#define LOCAL(feature) .features = (feature)

#define MANY FAKERNIC_SGE_MAX

static const RoceWrInfo roce_wrs[] = {
    [0] = { .cqe_opcode = FAKERNIC_CQE_SEND },
    ROW(SEND, SEND, NONE, ALL | INLINE | CONSUMES, 0, MANY, SEND,
        PACKETS(SEND, )),
    ROW(SEND_IMM, SEND, NONE,
        CONNECTED | ROCE_WR_DATAGRAM | INLINE | IMM_OR_KEY | CONSUMES,
        0, MANY, SEND,
        PACKETS(SEND, _IMM)),
    ROW(SEND_INV, SEND, NONE, RELIABLE | INLINE | IMM_OR_KEY | CONSUMES,
        0, MANY, SEND,
        PACKETS(SEND, _INV)),
    ROW(RDMA_WRITE, WRITE, RDMA, CONNECTED | INLINE, 0, MANY, RDMA_WRITE,
        PACKETS(WRITE, )),
    ROW(RDMA_WRITE_IMM, WRITE, RDMA,
        CONNECTED | INLINE | IMM_OR_KEY | CONSUMES, 0, MANY, RDMA_WRITE,
        PACKETS(WRITE, _IMM)),
    ROW(RDMA_READ, READ, RDMA, RELIABLE | ANSWERED | SCATTERS,
        0, MANY, RDMA_READ,
        PACKET(READ_REQUEST, 0)),
    ROW(RDMA_READ_INV, READ, RDMA, RELIABLE | ANSWERED | SCATTERS | IMM_OR_KEY,
        0, MANY, RDMA_READ,
        PACKET(READ_REQUEST, 0)),
    ROW(ATOMIC_CMP_SWAP, ATOMIC, ATOMIC, RELIABLE | ANSWERED | SCATTERS,
        1, 1, CMP_SWAP,
        PACKET(CMP_SWAP, FEATURE(ATOMIC))),
    ROW(ATOMIC_FETCH_ADD, ATOMIC, ATOMIC, RELIABLE | ANSWERED | SCATTERS,
        1, 1, FETCH_ADD,
        PACKET(FETCH_ADD, FEATURE(ATOMIC))),
    ROW(ATOMIC_MASKED_CMP_SWAP, ATOMIC, ATOMIC, RELIABLE | ANSWERED | SCATTERS,
        1, 1, MASKED_CMP_SWAP,
        PACKET(MASKED_CMP_SWAP, FEATURE(ATOMIC_MASKED))),
    ROW(ATOMIC_MASKED_FETCH_ADD, ATOMIC, ATOMIC, RELIABLE | ANSWERED | SCATTERS,
        1, 1, MASKED_FETCH_ADD,
        PACKET(MASKED_FETCH_ADD, FEATURE(ATOMIC_MASKED))),
    ROW(ATOMIC_WRITE, ATOMIC_WRITE, RDMA, RELIABLE | ANSWERED | INLINE,
        1, 1, ATOMIC_WRITE,
        PACKET(ATOMIC_WRITE, FEATURE(ATOMIC_WRITE))),
    ROW(FLUSH, FLUSH, RDMA, RELIABLE | ANSWERED, 0, 1, FLUSH,
        PACKET(FLUSH, FEATURE(FLUSH))),
    ROW(LOCAL_INV, LOCAL, NONE, CONNECTED | IMM_OR_KEY, 0, 0, LOCAL_INV,
        LOCAL(FEATURE(FAST_REG) | FEATURE(MW))),
    ROW(REG_MR, LOCAL, REG_MR, CONNECTED, 0, 0, REG_MR,
        LOCAL(FEATURE(FAST_REG))),
    ROW(BIND_MW, LOCAL, BIND_MW, CONNECTED, 0, 0, BIND_MW,
        LOCAL(FEATURE(MW))),
    ROW(NOP, LOCAL, NONE, ALL, 0, 0, NOP,
        LOCAL(0)),
};

const RoceWrInfo *roce_wr_info(uint8_t opcode)
{
    return &roce_wrs[opcode < sizeof(roce_wrs) / sizeof(roce_wrs[0]) ? opcode
                                                                     : 0];
}

static unsigned roce_wr_service(uint8_t qp_type)
{
    switch (qp_type) {
    case FAKERNIC_QP_UC:
        return ROCE_WR_UC;
    case FAKERNIC_QP_UD:
    case FAKERNIC_QP_GSI:
        return ROCE_WR_DATAGRAM;
    case FAKERNIC_QP_RAW_PACKET:
        return ROCE_WR_RAW;
    default:
        return ROCE_WR_RELIABLE;
    }
}

RoceWrSegment roce_wr_segment(const RoceWrInfo *info, uint8_t qp_type)
{
    if (info->kind == ROCE_KIND_SEND &&
        roce_wr_service(qp_type) == ROCE_WR_DATAGRAM) {
        return ROCE_SEGMENT_UD;
    }
    return info->segment;
}

unsigned roce_wr_data_offset(RoceWrSegment segment)
{
    switch (segment) {
    case ROCE_SEGMENT_NONE:
        return FAKERNIC_SQ_DATA_OFFSET_SEND;
    case ROCE_SEGMENT_RDMA:
        return FAKERNIC_SQ_DATA_OFFSET_RDMA;
    case ROCE_SEGMENT_ATOMIC:
        return FAKERNIC_SQ_DATA_OFFSET_ATOMIC;
    default:
        return FAKERNIC_SQ_DATA_OFFSET_UD;
    }
}

bool roce_wr_takes(const RoceWrInfo *info, uint8_t flags,
                   unsigned inline_length, unsigned sge_count)
{
    if (flags & FAKERNIC_SQ_INLINE) {
        return info->flags & ROCE_WR_INLINE && sge_count == 0 &&
               inline_length <= FAKERNIC_INLINE_MAX;
    }
    return inline_length == 0 && sge_count >= info->sge_min &&
           sge_count <= info->sge_max;
}

bool roce_send_refuse(RoceSend *send, uint8_t status, uint16_t vendor_err)
{
    send->status = status;
    send->vendor_err = vendor_err;
    return false;
}

/* The host has checked the WQE's counts; these are the engine's own limits. */
static bool roce_wr_fits(const RoceWrInfo *info, const RoceSendWr *wr)
{
    if (wr->flags & FAKERNIC_SQ_INLINE) {
        return info->flags & ROCE_WR_INLINE &&
               wr->inline_length <= FAKERNIC_INLINE_MAX;
    }
    return wr->sge_count <= FAKERNIC_SGE_MAX;
}

static bool roce_wr_aligned(const RoceWrInfo *info, const RoceSendWr *wr)
{
    switch (info->kind) {
    case ROCE_KIND_ATOMIC:
        return wr->atomic.remote_address % 8 == 0;
    case ROCE_KIND_ATOMIC_WRITE:
        return wr->rdma.remote_address % 8 == 0;
    default:
        return true;
    }
}

/* FLUSH needs at least one of two types. */
static bool roce_wr_flush_valid(const RoceSendWr *wr)
{
    const uint32_t types = FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_PERSISTENT;

    return wr->rdma.flush & types &&
           !(wr->rdma.flush & ~(types | FAKERNIC_FLUSH_LEVEL_MR));
}

bool roce_send_check(RoceSend *send, uint8_t qp_type, uint64_t longest)
{
    const RoceSendWr *wr = send->wr;
    const RoceWrInfo *info = roce_wr_info(wr->opcode);
    uint64_t length;

    if (wr->format_error) {
        return roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                                wr->format_error);
    }
    if (wr->forced_status) {
        return roce_send_refuse(send, wr->forced_status, wr->forced_error);
    }
    if (!(info->flags & roce_wr_service(qp_type))) {
        return roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                                FAKERNIC_VENDOR_SQ_OPCODE);
    }
    if (info->kind == ROCE_KIND_LOCAL) {
        return true;
    }
    if (!roce_wr_aligned(info, wr)) {
        return roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                                FAKERNIC_VENDOR_ALIGNMENT);
    }
    if (!roce_wr_fits(info, wr) ||
        (info->kind == ROCE_KIND_FLUSH && !roce_wr_flush_valid(wr))) {
        return roce_send_refuse(send, FAKERNIC_WC_LOC_QP_OP_ERR,
                                FAKERNIC_VENDOR_SQ_FORMAT);
    }
    length = wr->flags & FAKERNIC_SQ_INLINE
                 ? wr->inline_length
                 : roce_sge_total(wr->sge, wr->sge_count);
    if (length > longest) {
        return roce_send_refuse(send, FAKERNIC_WC_LOC_LEN_ERR,
                                FAKERNIC_VENDOR_LENGTH);
    }
    if ((info->kind == ROCE_KIND_ATOMIC ||
         info->kind == ROCE_KIND_ATOMIC_WRITE) && length != 8) {
        return roce_send_refuse(send, FAKERNIC_WC_LOC_LEN_ERR,
                                FAKERNIC_VENDOR_ATOMIC_LENGTH);
    }
    /* The SGE of a FLUSH contains the length of its range; it moves no data. */
    send->length = info->kind == ROCE_KIND_FLUSH ? 0 : (uint32_t)length;
    return true;
}

/* ---- saving and loading -------------------------------------------------- */

void roce_av_transfer(RoceStream *s, RoceAv *av)
{
    roce_stream_bytes(s, av->dgid, sizeof(av->dgid));
    roce_stream_bytes(s, av->dmac, sizeof(av->dmac));
    ROCE_FIELD(s, av->sgid_index);
    ROCE_FIELD(s, av->flow_label);
    ROCE_FIELD(s, av->traffic_class);
    ROCE_FIELD(s, av->hop_limit);
    ROCE_FIELD(s, av->sl);
    ROCE_FIELD(s, av->static_rate);
    ROCE_FIELD(s, av->udp_sport);
}

void roce_sge_transfer(RoceStream *s, RoceSge *sge)
{
    ROCE_FIELD(s, sge->address);
    ROCE_FIELD(s, sge->length);
    ROCE_FIELD(s, sge->lkey);
}

/* An executed REG_MR has no list of pages any more. */
static void wr_reg_mr_transfer(RoceStream *s, RoceSendWr *wr)
{
    bool pages = !s->loads && wr->reg_mr.pages;

    ROCE_FIELD(s, wr->reg_mr.iova);
    ROCE_FIELD(s, wr->reg_mr.length);
    ROCE_FIELD(s, wr->reg_mr.key);
    ROCE_FIELD(s, wr->reg_mr.access);
    ROCE_FIELD(s, wr->reg_mr.page_count);
    ROCE_FIELD(s, wr->reg_mr.page_shift);
    ROCE_FIELD(s, pages);
    if (pages) {
        roce_stream_list(s, &wr->reg_mr.pages, wr->reg_mr.page_count);
    }
}

static void wr_segment_transfer(RoceStream *s, RoceSendWr *wr,
                                RoceWrSegment segment)
{
    switch (segment) {
    case ROCE_SEGMENT_NONE:
        break;
    case ROCE_SEGMENT_RDMA:
        ROCE_FIELD(s, wr->rdma.remote_address);
        ROCE_FIELD(s, wr->rdma.rkey);
        ROCE_FIELD(s, wr->rdma.flush);
        break;
    case ROCE_SEGMENT_ATOMIC:
        ROCE_FIELD(s, wr->atomic.remote_address);
        ROCE_FIELD(s, wr->atomic.rkey);
        ROCE_FIELD(s, wr->atomic.swap_or_add);
        ROCE_FIELD(s, wr->atomic.compare);
        ROCE_FIELD(s, wr->atomic.swap_mask_or_boundary);
        ROCE_FIELD(s, wr->atomic.compare_mask);
        break;
    case ROCE_SEGMENT_UD:
        roce_av_transfer(s, &wr->ud.av);
        ROCE_FIELD(s, wr->ud.dest_qpn);
        ROCE_FIELD(s, wr->ud.qkey);
        break;
    case ROCE_SEGMENT_REG_MR:
        wr_reg_mr_transfer(s, wr);
        break;
    case ROCE_SEGMENT_BIND_MW:
        ROCE_FIELD(s, wr->bind_mw.address);
        ROCE_FIELD(s, wr->bind_mw.length);
        ROCE_FIELD(s, wr->bind_mw.mw_key);
        ROCE_FIELD(s, wr->bind_mw.new_key);
        ROCE_FIELD(s, wr->bind_mw.mr_key);
        ROCE_FIELD(s, wr->bind_mw.access);
        break;
    }
}

void roce_send_wr_transfer(RoceStream *s, RoceSendWr *wr, uint8_t qp_type)
{
    ROCE_FIELD(s, wr->index);
    ROCE_FIELD(s, wr->opcode);
    ROCE_FIELD(s, wr->flags);
    ROCE_FIELD(s, wr->format_error);
    if (wr->format_error) {
        return;                 /* nothing else is valid */
    }
    ROCE_FIELD(s, wr->sge_count);
    ROCE_FIELD(s, wr->inline_length);
    ROCE_FIELD(s, wr->mss);
    ROCE_FIELD(s, wr->forced_status);
    ROCE_FIELD(s, wr->forced_error);
    ROCE_FIELD(s, wr->imm_or_key);
    ROCE_FIELD(s, wr->xrc_srqn);
    ROCE_CHECK(s, wr->sge_count <= FAKERNIC_SGE_MAX &&
                      wr->inline_length <= FAKERNIC_INLINE_MAX,
               "size of a work request");
    wr_segment_transfer(s, wr, roce_wr_segment(roce_wr_info(wr->opcode),
                                               qp_type));
    if (wr->flags & FAKERNIC_SQ_INLINE && !s->failed) {
        roce_stream_bytes(s, wr->inline_data, wr->inline_length);
        return;
    }
    for (unsigned i = 0; i < wr->sge_count && !s->failed; i++) {
        roce_sge_transfer(s, &wr->sge[i]);
    }
}
