/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * icrc.c against a bit-by-bit CRC with its own table of masked fields, and
 * against one frame of another implementation.
 */
#include "harness.h"
#include "icrc.h"

/* The CRC-32 of IEEE 802.3, one bit at a time. */
static uint32_t slow_crc(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (unsigned i = 0; i < 8; i++) {
        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return crc;
}

/* The bits of a byte that the ICRC does not cover (IBTA A17.4.3). */
static uint8_t masked_bits(size_t at, size_t ip_size)
{
    if (at == ip_size + 6 || at == ip_size + 7 || at == ip_size + 8 + 4) {
        return 0xff;            /* UDP checksum, BTH resv8a */
    }
    if (ip_size == 20) {
        return at == 1 || at == 8 || at == 10 || at == 11 ? 0xff : 0;
    }
    if (at == 0) {
        return 0x0f;
    }
    return (at >= 1 && at <= 3) || at == 7 ? 0xff : 0;
}

static uint32_t slow_icrc(const uint8_t *ip, size_t ip_size, size_t len)
{
    uint32_t crc = 0xffffffff;

    for (unsigned i = 0; i < 8; i++) {
        crc = slow_crc(crc, 0xff);
    }
    for (size_t i = 0; i < len; i++) {
        crc = slow_crc(crc, ip[i] | masked_bits(i, ip_size));
    }
    return ~crc;
}

static void fill(uint8_t *p, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525 + 1013904223;
        p[i] = (uint8_t)(seed >> 24);
    }
}

static void check_lengths(size_t ip_size)
{
    for (size_t len = ip_size + 20; len < ip_size + 20 + 300; len++) {
        uint8_t *ip = malloc(len);

        REQUIRE(ip);
        fill(ip, len, (uint32_t)len);
        CHECK_EQ(roce_icrc(ip, ip_size, len), slow_icrc(ip, ip_size, len));
        free(ip);
    }
}

static void ipv4_icrc_of_every_length(void)
{
    check_lengths(20);
}

static void ipv6_icrc_of_every_length(void)
{
    check_lengths(40);
}

/* An ACK sent by Soft-RoCE: from the IP header, ICRC last. */
static void icrc_matches_ack_of_soft_roce(void)
{
    static const uint8_t ip[] = {
        0x45, 0x00, 0x00, 0x30, 0x89, 0xa4, 0x40, 0x00, 0x40, 0x11,
        0x9d, 0x16, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02,
        0xc1, 0x21, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00,
        0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x00, 0xdc, 0xad, 0xe2,
        0x1f, 0x00, 0x00, 0x01, 0x36, 0x6d, 0x2f, 0x6c,
    };
    const uint8_t *icrc = ip + sizeof(ip) - 4;

    CHECK_EQ(roce_icrc(ip, 20, sizeof(ip) - 4),
             (uint32_t)icrc[0] | (uint32_t)icrc[1] << 8 |
                 (uint32_t)icrc[2] << 16 | (uint32_t)icrc[3] << 24);
}

static void check_bits(size_t ip_size)
{
    uint8_t ip[40 + 20 + 8];
    size_t len = ip_size + 20 + 8;
    uint32_t before;

    fill(ip, len, 7);
    before = roce_icrc(ip, ip_size, len);
    for (size_t bit = 0; bit < len * 8; bit++) {
        bool seen = !(masked_bits(bit / 8, ip_size) >> bit % 8 & 1);

        ip[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_EQ(roce_icrc(ip, ip_size, len) != before, seen);
        ip[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void icrc_ignores_only_variant_fields(void)
{
    check_bits(20);
    check_bits(40);
}

static void icrc_does_not_change_packet(void)
{
    uint8_t ip[60], copy[60];

    fill(ip, sizeof(ip), 3);
    memcpy(copy, ip, sizeof(ip));
    roce_icrc(ip, 20, sizeof(ip));
    roce_icrc(ip, 40, sizeof(ip));
    CHECK_MEM(ip, copy, sizeof(ip));
}

static const Test tests[] = {
    TEST(ipv4_icrc_of_every_length),
    TEST(ipv6_icrc_of_every_length),
    TEST(icrc_matches_ack_of_soft_roce),
    TEST(icrc_ignores_only_variant_fields),
    TEST(icrc_does_not_change_packet),
};

TEST_MAIN(tests)
