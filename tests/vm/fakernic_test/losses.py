# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA WRITEs of which fault rules lose or mark some packets, and checks of
the sender's frames in a capture. The rules act before the capture."""

from fakernic_lab import faults
from . import rdma, wire

WRITES = range(0x06, 0x0c)      # opcodes of RC (IBTA 9.2.1)
ACK, CNP = 0x11, 0x81
SEQUENCE_ERROR = 0x60           # the syndrome of such a NAK (IBTA 9.7.5.2)
TRAFFIC = "-s 16384 -n 40 -m 1024 -u 16"
LOSE = "id=once at=tx opcode=rc-write-middle nth=100 do=drop"
LOSE_TWICE = (f"{LOSE}; id=again at=tx opcode=rc-write* attempt=2 after=once "
              "do=drop")


def written(vm, client, server, rules, seen_by=None):
    """Returns the captured frames of WRITEs under some rules, each of which
    has hit. VM has the client's card; the capture is there or at SEEN_BY."""
    faults.set_fault(vm, rules)
    try:
        with (seen_by or vm).capture() as path:
            rdma.perftest("ib_write_bw", server, client, TRAFFIC).check()
        for line in faults.rules_of(vm).values():
            assert faults.hits(line), line
    finally:
        faults.set_fault(vm, "remove=all")
    return wire.roce_frames(path)


def naks(found):
    """Returns the indexes of the NAKs."""
    return [number for number, frame in enumerate(found)
            if frame.opcode == ACK and frame.syndrome == SEQUENCE_ERROR]


def psns(found):
    return [frame.psn for frame in found if frame.opcode in WRITES]


def goes_back(found):
    """Checks that the sender continues at the missing packet: nothing new
    comes before it, and everything from it on comes in order. After a silence
    one packet may be sent as a probe."""
    nak, = naks(found)          # one NAK per missing packet
    lost = found[nak].psn
    before, after = psns(found[:nak]), psns(found[nak:])
    assert lost not in before
    assert (lost - 1) % 2**24 in before
    assert lost in after
    early = after[:after.index(lost)]
    assert set(early) <= set(before)
    rest = list(dict.fromkeys(after[after.index(lost):]))
    start = [(psn - lost) % 2**24 for psn in rest]
    start = [ahead for ahead in start if ahead < 2**23]
    assert start == list(range(len(start)))


def waits_for_the_timer(found):
    """Checks that a packet lost twice is sent after the timeout: the peer
    sends only one NAK for it. Returns false if the second rule hit a probe, so
    that the packet was not lost twice."""
    nak = naks(found)[0]
    lost = found[nak].psn
    assert [found[number].psn for number in naks(found)].count(lost) == 1
    after = psns(found[nak:])
    assert lost in after
    return (lost + 1) % 2**24 in after[:after.index(lost)]
