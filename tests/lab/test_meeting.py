# SPDX-License-Identifier: GPL-2.0-or-later
"""fakernic-wait, with local shells in the role of machines, each with a listener: a shell,
or the agent."""

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from fakernic_lab import meeting, places

READ_S = 60


class ShellJob:
    """A local command with the methods of a guest's Job."""

    def __init__(self, argv, on_output):
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.on_output = on_output
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while data := self.process.stdout.read1(4096):
            self.on_output("out", data)

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def await_event(self, event, _deadline):
        assert event.wait(READ_S)

    def kill(self):
        os.killpg(self.process.pid, 9)
        self.process.wait()


class Machine:
    """Runs fakernic-wait, with its meeting's folder. OWN: replaces that folder."""

    def __init__(self, name="node1", own=None):
        self.name = name
        self.own = own
        self.guest = SimpleNamespace(start=self.start, start_steps=self.start_steps)
        self.folder = self.job = None

    def start(self, script, timeout, on_output, input):
        assert timeout is None and input
        folder = script.partition("mkdir -p ")[2].split()[0]
        self.folder = self.own or folder
        self.job = ShellJob(["bash", "-c", script.replace(folder, self.folder)], on_output)
        return self.job

    def start_steps(self, steps, timeout, on_output, input):
        assert timeout is None and input
        ((step, folder),) = steps
        self.folder = self.own or folder
        self.job = ShellJob([places.tool("fakernic-lab-agent"), "set-up", step, self.folder],
                            on_output)
        return self.job

    def wait(self, *words, folder=None):
        return subprocess.Popen(
            ["bash", "-c", meeting.SCRIPT, "fakernic-wait", *words],
            env={**os.environ, "FAKERNIC_NODES": "node1 node2 node3",
                 meeting.VARIABLE: folder or self.folder})


@pytest.fixture(name="three", params=("shell", "agent"))
def three_machines(tmp_path, request):
    """A meeting of three machines, each with its own folder."""
    machines = [Machine(f"node{number}", str(tmp_path / str(number)))
                for number in range(1, 4)]
    held = meeting.Meeting(machines, request.param == "agent")
    held.listeners.sort(key=lambda one: machines.index(one.node))
    yield held, machines
    held.end()


def codes(processes):
    return [process.wait(READ_S) for process in processes]


def test_all_continue_when_all_have_called(three):
    _, machines = three
    first = [machine.wait("ready") for machine in machines[:2]]
    other = machines[2].wait("-t", "1", "other")
    assert other.wait(READ_S) == 124
    assert [process.poll() for process in first] == [None, None]
    assert codes([*first, machines[2].wait("ready")]) == [0, 0, 0]


def test_name_can_be_reused(three):
    """One machine is a call ahead of the others."""
    _, (one, two, three_) = three
    for _ in range(3):
        assert codes([one.wait("again"), two.wait("again"),
                      three_.wait("again")]) == [0, 0, 0]


def test_some_machines_wait_without_the_others(three):
    """A call that names machines meets only calls that name the same."""
    _, (one, two, three_) = three
    other = three_.wait("ready")
    assert codes([one.wait("ready", "node2"), two.wait("ready", "node1", "node2")]) == [0, 0]
    assert one.wait("-t", "1", "ready", "node3").wait(READ_S) == 124
    assert other.poll() is None
    assert codes([other, one.wait("ready"), two.wait("ready")]) == [0, 0, 0]
    assert one.wait("alone", "node1").wait(READ_S) == 0


def test_timed_out_call_is_not_counted(three, capfd):
    _, (one, two, three_) = three
    assert one.wait("-t", "1", "late").wait(READ_S) == 124
    assert "not all machines have called 'late' within 1 s" in capfd.readouterr().err
    others = [two.wait("late"), three_.wait("-t", "2", "late")]
    assert others[1].wait(READ_S) == 124
    assert others[0].poll() is None
    assert codes([one.wait("late"), others[0], three_.wait("late")]) == [0, 0, 0]


def test_call_that_releases_others_does_not_time_out(three):
    """The last machine calls after another call has timed out, but before the launcher
    reads its withdrawal."""
    held, (one, two, three_) = three
    others = [two.wait("late"), three_.wait("-t", "2", "late")]
    deadline = time.monotonic() + READ_S
    while sum(listener.waiting() for listener in held.listeners) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(three_.job.process.pid, signal.SIGSTOP)
    time.sleep(3)
    last = one.wait("late")
    assert codes([last, others[0]]) == [0, 0]
    os.killpg(three_.job.process.pid, signal.SIGCONT)
    assert others[1].wait(READ_S) == 0


@pytest.mark.parametrize("words, folder, code", (
    ((), None, 2), (("a", "b"), None, 2), (("a", "node1", "node4"), None, 2), (("-",), None, 2), (("a b",), None, 2),
    (("-t", "x", "a"), None, 2), (("a",), "/nosuch", 125),
    (("a",), meeting.ALONE, 0)), ids=str)
def test_calls_without_wait(words, folder, code, capfd):
    assert Machine().wait(*words, folder=folder or "/nosuch").wait(READ_S) == code
    assert capfd.readouterr().err.count("\n") == (code != 0)


def test_one_machine_does_not_wait():
    held = meeting.Meeting([Machine()])
    assert held.folder == meeting.ALONE
    held.end()


def test_meeting_leaves_no_threads(three):
    held, machines = three
    before = threading.active_count()
    held.end(machines_stay=False)
    for machine in machines:
        os.killpg(machine.job.process.pid, 9)
    deadline = time.monotonic() + READ_S
    while threading.active_count() > before - 6:    # readers and writers
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_memory_of_hostile_machine_is_bounded(three):
    """The limits hold, and the machines still meet."""
    held, machines = three
    listener = held.listeners[0]
    listener.take("out", b"x" * (1 << 20))
    listener.take("out", b"\n")
    for number in range(10 * meeting.CALLS_MAX):
        listener.take("out", f"n{number} 1.{number}\n../../etc {number}\n"
                      f"- 2.{number}\n\xff\n".encode("latin-1"))
    assert len(listener.line) <= meeting.LINE_MAX
    assert listener.waiting() == meeting.CALLS_MAX == len(listener.calls)
    listener.calls.clear()
    assert codes([machine.wait("end") for machine in machines]) == [0, 0, 0]


def test_full_pipe_blocks_no_other_call(three):
    """A program has filled the pipe to which the answer of a call goes."""
    held, machines = three
    path = f"{machines[0].folder}/1.1"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    held.listeners[0].job.send(b"1.1 called\n")
    assert codes([machine.wait("end") for machine in machines]) == [0, 0, 0]
    os.close(pipe)


def test_machine_that_does_not_read_blocks_no_other(three):
    held, machines = three
    release = threading.Event()
    held.listeners[0].job.send = lambda _: release.wait(READ_S)
    begin = time.monotonic()
    calls = [machine.wait("end") for machine in machines]
    assert codes(calls[1:]) == [0, 0] and time.monotonic() - begin < READ_S
    threads = threading.active_count()
    for _ in range(10 * meeting.CALLS_MAX):
        for listener in held.listeners:
            held.called(listener, b"again", b"1.1")
    assert threading.active_count() == threads
    release.set()
    calls[0].kill()
    calls[0].wait()
