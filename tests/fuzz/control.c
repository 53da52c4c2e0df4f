/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's part in the target "frames": work requests, and changes of QPs,
 * keys, GIDs and groups while frames are in flight.
 */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

/* ---- work requests ------------------------------------------------------- */

/* A key of the side, mostly a valid one. */
static const WorldKey *control_key(const Side *side, unsigned choice)
{
    static const uint8_t often[] = { 0, 0, 0, 0, 0, 1, 2, 3, 3, 4, 5 };

    return choice < 128 ? &side->key[often[choice % sizeof(often)]]
                        : &side->key[choice % WORLD_KEYS];
}

/* Lengths at the edges of packets, and any others. */
static uint32_t control_length(const Frames *f, uint16_t choice)
{
    uint32_t mtu = 128u << f->w.config.mtu;

    switch (choice & 7) {
    case 0:
        return 8;
    case 1:
        return mtu;
    case 2:
        return 2 * mtu + 1;
    case 3:
        return 0;
    case 4:
        return 5 * mtu;
    default:
        return (choice >> 3) * (choice & 1 ? 1u : 8u);
    }
}

static uint8_t control_sges(const Frames *f, const Side *side, RoceSge *sge,
                            const FuzzRecord *r)
{
    uint8_t count = r->where & 64 ? (uint8_t)(r->e % 5) : 1;
    uint32_t total = control_length(f, r->d);
    uint8_t i;

    for (i = 0; i < count; i++) {
        const WorldKey *key = control_key(side, r->e >> 8 & 0xff);

        sge[i].lkey = key->key ^ (r->e >> 16 == 0xffff);
        sge[i].address = key->iova + (r->g >> 32) % HOST_MEMORY + i * 64;
        sge[i].length = i + 1 == count ? total : total / count;
        total -= sge[i].length;
    }
    return count;
}

static void control_reg_mr(const Side *side, RoceSendWr *wr,
                           const FuzzRecord *r)
{
    uint32_t count = 1 + r->f % 6;

    wr->reg_mr.iova = side->host.base + (r->g & 0xfff);
    wr->reg_mr.length = r->d + 1u;
    wr->reg_mr.key = side->key[2].key + (r->e & 1);
    wr->reg_mr.access = r->f >> 8 & 0x3f;
    wr->reg_mr.page_count = count;
    wr->reg_mr.page_shift = FAKERNIC_PAGE_SHIFT;
    wr->reg_mr.pages = world_pages(side, r->f >> 16, count);
}

static void control_bind(Side *side, RoceSendWr *wr, const FuzzRecord *r)
{
    WorldKey *mw = &side->key[6 + (r->e & 1)];

    wr->bind_mw.address = side->host.base + (r->g & 0xffff);
    wr->bind_mw.length = r->d;
    wr->bind_mw.mw_key = mw->key;
    wr->bind_mw.new_key = (mw->key & ~0xffu) | ((mw->key + 1) & 0xff);
    wr->bind_mw.mr_key = side->key[r->e >> 8 & 1].key;
    wr->bind_mw.access = r->f & 0x2f;
    if (r->e & 2) {
        /* The bind may fail. Then the harness uses a wrong key. */
        mw->key = wr->bind_mw.new_key;
    }
}

