# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds files and programs: those of a bundle, a checkout's cache, QEMU, the
launcher's tools."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .arches import HOST
from .errors import LabError

INSIDE = os.environ.get("FAKERNIC_ROOT") == "1"
# In a bundle (ci/bundle.py) this list is two folders above the package. It has a
# line "SIZE PATH" for each of the bundle's files.
LIST = "bundle.list"
# The launcher's own programs: where its package installs them, and where a
# checkout builds them.
TOOLS_INSTALLED = Path("/usr/lib/fakernic-lab")
TOOLS_BUILT = "build/lab"
# The longest path of a unix socket, and the longest socket name that is used
# below a lab's folder.
SOCKET_NAME_MAX = 107
LONGEST_SOCKET = "link/4194304-0.member"
# QEMU 10 loses accesses to devices when it emulates several processors in
# parallel: with four processors one boot in twenty fails. A checkout's QEMU has
# "(fakernic)" in its version and the fix of ci/mend_qemu.py.
LOSES = re.compile(r"QEMU emulator version 10\.(?!.*\(fakernic\))")


def bundle_of(package):
    """The bundle whose launcher is the folder PACKAGE; None if it is of no bundle."""
    top = package.parent.parent
    return top if (top / LIST).is_file() else None


BUNDLE = bundle_of(Path(__file__).resolve().parent)


def require_whole(bundle=None):
    """Raise LabError if a file of the bundle is missing or has another size, as
    after a truncated download or on a full disk."""
    bundle = bundle or BUNDLE
    for line in (bundle / LIST).read_text("utf-8").splitlines() if bundle else ():
        size, _, name = line.partition(" ")
        try:
            found = (bundle / name).stat().st_size
        except OSError:
            found = None
        if found != int(size):
            what = "is missing" if found is None else f"has {found} of {size} bytes"
            raise LabError(f"{bundle} is incomplete, {name} {what}: remove it, check "
                           "the archive ('sha256sum -c') and the free space of the "
                           "disk, and unpack it again")


def cache():
    """The cache: the folder in which a checkout builds; the bundle, if this is
    the launcher of one."""
    if BUNDLE:
        return BUNDLE
    if INSIDE:
        return Path("/cache")
    return own_cache()


def own_cache():
    """The user's folder for files that can be made again."""
    # Path.home() raises an exception if the user is not in /etc/passwd.
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("FAKERNIC_CACHE") or Path(home) / "fakernic")


def snapshots():
    """The folder of snapshots: one of the user, also if a bundle is the cache."""
    if os.environ.get("FAKERNIC_LAB_SNAPSHOTS"):
        return Path(os.environ["FAKERNIC_LAB_SNAPSHOTS"])
    return (own_cache() if BUNDLE else cache()) / "snapshots"


def escaped(path):
    """PATH as a value in an option of QEMU, where a comma must be doubled."""
    return str(path).replace(",", ",,")


def holds_sockets(folder):
    """Whether the path of FOLDER is short enough for the sockets in it."""
    return len(os.fsencode(Path(folder) / LONGEST_SOCKET)) <= SOCKET_NAME_MAX


