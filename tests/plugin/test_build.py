# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that builds the plug-in, fakernic-qemu-rebuild for its users."""

import os
import pty
import re
import subprocess

from conftest import BUILT, SRC

OTHER_QEMU = "/usr/bin/qemu-system-aarch64"     # of the same source package
BUILD_SH = SRC / "qemu-hw/plugin/build.sh"

SLOW = '#!/bin/sh\nsleep 2\nexec /usr/bin/make "$@"\n'


def test_build_shows_progress(tmp_path):
    """Each step has a line, which shows progress on a terminal."""
    slow = tmp_path / "bin/make"
    slow.parent.mkdir()
    slow.write_text(SLOW)
    slow.chmod(0o755)
    ours, theirs = pty.openpty()
    subprocess.run(
        [BUILD_SH, "--source", "/opt/sources/qemu",
         "--work", BUILT / "work", tmp_path / "out"], check=True, timeout=200,
        stdin=subprocess.DEVNULL, stdout=theirs,
        env={**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"})
    said = os.read(ours, 1 << 16).decode()
    os.close(theirs)
    os.close(ours)
    assert re.search(r"\r  compiling the device +1s so far", said), said
    assert re.search(r"\r\x1b\[K  compiling the device +\d+s\r\n", said), said


def test_two_qemus_of_a_package_share_the_work_folder(tmp_path):
    """Each plug-in names the QEMU that it was built for: QEMU loads both."""
    for qemu in (OTHER_QEMU, "/usr/bin/qemu-system-x86_64"):
        loader = tmp_path / "fakernic-qemu.so"
        subprocess.run(
            [BUILD_SH, "--qemu", qemu, "--source", "/opt/sources/qemu",
             "--work", BUILT / "work", tmp_path / "qemu"], check=True,
            timeout=200, env={**os.environ, "FAKERNIC_PLUGIN_LOADER": str(loader)})
        listing = subprocess.run(
            [qemu, "-device", "help"], check=True, capture_output=True, text=True,
            timeout=60, env={**os.environ, "LD_PRELOAD": str(loader)})
        assert 'name "fakernic"' in listing.stdout, qemu
