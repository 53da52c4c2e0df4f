#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# debug-kernel.sh JOBS KERNEL, inside the root: Debian 13's Linux, from its
# source, as fetch-kernel.sh does for others, in /cache/kernels/KERNEL, its
# headers being the build folder. KERNEL debug is in the configuration
# debug-kernel.config; kcsan reports as kcsan-kernel.config says, in place of
# that one's last parts. Its release names what it was made from, so that no
# module of another one is taken for its own.
set -eu

jobs=$1
kernel=$2
main=$(/src/ci/versions.sh kernel main)
source=/cache/src/linux-$main
build=/cache/build/linux-$kernel
target=/cache/kernels/$kernel
config=$build/wanted.config

/src/ci/fetch-linux.sh "$main"

mkdir -p "$build" /cache/kernels
case $kernel in
debug)
    cat /src/ci/debug-kernel.config ;;
kcsan)
    sed '/^# --- what reports/,$d' /src/ci/debug-kernel.config
    cat /src/ci/kcsan-kernel.config ;;
*)
    echo "no kernel $kernel: debug or kcsan" >&2
    exit 1 ;;
esac >"$config"

sum=$(cat "$config" "$0" | sha256sum | cut -c1-8)
linux() {
    make -C "$source" O="$build" -j"$jobs" LOCALVERSION="-$kernel-$sum" "$@"
}

rm -rf "$target" "$target.partial" "$target.version"
linux KCONFIG_ALLCONFIG="$config" allnoconfig
# What depends on something that is missing is left out without a word.
if grep '^CONFIG' "$config" | grep -vxF -f "$build/.config"; then
    echo "the options above are not in the configuration" >&2
    exit 1
fi
linux bzImage modules
version=$(linux -s kernelrelease)
linux -s INSTALL_MOD_PATH="$target.partial/usr" DEPMOD=true modules_install
mkdir "$target.partial/boot"
cp "$build/arch/x86/boot/bzImage" "$target.partial/boot/vmlinuz-$version"
mv "$target.partial" "$target"
ln -sfn "$build" "$target.headers"
echo "$version" >"$target.version"
