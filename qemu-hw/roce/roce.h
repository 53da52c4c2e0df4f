/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RoCEv2 engine: its whole public interface.
 *
 * The engine is a function of (state, input, now). It is C11 with libc's memory
 * and string functions and libdeflate's CRC32; it knows no QEMU, no threads, no
 * clock, no randomness and no sockets. Frames are pushed in with roce_input()
 * and pulled out with roce_output(); time is a number handed in, the next
 * deadline a number handed out. Everything else the engine wants (guest memory,
 * the next work request, the place of a completion) it asks of its host through
 * struct RoceHostOps. QEMU, the simulator, the unit tests and the fuzzers are
 * such hosts.
 *
 * Rules for callers:
 *  - one thread per Roce; host operations must not call back into the engine;
 *  - 'now' never decreases;
 *  - after any roce_post_*, roce_input, roce_tick or roce_qp_* call the caller
 *    drains roce_output() until it returns 0 (or as far as its wire takes it)
 *    and asks roce_deadline() anew;
 *  - the numbers of opcodes, states, attributes, statuses and counters are those
 *    of the firmware-spec headers: there is no second set of names for them.
 *
 * All multi-byte fields in these structures are in host order.
 */
#ifndef ROCE_H
#define ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/eq.h"
#include "fakernic/mr.h"
#include "fakernic/qp.h"
#include "fakernic/sq.h"
#include "fakernic/stats.h"

typedef int64_t RoceTime;               /* nanoseconds from any origin */
#define ROCE_TIME_NEVER INT64_MAX

/* Largest Ethernet frame the engine makes or takes: 9000 + header + VLAN. */
#define ROCE_FRAME_MAX 9022

typedef struct Roce Roce;

/*
 * A protection domain: its number, below RoceLimits.max_pd, and a generation
 * that the host never repeats for this number. Answers are kept, and may be
 * asked for again, after the domain is gone: the number's next owner is
 * another RocePd.
 */
typedef uint64_t RocePd;
#define ROCE_PD(number, generation) \
    ((RocePd)(generation) << 32 | (uint32_t)(number))
#define ROCE_PD_NUMBER(pd) ((uint32_t)(pd))

/* ---- what the engine asks of its host ---------------------------------- */

/* One scatter/gather entry (IBTA 10.7.2). */
typedef struct RoceSge {
    uint64_t address;
    uint32_t length;
    uint32_t lkey;
} RoceSge;

/* Destination and path of packets (struct fakernic_av in host order). */
typedef struct RoceAv {
    uint8_t dgid[16];
    uint8_t dmac[6];
    uint16_t sgid_index;
    uint32_t flow_label;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t sl;
    uint8_t static_rate;
    uint16_t udp_sport;
} RoceAv;

/*
 * A send work request. The host has checked its format (opcode known, counts
 * within limits, reserved fields zero) and copied it out of guest memory; the
 * engine judges whether the QP may execute it.
 */
typedef struct RoceSendWr {
    uint32_t index;             /* returned as RoceCompletion.wqe_index */
    uint8_t opcode;             /* enum fakernic_sq_opcode */
    uint8_t flags;              /* FAKERNIC_SQ_* */
    uint8_t sge_count;
    uint16_t inline_length;     /* with FAKERNIC_SQ_INLINE */
    uint16_t mss;               /* RAW_PACKET: of a TCP segment to be cut */
    uint16_t format_error;      /* enum fakernic_vendor_err, or 0: the host
                                 * refused the WQE; completes in error with
                                 * LOC_QP_OP_ERR, other fields but index,
                                 * opcode and flags are not valid */
    uint8_t forced_status;      /* enum fakernic_wc_status, or 0: it fails with
                                 * this in its turn, whatever it asks for */
    uint16_t forced_error;      /* and this is vendor_err */
    uint32_t imm_or_key;
    uint32_t xrc_srqn;
    union {
        struct {
            uint64_t remote_address;
            uint32_t rkey;
            uint32_t flush;
        } rdma;
        struct {
            uint64_t remote_address;
            uint32_t rkey;
            uint64_t swap_or_add;
            uint64_t compare;
            uint64_t swap_mask_or_boundary;
            uint64_t compare_mask;
        } atomic;
        struct {
            RoceAv av;
            uint32_t dest_qpn;
            uint32_t qkey;
        } ud;
        struct {
            uint64_t iova;
            uint64_t length;
            uint32_t key;
            uint32_t access;
            uint32_t page_count;
            uint8_t page_shift;
            uint64_t *pages;    /* malloc'ed, ownership passes to the engine */
        } reg_mr;
        struct {
            uint64_t address;
            uint64_t length;
            uint32_t mw_key;
            uint32_t new_key;
            uint32_t mr_key;
            uint32_t access;
        } bind_mw;
    };
    union {                     /* last: what is not used is not stored */
        RoceSge sge[FAKERNIC_SGE_MAX];
        uint8_t inline_data[FAKERNIC_INLINE_MAX];
    };
} RoceSendWr;

