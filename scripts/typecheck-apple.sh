#!/bin/sh
# Compiles the library and Examples/App as for iOS, and the whole package as for macOS, on Linux: against stubs of the SDKs (Tests/AppleStubs).
# Usage: typecheck-apple.sh [SWIFTC], after `swift build`. Nothing is linked, and nothing runs.
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
checkouts=$PWD/.build/checkouts

for module in GRDB ArgumentParser; do
    if [ ! -e "$products/Modules/$module.swiftmodule" ]; then
        echo "There is no build to take $module from: run 'swift build' first." >&2
        exit 1
    fi
done
rm -rf "$work"

# stub PLATFORM MODULE: compiles one stub.
stub() {
    "$swiftc" -emit-module -parse-as-library -swift-version 6 -suppress-warnings -module-name "$2" -D "TYPECHECK_$1" \
        -I "$work/$1" -emit-module-path "$work/$1/$2.swiftmodule" "$stubs/$2"/*.swift
}

# check PLATFORM TARGET FLAGS…: compiles a target's copy, so that the next one can import it.
check() {
    platform=$1 target=$2
    shift 2
    folder=$work/$platform
    module=$(echo "$target" | tr - _)
    mkdir -p "$folder/Sources"
    cp -R "Sources/$target" "$folder/Sources/$target"
    find "$folder/Sources/$target" -name '*.swift' -exec sed -E -i \
        '/^ *#(if|elseif) /s/(os|targetEnvironment)\(([A-Za-z]+)\)/TYPECHECK_\2/g' {} +
    # In quotes, since a space ends a path there.
    find "$folder/Sources/$target" -name '*.swift' | sort | sed 's/.*/"&"/' >"$folder/$module.files"
    if ! "$swiftc" -emit-module -wmo -swift-version 6 -warnings-as-errors -package-name roundtable -module-name "$module" \
        -emit-module-path "$folder/$module.swiftmodule" -D "TYPECHECK_$platform" -I "$folder" \
        -Xcc "-fmodule-map-file=$products/CRoundtableShims.build/module.modulemap" "$@" \
        "@$folder/$module.files" 2>"$folder/$module.log"; then
        sed "s#$folder/##g" "$folder/$module.log" >&2
        echo "$target does not compile for $platform, as far as the stubs tell." >&2
        exit 1
    fi
}

# The same, for what imports Foundation.
check_on_foundation() {
    check "$@" -I "$products/Modules" -I "$checkouts/GRDB.swift/Sources/GRDBSQLite" \
        -Xcc "-fmodule-map-file=$products/CRoundtableTestShims.build/module.modulemap" \
        -Xcc "-fmodule-map-file=$products/CRoundtableTestSupport.build/module.modulemap" \
        -Xfrontend -import-module -Xfrontend FoundationOnApple
}

for platform in iOS macOS; do
    mkdir -p "$work/$platform"
    for module in DarwinCalls Darwin FoundationOnApple MetricKit WidgetKit os; do stub "$platform" "$module"; done
    # There is no UIKit on macOS, and that is how the sources tell.
    if [ "$platform" = iOS ]; then stub iOS UIKit; fi
    check "$platform" RoundtableKernel
    for target in Files Core Tables History Extensions Delivery Diagnostics "" Jobs; do
        check_on_foundation "$platform" "Roundtable$target"
    done
done
for target in RoundtableC RoundtableTestKit RoundtableTestSupport RoundtableTool roundtable-peer; do check_on_foundation macOS "$target"; done

# example MODULE FOLDER…: compiles one module of Examples/App. Its stubs, and its modules, are in a folder of their own, which is looked at first.
ios=$work/iOS
app=$work/app
example() {
    module=$1
    shift
    mkdir -p "$app/$module"
    for folder in "$@"; do cp "Examples/App/$folder"/*.swift "$app/$module/"; done
    if ! "$swiftc" -emit-module -wmo -parse-as-library -swift-version 6 -warnings-as-errors -module-name "$module" \
        -emit-module-path "$app/$module.swiftmodule" -I "$app" -I "$ios" -I "$products/Modules" \
        -I "$checkouts/GRDB.swift/Sources/GRDBSQLite" \
        -Xcc "-fmodule-map-file=$products/CRoundtableShims.build/module.modulemap" \
        -Xfrontend -import-module -Xfrontend FoundationOnApple "$app/$module"/*.swift 2>"$app/$module.log"; then
        sed "s#$app/##g" "$app/$module.log" >&2
        echo "$module of Examples/App does not compile for iOS, as far as the stubs tell." >&2
        exit 1
    fi
}

mkdir -p "$app"
for module in SwiftUI WidgetKit AppIntents BackgroundTasks; do
    "$swiftc" -emit-module -parse-as-library -swift-version 6 -suppress-warnings -module-name "$module" -D TYPECHECK_iOS \
        -I "$app" -emit-module-path "$app/$module.swiftmodule" "$stubs/$module"/*.swift
done
example ReadingList Sources/ReadingList
example ReadingListStore Sources/ReadingListStore
example ReaderApp Xcode/App Xcode/Shared
example ReaderWidget Xcode/Widget Xcode/Shared
example ReaderShare Xcode/ShareExtension

# The C shims, with the Linux headers and those of Apple's that they add.
for shim in Sources/CRoundtableShims/*.c; do
    clang -fsyntax-only -Wall -Wextra -Wno-unused-parameter -Werror -U__linux__ -D__APPLE__ \
        -I Sources/CRoundtableShims/include -I "$stubs/include" "$shim"
done

echo "The package compiles for iOS and macOS, and Examples/App for iOS, as far as the stubs of their SDKs tell."
