#!/bin/sh
# Compares the list of targets in docs/LAYOUT.md with what the package describes.
#   layout.sh          writes the list
#   layout.sh check    fails when it differs, or when the targets form a circle
set -eu
cd "$(dirname "$0")/.."
page=docs/LAYOUT.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One line for each target: its name, and what it imports of this package. Tests import what they test, and are left out.
${SWIFT:-swift} package describe >"$work/package"
awk '
    /^Targets:/ { inTargets = 1; next }
    !inTargets { next }
    /^    Name: / { name = $2; order[++count] = name; next }
    /^    Target dependencies:/ { inDependencies = 1; next }
    /^    [A-Z]/ { inDependencies = 0 }
    inDependencies && NF == 1 { imports[name] = imports[name] (imports[name] == "" ? "" : ", ") $1 }
    END {
        for (i = 1; i <= count; i++) if (order[i] !~ /Tests$/) print order[i] "|" imports[order[i]]
    }
' "$work/package" | LC_ALL=C sort >"$work/graph"
test -s "$work/graph" || { echo "the package describes no targets" >&2; exit 1; }

# tsort fails at a circle, and names it.
awk -F'|' '{ n = split($2, parts, ", "); print $1, $1; for (i = 1; i <= n; i++) print $1, parts[i] }' "$work/graph" | tsort >/dev/null

awk -F'|' '{ print "| " $1 " | " ($2 == "" ? "none of this package" : $2) " |" }' "$work/graph" >"$work/rows"
awk -v rows="$work/rows" '
    /^<!-- targets -->/ { print; getline; print; getline; print; while ((getline line < rows) > 0) print line; skipping = 1; next }
    /^<!-- end -->/ { skipping = 0 }
    !skipping
' "$page" >"$work/page"

if [ "${1:-}" = check ]; then
    cmp -s "$work/page" "$page" || {
        diff "$page" "$work/page" >&2 || true
        echo "$page lists other imports than the package has: sh scripts/layout.sh" >&2
        exit 1
    }
else
    cp "$work/page" "$page"
fi
