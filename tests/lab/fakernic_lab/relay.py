# SPDX-License-Identifier: GPL-2.0-or-later
"""A wire with faults: passes frames between QEMUs and applies fault rules to them.

The relay is a separate program, relay/relay.c. Its ends are sockets of `-netdev
stream`; with more than two ends it is a switch. Its fault rules are those of the
device (qemu-hw/FAULTS.md): at=tx applies to frames that an end sends, at=rx to
frames that it receives.

An end that reads slowly slows the others down. With two ends, one that reads
nothing for 3.5 s loses frames. With more ends, one that stalls the others for more
than a tenth of the time loses frames.
"""

import os
import re
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from . import faults, places
from .errors import GuestCrashed, LabError
from .outputs import limit_files

CONTROL_S = 10
START_S = 30
ANSWER_SIZE = 1 << 16
# As in relay/end.h: an end with this many queued bytes is full.
OUTPUT_LIMIT = 1 << 22
REFUSED = "error: "


class WayRules:
    """The rules of one end, with the methods that faults.armed_in() needs."""

    def __init__(self, relay, way):
        self.relay, self.way = relay, way

    def text(self):
        return self.relay.rules(self.way)

    def apply(self, words):
        self.relay.add_rules(words, self.way)

    def is_there(self):
        return self.relay.is_running()


class Relay:
    """A running relay. WAYS are the names of its ends. FOLDER gets its sockets:
    one for control, and one for each end. It ends with this process, unless it
    STAYS."""

    def __init__(self, folder, ways, pcap=None, stays=False):
        self.attach(folder, ways)
        ends_with_us = [] if stays else places.ends_with_us()
        self.process = subprocess.Popen(
            [*ends_with_us, str(places.tool("fakernic-lab-relay")),
             str(self.control), str(pcap or ""), *map(str, self.paths)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=None if not stays else subprocess.DEVNULL,
            start_new_session=True, restore_signals=False)
        self.pid = self.process.pid
        limit_files(self.pid)
        self.wait_started()

    def wait_started(self):
        deadline = time.monotonic() + START_S
        while True:
            try:
                return self.ask()
            except (FileNotFoundError, ConnectionError) as error:
                if self.process.poll() is not None or (
                        time.monotonic() > deadline):
                    raise LabError("the wire between the machines does not "
                                   "start") from error
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

    def ask(self, *lines):
        """Send lines to the relay (relay/control.h); the lines of its answer."""
        answer = b""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(CONTROL_S)
            sock.connect(str(self.control))
            # After an invalid line the relay answers and reads no more.
            with suppress(BrokenPipeError):
                sock.sendall("".join(f"{line}\n" for line in lines).encode())
                sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(ANSWER_SIZE):
                answer += data
        text = answer.decode()
        if not text:
            raise ConnectionError("the wire does not answer")
        if text.startswith(REFUSED):
            raise LabError(f"the wire: {text.removeprefix(REFUSED).strip()}")
        return text.splitlines()

    def counts(self):
        """Way -> counter -> value: the frames that this end sent, and those that
        were lost because it did not read them."""
        return {way: {name: int(value) for name, value in
                      re.findall(r"\b(\w+)=(\d+)", words)}
                for way, words in self.words() if words.startswith("frames=")}

    def words(self):
        """(way, line of the answer about it) of all ways."""
        return [line.split(" ", 1) for line in self.ask()]

    def rules(self, way):
        """The rules of a way, one a line, with how often each was hit."""
        return "".join(f"{words}\n" for name, words in self.words()
                       if name == way and words.startswith("id="))

    def add_rules(self, text, *ways):
        """Add rules to these ways, or to all. The rule "remove=" removes some."""
        words = text.replace("\n", ";")
        self.ask(*(f"rules {way} {words}" for way in ways or self.ways))

    def armed(self, *rules, way=None):
        """Inside the with, these rules without id= apply to one way or to all.
        Each rule must be hit at one way at least: see faults.armed()."""
        ways = [way] if way else self.ways
        return faults.armed_in([WayRules(self, one) for one in ways], rules)

    def inject(self, frames, end=1):
        """Send frames to an end that no machine has sent."""
        self.ask(*(f"inject {self.ways[end]} {frame.hex()}"
                   for frame in frames))

    def assert_alive(self):
        """Raise GuestCrashed if the relay has ended: then no frame arrives."""
        if not self.is_running():
            raise GuestCrashed("the wire between the machines is lost: its "
                               "process has ended")

    def is_running(self):
        if self.process:
            return self.process.poll() is None
        return places.runs_with(self.pid, self.control)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(10)
        elif self.is_running():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        for path in (self.control, *self.paths):
            path.unlink(missing_ok=True)
