#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check_release.sh: builds the release a second time, from a copy of the checkout in
# another folder, with a cache that has only the Debian root. Both must have
# equal bytes. Prints TAP: a test for each file.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/ci/lib.sh"
root=$(root_dir)
first=$cache/release
again=$cache/release-again
[ -z "$(git -C "$top" status --porcelain)" ] ||
    die "the second build is made from the last commit: commit the changes that git status shows"
rm -rf "$again"
work=$(mktemp -d "$again.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The bytes do not depend on the modes of a checkout.
umask 027
git clone -q "$top" "$work/checkout of a release"
mkdir "$work/cache"
cp -a "$root" "$work/cache/"
(
    cd "$work/checkout of a release"
    export FAKERNIC_CACHE="$work/cache"
    ci/enter.sh ci/build.py release >&2
)
number=0
failed=0
cd "$first"
for file in *; do
    number=$((number + 1))
    if cmp -s "$file" "$work/cache/release/$file"; then
        echo "ok $number - $file has equal bytes in both builds"
    else
        echo "not ok $number - $file has equal bytes in both builds"
        failed=$((failed + 1))
    fi
done
echo "1..$number"
echo "$((number - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && exit
mv "$work/cache/release" "$again"
echo "# the files of the second build are in $again: diffoscope shows what differs"
exit 1
