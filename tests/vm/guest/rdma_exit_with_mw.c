/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_exit_with_mw [bind]: exits without destroying its objects, among them a
 * memory window and a younger region that allows windows. With "bind" the
 * window is bound to the region, which then cannot be deregistered first. The
 * kernel must release everything.
 */
#include <errno.h>
#include <string.h>

#include "verbs_pair.h"

#define SIZE 4096u

static void bind_window(struct endpoint *end, struct ibv_mw *mw,
                        struct ibv_mr *mr)
{
    struct ibv_cq *cq = ibv_create_cq(end->context, 16, NULL, NULL, 0);
    struct ibv_mw_bind bind = {
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {
            .mr = mr,
            .addr = (uintptr_t)mr->addr,
            .length = SIZE,
            .mw_access_flags = IBV_ACCESS_REMOTE_READ,
        },
    };
    struct ibv_qp *qp;
    int error;

    if (!cq) {
        die("ibv_create_cq");
    }
    qp = create_rc(end, cq);
    connect_to_itself(end, qp, IBV_ACCESS_REMOTE_READ);
    error = ibv_bind_mw(qp, mw, &bind);
    if (error || next_completion(cq).status != IBV_WC_SUCCESS) {
        die("ibv_bind_mw: %d", error);
    }
    error = ibv_dereg_mr(mr);
    if (error != EBUSY) {
        die("deregistering a region with a window: %d", error);
    }
}

int main(int argc, char **argv)
{
    static uint8_t memory[SIZE] __attribute__((aligned(SIZE)));
    struct endpoint end;
    struct ibv_mw *mw;
    struct ibv_mr *mr;

    open_endpoint(&end);
    mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_1);
    mr = ibv_reg_mr(end.pd, memory, SIZE,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    if (!mw || !mr) {
        die("window and region");
    }
    if (argc > 1 && !strcmp(argv[1], "bind")) {
        bind_window(&end, mw, mr);
    }
    printf("done\n");
    return 0;
}
