/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See memory.h.
 */
#include "qemu/osdep.h"
#include "card.h"
#include "memory.h"
#include "state.h"

bool fakernic_memory_take(FakernicState *s, uint64_t bytes)
{
    if (bytes > s->max_memory - s->memory ||
        !fakernic_card_take(s, bytes)) {
        return false;
    }
    s->memory += bytes;
    return true;
}

void fakernic_memory_give(FakernicState *s, uint64_t bytes)
{
    assert(bytes <= s->memory);
    fakernic_card_give(s, bytes);
    s->memory -= bytes;
}

void fakernic_memory_reset(FakernicState *s)
{
    fakernic_memory_give(s, s->memory);
}
