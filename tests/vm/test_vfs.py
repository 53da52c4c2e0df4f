# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual functions with RDMA, in network namespaces and with another machine."""

import json
import re
import time

import pytest

from fakernic_test import rdma, recovery    # first: it sets the path of fakernic_lab
from fakernic_lab import faults
from fakernic_lab.rdma import GID, GIDS, gid_of
from test_platforms import CHECKS, GIVE_BACK, TAKE

VFS = 8
IOMMU = ("-device", "intel-iommu,intremap=off")
pytestmark = pytest.mark.guests(count=2, vfs=VFS, append="intel_iommu=on",
                                options={"extra": IOMMU})

# Enables {count} VFs, waits for their RDMA devices, and prints "IBDEV NETDEV" of each.
ENABLE = """
cd /sys/class/net/{netdev}/device
[ $(cat sriov_totalvfs) = {total} ] && echo {count} >sriov_numvfs || exit 1
for vf in $(seq 0 $(({count} - 1))); do
    for try in $(seq 300); do
        ls virtfn$vf/infiniband virtfn$vf/net 2>/dev/null | wc -l | grep -q 5 && break
        sleep 0.1
    done
    echo $(ls virtfn$vf/infiniband) $(ls virtfn$vf/net)
done
"""
INSIDE = "ip netns exec {}"


class Inside:
    """A VF that belongs to a network namespace of its guest. It has the addresses
    of the machine NUMBER."""

    def __init__(self, port, names, space, number):
        self.vm, self.guest, self.space = port.vm, port.guest, space
        self.ibdev, self.netdev = names
        self.ip4 = rdma.NETWORK4 + f".{number}"
        self.inside = INSIDE.format(space)
        self.guest.check(f"""
            set -e
            ip netns add {space}
            ip link set {self.netdev} netns {space}
            rdma dev set {self.ibdev} netns {space}
            {self.inside} ip link set lo up
            {self.inside} ip link set {self.netdev} up
            {self.inside} ip addr add {self.ip4}/24 dev {self.netdev}
            """, 60)
        self.guest.write("/tmp/wait_gids", rdma.WAIT_GIDS.format(
            dev=self.ibdev, count=2))
        self.guest.check(f"{self.inside} bash /tmp/wait_gids", 60)

    def gid_index(self):
        """The index of the RoCEv2 GID of the address."""
        self.guest.write("/tmp/gids", GIDS.format(dev=self.ibdev))
        wanted = gid_of(f"::ffff:{self.ip4}")
        return next(int(index) for index, gid, kind in GID.findall(
            self.guest.check(f"{self.inside} bash /tmp/gids", 60))
            if gid == wanted and "v2" in kind)


class Outside:
    """A port of the initial namespace, as above."""

    inside = ""

    def __init__(self, port):
        self.vm, self.guest = port.vm, port.guest
        self.ibdev, self.ip4 = port.ibdev, port.ip4
        self.gid_index = port.gid_index


def red_and_blue(port, vfs, first=0, second=1):
    """Moves two VFs into network namespaces of their own."""
    port.guest.check("rdma system set netns exclusive")
    return (Inside(port, vfs[first], "red", 101),
            Inside(port, vfs[second], "blue", 102))


@pytest.fixture(name="vfs")
def enabled_vfs(ports):
    """[(RDMA device, interface)] of the VFs of the first guest."""
    port = ports[0]
    lines = port.guest.check(ENABLE.format(
        netdev=port.netdev, total=VFS, count=VFS), 100).splitlines()
    yield [line.split() for line in lines]
    port.guest.check(f"""
        ip -all netns delete
        until rdma system set netns shared; do sleep 0.1; done
        echo 0 >/sys/class/net/{port.netdev}/device/sriov_numvfs
        """, 100)


def write_passes(server, client):
    """ib_write_bw and ib_send_lat from the client to the server."""
    for tool, options in (("ib_write_bw", "-n 50"), ("ib_send_lat", "-n 50")):
        common = f"-F {options}"
        rdma.run_pair(
            server, client,
            f"{server.inside} {tool} -d {server.ibdev} -x {server.gid_index()} "
            f"{common}",
            f"{client.inside} {tool} -d {client.ibdev} -x {client.gid_index()} "
            f"{common} {server.ip4}",
            f"{server.inside} ss -Hltn 'sport = :18515' | grep -q .").check()


def rping_passes(server, client):
    common = f"-C 5 -S 64 -V -v -a {server.ip4}"
    rdma.run_pair(server, client, f"{server.inside} rping -s {common}",
                  f"{client.inside} rping -c {common}",
                  f"{server.inside} {rdma.LISTENS_CM}").check()


