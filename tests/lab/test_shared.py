# SPDX-License-Identifier: GPL-2.0-or-later
"""Fault rules and captures of machines that share memory: their cards do what a wire
would do, and their captures are merged. No machine is booted.
"""

import os
import random
import re
import struct
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from command import fakernic_lab
from fakernic_lab import captures, cli, faults, images, lab, net, stay
from fakernic_lab.cards import Cards
from fakernic_lab.errors import LabError
from fakernic_lab.machine import Machine, Nic
from fakernic_lab.qmp import QMP, QMPError

CANNOT = 125
NOW_US = 1800000000 * 10**6
SEEDS = 1 << 63
MACS = [bytes.fromhex(net.mac(number).replace(":", "")) for number in (1, 2, 3)]
BROADCAST = b"\xff" * 6


def options(*words):
    return cli.build_parser().parse_args(["run", "--link", "shared", *words, "--",
                                          "true"])


# ---- rules -------------------------------------------------------------------

class Device:
    """A machine's device, with a replacement for QMP."""

    def __init__(self, bad=""):
        self.bad, self.received = bad, []

    def qmp(self, command, path, value="", **property_):
        assert path == faults.NIC and property_ == {"property": "x-fault"}
        if command == "qom-set":
            if self.bad and self.bad in value:
                raise QMPError(f"fault rule: no {self.bad}")
            self.received += value.split("; ")
        return "".join(f"{line} hits=0\n" for line in self.received)

    def is_running(self):
        return True


def cards_of(*devices):
    return Cards([SimpleNamespace(name=f"node{number}", vm=device)
                  for number, device in enumerate(devices, 1)])


def test_options_are_rules_of_cards():
    """The options are rules for received frames, so that captures contain these
    frames. Their ids differ from other rules. The delay comes first."""
    assert cli.make_wire_rules(options()) == []
    assert cli.make_wire_rules(options(
        "--loss", "10%", "--corrupt", "0.45", "--delay", "2ms", "--seed", "3")) == [
            "id=wire-drop at=rx times=0 ppm=100000 seed=12 do=drop",
            "id=wire-corrupt at=rx times=0 ppm=500000 seed=15 do=corrupt",
            "id=wire-delay at=tx times=0 delay-ns=2000000 do=delay"]
    assert "ppm=1000000 " in cli.make_wire_rules(options("--loss", "100%"))[0]


