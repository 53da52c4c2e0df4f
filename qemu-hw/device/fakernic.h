/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fakernic device: its state, and the prototypes of its files.
 *
 * The device is a shell around the RoCEv2 engine (../roce/roce.h). It knows
 * PCI, guest memory, queues and interrupts, and nothing of packets: it fetches
 * work requests for the engine, places the completions, and moves frames
 * between the engine and the netdev. Everything in guest-visible format comes
 * from the hardware interface headers, is copied once and decoded from the copy.
 *
 * Files call forward along the journey of a work request: bar -> sq, cmdq ->
 * cmd_* -> ring -> dma; engine -> sq, rq, cq -> eq; pump -> port. The engine's
 * downcalls never call the engine; what they find broken waits for pump.c.
 */
#ifndef FAKERNIC_DEVICE_H
#define FAKERNIC_DEVICE_H

#include "qemu/queue.h"
#include "qemu/units.h"
#include "qemu/timer.h"
#include "qemu/log.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "qom/object.h"

#include "fakernic/base.h"
#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/eq.h"
#include "fakernic/mr.h"
#include "fakernic/qp.h"
#include "fakernic/regs.h"
#include "fakernic/rq.h"
#include "fakernic/sq.h"
#include "fakernic/stats.h"
#include "fakernic/wq.h"
#include "../roce/roce.h"

#define TYPE_FAKERNIC "fakernic"
OBJECT_DECLARE_SIMPLE_TYPE(FakernicState, FAKERNIC)

/*
 * What the device offers: exactly what the engine and this shell implement end
 * to end. The one place to touch when a feature is done.
 */
#define FAKERNIC_FEATURES_IMPLEMENTED                                       \
    (FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UC | FAKERNIC_FEATURE_UD |      \
     FAKERNIC_FEATURE_XRC | FAKERNIC_FEATURE_RAW_PACKET |                   \
     FAKERNIC_FEATURE_ATOMIC | FAKERNIC_FEATURE_ATOMIC_MASKED |             \
     FAKERNIC_FEATURE_ATOMIC_WRITE | FAKERNIC_FEATURE_FLUSH |               \
     FAKERNIC_FEATURE_SRQ | FAKERNIC_FEATURE_MW |                           \
     FAKERNIC_FEATURE_FAST_REG | FAKERNIC_FEATURE_REREG_MR |                \
     FAKERNIC_FEATURE_RESIZE_CQ | FAKERNIC_FEATURE_MCAST |                  \
     FAKERNIC_FEATURE_CNP | FAKERNIC_FEATURE_DCQCN |                        \
     FAKERNIC_FEATURE_RATE_LIMIT | FAKERNIC_FEATURE_CQ_MODERATION |         \
     FAKERNIC_FEATURE_DM | FAKERNIC_FEATURE_APM |                           \
     FAKERNIC_FEATURE_FLOW | FAKERNIC_FEATURE_COUNTERS |                    \
     FAKERNIC_FEATURE_ODP | FAKERNIC_FEATURE_WQ_RSS |                       \
     FAKERNIC_FEATURE_CLOCK_PAGE | FAKERNIC_FEATURE_RESIZE_SRQ)

/* Limits that are not properties. */
#define FAKERNIC_MAX_EQ             64
#define FAKERNIC_MAX_XRCD           1024
#define FAKERNIC_MAX_FLOW           1024
#define FAKERNIC_MAX_COUNTER        1024
#define FAKERNIC_MAX_IND_TABLE      1024
#define FAKERNIC_MAX_IND_TABLE_SIZE 128
#define FAKERNIC_MAX_MCAST_GROUPS   256
#define FAKERNIC_MAX_MCAST_QPS      64     /* the engine's */
#define FAKERNIC_MAX_MR_SIZE        (1ULL << 40)
#define FAKERNIC_MAX_MESSAGE        (1U << 31)
#define FAKERNIC_MAX_FAST_REG_PAGES 512
#define FAKERNIC_MAX_RD_ATOMIC      16
#define FAKERNIC_MAX_SENDS          64      /* in flight, per QP */
#define FAKERNIC_MAX_ODP_CHUNKS     4096    /* of 512 pages: 16 MiB of tables */
#define FAKERNIC_PAGE_REQUEST_LIST  64
#define FAKERNIC_MIN_MTU            68
#define FAKERNIC_DEFAULT_MTU        1500

