/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command queue, and the commands that need no traffic: each command in
 * valid and malformed forms.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

/* ---- command queue --------------------------------------------------- */

static void test_cmdq_wrap(Rig *r)
{
    /* More than four passes: owner bits 1, 0, 1, 0, 1. */
    for (unsigned i = 0; i < 70; i++) {
        uint8_t payload[FAKERNIC_CMD_PAYLOAD], echo[FAKERNIC_CMD_PAYLOAD];

        memset(payload, i + 1, sizeof(payload));
        assert_status(cmd(&r->n, FAKERNIC_CMD_NOP, payload, sizeof(payload),
                          echo, sizeof(echo)),
                      OK);
        g_assert_cmpmem(payload, sizeof(payload), echo, sizeof(echo));
        g_assert_true(msix_fired(&r->n, 0));
    }
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_COMMANDS), ==, 70);
}

/* One doorbell announces a full ring of commands. */
static void test_cmdq_many(Rig *r)
{
    struct fakernic_cmd_completion completion;

    for (unsigned round = 0; round < 3; round++) {
        uint32_t first = r->n.cmd_pi;

        for (unsigned i = 0; i < 16; i++) {
            struct fakernic_cmd request = {
                .opcode = LE16(FAKERNIC_CMD_NOP), .cookie = LE32(r->n.cmd_pi),
            };
            cmd_submit(&r->n, &request);
        }
        cmd_ring(&r->n);
        for (unsigned i = 0; i < 16; i++) {
            cmd_wait(&r->n, first + i, &completion);
            g_assert_cmpuint(le32_to_cpu(completion.cookie), ==, first + i);
            assert_status(completion.status, OK);
        }
    }
}

static void test_cmd_opcodes(Rig *r)
{
    static const uint16_t unknown[] = {
        0, 0x08, 0x0f, 0x12, 0x1c, 0x26, 0x34, 0x42, 0x4a, 0x72, 0xff, 0xffff,
    };
    static const uint16_t set_aside[] = {
        FAKERNIC_CMD_SET_PKEY, FAKERNIC_CMD_RSVD_DM, FAKERNIC_CMD_FAULT,
    };

    for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
        assert_status(cmd(&r->n, unknown[i], NULL, 0, NULL, 0), BAD_OPCODE);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(set_aside); i++) {
        assert_status(cmd(&r->n, set_aside[i], NULL, 0, NULL, 0), UNSUPPORTED);
    }
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_COMMANDS_FAILED), ==,
                     ARRAY_SIZE(unknown) + ARRAY_SIZE(set_aside));
}

/* A command of a feature that the driver has not enabled fails. */
static void test_cmd_feature_not_taken(Rig *r)
{
    static const uint16_t opcodes[] = {
        FAKERNIC_CMD_CREATE_SRQ,
        FAKERNIC_CMD_MODIFY_SRQ,
        FAKERNIC_CMD_CREATE_MW,
        FAKERNIC_CMD_ALLOC_XRCD,
        FAKERNIC_CMD_DEALLOC_XRCD,
        FAKERNIC_CMD_RESIZE_CQ,
        FAKERNIC_CMD_MODIFY_CQ,
        FAKERNIC_CMD_REREG_MR,
        FAKERNIC_CMD_ATTACH_MCAST,
        FAKERNIC_CMD_CREATE_FLOW,
        FAKERNIC_CMD_CREATE_COUNTER,
        FAKERNIC_CMD_QUERY_PAGE_REQUESTS,
        FAKERNIC_CMD_UPDATE_PAGES,
        FAKERNIC_CMD_CREATE_WQ,
        FAKERNIC_CMD_DESTROY_WQ,
        FAKERNIC_CMD_MODIFY_WQ,
        FAKERNIC_CMD_CREATE_IND_TABLE,
        FAKERNIC_CMD_DESTROY_IND_TABLE,
        FAKERNIC_CMD_CREATE_RSS_QP,
        FAKERNIC_CMD_FAULT,
        FAKERNIC_CMD_DUMP,
        FAKERNIC_CMD_SET_VPORT,
        FAKERNIC_CMD_QUERY_VPORT,
        FAKERNIC_CMD_QUERY_VPORT_STATS,
        FAKERNIC_CMD_RESET_VPORT,
    };
    struct fakernic_create_mr_req mr = {
        .length = LE64(4096),
        .pages.page_shift = FAKERNIC_PAGE_SHIFT,
        .access = LE32(FAKERNIC_ACCESS_ON_DEMAND),
        .type = FAKERNIC_MR_ON_DEMAND,
    };
    struct fakernic_create_qp_req qp = {
        .type = FAKERNIC_QP_UD, .flags = FAKERNIC_QP_BLOCK_MCAST_LB,
    };
    uint64_t sq, cq;

    sq = mem_alloc(&r->m, 4096);
    cq = mem_alloc(&r->m, 4096);
    nic_set_features(&r->n, FAKERNIC_FEATURE_RC);
    nic_set_cmdq(&r->n, sq, cq, 4);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    for (unsigned i = 0; i < ARRAY_SIZE(opcodes); i++) {
        assert_status(cmd(&r->n, opcodes[i], NULL, 0, NULL, 0), UNSUPPORTED);
    }
    assert_status(CMD(&r->n, CREATE_MR, mr), UNSUPPORTED);
    /* Without the feature that defines a field, the field must be 0. */
    nic_reset(&r->n);
    nic_set_features(&r->n, FAKERNIC_FEATURE_UD);
    nic_set_cmdq(&r->n, sq, cq, 4);
    reg_write(&r->n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, qp), BAD_PARAM,
                   fakernic_create_qp_req, flags);
}

