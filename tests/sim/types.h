/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of a history: guests' memory and keys, work requests, queue pairs,
 * hosts, the switch, and the world around them. Their functions are in sim.h.
 */
#ifndef SIM_TYPES_H
#define SIM_TYPES_H

#include "fault/rules.h"
#include "roce.h"
#include "options.h"

#define SIM_HOSTS 8
#define SIM_CONNS 48
#define SIM_GROUPS 4                    /* multicast */
#define SIM_QPS (2 * SIM_CONNS + 4 * SIM_HOSTS)
#define SIM_MRS 512
#define SIM_BLOCK 65536u                /* unit of guest memory */
#define SIM_BLOCKS 2048u                /* most of them per host */
#define SIM_PAGE 4096u
#define SIM_PAGES (SIM_BLOCKS * (SIM_BLOCK / SIM_PAGE))
#define SIM_PAGE_REQUESTS 64u           /* on the list of a host */
#define SIM_DMA_BASE(h) (((uint64_t)(h) + 1) << 36)
#define SIM_LOG 4096u                   /* log entries kept, power of two */
#define SIM_GRH 40u
#define SIM_QKEY 0x11111111u
#define SIM_PD 7u                       /* the PD of most objects */
#define SIM_PD_OTHER 8u
#define SIM_PD_XRC 10u                  /* the second XRC SRQ of a host */
#define SIM_PD_TENANT 11u              /* of the hostile tenant; also 12 */
#define SIM_TENANT_PDS 2u
#define SIM_PDS (SIM_PD_TENANT + SIM_TENANT_PDS)
#define SIM_XRCD 3u
#define SIM_REMOTE ((uint32_t)(FAKERNIC_ACCESS_REMOTE_WRITE | \
                               FAKERNIC_ACCESS_REMOTE_READ | \
                               FAKERNIC_ACCESS_REMOTE_ATOMIC | \
                               FAKERNIC_ACCESS_FLUSH_GLOBAL | \
                               FAKERNIC_ACCESS_FLUSH_PERSISTENT))
#define SIM_GRANTS 3                     /* FAST_REG, window of type 1, 2B */

#define US 1000ll
#define MS 1000000ll
#define SEC 1000000000ll

typedef struct World World;
typedef struct Host Host;
typedef struct SimQp SimQp;
typedef struct SimConn SimConn;
typedef struct SimGroup SimGroup;
typedef struct SimRq SimRq;
typedef struct SimTenant SimTenant;     /* tenant.c, on a host */
typedef struct SimTenants SimTenants;   /* in a world */

/* What the engine under test can do beyond the required services. */
typedef enum SimCap {
    SIM_CAP_RC,
    SIM_CAP_UD,
    SIM_CAP_GSI,
    SIM_CAP_UC,
    SIM_CAP_ATOMIC,
    SIM_CAP_ATOMIC_MASKED,
    SIM_CAP_ATOMIC_WRITE,
    SIM_CAP_NOP,
    SIM_CAP_FAST_REG,
    SIM_CAP_MW,
    SIM_CAP_XRC,
    SIM_CAP_FLUSH,
    SIM_CAP_COUNT
} SimCap;

typedef struct SimCapInfo {
    const char *name;
    bool required;              /* without it the run fails */
    bool present;
} SimCapInfo;

/* ---- guest memory -------------------------------------------------------- */

typedef struct SimMr {
    Host *host;
    uint32_t key;
    uint32_t access;
    RocePd pd;
    uint64_t iova;
    uint64_t length;
    uint8_t page_shift;
    bool alive;
    bool window;
    uint32_t page_count;
    uint64_t *pages;            /* DMA addresses; the bytes are there even
                                 * while the engine may not access them */
    bool on_demand;
    bool refused;               /* the host refuses its pages */
    struct SimMr *implicit;     /* the region, with this key, that it is in */
    uint64_t *changed;          /* by page: Host.page_changes at its last
                                 * change */
    uint8_t *shadow;            /* its bytes after the programs so far */
} SimMr;

