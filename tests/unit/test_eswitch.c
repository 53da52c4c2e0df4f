/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The embedded switch (eswitch/eswitch.h): the PF, three VFs and the uplink.
 * test_eswitch_model compares it with a model.
 */
#include "harness.h"
#include "eswitch/eswitch.h"
#include "fakernic/cmdq.h"

#define VFS 3
#define VF(n) ((n) + 1)
#define PORTS (VFS + 2)
#define LOG 64
#define BROADCAST 0xff
#define FOREIGN 0x77

/* A frame that the switch delivered. */
typedef struct Got {
    unsigned vport;
    size_t len;
    bool copy;
    uint8_t frame[ESWITCH_FRAME_MAX];
} Got;

typedef struct World {
    ESwitch *sw;
    ESwitchTime now;
    unsigned count;             /* frames delivered */
    Got got[LOG];
    bool busy[PORTS];           /* the host takes one frame, and no other */
    unsigned resumed[PORTS];
    int link[PORTS];            /* -1: not reported */
    bool answers;               /* the wire answers each frame at once */
} World;

static World w;

static unsigned slot(unsigned vport)
{
    return vport == ESWITCH_UPLINK ? PORTS - 1 : vport;
}

/* The address of a vport, or another one: 52:..:last, or all ones. */
static void put_mac(uint8_t *mac, uint8_t last)
{
    memset(mac, last == BROADCAST ? 0xff : 0, 6);
    if (last != BROADCAST) {
        mac[0] = 0x52;
        mac[5] = last;
    }
}

static size_t make(uint8_t *frame, uint8_t to, uint8_t from, size_t len)
{
    memset(frame, 0xa5, len);
    put_mac(frame, to);
    put_mac(frame + 6, from);
    frame[12] = 0x08;
    frame[13] = 0x00;
    return len;
}

static void put_tag(uint8_t *frame, uint16_t type, uint16_t tci)
{
    frame[12] = (uint8_t)(type >> 8);
    frame[13] = (uint8_t)type;
    frame[14] = (uint8_t)(tci >> 8);
    frame[15] = (uint8_t)tci;
}

static unsigned send(unsigned from, uint8_t to, uint8_t source)
{
    uint8_t frame[60];

    return eswitch_in(w.sw, w.now, from, frame,
                      make(frame, to, source, sizeof(frame)));
}

static bool deliver(void *opaque, unsigned vport, const uint8_t *frame,
                    size_t len, bool copy)
{
    CHECK(opaque == &w);
    REQUIRE(w.count < LOG && len <= ESWITCH_FRAME_MAX);
    w.got[w.count].vport = vport;
    w.got[w.count].len = len;
    w.got[w.count].copy = copy;
    memcpy(w.got[w.count++].frame, frame, len);
    if (w.answers && vport == ESWITCH_UPLINK) {
        send(ESWITCH_UPLINK, frame[11], FOREIGN);
    }
    return !w.busy[slot(vport)];
}

static void resume(void *opaque, unsigned vport)
{
    CHECK(opaque == &w);
    w.resumed[slot(vport)]++;
}

static void link_changed(void *opaque, unsigned vport, bool up)
{
    CHECK(opaque == &w);
    w.link[slot(vport)] = up;
}

static const ESwitchOps ops = { deliver, resume, link_changed };

/* All VFs present, their last address byte is the number of their vport. */
static void begin(void)
{
    uint8_t mac[6];

    memset(&w, 0, sizeof(w));
    w.now = 1000000000;
    w.sw = eswitch_new(&ops, &w, VFS);
    REQUIRE(w.sw);
    for (unsigned i = 0; i <= VFS; i++) {
        put_mac(mac, (uint8_t)i);
        eswitch_set_permanent(w.sw, i, mac);
        if (i) {
            eswitch_set_present(w.sw, i, true);
        }
        eswitch_set_port(w.sw, i, mac, FAKERNIC_FILTER_BROADCAST);
    }
    memset(w.link, -1, sizeof(w.link));
}

static void end(void)
{
    eswitch_free(w.sw);
}

/* Exactly these vports got a frame, in any order: a mask of slots. */
static unsigned got_mask(void)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < w.count; i++) {
        CHECK(!(mask & 1u << slot(w.got[i].vport)));
        mask |= 1u << slot(w.got[i].vport);
    }
    w.count = 0;
    return mask;
}

#define UP (1u << (PORTS - 1))
#define TO(vport) (1u << (vport))

