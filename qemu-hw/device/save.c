/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Migration and snapshots. The saved state begins with the properties, which
 * must be the same on both sides, so that a refusal names the cause. PCI
 * configuration, MSI-X and registers follow as fields that QEMU moves, then the
 * objects, the engine, the fault rules and the recorder as one stream
 * (save_objects.c, ../roce/save.c, fault/save.c, watch/record.c).
 * Device memory is a RAM block, which QEMU moves itself.
 *
 * The VM is stopped during a save, and guest memory has been saved already. So
 * nothing here writes guest memory. A command under way begins again after the
 * load. A frame that waits in the netdev's queue is lost, as on a wire.
 *
 * The state is hostile input, like everything from outside. A state that
 * cannot be loaded is refused with one line, and the device is reset.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie_aer.h"
#include "hw/pci/pcie_sriov.h"
#include "migration/qemu-file-types.h"
#include "net/eth.h"
#include "budget.h"
#include "card.h"
#include "clock.h"
#include "compat.h"
#include "life.h"
#include "doors.h"
#include "persist.h"
#include "save.h"
#include "save_objects.h"
#include "state.h"
#include "fault/release.h"
#include "fault/save.h"
#include "../roce/stream.h"

/* ---- properties ---------------------------------------------------------- */

typedef struct FakernicSaveProperty {
    const char *name;
    size_t offset, size;
    bool may_grow;              /* an older device had less */
} FakernicSaveProperty;

#define SAVE_PROPERTY(title, field)                            \
    .name = title, .offset = offsetof(FakernicState, field),   \
    .size = sizeof(((FakernicState *)NULL)->field)

static const FakernicSaveProperty save_properties[] = {
    { SAVE_PROPERTY("uars", uars) },
    { SAVE_PROPERTY("max-qp", max_qp) },
    { SAVE_PROPERTY("max-cq", max_cq) },
    { SAVE_PROPERTY("max-srq", max_srq) },
    { SAVE_PROPERTY("max-pd", max_pd) },
    { SAVE_PROPERTY("max-mr", max_mr) },
    { SAVE_PROPERTY("gids", gids) },
    { SAVE_PROPERTY("mtu-max", mtu_max) },
    { SAVE_PROPERTY("speed-mbps", speed_mbps) },
    { SAVE_PROPERTY("dm-size", dm_size) },
    { SAVE_PROPERTY("dcqcn", dcqcn) },
    { SAVE_PROPERTY("vfs", vfs) },
    { SAVE_PROPERTY("x-interface-version", interface_version),
      .may_grow = true },
};

static uint64_t save_property(const FakernicState *s,
                              const FakernicSaveProperty *p)
{
    const char *at = (const char *)s + p->offset;

    return p->size == sizeof(bool) ? *(const bool *)at :
           p->size == sizeof(uint32_t) ? *(const uint32_t *)at :
                                         *(const uint64_t *)at;
}

static int save_properties_put(QEMUFile *f, void *pv, size_t size,
                               const VMStateField *field, JSONWriter *desc)
{
    for (unsigned i = 0; i < ARRAY_SIZE(save_properties); i++) {
        qemu_put_be64(f, save_property(pv, &save_properties[i]));
    }
    return 0;
}

static int save_properties_get(QEMUFile *f, void *pv, size_t size,
                               const VMStateField *field)
{
    const FakernicState *s = pv;

    for (unsigned i = 0; i < ARRAY_SIZE(save_properties); i++) {
        const uint64_t here = save_property(s, &save_properties[i]);
        const uint64_t saved = qemu_get_be64(f);

        if (qemu_file_get_error(f)) {
            error_report("%s: the saved state ends too early", s->name);
            return -EIO;
        }
        if (saved > here ||
            (saved < here && !save_properties[i].may_grow)) {
            error_report("%s: property '%s' is %" PRIu64 " in the saved state "
                         "and %" PRIu64 " here", s->name,
                         save_properties[i].name, saved, here);
            return -EINVAL;
        }
    }
    return 0;
}

