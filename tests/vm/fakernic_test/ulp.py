# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's users of RDMA, each between two guests: a service of the first
that the second uses.

Each can be served and unserved, connected and disconnected. write() is a
script of the second guest that moves data and compares what it reads back.
compare() checks the copy in the first guest.
"""

import time

from fakernic_lab.errors import CommandFailed
from . import nvme

LIMIT = 100
# How long a host retries while the target refuses.
CONNECTS_S = 60
# Time limit of a connection with a megabyte of data.
ASKS_S = 20
TARGET = "/sys/kernel/config/target"
RAMDISK = f"""
    modprobe brd rd_nr=1 rd_size=65536
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    """
# The RAM disk as a block device of LIO.
LIO_DISK = f"""
    {RAMDISK}
    modprobe -a target_core_mod target_core_iblock
    mkdir -p {TARGET}/core/iblock_0/disk
    echo udev_path=/dev/ram0 >{TARGET}/core/iblock_0/disk/control
    echo 1 >{TARGET}/core/iblock_0/disk/enable
    """
LIO_DISK_END = f"rmdir {TARGET}/core/iblock_0/disk {TARGET}/core/iblock_0"
FUNCTIONS = """
    again() { for i in $(seq 150); do "$@" 2>/tmp/again && return; sleep 0.2; done
              cat /tmp/again >&2; return 1; }
    same_sum() { [ "$(cat)" = "$(cat /tmp/sum)" ]; }
    """
# Shows what sockets wait for.
STATE = """
    rdma link
    ss -tan
    for pid in $(pgrep -f ulp_sockets) $(pgrep -f smc); do
        cat /proc/$pid/comm /proc/$pid/stack
    done
    dmesg | tail
    """


class Ulp:
    """A service of the first guest, used by the second."""

    modules = ()
    # Whether the second guest reconnects after its card was replaced, and after the
    # machine of the first has rebooted.
    outlives_its_card = True
    outlives_its_target = True

    def __init__(self, ports):
        self.ports = ports
        self.address = self.target.ip4

    @property
    def target(self):
        return self.ports[0]

    @property
    def host(self):
        return self.ports[-1]

    def on_target(self, script, timeout=LIMIT):
        return self.target.guest.check(FUNCTIONS + script, timeout)

    def on_host(self, script, timeout=LIMIT):
        return self.host.guest.check(FUNCTIONS + script, timeout)

    def start(self):
        self.serve()
        self.connect()

    def stop(self):
        self.disconnect()
        self.unserve()

    def stubborn(self):
        """Returns a script that writes while its address may be removed."""
        return self.write(1)

    def anew(self):
        """Returns a script that continues after the target's machine has
        rebooted."""
        return self.stubborn()

    def tried_again(self, limit):
        """Returns a script that restarts a write after a failure, or after
        that many seconds."""
        self.host.guest.write("/tmp/tried", f"{FUNCTIONS}\nset -e\n{self.write(1)}")
        limit *= self.host.vm.patience
        return f"again timeout {limit} bash /tmp/tried\n"

    def move(self, count=4):
        """Moves that many megabytes and compares them on both sides."""
        self.on_host(f"set -e\n{self.write(count)}")
        self.compare(count)


class Disk(Ulp):
    """A service that is a disk: self.disk. With nocreat no file replaces a
    removed disk."""

    pattern = "sd"

    def new_disk(self, login):
        """Returns the disk that appears with a login."""
        return self.on_host(f"""
            set -e
            ls -d /sys/block/{self.pattern}* 2>/dev/null >/tmp/before || :
            {login}
            for i in $(seq 300); do
                disk=$(ls -d /sys/block/{self.pattern}* 2>/dev/null |
                       grep -vxFf /tmp/before | grep -v nvme.c) && break
                sleep 0.1
            done
            echo /dev/$(basename $disk)
            """).strip().splitlines()[-1]

    def write(self, count):
        return f"""
            head -c {count}M /dev/urandom >/tmp/data
            dd if=/tmp/data of={self.disk} bs=256k oflag=direct conv=nocreat \
                status=none
            dd if={self.disk} bs=64k count={16 * count} iflag=direct status=none |
                sha256sum >/tmp/sum
            sha256sum </tmp/data | same_sum
            """

    def anew(self):
        """Data written just before the reboot is not on the target's new RAM
        disk."""
        return (f"dd if=/dev/zero of={self.disk} bs=64k count=16 oflag=direct "
                "conv=nocreat\n")

    def compare(self, count):
        # Behind the blocks that were cached when the disk was found.
        there = self.on_target(f"dd if=/dev/ram0 bs=1M count={count} "
                               "iflag=direct status=none | sha256sum")
        assert there == self.on_host("sha256sum </tmp/data")


class Nvme(Disk):
    """NVMe over Fabrics; the host retries its connection for ten minutes."""

    pattern = "nvme"
    queues = 2
    # A new disk has another ID, which the host refuses.
    outlives_its_target = False

    def serve(self):
        self.on_target(nvme.TARGET.format(family=4, address=self.address,
                                          srq="N"))

    def serve_again(self):
        """Linux's target stops listening when its RDMA device is removed."""
        self.on_target(nvme.TARGET_AGAIN)

    def unserve(self):
        self.on_target(nvme.TARGET_END)

    def connect(self):
        self.disk = self.on_host(nvme.HOST.format(
            address=self.address, patience=600, queues=self.queues)).strip()
        assert self.disk.startswith("/dev/nvme"), self.disk

    def connect_again(self):
        """A card that was reset gives queue pairs the same numbers as before,
        which the peer does not know. A connection is then refused once as
        stale (IBTA 12.9.8.3), and the peer releases the old one."""
        deadline = time.monotonic() + CONNECTS_S
        while True:
            try:
                return self.connect()
            except CommandFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def disconnect(self):
        self.on_host(nvme.HOST_END)