/* Each command refuses reserved bytes and bytes behind the request. */
static void test_cmd_reserved(Rig *r)
{
    static const struct {
        uint16_t opcode;
        uint8_t size;
        uint8_t rsvd[8];        /* offsets in the request, 0-terminated */
    } commands[] = {
        { FAKERNIC_CMD_QUERY_DEVICE, 0 },
        { FAKERNIC_CMD_QUERY_PORT, 0 },
        { FAKERNIC_CMD_ALLOC_PD, 0 },
        { FAKERNIC_CMD_ALLOC_UAR, 0 },
        { FAKERNIC_CMD_ALLOC_XRCD, 0 },
        { FAKERNIC_CMD_DEALLOC_XRCD, 8, { 4, 7 } },
        { FAKERNIC_CMD_SET_PORT, 28, { 21, 27 } },
        { FAKERNIC_CMD_QUERY_STATS, 16, { 12, 15 } },
        { FAKERNIC_CMD_SET_GID, 32, { 3, 28, 31 } },
        { FAKERNIC_CMD_CREATE_EQ, 24, { 17, 21, 23 } },
        { FAKERNIC_CMD_DESTROY_EQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_CQ, 32, { 18, 19, 28, 31 } },
        { FAKERNIC_CMD_DESTROY_CQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_RESIZE_CQ, 24, { 21, 23 } },
        { FAKERNIC_CMD_MODIFY_CQ, 8 },
        { FAKERNIC_CMD_DEALLOC_PD, 8, { 4, 7 } },
        { FAKERNIC_CMD_DEALLOC_UAR, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_MR, 48, { 42, 43 } },
        { FAKERNIC_CMD_DESTROY_MR, 8, { 4, 7 } },
        { FAKERNIC_CMD_REREG_MR, 48 },
        { FAKERNIC_CMD_CREATE_MW, 8, { 6, 7 } },
        { FAKERNIC_CMD_DESTROY_MW, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_QP, 64, { 61, 63 } },
        { FAKERNIC_CMD_DESTROY_QP, 8, { 4, 7 } },
        { FAKERNIC_CMD_MODIFY_QP, 144, { 47, 86, 87, 91, 126, 131, 132, } },
        { FAKERNIC_CMD_QUERY_QP, 8, { 4, 7 } },
        { FAKERNIC_CMD_CREATE_SRQ, 40, { 18, 19, 36, 39 } },
        { FAKERNIC_CMD_DESTROY_SRQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_MODIFY_SRQ, 32, { 22, 23, 28, 31 } },
        { FAKERNIC_CMD_QUERY_SRQ, 8, { 4, 7 } },
        { FAKERNIC_CMD_ATTACH_MCAST, 24, { 20, 23 } },
        { FAKERNIC_CMD_DETACH_MCAST, 24, { 20, 23 } },
        { FAKERNIC_CMD_CREATE_FLOW, 144, { 12, 15, 75, 79, 139, 143 } },
        { FAKERNIC_CMD_DESTROY_FLOW, 8, { 4, 7 } },
        { FAKERNIC_CMD_QUERY_PAGE_REQUESTS, 0 },
        { FAKERNIC_CMD_DUMP, 24, { 21, 23 } },
        { FAKERNIC_CMD_UPDATE_PAGES, 32 },
        { FAKERNIC_CMD_CREATE_COUNTER, 0 },
        { FAKERNIC_CMD_DESTROY_COUNTER, 8, { 4, 7 } },
        { FAKERNIC_CMD_SET_QP_COUNTER, 8 },
        { FAKERNIC_CMD_QUERY_COUNTER, 16 },
    };

    for (unsigned c = 0; c < ARRAY_SIZE(commands); c++) {
        uint8_t payload[FAKERNIC_CMD_PAYLOAD] = { 0 };

        for (unsigned i = 0; i < 8 && commands[c].rsvd[i]; i++) {
            payload[commands[c].rsvd[i]] = 1;
            assert_status(cmd(&r->n, commands[c].opcode, payload,
                              sizeof(payload), NULL, 0),
                          BAD_RESERVED);
            g_assert_cmpuint(r->n.detail, >=, 16);
            g_assert_cmpuint(r->n.detail, <=, 16 + commands[c].rsvd[i]);
            payload[commands[c].rsvd[i]] = 0;
        }
        for (unsigned i = commands[c].size; i < sizeof(payload);
             i = i == commands[c].size ? sizeof(payload) - 1 : i + 1) {
            payload[i] = 0x80;
            assert_status(cmd(&r->n, commands[c].opcode, payload,
                              sizeof(payload), NULL, 0),
                          BAD_RESERVED);
            g_assert_cmpuint(r->n.detail, ==, 16 + i);
            payload[i] = 0;
        }
    }
}

