# SPDX-License-Identifier: GPL-2.0-or-later
"""perftest 25: every tool with every service and every option.

Each combination is accounted for. refusal() and late_refusal() list those that
the tool refuses at the command line or with the device open, and tests check
that it does. CANNOT lists those that fail inside perftest. All others run
between two guests. This version of perftest cannot compare data; rdma_verify
does that.
"""

import itertools
import re
import subprocess
import time

import pytest

from fakernic_test import pairs

TOOLS = [f"ib_{verb}_{kind}" for verb in ("write", "read", "send", "atomic")
         for kind in ("bw", "lat")]
SERVICES = ("RC", "UC", "UD", "XRC")
OPTIONS = {
    "polling": "",
    "events": "-e",
    "rdma_cm": "-R",
    "srq": "--use-srq",
    "inline": "-I 64",
    "lists": "-l 4",
    "moderation": "-Q 4",
    "immediate": "--write_with_imm",
    "64_qps": "-q 64",
    "hugepages": "--use_hugepages",
    "odp": "--odp",
}


def refusal(tool, service, option):
    """Returns perftest's message for a combination that it refuses, or None."""
    _, verb, kind = tool.split("_")
    one_sided = verb in ("read", "atomic")
    if service == "UD" and verb != "send":
        return "UD connection only possible in SEND verb"
    if service == "UC" and one_sided:
        return "UC connection not possible in READ/ATOMIC verbs"
    rules = {
        "events": (verb == "write", "Events feature not available on WRITE"),
        "rdma_cm": (service in ("UC", "XRC"),
                    "UC is not supported in librdmacm" if service == "UC" else
                    "XRC does not support RDMA_CM"),
        "srq": (verb != "send", "Using SRQ only avavilible in SEND tests"),
        "inline": (one_sided, "Inline feature not available on READ/Atomic"),
        "immediate": (verb != "write", "Write_with_imm can only be used with "
                      "write_lat and write_bw tests"),
        "lists": (kind == "lat", "Post list is supported in BW tests only"),
        "64_qps": (kind == "lat", "Multiple QPs only available on bw tests"),
    }
    wrong, words = rules.get(option, (False, ""))
    return words if wrong else None


def late_refusal(service, option):
    """Returns perftest's message if it refuses after it knows the limits of
    the device, or None."""
    if (service, option) == ("UC", "odp"):
        return "ODP is not available on UC transport"
    return None


# Combinations that fail inside perftest. It does not check whether UD receives may be
# paged, and the device reports that they may not. UD has no RNR NAK, so the device
# drops the datagrams, and the server waits for them.
CANNOT = {("UD", "odp"): "ud_odp_caps"}

# With -R the client may connect before the server listens. perftest then crashes in its
# second try, with any device. Such a pair is repeated for this many seconds. These
# are the two messages for an unknown service ID: reason 8 of a REJ (IBTA 12.6.7.2),
# status 1 of UD's SIDR_REP (IBTA 12.11).
RACE = re.compile(r"RDMA_CM_EVENT_(REJECTED; error: 8|UNREACHABLE; error: 1)\.")
PATIENCE_S = 120


def combinations(tool):
    """Returns the (service, option) pairs that the command line of a tool
    takes."""
    return [row for row in itertools.product(SERVICES, OPTIONS)
            if not refusal(tool, *row)]


def running(tool, service):
    """Returns the pairs of one service that run to their end."""
    return [row for row in combinations(tool) if row[0] == service and
            row not in CANNOT and not late_refusal(*row)]


PAIRS = [(tool, service) for tool in TOOLS for service in SERVICES
         if running(tool, service)]


def test_number_of_combinations():
    """The number of combinations that run, of 8 tools x 4 services x 11
    options, is known."""
    assert sum(len(combinations(tool)) for tool in TOOLS) == 164
    assert sum(len(running(*pair)) for pair in PAIRS) == 158


@pytest.mark.parametrize("tool", TOOLS)
def test_refusals_before_device_lookup(tool):
    """perftest refuses these combinations before it looks for a device, so no
    guest is needed."""
    for service, option in itertools.product(SERVICES, OPTIONS):
        wanted = refusal(tool, service, option)
        if not wanted:
            continue
        result = subprocess.run(
            [tool, "-F", "-c", service, *OPTIONS[option].split(), "-d",
             "nothere", "localhost"], capture_output=True, text=True,
            timeout=20, check=False)
        assert result.returncode != 0
        assert wanted in result.stdout + result.stderr, (service, option)


