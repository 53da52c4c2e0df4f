/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event queues, and the objects that raise events (fakernic/eq.h).
 */
#ifndef FAKERNIC_DEVICE_QUEUE_EQ_H
#define FAKERNIC_DEVICE_QUEUE_EQ_H

#include "types.h"

/*
 * Raises an event of an object, with 'data' for the types that have it. If 'eq'
 * is NULL it goes to the asynchronous EQ, or waits for one to be created. An
 * event that is latched in the object already is not raised twice.
 */
void fakernic_event(FakernicState *s, FakernicEq *eq, FakernicEventSource *src,
                    enum fakernic_event type, uint32_t data);

/* Discards the latched events of an object; 'eq' as above. */
void fakernic_event_forget(FakernicState *s, FakernicEq *eq,
                           FakernicEventSource *src);

/*
 * Writes the events that wait, within the room and the turn's budget; what the
 * budget leaves is written by fakernic_eqs_run().
 */
void fakernic_eq_flush(FakernicState *s, FakernicEq *eq);

/* Part of a turn: resumes EQs whose flush had used up the budget. */
void fakernic_eqs_run(FakernicState *s);

/* The EQ is about to be destroyed; asynchronous events wait for the next. */
void fakernic_eq_forget(FakernicState *s, FakernicEq *eq);

/*
 * A doorbell: the driver has consumed the entries before 'ci', and with 'arm'
 * requests an interrupt for the next one. The doorbell is dropped and counted
 * if 'ci' is not within the entries written.
 */
void fakernic_eq_doorbell(FakernicState *s, FakernicEq *eq, uint32_t ci,
                          bool arm);

/* RoceHostOps.event: an asynchronous event of the engine. */
void fakernic_engine_event(void *host, uint8_t type, uint32_t id,
                           uint16_t vendor_err);

#endif
