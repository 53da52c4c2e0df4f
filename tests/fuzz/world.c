/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See world.h. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#define WORLD_ALL_RIGHTS                                                    \
    (FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE |           \
     FAKERNIC_ACCESS_REMOTE_READ | FAKERNIC_ACCESS_REMOTE_ATOMIC |          \
     FAKERNIC_ACCESS_MW_BIND)

const uint8_t world_group[2][16] = {
    { 0xff, 0x0e, [15] = 0x42 },
    { [10] = 0xff, 0xff, 239, 1, 1, 1 },
};

static const struct {
    uint8_t type, gid;
    bool sq, rq, srq;
} slots[SLOTS] = {
    [SLOT_GSI] = { FAKERNIC_QP_GSI, 0, true, true, false },
    [SLOT_RC] = { FAKERNIC_QP_RC, 0, true, true, false },
    [SLOT_RC_SRQ] = { FAKERNIC_QP_RC, 1, true, false, true },
    [SLOT_RC_SELF_A] = { FAKERNIC_QP_RC, 0, true, true, false },
    [SLOT_RC_SELF_B] = { FAKERNIC_QP_RC, 0, true, true, false },
    [SLOT_UC] = { FAKERNIC_QP_UC, 0, true, true, false },
    [SLOT_UC_VLAN] = { FAKERNIC_QP_UC, 2, true, true, false },
    [SLOT_UD] = { FAKERNIC_QP_UD, 0, true, true, false },
    [SLOT_UD_SRQ] = { FAKERNIC_QP_UD, 1, true, false, true },
    [SLOT_RAW] = { FAKERNIC_QP_RAW_PACKET, 0, true, true, false },
    [SLOT_XRC_INI] = { FAKERNIC_QP_XRC_INI, 1, true, false, false },
    [SLOT_XRC_TGT] = { FAKERNIC_QP_XRC_TGT, 1, false, false, false },
};

uint8_t world_type(Slot slot)
{
    return slots[slot].type;
}

uint16_t world_gid_index(Slot slot)
{
    return slots[slot].gid;
}

Side *world_peer(World *w, Side *side, Slot *slot)
{
    switch (*slot) {
    case SLOT_RC_SELF_A:
        *slot = SLOT_RC_SELF_B;
        return side;
    case SLOT_RC_SELF_B:
        *slot = SLOT_RC_SELF_A;
        return side;
    case SLOT_XRC_INI:
        *slot = SLOT_XRC_TGT;
        break;
    case SLOT_XRC_TGT:
        *slot = SLOT_XRC_INI;
        break;
    default:
        break;
    }
    return &w->side[side == &w->side[0]];
}

RoceAv world_av(World *w, Side *side, Slot slot)
{
    uint16_t index = slots[slot].gid;
    Side *peer = world_peer(w, side, &slot);
    RoceAv av = { .sgid_index = index, .hop_limit = 64 };

    memcpy(av.dgid, peer->gid[index].gid, sizeof(av.dgid));
    memcpy(av.dmac, peer->gid[index].mac, sizeof(av.dmac));
    return av;
}

/* ---- QPs ----------------------------------------------------------------- */

bool world_create(World *w, Side *side, Slot slot)
{
    RoceQpInit init = {
        .block_mcast_lb = slot == SLOT_UD_SRQ,
        .type = slots[slot].type,
        .has_sq = slots[slot].sq,
        .has_rq = slots[slot].rq,
        .pd = 1,
        .send_cqn = 10 + slot,
        .recv_cqn = 30 + slot,
        .srqn = slots[slot].srq ? WORLD_SRQ : 0,
    };

    (void)w;
    if (init.type == FAKERNIC_QP_XRC_TGT) {
        init.pd = init.send_cqn = 0;
        init.xrcdn = WORLD_XRCD;
    }
    if (init.type >= FAKERNIC_QP_XRC_INI) {
        init.recv_cqn = 0;
    }
    if (side->qpn[slot] != 0 ||
        roce_qp_create(side->r, &init, &side->qpn[slot]) != FAKERNIC_CMD_OK) {
        return false;
    }
    host_qp_created(&side->host, side->qpn[slot], &init);
    return true;
}

