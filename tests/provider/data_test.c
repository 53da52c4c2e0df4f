/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The provider's data path: what it writes into its rings, and what completions
 * it returns. Each case acts as application and as device (model.h). The swarm
 * at the end does so at random from a seed.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#include <ccan/array_size.h>

#include "world.h"
#include "doorbell.h"
#include "fakernic/mr.h"

static uint8_t data[8192];		/* sent inline */

/* 10 requests of 132 bytes take 3 blocks each: 32 blocks hold 10. */
static void capabilities_are_rounded_up_and_returned(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(model_qp(world.qp)->sq.log_depth == 5);
	CHECK(world.cap.max_send_wr == 10 && world.cap.max_recv_wr == 16);
	CHECK(world.cap.max_send_sge == 10 && world.cap.max_recv_sge == 3);
	CHECK(world.cap.max_inline_data == 160);
	CHECK(!fakernic_uquery_qp(world.qp, &attr, IBV_QP_CAP, &init));
	CHECK(!memcmp(&attr.cap, &world.cap, sizeof(attr.cap)));
	world_end(&world);
}

static void too_large_capabilities_are_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_init_attr attr = {
		.send_cq = world.cq, .recv_cq = world.cq,
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 16385 } };

	CHECK(!fakernic_ucreate_qp(world.pd, &attr) && errno == EINVAL);
	attr.cap = (struct ibv_qp_cap) { .max_send_wr = 1, .max_send_sge = 31 };
	CHECK(!fakernic_ucreate_qp(world.pd, &attr) && errno == EINVAL);
	attr.cap = (struct ibv_qp_cap) { .max_send_wr = 1,
					 .max_inline_data = 513 };
	CHECK(!fakernic_ucreate_qp(world.pd, &attr) && errno == EINVAL);
	world_end(&world);
}

/* Polls until an entry is found, at most 'limit' times. Counts the polls. */
static struct ibv_wc poll_until_entry(struct world *world, int limit, int *polls)
{
	struct ibv_wc wc = {};

	for (*polls = 0; *polls < limit; ++*polls)
		if (fakernic_upoll_cq(world->cq, 1, &wc))
			break;
	return wc;
}

static void check_flushed(const struct ibv_wc *wc, struct world *world,
			  uint64_t wr_id, bool receive)
{
	CHECK(wc->status == IBV_WC_WR_FLUSH_ERR && wc->wr_id == wr_id);
	CHECK(wc->qp_num == world->qp->qp_num);
	CHECK(!(wc->opcode & IBV_WC_RECV) == !receive);
}

/*
 * Three sends, of which the device completes the first (the second is not
 * signaled), and two receives. Then the clock page reports that the device is
 * gone.
 */
static void outstanding_work_is_flushed_when_the_device_is(uint64_t gone_ns)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_cap cap = { .max_send_wr = 1, .max_recv_wr = 1 };
	struct ibv_qp *idle = world_qp(&world, IBV_QPT_RC, &cap, 0, NULL);
	struct fakernic_clock_page page = { .time_ns = htole64(12345) };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = {}, *bad;
	struct ibv_wc wc[9];
	int i, polls;

	world.context->clock_page = &page;
	for (i = 0; i < 3; i++) {
		wr.wr_id = 100 + i;
		wr.send_flags = i != 1 ? IBV_SEND_SIGNALED : 0;
		CHECK(!post(&world, &wr));
		recv.wr_id = 200 + i;
		CHECK(i == 2 || !fakernic_upost_recv(world.qp, &recv, &bad));
	}
	CHECK(complete_send(&world, world.qp, 0));
	CHECK(fakernic_upoll_cq(world.cq, 9, wc) == 1 && wc[0].wr_id == 100);
	CHECK(!wc[0].status);
	/* While the device lives, nothing is flushed, however many polls. */
	poll_until_entry(&world, 10000, &polls);
	CHECK(polls == 10000);

	page.time_ns = htole64(gone_ns);
	wc[0] = poll_until_entry(&world, 5000, &polls);
	CHECK(polls < 5000);
	check_flushed(&wc[0], &world, 101, false);
	CHECK(fakernic_upoll_cq(world.cq, 9, wc) == 3);
	check_flushed(&wc[0], &world, 102, false);
	check_flushed(&wc[1], &world, 200, true);
	check_flushed(&wc[2], &world, 201, true);
	CHECK(!fakernic_upoll_cq(world.cq, 9, wc));
	/* Later posts are flushed, too, even more than the queue holds. */
	for (i = 0; i < 100; i++) {
		wr.wr_id = i;
		CHECK(!post(&world, &wr));
		CHECK(fakernic_upoll_cq(world.cq, 9, wc) == 1);
		check_flushed(&wc[0], &world, i, false);
	}
	CHECK(!fakernic_udestroy_qp(idle));
	world_end(&world);
}

static void unplugged_device_flushes(void)
{
	outstanding_work_is_flushed_when_the_device_is(0);
}

static void silent_device_flushes(void)
{
	outstanding_work_is_flushed_when_the_device_is(UINT64_MAX);
}

static struct world *hurried;

/* The device's last completion, and a thread that finds the device gone. */
static void die_after_completion(int number)
{
	struct fakernic_context *context = hurried->context;

	CHECK(!mprotect(context, MODEL_CONTEXT_SIZE, PROT_READ | PROT_WRITE));
	CHECK(complete_send(hurried, hurried->qp, 0));
	atomic_store(&context->gone, true);
}

/*
 * Both happen during the poll of another thread, when it first accesses the
 * context. A completed request must not be flushed, too.
 */
static void last_completion_is_not_flushed_too(void)
{
	struct sigaction action = { .sa_handler = die_after_completion }, before;
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .wr_id = 100, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc[9];

	CHECK(!post(&world, &wr));
	wr.wr_id = 101;
	CHECK(!post(&world, &wr));
	hurried = &world;
	CHECK(!sigaction(SIGSEGV, &action, &before));
	CHECK(!mprotect(world.context, MODEL_CONTEXT_SIZE, PROT_NONE));
	CHECK(fakernic_upoll_cq(world.cq, 1, wc) == 1);
	CHECK(!sigaction(SIGSEGV, &before, NULL));
	CHECK(world.context->gone);
	CHECK(wc[0].wr_id == 100 && !wc[0].status);
	CHECK(fakernic_upoll_cq(world.cq, 9, wc) == 1);
	check_flushed(&wc[0], &world, 101, false);
	CHECK(!fakernic_upoll_cq(world.cq, 9, wc));
	world_end(&world);
}

