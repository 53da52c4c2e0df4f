# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs written for RDMA cards: libfabric's own tests (fabtests) and UCX's,
as pairs of pairs.py, with the libraries of Debian's packages. ci/programs.py
makes their disk.

fabtests compare data with -v. ucx_perftest does not; ucx_verify
(guest/programs) compares it with the same library.
"""

from concurrent.futures import ThreadPoolExecutor
from errno import ECANCELED

from . import pairs
from .lab import PROGRAMS as IMAGE, mount

FOLDER = "/opt/programs"
# libfabric reads all of it at each start, which takes seconds.
HIDE = """
    grep -q ' /proc/kallsyms ' /proc/mounts ||
    mount --bind /dev/null /proc/kallsyms
    """
LIMIT_S = 55                # time limit of a program
TRIES = 3
REPEATED_MOST = 0.1           # part of all runs; a third of them use ofi_rxm
CM = "cm"
OOB_PORT = 3000
PERFTEST_PORT = 18515
VERIFY_PORT = 18517
FAMILIES = (4, 6)
PASSED, FAILED = "passed", "failed"

# How a program waits for completions: options of fabtests and of UCX's two tools.
SREAD = {"polling": "", "sleeping": " -c sread"}
SLEEP = {"polling": "", "sleeping": " -E sleep"}
VERIFY = {"polling": "", "sleeping": " -s"}


# ---- libfabric ------------------------------------------------------------

# Tests whose sides meet over TCP with any provider, and their TCP ports.
MEET_BY_TCP = {**dict.fromkeys(
    ("fi_av_xfer", "fi_multi_ep", "fi_multi_recv", "fi_rdm_tagged_peek",
     "fi_unexpected_msg"), OOB_PORT), "fi_cm_data": 2710}
# Tests with one side only, and their options.
ALONE = {**dict.fromkeys(
    ("fi_cntr_test", "fi_cq_test", "fi_dom_test", "fi_eq_test", "fi_mr_test"), ""),
    "fi_av_test": " -s {me} -g {peer}"}


class Kind:
    """A provider of libfabric, and how the two sides of its tests meet: by
    rdma_cm, or over TCP if its addresses are those of datagrams."""

    def __init__(self, provider, by_tcp=False):
        self.provider = provider
        self.by_tcp = by_tcp

    def command(self, test, port, family):
        """Returns the command of one side. It names the provider, as the
        search for other providers' cards takes seconds."""
        only = self.provider.replace(";", ",")
        command = (f"env FI_PROVIDER={only} "
                   f"FI_VERBS_GID_IDX={port.gid_index(family)} "
                   f"{FOLDER}/{test} -p \"{self.provider}\"")
        if test.split()[0] in ALONE:
            return command
        if self.by_tcp:
            return f"{command} -E"
        return (f"{command} -F fi_sockaddr_in{'6' * (family == 6)} "
                f"-s {port.ip(family)}")

    def job(self, name, test, server, client, family):
        peer = server.ip4 if self.by_tcp else server.ip(family)
        program = test.split()[0]
        if program in ALONE:
            wants = ALONE[program].format(me=client.ip(family),
                                          peer=server.ip(family))
            return pairs.Job(
                name, f"nc -{family} -N -l {OOB_PORT} </dev/null",
                f"sh -c '{self.command(test, client, family)}{wants} && "
                f"nc -N {server.ip(family)} {OOB_PORT} </dev/null'", OOB_PORT)
        return pairs.Job(name, self.command(test, server, family),
                         f"{self.command(test, client, family)} {peer}",
                         OOB_PORT if self.by_tcp
                         else MEET_BY_TCP.get(program, CM))


VERBS = Kind("verbs")
RXM = Kind("verbs;ofi_rxm")
RXD = Kind("verbs;ofi_rxd", by_tcp=True)

