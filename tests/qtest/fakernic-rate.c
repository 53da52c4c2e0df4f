/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rates between two devices in two processes, without guests. `make bench-wire`
 * runs them (-m perf). They show how fast a wire carries frames between devices
 * that only move them, how fast it carries RDMA, and how many QPs compare with
 * one. They are not tests: no rate makes them fail.
 *
 * A rate is per second of processor time of the busier main loop. A host with a
 * processor for each device would reach it. So other programs on the host have
 * little effect.
 *
 * A device that only moves frames sends from a raw-packet QP. Its peer has no
 * QP for these frames and drops them. All requests of a run are in memory
 * before it begins, and one doorbell per QP starts them.
 */
#include "qemu/osdep.h"
#include "qemu/host-utils.h"
#include "fakernic-setup.h"

#define RATE_ENDS 2
#define RATE_QPS_MAX 64
#define RATE_ROUNDS 9
#define RATE_MTU 9000
#define RATE_TRIES 60000        /* of RATE_LOOK_US each */
#define RATE_LOOK_US 1000
/* Frames with 4,096 and with 64 bytes of an RDMA WRITE, and their payload. */
#define RATE_LONG_FRAME 4155
#define RATE_SHORT_FRAME 138

static const uint8_t rate_macs[RATE_ENDS][6] = { { 2, 0, 0, 0, 0, 1 },
                                                 { 2, 0, 0, 0, 0, 2 } };
static const uint8_t rate_gids[RATE_ENDS][16] = {
    { [10] = 0xff, 0xff, 10, 0, 0, 1 }, { [10] = 0xff, 0xff, 10, 0, 0, 2 },
};

typedef struct RateEnd {
    Machine m;
    Nic n;
    Setup s;
} RateEnd;

/* Two devices on a wire. */
typedef struct RateWire {
    RateEnd ends[RATE_ENDS];
    char *folder;               /* of a link */
} RateWire;

/* One kind of traffic: QPs with full rings. */
typedef struct RateLoad {
    Qp qps[RATE_QPS_MAX];
    unsigned count;             /* QPs */
    unsigned depth;             /* requests of each */
    uint32_t size;              /* payload of a request */
    double acks;                /* frames from the peer per request, last run */
} RateLoad;

/* ---- two devices --------------------------------------------------------- */

static void rate_end_setup(RateEnd *end, unsigned i)
{
    struct fakernic_set_gid_req gid = gid_req(0, rate_gids[i]);
    struct fakernic_set_port_req port = {
        .mask = LE32(FAKERNIC_PORT_MTU), .mtu = LE32(RATE_MTU),
    };

    nic_find(&end->n, &end->m, SLOT);
    nic_bringup(&end->n);
    setup(&end->n, &end->s);
    memcpy(gid.mac, rate_macs[i], 6);
    assert_status(CMD(&end->n, SET_GID, gid), OK);
    assert_status(CMD(&end->n, SET_PORT, port), OK);
    /* A CQ with room for the last request of each QP. */
    cq_create(&end->n, &end->s.cq, 10, &end->s.eq, 0, 0);
}

static void rate_start(RateWire *w, const char *netdev, int type)
{
    int fds[RATE_ENDS];

    g_assert_cmpint(socketpair(AF_UNIX, type, 0, fds), ==, 0);
    for (unsigned i = 0; i < RATE_ENDS; i++) {
        machine_start(&w->ends[i].m, "-netdev %s=%d -device fakernic,"
                      "addr=04.0,netdev=n0,mac=02:00:00:00:00:0%u", netdev,
                      fds[i], i + 1);
        close(fds[i]);
        rate_end_setup(&w->ends[i], i);
    }
}

