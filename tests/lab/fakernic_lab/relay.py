# SPDX-License-Identifier: GPL-2.0-or-later
"""A wire with faults: passes frames between QEMUs and impairs some.

Its ends are `-netdev stream` sockets: frames with a 32-bit big-endian length
in front. With more than two it is a switch: it learns which address is behind
which end. Which frames are hit depends on the seed and on how many frames
matched before, on nothing else: the same seed hits the same positions. A hit
is a loss, a duplicate, an exchange with the frame behind, or a flipped bit;
delay holds every frame that matches. An end that reads slowly slows the others
down; one that takes nothing for STUCK_S loses frames, as it does on the device's
own link.

Runs as a process of its own (`relay.py CONTROL PCAP SOCKET...`), so that it
never waits for another's interpreter; class Relay starts one and talks to it by
the socket CONTROL with a line of JSON each way. PCAP, unless empty, is a file
that gets every frame as its sender sent it.
"""

import heapq
import json
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

ROCE_PORT = 4791
READ_SIZE = 1 << 18
OUTPUT_LIMIT = 1 << 22
STUCK_S = 3.5
LOOK_S = 0.5
BEHIND_MAX = 1 << 12
# Of so many frames, or twice as many, it is known that they were there before.
SEEN_MAX = 1 << 16
CONTROL_S = 10
START_S = 30
ETHERNET = 1
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
        self.seen, self.seen_before = set(), set()
        self.counts = dict.fromkeys(COUNTERS, 0)

    def count_repeats(self, frame, bth):
        """A PSN that went this way before was sent again."""
        key = (frame[bth], frame[bth + 5:bth + 8], frame[bth + 9:bth + 12])
        self.counts["repeated"] += key in self.seen or key in self.seen_before
        self.seen.add(key)
        if len(self.seen) == SEEN_MAX:
            self.seen, self.seen_before = set(), self.seen

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
        self.full_since = None

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
        if self.is_stuck():
            return
        self.output += len(frame).to_bytes(4, "big") + frame
        if not self.full_since and len(self.output) >= OUTPUT_LIMIT:
            self.full_since = time.monotonic()

    def is_stuck(self):
        """Whether it has been full for long, and has taken nothing."""
        return bool(self.full_since) and (
            time.monotonic() - self.full_since > STUCK_S)

    def flush(self):
        try:
            while self.output:
                del self.output[:self.sock.send(self.output)]
                self.full_since = (time.monotonic() if len(self.output) >=
                                   OUTPUT_LIMIT else None)
        except BlockingIOError:
            pass


class Pcap:
    """A capture that grows."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.file.write(struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144,
                                    ETHERNET))

    def add(self, frame):
        seconds, microseconds = divmod(time.time_ns() // 1000, 1000000)
        self.file.write(struct.pack("=IIII", seconds, microseconds, len(frame),
                                    len(frame)) + frame)
        self.file.flush()


class Wire:
    """The relay's event loop."""

    def __init__(self, control, pcap, paths):
        self.ends = [End(path) for path in paths]
        self.ways = [Direction(path.rpartition(".")[2]) for path in paths]
        self.pcap = Pcap(pcap) if pcap else None
        self.behind = {}
        self.late = []
        self.serial = 0
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(control)
        self.listener.listen(8)
        self.selector.register(self.listener, selectors.EVENT_READ, "control")
        for number, end in enumerate(self.ends):
            self.selector.register(end.listener, selectors.EVENT_READ, number)

    def control(self):
        """A line from whoever controls the wire: new plans by sender, and
        frames to add ("inject", in hexadecimal, by the end that gets them);
        answers counters."""
        client = self.listener.accept()[0]
        client.settimeout(CONTROL_S)
        try:
            with client, client.makefile("rw", encoding="utf-8") as file:
                plans = json.loads(file.readline())
                answer = {way.name: way.counts for way in self.ways}
                self.obey(plans)
                file.write(json.dumps(answer) + "\n")
                file.flush()
        except (OSError, ValueError) as error:
            print(f"relay: {error}", file=sys.stderr)

    def obey(self, plans):
        for way in self.ways:
            if way.name in plans:
                way.impair(plans[way.name])
        for number, frames in plans.get("inject", {}).items():
            for frame in frames:
                self.ends[int(number)].queue(bytes.fromhex(frame))

    def accept(self, number):
        end = self.ends[number]
        end.sock = end.listener.accept()[0]
        end.sock.setblocking(False)
        self.selector.register(end.sock, selectors.EVENT_READ, number)

    def leave(self, number):
        end = self.ends[number]
        self.wait_for(number, 0)
        end.sock.close()
        end.sock = None
        end.input = b""
        end.output.clear()
        end.full_since = None

    def targets(self, number, frame):
        """The ends that get a frame of an end."""
        if len(self.ends) == 2:
            return (self.ends[1 - number],)
        if len(self.behind) >= BEHIND_MAX:
            self.behind.clear()         # somebody makes addresses up
        self.behind[frame[6:12]] = number
        known = None if frame[0] & 1 else self.behind.get(frame[:6])
        return [end for other, end in enumerate(self.ends)
                if other != number and known in (None, other)]

    def forward(self, number):
        frames = self.ends[number].frames()
        if frames is None:
            self.leave(number)
            return
        for frame in frames:
            self.capture(frame)
            out, delay = self.ways[number].passes(frame)
            for frame in out:
                for end in self.targets(number, frame):
                    self.pass_on(end, frame, delay)

    def capture(self, frame):
        """A capture that cannot grow ends; the wire goes on."""
        try:
            if self.pcap:
                self.pcap.add(frame)
        except OSError as error:
            print(f"relay: no capture any more: {error}", file=sys.stderr)
            self.pcap = None

    def pass_on(self, end, frame, delay):
        if delay:
            self.serial += 1
            heapq.heappush(self.late, (time.monotonic() + delay, self.serial,
                                       end, frame))
        elif end.sock:
            end.queue(frame)

    def release_late(self):
        """Sends what waited long enough; the time until the next."""
        now = time.monotonic()
        while self.late and self.late[0][0] <= now:
            _, _, end, frame = heapq.heappop(self.late)
            if end.sock:
                end.queue(frame)
        return self.late[0][0] - now if self.late else None

    def watch(self):
        """While an end reads slowly, the others are not read; whether so."""
        full = [end for end in self.ends
                if end.full_since and not end.is_stuck()]
        for number, end in enumerate(self.ends):
            if not end.sock:
                continue
            events = selectors.EVENT_WRITE if end.output else 0
            if all(other is end for other in full):
                events |= selectors.EVENT_READ
            self.wait_for(number, events)
        return bool(full)

    def wait_for(self, number, events):
        """Which events of an end are of interest from now on."""
        sock = self.ends[number].sock
        watched = sock in self.selector.get_map()
        if watched and events:
            self.selector.modify(sock, events, number)
        elif watched:
            self.selector.unregister(sock)
        elif events:
            self.selector.register(sock, events, number)

    def event(self, key, events):
        if key.data == "control":
            self.control()
        elif key.fileobj is self.ends[key.data].listener:
            self.accept(key.data)
        elif events & selectors.EVENT_READ:
            try:
                self.forward(key.data)
            except ConnectionResetError:
                self.leave(key.data)

    def flush(self):
        for number, end in enumerate(self.ends):
            if end.sock and end.output:
                try:
                    end.flush()
                except (BrokenPipeError, ConnectionResetError):
                    self.leave(number)

    def run(self):
        wait = None
        while True:
            for key, events in self.selector.select(wait):
                self.event(key, events)
            wait = self.release_late()
            self.flush()
            if self.watch():
                wait = LOOK_S if wait is None else min(wait, LOOK_S)


