/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On-demand paging: the bounded table of pages, valid regions, and the waits of
 * requester and responder for absent pages. The pages of these tests are those
 * of the hosts' memory at other addresses.
 */
#define PAIR_QPS 512
#include "pair.h"

#include "engine.h"
#include "odp.h"

#define BASE 0x7f0000000000u    /* address of the regions */
#define PAGE 4096u
#define ALL (FAKERNIC_ACCESS_LOCAL_WRITE | FAKERNIC_ACCESS_REMOTE_WRITE |  \
             FAKERNIC_ACCESS_REMOTE_READ | FAKERNIC_ACCESS_REMOTE_ATOMIC | \
             FAKERNIC_ACCESS_FLUSH_GLOBAL |                            \
             FAKERNIC_ACCESS_FLUSH_PERSISTENT | FAKERNIC_ACCESS_ON_DEMAND)
#define LATE 1000000000         /* a second */

/* ---- the table ----------------------------------------------------------- */

static void table_finds_pages_that_were_set(void)
{
    RoceOdp *odp = roce_odp_new(4, 4, 8, 0);
    uint64_t page;

    REQUIRE(odp);
    CHECK_EQ(roce_odp_get(odp, 1, 0), 0);
    for (page = 0; page < 4 * ROCE_ODP_CHUNK; page += 100) {
        roce_odp_set(odp, 1, 0, page, page << 12 | 1);
    }
    for (page = 0; page < 4 * ROCE_ODP_CHUNK; page++) {
        CHECK_EQ(roce_odp_get(odp, 1, page),
                 page % 100 ? 0 : page << 12 | 1);
        CHECK_EQ(roce_odp_get(odp, 2, page), 0);
    }
    roce_odp_set(odp, 1, 0, 100, 0);
    CHECK_EQ(roce_odp_get(odp, 1, 100), 0);
    roce_odp_reset(odp);
    CHECK_EQ(roce_odp_get(odp, 1, 200), 0);
    roce_odp_free(odp);
    roce_odp_free(NULL);
}

static uint32_t odp_seed;

static uint32_t odp_random(uint32_t below)
{
    odp_seed = odp_seed * 1664525 + 1013904223;
    return (odp_seed >> 8) % below;
}

#define MODEL_CHUNKS 5u
#define MODEL_KEYS 23u

/* A full table drops exactly its oldest chunk. A queue is the model. */
static void full_table_drops_oldest_chunk(void)
{
    RoceOdp *odp = roce_odp_new(MODEL_CHUNKS, 4, 4, 0);
    uint32_t queue[MODEL_CHUNKS], oldest = 0, step, i, key;

    REQUIRE(odp);
    memset(queue, 0xff, sizeof(queue));
    odp_seed = 1;
    for (step = 0; step < 5000; step++) {
        uint32_t set = odp_random(MODEL_KEYS);
        bool known = false;

        roce_odp_set(odp, set % 3, 0, (uint64_t)set << 40, 0x1001 + (set << 12));
        for (i = 0; i < MODEL_CHUNKS; i++) {
            known = known || queue[i] == set;
        }
        if (!known) {
            queue[oldest++ % MODEL_CHUNKS] = set;
        }
        for (key = 0; key < MODEL_KEYS; key++) {
            uint64_t want = 0;

            for (i = 0; i < MODEL_CHUNKS; i++) {
                want = queue[i] == key ? 0x1001 + (key << 12) : want;
            }
            REQUIRE(roce_odp_get(odp, key % 3, (uint64_t)key << 40) == want);
        }
    }
    roce_odp_free(odp);
}

static void table_clears_ranges(void)
{
    static const struct {
        uint64_t first, count;
    } ranges[] = {
        { 0, 1 }, { 511, 2 }, { 3, 600 }, { 1500, 36 }, { 0, UINT64_MAX },
        { 700, UINT64_MAX - 700 }, { UINT64_MAX / 2, 100 },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(ranges); i++) {
        RoceOdp *odp = roce_odp_new(8, 4, 8, 0);
        uint64_t page;

        REQUIRE(odp);
        for (page = 0; page < 3 * ROCE_ODP_CHUNK; page++) {
            roce_odp_set(odp, 5, 0, page, 0x1001);
            roce_odp_set(odp, 6, 0, page, 0x2001);
        }
        roce_odp_clear(odp, 5, ranges[i].first, ranges[i].count);
        for (page = 0; page < 3 * ROCE_ODP_CHUNK; page++) {
            bool gone = page >= ranges[i].first &&
                        page - ranges[i].first < ranges[i].count;

            CHECK_EQ(roce_odp_get(odp, 5, page), gone ? 0 : 0x1001);
            CHECK_EQ(roce_odp_get(odp, 6, page), 0x2001);
        }
        roce_odp_free(odp);
    }
}

#define CHAIN 32u

/* Numbers of chunks that share a bucket with the first, under a seed. */
static void chain_choose(uint64_t seed, uint64_t number[CHAIN])
{
    RoceOdp *odp = roce_odp_new(64, 4, 8, seed);
    uint32_t count = 1;
    uint64_t next, looks;

    REQUIRE(odp);
    number[0] = 0;
    for (next = 1; count < CHAIN; next++) {
        roce_odp_reset(odp);
        roce_odp_set(odp, 1, 0, 0, 0x1001);
        roce_odp_set(odp, 1, 0, next * ROCE_ODP_CHUNK, 0x1001);
        looks = roce_odp_looks(odp);
        roce_odp_get(odp, 1, 0);
        if (roce_odp_looks(odp) > looks) {
            number[count++] = next;
        }
        REQUIRE(next < 64 * 64);
    }
    roce_odp_free(odp);
}

/* The number of looks to find each of these chunks once. */
static uint64_t chain_looks(uint64_t seed, const uint64_t number[CHAIN])
{
    RoceOdp *odp = roce_odp_new(64, 4, 8, seed);
    uint64_t looks;

    REQUIRE(odp);
    for (uint32_t i = 0; i < CHAIN; i++) {
        roce_odp_set(odp, 1, 0, number[i] * ROCE_ODP_CHUNK, 0x1001);
    }
    looks = roce_odp_looks(odp);
    for (uint32_t i = 0; i < CHAIN; i++) {
        CHECK_EQ(roce_odp_get(odp, 1, number[i] * ROCE_ODP_CHUNK), 0x1001);
    }
    looks = roce_odp_looks(odp) - looks;
    roce_odp_free(odp);
    return looks;
}

/* Each chunk of a chain that a lookup passes counts as a look. */
static void table_counts_chains(void)
{
    uint64_t number[CHAIN];

    chain_choose(1, number);
    CHECK_EQ(chain_looks(1, number), CHAIN * (CHAIN - 1) / 2);
}

/* Chunks that share a bucket under one seed do not under others. */
static void table_chains_depend_on_the_seed(void)
{
    uint64_t number[CHAIN];

    chain_choose(1, number);
    for (uint64_t seed = 2; seed < 100; seed++) {
        CHECK(chain_looks(seed, number) < CHAIN * (CHAIN - 1) / 8);
    }
}

/* ---- regions ------------------------------------------------------------- */

static RoceMrInit odp_init(uint64_t iova, uint64_t length, uint32_t access)
{
    return (RoceMrInit) {
        .type = FAKERNIC_MR_ON_DEMAND, .page_shift = 12, .pd = 1,
        .access = access, .iova = iova, .length = length,
    };
}

/* A region of all the host's memory at BASE without present pages. Its key
 * replaces the host's. */
static void odp_region(PairHost *h)
{
    RoceMrInit init = odp_init(BASE, PAIR_SIZE, ALL);

    CHECK_EQ(roce_mr_create(h->r, &init, &h->key), FAKERNIC_CMD_OK);
}

