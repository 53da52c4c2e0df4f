/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_every_op | rdma_every_op SERVER-ADDRESS [rc|xrc|uc|ud]: runs every kind
 * of operation of a service once, as a target for fault rules.
 *
 * The server serves one client after the other, each in a process of its own.
 * A client exits with 0 if all requests succeeded and all bytes are right. It
 * exits with 1 and an error message if a request was refused or failed. It
 * exits with 3 if all requests succeeded but a byte is wrong on either side.
 *
 * UC and UD may lose messages. The client sends a final message over RC, so
 * that the server knows which messages have arrived by then. The client prints
 * the packet count of each message and the numbers of the missing ones.
 */
#include "meet.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#define TCP_PORT "18604"
#define PATIENCE_S 20
#define MTU IBV_MTU_256
#define LONG 700u               /* three packets */
#define SHORT 100u
#define WORD 8u
#define IMM 0xabcu
#define WRONG 3

/* One half of the memory is what this side sends or reads, the other not. */
enum { WRITE_AT = 0, SEND_AT = 1024, READ_AT = 2048, IMM_AT = 3072,
       ATOMIC_AT = 4096, SIZE = 8192 };
enum { FROM_CLIENT = 3, FROM_SERVER = 5, BEFORE = 60, ADDED = 7 };

/* Messages of UC and UD: the sender's, the room for WRITEs, and receives. */
#define MESSAGES 6u
#define ROOM 1024u
#define GRH_SIZE 40u
#define QKEY 0x1234567u
#define FIRST_PSN 0xfffffeu
enum { MESSAGES_AT = SIZE, WRITES_AT = SIZE + MESSAGES * ROOM,
       RECEIVES_AT = WRITES_AT + MESSAGES * ROOM,
       WHOLE_SIZE = RECEIVES_AT + MESSAGES * ROOM };

enum service { RC, XRC, UC, UD, SERVICES };

static const char *const services[] = { "rc", "xrc", "uc", "ud" };

/* What the sides exchange before they connect. */
struct offer {
    struct address main;        /* of the QP for RC or XRC */
    uint32_t srqn;              /* of XRC */
    uint32_t qpn;               /* of the QP for UC or UD */
};

struct side {
    struct endpoint end;
    enum service service;
    bool client;
    struct ibv_cq *cq;
    struct ibv_qp *qp;          /* RC or XRC */
    struct ibv_xrcd *xrcd;
    struct ibv_srq *srq;
    struct ibv_cq *messages_cq;
    struct ibv_qp *messages_qp; /* UC or UD */
    struct ibv_ah *ah;
    uint8_t *memory;
    struct ibv_mr *mr;
    struct address peer;
    uint32_t peer_srqn, peer_qpn;
    int sock;
    bool wrong;
};

static void fill(uint8_t *at, uint32_t length, uint8_t seed)
{
    for (uint32_t i = 0; i < length; i++) {
        at[i] = (uint8_t)(seed * i + i / 256 + seed);
    }
}

static void compare(struct side *side, const char *what, uint32_t at,
                    uint32_t length, uint8_t seed)
{
    uint8_t expected[LONG];

    fill(expected, length, seed);
    if (memcmp(side->memory + at, expected, length)) {
        fprintf(stderr, "wrong bytes after %s\n", what);
        side->wrong = true;
    }
}

static void compare_word(struct side *side, const char *what, uint64_t expected)
{
    uint64_t value;

    memcpy(&value, side->memory + ATOMIC_AT, WORD);
    if (value != expected) {
        fprintf(stderr, "%s: %ju, not %ju\n", what, (uintmax_t)value,
                (uintmax_t)expected);
        side->wrong = true;
    }
}

/* ---- objects ------------------------------------------------------------- */

static bool is_unreliable(enum service service)
{
    return service == UC || service == UD;
}

