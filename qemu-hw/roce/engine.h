/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The internal interface of the engine: what its files share, grouped by the
 * file that owns it. A file calls only files on its own line or below
 * (tests/laws):
 *
 *      save
 *      roce
 *      input
 *      completer, responder, datagram, raw
 *      qp_save
 *      requester, response, mcast
 *      qp
 *      congestion, migration
 *      complete, path, mr_wr
 *      mr_save
 *      pacer, pages, wire, wr, mr, mr_access
 *      sched, sendq, retry, window, credit, rate, odp, opcode, icrc, ether,
 *      toeplitz
 *      stream
 */
#ifndef ROCE_ENGINE_H
#define ROCE_ENGINE_H

#include "roce.h"
#include "credit.h"
#include "ether.h"
#include "mr.h"
#include "opcode.h"
#include "psn.h"
#include "rate.h"
#include "retry.h"
#include "sendq.h"
#include "stream.h"
#include "window.h"
#include "wire.h"
#include "wr.h"

/* Largest message (IBTA 9.7.2, C9-54 "2^31 bytes"). */
#define ROCE_MESSAGE_MAX 0x80000000u
/* The requester asks for an ACK at least once in this many packets. */
#define ROCE_ACK_EVERY 32
_Static_assert(ROCE_WINDOW_SHARE >= ROCE_ACK_EVERY,
               "a QP asks for an ACK within its share");
/* WQEs that one QP may consume in a turn that produces no frame. */
#define ROCE_WQES_PER_TURN 16
/*
 * Bytes of frames that a QP sends before the next QP has its turn. It sends at
 * least one frame.
 */
#define ROCE_SHARE_BYTES 2048
/* WQEs of one queue that one call flushes. */
#define ROCE_FLUSH_BATCH 32
/* Steps (roce_work()) of one roce_tick(). The QP that reaches the limit is the
 * last that it serves; the deadlines of the others stay due. */
#define ROCE_STEPS_PER_TICK 64
/* Steps of one roce_wake_some(), and of one roce_page_requests_resume(). */
#define ROCE_STEPS_PER_WAKE 256
/* Entries of page tables and windows that count as one step. */
#define ROCE_LOOKS_PER_STEP 16
/*
 * Entries of the GID table that count as one step. They are adjacent in
 * memory, so a look at one is cheaper.
 */
#define ROCE_GIDS_PER_STEP 64
/* Limits of one roce_output() call: turns of QPs, and steps. The last turn may
 * exceed the limit by as many steps again. */
#define ROCE_TURNS_PER_OUTPUT 64
#define ROCE_STEPS_PER_OUTPUT 256
/* Initial number of READs and atomics that a responder can remember. */
#define ROCE_RESOURCES_FIRST 2u
#define ROCE_MCAST_QPS_PER_GROUP 64
#define ROCE_MCAST_GROUPS_MAX 256

#define ROCE_QKEY_GSI 0x80010000u
#define ROCE_PKEY_DEFAULT 0xffffu

/* AETH syndromes (IBTA 9.7.5.2, table 44). */
#define ROCE_AETH_ACK 0x00              /* with a credit code */
#define ROCE_AETH_RNR 0x20
#define ROCE_AETH_NAK 0x60
#define ROCE_AETH_TYPE 0x60
enum {
    ROCE_NAK_SEQUENCE = 0,
    ROCE_NAK_INVALID_REQUEST = 1,
    ROCE_NAK_REMOTE_ACCESS = 2,
    ROCE_NAK_REMOTE_OPERATION = 3,
};

/* A receive work request being filled. */
typedef struct RoceReceive {
    RoceRecvWr wr;
    uint32_t srqn;              /* its SRQ; 0: the QP's own RQ */
    uint64_t srq;               /* XRC: RoceXrcSrq.id of that SRQ */
    uint32_t cqn;               /* CQ of its completion */
    bool held;                  /* fetched, not yet completed */
    uint64_t capacity;
} RoceReceive;