/* Reserved fields of the request header must be 0. */
static void test_cmd_header_reserved(Rig *r)
{
    struct fakernic_cmd_completion completion;
    struct fakernic_cmd request = {
        .opcode = LE16(FAKERNIC_CMD_NOP), .rsvd = LE16(0x100),
    };

    cmd_submit(&r->n, &request);
    request.rsvd = 0;
    request.rsvd2 = LE64(1ull << 63);
    cmd_submit(&r->n, &request);
    cmd_ring(&r->n);
    cmd_wait(&r->n, 0, &completion);
    assert_status(completion.status, BAD_RESERVED);
    g_assert_cmpuint(le32_to_cpu(completion.detail), ==, 2);
    cmd_wait(&r->n, 1, &completion);
    assert_status(completion.status, BAD_RESERVED);
    g_assert_cmpuint(le32_to_cpu(completion.detail), ==, 8);
}

/* ---- device and port ------------------------------------------------- */

static void test_query_device(Rig *r)
{
    struct fakernic_query_device_resp resp;

    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmphex(le64_to_cpu(resp.node_guid), ==, 0x505400fffe0a0b0cull);
    g_assert_cmpuint(le32_to_cpu(resp.max_qp), >=, 14);
    g_assert_cmpuint(le32_to_cpu(resp.max_cq), ==, 4096);
    g_assert_cmpuint(le32_to_cpu(resp.max_uar), ==, 1024);
    g_assert_cmpuint(le16_to_cpu(resp.gid_count), ==, 256);
    g_assert_cmpuint(le16_to_cpu(resp.pkey_count), ==, 1);
    g_assert_cmpuint(resp.port_count, ==, 1);
    g_assert_cmpuint(resp.max_mtu, ==, FAKERNIC_MTU_4096);
    g_assert_cmpuint(resp.vector_count, ==, FAKERNIC_VECTOR_COUNT);
    g_assert_true(le64_to_cpu(resp.page_sizes) & 1 << 12);
    g_assert_cmpuint(le32_to_cpu(resp.max_inline), <=, FAKERNIC_INLINE_MAX);
    g_assert_cmpuint(le16_to_cpu(resp.max_send_sge), <=, FAKERNIC_SGE_MAX);
}

static void test_port(Rig *r)
{
    struct fakernic_query_port_resp resp;
    struct fakernic_set_port_req good = {
        .mask = LE32(FAKERNIC_PORT_MTU | FAKERNIC_PORT_MAC |
                     FAKERNIC_PORT_FILTER | FAKERNIC_PORT_QPN),
        .mtu = LE32(9000), .filter = FAKERNIC_FILTER_BROADCAST,
        .mac = { 2, 1, 2, 3, 4, 5 },
    };
    struct fakernic_set_port_req req;

    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(resp.link_up, ==, 1);
    g_assert_cmpuint(le32_to_cpu(resp.mtu), ==, 1500);
    g_assert_cmpuint(resp.active_mtu, ==, FAKERNIC_MTU_1024);
    g_assert_cmpmem(resp.mac, 6, nic_mac, 6);
    assert_status(CMD(&r->n, SET_PORT, good), OK);
    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_PORT, NULL, 0, &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.mtu), ==, 9000);
    g_assert_cmpuint(resp.active_mtu, ==, FAKERNIC_MTU_4096);
    g_assert_cmpmem(resp.mac, 6, nic_mac, 6);

#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, SET_PORT, req), code, \
                   fakernic_set_port_req, field)
    BAD(mask, LE32(0x40), BAD_PARAM);
    BAD(mtu, LE32(9001), BAD_PARAM);
    BAD(mtu, LE32(67), BAD_PARAM);
    BAD(mtu, LE32(~0u), BAD_PARAM);
    BAD(filter, 8, BAD_PARAM);
    BAD(qpn, LE32(7), BAD_ID);
    BAD(qpn, LE32(~0u), BAD_ID);
#undef BAD
    req = good;
    req.mac[0] = 1;
    assert_refused(&r->n, CMD(&r->n, SET_PORT, req), BAD_PARAM,
                   fakernic_set_port_req, mac);
    memset(req.mac, 0, 6);
    assert_refused(&r->n, CMD(&r->n, SET_PORT, req), BAD_PARAM,
                   fakernic_set_port_req, mac);
    /* The device ignores fields that the mask does not name. */
    req = (struct fakernic_set_port_req) { .mtu = LE32(1), .filter = 0xff };
    assert_status(CMD(&r->n, SET_PORT, req), OK);
}

