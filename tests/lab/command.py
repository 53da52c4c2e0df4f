# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the command fakernic-lab as its users do, for the tests."""

import os
import subprocess
from pathlib import Path

from fakernic_lab import places

COMMAND = str(Path(__file__).parent / "fakernic-lab")


def environment(folder, **more):
    """The environment of the command. Machines that stay belong to FOLDER."""
    return {**os.environ, "FAKERNIC_LAB_STATE": f"{folder}/state", **more}


def snapshots_of(user):
    """The variable that names a folder for the snapshots of another user than this. All
    tests share it: without it each run of such a user would boot."""
    folder = places.cache() / f"snapshots-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, user, user)
    return {"FAKERNIC_LAB_SNAPSHOTS": str(folder)}


def fakernic_lab(folder, *words, timeout=240, user=None, **more):
    """Runs the command. Returns its exit code and output."""
    more = {**(snapshots_of(user) if user else {}), **more}
    identity = {"user": user, "group": user, "extra_groups": []} if user else {}
    return subprocess.run(
        [COMMAND, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=timeout, check=False,
        env=environment(folder, **more), **identity)
