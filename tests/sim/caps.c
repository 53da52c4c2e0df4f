/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One table of the capabilities of the engine under test, found by trying.
 *
 * A missing required capability fails the run. Without an optional one the run
 * leaves out that part of the workload and prints so. When the engine gets a
 * capability, its row becomes required.
 */
#include <stdio.h>

#include "sim.h"

SimCapInfo sim_caps[SIM_CAP_COUNT] = {
    [SIM_CAP_RC] = { "RC", true, false },
    [SIM_CAP_UD] = { "UD", true, false },
    [SIM_CAP_GSI] = { "GSI", true, false },
    [SIM_CAP_UC] = { "UC", true, false },
    [SIM_CAP_ATOMIC] = { "ATOMIC", true, false },
    [SIM_CAP_ATOMIC_MASKED] = { "ATOMIC_MASKED", true, false },
    [SIM_CAP_ATOMIC_WRITE] = { "ATOMIC_WRITE", true, false },
    [SIM_CAP_NOP] = { "NOP", true, false },
    [SIM_CAP_FAST_REG] = { "FAST_REG", true, false },
    [SIM_CAP_MW] = { "MW", true, false },
    [SIM_CAP_XRC] = { "XRC", true, false },
    [SIM_CAP_FLUSH] = { "FLUSH", true, false },
};

static void options_plain(SimOptions *o)
{
#define SET_DEFAULT(name, value) o->name = value;
    SIM_OPTIONS(SET_DEFAULT)
#undef SET_DEFAULT
    o->timeout = 8;
    o->harsh = 1;
}

static bool can_create(uint8_t type)
{
    SimOptions o;
    World *w;
    RoceQpInit init = { .type = type, .has_sq = true, .has_rq = true,
                        .pd = SIM_PD, .send_cqn = 1, .recv_cqn = 1 };
    uint32_t qpn;
    bool ok;

    options_plain(&o);
    w = world_new(&o, 1);
    ok = roce_qp_create(w->host[0]->roce, &init, &qpn) == FAKERNIC_CMD_OK;
    world_free(w);
    return ok;
}

/* Creates a key of either kind. */
static bool can_have_key(bool window)
{
    SimOptions o;
    World *w;
    RoceMrInit init = { .type = FAKERNIC_MR_FAST_REG, .pd = SIM_PD,
                        .page_count = 4 };
    uint32_t key;
    bool ok;

    options_plain(&o);
    w = world_new(&o, 1);
    ok = (window ? roce_mw_create(w->host[0]->roce, FAKERNIC_MW_TYPE_2B, 1,
                                  SIM_PD, &key)
                 : roce_mr_create(w->host[0]->roce, &init, &key)) ==
         FAKERNIC_CMD_OK;
    world_free(w);
    return ok;
}

/* Sends one request between two correct hosts. Returns whether it succeeds. */
static bool can_send(uint8_t type, uint8_t opcode)
{
    SimOptions o;
    World *w;
    SimConn *conn;
    bool ok;

    options_plain(&o);
    w = world_new(&o, 1);
    conn = workload_connect(w, 0, 1, type);
    workload_add_send(conn->side[0], opcode, 8, FAKERNIC_SQ_SIGNALED);
    workload_finish(w);
    host_post_send(conn->side[0], 1);
    ok = world_run(w, SEC, model_all_done) &&
         conn->side[0]->send[0].done == SIM_OK;
    world_free(w);
    return ok;
}

bool sim_caps_probe(void)
{
    bool all = true;

    sim_caps[SIM_CAP_RC].present = can_create(FAKERNIC_QP_RC);
    sim_caps[SIM_CAP_UD].present = can_create(FAKERNIC_QP_UD);
    sim_caps[SIM_CAP_GSI].present = can_create(FAKERNIC_QP_GSI);
    sim_caps[SIM_CAP_UC].present = can_create(FAKERNIC_QP_UC);
    sim_caps[SIM_CAP_FAST_REG].present = can_have_key(false);
    sim_caps[SIM_CAP_MW].present = can_have_key(true);
    if (sim_caps[SIM_CAP_RC].present) {
        sim_caps[SIM_CAP_ATOMIC].present =
            can_send(FAKERNIC_QP_RC, FAKERNIC_SQ_ATOMIC_CMP_SWAP) &&
            can_send(FAKERNIC_QP_RC, FAKERNIC_SQ_ATOMIC_FETCH_ADD);
        sim_caps[SIM_CAP_ATOMIC_MASKED].present =
            can_send(FAKERNIC_QP_RC, FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP) &&
            can_send(FAKERNIC_QP_RC, FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD);
        sim_caps[SIM_CAP_ATOMIC_WRITE].present =
            can_send(FAKERNIC_QP_RC, FAKERNIC_SQ_ATOMIC_WRITE);
        sim_caps[SIM_CAP_FLUSH].present = can_send(FAKERNIC_QP_RC,
                                                   FAKERNIC_SQ_FLUSH);
        sim_caps[SIM_CAP_XRC].present = can_send(FAKERNIC_QP_XRC_INI,
                                                 FAKERNIC_SQ_RDMA_WRITE);
        sim_caps[SIM_CAP_NOP].present = can_send(FAKERNIC_QP_RC,
                                                 FAKERNIC_SQ_NOP);
    }
    for (unsigned i = 0; i < SIM_CAP_COUNT; i++) {
        if (!sim_caps[i].present) {
            printf("# the engine has no %s%s\n", sim_caps[i].name,
                   sim_caps[i].required ? ", which is required" : "");
            all = all && !sim_caps[i].required;
        }
    }
    return all;
}
