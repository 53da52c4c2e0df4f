#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Second half of bootstrap.sh, run inside the new root: everything else that
# comes over the network. Afterwards no build step needs it.
#
#   /opt/sources/{qemu,rdma-core}   upstream's part of Debian's source packages;
#                                   of QEMU also Debian's part, for the plug-in
#   /opt/kernels/{6.12,6.1}         kernel image and modules, unpacked
#   /opt/kernels/{6.12,6.1}.headers a link to the headers in /usr/src
#   /opt/checkpatch                 the kernel's checkpatch.pl and its word lists
set -eux

config=$1
export DEBIAN_FRONTEND=noninteractive

rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
cp "$config/root.sources" /etc/apt/sources.list.d/debian.sources
cp "$config/old.sources" /etc/apt/sources.list.d/old.sources
cp "$config/host.conf" /etc/apt/apt.conf.d/99host
cat >/etc/apt/preferences.d/old <<EOF
Package: *
Pin: release n=bookworm*
Pin-Priority: 100
EOF
apt-get update --error-on=any

# The upstream tar of each: mirrors have been seen without the .dsc that a plain
# "apt-get source" insists on. Only the plug-in needs Debian's patches, too, and
# says so if they are missing.
mkdir -p /opt/sources/qemu /opt/sources/rdma-core /opt/kernels
for source in qemu rdma-core; do
    cd "/opt/sources/$source"
    apt-get source --download-only --tar-only "$source"
done
(cd /opt/sources/qemu && apt-get source --download-only --diff-only qemu) || :
cd /

# The concrete kernel behind a suite's linux-image-amd64 metapackage.
image_of() { # version-prefix
    apt-cache show linux-image-amd64 | awk -v prefix="$1" '
        /^Version:/ { wanted = index($2, prefix) == 1 }
        /^Depends:/ && wanted { print $2; exit }'
}

kernel() { # version-prefix
    image=$(image_of "$1.")
    version=${image#linux-image-}
    apt-get install -y --no-install-recommends "linux-headers-$version"
    tmp=$(mktemp -d)
    chmod 755 "$tmp"
    (cd "$tmp" && apt-get download "$image")
    rm -rf "/opt/kernels/$1"
    mkdir -p "/opt/kernels/$1"
    dpkg-deb -x "$tmp"/*.deb "/opt/kernels/$1"
    rm -rf "$tmp"
    ln -sfn "/usr/src/linux-headers-$version" "/opt/kernels/$1.headers"
    echo "$version" >"/opt/kernels/$1.version"
}

kernel 6.12
kernel 6.1

# Header packages do not ship checkpatch.pl; the kernel's source package does.
tmp=$(mktemp -d)
chmod 755 "$tmp"
(cd "$tmp" && apt-get download linux-source-6.12 && dpkg-deb -x ./*.deb .)
mkdir -p /opt/checkpatch
tar -xf "$tmp"/usr/src/linux-source-6.12.tar.xz -C /opt/checkpatch \
    --strip-components=2 --wildcards --occurrence=1 \
    '*/scripts/checkpatch.pl' '*/scripts/spelling.txt' \
    '*/scripts/const_structs.checkpatch'
rm -rf "$tmp"

apt-get clean
touch /.fakernic-ready
