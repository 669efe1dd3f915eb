#!/bin/sh
# Tests scripts/first-mac.sh with programs that only play Swift and Xcode: what fails is reported, what cannot run is skipped, what hangs is ended.
# Usage: first-mac-test.sh [SHELL]    the shell that plays /bin/sh
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/linux" "$work/mac" "$work/hangs"

# The only programs in PATH: neither Swift nor Xcode.
ln -s "$(command -v "${1:-sh}")" "$work/linux/sh"
for tool in awk cat cut date dirname git grep mkdir perl ps rm sed sleep tail tr; do ln -s "$(command -v "$tool")" "$work/linux/$tool"; done

# play FOLDER PROGRAM: the program notes how it was called, and does what standard input says.
play() {
    { printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n' "$2" "$work"; cat; } >"$work/$1/$2"
    chmod +x "$work/$1/$2"
}
play linux uname <<'END'
[ "$*" = -s ] && echo Linux || echo unknown
END
play mac uname <<'END'
[ "$*" = -s ] && echo Darwin || echo unknown
END
for program in sw_vers xcode-select otool; do echo 'echo "its version"' | play mac "$program"; done
echo 'test -f project.yml' | play mac xcodegen
play mac xcrun <<'END'
case "$*" in
*--show-sdk-version) echo 18.5 ;;
*) printf '%s\n' '-- iOS 18.5 --' '    iPhone 16 (00000000-0000-0000-0000-00000000001A) (Shutdown)' '    iPad (00000000-0000-0000-0000-00000000002B) (Shutdown)' \
    '-- iOS 26.2 --' '    iPhone 17 (00000000-0000-0000-0000-00000000003C) (Shutdown)' ;;
esac
END
play mac xcodebuild <<'END'
case "$*" in
-version) [ -z "${NO_XCODE:-}" ] ;;
-showsdks) echo 'visionOS 2.5 -sdk xros2.5' ;;
*platform=visionOS*) [ -z "${FAILING:-}" ] || { echo 'a.swift:1:2: error: `A` | B<C>'; exit 65; } ;;
*Roundtable*) [ -n "$ROUNDTABLE_LIBRARY_ONLY" ] ;;
esac
END
play mac swift <<'END'
case "$*" in
*"--filter RoundtableProcessTests") [ -z "${FAILING:-}" ] || { echo "no error is named"; exit 1; } ;;
esac
END
echo "sleep 60 & echo \$! >'$work/pid'; wait" | play hangs swift
echo 'echo "what process $1 does"' | play hangs sample

fail() {
    echo "first-mac-test.sh: $1" >&2
    cat "$work/output" >&2
    exit 1
}

# run PATH STATUS STEP…: runs the script in this PATH, and expects this status.
run() {
    path=$1 expected=$2
    shift 2
    : >"$work/summary"
    status=0
    PATH=$path LOGS=$work/logs GITHUB_STEP_SUMMARY=$work/summary sh scripts/first-mac.sh "$@" >"$work/output" 2>&1 || status=$?
    [ "$status" = "$expected" ] || fail "'first-mac.sh $*' ended with status $status, not $expected"
}

# expect FILE TEXT
expect() { grep -qF -- "$2" "$work/$1" || fail "there is no '$2' in $1"; }

FAILING=1
export FAILING
run "$work/mac:$work/linux" 1
expect summary '## Roundtable: 9 passed, 2 failed, 0 skipped'
expect summary '| processes | **failed** (1) | '
expect summary ' | no error is named |'
expect summary '| visionos | **failed** (65) | '
expect summary ' | a.swift:1:2: error: &#96;A&#96; &#124; B&lt;C> |'
expect summary 'its version'
cmp -s "$work/logs/report.md" "$work/summary" || fail "the summary is not the report"
for step in versions build tests-build unit models ios simulator example example-xcode; do expect summary "| $step | passed | "; done
expect calls 'platform=iOS Simulator,id=00000000-0000-0000-0000-00000000001A'
expect calls 'platform=iOS APPLICATION_EXTENSION_API_ONLY=YES'
expect calls 'swift build --package-path Examples/App'

unset FAILING
run "$work/mac:$work/linux" 0 versions visionos processes
expect summary '## Roundtable: 3 passed, 0 failed, 0 skipped'

run "$work/linux" 0
expect summary '## Roundtable: 1 passed, 0 failed, 10 skipped'
expect summary '| unit | skipped: needs Swift |'
expect summary '| simulator | skipped: needs macOS |'

export NO_XCODE=1
run "$work/mac:$work/linux" 0 ios
expect summary '| ios | skipped: needs Xcode: sudo xcode-select'
unset NO_XCODE

rm "$work/mac/xcodegen" "$work/mac/xcrun"
run "$work/mac:$work/linux" 0 simulator example-xcode
expect summary '| example-xcode | skipped: needs XcodeGen'
expect summary '| simulator | skipped: needs a simulator'

run "$work/linux" 2 unit everything
expect output "there is no step 'everything'"

LIMIT=1
export LIMIT
run "$work/hangs:$work/linux" 1 build
expect summary '| build | **failed** (124) | '
expect summary 'error: ended after 1 seconds'
expect logs/build.log 'what process'
expect logs/build.log 'sleep 60'
expect_end() {
    case $(ps -o stat= -p "$(cat "$work/pid")") in
    '' | Z*) ;;
    *) fail "a program that hangs was not ended" ;;
    esac
}
expect_end
LIMIT=0
run "$work/linux" 2 build

# A signal to the script alone ends what it runs.
LIMIT=60
rm -f "$work/pid"
PATH=$work/hangs:$work/linux LOGS=$work/logs sh scripts/first-mac.sh build >"$work/output" 2>&1 &
script=$!
tries=100
until [ -s "$work/pid" ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "the step did not begin"
    sleep 0.1
done
kill -TERM "$script"
status=0
wait "$script" || status=$?
[ "$status" = 143 ] || fail "a signal ended the script with status $status"
expect_end
