# SPDX-License-Identifier: GPL-2.0-or-later
"""Work queues and receive side scaling through driver and provider."""

import pytest

from fakernic_test import rdma


@pytest.mark.guests(count=1)
def test_flows_spread_over_work_queues(ports):
    """rdma_rss judges every frame by a hash of its own."""
    rdma.judged(ports[0], "rdma_rss", 7, 150)
