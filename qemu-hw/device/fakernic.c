/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fakernic: a PCI Express RoCEv2 network interface. This file has the QOM type,
 * properties, PCI capabilities, realize and teardown. firmware-spec/ describes
 * the interface to the driver; ../roce/ implements the protocol.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/guest-random.h"
#include "qemu/host-utils.h"
#include "qemu/module.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_bus.h"
#include "hw/pci/pcie.h"
#include "hw/pci/pcie_sriov.h"
#include "net/eth.h"
#include "system/system.h"
#include "budget.h"
#include "card.h"
#include "compat.h"
#include "vcpus.h"
#include "dm.h"
#include "doors.h"
#include "fault/release.h"
#include "life.h"
#include "save.h"
#include "state.h"
#include "watch/rings.h"
#include "objects.h"
#include "watch/qmp.h"
#include "port/port.h"
#include "watch/objects.h"
#include "watch/record.h"
#include "queue/sq.h"
#include "queue/eq.h"
#include "queue/cq.h"
#include "queue/rq.h"
#include "../trace.h"

/* Capabilities in configuration space. */
#define FAKERNIC_PM_OFFSET      0x50
#define FAKERNIC_EXP_OFFSET     0x60
#define FAKERNIC_AER_OFFSET     0x100
/* FAKERNIC_DSN_OFFSET (save.h)  0x150 */
#define FAKERNIC_ARI_OFFSET     0x160
/* The last one: in QEMU 10, a reset of the card clears 4 bytes behind it. */
#define FAKERNIC_SRIOV_OFFSET   0x170

/* VF n of the card at function 0 is function n + 1 of the same bus. */
#define FAKERNIC_VF_OFFSET      1
#define FAKERNIC_VF_STRIDE      1
/* A VF may use this share of the card's memory limit. */
#define FAKERNIC_VF_MEMORY      4
#define FAKERNIC_BAR_TYPE64                                                 \
    (PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64 |         \
     PCI_BASE_ADDRESS_MEM_PREFETCH)

static void fakernic_engine_trace(void *host, RoceTracePoint point,
                                  uint32_t qpn, uint32_t a, uint32_t b)
{
    FakernicState *s = host;

    switch (point) {
    case ROCE_TRACE_SEND_WR:
        trace_fakernic_send_wr(s->name, qpn, a, b);
        break;
    case ROCE_TRACE_RX:
        trace_fakernic_rx(s->name, qpn, a, b);
        fakernic_record(s, RX, 0, qpn, a, b);
        break;
    case ROCE_TRACE_DROP:
        trace_fakernic_ub_drop(s->name, qpn, a, b);
        fakernic_record(s, DROP, 0, qpn, a, b);
        break;
    case ROCE_TRACE_NAK_TX:
        trace_fakernic_err_nak_tx(s->name, qpn, a, b);
        fakernic_record(s, NAK_TX, 0, qpn, a, b);
        break;
    case ROCE_TRACE_NAK_RX:
        trace_fakernic_err_nak_rx(s->name, qpn, a, b);
        fakernic_record(s, NAK_RX, 0, qpn, a, b);
        break;
    case ROCE_TRACE_RETRY:
        trace_fakernic_err_retry(s->name, qpn, a, b);
        fakernic_record(s, RETRY, 0, qpn, a, b);
        break;
    case ROCE_TRACE_TIMEOUT:
        trace_fakernic_err_timeout(s->name, qpn, a, b);
        fakernic_record(s, TIMEOUT, 0, qpn, a, b);
        break;
    case ROCE_TRACE_PROBE:
        trace_fakernic_err_probe(s->name, qpn, a, b);
        fakernic_record(s, PROBE, 0, qpn, a, b);
        break;
    case ROCE_TRACE_QP_STATE:
        trace_fakernic_qp_state(s->name, qpn, a, b);
        fakernic_record(s, QP_STATE, 0, qpn, a, b);
        break;
    case ROCE_TRACE_QP_ERROR:
        trace_fakernic_err_qp(s->name, qpn, a);
        fakernic_record(s, QP_ERROR, 0, qpn, a);
        fakernic_record_keep(s, false);
        break;
    }
}

static const RoceHostOps fakernic_host_ops = {
    .dma_read = fakernic_memory_read,
    .dma_write = fakernic_memory_write,
    .dma_atomic = fakernic_memory_atomic,
    .dma_flush = fakernic_memory_flush,
    .next_send = fakernic_next_send,
    .next_recv = fakernic_next_recv,
    .recv_count = fakernic_recv_count,
    .xrc_srq = fakernic_xrc_srq,
    .page_request = fakernic_page_request,
    .complete = fakernic_complete,
    .event = fakernic_engine_event,
    .trace = fakernic_engine_trace,
};

static uint32_t fakernic_read_config(PCIDevice *pci, uint32_t address, int len)
{
    if (fakernic_is_plugged(FAKERNIC(pci))) {
        FAKERNIC(pci)->activity.did[FAKERNIC_DID_CONFIG_LOAD]++;
    }
    return pci_default_read_config(pci, address, len);
}

static void fakernic_write_config(PCIDevice *pci, uint32_t address,
                                  uint32_t value, int len)
{
    FAKERNIC(pci)->activity.did[FAKERNIC_DID_CONFIG_STORE]++;
    pci_default_write_config(pci, address, value, len);
    /* Unmasking sends pending messages; one may have unplugged the device. */
    if (fakernic_is_plugged(FAKERNIC(pci))) {
        pcie_cap_flr_write_config(pci, address, value, len);
        pcie_aer_write_config(pci, address, value, len);
        fakernic_configured(FAKERNIC(pci));
    }
}

/* Such a device answers no queries; an unplugged one cannot be realized
 * again. */
