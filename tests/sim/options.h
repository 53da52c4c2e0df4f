/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that shapes a history besides its seed. Units in names: ppm = per
 * million (mostly of frames), pct = per cent. X(name, default).
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "rng.h"

#define SIM_OPTIONS(X) \
    /* which hosts are connected, by which service */ \
    X(hosts, 2) X(conns, 1) X(loopback_pct, 0) X(uc_pct, 0) X(xrc_pct, 0) \
    X(srq_pct, 0) X(datagrams, 0) X(gsi_pct, 0) X(groups, 0) X(raw, 0) \
    X(vlan_pct, 0) X(mtu, 0) X(max_sends, 16) X(rd_atomic, 4) \
    X(apm_pct, 0) X(psn, 0) X(wrap, 0) X(lives, 1) \
    /* what programs consist of */ \
    X(sends, 12) X(max_size, 8192) X(send_weight, 4) X(write_weight, 3) \
    X(read_weight, 3) X(atomic_weight, 2) X(flush_pct, 0) X(nop_pct, 0) \
    X(lease_pct, 0) X(grant_pct, 0) X(unsignaled_pct, 30) X(inline_pct, 20) \
    X(fence_pct, 15) X(solicited_pct, 20) X(error_pct, 0) \
    /* the link, always */ \
    X(delay_ns, 2000) X(jitter_ns, 0) X(rate_mbps, 0) X(pad_ppm, 0) \
    X(ecn_ppm, 0) X(tx_burst, 0) X(tick_late_ns, 0) \
    /* the link, for the first milliseconds; mercy: not to exhaustion */ \
    X(faults_ms, 0) X(mercy, 1) X(loss_ppm, 0) X(burst_ppm, 0) \
    X(burst_len, 0) X(dup_ppm, 0) X(reorder_ppm, 0) X(reorder_us, 0) \
    X(corrupt_ppm, 0) X(truncate_ppm, 0) X(flap_ppm, 0) X(flap_us, 0) \
    X(hostile_ppm, 0) \
    /* patience and rates; harsh: exhaustion is allowed */ \
    X(timeout, 14) X(retry_cnt, 7) X(rnr_retry, 7) X(rnr_timer, 6) \
    X(harsh, 0) X(ect_pct, 0) X(dcqcn, 0) X(static_rate_pct, 0) \
    X(limit_pct, 0) X(limit_mbps, 0) \
    /* when things happen */ \
    X(post_gap_us, 20) X(late_recv_pct, 0) X(late_recv_us, 500) \
    X(ud_no_recv_pct, 0) X(pause_pct, 0) X(inject_pct, 0) X(reborn_pct, 0) \
    X(migrate_pct, 0)     X(change_pct, 0) \
    /* regions with on-demand paging; zero limits: none that matter */ \
    X(odp_pct, 0) X(implicit_pct, 0) X(odp_wait_us, 20) X(odp_chunks, 0) \
    X(odp_list, 0) X(odp_churn, 0) \
    /* events between two saves of an engine, on average; 0: none */ \
    X(save_every, 0) \
    /* interval of a hostile tenant's actions in us; 0: no tenant */ \
    X(tenants, 0)

typedef struct SimOptions {
#define SIM_OPTION_FIELD(name, value) uint32_t name;
    SIM_OPTIONS(SIM_OPTION_FIELD)
#undef SIM_OPTION_FIELD
} SimOptions;

/* A class of histories (classes.c). */
typedef struct SimClass {
    const char *name;
    void (*draw)(SimOptions *o, Rng *r);
} SimClass;
/* Draws the options of on-demand paging after the others. */
void class_paging(SimOptions *o, Rng *r);
extern const SimClass sim_classes[];
extern const unsigned sim_class_count;

#endif
