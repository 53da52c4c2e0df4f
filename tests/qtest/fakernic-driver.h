/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver for the fakernic device in a qtest: bring-up, commands, queues,
 * interrupts. It uses only names of the hardware interface. Guest memory comes
 * from the libqos allocator. MSI-X messages are stores to guest memory.
 */
#ifndef FAKERNIC_DRIVER_H
#define FAKERNIC_DRIVER_H

#include "qemu/bswap.h"
#include "libqtest.h"
#include "libqos/pci.h"
#include "libqos/pci-pc.h"
#include "libqos/malloc-pc.h"
#include "standard-headers/linux/pci_regs.h"

#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/eq.h"
#include "fakernic/mr.h"
#include "fakernic/regs.h"
#include "fakernic/rq.h"
#include "fakernic/sq.h"
#include "fakernic/stats.h"
#include "fakernic/wq.h"

#define LE16 cpu_to_le16
#define LE32 cpu_to_le32
#define LE64 cpu_to_le64

/* A q35 machine with one or two devices. */
typedef struct Machine {
    QTestState *qts;
    QGuestAllocator alloc;
    QPCIBus *bus;
} Machine;

typedef struct Nic {
    Machine *m;
    QPCIDevice *pci;
    QPCIBar regs;
    QPCIBar uar;
    uint64_t cmd_sq, cmd_cq;
    unsigned cmd_log_depth;
    uint32_t cmd_pi;
    uint32_t detail;            /* of the last command */
    uint64_t msi;               /* a word per vector */
    uint64_t features;
} Nic;

/* A queue in guest memory, contiguous. */
typedef struct Queue {
    uint64_t address;
    uint32_t depth;
    uint32_t entry;             /* bytes */
    uint32_t id;
    uint32_t index;             /* pi or ci, as the host keeps it */
} Queue;

typedef struct Qp {
    uint32_t qpn;
    Queue sq, rq;
    Queue *cq;
    uint32_t uar;
} Qp;

/* ---- machine --------------------------------------------------------- */

/* No firmware runs in a qtest, but the machine needs a file. */
static inline char *machine_bios(void)
{
    static const char zeros[65536];
    char *path = g_strdup("/tmp/fakernic-qtest-XXXXXX");
    int fd = g_mkstemp(path);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, zeros, sizeof(zeros)), ==, sizeof(zeros));
    close(fd);
    return path;
}

/*
 * The options without the device properties that FAKERNIC_QTEST_WITHOUT names.
 * An older build of the device lacks these properties.
 */
static inline char *machine_options(const char *options)
{
    const char *names = getenv("FAKERNIC_QTEST_WITHOUT");
    g_autofree char *pattern = NULL;
    g_autoptr(GRegex) regex = NULL;

    if (!names) {
        return g_strdup(options);
    }
    /* A quoted value may contain blanks. */
    pattern = g_strdup_printf(",(%s)=('[^']*'|[^, ]*)", names);
    regex = g_regex_new(pattern, 0, 0, NULL);
    g_assert_nonnull(regex);
    return g_regex_replace_literal(regex, options, -1, 0, "", 0, NULL);
}

G_GNUC_PRINTF(2, 3)
static inline void machine_start(Machine *m, const char *fmt, ...)
{
    g_autofree char *bios = machine_bios();
    g_autofree char *all = NULL, *args = NULL;
    va_list ap;

    va_start(ap, fmt);
    all = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    args = machine_options(all);
    m->qts = qtest_initf("-machine q35 -nodefaults -bios %s "
                         "-global apic-common.vapic=off %s", bios, args);
    unlink(bios);
    pc_alloc_init(&m->alloc, m->qts, 0);
    m->bus = qpci_new_pc(m->qts, &m->alloc);
}

static inline void machine_stop(Machine *m)
{
    qpci_free_pc(m->bus);
    alloc_destroy(&m->alloc);
    qtest_quit(m->qts);
}

