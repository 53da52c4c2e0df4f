/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * threads_test: many threads use the same queues, built with ThreadSanitizer.
 * The test counts what threads post and poll. A data race ends the program. The
 * main thread acts as the device. Commands and steps of the device exclude one
 * another, as in the kernel and on the bus.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <ccan/array_size.h>

#include "world.h"

#define POSTERS		3
#define POLLERS		2
#define POSTS		4000	/* by each */
#define TOTAL		(POSTERS * POSTS)
#define COMMANDS	20

struct wqe {
	uint8_t bytes[FAKERNIC_SQ_WQE_BB_MAX * FAKERNIC_SQ_BB_SIZE];
};

static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER;

/* Shared by all threads. They post sends; with 'ring', receives to it. */
struct crowd {
	struct world *world;
	struct ibv_srq *srq;
	struct model_ring *ring;
	struct ibv_cq_ex *ex;
	int (*post)(struct crowd *crowd, uint64_t wr_id);
	void *(*command)(void *crowd);
	atomic_uint polled;
	atomic_ullong sum;
};

static int send_one(struct crowd *crowd, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	return post(crowd->world, &wr);
}

static int build_one(struct crowd *crowd, uint64_t wr_id)
{
	struct ibv_qp_ex *ex = &fakernic_to_qp(crowd->world->qp)->vqp.qp_ex;

	ex->wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_send(ex);
	return ex->wr_complete(ex);
}

static int receive_one(struct crowd *crowd, uint64_t wr_id)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id }, *bad;

	return crowd->srq ?
		fakernic_upost_srq_recv(crowd->srq, &wr, &bad) :
		fakernic_upost_recv(crowd->world->qp, &wr, &bad);
}

static void *crowd_post(void *argument)
{
	struct crowd *crowd = argument;
	uint64_t i;
	int err;

	for (i = 0; i < POSTS; i++)
		while ((err = crowd->post(crowd, i))) {
			CHECK(err == ENOMEM);
			sched_yield();
		}
	return NULL;
}

static void *crowd_poll(void *argument)
{
	struct crowd *crowd = argument;
	struct ibv_wc wc[4];
	int i, count;

	while (atomic_load(&crowd->polled) < TOTAL) {
		count = fakernic_upoll_cq(crowd->world->cq, 4, wc);
		CHECK(count >= 0);
		for (i = 0; i < count; i++)
			atomic_fetch_add(&crowd->sum, wc[i].wr_id);
		atomic_fetch_add(&crowd->polled, count);
		if (!count) {
			CHECK(!fakernic_ureq_notify_cq(crowd->world->cq, 0));
			sched_yield();
		}
	}
	return NULL;
}

static void *crowd_poll_ex(void *argument)
{
	struct crowd *crowd = argument;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *ex = crowd->ex;
	int err;

	while (atomic_load(&crowd->polled) < TOTAL) {
		err = ex->start_poll(ex, &attr);
		CHECK(!err || err == ENOENT);
		if (err) {
			sched_yield();
			continue;
		}
		do {
			CHECK(ex->status == IBV_WC_SUCCESS);
			CHECK(ex->read_opcode(ex) == IBV_WC_SEND);
			atomic_fetch_add(&crowd->sum, ex->wr_id);
			atomic_fetch_add(&crowd->polled, 1);
			err = ex->next_poll(ex);
		} while (!err);
		CHECK(err == ENOENT);
		CHECK(!fakernic_ureq_notify_cq(ibv_cq_ex_to_cq(ex), 0));
		ex->end_poll(ex);
	}
	return NULL;
}

/* One step of the device: completes what was posted. */
static bool crowd_serve(struct crowd *crowd)
{
	struct {
		struct fakernic_rq_wqe wqe;
		struct fakernic_sge sge[3];
	} slot;
	struct ibv_qp *qp = crowd->world->qp;
	struct fakernic_cqe cqe = { .qpn = htole32(qp->qp_num),
				    .opcode = FAKERNIC_CQE_SEND };
	struct wqe wqe;
	uint32_t index;
	bool took;

	pthread_mutex_lock(&device);
	if (crowd->ring) {
		cqe.opcode = FAKERNIC_CQE_RECV;
		index = crowd->ring->index;
		took = model_take_recv(crowd->ring, &slot);
	} else {
		took = model_take_send(model_qp(qp), &wqe, &index);
	}
	if (took && crowd->srq) {
		cqe.srqn = htole32(MODEL_SRQN);
		cqe.wqe_index = slot.wqe.tag;
	} else if (took) {
		cqe.wqe_index = htole32(index);
	}
	if (took)
		CHECK(model_complete(model_cq(crowd->world->cq), cqe));
	pthread_mutex_unlock(&device);
	return took;
}