static ESwitchSettings settings_of(unsigned vport)
{
    return *eswitch_settings(w.sw, vport);
}

static void set_trust(unsigned vport, bool trust)
{
    ESwitchSettings set = settings_of(vport);

    set.trust = trust;
    eswitch_set(w.sw, vport, &set);
}

static void set_vlan(unsigned vport, uint16_t proto, uint16_t vid, uint8_t qos)
{
    ESwitchSettings set = settings_of(vport);

    set.vlan_proto = proto;
    set.vid = vid;
    set.qos = qos;
    eswitch_set(w.sw, vport, &set);
}

static void set_link(unsigned vport, enum fakernic_vport_link link)
{
    ESwitchSettings set = settings_of(vport);

    set.link = (uint8_t)link;
    eswitch_set(w.sw, vport, &set);
}

static uint64_t counter(unsigned vport, enum fakernic_vport_stat number)
{
    return eswitch_counter(w.sw, vport, number);
}

/* ---- lookup -------------------------------------------------------------- */

static void unicast_reaches_its_vport_only(void)
{
    begin();
    CHECK_EQ(send(VF(0), VF(1), VF(0)), 1);
    CHECK_EQ(got_mask(), TO(VF(1)));
    send(VF(0), 0, VF(0));
    CHECK_EQ(got_mask(), TO(0));
    send(0, VF(2), 0);
    CHECK_EQ(got_mask(), TO(VF(2)));
    send(ESWITCH_UPLINK, VF(2), FOREIGN);
    CHECK_EQ(got_mask(), TO(VF(2)));
    end();
}

static void unknown_address_goes_to_the_uplink_or_from_it_to_the_pf(void)
{
    begin();
    send(VF(0), FOREIGN, VF(0));
    CHECK_EQ(got_mask(), UP);
    send(0, FOREIGN, 0);
    CHECK_EQ(got_mask(), UP);
    send(ESWITCH_UPLINK, FOREIGN, 0x66);
    CHECK_EQ(got_mask(), TO(0));
    end();
}

static void broadcast_reaches_the_vports_that_ask(void)
{
    uint8_t mac[6];

    begin();
    put_mac(mac, VF(1));
    eswitch_set_port(w.sw, VF(1), mac, FAKERNIC_FILTER_MULTICAST);
    CHECK_EQ(send(VF(0), BROADCAST, VF(0)), 1);
    CHECK_EQ(got_mask(), UP | TO(0) | TO(VF(2)));
    send(ESWITCH_UPLINK, BROADCAST, FOREIGN);
    CHECK_EQ(got_mask(), TO(0) | TO(VF(0)) | TO(VF(2)));
    CHECK_EQ(counter(VF(2), FAKERNIC_VPORT_STAT_RX_BROADCAST), 2);
    CHECK_EQ(counter(VF(2), FAKERNIC_VPORT_STAT_RX_MULTICAST), 0);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_BROADCAST), 1);
    end();
}

static void own_address_is_dropped_in_the_card(void)
{
    begin();
    send(VF(0), VF(0), VF(0));
    send(0, 0, 0);
    CHECK_EQ(got_mask(), 0);
    end();
}

static void link_local_group_passes_only_between_uplink_and_trusted(void)
{
    uint8_t frame[60];

    begin();
    make(frame, 0, VF(0), sizeof(frame));
    memcpy(frame, "\x01\x80\xc2\x00\x00\x0e", 6);
    eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame));
    CHECK_EQ(got_mask(), 0);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_DROPPED), 1);
    set_trust(VF(0), true);
    eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame));
    CHECK_EQ(got_mask(), UP);
    eswitch_in(w.sw, w.now, ESWITCH_UPLINK, frame, sizeof(frame));
    CHECK_EQ(got_mask(), TO(0));
    end();
}

static void promiscuous_vport_gets_copies_only_if_trusted(void)
{
    uint8_t mac[6];

    begin();
    put_mac(mac, VF(2));
    eswitch_set_port(w.sw, VF(2), mac, FAKERNIC_FILTER_PROMISCUOUS);
    send(VF(0), VF(1), VF(0));
    CHECK_EQ(got_mask(), TO(VF(1)));
    set_trust(VF(2), true);
    send(VF(0), VF(1), VF(0));
    REQUIRE(w.count == 2);
    CHECK_EQ(w.got[0].copy, w.got[0].vport == VF(2));
    CHECK_EQ(w.got[1].copy, w.got[1].vport == VF(2));
    CHECK_EQ(got_mask(), TO(VF(1)) | TO(VF(2)));
    send(VF(0), VF(2), VF(0));
    CHECK(!w.got[0].copy);
    CHECK_EQ(got_mask(), TO(VF(2)));
    end();
}

