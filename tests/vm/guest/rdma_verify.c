/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_verify [OPTIONS] [SERVER-ADDRESS]: every operation, every byte.
 *
 * Client and server draw the same plan from one seed: operations, lengths
 * around the path MTU's multiples, odd offsets, contents. The client executes
 * it. Each side compares all its memory with the plan, also the bytes around
 * the data. RC must do everything exactly once and in order. UC and UD may lose
 * messages with -l, but what arrives must be complete and in order. For UD the
 * GRH is checked, too; -M sends to a multicast group. -z leaves out RDMA READs
 * and WRITEs of zero length. Both sides meet over TCP.
 */
#include "meet.h"
#include "verbs_pair.h"

#define TCP_PORT "18601"
#define SLOTS 16
#define SLOT_SIZE 32768
#define LENGTH_MAX 16000
#define AREA_SIZE (SLOTS * SLOT_SIZE)
#define GRH_SIZE 40
#define UNTOUCHED 0xee
#define IDLE_S 0.25
#define LATE_US 3000
#define LAST_LOOK_US 20000
#define UC_SETTLE_US 20000
#define UC_PATIENCE_S 5
/* Eight timeouts are 8.6 s. A busy host may keep a QEMU waiting for 2.4 s. */
#define ACK_TIMEOUT 18
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct options {
    enum ibv_qp_type type;
    bool srq;
    bool lossy;
    bool never_empty;           /* RDMA READs and WRITEs */
    int batches;
    int gid_index;
    int mtu;
    int tclass;
    int flow_label;
    int hop_limit;
    uint64_t seed;
    bool multicast;
    union ibv_gid group;
    const char *server;
};

struct step {
    enum ibv_wr_opcode opcode;
    uint32_t length;
    uint32_t offset;            /* in its slot, local and remote */
    uint64_t seed;
    uint32_t imm;
};

/* One side: AREA is what the peer reaches, INBOX where receives land. */
struct side {
    struct options opt;
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    struct ibv_mr *area_mr, *inbox_mr;
    uint8_t *area, *inbox, *model;
    struct address peer;
    int sock;
    unsigned posted, consumed;  /* receives, ever */
    unsigned done, arrived;
    uint64_t bytes;
};

__attribute__((format(printf, 2, 3), noreturn))
static void wrong(const struct step *step, const char *format, ...)
{
    va_list arguments;

    printf("wrong: opcode %d length %u offset %u: ", step->opcode,
           step->length, step->offset);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    exit(1);
}

/* ---- the plan ---------------------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fill(uint8_t *to, uint32_t length, uint64_t seed)
{
    for (uint32_t i = 0; i < length; i += 8) {
        uint64_t word = draw(&seed);

        memcpy(to + i, &word, length - i < 8 ? length - i : 8);
    }
}

static uint32_t draw_length(const struct options *opt, uint64_t *state)
{
    uint64_t kind = draw(state) % 4, number = draw(state);
    int64_t length = number % LENGTH_MAX;

    if (kind == 0) {
        length = number % 6;
    } else if (kind < 3) {
        length = (int64_t)(number % 4 * opt->mtu) + (int64_t)(number >> 8) % 3;
        length -= length > 0;
    }
    if (opt->type == IBV_QPT_UD && length > opt->mtu) {
        length = opt->mtu - number % 5;
    }
    return length < LENGTH_MAX ? length : LENGTH_MAX;
}

/* A lossy UC has no WRITE: the server cannot know which arrived. */
static enum ibv_wr_opcode draw_opcode(const struct options *opt,
                                      uint64_t number)
{
    int choices = opt->type == IBV_QPT_UD ? 2 :
                  opt->type != IBV_QPT_UC ? 7 : opt->lossy ? 3 : 4;
    static const enum ibv_wr_opcode all[] = {
        IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_ATOMIC_FETCH_AND_ADD,
    };

    return all[number % choices];
}

