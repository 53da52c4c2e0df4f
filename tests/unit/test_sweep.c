/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sweeps: a small program of every kind of work request runs once for each of
 * its frames and memory accesses, with a fault rule that hits only that one.
 * Its data must be right. A run without faults counts frames and accesses.
 */
#include "fault/rules.h"
#include "pair.h"

#define WRITE_AT 0x1000u
#define SEND_AT 0x3000u
#define READ_AT 0x5000u
#define ATOMIC_AT 0x7000u
#define IMM_AT 0x8000u
#define SHORT_AT 0xa000u
#define SMALL_READ_AT 0xb000u
#define RECV_AT 0x10000u        /* destination of a SEND from offset 0 */
#define LONG 1500u              /* six packets */
#define MIDDLE 700u
#define SHORT 10u
#define REORDER_NS 100000000

enum { WRITES, SENDS, READS, ADDS, WRITES_IMM, SENDS_IMM, READS_ONE, SWAPS,
       WRS };

static const uint8_t completions[WRS] = {
    [WRITES] = FAKERNIC_CQE_RDMA_WRITE, [SENDS] = FAKERNIC_CQE_SEND,
    [READS] = FAKERNIC_CQE_RDMA_READ, [ADDS] = FAKERNIC_CQE_FETCH_ADD,
    [WRITES_IMM] = FAKERNIC_CQE_RDMA_WRITE, [SENDS_IMM] = FAKERNIC_CQE_SEND,
    [READS_ONE] = FAKERNIC_CQE_RDMA_READ, [SWAPS] = FAKERNIC_CQE_CMP_SWAP,
};

/* A frame that a rule holds. */
typedef struct Held {
    PairHost *to;               /* NULL: no frame */
    RoceTime due;
    uint64_t behind;            /* frames that must pass it; 0: none */
    size_t len;
    uint8_t frame[ROCE_FRAME_MAX];
} Held;

typedef struct Sweep {
    Pair p;
    RoceFaults faults[2];       /* of a's frames, of b's */
    Held held;
} Sweep;

/* ---- the wire ------------------------------------------------------------ */

static void hold(Sweep *s, PairHost *to, const uint8_t *frame, size_t len,
                 RoceTime due, uint64_t behind)
{
    REQUIRE(!s->held.to);
    s->held = (Held) { .to = to, .due = due, .behind = behind, .len = len };
    memcpy(s->held.frame, frame, len);
}

static void let_go(Sweep *s)
{
    PairHost *to = s->held.to;

    s->held.to = NULL;
    roce_input(to->r, s->p.now, s->held.frame, s->held.len);
}

static void deliver(Sweep *s, PairHost *to, const uint8_t *frame, size_t len)
{
    roce_input(to->r, s->p.now, frame, len);
    if (s->held.to == to && s->held.behind && --s->held.behind == 0) {
        let_go(s);
    }
}

/* Sends one frame, changed by a rule that hits it. False: there is none. */
static bool step(Sweep *s, PairHost *from, PairHost *to, RoceFaults *faults)
{
    RoceFaultSubject subject = { .point = ROCE_FAULT_TX, .now = s->p.now };
    const RoceFaultRule *rule;
    uint8_t frame[ROCE_FRAME_MAX];
    bool loopback;
    size_t len = roce_output(from->r, s->p.now, frame, &loopback);

    if (!len) {
        return false;
    }
    subject.qpn = from->qpn;
    roce_fault_look(&subject, frame, len);
    rule = roce_fault_hit(faults, &subject);
    switch (rule ? rule->act : ROCE_FAULT_COUNT) {
    case ROCE_FAULT_DROP:
        return true;
    case ROCE_FAULT_DELAY:
        hold(s, to, frame, len, s->p.now + (RoceTime)rule->delay_ns, 0);
        return true;
    case ROCE_FAULT_REORDER:
        hold(s, to, frame, len, s->p.now + REORDER_NS, rule->by);
        return true;
    case ROCE_FAULT_DUPLICATE:
        deliver(s, to, frame, len);
        break;
    default:
        len = rule ? roce_fault_change(rule, frame, len) : len;
        break;
    }
    deliver(s, to, frame, len);
    return true;
}

static void run_frames(Sweep *s)
{
    unsigned frames = 0;
    bool a, b;

    do {
        a = step(s, &s->p.a, &s->p.b, &s->faults[0]);
        b = step(s, &s->p.b, &s->p.a, &s->faults[1]);
        REQUIRE(++frames < PAIR_FRAMES);
    } while (a || b);
}

