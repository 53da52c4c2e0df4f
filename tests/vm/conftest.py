# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures of the VM tests: booted guests, reused while they are healthy."""

import os
from collections import Counter

import pytest

from fakernic_test import rdma      # first: it sets the path of fakernic_lab
from fakernic_test.lab import Lab, RUNS, WIRES, lost_posts, lost_wakeups
from fakernic_lab.arches import HOST, all_named
from fakernic_lab.cli import spread
from fakernic_lab.images import DEBUG_KERNELS, DEBUG_PATIENCE
from fakernic_lab.versions import MAIN_KERNEL


# The network device behind each RDMA driver.
MODELS = {"fakernic": "fakernic", "rxe": "virtio-net-pci"}

DURATIONS = RUNS / "durations"


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "guests(count, kernel, driver, relay, **properties): what "
        "the test's guests are; two with the main kernel and fakernic without it")
    if config.getoption("--wire"):
        os.environ["FAKERNIC_WIRE"] = config.getoption("--wire")
    config.addinivalue_line(
        "markers", "packaged: run once more in Debian's own QEMU, by the "
        "plug-in: the suite packaged")
    config.addinivalue_line(
        "markers", "long: not part of make test; make test-long runs these")


def pytest_sessionstart(session):
    if not session.config.option.collectonly:
        RUNS.mkdir(parents=True, exist_ok=True)
        DURATIONS.unlink(missing_ok=True)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true",
                     help="run the long tests, and only those")
    parser.addoption("--rounds", type=int, metavar="N", help="how often tests "
                     "that repeat something do so, to try them; without it a "
                     "hundred times and more")
    parser.addoption("--wire", choices=WIRES, help="what joins the guests; "
                     "$FAKERNIC_WIRE, or netdev, without it")
    parser.addoption("--boot", action="store_true", help="boot the guests; without it "
                     "the usual ones start from a snapshot of a booted guest")
    parser.addoption("--kernel", default=MAIN_KERNEL, help="the kernel of tests "
                     "that ask for none")
    parser.addoption("--arch", default=HOST.name, metavar="ARCH[,ARCH]",
                     help="the architecture of guests, or of the first and the "
                     "second; with another than the host's only tests that ask "
                     "for no kernel")
    parser.addoption("--guests", choices=("one", "two", "other"),
                     help="run the tests that want one guest, the usual two, or "
                     "any others")


USUAL = {"count": 2, "kernel": MAIN_KERNEL, "driver": "fakernic"}


def wanted_guests(node):
    """Returns the arguments of the guests mark, with defaults for those left
    out."""
    mark = node.get_closest_marker("guests")
    wanted = dict(USUAL, kernel=node.config.getoption("--kernel"))
    if mark:
        wanted.update(mark.kwargs)
    return wanted


def kind_of_guests(node):
    """Returns the --guests word for the guests that a test wants."""
    wanted = wanted_guests(node)
    if wanted["count"] == 1:
        return "one"
    usual = dict(USUAL, kernel=node.config.getoption("--kernel"))
    return "two" if wanted == usual else "other"


def why_netdev(item):
    """Returns why the guests of a test are joined by netdevs when others have
    the link, or ""."""
    wanted = wanted_guests(item)
    if wanted["driver"] != USUAL["driver"]:
        return "Soft-RoCE does not speak the link"
    if wanted.get("relay"):
        return "a relay between them harms frames"
    return ""


def pytest_report_collectionfinish(items):
    """Reports the tests without the link, by file."""
    if os.environ.get("FAKERNIC_WIRE") != "link":
        return []
    found = Counter((why_netdev(item), item.path.name) for item in items)
    return [f"{count} tests of {name} keep the netdev: {why}"
            for (why, name), count in sorted(found.items()) if why]


def fits_kernel(item, kernel):
    """Returns whether a test runs on a debug kernel: not if it asks for
    another kernel.

    RDS of Linux 6.12 makes a debug kernel complain with any card: about the
    lock order of rds_trans_sem and rdma_cm's handler_mutex, after which it
    checks no more locks, and about headers that are mapped and unmapped in
    different directions. Tests of Soft-RoCE need a fast one. mckey destroys
    its QP before a slow one has sent.
    """
    return (kernel not in DEBUG_KERNELS or
            wanted_guests(item)["kernel"] == kernel and
            not any(words in item.name for words in (
                "[rds", "soft_roce", "[mckey-serving_rxe")))


