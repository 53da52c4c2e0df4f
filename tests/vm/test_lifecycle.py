# SPDX-License-Identifier: GPL-2.0-or-later
"""Resets, bus errors, suspend, hot plug, reboots and new settings of a
machine, while a program and the kernel use its card.

Afterwards all operations of RC move the right bytes between the guests, `rdma
resource` is as before, an interface that stayed has its settings, and no
kernel complains. test_recovery.py and test_hotplug.py test much of this
without traffic.

Surprise removal: the guest's root turns the slot's power off in the root port,
so QEMU removes the device at once. It turns the power on before Linux looks at
the slot, and Linux finds it empty. The driver notices because reads return all
ones.
"""

import time

import pytest

from fakernic_lab import images
from fakernic_lab.versions import MAIN_KERNEL
from fakernic_test import rdma
from fakernic_test.lab import find_disk
from fakernic_test.recovery import (NATIVE_HOTPLUG, SYSFS, ConfiguredPort, bus_error,
                                   fatal_bus_error, rebind, reset, until)
from fakernic_test.traffic import HOST, TARGET, Detached, Traffic, across

KERNEL, INITRD = (images.images() / f"{name}-{MAIN_KERNEL}"
                  for name in ("vmlinuz", "initrd"))
DISKS = (*images.disk(KERNEL), *images.disk(INITRD))
GUESTS = {"options": {"extra": (*NATIVE_HOTPLUG, *DISKS)}}
# With it QEMU's root port shows an empty slot after S3, and Linux removes the card.
WITHOUT_NATIVE_HOTPLUG = pytest.mark.guests(options={"extra": DISKS})
pytestmark = [pytest.mark.timeout(300), pytest.mark.guests(**GUESTS)]

SIDES = {"target": TARGET, "host": HOST}
# Slot control: power, power indicator and slot interrupts off, and on.
POWER_OFF, POWER_ON = "CAP_EXP+18.w=0700:0720", "CAP_EXP+18.w=0120:0720"
PRESENT = """
for i in $(seq 300); do
    [ {} -e {} ] && exit
    sleep 0.1
done
dmesg | tail
exit 1
"""
# Commands of reboot(2) that shut the drivers down.
RESTART, KEXEC = 0x01234567, 0x45584543
JUMBO = 4200
WRITES = ("rdma resource show qp | grep 'comm ib_write_bw' | "
          "grep -q 'state RTS'")


def wait_for(guest, path, there=True):
    guest.check(PRESENT.format("" if there else "!", path), 60)


def works(*ports):
    """Checks each operation and compares each byte."""
    rdma.verify("rc", *ports, "-n 12").check()


def cases(short, long, twice=False):
    """Returns a case for each word EVENT-SIDE, with TWICE two of them. Those
    not in SHORT are marked long."""
    return [pytest.param(event, *[side] * (1 + twice), id=f"{event}-{side}",
                         marks=marks)
            for words, marks in ((short, ()), (long, pytest.mark.long))
            for event, side in (word.split("-") for word in words.split())]


# ---- the interface stays -----------------------------------------------------

def s3(port):
    """QEMU wakes the guest, whose agent's ports are closed and opened."""
    vm = port.vm
    asleep = Detached(port.guest, "sleep 1; echo mem >/sys/power/state", 120)
    deadline = time.monotonic() + 60
    while vm.qmp("query-status")["status"] != "suspended":
        assert time.monotonic() < deadline, asleep.poll()
        time.sleep(0.2)
    time.sleep(1)
    vm.qmp("system_wakeup")
    vm.guest.close()
    vm.wait_booted(60)
    asleep.wait().check()


def s2idle(port):
    """A key wakes the guest."""
    vm = port.vm
    port.guest.check("echo enabled >"
                        "/sys/devices/platform/i8042/serio0/power/wakeup")
    job = port.guest.start("echo freeze >/sys/power/state", 120)
    deadline = time.monotonic() + 60
    while job.poll() is None:
        assert time.monotonic() < deadline, "it does not wake up"
        time.sleep(3)
        vm.qmp("send-key", keys=[{"type": "qcode", "data": "a"}])
    job.wait().check()


STAYS = {"flr": reset, "fatal_bus_error": fatal_bus_error, "s3": s3,
         "s2idle": s2idle}


