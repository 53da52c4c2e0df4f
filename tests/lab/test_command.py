# SPDX-License-Identifier: GPL-2.0-or-later
"""How the command handles its arguments, and hosts on which something is missing. No
machine is booted.
"""

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from command import fakernic_lab
from fakernic_lab import (
    arches, cli, faults, junit, launch, places, recordings, relay, saved, show, stay)
from fakernic_lab.console import OTHERS_LEAK, Console
from fakernic_lab.errors import GuestCrashed, GuestTimeout, LabError
from fakernic_lab.guest import Job
from fakernic_lab.images import DiskImage
from fakernic_lab.lab import MARK, NODES_MAX, Lab, parse_mount, prepare_out
from fakernic_lab.machine import Machine
from fakernic_lab.qmp import QMP, QMPError
from fakernic_lab.timeline.records import RecordError
from fakernic_lab.versions import MAIN_KERNEL, OLD_KERNEL

HERE = Path(__file__).parent
CANNOT = 125
USAGE = 2

# Arguments of run -> a part of the one-line error message.
REFUSED = {
    ("--",): "no command",
    ("--", "a", ":", ":", "b"): "no command",
    ("-n", "3", "--", "a", ":", "b"): "2 commands for 3 machines",
    ("--link", "shared", "--netdev", "tap", "--", "a"): "two networks",
    ("--link", "shared", "--loss", "60%", "--reorder", "0.5", "--", "a"):
        "more than 100%",
    ("--mount", "nonsense", "--", "a"): "--mount nonsense",
    ("--mount", "/nosuch:/x", "--", "a"): "/nosuch is no folder",
    ("--mount", "/etc:/", "--", "a"): "must not be /",
    ("--mount", "/etc:/x", "--mount", "/tmp:/x", "--", "a"): "same target",
    ("--kernel", "5.10", "--", "a"): f"one of {MAIN_KERNEL}, ",
    ("--initrd", "x", "--", "a"): "--initrd needs",
    ("--arch", "sparc", "--", "a"): "--arch sparc: one of x86_64, arm64",
    ("--arch", "arm64,arm64,x86_64", "--", "a"): "3 architectures for 2 machines",
    ("--arch", "arm64", "--kernel", OLD_KERNEL, "--", "a"):
        f"--arch arm64 boot {MAIN_KERNEL}, {MAIN_KERNEL}-",
    ("--arch", "arm64", "--image", "x.qcow2", "--", "a"): "no --image",
    ("--arch", "arm64,x86_64", "--qemu", "/usr/bin/true", "--", "a"):
        "--qemu is one program",
    ("--image", "/nosuch.qcow2", "--", "a"): "/nosuch.qcow2: No such file",
    ("--image", "/etc/hostname", "--append", "x", "--", "a"): "need --kernel",
    ("--loss", "60%", "--corrupt", "60%", "--", "a"): "more than 100%",
    ("--first", "2", "--", "a"): "--first is for machines of several hosts",
    ("--netdev", "tap", "--loss", "1%", "--", "a"): "tc qdisc add",
    ("--netdev", "tap", "--first", "32", "--", "a"): "machines 32 to 33",
    ("--qemu", "/nosuch/qemu", "--", "a"): "no QEMU at /nosuch/qemu",
    ("--fault", "node3: at=rx do=drop", "--", "a"): "no node3, only node1, node2",
}

