# SPDX-License-Identifier: GPL-2.0-or-later
"""What on a guest's console means that the guest is not well."""

import os
import re

from .outputs import contents, printable

# One expression per kind of complaint the kernel has.
TROUBLE = re.compile(
    r"WARNING: |BUG: |kernel BUG at|Oops: |Oops\[|general protection fault|"
    r"Kernel panic|Call Trace:|possible recursive locking|"
    r"possible circular locking|inconsistent lock state|"
    r"blocked for more than \d+ seconds|soft lockup|hard LOCKUP|"
    r"self-detected stall|detected stalls|detected expedited stalls|"
    r"KASAN|UBSAN|refcount_t: |list_(add|del) corruption|"
    r"DMA-API: (?!debugging|preallocated|Mapped at)|unable to handle|Out of memory|"
    r"non-static key|unregister_netdevice: waiting|"
    r"unreferenced object|page allocation failure|^init: ", re.M)
# What DMA_API_DEBUG says of mappings: those of other modules are not the driver's,
# and a program may register a page twice, whose mappings share a cache line then.
# Such a report is between the next two; those of several CPUs may come mixed.
CUT, END = "cut here ]-", "end trace "
MAPPING = re.compile("(overlapping mappings)|device driver tries to sync|"
                     "device driver frees DMA memory with ")
DMA_API = "DMA-API: "
OF_A_MAPPING = re.compile(
    r"DMA-API: |WARNING: CPU: \d+ PID: \d+ at kernel/dma/debug\.c:|Call Trace:")
LONGEST_MAPPING = 100000
BY_THE_DRIVER = re.compile(r"^ +\w+\+\S+ \[fakernic\]", re.M)
FOR_A_PROGRAM = re.compile(r" ib_umem_(?:get|odp_map_dma_and_lock)\+")
DRIVER = "[fakernic]"
# Locks in a wrong order that Linux 6.12 reports whatever the driver is:
# ib_uverbs as a process with a doorbell page forks, and as its device goes; pciehp as
# a card goes from a slot, twice; nvmet_rdma, which executes a command in the
# connection's handler if the command came before the connection event, and ends its
# listener, another such identifier, under the lock that the command takes.
LOCK = re.compile(r"lock\((\S{1,200})\);")
OTHERS_LOCKS = (
    {"&file->disassociation_lock", "&mm->mmap_lock", "&mm->mmap_lock/1"},
    {"pci_rescan_remove_lock", "&ctrl->reset_lock"},
    {"nvmet_config_sem", "&id_priv->handler_mutex"})
# Lost memory of a task, its signals or credentials, which no driver takes. Linux 6.12
# loses that of a program that opens a device which refuses: its
# UVERBS_METHOD_GET_CONTEXT forgets that resource tracking holds the task. And a socket
# of SMC that took a connection: if it is closed while its link group ends,
# smc_close_active_abort() forgets to put it.
OTHERS_LEAK = re.compile(
    r"^unreferenced object .*\n(?: .*\n)*? +"
    r"(?:copy_process|prepare_exec_creds|smc_tcp_listen_work)\+.*\n(?: .*\n)*", re.M)
# The time, with which the kernel begins its lines.
STAMP = re.compile(r"\[ *\d+\.\d{6}\]")
# What is judged of a console at a time, and what is shown of a line and of the
# end of a console at most. So a look costs a bounded time, whatever a guest
# prints: each search below is linear in its text.
PIECE = 1 << 22
LINE_MAX = 2000
TAIL = 1 << 16
ORDER = "WARNING: possible circular locking"


class Kind:
    """Reports that are judged as a whole: from a line with BEGIN to the next
    line with END, LONGEST bytes apart at most. EXCUSED gets the report; whether
    it is no complaint."""

    def __init__(self, begin, end, longest, excused):
        self.begin = begin
        self.end = end
        self.longest = longest
        self.excused = excused

    def open_at(self, text):
        """Where a report begins that has not ended yet but may; else None."""
        after = text.rfind(self.end) + 1
        at = text.find(self.begin, max(after, len(text) - self.longest))
        return None if at < 0 else line_start(text, at)

    def without(self, text):
        """The text without the reports that are excused."""
        kept, at, done = [], 0, 0
        while (found := text.find(self.begin, at)) >= 0:
            begin = line_start(text, found)
            end = text.find(self.end, line_end(text, found))
            if end < 0:
                break
            at = line_end(text, end)
            if self.excused(text[begin:at]):
                kept.append(text[done:begin])
                done = at
        return "".join(kept) + text[done:]


def line_start(text, at):
    """Where the line begins that AT is in, or LINE_MAX before AT."""
    since = max(0, at - LINE_MAX)
    begin = text.rfind("\n", since, at)
    return since if begin < 0 else begin + 1


def line_end(text, at):
    """Where the line ends that AT is in."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def of_other_locks(report):
    locks = set(LOCK.findall(report))
    return any(locks <= others for others in OTHERS_LOCKS)


def others_race(report):
    """A data race of the kernel's own: neither function is the driver's."""
    return DRIVER not in report.partition("\n")[0]


def only(*words):
    """Whether each complaint in a report is one of these, and no function in it
    the driver's."""
    return lambda report: DRIVER not in report and complains_only(report, words)


def complains_only(report, words):
    return all(found[0] in words for found in TROUBLE.finditer(report))


def task_shown(report):
    """A task and where it sleeps, which may be in the driver."""
    return bool(TASK.search(report.partition("\n")[0])) and complains_only(
        report, ["Call Trace:"])


