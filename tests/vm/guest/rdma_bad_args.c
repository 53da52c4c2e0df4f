/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each verb refuses wrong arguments with the errno of its man page, or of the
 * kernel's core if that names none. Sizes up to the limits of
 * ibv_query_device(3) are granted, and one more is refused. A refusal leaves
 * nothing, and the device counts it. rdma_bad_abi tests requests without
 * libibverbs. Prints TAP.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "refusal.h"

static struct ibv_device_attr limits;
static uint8_t *buffer;

static struct ibv_cq *make_cq(void)
{
    struct ibv_cq *cq = ibv_create_cq(end.context, 16, NULL, NULL, 0);

    if (!cq) {
        die("ibv_create_cq");
    }
    return cq;
}

static void completion_queues(void)
{
    struct ibv_modify_cq_attr moderation = {
        .attr_mask = IBV_CQ_ATTR_RESERVED, .moderate = { 1, 1 },
    };
    int vectors = end.context->num_comp_vectors;
    struct ibv_cq *cq = make_cq(), *largest;

    MAKES_NOTHING(EINVAL, ibv_create_cq(end.context, 0, NULL, NULL, 0));
    MAKES_NOTHING(EINVAL, ibv_create_cq(end.context, -1, NULL, NULL, 0));
    MAKES_NOTHING(EINVAL, ibv_create_cq(end.context, limits.max_cqe + 1, NULL,
                                        NULL, 0));
    MAKES_NOTHING(EINVAL, ibv_create_cq(end.context, 16, NULL, NULL, vectors));
    MAKES_NOTHING(EINVAL, ibv_create_cq(end.context, 16, NULL, NULL, -1));
    largest = ibv_create_cq(end.context, limits.max_cqe, NULL, NULL, 0);
    report("a CQ of max_cqe entries", largest ? 0 : errno, 0);
    FAILS(0, ibv_destroy_cq(largest));
    FAILS(EINVAL, ibv_resize_cq(cq, 0));
    FAILS(EINVAL, ibv_resize_cq(cq, limits.max_cqe + 1));
    FAILS(EINVAL, ibv_modify_cq(cq, &moderation));
    FAILS(0, ibv_destroy_cq(cq));
}

static void extended_completion_queues(void)
{
    struct ibv_cq_init_attr_ex good = { .cqe = 16 }, init = good;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(end.context);
    struct ibv_poll_cq_attr poll = { .comp_mask = 1 };
    struct ibv_cq_ex *ex;
    struct ibv_wc wc;
    void *context;

    init.cqe = 0;
    MAKES_NOTHING(EINVAL, ibv_create_cq_ex(end.context, &init));
    init = good;
    init.comp_vector = end.context->num_comp_vectors;
    MAKES_NOTHING(EINVAL, ibv_create_cq_ex(end.context, &init));
    init = good;
    init.wc_flags = 1 << 30;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_cq_ex(end.context, &init));
    init = good;
    init.comp_mask = 1 << 30;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_cq_ex(end.context, &init));
    init = good;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    init.flags = 1 << 30;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_cq_ex(end.context, &init));
    init = good;
    init.channel = channel;
    ex = ibv_create_cq_ex(end.context, &init);
    report("a CQ with a channel", ex ? 0 : errno, 0);
    FAILS(EINVAL, ibv_start_poll(ex, &poll));
    poll.comp_mask = 0;
    FAILS(ENOENT, ibv_start_poll(ex, &poll));
    FAILS(0, ibv_poll_cq(ibv_cq_ex_to_cq(ex), 0, &wc));
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    FAILS(EAGAIN, ibv_get_cq_event(channel, (struct ibv_cq **)&context,
                                   &context));
    FAILS(EBUSY, ibv_destroy_comp_channel(channel));
    FAILS(0, ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
    FAILS(0, ibv_destroy_comp_channel(channel));
}

/* ibv_advise_mr(3), for a region that is pinned. */
static void advice(struct ibv_pd *pd, struct ibv_mr *mr)
{
    struct ibv_sge sge = { (uintptr_t)buffer, PAGE, mr->lkey };

    FAILS(EOPNOTSUPP, ibv_advise_mr(pd, 77, 0, &sge, 1));
    FAILS(EINVAL, ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1 << 5,
                                &sge, 1));
    FAILS(EINVAL, ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
                                IBV_ADVISE_MR_FLAG_FLUSH, &sge, 0));
    FAILS(ENOENT, ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
                                IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
}