@pytest.fixture(name="settings")
def fixture_settings(ports, request):
    """The settings of the affected port, and frames of one size on both."""
    port = ports[SIDES[request.param]]
    peer = ports[1 - SIDES[request.param]]
    peer.guest.check(f"ip link set {peer.netdev} mtu {JUMBO}")
    dut = ConfiguredPort(port)
    # An interface with a new address announces it.
    peer.guest.check(f"ip neigh flush dev {peer.netdev}")
    dut.forget()
    yield dut
    dut.end()
    peer.guest.check(f"ip link set {peer.netdev} mtu 1500; "
                     f"ip neigh flush dev {peer.netdev}")


def survives(lab, dut, side, event):
    """After one event RDMA users have been notified, among them one that
    writes to the peer, and the interface has stayed."""
    traffic = Traffic(lab, SIDES[side])
    traffic.start_program()
    jobs = across(traffic.peer, traffic.port, 100)
    dut.until(WRITES)
    event(dut.port)
    traffic.program_was_notified()
    for job in jobs:
        result = job.wait()
        assert not result.ok and not result.timed_out, result
    dut.works()
    traffic.recovers()
    traffic.end()
    works(*lab.ports)
    assert dut.look() == dut.state


@pytest.mark.parametrize("event, side, settings", [
    *(pytest.param("s3", side, side, id=f"s3-{side}", marks=[
        pytest.mark.long, WITHOUT_NATIVE_HOTPLUG]) for side in SIDES),
    *cases("flr-host fatal_bus_error-host", "flr-target fatal_bus_error-target "
           "s2idle-host s2idle-target", twice=True)],
    indirect=["settings"])
def test_interface_stays(lab, settings, event, side):
    """The interface and its settings survive each event, and RDMA users are
    notified."""
    survives(lab, settings, side, STAYS[event])


# ---- devices stay --------------------------------------------------------------

def small_bus_errors(port):
    for _ in range(3):
        bus_error(port)


def frame_sizes(port):
    """Changes the MTU, which replaces the queues of the Ethernet port each
    time."""
    for mtu in (JUMBO, 1500) * 3:
        port.guest.check(f"ip link set {port.netdev} mtu {mtu}")


def more_addresses(port):
    """Adds and removes GIDs besides those in use."""
    dev = port.netdev
    for _ in range(2):
        port.guest.check(f"""
            set -e
            for i in $(seq 20); do ip addr add 10.8.0.$i/32 dev {dev}; done
            for i in $(seq 20); do ip addr del 10.8.0.$i/32 dev {dev}; done
            """)


HARMLESS = (small_bus_errors, frame_sizes, more_addresses)


def test_users_survive_each_event(ports, lab):
    """The same users survive one event after the other and notice none."""
    traffic = Traffic(lab, TARGET)
    traffic.start_program()
    for event in HARMLESS:
        jobs = across(traffic.port, traffic.peer, 5)
        until(traffic.peer.guest, WRITES)
        event(traffic.port)
        traffic.writing.goes_on()
        for job in jobs:
            job.wait().check()
    traffic.end_program()
    traffic.goes_on()
    traffic.disk.move(1)
    traffic.end()
    assert "mtu 1500" in traffic.port.guest.check(
        f"ip link show {traffic.port.netdev}")


def new_mac(port, peer):
    """Changes the MAC address; the peer learns it from the next frame."""
    own = port.guest.check(f"cat /sys/class/net/{port.netdev}/address").strip()
    for mac in ("02:00:00:00:55:01", own):
        port.guest.check(f"ip link set {port.netdev} address {mac} && "
                         f"ping -c 1 -w 20 {peer.ip4}", 60)
        yield


def new_address(port, _):
    """Removes the disk's address, local or remote, for a second."""
    port.guest.check(f"ip addr del {port.ip4}/24 dev {port.netdev}; sleep 1; "
                     f"ip addr add {port.ip4}/24 dev {port.netdev}")
    yield


MOVES = {"mac": new_mac, "address": new_address}


@pytest.mark.parametrize("event, side", cases(
    "", "mac-target mac-host address-target address-host"))
def test_port_gets_other_addresses(ports, lab, event, side):
    """Host and target find each other again after an address change, and the
    writer notices nothing."""
    traffic = Traffic(lab, SIDES[side])
    for _ in MOVES[event](traffic.port, traffic.peer):
        traffic.writing.goes_on()
    traffic.goes_on()
    traffic.disk.move(1)
    traffic.end()
    for port in ports:
        port.indexes = {}
    works(*ports)