ORDERS = Kind(ORDER, "</TASK>", 20000, of_other_locks)
RACES = Kind("BUG: KCSAN: data-race in ", "=" * 20, 9000, others_race)
# Traces that a command causes on purpose, by the words of --expect: a process is
# killed as memory is short, sysrq-t or sysrq-w shows tasks, sysrq-c crashes.
TASK = re.compile(r"task:\S+ +state:")
CRASH = "crash"
EXPECTED = {
    "oom": Kind("invoked oom-killer", "Killed process", 100000,
                only("Call Trace:", "Out of memory")),
    "tasks": Kind("task:", "</TASK>", 20000, task_shown),
    CRASH: Kind("sysrq: Trigger a crash", "</TASK>", 20000,
                only("Kernel panic", "Call Trace:"))}


# ---- mappings ----------------------------------------------------------------

def reports(text):
    """Where each report begins and ends, or None if it has not ended, and how many
    it is: those that several CPUs make at once are one."""
    begin = depth = count = at = 0
    for line in text.splitlines(True):
        if CUT in line:
            if not depth:
                begin, count = at, 0
            depth += 1
            count += 1
        elif END in line and depth:
            depth -= 1
            if not depth:
                yield begin, at + len(line), count
        at += len(line)
    if depth:
        yield begin, None, count


def mappings(report):
    """What the report says of mappings, a match per line."""
    for line in report.split("\n"):
        _, found, words = line.partition(DMA_API)
        kind = found and MAPPING.search(words)
        if kind:
            yield kind


def others_mappings(report, count):
    """A report, or COUNT that CPUs made at once: each of mappings that are no
    error of the driver's."""
    kinds = [kind[1] for kind in mappings(report)]
    if len(kinds) != count or any(not OF_A_MAPPING.match(report, found.start())
                                 for found in TROUBLE.finditer(report)):
        return False
    return not BY_THE_DRIVER.search(report) or (
        all(kinds) and len(FOR_A_PROGRAM.findall(report)) >= count)


def without_others_mappings(text):
    kept, at = [], 0
    for begin, end, count in reports(text):
        if end and others_mappings(text[begin:end], count):
            kept.append(text[at:begin])
            at = end
    return "".join(kept) + text[at:]


def mappings_open(text):
    """Where a report of mappings begins that has not ended, or may be one."""
    for begin, end, _ in reports(text):
        if not end and len(text) - begin < LONGEST_MAPPING and (
                any(mappings(text[begin:])) or not TROUBLE.search(text, begin)):
            return begin
    return None


# ---- a console ---------------------------------------------------------------

def readable(data):
    return printable(data.decode("utf-8", "replace").replace("\r", ""))


class Console:
    """A console log that grows: what of it was not judged yet. If STAMPED
    only lines with the kernel's time count. FILE is the log if it is open."""

    def __init__(self, path, stamped=False, file=None):
        self.path = path
        self.file = file
        self.stamped = stamped
        self.judged = 0
        self.expect(())

    def data(self, start=0, size=None):
        return contents(self.path, self.file, start, size)

    def text(self, start=0):
        return readable(self.data(start))

    def locks_are_watched(self):
        """The kernel reports one wrong order of locks at most, and watches none
        after that; a report that is not the driver's counts too."""
        return ORDER.encode() not in self.data()

    def tail(self, lines=25):
        """Its last lines, indented."""
        text = readable(self.data(-TAIL))
        return "".join(f"    {line[:LINE_MAX]}\n" for line in
                       text.rstrip().split("\n")[-lines:])

    def size(self):
        if self.file:
            return os.fstat(self.file.fileno()).st_size
        return self.path.stat().st_size if self.path.exists() else 0

    def expect(self, kinds):
        """From now on these kinds of EXPECTED are no complaints. MET are those
        that came."""
        self.expected = {name: EXPECTED[name] for name in kinds}
        self.met = set()

    def forget(self):
        """Nothing that is there counts from now on."""
        self.judged = self.size()

    def complaint(self, text):
        """Where the first one begins and ends in a text, or None."""
        at = 0
        for line in text.split("\n"):
            stamp = STAMP.search(line) if self.stamped else None
            if stamp or not self.stamped:
                found = TROUBLE.search(line, stamp.end() if stamp else 0)
                if found:
                    return at + found.start(), at + found.end()
            at += len(line) + 1
        return None

    def piece(self):
        """What is to be judged next: whole lines, if they are not too long,
        without a report that may go on."""
        data = self.data(self.judged, PIECE)
        end = data.rfind(b"\n") + 1
        data = data[:end] if end or len(data) < PIECE else data
        # Latin 1: a character is a byte.
        text = data.decode("latin-1")
        starts = [kind.open_at(text) for kind in (
            ORDERS, RACES, *self.expected.values())]
        open_at = [start for start in starts if start is not None]
        text = text[:min(open_at, default=len(text))]
        return data[:len(text[:mappings_open(text)])]

    def trouble(self):
        """The first complaint since the last call with its surroundings. Of a
        PIECE with a complaint no other one is reported."""
        end = self.size()
        while True:
            data = self.piece()
            self.judged += len(data)
            found = self.excerpt(readable(data))
            if found or not data or self.judged >= end:
                return found

    def excerpt(self, text):
        """The first complaint in a text with its surroundings, or None."""
        text = without_others_mappings(text)
        for kind in (RACES, ORDERS):
            text = kind.without(text)
        for name, kind in self.expected.items():
            rest = kind.without(text)
            if rest != text:
                self.met.add(name)
            text = rest
        found = self.complaint(text)
        if not found:
            return None
        begin, end = found
        return text[line_start(text, max(0, begin - 300)):end + 3000]