static const VMStateInfo save_info_properties = {
    .name = "fakernic properties",
    .get = save_properties_get,
    .put = save_properties_put,
};

/* ---- PCI configuration --------------------------------------------------- */

static int save_pci_put(QEMUFile *f, void *pv, size_t size,
                        const VMStateField *field, JSONWriter *desc)
{
    pci_device_save(PCI_DEVICE(pv), f);
    return 0;
}

/*
 * QEMU enables as many virtual functions as the loaded configuration says, and
 * does not compare this number with those that exist. So QEMU does not see the
 * capability before this check.
 */
static int save_pci_get(QEMUFile *f, void *pv, size_t size,
                        const VMStateField *field)
{
    FakernicState *s = pv;
    PCIDevice *pci = PCI_DEVICE(s);
    const uint16_t sriov = pci->exp.sriov_cap;
    const int32_t version = pci->version_id;
    int error;

    pci->exp.sriov_cap = 0;
    error = pci_device_load(pci, f);
    pci->exp.sriov_cap = sriov;
    pci->version_id = version;
    if (error || !sriov) {
        return error;
    }
    if (pcie_sriov_num_vfs(pci) > s->vfs) {
        error_report("%s: the saved state enables %u virtual functions of %u",
                     s->name, pcie_sriov_num_vfs(pci), s->vfs);
        pcie_sriov_pf_reset(pci);
        return -EINVAL;
    }
    pcie_sriov_pf_post_load(pci);
    return 0;
}

static const VMStateInfo save_info_pci = {
    .name = "fakernic PCI configuration",
    .get = save_pci_get,
    .put = save_pci_put,
};

/* ---- objects and engine -------------------------------------------------- */

static bool save_write(void *f, const void *bytes, size_t size)
{
    qemu_put_buffer(f, bytes, size);
    return true;                /* QEMU checks the file for errors itself */
}

static bool save_read(void *f, void *bytes, size_t size)
{
    return qemu_get_buffer(f, bytes, size) == size &&
           !qemu_file_get_error(f);
}

/* Whether a fault rule has stopped the device. */
static void save_stopped(RoceStream *s, FakernicState *d)
{
    const unsigned reasons = FAKERNIC_HELD_FAULT | FAKERNIC_HELD_DEAD;
    uint32_t held = d->held & reasons;

    ROCE_FIELD(s, held);
    ROCE_CHECK(s, !(held & ~reasons), "reason of a stop");
    if (s->loads && !s->failed) {
        fakernic_hold(d, held, true);
    }
}

/*
 * Fault rules and the recorder. If no driver uses the saved device and it has
 * no rules, the destination keeps its own rules and recorder, as it keeps its
 * MAC address. So machines that start from one snapshot may have different
 * rules.
 */
static void save_watch(RoceStream *s, FakernicState *d)
{
    bool replaces = d->status & FAKERNIC_STATUS_ENABLED ||
                    fakernic_fault_saves(d);

    ROCE_FIELD(s, replaces);
    if (replaces && !s->failed) {
        fakernic_fault_save(s, d);
        save_stopped(s, d);
        fakernic_record_save(s, d);
    }
}

static int save_stream_put(QEMUFile *f, void *pv, size_t size,
                           const VMStateField *field, JSONWriter *desc)
{
    FakernicState *s = pv;
    RoceStream stream = { .write = save_write, .host = f };

    if (!s->saved.resetting) {
        fakernic_save_objects(&stream, s);
        stream.failed = stream.failed || !roce_save(s->roce, save_write, f);
    }
    save_watch(&stream, s);
    return stream.failed ? -EIO : 0;
}

/* A reset that is due, or still frees objects, completes. */
static void save_settle(FakernicState *s)
{
    while (s->held & FAKERNIC_HELD_RESET) {
        fakernic_budget_renew(s);
        fakernic_life_settle(s);
    }
}

