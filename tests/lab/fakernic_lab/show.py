# SPDX-License-Identifier: GPL-2.0-or-later
"""show: what is inside a device, by QMP, as a table or as JSON. Looking changes
nothing, neither in the device nor in its machine."""

import json
from contextlib import contextmanager

from . import stay
from .errors import LabError
from .qmp import QMP, QMPError

NIC = "/machine/peripheral/nic0"
BUSY_S = 5
RING_COUNT = 16         # entries without --count
TRIES = 100

# Kinds of objects: the name of an object's number, and the columns of the table.
OBJECTS = {
    "qps": ("qpn", ("qpn", "type", "state", "dest-qpn", "sq-pi", "sq-ci",
                    "rq-pi", "rq-ci", "send-cqn", "recv-cqn", "una-psn",
                    "tx-psn", "in-flight", "retry-left")),
    "cqs": ("cqn", ("cqn", "eqn", "depth", "pi", "ci-seen", "armed", "users",
                    "error")),
    "srqs": ("srqn", ("srqn", "pdn", "depth", "pi", "ci", "limit", "users",
                      "error")),
    "eqs": ("eqn", ("eqn", "vector", "depth", "pi", "ci", "armed", "async",
                    "users")),
    "keys": ("index", ("index", "key", "type", "pdn", "start", "length",
                       "access", "pages", "valid", "qpn")),
    "gids": ("index", ("index", "type", "gid", "mac", "vlan")),
    "flows": ("flow", ("flow", "type", "qpn", "priority", "layers", "flags")),
    "counters": ("counter", ()),
}
# The columns of the entries of each kind of ring.
RINGS = {
    "sq": ("index", "opcode", "blocks", "flags", "vendor-err", "remote-address",
           "rkey", "dest-qpn", "sges"),
    "rq": ("index", "tag", "vendor-err", "sges"),
    "srq": ("index", "tag", "vendor-err", "sges"),
    "cq": ("index", "opcode", "status", "vendor-err", "qpn", "wqe-index",
           "byte-count", "srqn", "owner"),
    "eq": ("index", "type", "id", "data", "owner"),
}
# Properties whose values are text.
TEXTS = {"faults": "x-fault", "recorder": "x-recorder",
         "recorder-now": "x-recorder-now"}
WHATS = ("state", *OBJECTS, *RINGS, *TEXTS)
HEXADECIMAL = ("key", "rkey", "lkey", "start", "address", "remote-address",
               "access", "features", "driver-features", "status")


# ---- asking ----------------------------------------------------------------

@contextmanager
def monitor(path):
    """A connection to the QMP socket PATH, which serves one client at a time."""
    try:
        qmp = QMP(path, BUSY_S)
    except TimeoutError as error:
        raise LabError(f"{path} does not answer: another client uses this monitor, "
                       "and QEMU serves one at a time") from error
    except (FileNotFoundError, ConnectionError) as error:
        raise LabError(f"{path}: no QEMU listens there") from error
    try:
        yield qmp
    finally:
        qmp.close()


def devices(qmp):
    """The QOM paths of all fakernics."""
    found = []
    for parent in ("/machine/peripheral", "/machine/peripheral-anon"):
        found += [f"{parent}/{item['name']}"
                  for item in qmp.cmd("qom-list", {"path": parent})
                  if item["type"] == "child<fakernic>"]
    return found


def the_device(qmp, wanted):
    """The QOM path of the device WANTED, or of the only device."""
    found = devices(qmp)
    if wanted:
        found = [path for path in found
                 if wanted in (path, path.rpartition("/")[2])]
    if len(found) == 1:
        return found[0]
    if wanted or not found:
        raise LabError(f"no fakernic {wanted or ''} in this machine".replace(
            "  ", " "))
    raise LabError("which device? --device one of " + ", ".join(found))


