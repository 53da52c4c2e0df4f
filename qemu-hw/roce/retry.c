/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Retry arithmetic: attribute values in, nanoseconds and decisions out
 * (IBTA 9.7.5.2.8, 9.7.6.1.3). It keeps no state and reads no clock.
 */
#include "retry.h"

/* Table 45 in units of 10 us; value 0 is the longest wait. */
static const uint32_t roce_rnr_10us[32] = {
    65536, 1, 2, 3, 4, 6, 8, 12,
    16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

RoceTime roce_retry_rnr_ns(uint8_t timer)
{
    return (RoceTime)roce_rnr_10us[timer & 31] * 10000;
}

/*
 * A peer in an emulator may be descheduled for tens of milliseconds without a
 * frame being lost, and answering its silence with retransmissions makes it
 * slower still. The specification lets the wait be up to four times the
 * attribute's; short ones use that, as far as the floor.
 */
RoceTime roce_retry_ack_ns(uint8_t timeout)
{
    RoceTime base;

    timeout &= 31;
    if (timeout == 0) {
        return ROCE_TIME_NEVER;
    }
    base = (RoceTime)4096 << timeout;
    if (base >= ROCE_ACK_WAIT_FLOOR_NS) {
        return base;
    }
    return base * 4 < ROCE_ACK_WAIT_FLOOR_NS ? base * 4
                                             : ROCE_ACK_WAIT_FLOOR_NS;
}

bool roce_retry_take(uint8_t *left)
{
    if (*left == 0) {
        return false;
    }
    --*left;
    return true;
}

bool roce_retry_take_rnr(uint8_t *left, uint8_t limit)
{
    return limit == ROCE_RNR_RETRY_FOREVER || roce_retry_take(left);
}
