/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Persistent FLUSH: a thread of QEMU's pool makes writes to guest memory
 * persistent, without the big QEMU lock. There is one job at a time; the engine
 * keeps other FLUSHes waiting.
 */
#ifndef FAKERNIC_DEVICE_PERSIST_H
#define FAKERNIC_DEVICE_PERSIST_H

#include "common.h"

/*
 * RoceHostOps.dma_flush on guest memory. FAILED: the memory is not persistent.
 * A reset or an unplug abandons the job, whose thread then ends by itself.
 */
RoceFlush fakernic_dma_flush(void *host, const RoceFlushJob *flush,
                             uint64_t *done);

/*
 * Called when the thread has ended the job 'opaque'; returns its device. The
 * next turn reports the result to the engine, unless the job is abandoned.
 */
FakernicState *fakernic_persist_done(void *opaque, int error);

/* Reports the result of a job to the engine, and starts the next FLUSH. */
void fakernic_persist_run(FakernicState *s);

/* Waits for the job under way, and reports its result to the engine. */
void fakernic_persist_wait(FakernicState *s);

/*
 * Abandons the job under way, because a reset or an unplug frees its QP. If its
 * thread has ended, this also drops the job's reference to the device.
 */
void fakernic_persist_forget(FakernicState *s);

#endif
