/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE_MR, DESTROY_MR, REREG_MR, CREATE_MW, DESTROY_MW (fakernic/cmdq.h,
 * fakernic/mr.h; IBTA 10.6, 11.2.8). The engine owns the keys. This file checks
 * the request and copies its page list. The property max-mr-pages limits the
 * number of page list entries.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "../memory.h"
#include "../dm.h"
#include "odp.h"
#include "../state.h"
#include "../queue/ring.h"

#define FAKERNIC_ACCESS_REMOTE_CHANGES \
    (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_ATOMIC)

static bool fakernic_access_is_sane(const FakernicState *s, uint8_t type,
                                    uint32_t access)
{
    uint64_t allowed = FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE |
                       FAKERNIC_ACCESS_REMOTE_READ |
                       FAKERNIC_ACCESS_REMOTE_ATOMIC |
                       FAKERNIC_ACCESS_MW_BIND | FAKERNIC_ACCESS_ZERO_BASED |
                       FAKERNIC_ACCESS_HUGETLB |
                       FAKERNIC_ACCESS_RELAXED_ORDERING;

    if (type == FAKERNIC_MR_ON_DEMAND) {
        /* Its addresses are virtual ones of a process, so not zero-based. */
        allowed &= ~FAKERNIC_ACCESS_ZERO_BASED;
        allowed |= FAKERNIC_ACCESS_ON_DEMAND;
        if (!(access & FAKERNIC_ACCESS_ON_DEMAND)) {
            return false;
        }
    }
    if (s->driver_features & FAKERNIC_FEATURE_FLUSH) {
        allowed |= FAKERNIC_ACCESS_FLUSH_GLOBAL |
                   FAKERNIC_ACCESS_FLUSH_PERSISTENT;
    }
    if (access & ~allowed) {
        return false;
    }
    /* IBTA 11.2.8.2: remote write and atomic need local write. */
    return !(access & FAKERNIC_ACCESS_REMOTE_CHANGES) ||
           (access & FAKERNIC_ACCESS_LOCAL_WRITE);
}

/* A range to register, with its page list. */
typedef struct FakernicRange {
    uint64_t iova;
    uint64_t length;
    const struct fakernic_page_list *list;
} FakernicRange;

static bool fakernic_range_is_sane(const FakernicRange *range)
{
    return range->length >= 1 && range->length <= FAKERNIC_MAX_MR_SIZE &&
           range->iova <= UINT64_MAX - (range->length - 1);
}

/* Accounts memory for a region's page list entries, before they are read. */
static bool fakernic_pages_take(FakernicState *s, uint64_t count)
{
    return fakernic_memory_take(s, count * sizeof(uint64_t));
}

static void fakernic_pages_give(FakernicState *s, uint64_t count)
{
    fakernic_memory_give(s, count * sizeof(uint64_t));
}

/* Continues reading the page list; enum fakernic_cmd_status. */
static uint8_t fakernic_range_continue(FakernicState *s, RoceMrInit *init)
{
    uint8_t status = fakernic_page_reader_run(s, &s->progress.pages,
                                              FAKERNIC_TABLES_PER_TURN,
                                              &init->pages);

    if (status != FAKERNIC_CMD_OK && status != FAKERNIC_CMD_LATER) {
        fakernic_pages_give(s, init->page_count);
    }
    return status;
}

/* Begins to read a page list; 'list' NULL: contiguous device memory. */
static uint8_t fakernic_range_begin(FakernicState *s, RoceMrInit *init,
                                    const struct fakernic_page_list *list,
                                    uint64_t dm_start)
{
    uint8_t status;

    if (!fakernic_pages_take(s, init->page_count)) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    status = list ?
        fakernic_page_reader_begin(&s->progress.pages, list, init->page_count) :
        fakernic_page_reader_begin_at(&s->progress.pages,
                                      ROCE_ADDRESS_DM | dm_start,
                                      init->page_shift, init->page_count);
    if (status != FAKERNIC_CMD_OK) {
        fakernic_pages_give(s, init->page_count);
    }
    return status;
}

