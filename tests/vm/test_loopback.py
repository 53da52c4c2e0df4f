# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest that talks to itself: every service through the whole device.

1. pingpongs of each service, IPv4 and IPv6, polling and with events
2. rping and a perftest tool over the same port
3. bad keys, bounds and peers end in the right completion, never in a hang
"""

import pytest

from fakernic_test.rdma import line_of_text, perftest, pingpong, rping


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("kind", ["rc", "uc", "ud", "srq"])
def test_pingpong(one, kind, family):
    pingpong(kind, one, one, "-n 200", family).check()


@pytest.mark.parametrize("kind", ["rc", "ud"])
def test_pingpong_with_events(one, kind):
    pingpong(kind, one, one, "-e -n 200").check()


def test_rping(one):
    rping(one, one).check()


def test_write_bandwidth_tool(one):
    perftest("ib_write_bw", one, one, "-n 200").check()


def test_line_of_text(one):
    pair = line_of_text(one, one, "to myself").check()
    assert "to myself" in pair.server.out


def test_faults_complete_with_the_right_status(one):
    result = one.guest.run("rdma_faults", 120)
    lines = result.out.splitlines()
    plan = next(line for line in lines if line.startswith("1.."))
    failures = [line for line in lines if line.startswith("not ok")]
    assert not failures, failures
    assert result.ok, result
    assert len([line for line in lines if line.startswith("ok ")]) == int(plan[3:])