/* The server's receives are those of a shared queue. */
static void create_xrc(struct side *side)
{
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        .fd = -1, .oflags = O_CREAT,
    };
    struct ibv_srq_init_attr_ex srq = {
        .attr = { .max_wr = 16, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
        .cq = side->cq, .pd = side->end.pd,
    };
    struct ibv_qp_init_attr_ex target = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
    };
    struct ibv_qp_init_attr_ex initiator = {
        .qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = side->end.pd, .send_cq = side->cq,
        .cap = { .max_send_wr = 16, .max_send_sge = 1 },
    };

    if (side->client) {
        side->qp = ibv_create_qp_ex(side->end.context, &initiator);
    } else {
        side->xrcd = ibv_open_xrcd(side->end.context, &domain);
        if (!side->xrcd) {
            die("ibv_open_xrcd");
        }
        srq.xrcd = target.xrcd = side->xrcd;
        side->srq = ibv_create_srq_ex(side->end.context, &srq);
        if (!side->srq) {
            die("ibv_create_srq_ex");
        }
        side->qp = ibv_create_qp_ex(side->end.context, &target);
    }
    if (!side->qp) {
        die("ibv_create_qp_ex");
    }
}

static void create_unreliable(struct side *side)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = side->service == UC ? IBV_QPT_UC : IBV_QPT_UD,
        .cap = { .max_send_wr = 16, .max_recv_wr = 16,
                 .max_send_sge = 1, .max_recv_sge = 1 },
    };

    side->messages_cq = ibv_create_cq(side->end.context, 16, NULL, NULL, 0);
    if (!side->messages_cq) {
        die("ibv_create_cq");
    }
    attr.send_cq = attr.recv_cq = side->messages_cq;
    side->messages_qp = ibv_create_qp(side->end.pd, &attr);
    if (!side->messages_qp) {
        die("ibv_create_qp");
    }
}

static void to_state(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
    if (ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE)) {
        die("modify to state %d", attr.qp_state);
    }
}

static struct ibv_ah_attr route(const struct side *side)
{
    return (struct ibv_ah_attr) {
        .is_global = 1, .port_num = PORT_NUMBER,
        .grh = { .dgid = side->peer.gid, .sgid_index = side->end.gid_index,
                 .hop_limit = 64 },
    };
}

/* The target does not send, the initiator does not receive. */
static void connect_xrc(struct side *side, int access)
{
    to_state(side->qp, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER,
                           .qp_access_flags = access,
    }, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to_state(side->qp, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_RTR, .path_mtu = MTU,
        .dest_qp_num = side->peer.qpn, .rq_psn = FIRST_PSN,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = route(side),
    }, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
       (side->client ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    if (side->client) {
        to_state(side->qp, (struct ibv_qp_attr) {
            .qp_state = IBV_QPS_RTS, .sq_psn = FIRST_PSN, .timeout = 14,
            .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
        }, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    }
}

static void connect_uc(struct side *side)
{
    to_state(side->messages_qp, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    }, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to_state(side->messages_qp, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_RTR, .path_mtu = MTU,
        .dest_qp_num = side->peer_qpn, .rq_psn = FIRST_PSN,
                                    .ah_attr = route(side),
    }, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
    to_state(side->messages_qp, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_RTS, .sq_psn = FIRST_PSN,
    }, IBV_QP_SQ_PSN);
}

static void connect_ud(struct side *side)
{
    struct ibv_ah_attr attr = route(side);

    to_state(side->messages_qp, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER, .qkey = QKEY,
    }, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    to_state(side->messages_qp,
             (struct ibv_qp_attr) { .qp_state = IBV_QPS_RTR }, 0);
    to_state(side->messages_qp,
             (struct ibv_qp_attr) { .qp_state = IBV_QPS_RTS }, IBV_QP_SQ_PSN);
    side->ah = ibv_create_ah(side->end.pd, &attr);
    if (!side->ah) {
        die("ibv_create_ah");
    }
}

static void create(struct side *side, int access)
{
    open_endpoint(&side->end);
    side->end.mtu = MTU;
    side->memory = aligned_alloc(4096, WHOLE_SIZE);
    memset(side->memory, 0, WHOLE_SIZE);
    side->mr = ibv_reg_mr(side->end.pd, side->memory, WHOLE_SIZE, access);
    if (!side->mr) {
        die("ibv_reg_mr");
    }
    side->cq = ibv_create_cq(side->end.context, 16, NULL, NULL, 0);
    if (!side->cq) {
        die("ibv_create_cq");
    }
    if (side->service == XRC) {
        create_xrc(side);
    } else {
        side->qp = create_rc(&side->end, side->cq);
    }
    if (is_unreliable(side->service)) {
        create_unreliable(side);
    }
}

static void set_up(struct side *side)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct offer own = { 0 }, peer;

    create(side, access);
    own.main = (struct address) {
        .gid = side->end.gid, .qpn = side->qp->qp_num, .psn = FIRST_PSN,
        .rkey = side->mr->rkey, .buffer = (uintptr_t)side->memory,
    };
    if (side->srq && ibv_get_srq_num(side->srq, &own.srqn)) {
        die("ibv_get_srq_num");
    }
    own.qpn = side->messages_qp ? side->messages_qp->qp_num : 0;
    swap(side->sock, &own, &peer, sizeof(own));
    side->peer = peer.main;
    side->peer_srqn = peer.srqn;
    side->peer_qpn = peer.qpn;
    if (side->service == XRC) {
        connect_xrc(side, access);
    } else {
        connect_rc(&side->end, side->qp, &side->peer, FIRST_PSN, access, 14,
                   7);
    }
    if (side->service == UC) {
        connect_uc(side);
    } else if (side->service == UD) {
        connect_ud(side);
    }
}

