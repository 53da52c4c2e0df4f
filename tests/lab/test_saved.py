# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of all machines together, as far as they need no machine: the order of what
QEMUs are asked to do, and refusals. The QEMUs are fakes."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from fakernic_lab import saved, stay
from fakernic_lab.errors import LabError
from fakernic_lab.outputs import Folder


class FakeQemu:
    """A QEMU with these states. LOG gets what it is asked to do."""

    def __init__(self, name, log, states=(), fails=None):
        self.name, self.log, self.states, self.fails = name, log, list(states), fails
        self.error, self.silent, self.nodes = None, None, [saved.NODE]

    def qmp(self, command, **arguments):
        if command == self.silent:
            self.silent = None
            raise TimeoutError("silent")
        if command == "query-jobs":
            return [{"id": saved.JOB, "status": "concluded",
                     **({"error": "broken"} if self.error else {})}]
        if command == "query-named-block-nodes":
            return [{"node-name": node, "image": {
                "snapshots": [{"name": name} for name in self.states]}}
                    for node in self.nodes]
        if command not in ("query-name", "job-dismiss"):
            self.log.append((self.name, command))
            self.error = command == self.fails
        return arguments

    def set_link(self, up):
        self.log.append((self.name, "up" if up else "down"))

    def close_monitor(self):
        self.log.append((self.name, "close"))

    def assert_alive(self):
        pass

    def is_running(self):
        return True


class FakeRelay:
    """A relay whose last frames arrive while it is asked, with these rules."""

    pid, ways = 1, ("node1",)

    def __init__(self, rules=""):
        self.text, self.asked = rules, 0

    def rules(self, _):
        return self.text

    def counts(self):
        self.asked += 1
        return min(self.asked, 3)


def two(log, *states, fails=None):
    return [FakeQemu("a", log, states), FakeQemu("b", log, states, fails)]


def each(*commands):
    return [(name, command) for command in commands for name in "ab"]


def test_all_machines_stand_still_during_a_save():
    """No machine is saved before all have stopped, and none continues before all are
    saved. An older state of that name is removed first."""
    log = []
    saved.save(two(log), "one")
    assert log == each("stop", "snapshot-save", "cont")
    log.clear()
    saved.save(two(log, "one"), "one")
    assert log == each("stop", "snapshot-delete", "snapshot-save", "cont")


def test_machines_continue_after_a_save_that_failed():
    """One machine cannot be saved. The error names it, and all continue."""
    log = []
    with pytest.raises(LabError, match="b: broken"):
        saved.save(two(log, fails="snapshot-save"), "one")
    assert log[-2:] == each("cont")


def test_all_machines_continue_if_one_monitor_is_silent():
    """A connection cannot be used again after a time limit. All machines continue: this
    one by another connection."""
    log = []
    vms = two(log)
    vms[0].silent = "cont"
    saved.save(vms, "one")
    assert log[-3:] == [("a", "close"), *each("cont")]


def test_job_of_a_killed_launcher_is_removed():
    """QEMU refuses a second job of this name. The job that a launcher left is removed first,
    and its error is not that of the new one."""
    jobs, dismissed = [{"id": saved.JOB, "status": "concluded", "error": "old"}], []

    def qmp(command, **arguments):
        if command == "query-jobs":
            return list(jobs)
        if command == "job-dismiss":
            dismissed.append(jobs.pop())
        else:
            assert not jobs
            jobs.append({"id": arguments["job_id"], "status": "concluded"})
        return None
    saved.run_job(SimpleNamespace(name="a", qmp=qmp, assert_alive=lambda: None),
                  "snapshot-save")
    assert [job.get("error") for job in dismissed] == ["old", None] and not jobs


def test_disk_that_could_not_be_made_is_made_again(tmp_path):
    """The first attempt has left a node, whose name QEMU would refuse."""
    log = []
    vm = FakeQemu("a", log)
    vm.nodes, vm.directory, vm.folder = [f"{saved.NODE}-file"], tmp_path, Folder(tmp_path)
    saved.add_disk(vm)
    assert log == [("a", command) for command in (
        "blockdev-del", "blockdev-add", "blockdev-create", "blockdev-add")]
    assert (tmp_path / saved.FILE).stat().st_mode & 0o777 == 0o600


