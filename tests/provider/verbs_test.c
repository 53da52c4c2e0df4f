/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The verbs around the data path: services and objects besides RC and UD, the
 * source of queue memory, bad input, and a kernel that refuses. These must
 * leave nothing behind: world_end() counts the kernel's objects, the sanitizer
 * checks the memory.
 */
#include <unistd.h>
#include <ccan/array_size.h>

#include "world.h"
#include "doorbell.h"

#define PAGE	FAKERNIC_PAGE_SIZE

struct wqe {
	struct fakernic_sq_hdr hdr;
	union {
		struct {
			struct fakernic_sq_rdma rdma;
			struct fakernic_sge sge[2];
		};
		uint8_t bytes[560];
	};
};

static struct ibv_qp *qp_of(struct world *world, enum ibv_qp_type type,
			    struct ibv_xrcd *xrcd, uint64_t send_ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = world->cq, .recv_cq = world->cq, .qp_type = type,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4 },
		.comp_mask = xrcd ? IBV_QP_INIT_ATTR_XRCD :
				    IBV_QP_INIT_ATTR_PD |
				    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = world->pd, .xrcd = xrcd, .send_ops_flags = send_ops,
	};
	struct ibv_qp *qp;

	qp = fakernic_ucreate_qp_ex(world->pd->context, &attr);
	if (qp)
		qp->state = IBV_QPS_RTS;
	return qp;
}

static struct ibv_qp_ex *ex_of(struct ibv_qp *qp)
{
	return &fakernic_to_qp(qp)->vqp.qp_ex;
}

static struct ibv_xrcd *xrcd_of(struct world *world)
{
	struct ibv_xrcd_init_attr attr = {};
	struct ibv_xrcd *xrcd = fakernic_uopen_xrcd(world->pd->context, &attr);

	CHECK(xrcd);
	return xrcd;
}

static struct ibv_srq *xrc_srq_of(struct world *world, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.pd = world->pd, .xrcd = xrcd, .cq = world->cq,
	};
	struct ibv_srq *srq;

	srq = fakernic_ucreate_srq_ex(world->pd->context, &attr);
	CHECK(srq);
	return srq;
}

/* ---- XRC ----------------------------------------------------------------- */

static void xrc_initiator_sets_the_srq_number(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp *qp = qp_of(&world, IBV_QPT_XRC_SEND, NULL,
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr recv = {}, *bad_recv;
	struct wqe wqe;
	uint32_t index;

	CHECK(qp && model_qp(qp)->rq.log_depth == 0xff);
	CHECK(!model_qp(qp)->cap.max_recv_wr);
	wr.qp_type.xrc.remote_srqn = 0x123456;
	CHECK(!fakernic_upost_send(qp, &wr, &bad));
	CHECK(model_take_send(model_qp(qp), &wqe, &index));
	CHECK(wqe.hdr.xrc_srqn == htole32(0x123456));
	ex_of(qp)->wr_start(ex_of(qp));
	ex_of(qp)->wr_rdma_write_imm(ex_of(qp), 1, 2, htobe32(3));
	ex_of(qp)->wr_set_xrc_srqn(ex_of(qp), 0x654321);
	CHECK(!ex_of(qp)->wr_complete(ex_of(qp)));
	CHECK(model_take_send(model_qp(qp), &wqe, &index));
	CHECK(wqe.hdr.xrc_srqn == htole32(0x654321));
	CHECK(wqe.hdr.imm_or_key == htole32(3));
	CHECK(fakernic_upost_recv(qp, &recv, &bad_recv) == ENOMEM);
	CHECK(!fakernic_udestroy_qp(qp));
	world_end(&world);
}

/*
 * A target that is created once and opened twice has three handles, but no
 * queue and no table entry.
 */
static void xrc_target_has_no_queue(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_xrcd *xrcd = xrcd_of(&world);
	struct ibv_qp *qp = qp_of(&world, IBV_QPT_XRC_RECV, xrcd, 0);
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp *opened[2];
	int i;

	CHECK(qp && model_qp(qp)->sq.log_depth == 0xff &&
	      model_qp(qp)->rq.log_depth == 0xff &&
	      !model_qp(qp)->cap.max_send_wr);
	CHECK(fakernic_upost_send(qp, &wr, &bad) == ENOMEM);
	attr.qp_num = qp->qp_num;
	for (i = 0; i < 2; i++) {
		opened[i] = fakernic_uopen_qp(world.pd->context, &attr);
		CHECK(opened[i] && opened[i]->qp_num == qp->qp_num);
	}
	CHECK(!fakernic_utable_find(&world.context->qp_table, qp->qp_num));
	CHECK(!fakernic_udestroy_qp(opened[0]) && !fakernic_udestroy_qp(qp) &&
	      !fakernic_udestroy_qp(opened[1]));
	attr.qp_type = IBV_QPT_RC;
	CHECK(!fakernic_uopen_qp(world.pd->context, &attr) && errno == EINVAL);
	CHECK(!fakernic_uclose_xrcd(xrcd));
	world_end(&world);
}

/*
 * An initiator has no receive CQ, a target no CQ at all: the named ones can be
 * destroyed before it. A PD without its bit in comp_mask is ignored.
 */
static void xrc_qps_use_only_their_own_cq(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_context *context = world.pd->context;
	struct ibv_cq *other = fakernic_ucreate_cq(context, 8, NULL, 0);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = world.cq, .recv_cq = other, .pd = world.pd,
		.cap = { .max_send_wr = 4 }, .qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_qp *initiator, *target;

	initiator = fakernic_ucreate_qp_ex(context, &attr);
	attr.xrcd = xrcd_of(&world);
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.send_cq = other;
	attr.pd = (void *)16;
	target = fakernic_ucreate_qp_ex(context, &attr);
	CHECK(initiator && target && !fakernic_udestroy_cq(other));
	CHECK(!fakernic_umodify_qp(initiator, &reset, IBV_QP_STATE));
	CHECK(!fakernic_umodify_qp(target, &reset, IBV_QP_STATE));
	CHECK(!fakernic_udestroy_qp(initiator));
	CHECK(!fakernic_udestroy_qp(target));
	CHECK(!fakernic_uclose_xrcd(attr.xrcd));
	world_end(&world);
}

/* ibv_create_qp(3): with an SRQ, the limits of receives are ignored. */
static void receive_limits_are_ignored_with_an_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8 } };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_cap cap = { .max_send_wr = 4, .max_recv_wr = ~0,
				  .max_recv_sge = ~0 };
	struct ibv_srq *srq = fakernic_ucreate_srq(world.pd, &attr);
	struct ibv_qp *qp = world_qp(&world, IBV_QPT_RC, &cap, 0, srq);

	CHECK(!cap.max_recv_wr && !cap.max_recv_sge);
	CHECK(!model_qp(qp)->cap.max_recv_wr);
	CHECK(!model_qp(qp)->cap.max_recv_sge);
	CHECK(!fakernic_udestroy_qp(qp) && !fakernic_udestroy_srq(srq));
	world_end(&world);
}

