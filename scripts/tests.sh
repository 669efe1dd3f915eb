#!/usr/bin/env bash
# tests.sh SWIFT WHICH [FILTER]: runs the tests that `swift build --build-tests` has built.
#   WHICH is 'short', 'all' or 'part:SEED' (see Proof/RoundtableTestBasics); FILTER, a regular expression, leaves only the tests whose
#   names, such as RoundtableCoreTests.SuspensionTests/everything(), begin with a match.
#
# The unit tests run in three processes at the same time, in each one test after the other: tests that wait for each other's threads fail in one
# process by their deadlines. Then the tests with real processes, which measure time and leave a processor idle, and the walks through state machines,
# which give way to them. The whole output of each run is in .build/tests; here is its last line, and what has failed.
set -uo pipefail
cd "$(dirname "$0")/.."
swift=$1 which=$2 filter=${3:-}
logs=.build/tests
program=$("$swift" build --show-bin-path)/RoundtablePackageTests.xctest
mkdir -p "$logs"
rm -f "$logs"/*.log
failed="" hasRun=""

# Becomes the program with the tests of these targets, so it is called in the background alone.
start() {
    local name=$1 targets=$2 mode=$3
    shift 3
    # Both filters must match, and the program takes one: a lookahead stands for "and".
    local chosen="^(?:$targets)"
    [ -z "$filter" ] || chosen="(?=$filter)$chosen"
    # A shell has what it starts in the background ignore two signals of the terminal, and nohup the third.
    exec ${priority:-} env --default-signal=INT,QUIT,HUP ROUNDTABLE_TESTS="$which" "$program" --testing-library swift-testing $mode --filter "$chosen" "$@" >"$logs/$name.log" 2>&1
}

# Waits for one run, and shows how it went.
finish() {
    local name=$1 status=$2
    local line
    line=$(grep -aE 'Test run with [0-9]+ tests?' "$logs/$name.log" | tail -1)
    # With a filter, a run may have no test, which is an error of its own (69) to swift-testing. All runs together must have one.
    if [ -n "$filter" ] && [ "$status" = 69 ] && [[ $line == *"Test run with 0 tests"* ]]; then return; fi
    hasRun=1
    echo "$name: ${line:-no test ran (status $status)}"
    if [ "$status" != 0 ] || [ -z "$line" ]; then
        failed="$failed $name"
        grep -aE -A 4 '^✘ .*recorded an issue|^✘ Test .* failed|rror: ' "$logs/$name.log" | cut -c 1-600
        [ -n "$line" ] || tail -30 "$logs/$name.log"
    fi
}

# A run that is cut short leaves none of them.
trap 'kill $(jobs -p) 2>/dev/null' EXIT
start core 'Roundtable(?:Core|Delivery)Tests' --no-parallel --skip ModelTests &
core=$!
start tool 'Roundtable(?:Tool|TestKit|Service)Tests' --no-parallel &
tool=$!
start others 'Roundtable(?:Kernel|Gate|History|Derived|Diagnostics|Jobs)Tests' --no-parallel --skip ModelTests &
others=$!
wait $others; finish "others" $?
wait $tool; finish "tool" $?
wait $core; finish "core" $?
start processes 'RoundtableProcessTests' '' &
processes=$!
priority="nice -n 19" start walks 'Roundtable(?:Core|Gate|Kernel)Tests\..*ModelTests' '' &
walks=$!
wait $processes; finish processes $?
wait $walks; finish walks $?

if [ -z "$hasRun" ]; then
    echo "No test has a name that begins with a match of '$filter', such as 'RoundtableCoreTests\.SuspensionTests'." >&2
    exit 1
fi
[ -z "$failed" ] && exit 0
echo "failed:$failed. The whole output is in $logs." >&2
exit 1
