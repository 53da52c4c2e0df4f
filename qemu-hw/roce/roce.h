/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RoCEv2 engine: its whole public interface.
 *
 * The engine is a function of (state, input, now). It is C11 with libc's
 * memory and string functions and libdeflate's CRC32. It uses no QEMU code,
 * threads, clock, random numbers or sockets. The host pushes frames in with
 * roce_input() and pulls them out with roce_output(). The host passes the time
 * in, and the engine returns its next deadline. For everything else (guest
 * memory, the next work request, the place of a completion) the engine calls
 * its host through struct RoceHostOps. QEMU, the simulator, the unit tests and
 * the fuzzers are such hosts.
 *
 * Rules for callers:
 *
 *  - one thread per Roce; host operations must not call back into the engine;
 *  - 'now' never decreases;
 *  - after any roce_post_*, roce_input, roce_tick or roce_qp_* call the caller
 *    drains roce_output() until it returns 0, or until its wire takes no more
 *    frames, and then reads roce_deadline() again;
 *  - opcodes, states, attributes, statuses and counters have the numbers of
 *    the firmware-spec headers: there is no second set of names for them.
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

/* Largest Ethernet frame the engine sends or receives: 9000 + header + VLAN. */
#define ROCE_FRAME_MAX 9022

typedef struct Roce Roce;
typedef struct RoceStream RoceStream;   /* stream.h */

/*
 * A protection domain: its number, below RoceLimits.max_pd, and a generation
 * that the host never repeats for this number. The engine keeps answers for
 * duplicate requests even after the domain is gone. The generation tells the
 * old domain from a new one with the same number.
 */
typedef uint64_t RocePd;
#define ROCE_PD(number, generation) \
    ((RocePd)(generation) << 32 | (uint32_t)(number))
#define ROCE_PD_NUMBER(pd) ((uint32_t)(pd))

/* ---- operations of the host -------------------------------------------- */

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
 * within limits, reserved fields zero) and copied it from guest memory. The
 * engine checks whether the QP may execute it.
 */
