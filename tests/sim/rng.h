/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The simulator's random numbers: xoshiro256** seeded by splitmix64 (Blackman
 * and Vigna, public domain algorithms). libc's generator may change its
 * sequence, so it must not be used.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Rng {
    uint64_t s[4];
} Rng;

static inline uint64_t rng_split(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline void rng_seed(Rng *r, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        r->s[i] = rng_split(&seed);
    }
}

static inline uint64_t rng_rotate(uint64_t x, unsigned k)
{
    return (x << k) | (x >> (64 - k));
}

static inline uint64_t rng_next(Rng *r)
{
    uint64_t result = rng_rotate(r->s[1] * 5, 7) * 9;
    uint64_t t = r->s[1] << 17;

    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = rng_rotate(r->s[3], 45);
    return result;
}

/* 0..n-1; n = 0 gives 0. */
static inline uint32_t rng_below(Rng *r, uint32_t n)
{
    return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}

/* lo..hi, both included. */
static inline uint32_t rng_range(Rng *r, uint32_t lo, uint32_t hi)
{
    return lo + rng_below(r, hi - lo + 1);
}

static inline bool rng_ppm(Rng *r, uint32_t ppm)
{
    return ppm && rng_below(r, 1000000) < ppm;
}

static inline bool rng_pct(Rng *r, uint32_t pct)
{
    return pct && rng_below(r, 100) < pct;
}

#endif
