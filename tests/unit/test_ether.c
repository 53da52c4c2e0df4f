/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP and UDP in Ethernet frames. A sum over bytes checks the checksums. The
 * parts of a long segment are compared with the whole. Both are tested with
 * malicious frames.
 */
#include "pair.h"

#include "ether.h"

#define FILL (FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM)
#define GOOD4 (FAKERNIC_CQE_IP_CSUM_OK | FAKERNIC_CQE_L4_CSUM_OK)
#define GOOD6 FAKERNIC_CQE_L4_CSUM_OK

/* The shape of a test frame. */
typedef struct Shape {
    const char *name;
    unsigned tags;              /* VLAN */
    bool v6;
    unsigned options;           /* bytes: IPv4's, or of IPv6's extensions */
    bool udp;
    size_t data;
} Shape;

static const Shape shapes[] = {
    { "IPv4, TCP", 0, false, 0, false, 100 },
    { "IPv4, UDP", 0, false, 0, true, 101 },
    { "IPv4, options, TCP", 0, false, 40, false, 7 },
    { "tag, IPv4, TCP", 1, false, 0, false, 1460 },
    { "two tags, IPv4, UDP", 2, false, 4, true, 0 },
    { "IPv6, TCP", 0, true, 0, false, 33 },
    { "IPv6, UDP", 0, true, 0, true, 1 },
    { "IPv6, extensions, TCP", 0, true, 8, false, 64 },
    { "tag, IPv6, extensions, UDP", 1, true, 64, true, 64 },
};

/* A frame, and the offsets of its parts. */
typedef struct Made {
    uint8_t bytes[70000];
    size_t len, ip, l4, data;
} Made;

static void put16(uint8_t *p, size_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | p[2] << 8 | p[3];
}

static unsigned get16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

static void make_ip(Made *m, const Shape *s)
{
    uint8_t *ip = m->bytes + m->ip;
    const uint8_t protocol = s->udp ? 17 : 6;
    unsigned i;

    if (!s->v6) {
        ip[0] = (uint8_t)(0x40 | (20 + s->options) / 4);
        put16(ip + 2, m->len - m->ip);
        put16(ip + 4, 0xfffe);
        ip[8] = 64;
        ip[9] = protocol;
        put16(ip + 10, 0xdead);
        pair_fill(ip + 12, 8, 10);
        return;
    }
    ip[0] = 0x60;
    put16(ip + 4, m->len - m->ip - 40);
    ip[6] = s->options ? 0 : protocol;
    pair_fill(ip + 8, 32, 20);
    /* Each of eight bytes: hop-by-hop, routing, destination options. */
    for (i = 0; i < s->options; i += 8) {
        uint8_t *extension = ip + 40 + i;

        extension[0] = i + 8 == s->options ? protocol : i ? 60 : 43;
        extension[1] = 0;
        extension[3] = 0;
    }
}

static void make(Made *m, const Shape *s)
{
    unsigned i;

    memset(m, 0, sizeof(*m));
    m->ip = 14 + s->tags * 4;
    m->l4 = m->ip + (s->v6 ? 40 : 20) + s->options;
    m->data = m->l4 + (s->udp ? 8 : 32);
    m->len = m->data + s->data;
    memset(m->bytes, 2, 12);
    for (i = 0; i < s->tags; i++) {
        put16(m->bytes + 12 + i * 4, i + 1 < s->tags ? 0x88a8 : 0x8100);
        put16(m->bytes + 14 + i * 4, 5 + i);
    }
    put16(m->bytes + m->ip - 2, s->v6 ? 0x86dd : 0x0800);
    make_ip(m, s);
    pair_fill(m->bytes + m->l4, m->len - m->l4, 77);
    if (s->udp) {
        put16(m->bytes + m->l4 + 4, m->len - m->l4);
    } else {
        m->bytes[m->l4 + 12] = 8 << 4;      /* 12 bytes of options */
        m->bytes[m->l4 + 13] = 0x99;        /* CWR ACK PSH FIN */
        put16(m->bytes + m->l4 + 4, 0xffff);    /* soon to wrap */
        put16(m->bytes + m->l4 + 6, 0xff00);
    }
}

