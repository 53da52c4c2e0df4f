/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging (fakernic/cmdq.h, FAKERNIC_FEATURE_ODP). The engine's page
 * requests go into a bounded list, and an event reports that it is not empty.
 * The driver reads the list by QUERY_PAGE_REQUESTS, and reports the result by
 * UPDATE_PAGES. While the list is full the engine keeps further requests in
 * order of arrival.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "../memory.h"
#include "odp.h"
#include "../state.h"
#include "../queue/eq.h"
#include "../queue/ring.h"
#include "../../trace.h"

typedef struct fakernic_update_pages_req UpdatePagesReq;

static void fakernic_page_requests_announce(FakernicState *s)
{
    fakernic_event(s, NULL, &s->device_events, FAKERNIC_EVENT_PAGE_REQUEST, 0);
}

/* Merges two requests that overlap or are adjacent. */
static bool fakernic_page_request_merge(FakernicPageRequest *into,
                                        const FakernicPageRequest *other)
{
    if (into->key != other->key || into->write != other->write ||
        (into->last < other->address && other->address - into->last > 1) ||
        (other->last < into->address && into->address - other->last > 1)) {
        return false;
    }
    into->address = MIN(into->address, other->address);
    into->last = MAX(into->last, other->last);
    return true;
}

bool fakernic_page_request(void *host, uint32_t key, uint64_t address,
                           uint64_t length, bool write)
{
    FakernicState *s = host;
    const FakernicPageRequest request = {
        .key = key, .write = write, .address = address,
        .last = address + (length - 1),
    };

    for (uint32_t i = 0; i < s->page_request_count; i++) {
        if (fakernic_page_request_merge(&s->page_requests[i], &request)) {
            s->stats[FAKERNIC_STAT_PAGE_REQUESTS]++;
            return true;
        }
    }
    if (s->page_request_count == FAKERNIC_PAGE_REQUEST_LIST) {
        return false;
    }
    trace_fakernic_page_request(s->name, key, address, length, write);
    s->stats[FAKERNIC_STAT_PAGE_REQUESTS]++;
    s->page_requests[s->page_request_count++] = request;
    if (s->page_request_count == 1) {
        fakernic_page_requests_announce(s);
    }
    return true;
}

static void fakernic_page_requests_drop(FakernicState *s, uint32_t first,
                                        uint32_t count)
{
    s->page_request_count -= count;
    memmove(s->page_requests + first, s->page_requests + first + count,
            (s->page_request_count - first) * sizeof(s->page_requests[0]));
}

void fakernic_page_requests_forget(FakernicState *s, uint32_t key)
{
    for (uint32_t i = s->page_request_count; i-- > 0;) {
        if (FAKERNIC_GET(FAKERNIC_KEY_INDEX, s->page_requests[i].key) ==
            FAKERNIC_GET(FAKERNIC_KEY_INDEX, key)) {
            fakernic_page_requests_drop(s, i, 1);
        }
    }
    roce_page_requests_resume(s->roce);
}