/* No completion is lost or duplicated. */
static void crowd_run(struct crowd *crowd,
		      int (*post)(struct crowd *crowd, uint64_t wr_id),
		      void *(*poller)(void *))
{
	pthread_t posters[POSTERS], pollers[POLLERS], other;
	unsigned int served = 0;
	int i;

	crowd->post = post;
	for (i = 0; i < POSTERS; i++)
		CHECK(!pthread_create(&posters[i], NULL, crowd_post, crowd));
	for (i = 0; i < POLLERS; i++)
		CHECK(!pthread_create(&pollers[i], NULL, poller, crowd));
	if (crowd->command)
		CHECK(!pthread_create(&other, NULL, crowd->command, crowd));
	while (served < TOTAL) {
		if (crowd_serve(crowd))
			served++;
		else
			sched_yield();
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	for (i = 0; i < POLLERS; i++)
		pthread_join(pollers[i], NULL);
	if (crowd->command)
		pthread_join(other, NULL);
	CHECK(crowd->polled == TOTAL);
	CHECK(crowd->sum == POSTERS * (POSTS * (POSTS - 1ULL) / 2));
}

static void threads_post_to_a_qp_and_poll_its_cq(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world };

	crowd_run(&crowd, send_one, crowd_poll);
	world_end(&world);
}

static void threads_post_receives_to_a_qp(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world };

	crowd.ring = &model_qp(world.qp)->rq;
	crowd_run(&crowd, receive_one, crowd_poll);
	world_end(&world);
}

static void threads_use_extended_posts_and_polls(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64 };
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world };

	crowd.ex = world_extended(&world, &attr, IBV_QP_EX_WITH_SEND);
	crowd_run(&crowd, build_one, crowd_poll_ex);
	world_end(&world);
}

/* Resizes the CQ while other threads poll it. */
static void *resize_cq(void *argument)
{
	struct crowd *crowd = argument;
	int i;

	for (i = 0; i < COMMANDS; i++) {
		pthread_mutex_lock(&device);
		CHECK(!fakernic_uresize_cq(crowd->world->cq, i % 2 ? 20 : 600));
		pthread_mutex_unlock(&device);
		sched_yield();
	}
	return NULL;
}

static void threads_poll_a_cq_during_resize(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world, .command = resize_cq };

	crowd_run(&crowd, send_one, crowd_poll);
	world_end(&world);
}

/* Resizes the SRQ while other threads post; refused with too many receives. */
static void *resize_srq(void *argument)
{
	struct crowd *crowd = argument;
	struct ibv_srq_attr attr = {};
	int i, err;

	for (i = 0; i < COMMANDS; i++) {
		attr.max_wr = i % 2 ? 16 : 100;
		pthread_mutex_lock(&device);
		err = fakernic_umodify_srq(crowd->srq, &attr, IBV_SRQ_MAX_WR);
		pthread_mutex_unlock(&device);
		CHECK(!err || err == EINVAL);
		CHECK(!fakernic_uquery_srq(crowd->srq, &attr));
		CHECK(attr.max_wr == 16 || attr.max_wr == 128);
		sched_yield();
	}
	return NULL;
}

static void threads_post_to_an_srq_during_resize(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16 } };
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world, .command = resize_srq };

	crowd.srq = fakernic_ucreate_srq(world.pd, &init);
	crowd.ring = model_srq();
	CHECK(crowd.srq);
	crowd_run(&crowd, receive_one, crowd_poll);
	CHECK(!fakernic_udestroy_srq(crowd.srq));
	world_end(&world);
}

/*
 * In a thread domain one thread posts at a time. The thread that polls may be
 * another one, and returns the tags.
 */
static void thread_domain_allows_one_posting_thread(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16 } };
	struct ibv_td_init_attr td_attr = {};
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_td *td = fakernic_ualloc_td(world.pd->context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = world.pd, .td = td };
	struct ibv_pd *domain =
		fakernic_ualloc_parent_domain(world.pd->context, &attr);
	struct crowd crowd = { .world = &world };

	crowd.srq = fakernic_ucreate_srq(domain, &init);
	crowd.ring = model_srq();
	CHECK(crowd.srq);
	crowd_run(&crowd, receive_one, crowd_poll);
	CHECK(!fakernic_udestroy_srq(crowd.srq));
	CHECK(!fakernic_udealloc_pd(domain) && !fakernic_udealloc_td(td));
	world_end(&world);
}

/* A thread does not know the CQ of the channel's next event: no waiting. */
static void *take_events(void *argument)
{
	struct world *world = argument;
	int i;

	for (i = 0; i < POSTS; i++)
		fakernic_ucq_event(world->cq);
	return NULL;
}

static void thread_takes_events_of_an_unlocked_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_wc wc;
	pthread_t other;
	int i;

	world_extended(&world, &attr, 0);
	CHECK(!pthread_create(&other, NULL, take_events, &world));
	for (i = 0; i < COMMANDS; i++) {
		CHECK(!fakernic_uresize_cq(world.cq, i % 2 ? 20 : 600));
		CHECK(!fakernic_upoll_cq(world.cq, 1, &wc));
		CHECK(!fakernic_ureq_notify_cq(world.cq, 0));
		sched_yield();
	}
	pthread_join(other, NULL);
	world_end(&world);
}

