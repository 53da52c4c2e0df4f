/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The send side of one QP: work requests in flight and the PSN window.
 *
 *      ci                tx               pi          (entries, free running)
 *      | sent, not acked | being sent ... |
 *      una ............. tx_psn .. high .. next_psn   (PSNs)
 *
 * una is the oldest PSN without an answer, and tx_psn the next to send. high
 * is one after the highest ever sent, and next_psn the next to assign. A
 * request gets its PSNs when its first packet is due; a READ gets one for each
 * response packet. Going back N sets tx = ci, tx_psn = una.
 *
 * Messages have numbers too, SSNs. Those up to the limit lsn have a receive at
 * the peer, as far as it has reported (IBTA 9.7.7.2). A message that needs a
 * receive beyond the limit goes alone, as a probe, and its first packet goes
 * before the others. So there is always a packet whose answer updates the
 * limit. Until the peer has reported a limit, one message may go, with all its
 * packets.
 *
 * Only the functions below write these fields. Requester and completer both
 * use them.
 */
#ifndef ROCE_SENDQ_H
#define ROCE_SENDQ_H

#include "roce.h"
#include "psn.h"

/* PSNs that may be outstanding (IBTA 9.7.7.1, C9-139). */
#define ROCE_PSN_WINDOW 0x800000u
/* Number of ranges of outstanding PSNs whose attempts are counted. */
#define ROCE_SENDQ_AGAIN 8

/* One send work request in flight. */
typedef struct RoceSend {
    RoceSendWr *wr;         /* owned by the queue; allocated only up to its
                             * last SGE or inline byte */
    uint32_t length;        /* of the message, bytes */
    uint32_t cut_off;       /* bytes of a long TCP segment that were sent */
    uint32_t psn;           /* first */
    uint32_t psn_count;
    uint32_t ssn;
    bool consumes;          /* uses a receive at the peer */
    bool probe;             /* started beyond the limit */
    bool held;              /* was held back for a credit once */
    bool started;           /* has its PSNs */
    bool done;              /* needs no (further) answer */
    bool answered;          /* READ or atomic: data comes with the answer */
    uint8_t status;         /* enum fakernic_cqe_status; not 0: fails when all
                             * before it have completed */
    uint16_t vendor_err;
} RoceSend;

/* A range of PSNs that was retransmitted or will be. */
typedef struct RoceSendAgain {
    uint32_t first, end;
    uint8_t times;
} RoceSendAgain;

typedef struct RoceSendq {
    RoceSend *ring;
    uint32_t size;          /* of ring, power of two; 0: no send queue */
    uint32_t max;           /* limit of its growth, power of two */
    uint32_t ci, tx, pi;
    uint32_t una, tx_psn, high, next_psn;
    uint32_t ssn;           /* of the latest message started */
    uint32_t lsn;
    bool credits_known;     /* the peer has reported its credits */
    bool unlimited;         /* the peer does not report credits */
    uint32_t answers;       /* READs and atomics started, not complete */
    uint32_t answer_psns;   /* total of their PSNs */
    uint8_t again_count;    /* ranges sent before: */
    RoceSendAgain again[ROCE_SENDQ_AGAIN];  /* the oldest first */
    bool broken;            /* the host's ring failed: do not read it again */
} RoceSendq;

/*
 * Allocates a queue for up to 'max' entries, a power of two. False: out of
 * memory.
 */
bool roce_sendq_init(RoceSendq *sq, uint32_t max);
/* Frees the queue and what its entries own. */
void roce_sendq_free(RoceSendq *sq);
/* Discards all entries. */
void roce_sendq_reset(RoceSendq *sq, uint32_t psn);

static inline RoceSend *roce_sendq_at(const RoceSendq *sq, uint32_t i)
{
    return &sq->ring[i & (sq->size - 1)];
}

static inline bool roce_sendq_empty(const RoceSendq *sq)
{
    return sq->ci == sq->pi;
}

static inline bool roce_sendq_full(const RoceSendq *sq)
{
    return sq->pi - sq->ci == sq->max;
}

/* Number of PSNs assigned and not answered. */
static inline uint32_t roce_sendq_outstanding(const RoceSendq *sq)
{
    return roce_psn_sub(sq->next_psn, sq->una);
}

