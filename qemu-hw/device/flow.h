/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flow rules: which raw-packet QPs get a frame (fakernic/cmdq.h, CREATE_FLOW).
 * Frames are of 14 bytes and more.
 */
#ifndef FAKERNIC_DEVICE_FLOW_H
#define FAKERNIC_DEVICE_FLOW_H

#include "common.h"

/* A flow rule; value and mask stay as they came: they are compared bytewise. */
typedef struct FakernicFlow {
    uint32_t id;
    uint32_t qpn;               /* 0: drops */
    uint32_t layers;
    uint16_t priority;
    uint8_t type;
    uint8_t flags;
    struct fakernic_flow_match value;
    struct fakernic_flow_match mask;
    QTAILQ_ENTRY(FakernicFlow) next;
} FakernicFlow;

/*
 * Does a rule leave the frame to others, too? There are few of these
 * (FAKERNIC_MAX_FLOW_COPIES): all of them may match the same frame.
 */
bool fakernic_flow_copies(uint8_t type, uint8_t flags);

/* Behind the rules of its type that have its priority or a lower number. */
void fakernic_flow_add(FakernicState *s, FakernicFlow *flow);
/* Takes it out; it stays the caller's. */
void fakernic_flow_remove(FakernicState *s, FakernicFlow *flow);

/* Gives a copy to every sniffer. */
void fakernic_flow_sniff(FakernicState *s, const uint8_t *frame, size_t len);

/* What the NORMAL rules make of a frame. */
typedef enum FakernicRuled {
    FAKERNIC_RULED_NOTHING,     /* copied to some QPs, or to none */
    FAKERNIC_RULED_TAKEN,
    FAKERNIC_RULED_DROPPED,     /* not counted */
} FakernicRuled;

/* Gives it to those whom the rules name. */
FakernicRuled fakernic_flow_input(FakernicState *s, const uint8_t *frame,
                                  size_t len);

/* Gives it to the QP that takes what nobody wants; false: there is none. */
bool fakernic_flow_default(FakernicState *s, const uint8_t *frame, size_t len);

/* Is this address one of the device's own, because a rule names all of it? */
bool fakernic_flow_owns(FakernicState *s, const uint8_t *dmac);

#endif
