# SPDX-License-Identifier: GPL-2.0-or-later
"""fakernic's frames before two independent judges: Wireshark's dissectors, and
an ICRC computed in Python (fakernic_test/wire.py).

Each row runs traffic between two guests while QEMU captures it. Then every
RoCEv2 frame is judged. The row lists the opcodes and header fields that must
occur.
"""

import ipaddress
import re
from pathlib import Path

import pytest

from fakernic_test import rdma, wire

RXE_FRAMES = Path("/src/tests/wire/rxe.txt")
VLAN_ID = 7
VLAN_NETWORK = "192.168.78"
VLAN_PCP = 5            # for Linux's priority 0
DEFAULT_PKEY = 0xffff   # of full members (IBTA 10.9.2)
GSI = 1                 # queue pair of the general services

# BTH opcodes that the two directions of a row must show (IBTA 9.2.1).
RC = {*range(0x15)}
UC = {*range(0x20, 0x2c)}
UD = {0x64, 0x65}


@pytest.fixture
def judged(vms):
    """Runs a function under capture and returns its RoCEv2 frames, all of them
    valid. MADs are left out unless the row has some, as those of an earlier
    connection may come late."""
    def run(function, managed=False):
        with vms[0].capture() as path:
            function().check()
        found = wire.roce_frames(path)
        assert found
        for frame in found:
            assert frame.length_is_consistent(), frame.data.hex()
            assert frame.icrc == frame.right_icrc(), frame.data.hex()
            assert frame.migreq == 1, frame.data.hex()
            assert frame.pkey == DEFAULT_PKEY, frame.data.hex()
            assert frame.sport >= 0xc000, frame.data.hex()
        assert wire.tshark_headers(path) == [frame.headers() for frame in found]
        assert wire.tshark_complaints(path) == []
        return [frame for frame in found if managed or frame.dest_qp != GSI]
    return run


def opcodes(frames):
    return {frame.opcode for frame in frames}


FAMILIES = pytest.mark.parametrize("family", (4, 6), ids=("ipv4", "ipv6"))


@FAMILIES
@pytest.mark.parametrize("kind, wanted", (
    ("rc", RC), ("srq", RC), ("uc", UC), ("ud", UD)),
    ids=("rc", "srq", "uc", "ud"))
def test_every_operation(ports, judged, kind, wanted, family):
    frames = judged(lambda: rdma.verify(kind, *ports, "-n 6", family))
    assert opcodes(frames) == wanted
    assert {frame.family for frame in frames} == {family}


@FAMILIES
def test_connection_manager(ports, judged, family):
    """The MADs of rdma_cm (UD on QP 1) and the RC traffic of rping are valid."""
    frames = judged(lambda: rdma.rping(*ports, 3, 3000, family), managed=True)
    assert sum(frame.dest_qp == GSI for frame in frames) >= 3


@pytest.fixture
def hop_limit(ports):
    """Checks the hop limit: Linux uses the route's instead of the
    application's."""
    def set_all(limit):
        for port in ports:
            port.guest.check(
                f"echo {limit} >/proc/sys/net/ipv4/ip_default_ttl; "
                f"echo {limit} >/proc/sys/net/ipv6/conf/{port.netdev}/hop_limit")
    set_all(17)
    yield 17
    set_all(64)


@FAMILIES
@pytest.mark.parametrize("kind", ("rc", "ud"))
def test_traffic_class_hop_limit_and_flow_label(ports, judged, hop_limit, kind,
                                                family):
    """Traffic class, hop limit and flow label are right on the wire, and in
    the GRH of a UD receive (rdma_verify)."""
    label = 0xabcde
    frames = judged(lambda: rdma.verify(
        kind, *ports, f"-n 2 -T {0x68} -H {hop_limit} -F {label}", family))
    assert {frame.tclass for frame in frames} == {0x68}
    assert {frame.hop_limit for frame in frames} == {hop_limit}
    assert {frame.sport for frame in frames} == {wire.flow_label_to_port(label)}
    assert {frame.flow_label for frame in frames} == {
        None if family == 4 else label}


@FAMILIES
def test_multicast(ports, judged, family):
    """Frames go to the Ethernet address of the group and are received there."""
    group = ipaddress.ip_address(rdma.GROUPS[family])
    frames = judged(lambda: rdma.verify("ud", *ports, f"-n 2 -M {group}",
                                        family))
    mac = (b"\x01\x00\x5e" + (int(group) & 0x7fffff).to_bytes(3, "big")
           if family == 4 else b"\x33\x33" + group.packed[-4:])
    assert {frame.mac for frame in frames} == {mac}
    assert {frame.target for frame in frames} == {group.packed}
    assert {frame.dest_qp for frame in frames} == {0xffffff}


