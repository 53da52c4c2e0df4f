/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The structures of rings, queues and QPs. Their functions are in ring.h, eq.h,
 * cq.h, rq.h, sq.h and qp.h, and a command's progress is used in cmd/.
 */
#ifndef FAKERNIC_DEVICE_QUEUE_TYPES_H
#define FAKERNIC_DEVICE_QUEUE_TYPES_H

#include "../common.h"

typedef struct FakernicCounter FakernicCounter;
typedef struct FakernicRss FakernicRss;

typedef struct FakernicRing {
    uint64_t *pages;            /* NULL: there is no such queue */
    uint32_t page_count;
    uint8_t page_shift;
    uint8_t log_entry;          /* bytes of an entry */
    uint8_t why;                /* RoceWhy of an entry */
    uint32_t depth;             /* entries, a power of two */
} FakernicRing;

/* The cached table of an upper level of a page list. */
typedef struct FakernicUpperTable {
    bool valid;
    uint64_t number;
    uint64_t entries[FAKERNIC_PAGE_TABLE_ENTRIES];
} FakernicUpperTable;

/* The state of reading a page list. */
typedef struct FakernicPageReader {
    uint64_t *pages;            /* those read so far; NULL: reads no list */
    uint64_t needed;
    uint64_t done;
    uint64_t address;           /* of the root table, or of the first page */
    uint8_t levels;
    uint8_t page_shift;
    FakernicUpperTable upper[FAKERNIC_PAGE_LIST_LEVELS_MAX - 1];
} FakernicPageReader;

/*
 * An object that raises events. An event that finds its EQ full stays in
 * 'latched', one bit per type, until the consumer index moves.
 */
typedef struct FakernicEventSource {
    uint32_t id;
    uint32_t latched;
    uint32_t data;
    bool waiting;
    QTAILQ_ENTRY(FakernicEventSource) next;
} FakernicEventSource;

typedef QTAILQ_HEAD(FakernicEventList, FakernicEventSource) FakernicEventList;

typedef struct FakernicEq {
    uint32_t id;
    FakernicRing ring;
    uint32_t pi;
    uint32_t ci;
    uint16_t vector;
    bool armed;
    RoceTime stalled_until;     /* by a fault rule, or because its memory
                                 * cannot be written; 0: it is not */
    uint32_t users;             /* CQs */
    FakernicEventList waiting;  /* completion events */
    QTAILQ_ENTRY(FakernicEq) late;      /* in s->late_eqs */
} FakernicEq;

typedef enum FakernicArm {
    FAKERNIC_ARM_NONE,
    FAKERNIC_ARM_SOLICITED,
    FAKERNIC_ARM_ANY,
} FakernicArm;

/* An object that fails with its CQ: a QP or an XRC SRQ. */
typedef struct FakernicCqUser {
    struct FakernicQp *qp;
    struct FakernicSrq *srq;
    QLIST_ENTRY(FakernicCqUser) next;
} FakernicCqUser;

typedef struct FakernicCq {
    uint32_t id;
    FakernicRing ring;
    FakernicEq *eq;
    uint32_t uar;
    uint32_t pi;
    uint32_t ci;                /* as last read from the record */
    uint32_t stamped;           /* ci of the last stamp */
    uint32_t solicited_pi;      /* pi after the last solicited entry */
    uint32_t users;             /* QPs, XRC SRQs */
    FakernicArm arm;
    bool ignore_overrun;
    bool error;
    QLIST_HEAD(, FakernicCqUser) fail_with;     /* users that have not failed */
    QTAILQ_ENTRY(FakernicCq) failed;            /* in s->failed_cqs */
    uint16_t count;             /* moderation: entries per event */
    uint16_t period_us;         /* moderation: longest wait of an entry, or 0 */
    uint32_t held;              /* entries whose event is held */
    RoceTime deadline;          /* of the held event, while in s->held_cqs */
    bool is_held;
    FakernicEventSource completion;
    FakernicEventSource async;
} FakernicCq;

typedef struct FakernicSrq {
    uint32_t id;
    uint64_t serial;            /* never reused, unlike the number */
    FakernicRing ring;
    uint32_t pi;
    uint32_t ci;
    RoceTime waits;             /* a fault rule stalls it until then; 0: none */
    uint32_t limit;
    uint32_t pdn;
    uint32_t xrcdn;             /* 0: not an XRC SRQ */
    FakernicCq *cq;             /* XRC SRQ: CQ of its receives */
    uint32_t users;             /* QPs */
    bool error;
    FakernicEventSource async;
    FakernicCqUser cq_user;
} FakernicSrq;

/*
 * A QP or a WQ. In the engine a WQ is a raw-packet QP that has an RQ only, with
 * a QP number.
 */
typedef struct FakernicQp {
    uint32_t qpn;
    uint8_t type;
    bool is_wq;
    uint32_t pdn;               /* XRC target: 0 */
    uint32_t xrcdn;             /* XRC target, else 0 */
    uint32_t uar;
    FakernicCq *send_cq;        /* XRC target, WQ, RSS QP: NULL */
    FakernicCq *recv_cq;        /* XRC initiator and target, RSS QP: NULL */
    FakernicSrq *srq;
    FakernicRss *rss;           /* or NULL */
    FakernicRing sq;
    uint32_t sq_pi;             /* basic blocks, from the doorbell */
    uint32_t sq_ci;             /* basic blocks fetched */
    RoceTime sq_waits;          /* a fault rule stalls it until then; 0: none */
    bool sq_awake;              /* in s->awake_sqs: its record is read */
    bool sq_streams;            /* it was busy when its record last had a new
                                 * index; false after a doorbell */
    bool sq_unreadable;         /* DMA of its record failed: so does the next
                                 * fetch */
    RoceTime sq_sleeps_at;      /* if no index comes before */
    QTAILQ_ENTRY(FakernicQp) awake;
    QTAILQ_ENTRY(FakernicQp) watched;
    FakernicRing rq;
    uint32_t rq_pi;             /* slots, as last read from the record */
    uint32_t rq_ci;             /* slots fetched */
    RoceTime rq_waits;          /* as sq_waits */
    uint32_t flows;             /* flow rules that name it */
    uint32_t entries;           /* WQ: table entries that name it */
    uint64_t memory;            /* accounted for it, without its rings */
    FakernicCounter *counter;   /* or NULL */
    FakernicEventSource async;
    FakernicCqUser send_user;
    FakernicCqUser recv_user;
} FakernicQp;

/*
 * The progress of a command that takes several turns. It belongs to the command
 * under execution. cmdq.c frees it when the command ends, and a reset at once.
 */
typedef struct FakernicProgress {
    FakernicPageReader pages;   /* of a region or a CQ; memory is accounted */
    FakernicRing ring;          /* resizes: the new ring */
    uint32_t first;             /* resizes: the first entry to copy */
    uint32_t next;              /* resizes: the next entry to copy;
                                 * UPDATE_PAGES: the next page */
    uint32_t last;              /* SRQ resizes: end of the entries to copy */
    bool waking;                /* UPDATE_PAGES: wakes those that wait */
} FakernicProgress;

#endif
