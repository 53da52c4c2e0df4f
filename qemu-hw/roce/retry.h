/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The patience of a requester: what it waits for, until when, and how often it
 * tries again (IBTA 9.7.5.2.8, 9.7.6.1).
 *
 * Time is a number handed in; the timer is the field 'deadline', which the
 * caller watches. The verbs decide; going back and failing are the caller's.
 * Only the verbs write these fields. The limits are those of the QP's
 * attributes timeout, retry_cnt and rnr_retry.
 */
#ifndef ROCE_RETRY_H
#define ROCE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "roce.h"

#define ROCE_RNR_RETRY_FOREVER 7

/* The shortest wait for an ACK where IBTA's range allows it: see retry.c. */
#define ROCE_ACK_WAIT_FLOOR_NS 250000000
/* The shortest silence that is probed: on a path that has lost a packet, and on
 * one that has not. There it is the peer that is slow: see retry.c. */
#define ROCE_PROBE_FLOOR_NS 5000000
#define ROCE_PROBE_TRUST_NS 25000000
/* A timer that is this late was delayed by a busy host, which delays the peer
 * as well. */
#define ROCE_LATE_NS 2000000
/* How many late timers in a row start the silence again. */
#define ROCE_LATE_MAX 3
/*
 * Probes in a row; each waits twice as long as the one before. A timeout gives
 * no new ones: eight QPs that READ over a queue that is too short took a tenth
 * longer with them.
 */
#define ROCE_PROBES_MAX 5

typedef enum RoceRetryMode {
    ROCE_RETRY_SENDING,
    ROCE_RETRY_WAIT_RNR,        /* until the deadline */
    ROCE_RETRY_WAIT_PAGES,      /* until the host tells of any */
} RoceRetryMode;

/* How an answer tells that something was lost. */
typedef enum RoceSign {
    ROCE_SIGN_GAP,              /* implied NAK: answers are missing */
    ROCE_SIGN_NAK,              /* NAK sequence: requests are missing */
} RoceSign;

typedef struct RoceRetry {
    RoceRetryMode mode;
    RoceTime deadline;          /* of the mode; NEVER: no timer runs */
    uint8_t retry_left;
    uint8_t rnr_left;
    uint8_t signs;              /* acted on since progress: a bit of each */
    bool refused;               /* so was an RNR NAK */
    bool unsent;                /* its wait is over, nothing has gone since */
    bool paced;                 /* the next packet waits for the pacer */
    RoceTime ack_at;            /* SENDING: when silence is a timeout */
    bool lossy;                 /* the path has lost a packet, or seems to */
    bool probe;                 /* a probe is to be sent */
    uint8_t probes;             /* since progress */
    uint8_t late;               /* silences that began anew, the same */
    /* The round trip, as RFC 6298 has it; 0: not known. */
    RoceTime trip, deviation;
    bool timing;                /* a packet's answer is awaited to measure it */
    uint32_t timed_psn;
    RoceTime timed_at;
} RoceRetry;

/* What came of an RNR NAK. */
typedef enum RoceRnr {
    ROCE_RNR_KNOWN,             /* a copy: acted on, and nothing sent since */
    ROCE_RNR_WAIT,              /* go back when the deadline comes */
    ROCE_RNR_EXCEEDED,          /* no try is left */
} RoceRnr;

/* What the deadline means when it comes. */
typedef enum RoceExpiry {
    ROCE_EXPIRY_NOTHING,        /* the silence is our own: it starts anew */
    ROCE_EXPIRY_RNR,            /* the wait is over: go back */
    ROCE_EXPIRY_PROBE,          /* it is long for a round trip: ask */
    ROCE_EXPIRY_TIMEOUT,        /* no answer: take a try, and go back */
} RoceExpiry;

/* Requester RNR NAK timer field to nanoseconds (IBTA 9.7.5.2.8, table 45). */
RoceTime roce_retry_rnr_ns(uint8_t timer);

/*
 * How long to wait for an ACK (IBTA 9.7.6.1.3, C9-141: from one to four times
 * 4.096 us << timeout); ROCE_TIME_NEVER for timeout 0.
 */
RoceTime roce_retry_ack_ns(uint8_t timeout);

/* Sending, no timer, no tries left. */
void roce_retry_init(RoceRetry *t);
/* All tries anew, as when the attributes change. */
void roce_retry_refill(RoceRetry *t, const RoceQpAttr *attr);
/* A new path: what was heard of the old one is void. Its timer stops. */
void roce_retry_restart(RoceRetry *t, const RoceQpAttr *attr);
/* The queue is flushed: nothing is waited for. */
void roce_retry_stop(RoceRetry *t);

/*
 * A packet went out: the timer runs from the first one without an answer. That
 * of a 'slow' QP, which may take long to the packet that asks for an ACK,
 * starts anew with each.
 */
void roce_retry_sent(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                     bool slow);
/* Does a timer run for an answer? With a timeout of 0 there is none. */
static inline bool roce_retry_awaits(const RoceRetry *t)
{
    return t->mode == ROCE_RETRY_SENDING && t->deadline != ROCE_TIME_NEVER;
}

/*
 * The next packet waits for the pacer; or no longer, and if 'outstanding' ones
 * have no timer for that reason, they get one.
 */
void roce_retry_pace(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                     bool waits, bool outstanding);
/* An answer moved on; 'outstanding': others are still waited for. */
void roce_retry_progress(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                         bool outstanding);

/*
 * An answer tells of a loss. True: take a try, and go back. False: it is a copy
 * of what was acted on, or comes while something else is waited for.
 */
bool roce_retry_sign(RoceRetry *t, RoceSign sign);
/* Takes a try, and stops the timer; false: none is left. */
bool roce_retry_take(RoceRetry *t);
/* An RNR NAK with its timer field. */
RoceRnr roce_retry_rnr(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                       uint8_t timer);
/*
 * The deadline has come. If the timer is late by as much as the silence has
 * lasted, nothing ran here: an answer may wait to be received, and the silence
 * starts again, ROCE_LATE_MAX times at most. 'untold': only the silence can show
 * that a packet was lost, so the path counts as lossy. Else the peer reports a
 * gap as soon as a later packet comes, unless the last ones were lost: their
 * silences are long.
 */
RoceExpiry roce_retry_expire(RoceRetry *t, RoceTime now, bool untold);

/*
 * The round trip. A packet that asks for an answer is timed when it is first
 * sent, one at a time; what is sent again is not (Karn's rule). A silence much
 * longer than that asks for a probe: it costs a packet and no try. A trip that
 * was probed counts as what was waited for before the first probe, if it took
 * longer: trips that become longer than the wait are learnt in a few rounds.
 */
void roce_retry_time(RoceRetry *t, RoceTime now, uint32_t psn);
/* All before 'una' is answered. To be called before roce_retry_progress(). */
void roce_retry_timed(RoceRetry *t, RoceTime now, uint32_t una);
/* The next probe waits for this long at least; NEVER: there is none. */
RoceTime roce_retry_probe_ns(const RoceRetry *t);
/* The probe was sent. */
void roce_retry_probed(RoceRetry *t);

/*
 * Pages of our own memory are missing. This is like an RNR wait, but for the
 * host and not for the peer: no try is counted, no timer runs.
 */
void roce_retry_wait_pages(RoceRetry *t);
/* The host tells of pages; true: they were waited for. */
bool roce_retry_pages(RoceRetry *t);

#endif
