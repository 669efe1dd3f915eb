#!/usr/bin/env python3
"""Shows that `make test` notices plausible bugs: builds the package once with all mutants of Tests/Mutants/mutants.toml, each behind a switch,
and runs the tests that must fail with one of them at a time.

  mutants.py [--only N[,N...]] [--report FILE]
  mutants.py --check                              only checks that each mutant's text is where its file says

Works in a copy of the tree, .build/mutants. A mutant is killed when its tests fail twice, and pass without it. Prints a line a mutant, and
fails when one of them survives.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".build" / "mutants"
# Seconds for tests without a mutant. With one they have a minute more than four times as long as without: who hangs its tests is killed.
TIMEOUT = 900
SWITCH = """#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The mutant that is switched on in this process; 0: none.
private let activeMutant = getenv("ROUNDTABLE_MUTANT").flatMap { Int(String(cString: $0)) } ?? 0

@inline(never) func isMutant(_ number: Int) -> Bool { activeMutant == number }
"""


def load():
    with open(ROOT / "Tests" / "Mutants" / "mutants.toml", "rb") as file:
        return tomllib.load(file)["mutant"]


def edits(mutants):
    """The edits of each file, as (start, end, text), checked against the file as it is."""
    found = {}
    for number, mutant in enumerate(mutants, 1):
        text = (ROOT / mutant["file"]).read_text()
        count = text.count(mutant["find"])
        if count != 1:
            sys.exit(f"mutant {number} ({mutant['name']}): its text is {count} times in {mutant['file']}, not once")
        start = text.index(mutant["find"])
        replacement = mutant["replace"].replace("MUTANT", f"isMutant({number})")
        found.setdefault(mutant["file"], []).append((start, start + len(mutant["find"]), replacement, number))
    for file, list_ in found.items():
        list_.sort()
        for (_, end, _, one), (start, _, _, other) in zip(list_, list_[1:]):
            if start < end:
                sys.exit(f"mutants {one} and {other} change the same text of {file}")
    return found


def make_copy(changes):
    """Copies the tree. Files that are the same keep their times, so that only what has changed is built again."""
    COPY.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    wanted = {}
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            wanted[name] = (ROOT / name).read_bytes()
    for file, list_ in changes.items():
        text = wanted[file].decode()
        for start, end, replacement, _ in reversed(list_):
            text = text[:start] + replacement + text[end:]
        wanted[file] = text.encode()
    for target in {"/".join(file.split("/")[:2]) for file in changes}:
        wanted[f"{target}/MutantSwitch.swift"] = SWITCH.encode()
    for folder in ("Sources", "Tool", "Proof", "Tests"):
        for old in (COPY / folder).rglob("*"):
            if old.is_file() and str(old.relative_to(COPY)) not in wanted:
                old.unlink()
    for name, data in wanted.items():
        path = COPY / name
        if path.exists() and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        shutil.copymode(ROOT / name if (ROOT / name).exists() else ROOT / "Package.swift", path)


def run_tests(number, filter_, limit):
    """Returns whether the tests passed, and what was printed."""
    environment = dict(os.environ, ROUNDTABLE_MUTANT=str(number), SWIFT_BACKTRACE="enable=no")
    command = [os.environ.get("SWIFT", "swift"), "test", "--skip-build", "--no-parallel", "--filter", filter_]
    run = subprocess.Popen(
        command, cwd=COPY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = run.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        # With the processes of the tests, which may be stopped, and have the pipe as well.
        os.killpg(run.pid, signal.SIGKILL)
        output, _ = run.communicate()
        return False, f"no end within {limit:.0f} s\n{output}"
    return run.returncode == 0, output


def first_failure(output):
    for line in output.splitlines():
        if line.startswith("✘ Test") and ("recorded an issue" in line or " failed" in line):
            return " ".join(line.split()[1:])[:160]
    for line in output.splitlines():
        if "no end within" in line or "Fatal error" in line or "Exited with" in line or "error:" in line:
            return line.strip()[:160]
    return "the tests failed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the numbers of the mutants, separated by commas")
    parser.add_argument("--report", help="a file for the results, as JSON")
    parser.add_argument("--check", action="store_true", help="only checks that the texts of all mutants are found")
    arguments = parser.parse_args()
    mutants = load()
    changes = edits(mutants)
    if arguments.check:
        return
    make_copy(changes)
    build = [os.environ.get("SWIFT", "swift"), "build", "--build-tests", *os.environ.get("BUILD_FLAGS", "").split()]
    print("building with all mutants", flush=True)
    built = subprocess.run(build, cwd=COPY, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit((built.stdout + built.stderr)[-4000:])
    chosen = [int(one) for one in arguments.only.split(",")] if arguments.only else range(1, len(mutants) + 1)
    results = []
    baselines = {}
    for number in chosen:
        mutant = mutants[number - 1]
        filter_ = mutant["tests"]
        if filter_ not in baselines:
            # Some tests measure time, and fail on a busy machine.
            for _ in range(3):
                began = time.monotonic()
                passed, output = run_tests(0, filter_, TIMEOUT)
                if passed:
                    break
            if not passed or " 0 tests" in output.splitlines()[-1]:
                sys.exit(f"without a mutant, '{filter_}' does not pass: {first_failure(output)}")
            baselines[filter_] = time.monotonic() - began
        began = time.monotonic()
        limit = 60 + 4 * baselines[filter_]
        passed, output = run_tests(number, filter_, limit)
        # A failure that a busy machine has caused does not happen again.
        if not passed:
            passed, output = run_tests(number, filter_, limit)
        seconds = time.monotonic() - began
        why = "" if passed else first_failure(output)
        results.append({"number": number, "name": mutant["name"], "file": mutant["file"], "killed": not passed,
                        "by": why, "seconds": round(seconds, 1)})
        print(f"{number:3} {'SURVIVED' if passed else 'killed  '} {seconds:6.1f} s  {mutant['name']}"
              + (f"\n             {why}" if why else ""), flush=True)
        if arguments.report:
            Path(arguments.report).write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    survivors = [one for one in results if not one["killed"]]
    print(f"{len(results) - len(survivors)} of {len(results)} mutants killed")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
