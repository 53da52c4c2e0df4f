#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check.sh NAME CORPUS RUNS COMMAND...: what CI runs of one fuzz target, as TAP
# lines without a plan. First every input of the corpus, then RUNS more from a
# fixed seed. COMMAND is the fuzzer with the options that every run has.
# Either may take five minutes, or $TEST_TIMEOUT seconds. Exits 1 when something
# failed.
set -u

name=$1
corpus=$2
runs=$3
shift 3
limit=${TEST_TIMEOUT:-300}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

verdict() { # exit code, what
    if [ "$1" = 0 ]; then
        echo "ok - $name: $2"
        return
    fi
    echo "not ok - $name: $2"
    sed 's/^/# /' "$work/log" | tail -60
    for input in "$work"/found-*; do
        [ -e "$input" ] || continue
        echo "# $(basename "$input"), base64:"
        base64 "$input" | sed 's/^/# /'
    done
    failed=1
}

count=$(find "$corpus" -type f | wc -l)
[ "$count" -gt 0 ]
verdict $? "there is a corpus"

timeout -k 5 "$limit" "$@" -runs=0 -artifact_prefix="$work/found-" "$corpus" \
    >"$work/log" 2>&1
code=$?
# Read and executed, all of them: not only found.
grep -q "$count files found" "$work/log" || code=1
verdict $code "the $count inputs of the corpus"

mkdir "$work/new"
timeout -k 5 "$limit" "$@" -runs="$runs" -seed=1 -artifact_prefix="$work/found-" \
    "$work/new" "$corpus" >"$work/log" 2>&1
code=$?
grep -q "^Done $runs runs\|^#$runs" "$work/log" || code=1
verdict $code "$runs runs from seed 1"
exit $failed
