/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a peer can do to the device, packet by packet: request memory that now
 * belongs to another owner, repeat packets, break rules, lose frames, be slow.
 */
#include "qemu/osdep.h"
#include "fakernic-peer.h"

static void peer_expect_ready(Peer *p, uint32_t qpn)
{
    g_assert_cmpuint(qp_state(&p->n, qpn), ==, FAKERNIC_QPS_RTS);
}

/* ---- XRC, after its owner has gone --------------------------------------- */

/* The device has few numbers, so that it soon reuses one. */
#define FEW_NUMBERS ",max-pd=16,max-mr=16,max-srq=16"
#define NUMBERS     16

#define OWN_BYTE    0xaa
#define OTHER_BYTE  0xbb
#define XRC_LENGTH  64

typedef struct Owned {
    Peer p;
    uint32_t xrcdn, tgt;
    Queue cq, srq;
    uint32_t pdn, key;
    uint64_t memory;
} Owned;

/* A key for the memory at 'address', which users address as 'iova'. */
static uint32_t owned_key(Owned *o, uint32_t pdn, uint64_t iova,
                          uint64_t address)
{
    struct fakernic_create_mr_req req = {
        .iova = LE64(iova),
        .length = LE64(FAKERNIC_PAGE_SIZE),
        .pages = contiguous(address, FAKERNIC_PAGE_SIZE),
        .pdn = LE32(pdn),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_READ),
        .type = FAKERNIC_MR_MEMORY,
        .tag = 0x11,
    };

    return cmd_create(&o->p.n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
}

static uint32_t owned_srq(Owned *o, uint32_t pdn)
{
    struct fakernic_create_srq_req req = {
        .pages = queue_alloc(&o->p.n, &o->srq, 2, 6),
        .log_depth = 2, .log_stride = 6,
        .pdn = LE32(pdn), .xrcdn = LE32(o->xrcdn), .cqn = LE32(o->cq.id),
    };

    return cmd_create(&o->p.n, FAKERNIC_CMD_CREATE_SRQ, &req, sizeof(req));
}

/* A domain with a target for the peer, and an SRQ with a PD, memory and key. */
static void owned_start(Owned *o)
{
    struct fakernic_create_qp_req qp = {
        .type = FAKERNIC_QP_XRC_TGT, .sq_log_depth = FAKERNIC_QUEUE_NONE,
        .rq_log_depth = FAKERNIC_QUEUE_NONE,
    };
    Nic *n = &o->p.n;

    peer_start(&o->p, FEW_NUMBERS, 0);
    o->xrcdn = cmd_create(n, FAKERNIC_CMD_ALLOC_XRCD, NULL, 0);
    qp.xrcdn = LE32(o->xrcdn);
    o->tgt = cmd_create(n, FAKERNIC_CMD_CREATE_QP, &qp, sizeof(qp));
    connect_qp(n, FAKERNIC_QP_XRC_TGT, o->tgt, PEER_QPN, peer_gid, peer_mac);
    cq_create(n, &o->cq, 4, &o->p.s.eq, 0, 0);
    o->pdn = pd_alloc(n);
    o->memory = mem_alloc(n->m, FAKERNIC_PAGE_SIZE);
    qtest_memset(n->m->qts, o->memory, OWN_BYTE, FAKERNIC_PAGE_SIZE);
    o->key = owned_key(o, o->pdn, o->memory, o->memory);
    o->srq.id = owned_srq(o, o->pdn);
}

static void owned_leave(Owned *o)
{
    Nic *n = &o->p.n;

    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_SRQ, o->srq.id), OK);
    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_MR, o->key), OK);
    assert_status(cmd_id(n, FAKERNIC_CMD_DEALLOC_PD, o->pdn), OK);
}

/* READs the owner's memory. Returns how many bytes of this value arrive. */
static unsigned owned_read(Owned *o, uint8_t byte)
{
    Packet packet = packet_of(PEER_XRC | PEER_READ_REQUEST, o->tgt, PEER_PSN);
    unsigned count = 0;

    packet_number(&packet, o->srq.id, 4);
    packet_reth(&packet, o->memory, o->key, XRC_LENGTH);
    peer_put(&o->p, &packet);
    peer_send(&o->p);
    while (peer_next(&o->p, &packet)) {
        /* The data follow an AETH. */
        for (unsigned i = 4; i < packet.len; i++) {
            count += packet.bytes[i] == byte;
        }
    }
    return count;
}

