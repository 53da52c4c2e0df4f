# SPDX-License-Identifier: GPL-2.0-or-later
"""Unmodified tests of rdma-core, against the device in loopback.

pyverbs_main.txt has the expected result of each test. Tests of other vendors'
devices (mlx5, efa) are not run. `make test-long` runs the same tests on
Soft-RoCE in one guest, and the table of tests/STATUS.md must have both
results.
"""

import re
from pathlib import Path

import pytest

from fakernic_test import pyverbs, rdma

SUITE = pyverbs.Suite("main", "/usr/share/rdma-core-tests")
STATUS = Path(__file__).parents[1] / "STATUS.md"

# A NIC for Soft-RoCE. Its hub has an unused second port: if its frames had no
# receiver at all, Linux would report a dead virtio-net.
SECOND_NIC = ("-netdev", "hubport,hubid=1,id=soft",
              "-netdev", "hubport,hubid=1,id=nobody",
              "-device", "virtio-net-pci,netdev=soft,romfile=")

# Soft-RoCE sends later than the program posts. If it has not finished when this test
# shrinks the CQ, it grants a size that loses completions. The test passes only in
# some runs, which counts as a failure.
UNSTABLE_THERE = "test_cq.CQTest.test_resize_cq"

CHANCES = 3

pytestmark = [
    pytest.mark.timeout(2 * pyverbs.LIMIT_S),
    pytest.mark.guests(count=1, options={"memory": 1536, "extra": SECOND_NIC})]


def run_on_fakernic(vm):
    found, log = SUITE.run(rdma.bring_up(vm, 1, "fakernic"))
    SUITE.check(found, log)
    return found


def test_rdma_core_tests(vms):
    run_on_fakernic(vms[0])


def table_of_status():
    return [line for line in STATUS.read_text(encoding="utf-8").splitlines()
            if re.match(r"\| (test_\w+|all) \| \d", line)]


def run_on_soft_roce(port, files=()):
    found, log = SUITE.run(port, files)
    if UNSTABLE_THERE in found:
        found[UNSTABLE_THERE] = ("fail", "not in every run")
    return found, log


@pytest.mark.long
def test_table_with_soft_roce(vms):
    """The table has the results of the same tests on Soft-RoCE. Soft-RoCE is
    not under test: a file with another result is repeated, and a test that
    passed once counts as passed."""
    (vm,) = vms
    ours = run_on_fakernic(vm)
    vm.guest.check("modprobe -r fakernic")
    port = rdma.bring_up(vm, 2, "rxe")
    theirs, log = run_on_soft_roce(port)
    wanted = table_of_status()
    for _ in range(CHANCES):
        again = [file for file, line in pyverbs.table(ours, theirs).items()
                 if line not in wanted and file != "all"]
        if not again:
            break
        theirs.update({name: outcome for name, outcome in
                       run_on_soft_roce(port, again)[0].items()
                       if theirs.get(name, ("fail", ""))[0] != "pass"})
    measured = list(pyverbs.table(ours, theirs).values())
    assert measured == wanted, (
        "the table of STATUS.md is not what was measured:\n" + "\n".join(measured) +
        f"\n{pyverbs.as_list(theirs)}\n{log}")
