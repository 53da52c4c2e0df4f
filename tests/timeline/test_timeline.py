# SPDX-License-Identifier: GPL-2.0-or-later
"""The timeline of handmade records: finds the events that belong together, reports
those that do not fit, and makes a page that a browser can show."""

import functools
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from demo_records import (
    A, B, FRAMES, LOST_READ, NONE, PSN, SEND, TICKS, TOP, Recorder, kinds, mac,
    packet, read_request, response)
from fakernic_lab.timeline import clock, files, page, words
from fakernic_lab.timeline.model import Model
from fakernic_lab.timeline.picture import WIDTH, Picture
from fakernic_lab.timeline.records import (
    ENTRY, HEADER, OPERATIONS, OTHERS, SERVICES, RecordError, read)
from fakernic_lab.timeline.steps import STEPS

LAB = TOP / "tests/lab/fakernic-lab"
LUA = TOP / "tests/lab/fakernic_lab/timeline/fakernic.lua"
NOBODY = 65534
LIAR = 99               # a QP
# The events of a SEND at both ends, if b waits for an interrupt.
JOURNEY = {
    "a": ["mark", "doorbell_sq", "dma_read", "wqe", "dma_read", "tx",
          "dma_read", "tx", "rx", "cqe", "dma_write", "cqe_visible", "mark"],
    "b": ["rx", "dma_read", "recv_wqe", "dma_write", "rx", "dma_write", "cqe",
          "dma_write", "cqe_visible", "eqe", "interrupt", "doorbell_eq",
          "mark", "tx"]}


def records_of(steps, tmp_path):
    """Write STEPS, (node, kind, fields) in order of time, to files; read them."""
    nodes = {"a", "b", *(node for node, _, _ in steps)}
    recorders = {node: Recorder() for node in sorted(nodes)}
    for number, (node, kind, fields) in enumerate(steps):
        recorders[node].add(1000 + 500 * number, kind, **fields)
    found = {}
    for node, recorder in recorders.items():
        recorder.mac = mac(node)
        path = tmp_path / node
        path.write_bytes(recorder.file())
        found[node] = read(path, node)
    return found


def where(steps, kind, **fields):
    """The index of the first step with this kind and these fields."""
    return next(number for number, (_, found, others) in enumerate(steps)
                if found == kind and fields.items() <= others.items())


def test_send_is_one_sequence(tmp_path):
    model = Model(records_of(SEND, tmp_path))
    assert not model.problems
    request, = model.requests
    for node, kinds_there in JOURNEY.items():
        assert [event.kind for event, _ in request.events()
                if event.node == node] == kinds_there
    assert len(request.packets) == 2 and len(request.answers) == 1
    assert "again" not in page.text(request)


def test_index_from_the_record_stands_for_the_doorbell(tmp_path):
    steps = [(node, kind.replace("doorbell_sq", "sq_record"), fields)
             for node, kind, fields in SEND]
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    request, = model.requests
    assert request.doorbell.kind == "sq_record"
    assert "record: QP" in page.text(request)


def seconds_for(packets, folder):
    """The CPU time of making a timeline of a work request of PACKETS packets."""
    steps = [step for step in SEND if step[1] in ("doorbell_sq", "wqe")]
    for number in range(packets):
        steps += packet("a", "b", A, B, 0, number, 0x01)
    recorders = {node: Recorder(1 << 17, 1 << 22) for node in "ab"}
    for number, (node, kind, fields) in enumerate(steps):
        recorders[node].add(1000 + number, kind, **fields)
    folder.mkdir()
    for node, recorder in recorders.items():
        (folder / node).write_bytes(recorder.file())
    begin = time.process_time()
    files.make({node: folder / node for node in "ab"}, folder / "out")
    return time.process_time() - begin


def test_long_requests_take_time_by_their_length(tmp_path):
    """Eight times the packets must not take 64 times as long, as a quadratic search
    would. A busy machine may disturb one measurement, but not all three."""
    took = []
    for number in range(3):
        took.append([seconds_for(packets, tmp_path / f"{packets}.{number}")
                     for packets in (2000, 16000)])
        few, many = took[-1]
        if many < 24 * few:
            return
    pytest.fail(f"{took}")


def lines_run(work):
    """The number of lines that WORK runs, which is independent of the machine."""
    count = 0

    def trace(*_):
        nonlocal count
        count += 1
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def hits(kind, count):
    """COUNT WRITEs of machine a, and COUNT hits of rules of machine b. KIND names
    the packets that were hit: in no record (nobody), received (taken), lost, or
    sent to machine c."""
    packets = [packet("a", "b", A, B, 0, 5 if kind == "sent" else number, 0x0a)
               for number in range(count)]
    rule = {"point": 2, "action": 2, "hits": 1, "qpn": B, "psn": 5}
    if kind == "nobody":
        rule |= {"qpn": 0, "psn": 0xfffff0}
    steps = []
    for tx, out, _, rx in packets:
        if kind == "sent":
            out[2]["data"] = mac("c") + out[2]["data"][6:]
        steps += [tx, *([out] if kind == "sent" else []),
                  *([rx] if kind in ("nobody", "taken") else [])]
    return [*steps, *(("b", "fault", rule) for _ in range(count)),
            *((node, "qp_state", {"qpn": 1}) for node in "ab")]