static void two_vlans_may_use_one_address(void)
{
    ESwitchSettings set;

    begin();
    for (unsigned i = 1; i <= 2; i++) {
        set = settings_of(i);
        put_mac(set.mac, 0x50);
        eswitch_set(w.sw, i, &set);
    }
    set_vlan(1, 0x8100, 10, 0);
    set_vlan(2, 0x8100, 20, 0);
    for (unsigned i = 1; i <= 2; i++) {
        uint8_t frame[64];

        make(frame, 0x50, FOREIGN, sizeof(frame));
        put_tag(frame, 0x8100, (uint16_t)(10 * i));
        eswitch_in(w.sw, w.now, ESWITCH_UPLINK, frame, sizeof(frame));
        CHECK_EQ(w.got[0].len, 60);
        CHECK_EQ(got_mask(), TO(i));
    }
    end();
}

static void address_of_a_driver_does_not_take_that_of_another(void)
{
    uint8_t mac[6];

    begin();
    set_trust(VF(0), true);
    put_mac(mac, VF(1));
    eswitch_set_port(w.sw, VF(0), mac, 0);
    send(ESWITCH_UPLINK, VF(1), FOREIGN);
    CHECK_EQ(got_mask(), TO(VF(1)));
    end();
}

/* ---- ingress ------------------------------------------------------------- */

static void spoof_check_drops_foreign_sources(void)
{
    ESwitchSettings set;

    begin();
    send(VF(0), FOREIGN, VF(1));
    CHECK_EQ(got_mask(), 0);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_SPOOFED), 1);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_FRAMES), 0);
    set = settings_of(VF(0));
    set.spoof_check = false;
    eswitch_set(w.sw, VF(0), &set);
    send(VF(0), FOREIGN, VF(1));
    CHECK_EQ(got_mask(), UP);
    end();
}

static void administrative_address_replaces_the_permanent_source(void)
{
    ESwitchSettings set;

    begin();
    set = settings_of(VF(0));
    put_mac(set.mac, 0x50);
    eswitch_set(w.sw, VF(0), &set);
    CHECK_MEM(eswitch_mac(w.sw, VF(0)), set.mac, 6);
    send(VF(0), FOREIGN, VF(0));
    CHECK_EQ(got_mask(), 0);
    send(VF(0), FOREIGN, 0x50);
    CHECK_EQ(got_mask(), UP);
    send(VF(1), 0x50, VF(1));
    CHECK_EQ(got_mask(), TO(VF(0)));
    memset(set.mac, 0, 6);
    eswitch_set(w.sw, VF(0), &set);
    CHECK_EQ(eswitch_mac(w.sw, VF(0))[5], VF(0));
    end();
}

static void address_of_a_driver_counts_only_if_trusted(void)
{
    uint8_t mac[6];

    begin();
    put_mac(mac, 0x50);
    eswitch_set_port(w.sw, VF(0), mac, 0);
    send(VF(1), 0x50, VF(1));
    CHECK_EQ(got_mask(), UP);
    send(VF(0), FOREIGN, 0x50);
    CHECK_EQ(got_mask(), 0);
    set_trust(VF(0), true);
    send(VF(1), 0x50, VF(1));
    CHECK_EQ(got_mask(), TO(VF(0)));
    send(VF(0), FOREIGN, 0x50);
    CHECK_EQ(got_mask(), UP);
    end();
}

static void absent_vf_neither_sends_nor_receives(void)
{
    begin();
    eswitch_set_present(w.sw, VF(1), false);
    send(VF(1), FOREIGN, VF(1));
    CHECK_EQ(got_mask(), 0);
    send(VF(0), VF(1), VF(0));
    CHECK_EQ(got_mask(), UP);
    send(VF(0), BROADCAST, VF(0));
    CHECK_EQ(got_mask(), UP | TO(0) | TO(VF(2)));
    end();
}

