# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the benchmark itself, without machines: its rows, parsing of the tools'
output, the order of a job, its interruption and resumption, its tables and figures,
what a message costs, the file of bench-kvm, and the conditions of bench-awake. No test
judges a time."""

import itertools
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import awake
import bench
import cost
import kvm
import page
import pairs
import plot
import reach
import rows
import table
from fakernic_lab.errors import GuestCrashed, GuestTimeout
from results import PATIENT, Result

BANDWIDTH = """
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      21200            0.00               1000.00              0.016000
---------------------------------------------------------------------------------
"""
LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       {}          28.36          2051.25      39.11              48.23            107.48          119.38                  2001.25
"""


def row(name):
    (found,) = rows.chosen_rows([name])
    return found


# ---- rows --------------------------------------------------------------------

def test_the_rows_are_the_whole_matrix():
    names = {found.name for found in rows.all_rows()}
    for verb, qps, mtu in itertools.product(rows.VERBS, rows.QPS,
                                            rows.PATH_MTUS):
        for size in (8,) if verb == "atomic" else rows.SIZES:
            assert rows.bandwidth_row(verb, size, qps, mtu).name in names
    for verb, size, mtu in itertools.product(rows.VERBS, rows.ROUNDS,
                                             rows.PATH_MTUS):
        if verb != "atomic" and (size > 8 or mtu == 4096):
            assert rows.latency_row(verb, size, mtu).name in names
    assert {"atomic-lat", "tcp", "pingpong-poll", "pingpong-events",
            "write-64-q1000", "write-64-q8-t16"} <= names
    assert len(names) == len(rows.all_rows())


@pytest.mark.parametrize("slow", [False, True])
def test_rows_have_their_tools_options(slow):
    for found in rows.all_rows():
        words = found.words(slow).split()
        if found.is_perftest:
            assert words[words.index("-m") + 1] == str(found.mtu)
            assert ("-s" in words) == (found.verb != "atomic")
            assert ("-n" in words) == found.is_latency != ("-D" in words)
        assert rows.SECONDS <= found.seconds(slow) <= rows.SECONDS_MOST


def test_soft_roce_runs_longer_for_large_messages():
    many = row("write-1048576-q64")
    assert many.words(True).endswith("-D 12") and many.words().endswith("-D 2")
    assert row("write-64").words(True) == row("write-64").words()
    assert "-r 256" in row("send-64-q64").words()
    assert "-r" not in row("send-64-q8").words().split()


def test_a_thousand_qps_are_compared_at_the_same_depth():
    deep, few = row(rows.MANY_QPS), row(rows.MANY_QPS_PARTNER)
    assert deep.words() == few.words().replace("-q 8", "-q 1000")
    assert "-t 16 " in deep.words() and "-t" not in row("write-64-q8").words()
    assert deep.connecting() > 30 and not few.connecting()
    takes = pairs.Pair.would_take
    assert takes("link", deep) and takes("null", deep) and takes("rxe", few)
    assert not takes("rxe", deep)


def test_selections():
    quick = rows.chosen_rows(rows.QUICK)
    assert len(quick) == len(rows.QUICK)
    short = {found.name for found in rows.chosen_rows(rows.SHORT,
                                                      rows.SHORT_NOT)}
    assert {"write-64", "read-4096", "send-65536", "write-1048576", "atomic-8",
            "write-lat", "write-65536-q64", "read-65536-m1024", "tcp",
            "pingpong-poll"} <= short
    assert not short & {"write-65536-q8-m1024", "write-lat-4096", "write-64-q8"}
    wanted = {found.name for found in rows.chosen_rows(rows.REACH)}
    assert {f"{verb}-{size}{qps}" for verb in reach.ONE_WAY
            for size in (65536, 1 << 20) for qps in ("", "-q8", "-q64")} | {
                rows.MANY_QPS, rows.MANY_QPS_PARTNER, "write-lat"} <= wanted
    assert not wanted & {"write-1048576-m1024", "atomic-8"}
    with pytest.raises(SystemExit):
        rows.chosen_rows(["nothing-like-it"])


# ---- output of the tools -------------------------------------------------------

def test_numbers_of_bandwidth():
    assert rows.numbers_of(row("write-65536"), BANDWIDTH) == {
        "messages": 21200, "MB/s": 1048.576, "k/s": 16.0}


def test_rates_below_one_per_ms_are_numbers():
    few = " 8 1200 0.00 0.00 0.000600\n"
    assert rows.numbers_of(row("atomic-8"), few)["k/s"] == pytest.approx(0.6)


