# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that stay: up, exec, shell, console, status, down.

The state of these machines is kept in a folder that belongs to the user. Its
name is short, because the path of a unix socket is limited to 107 bytes.
"""

import fcntl
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import stat
import sys
import termios
import tty
from contextlib import contextmanager, suppress
from pathlib import Path

from . import captures, launch, places, recordings
from .cards import Cards
from .errors import LabError
from .lab import MARK, Lab, Node, open_mark
from .machine import Machine
from .meeting import Meeting
from .net import mac
from .places import escaped
from .qmp import QMPError
from .rdma import Port
from .relay import Relay
from .saved import REMOUNT, require_no_tree, unmount

ESCAPE = b"\x1d"            # Ctrl-]
PAUSE_S = 0.05
WIRE = "wire"               # in place of a machine


def folder():
    """The folder of the sockets and the state of the machines that stay. 'down'
    removes it, so it must contain nothing else."""
    base = (os.environ.get("FAKERNIC_LAB_STATE") or
            os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
    return Path(base).resolve() / f"fakernic-lab-{os.getuid()}"


def state_file():
    return folder() / "lab.json"


# ---- up ----------------------------------------------------------------------

def require_own(path):
    """Raise LabError unless PATH is a folder that only this user can enter. Only
    then is its content trusted."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or (
            found.st_mode & 0o077):
        raise LabError(f"{path} is not a folder that is yours alone: remove "
                       "it, or set FAKERNIC_LAB_STATE to a folder of your own")


def make_folder():
    """Make the folder if it is missing; it must belong to the user alone."""
    path = folder()
    if not places.holds_sockets(path):
        raise LabError(f"the path {path} is too long for the sockets in it: set "
                       "FAKERNIC_LAB_STATE to a folder with a short one")
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error
    require_own(path)
    return path


