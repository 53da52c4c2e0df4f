/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The gate. A station passes each of its items through the gate of its kind: a
 * frame, a doorbell, a command, a WQE, a completion, an event, an interrupt, an
 * access to guest memory. The gate applies fault rules.
 *
 * Each gate is inline. Without a rule for its point it costs one branch. True:
 * the station goes on with the item, which the gate may have changed. False:
 * the item is gone, because it is dropped or held, and the station stops.
 *
 * Some rules act on bytes that the station reads or writes only later. The gate
 * then returns a hit, which is opaque to the station. The station passes it to
 * fakernic_gate_bytes() and the other functions at the end of this file.
 *
 * Only the files of this folder name rules (tests/laws). Include state.h before
 * this header: the gates read the state.
 */
#ifndef FAKERNIC_DEVICE_FAULT_GATE_H
#define FAKERNIC_DEVICE_FAULT_GATE_H

#include "../cmd/cmd.h"
#include "../watch/record.h"
#include "../../fault/rules.h"

/* The rule that an item has hit; a pointer to none is NULL. */
typedef struct RoceFaultRule FakernicHit;

/* Is there a rule for the point? */
static inline bool fakernic_gate_is_armed(const FakernicState *s,
                                          RoceFaultPoint point)
{
    return unlikely(roce_fault_at(&s->faults.rules, point));
}

/* ---- the slow paths: gate.c ---------------------------------------------- */

/* As fakernic_gate_rx(). */
const uint8_t *fakernic_fault_rx(FakernicState *s, const uint8_t *frame,
                                 size_t *len);
/* As fakernic_gate_loopback(). */
bool fakernic_fault_loopback(FakernicState *s, uint8_t *frame, size_t *len);
/* As fakernic_gate_tx(). */
bool fakernic_fault_tx(FakernicState *s, uint8_t *frame, size_t *len,
                       bool loopback);
/* As fakernic_gate_doorbell(). */
bool fakernic_fault_doorbell(FakernicState *s, uint64_t offset,
                             uint64_t *word);
/* As fakernic_gate_cmd_doorbell(). */
bool fakernic_fault_cmd_doorbell(FakernicState *s, uint32_t pi);
/* As fakernic_gate_command(). */
FakernicVerdict fakernic_fault_command(FakernicState *s, uint16_t opcode,
                                       RoceTime *delayed_until, bool *lost);
/* As fakernic_gate_send_wqe(). */
bool fakernic_fault_send_wqe(FakernicState *s, uint32_t qpn, uint32_t index,
                             RoceTime *waits, const FakernicHit **hit);
/* As fakernic_gate_send_result(). */
bool fakernic_fault_send_result(FakernicState *s, const FakernicHit *hit,
                                uint32_t qpn, RoceSendWr *wr);
/* As fakernic_gate_recv_wqe(). */
bool fakernic_fault_recv_wqe(FakernicState *s, RoceFaultSubject *subject,
                             RoceTime *waits, const FakernicHit **hit);
/* As fakernic_gate_cqe(). */
bool fakernic_fault_cqe(FakernicState *s, const RoceCompletion **completion,
                        const FakernicCqeFault **fault);
/* As fakernic_gate_eqe(). */
bool fakernic_fault_eqe(FakernicState *s, uint32_t eqn, RoceTime *stalled_until,
                        const FakernicHit **hit);
/* As fakernic_gate_copies(). */
unsigned fakernic_fault_copies(const FakernicHit *hit);
/* As fakernic_gate_interrupt(). */
bool fakernic_fault_interrupt(FakernicState *s, unsigned vector);
/* The hit of an access at this point, or NULL. */
const FakernicHit *fakernic_fault_dma(FakernicState *s, RoceFaultPoint point,
                                      RoceWhy why, uint64_t address,
                                      size_t len);
/* The bytes that fakernic_gate_dma_write() leaves, and their number. */
const void *fakernic_fault_stored(FakernicState *s, const FakernicHit *hit,
                                  const void *bytes, size_t *len);
/* As fakernic_gate_flush(). */
const FakernicHit *fakernic_fault_flush(FakernicState *s,
                                        const RoceFlushJob *flush);
