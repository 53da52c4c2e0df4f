# SPDX-License-Identifier: GPL-2.0-or-later
"""The device fails, is reset or is suspended. The driver recovers, and the
network interface keeps all settings.

A test makes the device fail in two ways. As root in the guest, on a kernel
with iomem=relaxed: a command queue doorbell beyond the ring (FATAL), memory
decoding off (no register answers), or bus mastering off (the device cannot
reach its rings). By fault rules of the device: dead (all ones until a function
reset), frozen (commands are not answered), or lost interrupts and events.
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
    """Returns the rows that only make test-long runs; others are of the same
    kind."""
    return [pytest.param(*row, marks=pytest.mark.long) for row in rows]


CMDQ_DOORBELL = 0x054
LINK_DOWN_S = 2
HASTY_S = 3                     # the command timeout in most tests


@pytest.fixture(scope="module", name="ward")
def fixture_ward(lab):
    """The configured port of each set of guests, by serial number of the set.
    It keeps its settings from one test to the next."""
    ward = {}
    yield ward
    if lab.current and lab.serial in ward:
        ward[lab.serial].end()


@pytest.fixture
def dut(lab, ports, ward):
    ports[0].vm.look()      # check earlier tests before this one harms the card
    if lab.serial not in ward:
        ward[lab.serial] = ConfiguredPort(ports[0])
    ward[lab.serial].begin(ports[0])
    yield ward[lab.serial]
    ward[lab.serial].rest()


@pytest.fixture
def afresh(dut):
    """A card without earlier deaths, which is recovered without a pause."""
    dut.reload()
    dut.works()
    dut.forget()


def fatal(dut):
    dut.ring(CMDQ_DOORBELL, 0x7fffffff)


def no_decoding(dut):
    dut.port.vm.expect_repair()
    dut.guest.check(f"echo {RINGS} >/dev/kmsg; setpci -s {SLOT} COMMAND=0:2")


def no_mastering(dut):
    """Turns bus mastering off: the next command fails, as the device cannot
    reach its rings."""
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
    """Freezes the device and leaves the default command timeout."""
    rule(dut, "freeze")


DEATHS = (fatal, no_decoding, no_mastering, dead, frozen)


def reporter_of(death):
    return f"{DEVLINK} reporter cmdq" if death is frozen else REPORTER


EVENTS, UNPLUG = "/tmp/events", "/tmp/unplug"


def start_watch(dut):
    """Starts a program that writes the asynchronous events of the device to
    EVENTS. The output of an earlier one is removed: it would look like that of
    this one."""
    dut.guest.check(f"rm -f {EVENTS}")
    job = dut.guest.start(f"exec ibv_asyncwatch -d {dut.port.ibdev} "
                              f">{EVENTS} 2>&1", 100)
    dut.until(f"[ -s {EVENTS} ]")
    return job


def start_unplug(dut):
    """Starts a program that uses the device and writes to UNPLUG how it
    notices the end of the device."""
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


MISBEHAVES = "fault rules are active"


@pytest.mark.usefixtures("power_on")
def test_later_fault_rule_is_logged_once(dut):
    """The first fault rule of a card is logged soon and only once, whatever
    rules follow. After a reset it is logged once more."""
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
    """A program gets IBV_EVENT_DEVICE_FATAL on a reset, every verb fails, and
    all objects can be destroyed."""
    guest = dut.guest
    job = start_unplug(dut)
    reset(dut.port)
    result = job.wait()
    said = guest.check(f"cat {UNPLUG}").splitlines()
    assert result.ok and said == ["running", "done"], f"{said} {result}"
    dut.works()


def test_nonfatal_bus_error(dut):
    """A nonfatal bus error leaves the RDMA device registered."""
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
    """A dead function resets the whole slot after a bus error, and a healthy
    other function of the card continues."""
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


# What the kernel logs about a bus error, and whether it resets the card.
SEVERITIES = {"correctable": ("AER: Correct", False),
              "nonfatal": ("device recovery successful", False),
              "fatal": ("device recovery successful", True)}


@pytest.mark.parametrize("severity", SEVERITIES)
def test_bus_error_by_a_rule(dut, severity):
    """A fault rule reports a bus error like the monitor, and only a fatal one
    removes the RDMA device."""
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
    """Returns how often the carrier was lost and how often it came back."""
    return [int(word) for word in dut.guest.check(
        f"cd /sys/class/net/{dut.port.netdev}; "
        "cat carrier_down_count carrier_up_count").split()]


def test_link_down_by_rule(dut):
    """A fault rule takes the link down for the given time, and programs get
    both port events."""
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
REFUSED_S = 5           # time limit of a command that fails twice
PAUSE_MOST_S = 1.5      # a busy machine may lengthen a pause by this


def test_failed_port_query_is_repeated(dut):
    """If QUERY_PORT fails, the driver repeats it and keeps the old port state
    until then."""
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
    """If SET_PORT fails, the driver repeats it until the device accepts the
    receive filter."""
    guest, port = dut.guest, dut.port
    rules = (REFUSED.format("SET_PORT", 2),
             "at=command cmd=SET_PORT times=0 do=count")
    dut.forget()
    try:
        with faults.armed(port.vm, *rules) as seen:
            guest.check(f"ip link set {port.netdev} promisc on")
            seen.wait_for([2, 1], REFUSED_S)
        dut.said("receive filter")
    finally:
        guest.check(f"ip link set {port.netdev} promisc off")
    dut.works()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("tries", (4, pytest.param(
    7, marks=(pytest.mark.long, pytest.mark.timeout(300)))))
def test_port_without_queues_has_no_carrier(dut, tries):
    """If neither new nor old Ethernet queues can be created, the port has no
    carrier and RDMA continues. The driver retries after growing pauses."""
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
    """If the Ethernet queues cannot be created after a reset, RDMA works with
    the right MTU. The carrier comes back once the queues can be created. The
    rule refuses a command that no other queue needs."""
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
    assert "queue setup failed" in log and "restarting" in log, log
    dut.works()


SLOW_S = 5
SLOW = f"at=command cmd={{}} times=0 delay-ns={SLOW_S}000000000 do=delay"
SLOW_CMDS = ("SET_PORT", "MODIFY_QP", "CREATE_CQ", "DESTROY_CQ", "CREATE_QP",
             "DESTROY_QP")
WATCHDOG_S = 20         # period of Linux's check for stopped queues


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("afresh")
def test_slow_queue_creation_is_not_repeated(dut):
    """If ethtool asks for new queues and the device is slow, the driver
    neither creates them twice nor reports a send timeout."""
    guest, port = dut.guest, dut.port
    dut.forget()
    try:
        with faults.armed(port.vm, *map(SLOW.format, SLOW_CMDS)) as slow:
            guest.check(f"ethtool -G {port.netdev} rx 1024", 120)
            hits = slow.hits()
        # Linux checks twice in that time. The second check would find a timeout.
        assert sum(hits) * SLOW_S > 2 * WATCHDOG_S, hits
        # A pending second creation would run now.
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
    """A PTP clock whose device does not answer returns an error, never a wrong
    time."""
    guest = dut.guest
    dut.port.vm.expect_repair()
    ptp = guest.check(f"ls {SYSFS}/ptp").strip()
    guest.write("/tmp/clock.py", GONE_CLOCK.format(ptp=ptp, slot=SLOT))
    assert "No such device" in guest.check("timeout 20 python3 /tmp/clock.py")
    dut.is_recovered()
    dut.works()


def test_program_is_notified_of_freeze(dut):
    """After a command timeout a program is notified, every verb fails with
    EIO, and all objects can be destroyed."""
    guest = dut.guest
    # Without it an earlier death would lengthen the pause.
    reload(dut.port)
    job = start_unplug(dut)
    frozen(dut)
    result = job.wait()
    said = guest.check(f"cat {UNPLUG}").splitlines()
    assert result.ok and said == ["running", "done"], f"{said} {result}"
    dut.is_recovered()
    dut.works()


def test_program_on_a_dead_device(dut):
    """Without recovery a program keeps its device, every verb fails with EIO,
    and all objects can be destroyed."""
    guest = dut.guest
    with without_auto_recover(guest):
        job = start_unplug(dut)
        fatal(dut)
        result = job.wait()
        said = guest.check(f"cat {UNPLUG}").splitlines()
        assert result.ok and said == ["running", "done"], f"{said} {result}"
        guest.check(f"devlink health recover {REPORTER}", 60)
    dut.works()


PREFETCH = "/tmp/prefetch"


@pytest.mark.parametrize("event", (reset, *longer((reload,))),
                         ids=lambda event: event.__name__)
def test_prefetch_ends_with_device(dut, event):
    """A prefetch that would take many minutes ends with EIO when the device is
    reset."""
    guest = dut.guest
    dut.forget()
    job = guest.start(f"exec rdma_prefetch >{PREFETCH}", 100)
    dut.until(f"grep -qs begins {PREFETCH}")
    guest.check("sleep 1")
    event(dut.port)
    assert job.wait().ok
    said = guest.check(f"cat {PREFETCH}")
    assert said == "begins\nended: Input/output error\n", said
    dut.works()


ASKED = {
    "recover": f"devlink health recover {REPORTER}",
    "reload": RELOAD,
    "reset": RESET,
}


BUS_PATIENCE_S = 10     # how long the driver waits for Linux's recovery


@pytest.mark.long
@pytest.mark.guests(count=1)
def test_device_recovers_after_failed_bus_recovery(dut):
    """If Linux abandons its recovery of a bus error, the driver recovers the
    device after ten seconds or on request. With ACPI hot plug of QEMU, Linux
    finds no link behind the root port and notifies no driver."""
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
                # After Linux's time limit the device is reported dead.
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
    """Settings that the kernel keeps with the RDMA device survive a reload,
    which replaces that device."""
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
        assert "state: healthy" in text, text
    text = dut.guest.check(
        f"devlink health dump show {DEVLINK} reporter cmdq")
    assert "requests" in text and "depth: 64" in text, text
    dut.guest.check(f"devlink health dump clear {DEVLINK} reporter cmdq")


def test_dead_device_is_reported(dut):
    """Without automatic recovery every interface reports the dead device until
    the user recovers it."""
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
        # The dead port accepts settings.
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
    """A dead port accepts queue settings and applies them after the recovery."""
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


# Longer than the kernel waits for the counters of a new RDMA device.
LATE = "at=command cmd=QUERY_STATS times=0 delay-ns=4000000000 do=delay"


@pytest.mark.parametrize("event", (reset, *longer((sleep,), (reload,))),
                         ids=lambda event: event.__name__)
def test_slow_statistics(dut, event):
    """A device that is slow to report its statistics comes up normally."""
    dut.forget()
    with faults.armed(dut.port.vm, LATE):
        event(dut.port)
    dut.until(f"rdma link show {dut.port.ibdev}/1 | grep -q ACTIVE")
    said = dut.guest.check("dmesg")
    assert "does not come up" not in said and "device is dead" not in said, said
    dut.works()


def says_dead(dut):
    """Checks that every interface reports the dead device."""
    guest, port = dut.guest, dut.port
    assert "state: dead" in guest.check(f"devlink health diagnose {REPORTER}")
    assert "state DOWN" in guest.check(f"rdma link show {port.ibdev}/1")
    assert "PORT_DOWN" in guest.check(f"ibv_devinfo -d {port.ibdev}")
    assert "device_dead: 1" in guest.check(f"ethtool -S {port.netdev}")
    assert "Link detected: no" in guest.check(f"ethtool {port.netdev}")


def still_dead(dut):
    """Waits longer than a recovery would take, and checks that the device is
    still dead."""
    dut.guest.check("sleep 3")
    says_dead(dut)


@pytest.mark.parametrize("death, event, cure", (
    (frozen, bus_error, "reset"), (fatal, fatal_bus_error, "reload"),
    *longer((fatal, sleep, "reset"))))
def test_no_recovery_without_auto_recover(dut, death, event, cure):
    """Without automatic recovery neither a suspend nor a bus error recovers a
    dead device; the user can."""
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
            assert "a command timed out" in text, text
            assert re.search("in_flight_at_death: [1-9]", text), text
        guest.check(ASKED[cure], 60)
        dut.works()
        assert "state healthy" in guest.check(f"devlink health show {reporter}")


def test_failed_recovery_is_reported(dut):
    """If a recovery fails, the command fails and the old RDMA device stays
    until a later recovery replaces it."""
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
    """A failed recovery is retried after growing pauses until it succeeds."""
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
    """Reporter fw shows each death while it lasts and recovers the device at
    once. The reporter of that kind of death waits for its own recovery."""
    guest = dut.guest
    show = f"devlink health show {DEVLINK} reporter "
    # Without it the pauses would grow from death to death.
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
    """Returns GUID and limits, which a dead device need not report again."""
    return port.guest.check(f"ibv_devinfo -v -d {port.ibdev} | grep -E "
                            "'node_guid|max_(cqe|qp|mtu|pkeys):'")


@pytest.mark.parametrize("event, command, status, cure", (
    (reset, "NOP", NO_RESOURCE, "reset"), (reset, "QUERY_DEVICE", BUSY, "recover"),
    *longer((refused_reload, "NOP", BUSY, "recover"), (sleep, "NOP", BUSY, "reload"),
            (fatal_bus_error, "NOP", NO_RESOURCE, "recover"))))
def test_device_fails_to_come_up(dut, event, command, status, cure):
    """A device that refuses to come up is reported dead, accepts settings, and
    comes up once a recovery succeeds."""
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
            assert "cause: device does not come up" in text, text
            assert "state error" in guest.check(
                f"devlink health show {REPORTER}")
            result = guest.run(f"ibv_rc_pingpong -d {port.ibdev} -g 0")
            assert not result.ok and "allocate PD" in result.err, result
            guest.check(f"ethtool -G {port.netdev} rx 1024; "
                        f"ip link set {port.netdev} mtu 4300; sleep 1; "
                        f"ip link set {port.netdev} mtu 4200")
            shown = guest.check(f"rdma dev show {port.ibdev}")
            assert not guest.run(ASKED["recover"], 60).ok
            # If it has answered a NOP the driver expects it to come up.
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
    """Returns how often the driver has requested a recovery by a reporter."""
    text = dut.guest.check(f"devlink health show {DEVLINK} reporter "
                               f"{reporter}")
    return int(re.search(r"error (\d+)", text)[1])


def test_user_ends_recovery_pause(dut):
    """A user can end the growing pause before an automatic recovery. If the
    driver was faster, the test tries the next pause, which is longer."""
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
    """Returns the times, in seconds of the guest, of each line of LOG with
    this text."""
    return [float(at) for at in
            re.findall(rf"^\[ *(\d+\.\d+)\] .*(?:{text})", log, re.M)]


def when(dut, text):
    """Returns the time of the last line with this text."""
    log = dut.guest.check("dmesg")
    said = times(log, text)
    assert said, log
    return said[-1]


NOP_PERIOD_S = 5                # period of the driver's own NOP
# Time limits for noticing a death. The driver checks each half second for a fatal
# error and every NOP_PERIOD_S whether a command completes, with a timeout of
# HASTY_S. SLACK_S is for a busy machine.
AT_ONCE_S = 1
NOTICED_S = {fatal: AT_ONCE_S, no_decoding: AT_ONCE_S, dead: AT_ONCE_S,
             no_mastering: NOP_PERIOD_S + 1, frozen: NOP_PERIOD_S + HASTY_S + 1,
             frozen_as_usual: NOP_PERIOD_S + CMD_TIMEOUT_S + 1}
SLACK_S = 0.5
SOON_TRIES = 2                  # tries, as a machine is not busy for long


def die_and_recover(dut, death):
    """Returns how many seconds the death was not noticed."""
    dut.forget()
    dut.guest.check("echo it dies >/dev/kmsg")
    death(dut)
    dut.said("device is dead", NOTICED_S[death] + 20)
    dut.is_recovered()
    dut.works()
    return when(dut, "device is dead") - when(dut, f"it dies|{RINGS}")


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__)
def test_device_dies_and_is_recovered(dut, death):
    """The driver notices each kind of death in time and recovers the device."""
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
    """A frozen device is noticed with the default command timeout."""
    assert dut.guest.check(f"cat {CMD_TIMEOUT}").strip() == str(CMD_TIMEOUT_S)
    took = die_and_recover(dut, frozen_as_usual)
    print(f"noticed after {took} s")
    assert took < NOTICED_S[frozen_as_usual] + SLACK_S


# Writes to the kernel's log, which has the death itself, when the interface, then
# the RDMA port, and an event report it. It queries the device only after the carrier
# is lost: a command could notice a death before the driver does.
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


def time_reports(dut, death):
    """Returns how many seconds pass until carrier, RDMA port and a program
    have reported the death. The time starts at the death or, if the driver
    cannot see that at once, when the driver notices it."""
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
    # The driver reports the death, and the RDMA core reports the recovery.
    fatal_events = "hears: event_type IBV_EVENT_DEVICE_FATAL"
    dut.until(f"[ $(dmesg | grep -c '{fatal_events}') -ge 2 ]")
    time.sleep(0.5)
    text = guest.check("dmesg")
    assert text.count(fatal_events) == 2, text
    guest.run(f"kill {job.pid}")
    job.wait()
    return heard


# The driver checks each half second, and then three processes must get to run.
HEARD_S = 1.5


@pytest.mark.parametrize("death", (fatal, dead, frozen,
                                   *longer((no_decoding,), (no_mastering,))),
                         ids=lambda death: death.__name__)
def test_death_is_reported_everywhere(dut, death):
    """A death is reported in about a second: no carrier, RDMA port down, event
    for programs."""
    with without_auto_recover(dut.guest, reporter_of(death)):
        for _ in range(SOON_TRIES):
            heard = time_reports(dut, death)
            if max(heard) < HEARD_S:
                break
    print(f"{death.__name__}: reported after {heard} s")
    assert max(heard) < HEARD_S, heard
    dut.works()


# The flags of an entry of the trace: irqs off, need-resched, the kind of interrupt.
DIES_IN = re.compile(r"\] ..(.)\S+ +[\d.]+: fakernic_life: .* stopped, cause")
HARD_IRQ = "hH"
FATAL_EVENT = "type 15, "       # enum fakernic_event


def test_interrupt_reports_fatal_error(dut):
    """A fatal error is noticed in the interrupt even if its event is lost: the
    handler of vector 0 reads the state of the device."""
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


# Pauses before the recovery of a card that keeps dying. After WELL_S without a death
# they start again.
PAUSES_S = (0, 1, 2, 4, 8, 16, 32, 64, 64)
SOME_PAUSES = 4
WELL_S = 60
BROUGHT_UP_S = 2                # time limit of the recovery itself


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
    """The pauses grow to a minute, and start from zero after a minute without
    a death."""
    grow(dut, PAUSES_S)
    time.sleep(WELL_S + 1)
    grow(dut, PAUSES_S[:2])
    dut.works()


# In ticks of 4 ms this overflows 32 bits to less than one second.
NEARLY_UNLIMITED = 17179870


def test_unlimited_command_timeout_can_be_changed(dut):
    """A shorter command timeout takes effect while commands wait without
    limit. A very long timeout does not overflow to a short one."""
    guest = dut.guest
    dut.forget()
    commands_may_take(guest, 0)
    rule(dut, "freeze")
    time.sleep(NOP_PERIOD_S + 2)
    commands_may_take(guest, NEARLY_UNLIMITED)
    time.sleep(NOP_PERIOD_S)
    assert "device is dead" not in guest.check("dmesg")
    commands_may_take(guest, 1)
    dut.said("device is dead: a command timed out", 5)
    dut.is_recovered()
    dut.works()


# Queries of the port and its counters, and commands that take RTNL.
READERS = ("rdma link show {ib}/1 | grep ACTIVE",
           "grep ACTIVE /sys/class/infiniband/{ib}/ports/1/state",
           "cat /sys/class/infiniband/{ib}/ports/1/rate", "ethtool -S {net}",
           "ip link set {net} alias silent", "ip -s link show {net}")
UNAVAILABLE = ("ethtool -t {net}",
            "cat /sys/class/infiniband/{ib}/ports/1/hw_counters/tx_frames",
            "cat /sys/class/infiniband/{ib}/ports/1/counters/port_xmit_data",
            # An earlier dump is no answer.
            f"devlink health dump clear {DEVLINK} reporter fw; "
            f"devlink health dump show {DEVLINK} reporter fw >/dev/null")
SILENCE_S = 3                   # wait of the first query; later ones return at once


@contextmanager
def silent(dut):
    """Inside, the device answers no command, and the driver waits without
    limit."""
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
                                                      (UNAVAILABLE[0],))),
                         ids=("link", "statistics", "self_test"))
def test_queries_of_silent_device_time_out(dut, first):
    """Queries of a silent device return the last known values or an error, and
    the device works when it answers again."""
    dut.forget()
    ask(dut, READERS + UNAVAILABLE)
    with silent(dut):
        ask(dut, (first,), first in READERS)
        begin = time.monotonic()
        ask(dut, READERS)
        ask(dut, UNAVAILABLE, good=False)
        assert time.monotonic() - begin < SILENCE_S * (len(READERS) - 1)
        last = counted(dut, "commands")
    ask(dut, READERS + UNAVAILABLE)
    assert counted(dut, "commands") > last
    dut.works()
    assert "device is dead" not in dut.guest.check("dmesg")


CROWDED_S = 8                   # longer than a query waits
# More than the command queue has entries, all at once.
CROWD = """
for i in $(seq 100); do
    cat /sys/class/infiniband/{ib}/ports/1/state >/dev/null &