static bool fakernic_present(const FakernicState *s, Error **errp)
{
    if (!fakernic_is_plugged(s)) {
        error_setg(errp, s->held & FAKERNIC_HELD_LEAVING ?
                   "the device has been unplugged" :
                   "the virtual function was never enabled: its physical "
                   "function's driver does that");
    }
    return fakernic_is_plugged(s);
}

/* ---- realize --------------------------------------------------------- */

static bool fakernic_check_limit(const char *name, uint64_t value, uint64_t min,
                                 uint64_t max, bool power_of_two, Error **errp)
{
    if (value < min || value > max || (power_of_two && !is_power_of_2(value))) {
        error_setg(errp, "property '%s' must be %s%" PRIu64 " to %" PRIu64
                   ", not %" PRIu64, name,
                   power_of_two ? "a power of two, " : "", min, max, value);
        return false;
    }
    return true;
}

static bool fakernic_check_dm_size(const char *name, uint64_t size,
                                   Error **errp)
{
    if (size % FAKERNIC_PAGE_SIZE) {
        error_setg(errp, "property '%s' must be a multiple of %u, not %"
                   PRIu64, name, FAKERNIC_PAGE_SIZE, size);
        return false;
    }
    return fakernic_check_limit(name, size, 0, FAKERNIC_DM_MAX, false, errp);
}

/* The VFs are functions 1 and up of the PF's bus, so no other device may be on
 * it. */
static bool fakernic_check_slot(PCIDevice *pci, Error **errp)
{
    PCIBus *bus = pci_get_bus(pci);

    if (pci_bus_is_root(bus) || !pci_bus_is_express(bus) || pci->devfn) {
        error_setg(errp, "property 'vfs' needs a PCI Express port of its own: "
                         "add -device pcie-root-port,id=rp0 and bus=rp0");
        return false;
    }
    return true;
}

static bool fakernic_check_vfs(FakernicState *s, Error **errp)
{
    if (!fakernic_check_limit("vfs", s->vfs, 0, ESWITCH_VFS_MAX, false, errp)) {
        return false;
    }
    return !s->vfs ||
           (fakernic_check_slot(PCI_DEVICE(s), errp) &&
            fakernic_check_limit("vf-uars", s->vf_uars, 2, 65536, false,
                                 errp) &&
            fakernic_check_limit("vf-vectors", s->vf_vectors, 1,
                                 FAKERNIC_VECTOR_COUNT, false, errp) &&
            fakernic_check_limit("vf-max-qp", s->vf_max_qp, 16, 65536, true,
                                 errp) &&
            fakernic_check_limit("vf-max-mr", s->vf_max_mr, 16, 1U << 20, true,
                                 errp) &&
            fakernic_check_limit("vf-gids", s->vf_gids, 1, 4096, false, errp) &&
            fakernic_check_dm_size("vf-dm-size", s->vf_dm_size, errp));
}

static bool fakernic_check_snapshot(const FakernicState *s, Error **errp)
{
    if (s->snapshot_qps && strcmp(s->snapshot_qps, "error") &&
        strcmp(s->snapshot_qps, "keep")) {
        error_setg(errp, "property 'snapshot-qps' must be 'error' or 'keep', "
                   "not '%s'", s->snapshot_qps);
        return false;
    }
    return true;
}

static bool fakernic_check_properties(FakernicState *s, Error **errp)
{
    if (is_multicast_ether_addr(s->conf.macaddr.a)) {
        error_setg(errp, "property 'mac' must be a unicast address");
        return false;
    }
    return fakernic_check_limit("uars", s->uars, 2, 65536, false, errp) &&
           fakernic_check_limit("max-qp", s->max_qp, 16, 65536, true, errp) &&
           fakernic_check_limit("max-cq", s->max_cq, 1, 65536, false, errp) &&
           fakernic_check_limit("max-srq", s->max_srq, 1, 65536, false, errp) &&
           fakernic_check_limit("max-pd", s->max_pd, 1, 65536, false, errp) &&
           fakernic_check_limit("max-mr", s->max_mr, 16, 1U << 20, true,
                                errp) &&
           fakernic_check_limit("max-mr-pages", s->max_mr_pages, 16, 1U << 30,
                                false, errp) &&
           fakernic_check_limit("max-memory", s->max_memory, 16 * MiB,
                                64 * GiB, false, errp) &&
           fakernic_check_limit("gids", s->gids, 1, 4096, false, errp) &&
           fakernic_check_limit("mtu-max", s->mtu_max, 576, 9000, false,
                                errp) &&
           fakernic_check_limit("speed-mbps", s->speed_mbps, 1, 4000000, false,
                                errp) &&
           fakernic_check_limit("turn-work", s->turn_work, 64, 1U << 20, false,
                                errp) &&
           fakernic_check_limit("turn-us", s->turn_us, 10, 1000000, false,
                                errp) &&
           fakernic_check_limit("cpu-nice", s->cpu_nice, 0, 19, false, errp) &&
           fakernic_check_limit("sq-awake-us", s->sq_awake_us, 0, 10000, false,
                                errp) &&
           fakernic_check_dm_size("dm-size", s->dm_size, errp) &&
           fakernic_check_vfs(s, errp) && fakernic_check_snapshot(s, errp);
}

