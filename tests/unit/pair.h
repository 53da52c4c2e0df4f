/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two engines on a wire, for tests of the transport. Each host has a MiB of
 * memory under one key. The PSNs of the connected QP pair are about to wrap. In
 * XRC, a is the initiator and b the target. A test can lose frames by their
 * number, inspect them, or make its own.
 */
#ifndef PAIR_H
#define PAIR_H

#include "engine.h"
#include "fake_host.h"
#include "harness.h"
#include "opcode.h"
#include "wire.h"

#define PAIR_MEMORY 0x40000000u
#define PAIR_SIZE 0x100000u
#define PAIR_PSN 0xfffffeu
#define PAIR_MTU 256u
#define PAIR_FRAMES 4096
#define PAIR_SRQN 5u
#define PAIR_XRCDN 3u

typedef struct PairHost {
    FakeHost *host;
    Roce *r;
    uint32_t qpn;
    uint32_t key;               /* all of the memory, all rights */
    uint32_t srqn;              /* XRC: the SRQ that gets receives; else 0 */
    uint8_t *memory;
    RoceGid gid;
    unsigned sent;              /* frames sent so far */
    unsigned lose[8];           /* numbers of frames to lose, from 1 */
    unsigned lose_count;
    bool mute;                  /* all its frames are lost */
} PairHost;

typedef struct Pair {
    PairHost a, b;
    RoceTime now;
    uint8_t type;
} Pair;

#ifndef PAIR_QPS
#define PAIR_QPS 16             /* per host; a test may define more */
#endif

#ifndef PAIR_ODP_CHUNKS
#define PAIR_ODP_CHUNKS 2
#endif

/* The limits of new pairs. A test that changes them must restore them. */
static RoceLimits pair_limits = {
    .max_qp = PAIR_QPS,
    .max_mr = 64,
    .max_pd = 8,
    .max_mcast_groups = 4,
    .max_odp_chunks = PAIR_ODP_CHUNKS,
    .gid_count = 4,
    .max_sends = 16,
    .max_rd_atomic = 4,
};

static inline void pair_host_init(PairHost *h, uint8_t last)
{
    RoceMrInit mr = {
        .type = FAKERNIC_MR_MEMORY,
        .tag = 7,
        .page_shift = 20,
        .pd = 1,
        .access = FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE |
                  FAKERNIC_ACCESS_REMOTE_READ |
                  FAKERNIC_ACCESS_REMOTE_ATOMIC | FAKERNIC_ACCESS_MW_BIND |
                  FAKERNIC_ACCESS_FLUSH_GLOBAL |
                  FAKERNIC_ACCESS_FLUSH_PERSISTENT,
        .page_count = 1,
        .iova = PAIR_MEMORY,
        .length = PAIR_SIZE,
        .pages = malloc(sizeof(uint64_t)),
    };

    memset(h, 0, sizeof(*h));
    h->host = fake_host_new();
    h->r = roce_new(&pair_limits, &fake_host_ops, h->host);
    h->memory = fake_memory_add(h->host, PAIR_MEMORY, PAIR_SIZE);
    mr.pages[0] = PAIR_MEMORY;
    CHECK_EQ(roce_mr_create(h->r, &mr, &h->key), FAKERNIC_CMD_OK);
    h->gid = (RoceGid) {
        .type = FAKERNIC_GID_IPV4,
        .vlan = FAKERNIC_VLAN_NONE,
        .mac = { 2, 0, 0, 0, 0, last },
        .gid = { [10] = 0xff, 0xff, 10, 0, 0, last },
    };
    CHECK_EQ(roce_gid_set(h->r, 0, &h->gid), FAKERNIC_CMD_OK);
}

static inline RoceAv pair_av(const PairHost *to)
{
    RoceAv av = { .sgid_index = 0 };

    memcpy(av.dgid, to->gid.gid, 16);
    memcpy(av.dmac, to->gid.mac, 6);
    return av;
}

#define PAIR_INIT_MASK (FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT |  \
                        FAKERNIC_QP_ATTR_PKEY_INDEX |                     \
                        FAKERNIC_QP_ATTR_ACCESS_FLAGS)
#define PAIR_UC_RTR_MASK (FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_AV |   \
                          FAKERNIC_QP_ATTR_PATH_MTU |                      \
                          FAKERNIC_QP_ATTR_DEST_QPN |                      \
                          FAKERNIC_QP_ATTR_RQ_PSN)
