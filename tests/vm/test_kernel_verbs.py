# SPDX-License-Identifier: GPL-2.0-or-later
"""Verbs of the kernel, as a module (module/kernel_user.c) uses them, in ways
that NVMe over Fabrics and others use too rarely or only by chance."""

import time

import pytest

from fakernic_lab import faults, images
from fakernic_test import rdma
from fakernic_test.lab import mount
from fakernic_test.recovery import (REPORTER, SLOT, ConfiguredPort, reload,
                                    without_auto_recover)

IMAGE = images.images() / "modules.erofs"
FOLDER = "/mnt/modules"
RUN = "/sys/kernel/debug/kernel_user/run"


def guests(cpus):
    return pytest.mark.guests(count=1, options={
        "cpus": cpus, "extra": tuple(images.disk(IMAGE))})


pytestmark = [guests(2), pytest.mark.timeout(300)]

KINDS = 4               # kinds of kernel CQs, one of them without a handler
EACH_WAY = 16           # pending work requests of a queue pair
AGAIN = 200             # later posts to a dead device
BUSY = 300              # CQs made and destroyed, before it dies
QUIET_S = 5             # a CPU is blocked for less
RING = 1 << 17          # entries of a CQ; too long for one piece of memory


class User:
    """The module."""

    def __init__(self, dut):
        self.dut, self.guest = dut, dut.guest
        mount(self.guest, IMAGE, FOLDER)
        self.guest.check(f"insmod {FOLDER}/$(uname -r)/kernel_user.ko")

    def run(self, word, timeout=60):
        self.guest.check(f"echo {word} >{RUN}", timeout)

    def reported(self):
        return {name: int(number) for name, number in
                map(str.split, self.guest.check(f"cat {RUN}").splitlines())}

    def until(self, condition, seconds=30):
        """Returns the report for which this was true."""
        deadline = time.monotonic() + seconds
        while not condition(reported := self.reported()):
            assert time.monotonic() < deadline, reported
            time.sleep(0.1)
        return reported

    def end(self):
        self.guest.check("rmmod kernel_user", 60)


@pytest.fixture
def dut(ports):
    before = rdma.resources(ports[0])
    dut = ConfiguredPort(ports[0])
    dut.forget()
    yield dut
    dut.end()
    rdma.wait_for_resources(ports[0], before)


@pytest.fixture
def user(dut):
    user = User(dut)
    yield user
    user.end()


def wait_for_death(user):
    """Makes queue pairs at CQs of each vector and kind, with work that does
    not complete."""
    user.run("wait")
    reported = user.until(lambda reported: reported["churned"] > BUSY)
    cpus = int(user.guest.check("nproc"))
    assert reported["vectors"] == cpus
    assert reported["queues"] == KINDS * cpus
    assert reported["posted"] == 2 * EACH_WAY * reported["queues"]
    assert reported["flushed"] == reported["otherwise"] == reported["refused"] == 0, reported


def is_flushed(reported):
    """Checks that each work request is flushed once, also those posted after
    the death."""
    return (reported["flushed"] == reported["posted"] and not reported["twice"] and
            not reported["otherwise"] and not reported["refused"])


def dies(user, rule):
    user.dut.forget()
    faults.set_fault(user.dut.port.vm, f"at=device do={rule}")


def dies_and_is_left(user):
    """The device dies and stays dead: kernel users and callers that post are
    notified."""
    wait_for_death(user)
    with without_auto_recover(user.guest):
        dies(user, "fatal")
        reported = user.until(lambda reported: reported["agains"] == AGAIN and
                          is_flushed(reported))
        assert reported["posted"] >= 2 * EACH_WAY * reported["queues"] + AGAIN, reported
        user.guest.check(f"devlink health recover {REPORTER}", 60)


def dies_and_is_recovered(user):
    """The device is recovered at once: users must release it while they are
    notified."""
    wait_for_death(user)
    dies(user, "dead")
    user.dut.is_recovered(40)


DEATHS = (dies_and_is_left, dies_and_is_recovered)


