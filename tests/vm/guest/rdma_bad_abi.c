/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program without the provider, which writes requests of the uverbs ABI
 * (fakernic-abi.h) to the device file. Each request has one mistake: too short,
 * longer than the driver knows, a reserved field, a size, invalid queue memory,
 * or an answer that cannot be delivered. Then it tries mappings of a context
 * and doorbells of other contexts. Each mistake must get its errno and leave
 * nothing. Prints TAP.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../../../kernel-driver/uapi/rdma/fakernic-abi.h"
#include "../../../firmware-spec/include/fakernic/doorbell.h"
#include "refusal.h"

#define QUEUE_BYTES (4 * PAGE)
#define ENTRIES 64
#define LOG_ENTRIES 6
#define LOG_STRIDE 6
#define FIELD(type, field) offsetof(struct type, field), \
                           sizeof(((struct type *)0)->field)

/* How an object is destroyed. */
enum shape { NOTHING, HANDLE, ANSWERED, EXTENDED };

/* A request: the part of the core and the part of the driver. */
struct command {
    const char *name;
    uint32_t number;
    bool extended;
    size_t core_size, core_answer;
    size_t driver_size, driver_answer;
    uint32_t destroy;
    enum shape shape;
    size_t handle_at;               /* in the answer */
    size_t reserved_at, reserved_size;
    int addresses;                  /* number of __u64 in front */
    union {
        __u64 answer_at;            /* not in extended ones */
        uint8_t bytes[192];
        struct ib_uverbs_create_cq cq;
        struct ib_uverbs_resize_cq resize_cq;
        struct ib_uverbs_create_srq srq;
        struct ib_uverbs_modify_srq modify_srq;
        struct ib_uverbs_create_qp qp;
        struct ib_uverbs_modify_qp modify_qp;
        struct ib_uverbs_create_ah ah;
        struct ib_uverbs_alloc_mw mw;
        struct ib_uverbs_reg_mr mr;
        struct ib_uverbs_open_xrcd xrcd;
        struct ib_uverbs_ex_create_wq wq;
        struct ib_uverbs_ex_create_qp rss;
    } core;
    union {
        uint8_t bytes[128];
        __u64 address[2];
        struct fakernic_ureq_create_cq cq;
        struct fakernic_ureq_create_srq srq;
        struct fakernic_ureq_modify_srq modify_srq;
        struct fakernic_ureq_create_qp qp;
        struct fakernic_ureq_create_wq wq;
        struct fakernic_ureq_create_rss_qp rss;
    } driver;
};

struct wrong {
    const char *what;
    size_t at, size;
    uint64_t value;
    int error;
};

static uint8_t *queue, *other_queue, *answer_end, *constant;
static struct ibv_cq *cq;

/* Two mappings with nothing behind them. */
static uint8_t *map_before_hole(size_t size, int protection)
{
    uint8_t *area = mmap(NULL, size + PAGE, protection,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED || munmap(area + size, PAGE)) {
        die("mmap");
    }
    return area;
}

/* Writes a request to the device file; returns 0 or an errno value. */
static int write_request(int fd, const struct command *c, uint8_t *answer)
{
    uint8_t bytes[512] = {}, *at = bytes;
    size_t size;

    if (c->extended) {
        struct ib_uverbs_cmd_hdr hdr = {
            .command = c->number | IB_USER_VERBS_CMD_FLAG_EXTENDED,
            .in_words = c->core_size / 8, .out_words = c->core_answer / 8,
        };
        struct ib_uverbs_ex_cmd_hdr ex = {
            .response = (uintptr_t)answer,
            .provider_in_words = c->driver_size / 8,
            .provider_out_words = c->driver_answer / 8,
        };

        at = mempcpy(mempcpy(at, &hdr, sizeof(hdr)), &ex, sizeof(ex));
    } else {
        struct ib_uverbs_cmd_hdr hdr = {
            .command = c->number,
            .in_words = (sizeof(hdr) + c->core_size + c->driver_size) / 4,
            .out_words = (c->core_answer + c->driver_answer) / 4,
        };

        at = mempcpy(at, &hdr, sizeof(hdr));
    }
    memcpy(at, &c->core, c->core_size);
    if (!c->extended && c->core_answer) {
        memcpy(at, &answer, sizeof(answer));
    }
    at = mempcpy(at + c->core_size, &c->driver, c->driver_size);
    size = at - bytes;
    return write(fd, bytes, size) == (ssize_t)size ? 0 : errno;
}

