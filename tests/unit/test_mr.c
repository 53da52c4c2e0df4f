/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mr*.c: keys, rights, bounds, translation, windows, fast registration, scatter
 * and gather. The pages of regions are scattered over the fake host's memory so
 * that a wrong translation finds wrong bytes or none.
 */
#include "fake_host.h"
#include "harness.h"
#include "mr.h"

#define KIB4 4096ull
#define TABLE 64
#define PD 7
#define LOCAL FAKERNIC_ACCESS_LOCAL_WRITE
#define RD FAKERNIC_ACCESS_REMOTE_READ
#define WR FAKERNIC_ACCESS_REMOTE_WRITE
#define ATOMIC FAKERNIC_ACCESS_REMOTE_ATOMIC
#define BIND FAKERNIC_ACCESS_MW_BIND
#define ZERO FAKERNIC_ACCESS_ZERO_BASED
#define ALL (LOCAL | RD | WR | ATOMIC | BIND)
/* REMOTE_WRITE etc. are 64-bit masks; the engine's are 32 bits. */
#define A(x) ((uint32_t)(x))

static FakeHost *host;
static RoceMrTable *table;

static void setup(void)
{
    const RoceLimits limits = {
        .max_mr = TABLE, .max_pd = 256, .max_qp = 16,
    };

    host = fake_host_new();
    table = roce_mr_table_new(&limits, &fake_host_ops, host);
    REQUIRE(table);
}

static void teardown(void)
{
    roce_mr_table_free(table);
    fake_host_free(host);
}

/* Address of page n of region memory: far apart, in descending order. */
static uint64_t page_at(unsigned n)
{
    return 0x100000000ull - n * 0x10000ull;
}

/* A byte for each place of a region. */
static uint8_t pattern(uint64_t offset)
{
    return (uint8_t)(offset * 7 + (offset >> 8) * 13 + (offset >> 16));
}

static uint64_t *page_list(unsigned count)
{
    uint64_t *pages = malloc(count * sizeof(pages[0]));

    REQUIRE(pages);
    for (unsigned i = 0; i < count; i++) {
        pages[i] = page_at(i);
    }
    return pages;
}

/* Pages with the pattern, as seen by a region whose first byte is at offset. */
static void add_pages(unsigned count, uint64_t offset)
{
    for (unsigned i = 0; i < count; i++) {
        uint8_t *bytes = fake_memory_add(host, page_at(i), KIB4);

        for (unsigned j = 0; j < KIB4; j++) {
            bytes[j] = pattern(i * KIB4 + j - offset);
        }
    }
}

static RoceMrInit memory_init(uint64_t iova, uint64_t length, unsigned pages,
                              uint64_t access)
{
    return (RoceMrInit) {
        .type = FAKERNIC_MR_MEMORY, .tag = 0x5a, .page_shift = 12, .pd = PD,
        .access = A(access), .page_count = pages, .iova = iova,
        .length = length, .pages = page_list(pages),
    };
}

static uint32_t create_memory(uint64_t iova, uint64_t length, unsigned pages,
                              uint64_t access)
{
    RoceMrInit init = memory_init(iova, length, pages, access);
    uint32_t key = 0;

    REQUIRE(roce_mr_table_create(table, &init, &key) == FAKERNIC_CMD_OK);
    return key;
}

/* If creation fails, the caller still owns the pages. */
static void check_create(RoceMrInit init, int want)
{
    uint32_t key = 0;
    int got = roce_mr_table_create(table, &init, &key);

    CHECK_EQ(got, want);
    if (got == FAKERNIC_CMD_OK) {
        CHECK_EQ(roce_mr_table_destroy(table, key), FAKERNIC_CMD_OK);
    } else {
        free(init.pages);
    }
}

/* The next call overwrites the result. */
static const RoceAccess *access_to(uint32_t key, RocePd pd, uint32_t qpn,
                                   uint64_t address, uint64_t length,
                                   uint32_t rights)
{
    static RoceAccess access;

    access = (RoceAccess) { key, rights, pd, qpn, address, length };
    return &access;
}

static uint16_t check(uint32_t key, uint64_t address, uint64_t length,
                      uint64_t access)
{
    const RoceMr *mr;

    return roce_mr_check(table, access_to(key, PD, 0, address, length,
                                          A(access)), &mr);
}

static const RoceMr *grant_qp(uint32_t key, uint32_t qpn, uint64_t address,
                              uint64_t length, uint64_t access)
{
    const RoceMr *mr;

    REQUIRE(roce_mr_check(table, access_to(key, PD, qpn, address, length,
                                           A(access)), &mr) == 0);
    return mr;
}

static const RoceMr *grant(uint32_t key, uint64_t address, uint64_t length,
                           uint64_t access)
{
    return grant_qp(key, 0, address, length, access);
}

static void check_pattern(const uint8_t *bytes, uint64_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != pattern(offset + i)) {
            CHECK_EQ(bytes[i], pattern(offset + i));
            return;
        }
    }
}

/* ---- keys ---------------------------------------------------------------- */

