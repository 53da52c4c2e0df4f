/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of the fuzz target "guest". Each has the structure of its opcode,
 * mostly numbers of existing objects, and values from the record. The patch
 * makes commands malformed: it flips any bits.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "guest.h"

/* A page list: a range, or tables whose contents the fuzzer chooses. */
static struct fakernic_page_list make_pages(Nic *n, const FuzzRecord *r)
{
    bool tables = r->f & 1;

    return (struct fakernic_page_list) {
        .address = LE64(nic_page(n, tables ? PAGE_TABLES + (r->f >> 1 & 3)
                                           : PAGE_DATA + (r->f >> 1 & 31))),
        .page_count = LE32(1 + (r->f >> 8 & 0xff)),
        .page_shift = FAKERNIC_PAGE_SHIFT + (r->f >> 16 & 1),
        .levels = tables ? 1 + (r->f >> 17) % 3 : 0,
    };
}

static void command_create_eq(Guest *g, Nic *n, const FuzzRecord *r)
{
    Queue q;
    struct fakernic_create_eq_req req = {
        .pages = nic_queue(n, &q, r->d, 4 + r->c % 3, 4),
        .log_depth = 4 + r->c % 3,
        .vector = LE16(r->b % 34),
        .async = r->b >> 7,
    };

    nic_create(g, n, KIND_EQ, FAKERNIC_CMD_CREATE_EQ, &req, sizeof(req));
}

static void command_cq(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    Queue q;
    uint8_t log_depth = 1 + r->c % 6;
    struct fakernic_create_cq_req create = {
        .pages = nic_queue(n, &q, r->d, log_depth, 6),
        .log_depth = log_depth,
        .flags = r->b >> 7,
        .uar = LE32(r->b & 64 ? nic_pick(n, KIND_UAR, r->e >> 8 & 0xff) : 0),
        .eqn = LE32(nic_pick(n, KIND_EQ, r->e & 0xff)),
    };
    struct fakernic_resize_cq_req resize = {
        .pages = create.pages,
        .cqn = LE32(nic_pick(n, KIND_CQ, r->e & 0xff)),
        .log_depth = log_depth,
    };
    struct fakernic_modify_cq_req modify = {
        .cqn = resize.cqn,
        .count = LE16(r->c),
        .period_us = LE16(r->d),
    };

    switch (opcode) {
    case FAKERNIC_CMD_CREATE_CQ:
        nic_create(g, n, KIND_CQ, opcode, &create, sizeof(create));
        break;
    case FAKERNIC_CMD_RESIZE_CQ:
        nic_command(g, n, opcode, &resize, sizeof(resize), NULL, 0);
        break;
    default:
        nic_command(g, n, opcode, &modify, sizeof(modify), NULL, 0);
        break;
    }
}