/* As fakernic_gate_page_list(). */
bool fakernic_fault_page_list(FakernicState *s, uint64_t needed);
/* As fakernic_gate_bytes(). */
void fakernic_fault_bytes(const FakernicHit *hit, void *bytes, size_t len);
/* As fakernic_gate_word(). */
void fakernic_fault_word(const FakernicHit *hit, uint64_t *word);

/* ---- frames -------------------------------------------------------------- */

/*
 * A frame from the wire. Returns the frame, or a changed copy, which stays
 * valid until the next one; NULL: it is gone.
 */
static inline const uint8_t *fakernic_gate_rx(FakernicState *s,
                                              const uint8_t *frame, size_t *len)
{
    fakernic_record_frame(s, FAKERNIC_RECORD_IN, frame, *len);
    return fakernic_gate_is_armed(s, ROCE_FAULT_RX)
               ? fakernic_fault_rx(s, frame, len) : frame;
}

/* A frame that this device has sent to itself. */
static inline bool fakernic_gate_loopback(FakernicState *s, uint8_t *frame,
                                          size_t *len)
{
    fakernic_record_frame(s, FAKERNIC_RECORD_LOOPBACK, frame, *len);
    return !fakernic_gate_is_armed(s, ROCE_FAULT_RX) ||
           fakernic_fault_loopback(s, frame, len);
}

/* The frame that the engine has just made. */
static inline bool fakernic_gate_tx(FakernicState *s, uint8_t *frame,
                                    size_t *len, bool loopback)
{
    return !fakernic_gate_is_armed(s, ROCE_FAULT_TX) ||
           fakernic_fault_tx(s, frame, len, loopback);
}

/* ---- doorbells and commands ---------------------------------------------- */

/* A store into a doorbell page. */
static inline bool fakernic_gate_doorbell(FakernicState *s, uint64_t offset,
                                          uint64_t *word)
{
    return !fakernic_gate_is_armed(s, ROCE_FAULT_DOORBELL) ||
           fakernic_fault_doorbell(s, offset, word);
}

/* A store into CMDQ_DOORBELL. */
static inline bool fakernic_gate_cmd_doorbell(FakernicState *s, uint32_t pi)
{
    return !fakernic_gate_is_armed(s, ROCE_FAULT_CMD_DOORBELL) ||
           fakernic_fault_cmd_doorbell(s, pi);
}

/*
 * The next command. OK: it is executed. LATER: it waits until *delayed_until.
 * Other verdicts: it fails. With *lost it gets no completion.
 */
