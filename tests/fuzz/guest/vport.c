/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PF of the virtual function: its driver, which sets the VF's vport, and
 * other software that writes to its SR-IOV registers or resets it. The VF may
 * be absent afterwards, until an input restores PCI registers.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_bridge.h"
#include "hw/pci/pci_bus.h"
#include "guest.h"

#define VF_ENABLE (PCI_SRIOV_CTRL_VFE | PCI_SRIOV_CTRL_MSE)
/* The memory behind the port: the second and third part for BARs. */
#define WINDOW 0xe2f0e100
#define NO_WINDOW 0x0000fff0
#define TYPE_VLAN 0x8100
#define TYPE_SERVICE 0x88a8

static void sriov_write(Nic *pf, unsigned place, uint32_t value, int size)
{
    pf->pci->config_write(pf->pci, pf->pci->exp.sriov_cap + place, value, size);
}

void vport_prepare(Nic *pf)
{
    PCIDevice *port = pci_bridge_get_device(pci_get_bus(pf->pci));

    port->config_write(port, PCI_PRIMARY_BUS, 0x00010100, 4);
    port->config_write(port, PCI_MEMORY_BASE, WINDOW, 4);
    port->config_write(port, PCI_PREF_MEMORY_BASE, NO_WINDOW, 4);
    port->config_write(port, PCI_COMMAND,
                       PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 2);
}

static const struct {
    unsigned place;             /* in the capability */
    uint32_t address;
} vf_bars[] = {
    { PCI_SRIOV_BAR + 4 * FAKERNIC_BAR_REGS, BAR_REGS_AT + VF * BAR_STRIDE },
    { PCI_SRIOV_BAR + 4 * FAKERNIC_BAR_MSIX, BAR_MSIX_AT + VF * BAR_STRIDE },
    { PCI_SRIOV_BAR + 4 * FAKERNIC_BAR_UAR, BAR_UAR_AT + VF * BAR_STRIDE },
};

static bool vf_is_mapped(Nic *vf, Nic *pf)
{
    const uint8_t *cap = pf->pci->config + pf->pci->exp.sriov_cap;

    for (unsigned i = 0; i < ARRAY_SIZE(vf_bars); i++) {
        const uint64_t bar = pci_get_quad(cap + vf_bars[i].place);

        if ((bar & PCI_BASE_ADDRESS_MEM_MASK) != vf_bars[i].address) {
            return false;
        }
    }
    return vf->pci->enabled && pci_get_word(cap + PCI_SRIOV_CTRL) == VF_ENABLE;
}

void vf_restore_pci(Nic *vf, Nic *pf)
{
    const uint16_t command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;

    if (!vf_is_mapped(vf, pf)) {
        sriov_write(pf, PCI_SRIOV_CTRL, 0, 2);
        sriov_write(pf, PCI_SRIOV_NUM_VF, 1, 2);
        for (unsigned i = 0; i < ARRAY_SIZE(vf_bars); i++) {
            sriov_write(pf, vf_bars[i].place, vf_bars[i].address, 4);
            sriov_write(pf, vf_bars[i].place + 4, 0, 4);
        }
        sriov_write(pf, PCI_SRIOV_CTRL, VF_ENABLE, 2);
        GUEST_CHECK(vf_is_mapped(vf, pf));
    }
    if (pci_get_word(vf->pci->config + PCI_COMMAND) != command ||
        !msix_enabled(vf->pci)) {
        vf->pci->config_write(vf->pci, PCI_COMMAND, command, 2);
        vf->pci->config_write(vf->pci, vf->pci->msix_cap + PCI_MSIX_FLAGS,
                              PCI_MSIX_FLAGS_ENABLE, 2);
    }
}

void vport_restart(Guest *g)
{
    const struct fakernic_set_vport_req req = {
        .vport = LE16(1),
        .mask = LE32(FAKERNIC_VPORT_MAC | FAKERNIC_VPORT_VLAN |
                     FAKERNIC_VPORT_LINK | FAKERNIC_VPORT_SPOOF_CHECK |
                     FAKERNIC_VPORT_TRUST | FAKERNIC_VPORT_RSS_QUERY |
                     FAKERNIC_VPORT_RATE),
        .settings = {
            .mac = { 2, 0, 0, 0, 0, g->nic[VF].number },
            .vlan_proto = LE16(TYPE_VLAN),
            .spoof_check = 1,
        },
    };

    nic_restart(&g->nic[PF]);
    nic_enable(&g->nic[PF], 0);
    GUEST_CHECK(nic_command(g, &g->nic[PF], FAKERNIC_CMD_SET_VPORT, &req,
                            sizeof(req), NULL, 0) == FAKERNIC_CMD_OK);
    /* Its address counts from here on. */
    nic_restart(&g->nic[VF]);
}