/* The fields of a WR by its opcode; wr->sge is filled in. */
static void control_segment(Frames *f, Side *side, Slot slot, RoceSendWr *wr,
                            const FuzzRecord *r)
{
    Slot to = slot;
    Side *peer = world_peer(&f->w, side, &to);
    const WorldKey *key = control_key(peer, r->e & 0xff);
    uint64_t remote = key->iova + (r->g & 0xffffffff) % HOST_MEMORY;
    uint8_t type = world_type(slot);

    if (wr->opcode <= FAKERNIC_SQ_SEND_INV &&
        (type == FAKERNIC_QP_UD || type == FAKERNIC_QP_GSI)) {
        wr->ud.av = world_av(&f->w, side, slot);
        wr->ud.dest_qpn = peer->qpn[to];
        wr->ud.qkey = r->f & 1 ? 0x80000000u
                      : type == FAKERNIC_QP_GSI ? 0x80010000u
                                                : WORLD_QKEY;
        if (r->f & 2) {
            memcpy(wr->ud.av.dgid, world_group[wr->ud.av.sgid_index == 0], 16);
            wr->ud.dest_qpn = FAKERNIC_QPN_MULTICAST;
        } else if (r->f & 4) {
            wr->ud.av.sgid_index = r->f >> 8;
        } else if (r->f & 8) {
            memcpy(wr->ud.av.dgid, side->gid[wr->ud.av.sgid_index].gid, 16);
        }
    } else if (wr->opcode == FAKERNIC_SQ_REG_MR) {
        control_reg_mr(side, wr, r);
    } else if (wr->opcode == FAKERNIC_SQ_BIND_MW) {
        control_bind(side, wr, r);
    } else if (wr->opcode >= FAKERNIC_SQ_ATOMIC_CMP_SWAP &&
               wr->opcode <= FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD) {
        wr->atomic.remote_address = r->f & 1 ? remote : remote & ~7ull;
        wr->atomic.rkey = key->key;
        wr->atomic.swap_or_add = r->h;
        wr->atomic.compare = r->h & 0xff;
        wr->atomic.swap_mask_or_boundary = r->h << 8;
        wr->atomic.compare_mask = r->h >> 8;
    } else {
        wr->rdma.remote_address = wr->opcode == FAKERNIC_SQ_ATOMIC_WRITE
                                      ? remote & ~7ull : remote;
        wr->rdma.rkey = key->key;
        wr->rdma.flush = r->f & 0x13;
    }
}

/* a: opcode; b: flags; d: length; e: keys, SGEs; f, g, h: by opcode. */
static void step_send(Frames *f, Side *side, Slot slot, const FuzzRecord *r)
{
    RoceSendWr wr;

    memset(&wr, 0, offsetof(RoceSendWr, inline_data));
    wr.opcode = 1 + r->a % FAKERNIC_SQ_NOP;
    wr.flags = r->b & (FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_SOLICITED |
                       FAKERNIC_SQ_FENCE);
    wr.imm_or_key = wr.opcode == FAKERNIC_SQ_SEND_IMM ||
                            wr.opcode == FAKERNIC_SQ_RDMA_WRITE_IMM
                        ? r->f : control_key(side, r->e & 0xff)->key;
    if (slot == SLOT_RAW && wr.opcode == FAKERNIC_SQ_SEND) {
        wr.mss = r->f & 0xffff;
        wr.flags |= r->b & (FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM |
                            FAKERNIC_SQ_VLAN);
    }
    wr.xrc_srqn = slot == SLOT_XRC_INI ? WORLD_XRC_SRQ ^ (r->b >> 7) : 0;
    if (r->b & 16 && (wr.opcode <= FAKERNIC_SQ_RDMA_WRITE_IMM ||
                      wr.opcode == FAKERNIC_SQ_ATOMIC_WRITE)) {
        wr.flags |= FAKERNIC_SQ_INLINE;
        wr.inline_length = r->d % (FAKERNIC_INLINE_MAX + 1);
        memset(wr.inline_data, (int)r->g, wr.inline_length);
    } else if (wr.opcode <= FAKERNIC_SQ_FLUSH) {
        wr.sge_count = control_sges(f, side, wr.sge, r);
    }
    if ((r->b & 96) == 96) {
        wr.format_error = FAKERNIC_VENDOR_SQ_FORMAT;
    } else {
        control_segment(f, side, slot, &wr, r);
    }
    if (!host_post_send(&side->host, side->qpn[slot], &wr)) {
        if (wr.opcode == FAKERNIC_SQ_REG_MR && !wr.format_error) {
            free(wr.reg_mr.pages);
        }
        return;
    }
    f->raw_sent |= slot == SLOT_RAW;
    if (!(r->b & 8)) {
        roce_post_send(side->r, f->w.now, side->qpn[slot]);
    }
}

static void step_recv(Frames *f, Side *side, Slot slot, const FuzzRecord *r)
{
    RoceRecvWr wr = { .format_error = (r->b & 96) == 96
                                          ? FAKERNIC_VENDOR_RQ_FORMAT : 0 };
    unsigned i, count = 1 + r->b % 4u;

    wr.sge_count = control_sges(f, side, wr.sge, r);
    for (i = 0; i < count; i++) {
        switch (r->a % 4u) {
        case 0:
            host_post_srq(&side->host, WORLD_SRQ, &wr);
            break;
        case 1:
            host_post_srq(&side->host, WORLD_XRC_SRQ, &wr);
            break;
        default:
            host_post_recv(&side->host, side->qpn[slot], &wr);
            break;
        }
    }
}