@pytest.mark.parametrize("rounds, keys", [
    (2000, {"median", "mean", "p99", "p99.9"}), (500, {"median", "mean", "p99"}),
    (10, {"median", "mean"})])
def test_percentiles_need_enough_rounds(rounds, keys):
    found = rows.numbers_of(row("write-lat"), LATENCY.format(rounds))
    assert set(found) == keys | {"messages"} and found["median"] == 39.11


def test_numbers_of_other_tools():
    assert rows.numbers_of(row("pingpong-poll"),
                           "1000 iters in 0.05 seconds = 52.70 usec/iter\n") == {
                               "mean": 52.7}
    report = {"end": {"sum_received": {"bits_per_second": 8e8}}}
    assert rows.numbers_of(row("tcp"), json.dumps(report)) == {"MB/s": 100}


@pytest.mark.parametrize("name, output", [
    ("write-64", ""), ("write-64", BANDWIDTH.replace(
        "1000.00", "0.00").replace("0.016000", "0.000000")),
    ("write-lat", " 8 1000\n"), ("tcp", '{"error": "no route"}'), ("tcp", ""),
    ("pingpong-poll", "Failed status 12")])
def test_failed_output_gives_no_numbers(name, output):
    assert rows.numbers_of(row(name), output) == {}


# ---- counters ------------------------------------------------------------------

def test_frames_per_message():
    assert pairs.frames(row("write-65536"), {"messages": 10}, [5, 100],
                        [10, 260]) == {"frames there": 16, "frames back": 0.5}
    assert pairs.frames(row("write-lat"), {"messages": 10}, [0, 0], [9, 9]) == {}
    assert pairs.frames(row("write-64"), {"messages": 10}, [0, 0], [0, 0]) == {}


def test_times_per_message_and_wake_up():
    before = {1: ("main", 5, 5, 5), 2: ("main", 0, 0, 0), 3: ("other", 9, 9, 9)}
    after = {1: ("main", 5 + 10**9, 5 + 6 * 10**6, 5 + 800),
             2: ("main", 10**9, 0, 200), 4: ("cpu", 10**9, 10**9, 0)}
    reported = pairs.times({"messages": 1000}, before, after, 2)
    assert reported["cpu"] == 1.5 and reported["main per message"] == 2000
    assert reported["main wait"] == 6 and reported["cpu wait"] == 0
    # Thread 3 has ended: its time is not subtracted.
    assert reported["other wait"] == reported["other per message"] == 0


CLOCKLESS = "Correlation coefficient r^2: 0.849731 < 0.9\n"


@pytest.mark.parametrize("clockless, runs", [(0, 1), (2, 3), (5, 3)])
def test_runs_without_a_clock_are_repeated(clockless, runs):
    """perftest prints the number of messages, but a rate of 0."""
    class Clockless(pairs.Pair):
        def __init__(self):
            self.name, self.done = "it", 0

        def counters(self):
            return {}, [0, 0]

        def threads(self):
            return {}

        def run(self, row, more):
            self.done += 1
            bad = self.done <= clockless
            rates = "0.00 0.000000" if bad else "3000.00 0.050000"
            out = f" 65536 114736 0.00 {rates}\n"
            end = SimpleNamespace(ok=True, timed_out=False, out=out,
                                  err=CLOCKLESS if bad else "")
            return SimpleNamespace(ok=True, client=end, server=end)

    pair = Clockless()
    row = next(row for row in bench.all_rows() if row.name == "read-65536-q8")
    found, why = pair.measured(row, "")
    assert pair.done == runs
    assert bool(found) == (clockless < runs) and ("clock" in why) == (not found)


def test_reason_of_a_run_without_numbers():
    def answer(code=0, err=""):
        return SimpleNamespace(code=code, ok=code == 0, timed_out=code == 124,
                               out="", err=err)
    good = answer()
    for server, client, text in (
            (good, answer(124), "client: timeout"),
            (answer(1, "one\ntwo\n"), good, "server: two"),
            (good, answer(0, CLOCKLESS),
             "client: could not measure the rate of its clock"),
            (good, good, "timeout: no message finished")):
        assert pairs.why(SimpleNamespace(server=server, client=client)) == text


@pytest.mark.parametrize("error, slow, crashes", [
    (GuestTimeout("no end\nof it"), False, 0), (GuestCrashed("it died"), False, 1),
    (GuestCrashed("it died"), True, 0), (ConnectionResetError(), False, 0)])
