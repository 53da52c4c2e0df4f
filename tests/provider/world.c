/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See world.h. */
#include "world.h"

unsigned int seed;

unsigned int below(unsigned int limit)
{
	return random() % limit;
}

struct ibv_qp *world_qp(struct world *world, enum ibv_qp_type type,
			struct ibv_qp_cap *cap, uint64_t send_ops,
			struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = world->cq, .recv_cq = world->cq, .srq = srq,
		.cap = *cap, .qp_type = type, .pd = world->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = send_ops,
	};
	struct ibv_qp *qp;

	qp = fakernic_ucreate_qp_ex(&world->context->vctx.context, &attr);
	CHECK(qp);
	*cap = attr.cap;
	qp->state = IBV_QPS_RTS;
	return qp;
}

struct world world_with(enum ibv_qp_type type, struct ibv_qp_cap cap)
{
	struct world world = { .cap = cap };
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (type == IBV_QPT_RC)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
		       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
		       IBV_QP_EX_WITH_SEND_WITH_INV |
		       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	world.context = model_context();
	world.pd = fakernic_ualloc_pd(&world.context->vctx.context);
	world.cq = fakernic_ucreate_cq(world.pd->context, 500, NULL, 0);
	CHECK(world.cq && world.cq->cqe == 512);
	memset(&world.ah.av, 0x5a, sizeof(world.ah.av));
	world.qp = world_qp(&world, type, &world.cap, ops, NULL);
	return world;
}

struct world world_of(enum ibv_qp_type type)
{
	return world_with(type, (struct ibv_qp_cap) {
		.max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 4,
		.max_recv_sge = 2, .max_inline_data = 100 });
}

void world_end(struct world *world)
{
	CHECK(!fakernic_udestroy_qp(world->qp));
	CHECK(!fakernic_udestroy_cq(world->cq));
	CHECK(!fakernic_udealloc_pd(world->pd));
	CHECK(!model_live);
	model_free_context(world->context);
}

int post(struct world *world, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return fakernic_upost_send(world->qp, wr, &bad);
}

uint32_t world_send(struct world *world)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	uint8_t wqe[FAKERNIC_SQ_WQE_BB_MAX * FAKERNIC_SQ_BB_SIZE];
	uint32_t index;

	CHECK(!post(world, &wr));
	CHECK(model_take_send(model_qp(world->qp), wqe, &index));
	return index;
}

uint32_t next_tag(struct model_ring *ring)
{
	union {
		struct fakernic_rq_wqe wqe;
		uint8_t bytes[512];
	} slot;

	CHECK(model_take_recv(ring, &slot));
	return le32toh(slot.wqe.tag);
}

uint32_t world_receive(struct world *world)
{
	struct ibv_recv_wr wr = {}, *bad;

	CHECK(!fakernic_upost_recv(world->qp, &wr, &bad));
	return next_tag(&model_qp(world->qp)->rq);
}

bool complete_send(struct world *world, struct ibv_qp *qp, uint32_t index)
{
	return model_complete(model_cq(world->cq), (struct fakernic_cqe) {
		.qpn = htole32(qp->qp_num), .wqe_index = htole32(index),
		.opcode = FAKERNIC_CQE_SEND });
}

int run_cases(const struct test_case *cases, unsigned int count, int number)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		cases[i].run();
		printf("ok %u - %s\n", ++number, cases[i].name);
		fflush(stdout);
	}
	return number;
}

struct ibv_cq_ex *world_extended(struct world *world,
				 struct ibv_cq_init_attr_ex *attr,
				 uint64_t send_ops)
{
	struct ibv_cq_ex *ex =
		fakernic_ucreate_cq_ex(world->pd->context, attr);

	CHECK(ex && !fakernic_udestroy_qp(world->qp) &&
	      !fakernic_udestroy_cq(world->cq));
	world->cq = ibv_cq_ex_to_cq(ex);
	world->qp = world_qp(world, IBV_QPT_RC, &world->cap, send_ops, NULL);
	return ex;
}