static int odp_update(PairHost *h, RocePages state, uint64_t address,
                      uint32_t count)
{
    uint64_t pages[256];
    RocePageUpdate update = {
        .key = h->key, .state = state, .address = address,
        .page_count = count, .page_shift = 12, .pages = pages,
    };
    uint32_t i;

    REQUIRE(count <= TEST_COUNT(pages));
    for (i = 0; i < count; i++) {
        pages[i] = PAIR_MEMORY + (address - BASE) + i * PAGE;
    }
    return roce_mr_update_pages(h->r, &update);
}

/* Answers a host's page requests; false: it has none. */
static bool odp_serve(PairHost *h, RocePages state)
{
    const FakePageRequest *request = fake_next_page_request(h->host);
    uint64_t first, last;

    if (!request) {
        return false;
    }
    CHECK_EQ(request->key, h->key);
    CHECK(request->length > 0);
    first = request->address & ~(uint64_t)(PAGE - 1);
    last = request->address + (request->length - 1);
    if (request->write && state == ROCE_PAGES_READABLE) {
        state = ROCE_PAGES_WRITABLE;
    }
    CHECK_EQ(odp_update(h, state, first,
                        (uint32_t)((last - first) / PAGE + 1)),
             FAKERNIC_CMD_OK);
    return true;
}

/* Moves frames and time, and serves both hosts at each standstill. */
static void odp_run(Pair *p)
{
    bool again = true;

    while (again) {
        pair_run_until(p, p->now + 1000000);
        again = odp_serve(&p->a, ROCE_PAGES_READABLE);
        again = odp_serve(&p->b, ROCE_PAGES_READABLE) || again;
    }
    pair_run_until(p, p->now + LATE);
}

static RoceSendWr odp_wr(const Pair *p, uint32_t index, uint8_t opcode,
                         uint32_t offset, uint32_t length)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, index, opcode, offset, length);

    wr.sge[0].address = BASE + offset;
    if (opcode != FAKERNIC_SQ_SEND) {
        wr.rdma.remote_address = BASE + offset;
    }
    return wr;
}

static void bad_regions_are_refused(void)
{
    uint64_t *pages = malloc(sizeof(uint64_t));
    RoceMrInit cases[] = {
        odp_init(BASE, 0, ALL),
        odp_init(UINT64_MAX - 10, 12, ALL),
        odp_init(BASE, 1, ALL & ~FAKERNIC_ACCESS_ON_DEMAND),
        odp_init(BASE, 1, ALL | FAKERNIC_ACCESS_ZERO_BASED),
        odp_init(BASE, 1, ALL & ~FAKERNIC_ACCESS_LOCAL_WRITE),
        odp_init(BASE, 1, ALL),
        odp_init(BASE, 1, ALL),
        odp_init(BASE, 1, ALL),
        odp_init(BASE, 1, ALL),
    };
    RoceMrInit good = odp_init(0, UINT64_MAX, ALL);
    uint32_t key;
    PairHost h;
    unsigned i;

    pair_host_init(&h, 1);
    cases[5].page_shift = 11;
    cases[6].page_shift = 31;
    cases[7].pages = pages;
    cases[8].page_count = 1;
    for (i = 0; i < TEST_COUNT(cases); i++) {
        CHECK_EQ(roce_mr_create(h.r, &cases[i], &key), FAKERNIC_CMD_BAD_PARAM);
    }
    CHECK_EQ(roce_mr_create(h.r, &good, &key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_rereg(h.r, FAKERNIC_REREG_PD, &good, &key),
             FAKERNIC_CMD_BAD_STATE);
    CHECK_EQ(roce_mr_destroy(h.r, key), FAKERNIC_CMD_OK);
    free(pages);
    roce_free(h.r);
    fake_host_free(h.host);
}

static void bad_updates_are_refused(void)
{
    uint64_t pages[2] = { 0x1000, 0x2000 };
    RocePageUpdate good = {
        .state = ROCE_PAGES_WRITABLE, .address = BASE + PAGE, .page_count = 2,
        .page_shift = 12, .pages = pages,
    };
    RocePageUpdate bad;
    RoceMrInit init = odp_init(BASE + 100, 2 * PAGE, ALL);
    PairHost h;

    pair_host_init(&h, 1);
    good.key = h.key;                   /* not an on-demand region */
    CHECK_EQ(roce_mr_update_pages(h.r, &good), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_mr_create(h.r, &init, &good.key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_update_pages(h.r, &good), FAKERNIC_CMD_OK);
    bad = good;
    bad.key ^= 1;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_ID);
    bad = good;
    bad.page_count = 0;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_PARAM);
    bad.page_count = 3;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_PARAM);
    bad = good;
    bad.address += 8;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_PARAM);
    bad.address = BASE - PAGE;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_PARAM);
    bad.address = BASE + 3 * PAGE;
    bad.page_count = UINT32_MAX;
    bad.state = ROCE_PAGES_ABSENT;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_PARAM);
    bad = good;
    bad.page_shift = 13;
    CHECK_EQ(roce_mr_update_pages(h.r, &bad), FAKERNIC_CMD_BAD_PAGE_LIST);
    pages[1] += 8;
    CHECK_EQ(roce_mr_update_pages(h.r, &good), FAKERNIC_CMD_BAD_PAGE_LIST);
    roce_free(h.r);
    fake_host_free(h.host);
}

/* A report in parts wakes no waiter of a later page. Its work is counted. */
static void partial_update_wakes_no_later_waiter(void)
{
    enum { PAGES = 1200, PIECE = 500 };
    uint64_t pages[PAGES], work;
    RoceMrInit init = odp_init(BASE, PAGES * PAGE, ALL);
    RocePageUpdate update = {
        .state = ROCE_PAGES_WRITABLE, .address = BASE, .page_count = PAGES,
        .page_shift = 12, .pages = pages,
    };
    uint32_t done = 0, i;
    PairHost h;

    pair_host_init(&h, 1);
    for (i = 0; i < PAGES; i++) {
        pages[i] = (i + 1) * PAGE;
    }
    CHECK_EQ(roce_mr_create(h.r, &init, &update.key), FAKERNIC_CMD_OK);
    work = roce_work(h.r);
    for (i = 1; i <= 3; i++) {
        CHECK_EQ(roce_mr_update_some(h.r, &update, &done, PIECE),
                 FAKERNIC_CMD_OK);
        CHECK_EQ(done, i * PIECE < PAGES ? i * PIECE : PAGES);
        CHECK(roce_work(h.r) - work >= done / 16);
        CHECK(roce_work(h.r) - work <= done / 16 + 8);
    }
    /* A whole chunk is dropped at the cost of one look. */
    work = roce_work(h.r);
    update.state = ROCE_PAGES_ABSENT;
    CHECK_EQ(roce_mr_update_pages(h.r, &update), FAKERNIC_CMD_OK);
    CHECK(roce_work(h.r) - work <= 512 / 16 + 2);
    /* A range that is too long is refused before any page of it is reported. */
    update.state = ROCE_PAGES_WRITABLE;
    update.page_count++;
    done = 0;
    CHECK_EQ(roce_mr_update_some(h.r, &update, &done, PIECE),
             FAKERNIC_CMD_BAD_PARAM);
    roce_free(h.r);
    fake_host_free(h.host);
}

/* A window needs the pages of its region, and an on-demand region has none. */
static void windows_on_odp_regions_are_refused(void)
{
    uint32_t key;
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.a);
    CHECK_EQ(roce_mw_create(p.a.r, FAKERNIC_MW_TYPE_2B, 3, 1, &key),
             FAKERNIC_CMD_OK);
    wr = (RoceSendWr) {
        .opcode = FAKERNIC_SQ_BIND_MW,
        .bind_mw = {
            .address = BASE, .length = 256, .mw_key = key, .new_key = key,
            .mr_key = p.a.key, .access = FAKERNIC_ACCESS_REMOTE_READ,
        },
    };
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_BIND_MW, 0, FAKERNIC_WC_MW_BIND_ERR);
}

/* ---- the requester ------------------------------------------------------- */