#define PAIR_RTR_MASK (PAIR_UC_RTR_MASK |                         \
                       FAKERNIC_QP_ATTR_MAX_DEST_RD_ATOMIC |      \
                       FAKERNIC_QP_ATTR_MIN_RNR_TIMER)
#define PAIR_UC_RTS_MASK (FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQ_PSN)
#define PAIR_RTS_MASK (PAIR_UC_RTS_MASK | FAKERNIC_QP_ATTR_TIMEOUT |      \
                       FAKERNIC_QP_ATTR_RETRY_CNT |                       \
                       FAKERNIC_QP_ATTR_RNR_RETRY |                       \
                       FAKERNIC_QP_ATTR_MAX_RD_ATOMIC)

static inline int pair_modify(PairHost *h, RoceTime now, uint32_t mask,
                              const RoceQpAttr *attr)
{
    uint32_t bad;

    return roce_qp_modify(h->r, now, h->qpn, mask, attr, &bad);
}

static inline RoceQpAttr pair_attr(const PairHost *peer)
{
    return (RoceQpAttr) {
        .port = 1,
        .access_flags = FAKERNIC_ACCESS_REMOTE_WRITE |
                        FAKERNIC_ACCESS_REMOTE_READ |
                        FAKERNIC_ACCESS_REMOTE_ATOMIC |
                        FAKERNIC_ACCESS_FLUSH_GLOBAL |
                        FAKERNIC_ACCESS_FLUSH_PERSISTENT,
        .av = pair_av(peer),
        .path_mtu = FAKERNIC_MTU_256,
        .dest_qpn = peer->qpn,
        .rq_psn = PAIR_PSN,
        .sq_psn = PAIR_PSN,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,    /* 0.64 ms */
        .timeout = 14,
        .retry_cnt = 3,
        .rnr_retry = 3,
    };
}

static inline void pair_connect(PairHost *h, PairHost *peer, uint8_t type)
{
    RoceQpAttr attr = pair_attr(peer);
    uint32_t rtr = type == FAKERNIC_QP_UC || type == FAKERNIC_QP_XRC_INI
                       ? PAIR_UC_RTR_MASK : PAIR_RTR_MASK;
    uint32_t rts = type == FAKERNIC_QP_UC ? PAIR_UC_RTS_MASK
                   : type == FAKERNIC_QP_XRC_TGT ? FAKERNIC_QP_ATTR_STATE
                                                 : PAIR_RTS_MASK;

    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(h, 0, PAIR_INIT_MASK, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, rtr, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(h, 0, rts, &attr), FAKERNIC_CMD_OK);
}

static inline void pair_create(PairHost *h, uint8_t type)
{
    RoceQpInit init = {
        .type = type,
        .has_sq = type != FAKERNIC_QP_XRC_TGT,
        .has_rq = type != FAKERNIC_QP_XRC_TGT && type != FAKERNIC_QP_XRC_INI,
        .pd = 1,
        .send_cqn = 10,
        .recv_cqn = 11,
    };

    if (type == FAKERNIC_QP_XRC_TGT) {
        init.pd = init.send_cqn = init.recv_cqn = 0;
        init.xrcdn = PAIR_XRCDN;
    }
    CHECK_EQ(roce_qp_create(h->r, &init, &h->qpn), FAKERNIC_CMD_OK);
}

/* A connected pair of RC or UC QPs in RTS; for XRC_INI the target is b. */
static inline void pair_init(Pair *p, uint8_t type)
{
    bool xrc = type == FAKERNIC_QP_XRC_INI;
    uint8_t type_b = xrc ? FAKERNIC_QP_XRC_TGT : type;

    memset(p, 0, sizeof(*p));
    p->type = type;
    pair_host_init(&p->a, 1);
    pair_host_init(&p->b, 2);
    pair_create(&p->a, type);
    pair_create(&p->b, type_b);
    pair_connect(&p->a, &p->b, type);
    pair_connect(&p->b, &p->a, type_b);
    if (xrc) {
        fake_srq_xrc(p->b.host, PAIR_SRQN, PAIR_XRCDN, 1, 11);
        p->a.srqn = p->b.srqn = PAIR_SRQN;
    }
}

