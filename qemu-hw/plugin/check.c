/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks that the running QEMU has the structure layout of the headers that the
 * device was compiled with. QEMU's own functions write values, and the check
 * reads them at the offsets of these headers. It also compares offsets that
 * QEMU stores. It runs after all types are registered and before any object is
 * created. A difference ends the process with an error line.
 */
#include "qemu/osdep.h"
#include <dlfcn.h>
#include "qemu/module.h"
#include "qemu/timer.h"
#include "hw/pci/pci_bridge.h"
#include "../device/compat.h"
#include "../device/state.h"
#include "plugin.h"
#include "source-id.h"

/* A device class that the QEMU of each architecture has, and its PCI ids. */
#define FAKERNIC_KNOWN_TYPE     "pci-bridge"
#define FAKERNIC_KNOWN_VENDOR   0x1b36
#define FAKERNIC_KNOWN_DEVICE   0x0001

__attribute__((visibility("default")))
const char *fakernic_plugin_built_for(void)
{
    return FAKERNIC_PLUGIN_BUILD_ID;
}

__attribute__((visibility("default")))
const char *fakernic_plugin_made_of(void)
{
    return FAKERNIC_PLUGIN_SOURCE_ID;
}

static void fakernic_check(bool agrees, const char *what)
{
    if (!agrees) {
        /* Too early for error_report(), and for QEMU's exit handlers. */
        fprintf(stderr,
                "fakernic: this QEMU's %s differs from what the plug-in was "
                "built with: run fakernic-qemu-rebuild\n", what);
        _exit(1);
    }
}

static void fakernic_check_classes(void)
{
    ObjectClass *class = object_class_by_name(FAKERNIC_KNOWN_TYPE);
    const PCIDeviceClass *pc = (PCIDeviceClass *)class;
    const DeviceClass *dc = (DeviceClass *)class;

    fakernic_check(class && pc->vendor_id == FAKERNIC_KNOWN_VENDOR &&
                       pc->device_id == FAKERNIC_KNOWN_DEVICE && pc->realize &&
                       pc->exit && pc->config_write,
                   "PCIDeviceClass");
    fakernic_check(test_bit(DEVICE_CATEGORY_BRIDGE, dc->categories) &&
                       dc->user_creatable && dc->hotpluggable && dc->vmsd,
                   "DeviceClass");
}

/* True: the class has a property at that offset of an instance. Its description
 * is read only if it is within the program. */
static bool fakernic_lies_at(ObjectClass *class, const char *name,
                             size_t offset)
{
    const ObjectProperty *found = object_class_property_find(class, name);
    const Property *property = found ? found->opaque : NULL;
    Dl_info info;

    return property && dladdr(property, &info) && property->offset == offset;
}

/* Checks PCIDevice from its start to its last field; two memory regions lie
 * in between. */
static void fakernic_check_pci_device(void)
{
    ObjectClass *class = object_class_by_name(FAKERNIC_KNOWN_TYPE);

    fakernic_check(
        fakernic_lies_at(class, "addr", offsetof(PCIDevice, devfn)) &&
            fakernic_lies_at(class, "romsize", offsetof(PCIDevice, romsize)) &&
            fakernic_lies_at(class, "rombar", offsetof(PCIDevice, rom_bar)) &&
            fakernic_lies_at(class, "acpi-index",
                             offsetof(PCIDevice, acpi_index)) &&
            fakernic_lies_at(class, "x-max-bounce-buffer-size",
                             offsetof(PCIDevice, max_bounce_buffer_size)),
        "PCIDevice");
}

static void fakernic_check_memory_region(void)
{
    const MemoryRegionOps ops = { .valid.max_access_size = 4 };
    MemoryRegion *mr = (MemoryRegion *)object_new(TYPE_MEMORY_REGION);

    memory_region_init_io(mr, NULL, &ops, mr, NULL, 0x12345000);
    fakernic_check(int128_get64(mr->size) == 0x12345000 && mr->ops == &ops &&
                       mr->opaque == mr && mr->terminates && !mr->ram_block &&
                       !mr->name,
                   "MemoryRegion");
    object_unref(OBJECT(mr));
}

static void fakernic_check_timer(void)
{
    struct {
        QEMUTimer timer;
        uint64_t behind;
    } room = { .behind = 0x0123456789abcdef };

    timer_init_full(&room.timer, NULL, QEMU_CLOCK_VIRTUAL, 7, 5,
                    (QEMUTimerCB *)&room, &room.behind);
    fakernic_check(room.timer.scale == 7 && room.timer.attributes == 5 &&
                       room.timer.cb == (QEMUTimerCB *)&room &&
                       room.timer.opaque == &room.behind &&
                       room.timer.expire_time == -1 &&
                       room.behind == 0x0123456789abcdef,
                   "QEMUTimer");
}

static void fakernic_plugin_check(void)
{
    fakernic_check_classes();
    fakernic_check_pci_device();
    fakernic_check_memory_region();
    fakernic_check_timer();
}

/* Runs after the types of all modules are registered. */
migration_init(fakernic_plugin_check)
