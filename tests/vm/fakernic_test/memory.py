# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory a machine uses: of the host, without guest memory, and of
the guest's kernel."""

import re
import statistics

LARGE_KIB = 256 << 10           # guest memory and translated code
NODE = 48                       # bytes: of GLib's trees, with malloc()'s header
BUCKET = 64                     # bytes: of QEMU's hash tables
KEPT = ("SUnreclaim", "KernelStack", "PageTables", "VmallocUsed", "Percpu")


def translated(vm):
    """Returns the KiB of the tree and table of blocks that TCG has translated,
    or 0 without TCG. They grow with each module that is loaded to a new
    address, the table by doubling."""
    jit = vm.hmp("info jit")
    count = re.search(r"^TB count +(\d+)", jit, re.M)
    buckets = re.search(r"^TB hash buckets +\d+/(\d+)", jit, re.M)
    if not count:
        return 0
    print(f"{vm.name}: {count[1]} translated blocks, {buckets[1]} buckets")
    return int(count[1]) * NODE + int(buckets[1]) * BUCKET >> 10


def heap(vm):
    """Returns the resident KiB of writable memory of QEMU without a file
    behind it, less that of TCG's blocks."""
    total, ours, size = -translated(vm), False, 0
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
    """Returns the KiB that the guest's kernel cannot free, and those that are
    available."""
    text = vm.guest.check("cat /proc/meminfo", 60)
    found = {name: int(kib) for name, kib in re.findall(
        r"^(\w+): +(\d+) kB", text, re.M)}
    return sum(found[name] for name in KEPT), found["MemAvailable"]


class Growth:
    """Memory that machines use more and more of in repeated work, without
    caches. A leak shows in each part. A table that doubles once shows in one
    part, so not in the median; the total must stay below three times the
    limit."""

    kinds = ("QEMU's heap", "the kernel's own", "what is not available")

    def __init__(self, vms, heap=4096):
        """HEAP is the limit for the growth of QEMU's heap, in KiB, over all
        parts."""
        self.vms = list(vms)
        self.limits = (heap, 1024, 8192)
        self.looks = []
        self.end_part()

    def end_part(self):
        """Ends a part; the first one begins when the object is made."""
        self.looks.append([self.look(vm) for vm in self.vms])

    @staticmethod
    def look(vm):
        vm.guest.check("sync; echo 3 >/proc/sys/vm/drop_caches; sleep 1")
        own, available = kernel(vm)
        return heap(vm), own, -available

    def check(self):
        """Checks the limits, and prints the growth for the report."""
        assert len(self.looks) > 3, "no median without three parts"
        for vm, looks in zip(self.vms, zip(*self.looks)):
            for kind, limit, values in zip(self.kinds, self.limits, zip(*looks)):
                steps = [now - then for then, now in zip(values, values[1:])]
                grown = min(statistics.median(steps) * len(steps), sum(steps))
                print(f"growth of {vm.name}, {kind}, in KiB: {steps}")
                assert grown <= limit and sum(steps) <= 3 * limit, (
                    vm.name, kind, steps, limit)
