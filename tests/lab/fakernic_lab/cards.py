# SPDX-License-Identifier: GPL-2.0-or-later
"""The machines' cards in the role of the relay (relay.py), for machines that share
memory without a relay between them. The receiving card drops a frame that the wire
is to lose.
"""

import re

from . import faults
from .errors import LabError
from .qmp import QMPError

SEED = re.compile(r"\bseed=(\d+)")
SEEDS = 1 << 63                 # limit of a rule's seed
APART = 1 << 32                 # distance of the seeds of two machines
# The prefix of the ids of rules that belong to the wire, not to the card.
WIRES = "wire-"


class Card(faults.DeviceRules):
    """The card of NODE. The seed of a rule depends on NUMBER, so that the same
    rule does not hit the same frames at every card."""

    def __init__(self, node, number):
        super().__init__(node.vm, faults.NIC)
        self.name = node.name
        self.number = number

    def apply(self, words):
        try:
            super().apply(SEED.sub(lambda found: "seed=" + str(
                (int(found[1]) + self.number * APART) % SEEDS), words))
        except QMPError as error:
            raise LabError(f"{self.name}: {error}") from error


class Cards:
    """The cards of NODES, with the methods of Relay. The list may still grow."""

    pid = None                  # no process

    def __init__(self, nodes):
        self.nodes = nodes

    def chosen(self, names=()):
        known = {node.name: Card(node, number)
                 for number, node in enumerate(self.nodes)}
        for name in names:
            if name not in known:
                raise LabError(f"no machine {name}: {', '.join(known)}")
        return [known[name] for name in names or known]

    def add_rules(self, text, *names):
        """Add rules to the cards of these machines, or to all. The rule
        "remove=" removes some."""
        for card in self.chosen(names):
            card.apply(text)

    def words(self):
        """(name, rule with its counter) of all rules of all cards."""
        return [(card.name, line) for card in self.chosen()
                for line in card.text().splitlines()]

    def armed(self, *rules, way=None):
        """Inside the with, these rules without id= apply at one card or at all.
        Each rule must be hit at one card at least: see faults.armed()."""
        return faults.armed_in(self.chosen([way] if way else ()), rules)

    def assert_alive(self):
        """Nothing to check: each card belongs to a machine, which is checked."""

    def stop(self):
        """Nothing to do: the cards end with their machines."""
