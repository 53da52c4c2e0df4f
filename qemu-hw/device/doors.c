/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The doors: all entry points of the device. They are stores to registers and
 * doorbells, received frames, link changes, a netdev that takes frames again,
 * deadlines, the end of a persistent FLUSH, the bottom half, a VM that stops or
 * resumes, and the unplug.
 *
 * Each door checks that the device is plugged in, because QEMU may still enter
 * a door after the unplug. It looks up a region once for a whole DMA, and a CPU
 * looks it up before it waits for the big lock.
 *
 * A door calls its station and then gives the device a turn. A station is the
 * file that does the work. No station and no turn calls back up here. Doors
 * nest, because a frame that the device sends may return to it at once. Only
 * the outermost door gives turns and sends interrupts; an inner door only notes
 * that there is work.
 *
 * Two kinds of work are deferred. Work beyond a turn's budget waits for the
 * bottom half, so that the main loop can serve others; until then no door gives
 * a turn. On a card with VFs it waits in the card's list instead (card.h).
 * Calls of the net layer give no turn either: a netdev delivers frames in
 * bursts, and one turn at the end of the burst answers all of them.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "bar.h"
#include "budget.h"
#include "card.h"
#include "clock.h"
#include "doors.h"
#include "fault/release.h"
#include "queue/interrupt.h"
#include "life.h"
#include "persist.h"
#include "port/port.h"
#include "turn.h"
#include "state.h"
#include "../trace.h"

/* ---- in and out ---------------------------------------------------------- */

bool fakernic_is_plugged(const FakernicState *s)
{
    return !(s->held & FAKERNIC_HELD_LEAVING) &&
           (s->nic || !(s->held & FAKERNIC_HELD_ABSENT));
}

/* Enters a door; false: the device is unplugged, or was never enabled. */
static bool fakernic_enter(FakernicState *s)
{
    if (!fakernic_is_plugged(s)) {
        return false;
    }
    if (!s->inside) {
        fakernic_step_begin(s);
    }
    s->inside++;
    s->working++;
    return true;
}

/*
 * False: the frame stays with the netdev, and fakernic_run_deferred() asks for
 * it later. An absent VF, and a device that a fault rule stopped, take frames
 * and drop them.
 */
static bool fakernic_takes_frames(const FakernicState *s)
{
    const unsigned drops = FAKERNIC_HELD_FAULT | FAKERNIC_HELD_DEAD |
                           FAKERNIC_HELD_ABSENT;

    return !(s->held & ~drops) && !s->saved.foreign &&
           fakernic_budget_left(s);
}

static void fakernic_renew(FakernicState *s)
{
    fakernic_card_charge(s);
    fakernic_budget_renew(s);
}

static void fakernic_give_turn(FakernicState *s)
{
    bool more;

    fakernic_renew(s);
    s->kicked = false;
    s->activity.did[FAKERNIC_DID_TURN]++;
    do {
        s->working++;
        more = fakernic_turn(s);
        s->working--;
        fakernic_step_begin(s);
        fakernic_life_settle(s);
        fakernic_step_end(s, "a reset");
        fakernic_interrupts_send(s);
        fakernic_step_end(s, "interrupts");
        fakernic_life_settle(s);
    } while (more && fakernic_is_running(s));
    if (fakernic_is_running(s)) {
        fakernic_turn_end(s);
        fakernic_turn_step(s, "the end of a turn");
    }
    fakernic_renew(s);
}

/* Schedules the bottom half for the work that is left. */
static void fakernic_postpone(FakernicState *s)
{
    if (s->held) {
        return;
    }
    if (s->kicked && fakernic_is_running(s)) {
        s->behind = true;
    }
    if (s->behind && s->card) {
        fakernic_card_wait(s);
    } else if (s->behind || s->interrupts ||
               (s->frames_wait && fakernic_takes_frames(s))) {
        qemu_bh_schedule(s->bh);
    }
}

/*
 * Frees the objects, one turn's budget per call, then the device's memory.
 */
