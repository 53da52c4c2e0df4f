#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-arch.sh ARCH SERIES KERNEL PACKAGE..., inside the root: Debian 13 for
# another architecture. ARCH is Debian's name for it. No program of it can run
# here, so packages are unpacked and not configured.
#
#   /cache/arch/ARCH        the packages and all they depend on: the files of guests,
#                           and the headers and libraries for cross compilers
#   /cache/kernels/KERNEL   Debian's kernel of SERIES: image, modules, headers.
#                           KERNEL.version and KERNEL.headers are next to it.
set -eu

arch=$1
series=$2
target=/cache/arch/$arch
kernel=/cache/kernels/$3
shift 3
native=$(dpkg --print-architecture)

mkdir -p "${target%/*}" "${kernel%/*}"
exec 9>"$target.lock"
flock 9

. /src/ci/apt.sh
suites_of_root
# Mirrors have been seen with a broken list of an architecture's security updates. The
# first suite is complete without them.
if ! apt-get update --error-on=any; then
    sed -i '/^$/,$d' "$work/new.sources"
    apt-get update --error-on=any
fi

image=$(apt-cache depends "linux-image-$arch" |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
version=${image#linux-image-}
case $version in
"$series".*) ;;
*)
    echo "the mirror has no Linux $series for $arch, but '$version'" >&2
    exit 1
    ;;
esac
release=${version%-"$arch"}

mkdir -p "$work/debs/partial" "$work/kernel"
apt-get install --download-only --yes --no-install-recommends \
    -o Dir::Cache::archives="$work/debs" "$@"
(cd "$work/kernel" && apt-get download "$image" "linux-headers-$version" \
    "linux-headers-$release-common" "linux-kbuild-$release:$native")

unpack() { # folder package...
    mkdir -p "$1"
    into=$1
    shift
    for package; do
        dpkg-deb -x "$package" "$into"
    done
}

rm -rf "$target" "$kernel" "$kernel.partial"
# First the links of the root, such as lib, then what is below them.
unpack "$target.partial" "$work"/debs/base-files_*.deb "$work"/debs/*.deb
unpack "$kernel.partial" "$work"/kernel/*.deb
# The headers name their own place.
find "$kernel.partial/usr/src" -maxdepth 2 -name Makefile -exec \
    sed -i "s,\([= ]\)/usr/src/,\1$kernel/usr/src/," {} +
mv "$kernel.partial" "$kernel"
ln -sfn "$kernel/usr/src/linux-headers-$version" "$kernel.headers"
echo "$version" >"$kernel.version"
mv "$target.partial" "$target"