/* The event has no entry. The first poll after it returns the flush. */
static void sleeper_gets_flush_when_device_dies(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct fakernic_clock_page page = { .time_ns = htole64(12345) };
	struct ibv_recv_wr recv = { .wr_id = 3 }, *bad;
	struct ibv_wc wc;

	world.context->clock_page = &page;
	CHECK(!fakernic_upost_recv(world.qp, &recv, &bad));
	fakernic_ucq_event(world.cq);
	CHECK(!fakernic_upoll_cq(world.cq, 1, &wc));
	page.time_ns = 0;
	CHECK(!fakernic_upoll_cq(world.cq, 1, &wc));
	fakernic_ucq_event(world.cq);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	check_flushed(&wc, &world, 3, true);
	world_end(&world);
}

/* There is an entry, too. Its event is taken together with that of the end. */
static void end_with_an_entry(struct world *world,
			      const struct fakernic_clock_page *page)
{
	struct ibv_recv_wr recv = { .wr_id = 3 }, *bad;
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	world->context->clock_page = page;
	CHECK(!fakernic_upost_recv(world->qp, &recv, &bad));
	CHECK(!post(world, &wr) && complete_send(world, world->qp, 0));
	fakernic_ucq_event(world->cq);
	fakernic_ucq_event(world->cq);
}

static void pending_entry_does_not_hide_device_death(void)
{
	struct fakernic_clock_page page = {};
	struct ibv_wc wc[4];
	int i;

	for (i = 0; i < 2; i++) {
		struct world world = world_of(IBV_QPT_RC);

		end_with_an_entry(&world, &page);
		if (i) {
			CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 2);
		} else {
			CHECK(fakernic_upoll_cq(world.cq, 1, wc) == 1);
			CHECK(fakernic_upoll_cq(world.cq, 1, wc + 1) == 1);
		}
		CHECK(wc[0].wr_id == 2 && wc[0].status == IBV_WC_SUCCESS);
		check_flushed(wc + 1, &world, 3, true);
		world_end(&world);
	}
}

static void pending_entry_hides_no_death_from_extended_polls(void)
{
	struct fakernic_clock_page page = {};
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *ex;

	ex = world_extended(&world, &attr, 0);
	end_with_an_entry(&world, &page);
	CHECK(!ex->start_poll(ex, &poll) && ex->wr_id == 2);
	CHECK(!ex->next_poll(ex) && ex->wr_id == 3);
	CHECK(ex->status == IBV_WC_WR_FLUSH_ERR);
	CHECK(ex->next_poll(ex) == ENOENT);
	ex->end_poll(ex);
	world_end(&world);
}

/*
 * A thread that was woken polls once and sleeps again if the CQ is empty. So
 * its poll must find the flush even while another thread creates or destroys a
 * queue pair, or polls another CQ.
 */
static void woken_thread_finds_flush_at_first_poll(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct fakernic_clock_page page = {};
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	CHECK(!post(&world, &wr));
	world.context->clock_page = &page;
	fakernic_ucq_event(world.cq);
	pthread_mutex_lock(&world.context->qp_table.mutex);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	pthread_mutex_unlock(&world.context->qp_table.mutex);
	check_flushed(&wc, &world, 3, false);
	world_end(&world);
}

/* A CQ with readers returns one entry at a time, with its QP's number. */
static void extended_polls_return_flushes(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct fakernic_clock_page page = {};
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_poll_cq_attr poll = {};
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4 } };
	struct ibv_recv_wr recv = { .wr_id = 7 }, *bad;
	struct ibv_cq_ex *ex;
	struct ibv_qp *qp;

	ex = fakernic_ucreate_cq_ex(&world.context->vctx.context, &attr);
	CHECK(ex);
	init.send_cq = world.cq;
	init.recv_cq = ibv_cq_ex_to_cq(ex);
	qp = fakernic_ucreate_qp(world.pd, &init);
	CHECK(qp);
	qp->state = IBV_QPS_RTR;
	CHECK(!fakernic_upost_recv(qp, &recv, &bad));
	world.context->clock_page = &page;
	/* A thread that was woken gets the flush at once. */
	fakernic_ucq_event(ibv_cq_ex_to_cq(ex));
	CHECK(!ex->start_poll(ex, &poll));
	CHECK(ex->wr_id == 7 && ex->status == IBV_WC_WR_FLUSH_ERR);
	CHECK(ex->read_opcode(ex) == IBV_WC_RECV);
	CHECK(ex->read_vendor_err(ex) == FAKERNIC_VENDOR_FLUSHED);
	CHECK(ex->next_poll(ex) == ENOENT);
	ex->end_poll(ex);
	CHECK(!fakernic_udestroy_qp(qp));
	CHECK(!fakernic_udestroy_cq(ibv_cq_ex_to_cq(ex)));
	world_end(&world);
}

static void posting_in_the_wrong_state_is_refused(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = { .num_sge = 0 }, *bad;

	world.qp->state = IBV_QPS_RTR;
	CHECK(post(&world, &wr) == EINVAL);
	CHECK(!fakernic_upost_recv(world.qp, &recv, &bad));
	world.qp->state = IBV_QPS_RESET;
	CHECK(fakernic_upost_recv(world.qp, &recv, &bad) == EINVAL);
	world_end(&world);
}

static void full_queue_takes_exactly_max_send_wr(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr[11] = {}, *bad;
	int i;

	for (i = 0; i < 11; i++)
		wr[i] = (struct ibv_send_wr) { .opcode = IBV_WR_SEND,
			.next = i < 10 ? &wr[i + 1] : NULL };
	CHECK(fakernic_upost_send(world.qp, wr, &bad) == ENOMEM);
	CHECK(bad == &wr[10]);
	CHECK(model_record(&model_qp(world.qp)->sq) == 10);
	world_end(&world);
}

/* Record and doorbell announce the valid requests; bad_wr is the bad one. */
static void posting_stops_at_the_bad_request(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_sge sge[11] = { { (uintptr_t)data, 161, 0 } };
	struct ibv_send_wr bads[] = {
		{ .opcode = IBV_WR_TSO },
		{ .opcode = IBV_WR_FLUSH },
		{ .opcode = 77 },
		{ .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 11 },
		{ .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = -1 },
		{ .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1,
		  .send_flags = IBV_SEND_INLINE },
		{ .opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 1,
		  .send_flags = IBV_SEND_INLINE },
		{ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = sge,
		  .num_sge = 2 },
		{ .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM },
	};
	struct ibv_send_wr good = { .opcode = IBV_WR_SEND }, *bad;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bads); i++) {
		good.next = &bads[i];
		CHECK(fakernic_upost_send(world.qp, &good, &bad) == EINVAL);
		CHECK(bad == &bads[i]);
		CHECK(model_record(&model_qp(world.qp)->sq) == i + 1);
		CHECK(le64toh(*(__le64 *)world.context->uar) ==
		      ((uint64_t)world.qp->qp_num << 32 | (i + 1)));
	}
	world_end(&world);
}

