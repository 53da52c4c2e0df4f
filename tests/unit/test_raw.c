/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Raw-packet QPs: the Ethernet port. */
#include "pair.h"

#include "engine.h"

static void raw_rts(PairHost *h)
{
    RoceQpAttr attr = { .port = 1, .state = FAKERNIC_QPS_INIT };

    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT,
                         &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
}

static void raw_init(PairHost *h)
{
    pair_host_init(h, 1);
    pair_create(h, FAKERNIC_QP_RAW_PACKET);
    raw_rts(h);
}

static void raw_free(PairHost *h)
{
    roce_free(h->r);
    fake_host_free(h->host);
}

static void raw_send(PairHost *h, uint32_t index, uint32_t length)
{
    RoceSendWr wr = pair_wr(h, index, FAKERNIC_SQ_SEND, 0, length);

    fake_post_send(h->host, h->qpn, &wr);
    roce_post_send(h->r, 0, h->qpn);
}

static void raw_frames_are_sent_unchanged(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback = true;
    PairHost h;

    raw_init(&h);
    pair_fill(h.memory, 60, 1);
    raw_send(&h, 3, 42);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 42);
    CHECK(!loopback);
    CHECK_MEM(buf, h.memory, 42);
    pair_expect_none(&h);       /* it completes after it was sent */
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_SUCCESS);
    raw_free(&h);
}

static void raw_frames_are_received_unchanged(void)
{
    uint8_t frame[1514];
    PairHost h;

    raw_init(&h);
    pair_fill(frame, sizeof(frame), 5);
    CHECK(!roce_input_ethernet(h.r, 0, h.qpn, frame, 60, false));
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_RX_NO_BUFFER], 1);
    pair_recv(&h, 8, 4096, 1514);
    CHECK(roce_input_ethernet(h.r, 0, h.qpn, frame, sizeof(frame), false));
    CHECK_MEM(h.memory + 4096, frame, sizeof(frame));
    CHECK_EQ(h.host->completions[0].byte_count, sizeof(frame));
    pair_expect(&h, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    raw_free(&h);
}

static void long_frames_are_dropped_without_error(void)
{
    uint8_t frame[1514] = { 0 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;

    raw_init(&h);
    roce_set_port_mtu(h.r, 1500);
    raw_send(&h, 1, 1519);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_TX_DROPPED], 1);
    pair_recv(&h, 8, 4096, 100);
    CHECK(!roce_input_ethernet(h.r, 0, h.qpn, frame, sizeof(frame), false));
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_RX_OVERSIZE], 1);
    CHECK(roce_input_ethernet(h.r, 0, h.qpn, frame, 100, false));
    pair_expect(&h, FAKERNIC_CQE_RECV, 8, FAKERNIC_WC_SUCCESS);
    raw_free(&h);
}

static void invalid_raw_frames_cause_sqe(void)
{
    static const uint32_t lengths[] = { 0, 13, ROCE_FRAME_MAX + 1 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;
    unsigned i;

    for (i = 0; i < TEST_COUNT(lengths); i++) {
        raw_init(&h);
        raw_send(&h, 1, lengths[i]);
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
        pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_LEN_ERR);
        CHECK_EQ(pair_state(&h), FAKERNIC_QPS_SQE);
        raw_free(&h);
    }
}

static void only_raw_qps_take_frames(void)
{
    uint8_t frame[60] = { 0 };
    PAIR(p, FAKERNIC_QP_RC);

    pair_recv(&p.a, 1, 0, 100);
    CHECK(!roce_input_ethernet(p.a.r, 0, p.a.qpn, frame, 60, false));
    CHECK(!roce_input_ethernet(p.a.r, 0, 12345, frame, sizeof(frame), false));
    pair_expect_none(&p.a);
}

/* The port gets Ethernet frames, and RoCEv2 frames to other addresses. */
static void frames_for_others_reach_the_port(void)
{
    uint8_t frame[ROCE_FRAME_MAX] = { [12] = 0x08, 0x06 };
    RocePacket packet;
    size_t at;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_input(p.b.r, 0, frame, 60), ROCE_INPUT_ETHERNET);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN);
    packet.dgid[15] = 77;
    at = roce_wire_encode(frame, &packet);
    CHECK_EQ(roce_input(p.b.r, 0, frame, roce_wire_finish(frame, at, 0)),
             ROCE_INPUT_ETHERNET);
    CHECK_EQ(roce_stats(p.b.r)[FAKERNIC_STAT_RX_ROCE], 0);
}

static void send_tagged(PairHost *h, uint32_t length, uint16_t tci)
{
    RoceSendWr wr = pair_wr(h, 1, FAKERNIC_SQ_SEND, 0, length);

    wr.flags |= FAKERNIC_SQ_VLAN;
    wr.imm_or_key = tci;
    fake_post_send(h->host, h->qpn, &wr);
    roce_post_send(h->r, 0, h->qpn);
}

static void vlan_tags_are_inserted(void)
{
    static const uint8_t tag[4] = { 0x81, 0x00, 0xa1, 0x23 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;

    raw_init(&h);
    pair_fill(h.memory, 60, 1);
    send_tagged(&h, 60, 0xa123);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 64);
    CHECK_MEM(buf, h.memory, 12);
    CHECK_MEM(buf + 12, tag, sizeof(tag));
    CHECK_MEM(buf + 16, h.memory + 12, 48);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    raw_free(&h);
}

