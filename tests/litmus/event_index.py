#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
All interleavings of the event index of send queues (data sheet, "The event index").

A host posts and rings only where FAKERNIC_MUST_RING() is true. A device reads the record
of an awake queue a bounded number of times. Prints TAP. The properties:

    no lost wake-up    when nothing can happen any more, the device has taken all posts
    bounded work       there is no endless run, and the device never reads the record
                       more than 'looks' times without a new entry before it sleeps
    no idle work       a device whose queue sleeps does nothing without a doorbell
    few doorbells      the host rings at most once for each event index that it is given

Stores may become visible in any order of their words until a barrier (weaker than x86's
TSO; check.py has ARMv8). Indices wrap, as the 32-bit ones of the interface do. Mutants,
each without one part of the protocol, must fail.
"""

import sys

HOST, DEVICE = 0, 1
INDEX, EVENT, WQE = range(3)


class Rules:
    """The protocol, or a mutant of it."""

    def __init__(self, posts=3, **other):
        self.posts = posts          # number of posts
        self.most = 2               # entries of a post, at most
        self.looks = 2              # looks without a new entry before the queue sleeps
        self.wrap = 64              # indices are modulo this
        self.depth = 4              # entries of the queue
        self.rings = 'crossing'     # or 'always', 'never', 'distance', 'no wrap'
        self.wqe_barrier = True     # of the host, before the index
        self.host_barrier = True    # of the host, before it loads the event index
        self.store_first = True     # the host stores the index before it looks
        self.device_barrier = True  # of the device, before it looks again
        self.looks_again = True     # the device looks again before the queue sleeps
        self.keeps_awake = True     # a doorbell keeps a queue from falling asleep
        self.bounded = True         # the device counts its looks
        self.idle = True            # a sleeping queue is not read
        self.event_offset = 0       # error of the stored event index
        self.least = -1             # quota that is not undercut; 0: not checked
        assert all(hasattr(self, name) for name in other)
        self.__dict__.update(other)

    def must_ring(self, event, last, new):
        if self.rings in ('always', 'never'):
            return self.rings == 'always'
        if self.rings == 'distance':
            return 0 < (new - event) % self.wrap < self.wrap // 2
        if self.rings == 'no wrap':
            return last <= event < new
        return (new - event - 1) % self.wrap < (new - last) % self.wrap


# A state: (memory, buffers, host, device, bells, quota) with
#   memory   (index, event, wqe); wqe counts entries, the others wrap
#   buffers  for each side, the stores that the other side does not see yet
#   host     (step, posts left, entries posted, entries before this post, the event
#            index that it has loaded)
#   device   (step, entries taken, looks left)
#   bells    doorbells under way, as the number of entries that they announce
#   quota    doorbells that the host may still ring; one more for each event index


def load(state, side, word):
    for name, value in reversed(state[1][side]):
        if name == word:
            return value
    return state[0][word]


def stored(buffers, side, word, value):
    mine = buffers[side] + ((word, value),)
    return (mine, buffers[DEVICE]) if side == HOST else (buffers[HOST], mine)


def drained(state):
    """Yields the states in which a delayed store has reached memory: for each word the
    oldest one may."""
    memory, buffers, *rest = state
    for side in (HOST, DEVICE):
        words = set()
        for place, (word, value) in enumerate(buffers[side]):
            if word in words:
                continue
            words.add(word)
            new, left = list(memory), list(buffers)
            new[word] = value
            left[side] = buffers[side][:place] + buffers[side][place + 1:]
            yield (tuple(new), tuple(left), *rest)


def host_moves(state, rules):
    memory, buffers, host, device, bells, quota = state
    step, left, posted, last, event = host

    def at(new, **changed):
        values = {'left': left, 'posted': posted, 'last': last, 'event': event, **changed}
        return (memory, changed.get('buffers', buffers),
                (new, *(values[name] for name in ('left', 'posted', 'last', 'event'))),
                device, changed.get('bells', bells), changed.get('quota', quota))

    def stores(new, word, value, **changed):
        return at(new, buffers=stored(buffers, HOST, word, value), **changed)

    if step == 'idle' and left:
        for count in range(1, rules.most + 1):
            # Completions, which are not modelled, report what the device has taken.
            if posted + count - device[1] <= rules.depth:
                yield stores('written', WQE, posted + count, left=left - 1,
                             posted=posted + count, last=posted)
    first, then = (('index', 'barrier') if rules.store_first else ('look', 'look'))
    if step == 'written' and not (rules.wqe_barrier and buffers[HOST]):
        yield at(first)
    if step == 'index':
        yield stores(then if rules.store_first else 'judge', INDEX, posted % rules.wrap)
    if step == 'barrier' and not (rules.host_barrier and buffers[HOST]):
        yield at('look')
    if step == 'look':
        yield at('judge' if rules.store_first else 'index',
                 event=load(state, HOST, EVENT))
    if step == 'judge':
        if not rules.must_ring(event, last % rules.wrap, posted % rules.wrap):
            yield at('idle', last=0, event=0)
        else:
            yield at('ring', last=0, event=0)
    # The doorbell is a store that the device sees after the record.
    if step == 'ring' and not buffers[HOST]:
        yield at('idle', bells=(*bells, posted), quota=max(quota - 1, rules.least))


def device_moves(state, rules):
    memory, buffers, host, device, bells, quota = state
    step, taken, looks = device

    def at(new, taken=taken, looks=looks, **changed):
        return (memory, changed.get('buffers', buffers), host, (new, taken, looks),
                changed.get('bells', bells), changed.get('quota', quota))

    def found(entries):
        return at('awake', taken=entries, looks=rules.looks)

    # Only an index that is ahead counts. The host has no more than 'depth' under way.
    ahead = (load(state, DEVICE, INDEX) - taken) % rules.wrap
    there = taken + ahead if 0 < ahead <= rules.depth else None

    if bells:
        rest = bells[1:]
        now = max(taken, bells[0])
        if step in ('asleep', 'awake') or rules.keeps_awake:
            yield at('awake', taken=now, looks=rules.looks, bells=rest)
        else:
            yield at(step, taken=now, bells=rest)
    if step == 'asleep' and not rules.idle:
        yield at('awake')
    if step == 'awake':
        if there:
            yield found(there)
        elif looks:
            yield at('awake', looks=looks - rules.bounded)
        else:
            yield at('barrier', quota=min(quota + 1, rules.posts), buffers=stored(
                buffers, DEVICE, EVENT, (taken + rules.event_offset) % rules.wrap))
    if step == 'barrier' and not (rules.device_barrier and buffers[DEVICE]):
        yield at('again')
    if step == 'again':
        yield found(there) if there and rules.looks_again else at('asleep')


def wrong(state):
    """What a state violates, or None."""
    memory, _, _, device, _, quota = state
    if device[1] > memory[WQE]:
        return 'the device takes an entry that is not written'
    if quota < 0:
        return 'a second doorbell for an event index'
    return None


def explore(rules):
    """(number of states, the error or None)"""
    start = ((0, 0, 0), ((), ()), ('idle', rules.posts, 0, 0, 0), ('asleep', 0, 0), (), 1)
    done, path = set(), {start}
    stack = [(start, moves(start, rules))]
    while stack:
        state, rest = stack[-1]
        new = next(rest, None)
        if new is None:
            stack.pop()
            path.discard(state)
            done.add(state)
            continue
        if new in path and new != state:
            return len(done), 'an endless run'
        if new == state:
            return len(done), 'work without end'
        if new in done:
            continue
        error = wrong(new)
        if error:
            return len(done), error
        path.add(new)
        following = list(moves(new, rules))
        if not following and new[3][1] != new[2][2]:
            return len(done), f'a lost wake-up: {new}'
        stack.append((new, iter(following)))
    return len(done), None


def moves(state, rules):
    yield from drained(state)
    yield from host_moves(state, rules)
    yield from device_moves(state, rules)


def main():
    # A queue that stays awake while its index wraps gets one doorbell that it does not need.
    wraps = {'wrap': 8, 'posts': 5, 'looks': 1, 'depth': 2, 'least': 0}
    cases = (
        ('no wake-up is lost', Rules(), None),
        ('no wake-up is lost when indices wrap', Rules(**wraps), None),
        ('no wake-up is lost if the queue sleeps at once', Rules(looks=0), None),
        ('found: a host that always rings', Rules(rings='always'), 'a second doorbell'),
        ('a host that never rings waits', Rules(rings='never'), 'a lost wake-up'),
        ('found: no barrier before the index', Rules(wqe_barrier=False), 'the device'),
        ('found: no barrier of the host', Rules(host_barrier=False), 'a lost'),
        ('found: a host that looks first', Rules(store_first=False), 'a lost'),
        ('found: no barrier of the device', Rules(device_barrier=False), 'a lost'),
        ('found: no second look', Rules(looks_again=False), 'a lost'),
        ('found: a doorbell that does not keep the queue awake',
         Rules(keeps_awake=False), 'a lost'),
        ('found: an event index too far', Rules(event_offset=1), 'a lost'),
        ('found: an event index too near', Rules(event_offset=-1), 'a lost'),
        ('found: a comparison that does not wrap', Rules(**wraps, rings='no wrap'),
         'a lost'),
        ('found: a rule without the last index', Rules(rings='distance'),
         'a second doorbell'),
        ('found: looks without bound', Rules(bounded=False), 'work without end'),
        ('found: a sleeping queue that is read', Rules(idle=False), 'an endless run'),
    )
    failed = 0
    for number, (name, rules, error) in enumerate(cases, start=1):
        states, found = explore(rules)
        good = (found is None) if error is None else (found or '').startswith(error)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - event index: {name}\n"
              f'# {states} states, {found}')
    print(f'1..{len(cases)}')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