/* The owner leaves, and another one gets its PD and key for other memory. A
 * repeated READ of the first owner's memory must not return the new memory. */
static void test_xrc_repeated_read(void)
{
    Owned o;
    Nic *n = &o.p.n;
    uint64_t other;
    uint32_t id = 0;

    owned_start(&o);
    other = mem_alloc(n->m, FAKERNIC_PAGE_SIZE);
    qtest_memset(n->m->qts, other, OTHER_BYTE, FAKERNIC_PAGE_SIZE);
    g_assert_cmpuint(owned_read(&o, OWN_BYTE), ==, XRC_LENGTH);
    g_assert_cmpuint(owned_read(&o, OWN_BYTE), ==, XRC_LENGTH);
    owned_leave(&o);
    for (unsigned i = 0; i < NUMBERS; i++) {
        id = pd_alloc(n);
        if (id == o.pdn) {
            break;
        }
        assert_status(cmd_id(n, FAKERNIC_CMD_DEALLOC_PD, id), OK);
    }
    g_assert_cmpuint(id, ==, o.pdn);
    for (unsigned i = 0; i < NUMBERS; i++) {
        id = owned_key(&o, o.pdn, o.memory, other);
        if (id == o.key) {
            break;
        }
        assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_MR, id), OK);
    }
    g_assert_cmphex(id, ==, o.key);
    g_assert_cmpuint(owned_read(&o, OTHER_BYTE), ==, 0);
    peer_expect_ready(&o.p, o.tgt);
    peer_stop(&o.p);
}

/* A receive with room for two packets: the owner's memory, then another's. */
static void owned_post(Owned *o, uint64_t other, uint32_t key)
{
    struct {
        struct fakernic_rq_wqe wqe;
        struct fakernic_sge sge[2];
    } slot = {
        .wqe = { .sge_count = 2 },
        .sge = { { LE64(o->memory), LE32(PEER_MTU), LE32(o->key) },
                 { LE64(other), LE32(PEER_MTU), LE32(key) } },
    };

    qtest_memwrite(o->p.m.qts, queue_entry(&o->srq, 0), &slot, sizeof(slot));
    queue_record(&o->p.n, &o->srq, 1);
}

static void owned_send(Owned *o, uint8_t opcode, uint32_t psn)
{
    Packet packet = packet_of(PEER_XRC | opcode, o->tgt, psn);

    packet_number(&packet, o->srq.id, 4);
    packet_data(&packet, 0x5a, PEER_MTU);
    peer_put(&o->p, &packet);
    peer_send(&o->p);
    peer_rounds(&o->p, PEER_ROUNDS);
}

/*
 * A receive names a key that does not exist yet. Its SRQ is destroyed in the
 * middle of a message. Then another PD gets that key and an SRQ of the same
 * number: the rest of the message must not arrive in its memory.
 */
static void test_xrc_held_receive(void)
{
    const uint32_t next_key = 0x100;
    Owned o;
    Nic *n = &o.p.n;
    uint64_t other;
    uint32_t pdn, old, id = 0;

    owned_start(&o);
    other = mem_alloc(n->m, FAKERNIC_PAGE_SIZE);
    owned_post(&o, other, o.key + next_key);
    owned_send(&o, PEER_SEND_FIRST, PEER_PSN);
    g_assert_cmphex(qtest_readb(n->m->qts, o.memory), ==, 0x5a);
    old = o.srq.id;
    owned_leave(&o);
    pdn = pd_alloc(n);
    g_assert_cmphex(owned_key(&o, pdn, other, other), ==, o.key + next_key);
    for (unsigned i = 0; i < NUMBERS; i++) {
        id = owned_srq(&o, pdn);
        if (id == old) {
            break;
        }
        assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_SRQ, id), OK);
    }
    g_assert_cmpuint(id, ==, old);
    o.srq.id = id;
    owned_send(&o, PEER_SEND_LAST, PEER_PSN + 1);
    g_assert_cmphex(qtest_readb(n->m->qts, other), ==, 0);
    peer_stop(&o.p);
}