typedef struct RoceSendWr {
    uint32_t index;             /* returned as RoceCompletion.wqe_index */
    uint8_t opcode;             /* enum fakernic_sq_opcode */
    uint8_t flags;              /* FAKERNIC_SQ_* */
    uint8_t sge_count;
    uint16_t inline_length;     /* with FAKERNIC_SQ_INLINE */
    uint16_t mss;               /* RAW_PACKET: size of TCP segments; 0: send
                                 * one frame */
    uint16_t format_error;      /* enum fakernic_vendor_err, or 0. The host
                                 * refused the WQE: it completes with
                                 * LOC_QP_OP_ERR. Only index, opcode and flags
                                 * are valid. */
    uint8_t forced_status;      /* enum fakernic_wc_status, or 0: when its turn
                                 * comes, it fails with this status */
    uint16_t forced_error;      /* and with this vendor_err */
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
    union {                     /* last: the unused rest is not stored */
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

/* The contents of a CQE (struct fakernic_cqe in host order). */
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
    uint64_t original;          /* out: the original value */
} RoceAtomic;

/*
 * The value that an atomic stores in place of 'value'. This is the only
 * implementation of the arithmetic. Masked fetch and add: each set bit of the
 * boundary is the most significant bit of a field, and no carry leaves a
 * field.
 */
uint64_t roce_atomic_result(const RoceAtomic *op, uint64_t value);

/* The part of a shared receive queue that an XRC target uses. */
typedef struct RoceXrcSrq {
    uint64_t id;                /* unique; SRQ numbers are reused */
    RocePd pd;                  /* rkeys and lkeys of its messages */
    uint32_t cqn;               /* its receives complete here */
} RoceXrcSrq;

/* Trace points along the path of a work request. */
typedef enum RoceTracePoint {
    ROCE_TRACE_SEND_WR,         /* qpn, a = index, b = opcode */
    ROCE_TRACE_RX,              /* qpn (destination), a = psn, b = BTH opcode */
    ROCE_TRACE_DROP,            /* qpn, a = enum fakernic_stat, b = psn */
    ROCE_TRACE_NAK_TX,          /* qpn, a = psn, b = syndrome */
    ROCE_TRACE_NAK_RX,          /* qpn, a = psn, b = syndrome */
    ROCE_TRACE_RETRY,           /* qpn, a = psn, b = retries left */
    ROCE_TRACE_TIMEOUT,         /* qpn, a = psn, b = retries left */
    ROCE_TRACE_PROBE,           /* qpn, a = psn, b = probes since progress */
    ROCE_TRACE_QP_STATE,        /* qpn, a = old state, b = new state */
    ROCE_TRACE_QP_ERROR,        /* qpn, a = enum fakernic_vendor_err, b = 0 */
} RoceTracePoint;

typedef enum RoceFetch {
    ROCE_FETCH_NONE = 0,        /* the queue is empty */
    ROCE_FETCH_OK = 1,          /* *wr is filled in */
    ROCE_FETCH_ERROR = 2,       /* the queue failed (DMA error, overrun): see
                                 * wr->format_error */
} RoceFetch;

/* Progress of a FLUSH. */
typedef enum RoceFlush {
    ROCE_FLUSH_FAILED,          /* bad address, or no persistent medium */
    ROCE_FLUSH_DONE,            /* complete */
    ROCE_FLUSH_BEGUN,           /* a part has started: roce_flush_ended()
                                 * reports its end */
    ROCE_FLUSH_LATER,           /* the host is busy: retry after
                                 * roce_flush_resume() */
    ROCE_FLUSH_MORE,            /* set by the engine only: it continues at
                                 * once */
} RoceFlush;

#define ROCE_FLUSH_PARTS 64

/* Parts of one range, in order, that the host flushes together. */
typedef struct RoceFlushJob {
    uint32_t qpn;
    uint64_t ticket;            /* unique per job; never 0 */
    bool persistent;
    unsigned count;             /* 1 or more */
    struct {
        uint64_t address, len;
    } part[ROCE_FLUSH_PARTS];
} RoceFlushJob;

/*
 * Host operations are synchronous, and must not call the engine. Those that
 * return bool may fail. Addresses are DMA addresses, which the engine has
 * translated from keys. Ranges do not wrap, and the engine has checked them
 * against the region.
 *
 * An address with this bit is in device memory. Only the page list of a
 * FAKERNIC_MR_DM region contains such addresses. The region of all DMA
 * addresses ends below the bit, and the host rejects it in other page lists.
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
     * FLUSH (IBTA annex A19). Without 'persistent' the host makes all earlier
     * writes, to any address, visible to everyone, which takes one barrier.
     * The engine requests it once per FLUSH, with the start of the range, and
     * the host completes it at once. With 'persistent' the host brings these
     * bytes to their medium. If that takes time, the host returns BEGUN and
     * sets *done to the number of bytes, at least 1, that it has begun to
     * flush.
     */
    RoceFlush (*dma_flush)(void *host, const RoceFlushJob *job,
                           uint64_t *done);
    /* The next WQE of a QP's send queue: copied, decoded, consumed. */
    RoceFetch (*next_send)(void *host, uint32_t qpn, RoceSendWr *wr);
    /* The next WQE of a QP's receive queue, or of its SRQ (srqn != 0). */
    RoceFetch (*next_recv)(void *host, uint32_t qpn, uint32_t srqn,
                           RoceRecvWr *wr);
    /* Number of receives posted to a QP's own RQ and not yet fetched, for
     * end-to-end credits. It is 0 for a broken queue. */
    uint32_t (*recv_count)(void *host, uint32_t qpn);
    /* Finds an XRC SRQ. False: the domain has none of this number, or it is in
     * error. */
    bool (*xrc_srq)(void *host, uint32_t srqn, uint32_t xrcdn,
                    RoceXrcSrq *srq);
    /* Optional (NULL: no on-demand paging). The engine needs these bytes of a
     * region, with 'write' to write to them, and some of their pages are
     * absent. The host answers later with roce_mr_update_pages(). The engine
     * may repeat a request. False: the host has no room for the request. The
     * engine retries it after roce_page_requests_resume(). */
    bool (*page_request)(void *host, uint32_t key, uint64_t address,
                         uint64_t length, bool write);
    /*
     * Reports a completed work request. Called in completion order per queue.
     */
    void (*complete)(void *host, const RoceCompletion *completion);
    /*
     * Reports an asynchronous event: enum fakernic_event with the object's
     * number.
     */
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
    uint32_t max_odp_chunks;    /* chunks of 512 pages, for all regions with
                                 * on-demand paging; 0: on-demand paging is
                                 * off */
    uint64_t hash_seed;         /* a secret random number, for tables whose
                                 * keys the guest chooses */
    uint16_t gid_count;
    uint16_t max_sends;         /* sends in flight per QP: fetched and not yet
                                 * completed; power of two */
    uint8_t max_rd_atomic;      /* initiator and responder resources per QP */
    bool dcqcn;                 /* received CNPs slow a QP down; data packets
                                 * are sent as ECN-capable, ECT(0) */
    uint32_t link_kbps;         /* initial rate of DCQCN; 0: 100 Gbit/s */
} RoceLimits;