/* The device's half of the send queue's record. */
static void put_event_index(struct world *world, uint32_t index)
{
	struct fakernic_queue_record *record =
		fakernic_to_qp(world->qp)->sq.queue.record;

	record->device_index = htole32(index);
}

/* Posts a NOP-sized SEND. Returns the index that the doorbell reports, or 0. */
static uint32_t post_rings(struct world *world)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	__le64 *doorbell = world->context->uar;

	*doorbell = 0;
	CHECK(!fakernic_upost_send(world->qp, &wr, &bad));
	return le64toh(*doorbell) & FAKERNIC_DOORBELL_INDEX;
}

/* With SHADOW_DOORBELL a post rings only if it crosses the event index. */
static void sends_ring_across_the_event_index(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_send_wr wr[2] = {
		{ .opcode = IBV_WR_SEND, .next = &wr[1] },
		{ .opcode = IBV_WR_SEND } }, *bad;
	__le64 *doorbell = world.context->uar;

	world.context->features |= FAKERNIC_FEATURE_SHADOW_DOORBELL;
	CHECK(post_rings(&world) == 1);		/* a new queue sleeps at 0 */
	CHECK(post_rings(&world) == 0);
	put_event_index(&world, 2);
	CHECK(post_rings(&world) == 3);
	CHECK(post_rings(&world) == 0);
	CHECK(model_record(&model_qp(world.qp)->sq) == 4);
	put_event_index(&world, 5);		/* within the next post */
	*doorbell = 0;
	CHECK(!fakernic_upost_send(world.qp, wr, &bad));
	CHECK((le64toh(*doorbell) & FAKERNIC_DOORBELL_INDEX) == 6);
	put_event_index(&world, 7);		/* the device is ahead */
	CHECK(post_rings(&world) == 0);
	/* A queue that was reset is new. */
	CHECK(!fakernic_umodify_qp(world.qp, &attr, IBV_QP_STATE));
	world.qp->state = IBV_QPS_RTS;
	CHECK(post_rings(&world) == 1);
	world_end(&world);
}

static void ud_accepts_only_sends(void)
{
	struct world world = world_of(IBV_QPT_UD);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct fakernic_sq_ud ud;
	uint8_t wqe[576];
	uint32_t index;

	CHECK(post(&world, &wr) == EINVAL);
	wr = (struct ibv_send_wr) { .opcode = IBV_WR_SEND };
	wr.wr.ud.ah = &world.ah.ah;
	wr.wr.ud.remote_qpn = 0xff123456;
	wr.wr.ud.remote_qkey = 0x80010000;
	CHECK(!post(&world, &wr));
	CHECK(model_take_send(model_qp(world.qp), wqe, &index));
	memcpy(&ud, wqe + 16, sizeof(ud));
	CHECK(!memcmp(&ud.av, &world.ah.av, sizeof(ud.av)));
	CHECK(ud.dest_qpn == htole32(0x123456));
	CHECK(ud.qkey == htole32(0x80010000));
	world_end(&world);
}

static void post_random(struct world *world, struct ibv_send_wr *wr,
			struct ibv_sge *sge)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV };
	bool ud = world->qp->qp_type == IBV_QPT_UD;
	enum ibv_wr_opcode opcode = opcodes[below(ud ? 2 : 9)];
	bool atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	bool in_line = !atomic && opcode != IBV_WR_RDMA_READ &&
		       opcode != IBV_WR_LOCAL_INV && below(2);
	int count = opcode == IBV_WR_LOCAL_INV ? 0 :
		    atomic ? 1 : below(world->cap.max_send_sge + 1);
	int i, room = world->cap.max_inline_data;

	*wr = (struct ibv_send_wr) {
		.opcode = opcode, .num_sge = count, .sg_list = sge,
		.imm_data = htobe32(random()),
		.send_flags = (below(2) ? IBV_SEND_SIGNALED : 0) |
			      (below(2) ? IBV_SEND_FENCE : 0) |
			      (below(2) ? IBV_SEND_SOLICITED : 0) |
			      (in_line ? IBV_SEND_INLINE : 0),
	};
	if (ud) {
		wr->wr.ud.ah = &world->ah.ah;
		wr->wr.ud.remote_qpn = below(1 << 24);
		wr->wr.ud.remote_qkey = random();
	} else if (atomic) {
		wr->wr.atomic.remote_addr = random();
		wr->wr.atomic.rkey = random();
		wr->wr.atomic.compare_add = random();
		wr->wr.atomic.swap = random();
	} else {
		wr->wr.rdma.remote_addr = random();
		wr->wr.rdma.rkey = random();
	}
	for (i = 0; i < count; i++) {
		sge[i].length = in_line ? below(room + 1) : random();
		sge[i].addr = in_line ? (uintptr_t)data + below(4096) :
					random();
		sge[i].lkey = random();
		room -= in_line ? sge[i].length : 0;
	}
}