static void fakernic_end_some(void *opaque)
{
    FakernicState *s = opaque;

    bool done;

    fakernic_step_begin(s);
    done = fakernic_life_end(s);
    fakernic_step_end(s, "the end");
    if (done) {
        object_unref(OBJECT(s));
    } else {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), fakernic_end_some, s);
    }
}

/*
 * The devices that the net layer called in this round of the main loop. The
 * main loop calls its notifiers after its handlers and before it sleeps, and
 * the devices get their turn there. A bottom half would need another round: in
 * between a peer on the same host CPU finds the wire empty and sleeps, which
 * made READs of 64 KiB a seventh slower. The big QEMU lock protects the list.
 */
static QTAILQ_HEAD(, FakernicState) fakernic_bursts =
    QTAILQ_HEAD_INITIALIZER(fakernic_bursts);

static void fakernic_burst_add(FakernicState *s)
{
    if (!s->in_burst) {
        s->in_burst = true;
        QTAILQ_INSERT_TAIL(&fakernic_bursts, s, burst);
    }
}

static void fakernic_burst_remove(FakernicState *s)
{
    if (s->in_burst) {
        s->in_burst = false;
        QTAILQ_REMOVE(&fakernic_bursts, s, burst);
    }
}

/*
 * Runs once, when the device is unplugged and has left the stack. Only the
 * outermost door may still be there. Its caller may read the device (the
 * reentrancy guard) afterwards, so a bottom half frees the memory. A function
 * of a card with VFs calls all of this from a bottom half, because the switch
 * may be on the stack without a door of this function.
 */
static void fakernic_end(void *opaque)
{
    FakernicState *s = opaque;
    FakernicLink *link;

    /* A frame in the netdev's queue would call fakernic_sent() later. */
    qemu_purge_queued_packets(qemu_get_queue(s->nic));
    link = s->nic->peer_deleted || s->card ? NULL : s->link;
    qemu_del_nic(s->nic);
    s->nic = NULL;
    s->link = NULL;
    if (link) {
        fakernic_link_free(link);
    }
    fakernic_card_close_port(s);
    aio_bh_schedule_oneshot(qemu_get_aio_context(), fakernic_end_some, s);
}

static void fakernic_leave(FakernicState *s)
{
    s->working--;
    if (s->inside == 1) {
        fakernic_turn_step(s, "a door");
        fakernic_life_settle(s);
        fakernic_step_end(s, "a reset");
        if (s->kicked && !s->behind && fakernic_is_running(s) &&
            fakernic_card_may_turn(s)) {
            fakernic_give_turn(s);
        }
        fakernic_interrupts_send(s);
        fakernic_life_settle(s);
        if (!s->kicked && fakernic_is_running(s)) {
            fakernic_renew(s);          /* no turn follows to renew it */
        }
        fakernic_postpone(s);
    }
    s->inside--;
    if (!s->inside && !fakernic_is_plugged(s) && !s->card) {
        fakernic_end(s);
    }
}

/*
 * Leaves a door of the net layer. Its caller still uses the NIC, so there is no
 * turn, and the end waits until the caller has returned.
 */
static void fakernic_leave_net(FakernicState *s)
{
    s->working--;
    s->inside--;
    if (!s->inside && !fakernic_is_plugged(s)) {
        if (!s->card) {
            aio_bh_schedule_oneshot(qemu_get_aio_context(), fakernic_end, s);
        }
    } else {
        fakernic_kick(s);
        fakernic_burst_add(s);
    }
}

/*
 * Asks the netdev for the frames that it has queued. A multi-queue tap spreads
 * flows over its queues, and each queue waits until it is asked.
 */
static void fakernic_frames_ask(FakernicState *s)
{
    const int queues = MAX(s->nic->conf->peers.queues, 1);

    s->frames_wait = false;
    for (int i = 0; i < queues; i++) {
        qemu_flush_queued_packets(qemu_get_subqueue(s->nic, i));
    }
}

