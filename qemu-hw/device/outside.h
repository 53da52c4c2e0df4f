/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QMP, where it knows the device (../qmp), has of it beside its
 * properties. It knows no header of the device but this.
 */
#ifndef FAKERNIC_DEVICE_OUTSIDE_H
#define FAKERNIC_DEVICE_OUTSIDE_H

#include "../roce/fault.h"

/* So many hits of each rule are told, however many others there were before. */
#define FAKERNIC_TOLD_FIRST 16

/*
 * Who else is told of each hit of a fault rule; NULL: nobody. It takes no time
 * worth a budget.
 */
extern void (*fakernic_told)(Object *device, const RoceFaultRule *rule,
                             const RoceFaultSubject *subject);

/*
 * What the property, one of those for objects, would say of 'count' of them
 * from that index on; to be freed. NULL: 'count' is 0. What the property is set
 * to does not matter, and stays.
 */
char *fakernic_ask_objects(Object *device, const char *property, uint32_t from,
                           uint32_t count, Error **errp);

/* What x-ring would say if it were set to these words, in the same way. */
char *fakernic_ask_ring(Object *device, const char *words, Error **errp);

#endif
