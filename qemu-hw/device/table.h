/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Objects by number, and the kinds that are little more than a number.
 */
#ifndef FAKERNIC_DEVICE_TABLE_H
#define FAKERNIC_DEVICE_TABLE_H

#include "common.h"

/*
 * Allocates numbers never used first, then the one freed longest ago, so that a
 * number is reused as late as possible. The caller allocates and frees the
 * objects.
 */
typedef struct FakernicTable {
    void **slots;
    uint32_t *freed;            /* FIFO, 'size' entries */
    uint32_t freed_head;
    uint32_t freed_count;
    uint32_t first;
    uint32_t size;              /* numbers are first..size - 1 */
    uint32_t next;              /* the next number not used before */
} FakernicTable;

typedef struct FakernicPd {
    RocePd handle;              /* the engine's handle */
    uint32_t users;             /* QPs, SRQs, regions and windows */
} FakernicPd;

/* The device's state of a memory key, by its index. */
typedef struct FakernicKey {
    uint32_t pages;             /* page list entries */
    uint32_t pdn;               /* 0: there is no such key */
} FakernicKey;

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

/* Creates an empty table with the numbers first..size - 1. */
void fakernic_table_init(FakernicTable *t, uint32_t first, uint32_t size);
/* Frees the table, but not its objects. */
void fakernic_table_free(FakernicTable *t);
/* True: all numbers are in use. */
bool fakernic_table_is_full(const FakernicTable *t);
/* Returns the object's number. The table must not be full. */
uint32_t fakernic_table_add(FakernicTable *t, void *object);
/* NULL: no object has this number; any number is allowed. */
void *fakernic_table_get(const FakernicTable *t, uint32_t id);
/* There must be an object of this number. */
void fakernic_table_remove(FakernicTable *t, uint32_t id);

/* Lookups by any number from the guest; NULL: no object has it. */
struct FakernicQp;
/* A PD. */
FakernicPd *fakernic_pd(FakernicState *s, uint32_t pdn);
/* The engine's handle of a PD; 0: there is no such PD. */
RocePd fakernic_pd_handle(FakernicState *s, uint32_t pdn);
/* An XRC domain. */
FakernicXrcd *fakernic_xrcd(FakernicState *s, uint32_t xrcdn);
/* A QP, not a WQ. */
struct FakernicQp *fakernic_qp(FakernicState *s, uint32_t qpn);
/* A WQ, not a QP. */
struct FakernicQp *fakernic_wq(FakernicState *s, uint32_t wqn);
/* Either: they share their numbers. */
struct FakernicQp *fakernic_qp_or_wq(FakernicState *s, uint32_t number);

/* Checks a CQ for a new object: OK, BAD_ID, or BAD_STATE: it is in error. */
uint8_t fakernic_cq_check(FakernicState *s, uint32_t cqn);

/* True: the guest has allocated this doorbell page. */
bool fakernic_uar_exists(FakernicState *s, uint32_t uar);
/* Adds 'users', which may be negative, to the users of an existing page. */
void fakernic_uar_use(FakernicState *s, uint32_t uar, int users);

#endif
