# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's machine protocol, as much of it as is needed: commands, answers."""

import json
import socket
import time

TIMEOUT_S = 60


class QMPError(Exception):
    """QEMU refused a command."""


class QMP:
    """A connection to the QMP socket of a QEMU."""

    def __init__(self, path, greets_within=TIMEOUT_S):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(greets_within)
        self.file = self.sock.makefile("rw", encoding="utf-8")
        try:
            self.sock.connect(str(path))
            self.answer(greets_within)
        except BaseException:
            self.close()
            raise
        self.cmd("qmp_capabilities", within=greets_within)

    def answer(self, within):
        """The next message that is not an event, however many of these come."""
        deadline = time.monotonic() + within
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("QEMU's monitor sends only events")
            self.sock.settimeout(left)
            line = self.file.readline()
            if not line:
                raise ConnectionError("QEMU has closed its monitor")
            message = json.loads(line)
            if "event" not in message:
                return message

    def cmd(self, command, arguments=None, within=TIMEOUT_S):
        """A command that must succeed; its return value. An OSError if that
        does not come within so many seconds: use it no more then."""
        self.sock.settimeout(within)
        json.dump({"execute": command, "arguments": arguments or {}}, self.file)
        self.file.write("\n")
        self.file.flush()
        answer = self.answer(within)
        if "error" in answer:
            raise QMPError(f"{command}: {answer['error'].get('desc')}")
        return answer["return"]

    def close(self):
        self.file.close()
        self.sock.close()
