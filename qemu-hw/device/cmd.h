/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands: how one ends, and one function per opcode (fakernic/cmdq.h).
 */
#ifndef FAKERNIC_DEVICE_CMD_H
#define FAKERNIC_DEVICE_CMD_H

#include "memory.h"
#include "ring.h"

/* How a command ends: enum fakernic_cmd_status, and for BAD_* which byte. */
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

/* Refuses a field of the payload that is known by its offset only. */
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

/*
 * What a command that goes on over several turns has done so far. It belongs to
 * the command that is being executed; cmdq.c drops what is left of it at its
 * end, a reset at once.
 */
typedef struct FakernicProgress {
    FakernicPageReader pages;   /* of a region, a CQ; its memory is taken */
    FakernicRing ring;          /* resizes: the new one */
    uint32_t first;             /* and the entry the copy began with */
    uint32_t next;              /* the next one to be copied; UPDATE_PAGES:
                                 * the next page */
    uint32_t last;              /* SRQ: behind the last one */
    bool waking;                /* those who waited for pages */
} FakernicProgress;

/* Entries of the largest CQ that the driver can make. */
uint32_t fakernic_cq_depth_max(const FakernicState *s);

static inline void fakernic_progress_drop(FakernicState *s, FakernicProgress *p)
{
    if (p->pages.pages) {
        fakernic_memory_give(s, p->pages.needed * sizeof(uint64_t));
    }
    fakernic_page_reader_drop(&p->pages);
    fakernic_ring_free(s, &p->ring);
    p->next = 0;
    p->waking = false;
}

/*
 * Executes a command, or goes on with one: FAKERNIC_CMD_LATER is the verdict
 * that it is not done, and the next turn calls again with the same request.
 * What has changed meanwhile is judged anew; what it has done is in
 * s->progress.
 *
 * 'request' is a private copy of FAKERNIC_CMD_PAYLOAD bytes
 * whose reserved fields are zero, 'response' as many bytes of zero to fill in.
 * A command that is refused changes nothing.
 */
typedef FakernicVerdict FakernicCmdFn(FakernicState *s, const void *request,
                                      void *response);
FakernicCmdFn fakernic_cmd_nop, fakernic_cmd_query_device,
    fakernic_cmd_query_port, fakernic_cmd_set_port, fakernic_cmd_query_stats,
    fakernic_cmd_set_gid, fakernic_cmd_create_eq, fakernic_cmd_destroy_eq,
    fakernic_cmd_create_cq, fakernic_cmd_destroy_cq, fakernic_cmd_resize_cq,
    fakernic_cmd_modify_cq,
    fakernic_cmd_alloc_pd, fakernic_cmd_dealloc_pd, fakernic_cmd_alloc_xrcd,
    fakernic_cmd_dealloc_xrcd, fakernic_cmd_alloc_uar,
    fakernic_cmd_dealloc_uar, fakernic_cmd_create_mr, fakernic_cmd_destroy_mr,
    fakernic_cmd_rereg_mr, fakernic_cmd_create_mw, fakernic_cmd_destroy_mw,
    fakernic_cmd_create_qp, fakernic_cmd_destroy_qp, fakernic_cmd_modify_qp,
    fakernic_cmd_query_qp, fakernic_cmd_create_srq, fakernic_cmd_destroy_srq,
    fakernic_cmd_modify_srq, fakernic_cmd_query_srq,
    fakernic_cmd_attach_mcast, fakernic_cmd_detach_mcast,
    fakernic_cmd_create_flow, fakernic_cmd_destroy_flow,
    fakernic_cmd_create_wq, fakernic_cmd_destroy_wq, fakernic_cmd_modify_wq,
    fakernic_cmd_create_ind_table, fakernic_cmd_destroy_ind_table,
    fakernic_cmd_create_rss_qp,
    fakernic_cmd_create_counter, fakernic_cmd_destroy_counter,
    fakernic_cmd_set_qp_counter, fakernic_cmd_query_counter,
    fakernic_cmd_query_page_requests, fakernic_cmd_update_pages,
    fakernic_cmd_fault, fakernic_cmd_dump;

#endif
