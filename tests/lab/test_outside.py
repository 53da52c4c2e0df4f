# SPDX-License-Identifier: GPL-2.0-or-later
"""The launcher in unusual environments: full disks, long or odd names, users without a
home, too little memory, images without parts. No machine is booted.
"""

import ast
import errno
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from command import COMMAND, environment, fakernic_lab
from fakernic_lab import (
    cli, doctor, guest, lab, launch, net, outputs, places, pytest_plugin, rdma, stay,
    waiting)
from fakernic_lab.errors import CommandFailed, GuestCrashed, LabError
from fakernic_lab.images import DiskImage
from fakernic_lab.machine import Machine, Mount, Nic
from fakernic_lab.qmp import TIMEOUT_S, QMPError
from fakernic_lab.versions import OLD_KERNEL

CANNOT = 125
LOST = 120
NOBODY_KNOWN = 54321
READ_S = 60
RELEASE_S = 20


# ---- disks and folders -------------------------------------------------------

def node(folder):
    """A replacement for a Node, with the parts that a command needs."""
    return SimpleNamespace(name="node1", vm=Machine.running(
        "node1", folder, folder, 0))


@pytest.fixture(name="full")
def full_disk(monkeypatch):
    """Make every write to a file of a folder fail."""
    monkeypatch.setattr(outputs.Folder, "create", lambda *_: open(
        "/dev/full", "wb", buffering=0))


@pytest.mark.usefixtures("full")
def test_unwritable_output_is_reported(tmp_path, capsys):
    """The output is still shown, and the reason does not blame the machine."""
    run = launch.Run(node(tmp_path), "command")
    run.take("out", b"first\n")
    run.take("out", b"second\n")
    assert capsys.readouterr().out == "node1: first\nnode1: second\n"
    with pytest.raises(LabError, match="/output: No space left on device: free some space"):
        run.poll()
    run.finish(LOST)


@pytest.mark.usefixtures("full")
def test_a_run_on_a_full_disk_ends_its_commands(tmp_path):
    """The verdict has the real reason, not the loss of a machine."""
    killed = []
    one = node(tmp_path)

    def start(*_, on_output, **__):
        on_output("out", b"a\n")
        return SimpleNamespace(kill=lambda: killed.append(one),
                               ended=threading.Event())
    one.start = start
    fake = SimpleNamespace(nodes=[one], judge=lambda: None)
    with pytest.raises(LabError, match="No space left on device"):
        launch.run_all(fake, ["yes"], 10)
    assert killed == [one]


@pytest.mark.usefixtures("full")
def test_full_disk_is_reported_with_file_name(tmp_path):
    with pytest.raises(LabError, match="/dmesg: No space left on device: free some space"):
        outputs.Folder(tmp_path).write("dmesg", "text")


def test_down_ends_machines_despite_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    stay.make_folder()
    ended = []

    def collect():
        raise LabError("full")
    monkeypatch.setattr(stay, "running", lambda: SimpleNamespace(
        ready=True, collect=collect, stop=lambda: ended.append(1)))
    with pytest.raises(LabError, match="full"):
        stay.down()
    assert ended == [1] and not stay.folder().exists()


def test_sockets_have_short_names_in_long_tmpdir(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 20)
    long.mkdir()
    for parent, kept in ((long, False), (tmp_path, True)):
        monkeypatch.setattr("tempfile.tempdir", str(parent))
        folder = places.socket_folder()
        assert (folder.parent == parent) == kept and folder.is_dir()
        folder.rmdir()
    assert not list(long.iterdir())


def test_a_state_folder_with_a_long_name(tmp_path):
    result = fakernic_lab(tmp_path, "up",
                          FAKERNIC_LAB_STATE=str(tmp_path / ("long" * 20)))
    assert result.returncode == CANNOT, result
    assert "set FAKERNIC_LAB_STATE to a folder with a short" in result.stderr


def test_commas_in_names_reach_qemu_doubled(tmp_path, monkeypatch):
    """QEMU separates its options by commas, so they must be doubled."""
    monkeypatch.setattr("fakernic_lab.images.write_tools", Path.touch)
    folder = tmp_path / "a, b"
    folder.mkdir()
    doubled = str(tmp_path / "a,, b")
    for wire in ("netdev", "link"):
        (netdev, *_), _ = net.wires(folder, ("node1", "node2"), wire=wire)
        machine = Machine("node1", folder / "out", [Nic("fakernic", netdev)],
                          DiskImage("/dev/null"), qemu=["qemu"], sockets=folder,
                          mounts=[Mount(folder, "/work")])
        named = [word for word in machine.command if str(tmp_path) in word]
        assert len(named) > 4
        assert not [word for word in named if doubled not in word]


