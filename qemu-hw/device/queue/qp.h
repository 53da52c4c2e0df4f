/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs and work queues in the device: their rings and the objects that
 * they use. Their state and transport are in the engine.
 */
#ifndef FAKERNIC_DEVICE_QUEUE_QP_H
#define FAKERNIC_DEVICE_QUEUE_QP_H

#include "rq.h"
#include "../port/rss.h"
#include "../table.h"

/*
 * A QP or a WQ. In the engine a WQ is a raw-packet QP that has an RQ only, with
 * a QP number.
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
    RoceTime sq_waits;          /* a fault rule stalls it until then; 0: none */
    FakernicRing rq;
    uint32_t rq_pi;             /* slots, as last read from the record */
    uint32_t rq_ci;             /* slots fetched */
    RoceTime rq_waits;          /* as sq_waits */
    uint32_t flows;             /* flow rules that name it */
    uint32_t entries;           /* WQ: table entries that name it */
    uint64_t memory;            /* accounted for it, without its rings */
    FakernicCounter *counter;   /* or NULL */
    FakernicEventSource async;
    FakernicCqUser send_user;
    FakernicCqUser recv_user;
} FakernicQp;

/*
 * Adds a QP or WQ to the engine and the device, takes references to the objects
 * that it uses, and sets its number. The device then owns 'qp'; on failure (any
 * enum fakernic_cmd_status other than OK) it is freed.
 */
uint8_t fakernic_qp_add(FakernicState *s, FakernicQp *qp,
                        const RoceQpInit *init) G_GNUC_WARN_UNUSED_RESULT;

/* Reverses fakernic_qp_add(); no rule, table or port may refer to it. */
void fakernic_qp_remove(FakernicState *s, FakernicQp *qp);

/* True: one of its CQs is in error, so its completions would be lost. */
bool fakernic_qp_is_mute(const FakernicQp *qp);

/* Frees a QP that was not added, or whose device is under reset. */
void fakernic_qp_free(FakernicState *s, FakernicQp *qp);

#endif