def test_lost_pairs_are_booted_again(error, slow, crashes):
    class Lost(pairs.Pair):
        def __init__(self):
            self.name, self.slow, self.crashes, self.boots = "it", slow, [], 0

        def measured(self, *_):
            raise error

        def boot(self):
            self.boots += 1
            if self.boots == 1:
                raise GuestTimeout("not at once")

        def stop(self):
            pass
    pair = Lost()
    numbers, why = pair.measure(row("write-64"))
    assert not numbers and why.startswith("lost: ") and "\n" not in why
    assert pair.boots == 2 and len(pair.crashes) == crashes


def test_null_device_runs_only_writes_without_packets():
    takes = pairs.Pair.would_take
    assert takes("null", row("write-64-q8")) and takes("stream", row("tcp"))
    assert not any(takes(name, row(of)) for name in ("null", "null@old")
                   for of in ("write-64-m1024", "read-64", "write-lat", "tcp"))


@pytest.mark.parametrize("name, nice", [
    ("link", 0), ("link+nice10", 10), ("stream+nice10@old", 10)])
def test_cpu_nice_is_a_device_of_its_own(tmp_path, monkeypatch, name, nice):
    """So that it runs by turns with the same device without it."""
    asked = []

    class Guests:
        def __init__(self, _):
            pass

        def get(self, **arguments):
            asked.append(arguments["options"]["cpu_nice"])
            return []
    monkeypatch.setattr(pairs, "Lab", Guests)
    monkeypatch.setattr(pairs.rdma, "bring_up_all", lambda *_: [])
    monkeypatch.setenv("FAKERNIC_WIRE", "")
    pairs.Pair(name, "/bin/true", tmp_path)
    assert asked == [nice] and os.environ["FAKERNIC_WIRE"] == pairs.DEVICES[
        name.partition("@")[0]][2]


# ---- a job ---------------------------------------------------------------------

class FakePair:
    """A pair without machines; LOG has its boots, stops and runs."""

    def __init__(self, name, log, results):
        self.name, self.device = name, name.partition("@")[0]
        self.log, self.results = log, results
        log.append(("boot", name))

    def stop(self):
        self.log.append(("stop", self.name))

    def takes(self, found):
        return pairs.Pair.would_take(self.name, found)

    def measure(self, found, more=""):
        self.log.append((found.name, self.name + more))
        result = self.results.get(self.name + more, {"MB/s": 10, "k/s": 1})
        if callable(result):
            result = result()
        return ({**result, "faults": result.get("faults", {})}, "") if result \
            else ({}, "client: broken")


def options(tmp_path, **others):
    words = ["--rows", "write-64", "write-65536", "--devices", "rxe", "stream",
             "--runs", "2", "--boots", "1", "--qemu", "/bin/true", "--out",
             str(tmp_path)]
    found = bench.parse(words)
    for name, value in others.items():
        setattr(found, name, value)
    return found


def job_of(asked, result=None):
    found = bench.settle(asked)
    result = result or {"machine": {}, "limits": {}, "rows": {}, "failed": {},
                        "devices": list(asked.builds)}
    return bench.Job(asked, found, result), result


def run(job, results=None):
    """The log of a job without machines."""
    log = []
    job.run(lambda name, _: FakePair(name, log, results or {}),
            pairs.Pair.would_take)
    return log


def measured(log):
    return [entry for entry in log if entry[0] not in ("boot", "stop")]


def test_pairs_alternate_after_a_warm_up(tmp_path):
    job, result = job_of(options(tmp_path))
    log = measured(run(job))
    assert log == [
        ("write-65536", "rxe"), ("write-65536", "stream"),  # to warm up
        ("write-64", "stream"), ("write-64", "rxe"),
        ("write-65536", "stream"), ("write-65536", "rxe"),
        ("write-64", "rxe"), ("write-64", "stream"),
        ("write-65536", "rxe"), ("write-65536", "stream")]
    assert all(len(runs) == 2 for row in result["rows"].values()
               for runs in row.values())
    assert not result["failed"]


def test_pairs_that_fail_twice_are_skipped(tmp_path):
    job, result = job_of(options(tmp_path, runs=5))
    log = measured(run(job, {"stream": None}))
    assert log.count(("write-64", "stream")) == bench.ENOUGH
    assert len(result["rows"]["write-65536"]["rxe"]) == 5
    assert [run["why"] for run in result["failed"]["write-65536"]["stream"]] == [
        "client: broken"] * bench.ENOUGH