static void test_stats(Rig *r)
{
    uint64_t address;
    struct fakernic_query_stats_req req;
    struct fakernic_query_stats_resp resp;

    address = mem_alloc(&r->m, 4096);
    qtest_memset(r->m.qts, address, 0xee, 4096);
    req = (struct fakernic_query_stats_req) { .address = LE64(address) };
    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_STATS, &req, sizeof(req), &resp,
                      sizeof(resp)), OK);
    g_assert_cmpuint(le32_to_cpu(resp.count), ==, FAKERNIC_STAT_COUNT);
    g_assert_cmphex(qtest_readq(r->m.qts, address), ==, 0xeeeeeeeeeeeeeeee);
    req.length = LE32(2 * 8);
    assert_status(CMD(&r->n, QUERY_STATS, req), OK);
    g_assert_cmpuint(qtest_readq(r->m.qts, address + 8), ==, 0);
    g_assert_cmphex(qtest_readq(r->m.qts, address + 16), ==,
                    0xeeeeeeeeeeeeeeee);
    req.length = LE32(4096);
    assert_status(CMD(&r->n, QUERY_STATS, req), OK);
    g_assert_cmphex(qtest_readq(r->m.qts, address + FAKERNIC_STAT_COUNT * 8),
                    ==, 0xeeeeeeeeeeeeeeee);
    req.length = LE32(12);
    assert_refused(&r->n, CMD(&r->n, QUERY_STATS, req), BAD_PARAM,
                   fakernic_query_stats_req, length);
    req.length = LE32(8);
    req.address = LE64(address + 4);
    assert_refused(&r->n, CMD(&r->n, QUERY_STATS, req), BAD_PARAM,
                   fakernic_query_stats_req, address);
    req.address = LE64(1ull << 60);
    assert_status(CMD(&r->n, QUERY_STATS, req), DMA_ERROR);
}

static void test_gid(Rig *r)
{
    struct fakernic_set_gid_req req, good = gid_req(255, own_gid);

    assert_status(CMD(&r->n, SET_GID, good), OK);
#define BAD(field, value) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, SET_GID, req), BAD_PARAM, \
                   fakernic_set_gid_req, field)
    BAD(index, LE16(256));
    BAD(type, 1);
    BAD(type, 4);
    BAD(vlan, LE16(4095));
#undef BAD
    req = good;
    req.type = FAKERNIC_GID_IPV6;
    assert_refused(&r->n, CMD(&r->n, SET_GID, req), BAD_PARAM,
                   fakernic_set_gid_req, gid);
    req = good;
    req.gid[0] = 0xfe;
    assert_refused(&r->n, CMD(&r->n, SET_GID, req), BAD_PARAM,
                   fakernic_set_gid_req, gid);
    req = good;
    req.mac[0] |= 1;
    assert_refused(&r->n, CMD(&r->n, SET_GID, req), BAD_PARAM,
                   fakernic_set_gid_req, mac);
    req.type = FAKERNIC_GID_NONE;
    assert_status(CMD(&r->n, SET_GID, req), OK);
}

/* ---- objects --------------------------------------------------------- */

static void test_pd_uar(Rig *r)
{
    uint32_t pd, other, uar;

    pd = pd_alloc(&r->n);
    other = pd_alloc(&r->n);
    g_assert_cmpuint(pd, !=, 0);
    g_assert_cmpuint(pd, !=, other);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, pd), OK);
    assert_refused(&r->n, cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, pd), BAD_ID,
                   fakernic_id, id);
    assert_refused(&r->n, cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, ~0u), BAD_ID,
                   fakernic_id, id);
    /* The next PD does not get the number that was just freed. */
    g_assert_cmpuint(pd_alloc(&r->n), !=, pd);
    uar = cmd_create(&r->n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    g_assert_cmpuint(uar, >=, 1);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_UAR, uar), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_UAR, uar), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_UAR, 0), BAD_ID);
}

static void test_limits(void)
{
    Machine m;
    Nic n;

    machine_start(&m, "%s,max-pd=2,uars=2,max-cq=1", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    pd_alloc(&n);
    pd_alloc(&n);
    assert_status(cmd(&n, FAKERNIC_CMD_ALLOC_PD, NULL, 0, NULL, 0),
                  NO_RESOURCE);
    cmd_create(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    assert_status(cmd(&n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0, NULL, 0),
                  NO_RESOURCE);
    machine_stop(&m);
}

static void test_eq(Rig *r)
{
    Queue q;
    struct fakernic_create_eq_req req, good = {
        .log_depth = 4, .vector = LE16(32), .async = 1,
    };
    uint32_t eqn;

    good.pages = queue_alloc(&r->n, &q, 4, 4);
#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_EQ, req), code, \
                   fakernic_create_eq_req, field)
    BAD(log_depth, 3, BAD_PARAM);
    BAD(log_depth, 17, BAD_PARAM);
    BAD(vector, LE16(33), BAD_PARAM);
    BAD(async, 2, BAD_PARAM);
#undef BAD
    eqn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_EQ, &good, sizeof(good));
    assert_status(CMD(&r->n, CREATE_EQ, good), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_EQ, eqn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_EQ, eqn), BAD_ID);
    assert_status(CMD(&r->n, CREATE_EQ, good), OK);
}

