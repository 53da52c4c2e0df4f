# SPDX-License-Identifier: GPL-2.0-or-later
"""fakernic-lab doctor: what this host offers, and what that means for machines."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from . import places, recordings
from .errors import LabError
from .images import ProjectImage
from .lab import NODES_MAX

MIB = 1 << 20
PYTHON = (3, 9)
# Two machines with the memory that they have by default.
MACHINES = 2
# What a run leaves behind is a few MB; captures and records are larger.
DISK_MIB = 50
CODE_CANNOT = 125


def free_mib(folder):
    """The free space of the file system of FOLDER for this user."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize // MIB


def python():
    found = platform.python_version()
    if sys.version_info < PYTHON:
        return False, f"{found}: install Python 3.9 or newer"
    return True, f"{found} ({sys.executable})"


def kvm():
    reason = places.why_no_kvm()
    if not reason:
        return True, "works: machines boot in a few seconds"
    return None, (f"not usable ({reason}): machines are emulated, boot in 10 to "
                  "20 s and run 10 times slower or more")


def qemu():
    try:
        places.require_whole()
        command = places.qemu_command()
        places.require_device(command)
    except LabError as error:
        return False, str(error)
    words = places.ask_qemu(command, "--version").stdout.split("\n", 1)[0]
    return True, f"{words.removeprefix('QEMU emulator ')} with the device fakernic"


def image():
    found = ProjectImage()
    try:
        found.check()
    except LabError as error:
        return False, str(error)
    return True, f"Debian with Linux {found.kernel}, in {found.parts[0].parent}"


def memory():
    each = ProjectImage.memory
    free, wanted = places.free_memory(), MACHINES * each
    if free >= wanted:
        count = min(NODES_MAX, free // each)
        return True, f"{free} MiB free: enough for {count} machines of {each} MiB"
    return None, (f"{free} MiB free, {MACHINES} machines may use {wanted}: use "
                  "'--memory 384' or '-n 1'")


def temporary():
    try:
        places.temporary_folder("fakernic-lab-").rmdir()
    except LabError as error:
        return False, str(error)
    where = places.temporary()
    return True, f"{where} can be written, {free_mib(where)} MiB free"


def results():
    here = os.getcwd()
    if not os.access(here, os.W_OK):
        return None, f"{here} is read-only: results go to a new folder in $TMPDIR"
    free = free_mib(here)
    if free < DISK_MIB:
        return None, f"{here} has only {free} MiB free: choose another --out"
    return True, f"{here} can be written, {free} MiB free"


def shared_memory():
    where = recordings.MEMORY
    if not os.access(where, os.W_OK):
        return None, f"{where} cannot be written: --timeline records on disk, slower"
    return True, f"{where} has {free_mib(where)} MiB free, for --timeline"


def namespaces():
    try:
        made = subprocess.run(["unshare", "--user", "true"], check=False,
                              capture_output=True).returncode == 0
    except OSError:
        made = False
    if made or os.getuid() == 0:
        return True, "usable; only 'make run' in a checkout needs them"
    return True, ("not usable; the launcher needs none, but 'make run' in a checkout "
                  "needs them or root")


CHECKS = (("Python", python), ("KVM", kvm), ("QEMU", qemu), ("image", image),
          ("memory", memory), ("temporary files", temporary), ("results", results),
          ("shared memory", shared_memory), ("user namespaces", namespaces))
WORDS = {True: "ok", None: "note", False: "FAIL"}


def system():
    """The host's name for itself."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    names = [line.partition("=")[2].strip('"') for line in text.splitlines()
             if line.startswith("PRETTY_NAME=")]
    return names[0] if names else "Linux"


def doctor(_options):
    """Print a line for each thing that the launcher needs or uses. The exit code
    is 0 if machines can run."""
    print(f"{system()}, Linux {platform.release()}, {platform.machine()}, "
          f"{os.cpu_count()} processors")
    failed = False
    for name, check in CHECKS:
        try:
            good, words = check()
        except OSError as error:
            good, words = None, str(error)
        failed |= good is False
        print(f"{WORDS[good]:<4}  {name:<15}  {words}")
    print("Machines cannot run here: see FAIL." if failed else "Machines can run here.")
    return CODE_CANNOT if failed else 0
