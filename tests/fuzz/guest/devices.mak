# SPDX-License-Identifier: GPL-2.0-or-later
# What the fuzz target "guest" needs of QEMU's devices.
CONFIG_Q35=y
CONFIG_PCIE_PORT=y
CONFIG_FAKERNIC=y
