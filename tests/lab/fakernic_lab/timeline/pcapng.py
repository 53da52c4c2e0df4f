# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a model as pcapng (IETF draft-ietf-opsawg-pcapng, little-endian).

The file has the frames that each machine sent or received, with comments, and the
accesses on each machine's bus. A machine has two interfaces, "node1" and "node1
bus". All times are those of the records, in nanoseconds.
"""

import struct
from collections import defaultdict
from itertools import chain

from .clock import of_order
from .model import NONE
from .steps import STEPS
from .wire import packet_key

ETHERNET, USER0 = 1, 147                # link types
SECTION, INTERFACE, PACKET = 0x0a0d0d0a, 1, 6
MAGIC = 0x1a2b3c4d
# Options.
END, COMMENT, NAME, DESCRIPTION, RESOLUTION, FLAGS = 0, 1, 2, 3, 9, 2
SNAPLEN = 0                             # no limit
DIRECTIONS = {"in": 1, "out": 2}


def padded(data):
    return data + bytes(-len(data) % 4)


def option(code, data):
    return struct.pack("<HH", code, len(data)) + padded(data)


def block(kind, body, options=()):
    """A block of the file. OPTIONS: pairs of a code and bytes."""
    tail = b"".join(option(code, data) for code, data in options)
    if tail:
        tail += option(END, b"")
    length = struct.pack("<I", 12 + len(body) + len(tail))
    return struct.pack("<I", kind) + length + body + tail + length


def section():
    return block(SECTION, struct.pack("<IHHq", MAGIC, 1, 0, -1))


def interface(link, name, description):
    return block(INTERFACE, struct.pack("<HHI", link, 0, SNAPLEN), (
        (NAME, name.encode()), (DESCRIPTION, description.encode()),
        (RESOLUTION, b"\x09")))


def packet(number, time, data, comment="", flags=0):
    options = [(COMMENT, comment.encode())] if comment else []
    if flags:
        options.append((FLAGS, struct.pack("<I", flags)))
    return block(PACKET, struct.pack("<IIIII", number, time >> 32,
                                     time & 0xffffffff, len(data), len(data)) +
                 padded(data), options)


# ---- which packet a frame is ---------------------------------------------------

class Frames:
    """Finds the packet of a frame: by the event of the frame, else by its content.
    Then it is the last equal packet that was sent before, and, for a received
    frame, preferably one that has not arrived."""

    def __init__(self, model):
        self.wire = model.wire
        self.events, self.packets = {}, defaultdict(list)
        for found in model.packets:
            tx = found.tx
            self.packets[tx.peer, tx.psn, tx.opcode].append(found)
            for end in (tx, *found.rx):
                self.events[end.node, end.number] = found

    def packet(self, event):
        """The packet of a frame; None if it belongs to no recorded packet."""
        number = self.wire.events.get((event.node, event.number))
        if (event.node, number) in self.events:
            return self.events[event.node, number]
        own = [found for found in self.packets.get(packet_key(event.data), ())
               if found.tx.time <= event.time and
               (found.tx.node == event.node) == (event.way != "in")]
        if event.way == "in":
            own = [found for found in own if found.goes_to(event.node) and
                   not left_lost(found)]
            own = [found for found in own if found.lost()] or own
        return own[-1] if own else None


def left_lost(found):
    """Whether a rule of the sender lost the packet before the wire."""
    return found.gone() and found.fault.point == "tx"


# ---- comments ------------------------------------------------------------------

def story(found):
    """The work request that the packet belongs to, in one line."""
    request = found.request
    if request is None:
        return ""
    name = f"{request.what()} {request.name()}"
    if found.number:
        count = len(request.packets)
        words = (f"packet {found.number} of {count} of {name}" if count > 1
                 else f"packet of {name}")
    else:
        words = f"answer to {name}"
    if found.tx.attempt > 1 and found.tx.index != NONE:
        words += f", attempt {found.tx.attempt}"
    return words


def frame_comment(event, found):
    if found is None:
        return ""
    words = story(found)
    fault = found.fault
    if fault and (event.way == "in" or fault.point == "tx"):
        words += (f"{', and ' if words else ''}then a fault rule of "
                  f"{fault.node}: at={fault.point} do={fault.action}")
    return words


def bus_comment(event):
    step = STEPS.get(event.kind)
    return step.sentence if step else ""


# ---- the file ------------------------------------------------------------------

def pcapng(model):
    """Yield the pieces of the file in order of time, without frames whose bytes
    were overwritten."""
    yield section()
    for node in model.records:
        yield interface(ETHERNET, node, f"the port of {node}")
        yield interface(USER0, f"{node} bus", f"fakernic's bus events of {node}")
    numbers = {node: 2 * index for index, node in enumerate(model.records)}
    frames = Frames(model)
    events = sorted(chain.from_iterable(model.records.values()), key=of_order)
    for event in events:
        number = numbers[event.node]
        if event.kind != "frame":
            yield packet(number + 1, event.time,
                         f"{event.kind} {event.words()}".encode(),
                         bus_comment(event))
        elif event.data is not None:
            yield packet(number, event.time, event.data,
                         frame_comment(event, frames.packet(event)),
                         DIRECTIONS.get(event.way, 0))
