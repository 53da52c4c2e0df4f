# SPDX-License-Identifier: GPL-2.0-or-later
"""Verbs of the kernel, as a module (module/kernel_user.c) uses them: what NVMe
over Fabrics and the like do too seldom, or by luck only.
"""

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

KINDS = 4               # of a kernel's CQs, among them those that nobody calls
EACH_WAY = 16           # work requests of a queue pair that wait
AGAIN = 200             # times more is posted to a dead device
BUSY = 300              # CQs made and destroyed, before it dies
QUIET_S = 5             # a CPU is held up for less
RING = 1 << 17          # entries of a CQ; one piece of memory would not do


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
        """What was told when that was true of it."""
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
    """Queue pairs at CQs of each vector and kind, whose work is not done."""
    user.run("wait")
    told = user.until(lambda told: told["churned"] > BUSY)
    cpus = int(user.guest.check("nproc"))
    assert told["vectors"] == cpus
    assert told["queues"] == KINDS * cpus
    assert told["posted"] == 2 * EACH_WAY * told["queues"]
    assert told["flushed"] == told["otherwise"] == told["refused"] == 0, told


def is_flushed(told):
    """Each work request once, also those that came when it was dead."""
    return (told["flushed"] == told["posted"] and not told["twice"] and
            not told["otherwise"] and not told["refused"])


def dies(user, rule):
    user.dut.forget()
    faults.set_fault(user.dut.port.vm, f"at=device do={rule}")


def dies_and_is_left(user):
    """The kernel's users are told, and so is who posts to the dead device."""
    wait_for_death(user)
    with without_auto_recover(user.guest):
        dies(user, "fatal")
        told = user.until(lambda told: told["agains"] == AGAIN and
                          is_flushed(told))
        assert told["posted"] >= 2 * EACH_WAY * told["queues"] + AGAIN, told
        user.guest.check(f"devlink health recover {REPORTER}", 60)


def dies_and_is_recovered(user):
    """At once: they have to let go of it while they are told."""
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
    """And no handler is called of CQs that are polled by their owner alone, which
    the kernel's core would complain of; while others make and destroy CQs."""
    judge_death(user, death)


@pytest.mark.long
@guests(4)
@pytest.mark.timeout(3000)
def test_cqs_destroyed_during_deaths(user, rounds):
    """Of more CPUs, each of which destroys CQs when the device dies."""
    for _ in range(rounds(20)):
        for death in DEATHS:
            # Else the pauses go on growing from death to death.
            reload(user.dut.port)
            user.dut.works()
            judge_death(user, death)


def test_destroy_cq_waits_for_flush(user):
    """At its death all CQs are looked at: who destroys one of them, on another
    CPU, waits until that is done."""
    user.run("visit")
    dies(user, "fatal")
    told = user.until(lambda told: told["freed"])
    assert told["held"] == told["asked"] == 1 and not told["early"], told
    user.dut.is_recovered(40)
    user.dut.works()


@pytest.mark.parametrize("word", ("last", "late"))
def test_death_while_polling(user, word):
    """On another CPU. Work that the device completes after he has found the CQ
    empty, and before it dies, is not flushed as well; and if he is told to poll
    before he is done with it, he does so again."""
    user.dut.port.vm.expect_repair()
    with without_auto_recover(user.guest):
        user.run(word)
        # A process that ended now might want an interrupt of the CPU held up.
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
    """A kernel's CQ can be as long as the device says, costs as much memory as its
    entries need, and has each of them in its place, round after round."""
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
    """A kernel's RQ and SRQ take as many receives as the device says, and not one
    more; its SQ as many sends at least. All of them complete, each once. Beside an
    SRQ nobody judges what is said of receives."""
    judge_full(user)


def test_duplicate_completions_are_dropped(user):
    """By the device: a work request completes once."""
    with faults.armed(user.dut.port.vm,
                      "at=cqe every=3 times=0 do=duplicate") as rule:
        judge_full(user)
        assert rule.hits()[0] > 1000


def test_flush_needs_no_new_worker(ports):
    """Who flushes has a thread of its own, should there be no memory to make
    one."""
    names = ports[0].guest.check("cat /proc/[0-9]*/comm")
    # As much of fakernic-SLOT as a thread's name has room for.
    assert f"kworker/R-fakernic-{SLOT}".startswith(
        max((name for name in names.splitlines() if "R-fake" in name),
            default="none")), names
