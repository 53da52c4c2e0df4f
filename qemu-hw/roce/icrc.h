/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The invariant CRC of a RoCEv2 packet (IBTA 7.8.1 and A17.4.3): CRC-32 over
 * everything from the IP header to the pad, with the fields that routers may
 * change replaced by ones.
 */
#ifndef ROCE_ICRC_H
#define ROCE_ICRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * 'ip' points to an IPv4 header of ip_size = 20 or an IPv6 header of 40 bytes.
 * 'len' counts from there up to the ICRC, without it, and covers at least the
 * IP, UDP and base transport headers. Returns a number whose least significant
 * byte comes first on the wire.
 */
uint32_t roce_icrc(const uint8_t *ip, size_t ip_size, size_t len);

#endif
