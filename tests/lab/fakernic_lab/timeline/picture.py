# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of a work request, 830 pixels wide: time runs down, one row per
event. The requester is on the left and its peers on the right. Each event is a
mark in a lane, with its label outside the lanes; packets go from card to card.
"""

import html
import statistics

from .steps import STEPS
from .words import Words, count

INDEX_BYTES = 4         # DMA reads of at most 4 bytes read a queue's index: not shown
WIDTH, ROW, GAP, HEAD, FOOT = 830, 22, 20, 42, 64
# A time between two rows above JUMP times the median is shown as a jump.
JUMP = 10
LANES = {"CPU": 306, "memory": 346, "card": 386}        # at the requester
TIME_END, LABEL_END, LABEL_BEGIN = 46, 294, 582
# The mark of an event shows its kind. Marks differ in shape, colour and brightness.
KINDS = {"fault": "fault", "timeout": "repair", "nak_tx": "repair",
         "nak_rx": "repair", "retry": "repair", "probe": "repair"}
MARKS = {"event": '<circle class="event-mark" cx="{x}" cy="{y}" r="5"/>',
         "repair": '<path class="repair-mark" d="M{x} {y}m0-7l7 7-7 7-7-7z"/>',
         "fault": '<path class="fault-mark" d="M{x} {y}m-6-6h12v12h-12z"/>'}
LEGEND = (("event", "event", 60), ("repair", "NAK, timeout, resend", 140),
          ("fault", "fault rule", 316))
STYLE = """text{font:12px sans-serif;fill:#222;paint-order:stroke;
stroke:#fff;stroke-width:4px;stroke-linejoin:round}
.head{font-weight:bold}.small{font-size:11px}.mid{text-anchor:middle}
.end{text-anchor:end}.lane{stroke:#bbb;stroke-width:2}
.jump{fill:#eee}.packet,.lost{stroke:#555;stroke-width:1.5;fill:none}
.lost{stroke-dasharray:5 3}.cross{fill:#900;font-size:16px;font-weight:bold}
.event-mark{fill:#1b5fa7}.repair-mark{fill:#ffb000;stroke:#222}
.fault-mark{fill:#900;stroke:#222}.row{fill:transparent}
.event:focus{outline:none}.event:hover .row,.chosen .row{fill:#ffe9a8}"""
TIP = ('<defs><marker id="tip" viewBox="0 0 8 8" refX="12" refY="4" '
       'markerWidth="7" markerHeight="7" orient="auto">'
       '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>')


def rows(request):
    """(microseconds, event, packet) for each row of a work request. Time 0 is its first
    event."""
    found = request.events()
    start = found[0][0].time
    return [((event.time - start) / 1000, event, packet)
            for event, packet in found if event.kind in STEPS and
            (event.kind != "dma_read" or event.len > INDEX_BYTES)]


def faults_of(request):
    return sum(1 for packet in request.all_packets() if packet.fault)


def title(request):
    faults = faults_of(request)
    return (f"{request.what()}: {count(len(request.packets), 'packet')} there, "
            f"{len(request.answers)} back" +
            (f", {faults} hit by a fault rule" if faults else ""))


def details(time, event, packet, words):
    """The full description of an event: place, time, arguments, quotation."""
    step = STEPS[event.kind]
    return (f"{event.node} {step.lane}, {time:.1f} us. {step.sentence} "
            f"[{words.full(event, packet)}] {step.source()}")


def text_at(x, y, content, klass=""):
    klass = f' class="{klass}"' if klass else ""
    return f'<text x="{x:g}" y="{y:g}"{klass}>{html.escape(content)}</text>'


class Picture:
    """Draws a work request. With NAME each event gets an id to which a page can link."""

    def __init__(self, request, name=None):
        self.request, self.name = request, name
        self.words = Words(request)
        self.rows = rows(request)
        self.peers = sorted({event.node for _, event, _ in self.rows} -
                            {request.node})
        self.places, self.jumps, self.height = self.find_places()

    def find_places(self):
        """(y of each row, (y, microseconds) of each jump of time, total height)"""
        times = [time for time, _, _ in self.rows]
        steps = [after - before for before, after in zip(times, times[1:])]
        limit = JUMP * statistics.median(steps) if steps else 0
        places, jumps, y = [], [], ROW / 2
        for step in [0, *steps]:
            if step > limit:
                jumps.append((y - ROW / 2, step))
                y += GAP
            places.append(y)
            y += ROW
        return places, jumps, y

    def x(self, event):
        x = LANES[STEPS[event.kind].lane]
        return x if event.node == self.request.node else self.mirror(x)

    @staticmethod
    def mirror(x):
        return LABEL_END + LABEL_BEGIN - x

    def heads(self):
        """The column heads: names of the machines and their lanes."""
        parts = [text_at(TIME_END, HEAD - 8, "us", "end small")]
        for nodes, side in (([self.request.node], lambda x: x),
                            (self.peers or ["(no peer)"], self.mirror)):
            parts.append(text_at(side(LANES["memory"]), 16, ", ".join(nodes),
                                 "head mid"))
            parts += [text_at(side(x), HEAD - 8, lane, "mid small")
                      for lane, x in LANES.items()]
        return "".join(parts)

    def lanes(self):
        parts = [f'<rect class="jump" y="{y:g}" width="{WIDTH}" '
                 f'height="{GAP - 2}"/>' for y, _ in self.jumps]
        for x in LANES.values():
            parts += [f'<path class="lane" d="M{at} 0V{self.height:g}"/>'
                      for at in (x, self.mirror(x))]
        parts += [text_at(6, y + GAP - 6, f"+{step:,.0f} us", "small")
                  for y, step in self.jumps]
        return "".join(parts)

    def event(self, number):
        """A row: label, mark, and the details for a mouse pointer or a screen reader."""
        time, event, packet = self.rows[number]
        x, y = self.x(event), self.places[number]
        label = self.words.label(event, packet)
        left = event.node == self.request.node
        if not left and len(self.peers) > 1:
            label = f"{event.node}: {label}"
        more = (f' id="{self.name}-{number}" tabindex="-1" role="img"'
                if self.name else "")
        return (f'<g class="event"{more}><title>'
                f'{html.escape(details(*self.rows[number], self.words))}'
                f'</title><rect class="row" y="{y - ROW / 2 + 1:g}" '
                f'width="{WIDTH}" height="{ROW - 2}"/>'
                f'{text_at(TIME_END, y + 4, f"{time:.1f}", "end")}'
                f'{MARKS[KINDS.get(event.kind, "event")].format(x=x, y=y)}' +
                (text_at(LABEL_END, y + 4, label, "end") if left else
                 text_at(LABEL_BEGIN, y + 4, label)) + "</g>")

    def arrows(self):
        spots = {id(event): (self.x(event), y)
                 for (_, event, _), y in zip(self.rows, self.places)}
        lines, labels = [], []
        for packet in self.request.all_packets():
            x1, y1 = spots[id(packet.tx)]
            out = 1 if x1 < WIDTH / 2 else -1
            if packet.rx and id(packet.rx[0]) in spots:
                x2, y2 = spots[id(packet.rx[0])]
                lines.append(f'<path class="packet" d="M{x1} {y1:g}L{x2} '
                             f'{y2:g}" marker-end="url(#tip)"/>')
            else:
                x2, y2 = x1 + 52 * out, y1 + ROW
                lines.append(f'<path class="lost" d="M{x1} {y1:g}L{x2} '
                             f'{y2:g}"/>')
                labels.append(text_at(x2, y2 + 6, "✗", "cross mid"))
            labels.append(text_at(x1 + 9 * out, y1 + 4,
                                  self.words.psn(packet.tx.psn),
                                  "small" if out > 0 else "small end"))
        return "".join(lines), "".join(labels)

    def body(self):
        """The picture without heads and legend, self.height pixels high."""
        lines, labels = self.arrows()
        events = "".join(map(self.event, range(len(self.rows))))
        return self.lanes() + events + lines + labels

    def legend(self):
        y = 14
        parts = [MARKS[kind].format(x=x - 12, y=y) + text_at(x, y + 4, words)
                 for kind, words, x in LEGEND]
        parts += [f'<path class="packet" d="M396 {y}H436" '
                  'marker-end="url(#tip)"/>', text_at(444, y + 4, "packet"),
                  f'<path class="lost" d="M504 {y}H526"/>',
                  text_at(532, y + 6, "✗", "cross mid"),
                  text_at(544, y + 4, "lost packet"),
                  f'<rect class="jump" x="624" y="{y - 9}" width="34" '
                  'height="18"/>', text_at(664, y + 4, "time jumps")]
        start = self.words.start()
        note = "Rows are events in their order; their distance is not time."
        parts.append(text_at(43, y + 28, f"{note} {start}" if start else note))
        return "".join(parts)

    def names(self, name=""):
        """The title and the description of the picture."""
        peers = ", ".join(self.peers) or "no other machine"
        jumps = count(len(self.jumps), "jump")
        return (f'<title id="{name}title">'
                f"{html.escape(title(self.request))}</title>"
                f'<desc id="{name}desc">{len(self.rows)} events in their order, '
                f"from {html.escape(self.request.node)} (left) to "
                f"{html.escape(peers)} (right), with {jumps} of time. Each "
                "machine has lanes for its CPU, its memory and its card; arrows "
                "between the cards are packets.</desc>")

    def file(self):
        """The complete SVG file."""
        height = self.height + HEAD + FOOT + 22
        heading = f"{title(self.request)} ({self.request.name()})"
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
                f'{height:g}" width="{WIDTH}" height="{height:g}" role="img" '
                f'aria-labelledby="title desc">{self.names()}'
                f"<style>{STYLE}</style>{TIP}"
                '<rect width="100%" height="100%" fill="#fff"/>'
                f'{text_at(10, 18, heading, "head")}'
                f'<g transform="translate(0 22)">{self.heads()}</g>'
                f'<g transform="translate(0 {HEAD + 22})">{self.body()}</g>'
                f'<g transform="translate(0 {self.height + HEAD + 26:g})">'
                f"{self.legend()}</g></svg>\n")
