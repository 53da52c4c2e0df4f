/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs and work queues, as the device sees them: their rings and what
 * they refer to. Their state and their transport are the engine's.
 */
#ifndef FAKERNIC_DEVICE_QP_H
#define FAKERNIC_DEVICE_QP_H

#include "rq.h"
#include "rss.h"
#include "table.h"

/*
 * Also a WQ: to the engine it is a raw-packet QP with an RQ only, and its
 * number is one of theirs.
 */
typedef struct FakernicQp {
    uint32_t qpn;
    uint8_t type;
    bool is_wq;
    uint32_t pdn;               /* XRC target: 0 */
    uint32_t xrcdn;             /* XRC target, else 0 */
    uint32_t uar;
    FakernicCq *send_cq;        /* XRC target, WQ, RSS QP: NULL */
    FakernicCq *recv_cq;        /* XRC initiator and target, RSS QP: NULL */
    FakernicSrq *srq;
    FakernicRss *rss;           /* or NULL */
    FakernicRing sq;
    uint32_t sq_pi;             /* basic blocks, from the doorbell */
    uint32_t sq_ci;             /* basic blocks fetched */
    RoceTime sq_waits;          /* a fault rule: it goes on then; 0: none */
    FakernicRing rq;
    uint32_t rq_pi;             /* slots, as last read from the record */
    uint32_t rq_ci;             /* slots fetched */
    RoceTime rq_waits;          /* as sq_waits */
    uint32_t flows;             /* rules that name it */
    uint32_t entries;           /* WQ: of tables that name it */
    uint64_t memory;            /* taken for it, without its rings */
    FakernicCounter *counter;   /* or NULL */
    FakernicEventSource async;
    FakernicCqUser send_user;
    FakernicCqUser recv_user;
} FakernicQp;

/*
 * Makes a QP or WQ known to the engine and the device, with all that it refers
 * to, and sets its number. Takes 'qp' over: when it fails (any enum
 * fakernic_cmd_status but OK) it is freed.
 */
uint8_t fakernic_qp_add(FakernicState *s, FakernicQp *qp,
                        const RoceQpInit *init) G_GNUC_WARN_UNUSED_RESULT;

/* The reverse; no rule, table or port may refer to it. */
void fakernic_qp_remove(FakernicState *s, FakernicQp *qp);

/* Whether a CQ of its own is in error: nobody would hear of what it does. */
bool fakernic_qp_is_mute(const FakernicQp *qp);

/* Frees one that is not known, or whose device is being reset. */
void fakernic_qp_free(FakernicState *s, FakernicQp *qp);

#endif