/* Resumes deferred work: a reset, frames at the netdev, then a turn. */
static void fakernic_run_deferred(FakernicState *s)
{
    if (!fakernic_enter(s)) {
        return;
    }
    s->behind = false;
    /* No turn renews the budget then, and dropping a frame needs one, too. */
    if (!fakernic_is_running(s)) {
        fakernic_renew(s);
    }
    if (s->frames_wait && fakernic_takes_frames(s)) {
        fakernic_frames_ask(s);
    }
    fakernic_leave(s);
}

static void fakernic_bottom_half(void *opaque)
{
    FakernicState *s = opaque;

    if (s->waits || (s->card && s->held & FAKERNIC_HELD_RESET)) {
        fakernic_card_wait(s);  /* a reset may take several turns, too */
        return;
    }
    s->activity.did[FAKERNIC_DID_BOTTOM_HALF]++;
    fakernic_run_deferred(s);
}

/* Runs the deferred work of one function of a card. */
static void fakernic_card_bottom_half(void *opaque)
{
    FakernicState *pf = opaque;
    FakernicState *s = fakernic_card_next(pf->card);

    if (s) {
        s->activity.did[FAKERNIC_DID_BOTTOM_HALF]++;
        fakernic_run_deferred(s);
    }
}

/* ---- the guest ----------------------------------------------------------- */

static uint64_t fakernic_register_read(void *opaque, hwaddr offset,
                                       unsigned size)
{
    FakernicState *s = opaque;

    s->activity.register_loads[MIN(offset, FAKERNIC_REG_END) / 4]++;
    return fakernic_is_plugged(s)
               ? fakernic_register_load(s, offset, size)
               : MAKE_64BIT_MASK(0, 8 * size);
}

static void fakernic_register_write(void *opaque, hwaddr offset,
                                    uint64_t value, unsigned size)
{
    FakernicState *s = opaque;

    s->activity.register_stores[MIN(offset, FAKERNIC_REG_END) / 4]++;
    if (s->held & FAKERNIC_HELD_STOPPED) {
        /* Another device's DMA: vCPUs stop before the device does. */
        FAKERNIC_GUEST_ERR("register store while the VM is stopped");
        return;
    }
    if (fakernic_enter(s)) {
        fakernic_register_store(s, offset, value, size);
        fakernic_leave(s);
    }
}

const MemoryRegionOps fakernic_register_door = {
    .read = fakernic_register_read,
    .write = fakernic_register_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static uint64_t fakernic_doorbell_read(void *opaque, hwaddr offset,
                                       unsigned size)
{
    FakernicState *s = opaque;

    s->activity.did[FAKERNIC_DID_DOORBELL_LOAD]++;
    return fakernic_is_plugged(s)
               ? fakernic_doorbell_load(s, offset, size)
               : MAKE_64BIT_MASK(0, 8 * size);
}

static FakernicDid fakernic_doorbell_at(hwaddr offset)
{
    switch (offset % FAKERNIC_PAGE_SIZE) {
    case FAKERNIC_DOORBELL_SQ:
        return FAKERNIC_DID_DOORBELL_SQ;
    case FAKERNIC_DOORBELL_CQ_ARM:
        return FAKERNIC_DID_DOORBELL_CQ_ARM;
    case FAKERNIC_DOORBELL_EQ:
        return FAKERNIC_DID_DOORBELL_EQ;
    case FAKERNIC_DOORBELL_POLL:
        return FAKERNIC_DID_DOORBELL_POLL;
    default:
        return FAKERNIC_DID_DOORBELL_OTHER;
    }
}

static void fakernic_doorbell_write(void *opaque, hwaddr offset, uint64_t word,
                                    unsigned size)
{
    FakernicState *s = opaque;

    s->activity.did[fakernic_doorbell_at(offset)]++;
    if (fakernic_enter(s)) {
        fakernic_doorbell_store(s, offset, word, size);
        fakernic_leave(s);
    }
}

const MemoryRegionOps fakernic_doorbell_door = {
    .read = fakernic_doorbell_read,
    .write = fakernic_doorbell_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8 },
    .impl = { .min_access_size = 1, .max_access_size = 8 },
};

