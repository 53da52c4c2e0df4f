# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the command with real machines.

Booting takes most of the time. So each way in which machines can end has one `run`,
and all other tests share two sets of machines that stay.
"""

import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command import environment, fakernic_lab
from fakernic_lab import places
from fakernic_lab.snapshots import FILES, UNUSABLE, WHOLE, described

HERE = Path(__file__).parent
LIBRARIES = places.cache() / "build/rdma-core-install/usr"
LOST, LATE, CANNOT, INTERRUPTED = 120, 124, 125, 130
NOBODY = 65534

PLUGGED = """
import pytest

@pytest.mark.lab(count=1)
def test_one_machine_alone(lab):
    assert "fakernic" in lab.node1.check("ibv_devices")
    assert lab.node1.run("exit 7").code == 7

@pytest.mark.lab(count=1)
def test_rule_that_is_hit(lab, fault):
    armed = fault(lab.node1, "at=tx class=ether do=count")
    lab.node1.run("ping -c 1 -W 1 192.168.77.99")
    assert armed.hits() == [1]

@pytest.mark.lab(count=1)
def test_rule_that_is_missed(lab, fault):
    fault(lab.node1, "at=rx class=cnp do=drop")

@pytest.mark.lab(count=1)
def test_same_machine_again(lab):
    lab.node1.check("cat /work/test_plugged.py")
    lab.node1.check("echo '<4>WARNING: planted' >/dev/kmsg")
"""


@pytest.fixture
def folder():
    """A folder of an ordinary user, with the compiled example. LeakSanitizer makes the
    example fail if it leaks memory."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(
            ["gcc", "-Wall", "-Werror", "-g", "-fsanitize=address",
             "-static-libasan", "-o", f"{name}/hello", HERE / "example/hello.c", f"-I{LIBRARIES}/include",
             f"-L{LIBRARIES}/lib/x86_64-linux-gnu", "-lrdmacm", "-libverbs"],
            check=True)
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def test_program_of_the_user(folder):
    """A run of a user's program has its output, its exit code, the files of the results
    and a report."""
    result = fakernic_lab(folder, "run", "--junit", "report.xml", "--loss", "2%",
                          "--pcap", "fakernic-lab.out/out.pcap", "--",
                          "./hello", ":",
                          "./hello $FAKERNIC_PEER && sleep 1 && exit 5",
                          user=NOBODY)
    assert result.returncode == 5, result
    assert "node1: Hello from the other machine\n" in result.stdout
    assert "node2 ended with 5" in result.stderr
    report = ElementTree.parse(folder / "report.xml").getroot()
    assert report.get("tests") == "2" and report.get("failures") == "1"
    out = folder / "fakernic-lab.out"
    assert "fakernic" in (out / "node1/dmesg").read_text()
    assert "rx_frames" in (out / "node2/rdma-statistic").read_text()
    reported = re.search(r"a folder per machine: (.*?)\.\n",
                     (HERE / "README.md").read_text("utf-8"), re.S)[1]
    assert {path.name for path in (out / "node2").iterdir()} == set(
        re.findall("`(.*?)`", reported))
    frames = subprocess.run(
        ["tshark", "-n", "-r", out / "out.pcap", "-Y", "infiniband"],
        capture_output=True, text=True, check=True).stdout
    assert re.search("77.2 → 192.168.77.1 .*RC Send Only", frames), frames


def test_tree_servers_and_ssh(folder):
    """This test's own Debian is a tree of Debian 13. The run ends with node1."""
    result = fakernic_lab(
        folder, "run", "--root", "/", "--until", "node1", "--",
        "test -x /src/ci/enter.sh && fakernic-wait up node2 && "
        "mpirun.mpich -hosts node1,node2 -n 2 hostname && "
        "ib_write_lat -F -n 5 node2 >/dev/null && ssh -n node2-v6 cat /run/mine && "
        "exit 9", ":",
        "echo from $FAKERNIC_NODE >/run/mine; ib_write_lat -F -n 5 & "
        "fakernic-wait up node1; sleep 600", user=NOBODY)
    assert result.returncode == 9, result
    said = re.findall("^node1: (.*)$", result.stdout, re.M)
    assert sorted(said) == ["from node2", "node1", "node2"], result
    assert result.stderr.splitlines()[-2:] == [
        "fakernic-lab: node1 ended with 9",
        "fakernic-lab: ended with 9; results are in fakernic-lab.out"]


