/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine from inside: what its files share, grouped by the file that owns
 * it. A file calls only those below or beside it (tests/laws):
 *
 *      roce
 *      input
 *      completer, responder, datagram, raw
 *      requester, response, mcast
 *      qp
 *      congestion, migration
 *      complete, path, mr_wr
 *      pacer, pages, wire, wr, mr, mr_access, fault
 *      sched, sendq, retry, window, credit, rate, odp, opcode, icrc, ether,
 *      toeplitz
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
#include "window.h"
#include "wire.h"
#include "wr.h"

/* Largest message (IBTA 9.7.2, C9-54 "2^31 bytes"). */
#define ROCE_MESSAGE_MAX 0x80000000u
/* An ACK is asked for once in this many packets, or more often. */
#define ROCE_ACK_EVERY 32
_Static_assert(ROCE_WINDOW_SHARE >= ROCE_ACK_EVERY,
               "a QP asks for an ACK within its share");
/* WQEs one QP may consume in one turn without a frame coming of it. */
#define ROCE_WQES_PER_TURN 16
/* Of frames, that a QP sends before another has its turn; at least one. */
#define ROCE_SHARE_BYTES 2048
/* WQEs of one queue flushed in one go. */
#define ROCE_FLUSH_BATCH 32
/* Steps (roce_work()) of one roce_tick(), which ends with the QP that makes the
 * last of them; the deadline of the others stays due. */
#define ROCE_STEPS_PER_TICK 64
/* Steps of one roce_wake_some(), and of one roce_page_requests_resume(). */
#define ROCE_STEPS_PER_WAKE 256
/* Entries of page tables and windows that count as one step. */
#define ROCE_LOOKS_PER_STEP 16
/* Entries of the GID table, which lie side by side, that do. */
#define ROCE_GIDS_PER_STEP 64
/* Turns of QPs in one roce_output() call, and steps that end it: of one more
 * turn they may be as many again. */
#define ROCE_TURNS_PER_OUTPUT 64
#define ROCE_STEPS_PER_OUTPUT 256
/* READs and atomics that a responder has room to remember at first. */
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
    uint32_t srqn;              /* where it is from; 0: the QP's own RQ */
    uint64_t srq;               /* XRC: RoceXrcSrq.id of that number then */
    uint32_t cqn;               /* where it completes */
    bool held;                  /* fetched, not yet completed */
    uint64_t capacity;
} RoceReceive;

typedef enum RoceAnswer {
    ROCE_ANSWER_READ,           /* data, read anew each time */
    ROCE_ANSWER_ATOMIC,         /* the value before */
    ROCE_ANSWER_DONE,           /* an empty READ response: ATOMIC WRITE,
                                 * FLUSH */
    ROCE_ANSWER_FLUSH,          /* under way; becomes DONE */
} RoceAnswer;

/*
 * A READ or atomic whose answer is owed, or may be asked for again (IBTA
 * 9.7.5.1.4, "responder resources").
 */
typedef struct RoceResource {
    bool valid;
    bool pending;               /* (the rest of) the answer is to be sent */
    uint8_t replays;            /* not 0: it was sent in full before */
    RoceAnswer kind;
    uint32_t psn, psn_count;
    uint32_t start, next;       /* packets: first of this answer, next */
    uint32_t msn;
    uint64_t address;           /* READ */
    uint32_t rkey, length;
    RocePd pd;
    RoceFlushRange flush;       /* FLUSH: what is left of it */
    uint32_t access;            /* and the rights it needs */
    uint64_t original;          /* atomic: value before */
} RoceResource;

/* What the responder owes beside READ and atomic answers. */
typedef enum RoceOwed {
    ROCE_OWED_NOTHING,
    ROCE_OWED_ACK,
    ROCE_OWED_NAK,              /* sequence error or RNR */
    ROCE_OWED_FATAL,            /* NAK; the QP fails when it is sent */
} RoceOwed;

/* Where a request message stands. */
typedef enum RoceMessage {
    ROCE_MESSAGE_NONE,
    ROCE_MESSAGE_SEND,
    ROCE_MESSAGE_WRITE,
    ROCE_MESSAGE_SKIP,          /* UC: the rest of a damaged message */
} RoceMessage;

