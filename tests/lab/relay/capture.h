/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A capture in the format of pcap, which grows while others read it. */
#ifndef RELAY_CAPTURE_H
#define RELAY_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Capture {
    FILE *file;                 /* NULL: nothing is captured */
    bool fresh;                 /* not all is in the file yet */
} Capture;

/* Begins a file, none if the path is empty; false: errno says why. */
bool capture_open(Capture *c, const char *path);

/* A frame, as of now. */
void capture_add(Capture *c, const uint8_t *frame, size_t len);

/* All of it is in the file. One that cannot grow ends, and stderr says so. */
void capture_flush(Capture *c);

#endif
