#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks all interleavings of the protocol by which the two ends of a ring signal each
other (qemu-hw/link/ring.h), on processors that delay stores (x86's TSO). A reader must
not sleep forever while there is a frame, and a writer must not wait forever while there
is room. Prints TAP.

Both halves are checked together: a reader that has no frames, and a writer that has no
room, because the ring holds few frames. Mutants, each without one part of the protocol,
must fail. The additional time check of the writer in link.c is not modelled.

The model has no clock. Two conditions that depend on time may be true or false at any
time: whether a poll is recent, and whether the guest still polls when the reader looks.
"""

import sys

WRITER, READER = 0, 1


class Rules:
    """The protocol, or a mutant of it."""

    def __init__(self, frames=3, room=None, polls=0, reminders=0, **without):
        self.frames = frames
        self.room = room or frames  # frames that the ring holds
        self.polls = polls          # number of polls by the reader's guest
        self.reminders = reminders  # number of times that the writer looks again
        self.writer_barrier = True
        self.reader_barrier = True
        self.looks = True           # the reader looks again before it sleeps
        self.tickets = True
        self.timer = True           # the reader looks whether polls have ended
        self.clears = True          # ... and then clears its word for polls
        self.ticket_first = True    # a recent poll does not hide a ticket
        self.separate = True      # signals for polls and tickets are separate
        self.room_barrier = True    # of a writer without room
        self.freed_barrier = True   # of a reader that has freed room
        self.room_looks = True      # the writer looks again before it waits
        self.room_tickets = True
        assert all(hasattr(self, name) for name in without)
        self.__dict__.update(without)


# A state: (memory, buffers, writer, reader, signals) with
#   memory   (tail, asleep, polled, head, wants_room)
#   buffers  for each end, the stores that the other end does not see yet
#   writer   (step, frames put, reminders left, ticket reported last,
#            poll reported last, its own ticket)
#   reader   (step, head, ticket, polls left, whether its guest polls, the
#            writer's ticket reported last, whether it has taken something)
#   signals  number of signals on their way to each end

TAIL, ASLEEP, POLLED, HEAD, WANTS = range(5)


def load(state, end, word):
    """The value that an end reads: its own delayed store, or else the memory."""
    memory, buffers = state[0], state[1]
    for name, value in reversed(buffers[end]):
        if name == word:
            return value
    return memory[word]


def stored(buffers, end, word, value):
    mine = buffers[end] + ((word, value),)
    return (mine, buffers[READER]) if end == WRITER else (buffers[WRITER], mine)


def drained(state):
    """Yields the states in which the oldest delayed store of an end has reached memory."""
    memory, buffers, *rest = state
    for end in (WRITER, READER):
        if buffers[end]:
            (word, value), *others = buffers[end]
            new = list(memory)
            new[word] = value
            left = list(buffers)
            left[end] = tuple(others)
            yield (tuple(new), tuple(left), *rest)


def judge_ticket(ticket, signalled, signalled_poll, rules):
    """(signalled, signalled_poll) after a signal for this ticket; None if it needs no signal."""
    if not rules.tickets:
        ticket = min(ticket, 1)
    if not ticket or ticket == signalled:
        return None
    return (ticket, signalled_poll) if rules.separate else (ticket, ticket)


def judge_poll(polled, signalled, signalled_poll, rules):
    """The same for a poll that is not recent."""
    if not polled or polled == signalled_poll:
        return None
    return (signalled, polled) if rules.separate else (polled, polled)


def put_moves(state, rules):
    """link_ring_put(), or link_ring_await_room() if there is no room."""
    memory, buffers, writer, reader, signals = state
    step, count, *others, mine = writer
    there_is = count - load(state, WRITER, HEAD) < rules.room

    def stores(new, word, value, count=count, mine=mine):
        return (memory, stored(buffers, WRITER, word, value),
                (new, count, *others, mine), reader, signals)

    def at(new, signals=signals):
        return memory, buffers, (new, count, *others, mine), reader, signals

    if step == "put" and count < rules.frames:
        if there_is:
            yield stores("barrier", TAIL, count + 1, count=count + 1)
        else:
            yield stores("room barrier", WANTS, mine + 1, mine=mine + 1)
    if step == "room barrier" and not (rules.room_barrier and buffers[WRITER]):
        yield at("room look" if rules.room_looks else "await room")
    if step == "room look":
        yield stores("put", WANTS, 0) if there_is else at("await room")
    if step == "await room" and signals[WRITER]:
        yield at("put", (0, signals[READER]))


def writer_moves(state, rules):
    memory, buffers, writer, reader, signals = state
    step, count, left, signalled, signalled_poll, mine = writer

    def at(new, memories=(signalled, signalled_poll), signal=0):
        return (memory, buffers, (new, count, left, *memories, mine), reader,
                (signals[WRITER], signals[READER] + signal))

    first, second = ("ticket", "poll") if rules.ticket_first else (
        "poll", "ticket")
    yield from put_moves(state, rules)
    if step == "put" and count and left:
        yield (memory, buffers, ("barrier", count, left - 1, signalled, signalled_poll,
                                 mine), reader, signals)
    # link_ring_wakes()
    if step == "barrier" and not (rules.writer_barrier and buffers[WRITER]):
        yield at(first)
    if step == "ticket":
        now = judge_ticket(load(state, WRITER, ASLEEP), signalled, signalled_poll, rules)
        if now:
            yield at("put", now, signal=1)
        else:
            yield at("put" if step == second else second)
    if step == "poll":
        polled = load(state, WRITER, POLLED)
        now = judge_poll(polled, signalled, signalled_poll, rules)
        if now:
            yield at("put", now, signal=1)
        if polled or step == second:
            yield at("put")         # it is recent, or was signalled
        if not polled and step == first:
            yield at(second)


def reader_moves(state, rules):
    memory, buffers, writer, reader, signals = state
    step, head, ticket, polls, polling, signalled, took = reader
    tail = load(state, READER, TAIL)
    names = ("head", "ticket", "polls", "polling", "signalled", "took")

    def at(new, to_writer=0, heard=False, **changed):
        values = dict(zip(names, reader[1:]), **changed)
        yield (memory, buffers, writer, (new, *(values[name] for name in names)),
               (signals[WRITER] + to_writer, 0 if heard else signals[READER]))

    def stores(new, word, value, **changed):
        for _, _, *rest in at(new, **changed):
            yield memory, stored(buffers, READER, word, value), *rest

    # The reader wakes, or its guest polls: fakernic_link_poll(), link_wake().
    if step == "wake" and rules.clears:
        yield from stores("awake", POLLED, 0, polling=False)
    elif step == "wake":
        yield from at("awake", polling=False)
    elif step == "poll":
        yield from stores("awake", POLLED, rules.polls + 1 - polls,
                          polls=polls - 1, polling=True)
    elif step == "awake":
        yield from stores("take", ASLEEP, 0)
    # link_take(): takes some of the frames, or all
    elif step == "take":
        if tail != head:
            yield from stores("take", HEAD, head + 1, head=head + 1, took=True)
        if took:
            yield from at("freed", took=False)
        elif tail == head:
            yield from at("between polls" if polling else "publish")
    # link_ring_frees()
    elif step == "freed":
        if not rules.freed_barrier or not buffers[READER]:
            yield from at("tell")
    elif step == "tell":
        wanted = load(state, READER, WANTS)
        if not rules.room_tickets:
            wanted = min(wanted, 1)
        if wanted and wanted != signalled:
            yield from at("take", to_writer=1, signalled=wanted)
        else:
            yield from at("take")
    # link_ring_sleep()
    elif step == "publish":
        if rules.clears:
            yield from stores("publish ticket", POLLED, 0)
        else:
            yield from at("publish ticket")
    elif step == "publish ticket":
        yield from stores("barrier", ASLEEP, ticket + 1, ticket=ticket + 1)
    elif step == "barrier":
        if not rules.reader_barrier or not buffers[READER]:
            yield from at("look")
    elif step == "look":
        yield from at("wake" if rules.looks and tail != head else "sleep")
    # Events that make the reader look. One read takes all pending signals.
    if step == "sleep" and signals[READER]:
        yield from at("wake", heard=True)
    if step == "between polls":
        if signals[READER]:
            yield from at("wake", heard=True)
            yield from at("take", heard=True)
        if rules.timer:
            yield from at("wake")
            yield from at("take")
    # The guest may poll between two looks of the reader, also while it lingers.
    if step in ("sleep", "between polls", "publish") and polls:
        yield from at("poll")


def explore(rules):
    """(number of states, most signals on their way to one end, a wrongly stuck state or
    None)"""
    start = ((0,) * 5, ((), ()), ("put", 0, rules.reminders, 0, 0, 0),
             ("wake", 0, 0, rules.polls, False, 0, False), (0, 0))
    seen, todo, most = {start}, [start], 0
    while todo:
        state = todo.pop()
        moves = [*drained(state), *writer_moves(state, rules),
                 *reader_moves(state, rules)]
        if not moves and state[3][1] != rules.frames:
            return len(seen), most, state
        for new in moves:
            most = max(most, *new[4])
            if new not in seen:
                seen.add(new)
                todo.append(new)
    return len(seen), most, None


def main():
    polls = {"frames": 2, "polls": 2, "reminders": 1}
    full = {"frames": 3, "room": 1}
    wanted = (
        ("nobody sleeps beside a frame", Rules(), True),
        ("found: no barrier of the writer", Rules(writer_barrier=False), False),
        ("found: no barrier of the reader", Rules(reader_barrier=False), False),
        ("found: no second look", Rules(looks=False), False),
        ("found: a flag in place of tickets", Rules(tickets=False), False),
        ("nor whose guest polled", Rules(**polls), True),
        ("found: polls that end unnoticed", Rules(**polls, timer=False), False),
        ("found: one memory of polls and tickets",
         Rules(**polls, separate=False), False),
        ("found: a sleeper that seems to poll",
         Rules(**polls, clears=False, ticket_first=False), False),
        ("nor waits beside room", Rules(**full), True),
        ("nor with room for two", Rules(frames=4, room=2), True),
        ("nor while the other's guest polls",
         Rules(frames=2, room=1, polls=1), True),
        ("found: no barrier of a writer without room",
         Rules(**full, room_barrier=False), False),
        ("found: no barrier after the reader has made room",
         Rules(**full, freed_barrier=False), False),
        ("found: no second look for room",
         Rules(**full, room_looks=False), False),
        ("found: a flag in place of tickets for room",
         Rules(**full, room_tickets=False), False),
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
