#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-source.sh SOURCE VERSION, inside the root: the upstream tar of a source
# package that Debian 13 does not have, from its development suites on the
# mirror that the root came from. Goes to /opt/sources/SOURCE-MAJOR; the root's
# own package sources stay as they are. Does nothing when it is there already.
set -eu

source=$1
version=$2
target=/opt/sources/$source-${version%%.*}

if ls "$target"/*_"$version".orig.tar.* >/dev/null 2>&1; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work" "$target.partial"' EXIT
chmod 755 "$work"
mirror=$(awk '/^URIs:/ { print $2; exit }' /etc/apt/sources.list.d/debian.sources)
for suite in testing unstable; do
    printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n\n' \
        "$mirror" "$suite"
done >"$work/new.sources"
mkdir -p "$work/lists/partial"
cat >"$work/apt.conf" <<EOT
Dir::Etc::sourcelist "$work/new.sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
EOT
export APT_CONFIG="$work/apt.conf"

apt-get update --error-on=any
found=$(apt-cache showsrc "$source" | sed -n 's/^Version: //p' |
    grep "^\([0-9]*:\)\?$version-" | tail -n 1 || :)
if [ -z "$found" ]; then
    echo "the mirror has no source of $source $version any more, only:" >&2
    apt-cache showsrc "$source" | grep '^Version: ' >&2 || :
    exit 1
fi
# Half a file must never have the name of a whole one.
rm -rf "$target.partial"
mkdir -p "$target.partial" "$target"
cd "$target.partial"
apt-get source --download-only --tar-only "$source=$found"
mv ./*.orig.tar.* "$target"