static void memory_regions(void)
{
    uint8_t *constant = mmap(NULL, PAGE, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *hole = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
                         -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(end.pd, buffer, PAGE, 0);
    struct ibv_pd *pd = end.pd;

    munmap(hole, PAGE);
    MAKES_NOTHING(EINVAL, ibv_reg_mr(pd, buffer, 0, 0));
    MAKES_NOTHING(EINVAL, ibv_reg_mr(pd, buffer, limits.max_mr_size + 1, 0));
    MAKES_NOTHING(EFAULT, ibv_reg_mr(pd, hole, PAGE, 0));
    MAKES_NOTHING(EFAULT, ibv_reg_mr(pd, constant, PAGE,
                                     IBV_ACCESS_LOCAL_WRITE));
    MAKES_NOTHING(EINVAL, ibv_reg_mr(pd, buffer, PAGE,
                                     IBV_ACCESS_REMOTE_WRITE));
    MAKES_NOTHING(EINVAL, ibv_reg_mr(pd, buffer, PAGE,
                                     IBV_ACCESS_REMOTE_ATOMIC));
    MAKES_NOTHING(EINVAL, ibv_reg_mr(pd, buffer, PAGE, 1 << 19));
    MAKES_NOTHING(EINVAL, ibv_reg_mr_iova(pd, buffer, PAGE, 1, 0));
    MAKES_NOTHING(EBADF, ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, 0));
    FAILS(EINVAL, ibv_rereg_mr(mr, 1 << 5, NULL, NULL, 0, 0));
    FAILS(EINVAL, ibv_rereg_mr(mr, 0, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
    FAILS(EINVAL, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
                               buffer, 0, 0));
    FAILS(EINVAL, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                               IBV_ACCESS_REMOTE_WRITE));
    MAKES_NOTHING(ENOENT, ibv_import_mr(pd, 0xffffff));
    MAKES_NOTHING(EOPNOTSUPP, ibv_alloc_null_mr(pd));
    advice(pd, mr);
    FAILS(0, ibv_dereg_mr(mr));
    munmap(constant, PAGE);
}

static void device_memory(void)
{
    struct ibv_alloc_dm_attr good = { .length = PAGE }, some = good;
    struct ibv_device_attr_ex attr = {};
    struct ibv_dm *dm = ibv_alloc_dm(end.context, &good);
    struct ibv_mr *mr;

    if (!dm || ibv_query_device_ex(end.context, NULL, &attr)) {
        die("no device memory");
    }
    some.length = 0;
    MAKES_NOTHING(EINVAL, ibv_alloc_dm(end.context, &some));
    some.length = attr.max_dm_size + 1;
    MAKES_NOTHING(ENOMEM, ibv_alloc_dm(end.context, &some));
    some.length = -1ul;
    MAKES_NOTHING(ENOMEM, ibv_alloc_dm(end.context, &some));
    some = good;
    some.log_align_req = 32;
    MAKES_NOTHING(EINVAL, ibv_alloc_dm(end.context, &some));
    some = good;
    some.comp_mask = 1;
    MAKES_NOTHING(EINVAL, ibv_alloc_dm(end.context, &some));
    MAKES_NOTHING(ENOENT, ibv_import_dm(end.context, 0xffffff));
    FAILS(EINVAL, ibv_memcpy_to_dm(dm, 0, buffer, PAGE + 4));
    FAILS(EINVAL, ibv_memcpy_to_dm(dm, PAGE, buffer, 4));
    FAILS(EINVAL, ibv_memcpy_to_dm(dm, -4ul, buffer, 8));
    FAILS(EINVAL, ibv_memcpy_to_dm(dm, 2, buffer, 4));
    FAILS(EINVAL, ibv_memcpy_from_dm(buffer, dm, 0, PAGE + 4));
    FAILS(EINVAL, ibv_memcpy_from_dm(buffer, dm, 4, 3));
    MAKES_NOTHING(EINVAL, ibv_reg_dm_mr(end.pd, dm, 1, PAGE,
                                        IBV_ACCESS_ZERO_BASED));
    MAKES_NOTHING(EINVAL, ibv_reg_dm_mr(end.pd, dm, 0, PAGE, 0));
    mr = ibv_reg_dm_mr(end.pd, dm, 0, PAGE, IBV_ACCESS_ZERO_BASED);
    report("a region of device memory", mr ? 0 : errno, 0);
    FAILS(EBUSY, ibv_free_dm(dm));
    FAILS(0, ibv_dereg_mr(mr));
    FAILS(0, ibv_free_dm(dm));
}

static int shared_receive_one(struct ibv_srq *srq, int sges)
{
    struct ibv_sge sge[64] = {};
    struct ibv_recv_wr *refused = NULL, wr = {
        .sg_list = sge, .num_sge = sges,
    };
    int error = ibv_post_srq_recv(srq, &wr, &refused);

    return error && refused != &wr ? ENOTRECOVERABLE : error;
}

