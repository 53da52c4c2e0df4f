#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# arch.sh FACT: prints a fact of this machine's architecture from ci/arches.
# arch.sh --fill <TEXT: prints the text with each @FACT@ replaced by that fact.
set -eu

table=$(dirname "$0")/arches
cpu=$(uname -m)
facts=$(awk -v cpu="$cpu" '
    /^#/ || NF == 0 { next }
    $1 == "cpu" { for (i = 2; i <= NF; i++) if ($i == cpu) column = i }
    column { print $1, $column == "-" ? "" : $column }' "$table")
if [ -z "$facts" ]; then
    echo "fakernic: this machine is $cpu: use one of" \
        "$(sed -n 's/^cpu  *//p' "$table" | sed 's/  */, /g')" >&2
    exit 1
fi
if [ "${1:-}" = --fill ]; then
    sed "$(echo "$facts" | sed 's/^\([^ ]*\) \(.*\)/s|@\1@|\2|g/')"
elif echo "$facts" | grep -q "^${1:-} "; then
    echo "$facts" | sed -n "s/^$1 //p"
else
    echo "fakernic: ci/arches has no fact '${1:-}'" >&2
    exit 1
fi
