# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs rdma-core's own tests, one file in one process each.

rdma_core_runner.py RESULTS FILE... -- ARGUMENTS-OF-THE-TESTS writes a line per
test to RESULTS: its name without "tests.", a tab, "pass", "skip", "fail" or
"crash", a tab, the reason. Tracebacks go to the standard error output. A file
that takes its process down, or does not end, makes its other tests "crash".
"""

import importlib
import os
import signal
import sys
import types
import unittest

TESTS = "/usr/share/rdma-core-tests"
FILE_LIMIT_S = 150


class Recorder(unittest.TextTestResult):
    """A verdict per test, written as soon as it is known."""

    def __init__(self, file):
        super().__init__(unittest.runner._WritelnDecorator(sys.stderr), True, 0)
        self.file = file

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


def run(module, suite, path):
    """One file's tests, in a process that may die."""
    child = os.fork()
    if child == 0:
        signal.alarm(FILE_LIMIT_S)
        with open(path, "a", encoding="utf-8") as file:
            recorder = Recorder(file)
            suite.run(recorder)
            recorder.printErrors()
        sys.stderr.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(f"{module} ended with status {status:#x}", file=sys.stderr)
    return status


def names(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test.id().removeprefix("tests.")


def main():
    split = sys.argv.index("--")
    path, *files = sys.argv[1:split]
    sys.argv[1:] = sys.argv[split + 1:]
    sys.path.insert(0, TESTS)
    package = types.ModuleType("tests")     # without importing all of it
    package.__path__ = [TESTS]
    sys.modules["tests"] = package
    from args_parser import parser
    parser.parse_args()
    loader = unittest.TestLoader()
    suites = {module: loader.loadTestsFromModule(
        importlib.import_module(f"tests.{module}")) for module in files}
    open(path, "w", encoding="utf-8").close()
    for module, suite in suites.items():
        wanted = list(names(suite))
        status = run(module, suite, path)
        with open(path, "r+", encoding="utf-8") as file:
            told = {line.split("\t")[0] for line in file}
            for name in wanted:
                if name not in told:
                    file.write(f"{name}\tcrash\tstatus {status:#x}\n")


main()