static bool is_atomic(const struct step *step)
{
    return step->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           step->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_read(const struct step *step)
{
    return step->opcode == IBV_WR_RDMA_READ || is_atomic(step);
}

static bool has_imm(const struct step *step)
{
    return step->opcode == IBV_WR_SEND_WITH_IMM ||
           step->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(const struct step *step)
{
    return step->opcode == IBV_WR_SEND || step->opcode == IBV_WR_SEND_WITH_IMM;
}

static bool takes_receive(const struct step *step)
{
    return is_send(step) || has_imm(step);
}

static struct step plan(const struct options *opt, int batch, int slot)
{
    uint64_t state = opt->seed * 1000003 + batch * SLOTS + slot;
    struct step step = { .seed = draw(&state) };

    step.opcode = draw_opcode(opt, draw(&state));
    step.length = is_atomic(&step) ? 8 : draw_length(opt, &state);
    step.offset = draw(&state) % (SLOT_SIZE - LENGTH_MAX - GRH_SIZE - 8);
    step.imm = draw(&state);
    if (is_atomic(&step)) {
        step.offset &= ~7u;
    } else if (opt->never_empty && !is_send(&step) && step.length == 0) {
        step.length = 1;
    }
    return step;
}

/* What a step does to the server's area; the old value for an atomic. */
static uint64_t apply(const struct step *step, uint8_t *slot)
{
    uint64_t old, new;

    if (!is_atomic(step)) {
        if (!is_send(step) && !is_read(step)) {
            fill(slot + step->offset, step->length, step->seed);
        }
        return 0;
    }
    memcpy(&old, slot + step->offset, 8);
    new = step->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + step->seed :
          step->imm & 1 ? step->seed : old;     /* every other swap fails */
    memcpy(slot + step->offset, &new, 8);
    return old;
}

static void compare(const struct step *step, const char *what,
                    const uint8_t *found, const uint8_t *wanted, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (found[i] != wanted[i]) {
            wrong(step, "%s: byte %zu is %02x and not %02x", what, i, found[i],
                  wanted[i]);
        }
    }
}

/* DATA bytes as the plan has them, at OFFSET of a slot else untouched. */
static void compare_slot(const struct step *step, const char *what,
                         const uint8_t *slot, uint32_t offset,
                         const uint8_t *data)
{
    static uint8_t wanted[SLOT_SIZE];

    memset(wanted, UNTOUCHED, SLOT_SIZE);
    memcpy(wanted + offset, data, step->length);
    if (memcmp(slot, wanted, SLOT_SIZE)) {
        compare(step, what, slot, wanted, SLOT_SIZE);
    }
}

/* ---- meeting the peer -------------------------------------------------- */

static void barrier(struct side *side)
{
    char byte = 'x';

    swap(side->sock, &byte, &byte, 1);
}

/* ---- queue pairs ------------------------------------------------------- */

/* What the client's datagrams go to, as the server's GRH shows it. */
static const union ibv_gid *target(const struct side *side)
{
    return side->opt.multicast ? &side->opt.group :
           side->opt.server ? &side->peer.gid : &side->end.gid;
}

static struct ibv_ah_attr route(const struct side *side)
{
    return (struct ibv_ah_attr) {
        .is_global = 1, .port_num = PORT_NUMBER,
        .grh = { .dgid = *target(side), .sgid_index = side->opt.gid_index,
                 .hop_limit = side->opt.hop_limit,
                 .flow_label = side->opt.flow_label,
                 .traffic_class = side->opt.tclass },
    };
}

static void create(struct side *side)
{
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2 * SLOTS,
                                               .max_sge = 1 } };
    struct ibv_qp_init_attr attr = {
        .qp_type = side->opt.type,
        .cap = { .max_send_wr = SLOTS, .max_recv_wr = 2 * SLOTS,
                 .max_send_sge = 1, .max_recv_sge = 1 },
    };

    side->cq = ibv_create_cq(side->end.context, 4 * SLOTS, NULL, NULL, 0);
    side->area_mr = ibv_reg_mr(side->end.pd, side->area, AREA_SIZE, ACCESS);
    side->inbox_mr = ibv_reg_mr(side->end.pd, side->inbox, AREA_SIZE, ACCESS);
    if (side->opt.srq) {
        side->srq = ibv_create_srq(side->end.pd, &srq);
        if (!side->srq) {
            die("ibv_create_srq");
        }
    }
    attr.send_cq = attr.recv_cq = side->cq;
    attr.srq = side->srq;
    side->qp = ibv_create_qp(side->end.pd, &attr);
    if (!side->cq || !side->area_mr || !side->inbox_mr || !side->qp) {
        die("ibv_create_qp");
    }
}

