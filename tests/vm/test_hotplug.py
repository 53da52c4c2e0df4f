# SPDX-License-Identifier: GPL-2.0-or-later
"""Hot removal and addition by device_del and device_add."""

import time

import pytest

from fakernic_test import rdma

pytestmark = pytest.mark.guests(count=1, append="hotplug")

WAIT = """
for i in $(seq 300); do
    lspci -d 1af4:10f0 | grep -q . {} exit 0
    sleep 0.1
done
exit 1
"""


def devices(vm):
    """Returns the qdev ids of all PCI devices, also behind bridges."""
    todo = [dev for bus in vm.qmp("query-pci") for dev in bus["devices"]]
    found = set()
    while todo:
        device = todo.pop()
        found.add(device["qdev_id"])
        todo += device.get("pci_bridge", {}).get("devices", [])
    return found


def replug(port):
    """Removes the device, waits until guest and QEMU have released it, and
    adds it again."""
    vm = port.vm
    vm.qmp("device_del", id="nic0")
    vm.guest.check(WAIT.format("||"), 60)
    deadline = time.monotonic() + 60
    while "nic0" in devices(vm):
        assert time.monotonic() < deadline, "QEMU still has the device"
        time.sleep(0.1)
    wire, _, path = vm.nics[0].wire(0).partition("=")
    vm.qmp("device_add", driver="fakernic", id="nic0", bus="slot1",
           **{wire: path})
    vm.guest.check(WAIT.format("&&"), 60)


def works_again(port, lab):
    lab.ports = [rdma.bring_up(port.vm, 1)]
    rdma.pingpong("rc", lab.ports[0], lab.ports[0], "-n 50").check()


def test_idle_device_is_replaced(ports, lab):
    """An idle device is removed and added again, and works."""
    (port,) = ports
    replug(port)
    works_again(port, lab)


def test_device_is_replaced_under_a_program(ports, lab):
    """A program that holds a context, a QP, a CQ and memory does not block the
    removal."""
    (port,) = ports
    job = port.guest.start(
        f"exec ibv_rc_pingpong -d {port.ibdev} -g {port.gid_index()}", 60)
    port.guest.check("until ss -Hltn 'sport = :18515' | grep -q .; "
                     "do sleep 0.05; done")
    replug(port)
    port.guest.check("pkill -x ibv_rc_pingpong")
    job.wait()
    works_again(port, lab)


def test_program_is_notified_of_removal(ports, lab):
    """A program gets IBV_EVENT_DEVICE_FATAL on a removal, every verb fails,
    and all objects can be destroyed."""
    (port,) = ports
    port.guest.check("rm -f /tmp/unplug")
    job = port.guest.start("RDMAV_ALLOW_DISASSOC_DESTROY=1 exec rdma_unplug "
                           "once >/tmp/unplug", 100)
    port.guest.check("until grep -qs running /tmp/unplug; do sleep 0.1; done")
    replug(port)
    result = job.wait()
    said = port.guest.check("cat /tmp/unplug").splitlines()
    assert result.ok and said == ["running", "done"], f"{said} {result}"
    works_again(port, lab)
