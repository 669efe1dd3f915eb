#!/usr/bin/env bash
# quick.sh SWIFT [FLAG OF swift build]…: builds, and runs the unit tests of the modules that differ from the last commit; if nothing does, those of the
# modules that the last commit changed.
set -euo pipefail
cd "$(dirname "$0")/.."
swift=$1
shift
touched=$({ git diff --no-renames --name-only HEAD; git ls-files --others --exclude-standard; } | sort -u)
[ -n "$touched" ] || touched=$(git diff --no-renames --name-only HEAD~1 HEAD)

# The tests of a module are in the target that is named after it, but for these.
targets=$(sed -nE 's#^(Sources|Tool|Proof|Tests)/([^/]+)/.*#\2#p' <<<"$touched" | sed -E '
    s/^Roundtable$/RoundtableCore/
    s/^CRoundtableShims$|^RoundtableModels$/RoundtableKernel/
    s/^RoundtableTables$/RoundtableHistoryTests\
RoundtableDerived/
    s/^RoundtableFiles$/RoundtableDelivery/
    s/^(RoundtableReplication|RoundtableToolSupport)$/RoundtableTool/
    s/^RoundtableUnitSupport$/RoundtableCore/
    s/^(RoundtableTestBasics|RoundtableTrials|CRoundtableTestSupport)$/RoundtableKernel/
    s/^(RoundtableProcesses|CRoundtableTestShims|roundtable-torture)$/RoundtableTestKit/
    s/Tests$//
    s/$/Tests/' | sort -u)
known=$(cd Tests && ls -d ./*Tests | sed 's#^\./##')
targets=$(grep -Fx "$known" <<<"$targets" | grep -v '^RoundtableProcessTests$' | paste -sd'|' -) || true
"$swift" build --build-tests "$@"
if [ -z "$targets" ]; then
    echo "no module with unit tests was changed"
    exit
fi
exec bash scripts/tests.sh "$swift" short "^(?:$targets)\\."
