# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of Debian's archive that test_archive.py runs, as pairs of
rdma.run_pair() or as a script of one guest."""

import shlex
from contextlib import contextmanager

from . import rdma
from .lab import PROGRAMS, mount
from .programs import FOLDER, HIDE

FIO_PORT = 7171
FIO_LIMIT_S = 40
FIO_MEMORY = "/tmp/fio.kept"
RSOCKETS_LIMIT_S = 40
PATTERN = "0123abcd"
RSOCKETS = ("env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so")
CONFIG = """Host *
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ConnectTimeout 60
"""
SSHD = """
    mkdir -p -m 700 /root/.ssh /run/sshd
    [ -e /tmp/hostkey ] || ssh-keygen -q -t ed25519 -N '' -f /tmp/hostkey
    /usr/sbin/sshd -f /dev/null -h /tmp/hostkey -o UsePAM=no \
        -o PidFile=/tmp/mpi.pid
    """


def prepare(ports):
    """Mounts the programs' disk and gives these guests names."""
    assert PROGRAMS.exists(), f"no {PROGRAMS.name}: ci/enter.sh ci/programs.py"
    for port in ports:
        mount(port.guest, PROGRAMS, FOLDER)
        port.guest.check(HIDE)


# ---- MPI --------------------------------------------------------------------

@contextmanager
def met_by_ssh(ports):
    """Inside, root can log in from each guest to each other one, with a key
    for this."""
    first = ports[0].guest
    first.check("rm -f /tmp/mpi.key*; "
                "ssh-keygen -q -t ed25519 -N '' -f /tmp/mpi.key", 60)
    key, public = (first.check(f"cat /tmp/mpi.key{end}")
                   for end in ("", ".pub"))
    for port in ports:
        port.guest.check(SSHD, 60)
        for name, text in (("mpi", key), ("authorized_keys", public),
                           ("config", CONFIG + "    IdentityFile ~/.ssh/mpi\n")):
            port.guest.write(f"/root/.ssh/{name}", text)
        port.guest.check("chmod 600 /root/.ssh/*")
    try:
        yield
    finally:
        for port in ports:
            port.guest.run("kill $(cat /tmp/mpi.pid); rm -rf /root/.ssh")


def ucx(port, transport):
    """Returns the environment that UCX needs; see programs.ucx_job()."""
    return {"UCX_TLS": f"{transport},self,sm", "UCX_MODULES": "^rocm",
            "UCX_NET_DEVICES": f"{port.ibdev}:1",
            "UCX_IB_GID_INDEX": str(port.gid_index()),
            "UCX_LOG_LEVEL": "warn"}


def mpich(ports, each, environment):
    """Returns the command that starts EACH processes in each guest."""
    words = ["mpiexec.mpich", "-n", str(each * len(ports)), "-hosts",
             ",".join(f"{port.ip4}:{each}" for port in ports)]
    for name, value in environment.items():
        words += ["-genv", name, value]
    return shlex.join([*words, f"{FOLDER}/mpi_verify.mpich"])


# ---- the others -------------------------------------------------------------

def fio(server, client, verb):
    """Runs fio's rdma engine, whose server keeps its memory in a file.

    fio unlinks that file, so it gets another name. The client always initiates
    the transfer, with any verb. fio sets rnr_retry_count to 0, so a SEND
    without a receive is lost and fio hangs. The server has half a second to
    post a receive for each. If it stands still for longer the run is repeated.
    """
    for _ in range(3):
        pair = fio_once(server, client, verb)
        if "RNR retry counter exceeded" not in f"{pair.client}":
            break
    return pair


def fio_once(server, client, verb):
    depth = 64 if verb == "send" else 8
    server.guest.check(f"cd /tmp; rm -f fio.memory {FIO_MEMORY}; "
                       f"truncate -s 4104k fio.memory; ln fio.memory {FIO_MEMORY}")
    common = (f"timeout {FIO_LIMIT_S} fio --name=job --ioengine=rdma --thread "
              f"--bs=64k --size=4m --port={FIO_PORT}")
    return rdma.run_pair(
        server, client,
        f"{common} --iodepth={depth} --rw=read --mem=mmapshared:/tmp/fio.memory",
        f"{common} --iodepth=8 --rw=write --verb={verb} --hostname={server.ip4} "
        f"--buffer_pattern=0x{PATTERN}", "cm", FIO_LIMIT_S + 10)


def fio_words(port):
    """Returns the first 512 KiB of the server's memory, which eight requests
    fill: 32-bit words, each with its count."""
    text = port.guest.check("od -N 524288 -An -v -t x4 -w4 --endian=big "
                            f"{FIO_MEMORY} | sort | uniq -c")
    return {word: int(count) for count, word in
            (line.split() for line in text.splitlines())}


def by_rsockets(server, client, command, other):
    """Runs two TCP programs over rsockets."""
    return rdma.run_pair(
        server, client, f"timeout {RSOCKETS_LIMIT_S} {RSOCKETS} {command}",
        f"timeout {RSOCKETS_LIMIT_S} {RSOCKETS} {other}", "cm",
        RSOCKETS_LIMIT_S + 10)
