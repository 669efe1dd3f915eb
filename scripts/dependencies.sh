#!/bin/sh
# Makes sure of a Swift toolchain, of SQLite's header, and of programs that tests run. Usage: dependencies.sh [SWIFT [PROGRAM...]]
set -eu

swift=${1:-swift}
[ $# = 0 ] || shift
if ! command -v "$swift" >/dev/null 2>&1; then
    echo "Swift is missing: install Swift 6.1 or later (https://www.swift.org/install), and put it in PATH." >&2
    exit 1
fi

# On Apple systems SQLite comes with the SDK, and programs are not installed for you.
[ "$(uname)" = Linux ] || exit 0
missing=
[ -e /usr/include/sqlite3.h ] || missing=libsqlite3-dev
# PROGRAM is its name, which is that of Debian's package, too, or "name:package". Servers are where the superuser alone looks.
for program; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "${program%%:*}" >/dev/null 2>&1 || missing="$missing ${program##*:}"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Something is missing: install what your distribution has for Debian's packages $missing." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1; then
    sudo=sudo
else
    echo "Something is missing, and this is neither root nor sudo: run 'apt-get install $missing' as root." >&2
    exit 1
fi
echo "Installing $missing ..." >&2
# shellcheck disable=SC2086 # several words
if ! { $sudo apt-get update -qq && $sudo apt-get install -y -qq $missing >/dev/null; }; then
    echo "It could not be installed: run 'apt-get install $missing' where the network allows it." >&2
    exit 1
fi
