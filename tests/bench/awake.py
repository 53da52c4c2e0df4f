#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures whether sq-awake-us should be on by default: awake.py [--short]

Runs cost.py and bench.py with it and without it, and bench.py also without it on a
second pair of machines, which shows the noise of the job. Then prints each condition
and whether it holds. The exit status does not depend on the numbers.
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from cost import ENDS, IDLE_S                       # noqa: E402
from kvm import run                                 # noqa: E402
from results import Result, number                  # noqa: E402
from rows import chosen_rows                        # noqa: E402
from table import LATENCIES, is_latency, key_of, table    # noqa: E402

OFF, AGAIN, ON = "link", "link+again", "link+awake"
# Rows whose doorbells count, and the most per message at one end.
SMALL = ("write-64", "send-64", "read-64")
DOORBELLS = ("access send", "access arm", "access poll")
DOORBELLS_MOST = 0.1
# A row is slower if its ratio is below this, and below that of the second pair
# without the event index.
RATIO_LEAST = 0.95
# Of a processor, in percent.
IDLE_MORE = 0.1
ROWS = (*SMALL, "write-65536", "read-65536", "send-65536", "write-64-q8",
        "write-65536-q64", "*-lat", "pingpong-*")
HOLDS = {True: "holds", False: "**does not hold**"}


def keys_of(row):
    """The numbers of a row that are compared."""
    if row.startswith("pingpong"):
        return ("mean",)
    return ("median", "p99") if is_latency(row) else (key_of(row),)


def doorbells(cost, row):
    """The most doorbells per message at one end; None: not measured."""
    found = cost["rows"].get(ON, {}).get(row)
    return found and max(sum(found[end].get(name, 0) for name in DOORBELLS)
                         for end in ENDS)


def at_most(text, found, most):
    """A condition: its text, what was found, and whether it holds."""
    if found is None:
        return text, "not measured", False
    return text, number(found, 3), found <= most


def ratio(result, row, key):
    """The condition that a number of a row is no worse."""
    text = f"{row}, {key}: no slower"
    on, again = (result.times(row, name, key, min if key in LATENCIES else max, OFF)
                 for name in (ON, AGAIN))
    if on is None or again is None:
        return text, "not measured", False
    return (text, f"{number(on, 3)} x, noise {number(again, 3)} x",
            on >= RATIO_LEAST or on >= again)


def idle_more(cost):
    found = cost.get("idle", {}).get("percent", {})
    return found[ON] - found[OFF] if {ON, OFF} <= set(found) else None


def conditions(cost, result):
    """All conditions: text, what was found, whether it holds."""
    names = [row.name for row in chosen_rows(ROWS)]
    return [
        *(at_most(f"{row}: at most {DOORBELLS_MOST} doorbells per message",
                  doorbells(cost, row), DOORBELLS_MOST) for row in SMALL),
        *(ratio(result, row, key) for row in names for key in keys_of(row)),
        at_most(f"idle: at most {IDLE_MORE} % of a processor more", idle_more(cost),
                IDLE_MORE)]


def verdict(found):
    """The table of conditions, and the decision."""
    failed = sum(not holds for _, _, holds in found)
    decision = (f"leave sq-awake-us off: {failed} of {len(found)} conditions do not "
                "hold" if failed else "switch sq-awake-us on by default")
    return "\n".join([*table(["condition", "found", ""], [
        [text, value, HOLDS[holds]] for text, value, holds in found]), decision])


def options_of(short):
    """The options of the tools."""
    return {"cost.py": ["--wires", OFF, ON, "--rows", *SMALL, "--no-strace", "--idle",
                        str(IDLE_S)],
            "bench.py": ["--devices", OFF, AGAIN, ON, "--rows", *ROWS, "--runs",
                         "1" if short else "5", "--boots", "1" if short else "3",
                         "--minutes", "10" if short else "90"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--short", action="store_true", help="one run of each row: "
                        "tests this command and decides nothing")
    parser.add_argument("--out", type=Path, default=Path("/cache/log/bench-awake"))
    options = parser.parse_args()
    found = {tool: run(tool, words, options.out / tool)
             for tool, words in options_of(options.short).items()}
    (options.out / "result.json").write_text(json.dumps(found) + "\n",
                                             encoding="utf-8")
    text = verdict(conditions(found["cost.py"], Result(found["bench.py"])))
    (options.out / "result.md").write_text(text + "\n", encoding="utf-8")
    print(f"{text}\n{options.out}/result.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
