# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest attacks the launcher: with links and pipes where the launcher writes, through
its agent, and through its console. No machine is booted: the guest is a peer on the
agent's socket, or a file.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from command import fakernic_lab
from fakernic_lab import (
    captures, cli, console, guest, lab, launch, outputs, qmp, recordings)
from fakernic_lab.errors import GuestCrashed, GuestTimeout, LabError
from fakernic_lab.images import DiskImage
from fakernic_lab.machine import Machine

CANNOT = 125
READ_S = 60
CPU_S = 60
HERE = Path(__file__).parent


# ---- files -------------------------------------------------------------------

@pytest.fixture(name="precious")
def precious_file(tmp_path):
    """A file of the user. The fixture checks that the test has not changed it."""
    path = tmp_path / "precious"
    path.write_text("as it was", encoding="utf-8")
    yield path
    assert path.read_text(encoding="utf-8") == "as it was"


@pytest.fixture(name="node")
def node_fixture(tmp_path):
    """A machine with a folder in which a guest can write."""
    (tmp_path / "node1").mkdir()
    return SimpleNamespace(name="node1", vm=Machine.running(
        "node1", tmp_path / "node1", tmp_path, 0))


def plant(folder, name, kind, target):
    if kind == "link":
        (folder / name).symlink_to(target)
    else:
        os.mkfifo(folder / name)


@pytest.mark.parametrize("kind", ("link", "pipe"))
@pytest.mark.parametrize("name", lab.LEFT_BEHIND)
def test_machine_state_is_not_written_through_a_link(node, precious, name,
                                                          kind):
    plant(node.vm.directory, name, kind, precious)
    node.guest = SimpleNamespace(run=lambda *_: SimpleNamespace(out="text\n"))
    asking = threading.Thread(target=lab.ask_what_is_left, args=(node,),
                              daemon=True)
    asking.start()
    asking.join(READ_S)
    path = node.vm.directory / name
    assert not asking.is_alive() and not path.is_symlink()
    assert path.is_file() and path.read_text("utf-8") == "text\n"