static void posting_shared_receives(struct ibv_srq *srq)
{
    struct ibv_srq_attr attr;
    uint32_t i;
    int error = 0;

    FAILS(0, ibv_query_srq(srq, &attr));
    FAILS(EINVAL, shared_receive_one(srq, attr.max_sge + 1));
    FAILS(EINVAL, shared_receive_one(srq, -1));
    for (i = 0; !error && i <= attr.max_wr; i++) {
        error = shared_receive_one(srq, 0);
    }
    report("a shared receive too many", error, ENOMEM);
    report("as many as max_wr", i, attr.max_wr + 1);
}

static void shared_receive_queues(void)
{
    struct ibv_srq_init_attr good = { .attr = { 16, 1, 0 } }, init = good;
    struct ibv_srq_attr attr = { .max_wr = 16 };
    struct ibv_srq *srq;

    init.attr.max_wr = limits.max_srq_wr + 1;
    MAKES_NOTHING(EINVAL, ibv_create_srq(end.pd, &init));
    init = good;
    init.attr.max_sge = limits.max_srq_sge + 1;
    MAKES_NOTHING(EINVAL, ibv_create_srq(end.pd, &init));
    init = good;
    init.attr.max_wr = limits.max_srq_wr;
    init.attr.max_sge = limits.max_srq_sge;
    srq = ibv_create_srq(end.pd, &init);
    report("an SRQ of max_srq_wr requests", srq ? 0 : errno, 0);
    FAILS(0, ibv_destroy_srq(srq));
    init = good;
    init.attr.srq_limit = ~0U;      /* "irrelevant", says the man page */
    srq = ibv_create_srq(end.pd, &init);
    report("an SRQ with any limit", srq ? 0 : errno, 0);
    FAILS(0, ibv_query_srq(srq, &attr));
    report("it has none", attr.srq_limit, 0);
    FAILS(0, ibv_destroy_srq(srq));
    attr.max_wr = 16;
    srq = ibv_create_srq(end.pd, &good);
    attr.srq_limit = good.attr.max_wr + 1;
    FAILS(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
    attr.max_wr = limits.max_srq_wr + 1;
    FAILS(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
    FAILS(EINVAL, ibv_modify_srq(srq, &attr, 1 << 5));
    posting_shared_receives(srq);
    FAILS(0, ibv_destroy_srq(srq));
}

/* Those with a type of their own, and the domains that XRC has them in. */
static void extended_shared_receive_queues(void)
{
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        .fd = -1, .oflags = O_CREAT,
    };
    struct ibv_xrcd *xrcd = ibv_open_xrcd(end.context, &domain);
    struct ibv_cq *cq = make_cq();
    const struct ibv_srq_init_attr_ex good = {
        .attr = { 16, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = end.pd,
        .xrcd = xrcd, .cq = cq,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
    };
    struct ibv_srq_init_attr_ex init = good;
    struct ibv_qp_open_attr open_attr = {
        .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
                     IBV_QP_OPEN_ATTR_TYPE,
        .qp_num = 0xffffff, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV,
    };
    struct ibv_srq *srq = ibv_create_srq_ex(end.context, &init);

    report("an XRC SRQ", srq ? 0 : errno, 0);
    init = good;
    init.comp_mask |= 1 << 20;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_srq_ex(end.context, &init));
    init = good;
    init.srq_type = IBV_SRQT_TM;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_srq_ex(end.context, &init));
    init = good;
    init.comp_mask &= ~IBV_SRQ_INIT_ATTR_XRCD;
    MAKES_NOTHING(EINVAL, ibv_create_srq_ex(end.context, &init));
    init = good;
    init.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ;
    MAKES_NOTHING(EINVAL, ibv_create_srq_ex(end.context, &init));
    init = good;
    init.attr.max_wr = 0;
    MAKES_NOTHING(EINVAL, ibv_create_srq_ex(end.context, &init));
    FAILS(EBUSY, ibv_close_xrcd(xrcd));
    FAILS(EBUSY, ibv_destroy_cq(cq));
    MAKES_NOTHING(EINVAL, ibv_open_qp(end.context, &open_attr));
    open_attr.qp_type = IBV_QPT_RC;
    MAKES_NOTHING(EINVAL, ibv_open_qp(end.context, &open_attr));
    domain.fd = 999;
    MAKES_NOTHING(EBADF, ibv_open_xrcd(end.context, &domain));
    domain.comp_mask |= 1 << 5;
    MAKES_NOTHING(EOPNOTSUPP, ibv_open_xrcd(end.context, &domain));
    FAILS(0, ibv_destroy_srq(srq));
    FAILS(0, ibv_close_xrcd(xrcd));
    FAILS(0, ibv_destroy_cq(cq));
}

static int no_qp(const struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr init = *attr;
    struct ibv_qp *qp = ibv_create_qp(end.pd, &init);
    int error = errno;

    if (!qp) {
        return error;
    }
    ibv_destroy_qp(qp);
    return 0;
}

