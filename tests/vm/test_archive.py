# SPDX-License-Identifier: GPL-2.0-or-later
"""Unmodified programs of Debian: fio, MPICH, and a TCP program over rsockets.
PROGRAMS.md lists these and others."""

import re

import pytest

from fakernic_test import archive

MPI_LIMIT_S = 110


@pytest.fixture(name="prepared")
def prepared_ports(ports):
    archive.prepare(ports)
    return ports


# ---- fio --------------------------------------------------------------------

@pytest.mark.parametrize("verb", ("write", "read", "send"))
def test_fio(prepared, verb):
    """fio writes to the memory of the server, which has the right bytes; its
    READs change nothing there."""
    a, b = prepared
    pair = archive.fio(a, b, verb).check()
    assert re.search(r"WRITE: .*io=4096KiB", pair.client.out), pair
    words = archive.fio_words(a)
    wanted = "00000000" if verb == "read" else archive.PATTERN
    assert set(words) == {wanted}, words


# ---- MPI --------------------------------------------------------------------

def test_mpich(prepared):
    """MPICH runs over UCX; the first guest starts the second process by ssh."""
    command = archive.mpich(prepared, 1, archive.ucx(prepared[0], "rc"))
    with archive.met_by_ssh(prepared):
        out = prepared[0].guest.check(
            f"cd /tmp && timeout {MPI_LIMIT_S} {command}", MPI_LIMIT_S + 10)
    assert re.search(r"^[1-9]\d* comparisons held, 2 processes on 2 machines",
                     out, re.M), out


# ---- rsockets ---------------------------------------------------------------

def test_iperf_by_rsockets(ports):
    pair = archive.by_rsockets(*ports, "iperf -s -P 1",
                               f"iperf -c {ports[0].ip4} -t 2").check()
    assert re.search(r"[1-9][\d.]* [KMG]bits/sec", pair.client.out), pair
