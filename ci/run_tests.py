#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs every test and adds up: run_tests.py [--quick] [SUITE...]

A suite is a command that prints TAP (the C tests), or pytest (the VM tests).
Each suite's own output goes to /cache/log/test-SUITE.log; what failed and a
closing line per suite are shown, and at the very end "N passed, N failed, N
skipped". A test that is skipped, a suite that runs nothing, and a suite whose
exit code disagrees with its lines count as failures. The closing line of pytest or
TAP is printed before the suite's own. Two suites with guests run in parallel (one,
on one processor). The others use the time that these leave idle.
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
from build import BUILD, FOREIGN, HOST, HOST_CACHE, LOG, SRC, versions
from progress import Running

HOST_LOG = f"{HOST_CACHE}/log"
QUICK_SIM_SECONDS = 20
SIM_SECONDS = 60
JOBS = os.cpu_count() or 1
# Sources of the suites that make compiles, in addition to their own folders.
MADE_OF = ("qemu-hw/roce", "qemu-hw/fault", "qemu-hw/eswitch", "qemu-hw/link",
           "firmware-spec/include", "rdma-provider", "kernel-driver/uapi", "tests/tap.sh",
           "tests/bytes.h", "tests/stream.h", "tests/wire",
           "ci/versions", "tests/lab/fakernic_lab/__init__.py",
           "tests/lab/fakernic_lab/versions.py", "tests/lab/fakernic_lab/versions.txt",
           "tests/qtest/fakernic-chance.h", "tests/qtest/fakernic-stranger.h")
# Suites that also need the folders of others.
MADE_ALSO_OF = {"engine-arches": ("tests/unit", "tests/sim")}
# A guest of another architecture and one of the host's: the launcher's test, of which
# make test runs the first, and VM tests. Then VM tests with kernels that only guests of
# one architecture boot.
ARCH_SUITES = tuple(f"{kind}-{arch.name}" for arch in FOREIGN
                    for kind in ("lab", "vm"))
ARCH_KERNELS = {f"vm-{kernel}-{arch.name}": (kernel, arch) for arch in build.ARCHES.values()
                for kernel in versions.listed("kernel", arch.name)}
ARCH_TESTS = ("traffic", "rdmacm", "atomics", "odp", "verbs")
ARCH_KERNEL_TESTS = ("pages", "odp", "verbs")
# Suites of tests in guests: rdma-core's tests in one guest (pyverbs), all others in one
# guest, tests in two guests, in two of other kinds, in Debian's QEMU (packaged), and more.
VM_SUITES = ("pyverbs", "guest", "vm", "vm-other", "packaged", "lab-vm", "net",
             "many", "trees", *ARCH_SUITES, *ARCH_KERNELS, "long-two", "long-other", "long", "programs",
             "cni", "nested", "packages-13", "packages-12", "recipes", "release", "bundle",
             "bundle-roots")
# These take too long for make test. They run only if they are named.
NAMED = ("dkms-more", "mutants", "many", "trees", *ARCH_SUITES[1:], *ARCH_KERNELS, "long-two",
         "long-other", "long", "programs", "cni", "nested", "packages-13", "packages-12",
         "recipes", "release", "bundle-roots")
LONG_S = 10 * 3600
NESTED_S = 1800
# Two at a time: more guests would need more memory than the README asks for.
LANES = min(2, JOBS)
# Guests wait for each other and for timers, so two processors are partly idle. These
# suites only compute, and use the idle time (chrt --idle). A low nice level is not enough:
# guests would wake up late, and lose more time than these suites gain. If the processors
# are never idle, these suites run last. tests/unit/run.sh limits the time of one program;
# that limit is here the limit of the suite.
ONLY_COMPUTE = ("dkms", "fuzz", "engine-arches", "sim", "driver", "spec", "laws", "docs",
                "unit", "timeline")
IDLE = ("chrt", "--idle", "0")
PATIENCE = 4            # factor of their time limits
# The order in which suites begin: the long ones first, so that all end together.
BEGIN = ("vm", "guest", "vm-other", "lab-vm", ARCH_SUITES[0], "dkms", "fuzz", "engine-arches",
         "qtest", "net", "sim", "pyverbs", "bundle", "plugin", "laws", "driver", "spec", "docs",
         "lab", "packaged", "unit", "timeline", "link", "bench", "provider", *NAMED)