static void creating_queue_pairs(void)
{
    struct ibv_cq *cq = make_cq();
    const struct ibv_qp_init_attr good = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { 16, 16, 1, 1, 0 },
    };
    struct ibv_qp_init_attr attr = good;

    FAILS(0, no_qp(&attr));
    attr.cap.max_send_wr = limits.max_qp_wr + 1;
    report("a QP of too many sends", no_qp(&attr), EINVAL);
    attr = good;
    attr.cap.max_recv_wr = limits.max_qp_wr + 1;
    report("a QP of too many receives", no_qp(&attr), EINVAL);
    attr = good;
    attr.cap.max_send_sge = limits.max_sge + 1;
    report("a QP of too many entries to gather", no_qp(&attr), EINVAL);
    attr = good;
    attr.cap.max_recv_sge = limits.max_sge + 1;
    report("a QP of too many entries to scatter", no_qp(&attr), EINVAL);
    attr = good;
    attr.cap.max_inline_data = 1 << 20;
    report("a QP of too much inline data", no_qp(&attr), EINVAL);
    attr = good;
    attr.cap.max_send_wr = limits.max_qp_wr;
    attr.cap.max_recv_wr = limits.max_qp_wr;
    report("a QP of max_qp_wr requests", no_qp(&attr), 0);
    attr = good;
    attr.cap.max_send_sge = limits.max_sge;
    attr.cap.max_recv_sge = limits.max_sge;
    report("a QP of max_sge entries", no_qp(&attr), 0);
    attr = good;
    attr.qp_type = IBV_QPT_DRIVER;
    report("a QP of another vendor's type", no_qp(&attr), EOPNOTSUPP);
    attr = good;
    attr.qp_type = 77;
    report("a QP of no type", no_qp(&attr), EOPNOTSUPP);
    FAILS(0, ibv_destroy_cq(cq));
}

static int no_qp_ex(const struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp_init_attr_ex init = *attr;
    struct ibv_qp *qp = ibv_create_qp_ex(end.context, &init);
    int error = errno;

    if (!qp) {
        return error;
    }
    ibv_destroy_qp(qp);
    return 0;
}

static void creating_extended_queue_pairs(void)
{
    struct ibv_srq_init_attr srq_init = { .attr = { 16, 1, 0 } };
    struct ibv_srq *srq = ibv_create_srq(end.pd, &srq_init);
    struct ibv_cq *cq = make_cq();
    const struct ibv_qp_init_attr_ex good = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = end.pd,
        .cap = { 16, 16, 1, 1, 0 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };
    struct ibv_qp_init_attr_ex attr = good;

    FAILS(0, no_qp_ex(&attr));
    attr.comp_mask |= 1 << 30;
    report("a QP of unknown attributes", no_qp_ex(&attr), EOPNOTSUPP);
    attr = good;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    report("a UD QP that writes", no_qp_ex(&attr), EOPNOTSUPP);
    attr = good;
    attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
    report("a QP of unknown flags", no_qp_ex(&attr), EOPNOTSUPP);
    attr = good;
    attr.comp_mask &= ~IBV_QP_INIT_ATTR_PD;
    report("a QP without PD", no_qp_ex(&attr), EINVAL);
    attr = good;
    attr.send_cq = NULL;
    report("a QP without send CQ", no_qp_ex(&attr), EINVAL);
    attr = good;
    attr.recv_cq = NULL;
    report("a QP without receive CQ", no_qp_ex(&attr), EINVAL);
    attr = good;
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.send_ops_flags = 0;
    report("an XRC target without domain", no_qp_ex(&attr), EINVAL);
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.srq = srq;
    report("an XRC initiator with an SRQ", no_qp_ex(&attr), EINVAL);
    FAILS(0, ibv_destroy_srq(srq));
    FAILS(0, ibv_destroy_cq(cq));
}

/* A wrong attribute of a transition that is otherwise right. */
struct mistake {
    const char *name;
    int error;
    void (*spoil)(struct ibv_qp_attr *attr, int *mask);
};

#define SPOILT(what, statement) \
    static void spoil_##what(struct ibv_qp_attr *attr, int *mask) \
    { \
        (void)attr; \
        (void)mask; \
        statement; \
    }

SPOILT(init_port, attr->port_num = 2)
SPOILT(init_port_0, attr->port_num = 0)
SPOILT(init_pkey, attr->pkey_index = limits.max_pkeys)
SPOILT(init_missing, *mask &= ~IBV_QP_PORT)
SPOILT(init_qkey, *mask |= IBV_QP_QKEY)
SPOILT(init_state, attr->qp_state = IBV_QPS_RTS)
SPOILT(init_current, (*mask |= IBV_QP_CUR_STATE, \
                      attr->cur_qp_state = IBV_QPS_RTR))
