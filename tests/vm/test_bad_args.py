# SPDX-License-Identifier: GPL-2.0-or-later
"""Which errors verbs, and the driver below them, return for wrong arguments.

Two programs make every mistake: rdma_bad_args through libibverbs, and
rdma_bad_abi by hand-made requests of the uverbs ABI. They check each errno,
whether objects or pinned memory are left, and whether the device counts each
refusal.
"""

import re
import time

import pytest

from fakernic_lab.versions import MAIN_KERNEL, OLD_KERNEL
from fakernic_test import rdma

pytestmark = pytest.mark.guests(count=1)

TURN = "echo 'module fakernic {}p' >/proc/dynamic_debug/control"

# Rows of rdma-provider/TROUBLESHOOTING.md that these programs cause.
FROM_THE_PROVIDER = (
    r"address without GRH: RoCE needs one \(is_global\)",
    r"port 1 has no GID of index 255", r"create QP: \d+ sends, \d+ SGEs",
    r"send refused: the QP is not in RTS yet",
    r"send refused: more SGEs than max_send_sge")
FROM_THE_DRIVER = (
    r"modify QP 0x\w+: state 0 to 1 with mask 0x19", r"MR: length 0x0\n",
    r"MR: 0x\w+, 0x1000 bytes: -14",
    r"MODIFY_QP refused: bad parameter, at byte \d+ min_rnr_timer")


# How many refusals each program checks.
PROGRAMS = {"rdma_bad_args": 265, "rdma_bad_abi": 276}
EACH = pytest.mark.parametrize("program", PROGRAMS)


def judge(port, program):
    port.guest.check("dmesg -C")
    rdma.judged(port, program, PROGRAMS[program])
    assert not rdma.driver_said(port), "said unasked"
    rdma.pingpong("rc", port, port, "-n 50").check()


@EACH
def test_refusals(ports, program):
    judge(ports[0], program)


@pytest.mark.guests(kernel=(OLD_KERNEL, MAIN_KERNEL))
@EACH
def test_refusals_on_the_old_kernel(ports, program):
    judge(ports[0], program)


def test_refusals_are_explained_on_request(ports):
    (port,) = ports
    port.guest.check("dmesg -C; " + TURN.format("+"))
    result = port.guest.run("VERBS_LOG_LEVEL=4 rdma_bad_args >/dev/null", 100)
    log = port.guest.check("dmesg; " + TURN.format("-"))
    for text, wanted in ((result.err, FROM_THE_PROVIDER),
                         (log, FROM_THE_DRIVER)):
        for words in wanted:
            assert re.search(words, text), (words, text)


def test_messages_do_not_flood(ports):
    """Explanations are logged on request, ten times in five seconds at most."""
    (port,) = ports
    start = time.monotonic()
    port.guest.check("dmesg -C; " + TURN.format("+"))
    port.guest.check("rdma_bad_abi && rdma_bad_abi && rdma_bad_abi", 200)
    log = port.guest.check("dmesg; " + TURN.format("-"))
    reported = len(re.findall(r"request of \d+ bytes, \d+ needed", log))
    assert 10 <= reported <= 10 * (2 + (time.monotonic() - start) // 5), log