/* ---- QPs ----------------------------------------------------------------- */

static void control_attributes(Frames *f, Side *side, Slot slot,
                               const FuzzRecord *r)
{
    RoceQpAttr attr = {
        .state = (uint8_t)(r->b % 8),
        .cur_state = (uint8_t)(r->b >> 3 & 7),
        .path_mtu = (uint8_t)(r->d % 7),
        .path_mig_state = (uint8_t)(r->d >> 3 & 3),
        .qkey = WORLD_QKEY,
        .rq_psn = r->f & 0x1ffffff,
        .sq_psn = r->f >> 8,
        .dest_qpn = r->f & 0x1f,
        .access_flags = r->c,
        .pkey_index = r->d >> 15,
        .port = 1,
        .alt_port = 1,
        .max_rd_atomic = r->d >> 5 & 7,
        .max_dest_rd_atomic = r->d >> 8 & 7,
        .min_rnr_timer = (uint8_t)(r->g & 63),
        .timeout = (uint8_t)(r->g >> 8 & 63),
        .retry_cnt = (uint8_t)(r->g >> 16 & 15),
        .rnr_retry = (uint8_t)(r->g >> 24 & 15),
        .alt_timeout = (uint8_t)(r->g >> 32 & 63),
        .sqd_async_notify = (uint8_t)(r->g >> 40 & 1),
        .rate_limit_kbps = (uint32_t)r->h,
        .av = world_av(&f->w, side, slot),
        .alt_av = world_av(&f->w, side, SLOT_UC_VLAN),
    };
    uint32_t bad;

    attr.av.static_rate = (uint8_t)(r->g >> 48);
    if (roce_qp_modify(side->r, f->w.now, side->qpn[slot], r->e, &attr,
                       &bad) == FAKERNIC_CMD_OK &&
        r->e & FAKERNIC_QP_ATTR_STATE && attr.state == FAKERNIC_QPS_RESET) {
        host_qp_forget(&side->host, side->qpn[slot], false);
    }
}

/* Loads the IPv6 path as the alternate one and asks to rearm; or migrates. */
static void control_migration(Frames *f, Side *side, Slot slot, bool rearm)
{
    Slot to = slot;
    Side *peer = world_peer(&f->w, side, &to);
    RoceQpAttr attr = {
        .alt_av = world_av(&f->w, side, slot),
        .alt_port = 1,
        .alt_timeout = f->w.config.timeout,
        .path_mig_state = rearm ? FAKERNIC_MIG_REARM : FAKERNIC_MIG_MIGRATED,
    };
    uint32_t mask = FAKERNIC_QP_ATTR_PATH_MIG_STATE, bad;

    attr.alt_av.sgid_index = 1;
    memcpy(attr.alt_av.dgid, peer->gid[1].gid, sizeof(attr.alt_av.dgid));
    if (rearm) {
        mask |= FAKERNIC_QP_ATTR_ALT_PATH;
    }
    roce_qp_modify(side->r, f->w.now, side->qpn[slot], mask, &attr, &bad);
}

static void step_qp(Frames *f, Side *side, Slot slot, const FuzzRecord *r)
{
    switch (r->a % 16u) {
    case 0:
        world_destroy(&f->w, side, slot);
        break;
    case 1:
        world_create(&f->w, side, slot);
        break;
    case 2:
        world_to_state(&f->w, side, slot, FAKERNIC_QPS_RESET);
        break;
    case 3:
        world_to_state(&f->w, side, slot, FAKERNIC_QPS_ERR);
        break;
    case 4:
        world_to_state(&f->w, side, slot, FAKERNIC_QPS_SQD);
        break;
    case 5:
        world_to_state(&f->w, side, slot, FAKERNIC_QPS_RTS);
        break;
    case 6:
        roce_qp_error(side->r, f->w.now, side->qpn[slot],
                      FAKERNIC_VENDOR_CQ_OVERRUN);
        break;
    case 7:
    case 8:
        while (world_advance(&f->w, side, slot)) {
        }
        break;
    case 9:
        world_advance(&f->w, side, slot);
        break;
    case 10:
    case 11:
        control_migration(f, side, slot, true);
        if (r->b & 1) {
            control_migration(f, world_peer(&f->w, side, &slot), slot, true);
        }
        break;
    case 12:
        control_migration(f, side, slot, false);
        break;
    case 13:
        roce_qp_set_counters(side->r, side->qpn[slot],
                             r->b & 1 ? side->host.counters : NULL);
        break;
    default:
        control_attributes(f, side, slot, r);
        break;
    }
}

