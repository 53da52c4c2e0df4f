/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libFuzzer's hooks, which mutate inputs as described in records.h. Only for
 * targets that are separate programs, as QEMU defines these names itself.
 */
#include "records.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1,
                                 const uint8_t *data2, size_t size2,
                                 uint8_t *out, size_t max_size,
                                 unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed)
{
    return fuzz_mutate(data, size, max_size, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1,
                                 const uint8_t *data2, size_t size2,
                                 uint8_t *out, size_t max_size,
                                 unsigned int seed)
{
    return fuzz_crossover(data1, size1, data2, size2, out, max_size, seed);
}
