# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts 8 machines, and the maximum number of small ones, with each kind of link (make
test-many). All communicate at the same time, each with the next. Also measures how long
machines take to start."""

import re
import resource
import time

import pytest

from command import fakernic_lab
from fakernic_lab.lab import NODES_MAX

# Long enough for 32 emulated machines on two busy processors.
UP_S = 2400
TALK_S = 600
# Processor time of a machine in a run that does nothing, emulated. With a boot it is twice
# that or more.
MACHINE_S = 6
MEMORY = 256
PINGS = 20
SERVE = ("setsid rping -s -P >/tmp/served 2>&1 & for try in $(seq 600); do rdma "
         "resource show cm_id | grep -q LISTEN && exit; sleep 0.1; done; exit 1")
COUNTED = ("cat /sys/class/infiniband/$FAKERNIC_IBDEV/ports/1/hw_counters/"
           "rx_frames")


def ask(count):
    """The command in which each of COUNT machines talks to the next."""
    return (f"set -o pipefail; rping -c -C {PINGS} -v -V -a "
            f"node$((${{FAKERNIC_NODE#node}} % {count} + 1)) | "
            f"grep rdma-ping-{PINGS - 1}:")


def lines(result):
    """{machine: the line that it printed}"""
    assert result.returncode == 0, result
    return dict(line.split(": ", 1) for line in result.stdout.splitlines())


@pytest.mark.timeout(3 * UP_S)
@pytest.mark.parametrize("count", (8, NODES_MAX))
@pytest.mark.parametrize("link", ("netdev", "shared"))
def test_ring(tmp_path, link, count):
    """Each machine runs rping with the next, which writes, reads and compares."""
    start = time.monotonic()
    try:
        up = fakernic_lab(tmp_path, "up", "-n", count, "--link", link,
                          "--memory", MEMORY, timeout=UP_S)
        assert up.returncode == 0, up
        assert len(up.stdout.splitlines()) == count, up
        print(f"{link}: {count} up in {time.monotonic() - start:.0f} s")
        served = fakernic_lab(tmp_path, "exec", "all", "--", SERVE, timeout=TALK_S)
        assert served.returncode == 0, served
        start = time.monotonic()
        said = lines(fakernic_lab(tmp_path, "exec", "--timeout", TALK_S, "all",
                                  "--", ask(count), timeout=2 * TALK_S))
        print(f"{link}: {count} times {PINGS} rpings, all at once, in "
              f"{time.monotonic() - start:.0f} s")
        assert len(said) == count, said
        counted = lines(fakernic_lab(tmp_path, "exec", "all", "--", COUNTED,
                                     timeout=TALK_S))
        assert min(map(int, counted.values())) > 4 * PINGS, counted
    finally:
        fakernic_lab(tmp_path, "down", timeout=TALK_S)


def processor_s():
    """The processor time of all ended child processes and their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.timeout(3 * UP_S)
@pytest.mark.parametrize("count", (2, 8, NODES_MAX))
def test_start_costs_less_than_a_boot(tmp_path, count):
    """Machines that start from a snapshot use a part of the processor time of a boot."""
    def run(machines):
        result = fakernic_lab(tmp_path, "run", "-v", "-n", machines, "--memory", MEMORY,
                              "--", "true", timeout=UP_S)
        assert result.returncode == 0 and "the machines boot" not in result.stderr, result
        return re.search("machines up in (.*) s", result.stderr)[1]
    run(1)                      # makes the snapshot, if there is none
    before = processor_s()
    took = run(count)
    used = (processor_s() - before) / count
    print(f"{count} machines up in {took} s; with a command and the results each used "
          f"{used:.2f} s of a processor")
    assert used < MACHINE_S
