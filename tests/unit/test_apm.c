/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Automatic path migration (IBTA 17.2.8): two GIDs per host, two paths. */
#include "engine.h"
#include "pair.h"

#define ALT FAKERNIC_QP_ATTR_ALT_PATH
#define MIG FAKERNIC_QP_ATTR_PATH_MIG_STATE

static uint8_t mig_state(const PairHost *h)
{
    return pair_qp(h)->attr.path_mig_state;
}

static RoceGid second_gid(const PairHost *h)
{
    RoceGid gid = h->gid;

    gid.gid[13] = 77;
    return gid;
}

static RoceQpAttr alternate(const PairHost *peer)
{
    RoceQpAttr attr = {
        .path_mig_state = FAKERNIC_MIG_REARM,
        .alt_av = pair_av(peer),
        .alt_port = 1,
        .alt_timeout = 16,
    };

    attr.alt_av.sgid_index = 1;
    memcpy(attr.alt_av.dgid, second_gid(peer).gid, 16);
    return attr;
}

static void rearm(Pair *p, PairHost *h, PairHost *peer)
{
    RoceQpAttr attr = alternate(peer);

    CHECK_EQ(pair_modify(h, p->now, ALT | MIG, &attr), FAKERNIC_CMD_OK);
}

static void paths_init(Pair *p, uint8_t type)
{
    RoceGid gid;

    pair_init(p, type);
    gid = second_gid(&p->a);
    CHECK_EQ(roce_gid_set(p->a.r, 1, &gid), FAKERNIC_CMD_OK);
    gid = second_gid(&p->b);
    CHECK_EQ(roce_gid_set(p->b.r, 1, &gid), FAKERNIC_CMD_OK);
}

static void write_one(Pair *p, PairHost *h, PairHost *peer, uint32_t index)
{
    RoceSendWr wr = pair_rdma_wr(h, peer, index, FAKERNIC_SQ_RDMA_WRITE, 0,
                                 64);

    pair_send(p, h, &wr);
}

/* Both sides rearm, and traffic in both directions arms them. */
static void armed_init(Pair *p)
{
    paths_init(p, FAKERNIC_QP_RC);
    rearm(p, &p->a, &p->b);
    rearm(p, &p->b, &p->a);
    write_one(p, &p->a, &p->b, 100);
    pair_run(p);
    pair_expect(&p->a, FAKERNIC_CQE_RDMA_WRITE, 100, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(mig_state(&p->a), FAKERNIC_MIG_ARMED);
    CHECK_EQ(mig_state(&p->b), FAKERNIC_MIG_ARMED);
}

static bool over_alternate(const RocePacket *packet)
{
    return packet->sgid[13] == 77 && packet->dgid[13] == 77;
}

/* Moves frames; all those of the primary path are lost. */
static void run_primary_dead(Pair *p, RoceTime until)
{
    for (;;) {
        PairHost *hosts[2] = { &p->a, &p->b };
        uint8_t buf[ROCE_FRAME_MAX];
        RoceTime next = roce_deadline(p->a.r);
        bool moved = false;
        unsigned i;

        for (i = 0; i < 2; i++) {
            RocePacket packet;
            bool loopback;
            size_t len = roce_output(hosts[i]->r, p->now, buf, &loopback);
            enum fakernic_stat drop;

            if (len > 0) {
                moved = true;
                roce_wire_decode(buf, len, &packet, &drop);
                if (over_alternate(&packet)) {
                    roce_input(hosts[!i]->r, p->now, buf, len);
                }
            }
        }
        if (moved) {
            continue;
        }
        if (roce_deadline(p->b.r) < next) {
            next = roce_deadline(p->b.r);
        }
        if (next > until) {
            return;
        }
        p->now = next;
        roce_tick(p->a.r, p->now);
        roce_tick(p->b.r, p->now);
    }
}

static void rearm_is_confirmed_as_armed(void)
{
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    Pair p;

    paths_init(&p, FAKERNIC_QP_RC);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_MIGRATED);
    rearm(&p, &p.a, &p.b);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_REARM);
    /* The peer is not ready: its packets have MigReq 1 and arm no QP. */
    write_one(&p, &p.a, &p.b, 1);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_REARM);
    CHECK_EQ(mig_state(&p.b), FAKERNIC_MIG_MIGRATED);
    rearm(&p, &p.b, &p.a);
    write_one(&p, &p.a, &p.b, 2);
    CHECK(pair_step(&p, &p.a, &p.b));
    CHECK_EQ(mig_state(&p.b), FAKERNIC_MIG_ARMED);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_REARM);
    CHECK(pair_step(&p, &p.b, &p.a));
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_ARMED);
    write_one(&p, &p.a, &p.b, 3);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK(!packet.mig_req);
    CHECK_EQ(p.a.host->event_count, 0);
    pair_free(&p);
}

