#!/bin/sh
# Compiles the package and its examples as for each of Apple's platforms, on Linux: against stubs of the SDKs (Tests/AppleStubs).
# Usage: typecheck-apple.sh [SWIFTC], after `swift build`. Nothing is linked, and nothing runs.
#
# The compiler takes modules of the Linux SDK and the stubs beside them. `canImport` finds the stubs by itself. What it would ask of its
# target is decided in copies of the sources and of the stubs: `os(…)`, and the availability of declarations (scripts/apple-sources.py).
# The copies keep the lines, and messages name the originals. C is compiled for the platforms themselves, with headers of our own.
#
# | platform | SDK | what is compiled |
# | --- | --- | --- |
# | iOS | 18 | library, test kit, test support, Examples/App |
# | visionOS | 26, for visionOS 2 | library, test kit, Examples/App's shared code |
# | macOS | 15 | the same, the tool, the peers, Examples/Daemon and Examples/TestKit |
# | macOS-SDK26 | 26, for macOS 15 | library, test kit |
set -eu
cd "$(dirname "$0")/.."

swiftc=${1:-swiftc}
stubs=Tests/AppleStubs
products=$PWD/.build/debug
work=$PWD/.build/typecheck-apple
checkouts=$PWD/.build/checkouts

for module in GRDB ArgumentParser; do
    if [ ! -e "$products/Modules/$module.swiftmodule" ]; then
        echo "There is no build to take $module from: run 'swift build' first." >&2
        exit 1
    fi
done
rm -rf "$work"
mkdir -p "$work"

# refused PLATFORM FILE COMMAND…: fails unless the command, which compiles a file of Tests/AppleStubs/Refused, finds errors in exactly the lines that
# PLATFORM must refuse.
refused() {
    where=$1 source=$2
    shift 2
    expected=$(grep -nE "// not: (.*, )?$where(,|\$)" "$source" | cut -d: -f1)
    found=$("$@" 2>&1 | sed -nE 's/.*[Rr]efused\.(swift|c):([0-9]+):[0-9]+: error:.*/\2/p' | sort -nu)
    [ "$expected" = "$found" ] && return
    echo "$source: the stubs refuse the lines" $found "for $where, and should refuse" $expected. >&2
    return 1
}

# C is compiled for the platforms themselves. It sees the headers of Tests/AppleStubs/include, and SQLite's. The shims of the library are compiled
# for tvOS and watchOS, too, where more functions are prohibited than elsewhere. Unlike a Mac's, they are not platforms of the package.
status=0
mkdir -p "$work/headers"
for header in sqlite3.h sqlite3ext.h; do
    cp "$(echo "#include <$header>" | clang -E -x c - | sed -n "s/^# [0-9]* \"\(.*\/$header\)\".*/\1/p" | head -1)" "$work/headers/"
done

clang_for() {
    target=$1
    shift
    clang -target "arm64-apple-$target" -fsyntax-only -nostdlibinc -isystem "$stubs/include" -isystem "$work/headers" \
        -Wall -Wextra -Wno-unused-parameter -Wunguarded-availability -Werror "$@"
}

# compile_c TARGET FOLDER FLAGS…
compile_c() {
    target=$1 sources=$2
    shift 2
    for file in "$sources"/*.c; do
        clang_for "$target" "$@" -I "$sources/include" -I Sources/CRoundtableShims/include "$file" || {
            echo "$file does not compile for $target, as far as the stubs tell." >&2
            status=1
        }
    done
}

for target in ios18.0 ios18.0-simulator ios18.0-macabi macosx15.0 xros2.0 tvos18.0 watchos11.0; do
    compile_c "$target" Sources/CRoundtableShims
    refused "$target" "$stubs/Refused/refused.c" clang_for "$target" -ferror-limit=0 "$stubs/Refused/refused.c" || status=1
done
for target in ios18.0 macosx15.0 xros2.0; do
    for folder in Proof/CRoundtableTestShims Proof/CRoundtableTestSupport Proof/CRoundtableCheckpointVFS; do compile_c "$target" "$folder"; done
done
compile_c macosx15.0 Sources/CRoundtableLoadable -Wno-missing-field-initializers

# For Swift, the headers of the shims are read without what they declare for Linux.
for folder in Sources/CRoundtableShims Proof/CRoundtableTestShims Proof/CRoundtableTestSupport Proof/CRoundtableCheckpointVFS \
    Sources/CRoundtableLoadable; do
    shims=${folder##*/}
    mkdir -p "$work/shims/$shims"
    for header in "$folder/include"/*.h; do
        sed -E 's/^#(if|elif) defined\(__linux__\)/#\1 0/; s/defined\(__APPLE__\)/1/; s/^#ifdef __APPLE__/#if 1/' "$header" \
            >"$work/shims/$shims/$(basename "$header")"
    done
    printf 'module %s {\n    umbrella "."\n    export *\n}\n' "$shims" >"$work/shims/$shims/module.modulemap"
done

# Sets what a platform, as in the table above, is to the functions below.
platform() {
    platform=$1
    folder=$work/$platform
    os=${platform%-*}
    flags="-D TYPECHECK_$os"
    case $platform in visionOS | *-SDK26) flags="$flags -D TYPECHECK_SDK_26" ;; esac
    mkdir -p "$folder"
    python3 scripts/apple-sources.py "$platform" "$folder/Sources" Sources/* Tool/* Proof/[Rr]oundtable* "$stubs"/*
}

# stub OUT MODULE: compiles one stub of the platform to OUT.
stub() {
    "$swiftc" -emit-module -parse-as-library -swift-version 6 -suppress-warnings -module-name "$2" $flags \
        -I "$1" -emit-module-path "$1/$2.swiftmodule" "$folder/Sources/$2"/*.swift
}

# What the compiler of Swift is told of the platform, and where it finds modules: those of OUT first.
swiftc_for() {
    out=$1
    shift
    "$swiftc" -swift-version 6 -warnings-as-errors $flags -I "$out" -I "$folder" \
        -Xcc "-fmodule-map-file=$work/shims/CRoundtableShims/module.modulemap" "$@"
}

# compile WHAT OUT MODULE FOLDER FLAGS…: compiles the copy of a module's sources in FOLDER to OUT, so that the next one can import it.
compile() {
    what=$1 out=$2 module=$3 from=$4
    shift 4
    # In quotes, since a space ends a path there.
    find "$from" -name '*.swift' | sort | sed 's/.*/"&"/' >"$out/$module.files"
    if ! swiftc_for "$out" -emit-module -wmo -module-name "$module" -emit-module-path "$out/$module.swiftmodule" "$@" \
        "@$out/$module.files" 2>"$out/$module.log"; then
        sed "s#$folder/##g" "$out/$module.log" >&2
        echo "$what does not compile for $platform, as far as the stubs tell." >&2
        return 1
    fi
}

