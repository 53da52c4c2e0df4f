# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs rdma-core's own tests, each file in a process of its own.

rdma_core_runner.py TESTS RESULTS [FILE...] -- ARGUMENTS-OF-THE-TESTS runs these
test files of the folder TESTS; without any, all but those of other vendors'
devices. It writes a line per test to RESULTS: its name without "tests.", a tab,
"pass", "skip", "fail" or "crash", a tab, the reason. Tracebacks and the time
that each file took go to the standard error output. When a process dies or does
not end, each test that it still had to run gets a process of its own: the one
before may have left the crash behind (on devices that skip a lot, pyverbs trips
over its half-made objects). A test that dies there is a "crash". The exit code
is 1 if any process died.
"""

import importlib
import os
import re
import signal
import sys
import time
import types
import unittest
from pathlib import Path

TEST_LIMIT_S = 100
OTHER_VENDORS = re.compile("test_(mlx5|efa)")


class Recorder(unittest.TextTestResult):
    """Writes each verdict as soon as it is known."""

    def __init__(self, file):
        super().__init__(unittest.runner._WritelnDecorator(sys.stderr), True, 0)
        self.file = file

    def startTest(self, test):
        super().startTest(test)
        signal.alarm(TEST_LIMIT_S)

    def write(self, test, verdict, reason=""):
        name = test.id().removeprefix("tests.")
        self.file.write(f"{name}\t{verdict}\t{' '.join(reason.split())}\n")
        self.file.flush()

    def addSuccess(self, test):
        self.write(test, "pass")

    def addSkip(self, test, reason):
        self.write(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.write(test, "fail", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.write(test, "fail", str(err[1]))


def run(tests, path):
    """Runs some tests in a process; returns how the process died, if it did."""
    child = os.fork()
    if child == 0:
        with open(path, "a", encoding="utf-8") as file:
            recorder = Recorder(file)
            unittest.TestSuite(tests).run(recorder)
            recorder.printErrors()
        sys.stderr.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        return f"not ended after {TEST_LIMIT_S} s"
    return signal.Signals(-code).name if code < 0 else f"{code or ''}"


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def without_verdict(tests, path):
    """Returns the tests without a verdict."""
    with open(path, encoding="utf-8") as file:
        reported = {line.split("\t")[0] for line in file}
    return [test for test in tests
            if test.id().removeprefix("tests.") not in reported]


def run_file(module, tests, path):
    """Runs all tests of a file; returns whether no process died."""
    died = run(tests, path)
    if died:
        print(f"{module}: {died}", file=sys.stderr)
    for test in without_verdict(tests, path):
        ending = run([test], path) if died else ""
        if without_verdict([test], path):
            name = test.id().removeprefix("tests.")
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{name}\tcrash\t{ending or 'no verdict'}\n")
    return not died


def neutral_files(folder):
    return sorted(file.stem for file in Path(folder).glob("test_*.py")
                  if not OTHER_VENDORS.match(file.name))


def main():
    split = sys.argv.index("--")
    folder, path, *files = sys.argv[1:split]
    sys.argv[1:] = sys.argv[split + 1:]
    sys.path.insert(0, folder)
    package = types.ModuleType("tests")     # without importing all of it
    package.__path__ = [folder]
    sys.modules["tests"] = package
    from args_parser import parser
    parser.parse_args()
    loader = unittest.TestLoader()
    suites = {module: loader.loadTestsFromModule(
        importlib.import_module(f"tests.{module}"))
        for module in files or neutral_files(folder)}
    open(path, "w", encoding="utf-8").close()
    whole = True
    for module, suite in suites.items():
        start = time.monotonic()
        whole &= run_file(module, list(flat(suite)), path)
        print(f"{module}: {time.monotonic() - start:.1f} s", file=sys.stderr)
    return 0 if whole else 1


sys.exit(main())
