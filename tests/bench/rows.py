# SPDX-License-Identifier: GPL-2.0-or-later
"""The rows of bench.py, and parsing of their tools' output."""

import fnmatch
import json
import re

from fakernic_test import rdma

KIB, MIB = 1 << 10, 1 << 20
VERBS = ("write", "read", "send", "atomic")
SIZES = (64, 4 * KIB, 64 * KIB, MIB)
ATOMIC = 8                      # an atomic has no other size
SMALL = 8                       # smallest size of a latency
QPS = (1, 8, 64)
MANY = 8                        # more QPs than that
# As many QPs as a busy server has, compared with few QPs. Each has as many outstanding work
# requests as in engine.c with 1,000 QPs.
THOUSAND, THOUSAND_DEPTH = 1000, 16
MANY_QPS = f"write-64-q{THOUSAND}"
MANY_QPS_PARTNER = f"write-64-q{MANY}-t{THOUSAND_DEPTH}"
PATH_MTUS = (1024, 4096)
USUAL_MTU = PATH_MTUS[-1]
PINGPONG_ROUNDS = 1000
# Duration of a bandwidth run, and its limit for a device that is too slow to finish enough
# messages in that time.
SECONDS, SECONDS_MOST = 2, 12
# Path MTU -> minimum rate of Soft-RoCE on this machine, in bytes per second. And the number
# of messages that it must finish on each QP.
SLOW_RATES = {1024: 4e6, 4096: 10e6}
SLOW_TIMES = 3
# Size -> rounds of a latency run of fakernic, and of Soft-RoCE, whose rounds take at least
# ten times as long.
ROUNDS = {SMALL: (2000, 1000), 4 * KIB: (2000, 500), 64 * KIB: (1000, 100),
          MIB: (300, 10)}
# Receives per QP. With 64 QPs perftest's default of 512 would exceed Soft-RoCE's CQ.
RECEIVES = " -r 256"
# Columns of perftest: of all tools, of bandwidth tools, and of latency tools, these with
# the rounds that each number needs.
ITERATIONS = 1
BW_AVERAGE, BW_RATE = 3, 4
LATENCY = {"median": (4, 5), "mean": (5, 5), "p99": (7, 100),
           "p99.9": (8, 1000)}
# Minimum number of QPs that a guest creates and connects per second.
CONNECTS = 20
# Selections of rows: the most important ones, which take three minutes;
QUICK = ("write-64", "send-64", "write-65536", "read-65536", "send-65536",
         "write-lat", "send-lat", "read-lat")
# the rows of the results page and of the targets;
REACH = ("*-lat", "pingpong-*", "tcp", "write-64", "read-64", "send-64",
         "write-4096", "write-65536*", "read-65536*", "send-65536*", "*-1048576",
         "*-1048576-q8", "*-1048576-q64", MANY_QPS, MANY_QPS_PARTNER)
# and one QP of each size, with samples of many QPs and the smaller path MTU.
SHORT = ("*-lat", "pingpong-*", "tcp", "write-*[0-9]", "read-*[0-9]",
         "send-*[0-9]", "atomic-8")
SHORT_NOT = ("*-q8-m*", "*-q64-m*", "*-lat-*", "*-64-q*", "*-4096-q*",
             "*-1048576-q*", "*-64-m*", "*-4096-m*", "*-1048576-m*")


class Row:
    """One measurement: a tool and its parameters. Every device gets OPTIONS. DEPTH is
    the number of work requests on each QP; 0 is perftest's default."""

    def __init__(self, name, tool, size, verb="", qps=1, mtu=USUAL_MTU,
                 options="", depth=0):
        self.name, self.tool, self.size, self.verb = name, tool, size, verb
        self.qps, self.mtu, self.options = qps, mtu, options
        self.depth = depth

    @property
    def is_latency(self):
        return self.tool.endswith(("_lat", "_pingpong"))

    @property
    def is_perftest(self):
        return self.tool.startswith("ib_")

    @property
    def keys(self):
        """The numbers that are shown."""
        if self.tool.endswith("_pingpong"):
            return ("mean",)
        if self.is_latency:
            return tuple(LATENCY)
        return ("k/s",) if self.size < 4 * KIB else ("MB/s",)

    def fewer(self):
        """The names of the same row with fewer QPs, if it has many."""
        return [bandwidth_row(self.verb, self.size, qps, self.mtu).name
                for qps in QPS if MANY < self.qps > qps]

    def seconds(self, slow):
        """How long a run of bandwidth takes; SLOW: Soft-RoCE is at an end."""
        if not slow:
            return SECONDS
        wanted = SLOW_TIMES * self.size * self.qps / SLOW_RATES[self.mtu]
        return min(SECONDS_MOST, max(SECONDS, round(wanted)))

    def connecting(self):
        """Seconds that creation and connection of its QPs may take."""
        return self.qps // CONNECTS

    def words(self, slow=False):
        """The options of its tool."""
        if not self.is_perftest:
            return self.options
        size = "" if self.verb == "atomic" else f"-s {self.size} "
        if self.is_latency:
            return f"{size}-m {self.mtu} -n {ROUNDS[self.size][slow]}"
        depth = f"-t {self.depth} " if self.depth else ""
        return (f"{size}{depth}-q {self.qps} -m {self.mtu} "
                f"-D {self.seconds(slow)}" +
                (RECEIVES if self.verb == "send" and self.qps > MANY else ""))


