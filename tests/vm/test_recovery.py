# SPDX-License-Identifier: GPL-2.0-or-later
"""The device fails, is reset, or sleeps; the driver lives, and the network
interface with all that was set upon it stays.

How the device is made to fail: a doorbell of the command queue that is beyond
its ring (FATAL), memory decoding turned off (no register answers), bus mastering
turned off (it cannot reach its rings), all done in the guest as a kernel with
iomem=relaxed lets root do it; and by fault rules of the device: dead (all ones
until a reset of the function), frozen (commands are not answered), or that it
loses interrupts and events.
"""

import json
import operator
import re
import time
from contextlib import contextmanager

import pytest

from fakernic_lab import faults
from fakernic_test import rdma
from fakernic_test.recovery import (BIND, BUS_ERROR_MARK, CMD_TIMEOUT,
                                    CMD_TIMEOUT_S, DEVLINK, FATAL,
                                    NATIVE_HOTPLUG, RECOVERED, RELOAD,
                                    REPORTER, RESET, RINGS, SETTINGS, SLOT,
                                    SYSFS, UNBIND, ConfiguredPort, bus_error,
                                    commands_may_take, fatal_bus_error, rebind,
                                    reload, report_bus_error, reset, sleep,
                                    without_auto_recover)

pytestmark = pytest.mark.guests(count=1, append="iomem=relaxed",
                                options={"extra": NATIVE_HOTPLUG})


def longer(*rows):
    """Those that make test leaves out: others are of the same kind."""
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]


CMDQ_DOORBELL = 0x054
LINK_DOWN_S = 2
HASTY_S = 3                     # what the driver waits for a command in most tests


@pytest.fixture(scope="module", name="ward")
def fixture_ward(lab):
    """Patients keep their settings from one test to the next: by number of the lab's
    guests."""
    ward = {}
    yield ward
    if lab.current and lab.serial in ward:
        ward[lab.serial].end()


@pytest.fixture
def dut(lab, ports, ward):
    ports[0].vm.look()      # now, and not when it is hurt
    if lab.serial not in ward:
        ward[lab.serial] = ConfiguredPort(ports[0])
    ward[lab.serial].begin(ports[0])
    yield ward[lab.serial]
    ward[lab.serial].rest()


@pytest.fixture
def afresh(dut):
    """It is recovered at once."""
    dut.reload()
    dut.works()
    dut.forget()


def fatal(dut):
    dut.ring(CMDQ_DOORBELL, 0x7fffffff)


def no_decoding(dut):
    dut.port.vm.expect_repair()
    dut.guest.check(f"echo {RINGS} >/dev/kmsg; setpci -s {SLOT} COMMAND=0:2")


def no_mastering(dut):
    """It cannot reach its rings: the next command is its end."""
    dut.port.vm.expect_repair()
    dut.guest.check(f"echo {RINGS} >/dev/kmsg; setpci -s {SLOT} COMMAND=0:4")


def rule(dut, do):
    faults.set_fault(dut.port.vm, f"at=device do={do}")


def dead(dut):
    rule(dut, "dead")


def frozen(dut):
    commands_may_take(dut.guest, HASTY_S)
    rule(dut, "freeze")


def frozen_as_usual(dut):
    """As long as a user has to wait who has not changed anything."""
    rule(dut, "freeze")


DEATHS = (fatal, no_decoding, no_mastering, dead, frozen)


def reporter_of(death):
    return f"{DEVLINK} reporter cmdq" if death is frozen else REPORTER


EVENTS, UNPLUG = "/tmp/events", "/tmp/unplug"


def start_watch(dut):
    """A program that writes to EVENTS what it hears of the device. What an earlier
    one wrote would say that it is there already."""
    dut.guest.check(f"rm -f {EVENTS}")
    job = dut.guest.start(f"exec ibv_asyncwatch -d {dut.port.ibdev} "
                              f">{EVENTS} 2>&1", 100)
    dut.until(f"[ -s {EVENTS} ]")
    return job


def start_unplug(dut):
    """One at work, that writes to UNPLUG how it takes the device's end."""
    dut.guest.check(f"rm -f {UNPLUG}")
    job = dut.guest.start("RDMAV_ALLOW_DISASSOC_DESTROY=1 exec rdma_unplug "
                              f">{UNPLUG}", 100)
    dut.until(f"grep -qs running {UNPLUG}")
    return job


TRACING = "/sys/kernel/tracing"
EVENTS_TRACED = f"{TRACING}/events/fakernic/enable"


def start_trace(guest):
    guest.check(f"mountpoint -q {TRACING} || mount -t tracefs tracefs {TRACING}; "
                f"echo >{TRACING}/trace; echo 1 >{EVENTS_TRACED}")


def end_trace(guest):
    return guest.check(f"echo 0 >{EVENTS_TRACED}; cat {TRACING}/trace")


MISBEHAVES = "device was told to misbehave"


@pytest.mark.usefixtures("power_on")
def test_later_fault_rule_is_logged_once(dut):
    """Of a card that nobody had misbehave before: soon, and once, however many
    rules and polls follow. Once more after a reset."""
    guest, vm = dut.guest, dut.port.vm
    with faults.armed(vm, "at=tx class=roce do=count"):
        dut.said(MISBEHAVES)
        dut.works()
    with faults.armed(vm, "at=tx class=roce times=0 do=count"):
        dut.works()
        guest.check("sleep 2")
    assert guest.check("dmesg").count(MISBEHAVES) == 1
    dut.forget()
    guest.check(f"{RESET}; sleep 2", 60)
    dut.works()
    assert guest.check("dmesg").count(MISBEHAVES) == 1


def test_function_level_reset(dut):
    for _ in range(2):
        dut.forget()
        reset(dut.port)
        dut.said("about to be reset")
        dut.works()


def test_program_is_notified_of_reset(dut):
    """Told by an event, it finds every verb failing and lets go of all."""
    guest = dut.guest
    job = start_unplug(dut)
    reset(dut.port)
    result = job.wait()
    said = guest.check(f"cat {UNPLUG}").splitlines()
    assert result.ok and said == ["running", "done"], f"{said} {result}"
    dut.works()


def test_nonfatal_bus_error(dut):
    """Nothing is torn down: the RDMA device is the one it was."""
    before = dut.guest.check(f"rdma dev show {dut.port.ibdev}")
    for _ in range(3):
        bus_error(dut.port)
        assert dut.guest.check(
            f"rdma dev show {dut.port.ibdev}") == before
    dut.works()


def test_fatal_bus_error(dut):
    for _ in range(2):
        fatal_bus_error(dut.port)
        dut.works()


NEIGHBOUR = SLOT.replace(".0", ".1")
TWO_FUNCTIONS = ("-global", "fakernic.multifunction=on",
                 "-netdev", "hubport,id=beside,hubid=7",
                 "-device", "fakernic,id=beside,netdev=beside,bus=slot1,addr=0.1")


@pytest.mark.long
@pytest.mark.guests(count=1, append="iomem=relaxed",
                    options={"extra": NATIVE_HOTPLUG + TWO_FUNCTIONS})
def test_bus_error_with_dead_neighbour(dut):
    """Who is dead wants a reset, of which Linux tells all below the same port:
    those who are well go on."""
    guest, vm = dut.guest, dut.port.vm
    show = f"rdma dev show {dut.port.ibdev}"
    before = guest.check(show)
    reporter = f"pci/{NEIGHBOUR} reporter fw_fatal"
    guest.check(f"devlink health set {reporter} auto_recover false")
    dut.forget()
    faults.set_fault(vm, "at=device do=fatal", device="/machine/peripheral/beside")
    dut.said(f"{NEIGHBOUR}: device is dead")
    bus_error(dut.port)
    assert int(guest.check(f"setpci -s {SLOT} COMMAND"), 16) & 4
    dut.works()
    assert guest.check(show) == before
    assert f"{SLOT}: device is dead" not in guest.check("dmesg")


