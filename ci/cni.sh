#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# cni.sh FOLDER: copies the CNI plug-ins of a folder into the cache, as the Debian
# root does not see the folder. Debian has no package of these plug-ins.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/ci/lib.sh"

for name in sriov rdma; do
    [ -f "${1:-}/$name" ] && [ -x "$1/$name" ] || die "make test-cni" \
        "BIN=FOLDER: FOLDER has to contain the CNI plug-ins sriov and rdma," \
        "and '${1:-}' has no program $name"
done
mkdir -p "$cache/cni"
cp "$1/sriov" "$1/rdma" "$cache/cni/"
