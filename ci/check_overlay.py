#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What qemu-hw/overlay.sh does to the source of a QEMU: check_overlay.py QEMU_SRC

The tree must not have the overlay yet; this program leaves it there. The overlay
may only add files of this project. In QEMU's own files it may only add the lines
that qemu-hw/README.md lists. A second run must write nothing, and --remove must
restore the tree. Each violation is a line on stdout, and the exit code is then 1.
"""

import difflib
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[1]
OURS = re.compile(r"hw/net/fakernic/|include/fakernic/|tests/qtest/fakernic-|"
                  r"qapi/fakernic\.json$")
# A line in README.md: four blanks, a file of QEMU, and the line that it gets.
HOOK = re.compile(r"^ {4}(\S*(?:meson\.build|Kconfig|schema\.json)) {2,}(.+)$",
                  re.M)


def documented():
    """{file: its new lines}, from README.md."""
    hooks = {}
    text = (SRC / "qemu-hw/README.md").read_text(encoding="utf-8")
    for name, line in HOOK.findall(text):
        hooks.setdefault(name, []).append(line)
    return hooks


def files(tree):
    return {path.relative_to(tree).as_posix(): path
            for folder, _, names in os.walk(tree)
            for path in (Path(folder, name) for name in names)}


def contents(tree):
    return {name: os.readlink(path) if path.is_symlink() else
            hashlib.sha256(path.read_bytes()).hexdigest()
            for name, path in files(tree).items()}


def written(tree):
    """Inode and time stamp of each file, which change even if the same text is written."""
    return {name: (os.lstat(path).st_ino, os.lstat(path).st_mtime_ns)
            for name, path in files(tree).items()}


def overlay(tree, *options):
    subprocess.run([SRC / "qemu-hw/overlay.sh", *options, tree], check=True,
                   stdout=subprocess.DEVNULL)


def changes(before, after):
    """(removed lines, added lines that are not empty)"""
    steps = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return ([step[2:] for step in steps if step.startswith("- ")],
            [re.sub(r"files\(.*\)", "files(...)", step[2:].strip())
             for step in steps if step.startswith("+ ") and step[2:].strip()])


def first_time(tree):
    """Overlays a tree for the first time. Returns the violations."""
    hooks = documented()
    kept = {name: (tree / name).read_text(encoding="utf-8") for name in hooks}
    before = contents(tree)
    overlay(tree)
    after = contents(tree)
    found = [f"it takes {name} away" for name in sorted(before.keys() - after)]
    found += [f"it adds {name}" for name in sorted(after.keys() - before)
              if not OURS.match(name)]
    found += [f"it changes {name}" for name in sorted(before.keys() & after)
              if before[name] != after[name] and name not in hooks]
    for name, lines in hooks.items():
        gone, new = changes(kept[name],
                            (tree / name).read_text(encoding="utf-8"))
        found += [f"{name} loses: {line}" for line in gone]
        if sorted(new) != sorted(lines):
            found.append(f"{name} gets {new}, README says {lines}")
    return found if hooks else ["qemu-hw/README.md lists no lines"]


def again(tree):
    before = written(tree)
    overlay(tree)
    after = written(tree)
    return [f"done again, it writes {name}"
            for name in sorted(before.keys() | after)
            if before.get(name) != after.get(name)]


def removed(tree, before):
    overlay(tree, "--remove")
    after = contents(tree)
    overlay(tree)
    return [f"--remove leaves {name} changed"
            for name in sorted(before.keys() | after)
            if before.get(name) != after.get(name)]


def main(tree):
    tree = Path(tree).resolve()
    if any(OURS.match(name) for name in files(tree)):
        print(f"{tree} has the device already")
        return 1
    before = contents(tree)
    found = first_time(tree) + again(tree) + removed(tree, before)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