static void key_is_index_and_tag(void)
{
    uint32_t key;

    setup();
    key = create_memory(0x10000, 100, 1, ALL);
    CHECK_EQ(key & 0xff, 0x5a);
    CHECK(key >> 8 != 0);
    CHECK_EQ(check(key, 0x10000, 100, 0), 0);
    CHECK_EQ(check(key + 1, 0x10000, 1, 0), FAKERNIC_VENDOR_KEY_TAG);
    CHECK_EQ(check(key + 0x100, 0x10000, 1, 0), FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(check(0, 0x10000, 1, 0), FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(check(0x5a, 0x10000, 1, 0), FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(check(TABLE << 8 | 0x5a, 0x10000, 1, 0),
             FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(check(0xffffff5a, 0x10000, 1, 0), FAKERNIC_VENDOR_KEY_INDEX);
    teardown();
}

static void key_index_is_reused_last(void)
{
    uint32_t first, second, key;

    setup();
    first = create_memory(0, 1, 1, ALL);
    second = create_memory(0, 1, 1, ALL);
    CHECK_EQ(roce_mr_table_destroy(table, second), 0);
    CHECK_EQ(roce_mr_table_destroy(table, first), 0);
    /* unused indices first */
    for (unsigned i = 0; i < TABLE - 3; i++) {
        key = create_memory(0, 1, 1, ALL);
        CHECK(key != first && key != second);
    }
    /* then in the order they were freed */
    CHECK_EQ(create_memory(0, 1, 1, ALL), second);
    CHECK_EQ(create_memory(0, 1, 1, ALL), first);
    check_create(memory_init(0, 1, 1, ALL), FAKERNIC_CMD_NO_RESOURCE);
    CHECK_EQ(roce_mr_table_destroy(table, key), 0);
    CHECK_EQ(create_memory(0, 1, 1, ALL), key);
    teardown();
}

static void destroyed_key_is_refused(void)
{
    uint32_t key;

    setup();
    key = create_memory(0, 100, 1, ALL);
    CHECK_EQ(roce_mr_table_destroy(table, key), 0);
    CHECK_EQ(check(key, 0, 1, 0), FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(roce_mr_table_destroy(table, key), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_mr_table_destroy(table, 0), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_mr_table_destroy(table, UINT32_MAX), FAKERNIC_CMD_BAD_ID);
    teardown();
}

static void destroy_ignores_the_tag(void)
{
    uint32_t key;

    setup();
    key = create_memory(0, 100, 1, ALL);
    CHECK_EQ(roce_mr_table_destroy(table, key ^ 0xff), 0);
    teardown();
}

static void reset_destroys_all_keys(void)
{
    uint32_t key;

    setup();
    key = create_memory(0, 100, 1, ALL);
    create_memory(0, 100, 1, ALL);
    CHECK(!roce_mr_table_reset_some(table, 1));
    CHECK(roce_mr_table_reset_some(table, 1));
    CHECK_EQ(check(key, 0, 1, 0), FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(roce_mr_table_pd_users(table, PD), 0);
    for (unsigned i = 0; i < TABLE - 1; i++) {
        create_memory(0, 1, 1, ALL);
    }
    teardown();
}

/* Long page lists are freed in parts. The leak check sees that the table frees
 * the rest. */
static void long_page_lists_are_freed_in_parts(void)
{
    uint32_t key;

    setup();
    key = create_memory(0, 10000 * KIB4, 10000, LOCAL);
    CHECK_EQ(roce_mr_table_destroy(table, key), FAKERNIC_CMD_OK);
    CHECK(!roce_mr_table_reclaim(table, 1));
    CHECK(!roce_mr_table_reclaim(table, 5000));
    CHECK(roce_mr_table_reclaim(table, 5000));
    key = create_memory(0, 5000 * KIB4, 5000, LOCAL);
    CHECK_EQ(roce_mr_table_destroy(table, key), FAKERNIC_CMD_OK);
    teardown();
}

static void pd_users_are_counted(void)
{
    uint32_t key, mw;

    setup();
    key = create_memory(0, 100, 1, ALL);
    create_memory(0, 100, 1, ALL);
    REQUIRE(roce_mr_table_mw_create(table, FAKERNIC_MW_TYPE_1, 1, PD + 1,
                                    &mw) == 0);
    CHECK_EQ(roce_mr_table_pd_users(table, PD), 2);
    CHECK_EQ(roce_mr_table_pd_users(table, PD + 1), 1);
    CHECK_EQ(roce_mr_table_destroy(table, key), 0);
    CHECK_EQ(roce_mr_table_pd_users(table, PD), 1);
    CHECK_EQ(roce_mr_table_pd_users(table, 0), 0);
    teardown();
}

/* ---- registration -------------------------------------------------------- */

static void bad_registrations_are_refused(void)
{
    RoceMrInit init;

    setup();
    check_create(memory_init(0, 0, 1, ALL), FAKERNIC_CMD_BAD_PARAM);
    check_create(memory_init(UINT64_MAX - 10, 12, 2, ALL),
                 FAKERNIC_CMD_BAD_PARAM);
    check_create(memory_init(0, UINT64_MAX, 2, ALL),
                 FAKERNIC_CMD_BAD_PAGE_LIST);
    check_create(memory_init(KIB4 - 1, UINT64_MAX - KIB4 + 1, 2, ALL),
                 FAKERNIC_CMD_BAD_PAGE_LIST);
    check_create(memory_init(0, KIB4 + 1, 1, ALL), FAKERNIC_CMD_BAD_PAGE_LIST);
    check_create(memory_init(1, KIB4, 1, ALL), FAKERNIC_CMD_BAD_PAGE_LIST);
    check_create(memory_init(0, 1, 1, WR), FAKERNIC_CMD_BAD_PARAM);
    check_create(memory_init(0, 1, 1, ATOMIC), FAKERNIC_CMD_BAD_PARAM);
    check_create(memory_init(0, 1, 1, 1u << 10), FAKERNIC_CMD_BAD_PARAM);
    check_create(memory_init(0, 1, 1, 1u << 31), FAKERNIC_CMD_BAD_PARAM);
    check_create(memory_init(0, 1, 1, FAKERNIC_ACCESS_ON_DEMAND),
                 FAKERNIC_CMD_UNSUPPORTED);
    init = memory_init(0, 1, 2, ALL);
    init.pages[1] += 8;
    check_create(init, FAKERNIC_CMD_BAD_PAGE_LIST);
    init = memory_init(0, 1, 1, ALL);
    init.page_shift = 11;
    check_create(init, FAKERNIC_CMD_BAD_PARAM);
    init = memory_init(0, 1, 1, ALL);
    init.page_shift = 31;
    check_create(init, FAKERNIC_CMD_BAD_PARAM);
    init = memory_init(0, 1, 1, ALL);
    init.type = 0;
    check_create(init, FAKERNIC_CMD_BAD_PARAM);
    init = memory_init(0, 1, 1, ALL);
    init.type = FAKERNIC_MR_ON_DEMAND;
    check_create(init, FAKERNIC_CMD_UNSUPPORTED);
    init = memory_init(0, KIB4 + 1, 1, ALL);
    init.type = FAKERNIC_MR_DM;
    check_create(init, FAKERNIC_CMD_BAD_PAGE_LIST);
    init = memory_init(0, 0, 1, ALL);
    init.type = FAKERNIC_MR_DMA;
    check_create(init, FAKERNIC_CMD_BAD_PARAM);
    check_create((RoceMrInit) { .type = FAKERNIC_MR_FAST_REG },
                 FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(roce_mr_table_pd_users(table, PD), 0);
    teardown();
}

static void registrations_at_limits_succeed(void)
{
    setup();
    check_create(memory_init(UINT64_MAX - 9, 10, 1, ALL), FAKERNIC_CMD_OK);
    check_create(memory_init(KIB4 - 1, 2, 2, ALL), FAKERNIC_CMD_OK);
    check_create(memory_init(0, KIB4, 1, RD), FAKERNIC_CMD_OK);
    check_create(memory_init(0, 1, 1, LOCAL | FAKERNIC_ACCESS_HUGETLB |
                             FAKERNIC_ACCESS_RELAXED_ORDERING |
                             FAKERNIC_ACCESS_FLUSH_GLOBAL |
                             FAKERNIC_ACCESS_FLUSH_PERSISTENT),
                 FAKERNIC_CMD_OK);
    teardown();
}

/* The host translates pages of device memory. A region of 0 bytes grants no
 * access. */
static void region_of_device_memory(void)
{
    RoceFlushRange all;
    RoceMrInit init = memory_init(0, 100, 1, ALL);
    uint8_t bytes[100];
    const RoceMr *mr;
    uint32_t key = 0;

    setup();
    add_pages(1, 0);
    init.type = FAKERNIC_MR_DM;
    REQUIRE(roce_mr_table_create(table, &init, &key) == FAKERNIC_CMD_OK);
    mr = grant(key, 0, 100, RD);
    CHECK(roce_mr_read(table, mr, 0, bytes, 100));
    check_pattern(bytes, 0, 100);
    CHECK_EQ(check(key, 99, 2, RD), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(roce_mr_table_destroy(table, key), FAKERNIC_CMD_OK);
    init = memory_init(0, 0, 1, ALL);
    init.type = FAKERNIC_MR_DM;
    REQUIRE(roce_mr_table_create(table, &init, &key) == FAKERNIC_CMD_OK);
    CHECK_EQ(check(key, 0, 1, RD), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, 0, 0, RD), 0);
    CHECK_EQ(roce_mr_check_key(table, access_to(key, PD, 0, 0, 0,
                                                A(FAKERNIC_ACCESS_FLUSH_GLOBAL)),
                               &mr), FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(roce_mr_check_key(table, access_to(key, PD, 0, 0, 0, 0), &mr), 0);
    CHECK(roce_mr_flush_all(mr, &all));
    CHECK_EQ(all.left, 0);
    CHECK_EQ(roce_mr_table_destroy(table, key), FAKERNIC_CMD_OK);
    teardown();
}

static void rereg_changes_only_requested_attributes(void)
{
    RoceMrInit init;
    uint32_t key, same;

    setup();
    key = same = create_memory(0x1000, KIB4, 1, LOCAL);
    init = (RoceMrInit) { .pd = PD, .access = A(LOCAL | RD) };
    CHECK_EQ(roce_mr_table_rereg(table, FAKERNIC_REREG_ACCESS, &init, &key), 0);
    CHECK_EQ(key, same);
    CHECK_EQ(check(key, 0x1000, 1, RD), 0);
    init = memory_init(0x8000, 2 * KIB4, 2, 0);
    CHECK_EQ(roce_mr_table_rereg(table, FAKERNIC_REREG_TRANSLATION, &init,
                                 &key), 0);
    CHECK_EQ(check(key, 0x1000, 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, 0x8000, 2 * KIB4, RD), 0);
    init.pd = PD + 1;
    CHECK_EQ(roce_mr_table_rereg(table, FAKERNIC_REREG_PD, &init, &key), 0);
    CHECK_EQ(check(key, 0x8000, 1, 0), FAKERNIC_VENDOR_KEY_PD);
    CHECK_EQ(roce_mr_table_pd_users(table, PD + 1), 1);
    teardown();
}

static void refused_rereg_changes_nothing(void)
{
    RoceMrInit init;
    uint32_t key, unknown = 0x1234500;

    setup();
    key = create_memory(0x1000, KIB4, 1, LOCAL);
    init = memory_init(0x8000, KIB4 + 1, 1, LOCAL | RD);
    CHECK_EQ(roce_mr_table_rereg(table, 7, &init, &key),
             FAKERNIC_CMD_BAD_PAGE_LIST);
    init.access = A(WR);
    CHECK_EQ(roce_mr_table_rereg(table, 7, &init, &key),
             FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(roce_mr_table_rereg(table, 0, &init, &key),
             FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(roce_mr_table_rereg(table, 8, &init, &key),
             FAKERNIC_CMD_BAD_PARAM);
    init.access = A(LOCAL | ZERO);
    CHECK_EQ(roce_mr_table_rereg(table, FAKERNIC_REREG_ACCESS, &init, &key),
             FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(roce_mr_table_rereg(table, 7, &init, &unknown),
             FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(check(key, 0x1000, KIB4, LOCAL), 0);
    CHECK_EQ(check(key, 0x1000, KIB4, RD), FAKERNIC_VENDOR_KEY_ACCESS);
    free(init.pages);
    teardown();
}

/* ---- checks -------------------------------------------------------------- */

static void bounds_do_not_wrap(void)
{
    const uint64_t start = 0x12345, length = 10000;
    uint32_t key;

    setup();
    key = create_memory(start, length, 4, ALL);
    CHECK_EQ(check(key, start, length, 0), 0);
    CHECK_EQ(check(key, start + length - 1, 1, 0), 0);
    CHECK_EQ(check(key, start + length, 0, 0), 0);
    CHECK_EQ(check(key, start - 1, 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, start - 1, 2, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, start, length + 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, start + length, 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, start + 1, UINT64_MAX, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, start + 1, UINT64_MAX - start, 0),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, UINT64_MAX, 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, UINT64_MAX, start + 2, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, 0, UINT64_MAX, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    teardown();
}

static void region_at_the_end_of_the_address_space(void)
{
    uint32_t key;

    setup();
    key = create_memory(UINT64_MAX - 9, 10, 1, ALL);
    CHECK_EQ(check(key, UINT64_MAX - 9, 10, 0), 0);
    CHECK_EQ(check(key, UINT64_MAX, 1, 0), 0);
    CHECK_EQ(check(key, UINT64_MAX, 2, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, UINT64_MAX - 10, 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    teardown();
}

static void each_access_right_is_checked(void)
{
    static const uint64_t rights[] = { LOCAL, WR, RD, ATOMIC,
                                       FAKERNIC_ACCESS_FLUSH_GLOBAL,
                                       FAKERNIC_ACCESS_FLUSH_PERSISTENT };

    for (unsigned set = 0; set < 64; set++) {
        uint64_t access = 0;
        uint32_t key;

        for (unsigned i = 0; i < 6; i++) {
            access |= set >> i & 1 ? rights[i] : 0;
        }
        if ((access & (WR | ATOMIC)) && !(access & LOCAL)) {
            continue;
        }
        setup();
        key = create_memory(0, 100, 1, access);
        CHECK_EQ(check(key, 0, 1, 0), 0);
        for (unsigned i = 0; i < 6; i++) {
            CHECK_EQ(check(key, 0, 1, rights[i]),
                     access & rights[i] ? 0 : FAKERNIC_VENDOR_KEY_ACCESS);
        }
        teardown();
    }
}

static void first_failed_check_sets_the_error(void)
{
    const RoceMr *mr;
    uint32_t key;

    setup();
    key = create_memory(0x1000, 100, 1, 0);
    CHECK_EQ(roce_mr_check(table, access_to(key + 1, PD + 1, 0, 0, 1, A(RD)),
                           &mr), FAKERNIC_VENDOR_KEY_TAG);
    CHECK_EQ(roce_mr_check(table, access_to(key, PD + 1, 0, 0, 1, A(RD)), &mr),
             FAKERNIC_VENDOR_KEY_PD);
    CHECK_EQ(roce_mr_check(table, access_to(key, PD, 0, 0, 1, A(RD)), &mr),
             FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(roce_mr_check(table, access_to(key, PD, 0, 0, 1, 0), &mr),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK(mr == NULL);
    teardown();
}

/* IBTA C9-88: an access of 0 bytes does not check its key. */
static void access_of_0_bytes_needs_no_key(void)
{
    const RoceMr *mr;

    setup();
    CHECK_EQ(roce_mr_check(table, access_to(0xdeadbeef, PD, 0, UINT64_MAX, 0,
                                            A(WR)), &mr), 0);
    CHECK(roce_mr_read(table, mr, UINT64_MAX, NULL, 0));
    CHECK(roce_mr_write(table, mr, UINT64_MAX, NULL, 0));
    CHECK_EQ(host->dma_count, 0);
    teardown();
}

/* ---- translation --------------------------------------------------------- */

static void read_and_write_cross_pages(void)
{
    const uint64_t iova = 0xabc0000 + 1000, length = 3 * KIB4;
    uint8_t buf[3 * KIB4];
    const RoceMr *mr;
    uint32_t key;

    setup();
    add_pages(4, 1000);
    key = create_memory(iova, length, 4, ALL);
    mr = grant(key, iova, length, 0);
    CHECK(roce_mr_read(table, mr, iova, buf, length));
    check_pattern(buf, 0, length);
    CHECK_EQ(host->dma_count, 4);
    for (uint64_t at = 0; at < length; at += 97) {
        size_t len = length - at < 5000 ? length - at : 5000;

        CHECK(roce_mr_read(table, mr, iova + at, buf, len));
        check_pattern(buf, at, len);
    }
    memset(buf, 0xcc, sizeof(buf));
    CHECK(roce_mr_write(table, mr, iova + 10, buf, 2 * KIB4));
    CHECK(roce_mr_read(table, mr, iova, buf, length));
    check_pattern(buf, 0, 10);
    for (unsigned i = 10; i < 10 + 2 * KIB4; i++) {
        REQUIRE(buf[i] == 0xcc);
    }
    check_pattern(buf + 10 + 2 * KIB4, 10 + 2 * KIB4, KIB4 - 10);
    teardown();
}

static void writes_are_in_ascending_order(void)
{
    uint8_t buf[2 * KIB4] = { 0 };
    uint32_t key;

    setup();
    add_pages(3, 0);
    key = create_memory(100, 2 * KIB4, 3, ALL);
    CHECK(roce_mr_write(table, grant(key, 100, 2 * KIB4, 0), 100, buf,
                        2 * KIB4));
    REQUIRE(host->dma_count == 3);
    CHECK_EQ(host->dma[0].address, page_at(0) + 100);
    CHECK_EQ(host->dma[0].len, KIB4 - 100);
    CHECK_EQ(host->dma[1].address, page_at(1));
    CHECK_EQ(host->dma[1].len, KIB4);
    CHECK_EQ(host->dma[2].address, page_at(2));
    CHECK_EQ(host->dma[2].len, 100);
    teardown();
}

static void adjacent_pages_are_one_access(void)
{
    RoceMrInit init;
    uint8_t buf[5 * KIB4];
    uint32_t key;

    setup();
    fake_memory_add(host, 0x100000, 3 * KIB4);
    fake_memory_add(host, 0x200000, 2 * KIB4);
    init = memory_init(0, 5 * KIB4, 5, ALL);
    for (unsigned i = 0; i < 5; i++) {
        init.pages[i] = i < 3 ? 0x100000 + i * KIB4 : 0x200000 + (i - 3) * KIB4;
    }
    REQUIRE(roce_mr_table_create(table, &init, &key) == 0);
    CHECK(roce_mr_read(table, grant(key, 8, 5 * KIB4 - 8, 0), 8, buf,
                       5 * KIB4 - 8));
    REQUIRE(host->dma_count == 2);
    CHECK_EQ(host->dma[0].len, 3 * KIB4 - 8);
    CHECK_EQ(host->dma[1].address, 0x200000);
    CHECK_EQ(host->dma[1].len, 2 * KIB4);
    teardown();
}

static void region_of_huge_pages(void)
{
    const uint64_t gib = 1ull << 30, iova = 5 * gib + gib - 8;
    RoceMrInit init;
    uint8_t buf[16], want[16];
    uint32_t key;

    setup();
    /* the ends of two pages of 1 GiB, the second one below the first */
    memset(fake_memory_add(host, 8 * gib - KIB4, KIB4), 0x11, KIB4);
    memset(fake_memory_add(host, 2 * gib, KIB4), 0x22, KIB4);
    init = memory_init(iova, gib, 2, ALL);
    init.page_shift = 30;
    init.pages[0] = 7 * gib;
    init.pages[1] = 2 * gib;
    REQUIRE(roce_mr_table_create(table, &init, &key) == 0);
    CHECK(roce_mr_read(table, grant(key, iova, 16, 0), iova, buf, 16));
    memset(want, 0x11, 8);
    memset(want + 8, 0x22, 8);
    CHECK_MEM(buf, want, 16);
    CHECK_EQ(check(key, iova + gib - 1, 1, 0), 0);
    CHECK_EQ(check(key, iova + gib - 1, 2, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    teardown();
}

static void zero_based_region_starts_at_0(void)
{
    uint8_t buf[KIB4];
    uint32_t key;

    setup();
    add_pages(2, 123);
    key = create_memory(0x7000 + 123, KIB4, 2, ALL | ZERO);
    CHECK_EQ(check(key, 0x7000 + 123, 1, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK(roce_mr_read(table, grant(key, 0, KIB4, 0), 0, buf, KIB4));
    check_pattern(buf, 0, KIB4);
    CHECK(roce_mr_read(table, grant(key, 4000, 96, 0), 4000, buf, 96));
    check_pattern(buf, 4000, 96);
    teardown();
}

static void dma_region_covers_all_dma_addresses(void)
{
    RoceMrInit init = { .type = FAKERNIC_MR_DMA, .pd = PD,
                        .access = A(LOCAL | WR) };
    uint8_t byte = 9;
    uint32_t key;

    setup();
    add_pages(1, 0);
    REQUIRE(roce_mr_table_create(table, &init, &key) == 0);
    CHECK(roce_mr_write(table, grant(key, page_at(0) + 77, 1, LOCAL),
                        page_at(0) + 77, &byte, 1));
    CHECK_EQ(*fake_memory(host, page_at(0) + 77, 1), 9);
    /* The DMA region ends where device memory begins. */
    CHECK_EQ(check(key, 0, ROCE_ADDRESS_DM, 0), 0);
    CHECK_EQ(check(key, 1, ROCE_ADDRESS_DM, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, 0, UINT64_MAX, 0), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, ROCE_ADDRESS_DM - 1, 1, WR), 0);
    CHECK_EQ(check(key, ROCE_ADDRESS_DM - 1, 2, WR),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, ROCE_ADDRESS_DM, 1, WR), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, UINT64_MAX, 1, WR), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, UINT64_MAX, 2, WR), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(key, 0, 1, RD), FAKERNIC_VENDOR_KEY_ACCESS);
    teardown();
}

static void null_region_reads_zeroes_and_discards_writes(void)
{
    RoceMrInit init = { .type = FAKERNIC_MR_NULL, .pd = PD,
                        .access = A(LOCAL) };
    RoceAtomic op = { .opcode = FAKERNIC_SQ_ATOMIC_FETCH_ADD, .original = 5 };
    uint8_t buf[64], zero[64] = { 0 };
    const RoceMr *mr;
    uint32_t key;

    setup();
    REQUIRE(roce_mr_table_create(table, &init, &key) == 0);
    memset(buf, 1, sizeof(buf));
    mr = grant(key, 0x123456789, 64, LOCAL);
    CHECK(roce_mr_write(table, mr, 0x123456789, buf, 64));
    CHECK(roce_mr_read(table, mr, 0x123456789, buf, 64));
    CHECK_MEM(buf, zero, 64);
    CHECK(roce_mr_atomic(table, mr, 0x1000, &op));
    CHECK_EQ(op.original, 0);
    CHECK_EQ(host->dma_count, 0);
    teardown();
}

static void atomic_changes_8_aligned_bytes(void)
{
    RoceAtomic op = { .opcode = FAKERNIC_SQ_ATOMIC_FETCH_ADD,
                      .swap_or_add = 3 };
    uint32_t key;

    setup();
    add_pages(2, 0);
    bytes_store64(fake_memory(host, page_at(1) + 16, 8), 40);
    key = create_memory(0x4000, 2 * KIB4, 2, ALL);
    CHECK(roce_mr_atomic(table, grant(key, 0x5010, 8, ATOMIC), 0x5010, &op));
    CHECK_EQ(op.original, 40);
    CHECK_EQ(bytes_load64(fake_memory(host, page_at(1) + 16, 8)), 43);
    /* aligned as an address, not in memory */
    key = create_memory(0x4004, KIB4, 2, ALL | ZERO);
    CHECK(!roce_mr_atomic(table, grant(key, 0x10, 8, ATOMIC), 0x10, &op));
    teardown();
}

static void unreachable_memory_is_reported(void)
{
    RoceAtomic op = { .opcode = FAKERNIC_SQ_ATOMIC_FETCH_ADD };
    uint8_t buf[3 * KIB4] = { 0 };
    const RoceMr *mr;
    uint32_t key;

    setup();
    add_pages(3, 0);
    key = create_memory(0, 3 * KIB4, 3, ALL);
    mr = grant(key, 0, 3 * KIB4, 0);
    fake_memory_unreachable(host, page_at(1), true);
    CHECK(!roce_mr_read(table, mr, 0, buf, 3 * KIB4));
    CHECK(!roce_mr_write(table, mr, 0, buf, 3 * KIB4));
    CHECK(!roce_mr_atomic(table, mr, KIB4, &op));
    CHECK(roce_mr_read(table, mr, 2 * KIB4, buf, KIB4));
    fake_memory_unreachable(host, page_at(1), false);
    CHECK(roce_mr_read(table, mr, 0, buf, 3 * KIB4));
    host->fail_dma_in = 3;
    CHECK(!roce_mr_read(table, mr, 0, buf, 3 * KIB4));
    teardown();
}

/* ---- scatter and gather -------------------------------------------------- */

/* Three entries with empty ones between; their bytes follow the pattern. */
#define SGES 5
#define SGE_TOTAL (100u + 5000u + 7u)

static void make_sges(RoceSge sge[SGES])
{
    uint32_t key;

    setup();
    add_pages(4, 0);
    key = create_memory(0, 4 * KIB4, 4, ALL);
    sge[0] = (RoceSge) { .address = 50, .length = 100, .lkey = key };
    sge[1] = (RoceSge) { .address = 1, .length = 0, .lkey = 0xbad };
    sge[2] = (RoceSge) { .address = 4000, .length = 5000, .lkey = key };
    sge[3] = (RoceSge) { .length = 0 };
    sge[4] = (RoceSge) { .address = 4 * KIB4 - 7, .length = 7, .lkey = key };
}

static uint8_t sge_byte(uint64_t offset)
{
    if (offset < 100) {
        return pattern(50 + offset);
    }
    return offset < 5100 ? pattern(4000 + offset - 100)
                         : pattern(4 * KIB4 - 7 + offset - 5100);
}

static void gather_from_every_offset(void)
{
    static const size_t sizes[] = { 1, 99, 100, 101, 1024, 4096, SGE_TOTAL };
    uint8_t buf[SGE_TOTAL];
    RoceSge sge[SGES];

    make_sges(sge);
    CHECK_EQ(roce_sge_total(sge, SGES), SGE_TOTAL);
    for (unsigned s = 0; s < TEST_COUNT(sizes); s++) {
        for (uint64_t at = 0; at + sizes[s] <= SGE_TOTAL; at += 33) {
            REQUIRE(roce_sgl_gather(table, &(RoceSgl) { PD, sge, SGES }, at,
                                    buf, sizes[s]) == 0);
            for (size_t i = 0; i < sizes[s]; i++) {
                REQUIRE(buf[i] == sge_byte(at + i));
            }
        }
    }
    teardown();
}

static void scatter_then_gather(void)
{
    uint8_t buf[SGE_TOTAL], back[SGE_TOTAL];
    RoceSge sge[SGES];

    make_sges(sge);
    for (unsigned i = 0; i < SGE_TOTAL; i++) {
        buf[i] = (uint8_t)(i * 31 + 5);
    }
    for (unsigned at = 0; at < SGE_TOTAL; at += 1024) {
        size_t len = SGE_TOTAL - at < 1024 ? SGE_TOTAL - at : 1024;

        CHECK_EQ(roce_sgl_scatter(table, &(RoceSgl) { PD, sge, SGES }, at,
                                  buf + at, len), 0);
    }
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD, sge, SGES }, 0, back,
                             SGE_TOTAL), 0);
    CHECK_MEM(buf, back, SGE_TOTAL);
    /* the neighbouring bytes are unchanged */
    CHECK_EQ(*fake_memory(host, page_at(0) + 49, 1), pattern(49));
    CHECK_EQ(*fake_memory(host, page_at(0) + 150, 1), pattern(150));
    CHECK_EQ(*fake_memory(host, page_at(3) + KIB4 - 8, 1),
             pattern(4 * KIB4 - 8));
    teardown();
}

static void bad_sges_are_refused(void)
{
    uint8_t buf[SGE_TOTAL];
    RoceSge sge[SGES];

    make_sges(sge);
    CHECK_EQ(roce_sgl_check(table, &(RoceSgl) { PD, sge, SGES }, A(LOCAL)), 0);
    CHECK_EQ(roce_sgl_check(table, &(RoceSgl) { PD, NULL, 0 }, A(LOCAL)), 0);
    /* an SGE longer than its region: the bytes within can be used */
    sge[2].length = 5 * KIB4;
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD, sge, SGES }, 100, buf, 1),
             0);
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD, sge, SGES },
                             100 + 4 * KIB4, buf, 1),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(roce_sgl_check(table, &(RoceSgl) { PD, sge, SGES }, 0),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    /* 0 bytes: neither accessed nor checked */
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD, sge, SGES }, 0, buf, 100),
             0);
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD + 1, sge, SGES }, 0, buf,
                             1), FAKERNIC_VENDOR_KEY_PD);
    fake_memory_unreachable(host, page_at(0), true);
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD, sge, SGES }, 0, buf, 1),
             FAKERNIC_VENDOR_KEY_DMA);
    teardown();
}

static void scatter_needs_local_write(void)
{
    uint8_t buf[4] = { 0 };
    RoceSge sge;

    setup();
    add_pages(1, 0);
    sge = (RoceSge){ .address = 0, .length = 4,
                     .lkey = create_memory(0, 4, 1, RD) };
    CHECK_EQ(roce_sgl_gather(table, &(RoceSgl) { PD, &sge, 1 }, 0, buf, 4), 0);
    CHECK_EQ(roce_sgl_scatter(table, &(RoceSgl) { PD, &sge, 1 }, 0, buf, 4),
             FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(roce_sgl_check(table, &(RoceSgl) { PD, &sge, 1 }, A(LOCAL)),
             FAKERNIC_VENDOR_KEY_ACCESS);
    teardown();
}

static void sge_total_has_64_bits(void)
{
    RoceSge sge[3] = { { .length = UINT32_MAX }, { .length = UINT32_MAX },
                       { .length = 2 } };

    CHECK_EQ(roce_sge_total(sge, 3), 2ull * UINT32_MAX + 2);
    CHECK_EQ(roce_sge_total(sge, 0), 0);
}

/* ---- fast registration --------------------------------------------------- */

static uint32_t create_fast_reg(uint32_t pages)
{
    RoceMrInit init = { .type = FAKERNIC_MR_FAST_REG, .tag = 1, .pd = PD,
                        .page_count = pages };
    uint32_t key = 0;

    REQUIRE(roce_mr_table_create(table, &init, &key) == 0);
    return key;
}

static RoceSendWr reg_wr(uint32_t key, uint64_t iova, uint64_t length,
                         unsigned pages, uint64_t access)
{
    return (RoceSendWr) {
        .opcode = FAKERNIC_SQ_REG_MR,
        .reg_mr = { .iova = iova, .length = length, .key = key,
                    .access = A(access), .page_count = pages,
                    .page_shift = 12, .pages = page_list(pages) },
    };
}

static void check_reg(RoceSendWr wr, uint16_t want)
{
    CHECK_EQ(roce_mr_fast_reg(table, PD, &wr), want);
    CHECK(wr.reg_mr.pages == NULL);
}

static void fast_reg_key_passes_all_states(void)
{
    uint8_t buf[KIB4];
    uint32_t key;

    setup();
    add_pages(2, 5);
    key = create_fast_reg(2);
    CHECK_EQ(check(key, 5, 1, 0), FAKERNIC_VENDOR_KEY_STATE);
    check_reg(reg_wr(key + 1, 0x9005, KIB4, 2, LOCAL | RD), 0);
    CHECK_EQ(check(key, 0x9005, 1, 0), FAKERNIC_VENDOR_KEY_TAG);
    CHECK(roce_mr_read(table, grant(key + 1, 0x9005, KIB4, RD), 0x9005, buf,
                       KIB4));
    check_pattern(buf, 0, KIB4);
    /* a second registration needs an invalidation first */
    check_reg(reg_wr(key + 2, 0, 1, 1, LOCAL), FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(roce_mr_invalidate(table, key + 1, PD, 0, false), 0);
    CHECK_EQ(check(key + 1, 0x9005, 1, 0), FAKERNIC_VENDOR_KEY_STATE);
    check_reg(reg_wr(key + 2, 0, 1, 1, LOCAL), 0);
    CHECK_EQ(check(key + 2, 0, 1, RD), FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(check(key + 2, 0, 1, LOCAL), 0);
    teardown();
}

static void bad_fast_registrations_are_refused(void)
{
    uint32_t key, memory;
    RoceSendWr wr;

    setup();
    key = create_fast_reg(2);
    memory = create_memory(0, 1, 1, ALL);
    check_reg(reg_wr(0, 0, 1, 1, LOCAL), FAKERNIC_VENDOR_KEY_INDEX);
    check_reg(reg_wr(UINT32_MAX, 0, 1, 1, LOCAL), FAKERNIC_VENDOR_KEY_INDEX);
    check_reg(reg_wr(memory, 0, 1, 1, LOCAL), FAKERNIC_VENDOR_KEY_STATE);
    check_reg(reg_wr(key, 0, 1, 3, LOCAL), FAKERNIC_VENDOR_KEY_BOUNDS);
    check_reg(reg_wr(key, 1, 2 * KIB4, 2, LOCAL), FAKERNIC_VENDOR_KEY_BOUNDS);
    check_reg(reg_wr(key, 0, 0, 1, LOCAL), FAKERNIC_VENDOR_KEY_BOUNDS);
    check_reg(reg_wr(key, 0, 1, 1, WR), FAKERNIC_VENDOR_KEY_ACCESS);
    check_reg(reg_wr(key, 0, 1, 1, 1u << 31), FAKERNIC_VENDOR_KEY_ACCESS);
    wr = reg_wr(key, 0, 1, 1, LOCAL);
    wr.reg_mr.page_shift = 63;
    check_reg(wr, FAKERNIC_VENDOR_KEY_BOUNDS);
    wr = reg_wr(key, 0, 1, 1, LOCAL);
    wr.reg_mr.pages[0]++;
    check_reg(wr, FAKERNIC_VENDOR_KEY_BOUNDS);
    wr = reg_wr(key, 0, 1, 1, LOCAL);
    CHECK_EQ(roce_mr_fast_reg(table, PD + 1, &wr), FAKERNIC_VENDOR_KEY_PD);
    CHECK_EQ(check(key, 0, 1, 0), FAKERNIC_VENDOR_KEY_STATE);
    check_reg(reg_wr(key, 0, 2 * KIB4, 2, LOCAL), 0);
    teardown();
}

static void invalidation_by_owner_and_peer(void)
{
    uint32_t key, memory;

    setup();
    key = create_fast_reg(1);
    memory = create_memory(0, 1, 1, ALL);
    CHECK_EQ(roce_mr_invalidate(table, memory, PD, 0, false),
             FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(roce_mr_invalidate(table, 0, PD, 0, false),
             FAKERNIC_VENDOR_KEY_INDEX);
    check_reg(reg_wr(key, 0, 1, 1, LOCAL), 0);
    CHECK_EQ(roce_mr_invalidate(table, key, PD + 1, 0, true),
             FAKERNIC_VENDOR_KEY_PD);
    CHECK_EQ(roce_mr_invalidate(table, key + 1, PD, 0, true),
             FAKERNIC_VENDOR_KEY_TAG);
    /* the peer has no access right, so it may not invalidate */
    CHECK_EQ(roce_mr_invalidate(table, key, PD, 0, true),
             FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(roce_mr_invalidate(table, key, PD, 0, false), 0);
    check_reg(reg_wr(key, 0, 1, 1, LOCAL | WR), 0);
    CHECK_EQ(roce_mr_invalidate(table, key, PD, 0, true), 0);
    /* the owner may invalidate after the peer, the peer only once */
    CHECK_EQ(roce_mr_invalidate(table, key, PD, 0, false), 0);
    CHECK_EQ(roce_mr_invalidate(table, key, PD, 0, true),
             FAKERNIC_VENDOR_KEY_STATE);
    teardown();
}

/* ---- windows ------------------------------------------------------------- */

static uint32_t create_mw(uint8_t type)
{
    uint32_t key = 0;

    REQUIRE(roce_mr_table_mw_create(table, type, 0xff, PD, &key) == 0);
    return key;
}

static RoceSendWr bind_wr(uint32_t mw_key, uint32_t new_key, uint32_t mr_key,
                          uint64_t address, uint64_t length, uint64_t access)
{
    return (RoceSendWr) {
        .opcode = FAKERNIC_SQ_BIND_MW,
        .bind_mw = { .address = address, .length = length, .mw_key = mw_key,
                     .new_key = new_key, .mr_key = mr_key,
                     .access = A(access) },
    };
}

static uint16_t bind(RoceSendWr wr)
{
    return roce_mr_bind_mw(table, PD, 3, &wr);
}

/* The key with the next tag and the same index. */
static uint32_t next_key(uint32_t key)
{
    return (key & ~0xffu) | ((key + 1) & 0xff);
}

static void type_1_window_binds_and_rebinds(void)
{
    uint32_t mr, mw, bound;
    uint8_t buf[100];

    setup();
    add_pages(2, 0);
    mr = create_memory(0x1000, 2 * KIB4, 2, ALL);
    mw = create_mw(FAKERNIC_MW_TYPE_1);
    CHECK_EQ(check(mw, 0x1100, 1, RD), FAKERNIC_VENDOR_KEY_STATE);
    bound = next_key(mw);
    CHECK_EQ(bind(bind_wr(mw, bound, mr, 0x1f80, 0x100, RD)), 0);
    CHECK_EQ(check(mw, 0x1f80, 1, RD), FAKERNIC_VENDOR_KEY_TAG);
    CHECK_EQ(check(bound, 0x1f80, 0x100, WR), FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(check(bound, 0x1f7f, 1, RD), FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(check(bound, 0x1f80, 0x101, RD), FAKERNIC_VENDOR_KEY_BOUNDS);
    /* any QP of the PD; across a page */
    CHECK(roce_mr_read(table, grant_qp(bound, 99, 0x1fc0, 100, RD), 0x1fc0, buf,
                       100));
    check_pattern(buf, 0xfc0, 100);
    /* a window grants no local access */
    CHECK_EQ(check(bound, 0x1f80, 1, 0), FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(check(bound, 0x1f80, 1, LOCAL), FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(bind(bind_wr(bound, next_key(bound), mr, 0x1000, 8, WR)), 0);
    CHECK_EQ(check(bound, 0x1f80, 1, RD), FAKERNIC_VENDOR_KEY_TAG);
    CHECK_EQ(check(next_key(bound), 0x1000, 8, WR), 0);
    teardown();
}

static void type_1_window_unbinds_with_length_0(void)
{
    uint32_t mr, mw, bound, unbound;

    setup();
    mr = create_memory(0x1000, KIB4, 1, ALL);
    mw = create_mw(FAKERNIC_MW_TYPE_1);
    bound = next_key(mw);
    unbound = next_key(bound);
    CHECK_EQ(bind(bind_wr(mw, bound, mr, 0x1000, 8, RD)), 0);
    CHECK_EQ(roce_mr_table_destroy(table, mr), FAKERNIC_CMD_BUSY);
    CHECK_EQ(bind(bind_wr(bound, unbound, 0, 0, 0, 0)), 0);
    CHECK_EQ(check(unbound, 0x1000, 1, RD), FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(roce_mr_table_destroy(table, mr), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_invalidate(table, unbound, PD, 3, false),
             FAKERNIC_VENDOR_KEY_STATE);
    teardown();
}

/* The caller increments the tag per bind, even if it was flushed or refused. */
static void type_1_window_is_found_by_index(void)
{
    uint32_t mr, mw, posted;

    setup();
    mr = create_memory(0x1000, KIB4, 1, ALL);
    mw = create_mw(FAKERNIC_MW_TYPE_1);
    posted = next_key(next_key(mw));
    CHECK_EQ(bind(bind_wr(posted, next_key(posted), mr, 0x1000, 8, RD)), 0);
    CHECK_EQ(check(next_key(posted), 0x1000, 8, RD), 0);
    CHECK_EQ(check(posted, 0x1000, 8, RD), FAKERNIC_VENDOR_KEY_TAG);
    mw = create_mw(FAKERNIC_MW_TYPE_2B);
    CHECK_EQ(bind(bind_wr(next_key(mw), mw, mr, 0x1000, 8, RD)),
             FAKERNIC_VENDOR_KEY_TAG);
    teardown();
}

static void type_2_window_belongs_to_its_qp(void)
{
    const RoceMr *found;
    uint32_t mr, mw;

    setup();
    mr = create_memory(0x1000, KIB4, 1, ALL);
    mw = create_mw(FAKERNIC_MW_TYPE_2B);
    CHECK_EQ(bind(bind_wr(mw, mw ^ 0x3c, mr, 0x1000, 100, RD | WR)), 0);
    mw ^= 0x3c;
    grant_qp(mw, 3, 0x1000, 100, WR);
    CHECK_EQ(roce_mr_check(table, access_to(mw, PD, 4, 0x1000, 1, A(RD)),
                           &found), FAKERNIC_VENDOR_KEY_QP);
    CHECK_EQ(roce_mr_check(table, access_to(mw, PD + 1, 3, 0x1000, 1, A(RD)),
                           &found), FAKERNIC_VENDOR_KEY_PD);
    /* bound already; a bind of length 0 does not unbind type 2 */
    CHECK_EQ(bind(bind_wr(mw, mw, mr, 0x1000, 1, RD)), FAKERNIC_VENDOR_BIND);
    CHECK_EQ(bind(bind_wr(mw, mw, 0, 0, 0, 0)), FAKERNIC_VENDOR_BIND);
    CHECK_EQ(roce_mr_invalidate(table, mw, PD, 4, true),
             FAKERNIC_VENDOR_KEY_QP);
    CHECK_EQ(roce_mr_invalidate(table, mw, PD, 3, true), 0);
    CHECK_EQ(roce_mr_check(table, access_to(mw, PD, 3, 0x1000, 1, A(RD)),
                           &found), FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(bind(bind_wr(mw, mw, mr, 0x1000, 1, RD)), 0);
    CHECK_EQ(roce_mr_invalidate(table, mw, PD, 3, false), 0);
    CHECK_EQ(roce_mr_table_destroy(table, mr), FAKERNIC_CMD_OK);
    teardown();
}

/* Destroying a QP frees a bounded number of windows at a time. */
static void windows_of_a_qp_are_freed_in_parts(void)
{
    uint32_t mr, other, mw[5];

    setup();
    mr = create_memory(0x1000, KIB4, 1, ALL);
    for (unsigned i = 0; i < 5; i++) {
        mw[i] = create_mw(FAKERNIC_MW_TYPE_2B);
        CHECK_EQ(bind(bind_wr(mw[i], mw[i], mr, 0x1000, 8, RD)), 0);
    }
    other = create_mw(FAKERNIC_MW_TYPE_2B);
    {
        RoceSendWr wr = bind_wr(other, other, mr, 0x1000, 8, RD);

        CHECK_EQ(roce_mr_bind_mw(table, PD, 4, &wr), 0);
    }
    /* some windows are freed by other ways first */
    CHECK_EQ(roce_mr_invalidate(table, mw[2], PD, 3, false), 0);
    CHECK_EQ(roce_mr_table_mw_destroy(table, mw[4]), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_table_mw_destroy(table, mw[0]), FAKERNIC_CMD_OK);
    CHECK(!roce_mr_table_qp_gone(table, 3, 1));
    CHECK(roce_mr_table_qp_gone(table, 3, 1));
    CHECK(roce_mr_table_qp_gone(table, 3, 1));
    for (unsigned i = 1; i < 4; i++) {
        const RoceMr *found;

        CHECK_EQ(roce_mr_check(table, access_to(mw[i], PD, 3, 0x1000, 1, A(RD)),
                               &found), FAKERNIC_VENDOR_KEY_STATE);
    }
    grant_qp(other, 4, 0x1000, 8, RD);
    CHECK_EQ(roce_mr_table_destroy(table, mr), FAKERNIC_CMD_BUSY);
    CHECK(roce_mr_table_qp_gone(table, 4, 1));
    CHECK_EQ(roce_mr_table_destroy(table, mr), FAKERNIC_CMD_OK);
    teardown();
}

static void zero_based_window(void)
{
    uint8_t buf[50];
    uint32_t mr, mw;

    setup();
    add_pages(2, 0x123);
    mr = create_memory(0x1123, KIB4, 2, ALL);
    mw = create_mw(FAKERNIC_MW_TYPE_2B);
    CHECK_EQ(bind(bind_wr(mw, mw, mr, 0x1ff0, 50, RD | ZERO)), 0);
    CHECK(roce_mr_read(table, grant_qp(mw, 3, 0, 50, RD), 0, buf, 50));
    check_pattern(buf, 0x1ff0 - 0x1123, 50);
    mw = create_mw(FAKERNIC_MW_TYPE_1);
    CHECK_EQ(bind(bind_wr(mw, next_key(mw), mr, 0x1ff0, 50, RD | ZERO)),
             FAKERNIC_VENDOR_BIND);
    teardown();
}

static void bad_bindings_are_refused(void)
{
    uint32_t mr, no_bind, read_only, zero, fast, mw, next;
    RoceSendWr wr;

    setup();
    mr = create_memory(0x1000, KIB4, 1, ALL);
    no_bind = create_memory(0x1000, KIB4, 1, LOCAL | RD | WR);
    read_only = create_memory(0x1000, KIB4, 1, BIND);
    zero = create_memory(0x1000, KIB4, 1, ALL | ZERO);
    fast = create_fast_reg(1);
    mw = create_mw(FAKERNIC_MW_TYPE_1);
    next = next_key(mw);
    CHECK_EQ(bind(bind_wr(0, 0, mr, 0x1000, 1, RD)), FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(bind(bind_wr(next, next, mr, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_BIND);
    CHECK_EQ(bind(bind_wr(mr, next_key(mr), mr, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(bind(bind_wr(mw, mw, mr, 0x1000, 1, RD)), FAKERNIC_VENDOR_BIND);
    CHECK_EQ(bind(bind_wr(mw, next + 0x100, mr, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_BIND);
    CHECK_EQ(bind(bind_wr(mw, next, mr, 0x1000, 1, LOCAL)),
             FAKERNIC_VENDOR_BIND);
    CHECK_EQ(bind(bind_wr(mw, next, 0, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_KEY_INDEX);
    CHECK_EQ(bind(bind_wr(mw, next, mw, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(bind(bind_wr(mw, next, fast, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_KEY_STATE);
    CHECK_EQ(bind(bind_wr(mw, next, no_bind, 0x1000, 1, RD)),
             FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(bind(bind_wr(mw, next, read_only, 0x1000, 1, WR)),
             FAKERNIC_VENDOR_KEY_ACCESS);
    CHECK_EQ(bind(bind_wr(mw, next, zero, 0, 1, RD)), FAKERNIC_VENDOR_BIND);
    CHECK_EQ(bind(bind_wr(mw, next, mr, 0x1000, KIB4 + 1, RD)),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    CHECK_EQ(bind(bind_wr(mw, next, mr, 0xfff, 1, RD)),
             FAKERNIC_VENDOR_KEY_BOUNDS);
    wr = bind_wr(mw, next, mr, 0x1000, 1, RD);
    CHECK_EQ(roce_mr_bind_mw(table, PD + 1, 3, &wr), FAKERNIC_VENDOR_KEY_PD);
    /* none of the refused binds has changed the key */
    CHECK_EQ(bind(bind_wr(mw, next, read_only, 0x1000, 1, RD)), 0);
    teardown();
}

static void region_with_windows_is_not_destroyed(void)
{
    RoceMrInit init = { .access = A(LOCAL) };
    uint32_t fast, mr, mw;

    setup();
    fast = create_fast_reg(1);
    check_reg(reg_wr(fast, 0x1000, KIB4, 1, ALL), 0);
    mr = create_memory(0x1000, KIB4, 1, ALL);
    mw = create_mw(FAKERNIC_MW_TYPE_2B);
    CHECK_EQ(bind(bind_wr(mw, mw, fast, 0x1000, 1, RD)), 0);
    CHECK_EQ(roce_mr_invalidate(table, fast, PD, 3, false),
             FAKERNIC_VENDOR_BIND);
    CHECK_EQ(roce_mr_invalidate(table, mw, PD, 3, false), 0);
    CHECK_EQ(roce_mr_invalidate(table, fast, PD, 3, false), 0);
    CHECK_EQ(bind(bind_wr(mw, mw, mr, 0x1000, 1, RD)), 0);
    CHECK_EQ(roce_mr_table_rereg(table, FAKERNIC_REREG_ACCESS, &init, &mr),
             FAKERNIC_CMD_BUSY);
    CHECK_EQ(roce_mr_table_rereg(table, FAKERNIC_REREG_ACCESS, &init, &mw),
             FAKERNIC_CMD_BAD_ID);
    /* neither command takes the other's keys */
    CHECK_EQ(roce_mr_table_destroy(table, mw), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_mr_table_mw_destroy(table, mr), FAKERNIC_CMD_BAD_ID);
    /* a bound window can be destroyed, which releases its region */
    CHECK_EQ(roce_mr_table_mw_destroy(table, mw), FAKERNIC_CMD_OK);
    CHECK_EQ(roce_mr_table_destroy(table, mr), FAKERNIC_CMD_OK);
    teardown();
}

static void window_on_the_dma_region(void)
{
    RoceMrInit init = { .type = FAKERNIC_MR_DMA, .pd = PD,
                        .access = A(LOCAL | BIND) };
    uint32_t mr, mw;
    uint8_t buf[4];

    setup();
    add_pages(1, 0);
    REQUIRE(roce_mr_table_create(table, &init, &mr) == 0);
    mw = create_mw(FAKERNIC_MW_TYPE_2B);
    CHECK_EQ(bind(bind_wr(mw, mw, mr, page_at(0) + 10, 4, RD | ZERO)), 0);
    CHECK(roce_mr_read(table, grant_qp(mw, 3, 0, 4, RD), 0, buf, 4));
    check_pattern(buf, 10, 4);
    CHECK_EQ(check(mw, 4, 1, RD), FAKERNIC_VENDOR_KEY_QP);
    teardown();
}

static void unknown_window_types_are_refused(void)
{
    uint32_t key;

    setup();
    CHECK_EQ(roce_mr_table_mw_create(table, 0, 0, PD, &key),
             FAKERNIC_CMD_BAD_PARAM);
    CHECK_EQ(roce_mr_table_mw_create(table, 3, 0, PD, &key),
             FAKERNIC_CMD_BAD_PARAM);
    for (unsigned i = 0; i < TABLE - 1; i++) {
        create_mw(FAKERNIC_MW_TYPE_1);
    }
    CHECK_EQ(roce_mr_table_mw_create(table, FAKERNIC_MW_TYPE_1, 0, PD, &key),
             FAKERNIC_CMD_NO_RESOURCE);
    teardown();
}

static const Test tests[] = {
    TEST(key_is_index_and_tag),
    TEST(key_index_is_reused_last),
    TEST(destroyed_key_is_refused),
    TEST(destroy_ignores_the_tag),
    TEST(reset_destroys_all_keys),
    TEST(long_page_lists_are_freed_in_parts),
    TEST(pd_users_are_counted),
    TEST(bad_registrations_are_refused),
    TEST(registrations_at_limits_succeed),
    TEST(region_of_device_memory),
    TEST(rereg_changes_only_requested_attributes),
    TEST(refused_rereg_changes_nothing),
    TEST(bounds_do_not_wrap),
    TEST(region_at_the_end_of_the_address_space),
    TEST(each_access_right_is_checked),
    TEST(first_failed_check_sets_the_error),
    TEST(access_of_0_bytes_needs_no_key),
    TEST(read_and_write_cross_pages),
    TEST(writes_are_in_ascending_order),
    TEST(adjacent_pages_are_one_access),
    TEST(region_of_huge_pages),
    TEST(zero_based_region_starts_at_0),
    TEST(dma_region_covers_all_dma_addresses),
    TEST(null_region_reads_zeroes_and_discards_writes),
    TEST(atomic_changes_8_aligned_bytes),
    TEST(unreachable_memory_is_reported),
    TEST(gather_from_every_offset),
    TEST(scatter_then_gather),
    TEST(bad_sges_are_refused),
    TEST(scatter_needs_local_write),
    TEST(sge_total_has_64_bits),
    TEST(fast_reg_key_passes_all_states),
    TEST(bad_fast_registrations_are_refused),
    TEST(invalidation_by_owner_and_peer),
    TEST(type_1_window_binds_and_rebinds),
    TEST(type_1_window_unbinds_with_length_0),
    TEST(type_1_window_is_found_by_index),
    TEST(type_2_window_belongs_to_its_qp),
    TEST(windows_of_a_qp_are_freed_in_parts),
    TEST(zero_based_window),
    TEST(bad_bindings_are_refused),
    TEST(region_with_windows_is_not_destroyed),
    TEST(window_on_the_dma_region),
    TEST(unknown_window_types_are_refused),
};

TEST_MAIN(tests)
