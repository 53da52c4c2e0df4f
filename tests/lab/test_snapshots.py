# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of machines: which one fits, broken and old ones, a full disk, other users; and
the steps of the agent. No machine is booted: the saved machine is a fake."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fakernic_lab import places, rdma, snapshots
from fakernic_lab.errors import GuestCrashed
from fakernic_lab.images import ProjectImage
from fakernic_lab.lab import Lab, Node
from fakernic_lab.machine import Mount
from fakernic_lab.snapshots import Unusable

QEMU = ["/bin/true"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of snapshots, in which "saving" a machine writes three small files."""
    folder = tmp_path / "snapshots"
    monkeypatch.setenv("FAKERNIC_LAB_SNAPSHOTS", str(folder))
    monkeypatch.setenv("FAKERNIC_ACCEL", "tcg")
    images = tmp_path / "images"
    images.mkdir()
    monkeypatch.setattr("fakernic_lab.images.images", lambda: images)
    for path in ProjectImage().parts:
        path.write_text("old")
    made = []

    def save(new, *_):
        made.append(new)
        (new / "machine").mkdir()
        for name in snapshots.FILES:
            (new / name).write_bytes(os.urandom(100))
        files = [open(new / name, "rb") for name in snapshots.FILES]
        (new / snapshots.WHOLE).write_text(json.dumps(snapshots.described(files)))
    monkeypatch.setattr(snapshots, "save", save)
    return SimpleNamespace(folder=folder, made=made, images=images)


def chosen(memory=None, cpus=1, mounts=1, append="", qemu=None, disks=(), **more):
    return snapshots.chosen(ProjectImage(append=append, disks=disks), qemu or QEMU, memory,
                            cpus, mounts, **more)


def names(home):
    return sorted(path.name for path in home.folder.iterdir() if path.is_dir())


def test_second_run_uses_the_snapshot_of_the_first(home):
    """Equal options give the same snapshot, which is made once."""
    assert chosen().folder == chosen().folder
    assert len(home.made) == 1 and len(names(home)) == 1
    assert sorted(path.name for path in chosen().folder.iterdir()) == [
        "console", "memory", "state", "whole"]


@pytest.mark.parametrize("other", (
    {"memory": 512}, {"cpus": 2}, {"mounts": 3}, {"append": "quiet"},
    {"qemu": ["/bin/false"]}, {"disks": [Path("/bin/true")]}, {"prepare": "true"}), ids=str)
def test_other_options_have_a_snapshot_of_their_own(home, other):
    """A snapshot fits one set of options only."""
    assert chosen().folder != chosen(**other).folder


def test_new_image_replaces_an_old_snapshot(home):
    """A snapshot of an image that was built again is not used."""
    old = chosen().folder
    (home.images / "payload.erofs").write_text("new")
    assert chosen().folder != old


@pytest.mark.parametrize("name", (*snapshots.FILES, snapshots.WHOLE))
@pytest.mark.parametrize("harm", ("missing", "cut"))
def test_broken_snapshot_is_replaced(home, name, harm):
    """A new one replaces a snapshot with a missing or truncated file. No error appears."""
    path = chosen().folder / name
    if harm == "missing":
        path.unlink()
    else:
        os.truncate(path, 50)
    assert len(chosen().files) == 3 and len(home.made) == 2


def test_changed_state_is_replaced(home):
    """A state file of the right size with another content is not loaded."""
    (chosen().folder / "state").write_bytes(os.urandom(100))
    chosen()
    assert len(home.made) == 2


def test_new_snapshot_that_does_not_load_is_kept_out_for_an_hour(home):
    """A new snapshot that fails would fail again: machines boot for an hour."""
    snapshots.remove(chosen())
    with pytest.raises(Unusable, match="has failed before"):
        chosen()
    mark, = home.folder.glob("*/unusable")
    os.utime(mark, (0, 0))
    chosen()
    assert len(home.made) == 2


@pytest.mark.parametrize("tried", (False, True))
def test_snapshot_is_removed_only_if_it_was_loaded(home, tried):
    """A QEMU that does not start, as with a wrong fault rule, says nothing about the
    snapshot."""
    snapshot = chosen()
    snapshot.is_tried = tried
    done = []
    lab = SimpleNamespace(snapshots={"x": snapshot}, explain=done.append, relaunched=lambda: None,
                          take_back=lambda: None, launch_machines=lambda: done.append("boot"))
    with Lab.booting_instead(lab):
        raise GuestCrashed("no QEMU")
    assert done == ["the machines boot: no QEMU", "boot"]
    assert (snapshot.folder / "state").exists() != tried


def test_replaced_snapshot_is_not_removed(home):
    """A launcher whose snapshot fails does not remove the new one of another launcher."""
    failing = chosen()
    (failing.folder / "whole").unlink()
    other = chosen()
    snapshots.remove(failing)
    assert chosen().folder == other.folder and len(home.made) == 2


def test_machine_that_does_not_boot_makes_no_snapshot(home, monkeypatch):
    """An error while a snapshot is made leaves no files, and the text has the reason."""
    def fails(*_):
        raise GuestCrashed("no kernel")
    monkeypatch.setattr(snapshots, "save", fails)
    with pytest.raises(Unusable, match="no snapshot could be made: no kernel"):
        chosen()
    left, = home.folder.glob("*/*")
    assert left.name == snapshots.UNUSABLE


def test_interrupted_snapshot_is_removed(home, monkeypatch):
    """Ctrl-C leaves no half of a snapshot, and the next run makes it."""
    def interrupted(*_):
        raise KeyboardInterrupt
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(snapshots, "save", interrupted)
        chosen()
    assert names(home) == []
    (home.folder / "killed.new").mkdir()        # a launcher that was killed
    folder = chosen().folder
    assert names(home) == [folder.name]


def test_full_disk_means_a_boot(home, monkeypatch):
    """Without room for the memory nothing is written."""
    monkeypatch.setattr(snapshots.shutil, "disk_usage",
                        lambda _: SimpleNamespace(free=1000 << 20))
    with pytest.raises(Unusable, match="has only 1000 MiB free"):
        chosen()
    assert names(home) == []


def test_oldest_snapshots_are_removed(home, monkeypatch):
    """The snapshots together stay within their bound: those used last stay."""
    first, second = chosen(memory=200).folder, chosen(memory=201).folder
    for age, folder in ((20, first), (30, second)):
        os.utime(folder, (time.time() - age,) * 2)
    chosen(memory=200)                          # used again
    monkeypatch.setattr(snapshots, "SIZE_MAX", 2 * snapshots.size(first))
    third = chosen(memory=202).folder
    assert names(home) == sorted((first.name, third.name))


def test_folder_of_another_user_is_not_used(home):
    """Files that another user can write to decide nothing here."""
    home.folder.mkdir(mode=0o777)
    home.folder.chmod(0o777)
    with pytest.raises(Unusable, match="only you can write to"):
        chosen()


def test_unwritable_folder_means_a_boot(home):
    """A file in place of the folder is reported."""
    home.folder.write_text("")
    with pytest.raises(Unusable, match="File exists|Not a directory"):
        chosen()


def test_two_launchers_make_one_snapshot(home):
    """Launchers that start at the same time share the snapshot that one of them makes."""
    found = []
    both = [threading.Thread(target=lambda: found.append(chosen())) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(found) == 2 and len(home.made) == 1


def test_own_qemu_arguments_mean_a_boot():
    """A device of the user's may be one that cannot be saved."""
    with pytest.raises(Unusable, match="--qemu-arg"):
        snapshots.require_fit(ProjectImage(), ["-device", "edu"])


def test_virtual_functions_mean_a_boot():
    with pytest.raises(Unusable, match="virtual functions"):
        snapshots.require_fit(ProjectImage(), [], 4)


def test_foreign_images_boot():
    """Only the project's own guest has snapshots."""
    with pytest.raises(Unusable, match="only the project's own guest"):
        snapshots.require_fit(SimpleNamespace(), [])


# ---- the agent's steps --------------------------------------------------------------

def set_up(*words):
    """Carries out steps of the agent on this computer."""
    return subprocess.run([places.tool("fakernic-lab-agent"), "set-up", *map(str, words)],
                          capture_output=True, text=True, timeout=60, check=False)


def test_steps_are_carried_out_in_order(tmp_path):
    """A later step replaces the file of an earlier one, which keeps its mode."""
    file = tmp_path / "file"
    done = set_up("write", 600, file, "first\n", "write", 644, file, "second\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert file.read_text() == "second\n" and file.stat().st_mode & 0o777 == 0o600


def test_first_failing_step_ends_the_set_up(tmp_path):
    """The line names the step and the cause, and no further step is carried out."""
    done = set_up("write", 600, tmp_path / "no/file", "text", "write", 600,
                  tmp_path / "file", "text")
    assert done.returncode == 1 and not (tmp_path / "file").exists()
    assert done.stderr == "fakernic-lab-agent: write 600: No such file or directory\n"


@pytest.mark.parametrize("words", (("nosuch",), ("write", 600, "file")), ids=str)
def test_unknown_step_is_refused(words):
    """A step without a name that the agent knows, or without all of its words."""
    done = set_up(*words)
    assert done.returncode == 2 and f"no step '{words[0]}'" in done.stderr


@pytest.mark.parametrize("address", ("127.0.0.1", "::1"))
def test_closed_port_is_an_answer(address):
    """A machine is reached if it refuses the connection."""
    assert set_up("reach", address).returncode == 0


def test_invalid_address_fails_at_once():
    done = set_up("reach", "node1")
    assert done.returncode == 1 and "reach node1: Invalid argument" in done.stderr


class Agent:
    """A guest that notes the steps it gets, and answers as an agent does."""

    def __init__(self):
        self.steps = []

    def set_up(self, *steps):
        self.steps += steps
        return "fakernic0 eth0 3\n" if "up" in [step[0] for step in steps] else ""


@pytest.fixture
def loaded(tmp_path):
    """Two machines from a snapshot, with a read-only folder."""
    lab = Lab.__new__(Lab)
    lab.snapshots = {"x": None}
    lab.mounts, lab.mtu, lab.say = [Mount(tmp_path, "/work")], 4096, None
    lab.wire_rules, lab.netdev, lab.options = [], None, {"stays": True}
    lab.numbers, lab.environment, lab.meeting = (1, 2), {}, None
    lab.nodes = [Node(lab, SimpleNamespace(name=f"node{number}", guest=Agent()))
                 for number in lab.numbers]
    lab.set_up()
    return lab


def test_steps_bring_a_machine_up(loaded):
    """The folder and the addresses come first, and the launcher knows the card's names."""
    one, two = loaded.nodes
    assert one.guest.steps[:2] == [
        ("mount", "mount0", "/work", "ro",
         "trans=virtio,version=9p2000.L,msize=262144,cache=mmap"),
        ("up", "192.168.77.1", "fd00:77::1", 4096)]
    assert (one.work, one.port.ibdev, one.port.netdev) == ("/work", "fakernic0", "eth0")
    assert two.port.ip4 == "192.168.77.2" and two.port.families == (4, 6)
    assert two.port.mtu == 4096


def test_steps_introduce_the_machines(loaded):
    """Each machine knows all names, and reaches the next one."""
    for node, next_ in zip(loaded.nodes, (2, 1)):
        written = {step[2]: step[3] for step in node.guest.steps if step[0] == "write"}
        assert written["/etc/hosts"].startswith(f"127.0.0.1 localhost {node.name}\n")
        assert "\n192.168.77.1 node1 # fakernic-lab\n" in written["/etc/hosts"]
        assert "\nfd00:77::2 node2-v6 # fakernic-lab\n" in written["/etc/hosts"]
        assert [step[1] for step in node.guest.steps if step[0] == "reach"] == [
            f"192.168.77.{next_}", f"fd00:77::{next_}"]


def test_steps_give_all_machines_one_key_of_ssh(loaded):
    files = [{step[2]: step[1:] for step in node.guest.steps if step[0] == "write"}
             for node in loaded.nodes]
    for name in ("/run/fakernic-ssh/key", "/root/.ssh/fakernic-lab"):
        assert {file[name][2] for file in files} == {files[0]["/run/fakernic-ssh/key"][2]}
        assert files[0][name][0] == 600
    assert "FAKERNIC_NODE=\"node2\"" in files[1]["/run/fakernic-ssh/sshd_config"][2]
    assert "Host node1 node1-v6 192.168.77.1 " in files[0]["/root/.ssh/config"][2]
    assert loaded.nodes[0].guest.steps[-1][0] == "ssh"


def test_kernel_without_ipv6_has_one_address(loaded):
    port = rdma.port_of(loaded.node1, 1, "fakernic0 eth0 1\n")
    assert port.families == (4,) and port.mtu == 1500
    assert rdma.steps_reach(port, [port, loaded.node2.port]) == [("reach", "192.168.77.2")]


def test_invalid_names_of_a_machine_are_refused():
    """A hostile machine cannot put its own words into scripts."""
    with pytest.raises(GuestCrashed, match="no valid name"):
        rdma.port_of(SimpleNamespace(name="node1"), 1, "$(reboot) eth0 3\n")
