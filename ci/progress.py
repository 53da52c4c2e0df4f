# SPDX-License-Identifier: GPL-2.0-or-later
"""The progress line of a long step: how far it is, and how much time is left. Both
come from the counts in the step's log ("[12/345]", as ninja prints).

On a terminal the line is updated each second. Elsewhere a line is printed now and
then, so that no log is silent. Of simultaneous steps the oldest is shown.
"""

import re
import sys
import threading
import time

COUNT = re.compile(rb"\[(\d+)/(\d+)\]")
PERCENT = re.compile(rb"\[ *(\d+)%\]$", re.M)
TAIL = 8192
TERMINAL_S = 1
OTHERS_S = 30
# The time stamp of a file may be older than the clock by this much.
CLOCK_S = 1
# An earlier estimate of the remaining time would be too inexact.
SURE_S = 5


def last_said(path, what):
    """The last match of a pattern in a log; None if there is none."""
    try:
        with open(path, "rb") as log:
            log.seek(max(0, log.seek(0, 2) - TAIL))
            found = what.findall(log.read())
    except OSError:
        return None
    return found[-1] if found else None


def last_count(path):
    """The last count in a log, (done, total); None if there is none."""
    found = last_said(path, COUNT)
    return tuple(map(int, found)) if found else None


def remaining(first, now, count):
    """Seconds left; FIRST is (time, done) at which counting began."""
    done = count[0] - first[1]
    elapsed = now - first[0]
    if done <= 0 or elapsed < SURE_S:
        return None
    return elapsed / done * (count[1] - count[0])


class Progress:
    """A context manager that shows the progress of the step inside it."""

    shown = []

    def __init__(self, title, log):
        self.title = title
        self.log = log
        self.terminal = sys.stdout.isatty()
        self.start = time.monotonic()
        self.begun = time.time()
        self.first = None
        self.total = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.shown.append(self)
        if self.terminal:
            self.show()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.shown.remove(self)
        if self.terminal:
            print("\r\x1b[K", end="", flush=True)

    def run(self):
        while not self.done.wait(TERMINAL_S if self.terminal else OTHERS_S):
            self.show()

    def text(self, now, count):
        """The text that shows a step at time NOW, with COUNT from its log."""
        passed = f"{now - self.start:5.0f}s"
        if not count:
            return f"{passed} so far"
        if self.total != count[1]:
            self.first, self.total = (now, count[0]), count[1]
        left = remaining(self.first, now, count)
        return (f"{passed}, {count[0]} of {count[1]}" +
                (f", {left:.0f}s left" if left is not None else ""))

    def count(self):
        """The last count in the step's log; None if the log is of an earlier run."""
        try:
            stale = self.log.stat().st_mtime < self.begun - CLOCK_S
        except OSError:
            return None
        return None if stale else last_count(self.log)

    def show(self):
        if self.shown[0] is not self:
            return
        line = f"  {self.title:<44} {self.text(time.monotonic(), self.count())}"
        print(f"\r{line}\x1b[K" if self.terminal else line,
              end="" if self.terminal else "\n", flush=True)


class Running:
    """The suites of tests that are running, each with a log. Shows all of them in one
    line, as often as Progress shows a step."""

    def __init__(self, log_of):
        self.log_of = log_of
        self.since = {}                 # name -> when it began
        self.terminal = sys.stdout.isatty()
        self.told = time.monotonic()
        self.pause = TERMINAL_S if self.terminal else OTHERS_S

    def begin(self, name):
        self.since[name] = time.monotonic()

    def end(self, name):
        self.since.pop(name, None)

    def how_far(self, name, since):
        """The percentage in pytest's log, or the seconds since the suite began."""
        percent = last_said(self.log_of(name), PERCENT)
        return f"{name} {int(percent)}%" if percent else (
            f"{name} {time.monotonic() - since:.0f}s")

    def left_to_wait(self):
        """Seconds until show() is due."""
        return max(0.1, self.told + self.pause - time.monotonic())

    def show(self):
        self.told = time.monotonic()
        line = "  running: " + ", ".join(
            self.how_far(*suite) for suite in list(self.since.items()))
        print(f"\r{line}\x1b[K" if self.terminal else line,
              end="" if self.terminal else "\n", flush=True)

    def clear(self):
        """Makes room for a line of another program."""
        if self.terminal:
            print("\r\x1b[K", end="", flush=True)