/* An address where an answer of the usual size ends with the memory. */
static uint8_t *answer_of(const struct command *c)
{
    return answer_end - c->core_answer - c->driver_answer;
}

static void take_back(const struct command *c)
{
    struct command destroy = { .number = c->destroy };
    const uint8_t *handle = answer_of(c) + c->handle_at;

    if (c->shape == HANDLE) {
        destroy.core_size = 4;
        memcpy(destroy.core.bytes, handle, 4);
    } else if (c->shape == ANSWERED) {
        destroy.core_size = 16;
        destroy.core_answer = c->number == IB_USER_VERBS_CMD_CREATE_CQ ? 8 : 4;
        memcpy(destroy.core.bytes + 8, handle, 4);
    } else if (c->shape == EXTENDED) {
        destroy.extended = true;
        destroy.core_size = 8;
        destroy.core_answer = 16;
        memcpy(destroy.core.bytes + 4, handle, 4);
    } else {
        return;
    }
    if (write_request(end.context->cmd_fd, &destroy, answer_end - 64)) {
        die("%s: destroying the object", c->name);
    }
}

/* A request must end with this error; an object that it makes is destroyed. */
static void request(const struct command *c, const char *what, int wanted)
{
    int error = write_request(end.context->cmd_fd, c, answer_of(c));
    char name[128];

    snprintf(name, sizeof(name), "%s: %s", c->name, what);
    report(name, error, wanted);
    if (!error) {
        take_back(c);
    }
}

static void sizes(const struct command *good)
{
    size_t unit = good->extended ? 8 : 4;
    struct command c = *good;

    for (c.driver_size = 0; c.driver_size < good->driver_size;
         c.driver_size += unit) {
        request(&c, "too short", EINVAL);
    }
    c.driver_size = good->driver_size + 16;
    request(&c, "longer, but zero", 0);
    c.driver.bytes[good->driver_size + 15] = 1;
    request(&c, "longer, and not zero", EOPNOTSUPP);
    c = *good;
    for (size_t i = 0; i < good->reserved_size; i++) {
        c.driver.bytes[good->reserved_at + i] = 0x80;
        request(&c, "reserved field", EINVAL);
        c.driver.bytes[good->reserved_at + i] = 0;
    }
}

static void queue_addresses(const struct command *good)
{
    const struct { const char *what; uintptr_t value; int error; } wrong[] = {
        { "no queue memory", 0, EINVAL },
        { "queue memory that is not aligned", (uintptr_t)queue + 64, EINVAL },
        { "queue memory of nobody", (uintptr_t)queue + QUEUE_BYTES, EFAULT },
        { "queue memory that ends too early",
          (uintptr_t)queue + QUEUE_BYTES - PAGE, EFAULT },
        { "queue memory for reading", (uintptr_t)constant, EFAULT },
        { "queue memory of the kernel", 0xffff888000000000, EFAULT },
        { "queue memory at no address", 1ull << 63, EFAULT },
        { "queue memory around the end", -(uintptr_t)PAGE, EINVAL },
    };

    for (int which = 0; which < good->addresses; which++) {
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
            struct command c = *good;

            c.driver.address[which] = wrong[i].value;
            request(&c, wrong[i].what, wrong[i].error);
        }
    }
}

