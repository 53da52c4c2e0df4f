/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Addresses: the frame headers that an address vector and a GID produce (VLAN,
 * DSCP, hop limit, flow label, UDP source port), which frames a host takes, and
 * what a datagram's completion reports.
 */
#include "pair.h"

#include "engine.h"

#define QKEY 0x11111111u

static void path_rts(PairHost *h)
{
    RoceQpAttr attr = { .port = 1, .qkey = QKEY, .sq_psn = PAIR_PSN };

    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE |
                         FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY |
                         FAKERNIC_QP_ATTR_PKEY_INDEX, &attr), 0);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(h, 0, PAIR_UC_RTS_MASK, &attr), 0);
}

/* A pair of UD QPs. The GIDs of index 1 have this type and VLAN. */
static void path_init(Pair *p, uint8_t type, uint16_t vlan)
{
    PairHost *hosts[2] = { &p->a, &p->b };
    unsigned i;

    memset(p, 0, sizeof(*p));
    for (i = 0; i < 2; i++) {
        PairHost *h = hosts[i];

        pair_host_init(h, (uint8_t)(i + 1));
        pair_create(h, FAKERNIC_QP_UD);
        path_rts(h);
        h->gid.type = type;
        h->gid.vlan = vlan;
        if (type == FAKERNIC_GID_IPV6) {
            memset(h->gid.gid, 0, 16);
            h->gid.gid[0] = 0xfe;
            h->gid.gid[1] = 0x80;
            h->gid.gid[15] = (uint8_t)(i + 1);
        } else {
            h->gid.gid[14] = 99;
        }
        CHECK_EQ(roce_gid_set(h->r, 1, &h->gid), FAKERNIC_CMD_OK);
    }
}

static RoceSendWr path_wr(const Pair *p, uint32_t length)
{
    RoceSendWr wr = pair_wr(&p->a, 1, FAKERNIC_SQ_SEND, 0, length);

    wr.ud.av = pair_av(&p->b);
    wr.ud.av.sgid_index = 1;
    wr.ud.dest_qpn = p->b.qpn;
    wr.ud.qkey = QKEY;
    return wr;
}

/* Takes the next frame of host a, and returns its length. */
static size_t path_frame(Pair *p, const RoceSendWr *wr, uint8_t *buf)
{
    bool loopback;
    size_t len;

    pair_send(p, &p->a, wr);
    len = roce_output(p->a.r, 0, buf, &loopback);
    REQUIRE(len > 0);
    CHECK(!loopback);
    return len;
}

static void packets_have_the_vlan_of_their_gid(void)
{
    uint8_t buf[ROCE_FRAME_MAX], copy[ROCE_FRAME_MAX];
    const RoceCompletion *c;
    RoceSendWr wr;
    size_t len;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV4, 0x123);
    pair_recv(&p.b, 1, 4096, 200);
    wr = path_wr(&p, 64);
    wr.ud.av.sl = 5;
    len = path_frame(&p, &wr, buf);
    CHECK_EQ(buf[12], 0x81);
    CHECK_EQ(buf[13], 0x00);
    CHECK_EQ(buf[14], 5 << 5 | 0x1);
    CHECK_EQ(buf[15], 0x23);
    CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_TAKEN);
    c = fake_next_completion(p.b.host);
    REQUIRE(c != NULL);
    CHECK_EQ(c->flags, FAKERNIC_CQE_GRH | FAKERNIC_CQE_VLAN);
    CHECK_EQ(c->vlan & 0xfff, 0x123);
    CHECK_EQ(c->sl, 5);
    /* Frames of another VLAN, or of none, are not for that GID. */
    buf[15] ^= 1;
    CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_ETHERNET);
    memcpy(copy, buf, 12);
    memcpy(copy + 12, buf + 16, len - 16);
    CHECK_EQ(roce_input(p.b.r, 0, copy, len - 4), ROCE_INPUT_ETHERNET);
    pair_free(&p);
}

/* VLAN 0 is a priority, not a VLAN (IEEE 802.1Q). */
static void vlan_0_is_a_priority_tag(void)
{
    uint8_t buf[ROCE_FRAME_MAX], tagged[ROCE_FRAME_MAX];
    const RoceCompletion *c;
    RoceSendWr wr;
    size_t len;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE);
    pair_recv(&p.b, 1, 4096, 200);
    wr = path_wr(&p, 64);
    len = path_frame(&p, &wr, buf);
    CHECK_EQ(buf[12], 0x08);
    memcpy(tagged, buf, 12);
    memcpy(tagged + 12, (uint8_t[]) { 0x81, 0x00, 3 << 5, 0 }, 4);
    memcpy(tagged + 16, buf + 12, len - 12);
    CHECK_EQ(roce_input(p.b.r, 0, tagged, len + 4), ROCE_INPUT_TAKEN);
    c = fake_next_completion(p.b.host);
    REQUIRE(c != NULL);
    CHECK_EQ(c->flags, FAKERNIC_CQE_GRH);
    CHECK_EQ(c->sl, 3);
    pair_free(&p);
}

