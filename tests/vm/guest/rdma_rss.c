/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receive side scaling through the verbs: work queues behind an RSS QP on one
 * device, which sends itself frames of many flows. Each must arrive in the
 * queue of this program's own Toeplitz hash. Then it tests refusals, objects in
 * use, a queue in ERR, and a CQ that overflows. Prints TAP.
 */
#include "verbs_pair.h"

#define QUEUES 8
#define FLOWS 64
#define FRAME 128
#define RECEIVES 64
#define KEY_SIZE 40

static uint8_t key[KEY_SIZE] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
    0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
    0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
    0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const uint8_t destination[6] = { 2, 0, 0, 0, 0, 0x77 };

struct bench {
    struct endpoint end;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_qp *sender, *rss;
    struct ibv_wq *wqs[QUEUES];
    struct ibv_rwq_ind_table *table;
    struct ibv_flow *flow;
    uint8_t *memory;                /* the frame to send, then the receives */
    struct ibv_mr *mr;
};

static int done;

static void report(const char *name)
{
    printf("ok %d - %s\n", ++done, name);
}

#define EXPECT(condition)                                                    \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("not ok %d - line %d: %s\n", done + 1, __LINE__,          \
                   #condition);                                              \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

/* Bit by bit, as the definition has it. */
static uint32_t toeplitz(const uint8_t *input, unsigned len)
{
    uint32_t hash = 0;

    for (unsigned bit = 0; bit < len * 8; bit++) {
        if (input[bit / 8] >> (7 - bit % 8) & 1) {
            for (unsigned i = 0; i < 32; i++) {
                unsigned at = bit + i;

                hash ^= (uint32_t)(key[at / 8] >> (7 - at % 8) & 1) << (31 - i);
            }
        }
    }
    return hash;
}

/* ---- set-up ---------------------------------------------------------- */

static struct ibv_wq *create_wq(struct bench *b, struct ibv_cq *cq)
{
    struct ibv_wq_init_attr attr = {
        .wq_type = IBV_WQT_RQ, .max_wr = RECEIVES, .max_sge = 1,
        .pd = b->end.pd, .cq = cq,
    };
    struct ibv_wq *wq = ibv_create_wq(b->end.context, &attr);

    if (!wq) {
        die("ibv_create_wq");
    }
    return wq;
}

static int wq_to(struct ibv_wq *wq, enum ibv_wq_state state)
{
    struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE,
                                .wq_state = state };

    return ibv_modify_wq(wq, &attr);
}

static int post_wq(struct bench *b, struct ibv_wq *wq, unsigned slot)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)b->memory + FRAME * (1 + slot), .length = FRAME,
        .lkey = b->mr->lkey,
    };
    struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge,
                                    .num_sge = 1 };

    return ibv_post_wq_recv(wq, &wr, &bad);
}

static struct ibv_qp_init_attr_ex rss_attr(struct bench *b)
{
    return (struct ibv_qp_init_attr_ex) {
        .qp_type = IBV_QPT_RAW_PACKET, .pd = b->end.pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
                     IBV_QP_INIT_ATTR_RX_HASH,
        .rwq_ind_tbl = b->table,
        .rx_hash_conf = {
            .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
            .rx_hash_key_len = KEY_SIZE, .rx_hash_key = key,
            .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 |
                                   IBV_RX_HASH_DST_IPV4 |
                                   IBV_RX_HASH_SRC_PORT_UDP |
                                   IBV_RX_HASH_DST_PORT_UDP,
        },
    };
}

/* Frames to 'destination' go to a QP. */
static struct ibv_flow *steer(struct ibv_qp *qp)
{
    struct ibv_flow *flow = steer_frames(qp, destination);

    if (!flow) {
        die("ibv_create_flow");
    }
    return flow;
}

static void create_sender(struct bench *b)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = b->send_cq, .recv_cq = b->send_cq,
        .qp_type = IBV_QPT_RAW_PACKET,
        .cap = { .max_send_wr = 4, .max_send_sge = 1 },
    };
    struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT,
                              .port_num = PORT_NUMBER };

    b->sender = ibv_create_qp(b->end.pd, &attr);
    if (!b->sender || ibv_modify_qp(b->sender, &to,
                                    IBV_QP_STATE | IBV_QP_PORT)) {
        die("raw packet QP");
    }
    to.qp_state = IBV_QPS_RTR;
    EXPECT(!ibv_modify_qp(b->sender, &to, IBV_QP_STATE));
    to.qp_state = IBV_QPS_RTS;
    EXPECT(!ibv_modify_qp(b->sender, &to, IBV_QP_STATE));
}

