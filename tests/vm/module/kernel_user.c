/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A user of verbs in the kernel, for cases that are rare with other users.
 *
 * A word written to /sys/kernel/debug/kernel_user/run starts a test with the
 * first fakernic, until that is removed or "end" is written:
 *
 *   wait   Queue pairs with pending work use CQs of every vector and kind,
 *          while CQs are created and destroyed on each CPU. After the death of
 *          the device more work is posted. All of it must be flushed, once.
 *   visit  The flush of a CQ at the device's death is stopped. The CQ is
 *          destroyed at the same time, which must wait for the flush.
 *   last   A poller that finds a CQ empty is stopped. The device completes work
 *          there and dies.
 *   late   A poller is stopped before it reports that it is done. The device
 *          dies, and the poller is notified to poll again.
 *   deep   CQs of the maximum length, and the memory that rings use.
 *   full   SQ, RQ and SRQ of the maximum depth, filled and emptied. Receives
 *          are posted to a queue pair that has an SRQ.
 *   make   One object of each kind is created, changed and destroyed.
 *
 * A read returns the results as names and numbers.
 */
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define PORT 1
#define GID_INDEX 0                 /* of its link-local address */
#define NOBODY 0xfffff0             /* a number that no queue pair has */
#define KINDS (IB_POLL_DIRECT + 1)
#define VECTORS 8
#define WAITING 16                  /* of each queue */
#define AGAIN 200                   /* so often the dead device gets more */
#define BATCH 64                    /* CQs that are made, then destroyed */
#define HELD_MS 500
#define ASKED_MS 10000
#define DOORBELL 0x054              /* of the command queue, in BAR 0 */
#define DEADLY 0x7fffffff           /* beyond its ring */
#define DEATH_MS 5000
#define SHELL_MS 1000               /* until whoever said "run" is gone */
#define SETTLE_MS 300               /* until what is flushed is complete */
#define SHALLOW_LOG 13
#define SHALLOW_CQS 32
#define DEEP_LOG 17
#define CQE_SIZE 64
#define BURST 1024                  /* completions, before they are polled */
#define CHAIN 64
#define PAGES 512                   /* of a region: a page of their addresses */
#define SILENCE_MS 20000            /* between two completions: no more come */

enum counter {
    QUEUES, VECTORS_USED, POSTED, FLUSHED, OTHERWISE, TWICE, REFUSED, AGAINS,
    CHURNED, HELD, ASKED, EARLY, DIED, FREED, DEEPEST, NEEDED_KIB, TAKEN_KIB,
    DEEP, POLLED, DISORDERED, MAX_QP_WR, MAX_SRQ_WR, SENDS, RECVS, SHARED,
    SENT, RECEIVED, COUNTERS
};

static const char *const names[COUNTERS] = {
    "queues", "vectors", "posted", "flushed", "otherwise", "twice", "refused",
    "agains", "churned", "held", "asked", "early", "died", "freed", "deepest",
    "needed_kib", "taken_kib", "deep", "polled", "disordered", "max_qp_wr",
    "max_srq_wr", "sends", "recvs", "shared", "sent", "received"
};

struct item {
    struct ib_cqe cqe;
    int posted;
};

struct queue {
    struct ib_cq *cq;
    struct ib_qp *qp;
    struct item sends[WAITING], recvs[WAITING];
};

static DEFINE_MUTEX(lock);          /* all but the counters */
static atomic_t counters[COUNTERS];
static struct ib_device *device;
static struct ib_pd *pd;
static struct queue *queues;
static int queue_count;
static struct task_struct *poller, *churners[NR_CPUS];
static struct dentry *folder;

static void count(enum counter which)
{
    atomic_inc(&counters[which]);
}

static void set(enum counter which, int value)
{
    atomic_set(&counters[which], value);
}

static int get(enum counter which)
{
    return atomic_read(&counters[which]);
}

/* ---- queue pairs --------------------------------------------------------- */

static struct ib_qp *make_qp(struct ib_cq *cq, u32 depth)
{
    struct ib_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq,
        .cap = { .max_send_wr = depth, .max_recv_wr = depth,
                 .max_send_sge = 1, .max_recv_sge = 1 },
        .sq_sig_type = IB_SIGNAL_ALL_WR, .qp_type = IB_QPT_RC,
    };

    return ib_create_qp(pd, &attr);
}

static int to_init(struct ib_qp *qp)
{
    struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = PORT };

    return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
                        IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