def test_options_go_to_a_lab(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = cli.lab_arguments(options("--pcap", "out.pcap", "--loss", "1%",
                                          "--image", os.devnull), 3)
    assert arguments["wire"] == "link" and arguments["pcap"] == "out.pcap"
    assert len(arguments["wire_rules"]) == 1


def test_each_card_hits_other_frames():
    one, two = Device(), Device()
    cards = cards_of(one, two)
    cards.add_rules("at=rx ppm=9 seed=7 do=drop; at=rx do=count")
    assert one.received == ["at=rx ppm=9 seed=7 do=drop", "at=rx do=count"]
    assert two.received[0] == f"at=rx ppm=9 seed={7 + (1 << 32)} do=drop"
    cards.add_rules(f"seed={SEEDS - 1} at=tx do=drop", "node2")
    assert two.received[2] == f"seed={(1 << 32) - 1} at=tx do=drop"
    assert len(one.received) == 2
    assert cards.words()[-1] == ("node2", f"{two.received[2]} hits=0")


def test_impossible_rule_is_refused():
    cards = cards_of(Device("truth"), Device())
    with pytest.raises(LabError, match="node1: fault rule: no truth"):
        cards.add_rules("at=truth do=drop")
    with pytest.raises(LabError, match="no machine node3: node1, node2"):
        cards.add_rules("at=tx do=drop", "node3")
    with pytest.raises(LabError, match="no machine node3"):
        cards.armed("at=tx do=drop", way="node3")


def test_rules_apply_inside_the_with():
    """Rules apply inside a with, as at the ends of a wire."""
    one, two = Device(), Device()
    cards = cards_of(one, two)
    with pytest.raises(faults.FaultMissed, match="at=tx do=drop"):
        with cards.armed("at=tx do=drop", way="node2"):
            assert "at=tx do=drop" in two.received[0] and not one.received
    assert two.received[-1].startswith("remove=armed")


def test_rules_of_the_wire_need_not_be_hit():
    """A run with --loss may have so few frames that its rule hits none."""
    device = Device()
    device.received = ["id=wire-drop at=rx ppm=1 do=drop", "id=f1 at=rx do=drop"]
    found = lab.Lab.__new__(lab.Lab)
    found.nodes = [lab.Node(found, SimpleNamespace(
        name="node1", guest=None, qmp=device.qmp))]
    found.faults = [(None, "at=rx do=drop")]
    assert found.faults_missed() == ["node1: id=f1 at=rx do=drop hits=0"]


NICE = {"node1": 0, "node2": 7}


@pytest.fixture(name="linked")
def linked_qemus(tmp_path):
    """Two devices that share memory, in QEMUs whose guests do not run. The second
    has cpu-nice."""
    with ExitStack() as stack:
        machines = []
        for name, netdev in zip(("node1", "node2"), net.wires(
                tmp_path, ("node1", "node2"), wire="link")[0]):
            folder = tmp_path / name / "sockets"
            image = images.DiskImage(os.devnull)
            vm = Machine(name, tmp_path / name / "out",
                         [Nic("fakernic", netdev)], image, sockets=folder,
                         extra=["-S"], cpu_nice=NICE[name])
            folder.mkdir()
            stack.callback(vm.stop)
            machines.append(vm)
        yield machines


def test_cpu_nice_lowers_only_vcpus(linked):
    """--cpu-nice lowers the CPU threads of its machines, and no other thread."""
    def priorities(vm):
        cpus = {cpu["thread-id"] for cpu in vm.qmp("query-cpus-fast")}
        return [{os.getpriority(os.PRIO_PROCESS, int(task)) - mine
                 for task in os.listdir(f"/proc/{vm.pid}/task")
                 if (int(task) in cpus) == of_cpus}
                for of_cpus in (True, False)]
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert cli.lab_arguments(options("--cpu-nice", "7", "--image", os.devnull),
                             2)["cpu_nice"] == 7
    for vm in linked:
        vm.launch()
        wanted = [{min(NICE[vm.name], 19 - mine)}, {0}]
        deadline = time.monotonic() + 10
        while priorities(vm) != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        assert priorities(vm) == wanted


@pytest.fixture(name="up")
def those_that_are_up(tmp_path, monkeypatch, linked):
    """The same QEMUs, as machines that stay."""
    monkeypatch.setenv("FAKERNIC_LAB_STATE", str(tmp_path / "state"))
    stay.make_folder()
    for vm in linked:
        vm.launch()
    nodes = [{"name": vm.name, "number": number, "pid": vm.pid,
              "directory": str(vm.directory), "work": None, "ibdev": "",
              "netdev": "", "stamped": False}
             for number, vm in enumerate(linked, 1)]
    stay.write_state({
        "environment": {}, "out": str(tmp_path), "ready": True, "record": False,
        "whole": True, "relay": None, "linked": True, "nodes": nodes,
        "captured": str(tmp_path / "all.pcap")})
    for vm, node in zip(linked, nodes):
        (stay.folder() / vm.name).symlink_to(vm.sockets)
    return linked


@pytest.mark.usefixtures("up")
def test_rules_from_the_command(tmp_path):
    """fakernic-lab fault wire adds rules to all cards or to one. The records
    contain every loss."""
    def changed_faults(*rules):
        result = fakernic_lab(tmp_path, "fault", "wire", *rules)
        return result.returncode, result.stdout, result.stderr
    assert changed_faults() == (0, "", "")
    code, out, _ = changed_faults("id=a at=tx seed=1 percent=3 do=drop",
                        "node2: id=b at=rx do=count")
    assert code == 0 and stay.running().whole
    assert re.sub(" matches=.*", "", out) == (
        "node1: id=a at=tx percent=3 seed=1 do=drop\n"
        f"node2: id=a at=tx percent=3 seed={1 + (1 << 32)} do=drop\n"
        "node2: id=b at=rx do=count\n"), out
    code, _, err = changed_faults("at=nowhere do=drop")
    assert code == CANNOT and err.count("\n") == 1 and "'nowhere' is invalid" in err
    code, _, err = changed_faults("node3: at=tx do=drop")
    assert code == CANNOT and "no machine node3" in err
    changed_faults("remove=all")
    assert changed_faults() == (0, "", "")
    # All that the options say is a rule of the device's.
    rules = cli.make_wire_rules(options(*(word for name in cli.HARM for word in (
        f"--{name}", "10%")), "--delay", "1ms"))
    assert changed_faults(*rules)[0] == 0 and changed_faults()[1].count("id=wire-") == 10


def test_captures_from_the_command(tmp_path, up, capsys):
    """Each machine has a capture, from before its boot. down merges them."""
    for vm in up:
        vm.dump(vm.directory / captures.CAPTURE)
        vm.close_monitor()
        assert (vm.directory / captures.CAPTURE).stat().st_size == (
            captures.HEAD.size)
    state = stay.read_state()
    stay.write_state({**state, "ready": False})     # no machine can be asked
    assert stay.down() == 0
    assert (tmp_path / "all.pcap").stat().st_size == captures.HEAD.size
    assert capsys.readouterr().err == ""


# ---- captures ------------------------------------------------------------------

def frame(number, source=0, target=1):
    return (MACS[target] if target is not None else BROADCAST) + MACS[source] + (
        b"\x08\x06" + struct.pack("<Q", number))


def write(path, frames, cut=0):
    """Write a capture as QEMU does."""
    data = captures.HEAD.pack(captures.MAGIC, 2, 4, 0, 0, 65536, 1)
    for time_us, data_ in frames:
        data += captures.FRAME.pack(*divmod(time_us, 10**6), len(data_),
                                    len(data_)) + data_
    path.write_bytes(data[:len(data) - cut])
    return path


class World:
    """Machines with different clocks, and the frames that they capture."""

    def __init__(self, folder, *wrong):
        self.folder, self.wrong = folder, wrong
        self.seen = [[] for _ in wrong]
        self.sent = []
        self.now = NOW_US

    def see(self, machine, data):
        self.seen[machine].append((self.now + self.wrong[machine], data))

    def send(self, source, target, data, takes=9, lost=False):
        """TARGET may be None: all machines."""
        self.sent.append(data)
        self.see(source, data)
        self.now += takes
        for machine in range(len(self.wrong)):
            if not lost and machine != source and target in (machine, None):
                self.see(machine, data)

    def talk(self, count, seed):
        """Requests and answers between any two, some of them twice."""
        draw = random.Random(seed)
        for number in range(count):
            a, b = draw.sample(range(len(self.wrong)), 2)
            self.send(a, b, frame(2 * number, a, b), draw.randrange(5, 200),
                      draw.random() < 0.1)
            self.send(b, a, frame(2 * number + 1, b, a), draw.randrange(5, 200),
                      draw.random() < 0.1)
            if draw.random() < 0.1:
                self.send(a, b, frame(2 * number, a, b))
            self.now += draw.randrange(3)

    def merge(self, ages=None):
        """What is made of it: (whether it is right, [(time, frame)])."""
        found = []
        for number, seen in enumerate(self.seen):
            found.append((write(self.folder / f"{number}.pcap", seen),
                          MACS[number]))
            os.utime(found[-1][0], (self.now / 10**6, self.now / 10**6))
        with open(self.folder / "all.pcap", "wb") as file:
            fits = captures.merge(found, file)
        return fits, list(captures.frames(self.folder / "all.pcap"))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wrong", ((0, 0), (-800000, 3), (7, -12000000),
                                   (-900000, 123456, 999999)), ids=str)
