/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rates: converts attribute values and CNPs to kbit/s and wire times. DCQCN's
 * steps are those of its paper. A QP that has returned to its link's rate is
 * no longer limited and costs nothing. There is no floating point: alpha is a
 * fraction of 2^20.
 */
#include "rate.h"

#include "stream.h"

/* enum ibv_rate, by number: 0 and 1 are "as fast as the port". */
static const uint32_t roce_rate_table[] = {
    [2] = 2500000,
    [3] = 10000000,
    [4] = 30000000,
    [5] = 5000000,
    [6] = 20000000,
    [7] = 40000000,
    [8] = 60000000,
    [9] = 80000000,
    [10] = 120000000,
    [11] = 14062500,
    [12] = 56250000,
    [13] = 112500000,
    [14] = 168750000,
    [15] = 25781250,
    [16] = 103125000,
    [17] = 206250000,
    [18] = 309375000,
    [19] = 28125000,
    [20] = 53125000,
    [21] = 425000000,
    [22] = 637500000,
    [23] = 850000000,
    [24] = 1275000000,
};

uint32_t roce_rate_static_kbps(uint8_t static_rate)
{
    return static_rate < sizeof(roce_rate_table) / sizeof(roce_rate_table[0])
               ? roce_rate_table[static_rate] : 0;
}

RoceTime roce_rate_cost_ns(size_t len, uint32_t kbps)
{
    return (RoceTime)(((uint64_t)len * 8000000 + kbps - 1) / kbps);
}

/* ---- DCQCN --------------------------------------------------------------- */

void roce_dcqcn_init(RoceDcqcn *d)
{
    *d = (RoceDcqcn) {
        .alpha = ROCE_DCQCN_ONE,
        .alpha_at = ROCE_TIME_NEVER,
        .increase_at = ROCE_TIME_NEVER,
    };
}

/*
 * Increases the rate by one step of the timer or byte counter (the paper's
 * figure 7).
 */
static void roce_dcqcn_increase(RoceDcqcn *d, uint32_t link_kbps)
{
    uint8_t most = d->time_steps > d->byte_steps ? d->time_steps
                                                 : d->byte_steps;
    uint8_t least = d->time_steps < d->byte_steps ? d->time_steps
                                                  : d->byte_steps;
    uint64_t target = d->target_kbps;

    if (least > ROCE_DCQCN_RECOVERY_STEPS) {
        target += ROCE_DCQCN_HYPER_KBPS;
    } else if (most >= ROCE_DCQCN_RECOVERY_STEPS) {
        target += ROCE_DCQCN_ADDITIVE_KBPS;
    }
    d->target_kbps = target < link_kbps ? (uint32_t)target : link_kbps;
    d->rate_kbps = (uint32_t)(((uint64_t)d->target_kbps + d->rate_kbps + 1) /
                              2);
    if (d->rate_kbps >= link_kbps) {
        d->rate_kbps = 0;
        d->increase_at = ROCE_TIME_NEVER;
    }
}

static void roce_dcqcn_step(uint8_t *steps)
{
    if (*steps < UINT8_MAX) {
        ++*steps;
    }
}

/* Advances the timers to 'now'. */
static void roce_dcqcn_advance(RoceDcqcn *d, RoceTime now, uint32_t link_kbps)
{
    while (d->alpha_at <= now) {
        /* Rounded up, so that alpha reaches zero and the loop ends. */
        d->alpha -= (d->alpha + (1u << ROCE_DCQCN_GAIN_SHIFT) - 1) >>
                    ROCE_DCQCN_GAIN_SHIFT;
        d->alpha_at = d->alpha > 0 ? d->alpha_at + ROCE_DCQCN_ALPHA_NS
                                   : ROCE_TIME_NEVER;
    }
    while (d->increase_at <= now) {
        d->increase_at += ROCE_DCQCN_INCREASE_NS;
        roce_dcqcn_step(&d->time_steps);
        roce_dcqcn_increase(d, link_kbps);
    }
}

bool roce_dcqcn_notified(RoceDcqcn *d, RoceTime now, uint32_t link_kbps)
{
    roce_dcqcn_advance(d, now, link_kbps);
    if (now < d->cut_at) {
        return false;
    }
    if (d->rate_kbps == 0) {
        d->rate_kbps = link_kbps;
    }
    d->target_kbps = d->rate_kbps;
    d->rate_kbps -= (uint32_t)((uint64_t)d->rate_kbps * d->alpha /
                               (2 * ROCE_DCQCN_ONE));
    if (d->rate_kbps < ROCE_DCQCN_MIN_KBPS) {
        d->rate_kbps = ROCE_DCQCN_MIN_KBPS;
    }
    d->alpha += (ROCE_DCQCN_ONE - d->alpha) >> ROCE_DCQCN_GAIN_SHIFT;
    d->alpha_at = now + ROCE_DCQCN_ALPHA_NS;
    d->increase_at = now + ROCE_DCQCN_INCREASE_NS;
    d->cut_at = now + ROCE_DCQCN_CUT_NS;
    d->bytes_left = ROCE_DCQCN_INCREASE_BYTES;
    d->time_steps = d->byte_steps = 0;
    return true;
}

uint32_t roce_dcqcn_rate(RoceDcqcn *d, RoceTime now, uint32_t link_kbps)
{
    if (d->rate_kbps != 0) {
        roce_dcqcn_advance(d, now, link_kbps);
    }
    return d->rate_kbps;
}

void roce_dcqcn_sent(RoceDcqcn *d, size_t len, uint32_t link_kbps)
{
    if (d->rate_kbps == 0) {
        return;
    }
    if (len < d->bytes_left) {
        d->bytes_left -= len;
        return;
    }
    d->bytes_left = ROCE_DCQCN_INCREASE_BYTES;
    roce_dcqcn_step(&d->byte_steps);
    roce_dcqcn_increase(d, link_kbps);
}

void roce_dcqcn_transfer(RoceStream *s, RoceDcqcn *d)
{
    ROCE_FIELD(s, d->rate_kbps);
    ROCE_FIELD(s, d->target_kbps);
    ROCE_FIELD(s, d->alpha);
    roce_stream_time(s, &d->alpha_at);
    roce_stream_time(s, &d->increase_at);
    roce_stream_time(s, &d->cut_at);
    ROCE_FIELD(s, d->bytes_left);
    ROCE_FIELD(s, d->time_steps);
    ROCE_FIELD(s, d->byte_steps);
    ROCE_CHECK(s, d->alpha <= ROCE_DCQCN_ONE, "DCQCN alpha");
}
