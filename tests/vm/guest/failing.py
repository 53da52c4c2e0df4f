# SPDX-License-Identifier: GPL-2.0-or-later
"""Fails each allocation of the driver during an operation, one after the other.
Checks that the operation fails, or succeeds without the allocation, and that it
works afterwards.

    failing.py verbs DEVICE GID-INDEX        every verb and its reverse
    failing.py command UNDO AGAIN COMMAND    a shell command
    failing.py beside WHO COMMAND            the same, while the allocations are
                                             those of WHO: threads, of the
                                             kernel, or softirqs
    failing.py chance PERMILLE               random allocations of all tasks, until
                                             it is called with 0, which prints how
                                             many have failed
    failing.py failed                        prints how many have failed until now

failing.ko (../module) fails the n-th allocation, and with --times N as many in a
row. With --linuxs Linux itself does so to verbs (CONFIG_FAULT_INJECTION), also
to copies from and to a program. Only allocations in the driver, or in functions
that it calls, count. UNDO restores the state in which COMMAND runs, whether it
succeeded or not. AGAIN succeeds if the device works. --at-least N: it is an error
if fewer failed. --limit N: if there are more, only N fail: the first, the last, and
some in between. It prints a line per operation with the number of allocations and
how many failed.
"""

import argparse
import ctypes
import fcntl
import mmap
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

KINDS = ("failslab", "fail_page_alloc", "fail_usercopy")
NEVER = 1_000_000
MODULE = "fakernic"
DEBUG = Path("/sys/kernel/debug")
OWN = DEBUG / "failing"         # of failing.ko
LINUXS = Path("/proc/thread-self/fail-nth")
# failing.ko's numbers for them.
WHO = {"writer": 1, "programs": 2, "threads": 4, "softirqs": 8}
EVERYBODY = sum(WHO.values())
# Callers above it are the network, not the driver.
RECEIVED = "netif_receive_skb_list_internal"
# Allocations of DMA_API_DEBUG, kmemleak and DEBUG_OBJECTS on the debug kernel.
WATCHERS = ("add_dma_entry", "dma_entry_alloc", "__alloc_object",
            "kmemleak_scan_area", "fill_pool")


def module_range():
    """Returns the addresses of the module's code."""
    start = Path(f"/sys/module/{MODULE}/sections/.text").read_text().strip()
    text = Path("/proc/modules").read_text(encoding="ascii")
    size = int(re.search(rf"^{MODULE} (\d+) ", text, re.M)[1])
    return start, hex(int(start, 16) + size)


def function_ranges(names):
    """Returns the addresses of those functions that the kernel has."""
    found = {}
    for line in Path("/proc/kallsyms").read_text(encoding="ascii").splitlines():
        address, kind, name = line.split()[:3]
        if kind in "tT":
            found.setdefault(int(address, 16), set()).add(name)
    text = sorted(found)
    return [(hex(start), hex(end)) for start, end in zip(text, text[1:])
            if found[start] & set(names)]


def choose_what_fails(times, who="writer"):
    """Makes only allocations of the driver fail. The kernel would report files
    of /proc/irq that could not be created when it removes them (a WARNING),
    and debug code would stop checking the driver."""
    start, end = module_range()
    spared = function_ranges([RECEIVED if who == "softirqs" else
                              "register_irq_proc"])
    for name, value in (("times", times), ("start", start), ("end", end),
                        ("who", WHO[who])):
        (OWN / name).write_text(str(value))
    for number, place in enumerate(spared + function_ranges(WATCHERS)):
        for name, value in zip(("start", "end"), place):
            (OWN / f"spared{number}_{name}").write_text(value)
    set_kinds((("require-start", start), ("require-end", end),
               ("reject-start", spared[0][0]), ("reject-end", spared[0][1]),
               ("stacktrace-depth", 32), ("verbose", 1),
               ("ignore-gfp-wait", "N"), ("task-filter", "N"), ("min-order", 0),
               ("probability", 0), ("times", -1)))


def set_kinds(values):
    """Selects Linux's own kinds of failures."""
    for kind in KINDS:
        for name, value in values:
            path = DEBUG / kind / name
            if path.exists():
                path.write_text(str(value))


def log(text):
    """Writes a line to the kernel's log."""
    Path("/dev/kmsg").write_text(f"failing: {text}\n", encoding="ascii")


