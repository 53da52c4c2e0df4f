/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by all cases: a small world (context, PD, CQ, QP) above the model, and
 * an assertion that prints its line and ends the program without "ok".
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define CHECK(condition)						\
	do {								\
		if (!(condition)) {					\
			printf("# %s:%d: %s\n", __FILE__, __LINE__,	\
			       #condition);				\
			printf("not ok - seed %u\n", seed);		\
			exit(1);					\
		}							\
	} while (0)

struct world {
	struct fakernic_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;
	struct fakernic_ah ah;
};

struct test_case {
	const char *name;
	void (*run)(void);
};
#define CASE(name)	{ #name, name }

extern const struct test_case data_cases[], verbs_cases[], wq_cases[];
extern const unsigned int data_case_count, verbs_case_count, wq_case_count;

/* Runs all cases, numbered from number + 1 on. Returns the last number. */
int run_cases(const struct test_case *cases, unsigned int count, int number);

extern unsigned int seed;

/* A random number below limit. */
unsigned int below(unsigned int limit);

struct world world_with(enum ibv_qp_type type, struct ibv_qp_cap cap);
struct world world_of(enum ibv_qp_type type);
void world_end(struct world *world);
/* Another QP of the world, ready to send. */
struct ibv_qp *world_qp(struct world *world, enum ibv_qp_type type,
			struct ibv_qp_cap *cap, uint64_t send_ops,
			struct ibv_srq *srq);

/* Replaces the world's CQ by an extended one, and its QP by a new RC QP. */
struct ibv_cq_ex *world_extended(struct world *world,
				 struct ibv_cq_init_attr_ex *attr,
				 uint64_t send_ops);

int post(struct world *world, struct ibv_send_wr *wr);
/* Posts a send or receive, which the device takes. Returns its index or tag. */
uint32_t world_send(struct world *world);
uint32_t world_receive(struct world *world);
/* The device takes the next receive. Returns its tag. */
uint32_t next_tag(struct model_ring *ring);
bool complete_send(struct world *world, struct ibv_qp *qp, uint32_t index);

#endif
