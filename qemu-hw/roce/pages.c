/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits for pages (on-demand paging). A QP waits in up to three places, each
 * for one range at a time. The host takes requests while it has room for them.
 * The others are queued, first come, first served: however many requests one
 * process has, another's waits only for those queued before it. A report of
 * pages affects only the QPs that wait for them.
 */
#include "engine.h"

static RoceWait **pages_bucket(Roce *r, uint32_t key)
{
    return &r->waits[(key >> 8) % ROCE_WAIT_BUCKETS];
}

/* Requests the pages from the host. False: it has no room. */
static bool pages_ask(Roce *r, RoceWait *wait)
{
    const RoceFault *want = &wait->want;

    return r->ops->page_request(r->host, want->key, want->address,
                                want->length, want->write);
}

static void pages_leave_line(Roce *r, RoceWait *wait)
{
    if (!wait->in_line) {
        return;
    }
    wait->in_line = false;
    if (wait->line_prev) {
        wait->line_prev->line_next = wait->line_next;
    } else {
        r->line_head = wait->line_next;
    }
    if (wait->line_next) {
        wait->line_next->line_prev = wait->line_prev;
    } else {
        r->line_tail = wait->line_prev;
    }
}

static void pages_join_line(Roce *r, RoceWait *wait)
{
    wait->in_line = true;
    wait->line_next = NULL;
    wait->line_prev = r->line_tail;
    if (r->line_tail) {
        r->line_tail->line_next = wait;
    } else {
        r->line_head = wait;
    }
    r->line_tail = wait;
}

void roce_pages_end(Roce *r, RoceWait *wait)
{
    if (!wait->waits) {
        return;
    }
    pages_leave_line(r, wait);
    wait->waits = false;
    if (r->page_report.next == wait) {
        r->page_report.next = wait->next;
    }
    if (wait->prev) {
        wait->prev->next = wait->next;
    } else {
        *pages_bucket(r, wait->want.key) = wait->next;
    }
    if (wait->next) {
        wait->next->prev = wait->prev;
    }
}

void roce_pages_wait(Roce *r, RoceQp *qp, RoceWaitKind kind)
{
    RoceWait *wait = &qp->waits[kind];
    RoceWait **bucket;

    if (wait->waits && kind == ROCE_WAIT_REQUEST) {
        return;
    }
    roce_pages_end(r, wait);
    wait->qp = qp;
    wait->kind = kind;
    wait->waits = true;
    wait->want = *roce_mr_fault(r->mrs);
    bucket = pages_bucket(r, wait->want.key);
    wait->prev = NULL;
    wait->next = *bucket;
    if (wait->next) {
        wait->next->prev = wait;
    }
    *bucket = wait;
    roce_pages_ask_again(r, wait);
}

void roce_pages_forget(Roce *r, RoceQp *qp)
{
    unsigned i;

    for (i = 0; i < ROCE_WAIT_KINDS; i++) {
        roce_pages_end(r, &qp->waits[i]);
    }
}

void roce_page_requests_resume(Roce *r)
{
    const uint64_t limit = r->work + ROCE_STEPS_PER_WAKE;

    while (r->work < limit && r->line_head && pages_ask(r, r->line_head)) {
        r->work++;
        pages_leave_line(r, r->line_head);
    }
}

/* Do [first, last] and the wanted range overlap? */
static bool pages_concern(const RoceFault *want, uint32_t key, uint64_t first,
                          uint64_t last)
{
    return want->key >> 8 == key >> 8 && want->address <= last &&
           want->address + (want->length - 1) >= first;
}

bool roce_pages_answered(const RoceWait *wait, uint64_t first, uint64_t last)
{
    return wait->want.page >= first && wait->want.page <= last;
}

void roce_pages_ask_again(Roce *r, RoceWait *wait)
{
    if (!wait->in_line && (r->line_head || !pages_ask(r, wait))) {
        pages_join_line(r, wait);
    }
}

/*
 * Later waits are inserted before this position: they have asked the host
 * already.
 */
void roce_pages_report(Roce *r, const RocePageReport *report)
{
    r->page_report = *report;
    r->page_report.next = *pages_bucket(r, report->key);
}

RoceWait *roce_pages_next(Roce *r, uint64_t steps)
{
    RocePageReport *report = &r->page_report;

    while (report->next && steps-- > 0) {
        RoceWait *wait = report->next;

        r->work++;
        report->next = wait->next;
        if (pages_concern(&wait->want, report->key, report->first,
                          report->last)) {
            return wait;
        }
    }
    return NULL;
}