def test_timeline_and_a_rule(folder):
    """A run with a timeline and a fault rule writes the files, and finds no contradiction."""
    result = fakernic_lab(
        folder, "run", "--timeline", "--fault", "node1: at=rx "
        "opcode=rc-send-first do=count", "--",
        "ib_send_lat -F -s 4096 -m 1024 -n 5", ":",
        "ib_send_lat -F -s 4096 -m 1024 -n 5 node1", user=NOBODY)
    assert result.returncode == 0, result
    reported, = re.findall(r"timeline: (\d+) events, (\d+) packets, (\d+) work "
                       r"requests completed, 0 problem\(s\)", result.stderr)
    assert all(map(int, reported)), result.stderr
    made = folder / "fakernic-lab.out/timeline"
    assert {"trace.html", "trace.txt", "trace.json", "trace.pcapng"} <= {
        path.name for path in made.iterdir() if path.stat().st_size}
    assert re.search(r"^SEND: 4 packets there.*(\n.*)* has read CQ \d+ "
                     r"to \d+\n", (made / "trace.txt").read_text("utf-8"), re.M)


def test_rule_without_hit_fails_run(folder):
    """A rule without a hit fails a run whose commands succeed."""
    result = fakernic_lab(folder, "run", "-n", "1", "--fault",
                          "at=rx opcode=rc-send-first do=drop", "--", "true",
                          user=NOBODY)
    assert result.returncode == 1, result
    assert re.search("nothing hit a fault rule, so the run did not test it: node1: "
                     ".*at=rx opcode=rc-send-first do=drop matches=0 hits=0",
                     result.stderr), result.stderr


# Prints what must differ between two machines, or two runs, of one snapshot.
RANDOM = """
od -An -N16 -tx1 /dev/urandom
od -An -N16 -tx1 /dev/random
cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid
cat /run/fakernic-ssh/key.pub | cut -d' ' -f2
"""
# Prints what must be right in each machine, in lines of two words.
TRUE = """
echo clock $(date +%s)
echo name $(hostname) $(getent hosts $FAKERNIC_NODE) $(getent hosts 127.0.0.1)
echo mac $(cat /sys/class/net/eth0/address) $(cat /sys/class/infiniband/*/ports/1/gids/0)
echo guid $(cat /sys/class/infiniband/*/node_guid)
echo serial $(lspci -v -d 1af4:10f0 | sed -n 's/.*Serial Number //p')
echo left $(ls -A /root/mine /tmp/mine /run/mine /dev/shm/mine /var/tmp/mine 2>/dev/null)
echo logged $(dmesg | grep -c of-the-first-run)
echo sees $(ls /work)
"""
LEAVE = """
touch /root/mine /tmp/mine /run/mine /dev/shm/mine /var/tmp/mine
echo of-the-first-run >/dev/kmsg
date -s @1 >/dev/null
sync
"""


def from_a_snapshot(folder, snapshots):
    """The random lines and the facts of two machines in a run. They do not boot."""
    result = fakernic_lab(
        folder, "run", "-v", "--", f"{RANDOM}\nfakernic-wait shown\n{TRUE}\n{LEAVE}",
        FAKERNIC_LAB_SNAPSHOTS=str(snapshots))
    assert result.returncode == 0 and "the machines boot" not in result.stderr, result
    said = {f"node{number}": re.findall(f"^node{number}: (.*)$", result.stdout, re.M)
            for number in (1, 2)}
    lines = len(RANDOM.split("\n")) - 1
    return [line for node in said.values() for line in node[:lines]], {
        node: dict(line.partition(" ")[::2] for line in lines_[lines:])
        for node, lines_ in said.items()}


