#!/bin/sh
# Builds and tests the package on a Mac, and reports what it found. Each step runs, even if an earlier one has failed.
# Usage: first-mac.sh [STEP…]    without a STEP, all of them
#
# | step | what |
# | --- | --- |
# | versions | of macOS, Xcode, Swift and the system's SQLite, with SQLite's compile options |
# | build | `swift build`: the library, the tool and the test kit |
# | tests-build | `swift build --build-tests` |
# | unit | the unit tests |
# | processes | the tests with real processes |
# | models | the walks through the state machines |
# | ios | the library for devices, with what an extension may use (APPLICATION_EXTENSION_API_ONLY) |
# | visionos | the library for visionOS |
# | simulator | the unit tests in an iOS simulator. No simulator shows 0xDEAD10CC |
# | example | the programs of Examples/App |
# | example-xcode | the app of Examples/App with its widget and share extension, without signing |
#
# The report is a table in Markdown: at the end of the output, in LOGS/report.md, and in the summary of a job on GitHub. Each step has a log in
# LOGS (.build/first-mac). LIMIT is how many seconds one step may take (2400); a step that takes longer is ended, and on macOS its log shows
# what its processes were doing. The status is 1 if a step failed, 2 if a STEP does not exist, else 0. A step that the system cannot run is skipped.
#
# For /bin/sh of macOS (bash 3.2), its tools, and perl, which ends a step that hangs: macOS has no timeout(1).
set -u
cd "$(dirname "$0")/.." || exit 2

all='versions build tests-build unit processes models ios visionos simulator example example-xcode'
logs=${LOGS:-.build/first-mac}
limit=${LIMIT:-2400}
derived=.build/first-mac-derived
system=$(uname -s)
case $limit in
'' | 0* | *[!0-9]*)
    echo "first-mac.sh: LIMIT is '$limit', and not a number of seconds." >&2
    exit 2
    ;;
esac

has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command, shows it in the log, and adds its status to the log if it fails.
show() {
    echo "\$ $*"
    "$@" || echo "(status $?)"
}

# Sanitizers are off, because this is about what a user builds. The tests of one process run one after the other: some measure time.
xcode() { xcodebuild "$@" -derivedDataPath "$derived" -enableThreadSanitizer NO -enableAddressSanitizer NO; }

# Why the system cannot run a step: empty if it can.
obstacle() {
    case $1 in
    versions) return ;;
    ios | visionos | simulator | example-xcode)
        if [ "$system" != Darwin ]; then
            echo "needs macOS"
        elif ! has xcodebuild || ! xcodebuild -version >/dev/null 2>&1; then
            # The command is there without Xcode, too, and without its licence.
            echo "needs Xcode: sudo xcode-select --switch /Applications/Xcode.app, and sudo xcodebuild -license accept"
        elif [ "$1" = visionos ] && ! xcodebuild -showsdks 2>/dev/null | grep -q xros; then
            echo "needs the visionOS SDK"
        elif [ "$1" = simulator ] && [ -z "$(newest_iphone)" ]; then
            echo "needs a simulator of an iPhone with the iOS of the SDK"
        elif [ "$1" = example-xcode ] && ! has xcodegen; then
            echo "needs XcodeGen: brew install xcodegen"
        fi
        ;;
    *) has swift || echo "needs Swift" ;;
    esac
}

# The identifier of a simulator, as in "    iPhone 16 (0A1B…) (Shutdown)" under "-- iOS 18.5 --". It has the newest iOS of the SDK's major version,
# because an older Xcode may refuse a newer system, which simctl lists all the same.
newest_iphone() {
    xcrun simctl list devices available 2>/dev/null | awk -v sdk="$(xcrun --sdk iphonesimulator --show-sdk-version 2>/dev/null)" '
        BEGIN { sub(/\..*/, "", sdk) }
        /^-- / { split($3, version, "."); fits = $2 == "iOS" && version[1] == sdk }
        fits && /^ +iPhone/ && match($0, /\([0-9A-F]+-[0-9A-F-]+\)/) { found = substr($0, RSTART + 1, RLENGTH - 2) }
        END { print found }
    '
}

# What a step runs. Its status is the step's.
step() {
    case $1 in
    versions)
        show uname -a
        if [ "$system" = Darwin ]; then
            show sw_vers
            show xcode-select -p
            show xcodebuild -version
            show xcodebuild -showsdks
            # Another sqlite3 may be earlier in PATH, and says nothing of the library that programs are linked with.
            sqlite=/usr/bin/sqlite3
            show otool -L "$sqlite"
        else
            sqlite=sqlite3
        fi
        show swift --version
        show "$sqlite" :memory: 'SELECT sqlite_version(), sqlite_source_id(); PRAGMA compile_options;'
        ;;
    build) swift build ;;
    tests-build) swift build --build-tests ;;
    unit) swift test --no-parallel --skip RoundtableProcessTests --skip ModelTests ;;
    processes) swift test --filter RoundtableProcessTests ;;
    models) swift test --filter ModelTests ;;
    ios)
        export ROUNDTABLE_LIBRARY_ONLY=1
        # If this lists the scheme `roundtable`, the variant of the manifest has not been read.
        show xcodebuild -list
        xcode build -scheme Roundtable -destination 'generic/platform=iOS' APPLICATION_EXTENSION_API_ONLY=YES CODE_SIGNING_ALLOWED=NO
        ;;
    visionos)
        export ROUNDTABLE_LIBRARY_ONLY=1
        xcode build -scheme Roundtable -destination 'generic/platform=visionOS' CODE_SIGNING_ALLOWED=NO
        ;;
    simulator)
        export ROUNDTABLE_LIBRARY_ONLY=1
        # The scheme of the product has no tests.
        xcode test -scheme Roundtable-Package -destination "platform=iOS Simulator,id=$(newest_iphone)" -parallel-testing-enabled NO
        ;;
    example) swift build --package-path Examples/App ;;
    example-xcode)
        cd Examples/App/Xcode || return
        # A project that is there may be open in Xcode.
        [ -d Reader.xcodeproj ] || xcodegen generate || return
        # The build resolves the packages for the second time.
        show xcodebuild -list -project Reader.xcodeproj
        xcodebuild build -project Reader.xcodeproj -scheme ReaderApp -destination 'generic/platform=iOS Simulator' \
            -derivedDataPath "../../../$derived-example" CODE_SIGNING_ALLOWED=NO
        ;;
    esac
}

