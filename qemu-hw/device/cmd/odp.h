/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging: the engine's page requests (FAKERNIC_FEATURE_ODP).
 */
#ifndef FAKERNIC_DEVICE_CMD_ODP_H
#define FAKERNIC_DEVICE_CMD_ODP_H

#include "../common.h"

/* A request for pages, kept until the driver reads the list. */
typedef struct FakernicPageRequest {
    uint32_t key;
    bool write;
    uint64_t address;
    uint64_t last;              /* of its bytes */
} FakernicPageRequest;

/* RoceHostOps.page_request. */
bool fakernic_page_request(void *host, uint32_t key, uint64_t address,
                           uint64_t length, bool write);

/* The region is about to be destroyed: discards its page requests. */
void fakernic_page_requests_forget(FakernicState *s, uint32_t key);

#endif
