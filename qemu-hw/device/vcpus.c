/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the device needs from virtual CPUs: atomic instructions, a vCPU that
 * yields its host CPU when it polls, and, with 'cpu-nice', vCPU threads of a
 * lower priority than the main thread.
 *
 * With KVM locked instructions are atomic. TCG translates them to atomic host
 * instructions only when it runs vCPUs in parallel. With one vCPU, or all of
 * them in one thread, they become a load and a store. The device runs in
 * another thread, so an RDMA atomic of a peer in between would be lost.
 *
 * CPUState is only used as a pointer here. Its layout depends on QEMU's build
 * options, and the plug-in may run in a QEMU with other options.
 */
#include "qemu/osdep.h"
#include "exec/cpu-common.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qom/object.h"
#include "system/tcg.h"
#include "vcpus.h"
#include "../trace.h"

#include <sys/resource.h>

#define FAKERNIC_WAY_NS 10000

#ifdef CONFIG_TCG
/* Runs on the vCPU between two translation blocks. The next block is looked up
 * by these flags, so no old block is found. */
static void fakernic_cpu_parallel(CPUState *cpu, run_on_cpu_data unused)
{
    tcg_cflags_set(cpu, CF_PARALLEL);
}
#endif

/*
 * Runs on the vCPU's thread; TCG may have one thread for all vCPUs. A thread of
 * lower priority needs no change, and raising it would need a privilege.
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

/* Of QEMU's list of vCPUs, when it was last looked at; the largest 'nice'. */
static unsigned fakernic_cpus_generation, fakernic_cpus_nice;

void fakernic_cpus_init(unsigned nice)
{
    fakernic_cpus_generation = cpu_list_generation_id_get();
    fakernic_cpus_nice = MAX(fakernic_cpus_nice, nice);
    object_child_foreach_recursive(object_get_root(), fakernic_cpu_found,
                                   (void *)(uintptr_t)fakernic_cpus_nice);
}

void fakernic_cpus_look(void)
{
    if (fakernic_cpus_generation != cpu_list_generation_id_get()) {
        fakernic_cpus_init(0);
    }
}

bool fakernic_cpus_emulated(void)
{
    return tcg_enabled();
}

/*
 * Runs between two translation blocks or two entries into the guest, where the
 * vCPU may release the big QEMU lock. If it yielded with the lock, the next
 * thread on this host CPU would only wait for the lock.
 */
static void fakernic_cpu_yields(CPUState *cpu, run_on_cpu_data unused)
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
        trace_fakernic_cpu_yields();
        async_run_on_cpu(current_cpu, fakernic_cpu_yields,
                         RUN_ON_CPU_NULL);
    }
}
