/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The start of tests of introspection: a device with a name, two connected QPs,
 * and a transfer from one to the other.
 */
#ifndef FAKERNIC_INSIDE_H
#define FAKERNIC_INSIDE_H

#include "fakernic-setup.h"

static inline void inside_pair(Rig *r)
{
    rig_start(r, ",max-qp=64");
    nic_bringup(&r->n);
    setup_pair(&r->n, &r->s, &r->a, &r->b);
}

static inline void one_read(Nic *n, Setup *s, Qp *a)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_READ, 16384, 0, 5000);
    struct fakernic_cqe cqe;

    sq_put(n, a, &wqe, sizeof(wqe));
    sq_ring(n, a);
    cq_expect(n, &s->cq, &cqe, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_SUCCESS);
}

#endif
