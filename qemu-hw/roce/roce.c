/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine's entry points: creation and reset, the data plane's push and
 * pull, and the GID table. The host pulls frames in turn from the QPs that
 * have something to send. One call makes at most one frame, and visits a
 * bounded number of QPs for it.
 */
#include "engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROCE_PORT_MTU_DEFAULT 9000

static bool roce_power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

Roce *roce_new(const RoceLimits *limits, const RoceHostOps *ops, void *host)
{
    Roce *r = calloc(1, sizeof(*r));

    assert(roce_power_of_two(limits->max_qp) && limits->max_qp <= ROCE_QPNS);
    assert(roce_power_of_two(limits->max_sends) && limits->gid_count > 0);
    assert(limits->max_mcast_groups <= ROCE_MCAST_GROUPS_MAX);
    /* Not reached by tests, as below: out of memory. */
    if (!r) {
        return NULL;
    }
    r->limits = *limits;
    r->ops = ops;
    r->host = host;
    if (!ops->page_request) {
        r->limits.max_odp_chunks = 0;
    }
    r->mrs = roce_mr_table_new(&r->limits, ops, host);
    r->qps = calloc(limits->max_qp, sizeof(*r->qps));
    r->free_qpns = calloc(limits->max_qp, sizeof(*r->free_qpns));
    r->heap = calloc(limits->max_qp, sizeof(*r->heap));
    r->gids = calloc(limits->gid_count, sizeof(*r->gids));
    r->mcast = calloc(limits->max_mcast_groups ? limits->max_mcast_groups : 1,
                      sizeof(*r->mcast));
    if (!r->mrs || !r->qps || !r->free_qpns || !r->heap || !r->gids ||
        !r->mcast) {
        /* Not reached by tests. */
        roce_free(r);
        return NULL;
    }
    roce_reset(r);
    return r;
}

void roce_free(Roce *r)
{
    uint32_t i;

    if (!r) {
        return;
    }
    for (i = 0; r->qps && i < r->limits.max_qp; i++) {
        if (r->qps[i]) {
            roce_qp_free(r, r->qps[i]);
        }
    }
    if (r->mrs) {
        roce_mr_table_free(r->mrs);
    }
    free(r->mcast);
    free(r->gids);
    free(r->heap);
    free(r->free_qpns);
    free(r->qps);
    free(r);
}

/* Number of page addresses that are freed in the time of one object. */
#define ROCE_PAGES_PER_OBJECT 4096

static bool roce_reset_objects(Roce *r, uint32_t max)
{
    for (; r->reset_next < r->limits.max_qp; r->reset_next++) {
        if (!r->qps[r->reset_next]) {
            continue;
        }
        if (max-- == 0) {
            return false;
        }
        roce_qp_free(r, r->qps[r->reset_next]);
    }
    return roce_mr_table_reset_some(r->mrs, max) &&
           roce_reclaim(r, (uint64_t)max * ROCE_PAGES_PER_OBJECT);
}

bool roce_reset_some(Roce *r, uint32_t max)
{
    if (!roce_reset_objects(r, max)) {
        return false;
    }
    r->reset_next = 0;
    memset(r->gids, 0, r->limits.gid_count * sizeof(*r->gids));
    memset(r->mcast, 0, r->limits.max_mcast_groups * sizeof(*r->mcast));
    memset(r->stats, 0, sizeof(r->stats));
    r->mcast_copy_len = 0;
    r->gid_hint = 0;
    r->gid_epoch = 1;
    roce_qp_numbers_reset(r);
    r->ip_id = 0;
    r->wire_blocked = false;
    r->checks_csum = false;
    r->stalled = false;
    r->port_mtu = ROCE_PORT_MTU_DEFAULT;
    return true;
}

void roce_reset(Roce *r)
{
    while (!roce_reset_some(r, UINT32_MAX)) {
    }
}

bool roce_reclaim(Roce *r, uint64_t pages)
{
    return roce_mr_table_reclaim(r->mrs, pages);
}

uint64_t *roce_stats(Roce *r)
{
    return r->stats;
}

uint64_t roce_work(const Roce *r)
{
    return r->work + roce_mr_table_looks(r->mrs) / ROCE_LOOKS_PER_STEP;
}

/* ---- data plane ---------------------------------------------------------- */

