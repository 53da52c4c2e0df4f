# SPDX-License-Identifier: GPL-2.0-or-later
"""perftest 25: every tool with every service and every option.

No combination is missing in silence: for each, refusal() either knows why the
tool itself does not take it, and a test sees the tool say so; or it runs
between two guests. `make test` runs every option over RC, `make test-long` the
other services. Data are not compared: this version of perftest cannot;
rdma_verify does it elsewhere.
"""

import itertools
import re
import subprocess

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
    "64_qps": "-q 64 -t 16",
    "hugepages": "--use_hugepages",
    "odp": "--odp",
}


def refusal(tool, service, option):
    """What perftest says to a combination it does not take, or None."""
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


# With -R the client may ask before its own server listens; the client's second
# try then crashes in perftest, whatever the device. Such a pair starts again.
RACE = "RDMA_CM_EVENT_REJECTED; error: 8."
ROUNDS = 4


def taken(tool):
    """The (service, option) pairs that a tool takes."""
    return [row for row in itertools.product(SERVICES, OPTIONS)
            if not refusal(tool, *row)]


def test_how_many_combinations_run():
    """Of the 8 tools x 4 services x 11 options."""
    assert sum(len(taken(tool)) for tool in TOOLS) == 164


@pytest.mark.parametrize("tool", TOOLS)
def test_what_perftest_refuses(tool):
    """It says so before it looks for a device: no guest is needed."""
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


def iterations(option):
    return 5 if option == "64_qps" else 20


def command(port, tool, service, option):
    """The command line but for the server's address."""
    words = [tool, f"-F -d {port.ibdev} -x {port.gid_index()} -c {service}",
             OPTIONS[option], f"-n {iterations(option)}"]
    if "atomic" not in tool:
        size = 48 if option == "inline" else 1000 if service == "UD" else 3000
        words.append(f"-s {size}")
    if "send" in tool and option == "64_qps":
        words.append("-r 128")
    return " ".join(words)


def trouble(pair, option):
    """What is wrong with the outcome of a combination, or None.

    Bandwidth and latency are not looked at: on a busy machine perftest does not
    find out how fast its clock runs, and prints inf or 0.
    """
    if not (pair.server.ok and pair.client.ok):
        return f"{pair.server}\n{pair.client}"
    count = iterations(option) * (64 if option == "64_qps" else 1)
    row = re.search(rf"^ *[0-9]+ +{count} ", pair.client.out, re.M)
    return None if row else pair.client


def check(ports, tool, rows):
    """Run a tool with these pairs of service and option."""
    server, client = ports
    for port in ports:
        port.guest.check("echo 32 >/proc/sys/vm/nr_hugepages")
    names = {f"{service} {option}": (service, option)
             for service, option in rows}
    found = {}
    todo = list(names)
    for _ in range(ROUNDS):
        found |= pairs.run(server, client, [
            pairs.Job(name, command(server, tool, *names[name]),
                      command(client, tool, *names[name]) + f" {server.ip4}",
                      "cm" if names[name][1] == "rdma_cm" else 18515)
            for name in todo])
        todo = [name for name in todo if names[name][1] == "rdma_cm" and
                RACE in found[name].client.out]
        if not todo:
            break
    wrong = [f"--- {name}\n{what}" for name, pair in found.items()
             if (what := trouble(pair, names[name][1]))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("tool", TOOLS)
def test_perftest(ports, tool):
    check(ports, tool, [row for row in taken(tool) if row[0] == "RC"])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tool", TOOLS)
def test_other_services(ports, tool):
    check(ports, tool, [row for row in taken(tool) if row[0] != "RC"])
