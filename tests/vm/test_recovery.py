# SPDX-License-Identifier: GPL-2.0-or-later
"""The device fails, is reset, or sleeps; the driver lives, and the network
interface with all that was set upon it stays.

How the device is made to fail: a doorbell of the command queue that is beyond
its ring (FATAL), memory decoding turned off (no register answers), bus mastering
turned off (it cannot reach its rings), all done in the guest as a kernel with
iomem=relaxed lets root do it; and by fault rules of the device: dead (all ones
until a reset of the function), frozen (commands are not answered).
"""

import pytest

from fakernic_test import rdma

# QEMU's root ports have no link by default, for which AER would wait.
NATIVE_HOTPLUG = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")

pytestmark = pytest.mark.guests(count=1, append="iomem=relaxed",
                                options={"extra": NATIVE_HOTPLUG})

SLOT = "0000:01:00.0"
SYSFS = f"/sys/bus/pci/devices/{SLOT}"
DEVLINK = f"pci/{SLOT}"
PARAMETERS = "/sys/module/fakernic/parameters"
RUNG = """
import ctypes, mmap, os
fd = os.open("{sysfs}/resource0", os.O_RDWR)
bar = mmap.mmap(fd, 4096)
ctypes.c_uint32.from_buffer(bar, {register}).value = {value}
"""
CMDQ_DOORBELL = 0x054

# What a user may have set: all of it has to be there afterwards.
SETTINGS = """
set -e
ip link set {dev} mtu 4200 address 02:00:00:00:77:01
ip addr add 10.1.2.3/24 dev {dev}
ip addr add fd00:12::3/64 dev {dev} nodad
ip link add link {dev} name {dev}.7 type vlan id 7
ip link set {dev}.7 up
ip addr add 10.7.0.1/24 dev {dev}.7
ip route add 10.99.0.0/16 via 10.1.2.9
ip route add fd00:99::/32 via fd00:12::9
tc qdisc add dev {dev} root handle 1: prio bands 4
"""
STATE = """
ip -br link show {dev} | awk '{{print $1, $3}}'
ip -o link show {dev} | grep -o 'mtu [0-9]*'
ip -o addr show dev {dev} scope global | awk '{{print $3, $4}}' | sort
ip -o addr show dev {dev}.7 scope global | awk '{{print $3, $4}}' | sort
ip route show dev {dev} | sed 's/ linkdown//' | sort
ip -6 route show dev {dev} | grep -v fe80 | sed 's/ linkdown//' | sort
tc qdisc show dev {dev} root | awk '{{print $2, $3}}'
cat /sys/class/net/{dev}/ifindex
"""
RESTORE = """
set -e
ip route del fd00:99::/32
ip route del 10.99.0.0/16
tc qdisc del dev {dev} root
ip link del {dev}.7
ip addr del 10.1.2.3/24 dev {dev}
ip addr del fd00:12::3/64 dev {dev}
ip link set {dev} mtu 1500 address {mac}
"""


class Patient:
    """The port, with settings; and ways to hurt it."""

    def __init__(self, port):
        self.port = port
        self.guest = port.guest
        self.mac = self.guest.check(
            f"cat /sys/class/net/{port.netdev}/address").strip()
        self.guest.check(SETTINGS.format(dev=port.netdev))
        self.state = self.look()

    def look(self):
        return self.guest.check(STATE.format(dev=self.port.netdev))

    def end(self):
        self.guest.check(RESTORE.format(dev=self.port.netdev, mac=self.mac))

    def ring(self, register, value):
        self.guest.write("/tmp/ring.py", RUNG.format(
            sysfs=SYSFS, register=register, value=value))
        self.guest.check("python3 /tmp/ring.py")

    def until(self, condition, seconds=20):
        tries = int(seconds * 10)
        self.guest.check(f"for i in $(seq {tries}); do {condition} && exit; "
                         "sleep 0.1; done; dmesg | tail; exit 1", seconds + 30)

    def said(self, text, seconds=20):
        self.until(f"dmesg | grep -q '{text}'", seconds)

    def forget(self):
        self.guest.check("dmesg -C")

    def works(self):
        """All is as it was set, and both faces work."""
        port = self.port
        self.until(f"rdma link show {port.ibdev}/1 | grep -q 'state ACTIVE'")
        assert self.look() == self.state
        port.indexes = {}
        count = len(self.guest.check(
            f"ip -o addr show dev {port.netdev}").splitlines())
        self.guest.check(rdma.WAIT_GIDS.format(dev=port.ibdev, count=count))
        rdma.pingpong("rc", port, port, "-n 50").check()
        sent = f"cat /sys/class/net/{port.netdev}/statistics/tx_packets"
        before = int(self.guest.check(sent))
        self.guest.run("ping -c 3 -i 0.1 -W 1 10.1.2.77")
        assert int(self.guest.check(sent)) > before


@pytest.fixture
def patient(ports):
    patient = Patient(ports[0])
    patient.forget()
    yield patient
    patient.end()


def fatal(patient):
    patient.ring(CMDQ_DOORBELL, 0x7fffffff)


def no_decoding(patient):
    patient.guest.check(f"setpci -s {SLOT} COMMAND=0:2")


def no_mastering(patient):
    """It cannot reach its rings: the next command is its end."""
    patient.guest.check(f"setpci -s {SLOT} COMMAND=0:4")


def rule(patient, do):
    patient.port.vm.qmp("qom-set", path="/machine/peripheral/nic0",
                        property="x-fault", value=f"at=device do={do}")


def dead(patient):
    rule(patient, "dead")


