# SPDX-License-Identifier: GPL-2.0-or-later
"""fakernic-wait NAME [NODE]...: commands on several machines wait for each other.

It needs no network, because a test may have taken that down. Each machine runs a
listener, which is an ordinary command:

1. `fakernic-wait` writes a line "NAME ID NODES" into the listener's pipe, and waits
   at a pipe of its own, named ID. The listener prints the line.
2. The launcher waits until every machine has made a call with this NAME. If the call
   names NODES, only these and its own machine have to make it, each with all of them.
3. It sends to each listener the ID of that machine's call, and the word "called".
   The listener writes the word to the pipe ID, and the call returns.

A line "- ID" withdraws a call that has timed out. The launcher answers "withdrawn",
or has answered "called" before. The second call with a NAME in one machine waits for
the second calls of the others.
"""

import os
import queue
import re
import threading
import time
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from .errors import GuestCrashed, GuestTimeout

TOOL = "/usr/local/bin/fakernic-wait"
FOLDER = "/run/fakernic-wait"
VARIABLE = "FAKERNIC_WAIT"
ALONE = "alone"                 # in place of a folder, with one machine: no wait
LIMIT_S = 300                   # default time limit of a call
READY_S = 60
WITHDRAWN_S = 60                # limit of the answer to a withdrawal
# Limits of one machine: waiting calls, and bytes of an incomplete line.
CALLS_MAX = 256
LINE_MAX = 200
CALL = re.compile(rb"([\w.:@+-]{1,64}) (\d{1,10}\.\d{1,10})((?: [\w-]{1,16}){0,64})", re.A)

SCRIPT = f"""#!/bin/bash
# fakernic-wait [-t SECONDS] NAME [NODE]...: waits until every machine of the run, or
# this one and those of the list, has called it with this name. Ends with 124 if they
# do not within SECONDS.
limit={LIMIT_S}
[ "$1" = -t ] && {{ limit=$2; shift 2; }}
if [ $# = 0 ] || ! [[ $limit =~ ^[1-9][0-9]{{0,5}}$ ]] ||
    ! [[ $1 =~ ^[A-Za-z0-9_.:@+-]{{1,64}}$ ]] || [ "$1" = - ]; then
    echo "usage: fakernic-wait [-t SECONDS] NAME [NODE]... (NAME: letters, digits, _.:@+-)" >&2
    exit 2
fi
name=$1
shift
for node; do
    [[ " $FAKERNIC_NODES " == *" $node "* ]] && continue
    echo "fakernic-wait: no machine $node, only $FAKERNIC_NODES" >&2
    exit 2
done
folder=${VARIABLE}
[ "$folder" != {ALONE} ] || exit 0
if ! [ -p "$folder/calls" ]; then
    echo "fakernic-wait: this command was not started by fakernic-lab" >&2
    exit 125
fi
id=$$.$RANDOM
mkfifo "$folder/$id" || exit 125
trap 'rm -f "$folder/$id"' EXIT
# Open before the call: a pipe that no process has open loses its answer.
exec 3<>"$folder/$id"
echo "$name $id $*" 1<>"$folder/calls"
if ! read -r -t "$limit" answer <&3; then
    # The other machines may have been released by this call at this moment.
    echo "- $id" 1<>"$folder/calls"
    read -r -t {WITHDRAWN_S} answer <&3
fi
if [ "$answer" != called ]; then
    echo "fakernic-wait: not all machines have called '$name' within $limit s" >&2
    exit 124
fi
"""

# The listener keeps the pipe "calls" open, so a call never blocks for lack of a
# reader. It writes an answer in the background, as any program can fill a pipe there. In
# machines that are set up by steps the agent is the listener.
LISTENER = """
umask 0
mkdir -p {folder} && mkfifo {folder}/calls && exec 3<>{folder}/calls || exit 1
while read -r line <&3; do printf '%s\\n' "$line"; done &
echo ready
while read -r id answer; do
    [ ! -p {folder}/$id ] || echo $answer 1<>{folder}/$id &
done
"""


class Listener:
    """The listener of one machine of a Meeting."""

    def __init__(self, meeting, node):
        self.meeting = meeting
        self.node = node
        self.line = b""
        self.ready = threading.Event()
        self.calls = defaultdict(deque)     # name, machines -> IDs that wait
        self.answers = queue.Queue(CALLS_MAX)
        options = {"timeout": None, "on_output": self.take, "input": True}
        self.job = (node.guest.start_steps([("listen", meeting.folder)], **options)
                    if meeting.has_steps else
                    node.guest.start(LISTENER.format(folder=meeting.folder), **options))
        threading.Thread(target=self.answer, daemon=True).start()

    def take(self, stream, data):
        if stream == "err":
            return
        *lines, self.line = (self.line + data).split(b"\n")
        self.line = self.line[:LINE_MAX]
        for line in lines:
            self.handle_line(line.rstrip())

    def handle_line(self, line):
        if line == b"ready":
            self.ready.set()
        call = CALL.fullmatch(line)
        if call:
            self.meeting.called(self, *call.groups())

    def waiting(self):
        return sum(map(len, self.calls.values()))

    def take_back(self, number):
        for ids in self.calls.values():
            with suppress(ValueError):
                ids.remove(number)
                self.go(number + b" withdrawn")

    def answer(self):
        """Send the queued answers; None ends the loop. It runs in its own thread,
        so a machine that does not read cannot delay the others."""
        with suppress(OSError):
            while (line := self.answers.get()) is not None:
                self.job.send(line + b"\n")

    def go(self, line):
        with suppress(queue.Full):      # it does not read
            self.answers.put_nowait(line)


class Meeting:
    """Lets the commands of NODES wait for each other. If a listener does not
    start, the meeting ends at once and fakernic-wait fails in every machine.
    HAS_STEPS: see Lab.has_steps()."""

    def __init__(self, nodes, has_steps=False):
        self.has_steps = has_steps
        self.folder = f"{FOLDER}.{os.getpid()}.{time.monotonic_ns()}"
        self.lock = threading.Lock()
        self.listeners = []
        if len(nodes) == 1:
            self.folder = ALONE
            return

        def listen(node):
            self.listeners.append(Listener(self, node))
        try:
            with ThreadPoolExecutor(len(nodes)) as pool:
                list(pool.map(listen, nodes))
            for listener in self.listeners:
                listener.job.await_event(listener.ready,
                                         time.monotonic() + READY_S)
        except (GuestTimeout, GuestCrashed):
            self.end()

    def called(self, listener, name, number, nodes=b""):
        """Note a call, or withdraw one. The call of the last machine releases
        the calls of all."""
        wanted = {*nodes.decode().split(), listener.node.name} if nodes else None
        key = name, frozenset(one.node.name for one in self.listeners
                              if not wanted or one.node.name in wanted)
        with self.lock:
            if name == b"-":
                listener.take_back(number)
                return
            if listener.waiting() >= CALLS_MAX:
                return
            listener.calls[key].append(number)
            group = [one for one in self.listeners if one.node.name in key[1]]
            if group and all(one.calls[key] for one in group):
                for one in group:
                    one.go(one.calls[key].popleft() + b" called")
            # Names without a waiting call must not use memory.
            for one in group:
                if not one.calls[key]:
                    del one.calls[key]

    def end(self, machines_stay=True):
        """Stop the listeners. Calls that still wait end at their time limit."""
        for listener in self.listeners:
            listener.go(None)
            if machines_stay:
                listener.job.kill()
        self.listeners, self.folder = [], ""
