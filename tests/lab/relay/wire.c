/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journey of a frame. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS_SIZE 6
#define HEADER_SIZE  14
/*
 * Approximate limits of the frames of one end that rules hold. When one is
 * reached, the end is not read until some of these frames have continued.
 */
#define HELD_MAX       16384
#define HELD_BYTES_MAX (1u << 25)
/* A reordered frame waits this long for others to pass. */
#define REORDER_NS     100000000

/* ---- waits for full ends ------------------------------------------------- */

/* Is an end other than this one full? */
static bool wire_another_full(const Wire *w, unsigned number)
{
    for (unsigned i = 0; i < w->count; i++) {
        if (i != number && end_is_full(&w->ends[i].end, w->now)) {
            return true;
        }
    }
    return false;
}

bool wire_reads(const Wire *w, unsigned number)
{
    const WireEnd *e = &w->ends[number];

    return e->held < HELD_MAX && e->held_bytes < HELD_BYTES_MAX &&
           !wire_another_full(w, number);
}

/* No end is full: held frames may continue. */
static bool wire_is_free(const Wire *w)
{
    return !wire_another_full(w, w->count);
}

RoceTime wire_deadline(const Wire *w)
{
    RoceTime deadline = wire_is_free(w) ? held_deadline(&w->late)
                                        : ROCE_TIME_NEVER;

    for (unsigned i = 0; i < w->count; i++) {
        const End *e = &w->ends[i].end;

        if (end_has_frame(e) && wire_reads(w, i)) {
            return w->now;
        }
        if (end_is_full(e, w->now) && e->wait_ends < deadline) {
            deadline = e->wait_ends;
        }
    }
    return deadline;
}

/* ---- to which end -------------------------------------------------------- */

static unsigned wire_place(const uint8_t *address)
{
    uint32_t hash = 2166136261u;        /* FNV-1a (public domain) */

    for (unsigned i = 0; i < ADDRESS_SIZE; i++) {
        hash = (hash ^ address[i]) * 16777619u;
    }
    return (hash ^ hash >> 16) % WIRE_BEHIND;
}

/* The end to which frames for the address go; 'count': not known. */
static unsigned wire_known(const Wire *w, const uint8_t *address)
{
    const unsigned place = wire_place(address);

    if (!(address[0] & 1) && w->behind[place].known &&
        memcmp(w->behind[place].address, address, ADDRESS_SIZE) == 0) {
        return w->behind[place].end;
    }
    return w->count;
}

static void wire_learn(Wire *w, const uint8_t *address, unsigned number)
{
    const unsigned place = wire_place(address);

    memcpy(w->behind[place].address, address, ADDRESS_SIZE);
    w->behind[place].end = (uint8_t)number;
    w->behind[place].known = true;
}

/* ---- rules --------------------------------------------------------------- */

/* The end whose rules judge a frame at this place. */
static WireEnd *wire_whose(Wire *w, Place place)
{
    return &w->ends[place.point == ROCE_FAULT_TX ? place.from : place.to];
}

/* The reordered frame that waits at this place, or NULL. */
static Held **wire_overtaken(Wire *w, Place place)
{
    return &wire_whose(w, place)->overtaken[place.point == ROCE_FAULT_RX];
}

/* Holds the frame until 'due'. NULL: out of memory, the frame is lost. */
static Held *wire_hold(Wire *w, Place place, RoceTime due, const uint8_t *frame,
                       size_t len)
{
    Held *held = held_add(&w->late, place, due, frame, len);

    if (held) {
        w->ends[place.from].held++;
        w->ends[place.from].held_bytes += len;
    }
    return held;
}

/* Holds a frame until 'by' others have passed. False: another one is held, so
 * this frame passes it. */
static bool wire_reorder(Wire *w, Place place, uint64_t by,
                         const uint8_t *frame, size_t len)
{
    Held **overtaken = wire_overtaken(w, place);

    if (*overtaken) {
        return false;
    }
    *overtaken = wire_hold(w, place, w->now + REORDER_NS, frame, len);
    if (*overtaken) {
        (*overtaken)->behind = by;
    }
    return true;
}

/* Counts a frame that passed the reordered one, which may be due then. */
static void wire_passed(Wire *w, Place place)
{
    Held *held = *wire_overtaken(w, place);

    if (held && held->behind && !--held->behind) {
        held_hurry(&w->late, held);
    }
}

static void wire_pass(Wire *w, Place place, const uint8_t *frame, size_t len);