# Arguments that argparse refuses.
MISUSED = {
    ("run", "--loss", "1.5", "--", "a"): "a share of the frames",
    ("run", "--delay", "fast", "--", "a"): "such as 100us",
    ("run", "-n", "33", "--", "a"): "from 1 to 32",
    ("run", "--mtu", "9001", "--", "a"): "from 576 to 9000",
    ("run", "--env", "x", "--", "a"): "NAME=VALUE",
    ("run", "--timeout", "-1", "--", "a"): "a number",
    ("show", "node1"): "WHAT",
    ("show", "node1", "nonsense"): "invalid choice",
    ("show", "node1", "sq", "-1"): "see 'fakernic-lab show --help'",
    ("show", "node1", "cq", "3", "--count", "257"): "from 1 to 256",
    ("nosuch",): "invalid choice",
    (): "COMMAND",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_bad_arguments_are_refused_in_one_line(tmp_path, words):
    result = fakernic_lab(tmp_path, "run", *words)
    assert result.returncode == CANNOT, result
    assert result.stdout == "" and result.stderr.count("\n") == 1, result
    assert REFUSED[words] in result.stderr, result.stderr


@pytest.mark.parametrize("words", MISUSED, ids=lambda words: " ".join(words))
def test_misuse_is_refused_in_one_line(tmp_path, words):
    result = fakernic_lab(tmp_path, *words)
    assert result.returncode == USAGE, result
    assert result.stdout == "" and result.stderr.count("\n") == 1, result
    assert MISUSED[words] in result.stderr and "--help'" in result.stderr


@pytest.mark.parametrize("action", ("exec", "shell", "console", "show",
                                    "snapshot", "migrate", "status", "down"))
def test_commands_without_machines_are_refused(tmp_path, action):
    words = {"exec": ["node1", "--", "true"], "show": ["node1", "qps"],
             "snapshot": ["save", "now"], "migrate": ["node1"]}.get(action, [])
    result = fakernic_lab(tmp_path, action, *words)
    assert result.returncode == CANNOT
    assert "no machines are up: 'fakernic-lab up'" in result.stderr


@pytest.mark.parametrize("action", ("", *cli.ACTIONS))
def test_help(tmp_path, action):
    result = fakernic_lab(tmp_path, *action.split(), "--help")
    assert result.returncode == 0 and "usage: fakernic-lab" in result.stdout


@pytest.mark.parametrize("document", ("fakernic-lab.rst", "fakernic-lab.bash"))
def test_documents_know_all_options(tmp_path, document):
    text = (HERE / document).read_text(encoding="utf-8")
    for action in ("run", "up", "exec", "show", "timeline"):
        usage = fakernic_lab(tmp_path, action, "--help").stdout
        for option in re.findall(r"^ +(--?[a-z-]+)", usage, re.M):
            assert option == "-h" or option in text, (action, option)


# The documents that describe the command.
DOCUMENTS = [HERE.parents[1] / name for name in (
    "README.md", "tests/lab/README.md", "tests/lab/LESSONS.md",
    "tests/lab/fakernic-lab.rst", "tests/net/README.md",
    "tests/timeline/README.md", "ci/recipes/README.md", "ci/action/README.md",
    "rdma-provider/TROUBLESHOOTING.md")]
# A line of its own, perhaps after a prompt, or a literal inside a text.
EXAMPLE = re.compile(r"^ *(?:\w*\$ )?(fakernic-lab [a-z]+ .*)$|"
                     r"`(fakernic-lab [a-z]+ [^`]*)`", re.M)


def examples():
    """Every call of the command in the documents, with the document's name."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for groups in EXAMPLE.findall(text):
            yield path.name, "".join(groups).partition("; fakernic-lab")[0]


def test_every_example_is_accepted(capsys):
    """The parser accepts all examples of the documents, and calls that users of other
    launchers would try first."""
    found = list(examples())
    assert len(found) > 30 and {name for name, _ in found} >= {
        "README.md", "LESSONS.md", "fakernic-lab.rst"}
    found += [("first tries", line) for line in (
        "fakernic-lab run -- ./server_test : ./client_test",
        "fakernic-lab run -n 3 --image debian-13.qcow2 --kernel vmlinuz --cpus 2 "
        "--mount .:/src --mtu 9000 --link shared -- ./test",
        "fakernic-lab run --link netdev -- ./test", "fakernic-lab up",
        "fakernic-lab ssh", "fakernic-lab console node2",
        "fakernic-lab run --loss 1% --pcap out.pcap --junit report.xml "
        "--timeout 300 -- ./test")]
    for name, line in found:
        try:
            options = cli.build_parser().parse_args(
                shlex.split(line, comments=True)[1:])
        except SystemExit as ended:
            if not ended.code:      # --help
                continue
            pytest.fail(f"{name}: {line}\n{capsys.readouterr().err}")
        if options.action in ("run", "exec"):
            assert cli.split_commands(options.command), (name, line)


def test_documents_name_no_other_options(tmp_path):
    usage = "".join(fakernic_lab(tmp_path, *action.split(), "--help").stdout
                    for action in ("", "run", "up", "exec", "show", "timeline"))
    known = set(re.findall(r"--[a-z-]+", usage))
    plugin = (HERE / "fakernic_lab/pytest_plugin.py").read_text("utf-8")
    known |= set(re.findall(r'"(--lab-[a-z]+)"', plugin))
    for path in DOCUMENTS:
        if path.name != "README.md" or path.parent == HERE:
            text = path.read_text(encoding="utf-8")
            named = set(re.findall(r"`(--[a-z][a-z-]*)", text))
            assert named <= known, (path, named - known)


COMPLETE = """
source /usr/share/bash-completion/bash_completion
source "$0"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_fakernic_lab
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("words, offered", (
    ("", {"run", "up", "exec", "shell", "ssh", "console", "show", "fault",
          "snapshot", "migrate", "timeline", "doctor", "status", "down", "--help",
          "--version"}),
    ("ru", {"run"}), ("run --lo", {"--loss"}),
    ("run --link ", {"netdev", "shared"}), ("up --j", {""}),
    ("run --j", {"--junit"}), ("show node1 sr", {"srqs", "srq"}),
    ("exec no", {"node1", "node2", "node3"}), ("run -- base64 --wr", {"--wrap"})),
    ids=str)
def test_completion(words, offered):
    """Bash completes these words to the offered ones."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE, HERE / "fakernic-lab.bash", "fakernic-lab",
         *words.split(" ")], capture_output=True, text=True, timeout=60, check=True)
    assert {word.strip(" =") for word in done.stdout.split("\n")[:-1]} == offered


# ---- looking inside ----------------------------------------------------------

@pytest.fixture(name="paused", scope="module")
def paused_qemu(tmp_path_factory):
    """The monitor of a QEMU with a device that no driver has touched."""
    path = tmp_path_factory.mktemp("paused") / "qmp"
    command = [*places.qemu_command(), "-machine", "q35", "-nodefaults", "-S",
               "-display", "none", "-qmp", f"unix:{path},server=on,wait=off",
               "-netdev", "hubport,hubid=0,id=n0",
               "-device", "fakernic,id=nic0,netdev=n0,"
               "x-fault=id=mine at=rx do=drop"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as qemu:
        try:
            for _ in range(600):
                if path.exists() or qemu.poll() is not None:
                    break
                time.sleep(0.05)
            yield path
        finally:
            qemu.kill()


def shown(folder, *words):
    result = fakernic_lab(folder, "show", *words)
    assert result.returncode == 0, result
    return result.stdout


def test_show(tmp_path, paused):
    state = json.loads(shown(tmp_path, paused, "state", "--json"))
    assert state["stopped"] and state["qp"] == {"used": 0, "limit": 4096}
    assert "command-pi" in shown(tmp_path, paused, "state")
    for what in ("qps", "cqs", "srqs", "eqs", "keys", "gids", "flows"):
        assert shown(tmp_path, paused, what) == f"no {what}\n"
        assert json.loads(shown(tmp_path, paused, what, "--json")) == []
    (counters,) = json.loads(shown(tmp_path, paused, "counters", "--json"))
    assert counters["tx_frames"] == 0
    assert "id=mine at=rx do=drop matches=0 hits=0" in shown(
        tmp_path, paused, "faults", "--device", "nic0")


@pytest.mark.parametrize("words, why", (
    (("qps", "17"), "there is no qpn 17"), (("sq", "17"), "there is no sq 17"),
    (("eq", "1", "--from", "3"), "there is no eq 1"), (("cq",), "which cq?"),
    (("state", "1"), "state has no number"), (("qps", "--count", "3"), "rings"),
    (("qps", "--device", "nic7"), "no fakernic nic7")),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_show_of_missing_object_is_refused(tmp_path, paused, words, why):
    result = fakernic_lab(tmp_path, "show", paused, *words)
    assert result.returncode == CANNOT and result.stdout == ""
    assert result.stderr.count("\n") == 1 and why in result.stderr


class Busy:
    """A device whose ring another client selects OTHERS times between two requests."""

    def __init__(self, others):
        self.others, self.asked = others, {}

    def cmd(self, name, arguments):
        if name == "qom-set":
            words = arguments["value"].split()
            self.asked = {"ring": words[0], "number": int(words[1]),
                          "count": 16, **{key: int(value) for key, value in (
                              word.split("=") for word in words[2:])}}
            return None
        if self.others:
            self.others -= 1
            self.asked.pop("from", None)
        return json.dumps(self.asked)


def test_show_with_another_monitor_client():
    ring = show.Device(Busy(3), "nic0").ring("sq", 17, 5, 64)
    assert ring == {"ring": "sq", "number": 17, "from": 5, "count": 64}
    assert show.Device(Busy(0), "nic0").ring("cq", 3)["count"] == 16
    with pytest.raises(LabError, match="other clients"):
        show.Device(Busy(10**6), "nic0").ring("sq", 17, 5)


def test_show_at_a_busy_monitor(tmp_path, paused):
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(str(paused))
        assert b"QMP" in other.recv(1000)
        result = fakernic_lab(tmp_path, "show", paused, "qps")
    assert result.returncode == CANNOT
    assert "another client uses this monitor" in result.stderr
    result = fakernic_lab(tmp_path, "show", tmp_path / "nothing", "qps")
    assert "no QEMU listens there" in result.stderr


def test_armed_faults_are_hit_or_fail(paused):
    """A rule without a hit raises FaultMissed, and no rule stays in the device."""
    vm = SimpleNamespace(is_running=lambda: True)
    qmp = QMP(paused)
    try:
        vm.qmp = lambda command, **words: qmp.cmd(command, words)
        before = faults.rules_of(vm)
        with pytest.raises(faults.FaultMissed, match="at=tx do=count"):
            with faults.armed(vm, "at=tx do=count", "at=rx do=drop") as two:
                assert two.hits() == [0, 0] and len(faults.rules_of(vm)) == 3
        with pytest.raises(QMPError, match="nosuch"):
            with faults.armed(vm, "at=nosuch do=drop"):
                pass
        assert faults.rules_of(vm) == before
    finally:
        qmp.close()


def test_documents_name_every_word(tmp_path):
    """The documents name every word of fault rules and every x- property of the device."""
    hardware = HERE.parents[1] / "qemu-hw"
    documents = "".join((hardware / name).read_text("utf-8") for name in (
        "README.md", "FAULTS.md", "INSPECTION.md", "LINK.md", "SCHEDULING.md"))
    rules = (hardware / "fault/rules.c").read_text("utf-8")
    words = re.findall(r'^    \{ "([\w-]+)", KIND_', rules, re.M)
    names = re.findall(r'^    \[ROCE_FAULT_\w+\] = (?:\{ )?"([\w-]+)"', rules,
                       re.M)
    properties = {name for source in ("watch/objects.c", "fakernic.c") for name in
                  re.findall(r'"(x-[\w-]+)"', (
                      hardware / "device" / source).read_text("utf-8"))}
    assert len(words) > 25 and len(names) > 25 and len(properties) > 15
    assert not [name for name in [*words, *names, *properties]
                if f"`{name}" not in documents]
    said = fakernic_lab(tmp_path, "fault", "--help").stdout
    for text in (said, (HERE / "fakernic-lab.rst").read_text("utf-8")):
        assert not [name for name in [*words, *names]
                    if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)]


# ---- a machine that lacks things ---------------------------------------------

def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_no_qemu(tmp_path):
    result = fakernic_lab(tmp_path, "run", "--image", "/etc/hostname", "--",
                          "true", FAKERNIC_CACHE=str(tmp_path), FAKERNIC_ROOT="0",
                          FAKERNIC_QEMU="", PATH="/usr/bin:/bin")
    assert result.returncode == CANNOT
    assert "install the package fakernic-qemu" in result.stderr


def on_host(monkeypatch, flags, refusal=None):
    """A processor with these flags; opening /dev/kvm raises REFUSAL."""
    def opened(*_words):
        if refusal:
            raise refusal
        return os.dup(0)

    monkeypatch.delenv("FAKERNIC_ACCEL", raising=False)
    monkeypatch.setattr("fakernic_lab.places.Path", lambda _path: SimpleNamespace(
        read_text=lambda **_words: f"flags\t\t: fpu {flags} sse\n"))
    monkeypatch.setattr("fakernic_lab.places.os.open", opened)


@pytest.mark.parametrize("flags, refusal, reason", (
    ("", None, "offers no virtualization"),
    ("vmx", FileNotFoundError(), "there is no /dev/kvm"),
    ("svm", PermissionError(), "join the group kvm"),
    ("svm", OSError(errno.ENODEV, "No such device"), "No such device")),
    ids=("processor", "device", "right", "module"))
def test_missing_kvm_is_reported_with_its_cost(monkeypatch, capsys, flags, refusal,
                                           reason):
    on_host(monkeypatch, flags, refusal)
    assert places.accelerator() == "tcg"
    cli.report_accelerator([])
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and reason in said, said
    assert "emulated" in said and "10 times slower" in said, said


def test_arm64_processor_needs_no_flag_for_kvm(monkeypatch):
    """Only /proc/cpuinfo of x86 has flags of virtualization."""
    on_host(monkeypatch, "")
    monkeypatch.setattr(places, "HOST", arches.ARCHES["arm64"])
    assert places.why_no_kvm() is None
    on_host(monkeypatch, "", FileNotFoundError())
    assert places.why_no_kvm() == "there is no /dev/kvm"


def test_kvm_is_used_silently(monkeypatch, capsys):
    on_host(monkeypatch, "vmx")
    assert places.accelerator() == "kvm"
    cli.report_accelerator([])
    assert capsys.readouterr() == ("", "")


def arch_sh(folder, cpu, *words, text=""):
    """ci/arch.sh on a host whose uname reports this processor."""
    uname = folder / "uname"
    uname.write_text(f"#!/bin/sh\necho {cpu}\n")
    uname.chmod(0o755)
    return subprocess.run(["/src/ci/arch.sh", *words], input=text, text=True, check=False,
                          capture_output=True, env={"PATH": f"{folder}:/usr/bin:/bin"})


@pytest.mark.parametrize("arch", arches.ARCHES.values(), ids=lambda arch: arch.name)
def test_scripts_and_launcher_read_the_same_facts(tmp_path, arch):
    """On a host of each architecture."""
    facts = arch._asdict()
    for fact, value in facts.items():
        assert arch_sh(tmp_path, arch.cpu, fact).stdout == f"{value}\n"
    text = "".join(f"{fact}: @{fact}@, @unknown@\n" for fact in facts)
    filled = "".join(f"{fact}: {value}, @unknown@\n" for fact, value in facts.items())
    assert arch_sh(tmp_path, arch.cpu, "--fill", text=text).stdout == filled


def test_unknown_host_and_unknown_fact_are_reported(tmp_path):
    done = arch_sh(tmp_path, "sparc", "name")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == ("fakernic: this machine is sparc: use one of " +
                           ", ".join(arch.cpu for arch in arches.ARCHES.values()) + "\n")
    done = arch_sh(tmp_path, "x86_64", "nofact")
    assert done.returncode == 1 and "no fact 'nofact'" in done.stderr


@pytest.mark.parametrize("version, cpus, single", (
    ("10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", 4, True),
    ("10.2.2", 2, True),
    ("10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", 1, False),
    ("10.0.13 (fakernic)", 4, False),
    ("11.1.1", 4, False), ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", 4, False)))
def test_qemu_that_loses_accesses_emulates_one_processor_at_a_time(
        monkeypatch, tmp_path, version, cpus, single):
    on_host(monkeypatch, "")
    qemu = script(tmp_path / "qemu", f"echo 'QEMU emulator version {version}'")
    assert places.acceleration([str(qemu)], cpus) == (
        "tcg,thread=single" if single else "tcg")


def test_no_guest_image(tmp_path):
    result = fakernic_lab(tmp_path, "run", "--", "true", FAKERNIC_ROOT="0",
                          FAKERNIC_CACHE=str(tmp_path))
    assert result.returncode == CANNOT
    assert "'make build-image'" in result.stderr and "--image" in result.stderr


def test_qemu_without_the_device(tmp_path):
    plain = script(tmp_path / "qemu", "echo 'name \"e1000\", bus PCI'")
    result = fakernic_lab(tmp_path, "run", "--image", "/etc/hostname", "--qemu",
                          plain, "--", "true")
    assert result.returncode == CANNOT
    assert "has no device fakernic" in result.stderr


def test_qemu_that_does_not_run(tmp_path):
    broken = script(tmp_path / "qemu", "echo 'lib is missing' >&2; exit 1")
    with pytest.raises(LabError, match="lib is missing"):
        places.require_device([str(broken)])


def test_qemu_without_memory_is_reported_in_one_line(tmp_path):
    """As with 'ulimit -v': the guest has printed nothing yet."""
    qemu = script(tmp_path / "qemu", """case "$*" in
*help*) echo 'name "fakernic"' ;;
*) echo "qemu: cannot set up guest memory 'ram': Cannot allocate memory" >&2; exit 1 ;;
esac""")
    result = fakernic_lab(tmp_path, "run", "-n", "1", "--image", "/etc/hostname", "--qemu",
                          qemu, "--", "true")
    line = result.stderr.splitlines()[-1]
    assert result.returncode == CANNOT and result.stderr.count("node1") == 1, result
    assert "node1 did not boot: its QEMU ended with 1: qemu: cannot set up" in line, result
    assert "run fewer (-n)" in line, result


def test_foreign_folder_is_not_emptied(tmp_path):
    (tmp_path / "precious").write_text("", encoding="utf-8")
    with pytest.raises(LabError, match="holds other things"):
        prepare_out(tmp_path)
    mine, mark = prepare_out(tmp_path / "mine")
    (mine / "console").write_text("", encoding="utf-8")
    (mine / "node1").mkdir()
    mark.close()
    with prepare_out(mine)[1]:
        assert [path.name for path in mine.iterdir()] == [MARK]


@pytest.fixture(name="memory")
def memory_fixture(tmp_path, monkeypatch):
    """A folder in the role of the memory file system."""
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(recordings, "MEMORY", memory)
    return memory


def record_in(folder):
    """Makes a record with some data in it."""
    path = folder / recordings.RECORD
    recordings.prepare([path])
    path.write_bytes(b"entries" + bytes(1 << 20))
    return path


def test_growing_record_is_in_memory(tmp_path, memory):
    path = record_in(tmp_path)
    assert path.is_symlink() and path.resolve().parent == memory
    recordings.leave(path)
    assert not path.is_symlink() and not list(memory.iterdir())
    assert path.read_bytes() == b"entries" + bytes(1 << 20)
    recordings.leave(path)
    assert path.exists()


@pytest.mark.parametrize("lacking", ("folder", "room"))
def test_record_without_memory_is_on_disk(tmp_path, memory, monkeypatch,
                                            lacking):
    if lacking == "folder":
        memory.rmdir()
    else:
        monkeypatch.setattr(places, "free_memory", lambda: 1)
    path = record_in(tmp_path)
    assert not path.is_symlink()
    recordings.leave(path)
    assert path.exists()


def test_all_records_are_in_memory_or_none(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(places, "free_memory",
                        lambda: 3 * recordings.RECORD_BYTES >> 20)
    recordings.prepare([tmp_path / "1", tmp_path / "2"])
    assert not list(memory.iterdir())
    recordings.prepare([tmp_path / "1"])
    assert list(memory.iterdir())


def test_record_that_cannot_be_moved_is_kept(tmp_path, memory, capsys):
    path = record_in(tmp_path)
    path.with_name(f"{path.name}.new").mkdir()
    (path.with_name(f"{path.name}.new") / path.resolve().name).mkdir()
    recordings.leave(path)
    assert "is still" in capsys.readouterr().err
    assert path.is_symlink() and path.read_bytes().startswith(b"entries")
    assert list(memory.iterdir())


def test_record_of_another_lab_is_kept(tmp_path, monkeypatch):
    """A new lab may use the folder of a killed lab. The killed one must not take the new
    one's record."""
    monkeypatch.setattr(recordings, "END_S", 0)
    monkeypatch.setattr(recordings, "MEMORY", tmp_path)
    (tmp_path / "node1").mkdir()
    path = record_in(tmp_path / "node1")
    with open(path, "rb") as device:
        fcntl.flock(device, fcntl.LOCK_EX)
        recordings.leave(path)
        assert path.is_symlink() and path.exists()
    recordings.leave(path)
    assert not path.is_symlink()