typedef struct RoceResponder {
    uint32_t epsn;              /* expected PSN */
    uint32_t msn;
    RocePd pd;                  /* of the peer's keys; XRC: of the message */
    RoceMessage message;
    bool nak_sent;              /* nothing ahead of epsn is answered now */
    RoceOwed owed;
    uint8_t syndrome;
    uint32_t owed_psn;
    uint8_t event;              /* with OWED_FATAL */
    uint16_t vendor_err;
    uint64_t offset;            /* SEND, WRITE: bytes that came */
    uint64_t address;           /* WRITE */
    uint32_t rkey, length;
    RoceResource *ring;         /* of the last ones; it grows with use */
    uint32_t ring_size;
    uint32_t res_pi;            /* resources taken, free running */
    uint32_t res_pending;
    uint32_t res_first;         /* none before this one is pending */
    bool pages_awaited;         /* by the oldest answer */
    uint8_t faults;             /* of the expected packet, so far */
    bool flushing;              /* nothing is executed behind a FLUSH */
    bool flush_gap;             /* something came meanwhile and was dropped */
    bool flush_failed;          /* as roce_flush_ended() has told */
    uint64_t flush_ticket;      /* of the job it waits for; 0: none */
    bool flush_waits;           /* for roce_flush_resume(): in the list below */
    struct RoceQp *flush_next, *flush_prev;
} RoceResponder;

/* When the next frame may go. */
typedef struct RocePace {
    RoceTime next;
    RoceTime wake;              /* the QP waits for it; NEVER: it does not */
    RoceDcqcn dcqcn;
} RocePace;

/* A congestion notification to be sent. */
typedef struct RoceCnp {
    bool owed;
    RoceTime next;              /* none before this */
    RoceAv av;
    uint32_t dest_qpn;
} RoceCnp;

/* What of a QP waits for pages. */
typedef enum RoceWaitKind {
    ROCE_WAIT_SEND,             /* its sends, or a place for their answers */
    ROCE_WAIT_ANSWER,           /* the oldest answer to the peer */
    ROCE_WAIT_REQUEST,          /* nothing here: the peer's request comes again */
    ROCE_WAIT_KINDS,
} RoceWaitKind;

typedef struct RoceWait {
    struct RoceQp *qp;
    RoceWaitKind kind;
    bool waits;
    bool in_line;               /* the host has not taken the request yet */
    RoceFault want;
    struct RoceWait *next, *prev;               /* of regions alike */
    struct RoceWait *line_next, *line_prev;
} RoceWait;

#define ROCE_WAIT_BUCKETS 1024u

/* What the host has told of, and who has not been told yet. */
typedef struct RoceTold {
    RoceWait *next;             /* of the bucket; NULL: all have been */
    uint32_t key;
    uint64_t first, last;       /* addresses */
    bool refused;
} RoceTold;

typedef struct RoceQp {
    uint32_t qpn;
    RoceQpInit init;
    RoceQpAttr attr;            /* attr.state is the state */
    uint32_t mtu;               /* bytes */
    RoceSendq sq;
    RoceRetry retry;
    RoceWindow requests;        /* SEND and WRITE packets in flight */
    RoceWindow answers;         /* answer packets asked for */
    RoceResponder rs;
    RoceReceive rx;
    RocePace pace;
    RoceCnp cnp;
    RoceWait waits[ROCE_WAIT_KINDS];
    uint64_t *counters;         /* the host's; NULL: none */
    uint32_t groups;            /* multicast, that it is attached to */
    uint8_t in_group[ROCE_MCAST_GROUPS_MAX / 8];    /* which: bits */
    bool rq_broken;
    bool established;           /* COMM_ESTABLISHED was reported */
    bool drain_reported;
    bool responder_first;       /* whose turn it is */
    bool alt_path;              /* one was loaded */
    bool migration_refused;     /* reported since the QP was armed */
    /* of attr.av and attr.dest_qpn; valid for gid_epoch */
    uint32_t gid_epoch;
    bool loopback;
    bool has_head;              /* its source GID is there */
    RoceHead head;
    /* sched.c */
    struct RoceQpList *listed;  /* in: ready or parked, or NULL */
    struct RoceQp *next, *prev;
    RoceTime deadline;
    RoceTime flush_at;          /* ERR: next look at the queues */
    RoceTime flush_wait;        /* ERR: between the last two, 0: no wait */
    uint32_t heap_index;
    bool busy;                  /* counts for busy_count */
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
    uint16_t *free_qpns;        /* FIFO: the one freed longest ago goes first */
    uint32_t free_head, free_count;
    RoceGid *gids;
    uint16_t gid_hint;
    uint32_t gid_epoch;
    RoceMcast *mcast;
    size_t mcast_copy_len;      /* of a frame to a group with members here */
    uint8_t mcast_copy[ROCE_FRAME_MAX];
    uint32_t port_mtu;
    bool checks_csum;           /* of frames for raw-packet QPs */
    uint32_t reset_next;        /* QPN that a reset goes on with */
    uint16_t ip_id;
    RoceQpList ready;           /* may have a frame to send */
    const RoceQp *served;       /* has not had its share; only compared */
    size_t share_left;          /* bytes */
    RoceQpList parked;          /* have one for the wire, which takes none */
    bool wire_blocked;
    bool wire_wanted;           /* since roce_sched_next() */
    RoceQp **heap;
    uint32_t heap_count;
    uint32_t busy_count;        /* QPs that wait for answers */
    RoceFrameInfo out;          /* of the frame handed out last */
    RoceQp *sent;               /* whose it was, if nobody answers it: its work
                                 * request completes once it has gone */
    bool stalled;               /* roce_output() ran out of turns */
    RoceWait *waits[ROCE_WAIT_BUCKETS];         /* for pages, by region */
    RoceWait *line_head, *line_tail;            /* not taken by the host yet */
    RoceTold told;
    RoceQp *flush_head, *flush_tail;            /* for the host to take it */
    uint64_t flush_tickets;     /* given so far */
    uint64_t work;              /* steps, see roce_work() */
    uint64_t stats[FAKERNIC_STAT_COUNT];
};

