# SPDX-License-Identifier: GPL-2.0-or-later
"""Verbs that behave differently only over time, under load or when the device
is lost."""

import re

import pytest

from fakernic_lab import faults
from fakernic_test import rdma
from fakernic_test.recovery import BIND, SLOT

pytestmark = pytest.mark.guests(count=1)


def test_clocks(ports):
    """Time stamps of completions agree with the mapped clock page and the PTP
    clock."""
    (port,) = ports
    clock = port.guest.check(
        f"ethtool -T {port.netdev} | sed -n 's/.*Clock: //p'").strip()
    assert clock.isdigit(), clock
    rdma.judged(port, f"rdma_clock /dev/ptp{clock}", 8)


def test_moderated_and_resized_cqs(ports):
    rdma.judged(ports[0], "rdma_cqs", 9)


def test_bound_window_at_exit(ports):
    """A region is not destroyed before the window in it; both are at the exit
    of the program."""
    (port,) = ports
    before = rdma.resources(port)
    port.guest.check("dmesg -C; rdma_exit_with_mw bind", 60)
    rdma.wait_for_resources(port, before)
    assert "device is" not in port.guest.check("dmesg")


def test_repost_after_errors(ports):
    """After a failed SRQ receive another one can be posted, and after a
    flushed bind the window can be bound."""
    rdma.judged(ports[0], "rdma_repost", 4)


@pytest.mark.parametrize("how", ("", "init"), ids=("fork", "ibv_fork_init"))
def test_forked_children(ports, how):
    rdma.judged(ports[0], f"rdma_forks {how}", 2)


@pytest.mark.parametrize("kind", ("rc", "srq", "ud"))
def test_duplicate_completions_are_dropped(ports, kind):
    """If the device completes a request twice, a program sees one completion
    and right data."""
    (port,) = ports
    with faults.armed(port.vm, "at=cqe every=3 times=0 do=duplicate") as twice:
        rdma.pingpong(kind, port, port, "-n 1000" + " -c" * (kind != "ud")).check()
        assert twice.hits()[0] > 300


def test_driver_unbind(ports, lab):
    """After an unbind doorbells, clock and device memory are unmapped from
    programs, and verbs fail with EIO."""
    (port,) = ports
    result = port.guest.run(f"rdma_unbind {SLOT}", 60)
    port.guest.check(BIND)
    lab.ports = [rdma.bring_up(port.vm, 1)]
    assert result.ok, result
    assert len(re.findall(r"^ok ", result.out, re.M)) == 10, result
    rdma.pingpong("rc", *lab.ports, *lab.ports, "-n 50").check()
