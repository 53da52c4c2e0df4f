/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decodes the entries of a ring for tools and tests. Words name the ring, so
 * that a QOM property can select it. The answer has at most as many entries as
 * were requested.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "qapi/error.h"
#include "json.h"
#include "rings.h"
#include "objects.h"
#include "../queue/sq.h"
#include "../state.h"
#include "../../roce/wr.h"
#include "../queue/rq.h"
#include "../queue/ring.h"

#define FAKERNIC_LOOK_COUNT     16
#define FAKERNIC_LOOK_COUNT_MAX 256

static const char *const fakernic_look_kinds[] = {
    [FAKERNIC_LOOK_SQ] = "sq",
    [FAKERNIC_LOOK_RQ] = "rq",
    [FAKERNIC_LOOK_SRQ] = "srq",
    [FAKERNIC_LOOK_CQ] = "cq",
    [FAKERNIC_LOOK_EQ] = "eq",
};

/* The ring that the words name, and its owner. */
typedef struct FakernicLooked {
    FakernicLookKind kind;
    const FakernicRing *ring;
    const FakernicQp *qp;       /* of an SQ */
    uint32_t pi, ci;            /* the device's indexes */
    bool consumes;              /* the device consumes; else it produces */
} FakernicLooked;

/* ---- selection ----------------------------------------------------------- */

static bool fakernic_look_option(FakernicLook *look, const char *word)
{
    const char *value;

    if (strstart(word, "from=", &value)) {
        look->has_from = true;
        return fakernic_query_number(value, UINT32_MAX, &look->from);
    }
    return strstart(word, "count=", &value) &&
           fakernic_query_number(value, FAKERNIC_LOOK_COUNT_MAX,
                                 &look->count) &&
           look->count > 0;
}

static FakernicLookKind fakernic_look_kind(const char *word)
{
    for (unsigned i = FAKERNIC_LOOK_SQ; i <= FAKERNIC_LOOK_EQ; i++) {
        if (!strcmp(word, fakernic_look_kinds[i])) {
            return i;
        }
    }
    return FAKERNIC_LOOK_NONE;
}

static bool fakernic_look_parse(FakernicLook *look, const char *text,
                                Error **errp)
{
    g_auto(GStrv) words = g_strsplit(text, " ", 5);
    const unsigned count = g_strv_length(words);

    *look = (FakernicLook) { .count = FAKERNIC_LOOK_COUNT };
    look->kind = count ? fakernic_look_kind(words[0]) : FAKERNIC_LOOK_NONE;
    if (look->kind == FAKERNIC_LOOK_NONE || count < 2 ||
        !fakernic_query_number(words[1], UINT32_MAX, &look->number)) {
        error_setg(errp, "select a ring by 'sq', 'rq', 'srq', 'cq' or 'eq' and "
                         "its number, for example \"sq 17\"");
        return false;
    }
    for (unsigned i = 2; i < count; i++) {
        if (!fakernic_look_option(look, words[i])) {
            error_setg(errp, "'%.40s' is neither from=INDEX nor count=N, N from "
                             "1 to %u", words[i], FAKERNIC_LOOK_COUNT_MAX);
            return false;
        }
    }
    return true;
}

static bool fakernic_look_find_qp(FakernicState *s, const FakernicLook *look,
                                  FakernicLooked *found)
{
    const FakernicQp *qp = fakernic_qp_or_wq(s, look->number);

    if (!qp) {
        return false;
    }
    *found = (FakernicLooked) { .consumes = true };
    if (look->kind == FAKERNIC_LOOK_SQ) {
        found->ring = &qp->sq;
        found->qp = qp;
        found->pi = qp->sq_pi;
        found->ci = qp->sq_ci;
    } else {
        found->ring = &qp->rq;
        found->pi = qp->rq_pi;
        found->ci = qp->rq_ci;
    }
    return true;
}

static bool fakernic_look_find_srq(FakernicState *s, uint32_t number,
                                   FakernicLooked *found)
{
    const FakernicSrq *srq = fakernic_table_get(&s->srqs, number);

    if (srq) {
        *found = (FakernicLooked) {
            .ring = &srq->ring, .pi = srq->pi, .ci = srq->ci, .consumes = true,
        };
    }
    return srq;
}

static bool fakernic_look_find_cq(FakernicState *s, uint32_t number,
                                  FakernicLooked *found)
{
    const FakernicCq *cq = fakernic_table_get(&s->cqs, number);

    if (cq) {
        *found = (FakernicLooked) {
            .ring = &cq->ring, .pi = cq->pi, .ci = cq->ci,
        };
    }
    return cq;
}