SPOILT(rtr_mtu_0, attr->path_mtu = 0)
SPOILT(rtr_mtu, attr->path_mtu = 6)
SPOILT(rtr_mtu_large, attr->path_mtu = IBV_MTU_4096)
SPOILT(rtr_dest, attr->dest_qp_num = 1 << 24)
SPOILT(rtr_reads, attr->max_dest_rd_atomic = limits.max_qp_rd_atom + 1)
SPOILT(rtr_timer, attr->min_rnr_timer = 32)
SPOILT(rtr_grh, attr->ah_attr.is_global = 0)
SPOILT(rtr_gid, attr->ah_attr.grh.sgid_index = 255)
SPOILT(rtr_missing, *mask &= ~IBV_QP_AV)
SPOILT(rts_timeout, attr->timeout = 32)
SPOILT(rts_retries, attr->retry_cnt = 8)
SPOILT(rts_rnr, attr->rnr_retry = 8)
SPOILT(rts_reads, attr->max_rd_atomic = limits.max_qp_init_rd_atom + 1)
SPOILT(rts_missing, *mask &= ~IBV_QP_SQ_PSN)
SPOILT(rts_extra, *mask |= IBV_QP_PATH_MTU)

#define SPOIL(what) { #what, EINVAL, spoil_##what }

static const struct mistake to_init[] = {
    SPOIL(init_port), SPOIL(init_port_0), SPOIL(init_pkey),
    SPOIL(init_missing), SPOIL(init_qkey), SPOIL(init_state),
    SPOIL(init_current), { NULL, 0, NULL },
};

static const struct mistake to_rtr[] = {
    SPOIL(rtr_mtu_0), SPOIL(rtr_mtu), SPOIL(rtr_mtu_large), SPOIL(rtr_dest),
    SPOIL(rtr_reads), SPOIL(rtr_timer), SPOIL(rtr_grh),
    { "rtr_gid", ENODATA, spoil_rtr_gid },      /* an empty entry */
    SPOIL(rtr_missing), { NULL, 0, NULL },
};

static const struct mistake to_rts[] = {
    SPOIL(rts_timeout), SPOIL(rts_retries), SPOIL(rts_rnr), SPOIL(rts_reads),
    SPOIL(rts_missing), SPOIL(rts_extra), { NULL, 0, NULL },
};

/* Each mistake is refused, and the right transition then succeeds. */
static void transition(struct ibv_qp *qp, const struct ibv_qp_attr *good,
                       int good_mask, const struct mistake *wrong)
{
    for (; wrong->name; wrong++) {
        struct ibv_qp_attr attr = *good;
        int mask = good_mask;

        wrong->spoil(&attr, &mask);
        report(wrong->name, ibv_modify_qp(qp, &attr, mask), wrong->error);
    }
    report("and then the right one",
           ibv_modify_qp(qp, (struct ibv_qp_attr *)good, good_mask), 0);
}

static void modifying_queue_pairs(struct ibv_qp *qp)
{
    const struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER,
    };
    const struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = end.mtu,
        .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1, .port_num = PORT_NUMBER,
            .grh = { .dgid = end.gid, .sgid_index = end.gid_index },
        },
    };
    const struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 1,
        .rnr_retry = 1, .max_rd_atomic = 1,
    };

    transition(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               IBV_QP_ACCESS_FLAGS, to_init);
    transition(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
               IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER, to_rtr);
    transition(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
               IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
               to_rts);
}

static int send_one(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int sges,
                    unsigned flags)
{
    struct ibv_sge sge[64] = {};
    struct ibv_send_wr *refused = NULL, wr = {
        .sg_list = sge, .num_sge = sges, .opcode = opcode,
        .send_flags = flags,
    };
    int error;

    sge[0] = (struct ibv_sge) { (uintptr_t)buffer, PAGE, 0 };
    error = ibv_post_send(qp, &wr, &refused);
    return error && refused != &wr ? ENOTRECOVERABLE : error;
}

static int receive_one(struct ibv_qp *qp, int sges)
{
    struct ibv_sge sge[64] = {};
    struct ibv_recv_wr *refused = NULL, wr = {
        .sg_list = sge, .num_sge = sges,
    };
    int error = ibv_post_recv(qp, &wr, &refused);

    return error && refused != &wr ? ENOTRECOVERABLE : error;
}

