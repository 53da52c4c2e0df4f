/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands: their results, and one function per opcode (fakernic/cmdq.h).
 */
#ifndef FAKERNIC_DEVICE_CMD_CMD_H
#define FAKERNIC_DEVICE_CMD_CMD_H

#include "../common.h"

/* The result of a command: enum fakernic_cmd_status; for BAD_* the byte. */
typedef struct FakernicVerdict {
    uint8_t status;
    uint32_t detail;
} FakernicVerdict;

#define FAKERNIC_VERDICT(code) ((FakernicVerdict) { .status = (code) })
#define FAKERNIC_REFUSE(code, request, field)                                \
    ((FakernicVerdict) {                                                     \
        .status = FAKERNIC_CMD_ ## code,                                     \
        .detail = offsetof(struct fakernic_cmd, payload) +                   \
                  offsetof(request, field) })

static inline bool fakernic_accepts(const FakernicVerdict *v)
{
    return v->status == FAKERNIC_CMD_OK;
}

/* Refuses a field of the payload at this offset. */
static inline FakernicVerdict fakernic_refuse_at(uint8_t status, size_t offset)
{
    return (FakernicVerdict) {
        .status = status,
        .detail = offsetof(struct fakernic_cmd, payload) + offset,
    };
}

/* The verdict of fakernic_page_list_read() on the list at 'offset'. */
static inline FakernicVerdict fakernic_page_list_verdict(uint8_t status,
                                                         size_t offset)
{
    return (FakernicVerdict) {
        .status = status,
        .detail = status == FAKERNIC_CMD_BAD_PAGE_LIST ?
                  offsetof(struct fakernic_cmd, payload) + offset : 0,
    };
}

/* Entries of the largest CQ that the driver can make. */
uint32_t fakernic_cq_depth_max(const FakernicState *s);

/*
 * Begins or continues a command. FAKERNIC_CMD_LATER: it is not complete, and
 * the next turn calls again with the same request. Each call checks the request
 * again, because objects may have changed; s->progress has the work done.
 *
 * 'request' is a private copy of FAKERNIC_CMD_PAYLOAD bytes whose reserved
 * fields are zero. 'response' has the same size and is zero at first. A command
 * that is refused changes nothing.
 */
typedef FakernicVerdict FakernicCmdFn(FakernicState *s, const void *request,
                                      void *response);
FakernicCmdFn fakernic_run_nop, fakernic_run_query_device,
    fakernic_run_query_port, fakernic_run_set_port, fakernic_run_query_stats,
    fakernic_run_set_gid, fakernic_run_create_eq, fakernic_run_destroy_eq,
    fakernic_run_create_cq, fakernic_run_destroy_cq, fakernic_run_resize_cq,
    fakernic_run_modify_cq,
    fakernic_run_alloc_pd, fakernic_run_dealloc_pd, fakernic_run_alloc_xrcd,
    fakernic_run_dealloc_xrcd, fakernic_run_alloc_uar,
    fakernic_run_dealloc_uar, fakernic_run_create_mr, fakernic_run_destroy_mr,
    fakernic_run_rereg_mr, fakernic_run_create_mw, fakernic_run_destroy_mw,
    fakernic_run_create_qp, fakernic_run_destroy_qp, fakernic_run_modify_qp,
    fakernic_run_query_qp, fakernic_run_create_srq, fakernic_run_destroy_srq,
    fakernic_run_modify_srq, fakernic_run_query_srq,
    fakernic_run_attach_mcast, fakernic_run_detach_mcast,
    fakernic_run_create_flow, fakernic_run_destroy_flow,
    fakernic_run_create_wq, fakernic_run_destroy_wq, fakernic_run_modify_wq,
    fakernic_run_create_ind_table, fakernic_run_destroy_ind_table,
    fakernic_run_create_rss_qp,
    fakernic_run_create_counter, fakernic_run_destroy_counter,
    fakernic_run_set_qp_counter, fakernic_run_query_counter,
    fakernic_run_query_page_requests, fakernic_run_update_pages,
    fakernic_run_set_vport, fakernic_run_query_vport,
    fakernic_run_query_vport_stats, fakernic_run_reset_vport,
    fakernic_run_fault, fakernic_run_dump;

#endif