/* The primary path fails: both QPs migrate, and no request is lost. */
static void exhausted_retries_migrate(void)
{
    RoceQpAttr attr;
    uint8_t buf[ROCE_FRAME_MAX];
    RocePacket packet;
    RoceAv old;
    Pair p;

    armed_init(&p);
    old = pair_qp(&p.a)->attr.av;
    pair_fill(p.a.memory, 64, 5);
    write_one(&p, &p.a, &p.b, 1);
    run_primary_dead(&p, 100000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    CHECK_MEM(p.b.memory, p.a.memory, 64);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 4);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_RETRY_EXCEEDED), 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_PATH_MIGRATIONS), 1);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_PATH_MIGRATIONS), 1);
    pair_expect_event(&p.a, FAKERNIC_EVENT_PATH_MIGRATED);
    pair_expect_event(&p.b, FAKERNIC_EVENT_PATH_MIGRATED);
    CHECK_EQ(roce_qp_query(p.a.r, p.a.qpn, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(attr.path_mig_state, FAKERNIC_MIG_MIGRATED);
    CHECK_EQ(attr.av.sgid_index, 1);
    CHECK_EQ(attr.timeout, 16);
    CHECK_EQ(attr.alt_timeout, 14);
    CHECK_MEM(attr.av.dgid, second_gid(&p.b).gid, 16);
    CHECK_MEM(&attr.alt_av, &old, sizeof(old));
    write_one(&p, &p.a, &p.b, 2);
    CHECK(pair_take(&p, &p.a, buf, &packet));
    CHECK(packet.mig_req && over_alternate(&packet));
    pair_free(&p);
}

/* Both send when the path fails. The QP that migrates second gets all its
 * retries again. */
static void second_qp_to_migrate_gets_all_retries(void)
{
    Pair p;

    armed_init(&p);
    pair_qp(&p.b)->retry.retry_left = 0;
    pair_qp(&p.b)->attr.timeout = 18;     /* its timer expires later */
    write_one(&p, &p.b, &p.a, 2);
    pair_lose(&p.b, 1);
    pair_run(&p);
    write_one(&p, &p.a, &p.b, 1);
    run_primary_dead(&p, 100000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect(&p.b, FAKERNIC_CQE_RDMA_WRITE, 2, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_TIMEOUTS), 0);
    CHECK_EQ(pair_qp(&p.b)->retry.retry_left, 3);
    pair_free(&p);
}

/* Both paths fail. The alternate path gets all its retries and its timeout. */
static void alternate_path_gets_all_retries(void)
{
    RoceTime end = 4 * roce_retry_ack_ns(14) + 4 * roce_retry_ack_ns(16);
    Pair p;

    armed_init(&p);
    p.a.mute = true;
    write_one(&p, &p.a, &p.b, 1);
    pair_run_until(&p, end - 1);
    pair_expect_none(&p.a);
    pair_run_until(&p, end);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_RETRY_EXC_ERR);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_TIMEOUTS), 8);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_PATH_MIGRATIONS), 1);
    pair_free(&p);
}

/* A QP whose peer has not rearmed does not migrate when its retries end. */
static void unarmed_peer_prevents_migration(void)
{
    Pair p;

    paths_init(&p, FAKERNIC_QP_RC);
    rearm(&p, &p.a, &p.b);
    p.a.mute = true;
    write_one(&p, &p.a, &p.b, 1);
    pair_run_until(&p, 100000000000);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_RETRY_EXC_ERR);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_PATH_MIGRATIONS), 0);
    CHECK_EQ(p.a.host->event_count, 0);
    pair_free(&p);
}

