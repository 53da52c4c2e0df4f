/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the device needs of the guest's CPUs: that their locked instructions are
 * atomic to it; that one that polls lets go of its processor; and, where it was
 * asked to see to it, that they come after the thread that feeds them.
 *
 * Atomic: with KVM they are. TCG translates them to atomic host instructions
 * only where it runs CPUs in parallel; with one CPU, or all of them in one
 * thread, they become a load and a store, between which an RDMA atomic of a
 * peer would be lost. But the device is one more thread beside them.
 *
 * A CPU is but an address here: its layout depends on how QEMU was configured,
 * and the device may be loaded into a QEMU that others have built.
 */
#include "qemu/osdep.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qom/object.h"
#include "system/tcg.h"
#include "cpus.h"
#include "../trace.h"

#include <sys/resource.h>

#define FAKERNIC_WAY_NS 10000

#ifdef CONFIG_TCG
/* On the CPU itself, between two translation blocks; the next one is looked up
 * by its flags and finds none of the old ones. */
static void fakernic_cpu_parallel(CPUState *cpu, run_on_cpu_data unused)
{
    tcg_cflags_set(cpu, CF_PARALLEL);
}
#endif

/*
 * On the CPU's own thread, which TCG may have for all of them. A thread that is
 * lower already cannot be raised, and need not be.
 */
static void fakernic_cpu_nice(CPUState *cpu, run_on_cpu_data nice)
{
    const int thread = qemu_get_thread_id();
    const int wanted = getpriority(PRIO_PROCESS, getpid()) + nice.host_int;

    if (setpriority(PRIO_PROCESS, thread, wanted) &&
        getpriority(PRIO_PROCESS, thread) < wanted) {
        warn_report_once("fakernic: property 'cpu-nice' has no effect: QEMU "
                         "cannot lower the priority of virtual CPUs: %s "
                         "(-sandbox resourcecontrol=deny forbids it)",
                         g_strerror(errno));
    }
}

static int fakernic_cpu_found(Object *obj, void *nice)
{
    if (!object_dynamic_cast(obj, TYPE_CPU)) {
        return 0;
    }
#ifdef CONFIG_TCG
    if (tcg_enabled()) {
        async_run_on_cpu((CPUState *)obj, fakernic_cpu_parallel,
                         RUN_ON_CPU_NULL);
    }
#endif
    if (nice) {
        async_run_on_cpu((CPUState *)obj, fakernic_cpu_nice,
                         RUN_ON_CPU_HOST_INT((int)(uintptr_t)nice));
    }
    return 0;
}

/* One that is plugged in later is one of several, and parallel already. */
void fakernic_cpus_init(unsigned nice)
{
    object_child_foreach_recursive(object_get_root(), fakernic_cpu_found,
                                   (void *)(uintptr_t)nice);
}

bool fakernic_cpus_emulated(void)
{
    return tcg_enabled();
}

/*
 * Between two translation blocks, or two entries into the guest, where the CPU
 * can let go of the big QEMU lock: with it a thread that gets the processor
 * would wait for the lock, and then for the processor again.
 */
static void fakernic_cpu_gives_way(CPUState *cpu, run_on_cpu_data unused)
{
    bql_unlock();
    g_thread_yield();
    bql_lock();
}

void fakernic_cpu_waits(void)
{
    static __thread int64_t gave_way;       /* by the host's clock */
    const int64_t now = get_clock();

    if (current_cpu && now - gave_way >= FAKERNIC_WAY_NS) {
        gave_way = now;
        trace_fakernic_cpu_gives_way();
        async_run_on_cpu(current_cpu, fakernic_cpu_gives_way,
                         RUN_ON_CPU_NULL);
    }
}