static void test_cq(Rig *r)
{
    Queue eq, cq;
    struct fakernic_create_cq_req req, good = { .log_depth = 3 };
    uint32_t cqn, uar;

    eq_create(&r->n, &eq, 4, 1, false);
    uar = cmd_create(&r->n, FAKERNIC_CMD_ALLOC_UAR, NULL, 0);
    good.pages = queue_alloc(&r->n, &cq, 3, 6);
    good.eqn = LE32(eq.id);
    good.uar = LE32(uar);
#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_CQ, req), code, \
                   fakernic_create_cq_req, field)
    BAD(log_depth, 0, BAD_PARAM);
    BAD(log_depth, 23, BAD_PARAM);
    BAD(flags, 2, BAD_PARAM);
    BAD(uar, LE32(uar + 1), BAD_ID);
    BAD(uar, LE32(~0u), BAD_ID);
    BAD(eqn, LE32(eq.id + 1), BAD_ID);
    BAD(eqn, 0, BAD_ID);
#undef BAD
    cqn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_CQ, &good, sizeof(good));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_EQ, eq.id), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_UAR, uar), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, cqn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, cqn), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_EQ, eq.id), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_UAR, uar), OK);
}

/* ---- page lists and memory regions ----------------------------------- */

static void test_page_lists(Rig *r)
{
    struct fakernic_create_mr_req req, good;
    uint64_t data, root;
    const uint32_t count = 600;

    data = mem_alloc(&r->m, 4096);
    good = (struct fakernic_create_mr_req) {
        .length = LE64(count * 4096ull),
        .pages = { .address = LE64(data), .page_count = LE32(count),
                   .page_shift = 12 },
        .pdn = LE32(pd_alloc(&r->n)),
        .type = FAKERNIC_MR_MEMORY,
    };
    assert_status(CMD(&r->n, CREATE_MR, good), OK);
#define BAD_LIST(field, value) \
    req = good; \
    req.pages.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), BAD_PAGE_LIST, \
                   fakernic_create_mr_req, pages)
    BAD_LIST(page_count, 0);
    BAD_LIST(page_count, LE32(count - 1));
    BAD_LIST(page_shift, 11);
    BAD_LIST(page_shift, 31);
    BAD_LIST(page_shift, 255);
    BAD_LIST(levels, 4);
    BAD_LIST(rsvd, LE16(1));
    BAD_LIST(address, LE64(data + 8));
    BAD_LIST(address, LE64(-4096ull));  /* wraps */
    /* 600 pages do not fit in one table. */
    BAD_LIST(levels, 1);
#undef BAD_LIST
    /* Two tables of pages under a root, then one more level. */
    for (unsigned levels = 2; levels <= 3; levels++) {
        root = build_tables(&r->m, levels, data, 0, count);
        req = good;
        req.pages.levels = levels;
        req.pages.address = LE64(root);
        assert_status(CMD(&r->n, CREATE_MR, req), OK);
        /* The device does not read more entries than it needs. */
        req.length = LE64(4096);
        assert_status(CMD(&r->n, CREATE_MR, req), OK);
        /* An unaligned entry in the table of the last level. */
        req.pages.address =
            LE64(build_tables(&r->m, levels, data + 8, 0, count));
        assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), BAD_PAGE_LIST,
                       fakernic_create_mr_req, pages);
        /* A table outside of guest memory. */
        qtest_writeq(r->m.qts, root, 1ull << 55);
        req.pages.address = LE64(root);
        assert_status(CMD(&r->n, CREATE_MR, req), DMA_ERROR);
        g_assert_cmpuint(r->n.detail, ==, 0);
        /* A table address that is not aligned. */
        qtest_writeq(r->m.qts, root, data + 0x800);
        assert_status(CMD(&r->n, CREATE_MR, req), BAD_PAGE_LIST);
    }
    /* Levels 1; pages of 2 MiB named by a table of 4 KiB. */
    req = good;
    req.length = LE64(3ull << 21);
    req.pages = (struct fakernic_page_list) {
        .address = LE64(build_tables(&r->m, 1, 1u << 24, 1u << 21, 3)),
        .page_count = LE32(3), .page_shift = 21, .levels = 1,
    };
    assert_status(CMD(&r->n, CREATE_MR, req), OK);
    req.iova = LE64(1);     /* offset 1: one page too few */
    assert_status(CMD(&r->n, CREATE_MR, req), BAD_PAGE_LIST);
}

static void test_mr(Rig *r)
{
    struct fakernic_create_mr_req req, good;
    uint32_t pd, key;
    uint64_t data;

    pd = pd_alloc(&r->n);
    data = mem_alloc(&r->m, 8192);
    good = (struct fakernic_create_mr_req) {
        .iova = LE64(data), .length = LE64(8192),
        .pages = contiguous(data, 8192), .pdn = LE32(pd),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE),
        .type = FAKERNIC_MR_MEMORY, .tag = 0xab,
    };
#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), code, \
                   fakernic_create_mr_req, field)
    BAD(length, 0, BAD_PARAM);
    BAD(length, LE64(~0ull), BAD_PARAM);
    BAD(length, LE64((1ull << 40) + 1), BAD_PARAM);
    BAD(pdn, LE32(pd + 1), BAD_ID);
    BAD(pdn, LE32(~0u), BAD_ID);
    BAD(access, LE32(1u << 30), BAD_PARAM);
    BAD(access, LE32(FAKERNIC_ACCESS_ON_DEMAND), BAD_PARAM);
    BAD(access, LE32(FAKERNIC_ACCESS_REMOTE_WRITE), BAD_PARAM);
    BAD(access, LE32(FAKERNIC_ACCESS_REMOTE_ATOMIC), BAD_PARAM);
    BAD(type, 0, BAD_PARAM);
    BAD(type, 7, BAD_PARAM);
    BAD(max_pages, LE32(1), BAD_PARAM);