done
wait
"""


@pytest.mark.long
def test_many_readers_do_not_hide_a_death(dut):
    """Queries that timed out leave room in the command queue, so that the
    driver notices the death."""
    guest = dut.guest
    dut.forget()
    commands_may_take(guest, CROWDED_S)
    rule(dut, "freeze")
    guest.run(CROWD.format(ib=dut.port.ibdev), 60)
    dut.said("device is dead: a command timed out",
                 2 * CROWDED_S + NOP_PERIOD_S)
    dut.is_recovered()
    dut.works()


AUTO = "rdma statistic qp set link {ib}/1 auto"


def test_counter_set_query_times_out(dut):
    """If the card falls silent between its own counters and those of a set,
    the query times out."""
    guest, port = dut.guest, dut.port
    ask(dut, (f"{AUTO} type on",))
    server = guest.start(f"exec ibv_rc_pingpong -d {port.ibdev} "
                         f"-g {port.gid_index()}", 100)
    try:
        dut.until("rdma statistic qp show | grep -q LQPN")
        commands_may_take(guest, 0)
        with faults.armed(port.vm, "at=command cmd=QUERY_COUNTER times=0 do=drop"):
            begin = time.monotonic()
            ask(dut, UNAVAILABLE[1:2], good=False)
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
    """A send timeout of a silent device restarts the queues only when it
    answers again, and no caller waits for that."""
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
    """Inside, the driver is unbound and bound again; the test continues with
    the new port."""
    dut.end()
    try:
        yield
    finally:
        lab.ports = [rdma.bring_up(dut.port.vm, 1)]
    dut.port = lab.ports[0]
    dut.guest.check(SETTINGS.format(dev=dut.port.netdev))
    dut.state = dut.look()


def test_unbind_from_frozen_device(dut, lab):
    """The driver can be unbound from a frozen device, even with an unlimited
    command timeout, and binds to it again."""
    guest = dut.guest
    with bound_anew(dut, lab):
        commands_may_take(guest, 0)
        rule(dut, "freeze")
        time.sleep(NOP_PERIOD_S + 2)
        rebind(dut.port)
    dut.works()


def test_unreachable_device_loses_bus_mastering(dut):
    """The driver turns bus mastering off if the device cannot be reached, as
    it could write to freed memory."""
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
    """Inside, the device refuses a command that destroys an object: the driver
    must reset it, after which all works."""
    with faults.armed(dut.port.vm, f"at=command cmd={command} times=0 "
                      f"do=fail status={status}"):
        yield
        dut.said("device is dead: an object or page was not released")
    dut.is_recovered()
    dut.works()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("kind, status", (
    ("QP", BUSY), ("CQ", NO_RESOURCE), ("MR", BUSY),
    *longer(("QP", NO_RESOURCE), ("CQ", BUSY), ("MR", NO_RESOURCE))))
def test_failed_destroy_by_program_resets_device(dut, kind, status):
    """If a program destroys an object and the device refuses, the driver
    resets the device. It could otherwise write to freed memory. The program is
    notified."""
    with dies_of_refusing(dut, f"DESTROY_{kind}", status):
        rdma.pingpong("rc", dut.port, dut.port, "-n 50")


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("what", ("", "bind"))
def test_failed_deregistration_resets_device(dut, what):
    """If a region of an exited program, with or without a bound window, cannot
    be destroyed, the driver resets the device."""
    with dies_of_refusing(dut, "DESTROY_MR", BUSY):
        dut.guest.check(f"rdma_exit_with_mw {what}", 60)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("command", ("SET_QP_COUNTER", "DESTROY_COUNTER"))
def test_failed_destroy_of_counter_set_resets_device(dut, command):
    """If a counter set cannot be destroyed with its queue pair, the driver
    resets the device, as the kernel forgets the set."""
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
    """If an object of a kernel user cannot be destroyed while the driver is
    unbound, the unbind completes and the driver binds again."""
    verb = "DEALLOC" if kind == "PD" else "DESTROY"
    with bound_anew(dut, lab), \
            faults.armed(dut.port.vm, f"at=command cmd={verb}_{kind} "
                         f"times=0 do=fail status={status}"):
        rebind(dut.port)
    dut.works()


@pytest.mark.usefixtures("afresh")
def test_duplicate_object_number_is_refused(dut):
    """If the device returns the number of an existing object, the driver
    resets the device and destroys neither object."""
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
        dut.said("device is dead: invalid answer")
        dut.is_recovered()
    finally:
        faults.set_fault(port.vm, "remove=all")
        guest.run(f"kill {server.pid}")
        server.wait()
    dut.works()


@pytest.mark.usefixtures("afresh")
def test_invalid_doorbell_page_is_refused(dut):
    """If the device returns a doorbell page outside its BAR, no program can
    map it."""
    guest, port = dut.guest, dut.port
    dut.forget()
    faults.set_fault(port.vm, "id=made at=command cmd=ALLOC_UAR do=count; "
                     "id=far after=made at=dma-write why=cmd do=corrupt "
                     "offset=1 mask=0x80")
    try:
        assert not guest.run(f"ibv_devinfo -d {port.ibdev}").ok
        dut.said("device is dead: invalid answer")
    finally:
        faults.set_fault(port.vm, "remove=all")
    dut.is_recovered()
    dut.works()


def test_interface_opened_during_probe(dut, lab):
    """The interface can be opened as soon as it is registered, before the
    driver has finished its probe."""
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


# enum ibv_wc_status: an error of the send, and a flush without a cause.
QP_OP_ERR, FLUSHED = 2, 5
# A frame that needs no neighbour's address.
BROADCAST = "ping -b -c 1 -W 1 10.1.2.255 >/dev/null 2>&1"
# Sends it, and prints when.
FAIL_A_SEND = f"""
cut -d ' ' -f 1 /proc/uptime
{BROADCAST}
for i in $(seq 200); do dmesg | grep restarting && exit; sleep 0.1; done
dmesg; exit 1
"""
FAULTS_OF_A_PORT = 3


def pause_of_a_port(dut, status):
    """Returns the seconds from a failed send to the restart of the queues."""
    time.sleep(2)
    dut.forget()
    with faults.armed(dut.port.vm, f"at=send-wqe status={status} do=fail"):
        text = dut.guest.check(FAIL_A_SEND, 60)
    sent, restarted = re.findall(r"^(?:\[ *)?(\d+\.\d+)", text, re.M)
    return float(restarted) - float(sent)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("status", (QP_OP_ERR, *longer((FLUSHED,))))
def test_restart_pause_grows_only_after_failures(dut, status):
    """The pause before a restart of the queues grows only if the last restart
    failed."""
    for _ in range(2):
        pauses = [pause_of_a_port(dut, status)
                  for _ in range(FAULTS_OF_A_PORT)]
        if max(pauses) < PAUSE_MOST_S:
            break
    assert max(pauses) < PAUSE_MOST_S, pauses
    dut.works()


def test_trace_events(dut):
    """Trace events show commands, events, the link and the life cycle of the
    device."""
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
                  "link down, port down", "link up, port active", "stopped, cause",
                  "torn down: 0", "function reset: 0", "brought up: 0"):
        assert words in text, f"no {words}: {text[-2000:]}"


# ---- lost interrupts ---------------------------------------------------------

LOST = "at=interrupt number=0 nth=8 every=4 times=3 do=drop"
SLEEPS_S = 2            # without a packet for that long it sleeps
WAKE_S = 20
BETWEEN = 500           # number of the event that the rule hits
LOST_TRIES = 3


class Sleepers:
    """A pingpong without end, of a port with itself, that sleeps for each
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
        """Returns whether both sides sleep: nothing is sent for a while."""
        before = self.packets()
        time.sleep(SLEEPS_S)
        return self.packets() == before

    def wake_up(self):
        """Returns whether something is sent within WAKE_S."""
        before, deadline = self.packets(), time.monotonic() + WAKE_S
        while self.packets() == before:
            if time.monotonic() > deadline:
                return False
        return True

    def results(self, seconds):
        """Returns the results of both sides, which must end within that time."""
        deadline = time.monotonic() + seconds
        while any(job.poll() is None for job in self.jobs):
            assert time.monotonic() < deadline, "a pingpong does not end"
            time.sleep(0.2)
        return [job.wait() for job in self.jobs]

    def end(self):
        for job in self.jobs:
            self.guest.run(f"kill {job.pid}")
            job.wait()
        rdma.wait_for_resources(self.port, self.before)


