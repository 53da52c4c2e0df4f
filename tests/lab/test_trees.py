# SPDX-License-Identifier: GPL-2.0-or-later
"""--root with trees of several Debians, and with one without libibverbs. The step
"trees" of ci/build.py makes the trees.
"""

import os
import re
import tempfile
from pathlib import Path

import pytest

from command import fakernic_lab
from fakernic_lab import places

TREES = places.cache() / "build/trees"
NOBODY = 65534
CANNOT = 125

# Programs of the tree, its own writable layer, and what the launcher adds.
SERVER = """
set -e
. /etc/os-release && echo "release: $VERSION_CODENAME"
ls /usr/lib/x86_64-linux-gnu/libibverbs/ | grep fakernic
ibv_devinfo -d fakernic0 | grep PORT_ACTIVE
test -e /work/here && test -e /proc/self && test -e /sys/class/infiniband
touch /usr/bin/mine /work/mine 2>&1 || echo "work is read-only"
fakernic-wait written
exec ib_write_lat -F -n 50
"""
CLIENT = """
set -e
fakernic-wait written
test ! -e /usr/bin/mine
ssh node1 ls /usr/bin/mine
ib_write_lat -F -n 50 node1 | tail -2
exit 7
"""


@pytest.fixture
def folder():
    """A folder of an ordinary user."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.mark.parametrize("name, abi", (
    ("bookworm", 34), ("trixie", 34), ("sid", None)))
def test_programs_of_a_tree(folder, name, abi):
    (folder / "here").touch()
    result = fakernic_lab(folder, "run", "--root", TREES / name, "--until", "node2",
                          "--", SERVER, ":", CLIENT, user=NOBODY)
    assert result.returncode == 7, result
    found = re.findall(r"^node1: libfakernic-rdmav(\d+)\.so$", result.stdout, re.M)
    assert found and abi in (None, int(found[0])), result.stdout
    assert "node2: /usr/bin/mine\n" in result.stdout
    assert "node1: work is read-only\n" in result.stdout
    assert name == "sid" or f"node1: release: {name}\n" in result.stdout
    assert not (TREES / name / "usr/bin/mine").exists()
    assert not (TREES / name / "work").exists()
    assert not list(Path(TREES / name).rglob("*fakernic*"))


def test_tree_without_libibverbs(tmp_path):
    result = fakernic_lab(tmp_path, "run", "--root", TREES / "bare", "--", "true")
    assert result.returncode == CANNOT and result.stderr.count("\n") == 1, result
    assert "install the package libibverbs1" in result.stderr