/* Without the page no packet is sent and no retry counted, however long. */
static void sends_wait_for_absent_pages(void)
{
    static const uint8_t types[] = {
        FAKERNIC_QP_RC, FAKERNIC_QP_UC, FAKERNIC_QP_XRC_INI,
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(types); i++) {
        const FakePageRequest *request;
        RoceSendWr wr;
        PAIR(p, types[i]);

        pair_fill(p.a.memory + 4000, 700, 7);
        pair_recv(&p.b, 3, 0, 700);
        odp_region(&p.a);
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_READABLE, BASE, 1), 0);
        /* The first packet is on the first page only in part. */
        wr = odp_wr(&p, 1, FAKERNIC_SQ_SEND, 4000, 700);
        pair_send(&p, &p.a, &wr);
        pair_run_until(&p, 100 * (RoceTime)LATE);
        CHECK_EQ(p.a.sent, 0);
        CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
        CHECK_EQ(p.a.host->page_count, 1);
        request = &p.a.host->pages[0];
        CHECK_EQ(request->address, BASE + 4000);
        CHECK_EQ(request->length, 700);
        CHECK(!request->write);
        odp_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
        CHECK_MEM(p.b.memory, p.a.memory + 4000, 700);
        CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS), 0);
    }
}

/* A page becomes absent in the middle of a message. */
static void page_becomes_absent_during_message(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_UC };
    unsigned i;

    for (i = 0; i < TEST_COUNT(types); i++) {
        RoceSendWr wr;
        PAIR(p, types[i]);

        pair_fill(p.a.memory, 3 * PAGE, 7);
        pair_recv(&p.b, 3, 0, 3 * PAGE);
        odp_region(&p.a);
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_READABLE, BASE, 3), 0);
        wr = odp_wr(&p, 1, FAKERNIC_SQ_SEND, 0, 3 * PAGE);
        pair_send(&p, &p.a, &wr);
        CHECK(pair_step(&p, &p.a, &p.b));
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_ABSENT, BASE + PAGE, 1), 0);
        pair_run_until(&p, LATE);
        CHECK_EQ(p.a.host->page_count, 1);
        CHECK_EQ(p.a.sent, PAGE / PAIR_MTU);
        odp_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
        CHECK_MEM(p.b.memory, p.a.memory, 3 * PAGE);
    }
}

/* A READ or atomic response whose page is absent is dropped. The requester
 * waits for the page and requests the response again. */
static void responses_wait_for_absent_pages(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    pair_fill(p.b.memory, 3 * PAGE, 9);
    bytes_store64(p.b.memory + 0x8000, 5);
    odp_region(&p.a);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_READ, 0, 3 * PAGE);
    wr.sge[0].address = BASE;
    pair_send(&p, &p.a, &wr);
    wr = pair_wr(&p.a, 2, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 8);
    wr.sge[0].address = BASE + 0x8000;
    wr.atomic.remote_address = PAIR_MEMORY + 0x8000;
    wr.atomic.rkey = p.b.key;
    wr.atomic.swap_or_add = 3;
    wr.atomic.compare = 0;
    wr.atomic.swap_mask_or_boundary = wr.atomic.compare_mask = 0;
    pair_send(&p, &p.a, &wr);
    pair_run_until(&p, 100 * (RoceTime)LATE);
    CHECK_EQ(p.a.host->page_count, 1);
    CHECK(p.a.host->pages[0].write);
    CHECK_EQ(p.a.host->pages[0].length, 3 * PAGE);
    CHECK_EQ(p.a.host->completion_count, 0);
    odp_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_FETCH_ADD, 2, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.a.memory, p.b.memory, 3 * PAGE);
    CHECK_EQ(bytes_load64(p.a.memory + 0x8000), 5);
    CHECK_EQ(bytes_load64(p.b.memory + 0x8000), 8);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_IMPLIED_NAK), 0);
}

/* A refused page, or the end of the key, ends the wait with an error. */
static void refused_page_or_key_fails_waiting_send(void)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        RoceSendWr wr;
        PAIR(p, FAKERNIC_QP_RC);

        odp_region(&p.a);
        wr = odp_wr(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        if (i == 0) {
            CHECK(odp_serve(&p.a, ROCE_PAGES_REFUSED));
        } else {
            CHECK_EQ(roce_mr_destroy(p.a.r, p.a.key), FAKERNIC_CMD_OK);
        }
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_LOC_PROT_ERR);
        CHECK_EQ(p.a.host->completions[0].vendor_err,
                 i ? FAKERNIC_VENDOR_KEY_INDEX : FAKERNIC_VENDOR_KEY_DMA);
        CHECK_EQ(pair_state(&p.a), FAKERNIC_QPS_ERR);
    }
}

/*
 * The engine may request a page twice before the host answers. When the second
 * answer comes, the page was used and is absent again. That answer must fail no
 * later request.
 */
static void late_refusal_fails_no_later_request(void)
{
    RoceSendWr wr;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.a);
    pair_fill(p.a.memory, 64, 9);
    for (i = 0; i < 3; i++) {
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_REFUSED, BASE, 4), 0);
        pair_recv(&p.b, i, 0, 64);
        wr = odp_wr(&p, i, FAKERNIC_SQ_SEND, 0, 64);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(p.a.host->page_count, i + 1);
        odp_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, i, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, i, FAKERNIC_WC_SUCCESS);
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_ABSENT, BASE, 4), 0);
    }
}

/* ERR flushes waiting requests, and RESET ends the wait. */
static void err_and_reset_end_the_page_wait(void)
{
    RoceQpAttr attr = { .state = FAKERNIC_QPS_ERR };
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.a);
    wr = odp_wr(&p, 1, FAKERNIC_SQ_SEND, 0, 64);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_WR_FLUSH_ERR);
    attr.state = FAKERNIC_QPS_RESET;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    pair_connect(&p.a, &p.b, FAKERNIC_QP_RC);
    pair_recv(&p.b, 3, 0, 64);
    CHECK_EQ(odp_update(&p.a, ROCE_PAGES_READABLE, BASE, 1), 0);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
}

/* ---- the responder ------------------------------------------------------- */

static void receives_wait_for_absent_pages(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_XRC_INI };
    unsigned i;

    for (i = 0; i < TEST_COUNT(types); i++) {
        RoceRecvWr recv;
        PAIR(p, types[i]);

        pair_fill(p.a.memory, 2 * PAGE, 7);
        odp_region(&p.b);
        recv = (RoceRecvWr) {
            .tag = 3, .sge_count = 1, .sge = { pair_sge(&p.b, 0, 2 * PAGE) },
        };
        recv.sge[0].address = BASE;
        pair_post_recv(&p.b, &recv);
        pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 2 * PAGE);
        pair_run(&p);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
        CHECK_EQ(p.b.host->page_count, 1);
        CHECK(p.b.host->pages[0].write);
        CHECK_EQ(p.b.host->pages[0].length, 2 * PAGE);
        CHECK_EQ(p.b.host->completion_count, 0);
        odp_run(&p);
        pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
        CHECK_MEM(p.b.memory, p.a.memory, 2 * PAGE);
    }
}

/* The RNR timer grows with each NAK, so that a peer with few retries does not
 * use them up. */