class Relay:
    """A running relay. FOLDER gets its sockets: CONTROL, and one per way it is
    sent from, whose names WAYS are; it ends with this process unless STAYS."""

    def __init__(self, folder, ways, pcap=None, stays=False):
        self.attach(folder, ways)
        ends_with_us = [] if stays else ["setpriv", "--pdeathsig", "KILL"]
        self.process = subprocess.Popen(
            [*ends_with_us, sys.executable, "-S", __file__, str(self.control),
             str(pcap or ""), *map(str, self.paths)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=None if not stays else
            subprocess.DEVNULL, start_new_session=True)
        self.pid = self.process.pid
        self.wait_started()

    def wait_started(self):
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self.ask({})
            except (FileNotFoundError, ConnectionError):
                if self.process.poll() is not None or (
                        time.monotonic() > deadline):
                    raise
                time.sleep(0.01)

    def attach(self, folder, ways):
        self.ways = list(ways)
        self.control = Path(folder) / "wire"
        self.paths = [Path(folder) / f"wire.{way}" for way in ways]

    @classmethod
    def running(cls, folder, ways, pid):
        """A relay that another process has started."""
        self = cls.__new__(cls)
        self.attach(folder, ways)
        self.process = None
        self.pid = pid
        return self

    def ask(self, plans):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(CONTROL_S)
            sock.connect(str(self.control))
            with sock.makefile("rw", encoding="utf-8") as file:
                file.write(json.dumps(plans) + "\n")
                file.flush()
                return json.loads(file.readline())

    def counts(self):
        """Way -> counter -> value, since the last plan."""
        return self.ask({})

    def inject(self, frames, end=1):
        """Sends frames of one's own to an end."""
        self.ask({"inject": {end: [frame.hex() for frame in frames]}})

    def impair(self, **plan):
        """Impairs all directions from now on; see Direction.impair()."""
        self.ask(dict.fromkeys(self.ways, plan))

    @contextmanager
    def impaired(self, **plan):
        """Impairs all directions inside the with."""
        self.impair(**plan)
        try:
            yield self
        finally:
            self.impair()

    def assert_alive(self):
        """Raises GuestCrashed when it has ended: nobody hears anybody then."""
        from .errors import GuestCrashed
        if not self.is_running():
            raise GuestCrashed("the wire between the machines is lost: its "
                               "process has ended")

    def is_running(self):
        # Not at the top: the relay's own process is not part of the package.
        from .places import runs_with
        if self.process:
            return self.process.poll() is None
        return runs_with(self.pid, self.control)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(10)
        elif self.is_running():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        for path in (self.control, *self.paths):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    Wire(sys.argv[1], sys.argv[2], sys.argv[3:]).run()
