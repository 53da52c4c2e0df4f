/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging in the fuzz target "guest": a driver that fetches page
 * requests from the device's list, and answers them correctly or not, at once,
 * later or never. See guest.h.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "guest.h"

/* At most this many pages per answer; the next one has the rest. */
#define ANSWER_PAGES 16

typedef enum Answer {
    ANSWER_RIGHT,
    ANSWER_READABLE,            /* also for a write request */
    ANSWER_REFUSED,
    ANSWER_ABSENT,
    ANSWER_BESIDE,              /* the pages behind the requested ones */
    ANSWER_TABLES,              /* lists of two levels with any contents */
    ANSWERS,
} Answer;

static void paging_update(Guest *g, Nic *n, uint32_t key, uint64_t address,
                          uint32_t count, uint32_t flags, bool tables,
                          unsigned page)
{
    struct fakernic_update_pages_req req = {
        .pages.page_count = LE32(count),
        .address = LE64(address & -(uint64_t)FAKERNIC_PAGE_SIZE),
        .key = LE32(key),
        .flags = LE32(flags),
    };

    if (flags & FAKERNIC_PAGES_PRESENT) {
        req.pages.address = LE64(nic_page(n, tables ? PAGE_TABLES + page % 4
                                                    : PAGE_DATA + page));
        req.pages.page_shift = FAKERNIC_PAGE_SHIFT;
        req.pages.levels = tables ? 1 + page % 2 : 0;
    }
    nic_command(g, n, FAKERNIC_CMD_UPDATE_PAGES, &req, sizeof(req), NULL, 0);
}

static void paging_answer(Guest *g, Nic *n,
                          const struct fakernic_page_request *want,
                          Answer answer)
{
    uint64_t address = le64_to_cpu(want->address);
    uint64_t in_page = address % FAKERNIC_PAGE_SIZE;
    uint64_t pages = DIV_ROUND_UP(in_page + (uint32_t)want->length,
                                  FAKERNIC_PAGE_SIZE);
    uint32_t flags = FAKERNIC_PAGES_PRESENT;

    if (want->flags & LE32(FAKERNIC_PAGE_REQUEST_WRITE) &&
        answer != ANSWER_READABLE) {
        flags |= FAKERNIC_PAGES_WRITABLE;
    }
    if (answer == ANSWER_REFUSED) {
        flags = FAKERNIC_PAGES_REFUSED;
    } else if (answer == ANSWER_ABSENT) {
        flags = FAKERNIC_PAGES_ABSENT;
    } else if (answer == ANSWER_BESIDE) {
        address += FAKERNIC_PAGE_SIZE;
    }
    paging_update(g, n, le32_to_cpu(want->key), address,
                  MIN(pages, ANSWER_PAGES), flags, answer == ANSWER_TABLES,
                  address / FAKERNIC_PAGE_SIZE % ANSWER_PAGES);
}

/* Fetches the requests from the list. */
static void paging_query(Guest *g, Nic *n)
{
    struct fakernic_query_page_requests_resp resp;

    if (nic_command(g, n, FAKERNIC_CMD_QUERY_PAGE_REQUESTS, NULL, 0, &resp,
                    sizeof(resp)) == FAKERNIC_CMD_OK) {
        n->wants = MIN(le32_to_cpu(resp.count), ARRAY_SIZE(n->want));
        memcpy(n->want, resp.request, sizeof(resp.request));
    }
}

void guest_page(Guest *g, Nic *n, bool refuse)
{
    if (!(n->features & FAKERNIC_FEATURE_ODP)) {
        return;
    }
    paging_query(g, n);
    for (unsigned i = 0; i < n->wants; i++) {
        paging_answer(g, n, &n->want[i],
                      refuse && i % 2 ? ANSWER_REFUSED : ANSWER_RIGHT);
    }
    n->wants = 0;
}

void command_paging(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    static const uint32_t flags[] = {
        FAKERNIC_PAGES_PRESENT,
        FAKERNIC_PAGES_PRESENT | FAKERNIC_PAGES_WRITABLE,
        FAKERNIC_PAGES_ABSENT,
        FAKERNIC_PAGES_REFUSED,
    };

    if (opcode == FAKERNIC_CMD_QUERY_PAGE_REQUESTS) {
        paging_query(g, n);
        return;
    }
    if (r->b & 1 && n->wants) {
        paging_answer(g, n, &n->want[--n->wants], (r->b >> 1) % ANSWERS);
        return;
    }
    paging_update(g, n, nic_pick(n, KIND_KEY, r->c & 0xff),
                  r->b & 32 ? r->g
                            : nic_page(n, PAGE_DATA + (r->d & 31)),
                  r->b & 64 ? r->e : 1 + r->e % 32,
                  r->b & 128 ? r->f : flags[r->b >> 1 & 3], r->b & 8,
                  r->d >> 8 & 31);
}
