/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fuzz target "guest": everything that software in a guest can write, with
 * the real device in the real QEMU (its fuzzing build; overlay.sh puts these
 * files into tests/qtest/fuzz). Two NICs share a hub, so each receives what
 * the other sends. One is a card, the other a virtual function of a second
 * card. An input acts as the guest of each, as the driver of the second card's
 * PF, and as strangers on the wire. It is a list of records (records.h). The
 * first one selects the state before: nothing, enabled devices, or a world of
 * connected QPs.
 *
 * Errors are: findings of the sanitizers and QEMU's assertions; a reset that
 * does not end in READY; memory that a reset does not free; a turn with more
 * work than its budget and one step; and, by the fuzzer's options, excessive
 * time and allocations.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/rcu.h"
#include "qemu/timer.h"
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "hw/boards.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_bus.h"
#include "hw/qdev-core.h"
#include "hw/sysbus.h"
#include "net/net.h"
#include "system/runstate.h"
#include "tests/qtest/libqtest.h"
#include "tests/qtest/fuzz/fuzz.h"
#include "guest.h"

#include <sanitizer/allocator_interface.h>

#define RAM_AT 0x200000u
/*
 * Memory that all inputs together may leave: QEMU allocates some objects once.
 */
#define LEAK_LIMIT (512 * 1024)
/*
 * The budget of a turn in units of work, without a time limit, and the work of
 * the step that may exceed it: a frame for many QPs, a QP's part of a list.
 */
#define GUEST_TURN_WORK 256
#define GUEST_STEP_WORK 256
/* CPU time of a unit of work with sanitizers, in ns. On a host with other work
 * this many steps of an input may take longer. */
#define GUEST_UNIT_NS 100000
#define GUEST_COSTLY_STEPS 4

static Guest guest;
static int64_t allocated;
static bool topology_changed;

void guest_broken(const char *file, int line, const char *rule)
{
    fprintf(stderr, "%s:%d: broken rule: %s\n", file, line, rule);
    abort();
}

/* Flips the bits that the last step_patch() selected. */
void guest_patch(Guest *g, void *bytes, size_t len)
{
    uint8_t *at = bytes;

    if (g->patch.armed) {
        g->patch.armed = false;
        for (unsigned i = 0; i < 8; i++) {
            at[(g->patch.offset + i) % len] ^= g->patch.bits >> 8 * i;
        }
    }
}

/* Runs bottom halves; limited, as some schedule themselves again. */
void guest_settle(void)
{
    unsigned tries = 16;

    while (tries-- && aio_poll(qemu_get_aio_context(), false)) {
        continue;
    }
}

static uint64_t guest_costly_steps(const Nic *n)
{
    return object_property_get_uint(OBJECT(n->pci), "x-cost-found",
                                    &error_abort);
}

/*
 * No turn may exceed its budget by more than one step, which is not divided.
 * Steps must not take longer than the work for which they count. A few may by
 * chance, so only an input with many such steps fails.
 */
static void guest_check_work(Guest *g)
{
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        GUEST_CHECK(guest_costly_steps(&g->nic[i]) - g->costly[i] <=
                    GUEST_COSTLY_STEPS);
        GUEST_CHECK(object_property_get_uint(OBJECT(g->nic[i].pci),
                                             "x-longest-turn", &error_abort) <=
                    GUEST_TURN_WORK + GUEST_STEP_WORK);
    }
}

/* The hub port of a card. */
static NetClientState *guest_netdev(unsigned i)
{
    return qemu_find_netdev(i ? "h1" : "h0");
}

/* ---- steps --------------------------------------------------------------- */

static void step_reg(Nic *n, const FuzzRecord *r)
{
    uint32_t offset = r->c & 0x8000 ? r->c % FAKERNIC_BAR_REGS_SIZE
                                    : r->c % (FAKERNIC_REG_END / 4) * 4;
    unsigned size = 1U << (r->b & 128 ? r->b & 3 : 2);
    uint64_t value = r->g;

    if (r->b & 64) {
        address_space_read(&address_space_memory, n->regs + offset,
                           MEMTXATTRS_UNSPECIFIED, &value, size);
    } else {
        address_space_write(&address_space_memory, n->regs + offset,
                            MEMTXATTRS_UNSPECIFIED, &value, size);
    }
}

