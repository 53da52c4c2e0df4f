# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots guests, wires them together and runs commands in them.

  vm.py       one QEMU process: command line, console, QMP, crash detection
  guest.py    commands inside a guest, through its guest agent
  console.py  what on a console means that the guest is not well
  lab.py      sets of wired guests, booted once and reused between tests
  rdma.py     bringing a device up and running the usual client/server pairs
  pairs.py    many short pairs of programs in one go

Built on QEMU's own qemu.machine and qemu.qmp packages, taken from the same
source tree as the emulator. Every wait has a time limit.
"""

import sys
from pathlib import Path

CACHE = Path("/cache")

sys.path.append(str(CACHE / "src/qemu/python"))
