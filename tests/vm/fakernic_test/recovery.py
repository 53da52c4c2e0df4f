# SPDX-License-Identifier: GPL-2.0-or-later
"""A port with user settings on its interface, which must survive a failure of
the device; and ways to make the device fail."""

from contextlib import contextmanager

from . import rdma

# QEMU's root ports have no link by default, for which AER would wait.
NATIVE_HOTPLUG = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")

SLOT = "0000:01:00.0"
SYSFS = f"/sys/bus/pci/devices/{SLOT}"
DEVLINK = f"pci/{SLOT}"
REPORTER = f"{DEVLINK} reporter fw_fatal"
DRIVER = "/sys/bus/pci/drivers/fakernic"
UNBIND, BIND = (f"echo {SLOT} >{DRIVER}/{way}" for way in ("unbind", "bind"))
DEBUGFS = "/sys/kernel/debug"
MOUNT_DEBUGFS = f"mountpoint -q {DEBUGFS} || mount -t debugfs none {DEBUGFS}"
FAULTS = f"{DEBUGFS}/fakernic/{SLOT}/faults"    # fault rules that the guest's root writes
# The command timeout in seconds, and its default; 0: no limit.
CMD_TIMEOUT = "/sys/module/fakernic/parameters/cmd_timeout"
CMD_TIMEOUT_S = 30
RINGS = "the doorbell is rung"
RECOVERED = "device is recovered"       # in the kernel's log
RUNG = """
import ctypes, mmap, os
fd = os.open("{sysfs}/resource0", os.O_RDWR)
bar = mmap.mmap(fd, 4096)
with open("/dev/kmsg", "w") as log:
    log.write("{says}")
ctypes.c_uint32.from_buffer(bar, {register}).value = {value}
"""

# User settings, which must all be there afterwards.
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
# The interface and the VLAN on it send frames: each ping of an absent address makes
# Linux send an ARP request. If Linux has just given up this neighbour, the first ping
# sends none, and the next one does. The ping may have ended before it is killed.
SENDS = """
sends() {{
    before=$(cat tx_packets)
    for i in $(seq 30); do
        ping -c 1 -W 1 $1 >/dev/null &
        for j in $(seq 20); do
            [ $(cat tx_packets) -gt $before ] && {{ kill $! 2>/dev/null; return 0; }}
            sleep 0.05
        done
        wait
    done
    ip -s link show; ip neigh; tc -s qdisc show
    exit 1
}}
cd /sys/class/net/{dev}/statistics
sends 10.1.2.77
sends 10.7.0.77
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


def until(guest, condition, seconds=20):
    """Waits until a shell command succeeds in a guest."""
    tries = int(seconds * 10)
    guest.check(f"for i in $(seq {tries}); do {condition} && exit; "
                "sleep 0.1; done; dmesg | tail; exit 1", seconds + 30)


def is_recovered(guest, seconds=20):
    until(guest, f"dmesg | grep -q '{RECOVERED}'", seconds)


# Ways to take the device down and up again.
RESET = f"echo 1 >{SYSFS}/reset"
RELOAD = f"devlink dev reload {DEVLINK}"
# Suspends all devices; the machine stays awake.
SLEEP = ("echo devices >/sys/power/pm_test && echo freeze >/sys/power/state; "
         "code=$?; echo none >/sys/power/pm_test; (exit $code)")
# Errors that a card reports by AER; that of the link is fatal.
FATAL, NOT_FATAL = "SDN", "POISON_TLP"


def reset(port):
    port.guest.check(RESET, 60)


def reload(port):
    port.guest.check(RELOAD, 60)


def sleep(port):
    port.guest.check(SLEEP, 60)


def commands_may_take(guest, seconds=CMD_TIMEOUT_S):
    """Sets the command timeout, until ConfiguredPort.works() or another call."""
    guest.check(f"echo {seconds} >{CMD_TIMEOUT}")


BUS_ERROR_MARK = "the card reports an error"


def report_bus_error(port, error):
    """The card sends an AER message; the kernel's log is cleared before."""
    port.guest.check(f"dmesg -C; echo {BUS_ERROR_MARK} >/dev/kmsg")
    port.vm.hmp(f"pcie_aer_inject_error nic0 {error}")


def bus_error(port, error=NOT_FATAL):
    """Reports a bus error and waits for Linux's recovery."""
    report_bus_error(port, error)
    until(port.guest, "dmesg | grep -q 'device recovery successful'")


def fatal_bus_error(port):
    bus_error(port, FATAL)


def rebind(port):
    """Unbinds the driver from the card of a port, and binds it again."""
    port.guest.check(f"{UNBIND} && sleep 0.5 && {BIND}", 60)


@contextmanager
def without_auto_recover(guest, reporter=REPORTER):
    """Inside, no death that this reporter shows is recovered automatically."""
    guest.check(f"devlink health set {reporter} auto_recover false")
    try:
        yield
    finally:
        guest.run(f"devlink health dump clear {reporter}")
        guest.check(f"devlink health set {reporter} auto_recover true")


class ConfiguredPort:
    """A port with settings, and ways to make its device fail."""

    def __init__(self, port):
        self.port = port
        self.guest = port.guest
        self.mac = self.guest.check(
            f"cat /sys/class/net/{port.netdev}/address").strip()
        self.guest.check(SETTINGS.format(dev=port.netdev))
        self.state = self.look()
        self.deaths = self.death_count()

    def look(self):
        return self.guest.check(STATE.format(dev=self.port.netdev))

    def death_count(self):
        """Returns the number of deaths since the probe."""
        return self.guest.check(
            f"ethtool -S {self.port.netdev} | grep device_deaths").split()[-1]

    def reload(self):
        """Reloads the device, which forgets earlier deaths. Otherwise each
        recovery within a minute would have a pause twice as long."""
        reload(self.port)

    def begin(self, port):
        """Starts another test, which may have PORT of another driver."""
        self.port = port
        self.deaths = self.death_count()
        self.forget()

    def rest(self):
        """Restores the state between tests: healthy, with its settings."""
        commands_may_take(self.guest)
        if self.death_count() != self.deaths:
            self.reload()
            self.until(f"rdma link show {self.port.ibdev}/1 | grep -q ACTIVE")

    def end(self):
        commands_may_take(self.guest)
        self.guest.check(RESTORE.format(dev=self.port.netdev, mac=self.mac))
        self.rest()

    def ring(self, register, value):
        self.port.vm.expect_repair()
        self.guest.write("/tmp/ring.py", RUNG.format(
            sysfs=SYSFS, register=register, value=value, says=RINGS))
        self.guest.check("python3 /tmp/ring.py")

    def until(self, condition, seconds=20):
        until(self.guest, condition, seconds)

    def said(self, text, seconds=20):
        self.until(f"dmesg | grep -q '{text}'", seconds)

    def is_recovered(self, seconds=20):
        is_recovered(self.guest, seconds)

    def forget(self):
        self.guest.check("dmesg -C")

    def works(self):
        """Checks that all settings are as before and that interface and RDMA
        work."""
        port = self.port
        commands_may_take(self.guest)
        self.until(f"rdma link show {port.ibdev}/1 | grep -q 'state ACTIVE'")
        assert self.look() == self.state
        port.indexes = {}
        count = len(self.guest.check(
            f"for dev in {port.netdev} {port.netdev}.7; do "
            "ip -o addr show dev $dev; done").splitlines())
        self.guest.check(rdma.WAIT_GIDS.format(dev=port.ibdev, count=count))
        rdma.pingpong("rc", port, port, "-n 50").check()
        self.guest.check(SENDS.format(dev=port.netdev), 100)
