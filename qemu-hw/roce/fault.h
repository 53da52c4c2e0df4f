/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules: "at this point, for what looks like this, the n-th time, do
 * that". One table of them and one text form for the device, the simulator and
 * the unit tests. It knows no QEMU, allocates nothing, and only judges: what it
 * says is to be done, its caller does.
 *
 *      rule   := at=POINT [match...] [which...] do=ACTION [argument...]
 *      match  := qpn= peer= psn= attempt= opcode= class= number= cmd= len=
 *                rpsn= syndrome= address= why=
 *      which  := nth= times= every= percent= ppm= seed= after= from-ns=
 *                until-ns=
 *
 * Words are separated by blanks, rules by ';' or a new line. Instead of a rule,
 * "remove=ID" takes one away, "remove=all" all of them. Numbers may be
 * hexadecimal; opcode, psn, rpsn, syndrome, number, len and address may be
 * ranges, A-B. An opcode is a number or a name as "rc-read-response-first", or
 * the beginning of one and '*'.
 *
 * Of what matches, the nth is hit (1, if not said), and times-1 more (times=0:
 * all), each every-th; with percent= only so many of them, or with ppm= of a
 * million, by chance from seed. A rule with after= counts from when the rule
 * of that id was hit first.
 */
#ifndef ROCE_FAULT_H
#define ROCE_FAULT_H

#include "roce.h"

#define ROCE_FAULT_RULES    64
#define ROCE_FAULT_ID       16          /* with the end of the string */
/* A rule in words, with its counters and the end of the string, at most. */
#define ROCE_FAULT_TEXT     512
#define ROCE_FAULT_ERROR    512

typedef enum RoceFaultPoint {
    ROCE_FAULT_DEVICE,          /* a turn of the device begins */
    ROCE_FAULT_TX,              /* a frame leaves, on the wire or in loopback */
    ROCE_FAULT_RX,              /* a frame comes in, the same */
    ROCE_FAULT_DOORBELL,        /* a store into a doorbell page */
    ROCE_FAULT_COMMAND,         /* a command is to be executed */
    ROCE_FAULT_SEND_WQE,        /* a WQE was fetched */
    ROCE_FAULT_RECV_WQE,        /* one is to be fetched */
    ROCE_FAULT_CQE,             /* a completion is to be written */
    ROCE_FAULT_EQE,             /* an event is */
    ROCE_FAULT_INTERRUPT,       /* a message is to be sent */
    ROCE_FAULT_DMA_READ,
    ROCE_FAULT_DMA_WRITE,
    ROCE_FAULT_PAGE_LIST,       /* a page list is to be read */
    ROCE_FAULT_CMD_DOORBELL,    /* a store into CMDQ_DOORBELL */
    ROCE_FAULT_DMA_ATOMIC,
    ROCE_FAULT_DMA_FLUSH,
    ROCE_FAULT_POINTS,
} RoceFaultPoint;

typedef enum RoceFaultAction {
    ROCE_FAULT_COUNT,           /* nothing but the hit */
    ROCE_FAULT_DROP,
    ROCE_FAULT_DELAY,           /* by delay-ns */
    ROCE_FAULT_DUPLICATE,
    ROCE_FAULT_REORDER,         /* behind the next 'by' */
    ROCE_FAULT_CORRUPT,         /* mask is XORed to the byte at offset */
    ROCE_FAULT_TRUNCATE,        /* to 'bytes' */
    ROCE_FAULT_MARK,            /* congestion experienced */
    ROCE_FAULT_FAIL,            /* with status, code */
    ROCE_FAULT_FATAL,           /* FATAL_CODE is code */
    ROCE_FAULT_FREEZE,          /* for-ns, or until the rule is removed */
    ROCE_FAULT_DEAD,            /* until a reset of the bus or function */
    ROCE_FAULT_AER,             /* an error of the PCI Express link */
    ROCE_FAULT_LINK_DOWN,       /* for-ns, or until the rule is removed */
    ROCE_FAULT_PAUSE,           /* the whole machine stops */
    ROCE_FAULT_OVERRUN,         /* as if the queue were full */
    ROCE_FAULT_THROTTLE,        /* to mbps */
    ROCE_FAULT_ACTIONS,
} RoceFaultAction;

/* What an access to memory is for. */
typedef enum RoceFaultWhy {
    ROCE_FAULT_WHY_ANY,         /* of a rule */
    ROCE_FAULT_WHY_WQE,
    ROCE_FAULT_WHY_RECORD,      /* a doorbell record */
    ROCE_FAULT_WHY_PAGE_LIST,
    ROCE_FAULT_WHY_PAYLOAD,
    ROCE_FAULT_WHY_CQE,
    ROCE_FAULT_WHY_EQE,
    ROCE_FAULT_WHY_CMD,         /* an entry of the command queue, its data */
} RoceFaultWhy;

/* Of an AER. */
typedef enum RoceFaultSeverity {
    ROCE_FAULT_CORRECTABLE,
    ROCE_FAULT_NONFATAL,
    ROCE_FAULT_FATAL_ERROR,
} RoceFaultSeverity;

typedef struct RoceFaultRange {
    uint64_t first, last;
} RoceFaultRange;

/* What CORRUPT does to bytes; nothing, if mask is 0. */
typedef struct RoceFaultSpoil {
    uint64_t offset;            /* beyond the end: the last byte */
    uint64_t mask;              /* XORed to it, 8 bits */
} RoceFaultSpoil;