static void set_up(struct bench *b)
{
    const size_t size = FRAME * (1 + RECEIVES);
    struct ibv_rwq_ind_table_init_attr table = { .log_ind_tbl_size = 3,
                                                 .ind_tbl = b->wqs };
    struct ibv_qp_init_attr_ex attr;

    open_endpoint(&b->end);
    b->memory = calloc(1, size);
    b->mr = ibv_reg_mr(b->end.pd, b->memory, size, IBV_ACCESS_LOCAL_WRITE);
    b->send_cq = ibv_create_cq(b->end.context, 16, NULL, NULL, 0);
    b->recv_cq = ibv_create_cq(b->end.context, QUEUES * RECEIVES, NULL, NULL,
                               0);
    if (!b->mr || !b->send_cq || !b->recv_cq) {
        die("memory and CQs");
    }
    create_sender(b);
    for (unsigned i = 0; i < QUEUES; i++) {
        b->wqs[i] = create_wq(b, b->recv_cq);
        EXPECT(!wq_to(b->wqs[i], IBV_WQS_RDY));
    }
    b->table = ibv_create_rwq_ind_table(b->end.context, &table);
    if (!b->table) {
        die("ibv_create_rwq_ind_table");
    }
    attr = rss_attr(b);
    b->rss = ibv_create_qp_ex(b->end.context, &attr);
    if (!b->rss) {
        die("ibv_create_qp_ex with a table");
    }
    b->flow = steer(b->rss);
}

/* ---- frames ---------------------------------------------------------- */

/* UDP over IPv4 of a flow; the input of its hash. */
static void make_frame(struct bench *b, unsigned flow, uint8_t input[12])
{
    uint8_t *frame = b->memory;
    uint8_t ip[28] = { 0x45, 0, 0, FRAME - 14, [8] = 64, 17 };

    for (unsigned i = 0; i < FRAME; i++) {
        frame[i] = (uint8_t)(flow + i);
    }
    memcpy(frame, destination, 6);
    memcpy(frame + 6, "\x02\0\0\0\0\x09", 6);
    frame[12] = 0x08;
    frame[13] = 0x00;
    memcpy(input, "\x0a\0\0\x09\x0a\0\0\x01\0\0\x1e\x61", 12);
    input[3] = (uint8_t)(9 + flow % 5);
    input[8] = 0x40;
    input[9] = (uint8_t)(flow * 7);
    memcpy(ip + 12, input, 12);
    memcpy(frame + 14, ip, sizeof(ip));
}

static void send_frame(struct bench *b)
{
    struct ibv_sge sge = { .addr = (uintptr_t)b->memory, .length = FRAME,
                           .lkey = b->mr->lkey };

    post(b->sender, IBV_WR_SEND, &sge, 0, 0, 0);
    EXPECT(next_completion(b->send_cq).status == IBV_WC_SUCCESS);
}

static void each_flow_to_its_queue(struct bench *b)
{
    unsigned frames[QUEUES] = { 0 }, used = 0;

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned flow = 0; flow < FLOWS; flow++) {
            uint8_t input[12];
            unsigned queue;
            struct ibv_wc wc;

            make_frame(b, flow, input);
            queue = toeplitz(input, sizeof(input)) % QUEUES;
            for (unsigned i = 0; i < QUEUES && !round && !flow; i++) {
                EXPECT(!post_wq(b, b->wqs[i], i));
            }
            memset(b->memory + FRAME * (1 + queue), 0, FRAME);
            send_frame(b);
            wc = next_completion(b->recv_cq);
            EXPECT(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
            EXPECT(wc.qp_num == b->wqs[queue]->wq_num);
            EXPECT(wc.wr_id == queue && wc.byte_len == FRAME);
            EXPECT(!memcmp(b->memory + FRAME * (1 + queue), b->memory, FRAME));
            EXPECT(!ibv_poll_cq(b->recv_cq, 1, &wc));
            EXPECT(!post_wq(b, b->wqs[queue], queue));
            used += !frames[queue]++;
        }
    }
    EXPECT(used == QUEUES);
    report("each flow comes to the queue of its hash, and all are used");
}

/* ---- refusals, references, errors ------------------------------------ */

static void tells_its_limits(struct bench *b)
{
    struct ibv_device_attr_ex attr;

    EXPECT(!ibv_query_device_ex(b->end.context, NULL, &attr));
    EXPECT(attr.rss_caps.supported_qpts == 1 << IBV_QPT_RAW_PACKET);
    EXPECT(attr.rss_caps.max_rwq_indirection_tables >= 1);
    EXPECT(attr.rss_caps.max_rwq_indirection_table_size >= QUEUES);
    EXPECT(attr.rss_caps.rx_hash_function & IBV_RX_HASH_FUNC_TOEPLITZ);
    EXPECT((attr.rss_caps.rx_hash_fields_mask & 0xff) == 0xff);
    EXPECT(attr.max_wq_type_rq >= QUEUES);
    report("the limits are reported");
}