/*
 * QEMU owns the MSI-X table and the pending bits. It frees them at the unplug
 * and asserts that nothing accesses them later, so these doors go in front.
 */
static const MemoryRegionOps *fakernic_table_ops, *fakernic_pending_ops;

static uint64_t fakernic_table_read(void *opaque, hwaddr offset, unsigned size)
{
    FakernicState *s = opaque;

    s->activity.did[FAKERNIC_DID_MSIX]++;
    return fakernic_is_plugged(s)
               ? fakernic_table_ops->read(opaque, offset, size)
               : MAKE_64BIT_MASK(0, 8 * size);
}

static void fakernic_table_write(void *opaque, hwaddr offset, uint64_t value,
                                 unsigned size)
{
    FakernicState *s = opaque;

    s->activity.did[FAKERNIC_DID_MSIX]++;
    if (fakernic_is_plugged(s)) {
        fakernic_table_ops->write(opaque, offset, value, size);
    }
}

static uint64_t fakernic_pending_read(void *opaque, hwaddr offset,
                                      unsigned size)
{
    return fakernic_is_plugged(opaque)
               ? fakernic_pending_ops->read(opaque, offset, size)
               : MAKE_64BIT_MASK(0, 8 * size);
}

void fakernic_msix_doors(PCIDevice *pci)
{
    static MemoryRegionOps table, pending;

    if (!fakernic_table_ops) {
        fakernic_table_ops = pci->msix_table_mmio.ops;
        table = *fakernic_table_ops;
        table.read = fakernic_table_read;
        table.write = fakernic_table_write;
        fakernic_pending_ops = pci->msix_pba_mmio.ops;
        pending = *fakernic_pending_ops;
        pending.read = fakernic_pending_read;
    }
    pci->msix_table_mmio.ops = &table;
    pci->msix_pba_mmio.ops = &pending;
}

/* ---- the wire ------------------------------------------------------------ */

static void fakernic_bursts_end(Notifier *notifier, void *data)
{
    const MainLoopPoll *poll = data;
    FakernicState *s;
    unsigned count = 0;

    if (poll->state == MAIN_LOOP_POLL_FILL) {
        fakernic_card_round();
    }
    QTAILQ_FOREACH(s, &fakernic_bursts, burst) {
        count++;
    }
    /*
     * A turn may add devices, which have their bottom half, or unplug any. So
     * the loop takes the first device each time, and no more than were listed.
     */
    while (count-- && (s = QTAILQ_FIRST(&fakernic_bursts))) {
        fakernic_burst_remove(s);
        if (!s->behind && s->kicked) {
            qemu_bh_cancel(s->bh);
            fakernic_run_deferred(s);
        }
    }
}

/* True for an unplugged device: fakernic_receive() drops the frame. */
static bool fakernic_can_receive(NetClientState *nc)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    if (fakernic_is_plugged(s) && !fakernic_takes_frames(s)) {
        s->frames_wait = true;
        return false;
    }
    return true;
}

static ssize_t fakernic_receive(NetClientState *nc, const uint8_t *frame,
                                size_t len)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    if (!fakernic_can_receive(nc)) {
        return 0;               /* "not now" */
    }
    trace_fakernic_rx_frame(s->name, len, fakernic_is_running(s));
    if (fakernic_is_running(s) && fakernic_enter(s)) {
        fakernic_step_begin(s);
        fakernic_port_input(s, frame, len);
        fakernic_turn_lasts(s, 1);
        fakernic_turn_step(s, "a received frame");
        fakernic_turn_received(s);
        fakernic_leave_net(s);
    }
    /* 0 means "not now" and would block the queue behind an empty frame. */
    return len ? len : -1;
}

/* The netdev takes frames again. */
static void fakernic_sent(NetClientState *nc, ssize_t len)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    if (fakernic_enter(s)) {
        fakernic_port_sent(s);
        fakernic_leave_net(s);
    }
}

