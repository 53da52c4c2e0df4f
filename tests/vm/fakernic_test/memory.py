# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory a machine takes: of the host, but for what is the guest's, and
of what the guest's kernel keeps for itself.
"""

import re

LARGE_KIB = 256 << 10           # guest memory and translated code
LOOKS = 5
KEPT = ("SUnreclaim", "KernelStack", "PageTables", "VmallocUsed", "Percpu")


def heap(vm):
    """The resident KiB of all that QEMU has allocated: what no file is behind
    and can be written to."""
    total, ours, size = 0, False, 0
    with open(f"/proc/{vm.pid}/smaps", encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if re.match("[0-9a-f]+-", line):
                ours = words[1].startswith("rw") and words[4] == "0"
            elif words[0] == "Size:":
                size = int(words[1])
            elif words[0] == "Rss:" and ours and size < LARGE_KIB:
                total += int(words[1])
    return total


def kernel(vm):
    """KiB that the guest's kernel cannot give back, and those it could give."""
    text = vm.guest.check("cat /proc/meminfo", 60)
    found = {name: int(kib) for name, kib in re.findall(
        r"^(\w+): +(\d+) kB", text, re.M)}
    return sum(found[name] for name in KEPT), found["MemAvailable"]


class Growth:
    """What machines take more than when it was made, caches apart."""

    kinds = ("QEMU's heap", "the kernel's own", "what is not available")
    limits = (8192, 2048, 8192)     # what may come and go of each, in KiB

    def __init__(self, vms):
        self.vms = list(vms)
        self.before = [self.look(vm) for vm in self.vms]

    @staticmethod
    def look(vm):
        vm.guest.check("sync; echo 3 >/proc/sys/vm/drop_caches; sleep 1")
        own, available = kernel(vm)
        return heap(vm), own, -available

    def check(self):
        """It is within the limits; what there is goes to the report. A kernel frees
        some things later: what is lost is there in the last look as well."""
        for _ in range(LOOKS):
            rows = [[now - then for now, then in zip(self.look(vm), before)]
                    for vm, before in zip(self.vms, self.before)]
            for vm, row in zip(self.vms, rows):
                print(f"growth of {vm.name} in KiB:",
                      dict(zip(self.kinds, row)))
            if all(kib <= limit for row in rows
                   for kib, limit in zip(row, self.limits)):
                return
        raise AssertionError((rows, self.limits))
