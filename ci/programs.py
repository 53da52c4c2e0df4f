#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs for tests/vm that the guest image does not have, on disks of their
own: programs.py [--long]. Run inside the root, after build.py guest-test.

/cache/images/programs.erofs has libfabric's own tests, which Debian has in its
source only, and the programs of tests/vm/guest/programs and guest/mpi; their
libraries are in guest-test.erofs.

With --long also /cache/images/programs-long.erofs, for make test-programs. It
has a folder for each part of PARTS: kernel modules that Debian does not build,
packages of Debian with the libraries that a guest lacks, and programs built
here. Instead of a part that could not be fetched or built the disk has a file
PART.missing with one line, which the test of that part reports.
"""

import shutil
import sys
from pathlib import Path

import build
import image
from build import BUILD, JOBS, SOURCES as FETCHED, SRC, StepFailed

# The tests of libfabric that tests/vm/fakernic_test/programs.py runs.
FABTESTS = [
    *(f"benchmarks/fi_{name}" for name in (
        "msg_pingpong", "msg_bw", "rma_bw", "rma_pingpong", "rdm_pingpong",
        "rdm_tagged_pingpong", "rdm_tagged_bw", "rdm_cntr_pingpong")),
    *(f"functional/fi_{name}" for name in (
        "av_xfer", "cm_data", "cq_data", "flood", "msg", "msg_epoll",
        "multi_ep", "multi_recv", "rdm", "rdm_atomic", "rdm_multi_client",
        "rdm_rma_event", "rdm_tagged_peek", "shared_ctx", "unexpected_msg")),
    *(f"unit/fi_{name}_test" for name in (
        "av", "cntr", "cq", "dom", "eq", "mr"))]
OPTIONS = ["--disable-efa", "--disable-lpp", "--disable-shared"]
SOURCES = image.GUEST / "programs"
SPEC = SRC / "firmware-spec"
TARGET = BUILD / "fabtests"
# tests/vm/guest/mpi is compiled for each: name -> library. Headers: root-test.sh.
MPI = {"mpich": "libmpich.so.12"}
MPI_SOURCES = image.GUEST / "mpi"


def make_fabtests(this):
    source = build.unpack(this, "libfabric") / "fabtests"
    if not (source / "configure").exists():
        this.run("./autogen.sh", cwd=source)
    build.configure(this, source, TARGET, OPTIONS, [source / "configure"],
                    cwd=TARGET)
    this.run("make", "-C", TARGET, f"-j{JOBS}", *FABTESTS)


def make_mpi(this, root):
    for source in sorted(MPI_SOURCES.glob("*.c")):
        for name, library in MPI.items():
            this.run("gcc", "-O2", "-Wall", "-Wextra", "-Werror",
                     "-isystem", f"/opt/mpi/{name}", "-o",
                     root / f"{source.stem}.{name}", source,
                     f"/{image.LIBRARIES}/{library}")


def build_programs():
    build.build_root_test()
    build.build_provider()      # its tree has the verbs headers
    key = build.digest([build.source_name("libfabric"), FABTESTS, OPTIONS,
                        *image.versions("lib(fabric|ucx)-dev|mpich")],
                       [__file__, SOURCES, MPI_SOURCES, SPEC / "include",
                        SPEC / "driver.c", image.GUEST / "meet.h",
                        image.GUEST / "verbs_pair.h"])
    with build.step("programs", key, "programs written for cards") as this:
        if this is None:
            return
        make_fabtests(this)
        root = image.STAGE / "programs"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for name in FABTESTS:
            shutil.copy(TARGET / name, root)
        for source in sorted(SOURCES.glob("*.c")):
            this.run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{SPEC}",
                     f"-I{SPEC}/include", f"-I{image.RDMA}/include", "-o",
                     root / source.stem, source, "-Wl,--as-needed", "-lucp",
                     "-lucs")
        make_mpi(this, root)
        image.strip_programs(this, root)
        image.IMAGES.mkdir(parents=True, exist_ok=True)
        image.erofs(this, root, "programs.erofs")


# ---- for make test-programs only ---------------------------------------------

LONG = BUILD / "programs-long"
LONG_SOURCES = image.GUEST / "programs-long"
FETCH_LINUX = SRC / "ci/fetch-linux.sh"
FETCH_PACKAGES = SRC / "ci/fetch-packages.sh"
KERNEL = build.KERNELS[0]
# Folders of Linux with the modules, and folders with headers that they include.
MODULES = ("drivers/infiniband/ulp/rtrs", "drivers/block/rnbd", "fs/smb/server",
           "fs/smb/client")
MODULES_NEED = ("fs/smb/common", "fs/nls")
# Options that Debian's kernel does not set. Both make and the compiler get them.
MODULE_OPTIONS = {"INFINIBAND_RTRS": "m", "INFINIBAND_RTRS_CLIENT": "m",
                  "INFINIBAND_RTRS_SERVER": "m", "BLK_DEV_RNBD_CLIENT": "m",
                  "BLK_DEV_RNBD_SERVER": "m", "SMB_SERVER_SMBDIRECT": "y",
                  "CIFS_SMB_DIRECT": "y"}
CEPH_PROGRAMS = ("ceph_perf_msgr_server", "ceph_perf_msgr_client")
VALKEY_OPTIONS = ["BUILD_RDMA=yes", "MALLOC=libc", "OPTIMIZATION=-O1",
                  "USE_SYSTEMD=no",
                  "RDMA_LIBS=-l:librdmacm.so.1 -l:libibverbs.so.1",
                  f"CFLAGS=-I{image.RDMA}/include"]


def write_guest_status(path):
    """Writes a dpkg status file that lists only the packages of a guest."""
    status = image.STATUS.read_text(encoding="utf-8")
    names = image.guest_packages(status, "guest", "guest-test")
    stanzas = (stanza for stanza in status.split("\n\n")
               if stanza.partition("\n")[0].removeprefix("Package: ") in names)
    path.write_text("\n\n".join(stanzas) + "\n", encoding="utf-8")


def fetch_packages(this, folder, *names):
    """Fetches packages (NAMES as for ci/fetch-packages.sh) and removes their documents."""
    status = Path(f"{folder}.status")
    write_guest_status(status)
    this.run(FETCH_PACKAGES, folder, status, *names)
    for name in ("doc", "man", "locale", "lintian"):
        shutil.rmtree(folder / "usr/share" / name, ignore_errors=True)


def make_modules(this, folder):
    """Builds MODULES for the guest's kernel from Debian's source. Compiles asn1_compiler,
    which Debian's headers lack."""
    this.run(FETCH_LINUX, KERNEL)
    source = FETCHED / f"linux-{KERNEL}"
    copy = Path(f"{folder}.build")
    shutil.rmtree(copy, ignore_errors=True)
    for name in (*MODULES, *MODULES_NEED):
        shutil.copytree(source / name, copy / name)
    (copy / "Kbuild").write_text(
        "obj-m := " + " ".join(f"{name}/" for name in MODULES) + "\n")
    compiler = copy / "asn1_compiler"
    this.run("gcc", "-O2", f"-I{source}/include", "-o", compiler,
             source / "scripts/asn1_compiler.c")
    for grammar in sorted(copy.glob("fs/smb/*/*.asn1")):
        this.run(compiler, grammar, f"{grammar}.c", f"{grammar}.h")
    defines = " ".join(f"-DCONFIG_{name}{'_MODULE' * (value == 'm')}=1"
                       for name, value in MODULE_OPTIONS.items())
    this.run("make", "-C", f"{image.kernel_folder(KERNEL)}.headers", f"M={copy}",
             f"-j{JOBS}", f"KCFLAGS=-I{copy}/{MODULES[0]} {defines}",
             *(f"CONFIG_{name}={value}" for name, value in
               MODULE_OPTIONS.items()), "modules")
    for module in copy.rglob("*.ko"):
        shutil.copy(module, folder)
        this.run("strip", "--strip-debug", folder / module.name)