static void command_mr(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    struct fakernic_create_mr_req create = {
        .iova = LE64(r->g),
        .length = LE64(r->h),
        .pages = make_pages(n, r),
        .pdn = LE32(nic_pick(n, KIND_PD, r->e & 0xff)),
        .access = LE32(r->e >> 8 & 0x3ff),
        .type = 1 + r->b % 6,
        .tag = r->c,
    };
    struct fakernic_rereg_mr_req rereg = {
        .iova = create.iova,
        .length = create.length,
        .pages = create.pages,
        .pdn = create.pdn,
        .access = create.access,
        .key = LE32(nic_pick(n, KIND_KEY, r->c & 0xff)),
        .mask = LE32(r->b % 8),
    };

    if (r->d & 1) {
        /* A length that fits in the pages. */
        create.length = rereg.length = LE64(1 + (r->h & 0xffff) %
                        (le32_to_cpu(create.pages.page_count) <<
                         create.pages.page_shift));
        create.iova = rereg.iova = LE64(r->g & ~0xfffULL);
    }
    if (opcode == FAKERNIC_CMD_REREG_MR) {
        struct fakernic_id id;

        nic_command(g, n, opcode, &rereg, sizeof(rereg), &id, sizeof(id));
        return;
    }
    if (create.type == FAKERNIC_MR_FAST_REG) {
        create.max_pages = LE32(r->d >> 1 & 0x3ff);
    }
    if (create.type == FAKERNIC_MR_DMA || create.type == FAKERNIC_MR_NULL ||
        create.type == FAKERNIC_MR_FAST_REG) {
        create.iova = create.length = 0;
        memset(&create.pages, 0, sizeof(create.pages));
    }
    if (create.type == FAKERNIC_MR_ON_DEMAND) {
        create.access |= LE32(FAKERNIC_ACCESS_ON_DEMAND);
        create.pages = (struct fakernic_page_list) {
            .page_shift = create.pages.page_shift,
        };
        if (r->f & 1) {
            create.iova = 0;
            create.length = LE64(UINT64_MAX);
        }
    }
    if (create.type == FAKERNIC_MR_DM) {
        /* Of device memory, page_list.address is the offset. */
        create.pages.address = LE64((r->f >> 1 & 7) * FAKERNIC_PAGE_SIZE);
        create.pages.page_shift = FAKERNIC_PAGE_SHIFT;
        create.pages.levels = 0;
        create.length = LE64(r->h % (le32_to_cpu(create.pages.page_count) *
                                     FAKERNIC_PAGE_SIZE + 1));
    }
    nic_create(g, n, KIND_KEY, opcode, &create, sizeof(create));
}

static void command_mw(Guest *g, Nic *n, const FuzzRecord *r)
{
    struct fakernic_create_mw_req req = {
        .pdn = LE32(nic_pick(n, KIND_PD, r->e & 0xff)),
        .type = r->b % 4,
        .tag = r->c,
    };

    nic_create(g, n, KIND_KEY, FAKERNIC_CMD_CREATE_MW, &req, sizeof(req));
}

static void command_create_qp(Guest *g, Nic *n, const FuzzRecord *r)
{
    uint32_t at = n->ids[KIND_QP] % IDS;
    NicQp *qp = &n->qp[at];
    uint8_t type = 1 + r->b % 7;
    bool sq = type != FAKERNIC_QP_XRC_TGT;
    bool both = type < FAKERNIC_QP_XRC_INI;
    bool srq = both && r->b & 64;
    uint8_t sq_log = r->c % 6, rq_log = r->c >> 4 & 3;
    uint32_t uar = r->b & 128 ? nic_pick(n, KIND_UAR, r->e >> 24) : 0;
    struct fakernic_create_qp_req req = {
        .type = type,
        .sq_log_depth = sq ? sq_log : FAKERNIC_QUEUE_NONE,
        .rq_log_depth = both && !srq ? rq_log : FAKERNIC_QUEUE_NONE,
        .rq_log_stride = both && !srq ? RQ_LOG_STRIDE : 0,
        .pdn = LE32(sq ? nic_pick(n, KIND_PD, r->e & 0xff) : 0),
        .send_cqn = LE32(sq ? nic_pick(n, KIND_CQ, r->e >> 8 & 0xff) : 0),
        .recv_cqn = LE32(both ? nic_pick(n, KIND_CQ, r->e >> 8 & 0xff) : 0),
        .srqn = LE32(srq ? nic_pick(n, KIND_SRQ, r->e >> 16 & 0xff) : 0),
        .xrcdn = LE32(sq ? 0 : nic_pick(n, KIND_XRCD, r->e >> 16 & 0xff)),
        .uar = LE32(sq ? uar : 0),
        .flags = type == FAKERNIC_QP_UD && r->c & 64
                     ? FAKERNIC_QP_BLOCK_MCAST_LB : 0,
    };
    Queue send = { 0 }, recv = { 0 };

    if (sq) {
        req.sq_pages = nic_queue(n, &send, r->d, sq_log, FAKERNIC_SQ_BB_SHIFT);
    }
    if (both && !srq) {
        req.rq_pages = nic_queue(n, &recv, r->d >> 8, rq_log, RQ_LOG_STRIDE);
    }
    if (nic_create(g, n, KIND_QP, FAKERNIC_CMD_CREATE_QP, &req,
                   sizeof(req))) {
        *qp = (NicQp) { .type = type, .sq = send, .rq = recv, .uar = uar };
    }
}