def test_nothing_leaks_by_a_snapshot(tmp_path):
    """Two runs, of two machines each, start from one snapshot. Their random numbers, names,
    addresses, keys and clocks are their own, and the second run sees nothing that the
    first has written. No run changes the snapshot."""
    snapshots = tmp_path / "snapshots"
    kept, random = [], []
    for turn in ("first", "second"):
        folder = tmp_path / turn
        folder.mkdir()
        (folder / turn).touch()
        numbers, facts = from_a_snapshot(folder, snapshots)
        random += numbers
        for number, (node, found) in enumerate(sorted(facts.items()), start=1):
            assert abs(int(found["clock"]) - time.time()) < 60
            words = found["name"].split()
            assert words[0] == node and f"192.168.77.{number}" in words, found
            assert "snapshot" not in words, found
            assert found["mac"].startswith(f"52:54:00:fa:ce:0{number} fe80:"), found
            assert found["guid"] == f"5054:00ff:fefa:ce0{number}", found
            assert found["serial"] == f"52-54-00-ff-fe-fa-ce-0{number}", found
            assert found["left"] == "" and found["logged"] == "0", found
            assert turn in found["sees"].split(), found
        kept.append({path: hashlib.sha256(path.read_bytes()).hexdigest()
                     for path in snapshots.glob("*/*")})
    # The key of ssh is that of a run, all others are of a machine.
    assert len(set(random)) == len(random) - 2, random
    assert kept[0] == kept[1] and len(kept[0]) == 4


def test_snapshot_that_does_not_load_is_replaced(tmp_path):
    """The state is of another kind of machine. The machines boot, and only -v says so."""
    command = "run", "-n", "1", "--", "hostname"
    assert fakernic_lab(tmp_path, *command, FAKERNIC_LAB_SNAPSHOTS=str(
        tmp_path / "snapshots")).returncode == 0
    folder, = (path.parent for path in tmp_path.glob("snapshots/*/whole"))
    (folder / "state").write_bytes(b"QEVM" + bytes(100))
    with ExitStack() as stack:
        files = [stack.enter_context(open(folder / name, "rb")) for name in FILES]
        (folder / WHOLE).write_text(json.dumps(described(files)))
    result = fakernic_lab(tmp_path, "run", "-v", *command[1:], FAKERNIC_LAB_SNAPSHOTS=str(
        tmp_path / "snapshots"))
    assert result.returncode == 0 and result.stdout == "node1: node1\n", result
    assert "the machines boot: node1 does not load it" in result.stderr, result
    assert [path.name for path in folder.iterdir()] == [UNUSABLE]


# Programs that outlive their command, and that use no mounted folder.
SERVES = """
cd / && setsid -f rping -s -V </dev/null >/tmp/rping 2>&1
until rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done
"""
PINGS = "cd / && setsid -f rping -c -a node1 -V -v -C 1000000 </dev/null >/tmp/rping 2>&1"
# Ends with 0 when the client has transferred and compared more data.
CONTINUES = """
size=$(stat -c %s /tmp/rping)
for try in $(seq 600); do
    pgrep -x rping >/dev/null || { tail -2 /tmp/rping; exit 1; }
    [ $(stat -c %s /tmp/rping) -gt $((size + 1000)) ] && exit
    sleep 0.1
done
exit 2
"""


def test_connection_goes_back_in_time(tmp_path):
    """Two machines are saved while a connection between them carries data. After each load
    it continues, and the machines have no traces of the time after the save."""
    def do(*words):
        result = fakernic_lab(tmp_path, *words)
        assert result.returncode == 0, result
        return result.stdout
    try:
        do("up")
        do("exec", "node1", "--", SERVES)
        do("exec", "node2", "--", PINGS)
        do("exec", "node2", "--", CONTINUES)
        do("snapshot", "save", "before")
        do("exec", "node2", "--", CONTINUES)
        for _ in range(3):
            do("exec", "all", "--", "touch /tmp/later")
            do("snapshot", "load", "before")
            do("exec", "all", "--", "[ ! -e /tmp/later ] && ls -d /work/fakernic-lab.up")
            do("exec", "node2", "--", CONTINUES)
        result = fakernic_lab(tmp_path, "snapshot", "load", "other")
        assert result.returncode == CANNOT and (
            "node1 has no snapshot other. Its snapshots: before" in result.stderr), result
        do("exec", "node2", "--", "setsid -f sleep 1000 </dev/null >/dev/null 2>&1")
        result = fakernic_lab(tmp_path, "snapshot", "save", "before")
        assert result.returncode == CANNOT and (
            "programs of node2 use a mounted folder" in result.stderr), result
        do("exec", "all", "--", "ls -d /work/fakernic-lab.up")
        do("exec", "node2", "--", CONTINUES)
    finally:
        do("down")


