# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest alone, and how QEMU refuses wrong properties."""

import subprocess

import pytest

from fakernic_lab import places
from fakernic_test import rdma

FUTURE = 0x7fff0000


@pytest.mark.guests(count=1)
@pytest.mark.parametrize("family", (4, 6))
@pytest.mark.parametrize("kind", ("rc", "uc", "ud", "srq"))
def test_every_service_in_loopback(ports, kind, family):
    (port,) = ports
    rdma.pingpong(kind, port, port, "-n 100", family).check()


@pytest.mark.guests(count=1)
def test_guest_without_peer_uses_loopback(ports):
    """A guest without a peer can use RDMA with itself."""
    (port,) = ports
    rdma.pingpong("rc", port, port, "-c -e").check()
    rdma.rping(port, port, count=5).check()
    rdma.line_of_text(port, port, "to myself").check()


@pytest.mark.guests(count=1)
def test_guest_starts_from_a_snapshot(vms, request):
    """A guest with the usual card does not boot, except with --boot."""
    (vm,) = vms
    assert vm.is_loaded() != request.config.getoption("--boot")
    assert vm.guest.check("cat /proc/sys/kernel/hostname") == "a\n"


@pytest.mark.guests(count=1, x_interface_version=FUTURE)
def test_unknown_interface_version_is_refused(vms):
    """The driver refuses an unknown interface version with one line in dmesg
    and without a device."""
    (vm,) = vms
    vm.expect_repair()
    vm.guest.check("modprobe fakernic")
    lines = [line for line in vm.guest.check("dmesg").splitlines()
             if "fakernic" in line and "interface version" in line]
    assert len(lines) == 1, lines
    assert vm.guest.check("ls /sys/class/infiniband 2>/dev/null || :") == ""
    vm.guest.check("modprobe -r fakernic")


@pytest.mark.parametrize("properties", (
    "mac=nonsense", "max-qp=0", "max-qp=-1", "mtu-max=100000", "uars=3000000000",
    "nosuchproperty=1", "netdev=nothere"))
def test_wrong_properties_are_refused(properties):
    """QEMU refuses wrong properties with an error message and exit code 1."""
    result = subprocess.run(
        [*places.qemu_command(), "-machine", "q35", "-nodefaults", "-display", "none", "-S",
         "-device", f"fakernic,{properties}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        check=False)
    assert result.returncode == 1, result
    assert f"-device fakernic,{properties}: " in result.stderr, result