static void command_modify_qp(Guest *g, Nic *n, const FuzzRecord *r)
{
    static const uint32_t masks[] = {
        FAKERNIC_QP_ATTR_STATE,
        FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_CUR_STATE,
        FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_SQD_ASYNC_NOTIFY,
        FAKERNIC_QP_ATTR_RATE_LIMIT,
        FAKERNIC_QP_ATTR_ALT_PATH | FAKERNIC_QP_ATTR_PATH_MIG_STATE,
        FAKERNIC_QP_ATTR_AV | FAKERNIC_QP_ATTR_MAX_RD_ATOMIC,
        FAKERNIC_QP_ATTR_TIMEOUT | FAKERNIC_QP_ATTR_MIN_RNR_TIMER,
    };
    struct fakernic_modify_qp_req req = {
        .qpn = LE32(nic_pick(n, KIND_QP, r->where)),
        .mask = LE32(r->c & 0x8000 ? r->e : masks[r->c % ARRAY_SIZE(masks)]),
        .attr = {
            .state = r->b % 8,
            .cur_state = r->b >> 3 & 7,
            .path_mtu = r->d % 7,
            .path_mig_state = r->d >> 3 & 3,
            .qkey = LE32(NIC_QKEY),
            .rq_psn = LE32(r->f & 0xffffff),
            .sq_psn = LE32(r->f >> 8),
            .dest_qpn = LE32(nic_pick(n, KIND_QP, r->f & 0xff)),
            .access_flags = LE32(r->f & 0x3ff),
            .port = 1,
            .alt_port = 1,
            .max_rd_atomic = r->g & 127,
            .max_dest_rd_atomic = r->g >> 8 & 31,
            .min_rnr_timer = r->g >> 16 & 31,
            .timeout = r->g >> 24 & 31,
            .retry_cnt = r->g >> 32 & 7,
            .rnr_retry = r->g >> 40 & 7,
            .alt_timeout = r->g >> 48 & 31,
            .sqd_async_notify = r->g >> 56 & 1,
            .rate_limit_kbps = LE32(r->h),
            .av.sgid_index = LE16(r->d >> 6 & 1),
            .av.static_rate = r->d >> 7 & 31,
            .alt_av.sgid_index = LE16(r->d >> 12 & 1),
        },
    };

    if (r->d & 0x40) {
        req.attr.av.dgid[0] = 0xfd;
    } else {
        req.attr.av.dgid[10] = req.attr.av.dgid[11] = 0xff;
    }
    req.attr.alt_av.dgid[0] = r->d & 0x1000 ? 0xfd : 0;
    nic_command(g, n, FAKERNIC_CMD_MODIFY_QP, &req, sizeof(req), NULL, 0);
}

