/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rdma_pma DEVICE: queries the port's performance management agent by MADs, as
 * a fabric manager does: a UD queue pair with the Q_Key of the general
 * services sends to QP 1 of its own port (IBTA 13.5, 16.1). Prints TAP.
 */
#include "report.h"
#include "verbs_pair.h"

#include <assert.h>
#include <endian.h>

#define GSI_QPN 1
#define GSI_QKEY 0x80010000
#define GRH_SIZE 40
#define CLASS_PERFORMANCE 4
#define METHOD_GET 0x01
#define METHOD_SET 0x02
#define METHOD_GET_RESP 0x81
#define ATTRIBUTE_CLASS_INFO 0x01
#define ATTRIBUTE_SAMPLES 0x10
#define ATTRIBUTE_COUNTERS 0x12
#define ATTRIBUTE_COUNTERS_EXT 0x1d
#define STATUS_NO_ATTRIBUTE 0x0c
#define STATUS_BAD_VALUE 0x1c
#define EXT_WIDTH_NOIETF 0x400

struct mad {
    uint8_t base_version, class, class_version, method;
    uint16_t status, class_specific;
    uint64_t tid;
    uint16_t attribute, reserved;
    uint32_t modifier;
    uint8_t unused[40];
    uint8_t data[192];
};

/* So the answer lies right behind its GRH. */
static_assert(sizeof(struct mad) == 256, "IBTA 13.4.2");

struct asker {
    const char *device;
    struct endpoint end;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
    struct ibv_mr *mr;
    struct {
        struct mad question;
        uint8_t grh[GRH_SIZE];
        struct mad answer;
    } memory;
};

static void set_up(struct asker *asker)
{
    struct ibv_qp_init_attr create = {
        .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1,
                 .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .qkey = GSI_QKEY,
                                .port_num = PORT_NUMBER };
    struct ibv_ah_attr address = {
        .is_global = 1, .port_num = PORT_NUMBER, .grh.hop_limit = 1,
    };

    open_endpoint(&asker->end);
    asker->cq = ibv_create_cq(asker->end.context, 2, NULL, NULL, 0);
    asker->mr = ibv_reg_mr(asker->end.pd, &asker->memory,
                           sizeof(asker->memory), IBV_ACCESS_LOCAL_WRITE);
    if (!asker->cq || !asker->mr) {
        die("CQ and region");
    }
    create.send_cq = create.recv_cq = asker->cq;
    asker->qp = ibv_create_qp(asker->end.pd, &create);
    address.grh.dgid = asker->end.gid;
    address.grh.sgid_index = asker->end.gid_index;
    asker->ah = ibv_create_ah(asker->end.pd, &address);
    if (!asker->qp || !asker->ah) {
        die("queue pair and address handle");
    }
    if (ibv_modify_qp(asker->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                      IBV_QP_PORT | IBV_QP_QKEY)) {
        die("modify to INIT");
    }
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(asker->qp, &attr, IBV_QP_STATE)) {
        die("modify to RTR");
    }
    attr.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(asker->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)) {
        die("modify to RTS");
    }
}

/* Returns the answer, whose header must match the query. */
static const struct mad *ask(struct asker *asker, uint8_t method,
                             uint16_t attribute, uint8_t port)
{
    struct mad *question = &asker->memory.question;
    const struct mad *answer = &asker->memory.answer;
    struct ibv_sge sent = { (uintptr_t)question, sizeof(*question),
                            asker->mr->lkey };
    struct ibv_sge received = { (uintptr_t)asker->memory.grh,
                                GRH_SIZE + sizeof(*answer), asker->mr->lkey };
    struct ibv_recv_wr *bad_recv, recv = { .sg_list = &received, .num_sge = 1 };
    struct ibv_send_wr *bad_send, send = {
        .sg_list = &sent, .num_sge = 1, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = { asker->ah, GSI_QPN, GSI_QKEY },
    };
    static uint64_t tid = 0x7e57;

    *question = (struct mad) {
        .base_version = 1, .class = CLASS_PERFORMANCE, .class_version = 1,
        .method = method, .tid = htobe64(++tid),
        .attribute = htobe16(attribute), .data[1] = port,
    };
    if (ibv_post_recv(asker->qp, &recv, &bad_recv) ||
        ibv_post_send(asker->qp, &send, &bad_send)) {
        die("post");
    }
    for (int i = 0; i < 2; i++) {
        if (next_completion(asker->cq).status != IBV_WC_SUCCESS) {
            die("a completion with an error");
        }
    }
    if (answer->method != METHOD_GET_RESP || answer->tid != question->tid ||
        answer->attribute != question->attribute) {
        die("not an answer to the query");
    }
    return answer;
}

/* One of the port's "counters" in sysfs. */
static uint64_t shown(const struct asker *asker, const char *name)
{
    unsigned long long value;
    char path[200];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/counters/%s",
             asker->device, name);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &value) != 1) {
        die("%s", path);
    }
    fclose(file);
    return value;
}

/* The query itself is counted: its values lie between two reads. */
static void judge_packets(struct asker *asker, uint16_t attribute,
                          size_t offset, size_t size, const char *what)
{
    uint64_t before = shown(asker, "port_rcv_packets"), told = 0;
    const struct mad *answer = ask(asker, METHOD_GET, attribute, PORT_NUMBER);

    for (size_t i = 0; i < size; i++) {
        told = told << 8 | answer->data[offset + i];
    }
    report(answer->status == 0 && answer->data[1] == PORT_NUMBER &&
           told > before && told <= shown(asker, "port_rcv_packets"), what);
}

int main(int argc, char **argv)
{
    struct asker asker = { .device = argc == 2 ? argv[1] : "fakernic0" };
    const struct mad *answer;

    set_up(&asker);
    answer = ask(&asker, METHOD_GET, ATTRIBUTE_CLASS_INFO, 0);
    report(answer->status == 0 && answer->data[0] == 1 && answer->data[1] == 1 &&
               (answer->data[2] << 8 | answer->data[3]) == EXT_WIDTH_NOIETF,
           "ClassPortInfo reports counters of 64 bits");
    judge_packets(&asker, ATTRIBUTE_COUNTERS, 36, 4, "PortCounters");
    judge_packets(&asker, ATTRIBUTE_COUNTERS_EXT, 32, 8,
                  "PortCountersExtended");
    answer = ask(&asker, METHOD_GET, ATTRIBUTE_COUNTERS, 2);
    report(be16toh(answer->status) == STATUS_BAD_VALUE, "there is no port 2");
    answer = ask(&asker, METHOD_GET, ATTRIBUTE_SAMPLES, PORT_NUMBER);
    report(be16toh(answer->status) == STATUS_NO_ATTRIBUTE,
           "there are no samples");
    answer = ask(&asker, METHOD_SET, ATTRIBUTE_COUNTERS, PORT_NUMBER);
    report(be16toh(answer->status) == STATUS_NO_ATTRIBUTE,
           "the counters cannot be set");
    return end_report();
}