static void complete_xrc(struct world *world, struct ibv_srq *srq, uint32_t qpn)
{
	struct { struct fakernic_rq_wqe wqe; struct fakernic_sge sge[1]; } slot;

	CHECK(model_take_recv(model_srq(), &slot));
	CHECK(model_complete(model_cq(world->cq), (struct fakernic_cqe) {
		.qpn = htole32(qpn), .srqn = htole32(MODEL_XRC_SRQN),
		.wqe_index = slot.wqe.tag, .opcode = FAKERNIC_CQE_RECV }));
}

/*
 * Targets may belong to other processes, so only the SRQ's number shows the
 * owner of a receive. Destroying a QP keeps them, destroying the SRQ does not.
 */
static void xrc_receives_belong_to_the_srq(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_xrcd *xrcd = xrcd_of(&world);
	struct ibv_srq *srq = xrc_srq_of(&world, xrcd);
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_wc wc[8];
	uint32_t srqn;
	int i;

	CHECK(!fakernic_uget_srq_num(srq, &srqn) && srqn == MODEL_XRC_SRQN);
	for (i = 0; i < 4; i++, wr.wr_id++)
		CHECK(!fakernic_upost_srq_recv(srq, &wr, &bad));
	complete_xrc(&world, srq, 0xabcdef);
	complete_xrc(&world, srq, world.qp->qp_num);
	CHECK(complete_send(&world, world.qp, 0));
	CHECK(!fakernic_umodify_qp(world.qp, &attr, IBV_QP_STATE));
	CHECK(fakernic_upoll_cq(world.cq, 8, wc) == 2);
	CHECK(wc[0].qp_num == 0xabcdef && wc[1].opcode == IBV_WC_RECV);
	CHECK(wc[0].wr_id == 0 && wc[1].wr_id == 1);
	complete_xrc(&world, srq, 0xabcdef);
	world.qp->state = IBV_QPS_RTS;
	CHECK(complete_send(&world, world.qp, world_send(&world)));
	CHECK(!fakernic_udestroy_srq(srq) && !fakernic_uclose_xrcd(xrcd));
	CHECK(fakernic_upoll_cq(world.cq, 8, wc) == 1);
	CHECK(wc[0].opcode == IBV_WC_SEND);
	world_end(&world);
}

/* A basic SRQ does not use a named CQ, which can be destroyed first. */
static void basic_srq_uses_no_cq(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_cq *cq = fakernic_ucreate_cq(world.pd->context, 4, NULL, 0);
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8 }, .srq_type = IBV_SRQT_BASIC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.pd = world.pd, .cq = cq };
	struct ibv_srq *srq =
		fakernic_ucreate_srq_ex(world.pd->context, &attr);

	CHECK(srq && !fakernic_udestroy_cq(cq) && !fakernic_udestroy_srq(srq));
	world_end(&world);
}

/* ---- operations ---------------------------------------------------------- */