/* Of a QP in RTS. */
static void other_requests(struct ibv_qp *qp)
{
    struct ibv_qp_rate_limit_attr rate = { .comp_mask = 1 };
    struct ibv_mr *mr = ibv_reg_mr(end.pd, buffer, PAGE, 0);
    struct ibv_mw *mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_1);
    struct ibv_mw *mw2 = ibv_alloc_mw(end.pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind bind = {
        .bind_info = { .addr = (uintptr_t)buffer, .length = PAGE },
    };
    struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 1 };

    FAILS(EINVAL, ibv_bind_mw(qp, mw, &bind));              /* no region */
    bind.bind_info.mr = mr;
    FAILS(EINVAL, ibv_bind_mw(qp, mw2, &bind));             /* of type 2 */
    FAILS(EINVAL, ibv_modify_qp_rate_limit(qp, &rate));
    rate = (struct ibv_qp_rate_limit_attr) { .max_burst_sz = 1 };
    FAILS(EOPNOTSUPP, ibv_modify_qp_rate_limit(qp, &rate));
    rate = (struct ibv_qp_rate_limit_attr) { .rate_limit = -1 };
    FAILS(EINVAL, ibv_modify_qp_rate_limit(qp, &rate));     /* too fast */
    FAILS(EINVAL, ibv_set_ece(qp, &ece));
    FAILS(0, ibv_dealloc_mw(mw2));
    FAILS(0, ibv_dealloc_mw(mw));
    FAILS(0, ibv_dereg_mr(mr));
}

static void posting(void)
{
    struct ibv_cq *cq = make_cq();
    struct ibv_qp *qp = create_rc(&end, cq);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    uint32_t i;
    int error = 0;

    FAILS(EINVAL, receive_one(qp, 0));          /* in RESET */
    FAILS(EINVAL, send_one(qp, IBV_WR_SEND, 0, 0));
    modifying_queue_pairs(qp);
    FAILS(0, ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
    FAILS(EINVAL, receive_one(qp, init.cap.max_recv_sge + 1));
    FAILS(EINVAL, receive_one(qp, -1));
    FAILS(EINVAL, send_one(qp, IBV_WR_SEND, init.cap.max_send_sge + 1, 0));
    FAILS(EINVAL, send_one(qp, 77, 1, 0));
    FAILS(EINVAL, send_one(qp, IBV_WR_TSO, 1, 0));
    FAILS(EINVAL, send_one(qp, IBV_WR_SEND, 1, IBV_SEND_INLINE));
    for (i = 0; !error && i <= init.cap.max_recv_wr; i++) {
        error = receive_one(qp, 0);
    }
    report("a receive too many", error, ENOMEM);
    report("as many as max_recv_wr", i, init.cap.max_recv_wr + 1);
    other_requests(qp);
    FAILS(EBUSY, ibv_destroy_cq(cq));
    FAILS(0, ibv_destroy_qp(qp));
    FAILS(0, ibv_destroy_cq(cq));
}

/* Send requests made piece by piece; a wrong one takes all of them back. */
static void building(void)
{
    struct ibv_cq *cq = make_cq();
    struct ibv_qp_init_attr_ex init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = end.pd,
        .cap = { 4, 4, 1, 1, 0 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(end.context, &init);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    struct address self = { .gid = end.gid, .qpn = qp->qp_num };
    struct ibv_sge sges[64] = {};

    connect_rc(&end, qp, &self, 0, 0, 14, 7);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_sge_list(ex, init.cap.max_send_sge + 1, sges);
    FAILS(EINVAL, ibv_wr_complete(ex));
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, buffer, init.cap.max_inline_data + 1);
    FAILS(EINVAL, ibv_wr_complete(ex));
    ibv_wr_start(ex);
    for (uint32_t i = 0; i <= init.cap.max_send_wr; i++) {
        ibv_wr_send(ex);
    }
    FAILS(ENOMEM, ibv_wr_complete(ex));
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_abort(ex);
    FAILS(0, ibv_destroy_qp(qp));
    FAILS(0, ibv_destroy_cq(cq));
}

/* Groups of a UD QP; an address from a receive that has none. */
static void datagrams(struct ibv_cq *cq, const union ibv_gid *group)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
        .cap = { 4, 4, 1, 1, 0 },
    };
    struct ibv_qp *ud = ibv_create_qp(end.pd, &init);
    struct ibv_wc wc = {};
    struct ibv_grh grh = {};

    FAILS(EINVAL, ibv_attach_mcast(ud, &end.gid, 0));   /* of one receiver */
    FAILS(EINVAL, ibv_detach_mcast(ud, group, 0));      /* not attached */
    MAKES_NOTHING(EINVAL, ibv_create_ah_from_wc(end.pd, &wc, &grh,
                                                PORT_NUMBER));
    FAILS(0, ibv_destroy_qp(ud));
}

static void addresses_and_groups(void)
{
    struct ibv_ah_attr good = {
        .is_global = 1, .port_num = PORT_NUMBER,
        .grh = { .dgid = end.gid, .sgid_index = end.gid_index },
    }, attr = good;
    struct ibv_cq *cq = make_cq();
    struct ibv_qp *rc = create_rc(&end, cq);
    union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 5 } };

    attr.port_num = 2;
    MAKES_NOTHING(EINVAL, ibv_create_ah(end.pd, &attr));
    attr = good;
    attr.is_global = 0;
    MAKES_NOTHING(EINVAL, ibv_create_ah(end.pd, &attr));
    attr = good;
    attr.grh.sgid_index = 255;                  /* an empty entry */
    MAKES_NOTHING(ENODATA, ibv_create_ah(end.pd, &attr));
    FAILS(EINVAL, ibv_attach_mcast(rc, &group, 0));
    FAILS(EINVAL, ibv_detach_mcast(rc, &group, 0));
    FAILS(0, ibv_destroy_qp(rc));
    datagrams(cq, &group);
    FAILS(0, ibv_destroy_cq(cq));
}

