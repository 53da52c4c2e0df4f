# SPDX-License-Identifier: GPL-2.0-or-later
"""Each allocation of the driver fails once (guest/failing.py). The slab
allocator reports use of freed memory and writes beyond an object."""

import collections
import re
import time

import pytest

from fakernic_lab import faults, images
from fakernic_lab.versions import MAIN_KERNEL
from fakernic_test import rdma
from fakernic_test.lab import mount
from fakernic_test.nvme import TARGET_AGAIN, Storage
from fakernic_test.recovery import (BIND, DEVLINK, DRIVER, FAULTS, RELOAD,
                                   RESET, SLEEP, SLOT, UNBIND, is_recovered)

IMAGE = images.images() / "modules.erofs"

GUESTS = {"count": 1, "x_guest_faults": "on", "append": "slub_debug=FZP",
          "options": {"cpus": 2, "extra": tuple(images.disk(IMAGE))}}
PAIR = {**GUESTS, "count": 2}
pytestmark = [pytest.mark.long, pytest.mark.timeout(3000),
              pytest.mark.guests(**GUESTS)]

FOLDER = "/usr/share/fakernic"
PROGRAM = f"python3 {FOLDER}/failing.py"
USER = "/sys/kernel/debug/kernel_user/run"
# With more places than this, only the first, the last and some in between fail: for
# slow commands on some kernels, and where Linux counts each round of a loop.
COMMANDS_LIMIT = 20
LINUXS_LIMIT = 6
IN_A_ROW_LIMIT = 3
VERBS_AT_LEAST = 200
LINUXS_AT_LEAST = 100
NEVER = 1000000         # the driver never makes that many allocations
# Rows of allocations, and the least number of places in each: a tenth less than the
# fewest that were seen.
HARDWARE = ("reload", "reset", "sleep", "unbind", "bind")
ONE, ALL = "verbs, one in a row", "verbs, all in a row"
KERNELS = "verbs of the kernel"
BESIDES, BESIDES_ALL = "softirqs and threads", "softirqs and threads, all in a row"
THE_HARDWARE, THE_REST = "the hardware", "the port and the rest"
PLACES_AT_LEAST = {ONE: 280, ALL: 280, KERNELS: 28, BESIDES: 33, BESIDES_ALL: 5,
                   THE_HARDWARE: 1350, THE_REST: 440}
# Kernels where the number differs from run to run, or where fewer places fail.
FEWER = {"debug": {THE_HARDWARE: 59, THE_REST: 125}}
# Kernels where all places fail, except those of a suspend: others take less than a
# second each.
WHOLE_ON = MAIN_KERNEL

# The device may have come up without some objects, or not at all: dead, or without
# an RDMA device.
UP = f"""
for i in $(seq 100); do
    rdma link | grep -q fakernic0/1 &&
        devlink health diagnose {DEVLINK} reporter fw_fatal |
        grep -q 'state: healthy' && exit
    devlink health recover {DEVLINK} reporter fw_fatal
    sleep 0.3
done
exit 1
"""
# A command, its reverse, and a check that it succeeded.
COMMANDS = {
    "open": ("exec ip link set DEV up", "ip link set DEV down",
             "ip link show DEV | grep -q UP"),
    "mtu": ("exec ip link set DEV mtu 9000", "ip link set DEV mtu 1500",
            "ip link show DEV | grep -q 'mtu 9000'"),
    "channels": ("exec ethtool -L DEV combined 2",
                 "[ $(ls -d /sys/class/net/DEV/queues/rx-* | wc -l) = 1 ] || "
                 "ethtool -L DEV combined 1",
                 "ethtool -l DEV | grep -q 'Combined:.*2'"),
    "rings": ("exec ethtool -G DEV rx 1024 tx 2048",
              "ethtool -g DEV | tail -n 9 | grep -q 'RX:.*512' || "
              "ethtool -G DEV rx 512 tx 1024",
              "ethtool -g DEV | grep -q 'RX:.*1024'"),
    "address": ("exec ip link set DEV address 02:00:00:00:77:01",
                "ip link set DEV address 02:00:00:00:77:02",
                "ip link show DEV | grep -q 77:01"),
    "test": ("exec ethtool -t DEV", "true", "true"),
    "counters": ("exec ethtool -S DEV", "true", "true"),
    "rdma counters": ("exec rdma statistic", "true", "true"),
    "auto counters": (
        "exec rdma statistic qp set link fakernic0/1 auto type on",
        "rdma statistic qp set link fakernic0/1 auto off || :", "true"),
    "management": (
        "exec cat /sys/class/infiniband/fakernic0/ports/1/counters/port_xmit_data",
        "true", "true"),
    "multicast": ("exec mckey -s -m 239.7.7.7 -b ADDRESS -C 1 -S 64", "true",
                  "true"),
    "info": (f"exec devlink dev info {DEVLINK}", "true", "true"),
    "diagnose": (f"exec devlink health diagnose {DEVLINK} reporter fw_fatal",
                 "true", "true"),
    "dump": (f"exec devlink health dump show {DEVLINK} reporter fw",
             f"devlink health dump clear {DEVLINK} reporter fw || :", "true"),
    "rings dumped": (f"exec devlink health dump show {DEVLINK} reporter cmdq",
                     f"devlink health dump clear {DEVLINK} reporter cmdq || :",
                     "true"),
    "rules": (f"exec cat {FAULTS}", "true", "true"),
    "rule": (f"echo 'id=x at=tx qpn=9999 do=count' >{FAULTS}",
             f"echo remove=x >{FAULTS} || :", f"grep -q id=x {FAULTS}"),
    "resources": ("exec rdma -r -d resource show qp", "true", "true"),
    "reload": (f"exec {RELOAD}", UP, UP),
    "reset": (RESET, UP, UP),
    # In the calling process, not in a kernel thread, and for a second.
    "sleep": ("cd /sys/power; echo 0 >pm_async; "
              "echo 1 >/sys/module/suspend/parameters/pm_test_delay; " + SLEEP,
              UP, UP),
    "unbind": (UNBIND, f"[ -e {DRIVER}/{SLOT} ] || {BIND}",
               f"{BIND} || exit\n{UP}"),
    "bind": (BIND, f"[ ! -e {DRIVER}/{SLOT} ] || {UNBIND}", UP),
}
# Commands without an allocation in the driver.
NOTHING = ("address", "test", "counters", "auto counters", "info")


