/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One case per refusal: its status, vendor_err, NAK and event at requester and
 * responder, for datagrams, raw frames and the responder of RC and UC.
 */
#include "pair.h"

#include "engine.h"

#define QKEY 0x11111111u

static void errors_rts(PairHost *h, uint8_t type)
{
    uint32_t init = FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT;
    uint32_t rts = FAKERNIC_QP_ATTR_STATE;
    RoceQpAttr attr = { .port = 1, .qkey = QKEY };

    if (type == FAKERNIC_QP_UD) {
        init |= FAKERNIC_QP_ATTR_QKEY | FAKERNIC_QP_ATTR_PKEY_INDEX;
        rts |= FAKERNIC_QP_ATTR_SQ_PSN;
    }
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(h, 0, init, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(h, 0, rts, &attr), 0);
}

static void errors_init(Pair *p, uint8_t type)
{
    memset(p, 0, sizeof(*p));
    pair_host_init(&p->a, 1);
    pair_host_init(&p->b, 2);
    pair_create(&p->a, type);
    pair_create(&p->b, type);
    errors_rts(&p->a, type);
    errors_rts(&p->b, type);
}

static RoceSendWr errors_wr(const Pair *p, uint8_t type)
{
    RoceSendWr wr = pair_wr(&p->a, 1, FAKERNIC_SQ_SEND, 0, 64);

    if (type == FAKERNIC_QP_UD) {
        wr.ud.av = pair_av(&p->b);
        wr.ud.dest_qpn = p->b.qpn;
        wr.ud.qkey = QKEY;
    }
    return wr;
}

typedef enum ErrorsCause {
    BAD_FORMAT, BAD_OPCODE, BAD_SGE_COUNT, BAD_INLINE, BAD_KEY, CAUSES,
} ErrorsCause;

/* UD and RAW_PACKET refuse a work request: it gets this status, the QP
 * enters SQE, and the next one is flushed. */
static void refused_datagrams_and_frames(void)
{
    static const struct {
        uint8_t status;
        uint16_t vendor_err;
    } want[CAUSES] = {
        { FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_RSVD },
        { FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_OPCODE },
        { FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_WC_LOC_PROT_ERR, FAKERNIC_VENDOR_KEY_TAG },
    };
    static const uint8_t types[] = { FAKERNIC_QP_UD, FAKERNIC_QP_RAW_PACKET };
    unsigned i;

    for (i = 0; i < CAUSES * TEST_COUNT(types); i++) {
        uint8_t type = types[i / CAUSES];
        ErrorsCause cause = i % CAUSES;
        RoceSendWr wr;
        Pair p;

        errors_init(&p, type);
        wr = errors_wr(&p, type);
        wr.format_error = cause == BAD_FORMAT ? FAKERNIC_VENDOR_SQ_RSVD : 0;
        wr.opcode = cause == BAD_OPCODE ? FAKERNIC_SQ_RDMA_WRITE : wr.opcode;
        wr.sge_count = cause == BAD_SGE_COUNT ? FAKERNIC_SGE_MAX + 1 : 1;
        if (cause == BAD_INLINE) {
            wr.flags |= FAKERNIC_SQ_INLINE;
            wr.inline_length = FAKERNIC_INLINE_MAX + 1;
        }
        wr.sge[0].lkey ^= cause == BAD_KEY;
        pair_send(&p, &p.a, &wr);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        REQUIRE(p.a.host->completion_count == 2);
        CHECK_EQ(p.a.host->completions[0].status, want[cause].status);
        CHECK_EQ(p.a.host->completions[0].vendor_err, want[cause].vendor_err);
        CHECK_EQ(p.a.host->completions[1].status, FAKERNIC_WC_WR_FLUSH_ERR);
        CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_SQE);
        CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_LOCAL_ERRORS), 1);
        CHECK_EQ(p.a.sent, 0);
        pair_free(&p);
    }
}

