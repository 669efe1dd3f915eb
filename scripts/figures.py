#!/usr/bin/env python3
"""Checks that the figures which documents repeat are those that were measured.

    figures.py --check    fails if a figure is not the one in docs/plots/data, Benchmarks/measured.json or docs/BENCHMARKS.md from which it was taken

docs/plots/data has what `make plots-data` measured, and is the source of the README's table and of the tables of those runs. Benchmarks/measured.json has the
tables of all other runs. docs/BENCHMARKS.md shows parts of them: above each of its tables of figures stands `<!-- measured: NAMES -->`, with the names of tables
in Benchmarks/measured.json; or `<!-- nowhere else -->`. Other documents repeat figures of docs/BENCHMARKS.md. In the texts below, {} is a figure. It may be rounded: to the decimals, or
to the zeros at its end.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = "docs/BENCHMARKS.md"
TABLES = "Benchmarks/measured.json"
GUIDES = "docs/guides"
SIDES = ["ours", "peers.grdb", "peers.sqlite-c"]

# Figures of the data: the document, its text, the file, and where in the report each figure is.
MEASURED = [
    ("README.md", "| fairness (Jain's index; 1 is equal shares) | **{}** | {} |", "contention", [f"{side}.jain" for side in SIDES[:2]]),
    ("README.md", "longest wait for a turn | **{} ms** | {} ms |", "contention", [f"{side}.longest_wait_ms" for side in SIDES[:2]]),
    ("README.md", "| of 100 commits, 99 take at most | {} µs | {} µs |", "contention", [f"{side}.p99_us" for side in SIDES[:2]]),
    ("README.md", "| commits per second, all together | {} | {} |", "contention", [f"{side}.tx_per_s" for side in SIDES[:2]]),
    (f"{GUIDES}/Replication.md", "| {} commits/s together; the longest wait for a turn {} ms |", "contention", ["ours.tx_per_s", "ours.longest_wait_ms"]),
    (f"{GUIDES}/Replication.md", "| {} reads/s |", "readers", ["variants.8 processes, beside a writer.ours.reads_per_s"]),
    (f"{GUIDES}/ChoosingHowToShare.md", "8 processes that write without pause | {} ms |", "contention", ["ours.longest_wait_ms"]),
]

# Figures of docs/BENCHMARKS.md: the document, its text, and the texts there, each alone or with what its unit is divided by.
REPEATED = [
    ("README.md", "p99.9; longest | {} ms; {} ms | {} ms; {} ms |", ("| A: UPDATE, 4 processes | ours | {} | {} | 2,088 |", 1000),
     ("| | grdb | {} | {} | 5,022 |", 1000)),
    ("README.md", "blocking; with `await` | {} µs; {} µs | {} µs; {} µs |", "| blocking | 17.1 | {} |", "| one task | 96.1 | {} |",
     "| blocking | 17.1 | 14.7 | 18.9 | {} |", "| one task | 96.1 | 94.0 | 88.7 | {} |"),
    ("README.md", "| memory of one process | {} MB | {} MB |", "| `Roundtable` | 7.3 MB | 22.5 MB | 9.1 ms | {} |", "| GRDB | 3.1 MB | 21.2 MB | 8.6 ms | {} |"),
    ("README.md", "stripped | {} MB | {} MB |", "| `Roundtable` | {} MB |", "| GRDB | {} MB |"),
    ("README.md", "In [{} freezes]", "| ours | {} | 0 | 1,352,181 |"),
    ("README.md", "a forbidden lock in {} (", "| ours | 2,000 | {} | 1,352,181 |"),
    ("README.md", "({} on a stalled machine)", "Busier runs had {} (`--seed 41`)"),
    ("README.md", "GRDB without suspension notifications\n  in {}, GRDB with them in {}.", "| GRDB | 2,000 | {} | 9,621,272 |", "| GRDB with notifications | 2,000 | {} | 1,521,732 |"),
    ("README.md", "it held one in {} of 30, GRDB with notifications in {}.", "| 200 ms | 50 ms | 23 | 7 | {} (2 stalled)", "| 200 ms | 50 ms | {} | 7 |"),
    ("README.md", "some {} s after a fresh clone", "for the release build alone | {} s |"),
    ("ChoosingHowToShare.md", "| open a database that another process has open | {} µs |", "| A: another process has it open | {} |"),
    ("ChoosingHowToShare.md", "| a read of one row, cached statement | {} µs |", "| A: cached one-row SELECT | {} |"),
    ("ChoosingHowToShare.md", "| a write of one row, no other process writes | {} µs |", "| blocking | 17.1 | {} |"),
    ("ChoosingHowToShare.md", "is notified of the change | {} to", "| `observeChanges` on no queue | {} |"),
    ("ChoosingHowToShare.md", "is notified of the change | 31 to {} µs |", "| `changes(in:)` in a plain task | {} |"),
    ("ChoosingHowToShare.md", "value in another process | {} µs |", "| A: another process | {} (p99"),
    ("ChoosingHowToShare.md", "| submit a command | {} ms | {} ms |", ("| submit | {} | {} |", 1000)),
    ("ChoosingHowToShare.md", "| submit → the outcome *applied* | {} ms | {} ms |", ("| submit → *applied* | {} | {} |", 1000)),
    ("ChoosingHowToShare.md", "| submit → seen in the snapshot | {} ms | {} ms |", ("| submit → seen in the snapshot | {} | {} |", 1000)),
    ("KeepingAHistory.md", "writes one row takes {} times as long", "| INSERT, one row | {} "),
    ("Replication.md", "some {} times GRDB's speed", "| 64 tasks, synced | 11.2 | 652 | 188 | 11,885 | {} "),
    ("Replication.md", "`changes(in:)` reports it | {} µs", "| `changes(in:)` in a plain task | {} |"),
    ("Replication.md", "after {} s with 100 MB, after {} s with 500 MB", "| 0.14, 0.3, {}, {} s |"),
    ("ObservingChanges.md", "the medians of five runs were {} to {} µs, and {} to {} with", "five runs: own process | | {} to {} |", "| GRDB's pool in them | | {} to {} |"),
    ("EncryptedDatabases.md", "opening and closing take {} s", "with a passphrase {} s."),
    ("EncryptedDatabases.md", "a one-row write takes {} times", "and 13.1 without ({} times)"),
    ("EncryptedDatabases.md", "not in the cache {} times", "13.6 and 5.1 ({}), in the cache"),
    ("DerivedTables.md", "an INSERT takes {} times (index)", "| INSERT | 3.1 | {} |"),
    ("DerivedTables.md", "to {} times (search) as long", "| INSERT | 3.1 | 1.9 | {} |"),
    ("Jobs.md", "Eight processes did {} small jobs each second", "8 processes do {} a second"),
    ("Replication.md", "was {} s old", "| 0.21, {}, 1.07, 7.14 s |"),
    ("Replication.md", "the commits of the last {} to {} s were lost", "lost are the commits of the last | {} to {} s |"),
    ("Replication.md", "first commit came {} to {} s after", "| {} to {} s, median"),
    ("WritesAndCheckpoints.md", "row were {} times as fast as with a `DatabasePool`, and {} times with synced", "| 64 tasks | 6.1 | 376 | 24.0 | 1,271 | {} ", "| 64 tasks, synced | 11.2 | 652 | 188 | 11,885 | {} "),
    ("WritesAndCheckpoints.md", "the WAL had {} frames at most", "| ours | 1,803 | 3,001 | {} |"),
    ("WritesAndCheckpoints.md", "{} with 20 ms", "others 0.35), {} frames at most"),
]


def data_rows():
    """The rows of docs/BENCHMARKS.md that show the data in docs/plots/data, as in MEASURED."""
    sides = "{}; {}; {}; {} | {}; {}; {}; {} | {}; {}; {}; {} | {} ({}–{}) |"
    paths = [f"{side}.{column}" for side in SIDES for column in ("tx_per_s", "jain", "longest_wait_ms", "p99_us")]
    yield BENCHMARKS, f"| A: 8 | {sides}", "contention", [*paths, "ratios.grdb", "ratio_ranges.grdb.0", "ratio_ranges.grdb.1"]
    for name in ("8 threads", "8 processes", "8 processes, beside a writer"):
        paths = [f"{side}.reads_per_s" for side in SIDES]
        paths += [f"{part}.{peer}{end}" for peer in ("grdb", "sqlite-c") for part, end in (("ratios", ""), ("ratio_ranges", ".0"), ("ratio_ranges", ".1"))]
        yield BENCHMARKS, f"| A: {name} | {{}} | {{}} | {{}} | {{}} ({{}}–{{}}) | {{}} ({{}}–{{}}) |", "readers", [f"variants.{name}.{path}" for path in paths]


def shown_tables(text):
    """The tables of figures: the names above each, None without any; its lines; and the number of the first one."""
    names, table, lines = None, [], text.split("\n")
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            yield names, table, number - len(table)
            names, table = None, []
        if line == "<!-- nowhere else -->":
            names = []
        if match := re.fullmatch(r"<!-- measured: (.+) -->", line):
            names = match[1].split(", ")


def numbers(text):
    """The figures of a text. A digit in a name, such as that of `p99.9` or `ec7d46f`, is none."""
    return re.findall(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)", re.sub(r"\d{4}-\d\d-\d\d|`[^`]*`", "", text))


def strangers(text, measured):
    """What is wrong with the tables of docs/BENCHMARKS.md: figures that no table of their names has."""
    for names, table, number in shown_tables(text):
        if names is None:
            if any(re.search(r"\|\s*\**\d", line) for line in table[2:]):
                yield f"line {number}: no <!-- measured: NAMES --> above this table of figures"
            continue
        if not names:
            continue
        if unknown := [name for name in names if name not in measured]:
            yield f"line {number}: {TABLES} has no table {', '.join(unknown)}"
            continue
        known = set().union(*(measured[name] for name in names))
        for line in table[2:]:
            for cell in line.strip("|").split("|")[1:]:
                for figure in numbers(cell):
                    if figure not in known:
                        yield f"{figure} of this row is not in the tables {', '.join(names)} of {TABLES}: {line}"


def value(report, path):
    for key in re.findall(r"[^.]+", path):
        report = report[int(key)] if isinstance(report, list) else report[key]
    return float(report)


def is_rounded(shown, exact):
    digits = shown.replace(",", "")
    decimals = len(digits.partition(".")[2])
    zeros = 0 if decimals else len(digits) - len(digits.rstrip("0"))
    # A half may have been rounded to either side, because the data is rounded, too.
    return any(abs(float(digits) - exact) <= 0.5000001 * 10.0**-places for places in ([decimals] if decimals else range(-zeros, 1)))


def figures(text, template):
    """The figures of each place in the text that the template fits."""
    pattern = re.escape(template).replace(r"\{\}", r"(\d[\d,]*(?:\.\d+)?)")
    return [match.groups() for match in re.finditer(pattern, text)]


def check():
    problems = []
    texts, reports, covered = {}, {}, 0

    def read(document):
        path = document if "/" in document or document == "README.md" else f"{GUIDES}/{document}"
        return path, texts.setdefault(path, (ROOT / path).read_text())

    def find(document, template):
        path, text = read(document)
        found = figures(text, template)
        if len(found) != 1:
            problems.append(f"{path}: this text is there {len(found)} times and not once: {template}")
        return path, found[0] if len(found) == 1 else ()

    for document, template, name, paths in [*MEASURED, *data_rows()]:
        report = reports.setdefault(name, json.loads((ROOT / "docs/plots/data" / f"{name}.json").read_text())["report"])
        path, shown = find(document, template)
        covered += len(shown) if document == "README.md" else 0
        for figure, place in zip(shown, paths):
            if not is_rounded(figure, value(report, place)):
                problems.append(f"{path}: {figure} is not in the data, where {name}.json has {value(report, place):g} ({place})")
    for document, template, *sources in REPEATED:
        path, shown = find(document, template)
        covered += len(shown) if document == "README.md" and template.endswith("|") else 0
        exact = []
        for source in sources:
            source, unit = source if isinstance(source, tuple) else (source, 1)
            exact += [(figure, unit) for figure in find(BENCHMARKS, source)[1]]
        for figure, (there, unit) in zip(shown, exact):
            if not is_rounded(figure, float(there.replace(",", "")) / unit):
                problems.append(f"{path}: {figure} is not in {BENCHMARKS}, which has {there}")

    measured = {}
    for table in json.loads((ROOT / TABLES).read_text())["tables"]:
        measured[table["name"]] = {figure for row in table["rows"] for cell in row for figure in numbers(cell)}
    problems += [f"{BENCHMARKS}: {problem}" for problem in strangers(read(BENCHMARKS)[1], measured)]

    # A row of the README's table that is in neither list would never be checked.
    section = re.search(r"^## In figures\n(.*?)^## ", read("README.md")[1], re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| [^|]+\|(.*)\|$", section[1], re.MULTILINE) if section else []
    there = sum(len(re.findall(r"\d[\d,.]*", row)) for row in rows)
    if not there or there != covered:
        problems.append(f"README.md: the table under 'In figures' has {there} figures, of which {covered} are in MEASURED or REPEATED of scripts/figures.py")

    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{len(problems)} problems with figures: see scripts/figures.py")


if sys.argv[1:] == ["--check"]:
    check()
else:
    sys.exit(__doc__.strip())
