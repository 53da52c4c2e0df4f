/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FLUSH (IBTA annex A19) over RC and XRC: what the host must flush and when,
 * the rights that it needs, loss, duplicates, malformed requests. Then the
 * memory of a key, which is flushed in steps.
 */
#define PAIR_ODP_CHUNKS 64
#include "pair.h"

#include "engine.h"

static const uint8_t services[] = { FAKERNIC_QP_RC, FAKERNIC_QP_XRC_INI };

static RoceSendWr flush_wr(const Pair *p, uint32_t index, uint32_t flush,
                           uint32_t offset, uint32_t length)
{
    RoceSendWr wr = pair_rdma_wr(&p->a, &p->b, index, FAKERNIC_SQ_FLUSH,
                                 offset, length);

    wr.rdma.flush = flush;
    /* Only the length of the SGE counts. */
    wr.sge[0].lkey = 0xbad;
    wr.sge[0].address = 0;
    if (flush & FAKERNIC_FLUSH_LEVEL_MR) {
        wr.sge_count = 0;
        wr.rdma.remote_address = 0;
    }
    return wr;
}

/* The number of accesses of this kind. */
static unsigned flush_count(const PairHost *h, char kind)
{
    unsigned count = 0, i;

    for (i = 0; i < h->host->dma_count; i++) {
        count += h->host->dma[i].kind == kind;
    }
    return count;
}

static void check_flush(const PairHost *h, unsigned at, char kind,
                        uint64_t address, size_t len)
{
    REQUIRE(at < h->host->dma_count);
    CHECK_EQ(h->host->dma[at].kind, kind);
    CHECK_EQ(h->host->dma[at].address, address);
    CHECK_EQ(h->host->dma[at].len, len);
}

static void ranges_and_regions(void)
{
    unsigned i;

    for (i = 0; i < TEST_COUNT(services); i++) {
        RoceSendWr wr;
        PAIR(p, services[i]);

        wr = flush_wr(&p, 0, FAKERNIC_FLUSH_GLOBAL, 0x100, 5000);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(p.b.host->dma_count, 1);
        check_flush(&p.b, 0, 'f', PAIR_MEMORY + 0x100, 5000);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_SUCCESS);

        wr = flush_wr(&p, 1, FAKERNIC_FLUSH_PERSISTENT, 0, 1);
        pair_send(&p, &p.a, &wr);
        wr = flush_wr(&p, 2, FAKERNIC_FLUSH_PERSISTENT | FAKERNIC_FLUSH_GLOBAL |
                             FAKERNIC_FLUSH_LEVEL_MR, 0, 0);
        pair_send(&p, &p.a, &wr);
        wr = flush_wr(&p, 3, FAKERNIC_FLUSH_GLOBAL, 0, 0);
        wr.rdma.rkey = 0;               /* ignored for 0 bytes */
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        CHECK_EQ(p.b.host->dma_count, 3);
        check_flush(&p.b, 1, 'p', PAIR_MEMORY, 1);
        check_flush(&p.b, 2, 'p', PAIR_MEMORY, PAIR_SIZE);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 1, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 2, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 3, FAKERNIC_WC_SUCCESS);
        CHECK_EQ(p.a.host->dma_count, 0);       /* its SGEs name no memory */
    }
}

static void flush_packets_have_their_headers(void)
{
    unsigned i;

    for (i = 0; i < TEST_COUNT(services); i++) {
        uint8_t base = i ? ROCE_BTH_XRC : ROCE_BTH_RC;
        uint8_t buf[ROCE_FRAME_MAX];
        RocePacket packet;
        RoceSendWr wr;
        PAIR(p, services[i]);

        wr = flush_wr(&p, 0, FAKERNIC_FLUSH_PERSISTENT, 16, 0x7fffffff);
        pair_send(&p, &p.a, &wr);
        REQUIRE(pair_take(&p, &p.a, buf, &packet));
        CHECK_EQ(packet.opcode, base | ROCE_BTH_FLUSH);
        CHECK_EQ(packet.feth, 2);
        CHECK_EQ(packet.reth.address, PAIR_MEMORY + 16);
        CHECK_EQ(packet.reth.rkey, p.b.key);
        CHECK_EQ(packet.reth.length, 0x7fffffff);
        CHECK(packet.ack_req);
        packet.reth.length = 8;
        pair_inject(&p, &p.b, &packet, NULL, 0);
        REQUIRE(pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(packet.opcode, base | ROCE_BTH_READ_RESPONSE_ONLY);
        CHECK_EQ(packet.payload_len, 0);
        CHECK_EQ(packet.psn, PAIR_PSN);
        CHECK_EQ(packet.aeth.msn, 1);
        CHECK(!pair_take(&p, &p.b, buf, &packet));
    }
}

/* The FLUSH follows all bytes of the WRITE before it, also after a loss. */
static void flush_follows_earlier_writes(void)
{
    unsigned lost, i;

    for (lost = 0; lost < 5; lost++) {
        unsigned last_write = 0, flush = 0;
        RoceSendWr wr;
        PAIR(p, FAKERNIC_QP_RC);

        pair_fill(p.a.memory, 900, 5);
        if (lost > 0) {
            pair_lose(&p.a, lost);
        }
        pair_post_rdma(&p, 0, FAKERNIC_SQ_RDMA_WRITE, 0, 900);
        wr = flush_wr(&p, 1, FAKERNIC_FLUSH_GLOBAL, 0, 900);
        pair_send(&p, &p.a, &wr);
        pair_run_until(&p, 1000000000);
        for (i = 0; i < p.b.host->dma_count; i++) {
            if (p.b.host->dma[i].kind == 'w') {
                last_write = i;
            } else if (p.b.host->dma[i].kind == 'f') {
                flush = i;
            }
        }
        CHECK(flush > last_write);
        CHECK_EQ(flush_count(&p.b, 'f'), 1);
        CHECK_MEM(p.b.memory, p.a.memory, 900);
        pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 0, FAKERNIC_WC_SUCCESS);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 1, FAKERNIC_WC_SUCCESS);
    }
}