/* Connected QPs refuse a bad WQE that the host let pass. */
static void refused_requests(void)
{
    static const uint8_t types[] = {
        FAKERNIC_QP_RC, FAKERNIC_QP_UC, FAKERNIC_QP_XRC_INI,
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(types); i++) {
        RoceSendWr wr;
        PAIR(p, types[i]);

        wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 64);
        wr.sge_count = FAKERNIC_SGE_MAX + 1;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_QP_OP_ERR);
        CHECK_EQ(p.a.host->completions[0].vendor_err,
                 FAKERNIC_VENDOR_SQ_FORMAT);
        CHECK_EQ(pair_state(&p.a), types[i] == FAKERNIC_QP_UC
                                       ? FAKERNIC_QPS_SQE : FAKERNIC_QPS_ERR);
    }
}

/* Two QPs of a service in RTS, with receives posted at b. */
static void errors_open(Pair *p, uint8_t type)
{
    if (type == FAKERNIC_QP_UD || type == FAKERNIC_QP_RAW_PACKET) {
        errors_init(p, type);
    } else {
        pair_init(p, type);
    }
    /* Raw frames go to no QP of the peer. */
    p->a.mute = type == FAKERNIC_QP_RAW_PACKET;
    for (unsigned i = 0; !p->a.mute && i < 3; i++) {
        pair_recv(&p->b, 7 + i, 0, 200);
    }
}

/* The peer of a failed queue has received messages and no error. */
static void errors_unharmed(Pair *p, unsigned messages)
{
    unsigned i;

    CHECK_EQ(pair_state(&p->b), FAKERNIC_QPS_RTS);
    CHECK_EQ(p->b.host->event_count, 0);
    for (i = 0; !p->a.mute && i < messages; i++) {
        pair_expect(&p->b, FAKERNIC_CQE_RECV, 7 + i, FAKERNIC_WC_SUCCESS);
    }
    pair_expect_none(&p->b);
}

/* Posts three sends; the host forces the second one to fail. */
static void errors_force(Pair *p, uint8_t type, uint8_t status)
{
    RoceSendWr wr = errors_wr(p, type);

    pair_send(p, &p->a, &wr);
    wr.index = 2;
    wr.forced_status = status;
    wr.forced_error = 99 + status;
    pair_send(p, &p->a, &wr);
    wr.index = 3;
    wr.forced_status = 0;
    pair_send(p, &p->a, &wr);
    pair_run(p);
}

/*
 * The host forces a status on a work request, for each service. The request
 * before it succeeds. It completes with that status and sends nothing. The one
 * behind it is flushed. An unreliable QP only fails its send queue, and still
 * receives.
 */
static void host_forces_status_of_work_request(void)
{
    static const uint8_t types[] = {
        FAKERNIC_QP_RC, FAKERNIC_QP_XRC_INI, FAKERNIC_QP_UC, FAKERNIC_QP_UD,
        FAKERNIC_QP_RAW_PACKET,
    };
    unsigned i;

    for (i = 0; i < FAKERNIC_WC_GENERAL_ERR * TEST_COUNT(types); i++) {
        const uint8_t type = types[i / FAKERNIC_WC_GENERAL_ERR];
        const uint8_t status = 1 + i % FAKERNIC_WC_GENERAL_ERR;
        const bool reliable = i / FAKERNIC_WC_GENERAL_ERR < 2;
        RoceQpAttr attr = { .state = FAKERNIC_QPS_RTS };
        RoceSendWr wr;
        Pair p;

        errors_open(&p, type);
        errors_force(&p, type, status);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, status);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 3, FAKERNIC_WC_WR_FLUSH_ERR);
        pair_expect_none(&p.a);
        CHECK_EQ(p.a.host->completions[1].vendor_err, 99 + status);
        CHECK_EQ(p.a.host->completions[2].vendor_err, FAKERNIC_VENDOR_FLUSHED);
        CHECK_EQ(p.a.host->event_count, 0);
        CHECK_EQ(p.a.sent, 1);
        CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_LOCAL_ERRORS), 1);
        CHECK_EQ(pair_state(&p.a), reliable ? FAKERNIC_QPS_ERR
                                            : FAKERNIC_QPS_SQE);
        errors_unharmed(&p, 1);
        if (!reliable) {
            CHECK_EQ(pair_modify(&p.a, p.now, FAKERNIC_QP_ATTR_STATE, &attr),
                     FAKERNIC_CMD_OK);
            wr = errors_wr(&p, type);
            pair_send(&p, &p.a, &wr);
            pair_run(&p);
            pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
            CHECK_EQ(p.a.sent, 2);
        }
        pair_free(&p);
    }
}