static void to_state(struct side *side, struct ibv_qp_attr attr, int mask)
{
    int error = ibv_modify_qp(side->qp, &attr, mask | IBV_QP_STATE);

    if (error) {
        errno = error;
        die("modify to state %d", attr.qp_state);
    }
}

static void connect_ud(struct side *side)
{
    struct ibv_ah_attr ah = route(side);

    to_state(side, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER, .qkey = 0x1234567,
    }, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    to_state(side, (struct ibv_qp_attr) { .qp_state = IBV_QPS_RTR }, 0);
    to_state(side, (struct ibv_qp_attr) { .qp_state = IBV_QPS_RTS },
             IBV_QP_SQ_PSN);
    if (!side->opt.server) {
        if (side->opt.multicast &&
            ibv_attach_mcast(side->qp, &side->opt.group, 0)) {
            die("ibv_attach_mcast");
        }
        return;
    }
    side->ah = ibv_create_ah(side->end.pd, &ah);
    if (!side->ah) {
        die("ibv_create_ah");
    }
}

static void connect_pair(struct side *side, uint32_t psn)
{
    bool rc = side->opt.type == IBV_QPT_RC;
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = side->end.mtu,
        .dest_qp_num = side->peer.qpn, .rq_psn = side->peer.psn,
        .max_dest_rd_atomic = 4, .min_rnr_timer = 12, .ah_attr = route(side),
    };

    rtr.ah_attr.grh.dgid = side->peer.gid;

    to_state(side, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER,
        .qp_access_flags = rc ? ACCESS : ACCESS & ~(IBV_ACCESS_REMOTE_READ |
                                                    IBV_ACCESS_REMOTE_ATOMIC),
    }, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to_state(side, rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
             IBV_QP_RQ_PSN | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC |
                                   IBV_QP_MIN_RNR_TIMER : 0));
    to_state(side, (struct ibv_qp_attr) {
        .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = ACK_TIMEOUT,
        .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
    }, IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

static void meet_and_connect(struct side *side)
{
    struct address own = {
        .gid = side->end.gid, .qpn = side->qp->qp_num,
        /* Shortly before the PSN wraps. */
        .psn = side->opt.type == IBV_QPT_UD ? 0 : 0xffffc0,
        .buffer = (uintptr_t)side->area, .rkey = side->area_mr->rkey,
    };

    side->sock = meet(side->opt.server, TCP_PORT);
    if (side->sock < 0) {
        die("accept");
    }
    swap(side->sock, &own, &side->peer, sizeof(own));
    if (side->opt.type == IBV_QPT_UD) {
        connect_ud(side);
    } else {
        connect_pair(side, own.psn);
    }
    barrier(side);
}

/* ---- requests ---------------------------------------------------------- */

/* Posts the receive of one more slot of the inbox. */
static void post_receive(struct side *side)
{
    unsigned slot = side->posted++ % SLOTS;
    struct ibv_sge sge = {
        (uintptr_t)side->inbox + slot * SLOT_SIZE,
        LENGTH_MAX + GRH_SIZE, side->inbox_mr->lkey,
    };
    struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge,
                                    .num_sge = 1 };
    int error;

    memset(side->inbox + slot * SLOT_SIZE, UNTOUCHED, SLOT_SIZE);
    error = side->srq ? ibv_post_srq_recv(side->srq, &wr, &bad) :
                        ibv_post_recv(side->qp, &wr, &bad);
    if (error) {
        errno = error;
        die("post a receive");
    }
}