/* Doorbells for existing objects with any index, and other values. */
static void step_doorbell(Nic *n, const FuzzRecord *r)
{
    static const struct {
        uint8_t place;
        Kind kind;
    } bells[] = {
        { FAKERNIC_DOORBELL_SQ, KIND_QP },
        { FAKERNIC_DOORBELL_CQ_ARM, KIND_CQ },
        { FAKERNIC_DOORBELL_EQ, KIND_EQ },
    };
    unsigned i = r->a % (ARRAY_SIZE(bells) + 1);
    uint32_t uar = r->b & 32 ? nic_pick(n, KIND_UAR, r->b) : 0;
    uint64_t word;

    if (i == ARRAY_SIZE(bells)) {
        /* Any offset of BAR2: doorbell pages, clock page, device memory. */
        nic_ring(n, r->b % 16, r->c & 0xff8, r->g);
        return;
    }
    word = FAKERNIC_PUT(FAKERNIC_DOORBELL_ID,
                        nic_pick(n, bells[i].kind, r->where & 0x7f)) | r->e;
    if (r->b & 128 && bells[i].kind == KIND_EQ) {
        word |= FAKERNIC_DOORBELL_ARM;
    }
    if (r->b & 128 && bells[i].kind == KIND_CQ) {
        word |= FAKERNIC_DOORBELL_SOLICITED;
    }
    nic_ring(n, uar, bells[i].place, word);
}

/* Writes page tables (to data pages or anywhere), records and ring entries. */
static void step_memory(Nic *n, const FuzzRecord *r)
{
    uint64_t at = nic_page(n, r->b % NIC_PAGES) + (r->c & 0xff8);

    if (r->a & 1) {
        for (unsigned i = 0; i < 1 + r->d % 32; i++) {
            uint64_t entry = nic_page(n, r->a & 2 ? PAGE_TABLES + i % 4
                                                  : PAGE_DATA + i);

            at = nic_page(n, PAGE_TABLES + r->b % 4) + i * 8;
            stq_le_p(nic_bytes(n, at, 8), entry ^ (i == 7 ? r->g : 0));
        }
        return;
    }
    stq_le_p(nic_bytes(n, at, 8), r->g);
    stq_le_p(nic_bytes(n, nic_page(n, r->b % NIC_PAGES) + (r->d & 0xff8), 8),
             r->h);
}

/* A header that flow rules can match. */
static void frame_header(Nic *n, uint8_t *frame, size_t len,
                         const FuzzRecord *r)
{
    size_t ip = r->c & 8 ? 18 : 14;

    memset(frame, r->c & 2 ? 0xff : 0, 6);
    frame[5] ^= n->number;
    frame[0] |= 2;
    if (!(r->c & 4) || len < ip + 60) {
        return;
    }
    stw_be_p(frame + 12, ip == 18 ? 0x8100 : r->c & 16 ? 0x86dd : 0x0800);
    if (ip == 18) {
        stw_be_p(frame + 14, r->g);
        stw_be_p(frame + 16, r->c & 16 ? 0x86dd : 0x0800);
    }
    if (r->c & 16) {
        frame[ip] = 0x60;
        stw_be_p(frame + ip + 4, len - ip - 40);
        frame[ip + 6] = r->c & 32 ? 6 : 17;
        stw_be_p(frame + ip + 42, r->g);
    } else {
        frame[ip] = 0x45;
        stw_be_p(frame + ip + 2, len - ip);
        stw_be_p(frame + ip + 6, r->c & 64 ? 0x2001 : 0);
        frame[ip + 9] = r->c & 32 ? 6 : 17;
        stl_be_p(frame + ip + 12, r->h);
        stw_be_p(frame + ip + 22, r->g);
    }
}

/* The following records are a frame from a stranger. */
static void step_frame(Guest *g, Nic *n, const FuzzRecord *r)
{
    uint8_t frame[8 * sizeof(FuzzRecord)];
    NetClientState *port = guest_netdev(n->number - 1);
    size_t len = 0;
    FuzzRecord next;

    for (unsigned i = 0; i <= r->a % 8 && fuzz_next(&g->input, &next); i++) {
        memcpy(frame + len, &next, sizeof(next));
        len += sizeof(next);
    }
    len -= MIN(r->b % 32, len);
    if (r->c & 1 && len > 14) {
        frame_header(n, frame, len, r);
    }
    qemu_send_packet(port, frame, len);
}

