/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults: what the rules of ../roce/fault.h do to the device, and what they
 * hold back.
 *
 * Each point asks with roce_fault_at() first, so that a device without rules
 * pays for one test of a bit. What is held is bounded, and gone with a reset.
 */
#ifndef FAKERNIC_DEVICE_FAULT_H
#define FAKERNIC_DEVICE_FAULT_H

#include "common.h"
#include "compat.h"
#include "qapi/error.h"
#include "../roce/fault.h"

/* What rules have said about an entry of a CQ. */
typedef struct FakernicCqeFault {
    RoceFaultSpoil spoil;
    bool overrun;               /* there is no room for it */
} FakernicCqeFault;

/* What goes on later. */
typedef struct FakernicHeld {
    QTAILQ_ENTRY(FakernicHeld) next;
    RoceFaultPoint point;
    RoceTime due;
    uint64_t behind;            /* so many others of its point and number
                                 * go first */
    bool loopback;
    uint64_t offset, word;      /* a doorbell */
    uint32_t number;            /* a CQ, a vector, an EQ or SQ that waits */
    RoceCompletion completion;
    FakernicCqeFault fault;
    size_t len;                 /* a frame */
    uint8_t frame[];
} FakernicHeld;

typedef struct FakernicFaults {
    RoceFaults rules;
    bool told;                  /* there was a rule since power-on: STATUS */
    RoceTime thaw;              /* when the freeze ends */
    char frozen_by[ROCE_FAULT_ID];
    RoceTime link_until;        /* the link is down; 0: it is not */
    char link_by[ROCE_FAULT_ID];
    QTAILQ_HEAD(, FakernicHeld) held;
    uint64_t judged;            /* vectors that rules have had their say on */
    uint32_t held_count;
    uint32_t stalls;            /* of these, queues and vectors that wait */
    uint64_t held_bytes;
    FakernicWriter listener;    /* is told of hits; may be of nobody */
    uint64_t heard;             /* hits since it is there */
    uint64_t untold;            /* of these, not told since the last line */
    uint32_t firsts;            /* told as first hits of their rules */
    bool torn;                  /* it has taken a part of a line */
} FakernicFaults;

/* At realize, before rules are taken; and at the end. */
void fakernic_fault_init(FakernicState *s);

/* Takes rules in words (roce_fault_add()). */
bool fakernic_fault_add(FakernicState *s, const char *text, Error **errp);

/* All rules in words, a line each; to be freed. */
char *fakernic_fault_text(const FakernicState *s);

/*
 * May fakernic_fault_frame() have anything to do with this frame? A rule may be
 * about it, or what a rule holds waits for frames to go by.
 */
bool fakernic_fault_at_frame(const FakernicState *s, RoceFaultPoint point,
                             const uint8_t *frame, size_t len);

/*
 * A frame at TX or RX, which may be changed in its place. False: it goes no
 * further, as it is lost or held, or less than a header is left of it.
 */
bool fakernic_fault_frame(FakernicState *s, RoceFaultSubject *subject,
                          uint8_t *frame, size_t *len, bool loopback);

/* A doorbell that a frozen device hears later. */
void fakernic_fault_hold_doorbell(FakernicState *s, uint64_t offset,
                                  uint64_t word);

/*
 * The rule that the subject hits, or NULL; 'now' is filled in. Where PAUSE is
 * offered it is done here.
 */
const RoceFaultRule *fakernic_fault_hit(FakernicState *s,
                                        RoceFaultSubject *subject);

/*
 * A store into a doorbell page, or CMDQ_DOORBELL, whose word may be changed in
 * its place. False: it is lost, or comes later.
 */
bool fakernic_fault_doorbell(FakernicState *s, RoceFaultSubject *subject,
                             uint64_t offset, uint64_t *word);

/*
 * A completion, whose status may be changed in its place, and what is to happen
 * to its entry. False: it is lost or comes later; then those of
 * its CQ that follow come behind it.
 */
bool fakernic_fault_cqe(FakernicState *s, RoceCompletion *completion,
                        FakernicCqeFault *fault);

/* The CQ is gone, and what is held for it. */
void fakernic_fault_forget_cq(FakernicState *s, uint32_t cqn);

/* The EQ is gone: it waits no longer. */
void fakernic_fault_forget_eq(FakernicState *s, uint32_t eqn);

/*
 * The QP or WQ of this number, which is still there, goes away or to RESET, and
 * what is held of it; but receives that an XRC target took are their SRQ's.
 */
void fakernic_fault_forget_qp(FakernicState *s, uint32_t qpn);

/*
 * The EQ (point EQE) is flushed, the SQ (SEND_WQE) fetched from then, if it is
 * still there.
 */
void fakernic_fault_stall(FakernicState *s, RoceFaultPoint point,
                          uint32_t number, RoceTime until);

/*
 * What a rule, which is asked once for each, says about the next WQE of a
 * queue; NULL: nothing. 'waits' is the queue's own, 0 at first: when it goes on
 * after a DELAY. False: it waits, with a rule: from now on. When as many send
 * queues wait as may, another does not.
 */
bool fakernic_fault_wqe(FakernicState *s, RoceFaultSubject *subject,
                        RoceTime *waits, const RoceFaultRule **rule);

/*
 * What a rule says about the next entry of the EQ; NULL: nothing. With a DELAY
 * 'until' is when the EQ goes on: it is flushed then.
 */
const RoceFaultRule *fakernic_fault_eqe(FakernicState *s, uint32_t eqn,
                                        RoceTime *until);

/* False: the message is not sent now. */
bool fakernic_fault_interrupt(FakernicState *s, unsigned vector);

/* What a rule says about this turn of the device; NULL: nothing. */
const RoceFaultRule *fakernic_fault_device(FakernicState *s);

/* True, once: the link that a rule took down is back. */
bool fakernic_fault_link_back(FakernicState *s);

/* Is anything held? */
bool fakernic_fault_holds(const FakernicState *s);

typedef enum FakernicGoes {
    FAKERNIC_GOES_ALL,
    FAKERNIC_GOES_UNSENT,       /* all but frames for the wire */
    FAKERNIC_GOES_RECEIVED,     /* frames from there */
} FakernicGoes;

/* Takes out what goes on now, of several what was due first; NULL: nothing. To
 * be freed. */
FakernicHeld *fakernic_fault_due(FakernicState *s, RoceTime now,
                                 FakernicGoes which);

/* When something that is held goes on. */
RoceTime fakernic_fault_deadline(const FakernicState *s,
                                 FakernicGoes which);

/* Forgets what is held; rules and their counters stay. */
void fakernic_fault_reset(FakernicState *s);

#endif
