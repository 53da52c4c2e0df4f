/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hello: waits for a line; hello HOST: sends one there, by RDMA. */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>

static void need(int fine, const char *what)
{
    if (!fine) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    char text[64] = "Hello from the other machine";
    int serves = argc == 1;
    struct rdma_addrinfo *info, hints = { .ai_port_space = RDMA_PS_TCP,
                                          .ai_flags = serves * RAI_PASSIVE };
    struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 },
                                     .sq_sig_all = 1 };
    struct rdma_cm_id *id, *listener = NULL;
    struct ibv_mr *mr;
    struct ibv_wc wc;

    need(!rdma_getaddrinfo(argv[1], "7471", &hints, &info), "getaddrinfo");
    need(!rdma_create_ep(&id, info, NULL, &attr), "create_ep");
    rdma_freeaddrinfo(info);
    if (serves) {
        listener = id;
        need(!rdma_listen(listener, 1), "listen");
        need(!rdma_get_request(listener, &id), "get_request");
    }
    need(!!(mr = rdma_reg_msgs(id, text, sizeof(text))), "reg_msgs");
    if (serves) {
        need(!rdma_post_recv(id, NULL, text, sizeof(text), mr), "post_recv");
        need(!rdma_accept(id, NULL), "accept");
        need(rdma_get_recv_comp(id, &wc) == 1 && !wc.status, "receive");
        puts(text);
    } else {
        need(!rdma_connect(id, NULL), "connect");
        need(!rdma_post_send(id, NULL, text, sizeof(text), mr, 0), "post_send");
        need(rdma_get_send_comp(id, &wc) == 1 && !wc.status, "send");
    }
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    if (listener) {
        rdma_destroy_ep(listener);
    }
    return 0;
}
