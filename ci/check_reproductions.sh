#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check_reproductions.sh REV: shows by today's qtests the bugs of the device of an
# older revision, as TAP. Each test must fail with the older device, with the
# expected message, and pass with today's. The older device is built once, in the
# cache. The tests do not set properties that it lacks (FAKERNIC_QTEST_WITHOUT).
set -u
. /src/ci/tap.sh
. /src/ci/qemu-few.sh
RUN_S=300

rev=$1
source=/cache/src/qemu-few-$rev
built=/cache/build/qemu-few-$rev
today=/cache/build/qemu
qtest=$today/tests/qtest/fakernic-test

build_old() {
    key=$(sha256sum </src/ci/qemu-few.sh)
    if [ "$(cat "$built/fakernic.key" 2>/dev/null)" != "$key" ]; then
        set -- /opt/sources/qemu/*.orig.tar.*
        unpack_few "$1" &&
            configure_few "/cache/src/device-$rev/qemu-hw/overlay.sh" &&
            echo "$key" >"$built/fakernic.key" || return 1
    fi
    ninja -C "$built" -j"$(nproc)" qemu-system-x86_64 && firmware_few
}

properties() { # qemu
    "$1" -device fakernic,help 2>/dev/null | sed -n 's/^  \([^=<]*\)=.*/\1/p' |
        sort
}

# Properties of today's device that the older one lacks: a|b|c.
missing() {
    properties "$today/qemu-system-x86_64" >"$tap_folder/today"
    properties "$built/qemu-system-x86_64" >"$tap_folder/old"
    comm -23 "$tap_folder/today" "$tap_folder/old" | paste -sd '|'
}

run() { # test
    timeout $RUN_S "$qtest" --tap -p "/x86_64/fakernic/$1"
}

# The test must fail with the older device, print 'words', and pass with today's.
reproduce() { # finding test words
    if QTEST_QEMU_BINARY=$built/qemu-system-x86_64 \
        FAKERNIC_QTEST_WITHOUT=$without run "$2" >"$log" 2>&1; then
        report 1 "$1: $2 fails with $rev"
    else
        grep -E "Bail out|ERROR:|QEMU death" "$log" | head -n 2 | cut -c1-150 |
            sed "s/^/# /"
        grep -qE -- "$3" "$log"
        report $? "$1: $2 fails with $rev: $3"
    fi
    QTEST_QEMU_BINARY=$today/qemu-system-x86_64 run "$2" >"$log" 2>&1
    report $? "$1: $2 passes with today's device"
}

build_old >"$log" 2>&1
report $? "QEMU with the device of $rev"
without=$(missing)
echo "# without $without"

answers_late='(longest|sleepy|since) <= MONITOR_US'
for way in doorbell command frame timer; do
    reproduce D1 "life/unplug/from-$way" 'QEMU death from signal'
done
reproduce D2 turn/monitor "$answers_late"
reproduce D3 cost/flush_global "$answers_late"
reproduce D3 cost/flush_frames "$answers_late"
reproduce D3 persist/scattered 'took <= MONITOR_US'
reproduce D4 life/quiet 'frames < QUIET_FRAMES'
reproduce D5 odp/fair 'answers <= FAIR_ANSWERS'
reproduce D5 cost/odp_flood 'cost_wanted\(&w\) == COST_WAITERS'
reproduce D6 peer/xrc-repeated-read 'owned_read\(&o, OTHER_BYTE\) == 0'
reproduce D6 peer/xrc-held-receive 'qtest_readb\(n->m->qts, other\) == 0'
reproduce D7 cost/rereg "$answers_late"
reproduce D7 cost/copies 'rules == 64'
reproduce D7 cost/moderation 'many <= 2 \* few'
reproduce D7 cost/destroy '<= 5 \* few'
reproduce D8 cost/memory 'taken <= COST_MEMORY'
reproduce D9 turn/blocked-wire 'cq_count\(&n, &s.cq\) == 1'
reproduce D10 peer/duplicate-naks 'qp_state\(.*\) == FAKERNIC_QPS_RTS'
reproduce D10 peer/stale-request "'eq_poll\(.*\)' should be FALSE"
reproduce D10 peer/reserved-opcode "'peer_next\(.*\)' should be TRUE"
reproduce D10 peer/changed-duplicate 'packet.psn == \(PEER_PSN \+ i\)'
reproduce D11 peer/short-queue 'k.frames < 2 \* k.taken'
reproduce D11 peer/silent-peer 'most <= first / 2'
reproduce D12 peer/shares 'before <= READ_FRAMES / 4'
reproduce D13 peer/slow-peer 'timeouts == 0'
finish
