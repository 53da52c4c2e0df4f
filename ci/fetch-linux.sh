#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-linux.sh SERIES, inside the root: the source of a kernel of Debian 13
# (6.12), with Debian's patches, in /cache/src/linux-SERIES; without what only
# other processors, graphics and sound need. Does nothing when it is there.
set -eu

series=$1
target=/cache/src/linux-$series

mkdir -p /cache/src
exec 9>"$target.lock"
flock 9
[ ! -e "$target" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work" "$target.partial"' EXIT
chmod 777 "$work"
cd "$work"
apt-get update --error-on=any
apt-get download "linux-source-$series"
rm -rf "$target.partial"
mkdir "$target.partial"
dpkg-deb --fsys-tarfile ./*.deb |
    tar -xO "./usr/src/linux-source-$series.tar.xz" |
    tar -xJ -C "$target.partial" --strip-components=1 \
        --exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/media/*.[ch]' \
        --exclude='*/sound/*.[ch]' --exclude='*/drivers/net/wireless/*.[ch]' \
        --exclude='*/arch/[!xu]*/*.[ch]' --exclude='*.dts*' \
        --exclude='*/tools/testing/*' --exclude='*.rst'
mv "$target.partial" "$target"