static void post_step(struct side *side, const struct step *step, int slot)
{
    struct ibv_sge sge = {
        (uintptr_t)side->area + slot * SLOT_SIZE + step->offset,
        step->length, side->area_mr->lkey,
    };
    uint64_t remote = side->peer.buffer + slot * SLOT_SIZE + step->offset;
    struct ibv_send_wr *bad, wr = {
        .wr_id = slot, .sg_list = &sge, .num_sge = step->length != 0,
        .opcode = step->opcode, .send_flags = IBV_SEND_SIGNALED,
        .imm_data = htonl(step->imm),
    };
    int error;

    if (side->opt.type == IBV_QPT_UD) {
        wr.wr.ud.ah = side->ah;
        wr.wr.ud.remote_qpn = side->opt.multicast ? 0xffffff : side->peer.qpn;
        wr.wr.ud.remote_qkey = 0x1234567;
    } else if (is_atomic(step)) {
        bool add = step->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        uint64_t old;

        memcpy(&old, side->model + slot * SLOT_SIZE + step->offset, 8);
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = side->peer.rkey;
        wr.wr.atomic.compare_add = add ? step->seed :
                                   step->imm & 1 ? old : ~old;
        wr.wr.atomic.swap = step->seed;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = side->peer.rkey;
    }
    error = ibv_post_send(side->qp, &wr, &bad);
    if (error) {
        errno = error;
        die("ibv_post_send");
    }
}

static void must_succeed(const struct step *step, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS) {
        wrong(step, "%s, vendor_err %#x", ibv_wc_status_str(wc->status),
              wc->vendor_err);
    }
}

/* ---- the client -------------------------------------------------------- */

static void client_batch(struct side *side, int batch)
{
    struct step steps[SLOTS];

    for (int i = 0; i < SLOTS; i++) {
        uint8_t *slot = side->area + i * SLOT_SIZE;

        steps[i] = plan(&side->opt, batch, i);
        memset(slot, UNTOUCHED, SLOT_SIZE);
        if (!is_read(&steps[i])) {
            fill(slot + steps[i].offset, steps[i].length, steps[i].seed);
        }
    }
    barrier(side);
    for (int i = 0; i < SLOTS; i++) {
        post_step(side, &steps[i], i);
    }
    for (int i = 0; i < SLOTS; i++) {
        struct ibv_wc wc = next_completion(side->cq);

        must_succeed(&steps[i], &wc);
        if (wc.wr_id != (uint64_t)i) {
            wrong(&steps[i], "completion of request %d is that of %d", i,
                  (int)wc.wr_id);
        }
        side->done++;
        side->bytes += steps[i].length;
    }
    for (int i = 0; i < SLOTS; i++) {
        uint8_t *model = side->model + i * SLOT_SIZE;
        uint64_t old = apply(&steps[i], model);

        if (is_read(&steps[i])) {
            compare_slot(&steps[i], "what came back",
                         side->area + i * SLOT_SIZE, steps[i].offset,
                         is_atomic(&steps[i]) ? (uint8_t *)&old :
                         model + steps[i].offset);
        }
    }
    barrier(side);
}

/* ---- the server -------------------------------------------------------- */