static bool fakernic_init_capabilities(PCIDevice *pci, Error **errp)
{
    FakernicState *s = FAKERNIC(pci);

    if (pci_pm_init(pci, FAKERNIC_PM_OFFSET, errp) < 0) {
        return false;
    }
    /* Version 3; the device keeps its state in D3hot. */
    pci_set_word(pci->config + FAKERNIC_PM_OFFSET + PCI_PM_PMC, 3);
    pci_set_word(pci->config + FAKERNIC_PM_OFFSET + PCI_PM_CTRL,
                 PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(pci->wmask + FAKERNIC_PM_OFFSET + PCI_PM_CTRL,
                 PCI_PM_CTRL_STATE_MASK);
    if (pcie_endpoint_cap_init(pci, FAKERNIC_EXP_OFFSET) < 0) {
        error_setg(errp, "cannot add the PCI Express capability");
        return false;
    }
    pcie_cap_deverr_init(pci);
    pcie_cap_flr_init(pci);
    if (pcie_cap_get_type(pci) == PCI_EXP_TYPE_ENDPOINT) {
        fakernic_fill_link(pci, QEMU_PCI_EXP_LNK_X16, QEMU_PCI_EXP_LNK_16GT);
    }
    if (pcie_aer_init(pci, PCI_ERR_VER, FAKERNIC_AER_OFFSET, PCI_ERR_SIZEOF,
                      errp) < 0) {
        return false;
    }
    if (s->vport == ESWITCH_PF) {
        pcie_dev_ser_num_init(pci, FAKERNIC_DSN_OFFSET,
                              fakernic_save_serial(s));
        /* A load compares it itself: fakernic_load_end(). */
        memset(pci->cmask + FAKERNIC_DSN_NUMBER, 0, sizeof(uint64_t));
    }
    if (s->card) {
        pcie_ari_init(pci, FAKERNIC_ARI_OFFSET);
    }
    return true;
}

/*
 * The BAR's reference to device memory is a reference to the device itself, so
 * it is dropped here. So is the RAM block's name. This device may still exist
 * when another replaces it, and QEMU aborts if a name is registered twice.
 */
static void fakernic_cleanup_dm(FakernicState *s)
{
    if (s->dm_size) {
        memory_region_del_subregion(&s->uar_bar, &s->dm);
        vmstate_unregister_ram(&s->dm, DEVICE(s));
    }
}

/* The size of BAR2: doorbell pages, the clock page, device memory. */
static uint64_t fakernic_uar_size(uint32_t uars, uint64_t dm_size)
{
    return pow2ceil((uars + 1ULL) * FAKERNIC_PAGE_SIZE + dm_size);
}

static bool fakernic_init_msix(PCIDevice *pci, Error **errp)
{
    FakernicState *s = FAKERNIC(pci);

    if (s->vport == ESWITCH_PF) {
        return msix_init_exclusive_bar(pci, s->vectors, FAKERNIC_BAR_MSIX,
                                       errp) >= 0;
    }
    /* The BAR of that call is not prefetchable. A VF's BARs have to be. */
    memory_region_init(&s->msix_bar, OBJECT(s), "fakernic-msix",
                       FAKERNIC_PAGE_SIZE);
    pci_register_bar(pci, FAKERNIC_BAR_MSIX, FAKERNIC_BAR_TYPE64, &s->msix_bar);
    return msix_init(pci, s->vectors, &s->msix_bar, FAKERNIC_BAR_MSIX, 0,
                     &s->msix_bar, FAKERNIC_BAR_MSIX, FAKERNIC_PAGE_SIZE / 2, 0,
                     errp) >= 0;
}

static bool fakernic_init_bars(PCIDevice *pci, Error **errp)
{
    FakernicState *s = FAKERNIC(pci);
    uint64_t dm_offset = (uint64_t)fakernic_dm_page(s) * FAKERNIC_PAGE_SIZE;

    memory_region_init_io(&s->regs_bar, OBJECT(s), &fakernic_register_door, s,
                          "fakernic-regs", FAKERNIC_BAR_REGS_SIZE);
    pci_register_bar(pci, FAKERNIC_BAR_REGS, s->vport == ESWITCH_PF ?
                     PCI_BASE_ADDRESS_SPACE_MEMORY : FAKERNIC_BAR_TYPE64,
                     &s->regs_bar);
    memory_region_init_io(&s->uar_bar, OBJECT(s), &fakernic_doorbell_door, s,
                          "fakernic-uar",
                          fakernic_uar_size(s->uars, s->dm_size));
    if (s->dm_size) {
        if (!memory_region_init_ram(&s->dm, OBJECT(s), "fakernic-dm",
                                    s->dm_size, errp)) {
            return false;
        }
        fakernic_dm_make(s);
        memory_region_add_subregion_overlap(&s->uar_bar, dm_offset, &s->dm, 1);
    }
    pci_register_bar(pci, FAKERNIC_BAR_UAR, FAKERNIC_BAR_TYPE64, &s->uar_bar);
    if (!fakernic_init_msix(pci, errp)) {
        fakernic_cleanup_dm(s);
        return false;
    }
    fakernic_msix_doors(pci);
    for (unsigned i = 0; i < s->vectors; i++) {
        msix_vector_use(pci, i);
    }
    return true;
}

static void fakernic_cleanup_bars(PCIDevice *pci)
{
    FakernicState *s = FAKERNIC(pci);

    fakernic_cleanup_dm(s);
    msix_unuse_all_vectors(pci);
    if (s->vport == ESWITCH_PF) {
        msix_uninit_exclusive_bar(pci);
    } else {
        msix_uninit(pci, &s->msix_bar, &s->msix_bar);
    }
}

/* Joins the link that the property 'link' names, instead of a netdev. */
static bool fakernic_join_link(FakernicState *s, Error **errp)
{
    if (!s->link_path) {
        return true;
    }
    if (s->conf.peers.queues) {
        error_setg(errp, "properties 'link' and 'netdev' exclude each other");
        return false;
    }
    s->link = fakernic_link_new(s->link_path, DEVICE(s)->id, &s->conf, errp);
    if (s->card) {
        s->card->link = s->link;
    }
    return s->link != NULL;
}

/* The features that this configuration offers to the driver. */
static uint64_t fakernic_offered(const FakernicState *s)
{
    uint64_t features = FAKERNIC_FEATURES_IMPLEMENTED & s->feature_mask;

    if (s->link_path) {
        features &= ~FAKERNIC_FEATURE_POLL_SELDOM;
    } else if (!fakernic_cpus_emulated()) {
        features &= ~(FAKERNIC_FEATURE_POLL_DOORBELL |
                      FAKERNIC_FEATURE_POLL_SELDOM);
    }
    if (!s->guest_faults) {
        features &= ~FAKERNIC_FEATURE_FAULTS;
    }
    if (!s->recorder.path) {
        features &= ~FAKERNIC_FEATURE_STAMPS;
    }
    if (!s->dcqcn) {
        features &= ~FAKERNIC_FEATURE_DCQCN;
    }
    if (!s->sq_awake_us) {
        features &= ~FAKERNIC_FEATURE_SHADOW_DOORBELL;
    }
    if (!s->dm_size) {
        features &= ~FAKERNIC_FEATURE_DM;
    }
    if (!s->vfs) {
        features &= ~(FAKERNIC_FEATURE_FUNCTION | FAKERNIC_FEATURE_VPORT);
    }
    return features;
}

/* Creates the recorder and the engine. */
static bool fakernic_init_engine(FakernicState *s, Error **errp)
{
    RoceLimits limits = {
        .max_qp = s->max_qp,
        .max_mr = s->max_mr,
        .max_pd = s->max_pd + 1,
        .max_mcast_groups = FAKERNIC_MAX_MCAST_GROUPS,
        .max_odp_chunks = s->vport == ESWITCH_PF ? FAKERNIC_MAX_ODP_CHUNKS
                                                 : FAKERNIC_VF_ODP_CHUNKS,
        .gid_count = s->gids,
        .max_sends = FAKERNIC_MAX_SENDS,
        .max_rd_atomic = FAKERNIC_MAX_RD_ATOMIC,
        .dcqcn = s->dcqcn,
        .link_kbps = s->speed_mbps * 1000,
    };

    if (!fakernic_recorder_init(s, errp)) {
        return false;
    }
    qemu_guest_getrandom_nofail(&limits.hash_seed, sizeof(limits.hash_seed));
    s->roce = roce_new(&limits, &fakernic_host_ops, s);
    if (!s->roce) {
        error_setg(errp, "out of memory for %u queue pairs and %u keys",
                   s->max_qp, s->max_mr);
        fakernic_recorder_cleanup(s);
        return false;
    }
    s->stats = roce_stats(s->roce);
    return true;
}

static void fakernic_cleanup_engine(FakernicState *s)
{
    roce_free(s->roce);
    s->roce = NULL;
    s->stats = NULL;
    fakernic_recorder_cleanup(s);
}

static bool fakernic_init_card(FakernicState *s, Error **errp)
{
    FakernicCard *card = s->vfs ? fakernic_card_new(s) : NULL;

    if (s->vfs && !card) {
        error_setg(errp, "out of memory for the switch of %u virtual functions",
                   s->vfs);
        return false;
    }
    if (card) {
        fakernic_card_join(card, s, ESWITCH_PF);
    }
    return true;
}

/* The name of a VF as a property of its PF; the caller frees it. */
static char *fakernic_vf_name(unsigned vf)
{
    return g_strdup_printf("vf[%u]", vf);
}

/* A load refuses other values of these registers. QEMU uses the values as they
 * are, as the length of an array and as a divisor. */
static void fakernic_fix_sriov(PCIDevice *pci)
{
    static const uint8_t fixed[] = {
        PCI_SRIOV_INITIAL_VF, PCI_SRIOV_TOTAL_VF, PCI_SRIOV_VF_OFFSET,
        PCI_SRIOV_VF_STRIDE,
    };

    for (unsigned i = 0; i < ARRAY_SIZE(fixed); i++) {
        pci_set_word(pci->cmask + FAKERNIC_SRIOV_OFFSET + fixed[i], 0xffff);
    }
}

/* Creates the VFs, absent. */
static bool fakernic_init_vfs(PCIDevice *pci, Error **errp)
{
    FakernicState *s = FAKERNIC(pci);
    const struct {
        unsigned bar;
        uint64_t size;
    } bars[] = {
        { FAKERNIC_BAR_REGS, FAKERNIC_BAR_REGS_SIZE },
        { FAKERNIC_BAR_UAR, fakernic_uar_size(s->vf_uars, s->vf_dm_size) },
        { FAKERNIC_BAR_MSIX, FAKERNIC_PAGE_SIZE },
    };

    if (!s->vfs) {
        return true;
    }
    if (!pcie_sriov_pf_init(pci, FAKERNIC_SRIOV_OFFSET, TYPE_FAKERNIC_VF,
                            FAKERNIC_PCI_VF_DEVICE_ID, s->vfs, s->vfs,
                            FAKERNIC_VF_OFFSET, FAKERNIC_VF_STRIDE, errp)) {
        return false;
    }
    fakernic_fix_sriov(pci);
    for (unsigned i = 0; i < ARRAY_SIZE(bars); i++) {
        pcie_sriov_pf_init_vf_bar(pci, bars[i].bar, FAKERNIC_BAR_TYPE64,
                                  bars[i].size);
    }
    for (unsigned i = 0; i < s->vfs; i++) {
        g_autofree char *name = fakernic_vf_name(i);

        object_property_add_const_link(
            OBJECT(s), name, OBJECT(s->card->functions[i + 1]));
    }
    return true;
}

static void fakernic_cleanup_vfs(PCIDevice *pci)
{
    FakernicState *s = FAKERNIC(pci);

    for (unsigned i = 0; i < s->vfs; i++) {
        g_autofree char *name = fakernic_vf_name(i);

        object_property_del(OBJECT(s), name);
    }
    if (s->vfs) {
        pcie_sriov_pf_exit(pci);
    }
}

/* Opens the doors of a function whose parts exist. */
static void fakernic_start(FakernicState *s)
{
    fakernic_objects_init(s);
    fakernic_doors_open(s);
    fakernic_reset(s);
}

static void fakernic_realize(PCIDevice *pci, Error **errp)
{
    FakernicState *s = FAKERNIC(pci);

    if (!fakernic_present(s, errp) || !fakernic_check_properties(s, errp)) {
        return;
    }
    g_free(s->name);
    s->name = object_get_canonical_path(OBJECT(s));
    s->vectors = FAKERNIC_VECTOR_COUNT;
    fakernic_fault_init(s);
    if (!fakernic_init_engine(s, errp)) {
        return;
    }
    s->features = fakernic_offered(s);
    qemu_macaddr_default_if_unset(&s->conf.macaddr);
    if (!fakernic_init_card(s, errp)) {
        goto err_cleanup_engine;
    }
    if (!fakernic_init_bars(pci, errp)) {
        goto err_leave_card;
    }
    if (!fakernic_init_capabilities(pci, errp)) {
        goto err_cleanup_bars;
    }
    if (!fakernic_init_vfs(pci, errp)) {
        goto err_cleanup_capabilities;
    }
    if (!fakernic_join_link(s, errp)) {
        goto err_cleanup_vfs;
    }
    fakernic_cpus_init(s->cpu_nice);
    fakernic_start(s);
    return;

err_cleanup_vfs:
    fakernic_cleanup_vfs(pci);
err_cleanup_capabilities:
    pcie_aer_exit(pci);
    pcie_cap_exit(pci);
err_cleanup_bars:
    fakernic_cleanup_bars(pci);
err_leave_card:
    fakernic_card_leave(s);
err_cleanup_engine:
    fakernic_cleanup_engine(s);
}

static void fakernic_exit(PCIDevice *pci)
{
    fakernic_cleanup_vfs(pci);
    fakernic_doors_close(FAKERNIC(pci));
    /* Releases the recorder's file for a device that replaces this one. */
    fakernic_recorder_cleanup(FAKERNIC(pci));
    pcie_aer_exit(pci);
    pcie_cap_exit(pci);
    fakernic_cleanup_bars(pci);
}

/* ---- virtual functions ----------------------------------------------- */

/* Sets the limits of a VF: the PF's properties vf-..., else the PF's own. */
static void fakernic_vf_limit(FakernicState *s, const FakernicState *pf)
{
    s->uars = pf->vf_uars;
    s->vectors = pf->vf_vectors;
    s->max_qp = pf->vf_max_qp;
    s->max_cq = MIN(pf->max_cq, 2 * pf->vf_max_qp);
    s->max_srq = MIN(pf->max_srq, pf->vf_max_qp);
    s->max_pd = MIN(pf->max_pd, pf->vf_max_qp);
    s->max_mr = pf->vf_max_mr;
    s->max_mr_pages = pf->max_mr_pages;
    s->max_memory = pf->max_memory / FAKERNIC_VF_MEMORY;
    s->gids = pf->vf_gids;
    s->mtu_max = pf->mtu_max;
    s->speed_mbps = pf->speed_mbps;
    s->dm_size = pf->vf_dm_size;
    s->dcqcn = pf->dcqcn;
    s->guest_faults = pf->guest_faults;
    s->turn_work = pf->turn_work;
    s->turn_us = pf->turn_us;
    s->sq_awake_us = pf->sq_awake_us;
    s->null_writes = pf->null_writes;
    s->interface_version = pf->interface_version;
    s->features = pf->features & ~(FAKERNIC_FEATURE_VPORT |
                                   FAKERNIC_FEATURE_DM);
    if (s->dm_size) {
        s->features |= pf->feature_mask & FAKERNIC_FEATURE_DM;
    }
}

static void fakernic_vf_realize(PCIDevice *pci, Error **errp)
{
    FakernicState *s = FAKERNIC(pci);
    FakernicState *pf = FAKERNIC(pcie_sriov_get_pf(pci));
    const unsigned vf = pcie_sriov_vf_number(pci);
    g_autofree char *name = fakernic_vf_name(vf);

    if (!fakernic_present(s, errp)) {
        return;
    }
    g_free(s->name);
    s->name = g_strdup_printf("%s/%s", pf->name, name);
    if (pf->recorder.path) {
        s->recorder.path = g_strdup_printf("%s.vf%u", pf->recorder.path, vf);
    }
    fakernic_fault_init(s);
    fakernic_vf_limit(s, pf);
    eswitch_vf_mac(pf->conf.macaddr.a, vf, s->conf.macaddr.a);
    fakernic_card_join(pf->card, s, vf + 1);
    if (!fakernic_init_bars(pci, errp)) {
        return;
    }
    if (!fakernic_init_capabilities(pci, errp)) {
        fakernic_cleanup_bars(pci);
        return;
    }
    fakernic_hold(s, FAKERNIC_HELD_ABSENT, true);
}

static void fakernic_vf_exit(PCIDevice *pci)
{
    fakernic_exit(pci);
    g_clear_pointer(&FAKERNIC(pci)->recorder.path, g_free);
}

/*
 * A VF gets its engine and its NIC when it appears for the first time, so VFs
 * that no guest enables need little memory. Without memory for them all loads
 * from its BARs return ones.
 */
static void fakernic_vf_begin(FakernicState *s)
{
    FakernicState *pf = s->card->functions[ESWITCH_PF];
    Error *error = NULL;

    if (s->nic || (s->held & FAKERNIC_HELD_LEAVING)) {
        return;
    }
    if (!fakernic_init_engine(s, &error)) {
        error_reportf_err(error, "%s: ", s->name);
        return;
    }
    s->link = pf->link;
    fakernic_start(s);
}

/*
 * True: the whole machine is reset, the host bridge included. An FLR resets the
 * function alone, and a hot reset only what is behind a port. A wake-up from S3
 * is no reset for a user of VFs.
 */
static bool fakernic_machine_resets(const FakernicState *s, ResetType type)
{
    PCIBus *root = pci_device_root_bus(PCI_DEVICE(s));

    return type != RESET_TYPE_WAKEUP &&
           device_is_in_reset(BUS(root)->parent);
}

/*
 * QEMU resets a VF also when its PF enables or disables it. A reset of both
 * disables it later, without another call.
 */
static bool fakernic_vf_stays(const FakernicState *s)
{
    PCIDevice *pci = PCI_DEVICE(s);

    return pci->enabled && !device_is_in_reset(DEVICE(pcie_sriov_get_pf(pci)));
}

static void fakernic_reset_hold(Object *obj, ResetType type)
{
    FakernicState *s = FAKERNIC(obj);
    const bool is_vf = s->vport != ESWITCH_PF;
    const bool stays = is_vf && fakernic_vf_stays(s);

    if (stays) {
        fakernic_vf_begin(s);
    }
    if (!fakernic_is_plugged(s)) {
        return;
    }
    if (is_vf) {
        fakernic_appear(s, stays);
    } else if (fakernic_machine_resets(s, type)) {
        fakernic_card_reset(s->card);
    }
    fakernic_reset(s);
}

static char *fakernic_get_recorder(Object *obj, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    return fakernic_present(s, errp) ? fakernic_record_text(s, false) : NULL;
}

static char *fakernic_get_recorder_now(Object *obj, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    return fakernic_present(s, errp) ? fakernic_record_text(s, true) : NULL;
}

static bool fakernic_get_recording(Object *obj, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    return fakernic_present(s, errp) && fakernic_recorder_is_on(s);
}

static void fakernic_set_recording(Object *obj, bool on, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    if (fakernic_present(s, errp)) {
        fakernic_recorder_set(s, on, errp);
    }
}

static void fakernic_get_query(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);
    g_autofree char *text = NULL;

    if (fakernic_present(s, errp)) {
        text = fakernic_query(s, opaque);
        visit_type_str(v, name, &text, errp);
    }
}

