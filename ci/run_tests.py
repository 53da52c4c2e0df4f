#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs every test and adds up: run_tests.py [--quick] [SUITE...]

A suite is a command that prints TAP (the C tests), or pytest (the VM tests).
Each suite's own output goes to /cache/log/test-SUITE.log; what failed and a
closing line per suite are shown, and at the very end "N passed, N failed, N
skipped". A test that is skipped, a suite that runs nothing, and a suite whose
exit code disagrees with its lines count as failures. The runner's own closing
line stands above the suite's. Two suites with guests run side by side (one, on
one processor), the others in the time that these leave idle.
"""

import argparse
import contextlib
import fcntl
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

from pathlib import Path

import build
from build import BUILD, HOST_CACHE, LOG, SRC, versions
from progress import Running

HOST_LOG = f"{HOST_CACHE}/log"
QUICK_SIM_SECONDS = 20
SIM_SECONDS = 60
JOBS = os.cpu_count() or 1
# What the suites that make compiles are made of, beside their own folders.
MADE_OF = ("qemu-hw/roce", "qemu-hw/fault", "qemu-hw/link", "firmware-spec/include",
           "rdma-provider", "kernel-driver/uapi", "tests/tap.sh", "tests/wire",
           "ci/versions", "tests/lab/fakernic_lab/__init__.py",
           "tests/lab/fakernic_lab/versions.py",
           "tests/qtest/fakernic-chance.h", "tests/qtest/fakernic-stranger.h")
# Suites of tests in guests: those of rdma-core in one guest, all others in one,
# those in two, in two of other kinds, in Debian's QEMU; the launcher's.
VM_SUITES = ("pyverbs", "guest", "vm", "vm-other", "packaged", "lab-vm", "net",
             "many", "long-two", "long-other", "long", "programs",
             "packages-13", "packages-12", "recipes")
# Too long for make test: these run when they are named.
NAMED = ("dkms-more", "mutants", "many", "long-two", "long-other", "long", "programs",
         "packages-13", "packages-12", "recipes")
LONG_S = 10 * 3600
# Two at a time: more guests want more memory than the README asks for.
LANES = min(2, JOBS)
# Guests wait for each other and for timers, and leave some of two processors
# idle: to these suites, which only compute; a time limit inside (of one program,
# by tests/unit/run.sh) is that of the suite. What is merely nice would make guests
# slower by more than it gains, for they are woken late. On processors that are
# never idle these run last.
ONLY_COMPUTE = ("dkms", "fuzz", "sim", "driver", "spec", "laws", "docs",
                "unit", "timeline")
IDLE = ("chrt", "--idle", "0")
PATIENCE = 4            # by which their time limits are multiplied
# The order in which suites begin: the long ones first, so that all end together.
BEGIN = ("vm", "guest", "vm-other", "lab-vm", "dkms", "fuzz", "qtest", "net",
         "sim", "pyverbs", "plugin", "laws", "driver", "spec", "docs", "lab", "packaged",
         "unit", "timeline", "link", "bench", "provider", *NAMED)
BY_PYTEST = (*VM_SUITES, "timeline", "bench", "lab", "plugin")
# Debian's own, with the plug-in.
PACKAGED_QEMU = BUILD / "qemu-plugin/qemu-system-x86_64-fakernic"
PYVERBS = ("pyverbs", "pyverbs_new")
# A failed test shows at most this number of remarks before it, and these lines
# wherever they are (with GLib's seed the random numbers of a qtest repeat).
REMARKS = 30
TELLING = ("ERROR", "Bail out!", "SUMMARY:", "# random seed", "# reproduce:")


def suite_folder(name):
    """Where make, and only make, builds a suite."""
    return BUILD / f"suite-{name}"


def make_check(name, *variables, top=SRC):
    return ["make", "-s", f"-j{JOBS}", "-C", str(top / "tests" / name), "check",
            f"BUILD={suite_folder(name)}", *variables]


def compile_check(name, *variables):
    """The same of a suite with objects: made of a copy of its sources, whose
    time stamps tell what has changed."""
    return make_check(name, *variables, top=suite_folder(name) / "src")


def vm_tests(name, *arguments, limit=4200):
    """A suite of tests in guests, with a folder of its own for their logs."""
    tests = SRC / "tests/vm"
    arguments = [tests / word if word.endswith(".py") and word[0] != "-" else
                 word for word in arguments]
    if not any(isinstance(word, Path) for word in arguments):
        arguments.append(tests)
    return ([sys.executable, "-m", "pytest", "-c", str(tests / "pytest.ini"),
             "--color=no", *map(str, arguments)], limit,
            {"FAKERNIC_VM_LOG": str(LOG / name)})


def long_tests(name, guests):
    """Those of guests of a kind that make test leaves out. test_programs.py writes
    its document of runs of both kinds, so it is a suite of its own."""
    return vm_tests(name, "--long", f"--guests={guests}",
                    "--ignore-glob=*/test_programs.py", limit=LONG_S)


def tests_in(folder, *arguments, limit=900):
    """A suite of a folder with a pytest.ini."""
    return ([sys.executable, "-m", "pytest", "--color=no", "-c",
             str(SRC / "tests" / folder / "pytest.ini"),
             *(arguments or [str(SRC / "tests" / folder)])], limit, {})


def dkms_tests(*roles):
    """The package of the driver with the kernels of these roles."""
    kernels = versions.listed("kernel", *roles)
    return ["sh", str(SRC / "ci/check_dkms.sh"), *kernels], 1200, {}


def lab_tests(*names, limit=900):
    """Files of the launcher's tests."""
    return tests_in("lab", *(str(SRC / f"tests/lab/test_{name}.py")
                             for name in names), limit=limit)