static uint32_t add(uint32_t sum, const uint8_t *p, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        sum += (uint32_t)p[i] << (i % 2 ? 0 : 8);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* The sum over pseudo header, header and data must be all ones. */
static bool l4_good(const Made *m, const Shape *s)
{
    const uint8_t *ip = m->bytes + m->ip;
    uint32_t sum = (uint32_t)(m->len - m->l4) + (s->udp ? 17 : 6);

    sum = s->v6 ? add(sum, ip + 8, 32) : add(sum, ip + 12, 8);
    return add(sum, m->bytes + m->l4, m->len - m->l4) == 0xffff;
}

static bool ip_good(const Made *m, const Shape *s)
{
    return s->v6 || add(0, m->bytes + m->ip, 20 + s->options) == 0xffff;
}

static Made made, before;

static void checksums_are_filled_in(void)
{
    bool wrong;
    size_t i;

    for (i = 0; i < TEST_COUNT(shapes); i++) {
        const Shape *s = &shapes[i];
        const uint8_t good = s->v6 ? GOOD6 : GOOD4;

        make(&made, s);
        CHECK(!l4_good(&made, s));
        CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong), 0);
        CHECK(wrong);
        /* Bytes behind the packet are padding, and do not count. */
        memset(made.bytes + made.len, 0xee, 9);
        roce_ether_fill(made.bytes, made.len + 9, FILL);
        test_check(l4_good(&made, s) && ip_good(&made, s), __FILE__, __LINE__,
                   s->name);
        CHECK_EQ(roce_ether_check(made.bytes, made.len + 9, &wrong), good);
        CHECK(!wrong);
        /* One bit of the last byte is wrong. */
        made.bytes[made.len - 1] ^= 4;
        CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong),
                 good & ~FAKERNIC_CQE_L4_CSUM_OK);
        CHECK(wrong);
    }
}

static void checksums_are_filled_in_only_on_request(void)
{
    bool wrong;

    make(&made, &shapes[0]);
    before = made;
    roce_ether_fill(made.bytes, made.len, 0);
    CHECK_MEM(made.bytes, before.bytes, made.len);
    roce_ether_fill(made.bytes, made.len, FAKERNIC_SQ_IP_CSUM);
    CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong),
             FAKERNIC_CQE_IP_CSUM_OK);
    CHECK(wrong);
    make(&made, &shapes[0]);
    roce_ether_fill(made.bytes, made.len, FAKERNIC_SQ_L4_CSUM);
    CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong),
             FAKERNIC_CQE_L4_CSUM_OK);
    CHECK(wrong);
}

/* A UDP checksum of 0 is sent as all ones (RFC 768). */
static void udp_checksum_zero_is_sent_as_ones(void)
{
    const Shape s = { "UDP", 0, false, 0, true, 2 };
    unsigned i;
    bool wrong, seen = false;

    for (i = 0; i < 0x10000 && !seen; i++) {
        make(&made, &s);
        put16(made.bytes + made.data, i);
        roce_ether_fill(made.bytes, made.len, FILL);
        REQUIRE(get16(made.bytes + made.l4 + 6) != 0);
        seen = get16(made.bytes + made.l4 + 6) == 0xffff;
    }
    CHECK(seen);
    CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong), GOOD4);
    /* A checksum of 0 is neither right nor wrong in IPv4, and wrong in IPv6. */
    put16(made.bytes + made.l4 + 6, 0);
    CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong),
             FAKERNIC_CQE_IP_CSUM_OK);
    CHECK(!wrong);
    make(&made, &shapes[6]);
    put16(made.bytes + made.l4 + 6, 0);
    CHECK_EQ(roce_ether_check(made.bytes, made.len, &wrong), 0);
    CHECK(wrong);
}