/*
 * Returns NULL only if out of memory. The engine passes 'host' to each
 * operation.
 */
Roce *roce_new(const RoceLimits *limits, const RoceHostOps *ops, void *host);
/* Frees all objects. Reports no completions or events. */
void roce_free(Roce *r);
/* Destroys all objects, clears GIDs and counters: the state of roce_new(). */
void roce_reset(Roce *r);
/*
 * Like roce_reset(), but frees at most 'max' objects of each kind per call.
 * True: the reset is complete. Until then the host may only call this function
 * and roce_free().
 */
bool roce_reset_some(Roce *r, uint32_t max);
/* Bytes of the one line that says why roce_load() failed. */
#define ROCE_LOAD_ERROR 160

/* Appends bytes to the host's stream, or reads the next ones. False: the
 * stream has failed, or has ended. */
typedef bool (*RoceSaveBytes)(void *stream, const void *bytes, size_t size);
typedef bool (*RoceLoadBytes)(void *stream, void *bytes, size_t size);

/*
 * Writes the state of all objects to a stream, in a format with a version.
 * The engine does not change. No reset may be in progress. Pages of regions
 * with on-demand paging are not saved: they are absent after the load, and are
 * requested again. The host's pointers (counters) are not saved either. False:
 * the stream has failed.
 */
bool roce_save(Roce *r, RoceSaveBytes write, void *stream);
/*
 * Replaces all objects by those of a stream, which was saved with the same
 * limits. The stream is checked like any other hostile input: it cannot make a
 * later call access memory that the engine does not own, fail an assertion or
 * run without a bound. False: the stream is invalid, 'error' says why, and the
 * engine is in the state of roce_new(). Host operations are not called. The
 * host must compare numbers of its own objects: see roce_qp_query_init().
 */
bool roce_load(Roce *r, RoceLoadBytes read, void *stream,
               char error[ROCE_LOAD_ERROR]);

/*
 * Frees page tables of destroyed regions: 8 bytes for each of up to 'pages'
 * pages. True: none is left.
 */
bool roce_reclaim(Roce *r, uint64_t pages);

/* Counters by enum fakernic_stat; the host may add its own to the array. */
uint64_t *roce_stats(Roce *r);

/*
 * Steps of work done since roce_new(): free running, and kept across
 * roce_reset(). One step is a frame that a QP receives, a turn of a QP, a WQE
 * fetched, a completion, a timer served, 16 entries of a page table or
 * windows, or 64 entries of the GID table. Each data-plane call takes a
 * bounded number of steps. The host charges the difference to its budget.
 */
uint64_t roce_work(const Roce *r);

/* ---- data plane ---------------------------------------------------------- */

/* The send queue of a QP may hold new WQEs (a doorbell). */
void roce_post_send(Roce *r, RoceTime now, uint32_t qpn);