BY_PYTEST = (*VM_SUITES, "timeline", "bench", "lab", "plugin")
# Debian's QEMU with the plug-in.
PACKAGED_QEMU = BUILD / "qemu-plugin" / HOST.wrapper
PYVERBS = ("pyverbs", "pyverbs_new")
# Of a failed test the runner shows this number of remarks before it at most. It shows lines
# that begin with TELLING anywhere: GLib's seed repeats the random numbers of a qtest.
REMARKS = 30
TELLING = ("ERROR", "Bail out!", "SUMMARY:", "# random seed", "# reproduce:")


def suite_folder(name):
    """The folder in which make builds a suite. Only make writes to it."""
    return BUILD / f"suite-{name}"


def make_check(name, *variables, top=SRC):
    return ["make", "-s", f"-j{JOBS}", "-C", str(top / "tests" / name), "check",
            f"BUILD={suite_folder(name)}", *variables]


def compile_check(name, *variables):
    """As make_check(), for a suite with object files. It is compiled from a copy of the
    sources, in which only files that changed have a new time stamp."""
    return make_check(name, *variables, top=suite_folder(name) / "src")


def vm_tests(name, *arguments, limit=4200):
    """A suite of tests in guests. Their logs go to a folder of the suite's name."""
    tests = SRC / "tests/vm"
    arguments = [tests / word if word.endswith(".py") and word[0] != "-" else
                 word for word in arguments]
    if not any(isinstance(word, Path) for word in arguments):
        arguments.append(tests)
    return ([sys.executable, "-m", "pytest", "-c", str(tests / "pytest.ini"),
             "--color=no", *map(str, arguments)], limit,
            {"FAKERNIC_VM_LOG": str(LOG / name)})


def long_tests(name, guests):
    """A suite of the long tests, which make test leaves out, with guests of one kind.
    test_programs.py is a separate suite: it writes one document about guests of both kinds.
    So are test_cni.py, which needs programs of the user, and test_nested.py, which needs
    libvirt in the guest."""
    return vm_tests(name, "--long", f"--guests={guests}",
                    *(f"--ignore-glob=*/test_{left}.py"
                      for left in ("programs", "cni", "nested")), limit=LONG_S)


def tests_in(folder, *arguments, limit=900):
    """A suite of the tests in a folder that has a pytest.ini."""
    return ([sys.executable, "-m", "pytest", "--color=no", "-c",
             str(SRC / "tests" / folder / "pytest.ini"),
             *(arguments or [str(SRC / "tests" / folder)])], limit, {})


def dkms_tests(*roles):
    """A suite of the driver's DKMS package with the kernels of these roles."""
    kernels = versions.listed("kernel", *roles)
    return ["sh", str(SRC / "ci/check_dkms.sh"), *kernels], 1200, {}


def lab_tests(*names, limit=900):
    """A suite of these files of the launcher's tests."""
    return tests_in("lab", *(str(SRC / f"tests/lab/test_{name}.py")
                             for name in names), limit=limit)


def bundle_tests(*systems):
    """The bundle in these foreign systems."""
    return tests_in("bundle", str(SRC / "tests/bundle"), f"--roots={','.join(systems)}",
                    limit=900 * len(systems))


def recipes_tests(*names):
    """A suite of these files of tests/recipes."""
    return tests_in("recipes", *(str(SRC / f"tests/recipes/test_{name}.py")
                                 for name in names), limit=7200)


