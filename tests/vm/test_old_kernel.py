# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian 12's kernel, on both sides and against Debian 13's kernel."""

import pytest

from fakernic_lab.versions import MAIN_KERNEL, OLD_KERNEL
from fakernic_test import rdma, tstamp

OLD = pytest.mark.guests(kernel=OLD_KERNEL)
MIXED = pytest.mark.guests(kernel=(OLD_KERNEL, MAIN_KERNEL))


@MIXED
def test_kernel_versions(ports):
    versions = [port.guest.check("uname -r") for port in ports]
    assert versions[0].startswith(f"{OLD_KERNEL}.") and versions[1].startswith(
        f"{MAIN_KERNEL}.")


@MIXED
@pytest.mark.parametrize("options", ("-c", "-e"), ids=("polling", "events"))
def test_rc_pingpong_between_kernels(ports, options):
    rdma.pingpong("rc", *ports, options).check()


@MIXED
def test_ud_pingpong_between_kernels(ports):
    rdma.pingpong("ud", *ports).check()


@MIXED
def test_rping_both_ways(ports):
    a, b = ports
    rdma.rping(a, b, family=6).check()
    rdma.rping(b, a, family=4).check()


@MIXED
@pytest.mark.parametrize("tool", ("ib_write_bw", "ib_read_lat", "ib_send_bw"))
def test_perftest_between_kernels(ports, tool):
    rdma.perftest(tool, *ports, "-n 200").check()


@MIXED
def test_line_of_text_between_kernels(ports):
    rdma.line_of_text(*ports, "from new to old").check()


@MIXED
def test_frames_have_time_stamps(ports):
    """Frames have time stamps also on old kernels, which configure them by another call."""
    tstamp.check(*reversed(ports))


@MIXED
def test_bad_requests_on_the_old_kernel(ports):
    result = ports[0].guest.run("rdma_bad_requests", 200)
    assert result.ok, result


@MIXED
def test_reloads_on_the_old_kernel(ports, lab):
    a, b = ports
    a.guest.check("set -e; for i in $(seq 5); do modprobe -r fakernic; "
                  "modprobe fakernic; done", 120)
    lab.ports[0] = rdma.bring_up(a.vm, 1)
    rdma.pingpong("rc", lab.ports[0], b, "-n 100").check()