static void fakernic_set_window(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);
    g_autofree char *words = NULL;

    if (fakernic_present(s, errp) && visit_type_str(v, name, &words, errp)) {
        fakernic_query_window(s, opaque, words, errp);
    }
}

char *fakernic_ask_objects(Object *device, const char *property, uint32_t from,
                           uint32_t count, Error **errp)
{
    const FakernicQuery *query = fakernic_queries;

    if (!fakernic_present(FAKERNIC(device), errp)) {
        return NULL;
    }
    if (!count) {
        error_setg(errp, "'count' must be at least 1");
        return NULL;
    }
    while (strcmp(query->property, property)) {
        query++;
    }
    return fakernic_query_part(FAKERNIC(device), query, from, count);
}

char *fakernic_ask_ring(Object *device, const char *words, Error **errp)
{
    FakernicState *s = FAKERNIC(device);

    return fakernic_present(s, errp) ? fakernic_look_words(s, words, errp)
                                     : NULL;
}

static void fakernic_set_look(Object *obj, const char *words, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    if (fakernic_present(s, errp)) {
        fakernic_look_at(s, words, errp);
    }
}

static char *fakernic_get_look(Object *obj, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    return fakernic_present(s, errp) ? fakernic_look(s, errp) : NULL;
}

static void fakernic_add_queries(ObjectClass *class)
{
    for (const FakernicQuery *q = fakernic_queries; q->property; q++) {
        object_class_property_add(class, q->property, "string",
                                  fakernic_get_query,
                                  q->entry ? fakernic_set_window : NULL, NULL,
                                  (void *)q);
        object_class_property_set_description(class, q->property,
                                              q->description);
    }
}

