#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Joins the TAP of $1 programs into one: renumbers, one plan line at the end. A
# program that died before its plan line counts as a failure, and one that says
# "#status N" when it had nothing but good news (a leak is found at the end).
exec awk -v programs="$1" '
/^1\.\.[0-9]+$/ { plans++; next }
/^#status / {
    if ($2 != 0 && !own) {
        n++; bad++
        print "not ok " n " - a program ended with " $2
    }
    own = 0
    next
}
/^(not )?ok / {
    bad += /^not /; own += /^not /; n++
    sub(/ok [0-9]+/, "ok " n)
}
{ print; fflush() }
END {
    if (plans != programs) {
        n++; bad++
        print "not ok " n " - a program ended before its plan"
    }
    print "1.." n
    exit bad != 0
}'
