#!/usr/bin/env bash
# fuzz.sh SWIFT SECONDS [TARGET…]: builds the fuzzers, writes their first corpora, and runs each of them (all without TARGET) for SECONDS.
# FUZZ_SEED, or SEED, is libFuzzer's seed. Corpora grow in .build-fuzz/corpus, and what is found is in .build-fuzz/findings.
set -euo pipefail
swift=$1 seconds=$2
shift 2
folder=$PWD/.build-fuzz
# The backtraces of Swift read memory that Address Sanitizer does not let them.
export SWIFT_BACKTRACE=enable=no
# Address Sanitizer and libFuzzer, for Swift and for C; `-enable-testing`, because readers are internal.
"$swift" build --package-path Proof/Fuzz -c release --product roundtable-fuzz --scratch-path "$folder" \
    -Xswiftc -enable-testing -Xswiftc -sanitize=fuzzer,address -Xswiftc -use-ld=lld -Xcc -fsanitize=fuzzer-no-link,address
program=$folder/release/roundtable-fuzz
targets=${*:-$("$program")}
failed=""
for target in $targets; do
    corpus=$folder/corpus/$target
    "$program" "$target" seeds "$corpus"
    mkdir -p "$folder/findings"
    log=$folder/$target.log
    echo "fuzzing $target for $seconds seconds"
    if ! "$program" "$target" "$corpus" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
        -seed="${FUZZ_SEED:-${SEED:-1}}" -print_final_stats=1 -artifact_prefix="$folder/findings/$target-" >"$log" 2>&1; then
        failed="$failed $target"
        tail -40 "$log"
    else
        grep -E '^#[0-9]+.*(INITED|DONE)|number_of_executed_units' "$log"
    fi
done
if [ -n "$failed" ]; then
    echo "found something:$failed; the inputs are in $folder/findings. Repeat one by: $program TARGET FILE" >&2
    exit 1
fi
echo "nothing found"
