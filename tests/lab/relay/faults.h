/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fault rules of one end, in the language of the device's rules
 * (qemu-hw/fault/rules.h). at=tx judges the frames that the end sends, at=rx
 * those that are sent to it. Rules that a wire cannot apply are refused.
 */
#ifndef RELAY_FAULTS_H
#define RELAY_FAULTS_H

#include "fault/rules.h"

#include <stdio.h>

typedef struct Faults {
    RoceFaults rules;
    uint64_t *sent;             /* for attempt=; NULL: no rule has it */
} Faults;

/* As roce_fault_add(), but refuses rules that a wire cannot apply. */
bool faults_add(Faults *f, const char *text, char error[ROCE_FAULT_ERROR]);

/* Prints each rule as a line "NAME id=...", with its counters. */
void faults_print(const Faults *f, const char *name, FILE *to);

/* The rule that the frame hits at this point, or NULL. */
const RoceFaultRule *faults_judge(Faults *f, RoceFaultPoint point,
                                  RoceTime now, const uint8_t *frame,
                                  size_t len);

#endif