static inline void pair_free(Pair *p)
{
    roce_free(p->a.r);
    roce_free(p->b.r);
    fake_host_free(p->a.host);
    fake_host_free(p->b.host);
}

static inline Pair pair_new(uint8_t type)
{
    Pair p;

    pair_init(&p, type);
    return p;
}

/* Declares a pair, which is freed at the end of the block. */
#define PAIR(name, type) \
    __attribute__((cleanup(pair_free))) Pair name = pair_new(type)

static inline bool pair_lost(const PairHost *h)
{
    unsigned i;

    for (i = 0; i < h->lose_count; i++) {
        if (h->lose[i] == h->sent) {
            return true;
        }
    }
    return h->mute;
}

/* Loses the n-th frame that a host sends from now on (the first is 1). */
static inline void pair_lose(PairHost *h, unsigned n)
{
    h->lose[h->lose_count++] = h->sent + n;
}

/* Moves one frame from one host to the other. False: there is none. */
static inline bool pair_step(Pair *p, PairHost *from, PairHost *to)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback = true;
    size_t len = roce_output(from->r, p->now, buf, &loopback);

    if (len == 0) {
        return false;
    }
    CHECK(!loopback);
    from->sent++;
    if (!pair_lost(from)) {
        CHECK_EQ(roce_input(to->r, p->now, buf, len), ROCE_INPUT_TAKEN);
    }
    return true;
}

/* Moves frames until both are silent. */
static inline void pair_run(Pair *p)
{
    unsigned frames = 0;
    bool a, b;

    do {
        a = pair_step(p, &p->a, &p->b);
        b = pair_step(p, &p->b, &p->a);
        REQUIRE(++frames < PAIR_FRAMES);
    } while (a || b);
}

/* Moves frames and time until no deadline is left, or 'until'. */
static inline void pair_run_until(Pair *p, RoceTime until)
{
    for (;;) {
        RoceTime a, b, next;

        pair_run(p);
        a = roce_deadline(p->a.r);
        b = roce_deadline(p->b.r);
        next = a < b ? a : b;
        if (next > until) {
            return;
        }
        p->now = next > p->now ? next : p->now;
        roce_tick(p->a.r, p->now);
        roce_tick(p->b.r, p->now);
    }
}

static inline RoceSge pair_sge(const PairHost *h, uint32_t offset,
                               uint32_t length)
{
    return (RoceSge) {
        .address = PAIR_MEMORY + offset, .length = length, .lkey = h->key,
    };
}

static inline void pair_send(Pair *p, PairHost *h, const RoceSendWr *wr)
{
    fake_post_send(h->host, h->qpn, wr);
    roce_post_send(h->r, p->now, h->qpn);
}

static inline RoceSendWr pair_wr(const PairHost *h, uint32_t index,
                                 uint8_t opcode, uint32_t offset,
                                 uint32_t length)
{
    return (RoceSendWr) {
        .index = index,
        .opcode = opcode,
        .flags = FAKERNIC_SQ_SIGNALED,
        .sge_count = 1,
        .sge = { pair_sge(h, offset, length) },
        .xrc_srqn = h->srqn,
    };
}

/* A WRITE or READ between the same offsets of both hosts' memory. */
static inline RoceSendWr pair_rdma_wr(const PairHost *h, const PairHost *peer,
                                      uint32_t index, uint8_t opcode,
                                      uint32_t offset, uint32_t length)
{
    RoceSendWr wr = pair_wr(h, index, opcode, offset, length);

    wr.rdma.remote_address = PAIR_MEMORY + offset;
    wr.rdma.rkey = peer->key;
    return wr;
}

/* Posts pair_wr() to host a. */
static inline void pair_post(Pair *p, uint32_t index, uint8_t opcode,
                             uint32_t offset, uint32_t length)
{
    RoceSendWr wr = pair_wr(&p->a, index, opcode, offset, length);

    pair_send(p, &p->a, &wr);
}

/* Posts pair_rdma_wr() to host a, for the memory of b. */
static inline void pair_post_rdma(Pair *p, uint32_t index, uint8_t opcode,
                                  uint32_t offset, uint32_t length)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, index, opcode, offset, length);

    pair_send(p, &p->a, &wr);
}

