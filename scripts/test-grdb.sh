#!/bin/sh
# Runs GRDB's own tests twice: on pools of GRDB (the control), and on shared databases. Compares the outcome of each test.
#
#     sh scripts/test-grdb.sh SWIFT [FLAG OF swift build]...
#
# The tests are those of the GRDB that the package resolves to, copied into the package Proof/GRDBSuite and patched there. A difference
# that docs/GRDB-SUITE.md does not list is a failure, and so is a listed one that does not occur, unless the test depends on time.
set -eu
cd "$(dirname "$0")/.."
swift=$1
shift
list=docs/GRDB-SUITE.md
package=Proof/GRDBSuite
tests=$package/.build/checkouts/GRDB.swift/Tests/GRDBTests
suite=$package/Tests
work=.build/grdb-suite-runs
export LC_ALL=C

prepare() {
    rm -rf "$suite"
    mkdir -p "$suite"
    "$swift" package --package-path "$package" resolve
    cp "$tests"/*.swift "$tests"/Betty.jpeg "$tests"/InflectionsTests.json "$tests"/Issue1383.sqlite "$tests"/db.SQLCipher3 "$suite"
    chmod -R u+w "$suite"
    cp "$package"/Additions/*.swift "$suite"
    # Each test passes through `Suite.begin`.
    sed -i.bak 's/^class GRDBTestCase: XCTestCase {$/&\
    override func setUpWithError() throws { try Suite.begin(name) }/' "$suite/GRDBTestCase.swift"
    grep -q 'Suite.begin' "$suite/GRDBTestCase.swift" || { echo "GRDBTestCase has another shape now: $0 cannot patch it." >&2; exit 1; }
    # Reading a snapshot of GRDB throws only what the closure throws; another reader can fail by itself.
    sed -i.bak 's/^\( *\)\(snapshot[12]*\.\(unsafeRead\|read\) {\)/\1try \2/' "$suite/DatabaseSnapshotTests.swift"
    rm -f "$suite"/*.bak
}

# The first column of the table under a heading of the list.
listed() {
    awk -v heading="## $1" '
        /^## / { inside = ($0 == heading) }
        inside && /^\| `/ { split($0, parts, "`"); print parts[2] }
    ' "$list" | sort
}

# Runs all tests that are not set aside. After a crash, runs those that remain: the test that crashed has failed.
run() {
    name=$1
    program=$2
    results=$work/$name.results
    : >"$results"
    cp "$work/aside" "$work/$name.leave-out"
    : >"$work/$name.log"
    while :; do
        mkdir -p "$work/$name.tmp"
        status=0
        TMPDIR=$PWD/$work/$name.tmp ROUNDTABLE_GRDB_LEAVE_OUT=$work/$name.leave-out "$program" >"$work/$name.part.log" 2>&1 || status=$?
        rm -rf "$work/$name.tmp"
        cat "$work/$name.part.log" >>"$work/$name.log"
        awk '
            FILENAME != ARGV[2] { out[$1] = 1; next }
            match($0, /Test Case \047[^\047]*\047 (started|passed|failed|skipped)/) {
                text = substr($0, RSTART, RLENGTH)
                split(text, parts, "\047")
                test = parts[2]
                sub(/^ /, "", parts[3])
                if (parts[3] == "started") { running = test; next }
                running = ""
                if (!(test in out)) print test, parts[3]
            }
            END { if (running != "") print running, "crashed" }
        ' "$work/$name.leave-out" "$work/$name.part.log" >"$work/$name.part.results"
        cat "$work/$name.part.results" >>"$results"
        grep -q ' crashed$' "$work/$name.part.results" || break
        awk '{ print $1 }' "$work/$name.part.results" >>"$work/$name.leave-out"
    done
    # Cases without a database, such as those of cursors, are not left out of a second run.
    sort -u "$results" -o "$results"
    [ -s "$results" ] || { echo "No test ran (status $status): see $work/$name.log" >&2; exit 1; }
}

count() { awk -v outcome="$2" '$2 == outcome || (outcome == "failed" && $2 == "crashed")' "$work/$1.results" | wc -l | tr -d ' '; }

prepare
"$swift" build --package-path "$package" --build-tests "$@"
program=$("$swift" build --package-path "$package" --build-tests "$@" --show-bin-path)/GRDBSuitePackageTests.xctest
rm -rf "$work"
mkdir -p "$work"
listed "Set aside" >"$work/aside"
listed "Differences" >"$work/listed"
listed "Depends on time" >"$work/either"

ROUNDTABLE_GRDB_CONTROL=1 run control "$program"
run shared "$program"

# A test that fails in the control as well says nothing of a shared database.
join -a 1 -a 2 -e missing -o 0,1.2,2.2 "$work/control.results" "$work/shared.results" |
    awk '{ $3 = ($3 == "crashed") ? "failed" : $3; $2 = ($2 == "crashed") ? "failed" : $2 } $2 != $3' >"$work/differences"
awk '{ print $1 }' "$work/differences" | comm -23 - "$work/either" >"$work/found"

for name in control shared; do
    echo "$name: $(count $name passed) passed, $(count $name failed) failed, $(count $name skipped) skipped by themselves"
done
sed -n "s/.*Shared database opened by '\(.*\)'.*/\1/p" "$work/shared.log" | sort -u >"$work/opened"
shared=$(wc -l <"$work/opened" | tr -d ' ')
both=$(join "$work/control.results" "$work/shared.results" | awk '$2 ~ /^(failed|crashed)$/ && $3 ~ /^(failed|crashed)$/' | wc -l | tr -d ' ')
echo "$shared tests opened a shared database, and $(join "$work/opened" "$work/shared.results" | grep -c ' passed$') of them passed;" \
    "$both fail on pools and on shared databases, $(wc -l <"$work/found" | tr -d ' ') differ," \
    "and $(wc -l <"$work/aside" | tr -d ' ') are set aside."
[ "$shared" -gt 0 ] || { echo "No test opened a shared database." >&2; exit 1; }

status=0
comm -23 "$work/found" "$work/listed" >"$work/new"
if [ -s "$work/new" ]; then
    status=1
    echo "These differ, and $list does not list them (test, control, shared):"
    grep -wFf "$work/new" "$work/differences"
    echo "What they say is in $work/shared.log."
fi
comm -13 "$work/found" "$work/listed" >"$work/stale"
if [ -s "$work/stale" ]; then
    status=1
    echo "$list lists these, and they do not differ:"
    cat "$work/stale"
fi
# Of what is set aside, the tests must exist.
sed -n "s/.*Test Case '\([^']*\)' started.*/\1/p" "$work/shared.log" | sort -u | comm -13 - "$work/aside" >"$work/gone"
if [ -s "$work/gone" ]; then
    status=1
    echo "$list sets these aside, and GRDB has no such tests:"
    cat "$work/gone"
fi
exit "$status"