static void flush_and_atomic_write_are_built(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp *qp = qp_of(&world, IBV_QPT_RC, NULL,
				  IBV_QP_EX_WITH_FLUSH |
					  IBV_QP_EX_WITH_ATOMIC_WRITE);
	struct ibv_qp_ex *ex = ex_of(qp);
	struct wqe wqe;
	uint32_t index;

	ex->wr_start(ex);
	ex->wr_flush(ex, 7, 0x1000, 100, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	ex->wr_flush(ex, 7, 0x1000, 100, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	ex->wr_atomic_write(ex, 8, 0x2000, "12345678");
	CHECK(!ex->wr_complete(ex));
	CHECK(model_take_send(model_qp(qp), &wqe, &index));
	CHECK(wqe.hdr.opcode == FAKERNIC_SQ_FLUSH && wqe.hdr.sge_count == 1);
	CHECK(wqe.rdma.rkey == htole32(7) &&
	      wqe.rdma.remote_address == htole64(0x1000) &&
	      wqe.rdma.flush == htole32(FAKERNIC_FLUSH_GLOBAL) &&
	      wqe.sge[0].length == htole32(100));
	CHECK(model_take_send(model_qp(qp), &wqe, &index));
	CHECK(!wqe.hdr.sge_count);
	CHECK(wqe.rdma.flush == htole32(FAKERNIC_FLUSH_PERSISTENT |
					FAKERNIC_FLUSH_LEVEL_MR));
	CHECK(model_take_send(model_qp(qp), &wqe, &index));
	CHECK(wqe.hdr.opcode == FAKERNIC_SQ_ATOMIC_WRITE &&
	      wqe.hdr.inline_length == htole16(8) &&
	      wqe.hdr.flags & FAKERNIC_SQ_INLINE &&
	      !memcmp(wqe.sge, "12345678", 8));
	/* More data, an unknown type and an unknown level are refused. */
	ex->wr_start(ex);
	ex->wr_flush(ex, 7, 0, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	ex->wr_set_sge(ex, 1, 2, 3);
	CHECK(ex->wr_complete(ex) == EINVAL);
	ex->wr_start(ex);
	ex->wr_flush(ex, 7, 0, 1, 4, IBV_FLUSH_RANGE);
	CHECK(ex->wr_complete(ex) == EINVAL);
	ex->wr_start(ex);
	ex->wr_flush(ex, 7, 0, 1, IBV_FLUSH_GLOBAL, 2);
	CHECK(ex->wr_complete(ex) == EINVAL);
	ex->wr_start(ex);
	ex->wr_atomic_write(ex, 8, 0x2000, "12345678");
	ex->wr_set_sge(ex, 1, 2, 3);
	CHECK(ex->wr_complete(ex) == EINVAL);
	CHECK(!model_take_send(model_qp(qp), &wqe, &index));
	CHECK(!fakernic_udestroy_qp(qp));
	world_end(&world);
}

/* ibv_post_send accepts ATOMIC_WRITE, too, inline or from one buffer. */
static void atomic_write_can_be_posted(void)
{
	struct world world = world_of(IBV_QPT_RC);
	uint64_t value = 0x1122334455667788;
	struct ibv_sge sge = { (uintptr_t)&value, 8, 9 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_WRITE,
				  .sg_list = &sge, .num_sge = 1 };
	struct wqe wqe;
	uint32_t index;

	wr.wr.rdma.rkey = 5;
	CHECK(!post(&world, &wr));
	wr.send_flags = IBV_SEND_INLINE;
	CHECK(!post(&world, &wr));
	CHECK(model_take_send(model_qp(world.qp), &wqe, &index));
	CHECK(wqe.hdr.opcode == FAKERNIC_SQ_ATOMIC_WRITE &&
	      wqe.hdr.sge_count == 1 && wqe.sge[0].lkey == htole32(9));
	CHECK(model_take_send(model_qp(world.qp), &wqe, &index));
	CHECK(wqe.hdr.inline_length == htole16(8) &&
	      !memcmp(wqe.sge, &value, 8));
	world_end(&world);
}

static void raw_packets_are_sent_with_checksums(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp *qp = qp_of(&world, IBV_QPT_RAW_PACKET, NULL,
				  IBV_QP_EX_WITH_SEND);
	struct ibv_sge sge = { 0x1000, 60, 9 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_IP_CSUM }, *bad;
	struct { struct fakernic_sq_hdr hdr; struct fakernic_sge sge;
		 uint8_t rest[544]; } wqe;
	uint32_t index;

	CHECK(qp && !fakernic_upost_send(qp, &wr, &bad));
	CHECK(model_take_send(model_qp(qp), &wqe, &index));
	CHECK(wqe.hdr.flags == (FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM));
	CHECK(wqe.sge.address == htole64(0x1000) && wqe.hdr.bb_count == 1);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	CHECK(fakernic_upost_send(qp, &wr, &bad) == EINVAL);
	CHECK(!fakernic_udestroy_qp(qp));
	CHECK(!qp_of(&world, IBV_QPT_RAW_PACKET, NULL,
		     IBV_QP_EX_WITH_RDMA_READ) && errno == EOPNOTSUPP);
	world_end(&world);
}

/* Both interfaces return the verbs opcode of every opcode of the device. */
static void completions_have_their_opcode(void)
{
	static const struct { uint8_t cqe; enum ibv_wc_opcode wc; } pairs[] = {
		{ FAKERNIC_CQE_SEND, IBV_WC_SEND },
		{ FAKERNIC_CQE_RDMA_WRITE, IBV_WC_RDMA_WRITE },
		{ FAKERNIC_CQE_RDMA_READ, IBV_WC_RDMA_READ },
		{ FAKERNIC_CQE_CMP_SWAP, IBV_WC_COMP_SWAP },
		{ FAKERNIC_CQE_FETCH_ADD, IBV_WC_FETCH_ADD },
		{ FAKERNIC_CQE_MASKED_CMP_SWAP, IBV_WC_COMP_SWAP },
		{ FAKERNIC_CQE_MASKED_FETCH_ADD, IBV_WC_FETCH_ADD },
		{ FAKERNIC_CQE_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE },
		{ FAKERNIC_CQE_FLUSH, IBV_WC_FLUSH },
		{ FAKERNIC_CQE_LOCAL_INV, IBV_WC_LOCAL_INV },
		{ FAKERNIC_CQE_BIND_MW, IBV_WC_BIND_MW },
		{ FAKERNIC_CQE_RECV, IBV_WC_RECV },
		{ FAKERNIC_CQE_RECV_RDMA_IMM, IBV_WC_RECV_RDMA_WITH_IMM },
	};
	struct ibv_cq_init_attr_ex init = { .cqe = 64 };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_cq_ex *ex = fakernic_ucreate_cq_ex(world.pd->context, &init);
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		struct fakernic_cqe cqe = {
			.qpn = htole32(world.qp->qp_num),
			.opcode = pairs[i].cqe };
		uint32_t (*next)(struct world *world) =
			pairs[i].wc & IBV_WC_RECV ? world_receive : world_send;

		cqe.wqe_index = htole32(next(&world));
		model_complete(model_cq(world.cq), cqe);
		CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
		CHECK(wc.opcode == pairs[i].wc);
		cqe.wqe_index = htole32(next(&world));
		model_complete(model_cq(ibv_cq_ex_to_cq(ex)), cqe);
		CHECK(!ex->start_poll(ex, &attr));
		CHECK(ex->read_opcode(ex) == pairs[i].wc);
		ex->end_poll(ex);
	}
	CHECK(!fakernic_udestroy_cq(ibv_cq_ex_to_cq(ex)));
	world_end(&world);
}

/* Posts and polls store the CPU's tick counter for a device that records. */
static void posts_and_polls_are_stamped(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp *qp = qp_of(&world, IBV_QPT_RC, NULL,
				  IBV_QP_EX_WITH_SEND);
	const struct model_ring *sq = &model_qp(qp)->sq;
	const struct model_ring *ring = model_cq(world.cq);
	struct fakernic_cqe cqe = { .qpn = htole32(qp->qp_num),
				    .opcode = FAKERNIC_CQE_SEND };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	uint64_t posted, again, polled;
	struct ibv_wc wc;

	CHECK(!model_stamp(sq) && !model_stamp(ring));
	CHECK(!fakernic_upost_send(qp, &wr, &bad));
	posted = model_stamp(sq);
	ex_of(qp)->wr_start(ex_of(qp));
	ex_of(qp)->wr_send(ex_of(qp));
	ex_of(qp)->wr_set_sge_list(ex_of(qp), 0, NULL);
	CHECK(!ex_of(qp)->wr_complete(ex_of(qp)));
	again = model_stamp(sq);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 0 && !model_stamp(ring));
	model_complete(model_cq(world.cq), cqe);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	polled = model_stamp(ring);
	CHECK(posted && again > posted && polled > again);
	world.context->features &= ~FAKERNIC_FEATURE_STAMPS;
	CHECK(!fakernic_upost_send(qp, &wr, &bad));
	cqe.wqe_index = htole32(1);
	model_complete(model_cq(world.cq), cqe);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(model_stamp(sq) == again && model_stamp(ring) == polled);
	/* The stamp of an entry that is removed with its QP is stored then. */
	world.context->features |= FAKERNIC_FEATURE_STAMPS;
	model_complete(model_cq(world.cq), cqe);
	CHECK(!fakernic_udestroy_qp(qp));
	CHECK(model_stamp(ring) > polled);
	world_end(&world);
}

/* Completions carry Unix time if the kernel has reported the offset. */
static void wallclock_is_device_clock_plus_offset(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 4, .wc_flags =
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_cq_ex *ex;
	struct ibv_poll_cq_attr attr = {};

	CHECK(!fakernic_ucreate_cq_ex(world.pd->context, &init) &&
	      errno == EOPNOTSUPP);
	world.context->wall_offset_ns = 1700000000000000000;
	ex = fakernic_ucreate_cq_ex(world.pd->context, &init);
	CHECK(ex && !world_send(&world));
	model_complete(model_cq(ibv_cq_ex_to_cq(ex)), (struct fakernic_cqe) {
		.qpn = htole32(world.qp->qp_num), .opcode = FAKERNIC_CQE_SEND,
		.timestamp = htole64(72000000000) });
	CHECK(!ex->start_poll(ex, &attr));
	CHECK(ex->read_completion_ts(ex) == 72000000000);
	CHECK(ex->read_completion_wallclock_ns(ex) == 1700000072000000000);
	ex->end_poll(ex);
	CHECK(!fakernic_udestroy_cq(ibv_cq_ex_to_cq(ex)));
	world_end(&world);
}

/* ---- SRQ resizing -------------------------------------------------------- */

/*
 * True: the kernel refused, or too many receives are outstanding. Then *depth
 * stays the same.
 */
static bool resize_at_random(struct ibv_srq *srq, uint32_t *depth)
{
	struct ibv_srq_attr attr = { .max_wr = 1 + below(200) };
	int err;

	if (!below(4))
		model_failure = ENOSPC;
	err = fakernic_umodify_srq(srq, &attr, IBV_SRQ_MAX_WR);
	model_failure = 0;
	CHECK(!err || err == ENOSPC || err == EINVAL);
	CHECK(!fakernic_uquery_srq(srq, &attr));
	CHECK(!err || attr.max_wr == *depth);
	*depth = attr.max_wr;
	return err;
}

/*
 * Receives are posted, taken, completed in any order, with resizes in between.
 * Each completes once with its wr_id. At most 'depth' are outstanding.
 */
static void srq_resize_loses_no_receive(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16 } };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_srq *srq = fakernic_ucreate_srq(world.pd, &init);
	struct ibv_qp_cap cap = { .max_send_wr = 1 };
	struct ibv_qp *qp = world_qp(&world, IBV_QPT_RC, &cap, 0, srq);
	struct { struct fakernic_rq_wqe wqe; struct fakernic_sge sge[1]; } slot;
	struct { uint32_t tag; uint64_t wr_id; } taken[512];
	uint32_t out = 0, took = 0, pick, resized = 0, refused = 0;
	static bool done[100000];
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_sge sge = {};
	struct ibv_wc wc;
	int step, err;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	for (step = 0; step < 60000; step++) {
		switch (below(step / 500 % 2 ? 5 : 4)) {
		case 0:
		case 4:
			sge.addr = wr.wr_id;
			err = fakernic_upost_srq_recv(srq, &wr, &bad);
			CHECK(err == (out < init.attr.max_wr ? 0 : ENOMEM));
			if (err)
				break;
			wr.wr_id++;
			out++;
			break;
		case 1:
			if (!model_take_recv(model_srq(), &slot))
				break;
			taken[took].wr_id = le64toh(slot.sge[0].address);
			taken[took++].tag = le32toh(slot.wqe.tag);
			break;
		case 2:
			if (!took)
				break;
			pick = below(took);
			CHECK(model_complete(model_cq(world.cq),
					     (struct fakernic_cqe) {
						     .qpn = htole32(qp->qp_num),
				.srqn = htole32(MODEL_SRQN),
				.wqe_index = htole32(taken[pick].tag),
				.opcode = FAKERNIC_CQE_RECV }));
			CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
			CHECK(wc.wr_id == taken[pick].wr_id);
			CHECK(!done[wc.wr_id]);
			done[wc.wr_id] = true;
			taken[pick] = taken[--took];
			out--;
			break;
		case 3:
			if (below(20))
				break;
			if (resize_at_random(srq, &init.attr.max_wr))
				refused++;
			else
				resized++;
			CHECK(out <= init.attr.max_wr);
			break;
		}
	}
	CHECK(resized > 100 && refused > 20 && wr.wr_id > 5000);
	CHECK(!fakernic_udestroy_qp(qp) && !fakernic_udestroy_srq(srq));
	world_end(&world);
}

