/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_headers [OPTIONS] DGID: one message with header fields as they were
 * asked for, to a QP that nobody has: a capture shows what became of them. UD
 * sends, UC writes; neither waits for an answer. Prints its QP's number.
 */
#include "verbs_pair.h"

#define NOBODY 0x654321
#define SIZE 100

struct options {
    enum ibv_qp_type type;
    int gid_index;
    uint32_t wr_qkey, qp_qkey;
    struct ibv_ah_attr path;
};

static struct options parse(int argc, char **argv)
{
    struct options opt = {
        .type = IBV_QPT_UD, .wr_qkey = 0x11111111, .qp_qkey = 0x11111111,
        .path = { .is_global = 1, .port_num = PORT_NUMBER,
                  .grh.hop_limit = 64 },
    };
    struct ibv_global_route *grh = &opt.path.grh;
    int letter;

    while ((letter = getopt(argc, argv, "t:g:q:Q:L:T:F:")) != -1) {
        uint32_t number = optarg ? strtoul(optarg, NULL, 0) : 0;

        switch (letter) {
        case 't':
            opt.type = !strcmp(optarg, "uc") ? IBV_QPT_UC : IBV_QPT_UD;
            break;
        case 'g': grh->sgid_index = number; break;
        case 'q': opt.wr_qkey = number; break;
        case 'Q': opt.qp_qkey = number; break;
        case 'L': opt.path.sl = number; break;
        case 'T': grh->traffic_class = number; break;
        case 'F': grh->flow_label = number; break;
        default: optind = argc; break;
        }
    }
    if (optind + 1 != argc ||
        inet_pton(AF_INET6, argv[optind], &grh->dgid) != 1) {
        fprintf(stderr, "usage: rdma_headers [-t ud|uc] [-g GID-INDEX] "
                        "[-q Q_KEY] [-Q QP'S-Q_KEY] [-L SL] [-T TRAFFIC-CLASS] "
                        "[-F FLOW-LABEL] DGID\n");
        exit(2);
    }
    return opt;
}

static void modify(struct ibv_qp *qp, const char *what,
                   const struct ibv_qp_attr *attr, int mask)
{
    errno = ibv_modify_qp(qp, (struct ibv_qp_attr *)attr, mask);
    if (errno) {
        die("%s", what);
    }
}

static void make_ready(struct ibv_qp *qp, const struct options *opt)
{
    bool ud = opt->type == IBV_QPT_UD;
    const struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER,
        .qkey = opt->qp_qkey,
    };
    const struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
        .dest_qp_num = NOBODY, .ah_attr = opt->path,
    };
    const struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };

    modify(qp, "INIT", &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    modify(qp, "RTR", &rtr, ud ? IBV_QP_STATE :
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
           IBV_QP_RQ_PSN);
    modify(qp, "RTS", &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int main(int argc, char **argv)
{
    const struct options opt = parse(argc, argv);
    static uint8_t data[SIZE];
    struct endpoint end;
    struct ibv_qp_init_attr init = {
        .qp_type = opt.type, .cap = { 4, 4, 1, 1, 0 },
    };
    struct ibv_sge sge = { (uintptr_t)data, SIZE, 0 };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_qp *qp;

    open_endpoint(&end);
    init.send_cq = init.recv_cq = ibv_create_cq(end.context, 4, NULL, NULL, 0);
    qp = ibv_create_qp(end.pd, &init);
    if (!qp) {
        die("ibv_create_qp");
    }
    make_ready(qp, &opt);
    sge.lkey = ibv_reg_mr(end.pd, data, SIZE, 0)->lkey;
    if (opt.type == IBV_QPT_UD) {
        struct ibv_ah_attr path = opt.path;

        wr.opcode = IBV_WR_SEND;
        wr.wr.ud.ah = ibv_create_ah(end.pd, &path);
        wr.wr.ud.remote_qpn = NOBODY;
        wr.wr.ud.remote_qkey = opt.wr_qkey;
        if (!wr.wr.ud.ah) {
            die("ibv_create_ah");
        }
    }
    errno = ibv_post_send(qp, &wr, &bad);
    if (errno) {
        die("ibv_post_send");
    }
    if (next_completion(init.send_cq).status != IBV_WC_SUCCESS) {
        printf("wrong: it was not sent\n");
        return 1;
    }
    printf("%#x\n", qp->qp_num);
    return 0;
}