# What a bus error's rule has the kernel say, and whether it resets the card.
SEVERITIES = {"correctable": ("AER: Correct", False),
              "nonfatal": ("device recovery successful", False),
              "fatal": ("device recovery successful", True)}


@pytest.mark.parametrize("severity", SEVERITIES)
def test_bus_error_by_a_rule(dut, severity):
    """As if the monitor had injected it: only a fatal one takes the RDMA device
    away."""
    said, resets = SEVERITIES[severity]
    show = f"rdma dev show {dut.port.ibdev}"
    before = dut.guest.check(show)
    for _ in range(2):
        dut.forget()
        with faults.armed(dut.port.vm,
                          f"at=device severity={severity} do=aer"):
            dut.said(said)
        dut.works()
    assert (dut.guest.check(show) != before) == resets


def carriers(dut):
    """How often it went, and came."""
    return [int(word) for word in dut.guest.check(
        f"cd /sys/class/net/{dut.port.netdev}; "
        "cat carrier_down_count carrier_up_count").split()]


def test_link_down_by_rule(dut):
    """For as long as the rule says; programs are told of both."""
    guest, port = dut.guest, dut.port
    job = start_watch(dut)
    before, begin = carriers(dut), time.monotonic()
    with faults.armed(port.vm,
                      f"at=device for-ns={LINK_DOWN_S}000000000 do=link-down"):
        dut.until(f"grep -q IBV_EVENT_PORT_ERR {EVENTS}")
        dut.until(f"grep -q IBV_EVENT_PORT_ACTIVE {EVENTS}")
    assert time.monotonic() >= begin + LINK_DOWN_S
    assert carriers(dut) == [count + 1 for count in before]
    events = guest.check(f"grep -o 'IBV_EVENT_PORT_[A-Z]*' {EVENTS}").split()
    assert events == ["IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE"]
    guest.run(f"kill {job.pid}")
    job.wait()
    dut.works()


def carrier(dut):
    return f"[ $(cat /sys/class/net/{dut.port.netdev}/carrier) = {{}} ]"


REFUSED = "at=command cmd={} times={} do=fail status=6"
REFUSED_S = 5           # a command that is refused twice is done by then
PAUSE_MOST_S = 1.5      # by so much a busy machine makes a pause longer


def test_failed_port_query_is_repeated(dut):
    """The device refuses to say what became of it: it is asked again, and
    meanwhile the port is what it was."""
    port = dut.port
    try:
        dut.forget()
        # Seven seconds and a half: a slow guest has to see them.
        with faults.armed(port.vm, REFUSED.format("QUERY_PORT", 4)):
            port.vm.set_link(False)
            dut.until("dmesg | grep -q 'port state cannot be set' && " +
                          carrier(dut).format(1))
            dut.until(carrier(dut).format(0), 20)
        with faults.armed(port.vm, REFUSED.format("QUERY_PORT", 2)):
            port.vm.set_link(True)
            dut.until(carrier(dut).format(1), REFUSED_S)
    finally:
        port.vm.set_link(True)
    dut.works()


def test_failed_filter_update_is_repeated(dut):
    """It is told to the device again, until that has taken it."""
    guest, port = dut.guest, dut.port
    rules = (REFUSED.format("SET_PORT", 2),
             "at=command cmd=SET_PORT times=0 do=count")
    dut.forget()
    try:
        with faults.armed(port.vm, *rules) as told:
            guest.check(f"ip link set {port.netdev} promisc on")
            told.wait_for([2, 1], REFUSED_S)
        dut.said("receive filter")
    finally:
        guest.check(f"ip link set {port.netdev} promisc off")
    dut.works()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("tries", (4, pytest.param(
    7, marks=(pytest.mark.long, pytest.mark.timeout(300)))))
def test_port_without_queues_has_no_carrier(dut, tries):
    """Neither those that ethtool asks for can be had nor, for a while, the old:
    then the port has no carrier, and nobody waits for it to send, while RDMA's
    goes on. The pauses between the tries grow."""
    guest, port = dut.guest, dut.port
    dut.forget()
    with faults.armed(port.vm, REFUSED.format("CREATE_CQ", tries + 1)):
        assert not guest.run(f"ethtool -G {port.netdev} rx 1024").ok
        guest.check(carrier(dut).format(0))
        assert "ACTIVE" in guest.check(f"rdma link show {port.ibdev}/1")
        dut.until(carrier(dut).format(1), 2 ** tries)
    log = guest.check("dmesg")
    tried = times(log, "restarting")
    pauses = [b - a for a, b in zip(tried, tried[1:])]
    assert len(pauses) == tries - 1
    # The kernel's timers may be late by an eighth.
    assert all(2 ** n <= pause + 0.1 < 2 ** n * 9 / 8 + 2 * PAUSE_MOST_S
               for n, pause in enumerate(pauses)), pauses
    assert "send timeout" not in log and "WATCHDOG" not in log
    dut.works()


@pytest.mark.usefixtures("afresh")
def test_reset_without_port_queues(dut):
    """Those that a reset's new device is asked for first cannot be had: RDMA is
    there all the same, of the interface's MTU, and the port has a carrier when they
    can. What is refused is a command that no other queue needs."""
    guest, port = dut.guest, dut.port
    guest.check(f"ethtool -C {port.netdev} rx-usecs 50")
    try:
        dut.forget()
        with faults.armed(port.vm, REFUSED.format("MODIFY_CQ", 3)) as refused:
            reset(port)
            said = guest.check(f"ibv_devinfo -d {port.ibdev}")
            guest.check(carrier(dut).format(0))
            assert "PORT_ACTIVE" in said, said
            assert re.search(r"active_mtu:\s+4096", said), said
            dut.until(carrier(dut).format(1))
            assert refused.hits() == [3]
    finally:
        guest.check(f"ethtool -C {port.netdev} rx-usecs 0")
    log = guest.check("dmesg")
    assert "queues cannot be set up" in log and "restarting" in log, log
    dut.works()


SLOW_S = 5
SLOW = f"at=command cmd={{}} times=0 delay-ns={SLOW_S}000000000 do=delay"
SLOW_CMDS = ("SET_PORT", "MODIFY_QP", "CREATE_CQ", "DESTROY_CQ", "CREATE_QP",
             "DESTROY_QP")
WATCHDOG_S = 20         # Linux looks at queues that are stopped so often


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("afresh")
def test_slow_queue_creation_is_not_repeated(dut):
    """Those that ethtool asks for, of a device that takes its time: they are not
    taken for queues that fail to send, and are not made twice."""
    guest, port = dut.guest, dut.port
    dut.forget()
    try:
        with faults.armed(port.vm, *map(SLOW.format, SLOW_CMDS)) as slow:
            guest.check(f"ethtool -G {port.netdev} rx 1024", 120)
            hits = slow.hits()
        # Linux looks twice in that time: at the second it finds them late.
        assert sum(hits) * SLOW_S > 2 * WATCHDOG_S, hits
        # Whoever waits to make them once more does so now.
        time.sleep(2)
        log = guest.check("dmesg")
    finally:
        guest.check(f"ethtool -G {port.netdev} rx 512", 120)
    assert "send timeout" not in log and "restarting" not in log, log
    dut.works()


GONE_CLOCK = """
import os, subprocess, time
clock = os.open("/dev/{ptp}", os.O_RDONLY)
last = 0
def look():
    global last
    now = time.clock_gettime_ns(~clock << 3 | 3)
    assert now >= last, (last, now)
    last = now
look()
subprocess.run(["setpci", "-s", "{slot}", "COMMAND=0:2"], check=True)
try:
    while True:
        look()
except OSError as error:
    print(error)
"""


