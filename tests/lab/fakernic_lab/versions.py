# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of kernels, rdma-cores, QEMUs and providers.

versions.txt is a link to ci/versions. An installed launcher and a bundle have a
copy of that file instead.
"""

import re
from pathlib import Path

LIST = Path(__file__).resolve().parent / "versions.txt"
LIBIBVERBS = re.compile(r"libibverbs\.so\.1\.\d+\.(\d+)(?:\.\d+)*")


def rows():
    """The lines of the list: kind, version, role, suite."""
    return [line.split() for line in LIST.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]


def listed(kind, *roles):
    """The versions of a kind ("kernel", "rdma-core", "qemu") that have one of these
    roles, in the order of the list. Without roles: all versions of that kind."""
    return tuple(version for row_kind, version, role, _ in rows()
                 if row_kind == kind and (not roles or role in roles))


def roles(version):
    """The roles of a version."""
    return {role for _, name, role, _ in rows() if name == version}


def providers():
    """The providers: the releases of rdma-core that each is for, such as "45-56",
    and the number of their private interface, such as "34"."""
    return tuple((version, role) for kind, version, role, _ in rows()
                 if kind == "provider")


def provider_for(libibverbs):
    """The path, below the folder of providers, of the provider for a library, or None.
    LIBIBVERBS is the file that libibverbs.so.1 links to, such as
    libibverbs.so.1.14.56.1: only its name has the release."""
    found = LIBIBVERBS.fullmatch(Path(libibverbs).name)
    for name, abi in providers() if found else ():
        first, last = map(int, name.split("-"))
        if first <= int(found[1]) <= last:
            return Path(name) / f"libfakernic-rdmav{abi}.so"
    return None


(MAIN_KERNEL,) = listed("kernel", "main")
(OLD_KERNEL,) = listed("kernel", "old")
