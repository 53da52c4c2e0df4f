#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# overlay.sh QEMU_SRC: puts the fakernic device into the source tree of a QEMU
# 10.0, 10.2 or 11.1; overlay.sh --remove QEMU_SRC takes it out again.
#
# Copies the device, the engine, the QMP schema, the hardware interface headers and
# the qtest with the data sheet's driver and examples. Adds the lines by which
# QEMU's build finds them. May be run again after any change: it writes only files
# that differ, so the next build compiles only these.
set -eu

remove=
if [ "${1:-}" = --remove ]; then
    remove=1
    shift
fi
if [ $# -ne 1 ]; then
    echo "usage: overlay.sh [--remove] QEMU_SRC" >&2
    exit 2
fi
qemu=$1
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")

if [ ! -f "$qemu/hw/net/meson.build" ] || [ ! -f "$qemu/VERSION" ]; then
    echo "overlay.sh: $qemu is not a QEMU source tree" >&2
    exit 1
fi
# Removes each line that names the device from a file, and a blank line before it.
unhook() {
    awk '/fakernic/ { blank = ""; next }
        { printf "%s", blank; blank = "" }
        /^$/ { blank = "\n"; next }
        { print }
        END { printf "%s", blank }' "$1" >"$1.new"
    cmp -s "$1.new" "$1" || cat "$1.new" >"$1"
    rm "$1.new"
}

if [ -n "$remove" ]; then
    rm -rf "$qemu/hw/net/fakernic" "$qemu/include/fakernic"
    rm -f "$qemu"/tests/qtest/fakernic-* "$qemu/qapi/fakernic.json"
    for name in meson.build hw/net/meson.build hw/net/Kconfig \
        tests/qtest/meson.build qapi/meson.build qapi/qapi-schema.json; do
        unhook "$qemu/$name"
    done
    exit 0
fi

case $(cat "$qemu/VERSION") in
10.0.* | 10.2.* | 11.1.*) ;;
*)
    echo "overlay.sh: warning: made for QEMU 10.0, 10.2 and 11.1, this is" \
        "$(cat "$qemu/VERSION")" >&2
    ;;
esac

# Makes a folder hold exactly these files: mirror FROM TO NAME...
mirror() {
    from=$1
    to=$2
    shift 2
    mkdir -p "$to"
    for name; do
        cmp -s "$from/$name" "$to/$name" || cp "$from/$name" "$to/$name"
    done
    for old in "$to"/*.[ch]; do
        [ -e "$old" ] || continue
        [ -e "$from/$(basename "$old")" ] || rm "$old"
    done
}

# The names of a folder's C files and headers.
sources() {
    (cd "$1" && ls ./*.c ./*.h 2>/dev/null | sed 's,^\./,,' | sort)
}

# Adds a line behind the first one that matches, unless the file mentions the
# key already: hook FILE KEY MATCH LINE
hook() {
    grep -qF -- "$2" "$1" && return
    if ! grep -q -- "$3" "$1"; then
        echo "overlay.sh: no place for '$4' in $1" >&2
        exit 1
    fi
    match_re=$3 new_line=$4 awk '
        { print }
        !done && $0 ~ ENVIRON["match_re"] { print ENVIRON["new_line"]; done = 1 }
        ' "$1" >"$1.new"
    cat "$1.new" >"$1"
    rm "$1.new"
}

target=$qemu/hw/net/fakernic
parts=$(cd "$here" && find device eswitch fault link qmp roce -type d)
for part in $parts; do
    mirror "$here/$part" "$target/$part" $(sources "$here/$part")
done
# Remove folders that no longer exist here.
(cd "$target" && find . -mindepth 1 -type d) | while read -r part; do
    [ -d "$here/$part" ] || rm -rf "${target:?}/$part"
done
mirror "$here" "$target" meson.build Kconfig trace-events trace.h
include=$top/firmware-spec/include/fakernic
mirror "$include" "$qemu/include/fakernic" $(sources "$include")
# put FROM TO: copies a file that differs.
put() {
    cmp -s "$1" "$2" || cp "$1" "$2"
}

put "$here/qmp/fakernic.json" "$qemu/qapi/fakernic.json"

for name in $(sources "$top/tests/qtest"); do
    put "$top/tests/qtest/$name" "$qemu/tests/qtest/$name"
done
# The data sheet's driver, and the hex examples of the data sheet and of JOURNEY.md
# as lines of name, offset and bytes. In the documents an annotation begins with
# three spaces. JOURNEY.md also has recorder lines of its machines a and b.
put "$top/firmware-spec/driver.c" "$qemu/tests/qtest/fakernic-spec-driver.c"
lines=$qemu/tests/qtest/fakernic-example-lines.h
awk '/^[^ ]/ && seen { name = "" }
    /^(\.\.|<!--) example: / { name = $3; seen = 0 }
    name != "" && /^    [0-9a-f][0-9a-f][0-9a-f][0-9a-f]  / {
        bytes = substr($0, 11)
        sub(/   .*/, "", bytes)
        printf "{ \"%s\", 0x%s, \"%s\" },\n", name, substr($0, 5, 4), bytes
        seen = 1
    }
    /^    [ab]: / {
        printf "{ \"journey-%s\", 0, \"%s\" },\n", substr($0, 5, 1), substr($0, 8)
    }' "$top/firmware-spec/fakernic.rst" "$here/JOURNEY.md" >"$lines.new"
put "$lines.new" "$lines"
rm "$lines.new"

hook "$qemu/qapi/qapi-schema.json" "'fakernic.json'" \
    "'net.json'" "{ 'include': 'fakernic.json' }"
hook "$qemu/qapi/meson.build" "'fakernic'," "^    'rocker',$" "    'fakernic',"
hook "$qemu/meson.build" "'hw/net/fakernic'" "^    'hw/net/can'," \
    "    'hw/net/fakernic',"
hook "$qemu/hw/net/meson.build" "'fakernic'" "^subdir..can..$" \
    "subdir('fakernic')"
grep -qF 'source fakernic/Kconfig' "$qemu/hw/net/Kconfig" ||
    printf '\nsource fakernic/Kconfig\n' >>"$qemu/hw/net/Kconfig"
hook "$qemu/tests/qtest/meson.build" "['fakernic-test']" \
    "CONFIG_E1000E_PCI_EXPRESS.*'fuzz-e1000e-test'" \
    "  (config_all_devices.has_key('CONFIG_FAKERNIC') ? ['fakernic-test'] : []) + \\"
# The line with the qtest's other files is written again, because files may be new.
chapters=$(for name in $(sources "$top/tests/qtest") fakernic-spec-driver.c; do
    case $name in
    fakernic-test.c) ;;
    *.c) printf "'%s', " "$name" ;;
    esac
done)
line="  'fakernic-test': files(${chapters%, }),"
if ! grep -qxF -- "$line" "$qemu/tests/qtest/meson.build"; then
    sed -i "/^  'fakernic-test': files(/d" "$qemu/tests/qtest/meson.build"
    hook "$qemu/tests/qtest/meson.build" "$line" "^qtests = .$" "$line"
fi