def is_shared(tool, service):
    """Returns whether receives use an SRQ without --use-srq; XRC always does."""
    return "send" in tool and service == "XRC"


def iterations(tool, service, option):
    """Iterations for each QP. perftest wants one SRQ receive for each QP, but
    makes the SRQ no deeper than this."""
    if option == "64_qps":
        return 64 if is_shared(tool, service) else 5
    return 20


def size(service, option):
    """Message size. For an SRQ perftest makes receives longer than this,
    multiples of the MTU, and some of them end behind its memory region."""
    if option == "inline":
        return 48
    if option == "64_qps":
        return 256
    return 1000 if service == "UD" else 3000


def command(port, tool, service, option):
    """Returns the command line without the server's address."""
    words = [tool, f"-F -d {port.ibdev} -x {port.gid_index()} -c {service}",
             OPTIONS[option], f"-n {iterations(tool, service, option)}"]
    if "atomic" not in tool:
        words.append(f"-s {size(service, option)}")
    if option == "64_qps":
        # An SRQ has one receive per QP. With more messages in flight most answers
        # would be RNR NAKs.
        words.append("-t 1" if is_shared(tool, service) else "-t 16")
        words.append("-r 128" if "send" in tool else "")
    return " ".join(words)


def trouble(pair, tool, service, option):
    """Returns what is wrong with the outcome of a combination, or None.

    It ignores bandwidth and latency: on a busy machine perftest cannot measure
    its clock and prints inf or 0.
    """
    if not pair.ok:
        return f"{pair.server}\n{pair.client}"
    count = iterations(tool, service, option)
    count *= 64 if option == "64_qps" else 1
    row = re.search(rf"^ *[0-9]+ +{count} ", pair.client.out, re.M)
    return None if row else pair.client


def run(ports, tool, rows):
    """Returns the outcomes of a tool's (service, option) pairs: {row:
    rdma.Pair}."""
    server, client = ports
    names = {" ".join(row): row for row in rows}
    found = pairs.run(server, client, [
        pairs.Job(name, command(server, tool, *row),
                  command(client, tool, *row) + f" {server.ip4}",
                  "cm" if row[1] == "rdma_cm" else 18515)
        for name, row in names.items()])
    return {row: found[name] for name, row in names.items()}


def marked(tool, service):
    """Marks rows as long. Over UC and XRC the latency tools behave like the
    bandwidth tools, and over XRC WRITE behaves like SEND."""
    often = service in ("RC", "UD") or tool in ("ib_write_bw", "ib_send_bw")
    return pytest.param(tool, service, marks=() if often else pytest.mark.long)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("tool, service", itertools.starmap(marked, PAIRS))
def test_perftest(ports, tool, service):
    for port in ports:
        port.guest.check("echo 32 >/proc/sys/vm/nr_hugepages")
    found = {}
    todo = running(tool, service)
    deadline = None
    while todo and (not deadline or time.monotonic() < deadline):
        found |= run(ports, tool, todo)
        todo = [row for row in todo if row[1] == "rdma_cm" and
                RACE.search(found[row].client.out)]
        deadline = deadline or time.monotonic() + PATIENCE_S
    wrong = [f"--- {row}\n{what}" for row, pair in found.items()
             if (what := trouble(pair, tool, *row))]
    assert not wrong, "\n".join(wrong)


def test_refusals_by_server(ports):
    """The server refuses these combinations and ends before there is a client."""
    for tool in TOOLS:
        rows = [row for row in combinations(tool) if late_refusal(*row)]
        for row, pair in (run(ports, tool, rows) if rows else {}).items():
            assert pair.server.code == 1, pair.server
            assert late_refusal(*row) in pair.server.out, pair.server


def test_reason_for_missing_combinations(ports):
    """The device reports that UD sends may be paged and UD receives may not,
    which perftest ignores."""
    reported = ports[0].guest.check("ibv_devinfo -v")
    for caps in set(CANNOT.values()):
        block = re.search(rf"{caps}:\n((?:\t+ +\w+\n)+|(?:\t+\w+\n)+)", reported)
        assert block and block[1].split() == ["SUPPORT_SEND"], reported
