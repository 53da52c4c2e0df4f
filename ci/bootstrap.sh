#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Makes the Debian 13 root in the cache: the build environment, the place
# where tests and virtual machines run, and the tree the guest image is cut
# from. Needs only sh and mmdebstrap (and uidmap when not root) on the host.
#
# The package mirror, the proxy and the Acquire options are the host's own,
# read from its apt configuration. FAKERNIC_MIRROR and
# FAKERNIC_SECURITY_MIRROR override the mirror. Does nothing when the root
# for this package list exists.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/ci/lib.sh"

root=$(root_dir)
log=$cache/log/bootstrap.log

[ -e "$root/.fakernic-ready" ] && exit 0

# ---- what the host must have -------------------------------------------

mkdir -p "$cache/log" 2>/dev/null ||
    die "cannot write to $cache: set FAKERNIC_CACHE to a folder you own"

exec 9>"$cache/bootstrap.lock"
flock 9
[ -e "$root/.fakernic-ready" ] && exit 0
: >"$log"

need_kb=12000000
free_kb=$(df -Pk "$cache" | awk 'NR == 2 { print $4 }')
[ "$free_kb" -ge $need_kb ] ||
    die "$cache has $((free_kb / 1000000)) GB free and $((need_kb / 1000000)) are needed: free some, or set FAKERNIC_CACHE to another disk"

apt_install() {
    step_begin "installing $* on this machine"
    { apt-get update && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "$@"; } >>"$log" 2>&1 ||
        step_fail "could not install $*: check the network and apt, see $log"
    step_end
}

command -v apt-get >/dev/null ||
    die "this machine has no apt-get: fakernic's build root needs a Debian 12 or 13 host"

if am_root; then
    mode=root
    command -v mmdebstrap >/dev/null || apt_install mmdebstrap
else
    mode=unshare
    missing=
    command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
    command -v newuidmap >/dev/null || missing="$missing uidmap"
    [ -z "$missing" ] ||
        die "missing tools: run 'sudo apt-get install$missing'"
    unshare --user --map-auto --map-root-user true 2>>"$log" ||
        die "user namespaces are not usable here: run as root, or enable them (kernel.unprivileged_userns_clone=1, a line for $(id -un) in /etc/subuid and /etc/subgid)"
fi

# ---- the host's mirror ---------------------------------------------------

host_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
etc=${FAKERNIC_APT_ETC:-/etc/apt}

