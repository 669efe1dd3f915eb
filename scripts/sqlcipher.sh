#!/usr/bin/env bash
# Puts SQLCipher in SQLite's place, for one command and the programs that it starts: a libsqlite3.so.0 that LD_LIBRARY_PATH finds first.
# Usage: sqlcipher.sh COMMAND… ; without a command: prints the folder of the library.
#
# It comes from the Python package sqlcipher3, whose one extension module is SQLCipher 4.19 on SQLite 3.53.4, with nothing else to link, and
# exports all of SQLite's functions. What it wants of Python is never called, and is stubbed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

version=0.6.4
declare -A hashes=(
    [x86_64]=8168f8799b3d63c36ace6aeec3bc78818a52af85a0e756e1b5963673ccb7af29
    [aarch64]=81fd0c4e64cd796c6234110871276a2eebdbbd8a991cf00fb9081a58e057fed8
)
machine=$(uname -m)
folder=$root/.build/sqlcipher-$version-$machine

fail() {
    echo "SQLCipher cannot be had for these tests: $1" >&2
    exit 1
}

# Installs a package of Debian, where that is possible.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    command -v apt-get >/dev/null 2>&1 || fail "'$1' is missing: install it."
    local sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "Installing $2 ..." >&2
    { $sudo apt-get update -qq && $sudo apt-get install -y -qq "$2" >/dev/null; } || fail "install '$2', which has '$1'."
}

build() {
    [ "$(uname)" = Linux ] || fail "it is for Linux; this is $(uname)."
    [ -n "${hashes[$machine]:-}" ] || fail "the package has no library for $machine."
    need python3 python3
    need nm binutils
    python3 -m pip --version >/dev/null 2>&1 || need pip3 python3-pip
    local compiler
    compiler=$(command -v clang || command -v cc) || fail "there is no C compiler."

    work=$folder.new.$$
    rm -rf "$work"
    mkdir -p "$work"
    trap 'rm -rf "$work"' EXIT
    echo "sqlcipher3==$version --hash=sha256:${hashes[$machine]}" >"$work/requirements.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
        --python-version 3.11 --implementation cp --platform "manylinux_2_28_$machine" \
        --dest "$work" -r "$work/requirements.txt" >&2 || fail "pip could not download sqlcipher3 $version. Run this where PyPI can be reached."
    python3 -m zipfile -e "$work"/sqlcipher3-*.whl "$work/wheel"
    mv "$work"/wheel/sqlcipher3/_sqlite3.*.so "$work/libsqlcipher3.so"
    rm -rf "$work/wheel" "$work"/*.whl

    # Functions and variables alike, as long as nobody calls them.
    nm -D --undefined-only "$work/libsqlcipher3.so" | awk '$2 ~ /^_?Py/ { print "void *" $2 "[64];" }' >"$work/stubs.c"
    "$compiler" -shared -fPIC -w -o "$work/libsqlite3.so.0" "$work/stubs.c" -Wl,-soname,libsqlite3.so.0 \
        -Wl,--no-as-needed -L"$work" -l:libsqlcipher3.so -Wl,-rpath,'$ORIGIN' || fail "its stubs do not link."
    rm "$work/stubs.c" "$work/requirements.txt"
    mv -T "$work" "$folder" 2>/dev/null || [ -e "$folder/libsqlite3.so.0" ] || fail "$folder cannot be written."
}

[ -e "$folder/libsqlite3.so.0" ] || build >&2
if [ $# = 0 ]; then
    echo "$folder"
    exit
fi
# Tests that need SQLCipher fail without it, instead of being skipped.
export ROUNDTABLE_SQLCIPHER=1
export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$@"
