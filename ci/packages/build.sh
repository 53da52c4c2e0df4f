#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# build.sh NAME, inside the root: builds the Debian packages of
# ci/packages/NAME into /cache/packages.
# Does nothing when nothing that goes into them has changed. README.md says
# what the folder of a package holds.
set -eu

die() {
    echo "fakernic: $*" >&2
    exit 1
}

[ $# -eq 1 ] || die "usage: ci/packages/build.sh NAME"
[ "${FAKERNIC_ROOT:-}" = 1 ] ||
    die "build.sh runs inside the root: ci/enter.sh ci/packages/build.sh $*"
name=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
here=$top/ci/packages/$name
[ -f "$here/debian/control" ] ||
    die "no package '$name': one of $(cd "$top/ci/packages" &&
        ls -d */ | tr -d / | tr '\n' ' ')"

out=/cache/packages
scratch=/cache/build/package-$name
stamp=/cache/build/package-$name.stamp
log=/cache/log/package-$name.log

# One line each: a path of the checkout, or an absolute one of the root. @ROLE@
# stands for the kernel of that role.
main=$("$top/ci/versions.sh" kernel main)
old=$("$top/ci/versions.sh" kernel old)

inputs() {
    cat "$here/inputs" |
        sed -e 's/#.*//' -e '/^ *$/d' -e "s/@main@/$main/" -e "s/@old@/$old/" |
        "$top/ci/arch.sh" --fill
}

# The files of an input, without byte code and editors' backup files.
files_of() { # path
    find -L "$1" -name __pycache__ -prune -o -type f ! -name '*.pyc' \
        ! -name '*~' ! -name '.*.swp' -print | LC_ALL=C sort
}

# All that the bytes of a package depend on.
contents() {
    cd "$top"
    build_date
    # The root's packages. Of the second stage only those that build packages count.
    status=/opt/first-stage.status
    [ -e "$status" ] || status=/var/lib/dpkg/status
    sha256sum <"$status"
    dpkg-query -W build-essential debhelper 'dh-*' dkms dwz bash-completion python3-docutils \
        libdebhelper-perl libfile-stripnondeterminism-perl
    for input in ci/packages/build.sh ci/arch.sh ci/arches VERSION "ci/packages/$name" $(inputs); do
        files_of "$input" | tr '\n' '\0' | xargs -0r sha256sum
        # A package keeps which files are programs.
        find -L "$input" -type f -perm -100 -print | LC_ALL=C sort
    done
}

stage() {
    mkdir "$scratch/tree/debian"
    for file in "$here"/debian/*; do
        "$top/ci/arch.sh" --fill <"$file" >"$scratch/tree/debian/${file##*/}"
        chmod --reference="$file" "$scratch/tree/debian/${file##*/}"
    done
    cd "$top"
    for input in $(inputs); do
        case $input in
        /*) ln -s "$input" "$scratch/tree/${input##*/}" ;;
        *)
            files_of "$input" | tr '\n' '\0' |
                xargs -0r cp --parents -t "$scratch/tree"
            ;;
        esac
    done
}

# The date of a package, as of the bundle: $FAKERNIC_DATE, or the time of the newest
# commit, or of the file VERSION if there is no git history.
build_date() {
    if [ "${FAKERNIC_DATE:-}" ]; then
        echo "$FAKERNIC_DATE"
        return
    fi
    git -c safe.directory='*' -C "$top" log -1 --format=%ct 2>/dev/null ||
        stat -c %Y "$top/VERSION"
}

write_changelog() {
    version=$(cat "$top/VERSION")
    if [ -x "$here/version-suffix" ]; then
        version=$version$("$here/version-suffix" "$scratch/tree")
    fi
    source=$(sed -n 's/^Source: //p' debian/control)
    maintainer=$(sed -n 's/^Maintainer: //p' debian/control)
    cat >debian/changelog <<EOT
$source ($version) unstable; urgency=medium

  * Built from the fakernic repository.

 -- $maintainer  $(date -R -u -d "@$(build_date)")
EOT
}

cd "$top"
for input in $(inputs); do
    [ -e "$input" ] || die "package '$name': its input $input does not exist"
done
mkdir -p "$out" /cache/build /cache/log
exec 9>"/cache/build/package-$name.lock"
flock 9
key=$(contents | sha256sum | cut -d' ' -f1)
# The stamp file has the key, then the packages that were built with it.
if [ "$(head -n 1 "$stamp" 2>/dev/null)" = "$key" ] &&
    (cd "$out" && sed 1d "$stamp" | xargs -r ls) >/dev/null 2>&1; then
    exit 0
fi

start=$(date +%s)
if [ -f "$stamp" ]; then
    (cd "$out" && sed 1d "$stamp" | xargs -r rm -f)
fi
rm -rf "$stamp" "$scratch"
: >"$log"
mkdir -p "$scratch/tree"
stage
cd "$scratch/tree"
write_changelog
# No other variable of the caller reaches compilers and debhelper.
env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 SOURCE_DATE_EPOCH="$(build_date)" \
    DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc)" \
    dpkg-buildpackage -b -us -uc --no-sign >>"$log" 2>&1 9>&- ||
    die "package '$name' does not build: see ${FAKERNIC_HOST_CACHE:-/cache}/log/package-$name.log"
cp ../*.deb "$out/"
{
    echo "$key"
    cd ..
    ls -- *.deb
} >"$stamp.new"
mv "$stamp.new" "$stamp"
rm -rf "$scratch"
printf '  %-44s %5ds\n' "package $name" $(($(date +%s) - start))