/* If the answer cannot be delivered, the driver leaves no object. */
static void answers(const struct command *c)
{
    char name[128];

    snprintf(name, sizeof(name), "%s: nowhere to answer", c->name);
    if (c->core_answer) {
        report(name, write_request(end.context->cmd_fd, c, answer_end), EFAULT);
    }
    if (c->driver_answer) {
        report(name, write_request(end.context->cmd_fd, c,
                                   answer_end - c->core_answer), EFAULT);
    }
}

static void abuse(const struct command *good, const struct wrong *wrong)
{
    request(good, "as it should be", 0);
    sizes(good);
    queue_addresses(good);
    answers(good);
    for (; wrong && wrong->what; wrong++) {
        struct command c = *good;

        memcpy(c.driver.bytes + wrong->at, &wrong->value, wrong->size);
        request(&c, wrong->what, wrong->error);
    }
    request(good, "as it should be, after all that", 0);
}

/* ---- the requests -------------------------------------------------------- */

static void protection_domains(void)
{
    const struct command c = {
        .name = "ALLOC_PD", .number = IB_USER_VERBS_CMD_ALLOC_PD,
        .core_size = 8, .core_answer = 4, .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DEALLOC_PD, .shape = HANDLE,
    };

    abuse(&c, NULL);
}

static void completion_queues(void)
{
    static const struct wrong wrong[] = {
        { "no depth", FIELD(fakernic_ureq_create_cq, log_depth), 0, EINVAL },
        { "half the entries", FIELD(fakernic_ureq_create_cq, log_depth),
          LOG_ENTRIES - 1, EINVAL },
        { "too deep", FIELD(fakernic_ureq_create_cq, log_depth), 23, EINVAL },
        { "a shift too far", FIELD(fakernic_ureq_create_cq, log_depth), 64,
          EINVAL },
        { "depth 255", FIELD(fakernic_ureq_create_cq, log_depth), 255, EINVAL },
        {}
    };
    struct command c = {
        .name = "CREATE_CQ", .number = IB_USER_VERBS_CMD_CREATE_CQ,
        .core_size = sizeof(c.core.cq), .core_answer = 8,
        .driver_size = sizeof(c.driver.cq), .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DESTROY_CQ, .shape = ANSWERED,
        .reserved_at = offsetof(struct fakernic_ureq_create_cq, reserved),
        .reserved_size = 7, .addresses = 1,
        .core.cq = { .cqe = ENTRIES, .comp_channel = -1 },
        .driver.cq = { (uintptr_t)other_queue, LOG_ENTRIES, {} },
    };

    abuse(&c, wrong);
    c.name = "RESIZE_CQ";
    c.number = IB_USER_VERBS_CMD_RESIZE_CQ;
    c.shape = NOTHING;
    c.core_size = sizeof(c.core.resize_cq);
    c.core.resize_cq = (struct ib_uverbs_resize_cq) {
        .cq_handle = cq->handle, .cqe = ENTRIES,
    };
    c.driver_answer = 0;
    abuse(&c, wrong);
}

