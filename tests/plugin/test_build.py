# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that builds the plug-in, fakernic-qemu-rebuild for its users."""

import os
import pty
import re
import subprocess

from conftest import BUILT, SRC

SLOW = '#!/bin/sh\nsleep 2\nexec /usr/bin/make "$@"\n'


def test_building_it_is_not_silent(tmp_path):
    """Each step has a line, which shows progress on a terminal."""
    slow = tmp_path / "bin/make"
    slow.parent.mkdir()
    slow.write_text(SLOW)
    slow.chmod(0o755)
    ours, theirs = pty.openpty()
    subprocess.run(
        [SRC / "qemu-hw/plugin/build.sh", "--source", "/opt/sources/qemu",
         "--work", BUILT / "work", tmp_path / "out"], check=True, timeout=200,
        stdin=subprocess.DEVNULL, stdout=theirs,
        env={**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"})
    said = os.read(ours, 1 << 16).decode()
    os.close(theirs)
    os.close(ours)
    assert re.search(r"\r  compiling the device +1s so far", said), said
    assert re.search(r"\r\x1b\[K  compiling the device +\d+s\r\n", said), said