/* ---- commands ------------------------------------------------------------ */

static void make_set(struct fakernic_set_vport_req *req, const FuzzRecord *r)
{
    *req = (struct fakernic_set_vport_req) {
        .vport = LE16(r->c & 0x8000 ? r->c & 0xff : 1),
        .mask = LE32(r->d & 0x7f),
        .settings = {
            .mac = { 2, 0, 0, 0, 0, r->c & 3 },
            .vid = LE16(r->e & 1 ? r->e >> 4 & 3 : 0),
            .vlan_proto = LE16(r->e & 2 ? TYPE_SERVICE : TYPE_VLAN),
            .qos = r->e >> 8 & 7,
            .link = (r->e >> 12) % 3,
            .spoof_check = r->e >> 20 & 1,
            .trust = r->e >> 21 & 1,
            .rss_query = r->e >> 22 & 1,
            .min_mbps = LE32(r->f & 0xff),
            .max_mbps = LE32(r->f >> 8 & 0xfff),
        },
    };
}

static int run_vport(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    struct fakernic_id id = { .id = LE32(r->c & 0x8000 ? r->e : r->c & 1) };
    struct fakernic_query_vport_stats_req stats = {
        .address = LE64(nic_page(n, PAGE_DATA) + (r->d & ~7)),
        .length = LE32(8 * (r->c & 0xff)),
        .first = LE16(r->e & 1 ? FAKERNIC_VPORT_UPLINK : r->e >> 1 & 3),
        .counters = LE16(r->e >> 8 & 15),
    };
    struct fakernic_set_vport_req set;

    switch (opcode) {
    case FAKERNIC_CMD_SET_VPORT:
        make_set(&set, r);
        return nic_command(g, n, opcode, &set, sizeof(set), NULL, 0);
    case FAKERNIC_CMD_QUERY_VPORT_STATS:
        return nic_command(g, n, opcode, &stats, sizeof(stats), NULL, 0);
    default:
        return nic_command(g, n, opcode, &id, sizeof(id), NULL, 0);
    }
}

void command_vport(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r)
{
    const bool patched = g->patch.armed;
    const int status = run_vport(g, n, opcode, r);

    /* A patch may change the opcode. */
    GUEST_CHECK(status != FAKERNIC_CMD_OK || patched);
}

/* ---- steps --------------------------------------------------------------- */

/* NumVFs, VF Enable, or any register of the capability behind its header. */
static void step_sriov(Nic *pf, const FuzzRecord *r)
{
    switch (r->c % 3) {
    case 0:
        sriov_write(pf, PCI_SRIOV_NUM_VF, r->e & 3, 2);
        break;
    case 1:
        sriov_write(pf, PCI_SRIOV_CTRL, r->e, 2);
        break;
    default:
        sriov_write(pf, 4 + r->d % (PCI_EXT_CAP_SRIOV_SIZEOF - 4) / 4 * 4, r->e,
                    4);
        break;
    }
}

/* The PF's driver starts again after its reset. */
static void step_pf_reset(Nic *pf, bool flr)
{
    const uint32_t control = pf->pci->exp.exp_cap + PCI_EXP_DEVCTL;

    if (flr) {
        pf->pci->config_write(pf->pci, control, PCI_EXP_DEVCTL_BCR_FLR, 2);
        nic_restore_pci(pf);
    } else {
        reg_write(pf, FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
    }
    guest_settle();
    nic_enable(pf, 0);
}

void step_vport(Guest *g, const FuzzRecord *r)
{
    Nic *pf = &g->nic[PF];

    switch (r->b % 8) {
    case 0:
        run_vport(g, pf, FAKERNIC_CMD_QUERY_VPORT, r);
        break;
    case 1:
        run_vport(g, pf, FAKERNIC_CMD_QUERY_VPORT_STATS, r);
        break;
    case 2:
        run_vport(g, pf, FAKERNIC_CMD_RESET_VPORT, r);
        break;
    case 3:
        step_sriov(pf, r);
        break;
    case 4:
        step_pf_reset(pf, r->c & 1);
        break;
    default:
        run_vport(g, pf, FAKERNIC_CMD_SET_VPORT, r);
        break;
    }
}
