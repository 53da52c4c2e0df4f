/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Multicast groups: which datagram QPs are attached to which group GID (IBTA
 * 10.5). A datagram to a group with local members is sent on the wire and, as
 * a second frame, looped back. The tables are bounded; nothing is allocated.
 */
#include "engine.h"

#include <string.h>

RoceMcast *roce_mcast_find(Roce *r, const uint8_t gid[16])
{
    uint32_t i;

    for (i = 0; i < r->limits.max_mcast_groups; i++) {
        if (r->mcast[i].count > 0 && memcmp(r->mcast[i].gid, gid, 16) == 0) {
            return &r->mcast[i];
        }
    }
    return NULL;
}

static bool roce_mcast_is_member(const Roce *r, const RoceMcast *group,
                                 const RoceQp *qp)
{
    const size_t number = (size_t)(group - r->mcast);

    return qp->in_group[number / 8] & 1u << number % 8;
}

/* Toggles the QP's membership bit. */
static void roce_mcast_note(const Roce *r, const RoceMcast *group, RoceQp *qp)
{
    const size_t number = (size_t)(group - r->mcast);

    qp->in_group[number / 8] ^= (uint8_t)(1u << number % 8);
}

/* Removes the QP, which must be a member. */
static void roce_mcast_remove(Roce *r, RoceMcast *group, RoceQp *qp)
{
    uint32_t i = 0;

    while (group->qpn[i] != qp->qpn) {
        i++;
    }
    group->qpn[i] = group->qpn[--group->count];
    roce_mcast_note(r, group, qp);
    qp->groups--;
    r->work++;
}

/*
 * Detaches a QP before its number is reused. It searches only the QP's own
 * groups: a search of all groups would be most of the cost of destroying a QP.
 */
void roce_mcast_leave(Roce *r, uint32_t qpn)
{
    RoceQp *qp = r->qps[qpn];
    RoceMcast *group;

    for (group = r->mcast; qp->groups > 0; group++) {
        if (roce_mcast_is_member(r, group, qp)) {
            roce_mcast_remove(r, group, qp);
        }
    }
}

void roce_mcast_copy(Roce *r, const uint8_t gid[16], const uint8_t *frame,
                     size_t len)
{
    if (roce_gid_is_multicast(gid) && roce_mcast_find(r, gid)) {
        memcpy(r->mcast_copy, frame, len);
        r->mcast_copy_len = len;
    }
}

size_t roce_mcast_output(Roce *r, uint8_t *buf)
{
    size_t len = r->mcast_copy_len;

    if (len > 0) {
        memcpy(buf, r->mcast_copy, len);
        r->mcast_copy_len = 0;
    }
    return len;
}

int roce_mcast_attach(Roce *r, const uint8_t gid[16], uint32_t qpn)
{
    RoceMcast *group = roce_mcast_find(r, gid);
    RoceQp *qp = roce_qp_find(r, qpn);
    uint32_t i;

    if (!qp) {
        return FAKERNIC_CMD_BAD_ID;
    }
    if (qp->init.type != FAKERNIC_QP_UD || !roce_gid_is_multicast(gid)) {
        return FAKERNIC_CMD_BAD_PARAM;
    }
    for (i = 0; !group && i < r->limits.max_mcast_groups; i++) {
        if (r->mcast[i].count == 0) {
            group = &r->mcast[i];
            memcpy(group->gid, gid, 16);
        }
    }
    if (!group) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    if (roce_mcast_is_member(r, group, qp)) {
        return FAKERNIC_CMD_OK;         /* no change */
    }
    if (group->count == ROCE_MCAST_QPS_PER_GROUP) {
        return FAKERNIC_CMD_NO_RESOURCE;
    }
    group->qpn[group->count++] = qpn;
    roce_mcast_note(r, group, qp);
    qp->groups++;
    return FAKERNIC_CMD_OK;
}

int roce_mcast_detach(Roce *r, const uint8_t gid[16], uint32_t qpn)
{
    RoceMcast *group = roce_mcast_find(r, gid);
    RoceQp *qp = roce_qp_find(r, qpn);

    if (!group || !qp || !roce_mcast_is_member(r, group, qp)) {
        return FAKERNIC_CMD_BAD_ID;
    }
    roce_mcast_remove(r, group, qp);
    return FAKERNIC_CMD_OK;
}

bool roce_mcast_any(const Roce *r)
{
    for (uint32_t i = 0; i < r->limits.max_mcast_groups; i++) {
        if (r->mcast[i].count > 0) {
            return true;
        }
    }
    return false;
}

/* ---- saving and loading -------------------------------------------------- */

static void mcast_group_transfer(RoceStream *s, Roce *r, RoceMcast *group)
{
    ROCE_FIELD(s, group->count);
    ROCE_CHECK(s, group->count <= ROCE_MCAST_QPS_PER_GROUP,
               "number of members of a group");
    if (s->failed || group->count == 0) {
        group->count = 0;
        return;
    }
    roce_stream_bytes(s, group->gid, sizeof(group->gid));
    for (uint32_t i = 0; i < group->count && !s->failed; i++) {
        RoceQp *qp = s->loads ? NULL : r->qps[group->qpn[i]];

        roce_stream_qp(s, r, &qp);
        ROCE_CHECK(s, qp && qp->init.type == FAKERNIC_QP_UD &&
                          !roce_mcast_is_member(r, group, qp),
                   "member of a group");
        if (s->loads && !s->failed) {
            group->qpn[i] = qp->qpn;
            roce_mcast_note(r, group, qp);
            qp->groups++;
        }
    }
}

void roce_mcast_transfer(RoceStream *s, Roce *r)
{
    uint32_t len = (uint32_t)r->mcast_copy_len;

    for (uint32_t i = 0; i < r->limits.max_mcast_groups && !s->failed; i++) {
        mcast_group_transfer(s, r, &r->mcast[i]);
    }
    ROCE_FIELD(s, len);
    ROCE_CHECK(s, len <= ROCE_FRAME_MAX, "length of a frame");
    if (!s->failed) {
        roce_stream_bytes(s, r->mcast_copy, len);
    }
    r->mcast_copy_len = s->failed ? 0 : len;
}
