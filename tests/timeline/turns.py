# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the cost of a feature: its effect on the latency of an 8-byte RDMA WRITE
between two machines.

Cards with the feature and one without it are in the same pair of machines, because
two pairs differ by more than the feature costs. One program (turns.c) uses the cards
in turns of some milliseconds, because successive runs of perftest differ by more,
too. The latencies of a turn are compared with those of the card without the feature
in the same round: their median, and their fastest tenth, in which no thread waited
for a processor. The machines boot again with the cards in another order, so that no
card always has the best place.

The result is the range that contains the median of these ratios with 95 %
probability. The whole range must be below a limit. While the limit is inside the
range, there is another cycle of boots. If it is still inside after the last cycle,
the test has shown nothing and fails."""

import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("lab", "bench")]

from confidence import median_range                     # noqa: E402
from fakernic_lab import launch                         # noqa: E402
from fakernic_lab.lab import Lab                        # noqa: E402
from fakernic_lab.machine import Mount, Nic             # noqa: E402
from fakernic_lab.net import mac, wires                 # noqa: E402

NONE = "none"                   # the part of the card without the feature
ROUNDS, WRITES = 1200, 25       # rounds of a boot; WRITEs of a card's turn
TURNS = "/turns"                # the program's folder in the machines
TIMES = "/tmp/times"
PORT = "7473"                   # the program listens at this TCP port
NETWORK = "192.168.{card}.{number}"
FIRST_NETWORK = 81
QUANTILES = ("median", "fastest tenth")
INSTALLED = "/cache/build/rdma-core-install"    # the guests have a copy of it
# Waits until all cards are there. Gives the cards with these MAC addresses their
# IP addresses.
ADDRESSES = """
for try in $(seq 100); do
    set -- /sys/class/infiniband/*
    [ $# -ge {count} ] && break
    sleep 0.1
done
for net in /sys/class/infiniband/*/device/net/*; do
    case $(cat $net/address) in
    {cases}
    *) continue;;
    esac
    ip link set ${{net##*/}} up
    ip addr replace $address/24 dev ${{net##*/}}
done
"""


class Cards(Lab):
    """Machines with a card for each of PARTS, each on its own wire. SHIFT rotates
    the order of the cards. A subclass defines the properties of a part."""

    def __init__(self, out, parts, shift):
        folder = out / "program"
        super().__init__(out=out / "machines",
                         mounts=[Mount(compiled(folder), TURNS)])
        self.parts = parts[shift:] + parts[:shift]
        self.wires = []

    def properties(self, name, part):
        """The device properties, by name, of the card of PART in a machine."""
        raise NotImplementedError

    def join(self):
        for card in range(len(self.parts)):
            folder = self.sockets / f"card{card}"
            folder.mkdir()
            self.wires.append(wires(folder, self.names)[0])
        return self.wires[0]

    def nics(self, number, name, netdev):
        return [Nic("fakernic", self.wires[card][number - 1],
                    mac=self.mac(number, card), **self.properties(name, part))
                for card, part in enumerate(self.parts)]

    def mac(self, number, card):
        return mac(number + 16 * card)

    def addresses(self, number):
        """The IP addresses of a machine's cards."""
        return [NETWORK.format(card=FIRST_NETWORK + card, number=number)
                for card in range(len(self.parts))]

    def give_addresses(self):
        for number, node in zip(self.numbers, self.nodes):
            cases = "\n    ".join(
                f"{self.mac(number, card)}) address={address};;"
                for card, address in enumerate(self.addresses(number)))
            node.guest.check(ADDRESSES.format(count=len(self.parts),
                                              cases=cases))

    def take_turns(self):
        """The latencies of each round, by part: (median, fastest tenth) in ns."""
        self.give_addresses()
        server, client = self.nodes
        words = [" ".join([f"{TURNS}/turns {ROUNDS} {WRITES}",
                           *self.addresses(number)])
                 for number in self.numbers]
        verdict, _ = launch.run_all(
            self, [words[0], f"{words[1]} to {server.name} >{TIMES}"], 600,
            ready=PORT)
        if verdict.code:
            raise SystemExit(f"turns failed: {verdict.reason}")
        lines = client.guest.check(f"cat {TIMES}").split("\n")[:-1]
        rounds = [{} for _ in range(ROUNDS)]
        for number, line in enumerate(lines):
            card, *times = map(int, line.split())
            rounds[number // len(self.parts)][self.parts[card]] = times
        if any(len(found) != len(self.parts) for found in rounds):
            raise SystemExit("turns has not printed all times")
        return rounds


def compiled(folder):
    """Compile turns.c into FOLDER, which the machines mount; return FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", folder / "turns",
         HERE / "turns.c", f"-I{HERE.parent}/vm/guest",
         f"-I{INSTALLED}/usr/include",
         f"-L{INSTALLED}/usr/lib/x86_64-linux-gnu", "-libverbs"], check=True)
    return folder


def judge(found, limits, words):
    """True: all costs are below their limits; False: one is above; None: a limit
    is inside a range, so nothing is shown."""
    verdicts = []
    for (part, name), values in sorted(found.items()):
        low, high = median_range(values)
        limit = limits[part]
        print(f"{words.format(part)}, {name}: the latency is "
              f"{statistics.median(values):.3f} times that without, likely "
              f"{low:.3f} to {high:.3f}, at most {limit} is fine "
              f"({len(values)} rounds)", flush=True)
        verdicts.append(True if high <= limit else
                        False if low > limit else None)
    return (False if False in verdicts else None if None in verdicts else True)


def measure(boot, limits, words, cycles):
    """Return True on failure: a part of LIMITS costs too much, or nothing is
    shown. BOOT makes the Cards of a shift. WORDS describe the feature; {} in them
    stands for the part."""
    found = {}
    for cycle in range(cycles):
        for shift in range(len(limits) + 1):
            with boot(shift) as lab:
                for times in lab.take_turns():
                    for part in limits:
                        for place, name in enumerate(QUANTILES):
                            found.setdefault((part, name), []).append(
                                times[part][place] / times[NONE][place])
        verdict = judge(found, limits, words)
        if verdict is not None:
            return not verdict
    print(f"not shown: a limit is in its range after {cycles} cycles")
    return True
