# SPDX-License-Identifier: GPL-2.0-or-later
"""Sets of wired guests, booted once and reused between tests.

Booting takes most of the time of a short test. So a set stays up for the next
test that wants the same one, unless a test has failed. A complaint of a guest
between two tests fails the later one. Only one set is up at a time: two guests
already fill the two cores that this project is made for.
"""

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from fakernic_lab import images, places, snapshots
from fakernic_lab.arches import HOST
from fakernic_lab.console import OTHERS_LEAK
from fakernic_lab.errors import CommandFailed, GuestCrashed, GuestTimeout
from fakernic_lab.images import RACE_KERNEL, ProjectImage
from fakernic_lab.machine import Nic
from fakernic_lab.net import WIRES, mac, wires  # noqa: F401
from fakernic_lab.qmp import QMPError
from fakernic_lab.snapshots import Unusable
from fakernic_lab.versions import MAIN_KERNEL
from .watched import Watched

# Two runs at the same time must not share this folder.
RUNS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/vm"))
NAMES = "ab"
# The disk of ci/programs.py, if it was made.
PROGRAMS = images.images() / "programs.erofs"
# Prints what debug kernels have found but not logged. Memory counts as leaked if it
# is five seconds old and unreferenced in two scans.
FIND_LEAKS = {"debug": """
cd /sys/kernel/debug
[ {locks} = False ] || grep -q 'debug_locks: *1$' /proc/lockdep_stats ||
    echo locks are not watched
[ "$(cat dma-api/disabled)" = N ] || echo DMA is not watched
sleep 6
echo scan >kmemleak && echo scan >kmemleak && cat kmemleak
""", RACE_KERNEL: """
cd /sys/kernel/debug
grep -q '^enabled: 1$' kcsan || echo races are not watched
grep -q '^setup_watchpoints: [1-9]' kcsan || echo no access was watched
"""}
# Of guests that start from a snapshot.
FAILURES = (Unusable, GuestCrashed, GuestTimeout, CommandFailed)
# A relay's directions, by sender.
WAYS = ("ab", "ba")


def find_disk(guest, path):
    """Returns the guest's name for the disk of images.disk(PATH)."""
    serial = path.name.partition(".")[0]
    return "/dev/" + guest.check(
        f"grep -lx {serial} /sys/block/*/serial").split("/")[3]


def mount(guest, path, folder):
    """Mounts that disk, unless something is mounted there."""
    if not guest.run(f"mkdir -p {folder}; mountpoint -q {folder}").ok:
        disk = find_disk(guest, path)
        guest.check(f"mount -t erofs -o ro {disk} {folder}")


def functions(vm, card):
    """Returns the QOM paths of a card and of its virtual functions."""
    path = f"/machine/peripheral/{card}"
    return [path, *(f"{path}/{child['name']}" for child in vm.qmp("qom-list", path=path)
                    if child["type"] == "child<fakernic-vf>")]


def lost_posts(vm):
    """Returns how many send queues the guest's cards have reset or destroyed asleep,
    although their owner had posted without the doorbell that wakes them."""
    lost = 0
    for index, nic in enumerate(vm.nics):
        if nic.model == "fakernic" and vm.is_running():
            with suppress(QMPError):                        # it is unplugged
                for path in functions(vm, f"nic{index}"):
                    found = vm.qmp("qom-get", path=path, property="x-counters")
                    lost += sum(counters.get("sq_lost", 0)
                                for counters in json.loads(found))
    return lost


def lost_wakeups(vm):
    """Returns how often a peer of its links slept although a frame waited and
    got no signal, or did not signal room that was waited for
    (qemu-hw/link/link.c)."""
    if not any(nic.is_linked() for nic in vm.nics):
        return 0
    text = vm.hmp("info network")
    counts = re.findall(r",lost-wakeups=(\d+)", text)
    assert len(counts) == text.count(",link="), text
    return sum(map(int, counts))