/* Runs until nothing is due within a minute. */
static void run(Sweep *s)
{
    const RoceTime end = s->p.now + 60000000000;

    for (;;) {
        RoceTime next;

        run_frames(s);
        next = roce_deadline(s->p.a.r);
        next = roce_deadline(s->p.b.r) < next ? roce_deadline(s->p.b.r) : next;
        if (s->held.to && s->held.due < next) {
            next = s->held.due;
        }
        if (next > end) {
            return;
        }
        s->p.now = next > s->p.now ? next : s->p.now;
        if (s->held.to && s->held.due <= s->p.now) {
            let_go(s);
        }
        roce_tick(s->p.a.r, s->p.now);
        roce_tick(s->p.b.r, s->p.now);
    }
}

/* ---- the program --------------------------------------------------------- */

static void post(Sweep *s, uint32_t index, uint8_t opcode, uint32_t at,
                 uint32_t length)
{
    RoceSendWr wr = pair_rdma_wr(&s->p.a, &s->p.b, index, opcode, at, length);

    if (index == ADDS || index == SWAPS) {
        wr.atomic.remote_address = PAIR_MEMORY + at;
        wr.atomic.rkey = s->p.b.key;
        wr.atomic.swap_or_add = index == ADDS ? 5 : 99;
        wr.atomic.compare = index == SWAPS ? 70 : 0;
    }
    wr.imm_or_key = 0xabc;
    pair_send(&s->p, &s->p.a, &wr);
}

static void program(Sweep *s)
{
    pair_fill(s->p.a.memory, 0x10000, 3);
    pair_fill(s->p.b.memory + READ_AT, LONG, 9);
    pair_fill(s->p.b.memory + SMALL_READ_AT, PAIR_MTU, 11);
    bytes_store64(s->p.b.memory + ATOMIC_AT, 60);
    bytes_store64(s->p.b.memory + ATOMIC_AT + 8, 70);
    pair_recv(&s->p.b, 100, RECV_AT + SEND_AT, MIDDLE);
    pair_recv(&s->p.b, 101, 0, 0);
    pair_recv(&s->p.b, 102, RECV_AT + SHORT_AT, SHORT);
    post(s, WRITES, FAKERNIC_SQ_RDMA_WRITE, WRITE_AT, LONG);
    post(s, SENDS, FAKERNIC_SQ_SEND, SEND_AT, MIDDLE);
    post(s, READS, FAKERNIC_SQ_RDMA_READ, READ_AT, LONG);
    post(s, ADDS, FAKERNIC_SQ_ATOMIC_FETCH_ADD, ATOMIC_AT, 8);
    post(s, WRITES_IMM, FAKERNIC_SQ_RDMA_WRITE_IMM, IMM_AT, MIDDLE);
    post(s, SENDS_IMM, FAKERNIC_SQ_SEND_IMM, SHORT_AT, SHORT);
    post(s, READS_ONE, FAKERNIC_SQ_RDMA_READ, SMALL_READ_AT, PAIR_MTU);
    post(s, SWAPS, FAKERNIC_SQ_ATOMIC_CMP_SWAP, ATOMIC_AT + 8, 8);
}

static uint64_t word(const PairHost *h, uint32_t at)
{
    return bytes_load64(h->memory + at);
}

/* Checks that a work request was executed exactly once. */
static void check_done(const Sweep *s, unsigned index)
{
    const uint8_t *a = s->p.a.memory, *b = s->p.b.memory;

    switch (index) {
    case WRITES:
        CHECK_MEM(b + WRITE_AT, a + WRITE_AT, LONG);
        break;
    case SENDS:
        CHECK_MEM(b + RECV_AT + SEND_AT, a + SEND_AT, MIDDLE);
        break;
    case READS:
        CHECK_MEM(a + READ_AT, b + READ_AT, LONG);
        break;
    case ADDS:
        CHECK_EQ(word(&s->p.b, ATOMIC_AT), 65);
        CHECK_EQ(word(&s->p.a, ATOMIC_AT), 60);
        break;
    case WRITES_IMM:
        CHECK_MEM(b + IMM_AT, a + IMM_AT, MIDDLE);
        break;
    case SENDS_IMM:
        CHECK_MEM(b + RECV_AT + SHORT_AT, a + SHORT_AT, SHORT);
        break;
    case READS_ONE:
        CHECK_MEM(a + SMALL_READ_AT, b + SMALL_READ_AT, PAIR_MTU);
        break;
    case SWAPS:
        CHECK_EQ(word(&s->p.b, ATOMIC_AT + 8), 99);
        CHECK_EQ(word(&s->p.a, ATOMIC_AT + 8), 70);
        break;
    }
}