static int to_error(struct ib_qp *qp)
{
    struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

    return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

/* To a queue pair of this device. An absent peer never answers. */
static int connect(struct ib_qp *qp, u32 peer)
{
    struct ib_qp_attr attr = {
        .qp_state = IB_QPS_RTR, .path_mtu = IB_MTU_1024,
        .dest_qp_num = peer, .max_dest_rd_atomic = 1,
    };
    union ib_gid gid;
    int ret;

    ret = rdma_query_gid(device, PORT, GID_INDEX, &gid);
    if (ret) {
        return ret;
    }
    attr.ah_attr.type = rdma_ah_find_type(device, PORT);
    rdma_ah_set_port_num(&attr.ah_attr, PORT);
    rdma_ah_set_grh(&attr.ah_attr, &gid, 0, GID_INDEX, 64, 0);
    ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
                       IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MIN_RNR_TIMER |
                       IB_QP_MAX_DEST_RD_ATOMIC);
    if (ret) {
        return ret;
    }
    attr = (struct ib_qp_attr) { .qp_state = IB_QPS_RTS };
    return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
                        IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
                        IB_QP_MAX_QP_RD_ATOMIC);
}

/* ---- work that waits ----------------------------------------------------- */

static void done(struct ib_cq *cq, struct ib_wc *wc)
{
    struct item *item = container_of(wc->wr_cqe, struct item, cqe);

    if (wc->status != IB_WC_WR_FLUSH_ERR) {
        count(OTHERWISE);
    }
    count(cmpxchg(&item->posted, 1, 0) ? FLUSHED : TWICE);
}

/* Unless it still waits: whether it is posted now. */
static bool post_item(struct queue *queue, struct item *item, bool send)
{
    struct ib_send_wr send_wr = { .wr_cqe = &item->cqe, .opcode = IB_WR_SEND };
    struct ib_recv_wr recv_wr = { .wr_cqe = &item->cqe };
    int ret;

    if (cmpxchg(&item->posted, 0, 1)) {
        return false;
    }
    item->cqe.done = done;
    count(POSTED);
    ret = send ? ib_post_send(queue->qp, &send_wr, NULL) :
                 ib_post_recv(queue->qp, &recv_wr, NULL);
    if (ret) {
        count(REFUSED);
    }
    return true;
}

static void post_all(struct queue *queue)
{
    int i;

    for (i = 0; i < WAITING; i++) {
        post_item(queue, &queue->recvs[i], false);
        post_item(queue, &queue->sends[i], true);
    }
}

static int open_queue(int vector, enum ib_poll_context kind)
{
    struct queue *queue = &queues[queue_count];
    struct ib_cq *cq;
    struct ib_qp *qp;
    int ret;

    cq = ib_alloc_cq(device, queue, 2 * (WAITING + 1), vector, kind);
    if (IS_ERR(cq)) {
        return PTR_ERR(cq);
    }
    qp = make_qp(cq, WAITING + 1);
    if (IS_ERR(qp)) {
        ib_free_cq(cq);
        return PTR_ERR(qp);
    }
    queue->cq = cq;
    queue->qp = qp;
    queue_count++;
    ret = to_init(qp) ?: connect(qp, NOBODY);
    if (!ret) {
        post_all(queue);
    }
    return ret;
}

/* Polls the CQs that nobody else does; the dead get more work. */
static int poll(void *argument)
{
    unsigned int next = 0;
    bool is_posted;
    int i;

    while (!kthread_should_stop()) {
        for (i = 0; i < queue_count; i++) {
            if (queues[i].cq->poll_ctx == IB_POLL_DIRECT) {
                ib_process_cq_direct(queues[i].cq, WAITING);
            }
        }
        if (get(FLUSHED) && get(AGAINS) < AGAIN) {
            struct queue *queue = &queues[next++ % queue_count];

            is_posted = post_item(queue, &queue->recvs[0], false);
            is_posted |= post_item(queue, &queue->sends[0], true);
            if (is_posted) {
                count(AGAINS);
            }
        }
        usleep_range(500, 1000);
    }
    return 0;
}

static void unheeded(struct ib_cq *cq, struct ib_wc *wc)
{
}

static struct ib_cqe nobodys = { .done = unheeded };

/* Every third one has a queue pair that waits. */
static struct ib_cq *make_cq(unsigned int number, struct ib_qp **qp)
{
    struct ib_recv_wr wr = { .wr_cqe = &nobodys };
    struct ib_cq *cq;