class Lab:
    """Hands out sets of guests. BOOTS: all have booted. Otherwise guests with the usual card
    start from a snapshot of a booted guest."""

    def __init__(self, directory=RUNS, arches=(HOST, HOST), boots=True):
        self.directory = Path(directory)
        self.boots = boots
        self.snapshots = []
        self.arches = arches    # of the first guest, and of the second
        self.current = None
        self.worn = False       # set by the last test that may use these guests
        self.vms = []
        self.relay = None
        self.sockets = None
        self.serial = 0

    def get(self, count=2, kernel=MAIN_KERNEL, model="fakernic", options=None,
            relay=False, append="", wire=None, **properties):
        """Returns COUNT wired guests; running ones if they are the same.

        OPTIONS go to Machine, APPEND to the kernel, PROPERTIES to the network
        device. KERNEL, MODEL and a property may be tuples with one item per
        guest. With RELAY the wire can lose frames: self.relay. The default of
        WIRE is $FAKERNIC_WIRE.
        """
        kernels = (kernel,) * count if isinstance(kernel, str) else kernel
        models = (model,) * count if isinstance(model, str) else model
        wanted = (kernels, models, relay, append, wire, repr(options),
                  repr(properties))
        self.judge()
        if wanted != self.current:
            self.last_look()
            self.stop()
            disks = [PROGRAMS] if PROGRAMS.exists() else []
            self.start([ProjectImage(kernel, append, arch, disks)
                        for kernel, arch in zip(kernels, self.arches)],
                       models, relay, options or {}, properties, wire)
            self.current = wanted
        return self.vms

    def start(self, booted, models, relayed, options, properties, wire=None):
        self.serial += 1
        if any(image.kernel == RACE_KERNEL for image in booted):
            options = {"cpus": 2, **options}
        directory = self.directory / f"set{self.serial}"
        self.sockets = Path(tempfile.mkdtemp(prefix="fakernic-lab-"))
        wire = wire or os.environ.get("FAKERNIC_WIRE", WIRES[0])
        if wire == "link" and set(models) != {"fakernic"}:
            wire = "netdev"
        netdevs, self.relay = wires(self.sockets, WAYS[:len(booted)], relayed,
                                    wire)
        for index, image in enumerate(booted):
            nic = Nic(models[index], netdevs[index], mac=mac(index + 1),
                      **{name: value[index] if isinstance(value, tuple) else value
                         for name, value in properties.items()})
            snapshot = self.find_snapshot(image, models, options, properties)
            self.vms.append(Watched(NAMES[index], directory / NAMES[index],
                                    [nic], image, snapshot=snapshot, **options))
        try:
            for vm in self.vms:
                vm.launch()
            for vm in self.vms:
                vm.wait_booted()
                if vm.is_loaded():
                    snapshots.wake(vm)
        except BaseException as error:
            if isinstance(error, FAILURES):
                self.drop_snapshots()
            self.stop()
            raise

    def find_snapshot(self, image, models, options, properties):
        """Returns what a guest starts from, or None if it boots: a snapshot has one
        fakernic with its default properties, and no driver is loaded."""
        if (self.boots or set(models) != {"fakernic"} or properties or
                not set(options) <= {"cpus", "memory"}):
            return None
        try:
            snapshots.require_fit(image, ())
            self.snapshots.append(snapshots.chosen(
                image, places.qemu_command(arch=image.arch), options.get("memory"),
                options.get("cpus", 1), 0, prepare=""))
        except Unusable as error:
            print(f"a guest boots: {error}")
            return None
        return self.snapshots[-1]

    def drop_snapshots(self):
        """Removes snapshots that have failed: the next guests boot."""
        for snapshot in self.snapshots:
            if snapshot.is_tried:
                snapshots.remove(snapshot)

    def judge(self):
        """Raises the complaints of guests since the last test, which no other
        check would report. After a failure guests may complain."""
        complaints = []
        for vm in self.vms if self.current else ():
            try:
                vm.assert_healthy()
            except GuestCrashed as error:
                complaints.append(str(error))
        if complaints:
            self.current = None
            raise GuestCrashed("since the previous test ended:\n" +
                               "\n".join(complaints))

    def last_look(self):
        """Checks the cards of guests before they are stopped. Raises their complaints and
        the memory leaks that a debug kernel found."""
        if not self.current:
            return
        for vm in self.vms:
            vm.look()
        found = "".join(
            OTHERS_LEAK.sub("", vm.guest.check(FIND_LEAKS[vm.image.kernel].format(
                locks=vm.console.locks_are_watched()), 200))
            for vm in self.vms if vm.image.kernel in FIND_LEAKS)
        if found:
            self.current = None
            raise GuestCrashed(f"the debug kernel has found:\n{found}")

    def afresh(self):
        """Stops the guests, so that the next test gets newly booted ones."""
        self.judge()
        self.last_look()
        self.stop()

    def stop(self):
        self.current = None
        self.worn = False
        while self.vms:
            self.vms.pop().stop()
        while self.snapshots:
            self.snapshots.pop().close()
        if self.relay:
            self.relay.stop()
            self.relay = None
        if self.sockets:
            shutil.rmtree(self.sockets, ignore_errors=True)
            self.sockets = None
