/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The encoding of credit counts (IBTA 9.7.5.2.7, table 46). A count between
 * two entries is rounded down, because a peer that is given too many credits
 * gets RNR NAKs.
 */
#include "credit.h"

static const uint16_t roce_credit_table[ROCE_CREDIT_NONE] = {
    0, 1, 2, 3, 4, 6, 8, 12,
    16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

uint8_t roce_credit_encode(uint32_t count)
{
    uint8_t code = ROCE_CREDIT_NONE - 1;

    while (roce_credit_table[code] > count) {
        code--;
    }
    return code;
}

uint32_t roce_credit_decode(uint8_t code)
{
    return roce_credit_table[code < ROCE_CREDIT_NONE ? code : 0];
}