/* A misuse by the guest: logged with -d guest_errors, never fatal to QEMU. */
#define FAKERNIC_GUEST_ERR(fmt, ...) \
    qemu_log_mask(LOG_GUEST_ERROR, "fakernic: " fmt "\n", ## __VA_ARGS__)

/* A queue in guest memory, its doorbell record behind the last entry. */
typedef struct FakernicRing {
    uint64_t *pages;            /* NULL: there is no such queue */
    uint8_t page_shift;
    uint8_t log_entry;          /* bytes of an entry */
    uint32_t depth;             /* entries, a power of two */
} FakernicRing;

typedef struct FakernicEq FakernicEq;

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

struct FakernicEq {
    uint32_t id;
    FakernicRing ring;
    uint32_t pi;
    uint32_t ci;
    uint16_t vector;
    bool armed;
    uint32_t users;             /* CQs */
    FakernicEventList waiting;  /* completion events */
};

typedef enum FakernicArm {
    FAKERNIC_ARM_NONE,
    FAKERNIC_ARM_SOLICITED,
    FAKERNIC_ARM_ANY,
} FakernicArm;

typedef struct FakernicCq {
    uint32_t id;
    FakernicRing ring;
    FakernicEq *eq;
    uint32_t uar;
    uint32_t pi;
    uint32_t ci;                /* as last read from the record */
    uint32_t solicited_pi;      /* pi behind the last solicited entry */
    uint32_t users;             /* QPs, XRC SRQs */
    FakernicArm arm;
    bool ignore_overrun;
    bool error;
    bool error_pending;         /* its QPs are still to be told */
    uint16_t count;             /* moderation: entries per event */
    uint16_t period_us;         /* and how long the first one waits, or 0 */
    uint32_t held;              /* entries that wait for their event */
    RoceTime deadline;          /* of that event, while in s->held_cqs */
    bool is_held;
    QTAILQ_ENTRY(FakernicCq) next;
    FakernicEventSource completion;
    FakernicEventSource async;
} FakernicCq;

typedef struct FakernicPd {
    uint32_t users;             /* QPs and SRQs; keys: roce_pd_users() */
} FakernicPd;

typedef struct FakernicXrcd {
    uint32_t users;             /* XRC SRQs and XRC target QPs */
} FakernicXrcd;

typedef struct FakernicCounter {
    uint32_t users;             /* QPs */
    uint64_t values[FAKERNIC_STAT_COUNT];
} FakernicCounter;

typedef struct FakernicUar {
    uint32_t users;             /* QPs and CQs */
} FakernicUar;

typedef struct FakernicSrq {
    uint32_t id;
    FakernicRing ring;
    uint32_t pi;
    uint32_t ci;
    uint32_t limit;
    uint32_t pdn;
    uint32_t xrcdn;             /* 0: no XRC SRQ */
    FakernicCq *cq;             /* XRC SRQ: of its receives */
    uint32_t users;             /* QPs */
    bool error;
    FakernicEventSource async;
} FakernicSrq;

/* An indirection table: the WQs that frames are spread over. */
typedef struct FakernicIndTable {
    uint32_t users;             /* RSS QPs */
    uint32_t size;              /* a power of two */
    uint32_t wqns[FAKERNIC_MAX_IND_TABLE_SIZE];
} FakernicIndTable;

/* What makes a raw-packet QP an RSS QP. */
typedef struct FakernicRss {
    FakernicIndTable *table;
    uint32_t fields;            /* FAKERNIC_HASH_* */
    uint8_t key[FAKERNIC_HASH_KEY_SIZE];
} FakernicRss;

/*
 * Also a WQ: to the engine it is a raw-packet QP with an RQ only, and its number
 * is one of theirs.
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
    FakernicRing rq;
    uint32_t rq_pi;             /* slots, as last read from the record */
    uint32_t rq_ci;             /* slots fetched */
    uint32_t flows;             /* rules that name it */
    uint32_t entries;           /* WQ: of tables that name it */
    FakernicCounter *counter;   /* or NULL */
    FakernicEventSource async;
} FakernicQp;

/* What can be said of a frame by looking at it once. */
typedef struct FakernicParsed {
    struct fakernic_flow_match match;
    uint32_t layers;            /* FAKERNIC_FLOW_VLAN..UDP */
} FakernicParsed;

