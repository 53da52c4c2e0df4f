# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own users of RDMA: NVMe over Fabrics, target and host.

They use what programs cannot: regions registered by work requests, receives of
the kernel, completions by softirqs, SEND with invalidate, and draining a queue
pair before it is destroyed.
"""

import pytest

from fakernic_test import rdma
from fakernic_test.nvme import Storage
from fakernic_test.recovery import BIND, UNBIND


@pytest.fixture
def storage(ports):
    made = []

    def make(**arguments):
        made.append(Storage(ports, **arguments))
        return made[0]

    yield make
    for one in made:
        one.end()


@pytest.mark.parametrize("family, srq", ((4, "N"), (6, "N"), (4, "Y")),
                         ids=("ipv4", "ipv6", "srq"))
def test_written_data_is_read_back(storage, family, srq):
    """An NVMe disk returns 8 MB that were written in blocks of 4 KB to 1 MB,
    compared on both sides."""
    it = storage(family=family, srq=srq)
    host, target = it.host.guest, it.target.guest
    shared = rdma.resources(it.target).get("srq", "0") != "0"
    assert shared == (srq == "Y")
    written = host.check(f"""
        set -e
        head -c 8M /dev/urandom >/tmp/data
        for size in 4 64 256 1024; do
            blocks=$((2048 / size))
            part=$(((part + 1)))
            dd if=/tmp/data of={it.disk} bs=${{size}}k count=$blocks \
                skip=$(((part - 1) * blocks)) seek=$(((part - 1) * blocks)) \
                oflag=direct conv=fsync,notrunc,nocreat status=none
        done
        sha256sum </tmp/data
        """, 100)
    kinds = host.check("rdma -dd resource show mr")
    assert "drv_type fast_reg" in kinds, kinds
    read = host.check(f"dd if={it.disk} bs=64k count=128 iflag=direct "
                      "status=none | sha256sum", 100)
    there = target.check("head -c 8M /dev/ram0 | sha256sum")
    assert written == read == there


def test_host_recovers_from_link_loss(storage):
    """After a link loss under load the NVMe host drains its queue pairs,
    reconnects and repeats its requests."""
    it = storage()
    host = it.host.guest
    host.check("dmesg -C; rm -f /tmp/enough")
    job = host.start(f"""
        set -e
        head -c 4M /dev/urandom >/tmp/data
        until [ -e /tmp/enough ]; do
            dd if=/tmp/data of={it.disk} bs=32k oflag=direct conv=nocreat \
                status=none
        done
        dd if={it.disk} bs=32k count=128 iflag=direct status=none | sha256sum
        sha256sum </tmp/data
        """, 200)
    it.wait_until_written()
    it.host.vm.set_link(False)
    try:
        host.check(f"for i in $(seq 600); do dmesg | grep -q 'nvme.*[Rr]econnect'"
                   " && exit; sleep 0.1; done; dmesg | tail; exit 1", 100)
    finally:
        it.host.vm.set_link(True)
    it.wait_until_written()
    host.check("touch /tmp/enough")
    result = job.wait()
    assert result.ok, result
    sums = result.out.splitlines()[-2:]
    assert sums[0] == sums[1], result


def test_driver_unload_under_load(storage, lab):
    """The driver can be unloaded under a connected disk, and the disk works
    after it is loaded again."""
    it = storage(patience=2)
    host = it.host.guest
    job = host.start(f"while dd if=/dev/zero of={it.disk} bs=32k count=2000 "
                     "oflag=direct conv=nocreat; do :; done; exit 1", 100)
    it.wait_until_written()
    host.check(f"{UNBIND}; ! ls /sys/class/infiniband/fakernic0 2>/dev/null", 60)
    host.check(BIND)
    result = job.wait()
    assert not result.ok and not result.timed_out, result
    lab.ports[1] = it.host = rdma.bring_up(it.host.vm, 2)
    rdma.pingpong("rc", it.target, it.host, "-c -n 50").check()
