# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs written for cards, over the libraries that Debian packages: libfabric
by its own tests, UCX by ucx_perftest and by a program that compares its data.

`make test` runs a part of the combinations on fakernic and prints rxe's result,
as programs.json has it, next to each; `make test-programs` all of them on fakernic
and on Soft-RoCE, and writes programs.json. It also runs what `ci/programs.py --long`
fetches and builds: kernel modules that Debian leaves out, Open MPI, Ceph's
messenger, librpma, Valkey. Each of these tests compares the data, and checks by
the cards' counters that the data went by RDMA.
"""

import errno
import json
import os
import re
from pathlib import Path

import pytest

from fakernic_lab.guest import Result
from fakernic_test import long_programs, pairs, programs, rdma, ulp

RESULTS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/vm"))
KNOWN = Path(__file__).with_name("programs.json")
# The message of fabtests for a flushed completion.
FLUSH = ("[error] fabtests:common/shared.c:3044: cq_readerr 125 (Operation "
         "canceled), provider errno: 5 (Work Request Flushed Error)\n")


def known(driver):
    """Returns a map from title to a driver's verdict, as PROGRAMS.md counts
    them."""
    return json.loads(KNOWN.read_text(encoding="utf-8"))[driver]


def titles(wanted):
    return {programs.title(*one) for one in wanted}


@pytest.mark.guests(count=1)
def test_document_lists_all_programs():
    """PROGRAMS.md has a verdict for each program, and fakernic passes all."""
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
def test_which_runs_are_repeated(name, ends, out, again):
    """A run is repeated only if it uses ofi_rxm and one side has completed."""
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
        programs.check_repeated(found)
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
    programs.check_repeated(found)
    assert not programs.failures(found), programs.failures(found)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.guests(driver="rxe")
def test_programs_on_rxe(ports):
    """Failures on Soft-RoCE are reported but do not fail the test, because they are no bug
    of this project."""
    found = long_run(ports, "rxe", programs.ALL)
    assert set(found) == titles(programs.ALL)


@pytest.mark.long
@pytest.mark.guests(driver="rxe")
def test_results_are_written():
    """Results of the two runs before are written to programs.json."""
    found = {driver: json.loads((RESULTS / f"programs-{driver}.json").read_text())
             for driver in ("fakernic", "rxe")}
    (RESULTS / KNOWN.name).write_text(json.dumps(found, indent=1) + "\n",
                                      encoding="utf-8")
    print(programs.table(found))


# ---- programs of ci/programs.py --long ---------------------------------------

# The least number of bytes that a test moves.
KERNEL_MIB = 8
MPI_BYTES = 4 * long_programs.MEBIBYTE
CEPH_MESSAGES = 200
CEPH_SIZE = 65536
VALKEY_THREADS = 4
VALKEY_BYTES = 2 * VALKEY_THREADS * 128 * 1024     # at least 128 keys each


def long_test(test):
    """Marks a test for make test-programs, on guests with the disk of
    long_programs.py."""
    for mark in (pytest.mark.long, pytest.mark.timeout(600),
                 pytest.mark.guests(options=long_programs.OPTIONS)):
        test = mark(test)
    return test


@long_test
@pytest.mark.parametrize("service", (long_programs.Rnbd, long_programs.Smb))
def test_kernel_modules(ports, service):
    """RNBD over RTRS, and SMB Direct: both ends have the data that was written."""
    long_programs.prepare(ports, "modules")
    if service is long_programs.Smb:
        long_programs.prepare(ports, "ksmbd")
    before = ulp.counts(ports)
    it = service(ports)
    it.start()
    with long_programs.by_rdma(ports, 2 * KERNEL_MIB * long_programs.MEBIBYTE):
        it.move(KERNEL_MIB)
    it.stop()
    ulp.nothing_left(ports, before)


@long_test
def test_libiscsi(ports):
    """QEMU's initiator, which uses libiscsi's iSER, works with the target of Linux."""
    long_programs.prepare(ports, "libiscsi")
    before = ulp.counts(ports)
    it = ulp.Iser(ports)
    it.serve()
    with long_programs.by_rdma(ports, 4 * long_programs.MEBIBYTE):
        result = long_programs.qemu_io(ports, it, "1M", {"0": 0x5a, "1M": 0xa5})
    it.unserve()
    assert result.ok and "verification failed" not in result.out, result
    assert result.out.count("1048576/1048576 bytes") == 4, result
    ulp.nothing_left(ports, before)


@long_test
@pytest.mark.parametrize("layer", sorted(long_programs.OPENMPI))
def test_openmpi(ports, layer):
    long_programs.prepare(ports, "openmpi")
    with long_programs.by_rdma(ports, MPI_BYTES):
        result = long_programs.openmpi(ports, layer).check()
    assert re.search(r"^[1-9]\d* comparisons held, 2 processes on 2 machines",
                     result.out, re.M), result


@long_test
def test_ceph_messenger(ports):
    long_programs.prepare(ports, "ceph")
    with long_programs.by_rdma(ports, CEPH_MESSAGES * CEPH_SIZE):
        result = long_programs.ceph(ports, CEPH_MESSAGES, CEPH_SIZE)
    assert result.ok, result


@long_test
def test_rpma(ports):
    """FLUSH and ATOMIC WRITE are native: the program checks the opcodes."""
    long_programs.prepare(ports, "rpma")
    with long_programs.by_rdma(ports, 2 * long_programs.MEBIBYTE):
        pair = long_programs.rpma(ports).check()
    assert "compared, by FLUSH and ATOMIC WRITE" in pair.client.out, pair
    assert "1048576 bytes of the server's memory compared" in pair.server.out, pair


@long_test
def test_valkey(ports):
    long_programs.prepare(ports, "valkey")
    with long_programs.by_rdma(ports, VALKEY_BYTES):
        result = long_programs.valkey(ports, VALKEY_THREADS)
    assert result.ok, result
    threads = re.findall(r"GET \d+ KVs \[OK\]", result.out)
    assert len(threads) == VALKEY_THREADS, result
