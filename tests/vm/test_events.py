# SPDX-License-Identifier: GPL-2.0-or-later
"""Asynchronous events (IBTA 11.6.3) as programs see them.

Linux refuses alternate paths on RoCE, so IBV_EVENT_PATH_MIG and PATH_MIG_ERR
cannot occur; tests/unit/test_apm.c tests the engine's. SRQ_ERR needs a corrupt
ring, which no program can make; tests/qtest/fakernic-srq.c tests it.
"""

import pytest

from fakernic_lab import faults
from fakernic_test import rdma

pytestmark = pytest.mark.guests(count=1)


def test_queues_and_queue_pairs(ports):
    rdma.judged(ports[0], "rdma_events", 8)


@pytest.fixture
def reported(ports):
    """A function that waits until ibv_asyncwatch reports an event."""
    (port,) = ports
    port.guest.check("rm -f /tmp/events")
    job = port.guest.start(
        f"exec ibv_asyncwatch -d {port.ibdev} >/tmp/events 2>&1", 100)
    wait = "for i in $(seq 100); do {} && exit; sleep 0.1; done; cat {}; exit 1"
    port.guest.check(wait.format("[ -s /tmp/events ]", "/tmp/events"))

    def until(event):
        port.guest.check(wait.format(
            f"grep -q IBV_EVENT_{event} /tmp/events", "/tmp/events"))

    yield until
    port.guest.run(f"kill {job.pid}")
    job.wait()


def test_port(ports, reported):
    (port,) = ports
    try:
        port.vm.set_link(False)
        reported("PORT_ERR")
    finally:
        port.vm.set_link(True)
    reported("PORT_ACTIVE")


def state_of_port(port):
    return port.guest.check(
        f"sleep 1; rdma link show {port.ibdev}/1 | grep -o ' state [A-Z]*'")


def test_failed_open_leaves_port_down(ports, lab):
    """If the link comes up while the interface fails to open, the port stays
    down."""
    (port,) = ports
    port.guest.check(f"ip link set {port.netdev} down")
    port.guest.check(f"until rdma link show {port.ibdev}/1 | grep -q 'state DOWN'; "
                     "do sleep 0.1; done")
    try:
        with faults.armed(port.vm,
                          "at=command cmd=CREATE_CQ delay-ns=3000000000 do=delay",
                          "at=command cmd=CREATE_QP do=fail status=6") as rules:
            job = port.guest.start(f"ip link set {port.netdev} up", 60)
            rules.wait_for([1, 0])
            port.vm.set_link(False)
            port.vm.set_link(True)
            assert not job.wait().ok
            assert rules.hits() == [1, 1]
        assert state_of_port(port) == " state DOWN\n"
    finally:
        lab.ports = [rdma.bring_up(port.vm, 1)]
    assert state_of_port(port) == " state ACTIVE\n"


def test_gid_change(ports, reported):
    (port,) = ports
    port.guest.check(f"ip addr add 192.168.78.9/24 dev {port.netdev}")
    try:
        reported("GID_CHANGE")
    finally:
        port.guest.check(f"ip addr del 192.168.78.9/24 dev {port.netdev}")


def test_unbind_raises_device_fatal(ports, lab, reported):
    """Unbinding the driver raises DEVICE_FATAL in programs, and they do not
    delay the unbind."""
    (port,) = ports
    port.guest.check("modprobe -r fakernic", 30)
    reported("DEVICE_FATAL")
    lab.ports = [rdma.bring_up(port.vm, 1)]
    rdma.pingpong("rc", *lab.ports, *lab.ports, "-n 50").check()
