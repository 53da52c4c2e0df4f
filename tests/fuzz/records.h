/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An input of the fuzzers consists of records of 32 bytes. Each one is a step
 * (a frame, a post, a command, a time step), which defines the meaning of its
 * fields. All bytes are valid, so no input is refused. libFuzzer's mutations of
 * bytes would shift all records behind them. So these functions mutate inputs
 * by records: they change fields, and insert, drop, repeat and move steps.
 */
#ifndef FUZZ_RECORDS_H
#define FUZZ_RECORDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct FuzzRecord {
    uint8_t op;
    uint8_t where;
    uint8_t a, b;
    uint16_t c, d;
    uint32_t e, f;
    uint64_t g, h;
} FuzzRecord;
_Static_assert(sizeof(FuzzRecord) == 32, "FuzzRecord is 32 bytes");

#define FUZZ_RECORDS_MAX 128

/* The steps of an input. */
typedef struct FuzzInput {
    const uint8_t *data;
    size_t size;
    size_t at;
} FuzzInput;

/* Gets the next record; a short one is filled with zeros. 0: there is none. */
int fuzz_next(FuzzInput *input, FuzzRecord *record);

size_t fuzz_mutate(uint8_t *data, size_t size, size_t max_size,
                   unsigned int seed);
size_t fuzz_crossover(const uint8_t *data1, size_t size1, const uint8_t *data2,
                      size_t size2, uint8_t *out, size_t max_size,
                      unsigned int seed);

#endif
