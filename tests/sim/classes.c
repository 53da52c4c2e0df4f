/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kinds of histories: each draws its options from the seed. README.md describes
 * the classes.
 */
#include "sim.h"

static void draw_shape(SimOptions *o, Rng *r)
{
    o->hosts = rng_pct(r, 70) ? 2 : rng_pct(r, 10) ? 1 : rng_range(r, 3, 8);
    o->wrap = 1;
    o->conns = rng_range(r, 1, rng_pct(r, 70) ? 2 : 5);
    o->loopback_pct = rng_pct(r, 20) ? 50 : 0;
    o->sends = rng_range(r, 1, 24);
    o->max_size = rng_pct(r, 6) ? 65536 : rng_pct(r, 50) ? 8192 : 2048;
    o->max_sends = 1u << rng_range(r, 0, 6);
    o->vlan_pct = rng_pct(r, 20) ? 50 : 0;
    o->delay_ns = rng_range(r, 0, 20000);
    o->jitter_ns = rng_pct(r, 30) ? rng_range(r, 0, 20000) : 0;
    o->rate_mbps = rng_pct(r, 40) ? rng_range(r, 1000, 40000) : 0;
    o->tx_burst = rng_pct(r, 50) ? rng_range(r, 1, 4) : 0;
    o->tick_late_ns = rng_pct(r, 30) ? rng_range(r, 0, 500000) : 0;
    o->post_gap_us = rng_pct(r, 50) ? rng_range(r, 0, 5)
                                    : rng_range(r, 5, 200);
    o->rd_atomic = rng_pct(r, 40) ? 1 : rng_range(r, 1, 16);
    o->unsignaled_pct = rng_pct(r, 60) ? rng_range(r, 0, 90) : 0;
    o->fence_pct = rng_pct(r, 40) ? rng_range(r, 0, 60) : 0;
    o->srq_pct = rng_pct(r, 15) ? 60 : 0;
    o->pad_ppm = rng_pct(r, 20) ? 300000 : 0;
    if (rng_pct(r, 20)) {
        o->send_weight = rng_range(r, 0, 4) + 1;
        o->read_weight = rng_range(r, 0, 8);
        o->write_weight = rng_range(r, 0, 4);
        o->atomic_weight = rng_range(r, 0, 8);
    }
    o->lease_pct = rng_pct(r, 20) ? rng_range(r, 5, 50) : 0;
    o->grant_pct = rng_pct(r, 20) ? rng_range(r, 5, 40) : 0;
    o->xrc_pct = rng_pct(r, 20) ? rng_range(r, 20, 100) : 0;
    o->flush_pct = rng_pct(r, 30) ? rng_range(r, 10, 60) : 0;
    o->apm_pct = rng_pct(r, 15) ? rng_range(r, 30, 100) : 0;
    o->migrate_pct = o->apm_pct && rng_pct(r, 70) ? 70 : 0;
    o->lives = rng_pct(r, 15) ? 2 : 1;
    o->ect_pct = rng_pct(r, 30) ? rng_range(r, 20, 100) : 0;
    o->ecn_ppm = o->ect_pct ? rng_range(r, 0, 300000) : 0;
    o->nop_pct = rng_pct(r, 20) ? rng_range(r, 1, 40) : 0;
    o->pause_pct = rng_pct(r, 20) ? 60 : 0;
    if (rng_pct(r, 15)) {
        o->static_rate_pct = rng_range(r, 0, 100);
        o->limit_pct = rng_range(r, 0, 100);
        o->limit_mbps = rng_range(r, 100, 2000);
    }
    o->timeout = 18;
}

/* The host answers page requests, early enough that no READ times out. */
void class_paging(SimOptions *o, Rng *r)
{
    uint32_t timeout_us = 4u << o->timeout;

    o->odp_pct = rng_range(r, 20, 100);
    o->implicit_pct = rng_pct(r, 50) ? rng_range(r, 10, 100) : 0;
    o->odp_wait_us = rng_range(r, 0, rng_pct(r, 30) ? 2000 : 100);
    if (o->odp_wait_us > timeout_us / 3) {
        o->odp_wait_us = timeout_us / 3;
    }
    o->odp_churn = rng_pct(r, 70) ? rng_range(r, 1, 60) : 0;
    o->odp_chunks = rng_pct(r, 30) ? 8 * o->conns + rng_range(r, 8, 16)
                                   : 0;
    o->odp_list = rng_pct(r, 30) ? rng_range(r, 1, 4) : 0;
}

/* Switches mark, and QPs slow down. */
static void draw_congested(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->dcqcn = 1;
    o->ecn_ppm = rng_range(r, 1000, rng_pct(r, 30) ? 900000 : 100000);
    o->rate_mbps = rng_range(r, 1000, 40000);
    o->timeout = rng_range(r, 18, 20);
    if (rng_pct(r, 40)) {
        o->conns = rng_range(r, 1, 3);
        o->sends = rng_range(r, 1, 4);
        o->max_size = rng_range(r, 50000, 300000);
    }
}