@pytest.fixture(name="port")
def port_again(ports):
    """The port, which is used again afterwards."""
    guest = ports[0].guest
    ports[0].vm.expect_repair()
    mount(guest, IMAGE, "/mnt")
    guest.check("[ -e /sys/kernel/debug/failing ] || "
                "insmod /mnt/$(uname -r)/failing.ko")
    yield ports[0]
    port = rdma.bring_up(ports[0].vm, 1)
    rdma.pingpong("rc", port, port, "-n 20").check()


class Places:
    """How many allocations failed, by row and by action."""

    def __init__(self):
        self.failed = collections.defaultdict(dict)

    def check(self, rows, least):
        """Checks ROWS of which every action was tried."""
        counts = {row: sum(of.values()) for row, of in self.failed.items()}
        print("\n".join(f"RELIABILITY.md: {row}: {count} places"
                        for row, count in counts.items()))
        few = {row: counts[row] for row in rows
               if counts[row] < least[row]}
        assert not few, (few, self.failed)


def whole_rows(failed):
    """Returns the rows of which no action is missing; not all tests need have
    run."""
    parts = {ONE: {"verbs"}, ALL: {"verbs"}, KERNELS: {"kernel"},
             BESIDES: set(BESIDE), BESIDES_ALL: set(BESIDE),
             THE_HARDWARE: set(HARDWARE),
             THE_REST: set(COMMANDS) - set(HARDWARE)}
    return [row for row, of in failed.items() if set(of) == parts[row]]


@pytest.fixture(name="places", scope="module")
def places_by_row(request):
    places = Places()
    yield places
    kernel = request.config.getoption("--kernel")
    places.check(whole_rows(places.failed),
                 PLACES_AT_LEAST | FEWER.get(kernel, {}))


@pytest.fixture(name="failing")
def failing_program(port, places):
    def run(row, what, arguments, limit=NEVER):
        said = port.guest.check(f"{PROGRAM} --limit {limit} {arguments}", 1500)
        print(said)
        places.failed[row][what] = sum(map(int, re.findall(r" (\d+) failed, ", said)))
        return said

    return run


@pytest.mark.parametrize("times", (1, NEVER), ids=("one", "all"))
def test_verbs(port, failing, times):
    """Every verb survives that its n-th allocation fails, or all from the n-th
    on. Where Linux can, random allocations and copies fail, too."""
    verbs = f"verbs {port.ibdev} {port.gid_index()}"
    failing(ONE if times == 1 else ALL, "verbs",
            f"--times {times} --at-least {VERBS_AT_LEAST} {verbs}")
    if times == 1:
        print(port.guest.check(
            f"[ ! -e /proc/self/fail-nth ] || {PROGRAM} --limit {LINUXS_LIMIT} "
            f"--at-least {LINUXS_AT_LEAST} {verbs} --linuxs", 1500))