/* A lost response is repeated, but nothing is flushed a second time. */
static void duplicate_flush_gets_only_a_response(void)
{
    unsigned i;

    for (i = 0; i < TEST_COUNT(services); i++) {
        RoceSendWr wr;
        PAIR(p, services[i]);

        pair_lose(&p.b, 1);
        wr = flush_wr(&p, 0, FAKERNIC_FLUSH_GLOBAL, 0, 4096);
        pair_send(&p, &p.a, &wr);
        pair_run_until(&p, 1000000000);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_SUCCESS);
        CHECK_EQ(flush_count(&p.b, 'f'), 1);
        CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DUPLICATES), 1);
        CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRANSMITS), 1);
    }
}

/* Each type needs its access right in the region and in the QP. */
static void flush_needs_its_access_right(void)
{
    static const struct {
        uint32_t qp, mr, flush;
        uint16_t vendor_err;
    } cases[] = {
        { FAKERNIC_ACCESS_FLUSH_GLOBAL, FAKERNIC_ACCESS_FLUSH_GLOBAL,
          FAKERNIC_FLUSH_GLOBAL, 0 },
        { FAKERNIC_ACCESS_FLUSH_GLOBAL, FAKERNIC_ACCESS_FLUSH_GLOBAL,
          FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_LEVEL_MR, 0 },
        { FAKERNIC_ACCESS_FLUSH_PERSISTENT, FAKERNIC_ACCESS_FLUSH_PERSISTENT,
          FAKERNIC_FLUSH_PERSISTENT, 0 },
        { FAKERNIC_ACCESS_FLUSH_PERSISTENT, FAKERNIC_ACCESS_FLUSH_GLOBAL,
          FAKERNIC_FLUSH_PERSISTENT, FAKERNIC_VENDOR_KEY_ACCESS },
        { FAKERNIC_ACCESS_FLUSH_PERSISTENT, FAKERNIC_ACCESS_FLUSH_GLOBAL,
          FAKERNIC_FLUSH_PERSISTENT | FAKERNIC_FLUSH_LEVEL_MR,
          FAKERNIC_VENDOR_KEY_ACCESS },
        { FAKERNIC_ACCESS_FLUSH_GLOBAL, FAKERNIC_ACCESS_FLUSH_PERSISTENT,
          FAKERNIC_FLUSH_GLOBAL, FAKERNIC_VENDOR_KEY_ACCESS },
        { FAKERNIC_ACCESS_FLUSH_GLOBAL, FAKERNIC_ACCESS_FLUSH_PERSISTENT,
          FAKERNIC_FLUSH_PERSISTENT, FAKERNIC_VENDOR_QP_ACCESS },
        { 0, FAKERNIC_ACCESS_FLUSH_GLOBAL, FAKERNIC_FLUSH_GLOBAL,
          FAKERNIC_VENDOR_QP_ACCESS },
        { FAKERNIC_ACCESS_FLUSH_GLOBAL | FAKERNIC_ACCESS_FLUSH_PERSISTENT,
          FAKERNIC_ACCESS_FLUSH_GLOBAL,
          FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_PERSISTENT,
          FAKERNIC_VENDOR_KEY_ACCESS },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        bool key = cases[i].vendor_err == FAKERNIC_VENDOR_KEY_ACCESS;
        RoceMrInit mr = { .access = cases[i].mr };
        RoceQpAttr attr = { .access_flags = cases[i].qp };
        RoceSendWr wr;
        PAIR(p, FAKERNIC_QP_RC);

        CHECK_EQ(roce_mr_rereg(p.b.r, FAKERNIC_REREG_ACCESS, &mr, &p.b.key),
                 FAKERNIC_CMD_OK);
        CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_ACCESS_FLAGS, &attr),
                 FAKERNIC_CMD_OK);
        wr = flush_wr(&p, 0, cases[i].flush, 0, 64);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        if (cases[i].vendor_err) {
            pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0,
                        key ? FAKERNIC_WC_REM_ACCESS_ERR
                            : FAKERNIC_WC_REM_INV_REQ_ERR);
            pair_expect_event(&p.b, key ? FAKERNIC_EVENT_QP_ACCESS_ERROR
                                        : FAKERNIC_EVENT_QP_REQUEST_ERROR);
            CHECK_EQ(p.b.host->events[0].vendor_err, cases[i].vendor_err);
            CHECK_EQ(p.b.host->dma_count, 0);
        } else {
            pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_SUCCESS);
            CHECK_EQ(p.b.host->dma_count, 1);
        }
    }
}

