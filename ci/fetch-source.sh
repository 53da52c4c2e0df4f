#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-source.sh SOURCE VERSION, inside the root: the upstream tar of a source
# package that Debian 13 does not have, from its development suites on the
# mirror that the root came from; of 10.2 the newest release. Goes to
# /opt/sources/SOURCE-MAJOR; the root's own package sources stay as they are.
# Does nothing when it is there already.
set -eu

source=$1
version=$2
target=/opt/sources/$source-${version%%.*}

if ls "$target/${source}_$version".orig.tar.* \
    "$target/${source}_$version"[.+]*.orig.tar.* 2>/dev/null | grep -q .; then
    exit 0
fi

. /src/ci/apt.sh
other_suites deb-src testing unstable

found=$(apt-cache showsrc "$source" | sed -n 's/^Version: //p' |
    grep "^\([0-9]*:\)\?$version[-.+]" | sort -rV || :)
if [ -z "$found" ]; then
    echo "the mirror has no source of $source $version any more, only:" >&2
    apt-cache showsrc "$source" | grep '^Version: ' >&2 || :
    exit 1
fi
# Half a file must never have the name of a whole one; and a mirror may list
# what it has not.
for one in $found; do
    rm -rf "$target.partial"
    mkdir -p "$target.partial" "$target"
    cd "$target.partial"
    if apt-get source --download-only --tar-only "$source=$one"; then
        mv ./*.orig.tar.* "$target"
        exit 0
    fi
done
echo "the mirror lists $source" $found "and has none of them" >&2
exit 1