static void rnr_timer_grows_while_page_is_absent(void)
{
    /* Every second entry of table 45, from the attribute on, in us. */
    static const unsigned waits[] = { 640, 1280, 2560, 5120, 10240, 20480,
                                      40960, 40960 };
    static const uint8_t fixed[] = { 0, 24, 25, 31 };
    static const unsigned fixed_waits[] = { 655360, 40960, 61440, 491520 };
    RoceSendWr wr;
    unsigned i, k;
    RoceQp *qp;
    PAIR(p, FAKERNIC_QP_RC);

    qp = roce_qp_find(p.a.r, p.a.qpn);
    qp->attr.rnr_retry = qp->retry.rnr_left = 7;
    qp = roce_qp_find(p.b.r, p.b.qpn);
    odp_region(&p.b);
    for (k = 0; k < 2; k++) {
        wr = odp_wr(&p, 1, FAKERNIC_SQ_RDMA_WRITE, k * PAGE, 8);
        wr.sge[0].lkey = p.a.key;
        wr.sge[0].address = PAIR_MEMORY;
        wr.rdma.rkey = p.b.key;
        pair_send(&p, &p.a, &wr);
        for (i = 0; i < TEST_COUNT(waits); i++) {
            pair_run(&p);
            CHECK_EQ(roce_deadline(p.a.r), p.now + waits[i] * 1000ull);
            p.now = roce_deadline(p.a.r);
            roce_tick(p.a.r, p.now);
        }
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK),
                 (k + 1) * TEST_COUNT(waits));
        CHECK_EQ(odp_update(&p.b, ROCE_PAGES_WRITABLE, BASE + k * PAGE, 1), 0);
        /* The next packet without a page starts with the attribute again. */
        pair_run_until(&p, p.now + LATE);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    }
    wr.rdma.remote_address = BASE + 2 * PAGE;
    pair_send(&p, &p.a, &wr);
    for (i = 0; i < TEST_COUNT(fixed); i++) {
        qp->attr.min_rnr_timer = fixed[i];
        for (k = 0; k < 2; k++) {
            pair_run(&p);
            CHECK_EQ(roce_deadline(p.a.r), p.now + fixed_waits[i] * 1000ull);
            p.now = roce_deadline(p.a.r);
            roce_tick(p.a.r, p.now);
        }
    }
}

/* Every request of a peer waits for absent pages. Atomics are executed once. */
static void requests_wait_for_absent_pages(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_WRITE_IMM,
        FAKERNIC_SQ_RDMA_READ, FAKERNIC_SQ_ATOMIC_FETCH_ADD,
        FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD, FAKERNIC_SQ_ATOMIC_WRITE,
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(opcodes); i++) {
        bool atomic = opcodes[i] >= FAKERNIC_SQ_ATOMIC_CMP_SWAP &&
                      opcodes[i] <= FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD;
        uint32_t length = i < 3 ? 10000 : 8;
        RoceSendWr wr;
        PAIR(p, FAKERNIC_QP_RC);

        odp_region(&p.b);
        pair_recv(&p.b, 3, 0, 0);
        pair_fill(opcodes[i] == FAKERNIC_SQ_RDMA_READ ? p.b.memory
                                                      : p.a.memory, length, 7);
        wr = pair_rdma_wr(&p.a, &p.b, 1, opcodes[i], 0, length);
        if (atomic) {
            bytes_store64(p.b.memory, 40);
            wr.atomic.rkey = p.b.key;
            wr.atomic.swap_or_add = 2;
            wr.atomic.compare = 0;
            wr.atomic.swap_mask_or_boundary = wr.atomic.compare_mask = 0;
        }
        /* The same place in both unions. */
        wr.rdma.remote_address = BASE;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TX_RNR_NAK), 1);
        REQUIRE(p.b.host->page_count == 1);
        CHECK_EQ(p.b.host->pages[0].address, BASE);
        CHECK_EQ(p.b.host->pages[0].length, length);
        CHECK_EQ(p.b.host->pages[0].write,
                 opcodes[i] != FAKERNIC_SQ_RDMA_READ);
        odp_run(&p);
        CHECK_EQ(p.a.host->completion_count, 1);
        CHECK_EQ(p.a.host->completions[0].status, FAKERNIC_WC_SUCCESS);
        if (atomic) {
            CHECK_EQ(bytes_load64(p.a.memory), 40);
            CHECK_EQ(bytes_load64(p.b.memory), 42);
        } else {
            CHECK_MEM(p.a.memory, p.b.memory, length);
        }
    }
}

/* The rest of a READ response waits for its page, and so does the ACK of the
 * request behind the READ. */
static void read_response_waits_for_page_midway(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    pair_fill(p.b.memory, 3 * PAGE, 7);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_READABLE, BASE, 1), 0);
    pair_recv(&p.b, 3, 0, 0);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_READ, 0, 3 * PAGE);
    wr.rdma.remote_address = BASE;
    pair_send(&p, &p.a, &wr);
    pair_post(&p, 2, FAKERNIC_SQ_SEND, 0, 0);
    pair_run(&p);
    CHECK_EQ(p.b.sent, PAGE / PAIR_MTU);
    CHECK_EQ(p.b.host->page_count, 1);
    CHECK_EQ(p.b.host->pages[0].address, BASE + PAGE);
    CHECK_EQ(p.b.host->pages[0].length, 2 * PAGE);
    CHECK_EQ(p.b.host->completion_count, 1);
    CHECK_EQ(p.a.host->completion_count, 0);
    CHECK(odp_serve(&p.b, ROCE_PAGES_READABLE));
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 2, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.a.memory, p.b.memory, 3 * PAGE);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS), 0);
}

static void refused_pages_are_an_access_error(void)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_WRITE, FAKERNIC_SQ_RDMA_READ, FAKERNIC_SQ_SEND,
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(opcodes); i++) {
        bool send = opcodes[i] == FAKERNIC_SQ_SEND;
        RoceRecvWr recv;
        RoceSendWr wr;
        PAIR(p, FAKERNIC_QP_RC);

        odp_region(&p.b);
        if (send) {
            recv = (RoceRecvWr) {
                .tag = 3, .sge_count = 1, .sge = { pair_sge(&p.b, 0, 64) },
            };
            recv.sge[0].address = BASE;
            pair_post_recv(&p.b, &recv);
        }
        wr = pair_rdma_wr(&p.a, &p.b, 1, opcodes[i], 0, 64);
        wr.rdma.remote_address = BASE;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK(odp_serve(&p.b, ROCE_PAGES_REFUSED));
        pair_run_until(&p, LATE);
        CHECK_EQ(p.a.host->completions[0].status,
                 send ? FAKERNIC_WC_REM_OP_ERR : FAKERNIC_WC_REM_ACCESS_ERR);
        if (send) {
            pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_LOC_PROT_ERR);
            CHECK_EQ(p.b.host->completions[0].vendor_err,
                     FAKERNIC_VENDOR_KEY_DMA);
        } else {
            pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
            CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_KEY_DMA);
        }
    }
}

/*
 * The host reports the present pages before it refuses the absent one. The
 * first report must not end the wait for the second.
 */
static void earlier_page_report_does_not_end_wait(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 16);
    wr.rdma.remote_address = BASE + PAGE - 8;
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_WRITABLE, BASE, 1), 0);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(p.b.host->page_count, 1);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_WRITABLE, BASE, 1), 0);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_REFUSED, BASE + PAGE, 1), 0);
    pair_run_until(&p, LATE);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1,
                FAKERNIC_WC_REM_ACCESS_ERR);
    CHECK_EQ(p.b.host->page_count, 2);
}

/* A write to a read-only page requests the page again. */
static void writing_needs_a_writable_page(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_READABLE, BASE, 1), 0);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_READ, 0, 64);
    wr.rdma.remote_address = BASE;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->page_count, 0);
    wr.opcode = FAKERNIC_SQ_RDMA_WRITE;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    CHECK_EQ(p.b.host->page_count, 1);
    CHECK(p.b.host->pages[0].write);
    odp_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
}

/* FLUSH for visibility skips absent pages. */
static void flush_skips_absent_pages(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_WRITABLE, BASE + PAGE, 1), 0);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_FLUSH, 0, 3 * PAGE);
    wr.rdma.remote_address = BASE;
    wr.rdma.flush = FAKERNIC_FLUSH_GLOBAL;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->page_count, 0);
    CHECK_EQ(p.b.host->dma_count, 1);
    CHECK_EQ(p.b.host->dma[0].address, PAIR_MEMORY + PAGE);
    wr.rdma.flush |= FAKERNIC_FLUSH_LEVEL_MR;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 1, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* A FLUSH of 'pages' pages from page 'first' on, for persistence. */
