# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands inside a guest, through its agent (guest/agent.c).

A command is a shell script. run() waits for it and returns its output and
exit code. start() returns a Job, so that a server in one guest and a client
in another can run at the same time. `timeout` in the guest ends a command at its
time limit, and the host stops waiting 20 s later: no command outlives its test.

The guest may be hostile. So the host limits the bytes that it accepts from the
agent, and the time that it waits for the agent to read.
"""

import base64
import binascii
import fcntl
import os
import select
import shlex
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from .errors import CommandFailed, GuestCrashed, GuestTimeout

# Ports of a guest: it runs that many commands at a time. The launcher itself uses
# one of them (meeting.py).
PORTS = 13
# The host waits this much longer than the time limit inside the guest.
GRACE_S = 20
# How long an agent may take to start a command, on a busy machine.
START_S = 120
ALIVE_S = 0.2
ENDS_S = 2              # from a closed port to the end of its QEMU
INPUT_CHUNK = 8192
TIMED_OUT = (124, 137)
KILLED = 137
# The agent's own command (guest/agent.c), and the longest that its steps may take.
SET_UP = ("fakernic-lab-agent", "set-up")
SET_UP_S = 150
# Interval between requests to an agent that does not answer: first, longest.
AGAIN_FIRST_S = 0.1
AGAIN_S = 1
# The request that ends a command, and the agent's answer to it.
END = ["hello", "end"]
# The longest line of an agent: guest/agent.c sends 16 KiB.
LINE_MAX = 1 << 16
# A Job without on_output keeps this much of each stream; the rest is cut.
KEPT_MAX = 64 << 20
CUT = b"\n[the rest is cut]\n"
# How long a guest may take to read a line, and to read the request END.
SEND_S = 60
KILL_S = 2


class Result:
    """What a command printed and how it ended."""

    def __init__(self, script, code, out, err):
        self.script = script
        self.code = code
        self.out = out
        self.err = err

    @property
    def ok(self):
        return self.code == 0

    @property
    def timed_out(self):
        return self.code in TIMED_OUT

    def check(self):
        """Return the Result, or raise CommandFailed with all of the output."""
        if not self.ok:
            raise CommandFailed(str(self))
        return self

    def __str__(self):
        reason = "time limit" if self.timed_out else f"exit code {self.code}"
        return (f"$ {self.script.strip()}\n{self.out}{self.err}"
                f"[{reason}]")

    __repr__ = __str__      # so that a failed assertion shows it


class Session:
    """A connection to a port of the agent. A file lock makes it the only one."""

    def __init__(self, path):
        self.lock = open(f"{path}.lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))
        except OSError:
            self.lock.close()
            raise
        self.sock.setblocking(False)
        self.buffer = b""       # the beginning of a line
        self.lines = deque()    # received, not yet taken by line()
        self.token = f"{os.getpid()}.{time.monotonic_ns()}"
        self.broken = False
        self.unsure = True      # old lines may still come: hello() skips them
        self.again = AGAIN_FIRST_S
        self.writing = threading.Lock()

    def close(self):
        """Close the connection. shutdown() first wakes a thread that still reads:
        until it returns the connection stays open, and QEMU accepts no other."""
        with suppress(OSError):     # it is not connected any more
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.lock.close()

    def wait_for(self, what, deadline):
        """Raise TimeoutError if the socket is not ready at the deadline."""
        poll = select.poll()
        with suppress(ValueError):      # it was closed: recv() or send() fails
            poll.register(self.sock, what)
            left = deadline and max(0, deadline - time.monotonic()) * 1000
            if not poll.poll(left):
                raise TimeoutError("the guest neither answers nor reads")

    def send(self, line, timeout=None):
        """Raise TimeoutError if the machine does not read LINE in that time."""
        left = memoryview(line.encode() + b"\n")
        timeout = timeout or SEND_S
        deadline = time.monotonic() + timeout
        if not self.writing.acquire(timeout=timeout):
            raise TimeoutError("the guest does not read")
        try:
            while left:
                with suppress(BlockingIOError):
                    left = left[self.sock.send(left):]
                    continue
                self.wait_for(select.POLLOUT, deadline)
        finally:
            self.writing.release()

    def line(self, timeout=None):
        """The next line as a list of words; None when the time is over."""
        deadline = timeout and time.monotonic() + timeout
        while not self.lines:
            try:
                self.wait_for(select.POLLIN, deadline)
                data = self.sock.recv(1 << 18)
            except BlockingIOError:
                continue
            except TimeoutError:
                return None
            if not data:
                raise ConnectionError("the agent's port was closed")
            *self.lines, self.buffer = (self.buffer + data).split(b"\n")
            self.lines = deque(self.lines)
            if len(self.buffer) > LINE_MAX:
                raise ConnectionError("the agent sends a line that is too long")
            if not self.lines and deadline and time.monotonic() > deadline:
                return None
        return self.lines.popleft().decode("ascii", "replace").split()

    def hello(self, timeout):
        """Start a new session, which also ends a command that still runs. Return
        whether the agent answers in time.

        Lines in both directions may be lost while the port connects, so the
        request is repeated. A guest that has not booted reads nothing; after
        enough repetitions the buffers are full and send() times out.
        """
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            try:
                self.send(f"\nhello {self.token}", left)
            except TimeoutError:
                return False
            if self.answer_comes(min(deadline, time.monotonic() + self.again)):
                self.unsure = False
                self.again = AGAIN_FIRST_S
                return True
            self.again = min(2 * self.again, AGAIN_S)
        return False

    def answer_comes(self, deadline):
        while (left := deadline - time.monotonic()) > 0:
            if self.line(left) == ["hello", self.token]:
                return True
        return False


def number(words):
    """The number in a line of the agent."""
    try:
        return int(words[1][:10])
    except (IndexError, ValueError) as error:
        raise ConnectionError(f"the agent says '{words[0]}' only") from error


def packed(words):
    """WORDS in the form that the agent reads: base64, each ended by a NUL."""
    return base64.b64encode(b"".join(
        word.encode() + b"\0" for word in words)).decode()


def payload(words):
    """The bytes in a line of the agent; none if they are not base64."""
    try:
        return base64.b64decode(words[1]) if len(words) > 1 else b""
    except binascii.Error:
        return b""


class Job:
    """A command that runs in a guest.

    ON_OUTPUT: called with "out" or "err" and the bytes as they arrive, in the
    thread of the job. The Result then has no output.
    TERMINAL: (rows, columns) of a terminal in which the command runs.
    INPUT: the caller sends standard input. Without it, and without a terminal,
    the command reads the end of its input at once.
    """

    def __init__(self, guest, script, argv, timeout=None, on_output=None,
                 terminal=None, input=False):
        self.guest = guest
        self.script = script
        self.deadline = time.monotonic() + timeout + GRACE_S if timeout else None
        self.on_output = on_output or self.collect
        self.texts = {"out": bytearray(), "err": bytearray()}
        self.pid = None
        self.result = None
        self.started = threading.Event()
        self.ended = threading.Event()
        self.session = guest.take_session()
        threading.Thread(target=self.listen, daemon=True).start()
        how = "pty {} {}".format(*terminal) if terminal else "run"
        try:
            self.session.send(f"{how} {packed(argv)}")
            if not (input or terminal):
                self.send(b"")
        except TimeoutError as error:
            self.session.broken = True
            raise GuestTimeout(f"{guest.vm.name} does not read its command") from error
        self.await_event(self.started, time.monotonic() + START_S)

    def collect(self, stream, data):
        text = self.texts[stream]
        if len(text) <= KEPT_MAX:
            text += data if len(text) + len(data) <= KEPT_MAX else (
                data[:KEPT_MAX - len(text)] + CUT)

    def listen(self):
        """Read lines of the agent until the command has ended."""
        try:
            while self.result is None:
                self.handle_line(self.session.line())
        except OSError:
            pass
        finally:
            self.session.broken |= self.result is None
            self.guest.give_session(self.session)
            self.started.set()
            self.ended.set()

    def handle_line(self, words):
        kind = words[0] if words else ""
        if kind == "pid":
            self.pid = number(words)
            self.started.set()
        elif kind in ("out", "err"):
            self.on_output(kind, payload(words))
        elif kind == "exit":
            self.end(number(words))
        elif words == END:
            self.end(KILLED)

    def end(self, code):
        out, err = (self.texts[part].decode("utf-8", "replace")
                    for part in ("out", "err"))
        self.result = Result(self.script, code, out, err)

    def send(self, data):
        """Send DATA to the command's standard input; b"" closes that."""
        if not data:
            self.session.send("in")
        for at in range(0, len(data), INPUT_CHUNK):
            part = data[at:at + INPUT_CHUNK]
            self.session.send("in " + base64.b64encode(part).decode())

    def resize(self, rows, columns):
        self.session.send(f"size {rows} {columns}")

    def kill(self):
        """Kill the command with its process group."""
        if not self.ended.is_set():
            self.session.unsure = True
            with suppress(OSError):     # the machine has ended, or does not read
                self.session.send(" ".join(END), KILL_S)

    def poll(self):
        """The Result if the command has ended, else None."""
        return self.result

    def await_event(self, event, deadline):
        """Wait for EVENT. Raise GuestCrashed if QEMU ends, GuestTimeout at the
        deadline."""
        while not event.wait(ALIVE_S):
            self.guest.vm.assert_alive()
            if deadline and time.monotonic() > deadline:
                raise GuestTimeout(f"time limit exceeded: {self.script}")

    def wait(self):
        """Wait for the end of the command; its Result."""
        self.await_event(self.ended, self.deadline)
        if self.result is None:
            # A QEMU that ends closes its ports a little earlier. Then report
            # its end, which is the cause.
            end = time.monotonic() + ENDS_S
            while time.monotonic() < end:
                self.guest.vm.assert_alive()
                time.sleep(0.1)
            raise GuestCrashed(f"{self.guest.vm.name} has closed its port")
        return self.result


