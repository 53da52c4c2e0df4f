# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows progress while something takes long: what the launcher waits for, and for how
many seconds.

On a terminal the line is updated each second and removed at the end. Elsewhere a line
is printed every 30 s.
"""

import sys
import threading
import time

TERMINAL_S = 1
OTHERS_S = 30
# Erases the line, so that the next output takes its place.
WIPED = "\r\x1b[K"


class Waiting:
    """Shows progress inside the with. TEXT returns the words of the line. If STREAM
    is not a terminal, SAY, if given, is called with the line."""

    def __init__(self, text, say=None, stream=None):
        self.text = text
        self.say = say
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.start = time.monotonic()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        if self.terminal:
            self.show()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        if self.terminal:
            print(WIPED, end="", file=self.stream, flush=True)

    def run(self):
        while not self.done.wait(TERMINAL_S if self.terminal else OTHERS_S):
            self.show()

    def show(self):
        line = f"{self.text()}, {time.monotonic() - self.start:.0f} s so far"
        if self.terminal:
            print(f"{WIPED}  {line}", end="", file=self.stream, flush=True)
        elif self.say:
            self.say(line)