/* Posts the same request by the other interface. */
static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf buf[FAKERNIC_SGE_MAX];
	int i;

	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~IBV_SEND_INLINE;
	switch ((int)wr->opcode) {
	case IBV_WR_SEND:
		qp->wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		qp->wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		qp->wr_send_inv(qp, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		qp->wr_rdma_write(qp, wr->wr.rdma.rkey,
				  wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		qp->wr_rdma_write_imm(qp, wr->wr.rdma.rkey,
				      wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		qp->wr_rdma_read(qp, wr->wr.rdma.rkey,
				 wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		qp->wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey,
				      wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		qp->wr_atomic_fetch_add(qp, wr->wr.atomic.rkey,
					wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_LOCAL_INV:
		qp->wr_local_inv(qp, wr->invalidate_rkey);
		break;
	}
	for (i = 0; i < wr->num_sge; i++)
		buf[i] = (struct ibv_data_buf) {
			(void *)(uintptr_t)wr->sg_list[i].addr,
			wr->sg_list[i].length };
	if (wr->send_flags & IBV_SEND_INLINE)
		qp->wr_set_inline_data_list(qp, wr->num_sge, buf);
	else if (wr->num_sge)
		qp->wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
	if (qp->wr_set_ud_addr)
		qp->wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				   wr->wr.ud.remote_qkey);
}

/* Bytes of a WQE up to the end of its data; the rest of a block is free. */
static uint32_t wqe_bytes(const struct fakernic_sq_hdr *hdr, bool ud)
{
	uint32_t bytes = hdr->opcode == FAKERNIC_SQ_LOCAL_INV ? 16 :
		hdr->opcode <= FAKERNIC_SQ_SEND_INV ? (ud ? 64 : 16) :
		hdr->opcode <= FAKERNIC_SQ_RDMA_READ ? 32 : 64;

	return bytes + hdr->sge_count * 16 + le16toh(hdr->inline_length);
}

/* Data segments or inline data are those of the request. */
static void check_wqe_data(const struct fakernic_sq_hdr *hdr,
			   const struct ibv_send_wr *wr, bool ud)
{
	const uint8_t *at = (const uint8_t *)hdr + wqe_bytes(hdr, ud) -
			    hdr->sge_count * 16 - le16toh(hdr->inline_length);
	const struct fakernic_sge *sge;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		if (wr->send_flags & IBV_SEND_INLINE) {
			CHECK(!memcmp(at, (void *)wr->sg_list[i].addr,
				      wr->sg_list[i].length));
			at += wr->sg_list[i].length;
			continue;
		}
		sge = (const void *)at;
		CHECK(sge->address == htole64(wr->sg_list[i].addr) &&
		      sge->length == htole32(wr->sg_list[i].length) &&
		      sge->lkey == htole32(wr->sg_list[i].lkey));
		at += sizeof(*sge);
	}
}

/*
 * One QP gets requests by ibv_post_send, the other one by the builders. The
 * device finds the same WQEs, each with the length of the specification.
 */
static void both_interfaces_write_the_same_wqes(void)
{
	unsigned int i;
	int round, kind;

	for (i = 0; i < sizeof(data); i++)
		data[i] = random();
	for (kind = 0; kind < 12; kind++) {
		enum ibv_qp_type type = kind % 2 ? IBV_QPT_UD : IBV_QPT_RC;
		struct world world = world_with(type, (struct ibv_qp_cap) {
			.max_send_wr = 1 + below(20),
			.max_send_sge = 1 + below(30),
			.max_inline_data = below(513) });
		struct world other = world;
		struct ibv_qp_ex *ex;

		other.qp = world_qp(&world, type, &other.cap,
				    type == IBV_QPT_UD ? 3 << 2 : 0x3ff, NULL);
		ex = &fakernic_to_qp(other.qp)->vqp.qp_ex;
		for (round = 0; round < 400; round++) {
			uint64_t one[72], two[72];
			struct fakernic_sq_hdr *hdr = (void *)one;
			struct ibv_sge sge[FAKERNIC_SGE_MAX];
			uint32_t index, index2, bytes;
			struct ibv_send_wr wr;
			struct ibv_wc wc;

			post_random(&world, &wr, sge);
			CHECK(!post(&world, &wr));
			ex->wr_start(ex);
			build(ex, &wr);
			CHECK(!ex->wr_complete(ex));
			CHECK(model_take_send(model_qp(world.qp), one, &index));
			CHECK(model_take_send(model_qp(other.qp), two,
					      &index2));
			bytes = wqe_bytes(hdr, type == IBV_QPT_UD);
			CHECK(index == index2);
			CHECK(hdr->bb_count == (bytes + 63) / 64);
			CHECK(!memcmp(one, two, bytes));
			check_wqe_data(hdr, &wr, type == IBV_QPT_UD);
			complete_send(&world, world.qp, index);
			complete_send(&world, other.qp, index2);
			CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
			CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
		}
		CHECK(!fakernic_udestroy_qp(other.qp));
		world_end(&world);
	}
}

/* A bind of type 1 increments the tag. A window cannot have a local right. */
static void window_binds_use_only_remote_rights(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_mr mr = { .lkey = 0x305 };
	struct ibv_mw mw = { .rkey = 0x2ff };
	struct ibv_mw_bind bind = {
		.bind_info = { .mr = &mr, .addr = 1, .length = 2,
			       .mw_access_flags = IBV_ACCESS_LOCAL_WRITE |
						  IBV_ACCESS_REMOTE_READ } };
	struct { struct fakernic_sq_hdr hdr; struct fakernic_sq_bind_mw bind;
		 uint8_t rest[512]; } wqe;
	uint32_t index;

	CHECK(!fakernic_ubind_mw(world.qp, &mw, &bind));
	CHECK(mw.rkey == 0x200);
	CHECK(model_take_send(model_qp(world.qp), &wqe, &index));
	CHECK(wqe.hdr.opcode == FAKERNIC_SQ_BIND_MW && wqe.hdr.bb_count == 1);
	CHECK(wqe.bind.address == htole64(1) && wqe.bind.length == htole64(2));
	CHECK(wqe.bind.mw_key == htole32(0x2ff));
	CHECK(wqe.bind.new_key == htole32(0x200));
	CHECK(wqe.bind.mr_key == htole32(0x305));
	CHECK(wqe.bind.access == htole32(FAKERNIC_ACCESS_REMOTE_READ));
	world_end(&world);
}

static void aborted_and_failed_batches_post_nothing(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_qp_ex *ex = &fakernic_to_qp(world.qp)->vqp.qp_ex;
	struct ibv_mw mw = { .rkey = 7 };
	struct ibv_mw_bind_info info = {};
	int i;

	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_abort(ex);
	ex->wr_start(ex);
	for (i = 0; i < 11; i++)
		ex->wr_send(ex);
	CHECK(ex->wr_complete(ex) == ENOMEM);
	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_inline_data(ex, data, world.cap.max_inline_data + 1);
	ex->wr_send(ex);
	CHECK(ex->wr_complete(ex) == EINVAL);
	ex->wr_start(ex);
	ex->wr_bind_mw(ex, &mw, 8, &info);
	ex->wr_set_sge(ex, 1, 2, 3);
	CHECK(ex->wr_complete(ex) == EINVAL);
	ex->wr_start(ex);
	ex->wr_local_inv(ex, 8);
	ex->wr_set_sge(ex, 1, 2, 3);
	CHECK(ex->wr_complete(ex) == EINVAL);
	CHECK(model_record(&model_qp(world.qp)->sq) == 0);
	ex->wr_start(ex);
	for (i = 0; i < 10; i++)
		ex->wr_send(ex);
	CHECK(!ex->wr_complete(ex));
	CHECK(model_record(&model_qp(world.qp)->sq) == 10);
	world_end(&world);
}

/* Neither rings a doorbell; the device reads the records. */
static void receives_and_polls_ring_no_doorbell(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct model_qp *qp = model_qp(world.qp);
	struct ibv_recv_wr wr = { .wr_id = 42 }, *bad;
	struct ibv_sge sge[2] = { { 1, 2, 3 }, { 4, 5, 6 } };
	struct { struct fakernic_rq_wqe wqe; struct fakernic_sge sge[3]; } slot;
	struct ibv_wc wc;

	memset(world.context->uar, 0xee, FAKERNIC_PAGE_SIZE);
	wr.sg_list = sge;
	wr.num_sge = 2;
	CHECK(!fakernic_upost_recv(world.qp, &wr, &bad));
	CHECK(model_record(&qp->rq) == 1);
	CHECK(model_take_recv(&qp->rq, &slot));
	CHECK(slot.wqe.sge_count == 2 && slot.sge[1].address == htole64(4) &&
	      slot.sge[1].length == htole32(5) &&
	      slot.sge[1].lkey == htole32(6));
	model_complete(model_cq(world.cq), (struct fakernic_cqe) {
		.qpn = htole32(qp->qpn), .wqe_index = slot.wqe.tag,
		.opcode = FAKERNIC_CQE_RECV_RDMA_IMM,
		.flags = FAKERNIC_CQE_IMM | FAKERNIC_CQE_GRH,
		.imm_or_key = htole32(0x01020304), .byte_count = htole32(9) });
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(wc.wr_id == 42 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(wc.wc_flags == (IBV_WC_WITH_IMM | IBV_WC_GRH));
	CHECK(wc.imm_data == htobe32(0x01020304) && wc.byte_len == 9);
	CHECK(model_record(model_cq(world.cq)) == 1);
	CHECK(*(uint8_t *)world.context->uar == 0xee);
	world_end(&world);
}

/* The number of the first empty poll that rings the doorbell; 0: none. */
static int rings_at(struct world *world, int polls)
{
	__le64 *doorbell = (void *)((uint8_t *)world->context->uar +
				    FAKERNIC_DOORBELL_POLL);
	struct ibv_wc wc;
	int i;

	*doorbell = ~0ULL;
	for (i = 1; i <= polls; i++) {
		CHECK(fakernic_upoll_cq(world->cq, 1, &wc) == 0);
		if (*doorbell == 0)
			return i;
	}
	return 0;
}

/*
 * Empty polls ring the poll doorbell if the device has it, as often as its
 * features demand.
 */
static void empty_polls_ring_the_poll_doorbell(void)
{
	struct world world = world_of(IBV_QPT_RC);
	uint64_t *features = &world.context->features;

	*features &= ~(FAKERNIC_FEATURE_POLL_DOORBELL |
		       FAKERNIC_FEATURE_POLL_SELDOM);
	CHECK(rings_at(&world, 64) == 0);
	*features |= FAKERNIC_FEATURE_POLL_DOORBELL;
	CHECK(rings_at(&world, 64) == 8 && rings_at(&world, 64) == 8);
	CHECK(rings_at(&world, 64) == 8);
	*features |= FAKERNIC_FEATURE_POLL_SELDOM;
	CHECK(rings_at(&world, 40) == 40 && rings_at(&world, 64) == 64);
	world_end(&world);
}

static void arming_reports_the_consumer_index(void)
{
	struct world world = world_of(IBV_QPT_RC);
	__le64 *doorbell = (void *)((uint8_t *)world.context->uar +
				    FAKERNIC_DOORBELL_CQ_ARM);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	unsigned int i;

	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
	CHECK(*doorbell == htole64(1ULL << 32 | 1));
	CHECK(!fakernic_ureq_notify_cq(world.cq, 1));
	CHECK(*doorbell == htole64(1ULL << 56 | 1ULL << 32 | 1));
	/*
	 * An entry that was not polled causes an event, in a full CQ, too.
	 */
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 1));
	CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
	CHECK(*doorbell == htole64(1ULL << 32 | 1));
	for (i = 2; i < 1U + world.cq->cqe; i++)
		CHECK(complete_send(&world, world.qp, i));
	CHECK(!complete_send(&world, world.qp, i));
	CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
	CHECK(*doorbell == htole64(1ULL << 32 | 1));
	CHECK(!post(&world, &wr));
	/* The entry whose event was taken is known; those behind it are not. */
	fakernic_ucq_event(world.cq);
	CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
	CHECK(*doorbell == htole64(1ULL << 32 | 2));
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
	CHECK(*doorbell == htole64(1ULL << 32 | 2));
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
	CHECK(*doorbell == htole64(1ULL << 32 | 3));
	world_end(&world);
}

/* Arms the CQ. Returns the index that the doorbell reports. */
static uint32_t armed_at(struct world *world)
{
	__le64 *doorbell = (void *)((uint8_t *)world->context->uar +
				    FAKERNIC_DOORBELL_CQ_ARM);

	CHECK(!fakernic_ureq_notify_cq(world->cq, 0));
	return le64toh(*doorbell);
}

/* Completes one more send and polls its entry. */
static void send_and_poll(struct world *world, uint32_t index)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	CHECK(!post(world, &wr) && complete_send(world, world->qp, index));
	CHECK(fakernic_upoll_cq(world->cq, 1, &wc) == 1);
}

