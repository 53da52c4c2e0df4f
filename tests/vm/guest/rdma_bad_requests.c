/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bad requests get a completion with the right error, and never hang.
 *
 * Each case makes two fresh RC queue pairs on one device, connected to each
 * other, posts one bad request and compares the completions of both sides.
 * The queue pair must then flush. Prints TAP.
 */
#include "verbs_pair.h"

#define BUFFER_SIZE 8192
#define HALF (BUFFER_SIZE / 2)
#define NO_COMPLETION (-1)

/* Objects that a case may misuse, set up right. */
struct bench {
    struct endpoint end;
    struct ibv_cq *send_side, *recv_side;
    struct ibv_qp *sender, *receiver;
    struct ibv_mr *local;           /* all rights */
    struct ibv_mr *remote;          /* remote read and write */
    struct ibv_mr *remote_plain;    /* local write only */
    struct ibv_mr *local_readonly;  /* no rights: may not be written */
};

struct fault {
    const char *name;
    enum ibv_wr_opcode opcode;
    uint32_t length;
    bool bad_lkey, lkey_readonly, bad_rkey, rkey_plain, no_receive;
    int64_t local_shift, remote_shift;
    uint32_t receive_length;
    bool wrong_qpn;
    int sender_status, receiver_status;
};

static const struct fault faults[] = {
    { .name = "write_with_unknown_rkey", .opcode = IBV_WR_RDMA_WRITE,
      .length = 64, .bad_rkey = true,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "read_with_unknown_rkey", .opcode = IBV_WR_RDMA_READ,
      .length = 64, .bad_rkey = true,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "write_past_the_end", .opcode = IBV_WR_RDMA_WRITE,
      .length = 64, .remote_shift = BUFFER_SIZE - 63,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "write_before_the_start", .opcode = IBV_WR_RDMA_WRITE,
      .length = 64, .remote_shift = -1,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "read_past_the_end", .opcode = IBV_WR_RDMA_READ,
      .length = 64, .remote_shift = BUFFER_SIZE - 63,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "write_without_the_right", .opcode = IBV_WR_RDMA_WRITE,
      .length = 64, .rkey_plain = true,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "read_without_the_right", .opcode = IBV_WR_RDMA_READ,
      .length = 64, .rkey_plain = true,
      .sender_status = IBV_WC_REM_ACCESS_ERR, .receiver_status = NO_COMPLETION },
    { .name = "send_from_unknown_lkey", .opcode = IBV_WR_SEND,
      .length = 64, .bad_lkey = true, .receive_length = 64,
      .sender_status = IBV_WC_LOC_PROT_ERR, .receiver_status = NO_COMPLETION },
    { .name = "write_from_past_the_end", .opcode = IBV_WR_RDMA_WRITE,
      .length = 64, .local_shift = BUFFER_SIZE - 63,
      .sender_status = IBV_WC_LOC_PROT_ERR, .receiver_status = NO_COMPLETION },
    { .name = "read_into_readonly_memory", .opcode = IBV_WR_RDMA_READ,
      .length = 64, .lkey_readonly = true,
      .sender_status = IBV_WC_LOC_PROT_ERR, .receiver_status = NO_COMPLETION },
    { .name = "send_longer_than_the_receive", .opcode = IBV_WR_SEND,
      .length = 128, .receive_length = 64,
      .sender_status = IBV_WC_REM_INV_REQ_ERR,
      .receiver_status = IBV_WC_LOC_LEN_ERR },
    { .name = "send_without_a_receive", .opcode = IBV_WR_SEND,
      .length = 64, .no_receive = true,
      .sender_status = IBV_WC_RNR_RETRY_EXC_ERR,
      .receiver_status = NO_COMPLETION },
    { .name = "send_to_nobody", .opcode = IBV_WR_SEND, .length = 64,
      .wrong_qpn = true, .receive_length = 64,
      .sender_status = IBV_WC_RETRY_EXC_ERR, .receiver_status = NO_COMPLETION },
};

static struct ibv_mr *region(struct bench *bench, int access)
{
    char *memory = aligned_alloc(4096, BUFFER_SIZE);
    struct ibv_mr *mr;

    memset(memory, 0x5a, BUFFER_SIZE);
    mr = ibv_reg_mr(bench->end.pd, memory, BUFFER_SIZE, access);
    if (!mr) {
        die("ibv_reg_mr");
    }
    return mr;
}

