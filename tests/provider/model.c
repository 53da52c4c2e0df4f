/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See model.h. The ibv_cmd_* functions replace the kernel. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/cmd_ioctl.h>

#include "model.h"
#include "fakernic-abi.h"

#define MODEL_COUNT	64

static struct model_ring model_cqs[MODEL_COUNT];
static struct model_qp model_qps[MODEL_COUNT];
static struct model_ring model_the_srq;
static struct model_ring model_wqs[MODEL_COUNT];
struct fakernic_ureq_create_rss_qp model_rss;
static unsigned int model_cq_count, model_qp_count, model_wq_count;
static size_t model_dm_length;
int model_live;
void (*model_on_destroy)(void);
int model_failure;
char model_log[256];
#ifdef __SANITIZE_THREAD__
char model_bus;
#endif
static struct ibv_device model_device = { .name = "model" };

struct fakernic_context *model_context(void)
{
	struct fakernic_context *context =
		aligned_alloc(FAKERNIC_PAGE_SIZE, MODEL_CONTEXT_SIZE);

	memset(context, 0, MODEL_CONTEXT_SIZE);
	model_cq_count = 0;
	model_qp_count = 0;
	model_wq_count = 0;
	context->uar = calloc(1, FAKERNIC_PAGE_SIZE);
	context->vctx.context.cmd_fd = memfd_create("model", 0);
	if (ftruncate(context->vctx.context.cmd_fd,
		      MODEL_DM_OFFSET + MODEL_DM_MAX))
		abort();
	context->vctx.context.device = &model_device;
	context->features = ~FAKERNIC_FEATURE_SHADOW_DOORBELL;
	context->max_qp_wr = 16384;
	context->max_inline = FAKERNIC_INLINE_MAX;
	context->max_send_sge = FAKERNIC_SGE_MAX;
	context->max_recv_sge = FAKERNIC_SGE_MAX;
	fakernic_utable_init(&context->qp_table);
	fakernic_utable_init(&context->wq_table);
	fakernic_utable_init(&context->srq_table);
	return context;
}

void model_free_context(struct fakernic_context *context)
{
	fakernic_utable_free(&context->qp_table);
	fakernic_utable_free(&context->wq_table);
	fakernic_utable_free(&context->srq_table);
	close(context->vctx.context.cmd_fd);
	free(context->uar);
	free(context);
}

struct model_qp *model_qp(struct ibv_qp *qp)
{
	return &model_qps[qp->qp_num - 0x100];
}

struct model_ring *model_cq(struct ibv_cq *cq)
{
	return &model_cqs[fakernic_to_cq(cq)->cqn - 1];
}

struct model_ring *model_srq(void)
{
	return &model_the_srq;
}

struct model_ring *model_wq(struct ibv_wq *wq)
{
	return &model_wqs[wq->wq_num - MODEL_WQN];
}

static void *model_entry(const struct model_ring *ring, uint32_t index)
{
	return ring->bytes + ((size_t)(index % (1U << ring->log_depth))
			      << ring->log_stride);
}

static const volatile struct fakernic_queue_record *
model_host_record(const struct model_ring *ring)
{
	return (void *)(ring->bytes +
			((size_t)1 << (ring->log_depth + ring->log_stride)));
}

uint64_t model_stamp(const struct model_ring *ring)
{
	return le64toh(model_host_record(ring)->stamp);
}

MODEL_SHARED uint32_t model_record(const struct model_ring *ring)
{
	uint32_t index = le32toh(model_host_record(ring)->index);

	MODEL_ACQUIRE();
	return index;
}

bool model_take_send(struct model_qp *qp, void *wqe, uint32_t *index)
{
	struct fakernic_sq_hdr *hdr;
	int i;

	if (qp->sq.index == model_record(&qp->sq))
		return false;
	hdr = model_entry(&qp->sq, qp->sq.index);
	*index = qp->sq.index;
	for (i = 0; i < hdr->bb_count && i < FAKERNIC_SQ_WQE_BB_MAX; i++)
		memcpy((uint8_t *)wqe + i * FAKERNIC_SQ_BB_SIZE,
		       model_entry(&qp->sq, *index + i), FAKERNIC_SQ_BB_SIZE);
	qp->sq.index += hdr->bb_count;
	return true;
}

bool model_take_recv(struct model_ring *ring, void *wqe)
{
	if (ring->index == model_record(ring))
		return false;
	memcpy(wqe, model_entry(ring, ring->index++), 1U << ring->log_stride);
	return true;
}

/* No thread may see the owner before the rest of the entry. */
MODEL_SHARED static void model_store_owner(volatile uint8_t *owner, bool pass)
{
	MODEL_RELEASE();
	atomic_thread_fence(memory_order_release);
	*owner = pass;
}

