#!/usr/bin/env bash
# Builds the examples and runs them as their READMEs say.
# Usage: examples.sh [SWIFT …]
set -euo pipefail
cd "$(dirname "$0")/../Examples/App"
swift=("${@:-swift}")

folder=$(mktemp -d)
app=
trap '[ -z "$app" ] || kill "$app" 2>/dev/null || true; rm -rf "$folder"' EXIT

fail() {
    echo "examples.sh: $1" >&2
    exit 1
}

# expect TEXT COMMAND…: the output begins with TEXT.
expect() {
    local output
    output=$("${@:2}") || fail "'${*:2}' has failed: $output"
    [[ $output == "$1"* ]] || fail "'${*:2}' printed '$output' in place of '$1'"
    echo "$output"
}

end() {
    kill "$app"
    wait "$app" 2>/dev/null || true
    app=
}

# The first three share a build folder, so that the library is built once. That of the server has another trait.
build=(build --scratch-path ../.build -Xswiftc -warnings-as-errors)
programs=../.build/debug

# An app, its widget and its share extension.
bash ../../scripts/with-progress.sh "building the example of the app" "${swift[@]}" "${build[@]}" --build-tests
expect "waiting" $programs/share "$folder/reading" https://swift.org
expect "Open the app first." $programs/widget "$folder/reading"
[[ $($programs/app "$folder/reading" <<<list) == *"1     swift.org"* ]] || fail "the app does not list the link that was shared"
expect "1 unread" $programs/widget "$folder/reading"
expect "0 unread" $programs/widget "$folder/reading" read 1
bash ../../scripts/show-failures.sh "${swift[@]}" test --scratch-path ../.build --skip-build --no-parallel

# Neither GRDB nor SQLite in the widget and the share extension, and the check can tell.
nm $programs/app | grep sqlite3_ >/dev/null || fail "nm finds no SQLite in the app, which has it"
for program in widget share; do
    if nm "$programs/$program" | grep -E 'sqlite3_|4GRDB'; then fail "'$program' is linked with SQLite or GRDB"; fi
    if ldd "$programs/$program" 2>/dev/null | grep sqlite; then fail "'$program' loads SQLite"; fi
done
echo "The widget and the share extension have neither SQLite nor GRDB in them."

# Somebody else's database code: the right way is clean, and the wrong way is found.
cd ../TestKit
bash ../../scripts/with-progress.sh "building the example of the test kit" "${swift[@]}" "${build[@]}"
$programs/check-notebook || fail "the right code has failed"
if output=$($programs/check-notebook --naive); then fail "the wrong code was not found: $output"; fi
[[ $output == *"lost write"* && $output == *"to run it again: ROUNDTABLE_SEED="* ]] || fail "the wrong code failed otherwise: $output"
echo "${output%%$'\n'*}"

# A daemon that follows the settings that a tool changes.
cd ../Daemon
bash ../../scripts/with-progress.sh "building the example of the daemon" "${swift[@]}" "${build[@]}"
expect "Nothing was measured yet" $programs/meter show "$folder/load.sqlite"
$programs/meterd "$folder/load.sqlite" >"$folder/log" &
app=$!
until $programs/meter every "$folder/load.sqlite" 50; do
    [ "$SECONDS" -lt 600 ] || fail "the interval cannot be set: $(cat "$folder/log")"
    sleep 0.1
done
followed=$(timeout 60 $programs/meter follow "$folder/load.sqlite" --count 5) || fail "the tool does not see measurements"
[ "$(grep -c load <<<"$followed")" = 5 ] || fail "the tool has seen '$followed'"
end
[[ $(tail -n 1 "$folder/log") == "meterd has ended." ]] || fail "the daemon has not ended well: $(cat "$folder/log")"
grep -x "every 50 ms" "$folder/log" || fail "the daemon has not followed its settings: $(cat "$folder/log")"
[ "$($programs/meter show "$folder/load.sqlite" --count 2 | wc -l)" = 2 ] || fail "the tool shows nothing"

# SQLiteData in two processes. What it depends on is not to be had everywhere.
cd ../SQLiteData
if ! "${swift[@]}" package --scratch-path ../.build-sqlite-data resolve >"$folder/resolve" 2>&1; then
    echo "Examples/SQLiteData is skipped: what it depends on cannot be fetched here: $(grep -m 1 error "$folder/resolve" || tail -n 1 "$folder/resolve")"
else
    bash ../../scripts/with-progress.sh "building the example with SQLiteData" "${swift[@]}" build --scratch-path ../.build-sqlite-data
    reminders=../.build-sqlite-data/debug/reminders
    stdbuf -oL "$reminders" "$folder/reminders.sqlite" follow >"$folder/shown" &
    app=$!
    expect "" "$reminders" "$folder/reminders.sqlite" add Buy milk
    until grep -qx -- "- Buy milk" "$folder/shown"; do
        [ "$SECONDS" -lt 1200 ] || fail "SQLiteData does not show what another process has written: $(cat "$folder/shown")"
        sleep 0.1
    done
    end
    echo "SQLiteData shows what another process has written."
fi

# A server, workers and a nightly program.
cd ../Server
version=$("${swift[@]}" --version 2>/dev/null | sed -n 's/.*Swift version \([0-9.]*\).*/\1/p')
if ! printf '%s\n' 6.2 "$version" | sort -C -V; then
    # What Hummingbird needs, the library does not.
    echo "Examples/Server is skipped: Hummingbird needs Swift 6.2 or later, and this is $version."
    exit
fi
bash ../../scripts/with-progress.sh "building the example of the server" "${swift[@]}" build --build-tests -Xswiftc -warnings-as-errors
bash ../../scripts/show-failures.sh "${swift[@]}" test --skip-build -Xswiftc -warnings-as-errors
python3 check.py .build/debug
