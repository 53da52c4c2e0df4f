# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs and kernel modules of the disk that `ci/programs.py --long` makes:
RNBD and SMB Direct, Open MPI, Ceph's messenger, librpma, Valkey, libiscsi.

A guest sees the packages' files below /usr, as if they were installed.
"""

from contextlib import contextmanager

from fakernic_lab import images

from . import archive, rdma, ulp
from .lab import mount

IMAGE = images.images() / "programs-long.erofs"
FOLDER = "/opt/long"
# The disk, if it was made, and more memory than usual, for RTRS and Ceph.
OPTIONS = {"memory": 1024,
           "extra": tuple(images.disk(IMAGE)) if IMAGE.exists() else ()}
PREPARE = f"""
    set -e
    cd {FOLDER}
    [ -d $part ] || {{ cat $part.missing >&2; exit 1; }}
    [ ! -e /run/long ] || exit 0
    usr=$(ls -d $PWD/*/usr | tr '\\n' ':')/usr
    mount -t overlay -o lowerdir=$usr overlay /usr
    cp -rn $PWD/*/etc/. /etc/
    touch /run/long
    """
# Inserts modules of the disk, each after its dependencies. A module's options
# follow its name: load ksmbd, load "rtrs-server sess_queue_depth=64".
LOAD = f"""
    load() {{
        for words; do
            set -- $words
            file={FOLDER}/modules/$1.ko
            shift
            for needs in $(modinfo -F depends $file | tr , ' '); do
                [ -e /sys/module/${{needs//-/_}} ] || modprobe $needs
            done
            insmod $file "$@"
        done
    }}
    """
MEBIBYTE = 1 << 20
QEMU_IO_LIMIT_S = 60


def prepare(ports, part):
    """Mounts the disk in both guests; fails if the disk lacks this part."""
    assert IMAGE.exists(), f"no {IMAGE.name}: ci/enter.sh ci/programs.py --long"
    for port in ports:
        mount(port.guest, IMAGE, FOLDER)
        port.guest.check(f"part={part}\n{PREPARE}")


@contextmanager
def by_rdma(ports, size):
    """Inside, at least SIZE bytes must use RDMA, by the counters of both
    cards."""
    def sent():
        return sum(port.counters()["tx_roce_bytes"] for port in ports)

    before = sent()
    yield
    moved = sent() - before
    assert moved >= size, f"{moved} bytes used RDMA, expected {size}"


# ---- kernel modules ----------------------------------------------------------

def qemu_io(ports, it, size, patterns):
    """Returns the Result of qemu-io, which opens IT's disk by libiscsi's iSER,
    writes bytes, and compares what it reads."""
    commands = " ".join(f"-c 'write -P {value} {at} {size}' "
                        f"-c 'read -P {value} {at} {size}'"
                        for at, value in patterns.items())
    return ports[-1].guest.run(
        f"timeout {QEMU_IO_LIMIT_S} qemu-io -f raw {commands} "
        f"iser://{it.address}/{it.iqn}/0", QEMU_IO_LIMIT_S + 10)


class Rnbd(ulp.Disk):
    """A RAM disk by RNBD over RTRS. The server has 64 chunks of 128 KiB per
    connection instead of 512."""

    pattern = "rnbd"

    def serve(self):
        self.on_target(f"""{LOAD}
            set -e
            {ulp.RAMDISK}
            load rtrs-core "rtrs-server sess_queue_depth=64" rnbd-server
            """)

    def unserve(self):
        self.on_target("""
            set -e
            again rmmod rnbd_server rtrs_server rtrs_core
            again modprobe -r brd
            """)

    def connect(self):
        path = f"ip:{self.host.ip4}@ip:{self.address}"
        self.disk = self.new_disk(f"""{LOAD}
            load rtrs-core rtrs-client rnbd-client
            echo "sessname=fakernic path={path} device_path=/dev/ram0" \
                >/sys/class/rnbd-client/ctl/map_device
            """)

    def disconnect(self):
        self.on_host(f"""
            set -e
            echo normal >/sys/block/{self.disk[5:]}/rnbd/unmap_device
            again rmmod rnbd_client rtrs_client rtrs_core
            """)


SHARE = """[global]
    workgroup = FAKERNIC
[share]
    path = /srv/smb
    read only = no
"""


class Smb(ulp.Ulp):
    """SMB 3.1.1 over SMB Direct: ksmbd's share on a tmpfs, with Linux's
    client. Nothing uses TCP."""

    def serve(self):
        self.on_target("mkdir -p /srv/smb /etc/ksmbd; mount -t tmpfs share /srv/smb")
        self.target.guest.write("/etc/ksmbd/ksmbd.conf", SHARE)
        self.on_target(f"""{LOAD}
            set -e
            load ksmbd
            ksmbd.adduser -a -p secret fakernic
            ksmbd.mountd
            again sh -c '{rdma.LISTENS_CM}'
            """)

    def unserve(self):
        self.on_target("""
            set -e
            ksmbd.control -s
            again rmmod ksmbd
            again umount /srv/smb
            """)

    def connect(self):
        self.on_host(f"""{LOAD}
            set -e
            load cifs
            mkdir -p /run/smb
            mount -i -t cifs //{self.address}/share /run/smb -o ip={self.address},\
username=fakernic,password=secret,vers=3.1.1,rdma,cache=none
            """)

    def disconnect(self):
        self.on_host("umount /run/smb && again rmmod cifs")

    def write(self, count):
        return f"""
            head -c {count}M /dev/urandom >/tmp/data
            dd if=/tmp/data of=/run/smb/data bs=256k conv=fsync status=none
            dd if=/run/smb/data bs=256k status=none | sha256sum >/tmp/sum
            sha256sum </tmp/data | same_sum
            [ -z "$(ss -Htn 'dport = :445')" ]
            """

    def compare(self, count):
        there = self.on_target("sha256sum </srv/smb/data")
        assert there == self.on_host("sha256sum </tmp/data")


# ---- Open MPI ----------------------------------------------------------------

MPI_LIMIT_S = 150


def openmpi_by_ucx(port):
    """Returns the options, environment and argument for UCX. Without "pml ucx"
    Open MPI silently uses TCP. UCX's strong fence needs a key that UCX creates
    only for mlx5 (programs.FENCE)."""
    return (["--mca", "pml", "ucx", "--mca", "osc", "ucx"],
            {**archive.ucx(port, "rc"), "UCX_FENCE_MODE": "weak"}, "")


def openmpi_by_libfabric(port):
    """Returns the same for libfabric, with messages only. Open MPI 5 has no
    one-sided access over libfabric's verbs, and MPI_Win_allocate() fails with
    MPI_ERR_WIN."""
    return (["--mca", "pml", "cm", "--mca", "mtl", "ofi"],
            {"FI_PROVIDER": "verbs,ofi_rxm",
             "FI_VERBS_GID_IDX": str(port.gid_index())}, "-m")


OPENMPI = {"ucx": openmpi_by_ucx, "libfabric": openmpi_by_libfabric}


def name_nodes(ports):
    """Gives the guests names: PRRTE counts slots by name and finds none for
    addresses."""
    lines = "".join(f"{port.ip4} node{port.number}\n" for port in ports)
    for port in ports:
        port.guest.check(f"grep -q node{port.number} /etc/hosts || "
                         f"printf '{lines}' >>/etc/hosts")


def openmpi(ports, layer):
    """Returns the Result of mpi_verify, with one process on each machine."""
    name_nodes(ports)
    options, environment, argument = OPENMPI[layer](ports[0])
    words = ["mpirun.openmpi", "--allow-run-as-root", "-np", str(len(ports)),
             "--host", ",".join(f"node{port.number}:1" for port in ports),
             *options]
    for name, value in environment.items():
        words += ["-x", f"{name}={value}"]
    command = " ".join([*words, f"{FOLDER}/openmpi/bin/mpi_verify.openmpi",
                        argument])
    with archive.met_by_ssh(ports):
        return ports[0].guest.run(
            f"cd /tmp && timeout {MPI_LIMIT_S} {command}", MPI_LIMIT_S + 10)


# ---- Ceph --------------------------------------------------------------------

CEPH_PORT = 7000
CEPH_LIMIT_S = 60
# Without these options the programs use TCP, whatever the file's types are.
CEPH_OPTIONS = ("-c /etc/ceph/ceph.conf --ms_type async+rdma "
                "--ms_public_type async+rdma --ms_cluster_type async+rdma")
# The default buffers need 4 GB.
CEPH = """[global]
ms_async_op_threads = 1
ms_async_rdma_device_name = {port.ibdev}
ms_async_rdma_gid_idx = {index}
ms_async_rdma_roce_ver = 2
ms_async_rdma_send_buffers = 128
ms_async_rdma_receive_buffers = 256
ms_async_rdma_receive_queue_len = 128
ms_crc_data = true
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
log_to_stderr = true
"""


def ceph(ports, messages, size):
    """Runs the client of Ceph's messenger; the server answers each message.
    The receiver compares the CRC-32C of each part of a message."""
    server, client = ports
    for port in ports:
        port.guest.check("mkdir -p /etc/ceph")
        port.guest.write("/etc/ceph/ceph.conf",
                         CEPH.format(port=port, index=port.gid_index()))
    job = server.guest.start(
        f"exec ceph_perf_msgr_server {CEPH_OPTIONS} "
        f"{server.ip4}:{CEPH_PORT} 1 0",
        2 * CEPH_LIMIT_S)
    listens = rdma.LISTENS_TCP.format(port=CEPH_PORT)
    server.guest.check(f"for i in $(seq 300); do {listens} && exit; "
                       f"kill -0 {job.pid} || exit 1; sleep 0.1; done; exit 1")
    result = client.guest.run(
        f"timeout {CEPH_LIMIT_S} ceph_perf_msgr_client {CEPH_OPTIONS} "
        f"{server.ip4}:{CEPH_PORT} 1 4 {messages} 0 {size}", CEPH_LIMIT_S + 10)
    server.guest.run(f"kill {job.pid}")
    job.wait()
    return result


# ---- the others --------------------------------------------------------------

def rpma(ports):
    server, client = ports
    program = f"LD_LIBRARY_PATH= {FOLDER}/rpma/bin/rpma_verify"
    return rdma.run_pair(server, client, f"{program} {server.ip4}",
                         f"{program} -c {server.ip4}", "cm")


VALKEY_LIMIT_S = 150


def valkey(ports, threads):
    """Returns the Result of rdma-test. Each thread writes keys, reads and
    compares them, and waits at most 1 s for an answer."""
    server, client = ports
    job = server.guest.start(
        f"export LC_ALL=C; exec {FOLDER}/valkey/bin/valkey-server --port 0 "
        f"--rdma-port 6379 --rdma-bind {server.ip4} --save '' --dir /tmp "
        "--protected-mode no", 2 * VALKEY_LIMIT_S)
    server.guest.check(f"for i in $(seq 300); do {rdma.LISTENS_CM} && exit; "
                       "sleep 0.1; done; exit 1")
    result = client.guest.run(
        f"timeout {VALKEY_LIMIT_S} {FOLDER}/valkey/bin/rdma-test "
        f"--thread {threads} -h {server.ip4}", VALKEY_LIMIT_S + 10)
    server.guest.run(f"kill {job.pid}")
    job.wait()
    return result
