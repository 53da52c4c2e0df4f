/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A capture of all frames. */
#include "capture.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define SNAP_LENGTH 262144
#define ETHERNET    1

typedef struct CaptureFile {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, accuracy;
    uint32_t snap_length;
    uint32_t link_type;
} CaptureFile;

typedef struct CaptureFrame {
    uint32_t seconds, microseconds;
    uint32_t captured, len;
} CaptureFrame;

bool capture_open(Capture *c, const char *path)
{
    const CaptureFile head = { .magic = 0xa1b2c3d4, .major = 2, .minor = 4,
                               .snap_length = SNAP_LENGTH,
                               .link_type = ETHERNET };

    *c = (Capture) { .file = NULL };
    if (!*path) {
        return true;
    }
    c->file = fopen(path, "wbe");
    if (!c->file) {
        return false;
    }
    fwrite(&head, sizeof(head), 1, c->file);
    c->fresh = true;
    return true;
}

void capture_add(Capture *c, const uint8_t *frame, size_t len)
{
    CaptureFrame head = { .captured = (uint32_t)len, .len = (uint32_t)len };
    struct timespec now;

    if (!c->file) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    head.seconds = (uint32_t)now.tv_sec;
    head.microseconds = (uint32_t)(now.tv_nsec / 1000);
    fwrite(&head, sizeof(head), 1, c->file);
    fwrite(frame, len, 1, c->file);
    c->fresh = true;
}

void capture_flush(Capture *c)
{
    if (!c->fresh) {
        return;
    }
    c->fresh = false;
    if (fflush(c->file) != 0 || ferror(c->file)) {
        fprintf(stderr, "relay: the capture ends: %s\n", strerror(errno));
        fclose(c->file);
        c->file = NULL;
    }
}