/* ---- domains ------------------------------------------------------------- */

static int pool_live, pool_calls, pool_mode;
static uint32_t pool_kinds;

/* A domain's allocator; pool_mode: 0 memory, 1 default, 2 none, 3 unaligned. */
static void *pool_alloc(struct ibv_pd *pd, void *context, size_t size,
			size_t alignment, uint64_t type)
{
	void *memory;

	CHECK(context == &pool_live && alignment == PAGE && !(size % PAGE));
	CHECK(fakernic_to_parent_domain(pd));
	pool_calls++;
	if (pool_mode == 1)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (pool_mode == 2)
		return NULL;
	memory = aligned_alloc(alignment, size);
	memset(memory, 0xff, size);
	pool_kinds |= 1 << type;
	pool_live++;
	return pool_mode == 3 ? (uint8_t *)memory + 64 : memory;
}

static void pool_free(struct ibv_pd *pd, void *context, void *memory,
		      uint64_t type)
{
	CHECK(context == &pool_live && pool_live > 0);
	pool_live--;
	free((void *)((uintptr_t)memory & ~(uintptr_t)(PAGE - 1)));
}

static struct ibv_pd *pool_domain(struct world *world)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = world->pd, .alloc = pool_alloc, .free = pool_free,
		.pd_context = &pool_live,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT };
	struct ibv_pd *domain =
		fakernic_ualloc_parent_domain(world->pd->context, &attr);

	CHECK(domain);
	return domain;
}