def make_openmpi(this, folder):
    fetch_packages(this, folder, "openmpi-bin")
    headers = Path(f"{folder}.headers")
    fetch_packages(this, headers, "--", "libopenmpi-dev")
    (folder / "bin").mkdir()
    for source in sorted(MPI_SOURCES.glob("*.c")):
        this.run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem",
                 headers / image.LIBRARIES / "openmpi/include", "-o",
                 folder / "bin" / f"{source.stem}.openmpi", source,
                 f"-L{folder / image.LIBRARIES}", "-l:libmpi.so.40")


def make_ceph(this, folder):
    """Fetches a package of 170 MB and keeps two programs."""
    fetch_packages(this, folder, "librados2", "libgoogle-perftools4t64", "--",
                   "ceph-test")
    for path in (folder / "usr/bin").iterdir():
        if path.name not in CEPH_PROGRAMS:
            path.unlink()


def make_rpma(this, folder):
    headers = Path(f"{folder}.headers")
    fetch_packages(this, folder, "librpma0")
    fetch_packages(this, headers, "--", "librpma-dev")
    (folder / "bin").mkdir()
    this.run("gcc", "-O2", "-Wall", "-Wextra", "-Werror",
             f"-I{image.RDMA}/include", "-isystem", headers / "usr/include", "-o",
             folder / "bin/rpma_verify", LONG_SOURCES / "rpma_verify.c",
             f"-L{folder / image.LIBRARIES}", "-l:librpma.so.0",
             "-l:libibverbs.so.1", "-l:librdmacm.so.1")


