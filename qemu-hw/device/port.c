/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Ethernet port: frames to and from the netdev, the receive filter, link
 * state.
 *
 * RoCEv2 frames for one of the port's GIDs are the engine's; the rest goes to
 * the raw-packet QPs of flow rules or, through the filter, to the one that
 * SET_PORT named.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "net/eth.h"
#include "budget.h"
#include "clock.h"
#include "port.h"
#include "record.h"
#include "rss.h"
#include "state.h"
#include "../roce/ether.h"
#include "../trace.h"

/*
 * How long a wire may take no frames before it counts as dead. A hub may be
 * one that never takes any. Other netdevs wait for somebody who may be
 * scheduled late: no frame is lost for that, up to just below the five seconds
 * after which Linux calls a transmit queue stuck.
 */
#define FAKERNIC_HUB_BLOCKED_NS  100000000
#define FAKERNIC_WIRE_BLOCKED_NS 4000000000

/* Of frames of 14 bytes and more. */
static bool fakernic_frame_fits(const FakernicState *s, const uint8_t *frame,
                                size_t len)
{
    return len <= roce_ether_limit(frame, len, s->port_mtu);
}

static bool fakernic_port_accepts(const FakernicState *s, const uint8_t *frame)
{
    if (s->port_filter & FAKERNIC_FILTER_PROMISCUOUS) {
        return true;
    }
    if (is_broadcast_ether_addr(frame)) {
        return s->port_filter & FAKERNIC_FILTER_BROADCAST;
    }
    if (is_multicast_ether_addr(frame)) {
        return s->port_filter & FAKERNIC_FILTER_MULTICAST;
    }
    return !memcmp(frame, s->port_mac, sizeof(s->port_mac));
}

/* Whether frames leave and enter. Loopback does not ask. */
static bool fakernic_port_carries(FakernicState *s)
{
    return s->port_enabled && fakernic_port_link_up(s);
}

/* A frame that is not the engine's: who gets it? */
static void fakernic_port_sort(FakernicState *s, const uint8_t *frame,
                               size_t len)
{
    switch (fakernic_flow_input(s, frame, len)) {
    case FAKERNIC_RULED_TAKEN:
        return;
    case FAKERNIC_RULED_DROPPED:
        s->stats[FAKERNIC_STAT_RX_FILTERED]++;
        return;
    case FAKERNIC_RULED_NOTHING:
        break;
    }
    if (s->port_qpn && fakernic_port_accepts(s, frame)) {
        fakernic_raw_input(s, s->port_qpn, frame, len, s->port_vlan_strip);
    } else if (!fakernic_flow_default(s, frame, len)) {
        s->stats[FAKERNIC_STAT_RX_FILTERED]++;
    }
}

void fakernic_port_take(FakernicState *s, const uint8_t *frame, size_t len)
{
    fakernic_flow_sniff(s, frame, len);
    if (roce_input(s->roce, fakernic_now(), frame, len) != ROCE_INPUT_TAKEN) {
        fakernic_port_sort(s, frame, len);
    }
}

/* The same, unless a fault rule has it lost, held or spoilt. */
static void fakernic_port_take_faulty(FakernicState *s, const uint8_t *frame,
                                      size_t len)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_RX };
    uint8_t copy[ROCE_FRAME_MAX];

    memcpy(copy, frame, len);
    if (fakernic_fault_frame(s, &subject, copy, &len, false)) {
        fakernic_port_take(s, copy, len);
    }
}

void fakernic_port_input(FakernicState *s, const uint8_t *frame, size_t len)
{
    if (!fakernic_port_carries(s)) {
        return;
    }
    s->stats[FAKERNIC_STAT_RX_FRAMES]++;
    s->stats[FAKERNIC_STAT_RX_BYTES] += len;
    if (len < ETH_HLEN) {
        s->stats[FAKERNIC_STAT_DROP_SHORT]++;
        return;
    }
    if (!fakernic_frame_fits(s, frame, len)) {
        s->stats[FAKERNIC_STAT_RX_OVERSIZE]++;
        return;
    }
    fakernic_record_frame(s, FAKERNIC_RECORD_IN, frame, len);
    if (fakernic_fault_at_frame(s, ROCE_FAULT_RX, frame, len)) {
        fakernic_port_take_faulty(s, frame, len);
    } else {
        fakernic_port_take(s, frame, len);
    }
}

void fakernic_port_loopback(FakernicState *s, uint8_t *frame, size_t len)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_RX };

    s->stats[FAKERNIC_STAT_RX_LOOPBACK]++;
    fakernic_record_frame(s, FAKERNIC_RECORD_LOOPBACK, frame, len);
    if (!fakernic_fault_at_frame(s, ROCE_FAULT_RX, frame, len) ||
        fakernic_fault_frame(s, &subject, frame, &len, true)) {
        roce_input(s->roce, fakernic_now(), frame, len);
    }
}