/* ---- a peer that repeats itself, or breaks rules ------------------------- */

/* A NAK and its copies report one loss. There are more copies than the QP has
 * retries, and the QP must not fail. */
static void test_duplicate_naks(void)
{
    Packet nak, ack, packet;
    struct fakernic_cqe cqe;
    Peer p;
    Qp qp;
    Wqe wqe;

    peer_start(&p, "", 0);
    peer_connect(&p, &qp, 0);
    wqe = wqe_rdma(&p.s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 3 * PEER_MTU);
    sq_put(&p.n, &qp, &wqe, sizeof(wqe));
    sq_ring(&p.n, &qp);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_true(peer_next(&p, &packet));
        g_assert_cmphex(packet.psn, ==, (PEER_PSN + i) & PEER_MASK);
    }
    nak = packet_answer(PEER_ACK, qp.qpn, PEER_PSN + 1, PEER_NAK_SEQUENCE);
    for (unsigned i = 0; i < 16; i++) {
        peer_put(&p, &nak);
    }
    peer_send(&p);
    g_assert_true(peer_next(&p, &packet));
    g_assert_cmphex(packet.psn, ==, PEER_PSN + 1);
    while (peer_next(&p, &packet)) {
    }
    peer_expect_ready(&p, qp.qpn);
    ack = packet_answer(PEER_ACK, qp.qpn, PEER_PSN + 2, PEER_ACKED);
    peer_put(&p, &ack);
    peer_send(&p);
    cq_expect(&p.n, &p.s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
              FAKERNIC_WC_SUCCESS);
    peer_stop(&p);
}

static void peer_send_only(Peer *p, const Qp *qp, uint32_t psn)
{
    Packet packet = packet_of(PEER_SEND_ONLY, qp->qpn, psn);

    packet_data(&packet, 1, 8);
    peer_put(p, &packet);
    peer_send(p);
    peer_rounds(p, PEER_ROUNDS);
}

/* A request with a PSN before or after the expected one establishes nothing. */
static void test_stale_request(void)
{
    struct fakernic_modify_qp_req req;
    struct fakernic_eqe eqe;
    Peer p;
    Qp qp;

    peer_start(&p, "", 0);
    qp_create(&p.n, &qp, FAKERNIC_QP_RC, p.s.pd, &p.s.cq, 0);
    req = connect_req(qp.qpn, PEER_QPN, peer_gid, peer_mac, PEER_PSN, PEER_PSN);
    connect_rtr(&p.n, FAKERNIC_QP_RC, &req);
    rq_post(&p.n, &qp.rq, 0, p.s.data, 64, p.s.key);
    peer_send_only(&p, &qp, PEER_PSN - 1);
    g_assert_false(eq_poll(&p.n, &p.s.async, &eqe));
    peer_send_only(&p, &qp, PEER_PSN + 1);
    g_assert_false(eq_poll(&p.n, &p.s.async, &eqe));
    peer_send_only(&p, &qp, PEER_PSN);
    g_assert_cmpuint(eq_expect(&p.n, &p.s.async,
                               FAKERNIC_EVENT_COMM_ESTABLISHED), ==, qp.qpn);
    peer_stop(&p);
}

/* The peer sends an empty WRITE with this MigReq, from its usual address. */
static void peer_write_nothing(Peer *p, const Qp *qp, uint32_t psn,
                               bool mig_req)
{
    Packet packet = packet_of(PEER_WRITE_ONLY, qp->qpn, psn);

    packet.mig_req = mig_req;
    packet_reth(&packet, 0, 0, 0);
    peer_put(p, &packet);
    peer_send(p);
}

/* The peer migrates to a path other than the loaded one: the device reports an
 * event. */
