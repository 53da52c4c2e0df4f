/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fault rules of one end, in the words of the device's
 * (qemu-hw/fault/rules.h): at=tx judges the frames that it sends, at=rx those
 * that come to it. What a wire cannot know or do is refused.
 */
#ifndef RELAY_FAULTS_H
#define RELAY_FAULTS_H

#include "fault/rules.h"

#include <stdio.h>

typedef struct Faults {
    RoceFaults rules;
    uint64_t *sent;             /* packets, for attempt=; NULL: no rule asks */
} Faults;

/* As roce_fault_add(), of the rules that a wire can keep. */
bool faults_add(Faults *f, const char *text, char error[ROCE_FAULT_ERROR]);

/* Each rule in words, a line "NAME id=..." with its counters. */
void faults_print(const Faults *f, const char *name, FILE *to);

/* The rule that the frame hits at this point, or NULL. */
const RoceFaultRule *faults_judge(Faults *f, RoceFaultPoint point,
                                  RoceTime now, const uint8_t *frame,
                                  size_t len);

#endif
