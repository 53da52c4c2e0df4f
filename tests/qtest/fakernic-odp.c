/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging: regions without pages, the list of requests for them, and
 * the effect of UPDATE_PAGES on waiting work requests.
 */
#include "qemu/osdep.h"
#include "fakernic-setup.h"

#define ODP_BASE 0x7f0000000000ull

static struct fakernic_create_mr_req odp_req(const Setup *s)
{
    return (struct fakernic_create_mr_req) {
        .iova = LE64(ODP_BASE),
        .length = LE64(DATA_SIZE),
        .pages = { .page_shift = FAKERNIC_PAGE_SHIFT },
        .pdn = LE32(s->pd),
        .access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE |
                       FAKERNIC_ACCESS_REMOTE_WRITE |
                       FAKERNIC_ACCESS_REMOTE_READ |
                       FAKERNIC_ACCESS_ON_DEMAND),
        .type = FAKERNIC_MR_ON_DEMAND,
    };
}

/* Maps pages of the setup's data into the region, from an offset on. */
static struct fakernic_update_pages_req
odp_update(const Setup *s, uint32_t key, uint64_t offset, uint32_t count,
           uint32_t flags)
{
    struct fakernic_update_pages_req req = {
        .pages = { .page_count = LE32(count) },
        .address = LE64(ODP_BASE + offset),
        .key = LE32(key),
        .flags = LE32(flags),
    };

    if (flags & FAKERNIC_PAGES_PRESENT) {
        req.pages.address = LE64(s->data + offset);
        req.pages.page_shift = FAKERNIC_PAGE_SHIFT;
    }
    return req;
}

static uint32_t odp_query(Nic *n,
                          struct fakernic_query_page_requests_resp *resp)
{
    assert_status(cmd(n, FAKERNIC_CMD_QUERY_PAGE_REQUESTS, NULL, 0, resp,
                      sizeof(*resp)), OK);
    return le32_to_cpu(resp->count);
}

static void test_odp_mr(Rig *r)
{
    struct fakernic_create_mr_req req, good;
    uint32_t key;

    good = odp_req(&r->s);
#define BAD(change, code, field) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, CREATE_MR, req), code, \
                       fakernic_create_mr_req, field); \
    } while (0)
    BAD(req.length = 0, BAD_PARAM, length);
    BAD(req.iova = LE64(-4ull), BAD_PARAM, length);
    BAD(req.pages.page_shift = 11, BAD_PAGE_LIST, pages);
    BAD(req.pages.page_shift = 31, BAD_PAGE_LIST, pages);
    BAD(req.pages.page_count = LE32(1), BAD_PAGE_LIST, pages);
    BAD(req.pages.address = LE64(4096), BAD_PAGE_LIST, pages);
    BAD(req.max_pages = LE32(1), BAD_PARAM, max_pages);
    BAD(req.pdn = LE32(77), BAD_ID, pdn);
    BAD(req.access = LE32(FAKERNIC_ACCESS_LOCAL_WRITE), BAD_PARAM, access);
    BAD(req.access |= LE32(FAKERNIC_ACCESS_ZERO_BASED), BAD_PARAM, access);
#undef BAD
    /* The whole address space. */
    req = good;
    req.iova = 0;
    req.length = ~0ull;
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), OK);
}

static void test_odp_update(Rig *r)
{
    struct fakernic_create_mr_req mr;
    struct fakernic_update_pages_req req, good;
    uint32_t key;

    mr = odp_req(&r->s);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    good = odp_update(&r->s, key, 0, 2, FAKERNIC_PAGES_PRESENT);
#define BAD(change, code, field) \
    do { \
        req = good; \
        change; \
        assert_refused(&r->n, CMD(&r->n, UPDATE_PAGES, req), code, \
                       fakernic_update_pages_req, field); \
    } while (0)
    BAD(req.flags = 0, BAD_PARAM, flags);
    BAD(req.flags = LE32(FAKERNIC_PAGES_WRITABLE), BAD_PARAM, flags);
    BAD(req.flags = LE32(FAKERNIC_PAGES_PRESENT | FAKERNIC_PAGES_ABSENT),
        BAD_PARAM, flags);
    BAD(req.flags = LE32(16), BAD_PARAM, flags);
    BAD(req.key = LE32(key ^ 1), BAD_ID, key);
    BAD(req.key = LE32(r->s.key), BAD_ID, key);
    BAD(req.address = LE64(ODP_BASE - 4096), BAD_PARAM, address);
    BAD(req.address = LE64(ODP_BASE + 8), BAD_PARAM, address);
    BAD(req.address = LE64(ODP_BASE + DATA_SIZE - 4096), BAD_PARAM, address);
    BAD(req.pages.page_count = 0, BAD_PAGE_LIST, pages);
    BAD(req.pages.page_count = LE32(FAKERNIC_UPDATE_PAGES_MAX + 1),
        BAD_PAGE_LIST, pages);
    BAD(req.pages.page_shift = 13, BAD_PAGE_LIST, pages);
    BAD(req.pages.address = LE64(1ull << 63), BAD_PAGE_LIST, pages);
    BAD(req.flags = LE32(FAKERNIC_PAGES_ABSENT), BAD_PAGE_LIST, pages);
    BAD(req.flags = LE32(FAKERNIC_PAGES_REFUSED), BAD_PAGE_LIST, pages);
#undef BAD
    assert_status(CMD(&r->n, UPDATE_PAGES, good), OK);
    req = odp_update(&r->s, key, 0, DATA_SIZE / 4096, FAKERNIC_PAGES_ABSENT);
    assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_PAGE_UPDATES), ==, 2);
}

