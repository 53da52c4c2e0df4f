#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-linux.sh SERIES, inside the root: the source of a kernel of Debian 13
# (6.12) or its backports (7.3), with Debian's patches, in
# /cache/src/linux-SERIES; without what only other processors, graphics and
# sound need. Does nothing when it is there.
set -eu

series=$1
target=/cache/src/linux-$series

mkdir -p /cache/src
exec 9>"$target.lock"
flock 9
[ ! -e "$target" ] || exit 0

. /src/ci/apt.sh
cd "$work"
if ls /opt/kernels | grep -qxF "$series"; then
    apt-get update --error-on=any
else
    other_suites deb trixie-backports
fi
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