static void check_all(Sweep *s)
{
    for (unsigned i = 0; i < WRS; i++) {
        pair_expect(&s->p.a, completions[i], i, FAKERNIC_WC_SUCCESS);
        check_done(s, i);
    }
    pair_expect_none(&s->p.a);
    pair_expect(&s->p.b, FAKERNIC_CQE_RECV, 100, FAKERNIC_WC_SUCCESS);
    pair_expect(&s->p.b, FAKERNIC_CQE_RECV_RDMA_IMM, 101, FAKERNIC_WC_SUCCESS);
    pair_expect(&s->p.b, FAKERNIC_CQE_RECV, 102, FAKERNIC_WC_SUCCESS);
    pair_expect_none(&s->p.b);
}

/* ---- sweeps -------------------------------------------------------------- */

static void arm(RoceFaults *faults, const char *rule)
{
    char error[ROCE_FAULT_ERROR];

    REQUIRE(roce_fault_add(faults, rule, error));
}

static void begin(Sweep *s, uint8_t type)
{
    memset(s, 0, sizeof(*s));
    pair_init(&s->p, type);
    program(s);
}

/* The number of frames that one side sends without faults. */
static unsigned count_frames(uint8_t type, unsigned side)
{
    Sweep s;
    unsigned count;

    begin(&s, type);
    arm(&s.faults[side], "at=tx times=0 do=count");
    run(&s);
    check_all(&s);
    count = (unsigned)s.faults[side].rules[0].hits;
    pair_free(&s.p);
    return count;
}

static void sweep_frame(uint8_t type, unsigned side, unsigned k,
                        const char *what)
{
    const bool failed = test_failed;
    char rule[100];
    Sweep s;

    test_failed = false;
    begin(&s, type);
    snprintf(rule, sizeof(rule), "at=tx nth=%u %s", k, what);
    arm(&s.faults[side], rule);
    run(&s);
    CHECK_EQ(s.faults[side].rules[0].hits, 1);
    check_all(&s);
    pair_free(&s.p);
    if (test_failed) {
        printf("# type %u, side %u: %s\n", type, side, rule);
    }
    test_failed |= failed;
}

/* The rule hits every frame of both sides in turn. */
static void sweep_frames(const char *what)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_XRC_INI };

    for (unsigned i = 0; i < TEST_COUNT(types); i++) {
        for (unsigned side = 0; side < 2; side++) {
            const unsigned count = count_frames(types[i], side);

            CHECK(count >= 10);
            for (unsigned k = 1; k <= count; k++) {
                sweep_frame(types[i], side, k, what);
            }
        }
    }
}

static void loss_of_each_frame_is_handled(void)
{
    sweep_frames("do=drop");
}

static void duplicate_of_each_frame_is_handled(void)
{
    sweep_frames("do=duplicate");
}

static void corruption_of_each_frame_is_handled(void)
{
    sweep_frames("do=corrupt");
    sweep_frames("offset=45 mask=0x10 do=corrupt");
}

static void truncation_of_each_frame_is_handled(void)
{
    sweep_frames("bytes=50 do=truncate");
}

static void ecn_mark_of_each_frame_is_handled(void)
{
    sweep_frames("do=mark");
}

static void delay_of_each_frame_is_handled(void)
{
    sweep_frames("delay-ns=1000000 do=delay");
    sweep_frames("delay-ns=300000000 do=delay");
}

static void reordering_of_each_frame_is_handled(void)
{
    sweep_frames("by=1 do=reorder");
    sweep_frames("by=3 do=reorder");
}

/* Each frame is lost, and then the next frame that its side sends. */
static void two_losses_at_each_frame_are_handled(void)
{
    sweep_frames("do=drop; at=tx after=f1 do=drop");
}

/* Accesses to a host's memory from the first work request on. */
static unsigned count_accesses(uint8_t type, bool b)
{
    Sweep s;
    unsigned count;

    begin(&s, type);
    run(&s);
    count = (b ? s.p.b : s.p.a).host->dma_count;
    pair_free(&s.p);
    return count;
}