/* Fills in the translation of init; enum fakernic_cmd_status. */
static uint8_t fakernic_range_pages(FakernicState *s,
                                    const FakernicRange *range,
                                    uint32_t held, RoceMrInit *init)
{
    const unsigned shift = range->list->page_shift;
    uint64_t offset, needed;
    uint8_t status = FAKERNIC_CMD_OK;

    if (shift < FAKERNIC_PAGE_SHIFT || shift > FAKERNIC_PAGE_SHIFT_MAX) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    offset = range->iova & ((1ULL << shift) - 1);
    needed = DIV_ROUND_UP(offset + range->length, 1ULL << shift);
    if (s->mr_pages - held + needed > s->max_mr_pages) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    init->iova = range->iova;
    init->length = range->length;
    init->page_shift = shift;
    init->page_count = needed;
    init->aligned = true;
    if (!s->progress.pages.pages) {
        status = fakernic_range_begin(s, init, range->list, 0);
    }
    return status == FAKERNIC_CMD_OK ? fakernic_range_continue(s, init)
                                     : status;
}

/* The same for device memory: 'address' is the offset of its first page. */
static uint8_t fakernic_range_dm_pages(FakernicState *s,
                                       const FakernicRange *range,
                                       RoceMrInit *init)
{
    const struct fakernic_page_list *list = range->list;
    const uint64_t start = le64_to_cpu(list->address);
    const uint64_t offset = range->iova % FAKERNIC_PAGE_SIZE;
    /* A region of 0 bytes needs one page, too. */
    const uint64_t needed = DIV_ROUND_UP(MAX(offset + range->length, 1),
                                         FAKERNIC_PAGE_SIZE);
    uint8_t status = FAKERNIC_CMD_OK;

    if (list->levels || list->rsvd || list->page_shift != FAKERNIC_PAGE_SHIFT ||
        start % FAKERNIC_PAGE_SIZE || le32_to_cpu(list->page_count) < needed ||
        !fakernic_dm_contains(s, start, needed * FAKERNIC_PAGE_SIZE)) {
        return FAKERNIC_CMD_BAD_PAGE_LIST;
    }
    if (s->mr_pages + needed > s->max_mr_pages) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    init->iova = range->iova;
    init->length = range->length;
    init->page_shift = FAKERNIC_PAGE_SHIFT;
    init->page_count = needed;
    init->aligned = true;
    if (!s->progress.pages.pages) {
        status = fakernic_range_begin(s, init, NULL, start);
    }
    return status == FAKERNIC_CMD_OK ? fakernic_range_continue(s, init)
                                     : status;
}

static FakernicKey *fakernic_key(FakernicState *s, uint32_t key)
{
    const uint32_t index = FAKERNIC_GET(FAKERNIC_KEY_INDEX, key);

    assert(index < s->max_mr);
    return &s->keys[index];
}

/* Moves a key to this PD; 0: to none, because the key is destroyed. */
static void fakernic_key_set_pd(FakernicState *s, uint32_t key, uint32_t pdn)
{
    FakernicKey *k = fakernic_key(s, key);

    if (pdn) {
        fakernic_pd(s, pdn)->users++;
    }
    if (k->pdn) {
        fakernic_pd(s, k->pdn)->users--;
    }
    k->pdn = pdn;
}

/* Sets the number of page list entries of a key; memory is accounted. */
static void fakernic_key_set_pages(FakernicState *s, uint32_t key,
                                   uint32_t pages)
{
    FakernicKey *k = fakernic_key(s, key);

    s->mr_pages += pages;
    s->mr_pages -= k->pages;
    fakernic_pages_give(s, k->pages);
    k->pages = pages;
}

static bool fakernic_mr_has_pages(uint8_t type)
{
    return type == FAKERNIC_MR_MEMORY || type == FAKERNIC_MR_DM;
}

static bool fakernic_mr_has_range(uint8_t type)
{
    return fakernic_mr_has_pages(type) || type == FAKERNIC_MR_ON_DEMAND;
}

/* True: the page list has a page size and no pages. */
static bool fakernic_page_list_is_size(const struct fakernic_page_list *list)
{
    return !list->address && !list->page_count && !list->levels &&
           !list->rsvd && list->page_shift >= FAKERNIC_PAGE_SHIFT &&
           list->page_shift <= FAKERNIC_PAGE_SHIFT_MAX;
}

