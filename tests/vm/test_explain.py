# SPDX-License-Identifier: GPL-2.0-or-later
"""The usual mistakes leave a message that names the failed check.

Each mistake is made as a beginner makes it. The messages are those of
TROUBLESHOOTING.md: in the kernel's log if the device found the mistake, from
the provider if the kernel's RDMA core refused it before the driver saw it.
"""

import re

import pytest

from fakernic_test import rdma

pytestmark = pytest.mark.guests(count=1)

TURN = "echo 'module fakernic {}p' >/proc/dynamic_debug/control"


@pytest.fixture
def explained(ports):
    """A function that returns what a command left in the kernel's log when
    explanations are on."""
    (port,) = ports

    def run(command):
        port.guest.check("dmesg -C")
        result = port.guest.run(command)
        return result, port.guest.check("dmesg")

    port.guest.check(TURN.format("+"))
    yield run
    port.guest.check(TURN.format("-"))


def test_bad_requests_are_explained(explained):
    result, log = explained("rdma_bad_requests")
    assert result.ok, result
    for words in ("no such key", "address or length outside the region",
                  "region does not grant the access"):
        assert re.search(rf"fakernic0: QP 0x\w+: \S.*: {words}\n", log), (
            words, log)


def test_wrong_path_mtu_is_explained(ports, explained):
    (port,) = ports
    tool = f"ibv_rc_pingpong -d {port.ibdev} -g {port.gid_index()} -m 4096"
    listens = rdma.LISTENS_TCP.format(port=18515)
    _, log = explained(f"timeout 20 {tool} & until {listens}; do "
                       f"sleep 0.05; done; {tool} localhost; wait")
    assert re.search(r"MODIFY_QP refused: bad parameter, at byte \d+ path_mtu\n",
                     log), log


def test_no_explanation_by_default(ports):
    (port,) = ports
    port.guest.check("dmesg -C; rdma_bad_requests")
    assert not rdma.driver_said(port)


@pytest.mark.parametrize("mistake, error, words", (
    pytest.param(mistake, error, words, id=mistake)
    for mistake, error, words in (
        ("missing-grh", "Invalid argument",
         "address without GRH: RoCE needs one (is_global)"),
        ("gid-index", "No data available", "port 1 has no GID of index 200"),
        ("family", "Invalid argument",
         "is IPv4, the destination fd00:77::2 is not"),
        ("nobody-there", "Connection timed out",
         "destination ::ffff:192.168.77.99 from GID index "))))
def test_wrong_addresses_are_explained(ports, mistake, error, words):
    """Wrong addresses get the errno of the kernel, and an explanation with
    VERBS_LOG_LEVEL=4. A release build of libibverbs also needs VERBS_LOG_FILE."""
    (port,) = ports
    result = port.guest.run("VERBS_LOG_LEVEL=4 VERBS_LOG_FILE=/dev/stderr "
                            f"rdma_bad_address {mistake}")
    assert result.out == f"modify: {error}\naddress handle: {error}\n", result
    assert result.err.count(words) == 2, result
    quiet = port.guest.run(f"rdma_bad_address {mistake}")
    assert quiet.out == result.out and quiet.err == "", quiet
