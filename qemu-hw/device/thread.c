/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The slice of a thread: sched_setattr(2), where sched_runtime of a thread of
 * the normal policies is the slice that the scheduler (EEVDF) reckons its
 * deadline with. Needs no privilege.
 */
#include "qemu/osdep.h"
#include <sched.h>
#include <sys/syscall.h>
#include "thread.h"

/* The kernel's first version of struct sched_attr; not every libc has it. */
typedef struct SchedAttr {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime;           /* nanoseconds */
    uint64_t deadline;
    uint64_t period;
} SchedAttr;

QEMU_BUILD_BUG_ON(sizeof(SchedAttr) != 48);

#define THREAD_RESET_ON_FORK 1u     /* SCHED_FLAG_RESET_ON_FORK */

void fakernic_thread_slice(unsigned us)
{
    SchedAttr attr = { .size = sizeof(attr) };

    if (!us || syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) ||
        (attr.policy != SCHED_OTHER && attr.policy != SCHED_BATCH)) {
        return;
    }
    attr.size = sizeof(attr);
    /* Not for CPUs that are plugged in later; but it takes a priority that is
     * better than usual from other threads as well. */
    if (attr.nice >= 0) {
        attr.flags |= THREAD_RESET_ON_FORK;
    }
    attr.runtime = us * UINT64_C(1000);
    /* Where it is refused frames wait longer; nothing else is different. */
    (void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}