def test_all_frames_once_in_order(tmp_path, wrong, seed):
    """The merged capture has every frame once, in order, for any clocks. It also
    has frames that no machine received."""
    world = World(tmp_path, *wrong)
    for machine in range(len(wrong)):
        world.send(machine, None, frame(10**9 + machine, machine, None))
    world.talk(500, seed)
    fits, found = world.merge()
    assert fits and [data for _, data in found] == world.sent
    assert abs(found[-1][0] - world.now) < 100000
    assert found == sorted(found, key=lambda pair: pair[0])


def test_large_captures_are_compared_by_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(captures, "SAMPLE_MAX", 300)
    world = World(tmp_path, 5000, -400000)
    world.talk(4000, 1)
    fits, found = world.merge()
    assert fits and len(found) == len(world.sent)
    assert sum(a != b for (_, a), b in zip(found, world.sent)) < 100


def test_machines_without_traffic(tmp_path):
    """Machines without common frames are ordered by the times of their files."""
    world = World(tmp_path, 0, 500000, 9)
    for number in range(3):
        world.send(0, None, frame(number, 0, 2), lost=True)
        world.send(1, None, frame(number, 1, 2), lost=True)
    fits, found = world.merge()
    assert fits and len(found) == 6
    assert all(abs(time_us - NOW_US) < 1000 for time_us, _ in found)


