/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BAR0 registers and BAR2 doorbell pages (fakernic/regs.h, doorbell.h): decodes
 * a load or store and calls the queue that it names.
 *
 * A table has one row per register, with its read and write functions. An
 * access that the interface does not define reads zero, has no effect and is
 * logged as a guest error.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "bar.h"
#include "budget.h"
#include "clock.h"
#include "vcpus.h"
#include "dm.h"
#include "life.h"
#include "queue/sq.h"
#include "queue/eq.h"
#include "queue/cq.h"
#include "state.h"
#include "fault/gate.h"
#include "../trace.h"

typedef struct FakernicReg {
    const char *name;           /* NULL: there is no such register */
    uint32_t (*read)(FakernicState *s);         /* NULL: reads zero (WO) */
    void (*write)(FakernicState *s, uint32_t value);    /* NULL: RO */
    bool bringup;               /* writable only while not ENABLED */
} FakernicReg;

static uint32_t fakernic_reg_magic(FakernicState *s)
{
    return FAKERNIC_MAGIC;
}

static uint32_t fakernic_reg_interface_version(FakernicState *s)
{
    return s->interface_version;
}

static uint32_t fakernic_reg_features_lo(FakernicState *s)
{
    return extract64(s->features, 0, 32);
}

static uint32_t fakernic_reg_features_hi(FakernicState *s)
{
    return extract64(s->features, 32, 32);
}

static uint32_t fakernic_reg_driver_features_lo(FakernicState *s)
{
    return extract64(s->driver_features, 0, 32);
}

static void fakernic_set_driver_features_lo(FakernicState *s, uint32_t value)
{
    s->driver_features = deposit64(s->driver_features, 0, 32, value);
}

static uint32_t fakernic_reg_driver_features_hi(FakernicState *s)
{
    return extract64(s->driver_features, 32, 32);
}

static void fakernic_set_driver_features_hi(FakernicState *s, uint32_t value)
{
    s->driver_features = deposit64(s->driver_features, 32, 32, value);
}

static uint32_t fakernic_reg_fw_version(FakernicState *s)
{
    return 1U << 24;
}

static uint32_t fakernic_reg_control(FakernicState *s)
{
    return s->control;
}

static void fakernic_enable(FakernicState *s)
{
    s->control |= FAKERNIC_CONTROL_ENABLE;
    if (s->driver_features & ~s->features) {
        fakernic_fatal(s, FAKERNIC_FATAL_FEATURES);
        return;
    }
    if (fakernic_cmdq_setup(s)) {
        s->status |= FAKERNIC_STATUS_ENABLED;
        roce_set_checks_csum(s->roce,
                             s->driver_features & FAKERNIC_FEATURE_CSUM);
        trace_fakernic_enabled(s->name, s->driver_features, s->cmdq.sq_address,
                               s->cmdq.cq_address, s->cmdq.log_depth);
    }
}

static void fakernic_set_control(FakernicState *s, uint32_t value)
{
    if (value & ~(FAKERNIC_CONTROL_RESET | FAKERNIC_CONTROL_ENABLE)) {
        FAKERNIC_GUEST_ERR("CONTROL: reserved bits set in 0x%08x", value);
        return;
    }
    if (value & FAKERNIC_CONTROL_RESET) {
        fakernic_reset(s);
        return;
    }
    if (!(value & FAKERNIC_CONTROL_ENABLE)) {
        if (s->control & FAKERNIC_CONTROL_ENABLE) {
            FAKERNIC_GUEST_ERR("CONTROL: ENABLE cannot be cleared");
        }
        return;
    }
    if (!(s->status & FAKERNIC_STATUS_READY)) {
        FAKERNIC_GUEST_ERR("CONTROL: ENABLE before STATUS is READY");
        return;
    }
    if (!(s->control & FAKERNIC_CONTROL_ENABLE)) {
        fakernic_enable(s);
    }
}

static uint32_t fakernic_reg_status(FakernicState *s)
{
    const bool faults = fakernic_gate_was_armed(s) &&
                        s->status & FAKERNIC_STATUS_ENABLED;

    return s->status | (faults ? FAKERNIC_STATUS_FAULTS : 0);
}

static uint32_t fakernic_reg_fatal_code(FakernicState *s)
{
    return s->fatal_code;
}

static uint32_t fakernic_reg_test(FakernicState *s)
{
    return s->test;
}

static void fakernic_set_test(FakernicState *s, uint32_t value)
{
    s->test = value;
}