/* ---- sched.c: who has work, who has a deadline --------------------------- */

/*
 * It may have a frame to send, and gets a turn; once, however often this is
 * said.
 */
void roce_sched_ready(Roce *r, RoceQp *qp);
/*
 * Its frame of 'len' bytes goes out. It is first of those that are ready until
 * its frames make ROCE_SHARE_BYTES, or it has none, or another was served:
 * short ones go out together, so that the peer answers them with one ACK.
 */
void roce_sched_served(Roce *r, RoceQp *qp, size_t len);
/* It has no work but for the wire: it waits until that takes frames. */
void roce_sched_park(Roce *r, RoceQp *qp);
/* The QP whose turn it is, no longer listed; NULL: there is none. */
RoceQp *roce_sched_next(Roce *r);
/* Would roce_sched_next() find one? */
bool roce_sched_has_next(const Roce *r);
/* It has no work and no deadline: its timers stop, it is in no list. */
void roce_sched_remove(Roce *r, RoceQp *qp);
/* To be called after retry.deadline, flush_at or pace.wake has changed. */
void roce_sched_timer(Roce *r, RoceQp *qp);
/* How many QPs wait for answers to something in flight. */
static inline uint32_t roce_sched_busy(const Roce *r)
{
    return r->busy_count;
}
/* The QP of the earliest deadline, NULL when there is none. */
RoceQp *roce_sched_first(const Roce *r);
/* The QP's FLUSH waits behind others, until the host takes it. */
void roce_sched_flush_wait(Roce *r, RoceQp *qp);
/* It waits no longer, if it did. */
void roce_sched_flush_wake(Roce *r, RoceQp *qp);

/* ---- pages.c: who waits for pages ---------------------------------------- */

/*
 * Waits for what ROCE_VENDOR_FAULT was returned for just now, instead of what
 * was waited for before. (A peer's request that differs from the one before
 * has to wait until that has its answer.)
 */
void roce_pages_wait(Roce *r, RoceQp *qp, RoceWaitKind kind);
/* It waits no longer, if it did. */
void roce_pages_end(Roce *r, RoceWait *wait);
/* All of a QP's. */
void roce_pages_forget(Roce *r, RoceQp *qp);
/* Is the page that is missing one of [first, last]? */
bool roce_pages_answered(const RoceWait *wait, uint64_t first, uint64_t last);
/* Asks the host for what is wanted, in its turn. */
void roce_pages_ask_again(Roce *r, RoceWait *wait);
/* The host has told of this; 'next' is set here. */
void roce_pages_tell(Roce *r, const RoceTold *told);
/*
 * Whoever waits for a byte of it: each once, whoever comes or goes between two
 * calls. NULL: there is none, or not in that many steps; r->told.next tells.
 */
RoceWait *roce_pages_next(Roce *r, uint64_t steps);

/* ---- path.c: addresses --------------------------------------------------- */

