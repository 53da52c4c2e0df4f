# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with several cards: the lab's own, and those on a hub."""

from fakernic_lab.net import mac

from . import rdma

HUB = 1
LOAD = """
modprobe fakernic && modprobe -a ib_uverbs rdma_ucm || exit 1
for try in $(seq 200); do
    [ $(ls /sys/class/infiniband | wc -l) = {count} ] && break
    sleep 0.1
done
for card in /sys/class/infiniband/*; do
    echo $(basename $card) $(ls $card/device/net) \
        $(cat $card/device/net/*/address) $(readlink -f $card/device)
done
"""
SET_UP = """
ip link set {dev} up
ip addr replace {ip4}/24 dev {dev}
ip -6 addr replace {ip6}/64 dev {dev} nodad
"""


def card(number, bus):
    """Returns the arguments of another card, NUMBER from 1 on, on a bus."""
    return ("-netdev", f"hubport,hubid={HUB},id=n{number}",
            "-device", f"fakernic,netdev=n{number},id=nic{number},bus={bus},"
            f"mac={mac(0x10 + number)}")


def root_port(number, bus="pcie.0"):
    """Returns the arguments of root port slotNUMBER; the lab's own is slot1."""
    return ("-device", f"pcie-root-port,id=slot{number},bus={bus},"
            f"chassis={number},slot={number}")


class Card(rdma.Port):
    """A card of a guest, with addresses of a network of its own."""

    def __init__(self, vm, number, words):
        ibdev, netdev, self.mac, self.path = words
        super().__init__(vm, number, ibdev, netdev)
        self.slot = self.path.rpartition("/")[2]
        self.ip4 = f"10.20.{number}.1"
        self.ip6 = f"fd00:20:{number}::1"

    def set_up(self):
        self.guest.check(SET_UP.format(dev=self.netdev, ip4=self.ip4,
                                       ip6=self.ip6) +
                         rdma.WAIT_GIDS.format(dev=self.ibdev, count=3))

    def bridges(self):
        """Returns the number of bridges between it and the root of its bus."""
        return self.path.count("/") - "/sys/devices/pci0000:00/".count("/")

    def works(self):
        """Checks that the card receives the bytes that it sends to itself."""
        for kind, family in (("rc", 4), ("ud", 6)):
            rdma.pingpong(kind, self, self, "-c -n 50", family).check()


def bring_up(vm, count):
    """Loads the driver and returns exactly COUNT cards."""
    rows = vm.guest.check(LOAD.format(count=count), 100).splitlines()
    assert len(rows) == count, rows
    found = [Card(vm, number, row.split())
             for number, row in enumerate(rows, start=1)]
    for one in found:
        one.set_up()
    return found
