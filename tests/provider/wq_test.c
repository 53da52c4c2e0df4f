/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Work queues, indirection tables and RSS QPs. */
#include <errno.h>
#include <ccan/array_size.h>

#include "world.h"

static uint8_t hash_key[FAKERNIC_HASH_KEY_SIZE] = { 0x6d, 0x5a, [39] = 0xfa };

static struct ibv_wq_init_attr wq_attr(struct world *world)
{
	return (struct ibv_wq_init_attr) {
		.wq_type = IBV_WQT_RQ, .max_wr = 3, .max_sge = 2,
		.pd = world->pd, .cq = world->cq };
}

static struct ibv_wq *new_wq(struct world *world)
{
	struct ibv_wq_init_attr attr = wq_attr(world);
	struct ibv_wq *wq = fakernic_ucreate_wq(world->pd->context, &attr);

	/* The limits are rounded up and returned. */
	CHECK(wq && attr.max_wr == 4 && attr.max_sge == 3);
	CHECK(wq->state == IBV_WQS_RESET);
	return wq;
}

static int wq_to(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE,
				    .wq_state = state };

	return fakernic_umodify_wq(wq, &attr);
}

static int post_wq(struct ibv_wq *wq, uint64_t wr_id, int sges)
{
	struct ibv_sge sge[4] = { { .addr = 0x1000, .length = 64, .lkey = 5 } };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge,
				  .num_sge = sges }, *bad = NULL;
	int err = wq->post_recv(wq, &wr, &bad);

	CHECK(!err || bad == &wr);
	return err;
}

/* The device takes a receive of the WQ and completes it. */
static void receive(struct world *world, struct ibv_wq *wq)
{
	struct {
		struct fakernic_rq_wqe wqe;
		uint8_t rest[1 << FAKERNIC_RQ_LOG_STRIDE_MAX];
	} slot;

	CHECK(model_take_recv(model_wq(wq), &slot));
	CHECK(model_complete(model_cq(world->cq), (struct fakernic_cqe) {
		.qpn = htole32(wq->wq_num), .wqe_index = slot.wqe.tag,
		.byte_count = htole32(60), .opcode = FAKERNIC_CQE_RECV }));
}

/*
 * A QP, a WQ and an SRQ are destroyed. While that waits for an event, another
 * thread creates new ones with the same numbers, then acknowledges the event.
 * Completions of the new ones stay, those of the old ones are removed.
 */
static struct world *destroyed_in;
static struct ibv_qp *next_qp;
static struct ibv_wq *next_wq;
static struct ibv_srq *next_srq;

static void make_a_qp(void)
{
	next_qp = world_qp(destroyed_in, IBV_QPT_RC, &destroyed_in->cap, 0,
			   NULL);
	destroyed_in->qp = next_qp;
	CHECK(!post(destroyed_in, &(struct ibv_send_wr) { .wr_id = 8 }));
	CHECK(complete_send(destroyed_in, next_qp, 0));
}

static void make_a_wq(void)
{
	next_wq = new_wq(destroyed_in);
	CHECK(!wq_to(next_wq, IBV_WQS_RDY) && !post_wq(next_wq, 9, 1));
	receive(destroyed_in, next_wq);
}

static void make_an_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4 } };

	next_srq = fakernic_ucreate_srq(destroyed_in->pd, &attr);
	CHECK(next_srq);
}

static void number_can_be_reused_during_destroy(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wq *wq = new_wq(&world);
	struct ibv_srq *srq;
	struct ibv_qp *qp = world.qp;
	struct ibv_wc wc[4];

	destroyed_in = &world;
	CHECK(!post(&world, &(struct ibv_send_wr) { .wr_id = 5 }));
	CHECK(complete_send(&world, qp, 0));
	model_on_destroy = make_a_qp;
	CHECK(!fakernic_udestroy_qp(qp));
	CHECK(next_qp && next_qp->qp_num == 0x100);
	CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1 && wc[0].wr_id == 8);

	CHECK(!wq_to(wq, IBV_WQS_RDY) && !post_wq(wq, 6, 1));
	receive(&world, wq);
	model_on_destroy = make_a_wq;
	CHECK(!fakernic_udestroy_wq(wq));
	CHECK(next_wq && next_wq->wq_num == MODEL_WQN);
	CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1 && wc[0].wr_id == 9);
	CHECK(!fakernic_udestroy_wq(next_wq));

	make_an_srq();
	srq = next_srq;
	model_on_destroy = make_an_srq;
	CHECK(!fakernic_udestroy_srq(srq) && next_srq != srq);
	CHECK(fakernic_utable_find(&world.context->srq_table, MODEL_SRQN) ==
	      fakernic_to_srq(next_srq));
	CHECK(!fakernic_udestroy_srq(next_srq));
	world_end(&world);
}

