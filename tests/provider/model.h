/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel and the device as the provider sees them. The model records create
 * commands, and the test then acts as the device on the queues that they named.
 * It uses the headers of the hardware interface, not the provider's queue.h, so
 * that the two check one another.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "fakernic/base.h"
#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/qp.h"
#include "fakernic/regs.h"
#include "fakernic/sq.h"
#include "fakernic/wq.h"
#include "ah.h"
#include "context.h"
#include "cq.h"
#include "dm.h"
#include "doorbell.h"
#include "fakernic-abi.h"
#include "flow.h"
#include "mr.h"
#include "pd.h"
#include "post_send.h"
#include "qp.h"
#include "queue.h"
#include "rq.h"
#include "sq.h"
#include "srq.h"
#include "table.h"
#include "wq.h"
#include "wr.h"
#include "xrc.h"
#include "tsan.h"

#define MODEL_SRQN	7	/* of the SRQ; there is one at a time */
#define MODEL_XRC_SRQN	9
#define MODEL_WQN	0x80	/* of the first WQ */
#define MODEL_DM_OFFSET	FAKERNIC_PAGE_SIZE
#define MODEL_DM_HANDLE	5
#define MODEL_DM_MAX	(2 * FAKERNIC_PAGE_SIZE)
#define MODEL_CONTEXT_SIZE						\
	((sizeof(struct fakernic_context) + FAKERNIC_PAGE_SIZE - 1) &	\
	 ~((size_t)FAKERNIC_PAGE_SIZE - 1))

struct model_ring {
	uint8_t *bytes;
	uint8_t log_depth;
	uint8_t log_stride;
	uint32_t index;		/* of the device: next to read or write */
};

struct model_qp {
	struct model_ring sq;
	struct model_ring rq;
	uint32_t qpn;
	struct ibv_qp_cap cap;	/* requested from the kernel */
	uint32_t rate_limit;
};

/* The number of objects in the kernel. */
extern int model_live;
/* The last reason that the provider logged, or "". */
extern char model_log[256];
/*
 * Called once while a destroyed QP, WQ or SRQ waits until its events are
 * acknowledged. It acts as other threads; the object's number is free.
 */
extern void (*model_on_destroy)(void);
/* Unless 0, the next command fails with this error, once. */
extern int model_failure;

/*
 * A context with all features, alone in its pages. Its doorbell page and device
 * memory are ordinary memory. The model stores no event index, so the feature
 * SHADOW_DOORBELL is off: each post rings.
 */
struct fakernic_context *model_context(void);
void model_free_context(struct fakernic_context *context);

struct model_qp *model_qp(struct ibv_qp *qp);
struct model_ring *model_cq(struct ibv_cq *cq);
struct model_ring *model_srq(void);
struct model_ring *model_wq(struct ibv_wq *wq);
/* The last CREATE_RSS_QP request that the kernel received. */
extern struct fakernic_ureq_create_rss_qp model_rss;

/* The index in the ring's doorbell record. */
uint32_t model_record(const struct model_ring *ring);
/* The stamp of that record; no other thread uses the ring. */
uint64_t model_stamp(const struct model_ring *ring);

/* Copies the next send WQE and its index. False: all were taken. */
bool model_take_send(struct model_qp *qp, void *wqe, uint32_t *index);
/* Copies the next receive slot. False: all were taken. */
bool model_take_recv(struct model_ring *ring, void *wqe);
/* Writes a CQE. False: the CQ is full. */
bool model_complete(struct model_ring *cq, struct fakernic_cqe cqe);

#endif