void world_destroy(World *w, Side *side, Slot slot)
{
    (void)w;
    if (side->qpn[slot] != 0) {
        FUZZ_CHECK(roce_qp_destroy(side->r, side->qpn[slot]) ==
                   FAKERNIC_CMD_OK);
        host_qp_forget(&side->host, side->qpn[slot], true);
        side->qpn[slot] = 0;
    }
}

int world_to_state(World *w, Side *side, Slot slot, uint8_t state)
{
    RoceQpAttr attr = { .state = state };
    uint32_t bad;
    int status = roce_qp_modify(side->r, w->now, side->qpn[slot],
                                FAKERNIC_QP_ATTR_STATE, &attr, &bad);

    if (status == FAKERNIC_CMD_OK && state == FAKERNIC_QPS_RESET) {
        host_qp_forget(&side->host, side->qpn[slot], false);
    }
    return status;
}

static RoceQpAttr world_attr(World *w, Side *side, Slot slot)
{
    const WorldConfig *config = &w->config;
    Slot to = slot;
    Side *peer = world_peer(w, side, &to);

    return (RoceQpAttr) {
        .port = 1,
        .qkey = WORLD_QKEY,
        .access_flags = FAKERNIC_ACCESS_REMOTE_WRITE |
                        FAKERNIC_ACCESS_REMOTE_READ |
                        FAKERNIC_ACCESS_REMOTE_ATOMIC |
                        FAKERNIC_ACCESS_FLUSH_GLOBAL |
                        FAKERNIC_ACCESS_FLUSH_PERSISTENT,
        .av = world_av(w, side, slot),
        .alt_av = world_av(w, side, slot),
        .alt_port = 1,
        .path_mtu = config->mtu,
        .dest_qpn = peer->qpn[to],
        .rq_psn = config->psn,
        .sq_psn = config->psn,
        .max_rd_atomic = config->max_rd_atomic,
        .max_dest_rd_atomic = config->max_rd_atomic,
        .min_rnr_timer = config->min_rnr_timer,
        .timeout = config->timeout,
        .alt_timeout = config->timeout,
        .retry_cnt = config->retry_cnt,
        .rnr_retry = config->rnr_retry,
    };
}

bool world_advance(World *w, Side *side, Slot slot)
{
    RoceQpAttr attr = world_attr(w, side, slot), old;
    uint32_t mask = FAKERNIC_QP_ATTR_STATE, bad = 0;
    unsigned tries = 24;

    if (roce_qp_query(side->r, side->qpn[slot], &old) != FAKERNIC_CMD_OK ||
        old.state >= FAKERNIC_QPS_RTS) {
        return false;
    }
    attr.state = old.state + 1;
    /* The engine reports the missing attribute, so no table is needed here. */
    while (tries--) {
        if (roce_qp_modify(side->r, w->now, side->qpn[slot], mask, &attr,
                           &bad) == FAKERNIC_CMD_OK) {
            return true;
        }
        if (bad == 0 || mask & bad) {
            return false;
        }
        mask |= bad;
    }
    return false;
}

/* ---- keys and GIDs ------------------------------------------------------- */

uint64_t *world_pages(const Side *side, uint32_t first, uint32_t count)
{
    uint64_t *pages = malloc((count ? count : 1) * sizeof(*pages));
    uint32_t i;

    FUZZ_CHECK(pages != NULL);
    for (i = 0; i < count; i++) {
        pages[i] = side->host.base + (first + i) % HOST_WRITABLE * HOST_PAGE;
    }
    return pages;
}

static void world_add_mr(Side *side, unsigned at, uint8_t type, RocePd pd,
                         uint32_t access, uint32_t page, uint32_t pages)
{
    RoceMrInit init = {
        .type = type,
        .tag = (uint8_t)(0x10 + at),
        .pd = pd,
        .access = access,
        .page_count = pages,
    };
    uint32_t i;

    if (type == FAKERNIC_MR_MEMORY) {
        init.page_shift = FAKERNIC_PAGE_SHIFT;
        init.iova = side->host.base + page * HOST_PAGE;
        init.length = pages * HOST_PAGE;
        init.pages = world_pages(side, 0, pages);
        for (i = 0; i < pages; i++) {
            init.pages[i] = side->host.base + (page + i) * HOST_PAGE;
        }
    }
    FUZZ_CHECK(roce_mr_create(side->r, &init, &side->key[at].key) ==
               FAKERNIC_CMD_OK);
    side->key[at].iova = access & FAKERNIC_ACCESS_ZERO_BASED ? 0 : init.iova;
}