def test_clock_of_absent_device(dut):
    """What a bus says without it is no time, whether or not the driver knows."""
    guest = dut.guest
    dut.port.vm.expect_repair()
    ptp = guest.check(f"ls {SYSFS}/ptp").strip()
    guest.write("/tmp/clock.py", GONE_CLOCK.format(ptp=ptp, slot=SLOT))
    assert "No such device" in guest.check("timeout 20 python3 /tmp/clock.py")
    dut.is_recovered()
    dut.works()


def test_program_is_notified_of_freeze(dut):
    """Its requests are not done; when the driver has given the card up it is
    told so, finds every verb failing by EIO and lets go of all."""
    guest = dut.guest
    # Else the pause may be that of an earlier death.
    reload(dut.port)
    job = start_unplug(dut)
    frozen(dut)
    result = job.wait()
    said = guest.check(f"cat {UNPLUG}").splitlines()
    assert result.ok and said == ["running", "done"], f"{said} {result}"
    dut.is_recovered()
    dut.works()


def test_program_on_a_dead_device(dut):
    """That is left so: it has the device yet, all of whose verbs fail by EIO, and
    lets go of all."""
    guest = dut.guest
    with without_auto_recover(guest):
        job = start_unplug(dut)
        fatal(dut)
        result = job.wait()
        said = guest.check(f"cat {UNPLUG}").splitlines()
        assert result.ok and said == ["running", "done"], f"{said} {result}"
        guest.check(f"devlink health recover {REPORTER}", 60)
    dut.works()


FORESIGHT = "/tmp/foresight"


@pytest.mark.parametrize("event", (reset, *longer((reload,))),
                         ids=lambda event: event.__name__)
def test_prefetch_ends_with_device(dut, event):
    """What a program wants to be paged in, for many minutes, ends with its device."""
    guest = dut.guest
    dut.forget()
    job = guest.start(f"exec rdma_prefetch >{FORESIGHT}", 100)
    dut.until(f"grep -qs begins {FORESIGHT}")
    guest.check("sleep 1")
    event(dut.port)
    assert job.wait().ok
    said = guest.check(f"cat {FORESIGHT}")
    assert said == "begins\nended: Input/output error\n", said
    dut.works()


ASKED = {
    "recover": f"devlink health recover {REPORTER}",
    "reload": RELOAD,
    "reset": RESET,
}


BUS_PATIENCE_S = 10     # which the driver has with Linux's recovery


@pytest.mark.long
@pytest.mark.guests(count=1)
def test_device_recovers_after_failed_bus_recovery(dut):
    """With QEMU's ACPI hot plug Linux finds no link behind the root port, gives
    up, and no driver hears of it: it recovers the device after ten seconds, or
    when it is asked to."""
    gives_up = "device recovery failed"
    guest, vm = dut.guest, dut.port.vm
    report_bus_error(dut.port, FATAL)
    dut.said(gives_up)
    dut.is_recovered(30)
    held = when(dut, RECOVERED) - when(dut, BUS_ERROR_MARK)
    assert 0 <= held - BUS_PATIENCE_S < BROUGHT_UP_S * vm.patience, held
    dut.works()
    with without_auto_recover(guest):
        for name, command in ASKED.items():
            report_bus_error(dut.port, FATAL)
            dut.said(gives_up)
            text = guest.check(f"devlink health diagnose {REPORTER}")
            assert "state: dead" in text and "bus error" in text, text
            if name == "reset":
                # When Linux has had its time the device says that it is dead.
                dut.until(f"[ -e /sys/class/infiniband/{dut.port.ibdev} ]",
                              30)
                says_dead(dut)
            guest.check(command, 60)
            dut.works()
            text = guest.check(f"devlink health show {REPORTER}")
            assert "state healthy" in text, text


def test_suspend_to_idle(dut):
    """Suspend to idle; the kernel resumes all devices after five seconds."""
    for _ in range(2):
        sleep(dut.port)
        dut.works()


def test_reload(dut):
    for _ in range(2):
        reload(dut.port)
        dut.works()


def test_rdma_settings_survive_reload(dut):
    """Those that the core keeps with the RDMA device, which a reload replaces."""
    guest, name = dut.guest, dut.port.ibdev
    desc = f"/sys/class/infiniband/{name}/node_desc"
    try:
        guest.check(f"echo -n 'rack 7' >{desc} && "
                    f"rdma dev set {name} adaptive-moderation on")
        reload(dut.port)
        assert guest.check(f"cat {desc}") == "rack 7\n"
        shown = guest.check(f"rdma -d dev show {name}")
        assert "adaptive-moderation on" in shown, shown
    finally:
        guest.check(f"echo -n fakernic >{desc} && "
                    f"rdma dev set {name} adaptive-moderation off")
    dut.works()


def test_devlink_info(dut):
    text = dut.guest.check(f"devlink dev info {DEVLINK}")
    assert "driver fakernic" in text and "serial_number" in text, text
    fw = dut.guest.check(f"ethtool -i {dut.port.netdev}")
    assert f"fw {fw.split('firmware-version: ')[1].split()[0]}" in text
    for reporter in ("fw_fatal", "cmdq"):
        text = dut.guest.check(
            f"devlink health diagnose {DEVLINK} reporter {reporter}")
        assert "state: well" in text, text
    text = dut.guest.check(
        f"devlink health dump show {DEVLINK} reporter cmdq")
    assert "requests" in text and "depth: 64" in text, text
    dut.guest.check(f"devlink health dump clear {DEVLINK} reporter cmdq")


def test_dead_device_is_reported(dut):
    """It is left dead, if the user wants it, until he has it recovered."""
    guest, port = dut.guest, dut.port
    reporter = REPORTER
    with without_auto_recover(guest):
        job = start_watch(dut)
        counted = guest.check(f"ethtool -S {port.netdev}")
        fatal(dut)
        dut.until(f"grep -q IBV_EVENT_DEVICE_FATAL {EVENTS}")
        assert "state DOWN" in guest.check(f"rdma link show {port.ibdev}/1")
        assert "DOWN" in guest.check(
            f"cat /sys/class/infiniband/{port.ibdev}/ports/1/state")
        text = guest.check(f"ibv_devinfo -d {port.ibdev}")
        assert "PORT_DOWN" in text, text
        result = guest.run(f"ibv_rc_pingpong -d {port.ibdev} -g 0")
        assert not result.ok and "allocate PD" in result.err, result
        text = guest.check(f"ethtool -S {port.netdev}")
        assert "device_dead: 1" in text, text
        assert (counted.split("device_dead")[0] == text.split("device_dead")[0])
        text = guest.check(f"devlink health diagnose {reporter}")
        assert "state: dead" in text and "fatal error" in text, text
        assert "overrun" in guest.check(f"devlink health dump show {reporter}")
        assert "state error" in guest.check(f"devlink health show {reporter}")
        # Settings are taken meanwhile.
        guest.check(f"ip link set {port.netdev} mtu 4300; sleep 1")
        assert "state DOWN" in guest.check(f"rdma link show {port.ibdev}/1")
        guest.check(f"ip link set {port.netdev} mtu 4200")
        guest.run(f"kill {job.pid}")
        job.wait()
        guest.check(f"devlink health recover {reporter}", 60)
        dut.works()
        assert "state healthy" in guest.check(f"devlink health show {reporter}")
        assert "device_dead: 0" in guest.check(f"ethtool -S {port.netdev}")


@pytest.mark.long
@pytest.mark.guests(count=1, append="iomem=relaxed",
                    options={"cpus": 2, "extra": NATIVE_HOTPLUG})