def test_killed_lab_leaves_no_record_in_memory(tmp_path, memory):
    out, mark = prepare_out(tmp_path / "out")
    (out / "node1").mkdir()
    record_in(out / "node1")
    (out / "node1" / "record-other").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("", encoding="utf-8")
    mark.close()
    assert list(memory.iterdir())
    prepare_out(out)[1].close()
    assert not list(memory.iterdir()) and (tmp_path / "precious").exists()


def test_removed_folder_leaves_no_record(tmp_path, memory):
    (tmp_path / "gone").mkdir()
    path = record_in(tmp_path / "gone")
    with open(path, "rb") as device:
        fcntl.flock(device, fcntl.LOCK_EX)
        path.unlink()
        recordings.prepare([])
        assert list(memory.iterdir())
    (tmp_path / "here").mkdir()
    record_in(tmp_path / "here")
    assert len(list(memory.iterdir())) == 2


def test_record_in_progress_is_kept(memory):
    """Another launcher is about to write the path of the link into the owner file."""
    record = memory / f"{recordings.PREFIX}x"
    record.touch()
    recordings.owner_of(record).touch()
    recordings.prepare([])
    assert record.exists()


def test_link_in_memory_is_not_written_to(tmp_path, memory, monkeypatch):
    """Any user can guess the name and create a link in that folder."""
    taken = memory / f"{recordings.PREFIX}x"
    taken.touch()
    monkeypatch.setattr(recordings.tempfile, "mkstemp", lambda **_: (
        os.open(taken, os.O_RDWR), str(taken)))
    recordings.owner_of(taken).symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError):
        recordings.prepare([tmp_path / "1"])
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize("end", ["", recordings.OWNER])
def test_pipe_in_memory_does_not_block_launcher(tmp_path, memory, end):
    """Any user can create a pipe in that folder: with the name of a record, or of an owner
    file."""
    pipe = memory / f"{recordings.PREFIX}x"
    recordings.owner_of(pipe).write_text(str(tmp_path / "gone"), "utf-8")
    pipe = pipe.with_name(f"{pipe.name}{end}")
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    reaper = threading.Thread(target=recordings.prepare, args=([],), daemon=True)
    reaper.start()
    reaper.join(60)
    assert not reaper.is_alive() and pipe.exists()


