#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The disk of make test-nested, /cache/images/nested.erofs: Debian's QEMU and libvirt for a
guest, a module of its KVM that the guest image does not have, and the kernel and initrd of
a nested guest. Run inside the root, after build.py image guest-test."""

import shutil
import sys
from pathlib import Path

import build
import image
from build import StepFailed
from programs import FETCH_PACKAGES, fetch_packages

KERNEL = build.KERNELS[0]
# libvirt's driver for QEMU comes without its dependencies: its others are here already,
# and one is an init system.
PACKAGES = ("qemu-system-x86", "libvirt-clients", "libvirt-daemon-driver-network", "nftables",
            "--", "libvirt-daemon-driver-qemu")
MODULE = "drivers/crypto/ccp/ccp"       # kvm-amd depends on it
BOOTED = tuple(image.IMAGES / f"{name}-{KERNEL}" for name in ("vmlinuz", "initrd"))


def build_nested():
    version = image.kernel_version(KERNEL)
    key = build.digest([version, PACKAGES, MODULE], [__file__, FETCH_PACKAGES, *BOOTED])
    with build.step("nested", key, "QEMU and libvirt for a guest") as this:
        if this is None:
            return
        root = image.STAGE / "nested"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        fetch_packages(this, root, *PACKAGES)
        modules = image.kernel_folder(KERNEL) / "usr/lib/modules" / version / "kernel"
        (root / Path(f"{MODULE}.ko").name).write_bytes(
            image.read_module(modules / f"{MODULE}.ko.xz"))
        for path in BOOTED:
            shutil.copy(path, root / path.name.partition("-")[0])
        image.erofs(this, root, "nested.erofs")


if __name__ == "__main__":
    try:
        build_nested()
    except StepFailed as failure:
        sys.exit(f"fakernic: {failure}")