static void short_and_long_frames_are_dropped(void)
{
    static uint8_t frame[ESWITCH_FRAME_MAX + 1];

    begin();
    make(frame, FOREIGN, VF(0), sizeof(frame));
    eswitch_in(w.sw, w.now, VF(0), frame, 0);
    eswitch_in(w.sw, w.now, VF(0), frame, 13);
    eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame));
    CHECK_EQ(got_mask(), 0);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_DROPPED), 3);
    eswitch_in(w.sw, w.now, VF(0), frame, 14);
    CHECK_EQ(got_mask(), UP);
    eswitch_in(w.sw, w.now, VF(0), frame, ESWITCH_FRAME_MAX);
    CHECK_EQ(got_mask(), UP);
    set_vlan(VF(0), 0x8100, 5, 0);
    eswitch_in(w.sw, w.now, VF(0), frame, ESWITCH_FRAME_MAX - 3);
    CHECK_EQ(got_mask(), 0);
    eswitch_in(w.sw, w.now, VF(0), frame, ESWITCH_FRAME_MAX - 4);
    CHECK_EQ(got_mask(), UP);
    end();
}

/* ---- port VLANs ---------------------------------------------------------- */

static void port_vlan_pushes_and_strips_its_tag(void)
{
    uint8_t frame[64], plain[60];

    begin();
    set_vlan(VF(0), 0x88a8, 100, 3);
    set_vlan(VF(1), 0x88a8, 100, 0);
    send(VF(0), FOREIGN, VF(0));
    REQUIRE(w.count == 1);
    make(plain, FOREIGN, VF(0), sizeof(plain));
    CHECK_EQ(w.got[0].len, 64);
    CHECK_MEM(w.got[0].frame, plain, 12);
    CHECK_MEM(w.got[0].frame + 12, "\x88\xa8\x60\x64", 4);
    CHECK_MEM(w.got[0].frame + 16, plain + 12, 48);
    CHECK_EQ(got_mask(), UP);
    send(VF(0), VF(1), VF(0));
    CHECK_EQ(w.got[0].len, 60);
    CHECK_EQ(got_mask(), TO(VF(1)));
    make(frame, VF(1), FOREIGN, sizeof(frame));
    put_tag(frame, 0x88a8, 100);
    frame[16] = 0x86;
    eswitch_in(w.sw, w.now, ESWITCH_UPLINK, frame, sizeof(frame));
    CHECK_EQ(w.got[0].len, 60);
    CHECK_MEM(w.got[0].frame, frame, 12);
    CHECK_MEM(w.got[0].frame + 12, frame + 16, 48);
    CHECK_EQ(got_mask(), TO(VF(1)));
    end();
}

static void other_vlan_and_no_vlan_do_not_reach_a_port_vlan(void)
{
    uint8_t frame[64];

    begin();
    set_vlan(VF(1), 0x8100, 100, 0);
    send(ESWITCH_UPLINK, VF(1), FOREIGN);
    CHECK_EQ(got_mask(), TO(0));
    send(ESWITCH_UPLINK, BROADCAST, FOREIGN);
    CHECK_EQ(got_mask(), TO(0) | TO(VF(0)) | TO(VF(2)));
    make(frame, BROADCAST, FOREIGN, sizeof(frame));
    put_tag(frame, 0x8100, 101);
    eswitch_in(w.sw, w.now, ESWITCH_UPLINK, frame, sizeof(frame));
    CHECK_EQ(got_mask(), TO(0) | TO(VF(0)) | TO(VF(2)));
    put_tag(frame, 0x88a8, 100);
    eswitch_in(w.sw, w.now, ESWITCH_UPLINK, frame, sizeof(frame));
    CHECK_EQ(got_mask(), TO(0) | TO(VF(0)) | TO(VF(2)));
    put_tag(frame, 0x8100, 0x7064);
    eswitch_in(w.sw, w.now, ESWITCH_UPLINK, frame, sizeof(frame));
    CHECK_EQ(got_mask(), TO(0) | TO(VF(0)) | TO(VF(1)) | TO(VF(2)));
    end();
}

static void tagged_frame_does_not_enter_a_port_vlan_of_its_type(void)
{
    uint8_t frame[64];

    begin();
    set_vlan(VF(0), 0x8100, 100, 0);
    make(frame, FOREIGN, VF(0), sizeof(frame));
    put_tag(frame, 0x8100, 7);
    eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame));
    CHECK_EQ(got_mask(), 0);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_DROPPED), 1);
    set_vlan(VF(0), 0x88a8, 100, 0);
    eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame));
    CHECK_EQ(w.got[0].len, 68);
    CHECK_MEM(w.got[0].frame + 12, "\x88\xa8\x00\x64\x81\x00\x00\x07", 8);
    CHECK_EQ(got_mask(), UP);
    end();
}

