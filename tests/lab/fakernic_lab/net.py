# SPDX-License-Identifier: GPL-2.0-or-later
"""What joins machines: a stream between two, the relay for all else; or, asked
for and without faults, the device's own link in shared memory."""

import os

from .places import escaped
from .relay import Relay

# How wires are made: by QEMU's netdevs, or by the device's link.
WIRES = ("netdev", "link")
LINK = "link="


def wires(folder, names, relayed=False, wire=None, **options):
    """The -netdev options of machines with these names, or the link= of each,
    and their Relay if there is one. FOLDER gets its sockets, OPTIONS go to
    it. WIRE is $FAKERNIC_WIRE unless told."""
    wire = wire or os.environ.get("FAKERNIC_WIRE", WIRES[0])
    if wire == "link" and not relayed:
        return [f"{LINK}{escaped(folder)}/link"] * len(names), None
    if len(names) == 1:
        return ["hubport,hubid=0"], None
    stream = "stream,addr.type=unix,addr.path="
    if relayed or len(names) > 2:
        relay = Relay(folder, names, **options)
        return [f"{stream}{escaped(path)},server=off"
                for path in relay.paths], relay
    path = escaped(folder / "wire")
    return [f"{stream}{path},server=on", f"{stream}{path},server=off"], None


def mac(number):
    """The address of the machine NUMBER, which counts from 1."""
    return f"52:54:00:fa:ce:{number:02x}"
