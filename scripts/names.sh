#!/bin/sh
# Fails if two files or folders differ only in the case of their names: on most Macs they would be one.
set -eu
cd "$(dirname "$0")/.."
git ls-files | awk -F/ '
    {
        path = ""
        for (i = 1; i <= NF; i++) {
            path = path (i > 1 ? "/" : "") $i
            name = tolower(path)
            if (name in paths && paths[name] != path) { print path " and " paths[name] " differ only in case" > "/dev/stderr"; failed = 1 }
            paths[name] = path
        }
    }
    END { exit failed }
'