static bool fakernic_look_find_eq(FakernicState *s, uint32_t number,
                                  FakernicLooked *found)
{
    const FakernicEq *eq = fakernic_table_get(&s->eqs, number);

    if (eq) {
        *found = (FakernicLooked) {
            .ring = &eq->ring, .pi = eq->pi, .ci = eq->ci,
        };
    }
    return eq;
}

static bool fakernic_look_search(FakernicState *s, const FakernicLook *look,
                                 FakernicLooked *found)
{
    switch (look->kind) {
    case FAKERNIC_LOOK_SQ:
    case FAKERNIC_LOOK_RQ:
        return fakernic_look_find_qp(s, look, found);
    case FAKERNIC_LOOK_SRQ:
        return fakernic_look_find_srq(s, look->number, found);
    case FAKERNIC_LOOK_CQ:
        return fakernic_look_find_cq(s, look->number, found);
    case FAKERNIC_LOOK_EQ:
        return fakernic_look_find_eq(s, look->number, found);
    default:
        return false;
    }
}

static bool fakernic_look_find(FakernicState *s, const FakernicLook *look,
                               FakernicLooked *found, Error **errp)
{
    if (!fakernic_query_possible(s)) {
        error_setg(errp, "the device is being reset: there are no rings");
        return false;
    }
    if (!fakernic_look_search(s, look, found) || !found->ring->pages) {
        error_setg(errp, "there is no %s %u", fakernic_look_kinds[look->kind],
                   look->number);
        return false;
    }
    found->kind = look->kind;
    return true;
}

bool fakernic_look_at(FakernicState *s, const char *words, Error **errp)
{
    FakernicLook look;
    FakernicLooked found;

    if (!fakernic_look_parse(&look, words, errp) ||
        !fakernic_look_find(s, &look, &found, errp)) {
        return false;
    }
    s->look = look;
    return true;
}

/* ---- entries ------------------------------------------------------------- */

static void fakernic_look_sges(GString *text, const RoceSge *sge,
                               unsigned count)
{
    fakernic_json_begin(text, "sges", '[');
    for (unsigned i = 0; i < count; i++) {
        fakernic_json_begin(text, NULL, '{');
        fakernic_json_number(text, "address", sge[i].address);
        fakernic_json_number(text, "length", sge[i].length);
        fakernic_json_number(text, "lkey", sge[i].lkey);
        fakernic_json_end(text, '}');
    }
    fakernic_json_end(text, ']');
}

static void fakernic_look_ud(GString *text, const RoceSendWr *wr)
{
    fakernic_json_number(text, "dest-qpn", wr->ud.dest_qpn);
    fakernic_json_number(text, "qkey", wr->ud.qkey);
    fakernic_json_hex(text, "dgid", wr->ud.av.dgid, sizeof(wr->ud.av.dgid), 2);
    fakernic_json_number(text, "sgid-index", wr->ud.av.sgid_index);
}

static void fakernic_look_atomic(GString *text, const RoceSendWr *wr)
{
    fakernic_json_number(text, "remote-address", wr->atomic.remote_address);
    fakernic_json_number(text, "rkey", wr->atomic.rkey);
    fakernic_json_number(text, "swap-or-add", wr->atomic.swap_or_add);
    fakernic_json_number(text, "compare", wr->atomic.compare);
    fakernic_json_number(text, "swap-mask-or-boundary",
                         wr->atomic.swap_mask_or_boundary);
    fakernic_json_number(text, "compare-mask", wr->atomic.compare_mask);
}

static void fakernic_look_segment(GString *text, const RoceSendWr *wr,
                                  RoceWrSegment segment)
{
    switch (segment) {
    case ROCE_SEGMENT_UD:
        fakernic_look_ud(text, wr);
        break;
    case ROCE_SEGMENT_RDMA:
        fakernic_json_number(text, "remote-address", wr->rdma.remote_address);
        fakernic_json_number(text, "rkey", wr->rdma.rkey);
        fakernic_json_number(text, "flush", wr->rdma.flush);
        break;
    case ROCE_SEGMENT_ATOMIC:
        fakernic_look_atomic(text, wr);
        break;
    case ROCE_SEGMENT_REG_MR:
        fakernic_json_number(text, "key", wr->reg_mr.key);
        fakernic_json_number(text, "iova", wr->reg_mr.iova);
        fakernic_json_number(text, "length", wr->reg_mr.length);
        fakernic_json_number(text, "access", wr->reg_mr.access);
        break;
    case ROCE_SEGMENT_BIND_MW:
        fakernic_json_number(text, "mw-key", wr->bind_mw.mw_key);
        fakernic_json_number(text, "new-key", wr->bind_mw.new_key);
        fakernic_json_number(text, "mr-key", wr->bind_mw.mr_key);
        fakernic_json_number(text, "address", wr->bind_mw.address);
        fakernic_json_number(text, "length", wr->bind_mw.length);
        fakernic_json_number(text, "access", wr->bind_mw.access);
        break;
    default:
        break;
    }
}