/* On-demand regions: one that begins and ends within pages, and one of the
 * whole address space. */
static void world_add_on_demand(Side *side, uint32_t flush)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_ON_DEMAND,
        .tag = 0x18,
        .pd = 1,
        .access = (WORLD_ALL_RIGHTS & ~FAKERNIC_ACCESS_MW_BIND) | flush |
                  FAKERNIC_ACCESS_ON_DEMAND,
        .page_shift = FAKERNIC_PAGE_SHIFT,
        .iova = side->host.base + HOST_DEMAND_AT + 0x80,
        .length = HOST_DEMAND * HOST_PAGE - 0x100,
    };

    FUZZ_CHECK(roce_mr_create(side->r, &init, &side->key[8].key) ==
               FAKERNIC_CMD_OK);
    side->key[8].iova = init.iova;
    init.iova = 0;
    init.length = UINT64_MAX;
    FUZZ_CHECK(roce_mr_create(side->r, &init, &side->key[9].key) ==
               FAKERNIC_CMD_OK);
    side->key[9].iova = 0x7ffff0000000;
}

static void world_add_keys(Side *side)
{
    const uint32_t flush = FAKERNIC_ACCESS_FLUSH_GLOBAL |
                           FAKERNIC_ACCESS_FLUSH_PERSISTENT;

    memset(side->key, 0, sizeof(side->key));
    world_add_mr(side, 0, FAKERNIC_MR_MEMORY, 1, WORLD_ALL_RIGHTS | flush, 0,
                 HOST_WRITABLE);
    world_add_mr(side, 1, FAKERNIC_MR_MEMORY, 1,
                 FAKERNIC_ACCESS_REMOTE_READ | FAKERNIC_ACCESS_MW_BIND,
                 HOST_WRITABLE, HOST_READABLE - HOST_WRITABLE);
    world_add_mr(side, 2, FAKERNIC_MR_FAST_REG, 1, WORLD_ALL_RIGHTS, 0, 4);
    world_add_mr(side, 3, FAKERNIC_MR_MEMORY, 1,
                 WORLD_ALL_RIGHTS | FAKERNIC_ACCESS_ZERO_BASED, 2, 3);
    world_add_mr(side, 4, FAKERNIC_MR_MEMORY, 2, WORLD_ALL_RIGHTS, 0, 2);
    world_add_mr(side, 5, FAKERNIC_MR_NULL, 1, WORLD_ALL_RIGHTS, 0, 0);
    world_add_on_demand(side, flush);
    side->key[6].iova = side->key[7].iova = side->host.base;
    FUZZ_CHECK(roce_mw_create(side->r, FAKERNIC_MW_TYPE_1, 1, 1,
                              &side->key[6].key) == FAKERNIC_CMD_OK);
    FUZZ_CHECK(roce_mw_create(side->r, FAKERNIC_MW_TYPE_2B, 2, 1,
                              &side->key[7].key) == FAKERNIC_CMD_OK);
}

static void world_add_gids(Side *side, uint8_t number)
{
    static const RoceGid gids[WORLD_GIDS] = {
        { FAKERNIC_GID_IPV4, FAKERNIC_VLAN_NONE, { 2, 0, 0, 0, 0, 0 },
          { [10] = 0xff, 0xff, 10, 0, 0, 0 } },
        { FAKERNIC_GID_IPV6, FAKERNIC_VLAN_NONE, { 2, 0, 0, 0, 0, 0 },
          { 0xfe, 0x80 } },
        { FAKERNIC_GID_IPV6, 5, { 2, 0, 0, 0, 1, 0 }, { 0xfd } },
    };
    uint16_t i;

    for (i = 0; i < WORLD_GIDS; i++) {
        side->gid[i] = gids[i];
        side->gid[i].mac[5] = side->gid[i].gid[15] = number;
        FUZZ_CHECK(roce_gid_set(side->r, i, &side->gid[i]) ==
                   FAKERNIC_CMD_OK);
    }
}

/* ---- life ---------------------------------------------------------------- */