@pytest.mark.parametrize("kind", ["link", "another's", "nonsense"])
def test_foreign_files_in_memory_are_kept(tmp_path, memory, monkeypatch, kind):
    (tmp_path / "gone").mkdir()
    path = record_in(tmp_path / "gone")
    owner = recordings.owner_of(path.resolve())
    path.unlink()
    if kind == "link":
        owner.rename(tmp_path / "owner")
        owner.symlink_to(tmp_path / "owner")
    else:
        if kind == "nonsense":
            owner.write_bytes(b"\xff")
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    recordings.prepare([])
    assert len(list(memory.iterdir())) == 2


@pytest.mark.parametrize("error, words", [
    (RecordError("a: too short"), "a: too short"),
    (KeyError(5), "KeyError: 5"),
    (ValueError("one\ntwo"), "ValueError: one two"),
    (OSError(errno.ENOSPC, "full"), "OSError: [Errno 28] full")])
def test_failed_timeline_is_reported_in_one_line(capsys, error, words):
    """An error in the timeline is one line, and does not change the verdict on the
    commands."""
    def make_timeline():
        raise error
    assert cli.report_timeline(SimpleNamespace(
        record=True, make_timeline=make_timeline)) == CANNOT
    assert capsys.readouterr().err == f"fakernic-lab: no timeline: {words}\n"


def test_failed_timeline_keeps_result_of_run(tmp_path, monkeypatch, capsys):
    class FakeLab:
        """A Lab whose machines have run a command."""
        nodes, record, images = (None,), True, ()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def collect(self, *_):
            pass

        faults_missed = traces_missed = expect = collect

        def make_timeline(self):
            raise KeyError(5)
    monkeypatch.setattr(cli, "Lab", lambda **_: FakeLab())
    monkeypatch.setattr(cli, "lab_arguments", lambda *_: {})
    monkeypatch.setattr(launch, "run_all", lambda *_, **__: (
        launch.Verdict(7, "node1: exit code 7", "it said"), []))
    report = tmp_path / "report.xml"
    assert cli.run(cli.build_parser().parse_args(
        ["run", "--timeline", "--memory", "128", "--junit", str(report), "--",
         "false"])) == 7
    assert "node1: exit code 7" in report.read_text("utf-8")
    said = capsys.readouterr().err.splitlines()
    assert "fakernic-lab: no timeline: KeyError: 5" in said
    assert "fakernic-lab: node1: exit code 7" in said