static void queries(void)
{
    struct ibv_query_device_ex_input input = { .comp_mask = 1 };
    struct ibv_values_ex values = { .comp_mask = 1 << 30 };
    struct ibv_counters_init_attr counters = {};
    struct ibv_flow_action_esp_attr esp = {};
    struct ibv_device_attr_ex attr;
    struct ibv_gid_entry entry;
    struct ibv_port_attr port;
    union ibv_gid gid;
    __be16 pkey;

    FAILS(EINVAL, ibv_query_port(end.context, 0, &port));
    FAILS(EINVAL, ibv_query_port(end.context, 2, &port));
    FAILS(EINVAL, ibv_query_device_ex(end.context, &input, &attr));
    FAILS(EINVAL, ibv_query_rt_values_ex(end.context, &values));
    report("ibv_query_gid of index 70000",
           ibv_query_gid(end.context, 1, 70000, &gid), -1);
    report("ibv_query_pkey of index 1",
           ibv_query_pkey(end.context, 1, 1, &pkey), -1);
    report("ibv_get_pkey_index of no key",
           ibv_get_pkey_index(end.context, 1, htons(0x1234)), -1);
    FAILS(EINVAL, ibv_query_gid_ex(end.context, 1, 70000, &entry, 0));
    FAILS(ENODATA, ibv_query_gid_ex(end.context, 1, 255, &entry, 0));
    FAILS(EINVAL, ibv_query_gid_ex(end.context, 2, 0, &entry, 0));
    FAILS(EINVAL, ibv_query_gid_ex(end.context, 1, 0, &entry, 1));
    FAILS(EINVAL, (int)ibv_query_gid_table(end.context, &entry, 1, 1));
    FAILS(EINVAL, (int)ibv_query_gid_table(end.context, &entry, 0, 0));
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_counters(end.context, &counters));
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_flow_action_esp(end.context, &esp));
    MAKES_NOTHING(EINVAL, ibv_import_device(-1));
}

static void domains(void)
{
    struct ibv_td_init_attr td_init = { .comp_mask = 1 << 7 };
    struct ibv_td *td;
    struct ibv_parent_domain_init_attr init = { .pd = end.pd };
    struct ibv_pd *parent;
    struct ibv_mr *mr = ibv_reg_mr(end.pd, buffer, PAGE, 0);

    MAKES_NOTHING(EOPNOTSUPP, ibv_alloc_td(end.context, &td_init));
    td_init.comp_mask = 0;
    td = ibv_alloc_td(end.context, &td_init);
    init.comp_mask = 1 << 30;
    MAKES_NOTHING(EOPNOTSUPP, ibv_alloc_parent_domain(end.context, &init));
    init.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    MAKES_NOTHING(EINVAL, ibv_alloc_parent_domain(end.context, &init));
    init.comp_mask = 0;
    init.pd = NULL;
    MAKES_NOTHING(EINVAL, ibv_alloc_parent_domain(end.context, &init));
    init.pd = end.pd;
    init.td = td;
    parent = ibv_alloc_parent_domain(end.context, &init);
    report("a parent domain", parent ? 0 : errno, 0);
    init.pd = parent;
    MAKES_NOTHING(EINVAL, ibv_alloc_parent_domain(end.context, &init));
    FAILS(EBUSY, ibv_dealloc_td(td));
    FAILS(EBUSY, ibv_dealloc_pd(end.pd));
    FAILS(0, ibv_dealloc_pd(parent));
    FAILS(0, ibv_dealloc_td(td));
    MAKES_NOTHING(EINVAL, ibv_alloc_mw(end.pd, 77));
    FAILS(EBUSY, ibv_dealloc_pd(end.pd));
    FAILS(0, ibv_dereg_mr(mr));
}

/* ---- work queues and flow rules ------------------------------------------ */

