#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# versions.sh KIND [ROLE...]: prints the versions of a kind from ci/versions, of
# these roles or of all, in the order of the list.
set -eu

kind=$1
shift
found=$(awk -v kind="$kind" -v roles=" $* " '
    $1 == kind && (roles == "  " || index(roles, " " $3 " ")) { print $2 }' \
    "$(dirname "$0")/versions")
if [ -z "$found" ]; then
    echo "versions.sh: ci/versions has no $kind of role ${*:-any}" >&2
    exit 1
fi
echo $found