/* An invalid receive fails the QP. */
static void invalid_receive_fails_qp(void)
{
    static const uint8_t types[] = {
        FAKERNIC_QP_UD, FAKERNIC_QP_RAW_PACKET, FAKERNIC_QP_UC,
    };
    unsigned i;

    for (i = 0; i < 3 * TEST_COUNT(types); i++) {
        uint8_t type = types[i / 3];
        uint8_t frame[64] = { 0 };
        RoceRecvWr recv;
        RoceSendWr wr;
        Pair p;

        if (type == FAKERNIC_QP_UC) {
            pair_init(&p, type);
        } else {
            errors_init(&p, type);
        }
        recv = (RoceRecvWr) {
            .tag = 9, .sge_count = 1, .sge = { pair_sge(&p.b, 0, 200) },
        };
        if (i % 3 == 0) {
            recv.sge_count = FAKERNIC_SGE_MAX + 1;
        } else if (i % 3 == 1) {
            recv.sge[0].lkey ^= 1;
        } else {
            fake_queue_break(p.b.host, FAKE_RQ, p.b.qpn,
                             FAKERNIC_VENDOR_RQ_DMA);
        }
        if (i % 3 != 2) {
            fake_post_recv(p.b.host, p.b.qpn, &recv);
        }
        if (type == FAKERNIC_QP_RAW_PACKET) {
            CHECK(!roce_input_ethernet(p.b.r, 0, p.b.qpn, frame, 64, false));
        } else {
            wr = errors_wr(&p, type);
            pair_send(&p, &p.a, &wr);
            pair_run(&p);
        }
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_ERR);
        if (i % 3 == 2) {
            pair_expect_event(&p.b, FAKERNIC_EVENT_QP_FATAL);
            CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_RQ_DMA);
            CHECK_EQ(p.b.host->completion_count, 0);
        } else {
            pair_expect(&p.b, FAKERNIC_CQE_RECV, 9,
                        i % 3 ? FAKERNIC_WC_LOC_PROT_ERR
                              : FAKERNIC_WC_LOC_QP_OP_ERR);
            CHECK_EQ(p.b.host->completions[0].vendor_err,
                     i % 3 ? FAKERNIC_VENDOR_KEY_TAG
                           : FAKERNIC_VENDOR_RQ_FORMAT);
            CHECK_EQ(p.b.host->event_count, 0);
        }
        pair_free(&p);
    }
}

/* NOPs and inline data succeed, also more NOPs than one turn takes. */
static void nops_and_inline_data_succeed(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_UD, FAKERNIC_QP_RAW_PACKET,
                                     FAKERNIC_QP_RC };
    unsigned i, n;

    for (i = 0; i < TEST_COUNT(types); i++) {
        uint8_t buf[ROCE_FRAME_MAX];
        RoceSendWr wr;
        bool loopback;
        size_t len;
        Pair p;

        if (types[i] == FAKERNIC_QP_RC) {
            pair_init(&p, types[i]);
        } else {
            errors_init(&p, types[i]);
        }
        wr = errors_wr(&p, types[i]);
        wr.opcode = FAKERNIC_SQ_NOP;
        for (n = 0; n < 2 * ROCE_WQES_PER_TURN; n++) {
            pair_send(&p, &p.a, &wr);
        }
        wr = errors_wr(&p, types[i]);
        wr.flags |= FAKERNIC_SQ_INLINE;
        wr.sge_count = 0;
        wr.inline_length = 100;
        memset(wr.inline_data, 0xa5, 100);
        pair_send(&p, &p.a, &wr);
        len = roce_output(p.a.r, 0, buf, &loopback);
        REQUIRE(len >= 100);
        CHECK_MEM(types[i] == FAKERNIC_QP_RAW_PACKET ? buf : buf + len - 104,
                  wr.inline_data, 100);
        for (n = 0; n < 2 * ROCE_WQES_PER_TURN; n++) {
            pair_expect(&p.a, FAKERNIC_CQE_NOP, 1, FAKERNIC_WC_SUCCESS);
        }
        pair_free(&p);
    }
}

