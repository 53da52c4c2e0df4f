#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# clean.sh [--all]: removes what was built, or the whole cache. Only folders
# that this project makes are touched, whatever FAKERNIC_CACHE names.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/ci/lib.sh"

[ -d "$cache" ] || exit 0
set -- ${1:+"$1"} -- build src images packages log tmp
if [ "$1" = --all ]; then
    shift 2
    set -- "$@" kernels
    for root in "$cache"/root-*; do
        [ ! -d "$root" ] || set -- "$@" "${root##*/}"
    done
    rm -f "$cache/bootstrap.lock"
else
    shift
fi
cd "$cache"
if am_root; then
    rm -rf --one-file-system -- "$@"
else
    # Parts of the root belong to the user's subordinate ids.
    unshare --user --map-auto --map-root-user rm -rf -- "$@"
fi
rmdir "$cache" 2>/dev/null || :