typedef struct RoceRecvWr {
    uint32_t tag;               /* returned as RoceCompletion.wqe_index */
    uint8_t sge_count;
    uint16_t format_error;      /* as in RoceSendWr */
    RoceSge sge[FAKERNIC_SGE_MAX];
} RoceRecvWr;

/* What a CQE says (struct fakernic_cqe in host order). */
typedef struct RoceCompletion {
    uint32_t cqn;
    uint32_t qpn;
    uint32_t wqe_index;
    uint32_t byte_count;
    uint32_t imm_or_key;
    uint32_t src_qpn;
    uint32_t srqn;
    uint16_t vendor_err;
    uint16_t pkey_index;
    uint16_t vlan;
    uint8_t opcode;             /* enum fakernic_cqe_opcode */
    uint8_t status;             /* enum fakernic_cqe_status */
    uint8_t flags;              /* FAKERNIC_CQE_* */
    uint8_t sl;
    uint8_t smac[6];
    uint8_t network_type;
} RoceCompletion;

/* Atomic operations on guest memory, 8 bytes at an 8-byte aligned address. */
typedef struct RoceAtomic {
    uint8_t opcode;             /* FAKERNIC_SQ_ATOMIC_* (masked or not) */
    uint64_t swap_or_add;
    uint64_t compare;
    uint64_t swap_mask_or_boundary;
    uint64_t compare_mask;
    uint64_t original;          /* out: the value before */
} RoceAtomic;

/*
 * The value an atomic leaves behind where 'value' was: the one place that knows
 * the arithmetic. Masked fetch and add: a set bit of the boundary is the most
 * significant bit of a field, out of which no carry goes.
 */
uint64_t roce_atomic_result(const RoceAtomic *op, uint64_t value);

/* What an XRC target needs of a shared receive queue. */
typedef struct RoceXrcSrq {
    uint64_t id;                /* never another SRQ's, unlike its number */
    RocePd pd;                  /* rkeys and lkeys of its messages */
    uint32_t cqn;               /* its receives complete here */
} RoceXrcSrq;

/* Points on a work request's way, for traces only. */
typedef enum RoceTracePoint {
    ROCE_TRACE_SEND_WR,         /* qpn, a = index, b = opcode */
    ROCE_TRACE_RX,              /* qpn (destination), a = psn, b = BTH opcode */
    ROCE_TRACE_DROP,            /* qpn, a = enum fakernic_stat, b = psn */
    ROCE_TRACE_NAK_TX,          /* qpn, a = psn, b = syndrome */
    ROCE_TRACE_NAK_RX,          /* qpn, a = psn, b = syndrome */
    ROCE_TRACE_RETRY,           /* qpn, a = psn, b = retries left */
    ROCE_TRACE_TIMEOUT,         /* qpn, a = psn, b = retries left */
    ROCE_TRACE_PROBE,           /* qpn, a = psn, b = how many since progress */
    ROCE_TRACE_QP_STATE,        /* qpn, a = old state, b = new state */
    ROCE_TRACE_QP_ERROR,        /* qpn, a = enum fakernic_vendor_err, b = 0 */
} RoceTracePoint;