typedef enum RoceAnswer {
    ROCE_ANSWER_READ,           /* data, read from memory each time */
    ROCE_ANSWER_ATOMIC,         /* the value before */
    ROCE_ANSWER_DONE,           /* an empty READ response: ATOMIC WRITE,
                                 * FLUSH */
    ROCE_ANSWER_FLUSH,          /* in progress; becomes DONE */
    ROCE_ANSWERS,
} RoceAnswer;

/*
 * A READ or atomic whose answer is due, or may be requested again (IBTA
 * 9.7.5.1.4, "responder resources").
 */
typedef struct RoceResource {
    bool valid;
    bool pending;               /* (the rest of) the answer is not sent yet */
    uint8_t replays;            /* number of replays, after it was sent in
                                 * full */
    RoceAnswer kind;
    uint32_t psn, psn_count;
    uint32_t start, next;       /* packets: first of this answer, next to
                                 * send */
    uint32_t msn;
    uint64_t address;           /* READ */
    uint32_t rkey, length;
    RocePd pd;
    RoceFlushRange flush;       /* FLUSH: the rest of its range */
    uint32_t access;            /* FLUSH: the rights it needs */
    uint64_t original;          /* atomic: value before */
} RoceResource;

/* What the responder has to send, in addition to READ and atomic answers. */
typedef enum RoceDue {
    ROCE_DUE_NOTHING,
    ROCE_DUE_ACK,
    ROCE_DUE_NAK,              /* sequence error or RNR */
    ROCE_DUE_FATAL,            /* NAK; the QP fails when it is sent */
    ROCE_DUES,
} RoceDue;

/* Kind of the request message in progress. */
typedef enum RoceMessage {
    ROCE_MESSAGE_NONE,
    ROCE_MESSAGE_SEND,
    ROCE_MESSAGE_WRITE,
    ROCE_MESSAGE_SKIP,          /* UC: the rest of a damaged message */
    ROCE_MESSAGES,
} RoceMessage;

typedef struct RoceResponder {
    uint32_t epsn;              /* expected PSN */
    uint32_t msn;
    RocePd pd;                  /* PD of the peer's keys; XRC: of the message */
    RoceMessage message;
    bool nak_sent;              /* a NAK for epsn was sent: no answer to later
                                 * PSNs */
    RoceDue due;
    uint8_t syndrome;
    uint32_t due_psn;
    uint8_t event;              /* with DUE_FATAL */
    uint16_t vendor_err;
    uint64_t offset;            /* SEND, WRITE: bytes received */
    uint64_t address;           /* WRITE */
    uint32_t rkey, length;
    RoceResource *ring;         /* the latest resources; grows with use */
    uint32_t ring_size;
    uint32_t res_pi;            /* number of resources used, free running */
    uint32_t res_pending;
    uint32_t res_first;         /* no resource before this one is pending */
    bool pages_awaited;         /* the oldest answer waits for pages */
    uint8_t faults;             /* page faults of the expected packet */
    bool flushing;              /* a FLUSH is in progress: execute nothing
                                 * after it */
    bool flush_gap;             /* a request was dropped during the FLUSH */
    bool flush_failed;          /* roce_flush_ended() has reported an error */
    uint64_t flush_ticket;      /* of the job in progress; 0: none */
    bool flush_waits;           /* waits for roce_flush_resume(), in the list
                                 * below */
    struct RoceQp *flush_next, *flush_prev;
} RoceResponder;

/* When the QP may send its next frame. */
typedef struct RocePace {
    RoceTime next;
    RoceTime wake;              /* end of the QP's wait; NEVER: it does not
                                 * wait */
    RoceDcqcn dcqcn;
} RocePace;

/* A congestion notification (CNP) to send. */
typedef struct RoceCnp {
    bool due;
    RoceTime next;              /* earliest time of the next */
    RoceAv av;
    uint32_t dest_qpn;
} RoceCnp;

/* The part of a QP that waits for pages. */
typedef enum RoceWaitKind {
    ROCE_WAIT_SEND,             /* its sends, or the memory for their answers */
    ROCE_WAIT_ANSWER,           /* the oldest answer to the peer */
    ROCE_WAIT_REQUEST,          /* nothing: the peer repeats its request */
    ROCE_WAIT_KINDS,
} RoceWaitKind;

