# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's users of RDMA, each between two guests: what is written is read
again with the same sum, at both ends; the link goes for 3 s and for 40 s in
mid-I/O; the host's driver is unbound; the target's machine is reset; connections
come and go a hundred times. Then everything is taken down, and neither a resource
nor a complaint is left. NVMe over Fabrics is in test_kernel_users.py and
test_lifecycle.py, too. Of what takes minutes, make test has one, make test-long
all.
"""

import time
from contextlib import contextmanager
from functools import partial

import pytest

from fakernic_test import memory, rdma, ulp
from fakernic_test.recovery import BIND, UNBIND, rebind


def some(names, short):
    """Those that are not SHORT are marked so."""
    return [pytest.param(name, marks=() if name in short else pytest.mark.long)
            for name in names]


# SMC-R gives a connection up whatever happens: tests of its own.
CUT = [name for name in ulp.ULPS if name != "smc"]
# Once in some dozens of runs with RDS, rdma_cm goes on looking up an address, as the
# card goes, for an ID that is gone: Linux's addr_handler() takes a mutex that was
# freed.
UNBOUND = ("iser", "srp", "nfs", pytest.param("rds", marks=pytest.mark.long))
ROUNDS = ("nvme", "srp")
HUNDRED = 100


@contextmanager
def leaving_nothing(ports, name):
    """The service of this name; who has it starts it and takes it down."""
    before = ulp.counts(ports)
    yield ulp.ULPS[name](ports)
    ulp.nothing_left(ports, before)


@pytest.fixture
def service(ports, request):
    """A running one; at the end it is taken down, and nothing is left."""
    with leaving_nothing(ports, request.param) as it:
        it.start()
        yield it
        it.stop()


@pytest.fixture
def served(ports, request):
    """One that nobody is connected to, at the end either."""
    with leaving_nothing(ports, request.param) as it:
        it.serve()
        yield it
        it.unserve()


def cut_link(it, seconds):
    def cuts():
        return int(it.host.guest.check(f"cat /sys/class/infiniband/{it.host.ibdev}"
                                       "/ports/1/counters/link_downed"))

    before = cuts()
    it.host.vm.set_link(False)
    try:
        time.sleep(seconds)
    finally:
        it.host.vm.set_link(True)
    assert cuts() == before + 1


def unbind_host(it):
    rebind(it.host)
    it.ports[-1] = rdma.bring_up(it.host.vm, len(it.ports))


def reset_target(it):
    """It serves again what there was, with other data or none."""
    vm = it.target.vm
    with vm.boots_again():
        vm.qmp("system_reset")
    it.ports[0] = rdma.bring_up(vm, 1)
    it.serve()


@pytest.fixture
def dying(ports, lab, request):
    """One whose connections will die. Linux's smc then keeps a reference to itself
    now and then, and with it what it has of the card: others get other guests."""
    it = ulp.ULPS[request.param](ports)
    it.start()
    yield it
    lab.worn = True


def cut(it, seconds, timeout):
    """The link is gone for so long while data is written and compared."""
    writing = ulp.Writing(it, timeout)
    cut_link(it, seconds)
    writing.goes_on()
    writing.stop()


@pytest.mark.parametrize("service", ("smc",), indirect=True)
def test_data(service):
    service.move()


@pytest.mark.parametrize("service", CUT, indirect=True)
def test_data_with_short_link_loss(service):
    service.move()
    cut(service, 3, 90)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", some(CUT, ("nvme",)), indirect=True)
def test_data_with_long_link_loss(service):
    """Whether queue pairs last as long or their users make new ones."""
    service.move()
    cut(service, 40, 300)
    service.move()


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("served", ROUNDS, indirect=True)
def test_repeated_connections(served, rounds):
    """Of connecting, data and disconnecting, none of which leaves anything, nor
    takes memory after the first fifth."""
    idle = ulp.counts(served.ports)
    growth = None
    for _ in range(5):
        for _ in range(max(1, rounds(HUNDRED) // 5)):
            served.connect()
            served.move(1)
            served.disconnect()
            ulp.nothing_left(served.ports, idle)
        if growth:
            growth.end_part()
        else:
            growth = memory.Growth(port.vm for port in served.ports)
    growth.check()


def goes_on_or_was_told(service, writing, goes_on):
    if goes_on:
        writing.goes_on()
        writing.stop()
    else:
        result = writing.job.wait()
        assert not result.ok and not result.timed_out, result
        service.connect_again()
    service.move()


@pytest.mark.parametrize("service", UNBOUND, indirect=True)
def test_host_is_unbound(service):
    """Its driver goes in mid-I/O and comes again: who serves waits for it, and who
    writes goes on or, where the disk went as well, is told and logs in anew."""
    writing = ulp.Writing(service, 200, script=service.stubborn())
    unbind_host(service)
    goes_on_or_was_told(service, writing, service.outlives_its_card)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", some(CUT, ("nfs",)), indirect=True)
def test_target_is_reset(service):
    """In mid-I/O: who writes waits for it and goes on, with a blank disk, file
    system or socket, or is told when a disk that is another one is given up."""
    writing = ulp.Writing(service, 200, script=service.anew())
    reset_target(service)
    if not service.outlives_its_target:
        service.disconnect()
    goes_on_or_was_told(service, writing, service.outlives_its_target)


# These come last: the next test has other guests.
def unbind_host_until_told(it):
    """Before there is a next connection. After half a second one went by RDMA, too,
    but the host's module then was in use for 30 s and more."""
    it.on_host(UNBIND)
    it.on_target(f"""
        is_told() {{ ! rdma resource show qp | grep -F 'comm [{it.owner}]'; }}
        again is_told""")
    it.on_host(BIND)
    it.ports[-1] = rdma.bring_up(it.host.vm, len(it.ports))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("event", (
    pytest.param(partial(cut_link, seconds=3), id="cut-3"),
    pytest.param(partial(cut_link, seconds=40), id="cut-40", marks=pytest.mark.long),
    pytest.param(unbind_host_until_told, id="unbound", marks=pytest.mark.long),
    pytest.param(reset_target, id="reset", marks=pytest.mark.long)))
@pytest.mark.parametrize("dying", ("smc",), indirect=True)
def test_both_ends_are_notified(dying, event):
    """SMC-R gives a connection up: who writes is told, who serves takes the next,
    and that goes by RDMA again."""
    dying.move()
    job = dying.write_until_told()
    event(dying)
    result = job.wait()
    assert not result.ok and not result.timed_out, result
    dying.connect_again()
    dying.move()
