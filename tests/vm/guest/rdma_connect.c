/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_connect [-n COUNT] [-w WINDOW] [-k FILE] [-g SECONDS] -s | ADDRESS...
 *
 * Opens COUNT connections with librdmacm, and closes them. WINDOW of them are
 * opened or closed at the same time, which hides the latency of each. They use
 * the ADDRESSES in turn. Every connection has a number, which both sides send
 * in the private data of REQ and REP, and then in a SEND whose bytes are
 * compared. Any event may end a connection: the program prints the number of
 * each event, and the tests judge.
 *
 * With -k, until FILE exists the client keeps its connections open and the
 * server does not answer a request. With -g the client abandons a connection
 * that is not established after SECONDS.
 */
#include "verbs_pair.h"

#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#define CM_PORT "18610"
#define RESOLVE_MS 5000
#define TICK_MS 100
#define STALL_S 150             /* the CM times out after 103 s at most */
#define BACKLOG 1024
#define MESSAGE 64
#define EVENTS (RDMA_CM_EVENT_TIMEWAIT_EXIT + 1)

struct connection {
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint32_t number;
    double start;
    bool answered;
    bool verified;
    bool ending;                /* one side has disconnected */
    uint8_t sent[MESSAGE];
    uint8_t received[MESSAGE];
};

/* The options, and the progress. */
static struct {
    bool server;
    uint32_t wanted;
    uint32_t window;
    double give_up_s;
    const char *hold;
    bool held;
    uint32_t started;
    uint32_t open;              /* verified, and not disconnected */
    uint32_t ended;
    uint32_t verified;
    uint32_t given_up;
    uint32_t too_late;          /* to be accepted: the client is gone */
    uint32_t events[EVENTS];
    int status[EVENTS];         /* of the last one */
} run = { .wanted = 1, .window = 1 };

static struct rdma_event_channel *cm_channel;
static struct ibv_comp_channel *cq_channel;
static struct connection **connections;

/* ---- the messages ------------------------------------------------------- */

/* What connection NUMBER sends: the two directions differ. */
static void fill(uint8_t *message, uint32_t number, bool from_server)
{
    for (uint32_t i = 0; i < MESSAGE; i++) {
        message[i] = (number >> 8 * (i % 4)) ^ i * 37 ^
                     (from_server ? 0xff : 0);
    }
}

static void expect(const uint8_t *message, uint32_t number, bool from_server)
{
    uint8_t right[MESSAGE];

    fill(right, number, from_server);
    if (memcmp(message, right, MESSAGE)) {
        errno = EBADMSG;
        die("connection %u got the wrong bytes", number);
    }
}

static void send_number(struct connection *c)
{
    struct ibv_sge sge = { (uintptr_t)c->sent, MESSAGE, c->mr->lkey };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
    };

    fill(c->sent, c->number, run.server);
    if (ibv_post_send(c->id->qp, &wr, &bad)) {
        die("ibv_post_send of connection %u", c->number);
    }
}

/* ---- one connection ----------------------------------------------------- */

static struct connection *make_connection(struct rdma_cm_id *id,
                                          uint32_t number)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (!c) {
        die("calloc");
    }
    if (number >= run.wanted || connections[number]) {
        errno = EPROTO;
        die("connection %u is out of range, or there already", number);
    }
    c->id = id;
    c->number = number;
    c->start = seconds_now();
    id->context = c;
    connections[number] = c;
    run.started++;
    return c;
}

/*
 * A CQ, a region and a QP of its own: 10,000 connections then need more of
 * them than the device has, unless each comes back. False if librdmacm takes
 * no QP for the connection.
 */
static bool make_objects(struct connection *c)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
                 .max_recv_sge = 1 },
    };
    struct ibv_sge sge;
    struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

    if (!cq_channel) {
        cq_channel = ibv_create_comp_channel(c->id->verbs);
    }
    c->cq = ibv_create_cq(c->id->verbs, 2, c, cq_channel, 0);
    c->mr = ibv_reg_mr(c->id->pd, c, sizeof(*c), IBV_ACCESS_LOCAL_WRITE);
    if (!c->cq || !c->mr || ibv_req_notify_cq(c->cq, 1)) {
        die("CQ or MR of connection %u", c->number);
    }
    attr.send_cq = attr.recv_cq = c->cq;
    if (rdma_create_qp(c->id, NULL, &attr)) {
        return false;
    }
    sge = (struct ibv_sge) { (uintptr_t)c->received, MESSAGE, c->mr->lkey };
    if (ibv_post_recv(c->id->qp, &wr, &bad)) {
        die("ibv_post_recv");
    }
    return true;
}