static void shared_receive_queues(void)
{
    static const struct wrong wrong[] = {
        { "half the receives", FIELD(fakernic_ureq_create_srq, log_depth),
          LOG_ENTRIES - 1, EINVAL },
        { "too deep", FIELD(fakernic_ureq_create_srq, log_depth), 17, EINVAL },
        { "depth 255", FIELD(fakernic_ureq_create_srq, log_depth), 255,
          EINVAL },
        { "stride of half a receive",
          FIELD(fakernic_ureq_create_srq, log_stride), 4, EINVAL },
        { "stride too long", FIELD(fakernic_ureq_create_srq, log_stride), 10,
          EINVAL },
        { "stride 255", FIELD(fakernic_ureq_create_srq, log_stride), 255,
          EINVAL },
        {}
    };
    struct ibv_srq_init_attr init = { .attr = { ENTRIES, 3, 0 } };
    struct ibv_srq *srq = ibv_create_srq(end.pd, &init);
    struct command c = {
        .name = "CREATE_SRQ", .number = IB_USER_VERBS_CMD_CREATE_SRQ,
        .core_size = sizeof(c.core.srq), .core_answer = 16,
        .driver_size = sizeof(c.driver.srq), .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DESTROY_SRQ, .shape = ANSWERED,
        .reserved_at = offsetof(struct fakernic_ureq_create_srq, reserved),
        .reserved_size = 6, .addresses = 1,
        .core.srq = { .pd_handle = end.pd->handle, .max_wr = ENTRIES,
                      .max_sge = 1 },
        .driver.srq = { (uintptr_t)other_queue, LOG_ENTRIES, LOG_STRIDE, {} },
    };
    struct command resize = {
        .name = "MODIFY_SRQ", .number = IB_USER_VERBS_CMD_MODIFY_SRQ,
        .core_size = sizeof(c.core.modify_srq),
        .driver_size = sizeof(c.driver.modify_srq),
        .reserved_at = offsetof(struct fakernic_ureq_modify_srq, reserved),
        .reserved_size = 7, .addresses = 1,
        .core.modify_srq = { .attr_mask = IBV_SRQ_MAX_WR, .max_wr = ENTRIES },
        .driver.modify_srq = { (uintptr_t)other_queue, LOG_ENTRIES, {} },
    };

    if (!srq) {
        die("ibv_create_srq");
    }
    abuse(&c, wrong);
    resize.core.modify_srq.srq_handle = srq->handle;
    abuse(&resize, (const struct wrong[]) {
        { "half the receives", FIELD(fakernic_ureq_modify_srq, log_depth),
                         LOG_ENTRIES - 1, EINVAL },
        { "too deep", FIELD(fakernic_ureq_modify_srq, log_depth), 17, EINVAL },
                       {} });
    FAILS(0, ibv_destroy_srq(srq));
}

static void queue_pairs(void)
{
    static const struct wrong wrong[] = {
        { "SQ too deep", FIELD(fakernic_ureq_create_qp, sq_log_depth), 17,
          EINVAL },
        { "SQ of depth 254", FIELD(fakernic_ureq_create_qp, sq_log_depth), 254,
          EINVAL },
        { "RQ too deep", FIELD(fakernic_ureq_create_qp, rq_log_depth), 17,
          EINVAL },
        { "RQ stride of half a receive",
          FIELD(fakernic_ureq_create_qp, rq_log_stride), 4, EINVAL },
        { "RQ stride too long", FIELD(fakernic_ureq_create_qp, rq_log_stride),
          10, EINVAL },
        { "memory for no SQ", FIELD(fakernic_ureq_create_qp, sq_log_depth),
          FAKERNIC_ABI_QUEUE_NONE, EINVAL },
        { "memory for no RQ", FIELD(fakernic_ureq_create_qp, rq_log_depth),
          FAKERNIC_ABI_QUEUE_NONE, EINVAL },
        {}
    };
    struct command c = {
        .name = "CREATE_QP", .number = IB_USER_VERBS_CMD_CREATE_QP,
        .core_size = sizeof(c.core.qp), .core_answer = 32,
        .driver_size = sizeof(c.driver.qp), .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DESTROY_QP, .shape = ANSWERED,
        .reserved_at = offsetof(struct fakernic_ureq_create_qp, reserved),
        .reserved_size = 5, .addresses = 2,
        .core.qp = {
            .pd_handle = end.pd->handle, .send_cq_handle = cq->handle,
            .recv_cq_handle = cq->handle, .max_send_wr = 4, .max_recv_wr = 4,
            .max_send_sge = 1, .max_recv_sge = 1, .qp_type = IBV_QPT_RC,
        },
        .driver.qp = {
            .sq_va = (uintptr_t)queue, .rq_va = (uintptr_t)other_queue,
            .sq_log_depth = LOG_ENTRIES, .rq_log_depth = LOG_ENTRIES,
            .rq_log_stride = LOG_STRIDE,
        },
    };

    abuse(&c, wrong);
}

