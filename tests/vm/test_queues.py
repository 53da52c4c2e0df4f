# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of the Ethernet port, as ethtool sets them: number, depth, flow
steering and interrupt moderation; and the self test of the card."""

import re
import time

import pytest

from fakernic_test import rdma

pytestmark = pytest.mark.guests(options={"cpus": 2})

FLOWS = 64
# Distance between two ports. The hash is linear, and its key differs with each boot.
# If ports differ only in six bits, one key of 64 maps all of them to one queue. With
# this distance only one key of 65,536 does so, which ignores the port. A distance
# of 641 has 15 more such keys.
DISTANCE = 643
FLOWS_PAUSE_MS = 5
# Numbers of single datagrams, and of other frames: ARP, IPv6.
INTERRUPTS = FLOWS // 8
TRIES = 3
OTHER_INTERRUPTS = 4

# Sends datagrams from ports with that distance, with pauses.
SEND = """
import socket, sys, time
address, count, distance, pause = sys.argv[1], *map(int, sys.argv[2:])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
for number in range(count):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind(("", 20000 + number * distance))
    sock.sendto(b"x" * 100, (address, 7010))
    sock.close()
    time.sleep(pause / 1000)
"""
# Receives them, so that no ICMP message is sent.
TAKE = """
import socket, sys
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sock.bind(("", 7010))
for _ in range(int(sys.argv[1])):
    sock.recv(200)
