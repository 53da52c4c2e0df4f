# SPDX-License-Identifier: GPL-2.0-or-later
"""What a loss or a mark of congestion makes of the wire: one NAK and go-back-N
from the packet that is missing, a timer for one that is lost again, a CNP for
marked packets.
"""

from fakernic_test import losses


def test_retransmission_starts_at_lost_packet(ports, vms):
    server, client = ports
    losses.goes_back(losses.written(vms[1], client, server, losses.LOSE))


def test_packet_lost_twice_waits_for_timer(ports, vms):
    server, client = ports
    assert any(losses.waits_for_the_timer(
        losses.written(vms[1], client, server, losses.LOSE_TWICE))
        for _ in range(3))


# Between CNPs of a queue pair; a capture's times are cut to microseconds.
CNP_DISTANCE_US = 50


def distances(found):
    """Microseconds between CNPs that follow each other."""
    times = [frame.time_us for frame in found if frame.opcode == losses.CNP]
    return [after - before for before, after in zip(times, times[1:])]


def test_cnps_are_rate_limited(ports, vms):
    """Where they begin: a wire, or who reads it late, may bring two at once. A
    thread that has to wait just before it tells the capture makes one distance
    too long and the next too short, which is rare; of a card that keeps none,
    nearly all are."""
    server, client = ports
    tries = [distances(losses.written(
        vms[1], client, server, "at=tx opcode=rc-write-middle times=0 do=mark",
        seen_by=vms[0])) for _ in range(3)]
    assert all(tries)
    short = [sum(distance < CNP_DISTANCE_US - 1 for distance in found)
             for found in tries]
    assert any(20 * few <= len(found)
               for few, found in zip(short, tries)), tries


def test_ce_marks_cause_cnps(ports, vms):
    server, client = ports
    found = losses.written(vms[1], client, server,
                           "at=tx opcode=rc-write-middle times=0 do=mark")
    told = [frame for frame in found if frame.opcode == losses.CNP]
    marked = [frame for frame in found if frame.opcode in losses.WRITES and
              frame.tclass & 3 == 3]
    ours = {frame.dest_qp for frame in found if frame.opcode == losses.ACK}
    assert marked and told
    assert len(told) <= len(marked)
    assert {frame.dest_qp for frame in told} == ours
