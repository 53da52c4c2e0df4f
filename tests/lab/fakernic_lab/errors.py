# SPDX-License-Identifier: GPL-2.0-or-later
"""The exceptions of the launcher."""


class LabError(Exception):
    """The launcher cannot do what it was asked: one line that says what to do
    about it."""


class CommandFailed(Exception):
    """A command ended with an exit code that its caller did not expect."""


class GuestTimeout(Exception):
    """The guest did not answer within a time limit."""


class GuestCrashed(Exception):
    """QEMU ended, or the guest's kernel complained."""
