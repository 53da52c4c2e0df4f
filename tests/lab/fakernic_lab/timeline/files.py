# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the files of a timeline and selects the work requests that they show."""

from io import BufferedWriter
from pathlib import Path

from ..outputs import Folder
from . import page
from .clock import behind
from .model import RESTED, Model
from .pcapng import pcapng
from .picture import Picture
from .records import join, overwritten, read

NAMES = ("SEND", "WRITE", "READ", "ATOMIC")
DISSECTOR = "fakernic.lua"


def chosen(model):
    """The work requests to show: for each kind the longest one without a fault, and the
    first one that a fault rule hit."""
    found = []
    for name in NAMES:
        clean, hit = [], []
        for request in model.of_kind(name):
            packets = request.all_packets()
            if any(packet.fault for packet in packets):
                hit.append(request)
            elif all(packet.tx.attempt <= 1 for packet in packets):
                clean.append(request)
        found += sorted(clean, key=lambda request: -len(request.events()))[:1]
        found += hit[:1]
    return found


def write(model, out):
    """Writes all files into the folder OUT."""
    requests = chosen(model)
    nodes = list(model.records)
    out.mkdir(parents=True, exist_ok=True)
    folder = Folder(out.resolve())
    folder.write("trace.txt", "\n".join(
        page.text(request) for request in requests))
    folder.write("trace.html", page.page(requests, nodes))
    folder.write("trace.json", page.chrome(model))
    with BufferedWriter(folder.create("trace.pcapng")) as file:
        file.writelines(pcapng(model))
    folder.write(DISSECTOR, (Path(__file__).parent / DISSECTOR).read_bytes())
    for request in requests:
        folder.write(page.file_name(request), Picture(request).file())


def make(paths, out=None, lost_is_fine=False, whole=True):
    """Makes the Model of the records in PATHS, node -> path, or the paths of a machine that
    has migrated. Writes its files into OUT. WHOLE is as for a Model. Raises RecordError."""
    records = {node: join([read(path, node, lost_is_fine) for path in
                           (found if isinstance(found, list) else [found])])
               for node, found in paths.items()}
    lost = any(map(overwritten, records.values()))
    model = Model(records, whole and not lost)
    if out:
        write(model, Path(out))
    return model


def rests(events):
    """Whether the recorder was paused and not resumed."""
    return [event.kind for event in events
            if event.kind in RESTED][-1:] == ["rests"]


def moves(events):
    """The nanoseconds of each interval in which a machine stood still because it migrated:
    from the last event in one QEMU to the "held" of its start in the other."""
    found, before, began = [], None, None
    for event in events:
        if event.kind == "loaded":
            began = before.time if before else event.time
        elif event.kind == "held" and began is not None:
            found.append(event.time - began)
            began = None
        before = event
    return found


def verdict(model):
    """A line with the totals, then a line for each problem."""
    completed = sum(1 for request in model.requests if request.visible)
    late = [f", {node}'s programs marked at most {lag / 1000:.1f} us late"
            for node, lags in model.lags.items()
            for lag in [behind(lags)] if lag is not None]
    lines = [f"{sum(map(len, model.records.values()))} events, "
             f"{len(model.packets)} packets, {completed} work requests "
             f"completed, {len(model.problems)} problem(s){''.join(late)}"]
    for node, events in model.records.items():
        gone = overwritten(events)
        if gone:
            lines.append(f"  {node}: {gone} events before these were "
                         "overwritten")
        missed = sum(event.missed for event in events
                     if event.kind == "resumed")
        if missed:
            lines.append(f"  {node}: {missed} events while its record rested "
                         "(x-recording) are missing")
        lines += [f"  {node}: it migrated, and stood still for {still / 1e6:.1f} ms"
                  for still in moves(events)]
        if rests(events):
            lines.append(f"  {node}: its record rests (x-recording), and what "
                         "came since is missing")
        gone = sum(1 for event in events
                   if event.kind == "frame" and event.data is None)
        if gone:
            lines.append(f"  {node}: {gone} frames were overwritten, and are "
                         "not in trace.pcapng")
    return lines + [f"  {problem}" for problem in model.problems[:20]]