static void queues_use_allocators_of_parent_domain(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_pd *domain = pool_domain(&world);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4 } };
	struct ibv_srq_attr more = { .max_wr = 300 };
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = domain };
	struct ibv_qp_init_attr qp_attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_wc wc;

	pool_mode = pool_calls = pool_kinds = 0;
	cq = fakernic_ucreate_cq_ex(world.pd->context, &cq_attr);
	srq = fakernic_ucreate_srq(domain, &srq_attr);
	CHECK(cq && srq && pool_live == 2);
	qp_attr.send_cq = ibv_cq_ex_to_cq(cq);
	qp_attr.recv_cq = ibv_cq_ex_to_cq(cq);
	world.qp = (fakernic_udestroy_qp(world.qp),
		    fakernic_ucreate_qp(domain, &qp_attr));
	CHECK(world.qp && pool_live == 4 && pool_kinds == 0x1e);
	CHECK(model_cq(qp_attr.send_cq)->bytes ==
	      fakernic_to_cq(qp_attr.send_cq)->queue.ring);
	/* Memory of ones does not count as an entry. */
	CHECK(fakernic_upoll_cq(qp_attr.send_cq, 1, &wc) == 0);
	CHECK(!fakernic_uresize_cq(qp_attr.send_cq, 300));
	CHECK(!fakernic_umodify_srq(srq, &more, IBV_SRQ_MAX_WR));
	CHECK(pool_live == 4 && pool_calls == 6);
	CHECK(fakernic_udealloc_pd(domain) == EBUSY);
	CHECK(!fakernic_udestroy_qp(world.qp) && !fakernic_udestroy_srq(srq) &&
	      !fakernic_udestroy_cq(qp_attr.send_cq));
	CHECK(!pool_live);
	qp_attr.send_cq = world.cq;
	qp_attr.recv_cq = world.cq;
	pool_mode = 2;
	CHECK(!fakernic_ucreate_qp(domain, &qp_attr) && errno == ENOMEM);
	pool_mode = 3;
	CHECK(!fakernic_ucreate_qp(domain, &qp_attr) && errno == EINVAL);
	CHECK(!pool_live);
	pool_mode = 1;
	world.qp = fakernic_ucreate_qp(domain, &qp_attr);
	CHECK(world.qp && !pool_live && !fakernic_udestroy_qp(world.qp));
	CHECK(!fakernic_udealloc_pd(domain));
	world.qp = qp_of(&world, IBV_QPT_RC, NULL, 0);
	world_end(&world);
}

/* Objects of a parent domain with a thread domain have no locks. */
static void thread_domain_objects_have_no_locks(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = fakernic_ualloc_td(world.pd->context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = world.pd, .td = td };
	struct ibv_pd *parent =
		fakernic_ualloc_parent_domain(world.pd->context, &attr);
	struct ibv_qp_init_attr init = {
		.send_cq = world.cq, .recv_cq = world.cq,
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1 } };
	struct ibv_qp *qp = fakernic_ucreate_qp(parent, &init);

	CHECK(qp && !fakernic_to_qp(qp)->sq.lock.needed);
	CHECK(fakernic_to_qp(world.qp)->sq.lock.needed);
	CHECK(fakernic_udealloc_td(td) == EBUSY);
	CHECK(fakernic_udealloc_pd(world.pd) == EBUSY);
	CHECK(!fakernic_udestroy_qp(qp) && !fakernic_udealloc_pd(parent));
	CHECK(!fakernic_udealloc_td(td));
	world_end(&world);
}

static void bad_domains_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_context *context = world.pd->context;
	struct ibv_parent_domain_init_attr attr = { .comp_mask = 4 };
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_pd *parent;

	CHECK(!fakernic_ualloc_parent_domain(context, &attr) &&
	      errno == EINVAL);
	attr.pd = world.pd;
	CHECK(!fakernic_ualloc_parent_domain(context, &attr) &&
	      errno == EOPNOTSUPP);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = pool_alloc;
	CHECK(!fakernic_ualloc_parent_domain(context, &attr) &&
	      errno == EINVAL);
	attr.comp_mask = 0;
	parent = fakernic_ualloc_parent_domain(context, &attr);
	CHECK(parent);
	attr.pd = parent;
	CHECK(!fakernic_ualloc_parent_domain(context, &attr) &&
	      errno == EINVAL);
	CHECK(!fakernic_udealloc_pd(parent));
	CHECK(!fakernic_ualloc_td(context, &td_attr) && errno == EOPNOTSUPP);
	world_end(&world);
}

/* ---- device memory, imports ---------------------------------------------- */

