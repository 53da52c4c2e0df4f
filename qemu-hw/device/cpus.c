/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the device needs of the guest's CPUs: that their locked instructions are
 * atomic to it.
 *
 * With KVM they are. TCG translates them to atomic host instructions only
 * where it runs CPUs in parallel; with one CPU, or all of them in one thread,
 * they become a load and a store, between which an RDMA atomic of a peer would
 * be lost. But the device is one more thread beside them.
 *
 * A CPU is but an address here: its layout depends on how QEMU was configured,
 * and the device may be loaded into a QEMU that others have built.
 */
#include "qemu/osdep.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "qom/object.h"
#include "system/tcg.h"
#include "cpus.h"

#ifdef CONFIG_TCG
/* On the CPU itself, between two translation blocks; the next one is looked up
 * by its flags and finds none of the old ones. */
static void fakernic_cpu_parallel(CPUState *cpu, run_on_cpu_data unused)
{
    tcg_cflags_set(cpu, CF_PARALLEL);
}

static int fakernic_cpu_found(Object *obj, void *opaque)
{
    if (object_dynamic_cast(obj, TYPE_CPU)) {
        async_run_on_cpu((CPUState *)obj, fakernic_cpu_parallel,
                         RUN_ON_CPU_NULL);
    }
    return 0;
}
#endif

void fakernic_cpus_init(void)
{
#ifdef CONFIG_TCG
    if (!tcg_enabled()) {
        return;
    }
    /* One that is plugged in later is one of several, and parallel already. */
    object_child_foreach_recursive(object_get_root(), fakernic_cpu_found, NULL);
#endif
}
