# SPDX-License-Identifier: GPL-2.0-or-later
"""
The memory model of ARMv8, for programs of some loads and stores. It enumerates all
executions and yields the outcomes that the architecture allows.

A program is one string per thread. Its parts are separated by semicolons:

    x=1             a store            x=1 rel         a store-release
    a=x             a load             a=x acq         a load-acquire (LDAPR)
                                       a=x acqsc       a load-acquire (LDAR)
    x=1 data(a)     a store whose value depends on register a
    x=1 addr(a)     a store, or a load, whose address depends on register a
    ctrl(a)         a branch on register a: all later accesses depend on it
    mb rmb wmb      DMB SY, LD and ST
    fence_rel       C11's release fence: loads and stores before later stores
    fence_acq       C11's acquire fence: loads before later loads and stores

All words of memory are 0 at the start. Names of registers are unique in a program.

An execution is allowed if two relations have no cycle (Arm Architecture Reference
Manual, B2.3; Deacon's aarch64.cat):

    internal    program order of accesses to one word, reads-from, coherence, from-reads
    external    the last three between threads, and what barriers, acquire, release and
                dependencies order

The model has no read-modify-writes, mixed sizes or ISB. The mapping of release fences
(DMB SY in GCC) is weaker here than on ARMv8, as C11 defines them.
"""

import itertools
import re

ACCESS = re.compile(r'(\w+)=(\w+)((?: [\w()]+)*)$')
FENCES = ('mb', 'rmb', 'wmb', 'fence_rel', 'fence_acq')


class Event:
    """A load or a store."""

    def __init__(self, thread, place, word, **more):
        self.thread, self.place, self.word = thread, place, word
        self.register = self.value = None
        self.marks, self.depends = (), {}
        self.__dict__.update(more)
        self.stores = self.register is None


def parse(thread, text):
    """(events, {place: fence}, [(place, register of a branch)]) of a thread"""
    events, fences, branches = [], {}, []
    for place, part in enumerate(text.split(';')):
        part = ' '.join(part.split())
        access = ACCESS.match(part)
        if part in FENCES:
            fences[place] = part
        elif part.startswith('ctrl('):
            branches.append((place, part[5:-1]))
        elif access:
            left, right, marks = access.groups()
            marks = marks.split()
            more = {'marks': marks, 'depends': {
                mark[5:-1]: mark[:4] for mark in marks if '(' in mark}}
            if right.isdigit():
                events.append(Event(thread, place, left, value=int(right), **more))
            else:
                events.append(Event(thread, place, right, register=left, **more))
        elif part:
            raise ValueError(f'not a part of a program: {part!r}')
    return events, fences, branches


def fenced(first, then, fences):
    """Whether a barrier between two accesses of a thread orders them."""
    between = {fence for place, fence in fences.items()
               if first.place < place < then.place}
    return ('mb' in between or
            ('wmb' in between and first.stores and then.stores) or
            (between & {'rmb', 'fence_acq'} and not first.stores) or
            ('fence_rel' in between and then.stores))


def marked(first, then):
    """Whether acquire or release orders two accesses of a thread."""
    return ({'acq', 'acqsc'} & set(first.marks) or 'rel' in then.marks or
            ('rel' in first.marks and 'acqsc' in then.marks))


def depends(first, then, events, branches):
    """Whether a dependency on a load orders a later access of its thread."""
    register = first.register
    if first.stores:
        return False
    if register in then.depends:
        return True
    return then.stores and (
        any(name == register and place < then.place for place, name in branches) or
        any(middle.depends.get(register) == 'addr' and middle.place < then.place
            for middle in events))


def fixed_order(threads):
    """The pairs of events that are ordered in each execution."""
    return {(first, then) for events, fences, branches in threads
            for first, then in itertools.combinations(events, 2)
            if fenced(first, then, fences) or marked(first, then) or
            depends(first, then, events, branches)}


def acyclic(pairs):
    after, waits = {}, {}
    for first, then in pairs:
        after.setdefault(first, []).append(then)
        waits[then] = waits.get(then, 0) + 1
        waits.setdefault(first, 0)
    ready = [event for event, count in waits.items() if not count]
    done = 0
    while ready:
        done += 1
        for then in after.get(ready.pop(), ()):
            waits[then] -= 1
            if not waits[then]:
                ready.append(then)
    return done == len(waits)


def communication(sources, coherence):
    """The pairs of reads-from, coherence and from-reads."""
    for load, store in sources.items():
        yield store, load
        order = coherence[load.word]
        for later in order[order.index(store) + 1:]:
            yield load, later
    for order in coherence.values():
        yield from itertools.combinations(order, 2)


def executions(loads, stores):
    """Yields all (sources of the loads, coherence order of each word)."""
    words = sorted(stores)
    orders = [[(stores[word][0], *rest)
               for rest in itertools.permutations(stores[word][1:])]
              for word in words]
    for chosen in itertools.product(*(stores[load.word] for load in loads)):
        for order in itertools.product(*orders):
            yield dict(zip(loads, chosen)), dict(zip(words, order))


def outcomes(program):
    """Yields {register or word: value} of each allowed execution."""
    threads = [parse(number, text) for number, text in enumerate(program)]
    events = [event for thread in threads for event in thread[0]]
    words = {event.word for event in events}
    stores = {word: [Event(-1, 0, word, value=0),
                     *(event for event in events
                       if event.stores and event.word == word)] for word in words}
    loads = [event for event in events if not event.stores]
    fixed = fixed_order(threads)
    same_word = [pair for thread in threads
                 for pair in itertools.combinations(thread[0], 2)
                 if pair[0].word == pair[1].word]
    for sources, coherence in executions(loads, stores):
        pairs = list(communication(sources, coherence))
        if not acyclic(pairs + same_word):
            continue
        # A load from a store of its own thread depends on what the store depends on.
        forwarded = [(first, load) for load, store in sources.items()
                     if store.thread == load.thread
                     for first in events if first.thread == store.thread and
                     first.register in store.depends]
        external = [pair for pair in pairs if pair[0].thread != pair[1].thread]
        if acyclic([*external, *fixed, *forwarded]):
            yield {**{load.register: store.value for load, store in sources.items()},
                   **{word: order[-1].value for word, order in coherence.items()}}


def allows(program, outcome):
    """Whether an execution ends with these values ("a=1 b=0")."""
    wanted = {name: int(value) for name, value in
              (part.split('=') for part in outcome.split())}
    return any(all(found[name] == value for name, value in wanted.items())
               for found in outcomes(program))