    cq = ib_alloc_cq(device, NULL, 4, number / KINDS, number % KINDS);
    if (IS_ERR(cq)) {
        return NULL;
    }
    *qp = number % 3 ? NULL : make_qp(cq, 1);
    if (IS_ERR(*qp)) {
        *qp = NULL;
    }
    if (*qp && !to_init(*qp)) {
        ib_post_recv(*qp, &wr, NULL);
    }
    return cq;
}

static int churn(void *argument)
{
    struct ib_cq *cqs[BATCH];
    struct ib_qp *qps[BATCH];
    unsigned int number = 0;
    int n;

    while (!kthread_should_stop()) {
        for (n = 0; n < BATCH; n++) {
            cqs[n] = make_cq(number++, &qps[n]);
            if (!cqs[n]) {
                break;
            }
        }
        /* At a death those that are there last a while. */
        while (n--) {
            if (qps[n]) {
                ib_destroy_qp(qps[n]);
            }
            ib_free_cq(cqs[n]);
            count(CHURNED);
            if (get(FLUSHED)) {
                usleep_range(500, 1500);
            }
        }
        usleep_range(500, 1000);
    }
    return 0;
}

static int start_threads(void)
{
    int cpu;

    poller = kthread_run(poll, NULL, "kernel_user");
    if (IS_ERR(poller)) {
        return PTR_ERR(xchg(&poller, NULL));
    }
    for_each_online_cpu(cpu) {
        struct task_struct *task;

        task = kthread_create_on_cpu(churn, NULL, cpu, "churn/%u");
        if (IS_ERR(task)) {
            return PTR_ERR(task);
        }
        churners[cpu] = task;
        wake_up_process(task);
    }
    return 0;
}

static int wait(void)
{
    int vector, kind, ret;

    queues = kvcalloc(VECTORS * KINDS, sizeof(*queues), GFP_KERNEL);
    if (!queues) {
        return -ENOMEM;
    }
    set(VECTORS_USED, min(device->num_comp_vectors, VECTORS));
    for (vector = 0; vector < get(VECTORS_USED); vector++) {
        for (kind = 0; kind < KINDS; kind++) {
            ret = open_queue(vector, kind);
            if (ret) {
                return ret;
            }
        }
    }
    set(QUEUES, queue_count);
    return start_threads();
}

/* As any user does. */
static void stop_waiting(void)
{
    int i;

    for (i = 0; i < NR_CPUS; i++) {
        if (churners[i]) {
            kthread_stop(churners[i]);
            churners[i] = NULL;
        }
    }
    if (poller) {
        kthread_stop(poller);
        poller = NULL;
    }
    while (queue_count) {
        struct queue *queue = &queues[--queue_count];

        ib_drain_qp(queue->qp);
        ib_destroy_qp(queue->qp);
        ib_free_cq(queue->cq);
    }
    kvfree(queues);
    queues = NULL;
}

/* ---- a CQ that goes while it is visited ---------------------------------- */

static struct ib_cq *visited;
static size_t visited_size;

static void destroy_visited(struct work_struct *work)
{
    set(ASKED, 1);
    ib_free_cq(visited);
    set(FREED, 1);
}

static DECLARE_WORK(destroy_work, destroy_visited);

static void await(enum counter which, int milliseconds)
{
    int i;

    for (i = 0; i < 10 * milliseconds && !get(which); i++) {
        udelay(100);
    }
}

/* The driver has found a CQ, and is about to look at it: so do others. */
static int found(struct kretprobe_instance *instance, struct pt_regs *regs)
{
    unsigned long what = regs_return_value(regs);
    unsigned long cq = (unsigned long)visited;
    unsigned int other;

    if (what < cq || what >= cq + visited_size ||
        !within_module(get_kretprobe_retaddr(instance), device->ops.owner) ||
        atomic_cmpxchg(&counters[HELD], 0, 1)) {
        return 0;
    }
    other = cpumask_any_but(cpu_online_mask, smp_processor_id());
    queue_work_on(other, system_highpri_wq, &destroy_work);
    await(ASKED, ASKED_MS);
    await(FREED, HELD_MS);
    set(EARLY, get(FREED));
    return 0;
}

static struct kretprobe visits[] = {
    { .kp.symbol_name = "xa_find", .handler = found, .maxactive = 64 },
    { .kp.symbol_name = "xa_find_after", .handler = found, .maxactive = 64 },
};

