# SPDX-License-Identifier: GPL-2.0-or-later
"""The bundle in foreign systems: each is a root that ci/bundle.py has made.

A command runs there as an ordinary user, in mount and process namespaces of its
own. The system has no /sys and no network, and of /dev the usual six files.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = "/src/ci", "/src/tests/lab"

import bundle  # noqa: E402

USER = 1234
HOME = "/home/a user"           # with a blank
UNPACK_S = 300
README = bundle.SRC / "README.md"
SECTION = re.compile(r"^## Try it in one minute\n(.*?)^## ", re.M | re.S)
ENTER = """set -e
root=$1 home=$2 ro=$3 small=$4
shift 4
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/home/a user"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom kvm; do
    [ -e /dev/$node ] || continue
    : >"$root/dev/$node"
    mount --bind /dev/$node "$root/dev/$node"
done
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs -o mode=1777$small tmp "$root/tmp"
mount --bind "$home" "$root/home/a user"
if [ "$ro" ]; then
    mount -o remount,bind,ro "$root/home/a user"
    mount -o remount,bind,ro "$root"
fi
exec chroot --userspec=1234:1234 --groups= "$root" "$@"
"""


def commands():
    """The commands of README.md's first section."""
    section = SECTION.search(README.read_text("utf-8"))[1]
    return [line[6:].partition("  #")[0].strip() for line in section.splitlines()
            if line.startswith("    $ ")]


def pytest_addoption(parser):
    parser.addoption("--roots", default="bookworm", metavar="SUITE[,SUITE]",
                     help=f"foreign systems: {', '.join(bundle.ROOTS)}")


def pytest_generate_tests(metafunc):
    if "system" in metafunc.fixturenames:
        metafunc.parametrize("system", metafunc.config.getoption("roots").split(","),
                             indirect=True, scope="session")


class System:
    """A foreign system with a home folder for the bundle."""

    def __init__(self, name, home):
        self.name, self.home = name, home
        self.root = bundle.root_folder(name)

    def run(self, script, timeout=120, read_only=False, tmp_size="", **environment):
        """Run a shell script as USER in HOME; its result with .seconds."""
        known = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": HOME, **environment}
        start = time.monotonic()
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork",
             "--kill-child", "sh", "-c", ENTER, "enter", self.root, self.home,
             "ro" if read_only else "", tmp_size and f",size={tmp_size}",
             "/usr/bin/env", "-i", *(f"{key}={value}" for key, value in known.items()),
             "/bin/sh", "-c", f"cd {shlex.quote(HOME)} && {script}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False)
        done.seconds = time.monotonic() - start
        return done


@pytest.fixture(name="archive", scope="session")
def archive_of_the_bundle():
    path = bundle.OUT / f"{bundle.name()}.tar.xz"
    assert path.exists(), "run 'make bundle'"
    return path


@pytest.fixture(name="system", scope="session")
def foreign_system(request, archive):
    """A system in which the user has unpacked the bundle."""
    home = bundle.BUILD / f"bundle-home-{request.param}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    os.chown(home, USER, USER)
    found = System(request.param, home)
    assert found.root.exists(), f"run 'ci/enter.sh ci/build.py bundle-root-{found.name}'"
    shutil.copy(archive, home)
    found.unpacked = found.run(commands()[0], UNPACK_S)
    (home / archive.name).unlink()
    found.top = f"./{bundle.name()}"
    yield found
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(name="top", scope="session")
def folder_of_the_bundle(system):
    assert system.unpacked.returncode == 0, system.unpacked
    return Path(system.top)
