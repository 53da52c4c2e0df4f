# SPDX-License-Identifier: GPL-2.0-or-later
"""Names and words of events: the opcodes, statuses and answers that a record
has as numbers. tests/timeline compares the names with the headers."""

from .model import NONE, POLL, POST
from .records import opcode_name

# Opcodes of send WQEs: firmware-spec/include/fakernic/sq.h.
WQE_OPCODES = {
    1: "SEND", 2: "SEND IMM", 3: "SEND INV", 4: "RDMA WRITE",
    5: "RDMA WRITE IMM", 6: "RDMA READ", 7: "RDMA READ INV",
    8: "ATOMIC CMP SWAP", 9: "ATOMIC FETCH ADD", 10: "ATOMIC MASKED CMP SWAP",
    11: "ATOMIC MASKED FETCH ADD", 12: "ATOMIC WRITE", 13: "FLUSH",
    14: "LOCAL INV", 15: "REG MR", 16: "BIND MW", 17: "NOP"}
# Opcodes of CQEs: cq.h.
CQE_OPCODES = {
    1: "SEND", 2: "RDMA WRITE", 3: "RDMA READ", 4: "CMP SWAP", 5: "FETCH ADD",
    6: "MASKED CMP SWAP", 7: "MASKED FETCH ADD", 8: "ATOMIC WRITE", 9: "FLUSH",
    10: "LOCAL INV", 11: "REG MR", 12: "BIND MW", 13: "NOP", 128: "RECV",
    129: "RECV RDMA IMM"}
STATUSES = {
    0: "SUCCESS", 1: "LOC LEN ERR", 2: "LOC QP OP ERR", 3: "LOC EEC OP ERR",
    4: "LOC PROT ERR", 5: "WR FLUSH ERR", 6: "MW BIND ERR", 7: "BAD RESP ERR",
    8: "LOC ACCESS ERR", 9: "REM INV REQ ERR", 10: "REM ACCESS ERR",
    11: "REM OP ERR", 12: "RETRY EXC ERR", 13: "RNR RETRY EXC ERR",
    14: "LOC RDD VIOL ERR", 15: "REM INV RD REQ ERR", 16: "REM ABORT ERR",
    17: "INV EECN ERR", 18: "INV EEC STATE ERR", 19: "FATAL ERR",
    20: "RESP TIMEOUT ERR", 21: "GENERAL ERR"}
# Types of EQEs: eq.h.
EVENT_TYPES = {
    0: "NONE", 1: "COMPLETION", 2: "CQ ERROR", 3: "QP FATAL",
    4: "QP REQUEST ERROR", 5: "QP ACCESS ERROR", 6: "COMM ESTABLISHED",
    7: "SQ DRAINED", 8: "PATH MIGRATED", 9: "PATH MIGRATION ERROR",
    10: "LAST WQE REACHED", 11: "SRQ ERROR", 12: "SRQ LIMIT",
    13: "PORT ACTIVE", 14: "PORT ERROR", 15: "DEVICE FATAL",
    16: "PAGE REQUEST", 17: "PORT CHANGED"}
# Syndromes of a NAK, IBTA table 46. RNR NAKs use a range of syndromes, for the timer.
RNR, RNR_END = 0x20, 0x40
NAKS = {0x60: "PSN sequence error", 0x61: "invalid request",
        0x62: "remote access error", 0x63: "remote operational error",
        0x64: "invalid RD request"}
# Word in an opcode name of records.py -> spelling of the standard.
SPELLING = (("WRITE ", "RDMA WRITE "), ("READ ", "RDMA READ "),
            ("ATOMIC RDMA ", "ATOMIC "), ("FIRST", "First"),
            ("MIDDLE", "Middle"), ("LAST", "Last"), ("ONLY", "Only"),
            ("REQUEST", "Request"), ("RESPONSE", "Response"),
            ("IMM", "with immediate"), ("INV", "with invalidate"),
            ("CMP SWAP", "CmpSwap"), ("FETCH ADD", "FetchAdd"))


def named(names, number):
    return names.get(number, f"unknown ({number})")


def count(number, noun):
    """1 packet, 2 packets."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def packet_name(opcode):
    """The name of a packet in the standard's spelling, without "RC"."""
    name = opcode_name(opcode).removeprefix("RC ")
    for ours, standard in SPELLING:
        name = name.replace(ours, standard)
    return name


