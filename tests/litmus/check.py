#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Litmus tests of the barriers of driver, provider, device and link, in the memory model
of ARMv8 (armv8.py). Prints TAP.

Each test is a program whose outcome must be forbidden. A part in [brackets] is a barrier
or a dependency that the C code has. Without any one of them the outcome must be allowed,
which shows that the barrier is needed, and that the test can fail.

The C code's calls, and what they are here:

    dma_mb, smp_mb (Linux, QEMU), full fences           mb
    dma_rmb, udma_from_device_barrier                   rmb
    dma_wmb, udma_to_device_barrier, in front of a      wmb
    writel or writeq of Linux
    smp_wmb, smp_rmb (QEMU), atomic_thread_fence        fence_rel, fence_acq
    smp_load_acquire, acquire loads                     acq
    smp_store_release, release stores                   rel

A doorbell is a store, which the device reads with acquire: the guest's store exits to
QEMU, and other threads of QEMU learn of it by the big QEMU lock. An interrupt is the
same in the other direction.
"""

import re
import sys

import armv8

# Known results: name, program, outcome, whether ARMv8 allows it.
CLASSIC = (
    ('MP', ('x=1; y=1', 'a=y; b=x'), 'a=1 b=0', True),
    ('MP+wmb+po', ('x=1; wmb; y=1', 'a=y; b=x'), 'a=1 b=0', True),
    ('MP+po+rmb', ('x=1; y=1', 'a=y; rmb; b=x'), 'a=1 b=0', True),
    ('MP+wmb+rmb', ('x=1; wmb; y=1', 'a=y; rmb; b=x'), 'a=1 b=0', False),
    ('MP+rel+acq', ('x=1; y=1 rel', 'a=y acq; b=x'), 'a=1 b=0', False),
    ('MP+fences', ('x=1; fence_rel; y=1', 'a=y; fence_acq; b=x'), 'a=1 b=0', False),
    ('MP+wmb+addr', ('x=1; wmb; y=1', 'a=y; b=x addr(a)'), 'a=1 b=0', False),
    ('MP+wmb+ctrl', ('x=1; wmb; y=1', 'a=y; ctrl(a); b=x'), 'a=1 b=0', True),
    ('PPOAA', ('x=1; mb; y=1', 'a=y; z=1 addr(a); b=z; c=x addr(b)'),
     'a=1 b=1 c=0', False),
    ('PPOCA', ('x=1; mb; y=1', 'a=y; ctrl(a); z=1; b=z; c=x addr(b)'),
     'a=1 b=1 c=0', True),
    ('SB', ('x=1; a=y', 'y=1; b=x'), 'a=0 b=0', True),
    ('SB+mb+po', ('x=1; mb; a=y', 'y=1; b=x'), 'a=0 b=0', True),
    ('SB+mb+mb', ('x=1; mb; a=y', 'y=1; mb; b=x'), 'a=0 b=0', False),
    ('SB+wmb+wmb', ('x=1; wmb; a=y', 'y=1; wmb; b=x'), 'a=0 b=0', True),
    ('SB+rel+LDAPR', ('x=1 rel; a=y acq', 'y=1 rel; b=x acq'), 'a=0 b=0', True),
    ('SB+rel+LDAR', ('x=1 rel; a=y acqsc', 'y=1 rel; b=x acqsc'), 'a=0 b=0', False),
    ('LB', ('a=x; y=1', 'b=y; x=1'), 'a=1 b=1', True),
    ('LB+wmb+data', ('a=x; wmb; y=1', 'b=y; x=1 data(b)'), 'a=1 b=1', True),
    ('LB+data+data', ('a=x; y=1 data(a)', 'b=y; x=1 data(b)'), 'a=1 b=1', False),
    ('LB+ctrl+rel', ('a=x; ctrl(a); y=1', 'b=y; x=1 rel'), 'a=1 b=1', False),
    ('S+wmb+po', ('x=2; wmb; y=1', 'a=y; x=1'), 'a=1 x=2', True),
    ('S+wmb+data', ('x=2; wmb; y=1', 'a=y; x=1 data(a)'), 'a=1 x=2', False),
    ('R', ('x=1; y=1', 'y=2; a=x'), 'y=2 a=0', True),
    ('R+mb+po', ('x=1; mb; y=1', 'y=2; a=x'), 'y=2 a=0', True),
    ('R+mb+mb', ('x=1; mb; y=1', 'y=2; mb; a=x'), 'y=2 a=0', False),
    ('2+2W', ('x=1; y=2', 'y=1; x=2'), 'x=1 y=1', True),
    ('2+2W+wmb+wmb', ('x=1; wmb; y=2', 'y=1; wmb; x=2'), 'x=1 y=1', False),
    ('IRIW', ('x=1', 'y=1', 'a=x; b=y', 'c=y; d=x'), 'a=1 b=0 c=1 d=0', True),
    ('IRIW+addr+addr', ('x=1', 'y=1', 'a=x; b=y addr(a)', 'c=y; d=x addr(c)'),
     'a=1 b=0 c=1 d=0', False),
    ('WRC', ('x=1', 'a=x; y=1', 'b=y; c=x'), 'a=1 b=1 c=0', True),
    ('WRC+data+addr', ('x=1', 'a=x; y=1 data(a)', 'b=y; c=x addr(b)'),
     'a=1 b=1 c=0', False),
    ('CoRR', ('x=1', 'a=x; b=x'), 'a=1 b=0', False),
    ('CoWR', ('x=1; a=x', 'x=2'), 'a=0', False),
)

# Name, program, forbidden outcome. The files with the barriers are in the comments.
PROTOCOL = (
    # Doorbells: core/regs.h, core/queue.h; doorbell.h, queue.h of the provider.
    ('the device reads a WQE after its doorbell',
     ('wqe=1; [wmb]; bell=1', 'a=bell [acq]; b=wqe'), 'a=1 b=0'),
    ('a doorbell follows the index in the record',
     ('record=1; [wmb]; bell=1', 'a=bell [acq]; b=record'), 'a=1 b=0'),
    # The event index of send queues (data sheet, FAKERNIC_FEATURE_SHADOW_DOORBELL).
    ('the host sees that the queue sleeps, or the device sees the post',
     ('record=1; [mb]; a=event', 'event=1; [mb]; b=record'), 'a=0 b=0'),
    ('an awake device reads a WQE of the provider after the record',
     ('wqe=1; [wmb]; record=1', 'a=record; [fence_acq]; b=wqe'), 'a=1 b=0'),
    ('an awake device reads a WQE of the driver after the record',
     ('wqe=1; [mb]; record=1', 'a=record; [fence_acq]; b=wqe'), 'a=1 b=0'),
    ('a poller finds the request that was posted without a doorbell',
     ('pi=1; [wmb]; record=1', 'a=record; [fence_acq]; owner=1',
      'b=owner; [rmb]; c=pi'), 'a=1 b=1 c=0'),
    ('the device is done with the record before the host clears it',
     ('event=1; [fence_rel]; owner=1', 'a=owner; [rmb]; event=2'), 'a=1 event=1'),
    # core/queue.h and the device's queue/ring.c
    ('the driver posts a receive before its index',
     ('slot=1; [mb]; record=1', 'a=record; [fence_acq]; b=slot'), 'a=1 b=0'),
    ('the provider posts a receive before its index',
     ('slot=1; [wmb]; record=1', 'a=record; [fence_acq]; b=slot'), 'a=1 b=0'),
    # core/cmdq.c and the device's cmd/cmdq.c, dma.c
    ('the device reads a command after its doorbell',
     ('request=1; [wmb]; bell=1', 'a=bell [acq]; b=request'), 'a=1 b=0'),
    ('a command\'s answer is complete before its owner byte',
     ('payload=1; [fence_rel]; owner=1', 'a=owner; [rmb]; b=payload'), 'a=1 b=0'),
    ('the driver reads an answer before it frees the slot',
     ('a=payload; free=1 [rel]', 'b=free [acq]; bell=1', 'c=bell [acq]; payload=1'),
     'a=1 b=1 c=1'),
    # CQEs and EQEs: dma.c; core/queue.h; cq.c of the provider.
    ('an entry is complete before its owner byte',
     ('body=1; owner=1 [rel]', 'a=owner; [rmb]; b=body'), 'a=1 b=0'),
    ('data is written before its CQE',
     ('data=1; [fence_rel]; owner=1', 'a=owner; [rmb]; b=data'), 'a=1 b=0'),
    ('the bytes of a WRITE are written in ascending order',
     ('first=1; later=1 [rel]', 'a=later [acq]; b=first'), 'a=1 b=0'),
    ('a CQE is written before the EQE that announces it',
     ('cqe=1; [fence_rel]; eqe=1', 'a=eqe; [rmb]; b=cqe'), 'a=1 b=0'),
    ('an EQE is written before its interrupt',
     ('owner=1; [fence_rel]; irq=1', 'a=irq [acq]; b=owner'), 'a=1 b=0'),
    ('the driver reads a CQE before it frees the entry',
     ('a=body; [mb]; record=1', 'b=record; [ctrl(b)]; body=1'), 'a=1 b=1'),
    ('the provider reads a CQE before it frees the entry',
     ('a=body; [fence_rel]; record=1', 'b=record; [ctrl(b)]; body=1'), 'a=1 b=1'),
    ('the driver reads an EQE before the doorbell frees it',
     ('a=body; [mb]; bell=1', 'b=bell [acq]; body=1'), 'a=1 b=1'),
    # Posts and polls on several CPUs: sq.c, rq.c, wqe.h.
    ('a poller finds the request that a CQE completes',
     ('pi=1; [wmb]; bell=1', 'a=bell [acq]; owner=1', 'b=owner; [rmb]; c=pi'),
     'a=1 b=1 c=0'),
    ('the driver writes a request before its producer index',
     ('id=1; pi=1 [rel]', 'a=pi [acq]; b=id'), 'a=1 b=0'),
    ('the provider writes a request before its producer index',
     ('id=1; [wmb]; record=1', 'a=record [acq]; b=id'), 'a=1 b=0'),
    ('a poller reads a request before its slot is posted again',
     ('a=id; ci=1 [rel]', 'b=ci [acq]; id=1'), 'a=1 b=1'),
    # Objects by number, and interfaces: table.h, net/channel_set.c.
    ('an object is complete before its number is found',
     ('object=1; page=1; slot=1 [rel]', 'a=slot [acq]; b=object'), 'a=1 b=0'),
    ('queues exist before the interface is up',
     ('queues=1; up=1 [rel]', 'a=up [acq]; b=queues'), 'a=1 b=0'),
    # Dead devices: core/cmdq.c, lifecycle.c, rdma/sq.c, rdma/cq.c, core/rq.c.
    ('a post sees the dead device, or the flush sees the post',
     ('pi=1 rel; [mb]; a=dead', 'dead=1 rel; [mb]; b=pi acq'), 'a=0 b=0'),
    ('an armed CQ sees the dead device, or is kicked',
     ('armed=1; [mb]; a=dead', 'dead=1 rel; [mb]; b=armed'), 'a=0 b=0'),
    ('a death during the bring-up is reported',
     ('reported=1; [mb]; a=dead', 'dead=1 rel; [mb]; b=reported'), 'a=0 b=0'),
    ('a poll of a dead device finds all CQEs',
     ('owner=1; [fence_rel]; stopped=1', 'a=stopped; dead=1 [rel]',
      'b=dead [acq]; c=owner'), 'a=1 b=1 c=0'),
    # net/tx.c
    ('a stopped transmit queue is woken',
     ('stopped=1; [mb]; a=ci acq', 'ci=1 rel; [mb]; b=stopped'), 'a=0 b=0'),
    # Device memory: dm.c of the provider, dm.c of the device.
    ('device memory is written before a doorbell',
     ('dm=1; [wmb]; bell=1', 'a=bell [acq]; b=dm'), 'a=1 b=0'),
    ('device memory is read after its CQE',
     ('dm=1; [fence_rel]; owner=1', 'a=owner; [rmb]; b=dm'), 'a=1 b=0'),
    ('a FLUSH answers after the data',
     ('data=1; [mb]; answer=1', 'a=answer [acq]; b=data'), 'a=1 b=0'),
    # The link: ring.h, ring.c.
    ('a frame is in the ring before the tail',
     ('frame=1; tail=1 [rel]', 'a=tail [acq]; b=frame'), 'a=1 b=0'),
    ('a frame is copied before the head frees it',
     ('a=frame; head=1 [rel]', 'b=head [acq]; frame=1'), 'a=1 b=1'),
    ('a reader sees the frame, or the writer sees its ticket',
     ('tail=1 rel; [mb]; a=asleep acq', 'asleep=1 rel; [mb]; b=tail acq'), 'a=0 b=0'),
    ('a writer sees the room, or the reader sees its ticket',
     ('wants=1 rel; [mb]; a=head acq', 'head=1 rel; [mb]; b=wants acq'), 'a=0 b=0'),
    ('a reader is awake before it takes a frame',
     ('awake=1; head=1 [rel]', 'a=head [acq]; b=awake'), 'a=1 b=0'),
    # link/closer.c
    ('a closer is freed after its last use',
     ('a=closer; left=1 [rel]', 'b=left [acq]; closer=1'), 'a=1 b=1'),
)

BARRIER = re.compile(r'\[([^]]*)\]')


def whole(program):
    """The program with all its barriers."""
    return [BARRIER.sub(r'\1', thread) for thread in program]


def mutants(program):
    """Yields (the barrier left out, the program without it)."""
    for number, thread in enumerate(program):
        for found in BARRIER.finditer(thread):
            rest = thread[:found.start()] + thread[found.end():]
            yield (f'{found[1]} of thread {number + 1}',
                   whole([*program[:number], rest, *program[number + 1:]]))


def checks():
    """Yields (name, program, outcome, whether it must be allowed)."""
    for name, program, outcome, allowed in CLASSIC:
        yield (f'{name} is {"allowed" if allowed else "forbidden"}', program, outcome,
               allowed)
    for name, program, outcome in PROTOCOL:
        yield name, whole(program), outcome, False
        for left_out, without in mutants(program):
            yield f'{name}: needs {left_out}', without, outcome, True


def main():
    failed = count = 0
    for name, program, outcome, wanted in checks():
        count += 1
        good = armv8.allows(program, outcome) == wanted
        failed += not good
        print(f'{"ok" if good else "not ok"} {count} - litmus: {name}')
        if not good:
            print(f'# {" || ".join(program)}: {outcome} is '
                  f'{"forbidden" if wanted else "allowed"}')
    print(f'1..{count}')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
