# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own users of RDMA: NVMe over Fabrics, target and host.

They use what programs cannot: regions registered by work requests, receives of
the kernel, completions by soft interrupts, SEND with invalidate, and draining a
queue pair before it is destroyed.
"""

import time

import pytest

from fakernic_test import rdma

NQN = "nqn.2014-08.org.fakernic:test"
CONFIG = "/sys/kernel/config/nvmet"

# A RAM disk of 64 MB is what the target offers.
TARGET = f"""
    set -e
    modprobe nvmet-rdma use_srq={{srq}}
    modprobe brd rd_nr=1 rd_size=65536
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    mkdir {CONFIG}/subsystems/{NQN}
    cd {CONFIG}/subsystems/{NQN}
    echo 1 >attr_allow_any_host
    mkdir namespaces/1
    echo /dev/ram0 >namespaces/1/device_path
    echo 1 >namespaces/1/enable
    mkdir {CONFIG}/ports/1
    cd {CONFIG}/ports/1
    echo rdma >addr_trtype
    echo ipv{{family}} >addr_adrfam
    echo {{address}} >addr_traddr
    echo 4420 >addr_trsvcid
    ln -s {CONFIG}/subsystems/{NQN} subsystems/
    """

TARGET_END = f"""
    set -e
    cd {CONFIG}
    rm -f ports/1/subsystems/{NQN}
    [ ! -d ports/1 ] || rmdir ports/1
    [ ! -d subsystems/{NQN}/namespaces/1 ] || rmdir subsystems/{NQN}/namespaces/1
    [ ! -d subsystems/{NQN} ] || rmdir subsystems/{NQN}
    cd /
    for i in $(seq 50); do
        modprobe -r nvmet-rdma nvmet brd && exit 0
        sleep 0.2
    done
    exit 1
    """

HOST = f"""
    set -e
    modprobe nvme-rdma
    echo "transport=rdma,traddr={{address}},trsvcid=4420,nqn={NQN},\
nr_io_queues=2,queue_size=32,ctrl_loss_tmo={{patience}},reconnect_delay=1" \
>/dev/nvme-fabrics
    for i in $(seq 100); do
        disk=$(ls /dev/nvme*n1 2>/dev/null) && break
        sleep 0.1
    done
    echo $disk
    """

HOST_END = """
    for controller in /sys/class/nvme/nvme*/delete_controller; do
        [ ! -e $controller ] || echo 1 >$controller
    done
    for i in $(seq 50); do
        modprobe -r nvme-rdma && exit 0
        sleep 0.2
    done
    exit 1
    """


def counts(port):
    """Of `rdma resource`, but for CQs: the core keeps those it shares between
    its users (ib_cq_pool_get()) until the device goes."""
    found = rdma.resources(port)
    del found["cq"]
    return found


class Storage:
    """A namespace of the first guest as a disk of the second."""

    def __init__(self, ports, family=4, patience=600, srq="N"):
        self.target, self.host = ports
        self.before = [counts(port) for port in ports]
        address = self.target.ip(family)
        self.target.guest.check(
            TARGET.format(family=family, address=address, srq=srq), 60)
        self.disk = self.host.guest.check(
            HOST.format(address=address, patience=patience), 60).strip()
        assert self.disk.startswith("/dev/nvme"), self.disk

    def wait_until_written(self):
        """Until some writes to the disk have come to their end."""
        done = f"$(awk '{{print $5}}' /sys/class/block/{self.disk[5:]}/stat)"
        self.host.guest.check(f"begin={done}; "
                              f"until [ {done} -gt $((begin + 3)) ]; do "
                              "sleep 0.05; done")

    def end(self):
        """Disconnects; nothing may be left of it on either side."""
        self.host.guest.check(HOST_END, 60)
        self.target.guest.check(TARGET_END, 60)
        deadline = time.monotonic() + 20
        while (now := [counts(self.target), counts(self.host)]) != self.before:
            assert time.monotonic() < deadline, (now, self.before)
            time.sleep(0.2)


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
def test_disk_keeps_what_is_written(storage, family, srq):
    """8 MB in blocks of 4 KB to 1 MB, compared at both ends."""
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
                oflag=direct conv=fsync,notrunc status=none
        done
        sha256sum </tmp/data
        """, 100)
    kinds = host.check("rdma -dd resource show mr")
    assert "drv_type fast_reg" in kinds, kinds
    read = host.check(f"dd if={it.disk} bs=64k count=128 iflag=direct "
                      "status=none | sha256sum", 100)
    there = target.check("head -c 8M /dev/ram0 | sha256sum")
    assert written == read == there


def test_link_is_lost_under_load(storage):
    """The host recovers: it drains its queue pairs, connects again, repeats."""
    it = storage()
    host = it.host.guest
    host.check("dmesg -C; rm -f /tmp/enough")
    job = host.start(f"""
        set -e
        head -c 4M /dev/urandom >/tmp/data
        until [ -e /tmp/enough ]; do
            dd if=/tmp/data of={it.disk} bs=32k oflag=direct status=none
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


def test_driver_goes_under_load(storage, lab):
    """Unloaded from below a connected disk; then loaded again, it works."""
    it = storage(patience=2)
    host = it.host.guest
    job = host.start(f"while dd if=/dev/zero of={it.disk} bs=32k count=2000 "
                     "oflag=direct; do :; done; exit 1", 100)
    it.wait_until_written()
    host.check("echo 0000:01:00.0 >/sys/bus/pci/drivers/fakernic/unbind; "
               "! ls /sys/class/infiniband/fakernic0 2>/dev/null", 60)
    host.check("echo 0000:01:00.0 >/sys/bus/pci/drivers/fakernic/bind")
    result = job.wait()
    assert not result.ok and not result.timed_out, result
    lab.ports[1] = it.host = rdma.bring_up(it.host.vm, 2)
    rdma.pingpong("rc", it.target, it.host, "-c -n 50").check()