SIZES = "-S l:1,4096,65536 -I 10"
CHECKED = f"{SIZES} -v"
ATOMICS = "-o all -z uint64 -I 5 -v -S 1024"
# Tests of each provider and their other arguments. These wait in both ways. Data of
# a write or read is not compared over verbs, which does not report its delivery.
BOTH_WAYS = {
    "verbs": (VERBS, {
        "fi_msg_pingpong": CHECKED,
        "fi_msg_bw": CHECKED,
        "fi_rma_pingpong -o writedata": f"-e msg {CHECKED}",
        "fi_rma_bw -o writedata": f"-e msg {CHECKED}",
        "fi_rma_bw -o write": f"-e msg {SIZES}",
        "fi_rma_bw -o read": f"-e msg {SIZES}"}),
    "verbs;ofi_rxm": (RXM, {
        "fi_rdm_pingpong": CHECKED,
        "fi_rdm_tagged_pingpong": CHECKED,
        "fi_rdm_tagged_bw": CHECKED,
        "fi_rma_pingpong -o write": f"-e rdm {CHECKED}",
        "fi_rma_bw -o write": f"-e rdm {CHECKED}",
        "fi_rma_bw -o read": f"-e rdm {CHECKED}",
        "fi_rma_bw -o writedata": f"-e rdm {CHECKED}",
        "fi_rdm_cntr_pingpong": SIZES,
        "fi_rdm_atomic": ATOMICS}),
}
# The sends of a second wait for their receives.
FLOOD = "-v -T 1 -S 4096 -I 50"
# Tests of domains, queues and counters, which move no data, and tests of both
# providers of reliable datagrams.
UNIT = {"fi_dom_test": "-n 2",
        "fi_eq_test": "",
        "fi_cq_test": "-L 50",
        "fi_mr_test": "",
        "fi_cntr_test": ""}
RDM = {"fi_multi_ep": "-e rdm -v -S 1024",
       "fi_multi_recv": "-e rdm -I 5 -v -S 4096",
       "fi_unexpected_msg": "-e rdm -I 10 -v -S 1024",
       "fi_rdm_tagged_peek": "",
       "fi_rdm": "",
       "fi_rdm -U": "",
       "fi_av_xfer": "-e rdm",
       "fi_flood -e rdm": FLOOD}
# Tests that poll or wait in their own way. ofi_rxd, which uses datagrams of verbs, has
# no other tests.
ONE_WAY = {
    "verbs": (VERBS, {
        "fi_cq_data -o senddata": "-e msg",
        "fi_cq_data -o writedata": "-e msg",
        "fi_multi_ep": "-e msg -v -S 1024",
        "fi_shared_ctx": "-e msg --no-tx-shared-ctx",
        "fi_msg": "",
        "fi_msg_epoll": "",
        "fi_cm_data": "",
        "fi_flood -e msg": FLOOD,
        **UNIT}),
    "verbs;ofi_rxm": (RXM, {
        "fi_cq_data -o senddata": "-e rdm",
        "fi_cq_data -o writedata": "-e rdm",
        "fi_av_test": "-e rdm -n 1",
        **RDM,
        **UNIT}),
    "verbs;ofi_rxd": (RXD, {
        "fi_rdm_pingpong": CHECKED,
        "fi_rdm_tagged_pingpong": CHECKED,
        "fi_rdm_tagged_bw": CHECKED,
        "fi_rma_bw -o write": f"-e rdm {CHECKED}",
        "fi_rma_bw -o read": f"-e rdm {CHECKED}",
        "fi_rdm_atomic": ATOMICS,
        "fi_rdm_rma_event": "",
        "fi_rdm_multi_client": "-C 10 -I 5",
        **RDM,
        **UNIT}),
}
FABTESTS = {
    **{f"{provider}, {wait}: {test}": (kind, f"{test} {rest}{how}")
       for provider, (kind, tests) in BOTH_WAYS.items()
       for test, rest in tests.items() for wait, how in SREAD.items()},
    **{f"{provider}: {test}": (kind, f"{test} {rest}")
       for provider, (kind, tests) in ONE_WAY.items()
       for test, rest in tests.items()},
}