static uint32_t fakernic_reg_test_inverted(FakernicState *s)
{
    return ~s->test;
}

static uint32_t fakernic_reg_mac_lo(FakernicState *s)
{
    return ldl_le_p(s->conf.macaddr.a);
}

static uint32_t fakernic_reg_mac_hi(FakernicState *s)
{
    return lduw_le_p(s->conf.macaddr.a + 4);
}

static uint32_t fakernic_reg_uar_count(FakernicState *s)
{
    return s->uars;
}

static uint32_t fakernic_reg_vector_count(FakernicState *s)
{
    return s->vectors;
}

static uint32_t fakernic_reg_cmdq_sq_lo(FakernicState *s)
{
    return extract64(s->cmdq.sq_address, 0, 32);
}

static void fakernic_set_cmdq_sq_lo(FakernicState *s, uint32_t value)
{
    s->cmdq.sq_address = deposit64(s->cmdq.sq_address, 0, 32, value);
}

static uint32_t fakernic_reg_cmdq_sq_hi(FakernicState *s)
{
    return extract64(s->cmdq.sq_address, 32, 32);
}

static void fakernic_set_cmdq_sq_hi(FakernicState *s, uint32_t value)
{
    s->cmdq.sq_address = deposit64(s->cmdq.sq_address, 32, 32, value);
}

static uint32_t fakernic_reg_cmdq_cq_lo(FakernicState *s)
{
    return extract64(s->cmdq.cq_address, 0, 32);
}

static void fakernic_set_cmdq_cq_lo(FakernicState *s, uint32_t value)
{
    s->cmdq.cq_address = deposit64(s->cmdq.cq_address, 0, 32, value);
}

static uint32_t fakernic_reg_cmdq_cq_hi(FakernicState *s)
{
    return extract64(s->cmdq.cq_address, 32, 32);
}

static void fakernic_set_cmdq_cq_hi(FakernicState *s, uint32_t value)
{
    s->cmdq.cq_address = deposit64(s->cmdq.cq_address, 32, 32, value);
}

static uint32_t fakernic_reg_cmdq_log_depth(FakernicState *s)
{
    return s->cmdq.log_depth;
}

static void fakernic_set_cmdq_log_depth(FakernicState *s, uint32_t value)
{
    s->cmdq.log_depth = value;
}

static bool fakernic_has_clock_page(const FakernicState *s)
{
    return s->features & FAKERNIC_FEATURE_CLOCK_PAGE;
}

static uint32_t fakernic_reg_clock_page_offset(FakernicState *s)
{
    return fakernic_has_clock_page(s) ? s->uars : 0;
}

static uint32_t fakernic_reg_clock_page_count(FakernicState *s)
{
    return fakernic_has_clock_page(s);
}

static uint32_t fakernic_reg_dm_offset(FakernicState *s)
{
    return s->features & FAKERNIC_FEATURE_DM ? fakernic_dm_page(s) : 0;
}

static uint32_t fakernic_reg_dm_pages(FakernicState *s)
{
    return s->features & FAKERNIC_FEATURE_DM ?
           s->dm_size / FAKERNIC_PAGE_SIZE : 0;
}

static uint32_t fakernic_reg_clock_lo(FakernicState *s)
{
    uint64_t now = fakernic_now();

    s->clock_high = extract64(now, 32, 32);
    return extract64(now, 0, 32);
}

static uint32_t fakernic_reg_clock_hi(FakernicState *s)
{
    return s->clock_high;
}

static uint32_t fakernic_reg_function(FakernicState *s)
{
    return s->features & FAKERNIC_FEATURE_FUNCTION ? s->vport | s->vfs << 16
                                                   : 0;
}