static void test_wrong_path(void)
{
    struct fakernic_modify_qp_req req;
    struct fakernic_eqe eqe;
    Peer p;
    Qp qp;

    peer_start(&p, "", 0);
    peer_connect(&p, &qp, 0);
    req = connect_req(qp.qpn, PEER_QPN, peer_gid, peer_mac, PEER_PSN, PEER_PSN);
    req.mask = LE32(FAKERNIC_QP_ATTR_ALT_PATH |
                    FAKERNIC_QP_ATTR_PATH_MIG_STATE);
    req.attr.path_mig_state = FAKERNIC_MIG_REARM;
    req.attr.alt_port = 1;
    req.attr.alt_timeout = 14;
    req.attr.alt_av = req.attr.av;
    req.attr.alt_av.dgid[15]++;
    assert_status(CMD(&p.n, MODIFY_QP, req), OK);
    peer_write_nothing(&p, &qp, PEER_PSN, false);
    g_assert_false(eq_poll(&p.n, &p.s.async, &eqe));
    peer_write_nothing(&p, &qp, PEER_PSN + 1, true);
    g_assert_true(eq_poll(&p.n, &p.s.async, &eqe));
    g_assert_cmpuint(eqe.type, ==, FAKERNIC_EVENT_PATH_MIGRATION_ERROR);
    g_assert_cmpuint(le32_to_cpu(eqe.id), ==, qp.qpn);
    g_assert_cmpuint(le32_to_cpu(eqe.data), ==, FAKERNIC_VENDOR_MIGRATION);
    peer_stop(&p);
}

/* Opcodes that RC reserves (IBTA table 38) each get a NAK (table 62). */
static void test_reserved_opcode(void)
{
    static const uint8_t codes[] = {
        0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f,
    };
    Packet packet;
    Peer p;
    Qp qp;

    peer_start(&p, "", 0);
    for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
        peer_connect(&p, &qp, i);
        packet = packet_of(codes[i], qp.qpn, PEER_PSN);
        packet_data(&packet, 1, 8);
        peer_put(&p, &packet);
        peer_send(&p);
        g_assert_true(peer_next(&p, &packet));
        g_assert_cmphex(packet.opcode, ==, PEER_ACK);
        g_assert_cmphex(packet.qpn, ==, PEER_QPN + i);
        g_assert_cmphex(packet.psn, ==, PEER_PSN);
        g_assert_cmphex(packet.bytes[0], ==, PEER_NAK_INVALID_REQUEST);
        g_assert_cmpuint(qp_state(&p.n, qp.qpn), ==, FAKERNIC_QPS_ERR);
    }
    peer_stop(&p);
}

static void peer_ask(Peer *p, const Qp *qp, uint32_t psn, uint64_t address,
                     uint32_t length)
{
    Packet packet = packet_of(PEER_READ_REQUEST, qp->qpn, psn);

    packet.asks = true;
    packet_reth(&packet, address, p->s.key, length);
    peer_put(p, &packet);
}

/*
 * A duplicate of an answered READ, with another address, arrives during the
 * response to the next READ. That response must continue where it is.
 */
static void test_changed_duplicate(void)
{
    const uint32_t packets = DATA_SIZE / PEER_MTU;
    Packet packet;
    Peer p;
    Qp qp;

    /* The wire takes only a few packets until the test reads them. */
    peer_start(&p, "", 8192);
    peer_connect(&p, &qp, 0);
    peer_ask(&p, &qp, PEER_PSN, p.s.data, XRC_LENGTH);
    peer_ask(&p, &qp, PEER_PSN + 1, p.s.data, DATA_SIZE);
    peer_send(&p);
    for (unsigned i = 0; i < 1 + packets; i++) {
        g_assert_true(peer_next(&p, &packet));
        g_assert_cmphex(packet.psn, ==, (PEER_PSN + i) & PEER_MASK);
        g_assert_true(packet_is_read_answer(&packet));
        if (i == 1) {
            peer_ask(&p, &qp, PEER_PSN, p.s.data + 8, XRC_LENGTH);
            peer_send(&p);
        }
    }
    g_assert_false(peer_next(&p, &packet));
    peer_expect_ready(&p, qp.qpn);
    peer_stop(&p);
}

/* ---- wires that lose ----------------------------------------------------- */

#define ROOM         32         /* frames that a short queue holds */
#define SINK_WRITES  31
#define SINK_PACKETS (SINK_WRITES * (DATA_SIZE / PEER_MTU))
#define SINK_MS      10000      /* far more than the test needs */

/* A peer that takes WRITEs, behind a wire with a queue of frames. */
typedef struct Sink {
    Peer p;
    Qp qp;
    uint32_t next;              /* the expected PSN */
    bool nak_sent;              /* a NAK was sent for it (C9-115) */
    unsigned frames, taken;
} Sink;