/* Changes to a frame after which no TCP or UDP checksum can be computed. */
static void frames_without_checksum_stay_unchanged(void)
{
    static const struct {
        const char *name;
        unsigned shape;
        size_t at;              /* from the IP header on */
        uint8_t value;
    } spoilt[] = {
        { "another version", 0, 0, 0x65 }, { "a short header", 0, 0, 0x44 },
        { "a long header", 1, 0, 0x4f }, { "more fragments", 0, 6, 0x20 },
        { "a later fragment", 0, 7, 1 }, { "another protocol", 0, 9, 1 },
        { "too long", 0, 2, 1 }, { "a datagram too long", 1, 24, 1 },
        { "too long", 5, 4, 2 }, { "a fragment", 5, 6, 44 },
        { "encrypted", 5, 6, 51 }, { "segments left", 8, 51, 1 },
        { "a long extension", 7, 41, 255 }, { "no next header", 7, 40, 59 },
    };
    bool wrong;
    size_t i;

    for (i = 0; i < TEST_COUNT(spoilt); i++) {
        make(&made, &shapes[spoilt[i].shape]);
        if (spoilt[i].shape == 1) {
            made.len = made.ip + 40;    /* no room for the header */
            put16(made.bytes + made.ip + 2, 40);
        }
        made.bytes[made.ip + spoilt[i].at] = spoilt[i].value;
        before = made;
        roce_ether_fill(made.bytes, made.len, FAKERNIC_SQ_L4_CSUM);
        test_check(!memcmp(made.bytes, before.bytes, made.len), __FILE__,
                   __LINE__, spoilt[i].name);
        CHECK(!(roce_ether_check(made.bytes, made.len, &wrong) &
                FAKERNIC_CQE_L4_CSUM_OK));
    }
}

/* Every frame is cut at every length, in memory that ends there. */
static void frame_is_not_read_past_its_end(void)
{
    const RoceEtherPart part = { .headers = 54, .number = 1, .offset = 1 };
    bool wrong;
    size_t i, len;

    for (i = 0; i < TEST_COUNT(shapes); i++) {
        make(&made, &shapes[i]);
        for (len = 0; len < made.len; len++) {
            uint8_t *cut = malloc(len ? len : 1);

            memcpy(cut, made.bytes, len);
            roce_ether_fill(cut, len, FILL);
            roce_ether_check(cut, len, &wrong);
            CHECK(roce_ether_tcp_headers(cut, len) <= len);
            if (len >= 14) {
                roce_ether_cut(cut, len, &part);
            }
            free(cut);
        }
    }
}

static void random_frames_are_handled_safely(void)
{
    uint32_t seed = 4711;
    unsigned round, i;
    bool wrong;

    for (round = 0; round < 20000; round++) {
        size_t len;

        make(&made, &shapes[round % TEST_COUNT(shapes)]);
        len = made.len;
        for (i = 0; i < 3; i++) {
            seed = seed * 1664525 + 1013904223;
            made.bytes[12 + (seed >> 8) % (made.data - 12)] =
                (uint8_t)(seed >> 24);
        }
        before = made;
        roce_ether_fill(made.bytes, len, FILL);
        roce_ether_check(made.bytes, len, &wrong);
        CHECK(roce_ether_tcp_headers(made.bytes, len) <= len);
        roce_ether_cut(made.bytes, len,
                       &(RoceEtherPart) { .number = 1, .offset = 9 });
        CHECK_MEM(made.bytes, before.bytes, 12);
    }
}

/* ---- long segments ------------------------------------------------------- */

static void raw_up(PairHost *h)
{
    RoceQpAttr attr = { .port = 1, .state = FAKERNIC_QPS_INIT };

    pair_host_init(h, 1);
    pair_create(h, FAKERNIC_QP_RAW_PACKET);
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT,
                         &attr), FAKERNIC_CMD_OK);
    for (attr.state = FAKERNIC_QPS_RTR; attr.state <= FAKERNIC_QPS_RTS;
         attr.state++) {
        CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    }
}

static void raw_down(PairHost *h)
{
    roce_free(h->r);
    fake_host_free(h->host);
}

