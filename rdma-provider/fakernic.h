/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The provider's objects and the functions between its files.
 *
 * Each object embeds the one libibverbs knows. Locks, taken in this order:
 * table mutex, CQ (two of them by number), then SQ, RQ or SRQ. A completion
 * frees room in an SQ or RQ without their locks: through one atomic counter.
 */
#ifndef FAKERNIC_PROVIDER_H
#define FAKERNIC_PROVIDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ccan/array_size.h>
#include <ccan/minmax.h>
#include <infiniband/driver.h>

#include "fakernic/base.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/qp.h"
#include "fakernic/regs.h"
#include "fakernic/sq.h"
#include "fakernic/wq.h"
#include "queue.h"
#include "table.h"

/* A lock that single-threaded objects do without. */
struct fakernic_lock {
	pthread_spinlock_t spin;
	bool needed;
};

static inline void fakernic_lock_init(struct fakernic_lock *lock, bool needed)
{
	pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
	lock->needed = needed;
}

static inline void fakernic_lock_destroy(struct fakernic_lock *lock)
{
	pthread_spin_destroy(&lock->spin);
}

static inline void fakernic_lock(struct fakernic_lock *lock)
{
	if (lock->needed)
		pthread_spin_lock(&lock->spin);
}

static inline void fakernic_unlock(struct fakernic_lock *lock)
{
	if (lock->needed)
		pthread_spin_unlock(&lock->spin);
}

struct fakernic_context {
	struct verbs_context vctx;
	void *uar;			/* doorbell page */
	const void *clock_page;		/* NULL: none */
	uint64_t features;		/* FAKERNIC_FEATURE_* in use */
	uint64_t wall_offset_ns;	/* Unix time - device clock; 0: unknown */
	uint32_t max_qp_wr;
	uint32_t max_inline;		/* bytes */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	struct fakernic_table qp_table;
	struct fakernic_table wq_table;	/* numbers not in qp_table; changed
					 * under the mutex of that
					 */
	struct fakernic_table srq_table;
};

struct fakernic_td;

struct fakernic_pd {
	struct ibv_pd pd;
	atomic_int users;		/* parent domains that stand for it;
					 * of a parent domain: its queues
					 */
	struct fakernic_pd *protection;	/* NULL: not a parent domain */
	/* Of a parent domain, each may be NULL. */
	struct fakernic_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *context, void *memory,
		     uint64_t resource_type);
	void *alloc_context;
};

struct fakernic_dm {
	struct verbs_dm vdm;
	uint8_t *map;
	size_t length;
	size_t map_bytes;
};

struct fakernic_ah {
	struct ibv_ah ah;
	struct fakernic_av av;		/* as UD work requests carry it */
};

struct fakernic_cq {
	struct verbs_cq vcq;
	struct fakernic_queue queue;
	struct fakernic_lock lock;
	uint32_t ci;
	uint32_t cqn;
	struct fakernic_cqe *cqe;	/* between start_poll and end_poll */
};

/* What the provider remembers of a posted send, at its first block's place. */
struct fakernic_sq_wr {
	uint64_t wr_id;
	uint32_t wr_end;		/* wr_pi behind it */
};

struct fakernic_sq {
	struct fakernic_queue queue;	/* of basic blocks; no ring: no SQ */
	struct fakernic_lock lock;
	struct fakernic_sq_wr *wr;
	uint32_t pi;			/* basic blocks */
	uint32_t wr_pi;			/* work requests posted */
	atomic_uint wr_ci;		/* work requests whose room is free */
	uint32_t wr_max;		/* work requests outstanding */
	uint32_t sge_max;
	uint32_t inline_max;		/* bytes */
	uint32_t opcodes;		/* bit n: may post ibv_wr_opcode n */
	uint8_t bb_max;			/* basic blocks of the largest WQE */
	uint8_t data_offset;		/* of a SEND: 16, UD 64 */
	uint8_t csum_flags;		/* what IBV_SEND_IP_CSUM becomes */
	bool signal_all;
	/* The WQE being built, and the batch of the ibv_wr_* interface. */
	struct fakernic_sq_hdr *wqe;	/* NULL: none */
	uint32_t wqe_bytes;
	uint64_t wqe_wr_id;
	uint32_t batch_pi;
	uint32_t batch_wr_pi;
	int batch_err;
	const char *why;		/* the last EINVAL */
	uint64_t staging[FAKERNIC_SQ_WQE_SIZE_MAX / 8];	/* for one that wraps */
};

struct fakernic_rq {
	struct fakernic_queue queue;	/* no ring: no RQ, or an SRQ */
	struct fakernic_lock lock;
	uint64_t *wr_id;		/* by slot */
	uint32_t pi;
	atomic_uint ci;			/* receives completed */
	uint32_t sge_max;
};

struct fakernic_srq {
	struct verbs_srq vsrq;
	struct fakernic_queue queue;
	struct fakernic_lock lock;
	uint64_t *wr_id;		/* by tag */
	uint32_t *free_tag;		/* stack of the tags not in use */
	uint32_t free_count;
	uint32_t tag_count;		/* the largest depth it ever had */
	uint32_t pi;
	uint32_t sge_max;
	uint32_t srqn;
};

