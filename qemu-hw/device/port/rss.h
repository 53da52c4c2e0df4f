/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receive side scaling (fakernic/wq.h).
 */
#ifndef FAKERNIC_DEVICE_PORT_RSS_H
#define FAKERNIC_DEVICE_PORT_RSS_H

#include "../common.h"

/* An indirection table: the WQs that frames are spread over. */
typedef struct FakernicIndTable {
    uint32_t users;             /* RSS QPs */
    uint32_t size;              /* a power of two */
    uint32_t wqns[FAKERNIC_MAX_IND_TABLE_SIZE];
} FakernicIndTable;

/* The additional state of an RSS QP, which is a raw-packet QP. */
typedef struct FakernicRss {
    FakernicIndTable *table;
    uint32_t fields;            /* FAKERNIC_HASH_* */
    uint8_t key[FAKERNIC_HASH_KEY_SIZE];
} FakernicRss;

/*
 * Delivers a frame of 14 bytes or more to a raw-packet QP, or to the WQ that an
 * RSS QP selects. With 'strip', the VLAN tag goes into the completion.
 */
void fakernic_raw_input(FakernicState *s, uint32_t qpn, const uint8_t *frame,
                        size_t len, bool strip);

#endif
