# SPDX-License-Identifier: GPL-2.0-or-later
"""A wire with faults: passes frames between two QEMUs and impairs some.

Both ends are `-netdev stream` sockets: frames with a 32-bit big-endian length
in front. Which frames are hit depends on the seed and on how many frames
matched before, on nothing else: the same seed hits the same positions. A hit
is a loss, a duplicate, an exchange with the frame behind, or a flipped bit;
delay holds every frame that matches.

Runs as a process of its own (`relay.py SOCKET SOCKET`), so that it never waits
for the tests' interpreter; class Relay starts one and talks to it with a line
of JSON each way.
"""

import heapq
import json
import random
import selectors
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

ROCE_PORT = 4791
READ_SIZE = 1 << 18
OUTPUT_LIMIT = 1 << 22
FAULTS = ("loss", "duplicate", "reorder", "corrupt")
COUNTERS = ("frames", "matched", "repeated", "delayed", *FAULTS)


def bth_offset(frame):
    """Where the BTH of a RoCEv2 frame begins; 0 for any other frame."""
    offset = 12
    if frame[offset:offset + 2] == b"\x81\x00":
        offset += 4
    kind = frame[offset:offset + 2]
    offset += 2
    if kind == b"\x08\x00" and frame[offset + 9:offset + 10] == b"\x11":
        offset += 4 * (frame[offset] & 15)
    elif kind == b"\x86\xdd" and frame[offset + 6:offset + 7] == b"\x11":
        offset += 40
    else:
        return 0
    if int.from_bytes(frame[offset + 2:offset + 4], "big") != ROCE_PORT:
        return 0
    return offset + 8


def selected(what, frame, bth):
    """Whether a frame belongs to WHAT: all, roce, or data (roce, not QP 1)."""
    if what == "all":
        return True
    if not bth:
        return False
    return what == "roce" or frame[bth + 5:bth + 8] != b"\0\0\1"


class Direction:
    """What happens to frames one way, and how many it happened to."""

    def __init__(self, name):
        self.name = name
        self.impair({})

    def impair(self, plan):
        """PLAN: match, seed, delay_us, and a probability per fault."""
        self.match = plan.get("match", "data")
        self.delay = plan.get("delay_us", 0) / 1e6
        self.plan = [(fault, plan[fault]) for fault in FAULTS if plan.get(fault)]
        self.random = random.Random(f"{plan.get('seed', 0)} {self.name}")
        self.held = None
        self.seen = set()
        self.counts = dict.fromkeys(COUNTERS, 0)

    def count_repeats(self, frame, bth):
        """A PSN that went this way before was sent again."""
        key = (frame[bth], frame[bth + 5:bth + 8], frame[bth + 9:bth + 12])
        self.counts["repeated"] += key in self.seen
        self.seen.add(key)

    def fault(self):
        """The fault that hits the next frame that matches, or None.

        One draw a frame whatever the plan: positions depend on the seed only.
        """
        draw = self.random.random()
        for fault, probability in self.plan:
            if draw < probability:
                return fault
            draw -= probability
        return None

    def corrupted(self, frame):
        """One bit of the payload or the ICRC is wrong."""
        bit = self.random.randrange(8 * 20)
        index = len(frame) - 1 - bit // 8
        return (frame[:index] + bytes([frame[index] ^ 1 << bit % 8]) +
                frame[index + 1:])

    def passes(self, frame):
        """The frames to send in place of FRAME, and for how long to wait."""
        self.counts["frames"] += 1
        bth = bth_offset(frame)
        if not selected(self.match, frame, bth):
            return [frame], 0
        self.counts["matched"] += 1
        if bth and self.plan:
            self.count_repeats(frame, bth)
        fault = self.fault()
        if fault:
            self.counts[fault] += 1
        out = []
        if fault == "reorder" and self.held is None:
            self.held = frame
        elif fault == "corrupt":
            out = [self.corrupted(frame)]
        elif fault != "loss":
            out = [frame] * (2 if fault == "duplicate" else 1)
        if out and self.held is not None:
            out.append(self.held)
            self.held = None
        self.counts["delayed"] += bool(self.delay)
        return out, self.delay


