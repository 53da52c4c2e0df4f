# SPDX-License-Identifier: GPL-2.0-or-later
"""Two fakernics on a bad wire, which loses, duplicates, reorders and corrupts
frames, and delivers invalid ones. Applications notice nothing, and the device
counts what happened."""

import threading
import time

import pytest

from fakernic_test import rdma, wire

pytestmark = pytest.mark.guests(relay=True)

# Action of a rule -> counters of both ports, of which one must move.
TRACES = {
    "drop": {"retransmits", "probes"},
    "duplicate": {"duplicates", "drop_response"},
    "reorder": {"out_of_sequence", "drop_response", "implied_nak"},
    "corrupt": {"drop_icrc"},
}


def moved(before, ports):
    """Returns the counters of all ports that are higher than BEFORE."""
    return {name for old, port in zip(before, ports)
            for name, value in port.counters().items() if value > old[name]}


def by_chance(percent, do):
    """Returns a random rule that spares the connection manager."""
    return f"at=tx peer=2-0xffffff percent={percent} seed=5 times=0 do={do}"


@pytest.mark.parametrize("fault", TRACES)
def test_reliable_service(ports, lab, fault):
    """Three frames in a hundred are hit in both directions, and every byte is
    right."""
    before = [port.counters() for port in ports]
    with lab.relay.armed(by_chance(3, fault), way="ab"), \
            lab.relay.armed(by_chance(3, fault), way="ba"):
        rdma.verify("rc", *ports, "-n 12").check()
    assert moved(before, ports) & TRACES[fault]


@pytest.mark.parametrize("kind", ("uc", "ud"))
def test_unreliable_service_loses_whole_messages(ports, lab, kind):
    """UC and UD lose whole messages; what arrives is complete and in order."""
    with lab.relay.armed(by_chance(5, "drop")) as faults:
        pair = rdma.verify(kind, *ports, "-l -n 12").check()
        lost, = faults.hits()
    arrived, sent = rdma.arrived(pair)
    assert 0 < sent - arrived <= lost
    if kind == "ud":
        assert sent - arrived == lost


# ---- invalid frames --------------------------------------------------------

ROUNDS = 20
# The counters that a port manager sees as receive errors.
BROKEN = ("drop_short", "drop_ip_csum", "drop_fragment", "drop_icrc",
          "drop_bth_version")


def with_right_sums(data):
    """Returns a changed frame with the right IP checksum and ICRC."""
    frame = wire.RoceFrame(bytes(data))
    at = frame.ip_at
    data[at + 10:at + 12] = b"\0\0"
    total = sum(int.from_bytes(data[at + i:at + i + 2], "big")
                for i in range(0, 20, 2))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    data[at + 10:at + 12] = (total ^ 0xffff).to_bytes(2, "big")
    frame = wire.RoceFrame(bytes(data))
    data[frame.end - 4:frame.end] = frame.right_icrc().to_bytes(4, "little")
    return bytes(data)


def changed(frame, offset, value, sums=True):
    """Returns FRAME with other bytes at an offset from its BTH."""
    data = bytearray(frame.data)
    at = frame.udp_at + 8 + offset
    data[at:at + len(value)] = value
    return with_right_sums(data) if sums else bytes(data)


def bad_frames(request, datagram):
    """Returns a map from counter to the invalid frame that it must count; both
    frames were valid before."""
    to_gsi = wire.RoceFrame(changed(datagram, 5, b"\0\0\1"))
    return {
        "drop_short": request.data[:request.udp_at + 8 + 6],
        "drop_ip_csum": changed(request, -18, b"\xba\xad", False),
        "drop_fragment": changed(request, -22, b"\x20\0"),
        "drop_icrc": changed(request, 12, b"\xba\xad\xba\xad", False),
        "drop_bth_version": changed(request, 1, bytes([0x41])),
        "drop_opcode": changed(request, 0, b"\xff"),
        "drop_qpn": changed(request, 5, b"\xfe\xdc\xba"),
        "drop_pkey": changed(to_gsi, 2, b"\x12\x34"),
        "drop_qkey": changed(to_gsi, 12, b"\x12\x34\x56\x78"),
        "rx_oversize": request.data.ljust(1519, b"\0"),
    }


def captured(vm, kind, ports, opcode):
    """Returns a captured frame with an opcode, from the first port to the
    second."""
    with vm.capture() as path:
        rdma.pingpong(kind, ports[1], ports[0], "-n 5").check()
    target = ports[1].vm
    mac = bytes.fromhex(target.guest.check(
        f"cat /sys/class/net/{ports[1].netdev}/address").replace(":", ""))
    return next(frame for frame in wire.roce_frames(path)
                if frame.opcode == opcode and frame.mac == mac)


def test_invalid_frames_are_counted(ports, vms, lab):
    """Each invalid frame moves its counter, and RDMA works between them."""
    request = captured(vms[0], "rc", ports, 0x00)
    datagram = captured(vms[0], "ud", ports, 0x64)
    bad = bad_frames(request, datagram)
    before = port_counters(ports[1])
    sent = []

    done = threading.Event()

    def send():
        while len(sent) < ROUNDS or not done.is_set():
            lab.relay.inject(bad.values())
            sent.append(1)
            time.sleep(0.05)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        rdma.verify("rc", *ports, "-n 8").check()
    finally:
        done.set()
        sender.join()
    after = port_counters(ports[1])
    broken = sum(after[name] for name in BROKEN)
    assert int(ports[1].guest.check(
        f"cat /sys/class/infiniband/{ports[1].ibdev}/ports/1/counters/"
        "port_rcv_errors")) == broken
    assert {name: after[name] - before[name] for name in bad} == dict.fromkeys(
        bad, len(sent))


def port_counters(port):
    """Returns all counters of the device, and those of its Ethernet port."""
    lines = port.guest.check(f"ethtool -S {port.netdev}").splitlines()
    pairs = (line.split(":") for line in lines if line.count(":") == 1)
    return {name.strip(): int(value) for name, value in pairs if value.strip()}
