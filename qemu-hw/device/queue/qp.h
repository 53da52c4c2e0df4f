/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs and work queues in the device: their rings and the objects that
 * they use. Their state and transport are in the engine.
 */
#ifndef FAKERNIC_DEVICE_QUEUE_QP_H
#define FAKERNIC_DEVICE_QUEUE_QP_H

#include "types.h"

/*
 * Adds a QP or WQ to the engine and the device, takes references to the objects
 * that it uses, and sets its number. The device then owns 'qp'; on failure (any
 * enum fakernic_cmd_status other than OK) it is freed.
 */
uint8_t fakernic_qp_add(FakernicState *s, FakernicQp *qp,
                        const RoceQpInit *init) G_GNUC_WARN_UNUSED_RESULT;

/* Reverses fakernic_qp_add(); no rule, table or port may refer to it. */
void fakernic_qp_remove(FakernicState *s, FakernicQp *qp);

/* True: one of its CQs is in error, so its completions would be lost. */
bool fakernic_qp_is_mute(const FakernicQp *qp);

/* Frees a QP that was not added, or whose device is under reset. */
void fakernic_qp_free(FakernicState *s, FakernicQp *qp);

#endif