/*
 * One access fails. All work requests complete in order, and none succeeds
 * after the failed one. Those before it have done all their work.
 */
static void sweep_access(uint8_t type, bool b, unsigned k)
{
    Sweep s;
    bool broken = false;

    begin(&s, type);
    (b ? s.p.b : s.p.a).host->fail_dma_in = k;
    run(&s);
    CHECK_EQ((b ? s.p.b : s.p.a).host->fail_dma_in, 0);
    for (unsigned i = 0; i < WRS; i++) {
        const RoceCompletion *c = fake_next_completion(s.p.a.host);

        REQUIRE(c != NULL);
        CHECK_EQ(c->wqe_index, i);
        CHECK(!broken || c->status == FAKERNIC_WC_WR_FLUSH_ERR);
        broken |= c->status != FAKERNIC_WC_SUCCESS;
        if (!broken) {
            check_done(&s, i);
        }
    }
    CHECK(broken);
    CHECK_EQ(pair_state(&s.p.a), FAKERNIC_QPS_ERR);
    pair_expect_none(&s.p.a);
    pair_free(&s.p);
}

static void failure_of_each_access_is_handled(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_XRC_INI };

    for (unsigned i = 0; i < TEST_COUNT(types); i++) {
        for (unsigned b = 0; b < 2; b++) {
            const unsigned count = count_accesses(types[i], b);

            CHECK(count >= 10);
            for (unsigned k = 1; k <= count; k++) {
                sweep_access(types[i], b, k);
            }
        }
    }
}

/* ---- services without retransmission ------------------------------------- */

#define MESSAGES 6
#define MESSAGE_SIZE 0x1000u    /* memory for one message */
#define GRH 40u                 /* in front of a datagram */
#define QKEY 0x11111111u

typedef struct Message {
    uint8_t opcode;
    uint32_t length;
} Message;

static const Message uc_messages[MESSAGES] = {
    { FAKERNIC_SQ_SEND_IMM, LONG }, { FAKERNIC_SQ_RDMA_WRITE_IMM, MIDDLE },
    { FAKERNIC_SQ_SEND_IMM, SHORT }, { FAKERNIC_SQ_RDMA_WRITE_IMM, LONG },
    { FAKERNIC_SQ_SEND_IMM, MIDDLE }, { FAKERNIC_SQ_RDMA_WRITE_IMM, SHORT },
};
static const Message ud_messages[MESSAGES] = {
    { FAKERNIC_SQ_SEND_IMM, SHORT }, { FAKERNIC_SQ_SEND_IMM, PAIR_MTU },
    { FAKERNIC_SQ_SEND_IMM, 0 }, { FAKERNIC_SQ_SEND_IMM, 100 },
    { FAKERNIC_SQ_SEND_IMM, 1 }, { FAKERNIC_SQ_SEND_IMM, SHORT },
};

static void datagram_rts(PairHost *h)
{
    RoceQpAttr attr = { .port = 1, .qkey = QKEY, .sq_psn = PAIR_PSN };

    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT |
                                   FAKERNIC_QP_ATTR_QKEY |
                                   FAKERNIC_QP_ATTR_PKEY_INDEX, &attr), 0);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(h, 0, PAIR_UC_RTS_MASK, &attr), 0);
}

/* Message i is at i * MESSAGE_SIZE, in a's memory and in b's. */
static void messages_begin(Sweep *s, uint8_t type, const Message *messages)
{
    memset(s, 0, sizeof(*s));
    if (type == FAKERNIC_QP_UD) {
        pair_host_init(&s->p.a, 1);
        pair_host_init(&s->p.b, 2);
        pair_create(&s->p.a, type);
        pair_create(&s->p.b, type);
        datagram_rts(&s->p.a);
        datagram_rts(&s->p.b);
    } else {
        pair_init(&s->p, type);
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const uint32_t at = i * MESSAGE_SIZE;
        RoceSendWr wr = pair_rdma_wr(&s->p.a, &s->p.b, i, messages[i].opcode,
                                     at, messages[i].length);

        pair_fill(s->p.a.memory + at, MESSAGE_SIZE, (uint8_t)(31 * i + 1));
        pair_recv(&s->p.b, 2 * i, RECV_AT + 2 * at, LONG + GRH);
        pair_recv(&s->p.b, 2 * i + 1, RECV_AT + 2 * at + MESSAGE_SIZE,
                  LONG + GRH);
        wr.imm_or_key = i;
        if (type == FAKERNIC_QP_UD) {
            wr.ud.av = pair_av(&s->p.b);
            wr.ud.dest_qpn = s->p.b.qpn;
            wr.ud.qkey = QKEY;
        }
        pair_send(&s->p, &s->p.a, &wr);
    }
}

