# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's users of RDMA, each between two guests: what is written is read
again with the same sum, at both ends; the link goes for 3 s in mid-I/O; the
target's machine is reset; then everything is taken down, and neither a resource
nor a complaint is left. NVMe over Fabrics is in test_kernel_users.py, too.
"""

import time

import pytest

from fakernic_test import rdma, ulp

pytestmark = pytest.mark.long

# SMC-R gives a connection up before such a cut ends.
CUT = [name for name in ulp.ULPS if name != "smc"]
# A new NVMe target is another one, which the host refuses.
RESET = ("iser", "srp")


@pytest.fixture
def service(ports, request):
    """A running one; at the end it is taken down, and nothing is left."""
    before = ulp.counts(ports)
    it = ulp.ULPS[request.param](ports)
    it.start()
    yield it
    it.stop()
    ulp.nothing_left(ports, before)


def cut(it, seconds, timeout):
    """The link is gone for so long while data is written and compared."""
    writing = ulp.Writing(it, timeout)
    it.host.vm.set_link(False)
    try:
        time.sleep(seconds)
    finally:
        it.host.vm.set_link(True)
    writing.goes_on()
    writing.stop()


@pytest.mark.parametrize("service", ("smc",), indirect=True)
def test_data(service):
    service.move()


@pytest.mark.parametrize("service", CUT, indirect=True)
def test_data_over_a_short_cut(service):
    service.move()
    cut(service, 3, 90)


@pytest.mark.parametrize("service", RESET, indirect=True)
def test_target_is_reset(service, lab):
    """In mid-I/O: the host waits for it, and goes on with a blank disk."""
    writing = ulp.Writing(service, 200, script=service.only_write())
    vm = service.target.vm
    with vm.boots_again():
        vm.qmp("system_reset")
    lab.ports[0] = rdma.bring_up(vm, 1)
    service.serve()
    writing.goes_on()
    writing.stop()
    service.move()
