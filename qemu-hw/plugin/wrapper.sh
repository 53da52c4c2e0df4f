#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# qemu-system-x86_64-fakernic: the distribution's QEMU with -device fakernic.
# Takes the arguments of qemu-system-x86_64; FAKERNIC_QEMU_BINARY is another one.
plugin=@LIBRARY@/fakernic-qemu.so
if [ ! -e "$plugin" ]; then
    echo "fakernic: no plug-in at $plugin: install fakernic-qemu again" >&2
    exit 1
fi
export LD_PRELOAD="$plugin${LD_PRELOAD:+:$LD_PRELOAD}"
exec "${FAKERNIC_QEMU_BINARY:-/usr/bin/qemu-system-x86_64}" "$@"