/* ---- saving and loading -------------------------------------------------- */

static void pages_fault_transfer(RoceStream *s, RoceFault *want)
{
    ROCE_FIELD(s, want->key);
    ROCE_FIELD(s, want->write);
    ROCE_FIELD(s, want->address);
    ROCE_FIELD(s, want->length);
    ROCE_FIELD(s, want->page);
}

/* Moves the name of a wait: its QP and kind. NULL: there is none. */
static void pages_name_transfer(RoceStream *s, Roce *r, RoceWait **wait)
{
    RoceQp *qp = !s->loads && *wait ? (*wait)->qp : NULL;
    RoceWaitKind kind = qp ? (*wait)->kind : ROCE_WAIT_SEND;

    roce_stream_qp(s, r, &qp);
    ROCE_ENUM(s, kind, ROCE_WAIT_KINDS);
    if (s->loads) {
        *wait = qp ? &qp->waits[kind] : NULL;
        if (*wait) {
            (*wait)->qp = qp;
            (*wait)->kind = kind;
        }
    }
}

static void pages_link(Roce *r, RoceWait *wait)
{
    RoceWait **bucket = pages_bucket(r, wait->want.key);

    wait->waits = true;
    wait->prev = NULL;
    wait->next = *bucket;
    if (wait->next) {
        wait->next->prev = wait;
    }
    *bucket = wait;
}

static void pages_wait_transfer(RoceStream *s, Roce *r, RoceWait *wait)
{
    pages_name_transfer(s, r, &wait);
    ROCE_CHECK(s, wait && !wait->waits, "wait for pages");
    if (!s->failed) {
        pages_fault_transfer(s, &wait->want);
    }
    if (s->loads && !s->failed) {
        pages_link(r, wait);
    }
    ROCE_DERIVED(wait->qp);             /* its name */
    ROCE_DERIVED(wait->kind);
    ROCE_DERIVED(wait->next);
    ROCE_DERIVED(wait->prev);
    ROCE_DERIVED(wait->in_line);        /* pages_line_transfer() */
    ROCE_DERIVED(wait->line_next);
    ROCE_DERIVED(wait->line_prev);
}

/* The waits of each bucket, the last one first. */
static uint32_t pages_save_waits(RoceStream *s, Roce *r, bool count_only)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < ROCE_WAIT_BUCKETS; i++) {
        RoceWait *wait = r->waits[i];

        while (wait && wait->next) {
            wait = wait->next;
        }
        for (; wait; wait = wait->prev) {
            count++;
            if (!count_only) {
                pages_wait_transfer(s, r, wait);
            }
        }
    }
    return count;
}

static void pages_waits_transfer(RoceStream *s, Roce *r)
{
    uint32_t count = s->loads ? 0 : pages_save_waits(s, r, true);

    ROCE_FIELD(s, count);
    ROCE_CHECK(s, count == 0 || r->limits.max_odp_chunks > 0,
               "wait for pages without on-demand paging");
    if (!s->loads) {
        pages_save_waits(s, r, false);
    }
    for (; s->loads && count > 0 && !s->failed; count--) {
        pages_wait_transfer(s, r, NULL);
    }
}

static void pages_line_transfer(RoceStream *s, Roce *r)
{
    RoceWait *wait = r->line_head, *each;

    do {
        each = s->loads ? NULL : wait;
        pages_name_transfer(s, r, &each);
        ROCE_CHECK(s, !each || (each->waits && !each->in_line),
                   "line of page requests");
        if (s->loads && !s->failed && each) {
            pages_join_line(r, each);
        }
        wait = wait ? wait->line_next : NULL;
    } while (each && !s->failed);
}

static void pages_report_transfer(RoceStream *s, Roce *r,
                                  RocePageReport *report)
{
    pages_name_transfer(s, r, &report->next);
    ROCE_FIELD(s, report->key);
    ROCE_FIELD(s, report->first);
    ROCE_FIELD(s, report->last);
    ROCE_FIELD(s, report->refused);
    ROCE_CHECK(s, !report->next ||
                      (report->next->waits &&
                       (!report->refused ||
                        roce_mr_table_on_demand(r->mrs, report->key))),
               "report of pages");
    if (s->failed) {
        report->next = NULL;
    }
}

void roce_pages_transfer(RoceStream *s, Roce *r)
{
    pages_waits_transfer(s, r);
    pages_line_transfer(s, r);
    pages_report_transfer(s, r, &r->page_report);
    ROCE_DERIVED(r->waits);
    ROCE_DERIVED(r->line_tail);
}
