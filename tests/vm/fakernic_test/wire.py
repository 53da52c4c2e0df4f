# SPDX-License-Identifier: GPL-2.0-or-later
"""What a capture has, judged without any of fakernic's own code.

frames() reads a pcap file, RoceFrame parses one RoCEv2 frame, icrc() computes
its last four bytes (zlib's CRC-32 over the fields that annex A17 of the IBTA
specification calls invariant), and tshark_complaints() asks Wireshark's
dissectors.
"""

import struct
import subprocess
import zlib

ROCE_PORT = 4791
UD = 3                  # the service in the upper bits of a BTH opcode

# Wireshark's names of the fields of RoceFrame.headers().
HEADERS = ("infiniband.bth.p_key", "infiniband.deth.q_key",
           "infiniband.deth.srcqp", "vlan.priority",
           "ip.dsfield.dscp", "ipv6.tclass.dscp", "udp.srcport")

# Heuristics for InfiniBand payloads, which are random bytes here.
GUESSERS = ("smcr_infiniband", "smb_direct_infiniband", "rpcrdma_infiniband",
            "nvme_rdma", "lnet_ib", "iser_infiniband", "eth_over_ib",
            "mellanox_eoib", "sdp_infiniband", "fc_infiniband",
            "nvme_rdma_cm_private", "lnet_ib_cm_private", "iser_ib_private",
            "sdp_ib_private")


def timed_frames(path):
    """Yields the frames of a pcap file with their times in microseconds."""
    data = path.read_bytes()
    order = "<" if data[:4] == b"\xd4\xc3\xb2\xa1" else ">"
    offset = 24
    while offset + 16 <= len(data):
        seconds, micros, size, real = struct.unpack_from(f"{order}4I", data,
                                                         offset)
        assert size == real, "the capture has cut a frame"
        yield (1000000 * seconds + micros,
               data[offset + 16:offset + 16 + size])
        offset += 16 + size


def frames(path):
    """Yields the frames without their times."""
    return (data for _, data in timed_frames(path))


class RoceFrame:
    """The header fields of one RoCEv2 frame, and its time."""

    def __init__(self, data, time_us=None):
        self.data = data
        self.time_us = time_us
        self.mac = data[:6]
        self.vlan = self.pcp = None
        offset = 12
        if data[12:14] == b"\x81\x00":
            tag = int.from_bytes(data[14:16], "big")
            self.vlan, self.pcp = tag & 0xfff, tag >> 13
            offset += 4
        self.ip_at = offset + 2
        self.family = {b"\x08\x00": 4, b"\x86\xdd": 6}[data[offset:offset + 2]]
        if self.family == 4:
            self.read_ipv4(data[self.ip_at:])
        else:
            self.read_ipv6(data[self.ip_at:])
        self.sport, udp_length = struct.unpack_from("!H2xH", data, self.udp_at)
        bth = self.udp_at + 8
        self.opcode = data[bth]
        self.migreq = data[bth + 1] >> 6 & 1
        self.pkey = int.from_bytes(data[bth + 2:bth + 4], "big")
        self.dest_qp = int.from_bytes(data[bth + 5:bth + 8], "big")
        self.psn = int.from_bytes(data[bth + 9:bth + 12], "big")
        self.syndrome = data[bth + 12]          # of an answer
        self.qkey = self.source_qp = None
        if self.opcode >> 5 == UD:
            self.qkey, self.source_qp = struct.unpack_from("!2I", data,
                                                           bth + 12)
        # The IP packet's own length: a short frame is padded behind it.
        self.end = self.udp_at + udp_length
        self.icrc = int.from_bytes(data[self.end - 4:self.end], "little")

    def read_ipv4(self, header):
        self.udp_at = self.ip_at + 4 * (header[0] & 15)
        self.tclass, self.hop_limit = header[1], header[8]
        self.total_length = int.from_bytes(header[2:4], "big")
        self.flow_label = None
        self.target = header[16:20]

    def read_ipv6(self, header):
        self.udp_at = self.ip_at + 40
        first = int.from_bytes(header[:4], "big")
        self.tclass, self.flow_label = first >> 20 & 0xff, first & 0xfffff
        self.hop_limit = header[7]
        self.total_length = 40 + int.from_bytes(header[4:6], "big")
        self.target = header[24:40]

    def headers(self):
        """Returns the header fields of HEADERS."""
        dscp = self.tclass >> 2
        return (self.pkey, self.qkey, self.source_qp, self.pcp,
                dscp if self.family == 4 else None,
                dscp if self.family == 6 else None, self.sport)

    def length_is_consistent(self):
        return self.end == self.ip_at + self.total_length <= len(self.data)

    def right_icrc(self):
        """Returns the CRC-32 over eight bytes of ones (for the LRH, which RoCE
        lacks) and the packet from the IP header on, with the fields that
        routers change as ones."""
        packet = bytearray(self.data[self.ip_at:self.end - 4])
        if self.family == 4:
            for at in (1, 8, 10, 11):       # TOS, TTL, header checksum
                packet[at] = 0xff
        else:
            packet[0] |= 0x0f               # traffic class and flow label
            packet[1:4] = b"\xff\xff\xff"
            packet[7] = 0xff                # hop limit
        udp = self.udp_at - self.ip_at
        packet[udp + 6:udp + 8] = b"\xff\xff"       # UDP checksum
        packet[udp + 8 + 4] = 0xff          # FECN, BECN, reserved of the BTH
        return zlib.crc32(b"\xff" * 8 + bytes(packet))


def roce_frames(path):
    """The RoCEv2 frames of a pcap file."""
    found = []
    for time_us, data in timed_frames(path):
        at = 16 if data[12:14] == b"\x81\x00" else 12
        kind, ip = data[at:at + 2], data[at + 2:]
        udp = (ip[4 * (ip[0] & 15):] if kind == b"\x08\x00" and ip[9] == 17 else
               ip[40:] if kind == b"\x86\xdd" and ip[6] == 17 else b"")
        if int.from_bytes(udp[2:4], "big") == ROCE_PORT:
            found.append(RoceFrame(data, time_us))
    return found


def flow_label_to_port(label):
    """Returns the UDP source port of a flow label: both halves of its 20 bits,
    folded into the 14 bits of the range 0xc000..0xffff."""
    return 0xc000 | (label & 0x3fff) ^ label >> 14


def tshark(path, *options):
    """The lines tshark prints of a capture's InfiniBand frames."""
    command = ["tshark", "-n", "-r", str(path), "-o", "ip.check_checksum:TRUE",
               "-o", "udp.check_checksum:TRUE",
               "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]
    for guesser in GUESSERS:
        command += ["--disable-heuristic", guesser]
    result = subprocess.run([*command, *options], capture_output=True,
                            text=True, timeout=120, check=True)
    return result.stdout.splitlines()


def tshark_complaints(path):
    """Returns the InfiniBand frames that Wireshark calls malformed or warns
    about."""
    return tshark(path, "-Y", "(infiniband || udp.dstport == 4791) && "
                  "(_ws.malformed || _ws.expert.severity >= warning)")


def tshark_headers(path):
    """Returns the fields of HEADERS that Wireshark reads from each InfiniBand
    frame."""
    options = ["-Y", "infiniband.bth", "-T", "fields"]
    for name in HEADERS:
        options += ["-e", name]
    return [tuple(int(word, 0) if word else None for word in line.split("\t"))
            for line in tshark(path, *options)]