/* A range out of bounds, an unknown key, unreachable memory. */
static void flush_of_missing_memory_is_refused(void)
{
    static const struct {
        uint32_t offset, length, key, flush;
        bool unreachable;
        uint16_t vendor_err;
    } cases[] = {
        { PAIR_SIZE - 8, 9, 0, FAKERNIC_FLUSH_GLOBAL, false,
          FAKERNIC_VENDOR_KEY_BOUNDS },
        { 0, 8, 1, FAKERNIC_FLUSH_GLOBAL, false, FAKERNIC_VENDOR_KEY_TAG },
        { 0, 0, 1, FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_LEVEL_MR, false,
          FAKERNIC_VENDOR_KEY_TAG },
        { 0, 0, 0x500, FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_LEVEL_MR, false,
          FAKERNIC_VENDOR_KEY_INDEX },
        { 0, 8, 0, FAKERNIC_FLUSH_GLOBAL, true, FAKERNIC_VENDOR_KEY_DMA },
        { 0, 8, 0, FAKERNIC_FLUSH_GLOBAL | FAKERNIC_FLUSH_LEVEL_MR, true,
          FAKERNIC_VENDOR_KEY_DMA },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        RoceSendWr wr;
        PAIR(p, FAKERNIC_QP_RC);

        fake_memory_unreachable(p.b.host, PAIR_MEMORY, cases[i].unreachable);
        wr = flush_wr(&p, 0, cases[i].flush, cases[i].offset,
                      cases[i].length);
        wr.rdma.rkey ^= cases[i].key;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_REM_ACCESS_ERR);
        pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
        CHECK_EQ(p.b.host->events[0].vendor_err, cases[i].vendor_err);
    }
}

static void malformed_work_requests(void)
{
    static const struct {
        uint8_t type, flags, status;
        uint32_t flush, length;
        uint16_t vendor_err;
    } cases[] = {
        { FAKERNIC_QP_RC, 0, FAKERNIC_WC_LOC_QP_OP_ERR, 0, 8,
          FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_QP_RC, 0, FAKERNIC_WC_LOC_QP_OP_ERR,
          FAKERNIC_FLUSH_LEVEL_MR, 8, FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_QP_RC, 0, FAKERNIC_WC_LOC_QP_OP_ERR,
          FAKERNIC_FLUSH_GLOBAL | 4, 8, FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_QP_RC, 0, FAKERNIC_WC_LOC_QP_OP_ERR,
          FAKERNIC_FLUSH_GLOBAL | 32, 8, FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_QP_RC, FAKERNIC_SQ_INLINE, FAKERNIC_WC_LOC_QP_OP_ERR,
          FAKERNIC_FLUSH_GLOBAL, 8, FAKERNIC_VENDOR_SQ_FORMAT },
        { FAKERNIC_QP_RC, 0, FAKERNIC_WC_LOC_LEN_ERR, FAKERNIC_FLUSH_GLOBAL,
          0x80000001, FAKERNIC_VENDOR_LENGTH },
        { FAKERNIC_QP_UC, 0, FAKERNIC_WC_LOC_QP_OP_ERR, FAKERNIC_FLUSH_GLOBAL,
          8, FAKERNIC_VENDOR_SQ_OPCODE },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        RoceSendWr wr;
        PAIR(p, cases[i].type);

        wr = flush_wr(&p, 7, cases[i].flush, 0, cases[i].length);
        wr.sge_count = 1;
        wr.flags |= cases[i].flags;
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 7, cases[i].status);
        CHECK_EQ(p.a.host->completions[0].vendor_err, cases[i].vendor_err);
        CHECK_EQ(p.a.sent, 0);
    }
}

static void malformed_packets(void)
{
    static const struct {
        uint32_t feth, length;
        uint16_t vendor_err;
    } cases[] = {
        { 0, 8, FAKERNIC_VENDOR_REQUEST_OPCODE },
        { 0x10, 8, FAKERNIC_VENDOR_REQUEST_OPCODE },
        { 0x21, 8, FAKERNIC_VENDOR_REQUEST_OPCODE },
        { 0x80000001, 8, FAKERNIC_VENDOR_REQUEST_OPCODE },
        { 1, 0x80000001, FAKERNIC_VENDOR_REQUEST_LENGTH },
    };
    unsigned i;

    for (i = 0; i < TEST_COUNT(cases); i++) {
        RocePacket packet;
        PAIR(p, FAKERNIC_QP_RC);

        packet = pair_packet(&p.a, &p.b, ROCE_BTH_FLUSH, PAIR_PSN);
        packet.feth = cases[i].feth;
        packet.reth.address = PAIR_MEMORY;
        packet.reth.rkey = p.b.key;
        packet.reth.length = cases[i].length;
        pair_inject(&p, &p.b, &packet, NULL, 0);
        pair_run(&p);
        pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
        CHECK_EQ(p.b.host->events[0].vendor_err, cases[i].vendor_err);
        CHECK_EQ(p.b.host->dma_count, 0);
    }
}

