# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA between machines over networks of the host.

The tests include frames that are too long for a network. README.md describes the
symptoms for users.
"""

import pytest

import networks
from fakernic_test import rdma

BOTH = ("tap1", "tap2")
# IPv4 and ICMP headers. ping's payload is the MTU without them.
HEADERS = 20 + 8
# The MTUs that fit RoCE packets with 1024 and with 4096 bytes.
SHORT, LONG = 1500, 9000


@pytest.fixture
def set_mtu(ports):
    """A function that sets the MTU in both machines. The default is restored afterwards."""
    def of_both(mtu):
        for port in ports:
            port.set_mtu(mtu)
    yield of_both
    of_both(SHORT)


def ping(server, client, mtu):
    """Whether an IP packet of MTU bytes arrives whole, after small ones."""
    client.guest.check(f"ping -c 1 -w 20 {server.ip4}", 30)
    return client.guest.run(f"ping -c 1 -i 0.5 -w 6 -M do -s {mtu - HEADERS} "
                            f"{server.ip4}").ok


def work(server, client, path_mtu):
    """Checks messages of several packets, connections over IPv6, datagrams, and a
    bandwidth test."""
    rdma.verify("rc", server, client, f"-n 4 -m {path_mtu}").check()
    rdma.rping(server, client, 4, 10000, 6).check()
    rdma.pingpong("ud", server, client, f"-c -n 50 -s {path_mtu}").check()
    pair = rdma.perftest("ib_write_bw", client, server,
                         f"-m {path_mtu} -n 100 -s 65536").check()
    assert rdma.perftest_numbers(pair.client.out)


def test_bridge(ports):
    with networks.bridge(BOTH):
        assert ping(*ports, SHORT)
        work(*ports, 1024)


def test_bridge_of_long_frames(ports, set_mtu):
    set_mtu(LONG)
    with networks.bridge(BOTH, LONG):
        assert ping(*ports, LONG)
        work(*ports, 4096)


def test_vxlan(ports):
    """VXLAN leaves 1450 of 1500 bytes. That is enough for RoCE's path MTU of 1024, and too
    little for IP packets of full length."""
    with networks.vxlan(BOTH):
        assert not ping(*ports, SHORT)
        assert ping(*ports, SHORT - networks.OVERHEAD)
        work(*ports, 1024)


def test_vxlan_with_room(ports, set_mtu):
    set_mtu(LONG - networks.OVERHEAD)
    with networks.vxlan(BOTH, underlay=LONG, mtu=LONG):
        assert ping(*ports, LONG - networks.OVERHEAD)
        work(*ports, 4096)


def test_too_large_path_mtu_fails_long_messages(ports, set_mtu):
    """If the path MTU is too large for the network, connections and short messages work,
    and long messages fail with "transport retry counter exceeded". With a path MTU that
    fits, all work."""
    set_mtu(LONG)
    with networks.vxlan(BOTH, mtu=LONG):
        assert not ping(*ports, LONG)
        rdma.pingpong("rc", *ports, "-n 20 -s 1000 -m 4096").check()
        before = [port.counters() for port in ports]
        failed = rdma.pingpong("rc", *ports, "-n 20 -s 4096 -m 4096")
        said = failed.server.out + failed.client.out + (
            failed.server.err + failed.client.err)
        assert not failed.ok and "transport retry counter exceeded" in said, said
        after = [port.counters() for port in ports]
        assert any(new["timeouts"] > old["timeouts"]
                   for old, new in zip(before, after)), after
        rdma.pingpong("rc", *ports, "-c -n 20 -s 4096 -m 1024").check()


def test_open_vswitch(ports):
    with networks.open_vswitch(BOTH):
        assert ping(*ports, SHORT)
        work(*ports, 1024)


def test_soft_roce_at_the_other_end(ports, rxe):
    with networks.vxlan(("tap1", "tap3"), underlay=1600):
        fakernic = ports[0]
        assert ping(fakernic, rxe, SHORT)
        for server, client in ((fakernic, rxe), (rxe, fakernic)):
            rdma.verify("rc", server, client, "-n 4 -m 1024 -z").check()
            rdma.rping(server, client, 4, 10000).check()
