# SPDX-License-Identifier: GPL-2.0-or-later
"""What these tests need in addition to the library fakernic_lab, which boots
guests and runs commands in them.

  lab.py            sets of wired guests, booted once and reused by tests
  watched.py        guests whose kernel logs and error counters are checked
  rdma.py           the usual client/server pairs
  pairs.py          many short pairs of programs in one run
  recovery.py       a port with user settings, and ways to reset its device
  traffic.py        a program and a disk that use the port at the same time
  cards.py          guests with several cards
  memory.py         memory use of QEMU and of the guest's kernel
  nvme.py, ulp.py   the kernel's users of RDMA
  tstamp.py         packet time stamps
  pyverbs.py        rdma-core's own tests
  programs.py       libfabric's and UCX's tests
  archive.py        other programs of Debian
  long_programs.py  programs that ci/programs.py --long builds
  wire.py           reads captures
  losses.py         what the sender does after a loss
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "lab"))