@pytest.mark.parametrize("name", COMMANDS)
def test_command(port, failing, name, request):
    """A command of the user survives that its n-th allocation fails, or all
    from the n-th on."""
    command, undo, again = (
        text.replace("DEV", port.netdev).replace("ADDRESS", port.ip4)
        for text in COMMANDS[name])
    kernel = request.config.getoption("--kernel")
    port.guest.write("/tmp/undo", undo)
    port.guest.write("/tmp/again", again)
    failing(THE_HARDWARE if name in HARDWARE else THE_REST, name,
            f"--at-least {int(name not in NOTHING)} command "
            f"'sh /tmp/undo' 'sh /tmp/again' \"{command}\"",
            NEVER if kernel == WHOLE_ON and name != "sleep" else COMMANDS_LIMIT)


def test_verbs_of_the_kernel(port, failing):
    """A kernel module creates one object of each kind while allocations fail
    (module/kernel_user.c)."""
    port.guest.check("insmod /mnt/$(uname -r)/kernel_user.ko")
    port.guest.write("/tmp/undo", f"echo end >{USER}")
    port.guest.write("/tmp/again", f"echo make >{USER}")
    failing(KERNELS, "kernel", "--at-least 1 command 'sh /tmp/undo' "
            f"'sh /tmp/again' 'echo make >{USER} && echo end >{USER}'")
    port.guest.check("rmmod kernel_user")


# ---- softirqs and kernel threads ---------------------------------------------

# Small frames are copied; long ones keep their pages, which a new interface has to
# replace. Receives fail. Each ping waits for the answer to the last one or for a
# second: a slow guest would lose some of a flood.
RECEIVES = """
ip link set DEV down && ip link set DEV up || exit
for i in $(seq 20); do
    ping -c 1 -W 1 -q PEER && break
done >/dev/null
for size in 56 1400; do
    timeout -s INT 40 ping -A -c 300 -W 1 -s $size -q PEER |
        grep -Eq ' (29[7-9]|300) received' || exit
done
"""
# A reload forgets earlier deaths, so that the recovery has no pause. The command that
# makes it die may get no answer.
DIES = f"""
{RELOAD} >/dev/null || exit
dmesg -C
echo at=device do=fatal 2>/dev/null >{FAULTS}
for i in $(seq 100); do
    dmesg | grep -Eq 'device (is recovered|cannot be recovered)' && break
    sleep 0.1
done
{UP}
"""
LOSES_ITS_LINK = f"""
cd /sys/class/net/DEV
before=$(cat carrier_up_count)
echo at=device for-ns=1000000000 do=link-down >{FAULTS} || exit
for i in $(seq 200); do
    [ $(cat carrier_up_count) -gt $before ] && break
    sleep 0.1
done
[ $(cat carrier_up_count) -gt $before ] || exit
rdma link show fakernic0/1 | grep -q ACTIVE
"""
# Whose allocations fail, the command at the same time, and how many fail at most.
BESIDE = {"receives": ("softirqs", RECEIVES, NEVER),
          "paging": ("threads", "exec rdma_odp given_back implicit", NEVER),
          "recovery": ("threads", DIES, COMMANDS_LIMIT),
          "link": ("threads", LOSES_ITS_LINK, COMMANDS_LIMIT)}


@pytest.mark.parametrize("times", (1, NEVER), ids=("one", "all"))
@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.guests(**PAIR)
def test_allocations_of_softirqs_and_threads(port, ports, failing, name, times):
    """Allocations of softirqs and kernel threads fail: a frame is lost, a page
    request or a recovery is retried. While no allocation succeeds all frames
    are lost."""
    who, command, limit = BESIDE[name]
    port.guest.write("/tmp/beside", command.replace("DEV", port.netdev)
                     .replace("PEER", ports[1].ip4))
    dropped = f"cat /sys/class/net/{port.netdev}/statistics/rx_dropped"
    before = int(port.guest.check(dropped))
    said = failing(BESIDES if times == 1 else BESIDES_ALL, name,
                   f"--times {times} --at-least 1 beside {who} 'sh /tmp/beside'",
                   limit if times == 1 else IN_A_ROW_LIMIT)
    assert times > 1 or " 0 errors" in said
    if name == "receives":
        assert int(port.guest.check(dropped)) > before


# ---- random allocations ------------------------------------------------------

PERMILLE = 30
# Each command must succeed once without failures. Then it is repeated, and may fail.
BUSY = """
exec >/dev/null 2>&1
while [ -e /tmp/busy ]; do
    ( {load} ) && touch /tmp/done.{name}
    sleep 0.1
done
exit 0
"""
DONE = ("for i in $(seq 600); do [ $(ls /tmp/done.* | wc -l) = {} ] && exit; "
        "sleep 0.1; done; ls /tmp/done.*; exit 1")
