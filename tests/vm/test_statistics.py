# SPDX-License-Identifier: GPL-2.0-or-later
"""What the device reports of itself and its objects: versions, counters of
port, device and queue pairs, details of `rdma resource`."""

import re

import pytest

from fakernic_test import rdma
from fakernic_test.recovery import reload

pytestmark = pytest.mark.guests(count=1)


def numbers(text):
    """Returns a map of "name value" pairs, as `rdma statistic` prints them."""
    return {name: int(value)
            for name, value in re.findall(r"\b([a-z_]+) (\d+)", text)}


def ethtool(port):
    text = port.guest.check(f"ethtool -S {port.netdev}")
    return {name: int(value)
            for name, value in re.findall(r"(\w+): (\d+)", text)}


def wait_for(port, condition):
    """Returns the output of a command once it matches."""
    command, words = condition
    return port.guest.check(
        f"for i in $(seq 100); do {command} >/tmp/seen; "
        f"grep -Eqz '{words}' /tmp/seen && break; sleep 0.1; done; "
        "cat /tmp/seen")


class Endless:
    """A pingpong of this guest with itself that runs until it is ended."""

    def __init__(self, port, kind="rc"):
        self.port = port
        self.kind = kind
        self.tool = (f"exec ibv_{kind}_pingpong -d {port.ibdev} "
                     f"-g {port.gid_index()} -n 100000000")
        self.jobs = [port.guest.start(self.tool, 100)]
        listens = rdma.LISTENS_TCP.format(port=18515)
        port.guest.check(f"until {listens}; do sleep 0.05; done")

    def connect(self):
        self.jobs.append(self.port.guest.start(f"{self.tool} localhost", 100))

    def end(self):
        self.port.guest.check(f"pkill -f '^ibv_{self.kind}_pingpong'; "
                              f"while pidof ibv_{self.kind}_pingpong; do "
                              "sleep 0.05; done")
        for job in self.jobs:
            job.wait()


def test_firmware_version(ports):
    (port,) = ports
    reported = [port.guest.check(command).strip() for command in (
        f"cat /sys/class/infiniband/{port.ibdev}/fw_ver",
        "ibv_devinfo | sed -n 's/.*fw_ver:[[:space:]]*//p'",
        f"ethtool -i {port.netdev} | sed -n 's/^firmware-version: //p'",
        "rdma dev show -d | grep -o 'fw [0-9.]*' | sed 's/fw //'")]
    assert re.fullmatch(r"\d+\.\d+\.\d+", reported[0]) and set(reported) == {reported[0]}


def test_counters_of_port_and_device(ports):
    """Counters of port and device together are those of ethtool -S, except the
    driver's own."""
    (port,) = ports
    rdma.pingpong("rc", port, port, "-n 100").check()
    listing = port.guest.check(
        f"ls /sys/class/infiniband/{port.ibdev}/hw_counters; echo; "
        f"ls /sys/class/infiniband/{port.ibdev}/ports/1/hw_counters")
    device, of_port = (set(part.split()) - {"lifespan"}
                       for part in listing.split("\n\n"))
    counters = ethtool(port)
    own = {"device_dead", "device_deaths", "device_recoveries",
           "lost_interrupts", "lost_events", "tx_csum", "tx_tso", "rx_csum"}
    own |= {name for name in counters if name.startswith("rx_queue_")}
    assert device | of_port == set(counters) - own and not device & of_port
    assert own < set(counters)
    shown = numbers(port.guest.check(
        f"rdma statistic show link {port.ibdev}/1"))
    assert shown["tx_roce"] == port.counters()["tx_roce"]
    assert shown["tx_roce"] == ethtool(port)["tx_roce"] >= 200


def management(port):
    """Returns the port's "counters", as InfiniBand's performance management
    defines them."""
    text = port.guest.check(
        f"cd /sys/class/infiniband/{port.ibdev}/ports/1/counters && grep . *")
    return {name: int(value)
            for name, value in re.findall(r"(\w+):(\d+)", text)}