bool model_complete(struct model_ring *cq, struct fakernic_cqe cqe)
{
	struct fakernic_cqe *entry = model_entry(cq, cq->index);

	if (cq->index - model_record(cq) >= 1U << cq->log_depth)
		return false;
	memcpy(entry, &cqe, offsetof(struct fakernic_cqe, owner));
	/* First pass 1, second 0, ... */
	model_store_owner(&entry->owner,
			  (cq->index / (1U << cq->log_depth) + 1) % 2);
	cq->index++;
	return true;
}

/* ---- replacements of libibverbs and the kernel --------------------------- */

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}

void __verbs_log(struct verbs_context *context, uint32_t level,
		 const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(model_log, sizeof(model_log), format, list);
	va_end(list);
}

/* The result of the next command: the requested failure or 0. */
static int model_verdict(void)
{
	int err = model_failure;

	model_failure = 0;
	return err;
}

static int model_create(void)
{
	int err = model_verdict();

	if (!err)
		model_live++;
	return err;
}

static int model_destroy(void)
{
	int err = model_verdict();

	if (!err)
		model_live--;
	return err;
}

/*
 * 'count' is the number of objects, the last of which is destroyed. NULL: there
 * is only one number.
 */
static int model_wait_for_events(unsigned int *count)
{
	void (*on_destroy)(void) = model_on_destroy;

	model_on_destroy = NULL;
	if (!on_destroy)
		return 0;
	if (count)
		(*count)--;
	on_destroy();
	return 0;
}

int ibv_cmd_create_cq_ex(struct ibv_context *context,
			 const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_cq *cq, struct ibv_create_cq_ex *ibv_cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *ibv_resp,
			 size_t resp_size, uint32_t flags)
{
	struct fakernic_cmd_create_cq *cmd =
		container_of(ibv_cmd, struct fakernic_cmd_create_cq, ibv_cmd);
	struct fakernic_cmd_create_cq_resp *resp = container_of(
		ibv_resp, struct fakernic_cmd_create_cq_resp, ibv_resp);
	int err = model_create();

	if (err)
		return err;
	model_cqs[model_cq_count++] = (struct model_ring) {
		.bytes = (void *)(uintptr_t)cmd->buf_va,
		.log_depth = cmd->log_depth,
		.log_stride = 6,
	};
	resp->cqn = model_cq_count;
	cq->cq.context = context;
	return 0;
}

/* Moves the entries that were not consumed to the start of the new ring. */
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *ibv_cmd,
		      size_t cmd_size, struct ib_uverbs_resize_cq_resp *resp,
		      size_t resp_size)
{
	struct fakernic_cmd_resize_cq *cmd =
		container_of(ibv_cmd, struct fakernic_cmd_resize_cq, ibv_cmd);
	struct model_ring old = *model_cq(cq);
	struct model_ring new = {
		.bytes = (void *)(uintptr_t)cmd->buf_va,
		.log_depth = cmd->log_depth,
		.log_stride = 6,
	};
	int err = model_verdict();
	uint32_t i;

	if (err)
		return err;
	for (i = model_record(&old); i != old.index; i++)
		if (!model_complete(&new, *(struct fakernic_cqe *)
						  model_entry(&old, i)))
			return EINVAL;
	*model_cq(cq) = new;
	return 0;
}

int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *vqp,
			  struct ibv_qp_init_attr_ex *attr,
			  struct ibv_create_qp_ex *ibv_cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_qp_resp *ibv_resp,
			  size_t resp_size)
{
	struct fakernic_cmd_create_qp *cmd =
		container_of(ibv_cmd, struct fakernic_cmd_create_qp, ibv_cmd);
	int err = model_create();

	if (err)
		return err;
	vqp->qp.context = context;
	vqp->qp.qp_num = 0x100 + model_qp_count;
	vqp->qp.send_cq = attr->send_cq;
	vqp->qp.recv_cq = attr->recv_cq;
	vqp->qp.srq = attr->srq;
	vqp->qp.qp_type = attr->qp_type;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) {
		model_rss = container_of(ibv_cmd,
					 struct fakernic_cmd_create_rss_qp,
					 ibv_cmd)->drv_payload;
		model_qps[model_qp_count++] = (struct model_qp) {};
		return 0;
	}
	model_qps[model_qp_count++] = (struct model_qp) {
		.sq = { (void *)(uintptr_t)cmd->sq_va, cmd->sq_log_depth, 6 },
		.rq = { (void *)(uintptr_t)cmd->rq_va, cmd->rq_log_depth,
			cmd->rq_log_stride },
		.qpn = vqp->qp.qp_num,
		.cap = attr->cap,
	};
	return 0;
}

