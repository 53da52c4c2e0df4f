# SPDX-License-Identifier: GPL-2.0-or-later
"""The machines' own cards in place of a wire with faults (relay.py), where they
share memory and nobody is between them. A frame that is lost on the wire is one
that the card it comes to does not take.
"""

import re

from . import faults
from .errors import LabError
from .qmp import QMPError

SEED = re.compile(r"\bseed=(\d+)")
SEEDS = 1 << 63                 # that a rule may have
APART = 1 << 32                 # the seeds of two machines
# How the ids begin of rules that are the wire's, among others of a card.
WIRES = "wire-"


class Card(faults.DeviceRules):
    """That of NODE, the machine of this number: the same rule hits other frames
    at each."""

    def __init__(self, node, number):
        super().__init__(node.vm, faults.NIC)
        self.name = node.name
        self.number = number

    def tell(self, words):
        try:
            super().tell(SEED.sub(lambda found: "seed=" + str(
                (int(found[1]) + self.number * APART) % SEEDS), words))
        except QMPError as error:
            raise LabError(f"{self.name}: {error}") from error


class Cards:
    """The cards of NODES, a list that may yet grow, as the ends of a Relay."""

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
        """Gives these machines' cards, or all, more rules, or takes some away
        by "remove="."""
        for card in self.chosen(names):
            card.tell(text)

    def words(self):
        """(name, a rule with how often it was hit) of all."""
        return [(card.name, line) for card in self.chosen()
                for line in card.text().splitlines()]

    def armed(self, *rules, way=None):
        """Rules without id= are in force inside the with, at one card or all,
        of which one at least is to hit each: see faults.armed()."""
        return faults.armed_in(self.chosen([way] if way else ()), rules)

    def assert_alive(self):
        """Each is its machine's, which is looked at itself."""

    def stop(self):
        """They end with their machines."""