/* A datagram too long for the port's path MTU is dropped without a receive. */
static void datagram_above_path_mtu_is_dropped(void)
{
    uint8_t data[2048] = { 0 };
    RocePacket packet;
    Pair p;

    errors_init(&p, FAKERNIC_QP_UD);
    roce_set_port_mtu(p.b.r, 1500);
    pair_recv(&p.b, 1, 0, 4096);
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, 0);
    packet.deth.qkey = QKEY;
    pair_inject(&p, &p.b, &packet, data, 1025);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_UD_LENGTH), 1);
    pair_inject(&p, &p.b, &packet, data, 1024);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 1, FAKERNIC_WC_SUCCESS);
    pair_free(&p);
}

/* ---- the responder of RC ------------------------------------------------- */

static const struct {
    uint8_t opcode;
    uint32_t right;
} errors_operations[] = {
    { ROCE_BTH_WRITE_ONLY, FAKERNIC_ACCESS_REMOTE_WRITE },
    { ROCE_BTH_READ_REQUEST, FAKERNIC_ACCESS_REMOTE_READ },
    { ROCE_BTH_CMP_SWAP, FAKERNIC_ACCESS_REMOTE_ATOMIC },
    { ROCE_BTH_MASKED_FETCH_ADD, FAKERNIC_ACCESS_REMOTE_ATOMIC },
    { ROCE_BTH_ATOMIC_WRITE, FAKERNIC_ACCESS_REMOTE_WRITE },
};

static void errors_inject(Pair *p, uint8_t opcode, uint32_t address,
                          uint32_t length, uint32_t rkey, uint32_t psn)
{
    RocePacket packet = pair_packet(&p->a, &p->b, opcode, psn);
    uint8_t data[8] = { 0 };
    bool write = (opcode & 31) == ROCE_BTH_WRITE_ONLY ||
                 opcode == ROCE_BTH_ATOMIC_WRITE;

    packet.reth.address = packet.atomic_eth.address = address;
    packet.reth.rkey = packet.atomic_eth.rkey = rkey;
    packet.reth.length = length;
    pair_inject(p, &p->b, &packet, data, write ? 8 : 0);
}

static void errors_expect(Pair *p, uint8_t event, uint16_t vendor_err)
{
    pair_run(p);
    REQUIRE(p->b.host->event_count == 1);
    CHECK_EQ(p->b.host->events[0].type, event);
    CHECK_EQ(p->b.host->events[0].vendor_err, vendor_err);
    CHECK_EQ(pair_state(&p->b), FAKERNIC_QPS_ERR);
    CHECK_EQ(p->b.sent, 1);
}

/* Rights of the QP, of the key, and memory that cannot be reached. */
static void requests_without_rights_are_refused(void)
{
    unsigned i;

    for (i = 0; i < 4 * TEST_COUNT(errors_operations); i++) {
        uint8_t opcode = errors_operations[i / 4].opcode;
        RoceQpAttr attr = {
            .access_flags = ~errors_operations[i / 4].right & 0xe,
        };
        RoceMrInit mr = { .access = FAKERNIC_ACCESS_LOCAL_WRITE };
        Pair p;

        pair_init(&p, FAKERNIC_QP_RC);
        switch (i % 4) {
        case 0:
            CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_ACCESS_FLAGS,
                                 &attr), 0);
            break;
        case 1:
            CHECK_EQ(roce_mr_rereg(p.b.r, FAKERNIC_REREG_ACCESS, &mr,
                                   &p.b.key), 0);
            break;
        case 2:
            fake_memory_unreachable(p.b.host, PAIR_MEMORY, true);
            break;
        }
        errors_inject(&p, opcode, PAIR_MEMORY + (i % 4 == 3 ? PAIR_SIZE : 0),
                      8, p.b.key, PAIR_PSN);
        errors_expect(&p, i % 4 ? FAKERNIC_EVENT_QP_ACCESS_ERROR
                                : FAKERNIC_EVENT_QP_REQUEST_ERROR,
                      i % 4 == 0 ? FAKERNIC_VENDOR_QP_ACCESS
                      : i % 4 == 1 ? FAKERNIC_VENDOR_KEY_ACCESS
                      : i % 4 == 2 ? FAKERNIC_VENDOR_KEY_DMA
                                   : FAKERNIC_VENDOR_KEY_BOUNDS);
        CHECK_EQ(pair_stat(&p.b, i % 4 ? FAKERNIC_STAT_TX_NAK_REMOTE_ACCESS
                                       : FAKERNIC_STAT_TX_NAK_INVALID_REQUEST),
                 1);
        pair_free(&p);
    }
}