@pytest.mark.parametrize("kind", ["nobody", "taken", "lost", "sent"])
def test_faults_take_time_by_their_number(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(Recorder, "__init__", functools.partialmethod(
        Recorder.__init__, 1024, 1 << 16))
    counts = []
    for count in (50, 400):
        records = records_of([*hits(kind, count), ("c", "reset", {})], tmp_path)
        counts.append(lines_run(lambda: Model(records)))
    assert counts[1] < 12 * counts[0], counts


def test_lost_packet_is_explained(tmp_path):
    steps = list(SEND)
    first = where(steps, "tx")
    tx, out, into, rx = steps[first:first + 4]
    steps[first + 3] = ("b", "fault", {"point": 2, "action": 1, "hits": 1,
                                       "qpn": B, "psn": rx[2]["psn"]})
    again = ("a", "tx", {**tx[2], "attempt": 2})
    steps[first + 4:first + 4] = [again, out, into, rx]
    steps += [(node, "qp_state", {"qpn": 9, "from": 1, "to": 2})
              for node in "ab"]
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    request, = model.requests
    assert [packet.lost() for packet in request.packets].count(True) == 1
    assert "rx: drop PSN +0" in page.text(request)
    assert "again: SEND First" in page.text(request)
    assert len(page.text(request).splitlines()) <= 40


@pytest.mark.parametrize("point, node", [(1, "a"), (2, "b")])
def test_forged_packet_counts_as_received(tmp_path, point, node):
    """A packet that was corrupted with a correct ICRC is received."""
    steps = list(SEND)
    first = where(steps, "tx")
    steps.insert(first + point, (node, "fault", {
        "point": point, "action": 3, "hits": 1, "qpn": B if point == 2 else A,
        "psn": steps[first][2]["psn"]}))
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    request, = model.requests
    assert not any(packet.lost() for packet in request.packets)
    assert ": corrupt PSN +0" in page.text(request)


def test_implied_nak_is_explained(tmp_path):
    """The page shows the fault, the retransmission, and the second attempt."""
    model = Model(records_of(LOST_READ, tmp_path))
    assert not model.problems
    request, = model.requests
    text = page.text(request)
    assert re.search(r"fault rule .*PSN \+1\n(.*\n)*.* resends from PSN \+1, "
                     r"6 tries left\n(.*\n)*.*again: .*PSN \+1\n", text), text
    assert "PSN +0 is 100" in text
    assert len(text.splitlines()) <= 40
    assert "resends from PSN +1" in Picture(request).file()


def two_writes(*order):
    """Two WRITEs of one packet. A rule loses the first. The arrival of the second
    ("comes") reveals this, and the peer sends a NAK ("misses"). ORDER names both.
    Then both packets are sent again."""
    write = {"qpn": A, "opcode": 4, "blocks": 1}
    first, second = (packet("a", "b", A, B, number, PSN + number, 0x0a, 8)
                     for number in (0, 1))
    again = [step if step[1] != "tx" else (*step[:2], {**step[2], "attempt": 2})
             for step in (*first, *second)]
    said = {"qpn": B, "psn": PSN, "syndrome": 0x60}
    middle = {"comes": second, "misses": (
        ("b", "nak_tx", said), *packet("b", "a", B, A, NONE, PSN, 0x11))}
    done = [("a", kind, {"cqn": 1, "pi": number, "qpn": A, "index": number,
                         "opcode": 4})
            for number in (0, 1) for kind in ("cqe", "cqe_visible")]
    return (("a", "doorbell_sq", {"qpn": A, "pi": 2, "ci": 0}),
            ("a", "wqe", {**write, "index": 0}),
            ("a", "wqe", {**write, "index": 1}), *first[:-1],
            ("b", "fault", {"point": 2, "action": 1, "hits": 1, "qpn": B,
                            "psn": PSN}),
            *(step for part in order for step in middle[part]), *again,
            *packet("b", "a", B, A, NONE, PSN + 1, 0x11), *done)


def test_nak_of_missing_request_needs_later_packet(tmp_path):
    """A NAK for a request of which no packet has arrived needs a later packet
    that has."""
    model = Model(records_of(two_writes("comes", "misses"), tmp_path))
    assert not model.problems
    first, second = model.requests
    assert [packet.tx.psn for packet in first.answers] == [PSN]
    assert len(first.packets) == len(second.packets) == 2
    model = Model(records_of(two_writes("misses", "comes"), tmp_path))
    assert any("nothing behind it has come" in problem
               for problem in model.problems)


def send_by_timeout():
    """A SEND whose last packet the wire loses, and so the probe for it."""
    steps = list(SEND)
    last = where(steps, "tx", opcode=0x02)
    tx, out, into, rx = steps[last:last + 4]
    say = {"qpn": A, "psn": tx[2]["psn"]}
    again = {**tx[2], "attempt": 2}
    return (*steps[:last + 2], ("a", "probe", {**say, "count": 1}),
            ("a", "tx", again), out, ("a", "timeout", {**say, "left": 7}),
            ("a", "retry", {**say, "left": 6}),
            ("a", "tx", {**again, "attempt": 3}), out, into, rx,
            *steps[last + 4:])


def lost_ones(steps, tmp_path):
    """The (PSN, attempt) of packets of the SEND that never arrived. The wire may
    lose frames."""
    model = Model(records_of(steps, tmp_path), whole=False)
    assert not model.problems
    request, = model.requests
    return [(packet.tx.psn, packet.tx.attempt) for packet in request.packets
            if packet.lost()], page.text(request)


def test_lost_packet_is_not_received(tmp_path):
    lost, text = lost_ones(send_by_timeout(), tmp_path)
    assert lost == [(0, 1), (0, 2)]
    assert re.search(r" x SEND Last, PSN \+1\n(.*\n)*.* probe 1 from PSN \+1\n"
                     r".* x again: SEND Last, PSN \+1\n"
                     r".* timeout: no answer to PSN \+1\n"
                     r".* resends from PSN \+1, 6 tries left\n"
                     r"(.*\n)*.* > attempt 3: SEND Last, PSN \+1\n", text), text


def first_twice(first_time, second_time):
    """A SEND whose first packet is sent again after the second has arrived. The
    arguments are the receiver's events for it, before and after the second."""
    steps = list(SEND)
    first = where(steps, "tx")
    tx, out, into, rx = steps[first:first + 4]
    tail = packet("a", "b", A, B, 0, PSN + 1, 0x02, 100)
    seen = {"rx": rx, "into": into, "delay": (
        "b", "fault", {"point": 2, "action": 2, "hits": 1, "qpn": B,
                       "psn": PSN})}
    again = ("a", "tx", {**tx[2], "attempt": 2})
    steps[first:first + 4] = [
        tx, out, *(seen[name] for name in first_time), *tail, again, out,
        *(seen[name] for name in second_time)]
    return steps


@pytest.mark.parametrize("first_time, second_time, lost", [
    ((), ("into", "rx"), [(PSN, 1)]),
    (("into", "rx"), (), [(PSN, 2)]),
    (("into", "rx"), ("into", "rx"), []),
    (("into", "delay"), ("rx", "into", "rx"), []),
])
def test_overtaken_packet_is_lost(tmp_path, first_time, second_time, lost):
    """A packet that a later one overtakes is lost, unless a rule delayed it."""
    assert lost_ones(first_twice(first_time, second_time), tmp_path)[0] == lost


def test_attempts_that_come_together(tmp_path):
    """Two attempts that waited at the receiver both arrive."""
    steps = list(send_by_timeout())
    again = where(steps, "tx", attempt=3)
    steps[again + 4:again + 4] = 2 * steps[again + 2:again + 4]
    assert lost_ones(steps, tmp_path)[0] == []


def test_first_of_three_attempts_is_hit(tmp_path):
    """Three attempts wait at the receiver, where a rule drops the first."""
    write = {"qpn": A, "opcode": 4, "blocks": 1}
    sent = [packet("a", "b", A, B, number, PSN + number, 0x0a, 8)
            for number in (0, 1)]
    steps = [("a", "doorbell_sq", {"qpn": A, "pi": 2, "ci": 0}),
             *(("a", "wqe", {**write, "index": number}) for number in (0, 1))]
    for attempt in (1, 2, 3):
        for tx, out, _, _ in sent:
            steps += [("a", "tx", {**tx[2], "attempt": attempt}), out]
    arrivals = 3 * [sent[0][2:], sent[1][2:]]
    steps += [arrivals[0][0],
              ("b", "fault", {"point": 2, "action": 1, "hits": 1, "qpn": B,
                              "psn": PSN}),
              *(step for arrival in arrivals[1:] for step in arrival)]
    steps += [(node, "qp_state", {"qpn": qpn, "from": 1, "to": 2})
              for node, qpn in (("a", A), ("b", B))]
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    assert [(packet.tx.psn, packet.tx.attempt) for packet in model.packets
            if packet.gone()] == [(PSN, 1)]


def test_each_machine_has_its_events(tmp_path):
    """Packets find their receivers among three machines with equal QP numbers and
    PSNs."""
    one, two = (packet(source, target, A, B, 0, 5, 0x0a, 8)
                for source, target in ("ab", "bc"))
    steps = (*one[:2], *two, *one[2:])
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    assert [(found.tx.node, [rx.node for rx in found.rx])
            for found in model.packets] == [("a", ["b"]), ("b", ["c"])]


@pytest.mark.parametrize("first, second", [
    ("dma_write", "cqe"), ("tx", "rx"), ("cqe", "cqe_visible"), ("cqe_visible", "mark"),
    ("doorbell_sq", "wqe"), ("eqe", "interrupt"), ("eqe", "doorbell_eq"),
    ("cqe_visible", "eqe")])
def test_effect_before_cause_is_reported(tmp_path, first, second):
    steps = list(SEND)
    i = where(steps, first)
    j = next(j for j in range(i, len(steps)) if steps[j][1] == second)
    steps[i], steps[j] = steps[j], steps[i]
    assert Model(records_of(steps, tmp_path)).problems


def test_completion_without_response_is_reported(tmp_path):
    """The answer, or the last response of a READ, comes after the completion."""
    asked = (*LOST_READ[:4], *read_request(100), *response(100, 0x0d),
             *response(101, 0x0e), *response(102, 0x0f), *SEND[-4:])
    for story in (SEND, asked):
        steps = list(story)
        assert not Model(records_of(steps, tmp_path)).problems
        answer = max(i for i, step in enumerate(steps)
                     if step[:2] == ("a", "rx"))
        done = next(i for i, step in enumerate(steps)
                    if i > answer and step[:2] == ("a", "cqe"))
        steps.insert(done, steps.pop(answer))
        assert any("before it was answered" in problem for problem in
                   Model(records_of(steps, tmp_path)).problems)


def test_loss_without_rule_is_reported(tmp_path):
    steps = [step for step in SEND if step[:2] != ("b", "rx")]
    assert Model(records_of(steps, tmp_path), whole=False).problems == []
    steps += [(node, "qp_state", {"qpn": 9, "from": 1, "to": 2})
              for node in "ab"]
    assert any("never received" in problem for problem in
               Model(records_of(steps, tmp_path)).problems)


def stamped(tmp_path, count=8, forged=()):
    """The record of a program that posts every 100 us and polls 25 us later. The
    device finds the stamp of a post 0.9 to 2.3 us late, with the doorbell. It finds
    the stamp of a poll 75 us late, the last one a second late. Another program
    leaves FORGED stamps between them."""
    recorder, polled = Recorder(), []
    for number in range(count):
        start = 100_000 * (number + 1)
        found = start + (900, 1600, 2300)[number % 3]
        recorder.add(found, "mark", ticks=3 * start + TICKS, step=1, id=A,
                     index=number)
        recorder.add(found + 1, "doorbell_sq", qpn=A, pi=number + 1, ci=number)
        for fields in polled:
            recorder.add(start + 19_900, "mark", **fields)
        for kind in ("cqe", "cqe_visible"):
            recorder.add(start + 20_000, kind, cqn=1, pi=number, qpn=A,
                         index=number)
        polled = [{"ticks": 3 * (start + 25_000) + TICKS, "step": 2, "id": 1,
                   "index": number + 1}]
        for ticks in forged[number:number + 1]:
            recorder.add(start + 30_000, "mark", ticks=ticks, step=1, id=LIAR,
                         index=0)
    recorder.add(10 ** 9, "mark", **polled[0])
    path = tmp_path / "a"
    path.write_bytes(recorder.file())
    return path


def test_marks_have_their_place(tmp_path):
    events = read(stamped(tmp_path), "a")
    times = [event.time for event in events]
    assert times == sorted(times)
    marks = [event for event in events if event.kind == "mark"]
    assert [mark.step for mark in marks] == 8 * [1, 2]
    for mark in marks:
        late = mark.time - (mark.ticks - TICKS) // 3
        assert 0 <= late <= 900, mark
    model = files.make({"a": tmp_path / "a"})
    assert not model.problems
    reported, = re.findall(r"a's programs marked at most ([\d.]+) us late",
                       files.verdict(model)[0])
    assert 5 <= float(reported) <= 7


@pytest.mark.parametrize("forged", [
    (2 ** 63,), (1,), (2 ** 64 - 1, 1, 2 ** 63, TICKS // 2),
    (TICKS + 3 * 10 ** 10,), 6 * (TICKS - 3,)])
def test_forged_stamps_move_nothing(tmp_path, forged):
    """A stamp from before or after the record is forged, and changes no mark."""
    model = files.make({"a": stamped(tmp_path, forged=forged)}, tmp_path / "out")
    assert not model.problems
    lies = [event.time for event in model.records["a"]
            if event.fields.get("id") == LIAR]
    assert lies == [100_000 * (number + 1) + 30_000
                    for number in range(len(forged))]
    honest = [event for event in model.records["a"] if event.kind == "mark" and
              event.id != LIAR]
    assert len(honest) == 16
    for mark in honest:
        assert 0 <= mark.time - (mark.ticks - TICKS) // 3 <= 900, mark


def marked(number, found, made):
    """A mark that was MADE and FOUND at these times in nanoseconds, of three ticks
    each."""
    ticks = 3 * found
    return SimpleNamespace(kind="mark", number=number, time=found,
                           high=ticks >> 32, low=ticks & 0xffffffff,
                           ticks=TICKS + 3 * made, fields={"ticks": True})


def test_stamp_after_the_end_moves_nothing():
    """The stamp is after the end by less than the length of the record."""
    honest = [marked(number, 50_000_000 * number, 50_000_000 * number - 100)
              for number in range(1, 20)]
    liar = marked(20, 955_000_000, 1_500_000_000)
    last = marked(21, 1_000_000_000, 999_999_900)
    found = {id(mark): mark.time for mark in (*honest, liar, last)}
    clock.place([*honest, liar, last])
    for mark in (*honest, last):
        assert found[id(mark)] - 100 <= mark.time <= found[id(mark)], mark
    assert liar.time == 955_000_000


def test_poll_before_completion_is_reported(tmp_path, monkeypatch):
    """A poll before its completion is reported, wherever the device found it."""
    def early(recorder, time, kind, add=Recorder.add, **fields):
        if kind == "mark" and fields["step"] == 2 and fields["index"] == 4:
            fields["ticks"] -= 3 * 10_000
        add(recorder, time, kind, **fields)
    monkeypatch.setattr(Recorder, "add", early)
    model = files.make({"a": stamped(tmp_path)})
    assert len(model.problems) == 1 and "polled before" in model.problems[0]


TOLD = {"cqn": 2, "pi": 1, "qpn": B, "index": 4, "opcode": 128}
EVENT = {"eqn": 1, "pi": 1, "type": 1, "id": 2, "vector": 1}


@pytest.mark.parametrize("more, wrong", [
    ([("interrupt", {"vector": 9})], "without an event"),
    # The first interrupt uses up its cause; a handler that arms late adds one.
    ([("interrupt", {"vector": 1})], "without an event"),
    ([("eqe", {**EVENT, "type": 2, "armed": 0}), ("interrupt", {"vector": 1})],
     "without an event"),
    ([("eqe", {**EVENT, "type": 2, "armed": 1}), ("interrupt", {"vector": 1})],
     None),
    ([("eqe", {**EVENT, "type": 2}), ("doorbell_eq", {"eqn": 1, "ci": 1,
                                                      "arm": 1}),
      ("interrupt", {"vector": 1})], None),
    ([("eqe", {**EVENT, "type": 2}), ("doorbell_eq", {"eqn": 1, "ci": 1}),
      ("interrupt", {"vector": 1})], "without an event"),
    ([("command_done", {}), ("interrupt", {"vector": 0})], None),
    ([("interrupt", {"vector": 0})], "without an event"),
    # A CQ reports an entry once, and only if it is armed.
    ([("cqe", TOLD), ("cqe_visible", TOLD), ("eqe", EVENT)], "the CQ was not armed"),
    ([("arm", {"cqn": 2, "ci": 1}), ("eqe", EVENT)], "before it was visible"),
    ([("arm", {"cqn": 2, "ci": 1}), ("cqe", TOLD), ("cqe_visible", TOLD),
      ("eqe", EVENT)], None),
    ([("arm", {"cqn": 2, "ci": 0}), ("eqe", EVENT)], None),
    ([("fault", {"point": 3, "action": 1}),
      ("interrupt", {"vector": 1})], None),
    ([("reset", {}), ("interrupt", {"vector": 1})], "without an event"),
    # The device records a doorbell before it checks it.
    ([("doorbell_eq", {"eqn": 5, "ci": 0xffffffff, "arm": 1})], None),
    ([("doorbell_eq", {"eqn": 5, "ci": 0xffffffff, "arm": 1}),
      ("interrupt", {"vector": 2})], "without an event"),
])
def test_each_event_and_interrupt_has_a_cause(tmp_path, more, wrong):
    """The events are added after the SEND, whose own event and interrupt are
    correct."""
    steps = [*SEND, *(("b", kind, fields) for kind, fields in more)]
    problems = Model(records_of(steps, tmp_path)).problems
    assert len(problems) == (wrong is not None), problems
    assert not wrong or wrong in problems[0]


@pytest.mark.parametrize("spoil, word", [
    (lambda data: b"", "empty"),
    (lambda data: b"nonsense" + data[8:], "not a record"),
    (lambda data: data[:8] + b"\7" + data[9:], "version 7"),
    (lambda data: data[:56] + b"none -\n" + bytes(4033) + data[4096:],
     "no names of entries.*damaged"),
    (lambda data: data[:16] + b"\x3f" + data[17:], "kind 0.*damaged"),
    (lambda data: data[:40], "too short"),
    (lambda data: data[:-1], "cut short"),
    (lambda data: data[:12] + bytes(4) + data[16:], "size 0.*damaged"),
    (lambda data: data[:16] + (10 ** 6).to_bytes(8, "little") + data[24:],
     "overwritten"),
    (lambda data: data[:HEADER.size + 16] + b"\xff\xff\0\0" +
     data[HEADER.size + 20:], "unknown kind"),
    (lambda data: data.replace(b"\nreset -", b"\nreset__"),
     "no names of entries.*damaged"),
    (lambda data: data.replace(b"\nframe offset", b"\nframe offsat"),
     "no offset.*damaged"),
])
def test_bad_files(tmp_path, spoil, word):
    recorder = Recorder()
    for number, (node, kind, fields) in enumerate(SEND):
        recorder.add(number, kind, **fields)
    path = tmp_path / "record"
    path.write_bytes(spoil(recorder.file()))
    with pytest.raises(RecordError, match=word):
        read(path, "a")
    done = subprocess.run([LAB, "timeline", f"a={path}"], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 125 and done.stderr.count("\n") == 1


def test_missing_file_is_reported(tmp_path):
    done = subprocess.run([LAB, "timeline", f"a={tmp_path / 'none'}"], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 125 and done.stderr.count("\n") == 1
    assert "none: No such file or directory" in done.stderr
    assert "Errno" not in done.stderr


def test_record_of_idle_card(tmp_path):
    model = Model(records_of((), tmp_path))
    assert not model.problems and not any(model.records.values())


def test_overwritten_events_are_reported(tmp_path):
    """The rest is shown on request, with the number of lost events."""
    recorder = Recorder()
    for number in range(70):
        recorder.add(number, "interrupt", vector=number)
    data = recorder.file()
    path = tmp_path / "a"
    path.write_bytes(data[:HEADER.size] + data[HEADER.size + 6 * ENTRY.size:
                                               HEADER.size + 70 * ENTRY.size] +
                     bytes(FRAMES))
    with pytest.raises(RecordError, match="6 events were overwritten"):
        read(path, "a")
    model = files.make({"a": path}, lost_is_fine=True)
    assert len(model.records["a"]) == 64
    assert any("6 events before" in line for line in files.verdict(model))


def test_paused_record_is_incomplete(tmp_path):
    """A pause of the record is reported, and missing events are no problem."""
    steps = [("b", "resumed", {"missed": 7})] + [
        step for step in SEND if step[1] != "doorbell_sq"]
    records = records_of(steps, tmp_path)
    model = Model(records)
    assert not model.problems
    assert any("b: 7 events" in line for line in files.verdict(model))
    assert Model(records_of(steps[1:], tmp_path)).problems
    steps = [("a", "rests", {}), *(
        step for step in SEND if step[0] == "b" and step[1] != "frame")]
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    assert any("a: its record rests" in line for line in files.verdict(model))


def test_records_of_a_migrated_machine_are_joined(tmp_path):
    """A machine migrates between two packets of a SEND. The record of its second QEMU,
    here c, counts from the load on. The timeline says for how long it stood still."""
    cut = where(SEND, "dma_read", address=9216)
    steps = [*SEND[:cut], ("b", "held", {}), ("c", "reset", {}), ("c", "loaded", {}),
             ("c", "held", {}), *(("c" if node == "b" else node, kind, fields)
                                  for node, kind, fields in SEND[cut:])]
    records_of(steps, tmp_path)
    model = files.make({"a": tmp_path / "a", "b": [tmp_path / "b", tmp_path / "c"]})
    assert not model.problems
    assert sum(1 for request in model.requests if request.visible) == 1
    numbers = [event.number for event in model.records["b"] if event.kind != "mark"]
    assert numbers == sorted(set(numbers))
    assert any(re.match("  b: it migrated, and stood still for 0.0 ms", line)
               for line in files.verdict(model))


def test_every_kind_has_a_text():
    names = [name for name, _, _ in kinds()]
    assert len(names) == len(set(names))
    assert set(STEPS) <= set(names)


def plain(text):
    """TEXT of the data sheet without markup, on one line."""
    return " ".join(re.sub(r"``|\*", "", text).split())


def chapters():
    """Heading -> text below it, of the data sheet. Texts of equal headings are
    joined."""
    found, heading = {}, ""
    lines = (TOP / "firmware-spec/fakernic.rst").read_text("utf-8").splitlines()
    for line, below in zip(lines, [*lines[1:], ""]):
        if line and re.fullmatch(r"={3,}|-{3,}", below) and (
                len(below) == len(line)):
            heading = line
        found[heading] = found.get(heading, "") + line + "\n"
    return found


def test_each_step_is_in_the_documents():
    """The page quotes the data sheet for each event, and each stop of
    qemu-hw/JOURNEY.md belongs to an event."""
    sheet = chapters()
    for kind, step in STEPS.items():
        assert step.chapter in sheet, (kind, step.chapter)
        assert step.quoted in plain(sheet[step.chapter]), (kind, step.quoted)
    journey = (TOP / "qemu-hw/JOURNEY.md").read_text("utf-8")
    stops = re.findall(r"^### (\d+)\. ", journey, re.M)
    named = {stop for step in STEPS.values() for stop in step.stops}
    assert len(stops) >= 9 and named == set(map(int, stops))


def test_opcodes_are_those_of_the_engine():
    text = (TOP / "qemu-hw/roce/opcode.h").read_text("utf-8")
    found = {int(number, 16): name.replace("_", " ") for name, number in
             re.findall(r"ROCE_BTH_(\w+) = (0x\w+)", text)}
    ours = {**OPERATIONS, **{number: name.removeprefix("RC ")
                             for number, name in OTHERS.items()}}
    services = {int(number, 16): name for name, number in
                re.findall(r"ROCE_BTH_(\w+) +(0x\w+)", text)}
    ours.pop(0x81)
    assert services.pop(0x81) == "CNP"
    assert (found, services) == (ours, SERVICES)


def tshark(path, *words):
    """The output of tshark. It runs as the user nobody, because it runs no Lua for
    root."""
    with open(path, "rb") as file:
        done = subprocess.run(
            ["tshark", "-n", "-X", f"lua_script:{LUA}", "-r", "-", *words],
            stdin=file, capture_output=True, check=False, timeout=60, cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
            **({} if os.geteuid() else {"user": NOBODY, "group": NOBODY,
                                        "extra_groups": []}))
    reported = done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0 and "Lua" not in reported, reported
    return done.stdout.decode("utf-8").splitlines()


def captured(tmp_path, steps):
    records_of(steps, tmp_path)
    files.make({node: tmp_path / node for node in "ab"}, tmp_path / "out")
    return tmp_path / "out/trace.pcapng"


def test_capture_has_packets_and_the_bus_between_them(tmp_path):
    path = captured(tmp_path, SEND)
    lines = tshark(path, "-T", "fields", "-e", "frame.interface_name", "-e",
                   "frame.time_epoch", "-e", "fakernic.kind", "-e",
                   "infiniband.bth.opcode", "-e", "infiniband.bth.psn")
    assert len(lines) == len(SEND)
    for number, (line, (node, kind, _)) in enumerate(zip(lines, SEND)):
        name, time, shown, opcode, psn = line.split("\t")
        assert round(float(time) * 10 ** 9) == 1000 + 500 * number
        if kind == "frame":
            assert name == node and opcode and psn and not shown
        else:
            assert name == f"{node} bus" and shown == kind and not opcode


def test_capture_is_filtered_by_arguments(tmp_path):
    path = captured(tmp_path, SEND)
    found = tshark(path, "-Y", f"fakernic.qpn == {A} && fakernic.kind == wqe",
                   "-T", "fields", "-e", "fakernic.blocks", "-e",
                   "_ws.col.Info")
    assert found == ["1\twqe qpn=7 index=0 opcode=1 blocks=1 error=0"]
    wide = tshark(path, "-Y", "fakernic.address == 0x10000")
    assert len(wide) == 2
    assert not tshark(path, "-Y", "_ws.lua.error")


def test_numbers_of_64_bits_are_whole(tmp_path):
    """An address of 64 bits is exact, though a number in Lua cannot hold it."""
    number = 0xfedcba9876543211
    path = captured(tmp_path, [*SEND, ("a", "dma_read", {"address": number,
                                                         "len": 1})])
    for address, count in ((number, 1), (number - 1, 0), (number + 1, 0)):
        assert len(tshark(path, "-Y",
                          f"fakernic.address == {address:#x}")) == count


def test_dissector_knows_the_names_of_the_recorder():
    """The dissector has all names in the lines of the bus, and no others."""
    text = LUA.read_text("utf-8")
    numbers = re.findall(r'"(\w+)"', re.search(
        r"local numbers = \{(.*?)\}", text, re.S)[1])
    words = re.findall(r'ProtoField.string\("fakernic\.(\w+)"', text)
    known = {name for kind, value, arguments in kinds()
             if kind not in ("none", "frame") for name in (value, *arguments)}
    assert sorted(numbers + words) == sorted((known - {"-"}) | {"kind"})


def test_every_packet_has_a_comment(tmp_path):
    comments = tshark(captured(tmp_path, SEND), "-Y", "infiniband", "-T",
                      "fields", "-e", "frame.comment")
    name = "SEND a: WR 0 of QP 7"
    assert comments == 2 * [f"packet 1 of 2 of {name}"] + (
        2 * [f"packet 2 of 2 of {name}"] + 2 * [f"answer to {name}"])


def test_words_of_another_version_are_shown(tmp_path, monkeypatch):
    """A newer device has kinds and arguments that the dissector does not know."""
    def newer():
        return [*kinds(), ("novelty", "-", ["colour"])]
    monkeypatch.setattr("demo_records.kinds", newer)
    steps = [*SEND, ("a", "novelty", {"colour": 3})]
    shown = tshark(captured(tmp_path, steps), "-V", "-Y",
                   "fakernic.kind == novelty")
    assert any(line.strip() == "colour=3" for line in shown)


def traced(model):
    """The events of a trace for Perfetto by their phase; times in whole
    nanoseconds."""
    found = {}
    for event in json.loads(page.chrome(model))["traceEvents"]:
        for name in {"ts", "dur"} & set(event):
            event[name] = round(1000 * event[name])
        found.setdefault(event["ph"], []).append(event)
    return found


def place_of(event):
    return event["pid"], event["tid"], event["ts"]


@pytest.mark.parametrize("steps", [SEND, LOST_READ], ids=["send", "read"])
def test_arrows_of_perfetto_have_ends(tmp_path, steps):
    """Each arrow begins in the slice of a sent packet and ends in that of its
    arrival. That slice is before it in the file, at its place and time."""
    model = Model(records_of(steps, tmp_path))
    events = json.loads(page.chrome(model))["traceEvents"]
    ends = {}
    for before, event in zip(events, events[1:]):
        if event["ph"] in "sf":
            assert before["ph"] == "X" and place_of(before) == place_of(event)
            assert before["name"] == {"s": "tx", "f": "rx"}[event["ph"]]
            assert event["ph"] == "s" or event["bp"] == "e"
            ends.setdefault(event["id"], {})[event["ph"]] = event
    arrived = [packet for packet in model.packets if packet.rx]
    assert len(ends) == len(arrived) > 2
    pids = {node: pid for pid, node in enumerate(model.records, start=1)}
    assert sorted((end["s"]["pid"], end["s"]["ts"], end["f"]["pid"],
                   end["f"]["ts"]) for end in ends.values()) == sorted(
        (pids[packet.tx.node], packet.tx.time / 1000, pids[packet.rx[0].node],
         packet.rx[0].time / 1000) for packet in arrived)


def test_threads_of_perfetto(tmp_path):
    """Every thread has a number, a name and an order. Slices do not overlap, even
    if events are less than a slice apart."""
    model = Model(records_of(SEND, tmp_path))
    for events in model.records.values():
        for number, event in enumerate(events):
            event.time = 1000 + 100 * (number // 2)
    found = traced(model)
    threads = {(event["pid"], event["tid"]): event["args"]["name"]
               for event in found["M"] if event["name"] == "thread_name"}
    orders = {(event["pid"], event["tid"]): event["args"]["sort_index"]
              for event in found["M"] if event["name"] == "thread_sort_index"}
    processes = {event["pid"]: event["args"]["name"] for event in found["M"]
                 if event["name"] == "process_name"}
    assert list(processes.values()) == ["a", "b"]
    assert threads.keys() == orders.keys()
    slices = found["X"]
    assert len(slices) == len(SEND)
    assert {(event["pid"], event["tid"]) for event in slices} <= set(threads)
    for event in slices:
        step = STEPS.get(event["name"])
        assert isinstance(event["tid"], int) and event["dur"] >= 0
        assert threads[event["pid"], event["tid"]] == (
            step.lane if step else "other")
    for place in threads:
        own = [event for event in slices
               if (event["pid"], event["tid"]) == place]
        for first, second in zip(own, own[1:]):
            assert first["ts"] + first["dur"] <= second["ts"]


# Visits each event by pointer, arrow key and tap, and gives the test what the
# page then shows; then one goes there by the index, and changes the size.
VISIT = """<script>
const shown = () => document.getElementById('details').textContent;
const press = (key, at) => at.dispatchEvent(
    new KeyboardEvent('keydown', {key: key, bubbles: true}));
const all = Array.from(document.querySelectorAll('.event'));
const found = {point: [], tap: [], keys: []};
for (const event of all) {
    event.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
    found.point.push(shown());
}
for (const event of all) {
    event.dispatchEvent(new MouseEvent('click', {bubbles: true}));
    found.tap.push(shown());
}
press('Home', document.activeElement);
for (const event of all) {
    found.keys.push(shown());
    press('ArrowDown', document.activeElement);
}
document.querySelectorAll('.index a')[3].click();
found.index = shown();
scrollTo(0, document.querySelector('section svg[role]').
    getBoundingClientRect().top + scrollY + 100);
found.heads = document.querySelector('.heads').getBoundingClientRect().top;
const wide = () => document.querySelector('section svg').
    getBoundingClientRect().width;
found.sizes = [wide()];
for (const key of ['+', '0', '-', 'f']) {
    press(key, document.body);
    found.sizes.push(wide());
}
document.body.dataset.found = JSON.stringify(found);
</script></body>"""


def browse(tmp_path, requests, width=800):
    """Open the page of REQUESTS in a browser and visit all of it; its output."""
    out = tmp_path / "trace.html"
    out.write_text(page.page(requests, ["a", "b"]).replace("</body>", VISIT),
                   "utf-8")
    browser = shutil.which("chromium-headless-shell")
    assert browser, "chromium-headless-shell is not installed (word test)"
    return subprocess.run(
        [browser, "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         f"--window-size={width},600", out.as_uri()], text=True,
        capture_output=True, timeout=60, check=True)


def two_requests(tmp_path):
    """A SEND, and a READ of which a packet is lost."""
    for name in ("send", "read"):
        (tmp_path / name).mkdir()
    return [*Model(records_of(SEND, tmp_path / "send")).requests,
            *Model(records_of(LOST_READ, tmp_path / "read")).requests]


def test_page_in_a_browser(tmp_path):
    """Pointer, keys and taps each show all events: their place, time,
    arguments, and what the documents say. Heads stay in view; the size
    changes."""
    requests = two_requests(tmp_path)
    done = browse(tmp_path, requests)
    assert "CONSOLE" not in done.stderr
    found = json.loads(html.unescape(
        re.search('data-found="([^"]*)"', done.stdout)[1]))
    wanted = [(request, *row) for request in requests
              for row in page.rows(request)]
    assert f'data-ready="{len(wanted)}"' in done.stdout
    assert found["point"] == found["tap"] == found["keys"]
    assert found["index"] == found["point"][3]
    assert len(found["point"]) == len(wanted) > 40
    for text, (request, time, event, sent) in zip(found["point"], wanted):
        step = STEPS[event.kind]
        label = words.Words(request).full(event, sent)
        assert text.startswith(f"{event.node} {step.lane}, {time:.1f} us. "
                               f"{step.sentence} [{label}]")
        assert text.endswith(step.source()) and step.quoted in text
    assert {event.kind for _, _, event, _ in wanted} >= {"mark", "fault",
                                                         "retry"}
    assert found["heads"] == 0
    first, larger, again, smaller, fits = found["sizes"]
    assert first == again == WIDTH < larger and smaller < fits < 800


def test_page_needs_nothing_else_and_is_small(tmp_path):
    """Ten work requests in a megabyte."""
    text = page.page(5 * two_requests(tmp_path), ["a", "b"])
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert len(text.encode()) <= 10 ** 6


def test_browser_reports_a_broken_page(tmp_path, monkeypatch):
    """Without this report the test above could not fail."""
    monkeypatch.setattr(page, "SCRIPT", page.SCRIPT + "nobody.knows();")
    assert "CONSOLE" in browse(tmp_path, two_requests(tmp_path)).stderr


def test_picture_has_names_and_no_raw_numbers(tmp_path):
    """A title, a description, its own white ground, words for opcodes and
    statuses; a mark where time jumps."""
    for number, request in enumerate(two_requests(tmp_path)):
        for packet in request.packets:
            packet.asks = True
        request.visible.time += 10 ** 6
        text = Picture(request).file()
        assert re.search('<title id="title">.+?</title><desc id="desc">.{80}',
                         text)
        assert 'fill="#fff"' in text and f'width="{WIDTH}"' in text
        shown = re.findall("<text[^>]*>([^<]*)", text)
        assert not re.search("opcode|status|syndrome|unknown", " ".join(shown))
        assert ("SEND Last, ACK requested" in shown) == (number == 0)
        assert "CQE: SEND, WQE 0, SUCCESS" in shown
        assert {"PSN +0", "PSN +1", "+1,000 us", "lost packet"} <= set(shown)
        assert ("✗" in shown[:-12]) == (number == 1)
        assert min(map(int, re.findall(r"font(?:-size)?:(\d+)px", text))) >= 11


def test_acknowledgement_is_requested_by_the_packet(tmp_path, monkeypatch):
    """The highest bit of the byte before the PSN requests it."""
    steps = list(SEND)
    for at in (where(steps, "tx", opcode=2) + 1, where(steps, "tx", opcode=2) + 2):
        node, kind, fields = steps[at]
        data = bytearray(fields["data"])
        data[50] |= 0x80
        steps[at] = node, kind, {**fields, "data": bytes(data)}
    request, = Model(records_of(steps, tmp_path)).requests
    assert [packet.asks for packet in request.packets] == [False, True]
    assert "SEND Last, ACK requested, PSN +1" in page.text(request)


@pytest.mark.parametrize("names, header, prefix", [
    (words.WQE_OPCODES, "sq.h", "SQ"), (words.CQE_OPCODES, "cq.h", "CQE"),
    (words.STATUSES, "cq.h", "WC"), (words.EVENT_TYPES, "eq.h", "EVENT")])
def test_names_are_those_of_the_headers(names, header, prefix):
    text = (TOP / "firmware-spec/include/fakernic" / header).read_text("utf-8")
    found = {int(number): name.replace("_", " ") for name, number in re.findall(
        rf"^\tFAKERNIC_{prefix}_(\w+)\s*= (\d+),", text, re.M)}
    assert names == found
