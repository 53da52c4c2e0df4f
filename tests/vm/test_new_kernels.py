# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels of Debian 13's backports, each against Debian 13's own kernel."""

import pytest

from fakernic_lab.versions import MAIN_KERNEL, listed
from fakernic_test import rdma

KERNELS = {**dict.fromkeys(listed("kernel", "new"), ()),
           **dict.fromkeys(listed("kernel", "long"), (pytest.mark.long,))}


def on(kernel):
    """Returns the mark of a test whose first guest has this kernel."""
    return pytest.param(kernel, id=kernel, marks=(pytest.mark.guests(
        kernel=(kernel, MAIN_KERNEL)), *KERNELS[kernel]))


NEW = pytest.mark.parametrize("kernel", [on(kernel) for kernel in KERNELS])


@NEW
def test_kernel_and_autoload(ports, kernel):
    """The driver is loaded by its alias and reports its version."""
    guest = ports[0].guest
    assert guest.check("uname -r").startswith(f"{kernel}.")
    assert "vermagic" in guest.check("modinfo fakernic")
    assert ports[0].ibdev in guest.check("rdma link")


@NEW
@pytest.mark.parametrize("options", ("-c", "-e"), ids=("polling", "events"))
def test_rc_pingpong(ports, kernel, options):
    rdma.pingpong("rc", *ports, options).check()


@NEW
def test_ud_pingpong(ports, kernel):
    rdma.pingpong("ud", *ports).check()


@NEW
def test_rping_both_ways(ports, kernel):
    a, b = ports
    rdma.rping(a, b, family=6).check()
    rdma.rping(b, a, family=4).check()


@NEW
@pytest.mark.parametrize("tool", ("ib_write_bw", "ib_read_lat"))
def test_perftest(ports, kernel, tool):
    rdma.perftest(tool, *ports, "-n 200").check()


@NEW
def test_bad_requests(ports, kernel):
    result = ports[0].guest.run("rdma_bad_requests", 200)
    assert result.ok, result


@NEW
def test_pages_on_demand(ports, kernel):
    """On-demand paging works. It differs most in these kernels: the core finds
    pages and the driver maps them."""
    result = ports[0].guest.run("rdma_odp", 200)
    assert result.ok, result


@NEW
def test_port_events_come_once(ports, kernel):
    """Programs get each port event once, although these kernels also report
    the state of the port themselves."""
    port = ports[0]
    job = port.guest.start(
        f"exec ibv_asyncwatch -d {port.ibdev} >/tmp/events 2>&1", 100)
    wait = "for i in $(seq 100); do {} && exit; sleep 0.1; done; exit 1"
    port.guest.check(wait.format("[ -s /tmp/events ]"))
    try:
        for up, event in ((False, "PORT_ERR"), (True, "PORT_ACTIVE")):
            port.vm.set_link(up)
            port.guest.check(wait.format(
                f"grep -q IBV_EVENT_{event} /tmp/events"))
    finally:
        port.vm.set_link(True)
    text = port.guest.check(f"sleep 1; kill {job.pid}; cat /tmp/events")
    job.wait()
    assert text.count("IBV_EVENT_PORT_ERR") == 1, text
    assert text.count("IBV_EVENT_PORT_ACTIVE") == 1, text


@NEW
def test_reloads(ports, kernel, lab):
    a, b = ports
    a.guest.check("set -e; for i in $(seq 3); do modprobe -r fakernic; "
                  "modprobe fakernic; done", 120)
    lab.ports[0] = rdma.bring_up(a.vm, 1)
    rdma.pingpong("rc", lab.ports[0], b, "-n 100").check()