#undef BAD
    req = good;
    req.iova = LE64(-4096ull);
    assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, length);
    req = good;
    req.type = FAKERNIC_MR_DMA;
    assert_status(CMD(&r->n, CREATE_MR, req), BAD_PARAM);
    req.iova = req.length = 0;
    assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, pages);
    memset(&req.pages, 0, sizeof(req.pages));
    assert_status(CMD(&r->n, CREATE_MR, req), OK);
    req.type = FAKERNIC_MR_FAST_REG;
    assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), BAD_PARAM,
                   fakernic_create_mr_req, max_pages);
    req.max_pages = LE32(513);
    assert_status(CMD(&r->n, CREATE_MR, req), BAD_PARAM);
    req.max_pages = LE32(512);
    assert_status(CMD(&r->n, CREATE_MR, req), OK);

    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &good, sizeof(good));
    g_assert_cmphex(key & 0xff, ==, 0xab);
    g_assert_cmpuint(key >> 8, !=, 0);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, pd), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    assert_refused(&r->n, cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), BAD_ID,
                   fakernic_id, id);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, 0), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, ~0u), BAD_ID);
}

/* The device limits the total number of pages of all regions. */
static void test_mr_budget(void)
{
    Machine m;
    Nic n;
    uint32_t pd, key;
    uint64_t data;

    machine_start(&m, "%s,max-mr-pages=16", DEVICE);
    nic_find(&n, &m, SLOT);
    nic_bringup(&n);
    pd = pd_alloc(&n);
    data = mem_alloc(&m, 17 * 4096);
    key = mr_create(&n, pd, data, 10 * 4096, 0);
    mr_create(&n, pd, data, 6 * 4096, 0);
    struct fakernic_create_mr_req req = {
        .iova = LE64(data), .length = LE64(4096), .pages = contiguous(data, 1),
        .pdn = LE32(pd), .type = FAKERNIC_MR_MEMORY,
    };
    assert_status(CMD(&n, CREATE_MR, req), NO_RESOURCE);
    assert_status(cmd_id(&n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    mr_create(&n, pd, data, 10 * 4096, 0);
    assert_status(CMD(&n, CREATE_MR, req), NO_RESOURCE);
    machine_stop(&m);
}

static void test_rereg_mw(Rig *r)
{
    uint32_t pd, other, key, mw;
    uint64_t data;
    struct fakernic_rereg_mr_req req;
    struct fakernic_create_mw_req mw_req;

    pd = pd_alloc(&r->n);
    other = pd_alloc(&r->n);
    data = mem_alloc(&r->m, 8192);
    key = mr_create(&r->n, pd, data, 4096, 0);
    req = (struct fakernic_rereg_mr_req) {
        .key = LE32(key), .pdn = LE32(other),
        .mask = LE32(FAKERNIC_REREG_PD),
    };
    key = cmd_create(&r->n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, pd), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, other), BUSY);
    req = (struct fakernic_rereg_mr_req) {
        .key = LE32(key), .iova = LE64(data), .length = LE64(8192),
        .pages = contiguous(data, 8192),
        .mask = LE32(FAKERNIC_REREG_TRANSLATION),
    };
    key = cmd_create(&r->n, FAKERNIC_CMD_REREG_MR, &req, sizeof(req));
    req.key = LE32(key);
    req.pages.page_count = LE32(1);
    assert_status(CMD(&r->n, REREG_MR, req), BAD_PAGE_LIST);
    req.mask = LE32(8);
    assert_refused(&r->n, CMD(&r->n, REREG_MR, req), BAD_PARAM,
                   fakernic_rereg_mr_req, mask);
    req = (struct fakernic_rereg_mr_req) {
        .key = LE32(key + 0x100), .pdn = LE32(other),
        .mask = LE32(FAKERNIC_REREG_PD),
    };
    assert_refused(&r->n, CMD(&r->n, REREG_MR, req), BAD_ID,
                   fakernic_rereg_mr_req, key);
    mw_req = (struct fakernic_create_mw_req) {
        .pdn = LE32(other), .type = FAKERNIC_MW_TYPE_2B, .tag = 0x77,
    };
    mw = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MW, &mw_req, sizeof(mw_req));
    g_assert_cmphex(mw & 0xff, ==, 0x77);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MW, mw), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MW, mw), BAD_ID);
    mw_req.type = 3;
    assert_refused(&r->n, CMD(&r->n, CREATE_MW, mw_req), BAD_PARAM,
                   fakernic_create_mw_req, type);
    mw_req.type = FAKERNIC_MW_TYPE_1;
    mw_req.pdn = LE32(pd);
    assert_refused(&r->n, CMD(&r->n, CREATE_MW, mw_req), BAD_ID,
                   fakernic_create_mw_req, pdn);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, other), OK);
}

/* ---- queue pairs ----------------------------------------------------- */

