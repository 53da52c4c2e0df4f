#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws a result of bench.py: plot.py RESULT.json makes RESULT-*.svg.

Bandwidth over message size, a line per device, with this machine's limits; and
latency. A bar at each point spans all runs.
"""

import json
import re
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fakernic"

from matplotlib import pyplot           # noqa: E402

LIMITS = ("unix datagrams of 4200 bytes, GB/s",
          "the link's ring, frames of 4200 bytes, GB/s")


def points(rows, verb, device):
    """(size, runs in MB/s) of one QP at the larger path MTU."""
    found = []
    for name, devices in rows.items():
        match = re.fullmatch(rf"{verb}-(\d+)", name)
        if match and devices.get(device):
            found.append((int(match[1]),
                          [run["MB/s"] for run in devices[device]]))
    return sorted(found)


def span(runs):
    middle = statistics.median(runs)
    return middle, middle - min(runs), max(runs) - middle


def finish(figure, axes, path):
    axes.legend(fontsize="small", loc="upper center", ncols=3,
                bbox_to_anchor=(0.5, -0.15))
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)


def bandwidth(result, verb, path):
    figure, axes = pyplot.subplots(figsize=(6, 4))
    for device in result["devices"]:
        found = points(result["rows"], verb, device)
        if found:
            middles = [span(runs) for _, runs in found]
            axes.errorbar([size for size, _ in found],
                          [middle for middle, _, _ in middles],
                          yerr=[[low for _, low, _ in middles],
                                [high for _, _, high in middles]],
                          marker="o", capsize=3, label=device)
    for style, name in zip(("--", ":"), LIMITS):
        axes.axhline(result["limits"][name] * 1e3, linestyle=style,
                     color="grey", label=name.rpartition(",")[0])
    axes.set(xscale="log", yscale="log", xlabel="message, bytes",
             ylabel="MB/s", title=f"RDMA {verb}, 1 QP")
    finish(figure, axes, path)


def latency(result, path):
    rows = [name for name in result["rows"] if name.endswith("-lat")]
    if not rows:
        return
    figure, axes = pyplot.subplots(figsize=(6, 4))
    width = 0.8 / (2 * len(result["devices"]))
    for number, device in enumerate(result["devices"]):
        for part, key in enumerate(("median", "p99")):
            places = [at + (2 * number + part) * width
                      for at in range(len(rows))]
            middles = [statistics.median(run[key] for run in runs) if (
                runs := result["rows"][row].get(device)) else 0 for row in rows]
            axes.bar(places, middles, width, label=f"{device}, {key}")
    axes.set(yscale="log", ylabel="us", title="8 bytes")
    axes.set_xticks([at + 0.4 for at in range(len(rows))], rows)
    finish(figure, axes, path)


def main():
    source = Path(sys.argv[1])
    result = json.loads(source.read_text(encoding="utf-8"))
    for verb in ("write", "read", "send"):
        if any(points(result["rows"], verb, device)
               for device in result["devices"]):
            bandwidth(result, verb, source.with_name(f"{source.stem}-{verb}.svg"))
    latency(result, source.with_name(f"{source.stem}-latency.svg"))


if __name__ == "__main__":
    main()
