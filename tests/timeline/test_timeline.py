# SPDX-License-Identifier: GPL-2.0-or-later
"""The timeline of records made by hand: what belongs together is found, what
does not fit is told, a page opens in a browser."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import page
from demo_records import SEND, Recorder
from model import Model
from records import ENTRY, HEADER, RecordError, kinds, read

HERE = Path(__file__).parent


def records_of(steps, tmp_path):
    """Steps as (node, kind, fields) in the order of time, through files."""
    recorders = {node: Recorder() for node in ("a", "b")}
    for number, (node, kind, fields) in enumerate(steps):
        recorders[node].add(1000 + 500 * number, kind, **fields)
    found = {}
    for node, recorder in recorders.items():
        path = tmp_path / node
        path.write_bytes(recorder.file())
        found[node] = read(path, node)
    return found


def test_send_is_one_story(tmp_path):
    model = Model(records_of(SEND, tmp_path))
    assert not model.problems
    request, = model.requests
    assert [event.kind for event, _ in request.events()] == [
        "doorbell_sq", "wqe", "tx", "rx", "tx", "rx", "tx", "rx", "cqe",
        "cqe_visible"]
    assert len(request.packets) == 2 and len(request.answers) == 1
    assert "attempt" not in page.text(request)


def test_lost_packet_is_explained(tmp_path):
    steps = list(SEND)
    at = next(i for i, step in enumerate(steps) if step[:2] == ("b", "rx"))
    _, _, rx = steps[at]
    steps[at] = ("b", "fault", {"point": 2, "action": 1, "qpn": rx["qpn"],
                                "psn": rx["psn"], "hits": 1})
    again = {**steps[2][2], "attempt": 2}
    steps[at + 1:at + 1] = [("a", "tx", again), ("b", "rx", rx)]
    steps += [(node, "qp_state", {"qpn": 9, "from": 1, "to": 2})
              for node in "ab"]
    model = Model(records_of(steps, tmp_path))
    assert not model.problems
    request, = model.requests
    assert [packet.lost() for packet in request.packets].count(True) == 1
    assert "do=drop" in page.text(request)
    assert "attempt 2" in page.text(request)
    assert len(page.text(request).splitlines()) <= 40


@pytest.mark.parametrize("first, second", [("tx", "rx"), ("cqe", "cqe_visible")])
def test_effect_before_cause_is_told(tmp_path, first, second):
    steps = list(SEND)
    i = next(i for i, step in enumerate(steps) if step[1] == first)
    j = next(j for j in range(i, len(steps)) if steps[j][1] == second)
    steps[i], steps[j] = steps[j], steps[i]
    assert Model(records_of(steps, tmp_path)).problems


def test_loss_without_a_rule_is_told(tmp_path):
    steps = [step for step in SEND if step[:2] != ("b", "rx")]
    steps += [(node, "qp_state", {"qpn": 9, "from": 1, "to": 2})
              for node in "ab"]
    assert any("never received" in problem for problem in
               Model(records_of(steps, tmp_path)).problems)


@pytest.mark.parametrize("spoil, word", [
    (lambda data: b"nonsense" + data[8:], "not a record"),
    (lambda data: data[:40], "too short"),
    (lambda data: data[:-ENTRY.size], "cut short"),
    (lambda data: data[:16] + (10 ** 6).to_bytes(8, "little") + data[24:],
     "overwritten"),
    (lambda data: data[:HEADER.size + 16] + b"\xff\xff\0\0" +
     data[HEADER.size + 20:], "unknown kind"),
])
def test_bad_files(tmp_path, spoil, word):
    recorder = Recorder()
    for number, (node, kind, fields) in enumerate(SEND):
        recorder.add(number, kind, **fields)
    path = tmp_path / "record"
    path.write_bytes(spoil(recorder.file()))
    with pytest.raises(RecordError, match=word):
        read(path, "a")
    done = subprocess.run([HERE / "timeline", f"a={path}"], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_every_kind_has_its_words():
    names = [name for name, _, _ in kinds()]
    assert len(names) == len(set(names))
    assert set(page.STEPS) <= set(names)


def test_trace_for_perfetto(tmp_path):
    model = Model(records_of(SEND, tmp_path))
    events = json.loads(page.chrome(model))["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == len(model.packets)
    assert sum(event["ph"] == "f" for event in events) == len(model.packets)


def test_page_in_a_browser(tmp_path):
    model = Model(records_of(SEND, tmp_path))
    out = tmp_path / "trace.html"
    out.write_text(page.page(model.requests, ["a", "b"]), "utf-8")
    outside = out.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "http" not in outside and len(outside) < 1 << 20
    browser = shutil.which("chromium-headless-shell")
    assert browser, "chromium-headless-shell is not installed (word test)"
    done = subprocess.run(
        [browser, "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         out.as_uri()], text=True, capture_output=True, timeout=60,
        check=True)
    assert 'data-ready="10"' in done.stdout
    assert "CONSOLE" not in done.stderr