def test_dead_port_accepts_settings(dut):
    """Of its queues, too, which the next life begins with."""
    guest, port = dut.guest, dut.port
    with without_auto_recover(guest):
        dut.forget()
        fatal(dut)
        dut.said("device is dead")
        guest.check(f"""
            set -e
            ethtool -X {port.netdev} equal 1
            ethtool -C {port.netdev} rx-frames 8 rx-usecs 50
            ethtool -G {port.netdev} rx 1024""")
        guest.check(f"devlink health recover {REPORTER}", 60)
        dut.works()
    text = guest.check(f"ethtool -g {port.netdev}; ethtool -c {port.netdev}")
    assert re.search(r"Current.*\bRX:\s+1024\b", text, re.S), text
    assert re.search(r"rx-usecs:\s+50\b", text), text
    table = guest.check(f"ethtool -x {port.netdev}").split("hash key")[0]
    assert re.search(r"^ *0:( +0)+$", table, re.M), table
    guest.check(f"ethtool -X {port.netdev} default; "
                f"ethtool -G {port.netdev} rx 512; "
                f"ethtool -C {port.netdev} rx-frames 0 rx-usecs 0")
    dut.works()


# Longer than the core waits for the counters of a device that it registers.
LATE = "at=command cmd=QUERY_STATS times=0 delay-ns=4000000000 do=delay"


@pytest.mark.parametrize("event", (reset, *longer((sleep,), (reload,))),
                         ids=lambda event: event.__name__)
def test_slow_statistics(dut, event):
    """A device that is slow to tell them comes up, as with all else it is slow in."""
    dut.forget()
    with faults.armed(dut.port.vm, LATE):
        event(dut.port)
    dut.until(f"rdma link show {dut.port.ibdev}/1 | grep -q ACTIVE")
    said = dut.guest.check("dmesg")
    assert "does not come up" not in said and "device is dead" not in said, said
    dut.works()


def says_dead(dut):
    """Wherever one may ask."""
    guest, port = dut.guest, dut.port
    assert "state: dead" in guest.check(f"devlink health diagnose {REPORTER}")
    assert "state DOWN" in guest.check(f"rdma link show {port.ibdev}/1")
    assert "PORT_DOWN" in guest.check(f"ibv_devinfo -d {port.ibdev}")
    assert "device_dead: 1" in guest.check(f"ethtool -S {port.netdev}")
    assert "Link detected: no" in guest.check(f"ethtool {port.netdev}")


def still_dead(dut):
    """For as long as a recovery that was under way would take."""
    dut.guest.check("sleep 3")
    says_dead(dut)


@pytest.mark.parametrize("death, event, cure", (
    (frozen, bus_error, "reset"), (fatal, fatal_bus_error, "reload"),
    *longer((fatal, sleep, "reset"))))
def test_no_recovery_without_auto_recover(dut, death, event, cure):
    """Who wants to look at it is not robbed of it by what he has not asked for; what
    he asks for brings it up."""
    guest = dut.guest
    reporter = reporter_of(death)
    with without_auto_recover(guest, reporter):
        dut.forget()
        death(dut)
        dut.said("device is dead")
        event(dut.port)
        still_dead(dut)
        text = guest.check(f"devlink health diagnose {reporter}; "
                           f"devlink health dump show {reporter}")
        assert "state: dead" in text, text
        if death is frozen:
            assert "a command was not answered" in text, text
            assert re.search("in_flight_at_death: [1-9]", text), text
        guest.check(ASKED[cure], 60)
        dut.works()
        assert "state healthy" in guest.check(f"devlink health show {reporter}")


def test_failed_recovery_is_reported(dut):
    """It is there until the one that takes its place is."""
    guest, vm = dut.guest, dut.port.vm
    before = guest.check(f"rdma dev show {dut.port.ibdev}")
    with without_auto_recover(guest):
        dut.forget()
        with faults.armed(vm, "at=command cmd=NOP times=0 do=fail status=7"):
            fatal(dut)
            dut.said("device is dead")
            assert not guest.run(f"devlink health recover {REPORTER}", 60).ok
            still_dead(dut)
            assert guest.check(f"rdma dev show {dut.port.ibdev}") == before
        guest.check(f"devlink health recover {REPORTER}", 60)
        dut.works()


TRIED = "device cannot be recovered"


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("event", (fatal, *longer((reset,))),
                         ids=lambda event: event.__name__)
def test_failed_recovery_is_retried(dut, event):
    """One that fails, until it does not, after pauses that grow; nobody asks for
    it."""
    dut.forget()
    with faults.armed(dut.port.vm, REFUSED.format("QUERY_DEVICE", 0)):
        event(dut if event is fatal else dut.port)
        dut.until(f"[ $(dmesg | grep -c '{TRIED}') = 3 ]")
    dut.is_recovered()
    tried = times(dut.guest.check("dmesg"), TRIED)
    pauses = [b - a for a, b in zip(tried, tried[1:] + [when(dut, RECOVERED)])]
    # The first of PAUSES_S is that before the first try.
    assert all(map(operator.le, PAUSES_S[1:], pauses)), pauses
    assert "state healthy" in dut.guest.check(
        f"devlink health show {REPORTER}")
    dut.works()


def test_fw_reporter_sees_all_deaths(dut):
    """fw knows of each while it lasts, and has it recovered at once; those that
    know of their own go on waiting for it."""
    guest = dut.guest
    show = f"devlink health show {DEVLINK} reporter "
    # Else the pauses go on growing from death to death.
    reload(dut.port)
    for death, reporter in ((fatal, "fw_fatal"), (frozen, "cmdq")):
        guest.check(f"devlink health set {DEVLINK} reporter {reporter} "
                    "auto_recover false")
        try:
            dut.forget()
            death(dut)
            for name in ("fw", reporter):
                dut.until(f"{show} {name} | grep -q 'state error'")
            dut.said("device is dead")
            guest.check(f"devlink health recover {DEVLINK} reporter fw", 60)
            dut.is_recovered()
        finally:
            guest.check(f"devlink health set {DEVLINK} reporter {reporter} "
                        "auto_recover true")
        for name in ("fw", reporter):
            assert "state healthy" in guest.check(f"{show} {name}")
        dut.works()


BUSY, NO_RESOURCE = 6, 7        # enum fakernic_cmd_status


def refused_reload(port):
    assert not port.guest.run(RELOAD, 60).ok


def what_it_is(port):
    """GUID and limits, which it need not tell again when it is dead."""
    return port.guest.check(f"ibv_devinfo -v -d {port.ibdev} | grep -E "
                            "'node_guid|max_(cqe|qp|mtu|pkeys):'")


@pytest.mark.parametrize("event, command, status, cure", (
    (reset, "NOP", NO_RESOURCE, "reset"), (reset, "QUERY_DEVICE", BUSY, "recover"),
    *longer((refused_reload, "NOP", BUSY, "recover"), (sleep, "NOP", BUSY, "reload"),
            (fatal_bus_error, "NOP", NO_RESOURCE, "recover"))))
def test_device_fails_to_come_up(dut, event, command, status, cure):
    """Whatever it says to that, it is dead, and tells all who ask; it takes
    settings, stays so while nothing helps, and comes up when something does."""
    guest, port = dut.guest, dut.port
    before = rdma.resources(port)
    known = what_it_is(port)
    with without_auto_recover(guest):
        dut.forget()
        with faults.armed(port.vm, f"at=command cmd={command} times=0 do=fail "
                          f"status={status}"):
            event(dut.port)
            dut.said("device does not come up")
            says_dead(dut)
            assert what_it_is(port) == known
            text = guest.check(f"devlink health diagnose {REPORTER}")
            assert "it does not come up" in text, text
            assert "state error" in guest.check(
                f"devlink health show {REPORTER}")
            result = guest.run(f"ibv_rc_pingpong -d {port.ibdev} -g 0")
            assert not result.ok and "allocate PD" in result.err, result
            guest.check(f"ethtool -G {port.netdev} rx 1024; "
                        f"ip link set {port.netdev} mtu 4300; sleep 1; "
                        f"ip link set {port.netdev} mtu 4200")
            shown = guest.check(f"rdma dev show {port.ibdev}")
            assert not guest.run(ASKED["recover"], 60).ok
            # What has answered a NOP is taken for one that will come up.
            if command == "NOP":
                assert guest.check(f"rdma dev show {port.ibdev}") == shown
            says_dead(dut)
            assert what_it_is(port) == known
        guest.check(ASKED[cure], 60)
        dut.until(f"rdma link show {port.ibdev}/1 | grep -q ACTIVE")
    text = guest.check(f"ethtool -g {port.netdev}")
    assert re.search(r"Current.*\bRX:\s+1024\b", text, re.S), text
    guest.check(f"ethtool -G {port.netdev} rx 512")
    dut.works()
    rdma.wait_for_resources(port, before)