/* A FLUSH takes one of the resources of READs and atomics. */
static void outstanding_flushes_are_limited(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceQpAttr attr = { .max_rd_atomic = 0 };
    RocePacket packet;
    RoceSendWr wr;
    unsigned i;
    Pair p;

    pair_init(&p, FAKERNIC_QP_RC);
    for (i = 0; i < 6; i++) {
        wr = flush_wr(&p, i, FAKERNIC_FLUSH_GLOBAL, 0, 8);
        pair_send(&p, &p.a, &wr);
    }
    for (i = 0; i < 4; i++) {
        CHECK(pair_take(&p, &p.a, buf, &packet));
    }
    CHECK(!pair_take(&p, &p.a, buf, &packet));
    pair_free(&p);

    pair_init(&p, FAKERNIC_QP_RC);
    for (i = 0; i < 5; i++) {
        packet = pair_packet(&p.a, &p.b, ROCE_BTH_FLUSH, PAIR_PSN + i);
        packet.feth = FAKERNIC_FLUSH_GLOBAL;
        pair_inject(&p, &p.b, &packet, NULL, 0);
    }
    pair_run(&p);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_REQUEST_ERROR);
    CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_REQUEST_READS);
    pair_free(&p);

    pair_init(&p, FAKERNIC_QP_RC);
    attr.state = FAKERNIC_QPS_SQD;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_MAX_RD_ATOMIC, &attr),
             FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    wr = flush_wr(&p, 0, FAKERNIC_FLUSH_GLOBAL, 0, 8);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_LOC_QP_OP_ERR);
    pair_free(&p);
}

/* ---- memory -------------------------------------------------------------- */

/* Does all steps of a FLUSH. False: the host failed. */
static bool flush_whole(const RoceMrTable *t, const RoceMr *mr,
                        uint64_t address, uint64_t len, bool persistent,
                        FakeHost *host)
{
    RoceFlushRange range = {
        .address = address, .left = len, .persistent = persistent,
    };
    RoceFlush flush;

    do {
        unsigned before = host->dma_count;

        flush = roce_mr_flush(t, mr, &range);
        CHECK(host->dma_count <= before + ROCE_FLUSH_PARTS);
    } while (flush == ROCE_FLUSH_MORE);
    CHECK(flush == ROCE_FLUSH_FAILED || range.left == 0);
    return flush == ROCE_FLUSH_DONE;
}

/* A region of 'count' pages, which alternate between two pages of memory. */
static const RoceMr *scattered(PairHost *h, uint32_t count, uint32_t *key)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_MEMORY, .page_shift = 12, .pd = 1,
        .access = FAKERNIC_ACCESS_FLUSH_GLOBAL |
                  FAKERNIC_ACCESS_FLUSH_PERSISTENT,
        .page_count = count,
        .iova = 0x500000, .length = (uint64_t)count << 12,
    };
    const RoceMr *mr;
    uint32_t i;

    fake_memory_add(h->host, 0x10000, 0x30000);
    init.pages = malloc(count * sizeof(uint64_t));
    for (i = 0; i < count; i++) {
        init.pages[i] = i % 2 ? 0x10000 : 0x20000;
    }
    CHECK_EQ(roce_mr_create(h->r, &init, key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_check_key(h->r->mrs, &(RoceAccess) { .key = *key,
                                                          .pd = 1 }, &mr), 0);
    return mr;
}

/* Scattered pages are flushed one by one, adjacent pages together. */
static void adjacent_pages_are_flushed_together(void)
{
    static const uint64_t pages[] = { 0x10000, 0x30000, 0x31000, 0x20000 };
    RoceMrInit init = {
        .type = FAKERNIC_MR_MEMORY, .page_shift = 12, .pd = 1,
        .access = FAKERNIC_ACCESS_FLUSH_GLOBAL, .page_count = 4,
        .iova = 0x500800, .length = 0x3000,
    };
    RoceFlushRange all;
    RoceAccess access;
    const RoceMr *mr;
    uint32_t key;
    PairHost h;

    pair_host_init(&h, 1);
    fake_memory_add(h.host, 0x10000, 0x30000);
    init.pages = malloc(sizeof(pages));
    memcpy(init.pages, pages, sizeof(pages));
    CHECK_EQ(roce_mr_create(h.r, &init, &key), FAKERNIC_CMD_OK);
    access = (RoceAccess) {
        .key = key,
        .pd = 1,
        .rights = FAKERNIC_ACCESS_FLUSH_GLOBAL,
    };
    CHECK_EQ(roce_mr_check_key(h.r->mrs, &access, &mr), 0);
    CHECK(roce_mr_flush_all(mr, &all));
    CHECK(flush_whole(h.r->mrs, mr, all.address, all.left, true, h.host));
    CHECK_EQ(h.host->dma_count, 3);
    check_flush(&h, 0, 'p', 0x10800, 0x800);
    check_flush(&h, 1, 'p', 0x30000, 0x2000);
    check_flush(&h, 2, 'p', 0x20000, 0x800);
    CHECK(flush_whole(h.r->mrs, mr, 0x500fff, 2, true, h.host));
    check_flush(&h, 3, 'p', 0x10fff, 1);
    check_flush(&h, 4, 'p', 0x30000, 1);
    roce_free(h.r);
    fake_host_free(h.host);
}