def fits_arch(item, config):
    """Returns whether a test runs with guests of the wanted architectures: others
    than the host's run no test that asks for another kernel or driver."""
    wanted = wanted_guests(item)
    return arches_of(config) == [HOST] * 2 or (
        wanted["kernel"] == config.getoption("--kernel") and
        wanted["driver"] == "fakernic")


def arches_of(config):
    """Returns the architectures of two guests."""
    return spread(all_named(config.getoption("--arch")), 2, "architectures")


def extend_timeouts(item):
    """Multiplies the time limits of marks on a debug kernel."""
    mark = item.get_closest_marker("timeout")
    if mark:
        item.add_marker(pytest.mark.timeout(mark.args[0] * DEBUG_PATIENCE),
                        append=False)


def pytest_collection_modifyitems(config, items):
    """Orders tests so that those with the same guests are consecutive."""
    guests = config.getoption("--guests")
    items[:] = [item for item in items if config.getoption("--long") ==
                bool(item.get_closest_marker("long")) and
                guests in (None, kind_of_guests(item)) and
                fits_kernel(item, config.getoption("--kernel")) and
                fits_arch(item, config)]
    order = {}
    for item in items:
        if config.getoption("--kernel") in DEBUG_KERNELS:
            extend_timeouts(item)
        key = repr(sorted(wanted_guests(item).items(), key=str))
        item.set_key = order.setdefault(key, len(order))
    items.sort(key=lambda item: item.set_key)


@pytest.fixture(name="rounds")
def rounds_of_a_test(request):
    """Returns a function from a test's usual number of rounds to the wanted
    one. A debug kernel, which is ten times slower, gets a tenth of thousands."""
    slow = request.config.getoption("--kernel") in DEBUG_KERNELS
    return lambda usual: (
        request.config.getoption("--rounds") or
        (usual // 10 if slow and usual >= 1000 else usual))


@pytest.fixture(scope="session")
def lab(request):
    lab = Lab(arches=arches_of(request.config), boots=request.config.getoption("--boot"))
    yield lab
    try:
        lab.judge()
        lab.last_look()
    finally:
        lab.stop()


@pytest.fixture
def power_on(lab):
    """Boots the test's guests for this test, if listed before them: no other
    test has used their cards. The first test of a file gets new guests anyway."""
    lab.afresh()


@pytest.fixture
def vms(lab, request):
    """The booted guests of the test, which are healthy before and after it. So
    are their cards unless the test harms them."""
    wanted = wanted_guests(request.node)
    driver = wanted.pop("driver")
    models = (MODELS[driver] if isinstance(driver, str) else
              tuple(MODELS[name] for name in driver))
    vms = lab.get(model=models, **wanted)
    start = [vm.console.size() for vm in vms]
    for vm in vms:
        vm.begins()
    yield vms
    try:
        for vm in vms:
            vm.assert_healthy()
            assert not lost_wakeups(vm), f"lost wake-ups on the link of {vm.name}"
            assert not lost_posts(vm), f"posts without a doorbell at {vm.name}"
        for vm in vms if lab.current else ():       # otherwise the test has failed
            vm.ends(request.node.name)
        if lab.worn or not all(vm.console.locks_are_watched() for vm in vms):
            lab.afresh()
    except BaseException:
        for vm, begin in zip(vms, start):
            print(f"--- console of {vm.name} during this test\n"
                  f"{vm.console.text(begin)[-4000:]}")
        lab.stop()
        raise


@pytest.fixture
def ports(lab, vms, request):
    """The guests' RDMA ports, up and with addresses, at the default MTU."""
    driver = wanted_guests(request.node)["driver"]
    if getattr(lab, "ports_of", None) != lab.serial:
        lab.ports = rdma.bring_up_all(vms, driver)
        lab.ports_of = lab.serial
    return lab.ports


def pytest_runtest_logreport(report):
    """Records how long each part of a test took, as it ends."""
    with open(DURATIONS, "a", encoding="utf-8") as file:
        file.write(f"{report.duration:.1f}\t{report.when}\t{report.nodeid}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Boots new guests after a failure, as their state is unknown."""
    outcome = yield
    if call.when == "call" and outcome.get_result().failed:
        lab = item.funcargs.get("lab")
        if lab:
            lab.current = None