def test_each_vf_has_an_rdma_device(ports, vfs):
    """sriov_numvfs makes RDMA devices, each in an IOMMU group of its own."""
    port = ports[0]
    assert len(vfs) == VFS and len({tuple(names) for names in vfs}) == VFS, vfs
    assert all(len(names) == 2 for names in vfs), vfs
    folder = f"/sys/class/net/{port.netdev}/device"
    groups = port.guest.check(
        f"readlink {folder}/virtfn*/iommu_group {folder}/iommu_group").split()
    assert len(set(groups)) == VFS + 1, groups
    macs = port.guest.check(
        f"cat {folder}/virtfn*/net/*/address {folder}/net/*/address").split()
    assert len(set(macs)) == VFS + 1, macs


def test_vfs_do_rdma_in_network_namespaces(ports, vfs):
    """In exclusive mode two namespaces have a VF each. RDMA passes between them,
    and between them and another machine."""
    port, other = ports
    red, blue = red_and_blue(port, vfs)
    shown = port.guest.check(f"{red.inside} ibv_devices")
    assert len(shown.splitlines()) == 3 and red.ibdev in shown, shown
    counters = port.guest.check(
        f"{red.inside} ls /sys/class/infiniband/{red.ibdev}/ports/1/hw_counters")
    assert counters
    for server, client in ((blue, red), (red, blue), (Outside(other), red),
                           (blue, Outside(other))):
        write_passes(server, client)
        rping_passes(server, client)


# What is set, its members in the output of "ip -j link", and how it is undone.
SETTINGS = (
    ("mac 52:54:00:aa:bb:cc", {"address": "52:54:00:aa:bb:cc"}, "mac 00:00:00:00:00:00"),
    ("vlan 100 qos 2", {"vlan_list": [{"vlan": 100, "qos": 2}]}, "vlan 0"),
    ("vlan 100 proto 802.1ad", {"vlan_list": [{"vlan": 100, "protocol": "802.1ad"}]},
     "vlan 0"),
    ("spoofchk off", {"spoofchk": False}, "spoofchk on"),
    ("trust on", {"trust": True}, "trust off"),
    ("state enable", {"link_state": "enable"}, "state auto"),
    ("state disable", {"link_state": "disable"}, "state auto"),
    ("min_tx_rate 40 max_tx_rate 100", {"rate": {"max_tx": 100, "min_tx": 40}},
     "min_tx_rate 0 max_tx_rate 0"),
    ("query_rss on", {"query_rss_en": True}, "query_rss off"),
)


def vf_info(port, number):
    """What "ip -s link" shows of a VF."""
    shown = json.loads(port.guest.check(f"ip -s -j link show {port.netdev}"))
    return shown[0]["vfinfo_list"][number]


def test_settings_of_a_vf_are_shown_and_undone(ports, vfs):
    """ip link set vf shows each setting at once, and undoes it."""
    port = ports[0]
    assert vfs
    before = vf_info(port, 3)
    for words, members, undo in SETTINGS:
        port.guest.check(f"ip link set {port.netdev} vf 3 {words}")
        assert vf_info(port, 3).items() >= members.items(), words
        port.guest.check(f"ip link set {port.netdev} vf 3 {undo}")
        after = vf_info(port, 3)
        assert {**after, "stats": {}} == {**before, "stats": {}}, undo
    for words in ("mac 01:00:00:00:00:01", "vlan 4095", "vlan 1 qos 8", "state 7",
                  "min_tx_rate 5 max_tx_rate 4"):
        port.guest.check(f"! ip link set {port.netdev} vf 3 {words}")


def test_settings_outlive_a_reload_of_the_driver(ports, vfs):
    """devlink dev reload resets the PF, and keeps its VFs' settings."""
    port = ports[0]
    assert vfs
    port.guest.check(f"ip link set {port.netdev} vf 2 vlan 7 trust on")
    before = {**vf_info(port, 2), "stats": {}}
    address = port.guest.check(
        f"basename $(readlink /sys/class/net/{port.netdev}/device)").strip()
    port.guest.check(f"devlink dev reload pci/{address}", 60)
    assert {**vf_info(port, 2), "stats": {}} == before


# Prints the longest time in us that "ip link" takes during a reload.
SLOWEST = """
devlink dev reload pci/{address} &
slowest=0
while kill -0 $! 2>/dev/null; do
    begin=${{EPOCHREALTIME/[.,]/}}
    ip -s link show {netdev} >/dev/null
    took=$((${{EPOCHREALTIME/[.,]/}} - begin))
    (( took <= slowest )) || slowest=$took
done
wait $! && echo $slowest
"""


