#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# overlay.sh QEMU_SRC: adds the fuzz target "guest" to a QEMU source tree that
# has the fakernic device (qemu-hw/overlay.sh). It matters for builds with
# --enable-fuzzing only; a configuration with few devices for such builds comes
# with it. May be run again after any change.
set -eu

if [ $# -ne 1 ] || [ ! -d "$1/hw/net/fakernic" ]; then
    echo "usage: overlay.sh QEMU_SRC, after qemu-hw/overlay.sh" >&2
    exit 2
fi
qemu=$1
here=$(cd "$(dirname "$0")" && pwd)
target=$qemu/tests/qtest/fuzz/fakernic

put() { # FROM TO
    cmp -s "$1" "$2" || cp "$1" "$2"
}

mkdir -p "$target"
for old in "$target"/*.[ch]; do
    name=$(basename "$old")
    [ -e "$here/guest/$name" ] || [ -e "$here/$name" ] || rm -f "$old"
done
for file in "$here"/guest/*.[ch] "$here"/records.[ch]; do
    put "$file" "$target/$(basename "$file")"
done
put "$here/guest/devices.mak" \
    "$qemu/configs/devices/x86_64-softmmu/fakernic-fuzz.mak"
put "$here/guest/instrumentation-filter" \
    "$qemu/scripts/oss-fuzz/instrumentation-filter-template"

# Append the statement once, however often this script runs.
meson=$qemu/tests/qtest/fuzz/meson.build
{
    sed '/^specific_fuzz_ss.add(when: .CONFIG_FAKERNIC/,$d' "$meson"
    echo "specific_fuzz_ss.add(when: 'CONFIG_FAKERNIC', if_true: files("
    for file in "$target"/*.c; do
        echo "  'fakernic/$(basename "$file")',"
    done
    echo "))"
} >"$meson.new"
put "$meson.new" "$meson"
rm "$meson.new"
