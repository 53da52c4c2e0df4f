# SPDX-License-Identifier: GPL-2.0-or-later
"""RDMA WRITEs of which fault rules lose or mark some packets, and what the wire
then must look like, by a capture of the sender's port. The rules act before the
capture sees the frame.
"""

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
    """The frames at VM's port, whose card is the client's, or at that of another,
    of WRITEs with some rules; each rule has hit."""
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
    """Where they are."""
    return [number for number, frame in enumerate(found)
            if frame.opcode == ACK and frame.syndrome == SEQUENCE_ERROR]


def psns(found):
    return [frame.psn for frame in found if frame.opcode in WRITES]


def goes_back(found):
    """It goes on with what was missing: nothing that is new comes before; and
    from there on all comes, in order. (A silence may be probed by a packet
    more.)"""
    nak, = naks(found)          # what the peer misses it says once
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
    """A packet that is lost again is not asked for again: the peer has said
    that it misses it, and silence brings it. False: it was not lost again, as
    the second rule has hit a probe of some other."""
    nak = naks(found)[0]
    lost = found[nak].psn
    assert [found[number].psn for number in naks(found)].count(lost) == 1
    after = psns(found[nak:])
    assert lost in after
    return (lost + 1) % 2**24 in after[:after.index(lost)]