static void take_down(struct side *side)
{
    if (side->ah && ibv_destroy_ah(side->ah)) {
        die("ibv_destroy_ah");
    }
    if (ibv_destroy_qp(side->qp) ||
        (side->messages_qp && ibv_destroy_qp(side->messages_qp))) {
        die("ibv_destroy_qp");
    }
    if (side->srq && ibv_destroy_srq(side->srq)) {
        die("ibv_destroy_srq");
    }
    if (side->xrcd && ibv_close_xrcd(side->xrcd)) {
        die("ibv_close_xrcd");
    }
    if (ibv_dereg_mr(side->mr)) {
        die("ibv_dereg_mr");
    }
    if (ibv_destroy_cq(side->cq) ||
        (side->messages_cq && ibv_destroy_cq(side->messages_cq))) {
        die("ibv_destroy_cq");
    }
    if (ibv_dealloc_pd(side->end.pd)) {
        die("ibv_dealloc_pd");
    }
    if (ibv_close_device(side->end.context)) {
        die("ibv_close_device");
    }
}

/* ---- requests ------------------------------------------------------------ */

/* An event that reports an error ends the program. */
static void hear(struct ibv_context *context)
{
    struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
    struct ibv_async_event event;

    if (poll(&fd, 1, 0) < 1 || ibv_get_async_event(context, &event)) {
        return;
    }
    ibv_ack_async_event(&event);
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_DEVICE_FATAL:
        errno = EIO;
        die("event: %s", ibv_event_type_str(event.event_type));
    default:
        break;
    }
}

static void complete(struct side *side, struct ibv_cq *cq, unsigned count)
{
    const double end = seconds_now() + PATIENCE_S;

    for (unsigned done = 0, looks = 0; done < count; looks++) {
        struct ibv_wc wc;
        const int found = ibv_poll_cq(cq, 1, &wc);

        if (found < 0) {
            die("ibv_poll_cq");
        }
        if (found && wc.status) {
            errno = EIO;
            die("completion %u: %s", done, ibv_wc_status_str(wc.status));
        }
        done += found;
        if (!found && looks % 1024 == 1023) {
            hear(side->end.context);
        }
        if (!found && seconds_now() > end) {
            errno = ETIMEDOUT;
            die("completion %u is missing", done);
        }
    }
}

static void request(struct side *side, enum ibv_wr_opcode opcode, uint32_t at,
                    uint32_t length)
{
    struct ibv_sge sge = { (uintptr_t)side->memory + at, length,
                           side->mr->lkey };
    struct ibv_send_wr *bad, wr = {
        .wr_id = opcode, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(IMM),
    };
    int error;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = side->peer.buffer + at;
        wr.wr.atomic.rkey = side->peer.rkey;
        wr.wr.atomic.compare_add = ADDED;
    } else {
        wr.wr.rdma.remote_addr = side->peer.buffer + at;
        wr.wr.rdma.rkey = side->peer.rkey;
    }
    if (side->service == XRC) {
        wr.qp_type.xrc.remote_srqn = side->peer_srqn;
    }
    error = ibv_post_send(side->qp, &wr, &bad);
    if (error) {
        errno = error;
        die("ibv_post_send");
    }
}

static void expect_message(struct side *side, uint32_t length)
{
    struct ibv_sge sge = { (uintptr_t)side->memory + SEND_AT, length,
                           side->mr->lkey };
    struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
    int error = side->srq ? ibv_post_srq_recv(side->srq, &wr, &bad) :
                            ibv_post_recv(side->qp, &wr, &bad);

    if (error) {
        errno = error;
        die("ibv_post_recv");
    }
}

