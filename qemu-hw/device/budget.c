/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The budget of a turn: what the work of stations is counted by, and the note
 * that there is more. turn.c begins and ends a turn; this is below all stations.
 */
#include "qemu/osdep.h"
#include "budget.h"
#include "state.h"

bool fakernic_spend(FakernicState *s, unsigned work)
{
    s->turn_used += work;
    return s->turn_used < s->turn_work;
}

void fakernic_kick(FakernicState *s)
{
    s->kicked = true;
}