static void qos_without_vlan_adds_a_priority_tag(void)
{
    uint8_t frame[64];

    begin();
    set_vlan(VF(0), 0x8100, 0, 5);
    send(VF(0), VF(1), VF(0));
    CHECK_MEM(w.got[0].frame + 12, "\x81\x00\xa0\x00", 4);
    CHECK_EQ(got_mask(), TO(VF(1)));
    make(frame, FOREIGN, VF(0), sizeof(frame));
    put_tag(frame, 0x8100, 7);
    eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame));
    CHECK_EQ(w.got[0].len, 64);
    CHECK_EQ(got_mask(), UP);
    send(ESWITCH_UPLINK, VF(0), FOREIGN);
    CHECK_EQ(got_mask(), TO(VF(0)));
    end();
}

/* ---- links --------------------------------------------------------------- */

static void links_follow_the_uplink_or_their_setting(void)
{
    begin();
    set_link(VF(0), FAKERNIC_VPORT_LINK_ENABLE);
    set_link(VF(2), FAKERNIC_VPORT_LINK_ENABLE);
    CHECK_EQ(w.link[VF(0)], -1);
    eswitch_set_uplink(w.sw, false);
    CHECK_EQ(w.link[0], 0);
    CHECK_EQ(w.link[VF(0)], -1);
    CHECK_EQ(w.link[VF(1)], 0);
    send(VF(0), VF(2), VF(0));
    CHECK_EQ(got_mask(), TO(VF(2)));
    send(VF(0), VF(1), VF(0));
    send(VF(1), VF(0), VF(1));
    send(VF(0), FOREIGN, VF(0));
    CHECK_EQ(got_mask(), 0);
    CHECK_EQ(counter(VF(1), FAKERNIC_VPORT_STAT_RX_DROPPED), 1);
    CHECK_EQ(counter(VF(1), FAKERNIC_VPORT_STAT_TX_DROPPED), 1);
    CHECK_EQ(counter(ESWITCH_UPLINK, FAKERNIC_VPORT_STAT_RX_DROPPED), 1);
    eswitch_set_uplink(w.sw, true);
    CHECK_EQ(w.link[VF(1)], 1);
    set_link(VF(0), FAKERNIC_VPORT_LINK_DISABLE);
    CHECK_EQ(w.link[VF(0)], 0);
    send(VF(1), VF(0), VF(1));
    CHECK_EQ(got_mask(), 0);
    end();
}

/* ---- waiting ------------------------------------------------------------- */

static void busy_uplink_makes_senders_wait_their_turn(void)
{
    begin();
    w.busy[PORTS - 1] = true;
    send(0, FOREIGN, 0);
    CHECK_EQ(got_mask(), UP);
    for (unsigned i = 1; i <= VFS; i++) {
        CHECK_EQ(send(i, BROADCAST, (uint8_t)i), 0);
    }
    CHECK_EQ(send(VF(0), VF(1), VF(0)), 1);
    CHECK_EQ(got_mask(), TO(VF(1)));
    CHECK_EQ(send(VF(0), BROADCAST, VF(0)), 0);
    w.busy[PORTS - 1] = false;
    eswitch_ready(w.sw, ESWITCH_UPLINK);
    for (unsigned i = 1; i <= VFS; i++) {
        CHECK_EQ(w.resumed[i], 1);
    }
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_FRAMES), 1);
    CHECK_EQ(send(VF(0), FOREIGN, VF(0)), 1);
    end();
}

static void uplink_that_goes_down_releases_those_that_wait(void)
{
    begin();
    w.busy[PORTS - 1] = true;
    send(0, FOREIGN, 0);
    set_link(VF(0), FAKERNIC_VPORT_LINK_ENABLE);
    CHECK_EQ(send(VF(0), FOREIGN, VF(0)), 0);
    eswitch_set_uplink(w.sw, false);
    CHECK_EQ(w.resumed[VF(0)], 1);
    CHECK_EQ(send(VF(0), FOREIGN, VF(0)), 1);
    end();
}

