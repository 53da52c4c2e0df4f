/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface of QMP commands and events (../qmp) to the device, in addition
 * to its properties. They include no other header of the device.
 */
#ifndef FAKERNIC_DEVICE_WATCH_QMP_H
#define FAKERNIC_DEVICE_WATCH_QMP_H

#include "../../fault/rules.h"

/* The first hits of each rule are reported, whatever other rules have hit. */
#define FAKERNIC_REPORT_FIRST 16

/*
 * Called for each hit of a fault rule, unless NULL. It is fast and is not
 * charged to a budget.
 */
extern void (*fakernic_on_fault_hit)(Object *device, const RoceFaultRule *rule,
                                     const RoceFaultSubject *subject);

/*
 * The value of an object property for 'count' objects from index 'from' on; the
 * caller frees it. NULL: 'count' is 0. Ignores, and does not change, the range
 * that the property is set to.
 */
char *fakernic_ask_objects(Object *device, const char *property, uint32_t from,
                           uint32_t count, Error **errp);

/* The value of x-ring for these words, in the same way. */
char *fakernic_ask_ring(Object *device, const char *words, Error **errp);

#endif
