# SPDX-License-Identifier: GPL-2.0-or-later
"""When programs came where their marks say. A mark has the ticks of its
machine's processor, and those of the host's, and the host's time, when the
device found it. Both processors tick alike, a constant apart, until the machine
is stopped: the least difference is nearest to that, as nothing is found before
it was made. So a mark is placed never early, and late by no more than the mark
that was found at once.
"""

from heapq import merge


def of_order(event):
    return event.time, event.number


def found_at(mark):
    """The host's ticks then."""
    return mark.high << 32 | mark.low


def lives(events):
    """The marks with ticks, in lists: from one stop of the machine on to the
    next."""
    found = [[]]
    for event in events:
        if event.kind == "held":
            found.append([])
        elif event.kind == "mark" and event.fields.get("ticks"):
            found[-1].append(event)
    return found


def settle(marks, begin, end):
    """Puts them where they were made, between the record's BEGIN and END. A stamp
    is the program's, and may be any number: a mark that would be out of the
    record, compared with most others, stays where it was found and tells
    nothing."""
    ticks = found_at(marks[-1]) - found_at(marks[0]) if marks else 0
    if ticks <= 0:
        return
    time = marks[-1].time - marks[0].time
    lags = [found_at(mark) - mark.ticks for mark in marks]
    usual = sorted(lags)[len(lags) // 2]
    apart = min((lag for mark, lag in zip(marks, lags)
                 if mark.time + (usual - lag) * time // ticks <= end),
                default=usual)
    for mark, lag in zip(marks, lags):
        age = (lag - apart) * time // ticks
        if 0 <= age <= mark.time - begin:
            mark.time -= age


def place(events):
    """The events of a machine with its marks where they belong. One without
    ticks stays where it is."""
    marks = []
    begin, end = (events[0].time, events[-1].time) if events else (0, 0)
    for life in lives(events):
        settle(life, begin, end)
        marks += life
    found = set(map(id, marks))
    return list(merge((event for event in events if id(event) not in found),
                      sorted(marks, key=of_order), key=of_order))


def behind(lags):
    """How far marks are behind at most, out of the times from what was seen to
    the mark of who saw it; None: nobody knows."""
    return min(lags, default=None)
