# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs written for cards, over the libraries that Debian packages: libfabric
by its own tests, UCX by ucx_perftest and by a program that compares its data.

`make test` runs a part of the combinations on fakernic and prints rxe's result,
as PROGRAMS.md has it, beside each; `make test-programs` all of them on fakernic
and on Soft-RoCE, and writes PROGRAMS.md.
"""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from fakernic_lab.guest import Result
from fakernic_test import pairs, programs, rdma

RESULTS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/vm"))
DOCUMENT = Path(__file__).with_name("PROGRAMS.md")
# What fabtests print of a completion that was flushed.
FLUSH = ("[error] fabtests:common/shared.c:3044: cq_readerr 125 (Operation "
         "canceled), provider errno: 5 (Work Request Flushed Error)\n")


def known(driver):
    """Title -> a driver's verdict, as PROGRAMS.md has them."""
    told = {}
    heads = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if line.startswith("| program"):
            heads = cells
        for head, cell in zip(heads[1:], cells[1:]):
            if head.startswith(f"{driver} ") and cells[0] in programs.PROGRAMS:
                told[f"{cells[0]}, {head.split()[1]}"] = cell
    return {name: cell for name, cell in told.items() if cell}


def titles(wanted):
    return {programs.title(*one) for one in wanted}


@pytest.mark.guests(count=1)
def test_document_has_all():
    """A verdict for each program, fakernic's a good one."""
    fakernic, rxe = known("fakernic"), known("rxe")
    assert set(fakernic) == titles(programs.ALL)
    assert set(fakernic.values()) == {programs.PASSED}
    assert set(rxe) <= titles(programs.ALL)
    assert set(rxe.values()) <= {programs.PASSED, programs.FAILED}


@pytest.mark.guests(count=1)
@pytest.mark.parametrize("name, ends, out, again", [
    ("fi_rdm_pingpong", (0, errno.ECANCELED), FLUSH, True),
    ("fi_rdm_pingpong", (pairs.TIMED_OUT, 0), "", True),
    ("fi_rdm_pingpong", (0, errno.ECANCELED), "", False),
    ("fi_rdm_pingpong", (errno.ECANCELED, errno.ECANCELED), FLUSH, False),
    ("fi_rdm_pingpong", (pairs.TIMED_OUT, pairs.TIMED_OUT), "", False),
    ("fi_msg_pingpong", (0, errno.ECANCELED), FLUSH, False),
])
def test_what_is_made_again(name, ends, out, again):
    """A run over ofi_rxm of which one side has done all, and nothing else."""
    name = next(one for one in programs.PROGRAMS if name in one)
    pair = rdma.Pair(*(Result("fabtest", code, out if code else "", "")
                       for code in ends))
    assert programs.lost_its_last(name, pair) == again


@pytest.mark.timeout(900)
def test_programs_for_cards(ports, capsys):
    found = programs.run(ports, programs.QUICK)
    with capsys.disabled():
        print("\n" + programs.table({"fakernic": programs.verdicts(found),
                                     "rxe": known("rxe")}))
        programs.made_again(found)
    assert set(found) == titles(programs.QUICK)
    assert not programs.failures(found), programs.failures(found)


# ---- make test-programs ----------------------------------------------------

def long_run(ports, driver, wanted):
    found = programs.run(ports, wanted)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"programs-{driver}.json").write_text(
        json.dumps(programs.verdicts(found), indent=1))
    (RESULTS / f"programs-{driver}.log").write_text(programs.failures(found))
    return found


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_more_programs(ports):
    found = long_run(ports, "fakernic", programs.ALL)
    programs.made_again(found)
    assert not programs.failures(found), programs.failures(found)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.guests(driver="rxe")
def test_the_same_on_rxe(ports):
    """What it does not pass is no fault of this project: it is said, no more."""
    found = long_run(ports, "rxe", programs.ALL)
    assert set(found) == titles(programs.ALL)


@pytest.mark.long
@pytest.mark.guests(driver="rxe")
def test_document_is_written():
    """Of what the two runs before have found."""
    found = {driver: json.loads((RESULTS / f"programs-{driver}.json").read_text())
             for driver in ("fakernic", "rxe")}
    head = re.split(r"^\| program", DOCUMENT.read_text(encoding="utf-8"),
                    flags=re.M)[0]
    text = head + programs.table(found)
    (RESULTS / "PROGRAMS.md").write_text(text, encoding="utf-8")
    print(text)
