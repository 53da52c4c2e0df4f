#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that QEMU's configuration does not change the code of the device.

options.py headers QEMU_SRC QEMU_BUILD   fails if a header of the device tests
                                         a macro that options.txt lacks
options.py rules FOLDER                  fails if debian/ sets an option that
                                         changes the device, unlike build.sh
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
TESTED = re.compile(r"^#(?:define|undef) ((?:CONFIG|HAVE|DEBUG)_\w+)", re.M)


def known():
    """{macro: (verdict, options of configure that change it)} from options.txt."""
    table = {}
    for line in (HERE / "options.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            table[words[0]] = (words[1], words[2:])
    return table


def sources():
    """The sources that include QEMU's headers. The engine does not."""
    for folder in ("device", "link"):
        yield from sorted((TOP / "qemu-hw" / folder).rglob("*.[ch]"))


def tested(build):
    """The configuration macros that the headers of the device test."""
    flags = subprocess.run([HERE / "flags.py", build / "compile_commands.json"],
                           check=True, capture_output=True, text=True).stdout
    # The generated trace code includes these.
    includes = {'"trace/control.h"', '"qemu/log-for-trace.h"'}
    for path in [HERE / "check.c", *sources()]:
        text = path.read_text(encoding="utf-8")
        includes |= set(re.findall(r'^#include ("[a-z0-9-]+/[^"]+")', text, re.M))
    # Some headers have another name in other releases: compat.h.
    source = '#include "qemu/osdep.h"\n' + "".join(
        f"#if __has_include({name})\n#include {name}\n#endif\n"
        for name in sorted(includes))
    output = subprocess.run([*shlex.split(flags),
                             f"-I{TOP / 'firmware-spec/include'}",
                             "-E", "-dU", "-x", "c", "-"],
                            cwd=build, check=True, input=source,
                            stdout=subprocess.PIPE, text=True).stdout
    return set(TESTED.findall(output))


def headers(_source, build):
    unknown = sorted(tested(Path(build)) - set(known()))
    if unknown:
        print("fakernic: this QEMU's headers depend on unknown options: "
              f"{' '.join(unknown)}: see options.txt", file=sys.stderr)
    return 1 if unknown else 0


def rules(folder):
    """Checks the options of a package. debian/rules extracts some from comments in
    debian/control, so this searches both files."""
    words = set()
    for name in ("rules", "control"):
        text = (Path(folder) / name).read_text(encoding="utf-8")
        # The rules of the other builds in the package are for other binaries.
        main = text.split("microvm build:")[0]
        words |= set(re.findall(r"--[a-z0-9-]+", main))
    bad = sorted(option for _, options in known().values()
                 for option in options if option in words)
    if bad:
        print(f"fakernic: the package is built with {' '.join(bad)}, which the "
              "plug-in does not support", file=sys.stderr)
    return 1 if bad else 0


def main(words):
    commands = {"headers": (headers, 2), "rules": (rules, 1)}
    command, count = commands.get(words[0] if words else "", (None, 0))
    if not command or len(words) != count + 1:
        print(__doc__, file=sys.stderr)
        return 2
    return command(*words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