#define RO(reg, fn) [FAKERNIC_REG_ ## reg / 4] = { #reg, fakernic_reg_ ## fn }
#define RW(reg, fn) [FAKERNIC_REG_ ## reg / 4] =                             \
    { #reg, fakernic_reg_ ## fn, fakernic_set_ ## fn }
#define BRINGUP(reg, fn) [FAKERNIC_REG_ ## reg / 4] =                        \
    { #reg, fakernic_reg_ ## fn, fakernic_set_ ## fn, true }

static const FakernicReg fakernic_regs[FAKERNIC_REG_END / 4] = {
    RO(MAGIC, magic),
    RO(INTERFACE_VERSION, interface_version),
    RO(FEATURES_LO, features_lo),
    RO(FEATURES_HI, features_hi),
    BRINGUP(DRIVER_FEATURES_LO, driver_features_lo),
    BRINGUP(DRIVER_FEATURES_HI, driver_features_hi),
    RO(FW_VERSION, fw_version),
    RW(CONTROL, control),
    RO(STATUS, status),
    RO(FATAL_CODE, fatal_code),
    RW(TEST, test),
    RO(TEST_INVERTED, test_inverted),
    RO(MAC_LO, mac_lo),
    RO(MAC_HI, mac_hi),
    RO(UAR_COUNT, uar_count),
    RO(VECTOR_COUNT, vector_count),
    BRINGUP(CMDQ_SQ_LO, cmdq_sq_lo),
    BRINGUP(CMDQ_SQ_HI, cmdq_sq_hi),
    BRINGUP(CMDQ_CQ_LO, cmdq_cq_lo),
    BRINGUP(CMDQ_CQ_HI, cmdq_cq_hi),
    BRINGUP(CMDQ_LOG_DEPTH, cmdq_log_depth),
    [FAKERNIC_REG_CMDQ_DOORBELL / 4] = {
        "CMDQ_DOORBELL", NULL, fakernic_cmdq_doorbell },
    RO(CLOCK_PAGE_OFFSET, clock_page_offset),
    RO(CLOCK_PAGE_COUNT, clock_page_count),
    RO(DM_OFFSET, dm_offset),
    RO(DM_PAGES, dm_pages),
    RO(CLOCK_LO, clock_lo),
    RO(CLOCK_HI, clock_hi),
    RO(FUNCTION, function),
};

#undef RO
#undef RW
#undef BRINGUP

/* NULL, and logged: the access is not the 4 aligned bytes of a register. */
static const FakernicReg *fakernic_reg(hwaddr offset, unsigned size,
                                       const char *what)
{
    const FakernicReg *reg = NULL;

    if (size == 4 && offset % 4 == 0 && offset < FAKERNIC_REG_END) {
        reg = &fakernic_regs[offset / 4];
    }
    if (!reg || !reg->name) {
        FAKERNIC_GUEST_ERR("%s of %u bytes at BAR0 offset 0x%" HWADDR_PRIx,
                           what, size, offset);
        return NULL;
    }
    return reg;
}

uint64_t fakernic_register_load(FakernicState *s, hwaddr offset, unsigned size)
{
    const FakernicReg *reg = fakernic_reg(offset, size, "read");
    uint32_t value = reg && reg->read ? reg->read(s) : 0;

    if (s->held & FAKERNIC_HELD_DEAD) {
        return MAKE_64BIT_MASK(0, 8 * size);
    }
    if (reg) {
        trace_fakernic_reg_read(s->name, reg->name, value);
    }
    return value;
}

void fakernic_register_store(FakernicState *s, hwaddr offset, uint64_t value,
                             unsigned size)
{
    const FakernicReg *reg = fakernic_reg(offset, size, "write");

    if (!reg || (s->held & FAKERNIC_HELD_DEAD)) {
        return;
    }
    trace_fakernic_reg_write(s->name, reg->name, value);
    if (!reg->write) {
        FAKERNIC_GUEST_ERR("write of read-only register %s", reg->name);
    } else if (reg->bringup && (s->control & FAKERNIC_CONTROL_ENABLE)) {
        FAKERNIC_GUEST_ERR("write of %s while enabled", reg->name);
    } else {
        reg->write(s, value);
    }
}

static void fakernic_doorbell_drop(FakernicState *s, hwaddr offset,
                                   uint64_t word, const char *why)
{
    trace_fakernic_ub_doorbell(s->name, offset, word, why);
    FAKERNIC_GUEST_ERR("doorbell 0x%016" PRIx64 " at BAR2 offset 0x%"
                       HWADDR_PRIx ": %s", word, offset, why);
    s->stats[FAKERNIC_STAT_DOORBELL_DROPPED]++;
}

/* Rings the queue that the word names; returns NULL, or why there is none. */
static const char *fakernic_doorbell_ring(FakernicState *s, uint32_t uar,
                                          unsigned place, uint64_t word)
{
    uint32_t id = FAKERNIC_GET(FAKERNIC_DOORBELL_ID, word);
    uint32_t index = FAKERNIC_GET(FAKERNIC_DOORBELL_INDEX, word);
    bool solicited = word & FAKERNIC_DOORBELL_SOLICITED;
    bool arm = word & FAKERNIC_DOORBELL_ARM;
    FakernicQp *qp;
    FakernicCq *cq;
    FakernicEq *eq;

    if (word & FAKERNIC_DOORBELL_RSVD) {
        return "reserved bits set";
    }
    switch (place) {
    /* journey: ring */
    case FAKERNIC_DOORBELL_SQ:
        qp = fakernic_qp(s, id);
        if (!qp || !qp->sq.pages || qp->uar != uar || solicited || arm) {
            return "no such send queue on this page";
        }
        fakernic_sq_doorbell(s, qp, index);
        return NULL;
    /* journey: end */
    case FAKERNIC_DOORBELL_CQ_ARM:
        cq = fakernic_table_get(&s->cqs, id);
        if (!cq || cq->uar != uar || arm) {
            return "no such completion queue on this page";
        }
        fakernic_cq_arm(s, cq, index, solicited);
        return NULL;
    case FAKERNIC_DOORBELL_EQ:
        eq = fakernic_table_get(&s->eqs, id);
        if (!eq || uar != 0 || solicited) {
            return "no such event queue on this page";
        }
        fakernic_eq_doorbell(s, eq, index, arm);
        return NULL;
    default:
        return "no doorbell there";
    }
}

/*
 * The poll doorbell. A link's frames are taken here, and each of them kicks.
 * Only the main loop can read a netdev, and it may need this vCPU's host CPU.
 * So may a peer that does not read its ring. In both cases this vCPU yields.
 */
static const char *fakernic_doorbell_poll(FakernicState *s, uint64_t word)
{
    if (!(s->driver_features & FAKERNIC_FEATURE_POLL_DOORBELL)) {
        return "no doorbell there";
    }
    if (word) {
        return "reserved bits set";
    }
    if (!s->link || fakernic_link_poll(s->link)) {
        fakernic_cpu_waits();
    }
    if (!QTAILQ_EMPTY(&s->awake_sqs)) {
        fakernic_kick(s);       /* the turn reads their records */
    }
    return NULL;
}

void fakernic_doorbell_hear(FakernicState *s, hwaddr offset, uint64_t word)
{
    uint32_t uar = offset >> FAKERNIC_PAGE_SHIFT;
    unsigned place = offset % FAKERNIC_PAGE_SIZE;
    const char *why;

    if (fakernic_is_frozen(s)) {
        /* Polling would fill the bounded list of held doorbells. */
        if (place != FAKERNIC_DOORBELL_POLL) {
            fakernic_gate_hold_doorbell(s, offset, word);
        }
        return;
    } else if (!fakernic_is_running(s)) {
        why = "the device is not enabled";
    } else if (!fakernic_uar_exists(s, uar)) {
        why = "the page is not allocated";
    } else if (place == FAKERNIC_DOORBELL_POLL) {
        why = fakernic_doorbell_poll(s, word);
    } else {
        why = fakernic_doorbell_ring(s, uar, place, word);
    }
    if (why) {
        fakernic_doorbell_drop(s, offset, word, why);
    } else if (place != FAKERNIC_DOORBELL_POLL) {
        fakernic_kick(s);
    }
}

void fakernic_doorbell_store(FakernicState *s, hwaddr offset, uint64_t word,
                             unsigned size)
{
    if (size != 8 || offset >> FAKERNIC_PAGE_SHIFT >= s->uars) {
        fakernic_doorbell_drop(s, offset, word,
                               "not a 64-bit store into a doorbell page");
        return;
    }
    if (fakernic_gate_doorbell(s, offset, &word)) {
        fakernic_doorbell_hear(s, offset, word);
    }
}

/* Doorbell pages read zero; an enabled device's clock page has the time. */
uint64_t fakernic_doorbell_load(FakernicState *s, hwaddr offset, unsigned size)
{
    uint8_t page[sizeof(struct fakernic_clock_page)] = { 0 };
    hwaddr place = offset % FAKERNIC_PAGE_SIZE;

    if (s->held & FAKERNIC_HELD_DEAD) {
        return MAKE_64BIT_MASK(0, 8 * size);
    }
    if (offset >> FAKERNIC_PAGE_SHIFT != s->uars ||
        !fakernic_has_clock_page(s) || place + size > sizeof(page) ||
        !(s->status & FAKERNIC_STATUS_ENABLED)) {
        return 0;
    }
    stq_le_p(page + offsetof(struct fakernic_clock_page, time_ns),
             fakernic_now());
    return ldn_le_p(page + place, size);
}