class Iser(Disk):
    """iSCSI extensions for RDMA: LIO's target, open-iscsi."""

    iqn = "iqn.2014-08.org.fakernic:disk"

    def serve(self):
        tpg = f"{TARGET}/iscsi/{self.iqn}/tpgt_1"
        self.on_target(f"""
            set -e
            {LIO_DISK}
            modprobe -a iscsi_target_mod ib_isert
            mkdir -p {TARGET}/iscsi; mkdir {TARGET}/iscsi/{self.iqn}
            mkdir {tpg} {tpg}/lun/lun_0
            ln -s {TARGET}/core/iblock_0/disk {tpg}/lun/lun_0/disk
            echo 0 >{tpg}/attrib/authentication
            echo 1 >{tpg}/attrib/generate_node_acls
            echo 1 >{tpg}/attrib/cache_dynamic_acls
            echo 0 >{tpg}/attrib/demo_mode_write_protect
            mkdir {tpg}/np/{self.address}:3260
            echo 1 >{tpg}/np/{self.address}:3260/iser
            echo 1 >{tpg}/enable
            """)

    def unserve(self):
        tpg = f"{TARGET}/iscsi/{self.iqn}/tpgt_1"
        self.on_target(f"""
            set -e
            echo 0 >{tpg}/enable
            rmdir {tpg}/np/{self.address}:3260
            rm {tpg}/lun/lun_0/disk
            rmdir {tpg}/lun/lun_0 {tpg} {TARGET}/iscsi/{self.iqn} {TARGET}/iscsi
            {LIO_DISK_END}
            again modprobe -r ib_isert iscsi_target_mod target_core_iblock brd
            """)

    def connect(self):
        node = f"iscsiadm -m node -T {self.iqn} -p {self.address}:3260"
        self.disk = self.new_disk(f"""
            modprobe -a ib_iser sd_mod
            mkdir -p /etc/iscsi /run/lock/iscsi
            echo InitiatorName=iqn.2014-08.org.fakernic:host \
                >/etc/iscsi/initiatorname.iscsi
            pidof iscsid >/dev/null || iscsid
            {node} -o new -I iser >/dev/null
            {node} -o update -n node.session.timeo.replacement_timeout -v 600
            again {node} -I iser --login >/dev/null
            """)

    def disconnect(self):
        self.on_host(f"""
            set -e
            iscsiadm -m node -T {self.iqn} --logout >/dev/null
            iscsiadm -m node -T {self.iqn} -o delete
            again modprobe -r ib_iser
            """)


