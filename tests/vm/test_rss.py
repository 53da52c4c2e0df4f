# SPDX-License-Identifier: GPL-2.0-or-later
"""Work queues and receive side scaling through driver and provider."""

import re

import pytest

from fakernic_test import rdma


@pytest.mark.guests(count=1)
def test_flows_spread_over_work_queues(ports):
    """rdma_rss judges every frame by a hash of its own."""
    (port,) = ports
    before = rdma.resources(port)
    result = port.guest.run("rdma_rss", 150)
    assert result.ok, result
    assert len(re.findall(r"^ok ", result.out, re.M)) == 7, result
    rdma.wait_for_resources(port, before)
