#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The driver in a Linux tree, as TAP: overlay.sh puts it into Debian 13's kernel
# source, and it compiles there, without a warning, as a module and built in, in
# a small configuration.
set -u
. /src/ci/tap.sh
linux=/cache/src/linux-6.12

wanted_config() { # y|m
    cat <<EOT
CONFIG_64BIT=y
CONFIG_MODULES=y
CONFIG_PCI=y
CONFIG_PCI_MSI=y
CONFIG_UNWINDER_FRAME_POINTER=y
CONFIG_NET=y
CONFIG_INET=y
CONFIG_IPV6=y
CONFIG_NETDEVICES=y
CONFIG_INFINIBAND=y
CONFIG_INFINIBAND_USER_ACCESS=y
CONFIG_INFINIBAND_ADDR_TRANS=y
CONFIG_INFINIBAND_ON_DEMAND_PAGING=y
CONFIG_INFINIBAND_FAKERNIC=$1
EOT
}

# A module is one object, what is built in an archive.
compile() { # y|m object
    out=/cache/build/intree-$1
    mkdir -p "$out" && wanted_config "$1" >"$out/wanted" &&
        make -C "$linux" O="$out" KCONFIG_ALLCONFIG="$out/wanted" \
            allnoconfig &&
        grep -x "CONFIG_INFINIBAND_FAKERNIC=$1" "$out/.config" &&
        make -C "$linux" O="$out" -j"$(nproc)" KCFLAGS=-Werror \
            drivers/infiniband/hw/fakernic/ &&
        test -s "$out/drivers/infiniband/hw/fakernic/$2"
}

/src/ci/fetch-linux.sh 6.12 >"$log" 2>&1
report $? "Debian's source of Linux 6.12 is there"

/src/kernel-driver/overlay.sh "$linux" >"$log" 2>&1 &&
    /src/kernel-driver/overlay.sh "$linux" >>"$log" 2>&1 &&
    grep -c fakernic "$linux/drivers/infiniband/Kconfig" >>"$log" &&
    grep -c fakernic "$linux/drivers/infiniband/hw/Makefile" >>"$log" &&
    [ "$(tr '\n' ' ' <"$log")" = "1 1 " ]
report $? "overlay.sh puts the driver into it, and once only"

compile m fakernic.o >"$log" 2>&1
report $? "it compiles as =m"
compile y built-in.a >"$log" 2>&1
report $? "it compiles as =y"

/src/kernel-driver/overlay.sh /tmp >"$log" 2>&1
[ $? = 1 ] && grep -q 'not a Linux source tree' "$log"
report $? "overlay.sh refuses what is no Linux tree"

finish