# ---- UCX ------------------------------------------------------------------

def ucx_job(name, test, server, client, family):
    """TEST is a transport, the command of both sides, and where it listens.
    The client names the server. UCX takes seconds to look for ROCm, and
    ucx_perftest for MPI unless it has a terminal."""
    transport, command, listen = test
    sides = [f"env UCX_TLS={transport},self UCX_LOG_LEVEL=warn "
             f"UCX_MODULES=^rocm UCX_NET_DEVICES={port.ibdev}:1 "
             f"UCX_IB_GID_INDEX={port.gid_index(family)} {command}"
             for port in (server, client)]
    sides[1] += f" {server.ip4}"
    return pairs.Job(name, *(f"{side} </dev/ptmx" for side in sides), listen)


# Tests of one run of ucx_perftest, and their options. The target of one-sided access
# gets no completion. It waits until its memory changes, so it must not sleep.
TWO_SIDED = {"tag_lat": "-t tag_lat -s 64",
             "tag_bw": "-t tag_bw -s 65536",
             "am_lat": "-t ucp_am_lat -s 1000",
             "stream_bw": "-t stream_bw -s 8192"}
ONE_SIDED = {"put_bw": "-t ucp_put_bw -s 65536",
             "get": "-t ucp_get -s 65536",
             "fadd": "-t ucp_fadd -s 8",
             "cswap": "-t ucp_cswap -s 8"}
PERFTEST = {"polling": {**TWO_SIDED, **ONE_SIDED}, "sleeping": TWO_SIDED}
PERFTEST_ROUNDS = "-n 50 -w 5"
PERFTEST_FILE = "/tmp/ucx."
# UCX 1.18 uses a strong fence by default. It flushes by a key that UCX creates only
# for mlx5, and fails with any other card (ucp_worker_fence_strong).
FENCE = "UCX_FENCE_MODE=weak"

UCX = {}
for _transport in ("rc", "ud"):
    for _wait in SLEEP:
        _name = f"UCX {_transport}, {_wait}"
        UCX[f"{_name}: data compared"] = (
            _transport, f"{FOLDER}/ucx_verify{VERIFY[_wait]}", VERIFY_PORT)
        UCX[f"{_name}: ucx_perftest"] = (
            _transport, f"env {FENCE} ucx_perftest -p {PERFTEST_PORT} "
            f"-b {PERFTEST_FILE}{_wait}{SLEEP[_wait]}", PERFTEST_PORT)
PROGRAMS = {**FABTESTS, **UCX}


# ---- all of them ----------------------------------------------------------

def title(name, family):
    return f"{name}, IPv{family}"


# With rdma_cm these ignore IPv6: fi_rma_* read the address format before the command
# line, and fi_rdm_atomic never reads it.
IPV4_ONLY = ("fi_rma_", "fi_rdm_atomic")
# make test runs all combinations of OFTEN and none of SELDOM, which resemble others or
# are often repeated (lost_its_last). It runs one address family of the rest for each
# way to wait.
OFTEN = ("fi_msg_pingpong", "fi_rdm_pingpong", "data compared")
SELDOM = ("fi_msg_bw", "fi_rdm_tagged_bw", "fi_rma_pingpong", "senddata",
          "fi_multi_recv", "fi_cq_test", "fi_mr_test", "fi_dom_test", "fi_eq_test",
          "fi_cntr_test", "fi_rdm -U", "ofi_rxm, sleeping")


def has(name, words):
    return any(word in name for word in words)


def families(name):
    return (4,) if "rxd" not in name and has(name, IPV4_ONLY) else FAMILIES


def is_quick(name, family):
    return has(name, OFTEN) or not has(name, SELDOM) and (
        family == families(name)[-1 if "sleeping" in name else 0])


ALL = [(name, family) for name in PROGRAMS for family in families(name)]
QUICK = [one for one in ALL if is_quick(*one)]


