#!/bin/sh
# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
#
# overlay.sh RDMA_CORE_SRC: puts the fakernic provider into an rdma-core tree.
#
# Copies this folder to providers/fakernic, the hardware interface headers into
# it, the kernel ABI header to kernel-headers/rdma, and adds a few lines to two
# CMakeLists.txt. May be run again at any time: a file is written only when its
# content changes, so an incremental build stays incremental.
set -eu

die()
{
	echo "overlay.sh: $*" >&2
	exit 1
}

[ $# -eq 1 ] || die "usage: overlay.sh RDMA_CORE_SRC"
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
[ -f "$1/libibverbs/driver.h" ] ||
	die "$1 is not an rdma-core source tree"
tree=$(cd "$1" && pwd)

# install_file SOURCE TARGET
install_file()
{
	cmp -s "$1" "$2" && return 0
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2.new"
	mv "$2.new" "$2"
}

# add_line FILE COUNT ANCHOR LINE...: after each of the COUNT lines that are
# ANCHOR, add the LINEs, unless the first of them is there already.
add_line()
{
	file=$1 count=$2 anchor=$3
	shift 3
	grep -qxF -- "$1" "$file" && return 0
	[ "$(grep -cxF -- "$anchor" "$file")" = "$count" ] ||
		die "$file: '$anchor' is not there $count times: not rdma-core 44 to 65?"
	lines=$(printf '%s\n' "$@")
	ANCHOR=$anchor LINES_TO_ADD=$lines awk '
		{ print }
		$0 == ENVIRON["ANCHOR"] { print ENVIRON["LINES_TO_ADD"] }
	' "$file" > "$file.new"
	mv "$file.new" "$file"
}

target=$tree/providers/fakernic
for path in "$here"/*.c "$here"/*.h "$here/CMakeLists.txt"; do
	install_file "$path" "$target/${path##*/}"
done
for path in "$here"/man/*; do
	install_file "$path" "$target/man/${path##*/}"
done
for path in "$top"/firmware-spec/include/fakernic/*.h; do
	install_file "$path" "$target/fakernic/${path##*/}"
done
install_file "$top/kernel-driver/uapi/rdma/fakernic-abi.h" \
	"$tree/kernel-headers/rdma/fakernic-abi.h"

# A file that was removed here must not live on in the tree.
for path in "$target"/*.c "$target"/*.h; do
	[ -f "$here/${path##*/}" ] || rm -f "$path"
done
for path in "$target"/fakernic/*.h; do
	[ -f "$top/firmware-spec/include/fakernic/${path##*/}" ] || rm -f "$path"
done

add_line "$tree/CMakeLists.txt" 1 "add_subdirectory(providers/erdma)" \
	"add_subdirectory(providers/fakernic)" \
	"add_subdirectory(providers/fakernic/man)"
add_line "$tree/kernel-headers/CMakeLists.txt" 2 "  rdma/erdma-abi.h" \
	"  rdma/fakernic-abi.h"
