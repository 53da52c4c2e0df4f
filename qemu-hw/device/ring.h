/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings: queues in guest memory, named by a page list (fakernic/cmdq.h, struct
 * fakernic_page_list), with a doorbell record behind the last entry.
 */
#ifndef FAKERNIC_DEVICE_RING_H
#define FAKERNIC_DEVICE_RING_H

#include "common.h"
#include "../roce/fault.h"

typedef struct FakernicRing {
    uint64_t *pages;            /* NULL: there is no such queue */
    uint32_t page_count;
    uint8_t page_shift;
    uint8_t log_entry;          /* bytes of an entry */
    uint8_t why;                /* RoceFaultWhy of an entry */
    uint32_t depth;             /* entries, a power of two */
} FakernicRing;

/* A table of tables of a page list: the one that was wanted last. */
typedef struct FakernicUpperTable {
    bool valid;
    uint64_t number;
    uint64_t entries[FAKERNIC_PAGE_TABLE_ENTRIES];
} FakernicUpperTable;

/* A page list that is being read. */
typedef struct FakernicPageReader {
    uint64_t *pages;            /* as far as they are read; NULL: no list is */
    uint64_t needed;
    uint64_t done;
    uint64_t address;           /* of the root table, or of the first page */
    uint8_t levels;
    uint8_t page_shift;
    FakernicUpperTable upper[FAKERNIC_PAGE_LIST_LEVELS_MAX - 1];
} FakernicPageReader;

/*
 * Begins to read the first 'needed' addresses of a list. OK; BAD_PAGE_LIST: the
 * list is not well-formed, or names fewer; NO_RESOURCE: no memory. Only with OK
 * is there anything to run or to drop.
 */
uint8_t fakernic_page_reader_begin(FakernicPageReader *r,
                                   const struct fakernic_page_list *list,
                                   uint64_t needed)
    G_GNUC_WARN_UNUSED_RESULT;

/* The same for contiguous pages at any address; OK or NO_RESOURCE. */
uint8_t fakernic_page_reader_begin_at(FakernicPageReader *r, uint64_t address,
                                      unsigned page_shift, uint64_t needed)
    G_GNUC_WARN_UNUSED_RESULT;

/* Of a command's list, in one turn. */
#define FAKERNIC_TABLES_PER_TURN 32

/*
 * Reads on: as long as the turn lasts, at least one and at most 'tables'
 * tables. LATER: there are more. Else the reader is done: OK, and *pages is a
 * malloc'ed array of 'needed' addresses, the caller's to free(); BAD_PAGE_LIST
 * or DMA_ERROR, and *pages is untouched. Each entry is read from the guest
 * once.
 */
uint8_t fakernic_page_reader_run(FakernicState *s, FakernicPageReader *r,
                                 unsigned tables, uint64_t **pages)
    G_GNUC_WARN_UNUSED_RESULT;

/* Forgets what was read; may be called on one that reads nothing. */
void fakernic_page_reader_drop(FakernicPageReader *r);

/*
 * Copies the first 'needed' page addresses of a list that names at least as
 * many, at once: they are few. On FAKERNIC_CMD_OK *pages is a malloc'ed array
 * of 'needed' addresses, the caller's to free(); else it is untouched.
 * BAD_PAGE_LIST: the list is not well-formed; DMA_ERROR: a page table is out
 * of reach; NO_RESOURCE: no memory.
 */
uint8_t fakernic_page_list_read(FakernicState *s,
                                const struct fakernic_page_list *list,
                                uint64_t needed, uint64_t **pages)
    G_GNUC_WARN_UNUSED_RESULT;

/* Is the list all zero, as it must be where no queue is wanted? */
bool fakernic_page_list_is_zero(const struct fakernic_page_list *list);

/*
 * Sets up a ring of 2^log_depth entries of 2^log_entry bytes, which are what
 * 'why' says. Returns what fakernic_page_list_read() does, or NO_RESOURCE when
 * max-memory is reached; on FAKERNIC_CMD_OK the ring owns its page addresses
 * until fakernic_ring_free(), else it is untouched.
 */
uint8_t fakernic_ring_init(FakernicState *s, FakernicRing *ring,
                           const struct fakernic_page_list *list,
                           unsigned log_depth, unsigned log_entry,
                           RoceFaultWhy why)
    G_GNUC_WARN_UNUSED_RESULT;

/*
 * The same for a ring that may be long, over several turns: LATER, and it is
 * called again with the same arguments. 'r' reads nothing at first; while it
 * reads, its addresses are counted as memory taken.
 */
uint8_t fakernic_ring_init_some(FakernicState *s, FakernicRing *ring,
                                FakernicPageReader *r,
                                const struct fakernic_page_list *list,
                                unsigned log_depth, unsigned log_entry,
                                RoceFaultWhy why)
    G_GNUC_WARN_UNUSED_RESULT;

/* Leaves a ring that is not there; may be called on one, too. */
void fakernic_ring_free(FakernicState *s, FakernicRing *ring);

/*
 * Copies 'len' bytes from the start of entry 'index' on, across entries and
 * around the end. Any index is valid: it counts modulo the depth. False: out of
 * the device's reach.
 */
bool fakernic_ring_read(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len);

/* The same for a look from outside: fakernic_dma_peek(). */
bool fakernic_ring_peek(FakernicState *s, const FakernicRing *ring,
                        uint32_t index, void *buf, size_t len);

/* The reverse of fakernic_ring_read(). */
bool fakernic_ring_write(FakernicState *s, const FakernicRing *ring,
                         uint32_t index, const void *buf, size_t len);

/*
 * Reads the index that the host keeps in the doorbell record. The host may
 * write anything there: the caller judges it. False: out of reach.
 */
bool fakernic_ring_record(FakernicState *s, const FakernicRing *ring,
                          uint32_t *index);
/* The same for a look from outside. */
bool fakernic_ring_peek_record(FakernicState *s, const FakernicRing *ring,
                               uint32_t *index);

/*
 * The stamp in the doorbell record, and the index beside it; 0: there is none,
 * or no file of the recorder's to note it in.
 */
uint64_t fakernic_ring_stamp(FakernicState *s, const FakernicRing *ring,
                             uint32_t *index);

#endif