class Nth:
    """Fails the n-th allocation of the calling task from then on."""

    def __init__(self, is_linuxs=False):
        self.file = LINUXS if is_linuxs else OWN / "nth"

    def set(self, number):
        self.file.write_text(str(number), encoding="ascii")

    def left(self):
        """Returns how many allocations before the n-th were not reached; 0:
        one failed."""
        left = int(self.file.read_text(encoding="ascii"))
        self.set(0)
        return left


def places(total, limit):
    """Returns which allocations fail: the first, the last, and some in
    between."""
    if total <= limit:
        return range(1, total + 1)
    part = limit // 3
    return sorted({*range(1, part + 1), *range(total - part + 1, total + 1),
                   *(1 + i * total // part for i in range(part))})


def tell(name, total, hit, failed):
    print(f"{name}: {total} places, {hit} failed, {failed} errors", flush=True)


# ---- a shell command -------------------------------------------------------

def run_failing(command, number):
    """Runs a command whose n-th allocation fails. Returns its exit code, and
    how many allocations were left."""
    child = os.fork()
    if not child:
        Nth().set(number)
        os.execv("/bin/sh", ["sh", "-c", f"exec >/dev/null 2>&1; {command}"])
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    left = Nth().left()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), left


def check(command):
    result = subprocess.run(["sh", "-c", command], capture_output=True,
                            text=True, check=False)
    if result.returncode:
        raise SystemExit(f"'{command}' failed: {result.stdout}{result.stderr}")


def sweep_command(arguments):
    name, undo, again = arguments.command, arguments.undo, arguments.again
    check(undo)
    code, left = run_failing(name, NEVER)
    if code:
        raise SystemExit(f"'{name}' fails without injected failures: {code}")
    check(again)
    check(undo)
    total = NEVER - left
    hit = failed = 0
    for number in places(total, arguments.limit):
        log(f"{name}: {number} of {total}")
        code, left = run_failing(name, number)
        hit += left == 0
        failed += code != 0
        check(undo)
    check(f"{name}")
    check(again)
    tell(name, total, hit, failed)
    return hit


# ---- allocations of others --------------------------------------------------

def sweep_beside(arguments):
    """Fails allocations of other tasks. The command may succeed or fail, and
    works afterwards."""
    name = arguments.command
    nth = Nth()

    def run(number):
        nth.set(number)
        code = subprocess.run(["sh", "-c", name], stdout=subprocess.DEVNULL,
                              check=False).returncode
        return code, nth.left()

    code, left = run(NEVER)
    if code:
        raise SystemExit(f"'{name}' fails without injected failures: {code}")
    total = NEVER - left
    hit = failed = 0
    for number in places(total, arguments.limit):
        log(f"beside {name}: {number} of {total}")
        code, left = run(number)
        hit += left == 0
        failed += code != 0
        if code:
            check(name)
    check(name)
    tell(name, total, hit, failed)
    return hit


def tell_chance(_):
    failed = int((OWN / "failed").read_text())
    print(f"at random: {failed} failed", flush=True)
    return failed


def set_chance(arguments):
    if not arguments.permille:
        (OWN / "chance").write_text("0")
        return tell_chance(arguments)
    choose_what_fails(NEVER)
    for name, value in (("who", EVERYBODY), ("seed", arguments.seed),
                        ("failed", 0), ("chance", arguments.permille)):
        (OWN / name).write_text(str(value))
    return NEVER


# ---- verbs -----------------------------------------------------------------

COUNTED = "modify_qp with counters"
COUNT = "rdma statistic qp set link {}/1 auto {}"    # a set for each type of QP

# <linux/udmabuf.h>
UDMABUF_CREATE = 0x40187542


def dma_buf(size):
    """Returns a DMA-BUF of memory of a program."""
    memory = os.memfd_create("failing", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, size)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    with open("/dev/udmabuf", "r+b", buffering=0) as device:
        made = fcntl.ioctl(device, UDMABUF_CREATE, bytearray(
            struct.pack("=IIQQ", memory, 0, 0, size)))
    os.close(memory)
    return made


class Verbs:
    """The objects that operations need."""

    SIZE = 1 << 20

    def __init__(self, device, gid_index):
        self.device = device
        self.gid_index = gid_index
        self.context = self.open()
        self.gid = self.context.query_gid(1, gid_index)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 100)
        self.other_pd = PD(self.context)
        self.memory = mmap.mmap(-1, self.SIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.dma_buf = dma_buf(self.SIZE)
        self.wqs = [self.wq(), self.wq()]

    def open(self):
        return Context(name=self.device)

    def qp(self, kind, **more):
        cap = QPCap(max_send_wr=300, max_recv_wr=300, max_send_sge=4,
                    max_recv_sge=4)
        return QP(more.pop("pd", self.pd), QPInitAttr(
            qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap, **more))

    def raw(self):
        return self.qp(e.IBV_QPT_RAW_PACKET)

    def qp_ex(self, kind, mask, **more):
        return QP(self.context, QPInitAttrEx(
            qp_type=kind, comp_mask=mask, **more))

    def xrcd(self):
        return XRCD(self.context, XRCDInitAttr(
            e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT,
            -1))

    def xrc_srq(self, xrcd):
        attr = SrqInitAttrEx(max_wr=300)
        attr.srq_type = e.IBV_SRQT_XRC
        attr.pd, attr.xrcd, attr.cq = self.pd, xrcd, self.cq
        attr.comp_mask = (
            e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD |
            e.IBV_SRQ_INIT_ATTR_XRCD | e.IBV_SRQ_INIT_ATTR_CQ)
        return SRQ(self.context, attr)

    def xrc_send(self):
        return self.qp_ex(e.IBV_QPT_XRC_SEND, e.IBV_QP_INIT_ATTR_PD, pd=self.pd,
                          scq=self.cq, cap=QPCap(max_send_wr=300))

    def xrc_recv(self, xrcd):
        return self.qp_ex(e.IBV_QPT_XRC_RECV, e.IBV_QP_INIT_ATTR_XRCD,
                          xrcd=xrcd)

    def rss(self, table):
        key = bytes(range(40))
        hash_conf = RxHashConf(
            rx_hash_function=e.IBV_RX_HASH_FUNC_TOEPLITZ, rx_hash_key_len=40,
            rx_hash_key=key, rx_hash_fields_mask=e.IBV_RX_HASH_SRC_IPV4)
        return self.qp_ex(
            e.IBV_QPT_RAW_PACKET, e.IBV_QP_INIT_ATTR_PD |
            e.IBV_QP_INIT_ATTR_RX_HASH | e.IBV_QP_INIT_ATTR_IND_TABLE,
            pd=self.pd, hash_conf=hash_conf, ind_table=table)

    def path(self):
        route = GlobalRoute(dgid=self.gid, sgid_index=self.gid_index)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def rc_attr(self, qp):
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = qp.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = 12
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
        attr.ah_attr = self.path()
        return attr

    def srq(self):
        return SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=300)))

    def wq(self):
        return WQ(self.context, WQInitAttr(wq_pd=self.pd, wq_cq=self.cq,
                                           max_wr=300))

    def table(self, wqs):
        return RwqIndTable(self.context, RwqIndTableInitAttr(
            log_ind_tbl_size=1, wqs_list=wqs))

    def flow(self, qp):
        spec = EthSpec(ether_type=0x800, dst_mac="02:00:00:00:00:09")
        attr = FlowAttr(num_of_specs=1, port=1)
        attr.specs.append(spec)
        return Flow(qp, attr)

    def dm(self):
        return DM(self.context, AllocDmAttr(4096))


