# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a model as a page, as text, and as a trace for chrome://tracing and
Perfetto."""

import html
import json
from collections import defaultdict

from .picture import HEAD, STYLE, TIP, WIDTH, Picture, faults_of, rows, title
from .steps import STEPS
from .words import Words


def file_name(request):
    """The file name of a work request's picture: read.svg, read-lost.svg."""
    what = request.what().lower().replace(" ", "-")
    lost = any(packet.lost() for packet in request.all_packets())
    end = "-lost" if lost else "-fault" if faults_of(request) else ""
    return f"{what}{end}.svg"


def text(request):
    words = Words(request)
    start = f"; {words.start()}" if words.start() else ""
    lines = [f"{title(request)}  ({request.name()}{start})"]
    for time, event, packet in rows(request):
        mark = " "
        if packet and event is packet.tx:
            mark = "x" if packet.lost() else ">"
        lines.append(f"{time:10.1f} us  {event.node:<6} {mark} "
                     f"{words.full(event, packet)}")
    return "\n".join(lines) + "\n"


# ---- the page ------------------------------------------------------------------

PAGE_STYLE = f"""body{{font:15px sans-serif;margin:1em 1em 40vh;color:#222;
background:#fff;--zoom:1}}svg{{display:block;width:calc({WIDTH}px*var(--zoom));
height:auto}}.heads{{position:sticky;top:0;background:#fff;z-index:1;
width:calc({WIDTH}px*var(--zoom))}}.legend svg{{margin:.5em 0}}
#bar{{position:fixed;left:0;right:0;bottom:0;max-height:35vh;overflow:auto;
background:#fff7d6;border-top:2px solid #b90;padding:.4em 1em;z-index:2}}
#zoom{{float:right;margin-left:1em}}
button{{font:inherit;min-width:2.4em;min-height:2.4em}}
nav label{{display:block;padding:.2em 0}}.index li{{padding:.15em 0}}
h2{{font-size:1.1em}}.event{{cursor:pointer}}"""

SCRIPT = """
const details = document.getElementById('details');
const events = Array.from(document.querySelectorAll('.event'));
let chosen = null, zoom = 1;

function describe(event) {
    details.textContent = event.querySelector('title').textContent;
}

function choose(event) {
    if (chosen) {
        chosen.classList.remove('chosen');
    }
    for (const other of event.closest('section').querySelectorAll('.event')) {
        other.setAttribute('tabindex', other === event ? 0 : -1);
    }
    event.classList.add('chosen');
    chosen = event;
    describe(event);
}

function go(event) {
    event.focus({preventScroll: true});
    choose(event);                  // also where the window has no focus
    event.scrollIntoView({block: 'center', inline: 'nearest'});
}

function setZoom(value) {
    zoom = Math.min(4, Math.max(0.25, value));
    document.body.style.setProperty('--zoom', zoom);
}

const moves = {
    ArrowDown: (at, last) => Math.min(at + 1, last),
    ArrowUp: at => Math.max(at - 1, 0),
    Home: () => 0,
    End: (at, last) => last,
};
const zooms = {
    '+': () => zoom * 1.25,
    '=': () => zoom * 1.25,
    '-': () => zoom / 1.25,
    '0': () => 1,
    'f': () => zoom * (document.documentElement.clientWidth - 32) /
        document.querySelector('section:not([hidden]) svg').
            getBoundingClientRect().width,
};

document.addEventListener('keydown', key => {
    if (key.ctrlKey || key.metaKey || key.altKey) {
        return;
    }
    const focused = document.activeElement.closest('.event');
    if (focused && moves[key.key]) {
        const there = events.filter(one => !one.closest('section').hidden);
        key.preventDefault();
        go(there[moves[key.key](there.indexOf(focused), there.length - 1)]);
    } else if (zooms[key.key]) {
        setZoom(zooms[key.key]());
    }
});
for (const event of events) {
    event.addEventListener('mouseover', () => describe(event));
    event.addEventListener('focus', () => choose(event));
    event.addEventListener('click', () => {     // a tap, too
        event.focus({preventScroll: true});
        choose(event);
    });
}
for (const link of document.querySelectorAll('.index a')) {
    link.addEventListener('click', click => {
        click.preventDefault();
        document.getElementById(link.hash.slice(1)).closest('section').hidden =
            false;
        go(document.getElementById(link.hash.slice(1)));
    });
}
for (const box of document.querySelectorAll('nav input')) {
    box.addEventListener('change', () => {
        document.getElementById(box.value).hidden = !box.checked;
    });
}
for (const button of document.querySelectorAll('#zoom button')) {
    button.addEventListener('click', () => setZoom(zooms[button.value]()));
}
for (const section of document.querySelectorAll('section')) {
    section.querySelector('.event').setAttribute('tabindex', 0);
}
document.body.dataset.ready = events.length;
"""

