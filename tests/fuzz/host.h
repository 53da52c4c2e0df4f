/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host of the engine that watches it: small rings, 64 KiB of DMA memory, and
 * rules that hold whatever the guest posts and the wire brings. Breaking one
 * aborts, so that the fuzzer keeps the input. The rules:
 *
 *  - DMA stays within pages that some key maps, writes within those that a key
 *    makes writable, and no access has length 0 or an unaligned atomic; a page
 *    that is paged on demand is touched only while it is there;
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
/* Pages by what keys may map them for; behind these no key leads anywhere. */
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
    /* Send WQEs the engine has, oldest first. */
    struct {
        uint32_t index;
        bool signaled;
    } fetched[HOST_FETCHED];
    uint32_t fetched_pi, fetched_ci;
    HostRecvs rq;
    bool held;                  /* a receive of which it has not completed */
    uint32_t held_tag, held_srqn;
    uint64_t held_bytes;
} HostQp;

/* A page that a key with on-demand paging has. */
typedef struct HostGrant {
    uint32_t key;
    uint64_t page;              /* its address / HOST_PAGE */
    bool writable;
} HostGrant;

/* What the engine wants of such a key. */
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
    HostWant want[HOST_WANTS];  /* oldest first; others are forgotten */
    uint32_t wants;
    bool want_lost;             /* one got no answer that ends a wait */
    uint64_t counters[FAKERNIC_STAT_COUNT];     /* of any QPs */
    bool unguarded;             /* a key for all of DMA space exists */
    uint32_t fail_dma_in;       /* n: the n-th DMA from now fails */
    HostQp qp[HOST_QPS];        /* by QPN */
    HostRecvs srq[HOST_SRQS];   /* by SRQN; 0 is none */
    uint32_t srq_xrcdn[HOST_SRQS];      /* 0: not an XRC SRQ */
    RocePd xrc_pd;
    uint32_t flushes;           /* persistent ones asked for */
    uint32_t flush_qpn;         /* of the job that was begun, until its end */
    uint64_t flush_ticket;
    uint32_t xrc_cqn;
    uint32_t tag;               /* of the next work request */
} Host;

extern const RoceHostOps fuzz_host_ops;

void host_init(Host *host, uint64_t base);
/* Frees what work requests own that the engine never fetched. */
void host_cleanup(Host *host);
void host_qp_created(Host *host, uint32_t qpn, const RoceQpInit *init);
/* Reset or destroyed: nothing of it completes any more; its rings are empty. */
void host_qp_forget(Host *host, uint32_t qpn, bool destroyed);
/* False: the ring is full, or there is none. */
bool host_post_send(Host *host, uint32_t qpn, RoceSendWr *wr);
bool host_post_recv(Host *host, uint32_t qpn, RoceRecvWr *wr);
bool host_post_srq(Host *host, uint32_t srqn, RoceRecvWr *wr);
/* Tells the engine of pages of a key: enum of fakernic_cmd_status. Only a part
 * of many: as many as the host keeps account of. */
int host_update_pages(Host *host, Roce *r, uint32_t key, uint64_t address,
                      uint32_t count, RocePages state);
/* The key is no more. */
void host_key_forget(Host *host, uint32_t key);

#endif
