#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Checks the device in newer QEMUs and prints TAP. overlay.sh puts it into the
# source of each and must change nothing else there (check_overlay.py). The device
# must build without a warning and pass its qtests. An argument is a version,
# whose source comes from Debian's development suites, or the tar of a release by
# its path inside the root: /cache/qemu-11.1.1.tar.xz. QEMU is configured with no
# more than the qtests need. Source and build are removed after the test; with
# FAKERNIC_KEEP=1 they stay.
set -u
. /src/ci/tap.sh
. /src/ci/qemu-few.sh
RUN_S=1200

unpack() { # version|tar
    tar=$1
    case $1 in
    /*) ;;
    *)
        /src/ci/fetch-source.sh qemu "$1" || return 1
        tar=$(ls /opt/sources/qemu-"${1%%.*}"/qemu_"$1"[.+]*.orig.tar.* | tail -n 1)
        ;;
    esac
    unpack_few "$tar"
}

compile() {
    ninja -C "$built" -j"$(nproc)" qemu-system-x86_64 \
        tests/qtest/fakernic-test || return 1
    ! grep -A5 'warning:' "$log" | grep -qF fakernic
}

run_qtests() {
    firmware_few
    cd "$built" && QTEST_QEMU_BINARY=./qemu-system-x86_64 \
        timeout $RUN_S tests/qtest/fakernic-test --tap
}

for wanted in "$@"; do
    version=${wanted##*/qemu[-_]}
    version=${version%[.+]*orig.tar.*}
    version=${version%.tar.*}
    version=${version%+*}
    source=/cache/src/qemu-few-$version
    built=/cache/build/qemu-few-$version
    unpack "$wanted" >"$log" 2>&1
    code=$?
    report $code "the source of QEMU $version is there"
    [ $code = 0 ] || continue
    /src/ci/check_overlay.py "$source" >"$log" 2>&1
    report $? "overlay.sh puts the device into it, and nothing else"
    configure_few /src/qemu-hw/overlay.sh >"$log" 2>&1
    report $? "it is configured"
    compile >"$log" 2>&1
    report $? "it builds, the device without a warning"
    run_qtests >"$log" 2>&1
    code=$?
    echo "# qtests of $version: $(grep -c '^ok ' "$log") passed," \
        "$(grep -c '^not ok ' "$log") failed"
    report $code "its qtests pass"
    cp "$log" "/cache/log/qtest-$version.log"
    cd /
    [ -n "${FAKERNIC_KEEP:-}" ] || rm -rf "$source" "$built"
done
finish