/* ---- keys ---------------------------------------------------------------- */

static void control_create_mr(Side *side, WorldKey *key, const FuzzRecord *r)
{
    RoceMrInit init = {
        .type = (uint8_t)(1 + r->b % 7),
        .tag = (uint8_t)r->c,
        .page_shift = r->c & 0x100 ? (uint8_t)r->f : FAKERNIC_PAGE_SHIFT,
        .pd = 1 + (r->c >> 9 & 1),
        .access = r->e,
    };

    if (init.type == FAKERNIC_MR_DM) {
        init.page_shift = FAKERNIC_PAGE_SHIFT;
        init.page_count = 1 + r->d % 2;
        init.iova = r->g & 0xffff;
        init.length = r->h % (2 * HOST_PAGE + 2);
        init.pages = world_pages(side, 0, 2);
        init.pages[0] = ROCE_ADDRESS_DM;
        init.pages[1] = ROCE_ADDRESS_DM | HOST_PAGE;
    } else if (init.type == FAKERNIC_MR_MEMORY) {
        init.page_count = 1 + r->d % 8;
        init.iova = r->g;
        init.length = 1 + r->h % (init.page_count * HOST_PAGE + 1);
        init.pages = world_pages(side, r->f >> 8,
                                 r->c & 0x400 ? 1 : init.page_count);
        if (r->c & 0x400) {
            init.page_count = 1;
        }
        if (r->c & 0x100) {
            /* Pages larger than the memory reach outside of it. */
            side->host.unguarded = true;
        }
    } else if (init.type == FAKERNIC_MR_FAST_REG) {
        init.page_count = r->d % 8;
    } else if (init.type == FAKERNIC_MR_DMA) {
        side->host.unguarded = true;
    } else if (init.type == FAKERNIC_MR_ON_DEMAND) {
        init.access |= FAKERNIC_ACCESS_ON_DEMAND;
        init.iova = r->g;
        init.length = r->h;
    }
    if (roce_mr_create(side->r, &init, &key->key) == FAKERNIC_CMD_OK) {
        key->iova = init.access & FAKERNIC_ACCESS_ZERO_BASED ? 0 : init.iova;
    } else {
        free(init.pages);
    }
}

static void control_rereg(Side *side, WorldKey *key, const FuzzRecord *r)
{
    RoceMrInit init = {
        .page_shift = FAKERNIC_PAGE_SHIFT,
        .pd = 1 + (r->c & 1),
        .access = r->e,
        .page_count = 1 + r->d % 4,
        .iova = r->g,
        .length = 1 + r->h % (4 * HOST_PAGE),
    };
    uint32_t mask = r->b & 7;

    if (mask & FAKERNIC_REREG_TRANSLATION) {
        init.pages = world_pages(side, r->f, init.page_count);
    } else {
        /* Read-only pages must not become writable. */
        init.access &= FAKERNIC_ACCESS_REMOTE_READ | FAKERNIC_ACCESS_MW_BIND |
                       FAKERNIC_ACCESS_ON_DEMAND | FAKERNIC_ACCESS_ZERO_BASED;
        init.page_count = 0;
    }
    if (roce_mr_rereg(side->r, mask, &init, &key->key) != FAKERNIC_CMD_OK) {
        free(init.pages);
    }
}