def packages_tests(release):
    """A suite that installs the packages in this Debian release."""
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
        "engine-arches": (compile_check("engine-arches"), 1800, {}),
        "fuzz": (compile_check("fuzz", *(["TARGETS=frames link"] if quick else [])),
                 900, {}),
        "driver": (["sh", str(SRC / "ci/check_driver.sh")], 900, {}),
        "docs": ([sys.executable, str(SRC / "ci/check_docs.py")], 300, {}),
        "dkms": dkms_tests("new", "old"),
        "dkms-more": dkms_tests("long", "main"),
        "qtest": ([str(BUILD / "qemu/tests/qtest/fakernic-test"), "--tap"], 600,
                  {"QTEST_QEMU_BINARY":
                   str(BUILD / "qemu" / HOST.qemu)}),
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
        "lab": lab_tests("action", "command", "hostile", "meeting", "outside", "root",
                         "relay", "saved", "shared", "snapshots"),
        "lab-vm": lab_tests("machines", "lessons", "readme", "checkout",
                            limit=2400),
        "many": lab_tests("many", limit=7200),
        "trees": lab_tests("trees"),
        **{f"vm-{arch.name}": vm_tests(
            f"vm-{arch.name}", f"--arch={arch.name},{HOST.name}",
            *(f"test_{name}.py" for name in ARCH_TESTS)) for arch in FOREIGN},
        **{name: vm_tests(name, f"--arch={arch.name}", f"--kernel={kernel}",
                          *(f"test_{part}.py" for part in ARCH_KERNEL_TESTS))
           for name, (kernel, arch) in ARCH_KERNELS.items()},
        **{f"lab-{arch.name}": tests_in(
            "lab", str(SRC / "tests/lab/test_arch.py"), "-k", arch.name)
           for arch in FOREIGN},
        "long": long_tests("long", "one"),
        "long-two": long_tests("long-two", "two"),
        "long-other": long_tests("long-other", "other"),
        "programs": vm_tests("programs", "--long", "test_programs.py",
                             limit=LONG_S),
        "cni": vm_tests("cni", "--long", "test_cni.py", limit=LONG_S),
        "nested": vm_tests("nested", "--long", "test_nested.py", limit=NESTED_S),
        "net": tests_in("net"),
        "packages-13": packages_tests("13"),
        "packages-12": packages_tests("12"),
        "recipes": recipes_tests("recipes", "action", "debs"),
        "release": recipes_tests("release"),
        "bundle": bundle_tests("bookworm"),
        "bundle-roots": bundle_tests(*build.bundle.ROOTS),
    }
    for name in ("packaged", "cni", "nested"):
        found[name][2]["FAKERNIC_QEMU"] = str(PACKAGED_QEMU)
    if quick:
        for name in (*VM_SUITES, "dkms", "dkms-more", "engine-arches"):
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
    """The last line of a suite's output: pytest's summary, or the TAP plan."""
    lines = re.findall(r"^(?:=+ .* in [\d.]+s.*|1\.\.\d+)$", text, re.M)
    return lines[-1] if lines else "no closing line"


def sync_sources(name):
    """Updates a suite's copy of its sources, and writes only files whose contents differ.
    Time stamps of the checkout do not help, because the objects in the cache may come from
    another checkout. All objects are removed if the compiler changed or if a source file
    no longer exists."""
    folder = suite_folder(name)
    key = folder / "fakernic.key"
    clang = build.image.versions(build.CLANG) if name == "fuzz" else []
    tools = build.digest([build.image.first_stage(), *clang])
    kept = key.exists() and key.read_text() == tools
    for part in (f"tests/{name}", *MADE_OF, *MADE_ALSO_OF.get(name, ())):
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
    """Waits for other runs: two on one cache would overwrite each other's objects and logs."""
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
    """Runs a suite with its output in the log. Returns the output and the exit code."""
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
            log.write(f"\ntimed out after {limit} s\n")
            code = 124
        except OSError as error:
            log.write(f"\n{error}\n")
            code = 127
    return path.read_text(encoding="utf-8", errors="replace"), code


def show_failures(name, text):
    """Prints the part of a failed suite's output that shows the failures."""
    lines = text.splitlines()
    if name in BY_PYTEST:
        shown = lines[-120:]
    else:
        # Each failed test with the remarks before and after it.
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
    """Yields the items of a queue until it is empty."""
    with contextlib.suppress(queue.Empty):
        while True:
            yield left.get_nowait()


def lane(queues, known, done, running, idle=()):
    """A thread that runs the suites of these queues, one after the other. Puts results
    into DONE, and also any exception that is raised outside a suite."""
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
    """Waits for the next result of the lanes and shows their progress."""
    while True:
        try:
            return done.get(timeout=running.left_to_wait())
        except queue.Empty:
            running.show()


def results(names, known):
    """Yields (name, output, exit code, seconds) of each suite when it ends."""
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
    """Runs these suites, shows failures and adds up. Returns the exit code."""
    total = Score()
    for name, text, code, seconds in results(tuple(names), known):
        judge = judge_pytest if name in BY_PYTEST else judge_tap
        score, whole = judge(text)
        ran = score.passed + score.failed
        if (code != 0 or not whole or not ran) and not score.failed:
            score.failed += 1
            print(f"  {name}: exit code {code}"
                  f"{'' if whole else ', incomplete output'}")
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