static void odp_persist(Pair *p, uint32_t index, uint32_t first, uint32_t pages)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, index, FAKERNIC_SQ_FLUSH, 0,
                                 pages * PAGE);

    wr.rdma.remote_address = BASE + first * PAGE;
    wr.rdma.flush = FAKERNIC_FLUSH_PERSISTENT;
    pair_send(p, &p->a, &wr);
    pair_run(p);
}

/* A page that was written to becomes absent. FLUSH for persistence requests it,
 * and flushes all pages of its range. */
static void persistent_flush_requests_absent_pages(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 64);
    wr.rdma.remote_address = BASE;
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_WRITABLE, BASE, 2), 0);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_ABSENT, BASE, 1), 0);
    p.b.host->dma_count = 0;
    odp_persist(&p, 2, 0, 3);
    pair_expect_none(&p.a);
    CHECK_EQ(p.b.host->dma_count, 0);
    CHECK_EQ(p.b.host->page_count, 1);
    CHECK_EQ(p.b.host->pages[0].address, BASE);
    CHECK_EQ(p.b.host->pages[0].length, 3 * PAGE);
    CHECK(!p.b.host->pages[0].write);
    CHECK(odp_serve(&p.b, ROCE_PAGES_READABLE));
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 2, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->dma_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(p.b.host->dma[i].kind, 'p');
        CHECK_EQ(p.b.host->dma[i].address, PAIR_MEMORY + i * PAGE);
    }
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS), 0);
}

static void refused_page_fails_persistent_flush(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    odp_persist(&p, 1, 0, 1);
    CHECK(odp_serve(&p.b, ROCE_PAGES_REFUSED));
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 1, FAKERNIC_WC_REM_ACCESS_ERR);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
    CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_KEY_DMA);
}

/* A READ response waits for its page. The FLUSH behind it requests its own page
 * when the response is complete. */
static void persistent_flush_waits_behind_read(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_READABLE, BASE, 1), 0);
    wr = pair_rdma_wr(&p.a, &p.b, 1, FAKERNIC_SQ_RDMA_READ, 0, 2 * PAGE);
    wr.rdma.remote_address = BASE;
    pair_send(&p, &p.a, &wr);
    odp_persist(&p, 2, 2, 1);
    CHECK_EQ(p.b.host->page_count, 1);
    CHECK_EQ(p.b.host->pages[0].address, BASE + PAGE);
    CHECK(odp_serve(&p.b, ROCE_PAGES_READABLE));
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_READ, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(p.b.host->page_count, 2);
    CHECK_EQ(p.b.host->pages[1].address, BASE + 2 * PAGE);
    CHECK(odp_serve(&p.b, ROCE_PAGES_READABLE));
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 2, FAKERNIC_WC_SUCCESS);
}

/* ---- datagrams and frames ------------------------------------------------ */

static void datagrams(void)
{
    RoceQpAttr attr = { .port = 1, .qkey = 5 };
    PairHost *hosts[2];
    RoceRecvWr recv;
    RoceSendWr wr;
    unsigned i;
    Pair p;

    memset(&p, 0, sizeof(p));
    pair_host_init(&p.a, 1);
    pair_host_init(&p.b, 2);
    hosts[0] = &p.a;
    hosts[1] = &p.b;
    for (i = 0; i < 2; i++) {
        pair_create(hosts[i], FAKERNIC_QP_UD);
        attr.state = FAKERNIC_QPS_INIT;
        CHECK_EQ(pair_modify(hosts[i], 0, FAKERNIC_QP_ATTR_STATE |
                             FAKERNIC_QP_ATTR_PORT | FAKERNIC_QP_ATTR_QKEY |
                             FAKERNIC_QP_ATTR_PKEY_INDEX, &attr), 0);
        attr.state = FAKERNIC_QPS_RTR;
        CHECK_EQ(pair_modify(hosts[i], 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
        attr.state = FAKERNIC_QPS_RTS;
        CHECK_EQ(pair_modify(hosts[i], 0, PAIR_UC_RTS_MASK, &attr), 0);
        odp_region(hosts[i]);
    }
    pair_fill(p.a.memory, 100, 6);
    wr = pair_wr(&p.a, 1, FAKERNIC_SQ_SEND, 0, 100);
    wr.sge[0].address = BASE;
    wr.ud.av = pair_av(&p.b);
    wr.ud.dest_qpn = p.b.qpn;
    wr.ud.qkey = 5;
    recv = (RoceRecvWr) {
        .tag = 3, .sge_count = 1, .sge = { pair_sge(&p.b, 0, 200) },
    };
    recv.sge[0].address = BASE;
    pair_post_recv(&p.b, &recv);
    for (i = 0; i < 2; i++) {
        pair_send(&p, &p.a, &wr);
    }
    pair_run(&p);
    CHECK_EQ(p.a.sent, 0);
    CHECK_EQ(p.a.host->page_count, 1);
    CHECK(odp_serve(&p.a, ROCE_PAGES_READABLE));
    /*
     * UD does not wait for the receiver's page: it drops the datagram only.
     */
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_UD_NO_BUFFER), 1);
    CHECK(odp_serve(&p.b, ROCE_PAGES_READABLE));
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory + 40, p.a.memory, 100);
    pair_free(&p);
}

static void frames(void)
{
    RoceQpAttr attr = { .port = 1, .state = FAKERNIC_QPS_INIT };
    uint8_t buf[ROCE_FRAME_MAX] = { 0 };
    RoceRecvWr recv;
    RoceSendWr wr;
    bool loopback;
    PairHost h;

    pair_host_init(&h, 1);
    pair_create(&h, FAKERNIC_QP_RAW_PACKET);
    CHECK_EQ(pair_modify(&h, 0, FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT,
                         &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(&h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(&h, 0, FAKERNIC_QP_ATTR_STATE, &attr), 0);
    odp_region(&h);
    wr = pair_wr(&h, 1, FAKERNIC_SQ_SEND, 0, 60);
    wr.sge[0].address = BASE;
    fake_post_send(h.host, h.qpn, &wr);
    roce_post_send(h.r, 0, h.qpn);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    CHECK(odp_serve(&h, ROCE_PAGES_READABLE));
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 60);
    CHECK_EQ(roce_output(h.r, 0, buf, &loopback), 0);
    pair_expect(&h, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    recv = (RoceRecvWr) {
        .tag = 3, .sge_count = 1, .sge = { pair_sge(&h, 0, 200) },
    };
    recv.sge[0].address = BASE + PAGE;
    pair_post_recv(&h, &recv);
    CHECK(!roce_input_ethernet(h.r, 0, h.qpn, buf, 60, false));
    CHECK_EQ(roce_stats(h.r)[FAKERNIC_STAT_RX_NO_BUFFER], 1);
    CHECK(odp_serve(&h, ROCE_PAGES_READABLE));
    CHECK(roce_input_ethernet(h.r, 0, h.qpn, buf, 60, false));
    pair_expect(&h, FAKERNIC_CQE_RECV, 3, FAKERNIC_WC_SUCCESS);
    roce_free(h.r);
    fake_host_free(h.host);
}

/* ---- all together -------------------------------------------------------- */

/* One region of the whole address space. The test chooses its pages. */
static void implicit_region(void)
{
    RoceMrInit init = odp_init(0, UINT64_MAX, ALL);
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_mr_create(p.a.r, &init, &p.a.key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_create(p.b.r, &init, &p.b.key), FAKERNIC_CMD_OK);
    pair_fill(p.a.memory, 3 * PAGE, 7);
    wr = odp_wr(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 100, 2 * PAGE);
    pair_send(&p, &p.a, &wr);
    odp_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory + 100, p.a.memory + 100, 2 * PAGE);
    /* The last byte of the address space is not in the region. */
    wr.rdma.remote_address = UINT64_MAX;
    wr.sge[0].length = 1;
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_REM_ACCESS_ERR);
}

