# SPDX-License-Identifier: GPL-2.0-or-later
"""Computes medians and spreads from a result of bench.py."""

import json
import statistics
from pathlib import Path

# With Soft-RoCE's default ACK timeout of 67 ms slow runs measure retransmissions. It runs
# again with a timeout of one second, and the better result counts.
PATIENT = " -u 18"
RXE = "rxe"
# Kinds of threads: the main loop of a machine, its virtual CPUs, others.
KINDS = ("main", "cpu", "other")


def values(runs, key):
    return [run[key] for run in runs if key in run]


def number(value, digits=4):
    """Formats a number for people."""
    if not value:
        return "0" if value == 0 else "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


WIRES = ("stream", "link")


def wanted_times(row):
    """The targets of a row with one QP: factors relative to Soft-RoCE, one for each of
    WIRES. Empty: the row has no target."""
    verb, size, *more = row.split("-")
    if size == "lat":
        return (10, 20) if verb == "write" else (10, 50)
    if more or size not in ("64", "65536", "1048576"):
        return ()
    return (12, 40) if size == "64" else (25, 100)


class Result:
    """The rows of one job."""

    def __init__(self, found):
        self.found = found
        self.rows, self.limits = found["rows"], found["limits"]
        self.failed = found.get("failed", {})
        self.devices = found["devices"]

    @classmethod
    def read(cls, path):
        return cls(json.loads(Path(path).read_text(encoding="utf-8")))

    def runs(self, row, device):
        return self.rows.get(row, {}).get(device, [])

    def median(self, row, device, key):
        """The median; None if no run finished."""
        found = values(self.runs(row, device), key)
        return statistics.median(found) if found else None

    def spread(self, row, device, key):
        """(median, least, greatest); None if no run finished."""
        found = values(self.runs(row, device), key)
        if not found:
            return None
        return statistics.median(found), min(found), max(found)

    def best(self, row, device, key, fast=max):
        """The name with the better median: the device's own name, or the one for runs with
        the longer ACK timeout. FAST: max if more is better, or min."""
        names = [name for name in (device, device + PATIENT)
                 if self.median(row, name, key) is not None]
        return fast(names, key=lambda name: self.median(row, name, key),
                    default=device)

    def times(self, row, device, key, fast=max, base=RXE):
        """The speed relative to the better median of BASE; None: unknown."""
        mine = self.median(row, device, key)
        other = self.median(row, self.best(row, base, key, fast), key)
        if not mine or not other:
            return None
        return mine / other if fast is max else other / mine

    def wanted(self, row, device, key, fast=max):
        """The target of a device; None: no target, or unknown."""
        factors = dict(zip(WIRES, wanted_times(row)))
        base = self.median(row, self.best(row, RXE, key, fast), key)
        if device not in factors or not base:
            return None
        return (base * factors[device] if fast is max else
                base / factors[device])

    def share(self, row, of, device, key):
        """The median of a row relative to that of the row OF; None: unknown."""
        mine, other = (self.median(name, device, key) for name in (row, of))
        return None if mine is None or not other else mine / other