static void device_memory_is_copied_within_bounds(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_alloc_dm_attr attr = { .length = 100 };
	struct ibv_dm *dm = fakernic_ualloc_dm(world.pd->context, &attr);
	struct ibv_dm *imported;
	struct ibv_mr *mr;
	char text[104] = "device memory", back[104] = "";
	static const struct { uint64_t offset; size_t length; } bad[] = {
		{ 3, 4 }, { 4, 3 }, { 104, 4 }, { 0, 104 }, { 100, 4 },
		{ UINT64_MAX - 3, 8 }, { 4, SIZE_MAX - 3 } };
	unsigned int i;

	CHECK(dm && !dm->memcpy_to_dm(dm, 0, text, 100));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(dm->memcpy_to_dm(dm, bad[i].offset, text,
				       bad[i].length) == EINVAL);
		CHECK(dm->memcpy_from_dm(text, dm, bad[i].offset,
					 bad[i].length) == EINVAL);
	}
	imported = fakernic_uimport_dm(world.pd->context, MODEL_DM_HANDLE);
	CHECK(imported && imported->handle == MODEL_DM_HANDLE);
	CHECK(!imported->memcpy_from_dm(back, imported, 0, 100));
	CHECK(!strcmp(back, "device memory"));
	fakernic_uunimport_dm(imported);
	CHECK(!fakernic_uimport_dm(world.pd->context, 99) && errno == ENOENT);
	mr = fakernic_ureg_dm_mr(world.pd, dm, 4, 96, IBV_ACCESS_ZERO_BASED);
	CHECK(mr && !fakernic_udereg_mr(verbs_get_mr(mr)));
	mr = fakernic_ureg_dm_mr(world.pd, dm, 4, 97, IBV_ACCESS_ZERO_BASED);
	CHECK(!mr && errno == EINVAL);
	CHECK(!fakernic_ureg_dm_mr(world.pd, dm, 0, 4, 0) && errno == EINVAL);
	CHECK(!fakernic_ufree_dm(dm));
	attr.comp_mask = 1;
	CHECK(!fakernic_ualloc_dm(world.pd->context, &attr) && errno == EINVAL);
	attr = (struct ibv_alloc_dm_attr) { .length = MODEL_DM_MAX + 1 };
	CHECK(!fakernic_ualloc_dm(world.pd->context, &attr) && errno == EINVAL);
	world_end(&world);
}

/* Imported objects work like others, and do not destroy those of the kernel. */
static void imported_objects_are_not_destroyed(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_pd *pd = fakernic_uimport_pd(world.pd->context, 17);
	struct ibv_mr *mr = fakernic_uimport_mr(pd, 18);

	CHECK(pd && pd->handle == 17 && mr && mr->handle == 18 &&
	      mr->lkey == 0x1234);
	fakernic_uunimport_mr(mr);
	model_failure = ENOENT;
	CHECK(!fakernic_uimport_mr(pd, 18) && errno == ENOENT);
	fakernic_uunimport_pd(pd);
	world_end(&world);
}

/* ---- attributes ---------------------------------------------------------- */

static void rate_limits_are_passed_to_the_kernel(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 8000 };

	CHECK(!fakernic_umodify_qp_rate_limit(world.qp, &limit));
	CHECK(model_qp(world.qp)->rate_limit == 8000);
	limit.max_burst_sz = 1;
	CHECK(fakernic_umodify_qp_rate_limit(world.qp, &limit) == EOPNOTSUPP);
	limit = (struct ibv_qp_rate_limit_attr) { .comp_mask = 1 };
	CHECK(fakernic_umodify_qp_rate_limit(world.qp, &limit) == EINVAL);
	model_failure = EINVAL;
	limit.comp_mask = 0;
	CHECK(fakernic_umodify_qp_rate_limit(world.qp, &limit) == EINVAL);
	CHECK(model_qp(world.qp)->rate_limit == 8000);
	world_end(&world);
}

static void ece_has_no_options(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_ece ece;

	CHECK(!fakernic_uquery_ece(world.qp, &ece) && ece.vendor_id &&
	      !ece.options && !ece.comp_mask);
	ece.options = 5;
	CHECK(!fakernic_uset_ece(world.qp, &ece) && !ece.options);
	ece.vendor_id++;
	CHECK(fakernic_uset_ece(world.qp, &ece) == EINVAL);
	world_end(&world);
}

/* ---- bad input ----------------------------------------------------------- */

static void check_bad_qp(struct world *world,
			 const struct ibv_qp_init_attr_ex *attr, int err)
{
	struct ibv_qp_init_attr_ex copy = *attr;

	model_log[0] = '\0';
	CHECK(!fakernic_ucreate_qp_ex(world->pd->context, &copy));
	CHECK(errno == err);
	/* The kernel's own errors have no log line. */
	CHECK(err == ENOSPC || model_log[0]);
}