def test_pairs_that_fail_at_times_are_not_skipped(tmp_path):
    works = {"MB/s": 1, "k/s": 1}
    answers = itertools.cycle([None, works, works])
    job, result = job_of(options(tmp_path, runs=6))
    run(job, {"stream": lambda: next(answers)})
    for name in ("write-64", "write-65536"):
        assert sum(len(result[part].get(name, {}).get("stream", []))
                   for part in ("rows", "failed")) == 6


@pytest.mark.parametrize("rxe", [
    None, {"MB/s": 1, "k/s": 1, "faults": {"completer_retry_err": 3}}])
def test_soft_roce_that_retransmits_gets_a_longer_timeout(tmp_path, rxe):
    job, result = job_of(options(tmp_path))
    run(job, {"rxe": rxe})
    assert len(result["rows"]["write-64"]["rxe" + PATIENT]) == 2


def test_soft_roce_that_retransmits_runs_many_qps_only_so(tmp_path):
    asked = options(tmp_path, rows=["write-64-q8", "write-64-q64"])
    job, result = job_of(asked)
    log = measured(run(job, {"rxe": {"k/s": 1, "faults": {"dup": 1}}}))
    assert ("write-64-q64", "rxe") not in log
    assert log.count(("write-64-q8", "rxe")) == 2
    for name in ("write-64-q8", "write-64-q64"):
        assert len(result["rows"][name]["rxe" + PATIENT]) == 2


def test_soft_roce_on_a_clean_wire_keeps_its_timeout(tmp_path):
    job, result = job_of(options(tmp_path))
    run(job)
    assert set(result["rows"]["write-64"]) == {"rxe", "stream"}


def test_interrupted_jobs_continue(tmp_path):
    asked = options(tmp_path, boots=2)
    job, result = job_of(asked)
    log, saved = [], tmp_path / "result.json"

    class Ended(FakePair):
        def measure(self, found, more=""):
            if len(measured(self.log)) == 9:
                raise KeyboardInterrupt
            return super().measure(found, more)
    with pytest.raises(KeyboardInterrupt):
        job.run(lambda name, _: Ended(name, log, {}), pairs.Pair.would_take)
    # The file is complete up to the last row.
    kept = json.loads(saved.read_text("utf-8"))
    assert [len(kept["rows"][name][device]) for name in ("write-64",
                                                         "write-65536")
            for device in ("rxe", "stream")] == [2, 2, 1, 1]
    job, kept = job_of(asked, kept)
    again = measured(run(job))
    assert again[2:4] == [("write-65536", "rxe"), ("write-65536", "stream")]
    assert len(again) == 2 + 2 + 2 + 8
    for devices in kept["rows"].values():
        for runs in devices.values():
            assert sorted(run["boot"] for run in runs) == [0, 0, 1, 1]
    job, _ = job_of(asked, kept)
    assert run(job) == []               # nothing is left to do: no pair boots


def test_interrupted_jobs_report_what_they_have(tmp_path, monkeypatch, capsys):
    class Interrupted(FakePair):
        would_take = pairs.Pair.would_take

        def __init__(self, name, *_):
            super().__init__(name, [], {})

        def versions(self):
            return "Linux"

        def measure(self, found, more=""):
            if len(self.log) == 4:      # booted, warm, two rows
                os.kill(os.getpid(), signal.SIGTERM)
            return super().measure(found, more)
    monkeypatch.setattr(bench, "Pair", Interrupted)
    monkeypatch.setattr(bench, "limits", lambda: {"memcpy": 1.0})
    monkeypatch.setattr(bench.sys, "argv", [
        "bench.py", "--rows", "write-64", "write-65536", "--devices", "stream",
        "--qemu", "/bin/true", "--out", str(tmp_path)])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert bench.main() == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "--resume continues" in capsys.readouterr().out
    text = (tmp_path / "result.md").read_text("utf-8")
    assert "| write-64 | thousand/s | 1 (1..1) |" in text
    assert (tmp_path / "result-throughput.svg").exists()


def test_a_job_ends_after_its_minutes(tmp_path, monkeypatch):
    ticks = itertools.count(0, 60)      # each look at the clock takes a minute
    monkeypatch.setattr(bench.time, "monotonic", lambda: next(ticks))
    job, result = job_of(options(tmp_path, runs=1000, boots=2, minutes=40))
    run(job)
    boots = [run["boot"] for run in result["rows"]["write-64"]["stream"]]
    assert 0 in boots and 1 in boots and len(boots) < 40


