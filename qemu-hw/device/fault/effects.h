/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules of a device: adds rules (qemu-hw/fault/rules.h), matches them,
 * reports their hits, and keeps the items that they hold. The number of held
 * items is bounded; a reset discards them. Stations use gate.h.
 */
#ifndef FAKERNIC_DEVICE_FAULT_EFFECTS_H
#define FAKERNIC_DEVICE_FAULT_EFFECTS_H

#include "../common.h"
#include "../compat.h"
#include "qapi/error.h"
#include "../../fault/rules.h"

/* What a rule does to an entry of a CQ. */
typedef struct FakernicCqeFault {
    RoceFaultCorruption corruption;
    bool overrun;               /* treat the CQ as full */
} FakernicCqeFault;

/* A held item. */
typedef struct FakernicHeld {
    QTAILQ_ENTRY(FakernicHeld) next;
    RoceFaultPoint point;
    RoceTime due;
    uint64_t behind;            /* number of items of the same point and
                                 * number that must pass first */
    bool loopback;
    uint64_t offset, word;      /* a doorbell */
    uint32_t number;            /* a CQ; a stalled vector, EQ or SQ */
    RoceCompletion completion;
    FakernicCqeFault fault;
    size_t len;                 /* a frame */
    uint8_t frame[];
} FakernicHeld;

typedef struct FakernicFaults {
    RoceFaults rules;
    bool was_armed;             /* had a rule since power-on: STATUS */
    RoceTime thaw;              /* when the freeze ends */
    char frozen_by[ROCE_FAULT_ID];
    RoceTime link_until;        /* the link is down until then; 0: it is up */
    char link_by[ROCE_FAULT_ID];
    QTAILQ_HEAD(, FakernicHeld) held;
    uint64_t judged;            /* vectors that rules have passed already */
    uint32_t held_count;
    uint32_t stalls;            /* of these, queues and vectors that wait */
    uint64_t held_bytes;
    FakernicWriter listener;    /* gets a line per hit; may be unconnected */
    uint64_t heard;             /* hits while it is connected */
    uint64_t unsent;            /* hits without a line since the last line */
    uint32_t firsts;            /* lines for first hits of rules */
    bool torn;                  /* the last line was written partially */
    RoceCompletion completion;  /* the changed copy of the last one hit */
    FakernicCqeFault cqe;
    void *copy;                 /* the bytes of the last DMA write corrupted */
    uint8_t frame[ROCE_FRAME_MAX];      /* the copy of the last frame hit */
} FakernicFaults;

/* Called at realize, before rules are added. */
void fakernic_fault_init(FakernicState *s);

/* Adds rules given as text (roce_fault_add()). */
bool fakernic_fault_add(FakernicState *s, const char *text, Error **errp);

/* All rules as text, one per line; the caller frees it. */
char *fakernic_fault_text(const FakernicState *s);

/*
 * The rule that the subject hits, or NULL; sets subject->now. The action PAUSE
 * is executed here.
 */
const RoceFaultRule *fakernic_fault_hit(FakernicState *s,
                                        RoceFaultSubject *subject);

/*
 * Holds an item of 'len' more bytes until 'due'. To make room, the oldest item
 * that is not a stall is dropped.
 */
FakernicHeld *fakernic_fault_hold(FakernicState *s, RoceFaultPoint point,
                                  RoceTime due, size_t len);

/* True: there is no room for another item of 'len' bytes; stalls have room. */
bool fakernic_fault_is_full(const FakernicFaults *f, size_t len);

/*
 * An item has passed: items held before it wait for one less. 'gone' is the
 * item if it was held itself, else NULL.
 */
void fakernic_fault_pass(FakernicState *s, RoceFaultPoint point,
                         uint32_t number, const FakernicHeld *gone);

/*
 * Stalls a queue or vector. At 'until' a turn flushes the EQ (point EQE),
 * fetches from the SQ (SEND_WQE) or raises the vector (INTERRUPT).
 */
void fakernic_fault_stall(FakernicState *s, RoceFaultPoint point,
                          uint32_t number, RoceTime until);

/* The stall of a queue or vector, or NULL. */
FakernicHeld *fakernic_fault_stalled(const FakernicState *s,
                                     RoceFaultPoint point, uint32_t number);

typedef enum FakernicGoes {
    FAKERNIC_GOES_ALL,
    FAKERNIC_GOES_UNSENT,       /* all except frames for the wire */
    FAKERNIC_GOES_RECEIVED,     /* only frames from the wire */
} FakernicGoes;

/* Removes the item that is due first, if it is due now; NULL: none is. The
 * caller frees it. */
FakernicHeld *fakernic_fault_due(FakernicState *s, RoceTime now,
                                 FakernicGoes which);

/* When the next held item is due. */
RoceTime fakernic_fault_deadline(const FakernicState *s,
                                 FakernicGoes which);

/* Discards all held items; rules and their counters stay. */
void fakernic_fault_reset(FakernicState *s);

#endif