/* Removes a few pages of a host, as memory pressure does. */
static void odp_evict(PairHost *h)
{
    CHECK_EQ(odp_update(h, ROCE_PAGES_ABSENT,
                        BASE + odp_random(240) * PAGE, 1 + odp_random(16)),
             FAKERNIC_CMD_OK);
}

/*
 * WRITEs and READs under losses, with pages that come and go and a page table
 * of two chunks for two regions: all complete, in order, with the right bytes.
 */
static void writes_and_reads_complete_while_pages_change(void)
{
    static const uint32_t half = PAIR_SIZE / 2;
    unsigned round;

    for (round = 0; round < 20; round++) {
        unsigned steps = 0, i;
        Pair p;

        odp_seed = round;
        pair_init(&p, FAKERNIC_QP_RC);
        odp_region(&p.a);
        odp_region(&p.b);
        pair_fill(p.a.memory, half, (uint8_t)round);
        pair_fill(p.b.memory + half, half, (uint8_t)(round + 1));
        for (i = 0; i < 8; i++) {
            bool read = i % 2;
            uint32_t length = 1 + odp_random(60000);
            uint32_t offset = i / 2 * 65536;
            RoceSendWr wr = odp_wr(&p, i, read ? FAKERNIC_SQ_RDMA_READ
                                               : FAKERNIC_SQ_RDMA_WRITE,
                                   offset + (read ? half : 0), length);

            pair_send(&p, &p.a, &wr);
        }
        while (p.a.host->completion_count < 8) {
            REQUIRE(++steps < 5000);
            for (i = odp_random(40); i > 0; i--) {
                pair_step(&p, &p.a, &p.b);
                pair_step(&p, &p.b, &p.a);
            }
            if (steps < 500 && odp_random(3) == 0) {
                odp_evict(odp_random(2) ? &p.a : &p.b);
            }
            p.now += 200000;
            roce_tick(p.a.r, p.now);
            roce_tick(p.b.r, p.now);
            while (odp_serve(&p.a, ROCE_PAGES_READABLE)) {
            }
            while (odp_serve(&p.b, ROCE_PAGES_READABLE)) {
            }
            p.a.host->page_count = p.a.host->page_taken = 0;
            p.b.host->page_count = p.b.host->page_taken = 0;
        }
        for (i = 0; i < 8; i++) {
            pair_expect(&p.a, i % 2 ? FAKERNIC_CQE_RDMA_READ
                                    : FAKERNIC_CQE_RDMA_WRITE, i,
                        FAKERNIC_WC_SUCCESS);
            CHECK_MEM(p.b.memory + i / 2 * 65536, p.a.memory + i / 2 * 65536,
                      p.a.host->completions[i & ~1u].byte_count);
            CHECK_MEM(p.a.memory + half + i / 2 * 65536,
                      p.b.memory + half + i / 2 * 65536,
                      p.a.host->completions[i | 1].byte_count);
        }
        pair_free(&p);
    }
}

/* ---- shares -------------------------------------------------------------- */

#define FIRST(set) ((uint64_t)(set) << 32)

/* An owner that sets more and more pages displaces only its own. */
static void owner_displaces_only_its_own_pages(void)
{
    RoceOdp *odp = roce_odp_new(256, 4, 32, 0);
    uint64_t set;

    for (set = 0; set < 40; set++) {
        roce_odp_set(odp, 1, 1, FIRST(set), 0x1001);
    }
    for (set = 0; set < 1000; set++) {
        roce_odp_set(odp, 2 + set % 7, 2, FIRST(set), 0x2001);
        REQUIRE(roce_odp_get(odp, 2 + set % 7, FIRST(set)) == 0x2001);
    }
    for (set = 0; set < 40; set++) {
        CHECK_EQ(roce_odp_get(odp, 1, FIRST(set)), 0x1001);
    }
    /* A new owner gets its share from owners that have more. */
    for (set = 0; set < 40; set++) {
        roce_odp_set(odp, 20, 3, FIRST(set), 0x3001);
    }
    for (set = 0; set < 40; set++) {
        CHECK_EQ(roce_odp_get(odp, 20, FIRST(set)), 0x3001);
        CHECK_EQ(roce_odp_get(odp, 1, FIRST(set)), 0x1001);
    }
    /* Cleared chunks are free for every owner. */
    roce_odp_clear(odp, 1, 0, UINT64_MAX);
    for (set = 0; set < 60; set++) {
        roce_odp_set(odp, 20, 3, FIRST(set), 0x3001);
    }
    for (set = 0; set < 60; set++) {
        CHECK_EQ(roce_odp_get(odp, 20, FIRST(set)), 0x3001);
    }
    roce_odp_free(odp);
}

#define SETS 40u

/* The number of pages of a region that are still present. */
static unsigned odp_sets(RoceOdp *odp, uint32_t region)
{
    unsigned count = 0;
    uint64_t set;

    for (set = 0; set < SETS; set++) {
        count += roce_odp_get(odp, region, FIRST(set)) != 0;
    }
    return count;
}

static void odp_flood(RoceOdp *odp, uint32_t region, uint32_t owner,
                      uint64_t sets)
{
    uint64_t set;

    for (set = 0; set < sets; set++) {
        roce_odp_set(odp, region, owner, FIRST(set), 0x1001);
        REQUIRE(roce_odp_get(odp, region, FIRST(set)) == 0x1001);
    }
}

/*
 * A region takes no pages from another region of the same owner either. A peer
 * may have the key of a region that spans all addresses.
 */
static void region_displaces_only_its_own_pages(void)
{
    RoceOdp *odp = roce_odp_new(512, 4, 32, 0);

    odp_flood(odp, 1, 1, SETS);
    odp_flood(odp, 2, 1, 1000);
    CHECK_EQ(odp_sets(odp, 1), SETS);
    /* A new region gets its share only from the large one. */
    odp_flood(odp, 3, 1, SETS);
    odp_flood(odp, 2, 1, 1000);
    CHECK_EQ(odp_sets(odp, 1), SETS);
    CHECK_EQ(odp_sets(odp, 3), SETS);
    /* Another owner gets half; these regions share the rest. */
    odp_flood(odp, 4, 2, SETS);
    odp_flood(odp, 2, 1, 1000);
    CHECK_EQ(odp_sets(odp, 4), SETS);
    CHECK_EQ(odp_sets(odp, 1), SETS);
    CHECK_EQ(odp_sets(odp, 3), SETS);
    /* A destroyed region has no share; a new one has. */
    roce_odp_clear(odp, 1, 0, UINT64_MAX);
    roce_odp_clear(odp, 3, 0, UINT64_MAX);
    roce_odp_clear(odp, 4, 0, UINT64_MAX);
    odp_flood(odp, 2, 1, 1000);
    odp_flood(odp, 3, 1, SETS);
    odp_flood(odp, 2, 1, 1000);
    CHECK_EQ(odp_sets(odp, 3), SETS);
    roce_odp_free(odp);
}

/* A peer's requests for absent pages displace no present page. */
static void page_requests_displace_no_present_page(void)
{
    RoceMrInit other = odp_init(0, UINT64_MAX, ALL);
    RocePacket packet;
    uint32_t key, i;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.b);
    CHECK_EQ(roce_mr_create(p.b.r, &other, &key), FAKERNIC_CMD_OK);
    CHECK_EQ(odp_update(&p.b, ROCE_PAGES_READABLE, BASE, 1), FAKERNIC_CMD_OK);
    for (i = 0; i < 8; i++) {
        packet = pair_packet(&p.a, &p.b, ROCE_BTH_READ_REQUEST, PAIR_PSN);
        packet.reth.address = FIRST(i);
        packet.reth.rkey = key;
        packet.reth.length = 8;
        pair_inject(&p, &p.b, &packet, NULL, 0);
    }
    CHECK(fake_next_page_request(p.b.host) != NULL);
    while (fake_next_page_request(p.b.host)) {
    }
    packet.reth.address = BASE;
    packet.reth.rkey = p.b.key;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK(fake_next_page_request(p.b.host) == NULL);
    CHECK_EQ(pair_qp(&p.b)->rs.epsn, roce_psn_next(PAIR_PSN));
}

