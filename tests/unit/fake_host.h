/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host of the engine for tests: DMA memory in segments at chosen addresses,
 * rings of work requests per QP and SRQ, logs of completions, events and DMA
 * accesses. A test can make each of them fail. Pass fake_host_ops and a
 * FakeHost to the engine.
 */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include "../bytes.h"
#include "roce.h"

#define FAKE_SEGMENTS 64
#define FAKE_QUEUES 1024        /* SQs, RQs and SRQs together */
#define FAKE_QUEUE_DEPTH 256
#define FAKE_LOG 4096           /* entries per log; more end the test */

typedef struct FakeSegment {
    uint64_t dma;
    size_t size;
    uint8_t *bytes;
    bool unreachable;
} FakeSegment;

typedef enum FakeQueueKind {
    FAKE_SQ,
    FAKE_RQ,
    FAKE_SRQ,
} FakeQueueKind;

typedef struct FakeQueue {
    FakeQueueKind kind;
    uint32_t id;                /* QPN, or SRQN */
    uint32_t pi, ci;
    uint16_t broken;            /* vendor_err of ROCE_FETCH_ERROR, or 0 */
    uint32_t xrcdn;             /* XRC SRQ: its domain, else 0 */
    RoceXrcSrq xrc;
    RoceSendWr *sends;
    RoceRecvWr *recvs;
} FakeQueue;

typedef struct FakeEvent {
    uint8_t type;
    uint32_t id;
    uint16_t vendor_err;
} FakeEvent;

typedef struct FakeDma {
    char kind;                  /* 'r', 'w', 'a'; FLUSH: 'f', persistent 'p' */
    uint64_t address;
    size_t len;
} FakeDma;

typedef struct FakePageRequest {
    uint32_t key;
    uint64_t address, length;
    bool write;
} FakePageRequest;

typedef struct FakeHost {
    FakeSegment segments[FAKE_SEGMENTS];
    unsigned segment_count;
    FakeQueue queues[FAKE_QUEUES];
    unsigned queue_count;
    RoceCompletion completions[FAKE_LOG];
    unsigned completion_count, completion_taken;
    FakeEvent events[FAKE_LOG];
    unsigned event_count, event_taken;
    FakeDma dma[FAKE_LOG];      /* the newest ones, as a ring */
    unsigned dma_count;
    FakePageRequest pages[FAKE_LOG];
    unsigned page_count, page_taken;
    unsigned page_room;         /* requests that wait; others are refused */
    uint64_t srq_ids;           /* assigned so far */
    unsigned flush_later;       /* persistent FLUSHes to refuse */
    unsigned flush_begun;       /* FLUSHes to begin in part */
    uint64_t flush_part;
    uint32_t flush_qpn;         /* of the FLUSH that began last */
    uint64_t flush_ticket;
    unsigned fail_dma_in;       /* n: the n-th DMA from now fails; 0: none */
    bool print_trace;
} FakeHost;

extern const RoceHostOps fake_host_ops;

FakeHost *fake_host_new(void);
void fake_host_free(FakeHost *h);

/* Zeroed memory at a DMA address; returns its bytes. */
uint8_t *fake_memory_add(FakeHost *h, uint64_t dma, size_t size);
/* The bytes at a DMA address. NULL: the segment has no 'len' bytes there. */
uint8_t *fake_memory(FakeHost *h, uint64_t dma, size_t len);
/* Makes the segment that contains an address fail, or work again. */
void fake_memory_unreachable(FakeHost *h, uint64_t dma, bool unreachable);

/*
 * Copies a work request into the ring. A full ring ends the test. The caller
 * must call roce_post_send(), too.
 */
void fake_post_send(FakeHost *h, uint32_t qpn, const RoceSendWr *wr);
void fake_post_recv(FakeHost *h, uint32_t qpn, const RoceRecvWr *wr);
void fake_post_srq(FakeHost *h, uint32_t srqn, const RoceRecvWr *wr);
/* Makes a new SRQ of that number in an XRC domain; xrcdn 0: destroys it. */
void fake_srq_xrc(FakeHost *h, uint32_t srqn, uint32_t xrcdn, RocePd pd,
                  uint32_t cqn);
/* The queue itself fails from now on; 0: works again. */
void fake_queue_break(FakeHost *h, FakeQueueKind kind, uint32_t id,
                      uint16_t vendor_err);
/* Work requests posted and not yet fetched. */
uint32_t fake_queue_left(FakeHost *h, FakeQueueKind kind, uint32_t id);
/* Empties a queue, as a guest does after a QP's way through RESET. */
void fake_queue_reset(FakeHost *h, FakeQueueKind kind, uint32_t id);

/* Takes the oldest completion or event. NULL: there is none. */
const RoceCompletion *fake_next_completion(FakeHost *h);
const FakeEvent *fake_next_event(FakeHost *h);
const FakePageRequest *fake_next_page_request(FakeHost *h);
void fake_clear_logs(FakeHost *h);

#endif