/* A WRITE from pages, and a READ into pages, that the host supplies late or
 * refuses. */
static void test_odp_traffic(Rig *r)
{
    struct fakernic_query_page_requests_resp resp;
    struct fakernic_create_mr_req mr;
    struct fakernic_update_pages_req req;
    struct fakernic_cqe cqe;
    uint32_t key;
    Wqe wqe;

    mr = odp_req(&r->s);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    fill(&r->n, &r->s, 4000, 5000);
    wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 32768, 5000);
    wqe.rdma.sge[0].address = LE64(ODP_BASE + 4000);
    wqe.rdma.sge[0].lkey = LE32(key);
    POST(r, wqe);
    g_assert_cmpuint(eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PAGE_REQUEST),
                     ==, 0);
    g_assert_false(cq_poll(&r->n, &r->s.cq, &cqe));
    g_assert_cmpuint(odp_query(&r->n, &resp), ==, 1);
    g_assert_cmphex(le64_to_cpu(resp.request[0].address), ==, ODP_BASE + 4000);
    g_assert_cmpuint(le64_to_cpu(resp.request[0].length), ==, 5000);
    g_assert_cmphex(le32_to_cpu(resp.request[0].key), ==, key);
    g_assert_cmpuint(resp.request[0].flags, ==, 0);
    g_assert_cmpuint(odp_query(&r->n, &resp), ==, 0);
    req = odp_update(&r->s, key, 0, 3, FAKERNIC_PAGES_PRESENT);
    assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_SUCCESS);
    assert_same(&r->n, &r->s, 4000, 32768, 5000);

    /* A READ needs writable pages; read-only ones are not enough. */
    wqe.hdr.opcode = FAKERNIC_SQ_RDMA_READ;
    POST(r, wqe);
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PAGE_REQUEST);
    g_assert_cmpuint(odp_query(&r->n, &resp), ==, 1);
    g_assert_cmpuint(le32_to_cpu(resp.request[0].flags), ==,
                     FAKERNIC_PAGE_REQUEST_WRITE);
    req = odp_update(&r->s, key, 0, 3, FAKERNIC_PAGES_REFUSED);
    assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
    cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_READ, FAKERNIC_WC_LOC_PROT_ERR);
    g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==, FAKERNIC_VENDOR_KEY_DMA);
    g_assert_cmpuint(nic_stat(&r->n, FAKERNIC_STAT_PAGES_REFUSED), ==, 1);
}

/* More requests than one answer holds, and a region that is destroyed. */
static void test_odp_list(Rig *r)
{
    const unsigned count = FAKERNIC_PAGE_REQUESTS_MAX + 1;
    Qp qp;
    struct fakernic_query_page_requests_resp resp;
    struct fakernic_create_mr_req mr;
    struct fakernic_cqe cqe;
    uint32_t key;
    Wqe wqe;

    mr = odp_req(&r->s);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    for (unsigned i = 0; i < count; i++) {
        qp_create(&r->n, &qp, FAKERNIC_QP_RC, r->s.pd, &r->s.cq, 0);
        rc_connect(&r->n, qp.qpn, qp.qpn, own_gid, nic_mac);
        wqe = wqe_rdma(&r->s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 16);
        wqe.rdma.sge[0].address = LE64(ODP_BASE + i * 64);
        wqe.rdma.sge[0].lkey = LE32(key);
        sq_put(&r->n, &qp, &wqe, sizeof(wqe));
        sq_ring(&r->n, &qp);
    }
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PAGE_REQUEST);
    g_assert_cmpuint(odp_query(&r->n, &resp), ==, FAKERNIC_PAGE_REQUESTS_MAX);
    eq_expect(&r->n, &r->s.async, FAKERNIC_EVENT_PAGE_REQUEST);
    /* DESTROY_MR drops the region's request, and no QP waits without limit. */
    assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_MR, key), OK);
    g_assert_cmpuint(odp_query(&r->n, &resp), ==, 0);
    for (unsigned i = 0; i < count; i++) {
        cqe = rig_cqe(r, FAKERNIC_CQE_RDMA_WRITE, FAKERNIC_WC_LOC_PROT_ERR);
        g_assert_cmpuint(le16_to_cpu(cqe.vendor_err), ==,
                         FAKERNIC_VENDOR_KEY_INDEX);
    }
}