/* Bytes of an enum fakernic_mtu; 0 if it is none. */
uint32_t roce_mtu_bytes(uint8_t mtu);
/* The largest enum fakernic_mtu the port takes; 0: none. */
uint8_t roce_path_port_mtu(const Roce *r);
/*
 * Index of the GID that a packet came for, in its VLAN; -1: it is for
 * another port.
 */
int roce_path_gid_find(Roce *r, const RocePacket *packet);
/* Is this an address of the port, in whatever VLAN? */
bool roce_path_gid_ours(Roce *r, const uint8_t gid[16]);
/* Does a packet made for this path come back in, and never leave? The source GID
 * must be there: roce_path_packet() has said so. */
bool roce_path_loops(Roce *r, const RoceAv *av);
/*
 * Is there a source GID of this index, of the destination's kind, and the
 * service level one of eight?
 */
bool roce_path_av_valid(const Roce *r, const RoceAv *av);
/* Fills in everything up to the BTH; false: the source GID is gone. */
bool roce_path_packet(Roce *r, const RoceQp *qp, const RoceAv *av,
                      uint32_t dest_qpn, RocePacket *packet);
/*
 * The same for a packet of a connected QP, to be encoded on qp->head: only what
 * that takes, and what the trace wants to know.
 */
bool roce_path_begin(Roce *r, RoceQp *qp, RocePacket *packet);
/*
 * roce_path_loops() of a connected QP's path, remembered until a GID
 * changes.
 */
bool roce_path_loopback(Roce *r, RoceQp *qp);
/*
 * Must the next packet of a connected QP wait for the wire? Nothing has been
 * done for it yet.
 */
bool roce_path_waits(Roce *r, RoceQp *qp);
/*
 * The same for one datagram to this address; false for one that goes
 * nowhere: sending it says why.
 */
bool roce_path_av_waits(Roce *r, const RoceAv *av);
/* The same for a raw frame. */
bool roce_path_raw_waits(Roce *r);
/* Did the packet come over this path, from its other end? */
bool roce_path_is(const Roce *r, const RoceAv *av, const RocePacket *packet);

/* ---- pacer.c: rates ------------------------------------------------------ */

/* A new QP, or one in RESET: no rate is known, none is waited for. */
void roce_pacer_init(RoceQp *qp);
/* Is it not the QP's turn yet? It is woken when it is. */
bool roce_pacer_wait(Roce *r, RoceTime now, RoceQp *qp);
/* Its turn has come. */
void roce_pacer_turn(Roce *r, RoceQp *qp);
/* The rate limit has changed: the wait for the old one ends. */
void roce_pacer_restart(Roce *r, RoceQp *qp);
/* A frame of 'len' bytes goes out; true: the QP's rate is limited. */
bool roce_pacer_charge(Roce *r, RoceTime now, RoceQp *qp, uint8_t static_rate,
                       size_t len);
/* The link's rate, which DCQCN begins with: kbit/s, never 0. */
uint32_t roce_pacer_link_kbps(const Roce *r);

/* ---- wr.c: what all services judge of a work request alike --------------- */

/* Sets its status, not SUCCESS, and its enum fakernic_vendor_err; false. */
bool roce_send_refuse(RoceSend *send, uint8_t status, uint16_t vendor_err);
/*
 * May a QP of this enum fakernic_qp_type execute the work request, whose
 * message has at most 'longest' bytes (IBTA 11.4.1.1)? Memory is not judged.
 * True: its length is set; false: it is refused.
 */
bool roce_send_judge(RoceSend *send, uint8_t qp_type, uint64_t longest);

/* ---- complete.c: completions, and the ways into error ------------------- */

/* Notes what roce_output() hands out: a packet of the QP's WQE 'index'. */
void roce_note_output(Roce *r, const RoceQp *qp, const RocePacket *packet,
                      uint32_t index, uint8_t attempt);
/* Tells the host's trace operation, if it has one. */
void roce_trace(Roce *r, RoceTracePoint point, uint32_t qpn, uint32_t a,
                uint32_t b);
/*
 * Counts a packet that is dropped, for its QP, too, if there is one; and
 * traces it.
 */
void roce_drop(Roce *r, enum fakernic_stat stat, uint32_t qpn, uint32_t psn);
/*
 * Moves it to this enum fakernic_qp_state and traces that; nothing else
 * happens.
 */
void roce_qp_set_state(Roce *r, RoceQp *qp, uint8_t state);
/* Completes the oldest send; all but successes whatever its flags. */
void roce_complete_send(Roce *r, RoceQp *qp, uint8_t status,
                        uint16_t vendor_err);
