#!/usr/bin/env python3
# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""providers.py BUILD OUT [RELEASES...]: builds a provider for each libibverbs.

BUILD is the build folder of an rdma-core 56 that overlay.sh has changed. The
results are OUT/RELEASES/libfakernic-rdmavABI.so, one for each "provider" line of
ci/versions, for example OUT/62-63/libfakernic-rdmav59.so.

libibverbs loads only a provider whose file name and symbols have the number of
its private interface. The sources of most releases are not here. So this program
writes the headers of a release itself: it takes those of 56 and applies the
differences below. It links the provider with a stub of libibverbs, which has the
symbols of 56 with the number of the release.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
sys.path.insert(0, str(TOP / "tests/lab"))

from fakernic_lab import versions   # noqa: E402

BASE = 56

# Members that releases added to a structure: the release, the member, and the
# member before it (None: it is the first). Only two members have a type here,
# because the provider sets only these.
REG_MR_EX = "struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct ibv_mr_init_attr *)"
PORT_SPEED = "int (*query_port_speed)(struct ibv_context *, uint32_t, uint64_t *)"
ADDED = {
    "verbs_context_ops": (
        (59, "alloc_dmah", "alloc_dm"),
        (59, "dealloc_dmah", "create_wq"),
        (59, REG_MR_EX, "reg_mr"),
        (62, "dm_export_dmabuf_fd", "detach_mcast"),
        (62, PORT_SPEED, "query_port"),
        (64, "alloc_buf", "advise_mr"),
        (64, "free_buf", "dm_export_dmabuf_fd"),
        (65, "create_comp_cntr", "create_ah"),
        (65, "destroy_comp_cntr", "destroy_ah"),
        (65, "inc_comp_cntr", "import_pd"),
        (65, "inc_err_comp_cntr", "inc_comp_cntr"),
        (65, "qp_attach_comp_cntr", "post_srq_recv"),
        (65, "query_comp_cntr_caps", "qp_attach_comp_cntr"),
        (65, "read_comp_cntr", "query_srq"),
        (65, "read_err_comp_cntr", "read_counters"),
        (65, "set_comp_cntr", "resize_cq"),
        (65, "set_err_comp_cntr", "set_ece"),
    ),
    "verbs_context": (
        (59, "alloc_dmah", None),
        (59, "dealloc_dmah", None),
        (59, "reg_mr_ex", None),
        (62, "dm_export_dmabuf_fd", None),
        (64, "alloc_buf", None),
        (64, "free_buf", None),
    ),
    # 56 has these; they are removed for older releases.
    "ibv_qp_ex": (
        (44, "wr_atomic_write", "wr_abort"),
        (45, "wr_flush", "wr_atomic_write"),
    ),
}

# Arguments that releases added to a function: the release, the function, and the
# argument before the new one. The provider passes NULL for it.
ARGUMENTS = (
    (57, "ibv_cmd_get_context", "cmd_size"),
    (59, "ibv_cmd_create_cq_ex", "cq_attr"),
    (64, "ibv_cmd_create_qp_ex2", "resp_size"),
)

# Macros that tell compat.h what a release lacks. Each is defined for all releases
# before the one in its row.
LACKS = (
    (44, "FAKERNIC_LACK_ATOMIC_WRITE"),
    (45, "FAKERNIC_LACK_FLUSH"),
    (62, "FAKERNIC_LACK_PORT_SPEED"),
)

# The argument of ibv_reg_mr_ex(3), with the fields that the provider reads.
REG_MR_EX_RELEASE = 59
REG_MR_EX_TYPES = """#pragma once
#include <stddef.h>
#include <stdint.h>
struct ibv_dmah;
struct ibv_mr_init_attr {
	size_t length; int access; uint64_t comp_mask; uint64_t iova;
	void *addr; int fd; uint64_t fd_offset; struct ibv_dmah *dmah;
};
enum {
	IBV_REG_MR_MASK_IOVA = 1, IBV_REG_MR_MASK_ADDR = 2,
	IBV_REG_MR_MASK_FD = 4, IBV_REG_MR_MASK_FD_OFFSET = 8,
};
"""

FLAGS = ("-std=gnu11 -D_GNU_SOURCE -DNDEBUG -fPIC -Wall -Wextra -Wshadow -Werror "
         "-Wno-sign-compare -Wno-unused-parameter").split()
LINK = ("-shared -Wl,--as-needed -Wl,-z,defs -Wl,-z,relro -Wl,-z,now").split()


class Failed(Exception):
    """The build failed. The message is one line for the user."""