def packages_tests(release):
    """The packages in that Debian."""
    return tests_in("packages", str(SRC / "tests/packages"), "--release", release,
                    limit=7200)


def suites(quick):
    """Name -> (command, time limit in seconds, environment)."""
    seconds = QUICK_SIM_SECONDS if quick else SIM_SECONDS
    found = {
        "spec": (make_check("spec"), 300, {}),
        "laws": (make_check("laws"), 300, {}),
        "unit": (compile_check("unit"), 600, {}),
        "link": (make_check("link"), 300, {}),
        "provider": (compile_check("provider"), 600, {}),
        "sim": (compile_check("sim", f"SECONDS={seconds}"), 1200, {}),
        "fuzz": (compile_check("fuzz", *(["TARGETS=frames link"] if quick else [])),
                 900, {}),
        "driver": (["sh", str(SRC / "ci/check_driver.sh")], 900, {}),
        "docs": ([sys.executable, str(SRC / "ci/check_docs.py")], 300, {}),
        "dkms": dkms_tests("new", "old"),
        "dkms-more": dkms_tests("long", "main"),
        "qtest": ([str(BUILD / "qemu/tests/qtest/fakernic-test"), "--tap"], 600,
                  {"QTEST_QEMU_BINARY":
                   str(BUILD / "qemu/qemu-system-x86_64")}),
        "mutants": ([sys.executable, str(SRC / "tests/qtest/mutants.py")], 1200,
                    {}),
        "plugin": tests_in("plugin"),
        "pyverbs": vm_tests("pyverbs", *(
            f"test_{name}.py" for name in PYVERBS)),
        "guest": vm_tests("guest", "--guests=one", *(
            f"--ignore-glob=*/test_{name}.py" for name in PYVERBS)),
        "vm": vm_tests("vm", "--guests=two"),
        "vm-other": vm_tests("vm-other", "--guests=other"),
        "packaged": vm_tests("packaged", "-m", "packaged"),
        "timeline": tests_in("timeline", limit=300),
        "bench": tests_in("bench", limit=300),
        "lab": lab_tests("command", "hostile", "meeting", "outside",
                         "relay", "shared"),
        "lab-vm": lab_tests("machines", "lessons", "readme", "checkout",
                            limit=1500),
        "many": lab_tests("many", limit=7200),
        "long": long_tests("long", "one"),
        "long-two": long_tests("long-two", "two"),
        "long-other": long_tests("long-other", "other"),
        "programs": vm_tests("programs", "--long", "test_programs.py",
                             limit=LONG_S),
        "net": tests_in("net"),
        "packages-13": packages_tests("13"),
        "packages-12": packages_tests("12"),
        "recipes": tests_in("recipes", limit=7200),
    }
    found["packaged"][2]["FAKERNIC_QEMU"] = str(PACKAGED_QEMU)
    if quick:
        for name in (*VM_SUITES, "dkms", "dkms-more"):
            del found[name]
    return found


