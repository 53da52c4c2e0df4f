# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that the launcher leaves behind.

A guest may write below a folder that is mounted writable, so it may put a link
or a pipe where the launcher is about to write. A Folder is opened once. Each
file in it is made new by its name below the open folder: what lies there under
this name is removed, never followed. QEMU gets open files, not names.
"""

import os
import re
import resource
from contextlib import suppress
from pathlib import Path

from .errors import LabError, reason

# The limit of each file that QEMU or the relay writes, and of a command's output.
FILE_MAX = 16 << 30
CHUNK = 1 << 20
# Control characters, which change the state of a terminal.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text):
    """A guest's text for a terminal or a report: control characters are shown
    as backslash escapes; newlines and tabs stay."""
    return CONTROL.sub(
        lambda found: found[0].encode("unicode_escape").decode(), text)


def limit_files(pid):
    """Limits the files that the process PID writes to FILE_MAX bytes. A child must
    ignore SIGXFSZ, as Python does: Popen(restore_signals=False)."""
    # It may have ended, or run as another user, whose limits are not ours.
    with suppress(ProcessLookupError, PermissionError):
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        limit = FILE_MAX if hard == resource.RLIM_INFINITY else min(FILE_MAX, hard)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))


def name_of(file):
    """The name by which a child that keeps this file open can open it."""
    return f"/proc/self/fd/{file.fileno()}"


def contents(path, file=None, start=0, size=None):
    """Reads SIZE bytes, or all, of the open FILE, or without one of the regular file at
    PATH. Returns no bytes if the file is missing. A negative START counts from the end."""
    if file is None:
        try:
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK |
                             os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        with open(number, "rb") as file:
            return contents(path, file, start, size)
    if start < 0:
        start = max(0, os.fstat(file.fileno()).st_size + start)
    parts = []
    while size is None or size > 0:
        data = os.pread(file.fileno(), min(size or CHUNK, CHUNK), start)
        if not data:
            break
        parts.append(data)
        start += len(data)
        size = size and size - len(data)
    return b"".join(parts)


class Folder:
    """An open folder, which must not be a symbolic link. Its files are accessed through
    the descriptor; PATH is for messages and for the caller."""

    def __init__(self, path):
        self.path = Path(path)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY |
                          os.O_NOFOLLOW | os.O_CLOEXEC)

    def __del__(self):
        with suppress(AttributeError, OSError):
            os.close(self.fd)

    def create(self, name):
        """Creates a new file and returns it, open for reading and writing, unbuffered."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return open(os.open(name, flags, 0o666, dir_fd=self.fd), "r+b",
                    buffering=0)

    def write(self, name, data):
        """Creates a new file with this text, or these bytes."""
        if isinstance(data, str):
            data = data.encode("utf-8", "replace")
        try:
            with self.create(name) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left):]
        except OSError as error:
            raise LabError(f"{self.path / name}: {reason(error)}") from error

    def rename(self, name, new):
        os.replace(name, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)


def contains(folder, path):
    """Whether PATH is this folder or below it. Symbolic links are resolved."""
    if not os.path.exists(folder):
        return False
    path = Path(path).resolve()
    return any(os.path.samefile(folder, above) for above in (path, *path.parents)
               if above.exists())


def require_apart(mounts, out, others):
    """Raises a LabError if a machine could write where the launcher writes: in
    the folder OUT, or in OTHERS, folder -> how to choose another one."""
    elsewhere = {out: "choose another --out", **others}
    for mount in mounts:
        if contains(out, mount.source):
            raise LabError(f"--mount {mount.source}: {out} is emptied before a "
                           "run: mount another folder, or choose another --out")
        for place, choice in elsewhere.items() if mount.writable else ():
            if contains(mount.source, place):
                raise LabError(
                    f"--mount {mount.source}:{mount.target}:rw: the machines "
                    f"could replace files of fakernic-lab in {place}: mount a "
                    "folder of its own for their results ('mkdir results', "
                    f"--mount results:{mount.target}:rw), or {choice}")
