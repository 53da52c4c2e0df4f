# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs many short client/server pairs between two guests, one after the other.

pairs_runner.py server ADDRESS PORT PATIENCE <JOBS in one guest and
pairs_runner.py client ADDRESS PORT PATIENCE <JOBS in the other synchronize over
one TCP connection: the client's program starts when the server's listens.
PATIENCE multiplies the time limits. JOBS has a line of JSON per
pair, [NAME, COMMAND LINE, LISTEN], LISTEN being the server's TCP port or "cm"
for an rdma_cm listener; only the server looks at it. Each side prints a line
of JSON per pair: name, code (null: did not end in time), output, seconds.
Starting every program by itself through the guest agent costs more than the
programs do.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

PAIR_LIMIT_S = 60
START_LIMIT_S = 30
LISTENING = "0A"        # of /proc/net/tcp


def listens_tcp(port):
    """Returns whether a TCP socket of this guest listens on PORT."""
    for family in ("tcp", "tcp6"):
        with open(f"/proc/net/{family}", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if (words[3] == LISTENING and
                        int(words[1].rpartition(":")[2], 16) == port):
                    return True
    return False


def listens_cm(session):
    """Returns whether a program of this session listens; others may, too."""
    text = subprocess.run(["rdma", "resource", "show", "cm_id"], text=True,
                          capture_output=True, check=False).stdout
    for pid in re.findall(r"state LISTEN .*\bpid (\d+)", text):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(pid)) == session:
                return True
    return False


class Program:
    """One side of a pair: started, awaited, and ended if it must be."""

    def __init__(self, name, command):
        self.name = name
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", command], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True)

    def wait_listening(self, listen, limit):
        """True once it listens, False when it ended or after LIMIT seconds."""
        while time.monotonic() < self.start + limit:
            if (listens_cm(self.process.pid) if listen == "cm" else
                    listens_tcp(listen)):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        return False

    def finish(self, limit):
        """Print its line; what still runs after LIMIT seconds is killed."""
        code = None
        try:
            output, _ = self.process.communicate(timeout=limit)
            code = self.process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            output, _ = self.process.communicate()
        print(json.dumps({
            "name": self.name, "code": code, "output": output,
            "seconds": round(time.monotonic() - self.start, 2)}), flush=True)
        return code


def serve(wire, patience, name, command, listen):
    program = Program(name, command)
    ready = program.wait_listening(listen, patience * START_LIMIT_S)
    wire.write("go\n" if ready else "no\n")
    wire.flush()
    if not ready:
        program.finish(1)
        return
    # After the client has ended the server needs little time. If the client
    # failed, the server may wait without limit.
    code = int(wire.readline())
    program.finish(patience * (PAIR_LIMIT_S if code == 0 else 2))


def ask(wire, patience, name, command, _):
    if wire.readline() != "go\n":
        return
    code = Program(name, command).finish(patience * PAIR_LIMIT_S)
    wire.write(f"{255 if code is None else code}\n")
    wire.flush()


def connect(role, address, port):
    if role == "server":
        with socket.create_server((address, port)) as listener:
            listener.settimeout(60)
            return listener.accept()[0]
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((address, port), 5)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main():
    role, address, port, patience = sys.argv[1:]
    patience = int(patience)
    jobs = [json.loads(line) for line in sys.stdin]
    with connect(role, address, int(port)) as sock:
        sock.settimeout(2 * patience * PAIR_LIMIT_S)
        wire = sock.makefile("rw", encoding="ascii")
        for job in jobs:
            (serve if role == "server" else ask)(wire, patience, *job)


main()