/* Global visibility takes one barrier, whatever the range. */
static void global_visibility_takes_one_barrier(void)
{
    const RoceMr *mr;
    uint32_t key;
    PairHost h;

    pair_host_init(&h, 1);
    mr = scattered(&h, 1000, &key);
    CHECK(flush_whole(h.r->mrs, mr, 0x500010, 1000 * 4096 - 0x10, false,
                      h.host));
    CHECK_EQ(h.host->dma_count, 1);
    check_flush(&h, 0, 'f', 0x20010, 0xff0);
    roce_free(h.r);
    fake_host_free(h.host);
}

/* Absent pages do not take one step each. */
static void absent_pages_are_skipped_in_few_steps(void)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_ON_DEMAND, .page_shift = 12, .pd = 1,
        .access = FAKERNIC_ACCESS_ON_DEMAND | FAKERNIC_ACCESS_FLUSH_GLOBAL,
        .length = 1ull << 40,
    };
    const uint64_t there = PAIR_MEMORY;
    RocePageUpdate update = {
        .state = ROCE_PAGES_READABLE, .address = 0x7ffff000,
        .page_count = 1, .page_shift = 12, .pages = &there,
    };
    RoceFlushRange range = { .left = 0x80000000 };
    unsigned steps = 1;
    const RoceMr *mr;
    PairHost h;

    pair_host_init(&h, 1);
    CHECK_EQ(roce_mr_create(h.r, &init, &update.key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_update_pages(h.r, &update), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_check_key(h.r->mrs, &(RoceAccess) { .key = update.key,
                                                         .pd = 1 }, &mr), 0);
    while (roce_mr_flush(h.r->mrs, mr, &range) ==
           ROCE_FLUSH_MORE) {
        CHECK_EQ(h.host->dma_count, 0);
        steps++;
    }
    CHECK(steps < 20);          /* 524,288 pages in 1,024 chunks */
    CHECK_EQ(h.host->dma_count, 1);
    check_flush(&h, 0, 'f', PAIR_MEMORY, 4096);
    roce_free(h.r);
    fake_host_free(h.host);
}

#define CHUNKS 64
#define CHUNK_BYTES (ROCE_ODP_CHUNK * 4096u)

/* An on-demand region without present pages. In each chunk one page was present
 * before. Returns its key. */
static uint32_t absent_region(PairHost *h)
{
    RoceMrInit init = {
        .type = FAKERNIC_MR_ON_DEMAND, .page_shift = 12, .pd = 1,
        .access = FAKERNIC_ACCESS_ON_DEMAND | FAKERNIC_ACCESS_FLUSH_GLOBAL,
        .length = 1ull << 40,
    };
    const uint64_t there = PAIR_MEMORY;
    RocePageUpdate update = {
        .page_count = 1, .page_shift = 12, .pages = &there,
    };

    CHECK_EQ(roce_mr_create(h->r, &init, &update.key), FAKERNIC_CMD_OK);
    for (unsigned i = 0; i < CHUNKS; i++) {
        update.address = (uint64_t)i * CHUNK_BYTES;
        update.state = ROCE_PAGES_READABLE;
        CHECK_EQ(roce_mr_update_pages(h->r, &update), FAKERNIC_CMD_OK);
        update.state = ROCE_PAGES_ABSENT;
        CHECK_EQ(roce_mr_update_pages(h->r, &update), FAKERNIC_CMD_OK);
    }
    return update.key;
}

/*
 * The engine checks pages of a known chunk one by one. It counts that work, and
 * one step checks at most eight chunks.
 */
static void checks_of_absent_pages_are_counted_and_bounded(void)
{
    RoceFlushRange range = { .left = CHUNKS * CHUNK_BYTES };
    RoceAccess access = { .pd = 1 };
    uint64_t work, total = 0;
    RoceFlush flush;
    const RoceMr *mr;
    PairHost h;

    pair_host_init(&h, 1);
    access.key = absent_region(&h);
    CHECK_EQ(roce_mr_check_key(h.r->mrs, &access, &mr), 0);
    do {
        work = roce_work(h.r);
        flush = roce_mr_flush(h.r->mrs, mr, &range);
        work = roce_work(h.r) - work;
        CHECK(work <= 8 * ROCE_ODP_CHUNK / ROCE_LOOKS_PER_STEP);
        total += work;
    } while (flush == ROCE_FLUSH_MORE);
    CHECK_EQ(flush, ROCE_FLUSH_DONE);
    /* Chunks that share a bucket of the table cost more checks. */
    CHECK(total >= CHUNKS * ROCE_ODP_CHUNK / ROCE_LOOKS_PER_STEP);
    CHECK(total <= CHUNKS * (ROCE_ODP_CHUNK + 16) / ROCE_LOOKS_PER_STEP);
    CHECK_EQ(h.host->dma_count, 0);
    roce_free(h.r);
    fake_host_free(h.host);
}

