/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A capture in pcap format. Other programs may read it while it grows. */
#ifndef RELAY_CAPTURE_H
#define RELAY_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Capture {
    FILE *file;                 /* NULL: nothing is captured */
    bool fresh;                 /* some frames are not in the file yet */
} Capture;

/* Creates the file; none if the path is empty. False: see errno. */
bool capture_open(Capture *c, const char *path);

/* Adds a frame with the current time. */
void capture_add(Capture *c, const uint8_t *frame, size_t len);

/* Writes all frames to the file. An error is reported and ends the capture. */
void capture_flush(Capture *c);

#endif
