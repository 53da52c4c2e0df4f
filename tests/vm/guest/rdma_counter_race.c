/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_counter_race: after "rdma statistic qp set link ... auto" each queue
 * pair gets a counter set of its own. Two threads repeatedly move the same
 * queue pair to INIT at once. It must get one set, which is released with it.
 */
#include <pthread.h>

#include "verbs_pair.h"

#define ROUNDS 200

static pthread_barrier_t both;

static void *make_ready(void *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = PORT_NUMBER };

    pthread_barrier_wait(&both);
    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             IBV_QP_ACCESS_FLAGS);
    return NULL;
}

int main(void)
{
    struct endpoint end;
    struct ibv_cq *cq;
    pthread_t other;

    open_endpoint(&end);
    cq = ibv_create_cq(end.context, 4, NULL, NULL, 0);
    if (!cq) {
        die("ibv_create_cq");
    }
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < ROUNDS; i++) {
        struct ibv_qp *qp = create_rc(&end, cq);

        if (pthread_create(&other, NULL, make_ready, qp)) {
            die("pthread_create");
        }
        make_ready(qp);
        pthread_join(other, NULL);
        if (ibv_destroy_qp(qp)) {
            die("ibv_destroy_qp");
        }
    }
    return 0;
}