/* Writing the property adds rules; reading it returns them with counters. */
static void fakernic_set_fault(Object *obj, const char *text, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    if (fakernic_present(s, errp) && fakernic_fault_add(s, text, errp) &&
        s->nic) {
        fakernic_thaw(s);
        fakernic_kick(s);
    }
}

static char *fakernic_get_fault(Object *obj, Error **errp)
{
    FakernicState *s = FAKERNIC(obj);

    return fakernic_present(s, errp) ? fakernic_fault_text(s) : NULL;
}

/* Properties for tests of the cost of steps. */
static void fakernic_costs_init(Object *obj, FakernicCosts *costs)
{
    object_property_add_uint32_ptr(obj, "x-cost-limit", &costs->limit,
                                   OBJ_PROP_FLAG_READWRITE);
    object_property_set_description(obj, "x-cost-limit",
                                    "for tests: report each step that takes "
                                    "more ns of CPU time per unit of work");
    object_property_add_uint32_ptr(obj, "x-cost-found", &costs->found,
                                   OBJ_PROP_FLAG_READ);
    object_property_set_description(obj, "x-cost-found",
                                    "for tests: how many were reported");
    object_property_add_uint32_ptr(obj, "x-cost-planted", &costs->planted,
                                   OBJ_PROP_FLAG_READWRITE);
    object_property_set_description(obj, "x-cost-planted",
                                    "for tests: us that the next step wastes");
}

