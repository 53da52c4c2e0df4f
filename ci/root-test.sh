#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# root-test.sh, inside the root: its second stage, which only tests and packages
# need. What the first stage had installed is kept in /opt/first-stage.status:
# the build steps are keyed by it, so that this stage causes no rebuild. The guest
# is cut from its /etc, kept in /opt/first-stage.etc. Does nothing when the root
# has it.
#
#   /opt/kernels/K, K.headers       Debian 12's kernel
#   /opt/libibverbs-12              the headers of Debian 12's libibverbs, its version
#   /opt/checkpatch                 the kernel's checkpatch.pl and its word lists
#   /opt/sources/libfabric          libfabric's tests are in its source only
#   /opt/mpi                        the headers of MPICH
set -eu

exec 9>/.fakernic-test.lock
flock 9
top=/src
. /src/ci/lib.sh
# One list for both kinds: a package may be of both.
wanted=$(packages test)$(packages guest-test)
key=$({ echo "$wanted" && cat /src/ci/root-test.sh /src/ci/kernel.sh &&
    /src/ci/versions.sh kernel main old; } | sha256sum)
if [ "$(cat /.fakernic-test 2>/dev/null)" = "$key" ]; then
    exit 0
fi

if [ ! -e /opt/first-stage.status ]; then
    rm -rf /opt/first-stage.etc
    cp -a /etc /opt/first-stage.etc
    cp /var/lib/dpkg/status /opt/first-stage.status.new
    mv /opt/first-stage.status.new /opt/first-stage.status
fi

# No package starts its daemon here.
trap 'rm -f /usr/sbin/policy-rc.d' EXIT
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

export DEBIAN_FRONTEND=noninteractive
# Debian 12's packages are there for those who name them.
cp --remove-destination /opt/old.sources /etc/apt/sources.list.d/old.sources
cat >/etc/apt/preferences.d/old <<EOF
Package: *
Pin: release n=bookworm*
Pin-Priority: 100
EOF
apt-get update --error-on=any
apt-get install -y --no-install-recommends --no-upgrade $wanted

. /src/ci/kernel.sh
kernel "$(/src/ci/versions.sh kernel old)"

# A provider is compiled with what its libibverbs was, and mirrors have been seen
# without that source: of the public headers any has the package.
old_libibverbs() {
    tmp=$(mktemp -d)
    chmod 755 "$tmp"
    (cd "$tmp" && apt-get download libibverbs-dev/bookworm &&
        dpkg-deb -x ./*.deb . && dpkg-deb -f ./*.deb Version >version)
    rm -rf /opt/libibverbs-12
    mkdir /opt/libibverbs-12
    cp -r "$tmp/usr/include" "$tmp/version" /opt/libibverbs-12
    rm -rf "$tmp"
}

old_libibverbs

# Of the packages that have them the rest is compilers.
mpi_headers() {
    tmp=$(mktemp -d)
    chmod 755 "$tmp"
    (cd "$tmp" && apt-get download libmpich-dev && dpkg-deb -x ./*.deb .)
    rm -rf /opt/mpi
    mkdir /opt/mpi
    cp -r "$tmp/usr/lib/$(/src/ci/arch.sh triplet)/mpich/include" /opt/mpi/mpich
    rm -rf "$tmp"
}

mpi_headers

# Header packages do not ship checkpatch.pl; the kernel's source package does.
checkpatch() {
    main=$(/src/ci/versions.sh kernel main)
    tmp=$(mktemp -d)
    chmod 755 "$tmp"
    (cd "$tmp" && apt-get download "linux-source-$main" && dpkg-deb -x ./*.deb .)
    mkdir -p /opt/checkpatch
    tar -xf "$tmp"/usr/src/linux-source-$main.tar.xz -C /opt/checkpatch \
        --strip-components=2 --wildcards --occurrence=1 \
        '*/scripts/checkpatch.pl' '*/scripts/spelling.txt' \
        '*/scripts/const_structs.checkpatch'
    rm -rf "$tmp"
}

[ -e /opt/checkpatch/const_structs.checkpatch ] || checkpatch

mkdir -p /opt/sources/libfabric
(cd /opt/sources/libfabric && apt-get source --download-only --tar-only libfabric)
apt-get clean
echo "$key" >/.fakernic-test.new
mv /.fakernic-test.new /.fakernic-test
