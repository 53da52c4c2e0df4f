/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command queue (fakernic/cmdq.h): reads requests from the submission ring,
 * writes one completion each to the completion ring, then raises vector 0.
 *
 * The device copies a request once and checks the copy. This file checks what
 * all commands have in common: opcode, feature, reserved fields, and zeros
 * after the request. The files of the commands check the rest.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "../budget.h"
#include "../card.h"
#include "../clock.h"
#include "cmd.h"
#include "cmdq.h"
#include "../dma.h"
#include "../queue/interrupt.h"
#include "../life.h"
#include "../objects.h"
#include "../state.h"
#include "../fault/gate.h"
#include "../../trace.h"

#define FAKERNIC_CMD_RSVD_FIELDS 5
#define FAKERNIC_COMMANDS_PER_TURN 8

/* The position of a reserved field in the payload. */
typedef struct FakernicField {
    uint8_t offset;
    uint8_t size;
} FakernicField;

typedef struct FakernicCmd {
    const char *name;           /* NULL: no such opcode */
    FakernicCmdFn *execute;     /* NULL: not in this version */
    uint64_t feature;           /* 0: always there */
    uint8_t request_size;
    FakernicField rsvd[FAKERNIC_CMD_RSVD_FIELDS];
} FakernicCmd;

#define RSVD(request, field) \
    { offsetof(request, field), sizeof_field(request, field) }
#define ID_REQUEST \
    .request_size = sizeof(struct fakernic_id), \
    .rsvd = { RSVD(struct fakernic_id, rsvd) }

