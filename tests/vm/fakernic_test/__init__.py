# SPDX-License-Identifier: GPL-2.0-or-later
"""What the project's own tests in guests have beside the library fakernic_lab,
which boots guests and runs commands in them.

  lab.py      sets of wired guests, booted once and reused between tests
  watched.py  guests whose cards have to stay well
  rdma.py     the usual client/server pairs
  pairs.py    many short pairs of programs in one go
  patient.py  a port with settings that must stay
  traffic.py  a program and a disk that use it meanwhile
  cards.py    more cards in one guest
  memory.py   how much memory a machine takes
  pyverbs.py  rdma-core's own tests
  wire.py     what a capture holds
  losses.py   what a loss makes of it
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "lab"))
