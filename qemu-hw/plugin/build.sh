#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# build.sh [--qemu BINARY] [--source FOLDER] [--work FOLDER] [OUT]
#
# Builds the plug-in for a QEMU of a Debian package, from the source of that
# package. Installed as fakernic-qemu-rebuild. Without OUT the result goes where
# the plug-in's loader looks: for root next to the loader, for other users below
# ~/.local/share/fakernic. Needs no root rights. See README.md for more.
set -eu

die() {
    echo "fakernic: $*" >&2
    exit 1
}

# The QEMU whose guests are of the architecture of this machine.
cpu=$(uname -m)
native=/usr/bin/qemu-system-$cpu

usage() {
    cat <<EOT
usage: fakernic-qemu-rebuild [--qemu BINARY] [--source FOLDER] [--work FOLDER] [OUT]

Builds fakernic's plug-in for a packaged QEMU.

  --qemu BINARY    of which QEMU ($native)
  --source FOLDER  has its source package's *.orig.tar.* and *.debian.tar.*;
                   without it they come from the mirrors that apt uses
  --work FOLDER    where to build, and what to keep (a temporary folder)
  OUT              where the result goes, other than to where it is found
EOT
    exit "$1"
}

qemu=$native
source=
work=
out=
while [ $# -gt 0 ]; do
    case $1 in
    --qemu | --source | --work)
        [ $# -ge 2 ] || usage 2 >&2
        eval "${1#--}=\$2"
        shift
        ;;
    --help | -h) usage 0 ;;
    -*) usage 2 >&2 ;;
    *) out=$1 ;;
    esac
    shift
done

here=$(dirname "$(readlink -f "$0")")
library=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null ||
    echo "$cpu-linux-gnu")/fakernic
if [ -z "$out" ]; then
    out=$library/qemu
    [ "$(id -u)" = 0 ] ||
        out=${XDG_DATA_HOME:-$HOME/.local/share}/fakernic/qemu
fi

# ---- what is needed --------------------------------------------------------

missing=
for tool in cc make meson ninja python3 pkg-config readelf patch xz flex bison \
    dpkg-buildflags; do
    command -v $tool >/dev/null || missing="$missing $tool"
done
for library_name in glib-2.0 zlib libdeflate libfdt; do
    case $library_name in
    libfdt) [ -e /usr/include/libfdt.h ] || missing="$missing libfdt" ;;
    *) pkg-config --exists $library_name 2>/dev/null ||
        missing="$missing $library_name" ;;
    esac
done
[ -z "$missing" ] || die "not found:$missing: apt install build-essential" \
    "pkgconf meson ninja-build python3-venv flex bison libglib2.0-dev" \
    "zlib1g-dev libfdt-dev libdeflate-dev"

# ---- which QEMU ------------------------------------------------------------

[ -x "$qemu" ] || die "no QEMU at $qemu: install Debian's package of" \
    "${qemu##*/}, or name another by --qemu"
qemu=$(readlink -f "$qemu")
build_id=$(readelf -n "$qemu" 2>/dev/null | sed -n 's/ *Build ID: //p')
[ -n "$build_id" ] || die "$qemu has no build id"
stamp=$(grep -ao 'qemu_stamp_[0-9a-f]*' "$qemu" | head -n 1)
[ -n "$stamp" ] || die "$qemu takes no modules: it is not a packaged QEMU." \
    "Put the device into its source: qemu-hw/README.md"
package=$(dpkg-query -S "$qemu" 2>/dev/null | cut -d: -f1)
[ -n "$package" ] || die "$qemu is of no Debian package"
name=$(dpkg-query -Wf '${source:Package}' "$package")
version=$(dpkg-query -Wf '${source:Version}' "$package")
# "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)"
pkgversion=$("$qemu" --version | sed -n '1s/.*version [^ ]* (\(.*\))/\1/p')
echo "for $name $version, build id $build_id"

if [ -z "$work" ]; then
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/fakernic-qemu.XXXXXX")
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
work=$(readlink -f "$work")
exec 9>"$work/lock"
flock 9
log=$work/build.log
: >"$log"

# Ends after a failure in a subshell, which has printed the reason. Keeps the log.
keep() {
    trap - EXIT
    exit 1
}

# Prints the duration of a step: on a terminal each second, elsewhere now and then.
ticks() { # pid
    passed=0
    while sleep 1 >/dev/null 2>&1 && kill -0 "$1" 2>/dev/null; do
        passed=$((passed + 1))
        if [ -t 1 ]; then
            printf '\r  %-44s %5ds so far' "$what" $passed
        elif [ $((passed % 30)) = 0 ]; then
            printf '  %-44s %5ds so far\n' "$what" $passed
        fi
    done
}

run() { # WHAT COMMAND...
    what=$1
    shift
    since=$(date +%s)
    ticks $$ 9>&- &
    ticker=$!
    code=0
    "$@" >>"$log" 2>&1 || code=$?
    kill $ticker 2>/dev/null || :
    wait $ticker 2>/dev/null || :
    if [ -t 1 ]; then
        printf '\r\033[K'
    fi
    printf '  %-44s %5ds\n' "$what" $(($(date +%s) - since))
    [ $code != 0 ] || return 0
    trap - EXIT
    die "$what failed: see $log"
}