/* Zeroed, page aligned. */
static inline uint64_t mem_alloc(Machine *m, size_t size)
{
    uint64_t address = guest_alloc(&m->alloc, size);

    qtest_memset(m->qts, address, 0, size);
    return address;
}

/* ---- registers and doorbells ----------------------------------------- */

static inline uint32_t reg_read(Nic *n, uint32_t reg)
{
    return qtest_readl(n->m->qts, n->regs.addr + reg);
}

static inline void reg_write(Nic *n, uint32_t reg, uint32_t value)
{
    qtest_writel(n->m->qts, n->regs.addr + reg, value);
}

static inline void ring(Nic *n, uint32_t uar, unsigned place, uint64_t word)
{
    qtest_writeq(n->m->qts, n->uar.addr + uar * FAKERNIC_PAGE_SIZE + place,
                 word);
}

static inline uint64_t doorbell(uint32_t id, uint32_t index)
{
    return FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, id) | index;
}

static inline void nic_find(Nic *n, Machine *m, unsigned slot)
{
    memset(n, 0, sizeof(*n));
    n->m = m;
    n->pci = qpci_device_find(m->bus, QPCI_DEVFN(slot, 0));
    g_assert_nonnull(n->pci);
    qpci_device_enable(n->pci);
    n->regs = qpci_iomap(n->pci, FAKERNIC_BAR_REGS, NULL);
    n->uar = qpci_iomap(n->pci, FAKERNIC_BAR_UAR, NULL);
}

/* ---- interrupts ------------------------------------------------------ */

#define MSI_DATA(vector) (0x5a00 + (vector))

static inline uint64_t msix_entry(Nic *n, unsigned vector)
{
    return n->pci->msix_table_bar.addr + n->pci->msix_table_off +
           vector * PCI_MSIX_ENTRY_SIZE;
}

static inline void msix_mask(Nic *n, unsigned vector, bool mask)
{
    qtest_writel(n->m->qts, msix_entry(n, vector) + PCI_MSIX_ENTRY_VECTOR_CTRL,
                 mask ? PCI_MSIX_ENTRY_CTRL_MASKBIT : 0);
}

/* Unmasks the vectors, which store to guest memory. */
static inline void msix_aim(Nic *n, unsigned vectors)
{
    n->msi = mem_alloc(n->m, FAKERNIC_PAGE_SIZE);
    for (unsigned v = 0; v < vectors; v++) {
        uint64_t entry = msix_entry(n, v);

        qtest_writel(n->m->qts, entry + PCI_MSIX_ENTRY_LOWER_ADDR,
                     n->msi + 4 * v);
        qtest_writel(n->m->qts, entry + PCI_MSIX_ENTRY_UPPER_ADDR, 0);
        qtest_writel(n->m->qts, entry + PCI_MSIX_ENTRY_DATA, MSI_DATA(v));
        msix_mask(n, v, false);
    }
}

static inline void msix_setup(Nic *n)
{
    qpci_msix_enable(n->pci);
    msix_aim(n, FAKERNIC_VECTOR_COUNT);
}

/* Returns whether the vector was raised since the last call. */
static inline bool msix_fired(Nic *n, unsigned vector)
{
    uint64_t word = n->msi + 4 * vector;
    bool fired = qtest_readl(n->m->qts, word) == MSI_DATA(vector);

    qtest_writel(n->m->qts, word, 0);
    return fired;
}

/* ---- bring-up and commands ------------------------------------------- */

/* STATUS without the bit that reports fault rules. */
static inline uint32_t nic_status(Nic *n)
{
    return reg_read(n, FAKERNIC_REG_STATUS) & ~FAKERNIC_STATUS_FAULTS;
}

/* A reset may take many turns. */
static inline void nic_await_reset(Nic *n)
{
    for (unsigned tries = 0; tries < 50000; tries++) {
        if (reg_read(n, FAKERNIC_REG_STATUS) == FAKERNIC_STATUS_READY) {
            return;
        }
        g_usleep(100);
    }
    g_error("the reset does not end");
}

