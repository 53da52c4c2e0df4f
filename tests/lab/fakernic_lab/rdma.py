# SPDX-License-Identifier: GPL-2.0-or-later
"""Brings up the RDMA device of a guest.

Works alike for fakernic and for Soft-RoCE over virtio-net (rxe), so a test can
run with either, or between the two.
"""

import ipaddress
import re
import time

from .errors import GuestCrashed

NETWORK4 = "192.168.77"
NETWORK6 = "fd00:77:"

LOAD = {
    "fakernic": """
        for module in fakernic ib_uverbs rdma_ucm; do
            [ -d /sys/module/$module ] || modprobe $module || exit 1
        done
    """,
    "rxe": """
        modprobe -a virtio_net rdma_rxe ib_uverbs rdma_ucm
        net=$(basename $(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/*))
        ip link set $net up
        [ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev $net
    """,
}

NO_DEVICE = "no RDMA device with a network interface"
# FIND prints "IBDEV NETDEV" when both exist and udev has renamed them. Its time limit is
# long, because the agent may run before an emulated Debian on a busy host has booted.
FIND_S = 300
PING_S = 20
# Time limit for the kernel to make a GID from an address.
GID_S = 20
FIND = """
[ -e /run/udev/control ] && udevadm settle --timeout=240
for try in $(seq 100); do
    for ib in /sys/class/infiniband/*; do
        [ -e "$ib" ] || continue
        parent=
        [ ! -e $ib/parent ] || read -r parent <$ib/parent
        for net in $ib/device/net/* $parent; do
            [ -e "/sys/class/net/${net##*/}" ] || continue
            echo ${ib##*/} ${net##*/}
            exit 0
        done
    done
    sleep 0.1
done
echo "%s" >&2
exit 1
""" % NO_DEVICE

# Prints "INDEX GID TYPE" per used entry of the GID table. Shell built-ins only:
# a table has 256 entries, and a process per entry takes seconds when emulated.
GIDS = """
cd /sys/class/infiniband/{dev}/ports/1
for index in {{0..255}}; do
    {{ read -r kind <gid_attrs/types/$index; }} 2>/dev/null || continue
    read -r gid <gids/$index
    echo "$index $gid $kind"
done
"""

GID = re.compile(r"^(\d{1,3}) ([\da-f:]{39}) (.*)$", re.M)

# Exports FAKERNIC_GID_INDEX and FAKERNIC_GID_INDEX6, the indexes of the GIDs of the
# addresses, and FAKERNIC_GID_INDEX_LL, that of the link-local address.
GID_VARIABLES = """
while read -r index gid kind; do
    case $gid$kind in
    *v1*) ;;
    {cases}    fe80:*) export FAKERNIC_GID_INDEX_LL=$index;;
    esac
done < <(exec 2>/dev/null; {script})
"""

# Waits until the interface's two addresses have become RoCEv2 GIDs.
WAIT_GIDS = """
for try in $(seq 100); do
    n=$(grep -l v2 /sys/class/infiniband/{dev}/ports/1/gid_attrs/types/* \
        2>/dev/null | wc -l)
    [ $n -ge {count} ] && exit 0
    sleep 0.1
done
exit 1
"""


def ip4(number):
    """The IPv4 address of the machine NUMBER."""
    return f"{NETWORK4}.{number}"


def ip6(number):
    return f"{NETWORK6}:{number}"


# Sets the addresses of the interface. Prints "no IPv6" if the kernel lacks that. Each
# address becomes a GID, and so does the link-local IPv6 address.
ADDRESSES = """
words="link set {netdev} up
addr replace {ip4}/24 dev {netdev}"
count=1
if [ -e /proc/net/if_inet6 ]; then
    words+="
addr replace {ip6}/64 dev {netdev} nodad"
    count=3
else
    echo no IPv6
fi
ip -batch - <<<"$words"
"""
# A device's name. Other names are refused, because names are used in scripts and shown.
NAME = re.compile(r"[\w.:-]{1,64}", re.A)


def gid_of(address):
    """The GID of an IPv6 address, as sysfs shows it."""
    return ipaddress.IPv6Address(address).packed.hex(":", 2)