/* The tag of a frame counts for the MTU and for the longest frame. */
static void vlan_tag_counts_for_mtu(void)
{
    static const struct {
        uint32_t length, mtu;
        unsigned status, sent;
        uint8_t types[6];       /* behind the addresses */
    } rows[] = {
        { 1514, 1500, FAKERNIC_WC_SUCCESS, 1518, { 0 } },
        { 1515, 1500, FAKERNIC_WC_SUCCESS, 0, { 0 } },
        { 13, 1500, FAKERNIC_WC_LOC_LEN_ERR, 0, { 0 } },
        { ROCE_FRAME_MAX - 4, 9004, FAKERNIC_WC_SUCCESS, ROCE_FRAME_MAX,
          { 0 } },
        { ROCE_FRAME_MAX - 3, 9004, FAKERNIC_WC_LOC_LEN_ERR, 0, { 0 } },
        /* Frames that have one tag or two; the MTU excludes only one. */
        { 1518, 1500, FAKERNIC_WC_SUCCESS, 1522, { 0x88, 0xa8 } },
        { 1519, 1500, FAKERNIC_WC_SUCCESS, 0, { 0x88, 0xa8 } },
        { 1518, 1500, FAKERNIC_WC_SUCCESS, 1522,
          { 0x88, 0xa8, 0, 1, 0x81, 0x00 } },
        { 1519, 1500, FAKERNIC_WC_SUCCESS, 0,
          { 0x88, 0xa8, 0, 1, 0x81, 0x00 } },
    };
    uint8_t *buf = malloc(ROCE_FRAME_MAX);
    bool loopback;
    PairHost h;
    unsigned i;

    REQUIRE(buf != NULL);
    for (i = 0; i < TEST_COUNT(rows); i++) {
        raw_init(&h);
        roce_set_port_mtu(h.r, rows[i].mtu);
        memcpy(h.memory + 12, rows[i].types, sizeof(rows[i].types));
        send_tagged(&h, rows[i].length, 1);
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), rows[i].sent);
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
        pair_expect(&h, FAKERNIC_CQE_SEND, 1, rows[i].status);
        raw_free(&h);
    }
    free(buf);
}

static void vlan_tags_are_stripped(void)
{
    static const struct {
        size_t len;
        bool strip;
        uint8_t bytes[8];       /* behind the addresses */
        bool stripped;
        uint16_t tci;
    } rows[] = {
        { 100, true, { 0x81, 0x00, 0xef, 0xff, 0x08, 0x00 }, true, 0xefff },
        { 100, true, { 0x81, 0x00, 0x00, 0x00, 0x08, 0x00 }, true, 0 },
        { 18, true, { 0x81, 0x00, 0x00, 0x07, 0x08, 0x00 }, true, 7 },
        /* The first of two tags. */
        { 100, true, { 0x81, 0x00, 0, 1, 0x81, 0x00, 0, 2 }, true, 1 },
        /* Cut-off type; no tag; another kind of tag; stripping is off. */
        { 17, true, { 0x81, 0x00, 0, 1, 0x08 }, false, 0 },
        { 100, true, { 0x08, 0x00 }, false, 0 },
        { 100, true, { 0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2 }, false, 0 },
        { 100, false, { 0x81, 0x00, 0, 1, 0x08, 0x00 }, false, 0 },
    };
    uint8_t frame[100];
    PairHost h;
    unsigned i;

    for (i = 0; i < TEST_COUNT(rows); i++) {
        const size_t tag = rows[i].stripped ? 4 : 0;
        const size_t left = rows[i].len - tag;
        const RoceCompletion *got;

        raw_init(&h);
        pair_fill(frame, sizeof(frame), 5);
        memcpy(frame + 12, rows[i].bytes, sizeof(rows[i].bytes));
        pair_recv(&h, 8, 4096, (uint32_t)left);
        CHECK(roce_input_ethernet(h.r, 0, h.qpn, frame, rows[i].len,
                                  rows[i].strip));
        got = &h.host->completions[0];
        CHECK_EQ(got->byte_count, left);
        CHECK_EQ(!(got->flags & FAKERNIC_CQE_VLAN), !rows[i].stripped);
        CHECK_EQ(got->vlan, rows[i].tci);
        CHECK_MEM(h.memory + 4096, frame, 12);
        CHECK_MEM(h.memory + 4108, frame + 12 + tag, left - 12);
        raw_free(&h);
    }
}

static const Test tests[] = {
    TEST(raw_frames_are_sent_unchanged),
    TEST(raw_frames_are_received_unchanged),
    TEST(long_frames_are_dropped_without_error),
    TEST(invalid_raw_frames_cause_sqe),
    TEST(only_raw_qps_take_frames),
    TEST(vlan_tags_are_inserted),
    TEST(vlan_tag_counts_for_mtu),
    TEST(vlan_tags_are_stripped),
    TEST(frames_for_others_reach_the_port),
};

TEST_MAIN(tests)