#define HOGS 12u

/* A new QP that sends from this page of the region. */
static void odp_sender(Pair *p, PairHost *h, uint32_t page)
{
    RoceSendWr wr = odp_wr(p, page, FAKERNIC_SQ_SEND, page * PAGE, 8);

    pair_create(h, FAKERNIC_QP_RC);
    pair_connect(h, &p->b, FAKERNIC_QP_RC);
    pair_send(p, h, &wr);
}

/*
 * The host has room for two requests. QPs with low numbers request pages that
 * become absent again at once. A QP with a high number still gets its turn.
 */
static void page_requests_are_served_in_order(void)
{
    const FakePageRequest *request;
    unsigned answers;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.a);
    p.a.host->page_room = 2;
    for (i = 0; i <= HOGS; i++) {
        odp_sender(&p, &p.a, i);
    }
    for (answers = 0; answers < 10 * HOGS; answers++) {
        uint8_t buf[ROCE_FRAME_MAX];
        uint64_t page;
        bool loopback;

        CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
        request = fake_next_page_request(p.a.host);
        REQUIRE(request != NULL);
        page = request->address;
        if (page == BASE + HOGS * PAGE) {
            break;
        }
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_READABLE, page, 1),
                 FAKERNIC_CMD_OK);
        CHECK_EQ(odp_update(&p.a, ROCE_PAGES_ABSENT, page, 1),
                 FAKERNIC_CMD_OK);
        roce_page_requests_resume(p.a.r);
    }
    CHECK(answers <= HOGS);
}

/* Waiters for other pages are not woken. */
static void waiters_wake_only_for_their_pages(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    uint32_t i;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.a);
    for (i = 0; i < 4; i++) {
        odp_sender(&p, &p.a, i);
    }
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK_EQ(p.a.host->page_count, 4);
    CHECK_EQ(odp_update(&p.a, ROCE_PAGES_READABLE, BASE + 2 * PAGE, 1),
             FAKERNIC_CMD_OK);
    CHECK(roce_output(p.a.r, p.now, buf, &loopback) > 0);
    CHECK_EQ(roce_output(p.a.r, p.now, buf, &loopback), 0);
    CHECK_EQ(p.a.host->page_count, 4);
    CHECK_EQ(roce_qp_destroy(p.a.r, p.a.qpn), FAKERNIC_CMD_OK);
    CHECK_EQ(odp_update(&p.a, ROCE_PAGES_READABLE, BASE, 4), FAKERNIC_CMD_OK);
    CHECK(roce_output(p.a.r, p.now, buf, &loopback) > 0);
    CHECK_EQ(roce_mr_destroy(p.a.r, p.a.key), FAKERNIC_CMD_OK);
}

#define CROWD 400u
/* The largest number of wake-ups in one call. */
#define WAKES 256u

/* Many QPs that wait for the same page. */
static void odp_crowd(Pair *p)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    uint32_t i;

    pair_init(p, FAKERNIC_QP_RC);
    odp_region(&p->a);
    for (i = 0; i < CROWD; i++) {
        odp_sender(p, &p->a, 0);
    }
    while (roce_sched_has_next(p->a.r)) {
        CHECK_EQ(roce_output(p->a.r, p->now, buf, &loopback), 0);
    }
}

static RocePageUpdate odp_tell(Pair *p, const uint64_t *page)
{
    return (RocePageUpdate) {
        .key = p->a.key, .state = ROCE_PAGES_READABLE, .address = BASE,
        .page_count = 1, .page_shift = 12, .pages = page,
    };
}

static uint32_t odp_frames(Pair *p)
{
    uint8_t buf[ROCE_FRAME_MAX];
    uint32_t frames = 0;
    bool loopback;

    while (roce_sched_has_next(p->a.r)) {
        frames += roce_output(p->a.r, p->now, buf, &loopback) > 0;
    }
    return frames;
}

/*
 * The engine wakes the waiters of a page in parts. Between two parts the next
 * waiter is destroyed, and a QP that waits for another page is added.
 */
static void many_waiters_are_woken_in_parts(void)
{
    const uint64_t page = PAIR_MEMORY;
    uint32_t done = 0, calls = 1, frames = 0, gone = 0;
    RocePageUpdate update;
    uint64_t work;
    Pair p;

    odp_crowd(&p);
    update = odp_tell(&p, &page);
    CHECK_EQ(roce_mr_update_some(p.a.r, &update, &done, 1), FAKERNIC_CMD_OK);
    CHECK_EQ(done, 1);
    work = roce_work(p.a.r);
    while (!roce_wake_some(p.a.r)) {
        CHECK(roce_work(p.a.r) - work <= WAKES);
        frames += odp_frames(&p);
        CHECK_EQ(frames, calls * WAKES);
        CHECK_EQ(roce_qp_destroy(p.a.r, p.a.r->page_report.next->qp->qpn),
                 FAKERNIC_CMD_OK);
        gone++;
        odp_sender(&p, &p.a, 1);
        CHECK_EQ(odp_frames(&p), 0);
        calls++;
        work = roce_work(p.a.r);
    }
    frames += odp_frames(&p);
    CHECK_EQ(calls, (CROWD - gone + WAKES - 1) / WAKES);
    CHECK_EQ(frames, CROWD - gone);
    CHECK(roce_wake_some(p.a.r));
    pair_free(&p);
}

/* One refusal fails all waiters of the page, and no later request. */
static void refused_page_fails_all_its_waiters(void)
{
    uint32_t asked;
    Pair p;

    odp_crowd(&p);
    asked = p.a.host->page_count;
    CHECK_EQ(odp_update(&p.a, ROCE_PAGES_REFUSED, BASE, 1), FAKERNIC_CMD_OK);
    CHECK_EQ(odp_frames(&p), 0);
    CHECK_EQ(p.a.host->completion_count, CROWD);
    CHECK_EQ(p.a.host->completions[0].status, FAKERNIC_WC_LOC_PROT_ERR);
    CHECK_EQ(p.a.host->page_count, asked);
    odp_sender(&p, &p.a, 0);
    CHECK_EQ(odp_frames(&p), 0);
    CHECK_EQ(p.a.host->completion_count, CROWD);
    CHECK_EQ(p.a.host->page_count, asked + 1);
    pair_free(&p);
}

/* The chunks of a full table, in which no region has more than the minimum
 * share. */
#define FULL_CHUNKS 1024u
#define CHUNK_BYTES ((uint64_t)ROCE_ODP_CHUNK * PAGE)

/* Fills all chunks. No region gets more than the minimum share. */
static void odp_fill(Pair *p)
{
    const uint64_t page = PAIR_MEMORY;
    RoceMrInit init = odp_init(BASE, UINT64_MAX - BASE, ALL);
    uint32_t i;

    for (i = 0; i < FULL_CHUNKS; i++) {
        RocePageUpdate update = odp_tell(p, &page);

        if (i % ROCE_ODP_SHARE_MIN == 0) {
            CHECK_EQ(roce_mr_create(p->a.r, &init, &p->a.key),
                     FAKERNIC_CMD_OK);
        }
        update.key = p->a.key;
        update.address += i * CHUNK_BYTES;
        CHECK_EQ(roce_mr_update_pages(p->a.r, &update), FAKERNIC_CMD_OK);
    }
    init.length = CROWD * CHUNK_BYTES;
    CHECK_EQ(roce_mr_create(p->a.r, &init, &p->a.key), FAKERNIC_CMD_OK);
}

/* A pair whose first host has a full table. */
static void pair_init_full(Pair *p)
{
    pair_limits.max_odp_chunks = FULL_CHUNKS;
    pair_init(p, FAKERNIC_QP_RC);
    pair_limits.max_odp_chunks = PAIR_ODP_CHUNKS;
    odp_fill(p);
}

