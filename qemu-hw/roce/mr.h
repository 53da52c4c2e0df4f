/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory regions: from (key, address, length, right) to DMA addresses.
 *
 * Every access of the data path to guest memory goes through here and is
 * checked (IBTA 10.6.3, 10.7): index, tag, state, PD, (window's QP,) rights,
 * bounds, all in arithmetic that cannot wrap. A check returns enum
 * fakernic_vendor_err, 0 for "granted"; the caller knows which completion
 * status or NAK it means.
 *
 * A RoceMr pointer is valid until the next control operation.
 */
#ifndef ROCE_MR_H
#define ROCE_MR_H

#include "odp.h"
#include "roce.h"

/*
 * Not an error, and no number of the hardware interface: a page of the range
 * is not there. roce_mr_fault() says which; the access is to be tried again
 * when the host, asked for it, has told of it (pages.h).
 */
#define ROCE_VENDOR_FAULT 0xffffu

/* QPNs are below this. */
#define ROCE_QPNS 65536u

typedef struct RoceMr RoceMr;
typedef struct RoceMrTable RoceMrTable;

/*
 * Of 'limits' max_mr and max_pd; max_odp_chunks 0: no on-demand paging. What
 * keys name is reached by 'ops' of 'host', which stay the caller's.
 * NULL when out of memory.
 */
RoceMrTable *roce_mr_table_new(const RoceLimits *limits,
                               const RoceHostOps *ops, void *host);
/* May be NULL. No key is used any more. */
void roce_mr_table_free(RoceMrTable *table);
/*
 * Frees up to 'entries' page list entries of keys that are gone; true: there
 * are no more.
 */
bool roce_mr_table_reclaim(RoceMrTable *table, uint64_t entries);
/* Destroys all keys, up to 'max' in one call; true: that was all. */
bool roce_mr_table_reset_some(RoceMrTable *table, uint32_t max);

/* The control plane of roce.h, on a table. */
int roce_mr_table_create(RoceMrTable *t, const RoceMrInit *init, uint32_t *key);
/* *key: of the region, whatever its tag; then its key. */
int roce_mr_table_rereg(RoceMrTable *t, uint32_t mask, const RoceMrInit *init,
                        uint32_t *key);
/* BUSY: a window is bound to it. BAD_ID: there is no such region. */
int roce_mr_table_destroy(RoceMrTable *t, uint32_t key);
/* A window of this enum fakernic_mw_type, not bound. */
int roce_mr_table_mw_create(RoceMrTable *t, uint8_t type, uint8_t tag,
                            RocePd pd, uint32_t *key);
/* Unbinds it first, if it is bound. BAD_ID: there is no such window. */
int roce_mr_table_mw_destroy(RoceMrTable *t, uint32_t key);
/*
 * A QP is going away: unbinds up to 'max' of its type 2 windows. True: all of
 * them are unbound.
 */
bool roce_mr_table_qp_gone(RoceMrTable *t, uint32_t qpn, uint32_t max);
/*
 * Of the update's pages, 'count' from the one numbered 'from' on; the others'
 * DMA addresses are not judged. REFUSED is judged only: see below.
 */
int roce_mr_table_update(RoceMrTable *t, const RocePageUpdate *update,
                         uint32_t from, uint32_t count);
/* Windows unbound with their QP, and page entries of regions with on-demand
 * paging looked at; free running. */
uint64_t roce_mr_table_looks(const RoceMrTable *t);
/*
 * The page somebody waits for will not come: the next access to it is told so;
 * if this one is 'sure' to come, one more than before. Its region exists.
 */
void roce_mr_table_refuse(RoceMrTable *t, const RoceFault *fault, bool sure);
/* Of a region that exists. */
uint8_t roce_mr_table_page_shift(const RoceMrTable *t, uint32_t key);
/* What ROCE_VENDOR_FAULT was last returned for. */
const RoceFault *roce_mr_fault(const RoceMrTable *t);
/* roce_mr_view() */
bool roce_mr_table_view(const RoceMrTable *t, uint32_t index, RoceMrView *view);
/* roce_pd_users() */
uint32_t roce_mr_table_pd_users(const RoceMrTable *t, RocePd pd);

/* One access: who wants which bytes, by which key, for what. */
typedef struct RoceAccess {
    uint32_t key;
    uint32_t rights;            /* FAKERNIC_ACCESS_*, all of them; 0: local
                                 * read */
    RocePd pd;
    uint32_t qpn;               /* matters for type 2 windows only */
    uint64_t address, length;   /* bytes */
} RoceAccess;

/*
 * Checks one access. A length of 0 is granted without looking at the key (IBTA
 * C9-88), and without a region: *mr is NULL.
 */
uint16_t roce_mr_check(const RoceMrTable *t, const RoceAccess *access,
                       const RoceMr **mr) __attribute__((warn_unused_result));

/* The same for a key as a whole: all but the bounds. */
uint16_t roce_mr_check_key(const RoceMrTable *t, const RoceAccess *access,
                           const RoceMr **mr)
    __attribute__((warn_unused_result));

/*
 * Checks one access, and whether the pages of its first 'now' bytes are there:
 * only with on-demand paging may they not be. Then ROCE_VENDOR_FAULT, or
 * KEY_DMA when the host has refused them. 'ahead': bytes from the address on
 * that will be needed soon, at least 'now'. Comes before any of the functions
 * below.
 */
uint16_t roce_mr_grant(const RoceMrTable *t, const RoceAccess *access,
                       uint64_t now, uint64_t ahead, const RoceMr **mr)
    __attribute__((warn_unused_result));

/*
 * Moves bytes of a granted range, page by page, ascending. False: the host
 * could not reach the memory (KEY_DMA).
 */
bool roce_mr_read(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                  void *buf, size_t len) __attribute__((warn_unused_result));
/* Likewise; what was reached before that is written. */
bool roce_mr_write(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                   const void *buf, size_t len)
    __attribute__((warn_unused_result));
/* 8 bytes, address 8-byte aligned within a granted range. */
bool roce_mr_atomic(const RoceMrTable *t, const RoceMr *mr, uint64_t address,
                    RoceAtomic *op) __attribute__((warn_unused_result));

/* What is left of a FLUSH. */
typedef struct RoceFlushRange {
    uint64_t address, left;
    bool persistent;
    uint32_t qpn;               /* for the host's next job */
    uint64_t ticket;
} RoceFlushRange;

/*
 * Takes a FLUSH of a granted range one step further: one job for the host, or a
 * bounded number of pages that are absent. DONE: nothing is left. BEGUN: what
 * the host has begun is no longer in the range, and may be the last of it.
 */
RoceFlush roce_mr_flush(const RoceMrTable *t, const RoceMr *mr,
                        RoceFlushRange *range)
    __attribute__((warn_unused_result));
/*
 * The range of all that a granted key names. False: there is no end to it, as
 * with all DMA addresses, or what may be a whole address space.
 */
bool roce_mr_flush_all(const RoceMr *mr, RoceFlushRange *range)
    __attribute__((warn_unused_result));

/* A scatter or gather list, of keys of one PD. */
typedef struct RoceSgl {
    RocePd pd;
    const RoceSge *sge;
    unsigned count;
} RoceSgl;

/* Sum of the lengths; may exceed 32 bits. */
uint64_t roce_sge_total(const RoceSge *sge, unsigned count);

/*
 * Copies len bytes at 'offset' into a gather list to buf, or from buf into a
 * scatter list. The list holds offset + len bytes (the caller made sure).
 * Checks what it touches of each entry; returns enum fakernic_vendor_err, or
 * FAULT: some of the bytes may have been copied.
 */
uint16_t roce_sgl_gather(const RoceMrTable *t, const RoceSgl *list,
                         uint64_t offset, void *buf, size_t len)
    __attribute__((warn_unused_result));
/* The same the other way. */
uint16_t roce_sgl_scatter(const RoceMrTable *t, const RoceSgl *list,
                          uint64_t offset, const void *buf, size_t len)
    __attribute__((warn_unused_result));
/* Checks every entry in full, for the right 'access' (0 or LOCAL_WRITE). */
uint16_t roce_sgl_check(const RoceMrTable *t, const RoceSgl *list,
                        uint32_t access) __attribute__((warn_unused_result));

/* Work requests on keys (LOCAL_INV, SEND_INV from the peer, REG_MR, BIND_MW).
 * Return enum fakernic_vendor_err. 'remote': rights of a peer's SEND_INV. */
uint16_t roce_mr_invalidate(RoceMrTable *t, uint32_t key, RocePd pd,
                            uint32_t qpn, bool remote)
    __attribute__((warn_unused_result));
/* Takes over wr->reg_mr.pages in any case. */
uint16_t roce_mr_fast_reg(RoceMrTable *t, RocePd pd, RoceSendWr *wr)
    __attribute__((warn_unused_result));
/* Length 0 unbinds; a window that is bound is unbound first. */
uint16_t roce_mr_bind_mw(RoceMrTable *t, RocePd pd, uint32_t qpn,
                         const RoceSendWr *wr)
    __attribute__((warn_unused_result));

#endif
