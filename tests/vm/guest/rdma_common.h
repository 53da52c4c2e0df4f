/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest-side verbs programs share: one device, one RC queue pair each,
 * a buffer, and a text exchange of addresses. Every failure ends the program
 * with a line that names the call. Sizes are in bytes.
 */
#ifndef RDMA_COMMON_H
#define RDMA_COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define DIE(...)                                                              \
	do {                                                                  \
		fprintf(stderr, __VA_ARGS__);                                 \
		fprintf(stderr, " (%s)\n", strerror(errno));                  \
		exit(1);                                                      \
	} while (0)

struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
	size_t size;
	uint32_t psn;
	int gid_index;
	union ibv_gid gid;
};

/* What a peer must know to connect and to address memory. */
struct peer {
	uint32_t qpn, psn, rkey;
	uint64_t address;
	union ibv_gid gid;
};

static inline double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* The first RDMA device, or the one named by RDMA_DEVICE. */
static inline struct ibv_context *open_device(void)
{
	const char *wanted = getenv("RDMA_DEVICE");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i] && !context; i++)
		if (!wanted || !strcmp(wanted, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	if (!context)
		DIE("no RDMA device%s%s", wanted ? " " : "",
		    wanted ? wanted : "");
	ibv_free_device_list(list);
	return context;
}

/* The index of a RoCEv2 GID: an IPv4-mapped one, or with ipv6 a global or
 * unique-local IPv6 one.
 */
static inline int find_gid(struct ibv_context *context, bool ipv6,
			   union ibv_gid *gid)
{
	struct ibv_gid_entry entries[64];
	ssize_t count = ibv_query_gid_table(context, entries, 64, 0);

	for (ssize_t i = 0; i < count; i++) {
		bool mapped = IN6_IS_ADDR_V4MAPPED(
			(struct in6_addr *)entries[i].gid.raw);
		bool local = IN6_IS_ADDR_LINKLOCAL(
			(struct in6_addr *)entries[i].gid.raw);

		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (ipv6 ? !mapped && !local : mapped) {
			*gid = entries[i].gid;
			return entries[i].gid_index;
		}
	}
	DIE("no %s RoCEv2 GID", ipv6 ? "IPv6" : "IPv4");
}

static inline struct ibv_qp *create_rc_qp(struct endpoint *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 2, .max_recv_sge = 2 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	if (!qp)
		DIE("ibv_create_qp");
	return qp;
}

static inline void endpoint_open(struct endpoint *e, struct ibv_context *context,
				 size_t size, int access, bool ipv6)
{
	e->context = context;
	e->size = size;
	e->psn = 0xfffffe;	/* so that it wraps at once */
	e->gid_index = find_gid(context, ipv6, &e->gid);
	e->pd = ibv_alloc_pd(context);
	if (!e->pd)
		DIE("ibv_alloc_pd");
	e->cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	if (!e->cq)
		DIE("ibv_create_cq");
	e->qp = create_rc_qp(e);
	if (posix_memalign((void **)&e->buffer, 4096, size))
		DIE("posix_memalign");
	memset(e->buffer, 0, size);
	e->mr = ibv_reg_mr(e->pd, e->buffer, size, access);
	if (!e->mr)
		DIE("ibv_reg_mr");
}

static inline void endpoint_close(struct endpoint *e)
{
	int failed = 0;

	failed |= ibv_destroy_qp(e->qp);
	failed |= ibv_dereg_mr(e->mr);
	failed |= ibv_destroy_cq(e->cq);
	failed |= ibv_dealloc_pd(e->pd);
	if (failed)
		DIE("an object could not be destroyed");
	free(e->buffer);
}

/* RESET -> RTS towards a peer; retry counts as given. */
static inline void connect_qp(struct endpoint *e, const struct peer *peer,
			      int timeout, int retry_cnt, int rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			  IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		DIE("ibv_modify_qp to INIT");
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = peer->gid, .hop_limit = 64,
				 .sgid_index = e->gid_index },
		},
	};
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			  IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		DIE("ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = e->psn,
		.max_rd_atomic = 4,
		.timeout = timeout,
		.retry_cnt = retry_cnt,
		.rnr_retry = rnr_retry,
	};
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
			  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY))
		DIE("ibv_modify_qp to RTS");
}

static inline struct peer self_as_peer(const struct endpoint *e)
{
	return (struct peer) {
		.qpn = e->qp->qp_num,
		.psn = e->psn,
		.rkey = e->mr->rkey,
		.address = (uintptr_t)e->buffer,
		.gid = e->gid,
	};
}

/* Waits up to 20 s for one completion. */
static inline struct ibv_wc wait_completion(struct ibv_cq *cq)
{
	double deadline = seconds_now() + 20;
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		if (seconds_now() > deadline) {
			errno = ETIMEDOUT;
			DIE("no completion");
		}
	if (count < 0)
		DIE("ibv_poll_cq");
	return wc;
}

/* One signaled RDMA READ or WRITE, or a SEND (remote address unused). */
static inline int post(struct endpoint *e, enum ibv_wr_opcode opcode,
		       size_t offset, size_t length, uint32_t lkey,
		       uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset,
		.length = length,
		.lkey = lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};

	return ibv_post_send(e->qp, &wr, &bad);
}

static inline int post_recv(struct endpoint *e, size_t offset, size_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)e->buffer + offset,
		.length = length,
		.lkey = e->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = 1000,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ibv_post_recv(e->qp, &wr, &bad);
}

#endif