/* A piece of a region; mr == NULL stands for a key that does not exist. */
typedef struct SimSge {
    SimMr *mr;
    uint32_t offset;
    uint32_t length;
} SimSge;

/* ---- work requests ------------------------------------------------------- */

/* An error planned in a program; model.c checks its effect. */
typedef enum SimError {
    SIM_ERR_NONE,
    SIM_ERR_RKEY_INDEX,         /* unknown remote key */
    SIM_ERR_RKEY_TAG,           /* stale remote key */
    SIM_ERR_RKEY_PD,            /* region of another protection domain */
    SIM_ERR_BOUNDS,             /* one byte beyond the remote region */
    SIM_ERR_ACCESS,             /* right not granted by the remote region */
    SIM_ERR_ALIGN,              /* atomic address */
    SIM_ERR_LKEY,               /* a local SGE with a bad key */
    SIM_ERR_LBOUNDS,            /* a local SGE out of its region */
    SIM_ERR_FORMAT,             /* the host refused the WQE */
    SIM_ERR_RECV_SMALL,         /* the peer's receive is too small */
    SIM_ERR_RECV_LKEY,          /* the peer's receive has a bad key */
    SIM_ERR_XRC_SRQ,            /* an SRQ that does not exist */
    SIM_ERR_PAGES,              /* the remote host refuses the pages */
    SIM_ERR_LPAGES,             /* the own host refuses pages of the last SGE */
    SIM_ERR_RECV_PAGES,         /* the pages of the peer's receive */
    SIM_ERR_STALE,              /* a local key that was invalidated */
    SIM_ERR_INVALIDATED,        /* a remote key that was invalidated */
    SIM_ERR_QKEY,               /* datagram with a wrong Q_Key */
    SIM_ERR_COUNT
} SimError;

typedef enum SimDone { SIM_OPEN, SIM_OK, SIM_FAILED } SimDone;

typedef struct SimSend {
    uint8_t opcode;             /* enum fakernic_sq_opcode */
    uint8_t flags;              /* FAKERNIC_SQ_* */
    uint8_t sge_count;
    SimError error;
    SimDone done;
    uint8_t status;             /* enum fakernic_cqe_status, when done */
    bool executed;              /* known to be executed by the peer */
    bool shared;                /* atomic on the word to which all QPs add */
    SimSge *sge;
    SimMr *mr;                  /* REG_MR, BIND_MW: the result */
    SimMr *parent;              /* BIND_MW: the region below */
    uint32_t length;            /* of the message, or of the READ */
    uint32_t imm;
    SimMr *zone;                /* one-sided: the remote region */
    uint32_t zone_offset;       /* and the offset in it */
    SimQp *after;               /* posted when this QP (the peer, or itself) */
    uint32_t after_index;       /* has completed that send */
    uint64_t operand, compare, mask, compare_mask;      /* atomics */
    uint8_t flush;              /* FAKERNIC_FLUSH_* */
    uint64_t flushed;           /* bytes that the host flushed for it */
    uint64_t fetched_at;        /* FLUSH: page_changes of that host */
    SimRq *xrc;                 /* XRC: the SRQ that it names */
    uint8_t *data;              /* message; READ: snapshot in program order */
    uint64_t original;          /* atomics: value before, in program order */
    uint64_t result;            /* atomics: value after */
    uint32_t last_psn;          /* once it is on the wire (ledger.c) */
    int32_t message;            /* number among those that consume a receive,
                                 * or -1 */
    SimQp *ud_dest;             /* datagrams; NULL: */
    SimGroup *group;            /* to all members */
    uint8_t *copies;            /* number of arrivals, by member */
} SimSend;

typedef struct SimRecv {
    SimQp *qp;                  /* the QP that fetched it */
    uint8_t sge_count;
    SimSge *sge;
    uint32_t length;
    SimDone done;
} SimRecv;