class Srp(Disk):
    """SCSI RDMA protocol, by rdma_cm, as RoCE requires. ib_srpt knows the
    address that was called, not the caller's, and grants access by that."""

    port = 5555
    outlives_its_card = False

    def __init__(self, ports):
        super().__init__(ports)
        self.made = f"{TARGET}/srpt/$name"
        # The name of a target: the last half of its first GID.
        self.name = (
            f"gid=$(cat /sys/class/infiniband/{self.target.ibdev}/ports/1/gids/0)\n"
            "name=${gid#*:*:*:*:}\n")

    def serve(self):
        self.on_target(f"""
            set -e
            {LIO_DISK}
            modprobe ib_srpt
            {self.name}
            mkdir -p {self.made}/$name
            echo {self.port} >{TARGET}/srpt/discovery_auth/rdma_cm_port
            cd {self.made}/$name
            mkdir lun/lun_0
            ln -s {TARGET}/core/iblock_0/disk lun/lun_0/disk
            mkdir -p acls/{self.address}/lun_0
            ln -s {self.made}/$name/lun/lun_0 acls/{self.address}/lun_0/lun
            echo 1 >enable
            """)

    def unserve(self):
        self.on_target(f"""
            set -e
            {self.name}
            cd {self.made}/$name
            echo 0 >enable
            rm acls/{self.address}/lun_0/lun lun/lun_0/disk
            rmdir acls/{self.address}/lun_0 acls/{self.address} lun/lun_0
            cd /
            rmdir {self.made}/$name {self.made} {TARGET}/srpt
            {LIO_DISK_END}
            again modprobe -r ib_srpt target_core_iblock brd
            """)

    def connect(self):
        guid = self.on_target(
            f"tr -d : </sys/class/infiniband/{self.target.ibdev}/node_guid").strip()
        self.disk = self.new_disk(f"""
            modprobe -a ib_srp sd_mod
            add=$(ls /sys/class/infiniband_srp/*/add_target)
            echo id_ext={guid},ioc_guid={guid},dest={self.address}:{self.port} >$add
            """)
        # It reconnects without a time limit.
        self.on_host("""
            set -e
            cd /sys/class/srp_remote_ports/port-*
            echo 1 >reconnect_delay
            echo 600 >dev_loss_tmo
            echo off >fast_io_fail_tmo
            """)

    def connect_again(self):
        self.connect()

    def disconnect(self):
        self.on_host("""
            set -e
            for port in /sys/class/srp_remote_ports/*; do
                echo 1 >$port/delete
            done
            again modprobe -r ib_srp
            """)


class Nfs(Ulp):
    """NFS version 4.2 over RDMA; the server's file system is a tmpfs."""

    def serve(self):
        self.on_target("""
            set -e
            modprobe -a nfsd rpcrdma
            mkdir -p /srv/nfs /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs
            mount -t tmpfs share /srv/nfs
            mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
            touch /var/lib/nfs/etab /var/lib/nfs/rmtab
            exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 \
                '*:/srv/nfs'
            pidof rpc.mountd >/dev/null || rpc.mountd -N 3
            echo 10 >/proc/fs/nfsd/nfsv4leasetime
            echo 10 >/proc/fs/nfsd/nfsv4gracetime
            rpc.nfsd -N 3 --no-udp --rdma=20049 4
            echo Y >/proc/fs/nfsd/v4_end_grace
            """)

    def unserve(self):
        self.on_target("""
            set -e
            rpc.nfsd 0
            exportfs -au; kill $(pidof rpc.mountd)
            again umount /srv/nfs
            umount /proc/fs/nfsd
            again modprobe -r nfsd
            again modprobe -r rpcrdma
            """)

    def connect(self):
        self.on_host(f"""
            set -e
            mkdir -p /run/nfs
            modprobe rpcrdma
            mount -t nfs4 -o proto=rdma,port=20049,vers=4.2,timeo=50 \
                {self.address}:/ /run/nfs
            """)

    def disconnect(self):
        self.on_host("""
            set -e
            umount /run/nfs
            again modprobe -r nfsv4 nfs
            again modprobe -r rpcrdma
            """)

    def write(self, count):
        return f"""
            head -c {count}M /dev/urandom >/tmp/data
            dd if=/tmp/data of=/run/nfs/data bs=256k conv=fsync status=none
            echo 3 >/proc/sys/vm/drop_caches
            sha256sum </run/nfs/data >/tmp/sum
            sha256sum </tmp/data | same_sum
            """

    def anew(self):
        """The file was on a tmpfs, so a program that has it open gets an
        error."""
        return self.tried_again(100)

    def compare(self, count):
        there = self.on_target("sha256sum </srv/nfs/data")
        assert there == self.on_host("sha256sum </tmp/data")


SOCKETS = "/usr/share/fakernic/ulp_sockets.py"


class Sockets(Ulp):
    """A service used by sockets: an echo server, whose answers are compared."""

    def serve(self):
        self.on_target(f"modprobe -a {' '.join(self.modules)}")
        self.job = self.target.guest.start(
            f"exec python3 {SOCKETS} serve {self.family} {self.address}", 600)
        self.on_target(f"again test -e /run/ulp_{self.family}")

    def unserve(self):
        self.target.guest.run(f"kill {self.job.pid}; rm -f /run/ulp_{self.family}")
        self.job.wait()
        self.unload(self.target)

    def connect(self):
        """Checks that a queue pair of the kernel exists, so that data uses
        RDMA."""
        self.on_host(f"modprobe -a {' '.join(self.modules)}")
        self.on_host(self.write(1))
        qps = self.on_host("rdma resource show qp")
        assert f"comm [{self.owner}]" in qps, qps

    def disconnect(self):
        self.unload(self.host)

    def unload(self, port):
        port.guest.check(FUNCTIONS + "\n".join(
            f"again modprobe -r {name}" for name in reversed(self.modules)), LIMIT)

    def write(self, count):
        return (f"python3 {SOCKETS} ask {self.family} {self.address} "
                f"{self.host.ip4} {count}\n")

    def compare(self, count):
        """The program has compared the data."""


