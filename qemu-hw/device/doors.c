/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The doors: every way into the device. A register or a doorbell is stored to, a
 * frame comes in, the link changes, the netdev takes frames again, a deadline
 * has come, the bottom half goes on with what was left.
 *
 * A door lets its station work and then gives the device a turn. No station and
 * no turn calls back up here.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "bar.h"
#include "clock.h"
#include "doors.h"
#include "interrupt.h"
#include "life.h"
#include "port.h"
#include "turn.h"
#include "../trace.h"

/* ---- the guest ---------------------------------------------------------- */

static uint64_t fakernic_register_read(void *opaque, hwaddr offset,
                                       unsigned size)
{
    return fakernic_register_load(opaque, offset, size);
}

static void fakernic_register_write(void *opaque, hwaddr offset,
                                    uint64_t value, unsigned size)
{
    FakernicState *s = opaque;

    fakernic_register_store(s, offset, value, size);
    fakernic_turn(s);
    fakernic_interrupts_send(s);
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
    return fakernic_doorbell_load(opaque, offset, size);
}

static void fakernic_doorbell_write(void *opaque, hwaddr offset, uint64_t word,
                                    unsigned size)
{
    FakernicState *s = opaque;

    fakernic_doorbell_store(s, offset, word, size);
    fakernic_turn(s);
}

const MemoryRegionOps fakernic_doorbell_door = {
    .read = fakernic_doorbell_read,
    .write = fakernic_doorbell_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8 },
    .impl = { .min_access_size = 1, .max_access_size = 8 },
};

/* ---- the wire ------------------------------------------------------------ */

static ssize_t fakernic_receive(NetClientState *nc, const uint8_t *frame,
                                size_t len)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    trace_fakernic_rx_frame(len, fakernic_is_running(s));
    if (fakernic_is_running(s)) {
        fakernic_port_input(s, frame, len);
        fakernic_turn(s);
    }
    /* 0, for an empty frame, would say "not now", and stop the wire for ever. */
    return len ? len : -1;
}

static void fakernic_sent(NetClientState *nc, ssize_t len)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    fakernic_port_sent(s);
    qemu_bh_schedule(s->bh);
}

static void fakernic_link_status_changed(NetClientState *nc)
{
    FakernicState *s = qemu_get_nic_opaque(nc);

    trace_fakernic_link(!nc->link_down);
    if (fakernic_is_running(s)) {
        fakernic_port_link_event(s);
        fakernic_turn(s);
    }
}

static NetClientInfo fakernic_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .receive = fakernic_receive,
    .link_status_changed = fakernic_link_status_changed,
};

/* ---- time ---------------------------------------------------------------- */

static void fakernic_timer(void *opaque)
{
    fakernic_clock_fired(opaque);
    fakernic_turn(opaque);
}

static void fakernic_bottom_half(void *opaque)
{
    fakernic_turn(opaque);
}

/* ---- their life ---------------------------------------------------------- */

void fakernic_doors_open(FakernicState *s)
{
    DeviceState *dev = DEVICE(s);

    fakernic_clock_init(s, fakernic_timer);
    s->bh = qemu_bh_new_guarded(fakernic_bottom_half, s,
                                &dev->mem_reentrancy_guard);
    s->sent = fakernic_sent;
    s->nic = qemu_new_nic(&fakernic_net_info, &s->conf, TYPE_FAKERNIC, dev->id,
                          &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
}

void fakernic_doors_close(FakernicState *s)
{
    /* The netdev may hold a frame of ours, and a way to fakernic_sent(). */
    qemu_purge_queued_packets(qemu_get_queue(s->nic));
    qemu_del_nic(s->nic);
    s->nic = NULL;
    qemu_bh_delete(s->bh);
    fakernic_clock_cleanup(s);
}