/* A QP without a receive queue, whose size is not checked. */
static void queue_pairs_with_srq(void)
{
    struct ibv_srq_init_attr init = { .attr = { ENTRIES, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(end.pd, &init);
    struct command c = {
        .name = "CREATE_QP with an SRQ", .number = IB_USER_VERBS_CMD_CREATE_QP,
        .core_size = sizeof(c.core.qp), .core_answer = 32,
        .driver_size = sizeof(c.driver.qp), .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DESTROY_QP, .shape = ANSWERED,
        .core.qp = {
            .pd_handle = end.pd->handle, .send_cq_handle = cq->handle,
            .recv_cq_handle = cq->handle, .max_send_wr = 4, .max_send_sge = 1,
            .qp_type = IBV_QPT_RC, .is_srq = true,
        },
        .driver.qp = {
            .sq_va = (uintptr_t)queue, .sq_log_depth = LOG_ENTRIES,
            .rq_log_depth = FAKERNIC_ABI_QUEUE_NONE,
        },
    };

    if (!srq) {
        die("ibv_create_srq");
    }
    c.core.qp.srq_handle = srq->handle;
    request(&c, "as it should be", 0);
    c.core.qp.max_recv_wr = UINT32_MAX;
    c.core.qp.max_recv_sge = UINT32_MAX;
    request(&c, "any receives of its own", 0);
    c.core.qp.max_send_wr = UINT32_MAX;
    request(&c, "too many sends", EINVAL);
    FAILS(0, ibv_destroy_srq(srq));
}

static void work_queues(void)
{
    static const struct wrong wrong[] = {
        { "half the receives", FIELD(fakernic_ureq_create_wq, log_depth),
          LOG_ENTRIES - 1, EINVAL },
        { "too deep", FIELD(fakernic_ureq_create_wq, log_depth), 17, EINVAL },
        { "stride of half a receive",
          FIELD(fakernic_ureq_create_wq, log_stride), 4, EINVAL },
        { "stride too long", FIELD(fakernic_ureq_create_wq, log_stride), 10,
          EINVAL },
        {}
    };
    struct command c = {
        .name = "CREATE_WQ", .number = IB_USER_VERBS_EX_CMD_CREATE_WQ,
        .extended = true, .core_size = sizeof(c.core.wq),
        .core_answer = sizeof(struct ib_uverbs_ex_create_wq_resp),
        .driver_size = sizeof(c.driver.wq),
        .destroy = IB_USER_VERBS_EX_CMD_DESTROY_WQ, .shape = EXTENDED,
        .handle_at = offsetof(struct ib_uverbs_ex_create_wq_resp, wq_handle),
        .reserved_at = offsetof(struct fakernic_ureq_create_wq, reserved),
        .reserved_size = 6, .addresses = 1,
        .core.wq = { .wq_type = IBV_WQT_RQ, .pd_handle = end.pd->handle,
                     .cq_handle = cq->handle, .max_wr = ENTRIES, .max_sge = 1 },
        .driver.wq = { (uintptr_t)other_queue, LOG_ENTRIES, LOG_STRIDE, {} },
    };

    abuse(&c, wrong);
}

static void rss_queue_pairs(void)
{
    static const struct wrong wrong[] = {
        { "unknown hash", FIELD(fakernic_ureq_create_rss_qp, rx_hash_function),
          7, EOPNOTSUPP },
        { "unknown fields", FIELD(fakernic_ureq_create_rss_qp, rx_hash_fields),
          1u << 31, EOPNOTSUPP },
        { "a short key", FIELD(fakernic_ureq_create_rss_qp, rx_hash_key_len),
          FAKERNIC_ABI_HASH_KEY_SIZE - 1, EINVAL },
        {}
    };
    struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = ENTRIES,
                                     .max_sge = 1, .pd = end.pd, .cq = cq };
    struct ibv_wq *wq = ibv_create_wq(end.context, &init);
    struct ibv_rwq_ind_table_init_attr table_init = { .ind_tbl = &wq };
    struct ibv_rwq_ind_table *table =
        ibv_create_rwq_ind_table(end.context, &table_init);
    struct command c = {
        .name = "CREATE_QP with RSS", .number = IB_USER_VERBS_EX_CMD_CREATE_QP,
        .extended = true, .core_size = sizeof(c.core.rss),
        .core_answer = sizeof(struct ib_uverbs_ex_create_qp_resp),
        .driver_size = sizeof(c.driver.rss), .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DESTROY_QP, .shape = ANSWERED,
        .reserved_at = offsetof(struct fakernic_ureq_create_rss_qp, reserved),
        .reserved_size = 2,
        .core.rss = {
            .pd_handle = end.pd->handle, .qp_type = IBV_QPT_RAW_PACKET,
            .comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE,
        },
        .driver.rss = { .rx_hash_fields = IBV_RX_HASH_SRC_IPV4,
                        .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                        .rx_hash_key_len = FAKERNIC_ABI_HASH_KEY_SIZE },
    };

    if (!wq || !table) {
        die("no work queue, no table");
    }
    c.core.rss.rwq_ind_tbl_handle = table->ind_tbl_handle;
    abuse(&c, wrong);
    FAILS(0, ibv_destroy_rwq_ind_table(table));
    FAILS(0, ibv_destroy_wq(wq));
}

/* Requests without a part of the driver. */
static void plain_requests(void)
{
    struct command ah = {
        .name = "CREATE_AH", .number = IB_USER_VERBS_CMD_CREATE_AH,
        .core_size = sizeof(ah.core.ah), .core_answer = 4, .driver_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DESTROY_AH, .shape = HANDLE,
        .core.ah = {
            .pd_handle = end.pd->handle,
            .attr = { .is_global = 1, .port_num = PORT_NUMBER,
                      .grh = { .sgid_index = end.gid_index } },
        },
    };
    struct command mw = {
        .name = "ALLOC_MW", .number = IB_USER_VERBS_CMD_ALLOC_MW,
        .core_size = sizeof(mw.core.mw), .core_answer = 8,
        .destroy = IB_USER_VERBS_CMD_DEALLOC_MW, .shape = HANDLE,
        .core.mw = { .pd_handle = end.pd->handle, .mw_type = IBV_MW_TYPE_1 },
    };
    struct command modify_qp = {
        .name = "MODIFY_QP", .number = IB_USER_VERBS_CMD_MODIFY_QP,
        .core_size = sizeof(modify_qp.core.modify_qp),
    };
    struct ibv_qp *qp = create_rc(&end, cq);
    struct command mr = {
        .name = "REG_MR", .number = IB_USER_VERBS_CMD_REG_MR,
        .core_size = sizeof(mr.core.mr), .core_answer = 12,
        .destroy = IB_USER_VERBS_CMD_DEREG_MR, .shape = HANDLE,
        .core.mr = { .start = (uintptr_t)queue, .hca_va = (uintptr_t)queue,
                     .length = PAGE, .pd_handle = end.pd->handle },
    };
    struct command xrcd = {
        .name = "OPEN_XRCD", .number = IB_USER_VERBS_CMD_OPEN_XRCD,
        .core_size = sizeof(xrcd.core.xrcd), .core_answer = 4,
        .destroy = IB_USER_VERBS_CMD_CLOSE_XRCD, .shape = HANDLE,
        .core.xrcd = { .fd = -1, .oflags = O_CREAT },
    };

    memcpy(ah.core.ah.attr.grh.dgid, &end.gid, 16);
    modify_qp.core.modify_qp.qp_handle = qp->handle;
    abuse(&ah, NULL);
    abuse(&modify_qp, NULL);
    FAILS(0, ibv_destroy_qp(qp));
    abuse(&mw, NULL);
    abuse(&mr, NULL);
    abuse(&xrcd, NULL);
}

/* ---- device memory: the attributes of an ioctl --------------------------- */

/* Allocates a page, with an address for the answer; 0 or an errno value. */
static int alloc_dm(void *answer, size_t size, uint16_t answer_attr)
{
    struct {
        struct ib_uverbs_ioctl_hdr hdr;
        struct ib_uverbs_attr attrs[4];
    } command = {
        .hdr = { .length = sizeof(command), .object_id = UVERBS_OBJECT_DM,
                 .method_id = UVERBS_METHOD_DM_ALLOC, .num_attrs = 4,
                 .driver_id = RDMA_DRIVER_UNKNOWN },
        .attrs = {
            { .attr_id = UVERBS_ATTR_ALLOC_DM_HANDLE,
              .flags = UVERBS_ATTR_F_MANDATORY },
            { .attr_id = UVERBS_ATTR_ALLOC_DM_LENGTH, .len = 8,
              .flags = UVERBS_ATTR_F_MANDATORY, .data = PAGE },
            { .attr_id = UVERBS_ATTR_ALLOC_DM_ALIGNMENT, .len = 4,
              .flags = UVERBS_ATTR_F_MANDATORY },
            { .attr_id = answer_attr, .len = size,
              .flags = UVERBS_ATTR_F_MANDATORY, .data = (uintptr_t)answer },
        },
    };

    return ioctl(end.context->cmd_fd, RDMA_VERBS_IOCTL, &command) ? errno : 0;
}

static void device_memory(void)
{
    struct ibv_alloc_dm_attr all = {};
    struct ibv_device_attr_ex attr;
    struct ibv_dm *dm;
    uint64_t offset;

    FAILS(EINVAL, alloc_dm(&offset, 4, FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET));
    FAILS(EPROTONOSUPPORT,
          alloc_dm(&offset, 8, FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET + 1));
    FAILS(EFAULT, alloc_dm(answer_end, 8, FAKERNIC_ATTR_ALLOC_DM_RESP_OFFSET));
    if (ibv_query_device_ex(end.context, NULL, &attr)) {
        die("ibv_query_device_ex");
    }
    all.length = attr.max_dm_size;
    dm = ibv_alloc_dm(end.context, &all);
    report("all device memory can still be allocated", dm ? 0 : errno, 0);
    FAILS(0, ibv_free_dm(dm));
}

/* ---- contexts, mappings, doorbells --------------------------------------- */

static int map(int fd, uint64_t offset, size_t size, int protection, int flags)
{
    void *area = mmap(NULL, size, protection, flags, fd, offset);

    return area == MAP_FAILED ? errno : munmap(area, size);
}

static int open_device(void)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "/dev/infiniband/%s",
             end.context->device->dev_name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        die("%s", path);
    }
    return fd;
}

