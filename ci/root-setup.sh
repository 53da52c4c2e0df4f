#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Second half of bootstrap.sh, run inside the new root: everything else that
# comes over the network and that "make run" needs. Afterwards no build step of
# it needs the network.
#
#   /opt/sources/{qemu,rdma-core}   upstream's part of Debian's source packages;
#                                   of QEMU also Debian's part, for the plug-in
#   /opt/kernels/K               image and modules of the main kernel
#   /opt/kernels/K.headers       a link to the headers in /usr/src
#   /opt/old.sources                where Debian 12's packages are, for root-test.sh
set -eux

config=$1
export DEBIAN_FRONTEND=noninteractive

rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
cp "$config/root.sources" /etc/apt/sources.list.d/debian.sources
cp "$config/host.conf" /etc/apt/apt.conf.d/99host
cp "$config/old.sources" /opt/old.sources
apt-get update --error-on=any

# The upstream tar of each: mirrors have been seen without the .dsc that a plain
# "apt-get source" insists on. Only the plug-in needs Debian's patches, too, and
# says so if they are missing.
mkdir -p /opt/sources/qemu /opt/sources/rdma-core
for source in qemu rdma-core; do
    cd "/opt/sources/$source"
    apt-get source --download-only --tar-only "$source"
done
(cd /opt/sources/qemu && apt-get source --download-only --diff-only qemu) || :
cd /

. /src/ci/kernel.sh
kernel "$(/src/ci/versions.sh kernel main)"

apt-get clean
touch /.fakernic-ready