typedef enum RoceInput {
    ROCE_INPUT_TAKEN,           /* RoCEv2: processed, or dropped and counted */
    ROCE_INPUT_ETHERNET,        /* not RoCEv2 for this port's GIDs: the host
                                 * may pass it to roce_input_ethernet() */
} RoceInput;

/* One Ethernet frame without FCS, 14..any bytes. */
RoceInput roce_input(Roce *r, RoceTime now, const uint8_t *frame, size_t len);

/*
 * Delivers a frame to a raw-packet QP's receive queue. With 'strip' the VLAN
 * tag of a tagged frame moves to the completion. If the QP has no receive or
 * is not in RTR or RTS, the function counts FAKERNIC_STAT_RX_NO_BUFFER and
 * returns false.
 */
bool roce_input_ethernet(Roce *r, RoceTime now, uint32_t qpn,
                         const uint8_t *frame, size_t len, bool strip);

/*
 * Does the work that is due at 'now': retransmissions, ends of RNR waits,
 * flushes, and paced QPs that may send again. Each call serves a bounded
 * number of QPs. If more are due, roce_deadline() is not after 'now'.
 */
void roce_tick(Roce *r, RoceTime now);

/* When to call roce_tick() next. ROCE_TIME_NEVER: not before other input. */
RoceTime roce_deadline(const Roce *r);

/*
 * Pulls the next frame to send, with its Ethernet header but without FCS,
 * round robin between QPs. 'buf' holds ROCE_FRAME_MAX bytes. Returns the
 * length, or 0 if there is nothing to send now. *loopback is set if the
 * destination is one of this engine's own GIDs: the caller passes such a frame
 * to roce_input() and does not send it. A frame to a multicast group with
 * local members comes twice: first for the wire, then with *loopback. The
 * function reads guest memory, once per frame.
 *
 * The caller sends each frame before it asks for the next. For services
 * without answers (UC, UD, raw) that call completes the work request of the
 * frame before. So a frame has been sent when its work request completes.
 */
size_t roce_output(Roce *r, RoceTime now, uint8_t *buf, bool *loopback);

/* The work request that a frame belongs to. */
typedef struct RoceFrameInfo {
    uint32_t qpn;               /* the sender's */
    uint32_t peer;              /* the destination's */
    uint32_t psn;
    uint32_t index;             /* of the WQE; ROCE_INDEX_NONE: an answer */
    uint8_t opcode;             /* of the BTH */
    uint8_t attempt;            /* 1, 2, ...: number of times this PSN was
                                 * sent */
    bool roce;                  /* false: a raw frame; only qpn is valid */
} RoceFrameInfo;
#define ROCE_INDEX_NONE UINT32_MAX

/*
 * The first PSN of the QP's connection: with 'sends' of the requests that it
 * sends, otherwise of those that it receives. False: there is no such QP.
 */
bool roce_qp_first_psn(const Roce *r, uint32_t qpn, bool sends, uint32_t *psn);

/* Describes the last frame that roce_output() returned. */
const RoceFrameInfo *roce_output_info(const Roce *r);

/*
 * Sets whether the wire takes frames, which it does after roce_new() and
 * roce_reset(). While it does not, roce_output() returns only frames with
 * *loopback and executes work requests that need no frame. QPs whose next
 * frame is for the wire wait.
 */
void roce_set_wire(Roce *r, bool takes_frames);

/* ---- control plane ------------------------------------------------------- */

/*
 * Control operations return enum fakernic_cmd_status. A failed one changes
 * nothing. They report completions and events through the host operations.
 */