static void forget(struct connection *c)
{
    run.open -= c->verified && !c->ending;
    if (c->id->qp) {
        rdma_destroy_qp(c->id);
    }
    if ((c->mr && ibv_dereg_mr(c->mr)) || (c->cq && ibv_destroy_cq(c->cq)) ||
        rdma_destroy_id(c->id)) {
        die("destroying connection %u", c->number);
    }
    connections[c->number] = NULL;
    run.ended++;
    free(c);
}

static void hang_up(struct connection *c)
{
    if (c->ending) {
        return;
    }
    run.open -= c->verified;
    c->ending = true;
    if (rdma_disconnect(c->id)) {
        die("rdma_disconnect of connection %u", c->number);
    }
}

/*
 * The number is sent in the private data, and comes back inverted. A server
 * is not notified that a client has given up before it tries to accept.
 */
static void answer(struct connection *c)
{
    uint32_t number = ~c->number;
    struct rdma_conn_param param = {
        .private_data = &number, .private_data_len = sizeof(number),
        .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7,
    };

    c->answered = true;
    if (!make_objects(c) || rdma_accept(c->id, &param)) {
        if (errno != EINVAL) {
            die("rdma_accept of connection %u", c->number);
        }
        run.too_late++;
        forget(c);
    }
}

static void ask(struct connection *c)
{
    struct rdma_conn_param param = {
        .private_data = &c->number, .private_data_len = sizeof(c->number),
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
        .rnr_retry_count = 7,
    };

    if (!make_objects(c) || rdma_connect(c->id, &param)) {
        die("rdma_connect of connection %u", c->number);
    }
}

static void arrived(struct connection *c, const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_WR_FLUSH_ERR && c->ending) {
        return;     /* the ACK of a SEND may come behind what answers it */
    }
    if (wc->status != IBV_WC_SUCCESS) {
        errno = EIO;
        die("connection %u: %s", c->number, ibv_wc_status_str(wc->status));
    }
    if (wc->opcode != IBV_WC_RECV) {
        return;
    }
    if (wc->byte_len != MESSAGE) {
        errno = EBADMSG;
        die("connection %u got %u bytes", c->number, wc->byte_len);
    }
    expect(c->received, c->number, !run.server);
    c->verified = true;
    run.verified++;
    run.open++;
    if (run.server) {
        send_number(c);
    } else if (!run.held) {
        hang_up(c);
    }
}

/* ---- events ------------------------------------------------------------- */

static void completion_event(void)
{
    struct connection *c;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;
    int count;

    if (ibv_get_cq_event(cq_channel, &cq, &context)) {
        die("ibv_get_cq_event");
    }
    c = context;
    ibv_ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(cq, 1)) {
        die("ibv_req_notify_cq");
    }
    while ((count = ibv_poll_cq(cq, 1, &wc)) > 0) {
        arrived(c, &wc);
    }
    if (count < 0) {
        die("ibv_poll_cq");
    }
}

static void established(struct connection *c, uint32_t number)
{
    if (run.server) {
        return;
    }
    c->answered = true;
    if (number != ~c->number) {
        errno = EBADMSG;
        die("connection %u: number %u in REP", c->number, ~number);
    }
    send_number(c);
}

static void cm_event(void)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    struct connection *c;
    uint32_t number = 0;

    if (rdma_get_cm_event(cm_channel, &event)) {
        die("rdma_get_cm_event");
    }
    type = event->event;
    id = event->id;
    c = id->context;
    run.events[type]++;
    run.status[type] = event->status;
    if (event->param.conn.private_data_len >= sizeof(number) &&
        (type == RDMA_CM_EVENT_CONNECT_REQUEST ||
         type == RDMA_CM_EVENT_ESTABLISHED)) {
        memcpy(&number, event->param.conn.private_data, sizeof(number));
    }
    rdma_ack_cm_event(event);   /* without it, destroying the id would wait */

    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, RESOLVE_MS)) {
            die("rdma_resolve_route");
        }
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        ask(c);
        break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        c = make_connection(id, number);
        if (!run.held) {
            answer(c);
        }
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        established(c, number);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        hang_up(c);             /* which answers the DREQ, if there was one */
        forget(c);
        break;
    default:
        forget(c);
    }
}

/* Handles pending events, or waits a little for one. */
static void wait_for_events(void)
{
    struct pollfd fds[2] = {
        { .fd = cm_channel->fd, .events = POLLIN },
        { .fd = cq_channel ? cq_channel->fd : -1, .events = POLLIN },
    };

    if (poll(fds, 2, TICK_MS) < 0) {
        die("poll");
    }
    /* First what came before a peer's DREQ. */
    if (fds[1].revents) {
        completion_event();
    } else if (fds[0].revents) {
        cm_event();
    }
}

