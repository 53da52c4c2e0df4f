/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_repost: a failed request leaves its resources usable. A receive of an
 * SRQ that is too small for a datagram completes with an error, and another
 * receive can be posted. A window whose bind was flushed can be bound again.
 */
#include "report.h"
#include "verbs_pair.h"

#define QKEY 0x11111111
#define RECEIVES 4
#define LENGTH 64
#define RECEIVE_ID 7

static uint8_t memory[4096] __attribute__((aligned(4096)));

static struct endpoint end;
static struct ibv_mr *mr;
static struct ibv_cq *cq;

/* A UD queue pair in RTS. */
static struct ibv_qp *make_ud(struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = 4, .max_send_sge = 1 },
    };
    struct ibv_qp_attr to = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER, .qkey = QKEY,
    };
    struct ibv_qp *qp = ibv_create_qp(end.pd, &attr);

    if (!qp || ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                             IBV_QP_PORT | IBV_QP_QKEY)) {
        die("UD queue pair");
    }
    to.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(qp, &to, IBV_QP_STATE)) {
        die("modify to RTR");
    }
    to.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN)) {
        die("modify to RTS");
    }
    return qp;
}

static bool fill(struct ibv_srq *srq)
{
    /* No room for a datagram behind its GRH. */
    struct ibv_sge sge = { (uintptr_t)memory, 40 + LENGTH - 1, mr->lkey };
    struct ibv_recv_wr *bad, wr = {
        .wr_id = RECEIVE_ID, .sg_list = &sge, .num_sge = 1,
    };
    unsigned posted = 0;

    while (!ibv_post_srq_recv(srq, &wr, &bad)) {
        posted++;
    }
    printf("# %u receives fit\n", posted);
    return posted > 0;
}

/* A datagram that is too long completes a receive with an error. */
static bool send_too_long(struct ibv_srq *srq)
{
    struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };
    struct ibv_ah_attr to = {
        .is_global = 1, .port_num = PORT_NUMBER,
        .grh = { .dgid = end.gid, .sgid_index = end.gid_index,
                 .hop_limit = 64 },
    };
    struct ibv_ah *ah = ibv_create_ah(end.pd, &to);
    struct ibv_qp *qp = make_ud(srq);
    struct ibv_send_wr *bad, wr = {
        .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        .sg_list = &sge, .num_sge = 1,
        .wr.ud = { ah, qp->qp_num, QKEY },
    };
    bool sent = false, failed = false;
    struct ibv_wc wc;

    if (!ah || ibv_post_send(qp, &wr, &bad)) {
        die("ibv_post_send");
    }
    for (unsigned i = 0; i < 2; i++) {
        wc = next_completion(cq);
        sent |= wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND;
        failed |= wc.status == IBV_WC_LOC_LEN_ERR && wc.wr_id == RECEIVE_ID;
    }
    if (ibv_destroy_qp(qp) || ibv_destroy_ah(ah)) {
        die("ibv_destroy_qp");
    }
    return sent && failed && ibv_poll_cq(cq, 1, &wc) == 0;
}

static void no_receive_is_lost(void)
{
    struct ibv_srq_init_attr attr = { .attr = { RECEIVES, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(end.pd, &attr);
    bool filled, ended = true;

    if (!srq) {
        die("ibv_create_srq");
    }
    filled = fill(srq);
    for (unsigned i = 0; i < RECEIVES; i++) {
        ended &= send_too_long(srq);
        filled &= fill(srq);
    }
    report(filled && ended, "a datagram that is too long completes a receive");
    if (ibv_destroy_srq(srq)) {
        die("ibv_destroy_srq");
    }
}

static enum ibv_wc_status bind_window(struct ibv_mw *mw, struct ibv_qp *qp)
{
    struct ibv_mw_bind bind = {
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = { mr, (uintptr_t)memory, sizeof(memory),
                       IBV_ACCESS_REMOTE_READ },
    };

    if (ibv_bind_mw(qp, mw, &bind)) {
        die("ibv_bind_mw");
    }
    return next_completion(cq).status;
}

static void windows_are_bound_again(void)
{
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
    struct ibv_mw *mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_1);
    struct ibv_qp *dead = create_rc(&end, cq), *qp = create_rc(&end, cq);
    struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };

    connect_to_itself(&end, dead, 0);
    connect_to_itself(&end, qp, IBV_ACCESS_REMOTE_READ);
    if (!mw || ibv_modify_qp(dead, &error, IBV_QP_STATE)) {
        die("window, and queue pair in error");
    }
    report(bind_window(mw, dead) == IBV_WC_WR_FLUSH_ERR, "a bind is flushed");
    report(bind_window(mw, qp) == IBV_WC_SUCCESS, "the next one is not");
    post(qp, IBV_WR_RDMA_READ, &sge, sge.addr, mw->rkey, 0);
    report(next_completion(cq).status == IBV_WC_SUCCESS, "the peer may read");
    if (ibv_destroy_qp(dead) || ibv_destroy_qp(qp) || ibv_dealloc_mw(mw)) {
        die("ibv_destroy_qp, ibv_dealloc_mw");
    }
}

int main(void)
{
    open_endpoint(&end);
    cq = ibv_create_cq(end.context, 16, NULL, NULL, 0);
    mr = ibv_reg_mr(end.pd, memory, sizeof(memory),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_MW_BIND);
    if (!cq || !mr) {
        die("CQ and region");
    }
    no_receive_is_lost();
    windows_are_bound_again();
    return end_report();
}
