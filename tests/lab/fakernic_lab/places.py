# SPDX-License-Identifier: GPL-2.0-or-later
"""Where things are: the cache of a checkout, if there is one, and QEMU."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import LabError

BINARY = "qemu-system-x86_64"
WRAPPER = "qemu-system-x86_64-fakernic"
INSIDE = os.environ.get("FAKERNIC_ROOT") == "1"
# The launcher's own programs: its package's, and where a checkout builds them.
TOOLS_INSTALLED = Path("/usr/lib/fakernic-lab")
TOOLS_BUILT = "build/lab"
# The longest name of a unix socket, and the longest of ours below a lab's folder.
SOCKET_NAME_MAX = 107
LONGEST_SOCKET = "link/4194304-0.member"
# A QEMU that loses accesses of processors that it emulates at once, one boot in
# twenty with four; that of a checkout is mended (ci/mend_qemu.py).
LOSES = re.compile(r"QEMU emulator version 10\.(?!.*\(fakernic\))")


def cache():
    """The folder in which a checkout builds."""
    if INSIDE:
        return Path("/cache")
    # Unlike Path.home() this takes a user whom /etc/passwd does not know.
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("FAKERNIC_CACHE") or Path(home) / "fakernic")


def escaped(path):
    """A path as a value among QEMU's options, which commas separate."""
    return str(path).replace(",", ",,")


def holds_sockets(folder):
    """Whether its name is short enough for the names of sockets in it."""
    return len(os.fsencode(Path(folder) / LONGEST_SOCKET)) <= SOCKET_NAME_MAX


def socket_folder():
    """A new folder for sockets: in $TMPDIR, or if that is too long in /tmp."""
    for parent in (None, "/tmp"):
        folder = Path(tempfile.mkdtemp(prefix="fakernic-lab-", dir=parent))
        if holds_sockets(folder):
            return folder
        folder.rmdir()
    raise LabError("no folder with a name that is short enough for sockets")


def debian_root():
    """The Debian tree in which the cache's QEMU was built; None without."""
    ready = [path for path in cache().glob("root-*/.fakernic-ready")]
    return max(ready, key=lambda path: path.stat().st_mtime,
               default=Path()).parent if ready else None


def with_libraries_of(root, binary, *options):
    """The command that runs a QEMU outside of the Debian tree that it was made
    for: with the libraries, the modules and the firmware of that."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    return ["env", f"QEMU_MODULE_DIR={libraries}/qemu",
            str(root / "usr/lib64/ld-linux-x86-64.so.2"), *map(str, options),
            "--library-path", str(libraries), str(binary),
            "-L", str(root / "usr/share/seabios"),
            "-L", str(root / "usr/share/qemu")]


def time_of_build(program):
    """When the step that makes a program has made it last."""
    stamp = program.parent.with_suffix(".stamp")
    return stamp.stat().st_mtime if stamp.exists() else 0


def built_qemu():
    """The command that runs the QEMU that was built in the cache, or the Debian
    tree's with the cache's plug-in; None without either. For a user the newer
    one: "make run" makes the latter only."""
    binary = cache() / "build/qemu" / BINARY
    plugin = cache() / "build/qemu-plugin"
    made = [path for path in (binary, plugin / WRAPPER)
            if os.access(path, os.X_OK)]
    root = debian_root()
    if not made or (root is None and not INSIDE):
        return None
    if INSIDE:
        return [str(made[0])]
    if max(made, key=time_of_build) == binary:
        return with_libraries_of(root, binary)
    return with_libraries_of(root, root / "usr/bin" / BINARY, "--preload",
                             plugin / "fakernic-qemu.so")


def qemu_command(wanted=None):
    """The words that start QEMU: that of the caller, of $FAKERNIC_QEMU, the
    packaged one, or the cache's."""
    wanted = wanted or os.environ.get("FAKERNIC_QEMU")
    if wanted:
        found = shutil.which(wanted)
        if not found:
            raise LabError(f"no QEMU at {wanted}")
        return [found]
    found = shutil.which(WRAPPER)
    if found:
        return [found]
    found = built_qemu()
    if not found:
        raise LabError(
            "no QEMU with fakernic: install the package fakernic-qemu, run "
            "'make run' in a checkout, or name one with --qemu")
    return found


def ask_qemu(command, *words):
    """What QEMU says to these words before it ends."""
    try:
        return subprocess.run(
            [*command, *words], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{command[0]} does not run: {error}") from error


def require_device(command):
    """That this QEMU has the device, which a plain one has not."""
    listing = ask_qemu(command, "-device", "help")
    if listing.returncode:
        last = listing.stderr.strip().splitlines() or ["no message"]
        raise LabError(f"{command[0]} does not run: {last[-1]}")
    if 'name "fakernic"' not in listing.stdout:
        raise LabError(
            f"{command[0]} has no device fakernic: use the wrapper {WRAPPER} "
            "of the package fakernic-qemu, or a QEMU built with fakernic")


def tool(name):
    """A program of the launcher's: the guest agent, which is brought into images
    without it, and the wire with faults."""
    for path in (TOOLS_INSTALLED / name, cache() / TOOLS_BUILT / name):
        if path.exists():
            return path
    raise LabError(f"no {name} here: install the package fakernic-lab, or run "
                   "'make build-image' in a checkout")


def opened(path):
    """A file that is to be written at the end, if one is named, else None: it is
    opened before anything boots, so that no machine can put a link there."""
    try:
        return open(path, "wb") if path else None
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error


def runs_with(pid, word):
    """Whether the process PID is there and has WORD in its arguments: another
    may have got its number."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return os.fsencode(str(word)) in arguments


def free_memory():
    """What programs may still take, in MiB."""
    text = Path("/proc/meminfo").read_text(encoding="utf-8")
    return int(re.search(r"^MemAvailable: +(\d+) kB", text, re.M)[1]) >> 10


def why_no_kvm():
    """The reason for which KVM is not used; None if it is.

    That /dev/kvm opens is no proof: on some machines guests then hang at
    boot. The processor's own flag is asked for as well.
    """
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if not re.search(r"^flags\s*:.*\b(svm|vmx)\b", flags, re.M):
        return "this processor offers no virtualization"
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except FileNotFoundError:
        return "there is no /dev/kvm"
    except PermissionError:
        return "/dev/kvm is not yours: join the group kvm"
    except OSError as error:
        return f"/dev/kvm: {error.strerror}"
    return None


def accelerator():
    """kvm where it works, else tcg; or what $FAKERNIC_ACCEL says."""
    wanted = os.environ.get("FAKERNIC_ACCEL")
    if wanted and wanted not in ("kvm", "tcg"):
        raise LabError("FAKERNIC_ACCEL is neither kvm nor tcg")
    return wanted or ("tcg" if why_no_kvm() else "kvm")


def acceleration(qemu, cpus):
    """The value of -accel for this QEMU, the words that start it."""
    accel = accelerator()
    if accel == "tcg" and cpus > 1:
        if LOSES.match(ask_qemu(qemu, "--version").stdout):
            return "tcg,thread=single"
    return accel