/* Checks the type of a region: its feature, and the fields that it needs. */
static FakernicVerdict
fakernic_check_mr_type(FakernicState *s,
                       const struct fakernic_create_mr_req *req,
                       const FakernicRange *range)
{
    switch (req->type) {
    case FAKERNIC_MR_MEMORY:
        if (!fakernic_range_is_sane(range)) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                                   length);
        }
        break;
    case FAKERNIC_MR_FAST_REG:
        if (!(s->driver_features & FAKERNIC_FEATURE_FAST_REG)) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
        }
        break;
    case FAKERNIC_MR_DM:
        if (!(s->driver_features & FAKERNIC_FEATURE_DM)) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
        }
        if (range->length && !fakernic_range_is_sane(range)) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                                   length);
        }
        break;
    case FAKERNIC_MR_DMA:
    case FAKERNIC_MR_NULL:
        break;
    case FAKERNIC_MR_ON_DEMAND:
        if (!(s->driver_features & FAKERNIC_FEATURE_ODP)) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_UNSUPPORTED);
        }
        if (!range->length || range->iova > UINT64_MAX - (range->length - 1)) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                                   length);
        }
        if (!fakernic_page_list_is_size(&req->pages)) {
            return FAKERNIC_REFUSE(BAD_PAGE_LIST,
                                   struct fakernic_create_mr_req, pages);
        }
        break;
    default:
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req, type);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict
fakernic_check_create_mr(FakernicState *s,
                         const struct fakernic_create_mr_req *req)
{
    const FakernicRange range = { le64_to_cpu(req->iova),
                                  le64_to_cpu(req->length), &req->pages };
    const uint32_t max_pages = le32_to_cpu(req->max_pages);
    const FakernicVerdict v = fakernic_check_mr_type(s, req, &range);

    if (v.status != FAKERNIC_CMD_OK) {
        return v;
    }
    if (!fakernic_mr_has_range(req->type)) {
        if (range.iova) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                                   iova);
        }
        if (range.length) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                                   length);
        }
        if (!fakernic_page_list_is_zero(&req->pages)) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                                   pages);
        }
    }
    if (req->type == FAKERNIC_MR_FAST_REG ?
        max_pages < 1 || max_pages > FAKERNIC_MAX_FAST_REG_PAGES : max_pages) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                               max_pages);
    }
    if (!fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_create_mr_req, pdn);
    }
    if (!fakernic_access_is_sane(s, req->type, le32_to_cpu(req->access))) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mr_req,
                               access);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_create_mr(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_create_mr_req *req = request;
    struct fakernic_id *resp = response;
    FakernicVerdict v = fakernic_check_create_mr(s, req);
    RoceMrInit init = {
        .type = req->type,
        .tag = req->tag,
        .pd = fakernic_pd_handle(s, le32_to_cpu(req->pdn)),
        .access = le32_to_cpu(req->access),
        .page_count = le32_to_cpu(req->max_pages),
    };
    uint32_t key;
    uint8_t status;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (fakernic_mr_has_pages(req->type)) {
        const FakernicRange range = { le64_to_cpu(req->iova),
                                      le64_to_cpu(req->length), &req->pages };

        status = req->type == FAKERNIC_MR_DM ?
                 fakernic_range_dm_pages(s, &range, &init) :
                 fakernic_range_pages(s, &range, 0, &init);
        if (status != FAKERNIC_CMD_OK) {
            return fakernic_page_list_verdict(status,
                offsetof(struct fakernic_create_mr_req, pages));
        }
    } else if (req->type == FAKERNIC_MR_ON_DEMAND) {
        init.iova = le64_to_cpu(req->iova);
        init.length = le64_to_cpu(req->length);
        init.page_shift = req->pages.page_shift;
    } else if (s->mr_pages + init.page_count > s->max_mr_pages ||
               !fakernic_pages_take(s, init.page_count)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    status = roce_mr_create(s->roce, &init, &key);
    if (status != FAKERNIC_CMD_OK) {
        free(init.pages);
        fakernic_pages_give(s, init.page_count);
        return FAKERNIC_VERDICT(status);
    }
    fakernic_key_set_pages(s, key, init.page_count);
    fakernic_key_set_pd(s, key, le32_to_cpu(req->pdn));
    resp->id = cpu_to_le32(key);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_mr(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t key = le32_to_cpu(req->id);
    FakernicProgress *p = &s->progress;

    if (!p->waking) {
        uint8_t status = roce_mr_destroy_begin(s->roce, key);

        if (status == FAKERNIC_CMD_BAD_ID) {
            return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
        }
        if (status != FAKERNIC_CMD_OK) {
            return FAKERNIC_VERDICT(status);
        }
        fakernic_key_set_pages(s, key, 0);
        fakernic_key_set_pd(s, key, 0);
    }
    p->waking = !roce_wake_some(s->roce);
    if (p->waking) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_LATER);
    }
    fakernic_page_requests_forget(s, key);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict
fakernic_check_rereg_mr(FakernicState *s,
                        const struct fakernic_rereg_mr_req *req)
{
    const uint32_t mask = le32_to_cpu(req->mask);
    const FakernicRange range = { le64_to_cpu(req->iova),
                                  le64_to_cpu(req->length), &req->pages };

    if (!mask || (mask & ~(FAKERNIC_REREG_TRANSLATION | FAKERNIC_REREG_PD |
                           FAKERNIC_REREG_ACCESS))) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_rereg_mr_req, mask);
    }
    if (!(mask & FAKERNIC_REREG_TRANSLATION) &&
        (req->iova || req->length ||
         !fakernic_page_list_is_zero(&req->pages))) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_rereg_mr_req, iova);
    }
    if (!(mask & FAKERNIC_REREG_PD) && req->pdn) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_rereg_mr_req, pdn);
    }
    if (!(mask & FAKERNIC_REREG_ACCESS) && req->access) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_rereg_mr_req, access);
    }
    if (FAKERNIC_GET(FAKERNIC_KEY_INDEX, le32_to_cpu(req->key)) >= s->max_mr) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_rereg_mr_req, key);
    }
    if ((mask & FAKERNIC_REREG_TRANSLATION) &&
        !fakernic_range_is_sane(&range)) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_rereg_mr_req, length);
    }
    if ((mask & FAKERNIC_REREG_PD) && !fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_rereg_mr_req, pdn);
    }
    if ((mask & FAKERNIC_REREG_ACCESS) &&
        !fakernic_access_is_sane(s, FAKERNIC_MR_MEMORY,
                                 le32_to_cpu(req->access))) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_rereg_mr_req, access);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_rereg_mr(FakernicState *s, const void *request,
                                      void *response)
{
    const struct fakernic_rereg_mr_req *req = request;
    struct fakernic_id *resp = response;
    const uint32_t mask = le32_to_cpu(req->mask);
    FakernicVerdict v = fakernic_check_rereg_mr(s, req);
    RoceMrInit init = {
        .type = FAKERNIC_MR_MEMORY,
        .pd = fakernic_pd_handle(s, le32_to_cpu(req->pdn)),
        .access = le32_to_cpu(req->access),
    };
    uint32_t key = le32_to_cpu(req->key);
    uint32_t index = FAKERNIC_GET(FAKERNIC_KEY_INDEX, key);
    uint8_t status;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (mask & FAKERNIC_REREG_TRANSLATION) {
        const FakernicRange range = { le64_to_cpu(req->iova),
                                      le64_to_cpu(req->length), &req->pages };

        status = fakernic_range_pages(s, &range, s->keys[index].pages, &init);
        if (status != FAKERNIC_CMD_OK) {
            return fakernic_page_list_verdict(status,
                offsetof(struct fakernic_rereg_mr_req, pages));
        }
    }
    status = roce_mr_rereg(s->roce, mask, &init, &key);
    if (status != FAKERNIC_CMD_OK) {
        free(init.pages);
        fakernic_pages_give(s, init.page_count);
        if (status == FAKERNIC_CMD_BAD_ID) {
            return FAKERNIC_REFUSE(BAD_ID, struct fakernic_rereg_mr_req, key);
        }
        return FAKERNIC_VERDICT(status);
    }
    if (mask & FAKERNIC_REREG_TRANSLATION) {
        fakernic_key_set_pages(s, key, init.page_count);
    }
    if (mask & FAKERNIC_REREG_PD) {
        fakernic_key_set_pd(s, key, le32_to_cpu(req->pdn));
    }
    resp->id = cpu_to_le32(key);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_create_mw(FakernicState *s, const void *request,
                                       void *response)
{
    const struct fakernic_create_mw_req *req = request;
    struct fakernic_id *resp = response;
    uint32_t key;
    uint8_t status;

    if (req->type != FAKERNIC_MW_TYPE_1 && req->type != FAKERNIC_MW_TYPE_2B) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_create_mw_req, type);
    }
    if (!fakernic_pd(s, le32_to_cpu(req->pdn))) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_create_mw_req, pdn);
    }
    status = roce_mw_create(s->roce, req->type, req->tag,
                            fakernic_pd_handle(s, le32_to_cpu(req->pdn)),
                            &key);
    if (status == FAKERNIC_CMD_OK) {
        fakernic_key_set_pd(s, key, le32_to_cpu(req->pdn));
        resp->id = cpu_to_le32(key);
    }
    return FAKERNIC_VERDICT(status);
}

FakernicVerdict fakernic_run_destroy_mw(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t key = le32_to_cpu(req->id);

    if (roce_mw_destroy(s->roce, key) != FAKERNIC_CMD_OK) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    fakernic_key_set_pd(s, key, 0);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