static void meet_again(struct side *side)
{
    char own = side->wrong ? 'w' : 'y', peer;

    swap(side->sock, &own, &peer, 1);
    side->wrong |= peer == 'w';
}

static void ask(struct side *side)
{
    fill(side->memory + WRITE_AT, LONG, FROM_CLIENT);
    fill(side->memory + SEND_AT, SHORT, FROM_CLIENT);
    fill(side->memory + IMM_AT, SHORT, FROM_CLIENT);
    meet_again(side);           /* the server's receives are posted */
    request(side, IBV_WR_RDMA_WRITE, WRITE_AT, LONG);
    request(side, IBV_WR_SEND, SEND_AT, SHORT);
    request(side, IBV_WR_RDMA_READ, READ_AT, LONG);
    request(side, IBV_WR_ATOMIC_FETCH_AND_ADD, ATOMIC_AT, WORD);
    request(side, IBV_WR_RDMA_WRITE_WITH_IMM, IMM_AT, SHORT);
    complete(side, side->cq, 5);
    compare(side, "RDMA READ", READ_AT, LONG, FROM_SERVER);
    compare_word(side, "FETCH_ADD's answer", BEFORE);
    meet_again(side);
    meet_again(side);           /* the server has checked */
}

static void answer(struct side *side)
{
    const uint64_t before = BEFORE;

    fill(side->memory + READ_AT, LONG, FROM_SERVER);
    memcpy(side->memory + ATOMIC_AT, &before, WORD);
    expect_message(side, SHORT);
    expect_message(side, SHORT);
    meet_again(side);
    meet_again(side);           /* the client has all its completions */
    complete(side, side->cq, 2);
    compare(side, "RDMA WRITE", WRITE_AT, LONG, FROM_CLIENT);
    compare(side, "SEND", SEND_AT, SHORT, FROM_CLIENT);
    compare(side, "WRITE with immediate", IMM_AT, SHORT, FROM_CLIENT);
    compare_word(side, "FETCH_ADD", BEFORE + ADDED);
    meet_again(side);
}

/* ---- messages that may be lost ------------------------------------------- */

/* Over UC every other is written; the third and fourth take three packets. */
static uint32_t length_of(unsigned message)
{
    return message & 2 ? LONG : SHORT;
}

static bool is_written(const struct side *side, unsigned message)
{
    return side->service == UC && message & 1;
}

static unsigned packets_of(const struct side *side, unsigned message)
{
    const uint32_t mtu = 128u << MTU;

    return side->service == UD ? 1 : (length_of(message) + mtu - 1) / mtu;
}

static uint8_t seed_of(unsigned message)
{
    return 2 * message + 11;
}

static void send_message(struct side *side, unsigned message)
{
    const uint32_t at = MESSAGES_AT + message * ROOM;
    struct ibv_sge sge = { (uintptr_t)side->memory + at, length_of(message),
                           side->mr->lkey };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
        .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(message),
    };
    int error;

    fill(side->memory + at, length_of(message), seed_of(message));
    if (side->service == UD) {
        wr.wr.ud.ah = side->ah;
        wr.wr.ud.remote_qpn = side->peer_qpn;
        wr.wr.ud.remote_qkey = QKEY;
    } else if (is_written(side, message)) {
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.wr.rdma.remote_addr = side->peer.buffer + WRITES_AT +
                                 message * ROOM;
        wr.wr.rdma.rkey = side->peer.rkey;
    }
    error = ibv_post_send(side->messages_qp, &wr, &bad);
    if (error) {
        errno = error;
        die("ibv_post_send");
    }
}

static void expect_messages(struct side *side)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct ibv_sge sge = {
            (uintptr_t)side->memory + RECEIVES_AT + i * ROOM,
            GRH_SIZE + LONG, side->mr->lkey,
        };
        struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge,
                                        .num_sge = 1 };
        int error = ibv_post_recv(side->messages_qp, &wr, &bad);

        if (error) {
            errno = error;
            die("ibv_post_recv");
        }
    }
}