typedef enum RoceFetch {
    ROCE_FETCH_NONE = 0,        /* the queue is empty */
    ROCE_FETCH_OK = 1,          /* *wr is filled in */
    ROCE_FETCH_ERROR = 2,       /* the queue itself is broken (DMA, overrun):
                                 * wr->format_error says why */
} RoceFetch;

/* How far a FLUSH of a range has come. */
typedef enum RoceFlush {
    ROCE_FLUSH_FAILED,          /* out of reach, or no medium to persist on */
    ROCE_FLUSH_DONE,            /* all of it */
    ROCE_FLUSH_BEGUN,           /* a part: roce_flush_ended() tells its end */
    ROCE_FLUSH_LATER,           /* nothing: the host asks to be asked again,
                                 * after roce_flush_resume() */
    ROCE_FLUSH_MORE,            /* of the engine: it goes on at once */
} RoceFlush;

#define ROCE_FLUSH_PARTS 64

/* What the host is asked to flush at once: of one range, in its order. */
typedef struct RoceFlushJob {
    uint32_t qpn;
    uint64_t ticket;            /* another one each time; never 0 */
    bool persistent;
    unsigned count;             /* 1 or more */
    struct {
        uint64_t address, len;
    } part[ROCE_FLUSH_PARTS];
} RoceFlushJob;

/*
 * Synchronous; may fail where they return bool; must not call the engine.
 * Addresses are DMA addresses, translated from keys by the engine; ranges do
 * not wrap and have been checked against the region.
 *
 * An address with this bit lies in device memory. It comes from the page list
 * of a FAKERNIC_MR_DM region only: the region of all DMA addresses ends below
 * it, and the host takes it from no other page list.
 */
#define ROCE_ADDRESS_DM (1ULL << 63)

typedef struct RoceHostOps {
    /* Reads or writes len >= 1 bytes. Writes land in ascending order and are
     * visible before any later operation of this interface. */
    bool (*dma_read)(void *host, uint64_t address, void *buf, size_t len);
    bool (*dma_write)(void *host, uint64_t address, const void *buf,
                      size_t len);
    bool (*dma_atomic)(void *host, uint64_t address, RoceAtomic *op);
    /*
     * FLUSH (IBTA annex A19). Without 'persistent': all that was written,
     * anywhere, is visible to all, which takes one barrier; asked for once per
     * FLUSH, with the beginning of its range, and answered at once. With it:
     * these bytes are on their medium. A host that has to wait for that answers
     * BEGUN, and in *done how many of the bytes, 1 or more, it is about to
     * bring there.
     */
    RoceFlush (*dma_flush)(void *host, const RoceFlushJob *job,
                           uint64_t *done);
    /* The next WQE of a QP's send queue: copied, decoded, consumed. */
    RoceFetch (*next_send)(void *host, uint32_t qpn, RoceSendWr *wr);
    /* The next WQE of a QP's receive queue, or of its SRQ (srqn != 0). */
    RoceFetch (*next_recv)(void *host, uint32_t qpn, uint32_t srqn,
                           RoceRecvWr *wr);
    /* Receives posted to a QP's own RQ and not fetched: for end-to-end credits.
     * A broken queue has none. */
    uint32_t (*recv_count)(void *host, uint32_t qpn);
    /* Finds an XRC SRQ; false: there is none of this number in the domain, or
     * it is in error. */
    bool (*xrc_srq)(void *host, uint32_t srqn, uint32_t xrcdn,
                    RoceXrcSrq *srq);
    /* Optional (NULL: no on-demand paging). These bytes of a region are wanted,
     * to be written to with 'write', and not all of them are there: the answer
     * is roce_mr_update_pages(), later. The same may be asked for often. False:
     * there is no room for the request now; it is made again after
     * roce_page_requests_resume(). */
    bool (*page_request)(void *host, uint32_t key, uint64_t address,
                         uint64_t length, bool write);
    /* A work request has completed. Called in completion order per queue. */
    void (*complete)(void *host, const RoceCompletion *completion);
    /* An asynchronous event: enum fakernic_event with the object's number. */
    void (*event)(void *host, uint8_t type, uint32_t id, uint16_t vendor_err);
    /* Optional (NULL): see RoceTracePoint. */
    void (*trace)(void *host, RoceTracePoint point, uint32_t qpn, uint32_t a,
                  uint32_t b);
} RoceHostOps;

