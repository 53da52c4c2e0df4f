# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made of a model: a page, a picture, a trace for chrome://tracing and
Perfetto, and text."""

import html
import json
from collections import defaultdict

from .model import NONE
from .records import opcode_name
from .steps import STEPS

MARKS = {1: "posts to QP {id}", 2: "has polled CQ {id} up to {index}"}
COLORS = {"fault": "#c00", "timeout": "#c00", "nak_tx": "#b60",
          "nak_rx": "#b60", "retry": "#b60", "probe": "#b60"}
INDEX_BYTES = 4         # such reads are looks at a queue's index: left out
ROW, LEFT, COLUMN, TOP = 24, 96, 150, 46


def detail(event):
    """A few words on an event's arguments."""
    if event.kind in ("tx", "rx"):
        words = f"{opcode_name(event.opcode)}, PSN {event.psn}"
        if event.kind == "tx" and event.attempt > 1:
            words += f", attempt {event.attempt}"
        return words
    if event.kind == "fault":
        return f"at={event.point} do={event.action}, PSN {event.psn}"
    if event.kind == "mark":
        return MARKS.get(event.step, "step {step}, {id}, {index}").format(
            **event.fields)
    if event.kind in ("dma_read", "dma_write"):
        return f"{event.len} bytes at {event.address:#x}"
    skipped = {"qpn", "error", "blocks", "vendor_err"}
    return ", ".join(f"{name} {value}" for name, value in event.fields.items()
                     if name not in skipped and value != NONE)


def rows(request):
    """(microseconds, event, packet) of a work request, from its doorbell on."""
    found = request.events()
    start = found[0][0].time
    return [((event.time - start) / 1000, event, packet)
            for event, packet in found if event.kind in STEPS and
            (event.kind != "dma_read" or event.len > INDEX_BYTES)]


def told(time, event):
    """What the page tells who points at an event."""
    step = STEPS[event.kind]
    return (f"{event.node} {step.lane}, {time:.1f} us. {step.sentence} "
            f"[{detail(event)}] {step.source()}")


def faults_of(request):
    return sum(1 for packet in request.all_packets() if packet.fault)


def file_name(request):
    """Of its picture: read.svg, read-lost.svg."""
    what = request.what().lower().replace(" ", "-")
    lost = any(packet.lost() for packet in request.all_packets())
    end = "-lost" if lost else "-fault" if faults_of(request) else ""
    return f"{what}{end}.svg"


def title(request):
    faults = faults_of(request)
    return (f"{request.what()}, {len(request.packets)} packet(s) there, "
            f"{len(request.answers)} back" +
            (f", {faults} hit by a fault rule" if faults else ""))


def text(request):
    lines = [f"{title(request)}  ({request.name()})"]
    for time, event, packet in rows(request):
        mark = " "
        if packet and event is packet.tx:
            mark = "x" if packet.lost() else ">"
        lines.append(f"{time:10.1f} us  {event.node:<6} {mark} "
                     f"{STEPS[event.kind].short:<16} {detail(event)}")
    return "\n".join(lines) + "\n"


# ---- the picture ---------------------------------------------------------------

ORDER = ("software", "memory", "card"), ("card", "memory", "software")


def places(nodes):
    found, x = {}, LEFT + COLUMN // 2
    for number, node in enumerate(nodes):
        for lane in ORDER[min(number, 1)]:
            found[node, lane] = x
            x += COLUMN
        x += COLUMN // 2
    return found, x


def tag(name, content="", **attributes):
    attributes = {"class" if key == "klass" else key.replace("_", "-"): value
                  for key, value in attributes.items()}
    words = "".join(f' {key}="{html.escape(str(value))}"'
                    for key, value in attributes.items())
    return f"<{name}{words}>{content}</{name}>"


def svg(request, nodes):
    """Swimlanes: time goes down, a row per event, packets from card to card."""
    where, width = places(nodes)
    found = rows(request)
    height = TOP + ROW * (len(found) + 1)
    parts = []
    for (node, lane), x in where.items():
        parts.append(tag("text", html.escape(f"{node} {lane}"), x=x, y=20,
                         klass="head"))
        parts.append(tag("line", x1=x, y1=30, x2=x, y2=height - 8,
                         klass="lane"))
    spots = {}
    for number, (time, event, _) in enumerate(found):
        step = STEPS[event.kind]
        x = where[event.node, step.lane]
        y = TOP + ROW * number
        spots[id(event)] = (x, y)
        words = html.escape(f"{step.short}: {detail(event)}")
        dot = tag("circle", tag("title", html.escape(told(time, event))),
                  cx=x, cy=y, r=5, fill=COLORS.get(event.kind, "#06c"))
        parts.append(tag("text", f"{time:.1f} us", x=LEFT - 10, y=y + 4,
                         klass="time"))
        # Away from the wire for the cards, else towards it.
        left = (step.lane == "card") == (x < width / 2)
        parts.append(dot + tag("text", words, x=x - 9 if left else x + 9,
                               y=y - 6, klass="end" if left else "word"))
    for packet in request.all_packets():
        parts.append(arrow(packet, spots, where))
    body = "".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} '
            f'{height}" width="{width}" height="{height}"><style>{STYLE}'
            f'</style>{TIP}<rect width="100%" height="100%" fill="#fff"/>'
            f"{body}</svg>")


