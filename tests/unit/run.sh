#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh PROGRAM...: runs TAP programs and joins their output under one plan.
# A program that ends without its plan, or with an error that no test reported (a
# sanitizer's, a leak), is a failed test of its own. Exits 1 if one failed.
# EMULATOR=qemu-s390x runs programs of that architecture.

limit=${TEST_TIMEOUT:-120}
for program; do
    echo "#program ${program##*/test_}"
    timeout -k 5 "$limit" $EMULATOR "$program" 2>&1
    echo "#status $?"
done | awk '
    function fail(why) {
        printf "not ok %d - %s: %s\n", ++n, name, why
        failed++
    }
    /^#program / { name = $2; plan = 0; own = 0; next }
    /^#status / {
        if ($2 == 124) fail("time limit")
        else if ($2 != 0 && !own) fail("exit status " $2)
        else if (!plan) fail("ended early")
        next
    }
    /^1\.\.[0-9]+$/ { plan = 1; next }
    /^(not )?ok [0-9]+ - / {
        good = $1 == "ok"
        if (!good) { failed++; own++ }
        sub(/^(not )?ok [0-9]+ - /, "")
        printf "%s %d - %s: %s\n", good ? "ok" : "not ok", ++n, name, $0
        next
    }
    /^#/ { print; next }
    { print "# " $0 }
    END {
        printf "1..%d\n", n
        exit failed != 0 || n == 0
    }'
