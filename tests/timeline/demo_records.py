# SPDX-License-Identifier: GPL-2.0-or-later
"""Handmade records for tests: a SEND of two packets from a to b. The names of the
kinds are those of the device, from record.c."""

import re
import struct
from pathlib import Path

from fakernic_lab.timeline.model import NONE
from fakernic_lab.timeline.records import ENTRY, HEADER, MAGIC, VERSION

TOP = Path(__file__).resolve().parents[2]
ROOM, FRAMES = 64, 16384
TICKS = 10 ** 15                        # of the processor at time 0; 3 ticks per ns
A, B, PSN = 7, 9, 0xffffff              # two QPs, and a first PSN after which PSNs wrap
POINTS = ("device", "tx", "rx", "interrupt")
ACTIONS = ("count", "drop", "delay", "corrupt")


def kinds():
    """For each number of a kind: (name, name of the value, names of the arguments)."""
    text = (TOP / "qemu-hw/device/watch/record.c").read_text("utf-8")
    header = (TOP / "qemu-hw/device/watch/record.h").read_text("utf-8")
    rows = dict(re.findall(r"\[FAKERNIC_RECORD_(\w+)\] =\s*\"([^\"]*)\"", text))
    order = re.findall(r"^    FAKERNIC_RECORD_(\w+),$",
                       header.split("FakernicRecordKind;")[0], re.M)[:-1]
    found = []
    for kind in order:
        name, value, *arguments = rows[kind].split()
        found.append((name, value, arguments))
    return found


def mac(node):
    return b"\2\0\0\0\0" + node.encode()


def frame(source, target, qpn, psn, opcode, size):
    """A RoCEv2 frame over IPv4 with SIZE bytes after its BTH. Its ICRC is 0."""
    bth = struct.pack(">BBHII", opcode, 0x40, 0xffff, qpn, psn & 0xffffff)
    bth += bytes(size + 4)
    udp = struct.pack(">HHHH", 49152, 4791, 8 + len(bth), 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(bth), 0,
                     0x4000, 64, 17, 0, bytes([10, 0, 0, 1]),
                     bytes([10, 0, 0, 2]))
    return mac(target) + mac(source) + b"\x08\x00" + ip + udp + bth


def sent(qpn, peer, index, psn, opcode):
    return {"qpn": qpn, "peer": peer, "index": index, "psn": psn & 0xffffff,
            "opcode": opcode, "attempt": 1, "len": 100, "roce": 1}


def received(qpn, psn, opcode):
    return {"qpn": qpn, "psn": psn & 0xffffff, "opcode": opcode}


def packet(source, target, qpn, peer, index, psn, opcode, size=0):
    """The four events of a packet: tx, its frame, its arriving frame, rx."""
    data = frame(source, target, peer, psn, opcode, size)
    out, into = ({"data": data, "len": len(data), "way": way}
                 for way in (1, 0))
    return ((source, "tx", sent(qpn, peer, index, psn, opcode)),
            (source, "frame", out), (target, "frame", into),
            (target, "rx", received(peer, psn, opcode)))