static void work_queues(void)
{
    struct ibv_cq *cq = make_cq();
    const struct ibv_wq_init_attr good = {
        .wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = end.pd,
        .cq = cq,
    };
    struct ibv_wq_init_attr init = good;
    struct ibv_wq *wq = ibv_create_wq(end.context, &init);
    struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE,
                                .wq_state = 77 };
    struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &wq };
    struct ibv_recv_wr *refused, wr = {};

    report("a work queue", wq ? 0 : errno, 0);
    init = good;
    init.wq_type = 77;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_wq(end.context, &init));
    init = good;
    init.max_wr = 0;
    MAKES_NOTHING(EINVAL, ibv_create_wq(end.context, &init));
    init.max_wr = limits.max_qp_wr + 1;
    MAKES_NOTHING(EINVAL, ibv_create_wq(end.context, &init));
    init = good;
    init.max_sge = limits.max_sge + 1;
    MAKES_NOTHING(EINVAL, ibv_create_wq(end.context, &init));
    init = good;
    init.cq = NULL;
    MAKES_NOTHING(EINVAL, ibv_create_wq(end.context, &init));
    init = good;
    init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    init.create_flags = IBV_WQ_FLAGS_SCATTER_FCS;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_wq(end.context, &init));
    FAILS(EINVAL, ibv_modify_wq(wq, &attr));
    attr.attr_mask |= IBV_WQ_ATTR_CURR_STATE;
    attr.wq_state = attr.curr_wq_state = IBV_WQS_RDY;
    FAILS(EINVAL, ibv_modify_wq(wq, &attr));
    FAILS(EINVAL, ibv_post_wq_recv(wq, &wr, &refused));     /* in RESET */
    table.log_ind_tbl_size = 14;
    MAKES_NOTHING(EINVAL, ibv_create_rwq_ind_table(end.context, &table));
    table.log_ind_tbl_size = 0;
    table.comp_mask = 1;
    MAKES_NOTHING(EOPNOTSUPP, ibv_create_rwq_ind_table(end.context, &table));
    FAILS(EBUSY, ibv_destroy_cq(cq));
    FAILS(0, ibv_destroy_wq(wq));
    FAILS(0, ibv_destroy_cq(cq));
}

static void flow_rules(void)
{
    struct ibv_cq *cq = make_cq();
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET,
        .cap = { 4, 4, 1, 1, 0 },
    };
    struct ibv_qp *raw = ibv_create_qp(end.pd, &init);
    struct ibv_qp *rc = create_rc(&end, cq);
    struct {
        struct ibv_flow_attr attr;
        struct ibv_flow_spec_eth eth[2];
    } good = {
        .attr = { .type = IBV_FLOW_ATTR_NORMAL, .num_of_specs = 1,
                  .port = PORT_NUMBER,
                  .size = sizeof(good.attr) + sizeof(good.eth[0]) },
        .eth = {
            { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(good.eth[0]) },
            { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(good.eth[0]) },
        },
    }, rule = good;

    MAKES_NOTHING(EINVAL, ibv_create_flow(rc, &rule.attr));
    rule.attr.port = 2;
    MAKES_NOTHING(EINVAL, ibv_create_flow(raw, &rule.attr));
    rule = good;
    rule.attr.type = 77;
    MAKES_NOTHING(EINVAL, ibv_create_flow(raw, &rule.attr));
    rule.attr.type = 1 << 8;            /* of which no byte is to be lost */
    MAKES_NOTHING(EINVAL, ibv_create_flow(raw, &rule.attr));
    rule = good;
    rule.attr.flags = 1 << 20;
    MAKES_NOTHING(EINVAL, ibv_create_flow(raw, &rule.attr));
    rule = good;
    rule.eth[0].type = 0x77;
    MAKES_NOTHING(EINVAL, ibv_create_flow(raw, &rule.attr));
    rule = good;
    rule.attr.num_of_specs = 2;         /* two rules for one header */
    rule.attr.size += sizeof(rule.eth[1]);
    MAKES_NOTHING(EINVAL, ibv_create_flow(raw, &rule.attr));
    FAILS(0, ibv_destroy_qp(rc));
    FAILS(0, ibv_destroy_qp(raw));
    FAILS(0, ibv_destroy_cq(cq));
}

int main(void)
{
    uint64_t refused;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_endpoint(&end);
    if (ibv_query_device(end.context, &limits)) {
        die("ibv_query_device");
    }
    buffer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    group("completion queues", completion_queues);
    group("extended completion queues", extended_completion_queues);
    group("memory regions", memory_regions);
    group("device memory", device_memory);
    group("shared receive queues", shared_receive_queues);
    group("extended shared receive queues", extended_shared_receive_queues);
    group("creating queue pairs", creating_queue_pairs);
    group("creating extended queue pairs", creating_extended_queue_pairs);
    refused = counter("commands_failed");
    group("queue pairs and their work requests", posting);
    refused = counter("commands_failed") - refused;
    printf("# the device counts %u refusals\n", (unsigned)refused);
    report("the device counts what it refuses", refused < 11 ? ENOMSG : 0, 0);
    group("building work requests", building);
    group("addresses and groups", addresses_and_groups);
    group("queries", queries);
    group("domains", domains);
    group("work queues", work_queues);
    group("flow rules", flow_rules);
    printf("1..%u\n", count);
    return bad ? 1 : 0;
}
