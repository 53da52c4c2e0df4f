/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flow rules: which raw-packet QPs get a frame (fakernic/cmdq.h, CREATE_FLOW).
 * Frames have at least 14 bytes.
 */
#ifndef FAKERNIC_DEVICE_PORT_FLOW_H
#define FAKERNIC_DEVICE_PORT_FLOW_H

#include "../common.h"

/* A flow rule; value and mask stay in the interface's format. */
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
 * True: a rule copies the frame and does not consume it. All of these may match
 * the same frame, so FAKERNIC_MAX_FLOW_COPIES limits their number.
 */
bool fakernic_flow_copies(uint8_t type, uint8_t flags);

/* Adds a rule after those of its type with the same or a lower number. */
void fakernic_flow_add(FakernicState *s, FakernicFlow *flow);
/* Removes a rule; the caller frees it. */
void fakernic_flow_remove(FakernicState *s, FakernicFlow *flow);

/* Delivers a copy to every sniffer rule. */
void fakernic_flow_sniff(FakernicState *s, const uint8_t *frame, size_t len);

/* The result of the NORMAL rules for a frame. */
typedef enum FakernicRuled {
    FAKERNIC_RULED_NOTHING,     /* copied to some QPs, or to none */
    FAKERNIC_RULED_TAKEN,
    FAKERNIC_RULED_DROPPED,     /* not counted */
} FakernicRuled;

/* Delivers a frame to the QPs of matching rules. */
FakernicRuled fakernic_flow_input(FakernicState *s, const uint8_t *frame,
                                  size_t len);

/* Delivers a frame that no rule matches to the default QP; false: none. */
bool fakernic_flow_default(FakernicState *s, const uint8_t *frame, size_t len);

/* True: a rule matches all bits of this MAC, so the device owns it. */
bool fakernic_flow_owns(FakernicState *s, const uint8_t *dmac);

#endif