class FakeMonitor:
    """A monitor for a program that is not QEMU."""

    def __init__(self, path):
        self.path = path

    def close(self):
        pass


def test_folder_in_use_is_not_emptied(tmp_path, monkeypatch):
    """A folder stays in use while its machines run, also when the process that started
    them has ended."""
    monkeypatch.setattr("fakernic_lab.lab.IN_USE_S", 0)
    monkeypatch.setattr("fakernic_lab.machine.QMP", FakeMonitor)
    monkeypatch.setattr("fakernic_lab.images.write_tools", Path.touch)
    out, mark = prepare_out(tmp_path / "out")
    qemu = script(tmp_path / "qemu", "exec sleep 60")
    machine = Machine("node1", out / "node1", image=DiskImage("/dev/null"),
                      qemu=[str(qemu)], sockets=tmp_path / "s", keeps=[mark])
    for use in (machine.launch, mark.close):
        use()
        with pytest.raises(LabError, match="in use"):
            prepare_out(out)
    monkeypatch.setattr("fakernic_lab.lab.IN_USE_S", 5)
    machine.stop()
    prepare_out(out)[1].close()


def described(nodes, ready=True):
    """The saved state of machines that stay."""
    return {"environment": {}, "out": "", "ready": ready, "relay": None,
            "record": False, "whole": True, "nodes": nodes}


def described_node(folder, number, pid):
    return {"name": f"node{number}", "number": number, "pid": pid, "directory": str(folder),
            "work": None, "ibdev": "i", "netdev": "n", "stamped": False}


def test_down_keeps_folder_of_user(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    (tmp_path / "precious").write_text("", encoding="utf-8")
    stay.make_folder()
    stay.state_file().write_text(json.dumps(described(nodes=[])))
    stay.down()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_machines_of_killed_up_are_ended(tmp_path, monkeypatch):
    """Machines of an 'up' that was killed cannot be used, and 'down' ends them."""
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    qmp = stay.make_folder() / "node1/qmp"
    with subprocess.Popen(["sh", "-c", "sleep 60; :", qmp]) as qemu:
        stay.state_file().write_text(json.dumps(described(
            [described_node(tmp_path, 1, qemu.pid)], ready=False)))
        while not stay.running().nodes[0].vm.is_running():
            time.sleep(0.01)
        with pytest.raises(LabError, match="not up yet"):
            stay.healthy()
        with pytest.raises(LabError, match="up already"):
            stay.up({})
        stay.down()
        assert qemu.wait(10) == -signal.SIGKILL


def test_both_qemus_of_a_killed_migrate_are_ended(tmp_path, monkeypatch):
    """'down' ends the second QEMU too, if 'migrate' was killed while both ran."""
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    sockets = stay.make_folder()
    qemus = [subprocess.Popen(["sh", "-c", "sleep 60; :", sockets / name / "qmp"])
             for name in ("node1", "node1+")]
    first, second = (qemu.pid for qemu in qemus)
    stay.state_file().write_text(json.dumps(described(
        [{**described_node(tmp_path, 1, first), "others": [("node1+", second)]}])))
    lab = stay.running()
    while not all(vm.is_running() for vm in (lab.nodes[0].vm, *lab.others)):
        time.sleep(0.01)
    lab.stop()
    assert [qemu.wait(10) for qemu in qemus] == [-signal.SIGKILL] * 2


class FakeLab:
    """A Lab that checks the saved state while it starts."""

    def __init__(self, fails=False, **_):
        self.environment, self.out, self.relay = {}, "", None
        self.record, self.captured, self.shell, self.netdev = False, None, None, None
        self.nodes, self.numbers = [], []
        self.fails, self.seen = fails, []

    def records_are_whole(self):
        return True

    def launch(self):
        self.seen.append(stay.state_file().exists())

    def await_boot(self):
        self.seen.append(stay.running().ready)
        with pytest.raises(LabError, match="being started"):
            stay.alone(stay.folder()).__enter__()
        if self.fails:
            raise KeyboardInterrupt

    def stop(self):
        self.seen.append("stopped")


def test_state_is_there_before_a_boot(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    lab = FakeLab()
    monkeypatch.setattr(stay, "Lab", lambda **_: lab)
    assert stay.up({}) == [] and lab.seen == [False, False]
    assert stay.running().ready
    stay.down()
    lab = FakeLab(fails=True)
    with pytest.raises(KeyboardInterrupt):
        stay.up({})
    assert lab.seen == [False, False, "stopped"]


def test_simultaneous_commands_do_not_end_each_other(tmp_path, monkeypatch):
    """An 'up' that removes the remains of old machines must not end machines that another
    'up' starts at the same time, nor remove their folder. 'down' does not end a machine
    while another command moves it, which would leave its second QEMU. A lock of a folder
    that was removed is not a lock."""
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    sockets = stay.make_folder()
    stay.state_file().write_text(json.dumps(described(
        [described_node(tmp_path, 1, None)])))
    with stay.alone(sockets):
        for command in (lambda: stay.up({}), stay.down):
            with pytest.raises(LabError, match="being started"):
                command()
            assert stay.state_file().exists()
    lab = FakeLab()
    monkeypatch.setattr(stay, "Lab", lambda **_: lab)
    assert stay.up({}) == [] and lab.seen == [False, False]
    monkeypatch.setattr(stay.fcntl, "flock", lambda *_: shutil.rmtree(sockets))
    with pytest.raises(LabError, match="ended the machines"):
        stay.alone(sockets).__enter__()


@pytest.mark.parametrize("error, raised", (
    (LabError("no room"), LabError), (QMPError("no"), LabError), (OSError("gone"), LabError),
    (KeyboardInterrupt(), KeyboardInterrupt)))
def test_second_qemu_of_a_failed_move_is_ended(tmp_path, monkeypatch, error, raised):
    """The machine continues in its first QEMU, also if a user interrupts the move."""
    asked = []

    class Source(FakeMonitor):
        def cmd(self, command):
            asked.append(command)

    def start_target(machine):
        machine.use_sockets(tmp_path / "node1+")
        machine.process = subprocess.Popen(["sleep", "60"])

    def transfer(machine, _):
        asked.append(machine.process)
        raise error
    monkeypatch.setattr("fakernic_lab.machine.QMP", Source)
    monkeypatch.setattr(Machine, "start_target", start_target)
    monkeypatch.setattr(Machine, "transfer", transfer)
    machine = Machine.running("node1", tmp_path, tmp_path / "node1", None)
    with pytest.raises(raised):
        machine.move()
    target, command = asked
    assert target.poll() == -signal.SIGKILL and command == "cont"
    assert machine.sockets == tmp_path / "node1" and machine.process is None


@pytest.mark.parametrize("command", (stay.migrate, saved.snapshot))
def test_one_command_at_a_time_moves_machines(tmp_path, monkeypatch, command):
    """A second 'snapshot' or 'migrate' changes nothing while the first one runs."""
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    with pytest.raises(LabError, match="no machines are up"):
        command(SimpleNamespace(node="node1"))
    with stay.alone(stay.make_folder()):
        stay.state_file().write_text(json.dumps(described(nodes=[])))
        with pytest.raises(LabError, match="moved or ended by another"):
            command(SimpleNamespace(node="node1"))


def foreign_mode(path):
    path.mkdir(mode=0o777)
    path.chmod(0o777)


def foreign_link(path):
    target = path.parent / "elsewhere"
    target.mkdir(mode=0o700)
    path.symlink_to(target)


@pytest.mark.parametrize("plant", (foreign_mode, foreign_link, Path.touch))
def test_foreign_state_is_not_trusted(tmp_path, monkeypatch, plant):
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    plant(stay.folder())
    for use in (stay.make_folder, stay.running):
        with pytest.raises(LabError, match="not a folder that is yours alone"):
            use()


def test_foreign_process_is_not_ended(tmp_path):
    """A PID in the saved state may belong to another process by now."""
    with subprocess.Popen(["sleep", "60"]) as other:
        relay.Relay.running(tmp_path, ["node1"], other.pid).stop()
        there = Machine.running("node1", tmp_path, tmp_path / "x", other.pid)
        assert not there.is_running()
        there.stop()
        assert other.poll() is None
        other.kill()
    with subprocess.Popen(["sh", "-c", "sleep 60; :", tmp_path / "wire"]) as own:
        wire = relay.Relay.running(tmp_path, ["node1"], own.pid)
        while not wire.is_running():    # until exec() has set its arguments
            time.sleep(0.01)
        wire.stop()
        assert own.wait(10) == -signal.SIGKILL


def deaf_node(folder, number, asked):
    """A machine whose agent never answers. Its request fails when all machines have got
    one."""
    name = f"node{number}"
    (folder / name).mkdir()

    def run(*_):
        asked.wait()
        raise GuestTimeout(f"the agent of {name} does not answer")
    return SimpleNamespace(name=name, guest=SimpleNamespace(run=run),
                           vm=SimpleNamespace(directory=folder / name))


@pytest.mark.parametrize("of", (Lab, stay.Running))
def test_silent_machines_are_awaited_together(tmp_path, of):
    """All machines are asked at the same time, also with few processors."""
    asked = threading.Barrier(NODES_MAX, timeout=10)
    lab = SimpleNamespace(nodes=[deaf_node(tmp_path, number, asked)
                                 for number in range(1, NODES_MAX + 1)])
    of.collect(lab)
    assert not asked.broken


def test_machine_that_never_started_can_be_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("fakernic_lab.images.write_tools", Path.touch)
    machine = Machine("node1", tmp_path / "node1", image=DiskImage("/dev/null"),
                      qemu=["qemu"], sockets=tmp_path / "sockets")
    assert not machine.is_running() and machine.pid is None
    machine.stop()


def test_exec_in_one_machine_knows_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path))
    seen = []

    def run_all(lab, commands, *_, nodes):
        seen.append((len(lab.nodes), commands, [node.name for node in nodes]))
        return launch.Verdict(0), []
    monkeypatch.setattr(launch, "run_all", run_all)
    lab = stay.Running(described([described_node(tmp_path, number, None)
                                  for number in (1, 2)]))
    monkeypatch.setattr(stay, "healthy", lambda: lab)
    for node in ("node2", "all"):
        stay.execute(cli.build_parser().parse_args(["exec", node, "--", "a"]))
    assert seen == [(2, ["a"], ["node2"]), (2, ["a", "a"], ["node1", "node2"])]