def test_counters_as_monitoring_tools_read_them(ports):
    """The counters for monitoring tools count data and packets of RoCE only,
    and link failures."""
    (port,) = ports
    before = management(port)
    rdma.pingpong("rc", port, port, "-n 100 -s 4096").check()
    after = management(port)
    counters = ethtool(port)
    for mine, its in (("xmit", "tx"), ("rcv", "rx")):
        assert after[f"port_{mine}_packets"] == counters[f"{its}_roce"]
        assert (after[f"port_{mine}_data"] ==
                counters[f"{its}_roce_bytes"] // 4)
        assert (after[f"port_{mine}_data"] - before[f"port_{mine}_data"] >
                200 * 4096 // 4)
    assert after["port_xmit_discards"] == min(counters["tx_dropped"], 65535)
    assert after["link_downed"] == before["link_downed"]
    carrier = f"/sys/class/net/{port.netdev}/carrier"
    for up in (False, True):
        port.vm.set_link(up)
        port.guest.check(
            f"until [ $(cat {carrier}) = {int(up)} ]; do sleep 0.05; done")
    assert management(port)["link_downed"] == before["link_downed"] + 1


def test_performance_management_by_mad(ports):
    rdma.judged(ports[0], f"rdma_pma {ports[0].ibdev}", 6)


def test_two_threads_create_one_counter_set(ports, lab):
    """If two threads move a queue pair to INIT at once it gets one counter
    set, which is released with it. A reloaded driver starts without any."""
    (port,) = ports
    auto = f"rdma statistic qp set link {port.ibdev}/1 auto"
    port.guest.check(f"{auto} type on")
    try:
        port.guest.check("rdma_counter_race", 200)
    finally:
        port.guest.check(f"{auto} off")
    assert "cntn" not in port.guest.check("rdma statistic qp show")
    reload(port)
    lab.ports = [rdma.bring_up(port.vm, 1)]


def test_counters_of_queue_pairs_by_type(ports):
    (port,) = ports
    link = f"{port.ibdev}/1"
    port.guest.check(f"rdma statistic qp set link {link} auto type on")
    pair = Endless(port)
    try:
        pair.connect()
        text = wait_for(port, ("rdma statistic qp show",
                               "tx_roce [0-9]{4}.*LQPN: <[0-9]+,[0-9]+>"))
        assert "qp-type RC" in text, text
        counted = numbers(text)
        assert counted["tx_roce"] > 99 and counted["rx_roce"] > 99, text
        assert not any(value for name, value in counted.items()
                       if name.startswith("drop_")), text
    finally:
        pair.end()
        port.guest.check(f"rdma statistic qp set link {link} auto off")
    assert "cntn" not in port.guest.check("rdma statistic qp show")
    # The port's sum keeps what the set has counted.
    shown = numbers(port.guest.check(f"rdma statistic show link {link}"))
    assert shown["tx_roce"] == ethtool(port)["tx_roce"] >= counted["tx_roce"]


def test_counter_bound_to_one_queue_pair(ports):
    """A counter that is bound to a queue pair by hand counts from then on, and
    the port counts as before."""
    (port,) = ports
    link = f"{port.ibdev}/1"
    pair = Endless(port)
    try:
        (qpn,) = re.findall(r"lqpn (\d+) .*type RC",
                            port.guest.check("rdma resource show qp"))
        port.guest.check(f"rdma statistic qp bind link {link} lqpn {qpn}")
        text = port.guest.check("rdma statistic qp show")
        (counter,) = re.findall(r"cntn (\d+)", text)
        assert f"LQPN: <{qpn}>" in text and numbers(text)["tx_roce"] == 0, text
        pair.connect()
        text = wait_for(port, ("rdma statistic qp show", "tx_roce [0-9]{3}"))
        assert numbers(text)["tx_roce"] > 99, text
        port.guest.check(f"rdma statistic qp unbind link {link} "
                         f"cntn {counter} lqpn {qpn}")
        assert "cntn" not in port.guest.check("rdma statistic qp show")
    finally:
        pair.end()
    assert (numbers(port.guest.check(f"rdma statistic show link {link}"))
            ["tx_roce"] == ethtool(port)["tx_roce"])


def test_resources_in_detail(ports):
    """rdma -dd shows QPs, CQs, regions and SRQs as the device knows them."""
    (port,) = ports
    pair = Endless(port, "srq")
    try:
        pair.connect()
        show = "rdma -dd resource show {} | grep -A1 ibv_srq_pingpon"
        qps = wait_for(port, (show.format("qp"), "state RTS"))
        cqs = port.guest.check(show.format("cq"))
        mrs = port.guest.check(show.format("mr"))
        srqs = port.guest.check(show.format("srq"))
    finally:
        pair.end()
    assert re.search(r"drv_max_send_wr \d+ drv_max_recv_wr \d+ "
                     r"drv_max_inline \d+", qps), qps
    assert re.search(r"drv_cqn 0x\w+ drv_vector 1 drv_moderation_count 0 "
                     r"drv_moderation_us 0", cqs), cqs
    assert re.search(r"drv_type memory drv_access 0x1 drv_iova 0x\w+", mrs), mrs
    assert re.search(r"type BASIC .*\n *drv_srqn 0x\w+ drv_max_sge 1",
                     srqs), srqs
