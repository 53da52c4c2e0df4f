# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA atomics and atomics of the guest's CPUs exclude one another."""

import pytest

from fakernic_test import rdma


def additions(server, client, count, server_command="rdma_atomics"):
    rdma.run_pair(server, client, server_command,
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


@pytest.mark.long
@pytest.mark.guests(options={"cpus": 2, "extra": ("-smp", "1,maxcpus=2")})
def test_no_addition_is_lost_on_a_hotplugged_cpu(ports):
    """The server's CPU additions run on a CPU that was plugged in later."""
    server, client = ports
    server.vm.qmp("device_add", driver="max-x86_64-cpu",
                  **{"socket-id": 1, "core-id": 0, "thread-id": 0})
    cpu = "/sys/devices/system/cpu/cpu1"
    server.guest.check(f"for i in $(seq 50); do [ -e {cpu}/online ] && break; "
                       f"sleep 0.1; done; echo 1 >{cpu}/online")
    additions(server, client, 4000, "taskset -c 1 rdma_atomics")