def test_machine_moves_with_its_connection(tmp_path):
    """Both machines migrate, each of them twice, while a connection carries data. Then the
    folder is mounted again, and 'down' ends all QEMUs."""
    def do(*words):
        result = fakernic_lab(tmp_path, *words)
        assert result.returncode == 0, result
        return result.stdout
    try:
        do("up", "--link", "shared")
        do("exec", "node1", "--", SERVES)
        do("exec", "node2", "--", PINGS)
        for node in ("node2", "node1", "node2", "node1"):
            do("exec", "node2", "--", CONTINUES)
            assert re.fullmatch(rf"{node} stood still for \d+ ms\n", do("migrate", node))
            do("exec", node, "--", "ls -d /work/fakernic-lab.up")
        do("exec", "node2", "--", CONTINUES)
        assert do("status").count(" up ") == 2
    finally:
        do("down")
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False)
    assert left.stdout == b"", left


def test_timeline_of_a_machine_that_moved(tmp_path):
    """The records of both QEMUs become one timeline, which says that it has moved."""
    try:
        assert fakernic_lab(tmp_path, "up", "--link", "shared",
                            "--timeline").returncode == 0
        assert fakernic_lab(tmp_path, "migrate", "node2").returncode == 0
        assert fakernic_lab(tmp_path, "exec", "all", "--", "ib_send_lat -F -n 5", ":",
                            "ib_send_lat -F -n 5 node1").returncode == 0
    finally:
        result = fakernic_lab(tmp_path, "down")
    assert re.search(r"node2: it migrated, and stood still for [\d.]+ ms", result.stderr)
    assert " 0 problem(s)" in result.stderr, result
    assert {path.name for path in tmp_path.glob("fakernic-lab.up/node2/record*")} == {
        "record", "record.2"}


def test_machine_on_a_stream_does_not_move(tmp_path):
    """Two machines on a stream stay where they are, and one line says why."""
    try:
        assert fakernic_lab(tmp_path, "up").returncode == 0
        result = fakernic_lab(tmp_path, "migrate", "node1")
        assert result.returncode == CANNOT, result
        assert "--link shared" in result.stderr, result
        assert fakernic_lab(tmp_path, "exec", "all", "--", "true").returncode == 0
    finally:
        fakernic_lab(tmp_path, "down")


def test_machines_with_a_timeline_do_not_go_back(tmp_path):
    """The records of devices cannot go back, and one line says so."""
    try:
        assert fakernic_lab(tmp_path, "up", "-n", "1", "--timeline").returncode == 0
        result = fakernic_lab(tmp_path, "snapshot", "save", "now")
        assert result.returncode == CANNOT, result
        assert "without --timeline" in result.stderr, result
    finally:
        fakernic_lab(tmp_path, "down")


def test_machines_boot_if_asked(tmp_path):
    """With --boot no snapshot is made or used."""
    snapshots = tmp_path / "snapshots"
    result = fakernic_lab(tmp_path, "run", "--boot", "-n", "1", "--", "hostname",
                          FAKERNIC_LAB_SNAPSHOTS=str(snapshots))
    assert result.returncode == 0 and result.stdout == "node1: node1\n", result
    assert not snapshots.exists()


def test_kernel_panic_fails_run(folder):
    """A kernel panic ends the run at once, and the message quotes the console."""
    result = fakernic_lab(folder, "run", "-n", "2", "--timeout", "100", "--",
                          "sleep 90", ":", "echo c >/proc/sysrq-trigger",
                          user=NOBODY)
    assert result.returncode == LOST, result
    assert "sysrq triggered crash" in result.stderr.lower(), result.stderr
    assert "node2" in result.stderr


def test_kernel_that_refuses_unsigned_modules(folder):
    """If the kernel refuses unsigned modules, as with Secure Boot, one line says what to
    do."""
    result = fakernic_lab(folder, "run", "-n", "1", "--append",
                          "module.sig_enforce=1", "--", "true", user=NOBODY)
    assert result.returncode == CANNOT, result
    assert "mokutil --import" in result.stderr.splitlines()[-1], result