# ---- the interface is removed ---------------------------------------------------

def slot_above(port):
    return port.guest.check(
        f"basename $(dirname $(readlink -f {SYSFS}))").strip()


def plug(port, slot):
    """Adds the card again after Linux has turned off the power of its slot, as
    QEMU would then remove a card in it. The card's side of the wire has
    stayed."""
    nic = port.vm.nics[0]
    wait_for(port.guest, SYSFS, there=False)
    port.guest.check(f"""
        for i in $(seq 100); do
            [ $((0x$(setpci -s {slot} CAP_EXP+18.w) & 0x700)) = {0x700} ] && exit
            sleep 0.1
        done
        exit 1""")
    port.vm.qmp("device_add", driver=nic.model, id="nic0", bus="slot1",
                **nic.properties, **dict([nic.wire(0).split("=", 1)]))
    wait_for(port.guest, SYSFS)


def replug(port):
    slot = slot_above(port)
    port.vm.qmp("device_del", id="nic0")
    plug(port, slot)


def surprise(port):
    slot = slot_above(port)
    port.vm.expect_repair()
    port.guest.check(f"dmesg -C; setpci -s {slot} {POWER_OFF} {POWER_ON}")
    wait_for(port.guest, SYSFS, there=False)
    assert "Card not present" in port.guest.check("dmesg")
    plug(port, slot)


GOES = {"rebind": rebind, "replug": replug, "surprise": surprise}


@pytest.mark.parametrize("event, side", cases(
    "surprise-target rebind-host", "surprise-host rebind-target replug-host "
    "replug-target"))
def test_hotplug_of_target_card(ports, lab, event, side):
    """A host whose target card was removed continues to write when the card is
    back."""
    traffic = Traffic(lab, SIDES[side])
    # A removed device is first reported dead.
    traffic.start_program("" if event == "surprise" else "once")
    GOES[event](traffic.port)
    lab.ports[traffic.affected] = rdma.bring_up(traffic.port.vm,
                                                traffic.affected + 1)
    traffic.program_was_notified()
    traffic.recovers()
    traffic.end()
    works(*lab.ports)


# ---- the machine reboots -----------------------------------------------------

def reboot(guest, how):
    """Reboots a second later, when the agent waits for no answer."""
    Detached(guest, "sleep 1; exec python3 -c 'import ctypes; "
             f"ctypes.CDLL(None).reboot({how})'", 100)


def restart(port):
    reboot(port.guest, RESTART)


def next_kernel(port):
    """Boots the same kernel again, by kexec and without firmware."""
    guest = port.guest
    kernel, initrd = (find_disk(guest, path) for path in (KERNEL, INITRD))
    guest.check(f"""
        set -e
        head -c {KERNEL.stat().st_size} {kernel} >/tmp/kernel
        head -c {INITRD.stat().st_size} {initrd} >/tmp/initrd
        kexec -l /tmp/kernel --initrd=/tmp/initrd --reuse-cmdline
        rm /tmp/kernel /tmp/initrd
        """, 100)
    reboot(guest, KEXEC)


REBOOTS = {"restart": restart, "kexec": next_kernel}


@pytest.mark.guests(kernel=MAIN_KERNEL, **GUESTS)
@pytest.mark.parametrize("event, side", cases(
    "", "restart-target restart-host kexec-target kexec-host"))
def test_reboot_under_load(ports, lab, event, side):
    """A kernel that reboots stops the card, which would otherwise write to the
    memory of the next kernel. The peer forgets it, and both find each other
    again."""
    traffic = Traffic(lab, SIDES[side])
    traffic.start_program()
    vm = traffic.port.vm
    with vm.boots_again():
        REBOOTS[event](traffic.port)
    lab.ports[traffic.affected] = rdma.bring_up(vm, traffic.affected + 1)
    if traffic.affected == TARGET:
        # The target now serves another disk, which this host refuses.
        traffic.disk.serve()
        traffic.disk.disconnect()
        assert not traffic.writing.job.wait().ok
    traffic.disk.connect_again()
    traffic.disk.move(1)
    traffic.end()
    works(*lab.ports)
