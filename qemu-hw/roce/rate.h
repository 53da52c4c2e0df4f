/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Send rates of a QP: the rates of address vectors, and DCQCN's reaction point
 * (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM
 * 2015, section 3 and its figure 7).
 *
 * The functions use integers and nanoseconds, and depend only on their
 * arguments. DCQCN's timers are advanced to 'now' at each call, so no timer
 * has to run.
 */
#ifndef ROCE_RATE_H
#define ROCE_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce.h"

/* Rate of an enum ibv_rate in kbit/s; 0: no limit, also for unknown values. */
uint32_t roce_rate_static_kbps(uint8_t static_rate);

/* Time of a frame on the wire, rounded up. kbps is not 0. */
RoceTime roce_rate_cost_ns(size_t len, uint32_t kbps);

/* ---- DCQCN --------------------------------------------------------------- */

/*
 * alpha, the congestion estimate: 1.0 is ROCE_DCQCN_ONE; its gain g is 1/256.
 */
#define ROCE_DCQCN_ONE 0x100000u
#define ROCE_DCQCN_GAIN_SHIFT 8
/* Without CNPs, alpha decays at this interval. */
#define ROCE_DCQCN_ALPHA_NS 55000
/* CNPs within this time cut the rate only once. */
#define ROCE_DCQCN_CUT_NS 4000
/* The rate increases by one step after this time, and after this many bytes. */
#define ROCE_DCQCN_INCREASE_NS 55000
#define ROCE_DCQCN_INCREASE_BYTES 10000000
/* Steps of fast recovery before the target grows. */
#define ROCE_DCQCN_RECOVERY_STEPS 5
#define ROCE_DCQCN_ADDITIVE_KBPS 40000
#define ROCE_DCQCN_HYPER_KBPS 400000
#define ROCE_DCQCN_MIN_KBPS 10000
#define ROCE_DCQCN_LINK_KBPS 100000000

typedef struct RoceDcqcn {
    uint32_t rate_kbps;         /* current rate; 0: not limited */
    uint32_t target_kbps;
    uint32_t alpha;
    RoceTime alpha_at;          /* next decay */
    RoceTime increase_at;       /* next step of the timer */
    RoceTime cut_at;            /* earliest time of the next cut */
    uint64_t bytes_left;        /* until the next step of the byte counter */
    uint8_t time_steps, byte_steps;
} RoceDcqcn;

/* Sets no limit until the first CNP. */
void roce_dcqcn_init(RoceDcqcn *d);
/* Handles a received CNP. True: it cut the rate. */
bool roce_dcqcn_notified(RoceDcqcn *d, RoceTime now, uint32_t link_kbps);
/* The current rate; 0: no limit. */
uint32_t roce_dcqcn_rate(RoceDcqcn *d, RoceTime now, uint32_t link_kbps);
/* Counts a frame that was sent at the rate that roce_dcqcn_rate() returned. */
void roce_dcqcn_sent(RoceDcqcn *d, size_t len, uint32_t link_kbps);
/* Saves or loads it. */
void roce_dcqcn_transfer(RoceStream *s, RoceDcqcn *d);

#endif