static const FakernicCmd fakernic_commands[] = {
    [FAKERNIC_CMD_NOP] = {
        "NOP", fakernic_run_nop, .request_size = FAKERNIC_CMD_PAYLOAD,
    },
    [FAKERNIC_CMD_QUERY_DEVICE] = {
        "QUERY_DEVICE", fakernic_run_query_device,
    },
    [FAKERNIC_CMD_QUERY_PORT] = {
        "QUERY_PORT", fakernic_run_query_port,
    },
    [FAKERNIC_CMD_SET_PORT] = {
        "SET_PORT", fakernic_run_set_port,
        .request_size = sizeof(struct fakernic_set_port_req),
        .rsvd = { RSVD(struct fakernic_set_port_req, rsvd) },
    },
    [FAKERNIC_CMD_QUERY_STATS] = {
        "QUERY_STATS", fakernic_run_query_stats,
        .request_size = sizeof(struct fakernic_query_stats_req),
        .rsvd = { RSVD(struct fakernic_query_stats_req, rsvd) },
    },
    [FAKERNIC_CMD_SET_GID] = {
        "SET_GID", fakernic_run_set_gid,
        .request_size = sizeof(struct fakernic_set_gid_req),
        .rsvd = { RSVD(struct fakernic_set_gid_req, rsvd),
                  RSVD(struct fakernic_set_gid_req, rsvd2) },
    },
    [FAKERNIC_CMD_SET_PKEY] = { "SET_PKEY" },
    [FAKERNIC_CMD_CREATE_EQ] = {
        "CREATE_EQ", fakernic_run_create_eq,
        .request_size = sizeof(struct fakernic_create_eq_req),
        .rsvd = { RSVD(struct fakernic_create_eq_req, rsvd),
                  RSVD(struct fakernic_create_eq_req, rsvd2) },
    },
    [FAKERNIC_CMD_DESTROY_EQ] = {
        "DESTROY_EQ", fakernic_run_destroy_eq, ID_REQUEST,
    },
    [FAKERNIC_CMD_CREATE_CQ] = {
        "CREATE_CQ", fakernic_run_create_cq,
        .request_size = sizeof(struct fakernic_create_cq_req),
        .rsvd = { RSVD(struct fakernic_create_cq_req, rsvd),
                  RSVD(struct fakernic_create_cq_req, rsvd2) },
    },
    [FAKERNIC_CMD_DESTROY_CQ] = {
        "DESTROY_CQ", fakernic_run_destroy_cq, ID_REQUEST,
    },
    [FAKERNIC_CMD_RESIZE_CQ] = {
        "RESIZE_CQ", fakernic_run_resize_cq, FAKERNIC_FEATURE_RESIZE_CQ,
        .request_size = sizeof(struct fakernic_resize_cq_req),
        .rsvd = { RSVD(struct fakernic_resize_cq_req, rsvd) },
    },
    [FAKERNIC_CMD_MODIFY_CQ] = {
        "MODIFY_CQ", fakernic_run_modify_cq, FAKERNIC_FEATURE_CQ_MODERATION,
        .request_size = sizeof(struct fakernic_modify_cq_req),
    },
    [FAKERNIC_CMD_ALLOC_PD] = { "ALLOC_PD", fakernic_run_alloc_pd },
    [FAKERNIC_CMD_DEALLOC_PD] = {
        "DEALLOC_PD", fakernic_run_dealloc_pd, ID_REQUEST,
    },
    [FAKERNIC_CMD_ALLOC_XRCD] = {
        "ALLOC_XRCD", fakernic_run_alloc_xrcd, FAKERNIC_FEATURE_XRC,
    },
    [FAKERNIC_CMD_DEALLOC_XRCD] = {
        "DEALLOC_XRCD", fakernic_run_dealloc_xrcd, FAKERNIC_FEATURE_XRC,
        ID_REQUEST,
    },
    [FAKERNIC_CMD_ALLOC_UAR] = { "ALLOC_UAR", fakernic_run_alloc_uar },
    [FAKERNIC_CMD_DEALLOC_UAR] = {
        "DEALLOC_UAR", fakernic_run_dealloc_uar, ID_REQUEST,
    },
    [FAKERNIC_CMD_CREATE_MR] = {
        "CREATE_MR", fakernic_run_create_mr,
        .request_size = sizeof(struct fakernic_create_mr_req),
        .rsvd = { RSVD(struct fakernic_create_mr_req, rsvd) },
    },
    [FAKERNIC_CMD_DESTROY_MR] = {
        "DESTROY_MR", fakernic_run_destroy_mr, ID_REQUEST,
    },
    [FAKERNIC_CMD_REREG_MR] = {
        "REREG_MR", fakernic_run_rereg_mr, FAKERNIC_FEATURE_REREG_MR,
        .request_size = sizeof(struct fakernic_rereg_mr_req),
    },
    [FAKERNIC_CMD_CREATE_MW] = {
        "CREATE_MW", fakernic_run_create_mw, FAKERNIC_FEATURE_MW,
        .request_size = sizeof(struct fakernic_create_mw_req),
        .rsvd = { RSVD(struct fakernic_create_mw_req, rsvd) },
    },
    [FAKERNIC_CMD_DESTROY_MW] = {
        "DESTROY_MW", fakernic_run_destroy_mw, FAKERNIC_FEATURE_MW, ID_REQUEST,
    },
    [FAKERNIC_CMD_CREATE_QP] = {
        "CREATE_QP", fakernic_run_create_qp,
        .request_size = sizeof(struct fakernic_create_qp_req),
        .rsvd = { RSVD(struct fakernic_create_qp_req, rsvd) },
    },
    [FAKERNIC_CMD_DESTROY_QP] = {
        "DESTROY_QP", fakernic_run_destroy_qp, ID_REQUEST,
    },
    [FAKERNIC_CMD_MODIFY_QP] = {
        "MODIFY_QP", fakernic_run_modify_qp,
        .request_size = sizeof(struct fakernic_modify_qp_req),
        .rsvd = { RSVD(struct fakernic_modify_qp_req, attr.rsvd),
                  /* two fields in a row */
                  { offsetof(struct fakernic_modify_qp_req, attr.av.rsvd), 6 },
                  { offsetof(struct fakernic_modify_qp_req, attr.alt_av.rsvd),
                    6 },
                  RSVD(struct fakernic_modify_qp_req, attr.rsvd2) },
    },
    [FAKERNIC_CMD_QUERY_QP] = {
        "QUERY_QP", fakernic_run_query_qp, ID_REQUEST,
    },
    [FAKERNIC_CMD_CREATE_SRQ] = {
        "CREATE_SRQ", fakernic_run_create_srq, FAKERNIC_FEATURE_SRQ,
        .request_size = sizeof(struct fakernic_create_srq_req),
        .rsvd = { RSVD(struct fakernic_create_srq_req, rsvd),
                  RSVD(struct fakernic_create_srq_req, rsvd2) },
    },
    [FAKERNIC_CMD_DESTROY_SRQ] = {
        "DESTROY_SRQ", fakernic_run_destroy_srq, FAKERNIC_FEATURE_SRQ,
        ID_REQUEST,
    },
    [FAKERNIC_CMD_MODIFY_SRQ] = {
        "MODIFY_SRQ", fakernic_run_modify_srq, FAKERNIC_FEATURE_SRQ,
        .request_size = sizeof(struct fakernic_modify_srq_req),
        .rsvd = { RSVD(struct fakernic_modify_srq_req, rsvd),
                  RSVD(struct fakernic_modify_srq_req, rsvd2) },
    },
    [FAKERNIC_CMD_QUERY_SRQ] = {
        "QUERY_SRQ", fakernic_run_query_srq, FAKERNIC_FEATURE_SRQ, ID_REQUEST,
    },
    [FAKERNIC_CMD_ATTACH_MCAST] = {
        "ATTACH_MCAST", fakernic_run_attach_mcast, FAKERNIC_FEATURE_MCAST,
        .request_size = sizeof(struct fakernic_mcast_req),
        .rsvd = { RSVD(struct fakernic_mcast_req, rsvd) },
    },
    [FAKERNIC_CMD_DETACH_MCAST] = {
        "DETACH_MCAST", fakernic_run_detach_mcast, FAKERNIC_FEATURE_MCAST,
        .request_size = sizeof(struct fakernic_mcast_req),
        .rsvd = { RSVD(struct fakernic_mcast_req, rsvd) },
    },
    [FAKERNIC_CMD_CREATE_FLOW] = {
        "CREATE_FLOW", fakernic_run_create_flow, FAKERNIC_FEATURE_FLOW,
        .request_size = sizeof(struct fakernic_create_flow_req),
        .rsvd = { RSVD(struct fakernic_create_flow_req, rsvd),
                  RSVD(struct fakernic_create_flow_req, value.rsvd),
                  RSVD(struct fakernic_create_flow_req, mask.rsvd) },
    },
    [FAKERNIC_CMD_DESTROY_FLOW] = {
        "DESTROY_FLOW", fakernic_run_destroy_flow, FAKERNIC_FEATURE_FLOW,
        ID_REQUEST,
    },
    [FAKERNIC_CMD_CREATE_WQ] = {
        "CREATE_WQ", fakernic_run_create_wq, FAKERNIC_FEATURE_WQ_RSS,
        .request_size = sizeof(struct fakernic_create_wq_req),
        .rsvd = { RSVD(struct fakernic_create_wq_req, rsvd),
                  RSVD(struct fakernic_create_wq_req, rsvd2) },
    },
    [FAKERNIC_CMD_DESTROY_WQ] = {
        "DESTROY_WQ", fakernic_run_destroy_wq, FAKERNIC_FEATURE_WQ_RSS,
        ID_REQUEST,
    },
    [FAKERNIC_CMD_MODIFY_WQ] = {
        "MODIFY_WQ", fakernic_run_modify_wq, FAKERNIC_FEATURE_WQ_RSS,
        .request_size = sizeof(struct fakernic_modify_wq_req),
        .rsvd = { RSVD(struct fakernic_modify_wq_req, rsvd) },
    },
    [FAKERNIC_CMD_CREATE_IND_TABLE] = {
        "CREATE_IND_TABLE", fakernic_run_create_ind_table,
        FAKERNIC_FEATURE_WQ_RSS,
        .request_size = sizeof(struct fakernic_create_ind_table_req),
        .rsvd = { RSVD(struct fakernic_create_ind_table_req, rsvd) },
    },
    [FAKERNIC_CMD_DESTROY_IND_TABLE] = {
        "DESTROY_IND_TABLE", fakernic_run_destroy_ind_table,
        FAKERNIC_FEATURE_WQ_RSS, ID_REQUEST,
    },
    [FAKERNIC_CMD_CREATE_RSS_QP] = {
        "CREATE_RSS_QP", fakernic_run_create_rss_qp,
        FAKERNIC_FEATURE_WQ_RSS | FAKERNIC_FEATURE_RAW_PACKET,
        .request_size = sizeof(struct fakernic_create_rss_qp_req),
        .rsvd = { RSVD(struct fakernic_create_rss_qp_req, rsvd) },
    },
    [FAKERNIC_CMD_RSVD_DM] = { "DM" },
    [FAKERNIC_CMD_QUERY_PAGE_REQUESTS] = {
        "QUERY_PAGE_REQUESTS", fakernic_run_query_page_requests,
        FAKERNIC_FEATURE_ODP,
    },
    [FAKERNIC_CMD_UPDATE_PAGES] = {
        "UPDATE_PAGES", fakernic_run_update_pages, FAKERNIC_FEATURE_ODP,
        .request_size = sizeof(struct fakernic_update_pages_req),
    },
    [FAKERNIC_CMD_CREATE_COUNTER] = {
        "CREATE_COUNTER", fakernic_run_create_counter,
        FAKERNIC_FEATURE_COUNTERS,
    },
    [FAKERNIC_CMD_DESTROY_COUNTER] = {
        "DESTROY_COUNTER", fakernic_run_destroy_counter,
        FAKERNIC_FEATURE_COUNTERS, ID_REQUEST,
    },
    [FAKERNIC_CMD_SET_QP_COUNTER] = {
        "SET_QP_COUNTER", fakernic_run_set_qp_counter,
        FAKERNIC_FEATURE_COUNTERS,
        .request_size = sizeof(struct fakernic_set_qp_counter_req),
    },
    [FAKERNIC_CMD_QUERY_COUNTER] = {
        "QUERY_COUNTER", fakernic_run_query_counter, FAKERNIC_FEATURE_COUNTERS,
        .request_size = sizeof(struct fakernic_query_counter_req),
    },
    [FAKERNIC_CMD_FAULT] = {
        "FAULT", fakernic_run_fault, FAKERNIC_FEATURE_FAULTS,
        .request_size = sizeof(struct fakernic_fault_req),
    },
    [FAKERNIC_CMD_DUMP] = {
        "DUMP", fakernic_run_dump, FAKERNIC_FEATURE_DUMP,
        .request_size = sizeof(struct fakernic_dump_req),
        .rsvd = { RSVD(struct fakernic_dump_req, rsvd) },
    },
    [FAKERNIC_CMD_SET_VPORT] = {
        "SET_VPORT", fakernic_run_set_vport, FAKERNIC_FEATURE_VPORT,
        .request_size = sizeof(struct fakernic_set_vport_req),
        .rsvd = { RSVD(struct fakernic_set_vport_req, rsvd),
                  RSVD(struct fakernic_set_vport_req, settings.rsvd) },
    },
    [FAKERNIC_CMD_QUERY_VPORT] = {
        "QUERY_VPORT", fakernic_run_query_vport, FAKERNIC_FEATURE_VPORT,
        ID_REQUEST,
    },
    [FAKERNIC_CMD_QUERY_VPORT_STATS] = {
        "QUERY_VPORT_STATS", fakernic_run_query_vport_stats,
        FAKERNIC_FEATURE_VPORT,
        .request_size = sizeof(struct fakernic_query_vport_stats_req),
    },
    [FAKERNIC_CMD_RESET_VPORT] = {
        "RESET_VPORT", fakernic_run_reset_vport, FAKERNIC_FEATURE_VPORT,
        ID_REQUEST,
    },
};

