# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared by the fetch-*.sh here: a folder of their own, $work, and an apt that
# looks at other suites of the mirror that the root came from, and knows of no
# package that is installed. Sourced inside the root; POSIX sh.

work=$(mktemp -d)
trap 'rm -rf "$work" "${target:?}.partial"' EXIT
chmod 755 "$work"

other_suites() { # deb|deb-src suite...
    kind=$1
    shift
    mirror=$(awk '/^URIs:/ { print $2; exit }' \
        /etc/apt/sources.list.d/debian.sources)
    for suite; do
        printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\n\n' \
            "$kind" "$mirror" "$suite"
    done >"$work/new.sources"
    mkdir -p "$work/lists/partial"
    cat >"$work/apt.conf" <<EOT
Dir::Etc::sourcelist "$work/new.sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "/dev/null";
EOT
    export APT_CONFIG="$work/apt.conf"
    apt-get update --error-on=any
}
