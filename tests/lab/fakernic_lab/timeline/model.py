# SPDX-License-Identifier: GPL-2.0-or-later
"""The model: finds which events in the records of several machines belong together.

Each sent packet is matched with its arrivals. A work request consists of its
doorbell, WQE, packets, their answers and its completion, in all machines. The model
reports events that match nothing, and every effect that comes before its cause.
"""

from bisect import bisect_right
from collections import Counter, defaultdict, deque

from .wire import Wire

NONE = 0xffffffff
# Actions of a fault rule after which no receiver accepts the frame.
GONE = ("drop", "corrupt", "truncate")
POST, POLL = 1, 2       # steps of marks
RECEIVE = 0x80          # this bit of a CQE's opcode marks a receive
COMPLETION = 1          # the event type of an EQE for a CQ
COMMANDS = 0            # the vector of the command queue
# Events that a packet causes in the device at once.
DEEDS = ("recv_wqe", "dma_write", "cqe", "cqe_visible", "eqe", "nak_tx",
         "nak_rx")
# The opcodes of responses, without the bits of the transport service.
RESPONSES = range(0x0d, 0x13)
RESTED = ("rests", "resumed")
RELIABLE = (0, 5)       # the services with responses: RC, XRC
READ_REQUEST, ACK = 0x0c, 0x11
SEQUENCE_ERROR = 0x60   # the syndrome of a NAK for a missing packet
# Search limits: the READs that a response may belong to, and the packets of one PSN
# that an arrival may belong to.
READS_OPEN = 1024
SAME_OPEN = 256
SQ_NAMES = {1: "SEND", 2: "SEND", 3: "SEND", 4: "WRITE", 5: "WRITE", 6: "READ",
            7: "READ", 8: "ATOMIC", 9: "ATOMIC", 10: "ATOMIC", 11: "ATOMIC",
            12: "ATOMIC WRITE", 13: "FLUSH"}


def is_answer(opcode):
    return opcode >> 5 in RELIABLE and opcode & 0x1f in RESPONSES


def psn_ahead(psn, other):
    """Whether a PSN is ahead of another. PSNs wrap around at 24 bits."""
    return 0 < (psn - other) & 0xffffff < 0x800000


def ahead(index, other):
    """Whether an index is ahead of another. Indexes wrap around at 32 bits."""
    return 0 < (index - other) & 0xffffffff < 0x80000000


class Packet:
    """A frame that was sent, with its arrivals."""

    def __init__(self, tx, target, asks=False):
        self.tx = tx
        self.asks = asks            # requests an acknowledgement
        self.target = target        # the machine it goes to; None: unknown
        self.rx = []                # its arrivals
        self.fault = None           # the event of the rule that hit it
        self.request = None         # the request that it belongs to, or answers
        self.number = 0             # in the request: 1, 2, ...; 0: an answer
        self.own = []               # other events that belong to it

    def lost(self):
        return not self.rx

    def gone(self):
        """Whether a rule dropped it, or damaged it so that its receiver did."""
        return (bool(self.fault) and self.fault.action in GONE and
                self.lost())

    def goes_to(self, node):
        return self.target in (None, node)


class Flight:
    """Finds the sent packets that an arrival or a fault may belong to."""

    def __init__(self):
        self.last = {}              # (node, QP, PSN) -> the last packet
        self.waiting = defaultdict(lambda: deque(maxlen=SAME_OPEN))

    def add(self, packet):
        tx = packet.tx
        self.last[tx.node, tx.qpn, tx.psn] = packet
        self.waiting[packet.target, tx.peer, tx.psn].append(packet)

    def to(self, event):
        """The packets that EVENT at their receiver may belong to, oldest first."""
        found = [packet for target in (event.node, None) for packet in
                 self.waiting.get((target, event.qpn, event.psn), ())
                 if packet.tx.loopback == (event.node == packet.tx.node)]
        return sorted(found, key=lambda packet: packet.tx.time)