# ---- its source ------------------------------------------------------------

# Fetches the source from apt's suites and mirrors, also if apt has no deb-src lines.
fetch() {
    source=$work/source
    mkdir -p "$source" "$work/lists/partial"
    apt-get indextargets --format \
        '$(SIGNED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' \
        'Created-By: Packages' | sort -u |
        while IFS='|' read -r key uri release component; do
            case $key in
            /*) option="[signed-by=$key] " ;;
            *) option= ;;
            esac
            echo "deb-src $option$uri $release $component"
        done >"$work/sources.list"
    cat >"$work/apt.conf" <<EOT
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "$(id -un)";
EOT
    export APT_CONFIG="$work/apt.conf"
    run "fetching the lists of sources" apt-get update --error-on=any
    # Some mirrors lack the .dsc, which "apt-get source" needs without these options.
    for part in --tar-only --diff-only; do
        (cd "$source" && run "fetching the source of $name $version" \
            apt-get source --download-only $part "$name=$version") || keep
    done
}

[ -n "$source" ] || fetch
# The version without its epoch. Below also without Debian's revision.
plain=${version#*:}
tar=$(ls "$source/${name}_${plain%-*}".orig.tar.* 2>/dev/null | head -n 1)
debian=$(ls "$source/${name}_$plain".debian.tar.* 2>/dev/null | head -n 1)
[ -n "$tar" ] && [ -n "$debian" ] || die "$source has not both of" \
    "${name}_${plain%-*}.orig.tar.* and ${name}_$plain.debian.tar.*"

unpack() {
    mkdir -p "$work/partial"
    tar -xf "$tar" -C "$work/partial" --strip-components=1 --no-same-owner &&
        tar -xf "$debian" -C "$work/partial" --no-same-owner || return 1
    (cd "$work/partial" && grep -v '^#' debian/patches/series |
        while read -r patch options; do
            [ -z "$patch" ] ||
                patch -p1 -s <"debian/patches/$patch" || exit 1
        done) || return 1
    # Python modules that only QEMU's tests and tools import.
    sed -i -e '/^pycotap /d' -e '/^\[tooling\]/,/^\[/{/^\[/!d}' \
        "$work/partial/pythondeps.toml" || return 1
    mv "$work/partial" "$tree"
}

tree=$work/$name-$plain
if [ ! -d "$tree" ]; then
    rm -rf "$work/partial"
    run "unpacking $tar" unpack
fi

# ---- its configuration -----------------------------------------------------

# configure gets only the options of the package that change the device
# (options.txt). All others can be omitted.
"$here/options.py" rules "$tree/debian" || exit 1
build=$work/build
configure() {
    rm -rf "$build"
    mkdir -p "$build"
    cd "$build" && "$tree/configure" --with-pkgversion="$pkgversion" \
        --target-list="$cpu-softmmu" --without-default-features \
        --disable-docs --disable-download --disable-install-blobs \
        --disable-tools --disable-containers --disable-strip \
        --enable-modules --enable-tcg --enable-kvm --enable-plugins \
        --extra-cflags="$(dpkg-buildflags --get CFLAGS) $(dpkg-buildflags --get CPPFLAGS)" &&
        ninja config-poison.h qapi/qapi-builtin-types.h &&
        echo "$version $pkgversion" >configured
}

if [ "$(cat "$build/configured" 2>/dev/null)" != "$version $pkgversion" ]; then
    (run "configuring $name" configure) || keep
fi
# A hash of version, package version and configure script.
found=$(sed -n 's/^#define CONFIG_STAMP /qemu_stamp/p' "$build/config-host.h")
[ "$found" = "$stamp" ] || die "$tar is not what $qemu was built from" \
    "(its modules are stamped $stamp, not $found)"
"$here/options.py" headers "$tree" "$build" || exit 1

# ---- the plug-in -----------------------------------------------------------

# The objects of each source folder are separate.
objects=$work/objects-$(echo "$here" | cksum | cut -d' ' -f1)
run "compiling the device" make -C "$here" -j"$(nproc)" QEMU_SRC="$tree" \
    QEMU_BUILD="$build" BUILD_ID="$build_id" OUT="$objects" \
    LDFLAGS="$(dpkg-buildflags --get LDFLAGS)"
install -d "$out" || die "cannot write to $out"
install -m 644 "$objects/$build_id.so" "$out/$build_id.so.new"
mv "$out/$build_id.so.new" "$out/$build_id.so"
# The loader is installed next to the folder, but only by the package.
if [ "${FAKERNIC_PLUGIN_LOADER:-}" ]; then
    install -m 644 "$objects/fakernic-qemu.so" "$FAKERNIC_PLUGIN_LOADER"
fi
echo "$out/$build_id.so"