/* roce_output() continues a FLUSH, but only for a part of it, and sets the
 * deadline so that it is called again at once. */
static void output_continues_flush_in_parts(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    unsigned parts = 0;
    bool loopback;
    RoceSendWr wr;
    uint64_t work;
    size_t len;
    PAIR(p, FAKERNIC_QP_RC);

    wr = flush_wr(&p, 0, FAKERNIC_FLUSH_GLOBAL, 0, CHUNKS * CHUNK_BYTES);
    wr.rdma.remote_address = 0;
    wr.rdma.rkey = absent_region(&p.b);
    pair_send(&p, &p.a, &wr);
    CHECK(pair_step(&p, &p.a, &p.b));
    for (;;) {
        work = roce_work(p.b.r);
        len = roce_output(p.b.r, p.now, buf, &loopback);
        CHECK(roce_work(p.b.r) - work <= 2 * ROCE_STEPS_PER_OUTPUT +
                                             ROCE_TURNS_PER_OUTPUT);
        if (len > 0) {
            break;
        }
        CHECK_EQ(roce_deadline(p.b.r), 0);
        REQUIRE(++parts < CHUNKS);
    }
    CHECK(parts >= 3);
    roce_input(p.a.r, p.now, buf, len);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_SUCCESS);
}

/* The null region has nothing to flush. A FLUSH of the whole DMA region is
 * refused, but not one of a range. */
static void flush_of_unbounded_regions(void)
{
    RoceMrInit init = {
        .pd = 1, .access = FAKERNIC_ACCESS_FLUSH_GLOBAL |
                  FAKERNIC_ACCESS_MW_BIND,
    };
    RoceSendWr bind = { .opcode = FAKERNIC_SQ_BIND_MW };
    uint32_t null_key, dma_key, mw;
    RoceFlushRange all;
    RoceAccess access;
    const RoceMr *mr;
    PairHost h;

    pair_host_init(&h, 1);
    init.type = FAKERNIC_MR_NULL;
    CHECK_EQ(roce_mr_create(h.r, &init, &null_key), FAKERNIC_CMD_OK);
    init.type = FAKERNIC_MR_DMA;
    CHECK_EQ(roce_mr_create(h.r, &init, &dma_key), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_check_key(h.r->mrs, &(RoceAccess) { .key = null_key,
                                                         .pd = 1 }, &mr), 0);
    CHECK(roce_mr_flush_all(mr, &all));
    CHECK_EQ(all.left, 0);
    CHECK(flush_whole(h.r->mrs, mr, 1, 100, false, h.host));
    CHECK_EQ(roce_mr_check_key(h.r->mrs, &(RoceAccess) { .key = dma_key,
                                                         .pd = 1 }, &mr), 0);
    CHECK(!roce_mr_flush_all(mr, &all));
    CHECK_EQ(h.host->dma_count, 0);
    CHECK(flush_whole(h.r->mrs, mr, PAIR_MEMORY + 3, 100, false, h.host));
    check_flush(&h, 0, 'f', PAIR_MEMORY + 3, 100);
    /* A range longer than one call may be: in pieces, until memory ends. */
    CHECK(!flush_whole(h.r->mrs, mr, PAIR_MEMORY, 0x80000000u, true, h.host));
    check_flush(&h, 1, 'p', PAIR_MEMORY, 0x40000000);

    /* A window on all of memory is refused, too. */
    CHECK_EQ(roce_mw_create(h.r, FAKERNIC_MW_TYPE_2B, 0, 1, &mw),
             FAKERNIC_CMD_OK);
    bind.bind_mw.mw_key = bind.bind_mw.new_key = mw;
    bind.bind_mw.mr_key = dma_key;
    bind.bind_mw.length = 1ull << 62;
    bind.bind_mw.access = FAKERNIC_ACCESS_FLUSH_GLOBAL;
    CHECK_EQ(roce_mr_bind_mw(h.r->mrs, 1, 3, &bind), 0);
    access = (RoceAccess) {
        .key = mw,
        .pd = 1,
        .qpn = 3,
        .rights = FAKERNIC_ACCESS_FLUSH_GLOBAL,
    };
    CHECK_EQ(roce_mr_check_key(h.r->mrs, &access, &mr), 0);
    CHECK(!roce_mr_flush_all(mr, &all));
    roce_free(h.r);
    fake_host_free(h.host);
}

/* ---- a FLUSH that takes long --------------------------------------------- */

/* The host does not flush thousands of pages at once for one packet. */
static void long_flush_continues_in_later_turns(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RoceFlushRange range;
    const unsigned most = ROCE_TURNS_PER_OUTPUT * ROCE_FLUSH_PARTS;
    unsigned before = ROCE_FLUSH_PARTS;
    RocePacket packet;
    uint32_t key;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK(roce_mr_flush_all(scattered(&p.b, 9000, &key), &range));
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_FLUSH, PAIR_PSN);
    packet.feth = FAKERNIC_FLUSH_PERSISTENT | FAKERNIC_FLUSH_LEVEL_MR;
    packet.reth.rkey = key;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(p.b.host->dma_count, before);
    while (!pair_take(&p, &p.b, buf, &packet)) {
        CHECK_EQ(roce_deadline(p.b.r), 0);
        CHECK(p.b.host->dma_count <= before + most);
        REQUIRE(p.b.host->dma_count > before);
        before = p.b.host->dma_count;
    }
    CHECK(p.b.host->dma_count <= before + most);
    CHECK_EQ(packet.opcode, ROCE_BTH_RC | ROCE_BTH_READ_RESPONSE_ONLY);
    CHECK_EQ(p.b.host->dma_count, 9000);
    CHECK_EQ(roce_deadline(p.b.r), ROCE_TIME_NEVER);
}