static void vf_that_waits_is_resumed_when_it_disappears(void)
{
    begin();
    w.busy[PORTS - 1] = true;
    send(0, FOREIGN, 0);
    CHECK_EQ(send(VF(0), FOREIGN, VF(0)), 0);
    eswitch_set_present(w.sw, VF(0), false);
    CHECK_EQ(w.resumed[VF(0)], 1);
    CHECK_EQ(send(VF(0), FOREIGN, VF(0)), 1);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_DROPPED), 1);
    eswitch_set_present(w.sw, VF(0), true);
    CHECK_EQ(w.resumed[VF(0)], 1);
    end();
}

static void busy_vf_gets_a_bounded_queue_in_order(void)
{
    const unsigned most = ESWITCH_QUEUE_BYTES / (60 + ESWITCH_QUEUED);
    const unsigned sent = most + 10;

    begin();
    w.busy[VF(1)] = true;
    send(VF(0), VF(1), VF(0));
    CHECK_EQ(got_mask(), TO(VF(1)));
    for (unsigned i = 0; i < sent; i++) {
        uint8_t frame[60];

        make(frame, VF(1), VF(0), sizeof(frame));
        frame[20] = (uint8_t)i;
        CHECK_EQ(eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame)), 1);
    }
    CHECK_EQ(counter(VF(1), FAKERNIC_VPORT_STAT_RX_DROPPED), 10);
    for (unsigned i = 0; i < 20; i++) {
        CHECK_EQ(w.count, 0);
        eswitch_ready(w.sw, VF(1));
        REQUIRE(w.count == 1);
        CHECK_EQ(w.got[0].frame[20], i);
        w.count = 0;
    }
    eswitch_purge(w.sw, VF(1));
    CHECK_EQ(counter(VF(1), FAKERNIC_VPORT_STAT_RX_DROPPED), sent - 20);
    eswitch_ready(w.sw, VF(1));
    CHECK_EQ(w.count, 0);
    end();
}

static void frames_that_wait_are_freed_with_the_vf_and_the_switch(void)
{
    begin();
    w.busy[VF(1)] = w.busy[VF(2)] = true;
    for (unsigned i = 0; i < 3; i++) {
        send(VF(0), VF(1), VF(0));
        send(VF(0), VF(2), VF(0));
    }
    eswitch_set_present(w.sw, VF(1), false);
    eswitch_set_present(w.sw, VF(1), true);
    CHECK_EQ(counter(VF(1), FAKERNIC_VPORT_STAT_RX_FRAMES), 0);
    w.count = 0;
    eswitch_ready(w.sw, VF(1));
    CHECK_EQ(w.count, 0);
    end();
}

static void wire_may_answer_during_the_delivery(void)
{
    begin();
    w.answers = true;
    send(VF(0), BROADCAST, VF(0));
    REQUIRE(w.count == 5);
    CHECK_EQ(w.got[0].vport, ESWITCH_UPLINK);
    CHECK_EQ(w.got[1].vport, VF(0));
    CHECK_EQ(w.got[1].frame[11], FOREIGN);
    end();
}

/* ---- rates --------------------------------------------------------------- */

static void rate_is_kept_within_a_percent(void)
{
    ESwitchSettings set;
    static uint8_t frame[1514];
    const ESwitchTime begun = 1000000000;
    uint64_t bits = 0;

    begin();
    set = settings_of(VF(0));
    set.max_mbps = 100;
    eswitch_set(w.sw, VF(0), &set);
    make(frame, FOREIGN, VF(0), sizeof(frame));
    CHECK_EQ(eswitch_deadline(w.sw), ESWITCH_NEVER);
    while (w.now < begun + 1000000000) {
        w.count = 0;
        if (eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame))) {
            bits += 1500 * 8;
        } else {
            REQUIRE(eswitch_deadline(w.sw) > w.now);
            w.now = eswitch_deadline(w.sw);
            w.resumed[VF(0)] = 0;
            eswitch_tick(w.sw, w.now);
            CHECK_EQ(w.resumed[VF(0)], 1);
        }
    }
    CHECK(bits > 99000000 && bits < 101000000);
    CHECK(counter(VF(0), FAKERNIC_VPORT_STAT_TX_WAITED) > 8000);
    /* A frame that waits when its limit is removed is resumed. */
    while (eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame))) {
        w.count = 0;
    }
    w.resumed[VF(0)] = 0;
    set.max_mbps = 0;
    eswitch_set(w.sw, VF(0), &set);
    CHECK_EQ(w.resumed[VF(0)], 1);
    CHECK_EQ(eswitch_in(w.sw, w.now, VF(0), frame, sizeof(frame)), 1);
    end();
}