def test_settings_are_shown_while_they_are_restored(ports, vfs):
    """ip link does not wait, with RTNL held, for the commands that restore settings."""
    port = ports[0]
    assert vfs
    address = port.guest.check(
        f"basename $(readlink /sys/class/net/{port.netdev}/device)").strip()
    with faults.armed(port.vm, "at=command cmd=SET_VPORT delay-ns=6000000000 do=delay"):
        slowest = int(port.guest.check(
            SLOWEST.format(address=address, netdev=port.netdev), 60))
    assert slowest < 3_000_000, slowest


def test_counters_of_a_vf_count_its_frames(ports, vfs):
    """Ten pings of a VF to another machine show in the PF's ip -s link."""
    port, other = ports
    name = vfs[1][1]
    port.guest.check(f"ip link set {name} up; "
                     f"ip addr add {rdma.NETWORK4}.112/24 dev {name}")
    before = vf_info(port, 1)["stats"]
    port.guest.check(f"ping -c 10 -i 0.1 -I {name} {other.ip4}", 60)
    time.sleep(0.2)             # the driver's counters are that old at most
    after = vf_info(port, 1)["stats"]
    for way, key in (("rx", "packets"), ("tx", "tx_packets")):
        assert after[way][key] >= before[way][key] + 10, (before, after)
    assert after["rx"]["bytes"] > before["rx"]["bytes"], (before, after)


def test_counters_between_vfs(ports, vfs):
    """The counters of two VFs of a card count ten pings between them, and the broadcast of
    ARP."""
    port = ports[0]
    red, blue = red_and_blue(port, vfs)
    time.sleep(0.2)             # the driver's counters are that old at most
    before = [vf_info(port, number)["stats"] for number in range(2)]
    port.guest.check(f"{red.inside} ping -c 10 -i 0.1 {blue.ip4}", 60)
    time.sleep(0.2)
    after = [vf_info(port, number)["stats"] for number in range(2)]
    for old, new in zip(before, after):
        for way, key in (("rx", "packets"), ("tx", "tx_packets")):
            assert new[way][key] >= old[way][key] + 10, (before, after)
    assert after[1]["rx"]["broadcast"] > before[1]["rx"]["broadcast"], (before, after)


SEND = """
import socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind((sys.argv[1], 0))
for frame in sys.argv[2:]:
    port.send(bytes.fromhex(frame))
"""
# Prints the name of each frame that SEND sent, up to the one named "good".
CAPTURE = """
import re, socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
port.bind((sys.argv[1], 0))
open("/tmp/captures", "w").close()
name = ""
while name != "good":
    found = re.search(rb"vf-frame:(\\w+);", port.recv(2048))
    if found:
        name = found[1].decode()
        print(name, flush=True)
"""
EXPERIMENTAL = "88b5"           # a type of frames for experiments


def frame_of(source, name, to="ff" * 6, tag=""):
    """A frame with a name, in hexadecimal."""
    text = f"vf-frame:{name};".encode().hex()
    return (to + source.replace(":", "") + tag + EXPERIMENTAL + text).ljust(120, "0")


def test_forbidden_frames_of_a_vf(ports, vfs):
    """A VF cannot send a frame with another VF's address, to a reserved group, or with
    its own tag in a port VLAN. All count as dropped."""
    port, other = ports
    netdev = vfs[0][1]
    mac, foreign = (port.guest.check(f"cat /sys/class/net/{name}/address").strip()
                    for _, name in vfs[:2])
    port.guest.write("/tmp/send", SEND)
    port.guest.check(f"ip link set {netdev} up")
    recovery.until(port.guest, f"[ $(cat /sys/class/net/{netdev}/carrier) = 1 ]")
    other.guest.write("/tmp/capture", CAPTURE)
    other.guest.check(f"rm -f /tmp/captures; ip link set {other.netdev} promisc on")
    capture = other.guest.start(f"python3 /tmp/capture {other.netdev}", 100)
    recovery.until(other.guest, "[ -e /tmp/captures ]")
    before = vf_info(port, 0)["stats"]["tx"]
    send = f"python3 /tmp/send {netdev}"
    port.guest.check(f"""
        set -e
        {send} {frame_of(foreign, "spoofed")}
        {send} {frame_of(mac, "reserved", to="0180c2000002")}
        ip link set {port.netdev} vf 0 vlan 100
        {send} {frame_of(mac, "tagged", tag="81000005")}
        ip link set {port.netdev} vf 0 vlan 0
        {send} {frame_of(mac, "good")}
        """, 60)
    assert capture.wait().check().out.split() == ["good"]
    other.guest.check(f"ip link set {other.netdev} promisc off")
    time.sleep(0.2)
    after = vf_info(port, 0)["stats"]["tx"]
    assert after["dropped"] >= before["dropped"] + 3, (before, after)


