/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * toeplitz.h against the values that Microsoft publishes to verify the RSS hash
 * ("Verifying the RSS Hash Calculation"), which network drivers share.
 */
#include "harness.h"
#include "toeplitz.h"

static const uint8_t key[FAKERNIC_HASH_KEY_SIZE] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2,
    0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4,
    0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

/* Source and destination: addresses, then ports; and both hashes. */
typedef struct Vector4 {
    uint8_t src[4], dst[4];
    uint16_t src_port, dst_port;
    uint32_t addresses, all;
} Vector4;

typedef struct Vector6 {
    uint8_t src[16], dst[16];
    uint16_t src_port, dst_port;
    uint32_t addresses, all;
} Vector6;

static const Vector4 ipv4[] = {
    { { 66, 9, 149, 187 }, { 161, 142, 100, 80 }, 2794, 1766,
      0x323e8fc2, 0x51ccc178 },
    { { 199, 92, 111, 2 }, { 65, 69, 140, 83 }, 14230, 4739,
      0xd718262a, 0xc626b0ea },
    { { 24, 19, 198, 95 }, { 12, 22, 207, 184 }, 12898, 38024,
      0xd2d0a5de, 0x5c2b394a },
    { { 38, 27, 205, 30 }, { 209, 142, 163, 6 }, 48228, 2217,
      0x82989176, 0xafc7327f },
    { { 153, 39, 163, 191 }, { 202, 188, 127, 2 }, 44251, 1303,
      0x5d1809c5, 0x10e828a2 },
};

static const Vector6 ipv6[] = {
    /* 3ffe:2501:200:1fff::7 to 3ffe:2501:200:3::1 */
    { { 0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, [15] = 7 },
      { 0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x00, 0x03, [15] = 1 },
      2794, 1766, 0x2cc18cd5, 0x40207d3d },
    /* 3ffe:501:8::260:97ff:fe40:efab to ff02::1 */
    { { 0x3f, 0xfe, 0x05, 0x01, 0x00, 0x08, 0, 0,
        0x02, 0x60, 0x97, 0xff, 0xfe, 0x40, 0xef, 0xab },
      { 0xff, 0x02, [15] = 1 },
      14230, 4739, 0x0f0c461c, 0xdde51bbf },
    /* 3ffe:1900:4545:3:200:f8ff:fe21:67cf to fe80::200:f8ff:fe21:67cf */
    { { 0x3f, 0xfe, 0x19, 0x00, 0x45, 0x45, 0x00, 0x03,
        0x02, 0x00, 0xf8, 0xff, 0xfe, 0x21, 0x67, 0xcf },
      { 0xfe, 0x80, 0, 0, 0, 0, 0, 0,
        0x02, 0x00, 0xf8, 0xff, 0xfe, 0x21, 0x67, 0xcf },
      44251, 38024, 0x4b61e985, 0x02d1feef },
};

static size_t put(uint8_t *input, const uint8_t *src, const uint8_t *dst,
                  size_t size, uint16_t src_port, uint16_t dst_port)
{
    const uint8_t ports[4] = {
        (uint8_t)(src_port >> 8), (uint8_t)src_port,
        (uint8_t)(dst_port >> 8), (uint8_t)dst_port,
    };

    memcpy(input, src, size);
    memcpy(input + size, dst, size);
    memcpy(input + 2 * size, ports, sizeof(ports));
    return 2 * size;
}

static void published_ipv4_hashes_match(void)
{
    for (unsigned i = 0; i < TEST_COUNT(ipv4); i++) {
        const Vector4 *v = &ipv4[i];
        uint8_t input[ROCE_TOEPLITZ_INPUT_MAX];
        size_t len = put(input, v->src, v->dst, 4, v->src_port, v->dst_port);

        CHECK_EQ(roce_toeplitz(key, input, len), v->addresses);
        CHECK_EQ(roce_toeplitz(key, input, len + 4), v->all);
    }
}

static void published_ipv6_hashes_match(void)
{
    for (unsigned i = 0; i < TEST_COUNT(ipv6); i++) {
        const Vector6 *v = &ipv6[i];
        uint8_t input[ROCE_TOEPLITZ_INPUT_MAX];
        size_t len = put(input, v->src, v->dst, 16, v->src_port, v->dst_port);

        CHECK_EQ(roce_toeplitz(key, input, len), v->addresses);
        CHECK_EQ(roce_toeplitz(key, input, len + 4), v->all);
    }
}

static void hash_of_zeroes_is_0(void)
{
    static const uint8_t zeros[ROCE_TOEPLITZ_INPUT_MAX];

    CHECK_EQ(roce_toeplitz(key, zeros, 0), 0);
    CHECK_EQ(roce_toeplitz(key, zeros, sizeof(zeros)), 0);
}

/* A single input bit selects the 32 bits of the key that start at it. */
static void each_bit_selects_32_bits_of_the_key(void)
{
    for (unsigned bit = 0; bit < 8 * ROCE_TOEPLITZ_INPUT_MAX; bit++) {
        uint8_t input[ROCE_TOEPLITZ_INPUT_MAX] = { 0 };
        uint32_t want = 0;

        input[bit / 8] = (uint8_t)(0x80 >> bit % 8);
        for (unsigned i = bit; i < bit + 32; i++) {
            want = want << 1 | (key[i / 8] >> (7 - i % 8) & 1);
        }
        CHECK_EQ(roce_toeplitz(key, input, sizeof(input)), want);
    }
}

static const Test tests[] = {
    TEST(published_ipv4_hashes_match),
    TEST(published_ipv6_hashes_match),
    TEST(hash_of_zeroes_is_0),
    TEST(each_bit_selects_32_bits_of_the_key),
};
TEST_MAIN(tests)