static void requests_malformed(void)
{
    static const struct {
        uint8_t opcode;
        uint32_t offset, length;
        uint16_t vendor_err;
    } cases[] = {
        { ROCE_BTH_READ_REQUEST, 0, 0x80000001,
          FAKERNIC_VENDOR_REQUEST_LENGTH },
        { ROCE_BTH_CMP_SWAP, 4, 0, FAKERNIC_VENDOR_ALIGNMENT },
        { ROCE_BTH_MASKED_CMP_SWAP, 1, 0, FAKERNIC_VENDOR_ALIGNMENT },
        { ROCE_BTH_ATOMIC_WRITE, 4, 8, FAKERNIC_VENDOR_ALIGNMENT },
        { ROCE_BTH_ATOMIC_WRITE, 0, 7, FAKERNIC_VENDOR_REQUEST_LENGTH },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        PAIR(p, FAKERNIC_QP_RC);

        errors_inject(&p, cases[i].opcode, PAIR_MEMORY + cases[i].offset,
                      cases[i].length, p.b.key, PAIR_PSN);
        errors_expect(&p, FAKERNIC_EVENT_QP_REQUEST_ERROR,
                      cases[i].vendor_err);
        /* The failed QP ignores later packets. */
        errors_inject(&p, ROCE_BTH_WRITE_ONLY, PAIR_MEMORY, 8, p.b.key,
                      PAIR_PSN);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_QP_STATE), 1);
    }
}

/* More than max_dest_rd_atomic of each kind that has an answer. */
static void requests_above_max_dest_rd_atomic_fail(void)
{
    unsigned i, n;

    for (i = 1; i < TEST_COUNT(errors_operations); i++) {
        PAIR(p, FAKERNIC_QP_RC);

        for (n = 0; n < 5; n++) {
            errors_inject(&p, errors_operations[i].opcode, PAIR_MEMORY, 8,
                          p.b.key, PAIR_PSN + n);
        }
        pair_run(&p);
        pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
        CHECK_EQ(p.b.host->events[0].vendor_err,
                 FAKERNIC_VENDOR_REQUEST_READS);
    }
}

/* UC has no NAK: a bad message is dropped, and the next one is received. */
static void uc_drops_bad_messages(void)
{
    unsigned i;

    for (i = 0; i < 3; i++) {
        RoceQpAttr attr = { .access_flags = 0 };
        PAIR(p, FAKERNIC_QP_UC);

        if (i == 0) {
            CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_ACCESS_FLAGS,
                                 &attr), 0);
        }
        errors_inject(&p, ROCE_BTH_UC | ROCE_BTH_WRITE_ONLY, PAIR_MEMORY, 8,
                      i == 1 ? 0x77 : p.b.key, PAIR_PSN);
        pair_recv(&p.b, 3, 0, 64);
        errors_inject(&p, ROCE_BTH_UC | ROCE_BTH_SEND_ONLY, 0, 0, 0,
                      PAIR_PSN + 1);
        pair_run(&p);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
        CHECK_EQ(p.b.host->event_count, 0);
        CHECK_EQ(p.b.sent, 0);
        CHECK_EQ(pair_state(&p.b), FAKERNIC_QPS_RTS);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_REMOTE_ACCESS_ERRORS), i == 1);
    }
}

/* ---- the completer ------------------------------------------------------- */

