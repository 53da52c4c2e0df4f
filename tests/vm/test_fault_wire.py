# SPDX-License-Identifier: GPL-2.0-or-later
"""What a loss or a mark of congestion makes of the wire, judged by a capture of
the sender's port: one NAK and go-back-N from the packet that is missing, a CNP
for marked packets. The rules act before the capture sees the frame.
"""

from fakernic_lab import faults
from fakernic_test import rdma, wire

WRITES = range(0x06, 0x0c)      # opcodes of RC (IBTA 9.2.1)
ACK, CNP = 0x11, 0x81
SEQUENCE_ERROR = 0x60           # the syndrome of such a NAK (IBTA 9.7.5.2)
TRAFFIC = "-s 16384 -n 40 -m 1024"
LOSE = "at=tx opcode=rc-write-middle nth=100 do=drop"


def written(vm, client, server, rules):
    """The frames at VM's port, whose card is the client's, of WRITEs with some
    rules; each rule has hit."""
    faults.set_fault(vm, rules)
    try:
        with vm.capture() as path:
            rdma.perftest("ib_write_bw", server, client, TRAFFIC).check()
        for line in faults.rules_of(vm).values():
            assert faults.hits(line), line
    finally:
        faults.set_fault(vm, "remove=all")
    return wire.roce_frames(path)


def the_nak(found):
    """Where the only one is; what the peer misses it says once."""
    naks = [number for number, frame in enumerate(found)
            if frame.opcode == ACK and frame.syndrome == SEQUENCE_ERROR]
    assert len(naks) == 1
    return naks[0]


def psns(found):
    return [frame.psn for frame in found if frame.opcode in WRITES]


def goes_back(found):
    """It goes on with what was missing: nothing that is new comes before; and
    from there on all comes, in order. (A silence may be probed by a packet more.)
    """
    nak = the_nak(found)
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
    return lost


def test_lost_packet_is_where_it_goes_on(ports, vms):
    server, client = ports
    goes_back(written(vms[1], client, server, LOSE))


def test_marks_are_told_by_cnps(ports, vms):
    server, client = ports
    found = written(vms[1], client, server,
                    "at=tx opcode=rc-write-middle times=0 do=mark")
    told = [frame for frame in found if frame.opcode == CNP]
    marked = [frame for frame in found if frame.opcode in WRITES and
              frame.tclass & 3 == 3]
    ours = {frame.dest_qp for frame in found if frame.opcode == ACK}
    assert marked and told
    assert len(told) <= len(marked)
    assert {frame.dest_qp for frame in told} == ours
