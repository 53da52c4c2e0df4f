# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots the maximum number of machines, with each kind of link (make test-many). All
communicate at the same time, each with the next."""

import time

import pytest

from command import fakernic_lab
from fakernic_lab.lab import NODES_MAX

# Long enough for eight emulated machines on two busy processors.
UP_S = 2400
TALK_S = 600
MEMORY = 512
PINGS = 20
SERVE = ("setsid rping -s -P >/tmp/served 2>&1 & for try in $(seq 600); do rdma "
         "resource show cm_id | grep -q LISTEN && exit; sleep 0.1; done; exit 1")
ASK = (f"set -o pipefail; rping -c -C {PINGS} -v -V -a "
       f"node$((${{FAKERNIC_NODE#node}} % {NODES_MAX} + 1)) | "
       f"grep rdma-ping-{PINGS - 1}:")
COUNTED = ("cat /sys/class/infiniband/$FAKERNIC_IBDEV/ports/1/hw_counters/"
           "rx_frames")


def lines(result):
    """{machine: the line that it printed}"""
    assert result.returncode == 0, result
    return dict(line.split(": ", 1) for line in result.stdout.splitlines())


@pytest.mark.timeout(3 * UP_S)
@pytest.mark.parametrize("link", ("netdev", "shared"))
def test_ring(tmp_path, link):
    """Each machine runs rping with the next, which writes, reads and compares."""
    start = time.monotonic()
    try:
        up = fakernic_lab(tmp_path, "up", "-n", NODES_MAX, "--link", link,
                          "--memory", MEMORY, timeout=UP_S)
        assert up.returncode == 0, up
        assert len(up.stdout.splitlines()) == NODES_MAX, up
        print(f"{link}: {NODES_MAX} up in {time.monotonic() - start:.0f} s")
        served = fakernic_lab(tmp_path, "exec", "all", "--", SERVE, timeout=TALK_S)
        assert served.returncode == 0, served
        start = time.monotonic()
        said = lines(fakernic_lab(tmp_path, "exec", "--timeout", TALK_S, "all",
                                  "--", ASK, timeout=2 * TALK_S))
        print(f"{link}: {NODES_MAX} times {PINGS} rpings, all at once, in "
              f"{time.monotonic() - start:.0f} s")
        assert len(said) == NODES_MAX, said
        counted = lines(fakernic_lab(tmp_path, "exec", "all", "--", COUNTED,
                                     timeout=TALK_S))
        assert min(map(int, counted.values())) > 4 * PINGS, counted
    finally:
        fakernic_lab(tmp_path, "down", timeout=TALK_S)