static void fakernic_function_init(Object *obj)
{
    fakernic_costs_init(obj, &FAKERNIC(obj)->costs);
    FAKERNIC(obj)->faults.rules.command = fakernic_cmd_number;
    object_property_add_uint32_ptr(obj, "x-persist-hold",
                                   &FAKERNIC(obj)->persist_hold,
                                   OBJ_PROP_FLAG_READWRITE);
    object_property_set_description(obj, "x-persist-hold",
                                    "for tests: a medium for FLUSH that is as "
                                    "slow as they want");
    object_property_add_uint32_ptr(obj, "x-longest-turn",
                                   &FAKERNIC(obj)->longest_turn,
                                   OBJ_PROP_FLAG_READ);
    object_property_set_description(obj, "x-longest-turn",
                                    "for tests: the most work of one turn so "
                                    "far");
    object_property_add_uint32_ptr(obj, "x-longest-round",
                                   &FAKERNIC(obj)->longest_round,
                                   OBJ_PROP_FLAG_READ);
    object_property_set_description(obj, "x-longest-round",
                                    "for tests: the most work of all functions "
                                    "of a card in one round of the main loop");
}

static void fakernic_instance_init(Object *obj)
{
    device_add_bootindex_property(obj, &FAKERNIC(obj)->conf.bootindex,
                                  "bootindex", "/ethernet-phy@0", DEVICE(obj));
}

