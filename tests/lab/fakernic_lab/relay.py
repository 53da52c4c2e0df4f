# SPDX-License-Identifier: GPL-2.0-or-later
"""A wire with faults: passes frames between QEMUs and lets some come to harm.

It is a program of its own, relay/relay.c, whose ends are `-netdev stream`
sockets; with more than two it is a switch. What it does to frames is said by
fault rules, the device's (qemu-hw/FAULTS.md): at=tx of what an end sends, at=rx
of what comes to it. An end that reads slowly slows the others down; one that
takes nothing for 3.5 s loses frames, among three or more one that stalls the
others for more than a tenth of the time.
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
# Of relay/end.h: with what an end is full.
OUTPUT_LIMIT = 1 << 22
REFUSED = "error: "


class WayRules:
    """The rules of one end, as faults.armed_in() takes them."""

    def __init__(self, relay, way):
        self.relay, self.way = relay, way

    def text(self):
        return self.relay.rules(self.way)

    def tell(self, words):
        self.relay.add_rules(words, self.way)

    def is_there(self):
        return self.relay.is_running()


class Relay:
    """A running relay. FOLDER gets its sockets: CONTROL, and one per way it is
    sent from, whose names WAYS are; it ends with this process unless STAYS."""

    def __init__(self, folder, ways, pcap=None, stays=False):
        self.attach(folder, ways)
        ends_with_us = [] if stays else ["setpriv", "--pdeathsig", "KILL"]
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
        """Says some lines (relay/control.h); the lines of the answer."""
        answer = b""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(CONTROL_S)
            sock.connect(str(self.control))
            # Of a line that is wrong it tells at once, and hears no more.
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
        """Way -> counter -> value: frames that were sent this way, and those
        lost as the end of this name did not take them."""
        return {way: {name: int(value) for name, value in
                      re.findall(r"\b(\w+)=(\d+)", words)}
                for way, words in self.words() if words.startswith("frames=")}

    def words(self):
        """(way, what is said of it) of all ways."""
        return [line.split(" ", 1) for line in self.ask()]

    def rules(self, way):
        """The rules of a way, a line each, with how often each was hit."""
        return "".join(f"{words}\n" for name, words in self.words()
                       if name == way and words.startswith("id="))

    def add_rules(self, text, *ways):
        """Gives these ways, or all, more rules, or takes some away by
        "remove="."""
        words = text.replace("\n", ";")
        self.ask(*(f"rules {way} {words}" for way in ways or self.ways))

    def armed(self, *rules, way=None):
        """Rules without id= are in force inside the with, for one way or all,
        of which one at least is to hit each: see faults.armed()."""
        ways = [way] if way else self.ways
        return faults.armed_in([WayRules(self, one) for one in ways], rules)

    def inject(self, frames, end=1):
        """Sends frames of one's own to an end."""
        self.ask(*(f"inject {self.ways[end]} {frame.hex()}"
                   for frame in frames))

    def assert_alive(self):
        """Raises GuestCrashed when it has ended: nobody hears anybody then."""
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