def test_interrupted_run_ends_machines(folder):
    """Ctrl-C during a boot, pressed several times, leaves no process and no socket. While
    the run lasts, another one with the same results folder is refused."""
    sockets = folder / "tmp"
    sockets.mkdir()
    # A shell makes background commands ignore SIGINT, so set the default action again.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", HERE / "fakernic-lab", "run", "--boot", "--",
         "sleep 100"], cwd=folder,
        stderr=subprocess.PIPE, text=True,
        env=environment(folder, TMPDIR=str(sockets)))
    deadline = time.monotonic() + 150
    while not list(sockets.glob("*/node2/qmp")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    second = fakernic_lab(folder, "run", "--", "true")
    assert second.returncode == CANNOT, second
    assert "in use by machines that are up: choose another" in second.stderr
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    assert process.wait(60) == INTERRUPTED
    assert "Traceback" not in process.stderr.read()
    assert not list(sockets.iterdir())
    left = subprocess.run(["pgrep", "-f", str(sockets)], capture_output=True,
                          check=False)
    assert left.stdout == b"", left


def of_capture(path, wanted, *fields):
    """These FIELDS of the frames in a capture that match the filter WANTED."""
    done = subprocess.run(
        ["tshark", "-n", "-r", path, "-Y", wanted, "-T", "fields",
         *(word for field in fields for word in ("-e", field))],
        capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_machines_that_share_memory(tmp_path):
    """Three machines share memory. Their cards drop and delay frames, and the link of one
    goes down. The merged capture has all sent frames in order, also lost ones."""
    def do(*words):
        result = fakernic_lab(tmp_path, *words)
        assert result.returncode == 0, result
        return result.stdout

    def await_carrier(state):
        do("exec", "node3", "--", "for try in $(seq 100); do grep -q "
           f"{state} /sys/class/net/eth0/carrier && exit; sleep 0.1; done; exit 1")
    try:
        do("up", "-n", "3", "--link", "shared", "--loss", "20%", "--delay",
           "300us", "--pcap", "all.pcap")
        do("exec", "all", "--", "for peer in $FAKERNIC_PEERS; do "
           "ping -q -c 50 -i 0.02 $peer; done; true")
        rules = do("fault", "wire").splitlines()
        assert [re.match("(node.): id=wire-(.*?) ", rule).groups() for rule in
                rules] == [(f"node{number}", act) for number in (1, 2, 3)
                           for act in ("drop", "delay")]
        assert all(int(rule.rpartition("=")[2]) > 10 for rule in rules), rules
        assert do("fault", "wire", "remove=wire-drop; remove=wire-delay") == ""
        do("exec", "all", "--", "ib_send_lat -F -n 300", ":",
           "ib_send_lat -F -n 300 node1", ":", "true")
        do("fault", "node3", "id=down at=device do=link-down")
        await_carrier(0)
        do("fault", "node3", "remove=down")
        await_carrier(1)
    finally:
        down = fakernic_lab(tmp_path, "down")
    assert down.returncode == 0 and down.stderr == "", down
    pings = of_capture(tmp_path / "all.pcap", "icmp.type == 8", "ip.src",
                       "ip.dst", "icmp.seq", "icmp.ident")
    assert 300 <= len(pings) == len(set(map(tuple, pings)))
    replies = of_capture(tmp_path / "all.pcap", "icmp.type == 0", "icmp.resp_to")
    assert 150 < len(replies) < 290 and all(map(all, replies))
    sent = dict.fromkeys(map(tuple, of_capture(
        tmp_path / "all.pcap", "infiniband.bth.opcode == 4", "ip.src",
        "infiniband.bth.psn")))
    assert len(sent) >= 600
    assert [ip for ip, _ in sent] == ["192.168.77.2", "192.168.77.1"] * (
        len(sent) // 2)
    for number in (1, 2, 3):
        assert (tmp_path / f"fakernic-lab.up/node{number}/wire.pcap").exists()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The folder in which three machines that stay were started. Its name has a comma and
    blanks."""
    folder = tmp_path_factory.mktemp("three, my own")
    (folder / "data").mkdir()
    (folder / "seen").write_text("by all\n", encoding="utf-8")
    up = fakernic_lab(folder, "up", "-n", "3", "--mtu", "4200", "--mount",
                      "data:/data:rw", "--env", "COLOUR=deep blue")
    assert up.returncode == 0, up
    assert len(up.stdout.splitlines()) == 3, up
    yield folder
    assert fakernic_lab(folder, "down").returncode == 0
    assert not list(folder.glob("state/*"))


def execute(folder, node, *words, **options):
    return fakernic_lab(folder, "exec", *options.pop("how", ()), node, "--",
                        *words, **options)


def test_machines_know_each_other(three):
    result = execute(three, "all", "echo $FAKERNIC_NODE of $FAKERNIC_NODES: "
                     "$COLOUR; for peer in $FAKERNIC_PEERS; do "
                     "ping -c 1 -M do -s 4100 $peer; done")
    assert result.returncode == 0, result
    for number in (1, 2, 3):
        assert (f"node{number}: node{number} of node1 node2 node3: deep blue"
                in result.stdout)
    assert result.stdout.count("1 received") == 6


SERVE = ("setsid rping -s -P -S 1024 >/tmp/served 2>&1 & for try in $(seq 300); do "
         "rdma resource show cm_id | grep -q LISTEN && exit; sleep 0.1; done; exit 1")
ASK = ("for peer in $FAKERNIC_PEERS; do rping -c -v -V -C 10 -S 1024 -a $peer "
       ">/tmp/of_$peer 2>&1 & done; wait; tail -n 3 /tmp/of_*")


def test_rdma_between_any_two(three):
    """All three machines run rping with each other at the same time. A client prints only
    what it has written, read and compared."""
    served = execute(three, "all", SERVE)
    assert served.returncode == 0, served
    result = execute(three, "all", ASK)
    execute(three, "all", "pkill -x rping")
    for number in (1, 2, 3):
        assert len(re.findall(rf"^node{number}: .*rdma-ping-9:", result.stdout,
                              re.M)) == 2, result


def test_machines_have_what_scripts_need(three):
    """A machine has tools, cgroups, umad and show_gids, and its kernel knows all words of
    its command line."""
    result = execute(three, "node1", "mountpoint -q /sys/fs/cgroup && "
                     "grep -q memory /sys/fs/cgroup/cgroup.subtree_control && "
                     "diff /etc/hosts /etc/hosts && ldd /bin/true >/dev/null && "
                     "[ -c /dev/infiniband/umad0 ] && ! dmesg | grep unknown && "
                     "show_gids | grep -E \" $FAKERNIC_GID_INDEX .* $FAKERNIC_IP "
                     "+v2 +eth0\" && show_gids | grep -q \" $FAKERNIC_GID_INDEX6 .*"
                     ":0077:\"")
    assert result.returncode == 0, result


def test_commands_wait_for_each_other(three):
    """fakernic-wait also works while the network is down."""
    result = execute(three, "all", "ip link set eth0 down; [ $FAKERNIC_NODE = node3 ] "
                     "&& sleep 2 && echo late; fakernic-wait here; echo here; "
                     "fakernic-wait down; ip link set eth0 up")
    assert result.returncode == 0, result
    lines = result.stdout.splitlines()
    assert lines[0] == "node3: late" and sorted(lines[1:]) == [
        f"node{number}: here" for number in (1, 2, 3)], lines


def test_commands_run_without_their_machines_address(three):
    for how, wanted in (("del", "none"), ("add", "1")):
        result = execute(three, "node2", f"ip addr {how} $FAKERNIC_IP/24 dev eth0; "
                         "sleep 1")
        assert result.returncode == 0, result
        result = execute(three, "node2", "echo ${FAKERNIC_GID_INDEX-none}")
        assert result.stdout == f"node2: {wanted}\n", result


def test_killed_process_is_reported(three):
    """The kernel kills a process because its cgroup is out of memory. The trace is expected
    and must come."""
    result = execute(three, "node1", "mkdir /sys/fs/cgroup/small && cd "
                     "/sys/fs/cgroup/small && echo 20M >memory.max && "
                     "(echo $BASHPID >cgroup.procs; tail /dev/zero); [ $? = 137 ]",
                     how=("--expect", "oom"))
    assert result.returncode == 0, result
    assert execute(three, "node1", "true", how=("--expect", "oom")).returncode == 1


def test_mounts(three):
    assert "by all" in execute(three, "node3", "cat seen").stdout
    refused = execute(three, "node1", "touch /work/new")
    assert refused.returncode == 1 and "Read-only" in refused.stderr
    assert execute(three, "node2", "echo written >/data/file").returncode == 0
    assert (three / "data/file").read_text() == "written\n"


def test_exit_codes_and_streams(three):
    result = execute(three, "node1", "echo out; echo err >&2; printf end; exit 9")
    assert result.returncode == 9
    assert result.stdout == "node1: out\nnode1: end\n"
    assert "node1: err\n" in result.stderr
    assert execute(three, "node1", "kill -SEGV $$").returncode == 139
    assert execute(three, "node1", "nosuchprogram").returncode == 127
    assert execute(three, "node9", "true").returncode == 125


def test_output_comes_as_it_is_printed(three):
    process = subprocess.Popen(
        [HERE / "fakernic-lab", "exec", "node1", "--", "echo first; sleep 60"],
        stdout=subprocess.PIPE, text=True, cwd=three,
        env=environment(three))
    start = time.monotonic()
    assert process.stdout.readline() == "node1: first\n"
    assert time.monotonic() - start < 30
    process.terminate()
    process.wait(30)
    left = execute(three, "node1", "for i in $(seq 200); do pgrep -a -x sleep | "
                   "grep 'sleep 60' || exit 0; sleep 0.1; done; exit 1")
    assert left.returncode == 0, left


def test_time_limit(three):
    """A command that ignores signals is killed at the time limit."""
    result = execute(three, "node2", "trap '' TERM INT HUP; sleep 100; sleep 100",
                     how=("--timeout", "2"))
    assert result.returncode == LATE
    assert "node2 not done after 2 s" in result.stderr
    assert "the end of node2's console:\n" in result.stderr
    assert execute(three, "node2", "! pgrep -x sleep").returncode == 0


def test_kernel_complaints_fail_run(three):
    result = execute(three, "all", "[ $FAKERNIC_NODE = node2 ] && "
                     "echo '<4>WARNING: planted' >/dev/kmsg; sleep 1")
    assert result.returncode == LOST
    assert "the kernel of node2 complains" in result.stderr
    assert "WARNING: planted" in result.stderr
    assert execute(three, "all", "true").returncode == 0


def test_shell_and_status(three):
    shell = subprocess.run(
        [HERE / "fakernic-lab", "shell", "node2"], input="tty; exit 4\n",
        capture_output=True, text=True, timeout=60, check=False, cwd=three,
        env=environment(three))
    assert shell.returncode == 4 and "/dev/pts/" in shell.stdout, shell
    assert fakernic_lab(three, "status").stdout.count(" up ") == 3
    again = fakernic_lab(three, "up")
    assert again.returncode == 125 and "up already" in again.stderr


def read_until(terminal, words):
    """Reads from a terminal until these words come."""
    seen = b""
    deadline = time.monotonic() + 60
    while words not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096)
    return seen


def test_console_at_a_terminal(three):
    """The console shows new output, refuses a second user, ends at Ctrl-] and restores the
    terminal's settings."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [HERE / "fakernic-lab", "console", "node1"], stdin=theirs, stdout=theirs,
        stderr=theirs, cwd=three, env=environment(three))
    read_until(ours, b"Ctrl-] ends")
    assert execute(three, "node1", "echo seen >/dev/console").returncode == 0
    read_until(ours, b"seen")
    assert termios.tcgetattr(theirs) != before
    second = fakernic_lab(three, "console", "node1")
    assert second.returncode == 125 and "already" in second.stderr, second
    os.write(ours, b"\x1d")
    assert process.wait(60) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_pytest_plugin(tmp_path):
    """Of the tests in PLUGGED, a rule without a hit fails the third, and a complaint of the
    machine's kernel the last."""
    (tmp_path / "test_plugged.py").write_text(PLUGGED, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "fakernic_lab.pytest_plugin",
         "-p", "no:cacheprovider"], cwd=tmp_path, capture_output=True, text=True,
        timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": str(HERE)})
    assert "4 passed, 2 errors" in result.stdout, result
    assert "ERROR at teardown of test_rule_that_is_missed" in result.stdout
    assert re.search("FaultMissed: nothing hit the fault rule: .*at=rx "
                     "class=cnp do=drop matches=0 hits=0", result.stdout)
    assert "WARNING: planted" in result.stdout
    assert (tmp_path / "fakernic-lab.out/node1/console").exists()
    shutil.rmtree(tmp_path)