class Score:
    """How many tests of a suite passed, failed and were skipped."""

    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed = passed
        self.failed = failed
        self.skipped = skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return (f"{self.passed} passed, {self.failed} failed, "
                f"{self.skipped} skipped")


def judge_tap(text):
    """The score of TAP, and whether its plan was kept."""
    score = Score()
    for verdict, rest in re.findall(r"^(ok|not ok)\b(.*)$", text, re.M):
        if re.search(r"# *skip", rest, re.I):
            score.skipped += 1
        elif verdict == "ok":
            score.passed += 1
        else:
            score.failed += 1
    plans = re.findall(r"^1\.\.(\d+)", text, re.M)
    total = score.passed + score.failed + score.skipped
    return score, bool(plans) and sum(map(int, plans)) == total


def judge_pytest(text):
    """The score of pytest's closing line."""
    lines = re.findall(r"^=* ?(.*\b(?:passed|failed|error|skipped)\b.*) in [\d.]+s",
                       text, re.M)
    counts = dict((word, int(number)) for number, word in re.findall(
        r"(\d+) (passed|failed|errors?|skipped)", lines[-1] if lines else ""))
    failed = sum(count for word, count in counts.items()
                 if word.startswith(("failed", "error")))
    return (Score(counts.get("passed", 0), failed, counts.get("skipped", 0)),
            bool(lines))


def closing_line(text):
    """The runner's own last word: pytest's summary, or the TAP plan."""
    lines = re.findall(r"^(?:=+ .* in [\d.]+s.*|1\.\.\d+)$", text, re.M)
    return lines[-1] if lines else "no closing line"


def sync_sources(name):
    """Bring a suite's copy of its sources up to date, touching only files whose
    contents differ: time stamps of the checkout say nothing of objects that
    another checkout has left in the cache. Objects of other tools go, and those
    that a file which is gone may be in."""
    folder = suite_folder(name)
    key = folder / "fakernic.key"
    clang = build.image.versions(build.CLANG) if name == "fuzz" else []
    tools = build.digest([build.image.first_stage(), *clang])
    kept = key.exists() and key.read_text() == tools
    for part in (f"tests/{name}", *MADE_OF):
        copy = folder / "src" / part
        wanted = build.sync_tree(SRC / part, copy)
        for path in list(build.files_below(copy)):
            if path.relative_to(copy) not in wanted:
                path.unlink()
                kept = kept and path.suffix not in (".c", ".h")
    if not kept:
        for path in folder.iterdir():
            if path.name != "src":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        key.write_text(tools)


@contextlib.contextmanager
def only_one():
    """Two runs on one cache would take each other's objects and logs."""
    with open(LOG / "run_tests.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("fakernic: waiting for another run of the tests", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def log_of(name):
    return LOG / f"test-{name}.log"


def run_suite(name, command, limit, environment):
    """Run one suite into its log; its output and its exit code."""
    if str(suite_folder(name) / "src") in " ".join(command):
        sync_sources(name)
    path = log_of(name)
    with open(path, "w", encoding="utf-8") as log:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, check=False, timeout=limit,
                env=dict(os.environ, **environment)).returncode
        except subprocess.TimeoutExpired:
            log.write(f"\nnot ended after {limit} s\n")
            code = 124
        except OSError as error:
            log.write(f"\n{error}\n")
            code = 127
    return path.read_text(encoding="utf-8", errors="replace"), code


