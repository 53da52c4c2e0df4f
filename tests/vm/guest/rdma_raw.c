/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_raw [UID]: what a user may do with the port's frames.
 *
 * Becomes user UID, without capabilities unless that is 0. Prints whether a
 * raw-packet QP and a flow rule can be created: "made", or the error. Any user
 * can create an RC QP and a memory region.
 */
#define _GNU_SOURCE
#include <grp.h>

#include "verbs_pair.h"

static const char *outcome(const void *object)
{
    return object ? "made" : strerror(errno);
}

int main(int argc, char **argv)
{
    static const uint8_t mac[] = { 2, 0, 0, 0, 0, 7 };
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RAW_PACKET,
        .cap = { 16, 16, 1, 1, 0 },
    };
    uid_t user = argc > 1 ? atoi(argv[1]) : 0;
    static uint8_t buffer[4096];
    struct endpoint end;
    struct ibv_qp *raw, *rc;
    struct ibv_flow *flow;

    if (user && (setgroups(0, NULL) || setgid(user) || setuid(user))) {
        die("setuid");
    }
    open_endpoint(&end);
    init.send_cq = init.recv_cq = ibv_create_cq(end.context, 64, NULL, NULL, 0);
    raw = ibv_create_qp(end.pd, &init);
    printf("raw: %s\n", outcome(raw));
    rc = create_rc(&end, init.send_cq);
    flow = steer_frames(raw ? raw : rc, mac);
    printf("flow: %s\n", outcome(flow));
    printf("mr: %s\n", outcome(ibv_reg_mr(end.pd, buffer, sizeof(buffer),
                                          IBV_ACCESS_LOCAL_WRITE)));
    return 0;
}