static void command_srq(Guest *g, Nic *n, uint16_t opcode,
                        const FuzzRecord *r)
{
    uint32_t at = r->where % IDS;
    uint8_t log_depth = r->c % 6;
    Queue q;
    struct fakernic_page_list pages = nic_queue(n, &q, r->d, log_depth,
                                                RQ_LOG_STRIDE);
    struct fakernic_create_srq_req create = {
        .pages = pages,
        .log_depth = log_depth,
        .log_stride = RQ_LOG_STRIDE,
        .pdn = LE32(nic_pick(n, KIND_PD, r->e & 0xff)),
        .xrcdn = LE32(r->b & 1 ? nic_pick(n, KIND_XRCD, r->e >> 8 & 255) : 0),
        .cqn = LE32(r->b & 1 ? nic_pick(n, KIND_CQ, r->e >> 16 & 255) : 0),
        .limit = LE32(r->f & 7),
    };
    struct fakernic_modify_srq_req modify = {
        .srqn = LE32(nic_pick(n, KIND_SRQ, at)),
        .mask = 1 + r->b % 3,
    };

    if (opcode == FAKERNIC_CMD_CREATE_SRQ) {
        at = n->ids[KIND_SRQ] % IDS;
        if (nic_create(g, n, KIND_SRQ, opcode, &create, sizeof(create))) {
            n->srq[at] = q;
        }
        return;
    }
    if (modify.mask & FAKERNIC_SRQ_LIMIT) {
        modify.limit = LE32(r->f & 31);
    }
    if (modify.mask & FAKERNIC_SRQ_RESIZE) {
        modify.pages = pages;
        modify.log_depth = log_depth;
        /* The new ring's record must have the producer index first. */
        q.index = n->srq[at].index;
        stl_le_p(nic_bytes(n, q.address + (uint64_t)q.depth * q.entry, 4),
                 q.index + (r->f >> 31));
    }
    if (nic_command(g, n, opcode, &modify, sizeof(modify), NULL, 0) ==
        FAKERNIC_CMD_OK && modify.mask & FAKERNIC_SRQ_RESIZE) {
        n->srq[at] = q;
    }
}

static void command_port(Guest *g, Nic *n, uint16_t opcode,
                         const FuzzRecord *r)
{
    struct fakernic_set_port_req port = {
        .mask = LE32(r->b % 32),
        .mtu = LE32(r->f % 9100),
        .qpn = LE32(nic_pick(n, KIND_QP, r->e & 0xff)),
        .filter = r->c & 7,
        .vlan_strip = r->c >> 3 & 1,
        .mac = { 2, 0, 0, 0, 0, n->number },
    };
    struct fakernic_query_stats_req stats = {
        .address = LE64(nic_page(n, PAGE_DATA) + (r->d & ~7)),
        .length = LE32(8 * r->c),
    };
    struct fakernic_set_gid_req gid = {
        .index = LE16(r->b % 5),
        .type = r->c % 4,
        .vlan = LE16(r->d & 1 ? r->d >> 1 : FAKERNIC_VLAN_NONE),
        .mac = { 2, 0, 0, 0, 0, n->number },
        .gid = { [15] = n->number },
    };

    switch (opcode) {
    case FAKERNIC_CMD_SET_PORT:
        nic_command(g, n, opcode, &port, sizeof(port), NULL, 0);
        break;
    case FAKERNIC_CMD_QUERY_STATS:
        nic_command(g, n, opcode, &stats, sizeof(stats), NULL, 0);
        break;
    default:
        if (gid.type == FAKERNIC_GID_IPV4) {
            gid.gid[10] = gid.gid[11] = 0xff;
            gid.gid[12] = 10;
        } else {
            gid.gid[0] = 0xfd;
        }
        nic_command(g, n, opcode, &gid, sizeof(gid), NULL, 0);
        break;
    }
}

static void command_mcast(Guest *g, Nic *n, uint16_t opcode,
                          const FuzzRecord *r)
{
    struct fakernic_mcast_req req = {
        .gid = { 0xff, 0x0e, [15] = r->b & 3 },
        .qpn = LE32(nic_pick(n, KIND_QP, r->e & 0xff)),
    };

    nic_command(g, n, opcode, &req, sizeof(req), NULL, 0);
}

