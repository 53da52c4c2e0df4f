# SPDX-License-Identifier: GPL-2.0-or-later
"""--root and --until: what needs no machine. Trees of a few files stand for those of
distributions, and local shells for machines.
"""

import os
import struct
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from command import fakernic_lab
from fakernic_lab import launch, ssh, tree, versions
from fakernic_lab.errors import LabError

CANNOT = 125
X86_64, AARCH64, RISCV64 = 62, 183, 243
FOLDER = "usr/lib/x86_64-linux-gnu"


def elf(path, machine=X86_64, *texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HH", 3, machine) +
                     b"\0".join(text.encode() for text in ("", *texts, "")))


def make_tree(root, abi=34, release="56.2", folder=FOLDER, machine=X86_64, glibc="2.41"):
    """A tree as Debian has it; its libraries are for MACHINE."""
    elf(root / "usr/bin/bash", machine)
    (root / "bin").symlink_to("usr/bin")
    file = f"libibverbs.so.1.14.{release}"
    elf(root / folder / file, machine, f"/{folder}/libibverbs/lib%s-rdmav{abi}.so",
        "/etc/libibverbs.d")
    (root / folder / "libibverbs.so.1").symlink_to(file)
    elf(root / folder / "libc.so.6", machine, "GLIBC_2.2.5", f"GLIBC_{glibc}")
    return root


@pytest.fixture(name="providers", autouse=True)
def providers_folder(tmp_path, monkeypatch):
    """A cache with all providers."""
    cache = tmp_path / "cache"
    for releases, abi in versions.providers():
        elf(cache / f"images/providers/x86_64/{releases}/libfakernic-rdmav{abi}.so",
            X86_64, "GLIBC_2.34")
    monkeypatch.setattr(tree.images, "INSTALLED", tmp_path / "nosuch")
    monkeypatch.setattr(tree.images.places, "INSIDE", False)
    monkeypatch.setenv("FAKERNIC_CACHE", str(cache))
    return cache / "images/providers/x86_64"


@pytest.mark.parametrize("releases, abi", versions.providers())
def test_provider_fits_abi_and_release(tmp_path, providers, releases, abi):
    for number, release in enumerate(releases.split("-")):
        found = tree.Tree(make_tree(tmp_path / f"tree{number}", abi, f"{release}.3"), "x86_64")
        assert found.provider == providers / releases / f"libfakernic-rdmav{abi}.so"
        assert found.providers == f"/{FOLDER}/libibverbs"
        assert found.drivers == "/etc/libibverbs.d" and found.shell == "/bin/bash"


def test_the_trees_own_provider_is_kept(tmp_path):
    root = make_tree(tmp_path / "tree", 70, "70.0")
    elf(root / FOLDER / "libibverbs/libfakernic-rdmav70.so")
    found = tree.Tree(root, "x86_64")
    assert found.provider is None and len(found.mounts()) == 1
    assert "fakernic.driver" not in found.script([])


def without(name):
    return lambda root: (root / name).unlink()


# What is wrong with a tree -> what the one line says.
REFUSED = {
    "no shell": (without("usr/bin/bash"), "no /bin/sh"),
    "shell is a script": (lambda root: (root / "usr/bin/bash").write_text("#!x\n"),
                          "bash is no program"),
    "no libibverbs": (without(f"{FOLDER}/libibverbs.so.1"),
                      "install the package libibverbs1"),
    "dangling link": (without(f"{FOLDER}/libibverbs.so.1.14.56.2"),
                      "no libibverbs.so.1 in it"),
    "link without end": (lambda root: [
        (root / FOLDER / "libibverbs.so.1").unlink(),
        (root / FOLDER / "libibverbs.so.1").symlink_to("libibverbs.so.1")],
        "no libibverbs.so.1 in it"),
    "another C library": (without(f"{FOLDER}/libc.so.6"), "has another C library"),
    "old glibc": (lambda root: elf(root / FOLDER / "libc.so.6", X86_64, "GLIBC_2.31"),
                  "needs glibc 2.34, but the tree has 2.31"),
    "other ABI": (lambda root: elf(root / FOLDER / "libibverbs.so.1.14.56.2", X86_64,
                                   "/x/libibverbs/lib%s-rdmav59.so"),
                  "no provider for libibverbs.so.1.14.56.2 (private ABI 59), only for "
               "rdma-core 37-43, "),
    "no release": (lambda root: (root / FOLDER / "libibverbs.so.1.14.56.2").rename(
        root / FOLDER / "libibverbs.so.1"), "no provider for libibverbs.so.1 (private"),
    "no ABI": (lambda root: elf(root / FOLDER / "libibverbs.so.1.14.56.2"),
               "does not say which providers"),
    "other machine": (lambda root: elf(root / "usr/bin/bash", AARCH64),
                      "a tree for arm64, but the machines are x86_64"),
    "other library": (lambda root: elf(root / FOLDER / "libibverbs.so.1.14.56.2",
                                       RISCV64), "a tree for riscv64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tree_is_refused_in_one_line(tmp_path, case):
    spoil, words = REFUSED[case]
    root = make_tree(tmp_path / "tree")
    spoil(root)
    with pytest.raises(LabError) as error:
        tree.Tree(root, "x86_64")
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name, words", (
    ("nosuch", "No such file or directory"), ("tree.tar", "unpack it into a folder"),
    ("empty", "no /bin/sh")))