static void flush_ended(PairHost *h, bool ok)
{
    roce_flush_ended(h->r, h->host->flush_qpn, h->host->flush_ticket, ok);
}

/*
 * The host waits for its medium. Requests behind the FLUSH are executed after
 * it, and wait for no timer.
 */
static void later_requests_wait_for_flush(void)
{
    RoceSendWr wr;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    p.b.host->flush_begun = 3;
    p.b.host->flush_part = 200;
    p.a.memory[0] = 9;
    wr = flush_wr(&p, 0, FAKERNIC_FLUSH_PERSISTENT, 64, 500);
    pair_send(&p, &p.a, &wr);
    for (i = 0; i < 3; i++) {
        pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 8);
    }
    pair_run(&p);
    for (i = 0; i < 3; i++) {
        CHECK_EQ(p.b.host->dma_count, i + 1);
        CHECK_EQ(p.b.memory[0], 0);
        pair_expect_none(&p.a);
        CHECK_EQ(roce_deadline(p.b.r), ROCE_TIME_NEVER);
        /* The end of another FLUSH, or of another QP's, does not end it. */
        roce_flush_ended(p.b.r, p.b.qpn, p.b.host->flush_ticket - 1, true);
        roce_flush_ended(p.b.r, 0xffffff, p.b.host->flush_ticket, true);
        CHECK(!roce_flush_resume(p.b.r));
        pair_run(&p);
        CHECK_EQ(p.b.host->dma_count, i + 1);
        CHECK_EQ(p.b.memory[0], 0);
        flush_ended(&p.b, true);
        pair_run(&p);
    }
    check_flush(&p.b, 0, 'p', PAIR_MEMORY + 64, 500);
    check_flush(&p.b, 1, 'p', PAIR_MEMORY + 264, 300);
    check_flush(&p.b, 2, 'p', PAIR_MEMORY + 464, 100);
    CHECK_EQ(p.b.host->dma[3].kind, 'w');
    CHECK_EQ(p.b.memory[0], 9);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 0);
    flush_ended(&p.b, true);
}

/*
 * The medium fails: the peer reports an error and executes no later request.
 */
static void failed_medium_is_reported_to_peer(void)
{
    RoceSendWr wr;
    PAIR(p, FAKERNIC_QP_RC);

    p.b.host->flush_begun = 1;
    p.b.host->flush_part = 8;
    wr = flush_wr(&p, 0, FAKERNIC_FLUSH_PERSISTENT, 0, 8);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    pair_expect_none(&p.a);
    flush_ended(&p.b, false);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0, FAKERNIC_WC_REM_ACCESS_ERR);
    pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
    CHECK_EQ(p.b.host->dma_count, 1);
}

/* A FLUSH request for 8 bytes with the first PSN arrives at b. */
static void ask_for_flush(Pair *p)
{
    RocePacket packet = pair_packet(&p->a, &p->b, ROCE_BTH_FLUSH, PAIR_PSN);

    packet.feth = FAKERNIC_FLUSH_PERSISTENT;
    packet.reth.address = PAIR_MEMORY;
    packet.reth.rkey = p->b.key;
    packet.reth.length = 8;
    pair_inject(p, &p->b, &packet, NULL, 0);
}

/* Duplicates arrive during the FLUSH: one response, when it is done. */
static void duplicates_during_flush_get_one_response(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    unsigned i;
    PAIR(p, FAKERNIC_QP_RC);

    p.b.host->flush_later = 1;
    for (i = 0; i < 3; i++) {
        ask_for_flush(&p);
        CHECK(!pair_take(&p, &p.b, buf, &packet));
    }
    CHECK_EQ(p.b.host->dma_count, 1);
    roce_flush_resume(p.b.r);
    REQUIRE(pair_take(&p, &p.b, buf, &packet));
    CHECK_EQ(packet.opcode, ROCE_BTH_RC | ROCE_BTH_READ_RESPONSE_ONLY);
    CHECK_EQ(p.b.host->dma_count, 2);
    CHECK(!pair_take(&p, &p.b, buf, &packet));
}

/* The region or the QP is destroyed, or the QP changes its state, before the
 * FLUSH begins or during it. */
