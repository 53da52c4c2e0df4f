# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose cards must stay healthy.

The driver repairs what a faulty card does and logs it, so a test would pass.
Each warning of the driver, and each lost interrupt or event, fails the test,
unless the test makes the device fail by a fault rule or calls expect_repair().
A check takes a quarter of a second in a guest, so it covers several tests, and
a failure names all of them.
"""

import re
from collections import Counter

from fakernic_lab.errors import GuestCrashed
from fakernic_lab.machine import Machine

# Points of fault rules where the network fails and not the device, harmless actions,
# and the monitor's command for an error of the device on the bus.
NETWORK = ("tx", "rx")
HARMLESS = ("count", "pause")
BUS_ERROR = "pcie_aer_inject_error"
# The driver checks for lost events twice a second, and reports at the second check.
LOOKS_S = 1.2
# Number of tests in one check. There is also a check before a test that harms the
# card, and at the guest's end.
TOGETHER = 8
# The boot ID, the counters of losses, and the driver's messages in the kernel's log,
# also those that a test has cleared: level, number, time in microseconds; text.
NEWS = """
{wait}
cat /proc/sys/kernel/random/boot_id
for net in /sys/bus/pci/drivers/fakernic/*/net/*; do
    [ ! -e $net ] || ethtool -S ${{net##*/}}
done | grep -E ' lost_(interrupts|events): '
dd if=/dev/kmsg bs=8k iflag=nonblock status=none 2>/dev/null |
    grep -a ';fakernic 0' || :
"""
LOST = re.compile(r"^ +(lost_\w+): (\d+)$", re.M)
SAID = re.compile(r"^(\d+),(\d+),\d+,[^;]*;(.*)$", re.M)
WARNING = 4
# An unwanted message below the level of a warning. Then expected warnings, about a
# fault rule or a refused request of a user.
UNWANTED = "restarting"
WANTED = re.compile("fault rules are active|one-step time stamps are not")
# Messages that are unreliable with several CPUs: one CPU checks before another has
# handled the interrupt, as emulated CPUs wait for the host's processors.
UNSURE = re.compile("(?:came|was answered) without an (?:interrupt|event)")


def is_harmful(rules):
    """Returns whether some of these fault rules make the device misbehave."""
    for rule in re.split(r"[;\n]", rules):
        words = dict(re.findall(r"(\S+)=(\S+)", rule))
        if (words.get("do", HARMLESS[0]) not in HARMLESS and
                words.get("at") not in NETWORK):
            return True
    return False


class Watched(Machine):
    """A machine. A test runs between begins() and ends()."""

    def __init__(self, name, directory, nics, image, **options):
        super().__init__(name, directory, nics, image, **options)
        self.is_sure = options.get("cpus", 1) == 1
        self.looks = any(nic.model == "fakernic" for nic in nics)
        self.always_faulty = any("x_fault" in nic.properties for nic in nics)
        self.repair_expected = False
        self.unchecked = []        # tests since the last check
        self.boot = None
        self.seen = -1
        self.lost = Counter()

    def expect_repair(self):
        """The test harms the card in another way than by QMP."""
        self.look()
        self.repair_expected = True

    def qmp(self, command, **arguments):
        if ((command == "qom-set" and arguments.get("property") == "x-fault" and
             is_harmful(arguments["value"])) or
                BUS_ERROR in arguments.get("command_line", "")):
            self.expect_repair()
        return super().qmp(command, **arguments)

    def news(self, wait=0):
        """Returns the complaints since the last call, as lines."""
        text = self.guest.run(NEWS.format(wait=f"sleep {wait}" if wait else "")).out
        boot, _, text = text.partition("\n")
        if boot != self.boot:
            self.boot, self.seen, self.lost = boot, -1, Counter()
        lost = Counter()
        for name, count in LOST.findall(text):
            lost[name] += int(count)
        found = []
        for name, count in lost.items():
            # A reloaded driver counts from zero.
            before = self.lost[name] if self.lost[name] <= count else 0
            self.lost[name] = count
            if self.is_sure and count > before:
                found.append(f"{name}: {count - before}")
        for level, number, words in SAID.findall(text):
            if int(number) <= self.seen:
                continue
            self.seen = int(number)
            if not self.is_sure and UNSURE.search(words):
                continue
            if (UNWANTED in words or
                    int(level) % 8 <= WARNING and not WANTED.search(words)):
                found.append(words)
        return found

    def boots_again(self):
        """See Machine: the log of the last boot is lost."""
        self.look()
        return super().boots_again()

    def begins(self):
        """Drops complaints that belong to an earlier test that harmed the
        card."""
        if self.looks and self.repair_expected and not self.always_faulty:
            self.news(LOOKS_S)
        self.repair_expected = self.always_faulty

    def ends(self, test):
        if self.looks and not self.repair_expected:
            self.unchecked.append(test)
            if len(self.unchecked) == TOGETHER:
                self.look()

    def look(self):
        """Raises the complaints of the tests since the last time. It counts as
        a reader of the card's statistics."""
        if not self.unchecked:
            return
        tests, self.unchecked = ", ".join(self.unchecked), []
        found = self.news()
        if found:
            raise GuestCrashed(f"the card of {self.name} had errors that no test caused, in "
                               f"{tests}:\n" + "\n".join(found))