def reports(dut, reporter):
    """How often the driver has wanted a recovery by a reporter."""
    text = dut.guest.check(f"devlink health show {DEVLINK} reporter "
                               f"{reporter}")
    return int(re.search(r"error (\d+)", text)[1])


def test_user_ends_recovery_pause(dut):
    """A card that keeps dying is recovered after ever longer pauses; the user
    need not wait for them. Who was too late finds the next one longer."""
    reload(dut.port)
    for number in range(6):         # the pauses begin with 0, 1, 2, 4 s
        before = reports(dut, "fw_fatal")
        dut.forget()
        fatal(dut)
        dut.said("device is dead")
        if number > 2:
            dut.until(f"{{ devlink health show {DEVLINK} reporter fw | "
                          "grep -q 'state error' || "
                          f"dmesg | grep -q '{RECOVERED}'; }}")
            dut.guest.check(
                f"devlink health recover {DEVLINK} reporter fw", 60)
        dut.is_recovered()
        if reports(dut, "fw_fatal") == before:
            break
    assert number > 2
    assert reports(dut, "fw_fatal") == before
    dut.works()


def times(log, text):
    """Seconds of the guest's clock, at which its LOG says so, each time."""
    return [float(at) for at in
            re.findall(rf"^\[ *(\d+\.\d+)\] .*(?:{text})", log, re.M)]


def when(dut, text):
    """The last of them."""
    log = dut.guest.check("dmesg")
    said = times(log, text)
    assert said, log
    return said[-1]


NOP_PERIOD_S = 5                # of the driver's own look at the device
# How long it may take until a death is noticed: it looks each half second whether
# it sees one, at longer intervals whether commands are executed, of which it waits
# three seconds for one; and how much more if the machine is busy.
AT_ONCE_S = 1
NOTICED_S = {fatal: AT_ONCE_S, no_decoding: AT_ONCE_S, dead: AT_ONCE_S,
             no_mastering: NOP_PERIOD_S + 1, frozen: NOP_PERIOD_S + HASTY_S + 1,
             frozen_as_usual: NOP_PERIOD_S + CMD_TIMEOUT_S + 1}
SLACK_S = 0.5
SOON_TRIES = 2                  # a busy machine is not so for ever


def die_and_recover(dut, death):
    """How long the death was not noticed."""
    dut.forget()
    dut.guest.check("echo it dies >/dev/kmsg")
    death(dut)
    dut.said("device is dead", NOTICED_S[death] + 20)
    dut.is_recovered()
    dut.works()
    return when(dut, "device is dead") - when(dut, f"it dies|{RINGS}")


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__)
def test_device_dies_and_is_recovered(dut, death):
    """By itself: noticed within a second if it can be seen, brought up."""
    limit = NOTICED_S[death] + SLACK_S
    for _ in range(SOON_TRIES):
        dut.reload()
        took = [die_and_recover(dut, death) for _ in range(2)]
        if max(took) < limit:
            break
    print(f"{death.__name__}: noticed after {took} s")
    assert max(took) < limit, took


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("power_on")
def test_freeze_is_noticed_by_default(dut):
    """By a driver of which nobody has changed how long it waits for a command."""
    assert dut.guest.check(f"cat {CMD_TIMEOUT}").strip() == str(CMD_TIMEOUT_S)
    took = die_and_recover(dut, frozen_as_usual)
    print(f"noticed after {took} s")
    assert took < NOTICED_S[frozen_as_usual] + SLACK_S


# What is heard of a death goes into the log that has the death itself: what the
# interface says, then the RDMA port, and an event. Nobody asks the device before the
# carrier is gone: who gives it a command may notice what the driver has not.
HEARS = """
cd /sys/class
(
    until grep -q 0 net/{net}/carrier; do sleep 0.02; done
    echo 'hears: no carrier' >/dev/kmsg
    until grep -q DOWN infiniband/{ib}/ports/1/state; do sleep 0.02; done
    echo 'hears: port is down' >/dev/kmsg
) &
ibv_asyncwatch -d {ib} | while read -r line; do
    echo "hears: $line" >/dev/kmsg
done
wait
"""
HEARD = ("no carrier", "port is down", ".*IBV_EVENT_DEVICE_FATAL")


def hear_of(dut, death):
    """How long it takes until all have heard, in seconds of the guest's clock: from
    its end on, or from when the driver knows, who cannot see it at once."""
    guest = dut.guest
    dut.until(carrier(dut).format(1))
    dut.forget()
    job = guest.start(HEARS.format(net=dut.port.netdev,
                                   ib=dut.port.ibdev), 100)
    dut.said("hears: .*async event FD")
    guest.check("echo it dies >/dev/kmsg")
    death(dut)
    for words in HEARD:
        dut.said(f"hears: {words}")
    died = when(dut, f"it dies|{RINGS}" if NOTICED_S[death] <= AT_ONCE_S else
                "device is dead")
    heard = [when(dut, f"hears: {words}") - died for words in HEARD]
    commands_may_take(guest)
    guest.check(f"devlink health recover {reporter_of(death)}", 60)
    dut.until(f"rdma link show {dut.port.ibdev}/1 | grep -q ACTIVE")
    assert dut.look() == dut.state
    # Of the death by the driver, and of the recovery by the core of the kernel.
    told = "hears: event_type IBV_EVENT_DEVICE_FATAL"
    dut.until(f"[ $(dmesg | grep -c '{told}') -ge 2 ]")
    time.sleep(0.5)
    text = guest.check("dmesg")
    assert text.count(told) == 2, text
    guest.run(f"kill {job.pid}")
    job.wait()
    return heard


# The driver looks each half second; three processes that want to hear have to run,
# on a machine that may have others to run.
HEARD_S = 1.5


@pytest.mark.parametrize("death", (fatal, dead, frozen,
                                   *longer((no_decoding,), (no_mastering,))),
                         ids=lambda death: death.__name__)
def test_death_is_reported_everywhere(dut, death):
    """Within about a second: the interface has no carrier, the RDMA port is down,
    programs have their event."""
    with without_auto_recover(dut.guest, reporter_of(death)):
        for _ in range(SOON_TRIES):
            heard = hear_of(dut, death)
            if max(heard) < HEARD_S:
                break
    print(f"{death.__name__}: heard of after {heard} s")
    assert max(heard) < HEARD_S, heard
    dut.works()


# The flags of an entry of the trace: irqs off, need-resched, the kind of interrupt.
DIES_IN = re.compile(r"\] ..(.)\S+ +[\d.]+: fakernic_life: .* stops, of cause")
HARD_IRQ = "hH"
FATAL_EVENT = "type 15, "       # enum fakernic_event


def test_interrupt_reports_fatal_error(dut):
    """Also of one whose event is lost: the handler of vector 0 asks the device, so
    that nobody waits for the driver's next look."""
    guest = dut.guest
    with without_auto_recover(guest):
        for _ in range(SOON_TRIES):
            dut.forget()
            with faults.armed(dut.port.vm, "at=eqe times=0 do=drop"):
                start_trace(guest)
                fatal(dut)
                dut.said("device is dead")
            text = end_trace(guest)
            guest.check(f"devlink health recover {REPORTER}", 60)
            found = DIES_IN.findall(text)
            assert len(found) == 1 and FATAL_EVENT not in text, text
            if found[0] in HARD_IRQ:
                break
    assert found[0] in HARD_IRQ, text
    dut.works()