/* ---- engine -------------------------------------------------------------- */

typedef struct RoceLimits {
    uint32_t max_qp;            /* power of two, <= 65536 */
    uint32_t max_mr;            /* regions and windows; power of two */
    uint32_t max_pd;            /* numbers of PDs are below this */
    uint32_t max_mcast_groups;  /* <= 256 */
    uint32_t max_odp_chunks;    /* of 512 pages, for all regions with on-demand
                                 * paging together; 0: there are no such */
    uint64_t hash_seed;         /* of tables whose keys the guest chooses: a
                                 * random number that nobody knows */
    uint16_t gid_count;
    uint16_t max_sends;         /* sends in flight per QP: fetched and not yet
                                 * completed; power of two */
    uint8_t max_rd_atomic;      /* initiator and responder resources per QP */
    bool dcqcn;                 /* received CNPs slow a QP down; data packets
                                 * are sent as ECN-capable, ECT(0) */
    uint32_t link_kbps;         /* where DCQCN starts; 0: 100 Gbit/s */
} RoceLimits;

/* Returns NULL only when out of memory. 'host' is handed to every operation. */
Roce *roce_new(const RoceLimits *limits, const RoceHostOps *ops, void *host);
/* Frees all objects without completions or events. */
void roce_free(Roce *r);
/* Destroys all objects, clears GIDs and counters: the state of roce_new(). */
void roce_reset(Roce *r);
/*
 * The same in pieces: up to 'max' objects are freed, of each kind. True: that
 * was all. Until then nothing but this and roce_free() may be called.
 */
bool roce_reset_some(Roce *r, uint32_t max);
/*
 * Frees some of the memory that destroyed regions had: 8 bytes for each of up
 * to 'pages' pages. True: that was all.
 */
bool roce_reclaim(Roce *r, uint64_t pages);

/* Counters by enum fakernic_stat; the host may add its own to the array. */
uint64_t *roce_stats(Roce *r);

/*
 * Steps of work done since roce_new(), free running, kept across roce_reset():
 * a frame taken by a QP, a turn of a QP, a WQE fetched, a completion, a timer
 * served, 16 entries of a page table or windows, 64 of the GID table. Each call
 * of the data plane makes a bounded number of them; the host charges the
 * difference to its budget.
 */
uint64_t roce_work(const Roce *r);

/* ---- data plane ---------------------------------------------------------- */

/* The send queue of a QP may hold new WQEs (a doorbell). */
void roce_post_send(Roce *r, RoceTime now, uint32_t qpn);

typedef enum RoceInput {
    ROCE_INPUT_TAKEN,           /* RoCEv2: processed, or dropped and counted */
    ROCE_INPUT_ETHERNET,        /* not RoCEv2 for this port's GIDs: the host
                                 * may hand it to the port with
                                 * roce_input_ethernet() */
} RoceInput;

/* One Ethernet frame without FCS, 14..any bytes. */
RoceInput roce_input(Roce *r, RoceTime now, const uint8_t *frame, size_t len);

/*
 * Delivers a frame to a raw-packet QP's receive queue; with 'strip' its VLAN
 * tag, if it has one, goes to the completion instead. False, and
 * FAKERNIC_STAT_RX_NO_BUFFER counted, when it has no receive or is not RTR/RTS.
 */
