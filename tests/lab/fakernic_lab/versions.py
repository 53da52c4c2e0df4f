# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of kernels, rdma-cores and QEMUs: ci/versions of a checkout.

The package of the launcher installs the list.
"""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3] / "ci/versions"
INSTALLED = Path("/usr/share/fakernic-lab/versions")


def listed(kind, *roles):
    """The versions of a kind ("kernel", "rdma-core", "qemu") with one of these
    roles, or with any; in the order of the list."""
    path = CHECKOUT if CHECKOUT.exists() else INSTALLED
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]
    return tuple(version for row_kind, version, role, _ in rows
                 if row_kind == kind and (not roles or role in roles))


(MAIN_KERNEL,) = listed("kernel", "main")
(OLD_KERNEL,) = listed("kernel", "old")
