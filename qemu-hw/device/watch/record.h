/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder: a log of the device's last actions. Each entry has 64 bytes and
 * a time of the host's monotonic clock. Devices on one host share that clock,
 * so their records form one timeline (tests/timeline).
 *
 * The last 1,024 entries are always kept in memory. If the property x-record
 * names a file, more entries, and all frames, go there while x-recording is on.
 * The file is mapped, so it stays readable however QEMU ends. It contains the
 * names of its numbers, because its reader may have another version than the
 * device.
 */
#ifndef FAKERNIC_DEVICE_WATCH_RECORD_H
#define FAKERNIC_DEVICE_WATCH_RECORD_H

#include "../common.h"

#define FAKERNIC_RECORDS        1024
#define FAKERNIC_RECORDS_FILE   (1u << 20)
#define FAKERNIC_RECORD_ARGS    11
#define FAKERNIC_RECORD_FRAMES  (1u << 26)      /* bytes of frames in a file */
#define FAKERNIC_RECORD_NAMES   4040

/* fakernic_record_names[] in record.c has the arguments of each kind. */
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
    FAKERNIC_RECORD_SQ_RECORD,
    /* A saved state was loaded: the record of another QEMU continues here. */
    FAKERNIC_RECORD_LOADED,
    FAKERNIC_RECORD_KINDS,
} FakernicRecordKind;

/* What an application has stamped. */
typedef enum FakernicRecordStep {
    FAKERNIC_RECORD_POST = 1,   /* work requests from 'index' on */
    FAKERNIC_RECORD_POLL,       /* it has taken the entries before 'index' */
} FakernicRecordStep;

/* The direction of a frame. */
typedef enum FakernicRecordWay {
    FAKERNIC_RECORD_IN,
    FAKERNIC_RECORD_OUT,
    FAKERNIC_RECORD_LOOPBACK,
} FakernicRecordWay;

/* An entry, also in the file; in the host's byte order. */
typedef struct FakernicRecord {
    uint64_t time_ns;
    uint64_t value;
    uint32_t kind;
    uint32_t arg[FAKERNIC_RECORD_ARGS];
} FakernicRecord;

/*
 * The first 4 KiB of the file. 'names' has a line per kind, with the names of
 * its value (- for none) and its arguments. Then follow the lines "points" and
 * "actions" of fault rules.
 */
typedef struct FakernicRecordHeader {
    char magic[8];              /* "fakerec" */
    uint32_t version;           /* 2 */
    uint32_t room;              /* entries behind this; a power of two */
    uint64_t count;             /* written; the last 'room' of them are kept */
    uint64_t virtual_ns;        /* the device's clock minus the host's */
    uint8_t mac[6];
    uint8_t rsvd[2];
    uint64_t frames_room;       /* bytes of frames, behind the entries */
    uint64_t frames;            /* bytes written; the last ones are kept */
    char names[FAKERNIC_RECORD_NAMES];
} FakernicRecordHeader;

typedef struct FakernicRecorder {
    FakernicRecord *last;               /* FAKERNIC_RECORDS, a ring */
    uint64_t count;                     /* entries since realize */
    FakernicRecordHeader *header;       /* of the file, or NULL */
    FakernicRecord *ring;               /* in the file */
    uint8_t *frames;
    char *path;
    size_t mapped;
    int fd;                             /* locked against other devices */
    bool paused;                        /* the file gets no entries */
    uint64_t missed;                    /* entries and frames since then */
    FakernicRecord *first_error;        /* copy of 'last' then, or NULL */
    uint64_t first_error_count;
    bool first_error_fatal;
} FakernicRecorder;

/* Opens the file, if x-record names one. False: it cannot be opened. */
bool fakernic_recorder_init(FakernicState *s, Error **errp);
/* Closes it; the file stays. */
void fakernic_recorder_cleanup(FakernicState *s);

/* True: the file gets entries. */
bool fakernic_recorder_is_on(const FakernicState *s);
/* Pauses or resumes the file; a resume records how many entries it missed. */
void fakernic_recorder_set(FakernicState *s, bool on, Error **errp);

/* Adds an entry; arguments not given are 0. */
void fakernic_record_put(FakernicState *s, FakernicRecordKind kind,
                         uint64_t value,
                         const uint32_t arg[FAKERNIC_RECORD_ARGS]);
#define fakernic_record(s, kind, value, ...)                              \
    fakernic_record_put(s, FAKERNIC_RECORD_ ## kind, value,               \
                        (const uint32_t[FAKERNIC_RECORD_ARGS])            \
                        { __VA_ARGS__ })

/*
 * Adds a stamp found in guest memory, with the host's CPU ticks now. The
 * guest's ticks have the same rate, so the reader can compute the stamp's age.
 */
void fakernic_record_mark(FakernicState *s, FakernicRecordStep step,
                          uint32_t id, uint32_t index, uint64_t stamp);

/*
 * Adds a frame at the port to the file, with all of its bytes, which must be
 * fewer than FAKERNIC_RECORD_FRAMES.
 */
void fakernic_record_frame(FakernicState *s, FakernicRecordWay way,
                           const uint8_t *frame, size_t len);

/*
 * Keeps the entries before the first error since power-on. The first fatal
 * error replaces them, because QP errors are frequent.
 */
void fakernic_record_keep(FakernicState *s, bool fatal);

/*
 * The entries before the error that is kept; the last ones if there is none or
 * 'now' is set. One line each: number, time, kind and named arguments. The
 * caller frees the text.
 */
char *fakernic_record_text(const FakernicState *s, bool now);

/* Saves or loads the entries in memory; the file stays as it is. */
void fakernic_record_save(RoceStream *s, FakernicState *d);

#endif
