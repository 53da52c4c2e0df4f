# SPDX-License-Identifier: GPL-2.0-or-later
"""One machine: a QEMU process, its console, its monitor, its guest.

The machine leaves two files in its directory: "console" has the kernel messages of
the guest, "qemu.log" the output of QEMU with its trace events. QEMU receives both
as open files.
"""

import errno
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from . import places
from .console import CRASH, Console
from .errors import CommandFailed, GuestCrashed, GuestTimeout, LabError
from .guest import PORTS, Guest
from .images import DiskImage, ProjectImage
from .net import ALONE, LINK, NOBODY
from .outputs import Folder, contents, limit_files, name_of
from .places import escaped
from .qmp import TIMEOUT_S, QMP, QMPError

PORT_NAME = "org.fakernic.lab."
QEMU_START_S = 30
# From the begin of a migration to the start of the machine in the other QEMU.
MOVES_S = 300
ANSWERS_S = 60
# The time for which a machine may stand still then, in milliseconds. Its peers repeat
# their requests for two seconds (timeout 14, retry_cnt 7).
STANDSTILL_MS = 500
# A root port's window for the BARs of 127 VFs, which firmware does not reserve.
WINDOW = ",pref64-reserve=64M"
KILLED = "was killed, perhaps because this machine has no memory left"
NO_MEMORY = ": give the machines less (--memory), run fewer (-n), or raise 'ulimit -v'"

# Makes the kernel print times on its console. If it printed none so far, the script
# prints the log, which has the times of the lines that are already there.
STAMP = """
time=/sys/module/printk/parameters/time
if [ "$(cat $time 2>/dev/null)" = N ]; then
    echo Y >$time && dmesg
fi
"""


class Nic:
    """A network device and what is behind it: one -netdev, one -device."""

    def __init__(self, model, netdev, **properties):
        self.model = model
        self.netdev = netdev
        self.properties = properties

    def arguments(self, index, slot):
        device = [self.model, self.wire(index), f"id=nic{index}"]
        if slot:
            device.append(f"bus={slot}")
        if self.model != "fakernic":
            device.append("romfile=")
        device += [f"{name.replace('_', '-')}={value}"
                   for name, value in self.properties.items()]
        return [*self.netdev_arguments(index), "-device", ",".join(device)]

    def netdev_arguments(self, index):
        if self.is_linked():
            return []
        backend, _, options = self.netdev.partition(",")
        arguments = ["-netdev", f"{backend},id=n{index}" +
                     (f",{options}" if options else "")]
        if self.netdev == ALONE and "vfs" in self.properties:
            # A wire that takes no frame would also stop the traffic between VFs.
            arguments += ["-netdev", NOBODY.format(index=index)]
        return arguments

    def is_linked(self):
        return self.netdev.startswith(LINK)

    def wire(self, index):
        """The device's property that names its backend."""
        return self.netdev if self.is_linked() else f"netdev=n{index}"

    def backend_name(self, index):
        """The name of the backend in QEMU's net layer."""
        return f"nic{index}.link" if self.is_linked() else f"n{index}"


class Mount:
    """A folder of the host that a guest sees. The launcher adds an IMPLIED mount
    by itself; it is no error if the guest cannot mount that."""

    cache = "mmap"              # how the guest caches it; see the kernel's 9p

    def __init__(self, source, target, writable=False, implied=False):
        self.source = Path(source).resolve()
        self.target = target
        self.writable = writable
        self.implied = implied

    def arguments(self, index):
        return ["-fsdev", f"local,id=mount{index},path={escaped(self.source)},"
                "security_model=none,multidevs=remap,readonly="
                + ("off" if self.writable else "on"),
                "-device", f"virtio-9p-pci,fsdev=mount{index},"
                f"mount_tag=mount{index}"]

    def how(self):
        return "rw" if self.writable else "ro"

    def options(self):
        """The options of the file system 9p."""
        return f"trans=virtio,version=9p2000.L,msize=262144,cache={self.cache}"

    def step(self, index):
        """The step of the agent that mounts it."""
        return "mount", f"mount{index}", self.target, self.how(), self.options()


def socket_arguments(kind, name, path, log=None):
    """A character device that is a listening unix socket."""
    return ["-chardev", f"socket,id={name},server=on,wait=off,"
            f"path={escaped(path)}" + (f",logfile={escaped(log)},logappend=on" if log
                                       else ""), *kind]