/* Frees the name last, because trace events use it until here. */
static void fakernic_finalize(Object *obj)
{
    fakernic_card_leave(FAKERNIC(obj));
    g_free(FAKERNIC(obj)->name);
}

/* ---- type ------------------------------------------------------------ */

static const Property fakernic_properties[] = {
    DEFINE_NIC_PROPERTIES(FakernicState, conf),
    DEFINE_PROP_STRING("link", FakernicState, link_path),
    DEFINE_PROP_UINT32("uars", FakernicState, uars, 1024),
    DEFINE_PROP_UINT32("max-qp", FakernicState, max_qp, 4096),
    DEFINE_PROP_UINT32("max-cq", FakernicState, max_cq, 4096),
    DEFINE_PROP_UINT32("max-srq", FakernicState, max_srq, 1024),
    DEFINE_PROP_UINT32("max-pd", FakernicState, max_pd, 4096),
    DEFINE_PROP_UINT32("max-mr", FakernicState, max_mr, 65536),
    DEFINE_PROP_UINT64("max-mr-pages", FakernicState, max_mr_pages, 1U << 24),
    DEFINE_PROP_SIZE("max-memory", FakernicState, max_memory, 512 * MiB),
    DEFINE_PROP_UINT32("gids", FakernicState, gids, 256),
    DEFINE_PROP_UINT32("mtu-max", FakernicState, mtu_max, 9000),
    DEFINE_PROP_UINT32("speed-mbps", FakernicState, speed_mbps, 100000),
    DEFINE_PROP_SIZE("dm-size", FakernicState, dm_size, 1 * MiB),
    DEFINE_PROP_UINT32("vfs", FakernicState, vfs, 0),
    DEFINE_PROP_UINT32("vf-uars", FakernicState, vf_uars, 31),
    DEFINE_PROP_UINT32("vf-vectors", FakernicState, vf_vectors, 9),
    DEFINE_PROP_UINT32("vf-max-qp", FakernicState, vf_max_qp, 512),
    DEFINE_PROP_UINT32("vf-max-mr", FakernicState, vf_max_mr, 4096),
    DEFINE_PROP_UINT32("vf-gids", FakernicState, vf_gids, 32),
    DEFINE_PROP_SIZE("vf-dm-size", FakernicState, vf_dm_size, 0),
    DEFINE_PROP_STRING("x-record", FakernicState, recorder.path),
    DEFINE_PROP_BOOL("dcqcn", FakernicState, dcqcn, false),
    DEFINE_PROP_UINT32("turn-us", FakernicState, turn_us, 500),
    DEFINE_PROP_UINT32("turn-work", FakernicState, turn_work, 2048),
    DEFINE_PROP_UINT32("cpu-nice", FakernicState, cpu_nice, 0),
    DEFINE_PROP_UINT32("sq-awake-us", FakernicState, sq_awake_us, 0),
    DEFINE_PROP_STRING("snapshot-qps", FakernicState, snapshot_qps),
    DEFINE_PROP_BOOL("x-null", FakernicState, null_writes, false),
    DEFINE_PROP_BOOL("x-guest-faults", FakernicState, guest_faults, false),
    DEFINE_PROP_CHR("x-fault-events", FakernicState, faults.listener),
    /* For tests of drivers: claim another version, hide features. */
    DEFINE_PROP_UINT32("x-interface-version", FakernicState, interface_version,
                       FAKERNIC_PUT(FAKERNIC_VERSION_MAJOR,
                                    FAKERNIC_INTERFACE_MAJOR) |
                           FAKERNIC_PUT(FAKERNIC_VERSION_MINOR,
                                        FAKERNIC_INTERFACE_MINOR)),
    DEFINE_PROP_UINT64("x-feature-mask", FakernicState, feature_mask,
                       UINT64_MAX),
};

typedef struct FakernicDescription {
    const char *name;
    const char *text;
} FakernicDescription;

static void fakernic_describe(ObjectClass *class,
                              const FakernicDescription *descriptions,
                              unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        object_class_property_set_description(class, descriptions[i].name,
                                              descriptions[i].text);
    }
}