void roce_post_send(Roce *r, RoceTime now, uint32_t qpn)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (!qp) {
        return;
    }
    switch (qp->attr.state) {
    case FAKERNIC_QPS_RTS:
        roce_sched_ready(r, qp);
        break;
    case FAKERNIC_QPS_SQE:
    case FAKERNIC_QPS_ERR:
        roce_flush(r, now, qp);
        break;
    default:
        break;      /* the WQEs stay in the ring until RTS (IBTA 10.3.1) */
    }
}

RoceInput roce_input(Roce *r, RoceTime now, const uint8_t *frame, size_t len)
{
    r->work++;
    return roce_input_frame(r, now, frame, len);
}

bool roce_input_ethernet(Roce *r, RoceTime now, uint32_t qpn,
                         const uint8_t *frame, size_t len, bool strip)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (!qp || qp->init.type != FAKERNIC_QP_RAW_PACKET ||
        qp->attr.state < FAKERNIC_QPS_RTR ||
        qp->attr.state == FAKERNIC_QPS_ERR) {
        r->stats[FAKERNIC_STAT_RX_NO_BUFFER]++;
        return false;
    }
    r->work++;
    return roce_raw_input(r, now, qp, frame, len, strip);
}

void roce_set_wire(Roce *r, bool takes_frames)
{
    r->wire_blocked = !takes_frames;
}

void roce_tick(Roce *r, RoceTime now)
{
    const uint64_t first = r->work;

    r->stalled = false;
    while (r->work - first < ROCE_STEPS_PER_TICK) {
        RoceQp *qp = roce_sched_first(r);

        if (!qp || qp->deadline > now) {
            return;
        }
        r->work++;
        if (qp->flush_at <= now) {
            roce_flush(r, now, qp);
        } else if (qp->pace.wake <= now) {
            roce_pacer_turn(r, qp);
        } else {
            roce_requester_timer(r, now, qp);
        }
    }
}

RoceTime roce_deadline(const Roce *r)
{
    const RoceQp *qp = roce_sched_first(r);

    if (r->stalled) {
        return 0;           /* at once */
    }
    return qp ? qp->deadline : ROCE_TIME_NEVER;
}

/* Requests and answers of a QP take turns: neither starves the other. */
static size_t roce_output_connected(Roce *r, RoceTime now, RoceQp *qp,
                                    uint8_t *buf)
{
    bool responder = qp->responder_first;
    size_t len = 0;
    int i;

    for (i = 0; i < 2 && len == 0; i++, responder = !responder) {
        if (responder && roce_path_waits(r, qp)) {
            len = 0;
        } else if (responder) {
            len = roce_response_output(r, now, qp, buf);
        } else {
            len = roce_requester_output(r, now, qp, buf);
        }
        qp->responder_first = !responder;
    }
    return len;
}

static size_t roce_output_qp(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                             bool *loopback)
{
    size_t len;

    *loopback = false;
    if (qp->init.type == FAKERNIC_QP_RAW_PACKET) {
        return roce_raw_output(r, now, qp, buf);
    }
    /* A CNP goes first: congestion exists now. */
    len = roce_congestion_output(r, now, qp, buf, loopback);
    if (len == 0 && roce_qp_datagram(qp)) {
        len = roce_datagram_output(r, now, qp, buf, loopback);
    } else if (len == 0) {
        len = roce_output_connected(r, now, qp, buf);
        *loopback = len > 0 && roce_path_loopback(r, qp);
    }
    if (len > 0) {
        roce_count(r, qp, FAKERNIC_STAT_TX_ROCE);
        roce_count_by(r, qp, FAKERNIC_STAT_TX_ROCE_BYTES, len);
    }
    return len;
}

const RoceFrameInfo *roce_output_info(const Roce *r)
{
    return &r->out;
}

/*
 * The previous frame has been sent. If its service has no answers, its work
 * request is complete.
 */
static void roce_output_gone(Roce *r, RoceTime now)
{
    RoceQp *qp = r->sent;

    r->sent = NULL;
    if (qp) {
        roce_retire(r, now, qp);
    }
}

