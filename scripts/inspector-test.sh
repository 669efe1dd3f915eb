#!/usr/bin/env bash
# Builds the inspector and the tool, and runs the tests of Inspector/Tests. Usage: inspector-test.sh [ARGUMENT OF check.py …]
# SWIFT and BUILD_FLAGS are those of the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."
swift=${SWIFT:-swift}
read -ra flags <<<"${BUILD_FLAGS:-}"

version=$("$swift" --version 2>/dev/null | sed -n 's/.*Swift version \([0-9.]*\).*/\1/p')
if ! printf '%s\n' 6.2 "$version" | sort -C -V; then
    # What Hummingbird needs, the library does not.
    echo "The inspector is not tested: Hummingbird needs Swift 6.2 or later, and this is $version."
    exit
fi
sh scripts/dependencies.sh "$swift" python3 chromium
for product in roundtable roundtable-peer; do "$swift" build --product $product "${flags[@]}"; done
# In the build folder of the example, which has built Hummingbird, too.
build=Examples/Server/.build
bash scripts/with-progress.sh "building the inspector" "$swift" build --package-path Inspector --scratch-path "$build" -Xswiftc -warnings-as-errors
python3 Inspector/Tests/check.py "$build/debug/roundtable-inspector" .build/debug/roundtable .build/debug/roundtable-peer "$@"
