# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared by the fetch-*.sh here: a folder of their own, $work, and an apt that
# uses other suites of the root's mirror, or the root's own suites, and that has no
# installed packages. If $arch is set, its packages are those of that architecture.
# Sourced inside the root; POSIX sh.

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
    own_apt
    apt-get update --error-on=any
}

# The caller completes $work/apt.conf and updates.
suites_of_root() {
    sed 's/^Types:.*/Types: deb/' /etc/apt/sources.list.d/debian.sources \
        >"$work/new.sources"
    own_apt
}

own_apt() {
    mkdir -p "$work/lists/partial"
    cat >"$work/apt.conf" <<EOT
Dir::Etc::sourcelist "$work/new.sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "/dev/null";
EOT
    native=$(dpkg --print-architecture)
    [ "${arch:-"$native"}" = "$native" ] || foreign_apt
    export APT_CONFIG="$work/apt.conf"
}

# The build tools in the kernel's headers are of the architecture of this machine.
foreign_apt() {
    cat >>"$work/apt.conf" <<EOT
APT::Architecture "$arch";
APT::Architectures { "$arch"; "$native"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
EOT
}