SEND = (
    ("a", "mark", {"step": 1, "id": A, "index": 0}),
    ("a", "doorbell_sq", {"qpn": A, "pi": 1, "ci": 0}),
    ("a", "dma_read", {"address": 4096, "len": 64}),
    ("a", "wqe", {"qpn": A, "index": 0, "opcode": 1, "blocks": 1}),
    ("b", "arm", {"cqn": 2, "ci": 0, "pi": 0}),
    ("a", "dma_read", {"address": 8192, "len": 1024}),
    *packet("a", "b", A, B, 0, PSN, 0x00, 1024),
    ("b", "dma_read", {"address": 512, "len": 16}),
    ("b", "recv_wqe", {"qpn": B, "tag": 3, "sges": 1}),
    ("b", "dma_write", {"address": 16384, "len": 1024}),
    ("a", "dma_read", {"address": 9216, "len": 100}),
    *packet("a", "b", A, B, 0, PSN + 1, 0x02, 100),
    ("b", "dma_write", {"address": 17408, "len": 100}),
    ("b", "cqe", {"cqn": 2, "pi": 0, "qpn": B, "index": 3, "opcode": 128}),
    ("b", "dma_write", {"address": 65536, "len": 64}),
    ("b", "cqe_visible", {"cqn": 2, "pi": 0, "qpn": B, "index": 3}),
    ("b", "eqe", {"eqn": 1, "pi": 0, "type": 1, "id": 2, "vector": 1,
                  "armed": 1}),
    ("b", "interrupt", {"vector": 1}),
    ("b", "doorbell_eq", {"eqn": 1, "ci": 1, "arm": 1}),
    ("b", "mark", {"step": 2, "id": 2, "index": 1}),
    *packet("b", "a", B, A, NONE, PSN + 1, 0x11),
    ("a", "cqe", {"cqn": 1, "pi": 0, "qpn": A, "index": 0, "opcode": 1}),
    ("a", "dma_write", {"address": 65536, "len": 64}),
    ("a", "cqe_visible", {"cqn": 1, "pi": 0, "qpn": A, "index": 0}),
    ("a", "mark", {"step": 2, "id": 1, "index": 1}),
)


def read_request(psn, attempt=1):
    """A READ request from a to b, with its PSN and the number of its attempt."""
    made, *way = packet("a", "b", A, B, 0, psn, 0x0c)
    return [("a", "tx", {**made[2], "attempt": attempt}), *way]


def response(psn, opcode, *, lost=False, early=False):
    """A response from b to a, with its data. LOST: a rule of a drops it. EARLY: the
    one before it is missing."""
    made = ("b", "dma_read", {"address": 8192, "len": 1024})
    way = packet("b", "a", B, A, NONE, psn, opcode, 1024)
    if lost:
        return [made, *way[:-1],
                ("a", "fault", {"point": 2, "action": 1, "hits": 1, "qpn": A,
                                "psn": psn})]
    written = ("a", "dma_write", {"address": 4096, "len": 1024})
    return [made, *way, *(() if early else (written,))]


# A READ of three packets from b. The second is lost, which the third reveals.
LOST_READ = (
    *SEND[:3],
    ("a", "wqe", {"qpn": A, "index": 0, "opcode": 6, "blocks": 1}),
    *read_request(100), *response(100, 0x0d), *response(101, 0x0e, lost=True),
    *response(102, 0x0f, early=True),
    ("a", "retry", {"qpn": A, "psn": 101, "left": 6}),
    *read_request(101, 2), *response(101, 0x0d), *response(102, 0x0f),
    *SEND[-4:],
)


class Recorder:
    """Writes a record as the device does."""

    def __init__(self, room=ROOM, frames_room=FRAMES):
        self.room, self.frames_room = room, frames_room
        self.entries = []
        self.mac = bytes(6)
        self.frames = bytearray()
        self.numbers = {name: (number, value, arguments) for
                        number, (name, value, arguments) in enumerate(kinds())}

    def add(self, time, kind, **fields):
        number, value, arguments = self.numbers[kind]
        if kind == "mark":
            fields.setdefault("ticks", 3 * time + TICKS)
            fields |= {"low": 3 * time & 0xffffffff, "high": 3 * time >> 32}
        if "data" in fields and kind == "frame":
            fields["offset"] = len(self.frames)
            self.frames += fields["data"]
        words = [fields.get(name, 0) for name in arguments]
        self.entries.append(ENTRY.pack(time, fields.get(value, 0), number,
                                       *words, *[0] * (11 - len(words))))

    def names(self):
        lines = [" ".join([name, value, *arguments])
                 for name, value, arguments in kinds()]
        return "\n".join([*lines, f"points {' '.join(POINTS)}",
                          f"actions {' '.join(ACTIONS)}"]).encode()

    def file(self, version=VERSION):
        body = b"".join(self.entries).ljust(self.room * ENTRY.size, b"\0")
        return HEADER.pack(MAGIC, version, self.room, len(self.entries), 0,
                           self.mac, self.frames_room, len(self.frames),
                           self.names()) + (
            body + self.frames.ljust(self.frames_room, b"\0"))
