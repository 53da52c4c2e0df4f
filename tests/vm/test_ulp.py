# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's users of RDMA, each between two guests.

Written data is read again with the same checksum on both sides. The link is
lost for 3 s and for 40 s during I/O, the host's driver is unbound, the
target's machine is reset, and connections are made a hundred times. Afterwards
neither a resource nor a complaint is left. test_kernel_users.py and
test_lifecycle.py also test NVMe over Fabrics. make test runs one of the slow
cases, make test-long all.
"""

import time
from contextlib import contextmanager
from functools import partial

import pytest

from fakernic_test import memory, rdma, ulp
from fakernic_test.recovery import BIND, UNBIND, rebind


def some(names, short):
    """Marks the names that are not in SHORT as long."""
    return [pytest.param(name, marks=() if name in short else pytest.mark.long)
            for name in names]


# SMC-R abandons its connections in each case, so it has tests of its own.
CUT = [name for name in ulp.ULPS if name != "smc"]
# Once in some dozens of runs with RDS, rdma_cm still resolves an address for a removed
# ID while the card is removed: Linux's addr_handler() takes a freed mutex.
UNBOUND = ("iser", "srp", "nfs", pytest.param("rds", marks=pytest.mark.long))
ROUNDS = ("nvme", "srp")
HUNDRED = 100


@contextmanager
def leaving_nothing(ports, name):
    """Returns the service of this name; the caller starts it and takes it
    down."""
    before = ulp.counts(ports)
    yield ulp.ULPS[name](ports)
    ulp.nothing_left(ports, before)


@pytest.fixture
def service(ports, request):
    """A running service, which is taken down and leaves nothing."""
    with leaving_nothing(ports, request.param) as it:
        it.start()
        yield it
        it.stop()


@pytest.fixture
def served(ports, request):
    """A service without a connection, also at its end."""
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
    """Resets the target, which then serves the same again, with other data or
    none."""
    vm = it.target.vm
    with vm.boots_again():
        vm.qmp("system_reset")
    it.ports[0] = rdma.bring_up(vm, 1)
    it.serve()


@pytest.fixture
def dying(ports, lab, request):
    """A service whose connections will die. Linux's smc sometimes keeps a
    reference to itself, and with it objects of the card, so other tests get
    new guests."""
    it = ulp.ULPS[request.param](ports)
    it.start()
    yield it
    lab.worn = True


def cut(it, seconds, timeout):
    """Removes the link for that long while data is written and compared."""
    writing = ulp.Writing(it, timeout)
    cut_link(it, seconds)
    writing.goes_on()
    writing.stop()


@pytest.mark.parametrize("service", ("smc",), indirect=True)
def test_data(service):
    """Each kernel user moves data that is compared on both sides."""
    service.move()


@pytest.mark.parametrize("service", CUT, indirect=True)
def test_data_with_short_link_loss(service):
    """Data is right after a link loss of 3 s."""
    service.move()
    cut(service, 3, 90)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", some(CUT, ("nvme",)), indirect=True)
def test_data_with_long_link_loss(service):
    """Data is right after a link loss of 40 s, whether queue pairs survive it
    or users make new ones."""
    service.move()
    cut(service, 40, 300)
    service.move()


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("served", ROUNDS, indirect=True)
def test_repeated_connections(served, rounds):
    """A hundred rounds of connect, data and disconnect leave nothing, and use
    no more memory after the first fifth."""
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


def continues_or_was_notified(service, writing, goes_on):
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
    """The driver of the host is unbound during I/O and bound again. The target
    waits for it, and the writer continues, or gets an error and logs in again
    if the disk was removed, too."""
    writing = ulp.Writing(service, 200, script=service.stubborn())
    unbind_host(service)
    continues_or_was_notified(service, writing, service.outlives_its_card)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", some(CUT, ("nfs",)), indirect=True)
def test_target_is_reset(service):
    """The target is reset during I/O. The writer waits and continues with an
    empty disk, file system or socket, or gets an error if it abandons a
    changed disk."""
    writing = ulp.Writing(service, 200, script=service.anew())
    reset_target(service)
    if not service.outlives_its_target:
        service.disconnect()
    continues_or_was_notified(service, writing, service.outlives_its_target)


# These come last, as the next test gets other guests.
def unbind_host_until_notified(it):
    """Unbinds the driver of the host before there is another connection.

    After half a second one went over RDMA, too, but then the host's module
    stayed in use for 30 s and more.
    """
    it.on_host(UNBIND)
    it.on_target(f"""
        is_notified() {{ ! rdma resource show qp | grep -F 'comm [{it.owner}]'; }}
        again is_told""")
    it.on_host(BIND)
    it.ports[-1] = rdma.bring_up(it.host.vm, len(it.ports))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("event", (
    pytest.param(partial(cut_link, seconds=3), id="cut-3"),
    pytest.param(partial(cut_link, seconds=40), id="cut-40", marks=pytest.mark.long),
    pytest.param(unbind_host_until_notified, id="unbound", marks=pytest.mark.long),
    pytest.param(reset_target, id="reset", marks=pytest.mark.long)))
@pytest.mark.parametrize("dying", ("smc",), indirect=True)
def test_both_ends_are_notified(dying, event):
    """If SMC-R loses a connection, writer and server are notified, and the
    next connection uses RDMA again."""
    dying.move()
    job = dying.write_until_stopped()
    event(dying)
    result = job.wait()
    assert not result.ok and not result.timed_out, result
    dying.connect_again()
    dying.move()