/* Passes the frame on from this place, after its rules. */
static void wire_onward(Wire *w, Place place, const uint8_t *frame, size_t len)
{
    unsigned known;

    if (place.point == ROCE_FAULT_RX) {
        end_queue(&w->ends[place.to].end, frame, len, w->now);
        return;
    }
    known = w->count > 2 ? wire_known(w, frame) : w->count;
    if (w->count > 2) {
        wire_learn(w, frame + ADDRESS_SIZE, place.from);
    }
    for (unsigned i = 0; i < w->count; i++) {
        if (i != place.from && (known == w->count || known == i)) {
            wire_pass(w, (Place) { ROCE_FAULT_RX, place.from, i }, frame, len);
        }
    }
}

/* Applies the rules at the place, then passes the frame on. */
static void wire_pass(Wire *w, Place place, const uint8_t *frame, size_t len)
{
    const RoceFaultRule *rule = faults_judge(&wire_whose(w, place)->faults,
                                             place.point, w->now, frame, len);
    uint8_t *changed = w->changed[place.point == ROCE_FAULT_RX];
    unsigned times = 1;

    switch (rule ? rule->act : ROCE_FAULT_COUNT) {
    case ROCE_FAULT_DROP:
        return;
    case ROCE_FAULT_DELAY:
        wire_hold(w, place, w->now + (RoceTime)rule->delay_ns, frame, len);
        return;
    case ROCE_FAULT_THROTTLE:
        if (rule->goes > w->now) {
            wire_hold(w, place, rule->goes, frame, len);
            return;
        }
        break;
    case ROCE_FAULT_REORDER:
        if (wire_reorder(w, place, rule->by, frame, len)) {
            return;
        }
        break;
    case ROCE_FAULT_DUPLICATE:
        times = 2;
        break;
    case ROCE_FAULT_CORRUPT:
    case ROCE_FAULT_TRUNCATE:
    case ROCE_FAULT_MARK:
        memcpy(changed, frame, len);
        frame = changed;
        len = roce_fault_change(rule, changed, len);
        break;
    default:
        break;
    }
    while (len >= HEADER_SIZE && times--) {
        wire_onward(w, place, frame, len);
    }
    wire_passed(w, place);
}

/* ---- turns --------------------------------------------------------------- */

/* Sends the held frames that are due. */
static void wire_release(Wire *w)
{
    Held *held, **overtaken;

    while (wire_is_free(w) && (held = held_take(&w->late, w->now))) {
        overtaken = wire_overtaken(w, held->place);
        if (*overtaken == held) {
            *overtaken = NULL;
        }
        w->ends[held->place.from].held--;
        w->ends[held->place.from].held_bytes -= held->len;
        wire_onward(w, held->place, held->frame, held->len);
        free(held);
    }
}

/* Reports once that an end sent something that is no frame. */
static void wire_blame(WireEnd *e, RoceTime now)
{
    if (!e->blamed) {
        fprintf(stderr, "relay: %s sends data that is not a frame\n", e->end.name);
        e->blamed = true;
    }
    end_close(&e->end, now);
}

/* Passes on the received frames of an end until one has to wait. */
static void wire_take(Wire *w, unsigned number)
{
    End *e = &w->ends[number].end;
    const uint8_t *frame;
    ssize_t len;

    while (e->fd >= 0 && wire_reads(w, number) &&
           (len = end_next(e, &frame)) != 0) {
        if (len < 0) {
            wire_blame(&w->ends[number], w->now);
            return;
        }
        capture_add(&w->capture, frame, (size_t)len);
        if (len >= HEADER_SIZE) {
            wire_pass(w, (Place) { ROCE_FAULT_TX, number, 0 }, frame,
                      (size_t)len);
            wire_release(w);
        }
    }
}

void wire_turn(Wire *w)
{
    wire_release(w);
    for (unsigned i = 0; i < w->count; i++) {
        wire_take(w, i);
    }
    /* A frame is in the capture before its receiver gets it. */
    capture_flush(&w->capture);
    for (unsigned i = 0; i < w->count; i++) {
        End *e = &w->ends[i].end;

        if (e->fd >= 0 && !end_flush(e, w->now)) {
            end_close(e, w->now);
        }
    }
}

bool wire_inject(Wire *w, unsigned number, const uint8_t *frame, size_t len)
{
    End *e = &w->ends[number].end;

    if (e->fd < 0) {
        return false;
    }
    end_queue(e, frame, len, w->now);
    return true;
}

WireEnd *wire_named(Wire *w, const char *name)
{
    for (unsigned i = 0; i < w->count; i++) {
        if (strcmp(w->ends[i].end.name, name) == 0) {
            return &w->ends[i];
        }
    }
    return NULL;
}
