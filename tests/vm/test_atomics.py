# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA atomics and atomics of the guest's CPUs exclude one another."""

import pytest

from fakernic_test import rdma


def additions(server, client, count):
    rdma.run_pair(server, client, "rdma_atomics",
                  f"rdma_atomics -n {count} {server.ip4}", 18602).check()


@pytest.mark.packaged
def test_no_addition_is_lost(ports):
    """With one CPU, RDMA and CPU atomics on one word lose no addition. An
    emulator with one CPU makes locked instructions atomic to other threads
    only if a device asks for it."""
    additions(*ports, 4000)


@pytest.mark.long
@pytest.mark.guests(options={"cpus": 2})
def test_no_addition_is_lost_with_two_cpus(ports):
    """With two CPUs, RDMA and CPU atomics on one word lose no addition."""
    additions(*ports, 4000)
