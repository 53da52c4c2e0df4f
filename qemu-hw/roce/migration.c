/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Automatic path migration (IBTA 17.2.8). After software loads an alternate
 * path and requests a rearm, the QP sends MigReq 0. Once the peer sends it
 * too, both QPs are armed. An armed QP migrates when its retries on the
 * primary path are used up, when its software requests it, or when the peer's
 * packets arrive with MigReq 1 over the alternate path, which means that the
 * peer has migrated. A QP in state MIGRATED, the initial state, ignores
 * MigReq, because not all peers set it.
 */
#include "engine.h"

/*
 * Unanswered packets went over a path that may be dead. They are retransmitted
 * at once, and the new path gets all retries.
 */
static void roce_migration_resend(Roce *r, RoceQp *qp)
{
    roce_retry_restart(&qp->retry, &qp->attr);
    roce_window_init(&qp->requests, ROCE_WINDOW_REQUESTS);
    roce_window_init(&qp->answers, ROCE_WINDOW_ANSWERS);
    if (roce_qp_reliable(qp) && qp->retry.mode == ROCE_RETRY_SENDING) {
        roce_sendq_rewind(&qp->sq);
        roce_sched_timer(r, qp);
        roce_sched_ready(r, qp);
    }
}

bool roce_migration_switch(Roce *r, RoceQp *qp)
{
    RoceQpAttr *attr = &qp->attr;
    RoceQpAttr old = *attr;

    if (attr->path_mig_state != FAKERNIC_MIG_ARMED) {
        return false;
    }
    attr->path_mig_state = FAKERNIC_MIG_MIGRATED;
    attr->av = old.alt_av;
    attr->alt_av = old.av;
    attr->pkey_index = old.alt_pkey_index;
    attr->alt_pkey_index = old.pkey_index;
    attr->port = old.alt_port;
    attr->alt_port = old.port;
    attr->timeout = old.alt_timeout;
    attr->alt_timeout = old.timeout;
    qp->gid_epoch--;        /* the cached values belong to the other path */
    roce_count(r, qp, FAKERNIC_STAT_PATH_MIGRATIONS);
    r->ops->event(r->host, FAKERNIC_EVENT_PATH_MIGRATED, qp->qpn, 0);
    roce_migration_resend(r, qp);
    return true;
}

/* Reports one event, however many such packets the peer sends. */
static void roce_migration_refuse(Roce *r, RoceQp *qp)
{
    if (!qp->migration_refused) {
        qp->migration_refused = true;
        r->ops->event(r->host, FAKERNIC_EVENT_PATH_MIGRATION_ERROR, qp->qpn,
                      FAKERNIC_VENDOR_MIGRATION);
    }
}

bool roce_migration_input(Roce *r, RoceQp *qp, const RocePacket *packet)
{
    bool primary = roce_path_is(r, &qp->attr.av, packet);

    switch (qp->attr.path_mig_state) {
    case FAKERNIC_MIG_REARM:
        if (primary && !packet->mig_req) {
            qp->attr.path_mig_state = FAKERNIC_MIG_ARMED;
            qp->migration_refused = false;
        }
        return primary;
    case FAKERNIC_MIG_ARMED:
        if (!packet->mig_req) {
            return primary;
        }
        if (roce_path_is(r, &qp->attr.alt_av, packet)) {
            return roce_migration_switch(r, qp);
        }
        roce_migration_refuse(r, qp);
        return false;
    default:
        return primary;
    }
}

uint32_t roce_migration_bad_attr(const Roce *r, const RoceQp *qp,
                                 uint32_t mask, const RoceQpAttr *attr)
{
    if (mask & FAKERNIC_QP_ATTR_ALT_PATH &&
        (!roce_path_av_valid(r, &attr->alt_av) || attr->alt_port != 1 ||
         attr->alt_pkey_index != 0 || attr->alt_timeout > 31)) {
        return FAKERNIC_QP_ATTR_ALT_PATH;
    }
    if (!(mask & FAKERNIC_QP_ATTR_PATH_MIG_STATE)) {
        return 0;
    }
    /* Only the peer's MigReq arms a QP. */
    switch (attr->path_mig_state) {
    case FAKERNIC_MIG_MIGRATED:
        return 0;
    case FAKERNIC_MIG_REARM:
        return qp->alt_path || mask & FAKERNIC_QP_ATTR_ALT_PATH
                   ? 0 : FAKERNIC_QP_ATTR_PATH_MIG_STATE;
    default:
        return FAKERNIC_QP_ATTR_PATH_MIG_STATE;
    }
}

void roce_migration_assign(Roce *r, RoceQp *qp, uint32_t mask,
                           const RoceQpAttr *attr)
{
    RoceQpAttr *own = &qp->attr;

    if (mask & FAKERNIC_QP_ATTR_PATH_MIG_STATE) {
        /* An armed QP that is set to MIGRATED switches to the loaded path. */
        if (attr->path_mig_state == FAKERNIC_MIG_MIGRATED) {
            roce_migration_switch(r, qp);
        }
        own->path_mig_state = attr->path_mig_state;
    }
    if (mask & FAKERNIC_QP_ATTR_ALT_PATH) {
        own->alt_av = attr->alt_av;
        own->alt_pkey_index = attr->alt_pkey_index;
        own->alt_port = attr->alt_port;
        own->alt_timeout = attr->alt_timeout;
        qp->alt_path = true;
    }
}