/* A receive queue: of a QP, or shared. */
struct SimRq {
    Host *host;
    uint32_t srqn;              /* 0: the QP's own */
    bool xrc;
    RocePd pd;                  /* XRC: the PD of its keys */
    uint32_t cqn;               /* and the CQ of its completions */
    SimRecv *recv;
    uint32_t count;             /* in the program */
    uint32_t spare;             /* behind it: posted to a QP in error */
    uint32_t posted;
    uint32_t fetched;
    uint32_t done;              /* own queue: the next to complete */
    uint32_t open;              /* fetched and not completed */
    SimMr *arena;
    uint32_t arena_used;
    uint32_t tag_base;
};

/* What a QP has sent on the wire (ledger.c). */
typedef struct SimLedger {
    uint64_t burst;             /* bits above its rate, at: */
    RoceTime burst_at;
    RoceTime cnp_at;            /* the last congestion notification */
    uint32_t cnps;
    /* of a reliable requester: */
    uint32_t psn, send;         /* PSN and number of the next new request */
    uint32_t base;              /* first send since RESET */
    uint32_t ssn;               /* messages begun since then */
    uint32_t asked;             /* PSN behind the requested parts of READs */
    uint32_t acked;             /* one beyond the highest PSN answered */
    uint32_t limit;             /* highest SSN with a credit */
    bool unlimited;             /* the responder reports no credits */
} SimLedger;

struct SimQp {
    World *world;
    Host *host;
    SimConn *conn;              /* NULL: datagrams */
    SimQp *peer;
    uint32_t qpn;
    uint8_t type;
    uint8_t mtu;                /* enum fakernic_mtu */
    uint8_t traffic_class;
    uint8_t static_rate;        /* enum ibv_rate */
    uint32_t limit_kbps;        /* set by the application; 0: none */
    uint32_t rd_atomic;         /* of its own, in flight at once */
    uint16_t gid_index;
    uint32_t sq_psn;
    uint32_t send_cqn, recv_cqn;
    RocePd pd;
    bool alive;                 /* not destroyed */
    bool apm;                   /* has an alternate path, and rearms */
    bool migrated;              /* uses that path */
    bool silent;                /* RESET or destroyed: nothing may complete */
    bool ending;                /* before that: an SRQ's receive returns */
    bool error;                 /* the host moved it to ERR, or saw it fail */
    bool sq_broken, rq_broken;  /* next_send, next_recv fail from now on */
    bool paused;                /* in SQD */
    bool drained;               /* SQ_DRAINED was reported, */
    uint64_t drained_step;      /* in this step, whose frame may still leave */
    /* send side */
    SimSend *send;
    uint32_t send_count;
    uint32_t life_end;          /* sends before the next RESET */
    uint32_t posted;
    uint32_t fetched;
    uint32_t done;
    bool sq_failed;             /* it had an error completion */
    int32_t planned;            /* send that is to fail, or -1 */
    int32_t *message;           /* send index by message number */
    uint32_t message_count;
    SimLedger ledger;
    uint32_t executed;          /* sends before this one took effect */
    SimMr *zone;                /* memory of the peer that it may access */
    SimMr *zone_xrc;            /* the same for the other XRC SRQ */
    SimMr *zone_ro;             /* the same without rights, another PD */
    SimMr *zone_pd;
    SimMr *zone_gone;           /* the same, its pages refused */
    SimMr *target;              /* current target of one-sided requests */
    SimMr *fast;                /* FAST_REG key, used from time to time */
    SimMr *lease;               /* its present registration */
    uint32_t lease_pending;     /* behind the READ that invalidates it */
    bool lease_into;            /* for reads, not for messages */
    SimMr *granted[SIM_GRANTS]; /* keys for the peer: FAST_REG, windows */
    SimMr *granted_last[SIM_GRANTS];    /* their present registration */
    SimMr *window_region;
    bool gated;                 /* waits for SimSend.after */
    bool unborn;                /* gets its ancestor's number later */
    uint32_t arena_used;
    SimMr *arena;               /* destinations of reads and atomics */
    /* receive side */
    SimRq *rq;
    SimRq *xrc[2];              /* XRC initiator: the SRQs of its peer's host */
    uint32_t received;          /* messages received */
    bool rq_failed;
    uint32_t fault_send, fault_recv;    /* statuses that injections allow */
    bool planned_responder;     /* the peer's planned error fails this QP too */
};

