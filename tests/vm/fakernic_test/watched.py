# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests whose cards have to stay well. The driver mends what a card does wrong,
and says so; a test that nobody told to expect it would pass. So whatever it has
warned of, and each interrupt and event that it has found lost, is trouble, unless
the test has the device misbehave, by a fault rule or as expect_repair() says. To look costs a
guest a quarter of a second: it is done for some tests together, which are named.
"""

import re
from collections import Counter

from fakernic_lab.errors import GuestCrashed
from fakernic_lab.machine import Machine

# Points of fault rules where not the device fails but the network does, what rules
# do that does no harm, and the monitor's command for what the PCI core calls an
# error of the device.
NETWORK = ("tx", "rx")
HARMLESS = ("count", "pause")
BUS_ERROR = "pcie_aer_inject_error"
# The driver looks twice a second for what was lost, and knows the second time.
LOOKS_S = 1.2
# After so many tests that have not hurt the card; before one that does, and at the
# guest's end.
TOGETHER = 8
# Which boot it is, what was lost, and the kernel's messages of the driver, also
# those that a test has cleared: level, number, time in microseconds; text.
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
# What it says at a lower level, though nobody wants it to happen; and what it warns
# of whenever there was a rule, or the kernel for it when a user was refused.
UNWANTED = "restarting"
WANTED = re.compile("fault rules are active|one-step time stamps are not")
# What it cannot know where one CPU looks and another has not had its turn to handle
# the interrupt: emulated ones wait for the host's processors, for how long nobody
# says.
UNSURE = re.compile("(?:came|was answered) without an (?:interrupt|event)")


def is_harmful(rules):
    """Whether some of these fault rules make the device misbehave."""
    for rule in re.split(r"[;\n]", rules):
        words = dict(re.findall(r"(\S+)=(\S+)", rule))
        if (words.get("do", HARMLESS[0]) not in HARMLESS and
                words.get("at") not in NETWORK):
            return True
    return False


class Watched(Machine):
    """Between begins() and ends() is a test."""

    def __init__(self, name, directory, nics, image, **options):
        super().__init__(name, directory, nics, image, **options)
        self.is_sure = options.get("cpus", 1) == 1
        self.looks = any(nic.model == "fakernic" for nic in nics)
        self.always_faulty = any("x_fault" in nic.properties for nic in nics)
        self.repair_expected = False
        self.unseen = []        # tests since the last look
        self.boot = None
        self.heard = -1
        self.lost = Counter()

    def expect_repair(self):
        """The test does the card some harm, other than by QMP."""
        self.look()
        self.repair_expected = True

    def qmp(self, command, **arguments):
        if ((command == "qom-set" and arguments.get("property") == "x-fault" and
             is_harmful(arguments["value"])) or
                BUS_ERROR in arguments.get("command_line", "")):
            self.expect_repair()
        return super().qmp(command, **arguments)

    def news(self, wait=0):
        """What there was to complain of since the last call, in lines."""
        text = self.guest.run(NEWS.format(wait=f"sleep {wait}" if wait else "")).out
        boot, _, text = text.partition("\n")
        if boot != self.boot:
            self.boot, self.heard, self.lost = boot, -1, Counter()
        lost = Counter()
        for name, count in LOST.findall(text):
            lost[name] += int(count)
        found = []
        for name, count in lost.items():
            # A driver that was loaded anew counts from zero.
            before = self.lost[name] if self.lost[name] <= count else 0
            self.lost[name] = count
            if self.is_sure and count > before:
                found.append(f"{name}: {count - before}")
        for level, number, words in SAID.findall(text):
            if int(number) <= self.heard:
                continue
            self.heard = int(number)
            if not self.is_sure and UNSURE.search(words):
                continue
            if (UNWANTED in words or
                    int(level) % 8 <= WARNING and not WANTED.search(words)):
                found.append(words)
        return found

    def boots_again(self):
        """See Machine: nobody hears any more of what was before."""
        self.look()
        return super().boots_again()

    def begins(self):
        """What there is to hear by now is of a test that has hurt the card."""
        if self.looks and self.repair_expected and not self.always_faulty:
            self.news(LOOKS_S)
        self.repair_expected = self.always_faulty

    def ends(self, test):
        if self.looks and not self.repair_expected:
            self.unseen.append(test)
            if len(self.unseen) == TOGETHER:
                self.look()

    def look(self):
        """Raises what there was to complain of in the tests since the last time. It
        counts as a reader of the card's statistics."""
        if not self.unseen:
            return
        tests, self.unseen = ", ".join(self.unseen), []
        found = self.news()
        if found:
            raise GuestCrashed(f"nobody has hurt the card of {self.name}, but in "
                               f"{tests}:\n" + "\n".join(found))
