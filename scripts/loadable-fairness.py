"""Measures writers in Python beside participants of Roundtable, with the loadable extension and without it.

    loadable-fairness.py EXTENSION BENCH [--seconds 10] [--rounds 2] [--python 4] [--participants 4] [--hold 0]

EXTENSION is `roundtable.so` (`make loadable`), BENCH is `roundtable-bench` (`make bench-build`). All processes insert one row in each
transaction, on one database in memory (/dev/shm); the sides take turns. A slice is of time, so commits are comparable only if transactions
take equally long: --hold is the time in ms that each stays open before it writes. Prints Jain's index of the commits, the longest wait of
each kind, and the commits of each process. Fails if a row is missing.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

INSERT = "INSERT INTO entry (author, text) VALUES (?, ?)"


def write(path, extension, author, hold):
    """One writing process: reads when to begin and to end, in ns of the monotonic clock, and prints what it has done."""
    if extension:
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(extension)
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    database.execute("PRAGMA synchronous = NORMAL")
    print("ready", flush=True)
    begin, end = (int(word) for word in sys.stdin.readline().split())
    while time.monotonic_ns() < begin:
        time.sleep(0.0005)
    commits = longest = late = errors = 0
    while (asked := time.monotonic_ns()) < end:
        try:
            database.execute("BEGIN IMMEDIATE")
            began = time.monotonic_ns()
            longest = max(longest, began - asked)
            if hold:
                time.sleep(hold / 1000)
            database.execute(INSERT, (author, "text of a row"))
            database.execute("COMMIT")
        except sqlite3.OperationalError:
            errors += 1
            continue
        if time.monotonic_ns() < end:
            commits += 1
        else:
            late += 1
    state = database.execute("PRAGMA roundtable").fetchone()
    print(json.dumps({"commits": commits, "lateCommits": late, "longestWait": longest, "errors": errors, "state": state}))


def task(path, author, hold):
    """What `roundtable-bench participant` expects."""
    return json.dumps({
        "side": "ours", "path": path, "author": author, "workload": "insert", "rows": 1, "holdMilliseconds": hold,
        "pauseMilliseconds": 0, "isObserver": False, "readingThreads": 0, "tracedSeconds": 0,
        "settings": {"hasAutomaticCheckpoints": True, "isDurable": False, "priority": 1, "name": f"swift-{author}"},
    })


def start(arguments):
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n", arguments
    return process


def jain(counts):
    return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts) or 1)


def trial(options, with_extension):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "app.sqlite")
        participants = [start([options.bench, "participant", task(path, author, options.hold)]) for author in range(options.participants)]
        writers = [
            start([sys.executable, __file__, "--write", path, options.extension if with_extension else "", str(author), str(options.hold)])
            for author in range(options.participants, options.participants + options.python)
        ]
        begin = time.monotonic_ns() + 300_000_000
        end = begin + int(options.seconds * 1e9)
        for process in participants:
            process.stdin.write(json.dumps({"start": begin, "end": end}) + "\n")
        for process in writers:
            process.stdin.write(f"{begin} {end}\n")
        for process in participants + writers:
            process.stdin.flush()
        results = [json.loads(process.communicate()[0]) for process in participants + writers]
        database = sqlite3.connect(path)
        for author, result in enumerate(results):
            rows = database.execute("SELECT count(*) FROM entry WHERE author = ?", (author,)).fetchone()[0]
            acknowledged = result["commits"] + result["lateCommits"]
            assert rows == acknowledged, f"writer {author} committed {acknowledged} rows, and {rows} are there"
        counts = [result["commits"] for result in results]
        waits = [result["longestWait"] / 1e6 for result in results]
        kinds = {"participants": waits[: options.participants], "Python": waits[options.participants :]}
        print(
            f"{'with' if with_extension else 'without'} the extension: Jain {jain(counts):.3f}, "
            f"{sum(counts) / options.seconds:.0f} commits/s, longest wait "
            + ", ".join(f"{max(values):.1f} ms ({kind})" for kind, values in kinds.items() if values)
            + f"; commits {counts}; errors {sum(result['errors'] for result in results)}; {results[-1].get('state')}",
            flush=True,
        )


def main():
    if sys.argv[1:2] == ["--write"]:
        path, extension, author, hold = sys.argv[2:]
        return write(path, extension, int(author), float(hold))
    parser = argparse.ArgumentParser()
    parser.add_argument("extension")
    parser.add_argument("bench")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--python", type=int, default=4)
    parser.add_argument("--participants", type=int, default=4)
    parser.add_argument("--hold", type=float, default=0)
    options = parser.parse_args()
    options.extension = os.path.abspath(options.extension)
    for _ in range(options.rounds):
        trial(options, True)
        trial(options, False)


if __name__ == "__main__":
    main()
