#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The driver against all kernels' headers, as TAP: no warning from the compiler
# at W=1 (the build step makes every warning an error), none from sparse; and the
# module says what it needs to be loaded by itself. Those of backports are
# fetched by the build step; one that is not there fails by name.
set -u
n=0
bad=0

report() { # condition name detail
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        bad=$((bad + 1))
        echo "not ok $n - $2"
        printf '%s\n' "$3" | sed 's/^/# /'
    fi
}

# As ci/build.py does, lest all be compiled anew.
flags="W=1 KCFLAGS=-Werror"

for kernel in 7.3 7.2 6.12 6.1; do
    folder=/opt/kernels
    [ -e "$folder/$kernel" ] || folder=/cache/kernels
    build=/cache/build/driver-$kernel
    module=$build/kernel-driver/fakernic.ko
    test -s "$module"
    report $? "builds for $kernel without warnings at W=1" "no $module"

    text=$(make -C "$build/kernel-driver" KDIR="$folder/$kernel.headers" \
        $flags C=2 CHECK=sparse 2>&1)
    code=$?
    text=$(printf '%s\n' "$text" |
        grep -E '(warning|error):' | grep -F kernel-driver)
    [ $code = 0 ] && [ -z "$text" ]
    report $? "sparse is silent for $kernel" "$text"

    modinfo "$module" | grep -q '^alias: *pci:v00001AF4d000010F'
    report $? "has a PCI alias for $kernel" "$(modinfo "$module")"
done
echo "1..$n"
[ $bad = 0 ]
