#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""extended_posting.py DEVICE GID_INDEX: tests ibv_wr_* through Debian's pyverbs.

Uses two queue pairs of one port, and all builders of RC queue pairs that the oldest
supported libibverbs has. One batch has a SEND with immediate data, a WRITE from two
buffers, a READ, atomics and an ATOMIC_WRITE. Then a batch with a WRITE is aborted, and
an inline WRITE follows in a batch of its own. Prints the number of completions.
"""

import sys
import time

from pyverbs import enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

SIZE = 4096
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE |
          e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC)
BUILDERS = (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM |
            e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_READ |
            e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
            e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
            e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
            e.IBV_QP_EX_WITH_ATOMIC_WRITE)
IMMEDIATE = 0x12345678
WAIT_S = 30


class End:
    """A queue pair, its CQ, and memory to which the peer has all rights."""

    def __init__(self, context, pd):
        self.cq = CQ(context, 32)
        cap = QPCap(max_send_wr=16, max_recv_wr=4, max_send_sge=2,
                    max_recv_sge=1, max_inline_data=64)
        self.qp = QPEx(context, QPInitAttrEx(
            qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, pd=pd,
            comp_mask=e.IBV_QP_INIT_ATTR_PD |
            e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags=BUILDERS))
        self.mr = MR(pd, SIZE, ACCESS)

    def connect(self, peer, gid, index):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.path_mtu = e.IBV_MTU_1024
        attr.dest_qp_num = peer.qp.qp_num
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer, attr.timeout = 12, 14
        attr.retry_cnt = attr.rnr_retry = 7
        attr.ah_attr = AHAttr(port_num=1, is_global=1,
                              gr=GlobalRoute(dgid=gid, sgid_index=index))
        self.qp.to_rts(attr)

    def piece(self, offset, length):
        return SGE(self.mr.buf + offset, length, self.mr.lkey)

    def completed(self, count):
        """The next COUNT completions, all of which must be successful."""
        found, deadline = [], time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count}"
            number, wcs = self.cq.poll(count)
            found += wcs[:number]
        for wc in found:
            assert wc.status == e.IBV_WC_SUCCESS, wc
        return found


def number(mr, offset):
    return int.from_bytes(mr.read(8, offset), "little")


def fill(mr, offset, value):
    mr.write(value.to_bytes(8, "little"), 8, offset)


def one_batch(a, b):
    """Posts one request of each kind, in an order in which each has a visible effect."""
    qp, far = a.qp, b.mr
    a.mr.write(b"sent" + b"left" + b"right", 13)
    far.write(b"to be read", 10, 1024)
    fill(far, 2048, 40)
    fill(far, 2056, 7)
    b.qp.post_recv(RecvWR(99, 1, [b.piece(0, 64)]))

    def begin(wr_id):
        qp.wr_id = wr_id
        qp.wr_flags = e.IBV_SEND_SIGNALED

    qp.wr_start()
    begin(1)
    qp.wr_send_imm(IMMEDIATE)
    qp.wr_set_sge(a.piece(0, 4))
    begin(2)
    qp.wr_rdma_write(far.rkey, far.buf + 512)
    qp.wr_set_sge_list(2, [a.piece(8, 5), a.piece(4, 4)])
    begin(3)
    qp.wr_rdma_read(far.rkey, far.buf + 1024)
    qp.wr_set_sge(a.piece(1024, 10))
    begin(4)
    qp.wr_atomic_fetch_add(far.rkey, far.buf + 2048, 2)
    qp.wr_set_sge(a.piece(2048, 8))
    begin(5)
    qp.wr_atomic_cmp_swp(far.rkey, far.buf + 2056, 7, 8)
    qp.wr_set_sge(a.piece(2056, 8))
    begin(6)
    qp.wr_atomic_write(far.rkey, far.buf + 2064, b"8 bytes.")
    qp.wr_complete()

    sent = a.completed(6)
    assert [wc.wr_id for wc in sent] == [1, 2, 3, 4, 5, 6], sent
    assert [wc.opcode for wc in sent] == [
        e.IBV_WC_SEND, e.IBV_WC_RDMA_WRITE, e.IBV_WC_RDMA_READ,
        e.IBV_WC_FETCH_ADD, e.IBV_WC_COMP_SWAP, e.IBV_WC_ATOMIC_WRITE], sent
    (received,) = b.completed(1)
    assert received.wr_id == 99 and received.byte_len == 4, received
    assert received.wc_flags & e.IBV_WC_WITH_IMM, received
    assert far.read(4, 0) == b"sent"
    assert far.read(9, 512) == b"rightleft"
    assert a.mr.read(10, 1024) == b"to be read"
    assert (number(a.mr, 2048), number(far, 2048)) == (40, 42)
    assert (number(a.mr, 2056), number(far, 2056)) == (7, 8)
    assert far.read(8, 2064) == b"8 bytes."
    return len(sent) + 1


def aborted_and_inline(a, b):
    """An aborted batch has no effect, and the batch after it has."""
    qp, far = a.qp, b.mr
    for text, end in ((b"never", qp.wr_abort), (b"inline", qp.wr_complete)):
        qp.wr_start()
        qp.wr_id, qp.wr_flags = 7, e.IBV_SEND_SIGNALED
        qp.wr_rdma_write(far.rkey, far.buf + 3072)
        a.mr.write(text, len(text))
        qp.wr_set_inline_data(a.mr.buf, len(text))
        end()
    (wc,) = a.completed(1)
    assert wc.wr_id == 7 and far.read(6, 3072) == b"inline"
    return 1


def main():
    context, index = Context(name=sys.argv[1]), int(sys.argv[2])
    pd = PD(context)
    a, b = End(context, pd), End(context, pd)
    gid = context.query_gid(1, index)
    a.connect(b, gid, index)
    b.connect(a, gid, index)
    print(one_batch(a, b) + aborted_and_inline(a, b))


main()