/* MSI-X entries; PCI configuration except the BARs; power states and FLR. */
static void step_pci(Nic *n, const FuzzRecord *r)
{
    static const uint8_t offsets[] = { PCI_COMMAND, PCI_STATUS,
                                       PCI_INTERRUPT_LINE };
    uint64_t entry = n->regs + (BAR_MSIX_AT - BAR_REGS_AT) + r->c % 0x400;
    uint32_t value = r->e;
    uint32_t at;

    if (!n->pci->enabled) {
        return;                 /* an absent VF does not answer */
    }
    topology_changed = true;
    switch (r->a % 4) {
    case 0:
        n->pci->config_write(n->pci, offsets[r->b % ARRAY_SIZE(offsets)],
                             value, 2);
        break;
    case 1:
        at = n->pci->msix_cap ? n->pci->msix_cap + PCI_MSIX_FLAGS : 0x40;
        n->pci->config_write(n->pci, at, value, 2);
        break;
    case 2:
        at = pci_find_capability(n->pci, PCI_CAP_ID_EXP);
        n->pci->config_write(n->pci, at + (r->c & 0x3e), value, 2);
        break;
    default:
        address_space_write(&address_space_memory, entry & ~3ULL,
                            MEMTXATTRS_UNSPECIFIED, &value, sizeof(value));
        break;
    }
}

static bool nic_bar_is(const Nic *n, unsigned bar, uint32_t address)
{
    return (pci_get_long(n->pci->config + bar) &
            PCI_BASE_ADDRESS_MEM_MASK) == address;
}

void nic_restore_pci(Nic *n)
{
    uint32_t bars = BAR_STRIDE * (n->number - 1);
    uint16_t command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
    const unsigned power = n->pci->pm_cap + PCI_PM_CTRL;

    if (n == &guest.nic[VF]) {
        vf_restore_pci(n, &guest.nic[PF]);
    }
    if (pci_get_word(n->pci->config + power) & PCI_PM_CTRL_STATE_MASK) {
        n->pci->config_write(n->pci, power, 0, 2);
    }
    if (n == &guest.nic[VF]) {
        return;
    }
    if (pci_get_word(n->pci->config + PCI_COMMAND) == command &&
        nic_bar_is(n, PCI_BASE_ADDRESS_0, BAR_REGS_AT + bars) &&
        nic_bar_is(n, PCI_BASE_ADDRESS_2, BAR_UAR_AT + bars) &&
        pci_get_long(n->pci->config + PCI_BASE_ADDRESS_3) == 0 &&
        nic_bar_is(n, PCI_BASE_ADDRESS_4, BAR_MSIX_AT + bars) &&
        msix_enabled(n->pci)) {
        return;
    }
    n->pci->config_write(n->pci, PCI_COMMAND, 0, 2);
    n->pci->config_write(n->pci, PCI_BASE_ADDRESS_0, BAR_REGS_AT + bars, 4);
    n->pci->config_write(n->pci, PCI_BASE_ADDRESS_2, BAR_UAR_AT + bars, 4);
    n->pci->config_write(n->pci, PCI_BASE_ADDRESS_3, 0, 4);
    n->pci->config_write(n->pci, PCI_BASE_ADDRESS_4, BAR_MSIX_AT + bars, 4);
    n->pci->config_write(n->pci, PCI_COMMAND, command, 2);
    n->pci->config_write(n->pci, n->pci->msix_cap + PCI_MSIX_FLAGS,
                         PCI_MSIX_FLAGS_ENABLE, 2);
}

static void step_time(const FuzzRecord *r)
{
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    int64_t deadline = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                                  QEMU_TIMER_ATTR_ALL);

    if (!(r->a & 1)) {
        qemu_clock_advance_virtual_time(now + (1LL << r->b % 32));
    } else if (deadline >= 0 && deadline < 1LL << 34) {
        qemu_clock_advance_virtual_time(now + deadline);
    }
}