# Between a death and the recovery, of a card that goes on dying; and how long it
# has to be well for the next one to be new.
PAUSES_S = (0, 1, 2, 4, 8, 16, 32, 64, 64)
SOME_PAUSES = 4
WELL_S = 60
BROUGHT_UP_S = 2                # it is down and up again within that time


def pause_of_recovery(dut):
    dut.forget()
    fatal(dut)
    dut.is_recovered(PAUSES_S[-1] + 20)
    assert dut.look() == dut.state
    return when(dut, RECOVERED) - when(dut, "device is dead")


def grow(dut, wanted):
    brought_up = BROUGHT_UP_S * dut.port.vm.patience
    for _ in range(SOON_TRIES):
        pauses = [pause_of_recovery(dut) for _ in wanted]
        print(f"pauses: {pauses}")
        assert all(map(operator.le, wanted, pauses)), pauses
        # The kernel's timers may be late by an eighth.
        if all(took < pause * 9 / 8 + brought_up
               for pause, took in zip(wanted, pauses)):
            return
        dut.reload()
    pytest.fail(f"{pauses} are longer than {wanted}")


@pytest.mark.usefixtures("afresh")
def test_pauses_of_recovery_grow(dut):
    grow(dut, PAUSES_S[:SOME_PAUSES])
    dut.works()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("afresh")
def test_pauses_of_recovery_grow_to_a_minute(dut):
    """No further; and after a minute without a death they begin anew."""
    grow(dut, PAUSES_S)
    time.sleep(WELL_S + 1)
    grow(dut, PAUSES_S[:2])
    dut.works()


# So many seconds are less than one in 32 bits of ticks, of which 250 are one.
ALMOST_FOR_EVER = 17179870


def test_unlimited_command_timeout_can_be_changed(dut):
    """A user who has the driver wait for ever can change his mind, and a time
    that is as good as for ever is not a short one."""
    guest = dut.guest
    dut.forget()
    commands_may_take(guest, 0)
    rule(dut, "freeze")
    time.sleep(NOP_PERIOD_S + 2)
    commands_may_take(guest, ALMOST_FOR_EVER)
    time.sleep(NOP_PERIOD_S)
    assert "device is dead" not in guest.check("dmesg")
    commands_may_take(guest, 1)
    dut.said("device is dead: a command was not answered", 5)
    dut.is_recovered()
    dut.works()


# Of the port, its counters, and of what the kernel locks for all interfaces.
READERS = ("rdma link show {ib}/1 | grep ACTIVE",
           "grep ACTIVE /sys/class/infiniband/{ib}/ports/1/state",
           "cat /sys/class/infiniband/{ib}/ports/1/rate", "ethtool -S {net}",
           "ip link set {net} alias silent", "ip -s link show {net}")
IGNORANT = ("ethtool -t {net}",
            "cat /sys/class/infiniband/{ib}/ports/1/hw_counters/tx_frames",
            "cat /sys/class/infiniband/{ib}/ports/1/counters/port_xmit_data",
            # What it told before is not what it tells now.
            f"devlink health dump clear {DEVLINK} reporter fw; "
            f"devlink health dump show {DEVLINK} reporter fw >/dev/null")
SILENCE_S = 3                   # that the first waits, and others need not


@contextmanager
def silent(dut):
    """For as long as it likes."""
    commands_may_take(dut.guest, 0)
    with faults.armed(dut.port.vm, "at=device do=freeze"):
        yield
    commands_may_take(dut.guest)


def ask(dut, commands, good=True):
    for command in commands:
        result = dut.guest.run(command.format(
            ib=dut.port.ibdev, net=dut.port.netdev), 4 * SILENCE_S)
        assert result.ok == good and not result.timed_out, result


@pytest.mark.parametrize("first", (READERS[0], *longer((READERS[3],),
                                                      (IGNORANT[0],))),
                         ids=("link", "statistics", "self_test"))
def test_queries_of_silent_device_time_out(dut, first):
    """Who wants to know hears what it said last, or that nothing is known; when it
    speaks again, it is as if nothing had been."""
    dut.forget()
    ask(dut, READERS + IGNORANT)
    with silent(dut):
        ask(dut, (first,), first in READERS)
        begin = time.monotonic()
        ask(dut, READERS)
        ask(dut, IGNORANT, good=False)
        assert time.monotonic() - begin < SILENCE_S * (len(READERS) - 1)
        last = counted(dut, "commands")
    ask(dut, READERS + IGNORANT)
    assert counted(dut, "commands") > last
    dut.works()
    assert "device is dead" not in dut.guest.check("dmesg")


CROWDED_S = 8                   # more than who asks waits
# More than the command queue has entries, all at once.
CROWD = """
for i in $(seq 100); do
    cat /sys/class/infiniband/{ib}/ports/1/state >/dev/null &
done
wait
"""


@pytest.mark.long
def test_many_readers_do_not_hide_a_death(dut):
    """What they have not waited for leaves room for those who find it out."""
    guest = dut.guest
    dut.forget()
    commands_may_take(guest, CROWDED_S)
    rule(dut, "freeze")
    guest.run(CROWD.format(ib=dut.port.ibdev), 60)
    dut.said("device is dead: a command was not answered",
                 2 * CROWDED_S + NOP_PERIOD_S)
    dut.is_recovered()
    dut.works()


AUTO = "rdma statistic qp set link {ib}/1 auto"


def test_counter_set_query_times_out(dut):
    """The card falls silent when its own counters have been read, and those of a
    set not yet: nobody waits for long."""
    guest, port = dut.guest, dut.port
    ask(dut, (f"{AUTO} type on",))
    server = guest.start(f"exec ibv_rc_pingpong -d {port.ibdev} "
                         f"-g {port.gid_index()}", 100)
    try:
        dut.until("rdma statistic qp show | grep -q LQPN")
        commands_may_take(guest, 0)
        with faults.armed(port.vm, "at=command cmd=QUERY_COUNTER times=0 do=drop"):
            begin = time.monotonic()
            ask(dut, IGNORANT[1:2], good=False)
            assert time.monotonic() - begin < 3 * SILENCE_S
        dut.forget()
        commands_may_take(guest, 1)
        dut.is_recovered()
        commands_may_take(guest)
    finally:
        guest.run(f"kill {server.pid}")
        server.wait()
    ask(dut, (f"{AUTO} off",))
    dut.works()


@pytest.mark.long
def test_port_of_silent_device_is_not_restarted(dut):
    """With frames that it does not send: it is not restarted before it speaks, and
    nobody who changes an interface waits for that."""
    dut.forget()
    with silent(dut):
        dut.guest.run("ping -b -f -c 9999 -w 5 10.1.2.255", 60)
        dut.said("send timeout", 60)
        for _ in range(10):
            ask(dut, ("ip link set {net} alias silent; sleep 1",))
        assert "restarting" not in dut.guest.check("dmesg")
    dut.said("restarting")
    dut.works()


@contextmanager
def bound_anew(dut, lab):
    """The driver leaves inside the with, and comes again: as a port of the test."""
    dut.end()
    try:
        yield
    finally:
        lab.ports = [rdma.bring_up(dut.port.vm, 1)]
    dut.port = lab.ports[0]
    dut.guest.check(SETTINGS.format(dev=dut.port.netdev))
    dut.state = dut.look()