class Guest:
    """Runs commands in a VM. PORTS are the paths of its agent's sockets."""

    def __init__(self, vm, ports):
        self.vm = vm
        self.ports = [Path(port) for port in ports]
        self.idle = []
        self.all = []
        self.lock = threading.Lock()

    def answers(self, timeout):
        """Whether the agent answers within TIMEOUT seconds."""
        if not self.idle:
            self.idle.append(self.new_session())
        try:
            return self.idle[0].hello(timeout)
        except ConnectionError:
            return False

    def new_session(self):
        """A Session at the first free port."""
        used = {session.sock.getpeername() for session in self.all
                if not session.broken}
        for port in self.ports:
            if str(port) in used:
                continue
            try:
                session = Session(port)
            except BlockingIOError:
                continue
            except OSError as error:
                self.vm.assert_alive()
                raise GuestCrashed(f"{self.vm.name}: {error}") from error
            self.all.append(session)
            return session
        raise GuestTimeout(f"{self.vm.name} runs {PORTS} commands already")

    def take_session(self):
        with self.lock:
            session = self.idle.pop() if self.idle else self.new_session()
        if session.unsure and not session.hello(GRACE_S):
            raise GuestTimeout(f"the agent of {self.vm.name} does not answer")
        return session

    def give_session(self, session):
        with self.lock:
            if not session.broken:
                self.idle.append(session)

    def close(self):
        for session in self.all:
            session.close()
        self.all.clear()
        self.idle.clear()

    def start(self, script, timeout=60, **options):
        """Start a shell script and return its Job."""
        argv = ["/bin/bash", "-c", script]
        if timeout:
            timeout *= self.vm.patience
            argv = ["timeout", "-k", "3", str(timeout), *argv]
        return Job(self, script, argv, timeout, **options)

    def run(self, script, timeout=60):
        """Run a shell script and return its Result, whatever the exit code."""
        return self.start(script, timeout).wait()

    def check(self, script, timeout=60):
        """Run a shell script that must succeed and return its output."""
        return self.run(script, timeout).check().out

    def start_steps(self, steps, timeout=SET_UP_S, **options):
        """Start STEPS of the agent, each a name and its words, and return their Job. One
        process carries them out, and starts no program."""
        argv = [*SET_UP, *(str(word) for step in steps for word in step)]
        shown = " ".join([*SET_UP, *(step[0] for step in steps)])
        return Job(self, shown, argv, timeout and timeout * self.vm.patience, **options)

    def set_up(self, *steps, timeout=SET_UP_S):
        """Carry out STEPS to their end. Return their output."""
        return self.start_steps(steps, timeout).wait().check().out

    def write(self, path, text):
        """Write TEXT into the file PATH of the guest."""
        job = self.start(f"cat >{shlex.quote(str(path))}", input=True)
        job.send(text.encode())
        job.send(b"")
        job.wait().check()
