# SPDX-License-Identifier: GPL-2.0-or-later
"""The exceptions of the launcher, and the text of those of the system."""

import errno


class LabError(Exception):
    """The launcher cannot do what it was asked: one line that says what to do
    about it."""


class CommandFailed(Exception):
    """A command ended with an exit code that its caller did not expect."""


class GuestTimeout(Exception):
    """The guest did not answer within a time limit."""


class GuestCrashed(Exception):
    """QEMU ended, or the guest's kernel complained."""


def reason(error):
    """The text of an OSError and, for a full disk, what to do about it."""
    advice = (": free some space, or choose another --out"
              if error.errno == errno.ENOSPC else "")
    return f"{error.strerror or error}{advice}"