typedef struct RoceQpInit {
    uint8_t type;               /* enum fakernic_qp_type */
    bool has_sq;
    bool has_rq;                /* own RQ; exclusive with srqn */
    bool block_mcast_lb;        /* do not loop its multicast datagrams back */
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

/* Upper limit of the memory that the engine allocates for such a QP, in bytes,
 * with a full queue of the longest work requests. */
size_t roce_qp_memory(const Roce *r, const RoceQpInit *init);
/* GSI gets QPN 1, other types the free QPN that was released longest ago. */
int roce_qp_create(Roce *r, const RoceQpInit *init, uint32_t *qpn);
/*
 * After this returns no completion or event names the QP. The time it takes
 * depends only on the number of type 2 windows bound to the QP.
 */
int roce_qp_destroy(Roce *r, uint32_t qpn);
/* Unbinds up to 'max' of these windows. True: none is left. */
bool roce_qp_unbind(Roce *r, uint32_t qpn, uint32_t max);
/*
 * IBTA 11.2.5.2. *bad_field is set to the FAKERNIC_QP_ATTR_* bit of the
 * refused attribute, or to 0. A transition to RESET discards all work
 * requests; one to ERR flushes them with completions. Receives posted later
 * ring no doorbell, so roce_tick() polls for them: after
 * FAKERNIC_RQ_FLUSH_INTERVAL_NS, then after waits that double up to
 * FAKERNIC_RQ_FLUSH_INTERVAL_MAX_NS. Each flushed work request, and each
 * roce_post_send(), restarts with the shortest wait.
 */
int roce_qp_modify(Roce *r, RoceTime now, uint32_t qpn, uint32_t mask,
                   const RoceQpAttr *attr, uint32_t *bad_field);
/* The current attributes of a QP. BAD_ID: there is no such QP. */
int roce_qp_query(Roce *r, uint32_t qpn, RoceQpAttr *attr);

/* The numbers that the QP was created with. False: there is no such QP. */
bool roce_qp_query_init(const Roce *r, uint32_t qpn, RoceQpInit *init);

/* Is the QP connected to another port? */
bool roce_qp_is_foreign(Roce *r, uint32_t qpn);

/* The progress of a QP, which no attribute contains. */
typedef struct RoceQpView {
    uint32_t una_psn;           /* oldest unacknowledged PSN */
    uint32_t tx_psn;            /* next to send, or to retransmit */
    uint32_t high_psn;          /* one after the highest ever sent */
    uint32_t in_flight;         /* work requests fetched, not complete */
    uint32_t msn;
    uint8_t retry_left, rnr_left;
    bool nak_sent;
    bool loopback;
} RoceQpView;

/* Does not change the QP. False: there is no such QP. */
bool roce_qp_view(const Roce *r, uint32_t qpn, RoceQpView *view);

/*
 * Sets a counter array of the QP, which it updates in addition to
 * roce_stats(). It has FAKERNIC_STAT_COUNT entries by enum fakernic_stat; only
 * the counters of QP events are used. The host owns the array, and QPs may
 * share one. The engine uses it until the host sets another (or NULL) or
 * destroys the QP.
 */
int roce_qp_set_counters(Roce *r, uint32_t qpn, uint64_t *counters);
/*
 * The host reports a broken CQ or ring: the QP goes to ERR and is flushed, and
 * QP_FATAL is reported.
 */
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
    bool aligned;               /* the host has checked that all pages are
                                 * aligned, so the call does not check millions
                                 * of them again */
} RoceMrInit;

/* Creates a region and sets *key. NO_RESOURCE: all max_mr keys are in use. */
int roce_mr_create(Roce *r, const RoceMrInit *init, uint32_t *key);
/*
 * Changes the attributes in 'mask' (FAKERNIC_REREG_*). *key is the region's
 * key; the call sets it to the new one.
 */
int roce_mr_rereg(Roce *r, uint32_t mask, const RoceMrInit *init,
                  uint32_t *key);
/*
 * Destroys a region. BUSY: a window is bound to it. BAD_ID: there is no such
 * region.
 */
int roce_mr_destroy(Roce *r, uint32_t key);
/*
 * Like roce_mr_destroy(), but leaves QPs that wait for its pages to
 * roce_wake_some(), which the caller must call.
 */
int roce_mr_destroy_begin(Roce *r, uint32_t key);
/* Creates an unbound window of this enum fakernic_mw_type and sets *key. */
int roce_mw_create(Roce *r, uint8_t type, uint8_t tag, RocePd pd,
                   uint32_t *key);