static void fakernic_link_status_changed(NetClientState *nc)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    if (fakernic_enter(s)) {
        trace_fakernic_link(s->name, !nc->link_down);
        fakernic_port_link_changed(s);
        fakernic_leave_net(s);
    }
}

static NetClientInfo fakernic_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .can_receive = fakernic_can_receive,
    .receive = fakernic_receive,
    .link_status_changed = fakernic_link_status_changed,
};

/* ---- the embedded switch ------------------------------------------------- */

/* The function sends a frame; 0: it waits. */
static ssize_t fakernic_port_receive(NetClientState *nc, const uint8_t *frame,
                                     size_t len)
{
    FakernicPort *port = DO_UPCAST(FakernicPort, nc, nc);

    if (fakernic_is_plugged(port->function) &&
        !fakernic_card_from_function(port, frame, len)) {
        return 0;
    }
    return len ? len : -1;
}

/* QEMU has no name for this backend type; "info network" shows it. */
static NetClientInfo fakernic_port_info = {
    .type = NET_CLIENT_DRIVER_SOCKET,
    .size = sizeof(FakernicPort),
    .receive = fakernic_port_receive,
};

/* The function takes frames again. */
static void fakernic_port_taken(NetClientState *nc, ssize_t len)
{
    FakernicPort *port = DO_UPCAST(FakernicPort, nc, nc);

    if (fakernic_is_plugged(port->function)) {
        fakernic_card_ready(port->card, port->function->vport);
    }
}

static ssize_t fakernic_uplink_receive(NetClientState *nc, const uint8_t *frame,
                                       size_t len)
{
    FakernicState *pf = qemu_get_nic_opaque(nc);

    if (fakernic_is_plugged(pf)) {
        fakernic_card_from_wire(pf->card, frame, len);
    }
    return len ? len : -1;
}

/* The wire takes frames again. */
static void fakernic_uplink_sent(NetClientState *nc, ssize_t len)
{
    FakernicState *pf = qemu_get_nic_opaque(nc);

    if (fakernic_is_plugged(pf)) {
        fakernic_card_ready(pf->card, ESWITCH_UPLINK);
    }
}

static void fakernic_uplink_status_changed(NetClientState *nc)
{
    FakernicState *pf = qemu_get_nic_opaque(nc);

    if (fakernic_is_plugged(pf)) {
        fakernic_card_link_changed(pf->card);
    }
}

static NetClientInfo fakernic_uplink_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .receive = fakernic_uplink_receive,
    .link_status_changed = fakernic_uplink_status_changed,
};

/* A function's rate allows a frame again. */
static void fakernic_rate_timer(void *opaque)
{
    FakernicState *pf = opaque;

    if (fakernic_is_plugged(pf)) {
        fakernic_card_tick(pf->card);
    }
}

/* The name of a function's NIC, whose card may have no id. */
static char *fakernic_nic_name(const FakernicState *s)
{
    const char *id = DEVICE(s->card->functions[ESWITCH_PF])->id;

    if (!id) {
        return NULL;
    }
    return s->vport == ESWITCH_PF ? g_strdup_printf("%s.pf", id) :
           g_strdup_printf("%s.vf%u", id, s->vport - 1);
}

static void fakernic_uplink_open(FakernicState *pf)
{
    FakernicCard *card = pf->card;

    card->reset = fakernic_reset;
    card->sent = fakernic_uplink_sent;
    card->taken = fakernic_port_taken;
    card->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, fakernic_rate_timer, pf);
    card->bh = qemu_bh_new(fakernic_card_bottom_half, pf);
    card->uplink = qemu_new_nic(&fakernic_uplink_info, &pf->conf, TYPE_FAKERNIC,
                                DEVICE(pf)->id, &card->guard, pf);
    qemu_format_nic_info_str(qemu_get_queue(card->uplink), pf->conf.macaddr.a);
}