static void draw_faults(SimOptions *o, Rng *r)
{
    o->faults_ms = rng_range(r, 1, 200);
    o->timeout = rng_range(r, 7, 12);
    o->loss_ppm = rng_pct(r, 70) ? rng_range(r, 0, rng_pct(r, 20) ? 300000
                                                                  : 80000) : 0;
    if (rng_pct(r, 20)) {
        o->burst_ppm = rng_range(r, 1000, 20000);
        o->burst_len = rng_range(r, 1, 20);
    }
    o->dup_ppm = rng_pct(r, 50) ? rng_range(r, 0, 200000) : 0;
    if (rng_pct(r, 50)) {
        o->reorder_ppm = rng_range(r, 0, 200000);
        o->reorder_us = rng_range(r, 1, rng_pct(r, 20) ? 2000 : 100);
    }
    o->corrupt_ppm = rng_pct(r, 40) ? rng_range(r, 0, 60000) : 0;
    o->truncate_ppm = rng_pct(r, 30) ? rng_range(r, 0, 40000) : 0;
    if (rng_pct(r, 15)) {
        o->flap_ppm = rng_range(r, 1000, 20000);
        o->flap_us = rng_range(r, 10, 20000);
    }
}

/* Paths fail, and connections migrate to the other one. */
static void draw_migration(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->timeout = rng_range(r, 10, 14);
    if (rng_pct(r, 50)) {
        draw_faults(o, r);
    }
    o->apm_pct = rng_range(r, 50, 100);
    o->migrate_pct = rng_range(r, 50, 100);
}

static void draw_rnr(SimOptions *o, Rng *r)
{
    o->late_recv_pct = rng_range(r, 30, 100);
    o->late_recv_us = rng_range(r, 10, 5000);
    o->rnr_timer = rng_range(r, 1, 12);
}

static void draw_clean(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
}

static void draw_lossy(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
}

static void draw_rnr_clean(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_rnr(o, r);
}

static void draw_rnr_lossy(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
    draw_rnr(o, r);
}

static void draw_datagram(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_below(r, 2);
    o->datagrams = rng_range(r, 1, 60);
    o->gsi_pct = rng_pct(r, 30) ? 60 : 0;
    o->groups = rng_pct(r, 50) ? rng_range(r, 1, SIM_GROUPS) : 0;
    o->raw = rng_pct(r, 30) ? rng_range(r, 1, 30) : 0;
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
        o->ud_no_recv_pct = rng_pct(r, 50) ? rng_below(r, 60) : 0;
    }
    o->error_pct = rng_pct(r, 30) ? 50 : 0;
    o->lives = rng_range(r, 1, 2);
}

static void draw_errors(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->error_pct = 90;
    o->timeout = 12;
}

static void draw_errors_lossy(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
    if (rng_pct(r, 30)) {
        draw_rnr(o, r);
    }
    o->error_pct = 90;
}

static void draw_teardown(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
    }
    if (rng_pct(r, 30)) {
        draw_rnr(o, r);
    }
    o->timeout = rng_range(r, 7, 12);
    o->inject_pct = 80;
    o->reborn_pct = rng_pct(r, 40) ? 60 : 0;
}

static void draw_harsh(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
    draw_rnr(o, r);
    o->harsh = 1;
    o->mercy = 0;
    o->retry_cnt = rng_range(r, 0, 3);
    o->rnr_retry = rng_range(r, 0, 6);
    if (rng_pct(r, 30)) {
        o->error_pct = 50;
    }
}

/* Long messages fill windows and request ACKs in their middle. */
static void draw_bulk(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_range(r, 1, 2);
    o->sends = rng_range(r, 1, 4);
    o->max_size = rng_range(r, 100000, 1000000);
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
        o->loss_ppm /= 10;
        o->reorder_ppm /= 10;
        o->burst_ppm /= 10;
        /* Longer than a message takes on the slowest wire here. Otherwise
         * the requester would repeat packets that are not lost. */
        o->timeout = rng_range(r, 13, 16);
    }
}

/* Many QPs share the wire. */
static void draw_crowd(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_range(r, 10, SIM_CONNS / 2);
    o->sends = rng_range(r, 1, 8);
    o->max_size = 4096;
    o->lease_pct = o->grant_pct = 0;
    if (rng_pct(r, 50)) {
        draw_faults(o, r);
    }
}

static void draw_uc(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->uc_pct = 80;
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
    }
}

/* Frames of the old life are in flight when the next one begins. */
static void draw_reborn(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    if (rng_pct(r, 70)) {
        draw_faults(o, r);
    }
    if (rng_pct(r, 20)) {
        draw_rnr(o, r);
    }
    o->timeout = rng_range(r, 7, 12);
    o->reborn_pct = 80;
}

