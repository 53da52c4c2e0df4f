#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# compare.sh REV [OPTION...]: builds the devices of revision REV and of this
# checkout, and measures both in one job (bench.py --old).
set -eu

if [ $# -lt 1 ] || ! rev=$(git rev-parse --verify --short "$1^{commit}"); then
    echo "usage: make bench-compare OLD=REV [BENCH='--rows write-*']" >&2
    exit 2
fi
shift
qemu=/cache/build/qemu/qemu-system-x86_64
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree"; rm -rf "$tree"' EXIT
git worktree add --quiet --detach "$tree" "$rev"
# In one build folder, one after the other: QEMU finds its firmware there. What
# the older device does not know may not be left in the source.
ci/enter.sh sh -c '[ ! -e /cache/src/qemu ] ||
    qemu-hw/overlay.sh --remove /cache/src/qemu'
(cd "$tree" && ci/enter.sh ci/build.py qemu &&
    ci/enter.sh cp "$qemu" "$qemu-$rev")
ci/enter.sh ci/build.py root-test qemu image
ci/enter.sh tests/bench/bench.py --qemu "$qemu" --old "$qemu-$rev" "$@"