/* A rule for frames of step_frame(): few fields, which often match. */
static void command_flow(Guest *g, Nic *n, uint16_t opcode,
                         const FuzzRecord *r)
{
    struct fakernic_create_flow_req req = {
        .qpn = LE32(r->c & 1 ? 0 : nic_pick(n, KIND_QP, r->e & 0xff)),
        .type = r->b & 3,
    };
    struct fakernic_flow_match *value = &req.value, *mask = &req.mask;

    if (req.type == FAKERNIC_FLOW_NORMAL) {
        req.priority = LE16(r->d & 3);
        req.flags = r->c & 3;
        req.layers = LE32(r->b >> 3 & 31);
        if (r->f & 1) {
            memset(mask->dmac, 0xff, sizeof(mask->dmac));
            value->dmac[0] = 2;
            value->dmac[5] = n->number;
        }
        if (r->f & 2) {
            mask->dst_port = LE16(0xffff);
            value->dst_port = LE16(r->g);
        }
        if (r->f & 4) {
            memset(mask->src_ip + 12, 0xff, 4);
            stl_le_p(value->src_ip + 12, r->h);
        }
        if (r->f & 8) {
            mask->protocol = 0xff;
            value->protocol = r->f & 16 ? 6 : 17;
        }
        if (r->f & 32) {
            mask->vlan = LE16(0xfff);
            value->vlan = LE16(r->g & 0xfff);
        }
        if (r->f & 64) {
            mask->tos = mask->ttl = r->g >> 16;
        }
    }
    nic_create(g, n, KIND_FLOW, opcode, &req, sizeof(req));
}

static void command_counter(Guest *g, Nic *n, uint16_t opcode,
                            const FuzzRecord *r)
{
    uint32_t id = r->b & 1 ? 0 : nic_pick(n, KIND_COUNTER, r->e >> 8 & 0xff);
    struct fakernic_set_qp_counter_req set = {
        .qpn = LE32(nic_pick(n, KIND_QP, r->e & 0xff)), .id = LE32(id),
    };
    struct fakernic_query_counter_req query = {
        .address = LE64(nic_page(n, PAGE_DATA) + (r->d & ~7)),
        .length = LE32(8 * r->c),
        .id = LE32(id),
    };

    switch (opcode) {
    case FAKERNIC_CMD_CREATE_COUNTER:
        nic_create(g, n, KIND_COUNTER, opcode, NULL, 0);
        break;
    case FAKERNIC_CMD_SET_QP_COUNTER:
        nic_command(g, n, opcode, &set, sizeof(set), NULL, 0);
        break;
    default:
        nic_command(g, n, opcode, &query, sizeof(query), NULL, 0);
        break;
    }
}

/* Commands with one number, and those without parameters. */
static void command_id(Guest *g, Nic *n, uint16_t opcode, Kind kind,
                       const FuzzRecord *r)
{
    struct fakernic_id req = { .id = LE32(nic_pick(n, kind, r->e & 0xff)) };

    nic_command(g, n, opcode, &req, sizeof(req), NULL, 0);
}

/* For other opcodes the following records are the request. */
static void command_raw(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    uint8_t payload[FAKERNIC_CMD_PAYLOAD] = { 0 };
    FuzzRecord next;

    for (unsigned i = 0; i < r->b % 4 && fuzz_next(&g->input, &next); i++) {
        memcpy(payload + i * sizeof(next), &next, sizeof(next));
    }
    if (r->c & 1) {
        stl_le_p(payload, nic_pick(n, r->e % KINDS, r->e >> 8 & 0xff));
    }
    nic_create(g, n, KIND_OTHER, opcode, payload, sizeof(payload));
}