static void post_long(PairHost *h, uint32_t index, size_t length, uint16_t mss)
{
    RoceSendWr wr = pair_wr(h, index, FAKERNIC_SQ_SEND, 0, (uint32_t)length);

    wr.mss = mss;
    fake_post_send(h->host, h->qpn, &wr);
    roce_post_send(h->r, 0, h->qpn);
}

static Made part;

/* The next frame carries 'data' bytes of the segment at 'offset'. */
static void expect_part(PairHost *h, const Shape *s, size_t offset, size_t data)
{
    const bool first = offset == 0, last = offset + data == s->data;
    bool loopback;
    const uint8_t *ip = part.bytes + made.ip, *tcp = part.bytes + made.l4;

    part = (Made) { .ip = made.ip, .l4 = made.l4, .data = made.data };
    part.len = roce_output(h->r, 0, part.bytes, &loopback);
    REQUIRE(part.len == made.data + data);
    CHECK_MEM(part.bytes, made.bytes, made.ip);
    CHECK_MEM(part.bytes + part.data, made.bytes + made.data + offset, data);
    CHECK(l4_good(&part, s) && ip_good(&part, s));
    CHECK_EQ(get32(tcp + 4), 0xffffff00u + (uint32_t)offset);
    CHECK_EQ(tcp[13], 0x10 | (first ? 0x80 : 0) | (last ? 0x09 : 0));
    if (s->v6) {
        CHECK_EQ(get16(ip + 4), part.len - made.ip - 40);
    } else {
        CHECK_EQ(get16(ip + 2), part.len - made.ip);
        CHECK_EQ(get16(ip + 4), (0xfffe + offset / 1000) & 0xffff);
    }
}

static void long_segments_are_split(void)
{
    static const Shape whole[] = {
        { "IPv4", 0, false, 0, false, 65000 },
        { "tag, IPv4 with options", 1, false, 40, false, 10001 },
        { "IPv6", 0, true, 0, false, 1000 },
        { "IPv6 with extensions", 0, true, 24, false, 2500 },
        { "no data", 0, false, 0, false, 0 },
        { "less than a part", 0, true, 0, false, 999 },
    };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;
    size_t i, at;

    for (i = 0; i < TEST_COUNT(whole); i++) {
        raw_up(&h);
        roce_set_port_mtu(h.r, 1500);
        make(&made, &whole[i]);
        memcpy(h.memory, made.bytes, made.len);
        post_long(&h, 3, made.len, 1000);
        for (at = 0; at == 0 || at < whole[i].data; at += 1000) {
            size_t left = whole[i].data - at;

            pair_expect_none(&h);
            expect_part(&h, &whole[i], at, left < 1000 ? left : 1000);
        }
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
        pair_expect(&h, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_SUCCESS);
        raw_down(&h);
    }
}

static void modify_raw(PairHost *h, uint8_t state)
{
    const RoceQpAttr attr = { .state = state, .sqd_async_notify = 1 };
    const uint32_t notify = state == FAKERNIC_QPS_SQD ?
                            FAKERNIC_QP_ATTR_SQD_ASYNC_NOTIFY : 0;

    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE | notify, &attr), 0);
}

static bool is_draining(const PairHost *h)
{
    RoceQpAttr attr;

    CHECK_EQ(roce_qp_query(h->r, h->qpn, &attr), FAKERNIC_CMD_OK);
    return attr.sq_draining;
}

/* A draining queue finishes the segment that it has begun, and starts no
 * other. */
static void draining_finishes_the_current_segment(void)
{
    const Shape s = { "IPv4", 0, false, 0, false, 2500 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;

    raw_up(&h);
    roce_set_port_mtu(h.r, 1500);
    make(&made, &s);
    memcpy(h.memory, made.bytes, made.len);
    post_long(&h, 3, made.len, 1000);
    post_long(&h, 4, made.len, 1000);
    expect_part(&h, &s, 0, 1000);
    modify_raw(&h, FAKERNIC_QPS_SQD);
    CHECK(is_draining(&h));
    expect_part(&h, &s, 1000, 1000);
    expect_part(&h, &s, 2000, 500);
    CHECK(is_draining(&h));
    CHECK(fake_next_event(h.host) == NULL);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_SUCCESS);
    pair_expect_event(&h, FAKERNIC_EVENT_SQ_DRAINED);
    CHECK(!is_draining(&h));
    modify_raw(&h, FAKERNIC_QPS_RTS);
    expect_part(&h, &s, 0, 1000);
    raw_down(&h);
}

