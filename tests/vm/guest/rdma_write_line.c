/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_write_line -s | rdma_write_line SERVER-ADDRESS TEXT
 *
 * The client writes a line of text into the server's memory with RDMA WRITE
 * and reads it back with RDMA READ. The server makes no call during that and
 * only reads its own memory. The two exchange the address over TCP, on the same
 * device's Ethernet port.
 */
#include "verbs_pair.h"
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define TCP_PORT "18600"
#define LINE_SIZE 4096
#define SERVER_WAIT_S 60

/* The text, then, written last because highest, a byte that says "done". */
struct line {
    char text[LINE_SIZE - 1];
    volatile char done;
};

static int listen_once(void)
{
    int one = 1, sock = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 any = {
        .sin6_family = AF_INET6, .sin6_port = htons(atoi(TCP_PORT)),
    };

    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (sock < 0 || bind(sock, (void *)&any, sizeof(any)) || listen(sock, 1)) {
        die("listen");
    }
    return accept(sock, NULL, NULL);
}

static int connect_to(const char *host)
{
    struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM };
    int sock;

    if (getaddrinfo(host, TCP_PORT, &hints, &found)) {
        die("%s", host);
    }
    sock = socket(found->ai_family, SOCK_STREAM, 0);
    if (sock < 0 || connect(sock, found->ai_addr, found->ai_addrlen)) {
        die("connect to %s", host);
    }
    freeaddrinfo(found);
    return sock;
}

static void swap_addresses(int sock, const struct address *own,
                           struct address *peer)
{
    if (write(sock, own, sizeof(*own)) != sizeof(*own) ||
        recv(sock, peer, sizeof(*peer), MSG_WAITALL) != sizeof(*peer)) {
        die("swap addresses");
    }
}

static void barrier(int sock)
{
    char byte = 'x';

    if (write(sock, &byte, 1) != 1 || recv(sock, &byte, 1, MSG_WAITALL) != 1) {
        die("the peer went away");
    }
}

static void serve(struct line *line)
{
    double deadline = seconds_now() + SERVER_WAIT_S;

    while (!line->done) {
        if (seconds_now() > deadline) {
            errno = ETIMEDOUT;
            die("nothing was written");
        }
    }
    printf("server: found in my memory: \"%s\"\n", line->text);
}

static void one_operation(struct ibv_qp *qp, struct ibv_cq *cq,
                          enum ibv_wr_opcode opcode, struct ibv_mr *mr,
                          const struct address *peer)
{
    struct ibv_sge sge = { (uintptr_t)mr->addr, LINE_SIZE, mr->lkey };
    struct ibv_wc wc;

    post(qp, opcode, &sge, peer->buffer, peer->rkey, opcode);
    wc = next_completion(cq);
    if (wc.status != IBV_WC_SUCCESS) {
        errno = EIO;
        die("completion: %s", ibv_wc_status_str(wc.status));
    }
}

static void write_and_read_back(struct ibv_qp *qp, struct ibv_cq *cq,
                                struct ibv_mr *mr, const struct address *peer,
                                const char *text)
{
    struct line *line = mr->addr;

    snprintf(line->text, sizeof(line->text), "%s", text);
    line->done = 1;
    one_operation(qp, cq, IBV_WR_RDMA_WRITE, mr, peer);
    printf("client: RDMA WRITE of \"%s\" complete\n", text);
    memset(line, 0, sizeof(*line));
    one_operation(qp, cq, IBV_WR_RDMA_READ, mr, peer);
    printf("client: RDMA READ brought back \"%s\"\n", line->text);
    if (strcmp(line->text, text)) {
        errno = EIO;
        die("the text that was read back differs");
    }
}

int main(int argc, char **argv)
{
    bool server = argc == 2 && !strcmp(argv[1], "-s");
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                       IBV_ACCESS_REMOTE_READ;
    struct endpoint end = { 0 };
    struct line *line = aligned_alloc(LINE_SIZE, sizeof(*line));
    struct address own, peer;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    int sock;

    if (!server && argc != 3) {
        fprintf(stderr,
                "usage: rdma_write_line -s | rdma_write_line SERVER TEXT\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    memset(line, 0, sizeof(*line));
    open_endpoint(&end);
    cq = ibv_create_cq(end.context, 16, NULL, NULL, 0);
    mr = ibv_reg_mr(end.pd, line, sizeof(*line), access);
    if (!cq || !mr) {
        die("ibv_create_cq or ibv_reg_mr");
    }
    qp = create_rc(&end, cq);
    own = (struct address) {
        .gid = end.gid, .qpn = qp->qp_num, .psn = 0x123456,
        .buffer = (uintptr_t)line, .rkey = mr->rkey, .length = sizeof(*line),
    };
    sock = server ? listen_once() : connect_to(argv[1]);
    swap_addresses(sock, &own, &peer);
    connect_rc(&end, qp, &peer, own.psn, access, 18, 7);
    barrier(sock);
    if (server) {
        serve(line);
    } else {
        write_and_read_back(qp, cq, mr, &peer, argv[2]);
    }
    barrier(sock);
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(end.pd);
    ibv_close_device(end.context);
    return 0;
}
