# SPDX-License-Identifier: GPL-2.0-or-later
"""On-demand paging: memory regions that are not pinned.

rdma_odp removes pages before and while the device uses them, and compares
every byte. perftest's tools run with --odp between two guests.
"""

import re

import pytest

from fakernic_lab import faults
from fakernic_lab.versions import MAIN_KERNEL, OLD_KERNEL
from fakernic_test import rdma

CASES = ("given_back", "stolen", "atomics", "forked", "unmapped_locally",
         "unmapped_remotely", "never_mapped", "implicit", "read_only",
         "scattered", "advice", "many", "registration", "charged")
IN_PACKAGED = ("given_back", "atomics")


def device_counters(port):
    """Returns the device's own counters."""
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
    """Unpinned memory has the right bytes in each case of rdma_odp."""
    port = ports[0]
    before = rdma.resources(port)
    judge(port.guest.run(f"rdma_odp {case}", 100), [case])
    rdma.wait_for_resources(port, before)


IS_BUSY = 6             # a command's status


def judge_busy(port, command, case):
    """Runs rdma_odp while the device refuses the first three commands of a
    kind."""
    before = rdma.resources(port)
    with faults.armed(port.vm, f"at=command cmd={command} times=3 "
                      f"do=fail status={IS_BUSY}") as rule:
        judge(port.guest.run(f"rdma_odp {case}", 100), [case])
        assert rule.hits() == [3]
    rdma.wait_for_resources(port, before)


def test_lost_page_request_is_announced_again(ports):
    """If the driver cannot fetch a page request that the device announced
    once, it tries again."""
    judge_busy(ports[0], "QUERY_PAGE_REQUESTS", "given_back")


def test_refused_page_answer_is_repeated(ports):
    """The driver repeats the answer that a page does not exist until the
    device accepts it. Otherwise the request would wait without limit."""
    judge_busy(ports[0], "UPDATE_PAGES", "never_mapped")


@pytest.mark.guests(kernel=(OLD_KERNEL, MAIN_KERNEL))
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


# Kills rdma_odp as soon as one of its regions has had pages and lost some, and prints
# the kind of the region.
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
    """Regions report their pages, and a killed program leaves none."""
    port = ports[0]
    before = rdma.resources(port)
    job = port.guest.start(f"exec rdma_odp {case} stolen", 100)
    port.guest.check("until pidof rdma_odp; do sleep 0.05; done")
    port.guest.check(BUSY, 60)
    killed = job.wait()
    assert not killed.ok and "1.." not in killed.out, killed
    rdma.wait_for_resources(port, before)
    judge(port.guest.run("rdma_odp atomics", 100), ["atomics"])