/* Returns the number of the message, and whether its data is right. */
static void take_message(struct side *side, const struct ibv_wc *wc,
                         uint8_t arrived[MESSAGES])
{
    const uint32_t grh = side->service == UD ? GRH_SIZE : 0;
    const unsigned message = ntohl(wc->imm_data);
    uint32_t at;

    if (!(wc->wc_flags & IBV_WC_WITH_IMM) || message >= MESSAGES ||
        wc->byte_len != grh + length_of(message) || arrived[message]) {
        fprintf(stderr, "unknown message %u of %u bytes\n", message,
                wc->byte_len);
        side->wrong = true;
        return;
    }
    arrived[message] = 1;
    at = is_written(side, message) ? WRITES_AT + message * ROOM :
         RECEIVES_AT + (uint32_t)wc->wr_id * ROOM + grh;
    compare(side, "a message", at, length_of(message), seed_of(message));
}

static void take_messages(struct side *side, uint8_t arrived[MESSAGES])
{
    struct ibv_wc wc;
    int found;

    while ((found = ibv_poll_cq(side->messages_cq, 1, &wc)) > 0) {
        if (wc.status) {
            errno = EIO;
            die("a message: %s", ibv_wc_status_str(wc.status));
        }
        take_message(side, &wc, arrived);
    }
    if (found < 0) {
        die("ibv_poll_cq");
    }
}

/* Two cards and a wire keep the order of frames. */
static void tell(struct side *side)
{
    uint8_t none[MESSAGES] = { 0 }, arrived[MESSAGES];

    meet_again(side);           /* the server's receives are posted */
    for (unsigned i = 0; i < MESSAGES; i++) {
        send_message(side, i);
    }
    complete(side, side->messages_cq, MESSAGES);
    request(side, IBV_WR_SEND, SEND_AT, SHORT);
    complete(side, side->cq, 1);
    swap(side->sock, none, arrived, sizeof(arrived));
    meet_again(side);           /* the server has checked */
    printf("packets");
    for (unsigned i = 0; i < MESSAGES; i++) {
        printf(" %u", packets_of(side, i));
    }
    printf("\nmissing");
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (!arrived[i]) {
            printf(" %u", i);
        }
    }
    printf("\n");
}

static void hear_out(struct side *side)
{
    uint8_t arrived[MESSAGES] = { 0 }, none[MESSAGES];

    expect_messages(side);
    expect_message(side, SHORT);
    meet_again(side);
    complete(side, side->cq, 1);
    take_messages(side, arrived);
    swap(side->sock, arrived, none, sizeof(none));
    meet_again(side);
}

/* ---- both sides ---------------------------------------------------------- */

static int run(int sock, bool client, enum service service)
{
    struct side side = { .sock = sock, .client = client, .service = service };

    set_up(&side);
    if (is_unreliable(service)) {
        (client ? tell : hear_out)(&side);
    } else {
        (client ? ask : answer)(&side);
    }
    take_down(&side);
    return side.wrong ? WRONG : 0;
}

/* The server does as the client says. */
static int run_client(const char *server, enum service service)
{
    const int sock = meet(server, TCP_PORT);
    const uint8_t own = service;

    if (write(sock, &own, 1) != 1) {
        die("write");
    }
    return run(sock, true, service);
}

static int run_server(int sock)
{
    uint8_t wanted;

    if (recv(sock, &wanted, 1, 0) != 1 || wanted >= SERVICES) {
        die("unknown request of the client");
    }
    return run(sock, false, wanted);
}

static int serve(void)
{
    struct sockaddr_in6 any = {
        .sin6_family = AF_INET6, .sin6_port = htons(atoi(TCP_PORT)),
    };
    int one = 1, sock = socket(AF_INET6, SOCK_STREAM, 0);

    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (sock < 0 || bind(sock, (void *)&any, sizeof(any)) || listen(sock, 1)) {
        die("listen");
    }
    for (;;) {
        const int client = accept(sock, NULL, NULL);

        if (client < 0) {
            die("accept");
        }
        if (fork() == 0) {
            close(sock);
            exit(run_server(keep_asking(client)));
        }
        close(client);
        wait(NULL);
    }
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 2 ? argv[2] : services[RC];
    unsigned service = 0;

    while (service < SERVICES && strcmp(services[service], wanted)) {
        service++;
    }
    if (argc > 3 || service == SERVICES) {
        fprintf(stderr, "usage: rdma_every_op [SERVER [rc|xrc|uc|ud]]\n");
        return 2;
    }
    return argc == 1 ? serve() : run_client(argv[1], service);
}
