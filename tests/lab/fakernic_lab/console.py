# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the complaints of a guest's kernel on its console."""

import os
import re

from .outputs import contents, printable

# One expression for each kind of kernel complaint.
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
# DMA_API_DEBUG reports about mappings. Two kinds are ignored: mappings of other modules, and
# a page that a program registers twice, because its mappings share a cache line. A report
# lies between CUT and END. Reports of several CPUs may be interleaved.
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
# Wrong lock orders that Linux 6.12 reports with any driver:
# - ib_uverbs: a process with a doorbell page forks, or the device is removed;
# - pciehp: a card leaves its slot for the second time;
# - nvmet_rdma: a command that came before the connection event is executed in the
#   connection's handler, and takes a lock under which the listener, whose identifier has
#   the same lock class, is destroyed.
LOCK = re.compile(r"lock\((\S{1,200})\);")
OTHERS_LOCKS = (
    {"&file->disassociation_lock", "&mm->mmap_lock", "&mm->mmap_lock/1"},
    {"pci_rescan_remove_lock", "&ctrl->reset_lock"},
    {"nvmet_config_sem", "&id_priv->handler_mutex"})
# Memory leaks of Linux 6.12 that no driver causes:
# - a task with its signals or credentials: if the device refuses a context,
#   UVERBS_METHOD_GET_CONTEXT does not release the task that resource tracking holds;
# - a socket that SMC accepted: if it is closed while its link group ends,
#   smc_close_active_abort() does not release it.
OTHERS_LEAK = re.compile(
    r"^unreferenced object .*\n(?: .*\n)*? +"
    r"(?:copy_process|prepare_exec_creds|smc_tcp_listen_work)\+.*\n(?: .*\n)*", re.M)
# The time at the beginning of a kernel line.
STAMP = re.compile(r"\[ *\d+\.\d{6}\]")
# Limits in bytes: of the text that is judged at a time, of a line that is shown, and of the
# end of a console that is shown. They bound the time that a hostile guest can cost, because
# each search below is linear in its text.
PIECE = 1 << 22
LINE_MAX = 2000
TAIL = 1 << 16
ORDER = "WARNING: possible circular locking"


class Kind:
    """Reports that are judged as a whole: from a line with BEGIN to the next line with
    END, at most LONGEST bytes later. EXCUSED(report) returns whether to ignore it."""

    def __init__(self, begin, end, longest, excused):
        self.begin = begin
        self.end = end
        self.longest = longest
        self.excused = excused

    def open_at(self, text):
        """The offset of a report whose end may still come; None if there is none."""
        after = text.rfind(self.end) + 1
        at = text.find(self.begin, max(after, len(text) - self.longest))
        return None if at < 0 else line_start(text, at)

    def without(self, text):
        """The text without the reports that EXCUSED ignores."""
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
    """The offset of the line that contains AT, but at most LINE_MAX before AT."""
    since = max(0, at - LINE_MAX)
    begin = text.rfind("\n", since, at)
    return since if begin < 0 else begin + 1


def line_end(text, at):
    """The offset of the end of the line that contains AT."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def of_other_locks(report):
    locks = set(LOCK.findall(report))
    return any(locks <= others for others in OTHERS_LOCKS)


def others_race(report):
    """Whether a data race is in other code: neither function is the driver's."""
    return DRIVER not in report.partition("\n")[0]


def only(*words):
    """A function that returns whether a report has only these complaints, and no function
    of the driver."""
    return lambda report: DRIVER not in report and complains_only(report, words)


def complains_only(report, words):
    return all(found[0] in words for found in TROUBLE.finditer(report))


def task_shown(report):
    """Whether a report shows where a task sleeps. That may be in the driver."""
    return bool(TASK.search(report.partition("\n")[0])) and complains_only(
        report, ["Call Trace:"])


ORDERS = Kind(ORDER, "</TASK>", 20000, of_other_locks)
RACES = Kind("BUG: KCSAN: data-race in ", "=" * 20, 9000, others_race)
# Kernel traces that a command may cause on purpose, by their names in --expect: a process
# is killed when memory runs out, sysrq-t or sysrq-w shows tasks, sysrq-c crashes.
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
    """Yields (begin, end, count) of each report. END is None if the report is incomplete.
    COUNT is above 1 if several CPUs printed reports at the same time."""
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
    """Yields a match of MAPPING for each line of the report about a mapping."""
    for line in report.split("\n"):
        _, found, words = line.partition(DMA_API)
        kind = found and MAPPING.search(words)
        if kind:
            yield kind


def others_mappings(report, count):
    """Whether none of the COUNT interleaved reports in REPORT is an error of the driver."""
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
    """The offset of an incomplete report that is, or may become, one about mappings."""
    for begin, end, _ in reports(text):
        if not end and len(text) - begin < LONGEST_MAPPING and (
                any(mappings(text[begin:])) or not TROUBLE.search(text, begin)):
            return begin
    return None


# ---- a console ---------------------------------------------------------------

def readable(data):
    return printable(data.decode("utf-8", "replace").replace("\r", ""))


class Console:
    """A growing console log, and how far it was judged. If STAMPED, only lines with the
    kernel's time count. FILE is the log if it is open."""

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
        """Whether the kernel still checks the order of locks. It stops after the first
        report, also if that is not about the driver."""
        return ORDER.encode() not in self.data()

    def tail(self, lines=25):
        """The last lines, indented."""
        text = readable(self.data(-TAIL))
        return "".join(f"    {line[:LINE_MAX]}\n" for line in
                       text.rstrip().split("\n")[-lines:])

    def size(self):
        if self.file:
            return os.fstat(self.file.fileno()).st_size
        return self.path.stat().st_size if self.path.exists() else 0

    def expect(self, kinds):
        """Ignores these kinds of EXPECTED from now on. MET collects those that came."""
        self.expected = {name: EXPECTED[name] for name in kinds}
        self.met = set()

    def forget(self):
        """Ignores all that was printed so far."""
        self.judged = self.size()

    def complaint(self, text):
        """(begin, end) of the first complaint in a text, or None."""
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
        """The text to judge next: complete lines, unless they are too long, and no
        report that may be incomplete."""
        data = self.data(self.judged, PIECE)
        end = data.rfind(b"\n") + 1
        data = data[:end] if end or len(data) < PIECE else data
        # In Latin 1 a character is one byte, so offsets in 'text' are offsets in 'data'.
        text = data.decode("latin-1")
        starts = [kind.open_at(text) for kind in (
            ORDERS, RACES, *self.expected.values())]
        open_at = [start for start in starts if start is not None]
        text = text[:min(open_at, default=len(text))]
        return data[:len(text[:mappings_open(text)])]

    def trouble(self):
        """The first complaint since the last call, with the text around it. Other
        complaints in the same piece() are not reported."""
        end = self.size()
        while True:
            data = self.piece()
            self.judged += len(data)
            found = self.excerpt(readable(data))
            if found or not data or self.judged >= end:
                return found

    def excerpt(self, text):
        """The first complaint in a text, with the text around it, or None."""
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
