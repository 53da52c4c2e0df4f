# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots: machines start from the saved state of an idle machine and do not boot.

The first run boots one machine, saves it, and starts all machines of the run from it.
Later runs with the same image, kernel, QEMU and options start from it at once. The saved
machine has a card that no driver uses, and no mounted folder. The device keeps its own MAC
address, rules and recorder when it is loaded. wake() then lets the driver take it, and
gives the machine its name, clock and random seed.

A snapshot is a folder with these files, which no machine writes to:

    memory    the RAM. A machine maps it privately: it reads the pages that it touches,
              and writes to copies.
    state     the processors and devices, as QEMU's migration writes them
    console   what the kernel printed until then
    whole     the sizes of the others, and a checksum of "state". It is written last.

A folder with the file "unusable" instead says that this snapshot failed; it holds for
UNUSABLE_S.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from . import places
from .errors import CommandFailed, GuestCrashed, GuestTimeout, LabError
from .images import ProjectImage
from .machine import Machine, Mount, Nic
from .net import mac
from .outputs import contents, name_of
from .qmp import QMPError

# The name of the machine that is saved. The others get their own by wake().
NAME = "snapshot"
WHOLE, UNUSABLE = "whole", "unusable"
FILES = ("memory", "state", "console")
# Of all snapshots together, in bytes on the disk.
SIZE_MAX = 2 << 30
# Bytes that stay free on the disk when a snapshot is made.
SPARE = 512 << 20
UNUSABLE_S = 3600
FAILURES = (LabError, GuestCrashed, GuestTimeout, CommandFailed, QMPError, OSError)

# In the machine that is saved: loads what each run needs, and runs the programs of the
# set-up once, so that their pages are in the memory. The driver leaves the card alone.
PREPARE = """
set -e
echo 0 >/sys/bus/pci/drivers_autoprobe
modprobe -a fakernic ib_uverbs rdma_ucm
modprobe -qa ib_umad 9pnet_virtio 9p || true
for one in ip ping mount mkdir mkfifo chmod; do
    $one --version >/dev/null 2>&1 || true
done
mkdir -p /usr/local/bin /run/fakernic-ssh /run/sshd /root/.ssh
"""
# The first line of /etc/hosts.
HOSTS = "127.0.0.1 localhost {name}\n"


class Unusable(Exception):
    """Machines cannot start from a snapshot. The text says why."""


class Making:
    """The memory of the machine that is to be saved."""

    is_loaded = False

    def __init__(self, memory):
        self.files = [memory]

    def arguments(self, size):
        return backend(size, self.files[0], "share=on")


class Snapshot:
    """An open snapshot. It stays valid if its folder is removed or replaced."""

    is_loaded = True
    is_tried = False            # whether a machine has begun to load it

    def __init__(self, folder):
        self.folder = folder
        self.files = []
        try:
            self.memory, self.state, self.console = map(self.open, FILES)
            known = json.loads((folder / WHOLE).read_text("utf-8"))
            if known != described(self.files):
                raise ValueError("a file has another size or content")
        except (OSError, ValueError) as error:
            self.close()
            raise Unusable(f"{folder} is incomplete: {error}") from error

    def open(self, name):
        file = open(self.folder / name, "rb")
        self.files.append(file)
        return file

    def close(self):
        for file in self.files:
            file.close()

    def arguments(self, size):
        return [*backend(size, self.memory, "share=off,readonly=on,rom=off"),
                "-S", "-incoming", "defer"]

    def console_text(self):
        return contents(None, self.console)

    def load(self, vm):
        """Loads the snapshot into a QEMU that waits for it. Raises Unusable."""
        self.is_tried = True
        try:
            keep_memory_out(vm, True)
            vm.qmp("migrate-incoming", uri=f"file:{name_of(self.state)}")
            finish_migration(vm)
            keep_memory_out(vm, False)
        except FAILURES as error:
            raise Unusable(f"{vm.name} does not load it: {error}") from error


def wake(vm):
    """Makes a machine that runs again differ from all others of its snapshot: the seed does
    so for its random numbers. Then drivers take the devices, as at a boot."""
    vm.guest.set_up(("seed", secrets.token_hex(64)),
                    ("clock", *divmod(time.time_ns(), 10 ** 9)),
                    ("write", 644, "/proc/sys/kernel/hostname", vm.name),
                    ("write", 644, "/etc/hosts", HOSTS.format(name=vm.name)),
                    ("probe",))


def backend(size, file, how):
    return ["-object", f"memory-backend-file,id=ram,size={size}M,"
            f"mem-path={name_of(file)},{how}"]


def keep_memory_out(vm, out):
    """OUT: the machine's states have no memory that a shared file has."""
    vm.qmp("migrate-set-capabilities", capabilities=[
        {"capability": "x-ignore-shared", "state": out}])


def finish_migration(vm):
    while (found := vm.qmp("query-migrate")).get("status") != "completed":
        vm.assert_alive()
        if found.get("status") == "failed":
            raise LabError(found.get("error-desc", "the migration failed"))
        time.sleep(0.002)


def described(files):
    """What the file "whole" says about these FILES."""
    return {"sizes": [os.fstat(file.fileno()).st_size for file in files],
            "state": hashlib.sha256(contents(None, files[1])).hexdigest()}


# ---- which, and where ------------------------------------------------------------

def home():
    """The folder of all snapshots. It must belong to this user alone, because its files
    decide what runs in the machines."""
    folder = places.snapshots()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise Unusable(f"{folder}: {error.strerror}") from error
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or not folder.is_dir():
        raise Unusable(f"{folder} is not a folder that only you can write to")
    return folder


