/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of a driver in the fuzz target "guest": see guest.h. */
#include "qemu/osdep.h"
#include "block/aio.h"
#include "qemu/bswap.h"
#include "qemu/main-loop.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "guest.h"

/* ---- registers and doorbells --------------------------------------------- */

uint32_t reg_read(Nic *n, uint32_t reg)
{
    uint32_t value = 0;

    address_space_read(&address_space_memory, n->regs + reg,
                       MEMTXATTRS_UNSPECIFIED, &value, sizeof(value));
    return le32_to_cpu(value);
}

void reg_write(Nic *n, uint32_t reg, uint32_t value)
{
    value = cpu_to_le32(value);
    address_space_write(&address_space_memory, n->regs + reg,
                        MEMTXATTRS_UNSPECIFIED, &value, sizeof(value));
}

void nic_ring(Nic *n, uint32_t uar, unsigned place, uint64_t word)
{
    word = cpu_to_le64(word);
    address_space_write(&address_space_memory,
                        n->uar + (uint64_t)uar * FAKERNIC_PAGE_SIZE + place,
                        MEMTXATTRS_UNSPECIFIED, &word, sizeof(word));
}

/* ---- bring-up and commands ----------------------------------------------- */

/* The largest number of turns of a reset. */
#define NIC_RESET_TRIES 10000

/* STATUS without the bit for fault rules, which stays set after a rule. */
static uint32_t nic_status(Nic *n)
{
    return reg_read(n, FAKERNIC_REG_STATUS) & ~FAKERNIC_STATUS_FAULTS;
}

