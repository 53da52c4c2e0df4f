# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects machines: by a stream between two, and by the relay in all other cases. On
request, and without a relay, by the device's own link in shared memory."""

import os
import socket

from .places import escaped
from .relay import Relay

# Kinds of wires: QEMU's netdevs, or the device's link.
WIRES = ("netdev", "link")
# Other netdevs between two machines, for measurements: datagrams over unix sockets,
# over UDP, and over UDP multicast. UDP loses frames as soon as a reader is late.
DATAGRAMS = ("dgram", "inet", "mcast")
# Network interfaces of the host that exist already: tap1, tap2.
TAP = "tap,ifname=tap{n},script=no,downscript=no"
GROUP = "239.192.7.7"
LINK = "link="
# The wire of a machine without others, which takes no frame, and its second end: with this
# it drops all frames. QEMU warns that the second end has no peer.
ALONE = "hubport,hubid=0"
NOBODY = f"{ALONE},id=nobody{{index}}"


def free_ports(count):
    """UDP ports of the loopback that were free a moment ago."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
               for _ in range(count)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def datagrams(wire, folder):
    """The -netdev options of two machines joined by DATAGRAMS."""
    if wire == "dgram":
        a, b = (escaped(folder / name) for name in ("left", "right"))
        return [f"dgram,local.type=unix,local.path={here},"
                f"remote.type=unix,remote.path={there}"
                for here, there in ((a, b), (b, a))]
    a, b = free_ports(2)
    if wire == "mcast":
        return [f"socket,mcast={GROUP}:{a},localaddr=127.0.0.1"] * 2
    return [f"dgram,local.type=inet,local.host=127.0.0.1,local.port={here},"
            f"remote.type=inet,remote.host=127.0.0.1,remote.port={there}"
            for here, there in ((a, b), (b, a))]


def wires(folder, names, relayed=False, wire=None, **options):
    """Connect machines with these NAMES. Return the -netdev options or the link=
    of each machine, and the Relay, or None. FOLDER gets the sockets. OPTIONS are
    for the Relay. The default of WIRE is $FAKERNIC_WIRE."""
    wire = wire or os.environ.get("FAKERNIC_WIRE", WIRES[0])
    if wire == "link" and not relayed:
        return [f"{LINK}{escaped(folder)}/link"] * len(names), None
    if len(names) == 1:
        return [ALONE], None
    if wire == "tap":
        return [TAP.format(n=number + 1) for number in range(len(names))], None
    if wire in DATAGRAMS and len(names) == 2 and not relayed:
        return datagrams(wire, folder), None
    stream = "stream,addr.type=unix,addr.path="
    if relayed or len(names) > 2:
        relay = Relay(folder, names, **options)
        return [f"{stream}{escaped(path)},server=off"
                for path in relay.paths], relay
    path = escaped(folder / "wire")
    return [f"{stream}{path},server=on", f"{stream}{path},server=off"], None


def mac(number):
    """The MAC address of the machine NUMBER, which counts from 1."""
    return f"52:54:00:fa:ce:{number:02x}"
