#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""flags.py COMPILE_COMMANDS: prints the compiler command of a configured QEMU for its
PCI code, without file names and options for dependencies."""

import json
import shlex
import sys


def main(path):
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    found = [entry for entry in commands if entry["file"].endswith("hw/pci/pci.c")]
    if not found:
        print(f"{path} does not compile hw/pci/pci.c", file=sys.stderr)
        return 1
    words = shlex.split(found[0]["command"])
    kept = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-MQ", "-MF", "-o", "-c"):
            skip = True
        elif word not in ("-MD", "-fPIE", "-fPIC"):
            kept.append(word)
    print(shlex.join(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