/* CREATE_QP accepts one flag for a UD QP and none for an RC QP. */
static void check_qp_flags(Nic *n, const struct fakernic_create_qp_req *good)
{
    struct fakernic_create_qp_req req = *good;
    uint32_t qpn;

    req.flags = FAKERNIC_QP_BLOCK_MCAST_LB;
    assert_refused(n, CMD(n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, flags);
    req.type = FAKERNIC_QP_UD;
    req.flags = FAKERNIC_QP_BLOCK_MCAST_LB << 1;
    assert_refused(n, CMD(n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, flags);
    req.flags = FAKERNIC_QP_BLOCK_MCAST_LB;
    qpn = cmd_create(n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
    assert_status(cmd_id(n, FAKERNIC_CMD_DESTROY_QP, qpn), OK);
}

static void test_qp_create(Rig *r)
{
    Queue sq, rq;
    struct fakernic_create_qp_req req, good = {
        .type = FAKERNIC_QP_RC, .sq_log_depth = 2, .rq_log_depth = 2,
        .rq_log_stride = 5,
    };
    uint32_t qpn;

    good.sq_pages = queue_alloc(&r->n, &sq, 2, 6);
    good.rq_pages = queue_alloc(&r->n, &rq, 2, 5);
    good.pdn = LE32(r->s.pd);
    good.send_cqn = good.recv_cqn = LE32(r->s.cq.id);
#define BAD(field, value, code) \
    req = good; \
    req.field = value; \
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), code, \
                   fakernic_create_qp_req, field)
    BAD(type, 0, BAD_PARAM);
    BAD(type, 8, BAD_PARAM);
    BAD(sq_log_depth, 17, BAD_PARAM);
    BAD(rq_log_depth, 17, BAD_PARAM);
    BAD(rq_log_stride, 4, BAD_PARAM);
    BAD(rq_log_stride, 10, BAD_PARAM);
    BAD(pdn, LE32(r->s.pd + 1), BAD_ID);
    BAD(send_cqn, LE32(0), BAD_ID);
    BAD(recv_cqn, LE32(r->s.cq.id + 1), BAD_ID);
    BAD(srqn, LE32(5), BAD_ID);
    BAD(xrcdn, LE32(1), BAD_PARAM);
    BAD(uar, LE32(1), BAD_ID);
#undef BAD
    check_qp_flags(&r->n, &good);
    req = good;
    req.sq_pages.page_count = 0;
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_PAGE_LIST,
                   fakernic_create_qp_req, sq_pages);
    req = good;
    req.rq_pages.levels = 9;
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_PAGE_LIST,
                   fakernic_create_qp_req, rq_pages);
    req = good;
    req.rq_log_depth = FAKERNIC_QUEUE_NONE;
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_log_stride);
    req.rq_log_stride = 0;
    assert_refused(&r->n, CMD(&r->n, CREATE_QP, req), BAD_PARAM,
                   fakernic_create_qp_req, rq_pages);
    req = good;
    req.type = FAKERNIC_QP_GSI;
    g_assert_cmpuint(
        cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req)), ==,
        FAKERNIC_QPN_GSI);
    assert_status(CMD(&r->n, CREATE_QP, req), BUSY);
    qpn = cmd_create(&r->n, FAKERNIC_CMD_CREATE_QP, &good, sizeof(good));
    g_assert_cmpuint(qpn, >, 1);
    g_assert_cmpuint(qp_state(&r->n, qpn), ==, FAKERNIC_QPS_RESET);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DEALLOC_PD, r->s.pd), BUSY);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, qpn), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, qpn), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_QUERY_QP, qpn), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, 0), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, ~0u), BAD_ID);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, FAKERNIC_QPN_GSI), OK);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_CQ, r->s.cq.id), OK);
}

/* MODIFY_QP accepts rates up to the device's limit, and no others. */
static void check_rate_limit(Nic *n, uint32_t qpn)
{
    struct fakernic_query_device_resp dev;
    struct fakernic_modify_qp_req req = {
        .qpn = LE32(qpn),
        .mask = LE32(FAKERNIC_QP_ATTR_RATE_LIMIT),
    };
    uint32_t most;

    assert_status(cmd(n, FAKERNIC_CMD_QUERY_DEVICE, NULL, 0, &dev,
                      sizeof(dev)), OK);
    most = le32_to_cpu(dev.rate_limit_max_kbps);
    req.attr.rate_limit_kbps = LE32(most + 1);
    assert_refused(n, CMD(n, MODIFY_QP, req), BAD_PARAM,
                   fakernic_modify_qp_req, attr.rate_limit_kbps);
    req.attr.rate_limit_kbps = LE32(most);
    assert_status(CMD(n, MODIFY_QP, req), OK);
}

