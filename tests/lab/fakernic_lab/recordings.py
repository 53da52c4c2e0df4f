# SPDX-License-Identifier: GPL-2.0-or-later
"""Where devices record: in memory, if there is room, else in the folder of
their machine, where a link leads to it. Whatever is written to a file on a disk
the kernel writes back every few seconds, and the first store into each of its
pages from then on is a page fault, which stops the device for microseconds.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from . import places

RECORD = "record"               # of a device, beside its machine's console
# x-record's file: qemu-hw/device/record.h.
RECORD_BYTES = 4096 + (64 << 20) + (64 << 20)
MEMORY = Path("/dev/shm")
PREFIX = "fakernic-lab-"
MIB = 1 << 20


def fits(count):
    """Whether memory has room for so many, and as much again."""
    try:
        room = os.statvfs(MEMORY)
    except OSError:
        return False
    wanted = 2 * count * RECORD_BYTES
    return (os.access(MEMORY, os.W_OK) and
            room.f_bavail * room.f_frsize >= wanted and
            places.free_memory() >= wanted // MIB)


def prepare(path, count=1):
    """The file, that a device is to record in, is in memory if that has room
    for COUNT of them."""
    if fits(count):
        handle, name = tempfile.mkstemp(prefix=PREFIX, dir=MEMORY)
        os.close(handle)
        path.symlink_to(name)


def in_memory(path):
    """The file that a link leads to; None if it is no link of prepare()."""
    if not path.is_symlink():
        return None
    target = Path(os.readlink(path))
    ours = target.parent == MEMORY and target.name.startswith(PREFIX)
    return target if ours else None


def leave(path):
    """After the device's end: its record is where it was asked for, and no
    longer in memory."""
    target = in_memory(path)
    if target is None:
        return
    path.unlink()
    # Most of it is zeros, which take no room. On a full disk cp says so, and
    # whoever reads the record that it is cut; the other machines end all the same.
    subprocess.run(["cp", "--sparse=always", target, path], check=False)
    target.unlink(missing_ok=True)


def forget(path):
    """Nothing of a record that nobody has left stays in memory."""
    target = in_memory(path)
    if target:
        target.unlink(missing_ok=True)
