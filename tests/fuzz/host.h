/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host of the engine that checks it: small rings, 64 KiB of DMA memory, and
 * rules that must hold whatever the guest posts and the wire delivers. A broken
 * rule aborts, so that the fuzzer keeps the input. The rules:
 *
 *  - DMA accesses only pages that some key maps, and writes only pages that a
 *    key makes writable. No access has length 0, no atomic is unaligned. An
 *    on-demand page is accessed only while it is present;
 *  - a QP that waits for a page has requested it, and stops waiting when all
 *    requests have been answered (frames_check_waits());
 *  - a completion is for a work request fetched and not yet completed, in
 *    order; successes name the right CQ and no more bytes than the buffer has;
 *  - one receive per QP is held at a time;
 *  - status, opcode and event numbers are those of the interface.
 */
#ifndef FUZZ_HOST_H
#define FUZZ_HOST_H

#include "roce.h"

#define HOST_PAGE 4096u
#define HOST_PAGES 16u
#define HOST_MEMORY (HOST_PAGE * HOST_PAGES)
/* Keys may map the first pages writable, the next ones readable, no others. */
#define HOST_WRITABLE 10u
#define HOST_READABLE 13u
#define HOST_DM (2 * HOST_PAGE)
/* Pages of regions with on-demand paging, a MiB behind the others. */
#define HOST_DEMAND 8u
#define HOST_DEMAND_AT 0x100000u
#define HOST_GRANTS 64u
#define HOST_WANTS 8u
#define HOST_RING 8u
#define HOST_FETCHED 32u         /* more than the engine has in flight */
#define HOST_QPS 32u
#define HOST_SRQS 4u

#define FUZZ_CHECK(condition)                                           \
    do {                                                                \
        if (!(condition)) {                                             \
            fuzz_broken(__FILE__, __LINE__, #condition);                \
        }                                                               \
    } while (0)

_Noreturn void fuzz_broken(const char *file, int line, const char *rule);

typedef struct HostRecvs {
    RoceRecvWr wr[HOST_RING];
    uint32_t pi, ci;
    bool broken;
} HostRecvs;

typedef struct HostQp {
    bool alive;
    RoceQpInit init;
    RoceSendWr send[HOST_RING];
    uint32_t pi, ci;
    bool broken;
    /* Send WQEs that the engine has fetched, oldest first. */
    struct {
        uint32_t index;
        bool signaled;
    } fetched[HOST_FETCHED];
    uint32_t fetched_pi, fetched_ci;
    HostRecvs rq;
    bool held;                  /* has a receive that has not completed */
    uint32_t held_tag, held_srqn;
    uint64_t held_bytes;
} HostQp;

/* A present page of a key with on-demand paging. */
typedef struct HostGrant {
    uint32_t key;
    uint64_t page;              /* its address / HOST_PAGE */
    bool writable;
} HostGrant;

/* A page request of the engine for such a key. */
typedef struct HostWant {
    uint32_t key;
    uint64_t address, length;
    bool write;
} HostWant;

typedef struct Host {
    uint64_t base;              /* DMA address of the memory */
    uint8_t memory[HOST_MEMORY];
    uint8_t dm[HOST_DM];        /* device memory: ROCE_ADDRESS_DM */
    uint8_t demand[HOST_DEMAND * HOST_PAGE];
    HostGrant grant[HOST_GRANTS];
    uint32_t grants;
    HostWant want[HOST_WANTS];  /* oldest first; others are dropped */
    uint32_t wants;
    bool want_lost;             /* a request got no final answer */
    uint64_t counters[FAKERNIC_STAT_COUNT];     /* of any QPs */
    bool unguarded;             /* a key for all of DMA space exists */
    uint32_t fail_dma_in;       /* n: the n-th DMA from now fails */
    HostQp qp[HOST_QPS];        /* by QPN */
    HostRecvs srq[HOST_SRQS];   /* by SRQN; 0 is none */
    uint32_t srq_xrcdn[HOST_SRQS];      /* 0: not an XRC SRQ */
    RocePd xrc_pd;
    uint32_t flushes;           /* persistent FLUSHes requested */
    uint32_t flush_qpn;         /* of the job in progress */
    uint64_t flush_ticket;
    uint32_t xrc_cqn;
    uint32_t tag;               /* of the next work request */
} Host;

extern const RoceHostOps fuzz_host_ops;

void host_init(Host *host, uint64_t base);
/* Frees the memory of work requests that the engine never fetched. */
void host_cleanup(Host *host);
void host_qp_created(Host *host, uint32_t qpn, const RoceQpInit *init);
/* The QP was reset or destroyed: nothing completes, its rings are empty. */
void host_qp_forget(Host *host, uint32_t qpn, bool destroyed);
/* False: the ring is full, or there is none. */
bool host_post_send(Host *host, uint32_t qpn, RoceSendWr *wr);
bool host_post_recv(Host *host, uint32_t qpn, RoceRecvWr *wr);
bool host_post_srq(Host *host, uint32_t srqn, RoceRecvWr *wr);
/* Reports pages of a key to the engine, at most as many as the host tracks.
 * Returns an enum fakernic_cmd_status. */
int host_update_pages(Host *host, Roce *r, uint32_t key, uint64_t address,
                      uint32_t count, RocePages state);
/* The key was destroyed. */
void host_key_forget(Host *host, uint32_t key);

#endif