static void refuses(struct bench *b)
{
    struct ibv_rwq_ind_table_init_attr table = { .log_ind_tbl_size = 10 };
    struct ibv_wq *many[1 << 10];
    struct ibv_qp_init_attr_ex attr = rss_attr(b);

    for (unsigned i = 0; i < 1 << 10; i++) {
        many[i] = b->wqs[i % QUEUES];
    }
    table.ind_tbl = many;
    EXPECT(!ibv_create_rwq_ind_table(b->end.context, &table) &&
           errno == EINVAL);
    attr.qp_type = IBV_QPT_UD;
    EXPECT(!ibv_create_qp_ex(b->end.context, &attr) && errno == EOPNOTSUPP);
    attr = rss_attr(b);
    attr.rx_hash_conf.rx_hash_key_len = KEY_SIZE - 1;
    EXPECT(!ibv_create_qp_ex(b->end.context, &attr) && errno == EINVAL);
    attr = rss_attr(b);
    attr.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_INNER;
    EXPECT(!ibv_create_qp_ex(b->end.context, &attr) && errno == EOPNOTSUPP);
    report("invalid attributes are refused");
}

static void holds_on(struct bench *b)
{
    EXPECT(ibv_destroy_wq(b->wqs[0]) == EBUSY);
    EXPECT(ibv_destroy_rwq_ind_table(b->table) == EBUSY);
    EXPECT(ibv_destroy_cq(b->recv_cq) == EBUSY);
    EXPECT(ibv_destroy_qp(b->rss) == EBUSY);
    report("objects in use cannot be destroyed");
}

/* A queue in ERR flushes; in RESET it takes nothing; then it is as new. */
static void queue_goes_and_comes_back(struct bench *b)
{
    struct ibv_wq *wq;
    uint8_t input[12];
    struct ibv_wc wc;

    make_frame(b, 1, input);
    wq = b->wqs[toeplitz(input, sizeof(input)) % QUEUES];
    EXPECT(!wq_to(wq, IBV_WQS_ERR));
    wc = next_completion(b->recv_cq);
    EXPECT(wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == wq->wq_num);
    send_frame(b);
    EXPECT(wq_to(wq, IBV_WQS_RDY) == EINVAL);
    EXPECT(!wq_to(wq, IBV_WQS_RESET));
    EXPECT(post_wq(b, wq, 40) == EINVAL);
    send_frame(b);
    EXPECT(!wq_to(wq, IBV_WQS_RDY));
    send_frame(b);
    EXPECT(!ibv_poll_cq(b->recv_cq, 1, &wc));
    EXPECT(!post_wq(b, wq, 41));
    send_frame(b);
    wc = next_completion(b->recv_cq);
    EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == 41);
    report("a queue goes to ERR and comes back");
}

static void tear_down(struct bench *b)
{
    EXPECT(!ibv_destroy_flow(b->flow));
    EXPECT(!ibv_destroy_qp(b->rss));
    EXPECT(!ibv_destroy_rwq_ind_table(b->table));
    for (unsigned i = 0; i < QUEUES; i++) {
        EXPECT(!ibv_destroy_wq(b->wqs[i]));
    }
    EXPECT(!ibv_destroy_cq(b->recv_cq));
    report("all objects are destroyed");
}

/* A CQ of two entries and three frames: the WQ gets a fatal event. */
static void a_full_cq_breaks_the_queue(struct bench *b)
{
    struct ibv_cq *cq = ibv_create_cq(b->end.context, 2, NULL, NULL, 0);
    struct ibv_wq *wq = create_wq(b, cq);
    struct ibv_rwq_ind_table_init_attr init = { .ind_tbl = &wq };
    bool cq_event = false, wq_event = false;
    struct ibv_async_event event;
    struct ibv_qp_init_attr_ex attr;
    uint8_t input[12];

    EXPECT(!wq_to(wq, IBV_WQS_RDY));
    b->table = ibv_create_rwq_ind_table(b->end.context, &init);
    attr = rss_attr(b);
    b->rss = ibv_create_qp_ex(b->end.context, &attr);
    b->flow = steer(b->rss);
    make_frame(b, 2, input);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT(!post_wq(b, wq, i));
    }
    for (unsigned i = 0; i < 3; i++) {
        send_frame(b);
    }
    while (!cq_event || !wq_event) {
        EXPECT(!ibv_get_async_event(b->end.context, &event));
        cq_event |= event.event_type == IBV_EVENT_CQ_ERR &&
                    event.element.cq == cq;
        wq_event |= event.event_type == IBV_EVENT_WQ_FATAL &&
                    event.element.wq == wq;
        ibv_ack_async_event(&event);
    }
    EXPECT(!ibv_destroy_flow(b->flow) && !ibv_destroy_qp(b->rss));
    EXPECT(!ibv_destroy_rwq_ind_table(b->table));
    EXPECT(!ibv_destroy_wq(wq) && !ibv_destroy_cq(cq));
    report("a full CQ breaks its queue, which is reported");
}

int main(void)
{
    struct bench b = { 0 };

    alarm(120);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..7\n");
    set_up(&b);
    tells_its_limits(&b);
    each_flow_to_its_queue(&b);
    refuses(&b);
    holds_on(&b);
    queue_goes_and_comes_back(&b);
    tear_down(&b);
    a_full_cq_breaks_the_queue(&b);
    EXPECT(!ibv_destroy_qp(b.sender) && !ibv_destroy_cq(b.send_cq));
    return 0;
}
