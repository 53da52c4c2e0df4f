# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual machines with RDMA: starts them, connects them, runs commands in them.

  cli.py       the command fakernic-lab
  launch.py    commands in all machines of a lab, and the verdict
  stay.py      machines that outlive the command
  saved.py     saves and loads all of them at one moment
  junit.py     a report for CI services
  lab.py       machines on one wire, which know each other
  rdma.py      bringing the RDMA device of a guest up
  net.py       what joins machines
  relay.py     a wire with faults, for two machines or more: ../relay
  cards.py     the machines' cards in place of the relay, if they share memory
  captures.py  one capture out of those of each machine
  machine.py   one QEMU process: command line, console, monitor
  images.py    what a machine boots
  snapshots.py  what a machine starts from instead of booting
  arches.py    the architectures of machines
  tree.py      a distribution's tree, in which commands run
  ssh.py       ssh between machines
  guest.py     commands inside a guest, through its agent
  waiting.py   the line that says how far a boot is
  meeting.py   commands that wait for each other
  outputs.py   the files that are left behind, and their bounds
  console.py   finds kernel complaints on a guest's console
  show.py      what is inside a device
  faults.py    temporary fault rules, each of which must be hit
  qmp.py       QEMU's machine protocol
  places.py    where QEMU and the images are, KVM or not
  doctor.py    what the host offers for machines
  recordings.py  where devices record: in memory, if there is room
  pytest_plugin.py  the fixture lab
  timeline/    what devices recorded, as pages, pictures, captures

Every wait has a time limit. Only the standard library of Python 3.9 is needed.
"""
