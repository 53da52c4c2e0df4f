# SPDX-License-Identifier: GPL-2.0-or-later
"""What a loss or a congestion mark causes on the wire: one NAK and go-back-N
from the missing packet, a timeout for a packet that is lost twice, a CNP for
marked packets."""

from fakernic_test import losses


def test_retransmission_starts_at_lost_packet(ports, vms):
    """After a loss the sender continues at the missing packet."""
    server, client = ports
    losses.goes_back(losses.written(vms[1], client, server, losses.LOSE))


def test_packet_lost_twice_waits_for_timer(ports, vms):
    """A packet that is lost twice is sent again after the timeout."""
    server, client = ports
    assert any(losses.waits_for_the_timer(
        losses.written(vms[1], client, server, losses.LOSE_TWICE))
        for _ in range(3))


# Between CNPs of a queue pair; a capture's times are cut to microseconds.
CNP_DISTANCE_US = 50


def distances(found):
    """Returns the microseconds between consecutive CNPs."""
    times = [frame.time_us for frame in found if frame.opcode == losses.CNP]
    return [after - before for before, after in zip(times, times[1:])]


def test_cnps_are_rate_limited(ports, vms):
    """CNPs of a queue pair keep their minimum distance when they leave the
    card. A slow reader may see two at once. A delay before the capture makes
    one distance too long and the next too short, which is rare. Without a rate
    limit nearly all are too short."""
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
    """Packets with a CE mark cause CNPs."""
    server, client = ports
    found = losses.written(vms[1], client, server,
                           "at=tx opcode=rc-write-middle times=0 do=mark")
    reported = [frame for frame in found if frame.opcode == losses.CNP]
    marked = [frame for frame in found if frame.opcode in losses.WRITES and
              frame.tclass & 3 == 3]
    ours = {frame.dest_qp for frame in found if frame.opcode == losses.ACK}
    assert marked and reported
    assert len(reported) <= len(marked)
    assert {frame.dest_qp for frame in reported} == ours