static void test_qp_modify(Rig *r)
{
    Qp a, b;
    struct fakernic_modify_qp_req req = { 0 };
    struct fakernic_qp_attr attr;
    struct fakernic_id id;

    qp_create(&r->n, &a, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    req.qpn = LE32(999);
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, req), BAD_ID,
                   fakernic_modify_qp_req, qpn);
    req.qpn = LE32(a.qpn);
    /* From RESET straight to RTS. */
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE);
    req.attr.state = FAKERNIC_QPS_RTS;
    assert_status(CMD(&r->n, MODIFY_QP, req), BAD_STATE);
    req.attr.state = 7;
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, req), BAD_PARAM,
                   fakernic_modify_qp_req, attr.state);
    /* To INIT without the required attributes, then with a bad port. */
    req.attr.state = FAKERNIC_QPS_INIT;
    assert_status(CMD(&r->n, MODIFY_QP, req), BAD_PARAM);
    req.mask |= LE32(FAKERNIC_QP_ATTR_PKEY_INDEX | FAKERNIC_QP_ATTR_PORT |
                     FAKERNIC_QP_ATTR_ACCESS_FLAGS);
    req.attr.port = 2;
    assert_refused(&r->n, CMD(&r->n, MODIFY_QP, req), BAD_PARAM,
                   fakernic_modify_qp_req, attr.port);
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_RESET);
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP, a.qpn), OK);

    rc_pair(&r->n, &r->s, &a, &b);
    id = (struct fakernic_id) { .id = LE32(a.qpn) };
    assert_status(cmd(&r->n, FAKERNIC_CMD_QUERY_QP, &id, sizeof(id), &attr,
                      sizeof(attr)), OK);
    g_assert_cmpuint(attr.state, ==, FAKERNIC_QPS_RTS);
    g_assert_cmpuint(attr.path_mtu, ==, FAKERNIC_MTU_1024);
    g_assert_cmpuint(le32_to_cpu(attr.dest_qpn), ==, b.qpn);
    g_assert_cmphex(le32_to_cpu(attr.sq_psn), ==, 0xfffffe);
    g_assert_cmpuint(attr.timeout, ==, 14);
    g_assert_cmpmem(attr.av.dgid, 16, own_gid, 16);
    g_assert_cmpmem(attr.av.dmac, 6, nic_mac, 6);
    check_rate_limit(&r->n, a.qpn);
    assert_status(qp_to(&r->n, a.qpn, FAKERNIC_QPS_ERR), OK);
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_ERR);
    assert_status(qp_to(&r->n, a.qpn, FAKERNIC_QPS_RESET), OK);
    g_assert_cmpuint(qp_state(&r->n, a.qpn), ==, FAKERNIC_QPS_RESET);
}

static void test_mcast(Rig *r)
{
    static const uint8_t group[16] = { 0xff, 0x0e, [15] = 1 };
    Qp ud, rc;
    struct fakernic_mcast_req req = { 0 };

    qp_create(&r->n, &ud, FAKERNIC_QP_UD, r->s.pd, &r->s.cq, 0);
    qp_create(&r->n, &rc, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
    memcpy(req.gid, group, 16);
    req.qpn = LE32(ud.qpn);
    assert_status(CMD(&r->n, DETACH_MCAST, req), BAD_ID);
    assert_status(CMD(&r->n, ATTACH_MCAST, req), OK);
    assert_status(CMD(&r->n, ATTACH_MCAST, req), OK);
    assert_status(CMD(&r->n, DETACH_MCAST, req), OK);
    assert_status(CMD(&r->n, DETACH_MCAST, req), BAD_ID);
    req.qpn = LE32(rc.qpn);
    assert_refused(&r->n, CMD(&r->n, ATTACH_MCAST, req), BAD_PARAM,
                   fakernic_mcast_req, qpn);
    req.qpn = LE32(0);
    assert_refused(&r->n, CMD(&r->n, ATTACH_MCAST, req), BAD_ID,
                   fakernic_mcast_req, qpn);
    req.qpn = LE32(ud.qpn);
    memcpy(req.gid, own_gid, 16);
    assert_refused(&r->n, CMD(&r->n, ATTACH_MCAST, req), BAD_PARAM,
                   fakernic_mcast_req, gid);
}

const FakernicTest fakernic_commands_tests[] = {
    { "cmdq/wrap", ENABLED(test_cmdq_wrap) },
    { "cmdq/many", ENABLED(test_cmdq_many) },
    { "cmd/opcodes", ENABLED(test_cmd_opcodes) },
    { "cmd/feature-not-taken", BARE(test_cmd_feature_not_taken) },
    { "cmd/reserved", ENABLED(test_cmd_reserved) },
    { "cmd/header-reserved", ENABLED(test_cmd_header_reserved) },
    { "cmd/query-device", ENABLED(test_query_device) },
    { "cmd/port", ENABLED(test_port) },
    { "cmd/stats", ENABLED(test_stats) },
    { "cmd/gid", ENABLED(test_gid) },
    { "cmd/pd-uar", ENABLED(test_pd_uar) },
    { "cmd/limits", test_limits },
    { "cmd/eq", ENABLED(test_eq) },
    { "cmd/cq", ENABLED(test_cq) },
    { "cmd/page-lists", ENABLED(test_page_lists) },
    { "cmd/mr", ENABLED(test_mr) },
    { "cmd/mr-budget", test_mr_budget },
    { "cmd/rereg-mw", ENABLED(test_rereg_mw) },
    { "cmd/qp-create", READY(test_qp_create) },
    { "cmd/qp-modify", READY(test_qp_modify) },
    { "cmd/mcast", READY(test_mcast) },
    { NULL }
};