static void check_ipv4_header(const struct side *side, const struct step *step,
                              const uint8_t *ip, uint32_t length)
{
    uint32_t sum = 0;

    for (int i = 0; i < 20; i += 2) {
        sum += ip[i] << 8 | ip[i + 1];
    }
    if (ip[0] != 0x45 || ip[9] != 17 ||
        (sum & 0xffff) + (sum >> 16) != 0xffff) {
        wrong(step, "GRH: no IPv4 header with a good checksum");
    }
    if (ip[1] != side->opt.tclass || ip[8] != side->opt.hop_limit ||
        (uint32_t)(ip[2] << 8 | ip[3]) != 20 + length) {
        wrong(step, "GRH: IPv4 TOS %#x, TTL %d, length %d", ip[1], ip[8],
              ip[2] << 8 | ip[3]);
    }
    if (memcmp(ip + 12, side->peer.gid.raw + 12, 4) ||
        memcmp(ip + 16, target(side)->raw + 12, 4)) {
        wrong(step, "GRH: the IPv4 addresses are not the GIDs'");
    }
}

static void check_ipv6_header(const struct side *side, const struct step *step,
                              const uint8_t *ip, uint32_t length)
{
    uint32_t word = (uint32_t)ip[0] << 24 | ip[1] << 16 | ip[2] << 8 | ip[3];

    if (word >> 28 != 6 || (word >> 20 & 0xff) != (uint32_t)side->opt.tclass ||
        (word & 0xfffff) != (uint32_t)side->opt.flow_label) {
        wrong(step, "GRH: IPv6 first word %#x", word);
    }
    if (ip[6] != 17 || ip[7] != side->opt.hop_limit ||
        (uint32_t)(ip[4] << 8 | ip[5]) != length) {
        wrong(step, "GRH: IPv6 next header %d, hop limit %d, length %d", ip[6],
              ip[7], ip[4] << 8 | ip[5]);
    }
    if (memcmp(ip + 8, &side->peer.gid, 16) ||
        memcmp(ip + 24, target(side), 16)) {
        wrong(step, "GRH: the IPv6 addresses are not the GIDs");
    }
}