static void sink_start(Sink *k)
{
    *k = (Sink) { .next = PEER_PSN };
    peer_start(&k->p, "", 0);
    peer_connect(&k->p, &k->qp, 0);
}

static void sink_post(Sink *k)
{
    Wqe wqe = wqe_rdma(&k->p.s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, DATA_SIZE);

    for (unsigned i = 0; i < SINK_WRITES; i++) {
        sq_put(&k->p.n, &k->qp, &wqe, sizeof(wqe));
    }
    sq_ring(&k->p.n, &k->qp);
}

static void sink_answer(Sink *k, uint32_t psn, uint8_t syndrome)
{
    Packet packet = packet_answer(PEER_ACK, k->qp.qpn, psn, syndrome);

    peer_put(&k->p, &packet);
}

/*
 * Takes a burst and answers it; frames beyond 'room' are lost. Returns
 * the number of frames.
 */
static unsigned sink_burst(Sink *k, unsigned room)
{
    bool asked = false, misses = false;
    unsigned frames = 0;
    Packet packet;

    while (peer_next(&k->p, &packet)) {
        if (frames++ >= room) {
            continue;
        }
        if (packet.psn == k->next) {
            k->next = (k->next + 1) & PEER_MASK;
            k->taken++;
            k->nak_sent = false;
            asked |= packet.asks;
        } else if ((packet.psn - k->next) & 0x800000) {
            asked |= packet.asks;
        } else {
            misses |= !k->nak_sent;
            k->nak_sent = true;
        }
    }
    if (asked) {
        sink_answer(k, k->next - 1, PEER_ACKED);
    }
    if (misses) {
        sink_answer(k, k->next, PEER_NAK_SEQUENCE);
    }
    peer_send(&k->p);
    k->frames += frames;
    return frames;
}

/* Takes all packets and expects all completions. Returns the largest burst. */
static unsigned sink_take_all(Sink *k, unsigned room, unsigned packets)
{
    unsigned most = 0, ms = 0;

    while (k->taken < packets) {
        unsigned frames = sink_burst(k, room);

        most = MAX(most, frames);
        if (!frames) {
            qtest_clock_step(k->p.m.qts, 1000000);
            g_assert_cmpuint(ms++, <, SINK_MS);
        }
    }
    for (unsigned i = 0; i < SINK_WRITES; i++) {
        struct fakernic_cqe cqe;

        cq_expect(&k->p.n, &k->p.s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                  FAKERNIC_WC_SUCCESS);
    }
    return most;
}

/*
 * A queue holds only a part of a burst. The device then sends smaller bursts:
 * fewer frames are lost than arrive. With room again bursts grow.
 */
static void test_short_queue(void)
{
    unsigned first, most;
    Sink k;

    sink_start(&k);
    sink_post(&k);
    sink_take_all(&k, ROOM, SINK_PACKETS);
    g_test_message("%u frames for %u packets", k.frames, k.taken);
    g_assert_cmpuint(k.frames, <, 2 * k.taken);
    sink_post(&k);
    first = sink_burst(&k, UINT_MAX);
    most = sink_take_all(&k, UINT_MAX, 2 * SINK_PACKETS);
    g_test_message("%u frames at once, later %u", first, most);
    g_assert_cmpuint(first, <, 2 * ROOM);
    g_assert_cmpuint(most, >, first + 8);
    peer_stop(&k.p);
}

/* The peer does not answer: retries are at most half as large a burst. */
static void test_silent_peer(void)
{
    unsigned first, most = 0;
    Packet packet;
    Sink k;

    sink_start(&k);
    sink_post(&k);
    for (first = 0; peer_next(&k.p, &packet); first++) {
    }
    for (unsigned ms = 0; ms < 400; ms += 5) {
        unsigned frames = 0;

        qtest_clock_step(k.p.m.qts, 5000000);
        while (peer_next(&k.p, &packet)) {
            frames++;
        }
        most = MAX(most, frames);
    }
    g_test_message("%u frames at once, after a silence %u", first, most);
    g_assert_cmpuint(most, >=, 1);
    g_assert_cmpuint(most, <=, first / 2);
    /* A NAK requests the lost packets, as nothing else reports the loss. */
    sink_answer(&k, PEER_PSN, PEER_NAK_SEQUENCE);
    peer_send(&k.p);
    sink_take_all(&k, UINT_MAX, SINK_PACKETS);
    peer_stop(&k.p);
}

