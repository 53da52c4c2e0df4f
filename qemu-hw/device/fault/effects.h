/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults: applies the rules of ../fault/rules.h to the device, and keeps the
 * items that rules hold.
 *
 * Each point calls roce_fault_at() first, so that a device without rules only
 * tests one bit. The number of held items is bounded; a reset discards them.
 */
#ifndef FAKERNIC_DEVICE_FAULT_EFFECTS_H
#define FAKERNIC_DEVICE_FAULT_EFFECTS_H

#include "../common.h"
#include "../compat.h"
#include "qapi/error.h"
#include "../../fault/rules.h"

/* What a rule does to an entry of a CQ. */
typedef struct FakernicCqeFault {
    RoceFaultSpoil spoil;
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
    bool told;                  /* had a rule since power-on: STATUS */
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
    uint64_t untold;            /* hits without a line since the last line */
    uint32_t firsts;            /* lines for first hits of rules */
    bool torn;                  /* the last line was written partially */
} FakernicFaults;

/* Called at realize, before rules are added. */
void fakernic_fault_init(FakernicState *s);

/* Adds rules given as text (roce_fault_add()). */
bool fakernic_fault_add(FakernicState *s, const char *text, Error **errp);

/* All rules as text, one per line; the caller frees it. */
char *fakernic_fault_text(const FakernicState *s);

/*
 * False: fakernic_fault_frame() has nothing to do with this frame. True: a rule
 * may match it, or a held item may wait for frames to pass.
 */
bool fakernic_fault_at_frame(const FakernicState *s, RoceFaultPoint point,
                             const uint8_t *frame, size_t len);

/*
 * Applies rules to a frame at TX or RX, and may change it in place. False: the
 * caller stops, because the frame is dropped, held, or shorter than a header.
 */
bool fakernic_fault_frame(FakernicState *s, RoceFaultSubject *subject,
                          uint8_t *frame, size_t *len, bool loopback);

/* Holds a doorbell of a frozen device until it thaws. */
void fakernic_fault_hold_doorbell(FakernicState *s, uint64_t offset,
                                  uint64_t word);

/*
 * The rule that the subject hits, or NULL; sets subject->now. The action PAUSE
 * is executed here.
 */
const RoceFaultRule *fakernic_fault_hit(FakernicState *s,
                                        RoceFaultSubject *subject);

/*
 * Applies rules to a store into a doorbell page or CMDQ_DOORBELL, and may
 * change the word in place. False: it is dropped or held.
 */
bool fakernic_fault_doorbell(FakernicState *s, RoceFaultSubject *subject,
                             uint64_t offset, uint64_t *word);

/*
 * Applies rules to a completion: may change its status in place, and sets
 * *fault for its entry. False: it is dropped or held. Later completions of the
 * CQ wait behind one that a DELAY holds.
 */
bool fakernic_fault_cqe(FakernicState *s, RoceCompletion *completion,
                        FakernicCqeFault *fault);

/* The CQ is destroyed: discards the items held for it. */
void fakernic_fault_forget_cq(FakernicState *s, uint32_t cqn);

/* The EQ is destroyed: ends its stall. */
void fakernic_fault_forget_eq(FakernicState *s, uint32_t eqn);

/*
 * The QP or WQ is about to be destroyed or reset: discards the items held for
 * it. Receive completions of an XRC target belong to the SRQ and stay.
 */
void fakernic_fault_forget_qp(FakernicState *s, uint32_t qpn);

/*
 * Stalls a queue or vector. At 'until' a turn flushes the EQ (point EQE),
 * fetches from the SQ (SEND_WQE) or raises the vector (INTERRUPT).
 */
void fakernic_fault_stall(FakernicState *s, RoceFaultPoint point,
                          uint32_t number, RoceTime until);

/*
 * Applies rules once to the next WQE of a queue; *rule is the rule, or NULL.
 * *waits belongs to the queue: 0 at first, then the end of a DELAY. False: the
 * queue waits; with a rule, its wait begins now. Beyond the limit of stalled
 * send queues a DELAY has no effect.
 */
bool fakernic_fault_wqe(FakernicState *s, RoceFaultSubject *subject,
                        RoceTime *waits, const RoceFaultRule **rule);

/*
 * The rule for the next entry of the EQ, or NULL. A DELAY stalls the EQ: a turn
 * flushes it at *until.
 */
const RoceFaultRule *fakernic_fault_eqe(FakernicState *s, uint32_t eqn,
                                        RoceTime *until);

/* False: a rule drops the interrupt message or holds it. */
bool fakernic_fault_interrupt(FakernicState *s, unsigned vector);

/* The rule that this turn of the device hits, or NULL. */
const RoceFaultRule *fakernic_fault_device(FakernicState *s);

/* True, once: the time for which a rule took the link down has ended. */
bool fakernic_fault_link_back(FakernicState *s);

/* True: at least one item is held. */
bool fakernic_fault_holds(const FakernicState *s);

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