static void ipv4_header(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    size_t len;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE);
    pair_recv(&p.b, 1, 4096, 200);
    wr = path_wr(&p, 64);
    wr.ud.av.traffic_class = 0xb8;
    wr.ud.av.hop_limit = 3;
    len = path_frame(&p, &wr, buf);
    CHECK_EQ(buf[15] & 0xfc, 0xb8);
    CHECK_EQ(buf[20], 0x40);            /* don't fragment */
    CHECK_EQ(buf[22], 3);
    CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_TAKEN);
    /* The receiver finds the header in the last 20 bytes of 40 (A17.4.5.2). */
    CHECK_MEM(p.b.memory + 4096 + 20, buf + 14, 20);
    CHECK_EQ(p.b.host->completions[0].network_type, FAKERNIC_GID_IPV4);
    wr.ud.av.hop_limit = 0;
    path_frame(&p, &wr, buf);
    CHECK_EQ(buf[22], 64);
    pair_free(&p);
}

static void ipv6_header(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    size_t len;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV6, FAKERNIC_VLAN_NONE);
    pair_recv(&p.b, 1, 4096, 200);
    wr = path_wr(&p, 64);
    wr.ud.av.traffic_class = 0x20;
    wr.ud.av.flow_label = 0x12345;
    wr.ud.av.hop_limit = 255;
    len = path_frame(&p, &wr, buf);
    CHECK_EQ(buf[12] << 8 | buf[13], 0x86dd);
    CHECK_EQ(buf[14], 0x62);
    CHECK_EQ(buf[15] & 0xcf, 0x01);     /* except the two ECN bits */
    CHECK_EQ(buf[16] << 8 | buf[17], 0x2345);
    CHECK_EQ(buf[20], 17);
    CHECK_EQ(buf[21], 255);
    CHECK_MEM(buf + 22, p.a.gid.gid, 16);
    CHECK_MEM(buf + 38, p.b.gid.gid, 16);
    CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_TAKEN);
    CHECK_MEM(p.b.memory + 4096, buf + 14, 40);
    CHECK_EQ(p.b.host->completions[0].network_type, FAKERNIC_GID_IPV6);
    CHECK_EQ(p.b.host->completions[0].byte_count, 40 + 64);
    pair_free(&p);
}

/* IBTA A17.9.2: constant per flow, in the dynamic range. */
static void udp_source_port(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    unsigned first, port, i, differ = 0;
    RoceSendWr wr;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE);
    wr = path_wr(&p, 0);
    wr.ud.av.udp_sport = 0x4321;
    path_frame(&p, &wr, buf);
    CHECK_EQ(buf[34] << 8 | buf[35], 0x4321);
    CHECK_EQ(buf[36] << 8 | buf[37], 4791);
    wr.ud.av.udp_sport = 0;
    wr.ud.av.flow_label = 0xabcde;
    path_frame(&p, &wr, buf);
    CHECK_EQ(buf[34] << 8 | buf[35], 0xc000 | ((0xabcde & 0x3fff) ^
                                               0xabcde >> 14));
    wr.ud.av.flow_label = 0;
    path_frame(&p, &wr, buf);
    first = (unsigned)(buf[34] << 8 | buf[35]);
    for (i = 0; i < 16; i++) {
        wr.ud.dest_qpn = p.b.qpn + i;
        path_frame(&p, &wr, buf);
        port = (unsigned)(buf[34] << 8 | buf[35]);
        CHECK(port >= 0xc000);
        differ += port != first;
    }
    CHECK(differ > 10 && differ < 16);
    pair_free(&p);
}

static void bad_address_vectors_are_refused(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    unsigned i;

    for (i = 0; i < 4; i++) {
        RoceGid none = { .type = FAKERNIC_GID_NONE };
        RoceSendWr wr;
        Pair p;

        path_init(&p, FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE);
        wr = path_wr(&p, 0);
        switch (i) {
        case 0:
            wr.ud.av.sgid_index = 4;    /* beyond the table */
            break;
        case 1:
            wr.ud.av.sl = 8;
            break;
        case 2:
            wr.ud.av.dgid[10] = 0;      /* IPv4 cannot reach IPv6 */
            break;
        default:
            CHECK_EQ(roce_gid_set(p.a.r, 1, &none), FAKERNIC_CMD_OK);
        }
        pair_send(&p, &p.a, &wr);
        CHECK_EQ(roce_output(p.a.r, 0, buf, &loopback), 0);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_QP_OP_ERR);
        CHECK_EQ(p.a.host->completions[0].vendor_err,
                 FAKERNIC_VENDOR_GID_INDEX);
        pair_free(&p);
    }
}

