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

    def told(self):
        return {name: int(number) for name, number in
                map(str.split, self.guest.check(f"cat {RUN}").splitlines())}

    def until(self, condition, seconds=30):
        """Returns the report for which this was true."""
        deadline = time.monotonic() + seconds
        while not condition(told := self.told()):
            assert time.monotonic() < deadline, told
            time.sleep(0.1)
        return told

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
    told = user.until(lambda told: told["churned"] > BUSY)
    cpus = int(user.guest.check("nproc"))
    assert told["vectors"] == cpus
    assert told["queues"] == KINDS * cpus
    assert told["posted"] == 2 * EACH_WAY * told["queues"]
    assert told["flushed"] == told["otherwise"] == told["refused"] == 0, told


def is_flushed(told):
    """Checks that each work request is flushed once, also those posted after
    the death."""
    return (told["flushed"] == told["posted"] and not told["twice"] and
            not told["otherwise"] and not told["refused"])


def dies(user, rule):
    user.dut.forget()
    faults.set_fault(user.dut.port.vm, f"at=device do={rule}")


def dies_and_is_left(user):
    """The device dies and stays dead: kernel users and callers that post are
    notified."""
    wait_for_death(user)
    with without_auto_recover(user.guest):
        dies(user, "fatal")
        told = user.until(lambda told: told["agains"] == AGAIN and
                          is_flushed(told))
        assert told["posted"] >= 2 * EACH_WAY * told["queues"] + AGAIN, told
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
    told = user.told()
    assert is_flushed(told), told


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
    told = user.until(lambda told: told["freed"])
    assert told["held"] == told["asked"] == 1 and not told["early"], told
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
        told = user.until(lambda told: told["freed"], 60)
        assert told["held"] == told["died"] == 1 and not told["early"], told
        assert told["asked"] == (word == "late"), told
        assert told["posted"] == 2 * EACH_WAY, told
        user.until(lambda told: told["flushed"] == told["posted"])
        time.sleep(1)
        assert is_flushed(user.told()), user.told()
        user.guest.check(f"devlink health recover {REPORTER}", 60)
    user.dut.works()


def test_cq_ring_of_single_pages(user):
    """A CQ of the maximum length works with single pages, uses only the memory
    of its entries, and keeps each entry in place."""
    user.run("deep", 200)
    told = user.told()
    assert told["deepest"] >= 1 << 22, told
    assert told["needed_kib"] == 32 * (8192 * 64 >> 10), told
    assert told["taken_kib"] < 1.4 * told["needed_kib"], told
    assert told["deep"] == RING and told["polled"] > 2 * RING, told
    assert not told["disordered"], told


def judge_full(user):
    user.run("full", 200)
    told = user.told()
    assert told["recvs"] == told["max_qp_wr"] >= 4096, told
    assert told["shared"] == told["max_srq_wr"] >= 32767, told
    assert told["sends"] >= told["max_qp_wr"], told
    assert told["received"] == told["sent"] == told["recvs"] + told["shared"]
    assert not told["disordered"], told


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
