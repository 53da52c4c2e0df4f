# SPDX-License-Identifier: GPL-2.0-or-later
"""On-demand paging: regions of memory that is not pinned.

rdma_odp takes pages away before and while the device uses them and compares
every byte; perftest's tools do their transfers with --odp between two guests.
"""

import re

import pytest

from fakernic_lab import faults
from fakernic_test import rdma

CASES = ("given_back", "stolen", "atomics", "forked", "unmapped_locally",
         "unmapped_remotely", "never_mapped", "implicit", "read_only",
         "scattered", "advice", "many", "registration", "charged")
IN_PACKAGED = ("given_back", "atomics")


def device_counters(port):
    """The device's own hardware counters."""
    text = port.guest.check(
        f"cd /sys/class/infiniband/{port.ibdev}/hw_counters && grep -H . *")
    return {name: int(value) for name, value in
            (line.split(":") for line in text.splitlines())}


def judge(result, names):
    assert result.ok, result
    assert re.findall(r"^ok \d+ - (\w+)", result.out, re.M) == list(names), \
        result


@pytest.mark.parametrize("case", [pytest.param(
    case, marks=pytest.mark.packaged if case in IN_PACKAGED else ())
    for case in CASES])
def test_unpinned_memory(ports, case):
    port = ports[0]
    before = rdma.resources(port)
    judge(port.guest.run(f"rdma_odp {case}", 100), [case])
    rdma.wait_for_resources(port, before)


IS_BUSY = 6             # a command's status


def judge_busy(port, command, case):
    """The device refuses the first three of that command."""
    before = rdma.resources(port)
    with faults.armed(port.vm, f"at=command cmd={command} times=3 "
                      f"do=fail status={IS_BUSY}") as rule:
        judge(port.guest.run(f"rdma_odp {case}", 100), [case])
        assert rule.hits() == [3]
    rdma.wait_for_resources(port, before)


def test_lost_page_request_is_announced_again(ports):
    """The device announces a request once; a driver that could not take it from
    the list asks again."""
    judge_busy(ports[0], "QUERY_PAGE_REQUESTS", "given_back")


def test_refused_page_answer_is_repeated(ports):
    """That there is no such page is said until the device has heard it: who waits
    for the page would do so for ever."""
    judge_busy(ports[0], "UPDATE_PAGES", "never_mapped")


@pytest.mark.guests(kernel=("6.1", "6.12"))
def test_old_kernel_pages_on_demand(ports):
    judge(ports[0].guest.run("rdma_odp", 200), CASES)


@pytest.mark.parametrize("tool", (
    "ib_send_bw", pytest.param("ib_write_bw", marks=pytest.mark.packaged),
    "ib_read_bw", "ib_send_lat", "ib_atomic_bw"))
def test_perftest_on_demand(ports, tool):
    a, b = ports
    before = [device_counters(port) for port in ports]
    size = "" if tool == "ib_atomic_bw" else "-s 65536"
    rdma.perftest(tool, a, b, f"--odp -n 20 {size}").check()
    after = [device_counters(port) for port in ports]
    assert any(now["page_requests"] > then["page_requests"]
               for now, then in zip(after, before)), "no page was asked for"


# Kills rdma_odp as soon as a region of its has had pages and lost some, and shows
# its kind.
BUSY = """
for i in $(seq 50); do
    rdma statistic show mr >/tmp/mr
    rdma -dd resource show mr >/tmp/kinds
    grep -Eqz 'page_faults [1-9][^p]*page_invalidations [1-9]' /tmp/mr &&
        grep -q on_demand /tmp/kinds && kill -9 $(pidof rdma_odp) && exit 0
    pidof rdma_odp >/dev/null || break
    sleep 0.1
done
cat /tmp/mr /tmp/kinds
exit 1
"""


@pytest.mark.parametrize("case", ("given_back", "implicit"))
def test_killed_program_frees_pages(ports, case):
    """Regions tell of their pages; killed, a program leaves nothing."""
    port = ports[0]
    before = rdma.resources(port)
    job = port.guest.start(f"exec rdma_odp {case} stolen", 100)
    port.guest.check("until pidof rdma_odp; do sleep 0.05; done")
    port.guest.check(BUSY, 60)
    killed = job.wait()
    assert not killed.ok and "1.." not in killed.out, killed
    rdma.wait_for_resources(port, before)
    judge(port.guest.run("rdma_odp atomics", 100), ["atomics"])