@pytest.fixture
def vlan_indexes(ports):
    """GID indexes of a VLAN interface in each guest."""
    for port in ports:
        port.guest.check(f"""
            modprobe 8021q
            ip link add link {port.netdev} name vlan7 type vlan id {VLAN_ID} \
                egress-qos-map 0:{VLAN_PCP}
            ip addr add {VLAN_NETWORK}.{port.number}/24 dev vlan7
            ip link set vlan7 up""")
    ports[1].guest.check(f"ping -c 2 -i 0.2 -w 10 {VLAN_NETWORK}.1")
    yield [port.index_of(f"{VLAN_NETWORK}.{port.number}") for port in ports]
    for port in ports:
        port.guest.check("ip link del vlan7")


@pytest.mark.parametrize("kind", ("rc", "ud"))
def test_vlan(ports, judged, vlan_indexes, kind):
    """Frames of a GID of a VLAN interface are tagged."""
    frames = judged(lambda: rdma.verify(kind, *ports, "-n 2",
                                        indexes=vlan_indexes))
    assert {frame.vlan for frame in frames} == {VLAN_ID}


@pytest.fixture
def one_frame(ports, judged):
    """A function that returns the one frame of an rdma_headers, and its QP's
    number."""
    def run(options, target, index):
        command = f"rdma_headers {options} -g {index} ::ffff:{target}"
        answers = []
        (frame,) = judged(
            lambda: answers.append(ports[0].guest.run(command)) or answers[0])
        return frame, int(answers[0].out, 16)
    return run


@pytest.mark.parametrize("asked, own, sent", (
    (0x7fffffff, 0x11111111, 0x7fffffff),
    (0x80000000, 0x22222222, 0x22222222),
    (0xffffffff, 0x80012345, 0x80012345)),
    ids=("as-asked", "own", "own-and-privileged"))
def test_queue_key(ports, one_frame, asked, own, sent):
    """The Q_Key is the work request's, or the QP's if its top bit is set (IBTA
    10.2.5)."""
    frame, qpn = one_frame(f"-q {asked} -Q {own}", ports[1].ip4,
                           ports[0].gid_index())
    assert (frame.qkey, frame.source_qp) == (sent, qpn), frame.data.hex()


@pytest.mark.parametrize("kind", ("ud", "uc"))
@pytest.mark.parametrize("level", (0, 3, 7))
def test_service_level(ports, one_frame, vlan_indexes, kind, level):
    """The service level is the tag's priority (IBTA A16.4.1.4); without a tag
    it is not sent."""
    options = f"-t {kind} -L {level} -T 0xb8"
    frame, _ = one_frame(options, f"{VLAN_NETWORK}.2", vlan_indexes[0])
    assert (frame.vlan, frame.pcp) == (VLAN_ID, level), frame.data.hex()
    assert frame.tclass == 0xb8, frame.data.hex()
    frame, _ = one_frame(options, ports[1].ip4, ports[0].gid_index())
    assert frame.vlan is None and frame.tclass == 0xb8, frame.data.hex()


def test_priority_of_a_vlan_interface(ports, judged, vlan_indexes):
    """rdma_cm takes the service level from the interface's egress map."""
    frames = judged(lambda: rdma.rping(*ports, 3, 3000,
                                       address=f"{VLAN_NETWORK}.1"))
    assert {frame.pcp for frame in frames} == {VLAN_PCP}


def test_other_gids_stay_untagged(ports, judged, vlan_indexes):
    frames = judged(lambda: rdma.verify("rc", *ports, "-n 1"))
    assert {frame.vlan for frame in frames} == {None}


def test_judges_detect_errors(ports, vms, tmp_path):
    """Both judges reject a frame with a wrong bit, and one without its end."""
    with vms[0].capture() as path:
        rdma.pingpong("rc", *ports, "-n 5").check()
    frame = wire.roce_frames(path)[0]
    wrong = bytearray(frame.data)
    wrong[frame.end - 9] ^= 1
    wrong = wire.RoceFrame(bytes(wrong))
    assert frame.icrc == frame.right_icrc() and wrong.icrc != wrong.right_icrc()
    data = path.read_bytes()
    where = data.index(frame.data)
    short = tmp_path / "short.pcap"
    cut = frame.udp_at + 8 + 6
    short.write_bytes(data[:24] + data[where - 16:where - 8] +
                      2 * cut.to_bytes(4, "little") +
                      data[where:where + cut])
    assert wire.tshark_complaints(short)


def test_icrc_agrees_with_rxe():
    """The ICRC judge accepts the frames of Soft-RoCE."""
    frames = [bytes.fromhex("".join(re.findall(r"^ ([0-9a-f]+)$", part, re.M)))
              for part in re.split(r"^frame \d+$", RXE_FRAMES.read_text(
                  encoding="utf-8"), flags=re.M)[1:]]
    assert len(frames) >= 20
    for data in frames:
        frame = wire.RoceFrame(data)
        assert frame.icrc == frame.right_icrc(), data.hex()
