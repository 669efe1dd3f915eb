#!/bin/sh
# docs.sh SWIFT [OUT [HOSTING_BASE]]: builds the documentation of all products that programs import as a static site, of the modules that `swift build` has
# built for debugging. Every warning of DocC is an error: a link that leads nowhere, a symbol that is not found.
#
# Without DocC's plugin, because the graphs that SwiftPM makes for it lack the symbols that the umbrella re-exports: all but a few.
set -eu
cd "$(dirname "$0")/.."
swift=$1
out=${2:-.build/docs}
base=${3:-}
tools=$(dirname "$(command -v "$swift")")
bin=$("$swift" build --show-bin-path)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every C module that a Swift module imports.
shims=$bin/CRoundtableShims.build/module.modulemap
test_shims=$bin/CRoundtableTestShims.build/module.modulemap
sqlite=.build/checkouts/GRDB.swift/Sources/GRDBSQLite/module.modulemap

# graphs MODULE RE-EXPORTED: writes the symbol graphs of a module, with the symbols of these modules as its own.
graphs() {
    module=$1 reexported=$2
    mkdir -p "$work/$module"
    "$tools/swift-symbolgraph-extract" -module-name "$module" -target "$(uname -m)-unknown-linux-gnu" -I "$bin/Modules" \
        -module-cache-path "$work/cache" -Xcc "-fmodule-map-file=$shims" -Xcc "-fmodule-map-file=$test_shims" \
        -Xcc "-fmodule-map-file=$sqlite" -minimum-access-level public -skip-synthesized-members -emit-extension-block-symbols \
        "-experimental-allowed-reexported-modules=$reexported" -output-dir "$work/$module"
    # Otherwise DocC takes comments of members that satisfy a protocol for inherited ones: it would neither show nor check them.
    names=$(echo "$reexported" | tr , '|')
    [ -z "$reexported" ] || sed -i -E "s/(\"docComment\":\{([^{}]*,)?\"module\":\")($names)\"/\1$module\"/g" "$work/$module"/*.symbols.json
}

# convert MODULE [OPTIONS…]: makes an archive of a module's symbols and guides.
convert() {
    module=$1
    shift
    "$tools/docc" convert "$work/catalogues/$module.docc" --additional-symbol-graph-dir "$work/$module" \
        --output-path "$work/$module.doccarchive" --fallback-display-name "$module" --fallback-bundle-identifier "$module" \
        --fallback-default-module-kind Library --enable-experimental-external-link-support --ide-console-output --warnings-as-errors \
        --hosting-base-path "$base" --enable-experimental-overloaded-symbol-presentation "$@"
}

graphs Roundtable RoundtableCore,RoundtableDelivery,RoundtableDerived,RoundtableDiagnostics,RoundtableFiles,RoundtableGate,RoundtableHistory,RoundtableKernel,RoundtableRoles
graphs RoundtableTestKit RoundtableProcesses
graphs RoundtableFiles RoundtableKernel
graphs RoundtableJobs ""
graphs RoundtableService ""
# The interface that users see, compared with docs/api.
python3 scripts/api.py "$work" ${API:---check}
[ -z "${API:-}" ] || exit 0
python3 scripts/guides.py catalogues "$work/catalogues"
convert Roundtable
for module in RoundtableJobs RoundtableService; do
    # Their comments link to guides and symbols of Roundtable's archive.
    sed -i -E 's#<doc:#<doc:/Roundtable/#g; s#``Roundtable/#``RoundtableCore/#g; s#``(SharedDatabase|WorkerEvent)\b#``/Roundtable/\1#g' "$work/$module"/*.symbols.json
    convert "$module" --dependency "$work/Roundtable.doccarchive"
done
convert RoundtableFiles
convert RoundtableTestKit --dependency "$work/Roundtable.doccarchive"

rm -rf "$out"
mkdir -p "$(dirname "$out")"
"$tools/docc" merge "$work"/*.doccarchive --synthesized-landing-page-name Roundtable \
    --synthesized-landing-page-kind Package --synthesized-landing-page-topics-style list --output-path "$out"
# DocC's site has no page at its root.
python3 scripts/docs-site.py landing "$out"
echo "The documentation is in $out. Serve it, because browsers do not run it from files: python3 -m http.server --directory $out"
