#!/usr/bin/env python3
"""Measures Turso, SQLite written anew in Rust, as `roundtable-bench contention` measures its sides: processes that each commit one row, again
and again, with Turso's experimental `multiprocess_wal`. Swift cannot link it, so it runs from Python, whose own time is in its figures.

    python3 -m pip install pyturso==0.8.3
    Benchmarks/turso-contention.py [--processes 8] [--seconds 5] [--json]

Fails if a commit that was acknowledged is missing, or the integrity check finds something.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

try:
    import turso
except ImportError:
    sys.exit("Turso is not installed: python3 -m pip install pyturso==0.8.3")


def connect(path):
    return turso.connect(str(path), experimental_features="multiprocess_wal", isolation_level=None)


def write(path, author):
    """One writing process: reads when to begin and to end, in ns of the monotonic clock, and prints what it has done."""
    database = connect(path)
    database.execute("PRAGMA busy_timeout = 10000")
    database.execute("PRAGMA synchronous = NORMAL").fetchall()
    print("ready", flush=True)
    begin, end = (int(word) for word in sys.stdin.readline().split())
    while time.monotonic_ns() < begin:
        time.sleep(0.0005)
    commits = acknowledged = longest = 0
    errors = {}
    while (asked := time.monotonic_ns()) < end:
        try:
            database.execute("BEGIN IMMEDIATE")
            longest = max(longest, time.monotonic_ns() - asked)
            database.execute("INSERT INTO entry (author, text) VALUES (?, ?)", (author, "text of a row"))
            database.execute("COMMIT")
        except turso.Error as error:
            errors[str(error)] = errors.get(str(error), 0) + 1
            longest = max(longest, time.monotonic_ns() - asked)
            if database.in_transaction:
                database.execute("ROLLBACK")
            continue
        acknowledged += 1
        # A transaction that the end meets is not counted.
        commits += time.monotonic_ns() < end
    print(json.dumps({"commits": commits, "acknowledged": acknowledged, "longest": longest, "errors": errors}))


def trial(processes, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app.db"
        database = connect(path)
        database.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, author INTEGER NOT NULL, text TEXT NOT NULL)")
        database.close()
        writers = []
        try:
            for author in range(processes):
                command = [sys.executable, __file__, "--write", path, str(author)]
                writers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for writer in writers:
                if writer.stdout.readline() != "ready\n":
                    sys.exit("a writer has ended before it began")
            begin = time.monotonic_ns() + 100_000_000
            for writer in writers:
                writer.stdin.write(f"{begin} {begin + int(seconds * 1e9)}\n")
                writer.stdin.flush()
            results = [json.loads(writer.communicate(timeout=seconds + 60)[0]) for writer in writers]
        finally:
            for writer in writers:
                writer.kill()
        database = connect(path)
        rows = database.execute("SELECT count(*) FROM entry").fetchall()[0][0]
        verdict = database.execute("PRAGMA integrity_check").fetchall()[0][0]
    acknowledged = sum(result["acknowledged"] for result in results)
    if rows < acknowledged or verdict != "ok":
        sys.exit(f"{acknowledged} commits were acknowledged, {rows} rows are there; the integrity check says: {verdict}")
    counts = [result["commits"] for result in results]
    errors = {}
    for result in results:
        for text, count in result["errors"].items():
            errors[text] = errors.get(text, 0) + count
    return {
        "side": "turso", "version": version("pyturso"), "processes": processes, "seconds": seconds,
        "tx_per_s": sum(counts) / seconds,
        "jain": sum(counts) ** 2 / (processes * sum(count * count for count in counts) or 1),
        "longest_wait_ms": max(result["longest"] for result in results) / 1e6,
        "errors": errors,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        return write(arguments.write[0], int(arguments.write[1]))
    result = trial(arguments.processes, arguments.seconds)
    if arguments.json:
        return print(json.dumps(result))
    print(
        f"Turso {result['version']}, {result['processes']} processes: {result['tx_per_s']:,.0f} commits/s, Jain {result['jain']:.3f}, "
        f"longest wait {result['longest_wait_ms']:,.0f} ms, {sum(result['errors'].values())} errors"
    )
    for text, count in result["errors"].items():
        print(f"  {count} × {text}")


main()
