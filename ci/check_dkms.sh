#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check_dkms.sh KERNEL...: checks fakernic-dkms and prints TAP. From the package's
# files dkms builds and installs a signed module for each of these kernels. It
# skips kernels that the package does not support. All files are in temporary
# folders; the VM tests install the package in a real Debian.
set -u
. /src/ci/tap.sh

work=$tap_folder/package
mkdir "$work"
/src/ci/packages/build.sh dkms >"$log" 2>&1 &&
    dpkg-deb -x /cache/packages/fakernic-dkms_*_all.deb "$work" >>"$log" 2>&1
report $? "the package is built and unpacked"

version=$(ls "$work/usr/src" | sed 's/^fakernic-//')
mkdir -p "$work/dkms" "$work/modules"
# dkms keeps its signing key here. The mount is private to this namespace.
mount -t tmpfs dkms /var/lib/dkms

run_dkms() { # command release headers
    mkdir -p "$work/modules/$2"
    ln -sfn "$3" "$work/modules/$2/build"
    dkms "$1" "fakernic/$version" -k "$2" --kernelsourcedir "$3" \
        --sourcetree "$work/usr/src" --dkmstree "$work/dkms" \
        --installtree "$work/modules" --force >"$log" 2>&1
}

for kernel in "$@"; do
    folder=$(kernel_folder $kernel)
    release=$(cat "$folder.version" 2>"$log") &&
        run_dkms install "$release" "$(readlink -f "$folder.headers")"
    code=$?
    cat "$work/dkms/fakernic/$version/$release/"*/log/make.log >>"$log" 2>&1
    report $code "dkms installs the module for $kernel"

    module=$work/modules/$release/updates/dkms/fakernic.ko
    modinfo "$module"* >"$log" 2>&1 &&
        grep -q '^alias: *pci:v00001AF4d000010F0' "$log" &&
        grep -q "^vermagic: *$release " "$log" &&
        grep -q '^signer: *DKMS' "$log"
    report $? "it has a PCI alias, its kernel's magic and a signature"
done

run_dkms build 5.10.0-1-amd64 "$(kernel_folder "$(/src/ci/versions.sh kernel old)").headers"
[ $? = 77 ] && grep -q BUILD_EXCLUSIVE "$log"
report $? "dkms leaves out a kernel that the package does not name"

finish