/* Completes the held receive. */
void roce_complete_recv(Roce *r, RoceQp *qp, RoceCompletion *completion);
/* Completes the held receive with an error. */
void roce_fail_recv(Roce *r, RoceQp *qp, uint8_t status, uint16_t vendor_err);
/*
 * Fetches a send into the queue, which must not be full. ERROR: nothing more
 * comes from the host's ring, for this enum fakernic_vendor_err (0: there is no
 * memory for it).
 */
RoceFetch roce_take_send(Roce *r, RoceQp *qp, uint16_t *vendor_err);
/* Fetches a receive unless one is held. */
RoceFetch roce_take_recv(Roce *r, RoceQp *qp);
/* To ERR, and flush; an event other than NONE is reported. */
void roce_enter_error(Roce *r, RoceTime now, RoceQp *qp, uint8_t event,
                      uint16_t vendor_err);
/* Flushes what is in the queues of a QP in ERR or SQE. */
void roce_flush(Roce *r, RoceTime now, RoceQp *qp);
/* A receive that it has taken from an SRQ and not filled is flushed: whose it
 * is would wait for it for ever. */
void roce_return_recv(Roce *r, RoceQp *qp);
/* Forgets everything in flight. */
void roce_forget(Roce *r, RoceQp *qp);
/* Fails the oldest send: its completion, then ERR (or SQE), and the flush. */
void roce_fail_send(Roce *r, RoceTime now, RoceQp *qp, uint8_t status,
                    uint16_t vendor_err);
/* Completes the sends that are done; fails one that is to be failed. */
void roce_retire(Roce *r, RoceTime now, RoceQp *qp);

/* ---- migration.c: the alternate path ------------------------------------- */

/* Goes over to the alternate path; false: the QP is not armed. */
bool roce_migration_switch(Roce *r, RoceQp *qp);
/* May this packet be the peer's? What it says of the path takes effect. */
bool roce_migration_input(Roce *r, RoceQp *qp, const RocePacket *packet);
/* The attribute of the two that is bad, or 0. */
uint32_t roce_migration_bad_attr(const Roce *r, const RoceQp *qp,
                                 uint32_t mask, const RoceQpAttr *attr);
/* Takes the two over; the primary path's attributes come after. */
void roce_migration_assign(Roce *r, RoceQp *qp, uint32_t mask,
                           const RoceQpAttr *attr);

/* ---- congestion.c: CE marks and CNPs ------------------------------------- */

/* Has a switch marked it: ECN 11 (RFC 3168)? */
bool roce_congestion_marked(const RocePacket *packet);
/* The traffic class of a packet with data: ECN-capable where DCQCN is on. */
uint8_t roce_congestion_class(const Roce *r, uint8_t traffic_class);
/* A packet for the QP has passed all checks: it may owe a CNP now. */
void roce_congestion_notice(Roce *r, RoceTime now, RoceQp *qp,
                            const RocePacket *packet);
/*
 * Makes the CNP that the QP owes, of at most ROCE_FRAME_MAX bytes. 0: it owes
 * none, or the wire takes none, or the source GID is gone.
 */
size_t roce_congestion_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                              bool *loopback);
/* A CNP came for the QP. */
void roce_congestion_input(Roce *r, RoceTime now, RoceQp *qp);

/* ---- qp.c ---------------------------------------------------------------- */

/* NULL: there is none of this QPN, which may be any. */
RoceQp *roce_qp_find(const Roce *r, uint32_t qpn);
/* Frees it and its number; nothing waits for it any more. */
void roce_qp_free(Roce *r, RoceQp *qp);
/* There are no QPs: all numbers are free. */
void roce_qp_numbers_reset(Roce *r);

/* ---- requester.c --------------------------------------------------------- */

/* Fetches the next WQE into the send queue; false: there is none now. */
bool roce_requester_fetch(Roce *r, RoceTime now, RoceQp *qp);
/*
 * Is there an oldest request to be worked on? Fetches it unless it is there; in
 * SQD only one that has begun counts.
 */
bool roce_requester_next(Roce *r, RoceTime now, RoceQp *qp);
/*
 * The next request of an RC, XRC or UC QP, of at most ROCE_FRAME_MAX bytes;
 * 0: there is none now.
 */
size_t roce_requester_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf);
/*
 * Its retry deadline has come: an RNR wait is over, silence is probed, or
 * taken for a loss.
 */
