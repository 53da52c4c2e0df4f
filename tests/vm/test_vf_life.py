# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual functions when their card is reset, suspended or unplugged."""

import time

import pytest

from fakernic_test import rdma, recovery      # first: it sets the path of fakernic_lab
from fakernic_test.traffic import Detached
from fakernic_lab import faults
from fakernic_lab.rdma import ADDRESSES
from test_hotplug import WAIT, devices
from test_vfs import red_and_blue, write_passes

VFS = 4
pytestmark = pytest.mark.guests(count=1, vfs=VFS, append="hotplug")

# Enables the VFs, and prints "IBDEV NETDEV" of each.
ENABLE = """
cd /sys/class/net/{netdev}/device
echo {count} >sriov_numvfs || exit 1
for vf in virtfn*; do
    for try in $(seq 300); do
        [ "$(ls $vf/infiniband 2>/dev/null)" ] && [ "$(ls $vf/net 2>/dev/null)" ] && break
        sleep 0.1
    done
    echo $(ls $vf/infiniband) $(ls $vf/net)
done
"""
# Waits until the RDMA port is active.
ACTIVE = """
for try in $(seq 300); do
    grep -qs ACTIVE /sys/class/infiniband/{dev}/ports/1/state && exit 0
    sleep 0.1
done
exit 1
"""


def enabled(port):
    """Returns a Port of each VF, with addresses of its own."""
    lines = port.guest.check(ENABLE.format(netdev=port.netdev, count=VFS), 100)
    ports = [rdma.Port(port.vm, 50 + number, *line.split())
             for number, line in enumerate(lines.splitlines())]
    assert len(ports) == VFS
    for vf in ports:
        port.guest.check(
            ADDRESSES.format(netdev=vf.netdev, ip4=vf.ip4, ip6=vf.ip6) +
            rdma.WAIT_GIDS.format(dev=vf.ibdev, count=3), 60)
    return ports


def works(vf):
    """The RDMA device of a function works, if need be after a recovery."""
    vf.guest.check(ACTIVE.format(dev=vf.ibdev), 60)
    vf.guest.check(rdma.WAIT_GIDS.format(dev=vf.ibdev, count=3), 60)
    vf.indexes.clear()
    rdma.pingpong("rc", vf, vf, "-n 50").check()


@pytest.fixture(name="vfs")
def enabled_vfs(ports):
    yield enabled(ports[0])
    ports[0].guest.check(
        f"echo 0 >/sys/class/net/{ports[0].netdev}/device/sriov_numvfs", 60)


def start_pingpong(vf, count=1000):
    """Starts RDMA of a VF with itself."""
    common = (f"ibv_rc_pingpong -d {vf.ibdev} -g {vf.gid_index()} -p 18600 "
              f"-n {count}")
    return vf.guest.start(f"""
        {common} & server=$!
        until ss -Hltn 'sport = :18600' | grep -q .; do sleep 0.05; done
        {common} 127.0.0.1 && wait $server
        """, 100)


def test_vfs_of_a_machine_alone(ports, vfs):
    """VFs in network namespaces do RDMA with each other, although no other machine is at
    the wire that takes their broadcasts."""
    port = ports[0]
    for vf in vfs[:2]:
        port.guest.check(f"ip addr flush dev {vf.netdev}")
    try:
        write_passes(*red_and_blue(port, [(vf.ibdev, vf.netdev) for vf in vfs]))
    finally:
        port.guest.check("ip -all netns delete; "
                         "until rdma system set netns shared; do sleep 0.1; done", 60)


def test_reset_of_a_vf(vfs):
    """The reset of a VF does not disturb RDMA of another one, and the VF works again."""
    job = start_pingpong(vfs[1])
    vfs[0].guest.check(f"echo 1 >/sys/class/net/{vfs[0].netdev}/device/reset", 60)
    works(vfs[0])
    job.wait().check()
    works(vfs[1])


def test_recovery_of_the_pf(ports, vfs):
    """A recovery of the PF does not disturb RDMA of a VF, and keeps the settings."""
    port = ports[0]
    port.guest.check(f"dmesg -C; ip link set {port.netdev} vf 2 trust on")
    job = start_pingpong(vfs[1])
    faults.set_fault(port.vm, "at=device do=fatal")
    recovery.is_recovered(port.guest, 60)
    job.wait().check()
    shown = port.guest.check(f"ip link show {port.netdev}")
    assert "trust on" in shown, shown
    for each in (port, vfs[1], vfs[2]):
        works(each)