static void guest_step(Guest *g, const FuzzRecord *r)
{
    Nic *n = &g->nic[r->where >> 7];

    switch (r->op % 16) {
    case 0:
        step_reg(n, r);
        break;
    case 1:
        step_doorbell(n, r);
        break;
    case 2:
        step_memory(n, r);
        break;
    case 3:
        step_frame(g, n, r);
        break;
    case 4:
        g->patch = (GuestPatch) { true, r->c, r->g };
        break;
    case 5:
        step_time(r);
        break;
    case 6:
        if (r->a < 32) {
            step_pci(n, r);
        } else if (r->a < 48) {
            /* Registers respond only while the BARs are enabled. */
            nic_restore_pci(n);
            nic_restart(n);
        } else if (r->a < 64) {
            nic_enable(n, 0);
        } else if (r->a >= 80 && r->a < 96) {
            topology_changed = true;
            step_vport(g, r);
        } else if (r->a >= 96 && r->a < 192) {
            step_look(n, r);
        } else if (r->a >= 192 && r->a < 232) {
            topology_changed = true;
            /* A card's state has its VFs. */
            step_move(g, n == &g->nic[VF] ? &g->nic[PF] : n, r);
            /* The other devices' BARs stay where they are. */
            nic_restore_pci(&g->nic[PF]);
            nic_restore_pci(n);
        } else if (r->a >= 240) {
            step_sq_record(n, r);
        } else {
            guest_advance(g, n, r->where % IDS);
        }
        break;
    case 7 ... 10:
        step_send(g, n, r);
        break;
    case 11:
        step_recv(g, n, r);
        break;
    default:
        step_command(g, n, r);
        break;
    }
    guest_settle();
    guest_check_work(g);
}

/* ---- one input ----------------------------------------------------------- */

static void nic_restore_msix(Nic *n)
{
    const struct {
        uint64_t address;
        uint32_t data, control;
    } entry = { cpu_to_le64(nic_page(n, PAGE_MSI)), cpu_to_le32(1), 0 };

    for (unsigned i = 0; i < 4; i++) {
        address_space_write(&address_space_memory,
                            n->regs + (BAR_MSIX_AT - BAR_REGS_AT) + 16 * i,
                            MEMTXATTRS_UNSPECIFIED, &entry, sizeof(entry));
    }
}

/* Resets the device of each function. */
static void guest_reset(Guest *g)
{
    g->patch.armed = false;
    nic_restore_pci(&g->nic[PF]);
    for (unsigned i = 0; i < NICS; i++) {
        nic_restore_pci(&g->nic[i]);
        nic_restart(&g->nic[i]);
    }
    vport_restart(g);
}

static void guest_restart(Guest *g)
{
    guest_reset(g);
    for (unsigned i = 0; i < NICS; i++) {
        Nic *n = &g->nic[i];

        nic_restore_msix(n);
        memset(n->ram, 0, PAGE_DATA * FAKERNIC_PAGE_SIZE);
        memset(n->qp, 0, sizeof(n->qp));
        memset(n->srq, 0, sizeof(n->srq));
        memset(n->wq, 0, sizeof(n->wq));
        n->wants = 0;
    }
}

static void guest_begin(Guest *g, const FuzzRecord *first)
{
    g->paging = PAGING_NEVER;
    if (first->a % 8 == 7) {
        return;
    }
    g->features_choice = first->b < 192 ? 0 : first->b;
    g->paging = first->c % PAGINGS;
    for (unsigned i = 0; i < NICS; i++) {
        nic_enable(&g->nic[i], g->features_choice);
    }
    if (first->a % 8 != 6) {
        guest_populate(g);
    }
}

static void guest_end(Guest *g)
{
    guest_reset(g);
    guest_settle();
    GUEST_CHECK(runstate_is_running());
    for (unsigned i = 0; i < NICS; i++) {
        /* A device that refuses a frame gets no more until it asks QEMU. */
        GUEST_CHECK(!guest_netdev(i)->peer->receive_disabled);
    }
    GUEST_CHECK(!qemu_find_netdev("nic1.port1")->peer->receive_disabled);
    if (topology_changed) {
        topology_changed = false;
        drain_call_rcu();
    }
}

