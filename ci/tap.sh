# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared by the checks here that print TAP: a check writes to $log, then calls
# report, and finish at its end. Sourced inside the root; POSIX sh.

tap_count=0
tap_failed=0
tap_folder=$(mktemp -d)
log=$tap_folder/log
: >"$log"

# Prints a line now and then while a command runs.
tap_ticks() {
    while sleep 30 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        echo "# $(($(date +%s) - tap_start))s:" \
            "$(tail -n 1 "$log" 2>/dev/null | cut -c1-90)"
    done
}

tap_start=$(date +%s)
tap_ticks &
tap_ticker=$!
trap 'kill $tap_ticker 2>/dev/null; rm -rf "$tap_folder"' EXIT

# The last lines of the log follow a test that failed.
report() { # exit-code name
    tap_count=$((tap_count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_count - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
        tail -n 30 "$log" | sed 's/^/# /'
    fi
}

# Headers and image of a kernel: of the root, or fetched later.
kernel_folder() { # series
    if [ -e "/opt/kernels/$1" ]; then
        echo "/opt/kernels/$1"
    else
        echo "/cache/kernels/$1"
    fi
}

finish() {
    echo "1..$tap_count"
    [ "$tap_failed" = 0 ]
}