class Rds(Sockets):
    """Reliable datagram sockets."""

    modules = ("rds", "rds_rdma")
    family = "rds"
    owner = "rdma_cm"

    def stubborn(self):
        """A datagram to a peer that does not listen yet is lost, and its
        answer."""
        return self.tried_again(20)


class Smc(Sockets):
    """Shared memory communications: TCP sockets over RDMA. Version 1 needs
    GIDs of RoCE version 1; with version 2 both guests are in one "enterprise".
    The kernel retries for about a second, so a longer link loss ends
    connections. A waiting side checks its peer every two seconds (30 by
    default)."""

    modules = ("smc",)
    family = "smc"
    owner = "smc"

    def serve(self):
        self.join(self.target)
        super().serve()

    def connect(self):
        self.join(self.host)
        self.connect_again()

    @staticmethod
    def join(port):
        port.guest.check(f"""
            set -e
            modprobe smc
            echo 2 >/proc/sys/net/smc/smcr_testlink_time
            python3 {SOCKETS} join FAKERNIC""")

    def write_until_stopped(self):
        """Returns a job that writes over RDMA until its connection ends. A
        connection that SMC-R falls back from uses TCP, and is made again."""
        for _ in range(3):
            before = self.host.counters()["rx_roce"]
            job = self.host.guest.start(self.write(1 << 20), 300)
            deadline = time.monotonic() + 20 * self.host.vm.patience
            while time.monotonic() < deadline:
                assert job.poll() is None, job.result
                if self.host.counters()["rx_roce"] > before + 100:
                    return job
                time.sleep(0.1)
            job.kill()
            job.wait()
        raise AssertionError("SMC-R has fallen back to TCP")

    def connect_again(self):
        """Connects until RDMA is used: before SMC-R knows the port it falls
        back to TCP."""
        deadline = time.monotonic() + LIMIT * self.host.vm.patience
        asked = []
        while time.monotonic() < deadline:
            asked.append(self.host.guest.run(
                self.write(1) + "rdma resource show qp", ASKS_S))
            if asked[-1].ok and f"comm [{self.owner}]" in asked[-1].out:
                return
            time.sleep(0.2)
        raise AssertionError(f"{len(asked)} tries did not use RDMA: "
                             f"{asked[0]} ... {asked[-1]}"
                             + "".join(port.guest.run(STATE).out
                                       for port in self.ports))


ULPS = {"nvme": Nvme, "iser": Iser, "srp": Srp, "nfs": Nfs, "rds": Rds,
        "smc": Smc}


def counts(ports):
    """Returns the counts of `rdma resource` without CQs, as the core keeps its
    own."""
    return [nvme.counts(port) for port in ports]


def nothing_left(ports, before):
    deadline = time.monotonic() + 20
    while (now := counts(ports)) != before:
        assert time.monotonic() < deadline, (now, before)
        time.sleep(0.2)


class Writing:
    """Writes and compares data, or runs SCRIPT, repeatedly until stop(). START
    creates its job."""

    def __init__(self, ulp, timeout, count=4, script=None, start=None):
        self.ulp = ulp
        self.timeout = timeout
        ulp.on_host("rm -f /tmp/enough; : >/tmp/io")
        self.job = (start or ulp.host.guest.start)(FUNCTIONS + f"""
            set -e
            until [ -e /tmp/enough ]; do
                {script or ulp.write(count)}
                date >>/tmp/io
            done
            """, timeout)
        self.goes_on(1)

    def goes_on(self, times=2):
        """Waits for that many more rounds."""
        self.ulp.on_host(f"""
            wanted=$(($(wc -l </tmp/io) + {times}))
            for i in $(seq {5 * self.timeout}); do
                [ $(wc -l </tmp/io) -ge $wanted ] && exit
                kill -0 {self.job.pid} || exit 1
                sleep 0.2
            done
            exit 1""", self.timeout)

    def stop(self):
        self.ulp.on_host("touch /tmp/enough")
        result = self.job.wait()
        assert result.ok, result
