# SPDX-License-Identifier: GPL-2.0-or-later
"""Records made by hand, for tests: a SEND of two packets from a to b."""

from model import NONE
from records import ENTRY, HEADER, kinds

ROOM = 64
A, B, PSN = 7, 9, 0xffffff              # QPs; PSNs wrap


def sent(qpn, peer, index, psn, opcode):
    return {"qpn": qpn, "peer": peer, "index": index, "psn": psn & 0xffffff,
            "opcode": opcode, "attempt": 1, "len": 100, "roce": 1}


def received(qpn, psn, opcode):
    return {"qpn": qpn, "psn": psn & 0xffffff, "opcode": opcode}


SEND = (
    ("a", "doorbell_sq", {"qpn": A, "pi": 1, "ci": 0}),
    ("a", "wqe", {"qpn": A, "index": 0, "opcode": 1, "blocks": 1}),
    ("a", "tx", sent(A, B, 0, PSN, 0x00)),
    ("b", "rx", received(B, PSN, 0x00)),
    ("a", "tx", sent(A, B, 0, PSN + 1, 0x02)),
    ("b", "rx", received(B, PSN + 1, 0x02)),
    ("b", "tx", sent(B, A, NONE, PSN + 1, 0x11)),
    ("a", "rx", received(A, PSN + 1, 0x11)),
    ("a", "cqe", {"cqn": 1, "pi": 0, "qpn": A, "index": 0, "opcode": 1}),
    ("a", "cqe_visible", {"cqn": 1, "pi": 0, "qpn": A, "index": 0}),
)


class Recorder:
    """What the device would have written."""

    def __init__(self):
        self.entries = []
        self.numbers = {name: (number, value, arguments) for
                        number, (name, value, arguments) in enumerate(kinds())}

    def add(self, time, kind, **fields):
        number, value, arguments = self.numbers[kind]
        words = [fields.get(name, 0) for name in arguments]
        self.entries.append(ENTRY.pack(time, fields.get(value, 0), number,
                                       *words, *[0] * (11 - len(words))))

    def file(self):
        body = b"".join(self.entries).ljust(ROOM * ENTRY.size, b"\0")
        return HEADER.pack(b"fakerec\0", 1, ROOM, len(self.entries), 0,
                           bytes(6)) + body
