#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""mend_qemu.py QEMU_SRC: mends what in QEMU 10.0 loses accesses of a guest.

TCG's TLB names a device's region by its number in the memory map that the CPU
knew when it filled the entry; QEMU 10 looks that number up in the newest map.
When one CPU changes the map (it programs a BAR) another that has yet to flush its
TLB reads or writes some other device, or QEMU ends with "iotlb_to_section:
Assertion". One boot in twenty of a guest with four CPUs hangs: an EOI is lost, and
with it the timer of its CPU. In 11.1 an entry has the region itself. Here a CPU
keeps the map that its TLB was filled from, with a reference, until it flushes it.

Versions before 10 and after it are left alone. May be run again.
"""

import sys
from pathlib import Path

FIELD = "    FlatView *filled_from; /* fakernic: the map that the TLB is of */\n"
CHANGES = (
    ("    MemoryListener tcg_as_listener;\n} CPUAddressSpace;",
     "    MemoryListener tcg_as_listener;\n" + FIELD + "} CPUAddressSpace;"),
    ("            memory_listener_unregister(&cpuas->tcg_as_listener);\n",
     "            memory_listener_unregister(&cpuas->tcg_as_listener);\n"
     "            g_clear_pointer(&cpuas->filled_from, flatview_unref);\n"),
    ("    AddressSpaceDispatch *d = "
     "address_space_to_dispatch(cpu->cpu_ases[asidx].as);",
     "    AddressSpaceDispatch *d =\n"
     "        flatview_to_dispatch(cpu->cpu_ases[asidx].filled_from);"),
    ("    AddressSpaceDispatch *d = address_space_to_dispatch(cpuas->as);\n"
     "    int section_index",
     "    AddressSpaceDispatch *d = flatview_to_dispatch(cpuas->filled_from);\n"
     "    int section_index"),
    ("run_on_cpu_data data)\n{\n    tlb_flush(cpu);\n",
     "run_on_cpu_data data)\n{\n    CPUAddressSpace *space = data.host_ptr;\n"
     "    FlatView *old = space->filled_from;\n\n"
     "    space->filled_from = address_space_get_flatview(space->as);\n"
     "    tlb_flush(cpu);\n"
     "    if (old) {\n        flatview_unref(old);\n    }\n"),
)


def main(source):
    version = (source / "VERSION").read_text(encoding="utf-8").strip()
    if not version.startswith("10."):
        return
    if not version.startswith("10.0."):
        sys.exit(f"mend_qemu.py: no patch for QEMU {version}: write one")
    path = source / "system/physmem.c"
    text = path.read_text(encoding="utf-8")
    if FIELD in text:
        return
    for old, new in CHANGES:
        if text.count(old) != 1:
            sys.exit(f"mend_qemu.py: {path} differs from QEMU 10.0, without:\n{old}")
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