def end_process(process, pid):
    """Kills a QEMU: a child of this process, or else the process PID, if any."""
    if process:
        process.kill()
        process.wait()
    elif pid:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def booting(command):
    """The command line without the snapshot that the machine started from: it has all of
    its memory for itself."""
    waits = {"-S", "-incoming", "defer"}
    return [re.sub(r"^memory-backend-file,(id=ram,size=\d+M),.*", r"memory-backend-ram,\1",
                   word) for word in command if word not in waits]


class Machine:
    """A guest with any number of network devices.

    STAYS: the machine outlives this process. SOCKETS is then required.
    SOCKETS: the folder of its sockets, with a short path.
    KEEPS: open files of this process that QEMU inherits.
    FILES: names of more files that QEMU writes; see file_name().
    MACHINE: QEMU's machine type, with options, instead of the usual one of the
    image's architecture.
    PORTS: each device is below its own root port, else all are on the first bus.
    SNAPSHOT: the saved machine that this one starts from, or the one that is to be
    saved (snapshots.py). A machine from a snapshot does not boot: launch() loads it.
    CPU_NICE: a property of its fakernics, which lowers the priority of the vCPU
    threads below the thread that feeds them (qemu-hw/SCHEDULING.md).
    """

    def __init__(self, name, directory, nics=(), image=None, memory=None, cpus=1,
                 mounts=(), extra=(), trace=(), qemu=None, sockets=None,
                 stays=False, keeps=(), machine=None, ports=True,
                 cpu_nice=0, files=(), snapshot=None):
        self.name = name
        self.directory = Path(directory).resolve()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.files = {name: self.folder.create(name) for name in
                      ("console", "qemu.log", *files)}
        self.image = image or ProjectImage()
        self.patience = self.image.patience
        self.mounts = list(mounts)
        self.nics = list(nics)
        self.stays = stays
        self.snapshot = snapshot
        self.keeps = [*keeps, *(snapshot.files if snapshot else ())]
        for nic in self.nics:
            if cpu_nice and nic.model == "fakernic":
                nic.properties["cpu_nice"] = cpu_nice
        self.sockets = Path(sockets or places.socket_folder())
        self.attach(self.directory, self.sockets,
                    isinstance(self.image, DiskImage))
        if self.is_loaded():
            self.files["console"].write(snapshot.console_text())
            self.console.forget()
        self.process = self.exitcode = self.started_pid = None
        self.capture_count = 0
        arch = self.image.arch
        qemu = qemu or places.qemu_command(arch=arch)
        accel = places.acceleration(qemu, cpus, arch)
        memory = memory or self.image.memory
        machine = machine or arch.machine
        self.command = [*qemu,
                        *self.base_arguments(
                            f"{machine},memory-backend=ram" if snapshot else machine,
                            memory, cpus, accel),
                        *self.nic_arguments(ports),
                        *(snapshot.arguments(memory) if snapshot else ())]
        for index, mount in enumerate(self.mounts):
            self.command += mount.arguments(index)
        for event in trace:
            self.command += ["-trace", event]
        self.command += [str(word) for word in extra]

    def attach(self, directory, sockets, stamped):
        """Create the parts that exist whether or not this process started it."""
        self.console = Console(directory / "console", stamped,
                               self.files.get("console"))
        self.guest = Guest(self, [sockets / f"agent{number}"
                                  for number in range(PORTS)])
        self.monitor = None

    @classmethod
    def running(cls, name, directory, sockets, pid, stamped=False, command=()):
        """The Machine for a QEMU that another process has started with this COMMAND."""
        self = cls.__new__(cls)
        self.name, self.directory = name, Path(directory)
        self.sockets, self.stays = Path(sockets), True
        self.files = {}
        self.attach(self.directory, self.sockets, stamped)
        self.process = self.exitcode = None
        self.started_pid = pid
        self.command, self.keeps = list(command), []
        return self

    patience = 1                # factor for the time limits of its commands

    @cached_property
    def folder(self):
        """The open folder of its results."""
        return Folder(self.directory)

    def file_name(self, name):
        """The name with which QEMU opens a file that is already open here."""
        return name_of(self.files[name])

    # ---- its command line --------------------------------------------------

    def base_arguments(self, machine, memory, cpus, accel):
        arguments = [
            "-nodefaults", "-no-user-config", "-no-reboot",
            "-display", "none", "-name", self.name,
            "-machine", machine, "-accel", accel,
            "-cpu", "host" if accel == "kvm" else "max",
            "-smp", str(cpus), "-m", str(memory),
            *self.image.arguments(self.name, self.directory),
            *socket_arguments(["-mon", "chardev=qmp,mode=control"], "qmp",
                              self.sockets / "qmp"),
            *socket_arguments(["-serial", "chardev:console"], "console",
                              self.sockets / "console",
                              self.file_name("console")),
            "-device", f"virtio-serial-pci,max_ports={PORTS + 1}",
        ]
        for number in range(PORTS):
            name = f"agent{number}"
            arguments += socket_arguments(
                ["-device", f"virtserialport,chardev={name},"
                 f"name={PORT_NAME}{number}"], name, self.sockets / name)
        return arguments

    def is_loaded(self):
        """Whether it starts from a snapshot."""
        return self.snapshot is not None and self.snapshot.is_loaded

    def nic_arguments(self, ports):
        arguments = []
        for slot in range(1, max(1, len(self.nics)) + 1) if ports else ():
            port = f"pcie-root-port,id=slot{slot},chassis={slot},slot={slot}"
            if self.nics and "vfs" in self.nics[slot - 1].properties:
                port += WINDOW
            arguments += ["-device", port]
        for index, nic in enumerate(self.nics):
            arguments += nic.arguments(index, ports and f"slot{index + 1}")
        return arguments

    # ---- life --------------------------------------------------------------

    @property
    def pid(self):
        return self.process.pid if self.process else self.started_pid

    def launch(self):
        """Start QEMU. The guest boots in the background, or runs from a snapshot."""
        self.spawn()
        self.begin()

    def spawn(self):
        """The first part of launch(). The process ends with the calling thread."""
        ends_with_us = [] if self.stays else places.ends_with_us()
        self.process = subprocess.Popen(
            [*ends_with_us, *self.command], stdin=subprocess.DEVNULL,
            stdout=self.files["qemu.log"], stderr=subprocess.STDOUT,
            start_new_session=True, restore_signals=False,
            pass_fds=[file.fileno() for file in
                      (*self.keeps, *self.files.values())])
        limit_files(self.process.pid)

    def await_monitor(self):
        """Wait until QEMU is ready: it has made all its sockets."""
        deadline = time.monotonic() + QEMU_START_S
        while not self.monitor:
            self.assert_alive()
            if time.monotonic() > deadline:
                raise LabError(f"QEMU of {self.name} does not start")
            self.try_monitor()

    def begin(self):
        """The second part of launch()."""
        self.await_monitor()
        if self.is_loaded():
            self.snapshot.load(self)
            self.qmp("cont")
        self.close_monitor()

    def try_monitor(self):
        """Connect to the monitor, or return after 10 ms. QEMU greets there once
        the rest of it is ready."""
        try:
            self.monitor = QMP(self.sockets / "qmp")
        except (FileNotFoundError, ConnectionError):
            time.sleep(0.01)

    def close_monitor(self):
        """Disconnect: the monitor serves one client at a time, and another
        process may need it."""
        if self.monitor:
            self.monitor.close()
            self.monitor = None

    def wait_booted(self, timeout=None, since=None):
        """Wait until the guest's agent answers, at most TIMEOUT s from now or SINCE."""
        timeout = timeout or self.image.boot_timeout_s
        deadline = (since or time.monotonic()) + timeout
        while True:
            self.assert_alive()
            if self.guest.answers(1):
                return self
            if time.monotonic() > deadline:
                raise GuestTimeout(
                    f"{self.name}: no agent in its image answers within "
                    f"{timeout:.0f} s: {self.image.lacks_agent}. The end of its "
                    f"console:\n{self.console.tail()}")

    def boot(self):
        self.launch()
        return self.wait_booted()

    def stamp_console(self):
        """Make the kernel print times, by which the console recognizes its lines.
        Lines that came without times are judged here."""
        if self.console.stamped:
            trouble = self.console.excerpt(self.guest.check(STAMP))
            if trouble:
                raise GuestCrashed(f"the kernel of {self.name} complains:\n"
                                   f"{trouble}")

    def is_running(self):
        if self.process:
            self.exitcode = self.process.poll()
            return self.exitcode is None
        return self.pid is not None and places.runs_with(
            self.pid, escaped(self.sockets / "qmp"))

    def stop(self):
        """Kill QEMU. A guest has no data that needs an orderly shutdown."""
        self.guest.close()
        self.close_monitor()
        end_process(self.process, self.started_pid if self.is_running() else None)
        shutil.rmtree(self.sockets, ignore_errors=True)

    def qemu_log(self, last=0):
        """The output of QEMU so far with trace events, or its LAST bytes."""
        return contents(self.directory / "qemu.log", self.files.get("qemu.log"),
                        -last).decode("utf-8", "replace")

    def assert_alive(self):
        """Raise GuestCrashed if QEMU has ended."""
        if not self.is_running():
            words = self.console.trouble() or self.console.tail()
            how = (KILLED if self.exitcode == -signal.SIGKILL else
                   f"ended with {self.exitcode}")
            if not words.strip():
                said = " ".join(self.qemu_log(2000).split())
                advice = NO_MEMORY if os.strerror(errno.ENOMEM) in said else ""
                raise GuestCrashed(f"{self.name} did not boot: its QEMU {how}: "
                                   f"{said}{advice}")
            raise GuestCrashed(
                f"{self.name} is lost: its QEMU {how}\n"
                f"{self.qemu_log(2000)}the end of its console:\n{words}")

    def crashed_as_expected(self):
        """Whether QEMU has ended by a crash that the user expects."""
        if CRASH not in self.console.expected or self.is_running():
            return False
        self.assert_uncomplaining()
        return CRASH in self.console.met

    def assert_healthy(self):
        """Raise GuestCrashed after a crash or a kernel complaint, unless it is
        expected."""
        if not self.crashed_as_expected():
            self.assert_alive()
            self.assert_uncomplaining()

    def assert_uncomplaining(self):
        trouble = self.console.trouble()
        if trouble:
            raise GuestCrashed(f"the kernel of {self.name} complains:\n{trouble}")

    # ---- migration ---------------------------------------------------------

    def move(self, note=lambda _: None):
        """Migrates the running machine to another QEMU on this host, which takes the place
        of this one. It has the same files and another folder of sockets. Commands that the
        guest's agent has started end. Returns the milliseconds for which the machine
        stood still. If it fails the machine stays, and LabError says why. NOTE is called
        while this object describes the other QEMU: with False when that starts, with True
        when the machine is in it, and before the first QEMU ends."""
        self.guest.close()
        self.close_monitor()
        source = QMP(self.sockets / "qmp")
        old = {name: getattr(self, name) for name in
               ("command", "sockets", "process", "started_pid")}
        try:
            self.start_target()
            note(False)
            found = self.transfer(source)
        except BaseException as error:
            self.stop_target(old)
            with suppress(QMPError, OSError, ValueError):
                source.cmd("cont")
            if not isinstance(error, (LabError, GuestCrashed, QMPError, OSError)):
                raise
            raise LabError(f"{self.name} cannot migrate: {error}") from error
        finally:
            source.close()
        self.command = self.command[:-2]
        note(True)
        end_process(old["process"], old["started_pid"])
        shutil.rmtree(old["sockets"], ignore_errors=True)
        self.await_agent()
        return found.get("downtime", 0)

    def await_agent(self):
        deadline = time.monotonic() + ANSWERS_S
        while not self.guest.answers(1):
            self.assert_alive()
            if time.monotonic() > deadline:
                raise GuestTimeout(f"{self.name} has migrated, but its agent does not "
                                   f"answer within {ANSWERS_S} s")

    def reopen(self, names):
        """Opens the files of a QEMU that another process has started, for the next one.
        NAMES: file -> the name by which its command line has it."""
        for file in names:
            self.files[file] = open(
                os.open(file, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
                        dir_fd=self.folder.fd), "r+b", buffering=0)
        new = {name: name_of(self.files[file]) for file, name in names.items()}
        known = re.compile(f"({'|'.join(map(re.escape, new))})(?!\\d)")
        self.command = [known.sub(lambda found: new[found[1]], word)
                        for word in self.command]

    def file_names(self):
        """The NAMES for reopen()."""
        return {name: name_of(file) for name, file in self.files.items()}

    def start_target(self):
        """Starts a QEMU that waits for the state of this machine."""
        name = self.sockets.name
        sockets = self.sockets.with_name(name[:-1] if name.endswith("+") else f"{name}+")
        shutil.rmtree(sockets, ignore_errors=True)
        sockets.mkdir(mode=0o700)
        before, after = (f"{escaped(folder)}/" for folder in (self.sockets, sockets))
        self.command = [*(word.replace(before, after) for word in booting(self.command)),
                        "-incoming", "defer"]
        self.use_sockets(sockets)
        self.spawn()
        self.await_monitor()
        self.qmp("migrate-incoming", uri=f"unix:{sockets}/state")

    def use_sockets(self, sockets):
        self.sockets = sockets
        self.guest.ports = [sockets / f"agent{number}" for number in range(PORTS)]

    def transfer(self, source):
        """Sends the state from the QEMU of the monitor SOURCE. Returns what that knows."""
        source.cmd("migrate-set-parameters", {
            "max-bandwidth": 1 << 40, "downtime-limit": STANDSTILL_MS})
        source.cmd("migrate", {"uri": f"unix:{self.sockets}/state"})
        deadline = time.monotonic() + MOVES_S
        while True:
            found = source.cmd("query-migrate")
            status = found.get("status")
            if status == "failed":
                raise LabError(found.get("error-desc", "the migration failed"))
            if (status == "completed" and
                    self.qmp("query-status")["status"] != "inmigrate"):
                return found
            self.assert_alive()
            if time.monotonic() > deadline:
                source.cmd("migrate_cancel")
                raise LabError(f"it takes more than {MOVES_S} s")
            time.sleep(0.01)

    def stop_target(self, old):
        """Ends the QEMU that was to take over, and goes back to the OLD one."""
        self.close_monitor()
        if self.process is not old["process"]:
            end_process(self.process, None)
        if self.sockets != old["sockets"]:
            shutil.rmtree(self.sockets, ignore_errors=True)
        for name, value in old.items():
            setattr(self, name, value)
        self.use_sockets(self.sockets)
        self.exitcode = None

    # ---- QEMU's side -------------------------------------------------------

    def qmp(self, command, within=TIMEOUT_S, **arguments):
        """Run a QMP command that must succeed; its return value. QEMU may take WITHIN
        seconds to answer."""
        if not self.monitor:
            self.monitor = QMP(self.sockets / "qmp", within)
        return self.monitor.cmd(command, {
            key.replace("_", "-"): value for key, value in arguments.items()}, within)

    def status(self, within):
        """The status of the guest, as QEMU names it ("running", "paused", ...).
        Raise OSError if QEMU does not answer WITHIN that many seconds."""
        try:
            self.monitor = self.monitor or QMP(self.sockets / "qmp", within)
            return self.monitor.cmd("query-status", within=within)["status"]
        except OSError:
            self.close_monitor()
            raise

    def hmp(self, line):
        """Run a command of the human monitor; its output."""
        return self.qmp("human-monitor-command", command_line=line)

    def set_link(self, up, nic=0):
        self.qmp("set_link", name=f"nic{nic}", up=up)

    @contextmanager
    def boots_again(self):
        """Inside the with, the caller reboots the guest or resets it by QEMU. The
        with ends when the guest has booted again."""
        self.qmp("set-action", reboot="reset")
        boot = self.boot_id()
        yield
        while self.boot_id_after() in (boot, None):
            self.assert_alive()

    def boot_id(self):
        """The random number that the kernel generated when it booted."""
        return self.guest.check("cat /proc/sys/kernel/random/boot_id", 5)

    def boot_id_after(self):
        """The boot ID of the guest that answers now; None if none answers in time."""
        self.guest.close()
        try:
            self.wait_booted()
            return self.boot_id()
        except (GuestTimeout, CommandFailed, ConnectionError):
            return None

    def backend_name(self, nic=0):
        """The backend of a device. The devices of a machine that another process
        has started are not known; a netdev is assumed there."""
        nics = getattr(self, "nics", ())
        return nics[nic].backend_name(nic) if nics else f"n{nic}"

    def dump(self, path, nic=0):
        """Start to capture all frames of the device into a pcap file. Return the
        name of QEMU's object that does so."""
        self.capture_count += 1
        name = f"dump{self.capture_count}"
        self.qmp("object-add", qom_type="filter-dump", id=name,
                 netdev=self.backend_name(nic), file=str(path), maxlen=65536)
        return name

    @contextmanager
    def capture(self, nic=0, path=None):
        """Capture all frames of the device into a pcap file, inside the with."""
        path = Path(path or self.directory /
                    f"dump{self.capture_count + 1}.pcap").resolve()
        name = self.dump(path, nic)
        try:
            yield path
        finally:
            if self.is_running():
                self.qmp("object-del", id=name)
