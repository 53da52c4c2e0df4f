/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ICRC (IBTA A17.4.3). The CRC starts with eight bytes of ones in place of an
 * InfiniBand packet's LRH. A masked copy of the IP, UDP and BTH headers
 * follows, then the rest of the packet. The packet itself is read once and
 * never written.
 *
 * Polynomial, bit order, initial value and final complement are those of
 * Ethernet's CRC-32, which libdeflate computes.
 */
#include <assert.h>
#include <string.h>
#include <libdeflate.h>
#include "icrc.h"

#define ICRC_LRH_SIZE   8
#define ICRC_UDP_SIZE   8
#define ICRC_BTH_SIZE   12
#define ICRC_IPV6_SIZE  40
/* A packet up to this length is copied whole, which is faster than a second
 * call. */
#define ICRC_SHORT      248

static void roce_icrc_mask_ip(uint8_t *ip, size_t ip_size)
{
    if (ip_size == ICRC_IPV6_SIZE) {
        /* traffic class, flow label; hop limit */
        ip[0] |= 0x0f;
        memset(ip + 1, 0xff, 3);
        ip[7] = 0xff;
    } else {
        /* type of service; time to live; header checksum */
        ip[1] = 0xff;
        ip[8] = 0xff;
        memset(ip + 10, 0xff, 2);
    }
}

uint32_t roce_icrc(const uint8_t *ip, size_t ip_size, size_t len)
{
    uint8_t pseudo[ICRC_LRH_SIZE + ICRC_SHORT];
    size_t headers = ip_size + ICRC_UDP_SIZE + ICRC_BTH_SIZE;
    size_t copied = len <= ICRC_SHORT ? len : headers;
    uint8_t *udp = pseudo + ICRC_LRH_SIZE + ip_size;
    uint8_t *bth = udp + ICRC_UDP_SIZE;
    uint32_t crc;

    assert(ip_size <= ICRC_IPV6_SIZE && len >= headers);
    memset(pseudo, 0xff, ICRC_LRH_SIZE);
    memcpy(pseudo + ICRC_LRH_SIZE, ip, copied);
    roce_icrc_mask_ip(pseudo + ICRC_LRH_SIZE, ip_size);
    memset(udp + 6, 0xff, 2);   /* checksum */
    bth[4] = 0xff;              /* resv8a: FECN, BECN */
    crc = libdeflate_crc32(0, pseudo, ICRC_LRH_SIZE + copied);
    return copied == len ? crc
                         : libdeflate_crc32(crc, ip + copied, len - copied);
}
