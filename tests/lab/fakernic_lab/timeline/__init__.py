# SPDX-License-Identifier: GPL-2.0-or-later
"""A timeline of work requests, out of what the devices of one host recorded.

  files.py     which files are made, and of which work requests
  records.py   reads the files that the devices write
  clock.py     when programs came where their marks say
  wire.py      between which machines frames go, and what they bring
  model.py     what belongs together; what must hold
  steps.py     what each event is, and where the documents say so
  words.py     the names and the label of each event
  picture.py   the picture of a work request
  page.py      a page, text, a trace for Perfetto
  pcapng.py    packets and the bus between them, for Wireshark
  fakernic.lua how Wireshark shows what is on the bus

Each knows only those below it; page.py nothing of pcapng.py.
"""
