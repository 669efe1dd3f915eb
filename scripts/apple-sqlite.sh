#!/usr/bin/env bash
# Puts a SQLite that is built as Apple's is in SQLite's place, for one command and the programs that it starts.
# Usage: apple-sqlite.sh VERSION COMMAND… ; without a command: prints the folder of the library.
#
# VERSION is 3.44 or 3.51. Apple's systems of 2024 have 3.43.2, and those of 2025 have 3.51.0; the nearest amalgamations that a Python package
# carries are these. That of sqlcipher3 is SQLite as it is, unless it is compiled with SQLITE_HAS_CODEC.
#
# The options are those that `PRAGMA compile_options` lists on macOS, without those that exist in Apple's sources alone or need another parser.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

fail() {
    echo "SQLite with Apple's options cannot be had for these tests: $1" >&2
    exit 1
}

wanted=${1:-}
case $wanted in
3.44) package=sqlean.py==0.21.8.5 hash=033a641f8b8146087a5879d8c9f373ae376bf463c00e8de728daff0c29be3bb7 source='*/sqlite/sqlite3.c' ;;
3.51) package=sqlcipher3==0.6.0 hash=a351ae630bd614c2c10ed898b420f7bc817e438153f683f88348c445d6b3a9b1 source='*/vendor/sqlite3.c' ;;
*) fail "'$wanted' is not 3.44 or 3.51." ;;
esac
shift
folder=$root/.build/apple-sqlite-$wanted

build() {
    [ "$(uname)" = Linux ] || fail "it is for Linux; this is $(uname)."
    local compiler sources
    compiler=$(command -v clang || command -v cc) || fail "there is no C compiler."
    sh "$root/scripts/dependencies.sh" python3 pip3:python3-pip
    work=$folder.new.$$
    rm -rf "$work"
    mkdir -p "$work"
    trap 'rm -rf "$work"' EXIT
    echo "$package --hash=sha256:$hash" >"$work/requirements.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --no-binary :all: \
        --dest "$work" -r "$work/requirements.txt" >&2 || fail "pip could not download $package. Run this where PyPI can be reached."
    tar -xzf "$work"/*.tar.gz -C "$work" --wildcards "$source"
    sources=$(find "$work" -name sqlite3.c)
    # sqlean.py's file ends with its own extensions.
    sed -i '/^#include "init.h"/,$d' "$sources"
    # Apple's refuses what would concern all connections of a process. The other options of a Linux distribution are kept, because
    # programs here have been compiled for them.
    cat >"$work/apple.c" <<'C'
#define sqlite3_auto_extension original_auto_extension
#define sqlite3_cancel_auto_extension original_cancel_auto_extension
#include "sqlite3.c"
#undef sqlite3_auto_extension
#undef sqlite3_cancel_auto_extension
SQLITE_API int sqlite3_auto_extension(void (*entry)(void)) { (void)entry; return SQLITE_MISUSE; }
SQLITE_API int sqlite3_cancel_auto_extension(void (*entry)(void)) { (void)entry; return 0; }
// Python's module is linked to them.
SQLITE_API int sqlite3_enable_load_extension(sqlite3 *db, int on) { (void)db; (void)on; return SQLITE_ERROR; }
SQLITE_API int sqlite3_load_extension(sqlite3 *db, const char *a, const char *b, char **c) { (void)db, (void)a, (void)b, (void)c; return SQLITE_ERROR; }
C
    "$compiler" -shared -fPIC -O2 -w -I"$(dirname "$sources")" -o "$work/libsqlite3.so.0" "$work/apple.c" -Wl,-soname,libsqlite3.so.0 \
        -DSQLITE_THREADSAFE=2 -DSQLITE_ENABLE_API_ARMOR -DSQLITE_ENABLE_SETLK_TIMEOUT -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_OMIT_AUTORESET \
        -DSQLITE_DEFAULT_JOURNAL_SIZE_LIMIT=32768 -DSQLITE_DEFAULT_CACHE_SIZE=2000 -DSQLITE_DEFAULT_WAL_SYNCHRONOUS=1 \
        -DSQLITE_MAX_MMAP_SIZE=1073741824 -DSQLITE_MAX_VARIABLE_NUMBER=500000 -DSQLITE_STMTJRNL_SPILL=131072 -DSQLITE_USE_URI \
        -DSQLITE_ENABLE_BYTECODE_VTAB -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_FTS3 \
        -DSQLITE_ENABLE_FTS3_PARENTHESIS -DSQLITE_ENABLE_FTS3_TOKENIZER -DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_NORMALIZE \
        -DSQLITE_ENABLE_PREUPDATE_HOOK -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_SNAPSHOT \
        -DSQLITE_ENABLE_STMT_SCANSTATUS -DSQLITE_ENABLE_UNKNOWN_SQL_FUNCTION -DHAVE_ISNAN \
        -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_SOUNDEX \
        -lm -lpthread || fail "it does not compile."
    find "$work" -mindepth 1 -maxdepth 1 ! -name libsqlite3.so.0 -exec rm -rf {} +
    # Another run may have moved its own there. A folder without the library is empty.
    rmdir "$folder" 2>/dev/null || true
    mv -T "$work" "$folder" 2>/dev/null || [ -s "$folder/libsqlite3.so.0" ] || fail "$folder cannot be written."
    rm -rf "$work"
}

[ -s "$folder/libsqlite3.so.0" ] || build >&2
if [ $# = 0 ]; then
    echo "$folder"
    exit
fi
# Tests of what is Apple's fail without it, instead of being skipped.
export ROUNDTABLE_APPLE_SQLITE=$wanted
export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$@"
