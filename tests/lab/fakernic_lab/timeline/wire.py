# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds facts about packets in their recorded frames: the two machines, because
several machines may use the same QP numbers, and the bytes of data.
"""

ROCE_PORT = 4791
BTH_BYTES, ICRC_BYTES = 12, 4
# Bytes of headers after the BTH, for packets with data for a receive: by the opcode
# without the bits of the service, and by these bits.
IMM_OR_IETH = {0x03: 4, 0x05: 4, 0x16: 4, 0x17: 4}
SENDS = (0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x16, 0x17)
SERVICE_BYTES = {0x60: 8, 0xa0: 4}


def bth_offset(frame):
    """Where the BTH of a RoCEv2 frame begins; 0 for any other frame."""
    offset = 12
    if frame[offset:offset + 2] == b"\x81\x00":
        offset += 4
    kind = frame[offset:offset + 2]
    offset += 2
    if kind == b"\x08\x00" and frame[offset + 9:offset + 10] == b"\x11":
        offset += 4 * (frame[offset] & 15)
    elif kind == b"\x86\xdd" and frame[offset + 6:offset + 7] == b"\x11":
        offset += 40
    else:
        return 0
    if int.from_bytes(frame[offset + 2:offset + 4], "big") != ROCE_PORT:
        return 0
    return offset + 8


def packet_key(frame):
    """Destination, PSN and opcode of a RoCEv2 frame; None for any other."""
    bth = bth_offset(frame)
    if not bth or len(frame) < bth + BTH_BYTES:
        return None
    return (int.from_bytes(frame[bth + 5:bth + 8], "big"),
            int.from_bytes(frame[bth + 9:bth + 12], "big"), frame[bth])


def send_bytes(frame):
    """The bytes of data in a packet of a SEND; 0 for any other packet."""
    bth = bth_offset(frame)
    operation, service = frame[bth] & 0x1f, frame[bth] & 0xe0
    if not bth or operation not in SENDS:
        return 0
    headers = IMM_OR_IETH.get(operation, 0) + SERVICE_BYTES.get(service, 0)
    return (len(frame) - bth - BTH_BYTES - headers - ICRC_BYTES -
            (frame[bth + 1] >> 4 & 3))


def asks_ack(frame):
    """Does the BTH of a RoCEv2 frame request an acknowledgement?"""
    return bool(frame[bth_offset(frame) + 8] & 0x80)


class Wire:
    """Facts by (node, number of an event).

    others: the destination machine of a tx, the source machine of an rx. It is
    missing if it is unknown: the frame was lost, or its address belongs to no
    record or to several machines.
    events: the number of the tx or rx of a frame.
    data: the bytes of a SEND in a tx.
    asks: the tx events whose packets request an acknowledgement.
    """

    def __init__(self, records):
        self.others, self.events, self.data = {}, {}, {}
        self.asks = set()
        macs = {node: events.mac for node, events in records.items()}
        self.nodes = {mac: node for node, mac in macs.items()
                      if any(mac) and list(macs.values()).count(mac) == 1}
        for node, events in records.items():
            self.read(node, events)

    def read(self, node, events):
        """Read the frames of a machine. A sent frame follows its tx, at once or
        when a rule releases it. A received frame comes before its rx."""
        sent, come, ways, homeless = {}, {}, {}, []
        for event in events:
            if event.kind == "frame" and event.data is not None:
                key = packet_key(event.data)
                if event.way != "in" and key in sent:
                    self.leaves(event, sent[key], ways)
                if event.way != "out":
                    come[key] = event
            elif event.kind == "tx" and event.roce:
                sent[event.peer, event.psn, event.opcode] = event
                homeless.append(event)
            elif event.kind == "rx":
                self.arrives(event, come.get((event.qpn, event.psn,
                                              event.opcode)))
        # Packets without a frame take the destination of others of their QP.
        for tx in homeless:
            way = ways.get((tx.qpn, tx.peer))
            if way:
                self.others.setdefault((node, tx.number), way)

    def leaves(self, frame, tx, ways):
        target = self.nodes.get(frame.data[0:6])
        self.events[frame.node, frame.number] = tx.number
        self.data[tx.node, tx.number] = send_bytes(frame.data)
        if asks_ack(frame.data):
            self.asks.add((tx.node, tx.number))
        if target:
            self.others[tx.node, tx.number] = target
            ways[tx.qpn, tx.peer] = target

    def arrives(self, rx, frame):
        if frame is None:
            return
        self.events.setdefault((frame.node, frame.number), rx.number)
        source = self.nodes.get(frame.data[6:12])
        if source:
            self.others[rx.node, rx.number] = source
