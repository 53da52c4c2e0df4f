/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast a QP may send: the rates of address vectors, and DCQCN's reaction
 * point (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
 * SIGCOMM 2015, section 3 and its figure 7).
 *
 * Pure functions of their arguments, in integers and nanoseconds: DCQCN's
 * timers are brought up to 'now' whenever it is asked, so they wake nobody.
 */
#ifndef ROCE_RATE_H
#define ROCE_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce.h"

/* Kbit/s of an enum ibv_rate; 0: no limit, as for unknown numbers. */
uint32_t roce_rate_static_kbps(uint8_t static_rate);

/* The wire time of a frame, rounded up; kbps is not 0. */
RoceTime roce_rate_cost_ns(size_t len, uint32_t kbps);

/* ---- DCQCN --------------------------------------------------------------- */

/*
 * alpha, the congestion estimate: 1.0 is ROCE_DCQCN_ONE; its gain g is 1/256.
 */
#define ROCE_DCQCN_ONE 0x100000u
#define ROCE_DCQCN_GAIN_SHIFT 8
/* Without a CNP alpha decays once in this time. */
#define ROCE_DCQCN_ALPHA_NS 55000
/* CNPs closer together than this cut only once. */
#define ROCE_DCQCN_CUT_NS 4000
/* A step of increase comes of this time, and one of these bytes. */
#define ROCE_DCQCN_INCREASE_NS 55000
#define ROCE_DCQCN_INCREASE_BYTES 10000000
/* Steps of fast recovery before the target grows. */
#define ROCE_DCQCN_RECOVERY_STEPS 5
#define ROCE_DCQCN_ADDITIVE_KBPS 40000
#define ROCE_DCQCN_HYPER_KBPS 400000
#define ROCE_DCQCN_MIN_KBPS 10000
#define ROCE_DCQCN_LINK_KBPS 100000000

typedef struct RoceDcqcn {
    uint32_t rate_kbps;         /* current; 0: as fast as the link */
    uint32_t target_kbps;
    uint32_t alpha;
    RoceTime alpha_at;          /* next decay */
    RoceTime increase_at;       /* next step of the timer */
    RoceTime cut_at;            /* the next cut is not before this */
    uint64_t bytes_left;        /* to the next step of the byte counter */
    uint8_t time_steps, byte_steps;
} RoceDcqcn;

/* No limit, until the first CNP. */
void roce_dcqcn_init(RoceDcqcn *d);
/* A CNP came; true: it cut the rate. */
bool roce_dcqcn_notified(RoceDcqcn *d, RoceTime now, uint32_t link_kbps);
/* The rate now; 0: no limit. */
uint32_t roce_dcqcn_rate(RoceDcqcn *d, RoceTime now, uint32_t link_kbps);
/* A frame was sent at 'now', at the rate roce_dcqcn_rate() told. */
void roce_dcqcn_sent(RoceDcqcn *d, size_t len, uint32_t link_kbps);

#endif