bool roce_input_ethernet(Roce *r, RoceTime now, uint32_t qpn,
                         const uint8_t *frame, size_t len, bool strip);

/*
 * Runs what is due at 'now': retransmission, RNR waits, flushes, QPs whose turn
 * to send has come; a bounded number of QPs per call. With more due
 * roce_deadline() is not after 'now'.
 */
void roce_tick(Roce *r, RoceTime now);

/* When roce_tick() is next needed; ROCE_TIME_NEVER: only on other input. */
RoceTime roce_deadline(const Roce *r);

/*
 * Pulls the next frame to send, complete with Ethernet header, without FCS,
 * round robin between QPs. 'buf' holds ROCE_FRAME_MAX bytes. Returns its
 * length, or 0 when there is nothing to send now. *loopback is set when the
 * destination is one of this engine's own GIDs: such a frame goes back into
 * roce_input(), not on the wire. (A frame to a multicast group with members
 * here comes twice: once for the wire, once with *loopback.) Guest memory is
 * read here, once per frame.
 *
 * The caller has sent the frame before it asks for another, which also
 * completes the work request of the one before, if nobody answers it (UC, UD,
 * raw): what is complete has been sent.
 */
size_t roce_output(Roce *r, RoceTime now, uint8_t *buf, bool *loopback);

/* Which work request a frame is of. */
typedef struct RoceFrameInfo {
    uint32_t qpn;               /* the sender's */
    uint32_t peer;              /* the destination's */
    uint32_t psn;
    uint32_t index;             /* of the WQE, or ROCE_INDEX_NONE: an answer */
    uint8_t opcode;             /* of the BTH */
    uint8_t attempt;            /* 1, 2, ...: how often this PSN was sent */
    bool roce;                  /* else a raw frame: only qpn is valid */
} RoceFrameInfo;
#define ROCE_INDEX_NONE UINT32_MAX

/*
 * The PSN that the QP's connection began with: of the requests that it sends,
 * or of those that it takes. False: there is no such QP.
 */
bool roce_qp_first_psn(const Roce *r, uint32_t qpn, bool sends, uint32_t *psn);

/* Of the frame that roce_output() handed out last. */
const RoceFrameInfo *roce_output_info(const Roce *r);

/*
 * Does the wire take frames? While it does not, roce_output() makes those with
 * *loopback only, and executes what needs no frame; QPs whose next frame is for
 * the wire wait. After roce_new() and roce_reset() it does.
 */
void roce_set_wire(Roce *r, bool takes_frames);

/* ---- control plane ------------------------------------------------------- */

/*
 * Control operations return enum fakernic_cmd_status; a failed one changes
 * nothing. They emit completions and events through the host operations.
 */

typedef struct RoceQpInit {
    uint8_t type;               /* enum fakernic_qp_type */
    bool has_sq;
    bool has_rq;                /* own RQ; exclusive with srqn */
    bool block_mcast_lb;        /* its multicast datagrams do not come back */
    RocePd pd;
    uint32_t send_cqn;
    uint32_t recv_cqn;
    uint32_t srqn;
    uint32_t xrcdn;
} RoceQpInit;

/* struct fakernic_qp_attr in host order. */
typedef struct RoceQpAttr {
    uint8_t state, cur_state, path_mtu, path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qpn, access_flags;
    uint16_t pkey_index, alt_pkey_index;
    uint8_t port, alt_port, max_rd_atomic, max_dest_rd_atomic;
    uint8_t min_rnr_timer, timeout, retry_cnt, rnr_retry;
    uint8_t alt_timeout, sqd_async_notify, sq_draining;
    uint32_t rate_limit_kbps;
    RoceAv av, alt_av;
} RoceQpAttr;

/* Bytes that the engine allocates for such a QP at most, with a full queue of
 * the longest work requests. */
size_t roce_qp_memory(const Roce *r, const RoceQpInit *init);
/* GSI gets QPN 1; others a QPN not used for as long as possible before. */
int roce_qp_create(Roce *r, const RoceQpInit *init, uint32_t *qpn);
/*
 * No further completion or event names the QP once this returns. It takes time
 * by the windows of type 2 that are bound to the QP and nothing else.
 */
