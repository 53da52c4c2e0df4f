# SPDX-License-Identifier: GPL-2.0-or-later
"""Access to the device: namespaces and capabilities."""

import pytest

from fakernic_lab import faults
from fakernic_test import rdma
from fakernic_test.recovery import (NATIVE_HOTPLUG, RELOAD, commands_may_take,
                                   fatal_bus_error, is_recovered, reload, reset,
                                   sleep)

# Those of test_recovery.py.
pytestmark = pytest.mark.guests(count=1, append="iomem=relaxed",
                                options={"extra": NATIVE_HOTPLUG})

NOBODY = 65534
INSIDE = "ip netns exec red"
COMES_UP_S = 15         # longer than a namespace takes to end


RENEWALS = (reset, reload, fatal_bus_error, sleep)


def move(port):
    """Moves interface and RDMA device into a namespace, where they get to
    work."""
    port.guest.check(f"""
        set -e
        rdma system set netns exclusive
        ip netns add red
        ip link set {port.netdev} netns red
        rdma dev set {port.ibdev} netns red
        [ -z "$(rdma dev)" ]
        [ -z "$(ls /sys/class/infiniband)" ]
        if rdma_odp atomics; then exit 1; fi
        {INSIDE} ip link set lo up
        {INSIDE} ip link set {port.netdev} up
        {INSIDE} ip addr add {port.ip4}/24 dev {port.netdev}
        """, 60)
    port.guest.write("/tmp/wait_gids", rdma.WAIT_GIDS.format(
        dev=port.ibdev, count=2))


def works_inside(port):
    port.guest.check(f"{INSIDE} bash /tmp/wait_gids", 60)
    port.guest.check(f"{INSIDE} rdma_odp atomics", 60)
    rdma.rping(port, port, 5, inside=INSIDE).check()


def comes_back(port):
    """Waits until the device is back after the end of the namespace."""
    port.guest.check(f"""
        for i in $(seq 300); do
            [ -e /sys/class/infiniband/{port.ibdev} ] &&
            [ -e /sys/class/net/{port.netdev} ] &&
            rdma system set netns shared && exit
            sleep 0.1
        done
        exit 1
        """, 60)


def test_exclusive_network_namespaces(ports, lab):
    """In exclusive mode the device belongs to one namespace, works there, and
    comes back at its end."""
    (port,) = ports
    move(port)
    works_inside(port)
    port.guest.check("ip netns del red")
    comes_back(port)
    lab.ports = [rdma.bring_up(port.vm, 1)]
    rdma.pingpong("rc", lab.ports[0], lab.ports[0], "-n 50").check()


def test_rdma_device_stays_in_its_namespace(ports, lab):
    """The RDMA device stays in its namespace over a reset. If the namespace
    has ended it is in the initial one."""
    (port,) = ports
    guest = port.guest
    move(port)
    for renewal in RENEWALS:
        renewal(port)
        works_inside(port)
        assert not guest.check("rdma dev"), renewal
    guest.check("dmesg -C")
    faults.set_fault(port.vm, "at=device do=fatal")
    is_recovered(guest)
    works_inside(port)
    commands_may_take(guest, COMES_UP_S)
    with faults.armed(port.vm, "at=command cmd=NOP do=drop"):
        job = guest.start(RELOAD)
        guest.check(f"""
            while [ "$({INSIDE} rdma dev)" ]; do sleep 0.1; done
            ip netns del red
            until [ -e /sys/class/net/{port.netdev} ]; do sleep 0.1; done
            [ -z "$(rdma dev)" ]
            """, 60)
        job.wait().check()
    commands_may_take(guest)
    comes_back(port)
    lab.ports = [rdma.bring_up(port.vm, 1)]
    rdma.pingpong("rc", lab.ports[0], lab.ports[0], "-n 50").check()


def test_interface_stays_in_its_namespace(ports, lab):
    """The interface stays in its namespace over a reset, with its address, and
    RDMA works there."""
    (port,) = ports
    port.guest.check(f"""
        set -e
        ip netns add red
        ip link set {port.netdev} netns red
        {INSIDE} ip link set lo up
        {INSIDE} ip link set {port.netdev} up
        {INSIDE} ip addr add {port.ip4}/24 dev {port.netdev}
        """, 60)
    port.guest.write("/tmp/wait_gids", rdma.WAIT_GIDS.format(
        dev=port.ibdev, count=2))
    for renewal in RENEWALS:
        renewal(port)
        shown = port.guest.check(f"{INSIDE} ip -o addr show {port.netdev}")
        assert port.ip4 in shown, shown
        port.guest.check(f"{INSIDE} bash /tmp/wait_gids", 60)
        rdma.rping(port, port, 5, inside=INSIDE).check()
    port.guest.check(f"""
        ip netns del red
        until [ -e /sys/class/net/{port.netdev} ]; do sleep 0.1; done
        """, 60)
    lab.ports = [rdma.bring_up(port.vm, 1)]
    rdma.pingpong("rc", lab.ports[0], lab.ports[0], "-n 50").check()


def outcomes(port, user):
    lines = port.guest.check(f"rdma_raw {user}").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_raw_packets_need_privilege(ports):
    """Raw-packet QPs and flow rules need CAP_NET_RAW; other objects do not."""
    (port,) = ports
    port.guest.check("chmod 666 /dev/infiniband/uverbs*")
    before = rdma.resources(port)
    assert outcomes(port, 0) == {"raw": "made", "flow": "made", "mr": "made"}
    refused = "Operation not permitted"
    assert outcomes(port, NOBODY) == {"raw": refused, "flow": refused,
                                      "mr": "made"}
    rdma.wait_for_resources(port, before)
