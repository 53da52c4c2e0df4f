/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named histories: sequences known to be hard, with constant faults. They are
 * in scenarios_*.c; this file has their common functions and main().
 */
#include <stdio.h>
#include <string.h>

#include "scenario.h"

World *w;
SimQp *a, *b;

/* ---- setting up ---------------------------------------------------------- */

void open_world(void (*change)(SimOptions *o))
{
    SimOptions o;
    SimConn *conn;

#define SET_DEFAULT(name, value) o.name = value;
    SIM_OPTIONS(SET_DEFAULT)
#undef SET_DEFAULT
    o.mtu = FAKERNIC_MTU_256;
    o.timeout = 8;              /* 1 ms */
    o.mercy = 0;
    o.psn = 0xfffffe;           /* wraps in every message */
    if (change) {
        change(&o);
    }
    w = world_new(&o, 1);
    conn = workload_connect(w, 0, o.hosts - 1, FAKERNIC_QP_RC);
    a = conn->side[0];
    b = conn->side[1];
}

void check(bool ok, const char *what)
{
    if (!ok) {
        world_fail(w, "expected: %s", what);
    }
}

uint64_t stat(unsigned host, unsigned number)
{
    return roce_stats(w->host[host]->roce)[number];
}

unsigned succeeded(void)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < a->send_count; i++) {
        count += a->send[i].done == SIM_OK;
    }
    return count;
}

bool never_stop(World *world)
{
    (void)world;
    return false;
}

uint64_t sent(unsigned host)
{
    return w->link.sent[host];
}

void post_all(void)
{
    workload_finish(w);
    host_post_recv(b->rq, UINT32_MAX);
    host_post_recv(a->rq, UINT32_MAX);
    host_post_send(a, UINT32_MAX);
    host_post_send(b, UINT32_MAX);
}

void run(void)
{
    post_all();
    world_history(w);
}

void add_send(uint32_t length)
{
    workload_add_send(a, FAKERNIC_SQ_SEND, length, SIGNALED);
    workload_add_recv(b->rq, length);
}

void add(uint8_t opcode, uint32_t length)
{
    workload_add_send(a, opcode, length, SIGNALED);
    if (opcode == FAKERNIC_SQ_RDMA_WRITE_IMM) {
        workload_add_recv(b->rq, 0);
    }
}

void plan(uint32_t index, SimError e)
{
    a->send[index].error = e;
    a->planned = (int32_t)index;
    b->planned_responder = true;
}

void aim_at(SimMr *mr)
{
    a->zone = mr;
    mr_shadow(mr);
}

static bool b_is_done(World *world)
{
    (void)world;
    return b->done == b->posted;
}

void post_b_and_wait(uint32_t count)
{
    host_post_send(b, count);
    world_run(w, w->now + 100 * MS, b_is_done);
    CHECK(b->done == b->posted);
}

/* ---- the program --------------------------------------------------------- */

static bool run_scenario(const Scenario *scenario, const char *program)
{
    bool ok;

    scenario->run();
    ok = !w->failed;
    if (!ok) {
        if (!sim_verbose) {
            world_print_log(w, 200);
        }
        printf("# %s\n# reproduce: %s %s --verbose\n", w->failure, program,
               scenario->name);
    }
    world_free(w);
    return ok;
}

int main(int argc, char **argv)
{
    const Scenario *lists[] = { scenarios_link, scenarios_queue,
                                scenarios_path, scenarios_paging };
    unsigned number = 0, failed = 0;

    if (argc > 2 && strcmp(argv[2], "--verbose") == 0) {
        sim_verbose = true;
    }
    if (!sim_caps_probe()) {
        printf("not ok 1 - sim: a required capability is missing\n1..1\n");
        return 1;
    }
    for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (const Scenario *s = lists[i]; s->name; s++) {
            bool ok;

            if (argc > 1 && strcmp(argv[1], s->name) != 0) {
                continue;
            }
            ok = run_scenario(s, argv[0]);
            failed += !ok;
            printf("%sok %u - sim scenario %s\n", ok ? "" : "not ", ++number,
                   s->name);
        }
    }
    printf("1..%u\n", number);
    return failed || !number;
}
