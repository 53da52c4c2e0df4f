/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_sweep | rdma_sweep SERVER-ADDRESS: a small program of every kind of
 * operation, for fault rules to hit.
 *
 * The server serves one client after the other, each in a process of its own.
 * A client ends with 0 if all went well, with 1 and a line on standard error if
 * something was refused or completed in error, and with 3 if it was told of
 * success and a byte is wrong, here or at the server.
 */
#include "meet.h"

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

struct side {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *memory;
    struct ibv_mr *mr;
    struct address peer;
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
        fprintf(stderr, "%s has brought other bytes\n", what);
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

static void set_up(struct side *side)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct address own;

    open_endpoint(&side->end);
    side->end.mtu = MTU;
    side->memory = aligned_alloc(4096, SIZE);
    memset(side->memory, 0, SIZE);
    side->mr = ibv_reg_mr(side->end.pd, side->memory, SIZE, access);
    if (!side->mr) {
        die("ibv_reg_mr");
    }
    side->cq = ibv_create_cq(side->end.context, 16, NULL, NULL, 0);
    if (!side->cq) {
        die("ibv_create_cq");
    }
    side->qp = create_rc(&side->end, side->cq);
    own = (struct address) { .gid = side->end.gid, .qpn = side->qp->qp_num,
                             .psn = 0xfffffe, .rkey = side->mr->rkey,
                             .buffer = (uintptr_t)side->memory };
    swap(side->sock, &own, &side->peer, sizeof(own));
    connect_rc(&side->end, side->qp, &side->peer, own.psn, access, 14, 7);
}

static void take_down(struct side *side)
{
    if (ibv_destroy_qp(side->qp)) {
        die("ibv_destroy_qp");
    }
    if (ibv_dereg_mr(side->mr)) {
        die("ibv_dereg_mr");
    }
    if (ibv_destroy_cq(side->cq)) {
        die("ibv_destroy_cq");
    }
    if (ibv_dealloc_pd(side->end.pd)) {
        die("ibv_dealloc_pd");
    }
    if (ibv_close_device(side->end.context)) {
        die("ibv_close_device");
    }
}

/* An event that tells of an error ends the program. */
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

static void complete(struct side *side, unsigned count)
{
    const double end = seconds_now() + PATIENCE_S;

    for (unsigned done = 0, looks = 0; done < count; looks++) {
        struct ibv_wc wc;
        const int found = ibv_poll_cq(side->cq, 1, &wc);

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
    int error = ibv_post_recv(side->qp, &wr, &bad);

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
    complete(side, 5);
    compare(side, "RDMA READ", READ_AT, LONG, FROM_SERVER);
    compare_word(side, "FETCH_ADD's answer", BEFORE);
    meet_again(side);
    meet_again(side);           /* the server has looked */
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
    complete(side, 2);
    compare(side, "RDMA WRITE", WRITE_AT, LONG, FROM_CLIENT);
    compare(side, "SEND", SEND_AT, SHORT, FROM_CLIENT);
    compare(side, "WRITE with immediate", IMM_AT, SHORT, FROM_CLIENT);
    compare_word(side, "FETCH_ADD", BEFORE + ADDED);
    meet_again(side);
}

static int run(int sock, bool client)
{
    struct side side = { .sock = sock };

    set_up(&side);
    (client ? ask : answer)(&side);
    take_down(&side);
    return side.wrong ? WRONG : 0;
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
            exit(run(client, false));
        }
        close(client);
        wait(NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: rdma_sweep [SERVER]\n");
        return 2;
    }
    return argc == 1 ? serve() : run(meet(argv[1], TCP_PORT), true);
}