def test_rows_with_the_fewest_runs_come_first(tmp_path):
    asked = options(tmp_path, runs=1, boots=2)
    job, result = job_of(asked)
    result["rows"]["write-64"] = {
        name: [{"k/s": 1, "faults": {}, "boot": 0}] for name in asked.builds}
    log = measured(run(job))
    assert log[2][0] == "write-65536"           # of the first boot
    assert log[6:8] == [("write-64", "rxe"), ("write-64", "stream")]


def test_the_full_matrix_is_the_default():
    found = bench.parse([])
    found.qemu = bench.Path("/bin/true")
    assert len(bench.settle(found)) == len(rows.all_rows())
    assert found.runs * found.boots >= 5 and found.minutes
    assert list(found.builds) == list(pairs.USUAL)


def test_two_builds_are_compared():
    found = bench.parse(["--old", "/bin/false", "--qemu", "/bin/true", "--null"])
    bench.settle(found)
    assert list(found.builds) == [f"{name}@{which}" for name in bench.COMPARED
                                  for which in ("old", "new", "again")]
    with pytest.raises(SystemExit):
        bench.settle(bench.parse(["--null"]))


def test_jobs_of_other_rows_are_not_resumed(tmp_path):
    asked = options(tmp_path, resume=True)
    found = bench.settle(asked)
    (tmp_path / "result.json").write_text('{"asked": {}}', "utf-8")
    with pytest.raises(SystemExit, match="start a new job"):
        bench.begin(asked, found)


# ---- reports --------------------------------------------------------------------

def result_of(**devices):
    """A result with numbers of each kind of row."""
    limits = {"unix datagrams of 4200 bytes, GB/s": 2.5,
              "unix datagrams of 138 bytes, GB/s": 0.1,
              "the link's ring, frames of 4200 bytes, GB/s": 9.0,
              "a thread woken and back by eventfd, us": 45.0}
    found = {"machine": {"processor": "one | two"}, "limits": limits,
             "devices": ["rxe", "stream"], "rows": {}, "failed": {}}
    for name, factor in (("rxe", 1), ("stream", 10)):
        for wanted in rows.all_rows():
            latency = wanted.is_latency
            found["rows"].setdefault(wanted.name, {})[name] = [
                {key: by * (10 / factor if latency else factor)
                 for key in (table.LATENCIES if latency else ("MB/s", "k/s"))} |
                {"faults": {"retransmits": 2, "duplicates": 1}, "cpu": 1,
                 "boot": 0, "main per message": 3.5, "main wait": 2,
                 "frames back": 0.1} for by in (1, 2, 4)]
    found["rows"]["write-64"].update(devices)
    return found


def test_medians_spreads_and_ratios():
    result = Result(result_of())
    assert result.spread("write-64", "stream", "k/s") == (20, 10, 40)
    assert result.times("write-64", "stream", "k/s") == 10
    assert result.times("write-lat", "stream", "median", min) == 10
    assert result.median("write-64", "link", "k/s") is None
    assert result.times("write-64", "link", "k/s") is None


def test_ratios_use_soft_roces_better_median():
    found = result_of(**{"rxe" + PATIENT: [{"k/s": 4}]})
    assert Result(found).times("write-64", "stream", "k/s") == 5
    found["rows"]["write-64"]["rxe"] = []
    assert Result(found).times("write-64", "stream", "k/s") == 5


def test_the_table_has_every_row():
    found = result_of()
    found["failed"] = {"write-64-q8": {"rxe": [
        {"why": "client: broken | pipe\nmore", "boot": 0}]}}
    del found["rows"]["write-64-q8"]["rxe"]
    text = table.text_of(Result(found))
    assert "| write-64 | thousand/s | 2 (1..4) | 20 (10..40), 10 x |" in text
    assert "| write-lat, p99.9 | us | 20 (10..40) | 2 (1..4), 10 x |" in text
    assert "| write-64-q8 | thousand/s | failed | 20 (10..40) |" in text
    assert ("| write-64-q8 | rxe | 1 | client: broken \\| pipe |") in text
    assert ("| write-64 | stream | 3.5 |  |  | 2 |  |  |  | 0.1 | 6 sent again, "
            "3 duplicates |") in text
    assert "| processor | one \\| two |" in text
    for wanted in rows.all_rows():
        assert f"| {wanted.name}" in text