/* Maps two pages for a request, both to the same memory. False: no request. */
static bool odp_serve_two(Pair *p)
{
    const uint64_t pages[2] = { PAIR_MEMORY, PAIR_MEMORY };
    const FakePageRequest *request = fake_next_page_request(p->a.host);
    RocePageUpdate update = odp_tell(p, pages);

    if (!request) {
        return false;
    }
    update.address = request->address & ~(uint64_t)(PAGE - 1);
    update.page_count = 2;
    CHECK_EQ(roce_mr_update_pages(p->a.r, &update), FAKERNIC_CMD_OK);
    return true;
}

/* A packet may be gathered from two chunks per SGE. A share has room for all of
 * them, whatever other regions have. */
static void share_of_pages_suffices_for_a_packet(void)
{
    uint32_t answers = 0, frames, i;
    RoceSendWr wr;
    Pair p;

    pair_init_full(&p);
    wr = odp_wr(&p, 0, FAKERNIC_SQ_SEND, 0, 8);
    wr.sge_count = FAKERNIC_SGE_MAX;
    for (i = 0; i < FAKERNIC_SGE_MAX; i++) {
        wr.sge[i] = wr.sge[0];
        wr.sge[i].address = BASE + (2 * i + 1) * CHUNK_BYTES - 4;
    }
    pair_send(&p, &p.a, &wr);
    while ((frames = odp_frames(&p)) == 0 && answers < CROWD &&
           odp_serve_two(&p)) {
        answers++;
    }
    CHECK_EQ(frames, 1);
    CHECK_EQ(answers, FAKERNIC_SGE_MAX);
    pair_free(&p);
}

/* To refuse a page, the engine must find a place in the table for each waiter.
 * It counts that work and does it in parts. */
static void refused_waiters_are_found_in_parts(void)
{
    RocePageUpdate update;
    uint32_t done = 0, i;
    uint64_t work;
    Pair p;

    pair_init_full(&p);
    for (i = 0; i < CROWD; i++) {
        RoceSendWr wr = odp_wr(&p, i, FAKERNIC_SQ_SEND, i * CHUNK_BYTES, 8);

        pair_create(&p.a, FAKERNIC_QP_RC);
        pair_connect(&p.a, &p.b, FAKERNIC_QP_RC);
        pair_send(&p, &p.a, &wr);
    }
    CHECK_EQ(odp_frames(&p), 0);
    CHECK_EQ(p.a.host->page_count, CROWD);
    update = odp_tell(&p, NULL);
    update.state = ROCE_PAGES_REFUSED;
    update.page_count = CROWD * ROCE_ODP_CHUNK;
    CHECK_EQ(roce_mr_update_some(p.a.r, &update, &done, UINT32_MAX),
             FAKERNIC_CMD_OK);
    for (work = roce_work(p.a.r); !roce_wake_some(p.a.r);
         work = roce_work(p.a.r)) {
        CHECK(roce_work(p.a.r) - work <=
              WAKES + FULL_CHUNKS / ROCE_LOOKS_PER_STEP + 2);
    }
    CHECK_EQ(odp_frames(&p), 0);
    CHECK(p.a.host->completion_count > 0);
    pair_free(&p);
}

/* The destruction of a region wakes its waiters in parts, too. A call that
 * cannot wait first finishes the wake-ups that an earlier call left. */
static void destroyed_region_wakes_waiters_in_parts(void)
{
    const uint64_t page = PAIR_MEMORY;
    RocePageUpdate update;
    uint32_t done = 0, calls = 1;
    uint64_t work;
    Pair p;

    odp_crowd(&p);
    CHECK_EQ(roce_mr_destroy_begin(p.a.r, p.a.key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_destroy_begin(p.a.r, p.a.key), FAKERNIC_CMD_BAD_ID);
    CHECK(!p.a.r->page_report.next);
    CHECK_EQ(odp_frames(&p), 0);
    pair_free(&p);
    odp_crowd(&p);
    CHECK_EQ(roce_mr_destroy_begin(p.a.r, p.a.key), FAKERNIC_CMD_OK);
    work = roce_work(p.a.r);
    while (!roce_wake_some(p.a.r)) {
        CHECK(roce_work(p.a.r) - work <= WAKES);
        work = roce_work(p.a.r);
        calls++;
    }
    CHECK_EQ(calls, (CROWD + WAKES - 1) / WAKES);
    pair_free(&p);
    odp_crowd(&p);
    update = odp_tell(&p, &page);
    CHECK_EQ(roce_mr_update_some(p.a.r, &update, &done, 1), FAKERNIC_CMD_OK);
    CHECK(!roce_wake_some(p.a.r));
    update.state = ROCE_PAGES_ABSENT;
    CHECK_EQ(roce_mr_update_pages(p.a.r, &update), FAKERNIC_CMD_OK);
    CHECK(!p.a.r->page_report.next);
    roce_reset(p.a.r);
    CHECK(roce_wake_some(p.a.r));
    pair_free(&p);
}

/* Once the host has room, the waiting requests are passed on in parts. */
static void waiting_page_requests_are_passed_in_parts(void)
{
    uint64_t work;
    uint32_t calls = 0;
    PAIR(p, FAKERNIC_QP_RC);

    odp_region(&p.a);
    p.a.host->page_room = 0;
    while (calls < CROWD) {
        odp_sender(&p, &p.a, calls++ % 2);
    }
    CHECK_EQ(odp_frames(&p), 0);
    p.a.host->page_room = FAKE_LOG;
    for (calls = 0; p.a.r->line_head; calls++) {
        work = roce_work(p.a.r);
        roce_page_requests_resume(p.a.r);
        CHECK(roce_work(p.a.r) > work);
        CHECK(roce_work(p.a.r) - work <= WAKES);
        while (fake_next_page_request(p.a.host)) {
        }
        fake_clear_logs(p.a.host);
    }
    CHECK_EQ(calls, (CROWD + WAKES - 1) / WAKES);
}

static const Test tests[] = {
    TEST(many_waiters_are_woken_in_parts),
    TEST(refused_page_fails_all_its_waiters),
    TEST(refused_waiters_are_found_in_parts),
    TEST(share_of_pages_suffices_for_a_packet),
    TEST(destroyed_region_wakes_waiters_in_parts),
    TEST(waiting_page_requests_are_passed_in_parts),
    TEST(owner_displaces_only_its_own_pages),
    TEST(region_displaces_only_its_own_pages),
    TEST(page_requests_displace_no_present_page),
    TEST(page_requests_are_served_in_order),
    TEST(waiters_wake_only_for_their_pages),
    TEST(table_finds_pages_that_were_set),
    TEST(full_table_drops_oldest_chunk),
    TEST(table_clears_ranges),
    TEST(table_counts_chains),
    TEST(table_chains_depend_on_the_seed),
    TEST(bad_regions_are_refused),
    TEST(bad_updates_are_refused),
    TEST(partial_update_wakes_no_later_waiter),
    TEST(windows_on_odp_regions_are_refused),
    TEST(sends_wait_for_absent_pages),
    TEST(page_becomes_absent_during_message),
    TEST(responses_wait_for_absent_pages),
    TEST(refused_page_or_key_fails_waiting_send),
    TEST(late_refusal_fails_no_later_request),
    TEST(err_and_reset_end_the_page_wait),
    TEST(receives_wait_for_absent_pages),
    TEST(rnr_timer_grows_while_page_is_absent),
    TEST(requests_wait_for_absent_pages),
    TEST(read_response_waits_for_page_midway),
    TEST(refused_pages_are_an_access_error),
    TEST(earlier_page_report_does_not_end_wait),
    TEST(writing_needs_a_writable_page),
    TEST(flush_skips_absent_pages),
    TEST(persistent_flush_requests_absent_pages),
    TEST(refused_page_fails_persistent_flush),
    TEST(persistent_flush_waits_behind_read),
    TEST(datagrams),
    TEST(frames),
    TEST(implicit_region),
    TEST(writes_and_reads_complete_while_pages_change),
};

TEST_MAIN(tests)
