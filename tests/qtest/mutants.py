#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Proves that the tests of fault rules can fail: mutants.py [POINT-ACTION...]

In each mutant one action at one point has no effect, although the rule is hit,
counted and reported. The qtest fault/POINT-ACTION must then fail. One QEMU binary
is all of these mutants: it is linked from the objects of QEMU's build and another
effects.o, which selects the mutant by an environment variable. First all tests must
pass with that binary. A test that hangs does not count as failed. Prints TAP.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
SRC = Path(__file__).resolve().parents[2]
sys.path += [str(SRC / "tests/laws"), str(SRC / "tests/spec")]

import laws
from headers import Tree

BUILD = Path("/cache/build/qemu")
WORK = Path("/cache/build/qtest-mutants")
PROGRAM = "qemu-system-x86_64"
SOURCE = SRC / "qemu-hw/device/fault/effects.c"
VARIABLE = "FAKERNIC_MUTANT"
TEST_S = 60             # time limit; a test takes one or two seconds
# A rule that only counts has no effect that could be removed.
NOTHING = "-count"

# The line before which PLANTED is inserted. Here a hit has been counted and reported.
PLACE = "    if (rule && rule->act == ROCE_FAULT_PAUSE) {\n"
PLANTED = f"""    if (rule && g_getenv("{VARIABLE}")) {{
        g_autofree char *cell = g_strdup_printf(
            "%s-%s", roce_fault_point_name(rule->at),
            roce_fault_action_name(rule->act));

        if (g_str_equal(cell, g_getenv("{VARIABLE}"))) {{
            return NULL;
        }}
    }}
"""


class CannotPlant(Exception):
    """The mutants cannot be made."""


def run(command, **more):
    done = subprocess.run(command, cwd=BUILD, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **more)
    if done.returncode:
        raise CannotPlant(f"{shlex.join(command[:3])}...: {done.stdout[-2000:]}")
    return done.stdout


def compiled(text):
    """Compiles TEXT as effects.c. Returns the name of the object in QEMU's build."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    entry, = [one for one in entries
              if one["file"].endswith("hw/net/fakernic/device/fault/effects.c")]
    source = WORK / "effects.c"
    source.write_text(text)
    words = shlex.split(entry["command"])
    for option, value in (("-o", WORK / "effects.o"), ("-MF", WORK / "effects.d"),
                          ("-MQ", "effects.o"), ("-c", source)):
        words[words.index(option) + 1] = str(value)
    folder = (BUILD / entry["file"]).resolve().parent
    run([*words, "-iquote", str(folder)])
    return entry["output"]


def linked(object_name):
    """Links QEMU with the mutants' effects.o in place of OBJECT_NAME."""
    commands = json.loads(run(["ninja", "-t", "compdb", "-x", "c_LINKER",
                               "c_LINKER_RSP"]))
    command, = [one["command"] for one in commands if one["output"] == PROGRAM]
    words = shlex.split(command)
    words[words.index(object_name)] = str(WORK / "effects.o")
    words[words.index("-o") + 1] = str(WORK / PROGRAM)
    run(words)


def plant():
    text = SOURCE.read_text(encoding="utf-8")
    if text.count(PLACE) != 1:
        raise CannotPlant(f"{SOURCE} has not one line {PLACE.strip()!r}")
    WORK.mkdir(parents=True, exist_ok=True)
    linked(compiled(text.replace(PLACE, PLANTED + PLACE)))
    # QEMU looks for its firmware next to the binary.
    for name in ("qemu-bundle", "pc-bios"):
        link = WORK / name
        link.unlink(missing_ok=True)
        link.symlink_to(BUILD / name)


def tested(cells, mutant, limit):
    """(whether the tests of these cells pass, output). None: they hang."""
    environment = {**os.environ, "QTEST_QEMU_BINARY": str(WORK / PROGRAM),
                   VARIABLE: mutant}
    command = [BUILD / "tests/qtest/fakernic-test", "--tap"]
    for cell in cells:
        command += ["-p", f"/x86_64/fakernic/fault/{cell}"]
    try:
        done = subprocess.run(command, env=environment, cwd=WORK, check=False,
                              stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=limit)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    ran = sum(line.startswith("ok ") for line in done.stdout.splitlines())
    return done.returncode == 0 and ran == len(cells), done.stdout


def report(number, good, what, text=""):
    print(f"{'ok' if good else 'not ok'} {number} - {what}", flush=True)
    if not good:
        for line in text.splitlines()[-20:]:
            print(f"# {line}")
    return good


def main(wanted):
    cells = wanted or [cell for cell in laws.cells(Tree(SRC))
                       if not cell.endswith(NOTHING)]
    try:
        plant()
    except (CannotPlant, OSError, ValueError) as why:
        print(f"1..1\nnot ok 1 - the mutants are made: {why!r}")
        return 1
    print(f"1..{1 + len(cells)}")
    passes, text = tested(cells, "none", TEST_S + 5 * len(cells))
    good = report(1, passes, f"{len(cells)} tests pass, nothing is planted",
                  text)
    for number, cell in enumerate(cells, 2):
        passes, text = tested([cell], cell, TEST_S)
        good &= report(number, passes is False,
                       f"{cell} does nothing: " +
                       {False: "found", True: "not found",
                        None: "the test hangs"}[passes], text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
