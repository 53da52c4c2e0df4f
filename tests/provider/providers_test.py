#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""providers_test.py PROVIDERS BUILD: checks the files that providers.py has made.

libibverbs finds a provider by its file name, and loads it only if its symbols have
the number of the private interface. PROVIDERS is the folder of providers.py, BUILD
the rdma-core build that it used. The results are printed as TAP.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lab"), str(HERE.parents[1] / "rdma-provider")]

import providers                    # noqa: E402
from fakernic_lab import versions   # noqa: E402

# The glibc of el9. Ubuntu 22.04, Debian 12 and Fedora have newer ones.
GLIBC = (2, 34)
# The public headers of Debian 12's libibverbs, in the root of ci/.
DEBIAN_12 = Path("/opt/libibverbs-12/include")

PRINTER = """
#include <stddef.h>
#include <stdio.h>
#include <infiniband/driver.h>
int main(void) { printf("%zu %zu %zu", sizeof(struct ibv_qp_ex), sizeof(struct verbs_qp),
                        offsetof(struct verbs_qp, comp_mask)); return 0; }
"""

results = []


def report(name, problems):
    results.append(not problems)
    print(f"{'not ' if problems else ''}ok {len(results)} - {name}", flush=True)
    for problem in problems:
        print(f"# {problem}")


def read(*command):
    return subprocess.run(list(map(str, command)), check=True, text=True,
                          capture_output=True).stdout


def check_file(folder, name, abi):
    """What the dynamic loader and libibverbs check of a provider."""
    library = folder / name / f"libfakernic-rdmav{abi}.so"
    found = [path.name for path in (folder / name).iterdir()]
    if found != [library.name]:
        return [f"{name}/ has {found}, not {library.name}"]
    problems = []
    wanted = read("readelf", "-VW", library)
    private = set(re.findall(r"IBVERBS_PRIVATE_(\d+)", wanted))
    if private != {abi}:
        problems.append(f"needs private interfaces {private}")
    newest = max(tuple(map(int, found)) for found in
                 re.findall(r"GLIBC_(\d+)\.(\d+)", wanted))
    if newest > GLIBC:
        problems.append(f"needs glibc {newest}")
    dynamic = read("readelf", "-dW", library)
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    if needed != {"libibverbs.so.1", "libc.so.6"}:
        problems.append(f"needs {needed}")
    if "PATH" in dynamic:
        problems.append("has a path of libraries")
    exported = providers.symbols(library)
    if exported:
        problems.append(f"exports {exported}")
    return problems


def check_choice():
    """The provider that a library gets, by the name of its file."""
    problems = []
    for library, wanted in (
            ("libibverbs.so.1.14.39.0", "37-43/libfakernic-rdmav34.so"),
            ("/lib64/libibverbs.so.1.14.44.0", "44-44/libfakernic-rdmav34.so"),
            ("libibverbs.so.1.14.56.1", "45-56/libfakernic-rdmav34.so"),
            ("libibverbs.so.1.14.58.0", "57-58/libfakernic-rdmav57.so"),
            ("libibverbs.so.1.15.61.0", "59-61/libfakernic-rdmav59.so"),
            ("libibverbs.so.1.15.62.0", "62-63/libfakernic-rdmav59.so"),
            ("libibverbs.so.1.14.33.2", None), ("libibverbs.so.1.16.999.0", None),
            ("libibverbs.so.1", None)):
        found = versions.provider_for(library)
        if found != (wanted and Path(wanted)):
            problems.append(f"{library} gets {found}")
    return problems


def check_ranges():
    """Each release between the first and the last has exactly one provider."""
    ranges = [tuple(map(int, name.split("-"))) for name, _ in versions.providers()]
    return [f"{before} and {after}" for before, after in zip(ranges, ranges[1:])
            if after[0] != before[1] + 1 or after[0] > after[1]]


def sizes(work, flags):
    source = work / "sizes.c"
    source.write_text(PRINTER, encoding="utf-8")
    read(*providers.compiler(), "-D_GNU_SOURCE", *flags, source, "-o", work / "sizes")
    return read(work / "sizes")


def check_debian_12(work, build):
    """The headers that providers.py writes agree with those of a real libibverbs."""
    own = sizes(work, [f"-I{work}/include", f"-I{build}/include"])
    real = sizes(work, [f"-I{DEBIAN_12}", f"-I{build}/include"])
    return [] if own == real else [f"{own} is not {real}"]


def main(folder, build):
    for name, abi in versions.providers():
        report(f"provider_of_{name}_has_interface_{abi}", check_file(folder, name, abi))
    report("library_gets_the_provider_of_its_release", check_choice())
    report("ranges_of_releases_have_no_gap", check_ranges())
    report("headers_of_44_have_debian_12s_sizes",
           check_debian_12(folder / "work/44-44", build))
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
