#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of the engine do the tests reach? coverage.py [SECONDS]

Builds the engine with clang's source-based coverage into the unit tests, the
simulator (which then runs for SECONDS, 60 by default) and the fuzz target
"frames" (which runs its corpus), and prints lines and branches by file of
qemu-hw/roce. The lines that nothing reached go to /cache/log/uncovered.txt.

A line counts as explained if a comment with the words "Not reached" stands next to
it or in the few lines above it, and says why no test can reach the line. The exit
code is 1 if a test failed or a line is unexplained.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SRC = Path("/src")
ENGINE = SRC / "qemu-hw/roce"
BUILD = Path("/cache/build/coverage")
LOG = Path("/cache/log")
HOST_LOG = os.environ.get("FAKERNIC_HOST_CACHE", "/cache") + "/log"
FLAGS = ("-O1 -g -fprofile-instr-generate -fcoverage-mapping "
         "-fprofile-update=atomic")
# Maximum number of lines between a line and the explanation above it.
EXPLANATION = 6


def suites(seconds):
    """Name -> arguments of make, and the programs that then exist."""
    clang = ["CC=clang"]
    return {
        "unit": (["check", *clang, "SAN=", f"CFLAGS={FLAGS}"], "test_*"),
        "sim": (["check", *clang, f"FLAGS_opt={FLAGS}", f"FLAGS_san={FLAGS}",
                 f"SECONDS={seconds}"], "*/s[wc]*"),
        "fuzz": (["replay", f"CFLAGS={FLAGS}", "TARGETS=frames"], "frames"),
    }


def run_suite(name, arguments, pattern):
    """Runs a suite. Returns its programs, or None if it failed."""
    build = BUILD / name
    profiles = BUILD / "profiles" / name
    profiles.mkdir(parents=True, exist_ok=True)
    log_path = LOG / f"coverage-{name}.log"
    with open(log_path, "w", encoding="utf-8") as log:
        code = subprocess.run(
            ["make", "-s", f"-j{os.cpu_count()}", "-C", str(SRC / "tests" / name),
             f"BUILD={build}", *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            check=False, env=dict(os.environ, LLVM_PROFILE_FILE=str(
                profiles / "%p-%m.profraw"))).returncode
    if code:
        print(f"fakernic: {name} failed: see {HOST_LOG}/{log_path.name}",
              file=sys.stderr)
        return None
    return [path for path in sorted(build.glob(pattern))
            if path.is_file() and not path.suffix and os.access(path, os.X_OK)]


def llvm_cov(programs):
    """The coverage of the engine's files, as llvm-cov exports it."""
    profile = BUILD / "all.profdata"
    raw = [str(path) for path in (BUILD / "profiles").rglob("*.profraw")]
    (BUILD / "profiles.txt").write_text("\n".join(raw) + "\n", encoding="utf-8")
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", str(profile),
                    f"--input-files={BUILD / 'profiles.txt'}"], check=True)
    objects = [word for path in programs[1:] for word in ("-object", str(path))]
    result = subprocess.run(
        ["llvm-cov", "export", "-format=text", f"-instr-profile={profile}",
         str(programs[0]), *objects, "-sources",
         str(ENGINE), str(ENGINE.parent / "fault"),
         str(ENGINE.parent / "eswitch")],
        check=True, stdout=subprocess.PIPE)
    files = json.loads(result.stdout)["data"][0]["files"]
    return sorted(files, key=lambda entry: entry["filename"])


def unreached_lines(entry):
    """The numbers of lines of which every region was executed zero times."""
    counts = {}
    active = (0, False)         # count and whether it counts at all
    segments = entry["segments"]
    for place, (line, column, count, has_count, _, gap) in enumerate(segments):
        if place:
            previous = segments[place - 1][0]
            for covered in range(previous + 1, line):
                if active[1]:
                    counts.setdefault(covered, []).append(active[0])
            if active[1] and column > 1 and line != previous:
                counts.setdefault(line, []).append(active[0])
        active = (count, bool(has_count) and not gap)
        if active[1]:
            counts.setdefault(line, []).append(count)
    return [line for line, seen in sorted(counts.items()) if not any(seen)]


def is_code(text):
    """Whether a line is code; False for a brace or a comment."""
    text = text.strip()
    return text not in ("", "{", "}", "};", "} else {") and not (
        text.startswith(("/*", "* ", "*/")))


def report(files):
    """Prints the table, writes the list and returns the number of unexplained lines."""
    unexplained = 0
    print(f"{'file':<16} {'lines':>7} {'reached':>8} {'branches':>9} "
          f"{'reached':>8} {'missing':>8}")
    with open(LOG / "uncovered.txt", "w", encoding="utf-8") as out:
        total = [0, 0, 0, 0, 0]
        for entry in files:
            path = Path(entry["filename"])
            lines = entry["summary"]["lines"]
            branches = entry["summary"]["branches"]
            source = path.read_text(encoding="utf-8").splitlines()
            missing = 0
            for number in unreached_lines(entry):
                text = source[number - 1]
                near = source[max(0, number - 1 - EXPLANATION):number + 1]
                explained = any("Not reached" in line for line in near)
                if is_code(text):
                    out.write(f"{path.name}:{number}:"
                              f"{' (explained)' if explained else ''} {text}\n")
                    missing += not explained
            unexplained += missing
            row = [lines["count"], lines["covered"], branches["count"],
                   branches["covered"], missing]
            total = [a + b for a, b in zip(total, row)]
            print_row(path.name, row)
        print_row("all", total)
    return unexplained


def print_row(name, row):
    lines, lines_hit, branches, branches_hit, missing = row
    print(f"{name:<16} {lines:>7} {100 * lines_hit / max(lines, 1):>7.1f}% "
          f"{branches:>9} {100 * branches_hit / max(branches, 1):>7.1f}% "
          f"{missing:>8}")


def main(arguments):
    seconds = int(arguments[0]) if arguments else 60
    LOG.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(BUILD / "profiles", ignore_errors=True)
    programs = []
    for name, (words, pattern) in suites(seconds).items():
        found = run_suite(name, words, pattern)
        if not found:
            return 1
        programs += found
    unexplained = report(llvm_cov(programs))
    print(f"{unexplained} lines that nothing reaches and nothing explains: "
          f"{HOST_LOG}/uncovered.txt")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
