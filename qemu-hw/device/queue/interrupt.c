/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts: MSI-X vectors are raised anywhere, sent from one place.
 *
 * The engine and the queues only raise vectors. Sending a message may reset the
 * device or unplug it, so it must not happen in the middle of their work.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/host-utils.h"
#include "hw/pci/msix.h"
#include "../budget.h"
#include "interrupt.h"
#include "../state.h"
#include "../fault/gate.h"
#include "../../trace.h"

/* Units of a message. They are enough to make the budget read the clock: the
 * store may ring another device's doorbell, which takes as long as its turn. */
#define FAKERNIC_INTERRUPT_WORK 16

void fakernic_interrupt(FakernicState *s, unsigned vector)
{
    s->interrupts |= BIT_ULL(vector);
}

/*
 * A message is a store to an address that the guest chooses. That may be this
 * device's BARs (the reentrancy guard refuses it), its configuration space (a
 * Function Level Reset), its slot (power off unplugs it), or the doorbell of
 * another NIC, whose frame arrives here at once. So the state must be checked
 * again after each message.
 */
static void fakernic_interrupt_send(FakernicState *s, unsigned vector)
{
    MemReentrancyGuard *guard = &DEVICE(s)->mem_reentrancy_guard;
    bool engaged = guard->engaged_in_io;

    trace_fakernic_interrupt(s->name, vector);
    fakernic_record(s, INTERRUPT, 0, vector);
    s->activity.did[FAKERNIC_DID_INTERRUPT]++;
    guard->engaged_in_io = true;
    msix_notify(PCI_DEVICE(s), vector);
    guard->engaged_in_io = engaged;
    fakernic_spend(s, FAKERNIC_INTERRUPT_WORK);
}

void fakernic_interrupts_send(FakernicState *s)
{
    uint64_t vectors = s->interrupts;

    /* A reset clears s->interrupts, but not 'vectors'. */
    for (; vectors && !s->held && fakernic_budget_left(s);
         vectors &= s->interrupts) {
        unsigned vector = ctz64(vectors);

        vectors &= ~BIT_ULL(vector);
        s->interrupts &= ~BIT_ULL(vector);
        if (msix_enabled(PCI_DEVICE(s)) &&
            fakernic_gate_interrupt(s, vector)) {
            fakernic_interrupt_send(s, vector);
        }
    }
}