/* Everything at once: services, operations, hosts and faults. */
static void draw_mixed(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->hosts = rng_range(r, 2, 8);
    o->conns = rng_range(r, 1, 8);
    o->sends = rng_range(r, 1, 16);
    o->uc_pct = rng_range(r, 0, 40);
    o->xrc_pct = rng_range(r, 0, 40);
    o->flush_pct = rng_range(r, 0, 30);
    o->srq_pct = rng_range(r, 0, 60);
    o->datagrams = rng_range(r, 1, 20);
    o->gsi_pct = rng_range(r, 0, 40);
    o->groups = rng_below(r, SIM_GROUPS + 1);
    o->raw = rng_below(r, 20);
    o->lease_pct = rng_range(r, 0, 30);
    o->grant_pct = rng_range(r, 0, 30);
    o->loopback_pct = rng_range(r, 0, 30);
    o->pause_pct = rng_range(r, 0, 40);
    o->ect_pct = rng_range(r, 0, 100);
    o->ecn_ppm = rng_range(r, 0, 300000);
    o->dcqcn = rng_pct(r, 30);
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
        o->ud_no_recv_pct = rng_pct(r, 30) ? rng_below(r, 60) : 0;
    }
    if (rng_pct(r, 20)) {
        draw_rnr(o, r);
    }
    if (rng_pct(r, 30)) {
        o->timeout = rng_range(r, 7, 12);
        o->inject_pct = rng_range(r, 0, 60);
        o->reborn_pct = rng_range(r, 0, 60);
    } else if (rng_pct(r, 30)) {
        o->error_pct = rng_range(r, 0, 90);
    }
}

static void draw_paged(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    if (rng_pct(r, 50)) {
        draw_faults(o, r);
    }
    if (rng_pct(r, 20)) {
        draw_rnr(o, r);
    }
    if (rng_pct(r, 20)) {
        o->uc_pct = rng_range(r, 0, 50);
        o->datagrams = rng_range(r, 1, 20);
    }
    o->error_pct = rng_pct(r, 20) ? 50 : 0;
    class_paging(o, r);
}

static void draw_hostile(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    if (rng_pct(r, 50)) {
        draw_faults(o, r);
    }
    if (rng_pct(r, 30)) {
        draw_rnr(o, r);
    }
    o->faults_ms = rng_range(r, 1, 200);
    o->timeout = rng_range(r, 7, 12);
    o->datagrams = rng_below(r, 10);
    o->uc_pct = 20;
    o->harsh = 1;
    o->retry_cnt = rng_range(r, 0, 7);
    o->lease_pct = o->grant_pct = 0;
    o->hostile_ppm = rng_range(r, 1000, 300000);
}

/* One tenant has a clean link, the other one is hostile. */
static void draw_tenants(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_range(r, 1, 3);
    o->hosts = rng_range(r, 1, 3);
    o->lives = 1;
    o->dcqcn = 0;
    /* world.c would defer a late timer while a host is never idle. */
    o->tick_late_ns = 0;
    o->apm_pct = o->migrate_pct = 0;
    o->static_rate_pct = o->limit_pct = o->limit_mbps = 0;
    o->lease_pct = rng_range(r, 0, 30);
    o->grant_pct = rng_range(r, 0, 30);
    o->rate_mbps = rng_pct(r, 30) ? rng_range(r, 10000, 40000) : 0;
    o->tenants = rng_range(r, 2, 30);
    o->post_gap_us = rng_range(r, 5, 100);
    class_paging(o, r);
    o->odp_pct = rng_pct(r, 60) ? o->odp_pct : 1;
    /* A share of these chunks is more than the first tenant uses. */
    o->odp_chunks = 512;
    o->odp_list = rng_range(r, 1, 4);
}

/* A history of another class, in which engines are saved, freed and loaded. */
static void draw_migrated(SimOptions *o, Rng *r)
{
    sim_classes[rng_below(r, sim_class_count - 1)].draw(o, r);
    o->save_every = rng_range(r, 1, 60);
}

const SimClass sim_classes[] = {
    { "clean", draw_clean },
    { "lossy", draw_lossy },
    { "rnr", draw_rnr_clean },
    { "rnr-lossy", draw_rnr_lossy },
    { "datagram", draw_datagram },
    { "errors", draw_errors },
    { "errors-lossy", draw_errors_lossy },
    { "teardown", draw_teardown },
    { "reborn", draw_reborn },
    { "harsh", draw_harsh },
    { "bulk", draw_bulk },
    { "crowd", draw_crowd },
    { "uc", draw_uc },
    { "congested", draw_congested },
    { "migration", draw_migration },
    { "mixed", draw_mixed },
    { "hostile", draw_hostile },
    { "paged", draw_paged },
    { "tenants", draw_tenants },
    { "migrated", draw_migrated },      /* the last: see draw_migrated() */
};
const unsigned sim_class_count = sizeof(sim_classes) / sizeof(sim_classes[0]);
