/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of the device: when it runs, how it dies, how it begins anew.
 */
#ifndef FAKERNIC_DEVICE_LIFE_H
#define FAKERNIC_DEVICE_LIFE_H

#include "state.h"

/* Enabled, and not dead: only then does it work, interrupt and send. */
static inline bool fakernic_is_running(const FakernicState *s)
{
    return (s->status & (FAKERNIC_STATUS_ENABLED | FAKERNIC_STATUS_FATAL)) ==
           FAKERNIC_STATUS_ENABLED;
}

/* The device is dead until it is reset: STATUS, an event, vector 0. */
void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code);

/* Power-on, FLR, secondary bus reset and CONTROL.RESET all end here. */
void fakernic_reset(FakernicState *s);

#endif