/*
 * A thread takes an event late, after it has polled the entry and armed the CQ
 * again. The event reports no other entry. Otherwise the device would not wake
 * the thread for the next entry behind its last poll.
 */
static void late_event_covers_only_polled_entries(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	CHECK(armed_at(&world) == 0);
	send_and_poll(&world, 0);
	CHECK(armed_at(&world) == 1);
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 1);
	/* The same with a resize in between. */
	send_and_poll(&world, 1);
	CHECK(!fakernic_uresize_cq(world.cq, 100));
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 0);
	/* Nor for the entry that arrived since, which no event reported. */
	send_and_poll(&world, 2);
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 3));
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 1);
	/* The event of that entry is a new one. */
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 2);
	world_end(&world);
}

/* On a CQ without a lock, arming after the event causes no second event. */
static void event_of_unlocked_cq_covers_its_entry(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 8,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	world_extended(&world, &attr, 0);
	CHECK(armed_at(&world) == 0);
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 1);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 1);
	CHECK(armed_at(&world) == 1);
	/* The next entry is new to a thread that polled after the event. */
	fakernic_ucq_event(world.cq);
	CHECK(!fakernic_upoll_cq(world.cq, 1, &wc));
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 1));
	CHECK(armed_at(&world) == 1);
	world_end(&world);
}

/*
 * A thread may arm between start_poll and end_poll, as other cards allow. The
 * entry that it is reading counts as polled.
 */
static void cq_can_be_armed_during_a_poll(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *ex;

	ex = world_extended(&world, &attr, 0);
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	/* Ends the test if the thread waits for its own lock. */
	alarm(10);
	CHECK(!ex->start_poll(ex, &poll) && armed_at(&world) == 1);
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 1);
	ex->end_poll(ex);
	CHECK(armed_at(&world) == 1);
	alarm(0);
	world_end(&world);
}