/* Responses that no correct responder sends. */
static void invalid_responses_fail_qp(void)
{
    static const struct {
        uint8_t request, response, syndrome;
        size_t length;
        uint8_t status;         /* SUCCESS: dropped, the request continues */
    } cases[] = {
        { FAKERNIC_SQ_RDMA_READ, ROCE_BTH_ATOMIC_ACK, 0x1f, 0,
          FAKERNIC_WC_BAD_RESP_ERR },
        { FAKERNIC_SQ_RDMA_READ, ROCE_BTH_READ_RESPONSE_ONLY, 0x1f, 7,
          FAKERNIC_WC_BAD_RESP_ERR },
        { FAKERNIC_SQ_RDMA_READ, ROCE_BTH_READ_RESPONSE_FIRST, 0x1f, 8,
          FAKERNIC_WC_BAD_RESP_ERR },
        { FAKERNIC_SQ_RDMA_WRITE, ROCE_BTH_READ_RESPONSE_ONLY, 0x1f, 8,
          FAKERNIC_WC_SUCCESS },
        { FAKERNIC_SQ_RDMA_WRITE, ROCE_BTH_ACK, 0x40, 0,
          FAKERNIC_WC_SUCCESS },        /* reserved type */
        { FAKERNIC_SQ_RDMA_WRITE, ROCE_BTH_ACK, 0x7f, 0,
          FAKERNIC_WC_SUCCESS },        /* reserved NAK code */
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        uint8_t data[8] = { 0 };
        RocePacket packet;
        PAIR(p, FAKERNIC_QP_RC);

        p.a.mute = true;
        pair_post_rdma(&p, 1, cases[i].request, 0, 8);
        pair_run(&p);
        packet = pair_packet(&p.b, &p.a, cases[i].response, PAIR_PSN);
        packet.aeth.syndrome = cases[i].syndrome;
        pair_inject(&p, &p.a, &packet, data, cases[i].length);
        if (cases[i].status == FAKERNIC_WC_SUCCESS) {
            CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_DROP_RESPONSE), 1);
            CHECK_EQ(p.a.host->completion_count, 0);
            p.a.mute = false;
            pair_run_until(&p, 1000000000);
            pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1,
                        FAKERNIC_WC_SUCCESS);
        } else {
            pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, cases[i].status);
            CHECK_EQ(p.a.host->completions[0].vendor_err,
                     FAKERNIC_VENDOR_BAD_RESPONSE);
            CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
        }
    }
}

/* The memory for a READ's data becomes unreachable during the READ. */
static void read_fails_when_its_memory_is_unreachable(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_READ, 0, 8);
    CHECK(pair_step(&p, &p.a, &p.b));
    fake_memory_unreachable(p.a.host, PAIR_MEMORY, true);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_LOC_PROT_ERR);
    CHECK_EQ(p.a.host->completions[0].vendor_err, FAKERNIC_VENDOR_KEY_DMA);
    CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
}

/* ---- both ends of a failed connection ------------------------------------ */

typedef enum ErrorsEnd {
    NOBODY_ANSWERS, SEQUENCE_NAKS, NO_RECEIVE, RECEIVE_TOO_SMALL,
    RECEIVE_BAD_KEY, BAD_RKEY, BAD_RIGHTS,
} ErrorsEnd;