def test_a_bundle_is_recognized_and_checked(tmp_path):
    """Each missing or short file of a bundle is reported with what to do."""
    package = tmp_path / "lib/fakernic_lab"
    package.mkdir(parents=True)
    assert places.bundle_of(package) is None
    (tmp_path / places.LIST).write_text("3 lib/a file\n")
    assert places.bundle_of(package) == tmp_path
    for text, words in (None, "is missing"), ("ab", "has 2 of 3 bytes"):
        if text:
            (tmp_path / "lib/a file").write_text(text)
        with pytest.raises(LabError, match=f"lib/a file {words}.*unpack it again"):
            places.require_whole(tmp_path)
    (tmp_path / "lib/a file").write_text("abc")
    places.require_whole(tmp_path)


def test_results_of_a_read_only_folder(tmp_path, monkeypatch, capsys):
    """Results go to a folder in $TMPDIR, unless --out names one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    for out in "other", lab.OUT:
        options = SimpleNamespace(out=out)
        cli.place_results(options, lab.OUT)
        assert (options.out == out) == (out == "other")
    assert options.out.startswith(str(tmp_path / lab.OUT))
    assert options.out in capsys.readouterr().err


def test_no_folder_for_temporary_files(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with pytest.raises(LabError, match="set TMPDIR"):
        places.socket_folder()


def test_doctor_names_what_is_lacking(monkeypatch, capsys):
    monkeypatch.setattr(places, "why_no_kvm", lambda: "no reason")
    monkeypatch.setattr(places, "free_memory", lambda: 100)
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    assert doctor.doctor(None) == CANNOT
    lines = dict((line[6:].split("  ", 1)[0].strip(), line)
                 for line in capsys.readouterr().out.splitlines())
    assert lines["KVM"].startswith("note") and "emulated" in lines["KVM"]
    assert lines["memory"].startswith("note") and "--memory" in lines["memory"]
    assert lines["temporary files"].startswith("FAIL")
    assert "TMPDIR" in lines["temporary files"]


def test_launcher_is_python_3_9():
    """No file has syntax that is newer."""
    files = list(Path(cli.__file__).parent.rglob("*.py"))
    assert len(files) > 30
    for path in files:
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 9))


# ---- users and their surroundings --------------------------------------------

def test_a_user_without_a_home():
    """The user is not in /etc/passwd, as in many containers."""
    known = environment("/tmp", FAKERNIC_ROOT="0")
    for name in ("HOME", "XDG_CACHE_HOME", "FAKERNIC_CACHE", "FAKERNIC_QEMU"):
        known.pop(name, None)
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY_KNOWN, NOBODY_KNOWN)
        result = subprocess.run(
            [COMMAND, "run", "--", "true"], cwd=name, capture_output=True,
            text=True, timeout=60, check=False, user=NOBODY_KNOWN,
            group=NOBODY_KNOWN, extra_groups=[], env=known)
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1, result
    assert "'make build-image'" in result.stderr


def test_missing_folder_is_reported(tmp_path):
    result = subprocess.run(
        ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$0" run -- '
         "true", COMMAND], cwd=tmp_path, capture_output=True, text=True,
        timeout=60, check=False, env=environment(tmp_path))
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1, result
    assert "your current folder no longer exists" in result.stderr


def test_ascii_terminal_gets_ascii(tmp_path):
    result = fakernic_lab(tmp_path, "exec", "--help", PYTHONIOENCODING="ascii")
    assert result.returncode == 0 and "usage:" in result.stdout, result


def test_lack_of_memory_is_reported_before_boot(monkeypatch, capsys):
    """Too little memory is a warning, no error: machines seldom use all of it."""
    monkeypatch.setattr(places, "free_memory", lambda: 6000)
    cli.warn_of_memory(7, 768)
    assert capsys.readouterr().err == ""
    cli.warn_of_memory(8, 768)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "6144 MiB" in said and "6000 MiB" in said
    monkeypatch.undo()
    assert 64 < places.free_memory() < 1 << 24


def test_ignored_signals_stay_ignored(tmp_path):
    """Signals that nohup, or a shell without a terminal, ignores stay ignored. Other
    signals end the launcher once."""
    ending = subprocess.run(
        ["sh", "-c", "trap '' HUP; exec python3 -c '"
         "import os, signal; from fakernic_lab import cli\n"
         "cli.take_signals(); os.kill(os.getpid(), signal.SIGHUP)\n"
         "try: os.kill(os.getpid(), signal.SIGTERM)\n"
         "except KeyboardInterrupt: os.kill(os.getpid(), signal.SIGINT)\n"
         "print(\"ended in peace\")'"], cwd=tmp_path, text=True, timeout=60,
        capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(COMMAND).parent)})
    assert ending.stdout == "ended in peace\n", ending


# ---- machines ----------------------------------------------------------------

def test_killed_machine_is_reported(tmp_path, monkeypatch):
    """Linux kills a QEMU when memory is short."""
    monkeypatch.setattr("fakernic_lab.images.write_tools", Path.touch)
    machine = Machine("node1", tmp_path / "node1", image=DiskImage("/dev/null"),
                      qemu=["qemu"], sockets=tmp_path / "sockets")
    with subprocess.Popen(["sleep", "60"]) as machine.process:
        machine.process.kill()
        machine.process.wait()
        with pytest.raises(GuestCrashed, match="killed, perhaps because this "
                           "machine has no memory left"):
            machine.assert_alive()


@pytest.mark.parametrize("said, why", (
    ("/bin/bash: line 9: ping: command not found", "no program ping: it needs"),
    ("modprobe: FATAL: Module fakernic not found in directory /lib/modules/9",
     "no driver fakernic for its kernel 9: put fakernic-dkms"),
    ("modprobe: ERROR: could not insert 'fakernic': Key was rejected by service",
     "Secure Boot.*mokutil --import /var/lib/dkms/mok.pub")))
def test_missing_parts_of_image_are_reported(said, why):
    """One line reports the lack and what the user can do."""
    poor = lab.Lab.__new__(lab.Lab)
    poor.image = DiskImage("/dev/null")
    one = SimpleNamespace(guest=SimpleNamespace(
        run=lambda _: SimpleNamespace(out="9\n")))
    with pytest.raises(LabError, match=why) as reported:
        with poor.explained(one):
            raise CommandFailed(f"$ some\nlines\n{said}\n[exit code 1]")
    assert "\n" not in str(reported.value)
    with pytest.raises(LabError) as reported:
        with poor.explained(SimpleNamespace(name="node1")):
            raise CommandFailed("$ some\nlines\nno room\n[exit code 1]")
    assert str(reported.value) == "node1 could not be set up: no room [exit code 1]"


@pytest.mark.parametrize("says, why", (
    ("[ 1.5] fakernic 0000:01:00.0: no MSI-X vectors: -28\n"
     "[ 1.6] fakernic 0000:01:00.0: probe with driver fakernic failed with error "
     "-28\n", "0000:01:00.0: no MSI-X vectors: -28; 0000:01:00.0: probe with "
     "driver fakernic failed with error -28"),
    ("", "the driver has logged no reason, see /out/node1/console")))
def test_unbound_driver_is_reported(says, why):
    """One line reports the reason."""
    one = SimpleNamespace(
        name="node1", vm=SimpleNamespace(directory="/out/node1"),
        guest=SimpleNamespace(run=lambda _: SimpleNamespace(out=says)))
    with pytest.raises(LabError) as reported:
        with lab.Lab.__new__(lab.Lab).explained(one):
            raise CommandFailed(f"$ {rdma.FIND}\n{rdma.NO_DEVICE}\n[exit code 1]")
    assert str(reported.value) == (
        f"node1 has no RDMA device with a network interface: {why}")


def test_missing_device_finds_no_other_interface(tmp_path):
    """A pattern that matches nothing must not match the loopback's name."""
    (tmp_path / "net/lo").mkdir(parents=True)
    done = subprocess.run(
        ["bash", "-c", rdma.FIND.replace("/sys/class", str(tmp_path)).replace(
            "seq 100", "seq 1")], capture_output=True, text=True, timeout=60,
        check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no RDMA device with a network interface\n"


GIDS_OF = {
    "all": ("0 fe80:0000:0000:0000:0000:00ff:fe00:0001 RoCE v2\n"
            "1 0000:0000:0000:0000:0000:ffff:c0a8:4d01 IB/RoCE v1\n"
            "2 0000:0000:0000:0000:0000:ffff:c0a8:4d01 RoCE v2\n"
            "3 fd00:0077:0000:0000:0000:0000:0000:0001 RoCE v2\n", "2 3 0"),
    "without its IPv4 address": (
            "0 fe80:0000:0000:0000:0000:00ff:fe00:0001 RoCE v2\n"
            "3 fd00:0077:0000:0000:0000:0000:0000:0001 RoCE v2\n", "none 3 0"),
    "without any": ("", "none none none")}


@pytest.mark.parametrize("gids", GIDS_OF, ids=str)
def test_gid_indexes_are_current(tmp_path, gids):
    """Commands run although the interface has lost an address."""
    text, shown = GIDS_OF[gids]
    for line in text.splitlines():
        index, gid, kind = line.split(maxsplit=2)
        for name, value in (("gid_attrs/types", kind), ("gids", gid)):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / name / index).write_text(f"{value}\n", "utf-8")
    port = rdma.Port(SimpleNamespace(guest=None), 1, "dev", "net")
    one = lab.Node(SimpleNamespace(nodes=[], environment={}, meeting=None,
                                   shell=None), SimpleNamespace(
        name="node1", guest=None))
    one.port = port
    script = one.script("echo ${FAKERNIC_GID_INDEX-none} "
                        "${FAKERNIC_GID_INDEX6-none} ${FAKERNIC_GID_INDEX_LL-none}")
    done = subprocess.run(
        ["bash", "-c", script.replace("/sys/class/infiniband/dev/ports/1",
                                      str(tmp_path))],
        capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (f"{shown}\n", "")


def test_kernel_without_ipv6_works():
    """The machine has its IPv4 address, which pings and variables use."""
    asked = []

    def check(script, *_):
        asked.append(script)
        return "dev0 net0\n" if rdma.FIND in script else "no IPv6\n"
    vm = SimpleNamespace(name="node1", guest=SimpleNamespace(check=check))
    ports = [rdma.bring_up(vm, number) for number in (1, 2)]
    rdma.find_others(ports[0], ports)
    assert asked[-1] == "ping -c 1 -w 20 192.168.77.2"
    one = lab.Node(SimpleNamespace(nodes=[], environment={}, meeting=None,
                                   shell=None), vm)
    one.port = ports[0]
    assert "FAKERNIC_IP6" not in one.environment()


@pytest.mark.parametrize("names", ("\x1b[2J net0", "dev0 $(reboot)", "dev0"))
def test_device_names_are_validated(names):
    """Names with other characters are refused: they are shown and used in scripts."""
    vm = SimpleNamespace(name="node1", guest=SimpleNamespace(
        check=lambda *_: names))
    with pytest.raises(GuestCrashed, match="node1 reports no valid name"):
        rdma.bring_up(vm, 1)


def test_kernel_without_9p_is_reported(tmp_path):
    """Debian's cloud kernels have no 9p. A missing implied folder is reported once; a
    missing --mount is an error."""
    def run(script):
        if script == "uname -r":
            return guest.Result(script, 0, "6.12-cloud\n", "")
        return guest.Result(script, lab.NO_9P, "", "")
    said = []
    poor = lab.Lab.__new__(lab.Lab)
    poor.say = said.append
    poor.mounts = [Mount(tmp_path, "/work", implied=True)]
    poor.nodes = [lab.Node(poor, SimpleNamespace(
        name=f"node{number}", guest=SimpleNamespace(run=run))) for number in (1, 2)]
    for one in poor.nodes:
        poor.set_up_mounts(one)
        assert one.work is None
    poor.report_missing_parts()
    (line,) = said
    assert "your folder is not /work" in line and "linux-image-amd64" in line
    poor.mounts.append(Mount(tmp_path, "/data"))
    with pytest.raises(LabError, match="cannot mount .*6.12-cloud has no 9p"):
        poor.set_up_mounts(poor.nodes[0])


def test_image_without_provider_is_reported(tmp_path, monkeypatch):
    """The driver is there, so the machine boots, but every program finds no device.
    This is reported once."""
    def run(script):
        done = subprocess.run(["bash", "-c", script.replace(
            "/etc /usr/local/etc", str(tmp_path))], check=False)
        return guest.Result(script, done.returncode, "", "")

    def said_by_two():
        said = []
        poor = lab.Lab.__new__(lab.Lab)
        poor.say, poor.mounts, poor.mtu = said.append, [], None
        poor.wire_rules = []
        poor.numbers, poor.connect = (1, 2), list
        poor.nodes = [lab.Node(poor, SimpleNamespace(
            name=f"node{number}", stamp_console=list,
            guest=SimpleNamespace(run=run))) for number in poor.numbers]
        poor.set_up()
        return said
    monkeypatch.setattr(lab.rdma, "bring_up", lambda *_, **__: "a port")
    (line,) = said_by_two()
    assert "no provider of fakernic" in line and "fakernic-provider_*.deb" in line
    (tmp_path / "libibverbs.d").mkdir()
    (tmp_path / "libibverbs.d/fakernic.driver").touch()
    assert said_by_two() == []


@pytest.mark.parametrize("answer, reported", (
    ({"status": "running"}, ""),
    ({"status": "io-error"}, "node1 does not run (status: io-error): its disk cannot be "
     "written to, perhaps because $TMPDIR is full\n"),
    ({"status": "paused"}, "node1 does not run (status: paused)\n"),
    (QMPError("no"), ""), (OSError(errno.ECONNREFUSED, "gone"), "")))
def test_reason_of_paused_machine_is_reported(answer, reported):
    def cmd(_, within):
        assert within < TIMEOUT_S
        if isinstance(answer, Exception):
            raise answer
        return answer
    machine = Machine.running("node1", "/nowhere", "/nowhere", 0)
    machine.monitor = SimpleNamespace(cmd=cmd, close=lambda: None)
    assert launch.paused(machine) == reported


def test_stopped_qemu_is_not_awaited(tmp_path):
    """Linux accepts connections for a stopped QEMU, which then never answers."""
    start = time.monotonic()
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.bind(str(tmp_path / "qmp"))
        monitor.listen(1)
        reported = launch.paused(Machine.running("node1", tmp_path, tmp_path, 0))
    assert reported.startswith("node1: QEMU does not report the status"), reported
    assert time.monotonic() - start < TIMEOUT_S


def test_blocked_agent_is_reported(tmp_path):
    """A machine that does not boot reads nothing. The launcher must not hang when the
    socket is full of its requests."""
    said = []
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent0"))
        agent.listen(1)
        session = guest.Session(tmp_path / "agent0")
        session.sock.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                session.sock.send(bytes(4096))
        asking = threading.Thread(
            target=lambda: said.append(session.hello(0.1)), daemon=True)
        asking.start()
        asking.join(READ_S)
        session.close()
    assert said == [False]


def test_connection_ends_despite_a_listener(tmp_path):
    """QEMU accepts the next connection only after that."""
    def listen():
        with suppress(ConnectionError, OSError):
            session.line()

    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent0"))
        agent.listen(1)
        session = guest.Session(tmp_path / "agent0")
        peer, _ = agent.accept()
        with peer:
            peer.settimeout(READ_S)
            threading.Thread(target=listen, daemon=True).start()
            time.sleep(0.2)
            session.close()
            assert peer.recv(1) == b""


def test_machines_are_queried_in_parallel(tmp_path, monkeypatch):
    """The results of all machines are collected at the same time."""
    monkeypatch.setattr(lab, "PROCESSORS", 2)
    both = threading.Barrier(2)

    def run(script, _):
        if script == lab.LEFT_BEHIND["dmesg"]:
            both.wait(RELEASE_S)
        return SimpleNamespace(out="known\n")
    whole = lab.Lab.__new__(lab.Lab)
    whole.nodes = []
    for name in ("node1", "node2"):
        (tmp_path / name).mkdir()
        whole.nodes.append(SimpleNamespace(
            guest=SimpleNamespace(run=run), vm=node(tmp_path / name).vm))
    whole.collect()
    assert len(list(tmp_path.glob("*/*"))) == 2 * len(lab.LEFT_BEHIND)


def test_failed_set_up_is_reported_at_once():
    """A failure is reported while another machine still hangs."""
    released = []

    def work(number):
        if number == lab.PROCESSORS:    # not the first that is asked for
            raise LabError("this one")
        while not released:
            time.sleep(0.01)
    release = threading.Timer(RELEASE_S, released.append, (True,))
    release.start()
    start = time.monotonic()
    try:
        with pytest.raises(LabError, match="this one"):
            lab.side_by_side(work, range(1, 9))
        assert time.monotonic() - start < RELEASE_S
    finally:
        release.cancel()
        released.append(True)
    done = []
    lab.side_by_side(done.append, range(8))
    assert sorted(done) == list(range(8))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(name="slow")
def slow_lab(monkeypatch):
    """Three machines that take half a second each; lines come more often."""
    monkeypatch.setattr(waiting, "TERMINAL_S", 0.1)
    monkeypatch.setattr(waiting, "OTHERS_S", 0.3)
    slow = lab.Lab.__new__(lab.Lab)
    slow.image, slow.set_up = DiskImage("/dev/null"), list
    slow.nodes = [SimpleNamespace(vm=SimpleNamespace(
        wait_booted=lambda *_: time.sleep(0.5))) for _ in range(3)]
    return slow


def until(condition):
    deadline = time.monotonic() + READ_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_long_boot_shows_progress(monkeypatch, slow):
    """Without a terminal, lines report progress now and then. Each machine boots after
    one more line, and no line comes too early."""
    said = []
    slow.say = said.append
    for number, node in enumerate(slow.nodes, start=1):
        node.vm.wait_booted = lambda *_, number=number: until(
            lambda: len(said) >= number)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    start = time.monotonic()
    slow.await_boot()
    took = time.monotonic() - start
    assert 3 <= len(said) <= took / waiting.OTHERS_S
    assert sys.stderr.getvalue() == ""
    for line in said:
        assert re.fullmatch(r"[0-3] of 3 machines have started, \d+ s so far", line)


def test_progress_line_is_updated_on_terminal(monkeypatch, slow):
    """On a terminal the line is updated, and removed before other output."""
    slow.say = pytest.fail
    monkeypatch.setattr(sys, "stderr", Terminal())
    slow.await_boot()
    *shown, last = sys.stderr.getvalue().split(waiting.WIPED)
    assert len(shown) > 5 and last == ""
    assert [line for line in shown if line and not re.fullmatch(
        r"  [0-3] of 3 machines have started, \d+ s so far", line)] == []
    cli.say("over it")
    assert sys.stderr.getvalue().endswith(f"{waiting.WIPED}fakernic-lab: over it\n")


# ---- from pytest -------------------------------------------------------------

def keeper(said, **options):
    """The plug-in's keeper of machines, with these options of pytest."""
    options = {"lab_out": "out", "lab_qemu": None, "lab_image": None,
               "lab_kernel": None, "lab_initrd": None, "lab_append": "", **options}
    reporter = SimpleNamespace(ensure_newline=list, write_line=said.append)
    return pytest_plugin.Keeper(SimpleNamespace(
        getoption=options.get, pluginmanager=SimpleNamespace(
            get_plugin={"terminalreporter": reporter}.get)))


def test_pytest_in_an_image_without_9p():
    """/work is implied: without 9p tests run without it, and a message says so."""
    said = []
    found = keeper(said).arguments({"count": 1})
    assert [(mount.target, mount.implied) for mount in found["mounts"]] == [
        ("/work", True)]
    found["say"]("no 9p")
    assert said == ["fakernic-lab: no 9p"]
    found = keeper(said).arguments({"mounts": ["/etc:/work"]})
    assert [(mount.target, mount.implied) for mount in found["mounts"]] == [
        ("/work", False)]


def test_pytest_with_own_kernel():
    """The options of pytest work as those of the command."""
    found = keeper([], lab_kernel=OLD_KERNEL, lab_append="quiet").arguments({})["image"]
    assert (found.kernel, found.append) == (OLD_KERNEL, "quiet")
    found = keeper([], lab_image="/disk", lab_kernel="/vmlinuz",
                   lab_initrd="/initrd").arguments({})["image"]
    assert isinstance(found, DiskImage)
    assert (found.kernel, found.initrd) == ("/vmlinuz", "/initrd")
    with pytest.raises(LabError, match="--initrd needs"):
        keeper([], lab_initrd="/initrd").arguments({})
