/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder: what the device did last, an entry of 64 bytes each, with the
 * host's monotonic clock. Two devices on one host have one clock, so that
 * their records together are a timeline (tests/timeline).
 *
 * It always records, the last 1,024 entries; into a file, too, which has room
 * for more, and for the frames, if the property x-record names one, and while
 * x-recording is on. A file stays readable however QEMU ends: it is mapped. And
 * it tells its reader what its numbers mean, who may be of another version than
 * the device.
 */
#ifndef FAKERNIC_DEVICE_RECORD_H
#define FAKERNIC_DEVICE_RECORD_H

#include "common.h"

#define FAKERNIC_RECORDS        1024
#define FAKERNIC_RECORDS_FILE   (1u << 20)
#define FAKERNIC_RECORD_ARGS    11
#define FAKERNIC_RECORD_FRAMES  (1u << 26)      /* bytes, of a file */
#define FAKERNIC_RECORD_NAMES   4040

/* What the arguments are stands in fakernic_record_names[], record.c. */
typedef enum FakernicRecordKind {
    FAKERNIC_RECORD_NONE,
    FAKERNIC_RECORD_DOORBELL_SQ,
    FAKERNIC_RECORD_WQE,
    FAKERNIC_RECORD_RECV_WQE,
    FAKERNIC_RECORD_TX,
    FAKERNIC_RECORD_RX,
    FAKERNIC_RECORD_DROP,
    FAKERNIC_RECORD_NAK_TX,
    FAKERNIC_RECORD_NAK_RX,
    FAKERNIC_RECORD_RETRY,
    FAKERNIC_RECORD_TIMEOUT,
    FAKERNIC_RECORD_PROBE,
    FAKERNIC_RECORD_QP_STATE,
    FAKERNIC_RECORD_QP_ERROR,
    FAKERNIC_RECORD_DMA_READ,
    FAKERNIC_RECORD_DMA_WRITE,
    FAKERNIC_RECORD_CQE,
    FAKERNIC_RECORD_CQE_VISIBLE,
    FAKERNIC_RECORD_ARM,
    FAKERNIC_RECORD_EQE,
    FAKERNIC_RECORD_DOORBELL_EQ,
    FAKERNIC_RECORD_INTERRUPT,
    FAKERNIC_RECORD_COMMAND,
    FAKERNIC_RECORD_COMMAND_DONE,
    FAKERNIC_RECORD_FAULT,
    FAKERNIC_RECORD_FATAL,
    FAKERNIC_RECORD_RESET,
    FAKERNIC_RECORD_HELD,
    FAKERNIC_RECORD_FRAME,
    FAKERNIC_RECORD_MARK,
    FAKERNIC_RECORD_RESUMED,
    FAKERNIC_RECORD_RESTS,
    FAKERNIC_RECORD_KINDS,
} FakernicRecordKind;

/* What a program has stamped. */
typedef enum FakernicRecordStep {
    FAKERNIC_RECORD_POST = 1,   /* work requests from 'index' on */
    FAKERNIC_RECORD_POLL,       /* it has taken the entries before 'index' */
} FakernicRecordStep;

/* Where a frame comes from or goes. */
typedef enum FakernicRecordWay {
    FAKERNIC_RECORD_IN,
    FAKERNIC_RECORD_OUT,
    FAKERNIC_RECORD_LOOPBACK,
} FakernicRecordWay;

/* As in the file, in the host's byte order. */
typedef struct FakernicRecord {
    uint64_t time_ns;
    uint64_t value;
    uint32_t kind;
    uint32_t arg[FAKERNIC_RECORD_ARGS];
} FakernicRecord;

/*
 * The file's first 4 KiB. The names are lines: one per kind, with the names of
 * its value (- for none) and its arguments; then "points" and "actions" of
 * fault rules.
 */
typedef struct FakernicRecordHeader {
    char magic[8];              /* "fakerec" */
    uint32_t version;           /* 2 */
    uint32_t room;              /* entries behind this; a power of two */
    uint64_t count;             /* written; over 'room' the oldest went */
    uint64_t virtual_ns;        /* the device's clock, less the host's */
    uint8_t mac[6];
    uint8_t rsvd[2];
    uint64_t frames_room;       /* bytes of frames, behind the entries */
    uint64_t frames;            /* written; over the room the oldest went */
    char names[FAKERNIC_RECORD_NAMES];
} FakernicRecordHeader;

typedef struct FakernicRecorder {
    FakernicRecord *last;               /* FAKERNIC_RECORDS, a ring */
    uint64_t count;                     /* of all */
    FakernicRecordHeader *header;       /* of the file, or NULL */
    FakernicRecord *ring;               /* in it */
    uint8_t *frames;
    char *path;
    size_t mapped;
    int fd;                             /* its lock keeps others away */
    bool paused;                        /* the file gets nothing */
    uint64_t missed;                    /* since then */
    FakernicRecord *first_error;        /* 'last' as it was then, or NULL */
    uint64_t first_error_count;
    bool first_error_fatal;
} FakernicRecorder;

/* Opens the file, if there is to be one. False: it cannot be. */
bool fakernic_recorder_init(FakernicState *s, Error **errp);
/* Closes it; the file stays. */
void fakernic_recorder_cleanup(FakernicState *s);

/* Does the file get entries? */
bool fakernic_recorder_is_on(const FakernicState *s);
/* Whether the file gets entries; it is told how many it missed. */
void fakernic_recorder_set(FakernicState *s, bool on, Error **errp);

/* Notes one thing; arguments not given are 0. */
void fakernic_record_put(FakernicState *s, FakernicRecordKind kind,
                         uint64_t value,
                         const uint32_t arg[FAKERNIC_RECORD_ARGS]);
#define fakernic_record(s, kind, value, ...)                              \
    fakernic_record_put(s, FAKERNIC_RECORD_ ## kind, value,               \
                        (const uint32_t[FAKERNIC_RECORD_ARGS])            \
                        { __VA_ARGS__ })

/*
 * Notes a stamp that was found, and the ticks of this processor now: a guest's
 * run as fast, so that who reads it knows how old the stamp is.
 */
void fakernic_record_mark(FakernicState *s, FakernicRecordStep step,
                          uint32_t id, uint32_t index, uint64_t stamp);

/*
 * Notes a frame at the port, with all of its bytes; only in a file.
 * It has less than FAKERNIC_RECORD_FRAMES bytes.
 */
void fakernic_record_frame(FakernicState *s, FakernicRecordWay way,
                           const uint8_t *frame, size_t len);

/*
 * An error: keeps what led to it, of the first since power-on; of the first
 * fatal one, where there is any, as QPs fail all day.
 */
void fakernic_record_keep(FakernicState *s, bool fatal);

/*
 * The entries that led to the error that is kept, else, or for NOW, the last
 * ones, a line each: its number, time, kind and arguments by name. To be freed.
 */
char *fakernic_record_text(const FakernicState *s, bool now);

#endif
