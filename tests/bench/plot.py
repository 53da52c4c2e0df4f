#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws a result of bench.py: plot.py RESULT.json makes RESULT-*.svg.

Bandwidth over message size, a line per device, with this machine's limits: of one
QP with the larger path MTU, and of all QPs and path MTUs where they were measured;
latency over message size. A bar at each point spans all runs.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "fakernic"
matplotlib.rcParams["svg.fonttype"] = "none"        # a tenth of the bytes

from matplotlib import pyplot           # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from results import Result              # noqa: E402
from rows import PATH_MTUS, QPS, ROUNDS, SIZES, USUAL_MTU   # noqa: E402
from rows import bandwidth_row, latency_row     # noqa: E402

VERBS = ("write", "read", "send")
# Name of a limit -> bytes of its frames, of which a packet has the rest for its
# headers; older results know no small frames.
LIMITS = {"unix datagrams": "--", "the link's ring": ":"}
FRAMES = {64: "138 bytes", 4096: "4200 bytes"}
WAKE = "a thread woken and back by eventfd, us"
COLOURS = {"rxe": "C3", "stream": "C0", "dgram": "C9", "link": "C2",
           "null": "C7"}


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return str(size)


def limit_of(limits, name, size):
    """MB/s of payload that frames of that size bring at most; None: unknown."""
    packet = max(bytes for bytes in FRAMES if bytes <= size)
    frame = FRAMES[packet]
    value = next((value for text, value in limits.items()
                  if text.startswith(name) and frame in text), None)
    return value and value * 1e3 * packet / int(frame.split()[0])


def points(result, device, rows, key, fast=max):
    """(sizes, medians, downwards, upwards) of those of some (size, row's name)
    that were measured: of Soft-RoCE, of its better median."""
    found = [(size, result.spread(row, result.best(row, device, key, fast), key))
             for size, row in rows]
    found = [(size, *spread) for size, spread in found if spread]
    return ([size for size, *_ in found], [middle for _, middle, _, _ in found],
            [middle - least for _, middle, least, _ in found],
            [most - middle for _, middle, _, most in found])


def line(axes, result, device, rows, key, fast=max, **style):
    """Whether there was something to draw."""
    sizes, middles, down, up = points(result, device, rows, key, fast)
    if sizes:
        axes.errorbar(sizes, middles, yerr=[down, up], marker="o", capsize=3,
                      color=COLOURS.get(device), **style)
    return bool(sizes)


def scales(axes, sizes, unit, title):
    """Both logarithmic, with these sizes of messages."""
    axes.set(xscale="log", yscale="log", ylabel=unit, title=title,
             xlabel="message, bytes", xlim=(sizes[0] / 2, sizes[-1] * 2))
    axes.set_xticks(sizes, map(size_name, sizes))
    axes.minorticks_off()
    axes.grid(color="0.9")


def bandwidth(axes, result, verb, qps, mtu):
    """One panel; whether there was something to draw."""
    rows = [(size, bandwidth_row(verb, size, qps, mtu).name) for size in SIZES]
    drawn = [line(axes, result, device, rows, "MB/s", label=device)
             for device in result.devices]
    for name, style in LIMITS.items() if mtu == USUAL_MTU else ():
        known = [(size, value) for size in SIZES
                 if (value := limit_of(result.limits, name, size))]
        axes.plot([size for size, _ in known], [value for _, value in known],
                  style, color="grey", label=f"limit: {name}")
    scales(axes, SIZES, "MB/s", f"RDMA {verb}, {qps} "
           f"QP{'s' if qps > 1 else ''}, path MTU {mtu}")
    return any(drawn)


def latency(axes, result, verb):
    """Medians, and the 99th percentiles dashed."""
    rows = [(size, latency_row(verb, size).name) for size in ROUNDS]
    drawn = [line(axes, result, device, rows, key, min, label=label.format(device),
                  linestyle=style, markerfacecolor=face)
             for device in result.devices
             for key, label, style, face in (
                 ("median", "{}", "-", None), ("p99", "{}, 99 %", "--", "white"))]
    if WAKE in result.limits:
        axes.axhline(result.limits[WAKE], linestyle=":", color="grey",
                     label="limit: a thread woken and back")
    scales(axes, tuple(ROUNDS), "us", f"RDMA {verb}, latency")
    return any(drawn)


def finish(figure, axes, path):
    handles, labels = axes.get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, fontsize="small", loc="upper center", ncols=3,
                  bbox_to_anchor=(0.5, 0.02))
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)


def pictures(result):
    """(name, figure, its first axes, whether there is something in it)."""
    for verb in VERBS:
        figure, axes = pyplot.subplots(figsize=(6, 4))
        yield verb, figure, axes, bandwidth(axes, result, verb, 1, USUAL_MTU)
        figure, grid = pyplot.subplots(2, 3, figsize=(15, 8), sharey=True)
        drawn = [bandwidth(grid[row][column], result, verb, qps, mtu)
                 for row, mtu in enumerate(reversed(PATH_MTUS))
                 for column, qps in enumerate(QPS)]
        yield f"{verb}-all", figure, grid[0][0], all(drawn)
    figure, grid = pyplot.subplots(1, len(VERBS), figsize=(15, 4), sharey=True)
    drawn = [latency(axes, result, verb) for axes, verb in zip(grid, VERBS)]
    yield "latency", figure, grid[0], any(drawn)


def draw(path):
    """Draws what there is; the files."""
    source, made = Path(path), []
    for name, figure, axes, wanted in pictures(Result.read(source)):
        if wanted:
            made.append(source.with_name(f"{source.stem}-{name}.svg"))
            finish(figure, axes, made[-1])
        else:
            pyplot.close(figure)
    return made


if __name__ == "__main__":
    print("\n".join(map(str, draw(sys.argv[1]))))