typedef struct RoceWait {
    struct RoceQp *qp;
    RoceWaitKind kind;
    bool waits;
    bool in_line;               /* the host has not taken the request yet */
    RoceFault want;
    struct RoceWait *next, *prev;               /* others in the bucket of the
                                                 * region */
    struct RoceWait *line_next, *line_prev;
} RoceWait;

#define ROCE_WAIT_BUCKETS 1024u

/* Pages that the host has reported, and the next waiter to check for them. */
typedef struct RocePageReport {
    RoceWait *next;             /* in the bucket; NULL: all have been checked */
    uint32_t key;
    uint64_t first, last;       /* addresses */
    bool refused;
} RocePageReport;

typedef struct RoceQp {
    uint32_t qpn;
    RoceQpInit init;
    RoceQpAttr attr;            /* attr.state is the state */
    uint32_t mtu;               /* bytes */
    RoceSendq sq;
    RoceRetry retry;
    RoceWindow requests;        /* SEND and WRITE packets in flight */
    RoceWindow answers;         /* answer packets requested */
    RoceResponder rs;
    RoceReceive rx;
    RocePace pace;
    RoceCnp cnp;
    RoceWait waits[ROCE_WAIT_KINDS];
    uint64_t *counters;         /* the host's; NULL: none */
    uint32_t groups;            /* number of its multicast groups */
    uint8_t in_group[ROCE_MCAST_GROUPS_MAX / 8];    /* bit map of these
                                                     * groups */
    bool rq_broken;
    bool established;           /* COMM_ESTABLISHED was reported */
    bool drain_reported;
    bool responder_first;       /* the responder sends next */
    bool alt_path;              /* an alternate path was loaded */
    bool migration_refused;     /* reported since the QP was armed */
    /* Derived from attr.av and attr.dest_qpn; valid for gid_epoch. */
    uint32_t gid_epoch;
    bool loopback;
    bool has_head;              /* its source GID is set */
    RoceHead head;
    /* sched.c */
    struct RoceQpList *listed;  /* its list: ready or parked; NULL: neither */
    struct RoceQp *next, *prev;
    RoceTime deadline;
    RoceTime flush_at;          /* ERR: next poll of the queues */
    RoceTime flush_wait;        /* ERR: wait between the last two polls, or 0 */
    uint32_t heap_index;
    bool busy;                  /* counted in busy_count */
} RoceQp;

typedef struct RoceQpList {
    RoceQp *head, *tail;
} RoceQpList;

typedef struct RoceMcast {
    uint8_t gid[16];
    uint32_t count;             /* 0: the entry is free */
    uint32_t qpn[ROCE_MCAST_QPS_PER_GROUP];
} RoceMcast;

struct Roce {
    RoceLimits limits;
    const RoceHostOps *ops;
    void *host;
    RoceMrTable *mrs;
    RoceQp **qps;               /* by QPN, max_qp */
    uint16_t *free_qpns;        /* FIFO: the one freed longest ago is used
                                 * first */
    uint32_t free_head, free_count;
    RoceGid *gids;
    uint16_t gid_hint;
    uint32_t gid_epoch;
    RoceMcast *mcast;
    size_t mcast_copy_len;      /* of a frame to a group with local members */
    uint8_t mcast_copy[ROCE_FRAME_MAX];
    uint32_t port_mtu;
    bool checks_csum;           /* of frames for raw-packet QPs */
    uint32_t reset_next;        /* next QPN of a reset in progress */
    uint16_t ip_id;
    RoceQpList ready;           /* may have a frame to send */
    const RoceQp *served;       /* has not used up its share; only compared */
    size_t share_left;          /* bytes */
    RoceQpList parked;          /* have one for the wire, which is blocked */
    bool wire_blocked;
    bool wire_wanted;           /* set since roce_sched_next() */
    RoceQp **heap;
    uint32_t heap_count;
    uint32_t busy_count;        /* number of QPs that wait for answers */
    RoceFrameInfo out;          /* of the last frame returned */
    RoceQp *sent;               /* its QP, if it gets no answer: its work
                                 * request completes once the frame is sent */
    bool stalled;               /* roce_output() stopped at its limit */
    RoceWait *waits[ROCE_WAIT_BUCKETS];         /* waits for pages, by region */
    RoceWait *line_head, *line_tail;            /* requests that the host has
                                                 * not taken */
    RocePageReport page_report;
    RoceQp *flush_head, *flush_tail;            /* QPs whose FLUSH the host has
                                                 * not taken */
    uint64_t flush_tickets;     /* number of tickets used */
    uint64_t work;              /* steps, see roce_work() */
    uint64_t stats[FAKERNIC_STAT_COUNT];
};

