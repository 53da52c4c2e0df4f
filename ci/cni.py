#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The disk of make test-cni, /cache/images/cni.erofs: the CNI plug-ins that ci/cni.sh
copied, and modules of QEMU's igb, which the guest image does not have. Run inside the
root."""

import shutil
import sys
from pathlib import Path

import build
import image
from build import StepFailed

PLUGINS = Path("/cache/cni")
KERNEL = build.KERNELS[0]
# In the order in which they are loaded.
MODULES = ("drivers/dca/dca", "drivers/i2c/algos/i2c-algo-bit",
           "drivers/net/ethernet/intel/igb/igb",
           "drivers/net/ethernet/intel/igbvf/igbvf")


def build_cni():
    version = image.kernel_version(KERNEL)
    key = build.digest([version, MODULES], [__file__, PLUGINS])
    with build.step("cni", key, "the disk of the CNI plug-ins") as this:
        if this is None:
            return
        root = image.STAGE / "cni"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(PLUGINS, root)
        source = image.kernel_folder(KERNEL) / "usr/lib/modules" / version / "kernel"
        for number, name in enumerate(MODULES):
            (root / f"{number}-{Path(name).name}.ko").write_bytes(
                image.read_module(source / f"{name}.ko.xz"))
        image.erofs(this, root, "cni.erofs")


if __name__ == "__main__":
    try:
        build_cni()
    except StepFailed as failure:
        sys.exit(f"fakernic: {failure}")
