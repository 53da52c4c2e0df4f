# SPDX-License-Identifier: GPL-2.0-or-later
"""Where devices record: in memory, if there is room, else in the folder of
their machine, where a link leads to it. Whatever is written to a file on a disk
the kernel writes back every few seconds, and the first store into each of its
pages from then on is a page fault, which stops the device for microseconds.
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

RECORD = "record"               # of a device, beside its machine's console
# x-record's file: qemu-hw/device/watch/record.h.
RECORD_BYTES = 4096 + (64 << 20) + (64 << 20)
MEMORY = Path("/dev/shm")
PREFIX = "fakernic-lab-"
OWNER = ".of"                   # beside each: where the link to it is
MIB = 1 << 20
END_S = 2                       # in which a QEMU that was killed is gone


def fits(count):
    """Whether memory has room for twice this number of bytes."""
    try:
        room = os.statvfs(MEMORY)
    except OSError:
        return False
    wanted = 2 * count * RECORD_BYTES
    return (os.access(MEMORY, os.W_OK) and
            room.f_bavail * room.f_frsize >= wanted and
            places.free_memory() >= wanted // MIB)


def prepare(paths):
    """The files, that devices are to record in, are in memory if that has room
    for all."""
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
    """The file that a link leads to; None if it is no link of prepare()."""
    if not path.is_symlink():
        return None
    target = Path(os.readlink(path))
    ours = target.parent == MEMORY and target.name.startswith(PREFIX)
    return target if ours else None


def open_ours(path, flags):
    """An opener of our files alone, where anybody may put a pipe or a link."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return number
    os.close(number)
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))


def in_use(target, seconds=0):
    """Whether a device still has the record when they are over."""
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
    """After the device's end: its record is where it was asked for, and no
    longer in memory. What cannot be moved stays; nothing is raised."""
    target = in_memory(path)
    try:
        # Another's, if a lab that was killed had the same folder.
        if target and not in_use(target, END_S):
            move(target, path)
    except OSError as error:
        print(f"fakernic-lab: {path} is still {target}: {error.strerror}",
              file=sys.stderr)


def move(target, path):
    """By another process, which an interrupt from the terminal does not reach.
    Most of a record is zeros, which take no room."""
    folder, new = Folder(path.parent), f"{path.name}.new"
    with folder.create(new) as file:
        copy = subprocess.run(
            ["cp", "--sparse=always", target, name_of(file)], check=False,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            pass_fds=[file.fileno()])
    if copy.returncode:
        os.unlink(new, dir_fd=folder.fd)
        print(f"fakernic-lab: {path} is still {target}: {copy.stderr.strip()}",
              file=sys.stderr)
    else:
        folder.rename(new, path.name)
        remove(target)


def forget(path):
    """Nothing of a record that nobody has left stays in memory."""
    target = in_memory(path)
    if target:
        remove(target)


def reap():
    """Nor of one whose folder is gone with the link to it."""
    for owner in MEMORY.glob(f"{PREFIX}*{OWNER}"):
        target = owner.with_name(owner.name.removesuffix(OWNER))
        try:
            with open(owner, encoding="utf-8", opener=open_ours) as file:
                told = file.read()
            # Nothing yet: another launcher is about to say it.
            if told and in_memory(Path(told)) != target and (
                    not target.exists() or not in_use(target)):
                remove(target)
        except OSError:
            pass                # another user's
