/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changes of memory keys by work requests and by the peer: LOCAL_INV, SEND
 * with Invalidate, REG_MR, BIND_MW (IBTA 10.6.4, 10.6.5, 10.6.7, 11.4.1). Each
 * is checked completely before it changes anything.
 */
#include "mr_table.h"

#include <stdlib.h>

/*
 * IBTA 10.6.5, 10.6.7.2.5. LOCAL_INV of a free region or window succeeds,
 * because the peer's SEND with Invalidate may have come first.
 */
uint16_t roce_mr_invalidate(RoceMrTable *t, uint32_t key, RocePd pd,
                            uint32_t qpn, bool remote)
{
    RoceMr *mr;
    uint16_t error = mr_find(t, key, &mr);

    if (error) {
        return error;
    }
    if (mr->pd != pd) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (mr->type != (mr->kind == ROCE_MR_WINDOW ? FAKERNIC_MW_TYPE_2B
                                                : FAKERNIC_MR_FAST_REG)) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (!mr->valid) {
        return remote ? FAKERNIC_VENDOR_KEY_STATE : FAKERNIC_VENDOR_NONE;
    }
    if (mr->kind == ROCE_MR_WINDOW) {
        if (mr->qpn != qpn) {
            return FAKERNIC_VENDOR_KEY_QP;
        }
        roce_mr_unbind(t, mr);
        return FAKERNIC_VENDOR_NONE;
    }
    /* A peer may invalidate only a key with remote rights. */
    if (remote && !(mr->access & ACCESS_REMOTE)) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    if (mr->windows != 0) {
        return FAKERNIC_VENDOR_BIND;
    }
    mr->valid = false;
    return FAKERNIC_VENDOR_NONE;
}

static uint16_t mr_check_fast_reg(const RoceMr *mr, RocePd pd,
                                  const RoceSendWr *wr)
{
    if (mr->kind != ROCE_MR_REGION || mr->type != FAKERNIC_MR_FAST_REG ||
        mr->valid) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (mr->pd != pd) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (roce_mr_check_rights(wr->reg_mr.access) != FAKERNIC_CMD_OK) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    if (wr->reg_mr.page_count > mr->page_max ||
        roce_mr_check_translation(wr->reg_mr.iova, wr->reg_mr.length,
                                  wr->reg_mr.page_shift,
                                  wr->reg_mr.page_count,
                                  wr->reg_mr.pages) != FAKERNIC_CMD_OK) {
        return FAKERNIC_VENDOR_KEY_BOUNDS;
    }
    return FAKERNIC_VENDOR_NONE;
}

/* IBTA 10.6.4.3, 11.4.1: the index stays, and the consumer chooses the tag. */
uint16_t roce_mr_fast_reg(RoceMrTable *t, RocePd pd, RoceSendWr *wr)
{
    uint64_t *pages = wr->reg_mr.pages;
    RoceMr *mr = mr_by_index(t, wr->reg_mr.key);
    uint16_t error = mr ? mr_check_fast_reg(mr, pd, wr)
                        : FAKERNIC_VENDOR_KEY_INDEX;

    wr->reg_mr.pages = NULL;
    if (error) {
        free(pages);
        return error;
    }
    mr->key = wr->reg_mr.key;
    mr->access = wr->reg_mr.access;
    roce_mr_set_translation(t, mr, wr->reg_mr.iova, wr->reg_mr.length,
                            wr->reg_mr.page_shift, wr->reg_mr.page_count,
                            pages);
    mr->valid = true;
    return FAKERNIC_VENDOR_NONE;
}

