# SPDX-License-Identifier: GPL-2.0-or-later
"""Distributions' trees, as users make them for fakernic-lab --root: /cache/build/trees.

  bookworm, trixie, sid   Debian with libibverbs, perftest and an ssh
  bare                    Debian 13 without them

sid stays as it was when its tree was made.
"""

import re
import shutil
from pathlib import Path

TREES = Path("/cache/build/trees")
APT = Path("/etc/apt")
PROGRAMS = ("ibverbs-providers", "ibverbs-utils", "perftest", "openssh-client")
# Name -> its suite, the root's list of sources that has it or another suite of its
# mirror, packages.
KINDS = {"bookworm": ("bookworm", "old.sources", PROGRAMS),
         "trixie": ("trixie", "debian.sources", PROGRAMS),
         "sid": ("sid", "debian.sources", PROGRAMS),
         "bare": ("trixie", "debian.sources", ())}
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def sources(suite, name, folder):
    """The file of sources. That of another suite is a line of its own."""
    listed = APT / "sources.list.d" / name
    text = listed.read_text(encoding="utf-8")
    if suite in re.findall(r"^Suites: (\S+)", text, re.M):
        return listed
    mirror = re.search(r"^URIs: (\S+)", text, re.M)[1]
    path = folder / f"{suite}.list"
    path.write_text(f"deb {mirror} {suite} main\n", encoding="utf-8")
    return path


def build(step, digest, names=tuple(KINDS)):
    TREES.mkdir(parents=True, exist_ok=True)
    for name in names:
        suite, listed, packages = KINDS[name]
        own = digest([KINDS[name], LEFT_OUT])
        with step(f"tree-{name}", own, f"a tree of Debian: {name}") as this:
            if this is None:
                continue
            root = TREES / name
            shutil.rmtree(root, ignore_errors=True)
            this.run("mmdebstrap", "--mode=root", "--variant=minbase",
                     f"--aptopt={APT}/apt.conf.d/99host",
                     '--aptopt=APT::Install-Recommends "false"',
                     *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
                     *([f"--include={','.join(packages)}"] if packages else []),
                     suite, root, sources(suite, listed, TREES))
            shutil.rmtree(root / "var/lib/apt/lists")
