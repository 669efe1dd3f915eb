#!/usr/bin/env bash
# sanitizer.sh thread|address SWIFT [ARGUMENTS OF THE TESTS…]: builds the unit tests, and GRDB, with a sanitizer, and runs them. It fails
# when a test fails, and when the sanitizer reports anything. docs/TESTING.md says what it cannot see.
set -euo pipefail
kind=$1 swift=$2
shift 2
case $kind in
thread) short=tsan ;;
address) short=asan ;;
*) echo "there is no sanitizer '$kind'" >&2; exit 2 ;;
esac
folder=.build-$short
reports=$folder/report
# What Swift prints of a crash reads memory that the sanitizers watch.
export SWIFT_BACKTRACE=enable=no
"$swift" build --build-tests --sanitize="$kind" --scratch-path "$folder"
rm -f "$reports".*
# A space ends an option, so the paths are in quotes.
# Tests that fork go on in the child. The detector of lock cycles fails by a check of its own with as many locks as GRDB has.
export TSAN_OPTIONS="exitcode=66 log_path='$PWD/$reports' history_size=4 die_after_fork=0 detect_deadlocks=0"
# The leaks of a program that ends are no leaks, and the handler of SIGBUS is our own.
export ASAN_OPTIONS="exitcode=66 log_path='$PWD/$reports' detect_leaks=0 allow_user_segv_handler=1"
status=0
bash scripts/show-failures.sh "$folder/debug/RoundtablePackageTests.xctest" --testing-library swift-testing --no-parallel \
    --skip 'Roundtable(Process|Tool|Service)Tests' "$@" || status=$?
count=0
for report in "$reports".*; do
    [ -s "$report" ] || continue
    count=$((count + 1))
    cat "$report"
done
echo "$kind sanitizer: $count processes with reports"
[ "$count" = 0 ] || status=66
exit "$status"