static void guest_fuzz(QTestState *qts, const unsigned char *data, size_t size)
{
    Guest *g = &guest;
    unsigned steps = 0;
    FuzzRecord r;

    g->input = (FuzzInput) { data, size, 0 };
    fuzz_next(&g->input, &r);
    guest_restart(g);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        g->costly[i] = guest_costly_steps(&g->nic[i]);
    }
    allocated -= __sanitizer_get_current_allocated_bytes();
    guest_begin(g, &r);
    while (steps++ < FUZZ_RECORDS_MAX && fuzz_next(&g->input, &r)) {
        guest_step(g, &r);
        /* Not at every step: it takes two commands, and drivers are slower. */
        for (unsigned i = 0; steps % 4 == 0 && i < NICS; i++) {
            if (g->paging != PAGING_NEVER) {
                guest_page(g, &g->nic[i], g->paging == PAGING_REFUSE);
            }
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        step_time(&(FuzzRecord) { .a = 1 });
        guest_settle();
    }
    guest_end(g);
    guest_check_work(g);
    /* A reset must free everything that the devices allocated. */
    allocated += __sanitizer_get_current_allocated_bytes();
    GUEST_CHECK(allocated < LEAK_LIMIT);
}

/* ---- machine ------------------------------------------------------------- */

static GString *guest_command_line(FuzzTarget *t)
{
    return g_string_new(
        TARGET_NAME " -display none -nodefaults -machine q35 -accel qtest"
                    " -m 8M"
        " -netdev hubport,id=h0,hubid=0 -netdev hubport,id=h1,hubid=0"
#define FUZZ_NIC ",uars=4,max-qp=32,max-cq=16,max-srq=8,max-pd=8,max-mr=64," \
                 "max-mr-pages=4096,gids=4,x-guest-faults=on," \
                 "sq-awake-us=100,turn-us=1000000,"                           \
                 "x-cost-limit=" stringify(GUEST_UNIT_NS)                     \
                 ",turn-work=" stringify(GUEST_TURN_WORK)
        " -device fakernic,id=nic0,netdev=h0,mac=02:00:00:00:00:01" FUZZ_NIC
                    ",snapshot-qps=keep"
                    " -device pcie-root-port,id=rp0,chassis=1"
        " -device fakernic,id=nic1,bus=rp0,netdev=h1,mac=02:00:00:00:00:03"
                    FUZZ_NIC ",dcqcn=on,vfs=1,vf-uars=4,vf-max-qp=32,"
                    "vf-max-mr=64,vf-gids=4,vf-dm-size=1M,vf-vectors=33");
}

static PCIDevice *guest_card(const char *id)
{
    DeviceState *card = qdev_find_recursive(sysbus_get_default(), id);

    GUEST_CHECK(card);
    return PCI_DEVICE(card);
}

static void guest_prepare(QTestState *qts)
{
    uint8_t *ram = memory_region_get_ram_ptr(current_machine->ram);

    guest.nic[0].pci = guest_card("nic0");
    guest.nic[PF].pci = guest_card("nic1");
    guest.nic[VF].pci = PCI_DEVICE(
        object_property_get_link(OBJECT(guest.nic[PF].pci), "vf[0]",
                                 &error_abort));
    /* Cards get this limit by the command line. */
    object_property_set_uint(OBJECT(guest.nic[VF].pci), "x-cost-limit",
                             GUEST_UNIT_NS, &error_abort);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        Nic *n = &guest.nic[i];

        n->number = i + 1;
        n->regs = BAR_REGS_AT + i * BAR_STRIDE;
        n->uar = BAR_UAR_AT + i * BAR_STRIDE;
        n->memory = RAM_AT + i * NIC_MEMORY;
        n->ram = ram + n->memory;
    }
    vport_prepare(&guest.nic[PF]);
}

static void guest_register(void)
{
    fuzz_add_target(&(FuzzTarget) {
        .name = "fakernic",
        .description = "what guests and the wire do to fakernics",
        .get_init_cmdline = guest_command_line,
        .pre_fuzz = guest_prepare,
        .fuzz = guest_fuzz,
        .crossover = fuzz_crossover,
    });
}

fuzz_target_init(guest_register);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed)
{
    return fuzz_mutate(data, size, max_size, seed);
}