def test_command_refuses_what_is_no_tree(tmp_path, name, words):
    (tmp_path / "tree.tar").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    result = fakernic_lab(tmp_path, "run", "--root", name, "--", "true")
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1, result
    assert words in result.stderr and f"--root {tmp_path / name}" in result.stderr
    assert not (tmp_path / "fakernic-lab.out").exists()


def test_missing_provider_says_how_to_get_it(tmp_path, providers):
    root = make_tree(tmp_path / "tree")
    (providers / "45-56/libfakernic-rdmav34.so").unlink()
    with pytest.raises(LabError, match="run 'make build-image' in a checkout"):
        tree.Tree(root, "x86_64")


def test_links_stay_in_the_tree(tmp_path):
    """Those that begin with / and those with too many .. do not lead to the host."""
    root = make_tree(tmp_path / "tree")
    elf(root / "opt/real.so")
    for name, target in (("a", "/opt/real.so"), ("b", "../../../../opt/real.so"),
                         ("c", "a")):
        (root / name).symlink_to(target)
        assert tree.inside(root, name) == str(root / "opt/real.so")
    (root / "d").symlink_to("/etc/passwd")
    assert not os.path.exists(tree.inside(root, "d"))


def test_link_to_a_running_root_is_not_resolved(tmp_path):
    """/proc/PID/root leads to / for readlink(), but to the container for open()."""
    make_tree(tmp_path / "tree")
    (tmp_path / "root").symlink_to(tmp_path / "tree")
    mount = tree.Tree(tmp_path / "root", "x86_64").mounts()[0]
    assert str(mount.source) == str(tmp_path / "root")


# ---- ssh -------------------------------------------------------------------------

def test_key_is_one_that_ssh_reads(tmp_path):
    """The vector is test 1 of RFC 8032."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert ssh.public_key(seed).hex() == (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    private, public = ssh.make_key()
    (tmp_path / "key").write_text(private)
    (tmp_path / "key").chmod(0o600)
    shown = subprocess.run(["ssh-keygen", "-y", "-f", tmp_path / "key"],
                           capture_output=True, text=True, check=True).stdout
    assert shown == public and ssh.make_key()[1] != public


def test_sshd_passes_variables_of_commands():
    node = SimpleNamespace(environment=lambda: {
        "A": "plain", "B": 'a "b" \\ c', "C": "two\nlines"})
    text = ssh.configuration(node, view=True)
    assert 'SetEnv A="plain" B="a \\"b\\" \\\\ c"\n' in text
    assert f"ChrootDirectory {tree.VIEW}\n" in text and "lines" not in text
    assert "Chroot" not in ssh.configuration(node, view=False)


# ---- --until ---------------------------------------------------------------------

class LocalJob:
    """A local command with the methods of a guest's Job."""

    def __init__(self, script, on_output=None):
        self.process = subprocess.Popen(["bash", "-c", script], start_new_session=True,
                                        stdout=subprocess.PIPE)
        self.ended = threading.Event()
        self.killed = False
        threading.Thread(target=self.read, args=[on_output], daemon=True).start()

    def read(self, on_output):
        while data := self.process.stdout.read1(4096):
            on_output and on_output("out", data)
        self.process.wait()
        self.ended.set()

    def poll(self):
        return self.wait() if self.ended.is_set() else None

    def wait(self):
        self.ended.wait()
        return SimpleNamespace(code=self.process.returncode, out="")

    def kill(self):
        self.killed = True
        if not self.ended.is_set():
            os.killpg(self.process.pid, 9)