"""


def frames(port):
    """Returns how many frames each queue received."""
    text = port.guest.check(f"ethtool -S {port.netdev}")
    return [int(count) for count in re.findall(r"rx_queue_\d+_frames: (\d+)",
                                               text)]


def setting(port, option, name):
    """Returns the current value of a setting of ethtool, not its maximum."""
    text = port.guest.check(f"ethtool {option} {port.netdev}")
    return int(re.findall(rf"^{name}:\s*(\d+)", text, re.M)[-1])


def interrupts(port):
    """Returns the interrupts of the vector of each queue."""
    text = port.guest.check(
        f"grep @$(basename $(readlink /sys/class/net/{port.netdev}/device)) "
        "/proc/interrupts")
    found = {int(vector): sum(map(int, counts.split())) for counts, vector in
             re.findall(r"^ *\d+:((?: +\d+)+) .*fakernic-comp(\d+)@", text,
                        re.M)}
    return [found[vector] for vector in range(len(found))]


def send_datagrams(a, b, family, count, distance, pause_ms):
    """Sends from b to a, where a program receives them; a sends nothing."""
    b.guest.write("/tmp/send.py", SEND)
    a.guest.write("/tmp/take.py", TAKE)
    taker = a.guest.start(f"exec python3 /tmp/take.py {count}", 120)
    a.guest.check("until ss -Hlun sport = :7010 | grep -q .; do sleep 0.05; done")
    b.guest.check(f"ping -c 1 {a.ip(family)}")
    before = frames(a), interrupts(a)
    b.guest.check(f"python3 /tmp/send.py {a.ip(family)} {count} {distance} "
                  f"{pause_ms}")
    taker.wait().check()
    return [[new - old for new, old in zip(after, counts)]
            for after, counts in zip((frames(a), interrupts(a)), before)]


def came_by(a, b, family=4):
    """Returns how many of b's datagrams each queue of a received, and the
    interrupts of each vector. A guest that stood still receives them all at
    once; then the test is repeated."""
    for _ in range(TRIES):
        counts, fired = send_datagrams(a, b, family, FLOWS, DISTANCE, FLOWS_PAUSE_MS)
        if sum(fired) >= 2 * INTERRUPTS:
            break
    return counts, fired


def data_flows(a, b):
    """Sends data in both directions and compares it."""
    for server, client in ((a, b), (b, a)):
        rdma.send_bytes(server, client, size="1M")


@pytest.fixture
def restored(ports):
    """Restores every setting after the test."""
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
    counts, fired = came_by(a, b, family)
    assert min(counts) >= 4 and sum(counts) >= FLOWS, counts
    assert len(fired) == 2 and min(fired) >= 2, fired


def test_indirection_table_selects_queue(restored):
    """The indirection table can be changed under traffic without a loss. It
    selects the queue, whose vector is its own."""
    a, b = restored
    job = b.guest.start(f"ping -f -c 2000 {a.ip4}", 100)
    for weights in ("0 1", "1 0", "0 1"):
        a.guest.check(f"ethtool -X {a.netdev} weight {weights}")
    out = job.wait().out
    assert re.search(r"2000 received", out), out
    for weights in ("1 0", "0 1"):
        a.guest.check(f"ethtool -X {a.netdev} weight {weights}")
        for found, few, many in zip(came_by(a, b), (4, OTHER_INTERRUPTS),
                                    (FLOWS, INTERRUPTS)):
            off, on = found if weights == "0 1" else found[::-1]
            assert off <= few and on >= many, (weights, found)
    # A queue in the indirection table cannot be removed.
    result = a.guest.run(f"ethtool -L {a.netdev} combined 1")
    assert not result.ok
    a.guest.check(f"ethtool -X {a.netdev} default")
    counts, _ = came_by(a, b)
    assert min(counts) >= 4, counts


def test_hash_key_can_be_set(restored):
    a, b = restored
    key = ":".join(["6d", "5a"] * 20)
    a.guest.check(f"ethtool -X {a.netdev} hkey {key}")
    assert key in a.guest.check(f"ethtool -x {a.netdev}")
    assert sum(came_by(a, b)[0]) >= FLOWS


def test_queue_settings_survive_reset(restored):
    """Other numbers and depths of queues work, and survive an FLR."""
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


HELD_US = 20000
DATAGRAMS = 400


def test_interrupts_are_moderated(restored):
    """With moderation there is at most one interrupt in the set time, instead
    of one for each frame."""
    a, b = restored

    def fired(held_us):
        # Without netlink ethtool fails if nothing changes.
        a.guest.check(f"ethtool -C {a.netdev} rx-usecs {held_us}")
        begin = time.monotonic()
        _, found = send_datagrams(a, b, 4, DATAGRAMS, 0, 1)
        return sum(found), time.monotonic() - begin

    for _ in range(TRIES):      # a slow machine also has few interrupts per frame
        held, seconds = fired(HELD_US)
        assert held <= seconds * 1e6 / HELD_US + OTHER_INTERRUPTS, (held, seconds)
        each, _ = fired(0)
        if held < each / 2:
            break
    assert held < each / 2, (held, each)


def test_unsupported_settings_are_refused(restored):
    a = restored[0]
    for options in (f"-L {a.netdev} combined 3", f"-G {a.netdev} rx 8192",
                    f"-C {a.netdev} rx-frames 100",
                    f"-C {a.netdev} rx-usecs 70000",
                    f"-X {a.netdev} hfunc xor"):
        assert not a.guest.run(f"ethtool {options}").ok, options
    assert setting(a, "-l", "Combined") == 2


def test_ethtool_self_test(ports):
    a = ports[0]
    text = a.guest.check(f"ethtool -t {a.netdev}")
    assert "The test result is PASS" in text
    assert len(re.findall(r"\s0$", text, re.M)) == 4, text


def test_ethtool_register_dump(ports):
    """ethtool -d shows the registers of firmware-spec, regs.h."""
    a = ports[0]
    out = a.guest.check(f"ethtool -d {a.netdev} raw on | od -An -v -tx4 -w4; "
                        f"ethtool -i {a.netdev}; "
                        f"cat /sys/class/net/{a.netdev}/address")
    registers = [int(word, 16) for word in
                 re.findall(r"^ ([0-9a-f]{8})$", out, re.M)]
    (version,) = re.findall(r"^firmware-version: (\d+)\.(\d+)\.(\d+)$", out, re.M)
    assert len(registers) == 0x7c // 4
    shown = dict(zip(range(0, 0x7c, 4), registers))
    assert shown[0x00].to_bytes(4, "little") == b"FKNC"
    assert shown[0x04] >> 16 == 1
    offered, accepted = (shown[at] | shown[at + 4] << 32 for at in (0x08, 0x10))
    assert accepted and accepted & ~offered == 0, (offered, accepted)
    assert [shown[0x18] >> 24, shown[0x18] >> 16 & 0xff, shown[0x18] & 0xffff] == [
        int(number) for number in version]
    # ENABLE; READY and ENABLED without FATAL; no cause.
    assert (shown[0x1c], shown[0x20] & 7, shown[0x24]) == (2, 3, 0)
    # TEST and its inverse; the MAC.
    assert (shown[0x28], shown[0x2c]) == (0, 0xffffffff)
    mac = shown[0x30].to_bytes(4, "little") + shown[0x34].to_bytes(2, "little")
    assert mac.hex(":") == out.splitlines()[-1]
    assert shown[0x78] == 0             # FUNCTION: the PF, without VFs
    # The command rings; the doorbell reads as 0.
    rings = [shown[at] | shown[at + 4] << 32 for at in (0x40, 0x48)]
    assert all(rings) and rings[0] != rings[1]
    assert not any(ring % 4096 for ring in rings)
    assert 4 <= shown[0x50] <= 8 and shown[0x54] == 0
    # The dump has no clock.
    assert (shown[0x70], shown[0x74]) == (0, 0)
