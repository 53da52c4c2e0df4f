# SPDX-License-Identifier: GPL-2.0-or-later
"""Doorbell pages of programs, on a kernel whose own pages may be larger."""

from types import SimpleNamespace

import pytest

from fakernic_lab.show import NIC, Device
from fakernic_test import rdma

UARS = 64
PROGRAMS = 3
DOORBELL_PAGE = 4096

pytestmark = pytest.mark.guests(count=1, uars=UARS)


def page_size(port):
    return int(port.guest.check("getconf PAGESIZE"))


def test_kernel_has_pages_of_the_expected_size(ports):
    (port,) = ports
    large = port.vm.image.kernel.endswith("-16k")
    assert page_size(port) == (16384 if large else 4096)


def test_programs_share_no_page_of_doorbells(ports):
    """The doorbell page of a program begins a page of the kernel, in which no other
    program has one."""
    (port,) = ports
    doorbells_in_page = page_size(port) // DOORBELL_PAGE
    jobs = [port.guest.start(f"exec ibv_rc_pingpong -g {port.gid_index()} -p {number}", 100)
            for number in range(18600, 18600 + PROGRAMS)]
    for number in range(18600, 18600 + PROGRAMS):
        listens = rdma.LISTENS_TCP.format(port=number)
        port.guest.check(f"until {listens}; do sleep 0.05; done")
    qmp = SimpleNamespace(cmd=lambda command, words: port.vm.qmp(command, **words))
    pages = {qp["uar"] for qp in Device(qmp, NIC).objects("qps") if qp["uar"]}
    port.guest.check("pkill -f '^ibv_rc_pingpong'")
    for job in jobs:
        job.wait()
    assert len(pages) == PROGRAMS
    assert not [page for page in pages if page % doorbells_in_page], pages


def test_doorbell_pages_are_used_again(ports):
    """More programs run one after another than the device has doorbell pages."""
    ports[0].guest.check(f"for n in $(seq {UARS + 10}); do ibv_devinfo >/dev/null || "
                         "exit; done", 200)