/* A flow rule; value and mask stay as they came: they are compared bytewise. */
typedef struct FakernicFlow {
    uint32_t id;
    uint32_t qpn;               /* 0: drops */
    uint32_t layers;
    uint16_t priority;
    uint8_t type;
    uint8_t flags;
    struct fakernic_flow_match value;
    struct fakernic_flow_match mask;
    QTAILQ_ENTRY(FakernicFlow) next;
} FakernicFlow;

/* Pages the engine wants, until the driver asks for the list. */
typedef struct FakernicPageRequest {
    uint32_t key;
    bool write;
    uint64_t address;
    uint64_t last;              /* of its bytes */
} FakernicPageRequest;

/*
 * Objects by number. Numbers are handed out round robin, so that one comes back
 * as late as possible.
 */
typedef struct FakernicTable {
    void **slots;
    uint32_t first;
    uint32_t size;              /* numbers are first..size - 1 */
    uint32_t next;
    uint32_t used;
} FakernicTable;

typedef struct FakernicCmdq {
    uint64_t sq_address;
    uint64_t cq_address;
    uint32_t log_depth;
    uint32_t pi;
    uint32_t ci;
} FakernicCmdq;

struct FakernicState {
    PCIDevice parent_obj;

    /* properties */
    NICConf conf;
    uint32_t uars;
    uint32_t max_qp;
    uint32_t max_cq;
    uint32_t max_srq;
    uint32_t max_pd;
    uint32_t max_mr;
    uint64_t max_mr_pages;
    uint32_t gids;
    uint32_t mtu_max;
    uint32_t speed_mbps;
    uint64_t dm_size;
    bool dcqcn;
    uint32_t interface_version;
    uint64_t feature_mask;

    /* wiring */
    NICState *nic;
    MemoryRegion regs_bar;
    MemoryRegion uar_bar;
    MemoryRegion dm;            /* device memory, within uar_bar */
    Roce *roce;
    uint64_t *stats;            /* the engine's array */
    QEMUBH *bh;
    QEMUTimer *timer;
    RoceTime timer_deadline;
    bool pumping;
    bool pump_again;
    bool tx_blocked;            /* a frame waits in the netdev's queue */
    RoceTime tx_blocked_until;  /* then the wire counts as dead */

    /* registers */
    uint32_t control;
    uint32_t status;
    uint32_t fatal_code;
    uint32_t test;
    uint64_t features;
    uint64_t driver_features;
    uint32_t clock_high;
    FakernicCmdq cmdq;

    /* port */
    uint32_t port_mtu;
    uint32_t port_qpn;
    uint8_t port_filter;
    uint8_t port_mac[6];

    /* objects */
    FakernicTable eqs;
    FakernicTable cqs;
    FakernicTable srqs;
    FakernicTable pds;
    FakernicTable xrcds;
    FakernicTable counters;
    FakernicTable ind_tables;
    FakernicTable flow_table;
    /* by type, in the order they are asked in */
    QTAILQ_HEAD(, FakernicFlow) flows[FAKERNIC_FLOW_SNIFFER + 1];
    FakernicTable uar_table;
    FakernicQp **qps;           /* by number, QPs and WQs */
    uint32_t *key_pages;        /* page list entries held, by key index */
    uint64_t mr_pages;          /* their sum */
    FakernicPageRequest page_requests[FAKERNIC_PAGE_REQUEST_LIST];
    uint32_t page_request_count;
    FakernicEq *async_eq;
    FakernicEventList async_waiting;
    FakernicEventSource port_events;
    FakernicEventSource device_events;
    bool cq_error_pending;
    QTAILQ_HEAD(, FakernicCq) held_cqs;     /* whose event has a deadline */
    uint64_t interrupts;        /* vectors raised and not yet sent */

    uint8_t frame[ROCE_FRAME_MAX];
};

/* How a command ends: enum fakernic_cmd_status, and for BAD_* which byte. */
typedef struct FakernicVerdict {
    uint8_t status;
    uint32_t detail;
} FakernicVerdict;

#define FAKERNIC_VERDICT(code) ((FakernicVerdict) { .status = (code) })
#define FAKERNIC_REFUSE(code, request, field)                                \
    ((FakernicVerdict) {                                                     \
        .status = FAKERNIC_CMD_ ## code,                                     \
        .detail = offsetof(struct fakernic_cmd, payload) +                   \
                  offsetof(request, field) })

static inline bool fakernic_accepts(const FakernicVerdict *v)
{
    return v->status == FAKERNIC_CMD_OK;
}

