# SPDX-License-Identifier: GPL-2.0-or-later
"""A faulty card fails the test even if the driver repairs it. Here the guest's
root writes fault rules that the checks do not know."""

import time

import pytest

from fakernic_lab.errors import GuestCrashed
from fakernic_test import rdma
from fakernic_test.recovery import FAULTS, MOUNT_DEBUGFS, is_recovered, until
from fakernic_test.watched import TOGETHER, is_harmful

pytestmark = pytest.mark.guests(count=1, x_guest_faults="on")

HEALED_S = 1.5          # the driver checks twice a second
BROADCAST = "ping -b -c 1 -W 1 192.168.77.255"


def look(port):
    port.vm.unchecked.append("this one")
    port.vm.look()


@pytest.fixture(name="sick")
def sick_port(ports):
    """A port with an empty log, which this test makes faulty."""
    (port,) = ports
    port.guest.check(f"{MOUNT_DEBUGFS}; dmesg -C")
    look(port)
    yield port
    port.guest.check(f"echo remove=all >{FAULTS}; until rdma link | grep -q ACTIVE; "
                     "do sleep 0.1; done", 60)
    port.vm.expect_repair()


def rule(port, text):
    port.guest.check(f"echo '{text}' >{FAULTS}")


def complaint(port):
    with pytest.raises(GuestCrashed) as error:
        look(port)
    return str(error.value)


def test_healthy_card_passes(sick):
    """A fault rule that has not hit is no complaint."""
    rule(sick, "at=tx class=roce do=count")
    rdma.pingpong("rc", sick, sick, "-n 50").check()
    look(sick)


@pytest.mark.parametrize("at, name", (("interrupt number=1", "lost_interrupts"),
                                      ("eqe", "lost_events")))
def test_lost_interrupt_is_found(sick, at, name):
    """A lost interrupt or event is reported each time, though the driver logs
    it once."""
    for _ in range(2):
        rule(sick, f"at={at} do=drop")
        sick.guest.run(BROADCAST)
        time.sleep(HEALED_S)
        assert f"{name}: 1" in complaint(sick)
        look(sick)          # the driver logs it once


def test_restarted_queues_are_found(sick):
    rule(sick, "at=send-wqe status=5 do=fail")
    sick.guest.run(BROADCAST)
    until(sick.guest, "dmesg | grep -q restarting")
    assert "restarting" in complaint(sick)


def test_death_is_found(sick):
    """A death is reported even if the test cleared the log, unless the test
    called expect_repair()."""
    for is_asked in (False, True):
        sick.guest.run(f"echo 'at=device do=fatal' >{FAULTS}")     # gets no answer
        is_recovered(sick.guest)
        sick.guest.check("dmesg -C")
        if is_asked:
            sick.vm.expect_repair()
            sick.vm.ends("is asked")
            assert not sick.vm.unchecked
        else:
            assert "device is dead" in complaint(sick)


def test_one_check_covers_several_tests(sick):
    """A check reports the tests since the last check. It runs after TOGETHER
    tests, or before a test that harms the card."""
    rule(sick, "at=eqe do=drop")
    sick.guest.run(BROADCAST)
    time.sleep(HEALED_S)
    sick.vm.ends("first")
    sick.vm.ends("second")
    with pytest.raises(GuestCrashed, match="in first, second:\nlost_events: 1"):
        sick.vm.expect_repair()
    assert not sick.vm.repair_expected
    rule(sick, "at=eqe do=drop")
    sick.guest.run(BROADCAST)
    time.sleep(HEALED_S)
    for number in range(1, TOGETHER):
        sick.vm.ends(f"test {number}")
    with pytest.raises(GuestCrashed, match="lost_events: 1"):
        sick.vm.ends("the last")


@pytest.mark.parametrize("rules, wanted", (
    ("at=tx do=drop", False), ("id=x at=rx opcode=rc-ack do=corrupt", False),
    ("at=command do=count", False), ("remove=all", False),
    ("at=tx do=drop; id=y at=eqe do=drop", True), ("at=device do=dead", True)))
def test_harmful_rules(rules, wanted):
    assert is_harmful(rules) == wanted
