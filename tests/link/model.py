#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""All interleavings of the protocol by which a ring's ends signal each other
(qemu-hw/link/ring.h), on processors that delay stores (x86's TSO): nobody may
sleep for ever beside a frame. Prints TAP.

The waiting end and the telling end are a reader without frames and its writer;
a writer without room and its reader do the same with other words. Mutants, each
without one piece of the protocol, must be found wrong.
"""

import sys

FRAMES = 3
WRITER, READER = 0, 1


class Rules:
    """The protocol, or a mutant of it."""

    def __init__(self, writer_barrier=True, reader_barrier=True, looks=True,
                 tickets=True):
        self.writer_barrier = writer_barrier
        self.reader_barrier = reader_barrier
        self.looks = looks
        self.tickets = tickets


# A state: (memory, buffers, writer, reader, signals) with
#   memory   (tail, asleep)
#   buffers  per end, the stores that the other does not see yet
#   writer   (step, frames put, ticket told last)
#   reader   (step, head, ticket)

def load(state, end, word):
    """What an end sees: its own stores first."""
    memory, buffers = state[0], state[1]
    for name, value in reversed(buffers[end]):
        if name == word:
            return value
    return memory[word]


def stored(buffers, end, word, value):
    mine = buffers[end] + ((word, value),)
    return (mine, buffers[READER]) if end == WRITER else (buffers[WRITER], mine)


def drained(state):
    """A store reaches memory."""
    memory, buffers, *rest = state
    for end in (WRITER, READER):
        if buffers[end]:
            (word, value), *others = buffers[end]
            new = list(memory)
            new[word] = value
            left = list(buffers)
            left[end] = tuple(others)
            yield (tuple(new), tuple(left), *rest)


TAIL, ASLEEP = 0, 1


def writer_moves(state, rules):
    memory, buffers, (step, count, told), reader, signals = state
    if step == "put" and count < FRAMES:
        yield (memory, stored(buffers, WRITER, TAIL, count + 1),
               ("barrier", count + 1, told), reader, signals)
    elif step == "barrier":
        if not rules.writer_barrier or not buffers[WRITER]:
            yield memory, buffers, ("look", count, told), reader, signals
    elif step == "look":
        ticket = load(state, WRITER, ASLEEP)
        if not rules.tickets:
            ticket = min(ticket, 1)
        if ticket and ticket != told:
            yield memory, buffers, ("put", count, ticket), reader, signals + 1
        else:
            yield memory, buffers, ("put", count, told), reader, signals


def reader_moves(state, rules):
    memory, buffers, writer, (step, head, ticket), signals = state
    tail = load(state, READER, TAIL)
    if step == "wake":
        yield (memory, stored(buffers, READER, ASLEEP, 0), writer,
               ("take", head, ticket), signals)
    elif step == "take":
        yield memory, buffers, writer, (
            ("take", tail, ticket) if tail != head else
            ("publish", head, ticket)), signals
    elif step == "publish":
        yield (memory, stored(buffers, READER, ASLEEP, ticket + 1), writer,
               ("barrier", head, ticket + 1), signals)
    elif step == "barrier":
        if not rules.reader_barrier or not buffers[READER]:
            yield memory, buffers, writer, ("look", head, ticket), signals
    elif step == "look":
        again = rules.looks and tail != head
        yield memory, buffers, writer, (
            "wake" if again else "sleep", head, ticket), signals
    elif step == "sleep" and signals:
        yield memory, buffers, writer, ("wake", head, ticket), signals - 1


def explore(rules):
    """(states, most signals sent for one sleep, a state that is stuck wrongly)"""
    start = ((0, 0), ((), ()), ("put", 0, 0), ("wake", 0, 0), 0)
    seen, todo, most = {start}, [start], 0
    while todo:
        state = todo.pop()
        moves = [*drained(state), *writer_moves(state, rules),
                 *reader_moves(state, rules)]
        if not moves and state[3][1] != FRAMES:
            return len(seen), most, state
        for new in moves:
            most = max(most, new[4])
            if new not in seen:
                seen.add(new)
                todo.append(new)
    return len(seen), most, None


def main():
    wanted = (
        ("nobody sleeps beside a frame", Rules(), True),
        ("found: no barrier of the writer", Rules(writer_barrier=False), False),
        ("found: no barrier of the reader", Rules(reader_barrier=False), False),
        ("found: no second look", Rules(looks=False), False),
        ("found: a flag in place of tickets", Rules(tickets=False), False),
    )
    failed = 0
    for number, (name, rules, right) in enumerate(wanted, start=1):
        states, most, stuck = explore(rules)
        good = (stuck is None) == right
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - model: {name}\n"
              f"# {states} states, at most {most} signals under way, "
              f"stuck: {stuck}")
    print(f"1..{len(wanted)}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