/* ---- stream.c ------------------------------------------------------------ */

/* Moves the number of a QP that exists, or 0 for NULL. */
void roce_stream_qp(RoceStream *s, Roce *r, RoceQp **qp);

/* ---- sched.c: QPs with work, QPs with a deadline ------------------------- */

/*
 * The QP may have a frame to send: gives it one turn, however often the
 * function is called before that.
 */
void roce_sched_ready(Roce *r, RoceQp *qp);
/*
 * The QP sends a frame of 'len' bytes. It stays at the head of the ready list
 * until its frames add up to ROCE_SHARE_BYTES, it has none left, or another QP
 * is served. So short frames leave together, and the peer answers them with
 * one ACK.
 */
void roce_sched_served(Roce *r, RoceQp *qp, size_t len);
/* The QP has work only for the wire: it waits until the wire takes frames. */
void roce_sched_park(Roce *r, RoceQp *qp);
/* Removes the QP whose turn it is from its list. NULL: there is none. */
RoceQp *roce_sched_next(Roce *r);
/* Would roce_sched_next() return a QP? */
bool roce_sched_has_next(const Roce *r);
/* Stops the QP's timers and removes it from its list. */
void roce_sched_remove(Roce *r, RoceQp *qp);
/* Callers call this after a change of retry.deadline, flush_at or pace.wake. */
void roce_sched_timer(Roce *r, RoceQp *qp);
/* Number of QPs that wait for answers to packets in flight. */
static inline uint32_t roce_sched_busy(const Roce *r)
{
    return r->busy_count;
}
/* The QP with the earliest deadline. NULL: there is none. */
RoceQp *roce_sched_first(const Roce *r);
/* Queues the QP's FLUSH until the host takes it. */
void roce_sched_flush_wait(Roce *r, RoceQp *qp);
/* Ends the wait of the QP's FLUSH, if there is one. */
void roce_sched_flush_wake(Roce *r, RoceQp *qp);

/* Saves or loads the lists and the heap. A load has made the QPs. */
void roce_sched_transfer(RoceStream *s, Roce *r);

/* ---- pages.c: waits for pages -------------------------------------------- */

/*
 * Makes the QP wait for the pages of the last ROCE_VENDOR_FAULT, in place of
 * an earlier wait of this kind. For ROCE_WAIT_REQUEST the earlier wait stays:
 * a new request of the peer has to wait until the host has answered the first.
 */
void roce_pages_wait(Roce *r, RoceQp *qp, RoceWaitKind kind);
/* Ends the wait, if there is one. */
void roce_pages_end(Roce *r, RoceWait *wait);
/* Ends all waits of a QP. */
void roce_pages_forget(Roce *r, RoceQp *qp);
/* Is the missing page in [first, last]? */
bool roce_pages_answered(const RoceWait *wait, uint64_t first, uint64_t last);
/* Requests the wanted pages from the host again, or queues the request. */
void roce_pages_ask_again(Roce *r, RoceWait *wait);
/*
 * Starts waking for pages that the host has reported. The function sets
 * 'next'.
 */
void roce_pages_report(Roce *r, const RocePageReport *report);
/*
 * The next waiter for a byte of the reported range, each once, even if waits
 * begin or end between two calls. NULL: there is none, or none within this
 * many steps; then r->page_report.next is not NULL.
 */
RoceWait *roce_pages_next(Roce *r, uint64_t steps);

/* Saves or loads the waits. A load has made QPs and keys. */
void roce_pages_transfer(RoceStream *s, Roce *r);

/* ---- path.c: addresses --------------------------------------------------- */