def operations(v):
    """Yields a name, what the operation needs, and the operation. It returns
    an object, which is then destroyed under failures, too; or None."""
    local = e.IBV_ACCESS_LOCAL_WRITE
    wide = local | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE
    odp = wide | e.IBV_ACCESS_ON_DEMAND

    def none():
        return None

    def to_rts(qp):
        qp.to_rts(v.rc_attr(qp))

    def ud_to_rts(qp):
        qp.to_rts(QPAttr(port_num=1))

    def rereg(mr):
        """Changes memory, domain and rights of a region."""
        mr.rereg(e.IBV_REREG_MR_CHANGE_TRANSLATION, v.pd, v.address, v.SIZE)
        mr.rereg(e.IBV_REREG_MR_CHANGE_PD, v.other_pd)
        mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, v.other_pd, access=local)

    def advise(mr):
        v.pd.advise_mr(e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                       e._IBV_ADVISE_MR_FLAG_FLUSH,
                       [SGE(v.address, v.SIZE, mr.lkey)])

    def to_ready(wq):
        wq.modify(WQAttr(attr_mask=e.IBV_WQ_ATTR_STATE,
                         wq_state=e.IBV_WQS_RDY))

    def query(qp):
        qp.query(e.IBV_QP_STATE)
        v.context.query_device()
        v.context.query_port(1)
        v.context.query_gid(1, v.gid_index)

    return [
        ("open", none, lambda _: v.open()),
        ("alloc_pd", none, lambda _: PD(v.context)),
        ("reg_mr", none, lambda _: MR(v.pd, 4096, wide)),
        ("reg_mr 4 MiB", none, lambda _: MR(v.pd, 4 << 20, wide)),
        ("reg_mr on demand", none, lambda _: MR(v.pd, 1 << 20, odp)),
        ("reg_mr of all memory", none, lambda _: MR(v.pd, 0, odp, implicit=True)),
        ("reg_mr of a DMA-BUF", none, lambda _: DmaBufMR(
            v.pd, v.SIZE, wide, v.dma_buf)),
        ("rereg_mr", lambda: MR(v.pd, 4096, wide), rereg),
        ("rereg_mr on demand", lambda: MR(v.pd, 4096, odp), rereg),
        ("advise_mr", lambda: MR(v.pd, v.SIZE, odp, v.address), advise),
        ("advise_mr of all memory",
         lambda: MR(v.pd, 0, odp, implicit=True), advise),
        ("alloc_mw 1", none, lambda _: MW(v.pd, e.IBV_MW_TYPE_1)),
        ("alloc_mw 2", none, lambda _: MW(v.pd, e.IBV_MW_TYPE_2)),
        ("alloc_dm", none, lambda _: v.dm()),
        ("reg_dm_mr", v.dm, lambda dm: DMMR(
            v.pd, 4096, local | e.IBV_ACCESS_ZERO_BASED, dm, 0)),
        ("create_comp_channel", none, lambda _: CompChannel(v.context)),
        ("create_cq", none, lambda _: CQ(v.context, 10)),
        ("create_cq 20000", none, lambda _: CQ(v.context, 20000)),
        ("create_cq with events", lambda: CompChannel(v.context),
         lambda channel: CQ(v.context, 100, None, channel, 0)),
        ("create_cq_ex", none, lambda _: CQEX(v.context, CqInitAttrEx(100))),
        ("resize_cq", lambda: CQ(v.context, 10), lambda cq: cq.resize(5000)),
        ("create_srq", none, lambda _: v.srq()),
        ("modify_srq", v.srq, lambda srq: srq.modify(
            SrqAttr(max_wr=300, srq_limit=10), e.IBV_SRQ_LIMIT)),
        ("resize_srq", v.srq, lambda srq: srq.modify(
            SrqAttr(max_wr=5000), e.IBV_SRQ_MAX_WR)),
        ("create_qp rc", none, lambda _: v.qp(e.IBV_QPT_RC)),
        ("create_qp uc", none, lambda _: v.qp(e.IBV_QPT_UC)),
        ("create_qp ud", none, lambda _: v.qp(e.IBV_QPT_UD)),
        ("create_qp raw", none, lambda _: v.raw()),
        ("create_qp with srq", v.srq, lambda srq: v.qp(e.IBV_QPT_RC, srq=srq)),
        ("open_xrcd", none, lambda _: v.xrcd()),
        ("create_srq xrc", v.xrcd, v.xrc_srq),
        ("create_qp xrc send", none, lambda _: v.xrc_send()),
        ("create_qp xrc recv", v.xrcd, v.xrc_recv),
        ("modify_qp", lambda: v.qp(e.IBV_QPT_RC), to_rts),
        ("modify_qp uc", lambda: v.qp(e.IBV_QPT_UC), to_rts),
        ("modify_qp ud", lambda: v.qp(e.IBV_QPT_UD), ud_to_rts),
        ("modify_qp raw", v.raw, ud_to_rts),
        ("modify_qp xrc send", v.xrc_send, to_rts),
        ("query", lambda: v.qp(e.IBV_QPT_RC), query),
        ("create_ah", none, lambda _: AH(v.pd, attr=v.path())),
        ("create_wq", none, lambda _: v.wq()),
        ("modify_wq", v.wq, to_ready),
        ("create_qp rss", lambda: v.table(v.wqs), v.rss),
        ("create_rwq_ind_table", v.wq, lambda wq: v.table([wq, wq])),
        ("create_flow", v.raw, v.flow),
        ("alloc_parent_domain", none, lambda _: ParentDomain(
            v.context, ParentDomainInitAttr(pd=v.pd))),
        (COUNTED, lambda: v.qp(e.IBV_QPT_RC), to_rts),
    ]


