/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The retry state of a requester: what it waits for, until when, and how often
 * it retries (IBTA 9.7.5.2.8, 9.7.6.1).
 *
 * The caller passes the time in. The timer is the field 'deadline', which the
 * caller watches. The functions below decide; the caller goes back or fails
 * the send. Only these functions write the fields. The limits are the QP's
 * attributes timeout, retry_cnt and rnr_retry.
 */
#ifndef ROCE_RETRY_H
#define ROCE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "roce.h"

#define ROCE_RNR_RETRY_FOREVER 7

/* The shortest ACK timeout, where IBTA's range allows it: see retry.c. */
#define ROCE_ACK_WAIT_FLOOR_NS 250000000
/* The shortest silence that is probed, on a path that has lost a packet and on
 * one that has not. On the latter the peer is probably slow: see retry.c. */
#define ROCE_PROBE_FLOOR_NS 5000000
#define ROCE_PROBE_TRUST_NS 25000000
/* A timer that is this late was delayed by a busy host, which delays the peer
 * too. */
#define ROCE_LATE_NS 2000000
/* Maximum number of consecutive late timers that restart the silence. */
#define ROCE_LATE_MAX 3
/*
 * Maximum number of consecutive probes; each wait is twice the previous one. A
 * timeout allows no further probes: with them, eight QPs that READ over a too
 * short queue took a tenth longer.
 */
#define ROCE_PROBES_MAX 5

typedef enum RoceRetryMode {
    ROCE_RETRY_SENDING,
    ROCE_RETRY_WAIT_RNR,        /* until the deadline */
    ROCE_RETRY_WAIT_PAGES,      /* until the host reports pages */
    ROCE_RETRY_MODES,
} RoceRetryMode;

/* How an answer shows that something was lost. */
typedef enum RoceSign {
    ROCE_SIGN_GAP,              /* implied NAK: answers are missing */
    ROCE_SIGN_NAK,              /* NAK sequence: requests are missing */
} RoceSign;

typedef struct RoceRetry {
    RoceRetryMode mode;
    RoceTime deadline;          /* of the mode; NEVER: no timer runs */
    uint8_t retry_left;
    uint8_t rnr_left;
    uint8_t signs;              /* bit map of signs handled since progress */
    bool refused;               /* an RNR NAK was handled since progress */
    bool unsent;                /* the RNR wait is over, nothing was sent
                                 * since */
    bool paced;                 /* the next packet waits for the pacer */
    RoceTime ack_at;            /* SENDING: time of the ACK timeout */
    bool lossy;                 /* the path has lost a packet, or seems to
                                 * have */
    bool probe;                 /* a probe is due */
    uint8_t probes;             /* since progress */
    uint8_t late;               /* silences restarted since progress */
    /* Round-trip time (RFC 6298); 0: not known. */
    RoceTime trip, deviation;
    bool timing;                /* a packet is being timed */
    uint32_t timed_psn;
    RoceTime timed_at;
} RoceRetry;

/* Result of an RNR NAK. */
typedef enum RoceRnr {
    ROCE_RNR_KNOWN,             /* a copy: handled, and nothing was sent
                                 * since */
    ROCE_RNR_WAIT,              /* go back when the deadline comes */
    ROCE_RNR_EXCEEDED,          /* no retry is left */
} RoceRnr;

/* What an expired deadline means. */
typedef enum RoceExpiry {
    ROCE_EXPIRY_NOTHING,        /* the host was late: the silence restarts */
    ROCE_EXPIRY_RNR,            /* the RNR wait is over: go back */
    ROCE_EXPIRY_PROBE,          /* longer than a round trip: send a probe */
    ROCE_EXPIRY_TIMEOUT,        /* no answer: use a retry, and go back */
} RoceExpiry;

/*
 * Converts the timer field of an RNR NAK to nanoseconds (IBTA 9.7.5.2.8, table
 * 45).
 */
RoceTime roce_retry_rnr_ns(uint8_t timer);