/* The PSN counts from nothing that is known. */
#define ROCE_FAULT_NO_RPSN UINT32_MAX

/* What a point has before it. Fields that mean nothing there are zero. */
typedef struct RoceFaultSubject {
    RoceFaultPoint point;
    RoceTime now;
    uint32_t qpn;               /* this end's */
    uint32_t peer;              /* tx: the destination */
    uint32_t psn;
    uint32_t rpsn;              /* from the connection's first */
    uint32_t number;            /* cqn, eqn, vector, opcode of a command */
    uint32_t index;             /* of the WQE */
    uint32_t len;               /* of a frame, an access, a page list */
    uint64_t address;           /* of an access */
    uint8_t why;                /* RoceFaultWhy */
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
    uint64_t given;             /* one bit per word that was said */
    uint8_t class;
    uint8_t severity;           /* RoceFaultSeverity */
    uint8_t why;                /* RoceFaultWhy */
    uint8_t fix_icrc;           /* the ICRC hides what CORRUPT does */
    uint64_t opcodes[4];        /* of packets, one bit each */
    char opcode_text[40];
    bool of_packets;            /* other frames never match */
    RoceFaultRange qpn, peer, psn, rpsn, syndrome, attempt, number, len;
    RoceFaultRange address;
    uint64_t nth, times, every, percent, ppm, seed;
    uint64_t from_ns, until_ns;
    RoceFaultSpoil spoil;
    uint64_t delay_ns, for_ns, by, bytes, status, code, mbps;
    /* what has become of it */
    uint64_t matches, hits;
    uint64_t chance;
    RoceTime goes, free;        /* THROTTLE: when the frame that was hit last
                                 * may go, and when the next */
    RoceTime last_time;
    uint32_t last_qpn, last_psn;
} RoceFaultRule;

/* What the rules of a point are about, together. */
typedef struct RoceFaultWanted {
    uint64_t opcodes[4];        /* one bit each, of packets */
    bool others;                /* what is no packet, too */
} RoceFaultWanted;

typedef struct RoceFaults {
    RoceFaultRule rules[ROCE_FAULT_RULES];
    unsigned count;
    uint32_t points;            /* one bit for each that a rule is about */
    RoceFaultWanted wanted[ROCE_FAULT_POINTS];
    uint32_t serial;            /* for the ids of rules without */
    /* Optional: the number of a command's name; negative: there is none. */
    int (*command)(const char *name);
    uint64_t salt;              /* tables of others have other chances */
} RoceFaults;

/* Is there a rule about this point? All that costs where there is none. */
static inline bool roce_fault_at(const RoceFaults *f, RoceFaultPoint point)
{
    return f->points & 1u << point;
}

/* May one of the rules about TX or RX, of which there is one, be about this? */
bool roce_fault_wants_frame(const RoceFaults *f, RoceFaultPoint point,
                            const uint8_t *frame, size_t len);

/* Is there a rule that may be about this frame, at TX or RX? Most say no. */
static inline bool roce_fault_at_frame(const RoceFaults *f,
                                       RoceFaultPoint point,
                                       const uint8_t *frame, size_t len)
{
    return roce_fault_at(f, point) &&
           roce_fault_wants_frame(f, point, frame, len);
}

/*
 * Takes rules in words. False: none of them is taken, and 'error' says which
 * word is wrong and what could stand there.
 */
bool roce_fault_add(RoceFaults *f, const char *text,
                    char error[ROCE_FAULT_ERROR]);

/* Takes the rule away; false: there is none of this id. */
bool roce_fault_remove(RoceFaults *f, const char *id);

/* The rule of this id, or NULL. */
const RoceFaultRule *roce_fault_find(const RoceFaults *f, const char *id);

/*
 * The rule that this subject hits, the first in the order they were added, or
 * NULL. Every rule that it matches counts it.
 */
const RoceFaultRule *roce_fault_hit(RoceFaults *f,
                                    const RoceFaultSubject *subject);

/* The rule in words, with "matches= hits=" behind it; the length. */
size_t roce_fault_print(const RoceFaultRule *rule, char text[ROCE_FAULT_TEXT]);

/*
 * Fills in what the frame says: len, and of a RoCEv2 frame opcode, psn,
 * syndrome and the destination, as 'peer' at tx and 'qpn' at rx.
 */
void roce_fault_look(RoceFaultSubject *subject, const uint8_t *frame,
                     size_t len);

/*
 * Does to the frame what CORRUPT, TRUNCATE and MARK mean; its new length. Only
 * MARK, which routers do, and CORRUPT that says so keep the checksums right.
 */
size_t roce_fault_spoil(const RoceFaultRule *rule, uint8_t *frame, size_t len);

/*
 * The frame that a rule with THROTTLE has just hit is lost, and takes none of
 * the time of those behind it.
 */
void roce_fault_lost(RoceFaults *faults, const RoceFaultRule *rule);

/* What CORRUPT means, of any bytes; none at all are left alone. */
void roce_fault_corrupt(const RoceFaultSpoil *spoil, void *bytes, size_t len);

/* Is the action offered at the point? */
bool roce_fault_offers(RoceFaultPoint point, RoceFaultAction action);

/* "drop" and the like. */
const char *roce_fault_action_name(RoceFaultAction action);
/* "tx" and the like. */
const char *roce_fault_point_name(RoceFaultPoint point);

#endif