/* ---- a server with two clients ------------------------------------------- */

#define READERS      8
#define READS        4          /* of each QP, the largest number allowed */
#define READ_PACKETS 4
#define READ_FRAMES  (READERS * READS * READ_PACKETS)
#define WRITES       16
#define ROUNDS       8

/*
 * One client READs by many QPs, another WRITEs. All requests arrive at once.
 * Returns the number of READ responses before the last WRITE's ACK.
 */
static unsigned shares_round(Peer *p, const Qp *readers, const Qp *writer,
                             unsigned round)
{
    const uint32_t read = PEER_PSN + round * READS * READ_PACKETS;
    const uint32_t last = PEER_PSN + (round + 1) * WRITES - 1;
    unsigned frames = 0, before = 0;
    Packet packet;

    for (unsigned i = 0; i < READERS * READS; i++) {
        peer_ask(p, &readers[i % READERS], read + i / READERS * READ_PACKETS,
                 p->s.data, READ_PACKETS * PEER_MTU);
    }
    for (unsigned i = 0; i < WRITES; i++) {
        packet = packet_of(PEER_WRITE_ONLY, writer->qpn, last - WRITES + 1 + i);
        packet.asks = true;
        packet_reth(&packet, p->s.data, p->s.key, 256);
        packet_data(&packet, i, 256);
        peer_put(p, &packet);
    }
    peer_send(p);
    while (peer_next(p, &packet)) {
        if (packet_is_read_answer(&packet)) {
            frames++;
            continue;
        }
        g_assert_cmphex(packet.opcode, ==, PEER_ACK);
        g_assert_cmphex(packet.qpn, ==, PEER_QPN + READERS);
        if (packet.psn == (last & PEER_MASK)) {
            before = frames;
        }
    }
    g_assert_cmpuint(frames, ==, READ_FRAMES);
    return before;
}

static void test_shares(void)
{
    Qp qp[READERS + 1];
    Peer p;

    /* The work of a turn ends it, however slow the machine is. */
    peer_start(&p, ",turn-us=1000000", 1 << 20);
    for (unsigned i = 0; i <= READERS; i++) {
        peer_connect(&p, &qp[i], i);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned before = shares_round(&p, qp, &qp[READERS], i);

        g_test_message("%u frames written beside %u read", WRITES, before);
        g_assert_cmpuint(before, <=, READ_FRAMES / 4);
    }
    peer_stop(&p);
}

/* ---- a peer that is slow, but steady ------------------------------------- */

#define SLOW_READ     (1u << 20)
#define SLOW_PACKETS  (SLOW_READ / PEER_MTU)
#define SLOW_QUEUE    4096      /* requests, more than can arrive */
#define SLOW_BATCH    64        /* answers between two clock steps */
#define SLOW_NS       30000     /* for each of them */

/* A peer that answers one READ after the other, at a constant rate. */
typedef struct Slow {
    Peer p;
    Qp qp[READERS];
    uint32_t end[READERS];      /* the PSN behind the last request */
    struct {
        unsigned qp;
        uint32_t psn, packets, done;
    } queue[SLOW_QUEUE];
    unsigned head, tail;
    unsigned twice, answers;
} Slow;

/* Queues the requests that have arrived. */
static void slow_take(Slow *s)
{
    Packet packet;

    while (peer_take(&s->p, &packet)) {
        const unsigned i = packet.qpn - PEER_QPN;
        const uint32_t length = ldl_be_p(packet.bytes + 12);
        const uint32_t packets = DIV_ROUND_UP(length, PEER_MTU);

        g_assert_cmphex(packet.opcode, ==, PEER_READ_REQUEST);
        g_assert_cmpuint(i, <, READERS);
        g_assert_cmpuint(s->tail, <, SLOW_QUEUE);
        if (packet.psn == s->end[i]) {
            s->end[i] = (packet.psn + packets) & PEER_MASK;
        } else {
            s->twice++;
        }
        s->queue[s->tail].qp = i;
        s->queue[s->tail].psn = packet.psn;
        s->queue[s->tail++].packets = packets;
    }
}

