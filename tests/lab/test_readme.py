# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands of the top README.md in a checkout and compares their output with
what it shows. Numbers and column widths may differ, and "..." stands for any lines.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from command import environment
from fakernic_lab import places
from test_lessons import pattern

TOP = Path(__file__).resolve().parents[2]
README = TOP / "README.md"
LIBRARIES = places.cache() / "build/rdma-core-install/usr"
PLUG_IN = places.cache() / "build/qemu-plugin/qemu-system-x86_64-fakernic"
LIMIT_S = 280
PAGE_LINES = 60
FIRST = "\n## Two commands\n"
# Continues a command on the next line.
CONTINUED = "\\\n"
# The first line on hosts without KVM.
NO_KVM = re.compile(r"^fakernic-lab: no KVM .*\n", re.M)
# Progress lines on a slow host.
SO_FAR = re.compile(r"^fakernic-lab: .* so far\n", re.M)
ENDS = "@@ ended with"


def shown():
    """Command without its comment -> the lines that README.md shows after it."""
    found, lines = {}, None
    # Those of the bundle come earlier, and tests/bundle runs them.
    text = README.read_text("utf-8").partition(FIRST)[2].replace(CONTINUED, "")
    for line in text.splitlines():
        if line.startswith("    $ "):
            command = line[6:].partition("  #")[0].strip()
            lines = found.setdefault(command, [])
        elif line.startswith("    ") and lines is not None:
            lines.append(line[4:])
        else:
            lines = None
    return found


def comes(wanted, printed):
    """Whether the wanted lines match the whole output."""
    if not wanted:
        return not printed
    if wanted[0] == "...":
        return any(comes(wanted[1:], printed[start:])
                   for start in range(len(printed) + 1))
    return bool(printed and pattern(wanted[0]).match(printed[0]) and
                comes(wanted[1:], printed[1:]))


def run_all(folder, commands):
    """Runs the commands in one shell. All must succeed. Returns command -> output."""
    script = "".join(f"{command}\necho '{ENDS}' $?\n" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=LIMIT_S, check=False, env=environment(
            folder, CPATH=f"{LIBRARIES}/include",
            LIBRARY_PATH=f"{LIBRARIES}/lib/x86_64-linux-gnu"))
    said = SO_FAR.sub("", NO_KVM.sub("", done.stdout))
    *parts, rest = re.split(f"^{ENDS} (.*)\n", said, flags=re.M)
    assert rest == "" and parts[1::2] == ["0"] * len(commands), done.stdout
    return dict(zip(commands, parts[::2]))


def test_its_examples(tmp_path):
    """The examples run in a folder that has only the tests of a checkout. A fault rule
    without a hit would fail its run."""
    (tmp_path / "tests").symlink_to(TOP / "tests")
    wanted = {command: lines for command, lines in shown().items()
              if not command.startswith("make ")}
    words = " ".join(wanted)
    assert all(word in words for word in (
        "hello.c", "run -- ./hello", "--fault", "--timeline", " up", " down"))
    printed = run_all(tmp_path, wanted)
    for command, lines in wanted.items():
        assert not lines or comes(lines, printed[command].splitlines()), (
            command, printed[command])
    found = tmp_path / "fakernic-lab.out/timeline/trace.txt"
    assert "hit by a fault rule" in found.read_text("utf-8")


@pytest.fixture(name="demo")
def demo_of_make_run(tmp_path):
    """A function that runs the demo of make run, with the same QEMU, without building."""
    def demo(*options):
        return subprocess.run(
            [TOP / "tests/vm/demo", "--out", tmp_path, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
            env={**os.environ, "FAKERNIC_QEMU": str(PLUG_IN)})
    return demo


@pytest.mark.timeout(2 * LIMIT_S)
def test_make_run(tmp_path, demo):
    """make run shows all steps as ok on one page, as README.md does. V=1 prints more."""
    page = demo()
    assert page.returncode == 0, page
    lines = page.stdout.splitlines()
    score = re.match(r"(\d+) of (\d+) shown in", lines[-1])
    assert score and score[1] == score[2] and int(score[1]) > 15, page
    assert len(lines) <= PAGE_LINES
    assert sum(bool(re.search(r" ok( |$)", line)) for line in lines) == int(score[1])
    wanted = shown()["make run"]
    where = re.search("consoles and logs in (.*)", wanted[-1])[1]
    lines[-1] = lines[-1].replace(str(tmp_path), where)
    assert comes(wanted, lines), (wanted, page.stdout)
    assert len(list(tmp_path.rglob("console"))) == 2
    whole = demo("-v")
    assert whole.returncode == 0, whole
    assert len(whole.stdout.splitlines()) > 2 * len(lines)
    for row in (row for row in wanted if row.endswith(" ok")):
        assert any(map(pattern(row).match, whole.stdout.splitlines())), row


def test_make_has_what_is_shown():
    """README.md shows no make commands but these two. The result of "make test" has the
    form that it shows."""
    makes = [command for command in shown() if command.startswith("make ")]
    assert makes == ["make run", "make test"]
    wanted = [line.replace("N passed", "1 passed") for line in shown()["make test"]]
    assert comes(wanted, ["  unit  1", "7 passed, 0 failed, 0 skipped"])


def test_shown_output_must_appear():
    assert comes(["one 1", "...", "two"], ["one 22", "a", "b", "two"])
    assert comes(["...", "two"], ["two"])
    assert not comes(["one 1", "two"], ["one 22", "a", "two"])
    assert not comes(["one 1"], ["one 1", "two"])
    assert not comes(["...", "one 1"], ["one"])