def test_a_folder_is_not_opened_through_a_link(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(NotADirectoryError):
        outputs.Folder(tmp_path / "link")


def test_an_output_is_not_written_through_a_link(node, precious, capsys):
    plant(node.vm.directory, "output", "link", precious)
    run = launch.Run(node, "command")
    run.take("out", b"text\n")
    run.finish(0)
    assert (node.vm.directory / "output").read_bytes() == b"text\n"
    assert capsys.readouterr().out == "node1: text\n"


def test_a_report_does_not_read_an_output_back(node, precious, capsys):
    """A guest may have put a link to another file there."""
    run = launch.Run(node, "command")
    run.take("out", b"text\n")
    (node.vm.directory / "output").unlink()
    plant(node.vm.directory, "output", "link", precious)
    assert run.text() == "text\n"
    capsys.readouterr()


def test_a_report_is_not_written_through_a_link(tmp_path, monkeypatch, precious):
    """The launcher writes into the file that it opened before a machine ran."""
    report = tmp_path / "report.xml"

    class FakeLab:
        nodes, record, images = (None,), False, ()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            report.unlink()
            report.symlink_to(precious)

        def collect(self, *_):
            pass

        faults_missed = traces_missed = expect = collect
    monkeypatch.setattr(cli, "Lab", lambda **_: FakeLab())
    monkeypatch.setattr(cli, "lab_arguments", lambda *_: {})
    monkeypatch.setattr(launch, "run_all", lambda *_, **__: (
        launch.Verdict(7, "node1 ended with 7"), []))
    assert cli.run(cli.build_parser().parse_args(
        ["run", "--memory", "128", "--junit", str(report), "--", "false"])) == 7


def test_a_record_is_not_moved_through_a_link(tmp_path, monkeypatch, precious):
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(recordings, "MEMORY", memory)
    path = tmp_path / recordings.RECORD
    recordings.prepare([path])
    path.write_bytes(b"entries")
    plant(tmp_path, f"{path.name}.new", "link", precious)
    recordings.leave(path)
    assert path.read_bytes() == b"entries" and not path.is_symlink()


def test_a_mark_is_not_written_through_a_link(tmp_path, precious):
    """A guest of an earlier run may have made the folder."""
    (tmp_path / "out").mkdir()
    plant(tmp_path / "out", lab.MARK, "link", precious)
    with pytest.raises(LabError, match="out: Too many levels of symbolic links"):
        lab.prepare_out(tmp_path / "out")


def test_the_capture_of_all_goes_into_the_file_that_was_opened(
        tmp_path, node, precious):
    path = tmp_path / "all.pcap"
    file = open(path, "wb")
    path.unlink()
    plant(tmp_path, path.name, "link", precious)
    (node.vm.directory / captures.CAPTURE).write_bytes(b"")
    captures.leave(path, [(node.vm, "52:54:00:fa:ce:01")], file)
    assert file.closed


def test_qemu_gets_open_files_not_names(tmp_path, monkeypatch):
    """A guest could replace a file while QEMU opens it by name."""
    monkeypatch.setattr("fakernic_lab.images.write_tools", Path.touch)
    machine = Machine("node1", tmp_path / "node1", image=DiskImage("/dev/null"),
                      qemu=["qemu"], sockets=tmp_path / "sockets")
    named = [word for word in machine.command if "node1/" in word]
    assert [word for word in named if "fakernic-lab.tar" not in word] == []


@pytest.mark.parametrize("mount, out, why", (
    (".", "fakernic-lab.out", "choose another --out"),
    ("..", "fakernic-lab.out", "choose another --out"),
    ("alias", "fakernic-lab.out", "choose another --out"),
    (".", "deep/er/out", "choose another --out"),
    ("tmp", "fakernic-lab.out", "set TMPDIR to a folder outside")), ids=str)
def test_a_writable_mount_with_the_results_in_it_is_refused(tmp_path, mount, out,
                                                            why):
    folder = tmp_path / "mine"
    (folder / "tmp").mkdir(parents=True)
    (folder / "alias").symlink_to(folder)
    qemu = tmp_path / "qemu"
    qemu.write_text("#!/bin/sh\necho 'name \"fakernic\"'\n", encoding="utf-8")
    qemu.chmod(0o755)
    result = fakernic_lab(folder, "run", "--image", "/etc/hostname", "--qemu", qemu,
                          "--out", out, "--mount", f"{mount}:/out:rw", "--", "true",
                          TMPDIR=str(folder / "tmp"))
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1, result
    assert why in result.stderr and "'mkdir results'" in result.stderr, result
    assert not (folder / out).exists()


@pytest.mark.parametrize("how", ("ro", "rw"))
def test_a_mount_in_the_results_is_refused(tmp_path, how):
    """The folder of the results is emptied before a run, and the mount with it."""
    (tmp_path / "out/data").mkdir(parents=True)
    (tmp_path / "out" / lab.MARK).touch()
    (tmp_path / "out/data/file").touch()
    mount = lab.parse_mount(f"{tmp_path}/out/data:/data:{how}")
    with pytest.raises(LabError, match="is emptied before"):
        outputs.require_apart([mount], tmp_path / "out", {})
    assert (tmp_path / "out/data/file").exists()


def test_results_by_a_mount_of_its_own(tmp_path):
    """A writable mount of its own for results is accepted. A read-only mount may contain
    the folder of the results."""
    (tmp_path / "results").mkdir()
    mounts = [lab.parse_mount(f"{tmp_path}/results:/results:rw"),
              lab.parse_mount(f"{tmp_path}:/src")]
    outputs.require_apart(mounts, tmp_path / "out", {tmp_path / "tmp": ""})


# ---- bounds of files ---------------------------------------------------------

def test_an_output_has_a_longest_length(node, monkeypatch, capsys):
    monkeypatch.setattr(launch, "FILE_MAX", 10, raising=False)
    run = launch.Run(node, "command")
    for _ in range(5):
        run.take("out", b"1234\n")
    run.finish(0)
    assert (node.vm.directory / "output").read_bytes() == b"1234\n" * 2
    assert capsys.readouterr().out == "node1: 1234\n" * 5


def limits_of(pid):
    """(limit of the file size, whether SIGXFSZ is ignored) of a process"""
    text = Path(f"/proc/{pid}/limits").read_text("utf-8")
    limit = text.partition("Max file size")[2].split()[0]
    ignored = Path(f"/proc/{pid}/status").read_text("utf-8").partition(
        "SigIgn:")[2].split()[0]
    return limit, bool(int(ignored, 16) >> (signal.SIGXFSZ - 1) & 1)


def test_files_of_qemu_have_a_longest_length(tmp_path, monkeypatch):
    """QEMU gets an error at the limit and is not killed by SIGXFSZ."""
    monkeypatch.setattr("fakernic_lab.images.write_tools", Path.touch)
    monkeypatch.setattr("fakernic_lab.machine.QMP", lambda _: SimpleNamespace(
        close=list))
    machine = Machine("node1", tmp_path / "node1", image=DiskImage("/dev/null"),
                      qemu=["sh", "-c", "sleep 60; :"], sockets=tmp_path / "s")
    machine.launch()
    try:
        assert limits_of(machine.pid) == (str(16 << 30), True)
    finally:
        machine.stop()


# ---- the agent ---------------------------------------------------------------

@contextmanager
def agent(folder):
    """Both ends of an agent's port: a Session, and the guest's socket."""
    with socket.socket(socket.AF_UNIX) as port:
        port.bind(str(folder / "agent0"))
        port.listen(1)
        session = guest.Session(folder / "agent0")
        peer, _ = port.accept()
        with peer:
            yield session, peer
        session.close()


def flood(peer, data, pause=0):
    """Sends DATA again and again, in a thread, until the socket is closed."""
    def send():
        with suppress(OSError):
            while True:
                peer.sendall(data)
                time.sleep(pause)
    threading.Thread(target=send, daemon=True).start()


def outcome(work):
    """What WORK returns or raises within a quarter of READ_S; else a text that says so."""
    found = []

    def do():
        try:
            found.append(work())
        except Exception as error:      # pylint: disable=broad-except
            found.append(error)
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(READ_S / 4)
    return found[0] if found else "it does not end"


def test_time_limit_holds_despite_output(tmp_path):
    """An agent that sends a byte now and then, but no newline, does not extend the limit."""
    with agent(tmp_path) as (session, peer):
        flood(peer, b"x", 0.02)
        assert outcome(lambda: session.line(0.5)) is None


def test_a_line_has_a_longest_length(tmp_path):
    with agent(tmp_path) as (session, peer):
        flood(peer, bytes(65536))
        assert isinstance(outcome(session.line), ConnectionError)


def test_agent_with_invalid_answer_is_not_ready(tmp_path):
    with agent(tmp_path) as (session, peer):
        flood(peer, b"hello other\n" * 1000)
        assert outcome(lambda: session.hello(0.5)) is False


def job_of(session, argv=("x",)):
    """Starts a command in a Session. The agent need not answer hello first."""
    session.unsure = False
    one = SimpleNamespace(
        vm=SimpleNamespace(assert_alive=list, name="node1"),
        take_session=lambda: session, give_session=lambda _: None)
    return guest.Job(one, "x", argv)


def test_command_that_agent_does_not_start_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "START_S", 0.5, raising=False)
    with agent(tmp_path) as (session, _):
        assert isinstance(outcome(lambda: job_of(session)), GuestTimeout)


