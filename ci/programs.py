#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs for tests/vm which the guest image has not, on a disk:
/cache/images/programs.erofs. Run inside the root, after build.py guest-test.

libfabric's own tests, which Debian has in its source only, and the programs of
tests/vm/guest/programs and guest/mpi; their libraries are in guest-test.erofs.
"""

import shutil
import sys

import build
import image
from build import BUILD, JOBS, SRC, StepFailed

# Of libfabric's tests, those that tests/vm/fakernic_test/programs.py runs.
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
    build.build_provider()      # whose tree has the headers of verbs
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


if __name__ == "__main__":
    try:
        build_programs()
    except StepFailed as failure:
        sys.exit(f"fakernic: {failure}")
