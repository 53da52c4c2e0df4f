# SPDX-License-Identifier: GPL-2.0-or-later
"""What something costs the latency of an RDMA WRITE of 8 bytes between two
machines: cards with it, and one without, of one pair of machines, as pairs side
by side differ by more; and turns of some milliseconds by one program (turns.c),
as runs of perftest one after the other do, too. Each is compared with that of
the card without in the same round, by median and by fastest tenth: where four
threads that compute share few processors, nobody waited for one there. The
machines boot again for each way to give the cards their parts, so that none has
the better place for long.

What counts is the range in which the median of these ratios lies with 95 %
probability. All of it must be below a limit; as long as that lies in it there is
one more cycle of boots, and in the end it is not shown."""

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

NONE = "none"                   # the part of the card without
ROUNDS, WRITES = 1200, 25       # of a boot; of a card's turn
TURNS = "/turns"                # where the program is in the machines
TIMES = "/tmp/times"
PORT = "7473"                   # at which it listens
NETWORK = "192.168.{card}.{number}"
FIRST_NETWORK = 81
QUANTILES = ("median", "fastest tenth")
INSTALLED = "/cache/build/rdma-core-install"            # the guests' is a copy
# Waits until all cards are there, and gives those with these MAC addresses an
# IP address.
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
    """Machines with a card for each of some PARTS, on a wire each, in another
    order each SHIFT. Who derives from it says what is their own."""

    def __init__(self, out, parts, shift):
        folder = out / "program"
        super().__init__(out=out / "machines",
                         mounts=[Mount(compiled(folder), TURNS)])
        self.parts = parts[shift:] + parts[:shift]
        self.wires = []

    def properties(self, name, part):
        """Of the card with that part, of that machine: by name."""
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
        """Of a machine's cards."""
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
        """Of each round, by part: (median, fastest tenth) in nanoseconds."""
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
            raise SystemExit("turns does not tell all times")
        return rounds


def compiled(folder):
    """The program of the turns, in a folder for the machines."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", folder / "turns",
         HERE / "turns.c", f"-I{HERE.parent}/vm/guest",
         f"-I{INSTALLED}/usr/include",
         f"-L{INSTALLED}/usr/lib/x86_64-linux-gnu", "-libverbs"], check=True)
    return folder


def judge(found, limits, words):
    """True: it costs little; False: too much; None: not shown."""
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
    """Whether it is not shown that each part of LIMITS costs little. BOOT makes
    the Cards of a shift; WORDS say what costs a part {}."""
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