static void fakernic_describe_properties(ObjectClass *class)
{
    static const FakernicDescription descriptions[] = {
        { "link", "in place of netdev: a folder; all devices on this host that "
                  "name it are joined by shared memory" },
        { "uars", "doorbell pages, one per user context (2 to 65536)" },
        { "max-qp", "queue pairs (power of two, 16 to 65536)" },
        { "max-cq", "completion queues (1 to 65536)" },
        { "max-srq", "shared receive queues (1 to 65536)" },
        { "max-pd", "protection domains (1 to 65536)" },
        { "max-mr", "memory keys (power of two, 16 to 1048576)" },
        { "max-mr-pages", "pages in all memory regions together" },
        { "max-memory", "limit of host memory for guest objects, in bytes (16M "
                        "to 64G)" },
        { "gids", "entries of the GID table (1 to 4096)" },
        { "mtu-max", "largest Ethernet MTU (576 to 9000)" },
        { "speed-mbps", "speed of the port in Mbit/s (1 to 4000000): what it "
                        "reports, and where DCQCN starts" },
        { "dm-size", "device memory in bytes (0 to 256M, multiple of 4K)" },
        { "vfs", "virtual functions (0 to 127)" },
        { "vf-uars", "doorbell pages of a VF (2 to 65536)" },
        { "vf-vectors", "MSI-X vectors of a VF (1 to 33)" },
        { "vf-max-qp", "queue pairs of a VF (power of two, 16 to 65536)" },
        { "vf-max-mr", "memory keys of a VF (power of two, 16 to 1048576)" },
        { "vf-gids", "entries of a VF's GID table (1 to 4096)" },
        { "vf-dm-size", "device memory of a VF in bytes (0 to 256M, multiple "
                        "of 4K)" },
        { "dcqcn", "slow QPs down when congestion is notified (on or off)" },
        { "turn-us", "limit of one turn, after which others get the main "
                     "loop, in microseconds (10 to 1000000)" },
        { "turn-work", "limit of work in one turn, in units of about a "
                       "microsecond (64 to 1048576)" },
        { "cpu-nice", "nice value of the vCPU threads, relative to the main "
                      "thread (0 to 19)" },
        { "sq-awake-us", "how long a busy send queue needs no doorbell, in "
                         "microseconds (0 to 10000); 0: each send rings" },
        { "snapshot-qps", "connections to other machines when a snapshot is "
                          "loaded: error, or keep if the snapshots of all "
                          "machines are loaded together" },
        { "x-null", "WRITEs complete without a packet, to measure the rest (on "
                    "or off)" },
        { "x-record", "a file that the recorder writes to" },
        { "x-guest-faults", "the guest may add fault rules (on or off)" },
        { "x-fault-events", "a character device that reports each hit of a "
                            "fault rule, a line of JSON" },
        { "x-interface-version", "for tests of drivers: claim another version "
                                 "of the interface" },
        { "x-feature-mask", "for tests of drivers: offer only these features" },
    };

    fakernic_describe(class, descriptions, ARRAY_SIZE(descriptions));
}

static void fakernic_describe_inspection(ObjectClass *class)
{
    static const FakernicDescription descriptions[] = {
        { "x-recorder", "entries before the first fatal error; else before the "
                        "first QP error; else the latest entries" },
        { "x-recorder-now", "the latest entries" },
        { "x-recording", "record to the file of x-record (on or off, at run "
                         "time)" },
        { "x-ring", "entries of the ring that is selected by \"sq 17\" or the "
                    "like, in JSON" },
        { "x-fault", "fault rules, \"at=rx nth=3 do=drop; ...\"" },
    };

    fakernic_describe(class, descriptions, ARRAY_SIZE(descriptions));
}

static void fakernic_function_class_init(ObjectClass *class,
                                         FakernicClassData *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);
    ResettableClass *rc = RESETTABLE_CLASS(class);

    pc->config_read = fakernic_read_config;
    pc->config_write = fakernic_write_config;
    pc->vendor_id = FAKERNIC_PCI_VENDOR_ID;
    pc->subsystem_vendor_id = FAKERNIC_PCI_VENDOR_ID;
    pc->revision = FAKERNIC_PCI_REVISION;
    pc->class_id = PCI_CLASS_NETWORK_ETHERNET;
    rc->phases.hold = fakernic_reset_hold;
    object_class_property_add_str(class, "x-recorder", fakernic_get_recorder,
                                  NULL);
    object_class_property_add_str(class, "x-recorder-now",
                                  fakernic_get_recorder_now, NULL);
    object_class_property_add_bool(class, "x-recording", fakernic_get_recording,
                                   fakernic_set_recording);
    object_class_property_add_str(class, "x-fault", fakernic_get_fault,
                                  fakernic_set_fault);
    object_class_property_add_str(class, "x-ring", fakernic_get_look,
                                  fakernic_set_look);
    fakernic_add_queries(class);
    fakernic_describe_inspection(class);
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
}

static void fakernic_class_init(ObjectClass *class, FakernicClassData *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = fakernic_realize;
    pc->exit = fakernic_exit;
    pc->device_id = FAKERNIC_PCI_DEVICE_ID;
    pc->subsystem_id = FAKERNIC_PCI_DEVICE_ID;
    dc->vmsd = &fakernic_vmstate;
    dc->desc = "fakernic RoCEv2 network interface";
    device_class_set_props(dc, fakernic_properties);
    fakernic_describe_properties(class);
}

static void fakernic_vf_class_init(ObjectClass *class, FakernicClassData *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);

    pc->realize = fakernic_vf_realize;
    pc->exit = fakernic_vf_exit;
    pc->device_id = FAKERNIC_PCI_VF_DEVICE_ID;
    pc->subsystem_id = FAKERNIC_PCI_VF_DEVICE_ID;
    dc->desc = "fakernic virtual function";
    /* The PF creates it, and saves it. */
    dc->user_creatable = false;
}

static const TypeInfo fakernic_function_info = {
    .name = TYPE_FAKERNIC_FUNCTION,
    .parent = TYPE_PCI_DEVICE,
    .abstract = true,
    .instance_size = sizeof(FakernicState),
    .instance_init = fakernic_function_init,
    .instance_finalize = fakernic_finalize,
    .class_init = fakernic_function_class_init,
    .interfaces = (InterfaceInfo[]) {
        { INTERFACE_PCIE_DEVICE },
        { }
    },
};

static const TypeInfo fakernic_info = {
    .name = TYPE_FAKERNIC,
    .parent = TYPE_FAKERNIC_FUNCTION,
    .instance_init = fakernic_instance_init,
    .class_init = fakernic_class_init,
};

static const TypeInfo fakernic_vf_info = {
    .name = TYPE_FAKERNIC_VF,
    .parent = TYPE_FAKERNIC_FUNCTION,
    .class_init = fakernic_vf_class_init,
};

static void fakernic_register_types(void)
{
    type_register_static(&fakernic_function_info);
    type_register_static(&fakernic_info);
    type_register_static(&fakernic_vf_info);
}

type_init(fakernic_register_types)