def answer_name(syndrome):
    """The name of a NAK's syndrome."""
    if RNR <= syndrome < RNR_END:
        return "receiver not ready"
    return named(NAKS, syndrome)


def attempt_name(attempt):
    """The prefix of a retransmitted packet's label."""
    return {0: "", 1: "", 2: "again: "}.get(attempt, f"attempt {attempt}: ")


class Words:
    """Labels of a work request's events. PSNs count from its first packet."""

    def __init__(self, request):
        self.request = request
        self.base = (request.packets[0].tx.psn if request.packets else None)

    def psn(self, number):
        if self.base is None:
            return f"PSN {number}"
        ahead = (number - self.base + 0x800000 & 0xffffff) - 0x800000
        return f"PSN {ahead:+d}"

    def start(self):
        """A note with the PSN that labels call +0."""
        return "" if self.base is None else f"PSN +0 is {self.base}"

    def label(self, event, packet=None):
        """One line without the PSN of a sent packet, which a picture shows at its arrow."""
        maker = getattr(self, f"of_{event.kind}", None)
        return maker(event, packet) if maker else event.kind

    def full(self, event, packet=None):
        """One line for text, with the PSN of a sent packet."""
        label = self.label(event, packet)
        return (f"{label}, {self.psn(event.psn)}" if event.kind == "tx" else
                label)

    def of_mark(self, event, _):
        if event.step == POST:
            return f"post_send on QP {event.id}"
        if event.step == POLL:
            return f"poll_cq has read CQ {event.id} to {event.index}"
        return f"mark {event.step} of {event.id}"

    def of_doorbell_sq(self, event, _):
        return f"doorbell: QP {event.qpn}, producer index {event.pi}"

    def of_sq_record(self, event, _):
        return f"record: QP {event.qpn}, producer index {event.pi}"

    def of_wqe(self, event, _):
        return f"WQE {event.index} fetched: {named(WQE_OPCODES, event.opcode)}"

    def of_recv_wqe(self, event, _):
        return f"receive WQE, {count(event.sges, 'SGE')}"

    def of_tx(self, event, packet):
        asks = ", ACK requested" if packet and packet.asks else ""
        return f"{attempt_name(event.attempt)}{packet_name(event.opcode)}{asks}"

    def of_rx(self, event, _):
        return f"received {self.psn(event.psn)}"

    def of_nak_tx(self, event, _):
        return f"NAK: {answer_name(event.syndrome)}, {self.psn(event.psn)}"

    def of_nak_rx(self, event, _):
        return f"NAK for {self.psn(event.psn)} received"

    def of_retry(self, event, _):
        return (f"resends from {self.psn(event.psn)}, "
                f"{count(event.left, 'try').replace('trys', 'tries')} left")

    def of_timeout(self, event, _):
        return f"timeout: no answer to {self.psn(event.psn)}"

    def of_probe(self, event, _):
        return f"probe {event.count} from {self.psn(event.psn)}"

    def of_fault(self, event, _):
        where = "" if event.psn == NONE else f" {self.psn(event.psn)}"
        return f"fault rule at {event.point}: {event.action}{where}"

    def of_dma_read(self, event, _):
        return f"DMA read: {event.len:,} bytes at {event.address:#x}"

    def of_dma_write(self, event, _):
        return f"DMA write: {event.len:,} bytes at {event.address:#x}"

    def of_cqe(self, event, _):
        end = "" if event.opcode >= 128 else f", WQE {event.index}"
        return (f"CQE: {named(CQE_OPCODES, event.opcode)}{end}, "
                f"{named(STATUSES, event.status)}")

    def of_cqe_visible(self, event, _):
        return f"CQE {event.pi} of CQ {event.cqn} is visible"

    def of_eqe(self, event, _):
        return (f"EQE {event.pi} of EQ {event.eqn}: "
                f"{named(EVENT_TYPES, event.type)}, id {event.id}")

    def of_interrupt(self, event, _):
        return f"MSI-X interrupt, vector {event.vector}"

    def of_doorbell_eq(self, event, _):
        end = ", armed" if event.arm else ""
        return f"handler has read EQ {event.eqn} to {event.ci}{end}"
