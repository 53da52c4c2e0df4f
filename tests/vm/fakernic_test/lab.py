# SPDX-License-Identifier: GPL-2.0-or-later
"""Sets of wired guests, booted once and reused between tests.

Booting is most of what a short test costs, so a set stays up for the next
test that wants the same one, unless a test has failed. What a guest complains of
between two tests fails the later one. Never more than one set is up: two guests
already fill the two cores this project is made for.
"""

import os
from pathlib import Path

from .relay import Relay
from .vm import VM, GuestCrashed, Nic

# Labs of two runs at once must not share theirs.
RUNS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/vm"))


def wires(paths, count, relayed):
    """-netdev options that join COUNT guests (one or two) by unix streams."""
    if count == 1:
        return ["hubport,hubid=0"]
    wire = "stream,addr.type=unix,addr.path="
    if relayed:
        return [f"{wire}{path},server=off" for path in paths]
    return [f"{wire}{paths[0]},server=on", f"{wire}{paths[0]},server=off"]


class Lab:
    """Hands out booted sets of guests."""

    def __init__(self, directory=RUNS):
        self.directory = Path(directory)
        self.current = None
        self.vms = []
        self.relay = None
        self.serial = 0

    def get(self, count=2, kernel="6.12", model="fakernic", options=None,
            relay=False, **properties):
        """COUNT wired guests, already running ones if they are the same.

        OPTIONS go to VM, PROPERTIES to the network device. KERNEL and MODEL
        may be tuples with one item per guest. With RELAY the wire is one that
        can lose frames: self.relay.
        """
        kernels = (kernel,) * count if isinstance(kernel, str) else kernel
        models = (model,) * count if isinstance(model, str) else model
        wanted = (kernels, models, relay, repr(options), repr(properties))
        self.judge()
        if wanted != self.current:
            self.stop()
            self.start(kernels, models, relay, options or {}, properties)
            self.current = wanted
        return self.vms

    def start(self, kernels, models, relayed, options, properties):
        self.serial += 1
        directory = self.directory / f"set{self.serial}"
        directory.mkdir(parents=True, exist_ok=True)
        paths = [directory / f"wire{end}" for end in "ab"]
        for path in paths:
            path.unlink(missing_ok=True)
        if relayed:
            self.relay = Relay(paths)
        for index, netdev in enumerate(wires(paths, len(kernels), relayed)):
            name = "ab"[index]
            nic = Nic(models[index], netdev, mac=f"52:54:00:fa:ce:0{index + 1}",
                      **properties)
            self.vms.append(VM(name, directory / name, [nic],
                               kernel=kernels[index], **options))
        try:
            for vm in self.vms:
                vm.launch()
            for vm in self.vms:
                vm.wait_booted()
        except BaseException:
            self.stop()
            raise

    def judge(self):
        """Raises what guests have complained of since the last test ended, of
        which nobody else would hear. After a failure they may complain."""
        complaints = []
        for vm in self.vms if self.current else ():
            try:
                vm.assert_healthy()
            except GuestCrashed as error:
                complaints.append(str(error))
        if complaints:
            self.current = None
            raise GuestCrashed("since the test before this one ended:\n" +
                               "\n".join(complaints))

    def stop(self):
        self.current = None
        while self.vms:
            self.vms.pop().stop()
        if self.relay:
            self.relay.stop()
            self.relay = None
