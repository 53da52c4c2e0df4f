# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands inside a guest, through its guest agent.

A command is a shell script. run() waits for it and returns its output and
exit code; start() returns a Job, so that a server in one guest and a client
in another run side by side. `timeout` inside the guest ends what outlives
its limit, and the host gives up a little later: no command outlives its test.
"""

import base64
import json
import socket
import threading
import time

# How much longer than the guest's own time limit the host waits.
GRACE_S = 20
SEND_TIMEOUT_S = 30
POLL_FIRST_S = 0.01
POLL_LAST_S = 0.2


class CommandFailed(Exception):
    """A command ended with an exit code that its caller did not expect."""


class GuestTimeout(Exception):
    """The guest did not answer within a time limit."""


class AgentError(Exception):
    """The guest agent refused a request."""


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
        return self.code in (124, 137)

    def check(self):
        """Itself, or CommandFailed with everything it printed."""
        if not self.ok:
            raise CommandFailed(str(self))
        return self

    def __str__(self):
        reason = "time limit" if self.timed_out else f"exit code {self.code}"
        return (f"$ {self.script.strip()}\n{self.out}{self.err}"
                f"[{reason}]")

    __repr__ = __str__      # so that a failed assertion shows it


class Agent:
    """The protocol of the guest agent on its unix socket."""

    def __init__(self, path):
        self.path = path
        self.sock = None
        self.buffer = b""
        self.lock = threading.RLock()
        self.serial = 0

    def close(self):
        if self.sock:
            self.sock.close()
            self.sock = None

    def _send(self, data, delimiter=b""):
        self.sock.settimeout(SEND_TIMEOUT_S)
        self.sock.sendall(delimiter + json.dumps(data).encode() + b"\n")

    def _receive(self, deadline):
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise GuestTimeout("the guest agent does not answer")
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(65536)
            except TimeoutError as error:
                raise GuestTimeout("the guest agent does not answer") from error
            if not data:
                raise GuestTimeout("the guest agent's port was closed")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.rpartition(b"\xff")[2]

    def open(self):
        """Connect to QEMU's end of the port, once: the agent in the guest
        takes a connection that comes and goes badly."""
        self.close()
        self.buffer = b""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))

    def synchronise(self, timeout):
        """Whether the agent answers a synchronisation request in time."""
        deadline = time.monotonic() + timeout
        with self.lock:
            self.serial += 1
            self._send({"execute": "guest-sync-delimited",
                        "arguments": {"id": self.serial}}, b"\xff")
            try:
                while True:
                    try:
                        answer = json.loads(self._receive(deadline))
                    except ValueError:
                        continue
                    if answer.get("return") == self.serial:
                        return True
            except GuestTimeout:
                return False

    def call(self, command, timeout=30, **arguments):
        with self.lock:
            self._send({"execute": command, "arguments": arguments})
            answer = json.loads(self._receive(time.monotonic() + timeout))
        if "error" in answer:
            raise AgentError(f"{command}: {answer['error'].get('desc')}")
        return answer["return"]


class Job:
    """A command that runs in a guest."""

    def __init__(self, guest, script, timeout):
        self.guest = guest
        self.script = script
        self.deadline = time.monotonic() + timeout + GRACE_S
        wrapped = ["-k", "3", str(timeout), "/bin/bash", "-c", script]
        self.pid = guest.agent.call("guest-exec", path="/usr/bin/timeout",
                                    arg=wrapped, **{"capture-output": True})["pid"]
        self.result = None

    def poll(self):
        """The Result if the command has ended, else None."""
        if self.result is None:
            status = self.guest.agent.call("guest-exec-status", pid=self.pid)
            if status["exited"]:
                out, err = (base64.b64decode(status.get(part, "")).decode(
                    "utf-8", "replace") for part in ("out-data", "err-data"))
                code = status.get("exitcode", 128 + status.get("signal", 0))
                self.result = Result(self.script, code, out, err)
        return self.result

    def wait(self):
        """The Result; raises when the guest crashed or stopped answering."""
        pause = POLL_FIRST_S
        while self.poll() is None:
            self.guest.vm.assert_alive()
            if time.monotonic() > self.deadline:
                raise GuestTimeout(f"no end within its time limit: {self.script}")
            time.sleep(pause)
            pause = min(POLL_LAST_S, pause * 1.5)
        return self.result


class Guest:
    """The inside of a VM."""

    def __init__(self, vm, agent_path):
        self.vm = vm
        self.agent = Agent(agent_path)

    def start(self, script, timeout=60):
        """Start a shell script; its Job."""
        return Job(self, script, timeout)

    def run(self, script, timeout=60):
        """Run a shell script to its end; its Result, whatever its exit code."""
        return self.start(script, timeout).wait()

    def check(self, script, timeout=60):
        """Run a shell script that must succeed; its standard output."""
        return self.run(script, timeout).check().out

    def write(self, path, text):
        """Put a small file into the guest."""
        encoded = base64.b64encode(text.encode()).decode()
        self.check(f"echo {encoded} | base64 -d >{path}")
