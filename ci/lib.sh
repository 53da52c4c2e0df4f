# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared by the shell scripts here: where the cache is, how a step is shown,
# how a failure is shown (one line that says what to do), and the key of the
# Debian root. Sourced with $top set to the checkout; POSIX sh.

cache=${FAKERNIC_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/fakernic}
case $cache in
/*) ;;
*) cache=$PWD/$cache ;;
esac
suite=trixie
old_suite=bookworm

die() {
    echo "fakernic: $*" >&2
    exit 1
}

# Ends on an unknown architecture.
"$top/ci/arch.sh" name >/dev/null || exit 1

# Shows a long step. On a terminal its line is updated each second; elsewhere a
# line is printed now and then.
step_begin() {
    step_name=$1
    step_start=$(date +%s)
    step_ticks $$ 9>&- &
    step_ticker=$!
}

step_ticks() { # pid
    ticks=0
    while sleep 1 && kill -0 "$1" 2>/dev/null; do
        ticks=$((ticks + 1))
        if [ -t 1 ]; then
            printf '\r  %-44s %5ds so far' "$step_name" $ticks
        elif [ $((ticks % 30)) = 0 ]; then
            printf '  %-44s %5ds so far\n' "$step_name" $ticks
        fi
    done
}

step_clear() {
    kill "$step_ticker" 2>/dev/null || :
    wait "$step_ticker" 2>/dev/null || :
    if [ -t 1 ]; then
        printf '\r\033[K'
    fi
}

step_end() {
    step_clear
    printf '  %-44s %5ds\n' "$step_name" $(($(date +%s) - step_start))
}

step_fail() {
    step_clear
    die "$*"
}

# The lines of a kind for this architecture, filled in.
packages() { # build|guest|test|guest-test
    "$top/ci/arch.sh" --fill <"$top/ci/packages.txt" |
        sed -n "s/^$1\(-$("$top/ci/arch.sh" debian)\)\? //p" | tr '\n' ' '
}

# The key of the root's first stage. root-test.sh adds the second to any root.
root_key() {
    { sed '/^# Second stage/,$d' "$top/ci/packages.txt" | "$top/ci/arch.sh" --fill &&
        cat "$top/ci/root-setup.sh" "$top/ci/kernel.sh" &&
        "$top/ci/versions.sh" kernel main; } |
        sha256sum | cut -c1-12
}

root_dir() {
    echo "$cache/root-$(root_key)"
}

am_root() {
    [ "$(id -u)" = 0 ]
}
