#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# reproductions.sh: runs today's qtests against the device of an older revision.
# A review of that revision found the bugs that tests/qtest/README.md lists. This
# script takes the old files from the git history of the checkout and calls
# check_reproductions.sh inside the root.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/ci/lib.sh"
rev=f6c56ba

cd "$top"
git cat-file -e "$rev^{commit}" 2>/dev/null ||
    die "no $rev in this clone: git fetch --unshallow"
old=$cache/src/device-$rev
if [ ! -e "$old" ]; then
    mkdir -p "$old.partial"
    git archive "$rev" qemu-hw firmware-spec tests/qtest |
        tar -x -C "$old.partial"
    mv "$old.partial" "$old"
fi
exec ci/enter.sh ci/check_reproductions.sh "$rev"