/* A QP that waits can be destroyed even if the host does not answer. */
static void test_odp_teardown(Rig *r)
{
    for (unsigned life = 0; life < 3; life++) {
        Setup s;
        Qp a, b;
        struct fakernic_query_page_requests_resp resp;
        struct fakernic_create_mr_req mr;
        struct fakernic_update_pages_req req;
        struct fakernic_cqe cqe;
        struct fakernic_eqe eqe;
        uint32_t key;
        Wqe wqe;

        nic_bringup(&r->n);
        g_assert_cmpuint(odp_query(&r->n, &resp), ==, 0);
        setup_pair(&r->n, &s, &a, &b);
        mr = odp_req(&s);
        key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
        /* Life 2: the responder waits, in the middle of a READ response. */
        wqe = wqe_rdma(&s, life == 2 ? FAKERNIC_SQ_RDMA_READ
                                     : FAKERNIC_SQ_RDMA_WRITE, 0, 0, 8192);
        if (life == 2) {
            req = odp_update(&s, key, 0, 1, FAKERNIC_PAGES_PRESENT);
            assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
            wqe.rdma.rdma.remote_address = LE64(ODP_BASE);
            wqe.rdma.rdma.rkey = LE32(key);
        } else {
            wqe.rdma.sge[0].address = LE64(ODP_BASE);
            wqe.rdma.sge[0].lkey = LE32(key);
        }
        sq_put(&r->n, &a, &wqe, sizeof(wqe));
        sq_ring(&r->n, &a);
        eq_expect(&r->n, &s.async, FAKERNIC_EVENT_PAGE_REQUEST);
        if (life == 0) {
            nic_reset(&r->n);
            qtest_clock_step(r->m.qts, 10000000000);
            g_assert_false(eq_poll(&r->n, &s.async, &eqe));
            continue;
        }
        assert_status(cmd_id(&r->n, FAKERNIC_CMD_DESTROY_QP,
                             life == 2 ? b.qpn : a.qpn), OK);
        g_assert_cmpuint(odp_query(&r->n, &resp), ==, 1);
        g_assert_cmphex(le32_to_cpu(resp.request[0].key), ==, key);
        req = odp_update(&s, key, 0, 2, FAKERNIC_PAGES_PRESENT);
        assert_status(CMD(&r->n, UPDATE_PAGES, req), OK);
        if (life == 1) {
            g_assert_false(cq_poll(&r->n, &s.cq, &cqe));
        } else {
            cq_expect(&r->n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_READ,
                      FAKERNIC_WC_RETRY_EXC_ERR);
        }
        nic_reset(&r->n);
    }
}

/* ---- shares -------------------------------------------------------------- */

#define FAIR_HOGS   80          /* more than the device's list holds */
#define FAIR_WQES   31
#define FAIR_ROUNDS 5
/* Enough answers to list all waiting QPs, even if two answers are short. */
#define FAIR_ANSWERS \
    (DIV_ROUND_UP(FAIR_HOGS + 1, FAKERNIC_PAGE_REQUESTS_MAX) + 2)

/* WRITEs 16 bytes from a page of a region to the setup's data. */
static Wqe fair_wqe(const Setup *s, uint32_t lkey, uint64_t page, uint32_t rkey)
{
    Wqe wqe = wqe_rdma(s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, 16);

    wqe.rdma.rdma.rkey = LE32(rkey);
    wqe.rdma.sge[0].address = LE64(ODP_BASE + page * FAKERNIC_PAGE_SIZE);
    wqe.rdma.sge[0].lkey = LE32(lkey);
    return wqe;
}

static void fair_post(Nic *n, Qp *qp, const Wqe *wqe, unsigned count)
{
    while (count--) {
        sq_put(n, qp, wqe, sizeof(*wqe));
    }
    sq_ring(n, qp);
}

/* Queues a command that maps a page of this region or removes it. */
static void fair_tell(Nic *n, const Setup *s, uint32_t key, uint64_t address,
                      bool comes)
{
    const struct fakernic_update_pages_req req = {
        .pages = { .address = comes ? LE64(s->data) : 0,
                   .page_count = LE32(1),
                   .page_shift = comes ? FAKERNIC_PAGE_SHIFT : 0 },
        .address = LE64(address & ~(FAKERNIC_PAGE_SIZE - 1ull)),
        .key = LE32(key),
        .flags = LE32(comes ? FAKERNIC_PAGES_PRESENT : FAKERNIC_PAGES_ABSENT),
    };
    struct fakernic_cmd request = {
        .opcode = LE16(FAKERNIC_CMD_UPDATE_PAGES),
        .cookie = LE32(0xc0de0000 + n->cmd_pi),
    };

    memcpy(request.payload, &req, sizeof(req));
    cmd_submit(n, &request);
}

