#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# enter.sh COMMAND...: runs a command inside the Debian 13 root, with the
# checkout at /src and the cache at /cache. Everything it starts ends with
# it: it has a process-id namespace of its own. FAKERNIC_* variables pass
# through. As root it uses chroot in a mount namespace, else a user
# namespace; both behave alike from inside.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/ci/lib.sh"

if [ "${1:-}" = --setup ]; then
    root=$2
    shift 2
else
    root=$(root_dir)
    [ -e "$root/.fakernic-ready" ] || "$top/ci/bootstrap.sh"
fi
[ $# -gt 0 ] || set -- /bin/bash

if [ "${FAKERNIC_INSIDE:-}" != 1 ]; then
    export FAKERNIC_INSIDE=1 top root cache
    if am_root; then
        set -- unshare --mount --propagation private --pid --fork \
            --kill-child "$0" --setup "$root" "$@"
    else
        set -- unshare --user --map-auto --map-root-user --mount \
            --propagation private --pid --fork --kill-child \
            "$0" --setup "$root" "$@"
    fi
    exec "$@"
fi

# From here on: inside the namespaces, process 1 of the new one. The modes of built
# files do not depend on the caller's umask.
umask 022
mkdir -p "$root/src" "$root/cache" "$root/proc" "$root/sys" "$root/dev" \
    "$root/tmp"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc" 2>/dev/null ||
    mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom tty kvm fuse; do
    [ -e "/dev/$node" ] || continue
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
if [ -d /dev/net ]; then
    mkdir "$root/dev/net"
    mount --rbind /dev/net "$root/dev/net"
fi
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts" \
    2>/dev/null || mount --rbind /dev/pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount --bind "$top" "$root/src"
mount --bind "$cache" "$root/cache"
if [ -e /etc/resolv.conf ]; then
    # Only once: removing the file would unmount it for processes inside.
    if [ -L "$root/etc/resolv.conf" ] || [ ! -e "$root/etc/resolv.conf" ]; then
        rm -f "$root/etc/resolv.conf"
        : >"$root/etc/resolv.conf"
    fi
    mount --bind "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"
    mount --bind /etc/hosts "$root/etc/hosts" 2>/dev/null || :
fi

fakernic_env=$(env | sed -n 's/^\(FAKERNIC_[A-Z0-9_]*\)=.*/\1/p' |
    grep -v -e INSIDE -e CACHE || :)
set -- "$@"
for name in $fakernic_env; do
    eval "set -- \"$name=\$$name\" \"\$@\""
done
# Not exec: process 1 ignores Ctrl-C unless it handles it; a child does not.
env -i HOME=/root FAKERNIC_HOST_CACHE="$cache" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin \
    TERM="${TERM:-dumb}" LANG=C.UTF-8 FAKERNIC_ROOT=1 ${CI:+CI="$CI"} \
    chroot "$root" sh -c 'cd /src && exec env "$@"' enter "$@"
exit $?
