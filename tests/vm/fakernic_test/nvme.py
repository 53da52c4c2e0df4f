# SPDX-License-Identifier: GPL-2.0-or-later
"""NVMe over Fabrics between two guests: a RAM disk of one is a disk of the
other."""

import time

from . import rdma

NQN = "nqn.2014-08.org.fakernic:test"
CONFIG = "/sys/kernel/config/nvmet"

# The target offers a RAM disk of 64 MB.
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

# Listens again; a host that reconnects is accepted.
TARGET_AGAIN = f"""
    set -e
    cd {CONFIG}/ports/1/subsystems
    rm {NQN}
    ln -s {CONFIG}/subsystems/{NQN} .
    """

TARGET_END = f"""
    set -e
    cd {CONFIG}
    rm -f ports/1/subsystems/{NQN}
    [ ! -d ports/1 ] || rmdir ports/1
    [ ! -d subsystems/{NQN}/namespaces/1 ] || rmdir subsystems/{NQN}/namespaces/1
    [ ! -d subsystems/{NQN} ] || rmdir subsystems/{NQN}
    cd /
    for i in $(seq 150); do
        modprobe -r nvmet-rdma nvmet brd && exit 0
        sleep 0.2
    done
    exit 1
    """

HOST = f"""
    set -e
    modprobe nvme-rdma
    echo "transport=rdma,traddr={{address}},trsvcid=4420,nqn={NQN},\
nr_io_queues={{queues}},queue_size=32,ctrl_loss_tmo={{patience}},reconnect_delay=1" \
>/dev/nvme-fabrics
    for i in $(seq 300); do
        disk=$(ls /dev/nvme*n1 2>/dev/null) && break
        sleep 0.1
    done
    echo $disk
    """

HOST_END = """
    for controller in /sys/class/nvme/nvme*/delete_controller; do
        [ ! -e $controller ] || echo 1 >$controller
    done
    for i in $(seq 150); do
        modprobe -r nvme-rdma && exit 0
        sleep 0.2
    done
    exit 1
    """


def counts(port):
    """Returns the counts of `rdma resource` without CQs: the core keeps its
    shared CQs (ib_cq_pool_get()) as long as the device exists."""
    return {kind: count for kind, count in rdma.resources(port).items()
            if kind != "cq"}


class Storage:
    """A namespace of the first guest as a disk of the second."""

    def __init__(self, ports, family=4, patience=600, srq="N"):
        self.target, self.host = ports
        self.before = [counts(port) for port in ports]
        address = self.target.ip(family)
        self.target.guest.check(
            TARGET.format(family=family, address=address, srq=srq), 60)
        self.disk = self.host.guest.check(
            HOST.format(address=address, patience=patience, queues=2),
            60).strip()
        assert self.disk.startswith("/dev/nvme"), self.disk

    def write_and_read(self, size="1M"):
        """Returns a host command that writes random bytes and reads them back.
        If they differ it also creates /tmp/wrong."""
        return f"""
            head -c {size} /dev/urandom >/tmp/data
            dd if=/tmp/data of={self.disk} bs=64k oflag=direct conv=nocreat \
                status=none && dd if={self.disk} of=/tmp/read bs=64k \
                count={size} iflag=direct,count_bytes status=none || exit 1
            [ "$(sha256sum </tmp/data)" = "$(sha256sum </tmp/read)" ] ||
                {{ touch /tmp/wrong; exit 1; }}"""

    def wait_until_written(self):
        """Waits until some more writes to the disk have completed."""
        done = f"$(awk '{{print $5}}' /sys/class/block/{self.disk[5:]}/stat)"
        self.host.guest.check(f"begin={done}; "
                              f"until [ {done} -gt $((begin + 3)) ]; do "
                              "sleep 0.05; done")

    def end(self):
        """Disconnects; nothing may be left on either side."""
        self.host.guest.check(HOST_END, 60)
        self.target.guest.check(TARGET_END, 60)
        deadline = time.monotonic() + 20
        while (now := [counts(self.target), counts(self.host)]) != self.before:
            assert time.monotonic() < deadline, (now, self.before)
            time.sleep(0.2)
