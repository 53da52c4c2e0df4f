# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the files that the device's recorder writes (property x-record).

A file has a header, a ring of entries of 64 bytes each, and a ring of the frames'
bytes: see qemu-hw/device/watch/record.h. The header names the kinds of entries.
"""

import mmap
import struct
from pathlib import Path

from .clock import place

MAGIC, VERSION = b"fakerec\0", 2
HEADER = struct.Struct("<8sIIQQ6s2xQQ4040s")
ENTRY = struct.Struct("<QQI11I")
WAYS = ("in", "out", "loopback")

# Opcodes of the BTH, without the bits of the transport service.
OPERATIONS = {
    0x00: "SEND FIRST", 0x01: "SEND MIDDLE", 0x02: "SEND LAST",
    0x03: "SEND LAST IMM", 0x04: "SEND ONLY", 0x05: "SEND ONLY IMM",
    0x06: "WRITE FIRST", 0x07: "WRITE MIDDLE", 0x08: "WRITE LAST",
    0x09: "WRITE LAST IMM", 0x0a: "WRITE ONLY", 0x0b: "WRITE ONLY IMM",
    0x0c: "READ REQUEST", 0x0d: "READ RESPONSE FIRST",
    0x0e: "READ RESPONSE MIDDLE", 0x0f: "READ RESPONSE LAST",
    0x10: "READ RESPONSE ONLY", 0x11: "ACK", 0x12: "ATOMIC ACK",
    0x13: "CMP SWAP", 0x14: "FETCH ADD", 0x16: "SEND LAST INV",
    0x17: "SEND ONLY INV", 0x1c: "FLUSH", 0x1d: "ATOMIC WRITE"}
SERVICES = {0x00: "RC", 0x20: "UC", 0x60: "UD", 0xa0: "XRC"}
OTHERS = {0x81: "CNP", 0xd3: "RC MASKED CMP SWAP", 0xd4: "RC MASKED FETCH ADD"}


class RecordError(Exception):
    """The file cannot be used; the message is the one line to show."""


class Names:
    """The names in a file's header. kinds: for each kind of entry its name, the name of
    its value or None, and the names of its arguments. points, actions: of fault rules."""

    def __init__(self, path, text):
        lines = [line.split() for line in text.splitlines()]
        if len(lines) < 3 or min(map(len, lines)) < 2:
            raise RecordError(f"{path}: the header has no names of entries: the file is "
                              "damaged")
        self.kinds = [(words[0], words[1] if words[1:2] != ["-"] else None,
                       words[2:]) for words in lines[:-2]]
        self.points, self.actions = lines[-2][1:], lines[-1][1:]

    def explain(self, fields):
        """Replaces numbers in the fields of a fault or a frame by their names."""
        for name, words in (("point", self.points), ("action", self.actions),
                            ("way", WAYS)):
            number = fields.get(name)
            if number is not None:
                fields[name] = (words[number] if number < len(words) else
                                str(number))


def opcode_name(opcode):
    """The name of a BTH opcode."""
    operation = OPERATIONS.get(opcode & 0x1f)
    service = SERVICES.get(opcode & 0xe0)
    if operation and service:
        return f"{service} {operation}"
    return OTHERS.get(opcode, f"opcode {opcode:#x}")


class Event:
    """An entry of a record: node (machine), number, time, kind, and its arguments as
    attributes. data: the bytes of a frame, None if they were overwritten."""

    def __init__(self, node, number, time, kind, fields):
        self.node, self.number, self.time, self.kind = node, number, time, kind
        self.fields = fields
        self.data = None

    def __getattr__(self, name):
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        if name.startswith("__"):
            raise AttributeError(name)
        raise RecordError(f"{self.node}: entry {self.number}, {self.kind}, has "
                          f"no {name}: the file is damaged")

    def words(self):
        return " ".join(f"{name}={value}" for name, value in
                        self.fields.items())

    def __repr__(self):
        return f"{self.node} #{self.number} {self.kind} {self.words()}"


class Record(list):
    """The events of a device, the oldest first. mac: the device's address."""

    def __init__(self, events, mac):
        super().__init__(events)
        self.mac = mac


class File:
    """A record's header and its rings."""

    def __init__(self, path, data):
        self.path, self.data = path, data
        if len(data) < HEADER.size:
            raise RecordError(f"{path}: not a record of fakernic: too short")
        (magic, version, self.room, self.count, _, self.mac, self.frames_room,
         self.frames, names) = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise RecordError(f"{path}: not a record of fakernic")
        if version != VERSION:
            raise RecordError(f"{path}: a record of version {version}, this "
                              f"reads version {VERSION}: use the timeline of "
                              "the device's own version")
        self.names = Names(path, names.split(b"\0")[0].decode("ascii",
                                                              "replace"))
        self.frames_at = HEADER.size + self.room * ENTRY.size
        if len(data) < self.frames_at + self.frames_room:
            raise RecordError(f"{path}: cut short: {len(data)} bytes of "
                              f"{self.frames_at + self.frames_room}")
        if not self.room or not self.frames_room:
            raise RecordError(f"{path}: a ring has size 0: the file is damaged")

    def lost(self):
        """The number of events that were overwritten."""
        return max(0, self.count - self.room)

    def entries(self, begin=0):
        """Yields (number, contents) of the entries from BEGIN on that were not
        overwritten."""
        for number in range(max(begin, self.lost()), self.count):
            yield number, ENTRY.unpack_from(
                self.data, HEADER.size + number % self.room * ENTRY.size)

    def events(self, node):
        for number, (time, value, kind, *arguments) in self.entries():
            if not 0 < kind < len(self.names.kinds):
                raise RecordError(f"{self.path}: entry {number} is of unknown "
                                  f"kind {kind}: the file is damaged")
            name, value_name, names = self.names.kinds[kind]
            fields = dict(zip(names, arguments))
            self.names.explain(fields)
            if value_name:
                fields[value_name] = value
            event = Event(node, number, time, name, fields)
            if name == "frame":
                event.data = self.frame(event)
            yield event

    def frame(self, event):
        """The bytes of a frame; None if later frames have overwritten them."""
        if (event.offset + self.frames_room < self.frames or
                event.len > self.frames_room):
            return None
        at = event.offset % self.frames_room
        first = min(event.len, self.frames_room - at)
        at += self.frames_at
        return (bytes(self.data[at:at + first]) +
                bytes(self.data[self.frames_at:self.frames_at + event.len -
                                first]))


def overwritten(events):
    """The number of overwritten events before these."""
    return min((event.number for event in events), default=0)


def join(records):
    """The Record of a machine that has migrated, from those of each of its QEMUs in their
    order. The record of a later one counts from its last "loaded" on."""
    whole, *later = records
    for record in later:
        begin = max((at for at, event in enumerate(record) if event.kind == "loaded"),
                    default=len(record))
        number = whole[-1].number if whole else -1
        for event in record[begin:]:
            number += 1
            event.number = number
            whole.append(event)
    return whole


def read(path, node, lost_is_fine=False):
    """All entries of a file, the oldest first."""
    path = Path(path)
    try:
        file = open(path, "rb")
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    with file:
        if not path.stat().st_size:
            raise RecordError(f"{path}: not a record of fakernic: empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            record = File(path, data)
            if record.lost() and not lost_is_fine:
                raise RecordError(
                    f"{path}: {record.lost()} events were overwritten; record "
                    "less, or take what is left with --lost")
            return Record(place(list(record.events(node))), record.mac)