/* A multicast group; a member is in it from the start to its end. */
struct SimGroup {
    uint8_t gid[2][16];         /* IPv6, IPv4 */
    SimQp *member[2 * SIM_HOSTS];
    uint32_t count;
};

struct SimConn {
    uint32_t number;
    SimQp *side[2];
    bool injected;              /* the host has removed something */
    bool cut[2];                /* primary path is cut, from that side */
    SimConn *heir;              /* takes its QPs over after a RESET */
};

/* ---- host ---------------------------------------------------------------- */

/* The engine's present rights for a page of memory. */
typedef enum SimRights { SIM_NO_RIGHTS, SIM_READABLE, SIM_WRITABLE } SimRights;

typedef struct SimPageRequest {
    bool pending;
    bool taken;                 /* off the list, but not answered completely */
    bool write;
    uint32_t key;
    uint64_t address, length;   /* the part without an answer */
} SimPageRequest;

/* Pages that the host has replaced by others, the oldest first. */
typedef struct SimRetired {
    uint64_t page[SIM_PAGE_REQUESTS];
    uint32_t first, count;
} SimRetired;

struct Host {
    World *world;
    unsigned number;
    Roce *roce;
    uint8_t mac[6];
    uint8_t gid[4][16];
    uint8_t gid_type[4];
    uint16_t gid_vlan[4];
    uint8_t *memory;            /* the guest's bytes */
    uint8_t *expected;          /* the bytes that the model expects */
    uint8_t *unknown;           /* 1: the model does not know this byte */
    uint8_t rights[SIM_PAGES];  /* SimRights */
    uint32_t block_count;
    uint64_t small_page[64];    /* 4 KiB pages of opened blocks, shuffled */
    uint32_t small_page_count;
    SimMr mr[SIM_MRS];
    uint32_t mr_count;
    SimPageRequest request[SIM_PAGE_REQUESTS];
    SimRetired retired[2];      /* of 4 KiB, of 64 KiB */
    uint64_t page_changes;
    SimMr *gone;                /* its pages are refused */
    SimMr *source;              /* never written: the data of messages */
    SimRq *xrc[2];
    SimMr *counter;             /* the word to which all QPs add */
    uint64_t dma_fail_lo, dma_fail_hi;  /* DMA fails in [lo, hi) */
    RoceTime tx_free;           /* the wire takes the next frame */
    bool tx_scheduled;
    uint32_t flushes;           /* persistent flushes requested */
    uint32_t flush_qpn;         /* QP of the flush in progress */
    uint64_t flush_ticket;      /* 0: no flush in progress */
    RoceTime wake;              /* engine deadline that the timer is set to */
    uint32_t next_cqn;
    SimTenant *tenant;          /* the hostile one, or NULL */
};

/* ---- link ---------------------------------------------------------------- */

/* Scripted faults: bit n of a mask is the n-th frame the host sends. */
typedef struct LinkScript {
    uint64_t lose[SIM_HOSTS];
    uint64_t duplicate[SIM_HOSTS];
    uint64_t delay[SIM_HOSTS];  /* by delay_ns */
    RoceTime delay_ns;
    bool cut[SIM_HOSTS];        /* loses every frame of the host */
} LinkScript;

typedef struct SimFrame {       /* as parsed by frame.c */
    uint8_t opcode;
    bool ack_req;
    bool solicited;
    uint32_t src_qpn;           /* UD */
    bool mig_req;
    bool tagged;                /* VLAN: the second path */
    uint32_t dest_qpn;
    uint32_t psn;
    bool has_aeth;
    uint8_t syndrome;
    uint32_t msn;
    uint32_t payload;
    uint32_t read;              /* READ request: bytes requested */
} SimFrame;