/* Annex A17: the IP header as received, an IPv4 one in the last 20 bytes. */
static void check_grh(const struct side *side, const struct step *step,
                      const struct ibv_wc *wc, uint8_t *grh)
{
    uint32_t udp = 8 + 12 + 8 + (has_imm(step) ? 4 : 0) +
                   ((step->length + 3) & ~3u) + 4;

    if (!(wc->wc_flags & IBV_WC_GRH) || wc->src_qp != side->peer.qpn) {
        wrong(step, "flags %#x, source QP %#x", wc->wc_flags, wc->src_qp);
    }
    if (!memcmp(side->peer.gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
        check_ipv4_header(side, step, grh + 20, udp);
    } else {
        check_ipv6_header(side, step, grh, udp);
    }
    memset(grh, UNTOUCHED, GRH_SIZE);
}

/* Whether a receive completion can be that of STEP. */
static bool fits(const struct side *side, const struct step *step,
                 const struct ibv_wc *wc)
{
    uint32_t grh = side->opt.type == IBV_QPT_UD ? GRH_SIZE : 0;
    uint8_t first[8];

    fill(first, sizeof(first), step->seed);
    return takes_receive(step) &&
           (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) == !is_send(step) &&
           !!(wc->wc_flags & IBV_WC_WITH_IMM) == has_imm(step) &&
           (!has_imm(step) || ntohl(wc->imm_data) == step->imm) &&
           wc->byte_len == step->length + grh &&
           /* Of lost messages of the same length, the right one is next. */
           !(side->opt.lossy && is_send(step) &&
             memcmp(side->inbox + wc->wr_id * SLOT_SIZE + grh, first,
                    step->length < 8 ? step->length : 8));
}

static void check_receive(struct side *side, const struct step *step,
                          const struct ibv_wc *wc)
{
    static uint8_t data[LENGTH_MAX + 8];
    uint8_t *slot = side->inbox + wc->wr_id * SLOT_SIZE;
    bool ud = side->opt.type == IBV_QPT_UD;

    if (wc->wr_id != side->consumed % SLOTS) {
        wrong(step, "receive %d was used before its turn", (int)wc->wr_id);
    }
    if (ud) {
        check_grh(side, step, wc, slot);
    }
    fill(data, step->length, step->seed);
    if (is_send(step) && side->opt.lossy) {
        /* A lost, longer message may have left bytes behind it. */
        compare(step, "the message", slot + (ud ? GRH_SIZE : 0), data,
                step->length);
    } else if (is_send(step)) {
        compare_slot(step, "the message", slot, ud ? GRH_SIZE : 0, data);
    }
    side->consumed++;
    side->arrived++;
}

/* Takes what came until COUNT steps are known to have passed, or nothing more
 * comes. A message may be missing only if that is allowed. */
static void take_messages(struct side *side, const struct step *steps,
                          bool *came)
{
    double quiet = seconds_now() + COMPLETION_WAIT_S;
    bool last_word = false, last_look = false;
    struct ibv_wc wc;
    int next = 0, last = SLOTS;

    while (last && !takes_receive(&steps[last - 1])) {
        last--;
    }
    while (next < last) {
        if (!ibv_poll_cq(side->cq, 1, &wc)) {
            char byte;

            if (seconds_now() > quiet) {
                if (last_look) {
                    break;
                }
                last_look = true;       /* this side may have been delayed */
                usleep(LAST_LOOK_US);
            }
            if (side->opt.lossy && !last_word &&
                recv(side->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
                last_word = true;           /* the client has sent all */
                quiet = seconds_now() + IDLE_S;
            }
            continue;
        }
        must_succeed(&steps[next], &wc);
        while (next < last && !fits(side, &steps[next], &wc)) {
            if (!side->opt.lossy && takes_receive(&steps[next])) {
                wrong(&steps[next], "in its place came opcode %d flags %#x "
                      "length %u imm %#x", wc.opcode, wc.wc_flags,
                      wc.byte_len, ntohl(wc.imm_data));
            }
            next++;
        }
        if (next == last) {
            wrong(&steps[0], "a message nobody sent: opcode %d length %u",
                  wc.opcode, wc.byte_len);
        }
        came[next] = true;
        check_receive(side, &steps[next++], &wc);
    }
    if (next < last && !side->opt.lossy) {
        wrong(&steps[next], "its message did not come");
    }
}

/* Only the sender knows the end of a WRITE; over UC, when it was sent. */
static bool settles(struct side *side, size_t at)
{
    double patience = side->opt.type == IBV_QPT_UC ? UC_PATIENCE_S : 0;
    double end = seconds_now() + patience;

    while (memcmp(side->area + at, side->model + at, SLOT_SIZE)) {
        if (seconds_now() > end) {
            return false;
        }
        usleep(UC_SETTLE_US);
    }
    return true;
}

static void server_batch(struct side *side, int batch)
{
    bool late = side->opt.type == IBV_QPT_RC && batch % 4 == 3;
    bool came[SLOTS] = { false };
    struct step steps[SLOTS];
    unsigned wanted = 0;

    for (int i = 0; i < SLOTS; i++) {
        steps[i] = plan(&side->opt, batch, i);
        wanted += takes_receive(&steps[i]);
    }
    if (late) {
        barrier(side);
        usleep(LATE_US);        /* the client gets RNR NAKs until then */
    }
    while (side->posted - side->consumed < wanted) {
        post_receive(side);
    }
    if (!late) {
        barrier(side);
    }
    take_messages(side, steps, came);
    barrier(side);
    if (side->opt.type == IBV_QPT_UC) {
        usleep(UC_SETTLE_US);
    }
    for (int i = 0; i < SLOTS; i++) {
        size_t at = i * SLOT_SIZE;

        apply(&steps[i], side->model + at);
        if (side->opt.lossy && !came[i]) {
            memcpy(side->model + at, side->area + at, SLOT_SIZE);
        }
        if (!settles(side, at)) {
            compare(&steps[i], "the server's memory", side->area + at,
                    side->model + at, SLOT_SIZE);
        }
        side->done += takes_receive(&steps[i]);
        side->bytes += steps[i].length;
    }
}

/* ---- main -------------------------------------------------------------- */

static void parse_group(const char *text, union ibv_gid *group)
{
    memcpy(group->raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
    if (inet_pton(AF_INET, text, group->raw + 12) != 1 &&
        inet_pton(AF_INET6, text, group->raw) != 1) {
        errno = EINVAL;
        die("%s", text);
    }
}

static struct options parse(int argc, char **argv)
{
    struct options opt = { .type = IBV_QPT_RC, .batches = 8, .gid_index = -1,
                           .hop_limit = 64, .seed = 1 };
    int letter;

    while ((letter = getopt(argc, argv, "t:n:g:m:T:F:H:S:lzM:")) != -1) {
        switch (letter) {
        case 't':
            opt.srq = !strcmp(optarg, "srq");
            opt.type = !strcmp(optarg, "uc") ? IBV_QPT_UC :
                       !strcmp(optarg, "ud") ? IBV_QPT_UD : IBV_QPT_RC;
            break;
        case 'n': opt.batches = atoi(optarg); break;
        case 'g': opt.gid_index = atoi(optarg); break;
        case 'm': opt.mtu = atoi(optarg); break;
        case 'T': opt.tclass = atoi(optarg); break;
        case 'F': opt.flow_label = atoi(optarg); break;
        case 'H': opt.hop_limit = atoi(optarg); break;
        case 'S': opt.seed = atoi(optarg); break;
        case 'l': opt.lossy = true; break;
        case 'z': opt.never_empty = true; break;
        case 'M':
            opt.multicast = true;
            parse_group(optarg, &opt.group);
            break;
        default:
            fprintf(stderr, "usage: rdma_verify [-t rc|uc|ud|srq] [-n BATCHES] "
                            "[-g GID-INDEX] [-m MTU] [-T TRAFFIC-CLASS] "
                            "[-F FLOW-LABEL] [-H HOP-LIMIT] [-S SEED] [-l] "
                            "[-z] [-M GROUP] [SERVER]\n");
            exit(2);
        }
    }
    opt.server = argv[optind];
    return opt;
}

static void open_side(struct side *side)
{
    open_endpoint(&side->end);
    if (side->opt.gid_index >= 0 &&
        ibv_query_gid(side->end.context, PORT_NUMBER, side->opt.gid_index,
                      &side->end.gid)) {
        die("GID index %d", side->opt.gid_index);
    }
    if (side->opt.gid_index < 0) {
        side->opt.gid_index = side->end.gid_index;
    }
    while (side->opt.mtu && 128 << side->end.mtu > side->opt.mtu) {
        side->end.mtu--;
    }
    side->opt.mtu = 128 << side->end.mtu;
    side->area = aligned_alloc(4096, AREA_SIZE);
    side->inbox = aligned_alloc(4096, AREA_SIZE);
    side->model = aligned_alloc(4096, AREA_SIZE);
    memset(side->area, UNTOUCHED, AREA_SIZE);
    memset(side->inbox, UNTOUCHED, AREA_SIZE);
    memset(side->model, UNTOUCHED, AREA_SIZE);
}

int main(int argc, char **argv)
{
    struct side side = { .opt = parse(argc, argv) };

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_side(&side);
    create(&side);
    meet_and_connect(&side);
    for (int batch = 0; batch < side.opt.batches; batch++) {
        if (side.opt.server) {
            client_batch(&side, batch);
        } else {
            server_batch(&side, batch);
        }
    }
    if (side.opt.server) {
        printf("client: %u operations, %lu bytes, path MTU %d, all as planned\n",
               side.done, (unsigned long)side.bytes, side.opt.mtu);
    } else if (side.arrived == 0) {
        printf("wrong: none of %u messages arrived\n", side.done);
        return 1;
    } else {
        printf("server: %u of %u messages arrived, all as planned\n",
               side.arrived, side.done);
    }
    return 0;
}