/* The doorbell page of one context rings no queue of another one. */
static void foreign_doorbells(void *page)
{
    volatile __u64 *doorbell = page;
    struct ibv_qp *qp = create_rc(&end, cq);
    struct address self = { .gid = end.gid, .qpn = qp->qp_num };
    uint64_t before = counter("doorbell_dropped");
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    connect_rc(&end, qp, &self, 0, 0, 14, 7);
    doorbell[FAKERNIC_DOORBELL_SQ / 8] =
        FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, qp->qp_num) | 3;
    doorbell[FAKERNIC_DOORBELL_CQ_ARM / 8] =
        FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, cq->handle) |
        FAKERNIC_DOORBELL_RSVD;
    doorbell[FAKERNIC_DOORBELL_EQ / 8] = FAKERNIC_DOORBELL_ARM;
    doorbell[PAGE / 8 - 1] = ~0ull;
    *(volatile uint32_t *)page = 1;
    report("each wrong doorbell is counted",
           counter("doorbell_dropped") - before, 5);
    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)) {
        die("ibv_query_qp");
    }
    report("and rang nothing", attr.qp_state, IBV_QPS_RTS);
    FAILS(0, ibv_destroy_qp(qp));
}

/*
 * A provider older than the longer answer gets the part that it knows, and no
 * byte more: behind it there is no memory.
 */