# Prints "URI SUITE" for each binary source of the host, from both formats.
host_sources() {
    for f in "$etc"/sources.list "$etc"/sources.list.d/*.list; do
        [ -r "$f" ] || continue
        sed -e 's/#.*//' -e 's/\[[^]]*\]//' "$f" |
            awk '$1 == "deb" { print $2, $3 }'
    done
    for f in "$etc"/sources.list.d/*.sources; do
        [ -r "$f" ] || continue
        awk '
            function flush(    i, j) {
                if (types ~ /(^| )deb( |$)/ && enabled !~ /^(no|false|0)$/)
                    for (i = 1; i <= split(uris, u, " "); i++)
                        for (j = 1; j <= split(suites, s, " "); j++)
                            print u[i], s[j]
                types = uris = suites = enabled = field = ""
            }
            /^#/ { next }
            /^[ \t]*$/ { flush(); next }
            /^[ \t]/ { value = $0 }
            /^[^ \t]/ {
                field = tolower(substr($0, 1, index($0, ":") - 1))
                value = substr($0, index($0, ":") + 1)
            }
            {
                gsub(/^[ \t]+|[ \t]+$/, "", value)
                if (field == "types") types = types " " value
                if (field == "uris") uris = uris " " value
                if (field == "suites") suites = suites " " value
                if (field == "enabled") enabled = tolower(value)
            }
            END { flush() }' "$f"
    done
}

# A mirror+file: source names a file that lists mirrors; take its first.
resolve() {
    while read -r uri name; do
        case $uri in
        mirror+file:*) uri=$(awk '!/^#/ && NF { print $1; exit }' \
            "${uri#mirror+file:}" 2>/dev/null) ;;
        esac
        case $uri in
        http://* | https://* | file:*) echo "$uri $name" ;;
        esac
    done
}

sources=$(host_sources | resolve)
mirror=${FAKERNIC_MIRROR:-$(echo "$sources" |
    awk -v s="$host_suite" '$2 == s || $2 == "stable" { print $1; exit }')}
security=${FAKERNIC_SECURITY_MIRROR:-$(echo "$sources" |
    awk '$2 ~ /-security$/ { print $1; exit }')}
[ -n "$mirror" ] ||
    die "no Debian mirror found in $etc: set FAKERNIC_MIRROR to the address of one"

stanza() { # suite components types
    printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\n\n' \
        "$3" "$2" "$1"
}

write_sources() { # types, suites wanted: new, old
    stanza "$suite" "$mirror" "$1"
    if [ -n "$security" ]; then
        stanza "$suite-security" "$security" "$1"
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
write_sources "deb deb-src" >"$work/root.sources"
{
    stanza "$old_suite" "$mirror" deb
    if [ -n "$security" ]; then
        stanza "$old_suite-security" "$security" deb
    fi
} >"$work/old.sources"

# The proxy and the Acquire options that decide whether a mirror is accepted;
# retries, because a mirror may fail now and then. Descriptions are not needed.
printf '%s\n' 'Acquire::Retries "3";' 'Acquire::Languages "none";' \
    >"$work/host.conf"
apt-config dump | awk '
    /^Acquire::(http|https|ftp)::/ ||
    /^Acquire::(Check-Valid-Until|Check-Date|Retries|ForceIPv4|ForceIPv6|Max-ValidTime)/ {
        if ($2 != "\"\";") print
    }' >>"$work/host.conf"
proxy_env() { # variable apt-scheme
    eval "value=\${$1:-}"
    [ -z "$value" ] || echo "Acquire::$2::Proxy \"$value\";" >>"$work/host.conf"
}
proxy_env http_proxy http
proxy_env https_proxy https

# ---- the root ------------------------------------------------------------

if [ ! -e "$root/.fakernic-packages" ]; then
    rm_root() {
        if am_root; then
            rm -rf --one-file-system "$1"
        else
            unshare --user --map-auto --map-root-user rm -rf "$1"
        fi
    }
    [ ! -e "$root" ] || rm_root "$root"
    step_begin "Debian 13 root (packages, about 350 MB)"
    include=$(echo $(packages build) $(packages guest) | tr ' ' ',')
    set -- --mode=$mode --variant=minbase --include="$include" \
        --aptopt="$work/host.conf" \
        --aptopt='APT::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/etc/kernel/postinst.d/initramfs-tools' \
        --dpkgopt='force-unsafe-io' \
        --skip=cleanup/reproducible,cleanup/apt/lists
    fail="could not make the Debian root: check network and mirror ($mirror), see $log"
    # apt hands dash its descriptors by number: one above 9 is a syntax error
    # there, so none that this shell inherited may stay.
    exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&-
    if am_root; then
        # Only a finished tree gets the name: a killed run starts afresh.
        mmdebstrap "$@" $suite "$root" "$work/root.sources" >>"$log" 2>&1 ||
            step_fail "$fail"
    else
        # As a tar, because the sub-uid of mmdebstrap may not reach $cache.
        mkdir -p "$root"
        { mmdebstrap "$@" --skip=output/dev --format=tar $suite - \
            "$work/root.sources" || touch "$work/failed"; } 2>>"$log" |
            unshare --user --map-auto --map-root-user \
                tar -C "$root" --numeric-owner -xf - >>"$log" 2>&1 ||
            step_fail "$fail"
        [ ! -e "$work/failed" ] || step_fail "$fail"
    fi
    "$top/ci/enter.sh" --setup "$root" touch /.fakernic-packages
    step_end
fi

step_begin "sources (about 40 MB)"
mkdir -p "$cache/tmp"
cp "$work/root.sources" "$work/old.sources" "$work/host.conf" "$cache/tmp/"
"$top/ci/enter.sh" --setup "$root" /src/ci/root-setup.sh /cache/tmp \
    >>"$log" 2>&1 9>&- ||
    step_fail "could not fetch sources from $mirror: see the end of $log"
step_end

# Roots of earlier package lists are of no use any more.
for old in "$cache"/root-*; do
    if [ "$old" != "$root" ] && [ -d "$old" ]; then
        if am_root; then
            rm -rf --one-file-system "$old"
        else
            unshare --user --map-auto --map-root-user rm -rf "$old"
        fi
    fi
done