/* A faulty device writes to the ring between the check and the use. */
static void entry_is_read_only_once(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *ex;

	attr.wc_flags = IBV_WC_EX_WITH_QP_NUM;
	ex = world_extended(&world, &attr, 0);
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	CHECK(!ex->start_poll(ex, &poll));
	memset(fakernic_uqueue_entry(&fakernic_to_cq(world.cq)->queue, 0), 0xff,
	       sizeof(struct fakernic_cqe));
	CHECK(ex->read_qp_num(ex) == world.qp->qp_num);
	CHECK(ex->read_opcode(ex) == IBV_WC_SEND);
	ex->end_poll(ex);
	world_end(&world);
}

/* An event is taken after billions of entries, without arming in between. */
static void old_event_covers_only_polled_entries(void)
{
	const uint32_t many = 3U << 30;
	struct world world = world_of(IBV_QPT_RC);
	struct fakernic_cq *cq = fakernic_to_cq(world.cq);

	CHECK(armed_at(&world) == 0);
	CHECK(complete_send(&world, world.qp, 0));
	fakernic_ucq_event(world.cq);
	CHECK(armed_at(&world) == 1);
	cq->ci += many;
	model_cq(world.cq)->index += many;
	fakernic_uqueue_store(&cq->queue, cq->ci);
	send_and_poll(&world, 0);
	CHECK(armed_at(&world) == many + 1);
	world_end(&world);
}

/*
 * One datagram with these fields. Both ways of polling must return the same sl.
 */
static uint8_t sl_of(struct world *world, struct ibv_cq_ex *ex,
		     struct fakernic_cqe cqe)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc;
	uint8_t sl;

	cqe.qpn = htole32(world->qp->qp_num);
	cqe.opcode = FAKERNIC_CQE_RECV;
	cqe.wqe_index = htole32(world_receive(world));
	CHECK(model_complete(model_cq(world->cq), cqe));
	CHECK(fakernic_upoll_cq(world->cq, 1, &wc) == 1);
	cqe.wqe_index = htole32(world_receive(world));
	CHECK(model_complete(model_cq(ibv_cq_ex_to_cq(ex)), cqe));
	CHECK(!ex->start_poll(ex, &attr));
	sl = ex->read_sl(ex);
	ex->end_poll(ex);
	CHECK(wc.sl == sl);
	return sl;
}

static void sl_reports_the_network_type(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8,
					    .wc_flags = IBV_WC_EX_WITH_SL };
	struct world world = world_of(IBV_QPT_UD);
	struct ibv_cq_ex *ex;

	ex = fakernic_ucreate_cq_ex(world.pd->context, &attr);
	CHECK(ex);
#define SL_OF(...) sl_of(&world, ex, (struct fakernic_cqe) { __VA_ARGS__ })
	CHECK(SL_OF(.network_type = FAKERNIC_GID_IPV4) == 10);
	CHECK(SL_OF(.network_type = FAKERNIC_GID_IPV6) == 9);
	/* RC; a tag; a tag without a VLAN. */
	CHECK(SL_OF(.sl = 0) == 0);
	CHECK(SL_OF(.network_type = FAKERNIC_GID_IPV4,
		    .flags = FAKERNIC_CQE_VLAN) == 0);
	CHECK(SL_OF(.network_type = FAKERNIC_GID_IPV4, .sl = 5) == 5);
#undef SL_OF
	CHECK(!fakernic_udestroy_cq(ibv_cq_ex_to_cq(ex)));
	world_end(&world);
}

/* A reset removes the CQEs of its QP. The others stay, in order. */
static void reset_removes_cqes_of_its_qp(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp_cap cap = { .max_send_wr = 400 };
	struct ibv_qp *other = world_qp(&world, IBV_QPT_RC, &cap, 0, NULL);
	struct ibv_wc wc[512];
	int i, round, count;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < 250; i++) {
			wr.wr_id = i;
			CHECK(!fakernic_upost_send(other, &wr, &bad));
			complete_send(&world, other, 250 * round + i);
			complete_send(&world, world.qp, 0);
		}
		CHECK(!fakernic_umodify_qp(world.qp, &attr, IBV_QP_STATE));
		count = fakernic_upoll_cq(world.cq, 512, wc);
		CHECK(count == 250);
		for (i = 0; i < count; i++)
			CHECK(wc[i].wr_id == i &&
			      wc[i].qp_num == other->qp_num);
	}
	CHECK(!fakernic_udestroy_qp(other));
	world_end(&world);
}

static void reset_returns_both_rings_to_their_start(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = {}, *bad;
	struct model_qp *qp = model_qp(world.qp);
	int i;

	for (i = 0; i < 10; i++)
		CHECK(!post(&world, &wr) &&
		      !fakernic_upost_recv(world.qp, &recv, &bad));
	CHECK(!fakernic_umodify_qp(world.qp, &attr, IBV_QP_STATE));
	CHECK(model_record(&qp->sq) == 0 && model_record(&qp->rq) == 0);
	world.qp->state = IBV_QPS_RTS;
	for (i = 0; i < 10; i++)
		CHECK(!post(&world, &wr));
	CHECK(post(&world, &wr) == ENOMEM);
	world_end(&world);
}

/* Tags come back in any order; none is lost, also by a reset. */
static void srq_tags_are_kept(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 20 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_srq *srq = fakernic_ucreate_srq(world.pd, &init);
	struct ibv_qp_cap cap = { .max_send_wr = 1 };
	struct ibv_qp *qp = world_qp(&world, IBV_QPT_RC, &cap, 0, srq);
	struct fakernic_rq_wqe wqe[32];
	uint8_t slot[512];
	int round, i, count, polled;

	CHECK(init.attr.max_wr == 32 && init.attr.max_sge == 1);
	for (round = 0; round < 200; round++) {
		struct ibv_recv_wr wr = {}, *bad;
		uint64_t seen = 0;
		struct ibv_wc wc[32];

		for (i = 0; i < 32; i++, wr.wr_id = i)
			CHECK(!fakernic_upost_srq_recv(srq, &wr, &bad));
		CHECK(fakernic_upost_srq_recv(srq, &wr, &bad) == ENOMEM);
		for (count = 0; model_take_recv(model_srq(), slot); count++)
			memcpy(&wqe[count], slot, sizeof(wqe[0]));
		CHECK(count == 32);
		for (i = 31; i >= 0; i--) {
			int pick = below(i + 1);

			model_complete(model_cq(world.cq),
				       (struct fakernic_cqe) {
					       .qpn = htole32(qp->qp_num),
					       .srqn = htole32(MODEL_SRQN),
					       .wqe_index = wqe[pick].tag,
					       .opcode = FAKERNIC_CQE_RECV });
			wqe[pick] = wqe[i];
		}
		polled = fakernic_upoll_cq(world.cq, below(33), wc);
		for (i = 0; i < polled; i++)
			seen |= 1ULL << wc[i].wr_id;
		CHECK(__builtin_popcountll(seen) == polled);
		CHECK(!fakernic_umodify_qp(qp, &attr, IBV_QP_STATE));
		CHECK(fakernic_upoll_cq(world.cq, 32, wc) == 0);
	}
	CHECK(!fakernic_udestroy_qp(qp) && !fakernic_udestroy_srq(srq));
	world_end(&world);
}

