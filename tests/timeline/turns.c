/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA WRITEs of 8 bytes there and back, as in ib_write_lat. Several cards take
 * turns, so that load on the machines and the host affects all of them alike.
 *
 *      turns ROUNDS WRITES ADDRESS... [to HOST]
 *
 * ADDRESS is the IPv4 address of a card. Both ends name their cards in the same
 * order. The end that names a HOST prints a line per turn: the number of the
 * card, then the median and the 10th percentile of the round-trip times, in
 * nanoseconds. Each round begins with another card.
 */
#include "meet.h"

#define PORT      "7473"
#define CARDS_MAX 8
#define WARM_UP   20            /* first rounds, which are not printed */
#define TIMEOUT   14            /* 67 ms */
#define RETRIES   7
#define GID_S     20            /* limit until an address has its GID */
#define WAIT_S    60

struct card {
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    volatile uint64_t *come;    /* the peer writes here */
    uint64_t *goes;             /* source of the own WRITEs */
    struct address peer;
    uint64_t count;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Whether a device has the RoCEv2 GID of an address. */
static bool has_gid(struct endpoint *end, const char *address)
{
    struct ibv_gid_entry entries[256];
    const ssize_t count = ibv_query_gid_table(end->context, entries, 256, 0);
    uint8_t wanted[16] = { [10] = 0xff, [11] = 0xff };

    if (inet_pton(AF_INET, address, wanted + 12) != 1) {
        errno = EINVAL;
        die("%s", address);
    }
    for (ssize_t i = 0; i < count; i++) {
        if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
            !memcmp(entries[i].gid.raw, wanted, sizeof(wanted))) {
            end->gid = entries[i].gid;
            end->gid_index = entries[i].gid_index;
            return true;
        }
    }
    return false;
}

/* Finds the card with this address, which may get its GID a little later. */
static void find_card(struct endpoint *end, const char *address)
{
    const double deadline = seconds_now() + GID_S;
    struct ibv_device **list = ibv_get_device_list(NULL);

    while (list) {
        for (int i = 0; list[i]; i++) {
            end->context = ibv_open_device(list[i]);
            if (!end->context) {
                die("ibv_open_device");
            }
            if (has_gid(end, address)) {
                ibv_free_device_list(list);
                return;
            }
            ibv_close_device(end->context);
        }
        if (seconds_now() > deadline) {
            break;
        }
        usleep(100000);
    }
    errno = ENODEV;
    die("no card has the address %s", address);
}

static void open_card(struct card *c, const char *address)
{
    struct ibv_port_attr port;

    find_card(&c->end, address);
    if (ibv_query_port(c->end.context, PORT_NUMBER, &port)) {
        die("ibv_query_port");
    }
    c->end.mtu = port.active_mtu;
    c->end.pd = ibv_alloc_pd(c->end.context);
    c->cq = ibv_create_cq(c->end.context, 16, NULL, NULL, 0);
    if (!c->end.pd || !c->cq) {
        die("ibv_alloc_pd or ibv_create_cq");
    }
    c->qp = create_rc(&c->end, c->cq);
    c->goes = aligned_alloc(4096, 4096);
    if (!c->goes) {
        die("aligned_alloc");
    }
    memset(c->goes, 0, 4096);
    c->come = c->goes + 8;
    c->mr = ibv_reg_mr(c->end.pd, c->goes, 4096,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!c->mr) {
        die("ibv_reg_mr");
    }
}

static void join_card(struct card *c, int sock)
{
    const struct address own = {
        .gid = c->end.gid, .qpn = c->qp->qp_num, .psn = 1,
        .buffer = (uintptr_t)c->come, .rkey = c->mr->rkey, .length = 8,
    };

    swap(sock, &own, &c->peer, sizeof(own));
    connect_rc(&c->end, c->qp, &c->peer, own.psn, IBV_ACCESS_REMOTE_WRITE,
               TIMEOUT, RETRIES);
}

static void write_next(struct card *c)
{
    struct ibv_sge sge = { (uintptr_t)c->goes, 8, c->mr->lkey };

    *c->goes = c->count;
    post(c->qp, IBV_WR_RDMA_WRITE, &sge, c->peer.buffer, c->peer.rkey,
         c->count);
}

static void await_next(struct card *c)
{
    const double deadline = seconds_now() + WAIT_S;

    for (unsigned i = 1; *c->come != c->count; i++) {
        if (i % 1000000 == 0 && seconds_now() > deadline) {
            errno = ETIMEDOUT;
            die("a WRITE is missing");
        }
    }
}

static void end_next(struct card *c)
{
    const struct ibv_wc wc = next_completion(c->cq);

    if (wc.status != IBV_WC_SUCCESS) {
        errno = EIO;
        die("a WRITE ended with %s", ibv_wc_status_str(wc.status));
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Makes round trips and measures each. 'asks': this end writes first. */
static void take_turn(struct card *c, uint64_t *times, unsigned writes,
                      bool asks)
{
    for (unsigned i = 0; i < writes; i++) {
        const uint64_t begin = now_ns();

        c->count++;
        if (asks) {
            write_next(c);
        }
        await_next(c);
        if (!asks) {
            write_next(c);
        }
        end_next(c);
        times[i] = now_ns() - begin;
    }
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 2 ? atoi(argv[1]) : 0;
    const unsigned writes = argc > 2 ? atoi(argv[2]) : 0;
    const bool asks = argc > 5 && !strcmp(argv[argc - 2], "to");
    const int count = argc - 3 - 2 * asks;
    struct card cards[CARDS_MAX] = { 0 };
    uint64_t *times = calloc(writes, sizeof(*times));
    int sock;

    if (!rounds || writes < 10 || !times || count < 1 || count > CARDS_MAX) {
        fprintf(stderr, "usage: turns ROUNDS WRITES ADDRESS... [to HOST]\n");
        return 2;
    }
    for (int i = 0; i < count; i++) {
        open_card(&cards[i], argv[3 + i]);
    }
    sock = meet(asks ? argv[argc - 1] : NULL, PORT);
    for (int i = 0; i < count; i++) {
        join_card(&cards[i], sock);
    }
    swap(sock, &(char) { 'x' }, &(char) { 0 }, 1);
    for (unsigned round = 0; round < rounds + WARM_UP; round++) {
        for (int i = 0; i < count; i++) {
            const int card = (round + i) % count;

            take_turn(&cards[card], times, writes, asks);
            qsort(times, writes, sizeof(*times), compare);
            if (asks && round >= WARM_UP) {
                printf("%d %llu %llu\n", card,
                       (unsigned long long)times[writes / 2],
                       (unsigned long long)times[writes / 10]);
            }
        }
    }
    swap(sock, &(char) { 'x' }, &(char) { 0 }, 1);
    return 0;
}
