/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parses the headers of an Ethernet frame, once per frame.
 */
#ifndef FAKERNIC_DEVICE_PORT_PARSE_H
#define FAKERNIC_DEVICE_PORT_PARSE_H

#include "../common.h"

typedef struct FakernicParsed {
    struct fakernic_flow_match match;
    uint32_t layers;            /* FAKERNIC_FLOW_VLAN..UDP */
} FakernicParsed;

/*
 * Parses a frame of 14 bytes or more, at any alignment, into the fields of a
 * struct fakernic_flow_match. A header that is cut counts as a layer that the
 * frame does not have.
 */
void fakernic_parse(FakernicParsed *p, const uint8_t *frame, size_t len);

#endif
