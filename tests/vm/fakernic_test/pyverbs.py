# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's own tests in a guest, and the lists of their expected results.

A list has a line for each test of the vendor-neutral files: NAME VERDICT
[beginning of the reason]. Anything else is a failure: a test that no longer
passes, that skips for another reason, that passes although listed as
impossible, or that the list lacks.
"""

from pathlib import Path

RUNNER = "/usr/share/fakernic/rdma_core_runner.py"
LISTS = Path(__file__).parent.parent
LIMIT_S = 480


class Suite:
    """The tests of one release: their folder in the guest, their environment,
    and their list."""

    def __init__(self, release, folder, environment=""):
        self.folder = folder
        self.environment = environment
        self.list = LISTS / f"pyverbs_{release}.txt"

    def expected(self):
        """Returns a map from name to (verdict, beginning of the reason)."""
        found = {}
        for line in self.list.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, verdict, *reason = line.split(maxsplit=2)
                found[name] = (verdict, reason[0] if reason else "")
        return found

    def run(self, port, files=()):
        """Runs the files (by default all neutral ones) on a port in loopback.
        Returns a map from test name to (verdict, reason), and the log."""
        log = port.guest.run(
            "echo 32 >/proc/sys/vm/nr_hugepages; mkdir -p /tmp/verbs; "
            f"cd /tmp/verbs; {self.environment} python3 {RUNNER} {self.folder} "
            f"/tmp/verbs/results {' '.join(files)} -- --dev {port.ibdev} "
            f"--gid {port.gid_index()} 2>&1", LIMIT_S)
        lines = port.guest.check("cat /tmp/verbs/results").splitlines()
        return {name: (verdict, reason) for name, verdict, reason in
                (line.split("\t") for line in lines)}, log

    def check(self, found, log):
        """Fails unless all tests ran, each with the result of the list."""
        listed = self.expected()
        wrong = {name: found[name] for name in found if name not in listed or
                 listed[name][0] != found[name][0] or
                 not found[name][1].startswith(listed[name][1])}
        missing = set(listed) - set(found)
        assert log.ok and not wrong and not missing, (
            f"not as {self.list.name} has them:\n{as_list(wrong)}\n"
            f"not run: {sorted(missing)}\n{log.out[-8000:]}\n{log}")


def as_list(results):
    return "\n".join(f"{name} {verdict} {reason}".rstrip()
                     for name, (verdict, reason) in sorted(results.items()))


# ---- the table of STATUS.md ----------------------------------------------

def by_file(results):
    """Returns a map from file to [passed, skipped, failed]; a crash counts as
    failed."""
    table = {}
    for name, (verdict, _) in results.items():
        row = table.setdefault(name.split(".")[0], [0, 0, 0])
        row[{"pass": 0, "skip": 1}.get(verdict, 2)] += 1
    return table


def table(*columns):
    """Returns a map from row to line of Markdown: what passes, is skipped and
    fails in each file, for each column, and the sums."""
    tables = [by_file(results) for results in columns]
    rows = {file: [counts.get(file, [0, 0, 0]) for counts in tables]
            for file in sorted(set().union(*tables))}
    rows["all"] = [[sum(row) for row in zip(*counts.values())]
                   for counts in tables]
    return {name: f"| {name} | " + " | ".join(
        " / ".join(map(str, counts)) for counts in row) + " |"
        for name, row in rows.items()}