/* The next answer, if one is due. */
static void slow_answer(Slow *s)
{
    const unsigned i = s->head;
    Packet packet = { .opcode = PEER_READ_MIDDLE };
    bool first, last;

    if (i == s->tail) {
        return;
    }
    first = s->queue[i].done == 0;
    last = s->queue[i].done + 1 == s->queue[i].packets;
    if (first || last) {
        packet.opcode = !last ? PEER_READ_FIRST
                              : first ? PEER_READ_ONLY : PEER_READ_LAST;
        packet_number(&packet, PEER_ACKED << 24, 4);
    }
    packet.qpn = s->qp[s->queue[i].qp].qpn;
    packet.psn = (s->queue[i].psn + s->queue[i].done) & PEER_MASK;
    packet_data(&packet, 1, PEER_MTU);
    peer_put(&s->p, &packet);
    s->answers++;
    s->queue[i].done++;
    s->head += last;
}

static void slow_start(Slow *s)
{
    Setup big;
    Wqe wqe;

    memset(s, 0, sizeof(*s));
    peer_start(&s->p, "", 0);
    big = s->p.s;
    big.data = mem_alloc(&s->p.m, SLOW_READ);
    big.key = mr_create(&s->p.n, big.pd, big.data, SLOW_READ,
                        FAKERNIC_ACCESS_LOCAL_WRITE);
    wqe = wqe_rdma(&big, FAKERNIC_SQ_RDMA_READ, 0, 0, SLOW_READ);
    for (unsigned i = 0; i < READERS; i++) {
        peer_connect(&s->p, &s->qp[i], i);
        s->end[i] = PEER_PSN;
        for (unsigned k = 0; k < READS; k++) {
            sq_put(&s->p.n, &s->qp[i], &wqe, sizeof(wqe));
        }
    }
}

/*
 * READs of 1 MiB by eight QPs. The last QP waits until the peer has answered
 * all the others. Nothing is lost, and no QP may time out. Each QP may probe
 * once, if a silence is long compared with those before.
 */