static void bad_qps_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1 } };
	struct ibv_srq *srq = fakernic_ucreate_srq(world.pd, &srq_init);
	const struct ibv_qp_init_attr_ex good = {
		.send_cq = world.cq, .recv_cq = world.cq, .pd = world.pd,
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
	struct ibv_qp_init_attr_ex bad;

#define BAD_QP(err, ...)						\
	do {								\
		bad = good;						\
		__VA_ARGS__;						\
		check_bad_qp(&world, &bad, err);			\
	} while (0)
	BAD_QP(EINVAL, bad.comp_mask = 0);
	BAD_QP(EINVAL, bad.pd = NULL);
	BAD_QP(EINVAL, bad.send_cq = NULL);
	BAD_QP(EINVAL, bad.recv_cq = NULL);
	BAD_QP(EINVAL, bad.comp_mask |= IBV_QP_INIT_ATTR_XRCD);
	BAD_QP(EINVAL, bad.qp_type = IBV_QPT_XRC_RECV);
	BAD_QP(EINVAL, bad.qp_type = IBV_QPT_XRC_SEND; bad.srq = srq);
	BAD_QP(EINVAL, bad.cap.max_send_wr = UINT32_MAX);
	BAD_QP(EINVAL, bad.cap.max_recv_wr = UINT32_MAX);
	BAD_QP(EINVAL, bad.cap.max_recv_sge = 31);
	BAD_QP(EOPNOTSUPP, bad.qp_type = 0);
	BAD_QP(EOPNOTSUPP, bad.qp_type = IBV_QPT_DRIVER);
	BAD_QP(EOPNOTSUPP, bad.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH);
	BAD_QP(EOPNOTSUPP, bad.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	       bad.create_flags = IBV_QP_CREATE_SCATTER_FCS);
	BAD_QP(EOPNOTSUPP, bad.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	       bad.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	BAD_QP(EOPNOTSUPP, bad.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	       bad.send_ops_flags = IBV_QP_EX_WITH_TSO);
	BAD_QP(EOPNOTSUPP, world.context->features &= ~FAKERNIC_FEATURE_UC;
	       bad.qp_type = IBV_QPT_UC);
	BAD_QP(EOPNOTSUPP, world.context->features &= ~FAKERNIC_FEATURE_XRC;
	       bad.qp_type = IBV_QPT_XRC_SEND);
	BAD_QP(ENOSPC, model_failure = ENOSPC);
	/* The kernel accepts flags that are all 0. */
	bad = good;
	bad.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	CHECK(!fakernic_udestroy_qp(
		fakernic_ucreate_qp_ex(world.pd->context, &bad)));
	/* It also accepts this flag for a UD QP, if the device has it. */
	bad.qp_type = IBV_QPT_UD;
	bad.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	world.context->features |= FAKERNIC_FEATURE_BLOCK_MCAST_LB;
	CHECK(!fakernic_udestroy_qp(
		fakernic_ucreate_qp_ex(world.pd->context, &bad)));
	world.context->features &= ~FAKERNIC_FEATURE_BLOCK_MCAST_LB;
	check_bad_qp(&world, &bad, EOPNOTSUPP);
	CHECK(!fakernic_udestroy_srq(srq));
	world_end(&world);
}

static void check_bad_srq(struct world *world,
			  const struct ibv_srq_init_attr_ex *attr, int err)
{
	struct ibv_srq_init_attr_ex copy = *attr;

	model_log[0] = '\0';
	CHECK(!fakernic_ucreate_srq_ex(world->pd->context, &copy));
	CHECK(errno == err);
	CHECK(err == ENOSPC || model_log[0]);
}

static void bad_srqs_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_xrcd *xrcd = xrcd_of(&world);
	struct ibv_srq *srq = xrc_srq_of(&world, xrcd);
	const struct ibv_srq_init_attr_ex good = {
		.attr = { .max_wr = 1 }, .pd = world.pd, .xrcd = xrcd,
		.cq = world.cq, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };
	struct ibv_srq_init_attr_ex bad;
	struct ibv_srq_attr attr = {};

#define BAD_SRQ(err, ...)						\
	do {								\
		bad = good;						\
		__VA_ARGS__;						\
		check_bad_srq(&world, &bad, err);			\
	} while (0)
	BAD_SRQ(EINVAL, bad.pd = NULL);
	BAD_SRQ(EINVAL, bad.comp_mask &= ~IBV_SRQ_INIT_ATTR_PD);
	BAD_SRQ(EINVAL, bad.comp_mask &= ~IBV_SRQ_INIT_ATTR_XRCD);
	BAD_SRQ(EINVAL, bad.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ);
	BAD_SRQ(EINVAL, bad.cq = NULL);
	BAD_SRQ(EINVAL, bad.attr.max_wr = 0);
	BAD_SRQ(EINVAL, bad.attr.max_wr = UINT32_MAX);
	BAD_SRQ(EINVAL, bad.attr.max_sge = 31);
	BAD_SRQ(EOPNOTSUPP, bad.srq_type = IBV_SRQT_TM);
	BAD_SRQ(EOPNOTSUPP, bad.comp_mask |= IBV_SRQ_INIT_ATTR_TM);
	BAD_SRQ(ENOSPC, model_failure = ENOSPC);
	attr.max_wr = 65537;
	CHECK(fakernic_umodify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr.max_wr = 0;
	CHECK(fakernic_umodify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	CHECK(fakernic_umodify_srq(srq, &attr, 4) == EINVAL);
	world.context->features &= ~FAKERNIC_FEATURE_RESIZE_SRQ;
	attr.max_wr = 64;
	CHECK(fakernic_umodify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EOPNOTSUPP);
	CHECK(!fakernic_udestroy_srq(srq));
	world.context->features &= ~FAKERNIC_FEATURE_XRC;
	BAD_SRQ(EOPNOTSUPP, );
	CHECK(!fakernic_uclose_xrcd(xrcd));
	world_end(&world);
}

static void bad_cqs_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_context *context = world.pd->context;
	static const struct { struct ibv_cq_init_attr_ex attr; int err; } bad[] = {
		{ { .cqe = 0 }, EINVAL },
		{ { .cqe = (1 << 22) + 1 }, EINVAL },
		{ { .cqe = 1, .comp_mask = 4 }, EOPNOTSUPP },
		{ { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = 4 }, EOPNOTSUPP },
		{ { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG },
		  EOPNOTSUPP },
		{ { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO },
		  EOPNOTSUPP },
		{ { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD },
		  EINVAL },
	};
	struct ibv_cq_init_attr_ex attr;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		attr = bad[i].attr;
		model_log[0] = '\0';
		CHECK(!fakernic_ucreate_cq_ex(context, &attr) &&
		      errno == bad[i].err && model_log[0]);
	}
	/* A protection domain is not a parent domain. */
	attr.parent_domain = world.pd;
	CHECK(!fakernic_ucreate_cq_ex(context, &attr) && errno == EINVAL);
	CHECK(!fakernic_ucreate_cq(context, -1, NULL, 0) && errno == EINVAL);
	model_failure = ENOSPC;
	CHECK(!fakernic_ucreate_cq(context, 1, NULL, 0) && errno == ENOSPC);
	model_failure = ENOSPC;
	CHECK(fakernic_uresize_cq(world.cq, 1) == ENOSPC);
	CHECK(world.cq->cqe == 512);
	world_end(&world);
}

/* Each constructor frees everything when the kernel refuses. */
static void kernel_refusal_leaks_nothing(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_context *context = world.pd->context;
	struct ibv_ah_attr ah_attr = { .is_global = 1 };
	struct ibv_alloc_dm_attr dm_attr = { .length = 4 };
	struct ibv_xrcd_init_attr xrcd_attr = {};
	struct ibv_qp_open_attr open_attr = {};
	struct ibv_flow_attr flow_attr = {};

#define REFUSED(call)							\
	do {								\
		model_failure = EPERM;					\
		CHECK(!(call) && errno == EPERM);			\
	} while (0)
	REFUSED(fakernic_ualloc_pd(context));
	REFUSED(fakernic_ureg_mr(world.pd, NULL, 1, 0, 0));
	REFUSED(fakernic_ureg_dmabuf_mr(world.pd, 0, 1, 0, 0, 0));
	REFUSED(fakernic_ualloc_mw(world.pd, IBV_MW_TYPE_1));
	REFUSED(fakernic_ucreate_ah(world.pd, &ah_attr));
	REFUSED(fakernic_ualloc_dm(context, &dm_attr));
	REFUSED(fakernic_uopen_xrcd(context, &xrcd_attr));
	REFUSED(fakernic_uopen_qp(context, &open_attr));
	REFUSED(fakernic_ucreate_flow(world.qp, &flow_attr));
	ah_attr.is_global = 0;
	CHECK(!fakernic_ucreate_ah(world.pd, &ah_attr) && errno == EINVAL);
	world_end(&world);
}