ZOOMS = (("-", "smaller", "−"), ("+", "larger", "+"), ("0", "first size", "1:1"),
         ("f", "as wide as the window", "fit"))


def index(picture):
    """A list of links to all events of a picture."""
    links = []
    for number, (time, event, packet) in enumerate(picture.rows):
        words = html.escape(f"{time:.1f} us, {event.node} "
                            f"{STEPS[event.kind].lane}: "
                            f"{picture.words.full(event, packet)}")
        links.append(f'<li><a href="#{picture.name}-{number}">{words}</a></li>')
    return (f'<details class="index"><summary>Index of {len(links)} events'
            f'</summary><ol>{"".join(links)}</ol></details>')


def drawing(height, parts):
    return (f'<svg viewBox="0 0 {WIDTH} {height:g}" aria-hidden="true">{parts}'
            "</svg>")


def section(picture, heading):
    """The section of a work request: its index, column heads that stay in view, and its
    picture."""
    name = picture.name
    return (f'<section id="{name}"><h2>{heading}</h2>{index(picture)}'
            f'<div class="heads">{drawing(HEAD, picture.heads())}</div>'
            f'<svg viewBox="0 0 {WIDTH} {picture.height:g}" role="group" '
            f'aria-labelledby="{name}title {name}desc">{picture.names(name)}'
            f'{picture.body()}</svg><div class="legend">'
            f"{drawing(48, picture.legend())}</div></section>")


def page(requests, nodes):
    """A self-contained page about work requests between NODES."""
    choice, parts = [], []
    for number, request in enumerate(requests):
        picture = Picture(request, f"wr{number}")
        words = html.escape(f"{title(request)} ({request.name()})")
        choice.append(f'<label><input type="checkbox" checked '
                      f'value="{picture.name}"> {words} <a '
                      f'href="#{picture.name}">go there</a></label>')
        parts.append(section(picture, words))
    zooms = "".join(f'<button value="{key}" aria-label="{name}">{sign}</button>'
                    for key, name, sign in ZOOMS)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1,
minimum-scale=1">
<title>fakernic: a timeline of {html.escape(", ".join(nodes))}</title>
<style>{STYLE}{PAGE_STYLE}</style></head><body>
<h1>Work requests, from program to program</h1>
<p>Time runs down, one row per event. The page shows the order and the shape,
not the speed of hardware. Point at a row, tap it, or go from row to row by the
arrow keys (Tab leads to the first). The box below then shows what happens there.
The keys + and - change the size, 0 resets it, and f fits the window.</p>
<nav aria-label="work requests">{"".join(choice)}</nav>
<svg width="0" height="0" style="width:0;height:0" aria-hidden="true">{TIP}</svg>
{"".join(parts)}<div id="bar"><div id="zoom" role="group" aria-label="size">
{zooms}</div><div id="details" role="status">Choose an event.</div></div>
<script>{SCRIPT}</script></body></html>
"""


# ---- Chrome's trace format -----------------------------------------------------

LANES = ("CPU", "memory", "card", "other")     # threads: 1, 2, ...
SLICE_NS = 500


def names_of(nodes):
    """The trace entries that name processes (machines) and threads (lanes)."""
    for pid, node in enumerate(nodes, start=1):
        yield {"ph": "M", "name": "process_name", "pid": pid,
               "args": {"name": node}}
        for tid, lane in enumerate(LANES, start=1):
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
                   "args": {"name": lane}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid,
                   "tid": tid, "args": {"sort_index": tid}}


def flows_of(packets):
    """(node, number of an event) -> the arrows that begin or end at this event."""
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
    """The events of a machine as slices, and the arrows at them. An arrow belongs to the
    slice with its thread and time. Slices of a thread must not overlap, so a slice ends
    when the next one begins."""
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
    """A trace of all events. Packets are flows (arrows) between the machines."""
    found = list(names_of(model.records))
    flows = flows_of(model.packets)
    for pid, events in enumerate(model.records.values(), start=1):
        found += slices(pid, events, flows)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": found})
