#!/usr/bin/env python3
"""Measures what the triggers of a history cost a program that does not use Roundtable: Python, with its sqlite3.

    history-cost.py PROGRAM [--rounds N] [--transactions N]

PROGRAM is the tool, `roundtable`. It enables the history of one table in each of four databases: not at all, without old values, with those of
deletions, and with those of updates too. Each round runs the same transactions on all of them, in an order that changes from round to round.
Prints, for each kind of write, the transactions per second without a history, and how many times as long a transaction takes with one: the median over
the rounds, with its middle half. Each round has the median of its transactions.
"""

import argparse
import os
import random
import sqlite3
import statistics
import subprocess
import tempfile
import time

TABLE = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, serverID TEXT)"
INSERT = "INSERT INTO item (name, serverID) VALUES ('a row of some length', 'id-' || hex(randomblob(8)))"
ROWS = 1000
KINDS = {
    "without": None,
    "rows": [],
    "old values of deletions": ["--keep", "serverID"],
    "and of updates": ["--keep", "serverID", "--keep-updates"],
}
# The statements of one transaction, where ? is the id of a row that is there.
WRITES = {
    "INSERT": [INSERT],
    "UPDATE": ["UPDATE item SET serverID = 'id-' || hex(randomblob(8)) WHERE id = ?"],
    "INSERT and DELETE of a row": [INSERT, "DELETE FROM item WHERE id = last_insert_rowid()"],
    "REPLACE of a row": ["REPLACE INTO item VALUES (?, 'a row of some length', 'id-' || hex(randomblob(8)))"],
    "UPSERT of a row": [
        "INSERT INTO item VALUES (?, 'a row of some length', NULL) ON CONFLICT DO UPDATE SET serverID = 'id-' || hex(randomblob(8))"
    ],
    "INSERT, 100 rows a transaction": [INSERT] * 100,
}


def create(program, folder, kind):
    path = os.path.join(folder, kind.replace(" ", "-") + ".sqlite")
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(TABLE)
    if KINDS[kind] is not None:
        subprocess.run([program, "history", path, "--enable", "item", *KINDS[kind]], check=True, capture_output=True)
    database.execute("BEGIN")
    for _ in range(ROWS):
        database.execute(INSERT)
    database.execute("COMMIT")
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def measure(database, statements, transactions):
    """Returns the median of the seconds that a transaction takes, which what else runs on the machine disturbs less than the mean."""
    parameters = [("?" in statement) for statement in statements]
    times = []
    for number in range(transactions):
        began = time.perf_counter()
        database.execute("BEGIN IMMEDIATE")
        for statement, has_parameter in zip(statements, parameters):
            database.execute(statement, (number % ROWS + 1,) if has_parameter else ())
        database.execute("COMMIT")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the tool: .build/release/roundtable, or that of a debug build")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--transactions", type=int, default=500)
    arguments = parser.parse_args()
    order = list(KINDS)
    print(f"SQLite {sqlite3.sqlite_version}, {arguments.rounds} rounds of {arguments.transactions} transactions\n")
    print("| | without, per second | " + " | ".join(list(KINDS)[1:]) + " |")
    print("| --- |" + " ---: |" * len(KINDS))
    with tempfile.TemporaryDirectory() as folder:
        databases = {kind: create(arguments.program, folder, kind) for kind in KINDS}
        for name, statements in WRITES.items():
            transactions = max(10, arguments.transactions // len(statements))
            times = {kind: [] for kind in KINDS}
            # The first round fills caches, and does not count.
            for number in range(arguments.rounds + 1):
                random.shuffle(order)
                for kind in order:
                    seconds = measure(databases[kind], statements, transactions)
                    if number > 0:
                        times[kind].append(seconds)
            cells = [f"{1 / statistics.median(times['without']):,.0f}"]
            for kind in list(KINDS)[1:]:
                ratios = sorted(b / a for a, b in zip(times["without"], times[kind]))
                low, high = ratios[len(ratios) // 4], ratios[len(ratios) * 3 // 4]
                cells.append(f"{statistics.median(ratios):.2f} ({low:.2f}–{high:.2f})")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        for database in databases.values():
            database.close()


if __name__ == "__main__":
    main()
