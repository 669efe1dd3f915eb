#!/bin/sh
# Type-checks the library as it is compiled for iOS and for macOS, on Linux: against stubs of the SDK (Tests/AppleStubs).
# Usage: typecheck-apple.sh [SWIFTC], after `swift build`.
#
# The compiler takes modules of the Linux SDK and the stubs beside them. `canImport` finds the stubs by itself; `os(…)` asks for
# the target, which is Linux: in a copy of the sources, those conditions ask for flags instead. The copies keep the lines, and
# messages name the originals.
set -eu
cd "$(dirname "$0")/.."

swiftc=${1:-swiftc}
stubs=Tests/AppleStubs
products=$PWD/.build/debug
work=$PWD/.build/typecheck-apple
shims=$products/CRoundtableShims.build/module.modulemap
grdb=$PWD/.build/checkouts/GRDB.swift

if [ ! -e "$products/Modules/GRDB.swiftmodule" ] || [ ! -e "$shims" ]; then
    echo "There is no build to take GRDB from: run 'swift build --target Roundtable' first." >&2
    exit 1
fi
rm -rf "$work"

# stub MODULE FOLDER FLAGS…: compiles one stub into FOLDER.
stub() {
    module=$1 folder=$2
    shift 2
    "$swiftc" -emit-module -parse-as-library -swift-version 6 -suppress-warnings -module-name "$module" \
        -emit-module-path "$folder/$module.swiftmodule" "$@" "$stubs/$module"/*.swift
}

# check PLATFORM MODULE FLAGS…: compiles a module's copy, and lets the next one import it.
check() {
    platform=$1 module=$2
    shift 2
    folder=$work/$platform
    mkdir -p "$folder/Sources"
    cp -R "Sources/$module" "$folder/Sources/$module"
    find "$folder/Sources/$module" -name '*.swift' -exec sed -E -i \
        '/^ *#(if|elseif) /s/(os|targetEnvironment)\(([A-Za-z]+)\)/TYPECHECK_\2/g' {} +
    find "$folder/Sources/$module" -name '*.swift' | sort >"$folder/$module.files"
    if ! "$swiftc" -typecheck -wmo -swift-version 6 -warnings-as-errors -package-name roundtable -module-name "$module" \
        -D "TYPECHECK_$platform" -I "$folder" \
        -Xcc "-fmodule-map-file=$shims" "$@" "@$folder/$module.files" 2>"$folder/$module.log"; then
        sed "s#$folder/##g" "$folder/$module.log" >&2
        echo "$module does not compile for $platform, as far as the stubs tell." >&2
        exit 1
    fi
}

kernel() {
    check "$1" RoundtableKernel
    "$swiftc" -emit-module -wmo -swift-version 6 -suppress-warnings -package-name roundtable \
        -module-name RoundtableKernel -emit-module-path "$work/$1/RoundtableKernel.swiftmodule" -D "TYPECHECK_$1" \
        -I "$work/$1" -Xcc "-fmodule-map-file=$shims" \
        "@$work/$1/RoundtableKernel.files"
}

library() {
    check "$1" Roundtable -I "$products/Modules" -I "$grdb/Sources/GRDBSQLite" \
        -Xfrontend -import-module -Xfrontend FoundationOnApple
}

for platform in iOS macOS; do
    mkdir -p "$work/$platform"
    stub DarwinCalls "$work/$platform"
    stub Darwin "$work/$platform" -I "$work/$platform"
    stub FoundationOnApple "$work/$platform" -I "$work/$platform" -D "TYPECHECK_$platform"
    stub MetricKit "$work/$platform"
    # There is no UIKit on macOS, and that is how the sources tell.
    [ "$platform" = macOS ] || stub UIKit "$work/$platform"
    kernel "$platform"
    library "$platform"
done

# The C shims, with the Linux headers and those of Apple's that they add.
for shim in Sources/CRoundtableShims/*.c; do
    clang -fsyntax-only -Wall -Wextra -Wno-unused-parameter -Werror -U__linux__ -D__APPLE__ \
        -I Sources/CRoundtableShims/include -I "$stubs/include" "$shim"
done

echo "The library compiles for iOS and macOS, as far as the stubs of their SDKs tell."