/* Fails the connection in one way; two requests are posted, the first fails. */
static void errors_fail(Pair *p, ErrorsEnd end)
{
    bool write = end == BAD_RKEY || end == BAD_RIGHTS;
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, 1,
                                 write ? FAKERNIC_SQ_RDMA_WRITE
                                       : FAKERNIC_SQ_SEND, 0, 600);
    RoceQpAttr attr = { .access_flags = 0 };
    RocePacket packet;
    unsigned i;

    if (end == RECEIVE_BAD_KEY) {
        RoceRecvWr recv = {
            .tag = 3, .sge_count = 1, .sge = { pair_sge(&p->b, 0, 600) },
        };

        recv.sge[0].lkey ^= 1;
        pair_post_recv(&p->b, &recv);
    } else if (end != NO_RECEIVE) {
        pair_recv(&p->b, 3, 0, end == RECEIVE_TOO_SMALL ? 599 : 600);
    }
    if (end != NO_RECEIVE) {
        pair_recv(&p->b, 4, 0, 600);
    }
    if (end == BAD_RIGHTS) {
        CHECK_EQ(pair_modify(&p->b, 0, FAKERNIC_QP_ATTR_ACCESS_FLAGS, &attr),
                 0);
    }
    wr.rdma.rkey ^= end == BAD_RKEY;
    p->a.mute = end == NOBODY_ANSWERS || end == SEQUENCE_NAKS;
    pair_send(p, &p->a, &wr);
    wr.index = 2;
    pair_send(p, &p->a, &wr);
    /* A copy of a NAK counts only after a timeout: two of each are too many. */
    for (i = 0; end == SEQUENCE_NAKS && i < 2; i++) {
        pair_run(p);
        pair_run_until(p, roce_deadline(p->a.r));
        packet = pair_packet(&p->b, &p->a, ROCE_BTH_ACK, PAIR_PSN);
        packet.aeth.syndrome = ROCE_AETH_NAK | ROCE_NAK_SEQUENCE;
        pair_inject(p, &p->a, &packet, NULL, 0);
    }
    pair_run_until(p, 10000000000);
}

/* The responder reports the error by the first of two receives or by an event,
 * or it has no error. */
static void errors_responder(Pair *p, uint8_t recv_status,
                             uint16_t recv_vendor_err, uint8_t event)
{
    const RoceCompletion *c = p->b.host->completions;

    if (recv_status == FAKERNIC_WC_SUCCESS && event == FAKERNIC_EVENT_NONE) {
        CHECK_EQ(p->b.host->completion_count, 0);
        CHECK_EQ(p->b.host->event_count, 0);
        CHECK_EQ(pair_state(&p->b), FAKERNIC_QPS_RTS);
        return;
    }
    CHECK_EQ(pair_state(&p->b), FAKERNIC_QPS_ERR);
    REQUIRE(p->b.host->completion_count == 2);
    CHECK_EQ(c[0].status, event ? FAKERNIC_WC_WR_FLUSH_ERR : recv_status);
    CHECK_EQ(c[0].vendor_err, event ? FAKERNIC_VENDOR_FLUSHED
                                    : recv_vendor_err);
    CHECK_EQ(c[1].wqe_index, 4);
    CHECK_EQ(c[1].status, FAKERNIC_WC_WR_FLUSH_ERR);
    CHECK_EQ(c[1].vendor_err, FAKERNIC_VENDOR_FLUSHED);
    CHECK_EQ(p->b.host->event_count, event ? 1 : 0);
    if (event) {
        CHECK_EQ(p->b.host->events[0].type, event);
    }
}