#undef RSVD
#undef ID_REQUEST

#define FAKERNIC_CMD_OFFSET_PAYLOAD offsetof(struct fakernic_cmd, payload)

static FakernicVerdict fakernic_cmd_bad_reserved(size_t offset)
{
    return (FakernicVerdict) { .status = FAKERNIC_CMD_BAD_RESERVED,
                               .detail = offset };
}

static FakernicVerdict fakernic_cmd_check_reserved(const FakernicCmd *cmd,
                                                   const struct fakernic_cmd *r)
{
    if (r->rsvd) {
        return fakernic_cmd_bad_reserved(offsetof(struct fakernic_cmd, rsvd));
    }
    if (r->rsvd2) {
        return fakernic_cmd_bad_reserved(offsetof(struct fakernic_cmd, rsvd2));
    }
    for (unsigned i = 0; i < ARRAY_SIZE(cmd->rsvd) && cmd->rsvd[i].size; i++) {
        if (!buffer_is_zero(r->payload + cmd->rsvd[i].offset,
                            cmd->rsvd[i].size)) {
            return fakernic_cmd_bad_reserved(FAKERNIC_CMD_OFFSET_PAYLOAD +
                                             cmd->rsvd[i].offset);
        }
    }
    for (unsigned i = cmd->request_size; i < FAKERNIC_CMD_PAYLOAD; i++) {
        if (r->payload[i]) {
            return fakernic_cmd_bad_reserved(FAKERNIC_CMD_OFFSET_PAYLOAD + i);
        }
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_cmd_execute(FakernicState *s,
                                            const struct fakernic_cmd *request,
                                            void *response)
{
    uint16_t opcode = le16_to_cpu(request->opcode);
    const FakernicCmd *cmd = NULL;
    FakernicVerdict v;

    if (opcode < ARRAY_SIZE(fakernic_commands)) {
        cmd = &fakernic_commands[opcode];
    }
    if (!cmd || !cmd->name) {
        return (FakernicVerdict) {
            .status = FAKERNIC_CMD_BAD_OPCODE,
            .detail = offsetof(struct fakernic_cmd, opcode),
        };
    }
    if (!s->cmdq.underway) {
        trace_fakernic_cmd(s->name, cmd->name, le32_to_cpu(request->cookie));
        fakernic_record(s, COMMAND, 0, opcode, le32_to_cpu(request->cookie));
    }
    if (!cmd->execute || (cmd->feature & ~s->driver_features)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
    }
    v = fakernic_cmd_check_reserved(cmd, request);
    if (!fakernic_accepts(&v)) {
        return v;
    }
    v = cmd->execute(s, request->payload, response);
    if (!fakernic_accepts(&v)) {
        memset(response, 0, FAKERNIC_CMD_PAYLOAD);
    }
    return v;
}

static uint64_t fakernic_cmdq_offset(const FakernicCmdq *q)
{
    return (q->ci & ((1U << q->log_depth) - 1)) * sizeof(struct fakernic_cmd);
}

static bool fakernic_cmdq_complete(FakernicState *s,
                                   struct fakernic_cmd_completion *completion)
{
    FakernicCmdq *q = &s->cmdq;
    uint64_t address = q->cq_address + fakernic_cmdq_offset(q);
    const size_t head = offsetof(struct fakernic_cmd_completion, payload);

    completion->owner = !(q->ci & (1U << q->log_depth));
    /* The first 16 bytes end with the owner byte, so they are written last. */
    return fakernic_dma_write(s, address + head, completion->payload,
                              sizeof(completion->payload),
                              ROCE_WHY_CMD) &&
           fakernic_dma_write(s, address, completion, head,
                              ROCE_WHY_CMD);
}

static bool fakernic_cmdq_fetch(FakernicState *s)
{
    FakernicCmdq *q = &s->cmdq;

    return q->underway || q->delayed_until ||
           fakernic_dma_read(s, q->sq_address + fakernic_cmdq_offset(q),
                             &q->request, sizeof(q->request),
                             ROCE_WHY_CMD);
}

/* Executes the command, unless a fault rule makes it fail or wait. */
static FakernicVerdict fakernic_cmdq_execute(FakernicState *s, void *response)
{
    FakernicCmdq *q = &s->cmdq;
    FakernicVerdict v;

    if (!q->underway) {
        v = fakernic_gate_command(s, le16_to_cpu(q->request.opcode),
                                  &q->delayed_until, &q->lost);
        if (!fakernic_accepts(&v)) {
            return v;
        }
    }
    v = fakernic_cmd_execute(s, &q->request, response);
    q->underway = v.status == FAKERNIC_CMD_LATER;
    return v;
}

/*
 * Begins or continues the next command; false: the rings cannot be accessed.
 */
static bool fakernic_cmdq_step(FakernicState *s)
{
    FakernicCmdq *q = &s->cmdq;
    struct fakernic_cmd_completion completion = { 0 };
    FakernicVerdict v;

    if (!fakernic_cmdq_fetch(s)) {
        return false;
    }
    v = fakernic_cmdq_execute(s, completion.payload);
    if (v.status == FAKERNIC_CMD_LATER) {
        return true;
    }
    fakernic_progress_drop(s, &s->progress);
    trace_fakernic_cmd_done(s->name, le32_to_cpu(q->request.cookie), v.status,
                            v.detail);
    fakernic_record(s, COMMAND_DONE, 0, le16_to_cpu(q->request.opcode),
                    le32_to_cpu(q->request.cookie), v.status, v.detail);
    s->stats[FAKERNIC_STAT_COMMANDS]++;
    if (!fakernic_accepts(&v)) {
        s->stats[FAKERNIC_STAT_COMMANDS_FAILED]++;
    }
    completion.cookie = q->request.cookie;
    completion.opcode = q->request.opcode;
    completion.status = v.status;
    completion.detail = cpu_to_le32(v.detail);
    fakernic_card_update(s);    /* filter, flow rules and groups */
    if (!q->lost && !fakernic_cmdq_complete(s, &completion)) {
        return false;
    }
    q->lost = false;
    q->ci++;
    return true;
}

/*
 * True: the doorbell announces more commands than the ring can hold, or has
 * taken back one that is under way.
 */
static bool fakernic_cmdq_is_overrun(const FakernicCmdq *q)
{
    return q->pi - q->ci > 1U << q->log_depth ||
           (q->pi == q->ci && (q->underway || q->delayed_until));
}

bool fakernic_cmdq_work(FakernicState *s)
{
    FakernicCmdq *q = &s->cmdq;
    const uint32_t first = q->ci;
    bool room = true;

    if (fakernic_cmdq_is_overrun(q)) {
        fakernic_fatal(s, FAKERNIC_FATAL_CMDQ_OVERRUN);
        return false;           /* by a doorbell while the device was frozen */
    }
    while (room && fakernic_is_running(s) && q->ci != q->pi &&
           q->delayed_until <= fakernic_now()) {
        if (!fakernic_cmdq_step(s)) {
            fakernic_fatal(s, FAKERNIC_FATAL_CMDQ_DMA);
            return false;
        }
        room = fakernic_spend(s, 1) && !q->underway &&
               q->ci - first < FAKERNIC_COMMANDS_PER_TURN;
    }
    if (q->ci != first) {
        fakernic_interrupt(s, FAKERNIC_VECTOR_CMDQ);
    }
    return fakernic_is_running(s) && q->ci != q->pi && !q->delayed_until;
}

int fakernic_cmd_number(const char *name)
{
    for (unsigned i = 0; i < ARRAY_SIZE(fakernic_commands); i++) {
        if (fakernic_commands[i].name && fakernic_commands[i].execute &&
            !strcmp(fakernic_commands[i].name, name)) {
            return i;
        }
    }
    return -1;
}

static void fakernic_cmdq_hear(FakernicState *s, uint32_t pi)
{
    FakernicCmdq *q = &s->cmdq;

    if (!fakernic_is_running(s) && !fakernic_is_frozen(s)) {
        FAKERNIC_GUEST_ERR("command doorbell while not enabled");
        return;
    }
    q->pi = pi;
    if (fakernic_is_running(s) && fakernic_cmdq_is_overrun(q)) {
        fakernic_fatal(s, FAKERNIC_FATAL_CMDQ_OVERRUN);
        return;
    }
    fakernic_kick(s);
}

void fakernic_cmdq_doorbell(FakernicState *s, uint32_t pi)
{
    if (fakernic_gate_cmd_doorbell(s, pi)) {
        fakernic_cmdq_hear(s, pi);
    }
}

void fakernic_cmdq_doorbell_late(FakernicState *s, uint32_t pi)
{
    if ((int32_t)(pi - s->cmdq.pi) > 0) {
        fakernic_cmdq_hear(s, pi);
    }
}

/* Checks that DMA can access both ends of a ring. */
static bool fakernic_cmdq_reach(FakernicState *s, uint64_t address)
{
    uint64_t last = address + ((1ULL << s->cmdq.log_depth) - 1) *
                                  sizeof(struct fakernic_cmd);
    struct fakernic_cmd entry;

    return fakernic_dma_read(s, address, &entry, sizeof(entry),
                             ROCE_WHY_CMD) &&
           fakernic_dma_read(s, last, &entry, sizeof(entry),
                             ROCE_WHY_CMD);
}

bool fakernic_cmdq_setup(FakernicState *s)
{
    FakernicCmdq *q = &s->cmdq;

    if (q->log_depth < FAKERNIC_CMDQ_LOG_DEPTH_MIN ||
        q->log_depth > FAKERNIC_CMDQ_LOG_DEPTH_MAX) {
        fakernic_fatal(s, FAKERNIC_FATAL_CMDQ_DEPTH);
        return false;
    }
    if ((q->sq_address | q->cq_address) % FAKERNIC_PAGE_SIZE) {
        fakernic_fatal(s, FAKERNIC_FATAL_CMDQ_ADDRESS);
        return false;
    }
    if (!fakernic_cmdq_reach(s, q->sq_address) ||
        !fakernic_cmdq_reach(s, q->cq_address)) {
        fakernic_fatal(s, FAKERNIC_FATAL_CMDQ_DMA);
        return false;
    }
    q->pi = 0;
    q->ci = 0;
    return true;
}