/* IBTA 10.6.7.2: checks of the new key, for both types of window. */
static uint16_t mr_check_window(const RoceMr *mw, RocePd pd,
                                const RoceSendWr *wr)
{
    uint32_t new_key = wr->bind_mw.new_key;
    uint32_t access = wr->bind_mw.access;
    uint32_t next_tag = (wr->bind_mw.mw_key + 1) & 0xff;

    if (mw->kind != ROCE_MR_WINDOW) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (mw->pd != pd) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (mr_index(new_key) != mr_index(mw->key) ||
        (access & ~(uint32_t)ACCESS_WINDOW)) {
        return FAKERNIC_VENDOR_BIND;
    }
    if (mw->type == FAKERNIC_MW_TYPE_1) {
        /* The verb chooses the next key. Zero-based is only for type 2. */
        return (new_key & 0xff) != next_tag ||
                       (access & FAKERNIC_ACCESS_ZERO_BASED)
                   ? FAKERNIC_VENDOR_BIND : FAKERNIC_VENDOR_NONE;
    }
    /* Type 2: bound only from the free state, unbound only by invalidation. */
    return mw->valid || wr->bind_mw.length == 0 ? FAKERNIC_VENDOR_BIND
                                                : FAKERNIC_VENDOR_NONE;
}

/* IBTA C10-73 to C10-75: may a window be bound to this region? */
static uint16_t mr_check_window_region(const RoceMr *mr, RocePd pd,
                                       const RoceSendWr *wr)
{
    uint32_t access = wr->bind_mw.access;

    if (mr->kind != ROCE_MR_REGION || !mr->valid) {
        return FAKERNIC_VENDOR_KEY_STATE;
    }
    if (mr->pd != pd) {
        return FAKERNIC_VENDOR_KEY_PD;
    }
    if (!(mr->access & FAKERNIC_ACCESS_MW_BIND) ||
        ((access & ACCESS_REMOTE_CHANGE) &&
         !(mr->access & FAKERNIC_ACCESS_LOCAL_WRITE))) {
        return FAKERNIC_VENDOR_KEY_ACCESS;
    }
    if (mr->type == FAKERNIC_MR_NULL || mr->odp ||
        (mr->access & FAKERNIC_ACCESS_ZERO_BASED)) {
        return FAKERNIC_VENDOR_BIND;
    }
    return roce_mr_in_bounds(mr, wr->bind_mw.address, wr->bind_mw.length)
               ? FAKERNIC_VENDOR_NONE : FAKERNIC_VENDOR_KEY_BOUNDS;
}

static void mr_bind(RoceMrTable *t, RoceMr *mw, RoceMr *mr, uint32_t qpn,
                    const RoceSendWr *wr)
{
    mw->access = wr->bind_mw.access;
    mw->start = mw->access & FAKERNIC_ACCESS_ZERO_BASED ? 0
                                                        : wr->bind_mw.address;
    mw->length = wr->bind_mw.length;
    mw->first_offset = wr->bind_mw.address - mr->start + mr->first_offset;
    mw->page_shift = mr->page_shift;
    mw->region = mr_index(mr->key);
    mw->region_pages = mr->pages;
    mw->qpn = qpn;
    mw->valid = true;
    mr->windows++;
    if (mw->type == FAKERNIC_MW_TYPE_2B) {
        roce_mr_link_window(t, mw);
    }
}

/*
 * The verb names a type 1 window by its index. It increments the tag when it
 * posts, even if the work request later fails or is flushed.
 */
static uint16_t mr_find_window(RoceMrTable *t, uint32_t key, RoceMr **mw)
{
    *mw = mr_by_index(t, key);
    return *mw && (*mw)->kind == ROCE_MR_WINDOW &&
                   (*mw)->type == FAKERNIC_MW_TYPE_1
               ? FAKERNIC_VENDOR_NONE : mr_find(t, key, mw);
}

uint16_t roce_mr_bind_mw(RoceMrTable *t, RocePd pd, uint32_t qpn,
                         const RoceSendWr *wr)
{
    RoceMr *mw, *mr = NULL;
    uint16_t error = mr_find_window(t, wr->bind_mw.mw_key, &mw);

    if (!error) {
        error = mr_check_window(mw, pd, wr);
    }
    if (!error && wr->bind_mw.length != 0) {
        error = mr_find(t, wr->bind_mw.mr_key, &mr);
        if (!error) {
            error = mr_check_window_region(mr, pd, wr);
        }
    }
    if (error) {
        return error;
    }
    roce_mr_unbind(t, mw);
    mw->key = wr->bind_mw.new_key;
    if (mr) {
        mr_bind(t, mw, mr, qpn, wr);
    }
    return FAKERNIC_VENDOR_NONE;
}