def identity(path):
    """Facts of a file that change when it is replaced."""
    found = os.stat(path)
    return [str(path), found.st_size, found.st_mtime_ns, found.st_ino]


def processor():
    """The host's processor, which the machines see."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return [line for line in text.partition("\n\n")[0].splitlines()
            if line.startswith(("model name", "flags", "Features"))]


def key(image, qemu, options, mounts, prepare):
    """The name of a snapshot: a checksum of all that its machine is made from."""
    own = Path(__file__).parent
    files = [*image.files(), *(word for word in qemu if os.path.isfile(word)),
             *filter(None, [shutil.which(image.arch.qemu)]),
             *(own / f"{name}.py" for name in ("machine", "images", "guest", "snapshots"))]
    facts = [[identity(path) for path in files], qemu, options, mounts, prepare, processor(),
             image.arguments(NAME, None),
             places.acceleration(qemu, options["cpus"], image.arch)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


def require_fit(image, extra, vfs=0):
    if not isinstance(image, ProjectImage):
        raise Unusable("only the project's own guest has snapshots")
    if extra:
        raise Unusable("--qemu-arg may add what a snapshot cannot have")
    if vfs:
        raise Unusable("the card of a snapshot has no virtual functions")


def chosen(image, qemu, memory, cpus, mounts, prepare=PREPARE):
    """The Snapshot for machines of this kind, with this number of MOUNTS. Makes it if there
    is none: the script PREPARE runs before the machine is saved. Raises Unusable."""
    options = {"memory": memory or image.memory, "cpus": cpus}
    folder = home() / key(image, qemu, options, mounts, prepare)
    with suppress(Unusable):
        return found(folder)
    with alone(folder.parent):
        with suppress(Unusable):
            return found(folder)
        require_usable(folder)
        make(folder, image, qemu, options, mounts, prepare)
        return found(folder)


def found(folder):
    snapshot = Snapshot(folder)
    with suppress(OSError):
        os.utime(folder)        # it was used now: see shrink()
    return snapshot


def require_usable(folder):
    with suppress(OSError):
        if time.time() - (folder / UNUSABLE).stat().st_mtime < UNUSABLE_S:
            raise Unusable(f"{folder} has failed before")


@contextmanager
def alone(folder):
    """Inside the with, no other launcher changes the folder."""
    try:
        lock = open(folder / "lock", "w", encoding="utf-8")
    except OSError as error:
        raise Unusable(f"{folder}: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---- making one ------------------------------------------------------------------

def make(folder, image, qemu, options, mounts, prepare):
    """Boots a machine and saves it. Raises Unusable."""
    for left in folder.parent.glob("*.new"):        # of a launcher that was killed
        shutil.rmtree(left, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < (options["memory"] << 20) + SPARE:
        raise Unusable(f"{folder.parent} has only {free >> 20} MiB free")
    new = folder.with_suffix(".new")
    try:
        (new / "empty").mkdir(parents=True)
        save(new, image, qemu, options, mounts, prepare)
        for name in ("empty", "machine"):
            shutil.rmtree(new / name)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
        shrink(folder)
    except FAILURES as error:
        with suppress(OSError):
            give_up(folder)
        raise Unusable(f"no snapshot could be made: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def save(new, image, qemu, options, mounts, prepare):
    """Writes the files of a snapshot into the folder NEW."""
    with open(new / "memory", "w+b") as memory, open(new / "state", "w+b") as state:
        card = Nic("fakernic", "hubport,hubid=0", mac=mac(0))
        vm = Machine(NAME, new / "machine", [card], image, qemu=qemu,
                     mounts=[Mount(new / "empty", "/")] * mounts,
                     snapshot=Making(memory), keeps=[state], **options)
        try:
            vm.boot()
            vm.guest.check(prepare)
            vm.guest.set_up(timeout=10)         # an old agent would not end
            vm.guest.close()
            vm.qmp("stop")
            vm.assert_healthy()
            keep_memory_out(vm, True)
            vm.qmp("migrate", uri=f"file:{name_of(state)}")
            finish_migration(vm)
        finally:
            vm.stop()
        (new / "console").write_bytes(vm.console.data())
        with open(new / "console", "rb") as console:
            known = described([memory, state, console])
        os.fsync(memory.fileno())
        os.fsync(state.fileno())
    (new / WHOLE).write_text(json.dumps(known), encoding="utf-8")


def give_up(folder):
    """Removes a snapshot, and notes that it failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / UNUSABLE).touch()


def remove(snapshot):
    """Removes a snapshot that fails, unless another launcher has replaced it. A snapshot
    that fails when it is new would fail again, so none is made for UNUSABLE_S."""
    folder = snapshot.folder
    with suppress(Unusable, OSError), alone(folder.parent):
        if os.path.samestat(os.fstat(snapshot.state.fileno()),
                            (folder / "state").stat()):
            age = time.time() - (folder / WHOLE).stat().st_mtime
            (give_up if age < UNUSABLE_S else shutil.rmtree)(folder)


def size(folder):
    """The bytes that a folder takes on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def shrink(keep):
    """Removes the least recently used snapshots until the rest fit into SIZE_MAX."""
    left = SIZE_MAX
    for folder in sorted((path for path in keep.parent.iterdir() if path.is_dir()),
                         key=lambda path: (path != keep, -path.stat().st_mtime)):
        left -= size(folder)
        if left < 0 and folder != keep:
            shutil.rmtree(folder, ignore_errors=True)