class WorkRequest:
    def __init__(self, wqe):
        self.wqe = wqe
        self.post = None            # the program's mark before its doorbell
        self.node, self.qpn, self.index = wqe.node, wqe.qpn, wqe.index
        self.doorbell = None
        self.packets = []
        self.answers = []
        self.cqe = self.visible = None
        self.own = []               # its other events, in any machine

    def what(self):
        return SQ_NAMES.get(self.wqe.opcode, f"opcode {self.wqe.opcode}")

    def name(self):
        return f"{self.node}: WR {self.index} of QP {self.qpn}"

    def all_packets(self):
        """Its own packets and their answers."""
        return self.packets + self.answers

    def events(self):
        """All its events in order of time: (event, packet or None)."""
        found = [(event, None) for event in
                 (self.post, self.doorbell, self.wqe, self.cqe, self.visible, *self.own)
                 if event]
        for packet in self.all_packets():
            found.append((packet.tx, packet))
            found += [(event, packet) for event in packet.rx + packet.own]
            if packet.fault:
                found.append((packet.fault, packet))
        once = {id(event): (event, packet) for event, packet in found}
        return sorted(once.values(), key=lambda pair: (
            pair[0].time, pair[0].node, pair[0].number))


class Chain:
    """The causes of events and interrupts of one machine. Each event and each
    interrupt must have its own cause; no cause counts twice."""

    def __init__(self):
        self.visible = {}               # CQ -> its last visible entry
        self.arms = defaultdict(list)   # CQ -> consumer indexes of pending arms
        self.written = {}               # EQ -> number of entries written
        self.vectors = {}               # EQ -> its vector
        self.owed = set()               # vectors whose next interrupt has a cause
        self.spoilt = False             # a rule adds events without a cause

    def wrong(self, event):
        """The fault in the next event, in words; None if it is correct."""
        look = getattr(self, f"see_{event.kind}", None)
        found = look(event) if look else None
        return None if self.spoilt else found

    def see_fault(self, event):
        self.spoilt |= event.point in ("eqe", "interrupt")

    def see_reset(self, _):
        self.__init__()

    def see_cqe_visible(self, event):
        self.visible[event.cqn] = event.pi

    def see_arm(self, event):
        self.arms[event.cqn].append(event.ci)

    def see_eqe(self, event):
        self.written[event.eqn] = event.pi + 1
        self.vectors[event.eqn] = event.vector
        if event.armed:
            self.owed.add(event.vector)
        if event.type != COMPLETION:
            return None
        last = self.visible.get(event.id)
        arms = self.arms[event.id]
        left = [ci for ci in arms if last is None or ahead(ci, last)]
        self.arms[event.id] = left
        if last is None or (arms and len(left) == len(arms)):
            return "reported before it was visible"
        return None if arms else "reported, but the CQ was not armed"

    def see_doorbell_eq(self, event):
        written = self.written.get(event.eqn, 0)
        vector = self.vectors.get(event.eqn)
        if vector is not None and event.arm and ahead(written, event.ci):
            self.owed.add(vector)
        return ("handled before it was written" if ahead(event.ci, written)
                else None)

    def see_command_done(self, _):
        self.owed.add(COMMANDS)

    see_fatal = see_command_done

    def see_interrupt(self, event):
        if event.vector not in self.owed:
            return "an interrupt without an event"
        self.owed.discard(event.vector)
        return None


