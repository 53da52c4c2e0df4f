/* SPDX-License-Identifier: GPL-2.0-only */
/* Why the driver considers the device dead. */
#ifndef FAKERNIC_DRIVER_DEATH_H
#define FAKERNIC_DRIVER_DEATH_H

enum fakernic_death {
	FAKERNIC_DEATH_NONE,		/* alive, or stopped by the driver */
	FAKERNIC_DEATH_ABSENT,		/* does not answer on the bus */
	FAKERNIC_DEATH_FATAL,		/* the device reports FATAL */
	FAKERNIC_DEATH_RESET,		/* not reset by the driver */
	FAKERNIC_DEATH_BUS,		/* AER reports a bus error */
	FAKERNIC_DEATH_BRING_UP,	/* does not come up */
	FAKERNIC_DEATH_TIMEOUT,		/* a command timed out */
	FAKERNIC_DEATH_INVALID_ANSWER,	/* completion or object number */
	FAKERNIC_DEATH_NOT_RELEASED,	/* keeps an object or page */
};

#endif