static inline void pair_post_recv(PairHost *h, const RoceRecvWr *wr)
{
    if (h->srqn) {
        fake_post_srq(h->host, h->srqn, wr);
    } else {
        fake_post_recv(h->host, h->qpn, wr);
    }
}

static inline void pair_recv(PairHost *h, uint32_t tag, uint32_t offset,
                             uint32_t length)
{
    RoceRecvWr wr = {
        .tag = tag, .sge_count = 1, .sge = { pair_sge(h, offset, length) },
    };

    pair_post_recv(h, &wr);
}

/* The host's next completion is this one. */
static inline void pair_expect(PairHost *h, uint8_t opcode, uint32_t index,
                               uint8_t status)
{
    const RoceCompletion *c = fake_next_completion(h->host);

    REQUIRE(c != NULL);
    CHECK_EQ(c->opcode, opcode);
    CHECK_EQ(c->wqe_index, index);
    CHECK_EQ(c->status, status);
}

static inline void pair_expect_none(PairHost *h)
{
    CHECK(fake_next_completion(h->host) == NULL);
}

static inline void pair_expect_event(PairHost *h, uint8_t type)
{
    const FakeEvent *e = fake_next_event(h->host);

    REQUIRE(e != NULL);
    CHECK_EQ(e->type, type);
    CHECK_EQ(e->id, h->qpn);
}

static inline void pair_fill(uint8_t *at, size_t len, uint8_t seed)
{
    size_t i;

    for (i = 0; i < len; i++) {
        at[i] = (uint8_t)(seed + i * 7 + (i >> 8));
    }
}

/* The QP itself, for state that no call of the engine shows. */
static inline RoceQp *pair_qp(const PairHost *h)
{
    return roce_qp_find(h->r, h->qpn);
}

static inline uint8_t pair_state(const PairHost *h)
{
    RoceQpAttr attr;

    CHECK_EQ(roce_qp_query(h->r, h->qpn, &attr), FAKERNIC_CMD_OK);
    return attr.state;
}

static inline uint64_t pair_stat(const PairHost *h, enum fakernic_stat stat)
{
    return roce_stats(h->r)[stat];
}

/* A packet from host 'from' to its peer's QP. The opcode is that of RC. */
static inline RocePacket pair_packet(const PairHost *from, const PairHost *to,
                                     uint8_t opcode, uint32_t psn)
{
    RocePacket packet = {
        .network_type = FAKERNIC_GID_IPV4,
        .hop_limit = 64,
        .udp_sport = 0xc000,
        .opcode = opcode,
        .mig_req = true,
        .ack_req = true,
        .pkey = 0xffff,
        .dest_qpn = to->qpn,
        .psn = psn & 0xffffff,
    };

    memcpy(packet.sgid, from->gid.gid, 16);
    memcpy(packet.dgid, to->gid.gid, 16);
    memcpy(packet.smac, from->gid.mac, 6);
    memcpy(packet.dmac, to->gid.mac, 6);
    if (to->srqn) {
        packet.opcode |= ROCE_BTH_XRC;
        packet.xrceth.srqn = to->srqn;
    }
    return packet;
}

/* A packet's opcode as it would be on RC. */
static inline uint8_t pair_opcode(const RocePacket *packet)
{
    return packet->opcode & ~ROCE_BTH_XRC;
}

static inline void pair_inject(Pair *p, PairHost *to, RocePacket *packet,
                               const void *payload, size_t len)
{
    uint8_t buf[ROCE_FRAME_MAX];
    size_t at;

    packet->payload_len = len;
    at = roce_wire_encode(buf, packet);
    if (len > 0) {
        memcpy(buf + at, payload, len);
    }
    len = roce_wire_finish(buf, at, len);
    CHECK_EQ(roce_input(to->r, p->now, buf, len), ROCE_INPUT_TAKEN);
}

/* Takes the host's next frame from the wire. False: there is none. */
static inline bool pair_take(Pair *p, PairHost *from, uint8_t *buf,
                             RocePacket *packet)
{
    enum fakernic_stat drop;
    bool loopback;
    size_t len = roce_output(from->r, p->now, buf, &loopback);

    if (len == 0) {
        return false;
    }
    from->sent++;
    CHECK_EQ(roce_wire_decode(buf, len, packet, &drop), ROCE_DECODE_OK);
    return true;
}

#endif
