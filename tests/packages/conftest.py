# SPDX-License-Identifier: GPL-2.0-or-later
"""Two machines with a plain Debian each, booted once for all tests."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "vm"), str(TESTS / "lab")]

# pylint: disable=wrong-import-position
from fakernic_lab import images, net, rdma
from fakernic_lab.machine import Machine, Nic

LOGS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/packages"))
NAMES = ("node1", "node2")
VFS = 4                     # that each card has; none is enabled at boot
APPEND = ("root=LABEL=root rw mitigations=off loglevel=5 "
          "systemd.show_status=false")


def pytest_addoption(parser):
    parser.addoption("--release", default="13", help="the Debian in the machines")


@pytest.fixture(scope="session")
def release(request):
    """The Debian release in the machines: 12 or 13."""
    return request.config.getoption("--release")


@pytest.fixture(scope="session")
def machines(release):
    parts = [images.images() / f"debian-{release}.{part}"
             for part in ("ext4", "vmlinuz", "initrd")]
    image = images.DiskImage(*parts, append=APPEND)
    image.check()
    vms = []
    with tempfile.TemporaryDirectory(prefix="fakernic-lab-") as sockets:
        wires, _ = net.wires(Path(sockets), NAMES)
        for number, (name, wire) in enumerate(zip(NAMES, wires), start=1):
            nic = Nic("fakernic", wire, mac=net.mac(number), vfs=VFS)
            vms.append(Machine(name, LOGS / name, [nic], image, memory=1024))
        try:
            for vm in vms:
                vm.launch()
            for vm in vms:
                vm.wait_booted(400)
            # The agent runs before udev has loaded all drivers and named all devices.
            for vm in vms:
                vm.guest.run("systemctl is-system-running --wait", 300)
                vm.guest.check("udevadm settle -t 200", 250)
            yield vms
            for vm in vms:
                vm.assert_healthy()
        finally:
            for vm in vms:
                vm.stop()


@pytest.fixture(scope="session")
def ports(machines):
    return rdma.bring_up_all(machines)
