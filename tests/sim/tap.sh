#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Joins the TAP of $1 programs into one: renumbers, one plan line at the end. A
# program that died before its plan line counts as a failure.
exec awk -v programs="$1" '
/^1\.\.[0-9]+$/ { plans++; next }
/^(not )?ok / {
    bad += /^not /; n++
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
