# SPDX-License-Identifier: GPL-2.0-or-later
"""One QEMU process with a Debian guest: command line, console, QMP.

The guest's kernel messages go to CONSOLE in the VM's directory, QEMU's own
messages and trace events to NAME.log there; both are kept after the test.
"""

import os
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

from . import CACHE
from .console import Console
from .guest import Guest, GuestTimeout

from qemu.machine import QEMUMachine    # pylint: disable=wrong-import-order
from qemu.machine.machine import AbnormalShutdown, VMLaunchFailure

QEMU = os.environ.get("FAKERNIC_QEMU",
                      str(CACHE / "build/qemu/qemu-system-x86_64"))
IMAGES = CACHE / "images"
BOOT_TIMEOUT_S = 120
KERNELS = ("6.12", "6.1")


class GuestCrashed(Exception):
    """QEMU ended, or the guest's kernel complained."""


def accelerator():
    """tcg unless KVM really works.

    That /dev/kvm opens is no proof: on some machines guests then hang at
    boot. The processor's own flag is asked for as well.
    """
    wanted = os.environ.get("FAKERNIC_ACCEL")
    if wanted in ("kvm", "tcg"):
        return wanted
    if wanted:
        raise ValueError("FAKERNIC_ACCEL is neither kvm nor tcg")
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if not re.search(r"^flags\s*:.*\b(svm|vmx)\b", flags, re.M):
        return "tcg"
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError:
        return "tcg"
    return "kvm"


class Nic:
    """A network device and what is behind it: one -netdev, one -device."""

    def __init__(self, model, netdev, **properties):
        self.model = model
        self.netdev = netdev
        self.properties = properties

    def arguments(self, index, slot):
        netdev = f"n{index}"
        backend, _, options = self.netdev.partition(",")
        device = [self.model, f"netdev={netdev}", f"id=nic{index}"]
        if slot:
            device.append(f"bus={slot}")
        if self.model != "fakernic":
            device.append("romfile=")
        device += [f"{name.replace('_', '-')}={value}"
                   for name, value in self.properties.items()]
        return ["-netdev", f"{backend},id={netdev}" +
                (f",{options}" if options else ""), "-device", ",".join(device)]


class VM:
    """A guest of one of the two kernels with any number of network devices."""

    def __init__(self, name, directory, nics=(), kernel="6.12", memory=768,
                 cpus=1, extra=(), trace=(), append="", shell=False):
        self.name = name
        self.kernel = kernel
        self.directory = Path(directory)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.console = Console(self.directory / "console")
        self.guest = Guest(self, self.directory / "agent")
        self.capture_count = 0
        self.expected = []
        accel = accelerator()
        arguments = [
            "-nodefaults", "-no-user-config", "-no-reboot",
            "-machine", f"q35,accel={accel}",
            "-cpu", "host" if accel == "kvm" else "max",
            "-smp", str(cpus), "-m", str(memory),
            "-kernel", IMAGES / f"vmlinuz-{kernel}",
            "-initrd", IMAGES / f"initrd-{kernel}",
            # no_timer_check: on a busy host an emulated timer may not tick in
            # the moment in which Linux looks whether it does, and panics.
            "-append", " ".join((
                "console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr",
                "random.trust_cpu=on no_timer_check",
                f"fakernic.host={name}", "fakernic.shell" if shell else "",
                append)),
            "-chardev", f"file,id=console,path={self.console.path}",
            "-serial", "chardev:console",
            *self.disk("base.erofs"), *self.disk("payload.erofs"),
            "-device", "virtio-serial-pci",
            "-chardev", "socket,id=agent,server=on,wait=off,path="
                        f"{self.directory / 'agent'}",
            "-device", "virtserialport,chardev=agent,"
                       "name=org.qemu.guest_agent.0",
        ]
        if shell:
            arguments += ["-chardev", "socket,id=shell,server=on,wait=off,path="
                          f"{self.directory / 'shell'}",
                          "-serial", "chardev:shell"]
        for slot in range(1, max(1, len(nics)) + 1):
            arguments += ["-device", f"pcie-root-port,id=slot{slot},"
                          f"chassis={slot},slot={slot}"]
        for index, nic in enumerate(nics):
            arguments += nic.arguments(index, f"slot{index + 1}")
        for event in trace:
            arguments += ["-trace", event]
        arguments += extra
        self.machine = QEMUMachine(QEMU, [str(word) for word in arguments],
                                   name=name, log_dir=str(self.directory),
                                   base_temp_dir="/tmp")

    @staticmethod
    def disk(image):
        """The arguments of a read-only disk, which has its serial number from
        the image's name."""
        node = image.partition(".")[0]
        return ["-blockdev", f"driver=file,node-name={node},read-only=on,"
                f"locking=off,filename={IMAGES / image}",
                "-device", f"virtio-blk-pci,drive={node},serial={node},romfile="]

    # ---- life ------------------------------------------------------------

    def launch(self):
        """Start QEMU; the guest boots while the caller goes on."""
        try:
            self.machine.launch()
        except VMLaunchFailure as error:
            raise GuestCrashed(f"QEMU did not start: {error}") from error
        self.guest.agent.open()

    def wait_booted(self, timeout=BOOT_TIMEOUT_S):
        """Wait until the guest agent answers."""
        deadline = time.monotonic() + timeout
        while True:
            self.assert_alive()
            if self.guest.agent.synchronise(1):
                return self
            if time.monotonic() > deadline:
                raise GuestTimeout(
                    f"{self.name} did not boot within {timeout} s; the end of "
                    f"its console:\n{self.console.text()[-2000:]}")

    def boot(self):
        self.launch()
        return self.wait_booted()

    def stop(self):
        """End QEMU. Nothing in a guest is worth an orderly shutdown."""
        self.guest.agent.close()
        try:
            self.machine.shutdown(timeout=10)
        except AbnormalShutdown:
            pass

    def qemu_log(self):
        """What QEMU printed so far, trace events included."""
        path = self.directory / f"{self.name}.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def assert_alive(self):
        """Raises GuestCrashed when QEMU has ended."""
        if not self.machine.is_running():
            raise GuestCrashed(
                f"QEMU of {self.name} ended with {self.machine.exitcode()}\n"
                f"{self.qemu_log()[-2000:]}\nthe end of its console:\n"
                f"{self.console.text()[-3000:]}")

    def assert_healthy(self):
        """Raises GuestCrashed on a crash or on any kernel complaint."""
        self.assert_alive()
        trouble = self.console.trouble()
        if trouble:
            raise GuestCrashed(f"the kernel of {self.name} complains:\n{trouble}")

    # ---- QEMU's side -----------------------------------------------------

    def qmp(self, command, **arguments):
        """A QMP command that must succeed; its return value."""
        return self.machine.cmd(command, **arguments)

    def hmp(self, line):
        """A human monitor command; what it printed."""
        return self.machine.cmd("human-monitor-command",
                                {"command-line": line})

    def set_link(self, up, nic=0):
        self.qmp("set_link", name=f"nic{nic}", up=up)

    @contextmanager
    def capture(self, nic=0, path=None):
        """A pcap of all the device sends and receives inside the with."""
        self.capture_count += 1
        name = f"dump{self.capture_count}"
        path = Path(path or self.directory / f"{name}.pcap")
        self.qmp("object-add", **{"qom_type": "filter-dump", "id": name,
                                  "netdev": f"n{nic}", "file": str(path),
                                  "maxlen": 65536})
        try:
            yield path
        finally:
            if self.machine.is_running():
                self.qmp("object-del", id=name)