size_t roce_output(Roce *r, RoceTime now, uint8_t *buf, bool *loopback)
{
    const uint64_t limit = roce_work(r) + ROCE_STEPS_PER_OUTPUT;
    unsigned turns = ROCE_TURNS_PER_OUTPUT;
    size_t len;

    r->stalled = false;
    roce_output_gone(r, now);
    len = roce_mcast_output(r, buf);
    if (len > 0) {
        /* r->out still describes the original, which was sent just before. */
        *loopback = true;
        return len;
    }
    while (turns-- > 0 && roce_work(r) < limit) {
        RoceQp *qp = roce_sched_next(r);

        if (!qp) {
            return 0;
        }
        r->work++;
        r->out = (RoceFrameInfo) { .qpn = qp->qpn, .index = ROCE_INDEX_NONE };
        len = roce_output_qp(r, now, qp, buf, loopback);
        if (len > 0) {
            roce_sched_served(r, qp, len);
            return len;
        }
        if (r->wire_wanted) {
            roce_sched_park(r, qp);
        }
    }
    r->stalled = roce_sched_has_next(r);
    return 0;
}

/* ---- control plane ------------------------------------------------------- */

int roce_qp_destroy(Roce *r, uint32_t qpn)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (!qp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    roce_return_recv(r, qp);
    roce_mcast_leave(r, qpn);
    roce_mr_table_qp_gone(r->mrs, qpn, UINT32_MAX);
    roce_qp_free(r, qp);
    return FAKERNIC_CMD_OK;
}

bool roce_qp_unbind(Roce *r, uint32_t qpn, uint32_t max)
{
    return !roce_qp_find(r, qpn) || roce_mr_table_qp_gone(r->mrs, qpn, max);
}

int roce_mr_create(Roce *r, const RoceMrInit *init, uint32_t *key)
{
    return roce_mr_table_create(r->mrs, init, key);
}

int roce_mr_rereg(Roce *r, uint32_t mask, const RoceMrInit *init,
                  uint32_t *key)
{
    return roce_mr_table_rereg(r->mrs, mask, init, key);
}

/*
 * The host has reported some pages that this wait needs. Returns true if local
 * work can continue. For ROCE_WAIT_REQUEST it returns false: the peer may or
 * may not repeat its request.
 */
static bool roce_wake(Roce *r, RoceWait *wait)
{
    RoceQp *qp = wait->qp;

    roce_pages_end(r, wait);
    if (wait->kind == ROCE_WAIT_SEND && roce_retry_pages(&qp->retry)) {
        if (roce_qp_reliable(qp)) {
            roce_sendq_rewind(&qp->sq);
        }
        roce_sched_ready(r, qp);
        return true;
    }
    if (wait->kind == ROCE_WAIT_ANSWER) {
        qp->rs.pages_awaited = false;
        roce_sched_ready(r, qp);
        return true;
    }
    return false;
}

/*
 * A waiter that misses a reported page retries. A waiter that wants other
 * bytes of the range has not received its answer. Its request is repeated,
 * because the host may take this answer for the whole.
 */
static void roce_wake_up_to(Roce *r, uint64_t limit)
{
    RoceWait *wait;
    bool goes_on;

    while (roce_work(r) < limit &&
           (wait = roce_pages_next(r, limit - roce_work(r)))) {
        if (!roce_pages_answered(wait, r->page_report.first,
                                 r->page_report.last)) {
            roce_pages_ask_again(r, wait);
            continue;
        }
        goes_on = roce_wake(r, wait);
        if (r->page_report.refused) {
            roce_mr_table_refuse(r->mrs, &wait->want, goes_on);
        }
    }
}

bool roce_wake_some(Roce *r)
{
    roce_wake_up_to(r, roce_work(r) + ROCE_STEPS_PER_WAKE);
    return !r->page_report.next;
}

int roce_mr_destroy_begin(Roce *r, uint32_t key)
{
    const RocePageReport report = { .key = key, .last = UINT64_MAX };
    int status;

    roce_wake_up_to(r, UINT64_MAX);
    status = roce_mr_table_destroy(r->mrs, key);
    if (status == FAKERNIC_CMD_OK) {
        roce_pages_report(r, &report);
    }
    return status;
}

int roce_mr_destroy(Roce *r, uint32_t key)
{
    int status = roce_mr_destroy_begin(r, key);

    roce_wake_up_to(r, UINT64_MAX);
    return status;
}