@contextmanager
def alone(path):
    """Inside the with, no other command of this user can start, save, move or end
    machines."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise LabError("another 'fakernic-lab down' ended the machines: try again"
                       ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LabError("machines are being started, saved, moved or ended by another "
                           "command: wait for it, or end it") from error
        if not path.exists() or not os.path.samestat(os.fstat(handle),
                                                     path.stat()):
            raise LabError("another 'fakernic-lab down' ended the machines: try again")
        yield
    finally:
        os.close(handle)


def up(arguments):
    """Start machines that stay, and return their Nodes."""
    sockets = make_folder()
    with alone(sockets):
        clear(sockets)
        return start(Lab(**arguments, sockets=sockets, stays=True))


def clear(sockets):
    """Remove what ended machines left behind. Raise LabError if one still runs."""
    if not state_file().exists():
        return
    lab = running()
    if any(node.vm.is_running() for node in lab.nodes):
        raise LabError("machines are up already: 'fakernic-lab down' ends them")
    lab.stop()
    for path in sockets.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def start(lab):
    """Launch the lab and wait until it has booted. The state is saved before
    that wait, so that 'down' can end the machines if this process is killed."""
    lab.relaunched = lambda: save(lab, ready=False)
    try:
        lab.launch()
        save(lab, ready=False)
        lab.await_boot()
        save(lab, ready=True)
    except BaseException:
        lab.stop()
        raise
    for node in lab.nodes:
        node.guest.close()
    return lab.nodes


def save(lab, ready):
    write_state(described(lab, ready))


def write_state(state):
    """Replace the file in one step, because other processes read it at any time."""
    new = state_file().with_suffix(".new")
    new.write_text(json.dumps(state, indent=1), encoding="utf-8")
    new.replace(state_file())


def read_state():
    return json.loads(state_file().read_text(encoding="utf-8"))


def described(lab, ready):
    """The state of LAB that another process needs, ready for JSON."""
    return {"environment": lab.environment, "out": str(lab.out), "ready": ready,
            "record": lab.record, "whole": lab.records_are_whole(),
            "on_network": bool(lab.netdev),
            "relay": lab.relay.pid if lab.relay else None,
            "linked": isinstance(lab.relay, Cards), "captured": lab.captured,
            "shell": lab.shell,
            "nodes": [{"name": node.name, "number": number,
                       "directory": str(node.vm.directory), "work": node.work,
                       "stamped": node.vm.console.stamped, **described_process(node.vm),
                       "ibdev": node.port.ibdev if ready else "",
                       "ipv6": ready and 6 in node.port.families,
                       "netdev": node.port.netdev if ready else ""}
                      for number, node in zip(lab.numbers, lab.nodes)]}


def described_process(vm):
    """What is known of the QEMU of a machine."""
    return {"pid": vm.pid, "sockets": vm.sockets.name, "command": vm.command,
            "files": vm.file_names()}


# ---- machines that are up ------------------------------------------------------

class Running:
    """A lab that another process has started, made from its saved state."""

    def __init__(self, state):
        self.environment = state["environment"]
        self.shell = state.get("shell")
        self.out = Path(state["out"])
        self.ready = state["ready"]
        self.record, self.whole = state["record"], state["whole"]
        self.on_network = state.get("on_network", False)
        self.record_files = {
            item["name"]: item.get("records", [recordings.RECORD]) if self.record else []
            for item in state["nodes"]}
        self.nodes, self.meeting = [], None
        self.others = []            # second QEMUs of a 'migrate' that was killed
        for item in state["nodes"]:
            machine = Machine.running(item["name"], item["directory"],
                                      folder() / item.get("sockets", item["name"]),
                                      item["pid"], item["stamped"],
                                      item.get("command", ()))
            node = Node(self, machine)
            self.others += [Machine.running(item["name"], item["directory"],
                                            folder() / sockets, pid)
                            for sockets, pid in item.get("others", ())]
            node.port = Port(machine, item["number"], item["ibdev"],
                             item["netdev"], item.get("ipv6", True))
            node.work = item["work"]
            self.nodes.append(node)
        names = [node.name for node in self.nodes]
        self.relay = (Relay.running(folder(), names, state["relay"])
                      if state["relay"] else
                      Cards(self.nodes) if state.get("linked") else None)
        self.captured = state.get("captured")
        self.numbers = [node.port.number for node in self.nodes]

    def node(self, name):
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise LabError(f"no machine {name}: {names}")

    def stop(self):
        for vm in (*self.others, *(node.vm for node in self.nodes)):
            vm.stop()
        if self.relay:
            self.relay.stop()
        for path in self.records():
            recordings.leave(path)
        if self.captured:
            captures.leave(self.captured, self.capturing())

    def records_are_whole(self):
        return self.whole

    capturing = Lab.capturing
    records = Lab.records

    def records_of(self, name):
        """The record of each QEMU that the machine had, the first one first."""
        return [self.out / name / file for file in self.record_files[name]]
    judge = Lab.judge
    expect = Lab.expect
    traces_missed = Lab.traces_missed
    collect = Lab.collect
    make_timeline = Lab.make_timeline


def running():
    try:
        require_own(folder())
        state = read_state()
    except FileNotFoundError as error:
        raise LabError("no machines are up: 'fakernic-lab up' starts "
                       "some") from error
    return Running(state)


def recorded():
    """The running lab; it must have been started with --timeline."""
    lab = running()
    if not lab.record:
        raise LabError("the machines do not record: start them with "
                       "'fakernic-lab up --timeline'")
    return lab


def healthy():
    """The running lab; every machine of it must run. Kernel complaints that are
    on a console by now are ignored from here on."""
    lab = running()
    if not lab.ready:
        raise LabError("the machines are not up yet; if their 'fakernic-lab "
                       "up' was killed, 'fakernic-lab down' ends them")
    for node in lab.nodes:
        if not node.vm.is_running():
            raise LabError(f"{node.name} has ended: see {node.vm.console.path}; "
                           "'fakernic-lab down' ends the others")
        node.vm.console.forget()
    return lab


@contextmanager
def exclusively():
    """The running lab. Inside the with, no other command can save or move its machines."""
    running()                   # or an error that says that no machines are up
    with alone(folder()):
        yield healthy()


def execute(options):
    """exec: run a command in one machine, or in all."""
    from .cli import show_verdict, split_commands, spread
    lab = healthy()
    commands = split_commands(options.command)
    nodes = lab.nodes if options.node == "all" else [lab.node(options.node)]
    ready = "now" if len(commands) == 1 else "auto"
    lab.expect(options.expect)
    lab.meeting = Meeting(nodes)
    verdict, _ = launch.run_all(lab, spread(commands, len(nodes)),
                                options.timeout, ready, nodes=nodes)
    verdict = launch.without_misses(verdict, (launch.NO_TRACE, lab.traces_missed()))
    lab.meeting.end()
    show_verdict(verdict)
    return verdict.code


@contextmanager
def raw_terminal():
    """Inside the with, the terminal passes every key on unchanged."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def shell(options):
    """shell: run a login shell of a machine in this terminal."""
    lab = healthy()
    node = lab.node(options.node)
    size = shutil.get_terminal_size()
    terminal = shlex.quote(os.environ.get("TERM", "dumb"))
    job = node.start(f"export TERM={terminal}\n"
                     f"exec {lab.shell or '/bin/bash'} -l", timeout=None,
                     terminal=(size.lines, size.columns),
                     on_output=lambda _, data: os.write(1, data))
    signal.signal(signal.SIGWINCH, lambda *_: job.resize(
        *reversed(shutil.get_terminal_size())))
    with raw_terminal():
        type_into(job)
    return job.wait().code


def type_into(job):
    """Send the standard input to JOB until the command ends. At the end of the
    input, only wait for the command."""
    typing = True
    while not job.ended.wait(0 if typing else PAUSE_S):
        if typing and select.select([0], [], [], PAUSE_S)[0]:
            data = os.read(0, 4096)
            job.send(data)
            typing = bool(data)


