# SPDX-License-Identifier: GPL-2.0-or-later
"""The CNI plug-ins sriov and rdma on fakernic and on QEMU's igb."""

import pytest

from fakernic_test import rdma      # noqa: F401  first: it sets the path of fakernic_lab
from fakernic_lab import images
from fakernic_test.cards import root_port
from fakernic_test.lab import RUNS, mount

IMAGE = images.images() / "cni.erofs"
FOLDER = "/opt/cni"
RUNNER = "python3 /usr/share/fakernic/cni_runner.py"
VFS = 4
IGB_VFS = 7
# Rounds of each option, and of each of four VFs at the same time.
OPTION_ROUNDS, LOAD_ROUNDS = 10, 25
# What is known to work with igb, so that a broken runner shows.
IGB_CAN = {"plain", "mac", "vlan 100, QoS 2", "spoofchk off", "trust on"}
pytestmark = [pytest.mark.long, pytest.mark.timeout(7200), pytest.mark.guests(
    count=1, vfs=VFS, options={"memory": 1024, "extra": (
        *(images.disk(IMAGE) if IMAGE.exists() else ()), *root_port(2),
        "-netdev", "hubport,hubid=2,id=n2",
        "-device", "igb,id=igb0,bus=slot2,netdev=n2,mac=52:54:00:00:02:01,romfile=")})]

# Enables the VFs of an interface, waits for their interfaces, and turns it on.
ENABLE = """
set -e
ip link set {netdev} up
echo {count} >/sys/class/net/{netdev}/device/sriov_numvfs
for vf in /sys/class/net/{netdev}/device/virtfn*; do
    for try in $(seq 300); do
        ls $vf/net 2>/dev/null | grep -q . && break
        sleep 0.1
    done
    ls $vf/net
done
"""
IGB = f"""
modprobe -q ptp || true
for module in {FOLDER}/*.ko; do insmod $module; done
for try in $(seq 100); do
    ls /sys/bus/pci/drivers/igb/*/net 2>/dev/null && exit
    sleep 0.1
done
exit 1
"""


@pytest.fixture(name="port")
def port_with_plugins(ports):
    assert IMAGE.exists(), f"no {IMAGE.name}: make test-cni BIN=FOLDER"
    (port,) = ports
    mount(port.guest, IMAGE, FOLDER)
    port.guest.check(f"""
        rdma system set netns exclusive
        [ $(cat /sys/class/net/{port.netdev}/device/sriov_numvfs) != 0 ] || {{
            {ENABLE.format(netdev=port.netdev, count=VFS)} }}
        """, 100)
    return port


def outcomes(port, netdev):
    """Returns a map of each option of sriov to "ok" or its error, for a card."""
    said = port.guest.check(f"{RUNNER} {FOLDER} {netdev} options {OPTION_ROUNDS}", 3000)
    return dict(line.split("\t", 1) for line in said.splitlines())


def table(ours, others):
    lines = [f"{'option of sriov':32} {'fakernic':10} igb"]
    lines += [f"{name:32} {ours[name]:10} {others[name]}" for name in ours]
    return "\n".join(lines) + "\n"


def test_options_of_sriov(port):
    """Each option of sriov works ten times, and DEL undoes it. The same calls run on
    QEMU's igb. The table is written to cni.txt."""
    found = port.guest.check(IGB, 60).split()
    port.guest.check(ENABLE.format(netdev=found[-1], count=IGB_VFS), 100)
    ours, others = outcomes(port, port.netdev), outcomes(port, found[-1])
    text = table(ours, others)
    (RUNS / "cni.txt").write_text(text, encoding="utf-8")
    print(text)
    assert set(ours.values()) == {"ok"}, text
    assert IGB_CAN <= {name for name, result in others.items() if result == "ok"}, text


def test_concurrent_containers(port):
    """Four containers get and lose a VF and its RDMA device, by sriov and rdma, at the
    same time and a hundred times in all."""
    said = port.guest.check(
        f"{RUNNER} {FOLDER} {port.netdev} load {LOAD_ROUNDS}", 3600)
    assert said.split("\n", 1) == [str(VFS * LOAD_ROUNDS), ""], said