/* Bytes of an enum fakernic_mtu; 0: it is invalid. */
uint32_t roce_mtu_bytes(uint8_t mtu);
/* The largest enum fakernic_mtu that fits the port; 0: none. */
uint8_t roce_path_port_mtu(const Roce *r);
/*
 * Index of the GID that a packet is addressed to, in its VLAN. -1: it is for
 * another port.
 */
int roce_path_gid_find(Roce *r, const RocePacket *packet);
/* Is this an address of the port, in any VLAN? */
bool roce_path_gid_ours(Roce *r, const uint8_t gid[16]);
/* Is the destination of this path the port itself? Such packets never leave.
 * The caller has checked with roce_path_packet() that the source GID is set. */
bool roce_path_loops(Roce *r, const RoceAv *av);
/*
 * Is the path valid? Its source GID must be set and of the destination's kind,
 * and its service level below eight.
 */
bool roce_path_av_valid(const Roce *r, const RoceAv *av);
/* Fills in everything up to the BTH. False: the source GID is not set. */
bool roce_path_packet(Roce *r, const RoceQp *qp, const RoceAv *av,
                      uint32_t dest_qpn, RocePacket *packet);
/*
 * The same for a packet of a connected QP, which is encoded on qp->head. Fills
 * in only the fields that this or the trace needs.
 */
bool roce_path_begin(Roce *r, RoceQp *qp, RocePacket *packet);
/* roce_path_loops() of a connected QP's path, cached until a GID changes. */
bool roce_path_loopback(Roce *r, RoceQp *qp);
/*
 * Must the next packet of a connected QP wait for the wire? Callers ask before
 * they do any work for it.
 */
bool roce_path_waits(Roce *r, RoceQp *qp);
/*
 * The same for one datagram to this address. False for an invalid address:
 * sending fails and reports why.
 */
bool roce_path_av_waits(Roce *r, const RoceAv *av);
/* The same for a raw frame. */
bool roce_path_raw_waits(Roce *r);
/* Did the packet come from the other end of this path? */
bool roce_path_is(const Roce *r, const RoceAv *av, const RocePacket *packet);

/* ---- pacer.c: rates ------------------------------------------------------ */

/* Initializes a new QP, or one in RESET: no rate limit, no wait. */
void roce_pacer_init(RoceQp *qp);
/* Must the QP wait for its rate? If so, a timer wakes it in time. */
bool roce_pacer_wait(Roce *r, RoceTime now, RoceQp *qp);
/* The QP's wait is over. */
void roce_pacer_turn(Roce *r, RoceQp *qp);
/* The rate limit has changed: ends the wait for the old one. */
void roce_pacer_restart(Roce *r, RoceQp *qp);
/* Charges the QP for a frame of 'len' bytes. True: the QP's rate is limited. */
bool roce_pacer_charge(Roce *r, RoceTime now, RoceQp *qp, uint8_t static_rate,
                       size_t len);
/* The link's rate, which is DCQCN's initial rate: kbit/s, never 0. */
uint32_t roce_pacer_link_kbps(const Roce *r);

/* ---- wr.c: checks of a work request that all services share -------------- */

/*
 * Sets its status (not SUCCESS) and its enum fakernic_vendor_err. Returns
 * false.
 */
bool roce_send_refuse(RoceSend *send, uint8_t status, uint16_t vendor_err);
/*
 * May a QP of this enum fakernic_qp_type execute the work request, with a
 * message of at most 'longest' bytes (IBTA 11.4.1.1)? Memory is not checked.
 * True: the function has set its length. False: it is refused.
 */
bool roce_send_check(RoceSend *send, uint8_t qp_type, uint64_t longest);
/* Saves or loads a part of a work request. */
void roce_av_transfer(RoceStream *s, RoceAv *av);
/* The same. */
void roce_sge_transfer(RoceStream *s, RoceSge *sge);
/* A work request of a QP of this enum fakernic_qp_type. A load begins with
 * zeros, and the caller owns the page list even if the load fails. */
void roce_send_wr_transfer(RoceStream *s, RoceSendWr *wr, uint8_t qp_type);

/* ---- complete.c: completions, and transitions to error ------------------- */

/*
 * Records the frame that roce_output() returns: a packet of the QP's WQE
 * 'index'.
 */