class End:
    """One QEMU's socket: bytes that came in, bytes that wait to go out."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.sock = None
        self.input = b""
        self.output = bytearray()

    def frames(self):
        """The whole frames of what came in; None when the end has left."""
        data = self.sock.recv(READ_SIZE)
        if not data:
            return None
        data = self.input + data
        found, offset = [], 0
        while offset + 4 <= len(data):
            size = int.from_bytes(data[offset:offset + 4], "big")
            if offset + 4 + size > len(data):
                break
            found.append(data[offset + 4:offset + 4 + size])
            offset += 4 + size
        self.input = data[offset:]
        return found

    def queue(self, frame):
        self.output += len(frame).to_bytes(4, "big") + frame

    def flush(self):
        try:
            while self.output:
                del self.output[:self.sock.send(self.output)]
        except BlockingIOError:
            pass


class Wire:
    """The relay's event loop."""

    def __init__(self, paths):
        self.ends = [End(path) for path in paths]
        self.ways = [Direction("ab"), Direction("ba")]
        self.late = []
        self.serial = 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(sys.stdin.buffer, selectors.EVENT_READ, None)
        for number, end in enumerate(self.ends):
            self.selector.register(end.listener, selectors.EVENT_READ, number)

    def control(self):
        """A line from the tests: new plans by direction, and frames to add
        ("inject", in hexadecimal); answers counters."""
        line = sys.stdin.buffer.readline()
        if not line:
            return False
        answer = {way.name: way.counts for way in self.ways}
        plans = json.loads(line)
        for way in self.ways:
            if way.name in plans:
                way.impair(plans[way.name])
        for number, frames in enumerate(plans.get("inject", ())):
            for frame in frames:
                self.ends[1 - number].queue(bytes.fromhex(frame))
        print(json.dumps(answer), flush=True)
        return True

    def accept(self, number):
        end = self.ends[number]
        end.sock = end.listener.accept()[0]
        end.sock.setblocking(False)
        self.selector.register(end.sock, selectors.EVENT_READ, number)

    def leave(self, number):
        end = self.ends[number]
        self.selector.unregister(end.sock)
        end.sock.close()
        end.sock = None
        end.input = b""
        end.output.clear()

    def forward(self, number):
        frames = self.ends[number].frames()
        if frames is None:
            self.leave(number)
            return
        other, way = self.ends[1 - number], self.ways[number]
        for frame in frames:
            out, delay = way.passes(frame)
            for frame in out:
                if delay:
                    self.serial += 1
                    heapq.heappush(self.late, (time.monotonic() + delay,
                                               self.serial, other, frame))
                elif other.sock:
                    other.queue(frame)

    def release_late(self):
        """Sends what waited long enough; the time until the next."""
        now = time.monotonic()
        while self.late and self.late[0][0] <= now:
            _, _, end, frame = heapq.heappop(self.late)
            if end.sock:
                end.queue(frame)
        return self.late[0][0] - now if self.late else None

    def watch(self):
        """An end that reads slowly is not sent more than a limit."""
        for number, end in enumerate(self.ends):
            if not end.sock:
                continue
            other = self.ends[1 - number]
            events = selectors.EVENT_WRITE if end.output else 0
            if len(other.output) < OUTPUT_LIMIT:
                events |= selectors.EVENT_READ
            self.selector.modify(end.sock, events or selectors.EVENT_WRITE,
                                 number)

    def run(self):
        wait = None
        while True:
            for key, events in self.selector.select(wait):
                if key.data is None:
                    if not self.control():
                        return
                elif key.fileobj is self.ends[key.data].listener:
                    self.accept(key.data)
                elif events & selectors.EVENT_READ:
                    try:
                        self.forward(key.data)
                    except ConnectionResetError:
                        self.leave(key.data)
            wait = self.release_late()
            for number, end in enumerate(self.ends):
                if end.sock and end.output:
                    try:
                        end.flush()
                    except (BrokenPipeError, ConnectionResetError):
                        self.leave(number)
            self.watch()


class Relay:
    """A running relay, as the tests see it."""

    def __init__(self, paths):
        self.process = subprocess.Popen(
            [sys.executable, __file__, *map(str, paths)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask({})        # its sockets listen now

    def ask(self, plans):
        self.process.stdin.write(json.dumps(plans) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def counts(self):
        """Direction ("ab", "ba") -> counter -> value, since the last plan."""
        return self.ask({})

    def inject(self, frames):
        """Sends frames of the tests' own to the second end."""
        self.ask({"inject": [[frame.hex() for frame in frames]]})

    @contextmanager
    def impaired(self, **plan):
        """Impairs both directions inside the with; see Direction.impair()."""
        self.ask({"ab": plan, "ba": plan})
        try:
            yield self
        finally:
            self.ask({"ab": {}, "ba": {}})

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


if __name__ == "__main__":
    Wire(sys.argv[1:]).run()
