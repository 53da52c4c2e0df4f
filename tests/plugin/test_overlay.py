# SPDX-License-Identifier: GPL-2.0-or-later
"""overlay.sh adds exactly what its document says. This test uses the parts of QEMU's
source that the script changes; `make test-qemu-versions` checks whole sources."""

import shutil
import subprocess

from conftest import SRC

PARTS = ("VERSION", "meson.build", "hw/net", "include/net", "qapi",
         "tests/qtest")


def parts(source, target):
    for name in PARTS:
        part = target / name
        part.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, part, symlinks=True)
        else:
            shutil.copy(source / name, part)


def checked(tree):
    result = subprocess.run([SRC / "ci/check_overlay.py", tree], check=False,
                            capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout + result.stderr


def test_what_overlay_adds(tmp_path, work):
    parts(work.source, tmp_path)
    assert checked(tmp_path) == (0, "")


def test_patched_tree_is_refused(tmp_path, work):
    """A tree that has the device already is refused, because its changes cannot be seen."""
    parts(work.source, tmp_path)
    (tmp_path / "hw/net/fakernic").mkdir()
    (tmp_path / "hw/net/fakernic/old.c").write_text("")
    assert checked(tmp_path) == (1, f"{tmp_path} has the device already\n")