def arrow(packet, spots, where):
    x1, y1 = spots[id(packet.tx)]
    if packet.rx and id(packet.rx[0]) in spots:
        x2, y2 = spots[id(packet.rx[0])]
        return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, klass="packet",
                   marker_end="url(#tip)")
    others = [x for (node, lane), x in where.items()
              if node != packet.tx.node and lane == "card"]
    x2 = (x1 + others[0]) / 2 if others else x1
    return (tag("line", x1=x1, y1=y1, x2=x2, y2=y1 + ROW / 2, klass="lost") +
            tag("text", "✗", x=x2, y=y1 + ROW / 2 + 6, klass="cross"))


TIP = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="11" refY="4" '
       'markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" '
       'fill="#070"/></marker></defs>')
STYLE = """text{font:12px sans-serif;fill:#222}.head{font-weight:bold;
text-anchor:middle}.lane{stroke:#ccc;stroke-width:2}.time{text-anchor:end;
fill:#777}.end{text-anchor:end}.packet{stroke:#070;stroke-width:1.5}
.lost{stroke:#c00;stroke-width:1.5;stroke-dasharray:5 3}
.cross{fill:#c00;font-size:18px;text-anchor:middle}
circle:hover{stroke:#000;stroke-width:3}"""

SCRIPT = """
for (const dot of document.querySelectorAll('circle')) {
    dot.addEventListener('mouseover', () => {
        document.getElementById('told').textContent =
            dot.querySelector('title').textContent;
    });
}
for (const box of document.querySelectorAll('#choice input')) {
    box.addEventListener('change', () => {
        document.getElementById(box.value).hidden = !box.checked;
    });
}
document.body.dataset.ready = document.querySelectorAll('circle').length;
"""


def page(requests, nodes):
    """One file that needs no other."""
    choice, parts = [], []
    for number, request in enumerate(requests):
        name = f"wr{number}"
        words = html.escape(f"{title(request)} ({request.name()})")
        choice.append(f'<label><input type="checkbox" checked value="{name}"> '
                      f"{words}</label><br>")
        parts.append(f'<section id="{name}"><h2>{words}</h2>'
                     f"{svg(request, nodes)}</section>")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>fakernic: a timeline</title>
<style>body{{font:14px sans-serif;margin:1em}}#told{{position:sticky;top:0;
background:#ffd;padding:.5em;min-height:2.4em}}section{{overflow-x:auto}}
</style></head><body>
<h1>Work requests, from program to program</h1>
<p>Time goes down, a row per event; it shows the order and the shape, not the
speed of hardware. Point at a dot to read what happens there.</p>
<div id="told"></div><p id="choice">{"".join(choice)}</p>
{"".join(parts)}<script>{SCRIPT}</script></body></html>
"""


# ---- Chrome's trace format -----------------------------------------------------

LANES = ("software", "memory", "card", "other")     # threads: 1, 2, ...
SLICE_NS = 500


def names_of(nodes):
    """What the processes and threads of a trace are called."""
    for pid, node in enumerate(nodes, start=1):
        yield {"ph": "M", "name": "process_name", "pid": pid,
               "args": {"name": node}}
        for tid, lane in enumerate(LANES, start=1):
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
                   "args": {"name": lane}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid,
                   "tid": tid, "args": {"sort_index": tid}}


def flows_of(packets):
    """Of each end of a packet: the beginnings and ends of arrows there."""
    found = defaultdict(list)
    for number, packet in enumerate(packets, start=1):
        if packet.rx:
            common = {"cat": "wire", "name": "packet", "id": number}
            for phase, event in (("s", packet.tx), ("f", packet.rx[0])):
                end = {"bp": "e"} if phase == "f" else {}
                found[event.node, event.number].append(
                    {**common, "ph": phase, **end})
    return found


def slices(pid, events, flows):
    """The events of a machine, each with the arrows that begin or end in it:
    these belong to a slice by their thread and time. Slices of a thread must
    not overlap, so one ends with the next."""
    after = {}
    found = []
    for event in reversed(events):
        step = STEPS.get(event.kind)
        tid = 1 + LANES.index(step.lane if step else "other")
        length = min(SLICE_NS, after.get(tid, event.time + SLICE_NS) -
                     event.time)
        after[tid] = event.time
        at = {"pid": pid, "tid": tid, "ts": event.time / 1000}
        found += [{**flow, **at} for flow in
                  reversed(flows.get((event.node, event.number), ()))]
        found.append({"ph": "X", **at, "dur": length / 1000,
                      "name": event.kind, "args": event.fields})
    return reversed(found)


def chrome(model):
    """All events; packets as flows between the machines."""
    found = list(names_of(model.records))
    flows = flows_of(model.packets)
    for pid, events in enumerate(model.records.values(), start=1):
        found += slices(pid, events, flows)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": found})