def frozen(patient):
    patient.guest.check(f"echo 3 >{PARAMETERS}/cmd_timeout")
    rule(patient, "freeze")


DEATHS = (fatal, no_decoding, no_mastering, dead, frozen)


def test_function_level_reset(patient):
    for _ in range(3):
        patient.forget()
        patient.guest.check(f"echo 1 >{SYSFS}/reset", 60)
        patient.said("about to be reset")
        patient.works()


def test_program_hears_of_a_reset(patient):
    """Told by an event, it finds every verb failing and lets go of all."""
    guest = patient.guest
    job = guest.start("RDMAV_ALLOW_DISASSOC_DESTROY=1 exec rdma_unplug "
                      ">/tmp/unplug", 100)
    patient.until("grep -q running /tmp/unplug")
    guest.check(f"echo 1 >{SYSFS}/reset", 60)
    result = job.wait()
    said = guest.check("cat /tmp/unplug").splitlines()
    assert result.ok and said == ["running", "done"], f"{said} {result}"
    patient.works()


def test_bus_error_that_is_not_fatal(patient):
    """Nothing is torn down: the RDMA device is the one it was."""
    before = patient.guest.check(f"rdma dev show {patient.port.ibdev}")
    for _ in range(3):
        patient.forget()
        patient.port.vm.hmp("pcie_aer_inject_error nic0 POISON_TLP")
        patient.said("device recovery successful")
        assert patient.guest.check(
            f"rdma dev show {patient.port.ibdev}") == before
    patient.works()


def test_fatal_bus_error(patient):
    for _ in range(3):
        patient.forget()
        patient.port.vm.hmp("pcie_aer_inject_error nic0 SDN")
        patient.said("device recovery successful")
        patient.works()


def test_sleep(patient):
    """Suspend to idle; the kernel resumes all devices after five seconds."""
    power = "/sys/power"
    patient.guest.check(f"echo devices >{power}/pm_test")
    for _ in range(2):
        patient.guest.check(f"echo freeze >{power}/state", 60)
        patient.works()
    patient.guest.check(f"echo none >{power}/pm_test")


def test_reload(patient):
    for _ in range(2):
        patient.guest.check(f"devlink dev reload {DEVLINK}", 60)
        patient.works()


def test_devlink_tells_what_it_is(patient):
    text = patient.guest.check(f"devlink dev info {DEVLINK}")
    assert "driver fakernic" in text and "serial_number" in text, text
    fw = patient.guest.check(f"ethtool -i {patient.port.netdev}")
    assert f"fw {fw.split('firmware-version: ')[1].split()[0]}" in text
    for reporter in ("fw_fatal", "cmdq"):
        text = patient.guest.check(
            f"devlink health diagnose {DEVLINK} reporter {reporter}")
        assert "state: well" in text, text
    text = patient.guest.check(
        f"devlink health dump show {DEVLINK} reporter cmdq")
    assert "requests" in text and "depth: 64" in text, text
    patient.guest.check(f"devlink health dump clear {DEVLINK} reporter cmdq")


def test_dead_device_says_so(patient):
    """It is left dead, if the user wants it, until he has it recovered."""
    guest, port = patient.guest, patient.port
    reporter = f"{DEVLINK} reporter fw_fatal"
    guest.check(f"devlink health set {reporter} auto_recover false")
    try:
        job = guest.start(f"exec ibv_asyncwatch -d {port.ibdev} "
                          ">/tmp/events 2>&1", 100)
        patient.until("[ -s /tmp/events ]")
        counted = guest.check(f"ethtool -S {port.netdev}")
        fatal(patient)
        patient.until(f"[ $(cat /sys/class/net/{port.netdev}/carrier) = 0 ]", 1)
        patient.until("grep -q IBV_EVENT_DEVICE_FATAL /tmp/events", 5)
        assert "state DOWN" in guest.check(f"rdma link show {port.ibdev}/1")
        assert "DOWN" in guest.check(
            f"cat /sys/class/infiniband/{port.ibdev}/ports/1/state")
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
        patient.works()
        assert "state healthy" in guest.check(f"devlink health show {reporter}")
        assert "device_dead: 0" in guest.check(f"ethtool -S {port.netdev}")
    finally:
        guest.run(f"devlink health dump clear {reporter}")
        guest.check(f"devlink health set {reporter} auto_recover true")


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__)
def test_device_dies_and_is_recovered(patient, death):
    """By itself: noticed within a second if it can be seen, brought up."""
    # Else the pauses go on growing from death to death.
    patient.guest.check(f"devlink dev reload {DEVLINK}", 60)
    for _ in range(2):
        patient.forget()
        death(patient)
        patient.said("device is dead", 20)
        patient.said("device is recovered")
        patient.guest.check(f"echo 30 >{PARAMETERS}/cmd_timeout")
        patient.works()


def test_trace_tells(patient):
    """Commands, events, the link and the hardware's life."""
    guest, events = patient.guest, "events/fakernic/enable"
    guest.check("mountpoint -q /sys/kernel/tracing || "
                "mount -t tracefs tracefs /sys/kernel/tracing; "
                f"cd /sys/kernel/tracing; echo >trace; echo 1 >{events}; "
                f"echo 1 >{SYSFS}/reset", 60)
    patient.works()
    text = guest.check(f"cd /sys/kernel/tracing; echo 0 >{events}; cat trace")
    for words in ("CREATE_QP: ", "fakernic_eqe", "link up, port active",
                  "goes down", "comes up: 0"):
        assert words in text, f"no {words}: {text[-2000:]}"