/* Creates and destroys QPs of the polled CQ, which are in its table, too. */
static void *create_and_destroy(void *argument)
{
	struct crowd *crowd = argument;
	struct ibv_qp_cap cap = { .max_send_wr = 4 };
	struct ibv_qp *qp;
	int i;

	for (i = 0; i < COMMANDS; i++) {
		pthread_mutex_lock(&device);
		qp = world_qp(crowd->world, IBV_QPT_RC, &cap, 0, NULL);
		pthread_mutex_unlock(&device);
		sched_yield();
		pthread_mutex_lock(&device);
		CHECK(!fakernic_udestroy_qp(qp));
		pthread_mutex_unlock(&device);
	}
	return NULL;
}

static void threads_poll_a_cq_while_qps_change(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world, .command = create_and_destroy };

	crowd_run(&crowd, send_one, crowd_poll);
	world_end(&world);
}

static atomic_bool is_destroyed;

static void set_destroyed(void)
{
	atomic_store(&is_destroyed, true);
}

static void *destroy_one(void *qp)
{
	CHECK(!fakernic_udestroy_qp(qp));
	return NULL;
}

/*
 * A thread creates a QP between start_poll and end_poll. Another thread waits
 * for the same CQ, to destroy a QP.
 */
static void qp_can_be_created_during_a_poll(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64 };
	struct ibv_qp_cap cap = { .max_send_wr = 4 };
	struct ibv_poll_cq_attr poll = {};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct world world = world_of(IBV_QPT_RC);
	struct ibv_cq_ex *ex = world_extended(&world, &attr, 0);
	struct ibv_qp *qp, *other;
	pthread_t thread;
	int i;

	other = world_qp(&world, IBV_QPT_RC, &cap, 0, NULL);
	CHECK(!post(&world, &wr) && complete_send(&world, world.qp, 0));
	CHECK(!ex->start_poll(ex, &poll));
	model_on_destroy = set_destroyed;
	CHECK(!pthread_create(&thread, NULL, destroy_one, other));
	while (!atomic_load(&is_destroyed))
		sched_yield();
	for (i = 0; i < 1000; i++)
		sched_yield();
	qp = world_qp(&world, IBV_QPT_RC, &cap, 0, NULL);
	CHECK(qp);
	ex->end_poll(ex);
	pthread_join(thread, NULL);
	CHECK(!fakernic_udestroy_qp(qp));
	world_end(&world);
}

#define SLEEPERS	3
#define FLUSHED		200	/* sends of each thread, one at a time */

struct sleeper {
	struct world world;	/* with its own CQ and QP */
	pthread_t thread;
};

/* Each poll must return the request that was just posted. */
static void *flushed_at_once(void *argument)
{
	struct sleeper *sleeper = argument;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	for (wr.wr_id = 0; wr.wr_id < FLUSHED; wr.wr_id++) {
		CHECK(!post(&sleeper->world, &wr));
		CHECK(fakernic_upoll_cq(sleeper->world.cq, 1, &wc) == 1);
		CHECK(wc.wr_id == wr.wr_id && wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	return NULL;
}

/*
 * Threads use a dead device, each with its own CQ. Another thread creates and
 * destroys QPs.
 */
static void each_thread_gets_flush_at_first_poll(void)
{
	struct world world = world_of(IBV_QPT_RC);
	struct crowd crowd = { .world = &world };
	struct ibv_qp_cap cap = { .max_send_wr = 4 };
	struct sleeper sleepers[SLEEPERS];
	int i;

	for (i = 0; i < SLEEPERS; i++) {
		struct world *own = &sleepers[i].world;

		*own = world;
		own->cq = fakernic_ucreate_cq(own->pd->context, 8, NULL, 0);
		CHECK(own->cq);
		own->qp = world_qp(own, IBV_QPT_RC, &cap, 0, NULL);
	}
	atomic_store(&world.context->gone, true);
	for (i = 0; i < SLEEPERS; i++)
		CHECK(!pthread_create(&sleepers[i].thread, NULL,
				      flushed_at_once, &sleepers[i]));
	create_and_destroy(&crowd);
	for (i = 0; i < SLEEPERS; i++) {
		pthread_join(sleepers[i].thread, NULL);
		CHECK(!fakernic_udestroy_qp(sleepers[i].world.qp));
		CHECK(!fakernic_udestroy_cq(sleepers[i].world.cq));
	}
	world_end(&world);
}

static const struct test_case cases[] = {
	CASE(threads_post_to_a_qp_and_poll_its_cq),
	CASE(threads_post_receives_to_a_qp),
	CASE(threads_use_extended_posts_and_polls),
	CASE(threads_poll_a_cq_during_resize),
	CASE(threads_post_to_an_srq_during_resize),
	CASE(thread_domain_allows_one_posting_thread),
	CASE(thread_takes_events_of_an_unlocked_cq),
	CASE(threads_poll_a_cq_while_qps_change),
	CASE(qp_can_be_created_during_a_poll),
	CASE(each_thread_gets_flush_at_first_poll),
};

int main(void)
{
	printf("1..%d\n", run_cases(cases, ARRAY_SIZE(cases), 0));
	return 0;
}
