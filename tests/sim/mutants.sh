#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Proves that the oracle can fail: puts each bug of mutants.txt into a copy of one
# engine file, links it with the rest, and expects scenarios or swarm to fail. The
# class of histories that the line of the bug names is tried first, then all
# scenarios, then all classes for a while.
# Usage: mutants.sh SOURCE_DIR BUILD_DIR ENGINE_DIR [--full]; TAP on stdout.
# --full: reports for each bug whether scenarios and swarm find it.
set -u
here=$1 build=$2 engine=$3 full=${4:-}
root=$here/../..
work=$build/mutants
number=0
mkdir -p "$work"

objects() {     # folder source...
    folder=$1
    shift
    for source in "$@"; do
        echo "$build/opt/$folder/$(basename "$source" .c).o"
    done
}

plant() {       # name file command
    src=$work/$1.c
    sed "$3" "$engine/$2" >"$src"
    if cmp -s "$src" "$engine/$2"; then
        echo "# the sed command changes nothing in $2"
        return 1
    fi
    ${CC:-cc} -std=c11 -O1 -w -I"$engine" -I"$root/firmware-spec/include" \
        -c -o "$work/$1.o" "$src" || return 1
    # Objects of the existing sources only: there may be others of removed files.
    rest=$(objects roce "$engine"/*.c | grep -v "/${2%.c}\.o$")
    rest="$rest $build/opt/fault/rules.o"
    sim=$(objects sim "$here"/*.c | grep -v -e /swarm.o -e /scenarios)
    ${CC:-cc} -o "$work/$1-swarm" "$build/opt/sim/swarm.o" \
        "$work/$1.o" $rest $sim -ldeflate &&
        ${CC:-cc} -o "$work/$1-scenarios" \
            $(objects sim "$here"/scenarios*.c) "$work/$1.o" $rest $sim -ldeflate
}

# Does a program find the bug? Crashes (SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS)
# count, too. A hang does not, and neither does a program that could not run or was
# killed.
notices() {     # program arguments
    timeout "${TEST_TIMEOUT:-120}" "$@" >>"$log" 2>&1
    case $? in
    1 | 132 | 134 | 135 | 136 | 139) true ;;
    *) false ;;
    esac
}

found() {       # name class
    log=$work/$1.log by=
    : >"$log"
    if [ -n "$full" ]; then
        notices "$work/$1-scenarios" && by=scenarios
        notices "$work/$1-swarm" --seconds 20 && by="$by${by:+ and }swarm"
    elif notices "$work/$1-swarm" --class "$2" --histories 400; then
        by="class $2"
    elif notices "$work/$1-scenarios"; then
        by=scenarios
    elif notices "$work/$1-swarm" --seconds 20; then
        by=swarm
    fi
    rm -f "$work/$1-swarm" "$work/$1-scenarios"
    [ -n "$by" ]
}

while IFS='|' read -r name file class command; do
    case $name in '' | '#'*) continue ;; esac
    number=$((number + 1))
    if plant "$name" "$file" "$command" && found "$name" "$class"; then
        echo "ok $number - sim mutant $name: found by $by"
    else
        echo "not ok $number - sim mutant $name: not found"
    fi
done <"$here/mutants.txt"
echo "1..$number"