void roce_note_output(Roce *r, const RoceQp *qp, const RocePacket *packet,
                      uint32_t index, uint8_t attempt);
/* Counts a dropped packet, also for its QP if there is one, and traces it. */
void roce_drop(Roce *r, enum fakernic_stat stat, uint32_t qpn, uint32_t psn);
/*
 * Sets the QP's enum fakernic_qp_state and traces the change. It has no other
 * effect.
 */
void roce_qp_set_state(Roce *r, RoceQp *qp, uint8_t state);
/* Completes the oldest send. Errors are reported even if it is unsignaled. */
void roce_complete_send(Roce *r, RoceQp *qp, uint8_t status,
                        uint16_t vendor_err);
/* Completes the held receive. */
void roce_complete_recv(Roce *r, RoceQp *qp, RoceCompletion *completion);
/* Completes the held receive with an error. */
void roce_fail_recv(Roce *r, RoceQp *qp, uint8_t status, uint16_t vendor_err);
/*
 * Fetches a send into the queue, which must not be full. ERROR: the host's
 * ring is broken, with this enum fakernic_vendor_err; 0: out of memory.
 */
RoceFetch roce_take_send(Roce *r, RoceQp *qp, uint16_t *vendor_err);
/* Fetches a receive unless the QP already holds one. */
RoceFetch roce_take_recv(Roce *r, RoceQp *qp);
/* Moves the QP to ERR and flushes it. Reports an event other than NONE. */
void roce_enter_error(Roce *r, RoceTime now, RoceQp *qp, uint8_t event,
                      uint16_t vendor_err);
/* Flushes the queues of a QP in ERR or SQE. */
void roce_flush(Roce *r, RoceTime now, RoceQp *qp);
/* Flushes a receive that the QP took from an SRQ and has not filled: otherwise
 * the application would wait for it without limit. */
void roce_return_recv(Roce *r, RoceQp *qp);
/* Discards everything in flight. */
void roce_forget(Roce *r, RoceQp *qp);
/* Fails the oldest send: its completion, then ERR (or SQE), and the flush. */
void roce_fail_send(Roce *r, RoceTime now, RoceQp *qp, uint8_t status,
                    uint16_t vendor_err);
/*
 * Completes the sends that are done. Fails the oldest one if it has an error.
 */
void roce_retire(Roce *r, RoceTime now, RoceQp *qp);

/* ---- migration.c: the alternate path ------------------------------------- */

/* Switches to the alternate path. False: the QP is not armed. */
bool roce_migration_switch(Roce *r, RoceQp *qp);
/*
 * Does this packet come from the peer? If so, its path information takes
 * effect.
 */
bool roce_migration_input(Roce *r, RoceQp *qp, const RocePacket *packet);
/* The invalid one of the two migration attributes, or 0. */
uint32_t roce_migration_bad_attr(const Roce *r, const RoceQp *qp,
                                 uint32_t mask, const RoceQpAttr *attr);
/*
 * Sets the two migration attributes. The caller sets the primary path's
 * attributes afterwards.
 */
void roce_migration_assign(Roce *r, RoceQp *qp, uint32_t mask,
                           const RoceQpAttr *attr);

/* ---- congestion.c: CE marks and CNPs ------------------------------------- */

/* Has a switch marked the packet: ECN 11 (RFC 3168)? */
bool roce_congestion_marked(const RocePacket *packet);
/* The traffic class of a packet with data: ECN-capable if DCQCN is on. */
uint8_t roce_congestion_class(const Roce *r, uint8_t traffic_class);
/*
 * A packet for the QP has passed all checks. If it is marked, a CNP may be
 * due.
 */
void roce_congestion_notice(Roce *r, RoceTime now, RoceQp *qp,
                            const RocePacket *packet);
/*
 * Makes the CNP that the QP has to send, of at most ROCE_FRAME_MAX bytes. 0:
 * none is due, the wire takes no frames, or the source GID is not set.
 */
size_t roce_congestion_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                              bool *loopback);
/* The QP has received a CNP. */
void roce_congestion_input(Roce *r, RoceTime now, RoceQp *qp);

/* ---- qp.c ---------------------------------------------------------------- */