def job(name, family, server, client):
    if name in UCX:
        found = ucx_job(title(name, family), UCX[name], server, client, family)
    else:
        kind, test = FABTESTS[name]
        found = kind.job(title(name, family), test, server, client, family)
    limit = LIMIT_S * server.guest.vm.patience
    found.server = f"timeout {limit} {found.server}"
    found.client = f"timeout {limit} {found.client}"
    return found


# ibv_wc_status_str() of IBV_WC_WR_FLUSH_ERR, as fabtests print it.
FLUSHED = "(Work Request Flushed Error)"


def lost_its_last(name, pair):
    """Returns whether libfabric lost the last completion of one side. When the
    peer is done, libfabric 2.1.0 destroys the QP before it polls its
    completions (vrb_ep_close), which the card then discards. A receiver hangs,
    as in one of 30 runs; a sender gets a flush, as in one of some hundred."""
    ends = {pair.server.code, pair.client.code}
    flushed = FLUSHED in f"{pair.server}{pair.client}"
    return "ofi_rxm" in name and (ends == {0, pairs.TIMED_OUT} or
                                  ends == {0, ECANCELED} and flushed)


def run_part(server, client, wanted):
    """Runs a few at a time, to keep a command short."""
    found = {}
    for begin in range(0, len(wanted), 10):
        part = wanted[begin:begin + 10]
        for again in range(TRIES):
            made = pairs.run(server, client, part, 60 + 2 * LIMIT_S * len(part))
            for pair in made.values():
                pair.again = again
            found.update(made)
            part = [one for one in part if lost_its_last(one.name,
                                                        found[one.name])]
            if not part:
                break
    return found


def check_repeated(found):
    """Prints which runs were repeated, and how often. They must be few:
    otherwise there is another cause."""
    again = {name: pair.again for name, pair in found.items() if pair.again}
    print(f"repeated: {again}")
    assert sum(again.values()) <= REPEATED_MOST * len(found), again


def run(ports, wanted):
    """Returns a map from title to rdma.Pair for WANTED (name, family). Each
    guest serves half of them, so that one half uses the time in which a
    program of the other starts."""
    assert IMAGE.exists(), f"no {IMAGE.name}: ci/enter.sh ci/programs.py"
    for port in ports:
        mount(port.guest, IMAGE, FOLDER)
        port.guest.check(HIDE)
        for wait, tests in PERFTEST.items():
            port.guest.write(PERFTEST_FILE + wait, "".join(
                f"{name} {options} {PERFTEST_ROUNDS}\n"
                for name, options in tests.items()))
    with ThreadPoolExecutor() as both:
        halves = [both.submit(run_part, *way, [
            job(*one, *way) for one in wanted[half::2]])
            for half, way in enumerate((ports, ports[::-1]))]
    return {text: pair for half in halves for text, pair in half.result().items()}


def passed(name, pair):
    """Returns whether a run passed. UCX may print an error and exit with 0,
    and perftest may continue."""
    if not pair.ok or "UCX" in name and "ERROR" in pair.client.out:
        return False
    wait = "sleeping" if "sleeping" in name else "polling"
    return ("ucx_perftest" not in name or
            pair.client.out.count("Final:") == len(PERFTEST[wait]))


def failures(found):
    return "\n".join(f"--- {name}\nserver: {pair.server}\nclient: {pair.client}"
                     for name, pair in found.items() if not passed(name, pair))


def verdicts(found):
    return {name: PASSED if passed(name, pair) else FAILED
            for name, pair in found.items()}


def table(drivers):
    """Returns a table with a row per program; DRIVERS: name -> verdicts."""
    heads = [f"{driver} IPv{family}" for driver in drivers for family in FAMILIES]
    lines = [f"| program | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in PROGRAMS:
        cells = [verdict.get(title(name, family), "")
                 for verdict in drivers.values() for family in FAMILIES]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