/* Each part gets the VLAN tag of the segment. */
static void each_part_has_the_vlan_tag(void)
{
    static const uint8_t tag[4] = { 0x81, 0x00, 0x20, 0x2a };
    const Shape s = { "IPv4", 0, false, 0, false, 2500 };
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    bool loopback;
    PairHost h;
    size_t at;

    raw_up(&h);
    roce_set_port_mtu(h.r, 1500);
    make(&made, &s);
    memcpy(h.memory, made.bytes, made.len);
    wr = pair_wr(&h, 3, FAKERNIC_SQ_SEND, 0, (uint32_t)made.len);
    wr.mss = 1000;
    wr.flags |= FAKERNIC_SQ_VLAN;
    wr.imm_or_key = 0x202a;
    fake_post_send(h.host, h.qpn, &wr);
    roce_post_send(h.r, 0, h.qpn);
    for (at = 0; at < s.data; at += 1000) {
        const size_t data = s.data - at < 1000 ? s.data - at : 1000;
        const size_t len = roce_output(h.r, 0, buf, &loopback);

        CHECK_EQ(len, 4 + made.data + data);
        CHECK_MEM(buf + 12, tag, sizeof(tag));
        CHECK_MEM(buf + 4 + made.data, made.bytes + made.data + at, data);
        memmove(buf + 4, buf, 12);
        part = (Made) { .ip = made.ip, .l4 = made.l4, .data = made.data,
                        .len = len - 4 };
        memcpy(part.bytes, buf + 4, part.len);
        CHECK(l4_good(&part, &s) && ip_good(&part, &s));
    }
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_SUCCESS);
    raw_down(&h);
}

/* Each call sends one frame, however long the segment is. */
static void each_call_sends_one_part(void)
{
    const Shape s = { "IPv4", 0, false, 0, false, 60000 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    uint64_t work;
    PairHost h;
    unsigned i;

    raw_up(&h);
    make(&made, &s);
    memcpy(h.memory, made.bytes, made.len);
    post_long(&h, 1, made.len, 1);
    for (i = 0; i < 100; i++) {
        work = roce_work(h.r);
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), made.data + 1);
        CHECK(roce_work(h.r) > work);
    }
    pair_expect_none(&h);
    /* A segment that is cancelled half way is flushed. */
    CHECK_EQ(pair_modify(&h, 0, FAKERNIC_QP_ATTR_STATE,
                         &(RoceQpAttr) { .state = FAKERNIC_QPS_ERR }), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    raw_down(&h);
}

/* A frame that cannot be cut is dropped, and its send completes. */
static void invalid_segment_is_dropped_and_completes(void)
{
    static const struct {
        unsigned shape;
        size_t at, len;         /* from the IP header on; 0: all of it */
        uint8_t value;
        uint16_t mss;
    } lost[] = {
        { 1, 0, 0, 0x45, 100 },         /* a datagram */
        { 0, 9, 0, 1, 100 },            /* another protocol */
        { 0, 6, 0, 0x20, 100 },         /* a fragment */
        { 0, 0, 50, 0x4f, 100 },        /* options that are not all there */
        { 0, 32, 0, 0x40, 100 },        /* TCP's is too short */
        { 0, 32, 50, 0xf0, 100 },       /* or is not all there */
        { 0, 0, 30, 0x45, 100 },        /* TCP's is cut off */
        { 3, 0, 0, 0x45, 1500 },        /* the frame fits no MTU */
        { 8, 0, 0, 0x60, 100 },
    };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;
    size_t i;

    for (i = 0; i < TEST_COUNT(lost); i++) {
        raw_up(&h);
        roce_set_port_mtu(h.r, 1400);
        make(&made, &shapes[lost[i].shape]);
        made.bytes[made.ip + lost[i].at] = lost[i].value;
        memcpy(h.memory, made.bytes, made.len);
        post_long(&h, 1, lost[i].len ? made.ip + lost[i].len : made.len,
                  lost[i].mss);
        CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
        pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_TX_DROPPED], 1);
        raw_down(&h);
    }
}

