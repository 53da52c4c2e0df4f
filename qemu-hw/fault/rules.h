/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules: "at this point, on the n-th match, do this". The device, the
 * simulator and the unit tests share one table and one text form. This file
 * uses no QEMU code, allocates nothing, and only decides: its caller does what
 * a rule asks for.
 *
 *      rule   := at=POINT [match...] [which...] do=ACTION [argument...]
 *      match  := qpn= peer= psn= attempt= opcode= class= number= cmd= len=
 *                rpsn= syndrome= address= why=
 *      which  := nth= times= every= percent= ppm= seed= after= from-ns=
 *                until-ns=
 *
 * Words are separated by blanks, rules by ';' or a new line. Instead of a
 * rule, "remove=ID" removes one, "remove=all" all of them. Numbers may be
 * hexadecimal; opcode, psn, rpsn, syndrome, number, len and address may be
 * ranges, A-B. An opcode is a number, a name such as "rc-read-response-first",
 * or the beginning of a name and '*'.
 *
 * Of the matches, the rule hits the nth (default 1) and times-1 more (times=0:
 * all), each every-th. With percent= it hits only that percentage of them, or
 * with ppm= that number in a million, by chance from seed. A rule with after=
 * counts from the first hit of the rule with that id.
 */
#ifndef FAKERNIC_FAULT_RULES_H
#define FAKERNIC_FAULT_RULES_H

#include "../roce/roce.h"
#include "why.h"

#define ROCE_FAULT_RULES    64
#define ROCE_FAULT_ID       16          /* with the end of the string */
/* Longest text of a rule, with its counters and the end of the string. */
#define ROCE_FAULT_TEXT     512
#define ROCE_FAULT_ERROR    512

typedef enum RoceFaultPoint {
    ROCE_FAULT_DEVICE,          /* a turn of the device begins */
    ROCE_FAULT_TX,              /* a frame is sent, on the wire or in
                                 * loopback */
    ROCE_FAULT_RX,              /* a frame is received, likewise */
    ROCE_FAULT_DOORBELL,        /* a store into a doorbell page */
    ROCE_FAULT_COMMAND,         /* a command is about to be executed */
    ROCE_FAULT_SEND_WQE,        /* a WQE was fetched */
    ROCE_FAULT_RECV_WQE,        /* a receive WQE is about to be fetched */
    ROCE_FAULT_CQE,             /* a completion is about to be written */
    ROCE_FAULT_EQE,             /* an event is about to be written */
    ROCE_FAULT_INTERRUPT,       /* an MSI-X message is about to be sent */
    ROCE_FAULT_DMA_READ,
    ROCE_FAULT_DMA_WRITE,
    ROCE_FAULT_PAGE_LIST,       /* a page list is about to be read */
    ROCE_FAULT_CMD_DOORBELL,    /* a store into CMDQ_DOORBELL */
    ROCE_FAULT_DMA_ATOMIC,
    ROCE_FAULT_DMA_FLUSH,
    ROCE_FAULT_POINTS,
} RoceFaultPoint;

typedef enum RoceFaultAction {
    ROCE_FAULT_COUNT,           /* only counts the hit */
    ROCE_FAULT_DROP,
    ROCE_FAULT_DELAY,           /* by delay-ns */
    ROCE_FAULT_DUPLICATE,
    ROCE_FAULT_REORDER,         /* after the next 'by' frames */
    ROCE_FAULT_CORRUPT,         /* XORs mask into the byte at offset */
    ROCE_FAULT_TRUNCATE,        /* to 'bytes' */
    ROCE_FAULT_MARK,            /* sets Congestion Experienced (ECN) */
    ROCE_FAULT_FAIL,            /* with status, code */
    ROCE_FAULT_FATAL,           /* FATAL_CODE is code */
    ROCE_FAULT_FREEZE,          /* for-ns, or until the rule is removed */
    ROCE_FAULT_DEAD,            /* until a reset of the bus or function */
    ROCE_FAULT_AER,             /* an error of the PCI Express link */
    ROCE_FAULT_LINK_DOWN,       /* for-ns, or until the rule is removed */
    ROCE_FAULT_PAUSE,           /* stops the whole machine */
    ROCE_FAULT_OVERRUN,         /* as if the queue were full */
    ROCE_FAULT_THROTTLE,        /* to mbps */
    ROCE_FAULT_ACTIONS,
} RoceFaultAction;

/* Severity of an AER error. */
typedef enum RoceFaultSeverity {
    ROCE_FAULT_CORRECTABLE,
    ROCE_FAULT_NONFATAL,
    ROCE_FAULT_FATAL_ERROR,
} RoceFaultSeverity;

typedef struct RoceFaultRange {
    uint64_t first, last;
} RoceFaultRange;

/* How CORRUPT changes bytes; mask 0 changes nothing. */
typedef struct RoceFaultCorruption {
    uint64_t offset;            /* beyond the end: the last byte */
    uint64_t mask;              /* XORed into the byte, 8 bits */
} RoceFaultCorruption;

/* The connection's first PSN is unknown. */
#define ROCE_FAULT_NO_RPSN UINT32_MAX