/* Ends a load that has failed, with an empty device. Returns -EINVAL. */
static int save_refuse(FakernicState *s, const char *why)
{
    error_report("%s: the saved state cannot be loaded: %s", s->name, why);
    /* Part of the engine's work may have been loaded: nothing is charged. */
    s->engine_work = roce_work(s->roce);
    fakernic_reset(s);
    save_settle(s);
    return -EINVAL;
}

static int save_stream_get(QEMUFile *f, void *pv, size_t size,
                           const VMStateField *field)
{
    char error[ROCE_LOAD_ERROR] = "";
    FakernicState *s = pv;
    RoceStream stream = {
        .loads = true, .read = save_read, .host = f, .error = error,
    };

    if (!s->saved.resetting) {
        fakernic_save_objects(&stream, s);
        if (!stream.failed) {
            stream.failed = !roce_load(s->roce, save_read, f, error);
        }
        if (!stream.failed) {
            fakernic_save_compare(&stream, s);
        }
    }
    if (!stream.failed) {
        save_watch(&stream, s);
    }
    return stream.failed ? save_refuse(s, error) : 0;
}

static const VMStateInfo save_info_stream = {
    .name = "fakernic objects",
    .get = save_stream_get,
    .put = save_stream_put,
};

/* ---- the MAC address ----------------------------------------------------- */

uint64_t fakernic_save_serial(const FakernicState *s)
{
    const uint8_t *mac = s->conf.macaddr.a;
    const uint8_t serial[8] = { mac[0], mac[1], mac[2], 0xff, 0xfe,
                                mac[3], mac[4], mac[5] };

    return ldq_be_p(serial);
}

static uint8_t *save_serial_at(FakernicState *s)
{
    return PCI_DEVICE(s)->config + FAKERNIC_DSN_NUMBER;
}

/* Whether the loaded serial number is that of another MAC address. A VF has no
 * serial number: its address follows from that of its PF. */
static bool save_is_renamed(FakernicState *s)
{
    return s->vport == ESWITCH_PF &&
           ldq_le_p(save_serial_at(s)) != fakernic_save_serial(s);
}

/*
 * No driver has read the saved address, so the device keeps its own. Machines
 * that start from one snapshot therefore have different addresses.
 */
static void save_rename(FakernicState *s)
{
    stq_le_p(save_serial_at(s), fakernic_save_serial(s));
    memcpy(s->port_mac, s->conf.macaddr.a, sizeof(s->port_mac));
}

/* ---- virtual functions --------------------------------------------------- */

static bool save_vf_enabled(const FakernicState *s)
{
    return s && s->nic && PCI_DEVICE(s)->enabled;
}

/* Lists the virtual functions that are part of the state. */
static void save_find_vfs(FakernicState *pf)
{
    for (unsigned vf = 0; vf < ARRAY_SIZE(pf->saved.vfs); vf++) {
        FakernicState *s = pf->card ? pf->card->functions[vf + 1] : NULL;

        pf->saved.vfs[vf] = save_vf_enabled(s) ? s : NULL;
    }
}

static void save_settings(RoceStream *s, ESwitchSettings *set)
{
    roce_stream_bytes(s, set->mac, sizeof(set->mac));
    ROCE_FIELD(s, set->vid);
    ROCE_FIELD(s, set->vlan_proto);
    ROCE_FIELD(s, set->qos);
    ROCE_FIELD(s, set->link);
    ROCE_FIELD(s, set->spoof_check);
    ROCE_FIELD(s, set->trust);
    ROCE_FIELD(s, set->rss_query);
    ROCE_FIELD(s, set->min_mbps);
    ROCE_FIELD(s, set->max_mbps);
    ROCE_CHECK(s, !is_multicast_ether_addr(set->mac) &&
                      set->vid <= ESWITCH_VID_MAX &&
                      set->qos <= ESWITCH_QOS_MAX &&
                      set->link <= FAKERNIC_VPORT_LINK_DISABLE &&
                      (set->vlan_proto == ETH_P_VLAN ||
                       set->vlan_proto == ETH_P_DVLAN), "settings of a vport");
}