def test_command_that_agent_does_not_read_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "SEND_S", 0.5, raising=False)
    with agent(tmp_path) as (session, _):
        found = outcome(lambda: job_of(session, argv=["x" * (1 << 22)]))
        assert isinstance(found, GuestTimeout), found


def test_kept_output_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "KEPT_MAX", 1000, raising=False)
    with agent(tmp_path) as (session, peer):
        peer.sendall(b"pid 7\n" + b"out aGFsbG8K\n" * 1000 + b"exit 0\n")
        result = outcome(lambda: job_of(session).wait())
    assert len(result.out) < 1100 and result.out.startswith("hallo\n")
    assert result.out.endswith("[the rest is cut]\n")


@pytest.mark.parametrize("said", (b"pid\n", b"pid x\n", b"pid 7\nexit\n",
                                  b"pid 7\nexit -\n", b"exit " + b"9" * 5000),
                         ids=range(5))
def test_invalid_agent_line_ends_its_command(tmp_path, monkeypatch, said):
    """The command fails with a one-line error, and no thread prints a traceback."""
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with agent(tmp_path) as (session, peer):
        peer.sendall(said + b"\n")
        peer.shutdown(socket.SHUT_WR)
        found = outcome(lambda: job_of(session).wait())
    assert failed == [] and (isinstance(found, GuestCrashed) or found.code), found


def test_events_do_not_extend_time_limit_of_monitor(tmp_path):
    with socket.socket(socket.AF_UNIX) as port:
        port.bind(str(tmp_path / "qmp"))
        port.listen(1)

        def serve():
            peer, _ = port.accept()
            peer.sendall(b'{"QMP": {}}\n')
            peer.recv(1000)
            peer.sendall(b'{"return": {}}\n')
            peer.recv(1000)
            flood(peer, b'{"event": "SHOUT"}\n', 0.02)
        threading.Thread(target=serve, daemon=True).start()
        monitor = qmp.QMP(tmp_path / "qmp")
        found = outcome(lambda: monitor.cmd("query-status", within=0.5))
    assert isinstance(found, TimeoutError), found


