/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's clock as a PTP hardware clock.
 */
#ifndef FAKERNIC_DRIVER_PTP_H
#define FAKERNIC_DRIVER_PTP_H

struct fakernic_dev;

/*
 * Sets wall_offset_ns and registers the clock. A failure is only logged,
 * because nothing else needs the clock.
 */
void fakernic_ptp_add(struct fakernic_dev *dev);

/* Unregisters it, if there is one. */
void fakernic_ptp_remove(struct fakernic_dev *dev);

#endif