class VerbSweep:
    """Runs all operations one after the other."""

    def __init__(self, nth, limit):
        self.nth = nth
        self.limit = limit
        self.hit = self.failed = 0

    def failing(self, number, call):
        """Returns the result, if any, and how many allocations are left."""
        self.nth.set(number)
        try:
            return call(), self.nth.left()
        except (PyverbsError, OSError, MemoryError):
            left = self.nth.left()
            if left:
                raise
            self.failed += 1
            return None, left
        finally:
            self.nth.set(0)

    def destroy(self, made, number):
        """Destroys an object under a failure, and again without one if needed."""
        left = self.failing(number, made.close)[1]
        made.close()
        return left

    def close(self, *made):
        for one in made:
            if hasattr(one, "close"):
                one.close()

    def count(self, needs, run):
        """Returns the number of allocations of creating and of destroying the
        object."""
        given = needs()
        made, left = self.failing(NEVER, lambda: run(given))
        makes, destroys = NEVER - left, 0
        if made is not None:
            destroys = NEVER - self.destroy(made, NEVER)
        self.close(given)
        return makes, destroys

    def one(self, name, needs, run):
        self.hit = self.failed = 0
        makes, destroys = self.count(needs, run)
        for number in places(makes, self.limit):
            log(f"{name}: {number} of {makes}")
            given = needs()
            made, left = self.failing(number, lambda: run(given))
            self.hit += left == 0
            self.close(made, given)
        for number in places(destroys, self.limit):
            log(f"{name}, destroyed: {number} of {destroys}")
            given = needs()
            made = run(given)
            self.hit += self.destroy(made, number) == 0
            self.close(given)
        self.count(needs, run)
        tell(name, makes + destroys, self.hit, self.failed)