/* IBTA 9.9.2, 9.9.3, 11.6.2: what each end reports and counts. */
static void both_ends_report_the_error(void)
{
    static const struct {
        ErrorsEnd end;
        uint8_t status;         /* of the request */
        uint16_t vendor_err;
        uint8_t recv_status;    /* of the invalid receive */
        uint16_t recv_vendor_err;
        uint8_t event;          /* of a responder without such a receive */
        uint8_t stat_a, count_a, stat_b, count_b;
    } cases[] = {
        { NOBODY_ANSWERS, FAKERNIC_WC_RETRY_EXC_ERR,
          FAKERNIC_VENDOR_RETRY_EXCEEDED, .stat_a = FAKERNIC_STAT_TIMEOUTS,
          .count_a = 4, .stat_b = FAKERNIC_STAT_TX_SEQ_NAK },
        { SEQUENCE_NAKS, FAKERNIC_WC_RETRY_EXC_ERR,
          FAKERNIC_VENDOR_SEQ_RETRY_EXCEEDED,
          .stat_a = FAKERNIC_STAT_RX_SEQ_NAK, .count_a = 2,
          .stat_b = FAKERNIC_STAT_TX_SEQ_NAK },
        { NO_RECEIVE, FAKERNIC_WC_RNR_RETRY_EXC_ERR,
          FAKERNIC_VENDOR_RNR_RETRY_EXCEEDED,
          .stat_a = FAKERNIC_STAT_RNR_RETRY_EXCEEDED, .count_a = 1,
          .stat_b = FAKERNIC_STAT_TX_RNR_NAK, .count_b = 4 },
        { RECEIVE_TOO_SMALL, FAKERNIC_WC_REM_INV_REQ_ERR,
          FAKERNIC_VENDOR_NAK_INVALID_REQUEST, FAKERNIC_WC_LOC_LEN_ERR,
          FAKERNIC_VENDOR_RQ_TOO_SMALL,
          .stat_a = FAKERNIC_STAT_RX_NAK_INVALID_REQUEST, .count_a = 1,
          .stat_b = FAKERNIC_STAT_TX_NAK_INVALID_REQUEST, .count_b = 1 },
        { RECEIVE_BAD_KEY, FAKERNIC_WC_REM_OP_ERR,
          FAKERNIC_VENDOR_NAK_REMOTE_OPERATION, FAKERNIC_WC_LOC_PROT_ERR,
          FAKERNIC_VENDOR_KEY_TAG,
          .stat_a = FAKERNIC_STAT_RX_NAK_REMOTE_OPERATION, .count_a = 1,
          .stat_b = FAKERNIC_STAT_TX_NAK_REMOTE_OPERATION, .count_b = 1 },
        { BAD_RKEY, FAKERNIC_WC_REM_ACCESS_ERR,
          FAKERNIC_VENDOR_NAK_REMOTE_ACCESS,
          .event = FAKERNIC_EVENT_QP_ACCESS_ERROR,
          .stat_a = FAKERNIC_STAT_RX_NAK_REMOTE_ACCESS, .count_a = 1,
          .stat_b = FAKERNIC_STAT_TX_NAK_REMOTE_ACCESS, .count_b = 1 },
        { BAD_RIGHTS, FAKERNIC_WC_REM_INV_REQ_ERR,
          FAKERNIC_VENDOR_NAK_INVALID_REQUEST,
          .event = FAKERNIC_EVENT_QP_REQUEST_ERROR,
          .stat_a = FAKERNIC_STAT_RX_NAK_INVALID_REQUEST, .count_a = 1,
          .stat_b = FAKERNIC_STAT_TX_NAK_INVALID_REQUEST, .count_b = 1 },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        const RoceCompletion *c;
        PAIR(p, FAKERNIC_QP_RC);

        errors_fail(&p, cases[i].end);
        c = p.a.host->completions;
        REQUIRE(p.a.host->completion_count == 2);
        CHECK_EQ(c[0].wqe_index, 1);
        CHECK_EQ(c[0].status, cases[i].status);
        CHECK_EQ(c[0].vendor_err, cases[i].vendor_err);
        CHECK_EQ(c[1].wqe_index, 2);
        CHECK_EQ(c[1].status, FAKERNIC_WC_WR_FLUSH_ERR);
        CHECK_EQ(c[1].vendor_err, FAKERNIC_VENDOR_FLUSHED);
        CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
        CHECK_EQ(p.a.host->event_count, 0);
        CHECK_EQ(pair_stat(&p.a, cases[i].stat_a), cases[i].count_a);
        CHECK_EQ(pair_stat(&p.b, cases[i].stat_b), cases[i].count_b);
        errors_responder(&p, cases[i].recv_status, cases[i].recv_vendor_err,
                         cases[i].event);
    }
}

static const Test tests[] = {
    TEST(refused_datagrams_and_frames),
    TEST(refused_requests),
    TEST(host_forces_status_of_work_request),
    TEST(invalid_receive_fails_qp),
    TEST(nops_and_inline_data_succeed),
    TEST(datagram_above_path_mtu_is_dropped),
    TEST(requests_without_rights_are_refused),
    TEST(requests_malformed),
    TEST(requests_above_max_dest_rd_atomic_fail),
    TEST(uc_drops_bad_messages),
    TEST(invalid_responses_fail_qp),
    TEST(read_fails_when_its_memory_is_unreachable),
    TEST(both_ends_report_the_error),
};

TEST_MAIN(tests)
