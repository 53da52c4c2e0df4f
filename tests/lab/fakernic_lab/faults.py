# SPDX-License-Identifier: GPL-2.0-or-later
"""Fault rules for a while: a test whose fault was never hit fails."""

import itertools
import re
from contextlib import contextmanager

NIC = "/machine/peripheral/nic0"
SERIAL = itertools.count(1)


class FaultMissed(AssertionError):
    """A rule that nothing has hit: what it was to test was not tested."""


def text_of(vm, device=NIC):
    """The rules of a device in words, a line each."""
    return vm.qmp("qom-get", path=device, property="x-fault")


def rules_of(vm, device=NIC):
    """The same by their id."""
    return {re.search(r"\bid=(\S+)", line).group(1): line
            for line in text_of(vm, device).splitlines()}


def hits(line):
    """How often a rule, in words, was hit."""
    return int(re.search(r"\bhits=(\d+)", line).group(1))


def set_fault(vm, text, device=NIC):
    vm.qmp("qom-set", path=device, property="x-fault", value=text)


class Armed:
    """Rules that are in force."""

    def __init__(self, vm, device, names):
        self.vm, self.device, self.names = vm, device, names

    def hits(self):
        """Of each rule, in the order they were given."""
        known = rules_of(self.vm, self.device)
        return [hits(known[name]) for name in self.names]

    def missed(self):
        known = rules_of(self.vm, self.device)
        return [known[name] for name in self.names if not hits(known[name])]


@contextmanager
def armed(vm, *rules, device=NIC):
    """Rules without id= are in force inside the with. Raises FaultMissed at its
    end if one was not hit; they are taken away in any case."""
    names = [f"armed{next(SERIAL)}" for _ in rules]
    set_fault(vm, "; ".join(f"id={name} {rule}" for name, rule in
                            zip(names, rules)), device)
    faults = Armed(vm, device, names)
    try:
        yield faults
        missed = faults.missed()
        if missed:
            raise FaultMissed("nothing hit the fault rule: " + missed[0])
    finally:
        if vm.is_running():
            set_fault(vm, "; ".join(f"remove={name}" for name in names), device)
