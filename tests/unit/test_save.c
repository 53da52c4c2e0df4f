/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saving and loading an engine: connections continue after a load, and a stream
 * that is truncated, changed or has other limits is refused and changes
 * nothing. The simulator's class "migrated" covers the rest.
 */
#include "pair.h"
#include "../stream.h"

static Stream saved, again;
static char error[ROCE_LOAD_ERROR];

static void save(PairHost *h, Stream *s)
{
    s->size = s->read = 0;
    REQUIRE(roce_save(h->r, stream_write, s));
}

/* A new engine of the same host. */
static Roce *fresh(PairHost *h, const RoceLimits *limits)
{
    return roce_new(limits, &fake_host_ops, h->host);
}

static bool load(Roce *r, Stream *s)
{
    s->read = 0;
    error[0] = 0;
    return roce_load(r, stream_read, s, error);
}

/* Replaces the host's engine by a loaded one. */
static void move(PairHost *h)
{
    save(h, &saved);
    roce_free(h->r);
    h->r = fresh(h, &pair_limits);
    if (!load(h->r, &saved)) {
        printf("# %s\n", error);
    }
    REQUIRE(saved.read == saved.size);
    save(h, &again);
    CHECK_EQ(again.size, saved.size);
    CHECK_MEM(again.bytes, saved.bytes, saved.size);
}

/* ---- what continues ------------------------------------------------------ */

static void engine_without_objects_loads(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    roce_reset(p.a.r);
    move(&p.a);
}

static void write_continues_in_the_middle(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_fill(p.a.memory, 2000, 1);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 2000);
    CHECK(pair_step(&p, &p.a, &p.b));
    move(&p.a);
    move(&p.b);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory, p.a.memory, 2000);
}

static void lost_packet_is_sent_again_after_a_load(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_lose(&p.a, 1);
    pair_post_rdma(&p, 1, FAKERNIC_SQ_RDMA_WRITE, 0, 8);
    pair_run(&p);
    move(&p.a);
    pair_run_until(&p, INT64_MAX - 1);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 1);
}

static void rnr_wait_goes_on(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 8);
    pair_run(&p);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RX_RNR_NAK), 1);
    move(&p.a);
    move(&p.b);
    pair_recv(&p.b, 9, 0x1000, 8);
    pair_run_until(&p, INT64_MAX - 1);
    pair_expect(&p.a, FAKERNIC_CQE_SEND, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 9, FAKERNIC_WC_SUCCESS);
}

static void held_receive_is_filled_after_a_load(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    pair_fill(p.a.memory, 600, 1);
    pair_recv(&p.b, 9, 0x1000, 600);
    pair_post(&p, 1, FAKERNIC_SQ_SEND, 0, 600);
    CHECK(pair_step(&p, &p.a, &p.b));
    move(&p.b);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RECV, 9, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory + 0x1000, p.a.memory, 600);
}

