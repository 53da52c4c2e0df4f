#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# fetch-packages.sh TARGET STATUS PACKAGE... [-- PACKAGE...], inside the root:
# unpacks packages of Debian 13 below the folder TARGET. Those before "--" bring
# their dependencies along, except packages that dpkg's STATUS file lists. Those
# after "--" come without dependencies. Nothing is installed.
set -eu

target=$1
status=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

with= alone=
for package; do
    case $package in
    --) alone=' ' ;;
    *) [ -n "$alone" ] && alone="$alone $package" || with="$with $package" ;;
    esac
done

apt-get update --error-on=any
mkdir "$work/partial"
cp "$status" "$work/status"
if [ -n "$with" ]; then
    apt-get install --download-only --yes --no-install-recommends \
        -o Dir::State::status="$work/status" -o Dir::Cache::archives="$work" $with
fi
cd "$work"
[ -z "${alone# }" ] || apt-get download $alone
mkdir -p "$target"
for package in ./*.deb; do
    dpkg-deb -x "$package" "$target"
done