static inline void nic_reset(Nic *n)
{
    reg_write(n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
    nic_await_reset(n);
}

static inline void nic_set_cmdq(Nic *n, uint64_t sq, uint64_t cq,
                                unsigned log_depth)
{
    n->cmd_sq = sq;
    n->cmd_cq = cq;
    n->cmd_log_depth = log_depth;
    n->cmd_pi = 0;
    reg_write(n, FAKERNIC_REG_CMDQ_SQ_LO, sq);
    reg_write(n, FAKERNIC_REG_CMDQ_SQ_HI, sq >> 32);
    reg_write(n, FAKERNIC_REG_CMDQ_CQ_LO, cq);
    reg_write(n, FAKERNIC_REG_CMDQ_CQ_HI, cq >> 32);
    reg_write(n, FAKERNIC_REG_CMDQ_LOG_DEPTH, log_depth);
}

static inline void nic_set_features(Nic *n, uint64_t features)
{
    n->features = features;
    reg_write(n, FAKERNIC_REG_DRIVER_FEATURES_LO, features);
    reg_write(n, FAKERNIC_REG_DRIVER_FEATURES_HI, features >> 32);
}

static inline uint64_t nic_offered(Nic *n)
{
    return reg_read(n, FAKERNIC_REG_FEATURES_LO) |
           (uint64_t)reg_read(n, FAKERNIC_REG_FEATURES_HI) << 32;
}

/* Enables the device with all features. */
static inline void nic_bringup_deep(Nic *n, uint32_t log_depth)
{
    const size_t size = sizeof(struct fakernic_cmd) << log_depth;

    nic_reset(n);
    nic_set_features(n, nic_offered(n));
    nic_set_cmdq(n, mem_alloc(n->m, size), mem_alloc(n->m, size), log_depth);
    if (!n->pci->msix_enabled) {
        msix_setup(n);
    }
    reg_write(n, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
    g_assert_cmphex(nic_status(n), ==,
                    FAKERNIC_STATUS_READY | FAKERNIC_STATUS_ENABLED);
}

/* The command queue has 16 entries. */
static inline void nic_bringup(Nic *n)
{
    nic_bringup_deep(n, 4);
}

static inline void cmd_submit(Nic *n, const struct fakernic_cmd *cmd)
{
    uint32_t place = n->cmd_pi & ((1U << n->cmd_log_depth) - 1);

    qtest_memwrite(n->m->qts, n->cmd_sq + place * sizeof(*cmd), cmd,
                   sizeof(*cmd));
    n->cmd_pi++;
}

static inline void cmd_ring(Nic *n)
{
    reg_write(n, FAKERNIC_REG_CMDQ_DOORBELL, n->cmd_pi);
}

/* Waits for the completion of the command at an index. */
static inline void cmd_wait(Nic *n, uint32_t index,
                            struct fakernic_cmd_completion *completion)
{
    uint32_t place = index & ((1U << n->cmd_log_depth) - 1);
    uint8_t owner = !((index >> n->cmd_log_depth) & 1);

    for (unsigned tries = 0; tries < 5000; tries++) {
        qtest_memread(n->m->qts, n->cmd_cq + place * sizeof(*completion),
                      completion, sizeof(*completion));
        if ((completion->owner & 1) == owner) {
            return;
        }
        g_usleep(1000);
    }
    g_error("command %u was not completed", index);
}

/* Executes one request of 'len' bytes. Returns its status. 'resp' may be
 * NULL. */
static inline uint8_t cmd(Nic *n, uint16_t opcode, const void *req, size_t len,
                          void *resp, size_t resp_len)
{
    struct fakernic_cmd request = {
        .opcode = LE16(opcode),
        .cookie = LE32(0xc0de0000 + n->cmd_pi),
    };
    struct fakernic_cmd_completion completion;
    uint32_t index = n->cmd_pi;

    if (len) {
        memcpy(request.payload, req, len);
    }
    cmd_submit(n, &request);
    cmd_ring(n);
    cmd_wait(n, index, &completion);
    g_assert_cmphex(le32_to_cpu(completion.cookie), ==, 0xc0de0000 + index);
    g_assert_cmphex(le16_to_cpu(completion.opcode), ==, opcode);
    n->detail = le32_to_cpu(completion.detail);
    if (completion.status != FAKERNIC_CMD_OK) {
        for (unsigned i = 0; i < FAKERNIC_CMD_PAYLOAD; i++) {
            g_assert_cmphex(completion.payload[i], ==, 0);
        }
    }
    if (resp) {
        memcpy(resp, completion.payload, resp_len);
    }
    return completion.status;
}

/* For requests given as a structure variable. */
#define CMD(n, opcode, req) \
    cmd(n, FAKERNIC_CMD_ ## opcode, &(req), sizeof(req), NULL, 0)

/* The refused field's offset, as 'detail' names it. */
#define FIELD(type, field) \
    (offsetof(struct fakernic_cmd, payload) + offsetof(struct type, field))

#define assert_status(expression, code) \
    g_assert_cmpuint(expression, ==, FAKERNIC_CMD_ ## code)

#define assert_refused(n, expression, code, type, field) do {               \
        assert_status(expression, code);                                    \
        g_assert_cmpuint((n)->detail, ==, FIELD(type, field));              \
    } while (0)

static inline uint8_t cmd_id(Nic *n, uint16_t opcode, uint32_t id)
{
    struct fakernic_id req = { .id = LE32(id) };

    return cmd(n, opcode, &req, sizeof(req), NULL, 0);
}

/* A command that creates an object and must succeed. Returns its number. */
static inline uint32_t cmd_create(Nic *n, uint16_t opcode, const void *req,
                                  size_t len)
{
    struct fakernic_id resp;

    assert_status(cmd(n, opcode, req, len, &resp, sizeof(resp)), OK);
    return le32_to_cpu(resp.id);
}

static inline uint64_t nic_stat(Nic *n, enum fakernic_stat which)
{
    uint64_t copy = mem_alloc(n->m, FAKERNIC_PAGE_SIZE), value;
    struct fakernic_query_stats_req req = {
        .address = LE64(copy), .length = LE32(FAKERNIC_STAT_COUNT * 8),
    };

    assert_status(CMD(n, QUERY_STATS, req), OK);
    value = qtest_readq(n->m->qts, copy + which * 8);
    guest_free(&n->m->alloc, copy);
    return value;
}

/* Waits for a counter, as frames arrive on the wire at any time. */
static inline void wait_stat(Nic *n, enum fakernic_stat which,
                             uint64_t value)
{
    for (unsigned tries = 0; tries < 5000; tries++) {
        if (nic_stat(n, which) == value) {
            return;
        }
        g_usleep(1000);
    }
    g_error("counter %u is %" PRIu64 ", not %" PRIu64, which,
            nic_stat(n, which), value);
}

/* ---- queues ---------------------------------------------------------- */

static inline struct fakernic_page_list contiguous(uint64_t address,
                                                   size_t bytes)
{
    return (struct fakernic_page_list) {
        .address = LE64(address),
        .page_count = LE32(DIV_ROUND_UP(bytes, FAKERNIC_PAGE_SIZE)),
        .page_shift = FAKERNIC_PAGE_SHIFT,
    };
}

static inline size_t queue_size(unsigned log_depth, unsigned log_entry)
{
    return (1U << (log_depth + log_entry)) +
           sizeof(struct fakernic_queue_record);
}

static inline struct fakernic_page_list
queue_alloc(Nic *n, Queue *q, unsigned log_depth, unsigned log_entry)
{
    size_t bytes = queue_size(log_depth, log_entry);

    *q = (Queue) {
        .address = mem_alloc(n->m, bytes),
        .depth = 1U << log_depth,
        .entry = 1U << log_entry,
    };
    return contiguous(q->address, bytes);
}

static inline uint64_t queue_entry(const Queue *q, uint32_t index)
{
    return q->address + (uint64_t)(index & (q->depth - 1)) * q->entry;
}

static inline void queue_record(Nic *n, const Queue *q, uint32_t index)
{
    qtest_writel(n->m->qts, q->address + (uint64_t)q->depth * q->entry, index);
}

static inline uint8_t queue_owner(const Queue *q)
{
    return !(q->index & q->depth);
}

static inline void eq_create(Nic *n, Queue *eq, unsigned log_depth,
                             unsigned vector, bool async)
{
    struct fakernic_create_eq_req req = {
        .pages = queue_alloc(n, eq, log_depth, 4),
        .log_depth = log_depth,
        .vector = LE16(vector),
        .async = async,
    };

    eq->id = cmd_create(n, FAKERNIC_CMD_CREATE_EQ, &req, sizeof(req));
}

static inline void eq_ring(Nic *n, Queue *eq, bool arm)
{
    ring(n, 0, FAKERNIC_DOORBELL_EQ, doorbell(eq->id, eq->index) |
         (arm ? FAKERNIC_DOORBELL_ARM : 0));
}

static inline bool eq_poll(Nic *n, Queue *eq, struct fakernic_eqe *eqe)
{
    qtest_memread(n->m->qts, queue_entry(eq, eq->index), eqe, sizeof(*eqe));
    if ((eqe->owner & 1) != queue_owner(eq)) {
        return false;
    }
    eq->index++;
    return true;
}

/* Waits for the next event, which must be of this type. Returns its object. */
static inline uint32_t eq_expect(Nic *n, Queue *eq, enum fakernic_event type)
{
    struct fakernic_eqe eqe;

    for (unsigned tries = 0; tries < 5000; tries++) {
        if (eq_poll(n, eq, &eqe)) {
            g_assert_cmpuint(eqe.type, ==, type);
            return le32_to_cpu(eqe.id);
        }
        g_usleep(1000);
    }
    g_error("no event of type %u", type);
}

static inline void cq_create(Nic *n, Queue *cq, unsigned log_depth,
                             const Queue *eq, uint32_t uar, uint8_t flags)
{
    struct fakernic_create_cq_req req = {
        .pages = queue_alloc(n, cq, log_depth, 6),
        .log_depth = log_depth,
        .flags = flags,
        .uar = LE32(uar),
        .eqn = LE32(eq->id),
    };

    cq->id = cmd_create(n, FAKERNIC_CMD_CREATE_CQ, &req, sizeof(req));
}

static inline void cq_arm(Nic *n, Queue *cq, uint32_t uar, bool solicited)
{
    ring(n, uar, FAKERNIC_DOORBELL_CQ_ARM, doorbell(cq->id, cq->index) |
         (solicited ? FAKERNIC_DOORBELL_SOLICITED : 0));
}

static inline bool cq_poll(Nic *n, Queue *cq, struct fakernic_cqe *cqe)
{
    qtest_memread(n->m->qts, queue_entry(cq, cq->index), cqe, sizeof(*cqe));
    if ((cqe->owner & 1) != queue_owner(cq)) {
        return false;
    }
    cq->index++;
    return true;
}

/* Waits for the next completion, which must be this one. */
static inline void cq_expect(Nic *n, Queue *cq, struct fakernic_cqe *cqe,
                             enum fakernic_cqe_opcode opcode,
                             enum fakernic_cqe_status status)
{
    for (unsigned tries = 0; tries < 5000; tries++) {
        if (cq_poll(n, cq, cqe)) {
            g_assert_cmpuint(cqe->status, ==, status);
            g_assert_cmpuint(cqe->opcode, ==, opcode);
            return;
        }
        /* Flushes of receives wait for a timer. */
        qtest_clock_step(n->m->qts, 1000000);
        g_usleep(1000);
    }
    g_error("no completion of opcode %u", opcode);
}

static inline uint32_t pd_alloc(Nic *n)
{
    return cmd_create(n, FAKERNIC_CMD_ALLOC_PD, NULL, 0);
}

static inline uint32_t mr_create(Nic *n, uint32_t pdn, uint64_t address,
                                 size_t length, uint32_t access)
{
    struct fakernic_create_mr_req req = {
        .iova = LE64(address),
        .length = LE64(length),
        .pages = contiguous(address & ~(FAKERNIC_PAGE_SIZE - 1ULL),
                            (address & (FAKERNIC_PAGE_SIZE - 1)) + length),
        .pdn = LE32(pdn),
        .access = LE32(access),
        .type = FAKERNIC_MR_MEMORY,
        .tag = 0x11,
    };

    return cmd_create(n, FAKERNIC_CMD_CREATE_MR, &req, sizeof(req));
}

static inline void qp_create(Nic *n, Qp *qp, uint8_t type, uint32_t pdn,
                             Queue *cq, uint32_t uar)
{
    struct fakernic_create_qp_req req = {
        .sq_pages = queue_alloc(n, &qp->sq, 5, FAKERNIC_SQ_BB_SHIFT),
        .rq_pages = queue_alloc(n, &qp->rq, 4, 6),
        .type = type,
        .sq_log_depth = 5,
        .rq_log_depth = 4,
        .rq_log_stride = 6,
        .pdn = LE32(pdn),
        .send_cqn = LE32(cq->id),
        .recv_cqn = LE32(cq->id),
        .uar = LE32(uar),
    };

    qp->cq = cq;
    qp->uar = uar;
    qp->qpn = cmd_create(n, FAKERNIC_CMD_CREATE_QP, &req, sizeof(req));
}

static inline uint8_t qp_state(Nic *n, uint32_t qpn)
{
    struct fakernic_id req = { .id = LE32(qpn) };
    struct fakernic_qp_attr attr;

    assert_status(cmd(n, FAKERNIC_CMD_QUERY_QP, &req, sizeof(req), &attr,
                      sizeof(attr)), OK);
    return attr.state;
}

static inline uint8_t qp_to(Nic *n, uint32_t qpn, uint8_t state)
{
    struct fakernic_modify_qp_req req = {
        .qpn = LE32(qpn),
        .mask = LE32(FAKERNIC_QP_ATTR_STATE),
        .attr.state = state,
    };

    return CMD(n, MODIFY_QP, req);
}

/* Puts 'len' bytes of a WQE into the SQ, without ringing. */
static inline uint32_t sq_put(Nic *n, Qp *qp, const void *wqe, size_t len)
{
    const struct fakernic_sq_hdr *hdr = wqe;
    uint32_t first = qp->sq.index;

    for (size_t done = 0; done < len; done += FAKERNIC_SQ_BB_SIZE) {
        qtest_memwrite(n->m->qts,
                       queue_entry(&qp->sq, first + done / FAKERNIC_SQ_BB_SIZE),
                       (const uint8_t *)wqe + done,
                       MIN(len - done, FAKERNIC_SQ_BB_SIZE));
    }
    qp->sq.index += hdr->bb_count;
    queue_record(n, &qp->sq, qp->sq.index);
    return first;
}

static inline void sq_ring(Nic *n, const Qp *qp)
{
    ring(n, qp->uar, FAKERNIC_DOORBELL_SQ, doorbell(qp->qpn, qp->sq.index));
}

static inline void rq_post(Nic *n, Queue *rq, uint32_t tag, uint64_t address,
                           uint32_t length, uint32_t lkey)
{
    struct {
        struct fakernic_rq_wqe wqe;
        struct fakernic_sge sge;
    } slot = {
        .wqe = { .tag = LE32(tag), .sge_count = 1 },
        .sge = { LE64(address), LE32(length), LE32(lkey) },
    };

    qtest_memwrite(n->m->qts, queue_entry(rq, rq->index), &slot, sizeof(slot));
    rq->index++;
    queue_record(n, rq, rq->index);
}

#endif
