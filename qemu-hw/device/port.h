/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Ethernet port: frames between the netdev, the engine and the raw-packet
 * QPs. The net layer's callbacks are in doors.c.
 */
#ifndef FAKERNIC_DEVICE_PORT_H
#define FAKERNIC_DEVICE_PORT_H

#include "common.h"

/* To its defaults; a frame the netdev has begun to send stays with it. */
void fakernic_port_reset(FakernicState *s);

/* Is there a carrier: neither set_link nor a fault rule has taken it away? */
bool fakernic_port_link_up(FakernicState *s);

/* The link has changed: the next turn tells by PORT_ACTIVE or PORT_ERROR. */
void fakernic_port_link_changed(FakernicState *s);

/* Raises what is to be told of the port. */
void fakernic_port_events(FakernicState *s);

/* FAKERNIC_MIN_MTU..mtu_max, in bytes of Ethernet payload. */
void fakernic_port_set_mtu(FakernicState *s, uint32_t mtu);

/* A frame from the wire, of any length. */
void fakernic_port_input(FakernicState *s, const uint8_t *frame, size_t len);

/* One that passed fakernic_port_input(), and was held there. */
void fakernic_port_take(FakernicState *s, const uint8_t *frame, size_t len);

/* One of the engine's own that goes back to it; may be changed. */
void fakernic_port_loopback(FakernicState *s, uint8_t *frame, size_t len);

/* True while frames should wait for the wire: it will take them again soon. */
bool fakernic_port_must_wait(FakernicState *s);

/*
 * Sends one frame of 14 bytes or more, or drops and counts it when the wire
 * cannot take it.
 */
void fakernic_port_send(FakernicState *s, const uint8_t *frame, size_t len);

/* The wire takes frames again. */
void fakernic_port_sent(FakernicState *s);

#endif
