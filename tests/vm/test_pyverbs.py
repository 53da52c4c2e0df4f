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

from fakernic_test import CACHE, rdma

LIST = Path(__file__).parent / "rdma_core_tests.txt"
RUNNER = "/usr/share/fakernic/rdma_core_runner.py"
LIMIT_S = 420
TABLE = CACHE / "log/rdma-core-tests.md"


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
    """File -> [passed, skipped, failed]; the process may have died of one."""
    table = {}
    for name, (verdict, _) in results.items():
        row = table.setdefault(name.split(".")[0], [0, 0, 0])
        row[{"pass": 0, "skip": 1}.get(verdict, 2)] += 1
    return table


def markdown(ours, theirs):
    """For the README: what of each file passes, is skipped, fails."""
    lines = ["| test file | fakernic | Soft-RoCE |",
             "|---|---|---|"]
    total = [[0, 0, 0], [0, 0, 0]]
    for file in sorted(ours):
        rows = [table.get(file, [0, 0, 0]) for table in (ours, theirs)]
        total = [[a + b for a, b in zip(*pair)] for pair in zip(total, rows)]
        lines.append(f"| `{file}` | " + " | ".join(
            " / ".join(map(str, row)) for row in rows) + " |")
    lines.append("| all (pass / skip / fail) | " + " | ".join(
        " / ".join(map(str, row)) for row in total) + " |")
    return "\n".join(lines) + "\n", total


# Of the guest of the table: a NIC for Soft-RoCE. Its hub has a second port, for
# nobody: Linux takes virtio-net for dead when its frames go nowhere at all.
SECOND_NIC = ("-netdev", "hubport,hubid=1,id=soft",
              "-netdev", "hubport,hubid=1,id=nobody",
              "-device", "virtio-net-pci,netdev=soft,romfile=")


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S + 200)
@pytest.mark.guests(count=1, options={"memory": 1536, "extra": SECOND_NIC})
def test_table_with_soft_roce(vms):
    """The same tests on Soft-RoCE in the same guest, side by side."""
    (vm,) = vms
    ours, _ = run_all(rdma.bring_up(vm, 1, "fakernic"))
    vm.guest.check("modprobe -r fakernic")
    theirs, _ = run_all(rdma.bring_up(vm, 2, "rxe"))
    text, (mine, soft) = markdown(by_file(ours), by_file(theirs))
    TABLE.write_text(text, encoding="utf-8")
    print(f"\n{text}")
    assert mine[0] > soft[0] and mine[2] <= soft[2]
