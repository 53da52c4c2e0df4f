#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Checks the driver with the headers of all kernels and prints TAP. Neither the
# compiler at W=1 (the build step makes every warning an error) nor sparse may
# warn, and the module must have the alias by which the kernel loads it. The build
# step fetches kernels from backports. A missing kernel fails a test of its name.
set -u
. /src/ci/tap.sh

# As ci/build.py does, so that nothing is compiled again.
flags="W=1 KCFLAGS=-Werror"

for kernel in $(/src/ci/versions.sh kernel new long main old); do
    build=/cache/build/driver-$kernel
    module=$build/kernel-driver/fakernic.ko
    echo "no $module" >"$log"
    test -s "$module"
    report $? "builds for $kernel without warnings at W=1"

    make -C "$build/kernel-driver" KDIR="$(kernel_folder $kernel).headers" \
        $flags C=2 CHECK=sparse >"$log.all" 2>&1
    code=$?
    grep -E '(warning|error):' "$log.all" | grep -F kernel-driver >"$log"
    [ $code = 0 ] && [ ! -s "$log" ]
    report $? "sparse is silent for $kernel"

    modinfo "$module" >"$log" 2>&1
    grep -q '^alias: *pci:v00001AF4d000010F' "$log"
    report $? "has a PCI alias for $kernel"
done
finish
