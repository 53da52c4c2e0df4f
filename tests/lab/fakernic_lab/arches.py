# SPDX-License-Identifier: GPL-2.0-or-later
"""The architectures of guests, in one table for the launcher and the build.

A guest of another architecture than the host's is emulated.
"""

import platform
from typing import NamedTuple

from .errors import LabError


class Arch(NamedTuple):
    """An architecture. NAME is its name for --arch, DEBIAN the name in Debian's
    packages. TRIPLET is the name of its folder of libraries, and the prefix of its
    cross compiler."""
    name: str
    debian: str
    triplet: str
    loader: str         # of the C library
    qemu: str           # program
    qemu_package: str
    machine: str        # QEMU's machine type, with options
    console: str        # the serial port, a device of Linux
    append: str         # words for the kernel's command line

    @property
    def suffix(self):
        """The end of the names of its builds and images."""
        return "" if self == HOST else f"-{self.name}"

    @property
    def wrapper(self):
        """The package's name for the QEMU that has the device."""
        return f"{self.qemu}-fakernic"

    @property
    def tools(self):
        """Debian's packages of the cross compiler and QEMU: program -> package."""
        return {f"{self.triplet}-gcc": f"gcc-{self.triplet.replace('_', '-')}",
                self.qemu: self.qemu_package}


# no_timer_check: Linux tests at boot whether the timer ticks, and panics if not. On a busy
# host an emulated timer may tick too late for the test.
ARCHES = {arch.name: arch for arch in (
    Arch("x86_64", "amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2",
         "qemu-system-x86_64", "qemu-system-x86", "q35", "ttyS0",
         "no_timer_check"),
    Arch("arm64", "arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1",
         "qemu-system-aarch64", "qemu-system-arm", "virt,gic-version=max",
         "ttyAMA0", ""),
    Arch("riscv64", "riscv64", "riscv64-linux-gnu", "ld-linux-riscv64-lp64d.so.1",
         "qemu-system-riscv64", "qemu-system-riscv", "virt,aia=aplic-imsic",
         "ttyS0", ""),
)}
# The build is written for x86_64 hosts.
HOST = {"aarch64": ARCHES["arm64"]}.get(platform.machine(), ARCHES["x86_64"])
FOREIGN = tuple(arch for arch in ARCHES.values() if arch != HOST)


def named(text):
    """The architecture with the name TEXT."""
    if text not in ARCHES:
        raise LabError(f"--arch {text}: one of {', '.join(ARCHES)}")
    return ARCHES[text]


def of_each(text, count):
    """The architecture of each of COUNT machines. TEXT is one name for all machines, or
    one for each, separated by commas."""
    found = [named(word) for word in text.split(",")]
    if len(found) == 1:
        return found * count
    if len(found) != count:
        raise LabError(f"--arch {text}: {len(found)} architectures for {count} "
                       "machines: name one for all, or one for each")
    return found