class Model:
    def __init__(self, records, whole=True):
        """RECORDS: node -> events.

        WHOLE: all machines have a record from their first event on, and the
        wire loses no frame without a rule. Otherwise frames may come from, or
        go to, a machine without a record. A recorder that was paused leaves a
        gap, so its record is not whole.
        """
        self.records = records
        self.whole = whole and not any(
            event.kind in RESTED for events in records.values()
            for event in events)
        self.wire = Wire(records)
        self.packets = []
        self.requests = []
        self.problems = []
        self.newest = {}                # (from, to) -> number of a tx
        self.asked = {}                 # (node, QP, PSN) -> request
        self.reads = defaultdict(list)  # (node, QP) -> their packets
        self.lags = defaultdict(list)   # node -> times from a CQE to its poll
        # (node, number of a NAK's tx) -> the arrival that caused the NAK
        self.missed = {}
        # (node, number of a CQE) -> the newest PSN answered before it
        self.answered = {}
        self.match_packets()
        for node in records:
            self.find_requests(node)
            self.find_missed(node)
            self.check_events(node)
        self.find_answers()
        self.find_naks()
        for node in records:
            self.find_deeds(node)
        self.check()

    # ---- packets -----------------------------------------------------------

    def match_packets(self):
        """Match frames with their arrivals, in order of time: by machines,
        destination QP, PSN and opcode."""
        times = sorted((event for events in self.records.values()
                        for event in events
                        if event.kind in ("tx", "rx", "fault")),
                       key=lambda event: (event.time, event.kind != "tx"))
        left = self.arrivals_left(times)
        early, flight = [], Flight()
        for event in times:
            if event.kind == "tx" and event.roce:
                place = event.node, event.number
                packet = Packet(event, self.wire.others.get(place),
                                place in self.wire.asks)
                self.packets.append(packet)
                flight.add(packet)
            elif event.kind == "rx":
                if not self.arrive(event, flight.to(event), left):
                    early.append(event)
            elif event.kind == "fault" and event.point in ("tx", "rx"):
                self.blame(event, flight)
        for event in early if self.whole else ():
            self.problems.append(f"received before it was sent, or never sent: "
                                 f"{event!r}")

    @staticmethod
    def arrivals_left(times):
        """For each arrival: how many equal packets arrive, it included, before
        another one is sent. Equal: the same destination QP, PSN and opcode."""
        count, left = Counter(), {}
        for event in reversed(times):
            if event.kind == "tx":
                count[event.peer, event.psn, event.opcode] = 0
            elif event.kind == "rx":
                key = event.qpn, event.psn, event.opcode
                count[key] += 1
                left[event.node, event.number] = count[key]
        return left

    def comes_from(self, rx, packet):
        source = self.wire.others.get((rx.node, rx.number))
        return packet.tx.opcode == rx.opcode and source in (None,
                                                            packet.tx.node)

    def arrive(self, rx, waiting, left):
        """Find the packet that has arrived by the event RX; False if none fits.

        A wire keeps the order. So a packet that was sent before one that has
        arrived is lost, unless a rule held it back. If the wire loses frames,
        and fewer arrive than were sent, the first ones count as lost.

        If no packet is left, the arrival is a duplicate, or late on a wire
        that does not keep the order. A corrupted packet is a candidate only if
        no other is: a rule may have corrected its ICRC.
        """
        sent = [packet for packet in waiting if self.comes_from(rx, packet)]
        candidates = ([packet for packet in sent if not packet.gone()] or
                      [packet for packet in sent
                       if packet.fault.action == "corrupt"])
        live = [packet for packet in candidates if not packet.rx and
                not self.overtaken(packet, rx.node)]
        lost = 0 if self.whole else len(live) - left[rx.node, rx.number]
        if live:
            packet = live[max(0, lost)]
        elif candidates:
            packet = candidates[-1]
        else:
            return False
        packet.rx.append(rx)
        self.came(packet, rx.node)
        return True

    def blame(self, fault, flight):
        """Find the packet that a rule hit.

        At tx it is the last packet of that QP and PSN. At rx it is the first
        one that has not arrived and still can; where the wire loses frames, it
        is the last such packet.
        """
        if fault.point == "tx":
            hit = [flight.last.get((fault.node, fault.qpn, fault.psn))]
        else:
            hit = [packet for packet in flight.to(fault) if not packet.rx and
                   not packet.fault and not self.overtaken(packet, fault.node)]
        packet = hit[0 if self.whole else -1] if hit else None
        if packet and not packet.fault:
            packet.fault = fault
            if fault.point == "rx":
                self.came(packet, fault.node)

    def came(self, packet, node):
        way = packet.tx.node, node
        self.newest[way] = max(packet.tx.number, self.newest.get(way, 0))

    def overtaken(self, packet, node):
        return (not packet.fault and packet.tx.number <
                self.newest.get((packet.tx.node, node), 0))

    # ---- work requests -----------------------------------------------------

    def find_requests(self, node):
        sent = {packet.tx.number: packet for packet in self.packets
                if packet.tx.node == node}
        open_requests = {}
        doorbells, posts, begun, answered = {}, {}, {}, {}
        written = set()
        for event in self.records[node]:
            if event.kind == "mark":
                self.see_mark(event, posts, begun)
            elif event.kind in ("doorbell_sq", "sq_record"):
                doorbells[event.qpn] = event, posts.pop(event.qpn, None)
                self.after_post(*doorbells[event.qpn])
            elif event.kind == "wqe":
                request = WorkRequest(event)
                request.doorbell, request.post = doorbells.get(
                    event.qpn, (None, None))
                open_requests[event.qpn, event.index] = request
                self.requests.append(request)
            elif event.kind == "tx" and event.roce and event.index != NONE:
                self.adopt(sent[event.number],
                           open_requests.get((event.qpn, event.index)))
            elif event.kind == "rx" and is_answer(event.opcode):
                if not psn_ahead(answered.get(event.qpn, event.psn),
                                 event.psn):
                    answered[event.qpn] = event.psn
            elif event.kind == "cqe":
                self.answered[node, event.number] = answered.get(event.qpn)
                written.add((event.cqn, event.pi))
                begun[event.cqn] = event
                request = open_requests.get((event.qpn, event.index))
                if request and not request.cqe and event.opcode < RECEIVE:
                    request.cqe = event
            elif event.kind == "cqe_visible":
                if self.whole and (event.cqn, event.pi) not in written:
                    self.problems.append(f"visible before it was written: "
                                         f"{event!r}")
                request = open_requests.get((event.qpn, event.index))
                if (request and request.cqe and not request.visible and
                        (request.cqe.cqn, request.cqe.pi) ==
                        (event.cqn, event.pi)):
                    request.visible = event

    def see_mark(self, mark, posts, begun):
        """A polled entry must have been written before. The event "cqe" counts,
        not "cqe_visible": a program may see the entry as soon as the device
        writes it, before the device can record that it is visible."""
        if mark.step == POST:
            posts[mark.id] = mark
            return
        last = begun.get(mark.id)
        end = last.pi + 1 if last else 0
        if mark.step == POLL and self.whole and ahead(mark.index, end):
            self.problems.append(f"polled before it was written: {mark!r}")
        elif mark.step == POLL and last and mark.index == end:
            self.lags[mark.node].append(mark.time - last.time)

    def after_post(self, doorbell, mark):
        if mark and not ahead(doorbell.pi, mark.index):
            self.problems.append(f"rung before it was posted: {doorbell!r}")

    @staticmethod
    def adopt(packet, request):
        if request:
            packet.request = request
            request.packets.append(packet)
            packet.number = len(request.packets)

    def find_answers(self):
        """Assign each answer to the request that has its PSN."""
        for request in self.requests:
            for packet in request.packets:
                way = packet.tx.node, packet.tx.qpn
                self.asked[(*way, packet.tx.psn)] = request
                if packet.tx.opcode & 0x1f == READ_REQUEST:
                    self.reads[way].append(packet)
        for packets in self.reads.values():
            packets.sort(key=lambda packet: packet.tx.time)
        for packet in self.packets:
            tx = packet.tx
            if tx.index != NONE or tx.opcode & 0x1f not in RESPONSES:
                continue
            for node in {rx.node for rx in packet.rx} or self.records:
                request = packet.goes_to(node) and self.asked_by(
                    node, tx.peer, tx, node != tx.node)
                if request and packet.request is None:
                    packet.request = request
                    request.answers.append(packet)

    def asked_by(self, node, qpn, event, also_reads=True):
        """The request of a QP whose packets have the PSN of EVENT, or, with
        ALSO_READS, whose READ responses have it."""
        return self.asked.get((node, qpn, event.psn)) or (
            self.read_of(self.reads[node, qpn], event) if also_reads else None)

    def find_naks(self):
        """Assign events to requests: NAKs, at their sender and their receiver,
        and the retransmissions, timeouts and probes of the requester."""
        said = defaultdict(list)
        for events in self.records.values():
            for event in events:
                if event.kind in ("nak_tx", "nak_rx"):
                    said[event.node, event.qpn, event.psn].append(event)
                elif event.kind in ("retry", "timeout", "probe"):
                    request = self.asked_by(event.node, event.qpn, event)
                    if request:
                        request.own.append(event)
        for request in self.requests:
            for packet in request.answers:
                ends = [packet.tx, *packet.rx]
                for end in ends:
                    request.own += said.pop((end.node, end.qpn, end.psn), [])

    def find_missed(self, node):
        """Find the cause of each NAK for a PSN sequence error. Its PSN is that
        of the missing packet; its cause is the arrival of a later packet."""
        came, said = defaultdict(lambda: deque(maxlen=SAME_OPEN)), {}
        for event in self.records[node]:
            if event.kind == "rx":
                came[event.qpn].append(event)
            elif event.kind == "nak_tx" and event.syndrome == SEQUENCE_ERROR:
                said[event.qpn] = event.psn
            elif (event.kind == "tx" and event.opcode & 0x1f == ACK and
                    said.get(event.qpn) == event.psn):
                del said[event.qpn]
                self.missed[node, event.number] = next(
                    (rx for rx in reversed(came[event.qpn])
                     if 0 < (rx.psn - event.psn) & 0xffffff < 0x800000), None)

    @staticmethod
    def read_of(reads, event):
        """The READ whose range of PSNs contains that of EVENT: the last READ that
        was sent before EVENT and does not begin at a later PSN."""
        at = bisect_right(reads, event.time, key=lambda packet: packet.tx.time)
        for packet in reversed(reads[max(0, at - READS_OPEN):at]):
            if (event.psn - packet.tx.psn) & 0xffffff < 0x800000:
                return packet.request
        return None

    # ---- memory accesses, completions, interrupts --------------------------

    def find_deeds(self, node):
        """Assign memory accesses, completions and events to the packet next to
        them in the record. The device reads a packet's data just before it
        sends the packet, and writes received data just after the arrival. The
        interrupt and the handler's doorbell follow the event."""
        ends = {end.number: packet for packet in self.packets
                for end in (packet.tx, *packet.rx) if end.node == node}
        wqes = {request.wqe.number: request for request in self.requests
                if request.node == node}
        reads, current, events, unseen = [], None, {}, defaultdict(deque)
        for event in self.records[node]:
            if event.kind == "dma_read":
                reads.append(event)
                continue
            if event.kind == "mark":    # the program's, not the device's
                self.polled(event, unseen)
                continue
            if event.kind in ("tx", "rx"):
                current = ends.get(event.number)
                if current and event.kind == "tx":
                    current.own += reads
            elif event.kind == "wqe":
                wqes[event.number].own += reads
                current = None
            elif event.kind in DEEDS and current:
                current.own += [*reads, event]
                if event.kind == "cqe_visible":
                    unseen[event.cqn].append((event.pi, current))
                elif event.kind == "eqe" and event.armed:
                    events[event.eqn] = event.vector, current
            elif event.kind in ("interrupt", "doorbell_eq"):
                self.add_report(event, events)
                current = None
            elif event.kind not in DEEDS:
                current = None
            reads = []

    @staticmethod
    def polled(mark, unseen):
        """Assign a mark POLL to the packets whose completions it has taken."""
        waiting = unseen[mark.id] if mark.step == POLL else ()
        while waiting and ahead(mark.index, waiting[0][0]):
            waiting.popleft()[1].own.append(mark)

    @staticmethod
    def add_report(event, events):
        """Assign an interrupt, or the doorbell of its handler, to the packet
        that caused the EQ entry."""
        for eqn, (vector, packet) in list(events.items()):
            if event.kind == "interrupt" and event.vector == vector:
                packet.own.append(event)
                events[eqn] = None, packet
            elif event.kind == "doorbell_eq" and event.eqn == eqn:
                packet.own.append(event)
                del events[eqn]

    # ---- checks ------------------------------------------------------------

    def check_events(self, node):
        """Check the order: a completion is visible, its event is written, then
        come the interrupt and the doorbell of the handler."""
        chain = Chain()
        for event in self.records[node] if self.whole else ():
            wrong = chain.wrong(event)
            if wrong:
                self.problems.append(f"{wrong}: {event!r}")

    def check(self):
        for node, events in self.records.items():
            for first, second in zip(events, events[1:]):
                if second.time < first.time:
                    self.problems.append(f"{node}: time goes back at "
                                         f"{second!r}")
        for packet in self.packets:
            for rx in packet.rx:
                self.before(packet.tx, rx)
        if self.whole:
            self.check_lost()
        for request in self.requests:
            self.check_request(request)

    def check_data(self, request):
        """Check that the data of a SEND are written before the receive completes.

        Data for the card's own memory cause no event on the bus. So if no data
        were written before the completion, none may be written after it.
        """
        for cqe in self.receives_of(request):
            deeds = sorted((event for packet in request.packets
                            for event in packet.own if event.node == cqe.node),
                           key=lambda event: event.number)
            writes = [event for event in deeds if event.kind == "dma_write"]
            there = sum(event.len for event in writes
                        if event.number < cqe.number)
            sizes = {packet.tx.psn: self.wire.data.get((
                packet.tx.node, packet.tx.number), 0)
                for packet in request.packets}
            wanted = sum(sizes.values())
            entries = sum(event.kind in ("cqe", "eqe") for event in deeds)
            late = sum(event.number > cqe.number for event in writes)
            if (there or late > entries) and there < wanted:
                self.problems.append(f"completed with {there} of {wanted} "
                                     f"bytes written: {cqe!r}")

    @staticmethod
    def receives_of(request):
        """The successful receive completions at the other end."""
        return [event for packet in request.packets for event in packet.own
                if event.kind == "cqe" and event.opcode >= RECEIVE and
                event.qpn == packet.tx.peer and not event.status]

    def before(self, cause, effect):
        if cause and effect and effect.time < cause.time:
            self.problems.append(f"effect before cause: {effect!r} before "
                                 f"{cause!r}")

    def check_lost(self):
        """Report packets that no rule hit and that never arrived. Packets at the
        end of the records, and packets to an unknown QP, are not reported."""
        end = min((events[-1].time for events in self.records.values()
                   if events), default=0)
        known = {event.qpn for events in self.records.values()
                 for event in events if event.kind == "qp_state"}
        for packet in self.packets:
            if (packet.lost() and not packet.fault and packet.tx.time < end and
                    packet.tx.peer in known):
                self.problems.append("sent and never received: "
                                     f"{packet.tx!r}")

    def check_request(self, request):
        if self.whole and not request.doorbell:
            self.problems.append(f"fetched without a doorbell: {request.wqe!r}")
        self.before(request.post, request.doorbell)
        self.before(request.doorbell, request.wqe)
        for packet in request.packets:
            self.before(request.wqe, packet.tx)
            self.before(packet.tx, request.visible)
        firsts = [rx for packet in request.packets for rx in packet.rx]
        first = min(firsts, key=lambda rx: rx.time, default=None)
        for packet in request.answers:
            nak = packet.tx.node, packet.tx.number
            if nak not in self.missed:
                self.before(first, packet.tx)
            elif self.whole and not self.missed[nak]:
                self.problems.append(f"missed, and nothing behind it has come: "
                                     f"{packet.tx!r}")
        self.before(request.cqe, request.visible)
        if self.whole:
            self.check_data(request)
            self.check_answered(request)

    def check_answered(self, request):
        """Check that a successful request was answered before its completion: up
        to its last packet or its last response. An answer with a later PSN
        acknowledges it, too."""
        cqe = request.cqe
        psns = [packet.tx.psn for packet in request.packets
                if packet.tx.opcode >> 5 in RELIABLE]
        if not cqe or cqe.status or not psns:
            return
        psns += [packet.tx.psn for packet in request.answers
                 if packet.tx.opcode & 0x1f != ACK]
        answered = self.answered[cqe.node, cqe.number]
        if answered is None or any(psn_ahead(psn, answered) for psn in psns):
            self.problems.append(f"completed before it was answered: {cqe!r}")

    def of_kind(self, name):
        """The completed work requests with this NAME of SQ_NAMES."""
        return [request for request in self.requests if request.visible and
                request.what() == name]