/* Accepts any QPN. NULL: there is no such QP. */
RoceQp *roce_qp_find(const Roce *r, uint32_t qpn);
/* Frees the QP and its number, and ends its waits. */
void roce_qp_free(Roce *r, RoceQp *qp);
/* Marks all numbers free. The caller has freed all QPs. */
void roce_qp_numbers_reset(Roce *r);
/*
 * Makes a QP with a number that no other QP has. The caller keeps the list of
 * free numbers. NULL: the number or 'init' is invalid, or there is no memory.
 */
RoceQp *roce_qp_make(Roce *r, const RoceQpInit *init, uint32_t number);
/* Are the attributes of a loaded QP within their limits? */
bool roce_qp_attr_valid(const Roce *r, const RoceQp *qp);
/* Saves or loads the list of free numbers. A load has made the QPs. */
void roce_qp_numbers_transfer(RoceStream *s, Roce *r);

/* ---- qp_save.c ----------------------------------------------------------- */

/* Saves a QP, or makes the one that the stream has. */
void roce_qp_transfer(RoceStream *s, Roce *r, RoceQp *qp);

/* ---- requester.c --------------------------------------------------------- */

/*
 * Sets the fields of an entry that its work request determines, as when it was
 * fetched. Keys are not checked. False: the QP may not execute it.
 */
bool roce_requester_derive(const RoceQp *qp, RoceSend *send);
/* Fetches the next WQE into the send queue. False: there is none now. */
bool roce_requester_fetch(Roce *r, RoceTime now, RoceQp *qp);
/*
 * Is there an oldest request to work on? Fetches one if the queue is empty. In
 * SQD only a request that has begun counts.
 */
bool roce_requester_next(Roce *r, RoceTime now, RoceQp *qp);
/*
 * Makes the next request packet of an RC, XRC or UC QP, of at most
 * ROCE_FRAME_MAX bytes. 0: there is none now.
 */
size_t roce_requester_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf);
/*
 * The QP's retry deadline has come: the end of an RNR wait, a silence to
 * probe, or a timeout.
 */
void roce_requester_timer(Roce *r, RoceTime now, RoceQp *qp);
/* The oldest request, or the next packet, needs absent pages. */
void roce_requester_wait_pages(Roce *r, RoceQp *qp);
/*
 * Starts a retransmission (go back N). If no retries are left, fails the
 * oldest send.
 */
void roce_requester_retry(Roce *r, RoceTime now, RoceQp *qp,
                          uint16_t vendor_err);

/* ---- mcast.c ------------------------------------------------------------- */

/* NULL: no local QP is attached to the group. */
RoceMcast *roce_mcast_find(Roce *r, const uint8_t gid[16]);
/* Detaches a QP from all groups. */
void roce_mcast_leave(Roce *r, uint32_t qpn);
/* Keeps a copy of a frame that was sent to a group with local members. */
void roce_mcast_copy(Roce *r, const uint8_t gid[16], const uint8_t *frame,
                     size_t len);
/* Returns the copy once. 0: there is none. */
size_t roce_mcast_output(Roce *r, uint8_t *buf);
/* Saves or loads the groups and the copy. A load has made the QPs. */
void roce_mcast_transfer(RoceStream *s, Roce *r);

/* ---- completer.c, responder.c, response.c -------------------------------- */

/* Handles a response to a requester QP in RTS, SQD or SQE. */
void roce_completer_input(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet);
/* Handles a request to a connected QP that is a responder. */
void roce_responder_input(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet);
/* Makes the next answer packet: ACK, NAK, READ or atomic response. */
size_t roce_response_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf);
/* Schedules an ACK for all PSNs up to 'psn', in place of an earlier one. */
void roce_response_ack(Roce *r, RoceQp *qp, uint32_t psn);
/*
 * Schedules a NAK or RNR NAK with this AETH syndrome (IBTA 9.7.5.2) for 'psn'.
 */
void roce_response_nak(Roce *r, RoceQp *qp, uint8_t syndrome, uint32_t psn);
/* Schedules a fatal NAK, after which the QP goes to ERR. */
void roce_response_fatal(Roce *r, RoceQp *qp, uint8_t nak, uint32_t psn,
                         uint8_t event, uint16_t vendor_err);
