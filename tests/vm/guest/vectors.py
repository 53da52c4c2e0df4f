#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""vectors.py DEVICE...: checks that each completion vector raises an event.

A flushed receive is a completion, whose event uses the vector of its CQ.
Prints the number of vectors of each device. A missing event ends it after ten
seconds by SIGALRM.
"""

import signal
import sys

from pyverbs import enums
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR

SIZE = 64


def wake(context, pd, mr, vector):
    """Returns after an event of this CQ."""
    channel = CompChannel(context)
    cq = CQ(context, 4, None, channel, vector)
    qp = QP(pd, QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=cq, rcq=cq,
                           cap=QPCap(max_recv_wr=4)), QPAttr(port_num=1))
    cq.req_notify()
    qp.post_recv(RecvWR(1, 1, [SGE(mr.buf, SIZE, mr.lkey)]))
    signal.alarm(10)
    qp.modify(QPAttr(qp_state=enums.IBV_QPS_ERR), enums.IBV_QP_STATE)
    channel.get_cq_event(cq)
    signal.alarm(0)
    cq.ack_events(1)
    count, (wc,) = cq.poll()
    assert count == 1 and wc.status == enums.IBV_WC_WR_FLUSH_ERR, wc
    for thing in (qp, cq, channel):
        thing.close()


def wake_by_all(name):
    context = Context(name=name)
    pd = PD(context)
    mr = MR(pd, SIZE, enums.IBV_ACCESS_LOCAL_WRITE)
    for vector in range(context.num_comp_vectors):
        wake(context, pd, mr, vector)
    print(context.num_comp_vectors)


for device in sys.argv[1:]:
    wake_by_all(device)
