# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of the Ethernet port, as ethtool sets them: how many, how deep, what
comes in by which, when they interrupt; and the test of the card.
"""

import re

import pytest

from fakernic_test import rdma

pytestmark = pytest.mark.guests(options={"cpus": 2})

FLOWS = 64

# A datagram of each of so many ports. The hash is linear, and its key another
# with each boot: ports that differ in six bits only all fall into one queue with
# one key of 64. These do so with one of 65,536 alone, that which looks at no bit
# of a port; not any distance has that, at 641 there are 15 more.
SEND = """
import socket, sys
address, count = sys.argv[1], int(sys.argv[2])
for port in range(20000, 20000 + 643 * count, 643):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind(("", port))
    sock.sendto(b"x" * 100, (address, 7010))
"""


def frames(port):
    """That came in by each queue."""
    text = port.guest.check(f"ethtool -S {port.netdev}")
    return [int(count) for count in re.findall(r"rx_queue_\d+_frames: (\d+)",
                                               text)]


def setting(port, option, name):
    """What ethtool says last of it: now, and not at most."""
    text = port.guest.check(f"ethtool {option} {port.netdev}")
    return int(re.findall(rf"^{name}:\s*(\d+)", text, re.M)[-1])


def came_by(a, b, family):
    """How many of b's datagrams came to a by each queue."""
    b.guest.write("/tmp/send.py", SEND)
    b.guest.check(f"ping -c 1 {a.ip(family)}")
    before = frames(a)
    b.guest.check(f"python3 /tmp/send.py {a.ip(family)} {FLOWS}; "
                  f"ping -c 3 -i 0.2 {a.ip(family)}")
    return [after - count for after, count in zip(frames(a), before)]


def data_flows(a, b):
    """Both ways, compared."""
    for server, client in ((a, b), (b, a)):
        pair = rdma.run_pair(
            server, client, "nc -l 7011 | sha256sum",
            "head -c 1M /dev/urandom >/tmp/data; sha256sum </tmp/data; "
            f"nc -N {server.ip4} 7011 </tmp/data", 7011, 120).check()
        assert pair.server.out == pair.client.out


@pytest.fixture
def restored(ports):
    """Every setting as it was before."""
    yield ports
    for port in ports:
        port.guest.check(
            f"ethtool -L {port.netdev} combined 2 || :; "
            f"ethtool -X {port.netdev} default; "
            f"ethtool -G {port.netdev} rx 512 tx 1024 || :; "
            f"ethtool -C {port.netdev} rx-usecs 0 rx-frames 0 || :")


@pytest.mark.parametrize("family", (4, 6))
def test_flows_spread_over_the_queues(ports, family):
    a, b = ports
    assert setting(a, "-l", "Combined") == 2
    counts = came_by(a, b, family)
    assert min(counts) >= 4 and sum(counts) >= FLOWS, counts


def test_the_table_says_which_queue(restored):
    """Under traffic, and nothing of it is lost."""
    a, b = restored
    job = b.guest.start(f"ping -f -c 2000 {a.ip4}", 100)
    for weights in ("0 1", "1 0", "0 1"):
        a.guest.check(f"ethtool -X {a.netdev} weight {weights}")
    out = job.wait().out
    assert re.search(r"2000 received", out), out
    counts = came_by(a, b, 4)
    assert counts[0] <= 4 and counts[1] >= FLOWS, counts
    # A table that names a queue which is to go keeps it.
    result = a.guest.run(f"ethtool -L {a.netdev} combined 1")
    assert not result.ok
    a.guest.check(f"ethtool -X {a.netdev} default")
    counts = came_by(a, b, 4)
    assert min(counts) >= 4, counts


def test_the_key_is_the_users(restored):
    a, b = restored
    key = ":".join(["6d", "5a"] * 20)
    a.guest.check(f"ethtool -X {a.netdev} hkey {key}")
    assert key in a.guest.check(f"ethtool -x {a.netdev}")
    assert sum(came_by(a, b, 4)) >= FLOWS


def test_settings_hold_over_a_reset(restored):
    """Other numbers and depths work, and come back behind an FLR."""
    a, b = restored
    a.guest.check(f"ethtool -G {a.netdev} rx 100 tx 200 && "
                  f"ethtool -C {a.netdev} rx-usecs 100 rx-frames 8 && "
                  f"ethtool -X {a.netdev} weight 1 3 && "
                  f"ethtool -K {a.netdev} tso off")
    b.guest.check(f"ethtool -L {b.netdev} combined 1")

    def shown():
        return (setting(a, "-g", "RX"), setting(a, "-g", "TX"),
                setting(a, "-c", "rx-usecs"), setting(a, "-c", "rx-frames"),
                setting(b, "-l", "Combined"),
                a.guest.check(f"ethtool -x {a.netdev}"),
                "tcp-segmentation-offload: off" in
                a.guest.check(f"ethtool -k {a.netdev}"))

    before = shown()
    assert before[:5] == (128, 256, 100, 8, 1) and before[6]
    data_flows(a, b)
    for port in (a, b):
        rdma.reset(port)
    assert shown() == before
    data_flows(a, b)
    a.guest.check(f"ethtool -K {a.netdev} tso on")


def test_what_the_card_cannot_is_refused(restored):
    a = restored[0]
    for options in (f"-L {a.netdev} combined 3", f"-G {a.netdev} rx 8192",
                    f"-C {a.netdev} rx-frames 100",
                    f"-C {a.netdev} rx-usecs 70000",
                    f"-X {a.netdev} hfunc xor"):
        assert not a.guest.run(f"ethtool {options}").ok, options
    assert setting(a, "-l", "Combined") == 2


def test_the_card_tests_itself(ports):
    a = ports[0]
    text = a.guest.check(f"ethtool -t {a.netdev}")
    assert "The test result is PASS" in text
    assert len(re.findall(r"\s0$", text, re.M)) == 4, text
    text = a.guest.check(f"ethtool -d {a.netdev}")
    # FAKERNIC_MAGIC
    assert re.search(r"0x0000:\s+46 4b 4e 43", text), text
