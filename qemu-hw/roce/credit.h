/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * End-to-end credits (IBTA 9.7.7.2): five bits of an ACK's syndrome contain
 * the number of the sender's receives.
 */
#ifndef ROCE_CREDIT_H
#define ROCE_CREDIT_H

#include <stdint.h>

/* The sender does not report credits: its peer is not limited. */
#define ROCE_CREDIT_NONE 0x1f

/* The code of the largest count in the table that is not above 'count'. */
uint8_t roce_credit_encode(uint32_t count);
/* The count of a code below ROCE_CREDIT_NONE. */
uint32_t roce_credit_decode(uint8_t code);

#endif