/* Writes a completion for this tag or index, as the device would. */
static void complete_recv(struct world *world, struct ibv_qp *qp, uint32_t srqn,
			  uint32_t tag)
{
	struct fakernic_cqe cqe = {
		.qpn = htole32(qp->qp_num),
		.srqn = htole32(srqn),
		.wqe_index = htole32(tag),
		.opcode = FAKERNIC_CQE_RECV,
	};

	CHECK(model_complete(model_cq(world->cq), cqe));
}

/*
 * A fault rule repeats a completion: at once, and when the next round uses its
 * slot. The copies complete nothing and take no room.
 */
static void duplicate_receive_completions_are_dropped(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct model_ring *ring = &model_qp(world.qp)->rq;
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_wc wc[4];
	uint32_t first, tag;
	unsigned int i;

	CHECK(!fakernic_upost_recv(world.qp, &wr, &bad));
	first = next_tag(ring);
	complete_recv(&world, world.qp, 0, first);
	complete_recv(&world, world.qp, 0, first);
	CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1);
	CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 0);
	for (i = 1; i <= world.cap.max_recv_wr; i++) {
		wr.wr_id = i;
		CHECK(!fakernic_upost_recv(world.qp, &wr, &bad));
		tag = next_tag(ring);
		complete_recv(&world, world.qp, 0, first);
		complete_recv(&world, world.qp, 0, tag);
		CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1);
		CHECK(wc[0].wr_id == i);
	}
	world_end(&world);
}

/* Completions after a lost one are not repeated when the device is gone. */
static void lost_receive_completion_is_not_flushed(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct model_ring *ring = &model_qp(world.qp)->rq;
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_wc wc[4];

	for (wr.wr_id = 10; wr.wr_id < 13; wr.wr_id++)
		CHECK(!fakernic_upost_recv(world.qp, &wr, &bad));
	next_tag(ring);
	complete_recv(&world, world.qp, 0, next_tag(ring));
	CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1 && wc[0].wr_id == 11);
	atomic_store(&world.context->gone, true);
	CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1 && wc[0].wr_id == 12);
	CHECK(wc[0].status == IBV_WC_WR_FLUSH_ERR);
	world_end(&world);
}

static void duplicate_send_completions_are_dropped(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc[4];
	uint32_t i, index, first = 0;
	struct {
		uint8_t bytes[FAKERNIC_SQ_WQE_BB_MAX * FAKERNIC_SQ_BB_SIZE];
	} wqe;

	for (i = 0; i < 3 * world.cap.max_send_wr; i++) {
		wr.wr_id = i;
		CHECK(!post(&world, &wr));
		CHECK(model_take_send(model_qp(world.qp), &wqe, &index));
		/* An old one again, and one that was never posted. */
		if (i)
			CHECK(complete_send(&world, world.qp, first));
		CHECK(complete_send(&world, world.qp, index + 8));
		CHECK(complete_send(&world, world.qp, index));
		CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1);
		CHECK(wc[0].wr_id == i);
		first = index;
	}
	world_end(&world);
}

/* The same for an SRQ, which reuses a tag at once. */
static void duplicate_srq_completions_are_dropped(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4 } };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_srq *srq = fakernic_ucreate_srq(world.pd, &init);
	struct ibv_qp_cap cap = { .max_send_wr = 1 };
	struct ibv_qp *qp = world_qp(&world, IBV_QPT_RC, &cap, 0, srq);
	struct ibv_recv_wr wr = {}, *bad;
	uint32_t tag, last = 0;
	struct ibv_wc wc[4];
	unsigned int i;

	for (i = 0; i < 20; i++) {
		wr.wr_id = i;
		CHECK(!fakernic_upost_srq_recv(srq, &wr, &bad));
		tag = next_tag(model_srq());
		if (i)
			complete_recv(&world, qp, MODEL_SRQN, last);
		complete_recv(&world, qp, MODEL_SRQN, tag);
		complete_recv(&world, qp, MODEL_SRQN, tag);
		CHECK(fakernic_upoll_cq(world.cq, 4, wc) == 1);
		CHECK(wc[0].wr_id == i);
		last = tag;
	}
	for (i = 0; i < init.attr.max_wr; i++)
		CHECK(!fakernic_upost_srq_recv(srq, &wr, &bad));
	CHECK(fakernic_upost_srq_recv(srq, &wr, &bad) == ENOMEM);
	CHECK(!fakernic_udestroy_qp(qp) && !fakernic_udestroy_srq(srq));
	world_end(&world);
}

/*
 * A thread may destroy a QP between start_poll and end_poll. The entry that it
 * is reading stays.
 */
static void qp_can_be_destroyed_during_a_poll(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM,
	};
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_cq_ex *ex = world_extended(&world, &attr, 0);
	struct ibv_qp_cap cap = { .max_send_wr = 4 };
	struct ibv_qp *other = world_qp(&world, IBV_QPT_RC, &cap, 0, NULL);
	struct ibv_poll_cq_attr poll = {};

	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	CHECK(complete_send(&world, other, 0));
	CHECK(!ex->start_poll(ex, &poll));
	CHECK(ex->read_qp_num(ex) == world.qp->qp_num);
	CHECK(!fakernic_udestroy_qp(other));
	/* The device has room for two more. */
	CHECK(complete_send(&world, world.qp, 7));
	CHECK(ex->status == IBV_WC_SUCCESS && ex->read_byte_len(ex) == 0);
	CHECK(ex->read_qp_num(ex) == world.qp->qp_num);
	CHECK(ex->next_poll(ex) == ENOENT);
	ex->end_poll(ex);
	CHECK(ex->start_poll(ex, &poll) == ENOENT);
	world_end(&world);
}

