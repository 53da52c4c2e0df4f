#!/bin/sh
# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
#
# choose.sh PROVIDERS LIBRARIES: lets libibverbs load the provider of its release.
#
# PROVIDERS is a folder that providers.py has filled. LIBRARIES is the folder with
# libibverbs.so.1: the link to the provider goes into its folder libibverbs, and
# older such links are removed. Ends with 1 if no provider fits.
set -eu

providers=$1
libraries=$2

for link in "$libraries"/libibverbs/libfakernic-rdmav*.so; do
    if [ -L "$link" ]; then
        rm "$link"
    fi
done
if [ ! -e "$libraries/libibverbs.so.1" ]; then
    echo "fakernic: $libraries has no libibverbs.so.1: install libibverbs" >&2
    exit 1
fi

# Only the name of the file that the link leads to has the release.
file=$(basename "$(readlink -f "$libraries/libibverbs.so.1")")
release=$(expr "$file" : 'libibverbs\.so\.1\.[0-9]*\.\([0-9][0-9]*\)') || release=0
known=
for folder in "$providers"/[0-9]*-[0-9]*; do
    range=${folder##*/}
    known="$known $range"
    if [ "$release" -ge "${range%-*}" ] && [ "$release" -le "${range#*-}" ]; then
        mkdir -p "$libraries/libibverbs"
        ln -s "$folder"/libfakernic-rdmav*.so "$libraries/libibverbs/"
        exit 0
    fi
done
echo "fakernic: no provider for $file, only for rdma-core$known: programs will" \
    "not see the card" >&2
exit 1