static void software_can_request_migration(void)
{
    RoceQpAttr attr = { .path_mig_state = FAKERNIC_MIG_MIGRATED };
    Pair p;

    armed_init(&p);
    CHECK_EQ(pair_modify(&p.a, 0, MIG, &attr), FAKERNIC_CMD_OK);
    pair_expect_event(&p.a, FAKERNIC_EVENT_PATH_MIGRATED);
    CHECK_EQ(pair_qp(&p.a)->attr.av.sgid_index, 1);
    write_one(&p, &p.a, &p.b, 1);
    pair_run(&p);
    pair_expect(&p.a, FAKERNIC_CQE_RDMA_WRITE, 1, FAKERNIC_WC_SUCCESS);
    pair_expect_event(&p.b, FAKERNIC_EVENT_PATH_MIGRATED);
    /* Rearm with the former primary path, which is the alternate one now. */
    attr.path_mig_state = FAKERNIC_MIG_REARM;
    CHECK_EQ(pair_modify(&p.a, 0, MIG, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(pair_modify(&p.b, 0, MIG, &attr), FAKERNIC_CMD_OK);
    write_one(&p, &p.a, &p.b, 2);
    pair_run(&p);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_ARMED);
    attr.path_mig_state = FAKERNIC_MIG_MIGRATED;
    CHECK_EQ(pair_modify(&p.b, 0, MIG, &attr), FAKERNIC_CMD_OK);
    write_one(&p, &p.b, &p.a, 3);
    pair_run(&p);
    pair_expect(&p.b, FAKERNIC_CQE_RDMA_WRITE, 3, FAKERNIC_WC_SUCCESS);
    CHECK_EQ(pair_qp(&p.a)->attr.av.sgid_index, 0);
    CHECK_EQ(pair_qp(&p.b)->attr.av.sgid_index, 0);
    pair_free(&p);
}

/* In REARM, setting MIGRATED only cancels the rearming. */
static void setting_migrated_cancels_rearming(void)
{
    RoceQpAttr attr = { .path_mig_state = FAKERNIC_MIG_MIGRATED };
    Pair p;

    paths_init(&p, FAKERNIC_QP_RC);
    rearm(&p, &p.a, &p.b);
    CHECK_EQ(pair_modify(&p.a, 0, MIG, &attr), FAKERNIC_CMD_OK);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_MIGRATED);
    CHECK_EQ(pair_qp(&p.a)->attr.av.sgid_index, 0);
    CHECK_EQ(pair_stat(&p.a, FAKERNIC_STAT_PATH_MIGRATIONS), 0);
    pair_free(&p);
}

/* The peer migrates to a wrong path: one event, and its packets are dropped. */
static void migration_to_wrong_path_is_reported_once(void)
{
    RocePacket packet;
    unsigned i;
    Pair p;

    armed_init(&p);
    for (i = 0; i < 3; i++) {
        packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN + 1);
        if (i > 0) {
            packet.sgid[13] = 99;
        }
        pair_inject(&p, &p.b, &packet, NULL, 0);
    }
    CHECK_EQ(p.b.host->event_count, 1);
    CHECK_EQ(p.b.host->events[0].vendor_err, FAKERNIC_VENDOR_MIGRATION);
    pair_expect_event(&p.b, FAKERNIC_EVENT_PATH_MIGRATION_ERROR);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_ADDRESS), 3);
    CHECK_EQ(mig_state(&p.b), FAKERNIC_MIG_ARMED);
    /* The alternate path with MigReq 0 is no migration either. */
    packet = pair_packet(&p.a, &p.b, ROCE_BTH_SEND_ONLY, PAIR_PSN + 1);
    packet.sgid[13] = packet.dgid[13] = 77;
    packet.mig_req = false;
    pair_inject(&p, &p.b, &packet, NULL, 0);
    CHECK_EQ(pair_stat(&p.b, FAKERNIC_STAT_DROP_ADDRESS), 4);
    CHECK_EQ(mig_state(&p.b), FAKERNIC_MIG_ARMED);
    pair_free(&p);
}

/* rdma_rxe always sends MigReq 0, other cards 1. A QP accepts both. */
static void migrated_qp_accepts_both_values_of_migreq(void)
{
    static const uint8_t types[] = { FAKERNIC_QP_RC, FAKERNIC_QP_UC };
    unsigned i;

    for (i = 0; i < 4; i++) {
        RocePacket packet;
        PAIR(p, types[i % 2]);

        packet = pair_packet(&p.a, &p.b, ROCE_BTH_WRITE_ONLY, PAIR_PSN);
        packet.opcode |= i % 2 ? ROCE_BTH_UC : 0;
        packet.mig_req = i / 2;
        packet.reth.address = PAIR_MEMORY;
        packet.reth.rkey = p.b.key;
        packet.reth.length = 4;
        pair_inject(&p, &p.b, &packet, "abcd", 4);
        CHECK_MEM(p.b.memory, "abcd", 4);
        CHECK_EQ(mig_state(&p.b), FAKERNIC_MIG_MIGRATED);
    }
}