def make_valkey(this, folder):
    """Builds the server and its own RDMA test from Debian's source."""
    tar = Path("/opt/sources/valkey")
    tar.mkdir(parents=True, exist_ok=True)
    this.run("apt-get", "update", "--error-on=any")
    this.run("apt-get", "source", "--download-only", "--tar-only", "valkey",
             cwd=tar)
    source = build.unpack(this, "valkey")
    this.run("make", "-C", source / "src", f"-j{JOBS}", *VALKEY_OPTIONS,
             "valkey-server")
    (folder / "bin").mkdir()
    shutil.copy(source / "src/valkey-server", folder / "bin")
    this.run("gcc", "-O2", f"-I{image.RDMA}/include", "-o",
             folder / "bin/rdma-test", source / "tests/rdma/rdma-test.c",
             "-l:librdmacm.so.1", "-l:libibverbs.so.1", "-lpthread")


def fetched(*names):
    """A function that makes a part from Debian packages alone."""
    return lambda this, folder: fetch_packages(this, folder, *names)


# Name -> the function that makes it, and its input files.
PARTS = {"modules": (make_modules, [FETCH_LINUX]),
         "openmpi": (make_openmpi, [FETCH_PACKAGES, MPI_SOURCES]),
         "ceph": (make_ceph, [FETCH_PACKAGES]),
         "rpma": (make_rpma, [FETCH_PACKAGES, LONG_SOURCES]),
         "valkey": (make_valkey, []),
         "ksmbd": (fetched("ksmbd-tools"), [FETCH_PACKAGES]),
         "libiscsi": (fetched("libiscsi-bin", "qemu-utils", "qemu-block-extra"),
                      [FETCH_PACKAGES])}


def build_part(name):
    """Makes a part. Returns the reason if that failed, else None."""
    make, inputs = PARTS[name]
    folder = LONG / name
    key = build.digest([image.kernel_version(KERNEL), VALKEY_OPTIONS],
                       [__file__, *inputs])
    try:
        with build.step(f"program-{name}", key, f"programs: {name}") as this:
            if this is not None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                make(this, folder)
                image.strip_programs(this, folder)
    except StepFailed as failure:
        print(f"fakernic: {failure}", file=sys.stderr)
        return str(failure)
    return ""


def build_long():
    missing = {name: build_part(name) for name in PARTS}
    stamps = [(BUILD / f"program-{name}.stamp").read_text()
              for name, why in missing.items() if not why]
    key = build.digest([*stamps, missing], [__file__])
    with build.step("programs-long", key, "programs of test-programs") as this:
        if this is None:
            return
        root = image.STAGE / "programs-long"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for name, why in missing.items():
            if why:
                (root / f"{name}.missing").write_text(f"{why}\n")
            else:
                this.run("cp", "-a", LONG / name, root)
        image.erofs(this, root, "programs-long.erofs")


if __name__ == "__main__":
    try:
        build_programs()
        if "--long" in sys.argv[1:]:
            build_long()
    except StepFailed as failure:
        sys.exit(f"fakernic: {failure}")