typedef struct LinkState {
    uint64_t sent[SIM_HOSTS];   /* frames offered */
    RoceTime wire_free[SIM_HOSTS];
    RoceTime last_arrival[SIM_HOSTS][SIM_HOSTS];
    uint32_t burst_left[SIM_HOSTS];
    RoceTime down_until[SIM_HOSTS];     /* port flap */
    uint32_t in_flight;
    uint64_t faults;            /* number of faults so far */
    uint64_t duplicates;
    RoceTime mercy_until;
} LinkState;

/* ---- world --------------------------------------------------------------- */

typedef enum SimLogKind {
    LOG_TRACE, LOG_TX, LOG_RX, LOG_LOST, LOG_DUPLICATED, LOG_CORRUPTED,
    LOG_TRUNCATED, LOG_DELAYED, LOG_POST_SEND, LOG_POST_RECV, LOG_FETCH_SEND,
    LOG_FETCH_RECV, LOG_FORGED, LOG_MARKED, LOG_FLAP, LOG_MIGRATE,
    LOG_COMPLETE, LOG_EVENT, LOG_INJECT, LOG_TICK, LOG_MODIFY,
    LOG_WANTED, LOG_PAGES, LOG_MOVED,
} SimLogKind;

typedef struct SimLogEntry {
    RoceTime time;
    uint8_t kind, host, d, e;
    uint32_t a, b, c;
} SimLogEntry;

typedef enum SimEventKind {
    EV_FRAME,                   /* a frame arrives */
    EV_TX,                      /* the wire takes the next frame */
    EV_FLUSHED,                 /* the medium has finished a flush */
    EV_POST_SEND,               /* an application posts */
    EV_POST_RECV,
    EV_INJECT,
    EV_MIGRATE,                 /* a path is cut, or software migrates */
    EV_RECONNECT,               /* RESET during work, and a new life */
    EV_PAUSE,                   /* SQD, and back */
    EV_RESUME,
    EV_PAGES,                   /* a host answers a page request */
    EV_PAGER,                   /* a host changes pages without a request */
    EV_CHANGE,                  /* attributes, memory behind a region */
    EV_TENANT,                  /* the hostile tenant acts */
} SimEventKind;

typedef struct SimEvent {
    RoceTime time;
    uint64_t order;
    SimEventKind kind;
    uint32_t host;
    uint32_t a, b;
    uint8_t *frame;
    size_t frame_len;
} SimEvent;

struct World {
    uint64_t seed;
    SimOptions options;
    Rng rng;
    Rng save_rng;               /* when engines are saved: no other random
                                 * number depends on it */
    uint32_t saves;
    RoceTime now;
    RoceTime faults_end;
    LinkScript script;
    RoceFaults *rules;          /* of each host; NULL: there are none */
    LinkState link;
    Host *host[SIM_HOSTS];
    SimConn conn[SIM_CONNS];
    uint32_t conn_count;
    SimGroup group[SIM_GROUPS];
    uint32_t group_count;
    SimGroup everybody;         /* raw-packet QPs: broadcast */
    uint32_t births;            /* heirs that are not born yet */
    uint64_t wraps;             /* PSN 0 on the wire, behind ffffff */
    uint64_t marks;             /* ECN */
    SimQp qp[SIM_QPS];
    uint32_t qp_count;
    SimRq rq[SIM_QPS + SIM_HOSTS];
    uint32_t rq_count;
    SimEvent *heap;
    uint32_t heap_count, heap_size;
    uint64_t event_order;
    uint64_t steps;
    uint32_t shared_adds[SIM_HOSTS];    /* successful ones */
    uint32_t shared_maybe[SIM_HOSTS];   /* failed ones, perhaps executed */
    uint8_t *shared_seen[SIM_HOSTS];    /* originals returned so far */
    SimLogEntry log[SIM_LOG];
    uint64_t log_count;
    uint64_t completions;
    uint64_t digest;            /* of the log: equal histories, equal digests */
    bool verbose;
    bool failed;
    char failure[512];
    uint8_t *scratch[2];        /* for one message each */
    SimTenants *tenants;        /* NULL: no hostile tenant */
    struct SimChunk *chunks;    /* world_alloc() */
};

#endif
