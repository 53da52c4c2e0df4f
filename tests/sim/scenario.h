/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by named histories. Host 0 has the requester a, the last host the
 * responder b. A bit of a fault mask is a frame of that host, counted from its
 * first one. With a path MTU of 256 bytes a message of 1024 bytes is frames
 * 0..3, and the responder's first frame is its first response. The oracle
 * checks completions, bytes and silence as in any history. A scenario adds
 * checks of its own.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "sim.h"

#define SIGNALED FAKERNIC_SQ_SIGNALED
#define FRAME(n) (1ull << (n))
#define REMOTE (FAKERNIC_ACCESS_REMOTE_WRITE | FAKERNIC_ACCESS_REMOTE_READ)

typedef struct Scenario {
    const char *name;
    void (*run)(void);
} Scenario;
#define S(name) { #name, name }

/* From scenarios_link.c and the others; each list ends with NULL. */
extern const Scenario scenarios_link[], scenarios_queue[], scenarios_path[],
    scenarios_paging[];

extern World *w;                /* the current scenario's */
extern SimQp *a, *b;

void open_world(void (*change)(SimOptions *o));
void check(bool ok, const char *what);
#define CHECK(condition) check(condition, #condition)
uint64_t stat(unsigned host, unsigned number);
#define STAT(host, name) stat(host, FAKERNIC_STAT_##name)
unsigned succeeded(void);       /* of a's sends */
bool never_stop(World *world);
uint64_t sent(unsigned host);   /* frames that the switch has counted */
void post_all(void);
void run(void);                 /* posts all, then runs the history */
void add_send(uint32_t length); /* and its receive */
void add(uint8_t opcode, uint32_t length);
void plan(uint32_t index, SimError e);
/* Requests of a address this region from now on. */
void aim_at(SimMr *mr);
void post_b_and_wait(uint32_t count);

#endif