def temporary():
    """The folder of temporary files: $TMPDIR, or /tmp."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise LabError("neither $TMPDIR nor /tmp can be written: set TMPDIR to a "
                       "folder that can, on a disk that is not full") from error


def temporary_folder(prefix, parent=None):
    """A new folder in PARENT, or in temporary()."""
    parent = parent or temporary()
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        raise LabError(f"{parent}: {error.strerror}: set TMPDIR to a folder that you "
                       "can write to") from error


def socket_folder():
    """A new folder for sockets: in $TMPDIR, or in /tmp if that path is too long."""
    for parent in (None, "/tmp"):
        folder = temporary_folder("fakernic-lab-", parent)
        if holds_sockets(folder):
            return folder
        folder.rmdir()
    raise LabError("no folder with a name that is short enough for sockets")


def debian_root():
    """The newest Debian tree of the cache, in which its QEMU was built; None if
    there is none."""
    ready = [path for path in cache().glob("root-*/.fakernic-ready")]
    return max(ready, key=lambda path: path.stat().st_mtime,
               default=Path()).parent if ready else None


def with_libraries_of(root, binary, *options):
    """The command that runs a QEMU outside the Debian tree that it was built
    for. It uses the libraries, modules and firmware of that tree."""
    libraries = root / "usr/lib" / HOST.triplet
    return ["env", f"QEMU_MODULE_DIR={libraries}/qemu",
            str(libraries / HOST.loader), *map(str, options),
            "--library-path", str(libraries), str(binary),
            "-L", str(root / "usr/share/seabios"),
            "-L", str(root / "usr/share/qemu")]


def time_of_build(program):
    """The time at which the build last made PROGRAM; 0 if it never did."""
    stamp = program.parent.with_suffix(".stamp")
    return stamp.stat().st_mtime if stamp.exists() else 0


def built_qemu(arch=HOST):
    """The command that runs the cache's QEMU, or None.

    The cache may have a QEMU with the device built in, and a plug-in for the
    Debian tree's QEMU. Outside the build's root the newer of the two is used,
    because "make run" builds the plug-in only.
    """
    binary = cache() / f"build/qemu{arch.suffix}" / arch.qemu
    plugin = cache() / f"build/qemu-plugin{arch.suffix}"
    made = [path for path in (binary, plugin / arch.wrapper)
            if os.access(path, os.X_OK)]
    root = debian_root()
    if not made or (root is None and not INSIDE):
        return None
    if INSIDE:
        return [str(made[0])]
    if max(made, key=time_of_build) == binary:
        return with_libraries_of(root, binary)
    return with_libraries_of(root, root / "usr/bin" / arch.qemu, "--preload",
                             plugin / "fakernic-qemu.so")


def qemu_command(wanted=None, arch=HOST):
    """The command line that starts QEMU. The first of these is used: WANTED,
    $FAKERNIC_QEMU if ARCH is the host's, the package's wrapper, the cache's
    QEMU."""
    wanted = wanted or (arch == HOST and os.environ.get("FAKERNIC_QEMU"))
    if wanted:
        found = shutil.which(wanted)
        if not found:
            raise LabError(f"no QEMU at {wanted}")
        return [found]
    if BUNDLE and arch == HOST:
        return [str(BUNDLE / "bin" / arch.wrapper)]
    found = shutil.which(arch.wrapper)
    if found:
        return [found]
    found = built_qemu(arch)
    if not found and arch != HOST:
        raise LabError(f"no {arch.qemu} with fakernic: run 'make "
                       f"build-{arch.name}' in a checkout")
    if not found:
        raise LabError(
            "no QEMU with fakernic: install the package fakernic-qemu, run "
            "'make run' in a checkout, or name one with --qemu")
    return found


def ask_qemu(command, *words):
    """Run QEMU with WORDS as arguments until it exits; its output and status."""
    try:
        return subprocess.run(
            [*command, *words], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{command[0]} does not run: {error}") from error


def require_device(command):
    """Raise LabError unless this QEMU has the device fakernic."""
    listing = ask_qemu(command, "-device", "help")
    if listing.returncode:
        last = listing.stderr.strip().splitlines() or ["no message"]
        raise LabError(f"{command[0]} does not run: {last[-1]}")
    if 'name "fakernic"' not in listing.stdout:
        raise LabError(
            f"{command[0]} has no device fakernic: use the wrapper {HOST.wrapper} "
            "of the package fakernic-qemu, or a QEMU built with fakernic")


def tool(name):
    """The path of a program of the launcher: the guest agent, which is copied
    into images without one, or the relay, the wire with faults."""
    folders = [BUNDLE / "bin"] if BUNDLE else [TOOLS_INSTALLED, cache() / TOOLS_BUILT]
    for path in (folder / name for folder in folders):
        if path.exists():
            return path
    raise LabError(f"no {name} here: install the package fakernic-lab, or run "
                   "'make build-image' in a checkout")


def ends_with_us():
    """The words before a command that make the kernel kill it when this process
    ends. A bundle has its own setpriv, because not every host has one that can."""
    setpriv = str(BUNDLE / "bin/setpriv") if BUNDLE else "setpriv"
    return [setpriv, "--pdeathsig", "KILL"]


def opened(path):
    """PATH opened for writing; None if PATH is empty. The launcher writes the
    file at its end, but opens it before a machine boots: a machine could put a
    symbolic link there."""
    try:
        return open(path, "wb") if path else None
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error


def runs_with(pid, word):
    """Whether process PID exists and has WORD in its arguments. Another program
    may have the same PID by now, so the arguments are compared."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return os.fsencode(str(word)) in arguments


def free_memory():
    """The memory that is available to programs, in MiB."""
    text = Path("/proc/meminfo").read_text(encoding="utf-8")
    return int(re.search(r"^MemAvailable: +(\d+) kB", text, re.M)[1]) >> 10


def why_no_kvm():
    """The reason why KVM cannot be used; None if it can.

    On some x86_64 machines /dev/kvm opens, but guests hang at boot. So their
    processor must have the svm or vmx flag as well. Others have no such flag.
    """
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if HOST.cpu == "x86_64" and not re.search(r"^flags\s*:.*\b(svm|vmx)\b", flags, re.M):
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
    """The accelerator: $FAKERNIC_ACCEL if it is set, else kvm where it works,
    else tcg."""
    wanted = os.environ.get("FAKERNIC_ACCEL")
    if wanted and wanted not in ("kvm", "tcg"):
        raise LabError("FAKERNIC_ACCEL is neither kvm nor tcg")
    return wanted or ("tcg" if why_no_kvm() else "kvm")


def acceleration(qemu, cpus, arch=HOST):
    """The value of -accel for CPUS processors. QEMU is the command that starts it."""
    accel = accelerator() if arch == HOST else "tcg"
    if accel == "tcg" and cpus > 1:
        if LOSES.match(ask_qemu(qemu, "--version").stdout):
            return "tcg,thread=single"
    return accel