# ---- consoles and the terminal -----------------------------------------------

# Words that a guest repeats until its console has 4 MB of them.
FLOODS = {
    "orders": "[    1.000000] WARNING: possible circular locking dependency\\n",
    "races": "[    1.000000] BUG: KCSAN: data-race in a / b\\n",
    "races in a line": "BUG: KCSAN: data-race in ",
    "cuts": "------------[ cut here ]------------\\n",
    "mappings": "DMA-API: ",
    "locks": "WARNING: possible circular locking\\n" + "lock(" * 1000 + "\\n",
    "stamps": "[    1.000000",
    "blanks": " " * 64,
    "complaints": "BUG: ",
    "ends": "end trace ",
}
JUDGE = """
import resource, sys
from fakernic_lab.console import Console
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
for stamped in (False, True):
    console = Console(__import__("pathlib").Path(sys.argv[1]), stamped)
    before = -1
    while before < console.judged:
        before = console.judged
        console.trouble()
        console.tail()
    assert console.judged > console.size() // 2
print("judged")
"""


@pytest.mark.parametrize("words", FLOODS, ids=str)
def test_console_is_checked_in_linear_time(tmp_path, words):
    """No text makes a search slower than linear. A quadratic one would take minutes here."""
    text = FLOODS[words].replace("\\n", "\n")
    path = tmp_path / "console"
    for end in ("\n", "\n</TASK>\n", f"\n{'=' * 30}\n"):
        path.write_text("</TASK>\n" + text * ((1 << 20) // len(text)) + end,
                        "utf-8")
        done = subprocess.run(
            [sys.executable, "-c", JUDGE, path, str(CPU_S)], cwd=HERE, text=True,
            timeout=2 * CPU_S, capture_output=True, check=False)
        assert done.stdout == "judged\n", done


def test_whole_long_console_is_checked(tmp_path):
    """A complaint after megabytes of other lines is found by one call."""
    log = console.Console(tmp_path / "console")
    log.path.write_bytes(b"a line without a complaint\n" * 400000 +
                         b"WARNING: one\nfine\n")
    assert "WARNING: one\n" in log.trouble()
    assert log.trouble() is None and log.judged == log.size()


def test_the_end_of_a_console_is_short(tmp_path):
    path = tmp_path / "console"
    path.write_bytes(b"x" * (1 << 20) + b"\n" + b"y" * (1 << 20))
    assert len(console.Console(path).tail()) < 10000


def test_error_that_quotes_guest_is_short(tmp_path, capsys):
    """An error that quotes a guest, or the end of QEMU's log, has a bounded length."""
    cli.say("x" * (1 << 20))
    assert len(capsys.readouterr().err) < 30000
    machine = Machine.running("node1", tmp_path, tmp_path, None)
    (tmp_path / "qemu.log").write_bytes(b"x" * (1 << 20))
    with pytest.raises(GuestCrashed) as reported:
        machine.assert_alive()
    assert 2000 < len(str(reported.value)) < 3000
    assert len(machine.qemu_log()) == 1 << 20


EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\rnode2: fine\x9b31m\u202e"


def test_control_sequences_do_not_reach_a_terminal(node, tmp_path, capsys):
    """Control sequences in an output, on a console and in an error are escaped."""
    run = launch.Run(node, "command")
    run.take("out", f"{EVIL} out\n".encode())
    run.take("err", f"{EVIL} err\n".encode())
    run.finish(0)
    cli.say(f"{EVIL} error")
    cli.show_verdict(launch.Verdict(120, EVIL, f"{EVIL}\n"))
    path = tmp_path / "console"
    path.write_text(f"{EVIL}\nWARNING: {EVIL}\n", "utf-8")
    log = console.Console(path)
    shown = log.tail() + log.trouble() + "".join(capsys.readouterr())
    assert not {char for char in EVIL if not char.isprintable()} & set(shown)
    assert "\\x1b]52;c;ZXZpbA==\\x07" in shown
    # The file has the output unchanged, because tests may parse it.
    assert (node.vm.directory / "output").read_bytes().startswith(EVIL.encode())