static void work_queues_receive(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wq *wqs[2] = { new_wq(&world), new_wq(&world) };
	unsigned int round, i;
	struct ibv_wc wc;

	for (i = 0; i < 2; i++)
		CHECK(!wq_to(wqs[i], IBV_WQS_RDY));
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 4; i++)
			CHECK(!post_wq(wqs[0], 100 * round + i, 1));
		CHECK(post_wq(wqs[0], 0, 1) == ENOMEM);
		CHECK(!post_wq(wqs[1], 7000 + round, 3));
		receive(&world, wqs[1]);
		CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
		CHECK(wc.wr_id == 7000 + round && wc.byte_len == 60 &&
		      wc.qp_num == wqs[1]->wq_num && wc.opcode == IBV_WC_RECV);
		for (i = 0; i < 4; i++) {
			receive(&world, wqs[0]);
			CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
			CHECK(wc.wr_id == 100 * round + i &&
			      wc.qp_num == wqs[0]->wq_num);
		}
	}
	CHECK(post_wq(wqs[0], 0, 4) == EINVAL && model_log[0]);
	for (i = 0; i < 2; i++)
		CHECK(!fakernic_udestroy_wq(wqs[i]));
	world_end(&world);
}

/* RESET removes old completions, and the ring starts at 0 again. */
static void reset_work_queue_discards_completions(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wq *wq = new_wq(&world);
	struct ibv_wc wc;

	model_log[0] = '\0';
	CHECK(post_wq(wq, 1, 1) == EINVAL && model_log[0]);
	CHECK(!wq_to(wq, IBV_WQS_RDY));
	CHECK(!post_wq(wq, 1, 1) && !post_wq(wq, 2, 1));
	receive(&world, wq);
	/* Refused by the provider, without a call of the kernel. */
	model_failure = EPERM;
	CHECK(wq_to(wq, IBV_WQS_UNKNOWN) == EINVAL);
	CHECK(fakernic_umodify_wq(wq, &(struct ibv_wq_attr) {
		.attr_mask = IBV_WQ_ATTR_CURR_STATE,
		.curr_wq_state = IBV_WQS_UNKNOWN }) == EINVAL);
	/* Refused by the kernel: the state stays. */
	CHECK(wq_to(wq, IBV_WQS_RESET) == EPERM);
	CHECK(model_record(model_wq(wq)) == 2);
	CHECK(!wq_to(wq, IBV_WQS_RESET));
	CHECK(!fakernic_upoll_cq(world.cq, 1, &wc));
	CHECK(model_record(model_wq(wq)) == 0);
	CHECK(!wq_to(wq, IBV_WQS_RDY));
	CHECK(!post_wq(wq, 3, 1));
	receive(&world, wq);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1 && wc.wr_id == 3);
	/* A busy WQ stays; a destroyed WQ leaves nothing in its CQ. */
	CHECK(!post_wq(wq, 4, 1));
	receive(&world, wq);
	model_failure = EBUSY;
	CHECK(fakernic_udestroy_wq(wq) == EBUSY);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1 && wc.wr_id == 4);
	CHECK(!post_wq(wq, 5, 1));
	receive(&world, wq);
	CHECK(!fakernic_udestroy_wq(wq));
	CHECK(!fakernic_upoll_cq(world.cq, 1, &wc));
	world_end(&world);
}

static void bad_work_queues_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wq_init_attr bad;

#define BAD_WQ(err, ...)						\
	do {								\
		bad = wq_attr(&world);					\
		model_log[0] = '\0';					\
		__VA_ARGS__;						\
		CHECK(!fakernic_ucreate_wq(world.pd->context, &bad));	\
		CHECK(errno == err);					\
		CHECK(err == ENOSPC || model_log[0]);			\
	} while (0)
	BAD_WQ(EINVAL, bad.pd = NULL);
	BAD_WQ(EINVAL, bad.cq = NULL);
	BAD_WQ(EINVAL, bad.max_wr = 0);
	BAD_WQ(EINVAL, bad.max_wr = UINT32_MAX);
	BAD_WQ(EINVAL, bad.max_sge = 31);
	BAD_WQ(EOPNOTSUPP, bad.wq_type = IBV_WQT_RQ + 1);
	BAD_WQ(EOPNOTSUPP, bad.comp_mask = IBV_WQ_INIT_ATTR_RESERVED);
	BAD_WQ(EOPNOTSUPP, bad.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	       bad.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING);
	BAD_WQ(ENOSPC, model_failure = ENOSPC);
	world_end(&world);
}

static struct ibv_rwq_ind_table *new_table(struct world *world,
					   struct ibv_wq **wqs, uint32_t log)
{
	struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = log,
						    .ind_tbl = wqs };

	return fakernic_ucreate_rwq_ind_table(world->pd->context, &attr);
}

static struct ibv_qp_init_attr_ex rss_attr(struct world *world,
					   struct ibv_rwq_ind_table *table)
{
	return (struct ibv_qp_init_attr_ex) {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = world->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH |
			     IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			.rx_hash_key_len = sizeof(hash_key),
			.rx_hash_key = hash_key,
			.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 |
					       IBV_RX_HASH_DST_PORT_UDP } };
}