/* Refuses a field of the payload that is known by its offset only. */
static inline FakernicVerdict fakernic_refuse_at(uint8_t status, size_t offset)
{
    return (FakernicVerdict) {
        .status = status,
        .detail = offsetof(struct fakernic_cmd, payload) + offset,
    };
}

/* The verdict of fakernic_page_list_read() on the list at 'offset'. */
static inline FakernicVerdict fakernic_page_list_verdict(uint8_t status,
                                                         size_t offset)
{
    return (FakernicVerdict) {
        .status = status,
        .detail = status == FAKERNIC_CMD_BAD_PAGE_LIST ?
                  offsetof(struct fakernic_cmd, payload) + offset : 0,
    };
}

/* fakernic.c */
void fakernic_reset(FakernicState *s);
void fakernic_fatal(FakernicState *s, enum fakernic_fatal_code code);
static inline bool fakernic_is_running(const FakernicState *s)
{
    return (s->status & (FAKERNIC_STATUS_ENABLED | FAKERNIC_STATUS_FATAL)) ==
           FAKERNIC_STATUS_ENABLED;
}

/* bar.c */
extern const MemoryRegionOps fakernic_regs_ops;
extern const MemoryRegionOps fakernic_uar_ops;
void fakernic_regs_reset(FakernicState *s);

/* clock.c */
RoceTime fakernic_now(void);
void fakernic_clock_init(FakernicState *s);
void fakernic_clock_set(FakernicState *s, RoceTime deadline);
void fakernic_clock_cleanup(FakernicState *s);

/* cmdq.c */
bool fakernic_cmdq_enable(FakernicState *s);
void fakernic_cmdq_doorbell(FakernicState *s, uint32_t pi);
/* Executes up to 'budget' commands; true when there are more. */
bool fakernic_cmdq_run(FakernicState *s, unsigned budget);

/* cmd_*.c: one function per opcode; the request is a private copy. */
typedef FakernicVerdict FakernicCmdFn(FakernicState *s, const void *request,
                                      void *response);
FakernicCmdFn fakernic_cmd_nop, fakernic_cmd_query_device,
    fakernic_cmd_query_port, fakernic_cmd_set_port, fakernic_cmd_query_stats,
    fakernic_cmd_set_gid, fakernic_cmd_create_eq, fakernic_cmd_destroy_eq,
    fakernic_cmd_create_cq, fakernic_cmd_destroy_cq, fakernic_cmd_resize_cq,
    fakernic_cmd_modify_cq,
    fakernic_cmd_alloc_pd, fakernic_cmd_dealloc_pd, fakernic_cmd_alloc_xrcd,
    fakernic_cmd_dealloc_xrcd, fakernic_cmd_alloc_uar,
    fakernic_cmd_dealloc_uar, fakernic_cmd_create_mr, fakernic_cmd_destroy_mr,
    fakernic_cmd_rereg_mr, fakernic_cmd_create_mw, fakernic_cmd_destroy_mw,
    fakernic_cmd_create_qp, fakernic_cmd_destroy_qp, fakernic_cmd_modify_qp,
    fakernic_cmd_query_qp, fakernic_cmd_create_srq, fakernic_cmd_destroy_srq,
    fakernic_cmd_modify_srq, fakernic_cmd_query_srq,
    fakernic_cmd_attach_mcast, fakernic_cmd_detach_mcast,
    fakernic_cmd_create_flow, fakernic_cmd_destroy_flow,
    fakernic_cmd_create_wq, fakernic_cmd_destroy_wq, fakernic_cmd_modify_wq,
    fakernic_cmd_create_ind_table, fakernic_cmd_destroy_ind_table,
    fakernic_cmd_create_rss_qp,
    fakernic_cmd_create_counter, fakernic_cmd_destroy_counter,
    fakernic_cmd_set_qp_counter, fakernic_cmd_query_counter,
    fakernic_cmd_query_page_requests, fakernic_cmd_update_pages;

/* cmd_qp.c: for WQs, too */
/*
 * Makes a QP known to the engine and the device, with all that it refers to. It
 * is freed when that fails.
 */
uint8_t fakernic_qp_add(FakernicState *s, FakernicQp *qp,
                        const RoceQpInit *init) G_GNUC_WARN_UNUSED_RESULT;
/* The reverse; nobody may refer to it. */
void fakernic_qp_remove(FakernicState *s, FakernicQp *qp);
void fakernic_qp_free(FakernicQp *qp);