/* Upper limit of the SEND and WRITE packets in flight without an answer. */
uint32_t roce_sendq_data_in_flight(const RoceSendq *sq);

/* Is this PSN sent and unanswered? */
static inline bool roce_sendq_awaits(const RoceSendq *sq, uint32_t psn)
{
    return roce_psn_sub(psn, sq->una) < roce_psn_sub(sq->high, sq->una);
}

static inline uint32_t roce_send_end(const RoceSend *send)
{
    return roce_psn_add(send->psn, send->psn_count);
}

/* Has a part of the send been sent? Raw packets have no PSNs. */
static inline bool roce_send_begun(const RoceSend *send)
{
    return send->started || send->cut_off > 0;
}

/*
 * Appends a copy of the host's next WQE, with ownership of what it points to.
 * The queue must not be full. NULL: out of memory, and what the WQE owned is
 * freed.
 */
RoceSend *roce_sendq_push(RoceSendq *sq, const RoceSendWr *wr);
/* The host's ring failed: nothing more comes from it. */
void roce_sendq_break(RoceSendq *sq);
/* Drops the oldest entry. */
void roce_sendq_pop(RoceSendq *sq);

/*
 * Do the peer's receives allow the entry at tx, started or not, to send its
 * next packet?
 */
bool roce_sendq_has_credit(const RoceSendq *sq);
/* The peer does not report credits: any request may go. */
void roce_sendq_uncredited(RoceSendq *sq);
/*
 * The peer has completed 'msn' messages and has 'credits' receives. True: the
 * limit has increased.
 */
bool roce_sendq_credit(RoceSendq *sq, uint32_t msn, uint32_t credits);

/* Assigns the PSNs of the entry at tx. False: the PSN window is full. */
bool roce_sendq_start(RoceSendq *sq);
/* The next psn_count PSNs of the entry at tx are sent. */
void roce_sendq_sent(RoceSendq *sq, uint32_t psn_count);
/* The packet with this PSN was sent again, out of turn. */
void roce_sendq_probed(RoceSendq *sq, uint32_t psn);
/*
 * The number of times a repeated packet has been sent, with this time. Only
 * ROCE_SENDQ_AGAIN ranges are counted; if there are more, the oldest ones are
 * ignored.
 */
uint8_t roce_sendq_attempts(const RoceSendq *sq, uint32_t psn);
/*
 * The number of times the packet has been sent, with this time: 1, 2, ... 255.
 */
static inline uint8_t roce_sendq_attempt(const RoceSendq *sq, uint32_t psn)
{
    return roce_sendq_awaits(sq, psn) ? roce_sendq_attempts(sq, psn) : 1;
}
/* The entry at tx needs no (further) packets. */
void roce_sendq_skip(RoceSendq *sq);
/* The started entry of this PSN, which must be from una to before tx_psn. */
RoceSend *roce_sendq_find(const RoceSendq *sq, uint32_t psn);
/* Goes back to the oldest packet without an answer. */
void roce_sendq_rewind(RoceSendq *sq);

/*
 * The peer has received everything up to 'psn'. A READ or atomic in that range
 * whose data is missing stops the progress, and the function returns false.
 */
bool roce_sendq_ack(RoceSendq *sq, uint32_t psn, bool *progress);
/* Unreliable service: packets sent get no answer. */
void roce_sendq_expect_nothing(RoceSendq *sq);
/* Unreliable service: an abandoned message releases its unsent PSNs. */
void roce_sendq_abandon(RoceSendq *sq);
/* Advances all PSNs by one after a datagram was sent. */
void roce_sendq_datagram(RoceSendq *sq);
/* The answer packet with PSN una has arrived with its data. */
void roce_sendq_answer(RoceSendq *sq);

/* Does the entry at ci, which must exist, have all its answers? */
bool roce_sendq_head_complete(const RoceSendq *sq);
/* Are all entries that have begun complete? */
bool roce_sendq_drained(const RoceSendq *sq);

/*
 * Saves or loads the marks and counters. A load has pushed the entries before,
 * and set their fields. It fails if the queue is 'active' and these contradict
 * each other.
 */
void roce_sendq_transfer(RoceStream *s, RoceSendq *sq, bool reliable,
                         bool active);

#endif
