/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Effects of fault rules that need the upper files: fatal errors, freezes,
 * removal from the bus, AER, the state of the link, and the release of held
 * items into the stations where they would have gone.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/cutils.h"
#include "hw/pci/pcie.h"
#include "../bar.h"
#include "../clock.h"
#include "../life.h"
#include "../port/port.h"
#include "../queue/cq.h"
#include "../queue/eq.h"
#include "../queue/interrupt.h"
#include "release.h"
#include "../state.h"

/* ---- the whole device ---------------------------------------------------- */

/* Injects a PCI Express error (AER). */
static void fakernic_aer(FakernicState *s, RoceFaultSeverity severity)
{
    static const PCIEAERErr errors[] = {
        [ROCE_FAULT_CORRECTABLE] = { .status = PCI_ERR_COR_RCVR,
                                     .flags = PCIE_AER_ERR_IS_CORRECTABLE },
        [ROCE_FAULT_NONFATAL] = { .status = PCI_ERR_UNC_POISON_TLP },
        [ROCE_FAULT_FATAL_ERROR] = { .status = PCI_ERR_UNC_SDN },
    };
    PCIEAERErr error = errors[severity];

    error.source_id = pci_requester_id(PCI_DEVICE(s));
    pcie_aer_inject_error(PCI_DEVICE(s), &error);
}

void fakernic_thaw(FakernicState *s)
{
    if (!(s->held & FAKERNIC_HELD_FAULT)) {
        return;
    }
    if (fakernic_now() < s->faults.thaw) {
        fakernic_clock_set(s, s->faults.thaw);
        return;
    }
    s->faults.frozen_by[0] = '\0';
    fakernic_hold(s, FAKERNIC_HELD_FAULT, false);
}

/* The rule that this turn of the device hits, or NULL. */
static const RoceFaultRule *fakernic_release_rule(FakernicState *s)
{
    FakernicFaults *f = &s->faults;
    RoceFaultSubject subject = { .point = ROCE_FAULT_DEVICE };
    const RoceFaultRule *rule = fakernic_fault_hit(s, &subject);
    const RoceTime until = rule && rule->for_ns ? subject.now + rule->for_ns
                                                : ROCE_TIME_NEVER;

    if (rule && rule->act == ROCE_FAULT_FREEZE) {
        pstrcpy(f->frozen_by, sizeof(f->frozen_by), rule->id);
        f->thaw = until;
    } else if (rule && rule->act == ROCE_FAULT_LINK_DOWN) {
        pstrcpy(f->link_by, sizeof(f->link_by), rule->id);
        f->link_until = until;
    }
    return rule;
}

/* True, once: the time for which a rule took the link down has ended. */
static bool fakernic_release_link_back(FakernicState *s)
{
    FakernicFaults *f = &s->faults;

    if (!f->link_until || fakernic_now() < f->link_until) {
        return false;
    }
    f->link_until = 0;
    f->link_by[0] = '\0';
    return true;
}

/* Applies a fault rule that acts on the whole device. */
static void fakernic_release_apply(FakernicState *s)
{
    const bool link_up = fakernic_port_link_up(s);
    const RoceFaultRule *rule = fakernic_release_rule(s);

    switch (rule ? rule->act : ROCE_FAULT_COUNT) {
    case ROCE_FAULT_FATAL:
        fakernic_fatal(s, rule->code ? rule->code : FAKERNIC_FATAL_FAULT);
        break;
    case ROCE_FAULT_FREEZE:
        fakernic_hold(s, FAKERNIC_HELD_FAULT, true);
        fakernic_thaw(s);
        break;
    case ROCE_FAULT_DEAD:
        fakernic_hold(s, FAKERNIC_HELD_DEAD, true);
        break;
    case ROCE_FAULT_AER:
        fakernic_aer(s, rule->severity);
        break;
    case ROCE_FAULT_LINK_DOWN:
        /* A rule that hits every turn must raise one event only. */
        if (link_up) {
            fakernic_port_link_changed(s);
        }
        break;
    default:
        break;
    }
}

void fakernic_release_turn(FakernicState *s)
{
    if (roce_fault_at(&s->faults.rules, ROCE_FAULT_DEVICE)) {
        fakernic_release_apply(s);
    }
    if (fakernic_release_link_back(s)) {
        fakernic_port_link_changed(s);
    }
}

/* ---- held items ---------------------------------------------------------- */

static void fakernic_release_frame(FakernicState *s, FakernicHeld *held)
{
    if (held->point == ROCE_FAULT_TX) {
        fakernic_port_emit(s, held->frame, held->len, held->loopback);
    } else if (held->loopback) {
        roce_input(s->roce, fakernic_now(), held->frame, held->len);
    } else {
        fakernic_port_take(s, held->frame, held->len);
    }
}

/* Resumes an EQ that a fault rule stalled, if it still exists. */
static void fakernic_resume_eq(FakernicState *s, uint32_t eqn)
{
    FakernicEq *eq = fakernic_table_get(&s->eqs, eqn);

    if (eq) {
        fakernic_eq_flush(s, eq);
    }
}

/* Resumes an SQ that a fault rule stalled: the engine fetches its next WQE. */
static void fakernic_resume_sq(FakernicState *s, uint32_t qpn)
{
    if (fakernic_qp(s, qpn)) {
        roce_post_send(s->roce, fakernic_now(), qpn);
    }
}

/* Releases one item that a fault rule held; false: none is due. */
static bool fakernic_release_item(FakernicState *s, FakernicGoes which)
{
    g_autofree FakernicHeld *held = fakernic_fault_due(s, fakernic_now(),
                                                       which);

    if (!held) {
        return false;
    }
    switch (held->point) {
    case ROCE_FAULT_DOORBELL:
        fakernic_doorbell_hear(s, held->offset, held->word);
        break;
    case ROCE_FAULT_CMD_DOORBELL:
        fakernic_cmdq_doorbell_late(s, held->word);
        break;
    case ROCE_FAULT_CQE:
        fakernic_cq_put(s, &held->completion, &held->fault);
        break;
    case ROCE_FAULT_EQE:
        fakernic_resume_eq(s, held->number);
        break;
    case ROCE_FAULT_SEND_WQE:
        fakernic_resume_sq(s, held->number);
        break;
    case ROCE_FAULT_INTERRUPT:
        s->faults.judged |= BIT_ULL(held->number);
        fakernic_interrupt(s, held->number);
        break;
    default:
        fakernic_release_frame(s, held);
        break;
    }
    return true;
}

/* While the wire is blocked, frames for it stay held. */
static FakernicGoes fakernic_release_which(FakernicState *s)
{
    return fakernic_port_must_wait(s) ? FAKERNIC_GOES_UNSENT
                                      : FAKERNIC_GOES_ALL;
}

bool fakernic_release_next(FakernicState *s)
{
    return fakernic_release_item(s, fakernic_release_which(s));
}

bool fakernic_release_received(FakernicState *s)
{
    return fakernic_release_item(s, FAKERNIC_GOES_RECEIVED);
}

RoceTime fakernic_release_deadline(FakernicState *s)
{
    return fakernic_fault_deadline(s, fakernic_release_which(s));
}
