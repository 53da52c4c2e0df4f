#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The driver against both kernels' headers, as TAP: no warning from the
# compiler at W=1 (the build step makes every warning an error), none from
# sparse; dkms can build it; and the module says what it needs to be loaded by
# itself.
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

for kernel in 6.12 6.1; do
    build=/cache/build/driver-$kernel
    module=$build/kernel-driver/fakernic.ko
    test -s "$module"
    report $? "builds for $kernel without warnings at W=1" "no $module"

    text=$(make -C "$build/kernel-driver" KDIR="/opt/kernels/$kernel.headers" \
        $flags C=2 CHECK=sparse 2>&1)
    code=$?
    text=$(printf '%s\n' "$text" |
        grep -E '(warning|error):' | grep -F kernel-driver)
    [ $code = 0 ] && [ -z "$text" ]
    report $? "sparse is silent for $kernel" "$text"

    # dkms puts the kernel's release behind the leading "make".
    text=$(cd "$build" && bash -c '
        kernel_source_dir=$1
        . /src/kernel-driver/dkms.conf
        [[ $2 =~ $BUILD_EXCLUSIVE_KERNEL ]] || exit 1
        eval "${MAKE/#make/make KERNELRELEASE=$2} $3"' \
        dkms "/opt/kernels/$kernel.headers" \
        "$(cat "/opt/kernels/$kernel.version")" "$flags" 2>&1)
    report $? "builds by dkms.conf for $kernel" "$text"

    modinfo "$module" | grep -q '^alias: *pci:v00001AF4d000010F'
    report $? "has a PCI alias for $kernel" "$(modinfo "$module")"
done
echo "1..$n"
[ $bad = 0 ]