static void fair_told(Nic *n)
{
    struct fakernic_cmd_completion completion;
    const uint64_t since = main_cpu_us(n->m);

    cmd_ring(n);
    monitor_must_answer(n->m, "pages that come and go", since);
    cmd_wait(n, n->cmd_pi - 1, &completion);
    assert_status(completion.status, OK);
}

/*
 * Fetches one answer. Each page that it lists for the region KEY is mapped and
 * removed at once, so that its QP requests it again. Returns whether it lists a
 * page of VICTIM.
 */
static bool fair_answer(Nic *n, const Setup *s, uint32_t key, uint32_t victim)
{
    struct fakernic_query_page_requests_resp resp;
    const uint32_t count = odp_query(n, &resp);
    bool found = false;

    g_assert_cmpuint(count, >, 0);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t address = le64_to_cpu(resp.request[i].address);

        if (resp.request[i].key == LE32(victim)) {
            found = true;
            continue;
        }
        g_assert_cmphex(le32_to_cpu(resp.request[i].key), ==, key);
        fair_tell(n, s, key, address, true);
        fair_tell(n, s, key, address, false);
    }
    if (count > found) {
        fair_told(n);
    }
    return found;
}

/*
 * Many QPs of one process request pages again and again, as their pages never
 * stay. The last QP belongs to another process. The device lists its request
 * after no more requests than there were before it.
 */
static void test_odp_fair(Rig *r)
{
    struct fakernic_create_mr_req mr;
    struct fakernic_cqe cqe;
    uint32_t key, other, other_pd, other_data;
    Setup s;
    Qp hog, victim;
    Wqe wqe;

    nic_bringup_deep(&r->n, 6);
    setup(&r->n, &s);
    mr = odp_req(&s);
    mr.length = LE64(2ull * FAIR_HOGS * FAKERNIC_PAGE_SIZE);
    key = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    other_pd = pd_alloc(&r->n);
    mr.pdn = LE32(other_pd);
    other = cmd_create(&r->n, FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
    other_data = mr_create(&r->n, other_pd, s.data, DATA_SIZE,
                           FAKERNIC_ACCESS_LOCAL_WRITE |
                               FAKERNIC_ACCESS_REMOTE_WRITE);
    for (unsigned i = 0; i < FAIR_HOGS; i++) {
        qp_create(&r->n, &hog, FAKERNIC_QP_RC, s.pd, &s.cq, 0);
        rc_connect(&r->n, hog.qpn, hog.qpn, own_gid, nic_mac);
        /* Not adjacent pages: the device would merge their requests. */
        wqe = fair_wqe(&s, key, 2 * i, s.key);
        wqe.hdr.flags = 0;
        fair_post(&r->n, &hog, &wqe, FAIR_WQES);
    }
    qp_create(&r->n, &victim, FAKERNIC_QP_RC, other_pd, &s.cq, 0);
    g_assert_cmpuint(victim.qpn, >, hog.qpn);
    rc_connect(&r->n, victim.qpn, victim.qpn, own_gid, nic_mac);
    wqe = fair_wqe(&s, other, 1, other_data);
    for (unsigned round = 0; round < FAIR_ROUNDS; round++) {
        unsigned answers = 1;

        fair_post(&r->n, &victim, &wqe, 1);
        while (!fair_answer(&r->n, &s, key, other)) {
            answers++;
            g_assert_cmpuint(answers, <=, FAIR_ANSWERS);
        }
        g_test_message("listed in answer %u", answers);
        g_assert_false(cq_poll(&r->n, &s.cq, &cqe));
        fair_tell(&r->n, &s, other, ODP_BASE + FAKERNIC_PAGE_SIZE, true);
        fair_told(&r->n);
        cq_expect(&r->n, &s.cq, &cqe, FAKERNIC_CQE_RDMA_WRITE,
                  FAKERNIC_WC_SUCCESS);
        fair_tell(&r->n, &s, other, ODP_BASE + FAKERNIC_PAGE_SIZE, false);
        fair_told(&r->n);
    }
}

const FakernicTest fakernic_odp_tests[] = {
    { "odp/mr", READY(test_odp_mr) },
    { "odp/update", READY(test_odp_update) },
    { "odp/traffic", PAIR(test_odp_traffic) },
    { "odp/list", READY(test_odp_list) },
    { "odp/teardown", BARE(test_odp_teardown) },
    { "odp/fair", BARE(test_odp_fair) },
    { NULL }
};
