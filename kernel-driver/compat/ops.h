/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adapters of the table of operations for older kernels, used by ibdev.c. Each
 * operation has the newest kernel's arguments. If the type of its table entry
 * differs, the table gets an adapter from here.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_OPS_H
#define FAKERNIC_DRIVER_COMPAT_OPS_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include "../core/port.h"
#include "../rdma/counter.h"
#include "../rdma/cq.h"
#include "../rdma/mr.h"
#include "../rdma/restrack.h"

/* Used for its types only, never dereferenced. */
#define FAKERNIC_TABLE		((const struct ib_device_ops *)NULL)

/* Selects the adapter if it has the entry's type, else the operation. */
#define FAKERNIC_FITTING(entry, adapter, operation)			\
	__builtin_choose_expr(__same_type(*(entry), typeof(adapter)),	\
			      adapter, operation)

/* Older kernels pass the udata instead of the attribute bundle. */
static inline int
fakernic_create_cq_udata(struct ib_cq *ibcq,
			 const struct ib_cq_init_attr *attr,
			 struct ib_udata *udata)
{
	struct uverbs_attr_bundle *attrs = NULL;

	if (udata)
		attrs = rdma_udata_to_uverbs_attr_bundle(udata);
	return fakernic_create_cq(ibcq, attr, attrs);
}

#define FAKERNIC_CREATE_CQ						\
	FAKERNIC_FITTING(FAKERNIC_TABLE->create_cq,			\
			 fakernic_create_cq_udata, fakernic_create_cq)

/* Older kernels pass no DMA handle. */
static inline struct ib_mr *
fakernic_reg_user_mr_udata(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			   int access, struct ib_udata *udata)
{
	return fakernic_reg_user_mr(ibpd, start, length, iova, access, NULL,
				    udata);
}

#define FAKERNIC_REG_USER_MR						\
	FAKERNIC_FITTING(FAKERNIC_TABLE->reg_user_mr,			\
			 fakernic_reg_user_mr_udata, fakernic_reg_user_mr)

static inline struct ib_mr *
fakernic_reg_dmabuf_attrs(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
			  int fd, int access, struct uverbs_attr_bundle *attrs)
{
	return fakernic_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd,
					   access, NULL, attrs);
}

/* Still older kernels pass the udata, which is empty, not the bundle. */
static inline struct ib_mr *
fakernic_reg_dmabuf_udata(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
			  int fd, int access, struct ib_udata *udata)
{
	return fakernic_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd,
					   access, NULL, NULL);
}

#define FAKERNIC_REG_USER_MR_DMABUF					\
	FAKERNIC_FITTING(FAKERNIC_TABLE->reg_user_mr_dmabuf,		\
			 fakernic_reg_dmabuf_udata,			\
			 FAKERNIC_FITTING(FAKERNIC_TABLE->reg_user_mr_dmabuf,\
					  fakernic_reg_dmabuf_attrs,	\
					  fakernic_reg_user_mr_dmabuf))

/* Older kernels pass no port number; the device has one port. */
static inline int fakernic_counter_bind_qp_only(struct rdma_counter *counter,
						struct ib_qp *ibqp)
{
	return fakernic_counter_bind_qp(counter, ibqp, FAKERNIC_PORT);
}

static inline int fakernic_counter_unbind_qp_only(struct ib_qp *ibqp)
{
	return fakernic_counter_unbind_qp(ibqp, FAKERNIC_PORT);
}

#define FAKERNIC_COUNTER_BIND_QP					\
	FAKERNIC_FITTING(FAKERNIC_TABLE->counter_bind_qp,		\
			 fakernic_counter_bind_qp_only,			\
			 fakernic_counter_bind_qp)
#define FAKERNIC_COUNTER_UNBIND_QP					\
	FAKERNIC_FITTING(FAKERNIC_TABLE->counter_unbind_qp,		\
			 fakernic_counter_unbind_qp_only,		\
			 fakernic_counter_unbind_qp)

/* Kernel CQs cannot be resized. Newer kernels never request that. */
static inline int fakernic_resize_any_cq(struct ib_cq *ibcq, int cqe,
					 struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	if (cqe < 0)
		return -EINVAL;
	return fakernic_resize_cq(ibcq, cqe, udata);
}

static const struct ib_device_ops fakernic_resize_cq_ops = {
#ifdef FAKERNIC_HAVE_RESIZE_USER_CQ
	.resize_user_cq = fakernic_resize_cq,
#else
	.resize_cq = fakernic_resize_any_cq,
#endif
};

/*
 * Newer cores derive port events from the net_device unless the driver has this
 * operation. The driver dispatches port events itself, so it does nothing.
 */
static inline void fakernic_report_port_event(struct ib_device *ibdev,
					      struct net_device *netdev,
					      unsigned long event)
{
}

/* Raw dumps of the object types that the table supports. */
static const struct ib_device_ops fakernic_raw_ops = {
	.fill_res_cq_entry_raw = fakernic_fill_raw_cq,
	.fill_res_mr_entry_raw = fakernic_fill_raw_mr,
	.fill_res_qp_entry_raw = fakernic_fill_raw_qp,
#ifdef FAKERNIC_HAVE_FILL_RES_SRQ_RAW
	.fill_res_srq_entry_raw = fakernic_fill_raw_srq,
#endif
};

/* Entries that exist in some kernels only. */
static const struct ib_device_ops fakernic_new_ops = {
#ifdef FAKERNIC_HAVE_FILL_RES_SRQ
	.fill_res_srq_entry = fakernic_fill_res_srq,
#endif
#ifdef FAKERNIC_HAVE_REPORT_PORT_EVENT
	.report_port_event = fakernic_report_port_event,
#endif
};

#endif