static int visit(void)
{
    int i, ret = 0;

    if (num_online_cpus() < 2 || device->num_comp_vectors < 2) {
        return -ENODEV;
    }
    /* Not of the first vector, with which visitors begin. */
    visited = ib_alloc_cq(device, NULL, 4, 1, IB_POLL_DIRECT);
    if (IS_ERR(visited)) {
        return PTR_ERR(xchg(&visited, NULL));
    }
    visited_size = ksize(visited);
    for (i = 0; i < ARRAY_SIZE(visits) && !ret; i++) {
        ret = register_kretprobe(&visits[i]);
    }
    return ret;
}

static void end_visit(void)
{
    int i;

    if (!visited) {
        return;
    }
    for (i = 0; i < ARRAY_SIZE(visits); i++) {
        unregister_kretprobe(&visits[i]);
    }
    flush_work(&destroy_work);
    if (!get(FREED)) {
        ib_free_cq(visited);
    }
    visited = NULL;
}

/* ---- a death during a poll ----------------------------------------------- */

static void __iomem *doorbell;
static unsigned long begins;        /* the first caller after this is stopped */
static bool completes;              /* pending work, before the death */

/*
 * Waits until the driver knows and has notified the pollers. The CPU of the
 * stopped caller takes no interrupts, so nothing here may need all CPUs.
 */
static void die(struct work_struct *work)
{
    struct ib_qp_init_attr init;
    struct ib_qp_attr attr;
    int i;

    if (completes && !to_error(queues[0].qp)) {
        msleep(SETTLE_MS);
    }
    writel(DEADLY, doorbell);
    for (i = 0; i < DEATH_MS / 10 && !get(DIED); i++) {
        set(DIED, !!ib_query_qp(queues[0].qp, &attr, IB_QP_STATE, &init));
        msleep(10);
    }
    for (i = 0; i < DEATH_MS / 10 && !completes && !get(ASKED); i++) {
        msleep(10);
    }
    set(FREED, 1);
}

static DECLARE_WORK(death_work, die);

/*
 * Stops the first caller until the device has died on another CPU. A process
 * that exits needs interrupts on its CPUs, so a caller is only stopped after
 * the shell that started the test has exited.
 */
static void hold(void)
{
    unsigned int other;

    if (time_before(jiffies, READ_ONCE(begins)) ||
        atomic_cmpxchg(&counters[HELD], 0, 1)) {
        return;
    }
    other = cpumask_any_but(cpu_online_mask, smp_processor_id());
    queue_work_on(other, system_highpri_wq, &death_work);
    await(FREED, 3 * DEATH_MS);
    set(EARLY, !get(FREED));
}

static bool is_first(struct pt_regs *regs)
{
    return regs_get_kernel_argument(regs, 0) ==
           (unsigned long)&queues[0].cq->iop;
}

static int found_empty(struct kretprobe_instance *instance,
                       struct pt_regs *regs)
{
    if (current == READ_ONCE(poller) && !regs_return_value(regs)) {
        hold();
    }
    return 0;
}

static int has_polled(struct kprobe *probe, struct pt_regs *regs)
{
    if (is_first(regs)) {
        hold();
    }
    return 0;
}

static int is_told_to_poll(struct kprobe *probe, struct pt_regs *regs)
{
    if (is_first(regs) && get(HELD)) {
        set(ASKED, 1);
    }
    return 0;
}

static struct kretprobe peek = {
    .kp.symbol_name = "fakernic_cq_hw_peek", .handler = found_empty,
};
static struct kprobe polled = {
    .symbol_name = "irq_poll_complete", .pre_handler = has_polled,
};
static struct kprobe told = {
    .symbol_name = "irq_poll_sched", .pre_handler = is_told_to_poll,
};
static bool peek_is_probed, polled_is_probed, told_is_probed;

static int poll_first(void *argument)
{
    while (!kthread_should_stop()) {
        ib_process_cq_direct(queues[0].cq, 2 * WAITING);
        usleep_range(500, 1000);
    }
    return 0;
}

/* As if there had been an event: its softirq runs here, and once. */
static int poll_once(void *argument)
{
    struct ib_cq *cq = queues[0].cq;

    msleep(2 * SHELL_MS);
    local_bh_disable();
    cq->comp_handler(cq, cq->cq_context);
    local_bh_enable();
    while (!kthread_should_stop()) {
        usleep_range(500, 1000);
    }
    return 0;
}