int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *vqp,
		    int vqp_size, struct ibv_qp_open_attr *attr,
		    struct ibv_open_qp *cmd, size_t cmd_size,
		    struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	int err = model_create();

	if (err)
		return err;
	vqp->qp.context = context;
	vqp->qp.qp_num = attr->qp_num;
	vqp->qp.qp_type = attr->qp_type;
	vqp->qp.state = IBV_QPS_UNKNOWN;
	return 0;
}

int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd,
		      int xrcd_size, struct ibv_xrcd_init_attr *attr,
		      struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size)
{
	return model_create();
}

int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd)
{
	return model_destroy();
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *vsrq,
			  struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *ibv_cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *ibv_resp,
			  size_t resp_size)
{
	struct fakernic_cmd_create_srq *cmd =
		container_of(ibv_cmd, struct fakernic_cmd_create_srq, ibv_cmd);
	struct fakernic_cmd_create_srq_resp *resp = container_of(
		ibv_resp, struct fakernic_cmd_create_srq_resp, ibv_resp);
	int err = model_create();

	if (err)
		return err;
	model_the_srq = (struct model_ring) {
		.bytes = (void *)(uintptr_t)cmd->buf_va,
		.log_depth = cmd->log_depth,
		.log_stride = cmd->log_stride,
	};
	vsrq->srq.context = context;
	vsrq->srq_type = attr->srq_type;
	if (attr->srq_type == IBV_SRQT_XRC) {
		vsrq->srq_num = MODEL_XRC_SRQN;
	} else {
		resp->srqn = MODEL_SRQN;
	}
	/* As libibverbs does, whatever the type. */
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ)
		vsrq->cq = attr->cq;
	return 0;
}

/* To RESET: the device's indices go back to 0. */
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size)
{
	int err = model_verdict();

	if (err)
		return err;
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		model_qp(qp)->sq.index = 0;
		model_qp(qp)->rq.index = 0;
	}
	qp->state = attr->qp_state;
	return 0;
}

int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			 struct ibv_modify_qp_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_modify_qp_resp *resp,
			 size_t resp_size)
{
	int err = model_verdict();

	if (!err && mask & IBV_QP_RATE_LIMIT)
		model_qp(qp)->rate_limit = attr->rate_limit;
	return err;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct ibv_qp_init_attr *init_attr,
		     struct ibv_query_qp *cmd, size_t cmd_size)
{
	return 0;
}

/* For a resize the device copies the receives that it has not taken. */
int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		       int mask, struct ibv_modify_srq *ibv_cmd,
		       size_t cmd_size)
{
	struct fakernic_cmd_modify_srq *cmd =
		container_of(ibv_cmd, struct fakernic_cmd_modify_srq, ibv_cmd);
	struct model_ring *old = &model_the_srq;
	struct model_ring new = *old;
	int err = model_verdict();

	if (err || !(mask & IBV_SRQ_MAX_WR))
		return err;
	new.bytes = (void *)(uintptr_t)cmd->buf_va;
	new.log_depth = cmd->log_depth;
	if (model_record(&new) - old->index > 1U << new.log_depth)
		return EINVAL;
	while (new.index != model_record(&new)) {
		memcpy(model_entry(&new, new.index),
		       model_entry(old, new.index), 1U << old->log_stride);
		new.index++;
	}
	new.index = old->index;
	*old = new;
	return 0;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		      struct ibv_query_srq *cmd, size_t cmd_size)
{
	return model_verdict();
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	return model_destroy();
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	int err = model_destroy();

	return err ? err : model_wait_for_events(&model_qp_count);
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	int err = model_destroy();

	return err ? err : model_wait_for_events(NULL);
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd,
		     struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *ibv_resp, size_t resp_size)
{
	pd->context = context;
	return model_create();
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	return model_destroy();
}

/* ---- memory -------------------------------------------------------------- */

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
		   uint64_t hca_va, int access, struct verbs_mr *vmr,
		   struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	return model_create();
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
			  uint64_t iova, int fd, int access,
			  struct verbs_mr *vmr,
			  struct ibv_command_buffer *driver)
{
	return model_create();
}

int ibv_cmd_reg_dm_mr(struct ibv_pd *pd, struct verbs_dm *dm, uint64_t offset,
		      size_t length, unsigned int access, struct verbs_mr *vmr,
		      struct ibv_command_buffer *link)
{
	return access & IBV_ACCESS_ZERO_BASED ? model_create() : EINVAL;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr,
		     size_t length, uint64_t hca_va, int access,
		     struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp,
		     size_t resp_size)
{
	return model_verdict();
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	vmr->ibv_mr.handle = handle;
	vmr->ibv_mr.lkey = 0x1234;
	return model_verdict();
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	return model_destroy();
}