static void fakernic_look_wr(FakernicState *s, const FakernicQp *qp,
                             const uint8_t *wqe, unsigned blocks,
                             GString *text)
{
    const struct fakernic_sq_hdr *hdr = (const void *)wqe;
    const RoceWrInfo *info = roce_wr_info(hdr->opcode);
    g_autofree RoceSendWr *wr = g_new0(RoceSendWr, 1);
    uint16_t err = FAKERNIC_VENDOR_SQ_FORMAT;

    wr->opcode = hdr->opcode;
    wr->flags = hdr->flags;
    if (blocks) {
        err = fakernic_sq_look(s, qp, wqe, wr);
    }
    fakernic_json_word(text, "opcode", info->name ?: "?");
    fakernic_json_number(text, "flags", hdr->flags);
    fakernic_json_number(text, "blocks", hdr->bb_count);
    fakernic_json_number(text, "vendor-err", err);
    fakernic_json_number(text, "inline-length",
                         le16_to_cpu(hdr->inline_length));
    fakernic_json_number(text, "imm-or-key", le32_to_cpu(hdr->imm_or_key));
    if (!err) {
        fakernic_look_segment(text, wr, roce_wr_segment(info, qp->type));
        fakernic_look_sges(text, wr->sge, wr->sge_count);
    }
    fakernic_json_hex(text, "raw", wqe, MAX(blocks, 1) * FAKERNIC_SQ_BB_SIZE,
                      0);
}

/* Writes a send WQE; returns its entries, or 0: they cannot be read. */
static unsigned fakernic_look_send(FakernicState *s,
                                   const FakernicLooked *found, uint32_t index,
                                   GString *text)
{
    QEMU_ALIGNED(8) uint8_t wqe[FAKERNIC_SQ_WQE_SIZE_MAX];
    const struct fakernic_sq_hdr *hdr = (const void *)wqe;
    unsigned blocks;

    if (!fakernic_ring_peek(s, found->ring, index, wqe, FAKERNIC_SQ_BB_SIZE)) {
        return 0;
    }
    blocks = hdr->bb_count <= FAKERNIC_SQ_WQE_BB_MAX ? hdr->bb_count : 0;
    /* The first block is not read again: the guest may have changed it. */
    if (blocks > 1 && !fakernic_ring_peek(s, found->ring, index + 1,
                                          wqe + FAKERNIC_SQ_BB_SIZE,
                                          (blocks - 1) * FAKERNIC_SQ_BB_SIZE)) {
        return 0;
    }
    fakernic_look_wr(s, found->qp, wqe, blocks, text);
    return MAX(blocks, 1);
}

static unsigned fakernic_look_recv(FakernicState *s,
                                   const FakernicLooked *found, uint32_t index,
                                   GString *text)
{
    const size_t size = 1U << found->ring->log_entry;
    QEMU_ALIGNED(8) uint8_t slot[1U << FAKERNIC_RQ_LOG_STRIDE_MAX];
    RoceRecvWr wr;
    uint16_t err;

    if (!fakernic_ring_peek(s, found->ring, index, slot, size)) {
        return 0;
    }
    err = fakernic_rq_look(slot, found->ring->log_entry, &wr);
    fakernic_json_number(text, "tag", wr.tag);
    fakernic_json_number(text, "vendor-err", err);
    fakernic_look_sges(text, wr.sge, wr.sge_count);
    return 1;
}

