# SPDX-License-Identifier: GPL-2.0-or-later
"""What bench.py measures: its rows, and what their tools print."""

import fnmatch
import json
import re

from fakernic_test import rdma

VERBS = ("write", "read", "send", "atomic")
SIZES = (64, 4096, 65536, 1 << 20)
QPS = (1, 8, 64)
PATH_MTUS = (1024, 4096)
LATENCY_ROUNDS = 1000
SECONDS = 2
MIB = 1 << 20
# perftest's columns: of bandwidth tools, of latency tools.
BW_AVERAGE, BW_RATE = 3, 4
LATENCY = {"median": 4, "mean": 5, "p99": 7, "p99.9": 8}
# --quick: what tells most in three minutes.
QUICK = ("write-64", "send-64", "write-65536", "read-65536", "send-65536",
         "write-lat", "send-lat", "read-lat")
# --reach: each row of the table of what is to be reached.
REACH = ("*-lat", "pingpong-*", "tcp", "write-64", "read-64", "send-64",
         "write-65536*", "read-65536*", "send-65536*", "write-1048576",
         "read-1048576", "send-1048576")


class Row:
    """One measurement: a tool with options. PACKETS is how many of a message's
    the client sends."""

    def __init__(self, name, tool, options, size, verb="", packets=1):
        self.name, self.tool, self.options = name, tool, options
        self.size, self.verb, self.packets = size, verb, packets

    @property
    def is_latency(self):
        return self.tool.endswith(("_lat", "_pingpong"))

    @property
    def is_perftest(self):
        return self.tool.startswith("ib_")

    @property
    def keys(self):
        """What of its numbers is shown."""
        if self.tool.endswith("_pingpong"):
            return ("mean",)
        if self.is_latency:
            return tuple(LATENCY)
        return ("k/s",) if self.size < 4096 else ("MB/s",)


def bandwidth_row(verb, size, qps, mtu):
    name = f"{verb}-{size}" + (f"-q{qps}" if qps > 1 else "") + (
        f"-m{mtu}" if mtu != PATH_MTUS[-1] else "")
    sizes = "" if verb == "atomic" else f"-s {size} "
    packets = 1 if verb in ("read", "atomic") else -(-size // mtu)
    return Row(name, f"ib_{verb}_bw", f"{sizes}-q {qps} -m {mtu} -D {SECONDS}",
               size, verb, packets)


def all_rows():
    """Every row there is, the larger path MTU and fewer QPs first."""
    rows = [Row(f"{verb}-lat", f"ib_{verb}_lat",
                ("" if verb == "atomic" else "-s 8 ") +
                f"-n {LATENCY_ROUNDS}", 8, verb) for verb in VERBS]
    rows += [Row(f"pingpong-{how}", "ibv_rc_pingpong",
                 f"-s 8 -n {LATENCY_ROUNDS}{option}", 8)
             for how, option in (("poll", ""), ("events", " -e"))]
    rows.append(Row("tcp", "iperf3", f"-t {SECONDS} -J", MIB))
    for mtu in reversed(PATH_MTUS):
        for qps in QPS:
            rows += [bandwidth_row(verb, size, qps, mtu) for verb in VERBS
                     for size in (SIZES if verb != "atomic" else (8,))]
    return rows


def chosen_rows(patterns):
    """Those whose names are like one of PATTERNS."""
    rows = [row for row in all_rows()
            if any(fnmatch.fnmatch(row.name, text) for text in patterns)]
    if not rows:
        raise SystemExit(f"bench.py: no row is like {' '.join(patterns)}; "
                         "--list names them")
    return rows


def numbers_of(row, output):
    """What a tool has printed, by the names that tables have; {}: nothing."""
    if row.tool == "iperf3":
        got = json.loads(output)["end"]["sum_received"]["bits_per_second"]
        return {"MB/s": got / 8e6}
    if row.tool.endswith("_pingpong"):
        found = re.search(r"= ([\d.]+) usec/iter", output)
        return {"mean": float(found[1])} if found else {}
    columns = rdma.perftest_numbers(output)
    if len(columns) <= BW_RATE:
        return {}
    if row.is_latency:
        return {key: columns[at] for key, at in LATENCY.items()}
    return {"MB/s": columns[BW_AVERAGE] * MIB / 1e6,
            "k/s": columns[BW_RATE] * 1e3}
