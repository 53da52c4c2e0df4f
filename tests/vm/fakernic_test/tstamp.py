# SPDX-License-Identifier: GPL-2.0-or-later
"""Hardware time stamps of frames, as a program with SO_TIMESTAMPING sees them
(Linux's Documentation/networking/timestamping.rst), against the card's clock.
"""

import json

from . import rdma

PORT = 7010
TX_OFF, TX_ON, TX_ONESTEP = range(3)
RX_NONE, RX_ALL = range(2)
# One datagram to the peer of an earlier connection; its stamp, and the card's clock
# before and after, in ns.
SCRIPT = """
import ctypes, fcntl, glob, json, os, select, socket, struct, sys, time
SIOCSHWTSTAMP, SIOCGHWTSTAMP = 0x89b0, 0x89b1
SO_TIMESTAMPING, MSG_ERRQUEUE = 37, 0x2000
TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE = 1 << 0, 1 << 2, 1 << 6

def card_ns(name):
    path, = glob.glob(f"/sys/class/net/{name}/device/ptp/ptp*")
    with open("/dev/" + os.path.basename(path), "rb", 0) as clock:
        return time.clock_gettime_ns(~clock.fileno() << 3 | 3)

def settings(name, tx=0, rx=0, request_code=SIOCSHWTSTAMP):
    config = ctypes.create_string_buffer(struct.pack("iii", 0, tx, rx))
    request = struct.pack("16sP16x", name.encode(), ctypes.addressof(config))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, request_code, request)
    return struct.unpack("iii", config.raw[:12])[1:]

def shown(name):
    return settings(name, request_code=SIOCGHWTSTAMP)

def stamp(sock, flags):
    for level, kind, data in sock.recvmsg(256, 256, flags)[1]:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
            s, ns = struct.unpack("qq", data[32:48])
            return s * 10**9 + ns
    return 0

def datagrams():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING,
                    TX_HARDWARE | RX_HARDWARE | RAW_HARDWARE)
    return sock

def receive(name, port):
    sock = datagrams()
    sock.bind(("", port))
    listener = socket.create_server(("", port))
    before = card_ns(name)
    listener.accept()
    select.select([sock], [], [], 30)
    return before, stamp(sock, socket.MSG_DONTWAIT), card_ns(name)

def send(name, port, address, patience):
    sock = datagrams()
    with socket.create_connection((address, port), 30):
        before = card_ns(name)
        sock.sendto(b"when?", (address, port))
        poll = select.poll()
        poll.register(sock, 0)          # errors: the stamp is one of these
        got = poll.poll(1000 * patience)
        return (before, stamp(sock, MSG_ERRQUEUE) if got else 0, card_ns(name))

verb, name, *rest = sys.argv[1:]
rest[:] = [int(word) if word.isdigit() else word for word in rest]
print(json.dumps({"set": settings, "get": shown, "receive": receive,
                  "send": send}[verb](name, *rest)))
"""


def configure(port, tx, rx):
    """Calls SIOCSHWTSTAMP; returns the card's new setting."""
    port.guest.write("/tmp/tstamp.py", SCRIPT)
    return json.loads(port.guest.check(
        f"python3 /tmp/tstamp.py set {port.netdev} {tx} {rx}"))


def configured(port):
    """Calls SIOCGHWTSTAMP."""
    return json.loads(port.guest.check(
        f"python3 /tmp/tstamp.py get {port.netdev}"))


def one_datagram(a, b, patience):
    """Sends a datagram from b to a. Returns (before, stamp, after) in ns of
    the clock of the card at a, and the same at b. A stamp is 0 if there was
    none within PATIENCE seconds."""
    pair = rdma.run_pair(
        a, b, f"python3 /tmp/tstamp.py receive {a.netdev} {PORT}",
        f"python3 /tmp/tstamp.py send {b.netdev} {PORT} {a.ip4} {patience}",
        PORT, 60).check()
    return json.loads(pair.server.out), json.loads(pair.client.out)


def check(a, b):
    """Both ends have the time of a frame by their own card's clock, and none
    if not configured."""
    try:
        assert configure(a, TX_OFF, RX_ALL) == [TX_OFF, RX_ALL]
        assert configure(b, TX_ON, RX_NONE) == [TX_ON, RX_NONE]
        for before, stamp, after in one_datagram(a, b, 30):
            assert before < stamp < after
    finally:
        assert configure(a, TX_OFF, RX_NONE) == [TX_OFF, RX_NONE]
        assert configure(b, TX_OFF, RX_NONE) == [TX_OFF, RX_NONE]
    assert [stamp for _, stamp, _ in one_datagram(a, b, 3)] == [0, 0]
