# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a timeline of work requests from the records of the devices of one host.

  files.py     selects the work requests and writes the files
  records.py   reads the files that the devices write
  clock.py     finds the times at which programs made their marks
  wire.py      finds the machines between which frames go, and the bytes of data
  model.py     finds events that belong together, and checks their order
  steps.py     explains each event, with a quotation from the documents
  words.py     the names and the label of each event
  picture.py   draws a work request
  page.py      writes a page, text, a trace for Perfetto
  pcapng.py    writes packets and the bus between them, for Wireshark
  fakernic.lua shows the bus in Wireshark

A file imports only files further down; page.py does not import pcapng.py.
"""