/* ---- the two programs --------------------------------------------------- */

static struct addrinfo *find_address(const char *name, int flags)
{
    struct addrinfo *found, hints = {
        .ai_family = flags ? AF_INET6 : AF_UNSPEC, .ai_socktype = SOCK_STREAM,
        .ai_flags = flags,
    };

    if (getaddrinfo(name, CM_PORT, &hints, &found)) {
        die("address %s", name ? name : "of any kind");
    }
    return found;
}

/* For both families: an IPv6 wildcard takes IPv4, too. */
static void start_listening(void)
{
    struct addrinfo *any = find_address(NULL, AI_PASSIVE);
    struct rdma_cm_id *id;

    if (rdma_create_id(cm_channel, &id, NULL, RDMA_PS_TCP) ||
        rdma_bind_addr(id, any->ai_addr) || rdma_listen(id, BACKLOG)) {
        die("rdma_listen");
    }
    freeaddrinfo(any);
}

static void start_connecting(char **names, int count)
{
    struct addrinfo *peer = find_address(names[run.started % count], 0);
    struct rdma_cm_id *id;

    if (rdma_create_id(cm_channel, &id, NULL, RDMA_PS_TCP)) {
        die("rdma_create_id");
    }
    make_connection(id, run.started);
    if (rdma_resolve_addr(id, NULL, peer->ai_addr, RESOLVE_MS)) {
        die("rdma_resolve_addr");
    }
    freeaddrinfo(peer);
}

/* The connections that are neither open nor gone. */
static uint32_t in_progress(void)
{
    return run.started - run.open - run.ended;
}

/* Continues connections that waited for FILE or for their time limit. */
static void tick(void)
{
    double now = seconds_now();

    if (run.held) {
        run.held = access(run.hold, F_OK) != 0;
    }
    for (uint32_t i = 0; i < run.wanted; i++) {
        struct connection *c = connections[i];

        if (!c) {
            continue;
        }
        if (run.server) {
            if (!run.held && !c->answered) {
                answer(c);
            }
        } else if (run.give_up_s && !c->answered &&
                   now > c->start + run.give_up_s) {
            run.given_up++;
            forget(c);
        }
    }
}

/* The client: keeps WINDOW connections in the state of opening or closing. */
static void keep_busy(char **names, int count)
{
    static uint32_t closed;

    while (run.started < run.wanted && in_progress() < run.window) {
        start_connecting(names, count);
    }
    while (run.hold && !run.held && closed < run.started &&
           in_progress() < run.window) {
        struct connection *c = connections[closed++];

        if (c && c->verified) {
            hang_up(c);
        }
    }
}

static void report(double start)
{
    printf("connections %u verified %u given_up %u too_late %u in %.1f s\n",
           run.ended, run.verified, run.given_up, run.too_late,
           seconds_now() - start);
    for (int i = 0; i < EVENTS; i++) {
        if (run.events[i]) {
            printf("%s %u status %d\n", rdma_event_str(i), run.events[i],
                   run.status[i]);
        }
    }
}

static void work(char **names, int count)
{
    double start = seconds_now(), moved = start, ticked = start;
    uint32_t told = 0, before = 0;

    while (run.ended < run.wanted) {
        if (!run.server) {
            keep_busy(names, count);
        }
        wait_for_events();
        if (seconds_now() > ticked + TICK_MS / 1e3) {
            tick();
            ticked = seconds_now();
        }
        if (run.open == run.wanted && !told) {
            told = run.open;
            printf("all %u open after %.1f s\n", told, seconds_now() - start);
        }
        if (run.open + run.ended + run.started != before || run.held) {
            before = run.open + run.ended + run.started;
            moved = seconds_now();
        } else if (seconds_now() > moved + STALL_S) {
            report(start);
            errno = ETIMEDOUT;
            die("no progress");
        }
    }
    report(start);
}

int main(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "sn:w:k:g:")) != -1) {
        switch (option) {
        case 's':
            run.server = true;
            break;
        case 'n':
            run.wanted = atoi(optarg);
            break;
        case 'w':
            run.window = atoi(optarg);
            break;
        case 'k':
            run.hold = optarg;
            run.held = true;
            break;
        case 'g':
            run.give_up_s = atof(optarg);
            break;
        default:
            return 2;
        }
    }
    if (run.server == (optind < argc)) {
        fprintf(stderr, "either -s, or the addresses of a server\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    connections = calloc(run.wanted, sizeof(*connections));
    cm_channel = rdma_create_event_channel();
    if (!connections || !cm_channel) {
        die("rdma_create_event_channel");
    }
    if (run.server) {
        start_listening();
    }
    work(argv + optind, argc - optind);
    return 0;
}
