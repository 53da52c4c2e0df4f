# SPDX-License-Identifier: GPL-2.0-or-later
"""Against Linux's Soft-RoCE, an implementation that knows nothing of ours."""

import pytest

from fakernic_test import rdma

pytestmark = pytest.mark.guests(driver=("fakernic", "rxe"))

BOTH_WAYS = pytest.mark.parametrize("server", (0, 1),
                                    ids=("serving_rxe", "served_by_rxe"))


def in_order(ports, server):
    """The server's port, then the client's."""
    return ports[server], ports[1 - server]


@BOTH_WAYS
@pytest.mark.parametrize("family", (4, 6), ids=("ipv4", "ipv6"))
@pytest.mark.parametrize("kind", ("rc", "ud"))
def test_pingpong(ports, kind, family, server):
    rdma.pingpong(kind, *in_order(ports, server),
                  "-c -n 300" if kind == "rc" else "-n 300", family).check()


@BOTH_WAYS
def test_rping(ports, server):
    rdma.rping(*in_order(ports, server), count=10, size=3000).check()


@BOTH_WAYS
@pytest.mark.parametrize("tool", ("ib_write_bw", "ib_read_bw", "ib_send_bw"))
def test_bandwidth(ports, tool, server):
    # perftest would ask one side for as many READs as the other can serve.
    outstanding = "-o 16" if "read" in tool else ""
    rdma.perftest(tool, *in_order(ports, server),
                  f"-n 100 -s 16384 {outstanding}").check()


@BOTH_WAYS
def test_line_of_text(ports, server):
    rdma.line_of_text(*in_order(ports, server), "between strangers").check()