@pytest.mark.parametrize("option", (["--pcap"], ["--junit"],
                                    ["--link", "shared", "--pcap"]), ids=" ".join)
def test_files_are_opened_before_a_boot(tmp_path, option):
    qemu = script(tmp_path / "qemu", "echo 'name \"fakernic\"'")
    result = fakernic_lab(tmp_path, "run", "--image", "/etc/hostname", "--qemu",
                          qemu, *option, "/nosuch/file", "--", "true")
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1
    assert "/nosuch/file: No such file" in result.stderr, result
    assert not (tmp_path / "fakernic-lab.out").exists()


def test_unusable_folder_for_results_is_refused(tmp_path):
    """The line names the folder and another option, and nothing is left behind."""
    qemu = script(tmp_path / "qemu", "echo 'name \"fakernic\"'")
    (tmp_path / "file").touch()
    result = fakernic_lab(tmp_path, "run", "--image", "/etc/hostname", "--qemu", qemu,
                          "--out", "file/out", "--", "true")
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1
    assert "file/out: Not a directory: choose another --out" in result.stderr, result


@pytest.mark.parametrize("error", (OSError("disk"), QMPError("refused"),
                                   LookupError("no GID"), TimeoutError("late")))
def test_every_failure_is_one_line(monkeypatch, capsys, error):
    def fail(_):
        raise error
    monkeypatch.setitem(cli.ACTIONS, "status", fail)
    assert cli.main(["status"]) == CANNOT
    shown = capsys.readouterr().err
    assert str(error) in shown and shown.count("\n") == 1


# ---- small parts -------------------------------------------------------------

def test_commands():
    split = cli.split_commands
    assert split(["--", "a", "b c", ":", "d"]) == ["a 'b c'", "d"]
    assert split(["echo $FAKERNIC_NODE | cat"]) == ["echo $FAKERNIC_NODE | cat"]
    assert cli.spread(["a"], None) == ["a", "a"]
    assert cli.spread(["a"], 3) == ["a"] * 3
    assert cli.spread(["a", "b", "c"], None) == ["a", "b", "c"]


def test_values():
    assert cli.probability("1%") == cli.probability("0.01") == 0.01
    assert cli.microseconds("2ms") == 2000 and cli.microseconds("7") == 7


def test_mounts(tmp_path):
    mount = parse_mount(f"{tmp_path}:/src")
    assert (mount.source, mount.target, mount.writable) == (
        tmp_path.resolve(), "/src", False)
    assert parse_mount(f"{tmp_path}:/src:rw").writable


def test_format_of_a_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"QFI\xfb" + bytes(60))
    assert DiskImage(disk).format() == "qcow2"
    disk.write_bytes(bytes(64))
    assert DiskImage(disk).format() == "raw"
    assert DiskImage(disk).root() == "/dev/vda"
    disk.write_bytes(bytes(510) + b"\x55\xaa")
    assert DiskImage(disk).root() == "/dev/vda1"


def test_kernel_complaint_is_reported_once(tmp_path):
    console = Console(tmp_path / "console")
    assert console.trouble() is None
    with open(console.path, "ab", buffering=0) as file:
        file.write(b"\xff\xfe fine\r\n" * 20 + b"WARNING: one\r\n")
        assert "WARNING: one\n" in console.trouble()
        file.write(b"fine\r\nWARN")
        assert console.trouble() is None
        file.write(b"ING: two\r\n")
        assert "WARNING: two\n" in console.trouble()
        assert console.trouble() is None and console.judged == console.size()


DESTROYED = """
import os, signal, time
from fakernic_lab import cli

class Destroyed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

cli.take_signals()
try:
    Destroyed()
    time.sleep(10)
except KeyboardInterrupt:
    raise SystemExit(cli.CODE_INTERRUPTED)
"""