def judge_death(user, death):
    death(user)
    user.dut.works()
    user.dut.port.vm.assert_healthy()
    reported = user.reported()
    assert is_flushed(reported), reported


@pytest.mark.parametrize("death", DEATHS)
def test_death_flushes_work_requests(user, death):
    """Pending work requests of the kernel are flushed when the device dies,
    while other CQs are created and destroyed. CQs that only their owner polls
    get no call of their handler, which the kernel would report."""
    judge_death(user, death)


@pytest.mark.long
@guests(4)
@pytest.mark.timeout(3000)
def test_cqs_destroyed_during_deaths(user, rounds):
    """Several CPUs destroy CQs while the device dies, many times."""
    for _ in range(rounds(20)):
        for death in DEATHS:
            # Without it the pauses would grow from death to death.
            reload(user.dut.port)
            user.dut.works()
            judge_death(user, death)


def test_destroy_cq_waits_for_flush(user):
    """A CPU that destroys a CQ waits until the flush at the death of the
    device has left it."""
    user.run("visit")
    dies(user, "fatal")
    reported = user.until(lambda reported: reported["freed"])
    assert reported["held"] == reported["asked"] == 1 and not reported["early"], reported
    user.dut.is_recovered(40)
    user.dut.works()


@pytest.mark.parametrize("word", ("last", "late"))
def test_death_while_polling(user, word):
    """The device dies while another CPU polls, and each request completes
    once. A CQ that was found empty before the death gets its flush later, and
    its owner polls again if notified while polling."""
    user.dut.port.vm.expect_repair()
    with without_auto_recover(user.guest):
        user.run(word)
        # A process that ends now might send an interrupt to the blocked CPU.
        time.sleep(QUIET_S)
        reported = user.until(lambda reported: reported["freed"], 60)
        assert reported["held"] == reported["died"] == 1 and not reported["early"], reported
        assert reported["asked"] == (word == "late"), reported
        assert reported["posted"] == 2 * EACH_WAY, reported
        user.until(lambda reported: reported["flushed"] == reported["posted"])
        time.sleep(1)
        assert is_flushed(user.reported()), user.reported()
        user.guest.check(f"devlink health recover {REPORTER}", 60)
    user.dut.works()


def test_cq_ring_of_single_pages(user):
    """A CQ of the maximum length works with single pages, uses only the memory
    of its entries, and keeps each entry in place."""
    user.run("deep", 200)
    reported = user.reported()
    assert reported["deepest"] >= 1 << 22, reported
    assert reported["needed_kib"] == 32 * (8192 * 64 >> 10), reported
    assert reported["taken_kib"] < 1.4 * reported["needed_kib"], reported
    assert reported["deep"] == RING and reported["polled"] > 2 * RING, reported
    assert not reported["disordered"], reported


def judge_full(user):
    user.run("full", 200)
    reported = user.reported()
    assert reported["recvs"] == reported["max_qp_wr"] >= 4096, reported
    assert reported["shared"] == reported["max_srq_wr"] >= 32767, reported
    assert reported["sends"] >= reported["max_qp_wr"], reported
    assert reported["received"] == reported["sent"] == reported["recvs"] + reported["shared"]
    assert not reported["disordered"], reported


def test_queue_depths_match_limits(user):
    """RQ and SRQ of the kernel accept as many receives as reported and not one
    more, the SQ at least as many sends. Each completes once. With an SRQ the
    reported receives are not checked."""
    judge_full(user)


def test_duplicate_completions_are_dropped(user):
    """If the device completes a work request twice, the kernel sees one
    completion."""
    with faults.armed(user.dut.port.vm,
                      "at=cqe every=3 times=0 do=duplicate") as rule:
        judge_full(user)
        assert rule.hits()[0] > 1000


def test_flush_needs_no_new_worker(ports):
    """The flush runs in a thread that always exists, as there may be no memory
    for a new one."""
    names = ports[0].guest.check("cat /proc/[0-9]*/comm")
    # fakernic-SLOT, cut to the length of a thread's name.
    assert f"kworker/R-fakernic-{SLOT}".startswith(
        max((name for name in names.splitlines() if "R-fake" in name),
            default="none")), names