# What imports Foundation needs these flags.
on_foundation() {
    compile "$@" -I "$products/Modules" -I "$checkouts/GRDB.swift/Sources/GRDBSQLite" \
        -Xcc "-fmodule-map-file=$work/shims/CRoundtableTestShims/module.modulemap" \
        -Xcc "-fmodule-map-file=$work/shims/CRoundtableTestSupport/module.modulemap" \
        -Xcc "-fmodule-map-file=$work/shims/CRoundtableCheckpointVFS/module.modulemap" \
        -Xcc "-fmodule-map-file=$work/shims/CRoundtableLoadable/module.modulemap" \
        -Xfrontend -import-module -Xfrontend FoundationOnApple
}

# check TARGET: compiles a target of the package.
check() {
    module=$(echo "$1" | tr - _)
    on_foundation "$1" "$folder" "$module" "$folder/Sources/$1" -package-name roundtable
}

library() {
    platform "$1"
    for module in DarwinCalls Darwin FoundationOnApple MetricKit WidgetKit os; do stub "$folder" "$module"; done
    # There is no UIKit on macOS, and that is how the sources tell.
    if [ "$os" != macOS ]; then stub "$folder" UIKit; fi
    refused "$platform" "$stubs/Refused/Refused.swift" swiftc_for "$folder" -typecheck -parse-as-library \
        -Xfrontend -import-module -Xfrontend FoundationOnApple "$folder/Sources/Refused/Refused.swift"
    compile RoundtableKernel "$folder" RoundtableKernel "$folder/Sources/RoundtableKernel" -package-name roundtable
    for target in Gate Files Core Tables History Derived Delivery Roles Diagnostics "" Jobs Service Processes TestKit Trials; do check "Roundtable$target"; done
}

# example MODULE FLAGS FOLDER…: compiles one module of an example. Modules of examples are in a folder of their own, which is looked at first.
example() {
    module=$1 parse=$2
    shift 2
    mkdir -p "$folder/example/$module"
    for sources in "$@"; do
        python3 scripts/apple-sources.py "$platform" "$folder/example/$module" "Examples/$sources"
    done
    on_foundation "$module of Examples" "$folder/example" "$module" "$folder/example/$module" $parse
}

on_iOS() {
    library iOS
    check RoundtableTestSupport
    mkdir -p "$folder/example"
    for module in SwiftUI WidgetKit AppIntents BackgroundTasks; do stub "$folder/example" "$module"; done
    example ReadingList -parse-as-library App/Sources/ReadingList
    example ReadingListStore -parse-as-library App/Sources/ReadingListStore
    example ReaderApp -parse-as-library App/Xcode/App App/Xcode/Shared
    example ReaderWidget -parse-as-library App/Xcode/Widget App/Xcode/Shared
    example ReaderShare -parse-as-library App/Xcode/ShareExtension
}

on_visionOS() {
    library visionOS
    mkdir -p "$folder/example"
    example ReadingList -parse-as-library App/Sources/ReadingList
    example ReadingListStore -parse-as-library App/Sources/ReadingListStore
}

on_macOS() {
    library macOS
    for target in RoundtableLoadable RoundtableTestSupport RoundtableToolSupport RoundtableReplication RoundtableTool roundtable-peer; do check "$target"; done
    mkdir -p "$folder/example"
    example MeterShared -parse-as-library Daemon/Sources/MeterShared
    example meterd -parse-as-library Daemon/Sources/meterd
    example meter -parse-as-library Daemon/Sources/meter
    example Notebook -parse-as-library TestKit/Sources/Notebook
    example check_notebook "" TestKit/Sources/check-notebook
}

# Two at a time, which is what two cores are for.
(
    on_iOS
    library macOS-SDK26
) &
first=$!
(
    on_macOS
    on_visionOS
) &
wait $first || status=1
wait $! || status=1
[ $status = 0 ] || exit 1

touch "$work/done"
echo "The package compiles for iOS, macOS and visionOS, as far as the stubs of their SDKs tell."
