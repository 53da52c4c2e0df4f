/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work queues, indirection tables and RSS QPs in the fuzz target "guest": see
 * guest.h.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "fakernic/wq.h"
#include "guest.h"

static void create_wq(Guest *g, Nic *n, unsigned page, uint8_t log_depth,
                      uint32_t pdn, uint32_t cqn, uint8_t type)
{
    unsigned at = n->ids[KIND_WQ] % IDS;
    Queue q;
    struct fakernic_create_wq_req req = {
        .pages = nic_queue(n, &q, page, log_depth, RQ_LOG_STRIDE),
        .type = type,
        .log_depth = log_depth,
        .log_stride = RQ_LOG_STRIDE,
        .pdn = LE32(pdn),
        .cqn = LE32(cqn),
    };

    if (nic_create(g, n, KIND_WQ, FAKERNIC_CMD_CREATE_WQ, &req, sizeof(req))) {
        n->wq[at] = q;
    }
}

static void modify_wq(Guest *g, Nic *n, uint32_t wqn, uint8_t state)
{
    struct fakernic_modify_wq_req req = { .wqn = LE32(wqn), .state = state };

    nic_command(g, n, FAKERNIC_CMD_MODIFY_WQ, &req, sizeof(req), NULL, 0);
    for (unsigned at = 0; state == FAKERNIC_WQS_RESET && at < IDS; at++) {
        if (n->id[KIND_WQ][at] == wqn && n->wq[at].address) {
            n->wq[at].index = 0;
        }
    }
}

/* The table lists the existing WQs in turn; one entry is 'wqn'. */
static void create_table(Guest *g, Nic *n, uint8_t log_size, uint32_t entry,
                         uint32_t wqn)
{
    const uint64_t address = nic_page(n, PAGE_TABLES);
    struct fakernic_create_ind_table_req req = {
        .address = LE64(address), .log_size = log_size,
    };

    for (uint32_t i = 0; i < 1U << MIN(log_size, 8); i++) {
        stl_le_p(nic_bytes(n, address + 4 * i, 4),
                 i == entry ? wqn : nic_pick(n, KIND_WQ, i % 0xf8));
    }
    nic_create(g, n, KIND_TABLE, FAKERNIC_CMD_CREATE_IND_TABLE, &req,
               sizeof(req));
}

static void create_rss_qp(Guest *g, Nic *n, uint32_t pdn, uint32_t table,
                          uint32_t fields, uint64_t key)
{
    unsigned at = n->ids[KIND_QP] % IDS;
    struct fakernic_create_rss_qp_req req = {
        .pdn = LE32(pdn),
        .table = LE32(table),
        .hash_fields = LE32(fields),
        .hash_function = FAKERNIC_HASH_TOEPLITZ,
    };

    for (unsigned i = 0; i < sizeof(req.key); i++) {
        req.key[i] = key >> 8 * (i % 8);
    }
    if (nic_create(g, n, KIND_QP, FAKERNIC_CMD_CREATE_RSS_QP, &req,
                   sizeof(req))) {
        n->qp[at] = (NicQp) { .type = FAKERNIC_QP_RAW_PACKET };
    }
}

void command_wq(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    switch (opcode) {
    case FAKERNIC_CMD_CREATE_WQ:
        create_wq(g, n, r->d, r->c % 6, nic_pick(n, KIND_PD, r->e & 0xff),
                  nic_pick(n, KIND_CQ, r->e >> 8 & 0xff), r->b >> 7);
        break;
    case FAKERNIC_CMD_MODIFY_WQ:
        modify_wq(g, n, nic_pick(n, KIND_WQ, r->e & 0xff), r->b % 4);
        break;
    case FAKERNIC_CMD_CREATE_IND_TABLE:
        create_table(g, n, r->b % 9, r->c, nic_pick(n, KIND_WQ, r->e & 0xff));
        break;
    default:
        create_rss_qp(g, n, nic_pick(n, KIND_PD, r->e & 0xff),
                      nic_pick(n, KIND_TABLE, r->e >> 8 & 0xff),
                      r->b & 1 ? r->f & 0xff : r->f, r->g);
        break;
    }
}

void populate_rss(Guest *g, Nic *n)
{
    struct fakernic_create_flow_req rule = {
        .type = FAKERNIC_FLOW_ALL_DEFAULT,
    };

    for (unsigned i = 0; i < 2; i++) {
        create_wq(g, n, 40 + i, QUEUE_LOG_DEPTH, n->id[KIND_PD][0],
                  n->id[KIND_CQ][i], FAKERNIC_WQT_RQ);
        modify_wq(g, n, n->id[KIND_WQ][i], FAKERNIC_WQS_RDY);
    }
    create_table(g, n, 3, UINT32_MAX, 0);
    create_rss_qp(g, n, n->id[KIND_PD][0], n->id[KIND_TABLE][0],
                  FAKERNIC_HASH_FIELDS, 0x6d5a56da255b0ec2);
    /* For frames that match no other rule. */
    rule.qpn = LE32(n->id[KIND_QP][(n->ids[KIND_QP] - 1) % IDS]);
    nic_create(g, n, KIND_FLOW, FAKERNIC_CMD_CREATE_FLOW, &rule, sizeof(rule));
}