class LocalNode:
    """A machine whose commands run here."""

    def __init__(self, number, folder):
        self.name = f"node{number}"
        (folder / self.name).mkdir(exist_ok=True)
        self.vm = SimpleNamespace(
            crashed_as_expected=lambda: False, folder=SimpleNamespace(
                create=lambda name: open(folder / self.name / name, "w+b"),
                path=folder / self.name),
            console=SimpleNamespace(tail=lambda _: ""), status=lambda _: "running",
            name=self.name)
        self.guest = SimpleNamespace(
            start=lambda script, _limit: LocalJob(script),
            run=lambda script: SimpleNamespace(out=""))

    def start(self, command, timeout, on_output, terminal):
        assert timeout is None and terminal is None
        return LocalJob(command, on_output)


@pytest.fixture(name="run")
def run_commands(tmp_path):
    def run(until, *commands, ready="now", timeout=60):
        nodes = [LocalNode(number, tmp_path)
                 for number in range(1, len(commands) + 1)]
        lab = SimpleNamespace(nodes=nodes, judge=lambda: None)
        begin = time.monotonic()
        verdict, runs = launch.run_all(lab, commands, timeout, ready, until=until)
        assert time.monotonic() - begin < 30
        return verdict, runs
    return run


@pytest.mark.parametrize("code", (0, 3))
def test_run_ends_with_that_command(run, code):
    """With its exit code; the servers are stopped, and have not failed."""
    verdict, runs = run("node1", f"sleep 0.3; exit {code}", "exec sleep 99",
                        "exec sleep 99")
    assert verdict.code == code
    assert [one.code for one in runs] == [code, 0, 0]
    assert [one.job.killed for one in runs] == [False, True, True]


@pytest.mark.parametrize("code, reason", (
    (0, ""), (4, "node2 ended with 4, node1 ended with 5")))
def test_server_that_ends_does_not_end_the_run(run, tmp_path, code, reason):
    """Only the exit code of node2 counts; if that is not 0, the line has both."""
    wait = f"until [ -e {tmp_path}/{{}} ]; do sleep 0.05; done; ".format
    verdict, _ = run("node2", f"{wait('client')} touch {tmp_path}/ends; exit 5",
                     f"touch {tmp_path}/client; {wait('ends')} sleep 1; exit {code}")
    assert (verdict.code, verdict.reason) == (code, reason)


def test_servers_start_first(run, tmp_path):
    """node1 starts when its servers are ready."""
    ready, seen = tmp_path / "ready", tmp_path / "seen"
    verdict, _ = run("node1", f"test -e {ready} && touch {seen}",
                     f"sleep 0.5; touch {ready}; exec sleep 99",
                     ready=f"test -e {ready}")
    assert verdict.code == 0 and seen.exists()


def test_client_does_not_start_if_a_server_failed(run, tmp_path):
    verdict, runs = run("node1", f"touch {tmp_path}/started", "exit 127",
                        ready="false")
    assert (verdict.code, verdict.reason) == (127, "node2 ended with 127")
    assert runs[0].skipped and not (tmp_path / "started").exists()


def test_time_limit_names_that_machine_only(run):
    verdict, _ = run("node1", "exec sleep 99", "exec sleep 99", timeout=1)
    assert verdict.code == 124 and verdict.reason.startswith("node1 not done")


def test_alone(run):
    assert run("node1", "exit 6")[0].code == 6


@pytest.mark.parametrize("words, said", (
    (("--until", "node3", "--", "a", ":", "b"), "there is no node3, only node1, node2"),
    (("--until", "first", "--", "a"), "there is no first"),
))
def test_until_refused_in_one_line(tmp_path, words, said):
    result = fakernic_lab(tmp_path, "run", *words)
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1, result
    assert said in result.stderr
