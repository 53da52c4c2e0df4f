# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of QEMU's machine protocol that the launcher needs: commands and answers."""

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
        """The next message that is not an event. The time limit includes skipped events."""
        deadline = time.monotonic() + within
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("QEMU's monitor sends only events")
            self.sock.settimeout(left)
            try:
                line = self.file.readline()
            except socket.timeout as error:     # no TimeoutError before Python 3.10
                raise TimeoutError("QEMU's monitor is silent") from error
            if not line:
                raise ConnectionError("QEMU has closed its monitor")
            message = json.loads(line)
            if "event" not in message:
                return message

    def cmd(self, command, arguments=None, within=TIMEOUT_S):
        """Runs a command that must succeed and returns its value. Raises an OSError if no
        answer comes WITHIN that many seconds; then the connection cannot be used again."""
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