def test_unbind_from_frozen_device(dut, lab):
    """Also when it was told to wait for ever; and binds to it again."""
    guest = dut.guest
    with bound_anew(dut, lab):
        commands_may_take(guest, 0)
        rule(dut, "freeze")
        time.sleep(NOP_PERIOD_S + 2)
        rebind(dut.port)
    dut.works()


def test_unreachable_device_loses_bus_mastering(dut):
    """It cannot be told to stop, and what it writes to may be somebody else's."""
    guest = dut.guest
    with without_auto_recover(guest):
        dut.forget()
        no_decoding(dut)
        dut.said("device is dead")
        assert int(guest.check(f"setpci -s {SLOT} COMMAND"), 16) & 4 == 0
        guest.check(f"devlink health recover {REPORTER}", 60)
        dut.is_recovered()
    dut.works()


@contextmanager
def dies_of_refusing(dut, command, status):
    """The device refuses such a command, which lets go of something, for as long as
    it takes: it is reset, and then all works."""
    with faults.armed(dut.port.vm, f"at=command cmd={command} times=0 "
                      f"do=fail status={status}"):
        yield
        dut.said("device is dead: it does not let go")
    dut.is_recovered()
    dut.works()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("kind, status", (
    ("QP", BUSY), ("CQ", NO_RESOURCE), ("MR", BUSY),
    *longer(("QP", NO_RESOURCE), ("CQ", BUSY), ("MR", NO_RESOURCE))))
def test_failed_destroy_by_program_resets_device(dut, kind, status):
    """It is reset, for it could write into memory that is no longer the program's;
    that hears of it as of any death, and its memory is free."""
    with dies_of_refusing(dut, f"DESTROY_{kind}", status):
        rdma.pingpong("rc", dut.port, dut.port, "-n 50")


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("what", ("", "bind"))
def test_failed_deregistration_resets_device(dut, what):
    """Of a program that has ended, with or without one in it: when that is gone
    the device cannot say that the region is in use."""
    with dies_of_refusing(dut, "DESTROY_MR", BUSY):
        dut.guest.check(f"rdma_exit_with_mw {what}", 60)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("command", ("SET_QP_COUNTER", "DESTROY_COUNTER"))
def test_failed_destroy_of_counter_set_resets_device(dut, command):
    """At the end of its queue pair the kernel's core forgets the set."""
    guest, port = dut.guest, dut.port
    ask(dut, (f"{AUTO} type on",))
    server = guest.start(f"exec ibv_rc_pingpong -d {port.ibdev} "
                         f"-g {port.gid_index()}", 100)
    try:
        dut.until("rdma statistic qp show | grep -q LQPN")
        with dies_of_refusing(dut, command, BUSY):
            guest.check(f"kill {server.pid}")
            server.wait()
    finally:
        guest.run(f"kill {server.pid}; {AUTO.format(ib=port.ibdev)} off")


@pytest.mark.parametrize("kind, status", (
    ("QP", NO_RESOURCE), ("CQ", BUSY), ("MR", NO_RESOURCE), ("PD", BUSY),
    *longer(("QP", BUSY), ("CQ", NO_RESOURCE), ("MR", BUSY), ("PD", NO_RESOURCE))))
def test_failed_destroy_by_kernel_resets_device(dut, lab, kind, status):
    """The kernel's users of verbs, among them the core's own MADs, cannot keep
    what a device refuses to destroy while its driver leaves, also when it says
    that others use it."""
    verb = "DEALLOC" if kind == "PD" else "DESTROY"
    with bound_anew(dut, lab), \
            faults.armed(dut.port.vm, f"at=command cmd={verb}_{kind} "
                         f"times=0 do=fail status={status}"):
        rebind(dut.port)
    dut.works()


@pytest.mark.usefixtures("afresh")
def test_duplicate_object_number_is_refused(dut):
    """What it says of another one's number is not believed, nor is that destroyed:
    nobody can tell whose it is."""
    guest, port = dut.guest, dut.port
    command = f"ibv_rc_pingpong -d {port.ibdev} -g {port.gid_index()}"
    server = guest.start(f"exec {command}", 100)
    try:
        dut.until(rdma.LISTENS_TCP.format(port=18515))
        cqs = json.loads(port.vm.qmp("qom-get", path=faults.NIC,
                                     property="x-cqs"))
        last = max(cq["cqn"] for cq in cqs)
        dut.forget()
        faults.set_fault(port.vm, "id=made at=command cmd=CREATE_CQ do=count; "
                         "id=twice after=made at=dma-write why=cmd do=corrupt "
                         f"offset=0 mask={last ^ (last + 1)}")
        assert not guest.run(f"{command} -p 18516").ok
        dut.said("device is dead: it answers nonsense")
        dut.is_recovered()
    finally:
        faults.set_fault(port.vm, "remove=all")
        guest.run(f"kill {server.pid}")
        server.wait()
    dut.works()


@pytest.mark.usefixtures("afresh")
def test_invalid_doorbell_page_is_refused(dut):
    """What lies behind its BAR is another's: no program gets it to write to."""
    guest, port = dut.guest, dut.port
    dut.forget()
    faults.set_fault(port.vm, "id=made at=command cmd=ALLOC_UAR do=count; "
                     "id=far after=made at=dma-write why=cmd do=corrupt "
                     "offset=1 mask=0x80")
    try:
        assert not guest.run(f"ibv_devinfo -d {port.ibdev}").ok
        dut.said("device is dead: it answers nonsense")
    finally:
        faults.set_fault(port.vm, "remove=all")
    dut.is_recovered()
    dut.works()


def test_interface_opened_during_probe(dut, lab):
    """By who hears of it, before the driver has all that it needs for it."""
    guest, netdev = dut.guest, dut.port.netdev
    with bound_anew(dut, lab):
        guest.check(UNBIND)
        with faults.armed(dut.port.vm, "at=command cmd=ALLOC_PD "
                          "delay-ns=4000000000 do=delay") as rules:
            job = guest.start(BIND, 60)
            dut.until(f"[ -e /sys/class/net/{netdev} ]")
            guest.check(f"ip link set {netdev} up")
            assert job.wait().ok
            assert rules.hits() == [1]
        dut.until(f"[ $(cat /sys/class/net/{netdev}/carrier) = 1 ]")
    dut.works()


# enum ibv_wc_status: a send's own error; and a flush, whose cause is not told.
QP_OP_ERR, FLUSHED = 2, 5
# A frame that waits for nobody's address.
BROADCAST = "ping -b -c 1 -W 1 10.1.2.255 >/dev/null 2>&1"
# It, and when it was.
FAIL_A_SEND = f"""
cut -d ' ' -f 1 /proc/uptime
{BROADCAST}
for i in $(seq 200); do dmesg | grep restarting && exit; sleep 0.1; done
dmesg; exit 1
"""
FAULTS_OF_A_PORT = 3


def pause_of_a_port(dut, status):
    """How long after a send that failed its queues are made anew."""
    time.sleep(2)
    dut.forget()
    with faults.armed(dut.port.vm, f"at=send-wqe status={status} do=fail"):
        told = dut.guest.check(FAIL_A_SEND, 60)
    sent, restarted = re.findall(r"^(?:\[ *)?(\d+\.\d+)", told, re.M)
    return float(restarted) - float(sent)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("status", (QP_OP_ERR, *longer((FLUSHED,))))
def test_restart_pause_grows_only_after_failures(dut, status):
    """Queues that are made anew and work are not punished for the last time:
    the pause before they are made anew grows only if that was in vain. One that a
    busy machine makes long has no longer ones behind it."""
    for _ in range(2):
        pauses = [pause_of_a_port(dut, status)
                  for _ in range(FAULTS_OF_A_PORT)]
        if max(pauses) < PAUSE_MOST_S:
            break
    assert max(pauses) < PAUSE_MOST_S, pauses
    dut.works()


