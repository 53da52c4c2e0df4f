# SPDX-License-Identifier: GPL-2.0-or-later
"""Bringing a device up in a guest, and the usual client/server pairs.

The same for fakernic and for Soft-RoCE over virtio-net (rxe), so that a test
can be tried against, or run between, the two.
"""

import re
import time

NETWORK4 = "192.168.77"
NETWORK6 = "fd00:77:"

LOAD = {
    "fakernic": "modprobe -a fakernic ib_uverbs rdma_ucm",
    "rxe": """
        modprobe -a virtio_net rdma_rxe ib_uverbs rdma_ucm
        net=$(basename $(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/*))
        ip link set $net up
        [ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev $net
    """,
}

# Prints "IBDEV NETDEV" once both are there.
FIND = """
for try in $(seq 100); do
    for ib in /sys/class/infiniband/*; do
        for net in $ib/device/net/* $(cat $ib/parent 2>/dev/null); do
            [ -e /sys/class/net/${net##*/} ] || continue
            echo ${ib##*/} ${net##*/}
            exit 0
        done
    done
    sleep 0.1
done
echo "no RDMA device with a network interface" >&2
exit 1
"""

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


class Port:
    """An RDMA port that is up: names and addresses of one guest."""

    def __init__(self, vm, number, ibdev, netdev):
        self.vm = vm
        self.guest = vm.guest
        self.number = number
        self.ibdev = ibdev
        self.netdev = netdev
        self.indexes = {}
        self.ip4 = f"{NETWORK4}.{number}"
        self.ip6 = f"{NETWORK6}:{number}"

    def gids(self):
        """[(index, gid, type)] of the used entries."""
        lines = self.guest.check(GIDS.format(dev=self.ibdev)).splitlines()
        return [(int(index), gid, kind) for index, gid, kind in
                (line.split(maxsplit=2) for line in lines)]

    def gid_index(self, family=4):
        """The index of the RoCEv2 GID of this port's address."""
        if family not in self.indexes:
            self.indexes[family] = self.find_gid_index(family)
        return self.indexes[family]

    def find_gid_index(self, family):
        if family == 4:
            end = "".join(f"{int(part):02x}" for part in self.ip4.split("."))
            wanted = f"0000:0000:0000:0000:0000:ffff:{end[:4]}:{end[4:]}"
        else:
            wanted = f"fd00:0077:0000:0000:0000:0000:0000:{self.number:04x}"
        for index, gid, kind in self.gids():
            if gid == wanted and "v2" in kind:
                return index
        raise LookupError(f"no RoCEv2 GID {wanted} in {self.gids()}")

    def set_mtu(self, mtu):
        self.guest.check(f"ip link set {self.netdev} mtu {mtu}")


def bring_up(vm, number, driver="fakernic"):
    """Load the driver, give the interface addresses NUMBER; its Port."""
    ibdev, netdev = vm.guest.check(LOAD[driver] + FIND).split()[-2:]
    port = Port(vm, number, ibdev, netdev)
    vm.guest.check(f"""
        ip link set {netdev} up
        ip addr replace {port.ip4}/24 dev {netdev}
        ip -6 addr replace {port.ip6}/64 dev {netdev} nodad
        """ + WAIT_GIDS.format(dev=ibdev, count=3))
    return port


def bring_up_all(vms, driver="fakernic"):
    """The ports of all guests; DRIVER may be a tuple, one per guest."""
    drivers = (driver,) * len(vms) if isinstance(driver, str) else driver
    return [bring_up(vm, number, drivers[number - 1])
            for number, vm in enumerate(vms, start=1)]


# How a server shows that it listens: on a TCP port, or as an rdma_cm id.
LISTENS_TCP = "ss -Hltn 'sport = :{port}' | grep -q ."
LISTENS_CM = "rdma resource show cm_id | grep -q 'state LISTEN'"


class Pair:
    """What a server and its client printed."""

    def __init__(self, server, client):
        self.server = server
        self.client = client

    def check(self):
        """Itself, or the failure of whichever failed, with both outputs."""
        if not (self.server.ok and self.client.ok):
            raise AssertionError(f"server: {self.server}\n"
                                 f"client: {self.client}")
        return self


def run_pair(server, client, server_command, client_command, listen=18515,
             timeout=60):
    """Run a server in one guest, then its client in another; a Pair.

    LISTEN is the server's TCP port, or "cm" for an rdma_cm listener.
    """
    test = LISTENS_CM if listen == "cm" else LISTENS_TCP.format(port=listen)
    job = server.guest.start(server_command, timeout)
    ready = server.guest.run(
        f"for i in $(seq 200); do {test} && exit 0; sleep 0.05; done; exit 1",
        timeout)
    if not ready.ok:
        return Pair(job.wait() if job.poll() else job.poll() or ready, ready)
    answer = client.guest.run(client_command, timeout)
    deadline = time.monotonic() + (10 if not answer.ok else timeout)
    while job.poll() is None and time.monotonic() < deadline:
        server.vm.assert_alive()
        time.sleep(0.02)
    if job.result is None:
        server.guest.run(f"kill {job.pid}; sleep 0.5")
    return Pair(job.wait(), answer)


# ---- the usual tools -----------------------------------------------------

def pingpong(kind, server, client, options="", family=4, timeout=90):
    """ibv_{rc,ud,…}_pingpong between two ports (or one with itself).

    FAMILY is that of the GIDs; its server listens for TCP on IPv4 only.
    """
    return run_pair(
        server, client,
        f"ibv_{kind}_pingpong -d {server.ibdev} -g {server.gid_index(family)} "
        f"{options}",
        f"ibv_{kind}_pingpong -d {client.ibdev} -g {client.gid_index(family)} "
        f"{options} {server.ip4}", 18515, timeout)


def rping(server, client, count=10, size=64, family=4, timeout=90):
    """rping, which connects by rdma_cm and checks the bytes with -V."""
    address = server.ip4 if family == 4 else server.ip6
    common = f"-C {count} -S {size} -V -v -a {address}"
    return run_pair(server, client, f"rping -s {common}", f"rping -c {common}",
                    "cm", timeout)


def perftest(tool, server, client, options="", family=4, timeout=90):
    """One of perftest's ib_{write,read,send}_{bw,lat} programs."""
    common = f"-F {options}"
    return run_pair(
        server, client,
        f"{tool} -d {server.ibdev} -x {server.gid_index(family)} {common}",
        f"{tool} -d {client.ibdev} -x {client.gid_index(family)} {common} "
        f"{server.ip4}", 18515, timeout)


def perftest_numbers(output):
    """The columns of perftest's last result line, as floats."""
    rows = re.findall(r"^ *(\d+ +\d[\d .\t]*)$", output, re.M)
    return [float(column) for column in rows[-1].split()] if rows else []


def line_of_text(server, client, text, family=4):
    """The program that writes a line into the server's memory."""
    address = server.ip4 if family == 4 else server.ip6
    return run_pair(server, client, "rdma_line -s",
                    f"rdma_line {address} '{text}'", 18600)
