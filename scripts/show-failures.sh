#!/usr/bin/env bash
# Runs a command that tests. When it fails, says once more at the end what has failed: the output is long, and its end is what is looked at.
set -o pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log" && exit 0
status=$?
echo "What failed, of the above:"
grep -A 4 -E '^✘ .*recorded an issue|^✘ Test .* failed|error: ' "$log" | cut -c 1-600
exit "$status"