static void world_configure(WorldConfig *config, const FuzzRecord *first)
{
    static const uint32_t psns[] = { 0, 0xfffffe, 0x7fffff, 0xfffff0 };
    static const uint8_t timeouts[] = { 14, 0, 1, 31 };

    config->mtu = (uint8_t)(FAKERNIC_MTU_256 + first->a % 5);
    config->psn = psns[first->b % 4];
    config->timeout = timeouts[first->b >> 2 & 3];
    config->retry_cnt = first->b >> 4 & 7;
    config->rnr_retry = first->c & 7;
    config->min_rnr_timer = first->c >> 3 & 31;
    config->max_rd_atomic = 1 + (first->c >> 8 & 3);
    config->dcqcn = first->b >> 7;
    config->paging = first->c >> 10 & 3;
}

RoceLimits world_limits(const WorldConfig *config)
{
    return (RoceLimits) {
        .max_qp = HOST_QPS,
        .max_mr = 32,
        .max_pd = 4,
        .max_mcast_groups = 4,
        .max_odp_chunks = 2,
        .gid_count = WORLD_GIDS + 1,
        .max_sends = 8,
        .max_rd_atomic = 4,
        .dcqcn = config->dcqcn,
        .link_kbps = config->dcqcn ? 10000000 : 0,
    };
}

Roce *world_engine(Host *host, const WorldConfig *config)
{
    const RoceLimits limits = world_limits(config);
    Roce *r = roce_new(&limits, &fuzz_host_ops, host);

    FUZZ_CHECK(r != NULL);
    return r;
}

static void world_init_side(World *w, Side *side, uint8_t number)
{
    Slot slot;

    host_init(&side->host, 0x10000000ull * number);
    side->host.srq_xrcdn[WORLD_XRC_SRQ] = WORLD_XRCD;
    side->host.xrc_pd = 1;
    side->host.xrc_cqn = 50;
    side->r = world_engine(&side->host, &w->config);
    world_add_gids(side, number);
    world_add_keys(side);
    for (slot = 0; slot < SLOTS; slot++) {
        side->qpn[slot] = 0;
        world_create(w, side, slot);
    }
}

void world_init(World *w, const FuzzRecord *first)
{
    uint8_t i;
    Slot slot;

    world_configure(&w->config, first);
    w->now = 1000000;
    for (i = 0; i < WORLD_SIDES; i++) {
        world_init_side(w, &w->side[i], i + 1);
    }
    for (i = 0; i < WORLD_SIDES; i++) {
        Side *side = &w->side[i];

        for (slot = 0; slot < SLOTS; slot++) {
            while (world_advance(w, side, slot)) {
            }
        }
        roce_mcast_attach(side->r, world_group[0], side->qpn[SLOT_UD_SRQ]);
        roce_mcast_attach(side->r, world_group[1], side->qpn[SLOT_UD]);
    }
}

void world_answer(Side *side, RocePages state, bool all)
{
    HostWant wants[HOST_WANTS];
    uint32_t count = side->host.wants, i;

    if (count == 0) {
        return;
    }
    /* Each answer may cause more requests of the engine. */
    memcpy(wants, side->host.want, sizeof(wants));
    side->host.wants = 0;
    for (i = 0; i < count; i++) {
        uint64_t in_page = wants[i].address % HOST_PAGE;
        int status;

        if (i > 0 && !all) {
            if (side->host.wants < HOST_WANTS) {
                side->host.want[side->host.wants++] = wants[i];
            }
            continue;
        }
        status = host_update_pages(
            &side->host, side->r, wants[i].key, wants[i].address - in_page,
            (uint32_t)((in_page + wants[i].length - 1) / HOST_PAGE + 1),
            state == ROCE_PAGES_WRITABLE && !wants[i].write
                ? ROCE_PAGES_READABLE : state);
        /* After the end of a key no QP waits for its pages. */
        side->host.want_lost |= state == ROCE_PAGES_ABSENT ||
                                (status != FAKERNIC_CMD_OK &&
                                 status != FAKERNIC_CMD_BAD_ID);
    }
    roce_page_requests_resume(side->r);
}

void world_free(World *w)
{
    unsigned i;

    for (i = 0; i < WORLD_SIDES; i++) {
        roce_free(w->side[i].r);
        host_cleanup(&w->side[i].host);
    }
}