/* An object that the kernel does not destroy stays usable. */
static void busy_object_stays_usable(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1 } };
	struct ibv_srq *srq = fakernic_ucreate_srq(world.pd, &init);
	struct ibv_mr *mr = fakernic_ureg_mr(world.pd, NULL, 1, 0, 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = {}, *bad;
	struct ibv_wc wc;

#define BUSY(call)							\
	do {								\
		model_failure = EBUSY;					\
		CHECK((call) == EBUSY);					\
	} while (0)
	BUSY(fakernic_udestroy_qp(world.qp));
	BUSY(fakernic_udestroy_cq(world.cq));
	BUSY(fakernic_udestroy_srq(srq));
	BUSY(fakernic_udealloc_pd(world.pd));
	BUSY(fakernic_udereg_mr(verbs_get_mr(mr)));
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(!fakernic_upost_srq_recv(srq, &recv, &bad));
	CHECK(!fakernic_udestroy_srq(srq) &&
	      !fakernic_udereg_mr(verbs_get_mr(mr)));
	world_end(&world);
}

/* The device stores data in ascending order. */
static void data_order_is_reported(void)
{
	struct world world = world_of(IBV_QPT_RC);

	CHECK(fakernic_uquery_qp_data_in_order(world.qp, IBV_WR_RDMA_WRITE,
					       0) ==
	      IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG);
	world_end(&world);
}

/* The log names the usual mistakes with addresses. */
static void log_explains_refused_addresses(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .ah_attr = { .port_num = 1 } };
	struct ibv_ah_attr *ah_attr = &attr.ah_attr;

#define SAYS(error, text)						\
	do {								\
		model_log[0] = '\0';					\
		model_failure = error;					\
		CHECK(!fakernic_ucreate_ah(world.pd, ah_attr) &&	\
		      errno == error && strstr(model_log, text));	\
		model_log[0] = '\0';					\
		model_failure = error;					\
		CHECK(fakernic_umodify_qp(world.qp, &attr,		\
					  IBV_QP_AV) == error &&	\
		      strstr(model_log, text));				\
	} while (0)
	SAYS(EINVAL, "without GRH");
	model_failure = 0;
	ah_attr->is_global = 1;
	ah_attr->grh.sgid_index = 2;
	SAYS(EINVAL, "no GID of index 2");
	ah_attr->grh.sgid_index = 0;
	ah_attr->grh.dgid.raw[0] = 0xfe;
	SAYS(EINVAL, "GID index 0 is IPv4, the destination fe00:: is not");
	ah_attr->grh.sgid_index = 1;
	SAYS(ETIMEDOUT, "destination fe00:: from GID index 1: ");
#undef SAYS
	world_end(&world);
}

/* The log names the check that refused a work request. */
static void log_explains_refused_requests(void)
{
	struct world world = world_of(IBV_QPT_UD);
	struct ibv_qp_ex *ex = ex_of(world.qp);
	struct ibv_sge sge[31] = {};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge };
	struct ibv_recv_wr recv = { .sg_list = sge, .num_sge = 31 }, *bad;

#define SAYS(call, text)						\
	do {								\
		model_log[0] = '\0';					\
		CHECK((call) == EINVAL && strstr(model_log, text));	\
	} while (0)
	SAYS(post(&world, &wr), "no address handle");
	wr.wr.ud.ah = &world.ah.ah;
	wr.num_sge = 31;
	SAYS(post(&world, &wr), "more SGEs than max_send_sge");
	wr.num_sge = 1;
	sge[0].length = 1000;
	wr.send_flags = IBV_SEND_INLINE;
	SAYS(post(&world, &wr), "max_inline_data");
	wr.opcode = IBV_WR_RDMA_READ;
	SAYS(post(&world, &wr), "does not support the opcode");
	SAYS(fakernic_upost_recv(world.qp, &recv, &bad), "31 SGEs");
	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_ud_addr(ex, NULL, 1, 2);
	SAYS(ex->wr_complete(ex), "no address handle");
	world.qp->state = IBV_QPS_RTR;
	SAYS(post(&world, &wr), "not in RTS");
	ex->wr_start(ex);
	SAYS(ex->wr_complete(ex), "not in RTS");
	world.qp->state = IBV_QPS_RESET;
	SAYS(fakernic_upost_recv(world.qp, &recv, &bad), "RESET");
	world_end(&world);
}

const struct test_case verbs_cases[] = {
	CASE(xrc_initiator_sets_the_srq_number),
	CASE(xrc_target_has_no_queue),
	CASE(xrc_qps_use_only_their_own_cq),
	CASE(receive_limits_are_ignored_with_an_srq),
	CASE(xrc_receives_belong_to_the_srq),
	CASE(basic_srq_uses_no_cq),
	CASE(flush_and_atomic_write_are_built),
	CASE(atomic_write_can_be_posted),
	CASE(raw_packets_are_sent_with_checksums),
	CASE(completions_have_their_opcode),
	CASE(posts_and_polls_are_stamped),
	CASE(wallclock_is_device_clock_plus_offset),
	CASE(srq_resize_loses_no_receive),
	CASE(queues_use_allocators_of_parent_domain),
	CASE(thread_domain_objects_have_no_locks),
	CASE(bad_domains_are_refused),
	CASE(device_memory_is_copied_within_bounds),
	CASE(imported_objects_are_not_destroyed),
	CASE(rate_limits_are_passed_to_the_kernel),
	CASE(ece_has_no_options),
	CASE(data_order_is_reported),
	CASE(bad_qps_are_refused),
	CASE(bad_srqs_are_refused),
	CASE(bad_cqs_are_refused),
	CASE(kernel_refusal_leaks_nothing),
	CASE(busy_object_stays_usable),
	CASE(log_explains_refused_addresses),
	CASE(log_explains_refused_requests),
};
const unsigned int verbs_case_count = ARRAY_SIZE(verbs_cases);
