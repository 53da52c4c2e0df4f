/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings: queues in guest memory, named by a page list (fakernic/cmdq.h, struct
 * fakernic_page_list), with a doorbell record behind the last entry.
 */
#ifndef FAKERNIC_DEVICE_QUEUE_RING_H
#define FAKERNIC_DEVICE_QUEUE_RING_H

#include "types.h"
#include "../../fault/why.h"

/*
 * Begins to read the first 'needed' addresses of a list. OK; BAD_PAGE_LIST: the
 * list is not well-formed, or names fewer; NO_RESOURCE: no memory. The caller
 * runs or drops the reader only after OK.
 */
uint8_t fakernic_page_reader_begin(FakernicPageReader *r,
                                   const struct fakernic_page_list *list,
                                   uint64_t needed)
    G_GNUC_WARN_UNUSED_RESULT;

/* The same for contiguous pages at any address; OK or NO_RESOURCE. */
uint8_t fakernic_page_reader_begin_at(FakernicPageReader *r, uint64_t address,
                                      unsigned page_shift, uint64_t needed)
    G_GNUC_WARN_UNUSED_RESULT;

/* Tables of a command's list that are read in one turn. */
#define FAKERNIC_TABLES_PER_TURN 32

/*
 * Continues reading within the budget: at least one and at most 'tables'
 * tables. LATER: there are more. Otherwise the reader is done. OK: *pages is a
 * malloc'ed array of 'needed' addresses, which the caller frees with free().
 * BAD_PAGE_LIST or DMA_ERROR: *pages is unchanged. Each entry is read from
 * guest memory once.
 */
uint8_t fakernic_page_reader_run(FakernicState *s, FakernicPageReader *r,
                                 unsigned tables, uint64_t **pages)
    G_GNUC_WARN_UNUSED_RESULT;

/* Frees what was read; also allowed on a reader that reads nothing. */
void fakernic_page_reader_drop(FakernicPageReader *r);

/*
 * Copies the first 'needed' page addresses of a short list in one call. On
 * FAKERNIC_CMD_OK *pages is a malloc'ed array of 'needed' addresses, which the
 * caller frees with free(); else it is unchanged. BAD_PAGE_LIST: the list is
 * not well-formed, or too short; DMA_ERROR: a page table cannot be read;
 * NO_RESOURCE: no memory.
 */
uint8_t fakernic_page_list_read(FakernicState *s,
                                const struct fakernic_page_list *list,
                                uint64_t needed, uint64_t **pages)
    G_GNUC_WARN_UNUSED_RESULT;

/* True: the list is all zero, as required where a command has no queue. */
bool fakernic_page_list_is_zero(const struct fakernic_page_list *list);

/*
 * Sets up a ring of 2^log_depth entries of 2^log_entry bytes; 'why' is the kind
 * of its entries for fault rules. Returns as fakernic_page_list_read(), or
 * NO_RESOURCE when max-memory is reached. On FAKERNIC_CMD_OK the ring owns its
 * page addresses until fakernic_ring_free(); else it is unchanged.
 */
uint8_t fakernic_ring_init(FakernicState *s, FakernicRing *ring,
                           const struct fakernic_page_list *list,
                           unsigned log_depth, unsigned log_entry,
                           RoceWhy why)
    G_GNUC_WARN_UNUSED_RESULT;

/*
 * The same for a ring that may be long. LATER: a later turn calls again with
 * the same arguments. 'r' reads nothing at first. The memory of its addresses
 * is accounted from the first call on.
 */
uint8_t fakernic_ring_init_some(FakernicState *s, FakernicRing *ring,
                                FakernicPageReader *r,
                                const struct fakernic_page_list *list,
                                unsigned log_depth, unsigned log_entry,
                                RoceWhy why)
    G_GNUC_WARN_UNUSED_RESULT;

/* Frees a ring, which is then empty; also allowed on an empty ring. */
void fakernic_ring_free(FakernicState *s, FakernicRing *ring);

/*
 * Copies 'len' bytes from the start of entry 'index' on, across entries and
 * around the end. The index is taken modulo the depth. False: the memory cannot
 * be read.
 */
bool fakernic_ring_read(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len);

/* The same for monitoring, by fakernic_dma_peek(). */
bool fakernic_ring_peek(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len);

/* The reverse of fakernic_ring_read(). */
bool fakernic_ring_write(FakernicState *s, const FakernicRing *ring,
                         uint32_t index, const void *buf, size_t len);

/*
 * Reads the host's index from the doorbell record. The host may write any value
 * there, so the caller checks it. False: the record cannot be read.
 */
bool fakernic_ring_record(FakernicState *s, const FakernicRing *ring,
                          uint32_t *index);
/* The same for monitoring. */
bool fakernic_ring_peek_record(FakernicState *s, const FakernicRing *ring,
                               uint32_t *index);

/*
 * Stores the event index to the doorbell record, then reads the host's index as
 * fakernic_ring_record(). A full barrier is between them.
 */
bool fakernic_ring_announce(FakernicState *s, const FakernicRing *ring,
                            uint32_t event, uint32_t *index);

/*
 * The stamp in the doorbell record, and the index next to it. 0: there is no
 * stamp, or no recorder file for it.
 */
uint64_t fakernic_ring_stamp(FakernicState *s, const FakernicRing *ring,
                             uint32_t *index);

#endif