def show_failures(name, text):
    """What a reader needs of a failed suite's output."""
    lines = text.splitlines()
    if name in BY_PYTEST:
        shown = lines[-120:]
    else:
        # Each failed test with the remarks before and behind it.
        shown, remarks, telling = [], [], False
        for line in lines:
            failed = line.startswith("not ok")
            if failed:
                shown += remarks[-REMARKS:]
            telling = failed or (telling and line.startswith("#"))
            if telling or line.startswith(TELLING):
                shown.append(line)
            remarks = (remarks + [line]
                       if line.startswith("#") and not telling else [])
        shown = shown[:120] or lines[-40:]
    for line in shown:
        print(f"    {line}")


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="run_tests.py", description="Runs every test and adds up.",
        epilog=f"Suites: {', '.join(suites(False))}. Without a name: all but "
               f"{', '.join(NAMED)}.")
    parser.add_argument("--quick", action="store_true",
                        help="only what needs no guest")
    parser.add_argument("wanted", metavar="SUITE", nargs="*")
    options = parser.parse_args(arguments)
    wanted = options.wanted
    known = suites(options.quick)
    unknown = set(wanted) - set(known)
    if unknown:
        print(f"fakernic: no suite '{unknown.pop()}': one of {', '.join(known)}",
              file=sys.stderr)
        return 2
    LOG.mkdir(parents=True, exist_ok=True)
    if wanted != ["unit"]:
        build.build_root_test()
    with only_one():
        return run(wanted or [name for name in known if name not in NAMED],
                   known)


def take(left):
    """What stands in a queue, one by one, until it is empty."""
    with contextlib.suppress(queue.Empty):
        while True:
            yield left.get_nowait()


def lane(queues, known, done, running, idle=()):
    """Run the suites of these queues, one after the other; what goes wrong
    outside a suite is handed on, too."""
    try:
        for left in queues:
            for name in take(left):
                start = time.monotonic()
                command, limit, environment = known[name]
                if idle:
                    limit *= PATIENCE
                    environment = {**environment,
                                   "TEST_TIMEOUT": str(limit * 9 // 10)}
                running.begin(name)
                text, code = run_suite(name, [*idle, *command], limit,
                                       environment)
                running.end(name)
                done.put((name, text, code, time.monotonic() - start))
    except Exception as error:
        done.put(error)


def next_result(done, running):
    """The next result of the lanes. Shows their progress while it waits."""
    while True:
        try:
            return done.get(timeout=running.left_to_wait())
        except queue.Empty:
            running.show()


def results(names, known):
    """(name, output, exit code, seconds) of each suite, as it ends."""
    first, others, done = (queue.SimpleQueue() for _ in range(3))
    running = Running(log_of)
    for name in sorted(names, key=BEGIN.index):
        (others if name in ONLY_COMPUTE else first).put(name)
    for _ in range(LANES):
        threading.Thread(target=lane, args=((first, others), known, done, running),
                         daemon=True).start()
    threading.Thread(target=lane, args=((others,), known, done, running, IDLE),
                     daemon=True).start()
    for _ in names:
        result = next_result(done, running)
        running.clear()
        if isinstance(result, Exception):
            raise result
        yield result


def run(names, known):
    """Runs these suites, shows what failed and adds up; the exit code."""
    total = Score()
    for name, text, code, seconds in results(tuple(names), known):
        judge = judge_pytest if name in BY_PYTEST else judge_tap
        score, whole = judge(text)
        ran = score.passed + score.failed
        if (code != 0 or not whole or not ran) and not score.failed:
            score.failed += 1
            print(f"  {name}: ended with {code} "
                  f"{'' if whole else 'before its closing line'}")
        if score.failed or score.skipped:
            show_failures(name, text)
        total.add(score)
        print(closing_line(text))
        print(f"  {name:<10} {score}  ({seconds:.0f}s, "
              f"{HOST_LOG}/test-{name}.log)", flush=True)
    if total.skipped:
        print("fakernic: no test may be skipped")
    print(total, flush=True)
    return 1 if total.failed or total.skipped else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except build.StepFailed as failure:
        sys.exit(f"fakernic: {failure}")