/* ---- cost, addresses, numbers -------------------------------------------- */

static bool take(void *opaque, unsigned vport, const uint8_t *frame, size_t len,
                 bool copy)
{
    (void)vport;
    (void)frame;
    (void)len;
    (void)copy;
    ++*(unsigned *)opaque;
    return true;
}

static void ignore(void *opaque, unsigned vport)
{
    (void)opaque;
    (void)vport;
}

static void ignore_link(void *opaque, unsigned vport, bool up)
{
    (void)opaque;
    (void)vport;
    (void)up;
}

static void cost_of_copies_is_a_quarter_each(void)
{
    static const ESwitchOps counting = { take, ignore, ignore_link };
    unsigned count = 0;
    ESwitch *sw = eswitch_new(&counting, &count, ESWITCH_VFS_MAX);
    const uint8_t pf[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    uint8_t frame[60], mac[6];

    REQUIRE(sw);
    for (unsigned i = 1; i <= ESWITCH_VFS_MAX; i++) {
        eswitch_vf_mac(pf, i - 1, mac);
        eswitch_set_permanent(sw, i, mac);
        eswitch_set_present(sw, i, true);
        eswitch_set_port(sw, i, mac, FAKERNIC_FILTER_BROADCAST);
    }
    make(frame, BROADCAST, FOREIGN, sizeof(frame));
    CHECK_EQ(eswitch_in(sw, 0, ESWITCH_UPLINK, frame, sizeof(frame)), 1 + 32);
    CHECK_EQ(count, 128);
    eswitch_free(sw);
}

static void permanent_addresses_of_two_cards_differ(void)
{
    uint8_t macs[2 * ESWITCH_VFS_MAX][6];

    for (unsigned i = 0; i < TEST_COUNT(macs); i++) {
        const uint8_t pf[6] = { 0x52, 0x54, 0, 0x12, 0x34,
                                (uint8_t)(0x56 + i % 2) };

        eswitch_vf_mac(pf, i / 2, macs[i]);
        CHECK_EQ(macs[i][0], 0x52);
        for (unsigned j = 0; j < i; j++) {
            CHECK(memcmp(macs[i], macs[j], 6));
        }
    }
}

static void defaults_replace_all_settings(void)
{
    const ESwitchSettings none = { .vlan_proto = 0x8100, .spoof_check = true };
    ESwitchSettings set = { .vid = 7, .vlan_proto = 0x88a8, .qos = 1,
                            .link = FAKERNIC_VPORT_LINK_DISABLE, .trust = true,
                            .rss_query = true, .min_mbps = 1, .max_mbps = 2 };

    begin();
    put_mac(set.mac, 0x50);
    eswitch_set(w.sw, VF(0), &set);
    CHECK_EQ(w.link[VF(0)], 0);
    eswitch_set_defaults(w.sw);
    CHECK_EQ(w.link[VF(0)], 1);
    for (unsigned i = 1; i <= VFS; i++) {
        set = settings_of(i);
        CHECK_MEM(set.mac, none.mac, 6);
        CHECK_EQ(set.vid | set.qos | set.link | set.trust | set.rss_query |
                 set.min_mbps | set.max_mbps, 0);
        CHECK_EQ(set.vlan_proto, none.vlan_proto);
        CHECK(set.spoof_check);
    }
    CHECK(settings_of(0).trust && !settings_of(0).spoof_check);
    end();
}

static void function_shows_addresses_and_filter(void)
{
    ESwitchFunction f;
    uint8_t mac[6];

    begin();
    put_mac(mac, 0x50);
    eswitch_set_port(w.sw, VF(0), mac, FAKERNIC_FILTER_PROMISCUOUS);
    f = eswitch_function(w.sw, VF(0));
    CHECK_EQ(f.permanent[5], VF(0));
    CHECK_MEM(f.mac, mac, 6);
    CHECK_EQ(f.filter, FAKERNIC_FILTER_PROMISCUOUS);
    CHECK(f.present);
    eswitch_set_present(w.sw, VF(0), false);
    f = eswitch_function(w.sw, VF(0));
    CHECK_EQ(f.permanent[5], VF(0));
    CHECK_EQ(f.mac[0] | f.mac[5] | f.filter | f.present, 0);
    CHECK(eswitch_function(w.sw, ESWITCH_UPLINK).present);
    end();
}

static void vports_have_their_numbers(void)
{
    begin();
    CHECK(eswitch_has(w.sw, ESWITCH_PF));
    CHECK(eswitch_has(w.sw, VF(VFS - 1)));
    CHECK(!eswitch_has(w.sw, VF(VFS)));
    CHECK(eswitch_has(w.sw, ESWITCH_UPLINK));
    CHECK(!eswitch_has(w.sw, ESWITCH_UPLINK - 1));
    end();
}

/* The vport of a loaded card has its settings and counters. Frames that waited
 * for it before are gone, and its rate starts at zero. */
static void load_replaces_settings_and_counters(void)
{
    uint64_t counters[FAKERNIC_VPORT_STAT_COUNT] = {
        [FAKERNIC_VPORT_STAT_RX_FRAMES] = 77,
    };
    ESwitchSettings set;

    begin();
    set = settings_of(VF(0));
    set.max_mbps = 1;
    eswitch_set(w.sw, VF(0), &set);
    w.busy[VF(1)] = true;
    send(ESWITCH_PF, VF(1), 0);
    send(ESWITCH_PF, VF(1), 0);         /* waits */
    CHECK_EQ(got_mask(), TO(VF(1)));
    while (send(VF(0), 0, VF(0))) {
        w.count = 0;
    }
    w.now = 0;                          /* the loaded machine's clock */
    set.trust = true;
    eswitch_load(w.sw, VF(0), &set, counters);
    set = settings_of(VF(1));
    eswitch_load(w.sw, VF(1), &set, counters);
    eswitch_load(w.sw, ESWITCH_UPLINK, NULL, counters);
    CHECK(settings_of(VF(0)).trust);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_RX_FRAMES), 77);
    CHECK_EQ(counter(VF(0), FAKERNIC_VPORT_STAT_TX_FRAMES), 0);
    CHECK_EQ(counter(ESWITCH_UPLINK, FAKERNIC_VPORT_STAT_RX_FRAMES), 77);
    w.busy[VF(1)] = false;
    w.count = 0;
    eswitch_ready(w.sw, VF(1));
    CHECK_EQ(got_mask(), 0);
    CHECK_EQ(send(VF(0), 0, VF(0)), 1);
    CHECK_EQ(got_mask(), TO(ESWITCH_PF));
    end();
}

