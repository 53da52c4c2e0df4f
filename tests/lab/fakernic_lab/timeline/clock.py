# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the times at which programs made their marks.

A mark has the ticks of the machine's processor when the program made it. It also has
the host's ticks and time when the device found it. Both processors tick at the same
speed, with a constant offset until the machine is stopped. The device finds a mark
only after it was made. So the smallest difference of the two ticks is nearest to the
offset. With it no mark is placed too early, and each is late by at most the delay of
the mark that the device found fastest.
"""

from heapq import merge


def of_order(event):
    return event.time, event.number


def found_at(mark):
    """The host's ticks when the device found this mark."""
    return mark.high << 32 | mark.low


def lives(events):
    """The marks with ticks, in one list per interval between two stops of the
    machine."""
    found = [[]]
    for event in events:
        if event.kind == "held":
            found.append([])
        elif event.kind == "mark" and event.fields.get("ticks"):
            found[-1].append(event)
    return found


def settle(marks, begin, end):
    """Give MARKS the times at which they were made, between the BEGIN and END of
    the record. A program may write any number as a stamp. A mark that would be
    outside the record keeps its time, and one that would be after END, judged by
    the usual offset, is not used to find the offset."""
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
    """The events of a machine, with its marks moved to their right times. A mark
    without ticks keeps its time."""
    marks = []
    begin, end = (events[0].time, events[-1].time) if events else (0, 0)
    for life in lives(events):
        settle(life, begin, end)
        marks += life
    found = set(map(id, marks))
    return list(merge((event for event in events if id(event) not in found),
                      sorted(marks, key=of_order), key=of_order))


def behind(lags):
    """The most by which marks are late, from the times between an event and the
    mark of the program that saw it; None: unknown."""
    return min(lags, default=None)