/*
 * The ACK timeout (IBTA 9.7.6.1.3, C9-141: one to four times 4.096 us <<
 * timeout); ROCE_TIME_NEVER for timeout 0.
 */
RoceTime roce_retry_ack_ns(uint8_t timeout);

/* Sets mode SENDING, no timer and no retries. */
void roce_retry_init(RoceRetry *t);
/* Restores all retries, for example when the attributes change. */
void roce_retry_refill(RoceRetry *t, const RoceQpAttr *attr);
/* A new path: discards what was learned about the old one. Stops the timer. */
void roce_retry_restart(RoceRetry *t, const RoceQpAttr *attr);
/* The queue is flushed: stops waiting. */
void roce_retry_stop(RoceRetry *t);

/*
 * A packet was sent. The timer runs from the first packet without an answer.
 * For a 'slow' QP each packet restarts it, because the packet that asks for an
 * ACK may follow much later.
 */
void roce_retry_sent(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                     bool slow);
/* Does a timer run for an answer? With a timeout of 0 none does. */
static inline bool roce_retry_awaits(const RoceRetry *t)
{
    return t->mode == ROCE_RETRY_SENDING && t->deadline != ROCE_TIME_NEVER;
}

/*
 * Sets whether the next packet waits for the pacer. At the end of such a wait
 * 'outstanding' packets that have no timer get one.
 */
void roce_retry_pace(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                     bool waits, bool outstanding);
/* An answer made progress. 'outstanding': the QP still waits for others. */
void roce_retry_progress(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                         bool outstanding);

/*
 * An answer shows a loss. True: use a retry, and go back. False: the loss is
 * handled already, or the requester waits for something else.
 */
bool roce_retry_sign(RoceRetry *t, RoceSign sign);
/* Uses a retry and stops the timer. False: none is left. */
bool roce_retry_take(RoceRetry *t);
/* Handles an RNR NAK with this timer field. */
RoceRnr roce_retry_rnr(RoceRetry *t, RoceTime now, const RoceQpAttr *attr,
                       uint8_t timer);
/*
 * The deadline has expired. If the timer is at least as late as the silence
 * was long, this host did not run and an answer may be waiting in a queue.
 * Then the silence restarts, at most ROCE_LATE_MAX times. 'only_silence': only
 * silence can show that a packet was lost, so the path counts as lossy.
 * Otherwise the peer reports a gap as soon as a later packet arrives, unless
 * the last packets were lost. Silences about those last long.
 */
RoceExpiry roce_retry_expire(RoceRetry *t, RoceTime now, bool only_silence);

/*
 * Round-trip measurement. A packet that asks for an answer is timed when it is
 * first sent, one at a time; a retransmission is not (Karn's rule). A silence
 * much longer than a round trip leads to a probe, which costs a packet but no
 * retry. A round trip that includes probes counts at most as the wait before
 * the first probe. So round trips that grow beyond that wait are learned in a
 * few rounds.
 */
void roce_retry_time(RoceRetry *t, RoceTime now, uint32_t psn);
/*
 * All PSNs before 'una' are answered. Callers call this before
 * roce_retry_progress().
 */
void roce_retry_timed(RoceRetry *t, RoceTime now, uint32_t una);
/* The shortest wait before the next probe. NEVER: there is none. */
RoceTime roce_retry_probe_ns(const RoceRetry *t);
/* Notes that the probe was sent. */
void roce_retry_probed(RoceRetry *t);

/*
 * Local pages are absent. The requester waits for the host, not for the peer,
 * so this uses no retry and no timer.
 */
void roce_retry_wait_pages(RoceRetry *t);
/* The host has reported pages. True: the requester was waiting for them. */
bool roce_retry_pages(RoceRetry *t);

/* Saves or loads it. Only a reliable QP waits for its peer. */
void roce_retry_transfer(RoceStream *s, RoceRetry *t, bool reliable);

#endif
