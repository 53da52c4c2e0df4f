# SPDX-License-Identifier: GPL-2.0-or-later
"""The architectures of guests and hosts, for the launcher and the build.

arches.txt is a link to ci/arches. An installed launcher and a bundle have a copy
of that file instead. A guest of another architecture than the host's is emulated.
"""

import platform
from pathlib import Path
from typing import NamedTuple

from .errors import LabError

TABLE = Path(__file__).resolve().parent / "arches.txt"


class Arch(NamedTuple):
    """An architecture. ci/arches says what each field is."""
    cpu: str
    name: str
    debian: str
    triplet: str
    loader: str
    qemu: str
    qemu_package: str
    machine: str
    console: str
    append: str

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


def table():
    """The architectures of the table, by name."""
    rows = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]
    facts, *columns = zip(*rows)
    arches = [Arch(**dict(zip(facts, ["" if value == "-" else value for value in column])))
              for column in columns]
    return {arch.name: arch for arch in arches}


ARCHES = table()
# A launcher on another host boots x86_64 machines: it emulates all of them.
HOST = next((arch for arch in ARCHES.values() if arch.cpu == platform.machine()),
            ARCHES["x86_64"])
FOREIGN = tuple(arch for arch in ARCHES.values() if arch != HOST)


def named(text):
    """The architecture with the name TEXT."""
    if text not in ARCHES:
        raise LabError(f"--arch {text}: one of {', '.join(ARCHES)}")
    return ARCHES[text]


def all_named(text):
    """The architectures with these names, which commas separate."""
    return [named(word) for word in text.split(",")]