static Kind command_kind(uint16_t opcode)
{
    switch (opcode) {
    case FAKERNIC_CMD_DESTROY_EQ:
        return KIND_EQ;
    case FAKERNIC_CMD_DESTROY_CQ:
        return KIND_CQ;
    case FAKERNIC_CMD_DEALLOC_PD:
        return KIND_PD;
    case FAKERNIC_CMD_DEALLOC_XRCD:
        return KIND_XRCD;
    case FAKERNIC_CMD_DEALLOC_UAR:
        return KIND_UAR;
    case FAKERNIC_CMD_DESTROY_MR:
    case FAKERNIC_CMD_DESTROY_MW:
        return KIND_KEY;
    case FAKERNIC_CMD_DESTROY_QP:
    case FAKERNIC_CMD_QUERY_QP:
        return KIND_QP;
    case FAKERNIC_CMD_DESTROY_SRQ:
    case FAKERNIC_CMD_QUERY_SRQ:
        return KIND_SRQ;
    case FAKERNIC_CMD_DESTROY_FLOW:
        return KIND_FLOW;
    case FAKERNIC_CMD_DESTROY_COUNTER:
        return KIND_COUNTER;
    case FAKERNIC_CMD_DESTROY_WQ:
        return KIND_WQ;
    case FAKERNIC_CMD_DESTROY_IND_TABLE:
        return KIND_TABLE;
    default:
        return KIND_OTHER;
    }
}

void step_command(Guest *g, Nic *n, const FuzzRecord *r)
{
    uint16_t opcode = r->a < 0xf0 ? r->a % FAKERNIC_CMD_SET_VPORT
                                  : FAKERNIC_CMD_SET_VPORT + r->a % 4;

    switch (opcode) {
    case FAKERNIC_CMD_SET_PORT:
    case FAKERNIC_CMD_QUERY_STATS:
    case FAKERNIC_CMD_SET_GID:
        command_port(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_CREATE_EQ:
        command_create_eq(g, n, r);
        break;
    case FAKERNIC_CMD_CREATE_CQ:
    case FAKERNIC_CMD_RESIZE_CQ:
    case FAKERNIC_CMD_MODIFY_CQ:
        command_cq(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_ALLOC_PD:
        nic_create(g, n, KIND_PD, opcode, NULL, 0);
        break;
    case FAKERNIC_CMD_ALLOC_XRCD:
        nic_create(g, n, KIND_XRCD, opcode, NULL, 0);
        break;
    case FAKERNIC_CMD_ALLOC_UAR:
        nic_create(g, n, KIND_UAR, opcode, NULL, 0);
        break;
    case FAKERNIC_CMD_CREATE_MR:
    case FAKERNIC_CMD_REREG_MR:
        command_mr(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_CREATE_MW:
        command_mw(g, n, r);
        break;
    case FAKERNIC_CMD_CREATE_QP:
        command_create_qp(g, n, r);
        break;
    case FAKERNIC_CMD_MODIFY_QP:
        command_modify_qp(g, n, r);
        break;
    case FAKERNIC_CMD_CREATE_SRQ:
    case FAKERNIC_CMD_MODIFY_SRQ:
        command_srq(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_ATTACH_MCAST:
    case FAKERNIC_CMD_DETACH_MCAST:
        command_mcast(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_CREATE_FLOW:
        command_flow(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_CREATE_WQ:
    case FAKERNIC_CMD_MODIFY_WQ:
    case FAKERNIC_CMD_CREATE_IND_TABLE:
    case FAKERNIC_CMD_CREATE_RSS_QP:
        command_wq(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_QUERY_PAGE_REQUESTS:
    case FAKERNIC_CMD_UPDATE_PAGES:
        command_paging(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_CREATE_COUNTER:
    case FAKERNIC_CMD_SET_QP_COUNTER:
    case FAKERNIC_CMD_QUERY_COUNTER:
        command_counter(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_FAULT:
    case FAKERNIC_CMD_DUMP:
        command_inside(g, n, opcode, r);
        break;
    case FAKERNIC_CMD_SET_VPORT:
    case FAKERNIC_CMD_QUERY_VPORT:
    case FAKERNIC_CMD_QUERY_VPORT_STATS:
    case FAKERNIC_CMD_RESET_VPORT:
        command_vport(g, n, opcode, r);
        break;
    default:
        if (command_kind(opcode) != KIND_OTHER) {
            command_id(g, n, opcode, command_kind(opcode), r);
        } else {
            command_raw(g, n, opcode, r);
        }
        break;
    }
}
