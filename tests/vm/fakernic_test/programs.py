# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs written for cards: libfabric's own tests (fabtests) and UCX's, as
pairs of pairs.py, with the libraries of Debian's packages. ci/programs.py makes
the disk they are on.

fabtests compare what arrives where they are told to (-v). ucx_perftest does
not: ucx_verify (guest/programs) does, over the same library.
"""

from concurrent.futures import ThreadPoolExecutor

from . import pairs
from .lab import PROGRAMS as IMAGE, mount

FOLDER = "/opt/programs"
# libfabric looks through all of it whenever it starts, for seconds.
HIDE = """
    grep -q ' /proc/kallsyms ' /proc/mounts ||
    mount --bind /dev/null /proc/kallsyms
    """
LIMIT_S = 55                # of a program
TRIES = 3
CM = "cm"
OOB_PORT = 3000
PERFTEST_PORT = 18515
VERIFY_PORT = 18517
FAMILIES = (4, 6)
PASSED, FAILED = "passed", "failed"

# How a program waits for completions: an option of fabtests, and of UCX's two.
SREAD = {"polling": "", "sleeping": " -c sread"}
SLEEP = {"polling": "", "sleeping": " -E sleep"}
VERIFY = {"polling": "", "sleeping": " -s"}


# ---- libfabric ------------------------------------------------------------

class Kind:
    """A provider of libfabric, and how the two sides of its tests meet: by
    rdma_cm, or where addresses are those of datagrams, over TCP."""

    def __init__(self, provider, by_tcp=False):
        self.provider = provider
        self.by_tcp = by_tcp

    def command(self, test, port, family):
        """Of one side. Looking for other providers' cards takes seconds."""
        only = self.provider.replace(";", ",")
        command = (f"env FI_PROVIDER={only} "
                   f"FI_VERBS_GID_IDX={port.gid_index(family)} "
                   f"{FOLDER}/{test} -p '{self.provider}'")
        if self.by_tcp:
            return f"{command} -E"
        return (f"{command} -F fi_sockaddr_in{'6' * (family == 6)} "
                f"-s {port.ip(family)}")

    def job(self, name, test, server, client, family):
        peer = server.ip4 if self.by_tcp else server.ip(family)
        return pairs.Job(name, self.command(test, server, family),
                         f"{self.command(test, client, family)} {peer}",
                         OOB_PORT if self.by_tcp else CM)


VERBS = Kind("verbs")
RXM = Kind("verbs;ofi_rxm")
RXD = Kind("verbs;ofi_rxd", by_tcp=True)

SIZES = "-S l:1,4096,65536 -I 10 -v"
# ofi_rxd is what uses the datagrams of verbs; it has no way to sleep.
FABTESTS = {
    **{f"verbs, {wait}": (VERBS, f"fi_msg_pingpong {SIZES}{how}")
       for wait, how in SREAD.items()},
    **{f"verbs;ofi_rxm, {wait}": (RXM, f"fi_rdm_pingpong {SIZES}{how}")
       for wait, how in SREAD.items()},
    "verbs;ofi_rxd, polling": (RXD, f"fi_rdm_pingpong {SIZES}"),
}


# ---- UCX ------------------------------------------------------------------

def ucx_job(name, test, server, client, family):
    """TEST is a transport, the command of both sides, and where it listens;
    the client names the server. ROCm, which Debian's UCX looks for, takes
    seconds to say that there is none; and so does MPI, with which ucx_perftest
    begins unless it finds a terminal."""
    transport, command, listen = test
    sides = [f"env UCX_TLS={transport},self UCX_LOG_LEVEL=warn "
             f"UCX_MODULES=^rocm UCX_NET_DEVICES={port.ibdev}:1 "
             f"UCX_IB_GID_INDEX={port.gid_index(family)} {command}"
             for port in (server, client)]
    sides[1] += f" {server.ip4}"
    return pairs.Job(name, *(f"{side} </dev/ptmx" for side in sides), listen)


UCX = {}
for _transport in ("rc", "ud"):
    for _wait in SLEEP:
        _name = f"UCX {_transport}, {_wait}"
        UCX[f"{_name}: data compared"] = (
            _transport, f"{FOLDER}/ucx_verify{VERIFY[_wait]}", VERIFY_PORT)
        UCX[f"{_name}: tag_lat"] = (
            _transport, f"ucx_perftest -p {PERFTEST_PORT} -t tag_lat -s 64 -n 50 "
            f"-w 5 -f{SLEEP[_wait]}", PERFTEST_PORT)
PROGRAMS = {**FABTESTS, **UCX}


# ---- all of them ----------------------------------------------------------

def title(name, family):
    return f"{name}, IPv{family}"


# Each family and each way to wait, but not all combinations.
QUICK = [(name, family) for name in PROGRAMS for family in FAMILIES
         if "rxd" in name or (family == 4) == ("polling" in name)]
ALL = [(name, family) for name in PROGRAMS for family in FAMILIES]


def job(name, family, server, client):
    if name in UCX:
        found = ucx_job(title(name, family), UCX[name], server, client, family)
    else:
        kind, test = FABTESTS[name]
        found = kind.job(title(name, family), test, server, client, family)
    found.server = f"timeout {LIMIT_S} {found.server}"
    found.client = f"timeout {LIMIT_S} {found.client}"
    return found


def left_waiting(name, pair):
    """Whether libfabric lost its own last message: when its peer is done, it
    destroys the QP before it reads what came by it (vrb_ep_close of 2.1.0), of
    which a card keeps nothing, and waits for ever. One of 30 runs does."""
    return "ofi_rxm" in name and (pair.server.code, pair.client.code) in (
        (0, pairs.TIMED_OUT), (pairs.TIMED_OUT, 0))


def run_part(server, client, wanted):
    """A few at a time, that a command stays short."""
    found = {}
    for begin in range(0, len(wanted), 10):
        part = wanted[begin:begin + 10]
        for _ in range(TRIES):
            found.update(pairs.run(server, client, part,
                                   60 + 2 * LIMIT_S * len(part)))
            part = [one for one in part if left_waiting(one.name,
                                                        found[one.name])]
            if not part:
                break
    return found


def run(ports, wanted):
    """Title -> rdma.Pair, of WANTED (name, family). Each guest serves half of
    them, so that while a program starts here its peer's neighbour starts there."""
    assert IMAGE.exists(), f"no {IMAGE.name}: ci/enter.sh ci/programs.py"
    for port in ports:
        mount(port.guest, IMAGE, FOLDER)
        port.guest.check(HIDE)
    with ThreadPoolExecutor() as both:
        halves = [both.submit(run_part, *way, [
            job(*one, *way) for one in wanted[half::2]])
            for half, way in enumerate((ports, ports[::-1]))]
    return {text: pair for half in halves for text, pair in half.result().items()}


def failures(found):
    return "\n".join(f"--- {name}\nserver: {pair.server}\nclient: {pair.client}"
                     for name, pair in found.items() if not pair.ok)


def verdicts(found):
    return {name: PASSED if pair.ok else FAILED for name, pair in found.items()}


def table(drivers):
    """A row per program; DRIVERS: name -> verdicts."""
    heads = [f"{driver} IPv{family}" for driver in drivers for family in FAMILIES]
    lines = [f"| program | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in PROGRAMS:
        cells = [told.get(title(name, family), "")
                 for told in drivers.values() for family in FAMILIES]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