static void save_vport(RoceStream *s, FakernicState *pf, unsigned vport)
{
    const bool is_vf = vport != ESWITCH_PF && vport != ESWITCH_UPLINK;
    const ESwitch *sw = pf->card->eswitch;
    ESwitchSettings settings = *eswitch_settings(sw, vport);
    uint64_t counters[FAKERNIC_VPORT_STAT_COUNT];

    s->object = "vport";
    s->number = vport;
    if (is_vf) {
        save_settings(s, &settings);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(counters); i++) {
        counters[i] = eswitch_counter(sw, vport, i);
        ROCE_FIELD(s, counters[i]);
    }
    if (s->loads && !s->failed) {
        fakernic_card_load(pf->card, vport, is_vf ? &settings : NULL,
                           counters);
    }
}

/* The embedded switch, and the number of enabled virtual functions. */
static void save_switch(RoceStream *s, FakernicState *pf)
{
    uint32_t enabled = 0, here;

    save_find_vfs(pf);
    for (unsigned vf = 0; vf < ARRAY_SIZE(pf->saved.vfs); vf++) {
        enabled += pf->saved.vfs[vf] != NULL;
    }
    here = enabled;
    ROCE_FIELD(s, enabled);
    ROCE_CHECK(s, enabled == here, "number of virtual functions");
    for (unsigned vport = 0; pf->card && vport <= pf->vfs; vport++) {
        save_vport(s, pf, vport);
    }
    if (pf->card) {
        save_vport(s, pf, ESWITCH_UPLINK);
    }
    s->object = NULL;
}

static int save_switch_put(QEMUFile *f, void *pv, size_t size,
                           const VMStateField *field, JSONWriter *desc)
{
    RoceStream stream = { .write = save_write, .host = f };

    save_switch(&stream, pv);
    return 0;
}

static int save_switch_get(QEMUFile *f, void *pv, size_t size,
                           const VMStateField *field)
{
    char error[ROCE_LOAD_ERROR] = "";
    FakernicState *s = pv;
    RoceStream stream = {
        .loads = true, .read = save_read, .host = f, .error = error,
    };

    save_switch(&stream, s);
    return stream.failed ? save_refuse(s, error) : 0;
}

static const VMStateInfo save_info_switch = {
    .name = "fakernic switch",
    .get = save_switch_get,
    .put = save_switch_put,
};

/* ---- before and after ---------------------------------------------------- */

/* QEMU checks this length after it has loaded it, and asserts it in a save. A
 * VM can continue after a load that has failed. */
static void save_mend_aer_log(PCIEAERLog *log)
{
    if (log->log_num > log->log_max) {
        log->log_num = 0;
    }
}

static int fakernic_save_begin(void *opaque)
{
    FakernicState *s = opaque;
    const char *obstacle = fakernic_fault_unsaved(s);

    if (obstacle) {
        error_report("%s: the device cannot be saved: %s", s->name, obstacle);
        return -EBUSY;
    }
    save_mend_aer_log(&PCI_DEVICE(s)->exp.aer_log);
    fakernic_persist_wait(s);
    s->saved.resetting = s->held & FAKERNIC_HELD_RESET;
    s->saved.waking = s->cmdq.underway && s->progress.waking &&
                      le16_to_cpu(s->cmdq.request.opcode) ==
                          FAKERNIC_CMD_DESTROY_MR;
    return 0;
}

/* A device that is about to be loaded has no objects. */
static int fakernic_load_begin(void *opaque)
{
    FakernicState *s = opaque;

    s->saved.has_dm = true;     /* QEMU loads RAM before devices */
    fakernic_reset(s);
    save_settle(s);
    s->saved.has_dm = false;
    s->saved.loading = true;
    return 0;
}

