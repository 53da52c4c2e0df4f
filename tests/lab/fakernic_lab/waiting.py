# SPDX-License-Identifier: GPL-2.0-or-later
"""What takes long is not silent: a line of what is waited for, and since when.

On a terminal it moves each second and goes at the end; elsewhere one is told now
and then.
"""

import sys
import threading
import time

TERMINAL_S = 1
OTHERS_S = 30
# Puts what comes next in place of such a line.
WIPED = "\r\x1b[K"


class Waiting:
    """Shows such a line inside the with, of what TEXT returns; TELL, if there is
    one, takes it where STREAM is no terminal."""

    def __init__(self, text, tell=None, stream=None):
        self.text = text
        self.tell = tell
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
        elif self.tell:
            self.tell(line)