static void connect_pair(struct bench *bench, const struct fault *fault)
{
    const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_LOCAL_WRITE;
    struct address sender, receiver;

    bench->sender = create_rc(&bench->end, bench->send_side);
    bench->receiver = create_rc(&bench->end, bench->recv_side);
    sender = (struct address) { .gid = bench->end.gid, .psn = 0xfffffe,
                                .qpn = bench->sender->qp_num };
    receiver = (struct address) { .gid = bench->end.gid, .psn = 0x000777,
                                  .qpn = bench->receiver->qp_num };
    connect_rc(&bench->end, bench->receiver, &sender, receiver.psn, access,
               14, 1);
    if (fault->wrong_qpn) {
        receiver.qpn ^= 0x5a5a00;
    }
    connect_rc(&bench->end, bench->sender, &receiver, sender.psn, access,
               14, 1);
}

static void post_bad(struct bench *bench, const struct fault *fault)
{
    struct ibv_mr *local = fault->lkey_readonly ? bench->local_readonly
                                                : bench->local;
    struct ibv_mr *remote = fault->rkey_plain ? bench->remote_plain
                                              : bench->remote;
    struct ibv_sge sge = {
        .addr = (uintptr_t)local->addr + fault->local_shift,
        .length = fault->length,
        .lkey = fault->bad_lkey ? local->lkey ^ 0x00ffff00 : local->lkey,
    };

    if (fault->receive_length && !fault->no_receive) {
        struct ibv_sge room = { (uintptr_t)bench->remote->addr,
                                fault->receive_length, bench->remote->lkey };
        struct ibv_recv_wr *bad, wr = { .wr_id = 7, .sg_list = &room,
                                        .num_sge = 1 };

        if (ibv_post_recv(bench->receiver, &wr, &bad)) {
            die("ibv_post_recv");
        }
    }
    post(bench->sender, fault->opcode, &sge,
         (uintptr_t)remote->addr + fault->remote_shift,
         fault->bad_rkey ? remote->rkey ^ 0x00ffff00 : remote->rkey, 1);
}

/* The queue pair is in ERR: posted requests are flushed. */
static bool flushes(struct bench *bench)
{
    struct ibv_sge sge = { (uintptr_t)bench->local->addr, 8,
                           bench->local->lkey };
    struct ibv_wc wc;

    post(bench->sender, IBV_WR_SEND, &sge, 0, 0, 2);
    wc = next_completion(bench->send_side);
    return wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2;
}

static bool untouched(struct ibv_mr *mr)
{
    const char *memory = mr->addr;

    for (int i = 0; i < BUFFER_SIZE; i++) {
        if (memory[i] != 0x5a) {
            return false;
        }
    }
    return true;
}

static const char *run(struct bench *bench, const struct fault *fault)
{
    static char why[128];
    struct ibv_wc wc;

    post_bad(bench, fault);
    wc = next_completion(bench->send_side);
    if ((int)wc.status != fault->sender_status || wc.wr_id != 1) {
        snprintf(why, sizeof(why), "sender got '%s', not '%s'",
                 ibv_wc_status_str(wc.status),
                 ibv_wc_status_str(fault->sender_status));
        return why;
    }
    if (fault->receiver_status != NO_COMPLETION) {
        wc = next_completion(bench->recv_side);
        if ((int)wc.status != fault->receiver_status || wc.wr_id != 7) {
            snprintf(why, sizeof(why), "receiver got '%s', not '%s'",
                     ibv_wc_status_str(wc.status),
                     ibv_wc_status_str(fault->receiver_status));
            return why;
        }
    }
    if (!flushes(bench)) {
        return "the queue pair does not flush";
    }
    if (fault->opcode != IBV_WR_SEND && !untouched(bench->remote)) {
        return "memory was written all the same";
    }
    return NULL;
}

int main(void)
{
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                    IBV_ACCESS_REMOTE_READ;
    const int count = sizeof(faults) / sizeof(faults[0]);
    struct bench bench = { 0 };
    int failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&bench.end);
    bench.local = region(&bench, all);
    bench.remote = region(&bench, all);
    bench.remote_plain = region(&bench, IBV_ACCESS_LOCAL_WRITE);
    bench.local_readonly = region(&bench, 0);
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        const char *why;

        bench.send_side = ibv_create_cq(bench.end.context, 16, NULL, NULL, 0);
        bench.recv_side = ibv_create_cq(bench.end.context, 16, NULL, NULL, 0);
        if (!bench.send_side || !bench.recv_side) {
            die("ibv_create_cq");
        }
        connect_pair(&bench, &faults[i]);
        why = run(&bench, &faults[i]);
        printf("%sok %d - %s%s%s\n", why ? "not " : "", i + 1, faults[i].name,
               why ? " # " : "", why ? why : "");
        failed += !!why;
        if (ibv_destroy_qp(bench.sender) || ibv_destroy_qp(bench.receiver) ||
            ibv_destroy_cq(bench.send_side) ||
            ibv_destroy_cq(bench.recv_side)) {
            die("destroy");
        }
    }
    return failed != 0;
}