static void older_context(int fd)
{
    struct command c = {
        .name = "GET_CONTEXT", .number = IB_USER_VERBS_CMD_GET_CONTEXT,
        .core_size = 8,
        .core_answer = sizeof(struct ib_uverbs_get_context_resp),
        .driver_answer = offsetof(struct fakernic_uresp_alloc_ucontext,
                                  wall_offset_ns),
    };
    struct ib_uverbs_get_context_resp *core = (void *)answer_of(&c);
    struct fakernic_uresp_alloc_ucontext *driver = (void *)(core + 1);

    FAILS(0, write_request(fd, &c, answer_of(&c)));
    report("the end of an older answer is there", driver->max_recv_sge > 0, 1);
    close(core->async_fd);
    close(fd);
}

static void contexts(void)
{
    struct {
        struct ib_uverbs_get_context_resp core;
        struct fakernic_uresp_alloc_ucontext driver;
    } *context = (void *)(answer_end - sizeof(*context));
    struct command c = {
        .name = "GET_CONTEXT", .number = IB_USER_VERBS_CMD_GET_CONTEXT,
        .core_size = 8, .core_answer = sizeof(context->core),
    };
    int fd = open_device();
    uint64_t uar, clock;
    void *page;

    FAILS(EINVAL, write_request(fd, &c, answer_of(&c)));
    c.driver_answer = offsetof(struct fakernic_uresp_alloc_ucontext, features);
    FAILS(EINVAL, write_request(fd, &c, answer_of(&c)));
    c.driver_answer = offsetof(struct fakernic_uresp_alloc_ucontext,
                               wall_offset_ns) - 4;
    FAILS(EINVAL, write_request(fd, &c, answer_of(&c)));
    older_context(open_device());
    c.driver_answer = sizeof(context->driver);
    FAILS(EFAULT, write_request(fd, &c, answer_end - c.core_answer));
    FAILS(0, write_request(fd, &c, answer_of(&c)));
    close(context->core.async_fd);
    uar = context->driver.uar_offset;
    clock = context->driver.clock_offset;
    FAILS(EINVAL, write_request(fd, &c, answer_of(&c)));    /* it exists */
    FAILS(EINVAL, map(fd, uar, 2 * PAGE, PROT_WRITE, MAP_SHARED));
    FAILS(EINVAL, map(fd, uar, PAGE, PROT_WRITE, MAP_PRIVATE));
    FAILS(EINVAL, map(fd, 1ull << 40, PAGE, PROT_WRITE, MAP_SHARED));
    FAILS(EPERM, map(fd, clock, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED));
    page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, clock);
    FAILS(EACCES, mprotect(page, PAGE, PROT_READ | PROT_WRITE));
    munmap(page, PAGE);
    page = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, uar);
    if (page == MAP_FAILED) {
        die("mmap of the doorbell page");
    }
    foreign_doorbells(page);
    munmap(page, PAGE);
    close(fd);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    cq = ibv_create_cq(end.context, ENTRIES, NULL, NULL, 0);
    if (!cq) {
        die("ibv_create_cq");
    }
    queue = map_before_hole(QUEUE_BYTES, PROT_READ | PROT_WRITE);
    other_queue = map_before_hole(QUEUE_BYTES, PROT_READ | PROT_WRITE);
    constant = map_before_hole(QUEUE_BYTES, PROT_READ);
    answer_end = map_before_hole(PAGE, PROT_READ | PROT_WRITE) + PAGE;
    group("protection domains", protection_domains);
    group("completion queues", completion_queues);
    group("shared receive queues", shared_receive_queues);
    group("queue pairs", queue_pairs);
    group("queue pairs with an SRQ", queue_pairs_with_srq);
    group("work queues", work_queues);
    group("RSS queue pairs", rss_queue_pairs);
    group("plain requests", plain_requests);
    group("device memory", device_memory);
    group("contexts", contexts);
    printf("1..%u\n", count);
    return bad ? 1 : 0;
}
