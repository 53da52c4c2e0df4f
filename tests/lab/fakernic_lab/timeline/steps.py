# SPDX-License-Identifier: GPL-2.0-or-later
"""Explains each kind of event in the course of a work request, and quotes the document
that describes it. tests/timeline checks the quotations.
"""

from typing import NamedTuple


class Step(NamedTuple):
    """The explanation of an event: its LANE in the picture, a SENTENCE, its STOPS in
    qemu-hw/JOURNEY.md, and words QUOTED from a CHAPTER of firmware-spec/fakernic.rst."""
    lane: str
    sentence: str
    stops: tuple
    chapter: str
    quoted: str

    def source(self):
        """The references to the documents."""
        words = f'The data sheet, "{self.chapter}": {self.quoted}'
        if not self.quoted.endswith("."):
            words += " ..."
        if self.stops:
            numbers = ", ".join(map(str, self.stops))
            noun = "stops" if len(self.stops) > 1 else "stop"
            words += f" The journey of a WRITE, {noun} {numbers}."
        return words


# Kind of event, as in record.c -> Step.
STEPS = {
    "mark": Step(
        "CPU", "The program enters post_send, or poll_cq has "
        "returned completions. Its provider noted the time for this recording.",
        (1, 12), "Queues",
        "a program may stamp the doorbell records of its SQs and CQs: it stores "
        "a time before it stores an index."),
    "doorbell_sq": Step(
        "CPU", "The program has written a WQE into the ring "
        "of its send queue and stores the queue's number and the new producer "
        "index into its doorbell page: one store, no system call.",
        (2, 3), "Memory ordering",
        "Posting a send: store the WQE; write barrier; store the producer "
        "index to the record; write barrier that also orders MMIO (wmb()); "
        "store the doorbell."),
    "sq_record": Step(
        "memory", "The program has written a WQE into the ring of its send queue, "
        "and the new producer index into the queue's record. The card keeps the "
        "queue awake: it reads the record by itself, without a doorbell.",
        (), "The event index",
        "After a doorbell the device may keep the send queue awake: for a while it "
        "reads the queue's record by itself"),
    "wqe": Step(
        "memory", "The card reads the WQE by DMA, once, and "
        "checks the copy: opcode, lengths, reserved fields.",
        (4, 5), "Memory ordering",
        "A WQE, a command and a page table are copied once and judged on the "
        "copy."),
    "recv_wqe": Step(
        "memory", "A SEND takes the oldest receive of the "
        "queue: the card reads that WQE by DMA.",
        (), "Receive queues and shared receive queues",
        "It copies a slot when a message takes it"),
    "tx": Step(
        "card", "The card makes one packet: headers with the peer's "
        "QP and a packet sequence number (PSN), data by DMA, a checksum.",
        (6, 10), "Requester (RC)",
        "Messages are cut at the path MTU. Every packet but the last has "
        "exactly the MTU as payload."),
    "rx": Step(
        "card", "The card has checked lengths, checksum, QP and "
        "addresses, and compares the PSN with the one it expects.",
        (7, 8, 11), "Responder (RC)",
        "Expected PSN: executed. PSN of the past half of the sequence space: a "
        "duplicate"),
    "nak_tx": Step(
        "card", "The PSN is not the one expected: some packet is "
        "missing, and the answer says which comes next.",
        (), "Responder (RC)",
        'PSN of the future: one NAK "PSN sequence error" with the expected '
        "PSN, repeated only after progress."),
    "nak_rx": Step(
        "card", "The peer misses packets from this PSN on.",
        (), "Requester (RC)",
        "retry_cnt counts firings and sequence NAKs without progress in "
        "between"),
    "retry": Step(
        "card", "The card goes back to the oldest packet without an "
        "answer, and sends again from there; this many retries are left.",
        (), "Requester (RC)",
        "the oldest unacknowledged packet and all later ones are sent again "
        "(go-back-N)."),
    "timeout": Step(
        "card", "No answer came in time.",
        (), "Requester (RC)",
        "The local ACK timer runs while something is unacknowledged."),
    "probe": Step(
        "card", "No answer came for a while: the card sends one packet "
        "again to get one. This uses up no retry.",
        (), "Requester (RC)",
        "A probe uses up no retry, and each waits twice as long as the one "
        "before."),
    "fault": Step(
        "card", "A fault rule did this on purpose.",
        (), "DUMP, FAULT",
        "The device may then break any rule of this document"),
    "dma_read": Step(
        "memory", "The card reads memory by DMA: a WQE, an index, or "
        "the data of a packet.",
        (5, 6), "Memory ordering",
        "The device reads the ring after it, so everything the host stored "
        "before the doorbell is seen."),
    "dma_write": Step(
        "memory", "The card writes memory by DMA: the data of a "
        "packet where rkey or receive allow it, a CQE, an event.",
        (9, 12), "Memory ordering",
        "Data of a receive, READ or atomic response is in host memory before "
        "its CQE; the CQE's body before its owner byte"),
    "cqe": Step(
        "card", "A work request is complete: a receive with its "
        "last packet, others when everything up to here is acknowledged. The "
        "card writes a CQE.",
        (12,), "Send queues",
        "the host owns a block until the doorbell that covers it and again "
        "after it has polled the completion of the WQE in it or of a later WQE "
        "of the same queue"),
    "cqe_visible": Step(
        "memory", "The CQE lies in the ring of the completion "
        "queue; its owner bit, written last, makes it valid. The program polls "
        "it.",
        (12,), "Entries the device produces",
        "The device writes the owner byte after all others of the entry. The "
        "host reads the owner byte, then a read barrier, then the rest."),
    "eqe": Step(
        "memory", "The CQ was armed, so the card writes an entry into "
        "an event queue: the driver shall wake the program.",
        (12,), "Arming",
        "The event is written as soon as the CQ holds an entry at index ci or "
        "later: at once when it already does."),
    "interrupt": Step(
        "card", "The event queue was armed, too: an interrupt, which "
        "is a write to the processor.",
        (12,), "Consuming",
        "With ARM set, the EQ's vector is raised when the queue holds an entry "
        "at that index or later, at once when it already does."),
    "doorbell_eq": Step(
        "CPU", "The driver's interrupt handler has read the "
        "events, wakes the program that waits for the CQ, and arms the event "
        "queue again by its doorbell.",
        (12,), "Consuming",
        "An interrupt handler consumes entries until it finds one that is not "
        "its own, then rings the doorbell with ARM."),
}