def test_frames_under_way_are_discarded_before_a_load():
    """All links go down while the machines still run, and go up after all are loaded. The
    load waits until the relay passes no more frames."""
    log, relay = [], FakeRelay()
    saved.load(two(log, "one"), "one", relay)
    assert log == each("down", "stop", "snapshot-load", "up", "cont")
    assert relay.asked == 4


def test_machines_stay_paused_after_a_load_that_failed():
    """One of two machines goes back. They do not run, because connections between them
    would lose data."""
    log = []
    with pytest.raises(LabError, match="b: broken. The states .* no longer match"):
        saved.load(two(log, "one", fails="snapshot-load"), "one")
    assert log == each("down", "stop", "snapshot-load")


@pytest.mark.parametrize("rules, states, words", (
    ("", ("one", "two"), "a has no snapshot three. Its snapshots: one, two"),
    ("", (), "a has no snapshot three. Its snapshots: none"),
    ("id=1 at=tx do=delay delay-ns=5", ("three",), "a rule of the wire delays frames"),
))
def test_impossible_loads_change_nothing(rules, states, words):
    log = []
    with pytest.raises(LabError, match=words):
        saved.load(two(log, *states), "three", FakeRelay(rules))
    assert not log


@pytest.mark.parametrize("require", (saved.require_fit, stay.require_movable))
def test_machines_with_a_tree_are_refused(require):
    """Their programs use a folder of the host, and one line says so."""
    lab = SimpleNamespace(record=None, on_network=False, captured=None, relay=FakeRelay(),
                          nodes=[], shell="/bin/sh")
    with pytest.raises(LabError, match="without --root"):
        require(lab)


def scripts_of(monkeypatch, folder, mounts):
    """Runs the guest's scripts on this computer, with this text as /proc/mounts. Returns a
    function that runs one and returns what it mounted and unmounted."""
    (folder / "mounts").write_text(mounts)
    for name, lines in (("umount", 'echo "u $1" >>log'),
                        ("mount", 'for last; do :; done; echo "m $last" >>log'),
                        ("mountpoint", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\ncd {folder}\n{lines}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def run(script):
        (folder / "log").write_text("")
        script = script.replace("/proc/mounts", str(folder / "mounts")).replace(
            saved.MOUNTS, str(folder / "list"))
        subprocess.run(["bash", "-c", script], check=True)
        return (folder / "log").read_text().split("\n")[:-1]
    return run


def test_folders_are_mounted_again(tmp_path, monkeypatch):
    """Also those of a launcher that was killed before it could do so. A machine whose
    folders were never unmounted has nothing to do."""
    run = scripts_of(monkeypatch, tmp_path, "mount0 /work 9p rw,trans=virtio 0 0\n")
    assert run(saved.REMOUNT) == []
    assert run(saved.UNMOUNT) == ["u /work"]
    (tmp_path / "mounts").write_text("")        # the launcher is killed here
    assert run(saved.UNMOUNT) == ["m /work"]
    run = scripts_of(monkeypatch, tmp_path, "mount0 /work 9p rw,trans=virtio 0 0\n")
    assert run(saved.UNMOUNT) == ["u /work"]
    assert run(saved.REMOUNT) == ["m /work"]
    assert run(saved.REMOUNT) == []


def test_folders_in_folders_are_unmounted_first(tmp_path, monkeypatch):
    run = scripts_of(monkeypatch, tmp_path, "mount0 /work 9p rw,trans=virtio 0 0\n"
                                            "mount1 /work/in 9p rw,trans=virtio 0 0\n")
    assert run(saved.UNMOUNT) == ["u /work/in", "u /work"]
    assert run(saved.REMOUNT) == ["m /work", "m /work/in"]