int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type,
		     struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp,
		     size_t resp_size)
{
	return model_create();
}

int ibv_cmd_dealloc_mw(struct ibv_mw *mw)
{
	return model_destroy();
}

static void *model_attr_ptr(struct ibv_command_buffer *cmd, unsigned int n)
{
	return (void *)(uintptr_t)cmd->hdr.attrs[n].data;
}

/* The driver's part of the response has the offset. */
int ibv_cmd_alloc_dm(struct ibv_context *context,
		     const struct ibv_alloc_dm_attr *attr, struct verbs_dm *dm,
		     struct ibv_command_buffer *link)
{
	int err = attr->length && attr->length <= MODEL_DM_MAX ?
		model_create() : EINVAL;

	if (err)
		return err;
	*(uint64_t *)model_attr_ptr(link, 0) = MODEL_DM_OFFSET;
	model_dm_length = attr->length;
	dm->handle = MODEL_DM_HANDLE;
	dm->dm.handle = dm->handle;
	dm->dm.context = context;
	return 0;
}

int ibv_cmd_free_dm(struct verbs_dm *dm)
{
	return model_destroy();
}

/* There is one driver method: FAKERNIC_METHOD_DM_QUERY. */
int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd)
{
	if (cmd->hdr.object_id != UVERBS_OBJECT_DM ||
	    cmd->hdr.method_id != FAKERNIC_METHOD_DM_QUERY)
		return EPROTONOSUPPORT;
	if (cmd->hdr.attrs[0].data != MODEL_DM_HANDLE)
		return ENOENT;
	*(uint64_t *)model_attr_ptr(cmd, 1) = MODEL_DM_OFFSET;
	*(uint64_t *)model_attr_ptr(cmd, 2) = model_dm_length;
	return 0;
}

int ibv_cmd_create_wq(struct ibv_context *context,
		      struct ibv_wq_init_attr *attr, struct ibv_wq *wq,
		      struct ibv_create_wq *ibv_cmd, size_t cmd_size,
		      struct ib_uverbs_ex_create_wq_resp *resp,
		      size_t resp_size)
{
	struct fakernic_cmd_create_wq *cmd =
		container_of(ibv_cmd, struct fakernic_cmd_create_wq, ibv_cmd);
	int err = model_create();

	if (err)
		return err;
	wq->context = context;
	wq->cq = attr->cq;
	wq->pd = attr->pd;
	wq->wq_num = MODEL_WQN + model_wq_count;
	model_wqs[model_wq_count++] = (struct model_ring) {
		.bytes = (void *)(uintptr_t)cmd->buf_va,
		.log_depth = cmd->log_depth,
		.log_stride = cmd->log_stride,
	};
	return 0;
}

int ibv_cmd_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr,
		      struct ibv_modify_wq *cmd, size_t cmd_size)
{
	int err = model_verdict();

	if (!err && attr->attr_mask & IBV_WQ_ATTR_STATE) {
		wq->state = attr->wq_state;
		if (wq->state == IBV_WQS_RESET)
			model_wq(wq)->index = 0;
	}
	return err;
}

int ibv_cmd_destroy_wq(struct ibv_wq *wq)
{
	int err = model_destroy();

	return err ? err : model_wait_for_events(&model_wq_count);
}

int ibv_cmd_create_rwq_ind_table(
	struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr,
	struct ibv_rwq_ind_table *table,
	struct ib_uverbs_ex_create_rwq_ind_table_resp *resp, size_t resp_size)
{
	table->context = context;
	return model_create();
}

int ibv_cmd_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	return model_destroy();
}

int ibv_cmd_create_flow(struct ibv_qp *qp, struct ibv_flow *flow,
			struct ibv_flow_attr *attr, void *ucmd,
			size_t ucmd_size)
{
	return model_create();
}

int ibv_cmd_destroy_flow(struct ibv_flow *flow)
{
	return model_destroy();
}

int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah,
		      struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *ibv_resp,
		      size_t resp_size)
{
	struct fakernic_cmd_create_ah_resp *resp = container_of(
		ibv_resp, struct fakernic_cmd_create_ah_resp, ibv_resp);

	memset(resp->dmac, 0xdd, sizeof(resp->dmac));
	return model_create();
}

int ibv_cmd_destroy_ah(struct ibv_ah *ah)
{
	return model_destroy();
}

/* Index 0 is IPv4, 1 is IPv6, and there are no others. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
		      uint32_t gid_index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t entry_size)
{
	if (port_num != 1 || gid_index > 1)
		return ENODATA;
	memset(entry, 0, entry_size);
	entry->gid.raw[gid_index ? 0 : 10] = 0xff;
	entry->gid.raw[11] = 0xff;
	return 0;
}
