/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The purpose of an access to guest memory. Each caller of a DMA function
 * states it; fault rules match it as "why".
 */
#ifndef FAKERNIC_FAULT_WHY_H
#define FAKERNIC_FAULT_WHY_H

typedef enum RoceWhy {
    ROCE_WHY_ANY,               /* only in rules */
    ROCE_WHY_WQE,
    ROCE_WHY_RECORD,            /* a doorbell record */
    ROCE_WHY_PAGE_LIST,
    ROCE_WHY_PAYLOAD,
    ROCE_WHY_CQE,
    ROCE_WHY_EQE,
    ROCE_WHY_CMD,               /* a command queue entry or its data */
} RoceWhy;

#endif