def test_the_table_of_targets():
    result = Result(result_of())
    table_rows = {cells[0]: cells[2:] for part in (
        reach.bandwidth, reach.many, reach.rates, reach.latencies, reach.others)
        for cells in part(result)}
    assert table_rows["write-65536"] == ("**10 x** (5..20)", "not measured")
    assert table_rows["write-1048576-q64"] == ("100% (50%..200%)", "not measured")
    assert table_rows["write-64-q1000 against write-64-q8-t16"] == (
        "100% (50%..200%)", "not measured")
    assert table_rows["send-lat, p99"] == ("1/10 (1/5..1/20)", "not measured")
    assert table_rows["send-lat, p99.9 in us"] == ("2 (1..4)", "not measured")
    assert table_rows["send-lat, mean / median"] == ("1.00 (1.00..1.00)",
                                                     "not measured")
    assert table_rows["faults, runs without an RNR NAK"] == (
        f"**{9 * len(rows.all_rows())}** in {3 * len(rows.all_rows())} runs",
        "not measured")
    assert ("write-64 of the null device's WRITEs, not measured", " | 50 %, "
            "aim 80 %", "", "not measured") in list(reach.rates(result))


def test_the_table_of_targets_without_any_number(tmp_path, capsys, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"machine": {}, "limits": {}, "rows": {},
                                "devices": ["stream"]}), "utf-8")
    monkeypatch.setattr(reach.sys, "argv", ["reach.py", str(path)])
    reach.main()
    heads, *lines = capsys.readouterr().out.split("|---|---|---|---|\n")
    assert heads.startswith("not measured\n") and len(lines) == 1
    assert all("not measured" in line for line in lines[0].splitlines())
    assert "**" not in lines[0]


def test_the_page_has_what_was_measured():
    """Its tables and figures are those of the kept file."""
    result = Result.read(page.KEPT)
    assert page.tables(result) in page.PAGE.read_text(encoding="utf-8")
    assert len(list(page.headlines(result))) == 12
    for name, text in plot.figures(result):
        assert page.KEPT.with_name(f"results-{name}.svg").read_text(
            encoding="utf-8") == text


def test_the_kept_file_is_reduced_by_its_script():
    found = json.loads(page.KEPT.read_text("utf-8"))
    for row in found["rows"].values():
        for run in itertools.chain(*row.values()):
            run.setdefault("faults", {})
    again = page.text_of_kept(page.kept(found, found["engine"]))
    assert again == page.KEPT.read_text("utf-8")


def test_the_kept_file_gives_the_same_tables():
    whole = {**result_of(), "limits after": result_of()["limits"]}
    less = json.loads(page.text_of_kept(page.kept(whole, {})))
    assert len(json.dumps(less)) < len(json.dumps(whole))
    for part in (reach.bandwidth, reach.many, reach.rates, reach.latencies,
                 reach.others, page.headlines):
        assert list(part(Result(less))) == list(part(Result(whole)))


def test_only_the_part_between_the_markers_changes():
    text = "a\n<!-- begin page.py -->\nold\n<!-- end page.py -->\nb\n"
    assert page.page_with("new\n", text) == text.replace("old", "new")
    with pytest.raises(SystemExit, match="no markers"):
        page.page_with("new\n", "a\nb\n")


@pytest.mark.parametrize("size, wanted", [
    (64, 0.1e3 * 64 / 138), (4096, 2.5e3 * 4096 / 4200),
    (1 << 20, 2.5e3 * 4096 / 4200)])
def test_limits_count_payload_only(size, wanted):
    limits = result_of()["limits"]
    assert plot.limit_of(limits, "unix datagrams", size) == pytest.approx(wanted)
    assert plot.limit_of(limits, "the link's ring", 64) is None


