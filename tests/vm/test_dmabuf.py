# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory regions of DMA-BUFs (6.12: Debian's 6.1 has no exporter without a GPU)."""

import pytest

from fakernic_test import rdma


@pytest.mark.guests(count=1)
def test_dmabuf_regions(ports):
    """Memory regions of DMA-BUFs move the right bytes, without a graphics
    card."""
    rdma.judged(ports[0], "rdma_dmabuf", 28)