/* UC has no retries; its receiver follows the sender. */
static void uc_receiver_migrates_with_its_sender(void)
{
    RoceQpAttr attr = { .path_mig_state = FAKERNIC_MIG_MIGRATED };
    Pair p;

    paths_init(&p, FAKERNIC_QP_UC);
    rearm(&p, &p.a, &p.b);
    rearm(&p, &p.b, &p.a);
    write_one(&p, &p.a, &p.b, 1);
    write_one(&p, &p.b, &p.a, 1);
    pair_run(&p);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_ARMED);
    CHECK_EQ(mig_state(&p.b), FAKERNIC_MIG_ARMED);
    CHECK_EQ(pair_modify(&p.a, 0, MIG, &attr), FAKERNIC_CMD_OK);
    pair_fill(p.a.memory, 64, 5);
    write_one(&p, &p.a, &p.b, 2);
    pair_run(&p);
    CHECK_MEM(p.b.memory, p.a.memory, 64);
    CHECK_EQ(pair_qp(&p.b)->attr.av.sgid_index, 1);
    pair_expect_event(&p.b, FAKERNIC_EVENT_PATH_MIGRATED);
    pair_free(&p);
}

static void bad_attributes_are_refused(void)
{
    RoceQpAttr good, attr;
    uint32_t bad;
    unsigned i;
    Pair p;

    paths_init(&p, FAKERNIC_QP_RC);
    good = alternate(&p.b);
    for (i = 0; i < 7; i++) {
        uint32_t mask = ALT;
        uint32_t want = ALT;

        attr = good;
        switch (i) {
        case 0: attr.alt_av.sgid_index = 3; break;
        case 1: attr.alt_port = 2; break;
        case 2: attr.alt_pkey_index = 1; break;
        case 3: attr.alt_timeout = 32; break;
        case 4: mask = want = MIG; break;       /* no path loaded */
        case 5: attr.path_mig_state = FAKERNIC_MIG_ARMED; want = MIG;
                mask |= MIG; break;
        case 6: attr.path_mig_state = 3; want = MIG; mask |= MIG; break;
        }
        CHECK_EQ(roce_qp_modify(p.a.r, 0, p.a.qpn, mask, &attr, &bad),
                 FAKERNIC_CMD_BAD_PARAM);
        CHECK_EQ(bad, want);
    }
    CHECK(!pair_qp(&p.a)->alt_path);
    /* RESET unloads the path. */
    rearm(&p, &p.a, &p.b);
    attr.state = FAKERNIC_QPS_RESET;
    CHECK_EQ(pair_modify(&p.a, 0, FAKERNIC_QP_ATTR_STATE, &attr),
             FAKERNIC_CMD_OK);
    CHECK(!pair_qp(&p.a)->alt_path);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_MIGRATED);
    pair_free(&p);
}

/* The path is loaded in RTR and rearmed on the way to RTS, as connection
 * managers do. */
static void alternate_path_is_loaded_in_rtr(void)
{
    RoceQpAttr attr, alt;
    Pair p;

    paths_init(&p, FAKERNIC_QP_RC);
    pair_create(&p.a, FAKERNIC_QP_RC);
    attr = pair_attr(&p.b);
    alt = alternate(&p.b);
    attr.alt_av = alt.alt_av;
    attr.alt_port = alt.alt_port;
    attr.path_mig_state = FAKERNIC_MIG_REARM;
    attr.state = FAKERNIC_QPS_INIT;
    CHECK_EQ(pair_modify(&p.a, 0, PAIR_INIT_MASK, &attr), FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTR;
    CHECK_EQ(pair_modify(&p.a, 0, PAIR_RTR_MASK | ALT, &attr),
             FAKERNIC_CMD_OK);
    attr.state = FAKERNIC_QPS_RTS;
    CHECK_EQ(pair_modify(&p.a, 0, PAIR_RTS_MASK | MIG, &attr),
             FAKERNIC_CMD_OK);
    CHECK_EQ(mig_state(&p.a), FAKERNIC_MIG_REARM);
    pair_free(&p);
}

static const Test tests[] = {
    TEST(rearm_is_confirmed_as_armed),
    TEST(exhausted_retries_migrate),
    TEST(second_qp_to_migrate_gets_all_retries),
    TEST(alternate_path_gets_all_retries),
    TEST(unarmed_peer_prevents_migration),
    TEST(software_can_request_migration),
    TEST(setting_migrated_cancels_rearming),
    TEST(migration_to_wrong_path_is_reported_once),
    TEST(migrated_qp_accepts_both_values_of_migreq),
    TEST(uc_receiver_migrates_with_its_sender),
    TEST(bad_attributes_are_refused),
    TEST(alternate_path_is_loaded_in_rtr),
};

TEST_MAIN(tests)