static void rss_qps_are_passed_to_the_kernel(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wq *wqs[2] = { new_wq(&world), new_wq(&world) };
	struct ibv_rwq_ind_table *table = new_table(&world, wqs, 1);
	struct ibv_qp_init_attr_ex attr = rss_attr(&world, table);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = {}, *bad_recv;
	struct ibv_qp *qp;

	CHECK(table);
	qp = fakernic_ucreate_qp_ex(world.pd->context, &attr);
	CHECK(qp);
	CHECK(model_rss.rx_hash_fields == (FAKERNIC_HASH_SRC_IPV4 |
					   FAKERNIC_HASH_DST_PORT_UDP));
	CHECK(model_rss.rx_hash_function == FAKERNIC_HASH_TOEPLITZ);
	CHECK(model_rss.rx_hash_key_len == sizeof(hash_key));
	CHECK(!memcmp(model_rss.rx_hash_key, hash_key, sizeof(hash_key)));
	/* An RSS QP has no queues. */
	qp->state = IBV_QPS_RTS;
	CHECK(fakernic_upost_send(qp, &send, &bad_send) && bad_send == &send);
	CHECK(fakernic_upost_recv(qp, &recv, &bad_recv) && bad_recv == &recv);
	CHECK(!fakernic_udestroy_qp(qp));
	CHECK(!fakernic_udestroy_rwq_ind_table(table));
	CHECK(!fakernic_udestroy_wq(wqs[0]) && !fakernic_udestroy_wq(wqs[1]));
	world_end(&world);
}

static void bad_rss_qps_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wq *wq = new_wq(&world);
	struct ibv_rwq_ind_table *table = new_table(&world, &wq, 0);
	struct ibv_rwq_ind_table_init_attr wrong = { .log_ind_tbl_size = 14 };
	struct ibv_qp_init_attr_ex bad;

#define BAD_RSS(err, ...)						\
	do {								\
		bad = rss_attr(&world, table);				\
		model_log[0] = '\0';					\
		__VA_ARGS__;						\
		CHECK(!fakernic_ucreate_qp_ex(world.pd->context,	\
					      &bad));			\
		CHECK(errno == err);					\
		CHECK(err == ENOSPC || model_log[0]);			\
	} while (0)
	BAD_RSS(EOPNOTSUPP, bad.qp_type = IBV_QPT_UD);
	BAD_RSS(EOPNOTSUPP, bad.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	BAD_RSS(EOPNOTSUPP, bad.create_flags = IBV_QP_CREATE_SCATTER_FCS);
	BAD_RSS(EOPNOTSUPP, bad.rx_hash_conf.rx_hash_function = 2);
	BAD_RSS(EOPNOTSUPP,
		bad.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_INNER);
	BAD_RSS(EINVAL, bad.rx_hash_conf.rx_hash_key_len = 41);
	BAD_RSS(EINVAL, bad.rx_hash_conf.rx_hash_key = NULL);
	BAD_RSS(EINVAL, bad.comp_mask &= ~IBV_QP_INIT_ATTR_PD);
	BAD_RSS(EINVAL, bad.comp_mask &= ~IBV_QP_INIT_ATTR_RX_HASH);
	BAD_RSS(EINVAL, bad.comp_mask &= ~IBV_QP_INIT_ATTR_IND_TABLE);
	BAD_RSS(EINVAL, bad.rwq_ind_tbl = NULL);
	BAD_RSS(EINVAL, bad.send_cq = world.cq);
	BAD_RSS(EINVAL, bad.recv_cq = world.cq);
	BAD_RSS(EINVAL, bad.cap.max_send_wr = 1);
	BAD_RSS(EINVAL, bad.cap.max_recv_wr = 1);
	BAD_RSS(ENOSPC, model_failure = ENOSPC);
	CHECK(!fakernic_ucreate_rwq_ind_table(world.pd->context, &wrong) &&
	      errno == EINVAL);
	wrong.log_ind_tbl_size = UINT32_MAX;
	CHECK(!fakernic_ucreate_rwq_ind_table(world.pd->context, &wrong) &&
	      errno == EINVAL);
	wrong = (struct ibv_rwq_ind_table_init_attr) { .comp_mask = 1 };
	CHECK(!fakernic_ucreate_rwq_ind_table(world.pd->context, &wrong) &&
	      errno == EOPNOTSUPP);
	model_failure = EPERM;
	CHECK(!new_table(&world, &wq, 0) && errno == EPERM);
	model_failure = EBUSY;
	CHECK(fakernic_udestroy_rwq_ind_table(table) == EBUSY);
	CHECK(!fakernic_udestroy_rwq_ind_table(table));
	CHECK(!fakernic_udestroy_wq(wq));
	BAD_RSS(EOPNOTSUPP, world.context->features &= ~FAKERNIC_FEATURE_WQ_RSS);
	world_end(&world);
}

const struct test_case wq_cases[] = {
	CASE(work_queues_receive),
	CASE(number_can_be_reused_during_destroy),
	CASE(reset_work_queue_discards_completions),
	CASE(bad_work_queues_are_refused),
	CASE(rss_qps_are_passed_to_the_kernel),
	CASE(bad_rss_qps_are_refused),
};
const unsigned int wq_case_count = ARRAY_SIZE(wq_cases);
