#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# reproductions.sh: today's qtests against the device of an older revision, of
# which a review found what tests/qtest/README.md lists. Its files come from the
# history of the checkout; check_reproductions.sh does the rest, in the root.
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
