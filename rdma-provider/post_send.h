/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ibv_post_send(3), and ibv_bind_mw(3), which uses it.
 */
#ifndef FAKERNIC_PROVIDER_POST_SEND_H
#define FAKERNIC_PROVIDER_POST_SEND_H

#include <infiniband/driver.h>

/*
 * ENOMEM: the queue is full. EINVAL: a bad request. *bad_wr is the first
 * request that was not posted; those before it are (IBTA 11.4.1.1).
 */
int fakernic_upost_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad_wr);

/* For type 1 windows. On success the window has its new rkey. */
int fakernic_ubind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		      struct ibv_mw_bind *bind);

#endif
