/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who else is told of each hit of a fault rule: QMP, where it knows the device
 * (../qmp). It knows no header of the device but this.
 */
#ifndef FAKERNIC_DEVICE_TOLD_H
#define FAKERNIC_DEVICE_TOLD_H

#include "../roce/fault.h"

/* NULL: nobody. It takes no time worth a budget. */
extern void (*fakernic_told)(Object *device, const RoceFaultRule *rule,
                             const RoceFaultSubject *subject);

#endif