/* The last CPU's time is not everybody's. */
static int start_poller(int (*function)(void *argument))
{
    struct task_struct *task;

    task = kthread_create_on_cpu(function, NULL,
                                 cpumask_last(cpu_online_mask), "poller/%u");
    if (IS_ERR(task)) {
        return PTR_ERR(task);
    }
    WRITE_ONCE(poller, task);
    wake_up_process(task);
    return 0;
}

static int open_first(enum ib_poll_context kind)
{
    struct pci_dev *pdev = to_pci_dev(device->dev.parent);

    if (num_online_cpus() < 2) {
        return -ENODEV;
    }
    WRITE_ONCE(begins, jiffies + msecs_to_jiffies(SHELL_MS));
    doorbell = ioremap(pci_resource_start(pdev, 0) + DOORBELL, 4);
    queues = kvcalloc(1, sizeof(*queues), GFP_KERNEL);
    return doorbell && queues ? open_queue(0, kind) : -ENOMEM;
}

static int last(void)
{
    int ret = open_first(IB_POLL_DIRECT) ?: register_kretprobe(&peek);

    if (ret) {
        return ret;
    }
    peek_is_probed = true;
    completes = true;
    return start_poller(poll_first);
}

static int late(void)
{
    int ret = open_first(IB_POLL_SOFTIRQ) ?: register_kprobe(&polled);

    if (ret) {
        return ret;
    }
    polled_is_probed = true;
    ret = register_kprobe(&told);
    if (ret) {
        return ret;
    }
    told_is_probed = true;
    completes = false;
    return start_poller(poll_once);
}

/* Nobody is held up any more; the queue is still there. */
static void end_hold(void)
{
    if (peek_is_probed) {
        unregister_kretprobe(&peek);
    }
    if (polled_is_probed) {
        unregister_kprobe(&polled);
    }
    if (told_is_probed) {
        unregister_kprobe(&told);
    }
    peek_is_probed = polled_is_probed = told_is_probed = false;
    flush_work(&death_work);
    if (doorbell) {
        iounmap(doorbell);
        doorbell = NULL;
    }
}

/* ---- long CQs ------------------------------------------------------------ */

static long free_kib(void)
{
    struct sysinfo info;

    si_meminfo(&info);
    return info.freeram << (PAGE_SHIFT - 10);
}

static int weigh(void)
{
    struct ib_cq *cqs[SHALLOW_CQS];
    long before = free_kib();
    int n = 0, ret = 0;

    while (n < SHALLOW_CQS && !ret) {
        cqs[n] = ib_alloc_cq(device, NULL, 1 << SHALLOW_LOG, 0,
                             IB_POLL_DIRECT);
        ret = PTR_ERR_OR_ZERO(cqs[n]);
        n += !ret;
    }
    set(NEEDED_KIB, n * (CQE_SIZE << SHALLOW_LOG >> 10));
    set(TAKEN_KIB, before - free_kib());
    while (n) {
        ib_free_cq(cqs[--n]);
    }
    return ret;
}

static struct item burst[BURST];

static void in_order(struct ib_cq *cq, struct ib_wc *wc)
{
    struct item *item = container_of(wc->wr_cqe, struct item, cqe);

    if (item != &burst[get(POLLED) % BURST] ||
        wc->status != IB_WC_WR_FLUSH_ERR) {
        count(DISORDERED);
    }
    count(POLLED);
}

static int post_chain(struct ib_qp *qp, int first)
{
    static struct ib_send_wr wrs[CHAIN];
    int i;

    for (i = 0; i < CHAIN; i++) {
        struct item *item = &burst[first + i];

        item->cqe.done = in_order;
        wrs[i] = (struct ib_send_wr) {
            .wr_cqe = &item->cqe, .opcode = IB_WR_SEND,
            .next = i + 1 < CHAIN ? &wrs[i + 1] : NULL,
        };
    }
    return ib_post_send(qp, wrs, NULL);
}

