#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# overlay.sh LINUX: copies the driver into a Linux source tree, where it becomes
# CONFIG_INFINIBAND_FAKERNIC. A repeated call replaces the copy.
set -eu

die() {
    echo "overlay.sh: $*" >&2
    exit 1
}

[ $# = 1 ] || die "usage: kernel-driver/overlay.sh LINUX"
linux=$1
here=$(cd "$(dirname "$0")" && pwd)
kconfig=$linux/drivers/infiniband/Kconfig
makefile=$linux/drivers/infiniband/hw/Makefile
target=$linux/drivers/infiniband/hw/fakernic
[ -f "$kconfig" ] && [ -f "$makefile" ] ||
    die "$linux is not a Linux source tree: it has no drivers/infiniband/Kconfig"

rm -rf "$target.new"
mkdir "$target.new"
cp -p "$here"/*.[ch] "$here/Kbuild" "$here/Kconfig" "$here/probe.sh" \
    "$target.new"
for folder in compat core net rdma uapi; do
    cp -rp "$here/$folder" "$target.new"
done
cp -rp "$here/../firmware-spec/include" "$target.new"
rm -rf "$target"
mv "$target.new" "$target"

source='source "drivers/infiniband/hw/fakernic/Kconfig"'
grep -qxF "$source" "$kconfig" ||
    sed -i "0,\\|^source \"drivers/infiniband/hw/|s||$source\n&|" "$kconfig"
grep -qxF "$source" "$kconfig" ||
    die "$kconfig has no line to put it before: add $source"
object='obj-$(CONFIG_INFINIBAND_FAKERNIC) += fakernic/'
grep -qxF "$object" "$makefile" || echo "$object" >>"$makefile"