void roce_requester_timer(Roce *r, RoceTime now, RoceQp *qp);
/* The oldest request, or the next packet, needs pages that are not there. */
void roce_requester_wait_pages(Roce *r, RoceQp *qp);
/* Judges and starts going back N; fails the oldest send without tries left. */
void roce_requester_retry(Roce *r, RoceTime now, RoceQp *qp,
                          uint16_t vendor_err);

/* ---- mcast.c ------------------------------------------------------------- */

/* NULL: no QP here is attached to the group. */
RoceMcast *roce_mcast_find(Roce *r, const uint8_t gid[16]);
/* Detaches a QP from all groups. */
void roce_mcast_leave(Roce *r, uint32_t qpn);
/* Keeps a copy of a frame sent to a group that has members here. */
void roce_mcast_copy(Roce *r, const uint8_t gid[16], const uint8_t *frame,
                     size_t len);
/* The copy, once; 0: there is none. */
size_t roce_mcast_output(Roce *r, uint8_t *buf);

/* ---- completer.c, responder.c, response.c -------------------------------- */

/* A response has come for a QP in RTS, SQD or SQE that takes them. */
void roce_completer_input(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet);
/* A request has come for a connected QP that takes them. */
void roce_responder_input(Roce *r, RoceTime now, RoceQp *qp,
                          const RocePacket *packet);
/* Answers: ACKs, NAKs, READ and atomic responses. */
size_t roce_response_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf);
/* Owes an ACK of all up to 'psn', instead of any owed before. */
void roce_response_ack(Roce *r, RoceQp *qp, uint32_t psn);
/* Owes a NAK, or RNR NAK, of this AETH syndrome (IBTA 9.7.5.2) for 'psn'. */
void roce_response_nak(Roce *r, RoceQp *qp, uint8_t syndrome, uint32_t psn);
/* A fatal NAK, after which the QP goes to ERR. */
void roce_response_fatal(Roce *r, RoceQp *qp, uint8_t nak, uint32_t psn,
                         uint8_t event, uint16_t vendor_err);
/* NULL: the peer has more outstanding than it was granted. */
RoceResource *roce_response_take(RoceQp *qp);
/* Its answer is not to be sent. */
void roce_response_cancel(RoceQp *qp, RoceResource *res);
/*
 * Takes a FLUSH one step further: 0, or enum fakernic_vendor_err. It is under
 * way as long as its kind is FLUSH.
 */
uint16_t roce_response_flush(Roce *r, RoceQp *qp, RoceResource *res);
/* An old READ, atomic, or other request came again. */
void roce_response_duplicate(Roce *r, RoceQp *qp, const RocePacket *packet,
                             RoceOperation operation);

/* ---- datagram.c, raw.c --------------------------------------------------- */

/*
 * The next datagram of a UD QP, of at most ROCE_FRAME_MAX bytes; 0: there is
 * none now.
 */
size_t roce_datagram_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf,
                            bool *loopback);
/* A datagram for a UD QP: it takes a receive, or is dropped and counted. */
void roce_datagram_input(Roce *r, RoceTime now, RoceQp *qp,
                         const RocePacket *packet);
/*
 * The next frame of a raw-packet QP, of at most ROCE_FRAME_MAX bytes; 0:
 * there is none now.
 */
size_t roce_raw_output(Roce *r, RoceTime now, RoceQp *qp, uint8_t *buf);
/*
 * A frame for a raw-packet QP, without its VLAN tag if 'strip'. False: it
 * could not take it: no receive, or a bad or short one, or memory out of reach.
 */
bool roce_raw_input(Roce *r, RoceTime now, RoceQp *qp, const uint8_t *frame,
                    size_t len, bool strip);

/* ---- input.c ------------------------------------------------------------- */

/*
 * Judges a frame that came in, and gives it to its QP; ETHERNET: it is not
 * RoCEv2 for this port.
 */
RoceInput roce_input_frame(Roce *r, RoceTime now, const uint8_t *frame,
                           size_t len);

/* COUNT more of those the QP's own set has, too. */
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

/* Requests are acknowledged and sent again. */
static inline bool roce_qp_reliable(const RoceQp *qp)
{
    return qp->init.type == FAKERNIC_QP_RC || roce_qp_xrc(qp);
}

static inline bool roce_qp_connected(const RoceQp *qp)
{
    return qp->init.type == FAKERNIC_QP_UC || roce_qp_reliable(qp);
}

/* What makes a BTH opcode of an operation on a connected QP. */
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
