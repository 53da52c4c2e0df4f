# SPDX-License-Identifier: GPL-2.0-or-later
"""What on a guest's console means that the guest is not well."""

import re

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
# What a report begins and ends with; those of several CPUs may come mixed.
CUT = re.compile(r"^.*(?:(cut here \]-)|end trace ).*\n", re.M)
# What DMA_API_DEBUG says of mappings: those of other modules are not the driver's,
# and a program may register a page twice, whose mappings share a cache line then.
MAPPING = re.compile(
    r"DMA-API: .*(?:(overlapping mappings)|device driver tries to sync|"
    r"device driver frees DMA memory with )")
OF_A_MAPPING = re.compile(
    r"DMA-API: |WARNING: CPU: \d+ PID: \d+ at kernel/dma/debug\.c:|Call Trace:")
LONGEST_MAPPING = 100000
BY_THE_DRIVER = re.compile(r"^ +\w+\+\S+ \[fakernic\]", re.M)
FOR_A_PROGRAM = re.compile(r" ib_umem_(?:get|odp_map_dma_and_lock)\+")
# Data races of the kernel's own: of neither of the two does the driver know.
OTHERS_RACE = re.compile(
    r"^.*BUG: KCSAN: data-race in (?!.*\[fakernic\]).*\n"
    r"(?:(?!.*={20}).*\n)*.*={20}.*\n", re.M)
# Locks in a wrong order, and those that Linux 6.12 takes so for whose driver ever:
# ib_uverbs as a process with a doorbell page forks, and as its device goes; pciehp as
# a card goes from a slot, twice; nvmet_rdma, which carries a command out in the
# connection's handler if it came before the connection was told of, and ends its
# listener, another such identifier, under the lock that the command takes.
ORDER = re.compile(
    r"^.*WARNING: possible circular locking.*\n"
    r"(?:(?!.*</TASK>).*\n)*.*</TASK>.*\n", re.M)
LOCK = re.compile(r"lock\((\S+)\);")
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
# Where such a one begins that has not ended yet, but may.
OPEN = re.compile(rb"^.*WARNING: possible circular (?:(?!</TASK>)[^\0]){0,20000}"
                  rb"\Z|"
                  rb"^.*BUG: KCSAN: (?:(?!={20})[^\0]){0,9000}\Z", re.M)
# The time, with which the kernel begins its lines.
STAMP = re.compile(r"\[ *\d+\.\d{6}\]")


def reports(text):
    """Where each report begins and ends, or None if it has not ended, and how many
    it is: those that several CPUs make at once are one."""
    begin = depth = count = 0
    for mark in CUT.finditer(text):
        if mark[1]:
            if not depth:
                begin, count = mark.start(), 0
            depth += 1
            count += 1
        elif depth:
            depth -= 1
            if not depth:
                yield begin, mark.end(), count
    if depth:
        yield begin, None, count


def others_mappings(report, count):
    """A report, or COUNT that CPUs made at once: each of mappings that are no
    error of the driver's."""
    kinds = MAPPING.findall(report)
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
                MAPPING.search(text, begin) or not TROUBLE.search(text, begin)):
            return begin
    return None


def of_other_locks(found):
    """What remains of an ORDER."""
    locks = set(LOCK.findall(found[0]))
    return "" if any(locks <= others for others in OTHERS_LOCKS) else found[0]


def readable(data):
    return data.decode("utf-8", "replace").replace("\r", "")


class Console:
    """A console log that grows: what of it was not judged yet. If STAMPED
    only lines with the kernel's time count."""

    def __init__(self, path, stamped=False):
        self.path = path
        self.stamped = stamped
        self.judged = 0

    def data(self, start):
        try:
            with open(self.path, "rb") as file:
                file.seek(start)
                return file.read()
        except FileNotFoundError:
            return b""

    def text(self, start=0):
        return readable(self.data(start))

    def locks_are_watched(self):
        """No more, once the kernel has told of one: not of that either of which
        the driver does not know (ORDER)."""
        return "WARNING: possible circular locking" not in self.text()

    def tail(self, lines=25):
        """Its last lines, indented."""
        return "".join(f"    {line}\n" for line in
                       self.text().rstrip().splitlines()[-lines:])

    def size(self):
        return self.path.stat().st_size if self.path.exists() else 0

    def complaint(self, text):
        """The match of the first one in a text."""
        for found in TROUBLE.finditer(text):
            begin = text.rfind("\n", 0, found.start()) + 1
            if not self.stamped or STAMP.search(text, begin, found.start()):
                return found
        return None

    def trouble(self):
        """The first complaint since the last call with its surroundings, of
        the lines that are whole."""
        data = self.data(self.judged)
        data = data[:data.rfind(b"\n") + 1]
        unfinished = OPEN.search(data)
        if unfinished:
            data = data[:unfinished.start()]
        # Latin 1: a character is a byte.
        data = data[:mappings_open(data.decode("latin-1"))]
        self.judged += len(data)
        return self.excerpt(readable(data))

    def excerpt(self, text):
        """The first complaint in a text with its surroundings, or None."""
        text = OTHERS_RACE.sub("", without_others_mappings(text))
        text = ORDER.sub(of_other_locks, text)
        found = self.complaint(text)
        if not found:
            return None
        begin = text.rfind("\n", 0, max(0, found.start() - 300)) + 1
        return text[begin:found.end() + 3000]
