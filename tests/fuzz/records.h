/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an input of the fuzzers is: records of 32 bytes, each one step (a frame,
 * a post, a command, time going by). The meaning of the fields is the step's;
 * any bytes mean something, so that no input is refused. libFuzzer's mutations
 * of bytes would shift all records behind them, so inputs are mutated record by
 * record here: fields changed, steps inserted, dropped, repeated, moved.
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

/* Steps of an input; the first call gives the first record. */
typedef struct FuzzInput {
    const uint8_t *data;
    size_t size;
    size_t at;
} FuzzInput;

/* The next record, zeros behind a short one; 0: there is none. */
int fuzz_next(FuzzInput *input, FuzzRecord *record);

size_t fuzz_mutate(uint8_t *data, size_t size, size_t max_size,
                   unsigned int seed);
size_t fuzz_crossover(const uint8_t *data1, size_t size1, const uint8_t *data2,
                      size_t size2, uint8_t *out, size_t max_size,
                      unsigned int seed);

#endif
