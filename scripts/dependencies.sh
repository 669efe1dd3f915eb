#!/bin/sh
# Makes sure of a Swift toolchain and of SQLite's header. Usage: dependencies.sh [SWIFT]
set -eu

swift=${1:-swift}
if ! command -v "$swift" >/dev/null 2>&1; then
    echo "Swift is missing: install Swift 6.1 or later (https://www.swift.org/install), and put it in PATH." >&2
    exit 1
fi

# On Apple systems SQLite comes with the SDK.
[ "$(uname)" = Linux ] || exit 0
[ -e /usr/include/sqlite3.h ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "SQLite's header is missing: install your distribution's SQLite development package (sqlite3.h)." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1; then
    sudo=sudo
else
    echo "SQLite's header is missing, and this is neither root nor sudo: run 'apt-get install libsqlite3-dev' as root." >&2
    exit 1
fi
echo "Installing libsqlite3-dev ..." >&2
if ! { $sudo apt-get update -qq && $sudo apt-get install -y -qq libsqlite3-dev >/dev/null; }; then
    echo "libsqlite3-dev could not be installed: run 'apt-get install libsqlite3-dev' where the network allows it." >&2
    exit 1
fi
