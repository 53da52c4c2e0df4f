/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging: the pages that the engine wants (FAKERNIC_FEATURE_ODP).
 */
#ifndef FAKERNIC_DEVICE_ODP_H
#define FAKERNIC_DEVICE_ODP_H

#include "common.h"

/* Pages the engine wants, until the driver asks for the list. */
typedef struct FakernicPageRequest {
    uint32_t key;
    bool write;
    uint64_t address;
    uint64_t last;              /* of its bytes */
} FakernicPageRequest;

/* RoceHostOps.page_request. */
bool fakernic_page_request(void *host, uint32_t key, uint64_t address,
                           uint64_t length, bool write);

/* The region goes away: nothing is wanted of it any more. */
void fakernic_page_requests_forget(FakernicState *s, uint32_t key);

#endif
