/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Persistent FLUSH: what was written to guest memory is brought to its medium,
 * by a thread of QEMU's pool, without the big QEMU lock. One job at a time: the
 * engine lets the others wait.
 */
#ifndef FAKERNIC_DEVICE_PERSIST_H
#define FAKERNIC_DEVICE_PERSIST_H

#include "common.h"

/*
 * RoceHostOps.dma_flush on guest memory. FAILED: there is no such medium. A
 * reset or an unplug forgets the job, which ends by itself.
 */
RoceFlush fakernic_dma_flush(void *host, const RoceFlushJob *flush,
                             uint64_t *done);

/*
 * A thread is done with the job 'opaque' of the device that is returned: the
 * next turn tells the engine, unless the job is forgotten.
 */
FakernicState *fakernic_persist_done(void *opaque, int error);

/* Tells the engine what has become of its jobs, and takes the next. */
void fakernic_persist_run(FakernicState *s);

/*
 * The engine of the job that is under way is gone. If the job has ended, its
 * reference to the device goes with it.
 */
void fakernic_persist_forget(FakernicState *s);

#endif
