/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See records.h. */
#include "records.h"

#include <stdbool.h>
#include <string.h>

#define RECORD sizeof(FuzzRecord)

/* libFuzzer's own mutations, of bytes. */
extern size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

int fuzz_next(FuzzInput *input, FuzzRecord *record)
{
    size_t left = input->size - input->at;
    size_t len = left < RECORD ? left : RECORD;

    memset(record, 0, RECORD);
    memcpy(record, input->data + input->at, len);
    input->at += len;
    return len != 0;
}

static uint64_t fuzz_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t fuzz_below(uint64_t *state, size_t limit)
{
    return fuzz_random(state) % limit;
}

/* Changes the value of one field. */
static void fuzz_mutate_field(uint8_t *record, uint64_t *state)
{
    static const struct {
        uint8_t at, size;
    } fields[] = {
        { 0, 1 }, { 1, 1 }, { 2, 1 }, { 2, 1 }, { 3, 1 }, { 3, 1 }, { 4, 2 },
        { 6, 2 }, { 8, 4 }, { 12, 4 }, { 16, 8 }, { 24, 8 },
    };
    size_t i = fuzz_below(state, sizeof(fields) / sizeof(fields[0]));
    uint64_t value = 0;

    memcpy(&value, record + fields[i].at, fields[i].size);
    switch (fuzz_below(state, 5)) {
    case 0:
        value ^= 1ull << fuzz_below(state, 8 * fields[i].size);
        break;
    case 1:
        value += fuzz_below(state, 33) - 16;
        break;
    case 2:
        value = fuzz_below(state, 17);
        break;
    case 3:
        value = 0 - (uint64_t)fuzz_below(state, 3);
        break;
    default:
        value = fuzz_random(state);
        break;
    }
    memcpy(record + fields[i].at, &value, fields[i].size);
}

/* A new step with mostly small numbers, as most fields select among few. */
static void fuzz_new_record(uint8_t *record, uint64_t *state)
{
    size_t changes = 3 + fuzz_below(state, 8);

    memset(record, 0, RECORD);
    record[0] = (uint8_t)fuzz_random(state);
    record[1] = (uint8_t)fuzz_random(state);
    while (changes--) {
        fuzz_mutate_field(record, state);
    }
}

static void fuzz_mutate_bytes(uint8_t *record)
{
    size_t len = LLVMFuzzerMutate(record, RECORD, RECORD);

    memset(record + len, 0, RECORD - len);
}

/* Makes room for one record at an index. */
static void fuzz_open(uint8_t *data, size_t count, size_t at)
{
    memmove(data + (at + 1) * RECORD, data + at * RECORD,
            (count - at) * RECORD);
}

static size_t fuzz_mutate_once(uint8_t *data, size_t count, size_t room,
                               uint64_t *state)
{
    size_t at = count ? fuzz_below(state, count) : 0;
    uint8_t *record = data + at * RECORD;
    uint8_t copy[RECORD];
    size_t what = fuzz_below(state, 16);

    if (count == 0 || (what < 3 && count < room)) {
        at = fuzz_below(state, count + 1);
        fuzz_open(data, count, at);
        fuzz_new_record(data + at * RECORD, state);
        return count + 1;
    }
    memcpy(copy, record, RECORD);
    if (what < 5 && count < room) {
        at = fuzz_below(state, count + 1);
        fuzz_open(data, count, at);
        memcpy(data + at * RECORD, copy, RECORD);
        return count + 1;
    }
    if (what < 7 && count > 1) {
        memmove(record, record + RECORD, (count - at - 1) * RECORD);
        return count - 1;
    }
    if (what == 7) {
        size_t other = fuzz_below(state, count);

        memcpy(record, data + other * RECORD, RECORD);
        memcpy(data + other * RECORD, copy, RECORD);
    } else if (what == 8) {
        fuzz_mutate_bytes(record);
    } else {
        fuzz_mutate_field(record, state);
    }
    return count;
}

size_t fuzz_mutate(uint8_t *data, size_t size, size_t max_size,
                   unsigned int seed)
{
    size_t room = max_size / RECORD, count = size / RECORD;
    uint64_t state = seed;
    size_t changes = 1 + fuzz_below(&state, 4);

    if (room > FUZZ_RECORDS_MAX) {
        room = FUZZ_RECORDS_MAX;
    }
    if (room == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    if (count > room) {
        count = room;
    }
    while (changes--) {
        count = fuzz_mutate_once(data, count, room, &state);
    }
    return count * RECORD;
}

/* Combines the beginning of one input with the end of another. */
size_t fuzz_crossover(const uint8_t *data1, size_t size1, const uint8_t *data2,
                      size_t size2, uint8_t *out, size_t max_size,
                      unsigned int seed)
{
    uint64_t state = seed;
    size_t first = fuzz_below(&state, size1 / RECORD + 1) * RECORD;
    size_t second = fuzz_below(&state, size2 / RECORD + 1) * RECORD;
    size_t rest = size2 - second;

    if (first > max_size) {
        first = max_size / RECORD * RECORD;
    }
    if (rest > max_size - first) {
        rest = max_size - first;
    }
    memcpy(out, data1, first);
    memcpy(out + first, data2 + second, rest);
    return first + rest;
}