/* The next message that b receives is this one, complete. */
static void check_message(Sweep *s, uint8_t type, const Message *message,
                          uint32_t i, uint32_t tag)
{
    const RoceCompletion *c = fake_next_completion(s->p.b.host);
    const uint8_t *there = s->p.a.memory + i * MESSAGE_SIZE;
    const uint8_t *here = s->p.b.memory + RECV_AT + tag * MESSAGE_SIZE;

    REQUIRE(c != NULL);
    CHECK_EQ(c->status, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(c->imm_or_key, i);
    CHECK_EQ(c->wqe_index, tag);
    if (message->opcode == FAKERNIC_SQ_RDMA_WRITE_IMM) {
        here = s->p.b.memory + i * MESSAGE_SIZE;
    } else if (type == FAKERNIC_QP_UD) {
        here += GRH;
    }
    CHECK_MEM(here, there, message->length);
}

static uint32_t packets(const Message *message)
{
    return message->length ? (message->length - 1) / PAIR_MTU + 1 : 1;
}

/* The message to which the packet belongs that the rule hit. */
static uint32_t message_hit(const Sweep *s, const Message *messages)
{
    uint32_t packet = (s->faults[0].rules[0].last_psn - PAIR_PSN) & 0xffffff;
    uint32_t i = 0;

    while (i < MESSAGES && packet >= packets(&messages[i])) {
        packet -= packets(&messages[i]);
        i++;
    }
    return i;
}

/* What happens to the message that is hit. All others arrive as usual. */
typedef enum Fate { FATE_LOST, FATE_TWICE, FATE_LAST, FATE_NEXT } Fate;

static void check_messages(Sweep *s, uint8_t type, const Message *messages,
                           Fate fate)
{
    const uint32_t hit = message_hit(s, messages);
    uint32_t tag = 0;

    for (uint32_t i = 0; i < MESSAGES; i++) {
        pair_expect(&s->p.a, messages[i].opcode == FAKERNIC_SQ_SEND_IMM
                                 ? FAKERNIC_CQE_SEND
                                 : FAKERNIC_CQE_RDMA_WRITE,
                    i, FAKERNIC_WC_SUCCESS);
    }
    REQUIRE(hit < MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (i != hit || fate == FATE_TWICE) {
            check_message(s, type, &messages[i], i, tag++);
        }
        if ((i == hit && fate == FATE_TWICE) ||
            (i == hit + 1 && fate == FATE_NEXT)) {
            check_message(s, type, &messages[hit], hit, tag++);
        }
    }
    if (fate == FATE_LAST || (fate == FATE_NEXT && hit == MESSAGES - 1)) {
        check_message(s, type, &messages[hit], hit, tag);
    }
    pair_expect_none(&s->p.b);
}

/* The rule hits each frame in turn. */
static void sweep_messages(uint8_t type, const Message *messages,
                           const char *what, Fate fate)
{
    unsigned k = 0;
    bool hit;

    do {
        char rule[100];
        Sweep s;

        messages_begin(&s, type, messages);
        snprintf(rule, sizeof(rule), "at=tx nth=%u %s", ++k, what);
        arm(&s.faults[0], rule);
        run(&s);
        hit = s.faults[0].rules[0].hits == 1;
        if (hit) {
            check_messages(&s, type, messages, fate);
        }
        pair_free(&s.p);
    } while (hit && !test_failed);
    CHECK(type == FAKERNIC_QP_UD ? k == MESSAGES + 1 : k > 2 * MESSAGES);
    if (test_failed) {
        printf("# type %u, frame %u: %s\n", type, k, what);
    }
}

static void uc_loses_only_the_message_hit(void)
{
    static const char *const losses[] = {
        "do=drop", "do=corrupt", "offset=45 mask=0x10 do=corrupt",
        "bytes=50 do=truncate",
    };

    for (unsigned i = 0; i < TEST_COUNT(losses); i++) {
        sweep_messages(FAKERNIC_QP_UC, uc_messages, losses[i], FATE_LOST);
        sweep_messages(FAKERNIC_QP_UD, ud_messages, losses[i], FATE_LOST);
    }
}

static void fault_affects_only_one_datagram(void)
{
    sweep_messages(FAKERNIC_QP_UD, ud_messages, "do=duplicate", FATE_TWICE);
    sweep_messages(FAKERNIC_QP_UD, ud_messages, "delay-ns=300000000 do=delay",
                   FATE_LAST);
    sweep_messages(FAKERNIC_QP_UD, ud_messages, "by=1 do=reorder", FATE_NEXT);
}

/* ---- UC messages of several packets -------------------------------------- */

#define PACKETS_MAX 64u

/* The message to which a packet belongs, and the packet's number in it. */
static uint32_t packet_of(const Message *messages, uint32_t packet,
                          uint32_t *message)
{
    *message = 0;
    while (packet >= packets(&messages[*message])) {
        packet -= packets(&messages[(*message)++]);
    }
    return packet;
}

/*
 * The messages that packets in this order produce. A gap loses its message, up
 * to the next first packet of any message (IBTA 9.8.2.2).
 */
static uint32_t messages_of(const Message *messages, const uint32_t *order,
                            uint32_t count, uint32_t *found)
{
    uint32_t next = 0, have = 0;
    bool whole = false;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t message;
        const uint32_t at = packet_of(messages, order[i], &message);

        whole = at == 0 || (whole && order[i] == next);
        next = order[i] + 1;
        if (whole && at + 1 == packets(&messages[message])) {
            found[have++] = message;
            whole = false;
        }
    }
    return have;
}

