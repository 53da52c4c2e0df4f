/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The Ethernet port: frames between the netdev, the engine and the raw-packet
 * QPs. The net layer's callbacks are in doors.c.
 */
#ifndef FAKERNIC_DEVICE_PORT_PORT_H
#define FAKERNIC_DEVICE_PORT_PORT_H

#include "../common.h"

/* Resets the port; a frame that the netdev has begun to send stays there. */
void fakernic_port_reset(FakernicState *s);

/* True: neither set_link nor a fault rule has taken the link down. */
bool fakernic_port_link_up(FakernicState *s);

/* Notes a link change: the next turn raises PORT_ACTIVE or PORT_ERROR. */
void fakernic_port_link_changed(FakernicState *s);

/* Raises the pending event of the port. */
void fakernic_port_events(FakernicState *s);

/* Sets the MTU, FAKERNIC_MIN_MTU..mtu_max bytes of Ethernet payload. */
void fakernic_port_set_mtu(FakernicState *s, uint32_t mtu);

/* Receives a frame from the wire, of any length. */
void fakernic_port_input(FakernicState *s, const uint8_t *frame, size_t len);

/* Takes a frame that passed fakernic_port_input() or was held there. */
void fakernic_port_take(FakernicState *s, const uint8_t *frame, size_t len);

/* True: the wire is blocked, and frames for it should wait. */
bool fakernic_port_must_wait(FakernicState *s);

/*
 * Sends one frame of 14 bytes or more, or drops and counts it when the wire
 * cannot take it. A loopback frame returns to the engine. May change the frame.
 */
void fakernic_port_emit(FakernicState *s, uint8_t *frame, size_t len,
                        bool loopback);

/* Notes that the wire takes frames again. */
void fakernic_port_sent(FakernicState *s);

#endif