/* Completions until they have gone round the ring, twice. */
static int go_round(struct ib_cq *cq, struct ib_qp *qp)
{
    int i, ret, posted = 0;

    ret = to_init(qp) ?: to_error(qp);
    while (!ret && posted < 2 * cq->cqe + BURST) {
        for (i = 0; i < BURST && !ret; i += CHAIN) {
            ret = post_chain(qp, i);
        }
        posted += BURST;
        for (i = 0; i < 100000 && get(POLLED) < posted && !ret; i++) {
            ib_process_cq_direct(cq, BURST);
            usleep_range(50, 100);
        }
        if (get(POLLED) != posted) {
            ret = ret ?: -ETIMEDOUT;
        }
    }
    return ret;
}

static int deep(void)
{
    struct ib_cq *cq;
    struct ib_qp *qp;
    int ret;

    cq = ib_alloc_cq(device, NULL, device->attrs.max_cqe, 0, IB_POLL_DIRECT);
    if (IS_ERR(cq)) {
        return PTR_ERR(cq);
    }
    set(DEEPEST, cq->cqe);
    ib_free_cq(cq);
    ret = weigh();
    if (ret) {
        return ret;
    }
    cq = ib_alloc_cq(device, NULL, 1 << DEEP_LOG, 0, IB_POLL_DIRECT);
    if (IS_ERR(cq)) {
        return PTR_ERR(cq);
    }
    set(DEEP, cq->cqe);
    qp = make_qp(cq, BURST);
    ret = PTR_ERR_OR_ZERO(qp);
    if (!ret) {
        ret = go_round(cq, qp);
        ib_destroy_qp(qp);
    }
    ib_free_cq(cq);
    return ret;
}

/* ---- deep queues --------------------------------------------------------- */

static void sent(struct ib_cq *cq, struct ib_wc *wc)
{
    if (wc->status) {
        count(DISORDERED);
    }
    count(SENT);
}

static void received(struct ib_cq *cq, struct ib_wc *wc)
{
    struct item *item = container_of(wc->wr_cqe, struct item, cqe);

    if (wc->status || !item->posted) {
        count(DISORDERED);
    }
    item->posted = 0;
    count(RECEIVED);
}

/* Posts up to ROOM receives; returns how many were accepted, or an error. */
static int fill(struct ib_qp *qp, struct ib_srq *srq, struct item *items,
                int room)
{
    int n, ret;

    for (n = 0; n < room; n++) {
        struct ib_recv_wr wr = { .wr_cqe = &items[n].cqe };

        items[n].cqe.done = received;
        items[n].posted = 1;
        ret = srq ? ib_post_srq_recv(srq, &wr, NULL) :
                    ib_post_recv(qp, &wr, NULL);
        if (ret) {
            items[n].posted = 0;
            return ret == -ENOMEM ? n : ret;
        }
    }
    return n;
}

/* Posts as many sends as the queue accepts, up to MESSAGES in total. */
static int post_sends(struct ib_qp *qp, int posted, int messages)
{
    static struct ib_cqe cqe = { .done = sent };
    struct ib_send_wr wr = {
        .wr_cqe = &cqe, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
    };
    int ret = 0;

    while (posted < messages && !ret) {
        ret = ib_post_send(qp, &wr, NULL);
        posted += !ret;
    }
    return ret && ret != -ENOMEM ? ret : posted;
}

/* To itself. The first time nothing is polled before the queue is full. */
static int send_to_itself(struct ib_cq *cq, struct ib_qp *qp, int messages)
{
    int sent_before = get(SENT), received_before = get(RECEIVED);
    unsigned long deadline = jiffies + msecs_to_jiffies(SILENCE_MS);
    int posted = 0;

    while (get(SENT) - sent_before < messages ||
           get(RECEIVED) - received_before < messages) {
        posted = post_sends(qp, posted, messages);
        if (posted < 0) {
            return posted;
        }
        if (!get(SENDS) && posted < messages) {
            set(SENDS, posted);
        }
        if (ib_process_cq_direct(cq, BURST)) {
            deadline = jiffies + msecs_to_jiffies(SILENCE_MS);
        } else if (time_after(jiffies, deadline)) {
            return -ETIMEDOUT;
        }
        cond_resched();
    }
    return 0;
}

static int fill_and_empty(struct ib_cq *cq, struct ib_qp *qp,
                          struct ib_srq *srq, enum counter taken, int room)
{
    struct item *items = kvcalloc(room, sizeof(*items), GFP_KERNEL);
    int ret;

    if (!items) {
        return -ENOMEM;
    }
    ret = to_init(qp);
    if (!ret) {
        ret = fill(qp, srq, items, room);
        set(taken, ret);
    }
    if (ret > 0) {
        ret = connect(qp, qp->qp_num) ?: send_to_itself(cq, qp, ret);
    }
    ib_destroy_qp(qp);
    kvfree(items);
    return ret;
}

