/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts: MSI-X vectors are raised anywhere, sent from one place.
 *
 * The engine and the queues only raise: they are in the middle of something.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/host-utils.h"
#include "hw/pci/msix.h"
#include "budget.h"
#include "interrupt.h"
#include "record.h"
#include "state.h"
#include "../trace.h"

/* What a message is to the budget: enough that the clock is looked at, as the
 * store may be into the doorbell of another device, and take a turn of its. */
#define FAKERNIC_INTERRUPT_WORK 16

void fakernic_interrupt(FakernicState *s, unsigned vector)
{
    s->interrupts |= BIT_ULL(vector);
}

/*
 * A message is a store to where the guest says. That may be this device's BARs
 * (the guard refuses), its configuration space (a Function Level Reset), the
 * slot it sits in (power off: the device is removed), or the doorbell of
 * another NIC, which sends a frame that arrives here at once. So after each
 * message all is looked at anew.
 */
static void fakernic_interrupt_send(FakernicState *s, unsigned vector)
{
    MemReentrancyGuard *guard = &DEVICE(s)->mem_reentrancy_guard;
    bool engaged = guard->engaged_in_io;

    trace_fakernic_interrupt(s->name, vector);
    fakernic_record(s, INTERRUPT, 0, vector);
    guard->engaged_in_io = true;
    msix_notify(PCI_DEVICE(s), vector);
    guard->engaged_in_io = engaged;
    fakernic_spend(s, FAKERNIC_INTERRUPT_WORK);
}

void fakernic_interrupts_send(FakernicState *s)
{
    uint64_t vectors = s->interrupts;

    /* A vector that a reset took back is in 'vectors' only. */
    for (; vectors && !s->held && fakernic_budget_left(s);
         vectors &= s->interrupts) {
        unsigned vector = ctz64(vectors);

        vectors &= ~BIT_ULL(vector);
        s->interrupts &= ~BIT_ULL(vector);
        if (msix_enabled(PCI_DEVICE(s)) &&
            (!(roce_fault_at(&s->faults.rules, ROCE_FAULT_INTERRUPT) ||
               s->faults.judged) ||
             fakernic_fault_interrupt(s, vector))) {
            fakernic_interrupt_send(s, vector);
        }
    }
}