static void destroyed_object_ends_flush(void)
{
    RoceSendWr wr;
    unsigned i;
    Pair p;

    for (i = 0; i < 8; i++) {
        const bool begun = i >= 4;
        RoceQpAttr attr = {
            .state = i % 4 == 1 ? FAKERNIC_QPS_ERR : FAKERNIC_QPS_RESET,
        };

        pair_init(&p, FAKERNIC_QP_RC);
        p.b.host->flush_later = !begun;
        p.b.host->flush_begun = begun;
        p.b.host->flush_part = 8;
        wr = flush_wr(&p, 0, FAKERNIC_FLUSH_PERSISTENT, 0, 16);
        pair_send(&p, &p.a, &wr);
        pair_run(&p);
        if (i % 4 == 0) {
            CHECK_EQ(roce_mr_destroy(p.b.r, p.b.key), FAKERNIC_CMD_OK);
        } else if (i % 4 < 3) {
            CHECK_EQ(pair_modify(&p.b, 0, FAKERNIC_QP_ATTR_STATE, &attr),
                     FAKERNIC_CMD_OK);
        } else {
            CHECK_EQ(roce_qp_destroy(p.b.r, p.b.qpn), FAKERNIC_CMD_OK);
        }
        if (begun) {
            flush_ended(&p.b, true);
        }
        CHECK_EQ(roce_flush_resume(p.b.r), i == 0);
        pair_run(&p);
        CHECK_EQ(p.b.host->dma_count, 1);
        if (i % 4 == 0) {
            pair_expect(&p.a, FAKERNIC_CQE_FLUSH, 0,
                        FAKERNIC_WC_REM_ACCESS_ERR);
            pair_expect_event(&p.b, FAKERNIC_EVENT_QP_ACCESS_ERROR);
        } else {
            pair_expect_none(&p.a);
        }
        pair_free(&p);
    }
}

/*
 * The responder's GID is removed during the FLUSH and set again. A FLUSH that
 * has begun ends, and a repeated request gets a response.
 */
static void flush_survives_removal_of_gid(void)
{
    static const struct {
        unsigned later, begun;
        uint64_t part;
        bool ok;
    } cases[] = {
        { 1, 0, 0, true }, { 0, 1, 8, true }, { 0, 1, 8, false },
        { 0, 2, 4, true }, { 0, 0, 0, true },
    };
    const RoceGid none = { .type = FAKERNIC_GID_NONE };

    for (unsigned i = 0; i < TEST_COUNT(cases); i++) {
        uint8_t buf[ROCE_FRAME_MAX];
        RocePacket packet;
        PAIR(p, FAKERNIC_QP_RC);

        p.b.host->flush_later = cases[i].later;
        p.b.host->flush_begun = cases[i].begun;
        p.b.host->flush_part = cases[i].part;
        ask_for_flush(&p);
        CHECK_EQ(roce_gid_set(p.b.r, 0, &none), FAKERNIC_CMD_OK);
        for (unsigned j = 0; j < 3; j++) {
            CHECK(!pair_take(&p, &p.b, buf, &packet));
            CHECK(roce_deadline(p.b.r) > 0);    /* it does not spin */
            roce_flush_resume(p.b.r);
            flush_ended(&p.b, cases[i].ok);
        }
        CHECK(!pair_take(&p, &p.b, buf, &packet));
        CHECK_EQ(pair_state(&p.b), cases[i].ok ? FAKERNIC_QPS_RTS
                                               : FAKERNIC_QPS_ERR);
        CHECK_EQ(roce_gid_set(p.b.r, 0, &p.b.gid), FAKERNIC_CMD_OK);
        if (cases[i].ok) {
            const unsigned flushes = p.b.host->dma_count;

            ask_for_flush(&p);
            REQUIRE(pair_take(&p, &p.b, buf, &packet));
            CHECK_EQ(packet.opcode,
                     ROCE_BTH_RC | ROCE_BTH_READ_RESPONSE_ONLY);
            CHECK_EQ(p.b.host->dma_count, flushes);
            /* The next request is executed. */
            packet = pair_packet(&p.a, &p.b, ROCE_BTH_WRITE_ONLY,
                                 PAIR_PSN + 1);
            packet.reth.address = PAIR_MEMORY;
            packet.reth.rkey = p.b.key;
            packet.reth.length = 4;
            pair_inject(&p, &p.b, &packet, "abcd", 4);
            CHECK_MEM(p.b.memory, "abcd", 4);
        }
    }
}

static const Test tests[] = {
    TEST(ranges_and_regions),
    TEST(flush_packets_have_their_headers),
    TEST(flush_follows_earlier_writes),
    TEST(duplicate_flush_gets_only_a_response),
    TEST(flush_needs_its_access_right),
    TEST(flush_of_missing_memory_is_refused),
    TEST(malformed_work_requests),
    TEST(malformed_packets),
    TEST(outstanding_flushes_are_limited),
    TEST(adjacent_pages_are_flushed_together),
    TEST(global_visibility_takes_one_barrier),
    TEST(absent_pages_are_skipped_in_few_steps),
    TEST(checks_of_absent_pages_are_counted_and_bounded),
    TEST(output_continues_flush_in_parts),
    TEST(flush_of_unbounded_regions),
    TEST(long_flush_continues_in_later_turns),
    TEST(later_requests_wait_for_flush),
    TEST(failed_medium_is_reported_to_peer),
    TEST(duplicates_during_flush_get_one_response),
    TEST(destroyed_object_ends_flush),
    TEST(flush_survives_removal_of_gid),
};

TEST_MAIN(tests)