def test_figures(tmp_path):
    """Each has a title, a description, few lines, and a mark per measurement."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(result_of()), "utf-8")
    made = plot.draw(path)
    assert [one.name for one in made] == ["r-throughput.svg", "r-latency.svg"]
    for one, drawn in zip(made, (plot.THROUGHPUT, plot.LATENCY)):
        text = one.read_text("utf-8")
        root = ElementTree.fromstring(text)
        assert [child.tag.rpartition("}")[2] for child in root[:2]] == [
            "title", "desc"] and root[0].text and root[1].text
        assert text.count("\n") < 400
        assert text.count('class="mark"') == 2 * len(drawn)
        assert 'class="wanted"' in text and "wanted" in root[1].text
        assert text.count("fakernic, stream") == 2 * len(drawn)  # once in desc


def test_a_figure_has_no_mark_for_what_was_not_measured(tmp_path):
    found = result_of()
    found["rows"] = {"write-65536": {"stream": found["rows"]["write-65536"][
        "stream"]}, "send-lat": {}}
    (name, text), = plot.figures(Result(found))
    assert name == "throughput" and text.count('class="mark"') == 1
    assert "Soft-RoCE" not in text


def test_devices_differ_without_colour():
    shapes = [path for _, _, path in (*plot.MARKS.values(), plot.OTHER)]
    assert len(set(shapes)) == len(shapes)


# ---- what a message costs -------------------------------------------------------

PROFILE = """Type               Object  Call site                     Wait Time (s)         Count  Average (us)
--------------------------------------------------------------------------------------------------
BQL mutex  0x55d0c8a0d3a0  accel/tcg/cputlb.c:1998            0.01234          5000          2.47
condvar    0x55d0c8a0e000  util/thread-pool.c:91              9.00000             7       1285.71
BQL mutex  [           3]  util/main-loop.c:312               0.00345           340         10.15
mutex      0x55d0c8a0f000  util/async.c:400                   0.00000            12          0.00
--------------------------------------------------------------------------------------------------
"""
CALLS = """    calls syscall
--------- ----------------
      412 ppoll
       17 sendmsg
--------- ----------------
      429 total
