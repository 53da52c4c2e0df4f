# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest sees of the device before it uses it."""

import re

import pytest


@pytest.fixture
def slot(ports):
    """The PCI address of the device in the first guest."""
    return ports[0].guest.check(
        "cd /sys/bus/pci/drivers/fakernic && ls -d 0*").strip()


def test_lspci_shows_express_endpoint(ports, slot):
    text = ports[0].guest.check(f"lspci -vvnn -s {slot}")
    for wanted in (r"Ethernet controller \[0200\]", r"\[1af4:10f[0-9a-f]\]",
                   r"Express \(v\d\) Endpoint", r"FLReset\+",
                   r"MSI-X: Enable\+ Count=33", "Region 0: Memory",
                   "Region 2: Memory", "Region 4: Memory",
                   "Advanced Error Reporting", "Device Serial Number",
                   "Kernel driver in use: fakernic"):
        assert re.search(wanted, text), f"no '{wanted}' in\n{text}"


def test_dmesg_reports_probe(ports, slot):
    assert re.search(rf"fakernic {slot}: ", ports[0].guest.check("dmesg"))


def test_device_nodes(ports):
    nodes = ports[0].guest.check("ls /dev/infiniband").split()
    assert {"uverbs0", "rdma_cm"} <= set(nodes)


def test_ibv_devices_lists_it(ports):
    assert ports[0].ibdev in ports[0].guest.check("ibv_devices")


def test_ibv_devinfo_shows_an_active_port(ports):
    text = ports[0].guest.check("ibv_devinfo -v")
    assert "PORT_ACTIVE" in text
    assert re.search(r"link_layer:\s+Ethernet", text)


def test_rdma_link_names_the_netdev(ports):
    port = ports[0]
    text = port.guest.check("rdma link")
    assert re.search(rf"link {port.ibdev}/1 state ACTIVE .*netdev {port.netdev}",
                     text)


def test_rdma_dev(ports):
    assert ports[0].ibdev in ports[0].guest.check("rdma dev")


def test_gid_table_has_rocev2_entries(ports):
    port = ports[0]
    kinds = {kind for _, _, kind in port.gids()}
    assert kinds == {"RoCE v2"}
    assert port.gid_index(4) != port.gid_index(6)


def test_ethtool_knows_the_driver(ports):
    assert "driver: fakernic" in ports[0].guest.check(
        f"ethtool -i {ports[0].netdev}")