def test_frames_of_other_addresses(tmp_path):
    """A bridge in a machine sends frames of other addresses. When the clocks are
    known, the machine that captured a frame first is its sender."""
    world = World(tmp_path, 0, -77777)
    world.talk(50, 3)
    strange = MACS[1] + b"\x02" * 6 + b"\x08\x06" + bytes(50)
    for _ in range(3):
        world.send(0, 1, strange, 30)
    assert [data for _, data in world.merge()[1]] == world.sent


def test_truncated_capture_is_read(tmp_path):
    """A capture may end in the middle of its last frame, or of its header."""
    path = write(tmp_path / "a", [(NOW_US, frame(1)), (NOW_US + 1, frame(2))], 1)
    assert list(captures.frames(path)) == [(NOW_US, frame(1))]
    for size in (0, 10, 30):
        path.write_bytes(bytes(size))
        assert not list(captures.frames(path))
        with open(tmp_path / "all", "wb") as file:
            assert captures.merge([(path, MACS[0])], file)
    assert (tmp_path / "all").stat().st_size == captures.HEAD.size


def test_capture_of_paused_machine(tmp_path):
    """A paused machine's clock stops: a message says that the order may be wrong."""
    world = World(tmp_path, 0, 0)
    world.talk(100, 1)
    world.wrong = (0, -5000000)
    world.talk(100, 2)
    fits, found = world.merge()
    assert not fits and len(found) >= len(world.sent)


def machine(folder, name, said=""):
    (folder / name).mkdir()
    return SimpleNamespace(name=name, directory=folder / name,
                           qemu_log=lambda _last=0: said)


def test_captures_are_merged_after_the_end(tmp_path, capsys):
    """Captures are merged after the machines' end. One line reports each error."""
    vms = [machine(tmp_path, "node1"), machine(
        tmp_path, "node2", "network dump write error - stopping dump\n"),
        machine(tmp_path, "node3")]
    given = [(vm, net.mac(number)) for number, vm in enumerate(vms, 1)]
    for vm, _ in given[:2]:             # the third never began
        write(vm.directory / captures.CAPTURE, [(NOW_US, frame(1))])
    captures.leave(tmp_path / "all.pcap", given[:1])
    assert capsys.readouterr() == ("", "")
    captures.leave(tmp_path / "all.pcap", given)
    err = capsys.readouterr().err
    assert err == ("fakernic-lab: the capture of node2 has not all frames: its "
                   "disk is full\n")
    assert len(list(captures.frames(tmp_path / "all.pcap"))) == 1
    captures.leave("/dev/full", given[:1])
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "/dev/full: No space left" in err
    assert f"{tmp_path}/*/wire.pcap" in err