FakernicVerdict fakernic_run_query_page_requests(FakernicState *s,
                                                 const void *request,
                                                 void *response)
{
    struct fakernic_query_page_requests_resp *resp = response;
    uint32_t count = MIN(s->page_request_count, FAKERNIC_PAGE_REQUESTS_MAX);

    for (uint32_t i = 0; i < count; i++) {
        const FakernicPageRequest *from = &s->page_requests[i];

        resp->request[i] = (struct fakernic_page_request) {
            .address = cpu_to_le64(from->address),
            .length = cpu_to_le64(from->last - from->address + 1),
            .key = cpu_to_le32(from->key),
            .flags = cpu_to_le32(from->write ? FAKERNIC_PAGE_REQUEST_WRITE
                                             : 0),
        };
    }
    resp->count = cpu_to_le32(count);
    fakernic_page_requests_drop(s, 0, count);
    if (s->page_request_count) {
        fakernic_page_requests_announce(s);
    }
    roce_page_requests_resume(s->roce);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Decodes the flags; false: the combination is not defined. */
static bool fakernic_pages_state(uint32_t flags, RocePages *state)
{
    switch (flags) {
    case FAKERNIC_PAGES_PRESENT:
        *state = ROCE_PAGES_READABLE;
        return true;
    case FAKERNIC_PAGES_PRESENT | FAKERNIC_PAGES_WRITABLE:
        *state = ROCE_PAGES_WRITABLE;
        return true;
    case FAKERNIC_PAGES_ABSENT:
        *state = ROCE_PAGES_ABSENT;
        return true;
    case FAKERNIC_PAGES_REFUSED:
        *state = ROCE_PAGES_REFUSED;
        return true;
    default:
        return false;
    }
}

static FakernicVerdict fakernic_check_update_pages(const UpdatePagesReq *req,
                                                   RocePages *state)
{
    const struct fakernic_page_list *list = &req->pages;
    uint32_t count = le32_to_cpu(list->page_count);

    if (!fakernic_pages_state(le32_to_cpu(req->flags), state)) {
        return FAKERNIC_REFUSE(BAD_PARAM, UpdatePagesReq, flags);
    }
    if (*state != ROCE_PAGES_ABSENT && count > FAKERNIC_UPDATE_PAGES_MAX) {
        return FAKERNIC_REFUSE(BAD_PAGE_LIST, UpdatePagesReq, pages);
    }
    if ((*state == ROCE_PAGES_ABSENT || *state == ROCE_PAGES_REFUSED) &&
        (list->address || list->page_shift || list->levels || list->rsvd)) {
        return FAKERNIC_REFUSE(BAD_PAGE_LIST, UpdatePagesReq, pages);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Pages of a list that are reported to the engine in one turn. */
#define FAKERNIC_PAGES_PER_TURN 1024

/*
 * Reads the page list, over several turns when it is long, and keeps it until
 * the command ends; enum fakernic_cmd_status.
 */
static uint8_t fakernic_update_pages_read(FakernicState *s,
                                          const UpdatePagesReq *req,
                                          RocePageUpdate *update)
{
    const uint64_t bytes = update->page_count * sizeof(uint64_t);
    FakernicPageReader *r = &s->progress.pages;
    uint8_t status = FAKERNIC_CMD_OK;
    uint64_t *pages = NULL;

    if (!r->pages) {
        if (!fakernic_memory_take(s, bytes)) {
            return FAKERNIC_CMD_NO_RESOURCE;
        }
        status = fakernic_page_reader_begin(r, &req->pages, update->page_count);
    }
    if (status == FAKERNIC_CMD_OK) {
        status = fakernic_page_reader_run(s, r, FAKERNIC_TABLES_PER_TURN,
                                          &pages);
    }
    if (status == FAKERNIC_CMD_OK) {
        update->pages = r->pages = pages;
    } else if (status != FAKERNIC_CMD_LATER) {
        fakernic_memory_give(s, bytes);
    }
    return status;
}

/* Reports to the engine some pages of a list per turn, or all pages without a
 * list at once. Then wakes those that wait for them, some in each turn. */
static uint8_t fakernic_update_pages_tell(FakernicState *s,
                                          const RocePageUpdate *update)
{
    const uint32_t max = update->pages ? FAKERNIC_PAGES_PER_TURN : UINT32_MAX;
    FakernicProgress *p = &s->progress;

    if (!p->waking) {
        uint8_t status = roce_mr_update_some(s->roce, update, &p->next, max);

        if (status != FAKERNIC_CMD_OK) {
            return status;
        }
    }
    p->waking = !roce_wake_some(s->roce);
    return p->waking || p->next < update->page_count ? FAKERNIC_CMD_LATER
                                                     : FAKERNIC_CMD_OK;
}

FakernicVerdict fakernic_run_update_pages(FakernicState *s, const void *request,
                                          void *response)
{
    const UpdatePagesReq *req = request;
    RocePageUpdate update = {
        .key = le32_to_cpu(req->key),
        .address = le64_to_cpu(req->address),
        .page_count = le32_to_cpu(req->pages.page_count),
        .page_shift = req->pages.page_shift,
    };
    FakernicVerdict v = fakernic_check_update_pages(req, &update.state);
    uint8_t status;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (update.state == ROCE_PAGES_READABLE ||
        update.state == ROCE_PAGES_WRITABLE) {
        status = fakernic_update_pages_read(s, req, &update);
        if (status != FAKERNIC_CMD_OK) {
            return fakernic_page_list_verdict(status,
                                              offsetof(UpdatePagesReq, pages));
        }
    }
    status = fakernic_update_pages_tell(s, &update);
    if (status == FAKERNIC_CMD_LATER) {
        return FAKERNIC_VERDICT(status);
    }
    trace_fakernic_update_pages(s->name, update.key, update.address,
                                update.page_count, le32_to_cpu(req->flags),
                                status);
    switch (status) {
    case FAKERNIC_CMD_OK:
        s->stats[FAKERNIC_STAT_PAGE_UPDATES]++;
        s->stats[FAKERNIC_STAT_PAGES_REFUSED] +=
            update.state == ROCE_PAGES_REFUSED;
        return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
    case FAKERNIC_CMD_BAD_ID:
        return FAKERNIC_REFUSE(BAD_ID, UpdatePagesReq, key);
    case FAKERNIC_CMD_BAD_PAGE_LIST:
        return FAKERNIC_REFUSE(BAD_PAGE_LIST, UpdatePagesReq, pages);
    default:
        return FAKERNIC_REFUSE(BAD_PARAM, UpdatePagesReq, address);
    }
}
