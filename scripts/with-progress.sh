#!/usr/bin/env bash
# Runs a command that is silent for long, and prints every 20 seconds how long it has been running.
# Usage: with-progress.sh WHAT COMMAND…
set -u
what=$1
shift

tick() {
    local start=$SECONDS
    while sleep 20 >/dev/null 2>&1; do
        # The parent may have been killed without the chance to end this process.
        kill -0 $$ 2>/dev/null || exit
        echo "  … $what: $((SECONDS - start)) s" >&2
    done
}

tick &
ticker=$!
# `sleep` is a child of the ticker and ends by itself; it must not keep a pipe to the caller open.
trap 'kill $ticker 2>/dev/null; wait $ticker 2>/dev/null' EXIT
"$@"
