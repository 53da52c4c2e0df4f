/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command queue: two rings of 2^log_depth entries (fakernic/cmdq.h).
 */
#ifndef FAKERNIC_DEVICE_CMDQ_H
#define FAKERNIC_DEVICE_CMDQ_H

#include "common.h"

typedef struct FakernicCmdq {
    uint64_t sq_address;
    uint64_t cq_address;
    uint32_t log_depth;
    uint32_t pi;
    uint32_t ci;
    bool underway;              /* the command at ci goes on in this turn */
    bool lost;                  /* a fault rule: nobody hears of its end */
    RoceTime delayed_until;     /* a fault rule: it begins then; 0: none */
    struct fakernic_cmd request;        /* its copy */
} FakernicCmdq;

/* Judges the registers that describe it; false: the device is dead. */
bool fakernic_cmdq_enable(FakernicState *s);

/* The opcode of a command's name, as CREATE_QP; -1: there is none. */
int fakernic_cmd_number(const char *name);

/* A doorbell: there are commands before 'pi'. Too many end the device. */
void fakernic_cmdq_doorbell(FakernicState *s, uint32_t pi);

/* One that a fault rule held; it means nothing behind a later one. */
void fakernic_cmdq_doorbell_late(FakernicState *s, uint32_t pi);

/*
 * Executes commands, one after the other, as many as the turn has room for but
 * at least one, or a part of one that takes several turns. True: there are
 * more.
 */
bool fakernic_cmdq_run(FakernicState *s);

#endif