static void atomic_is_answered_again_and_not_executed(void)
{
    PAIR(p, FAKERNIC_QP_RC);
    RoceSendWr wr = pair_wr(&p.a, 1, FAKERNIC_SQ_ATOMIC_FETCH_ADD, 0, 8);

    bytes_store64(p.b.memory, 40);
    wr.atomic.remote_address = PAIR_MEMORY;
    wr.atomic.rkey = p.b.key;
    wr.atomic.swap_or_add = 2;
    pair_lose(&p.b, 1);
    pair_send(&p, &p.a, &wr);
    pair_run(&p);
    move(&p.b);
    pair_run_until(&p, INT64_MAX - 1);
    pair_expect(&p.a, FAKERNIC_CQE_FETCH_ADD, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(bytes_load64(p.a.memory), 40);
    CHECK_EQ(bytes_load64(p.b.memory), 42);
}

static void numbers_are_used_in_the_same_order(void)
{
    RoceQpInit init = { .type = FAKERNIC_QP_RC, .pd = 1 };
    uint32_t first, second;
    PAIR(p, FAKERNIC_QP_RC);

    CHECK_EQ(roce_qp_destroy(p.a.r, p.a.qpn), FAKERNIC_CMD_OK);
    move(&p.a);
    for (unsigned i = 0; i < PAIR_QPS - 3; i++) {
        CHECK_EQ(roce_qp_create(p.a.r, &init, &first), FAKERNIC_CMD_OK);
        CHECK(first != p.a.qpn);
    }
    CHECK_EQ(roce_qp_create(p.a.r, &init, &second), FAKERNIC_CMD_OK);
    CHECK_EQ(second, p.a.qpn);
    CHECK_EQ(roce_qp_create(p.a.r, &init, &second), FAKERNIC_CMD_NO_RESOURCE);
}

static void init_of_a_qp_is_loaded(void)
{
    RoceQpInit init;
    PAIR(p, FAKERNIC_QP_RC);

    move(&p.a);
    CHECK(roce_qp_query_init(p.a.r, p.a.qpn, &init));
    CHECK_EQ(init.send_cqn, 10);
    CHECK_EQ(init.recv_cqn, 11);
    CHECK(!roce_qp_query_init(p.a.r, p.a.qpn + 1, &init));
}

/* ---- what is refused ----------------------------------------------------- */

/* A state with many objects: b is in the middle of a SEND and of a READ. */
static void busy(Pair *p)
{
    pair_recv(&p->b, 9, 0x1000, 600);
    pair_post(p, 1, FAKERNIC_SQ_SEND, 0, 300);
    pair_post_rdma(p, 2, FAKERNIC_SQ_RDMA_READ, 0x2000, 600);
    pair_step(p, &p->a, &p->b);
    pair_step(p, &p->a, &p->b);
    pair_step(p, &p->a, &p->b);
}

static void check_refused(Roce *r)
{
    RoceQpAttr attr;

    CHECK(error[0] != 0);
    CHECK(!strchr(error, '\n'));
    CHECK_EQ(roce_qp_query(r, 2, &attr), FAKERNIC_CMD_BAD_ID);
    CHECK_EQ(roce_pd_users(r, 1), 0);
    CHECK_EQ(roce_deadline(r), ROCE_TIME_NEVER);
}

static void truncated_stream_is_refused(void)
{
    PAIR(p, FAKERNIC_QP_RC);
    Roce *r = fresh(&p.b, &pair_limits);
    size_t size;

    busy(&p);
    save(&p.b, &saved);
    size = saved.size;
    for (saved.size = 0; saved.size < size; saved.size++) {
        CHECK(!load(r, &saved));
        CHECK(strstr(error, "ends too early") != NULL);
        check_refused(r);
    }
    CHECK(load(r, &saved));
    roce_free(r);
}

/* No single change makes the engine crash, now or later. */
static void changed_stream_harms_nothing(void)
{
    PAIR(p, FAKERNIC_QP_RC);
    unsigned refused = 0;

    busy(&p);
    save(&p.b, &saved);
    for (size_t at = 0; at < saved.size; at++) {
        const uint8_t byte = saved.bytes[at];
        PairHost other = p.b;

        saved.bytes[at] ^= at % 2 ? 0xff : 1;
        other.host = fake_host_new();
        other.r = roce_new(&pair_limits, &fake_host_ops, other.host);
        if (!load(other.r, &saved)) {
            refused++;
            check_refused(other.r);
        }
        roce_qp_error(other.r, p.now, other.qpn, 1);
        roce_free(other.r);
        fake_host_free(other.host);
        saved.bytes[at] = byte;
    }
    CHECK(refused > 100);
}

static void check_limit(PairHost *h, const RoceLimits *limits,
                        const char *reason)
{
    Roce *r = fresh(h, limits);

    CHECK(!load(r, &saved));
    CHECK(strcmp(error, reason) == 0);
    if (strcmp(error, reason) != 0) {
        printf("# %s\n", error);
    }
    check_refused(r);
    roce_free(r);
}

static void other_limits_are_refused(void)
{
    RoceLimits limits = pair_limits;
    PAIR(p, FAKERNIC_QP_RC);

    save(&p.a, &saved);
    limits.max_qp = 32;
    check_limit(&p.a, &limits, "max_qp is 16 in the stream and 32 here");
    limits = pair_limits;
    limits.gid_count = 8;
    check_limit(&p.a, &limits, "gid_count is 4 in the stream and 8 here");
}

static void other_version_is_refused(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    save(&p.a, &saved);
    saved.bytes[4] = 2;
    check_limit(&p.a, &pair_limits,
                "version 2 of the stream, only 1 is supported");
    saved.bytes[0] ^= 1;
    check_limit(&p.a, &pair_limits, "this is no state of the engine");
}

/* Fails when it has no room left for the bytes. */
static bool limited_write(void *opaque, const void *bytes, size_t size)
{
    size_t *left = opaque;

    (void)bytes;
    if (size > *left) {
        return false;
    }
    *left -= size;
    return true;
}

static void failed_write_is_reported(void)
{
    PAIR(p, FAKERNIC_QP_RC);

    save(&p.a, &saved);
    for (size_t size = saved.size; size-- > 0;) {
        size_t left = size;

        CHECK(!roce_save(p.a.r, limited_write, &left));
    }
}

static const Test tests[] = {
    TEST(engine_without_objects_loads),
    TEST(write_continues_in_the_middle),
    TEST(lost_packet_is_sent_again_after_a_load),
    TEST(rnr_wait_goes_on),
    TEST(held_receive_is_filled_after_a_load),
    TEST(atomic_is_answered_again_and_not_executed),
    TEST(numbers_are_used_in_the_same_order),
    TEST(init_of_a_qp_is_loaded),
    TEST(truncated_stream_is_refused),
    TEST(changed_stream_harms_nothing),
    TEST(other_limits_are_refused),
    TEST(other_version_is_refused),
    TEST(failed_write_is_reported),
};

TEST_MAIN(tests)