class Port:
    """An RDMA port that is up, with the names and addresses of its guest. The guest's
    kernel may lack IPv6."""

    def __init__(self, vm, number, ibdev, netdev, ipv6=True):
        self.families = (4, 6) if ipv6 else (4,)
        self.vm = vm
        self.guest = vm.guest
        self.number = number
        self.ibdev = ibdev
        self.netdev = netdev
        self.indexes = {}
        self.mtu = 1500
        self.ip4 = ip4(number)
        self.ip6 = ip6(number)

    def gids(self):
        """[(index, gid, type)] of the used entries."""
        text = self.guest.check(GIDS.format(dev=self.ibdev))
        return [(int(index), gid, kind) for index, gid, kind in
                GID.findall(text)]

    def gid_variables(self):
        """A shell script that sets the variables of GIDs from the addresses that the
        interface has when it runs. A missing address leaves its variable unset."""
        cases = "".join(
            f"{gid_of(address)}*) "
            f"export FAKERNIC_GID_INDEX{name}=$index;;\n"
            for address, name in ((f"::ffff:{self.ip4}", ""), (self.ip6, "6")))
        return GID_VARIABLES.format(script=GIDS.format(dev=self.ibdev),
                                    cases=cases)

    def gid_index(self, family=4):
        """The index of the RoCEv2 GID of this port's address."""
        if family not in self.indexes:
            self.indexes[family] = self.find_gid_index(family)
        return self.indexes[family]

    def find_gid_index(self, family):
        return self.index_of(self.ip(family))

    def index_of(self, address):
        """Waits for the RoCEv2 GID of an IP address of this guest and returns its index.
        Raises LookupError after GID_S seconds."""
        wanted = ipaddress.ip_address(address)
        if wanted.version == 4:
            wanted = ipaddress.ip_address(f"::ffff:{address}")
        deadline = time.monotonic() + GID_S
        while True:
            known = self.gids()
            for index, gid, kind in known:
                if ipaddress.ip_address(gid) == wanted and "v2" in kind:
                    return index
            if time.monotonic() > deadline:
                raise LookupError(f"no RoCEv2 GID {wanted} in {known}")
            time.sleep(0.1)

    def ip(self, family=4):
        return self.ip4 if family == 4 else self.ip6

    def set_mtu(self, mtu):
        """Sets the MTU of the interface. The path MTU of RDMA is smaller."""
        if mtu != self.mtu:
            self.guest.check(f"ip link set {self.netdev} mtu {mtu}")
            self.mtu = mtu

    def counters(self):
        """The RDMA port's hardware counters."""
        text = self.guest.check(
            f"cd /sys/class/infiniband/{self.ibdev}/ports/1/hw_counters && "
            "grep -H . *")
        return {name: int(value) for name, value in
                (line.split(":") for line in text.splitlines())
                if value.isdigit()}


def bring_up(vm, number, driver="fakernic", mtu=None):
    """Loads the driver, gives the interface the addresses of NUMBER, returns the Port."""
    names = vm.guest.check(LOAD[driver] + FIND, FIND_S).split()[-2:]
    if len(names) != 2 or not all(map(NAME.fullmatch, names)):
        raise GuestCrashed(f"{vm.name} reports no valid name of an RDMA device")
    ibdev, netdev = names
    port = Port(vm, number, ibdev, netdev)
    if mtu:
        port.set_mtu(mtu)
    said = vm.guest.check(
        ADDRESSES.format(netdev=netdev, ip4=port.ip4, ip6=port.ip6) +
        WAIT_GIDS.format(dev=ibdev, count="$count"))
    if "no IPv6" in said:
        port.families = (4,)
    return port


def step_up(number, mtu=None):
    """The step of the agent that does what bring_up() does, in a machine with one card
    from a snapshot."""
    return "up", ip4(number), ip6(number), mtu or 0


def port_of(vm, number, said, mtu=None):
    """The Port that step_up() has brought up. SAID is the output."""
    words = said.split()
    if len(words) != 3 or not all(map(NAME.fullmatch, words)):
        raise GuestCrashed(f"{vm.name} reports no valid name of an RDMA device")
    port = Port(vm, number, words[0], words[1], words[2] != "1")
    port.mtu = mtu or port.mtu
    return port


def steps_reach(port, ports):
    """The steps that do what pings() does."""
    return [("reach", peer.ip(family)) for peer in ports for family in port.families
            if peer is not port]


def pings(port, ports):
    """The commands that end when PORT has reached all other PORTS, by IPv4 and IPv6."""
    return [f"ping -c 1 -w {PING_S} {peer.ip(family)}" for peer in ports
            for family in port.families if peer is not port]


def find_others(port, ports):
    """Waits until PORT has reached all other PORTS by ping."""
    words = pings(port, ports)
    if words:
        port.guest.check(" && ".join(words), PING_S * (len(words) + 1))


def bring_up_all(vms, driver="fakernic"):
    """Brings up the ports of all guests and returns them when they reach each other.
    DRIVER may be a tuple with one driver per guest."""
    drivers = (driver,) * len(vms) if isinstance(driver, str) else driver
    ports = [bring_up(vm, number, drivers[number - 1])
             for number, vm in enumerate(vms, start=1)]
    for port in ports:
        find_others(port, ports)
    return ports
