# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands of LESSONS.md and BACK.md in their order and compares their output.
The lines that a document shows must come in that order. Numbers may differ, and "..."
stands for any lines. At the end the records of the cards are checked.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from command import environment
from fakernic_lab.timeline import files, page
from fakernic_lab.timeline.model import POLL

HERE = Path(__file__).parent
DOCUMENT = HERE / "LESSONS.md"
BACK = HERE / "BACK.md"
COMMAND_S = 120
NUMBER = r"[0-9][0-9a-fx.:]*"
# Numbers of a fault rule that are not 0 in the document must not be 0 in the output.
HIT = re.compile(r"(hits|matches)=[1-9][0-9]*")
# The events at both ends of a SEND of four packets, from the mark of the program that posts
# it, if both programs poll for completions.
SENDER = ["mark", "doorbell_sq", "dma_read", "wqe", *4 * ["dma_read", "tx"],
          "rx", "cqe", "dma_write", "cqe_visible"]
RECEIVER = ["rx", "dma_read", "recv_wqe", "dma_write", *3 * ["rx", "dma_write"],
            "cqe", "dma_write", "cqe_visible", "tx"]
EVENTS_AT_LEAST = 24
# Maximum length of the text of a READ that lost a packet, and the addition for each probe
# or timeout in it with its retransmissions. On a busy host there are some.
LINES, SILENCE_LINES = 40, 20
# Number of work requests on a page, and the maximum size of the page.
PAGE_REQUESTS, PAGE_BYTES = 10, 10 ** 6


def lessons(document=DOCUMENT):
    """Heading -> pairs of a command and the lines that the document shows after it."""
    found = {"up": []}
    steps = found["up"]
    for line in document.read_text("utf-8").splitlines():
        if line.startswith("## "):
            steps = found.setdefault(line[3:], [])
        elif line.startswith("    $ "):
            steps.append((line[6:], []))
        elif line.startswith("    "):
            steps[-1][1].append(line[4:])
    return found


def word_pattern(word):
    hit = HIT.fullmatch(word)
    if hit:
        return f"{hit[1]}=[1-9][0-9]*"
    return NUMBER.join(map(re.escape, re.split(NUMBER, word)))


def pattern(line):
    """A pattern that matches lines which differ only in numbers and column widths."""
    words = map(word_pattern, line.split())
    return re.compile(r"\s*" + r"\s+".join(words) + r"\s*$")


def find(shown, printed):
    """The first shown line that was not printed; None if all were."""
    rest = iter(printed)
    for line in shown:
        if line != "..." and not any(pattern(line).match(text)
                                     for text in rest):
            return line
    return None


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The folder and environment of a reader; stops all machines at the end."""
    folder = tmp_path_factory.mktemp("reader")
    words = environment(folder, PATH=f"{HERE}:{os.environ['PATH']}")
    yield folder, words
    subprocess.run(["fakernic-lab", "down"], cwd=folder, env=words,
                   capture_output=True, check=False)


def take(steps, folder, words):
    """Runs the commands of a lesson."""
    for command, shown in steps:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=words, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=COMMAND_S)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        missing = find(shown, done.stdout.splitlines())
        assert missing is None, (command, missing, done.stdout)


@pytest.mark.parametrize("name", lessons())
def test_lesson(reader, name):
    steps = lessons()[name]
    assert steps, f"lesson '{name}' has no command"
    take(steps, *reader)


def is_whole_story(request):
    """Whether a SEND has every step at both ends once and in order, and each program
    polled after the CQE was written."""
    found = {request.node: [], None: []}
    for _, event, _ in page.rows(request):
        end = event.node if event.node == request.node else None
        if event.kind != "mark" or event.step != POLL:
            found[end].append(event.kind)
        elif "cqe" not in found[end]:
            return False
    polls = sum(event.kind == "mark" and event.step == POLL
                for _, event, _ in page.rows(request))
    return (polls == 2 and found == {request.node: SENDER, None: RECEIVER} and
            len(page.rows(request)) >= EVENTS_AT_LEAST)


def recorded(folder):
    return files.make({name: folder / "fakernic-lab.up" / name / "record"
                       for name in ("node1", "node2")})


def test_what_the_cards_recorded(reader):
    """The records of all lessons, which ran before this test, have no contradiction, and
    one SEND is recorded with every step."""
    folder, _ = reader
    model = recorded(folder)
    assert model.whole and not model.problems, model.problems[:20]
    sends = [request for request in model.of_kind("SEND")
             if len(request.packets) == 4]
    assert any(map(is_whole_story, sends)), [
        page.text(request) for request in sends[:3]]
    assert any(packet.gone() for packet in model.packets)


def test_shown_records_match(reader):
    """The text of a READ that lost a packet is short, and a page of ten work requests is
    small."""
    folder, _ = reader
    model = recorded(folder)
    shown = files.chosen(model)
    lost, = [request for request in shown
             if request.what() == "READ" and page.faults_of(request)]
    silences = sum(event.kind in ("probe", "timeout")
                   for _, event, _ in page.rows(lost))
    text = page.text(lost)
    assert len(text.splitlines()) <= LINES + SILENCE_LINES * silences, text
    ten = [*shown, *(request for request in model.requests
                     if request.visible)][:PAGE_REQUESTS]
    assert len(ten) == PAGE_REQUESTS
    assert len(page.page(ten, list(model.records)).encode()) <= PAGE_BYTES


def test_lesson_about_going_back(tmp_path):
    """The machines of this lesson have no timeline."""
    words = environment(tmp_path, PATH=f"{HERE}:{os.environ['PATH']}")
    steps = [step for steps in lessons(BACK).values() for step in steps]
    assert len(steps) > 8 and steps[-1][0] == "fakernic-lab down"
    try:
        take(steps, tmp_path, words)
    finally:
        subprocess.run(["fakernic-lab", "down"], cwd=tmp_path, env=words,
                       capture_output=True, check=False)


def test_eleven_lessons():
    assert [int(name.split(".")[0]) for name in list(lessons())[1:]] == list(
        range(1, 12))


def test_each_lesson_shows_something():
    """Each lesson shows output, which test_lesson() compares, and its pictures exist."""
    assert all(any(shown for _, shown in steps)
               for steps in lessons().values())
    pictures = re.findall(r"^!\[.+\]\((.+\.svg)\)$",
                          DOCUMENT.read_text("utf-8"), re.M)
    assert len(pictures) >= 5
    for name in pictures:
        assert (HERE / name).read_text("utf-8").startswith("<svg ")


def test_shown_output_must_appear():
    printed = ["one 17", "two 0x3f at node1", "three 1.5 us"]
    assert find(["one 4", "...", "three 20.25 us"], printed) is None
    assert find(["two  0x2 at node9", "one 17"], printed) == "one 17"
    assert find(["two 0x3f at node"], printed) == "two 0x3f at node"


def test_shown_hits_must_occur():
    """A printed rule without a match or a hit does not match one that the document shows
    with hits."""
    rules = [line for steps in lessons().values() for _, shown in steps
             for line in shown if "hits=" in line and " hits=0" not in line]
    assert len(rules) >= 2
    for rule in rules:
        for name in ("matches", "hits"):
            missed = re.sub(f" {name}=\\d+", f" {name}=0", rule)
            more = re.sub(f" {name}=\\d+", f" {name}=1234", rule)
            assert missed != rule
            assert find([rule], [missed]) == rule, missed
            assert find([rule], [more]) is None, more