/* table.c */
void fakernic_table_init(FakernicTable *t, uint32_t first, uint32_t size);
void fakernic_table_free(FakernicTable *t);
bool fakernic_table_is_full(const FakernicTable *t);
uint32_t fakernic_table_add(FakernicTable *t, void *object);
void *fakernic_table_get(const FakernicTable *t, uint32_t id);
void fakernic_table_remove(FakernicTable *t, uint32_t id);
FakernicPd *fakernic_pd(FakernicState *s, uint32_t pdn);
FakernicXrcd *fakernic_xrcd(FakernicState *s, uint32_t xrcdn);
/* May a new object use this CQ? OK, BAD_ID or BAD_STATE. */
uint8_t fakernic_cq_check(FakernicState *s, uint32_t cqn);
bool fakernic_uar_exists(FakernicState *s, uint32_t uar);
void fakernic_uar_use(FakernicState *s, uint32_t uar, int users);

/* ring.c: page lists and rings */
/*
 * Copies the first 'needed' page addresses of a list; 'limit' bounds them. The
 * array is malloc'ed. Returns enum fakernic_cmd_status.
 */
uint8_t fakernic_page_list_read(FakernicState *s,
                                const struct fakernic_page_list *list,
                                uint64_t needed, uint64_t **pages)
    G_GNUC_WARN_UNUSED_RESULT;
bool fakernic_page_list_is_zero(const struct fakernic_page_list *list);
uint8_t fakernic_ring_init(FakernicState *s, FakernicRing *ring,
                           const struct fakernic_page_list *list,
                           unsigned log_depth, unsigned log_entry)
    G_GNUC_WARN_UNUSED_RESULT;
void fakernic_ring_free(FakernicRing *ring);
/* From the start of entry 'index' (any value, wraps) on, 'len' bytes. */
bool fakernic_ring_read(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len);
/* Within one entry. */
bool fakernic_ring_write(FakernicState *s, const FakernicRing *ring,
                         uint32_t index, const void *buf, size_t len);
/* The index the host keeps in the doorbell record. */
bool fakernic_ring_record(FakernicState *s, const FakernicRing *ring,
                          uint32_t *index);

/* sq.c, rq.c */
/* A QP, not a WQ; a WQ; or either. */
FakernicQp *fakernic_qp(FakernicState *s, uint32_t qpn);
FakernicQp *fakernic_wq(FakernicState *s, uint32_t wqn);
FakernicQp *fakernic_qp_or_wq(FakernicState *s, uint32_t number);
void fakernic_sq_doorbell(FakernicState *s, FakernicQp *qp, uint32_t pi);
RoceFetch fakernic_next_send(void *host, uint32_t qpn, RoceSendWr *wr);
RoceFetch fakernic_next_recv(void *host, uint32_t qpn, uint32_t srqn,
                             RoceRecvWr *wr);
uint32_t fakernic_recv_count(void *host, uint32_t qpn);
bool fakernic_xrc_srq(void *host, uint32_t srqn, uint32_t xrcdn,
                      RoceXrcSrq *found);
/* One SRQ_ERROR event; it cannot be used any more. */
void fakernic_srq_fail(FakernicState *s, FakernicSrq *srq,
                       enum fakernic_vendor_err err);
/* Arms one SRQ_LIMIT event; raises it at once when fewer are left. */
void fakernic_srq_set_limit(FakernicState *s, FakernicSrq *srq,
                            uint32_t limit);

/* cq.c */
void fakernic_complete(void *host, const RoceCompletion *completion);
void fakernic_cq_arm(FakernicState *s, FakernicCq *cq, uint32_t ci,
                     bool solicited);
void fakernic_cq_moderate(FakernicState *s, FakernicCq *cq, uint16_t count,
                          uint16_t period_us);
/* The CQ goes away: no event waits any more. */
void fakernic_cq_forget(FakernicState *s, FakernicCq *cq);
/* Raises the events whose period has passed; when the next one will have. */
RoceTime fakernic_cq_run(FakernicState *s, RoceTime now);

/* eq.c */
/* Raises a vector as soon as no call of the engine is under way. */
void fakernic_interrupt(FakernicState *s, unsigned vector);
/* Sends the vectors raised; frames, doorbells and a reset may come of it. */
void fakernic_interrupts_send(FakernicState *s);
/* eq NULL: the asynchronous event queue. */
void fakernic_event(FakernicState *s, FakernicEq *eq, FakernicEventSource *src,
                    enum fakernic_event type, uint32_t data);
