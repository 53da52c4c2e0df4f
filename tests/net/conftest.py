# SPDX-License-Identifier: GPL-2.0-or-later
"""Three machines on taps: two with fakernic, each started by a Lab of its own as if on
separate hosts, and one with Soft-RoCE. They boot once. The tests move the taps.

All taps are in a new network namespace. That needs /dev/net/tun and, for an ordinary
user, a user namespace such as that of ci/enter.sh.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "vm"), str(TESTS / "lab")]

# pylint: disable=wrong-import-position
from fakernic_lab import rdma
from fakernic_lab.lab import Lab
from fakernic_lab.machine import Machine, Nic
from fakernic_lab.net import TAP, mac
from networks import run

LOGS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/net"))
TAPS = ("tap1", "tap2", "tap3")
NUMBERS = (1, 2)
RXE = 3
MTU = 9000


def pytest_configure():
    os.unshare(os.CLONE_NEWNET)
    run("ip", "link", "set", "lo", "up")


@pytest.fixture(scope="session")
def taps():
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.fail("/dev/net/tun does not open: load the module tun, or run "
                    "'chmod 666 /dev/net/tun' (the mode that udev sets)")
    for tap in TAPS:
        run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
        run("ip", "link", "set", tap, "up")


@pytest.fixture(scope="session")
def machines(taps):
    """The Labs of the first two machines, and the third machine."""
    with tempfile.TemporaryDirectory(prefix="fakernic-lab-") as sockets:
        labs = [Lab(count=1, first=number, netdev=TAP,
                    out=LOGS / f"host{number}") for number in NUMBERS]
        nic = Nic("virtio-net-pci", TAP.format(n=RXE), mac=mac(RXE))
        third = Machine("rxe", LOGS / "rxe", [nic], sockets=Path(sockets) / "rxe")
        third.sockets.mkdir()
        try:
            for lab in labs:
                lab.launch()
            third.launch()
            for lab in labs:
                lab.await_boot()
            third.wait_booted()
            yield [*labs, third]
            third.assert_healthy()
        finally:
            for machine in (*labs, third):
                machine.stop()


@pytest.fixture
def ports(machines):
    """The RDMA ports of the machines with fakernic. Checks for complaints afterwards."""
    labs = machines[:2]
    yield [lab.nodes[0].port for lab in labs]
    for lab in labs:
        lab.judge()


@pytest.fixture(scope="session")
def rxe(machines):
    return rdma.bring_up(machines[2], RXE, "rxe")
