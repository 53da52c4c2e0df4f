#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-kernel.sh KERNEL [ARCH NAME], inside the root: image, modules and headers of
# a kernel of ci/versions that the root does not have, unpacked below /cache/kernels
# as root-setup.sh does below /opt/kernels for the others. ARCH is Debian's name for
# another architecture, NAME the kernel's there. Does nothing when it is there already.
set -eu

kernel=$1
native=$(dpkg --print-architecture)
arch=${2:-$native}
target=/cache/kernels/${3:-$kernel}
# 6.12-16k of arm64 is series 6.12 with the flavour arm64-16k.
series=${kernel%%-*}
flavour=$arch${kernel#"$series"}
suite=$(awk -v kernel="$kernel" '$1 == "kernel" && $2 == kernel { print $4 }' \
    /src/ci/versions)

mkdir -p /cache/kernels
exec 9>"$target.lock"
flock 9
if [ -e "$target.version" ]; then
    exit 0
fi

. /src/ci/apt.sh
other_suites deb "$suite"

# Releases of a series that have a bootable image, the newest last.
releases() { # series
    apt-cache pkgnames linux-image- |
        sed -n "s/^linux-image-\([0-9][^-]*-$flavour\)$/\1/p" |
        grep "^$1" | sort -V
}

version=$(releases "$series\." | tail -n 1)
if [ -z "$version" ]; then
    echo "the mirror has no Linux $series for $flavour in $suite, only" \
        $(releases '' | cut -d. -f1,2 | uniq) >&2
    exit 1
fi

# The headers are in many packages. The name of each contains the release.
names=$(apt-cache depends --recurse --no-recommends --no-suggests \
    --no-conflicts --no-breaks --no-replaces --no-enhances \
    "linux-image-$version" "linux-headers-$version" |
    grep -x -e "linux-[a-z-]*${version%-"$flavour"}\(-$flavour\|-common\)\?" | sort -u |
    sed "s/^linux-kbuild-.*/&:$native/")
mkdir "$work/debs"
cd "$work/debs"
apt-get download $names
rm -rf "$target.partial" "$target"
mkdir -p "$target.partial"
for package in *.deb; do
    dpkg-deb -x "$package" "$target.partial"
done
# The headers' makefiles contain their absolute path.
headers=$target/usr/src/linux-headers-$version
sed -i "s|\([= ]\)/usr/src/|\1$target/usr/src/|" \
    "$target.partial${headers#"$target"}/Makefile"
mv "$target.partial" "$target"
ln -sfn "$headers" "$target.headers"
echo "$version" >"$target.version"