/* The object goes away: its latched events with it. */
void fakernic_event_forget(FakernicState *s, FakernicEq *eq,
                           FakernicEventSource *src);
/* Writes what waits while there is room. */
void fakernic_eq_flush(FakernicState *s, FakernicEq *eq);
void fakernic_eq_doorbell(FakernicState *s, FakernicEq *eq, uint32_t ci,
                          bool arm);
/* The engine's asynchronous events. */
void fakernic_engine_event(void *host, uint8_t type, uint32_t id,
                           uint16_t vendor_err);

/* dma.c: the only user of the PCI DMA interface */
bool fakernic_dma_read(void *host, uint64_t address, void *buf, size_t len);
bool fakernic_dma_write(void *host, uint64_t address, const void *buf,
                        size_t len);
bool fakernic_dma_atomic(void *host, uint64_t address, RoceAtomic *op);
/* Not memcpy(): that may store the tail first. */
void fakernic_copy_ascending(uint8_t *to, const uint8_t *from, size_t len);
/* By a host atomic: atomic against the guest's CPUs too. */
void fakernic_atomic_execute(uint64_t *word, RoceAtomic *op);
bool fakernic_dma_flush(void *host, uint64_t address, uint64_t len,
                        bool persistent);

/* cpus.c: RDMA atomics are atomic against those of the CPUs */
void fakernic_cpus_init(void);

/* dm.c: the engine's memory: device memory, or guest memory by DMA */
#define FAKERNIC_DM_MAX (256 * MiB)
/* False: it does not lie within device memory. */
bool fakernic_dm_contains(const FakernicState *s, uint64_t offset,
                          uint64_t len);
uint32_t fakernic_dm_page(const FakernicState *s);  /* of BAR2 */
void fakernic_dm_reset(FakernicState *s);
bool fakernic_memory_read(void *host, uint64_t address, void *buf, size_t len);
bool fakernic_memory_write(void *host, uint64_t address, const void *buf,
                           size_t len);
bool fakernic_memory_atomic(void *host, uint64_t address, RoceAtomic *op);
bool fakernic_memory_flush(void *host, uint64_t address, uint64_t len,
                           bool persistent);

/* rss.c: frames are of 14 bytes and more */
/* Gives a frame to a raw-packet QP, or to the WQ that its RSS QP selects. */
void fakernic_raw_input(FakernicState *s, uint32_t qpn, const uint8_t *frame,
                        size_t len);

/* flow.c: likewise */
void fakernic_parse(FakernicParsed *p, const uint8_t *frame, size_t len);
void fakernic_flow_add(FakernicState *s, FakernicFlow *flow);
void fakernic_flow_remove(FakernicState *s, FakernicFlow *flow);
/* A copy to every sniffer. */
void fakernic_flow_sniff(FakernicState *s, const uint8_t *frame, size_t len);
/* By the NORMAL rules; true: one of them has taken the frame. */
bool fakernic_flow_input(FakernicState *s, const uint8_t *frame, size_t len);
/* To those who take what nobody wants; false: there is none. */
bool fakernic_flow_default(FakernicState *s, const uint8_t *frame, size_t len);
/* Is this address one of the device's own, because a rule names all of it? */
bool fakernic_flow_owns(const FakernicState *s, const uint8_t *dmac);

/* cmd_odp.c */
/* The engine wants pages; see RoceHostOps. */
void fakernic_page_request(void *host, uint32_t key, uint64_t address,
                           uint64_t length, bool write);
/* The region goes away: nothing is wanted of it any more. */
void fakernic_page_requests_forget(FakernicState *s, uint32_t key);

/* port.c: the only user of the net layer */
void fakernic_port_init(FakernicState *s);
void fakernic_port_reset(FakernicState *s);
void fakernic_port_cleanup(FakernicState *s);
bool fakernic_port_link_up(FakernicState *s);
void fakernic_port_set_mtu(FakernicState *s, uint32_t mtu);
/* True while frames should wait for the wire: it will take them again soon. */
bool fakernic_port_must_wait(FakernicState *s);
/* Sends one frame, or drops and counts it when the wire cannot take it. */
void fakernic_port_send(FakernicState *s, const uint8_t *frame, size_t len);

/* pump.c */
/* Something happened: do what is ready, leave the rest to the bottom half. */
void fakernic_pump(FakernicState *s);
void fakernic_pump_bh(void *opaque);

#endif
