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
#include "interrupt.h"
#include "state.h"
#include "../trace.h"

void fakernic_interrupt(FakernicState *s, unsigned vector)
{
    s->interrupts |= BIT_ULL(vector);
}

/*
 * A message is a store to where the guest says. That may be this device's BARs
 * (the guard refuses), its configuration space (a Function Level Reset), or the
 * doorbell of another NIC, which sends a frame that arrives here at once. So
 * this is never called from within the engine.
 */
void fakernic_interrupts_send(FakernicState *s)
{
    PCIDevice *pci = PCI_DEVICE(s);
    MemReentrancyGuard *guard = &DEVICE(s)->mem_reentrancy_guard;
    bool engaged = guard->engaged_in_io;
    uint64_t vectors = s->interrupts;

    s->interrupts = 0;
    while (vectors && msix_enabled(pci)) {
        unsigned vector = ctz64(vectors);

        vectors &= vectors - 1;
        trace_fakernic_interrupt(vector);
        guard->engaged_in_io = true;
        msix_notify(pci, vector);
        guard->engaged_in_io = engaged;
    }
}