def test_interrupt_in_destructor_ends_program():
    """Ctrl-C during a destructor, whose exceptions Python ignores, still ends the program."""
    done = subprocess.run(
        ["env", "--default-signal=INT", sys.executable, "-c", DESTROYED],
        cwd=HERE, timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == cli.CODE_INTERRUPTED, done
    assert not done.stderr


PAGE_TWICE = b"""------------[ cut here ]------------\r
DMA-API: fakernic 0000:01:00.0: cacheline tracking EEXIST, overlapping mappings\r
WARNING: CPU: 0 PID: 203 at kernel/dma/debug.c:601 add_dma_entry+0x3c7/0x520\r
Call Trace:\r
 ib_umem_get+0x593/0x8f0 [ib_uverbs]\r
---[ end trace 0000000000000000 ]---\r
DMA-API: Mapped at:\r
"""


def prints_ignored_lines(console, file, report):
    """The console ignores REPORT, also if it comes line by line, and reports a complaint
    between two such reports."""
    for line in report.splitlines(True):
        file.write(line)
        assert console.trouble() is None
    file.write(report + b"WARNING: one\r\n" + report)
    assert "WARNING: one\n" in console.trouble()


def test_dma_debug_mappings_may_share_a_line(tmp_path):
    """Overlapping mappings of programs and of other modules are ignored, also if the
    report comes line by line. Those of the driver's queues are reported."""
    console = Console(tmp_path / "console")
    with open(console.path, "ab", buffering=0) as file:
        prints_ignored_lines(console, file, PAGE_TWICE)
        file.write(PAGE_TWICE.replace(
            b"fakernic 0000:01:00.0: cacheline tracking EEXIST,", b"exceeded 7"))
        assert console.trouble() is None
        for name in b"ib_umem_odp_map_dma_and_lock", b"nvme_rdma_alloc_qe":
            file.write(PAGE_TWICE.replace(b"ib_umem_get", name))
            assert console.trouble() is None
        file.write(PAGE_TWICE.replace(b"ib_umem_get", b"isert_create_send_desc")
                   .replace(b"cacheline tracking EEXIST, overlapping mappings",
                            b"device driver tries to sync")
                   .replace(b"---[", b"softirqs last disabled at (1): "
                            b"[<ff>] fakernic_eq_sync+0x20/0x1b0 [fakernic]\r\n---["))
        assert console.trouble() is None
        file.write(PAGE_TWICE.replace(
            b"cacheline tracking EEXIST, overlapping mappings",
            b"device driver has pending DMA allocations"))
        assert "pending" in console.trouble() and console.trouble() is None
        file.write(PAGE_TWICE.replace(b"ib_umem_get", b"fakernic_map_queue")
                   .replace(b"[ib_uverbs]", b"[fakernic]"))
        assert "EEXIST" in console.trouble()
        assert console.trouble() is None and console.judged == console.size()


def mixed(*ones):
    """Interleaves reports line by line, as if several CPUs printed at the same time."""
    return b"".join(b"".join(lines) for lines in
                    zip(*(one.splitlines(True) for one in ones), strict=True))


def test_dma_debug_mappings_of_several_cpus(tmp_path):
    """Of interleaved reports by several CPUs, one about the driver is not ignored."""
    console = Console(tmp_path / "console")
    own = PAGE_TWICE.replace(b"ib_umem_get", b"fakernic_map_queue").replace(
        b"[ib_uverbs]", b"[fakernic]")
    programs = PAGE_TWICE.replace(b"Call Trace:\r\n", b"Call Trace:\r\n"
                                  b" fakernic_pin_user_mr+0x89/0x1e0 [fakernic]\r\n")
    with open(console.path, "ab", buffering=0) as file:
        prints_ignored_lines(console, file, mixed(programs, programs, programs))
        for other, reported in (
                (own, "EEXIST"),
                (PAGE_TWICE.replace(b"overlapping mappings", b"no memory"), "no memory"),
                (PAGE_TWICE.replace(b"DMA-API: f", b"f"), "WARNING"),
                (PAGE_TWICE.replace(b"WARNING: ", b"BUG: KASAN: "), "KASAN")):
            other = other.replace(b"Call Trace:\r\n", b"Call Trace:\r\n line\r\n")
            file.write(mixed(programs, other))
            assert reported in console.trouble()
            assert console.trouble() is None and console.judged == console.size()


LOST = """unreferenced object 0xffff88801563ce00 (size 6400):
  comm "timeout", pid 982, jiffies 4295011644
  backtrace (crc 3b0ee1f2):
    kmem_cache_alloc_node_noprof+0x18b/0x340
    copy_process+0x3c8/0x89f0
"""


def test_known_leaks_of_linux_are_ignored():
    """Leaks of a task and of SMC are ignored. A leak of the driver between them is not."""
    drivers = LOST.replace("copy_process", "fakernic_create_cq")
    smcs = LOST.replace("copy_process", "smc_tcp_listen_work")
    assert not OTHERS_LEAK.sub("", LOST + smcs + LOST)
    assert OTHERS_LEAK.sub(
        "", "locks are not watched\n" + LOST + drivers + LOST) == (
            "locks are not watched\n" + drivers)


ORDER = b"""======================================================\r
WARNING: possible circular locking dependency detected\r
rdma_gone/113 is trying to acquire lock:\r
       CPU0                    CPU1\r
       ----                    ----\r
  lock(&file->disassociation_lock);\r
                               lock(&mm->mmap_lock/1);\r
                               lock(&file->disassociation_lock);\r
  rlock(&mm->mmap_lock);\r
Call Trace:\r
 <TASK>\r
 fakernic_ib_remove+0x34/0x160 [fakernic]\r
 </TASK>\r
"""


def test_lock_reports_without_driver_are_ignored(tmp_path):
    """A wrong order of locks of the RDMA core alone is ignored, also if it comes line by
    line. With a lock of the driver it is reported."""
    console = Console(tmp_path / "console")
    with open(console.path, "ab", buffering=0) as file:
        assert console.locks_are_watched()
        prints_ignored_lines(console, file, ORDER)
        assert not console.locks_are_watched()
        of_slots = ORDER.replace(b"&file->disassociation_lock",
                                 b"pci_rescan_remove_lock")
        for mapped in b"&mm->mmap_lock/1", b"&mm->mmap_lock":
            of_slots = of_slots.replace(mapped, b"&ctrl->reset_lock")
        prints_ignored_lines(console, file, of_slots)
        of_targets = of_slots.replace(b"pci_rescan_remove_lock", b"nvmet_config_sem")
        prints_ignored_lines(console, file, of_targets.replace(
            b"&ctrl->reset_lock", b"&id_priv->handler_mutex"))
        file.write(of_slots.replace(b"&ctrl->reset_lock", b"&mm->mmap_lock"))
        assert "pci_rescan" in console.trouble()
        file.write(ORDER.replace(b"mm->mmap_lock)", b"dev->life_lock)"))
        assert "life_lock" in console.trouble()
        assert console.trouble() is None and console.judged == console.size()


RACE = b"""==================================================================\r
BUG: KCSAN: data-race in tick_sched_timer / tick_nohz_idle_exit\r
\r
write to 0xffff88807d61f4a8 of 8 bytes by interrupt on cpu 1:\r
 tick_sched_timer+0x10/0x20\r
\r
Reported by Kernel Concurrency Sanitizer on:\r
CPU: 0 PID: 0 Comm: swapper/0\r
==================================================================\r
"""


def test_races_without_driver_are_ignored(tmp_path):
    """Data races in other code are ignored, also if the report comes line by line. Those of
    the driver are reported."""
    console = Console(tmp_path / "console")
    with open(console.path, "ab", buffering=0) as file:
        for line in RACE.splitlines(True):
            file.write(line)
            assert console.trouble() is None
        for name in (b"tick_sched_timer /", b"/ tick_nohz_idle_exit"):
            race = RACE.replace(name, name.replace(b"tick_", b"fakernic_tick_")
                                .replace(b" /", b" [fakernic] /")
                                .replace(b"exit", b"exit [fakernic]"))
            file.write(RACE + race + RACE)
            assert "[fakernic]" in console.trouble()
            assert console.trouble() is None
        assert console.judged == console.size()


OOM = """[  9.1] a invoked oom-killer: gfp_mask=0xcc0, order=0\r
[  9.1] Call Trace:\r
[  9.1]  <TASK>\r
[  9.1]  try_charge_memcg+0x3c8/0x670\r
[  9.1]  </TASK>\r
[  9.2] Memory cgroup out of memory: Killed process 207 (a)\r
"""
TASKS = """[  9.1] sysrq: Show State\r
[  9.1] task:bash            state:S stack:0     pid:207\r
[  9.1] Call Trace:\r
[  9.1]  <TASK>\r
[  9.1]  fakernic_cmd_wait+0x3c8/0x670 [fakernic]\r
[  9.1]  </TASK>\r
"""
CRASHED = """[  9.1] sysrq: Trigger a crash\r
[  9.1] Kernel panic - not syncing: sysrq triggered crash\r
[  9.1] Call Trace:\r
[  9.1]  <TASK>\r
[  9.1]  sysrq_handle_crash+0x1a/0x20\r
[  9.1]  </TASK>\r
"""


@pytest.mark.parametrize("kind, report", (
    ("oom", OOM), ("tasks", TASKS), ("crash", CRASHED)), ids=lambda one: one[:5])
def test_expected_trace_is_no_complaint(tmp_path, kind, report):
    """An expected trace is ignored, also if it comes line by line. Without the option it
    is a complaint, and so is another one between two expected traces."""
    plain = Console(tmp_path / "console")
    log = Console(tmp_path / "console")
    log.expect([kind])
    with open(log.path, "ab", buffering=0) as file:
        for line in report.encode().splitlines(True):
            file.write(line)
            assert log.trouble() is None
        assert log.met == {kind} and plain.trouble()
        file.write(f"{report}[ 9.3] WARNING: one\r\n{report}".encode())
        assert "WARNING: one\n" in log.trouble() and log.trouble() is None


@pytest.mark.parametrize("kind, report, own", (
    ("oom", OOM, "[  9.1]  fakernic_pin_user_mr+0x89/0x1e0 [fakernic]\r\n"),
    ("oom", OOM, "[  9.1] BUG: KASAN: use-after-free in fakernic_poll\r\n"),
    ("tasks", TASKS, "[  9.1] WARNING: CPU: 0 PID: 1 at fakernic/cq.c:1\r\n"),
    ("crash", CRASHED, "[  9.1]  fakernic_remove+0x89/0x1e0 [fakernic]\r\n")))
def test_trace_of_driver_is_always_a_complaint(tmp_path, kind, report, own):
    lines = report.splitlines(True)
    (tmp_path / "console").write_text("".join([*lines[:-1], own, lines[-1]]), "utf-8")
    log = Console(tmp_path / "console")
    log.expect([kind])
    assert own.strip() in log.trouble() and log.met == set()


def test_expected_crash_is_no_failure(tmp_path):
    """After an expected crash the machine may be gone. Complaints before it are reported."""
    log = tmp_path / "console"
    log.write_text(CRASHED, "utf-8")
    machine = Machine.running("node1", tmp_path, tmp_path, None)
    with pytest.raises(GuestCrashed, match="is lost"):
        machine.assert_healthy()
    machine.console.expect(["crash"])
    machine.console.judged = 0
    machine.assert_healthy()
    log.write_text(f"WARNING: one\n{CRASHED}", "utf-8")
    machine.console.judged = 0
    with pytest.raises(GuestCrashed, match="WARNING: one"):
        machine.assert_healthy()


def test_missing_expected_trace_fails_run():
    verdict = launch.without_misses(launch.Verdict(0), (launch.NO_TRACE, ["oom"]))
    assert (verdict.code, verdict.reason) == (
        1, "the kernel printed no trace of --expect: oom")
    assert launch.without_misses(launch.Verdict(3), ("", ["oom"])).code == 3
    assert launch.without_misses(launch.Verdict(0), ("", [])).code == 0


@pytest.mark.parametrize("line, stamped, plain", (
    ("WARNING: by a program", False, True),
    ("[  OK  ] BUG: nothing", False, True),
    ("[    1.234567] WARNING: CPU: 0", True, True),
    ("login: [  123.456789][   T12] BUG: sleeping", True, True),
    ("[  123.456789] all is well", False, False)))
def test_only_kernel_lines_are_complaints(tmp_path, line, stamped, plain):
    """In a user's image programs write to the console, too. So only lines with the
    kernel's time count there."""
    (tmp_path / "console").write_text(f"first\n{line}\nWARN\n")
    for wanted, only_stamped in ((stamped, True), (plain, False)):
        console = Console(tmp_path / "console", only_stamped)
        assert bool(console.trouble()) == wanted


def test_kernel_log_without_time_stamps(tmp_path, monkeypatch):
    """If the kernel printed no times before, its log is judged, and programs' lines are
    not."""
    machine = Machine.running("node1", tmp_path, tmp_path, os.getpid(), True)
    for said, complains in (("[    1.234567] BUG: sleeping\n", True),
                            ("WARNING: by a program\n", False), ("", False)):
        monkeypatch.setattr(machine.guest, "check", lambda _, said=said: said)
        if complains:
            with pytest.raises(GuestCrashed, match="BUG: sleeping"):
                machine.stamp_console()
        else:
            machine.stamp_console()


class FakeAgent:
    """A Guest and Session whose agent sends these lines."""

    def __init__(self, *lines):
        self.lines, self.given = list(lines), []
        self.broken, self.unsure = False, False
        self.vm = self

    def assert_alive(self):
        pass

    def send(self, line, _timeout=None):
        if line == "hello end":
            raise BrokenPipeError

    def line(self):
        return self.lines.pop(0).split()

    def take_session(self):
        return self

    def give_session(self, session):
        self.given.append(session)


def refuse(*_):
    raise OSError("no space left")


@pytest.mark.parametrize("on_output", (None, refuse))
def test_job_always_ends(on_output):
    agent = FakeAgent("pid 7", "out aGk=", "exit 3")
    job = Job(agent, "x", ["x"], on_output=on_output)
    assert job.started.wait(10) and job.ended.wait(10)
    assert agent.given == [agent] and agent.broken == bool(on_output)
    assert on_output or (job.result.code, job.result.out) == (3, "hi")
    job.ended.clear()
    job.kill()


class FakeRun:
    """The attributes of a Run that junit needs."""

    def __init__(self, code, text, skipped=False):
        self.node = type("Node", (), {"name": "node1"})
        self.command, self.code, self.skipped = "a <b>", code, skipped
        self.seconds = 1
        self.text = lambda: text


def test_junit(tmp_path):
    path = tmp_path / "report.xml"
    junit.write(path, launch.Verdict(120, "node1 is lost", "its last words"),
                [FakeRun(0, "fine \x1b[0m\0"), FakeRun(3, ""),
                 FakeRun(0, "", True)])
    text = path.read_text(encoding="utf-8")
    assert 'tests="4"' in text and 'failures="2"' in text, text
    assert 'skipped="1"' in text and "its last words" in text
    assert "\x1b" not in text and "\0" not in text