/* Only the destination counts a damaged frame. */
static void damaged_frames_are_counted_at_destination(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    size_t len;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE);
    wr = path_wr(&p, 64);
    len = path_frame(&p, &wr, buf);
    buf[len - 10] ^= 0x10;
    CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_TAKEN);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_ICRC), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_RX_ROCE), 1);
    CHECK_EQ(roce_input(p.a.r, 0, buf, len), ROCE_INPUT_ETHERNET);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_ICRC), 0);
    buf[24] ^= 1;                       /* the IPv4 header's checksum */
    CHECK_EQ(roce_input(p.b.r, 0, buf, len), ROCE_INPUT_TAKEN);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_IP_CSUM), 1);
    pair_free(&p);
}

/* A group gets only datagrams, and only to the QPN of groups (IBTA 10.5.2). */
static void group_accepts_only_datagrams_to_its_qpn(void)
{
    static const uint8_t group[16] = {
        [10] = 0xff, 0xff, 224, 0, 0, 5,
    };
    RocePacket packet;
    Pair p;

    path_init(&p, FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE);
    CHECK_EQ(roce_mcast_attach(p.b.r, group, p.b.qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mcast_attach(p.b.r, group, p.b.qpn), FAKERNIC_CMD_OK);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, 0);
    memcpy(packet.dgid, group, 16);
    packet.dest_qpn = FAKERNIC_QPN_MULTICAST;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_OPCODE), 1);
    packet.opcode = ROCE_BTH_UD | ROCE_BTH_SEND_ONLY;
    packet.deth.qkey = QKEY;
    packet.dest_qpn = p.b.qpn;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_QPN), 1);
    packet.dest_qpn = FAKERNIC_QPN_MULTICAST;
    pair_recv(&p.b, 1, 0, 40);
    pair_recv(&p.b, 2, 0, 40);
    pair_inject(&p, &p.b, &packet, NULL, 0);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&p.b);             /* attached twice, received once */
    pair_free(&p);
}

/* A responder whose GID is removed sends nothing, and does not crash. */
static void responder_without_gid_sends_nothing(void)
{
    RoceGid none = { .type = FAKERNIC_GID_NONE };
    RocePacket packet;
    PAIR(p, FAKERNIC_QP_RC);

    packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_REQUEST, PAIR_PSN);
    packet.reth.address = PAIR_MEMORY;
    packet.reth.rkey = p.b.key;
    packet.reth.length = 8;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_WRITE_ONLY, PAIR_PSN + 1);
    packet.reth.rkey = 0x1234;
    packet.reth.length = 4;
    pair_inject(&p, &p.b, &packet, "abc", 4);
    CHECK_EQ(roce_gid_set(p.b.r, 0, &none), FAKERNIC_CMD_OK);
    pair_run(&p);
    CHECK_EQ(p.b.sent, 0);
    /* The NAK cannot be sent, but its QP has failed. */
    CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
}

/* A new GID, or a new path of the QP, applies to the next WRITE. */
static void new_path_applies_to_next_packet(void)
{
    const uint8_t old_mac[6] = { 2, 0, 0, 0, 0, 1 };
    RoceQpAttr attr = { 0 };
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    RoceGid gid;
    PAIR(p, FAKERNIC_QP_RC);

    wr = pair_rdma_wr(&p.a, &p.b, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 8);
    path_frame(&p, &wr, buf);
    REQUIRE(roce_gid_get(p.a.r, 0, &gid));
    CHECK_MEM(buf + 6, gid.mac, 6);
    gid.mac[5] ^= 0x40;
    CHECK_EQ(roce_gid_set(p.a.r, 0, &gid), FAKERNIC_CMD_OK);
    path_frame(&p, &wr, buf);
    CHECK_MEM(buf + 6, gid.mac, 6);
    attr.state = FAKERNIC_QPS_SQD;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    attr.av = pair_qp(&p.a)->attr.av;
    memcpy(attr.av.dmac, old_mac, 6);
    attr.av.hop_limit = 77;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_AV, &attr),
             FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    path_frame(&p, &wr, buf);
    CHECK_MEM(buf, old_mac, 6);
    CHECK_EQ(buf[14 + 8], 77);
}

static const Test tests[] = {
    TEST(new_path_applies_to_next_packet),
    TEST(packets_have_the_vlan_of_their_gid),
    TEST(vlan_0_is_a_priority_tag),
    TEST(ipv4_header),
    TEST(ipv6_header),
    TEST(udp_source_port),
    TEST(bad_address_vectors_are_refused),
    TEST(damaged_frames_are_counted_at_destination),
    TEST(group_accepts_only_datagrams_to_its_qpn),
    TEST(responder_without_gid_sends_nothing),
};

TEST_MAIN(tests)