/* What happens at a point. Fields without meaning there are zero. */
typedef struct RoceFaultSubject {
    RoceFaultPoint point;
    RoceTime now;
    uint32_t qpn;               /* local QP */
    uint32_t peer;              /* tx: the destination */
    uint32_t psn;
    uint32_t rpsn;              /* psn relative to the connection's first */
    uint32_t number;            /* cqn, eqn, vector, opcode of a command */
    uint32_t index;             /* of the WQE */
    uint32_t len;               /* of a frame, an access, a page list */
    uint64_t address;           /* of an access */
    uint8_t why;                /* RoceWhy */
    uint8_t opcode;             /* with 'roce': of the BTH */
    uint8_t attempt;            /* tx: 1, 2, ... */
    uint8_t syndrome;           /* of the AETH, if the opcode has one */
    bool roce;
    bool response;              /* with 'roce': not a request */
} RoceFaultSubject;

typedef struct RoceFaultRule {
    char id[ROCE_FAULT_ID];
    char after[ROCE_FAULT_ID];
    RoceFaultPoint at;
    RoceFaultAction act;
    uint64_t given;             /* one bit per word in the rule's text */
    uint8_t class;
    uint8_t severity;           /* RoceFaultSeverity */
    uint8_t why;                /* RoceWhy */
    uint8_t fix_icrc;           /* recompute the ICRC after CORRUPT */
    uint64_t opcodes[4];        /* of packets, one bit each */
    char opcode_text[40];
    bool of_packets;            /* other frames never match */
    RoceFaultRange qpn, peer, psn, rpsn, syndrome, attempt, number, len;
    RoceFaultRange address;
    uint64_t nth, times, every, percent, ppm, seed;
    uint64_t from_ns, until_ns;
    RoceFaultCorruption corruption;
    uint64_t delay_ns, for_ns, by, bytes, status, code, mbps;
    /* state of the rule */
    uint64_t matches, hits;
    uint64_t chance;
    RoceTime goes, free;        /* THROTTLE: when the last frame hit may go,
                                 * and when the next may */
    RoceTime last_time;
    uint32_t last_qpn, last_psn;
} RoceFaultRule;

/* The frames that any rule of a point may match. */
typedef struct RoceFaultWanted {
    uint64_t opcodes[4];        /* one bit each, of packets */
    bool others;                /* frames that are no packets */
} RoceFaultWanted;

typedef struct RoceFaults {
    RoceFaultRule rules[ROCE_FAULT_RULES];
    unsigned count;
    uint32_t points;            /* bit map of points with rules */
    RoceFaultWanted wanted[ROCE_FAULT_POINTS];
    uint32_t serial;            /* for ids of rules without one */
    /* Optional: number of a command by name; negative: unknown. */
    int (*command)(const char *name);
    uint64_t salt;              /* makes the chances of this table differ */
} RoceFaults;

/* Does the point have a rule? Without one this is the whole cost. */
static inline bool roce_fault_at(const RoceFaults *f, RoceFaultPoint point)
{
    return f->points & 1u << point;
}

/*
 * May a rule of TX or RX match this frame? The caller has checked that the
 * point has a rule.
 */
bool roce_fault_wants_frame(const RoceFaults *f, RoceFaultPoint point,
                            const uint8_t *frame, size_t len);

/*
 * May a rule match this frame, at TX or RX? For most frames the answer is no.
 */
static inline bool roce_fault_at_frame(const RoceFaults *f,
                                       RoceFaultPoint point,
                                       const uint8_t *frame, size_t len)
{
    return roce_fault_at(f, point) &&
           roce_fault_wants_frame(f, point, frame, len);
}

/*
 * Adds rules from text. False: none is added, and 'error' names the invalid
 * word and the valid ones.
 */
bool roce_fault_add(RoceFaults *f, const char *text,
                    char error[ROCE_FAULT_ERROR]);

/* Removes the rule. False: no rule has this id. */
bool roce_fault_remove(RoceFaults *f, const char *id);

/* The rule of this id, or NULL. */
const RoceFaultRule *roce_fault_find(const RoceFaults *f, const char *id);

/*
 * Returns the first rule, in the order they were added, that this subject
 * hits, or NULL. Each rule that matches counts the match.
 */
const RoceFaultRule *roce_fault_hit(RoceFaults *f,
                                    const RoceFaultSubject *subject);

/* Prints the rule with "matches= hits=" at its end. Returns the length. */
size_t roce_fault_print(const RoceFaultRule *rule, char text[ROCE_FAULT_TEXT]);

/*
 * Fills in the fields that the frame determines: len, and for a RoCEv2 frame
 * opcode, psn, syndrome and the destination, as 'peer' at tx and 'qpn' at rx.
 */
void roce_fault_look(RoceFaultSubject *subject, const uint8_t *frame,
                     size_t len);

/*
 * Applies CORRUPT, TRUNCATE or MARK to the frame. Returns its new length.
 * Checksums stay correct only with MARK, which routers set too, and with
 * CORRUPT that asks for it.
 */
size_t roce_fault_change(const RoceFaultRule *rule, uint8_t *frame, size_t len);

/*
 * The frame that a THROTTLE rule has just hit is lost. It must not delay the
 * frames behind it.
 */
void roce_fault_lost(RoceFaults *faults, const RoceFaultRule *rule);

/* Applies CORRUPT to any bytes. Does nothing if there are none. */
void roce_fault_corrupt(const RoceFaultCorruption *corruption, void *bytes,
                        size_t len);

/* Is the action available at the point? */
bool roce_fault_offers(RoceFaultPoint point, RoceFaultAction action);

/* Name of an action, such as "drop". */
const char *roce_fault_action_name(RoceFaultAction action);
/* Name of a point, such as "tx". */
const char *roce_fault_point_name(RoceFaultPoint point);

#endif
