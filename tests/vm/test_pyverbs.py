# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's own tests, as they come, against the device in loopback.

rdma_core_tests.txt says of every test of the vendor-neutral files what must
come of it: that it passes, or the reason why it cannot. Anything else fails:
a test that no longer passes, one that skips for another reason, one that
passes although it is listed as impossible, one that the list does not know.
The tests of other vendors' devices (mlx5, efa) are not run.
"""

from pathlib import Path

import pytest

from fakernic_test import rdma

LIST = Path(__file__).parent / "rdma_core_tests.txt"
RUNNER = "/usr/share/fakernic/rdma_core_runner.py"
LIMIT_S = 420


def expected():
    """Name -> (verdict, the beginning of the reason)."""
    found = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, verdict, *reason = line.split(maxsplit=2)
            found[name] = (verdict, reason[0] if reason else "")
    return found


def run_all(port):
    """Name -> (verdict, reason) of every vendor-neutral test, and the log."""
    log = port.guest.run(
        "echo 32 >/proc/sys/vm/nr_hugepages; "
        "cd /usr/share/rdma-core-tests; files=$(ls test_*.py | "
        "grep -Ev '^test_(mlx5|efa)' | sed 's/[.]py$//'); mkdir -p /tmp/verbs; "
        f"cd /tmp/verbs; python3 {RUNNER} /tmp/verbs/results $files -- "
        f"--dev {port.ibdev} --gid {port.gid_index()} 2>&1", LIMIT_S)
    lines = port.guest.check("cat /tmp/verbs/results").splitlines()
    return {name: (verdict, reason) for name, verdict, reason in
            (line.split("\t") for line in lines)}, log


def as_list(results):
    return "\n".join(f"{name} {verdict} {reason}".rstrip()
                     for name, (verdict, reason) in sorted(results.items()))


@pytest.mark.timeout(LIMIT_S + 120)
@pytest.mark.guests(count=1, options={"memory": 1536})
def test_rdma_core_tests(ports):
    found, log = run_all(ports[0])
    listed = expected()
    wrong = {name: found[name] for name in found if name not in listed or
             listed[name][0] != found[name][0] or
             not found[name][1].startswith(listed[name][1])}
    missing = set(listed) - set(found)
    assert not wrong and not missing, (
        f"not as listed, but:\n{as_list(wrong)}\nnot run: {missing}\n"
        f"{log.out[-8000:]}\n{log}")


def by_file(results):
    """File -> verdict -> count."""
    table = {}
    for name, (verdict, _) in results.items():
        row = table.setdefault(name.split(".")[0], {})
        row[verdict] = row.get(verdict, 0) + 1
    return table


def print_table(ours, theirs):
    """For the README: what of each file passes."""
    print("\n| test file | tests | fakernic | Soft-RoCE |\n|---|---|---|---|")
    total = [0, 0, 0]
    for file in sorted(ours):
        row = [sum(ours[file].values()), ours[file].get("pass", 0),
               theirs.get(file, {}).get("pass", 0)]
        total = [a + b for a, b in zip(total, row)]
        print(f"| {file} | {row[0]} | {row[1]} | {row[2]} |")
    print(f"| all | {total[0]} | {total[1]} | {total[2]} |")


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S + 200)
def test_table_with_soft_roce(lab):
    """The same tests on Soft-RoCE in the same kind of guest, side by side."""
    tables = []
    for driver, model in (("fakernic", "fakernic"), ("rxe", "virtio-net-pci")):
        vms = lab.get(1, model=model, options={"memory": 1536})
        (port,) = rdma.bring_up_all(vms, driver)
        results, _ = run_all(port)
        tables.append(by_file(results))
    lab.current = None
    print_table(*tables)
    passed = [sum(row.get("pass", 0) for row in table.values())
              for table in tables]
    assert passed[0] > passed[1]
