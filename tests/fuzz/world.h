/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The world of the target "frames": two engines on a wire. Each has a QP of
 * every service in RTS, connected to the same slot of the other side (two RC
 * QPs to each other, by loopback). Each also has shared receive queues, memory
 * keys of every kind, and multicast groups. Its GIDs are IPv4, IPv6 and VLAN.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "host.h"
#include "records.h"
#include "wire.h"

#define WORLD_SIDES 2u
#define WORLD_KEYS 12u
#define WORLD_GIDS 3u
#define WORLD_SRQ 1u            /* SRQNs */
#define WORLD_XRC_SRQ 2u
#define WORLD_XRCD 1u
#define WORLD_QKEY 0x11223344u
#define WORLD_MTU_MAX 9000u

typedef enum Slot {
    SLOT_GSI,
    SLOT_RC,
    SLOT_RC_SRQ,
    SLOT_RC_SELF_A,
    SLOT_RC_SELF_B,
    SLOT_UC,
    SLOT_UC_VLAN,
    SLOT_UD,
    SLOT_UD_SRQ,
    SLOT_RAW,
    SLOT_XRC_INI,
    SLOT_XRC_TGT,
    SLOTS,
} Slot;

/* How a host answers page requests, in addition to steps that do. */
typedef enum WorldPaging {
    PAGING_NEVER,
    PAGING_PROMPT,              /* after each step */
    PAGING_LATE,                /* after a time step */
    PAGING_WRONG,               /* refuses some, gives others read-only */
} WorldPaging;

/* The settings from the first record of an input. */
typedef struct WorldConfig {
    uint32_t psn;
    uint8_t mtu, timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic;
    bool dcqcn;
    WorldPaging paging;
} WorldConfig;

typedef struct WorldKey {
    uint32_t key;               /* 0: none */
    uint64_t iova;
} WorldKey;

typedef struct Side {
    Host host;
    Roce *r;
    uint32_t qpn[SLOTS];        /* 0: there is none */
    RoceGid gid[WORLD_GIDS];
    WorldKey key[WORLD_KEYS];
} Side;

typedef struct World {
    Side side[WORLD_SIDES];
    WorldConfig config;
    RoceTime now;
} World;

extern const uint8_t world_group[2][16];        /* IPv6, IPv4 */

void world_init(World *w, const FuzzRecord *first);
void world_free(World *w);
/* The limits of a side's engine, and an engine without objects. */
RoceLimits world_limits(const WorldConfig *config);
Roce *world_engine(Host *host, const WorldConfig *config);

uint8_t world_type(Slot slot);
uint16_t world_gid_index(Slot slot);
/* The side and slot a slot is connected to. */
Side *world_peer(World *w, Side *side, Slot *slot);
RoceAv world_av(World *w, Side *side, Slot slot);
bool world_create(World *w, Side *side, Slot slot);
void world_destroy(World *w, Side *side, Slot slot);
/* Moves the QP to its next state on the way to RTS. False: refused. */
bool world_advance(World *w, Side *side, Slot slot);
/* MODIFY_QP with no other attribute. */
int world_to_state(World *w, Side *side, Slot slot, uint8_t state);
/* Answers all page requests of a side's engine, or only the oldest. */
void world_answer(Side *side, RocePages state, bool all);
/* Page addresses of writable memory from a page on, malloc'ed. */
uint64_t *world_pages(const Side *side, uint32_t first, uint32_t count);

#endif