struct fakernic_qp {
	struct verbs_qp vqp;
	struct fakernic_sq sq;
	struct fakernic_rq rq;
};

/* A receive queue that is not of a QP; its number is like a QP's. */
struct fakernic_wq {
	struct ibv_wq wq;
	struct fakernic_rq rq;
};

static inline struct fakernic_context *
fakernic_to_context(struct ibv_context *context)
{
	return container_of(context, struct fakernic_context, vctx.context);
}

static inline struct fakernic_cq *fakernic_to_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct fakernic_cq, vcq.cq);
}

static inline struct fakernic_qp *fakernic_to_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct fakernic_qp, vqp.qp);
}

static inline struct fakernic_wq *fakernic_to_wq(struct ibv_wq *wq)
{
	return container_of(wq, struct fakernic_wq, wq);
}

static inline struct fakernic_srq *fakernic_to_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct fakernic_srq, vsrq.srq);
}

static inline struct fakernic_dm *fakernic_to_dm(struct ibv_dm *dm)
{
	return container_of(dm, struct fakernic_dm, vdm.dm);
}

static inline struct fakernic_ah *fakernic_to_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct fakernic_ah, ah);
}

/*
 * The errno value err, for what never reaches the kernel; VERBS_LOG_LEVEL=4
 * tells a user why.
 */
#define fakernic_refuse(context, err, ...)				\
	({								\
		verbs_debug(&(context)->vctx, __VA_ARGS__);		\
		(err);							\
	})

/* The context has a clock page. */
static inline uint64_t
fakernic_clock_ns(const struct fakernic_context *context)
{
	const struct fakernic_clock_page *page = context->clock_page;

	return le64toh(*(const volatile __le64 *)&page->time_ns);
}

/* pd.c */
struct ibv_pd *fakernic_alloc_pd(struct ibv_context *context);
int fakernic_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *fakernic_import_pd(struct ibv_context *context, uint32_t handle);
void fakernic_unimport_pd(struct ibv_pd *pd);
struct ibv_pd *
fakernic_alloc_parent_domain(struct ibv_context *context,
			     struct ibv_parent_domain_init_attr *attr);
struct ibv_td *fakernic_alloc_td(struct ibv_context *context,
				 struct ibv_td_init_attr *attr);
int fakernic_dealloc_td(struct ibv_td *td);
/* NULL when pd is none (or NULL). */
struct fakernic_pd *fakernic_to_parent_domain(struct ibv_pd *pd);
/* False: the thread domain of this parent domain serialises its objects. */
bool fakernic_pd_needs_locks(struct ibv_pd *pd);

/* mr.c */
struct ibv_mr *fakernic_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			       uint64_t hca_va, int access);
struct ibv_mr *fakernic_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				      size_t length, uint64_t iova, int fd,
				      int access);
struct ibv_mr_init_attr;
struct ibv_mr *fakernic_reg_mr_ex(struct ibv_pd *pd,
				  struct ibv_mr_init_attr *attr);
int fakernic_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		      void *addr, size_t length, int access);
int fakernic_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *fakernic_import_mr(struct ibv_pd *pd, uint32_t handle);
void fakernic_unimport_mr(struct ibv_mr *mr);
struct ibv_mw *fakernic_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int fakernic_dealloc_mw(struct ibv_mw *mw);

/* dm.c */
struct ibv_dm *fakernic_alloc_dm(struct ibv_context *context,
				 struct ibv_alloc_dm_attr *attr);
int fakernic_free_dm(struct ibv_dm *dm);
struct ibv_dm *fakernic_import_dm(struct ibv_context *context, uint32_t handle);
void fakernic_unimport_dm(struct ibv_dm *dm);
struct ibv_mr *fakernic_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm,
				  uint64_t offset, size_t length,
				  unsigned int access);

/* flow.c */
struct ibv_flow *fakernic_create_flow(struct ibv_qp *qp,
				      struct ibv_flow_attr *attr);
int fakernic_destroy_flow(struct ibv_flow *flow);

/* xrc.c */
struct ibv_xrcd *fakernic_open_xrcd(struct ibv_context *context,
				    struct ibv_xrcd_init_attr *attr);
int fakernic_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *fakernic_open_qp(struct ibv_context *context,
				struct ibv_qp_open_attr *attr);

/* ah.c */
struct ibv_ah *fakernic_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int fakernic_destroy_ah(struct ibv_ah *ah);
int fakernic_refuse_address(struct ibv_context *context,
			    const struct ibv_ah_attr *attr, int err);

/* cq.c */
struct ibv_cq *fakernic_create_cq(struct ibv_context *context, int cqe,
				  struct ibv_comp_channel *channel,
				  int comp_vector);
struct ibv_cq_ex *fakernic_create_cq_ex(struct ibv_context *context,
					struct ibv_cq_init_attr_ex *attr);