static inline FakernicVerdict fakernic_gate_command(FakernicState *s,
                                                    uint16_t opcode,
                                                    RoceTime *delayed_until,
                                                    bool *lost)
{
    return *delayed_until || fakernic_gate_is_armed(s, ROCE_FAULT_COMMAND)
               ? fakernic_fault_command(s, opcode, delayed_until, lost)
               : FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* ---- work requests ------------------------------------------------------- */

/*
 * The next WQE of a send queue, which is not yet read. *waits belongs to the
 * queue: 0 at first, then the end of its wait. False: the queue waits.
 */
static inline bool fakernic_gate_send_wqe(FakernicState *s, uint32_t qpn,
                                          uint32_t index, RoceTime *waits,
                                          const FakernicHit **hit)
{
    *hit = NULL;
    return (!*waits && !fakernic_gate_is_armed(s, ROCE_FAULT_SEND_WQE)) ||
           fakernic_fault_send_wqe(s, qpn, index, waits, hit);
}

/*
 * The same WQE when it is read; may force the status of its completion. False:
 * it is gone, and a later turn fetches the next one.
 */
static inline bool fakernic_gate_send_result(FakernicState *s,
                                             const FakernicHit *hit,
                                             uint32_t qpn, RoceSendWr *wr)
{
    wr->forced_status = 0;
    return !hit || fakernic_fault_send_result(s, hit, qpn, wr);
}

/*
 * The next WQE of a receive queue or SRQ, which is not yet read; the queue of
 * *waits as above. False: it is not available now.
 */
static inline bool fakernic_gate_recv_wqe(FakernicState *s, uint32_t qpn,
                                          uint32_t srqn, uint32_t index,
                                          RoceTime *waits,
                                          const FakernicHit **hit)
{
    RoceFaultSubject subject;

    *hit = NULL;
    if (!*waits && !fakernic_gate_is_armed(s, ROCE_FAULT_RECV_WQE)) {
        return true;
    }
    subject = (RoceFaultSubject) { .point = ROCE_FAULT_RECV_WQE, .qpn = qpn,
                                   .number = srqn, .index = index };
    return fakernic_fault_recv_wqe(s, &subject, waits, hit);
}

/* The format error of the same WQE when it is decoded; 0: none. */
static inline uint16_t fakernic_gate_recv_error(const FakernicHit *hit,
                                                uint16_t error)
{
    return !hit || hit->act != ROCE_FAULT_FAIL ? error
           : hit->code ? hit->code : FAKERNIC_VENDOR_RQ_FORMAT;
}

/* ---- completions, events, interrupts ------------------------------------- */

/*
 * A completion. May replace it by a changed copy, which stays valid until the
 * next one. *fault is for fakernic_gate_overruns() and _cqe_bytes().
 */
static inline bool fakernic_gate_cqe(FakernicState *s,
                                     const RoceCompletion **completion,
                                     const FakernicCqeFault **fault)
{
    *fault = NULL;
    return (!fakernic_gate_is_armed(s, ROCE_FAULT_CQE) &&
            !s->faults.held_count) ||
           fakernic_fault_cqe(s, completion, fault);
}

/* True: the CQ counts as full. */
static inline bool fakernic_gate_overruns(const FakernicCqeFault *fault)
{
    return fault && fault->overrun;
}

/* The bytes of the entry. */
static inline void fakernic_gate_cqe_bytes(const FakernicCqeFault *fault,
                                           void *bytes, size_t len)
{
    if (fault) {
        roce_fault_corrupt(&fault->corruption, bytes, len);
    }
}

/*
 * The next entry of an EQ. False: the event stays latched, and a turn flushes
 * the EQ at *stalled_until. The station writes fakernic_gate_copies() entries.
 */
static inline bool fakernic_gate_eqe(FakernicState *s, uint32_t eqn,
                                     RoceTime *stalled_until,
                                     const FakernicHit **hit)
{
    *hit = NULL;
    return (!*stalled_until && !fakernic_gate_is_armed(s, ROCE_FAULT_EQE)) ||
           fakernic_fault_eqe(s, eqn, stalled_until, hit);
}

static inline unsigned fakernic_gate_copies(const FakernicHit *hit)
{
    return hit ? fakernic_fault_copies(hit) : 1;
}

/* An MSI-X message. */
static inline bool fakernic_gate_interrupt(FakernicState *s, unsigned vector)
{
    return (!fakernic_gate_is_armed(s, ROCE_FAULT_INTERRUPT) &&
            !s->faults.judged) ||
           fakernic_fault_interrupt(s, vector);
}

/* ---- guest memory -------------------------------------------------------- */

static inline const FakernicHit *fakernic_gate_dma_read(FakernicState *s,
                                                        uint64_t address,
                                                        size_t len, RoceWhy why)
{
    fakernic_record(s, DMA_READ, address, len);
    return fakernic_gate_is_armed(s, ROCE_FAULT_DMA_READ)
               ? fakernic_fault_dma(s, ROCE_FAULT_DMA_READ, why, address, len)
               : NULL;
}

/*
 * May reduce *len, also to 0, and replace *bytes by a changed copy, which stays
 * valid until the next write.
 */
static inline const FakernicHit *fakernic_gate_dma_write(FakernicState *s,
                                                         uint64_t address,
                                                         const void **bytes,
                                                         size_t *len,
                                                         RoceWhy why)
{
    const FakernicHit *hit = NULL;

    fakernic_record(s, DMA_WRITE, address, *len);
    if (fakernic_gate_is_armed(s, ROCE_FAULT_DMA_WRITE)) {
        hit = fakernic_fault_dma(s, ROCE_FAULT_DMA_WRITE, why, address, *len);
        *bytes = fakernic_fault_stored(s, hit, *bytes, len);
    }
    return hit;
}

/* An atomic operation on 8 bytes. */
static inline const FakernicHit *fakernic_gate_dma_atomic(FakernicState *s,
                                                          uint64_t address)
{
    return fakernic_gate_is_armed(s, ROCE_FAULT_DMA_ATOMIC)
               ? fakernic_fault_dma(s, ROCE_FAULT_DMA_ATOMIC, ROCE_WHY_PAYLOAD,
                                    address, 8)
               : NULL;
}

/* A FLUSH, or a part of one. */
static inline const FakernicHit *fakernic_gate_flush(FakernicState *s,
                                                     const RoceFlushJob *flush)
{
    return fakernic_gate_is_armed(s, ROCE_FAULT_DMA_FLUSH)
               ? fakernic_fault_flush(s, flush) : NULL;
}

/* A page list of 'needed' pages. False: reading it fails. */
static inline bool fakernic_gate_page_list(FakernicState *s, uint64_t needed)
{
    return !fakernic_gate_is_armed(s, ROCE_FAULT_PAGE_LIST) ||
           fakernic_fault_page_list(s, needed);
}

/* ---- what a hit does ----------------------------------------------------- */

/* True: the access fails. */
static inline bool fakernic_gate_fails(const FakernicHit *hit)
{
    return hit && hit->act == ROCE_FAULT_FAIL;
}

/* True: the access succeeds without an effect. */
static inline bool fakernic_gate_drops(const FakernicHit *hit)
{
    return hit && hit->act == ROCE_FAULT_DROP;
}

/* The bytes of the item; a hit may corrupt one of them. */
static inline void fakernic_gate_bytes(const FakernicHit *hit, void *bytes,
                                       size_t len)
{
    if (hit) {
        fakernic_fault_bytes(hit, bytes, len);
    }
}

/* The first bytes of an item, in place of fakernic_gate_bytes(), because the
 * station needs them to find its end. */
static inline void fakernic_gate_head(const FakernicHit *hit, void *bytes,
                                      size_t len)
{
    if (hit && hit->corruption.offset < len) {
        fakernic_fault_bytes(hit, bytes, len);
    }
}

/*
 * All bytes of an item; the first 'head' ones have passed the function above.
 */
static inline void fakernic_gate_rest(const FakernicHit *hit, void *bytes,
                                      size_t head, size_t len)
{
    if (hit && hit->corruption.offset >= head) {
        fakernic_fault_bytes(hit, bytes, len);
    }
}

/* A little-endian word, held here in the host's byte order. */
static inline void fakernic_gate_word(const FakernicHit *hit, uint64_t *word)
{
    if (hit) {
        fakernic_fault_word(hit, word);
    }
}

/* ---- held items and state ------------------------------------------------ */

/* Holds a doorbell of a frozen device until it thaws. */
void fakernic_gate_hold_doorbell(FakernicState *s, uint64_t offset,
                                 uint64_t word);

/* A turn flushes the EQ at 'until'. */
void fakernic_gate_retry_eq(FakernicState *s, uint32_t eqn, RoceTime until);

/* The CQ is destroyed: discards the items held for it. */
void fakernic_gate_forget_cq(FakernicState *s, uint32_t cqn);

/* The EQ is destroyed: ends its stall. */
void fakernic_gate_forget_eq(FakernicState *s, uint32_t eqn);

/*
 * The QP or WQ is about to be destroyed or reset: discards the items held for
 * it. Receive completions of an XRC target belong to the SRQ and stay.
 */
void fakernic_gate_forget_qp(FakernicState *s, uint32_t qpn);

/* The number of held items. */
static inline uint32_t fakernic_gate_held(const FakernicState *s)
{
    return s->faults.held_count;
}

/* False: a rule has taken the link down. */
static inline bool fakernic_gate_link_up(const FakernicState *s)
{
    return !s->faults.link_until;
}

/* True: the device has had a rule since power-on. */
static inline bool fakernic_gate_was_armed(const FakernicState *s)
{
    return s->faults.was_armed;
}

#endif