/* Sets the size of the ring of resources. False: it never has this size. */
bool roce_response_set_size(RoceResponder *rs, uint32_t size);
/* Reserves a resource. NULL: the peer exceeds the number it was granted. */
RoceResource *roce_response_take(RoceQp *qp);
/* Cancels the resource's answer. */
void roce_response_cancel(RoceQp *qp, RoceResource *res);
/*
 * Continues a FLUSH by one step. Returns 0 or enum fakernic_vendor_err. The
 * FLUSH is in progress as long as its kind is FLUSH.
 */
uint16_t roce_response_flush(Roce *r, RoceQp *qp, RoceResource *res);
/* Handles a duplicate of an earlier READ, atomic or other request. */
void roce_response_duplicate(Roce *r, RoceQp *qp, const RocePacket *packet,
                             RoceOperation operation);

/* ---- datagram.c, raw.c --------------------------------------------------- */

/*
 * Makes the next datagram of a UD QP, of at most ROCE_FRAME_MAX bytes. 0:
 * there is none now.
 */
size_t roce_datagram_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                            bool *loopback);
/* Delivers a datagram to a UD QP's receive, or drops and counts it. */
void roce_datagram_input(Roce *r, RoceTime now, RoceQp *qp,
                         const RocePacket *packet);
/*
 * Makes the next frame of a raw-packet QP, of at most ROCE_FRAME_MAX bytes. 0:
 * there is none now.
 */
size_t roce_raw_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf);
/*
 * Delivers a frame to a raw-packet QP, without its VLAN tag if 'strip'. False:
 * the QP has no receive, or a bad or too short one, or its memory is not
 * accessible.
 */
bool roce_raw_input(Roce *r, RoceTime now, RoceQp *qp, const uint8_t *frame,
                    size_t len, bool strip);

/* ---- input.c ------------------------------------------------------------- */

/*
 * Checks a received frame and delivers it to its QP. ETHERNET: it is not
 * RoCEv2 for this port.
 */
RoceInput roce_input_frame(Roce *r, RoceTime now, const uint8_t *frame,
                           size_t len);

/* Calls the host's trace operation, if it has one. */
static inline void roce_trace(Roce *r, RoceTracePoint point, uint32_t qpn,
                              uint32_t a, uint32_t b)
{
    if (r->ops->trace) {
        r->ops->trace(r->host, point, qpn, a, b);
    }
}

/* Adds to a counter of the engine, and of the QP if it has its own set. */
static inline void roce_count_by(Roce *r, const RoceQp *qp,
                                 enum fakernic_stat stat, uint64_t count)
{
    r->stats[stat] += count;
    if (qp->counters) {
        qp->counters[stat] += count;
    }
}

static inline void roce_count(Roce *r, const RoceQp *qp,
                              enum fakernic_stat stat)
{
    roce_count_by(r, qp, stat, 1);
}

/* The two halves of an XRC connection (IBTA annex A14). */
static inline bool roce_qp_xrc(const RoceQp *qp)
{
    return qp->init.type == FAKERNIC_QP_XRC_INI ||
           qp->init.type == FAKERNIC_QP_XRC_TGT;
}

/* The peer acknowledges requests, and lost ones are retransmitted. */
static inline bool roce_qp_reliable(const RoceQp *qp)
{
    return qp->init.type == FAKERNIC_QP_RC || roce_qp_xrc(qp);
}

static inline bool roce_qp_connected(const RoceQp *qp)
{
    return qp->init.type == FAKERNIC_QP_UC || roce_qp_reliable(qp);
}

/*
 * The service bits that turn an operation into a BTH opcode on a connected QP.
 */
static inline uint8_t roce_qp_bth(const RoceQp *qp)
{
    return roce_qp_xrc(qp) ? ROCE_BTH_XRC
           : qp->init.type == FAKERNIC_QP_UC ? ROCE_BTH_UC : ROCE_BTH_RC;
}

static inline bool roce_qp_datagram(const RoceQp *qp)
{
    return qp->init.type == FAKERNIC_QP_UD || qp->init.type == FAKERNIC_QP_GSI;
}

#endif