def run(*command):
    command = [str(word) for word in command]
    done = subprocess.run(command, check=False, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise Failed(f"'{' '.join(command)}' failed")
    return done.stdout


# ---- the headers of another release ----------------------------------------

def replaced(pattern, by, text):
    """Replaces PATTERN in TEXT, where it has to match exactly once."""
    text, count = re.subn(pattern, by, text, count=2, flags=re.M | re.S)
    if count != 1:
        raise Failed(f"the headers have {count} places like '{pattern}', not 1: "
                     f"is BUILD of rdma-core {BASE}?")
    return text


def name_of(member):
    typed = re.search(r"\(\*(\w+)\)", member)
    return typed[1] if typed else member


def with_members(text, struct, release):
    """Changes STRUCT, a structure of pointers to functions, to what it is in RELEASE.
    TEXT is a header."""
    found = re.search(rf"^struct {struct} {{\n.*?^}};", text, re.M | re.S)
    if not found:
        raise Failed(f"the headers have no struct {struct}")
    body = found[0]
    for since, member, before in ADDED[struct]:
        name = name_of(member)
        if since <= BASE:
            if since > release:
                body = replaced(rf"^\t[^\n;]*\(\*{name}\)\([^;]*;\n", "", body)
        elif since <= release:
            declared = member if member != name else f"void (*{name})(void)"
            place = rf"\(\*{before}\)\([^;]*;\n" if before else r"\A[^\n]*{\n"
            body = replaced(f"({place})", rf"\1\t{declared};\n", body)
    return text[:found.start()] + body + text[found.end():]


def headers(build, release, abi):
    """The headers of RELEASE that differ from those of BUILD: name -> text."""
    include = build / "include"
    verbs = (include / "infiniband/verbs.h").read_text(encoding="utf-8")
    driver = (include / "infiniband/driver.h").read_text(encoding="utf-8")
    config = (include / "config.h").read_text(encoding="utf-8")
    if f'PACKAGE_VERSION "{BASE}.' not in config:
        raise Failed(f"{build} is not a build of rdma-core {BASE}: the other "
                     "releases are described by their differences from that")
    for struct in ("verbs_context", "ibv_qp_ex"):
        verbs = with_members(verbs, struct, release)
    for since, member, _ in ADDED["ibv_qp_ex"]:
        if since > release:         # the function that calls the member
            verbs = replaced(rf"^static inline void ibv_{member}\(.*?^}}\n", "", verbs)
    driver = with_members(driver, "verbs_context_ops", release)
    for since, function, before in ARGUMENTS:
        if since <= release:
            driver = replaced(rf"(\b{function}\([^;]*?\b{before})\b",
                              r"\1, void *", driver)
    if release >= REG_MR_EX_RELEASE:
        verbs = REG_MR_EX_TYPES + verbs
    config = replaced(r"IBVERBS_PABI_VERSION \d+", f"IBVERBS_PABI_VERSION {abi}",
                      config)
    return {"config.h": config, "infiniband/verbs.h": verbs,
            "infiniband/driver.h": driver}


def write_headers(build, release, abi, folder):
    """Writes the headers of RELEASE to FOLDER. Returns the compiler's flags: FOLDER
    comes before the headers of BUILD, and macros tell compat.h what RELEASE lacks."""
    for name, text in headers(build, release, abi).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [f"-I{folder}", f"-I{build}/include",
            *(f"-D{macro}" for until, macro in LACKS if release < until)]


# ---- libraries -------------------------------------------------------------

def symbols(library):
    """The symbols that a library defines: version -> names."""
    found = {}
    for line in run("readelf", "-W", "--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) >= 8 and words[6] != "UND" and "@@" in words[7]:
            name, version = words[7].split("@@")
            if name != version:
                found.setdefault(version, set()).add(name)
    return found


def stub(build, abi, folder):
    """Builds a stub to link with. It has the symbols of a libibverbs with this number
    of its private interface."""
    text = []
    script = []
    for version, names in sorted(symbols(build / "lib/libibverbs.so").items()):
        if version.startswith("IBVERBS_PRIVATE_"):
            version = f"IBVERBS_PRIVATE_{abi}"
            names = {re.sub(r"^verbs_register_driver_\d+", f"verbs_register_driver_{abi}",
                            name) for name in names}
        text += [f".globl {name}\n.type {name}, %function\n{name}:\n"
                 for name in sorted(names)]
        script.append(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n")
    text.append('.section .note.GNU-stack,"",%progbits\n')
    (folder / "stub.s").write_text("".join(text))
    (folder / "stub.map").write_text("".join(script))
    library = folder / "libibverbs.so"
    run(*compiler(), "-shared", "-nostdlib", "-Wl,-soname,libibverbs.so.1",
        f"-Wl,--version-script={folder}/stub.map", folder / "stub.s", "-o", library)
    return library


def compiler():
    return shlex.split(os.environ.get("CC", "cc"))


def build_provider(build, out, name, pool):
    """Builds the provider for NAME, a range of releases such as "45-56". Returns the
    path of its file."""
    (abi,) = [abi for row, abi in versions.providers() if row == name]
    work = out / "work" / name
    work.mkdir(parents=True, exist_ok=True)
    release = int(name.split("-")[1])
    include = write_headers(build, release, abi, work / "include")
    flags = [*FLAGS, *shlex.split(os.environ.get("CFLAGS", "-O2")), *include,
             f"-I{TOP}/firmware-spec/include", f"-I{TOP}/kernel-driver/uapi"]

    def compiled(source):
        target = work / f"{source.stem}.o"
        run(*compiler(), *flags, "-c", source, "-o", target)
        return target

    objects = list(pool.map(compiled, sorted(HERE.glob("*.c"))))
    (work / "provider.map").write_text("{ local: *; };\n")
    library = out / name / f"libfakernic-rdmav{abi}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    run(*compiler(), *shlex.split(os.environ.get("LDFLAGS", "")), *LINK, *objects,
        f"-Wl,--version-script={work}/provider.map", build / "ccan/libccan_pic.a",
        build / "util/librdma_util_pic.a", stub(build, abi, work), "-o", library)
    return library


def main():
    known = [name for name, _ in versions.providers()]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", type=Path, help="build folder of an rdma-core")
    parser.add_argument("out", type=Path, help="folder for the providers")
    parser.add_argument("releases", nargs="*", metavar="RELEASES",
                        help=f"one of {', '.join(known)}; default: all")
    wanted = parser.parse_args()
    for name in wanted.releases:
        if name not in known:
            parser.error(f"no provider '{name}' in ci/versions: one of {', '.join(known)}")
    try:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for name in wanted.releases or known:
                print(build_provider(wanted.build, wanted.out, name, pool))
    except (Failed, OSError) as failure:
        sys.exit(f"providers.py: {failure}")


if __name__ == "__main__":
    main()