def test_vfs_are_disabled_under_rdma(ports, vfs):
    """sriov_numvfs 0 ends the RDMA of all VFs. When they are enabled again, each works."""
    port = ports[0]
    job = start_pingpong(vfs[0], 10000000)
    port.guest.check(f"until rdma resource show qp link {vfs[0].ibdev} | "
                     "grep -q 'RC state RTS'; do sleep 0.05; done")
    port.guest.check(
        f"echo 0 >/sys/class/net/{port.netdev}/device/sriov_numvfs", 60)
    port.guest.check("pkill -x ibv_rc_pingpong || true")
    job.wait()
    for vf in enabled(port):
        works(vf)


def test_reset_of_the_pf(ports, vfs):
    """The reset of the PF takes its VFs away. Linux enables them again, and each
    recovers."""
    port = ports[0]
    port.vm.expect_repair()     # no driver is notified of its VF's end
    port.guest.check("dmesg -C")
    port.guest.check(f"echo 1 >/sys/class/net/{port.netdev}/device/reset", 60)
    recovery.until(port.guest, f"[ $(dmesg | grep -c '{recovery.RECOVERED}') -ge {VFS} ]",
                   60)
    assert port.guest.check(
        f"cat /sys/class/net/{port.netdev}/device/sriov_numvfs").strip() == str(VFS)
    for vf in vfs:
        works(vf)
    works(port)


def test_vfs_sleep(ports, vfs):
    """VFs and PF work again after a suspend."""
    recovery.sleep(ports[0])
    for port in (*vfs, ports[0]):
        works(port)


def test_card_moves_with_its_vfs(ports, vfs):
    """The machine migrates with four VFs, one of which does RDMA. All functions continue."""
    common = (f"ibv_rc_pingpong -d {vfs[1].ibdev} -g {vfs[1].gid_index()} -p 18600 "
              "-n 1000000")
    job = Detached(vfs[1].guest, f"""
        {common} & server=$!
        until ss -Hltn 'sport = :18600' | grep -q .; do sleep 0.05; done
        {common} 127.0.0.1 && wait $server
        """, 300)
    vfs[1].guest.check("until pgrep -fx '.* 127.0.0.1'; do sleep 0.1; done", 60)
    for _ in range(2):
        ports[0].vm.move()
        before = vfs[1].counters()["rx_roce"]
        deadline = time.monotonic() + 60
        while vfs[1].counters()["rx_roce"] < before + 20:
            assert time.monotonic() < deadline, "no packet passes"
            time.sleep(0.1)
        assert job.poll() is None, job.poll()
    vfs[1].guest.check("pkill -x ibv_rc_pingpong")
    job.wait()
    for port in (*vfs, ports[0]):
        works(port)


def test_card_is_replaced_with_its_vfs(ports, lab):
    """A card with VFs at work is unplugged and plugged in again."""
    port = ports[0]
    vm = port.vm
    vfs = enabled(port)
    job = port.guest.start(
        f"exec ibv_rc_pingpong -d {vfs[0].ibdev} -g {vfs[0].gid_index()}", 60)
    port.guest.check("until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.05; done")
    vm.qmp("device_del", id="nic0")
    port.guest.check(WAIT.format("||"), 60)
    deadline = time.monotonic() + 60
    while "nic0" in devices(vm):
        assert time.monotonic() < deadline, "QEMU still has the device"
        time.sleep(0.1)
    port.guest.check("pkill -x ibv_rc_pingpong || true")
    job.wait()
    wire, _, path = vm.nics[0].wire(0).partition("=")
    vm.qmp("device_add", driver="fakernic", id="nic0", bus="slot1", vfs=VFS,
           **{wire: path})
    port.guest.check(WAIT.format("&&"), 60)
    lab.ports = [rdma.bring_up(vm, 1)]
    for vf in enabled(lab.ports[0]):
        works(vf)
    port.guest.check(
        f"echo 0 >/sys/class/net/{lab.ports[0].netdev}/device/sriov_numvfs", 60)