int roce_mr_update_some(Roce *r, const RocePageUpdate *update, uint32_t *done,
                        uint32_t max)
{
    const uint32_t rest = update->page_count - *done;
    const uint32_t count = rest < max ? rest : max;
    int status;

    roce_wake_up_to(r, UINT64_MAX);
    status = roce_mr_table_update(r->mrs, update, *done, count);
    if (status == FAKERNIC_CMD_OK && update->state != ROCE_PAGES_ABSENT) {
        uint8_t shift = roce_mr_table_page_shift(r->mrs, update->key);
        uint64_t first = update->address + ((uint64_t)*done << shift);
        const RocePageReport report = {
            .key = update->key,
            .first = first,
            .last = first + (((uint64_t)count << shift) - 1),
            .refused = update->state == ROCE_PAGES_REFUSED,
        };

        roce_pages_report(r, &report);
    }
    *done += status == FAKERNIC_CMD_OK ? count : 0;
    return status;
}

int roce_mr_update_pages(Roce *r, const RocePageUpdate *update)
{
    uint32_t done = 0;
    int status = roce_mr_update_some(r, update, &done, UINT32_MAX);

    roce_wake_up_to(r, UINT64_MAX);
    return status;
}

void roce_flush_ended(Roce *r, uint32_t qpn, uint64_t ticket, bool ok)
{
    RoceQp *qp = roce_qp_find(r, qpn);

    if (qp && qp->rs.flush_ticket == ticket) {
        qp->rs.flush_ticket = 0;
        qp->rs.flush_failed = !ok;
        roce_sched_ready(r, qp);
    }
}

bool roce_flush_resume(Roce *r)
{
    RoceQp *qp = r->flush_head;

    if (qp) {
        roce_sched_flush_wake(r, qp);
        roce_sched_ready(r, qp);
    }
    return qp;
}

int roce_mw_create(Roce *r, uint8_t type, uint8_t tag, RocePd pd,
                   uint32_t *key)
{
    return roce_mr_table_mw_create(r->mrs, type, tag, pd, key);
}

int roce_mw_destroy(Roce *r, uint32_t key)
{
    return roce_mr_table_mw_destroy(r->mrs, key);
}

bool roce_mr_view(const Roce *r, uint32_t index, RoceMrView *view)
{
    return roce_mr_table_view(r->mrs, index, view);
}

uint32_t roce_pd_users(const Roce *r, RocePd pd)
{
    return roce_mr_table_pd_users(r->mrs, pd);
}

int roce_gid_set(Roce *r, uint16_t index, const RoceGid *gid)
{
    bool ipv4 = gid->type == FAKERNIC_GID_IPV4;

    if (index >= r->limits.gid_count ||
        (gid->type != FAKERNIC_GID_NONE && !ipv4 &&
         gid->type != FAKERNIC_GID_IPV6)) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    if (gid->type != FAKERNIC_GID_NONE &&
        (roce_gid_is_ipv4(gid->gid) != ipv4 ||
         roce_gid_is_multicast(gid->gid) ||
         (gid->vlan > 0xfff && gid->vlan != FAKERNIC_VLAN_NONE))) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    r->gids[index] = *gid;
    r->gid_epoch++;
    return FAKERNIC_CMD_OK;
}

bool roce_gid_get(const Roce *r, uint16_t index, RoceGid *gid)
{
    if (index >= r->limits.gid_count ||
        r->gids[index].type == FAKERNIC_GID_NONE) {
        return false;
    }
    *gid = r->gids[index];
    return true;
}

void roce_set_port_mtu(Roce *r, uint32_t mtu)
{
    r->port_mtu = mtu;
}

void roce_set_checks_csum(Roce *r, bool checks)
{
    r->checks_csum = checks;
}

/*
 * Adds field by field. Without their top bits no field can carry into the
 * next. The top bit of each sum is the sum of the two top bits and the carry
 * into it.
 */
static uint64_t roce_masked_add(uint64_t a, uint64_t b, uint64_t boundary)
{
    return ((a & ~boundary) + (b & ~boundary)) ^ ((a ^ b) & boundary);
}

uint64_t roce_atomic_result(const RoceAtomic *op, uint64_t value)
{
    uint64_t mask = op->swap_mask_or_boundary;

    switch (op->opcode) {
    case FAKERNIC_SQ_ATOMIC_CMP_SWAP:
        return value == op->compare ? op->swap_or_add : value;
    case FAKERNIC_SQ_ATOMIC_FETCH_ADD:
        return value + op->swap_or_add;
    case FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP:
        return (value ^ op->compare) & op->compare_mask
            ? value : (value & ~mask) | (op->swap_or_add & mask);
    case FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD:
        return roce_masked_add(value, op->swap_or_add, mask);
    default:
        return value;
    }
}