def test_link_states_of_vfs(ports, vfs):
    """Without the card's link, VFs whose state is enable do RDMA with each other. A
    VF whose state is auto has no link."""
    port = ports[0]
    ibdev, netdev = vfs[1]
    port.guest.check(f"""
        set -e
        ip link set {port.netdev} vf 0 state enable
        ip link set {port.netdev} vf 1 state auto
        ip link set {port.netdev} vf 2 state enable
        ip link set {netdev} up
        """)
    red, blue = red_and_blue(port, vfs, 0, 2)
    carrier = f"[ $(cat /sys/class/net/{netdev}/carrier) = %u ]"
    recovery.until(port.guest, carrier % 1)
    port.vm.qmp("set_link", name="nic0", up=False)
    try:
        recovery.until(port.guest, carrier % 0)
        state = port.guest.check(f"cat /sys/class/infiniband/{ibdev}/ports/1/state")
        assert "DOWN" in state, state
        write_passes(blue, red)
    finally:
        port.vm.qmp("set_link", name="nic0", up=True)
    recovery.until(port.guest, carrier % 1)


# Of the bytes on the wire some are headers, and timers of a busy host fire late.
LEAST_MBPS, MOST_MBPS = 50, 101


def test_rate_of_a_vf(ports, vfs):
    """max_tx_rate 100 limits the RDMA WRITEs of a VF to 100 Mbit/s."""
    port, other = ports
    port.guest.check(f"ip link set {port.netdev} vf 0 max_tx_rate 100")
    server, client = Outside(other), red_and_blue(port, vfs)[0]
    common = "-F -n 100 -s 65536 --report_gbits"
    pair = rdma.run_pair(
        server, client,
        f"ib_write_bw -d {server.ibdev} -x {server.gid_index()} {common}",
        f"{client.inside} ib_write_bw -d {client.ibdev} -x {client.gid_index()} "
        f"{common} {server.ip4}").check()
    mbps = 1000 * rdma.perftest_numbers(pair.client.out)[3]
    assert LEAST_MBPS <= mbps <= MOST_MBPS, pair


def test_vf_of_a_user_space_driver(ports, vfs):
    """A program drives a VF by VFIO and causes IOMMU faults. At the same time another VF
    writes to another machine without an error, and afterwards the PF works."""
    port, other = ports
    guest = port.guest
    writer = red_and_blue(port, vfs)[0]
    slot = guest.check(f"basename $(readlink /sys/class/net/{vfs[3][1]}/device)").strip()
    names = {"slot": slot, "path": f"/sys/bus/pci/devices/{slot}"}
    # This machine's IOMMU does not remap interrupts.
    guest.check("dmesg -C; modprobe vfio_iommu_type1 allow_unsafe_interrupts=1")
    group = guest.check(TAKE.format(**names), 60).split()[-1]
    server = other.guest.start(f"ib_write_bw -d {other.ibdev} -x {other.gid_index()} "
                               "-F -D 5 -s 4096", 60)
    other.guest.check(
        "until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.05; done")
    client = guest.start(f"{writer.inside} ib_write_bw -d {writer.ibdev} "
                         f"-x {writer.gid_index()} -F -D 5 -s 4096 {other.ip4}", 60)
    result = guest.run(f"vfio_driver {slot} {group}", 60)
    for job in (client, server):
        job.wait().check()
    passed = len(re.findall(r"^ok ", result.out, re.M))
    assert result.ok and passed == CHECKS, result
    faulty = set(re.findall(r"\[([0-9a-f:.]+)\] fault addr", guest.check("dmesg")))
    assert faulty == {slot[5:]}, faulty
    rdma.perftest("ib_write_bw", other, port, "-n 50").check()
    guest.check(GIVE_BACK.format(**names), 60)
    recovery.until(guest, f"ls {names['path']}/infiniband | grep -q .", 60)


def test_vfs_come_and_go(ports, vfs):
    """sriov_numvfs 0 and 8 again, while a VF sends to another machine."""
    port, other = ports
    names = vfs[0]
    for _ in range(3):
        port.guest.check(f"ip link set {names[1]} up; "
                         f"ip addr add {rdma.NETWORK4}.111/24 dev {names[1]}")
        job = port.guest.start(f"ping -f -I {names[1]} {other.ip4}", 60)
        port.guest.check(
            f"echo 0 >/sys/class/net/{port.netdev}/device/sriov_numvfs", 60)
        job.wait()
        lines = port.guest.check(ENABLE.format(
            netdev=port.netdev, total=VFS, count=VFS), 100).splitlines()
        names = lines[0].split()
    rdma.pingpong("rc", other, port, "-n 50").check()
