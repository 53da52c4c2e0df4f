# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that the device's recorder writes (property x-record): a header and
a ring of entries, 64 bytes each, described in qemu-hw/device/record.h. What the
arguments of each kind are called stands in record.c, and is read from there.
"""

import re
import struct
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HEADER = struct.Struct("<8sIIQQ6s26x")
ENTRY = struct.Struct("<QQI11I")


class RecordError(Exception):
    """The file cannot be used; the message is the one line to show."""


def kinds():
    """By number: (name, name of the value or None, names of the arguments)."""
    text = (TOP / "qemu-hw/device/record.c").read_text("utf-8")
    header = (TOP / "qemu-hw/device/record.h").read_text("utf-8")
    rows = dict(re.findall(r"\[FAKERNIC_RECORD_(\w+)\] =\s*\"([^\"]*)\"", text))
    order = re.findall(r"^    FAKERNIC_RECORD_(\w+),$", header, re.M)[:-1]
    found = []
    for kind in order:
        name, value, *arguments = rows[kind].split()
        found.append((name, None if value == "-" else value, arguments))
    return found


def fault_names():
    """The names of points and actions, by number."""
    text = (TOP / "qemu-hw/roce/fault.h").read_text("utf-8")
    points, actions = re.findall(r"typedef enum RoceFault(?:Point|Action) "
                                 r"\{(.*?)\}", text, re.S)
    return [[name.lower().replace("_", "-") for name in
             re.findall(r"^    ROCE_FAULT_(\w+),", body, re.M)][:-1]
            for body in (points, actions)]


def opcode_names():
    """BTH opcode -> name, for RC; of other services the service is told."""
    text = (TOP / "qemu-hw/roce/opcode.h").read_text("utf-8")
    operations = {int(number, 16): name for name, number in
                  re.findall(r"ROCE_BTH_(\w+) = (0x\w+)", text)}
    services = {0x00: "RC", 0x20: "UC", 0x60: "UD", 0xa0: "XRC"}
    names = {0x81: "CNP"}
    for base, service in services.items():
        for number, name in operations.items():
            if number < 0x20:
                names[base | number] = f"{service} {name.replace('_', ' ')}"
    return names


class Event:
    """One entry: when, in which machine, what, with its arguments as
    attributes."""

    def __init__(self, node, number, time, kind, fields):
        self.node, self.number, self.time, self.kind = node, number, time, kind
        self.fields = fields

    def __getattr__(self, name):
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self):
        words = " ".join(f"{name}={value}" for name, value in
                         self.fields.items())
        return f"{self.node} #{self.number} {self.kind} {words}"


def read(path, node, lost_is_fine=False):
    """All entries of a file, the oldest first."""
    data = Path(path).read_bytes()
    if len(data) < HEADER.size:
        raise RecordError(f"{path}: not a record of fakernic's, it is too short")
    magic, version, room, count, _, _ = HEADER.unpack_from(data)
    if magic != b"fakerec\0" or version != 1:
        raise RecordError(f"{path}: not a record of fakernic's, version 1")
    if len(data) < HEADER.size + room * ENTRY.size:
        raise RecordError(f"{path}: cut short: {room} entries do not fit")
    if count > room and not lost_is_fine:
        raise RecordError(f"{path}: {count - room} events were overwritten; "
                          "record less, or take what is left with --lost")
    table = kinds()
    found = []
    for number in range(max(0, count - room), count):
        time, value, kind, *arguments = ENTRY.unpack_from(
            data, HEADER.size + number % room * ENTRY.size)
        if kind >= len(table):
            raise RecordError(f"{path}: entry {number} is of unknown kind {kind}")
        name, value_name, names = table[kind]
        fields = dict(zip(names, arguments))
        if value_name:
            fields[value_name] = value
        found.append(Event(node, number, time, name, fields))
    return found
