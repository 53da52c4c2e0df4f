# SPDX-License-Identifier: GPL-2.0-or-later
"""The places of the devices' records: in memory if there is room, else in the folder
of the machine. For a record in memory, that folder has a link.

The reason is latency. The kernel writes a file on a disk back every few seconds.
After that the first store into each of its pages causes a page fault, which stops
the device for microseconds.
"""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import places
from .outputs import Folder, name_of

RECORD = "record"               # a device's file, next to the console
# The size of x-record's file: qemu-hw/device/watch/record.h.
RECORD_BYTES = 4096 + (64 << 20) + (64 << 20)
MEMORY = Path("/dev/shm")
PREFIX = "fakernic-lab-"
OWNER = ".of"                   # suffix of a file with the path of the link
MIB = 1 << 20
END_S = 2                       # a killed QEMU has ended after this time


def fits(count):
    """Whether memory has room for twice the size of COUNT records."""
    try:
        room = os.statvfs(MEMORY)
    except OSError:
        return False
    wanted = 2 * count * RECORD_BYTES
    return (os.access(MEMORY, os.W_OK) and
            room.f_bavail * room.f_frsize >= wanted and
            places.free_memory() >= wanted // MIB)


def prepare(paths):
    """Make each of PATHS a link to a file in memory, if there is room for all."""
    reap()
    for path in paths if fits(len(paths)) else ():
        handle, name = tempfile.mkstemp(prefix=PREFIX, dir=MEMORY)
        os.close(handle)
        path.symlink_to(name)
        with open(owner_of(name), "x", encoding="utf-8") as owner:
            owner.write(str(path))


def owner_of(name):
    return Path(f"{name}{OWNER}")


def in_memory(path):
    """The file in memory that PATH links to; None if prepare() did not make it."""
    if not path.is_symlink():
        return None
    target = Path(os.readlink(path))
    ours = target.parent == MEMORY and target.name.startswith(PREFIX)
    return target if ours else None


def open_ours(path, flags):
    """An opener for this user's regular files only. Other users can create pipes
    and links in the same folder."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return number
    os.close(number)
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))


def in_use(target, seconds=0):
    """Whether a device still uses the record after that many SECONDS."""
    deadline = time.monotonic() + seconds
    with open(target, "rb", opener=open_ours) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return True
            time.sleep(0.02)


def remove(target):
    target.unlink(missing_ok=True)
    owner_of(target).unlink(missing_ok=True)


def leave(path):
    """Move the record from memory to PATH after its device has ended. If that
    fails the record stays in memory; the error is printed, not raised."""
    target = in_memory(path)
    try:
        # It may belong to another lab, if a killed one had the same folder.
        if target and not in_use(target, END_S):
            move(target, path)
    except OSError as error:
        print(f"fakernic-lab: record not moved to {path}, it is still {target}: "
              f"{error.strerror}",
              file=sys.stderr)


def move(target, path):
    """Move the record by a process of its own, so that Ctrl-C cannot interrupt it.
    The copy is sparse, because most of a record is zeros."""
    folder, new = Folder(path.parent), f"{path.name}.new"
    with folder.create(new) as file:
        copy = subprocess.run(
            ["cp", "--sparse=always", target, name_of(file)], check=False,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            pass_fds=[file.fileno()])
    if copy.returncode:
        os.unlink(new, dir_fd=folder.fd)
        print(f"fakernic-lab: record not moved to {path}, it is still {target}: "
              f"{copy.stderr.strip()}",
              file=sys.stderr)
    else:
        folder.rename(new, path.name)
        remove(target)


def forget(path):
    """Remove the record from memory without keeping it."""
    target = in_memory(path)
    if target:
        remove(target)


def reap():
    """Remove records from memory whose link no longer exists."""
    for owner in MEMORY.glob(f"{PREFIX}*{OWNER}"):
        target = owner.with_name(owner.name.removesuffix(OWNER))
        try:
            with open(owner, encoding="utf-8", opener=open_ours) as file:
                noted = file.read()
            # If the file is empty, another launcher is about to write it.
            if noted and in_memory(Path(noted)) != target and (
                    not target.exists() or not in_use(target)):
                remove(target)
        except OSError:
            pass                # it belongs to another user
