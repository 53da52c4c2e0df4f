# SPDX-License-Identifier: GPL-2.0-or-later
"""perftest 25's raw_ethernet_* tools: raw-packet QPs and their flow rules.

Their two sides never synchronize. So a one-way client is repeated until the
server, which may start late, has received everything. Where each side waits
for the other one, both are restarted if a frame came too early. REFUSED, or
the comment below it, has the options that the tables lack.
"""

import re
import time

import pytest

from fakernic_test import rdma

COUNT = 100
IP4 = f"-J {rdma.NETWORK4}.1 -j {rdma.NETWORK4}.2 -K 5000 -k 6000"
IP6 = f"--raw_ipv6 -J {rdma.NETWORK6}:1 -j {rdma.NETWORK6}:2 -K 5000 -k 6000"
OPTIONS = {
    "polling": "",
    "inline": "-I 64",
    "hugepages": "--use_hugepages",
    "udp_ipv4": IP4,
    "udp_ipv6": IP6,
    "tcp_ipv4": f"--tcp {IP4}",
    "vlan": "--vlan_en --vlan_pcp 3",
    "promiscuous": "--promiscuous",
    "sniffer": "--sniffer",
}
# Options of raw_ethernet_bw alone.
ONE_WAY = OPTIONS | {
    "lists": "-l 4",
    "moderation": "-Q 4",
    "flows": f"--flows 4 --flows_burst 2 {IP4}",
    "forwarding": "-v",
}
# raw_ethernet_burst_lat paces its bursts itself or asks the card to do so, which
# refuses. Its server takes each completion for one send.
BURST = "-Q 1 --burst_size=16 --rate_limit_type=PP --rate_limit=10 --rate_units=M"
REFUSED = {
    "raw_ethernet_bw --odp": "Unsupported connection type",
    "raw_ethernet_bw -G -q 2": "invalid option -- 'G'",
    "raw_ethernet_bw --use-srq": "Unable to create QP",     # as required
    "raw_ethernet_burst_lat": "SW Rate limiter cann't be executed on non-BW",
}
# Options without a result that a test could wait for:
# -q: both QPs have the same rule, and one of them gets all frames.
# -b: the side that starts first sends everything before the other one exists.
# -e: not an option of these tools, but accepted; then they wait without limit.
# --raw_mcast: perftest attaches its QP to the group, and ignores that Linux only
# accepts UD QPs.

READY = "rdma resource show qp | grep -q 'RAW_PACKET.*state RT' && sleep 0.3"


class Sides:
    """The command lines of a server and its client."""

    def __init__(self, ports):
        self.ports = ports
        self.macs = [port.guest.check(
            f"cat /sys/class/net/{port.netdev}/address").strip()
            for port in ports]
        for port in ports:
            port.guest.check("echo 32 >/proc/sys/vm/nr_hugepages")

    def command(self, side, tool, words):
        """-B is a side's own address and -E the peer's, on both sides."""
        role = ("server", "client")[side]
        return (f"{tool} -F --{role} -d {self.ports[side].ibdev} -n {COUNT} "
                f"-B {self.macs[side]} -E {self.macs[1 - side]} {words}")

    def start_server(self, command, timeout=40):
        server = self.ports[0].guest
        job = server.start(command, timeout)
        server.check(f"for i in $(seq 200); do {READY} && exit; "
                     "sleep 0.05; done; exit 1")
        return job


@pytest.fixture
def sides(ports):
    return Sides(ports)


def assert_counted(result):
    assert result.ok, result
    assert re.search(rf"^ *\d+ +{COUNT} ", result.out, re.M), result


@pytest.mark.parametrize("option", ONE_WAY)
def test_bandwidth(sides, option):
    tool = "raw_ethernet_bw"
    words = [ONE_WAY[option], "" if option == "forwarding" else ONE_WAY[option]]
    server = sides.start_server(sides.command(0, tool, f"{words[0]} -s 64"))
    client = sides.command(1, tool, f"{words[1]} -s 64")
    while server.poll() is None:
        assert_counted(sides.ports[1].guest.run(client))
        time.sleep(0.3)
    assert_counted(server.wait())


@pytest.mark.parametrize("tool, words", [
    *(("raw_ethernet_lat", words) for words in OPTIONS.values()),
    ("raw_ethernet_burst_lat", BURST)])
def test_latency(sides, tool, words):
    for _ in range(5):
        server = sides.start_server(sides.command(0, tool, f"{words} -s 64"))
        client = sides.ports[1].guest.run(
            sides.command(1, tool, f"{words} -s 64"), 30)
        if client.ok:
            break
        sides.ports[0].guest.run("pkill raw_ethernet")
        server.wait()
    assert_counted(client)
    assert server.wait().ok, server.result


def test_flow_rules(sides):
    """A hundred flow rules can be made; the time is printed, see
    rdma.measured()."""
    for _ in range(rdma.MEASURED_TRIES):
        result = sides.ports[0].guest.run(
            sides.command(0, "raw_ethernet_fs_rate", ""))
        found = re.search(rf"^ *{COUNT}\s+\d", result.out, re.M)
        if found or not result.ok:
            break
    assert result.ok and found, result


@pytest.mark.parametrize("words", REFUSED)
def test_refused_options(sides, words):
    tool, _, options = words.partition(" ")
    result = sides.ports[0].guest.run(sides.command(0, tool, options))
    assert not result.ok
    assert REFUSED[words] in result.out + result.err, result
