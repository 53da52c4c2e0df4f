/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of all verbs programs of the guest: finds a device and a RoCEv2 GID,
 * creates an RC queue pair, and connects it to a peer. A failure ends the
 * program with one line, as these are tests and not libraries.
 */
#ifndef VERBS_PAIR_H
#define VERBS_PAIR_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PORT_NUMBER 1
#define COMPLETION_WAIT_S 30

struct endpoint {
    struct ibv_context *context;
    struct ibv_pd *pd;
    int gid_index;
    union ibv_gid gid;
    enum ibv_mtu mtu;
};

/* The data for a peer, in network byte order where it matters. */
struct address {
    union ibv_gid gid;
    uint32_t qpn;
    uint32_t psn;
    uint64_t buffer;
    uint32_t rkey;
    uint32_t length;
};

__attribute__((format(printf, 1, 2), noreturn))
static inline void die(const char *format, ...)
{
    va_list arguments;
    int error = errno;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (%s)\n", strerror(error));
    exit(1);
}

static inline double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* The first RoCEv2 GID that is not link-local; IPv4-mapped ones first. */
static inline bool find_gid(struct endpoint *end)
{
    struct ibv_gid_entry entries[256];
    ssize_t count = ibv_query_gid_table(end->context, entries, 256, 0);
    int best = -1;

    for (ssize_t i = 0; i < count; i++) {
        const uint8_t *raw = entries[i].gid.raw;
        bool mapped = !memcmp(raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

        if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2 || raw[0] == 0xfe) {
            continue;
        }
        if (best < 0 || mapped) {
            best = i;
        }
        if (mapped) {
            break;
        }
    }
    if (best < 0) {
        return false;
    }
    end->gid = entries[best].gid;
    end->gid_index = entries[best].gid_index;
    return true;
}

static inline void open_endpoint(struct endpoint *end)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_port_attr port;

    if (!list || !list[0]) {
        die("no RDMA device");
    }
    end->context = ibv_open_device(list[0]);
    if (!end->context) {
        die("ibv_open_device");
    }
    ibv_free_device_list(list);
    if (ibv_query_port(end->context, PORT_NUMBER, &port)) {
        die("ibv_query_port");
    }
    end->mtu = port.active_mtu;
    if (!find_gid(end)) {
        die("no RoCEv2 GID: has the interface an address?");
    }
    end->pd = ibv_alloc_pd(end->context);
    if (!end->pd) {
        die("ibv_alloc_pd");
    }
}

static inline struct ibv_qp *create_rc(struct endpoint *end, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 16, .max_recv_wr = 16,
                 .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(end->pd, &attr);

    if (!qp) {
        die("ibv_create_qp");
    }
    return qp;
}

/* Brings a queue pair to RTR, connected to PEER. */
static inline void receive_rc(struct endpoint *end, struct ibv_qp *qp,
                              const struct address *peer, int access)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER,
        .qp_access_flags = access,
    };
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = end->mtu,
        .dest_qp_num = peer->qpn, .rq_psn = peer->psn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1, .port_num = PORT_NUMBER,
            .grh = { .dgid = peer->gid, .sgid_index = end->gid_index,
                     .hop_limit = 64 },
        },
    };

    if (ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                      IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
        die("modify to INIT");
    }
    if (ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
        die("modify to RTR");
    }
}

/* Brings a queue pair to RTS, connected to PEER. */
static inline void connect_rc(struct endpoint *end, struct ibv_qp *qp,
                              const struct address *peer, uint32_t psn,
                              int access, uint8_t timeout, uint8_t retries)
{
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = timeout,
        .retry_cnt = retries, .rnr_retry = retries, .max_rd_atomic = 1,
    };

    receive_rc(end, qp, peer, access);
    if (ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN |
                      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC)) {
        die("modify to RTS");
    }
}

/* Connects a queue pair to itself. */
static inline void connect_to_itself(struct endpoint *end, struct ibv_qp *qp,
                                     int access)
{
    const struct address self = { .gid = end->gid, .psn = 1,
                                  .qpn = qp->qp_num };

    connect_rc(end, qp, &self, 1, access, 14, 7);
}

/* Frames to a MAC address go to a queue pair; NULL: errno says why not. */
static inline struct ibv_flow *steer_frames(struct ibv_qp *qp,
                                            const uint8_t mac[6])
{
    struct {
        struct ibv_flow_attr attr;
        struct ibv_flow_spec_eth eth;
    } rule = {
        .attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule),
                  .num_of_specs = 1, .port = PORT_NUMBER },
        .eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth) },
    };

    memcpy(rule.eth.val.dst_mac, mac, 6);
    memset(rule.eth.mask.dst_mac, 0xff, 6);
    return ibv_create_flow(qp, &rule.attr);
}

/* The next completion; a lost one ends the program. */
static inline struct ibv_wc next_completion(struct ibv_cq *cq)
{
    double deadline = seconds_now() + COMPLETION_WAIT_S;
    struct ibv_wc wc;

    for (;;) {
        int count = ibv_poll_cq(cq, 1, &wc);

        if (count < 0) {
            die("ibv_poll_cq");
        }
        if (count) {
            return wc;
        }
        if (seconds_now() > deadline) {
            errno = ETIMEDOUT;
            die("a completion is missing");
        }
    }
}

/* Posts one signalled operation on SGE; REMOTE may be NULL for a SEND. */
static inline void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
                        struct ibv_sge *sge, uint64_t remote, uint32_t rkey,
                        uint64_t wr_id)
{
    struct ibv_send_wr *bad, wr = {
        .wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { .remote_addr = remote, .rkey = rkey },
    };
    int error = ibv_post_send(qp, &wr, &bad);

    if (error) {
        errno = error;
        die("ibv_post_send");
    }
}

#endif
