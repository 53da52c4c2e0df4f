# SPDX-License-Identifier: GPL-2.0-or-later
"""An echo over sockets that are carried by RDMA, whose answers are compared.

ulp_sockets.py serve smc|rds ADDRESS, and in the other guest
ulp_sockets.py ask smc|rds ADDRESS OWN_ADDRESS MEGABYTES. Before, for smc,
ulp_sockets.py join NAME makes a guest one of the enterprise NAME.
"""

import contextlib
import ctypes
import os
import pathlib
import socket
import struct
import sys

PORT = 18600
AF_SMC = 43
BLOCK = 65536
DATAGRAM = 16384

# Generic netlink, as linux/netlink.h, genetlink.h and smc.h have it.
NETLINK_GENERIC = 16
REQUEST, ACK, ERROR = 1, 4, 2
GENL_ID_CTRL, GETFAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
SMC_FAMILY, ADD_UEID, EID_ENTRY, EID_SIZE = "SMC_GEN_NETLINK", 10, 1, 32


def smc_socket():
    """Returns a socket of a family that Python does not know, with addresses
    of IPv4."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.socket(AF_SMC, socket.SOCK_STREAM, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "AF_SMC")
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)


def attribute(kind, value):
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def ask_netlink(family, command, attributes):
    """Returns the answer to a command of a family, without headers."""
    body = struct.pack("=BBH", command, 1, 0) + attributes
    head = struct.pack("=IHHII", 16 + len(body), family, REQUEST | ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW,
                       NETLINK_GENERIC) as sock:
        sock.sendall(head + body)
        answer = sock.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] == ERROR:
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, os.strerror(error))
    return answer[20:]


def join(name):
    """Joins an enterprise, whose name is padded with blanks."""
    found = ask_netlink(GENL_ID_CTRL, GETFAMILY,
                        attribute(FAMILY_NAME, SMC_FAMILY.encode() + b"\0"))
    while struct.unpack_from("=H", found, 2)[0] != FAMILY_ID:
        found = found[(struct.unpack_from("=H", found)[0] + 3) & ~3:]
    family = struct.unpack_from("=H", found, 4)[0]
    ask_netlink(family, ADD_UEID, attribute(
        EID_ENTRY, name.ljust(EID_SIZE).encode() + b"\0"))


def rds_socket(address, port):
    sock = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
    sock.bind((address, port))
    return sock


def received(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def serve_smc(address, ready):
    with smc_socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, PORT))
        listener.listen()
        ready()
        while True:
            sock, _ = listener._accept()
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0,
                               fileno=sock) as peer:
                # After a broken connection the client reconnects.
                with contextlib.suppress(OSError):
                    while data := received(peer, BLOCK):
                        peer.sendall(data)


def serve_rds(address, ready):
    with rds_socket(address, PORT) as sock:
        ready()
        while True:
            data, peer = sock.recvfrom(DATAGRAM)
            sock.sendto(data, peer)


def ask_smc(address, _, rounds):
    with smc_socket() as sock:
        sock.connect((address, PORT))
        for _ in range(rounds * (1 << 20) // BLOCK):
            data = os.urandom(BLOCK)
            sock.sendall(data)
            back = received(sock, BLOCK)
            if len(back) < BLOCK:
                raise ConnectionError("the peer has closed")
            assert back == data, "other bytes came back"


def ask_rds(address, own, rounds):
    with rds_socket(own, 0) as sock:
        for _ in range(rounds * (1 << 20) // DATAGRAM):
            data = os.urandom(DATAGRAM)
            sock.sendto(data, (address, PORT))
            assert sock.recv(DATAGRAM) == data, "other bytes came back"


def main():
    if sys.argv[1] == "join":
        join(sys.argv[2])
        return
    role, family, address, *rest = sys.argv[1:]
    if role == "serve":
        mark = pathlib.Path(f"/run/ulp_{family}")
        {"smc": serve_smc, "rds": serve_rds}[family](address, mark.touch)
    else:
        own, megabytes = rest
        {"smc": ask_smc, "rds": ask_rds}[family](address, own, int(megabytes))


main()