static void segment_above_the_limit_is_an_error(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;

    raw_up(&h);
    post_long(&h, 1, FAKERNIC_TSO_MAX + 1, 100);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_LEN_ERR);
    raw_down(&h);
}

/* The guest changes the frame's headers between two parts. */
static void headers_may_change_between_parts(void)
{
    const Shape s = { "IPv4", 0, false, 0, false, 5000 };
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    PairHost h;

    raw_up(&h);
    make(&made, &s);
    memcpy(h.memory, made.bytes, made.len);
    post_long(&h, 1, made.len, 1000);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), made.data + 1000);
    h.memory[made.l4 + 12] = 15 << 4;   /* 60 bytes of headers, not 32 */
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), made.data + 28 + 1000);
    h.memory[made.ip + 9] = 17;
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_TX_DROPPED], 1);
    raw_down(&h);
}

/* ---- raw-packet QPs and checksums ---------------------------------------- */

static void send_flags_request_checksums(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceSendWr wr;
    bool loopback, wrong;
    PairHost h;

    raw_up(&h);
    make(&made, &shapes[0]);
    memcpy(h.memory, made.bytes, made.len);
    wr = pair_wr(&h, 1, FAKERNIC_SQ_SEND, 0, (uint32_t)made.len);
    fake_post_send(h.host, h.qpn, &wr);
    wr.flags |= FILL;
    fake_post_send(h.host, h.qpn, &wr);
    roce_post_send(h.r, 0, h.qpn);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), made.len);
    CHECK_MEM(buf, made.bytes, made.len);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), made.len);
    CHECK_EQ(roce_ether_check(buf, made.len, &wrong), GOOD4);
    raw_down(&h);
}

static void completions_report_checksums(void)
{
    PairHost h;

    raw_up(&h);
    make(&made, &shapes[0]);
    roce_ether_fill(made.bytes, made.len, FILL);
    pair_recv(&h, 1, 0, 2000);
    CHECK(roce_input_ethernet(h.r, 0, h.qpn, made.bytes, made.len, false));
    CHECK_EQ(fake_next_completion(h.host)->flags, 0);
    roce_set_checks_csum(h.r, true);
    pair_recv(&h, 2, 0, 2000);
    CHECK(roce_input_ethernet(h.r, 0, h.qpn, made.bytes, made.len, false));
    CHECK_EQ(fake_next_completion(h.host)->flags, GOOD4);
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_RX_CSUM_WRONG], 0);
    made.bytes[made.data] ^= 1;
    pair_recv(&h, 3, 0, 2000);
    CHECK(roce_input_ethernet(h.r, 0, h.qpn, made.bytes, made.len, false));
    CHECK_EQ(fake_next_completion(h.host)->flags, FAKERNIC_CQE_IP_CSUM_OK);
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_RX_CSUM_WRONG], 1);
    CHECK_MEM(h.memory, made.bytes, made.len);
    raw_down(&h);
}

static const Test tests[] = {
    TEST(checksums_are_filled_in),
    TEST(checksums_are_filled_in_only_on_request),
    TEST(udp_checksum_zero_is_sent_as_ones),
    TEST(frames_without_checksum_stay_unchanged),
    TEST(frame_is_not_read_past_its_end),
    TEST(random_frames_are_handled_safely),
    TEST(long_segments_are_split),
    TEST(draining_finishes_the_current_segment),
    TEST(each_part_has_the_vlan_tag),
    TEST(each_call_sends_one_part),
    TEST(invalid_segment_is_dropped_and_completes),
    TEST(segment_above_the_limit_is_an_error),
    TEST(headers_may_change_between_parts),
    TEST(send_flags_request_checksums),
    TEST(completions_report_checksums),
};

TEST_MAIN(tests)