/* What is wrong with the loaded registers; NULL: nothing. */
static const char *save_wrong(FakernicState *s)
{
    if (s->status & FAKERNIC_STATUS_ENABLED && save_is_renamed(s)) {
        return "property 'mac' differs, and a driver uses the device";
    }
    if (s->driver_features & ~s->features) {
        return "the driver uses features that are not offered here";
    }
    if (s->cmdq.log_depth > FAKERNIC_CMDQ_LOG_DEPTH_MAX &&
        s->status & FAKERNIC_STATUS_ENABLED) {
        return "invalid depth of the command queue";
    }
    if (s->port_mtu < FAKERNIC_MIN_MTU || s->port_mtu > s->mtu_max) {
        return "invalid MTU";
    }
    if (s->port_qpn && !fakernic_qp(s, s->port_qpn)) {
        return "invalid default queue pair of the port";
    }
    if (s->interrupts >> s->vectors) {
        return "interrupt of a vector that does not exist";
    }
    if (s->saved.waking &&
        le16_to_cpu(s->cmdq.request.opcode) != FAKERNIC_CMD_DESTROY_MR) {
        return "invalid command under way";
    }
    return NULL;
}

/* Do connections to other ports continue after a snapshot is loaded? */
static bool save_keeps_qps(const FakernicState *s)
{
    const FakernicState *pf = s->card ? s->card->functions[ESWITCH_PF] : s;

    return !g_strcmp0(pf->snapshot_qps, "keep");
}

/* A VM that stood still before a loadvm is in no other state for it. */
static bool save_ends_qps(const FakernicState *s)
{
    return s->status & FAKERNIC_STATUS_ENABLED && !save_keeps_qps(s) &&
           (s->saved.foreign || !runstate_check(RUN_STATE_INMIGRATE));
}

static int fakernic_load_end(void *opaque, int version)
{
    FakernicState *s = opaque;
    const char *wrong = s->saved.resetting ? NULL : save_wrong(s);

    if (wrong) {
        return save_refuse(s, wrong);
    }
    s->saved.loading = false;
    fakernic_record(s, LOADED, 0);
    if (save_is_renamed(s)) {
        save_rename(s);         /* no driver uses it: save_wrong() */
    }
    if (s->saved.resetting) {
        s->saved.waking = false;
        fakernic_reset(s);      /* in place of the one that was under way */
    }
    s->cmdq.underway = s->progress.waking = s->saved.waking;
    s->engine_work = roce_work(s->roce);
    s->tx_blocked = false;
    s->frames_wait = true;
    s->saved.foreign = save_ends_qps(s);
    fakernic_configured(s);
    fakernic_card_update(s);
    fakernic_kick(s);
    fakernic_thaw(s);
    return 0;
}

/* The device has not run since a snapshot was loaded: connections must still
 * end. */
static bool save_foreign_needed(void *opaque)
{
    const FakernicState *s = opaque;

    return s->saved.foreign;
}

#define SAVE_FOREIGN(type)                            \
    {                                                 \
        .name = type "/foreign",                      \
        .version_id = 1,                              \
        .minimum_version_id = 1,                      \
        .needed = save_foreign_needed,                \
        .fields = (const VMStateField[]) {            \
            VMSTATE_UINT32(saved.foreign, FakernicState), \
            VMSTATE_END_OF_LIST()                     \
        },                                            \
    }

static const VMStateDescription save_foreign = SAVE_FOREIGN(TYPE_FAKERNIC);
static const VMStateDescription save_vf_foreign =
    SAVE_FOREIGN(TYPE_FAKERNIC_VF);

#define SAVE_INFO(title, kind)                             \
    .name = (title), .info = &(kind), .flags = VMS_SINGLE, \
    .size = sizeof(FakernicState)

