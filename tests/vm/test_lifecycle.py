# SPDX-License-Identifier: GPL-2.0-or-later
"""Coming and going: modules, devices, processes.

1. 20 times unload and load, traffic after the last
2. a program killed in mid-traffic leaves nothing in `rdma res`
3. the device is unplugged and plugged again, also while a program uses it
4. `-device fakernic` with bad properties ends QEMU with one line
"""

import subprocess
import time

import pytest

from fakernic_test.rdma import bring_up, bring_up_all, pingpong
from fakernic_test.vm import QEMU

# What every fakernic has on its own: QP 1 and the port's QP with their CQs.
RESOURCES = "rdma resource show {}"


def resources(port):
    """{"pd": n, "cq": n, ...} of `rdma resource`, for the port's device."""
    out = port.guest.check(f"rdma resource show {port.ibdev}")
    words = out.split(":", 2)[-1].split()
    return dict(zip(words[0::2], map(int, words[1::2])))


def test_unload_and_load_twenty_times(lab, kernel):
    port = bring_up_all(lab.get(1, kernel))[0]
    port.guest.check("""
        set -e
        for i in $(seq 20); do
            modprobe -r fakernic
            [ ! -e /sys/class/infiniband/fakernic0 ]
            modprobe fakernic
        done
        """, 240)
    port = bring_up(port.vm, 1)
    pingpong("rc", port, port, "-n 50").check()


def test_killed_program_leaves_nothing(two):
    a, b = two
    before = [resources(port) for port in two]
    server = a.guest.start(
        f"exec ib_write_bw -F -d {a.ibdev} -x {a.gid_index()} "
        "--run_infinitely", 60)
    time.sleep(2)
    client = b.guest.start(
        f"exec ib_write_bw -F -d {b.ibdev} -x {b.gid_index()} "
        f"--run_infinitely {a.ip4}", 60)
    deadline = time.monotonic() + 20
    while resources(b) == before[1]:
        assert time.monotonic() < deadline, "the client created nothing"
        time.sleep(0.2)
    time.sleep(2)
    for port in (b, a):
        port.guest.check("pkill -9 -x ib_write_bw")
    server.wait()
    client.wait()
    deadline = time.monotonic() + 10
    while [resources(port) for port in two] != before:
        assert time.monotonic() < deadline, (
            [resources(port) for port in two], before)
        time.sleep(0.2)
    pingpong("rc", a, b, "-n 50").check()


def test_idle_device_is_unplugged_and_plugged_again(lab):
    port = bring_up_all(lab.get(1))[0]
    unplug_and_plug(port)
    pingpong("rc", *[bring_up(port.vm, 1)] * 2, "-n 50").check()


def test_device_is_unplugged_under_a_program(lab):
    port = bring_up_all(lab.get(1))[0]
    # A server that waits: it holds a context, a QP, a CQ and memory.
    job = port.guest.start(
        f"exec ibv_rc_pingpong -d {port.ibdev} -g {port.gid_index()}", 60)
    time.sleep(2)
    unplug_and_plug(port)
    port.guest.check("pkill -x ibv_rc_pingpong")
    job.wait()
    pingpong("rc", *[bring_up(port.vm, 1)] * 2, "-n 50").check()


def unplug_and_plug(port):
    """Hot remove as a user does it, then the same device again."""
    guest, vm = port.guest, port.vm
    vm.qmp("device_del", id="nic0")
    guest.check("for i in $(seq 300); do lspci -d 1af4:10f0 | grep -q . || exit 0; "
                "sleep 0.1; done; exit 1", 60)
    deadline = time.monotonic() + 10
    while "nic0" in [dev.get("qdev_id") for bus in vm.qmp("query-pci")
                     for dev in walk(bus["devices"])]:
        assert time.monotonic() < deadline, "QEMU still has the device"
        time.sleep(0.1)
    vm.qmp("device_add", driver="fakernic", netdev="n0", id="nic0", bus="slot1")
    guest.check("for i in $(seq 300); do lspci -d 1af4:10f0 | grep -q . && exit 0; "
                "sleep 0.1; done; exit 1", 60)


def walk(devices):
    for device in devices:
        yield device
        yield from walk(device.get("pci_bridge", {}).get("devices", []))


@pytest.mark.parametrize("properties", [
    "netdev=missing", "max-qp=3", "max-qp=100000000", "uars=0", "mtu-max=20",
    "no-such-property=1", "mac=nonsense",
])
def test_bad_property_ends_qemu_with_one_line(properties):
    result = subprocess.run(
        [QEMU, "-L", "/usr/share/seabios", "-nodefaults", "-display", "none",
         "-machine", "q35,accel=tcg", "-S", "-device", f"fakernic,{properties}"],
        capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1, result
    errors = result.stderr.strip().splitlines()
    assert len(errors) == 1 and errors[0].startswith("qemu-system-x86_64"), errors