int fakernic_resize_cq(struct ibv_cq *cq, int cqe);
int fakernic_destroy_cq(struct ibv_cq *cq);
int fakernic_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int fakernic_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Locks both CQs of a QP (which may be one, or NULL). */
void fakernic_lock_cqs(struct ibv_cq *one, struct ibv_cq *other);
void fakernic_unlock_cqs(struct ibv_cq *one, struct ibv_cq *other);
/* Take the entries of a QP or WQ, or those of an XRC SRQ, out of a locked CQ. */
void fakernic_clean_cq_of_qp_locked(struct ibv_cq *cq, uint32_t qpn);
void fakernic_clean_cq_of_srq_locked(struct ibv_cq *cq, uint32_t srqn);

/* qp.c */
struct ibv_qp *fakernic_create_qp(struct ibv_pd *pd,
				  struct ibv_qp_init_attr *attr);
struct ibv_qp *fakernic_create_qp_ex(struct ibv_context *context,
				     struct ibv_qp_init_attr_ex *attr);
int fakernic_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int fakernic_modify_qp_rate_limit(struct ibv_qp *qp,
				  struct ibv_qp_rate_limit_attr *attr);
int fakernic_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_qp_init_attr *init_attr);
int fakernic_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				    uint32_t flags);
int fakernic_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int fakernic_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int fakernic_destroy_qp(struct ibv_qp *qp);

/*
 * sq.c. fakernic_sq_size() fills in what attr asks for (the caller zeroed sq),
 * fakernic_sq_alloc() makes the queue; 0 or an errno value.
 */
int fakernic_sq_size(struct fakernic_sq *sq,
		     const struct fakernic_context *context,
		     const struct ibv_qp_init_attr_ex *attr,
		     uint8_t *log_depth);
int fakernic_sq_alloc(struct fakernic_sq *sq, struct ibv_pd *pd,
		      uint8_t log_depth);
void fakernic_sq_free(struct fakernic_sq *sq);
void fakernic_sq_reset(struct fakernic_sq *sq);
/* A send's CQE was taken from its CQ: its wr_id; frees its room. */
uint64_t fakernic_sq_complete(struct fakernic_sq *sq, uint32_t index);

/* post_send.c */
int fakernic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad_wr);
int fakernic_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		     struct ibv_mw_bind *bind);

/* wr.c: sets the ibv_wr_* functions; EOPNOTSUPP for one this QP cannot have. */
int fakernic_set_builders(struct fakernic_qp *qp, enum ibv_qp_type type,
			  uint64_t send_ops_flags);

/* rq.c */
int fakernic_rq_alloc(struct fakernic_rq *rq, struct ibv_pd *pd,
		      uint8_t log_depth, uint8_t log_stride);
void fakernic_rq_free(struct fakernic_rq *rq);
void fakernic_rq_reset(struct fakernic_rq *rq);
uint64_t fakernic_rq_complete(struct fakernic_rq *rq, uint32_t tag);
/* log2 of the slot size for sge_count entries, and back. */
uint8_t fakernic_recv_log_stride(uint32_t sge_count);
uint32_t fakernic_recv_sge_max(const struct fakernic_context *context,
			       uint8_t log_stride);
/* Writes one receive into a slot. */
void fakernic_write_recv(struct fakernic_rq_wqe *wqe, uint32_t tag,
			 const struct ibv_recv_wr *wr);
/* Says which check failed, for a receive with too many entries. */
void fakernic_explain_recv(struct ibv_context *context, uint32_t number,
			   const struct ibv_recv_wr *wr, uint32_t sge_max);
/* Posts a list; 'number' is that of the QP or WQ. */
int fakernic_rq_post(struct fakernic_rq *rq, struct ibv_context *context,
		     uint32_t number, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad_wr);
int fakernic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr);

/* wq.c */
struct ibv_wq *fakernic_create_wq(struct ibv_context *context,
				  struct ibv_wq_init_attr *attr);
int fakernic_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int fakernic_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *
fakernic_create_rwq_ind_table(struct ibv_context *context,
			      struct ibv_rwq_ind_table_init_attr *attr);
int fakernic_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
/* The QP of an indirection table: create_qp_ex() when attr has one. */
struct ibv_qp *fakernic_create_rss_qp(struct ibv_context *context,
				      struct ibv_qp_init_attr_ex *attr);

/* srq.c */
struct ibv_srq *fakernic_create_srq(struct ibv_pd *pd,
				    struct ibv_srq_init_attr *attr);
struct ibv_srq *fakernic_create_srq_ex(struct ibv_context *context,
				       struct ibv_srq_init_attr_ex *attr);
int fakernic_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			int mask);
int fakernic_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int fakernic_get_srq_num(struct ibv_srq *srq, uint32_t *srqn);
int fakernic_destroy_srq(struct ibv_srq *srq);
/* A receive's CQE was taken from its CQ: its wr_id; frees its tag. */
uint64_t fakernic_srq_complete(struct fakernic_srq *srq, uint32_t tag);
int fakernic_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad_wr);

#endif