def sweep_verbs(arguments):
    sweep = VerbSweep(Nth(arguments.linuxs), arguments.limit)
    verbs = Verbs(arguments.device, arguments.gid_index)
    hit = 0
    for name, needs, run in operations(verbs):
        if re.search(arguments.only, name):
            if name == COUNTED:
                check(COUNT.format(verbs.device, "type on"))
            sweep.one(name, needs, run)
            if name == COUNTED:
                check(COUNT.format(verbs.device, "off"))
            hit += sweep.hit
    return hit


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=NEVER)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--at-least", type=int, default=0)
    kinds = parser.add_subparsers(required=True)
    verbs = kinds.add_parser("verbs")
    verbs.set_defaults(run=sweep_verbs)
    verbs.add_argument("--only", default="")
    verbs.add_argument("--linuxs", action="store_true")
    verbs.add_argument("device")
    verbs.add_argument("gid_index", type=int)
    command = kinds.add_parser("command")
    command.set_defaults(run=sweep_command)
    for word in ("undo", "again", "command"):
        command.add_argument(word)
    beside = kinds.add_parser("beside")
    beside.set_defaults(run=sweep_beside)
    beside.add_argument("who", choices=WHO)
    beside.add_argument("command")
    chance = kinds.add_parser("chance")
    chance.set_defaults(run=set_chance)
    chance.add_argument("--seed", type=int, default=1)
    chance.add_argument("permille", type=int)
    kinds.add_parser("failed").set_defaults(run=tell_chance)
    arguments = parser.parse_args()
    if arguments.run not in (set_chance, tell_chance):
        choose_what_fails(arguments.times, getattr(arguments, "who", "writer"))
    if arguments.run(arguments) < arguments.at_least:
        raise SystemExit("too few allocations were failed")
    return 0


if "verbs" in sys.argv:
    import pyverbs.enums as e
    from pyverbs.addr import AH, AHAttr, GlobalRoute
    from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx
    from pyverbs.device import AllocDmAttr, Context, DM
    from pyverbs.flow import Flow, FlowAttr
    from pyverbs.mr import DMMR, DmaBufMR, MR, MW
    from pyverbs.pd import PD, ParentDomain, ParentDomainInitAttr
    from pyverbs.pyverbs_error import PyverbsError
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr, QPInitAttrEx
    from pyverbs.spec import EthSpec
    from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
    from pyverbs.wq import (RwqIndTable, RwqIndTableInitAttr, RxHashConf, WQ,
                            WQAttr, WQInitAttr)
    from pyverbs.wr import SGE
    from pyverbs.xrcd import XRCD, XRCDInitAttr


if __name__ == "__main__":
    sys.exit(main())