def test_trace_events(dut):
    """Commands, also one that is refused, events, the link and the hardware's
    life."""
    guest, vm = dut.guest, dut.port.vm
    start_trace(guest)
    dut.forget()
    rule(dut, "dead")
    dut.is_recovered()
    dut.works()
    with faults.armed(vm, REFUSED.format("CREATE_CQ", 1)):
        assert not guest.run(f"ibv_rc_pingpong -d {dut.port.ibdev}").ok
    with faults.armed(vm, "at=device for-ns=1000000000 do=link-down"):
        dut.until(carrier(dut).format(0))
    dut.until(carrier(dut).format(1))
    text = end_trace(guest)
    for words in ("CREATE_QP: ok", "CREATE_CQ: busy", "fakernic_eqe",
                  "link down, port down", "link up, port active", "stops, of cause",
                  "goes down: 0", "function is reset: 0", "comes up: 0"):
        assert words in text, f"no {words}: {text[-2000:]}"


# ---- lost interrupts ---------------------------------------------------------

LOST = "at=interrupt number=0 nth=8 every=4 times=3 do=drop"
SLEEPS_S = 2            # who does nothing for so long is asleep
WAKE_S = 20
BETWEEN = 500           # of an endless pingpong, the one that is hit
LOST_TRIES = 3


class Sleepers:
    """A pingpong of a port with itself, without an end, that sleeps for each
    completion."""

    def __init__(self, port):
        self.port, self.guest = port, port.guest
        self.before = rdma.resources(port)
        command = (f"exec ibv_rc_pingpong -e -n 100000000 -d {port.ibdev} "
                   f"-g {port.gid_index()} -p 18700")
        self.jobs = [self.guest.start(command, 200)]
        self.guest.check(f"until {rdma.LISTENS_TCP.format(port=18700)}; "
                         "do sleep 0.05; done")
        self.jobs.append(self.guest.start(f"{command} {port.ip4}", 200))

    def packets(self):
        return self.port.counters()["tx_roce"]

    def sleep(self):
        """Whether they do: nothing goes out for a while."""
        before = self.packets()
        time.sleep(SLEEPS_S)
        return self.packets() == before

    def wake_up(self):
        """Whether they do, in a longer while."""
        before, deadline = self.packets(), time.monotonic() + WAKE_S
        while self.packets() == before:
            if time.monotonic() > deadline:
                return False
        return True

    def results(self, seconds):
        """Of both, which end within that time."""
        deadline = time.monotonic() + seconds
        while any(job.poll() is None for job in self.jobs):
            assert time.monotonic() < deadline, "they sleep"
            time.sleep(0.2)
        return [job.wait() for job in self.jobs]

    def end(self):
        for job in self.jobs:
            self.guest.run(f"kill {job.pid}")
            job.wait()
        rdma.wait_for_resources(self.port, self.before)


def lose_one(dut, rule):
    """Sleepers, one of whom a rule that was hit once keeps from being told."""
    vm = dut.port.vm
    sleepers = Sleepers(dut.port)
    with faults.armed(vm, f"{rule} nth={BETWEEN} do=drop") as lost:
        lost.wait_for([1], 60)
    return sleepers


def counted(dut, name):
    text = dut.guest.check(f"ethtool -S {dut.port.netdev}")
    return int(re.search(rf"\b{name}: (\d+)", text)[1])


def another(dut):
    rdma.pingpong("rc", dut.port, dut.port, "-n 50").check()


@pytest.mark.guests(count=1, x_fault=f"id=lost {LOST}")
def test_lost_interrupt_of_command(ports):
    """The driver looks for the answer itself; and the kernel's log says who is
    to blame."""
    port = ports[0]
    log = port.guest.check("dmesg")
    assert MISBEHAVES in log
    assert "was answered without an interrupt" in log
    assert faults.hits(faults.rules_of(port.vm)["lost"]) == 3
    dut = ConfiguredPort(port)
    dut.works()
    dut.end()


def test_lost_interrupt_of_sleeper(dut):
    """The driver finds the event itself, wakes who slept, and counts it."""
    before = counted(dut, "lost_interrupts")
    sleepers = lose_one(dut, "at=interrupt number=1")
    assert sleepers.wake_up()
    sleepers.end()
    assert counted(dut, "lost_interrupts") > before
    dut.works()
    reset(dut.port)
    dut.said(MISBEHAVES)
    dut.works()


def who_has_lost_an_event(dut):
    """Sleepers, one of whom has, and whether they sleep. The rule counts events of
    the Ethernet port, too. One of these the driver finds itself, and counts: then
    the next sleepers are tried."""
    for _ in range(LOST_TRIES):
        before = counted(dut, "lost_events")
        sleepers = lose_one(dut, "at=eqe")
        asleep = sleepers.sleep()
        if not asleep:
            time.sleep(SLEEPS_S)        # while RTNL is taken it does not look
        if counted(dut, "lost_events") == before:
            return sleepers, asleep
        sleepers.end()
    return pytest.fail("each event that was lost was the port's")


def test_lost_event_of_sleeper(dut):
    """Nothing ever wakes it; others are told of theirs."""
    sleepers, asleep = who_has_lost_an_event(dut)
    assert asleep
    another(dut)
    assert sleepers.sleep()
    sleepers.end()
    dut.works()


def test_lost_event_of_port(dut):
    """Frames that are done are found by the driver itself: their buffers are
    freed, and they are counted as sent."""
    sent = f"cat /sys/class/net/{dut.port.netdev}/statistics/tx_packets"
    before = int(dut.guest.check(sent))
    lost_before = counted(dut, "lost_events")
    with faults.armed(dut.port.vm, "at=eqe do=drop") as lost:
        dut.guest.run(BROADCAST)
        dut.until(f"[ $({sent}) -gt {before} ]", 5)
        assert lost.hits() == [1]
    assert counted(dut, "lost_events") > lost_before
    dut.works()


def test_lost_completion_of_port(dut):
    """Those that follow are not in their places: the queues are made anew."""
    dut.forget()
    with faults.armed(dut.port.vm, "at=cqe do=drop") as lost:
        dut.guest.run(BROADCAST)
        lost.wait_for([1])
    dut.guest.run(BROADCAST)
    dut.said("restarting", 3)
    dut.works()


def test_death_wakes_sleepers(dut):
    """Nobody recovers the device, so that nothing else will wake them: what they
    wait for is flushed."""
    with without_auto_recover(dut.guest):
        sleepers = Sleepers(dut.port)
        assert sleepers.wake_up()
        fatal(dut)
        for result in sleepers.results(20):
            assert not result.ok and "Work Request Flushed" in result.err, result
        assert "state: dead" in dut.guest.check(
            f"devlink health diagnose {REPORTER}")
        dut.guest.check(f"devlink health recover {REPORTER}", 60)
        dut.works()
    sleepers.end()


DRAIN = "/tmp/drain"


@pytest.mark.parametrize("how", ("late", "solicited"))
def test_death_is_reported_after_pending_completion(dut, how):
    """Who takes all events and then all entries hears of the end, too, though
    there is an entry; and so does who finds one that had no event."""
    guest = dut.guest
    with without_auto_recover(guest):
        dut.forget()
        guest.check(f"rm -f {DRAIN}.go")
        job = guest.start(f"exec rdma_fatal_wakeup {how} >{DRAIN}", 60)
        dut.until(f"grep -qs begins {DRAIN}")
        fatal(dut)
        dut.said("device is dead")
        guest.check(f"sleep 2; touch {DRAIN}.go" if how == "late" else "true")
        result = job.wait()
        said = guest.check(f"cat {DRAIN}")
        assert result.ok, f"{said} {result}"
        assert "WRITE: success\n" in said, said
        assert said.endswith("receive: Work Request Flushed Error\n"), said
        assert how == "solicited" or "events: 1\n" not in said, said
        guest.check(f"devlink health recover {REPORTER}", 60)
        dut.works()