LOADS = {
    "paging": "rdma_odp given_back implicit",
    "mtu": "ip link set DEV mtu 4200 && ethtool -S DEV && ip link set DEV mtu 1500",
    "looks": f"rdma -dd resource show && devlink health diagnose {DEVLINK} "
             "reporter fw",
}
CHANCES = 200           # failures, at least, before the device dies
CHANCES_S = 600         # their time limit on a busy machine
DIES_S = 30             # how long it stays dead


def keep_busy(guest, loads):
    guest.check("touch /tmp/busy; rm -f /tmp/done.*")
    jobs = [guest.start(BUSY.format(name=name, load=load), 1200)
            for name, load in loads.items()]
    guest.check(DONE.format(len(loads)), 100)
    return jobs


@pytest.mark.guests(**PAIR)
def test_random_failures(port, ports):
    """Random allocations fail while programs and the kernel use the card,
    which dies and is recovered once."""
    peer = ports[1]
    storage = Storage(ports)
    jobs = keep_busy(port.guest, {name: load.replace("DEV", port.netdev)
                                  for name, load in LOADS.items()})
    jobs += keep_busy(peer.guest, {
        "disk": storage.write_and_read(),
        "pings": f"ping -i 0.01 -c 500 -W 1 -s 1400 {port.ip4}"})
    deaths = f"ethtool -S {port.netdev} | grep device_deaths"
    before = port.guest.check(deaths)
    port.guest.check(f"{PROGRAM} chance {PERMILLE}", 200)
    port.guest.check(f"until {PROGRAM} --at-least {CHANCES} failed; do sleep 3; "
                     "done", CHANCES_S)
    faults.set_fault(port.vm, "at=device do=fatal")
    time.sleep(DIES_S)
    for one in ports:
        one.guest.check("rm /tmp/busy")
    print(port.guest.check(f"{PROGRAM} chance 0", 200))
    port.guest.check(UP, 100)
    assert port.guest.check(deaths) != before
    again = rdma.bring_up(port.vm, 1)
    port.guest.check(TARGET_AGAIN)
    for job in jobs:
        job.wait()
    rdma.pingpong("rc", again, peer, "-n 20").check()
    peer.guest.check(storage.write_and_read(), 100)
    peer.guest.check("[ ! -e /tmp/wrong ]")
    storage.end()


@pytest.fixture(name="rule")
def rule_of_device(port):
    """Adds a fault rule inside, which must be hit."""
    rules = []

    def add(text):
        rules.append(text)
        port.guest.check(f"dmesg -C; echo 'id=mine {text}' >{FAULTS}")

    yield add
    after = port.guest.check(f"grep id=mine {FAULTS}; echo remove=all >{FAULTS}")
    assert " hits=0\n" not in after and " hits=" in after, after


def test_undestroyed_queue_stops_port(port, rule):
    """If a queue of the port cannot be destroyed, the device is stopped before
    it can write to the freed memory."""
    rule("at=command cmd=DESTROY_QP do=fail status=6")
    port.guest.check(f"ip link set {port.netdev} down")
    is_recovered(port.guest, 30)
    said = port.guest.check("dmesg")
    assert "device is dead" in said, said


def test_queue_creation_is_retried(port, rule):
    """If neither new nor old queues can be created, the driver retries after
    growing pauses."""
    rule("at=command cmd=CREATE_CQ times=5 do=fail status=6")
    assert not port.guest.run(f"ethtool -G {port.netdev} rx 1024").ok
    sent = f"cat /sys/class/net/{port.netdev}/statistics/tx_packets"
    before = port.guest.check(sent)
    port.guest.check(f"""
        for i in $(seq 60); do
            ping -c 1 -W 1 192.168.77.99 >/dev/null
            [ "$({sent})" = "{before.strip()}" ] || exit 0
        done
        exit 1""", 100)
    tried = [float(when) for when in re.findall(
        r"\[ *([\d.]+)\] .*restarting", port.guest.check("dmesg"))]
    assert len(tried) == 4 and tried[3] - tried[2] > 3.5, tried


def test_coalescing_of_all_queues_or_none(port, rule):
    """If the second queue refuses new coalescing times, the first gets its old
    ones back."""
    port.guest.check(f"ethtool -L {port.netdev} combined 2")
    before = port.guest.check(f"ethtool -c {port.netdev}")
    rule("at=command cmd=MODIFY_CQ nth=2 do=fail status=6")
    assert not port.guest.run(f"ethtool -C {port.netdev} rx-usecs 50").ok
    assert port.guest.check(f"ethtool -c {port.netdev}") == before
    port.guest.check(f"ethtool -C {port.netdev} rx-usecs 50")
    port.guest.check(f"ethtool -C {port.netdev} rx-usecs 0; "
                     f"ethtool -L {port.netdev} combined 1")
