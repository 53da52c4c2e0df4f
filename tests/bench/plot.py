#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws a result of bench.py: plot.py RESULT.json makes RESULT-throughput.svg and
RESULT-latency.svg.

Each device has a line per row. Throughput: a mark at the median, a bar from the
least to the greatest run, and this machine's limit for frames of that size. Latency:
a mark at the median and a bar to the 99th percentile. A tick shows the wanted median.
Only what was measured is drawn, and no two measurements are joined.
"""

import math
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from results import RXE, Result, number                     # noqa: E402

# (row, its name in the figure).
THROUGHPUT = (("write-64", "WRITE, 64 bytes"), ("write-4096", "WRITE, 4 KiB"),
              ("write-65536", "WRITE, 64 KiB"), ("read-65536", "READ, 64 KiB"),
              ("send-65536", "SEND, 64 KiB"),
              ("write-65536-q64", "WRITE, 64 KiB, 64 QPs"),
              ("write-1048576", "WRITE, 1 MiB"))
LATENCY = (("send-lat", "SEND"), ("read-lat", "READ"),
           ("atomic-lat", "Atomic"), ("write-lat", "WRITE"))
# Name of a limit; bytes of a packet -> the frames that carry it.
LIMIT = "unix datagrams"
FRAMES = {64: "138 bytes", 4096: "4200 bytes"}
NAMES = {RXE: "Soft-RoCE", "stream": "fakernic, stream",
         "link": "fakernic, link"}
NOT_DRAWN = ("null",)           # it sends nothing
DIGITS = 3
# Differ in shape and in brightness, so that a print in grey shows them.
MARKS = {RXE: ("#444444", "white", "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z"),
         "stream": ("#56b4e9", "#56b4e9", "M-5,-5h10v10h-10z"),
         "link": ("#003f6b", "#003f6b", "M-6,5h12l-6,-11z")}
OTHER = ("#9c5500", "white", "M0,-6l6,6l-6,6l-6,-6z")
WIDTH, MARGIN, LINE, GAP, FONT = 700, 12, 21, 28, 16


def limit_of(limits, name, size):
    """MB/s of payload that frames of that size carry at most; None: unknown."""
    packet = max(bytes for bytes in FRAMES if bytes <= size)
    frame = FRAMES[packet]
    value = next((value for text, value in limits.items()
                  if text.startswith(name) and frame in text), None)
    return value and value * 1e3 * packet / int(frame.split()[0])


class Line:
    """What one device did in one row: a mark, and a bar through or from it;
    the number that is wanted, or None."""

    def __init__(self, device, mark, bar, text, wanted):
        self.device, self.mark, self.bar, self.text = device, mark, bar, text
        self.wanted = wanted


def drawn(result):
    return [device for device in result.devices
            if device.partition("@")[0] not in NOT_DRAWN]


def throughput_lines(result, row):
    for device in drawn(result):
        found = result.spread(row, result.best(row, device, "MB/s"), "MB/s")
        if found:
            middle, least, greatest = found
            yield Line(device, middle, (least, greatest),
                       number(middle, DIGITS),
                       result.wanted(row, device, "MB/s"))


def latency_lines(result, row):
    for device in drawn(result):
        name = result.best(row, device, "median", min)
        middle, p99 = (result.median(row, name, key) for key in ("median", "p99"))
        if middle:
            text = number(middle, DIGITS) + (
                f", p99 {number(p99, DIGITS)}" if p99 else "")
            yield Line(device, middle, (middle, p99 or middle), text,
                       result.wanted(row, device, "median", min))


class Figure:
    """Rows of lines above an axis of decades."""

    def __init__(self, title, unit, legend):
        self.title, self.unit, self.legend = title, unit, legend
        self.rows = []          # (name, lines, limit or None)

    def add(self, name, lines, limit=None):
        if lines:
            self.rows.append((name, lines, limit))

    def scale(self):
        """The decades at both ends."""
        values = [value for _, lines, limit in self.rows
                  for value in (limit, *(end for line in lines
                                         for end in (*line.bar, line.wanted)))
                  if value]
        first = math.floor(math.log10(min(values)))
        return first, max(first + 1, math.ceil(math.log10(max(values))))

    def x(self, value):
        first, last = self.scale()
        return MARGIN + (WIDTH - 2 * MARGIN) * (
            math.log10(value) - first) / (last - first)

    def text(self, at, y, words, anchor="start", more=""):
        return (f'<text x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>'
                f'{escape(words)}</text>')

    def draw_line(self, y, line):
        """Its name and numbers stand where the figure has more room."""
        stroke, fill, path = MARKS.get(line.device, OTHER)
        left, right = map(self.x, line.bar)
        at = self.x(line.mark)
        wanted = self.x(line.wanted) if line.wanted else at
        words = f"{NAMES.get(line.device, line.device)} {line.text}"
        if WIDTH - right > left:
            label = self.text(max(right, at, wanted) + 11, y + 5, words)
        else:
            label = self.text(min(left, at, wanted) - 11, y + 5, words, "end")
        tick = ([f'<path class="wanted" d="M{wanted:.1f},{y - 9:.1f}v18"/>']
                if line.wanted else [])
        return [*tick, f'<g stroke="{stroke}" fill="{fill}" stroke-width="2">'
                f'<path d="M{left:.1f},{y:.1f}H{right:.1f}"/>'
                f'<path class="mark" transform="translate({at:.1f},{y:.1f})" '
                f'd="{path}"/></g>', label]

    def body(self):
        """Lines of SVG, and where they end."""
        found, y = [], 2 * FONT + GAP
        for name, lines, limit in self.rows:
            found.append(self.text(MARGIN, y + 5, name, more=' class="row"'))
            if limit:
                found.append(
                    f'<path class="limit" d="M{self.x(limit):.1f},{y + 10:.1f}'
                    f'v{LINE * len(lines)}"/>')
            for line in lines:
                y += LINE
                found += self.draw_line(y, line)
            y += GAP
        return found, y - GAP + LINE

    def axis(self, end):
        first, last = self.scale()
        for decade in range(first, last + 1):
            at = self.x(10.0 ** decade)
            anchor = {first: "start", last: "end"}.get(decade, "middle")
            yield f'<path class="axis" d="M{at:.1f},{2 * FONT + 12}V{end}"/>'
            yield self.text(at, end + FONT + 4, f"{10.0 ** decade:,.12g}", anchor)

    def svg(self, description):
        body, end = self.body()
        height = end + 4 * FONT + 16
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
            f'{height}" width="{WIDTH}" height="{height}" role="img" '
            'aria-labelledby="title desc">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            f'<style>text {{ font: {FONT}px sans-serif; fill: #222; '
            'paint-order: stroke; stroke: white; stroke-width: 4px }',
            '.row, .head { font-weight: bold }',
            '.axis { stroke: #ccc; fill: none }',
            '.limit { stroke: #222; stroke-width: 2; stroke-dasharray: 5 3 }',
            '.wanted { stroke: #c47800; stroke-width: 3 }',
            '</style>',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *self.axis(end),
            self.text(MARGIN, 20, self.title, more=' class="head"'),
            *body,
            self.text(MARGIN, end + 2 * FONT + 10, self.unit),
            self.text(MARGIN, end + 3 * FONT + 14, self.legend), '</svg>', ""])

    def described(self):
        """The numbers of the figure as a text."""
        return "; ".join(
            f"{name}: " + ", ".join(
                f"{NAMES.get(line.device, line.device)} {line.text}" +
                (f" (wanted {number(line.wanted, DIGITS)})"
                 if line.wanted else "")
                for line in lines) for name, lines, _ in self.rows)


def figures(result):
    """Yields (name, SVG) of each figure that is not empty."""
    figure = Figure("RDMA throughput, path MTU 4096",
                    "MB/s, logarithmic; bar: all runs",
                    "tick: wanted; dashed: limit of UNIX datagrams")
    for row, name in THROUGHPUT:
        size = int(row.split("-")[1])
        figure.add(name, list(throughput_lines(result, row)),
                   limit_of(result.limits, LIMIT, size))
    if figure.rows:
        yield "throughput", figure.svg(
            "Median MB/s of payload. The dashed line is what UNIX datagrams of "
            f"one packet each carry on this machine. {figure.described()}.")
    figure = Figure("RDMA latency of 8 bytes, one work request at a time",
                    "us, logarithmic; bar: from median to 99th percentile",
                    "tick: wanted median")
    for row, name in LATENCY:
        figure.add(name, list(latency_lines(result, row)))
    if figure.rows:
        yield "latency", figure.svg(
            f"Microseconds, median and 99th percentile. {figure.described()}.")


def draw(path):
    """Draws the figures of a result. Returns the files."""
    source, made = Path(path), []
    for name, text in figures(Result.read(source)):
        made.append(source.with_name(f"{source.stem}-{name}.svg"))
        made[-1].write_text(text, encoding="utf-8")
    return made


if __name__ == "__main__":
    print("\n".join(map(str, draw(sys.argv[1]))))
