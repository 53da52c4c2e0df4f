# SPDX-License-Identifier: GPL-2.0-or-later
"""What joins machines: a stream between two, the relay for all else."""

from .relay import Relay


def wires(folder, names, relayed=False, **options):
    """The -netdev options of machines with these names, and their Relay if
    there is one. FOLDER gets its sockets, OPTIONS go to it."""
    if len(names) == 1:
        return ["hubport,hubid=0"], None
    stream = "stream,addr.type=unix,addr.path="
    if relayed or len(names) > 2:
        relay = Relay(folder, names, **options)
        return [f"{stream}{path},server=off" for path in relay.paths], relay
    path = folder / "wire"
    return [f"{stream}{path},server=on", f"{stream}{path},server=off"], None


def mac(number):
    """The address of the machine NUMBER, which counts from 1."""
    return f"52:54:00:fa:ce:{number:02x}"
