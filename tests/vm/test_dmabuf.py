# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory regions of DMA-BUFs (6.12: Debian's 6.1 has no exporter without a GPU)."""

import re

import pytest

from fakernic_test import rdma


@pytest.mark.guests(count=1)
def test_regions_of_dma_bufs(ports):
    (port,) = ports
    before = rdma.resources(port)
    result = port.guest.run("rdma_dmabuf", 60)
    assert result.ok, result
    assert len(re.findall(r"^ok ", result.out, re.M)) == 28, result
    rdma.wait_for_resources(port, before)