int roce_qp_destroy(Roce *r, uint32_t qpn);
/* Unbinds up to 'max' of these windows; true: none is left. */
bool roce_qp_unbind(Roce *r, uint32_t qpn, uint32_t max);
/*
 * IBTA 11.2.5.2. *bad_field is set to the FAKERNIC_QP_ATTR_* bit of the
 * attribute refused, or 0. A transition to RESET forgets all work requests; to
 * ERR it flushes them with completions. Receives posted later ring no doorbell:
 * roce_tick() looks for them after FAKERNIC_RQ_FLUSH_INTERVAL_NS, then after
 * waits that double up to FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS. Each work request
 * that is flushed, and each roce_post_send(), starts with the first wait again.
 */
int roce_qp_modify(Roce *r, RoceTime now, uint32_t qpn, uint32_t mask,
                   const RoceQpAttr *attr, uint32_t *bad_field);
/* Attributes of a QP as of now; BAD_ID: there is none. */
int roce_qp_query(Roce *r, uint32_t qpn, RoceQpAttr *attr);

/* What no attribute tells: how far the QP is. */
typedef struct RoceQpView {
    uint32_t una_psn;           /* the oldest not acknowledged */
    uint32_t tx_psn;            /* the next to be sent, again or first */
    uint32_t high_psn;          /* behind the last sent ever */
    uint32_t in_flight;         /* work requests fetched and not complete */
    uint32_t msn;
    uint8_t retry_left, rnr_left;
    bool nak_sent;
    bool loopback;
} RoceQpView;

/* Changes nothing; false: there is no such QP. */
bool roce_qp_view(const Roce *r, uint32_t qpn, RoceQpView *view);

/*
 * A QP counts beside roce_stats() in this array, too: FAKERNIC_STAT_COUNT
 * entries by enum fakernic_stat, of which what happens to one QP are used. It
 * is the host's, may be shared between QPs, and is used until another (or
 * NULL) is set or the QP is destroyed.
 */
int roce_qp_set_counters(Roce *r, uint32_t qpn, uint64_t *counters);
/* The host found the QP's CQ or ring broken: to ERR, flush, QP_FATAL event. */
void roce_qp_error(Roce *r, RoceTime now, uint32_t qpn, uint16_t vendor_err);

typedef struct RoceMrInit {
    uint8_t type;               /* enum fakernic_mr_type */
    uint8_t tag;
    uint8_t page_shift;
    RocePd pd;
    uint32_t access;
    uint32_t page_count;        /* MEMORY, DM: entries of pages; FAST_REG:
                                 * maximum; else 0 */
    uint64_t iova;
    uint64_t length;
    uint64_t *pages;            /* malloc'ed page addresses; the engine owns
                                 * them once the call succeeds */
    bool aligned;               /* the host has seen that all of them are: the
                                 * call does not look at millions of them */
} RoceMrInit;

/* A region, its key in *key. NO_RESOURCE: there are max_mr keys. */
int roce_mr_create(Roce *r, const RoceMrInit *init, uint32_t *key);
/*
 * Changes what 'mask' (FAKERNIC_REREG_*) says. *key: the region's; then its
 * key after that.
 */
int roce_mr_rereg(Roce *r, uint32_t mask, const RoceMrInit *init,
                  uint32_t *key);
/* Also for windows. BUSY while a window is bound to the region. */
int roce_mr_destroy(Roce *r, uint32_t key);
/* The same, but for those who wait for its pages: roce_wake_some() is due. */
int roce_mr_destroy_begin(Roce *r, uint32_t key);
/* A window of this enum fakernic_mw_type, not bound; its key in *key. */
int roce_mw_create(Roce *r, uint8_t type, uint8_t tag, RocePd pd,
                   uint32_t *key);
