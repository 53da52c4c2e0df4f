# SPDX-License-Identifier: GPL-2.0-or-later
"""make timeline prints a line before each part that takes seconds, and the progress of
its machines."""

from contextlib import contextmanager, nullcontext
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import SimpleNamespace

from demo_records import TOP


def test_demo_shows_progress(tmp_path, monkeypatch, capsys):
    loader = SourceFileLoader("demo", str(TOP / "tests/timeline/demo"))
    demo = module_from_spec(spec_from_loader("demo", loader))
    loader.exec_module(demo)
    ran = []

    @contextmanager
    def fake_lab(say, **_):
        say("1 of 2 machines have started after 30 s")
        machine = SimpleNamespace(vm=None)
        yield SimpleNamespace(node1=machine, node2=machine,
                              make_timeline=lambda: ["0 problem(s)"])
    monkeypatch.setattr(demo, "Lab", fake_lab)
    monkeypatch.setattr(demo, "run_pair", lambda *words: ran.append(words))
    monkeypatch.setattr(demo.faults, "armed", lambda *_: nullcontext())
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path)])
    demo.main()
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["  two machines start",
                        "  1 of 2 machines have started after 30 s"]
    assert len(ran) == 2 * len(demo.RUNS)
    for program, *_ in demo.RUNS:
        assert sum(program in line for line in said) == 1
