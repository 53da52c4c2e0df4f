#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# wire.sh [WIRE...]: rates between two devices in two processes, without guests
# (tests/qtest/fakernic-rate.c). WIRE: stream, dgram, link; by default all.
set -eu

build=/cache/build/qemu
out=$(mktemp)
trap 'rm -f "$out"' EXIT
[ $# -gt 0 ] || set -- stream dgram link
for wire in "$@"; do
    if ! QTEST_QEMU_BINARY=$build/qemu-system-x86_64 \
            "$build/tests/qtest/fakernic-test" -m perf \
            -p "/x86_64/fakernic/rate/$wire" >"$out" 2>&1; then
        cat "$out" >&2
        exit 1
    fi
    sed -n 's/^# rate //p' "$out"
done
