# SPDX-License-Identifier: GPL-2.0-or-later
"""The fixture "lab" for pytest: machines with RDMA, booted once and shared by
the tests that want the same.

    @pytest.mark.lab(count=3, mtu=9000)     # arguments of Lab; count is 2 by default
    def test_mine(lab):
        server = lab.node1.start("./server_test")
        lab.node2.check("./client_test node1")
        assert server.wait().ok

A complaint of a machine's kernel fails the test during which it came. After a failed
test the machines are not used again. Options: --lab-image,
--lab-kernel, --lab-initrd, --lab-append, --lab-root, --lab-qemu, --lab-boot, --lab-out.
"""

import os
from contextlib import ExitStack

import pytest

from . import faults, images
from .errors import LabError
from .lab import OUT, WORK, Lab, parse_mount
from .machine import Mount
from .outputs import printable


def pytest_addoption(parser):
    group = parser.getgroup("fakernic-lab", "machines with RDMA")
    group.addoption("--lab-image", metavar="FILE", help="a disk to boot "
                    "(default: the project's own guest)")
    group.addoption("--lab-kernel", metavar="KERNEL", help="one of "
                    f"{', '.join(images.KERNELS)}; with --lab-image the file of "
                    "a kernel to boot instead of the image's")
    group.addoption("--lab-initrd", metavar="FILE", help="with such a kernel")
    group.addoption("--lab-append", metavar="WORDS", default="",
                    help="words for the kernel's command line")
    group.addoption("--lab-root", metavar="DIR", help="a distribution's tree, "
                    "in which the commands run")
    group.addoption("--lab-qemu", metavar="FILE", help="the QEMU to run")
    group.addoption("--lab-boot", action="store_true", help="boot the machines; without "
                    "it they start from a snapshot if they can")
    group.addoption("--lab-out", metavar="FOLDER", default=OUT,
                    help=f"where consoles and logs go (default: {OUT})")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "lab(count, mtu, wire_rules, mounts, ...): the machines of a "
        "test; arguments as fakernic_lab.lab.Lab takes them")


class Keeper:
    """Keeps the lab that is up, for the next tests."""

    def __init__(self, config):
        self.config = config
        self.wanted = None
        self.lab = None

    def get(self, **wanted):
        """A Lab with these arguments: the one that is up, if its arguments are the same."""
        if self.lab and wanted == self.wanted and not self.lab.spoilt:
            return self.lab
        self.stop()
        lab = Lab(**self.arguments(wanted))
        try:
            lab.start()
        except BaseException:
            lab.stop()
            raise
        self.lab, self.wanted = lab, wanted
        return lab

    def arguments(self, wanted):
        """The arguments of Lab, from the mark, the options and the defaults."""
        mounts = [parse_mount(text) for text in wanted.get("mounts", ())]
        if WORK not in (mount.target for mount in mounts):
            mounts.insert(0, Mount(os.getcwd(), WORK, implied=True))
        option = self.config.getoption
        defaults = {"out": option("lab_out"), "qemu": option("lab_qemu"),
                    "root": option("lab_root"), "boot": option("lab_boot"),
                    "say": self.say}
        if "image" not in wanted:
            defaults["image"] = images.chosen(
                option("lab_image"), option("lab_kernel"), option("lab_initrd"),
                option("lab_append"))
        return {**defaults, **wanted, "mounts": mounts}

    def say(self, text):
        """Prints a line between the progress lines of pytest."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter:
            reporter.ensure_newline()
            reporter.write_line(f"fakernic-lab: {printable(text)}")

    def stop(self):
        lab, self.lab = self.lab, None
        if lab:
            try:
                lab.collect()
            finally:
                lab.stop()


@pytest.fixture(scope="session")
def lab_keeper(request):
    keeper = Keeper(request.config)
    yield keeper
    keeper.stop()


@pytest.fixture
def lab(lab_keeper, request):
    """The machines of the test. They are checked for complaints before and after it."""
    mark = request.node.get_closest_marker("lab")
    try:
        found = lab_keeper.get(**{name: value for name, value in (
            mark.kwargs if mark else {}).items() if name != "expect"})
    except LabError as error:
        pytest.fail(f"fakernic-lab: {error}", pytrace=False)
    found.judge()
    found.expect(mark.kwargs.get("expect", ()) if mark else ())
    yield found
    try:
        found.judge()
    except BaseException:
        lab_keeper.stop()
        raise
    missed = found.traces_missed()
    found.expect(())
    if missed:
        pytest.fail(f"an expected kernel trace did not come: {missed[0]}",
                    pytrace=False)


@pytest.fixture
def fault(lab):
    """fault(node, rule) sets a fault rule in a device until the test ends. The test fails
    if the rule is not hit."""
    with ExitStack() as stack:
        yield lambda node, *rules: stack.enter_context(
            faults.armed(node.vm, *rules))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """After a failure the machines are in an unknown state."""
    outcome = yield
    lab_of = item.funcargs.get("lab") if hasattr(item, "funcargs") else None
    if call.when == "call" and outcome.get_result().failed and (
            isinstance(lab_of, Lab)):
        lab_of.spoilt = True
