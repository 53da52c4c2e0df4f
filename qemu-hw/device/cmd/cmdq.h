/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command queue: two rings of 2^log_depth entries (fakernic/cmdq.h).
 */
#ifndef FAKERNIC_DEVICE_CMD_CMDQ_H
#define FAKERNIC_DEVICE_CMD_CMDQ_H

#include "../common.h"

typedef struct FakernicCmdq {
    uint64_t sq_address;
    uint64_t cq_address;
    uint32_t log_depth;
    uint32_t pi;
    uint32_t ci;
    bool underway;              /* the command at ci has begun */
    bool lost;                  /* a fault rule drops its completion */
    RoceTime delayed_until;     /* a fault rule delays its begin; 0: none */
    struct fakernic_cmd request;        /* copy of the request */
} FakernicCmdq;

/* Checks the registers of the queue; false: it was a fatal error. */
bool fakernic_cmdq_setup(FakernicState *s);

/* The opcode of a command by name, for example CREATE_QP; -1: none. */
int fakernic_cmd_number(const char *name);

/* A doorbell: announces the commands before 'pi'. Too many are fatal. */
void fakernic_cmdq_doorbell(FakernicState *s, uint32_t pi);

/* A doorbell that a fault rule held; ignored if a later one has arrived. */
void fakernic_cmdq_doorbell_late(FakernicState *s, uint32_t pi);

/*
 * Executes commands in order, within the budget, but at least one or a part of
 * one. True: there are more.
 */
bool fakernic_cmdq_work(FakernicState *s);

#endif
