# SPDX-License-Identifier: GPL-2.0-or-later
"""64 virtual functions of one card, all at work, and one of them frozen."""

import re

import pytest

from fakernic_test import rdma      # noqa: F401  first: it sets the path of fakernic_lab
from fakernic_lab import faults
from fakernic_test.memory import heap
from test_vfs import ENABLE

VFS = 64
FROZEN = 5
TURN = 2048                 # turn-work
STEP = 256                  # by which a turn may exceed it
GROWTH_KIB = 150 << 10      # of QEMU, without guest memory
NETWORK = "192.168.78"
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.guests(
    count=1, vfs=VFS, options={"memory": 2048})]

# Each VF gets a network namespace of its own. The file of VF n in /tmp has the names of
# its devices and the index of its GID.
SPACES = """
set -e
rdma system set netns exclusive
n=0
while read -r ibdev netdev; do
    ip netns add s$n
    ip link set $netdev netns s$n
    rdma dev set $ibdev netns s$n
    ip -n s$n link set lo up
    ip -n s$n link set $netdev up
    ip -n s$n addr add {network}.$((n + 1))/24 dev $netdev
    n=$((n + 1))
done </tmp/names
n=0
while read -r ibdev netdev; do
    ip netns exec s$n bash /tmp/find_gid $ibdev $(printf %02x $((n + 1))) >/tmp/vf$n \\
        </dev/null
    n=$((n + 1))
done </tmp/names
"""
# Prints "IBDEV INDEX" with the RoCEv2 GID of the IPv4 address that ends with a byte.
FIND_GID = """
cd /sys/class/infiniband/$1/ports/1
for try in $(seq 100); do
    for index in {0..31}; do
        read -r kind 2>/dev/null <gid_attrs/types/$index || continue
        read -r gid <gids/$index
        case $gid$kind in
        *:ffff:c0a8:4e$2*v2) echo $1 $index; exit 0;;
        esac
    done
    sleep 0.1
done
exit 1
"""
# Each VF writes to the next one. Prints the numbers of those that could.
RING = """
write() {{
    space=$1
    shift
    timeout {limit} ip netns exec s$space ib_write_bw -F -n 20 -s 16384 "$@" >/dev/null 2>&1
}}
server() {{
    read -r ibdev index </tmp/vf$1
    write $1 -d $ibdev -x $index
}}
listens() {{
    for try in $(seq 100); do
        ip netns exec s$1 ss -Hltn 'sport = :18515' | grep -q . && return
        sleep 0.3
    done
}}
client() {{
    read -r ibdev index </tmp/vf$1
    write $1 -d $ibdev -x $index {network}.$(($2 + 1)) && echo wrote $1
}}
for n in $(seq 0 {last}); do server $n & done
for n in $(seq 0 {last}); do listens $n; done
for n in $(seq 0 {last}); do client $n $(((n + 1) % {count})) & done
wait
"""


def ring(port, limit=500):
    """Returns the numbers of the VFs that have written to the next one."""
    said = port.guest.check(RING.format(limit=limit, last=VFS - 1, count=VFS,
                                        network=NETWORK), 2 * limit)
    return {int(number) for number in re.findall(r"^wrote (\d+)$", said, re.M)}


def longest(vm, path, name):
    return vm.qmp("qom-get", path=path, property=name)


def test_ring_of_64_vfs(ports):
    """64 VFs write to each other in a ring. When one is frozen, all pairs without it
    still do. No turn is longer than its limit. QEMU's memory grows by less than 150 MiB."""
    (port,) = ports
    guest, vm = port.guest, port.vm
    before = heap(vm)
    guest.write("/tmp/names", guest.check(ENABLE.format(
        netdev=port.netdev, total=VFS, count=VFS), 600))
    guest.write("/tmp/find_gid", FIND_GID)
    guest.check(SPACES.format(network=NETWORK), 600)
    assert ring(port) == set(range(VFS))
    vm.expect_repair()          # the driver finds that the frozen VF is dead
    faults.set_fault(vm, "at=device do=freeze", f"{faults.NIC}/vf[{FROZEN}]")
    assert ring(port) >= set(range(VFS)) - {FROZEN - 1, FROZEN}
    grown = heap(vm) - before
    print(f"QEMU's heap has grown by {grown} KiB")
    assert grown < GROWTH_KIB, grown
    for path in (faults.NIC, *(f"{faults.NIC}/vf[{n}]" for n in range(VFS))):
        assert longest(vm, path, "x-longest-turn") <= TURN + STEP, path
    guest.check(f"""
        ip -all netns delete
        until rdma system set netns shared; do sleep 0.1; done
        echo 0 >/sys/class/net/{port.netdev}/device/sriov_numvfs
        """, 300)
