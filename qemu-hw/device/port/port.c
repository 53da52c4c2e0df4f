/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Ethernet port: frames to and from the netdev, the receive filter, link
 * state.
 *
 * RoCEv2 frames for one of the port's GIDs go to the engine. Other frames go to
 * the raw-packet QPs of flow rules or, through the filter, to the QP that
 * SET_PORT set.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "net/eth.h"
#include "../budget.h"
#include "../card.h"
#include "../clock.h"
#include "port.h"
#include "rss.h"
#include "../state.h"
#include "../fault/gate.h"
#include "../../roce/ether.h"
#include "../queue/eq.h"
#include "../../trace.h"

/*
 * How long a wire may be blocked before it counts as dead. A hub may never take
 * a frame. Other netdevs wait for a process that may be scheduled late, and no
 * frame should be lost for that. Their limit is just below the five seconds
 * after which Linux reports a stuck transmit queue.
 */
#define FAKERNIC_HUB_BLOCKED_NS  100000000
#define FAKERNIC_WIRE_BLOCKED_NS 4000000000

/* Checks the size of a frame of 14 bytes or more. */
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

/* True: frames may leave and enter. Does not apply to loopback. */
static bool fakernic_port_carries(FakernicState *s)
{
    return s->port_enabled && fakernic_port_link_up(s);
}

/* Delivers a frame that the engine does not take. */
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
    if (fakernic_card_is_copy(s)) {
        /* Bypasses the engine, which does not compare MAC addresses. */
        fakernic_flow_sniff(s, frame, len);
        fakernic_port_sort(s, frame, len);
        return;
    }
    frame = fakernic_gate_rx(s, frame, &len);
    if (frame) {
        fakernic_port_take(s, frame, len);
    }
}

static void fakernic_port_loopback(FakernicState *s, uint8_t *frame, size_t len)
{
    s->stats[FAKERNIC_STAT_RX_LOOPBACK]++;
    if (fakernic_gate_loopback(s, frame, &len)) {
        roce_input(s->roce, fakernic_now(), frame, len);
    }
}

/*
 * Applies flow rules to a frame that is sent; true: the frame does not leave. A
 * frame with a foreign source address may be meant for a rule without an
 * address, so that rule gets a copy. A frame with the port's own source address
 * is not copied: rules must not see what the OS sends to other machines.
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

static RoceTime fakernic_port_patience(const FakernicState *s)
{
    const NetClientState *wire = fakernic_wire(s)->peer;

    return wire && wire->info->type == NET_CLIENT_DRIVER_HUBPORT ?
           FAKERNIC_HUB_BLOCKED_NS : FAKERNIC_WIRE_BLOCKED_NS;
}

static void fakernic_port_send(FakernicState *s, const uint8_t *frame,
                               size_t len)
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
    /* 0: the netdev has queued the frame, and calls s->sent() later. */
    if (qemu_send_packet_async(nc, frame, len, s->sent) == 0) {
        s->tx_blocked = true;
        s->tx_blocked_until = fakernic_now() + fakernic_port_patience(s);
    }
}

void fakernic_port_emit(FakernicState *s, uint8_t *frame, size_t len,
                        bool loopback)
{
    if (loopback) {
        fakernic_port_loopback(s, frame, len);
    } else {
        fakernic_port_send(s, frame, len);
    }
}

void fakernic_port_sent(FakernicState *s)
{
    s->tx_blocked = false;
}

bool fakernic_port_must_wait(FakernicState *s)
{
    NetClientState *peer = fakernic_wire(s)->peer;

    if (!s->tx_blocked) {
        return false;
    }
    /*
     * A netdev that lost its connection never calls s->sent() for its queued
     * frame. Flushing the queue drops the frame.
     */
    if (peer && peer->link_down) {
        qemu_flush_queued_packets(peer);
    }
    /*
     * A blocked wire counts as dead after a while, so that loopback and
     * completions continue. A hub without another port is always blocked.
     */
    return s->tx_blocked && fakernic_now() < s->tx_blocked_until;
}

bool fakernic_port_link_up(FakernicState *s)
{
    return !qemu_get_queue(s->nic)->link_down && fakernic_gate_link_up(s);
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
        /* Only the latest state matters: discard an older event. */
        fakernic_event_forget(s, NULL, &s->port_events);
        fakernic_event(s, NULL, &s->port_events,
                       fakernic_port_link_up(s) ? FAKERNIC_EVENT_PORT_ACTIVE :
                       FAKERNIC_EVENT_PORT_ERROR, 0);
    }
    if (s->vport_changed) {
        s->vport_changed = false;
        fakernic_event(s, NULL, &s->device_events, FAKERNIC_EVENT_PORT_CHANGED,
                       0);
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
     * A frame that the netdev has begun to send stays there (tx_blocked).
     * Removing it would break the framing of stream sockets.
     */
    s->port_qpn = 0;
    s->link_changed = false;
    s->vport_changed = false;
    s->port_filter = 0;
    s->port_vlan_strip = false;
    s->port_enabled = true;
    fakernic_card_mac(s, s->conf.macaddr.a);
    memcpy(s->port_mac, s->conf.macaddr.a, sizeof(s->port_mac));
    fakernic_card_update(s);
    fakernic_port_set_mtu(s, MIN(FAKERNIC_DEFAULT_MTU, s->mtu_max));
}
