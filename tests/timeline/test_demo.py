# SPDX-License-Identifier: GPL-2.0-or-later
"""How make timeline checks its files and its time, without machines."""

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import SimpleNamespace

import pytest

from demo_records import LOST_READ, SEND, TOP
from fakernic_lab.lab import TIMELINE
from fakernic_lab.timeline import files
from fakernic_lab.timeline.model import Model
from fakernic_lab.timeline.picture import STYLE, WIDTH
from test_timeline import records_of


@pytest.fixture
def demo(monkeypatch):
    """The program, with machines that do nothing."""
    loader = SourceFileLoader("demo", str(TOP / "tests/timeline/demo"))
    module = module_from_spec(spec_from_loader("demo", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "run_all", lambda lab: None)
    return module


def machines_that_leave(names, reported=("as it should be",)):
    """A replacement for Lab, whose timeline is files with these names."""
    class Left:
        def __init__(self, out, record, say):
            assert record and say
            self.folder = Path(out) / TIMELINE

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def make_timeline(self):
            self.folder.mkdir(parents=True)
            for name in names:
                (self.folder / name).write_text("something\n", "utf-8")
            return list(reported)
    return Left


def ended(demo, tmp_path, *words):
    return demo.main(["--out", str(tmp_path / "out"), *words])


def test_demo_ends_well(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "Lab", machines_that_leave(demo.FILES))
    assert ended(demo, tmp_path, "--limit", "60") == 0
    reported = capsys.readouterr()
    assert reported.out.endswith(" after 0 s\n") and not reported.err


@pytest.mark.parametrize("kind", ["send", "write", "read", "atomic"])
@pytest.mark.parametrize("end", ["", "-lost"])
def test_demo_needs_clean_and_lost_requests(demo, tmp_path, monkeypatch, capsys,
                                        kind, end):
    gone = f"{kind}{end}.svg"
    monkeypatch.setattr(demo, "Lab", machines_that_leave(
        set(demo.FILES) - {gone}))
    assert ended(demo, tmp_path) == 1
    assert capsys.readouterr().err == f"there is no {gone}\n"


@pytest.mark.parametrize("limit, code", [("60", 1), ("0", 0)])
def test_demo_beyond_time_limit_fails(demo, tmp_path, monkeypatch, capsys, limit, code):
    times = iter((0, 61))
    monkeypatch.setattr(demo, "Lab", machines_that_leave(demo.FILES))
    monkeypatch.setattr(demo, "time", SimpleNamespace(
        monotonic=lambda: next(times)))
    assert ended(demo, tmp_path, "--limit", limit) == code
    reported = capsys.readouterr()
    assert " after 61 s\n" in reported.out
    assert reported.err.startswith("that is more than 60 s") == bool(code)


def test_demo_reports_problems(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "Lab", machines_that_leave(
        demo.FILES, ("much", "something is wrong")))
    assert ended(demo, tmp_path) == 1
    assert capsys.readouterr().err == "something is wrong\n"


@pytest.mark.parametrize("steps, name", [(SEND, "send.svg"),
                                         (LOST_READ, "read-lost.svg")])
def test_names_that_the_demo_looks_for(demo, tmp_path, steps, name):
    """The demo looks for the names that the timeline gives to its pictures."""
    model = Model(records_of(steps, tmp_path))
    files.write(model, tmp_path / "out")
    made = {path.name for path in (tmp_path / "out").iterdir()}
    pictures = {found for found in demo.FILES if found.endswith(".svg")}
    assert made & pictures == {name}
    assert set(demo.FILES) - pictures <= made


def test_pictures_of_the_documents_are_current(demo):
    """Today's code draws the same pictures, with title and description. If not,
    renew them by tests/timeline/demo --pictures."""
    folder = TOP / "tests/timeline"
    assert {path.name for path in folder.glob("*.svg")} == set(demo.PICTURES)
    for name in demo.PICTURES:
        text = (folder / name).read_text("utf-8")
        assert STYLE in text and f'viewBox="0 0 {WIDTH} ' in text, name
        assert "<title id=" in text and "<desc id=" in text, name


def test_each_picture_of_the_tree_is_described():
    """Each picture has a description for readers who cannot see it, and its own
    background for dark pages."""
    found = [path for part in ("ci/docs", "firmware-spec", "kernel-driver",
                               "qemu-hw", "rdma-provider", "tests")
             for path in (TOP / part).rglob("*.svg")]
    assert len(found) > 5
    for path in found:
        text = path.read_text("utf-8")
        assert "<title" in text and "<desc" in text, path
        assert re.search('fill="(#fff|white)"', text), path