static int full_shared(struct ib_cq *cq)
{
    struct ib_srq_init_attr srq_attr = {
        .attr = { .max_wr = device->attrs.max_srq_wr, .max_sge = 1 },
        .srq_type = IB_SRQT_BASIC,
    };
    struct ib_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq, .sq_sig_type = IB_SIGNAL_REQ_WR,
        .cap = { .max_send_wr = device->attrs.max_qp_wr, .max_send_sge = 1,
                 .max_recv_wr = U32_MAX, .max_recv_sge = U32_MAX },
        .qp_type = IB_QPT_RC,
    };
    struct ib_srq *srq = ib_create_srq(pd, &srq_attr);
    struct ib_qp *qp;
    int ret;

    if (IS_ERR(srq)) {
        return PTR_ERR(srq);
    }
    attr.srq = srq;
    qp = ib_create_qp(pd, &attr);
    ret = IS_ERR(qp) ? PTR_ERR(qp) :
          fill_and_empty(cq, qp, srq, SHARED, device->attrs.max_srq_wr + 1);
    ib_destroy_srq(srq);
    return ret;
}

static int full(void)
{
    struct ib_cq *cq;
    struct ib_qp *qp;
    int ret;

    set(MAX_QP_WR, device->attrs.max_qp_wr);
    set(MAX_SRQ_WR, device->attrs.max_srq_wr);
    cq = ib_alloc_cq(device, NULL, 2 * device->attrs.max_srq_wr, 0,
                     IB_POLL_DIRECT);
    if (IS_ERR(cq)) {
        return PTR_ERR(cq);
    }
    qp = make_qp(cq, device->attrs.max_qp_wr);
    ret = IS_ERR(qp) ? PTR_ERR(qp) :
          fill_and_empty(cq, qp, NULL, RECVS, device->attrs.max_qp_wr + 1);
    ret = ret ?: full_shared(cq);
    ib_free_cq(cq);
    return ret;
}

/* ---- one of each --------------------------------------------------------- */

struct made {
    struct ib_cq *cq;
    struct ib_mr *mr;
    struct ib_srq *srq;
    struct ib_qp *qp;
    struct ib_ah *ah;
};

static int make_mr(struct made *made)
{
    struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, PAGES);

    if (IS_ERR(mr)) {
        return PTR_ERR(mr);
    }
    made->mr = mr;
    return 0;
}

static int make_softirqs_cq(struct made *made)
{
    struct ib_cq *cq = ib_alloc_cq(device, NULL, WAITING, 0, IB_POLL_SOFTIRQ);

    if (IS_ERR(cq)) {
        return PTR_ERR(cq);
    }
    made->cq = cq;
    return rdma_set_cq_moderation(cq, WAITING, 1);
}

static int make_srq(struct made *made)
{
    struct ib_srq_init_attr attr = {
        .attr = { .max_wr = WAITING, .max_sge = 1 },
        .srq_type = IB_SRQT_BASIC,
    };
    struct ib_srq_attr limit = { .srq_limit = 1 };
    struct ib_srq *srq = ib_create_srq(pd, &attr);

    if (IS_ERR(srq)) {
        return PTR_ERR(srq);
    }
    made->srq = srq;
    return ib_modify_srq(srq, &limit, IB_SRQ_LIMIT) ?:
           ib_query_srq(srq, &limit);
}

static int make_srqs_qp(struct made *made)
{
    struct ib_qp_init_attr attr = {
        .send_cq = made->cq, .recv_cq = made->cq, .srq = made->srq,
        .cap = { .max_send_wr = WAITING, .max_send_sge = 1 },
        .qp_type = IB_QPT_RC,
    };
    struct ib_qp_attr state;
    struct ib_qp *qp = ib_create_qp(pd, &attr);

    if (IS_ERR(qp)) {
        return PTR_ERR(qp);
    }
    made->qp = qp;
    return to_init(qp) ?: connect(qp, qp->qp_num) ?:
           ib_query_qp(qp, &state, IB_QP_STATE, &attr);
}