void nic_restart(Nic *n)
{
    nic_forget_rules(n);
    reg_write(n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
    GUEST_CHECK(reg_read(n, FAKERNIC_REG_MAGIC) == FAKERNIC_MAGIC);
    for (unsigned tries = 0; tries < NIC_RESET_TRIES; tries++) {
        if (nic_status(n) == FAKERNIC_STATUS_READY) {
            break;
        }
        aio_poll(qemu_get_aio_context(), false);
    }
    GUEST_CHECK(nic_status(n) == FAKERNIC_STATUS_READY);
    n->cmd_pi = 0;
    memset(n->id, 0, sizeof(n->id));
    memset(n->ids, 0, sizeof(n->ids));
}

/* Choice 0 enables all features; each other choice omits one. */
void nic_enable(Nic *n, uint8_t features_choice)
{
    n->features = reg_read(n, FAKERNIC_REG_FEATURES_LO) |
                  (uint64_t)reg_read(n, FAKERNIC_REG_FEATURES_HI) << 32;
    if (features_choice) {
        n->features &= ~(1ULL << features_choice % 33);
    }
    reg_write(n, FAKERNIC_REG_DRIVER_FEATURES_LO, n->features);
    reg_write(n, FAKERNIC_REG_DRIVER_FEATURES_HI, n->features >> 32);
    reg_write(n, FAKERNIC_REG_CMDQ_SQ_LO, nic_page(n, PAGE_CMD_SQ));
    reg_write(n, FAKERNIC_REG_CMDQ_CQ_LO, nic_page(n, PAGE_CMD_CQ));
    reg_write(n, FAKERNIC_REG_CMDQ_LOG_DEPTH, CMD_LOG_DEPTH);
    reg_write(n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    n->cmd_pi = 0;
}

int nic_command(Guest *g, Nic *n, uint16_t opcode, const void *request,
                size_t len, void *response, size_t response_len)
{
    const uint32_t place = n->cmd_pi & ((1U << CMD_LOG_DEPTH) - 1);
    struct fakernic_cmd *cmd = nic_bytes(n, nic_page(n, PAGE_CMD_SQ) +
                                         place * sizeof(*cmd), sizeof(*cmd));
    struct fakernic_cmd_completion *done =
        nic_bytes(n, nic_page(n, PAGE_CMD_CQ) + place * sizeof(*done),
                  sizeof(*done));
    uint8_t owner = !((n->cmd_pi >> CMD_LOG_DEPTH) & 1);
    unsigned tries = 8;

    memset(cmd, 0, sizeof(*cmd));
    cmd->opcode = LE16(opcode);
    cmd->cookie = LE32(n->cmd_pi);
    if (len) {
        memcpy(cmd->payload, request, len);
    }
    guest_patch(g, cmd, sizeof(*cmd));
    done->owner = !owner;
    reg_write(n, FAKERNIC_REG_CMDQ_DOORBELL, ++n->cmd_pi);
    /* The device may do other work first, but not for long. */
    while ((done->owner & 1) != owner && tries--) {
        guest_settle();
    }
    if ((done->owner & 1) != owner || le32_to_cpu(done->cookie) !=
                                          n->cmd_pi - 1) {
        /* A doorbell of the fuzzer may have changed the index. */
        return -1;
    }
    if (response && done->status == FAKERNIC_CMD_OK) {
        memcpy(response, done->payload, response_len);
    }
    return done->status;
}

uint32_t nic_create(Guest *g, Nic *n, Kind kind, uint16_t opcode,
                    const void *request, size_t len)
{
    struct fakernic_id id;

    if (nic_command(g, n, opcode, request, len, &id, sizeof(id)) !=
        FAKERNIC_CMD_OK) {
        return 0;
    }
    n->id[kind][n->ids[kind]++ % IDS] = le32_to_cpu(id.id);
    return le32_to_cpu(id.id);
}

uint32_t nic_pick(const Nic *n, Kind kind, uint32_t choice)
{
    uint32_t known = MIN(n->ids[kind], IDS);

    if (choice >= 0xf8 || !known) {
        return choice & 7;
    }
    return n->id[kind][choice % known];
}

/* ---- a world ------------------------------------------------------------- */

struct fakernic_page_list nic_queue(Nic *n, Queue *q, unsigned page,
                                    unsigned log_depth, unsigned log_entry)
{
    size_t bytes = (1ULL << (log_depth + log_entry)) +
                   sizeof(struct fakernic_queue_record);
    unsigned pages = MAX(DIV_ROUND_UP(bytes, FAKERNIC_PAGE_SIZE), 1);

    page = PAGE_QUEUES + page % (PAGE_DATA - PAGE_QUEUES);
    *q = (Queue) {
        .address = nic_page(n, page),
        .depth = 1U << log_depth,
        .entry = 1U << log_entry,
    };
    return (struct fakernic_page_list) {
        .address = LE64(q->address),
        .page_count = LE32(pages),
        .page_shift = FAKERNIC_PAGE_SHIFT,
    };
}

static void populate_queues(Guest *g, Nic *n)
{
    Queue q;

    for (unsigned i = 0; i < 2; i++) {
        struct fakernic_create_eq_req eq = {
            .pages = nic_queue(n, &q, i, 4, 4), .log_depth = 4,
            .vector = LE16(i), .async = !i,
        };

        nic_create(g, n, KIND_EQ, FAKERNIC_CMD_CREATE_EQ, &eq, sizeof(eq));
    }
    for (unsigned i = 0; i < 3; i++) {
        struct fakernic_create_cq_req cq = {
            .pages = nic_queue(n, &q, 2 + i, 5, 6), .log_depth = 5,
            .flags = i == 2 ? FAKERNIC_CQ_IGNORE_OVERRUN : 0,
            .eqn = LE32(n->id[KIND_EQ][1]),
        };

        nic_create(g, n, KIND_CQ, FAKERNIC_CMD_CREATE_CQ, &cq, sizeof(cq));
        nic_ring(n, 0, FAKERNIC_DOORBELL_CQ_ARM,
                 FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, n->id[KIND_CQ][i]));
    }
}

static void populate_keys(Guest *g, Nic *n)
{
    const uint32_t rights =
        FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE |
        FAKERNIC_ACCESS_REMOTE_READ | FAKERNIC_ACCESS_REMOTE_ATOMIC |
        FAKERNIC_ACCESS_MW_BIND;
    struct fakernic_create_mr_req mr = {
        .iova = LE64(nic_page(n, PAGE_DATA)),
        .length = LE64(32 * FAKERNIC_PAGE_SIZE),
        .pages = { .address = LE64(nic_page(n, PAGE_DATA)),
                   .page_count = LE32(32),
                   .page_shift = FAKERNIC_PAGE_SHIFT },
        .pdn = LE32(n->id[KIND_PD][0]),
        .access = LE32(rights),
        .type = FAKERNIC_MR_MEMORY,
        .tag = 1,
    };
    struct fakernic_create_mw_req mw = {
        .pdn = LE32(n->id[KIND_PD][0]), .type = FAKERNIC_MW_TYPE_2B, .tag = 9,
    };

    nic_create(g, n, KIND_KEY, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    mr = (struct fakernic_create_mr_req) {
        .pdn = mr.pdn, .access = mr.access, .type = FAKERNIC_MR_FAST_REG,
        .max_pages = LE32(8),
    };
    nic_create(g, n, KIND_KEY, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    nic_create(g, n, KIND_KEY, FAKERNIC_CMD_CREATE_MW, &mw, sizeof(mw));
    mw.type = FAKERNIC_MW_TYPE_1;
    nic_create(g, n, KIND_KEY, FAKERNIC_CMD_CREATE_MW, &mw, sizeof(mw));
    mr = (struct fakernic_create_mr_req) {
        .iova = LE64(nic_page(n, PAGE_DATA)),
        .length = LE64(32 * FAKERNIC_PAGE_SIZE),
        .pages.page_shift = FAKERNIC_PAGE_SHIFT,
        .pdn = mr.pdn,
        .access = LE32((rights & ~FAKERNIC_ACCESS_MW_BIND) |
                       FAKERNIC_ACCESS_ON_DEMAND),
        .type = FAKERNIC_MR_ON_DEMAND,
    };
    nic_create(g, n, KIND_KEY, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
}

static void populate_port(Guest *g, Nic *n)
{
    struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(4200),
    };

    nic_command(g, n, FAKERNIC_CMD_SET_PORT, &port, sizeof(port), NULL, 0);
    for (unsigned i = 0; i < 2; i++) {
        struct fakernic_set_gid_req gid = {
            .index = LE16(i),
            .type = i ? FAKERNIC_GID_IPV6 : FAKERNIC_GID_IPV4,
            .vlan = LE16(FAKERNIC_VLAN_NONE),
            .mac = { 2, 0, 0, 0, 0, n->number },
        };

        if (i) {
            gid.gid[0] = 0xfd;
        } else {
            gid.gid[10] = gid.gid[11] = 0xff;
            gid.gid[12] = 10;
        }
        gid.gid[15] = n->number;
        nic_command(g, n, FAKERNIC_CMD_SET_GID, &gid, sizeof(gid), NULL, 0);
    }
}

/* A basic SRQ, and an XRC SRQ if the device offers it. */
static void populate_srqs(Guest *g, Nic *n)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t at = n->ids[KIND_SRQ];
        struct fakernic_create_srq_req srq = {
            .pages = nic_queue(n, &n->srq[at], 8 + i, QUEUE_LOG_DEPTH,
                               RQ_LOG_STRIDE),
            .log_depth = QUEUE_LOG_DEPTH,
            .log_stride = RQ_LOG_STRIDE,
            .pdn = LE32(n->id[KIND_PD][0]),
            .xrcdn = i ? LE32(n->id[KIND_XRCD][0]) : 0,
            .cqn = i ? LE32(n->id[KIND_CQ][0]) : 0,
        };

        if (!i || n->ids[KIND_XRCD]) {
            nic_create(g, n, KIND_SRQ, FAKERNIC_CMD_CREATE_SRQ, &srq,
                       sizeof(srq));
        }
    }
}

static const struct {
    uint8_t type;
    bool srq;
} populate_types[] = {
    { FAKERNIC_QP_RC, false }, { FAKERNIC_QP_RC, true },
    { FAKERNIC_QP_UC, false }, { FAKERNIC_QP_UD, false },
    { FAKERNIC_QP_GSI, false }, { FAKERNIC_QP_RAW_PACKET, false },
    { FAKERNIC_QP_XRC_INI, false }, { FAKERNIC_QP_XRC_TGT, false },
};

static void populate_qp(Guest *g, Nic *n, unsigned i)
{
    const uint8_t type = populate_types[i].type;
    const bool sq = type != FAKERNIC_QP_XRC_TGT;
    const bool rq = type < FAKERNIC_QP_XRC_INI && !populate_types[i].srq;
    const uint32_t at = n->ids[KIND_QP] % IDS;
    NicQp *qp = &n->qp[at];
    struct fakernic_create_qp_req req = {
        .type = type,
        .sq_log_depth = sq ? QUEUE_LOG_DEPTH : FAKERNIC_QUEUE_NONE,
        .rq_log_depth = rq ? QUEUE_LOG_DEPTH : FAKERNIC_QUEUE_NONE,
        .rq_log_stride = rq ? RQ_LOG_STRIDE : 0,
        .pdn = sq ? LE32(n->id[KIND_PD][0]) : 0,
        .send_cqn = sq ? LE32(n->id[KIND_CQ][i % 2]) : 0,
        .recv_cqn = type < FAKERNIC_QP_XRC_INI ? LE32(n->id[KIND_CQ][0]) : 0,
        .srqn = populate_types[i].srq ? LE32(n->id[KIND_SRQ][0]) : 0,
        .xrcdn = sq ? 0 : LE32(n->id[KIND_XRCD][0]),
    };

    memset(qp, 0, sizeof(*qp));
    qp->type = type;
    if (sq) {
        req.sq_pages = nic_queue(n, &qp->sq, 16 + 2 * i, QUEUE_LOG_DEPTH,
                                 FAKERNIC_SQ_BB_SHIFT);
    }
    if (rq) {
        req.rq_pages = nic_queue(n, &qp->rq, 17 + 2 * i, QUEUE_LOG_DEPTH,
                                 RQ_LOG_STRIDE);
    }
    nic_create(g, n, KIND_QP, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
}

static int qp_state(Guest *g, Nic *n, unsigned at)
{
    struct fakernic_id id = { .id = LE32(n->id[KIND_QP][at]) };
    struct fakernic_qp_attr attr;

    return nic_command(g, n, FAKERNIC_CMD_QUERY_QP, &id, sizeof(id), &attr,
                       sizeof(attr)) == FAKERNIC_CMD_OK ? attr.state : -1;
}

void guest_populate(Guest *g)
{
    for (unsigned i = 0; i < NICS; i++) {
        Nic *n = &g->nic[i];

        populate_port(g, n);
        populate_queues(g, n);
        nic_create(g, n, KIND_PD, FAKERNIC_CMD_ALLOC_PD, NULL, 0);
        nic_create(g, n, KIND_UAR, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
        nic_create(g, n, KIND_XRCD, FAKERNIC_CMD_ALLOC_XRCD, NULL, 0);
        populate_keys(g, n);
        populate_srqs(g, n);
        for (unsigned q = 0; q < ARRAY_SIZE(populate_types); q++) {
            populate_qp(g, n, q);
        }
        GUEST_CHECK(g->features_choice ||
                    n->ids[KIND_QP] == ARRAY_SIZE(populate_types));
    }
    for (unsigned i = 0; i < NICS; i++) {
        Nic *n = &g->nic[i];

        for (unsigned at = 0; at < MIN(n->ids[KIND_QP], IDS); at++) {
            for (unsigned state = 0; state < 3; state++) {
                guest_advance(g, n, at);
            }
            /* The fuzzer needs QPs that really are in RTS. */
            GUEST_CHECK(g->features_choice ||
                        qp_state(g, n, at) == FAKERNIC_QPS_RTS);
        }
        populate_rss(g, n);
    }
}

/* ---- QPs to RTS ---------------------------------------------------------- */

#define A(name) FAKERNIC_QP_ATTR_ ## name

/* The attributes that a transition needs (IBTA 11.2.5.2). */
static uint32_t advance_mask(uint8_t type, uint8_t to)
{
    const uint32_t path = A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN);
    const uint32_t responder = A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER);
    const uint32_t requester = A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_RD_ATOMIC);
    const bool reliable = type == FAKERNIC_QP_RC ||
                          type >= FAKERNIC_QP_XRC_INI;
    const bool connected = reliable || type == FAKERNIC_QP_UC;
    const bool raw = type == FAKERNIC_QP_RAW_PACKET;
    uint32_t mask = A(STATE);

    switch (to) {
    case FAKERNIC_QPS_INIT:
        mask |= A(PORT) | (raw ? 0 : A(PKEY_INDEX));
        mask |= connected ? A(ACCESS_FLAGS) : raw ? 0 : A(QKEY);
        break;
    case FAKERNIC_QPS_RTR:
        mask |= connected ? path : 0;
        mask |= reliable && type != FAKERNIC_QP_XRC_INI ? responder : 0;
        break;
    default:
        mask |= raw ? 0 : A(SQ_PSN);
        mask |= reliable ? A(TIMEOUT) : 0;
        mask |= reliable && type != FAKERNIC_QP_XRC_TGT ? requester : 0;
        break;
    }
    return mask;
}