static const Test tests[] = {
    TEST(unicast_reaches_its_vport_only),
    TEST(unknown_address_goes_to_the_uplink_or_from_it_to_the_pf),
    TEST(broadcast_reaches_the_vports_that_ask),
    TEST(own_address_is_dropped_in_the_card),
    TEST(link_local_group_passes_only_between_uplink_and_trusted),
    TEST(promiscuous_vport_gets_copies_only_if_trusted),
    TEST(two_vlans_may_use_one_address),
    TEST(address_of_a_driver_does_not_take_that_of_another),
    TEST(spoof_check_drops_foreign_sources),
    TEST(administrative_address_replaces_the_permanent_source),
    TEST(address_of_a_driver_counts_only_if_trusted),
    TEST(absent_vf_neither_sends_nor_receives),
    TEST(short_and_long_frames_are_dropped),
    TEST(port_vlan_pushes_and_strips_its_tag),
    TEST(other_vlan_and_no_vlan_do_not_reach_a_port_vlan),
    TEST(tagged_frame_does_not_enter_a_port_vlan_of_its_type),
    TEST(qos_without_vlan_adds_a_priority_tag),
    TEST(links_follow_the_uplink_or_their_setting),
    TEST(busy_uplink_makes_senders_wait_their_turn),
    TEST(uplink_that_goes_down_releases_those_that_wait),
    TEST(vf_that_waits_is_resumed_when_it_disappears),
    TEST(busy_vf_gets_a_bounded_queue_in_order),
    TEST(frames_that_wait_are_freed_with_the_vf_and_the_switch),
    TEST(wire_may_answer_during_the_delivery),
    TEST(rate_is_kept_within_a_percent),
    TEST(cost_of_copies_is_a_quarter_each),
    TEST(permanent_addresses_of_two_cards_differ),
    TEST(defaults_replace_all_settings),
    TEST(function_shows_addresses_and_filter),
    TEST(vports_have_their_numbers),
    TEST(load_replaces_settings_and_counters),
};
TEST_MAIN(tests)
