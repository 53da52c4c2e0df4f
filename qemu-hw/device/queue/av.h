/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Address vectors: converts between the interface's format (fakernic/qp.h), in
 * QP attributes and datagram WQEs, and the engine's. The caller has checked the
 * reserved fields.
 */
#ifndef FAKERNIC_DEVICE_QUEUE_AV_H
#define FAKERNIC_DEVICE_QUEUE_AV_H

#include "qemu/bswap.h"
#include "fakernic/qp.h"
#include "../common.h"

static inline RoceAv fakernic_av_decode(const struct fakernic_av *from)
{
    RoceAv av = {
        .sgid_index = le16_to_cpu(from->sgid_index),
        .flow_label = le32_to_cpu(from->flow_label),
        .traffic_class = from->traffic_class,
        .hop_limit = from->hop_limit,
        .sl = from->sl,
        .static_rate = from->static_rate,
        .udp_sport = le16_to_cpu(from->udp_sport),
    };

    memcpy(av.dgid, from->dgid, sizeof(av.dgid));
    memcpy(av.dmac, from->dmac, sizeof(av.dmac));
    return av;
}

static inline struct fakernic_av fakernic_av_encode(const RoceAv *from)
{
    struct fakernic_av av = {
        .sgid_index = cpu_to_le16(from->sgid_index),
        .flow_label = cpu_to_le32(from->flow_label),
        .traffic_class = from->traffic_class,
        .hop_limit = from->hop_limit,
        .sl = from->sl,
        .static_rate = from->static_rate,
        .udp_sport = cpu_to_le16(from->udp_sport),
    };

    memcpy(av.dgid, from->dgid, sizeof(av.dgid));
    memcpy(av.dmac, from->dmac, sizeof(av.dmac));
    return av;
}

#endif