def lose_one(dut, rule):
    """Returns Sleepers of which one has lost what RULE drops once."""
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
    """The driver finds the answer to a command whose interrupt is lost, and
    logs that the device was at fault."""
    port = ports[0]
    log = port.guest.check("dmesg")
    assert MISBEHAVES in log
    assert "was answered without an interrupt" in log
    assert faults.hits(faults.rules_of(port.vm)["lost"]) == 3
    dut = ConfiguredPort(port)
    dut.works()
    dut.end()


def test_lost_interrupt_of_sleeper(dut):
    """The driver finds an event whose interrupt is lost, wakes the sleeper and
    counts the loss."""
    before = counted(dut, "lost_interrupts")
    sleepers = lose_one(dut, "at=interrupt number=1")
    assert sleepers.wake_up()
    sleepers.end()
    assert counted(dut, "lost_interrupts") > before
    dut.works()
    reset(dut.port)
    dut.said(MISBEHAVES)
    dut.works()


def sleepers_with_lost_event(dut):
    """Returns Sleepers of which one has lost an event, and whether they sleep.
    The rule may hit an event of the Ethernet port, which the driver finds and
    counts. Then other sleepers are tried."""
    for _ in range(LOST_TRIES):
        before = counted(dut, "lost_events")
        sleepers = lose_one(dut, "at=eqe")
        asleep = sleepers.sleep()
        if not asleep:
            time.sleep(SLEEPS_S)        # the driver does not check while RTNL is held
        if counted(dut, "lost_events") == before:
            return sleepers, asleep
        sleepers.end()
    return pytest.fail("each lost event was one of the Ethernet port")


def test_lost_event_of_sleeper(dut):
    """A lost event wakes no program, and other programs get their events."""
    sleepers, asleep = sleepers_with_lost_event(dut)
    assert asleep
    another(dut)
    assert sleepers.sleep()
    sleepers.end()
    dut.works()


def test_lost_event_of_port(dut):
    """The driver finds sent frames whose event is lost: it frees their buffers
    and counts them."""
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
    """A lost completion moves those after it, so the driver restarts the
    queues."""
    dut.forget()
    with faults.armed(dut.port.vm, "at=cqe do=drop") as lost:
        dut.guest.run(BROADCAST)
        lost.wait_for([1])
    dut.guest.run(BROADCAST)
    dut.said("restarting", 3)
    dut.works()


def test_death_wakes_sleepers(dut):
    """The death of the device flushes work requests and wakes sleeping
    programs without a recovery."""
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
    """A program that takes all events and then all completions gets the flush,
    too, after a pending completion or one without an event."""
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