"""


def test_a_cost_is_the_difference_of_two_runs():
    few = {"client": {"interrupts": 30, "early": 5}, "server": {"interrupts": 3}}
    many = {"client": {"interrupts": 130, "late": 50}, "server": {"interrupts": 3}}
    found = cost.per_message(few, many, 100)
    assert found["client"] == {"interrupts": 1, "early": -0.05, "late": 0.5}
    assert found["server"] == {"interrupts": 0}


def test_only_the_big_lock_is_counted():
    assert cost.lock_count(PROFILE) == 5340


def test_system_calls_are_read_from_strace():
    assert cost.calls_in(CALLS) == {"ppoll": 412, "sendmsg": 17}


def test_accesses_are_those_of_the_guest():
    found = cost.accesses({"doorbell-sq": 4, "doorbell-poll": 3, "interrupt": 9,
                           "dma-read": 7, "msix": 1, "config-load": 2,
                           "load-0x020": 5, "store-0x05c": 6})
    assert found["other"] == 14 and found["other load-0x020"] == 5
    assert [found[name] for name in cost.DOORS] == [4, 0, 0, 3]


def test_rows_of_costs():
    names = [row.name for row in cost.all_rows()]
    assert len(set(names)) == len(names)
    assert {"write-8", "write-64", "write-4096", "write-65536", "send-64", "read-64",
            "atomic-8", "send-ud-lat"} <= set(names)
    for found in cost.all_rows():
        for traced in (False, True):
            few, many = found.rounds(traced)
            assert 5 <= few < many
    with pytest.raises(SystemExit, match="no row matches moon"):
        cost.chosen(["moon"])


def test_a_cell_names_what_was_not_counted():
    found = {"client": {"DMAs": 2.004}, "server": {"DMAs": 1}}
    assert cost.cell(found, ("DMAs",)) == "2 + 1"
    assert cost.cell(found, ("system calls",)) == "not counted"
    assert cost.cell({"client": {"a": -0.01}, "server": {"a": -3}},
                     ("a",)) == "0 + unclear"


def test_the_cost_page_has_what_was_measured():
    result = json.loads(cost.KEPT.read_text("utf-8"))
    assert cost.tables(result) in cost.PAGE.read_text("utf-8")
    assert cost.written(result) == cost.KEPT.read_text("utf-8")


# ---- bench-kvm ------------------------------------------------------------------

def kvm_ends(monkeypatch, reason, *words):
    monkeypatch.setattr(kvm.places, "why_no_kvm", lambda: reason)
    monkeypatch.setattr(sys, "argv", ["kvm.py", *words])
    return kvm.main()


def test_without_kvm_one_line_says_what_to_do(monkeypatch):
    with pytest.raises(SystemExit) as ended:
        kvm_ends(monkeypatch, "there is no /dev/kvm")
    text = ended.value.code
    assert "\n" not in text and text.startswith("bench-kvm: there is no /dev/kvm.")
    assert "BENCH=--tcg" in text


@pytest.mark.parametrize("reason, words", [(None, []), ("no KVM", ["--tcg"])])
def test_check_measures_nothing(monkeypatch, reason, words):
    monkeypatch.setattr(kvm, "run", None)
    assert kvm_ends(monkeypatch, reason, "--check", *words) == 0


def test_the_kvm_file_has_no_private_words(monkeypatch, tmp_path):
    """They are removed from texts at any depth, and from names of members."""
    monkeypatch.setattr(kvm.socket, "gethostname", lambda: "secret-host")
    monkeypatch.setenv("FAKERNIC_HOST_CACHE", "/home/somebody/.cache/fakernic")
    monkeypatch.setattr(kvm, "run", lambda tool, options, out: {
        "exit": 0, "failed": [{"why": "/home/somebody/.cache/fakernic/x: secret-host"}],
        "secret-host": 3})
    assert kvm_ends(monkeypatch, "no KVM", "--tcg", "--out", str(tmp_path)) == 0
    text = (tmp_path / "fakernic-kvm.json").read_text("utf-8")
    assert "secret-host" not in text and "somebody" not in text
    found = json.loads(text)
    assert found["accelerator"] == "tcg" and found["cost.py"][kvm.PRIVATE] == 3
    assert found["host"]["kernel"] == f"Linux {os.uname().release}"


def test_a_tool_that_leaves_nothing_fails_bench_kvm(monkeypatch, tmp_path):
    monkeypatch.setattr(kvm.subprocess, "run", lambda *_args, **_more:
                        subprocess.CompletedProcess([], 1))
    with pytest.raises(SystemExit, match="cost.py ended with 1 and left no result"):
        kvm_ends(monkeypatch, None, "--out", str(tmp_path))


def test_bench_kvm_asks_for_known_rows_and_devices():
    for options in (kvm.USUAL["bench.py"], kvm.SHORT["bench.py"]):
        parsed = bench.parse(options)
        assert rows.chosen_rows(parsed.rows) and parsed.devices
    for options in (kvm.USUAL["cost.py"], kvm.SHORT["cost.py"]):
        assert cost.chosen(cost.parse(options).rows)


# ---- bench-awake ----------------------------------------------------------------

def awake_results(on=1.0, again=1.0, polls=0.04, idle=3.8):
    """Results of cost.py and bench.py. ON, AGAIN: speeds relative to the device without
    the event index."""
    names = [row.name for row in rows.chosen_rows(awake.ROWS)]
    end = {"access send": 0.05, "access poll": polls}
    speeds = {awake.OFF: 1, awake.AGAIN: again, awake.ON: on}
    found = {row: {name: [{key: 100 / speed if key in table.LATENCIES else 100 * speed
                           for key in awake.keys_of(row)}]
                   for name, speed in speeds.items()} for row in names}
    return ({"rows": {awake.ON: {row: {"client": end, "server": {}}
                                 for row in awake.SMALL}},
             "idle": {"percent": {awake.OFF: 3.8, awake.ON: idle}}},
            Result({"rows": found, "limits": {}, "devices": list(speeds)}))


@pytest.mark.parametrize("changed", [{}, {"on": 1.5}, {"on": 0.9, "again": 0.85}])
def test_all_conditions_hold(changed):
    text = awake.verdict(awake.conditions(*awake_results(**changed)))
    assert text.endswith("switch sq-awake-us on by default") and "not hold" not in text


@pytest.mark.parametrize("changed, count", [
    ({"polls": 0.06}, len(awake.SMALL)), ({"idle": 4}, 1)])
def test_a_condition_that_does_not_hold_leaves_it_off(changed, count):
    text = awake.verdict(awake.conditions(*awake_results(**changed)))
    assert f"leave sq-awake-us off: {count} of " in text
    assert text.count(awake.HOLDS[False]) == count


def test_slower_rows_and_missing_ones_leave_it_off():
    cost_result, result = awake_results(on=0.9, again=0.97)
    failed = [text for text, _, holds in awake.conditions(cost_result, result)
              if not holds]
    assert {"write-64, k/s: no slower", "read-lat, p99: no slower"} <= set(failed)
    del result.rows["read-lat"]
    assert ("read-lat, p99: no slower", "not measured", False) in awake.conditions(
        cost_result, result)


@pytest.mark.parametrize("short", [False, True])
def test_bench_awake_asks_for_known_rows_and_devices(short):
    words = awake.options_of(short)
    assert rows.chosen_rows(bench.parse(words["bench.py"]).rows)
    parsed = cost.parse(words["cost.py"])
    assert [row.name for row in cost.chosen(parsed.rows)] == list(awake.SMALL)
    assert parsed.wires == [awake.OFF, awake.ON]