class Device:
    """A device, seen through a QMP socket."""

    def __init__(self, qmp, path):
        self.qmp, self.path = qmp, path

    def get(self, name):
        return self.qmp.cmd("qom-get", {"path": self.path, "property": name})

    def objects(self, what):
        """All objects of a kind. The device returns a limited number at a time.

        Another client may use the property at the same time. Then that client may
        get the answer to this request, and this one an answer that begins at an
        earlier object. So objects that are already known are skipped.
        """
        key = OBJECTS[what][0]
        found = json.loads(self.get(f"x-{what}"))
        while found and "next" in found[-1]:
            following = found.pop()["next"]
            self.qmp.cmd("qom-set", {
                "path": self.path, "property": f"x-{what}",
                "value": f"from={following}"})
            more = json.loads(self.get(f"x-{what}"))
            seen = {item[key] for item in found}
            found += [item for item in more if item.get(key) not in seen]
        return found

    def one(self, what, number):
        """The object with this number."""
        key = OBJECTS[what][0]
        for item in self.objects(what):
            if item[key] == number:
                return item
        raise LabError(f"there is no {key} {number}")

    def ring(self, kind, number, first=None, count=None):
        """The entries of a ring. Another client may select a ring at the same
        time, so answers to another selection are ignored."""
        words = f"{kind} {number}"
        words += f" from={first}" if first is not None else ""
        words += f" count={count}" if count is not None else ""
        asked = {"ring": kind, "number": number, "from": first,
                 "count": RING_COUNT if count is None else count}
        for _ in range(TRIES):
            self.qmp.cmd("qom-set", {"path": self.path, "property": "x-ring",
                                     "value": words})
            seen = json.loads(self.get("x-ring"))
            if all(seen.get(key) == value for key, value in asked.items()):
                return seen
        raise LabError(f"other clients select rings of {self.path} all the time: "
                       "try again")


# ---- printing ---------------------------------------------------------------

def word(name, value):
    """A value as text for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(f"{key}={word(key, item)}"
                        for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(f"{word('address', item['address'])}+{item['length']} "
                         f"lkey {word('lkey', item['lkey'])}" for item in value)
    if name in HEXADECIMAL and isinstance(value, int):
        return f"{value:#x}"
    return str(value)


def table(columns, rows):
    """The lines of a table, without columns that are empty in all rows."""
    columns = [name for name in columns if any(name in row for row in rows)]
    cells = [list(columns)] + [
        [word(name, row[name]) if name in row else "-" for name in columns]
        for row in rows]
    widths = [max(len(line[at]) for line in cells)
              for at in range(len(columns))]
    return ["  ".join(text.ljust(width) for text, width in
                      zip(line, widths)).rstrip() for line in cells]


def listing(item):
    """The lines that print an object, one for each value."""
    width = max(map(len, item), default=0)
    return [f"{name.ljust(width)}  {word(name, value)}"
            for name, value in item.items()]


def object_lines(what, items):
    if what == "counters":
        return [line for item in items for line in listing(
            {name: value for name, value in item.items() if value or
             name == "counter"})]
    return table(OBJECTS[what][1], items) if items else [f"no {what}"]


def ring_lines(seen):
    head = " ".join(f"{name} {seen[name]}" for name in
                    ("number", "depth", "pi", "ci", "record"))
    entries = seen["entries"]
    return [f"{seen['ring']} {head}"] + (
        table(RINGS[seen["ring"]], entries) if entries else
        ["no entries wait; --from INDEX shows older ones"])


def answer(device, options):
    """The requested data, and the lines that print it."""
    what, number = options.what, options.number
    if what in RINGS:
        if number is None:
            raise LabError(f"which {what}? Give its number")
        seen = device.ring(what, number, options.first, options.count)
        return seen, ring_lines(seen)
    if options.first is not None or options.count is not None:
        raise LabError(f"--from and --count apply only to rings: {', '.join(RINGS)}")
    if what in OBJECTS and number is not None:
        item = device.one(what, number)
        return item, listing(item)
    if number is not None:
        raise LabError(f"{what} has no number")
    if what in OBJECTS:
        items = device.objects(what)
        return items, object_lines(what, items)
    if what in TEXTS:
        lines = device.get(TEXTS[what]).splitlines()
        return lines, lines
    item = json.loads(device.get("x-state"))
    return item, listing(item)


def show(options):
    """show: the command."""
    if "/" in options.where:
        path = options.where
    else:
        path = stay.running().node(options.where).vm.sockets / "qmp"
    with monitor(path) as qmp:
        device = Device(qmp, the_device(qmp, options.device))
        try:
            found, lines = answer(device, options)
        except QMPError as error:
            raise LabError(str(error).partition(": ")[2]) from error
    print(json.dumps(found, indent=1) if options.json else "\n".join(lines))
    return 0