static int make_ah(struct made *made)
{
    struct rdma_ah_attr attr = { .type = rdma_ah_find_type(device, PORT) };
    union ib_gid gid;
    struct ib_ah *ah;
    int ret = rdma_query_gid(device, PORT, GID_INDEX, &gid);

    if (ret) {
        return ret;
    }
    rdma_ah_set_port_num(&attr, PORT);
    rdma_ah_set_grh(&attr, &gid, 0, GID_INDEX, 64, 0);
    ah = rdma_create_ah(pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
    if (IS_ERR(ah)) {
        return PTR_ERR(ah);
    }
    made->ah = ah;
    return 0;
}

static int make(void)
{
    struct made made = {};
    int ret = make_mr(&made) ?: make_softirqs_cq(&made) ?:
              make_srq(&made) ?: make_srqs_qp(&made) ?: make_ah(&made);

    if (made.ah) {
        rdma_destroy_ah(made.ah, RDMA_DESTROY_AH_SLEEPABLE);
    }
    if (made.qp) {
        ib_destroy_qp(made.qp);
    }
    if (made.srq) {
        ib_destroy_srq(made.srq);
    }
    if (made.cq) {
        ib_free_cq(made.cq);
    }
    if (made.mr) {
        ib_dereg_mr(made.mr);
    }
    return ret;
}

/* ---- what is to be done, and what came of it ----------------------------- */

/* What is counted stays. */
static void end(void)
{
    end_hold();
    stop_waiting();
    end_visit();
    if (pd) {
        ib_dealloc_pd(pd);
        pd = NULL;
    }
}

static int begin(int (*what)(void))
{
    int i, ret;

    if (!device) {
        return -ENODEV;
    }
    for (i = 0; i < COUNTERS; i++) {
        set(i, 0);
    }
    pd = ib_alloc_pd(device, 0);
    if (IS_ERR(pd)) {
        return PTR_ERR(xchg(&pd, NULL));
    }
    ret = what();
    if (ret) {
        end();
    }
    return ret;
}

static ssize_t run_write(struct file *file, const char __user *from,
                         size_t size, loff_t *offset)
{
    char word[16] = "";
    int ret = -EINVAL;

    if (size >= sizeof(word) || copy_from_user(word, from, size)) {
        return -EINVAL;
    }
    mutex_lock(&lock);
    end();
    if (sysfs_streq(word, "end")) {
        ret = 0;
    } else if (sysfs_streq(word, "wait")) {
        ret = begin(wait);
    } else if (sysfs_streq(word, "visit")) {
        ret = begin(visit);
    } else if (sysfs_streq(word, "last")) {
        ret = begin(last);
    } else if (sysfs_streq(word, "late")) {
        ret = begin(late);
    } else if (sysfs_streq(word, "deep")) {
        ret = begin(deep);
    } else if (sysfs_streq(word, "full")) {
        ret = begin(full);
    } else if (sysfs_streq(word, "make")) {
        ret = begin(make);
    }
    mutex_unlock(&lock);
    return ret ?: size;
}

static int run_show(struct seq_file *file, void *unused)
{
    int i;

    for (i = 0; i < COUNTERS; i++) {
        seq_printf(file, "%s %d\n", names[i], get(i));
    }
    return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
    return single_open(file, run_show, NULL);
}

static const struct file_operations run_file = {
    .owner = THIS_MODULE,
    .open = run_open,
    .read = seq_read,
    .write = run_write,
    .llseek = seq_lseek,
    .release = single_release,
};

static int client_add(struct ib_device *added)
{
    mutex_lock(&lock);
    if (!device && !strncmp(dev_name(&added->dev), "fakernic", 8)) {
        device = added;
    }
    mutex_unlock(&lock);
    return 0;
}

static void client_remove(struct ib_device *removed, void *unused)
{
    mutex_lock(&lock);
    if (device == removed) {
        end();
        device = NULL;
    }
    mutex_unlock(&lock);
}

static struct ib_client client = {
    .name = "kernel_user", .add = client_add, .remove = client_remove,
};

static int __init kernel_user_init(void)
{
    int ret = ib_register_client(&client);

    if (ret) {
        return ret;
    }
    folder = debugfs_create_dir("kernel_user", NULL);
    debugfs_create_file("run", 0600, folder, NULL, &run_file);
    return 0;
}
module_init(kernel_user_init);

static void __exit kernel_user_exit(void)
{
    debugfs_remove(folder);
    ib_unregister_client(&client);
}
module_exit(kernel_user_exit);

MODULE_DESCRIPTION("A user of verbs in the kernel");
MODULE_LICENSE("GPL");