static void test_slow_peer(void)
{
    const unsigned all = READERS * READS * SLOW_PACKETS;
    g_autofree Slow *s = g_new(Slow, 1);
    struct fakernic_cqe cqe;
    unsigned done = 0;
    uint64_t timeouts;

    slow_start(s);
    for (unsigned i = 0; i < READERS; i++) {
        sq_ring(&s->p.n, &s->qp[i]);
    }
    while (done < READERS * READS && s->answers < 3 * all) {
        slow_take(s);
        for (unsigned i = 0; i < SLOW_BATCH; i++) {
            slow_answer(s);
        }
        peer_send(&s->p);
        qtest_clock_step(s->p.m.qts, SLOW_BATCH * SLOW_NS);
        peer_rounds(&s->p, 1);
        while (cq_poll(&s->p.n, &s->p.s.cq, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
            done++;
        }
    }
    timeouts = nic_stat(&s->p.n, FAKERNIC_STAT_TIMEOUTS);
    g_test_message("%" PRIu64 " timeouts; %u of %u requests came twice; %u "
                   "answers to %u", timeouts, s->twice, s->tail, s->answers,
                   all);
    g_assert_cmpuint(timeouts, ==, 0);
    g_assert_cmpuint(s->twice, <=, READERS);
    g_assert_cmpuint(s->answers, <=, all + all / 16);
    g_assert_cmpuint(done, ==, READERS * READS);
    peer_stop(&s->p);
}

/* ---- fault rules, as a peer sees them ------------------------------------ */

#define UC_PACKETS (DATA_SIZE / PEER_MTU)
#define FRAME_NS   880000       /* for a packet of 1,100 bytes at 10 Mbit/s */
#define ON_TIME    100          /* frames that ON_TIME * FRAME_NS must carry */
#define HELD_MAX   1024

/* A UC QP, which sends everything at once and retransmits nothing. */
static void faulty_start(Peer *p, Qp *qp, const char *rule, unsigned queue)
{
    g_autofree char *more = g_strdup_printf(",x-fault='%s'", rule);

    peer_start(p, more, queue);
    qp_create(&p->n, qp, FAKERNIC_QP_UC, p->s.pd, &p->s.cq, 0);
    uc_connect(&p->n, qp->qpn, PEER_QPN, peer_gid, peer_mac);
}

static void faulty_post(Peer *p, Qp *qp, unsigned writes, uint32_t length)
{
    Wqe wqe = wqe_rdma(&p->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, length);

    for (unsigned i = 0; i < writes; i++) {
        sq_put(&p->n, qp, &wqe, sizeof(wqe));
    }
    sq_ring(&p->n, qp);
    peer_rounds(p, PEER_ROUNDS);
}

static void test_reorder_by(void)
{
    static const uint32_t order[] = { 0, 1, 3, 2, 4, 5, 6, 7 };
    Packet packet;
    Peer p;
    Qp qp;

    faulty_start(&p, &qp, "at=tx class=roce nth=3 by=1 do=reorder", 0);
    faulty_post(&p, &qp, 1, ARRAY_SIZE(order) * PEER_MTU);
    for (unsigned i = 0; i < ARRAY_SIZE(order); i++) {
        g_assert_true(peer_next(&p, &packet));
        g_assert_cmpuint(packet.psn, ==, order[i]);
    }
    peer_stop(&p);
}

/*
 * The device sends more frames at once than a rule can hold. The wire keeps its
 * rate. Frames without room are lost and delay no others.
 */
static void test_throttle_full(void)
{
    const unsigned writes = HELD_MAX / UC_PACKETS + 5;
    uint32_t next = 0;
    Packet packet;
    Peer p;
    Qp qp;

    faulty_start(&p, &qp, "at=tx class=roce times=0 mbps=10 do=throttle", 0);
    faulty_post(&p, &qp, writes, DATA_SIZE);
    qtest_clock_step(p.m.qts, ON_TIME * FRAME_NS);
    while (peer_next(&p, &packet)) {
        g_assert_cmpuint(packet.psn, ==, next++);
    }
    g_assert_cmpuint(next, >=, ON_TIME);
    for (unsigned i = 0; i < HELD_MAX; i++) {
        qtest_clock_step(p.m.qts, FRAME_NS);
        while (peer_take(&p, &packet)) {
            next++;
        }
    }
    while (peer_next(&p, &packet)) {
        next++;
    }
    g_assert_cmpuint(next, >=, HELD_MAX);
    g_assert_cmpuint(next, <, writes * UC_PACKETS);
    faulty_post(&p, &qp, 1, PEER_MTU);
    g_assert_true(peer_next(&p, &packet));
    peer_stop(&p);
}

/* Delayed frames wait longer while the wire takes none; none is lost. */
static void test_delay_blocked(void)
{
    uint32_t next = 0;
    Packet packet;
    Peer p;
    Qp qp;

    faulty_start(&p, &qp, "at=tx class=roce times=0 delay-ns=1000000 do=delay",
                 16 * PEER_MTU);
    faulty_post(&p, &qp, 1, DATA_SIZE);
    g_assert_false(peer_next(&p, &packet));
    qtest_clock_step(p.m.qts, 2000000);
    while (peer_next(&p, &packet)) {
        g_assert_cmpuint(packet.psn, ==, next++);
    }
    g_assert_cmpuint(next, ==, UC_PACKETS);
    g_assert_cmpuint(nic_stat(&p.n, FAKERNIC_STAT_TX_DROPPED), ==, 0);
    peer_stop(&p);
}

const FakernicTest fakernic_peer_tests[] = {
    { "peer/xrc-repeated-read", test_xrc_repeated_read },
    { "peer/xrc-held-receive", test_xrc_held_receive },
    { "peer/duplicate-naks", test_duplicate_naks },
    { "peer/stale-request", test_stale_request },
    { "peer/wrong-path", test_wrong_path },
    { "peer/reserved-opcode", test_reserved_opcode },
    { "peer/changed-duplicate", test_changed_duplicate },
    { "peer/short-queue", test_short_queue },
    { "peer/silent-peer", test_silent_peer },
    { "peer/shares", test_shares },
    { "peer/slow-peer", test_slow_peer },
    { "peer/fault-reorder", test_reorder_by },
    { "peer/fault-throttle", test_throttle_full },
    { "peer/fault-delay", test_delay_blocked },
    { NULL }
};
