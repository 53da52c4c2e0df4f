/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_bad_address MISTAKE: makes one of the usual mistakes with addresses.
 *
 * It makes the mistake in a QP's transition to RTR and in an address handle,
 * and prints the errno of each. With VERBS_LOG_LEVEL=4 the provider logs the
 * reason.
 */
#include "verbs_pair.h"

static const struct {
    const char *name;
    bool no_grh;
    int gid_index;              /* 0: the right one */
    const char *destination;    /* NULL: ourselves */
} mistakes[] = {
    { "missing-grh", .no_grh = true },
    { "gid-index", .gid_index = 200 },
    { "family", .destination = "fd00:77::2" },
    { "nobody-there", .destination = "::ffff:192.168.77.99" },
};

static void bring_to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = PORT_NUMBER };

    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                      IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
        die("modify to INIT");
    }
}

int main(int argc, char **argv)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .dest_qp_num = 2, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = PORT_NUMBER },
    };
    struct endpoint end;
    struct ibv_qp *qp;
    size_t i = 0;
    int error;

    while (argc != 2 || strcmp(argv[1], mistakes[i].name)) {
        if (argc != 2 || ++i == sizeof(mistakes) / sizeof(mistakes[0])) {
            fprintf(stderr, "usage: rdma_bad_address MISTAKE\n");
            return 2;
        }
    }
    open_endpoint(&end);
    attr.path_mtu = end.mtu;
    attr.ah_attr.is_global = !mistakes[i].no_grh;
    attr.ah_attr.grh.dgid = end.gid;
    attr.ah_attr.grh.sgid_index = mistakes[i].gid_index ?: end.gid_index;
    if (mistakes[i].destination &&
        inet_pton(AF_INET6, mistakes[i].destination,
                  &attr.ah_attr.grh.dgid) != 1) {
        die("inet_pton");
    }
    qp = create_rc(&end, ibv_create_cq(end.context, 16, NULL, NULL, 0));
    bring_to_init(qp);
    error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV |
                          IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    printf("modify: %s\n", strerror(error));
    errno = 0;
    printf("address handle: %s\n",
           ibv_create_ah(end.pd, &attr.ah_attr) ? "made" : strerror(errno));
    return 0;
}
