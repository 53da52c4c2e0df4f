# SPDX-License-Identifier: GPL-2.0-or-later
"""Fault rules for part of a test, which fails if one of them is not hit."""

import itertools
import re
import time
from contextlib import contextmanager

NIC = "/machine/peripheral/nic0"
SERIAL = itertools.count(1)


class FaultMissed(AssertionError):
    """No event hit a rule, so the test did not test anything."""


def text_of(vm, device=NIC):
    """The rules of a device as text, one a line."""
    return vm.qmp("qom-get", path=device, property="x-fault")


def by_id(text):
    return {re.search(r"\bid=(\S+)", line).group(1): line
            for line in text.splitlines()}


def rules_of(vm, device=NIC):
    """The rules of a device: id -> line."""
    return by_id(text_of(vm, device))


def hits(line):
    """How often the rule in LINE was hit."""
    return int(re.search(r"\bhits=(\d+)", line).group(1))


def set_fault(vm, text, device=NIC):
    vm.qmp("qom-set", path=device, property="x-fault", value=text)


class DeviceRules:
    """The rules of a device, with the methods that armed_in() needs."""

    def __init__(self, vm, device):
        self.vm, self.device = vm, device

    def text(self):
        return text_of(self.vm, self.device)

    def apply(self, words):
        set_fault(self.vm, words, self.device)

    def is_there(self):
        return self.vm.is_running()


class Armed:
    """Rules that apply now. Each of KEEPERS, a device or an end of the wire, has
    the same rules."""

    def __init__(self, keepers, names):
        self.keepers, self.names = keepers, names

    def lines(self):
        """For each rule, in the given order, its lines at all keepers."""
        known = [by_id(keeper.text()) for keeper in self.keepers]
        return [[rules[name] for rules in known] for name in self.names]

    def hits(self):
        """For each rule, the sum of its hits at all keepers."""
        return [sum(map(hits, lines)) for lines in self.lines()]

    def wait_for(self, wanted, seconds=20):
        """Wait until hits() returns WANTED."""
        deadline = time.monotonic() + seconds
        while self.hits() != wanted:
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.1)

    def missed(self):
        return [lines[0] for lines in self.lines() if not any(map(hits, lines))]


@contextmanager
def armed_in(keepers, rules):
    """As armed(), with the same rules at each of KEEPERS. Each rule must be hit at
    one of them at least."""
    names = [f"armed{next(SERIAL)}" for _ in rules]
    words = "; ".join(f"id={name} {rule}" for name, rule in zip(names, rules))
    changed = []
    try:
        for keeper in keepers:
            keeper.apply(words)
            changed.append(keeper)
        found = Armed(keepers, names)
        yield found
        missed = found.missed()
        if missed:
            raise FaultMissed("nothing hit the fault rule: " + missed[0])
    finally:
        for keeper in changed:
            if keeper.is_there():
                keeper.apply("; ".join(f"remove={name}" for name in names))


def armed(vm, *rules, device=NIC):
    """Inside the with, RULES without id= apply. At its end they are removed in any
    case. Raise FaultMissed if one was not hit."""
    return armed_in([DeviceRules(vm, device)], rules)
