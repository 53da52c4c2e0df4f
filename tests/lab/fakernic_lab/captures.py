# SPDX-License-Identifier: GPL-2.0-or-later
"""One capture of all machines' frames out of one of each machine's, where nobody
between them sees the frames of all.

QEMU captures what a machine sends and receives, with the machine's clock: it
runs as fast as the host's, which all share, but began at another time. Each
frame that one machine has sent and another received bounds how far the clocks
of the two are apart; by some thousand frames it is known to some microseconds,
and no frame comes before one that it answers.
"""

import heapq
import os
import struct
import sys
from operator import itemgetter

from .waiting import Waiting

CAPTURE = "wire.pcap"           # of a machine, beside its console
HEAD = struct.Struct("<IHHiIII")
FRAME = struct.Struct("<IIII")
MAGIC, VERSION, SNAP_LENGTH, ETHERNET = 0xa1b2c3d4, (2, 4), 262144, 1
MILLION = 1000000
BUFFER = 1 << 20
# Of frames that two machines have seen, those that are compared, at most.
SAMPLE_MAX = 50000
# A frame comes no later than this after it was sent (microseconds): the link
# waits for 3.5 s, and a machine has as much again to look.
FORGET_US = 7 * MILLION
# Clocks that are rounded to microseconds may differ by this much.
ROUNDED_US = 2
STOPPED = "stopping dump"       # QEMU's word for a disk that is full


def frames(path):
    """(microseconds, bytes) of each, as far as the file goes."""
    with open(path, "rb", BUFFER) as file:
        file.seek(HEAD.size)
        while len(head := file.read(FRAME.size)) == FRAME.size:
            seconds, microseconds, size, _ = FRAME.unpack(head)
            data = file.read(size)
            if len(data) == size:
                yield seconds * MILLION + microseconds, data


class Sample:
    """When a machine has sent and received frames, by what is in them; without
    those that it has seen twice. Of many it is a part, the same of each
    machine: the one of which the lowest bits of a hash are 0."""

    def __init__(self, path, mac):
        self.mask = 0
        self.last = None
        self.sent, self.came = {}, {}
        for time, data in frames(path):
            self.last = time
            self.add(time, data, self.sent if data[6:12] == mac else self.came)

    def add(self, time, data, times):
        key = hash(data)
        if not key & self.mask:
            times[key] = None if key in times else time
        if len(self.sent) + len(self.came) > SAMPLE_MAX:
            self.mask = 2 * self.mask + 1
            self.sent, self.came = ({
                key: time for key, time in times.items() if not key & self.mask}
                for times in (self.sent, self.came))

    def least_until(self, other):
        """The shortest time from a frame of this machine to its coming to the
        other, by the clock of each; None if there is none."""
        both = ((time, other.came.get(key)) for key, time in self.sent.items())
        return min((came - time for time, came in both
                    if None not in (time, came)), default=None)


def bounds(samples):
    """[a][b]: the clock of a is set forward by so much more than that of b at
    most, if nothing comes before it is sent."""
    found = [[0 if a is b else a.least_until(b) for b in samples]
             for a in samples]
    count = range(len(samples))
    for over in count:
        for a in count:
            for b in count:
                there, on = found[a][over], found[over][b]
                if None not in (there, on) and (
                        found[a][b] is None or there + on < found[a][b]):
                    found[a][b] = there + on
    return found


def settings(samples, guesses):
    """By how much the clock of each machine is to be set forward, and whether
    that makes all fit. A guess holds for the first, and for each of which no
    frame tells more."""
    most, found = bounds(samples), []
    fits = all(most[each][each] >= -ROUNDED_US * len(samples)
               for each in range(len(samples)))
    for this, guess in enumerate(guesses):
        high = min((found[that] + most[this][that] for that in range(this)
                    if most[this][that] is not None), default=None)
        low = max((found[that] - most[that][this] for that in range(this)
                   if most[that][this] is not None), default=None)
        if None not in (low, high):
            guess = (low + high) // 2
        elif high is not None:
            guess = min(guess, high)
        elif low is not None:
            guess = max(guess, low)
        found.append(guess)
    return found, fits


def guess(path, sample):
    """What a capture was written last, it was written when the file was."""
    return (os.stat(path).st_mtime_ns // 1000 - sample.last
            if sample.last is not None else 0)


def shifted(path, number, by):
    for time, data in frames(path):
        yield time + by, number, data


def sent_once(captures, forward):
    """(microseconds, bytes) of each frame as it was sent: its sender sees it
    first, as often as it sends it, others see it no more often."""
    since, seen, before = 0, {}, {}
    for time, number, data in heapq.merge(
            *(shifted(path, *each) for path, *each in zip(
                captures, range(len(captures)), forward)), key=itemgetter(0)):
        if time - since > FORGET_US:
            since, seen, before = time, {}, seen
        key = hash(data)
        if key not in seen:     # by each machine, and how often it was sent
            seen[key] = before.get(key) or [0] * (len(captures) + 1)
        times = seen[key]
        times[number] += 1
        if times[number] > times[-1]:
            times[-1] += 1
            yield time, data


def merge(captures, file):
    """Writes into an open file a capture of all frames, once each, in the order in which they were
    sent, out of those of machines: (file, the machine's address). Whether the
    order is right for all: a machine that was stopped for a while has another
    clock from then on."""
    found = [each for each, _ in captures]
    samples = [Sample(*each) for each in captures]
    forward, fits = settings(samples, list(map(guess, found, samples)))
    file.write(HEAD.pack(MAGIC, *VERSION, 0, 0, SNAP_LENGTH, ETHERNET))
    for time, data in sent_once(found, forward):
        file.write(FRAME.pack(*divmod(time, MILLION), len(data), len(data)))
        file.write(data)
    file.flush()
    return fits


def leave(path, machines, file=None):
    """After the machines' end, the capture of all, into the FILE of this path
    if it is open: MACHINES are pairs of a Machine and its address. Nothing is
    raised."""
    captures = [(vm.directory / CAPTURE, bytes.fromhex(mac.replace(":", "")))
                for vm, mac in machines]
    lines = [f"the capture of {vm.name} has not all frames: its disk is full"
             for vm, _ in machines if STOPPED in vm.qemu_log(BUFFER)]
    try:
        with Waiting(lambda: "putting the captures of all machines together"):
            with file or open(path, "wb", BUFFER) as file:
                fits = merge([each for each in captures if each[0].exists()], file)
            if not fits:
                lines.append(f"{path}: frames may be in a wrong order, as the "
                             "machines' clocks have moved: was one paused?")
    except OSError as error:
        lines.append(f"{path}: {error.strerror}; the captures of each machine "
                     f"are {captures[0][0].parent.parent}/*/{CAPTURE}")
    for line in lines:
        print(f"fakernic-lab: {line}", file=sys.stderr)