/* Unbinds it, and frees its key. */
int roce_mw_destroy(Roce *r, uint32_t key);
/* What a key is, for whoever looks from outside. */
typedef struct RoceMrView {
    uint32_t key;               /* with its tag of now */
    bool window;
    uint8_t type;               /* enum fakernic_mr_type or _mw_type */
    bool valid;                 /* registered, or bound */
    uint32_t access;
    uint64_t start, length;
    uint32_t windows;           /* bound to the region */
    uint32_t qpn;               /* a window's of type 2B, while bound */
} RoceMrView;

/* By its index; changes nothing. False: there is no such key. */
bool roce_mr_view(const Roce *r, uint32_t index, RoceMrView *view);
/* How many keys belong to a PD (for DEALLOC_PD's BUSY); O(1). */
uint32_t roce_pd_users(const Roce *r, RocePd pd);

typedef enum RocePages {
    ROCE_PAGES_ABSENT,          /* no longer touched once the call returns */
    ROCE_PAGES_READABLE,
    ROCE_PAGES_WRITABLE,        /* and readable */
    ROCE_PAGES_REFUSED,         /* not to be had: who waits for them fails */
} RocePages;

/* What has become of some pages of a region with on-demand paging. */
typedef struct RocePageUpdate {
    uint32_t key;
    RocePages state;
    uint64_t address;           /* of the first, in the region's addresses */
    uint32_t page_count;
    uint8_t page_shift;         /* READABLE, WRITABLE: the region's */
    const uint64_t *pages;      /* and DMA addresses */
} RocePageUpdate;

/*
 * All at once, those who wait for the pages included: takes as long as there
 * are.
 */
int roce_mr_update_pages(Roce *r, const RocePageUpdate *update);
/*
 * The same in pieces: tells of up to 'max' pages behind the first '*done', and
 * adds their number to it. The range is judged as a whole each time, so that
 * only the first call can find it wrong; pages[] only as far as it is used.
 * roce_wake_some() is due for those who wait for these pages.
 */
int roce_mr_update_some(Roce *r, const RocePageUpdate *update, uint32_t *done,
                        uint32_t max);
/*
 * Lets some go on of those who waited for what the host has told of. True: that
 * was all. What is left is done at once by the next call that tells of pages.
 */
bool roce_wake_some(Roce *r);

/* The host has room for page requests again. Some of those in line are made:
 * unless that fills the room, the rest wait for the next such call, which comes
 * when the host has taken them. */
void roce_page_requests_resume(Roce *r);

/* What was begun for a job is over. Who asked for it may be gone since. */
void roce_flush_ended(Roce *r, uint32_t qpn, uint64_t ticket, bool ok);

/*
 * The host takes another job: who has waited longest since ROCE_FLUSH_LATER
 * asks again. False: nobody waits.
 */
bool roce_flush_resume(Roce *r);

typedef struct RoceGid {
    uint8_t type;               /* enum fakernic_gid_type */
    uint16_t vlan;
    uint8_t mac[6];
    uint8_t gid[16];
} RoceGid;

/* Type NONE empties the entry. Paths that use it take the new one at once. */
int roce_gid_set(Roce *r, uint16_t index, const RoceGid *gid);
/* False: the entry is not set, or there is none of this index. */
bool roce_gid_get(const Roce *r, uint16_t index, RoceGid *gid);
/* A UD QP to a group; once more for one that is attached does nothing. */
int roce_mcast_attach(Roce *r, const uint8_t gid[16], uint32_t qpn);
/* BAD_ID: it is not attached. */
int roce_mcast_detach(Roce *r, const uint8_t gid[16], uint32_t qpn);

/*
 * The Ethernet payload the port takes: path MTUs that do not fit are refused.
 */
void roce_set_port_mtu(Roce *r, uint32_t mtu);

/*
 * Are the checksums of frames for raw-packet QPs checked, and completions told
 * of those that are right? After roce_new() and roce_reset() they are not.
 */
void roce_set_checks_csum(Roce *r, bool checks);

#endif