def mtu_name(mtu):
    return f"-m{mtu}" if mtu != USUAL_MTU else ""


def bandwidth_row(verb, size, qps, mtu):
    name = (f"{verb}-{size}" + (f"-q{qps}" if qps > 1 else "") + mtu_name(mtu))
    return Row(name, f"ib_{verb}_bw", size, verb, qps, mtu)


def deep_rows():
    """A thousand QPs, and few with as much on each."""
    return [Row(name, "ib_write_bw", 64, "write", qps, depth=THOUSAND_DEPTH)
            for name, qps in ((MANY_QPS, THOUSAND), (MANY_QPS_PARTNER, MANY))]


def latency_row(verb, size, mtu=USUAL_MTU):
    name = (f"{verb}-lat" + (f"-{size}" if size > SMALL else "") +
            mtu_name(mtu))
    return Row(name, f"ib_{verb}_lat", size, verb, mtu=mtu)


def all_rows():
    """Every row, the most important first, as time may run out."""
    rows = [latency_row(verb, SMALL) for verb in VERBS]
    rows += [Row(f"pingpong-{how}", "ibv_rc_pingpong", SMALL,
                 options=f"-s {SMALL} -n {PINGPONG_ROUNDS}{option}")
             for how, option in (("poll", ""), ("events", " -e"))]
    rows.append(Row("tcp", "iperf3", MIB, options=f"-t {SECONDS} -J"))
    rows += deep_rows()
    for mtu in reversed(PATH_MTUS):
        for qps in QPS:
            rows += [bandwidth_row(verb, size, qps, mtu) for verb in VERBS
                     for size in (SIZES if verb != "atomic" else (ATOMIC,))]
        # Eight bytes are one packet with either path MTU, so they have one row.
        rows += [latency_row(verb, size, mtu) for verb in VERBS
                 for size in ROUNDS if verb != "atomic" and size > SMALL]
    return rows


def chosen_rows(patterns, but=()):
    """The rows whose names match one of PATTERNS and none of BUT."""
    rows = [row for row in all_rows()
            if any(fnmatch.fnmatchcase(row.name, text) for text in patterns)
            and not any(fnmatch.fnmatchcase(row.name, text) for text in but)]
    if not rows:
        raise SystemExit(f"bench.py: no row matches {' '.join(patterns)}; "
                         "--list names all rows")
    return rows


def numbers_of(row, output):
    """The numbers in a tool's output, by their names in tables; {}: there are none."""
    if row.tool == "iperf3":
        return {"MB/s": tcp_rate(output)} if tcp_rate(output) else {}
    if row.tool.endswith("_pingpong"):
        found = re.search(r"= ([\d.]+) usec/iter", output)
        return {"mean": float(found[1])} if found else {}
    columns = rdma.perftest_numbers(output)
    # perftest rounds rates: of slow small messages the bandwidth is 0.
    if len(columns) <= BW_RATE or not any(columns[BW_AVERAGE:BW_RATE + 1]):
        return {}
    found = {"messages": columns[ITERATIONS]}
    if row.is_latency:
        return {**found, **{key: columns[at]
                            for key, (at, least) in LATENCY.items()
                            if found["messages"] >= least}}
    return {**found, "MB/s": columns[BW_AVERAGE] * MIB / 1e6,
            "k/s": columns[BW_RATE] * 1e3}


def tcp_rate(output):
    """What iperf3's receiver got, in MB/s; None: not reported."""
    try:
        end = json.loads(output)["end"]
        return end["sum_received"]["bits_per_second"] / 8e6
    except (ValueError, KeyError):
        return None