static void fakernic_nic_open(FakernicState *s)
{
    DeviceState *dev = DEVICE(s);
    g_autofree char *name = s->card ? fakernic_nic_name(s) : g_strdup(dev->id);
    NICConf *conf = &s->conf;

    if (s->card && s->vport == ESWITCH_PF) {
        fakernic_uplink_open(s);
    }
    if (s->card) {
        fakernic_card_open_port(s, &fakernic_port_info);
        conf = &s->port->conf;
    }
    s->nic = qemu_new_nic(&fakernic_net_info, conf, TYPE_FAKERNIC, name,
                          &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
}

void fakernic_appear(FakernicState *s, bool appears)
{
    if (!fakernic_is_plugged(s)) {
        return;
    }
    fakernic_hold(s, FAKERNIC_HELD_ABSENT, !appears);
    fakernic_card_update(s);
    if (!appears && s->frames_wait) {
        fakernic_frames_ask(s);         /* which drops them */
    }
}

/* ---- the medium ---------------------------------------------------------- */

/* The thread has ended: the flushed data is persistent. */
static void fakernic_persisted(void *opaque, int error)
{
    FakernicState *s = fakernic_persist_done(opaque, error);

    if (fakernic_is_plugged(s)) {
        fakernic_kick(s);
    } else {
        fakernic_persist_forget(s);
    }
}

/* ---- time, and the VM ---------------------------------------------------- */

static void fakernic_timer(void *opaque)
{
    FakernicState *s = opaque;

    if (fakernic_enter(s)) {
        fakernic_clock_fired(s);
        fakernic_thaw(s);
        fakernic_kick(s);
        fakernic_leave(s);
    }
}

static void fakernic_vm_state(void *opaque, bool running, RunState state)
{
    FakernicState *s = opaque;

    if (fakernic_is_plugged(s)) {
        if (running && s->saved.loading) {
            /* A load has failed, and a user resumes the VM all the same. */
            s->saved.loading = false;
            fakernic_reset(s);
        }
        fakernic_hold(opaque, FAKERNIC_HELD_STOPPED, !running);
    }
}

void fakernic_configured(FakernicState *s)
{
    const PCIDevice *pci = PCI_DEVICE(s);

    if (fakernic_is_plugged(s)) {
        const uint8_t *pmcsr = pci->config + pci->pm_cap + PCI_PM_CTRL;

        fakernic_hold(s, FAKERNIC_HELD_FROZEN,
                      pci_get_word(pmcsr) & PCI_PM_CTRL_STATE_MASK);
    }
}

/* ---- realize and unplug -------------------------------------------------- */

void fakernic_doors_open(FakernicState *s)
{
    static Notifier bursts_end = { .notify = fakernic_bursts_end };
    DeviceState *dev = DEVICE(s);

    if (!bursts_end.node.le_prev) {
        main_loop_poll_add_notifier(&bursts_end);
    }
    fakernic_clock_init(s, fakernic_timer);
    s->bh = qemu_bh_new_guarded(fakernic_bottom_half, s,
                                &dev->mem_reentrancy_guard);
    s->sent = fakernic_sent;
    s->persisted = fakernic_persisted;
    fakernic_nic_open(s);
    s->held = runstate_is_running() ? 0 : FAKERNIC_HELD_STOPPED;
    s->vm_state = qemu_add_vm_change_state_handler(fakernic_vm_state, s);
}

void fakernic_doors_close(FakernicState *s)
{
    fakernic_hold(s, FAKERNIC_HELD_LEAVING, true);
    if (!s->nic) {
        return;                 /* a VF that was never enabled */
    }
    fakernic_card_update(s);
    fakernic_burst_remove(s);
    fakernic_card_wait_ends(s);
    qemu_del_vm_change_state_handler(s->vm_state);
    qemu_bh_delete(s->bh);
    s->bh = NULL;
    fakernic_clock_cleanup(s);
    object_ref(OBJECT(s));
    if (s->card) {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), fakernic_end, s);
    } else if (!s->inside) {
        fakernic_end(s);
    }
}
