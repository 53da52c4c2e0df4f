# SPDX-License-Identifier: GPL-2.0-or-later
"""Fault rules for a while: a test whose fault was never hit fails."""

import itertools
import re
import time
from contextlib import contextmanager

NIC = "/machine/peripheral/nic0"
SERIAL = itertools.count(1)


class FaultMissed(AssertionError):
    """A rule that nothing has hit: what it was to test was not tested."""


def text_of(vm, device=NIC):
    """The rules of a device in words, a line each."""
    return vm.qmp("qom-get", path=device, property="x-fault")


def by_id(text):
    return {re.search(r"\bid=(\S+)", line).group(1): line
            for line in text.splitlines()}


def rules_of(vm, device=NIC):
    """The same by their id."""
    return by_id(text_of(vm, device))


def hits(line):
    """How often a rule, in words, was hit."""
    return int(re.search(r"\bhits=(\d+)", line).group(1))


def set_fault(vm, text, device=NIC):
    vm.qmp("qom-set", path=device, property="x-fault", value=text)


class DeviceRules:
    """Those of a device, as armed_in() takes them."""

    def __init__(self, vm, device):
        self.vm, self.device = vm, device

    def text(self):
        return text_of(self.vm, self.device)

    def tell(self, words):
        set_fault(self.vm, words, self.device)

    def is_there(self):
        return self.vm.is_running()


class Armed:
    """Rules that are in force, the same at each keeper."""

    def __init__(self, keepers, names):
        self.keepers, self.names = keepers, names

    def lines(self):
        """Of each rule, in the order they were given, its lines."""
        known = [by_id(keeper.text()) for keeper in self.keepers]
        return [[rules[name] for rules in known] for name in self.names]

    def hits(self):
        """Of each rule, by all."""
        return [sum(map(hits, lines)) for lines in self.lines()]

    def wait_for(self, wanted, seconds=20):
        """Until hits() are those."""
        deadline = time.monotonic() + seconds
        while self.hits() != wanted:
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.1)

    def missed(self):
        return [lines[0] for lines in self.lines() if not any(map(hits, lines))]


@contextmanager
def armed_in(keepers, rules):
    """See armed(). The same rules at each of KEEPERS, one of which at least is
    to hit each."""
    names = [f"armed{next(SERIAL)}" for _ in rules]
    words = "; ".join(f"id={name} {rule}" for name, rule in zip(names, rules))
    told = []
    try:
        for keeper in keepers:
            keeper.tell(words)
            told.append(keeper)
        found = Armed(keepers, names)
        yield found
        missed = found.missed()
        if missed:
            raise FaultMissed("nothing hit the fault rule: " + missed[0])
    finally:
        for keeper in told:
            if keeper.is_there():
                keeper.tell("; ".join(f"remove={name}" for name in names))


def armed(vm, *rules, device=NIC):
    """Rules without id= are in force inside the with. Raises FaultMissed at its
    end if one was not hit; they are taken away in any case."""
    return armed_in([DeviceRules(vm, device)], rules)
