# SPDX-License-Identifier: GPL-2.0-or-later
"""Each kernel has the modules that tests load, also a kernel that was compiled
for tests (ci/debug-kernel.config)."""

import re
from pathlib import Path

# The words after the command, except parameters; and modules named elsewhere.
LOADED = re.compile(r"\bmodprobe((?: -\w+)*(?: +(?!\w+=)[a-z\d][\w-]*)+)")
LISTED = re.compile(r"\bmodules = \(([^)]*)\)")


def loaded():
    """Returns the names of all modules in the text of the tests."""
    folder = Path(__file__).parent
    names = set()
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for words in LOADED.findall(text):
            names |= {word for word in words.split() if word[0] != "-"}
        for words in LISTED.findall(text):
            names |= set(re.findall(r"\w+", words))
    return names


def test_modules_are_there(vms):
    names = loaded()
    assert {"fakernic", "8021q", "rds_rdma", "nvmet-rdma", "brd", "rdma_ucm",
            "virtio-iommu"} <= names, names
    missing = vms[0].guest.check(f"""
        for name in {' '.join(sorted(names))}; do
            modprobe -nq $name || echo $name
        done""").split()
    assert not missing