/*
 * Flow rules look at what is sent, too; true: the frame does not leave. One
 * that was sent in another's name may be meant for a rule without an address:
 * it gets a copy. Traffic of the port's own address does not, or every rule
 * would see what the operating system sends to other machines.
 */
static bool fakernic_port_loop(FakernicState *s, const uint8_t *frame,
                               size_t len)
{
    fakernic_flow_sniff(s, frame, len);
    if (fakernic_flow_owns(s, frame)) {
        fakernic_port_sort(s, frame, len);
        return !is_multicast_ether_addr(frame);
    }
    if (memcmp(frame + ETH_ALEN, s->port_mac, ETH_ALEN)) {
        fakernic_flow_input(s, frame, len);
    }
    return false;
}

static RoceTime fakernic_port_patience(const NetClientState *nc)
{
    return nc->peer && nc->peer->info->type == NET_CLIENT_DRIVER_HUBPORT ?
           FAKERNIC_HUB_BLOCKED_NS : FAKERNIC_WIRE_BLOCKED_NS;
}

void fakernic_port_send(FakernicState *s, const uint8_t *frame, size_t len)
{
    NetClientState *nc = qemu_get_queue(s->nic);
    const bool carries = fakernic_port_carries(s);
    const bool fits = fakernic_frame_fits(s, frame, len);

    if (fits && fakernic_port_loop(s, frame, len)) {
        return;
    }
    if (!carries || s->tx_blocked || !fits) {
        trace_fakernic_err_tx_frame(s->name, len, !carries);
        s->stats[FAKERNIC_STAT_TX_DROPPED]++;
        return;
    }
    trace_fakernic_tx_frame(s->name, len);
    fakernic_record_frame(s, FAKERNIC_RECORD_OUT, frame, len);
    s->stats[FAKERNIC_STAT_TX_FRAMES]++;
    s->stats[FAKERNIC_STAT_TX_BYTES] += len;
    /* 0: queued, and s->sent() will be called. */
    if (qemu_send_packet_async(nc, frame, len, s->sent) == 0) {
        s->tx_blocked = true;
        s->tx_blocked_until = fakernic_now() + fakernic_port_patience(nc);
    }
}

void fakernic_port_sent(FakernicState *s)
{
    s->tx_blocked = false;
}

bool fakernic_port_must_wait(FakernicState *s)
{
    NetClientState *peer = qemu_get_queue(s->nic)->peer;

    if (!s->tx_blocked) {
        return false;
    }
    /*
     * A netdev that lost its connection never calls s->sent() for the frame it
     * could not send. Handing it out again drops it.
     */
    if (peer && peer->link_down) {
        qemu_flush_queued_packets(peer);
    }
    /*
     * A wire that takes nothing (a hub without another port, for ever) counts
     * as dead after a while, so that loopback and completions go on.
     */
    return s->tx_blocked && fakernic_now() < s->tx_blocked_until;
}

bool fakernic_port_link_up(FakernicState *s)
{
    return !qemu_get_queue(s->nic)->link_down && !s->faults.link_until;
}

void fakernic_port_link_changed(FakernicState *s)
{
    s->link_changed = s->status & FAKERNIC_STATUS_ENABLED;
    fakernic_kick(s);
}

void fakernic_port_events(FakernicState *s)
{
    if (s->link_changed) {
        s->link_changed = false;
        /* Only the latest state matters: an older event is overtaken. */
        fakernic_event_forget(s, NULL, &s->port_events);
        fakernic_event(s, NULL, &s->port_events,
                       fakernic_port_link_up(s) ? FAKERNIC_EVENT_PORT_ACTIVE :
                       FAKERNIC_EVENT_PORT_ERROR, 0);
    }
}

void fakernic_port_set_mtu(FakernicState *s, uint32_t mtu)
{
    s->port_mtu = mtu;
    roce_set_port_mtu(s->roce, mtu);
}

void fakernic_port_reset(FakernicState *s)
{
    /*
     * A frame the netdev has begun to send stays with it (tx_blocked): taking
     * it back would break the framing of stream sockets.
     */
    s->port_qpn = 0;
    s->link_changed = false;
    s->port_filter = 0;
    s->port_vlan_strip = false;
    s->port_enabled = true;
    memcpy(s->port_mac, s->conf.macaddr.a, sizeof(s->port_mac));
    fakernic_port_set_mtu(s, MIN(FAKERNIC_DEFAULT_MTU, s->mtu_max));
}
