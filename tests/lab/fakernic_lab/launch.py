# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs commands in the machines of a lab, prints their output as it comes, and judges
how they end.
"""

import os
import shlex
import sys
import threading
import time

from .errors import GuestCrashed, GuestTimeout, LabError, reason
from .outputs import FILE_MAX, printable
from .qmp import QMPError

WATCH_S = 0.2
# Time for the other commands to notice that one has failed.
AFTER_FAILURE_S = 10
# Time limit for the status of a QEMU, which may hang itself.
LOOK_S = 5
# The first command has this long to listen; see wait_until_ready().
READY_S = 5
CODE_TIMEOUT = 124
CODE_LOST = 120
CODE_MISSED = 1
# A report quotes at most this many bytes of the end of an output.
END_MAX = 100000

# Prints a line per listening TCP socket, and per rdma_cm id that listens.
LISTENERS = """
listeners() {
    awk '$4 == "0A" { print $2 }' /proc/net/tcp /proc/net/tcp6
    rdma resource show cm_id 2>/dev/null | grep LISTEN
}
"""


PRINTING = threading.Lock()


def print_to(name, text):
    """Print and flush. When the reader has left, later output is discarded."""
    file = getattr(sys, name)
    try:
        file.write(text)
        file.flush()
    except BrokenPipeError:
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


class Run:
    """One command in one machine, and what it has printed."""

    def __init__(self, node, command, terminal=None):
        self.node = node
        self.command = command
        self.terminal = terminal
        self.job = None
        self.code = None
        self.skipped = False
        self.begin = self.seconds = 0
        self.partial = {"out": b"", "err": b""}
        self.output = node.vm.folder.create("output")
        self.kept = 0               # bytes in that file
        self.end = b""              # the end of the output
        self.refused = None         # the error of writing to that file
        self.writing = threading.Lock()

    def start(self):
        self.begin = time.monotonic()
        self.job = self.node.start(self.command, timeout=None,
                                   on_output=self.take, terminal=self.terminal)

    def take(self, stream, data):
        with self.writing:
            if self.output.closed:
                return
            self.keep(data)
        lines = (self.partial[stream] + data).split(b"\n")
        self.partial[stream] = lines.pop()
        if len(self.partial[stream]) > 65536:
            lines.append(self.partial[stream])
            self.partial[stream] = b""
        self.show(stream, lines)

    def keep(self, data):
        """Writes DATA to the file, up to its size limit, and keeps the end in memory,
        because the file is not read again."""
        self.end = (self.end + data)[-END_MAX:]
        data = data[:FILE_MAX - self.kept]
        self.kept += len(data)
        try:
            while data and not self.refused:
                data = data[self.output.write(data):]
        except OSError as error:
            self.refused = f"{self.node.vm.folder.path / 'output'}: {reason(error)}"

    def show(self, stream, lines):
        text = "".join(f"{self.node.name}: "
                       f"{printable(line.decode('utf-8', 'replace').rstrip())}\n"
                       for line in lines)
        with PRINTING:
            print_to("stderr" if stream == "err" else "stdout", text)

    def poll(self):
        """Whether the command has ended. Raises an exception if the machine is lost or the
        output cannot be written."""
        ended = self.code is None and self.job and self.job.ended.is_set()
        if self.refused:
            raise LabError(self.refused)
        if ended:
            crashed = (self.job.poll() is None and
                       self.node.vm.crashed_as_expected())
            self.finish(0 if crashed else self.job.wait().code)
        return self.code is not None

    def finish(self, code):
        self.code = code
        self.seconds = time.monotonic() - self.begin if self.begin else 0
        for stream, rest in self.partial.items():
            if rest:
                self.show(stream, [rest])
        with self.writing:
            self.output.close()

    def skip(self):
        """Does not run the command, because the first command has failed."""
        self.skipped = True
        self.finish(0)

    def text(self):
        """The end of the output."""
        return self.end.decode("utf-8", "replace")


class Verdict:
    """The result of a run: its exit code and, if that is not 0, one line with the reason."""

    def __init__(self, code, reason="", detail=""):
        self.code = code
        self.reason = reason
        self.detail = detail


def readiness(node, how):
    """A shell script that ends when the server, which is not yet started, is ready. HOW is
    "auto" (something listens), a TCP port, "cm" (an rdma_cm id listens) or a shell
    command that succeeds when the server is ready. None for "now": do not wait."""
    if how == "now":
        return None
    test = how
    if how == "auto":
        before = node.guest.run(f"{LISTENERS}listeners").out.rstrip()
        test = f'[ "$(listeners)" != {shlex.quote(before)} ]'
    elif how == "cm":
        test = "rdma resource show cm_id | grep -q LISTEN"
    elif how.isdigit():
        test = f"ss -Hltn 'sport = :{how}' | grep -q ."
    return f"{LISTENERS}until {test}; do sleep 0.1; done"


def wait_until_ready(lab, run, script, limit):
    """Waits until the script or the command has ended, or the time is over."""
    waiting = run.node.guest.start(script, max(1, int(limit)))
    while not run.poll() and waiting.poll() is None:
        lab.judge()
        time.sleep(WATCH_S / 4)
    waiting.kill()


def first_failure(runs):
    failed = [run for run in runs if run.code]
    return min(failed, key=lambda run: run.begin + run.seconds, default=None)


def watch(lab, runs, deadline, limit, last=None):
    """Waits until all commands have ended, or the LAST, or, without that, for
    AFTER_FAILURE_S after one has failed."""
    while not all([run.poll() for run in runs]):
        if last and last.poll():
            break
        lab.judge()
        if time.monotonic() > deadline:
            raise GuestTimeout(f"not done after {limit} s")
        failed = first_failure(runs) if not last else None
        if failed and time.monotonic() > (failed.begin + failed.seconds +
                                          AFTER_FAILURE_S):
            break
        time.sleep(WATCH_S)


def end(runs, code):
    """Ends the commands that still run."""
    for run in runs:
        if run.code is None:
            if run.job:
                run.job.kill()
            run.finish(code)


def start_all(lab, runs, deadline, ready, last=None):
    """Starts the servers, and the others when these are ready. If a server has failed,
    the others are skipped. The first command is the server, or with LAST all others."""
    servers = [run for run in runs if run is not last] if last else runs[:1]
    others = [run for run in runs if run not in servers]
    scripts = [readiness(run.node, ready) if others else None for run in servers]
    for run in servers:
        run.start()
    until = min(deadline, time.monotonic() + READY_S) if ready == "auto" else deadline
    for run, script in zip(servers, scripts):
        if script:
            wait_until_ready(lab, run, script, until - time.monotonic())
    for run in others:
        if first_failure([one for one in servers if one.poll()]):
            run.skip()
        else:
            run.start()


def paused(machine):
    """One line with the reason why a machine is paused; empty if it runs."""
    try:
        status = machine.status(LOOK_S)
    except TimeoutError:
        return (f"{machine.name}: QEMU does not report the status: it is stopped, or "
                "another program uses its monitor\n")
    except (OSError, QMPError):
        return ""
    if status == "running":
        return ""
    hint = {"io-error": ": its disk cannot be written to, perhaps because "
            "$TMPDIR is full"}.get(status, "")
    return f"{machine.name} does not run (status: {status}){hint}\n"


def late_verdict(late, reason):
    """The Verdict if commands in these machines took too long."""
    names = " and ".join(node.name for node in late)
    detail = "".join(f"the end of {node.name}'s console:\n"
                     f"{node.vm.console.tail(10)}{paused(node.vm)}"
                     for node in late)
    return Verdict(CODE_TIMEOUT, f"{names} {reason}", detail)


def without_misses(verdict, *misses):
    """The verdict. If it is good and something expected did not come, a failure instead.
    MISSES are pairs of a reason and the list of what did not come."""
    for reason, missed in misses:
        if missed and not verdict.code:
            return Verdict(CODE_MISSED, f"{reason}: {missed[0]}")
    return verdict


NO_TRACE = "the kernel printed no trace of --expect"


def run_all(lab, commands, timeout, ready="auto", terminal=False, nodes=None,
            until=None):
    """Runs one command in each machine, or in each of NODES. Returns the Verdict and the
    Runs. UNTIL names the machine whose command ends the run, with its exit code."""
    deadline = time.monotonic() + timeout
    runs = [Run(node, command, (24, 80) if terminal else None)
            for node, command in zip(nodes or lab.nodes, commands)]
    last = next((run for run in runs if run.node.name == until), None)
    try:
        lab.judge()
        start_all(lab, runs, deadline, ready, last)
        watch(lab, runs, deadline, timeout, last)
        failed = first_failure([last] if last and not last.skipped else runs)
        end(runs, 0 if last else CODE_TIMEOUT)
        lab.judge()
    except GuestCrashed as error:
        end(runs, CODE_LOST)
        reason, _, detail = str(error).partition("\n")
        return Verdict(CODE_LOST, reason, detail), runs
    except GuestTimeout as error:
        late = [run.node for run in ([last] if last else runs) if run.code is None]
        end(runs, CODE_TIMEOUT)
        return late_verdict(late, str(error)), runs
    except LabError:
        end(runs, CODE_LOST)
        raise
    if failed:
        return Verdict(failed.code, ", ".join(
            f"{run.node.name} ended with {run.code}" for run in
            [failed, *(run for run in runs if last and run.code and
                       run is not failed)])), runs
    return Verdict(0), runs
