# SPDX-License-Identifier: GPL-2.0-or-later
"""What README.md at the top shows, as a reader meets it: its commands, out of
its text, in a checkout; and what they print, which is what it shows, except for
numbers, the width of columns, and any lines where it has "...".
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
# Of the lines behind the first a command may have.
CONTINUED = "\\\n"
# Where KVM does not work, this line comes first.
NO_KVM = re.compile(r"^fakernic-lab: no KVM .*\n", re.M)
# On a slow machine it says how far it is.
SO_FAR = re.compile(r"^fakernic-lab: .* so far\n", re.M)
ENDS = "@@ ended with"


def shown():
    """Command -> the lines shown behind it, without its comment."""
    found, lines = {}, None
    text = README.read_text("utf-8").replace(CONTINUED, "")
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
    """Whether these lines are what was printed, all of it."""
    if not wanted:
        return not printed
    if wanted[0] == "...":
        return any(comes(wanted[1:], printed[start:])
                   for start in range(len(printed) + 1))
    return bool(printed and pattern(wanted[0]).match(printed[0]) and
                comes(wanted[1:], printed[1:]))


def run_all(folder, commands):
    """What each prints, in one shell; all end with 0."""
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
    """In a folder that has of a checkout what they use. A fault rule that hits
    nothing fails its run."""
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
    """make run without what it builds, in the QEMU that it takes."""
    def demo(*options):
        return subprocess.run(
            [TOP / "tests/vm/demo", "--out", tmp_path, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
            env={**os.environ, "FAKERNIC_QEMU": str(PLUG_IN)})
    return demo


@pytest.mark.timeout(2 * LIMIT_S)
def test_make_run(tmp_path, demo):
    """All that it shows is shown, on a page, as README has it; V=1 tells more."""
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
    """Its other commands are these two; the second ends as it does."""
    makes = [command for command in shown() if command.startswith("make ")]
    assert makes == ["make run", "make test"]
    assert comes(shown()["make test"], ["  unit  1", "7 passed, 0 failed, 0 skipped"])


def test_what_is_shown_must_come():
    assert comes(["one 1", "...", "two"], ["one 22", "a", "b", "two"])
    assert comes(["...", "two"], ["two"])
    assert not comes(["one 1", "two"], ["one 22", "a", "two"])
    assert not comes(["one 1"], ["one 1", "two"])
    assert not comes(["...", "one 1"], ["one"])