def console(options):
    """console: connect the terminal to a serial console, until Ctrl-]."""
    node = healthy().node(options.node)
    with open(node.vm.sockets / "console.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LabError("this console is in use already") from error
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(node.vm.sockets / "console"))
        print(f"the console of {node.name}; Ctrl-] ends\n"
              f"{node.vm.console.tail(10)}", end="", flush=True)
        with raw_terminal():
            talk(line)
    return 0


def talk(line):
    """Copy between the terminal and a socket until either ends."""
    while True:
        ready = select.select([0, line], [], [])[0]
        if line in ready:
            data = line.recv(65536)
            if not data:
                return
            os.write(1, data)
        if 0 in ready:
            data = os.read(0, 4096)
            if not data or ESCAPE in data:
                return
            line.sendall(data)


def wire_faults(lab, rules):
    """Add fault rules to ends of the wire. Return all their rules, one a line."""
    if not lab.relay:
        raise LabError("no wire connects these machines: for fault rules of a wire, "
                       "start them with --pcap or --loss")
    for rule in rules:
        node, colon, words = rule.rpartition(":")
        lab.relay.add_rules(words, *([node.strip()] if colon else []))
    return "".join(f"{way}: {words}\n" for way, words in lab.relay.words()
                   if words.startswith("id="))


def fault(options):
    """fault: add rules to a device or the wire, and print how often each was hit."""
    lab = running()
    if options.node == WIRE:
        print(wire_faults(lab, options.rule), end="")
        # The relay loses frames without an event in any record.
        if options.rule and lab.relay.pid:
            write_state({**read_state(), "whole": False})
        return 0
    node = lab.node(options.node)
    try:
        print(node.faults("; ".join(options.rule)), end="")
    except QMPError as error:
        raise LabError(str(error)) from error
    return 0


def require_movable(lab):
    """Raises LabError if machines cannot migrate, because of their connection or of the
    files that their QEMUs write."""
    if lab.captured:
        raise LabError("a capture of a card ends with its QEMU: start the machines "
                       "without --pcap")
    if not lab.relay:
        raise LabError("a machine can migrate only if shared memory or a wire connects "
                       "it: start the machines with --link shared, or at least two with "
                       "--pcap FILE")
    if any(node.vm.console.stamped for node in lab.nodes):
        raise LabError("two QEMUs cannot have the disk of an --image")
    require_no_tree(lab)


def next_record(lab, node):
    """Gives the next QEMU of a machine a record of its own. Returns the names of all of
    them."""
    files = lab.record_files[node.name]
    if not files:
        return files
    new = f"{recordings.RECORD}.{len(files) + 1}"
    before, after = (escaped(lab.out / node.name / name) for name in (files[-1], new))
    recordings.prepare([lab.out / node.name / new])
    known = re.compile(f"x-record={re.escape(before)}(?=,|$)")
    node.vm.command = [known.sub(lambda _: f"x-record={after}", word)
                       for word in node.vm.command]
    return [*files, new]


def migrate(options):
    """migrate: move a running machine to another QEMU."""
    with exclusively() as lab, open(lab.out / MARK, "rb", opener=open_mark) as mark:
        node = lab.node(options.node)
        require_movable(lab)
        state = read_state()
        item, = (item for item in state["nodes"] if item["name"] == node.name)
        for vm in lab.others:
            vm.stop()
        unmount([node])

        def note(moved):
            """Saves both QEMUs of the machine, so that 'down' ends them if this process is
            killed."""
            found = described_process(node.vm)
            other = item if moved else found
            item["others"] = [(other["sockets"], other["pid"])]
            if moved:
                item.update(found, records=files)
                # Frames that came while it stood still are not in its records.
                state["whole"] = False
            write_state(state)
        try:
            node.vm.reopen(item["files"])
            node.vm.keeps = [mark]
            files = next_record(lab, node)
            took = node.vm.move(note)
            # The QEMUs that "up" started hold the lock until the last of them ends.
            with suppress(BlockingIOError):
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            item.pop("others", None)
            write_state(state)
            node.guest.check(REMOUNT)
    node.vm.close_monitor()
    print(f"{node.name} stood still for {took} ms")
    return 0


def status(_options):
    for node in running().nodes:
        print(f"{node.name}  {'up' if node.vm.is_running() else 'gone'}  "
              f"{node.port.ip4}  {node.port.ibdev}  {node.port.netdev}")
    return 0


def down(_options=None):
    """down: collect the results of the machines, then end them."""
    from .cli import report_timeline
    running()                   # or an error that says that no machines are up
    with alone(folder()):
        lab = running()
        try:
            if lab.ready:
                lab.collect()
                report_timeline(lab)
        finally:
            lab.stop()
            shutil.rmtree(folder(), ignore_errors=True)
    return 0