void guest_advance(Guest *g, Nic *n, unsigned at)
{
    Nic *peer = &g->nic[n == &g->nic[0]];
    uint8_t type = n->qp[at].type;
    /* An XRC initiator's peer is the target behind it, and vice versa. */
    unsigned other = type == FAKERNIC_QP_XRC_INI ? at + 1 :
                     type == FAKERNIC_QP_XRC_TGT && at ? at - 1 : at;
    bool ipv6 = qp_is_ipv6(at);
    struct fakernic_id id = { .id = LE32(n->id[KIND_QP][at]) };
    struct fakernic_modify_qp_req req = { .qpn = id.id };
    struct fakernic_qp_attr now;

    if (nic_command(g, n, FAKERNIC_CMD_QUERY_QP, &id, sizeof(id), &now,
                    sizeof(now)) != FAKERNIC_CMD_OK ||
        now.state >= FAKERNIC_QPS_RTS) {
        return;
    }
    req.mask = LE32(advance_mask(type, now.state + 1));
    req.attr = (struct fakernic_qp_attr) {
        .state = now.state + 1,
        .path_mtu = FAKERNIC_MTU_1024,
        .qkey = LE32(NIC_QKEY),
        .rq_psn = LE32(0xfffffe),
        .sq_psn = LE32(0xfffffe),
        .dest_qpn = LE32(peer->id[KIND_QP][other % IDS]),
        .access_flags = LE32(FAKERNIC_ACCESS_REMOTE_WRITE |
                             FAKERNIC_ACCESS_REMOTE_READ |
                             FAKERNIC_ACCESS_REMOTE_ATOMIC),
        .port = 1,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 1,
        .timeout = 4,
        .retry_cnt = 3,
        .rnr_retry = 3,
        .av = {
            .sgid_index = LE16(ipv6),
            .dmac = { 2, 0, 0, 0, 0, peer->number },
        },
    };
    if (ipv6) {
        req.attr.av.dgid[0] = 0xfd;
    } else {
        req.attr.av.dgid[10] = req.attr.av.dgid[11] = 0xff;
        req.attr.av.dgid[12] = 10;
    }
    req.attr.av.dgid[15] = peer->number;
    nic_command(g, n, FAKERNIC_CMD_MODIFY_QP, &req, sizeof(req), NULL, 0);
}
