# SPDX-License-Identifier: GPL-2.0-or-later
"""Merges the captures of all machines into one. It is needed if the machines share
memory, because then no relay sees the frames of all.

QEMU captures the frames that a machine sends and receives, with the machine's
clock. These clocks run at the same speed but started at different times. Each
frame that one machine sent and another received limits the offset between their
clocks. Some thousand frames limit it to some microseconds. In the merged capture
no frame comes before one that it answers.
"""

import heapq
import os
import struct
import sys
from operator import itemgetter

from .waiting import Waiting

CAPTURE = "wire.pcap"           # a machine's file, next to its console
HEAD = struct.Struct("<IHHiIII")
FRAME = struct.Struct("<IIII")
MAGIC, VERSION, SNAP_LENGTH, ETHERNET = 0xa1b2c3d4, (2, 4), 262144, 1
MILLION = 1000000
BUFFER = 1 << 20
# The most frames of a machine that are compared with other machines.
SAMPLE_MAX = 50000
# A frame arrives at most this long after it was sent (microseconds): the link
# waits for 3.5 s, and a machine may take as long to read it.
FORGET_US = 7 * MILLION
# Clocks that are rounded to microseconds may differ by this much.
ROUNDED_US = 2
STOPPED = "stopping dump"       # QEMU prints this when the disk is full


def frames(path):
    """(microseconds, bytes) of each complete frame of the file."""
    with open(path, "rb", BUFFER) as file:
        file.seek(HEAD.size)
        while len(head := file.read(FRAME.size)) == FRAME.size:
            seconds, microseconds, size, _ = FRAME.unpack(head)
            data = file.read(size)
            if len(data) == size:
                yield seconds * MILLION + microseconds, data


class Sample:
    """The times at which a machine sent and received frames, by their content.

    Frames that the machine saw twice do not count. Of many frames the sample
    takes those whose hash has zeros in its lowest bits, so that the samples of
    all machines contain the same frames.
    """

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
        """The shortest time from sending a frame here to its arrival at OTHER,
        each by its own clock; None if no frame was seen by both."""
        both = ((time, other.came.get(key)) for key, time in self.sent.items())
        return min((came - time for time, came in both
                    if None not in (time, came)), default=None)


def bounds(samples):
    """[a][b]: the most by which a's correction may exceed b's correction if no
    frame is to arrive before it was sent; None: unlimited."""
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
    """The correction that is added to the clock of each machine, and whether all
    frames are in order then. The first machine, and one without common frames,
    keep their guesses."""
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
    """The correction of a clock by the file's time: the last frame was captured
    when the file was last written."""
    return (os.stat(path).st_mtime_ns // 1000 - sample.last
            if sample.last is not None else 0)


def shifted(path, number, by):
    for time, data in frames(path):
        yield time + by, number, data


def sent_once(captures, forward):
    """(microseconds, bytes) of each frame, once for each time that it was sent.
    The sender captures it first. Other machines capture it no more often than
    the sender, so the highest count of one machine is the right one."""
    since, seen, before = 0, {}, {}
    for time, number, data in heapq.merge(
            *(shifted(path, *each) for path, *each in zip(
                captures, range(len(captures)), forward)), key=itemgetter(0)):
        if time - since > FORGET_US:
            since, seen, before = time, {}, seen
        key = hash(data)
        if key not in seen:     # count of each machine, then the highest
            seen[key] = before.get(key) or [0] * (len(captures) + 1)
        times = seen[key]
        times[number] += 1
        if times[number] > times[-1]:
            times[-1] += 1
            yield time, data


def merge(captures, file):
    """Merge CAPTURES, pairs of a path and the machine's MAC address, into the
    open FILE, in the order in which the frames were sent. Return whether that
    order is right. It is not if a machine was paused, which changes its clock."""
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
    """Merge the captures after the machines have ended: into FILE, or into PATH
    without one. MACHINES are pairs of a Machine and its MAC address. Errors are
    printed, not raised."""
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
