/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The send side of one QP: work requests in flight and the PSN window.
 *
 *      ci                tx               pi          (entries, free running)
 *      | sent, not acked | being sent ... |
 *      una ............. tx_psn .. high .. next_psn   (PSNs)
 *
 * una is the oldest PSN without an answer, tx_psn the next to put on the wire,
 * high one beyond the highest ever sent, next_psn the next to give out. A
 * request gets its PSNs when its first packet is due; a READ takes one for each
 * of its response packets. Going back N is tx = ci, tx_psn = una.
 *
 * Messages have numbers too, SSNs; those up to the limit lsn have a receive at
 * the peer, as far as it has told (IBTA 9.7.7.2). One that needs a receive and
 * is beyond the limit goes alone, as a probe, and its first packet before the
 * others: so there is always a packet whose answer tells the limit anew. Of a
 * peer that has said nothing yet one message is hoped to be welcome.
 *
 * Only the functions below write these fields; requester and completer both
 * work through them.
 */
#ifndef ROCE_SENDQ_H
#define ROCE_SENDQ_H

#include "roce.h"
#include "psn.h"

/* PSNs that may be outstanding (IBTA 9.7.7.1, C9-139). */
#define ROCE_PSN_WINDOW 0x800000u
/* Parts of what is outstanding whose number of attempts is noted. */
#define ROCE_SENDQ_AGAIN 8

/* One send work request in flight. */
typedef struct RoceSend {
    RoceSendWr *wr;         /* the queue's; of its SGEs and inline data there
                             * are as many as it says, and no more */
    uint32_t length;        /* of the message, bytes */
    uint32_t cut_off;       /* of a long TCP segment's data, sent already */
    uint32_t psn;           /* first */
    uint32_t psn_count;
    uint32_t ssn;
    bool consumes;          /* a receive at the peer */
    bool probe;             /* started beyond the limit */
    bool held;              /* was held back for it once */
    bool started;           /* has its PSNs */
    bool done;              /* needs no answer (any more) */
    bool answered;          /* READ or atomic: data comes with the answer */
    uint8_t status;         /* enum fakernic_cqe_status; not 0: to be failed
                             * when all before it have completed */
    uint16_t vendor_err;
} RoceSend;

/* PSNs that were sent and are to be sent again, or were, by themselves. */
typedef struct RoceSendAgain {
    uint32_t first, end;
    uint8_t times;
} RoceSendAgain;

typedef struct RoceSendq {
    RoceSend *ring;
    uint32_t size;          /* of ring, power of two; 0: no send queue */
    uint32_t max;           /* what it may grow to, power of two */
    uint32_t ci, tx, pi;
    uint32_t una, tx_psn, high, next_psn;
    uint32_t ssn;           /* of the message started last */
    uint32_t lsn;
    bool told;              /* the peer has told its credits */
    bool unlimited;         /* the peer tells no credits */
    uint32_t answers;       /* READs and atomics started, not complete */
    uint32_t answer_psns;   /* and all their PSNs */
    uint8_t again_count;    /* parts that were sent, maybe again: */
    RoceSendAgain again[ROCE_SENDQ_AGAIN];  /* the oldest first */
    bool broken;            /* the host's ring is not to be read again */
} RoceSendq;

/* For up to 'max' entries, a power of two; false: out of memory. */
bool roce_sendq_init(RoceSendq *sq, uint32_t max);
/* What its entries hold, too. */
void roce_sendq_free(RoceSendq *sq);
/* Forgets all entries. */
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

/* PSNs given out or sent, and not answered. */
static inline uint32_t roce_sendq_outstanding(const RoceSendq *sq)
{
    return roce_psn_sub(sq->next_psn, sq->una);
}

/* SEND and WRITE packets on the wire without an answer, at most. */
uint32_t roce_sendq_data_in_flight(const RoceSendq *sq);

/* Is an answer with this PSN possible? */
static inline bool roce_sendq_awaits(const RoceSendq *sq, uint32_t psn)
{
    return roce_psn_sub(psn, sq->una) < roce_psn_sub(sq->high, sq->una);
}

static inline uint32_t roce_send_end(const RoceSend *send)
{
    return roce_psn_add(send->psn, send->psn_count);
}

/* Has a part of it been sent? Raw packets have no PSNs. */
static inline bool roce_send_begun(const RoceSend *send)
{
    return send->started || send->cut_off > 0;
}

/*
 * Puts a copy of the host's next WQE in, and what it owns; the queue must not
 * be full. NULL: there is no memory for it, and what it owns is freed.
 */
RoceSend *roce_sendq_push(RoceSendq *sq, const RoceSendWr *wr);
/* The host's ring failed: nothing more comes from it. */
void roce_sendq_break(RoceSendq *sq);
/* Drops the oldest entry. */
void roce_sendq_pop(RoceSendq *sq);

/*
 * May the entry at tx send its next packet, started or not, as far as the
 * peer's receives go?
 */
bool roce_sendq_has_credit(const RoceSendq *sq);
/* The peer tells no credits: any request may go. */
void roce_sendq_uncredited(RoceSendq *sq);
/* The peer, 'msn' messages on, has 'credits' receives; true: the limit grew. */
bool roce_sendq_credit(RoceSendq *sq, uint32_t msn, uint32_t credits);

/* Gives the entry at tx its PSNs; false: the PSN window is full. */
bool roce_sendq_start(RoceSendq *sq);
/* The packets of the entry at tx up to psn_count PSNs are on the wire. */
void roce_sendq_sent(RoceSendq *sq, uint32_t psn_count);
/* The packet with this PSN has gone once more, out of turn. */
void roce_sendq_probed(RoceSendq *sq, uint32_t psn);
/*
 * How often one that was sent before will have been. There may be more parts
 * than are noted: what was sent in the oldest of them then counts for less.
 */
uint8_t roce_sendq_attempts(const RoceSendq *sq, uint32_t psn);
/* How often the packet that is to be sent now will have been: 1, 2, ... 255. */
static inline uint8_t roce_sendq_attempt(const RoceSendq *sq, uint32_t psn)
{
    return roce_sendq_awaits(sq, psn) ? roce_sendq_attempts(sq, psn) : 1;
}
/* The entry at tx needs no packets (any more). */
void roce_sendq_skip(RoceSendq *sq);
/* The started entry that has this PSN, which is from una to before tx_psn. */
RoceSend *roce_sendq_find(const RoceSendq *sq, uint32_t psn);
/* Goes back to the oldest packet without an answer. */
void roce_sendq_rewind(RoceSendq *sq);

/*
 * Everything up to 'psn' was received by the peer. A READ or atomic among it
 * whose data did not come stops the progress: false then.
 */
bool roce_sendq_ack(RoceSendq *sq, uint32_t psn, bool *progress);
/* Unreliable service: what was sent gets no answer. */
void roce_sendq_expect_nothing(RoceSendq *sq);
/* Unreliable service: a message given up half way keeps no PSN not yet sent. */
void roce_sendq_give_up(RoceSendq *sq);
/* One datagram was sent: the next has the next PSN. */
void roce_sendq_datagram(RoceSendq *sq);
/* The answer packet with PSN una came, with its data. */
void roce_sendq_answer(RoceSendq *sq);

/* Has the entry at ci (there is one) all its answers? */
bool roce_sendq_head_complete(const RoceSendq *sq);
/* Has no entry been begun that is not complete? */
bool roce_sendq_drained(const RoceSendq *sq);

#endif