/* The fields that a PF and a VF have. */
#define SAVE_FUNCTION_FIELDS                                                \
    { SAVE_INFO("properties", save_info_properties) },                      \
    { SAVE_INFO("PCI configuration", save_info_pci) },                      \
    VMSTATE_STRUCT(parent_obj.exp.aer_log, FakernicState, 0,                \
                   vmstate_pcie_aer_log, PCIEAERLog),                       \
    VMSTATE_MSIX(parent_obj, FakernicState),                                \
    VMSTATE_BOOL(saved.resetting, FakernicState),                           \
    VMSTATE_BOOL(saved.waking, FakernicState),                              \
    VMSTATE_UINT32(control, FakernicState),                                 \
    VMSTATE_UINT32(status, FakernicState),                                  \
    VMSTATE_UINT32(fatal_code, FakernicState),                              \
    VMSTATE_UINT32(test, FakernicState),                                    \
    VMSTATE_UINT64(driver_features, FakernicState),                         \
    VMSTATE_UINT32(clock_high, FakernicState),                              \
    VMSTATE_UINT64(cmdq.sq_address, FakernicState),                         \
    VMSTATE_UINT64(cmdq.cq_address, FakernicState),                         \
    VMSTATE_UINT32(cmdq.log_depth, FakernicState),                          \
    VMSTATE_UINT32(cmdq.pi, FakernicState),                                 \
    VMSTATE_UINT32(cmdq.ci, FakernicState),                                 \
    VMSTATE_BOOL(cmdq.lost, FakernicState),                                 \
    VMSTATE_INT64(cmdq.delayed_until, FakernicState),                       \
    VMSTATE_BUFFER_UNSAFE(cmdq.request, FakernicState, 0,                   \
                          sizeof(struct fakernic_cmd)),                     \
    VMSTATE_BOOL(flush_waits, FakernicState),                               \
    VMSTATE_UINT32(port_mtu, FakernicState),                                \
    VMSTATE_UINT32(port_qpn, FakernicState),                                \
    VMSTATE_BOOL(link_changed, FakernicState),                              \
    VMSTATE_BOOL(vport_changed, FakernicState),                             \
    VMSTATE_UINT8(port_filter, FakernicState),                              \
    VMSTATE_BOOL(port_vlan_strip, FakernicState),                           \
    VMSTATE_BOOL(port_enabled, FakernicState),                              \
    VMSTATE_BUFFER(port_mac, FakernicState),                                \
    VMSTATE_UINT64(interrupts, FakernicState),                              \
    { SAVE_INFO("objects", save_info_stream) }

/* Part of the state of its PF. The PF's configuration, which is loaded first,
 * enables it. */
static const VMStateDescription save_vf = {
    .name = TYPE_FAKERNIC_VF,
    .version_id = 2,
    .minimum_version_id = 2,
    .pre_save = fakernic_save_begin,
    .pre_load = fakernic_load_begin,
    .post_load = fakernic_load_end,
    .fields = (const VMStateField[]) {
        SAVE_FUNCTION_FIELDS,
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription *const[]) {
        &save_vf_foreign, NULL
    },
};

const VMStateDescription fakernic_vmstate = {
    .name = TYPE_FAKERNIC,
    .version_id = 2,
    .minimum_version_id = 2,
    .pre_save = fakernic_save_begin,
    .pre_load = fakernic_load_begin,
    .post_load = fakernic_load_end,
    .fields = (const VMStateField[]) {
        SAVE_FUNCTION_FIELDS,
        { SAVE_INFO("switch", save_info_switch) },
        VMSTATE_ARRAY_OF_POINTER_TO_STRUCT(saved.vfs, FakernicState,
                                           ESWITCH_VFS_MAX, 1, save_vf,
                                           FakernicState),
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription *const[]) {
        &save_foreign, NULL
    },
};