static void resize_keeps_unpolled_entries(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc[8];
	int i, round;

	for (round = 0; round < 40; round++) {
		for (i = 0; i < 8; i++) {
			wr.wr_id = i;
			CHECK(!post(&world, &wr));
			complete_send(&world, world.qp, round * 8 + i);
		}
		CHECK(fakernic_upoll_cq(world.cq, 3, wc) == 3);
		CHECK(!fakernic_uresize_cq(world.cq, 5 + below(100)));
		CHECK(fakernic_upoll_cq(world.cq, 8, wc) == 5);
		CHECK(wc[0].wr_id == 3 && wc[4].wr_id == 7);
	}
	CHECK(fakernic_uresize_cq(world.cq, (1 << 22) + 1) == EINVAL);
	world_end(&world);
}

static void completion_of_an_unknown_qp_is_an_error_once(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wc wc;

	model_complete(model_cq(world.cq),
		       (struct fakernic_cqe) { .qpn = htole32(0xabcdef) });
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) < 0);
	CHECK(fakernic_upoll_cq(world.cq, 1, &wc) == 0);
	world_end(&world);
}

static void extended_cq_frees_each_entry_after_use(void)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS |
				      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_cq_ex *ex = fakernic_ucreate_cq_ex(world.pd->context, &init);
	struct model_ring *ring = model_cq(ibv_cq_ex_to_cq(ex));
	struct ibv_poll_cq_attr attr = {};
	struct ibv_recv_wr wr = {}, *bad;
	uint32_t i;

	CHECK(ex && ex->start_poll(ex, &attr) == ENOENT);
	for (i = 0; i < 4; i++)
		CHECK(!fakernic_upost_recv(world.qp, &wr, &bad));
	for (i = 0; i < 4; i++)
		CHECK(model_complete(ring, (struct fakernic_cqe) {
			.qpn = htole32(world.qp->qp_num),
			.opcode = FAKERNIC_CQE_RECV, .wqe_index = htole32(i),
						   .src_qpn = htole32(i),
			.timestamp = htole64(1ULL << 40 | i), .sl = 3,
			.status = FAKERNIC_WC_WR_FLUSH_ERR,
			.vendor_err = htole16(FAKERNIC_VENDOR_FLUSHED) }));
	CHECK(!ex->start_poll(ex, &attr));
	for (i = 0; i < 4; i++) {
		CHECK(model_record(ring) == i);
		CHECK(ex->status == IBV_WC_WR_FLUSH_ERR);
		CHECK(ex->read_vendor_err(ex) == FAKERNIC_VENDOR_FLUSHED);
		CHECK(ex->read_src_qp(ex) == i && ex->read_sl(ex) == 3);
		CHECK(ex->read_completion_ts(ex) == (1ULL << 40 | i));
		CHECK(ex->next_poll(ex) == (i < 3 ? 0 : ENOENT));
	}
	ex->end_poll(ex);
	CHECK(model_record(ring) == 4);
	CHECK(!fakernic_udestroy_cq(ibv_cq_ex_to_cq(ex)));
	world_end(&world);
}

/*
 * Unsignaled and signaled sends are posted, executed and polled at random. Each
 * signaled one completes once, in order. The queue is full only when
 * max_send_wr sends are outstanding.
 */
static void random_sends_complete_once_in_order(void)
{
	struct world world = world_with(IBV_QPT_RC, (struct ibv_qp_cap) {
		.max_send_wr = 1 + below(60), .max_send_sge = 1 + below(30),
		.max_inline_data = below(513) });
	struct ibv_sge sge[FAKERNIC_SGE_MAX];
	uint64_t posted = 0, done = 0, polled = 0;
	static bool signaled[100000];
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	uint8_t wqe[576];
	uint32_t index;
	int step;

	for (step = 0; step < 100000; step++) {
		switch (below(3)) {
		case 0:
			post_random(&world, &wr, sge);
			wr.wr_id = posted;
			if (posted - polled + 1 == world.cap.max_send_wr)
				wr.send_flags |= IBV_SEND_SIGNALED;
			signaled[posted] = wr.send_flags & IBV_SEND_SIGNALED;
			CHECK(post(&world, &wr) ==
			      (posted - polled < world.cap.max_send_wr ?
			       0 : ENOMEM));
			posted += posted - polled < world.cap.max_send_wr;
			break;
		case 1:
			if (!model_take_send(model_qp(world.qp), wqe, &index))
				break;
			if (signaled[done++])
				CHECK(complete_send(&world, world.qp, index));
			break;
		case 2:
			if (fakernic_upoll_cq(world.cq, 1, &wc) != 1)
				break;
			while (!signaled[polled])
				polled++;
			CHECK(wc.wr_id == polled++);
			break;
		}
	}
	CHECK(posted > 1000);
	world_end(&world);
}

const struct test_case data_cases[] = {
	CASE(capabilities_are_rounded_up_and_returned),
	CASE(too_large_capabilities_are_refused),
	CASE(unplugged_device_flushes),
	CASE(silent_device_flushes),
	CASE(last_completion_is_not_flushed_too),
	CASE(sleeper_gets_flush_when_device_dies),
	CASE(pending_entry_does_not_hide_device_death),
	CASE(pending_entry_hides_no_death_from_extended_polls),
	CASE(entry_is_read_only_once),
	CASE(woken_thread_finds_flush_at_first_poll),
	CASE(extended_polls_return_flushes),
	CASE(posting_in_the_wrong_state_is_refused),
	CASE(full_queue_takes_exactly_max_send_wr),
	CASE(posting_stops_at_the_bad_request),
	CASE(sends_ring_across_the_event_index),
	CASE(ud_accepts_only_sends),
	CASE(both_interfaces_write_the_same_wqes),
	CASE(window_binds_use_only_remote_rights),
	CASE(aborted_and_failed_batches_post_nothing),
	CASE(receives_and_polls_ring_no_doorbell),
	CASE(empty_polls_ring_the_poll_doorbell),
	CASE(arming_reports_the_consumer_index),
	CASE(late_event_covers_only_polled_entries),
	CASE(old_event_covers_only_polled_entries),
	CASE(event_of_unlocked_cq_covers_its_entry),
	CASE(cq_can_be_armed_during_a_poll),
	CASE(sl_reports_the_network_type),
	CASE(reset_removes_cqes_of_its_qp),
	CASE(reset_returns_both_rings_to_their_start),
	CASE(srq_tags_are_kept),
	CASE(duplicate_receive_completions_are_dropped),
	CASE(lost_receive_completion_is_not_flushed),
	CASE(duplicate_send_completions_are_dropped),
	CASE(duplicate_srq_completions_are_dropped),
	CASE(qp_can_be_destroyed_during_a_poll),
	CASE(resize_keeps_unpolled_entries),
	CASE(completion_of_an_unknown_qp_is_an_error_once),
	CASE(extended_cq_frees_each_entry_after_use),
	CASE(random_sends_complete_once_in_order),
};
const unsigned int data_case_count = ARRAY_SIZE(data_cases);