static const char *const fakernic_look_statuses[] = {
    [FAKERNIC_WC_SUCCESS] = "SUCCESS",
    [FAKERNIC_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
    [FAKERNIC_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
    [FAKERNIC_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
    [FAKERNIC_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
    [FAKERNIC_WC_MW_BIND_ERR] = "MW_BIND_ERR",
    [FAKERNIC_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
    [FAKERNIC_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
    [FAKERNIC_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
    [FAKERNIC_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
    [FAKERNIC_WC_REM_OP_ERR] = "REM_OP_ERR",
    [FAKERNIC_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
    [FAKERNIC_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
    [FAKERNIC_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
    [FAKERNIC_WC_FATAL_ERR] = "FATAL_ERR",
    [FAKERNIC_WC_GENERAL_ERR] = "GENERAL_ERR",
};

static const char *const fakernic_look_completions[] = {
    [FAKERNIC_CQE_SEND] = "SEND",
    [FAKERNIC_CQE_RDMA_WRITE] = "RDMA_WRITE",
    [FAKERNIC_CQE_RDMA_READ] = "RDMA_READ",
    [FAKERNIC_CQE_CMP_SWAP] = "CMP_SWAP",
    [FAKERNIC_CQE_FETCH_ADD] = "FETCH_ADD",
    [FAKERNIC_CQE_MASKED_CMP_SWAP] = "MASKED_CMP_SWAP",
    [FAKERNIC_CQE_MASKED_FETCH_ADD] = "MASKED_FETCH_ADD",
    [FAKERNIC_CQE_ATOMIC_WRITE] = "ATOMIC_WRITE",
    [FAKERNIC_CQE_FLUSH] = "FLUSH",
    [FAKERNIC_CQE_LOCAL_INV] = "LOCAL_INV",
    [FAKERNIC_CQE_REG_MR] = "REG_MR",
    [FAKERNIC_CQE_BIND_MW] = "BIND_MW",
    [FAKERNIC_CQE_NOP] = "NOP",
    [FAKERNIC_CQE_RECV] = "RECV",
    [FAKERNIC_CQE_RECV_RDMA_IMM] = "RECV_RDMA_IMM",
};

static unsigned fakernic_look_completion(FakernicState *s,
                                         const FakernicLooked *found,
                                         uint32_t index, GString *text)
{
    struct fakernic_cqe cqe;

    if (!fakernic_ring_peek(s, found->ring, index, &cqe, sizeof(cqe))) {
        return 0;
    }
    fakernic_json_name(text, "opcode", fakernic_look_completions,
                       ARRAY_SIZE(fakernic_look_completions), cqe.opcode);
    fakernic_json_name(text, "status", fakernic_look_statuses,
                       ARRAY_SIZE(fakernic_look_statuses), cqe.status);
    fakernic_json_number(text, "vendor-err", le16_to_cpu(cqe.vendor_err));
    fakernic_json_number(text, "qpn", le32_to_cpu(cqe.qpn));
    fakernic_json_number(text, "wqe-index", le32_to_cpu(cqe.wqe_index));
    fakernic_json_number(text, "byte-count", le32_to_cpu(cqe.byte_count));
    fakernic_json_number(text, "imm-or-key", le32_to_cpu(cqe.imm_or_key));
    fakernic_json_number(text, "src-qpn", le32_to_cpu(cqe.src_qpn));
    fakernic_json_number(text, "srqn", le32_to_cpu(cqe.srqn));
    fakernic_json_number(text, "flags", cqe.flags);
    fakernic_json_number(text, "timestamp", le64_to_cpu(cqe.timestamp));
    fakernic_json_number(text, "owner", cqe.owner & 1);
    return 1;
}

static const char *const fakernic_look_events[] = {
    [FAKERNIC_EVENT_NONE] = "NONE",
    [FAKERNIC_EVENT_COMPLETION] = "COMPLETION",
    [FAKERNIC_EVENT_CQ_ERROR] = "CQ_ERROR",
    [FAKERNIC_EVENT_QP_FATAL] = "QP_FATAL",
    [FAKERNIC_EVENT_QP_REQUEST_ERROR] = "QP_REQUEST_ERROR",
    [FAKERNIC_EVENT_QP_ACCESS_ERROR] = "QP_ACCESS_ERROR",
    [FAKERNIC_EVENT_COMM_ESTABLISHED] = "COMM_ESTABLISHED",
    [FAKERNIC_EVENT_SQ_DRAINED] = "SQ_DRAINED",
    [FAKERNIC_EVENT_PATH_MIGRATED] = "PATH_MIGRATED",
    [FAKERNIC_EVENT_PATH_MIGRATION_ERROR] = "PATH_MIGRATION_ERROR",
    [FAKERNIC_EVENT_LAST_WQE_REACHED] = "LAST_WQE_REACHED",
    [FAKERNIC_EVENT_SRQ_ERROR] = "SRQ_ERROR",
    [FAKERNIC_EVENT_SRQ_LIMIT] = "SRQ_LIMIT",
    [FAKERNIC_EVENT_PORT_ACTIVE] = "PORT_ACTIVE",
    [FAKERNIC_EVENT_PORT_ERROR] = "PORT_ERROR",
    [FAKERNIC_EVENT_DEVICE_FATAL] = "DEVICE_FATAL",
    [FAKERNIC_EVENT_PAGE_REQUEST] = "PAGE_REQUEST",
    [FAKERNIC_EVENT_PORT_CHANGED] = "PORT_CHANGED",
};

static unsigned fakernic_look_event(FakernicState *s,
                                    const FakernicLooked *found, uint32_t index,
                                    GString *text)
{
    struct fakernic_eqe eqe;

    if (!fakernic_ring_peek(s, found->ring, index, &eqe, sizeof(eqe))) {
        return 0;
    }
    fakernic_json_name(text, "type", fakernic_look_events,
                       ARRAY_SIZE(fakernic_look_events), eqe.type);
    fakernic_json_number(text, "id", le32_to_cpu(eqe.id));
    fakernic_json_number(text, "data", le32_to_cpu(eqe.data));
    fakernic_json_number(text, "owner", eqe.owner & 1);
    return 1;
}

static unsigned fakernic_look_entry(FakernicState *s,
                                    const FakernicLooked *found, uint32_t index,
                                    GString *text)
{
    switch (found->kind) {
    case FAKERNIC_LOOK_SQ:
        return fakernic_look_send(s, found, index, text);
    case FAKERNIC_LOOK_CQ:
        return fakernic_look_completion(s, found, index, text);
    case FAKERNIC_LOOK_EQ:
        return fakernic_look_event(s, found, index, text);
    default:
        return fakernic_look_recv(s, found, index, text);
    }
}

/* ---- the ring ------------------------------------------------------------ */

/*
 * The range of entries: as requested, else those that the device fetches next
 * or wrote last. 'record' is the host's index in the doorbell record.
 */
static void fakernic_look_range(const FakernicLook *look,
                                const FakernicLooked *found, uint32_t record,
                                uint32_t *first, uint32_t *count)
{
    const uint32_t most = MIN(look->count, found->ring->depth);
    uint32_t there = MIN(found->pi, most);

    *first = look->from;
    *count = most;
    if (look->has_from) {
        return;
    }
    if (found->consumes) {
        there = look->kind == FAKERNIC_LOOK_SQ ? found->pi - found->ci
                                               : record - found->ci;
        *count = there > found->ring->depth ? 0 : MIN(there, most);
        *first = found->ci;
    } else {
        *count = there;
        *first = found->pi - there;
    }
}

static bool fakernic_look_entries(FakernicState *s, const FakernicLooked *found,
                                  uint32_t first, uint32_t count,
                                  GString *text)
{
    for (uint32_t done = 0; done < count;) {
        unsigned taken;

        fakernic_json_begin(text, NULL, '{');
        fakernic_json_number(text, "index", first + done);
        taken = fakernic_look_entry(s, found, first + done, text);
        fakernic_json_end(text, '}');
        if (!taken) {
            return false;
        }
        done += taken;
    }
    return true;
}

static char *fakernic_look_ring(FakernicState *s, const FakernicLook *look,
                                Error **errp)
{
    g_autoptr(GString) text = g_string_new("{");
    FakernicLooked found;
    uint32_t record, first, count;
    bool reached;

    if (!fakernic_look_find(s, look, &found, errp)) {
        return NULL;
    }
    reached = fakernic_ring_peek_record(s, found.ring, &record);
    if (reached) {
        fakernic_json_word(text, "ring", fakernic_look_kinds[look->kind]);
        fakernic_json_number(text, "number", look->number);
        if (look->has_from) {
            fakernic_json_number(text, "from", look->from);
        }
        fakernic_json_number(text, "count", look->count);
        fakernic_json_number(text, "depth", found.ring->depth);
        fakernic_json_number(text, "pi", found.pi);
        fakernic_json_number(text, "ci", found.ci);
        fakernic_json_number(text, "record", record);
        fakernic_look_range(look, &found, record, &first, &count);
        fakernic_json_begin(text, "entries", '[');
        reached = fakernic_look_entries(s, &found, first, count, text);
        fakernic_json_end(text, ']');
    }
    if (!reached) {
        error_setg(errp, "the device cannot access the memory of %s %u",
                   fakernic_look_kinds[look->kind], look->number);
        return NULL;
    }
    fakernic_json_end(text, '}');
    return g_string_free(g_steal_pointer(&text), false);
}

char *fakernic_look(FakernicState *s, Error **errp)
{
    if (s->look.kind == FAKERNIC_LOOK_NONE) {
        error_setg(errp, "select a ring first, for example \"sq 17\"");
        return NULL;
    }
    return fakernic_look_ring(s, &s->look, errp);
}

char *fakernic_look_words(FakernicState *s, const char *words, Error **errp)
{
    FakernicLook look;

    return fakernic_look_parse(&look, words, errp)
               ? fakernic_look_ring(s, &look, errp) : NULL;
}
