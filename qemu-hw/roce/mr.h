/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory regions: from (key, address, length, right) to DMA addresses.
 *
 * Every data-path access to guest memory passes through this file and is
 * checked (IBTA 10.6.3, 10.7): index, tag, state, PD, a window's QP, rights
 * and bounds, in arithmetic that cannot wrap. A check returns enum
 * fakernic_vendor_err, 0 for "granted". The caller knows the matching
 * completion status or NAK.
 *
 * A RoceMr pointer is valid until the next control operation.
 */
#ifndef ROCE_MR_H
#define ROCE_MR_H

#include "odp.h"
#include "roce.h"

/*
 * Not an error, and not part of the hardware interface: a page of the range is
 * absent. roce_mr_fault() describes it. The engine requests it from the host,
 * and the access is retried when the host has reported it (pages.c).
 */
#define ROCE_VENDOR_FAULT 0xffffu

/* QPNs are below this. */
#define ROCE_QPNS 65536u

typedef struct RoceMr RoceMr;
typedef struct RoceMrTable RoceMrTable;

/*
 * Allocates a table. It uses max_mr, max_pd and max_odp_chunks of 'limits';
 * with max_odp_chunks 0 there is no on-demand paging. It accesses memory
 * through 'ops' with 'host', which the caller keeps. NULL: out of memory.
 */
RoceMrTable *roce_mr_table_new(const RoceLimits *limits,
                               const RoceHostOps *ops, void *host);
/* Frees the table, which may be NULL. No key is in use any more. */
void roce_mr_table_free(RoceMrTable *table);
/*
 * Frees up to 'entries' page list entries of destroyed keys. True: none is
 * left.
 */
bool roce_mr_table_reclaim(RoceMrTable *table, uint64_t entries);
/* Destroys all keys, up to 'max' per call. True: none is left. */
bool roce_mr_table_reset_some(RoceMrTable *table, uint32_t max);

/* Saves or loads all keys. A load begins with an empty table. */
void roce_mr_table_transfer(RoceStream *s, RoceMrTable *t);
/* Is this the key of a region with on-demand paging, with any tag? */
bool roce_mr_table_on_demand(const RoceMrTable *t, uint32_t key);

/* The control plane of roce.h, for a table. */
int roce_mr_table_create(RoceMrTable *t, const RoceMrInit *init, uint32_t *key);
/*
 * *key is a key of the region with any tag; the call sets it to the current
 * key.
 */
int roce_mr_table_rereg(RoceMrTable *t, uint32_t mask, const RoceMrInit *init,
                        uint32_t *key);
/* BUSY: a window is bound to the region. BAD_ID: there is no such region. */
int roce_mr_table_destroy(RoceMrTable *t, uint32_t key);
/* Creates an unbound window of this enum fakernic_mw_type. */
int roce_mr_table_mw_create(RoceMrTable *t, uint8_t type, uint8_t tag,
                            RocePd pd, uint32_t *key);
/* Unbinds the window first. BAD_ID: there is no such window. */
int roce_mr_table_mw_destroy(RoceMrTable *t, uint32_t key);
/*
 * Unbinds up to 'max' type 2 windows of a QP that is being destroyed. True:
 * none is left.
 */
bool roce_mr_table_qp_gone(RoceMrTable *t, uint32_t qpn, uint32_t max);
/*
 * Applies 'count' pages of the update from number 'from' on. The DMA addresses
 * of the others are not checked. REFUSED is only checked: see
 * roce_mr_table_refuse().
 */
int roce_mr_table_update(RoceMrTable *t, const RocePageUpdate *update,
                         uint32_t from, uint32_t count);
/* Number of windows unbound with their QP, and of page entries examined in
 * regions with on-demand paging; free running. */
uint64_t roce_mr_table_looks(const RoceMrTable *t);
/*
 * The host has refused the page of this fault: the next access to it fails. If
 * it is refused already and the waiter is 'sure' to retry, one more access
 * fails. The region must exist.
 */
void roce_mr_table_refuse(RoceMrTable *t, const RoceFault *fault, bool sure);
/* The region must exist. */
uint8_t roce_mr_table_page_shift(const RoceMrTable *t, uint32_t key);
/* The fault of the last ROCE_VENDOR_FAULT. */
const RoceFault *roce_mr_fault(const RoceMrTable *t);
/* roce_mr_view() */
bool roce_mr_table_view(const RoceMrTable *t, uint32_t index, RoceMrView *view);
/* roce_pd_users() */
uint32_t roce_mr_table_pd_users(const RoceMrTable *t, RocePd pd);

/* One access: its key, bytes, rights and owner. */
typedef struct RoceAccess {
    uint32_t key;
    uint32_t rights;            /* FAKERNIC_ACCESS_*, all required; 0: local
                                 * read */
    RocePd pd;
    uint32_t qpn;               /* only for type 2 windows */
    uint64_t address, length;   /* bytes */
} RoceAccess;