/* Unbinds it, and frees its key. */
int roce_mw_destroy(Roce *r, uint32_t key);
/* Properties of a key, for observers outside the engine. */
typedef struct RoceMrView {
    uint32_t key;               /* with its current tag */
    bool window;
    uint8_t type;               /* enum fakernic_mr_type or _mw_type */
    bool valid;                 /* registered, or bound */
    uint32_t access;
    uint64_t start, length;
    uint32_t windows;           /* bound to the region */
    uint32_t qpn;               /* of a bound type 2B window */
} RoceMrView;

/* Looks up a key by its index. False: there is none. */
bool roce_mr_view(const Roce *r, uint32_t index, RoceMrView *view);
/* Number of keys that belong to a PD (for DEALLOC_PD's BUSY); O(1). */
uint32_t roce_pd_users(const Roce *r, RocePd pd);

typedef enum RocePages {
    ROCE_PAGES_ABSENT,          /* not accessed after the call returns */
    ROCE_PAGES_READABLE,
    ROCE_PAGES_WRITABLE,        /* and readable */
    ROCE_PAGES_REFUSED,         /* unavailable: work requests that wait for
                                 * them fail */
} RocePages;

/* The new state of some pages of a region with on-demand paging. */
typedef struct RocePageUpdate {
    uint32_t key;
    RocePages state;
    uint64_t address;           /* of the first page, in the region's address
                                 * space */
    uint32_t page_count;
    uint8_t page_shift;         /* READABLE, WRITABLE: the region's */
    const uint64_t *pages;      /* and DMA addresses */
} RocePageUpdate;

/*
 * Updates all pages in one call and wakes the QPs that wait for them. The time
 * it takes grows with the number of both.
 */
int roce_mr_update_pages(Roce *r, const RocePageUpdate *update);
/*
 * Like roce_mr_update_pages(), but updates at most 'max' pages after the first
 * '*done', and adds their number to '*done'. Each call checks the whole range,
 * so only the first can find it invalid. It reads pages[] only for the pages
 * that it updates. The caller must call roce_wake_some() for the QPs that wait
 * for these pages.
 */
int roce_mr_update_some(Roce *r, const RocePageUpdate *update, uint32_t *done,
                        uint32_t max);
/*
 * Wakes some of the QPs whose pages the host has reported. True: none is left.
 * The next call that reports pages first wakes all that are left.
 */
bool roce_wake_some(Roce *r);

/* The host has room for page requests again. The engine makes some of those
 * that are queued. If they do not fill the room, the rest wait for the next
 * such call, which the host makes when it has taken them. */
void roce_page_requests_resume(Roce *r);

/* The host has finished a job. The QP that requested it may be gone. */
void roce_flush_ended(Roce *r, uint32_t qpn, uint64_t ticket, bool ok);

/*
 * The host takes another job. The QP that has waited longest since
 * ROCE_FLUSH_LATER retries. False: no QP waits.
 */
bool roce_flush_resume(Roce *r);

typedef struct RoceGid {
    uint8_t type;               /* enum fakernic_gid_type */
    uint16_t vlan;
    uint8_t mac[6];
    uint8_t gid[16];
} RoceGid;

/* Type NONE clears the entry. Paths that use it follow the change at once. */
int roce_gid_set(Roce *r, uint16_t index, const RoceGid *gid);
/* False: the entry is not set or the index is out of range. */
bool roce_gid_get(const Roce *r, uint16_t index, RoceGid *gid);
/* Attaches a UD QP to a group. Attaching it twice has no further effect. */
int roce_mcast_attach(Roce *r, const uint8_t gid[16], uint32_t qpn);
/* BAD_ID: the QP is not attached. */
int roce_mcast_detach(Roce *r, const uint8_t gid[16], uint32_t qpn);
/* True: a QP is in a group. */
bool roce_mcast_any(const Roce *r);

/*
 * Sets the largest Ethernet payload of the port, at most 9000. Larger path MTUs
 * are refused.
 */
void roce_set_port_mtu(Roce *r, uint32_t mtu);

/*
 * Sets whether the engine checks the checksums of frames for raw-packet QPs
 * and reports correct ones in completions. It does not after roce_new() and
 * roce_reset().
 */
void roce_set_checks_csum(Roce *r, bool checks);

#endif
