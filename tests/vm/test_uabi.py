# SPDX-License-Identifier: GPL-2.0-or-later
"""Driver and provider of different age, in one guest.

Their packages are updated one at a time. The older ones are from
uabi-2bad078.tar.xz: this repository before the response of the user context
grew. The devices offer the event index, which the older ones do not use.
"""

import re
from contextlib import contextmanager

import pytest

from fakernic_lab import images
from fakernic_lab.versions import MAIN_KERNEL
from fakernic_test import rdma
from fakernic_test.lab import mount

IMAGE = images.images() / "uabi.erofs"
NAME = "libfakernic-rdmav34.so"

# The older driver was built for this kernel.
pytestmark = pytest.mark.guests(kernel=MAIN_KERNEL, sq_awake_us=100,
                                options={"extra": tuple(images.disk(IMAGE))})


@pytest.fixture(autouse=True)
def image(vms):
    assert IMAGE.exists(), (
        f"{IMAGE.name} is not there: ci/enter.sh ci/build.py uabi")
    for vm in vms:
        mount(vm.guest, IMAGE, "/mnt/uabi")


@contextmanager
def old_provider(port):
    """The older provider in place of the newer one, with a check that it is
    used."""
    path = port.guest.check(f"ls /usr/lib/*/libibverbs/{NAME}").strip()
    port.guest.check(f"mount --bind /mnt/uabi/{NAME} {path}")
    try:
        used = port.guest.check(
            "python3 -c 'import pyverbs.device as d; "
            f"c = d.Context(name=\"{port.ibdev}\"); "
            "print(open(\"/proc/self/maps\").read())'")
        assert NAME in used
        sums = port.guest.check(f"sha256sum <{path}; sha256sum </mnt/uabi/{NAME}")
        assert len(set(sums.splitlines())) == 1
        yield port
    finally:
        port.guest.check(f"umount {path}")


def build_id(port):
    """Returns the build ID of the loaded driver."""
    return port.guest.check(
        "sha256sum </sys/module/fakernic/notes/.note.gnu.build-id")


@contextmanager
def old_driver(lab, number):
    """The port of a guest with the older driver, with a check that it is
    loaded."""
    vm = lab.vms[number]
    newer = build_id(lab.ports[number])
    vm.guest.check("modprobe -r fakernic && insmod /mnt/uabi/fakernic.ko", 100)
    try:
        lab.ports[number] = rdma.bring_up(vm, number + 1)
        assert build_id(lab.ports[number]) != newer
        yield lab.ports[number]
    finally:
        vm.guest.check("rmmod fakernic && modprobe fakernic", 100)
        lab.ports[number] = rdma.bring_up(vm, number + 1)


@pytest.mark.long
def test_old_provider_with_the_driver(ports):
    a, b = ports
    with old_provider(a):
        rdma.exercise(a, b)


@pytest.mark.long
def test_provider_with_the_old_driver(ports, lab):
    with old_driver(lab, 1) as b:
        rdma.exercise(b, lab.ports[0])


def test_both_mixtures_against_each_other(ports, lab):
    with old_driver(lab, 1) as b, old_provider(lab.ports[0]) as a:
        rdma.exercise(a, b)


def test_old_provider_reads_the_same(ports):
    """The older provider reads the same attributes of the device."""
    (port, _) = ports
    tell = f"ibv_devinfo -v -d {port.ibdev} | grep -v -e sys_image -e node_guid"
    newer = port.guest.check(tell)
    with old_provider(port):
        older = port.guest.check(tell)
    assert re.search(r"max_qp:\s+\d+", newer)
    assert older == newer