/*
 * Checks one access. A length of 0 is granted without a check of the key (IBTA
 * C9-88), and without a region: *mr is NULL.
 */
uint16_t roce_mr_check(const RoceMrTable *t, const RoceAccess *access,
                       const RoceMr **mr) __attribute__((warn_unused_result));

/* The same for the key alone, without the bounds. */
uint16_t roce_mr_check_key(const RoceMrTable *t, const RoceAccess *access,
                           const RoceMr **mr)
    __attribute__((warn_unused_result));

/*
 * Checks one access, and whether the pages of its first 'needed' bytes are
 * present; they may be absent only with on-demand paging. Then it returns
 * ROCE_VENDOR_FAULT, or KEY_DMA if the host has refused them. 'ahead' is the
 * number of bytes from the address on that will be needed soon, at least
 * 'needed'. Callers call this before any of the functions below.
 */
uint16_t roce_mr_grant(const RoceMrTable *t, const RoceAccess *access,
                       uint64_t needed, uint64_t ahead, const RoceMr **mr)
    __attribute__((warn_unused_result));

/*
 * Copies bytes of a granted range, page by page, in ascending order. False:
 * the host could not access the memory (KEY_DMA).
 */
bool roce_mr_read(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                  void *buf, size_t len) __attribute__((warn_unused_result));
/* The same for a write; bytes before the failure are written. */
bool roce_mr_write(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                   const void *buf, size_t len)
    __attribute__((warn_unused_result));
/* 8 bytes, address 8-byte aligned within a granted range. */
bool roce_mr_atomic(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                    RoceAtomic *op) __attribute__((warn_unused_result));

/* The rest of a FLUSH. */
typedef struct RoceFlushRange {
    uint64_t address, left;
    bool persistent;
    uint32_t qpn;               /* for the host's next job */
    uint64_t ticket;
} RoceFlushRange;

/*
 * Continues a FLUSH of a granted range by one step: one job for the host, or a
 * bounded number of absent pages. If it is persistent, the first page is
 * present. DONE: nothing is left. BEGUN: the part that the host has begun is
 * removed from the range, and may have been the last.
 */
RoceFlush roce_mr_flush(const RoceMrTable *t, const RoceMr *mr,
                        RoceFlushRange *range)
    __attribute__((warn_unused_result));
/*
 * Sets the range to all memory of a granted key. False: it has no useful end:
 * all DMA addresses, or possibly a whole address space.
 */
bool roce_mr_flush_all(const RoceMr *mr, RoceFlushRange *range)
    __attribute__((warn_unused_result));

/* A scatter or gather list with keys of one PD. */
typedef struct RoceSgl {
    RocePd pd;
    const RoceSge *sge;
    unsigned count;
} RoceSgl;

/* Sum of the lengths; may exceed 32 bits. */
uint64_t roce_sge_total(const RoceSge *sge, unsigned count);

/*
 * Copies len bytes from a gather list, starting at 'offset', to buf, or from
 * buf to a scatter list. The caller has checked that the list holds offset +
 * len bytes. Checks the part of each entry that it uses. Returns enum
 * fakernic_vendor_err or FAULT; some bytes may have been copied then.
 */
uint16_t roce_sgl_gather(const RoceMrTable *t, const RoceSgl *list,
                         uint64_t offset, void *buf, size_t len)
    __attribute__((warn_unused_result));
/* The same in the other direction. */
uint16_t roce_sgl_scatter(const RoceMrTable *t, const RoceSgl *list,
                          uint64_t offset, const void *buf, size_t len)
    __attribute__((warn_unused_result));
/* Checks every entry in full, for the right 'access' (0 or LOCAL_WRITE). */
uint16_t roce_sgl_check(const RoceMrTable *t, const RoceSgl *list,
                        uint32_t access) __attribute__((warn_unused_result));

/* Work requests on keys (LOCAL_INV, SEND_INV from the peer, REG_MR, BIND_MW).
 * They return enum fakernic_vendor_err. 'remote': a peer's SEND_INV with its
 * rights. */
uint16_t roce_mr_invalidate(RoceMrTable *t, uint32_t key, RocePd pd,
                            uint32_t qpn, bool remote)
    __attribute__((warn_unused_result));
/* Takes ownership of wr->reg_mr.pages, also on failure. */
uint16_t roce_mr_fast_reg(RoceMrTable *t, RocePd pd, RoceSendWr *wr)
    __attribute__((warn_unused_result));
/* Length 0 unbinds. A bound window is unbound first. */
uint16_t roce_mr_bind_mw(RoceMrTable *t, RocePd pd, uint32_t qpn,
                         const RoceSendWr *wr)
    __attribute__((warn_unused_result));

#endif