# Replaces the shell by `first-mac.sh --run STEP` in a process group of its own, for at most LIMIT seconds; the status is 124 if it took longer.
# A signal that ends it ends the group, too, within 5 seconds.
limited() {
    has perl || exec sh scripts/first-mac.sh --run "$1"
    exec perl -e '
        use POSIX ":sys_wait_h";
        my ($limit, $sample, @command) = @ARGV;
        my $child = fork;
        if (!$child) { setpgrp(0, 0); exec @command; exit 127 }
        sub finish {
            kill "TERM", -$child;
            for (1 .. 50) { waitpid $child, WNOHANG; last unless kill 0, -$child; select undef, undef, undef, 0.1 }
            kill "KILL", -$child;
            exit shift;
        }
        $SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { finish(130) };
        $SIG{ALRM} = sub {
            $| = 1;
            print "error: ended after $limit seconds\n";
            for (`ps -A -o pid= -o pgid= -o command=`) {
                my ($pid, $group, $name) = /^\s*(\d+)\s+(\d+)\s+(.*)/ or next;
                next if $group != $child;
                print "still running: $pid $name\n";
                system "sample", $pid, 2, "-file", "/dev/stdout" if $sample;
            }
            finish(124);
        };
        alarm $limit;
        waitpid $child, 0;
        exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
    ' "$limit" "$(has sample && echo 1)" sh scripts/first-mac.sh --run "$1"
}

# The first lines of a log that name an error, or else its last lines, as one cell of a table.
errors() {
    grep -E 'error: |[Ff]atal error|recorded an issue|^.{0,4}Test .* failed|\*\* .* FAILED|^Testing failed' "$1" >"$1.errors" || tail -n 3 "$1" >"$1.errors"
    awk '
        NF && !seen[$0]++ && ++count <= 3 {
            line = substr($0, 1, 300)
            gsub(/&/, "\\&amp;", line); gsub(/</, "\\&lt;", line); gsub(/\|/, "\\&#124;", line); gsub(/`/, "\\&#96;", line); gsub(/\r/, "", line)
            printf "%s%s", (count > 1 ? "<br>" : ""), line
        }
    ' "$1.errors"
    rm -f "$1.errors"
}

if [ "${1:-}" = --run ]; then
    step "$2"
    exit
fi

steps=${*:-$all}
for name in $steps; do
    case " $all " in
    *" $name "*) ;;
    *)
        echo "first-mac.sh: there is no step '$name'. The steps are: $all" >&2
        exit 2
        ;;
    esac
done

# The process that runs a step, while there is one.
runner=
end() {
    trap '' INT TERM HUP
    if [ -n "$runner" ]; then
        kill -TERM "$runner"
        wait "$runner"
    fi
    exit "$1"
}
trap 'end 130' INT
trap 'end 143' TERM
trap 'end 129' HUP

mkdir -p "$logs" || exit 2
report=$logs/report.md
passed=0 failed=0 skipped=0
# Of this run alone. The report of an earlier one must not stand for it.
rows=$report.rows.$$
rm -f "$report"
printf '| step | result | seconds | first errors |\n| --- | --- | --- | --- |\n' >"$rows" || exit 2
for name in $steps; do
    log=$logs/$name.log
    why=$(obstacle "$name")
    if [ -n "$why" ]; then
        skipped=$((skipped + 1))
        echo "$name: skipped: $why"
        echo "| $name | skipped: $why | | |" >>"$rows"
        rm -f "$log"
        continue
    fi
    echo "$name: running, log in $log"
    begin=$(date +%s)
    # In the background, because a shell handles a signal when the program ends that it waits for.
    limited "$name" >"$log" 2>&1 </dev/null &
    runner=$!
    wait "$runner"
    status=$?
    runner=
    seconds=$(($(date +%s) - begin))
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        echo "$name: passed in $seconds s"
        echo "| $name | passed | $seconds | |" >>"$rows"
    else
        failed=$((failed + 1))
        echo "$name: FAILED with status $status in $seconds s. The end of its log:"
        tail -n 30 "$log" | cut -c 1-300 | LC_ALL=C tr -d '\000-\010\013-\037' | sed 's/^/    /'
        echo "| $name | **failed** ($status) | $seconds | $(errors "$log") |" >>"$rows"
    fi
done

{
    echo "## Roundtable: $passed passed, $failed failed, $skipped skipped"
    echo
    echo "Commit: $(git rev-parse --short HEAD 2>/dev/null || echo unknown), on $system $(uname -r) $(uname -m), $(date -u +%Y-%m-%dT%H:%M:%SZ)."
    echo
    cat "$rows"
    case " $steps " in
    *" versions "*)
        printf '\n<details><summary>Versions</summary>\n\n```\n'
        cat "$logs/versions.log"
        printf '```\n\n</details>\n'
        ;;
    esac
} >"$report"
rm -f "$rows"
echo
cat "$report"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$report" >>"$GITHUB_STEP_SUMMARY"
[ "$failed" = 0 ]