/* The host reports pages, with or without a request. */
static void control_pages(Side *side, const FuzzRecord *r)
{
    static const RocePages states[] = {
        ROCE_PAGES_WRITABLE, ROCE_PAGES_READABLE, ROCE_PAGES_ABSENT,
        ROCE_PAGES_REFUSED,
    };
    const RocePages state = states[r->b & 3];
    const WorldKey *key = r->b & 128 ? &side->key[r->where % WORLD_KEYS]
                                     : &side->key[8 + (r->b >> 6 & 1)];
    uint64_t address = (key->iova & -(uint64_t)HOST_PAGE) +
                       (r->f % 16) * HOST_PAGE;
    uint32_t count = 1 + r->d % 12u;

    switch (r->b >> 2 & 7) {
    case 0:
    case 1:
        world_answer(side, state, false);
        return;
    case 2:
        world_answer(side, state, true);
        return;
    case 3:
        /* Other chunks of the whole address space. */
        address += (uint64_t)(r->e & 7) << 21;
        break;
    case 4:
        address += r->g;
        count = (uint32_t)r->h;
        break;
    default:
        break;
    }
    host_update_pages(&side->host, side->r, key->key, address, count, state);
}

static void step_key(Side *side, const FuzzRecord *r)
{
    WorldKey *key = &side->key[r->where % WORLD_KEYS];
    uint32_t created = 0;

    switch (r->a % 8u) {
    case 0:
    case 1:
        if (roce_mr_destroy(side->r, key->key) == FAKERNIC_CMD_OK) {
            host_key_forget(&side->host, key->key);
        }
        break;
    case 2:
        roce_mw_destroy(side->r, key->key);
        break;
    case 3:
        control_rereg(side, key, r);
        break;
    case 4:
        if (roce_mw_create(side->r, (uint8_t)(r->b % 4), (uint8_t)r->c,
                           1 + (r->d & 1), &created) == FAKERNIC_CMD_OK) {
            key->key = created;
            key->iova = side->host.base;
        }
        break;
    case 5:
        if (r->a & 8) {
            roce_pd_users(side->r, r->b % 4u);
        } else {
            control_pages(side, r);
        }
        break;
    default:
        control_create_mr(side, key, r);
        break;
    }
}

/* ---- the port and faults ------------------------------------------------- */

static void step_port(Frames *f, Side *side, Slot slot, const FuzzRecord *r)
{
    RoceGid gid = side->gid[r->b % WORLD_GIDS];
    RoceQpAttr attr;

    switch (r->a % 8u) {
    case 0:
        gid.type = r->c % 5u;
        gid.vlan = r->d;
        roce_gid_set(side->r, r->e % (WORLD_GIDS + 2), &gid);
        break;
    case 1:
        roce_gid_set(side->r, r->b % WORLD_GIDS, &gid);
        break;
    case 2:
        roce_mcast_attach(side->r, world_group[r->b & 1], side->qpn[slot]);
        break;
    case 3:
        roce_mcast_detach(side->r, world_group[r->b & 1], side->qpn[slot]);
        break;
    case 4:
        gid.gid[0] = (uint8_t)r->c;
        gid.gid[15] = (uint8_t)r->d;
        roce_mcast_attach(side->r, gid.gid, side->qpn[slot]);
        break;
    case 5:
        roce_set_port_mtu(side->r, r->c % (WORLD_MTU_MAX + 1));
        break;
    case 6:
        roce_qp_query(side->r, r->e & 0x3f, &attr);
        break;
    default:
        roce_post_send(side->r, f->w.now, side->qpn[slot]);
        break;
    }
}

static void step_fault(Side *side, Slot slot, const FuzzRecord *r)
{
    HostQp *qp = &side->host.qp[side->qpn[slot]];

    switch (r->a % 8u) {
    case 0:
        qp->broken = qp->alive;
        break;
    case 1:
        qp->rq.broken = qp->alive;
        break;
    case 2:
        side->host.srq[WORLD_SRQ].broken = true;
        break;
    case 3:
        side->host.srq_xrcdn[WORLD_XRC_SRQ] = 0;
        break;
    case 4:
    case 5:
        control_pages(side, r);
        break;
    default:
        side->host.fail_dma_in = 1 + r->b % 16u;
        break;
    }
}

void frames_control(Frames *f, Side *side, Slot slot, const FuzzRecord *r)
{
    switch (r->op % 16u) {
    case 9:
    case 10:
        step_send(f, side, slot, r);
        break;
    case 11:
        step_recv(f, side, slot, r);
        break;
    case 12:
        step_qp(f, side, slot, r);
        break;
    case 13:
        step_key(side, r);
        break;
    case 14:
        step_port(f, side, slot, r);
        break;
    default:
        step_fault(side, slot, r);
        break;
    }
}