static void rate_start_link(RateWire *w)
{
    w->folder = g_dir_make_tmp("fakernic-rate-XXXXXX", NULL);
    g_assert_nonnull(w->folder);
    for (unsigned i = 0; i < RATE_ENDS; i++) {
        machine_start(&w->ends[i].m, "-device fakernic,addr=04.0,link=%s,"
                      "mac=02:00:00:00:00:0%u", w->folder, i + 1);
        rate_end_setup(&w->ends[i], i);
    }
}

static void rate_stop(RateWire *w)
{
    for (unsigned i = 0; i < RATE_ENDS; i++) {
        g_free(w->ends[i].n.pci);
        machine_stop(&w->ends[i].m);
    }
    if (w->folder) {
        g_autofree char *lock = g_build_filename(w->folder, "lock", NULL);

        unlink(lock);
        rmdir(w->folder);
        g_free(w->folder);
    }
}

/* ---- requests ------------------------------------------------------------ */

static void rate_qp_create(RateEnd *end, Qp *qp, uint8_t type, unsigned depth)
{
    const unsigned log_depth = ctz32(depth);
    struct fakernic_create_qp_req req = {
        .sq_pages = queue_alloc(&end->n, &qp->sq, log_depth,
                                FAKERNIC_SQ_BB_SHIFT),
        .rq_pages = queue_alloc(&end->n, &qp->rq, 4, 6),
        .type = type,
        .sq_log_depth = log_depth,
        .rq_log_depth = 4,
        .rq_log_stride = 6,
        .pdn = LE32(end->s.pd),
        .send_cqn = LE32(end->s.cq.id),
        .recv_cqn = LE32(end->s.cq.id),
    };

    qp->qpn = cmd_create(&end->n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
}

/* Fills the ring with equal requests, of which the last one completes. */
static void rate_fill(RateEnd *end, const Qp *qp, Wqe wqe)
{
    g_autofree Wqe *all = g_new(Wqe, qp->sq.depth);

    QEMU_BUILD_BUG_ON(sizeof(Wqe) != FAKERNIC_SQ_BB_SIZE);
    wqe.hdr.flags = 0;
    for (unsigned i = 0; i < qp->sq.depth; i++) {
        all[i] = wqe;
    }
    all[qp->sq.depth - 1].hdr.flags = FAKERNIC_SQ_SIGNALED;
    qtest_memwrite(end->m.qts, qp->sq.address, all,
                   (size_t)qp->sq.depth * sizeof(*all));
}

/* 'depth' frames of 'len' bytes that the peer drops. */
static void rate_raw(RateWire *w, RateLoad *load, uint32_t len, unsigned depth)
{
    RateEnd *end = &w->ends[0];
    uint8_t header[14];
    struct fakernic_modify_qp_req init = {
        .mask = LE32(FAKERNIC_QP_ATTR_STATE | FAKERNIC_QP_ATTR_PORT),
        .attr = { .state = FAKERNIC_QPS_INIT, .port = 1 },
    };
    Qp *qp = load->qps;

    *load = (RateLoad) { .count = 1, .depth = depth, .size = len };
    rate_qp_create(end, qp, FAKERNIC_QP_RAW_PACKET, depth);
    init.qpn = LE32(qp->qpn);
    assert_status(CMD(&end->n, MODIFY_QP, init), OK);
    assert_status(qp_to(&end->n, qp->qpn, FAKERNIC_QPS_RTR), OK);
    assert_status(qp_to(&end->n, qp->qpn, FAKERNIC_QPS_RTS), OK);
    frame_make(header, rate_macs[1], sizeof(header));
    memcpy(header + 6, rate_macs[0], 6);
    qtest_memwrite(end->m.qts, end->s.data, header, sizeof(header));
    rate_fill(end, qp, wqe_send(&end->s, 0, len));
}

static void rate_connect(RateEnd *end, const Qp *qp, const Qp *far, unsigned i)
{
    struct fakernic_modify_qp_req req =
        connect_req(qp->qpn, far->qpn, rate_gids[!i], rate_macs[!i], 0, 0);

    req.attr.path_mtu = FAKERNIC_MTU_4096;
    connect_rtr(&end->n, FAKERNIC_QP_RC, &req);
    req.attr.state = FAKERNIC_QPS_RTS;
    req.mask = LE32(FAKERNIC_QP_ATTR_STATE | RTS_REQUESTER_MASK);
    assert_status(CMD(&end->n, MODIFY_QP, req), OK);
}

/* 'depth' WRITEs of 'size' bytes on each of 'count' QPs. */
static void rate_write(RateWire *w, RateLoad *load, unsigned count,
                       uint32_t size, unsigned depth)
{
    *load = (RateLoad) { .count = count, .depth = depth, .size = size };
    for (unsigned i = 0; i < count; i++) {
        Wqe wqe = wqe_rdma(&w->ends[0].s, FAKERNIC_SQ_RDMA_WRITE, 0, 0, size);
        Qp far;

        rate_qp_create(&w->ends[0], &load->qps[i], FAKERNIC_QP_RC, depth);
        rate_qp_create(&w->ends[1], &far, FAKERNIC_QP_RC, 16);
        rate_connect(&w->ends[0], &load->qps[i], &far, 0);
        rate_connect(&w->ends[1], &far, &load->qps[i], 1);
        wqe.rdma.rdma.remote_address = LE64(w->ends[1].s.data);
        wqe.rdma.rdma.rkey = LE32(w->ends[1].s.key);
        rate_fill(&w->ends[0], &load->qps[i], wqe);
    }
}

/* Waits until the last request of each QP is complete. Both clocks, which stand
 * still in a qtest, advance with the host's. */
static void rate_wait(RateWire *w, unsigned count)
{
    Nic *n = &w->ends[0].n;
    Queue *cq = &w->ends[0].s.cq;
    int64_t then = g_get_monotonic_time();

    for (unsigned tries = 0; tries < RATE_TRIES; tries++) {
        struct fakernic_cqe cqe;
        int64_t now;

        while (count && cq_poll(n, cq, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, FAKERNIC_WC_SUCCESS);
            count--;
        }
        queue_record(n, cq, cq->index);
        if (!count) {
            return;
        }
        g_usleep(RATE_LOOK_US);
        now = g_get_monotonic_time();
        for (unsigned i = 0; i < RATE_ENDS; i++) {
            qtest_clock_step(w->ends[i].m.qts, (now - then) * 1000);
        }
        then = now;
    }
    g_error("the requests do not complete");
}

/* One run; bytes of payload per microsecond of the busier main loop, which is
 * MB/s. */
static double rate_run(RateWire *w, RateLoad *load)
{
    Nic *n = &w->ends[0].n;
    Nic *far = &w->ends[1].n;
    uint64_t took[RATE_ENDS], frames = nic_stat(far, FAKERNIC_STAT_TX_FRAMES);

    for (unsigned i = 0; i < load->count; i++) {
        Qp *qp = &load->qps[i];

        qp->sq.index += load->depth;
        queue_record(n, &qp->sq, qp->sq.index);
    }
    for (unsigned i = 0; i < RATE_ENDS; i++) {
        took[i] = main_cpu_us(&w->ends[i].m);
    }
    for (unsigned i = 0; i < load->count; i++) {
        sq_ring(n, &load->qps[i]);
    }
    rate_wait(w, load->count);
    for (unsigned i = 0; i < RATE_ENDS; i++) {
        took[i] = main_cpu_us(&w->ends[i].m) - took[i];
    }
    frames = nic_stat(far, FAKERNIC_STAT_TX_FRAMES) - frames;
    load->acks = (double)frames / (load->depth * load->count);
    return (double)load->size * load->depth * load->count /
           MAX(took[0], took[1]);
}

static int rate_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double rate_median(double *all)
{
    qsort(all, RATE_ROUNDS, sizeof(*all), rate_order);
    return all[RATE_ROUNDS / 2];
}

/* Runs two loads by turns and prints the ratio of the second to the first. 'by'
 * is bytes of the first per byte of the second. */
static void rate_compare(RateWire *w, const char *name, RateLoad *base,
                         RateLoad *load, double by)
{
    double rates[RATE_ROUNDS], bases[RATE_ROUNDS], ratios[RATE_ROUNDS];
    double ratio, least, greatest;

    rate_run(w, base);
    rate_run(w, load);
    for (unsigned i = 0; i < RATE_ROUNDS; i++) {
        bases[i] = rate_run(w, base) / by;
        rates[i] = rate_run(w, load);
        ratios[i] = rates[i] / bases[i];
    }
    ratio = rate_median(ratios);
    least = ratios[0];
    greatest = ratios[RATE_ROUNDS - 1];
    g_test_message("rate %s: %.1f of %.1f MB/s, %.0f %% (%.0f..%.0f), ACKs per "
                   "request %.3f (%.3f)", name, rate_median(rates),
                   rate_median(bases), 100 * ratio, 100 * least, 100 * greatest,
                   load->acks, base->acks);
}

/* ---- what is compared ---------------------------------------------------- */

/* RDMA WRITEs against the same frames without RDMA. */
static void rate_share(RateWire *w, const char *wire)
{
    g_autofree char *long_name = g_strdup_printf("%s, WRITE of 64 KiB against "
                                                 "its frames", wire);
    g_autofree char *short_name = g_strdup_printf("%s, WRITE of 64 bytes "
                                                  "against its frames", wire);
    RateLoad raw, writes;

    rate_raw(w, &raw, RATE_LONG_FRAME, 1 << 14);
    rate_write(w, &writes, 1, 65536, 1 << 10);
    rate_compare(w, long_name, &raw, &writes, RATE_LONG_FRAME / 4096.0);
    rate_raw(w, &raw, RATE_SHORT_FRAME, 1 << 14);
    rate_write(w, &writes, 1, 64, 1 << 14);
    rate_compare(w, short_name, &raw, &writes, RATE_SHORT_FRAME / 64.0);
}

/* WRITEs on many QPs against one. */
static void rate_many(RateWire *w, const char *wire)
{
    static const unsigned counts[] = { 8, 64 };
    static const struct {
        uint32_t size;
        unsigned requests;      /* of all QPs, so that a run takes 50 ms */
    } kinds[] = { { 65536, 1 << 11 }, { 4096, 1 << 14 }, { 64, 1 << 16 } };

    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        RateLoad one;

        rate_write(w, &one, 1, kinds[i].size, kinds[i].requests);
        for (unsigned j = 0; j < ARRAY_SIZE(counts); j++) {
            g_autofree char *name = g_strdup_printf(
                "%s, WRITE of %u on %u QPs against one", wire, kinds[i].size,
                counts[j]);
            RateLoad many;

            rate_write(w, &many, counts[j], kinds[i].size,
                       kinds[i].requests / counts[j]);
            rate_compare(w, name, &one, &many, 1);
        }
    }
}

static void rate_both(RateWire *w, const char *wire)
{
    rate_share(w, wire);
    rate_many(w, wire);
    rate_stop(w);
}

static void rate_stream(void)
{
    RateWire w = { 0 };

    rate_start(&w, "stream,id=n0,server=off,addr.type=fd,addr.str", SOCK_STREAM);
    rate_both(&w, "stream");
}

static void rate_dgram(void)
{
    RateWire w = { 0 };

    rate_start(&w, "dgram,id=n0,local.type=fd,local.str", SOCK_DGRAM);
    rate_both(&w, "dgram");
}

static void rate_link(void)
{
    RateWire w = { 0 };

    rate_start_link(&w);
    rate_both(&w, "link");
}

const FakernicTest fakernic_rates[] = {
    { "rate/stream", rate_stream },
    { "rate/dgram", rate_dgram },
    { "rate/link", rate_link },
    { NULL }
};