/* The order of packets if the rule hits number k. Returns their number. */
static uint32_t order_of(uint32_t count, uint32_t k, Fate fate, uint32_t *order)
{
    uint32_t have = 0;

    for (uint32_t i = 0; i < count; i++) {
        const bool next = fate == FATE_NEXT && i == k + 1;

        if (i != k || fate == FATE_TWICE) {
            order[have++] = i;
        }
        if ((i == k && fate == FATE_TWICE) || next) {
            order[have++] = k;
        }
    }
    if (have < count) {
        order[have++] = k;
    }
    return have;
}

static void sweep_packet(uint32_t count, uint32_t k, const char *what,
                         Fate fate)
{
    const Message *messages = uc_messages;
    uint32_t order[PACKETS_MAX + 1], found[PACKETS_MAX + 1], have;
    char rule[100];
    Sweep s;

    messages_begin(&s, FAKERNIC_QP_UC, messages);
    snprintf(rule, sizeof(rule), "at=tx nth=%u %s", k + 1, what);
    arm(&s.faults[0], rule);
    run(&s);
    CHECK_EQ(s.faults[0].rules[0].hits, 1);
    have = messages_of(messages, order, order_of(count, k, fate, order), found);
    CHECK(have >= MESSAGES - 2);
    for (uint32_t i = 0; i < have; i++) {
        check_message(&s, FAKERNIC_QP_UC, &messages[found[i]], found[i], i);
    }
    pair_expect_none(&s.p.b);
    pair_free(&s.p);
    if (test_failed) {
        printf("# %s\n", rule);
    }
}

static void sweep_packets(const char *what, Fate fate)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < MESSAGES; i++) {
        count += packets(&uc_messages[i]);
    }
    REQUIRE(count <= PACKETS_MAX);
    for (uint32_t k = 0; k < count && !test_failed; k++) {
        sweep_packet(count, k, what, fate);
    }
}

static void uc_receives_only_messages_in_order(void)
{
    sweep_packets("do=duplicate", FATE_TWICE);
    sweep_packets("delay-ns=300000000 do=delay", FATE_LAST);
    sweep_packets("by=1 do=reorder", FATE_NEXT);
}

static const Test tests[] = {
    TEST(loss_of_each_frame_is_handled),
    TEST(duplicate_of_each_frame_is_handled),
    TEST(corruption_of_each_frame_is_handled),
    TEST(truncation_of_each_frame_is_handled),
    TEST(ecn_mark_of_each_frame_is_handled),
    TEST(delay_of_each_frame_is_handled),
    TEST(reordering_of_each_frame_is_handled),
    TEST(two_losses_at_each_frame_are_handled),
    TEST(failure_of_each_access_is_handled),
    TEST(uc_loses_only_the_message_hit),
    TEST(fault_affects_only_one_datagram),
    TEST(uc_receives_only_messages_in_order),
};
TEST_MAIN(tests)
