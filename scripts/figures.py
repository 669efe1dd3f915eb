#!/usr/bin/env python3
"""Checks that the figures which documents repeat are those that were measured.

    figures.py --check    fails if a figure is not the one in docs/plots/data, or not the one in docs/BENCHMARKS.md, from which it was taken

docs/plots/data has what `make plots-data` measured, and is the source of the README's table and of the tables of those runs. What was measured by other
runs is in docs/BENCHMARKS.md, and other documents repeat it. In the texts below, {} is a figure. It may be rounded: to the decimals, or to the zeros at its end.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = "docs/BENCHMARKS.md"
GUIDES = "docs/guides"
SIDES = ["ours", "peers.grdb", "peers.sqlite-c"]

# Figures of the data: the document, its text, the file, and where in the report each figure is.
MEASURED = [
    ("README.md", "| fairness (Jain's index; 1 is equal shares) | **{}** | {} |", "contention", [f"{side}.jain" for side in SIDES[:2]]),
    ("README.md", "longest wait for a turn | **{} ms** | {} ms |", "contention", [f"{side}.longest_wait_ms" for side in SIDES[:2]]),
    ("README.md", "| of 100 commits, 99 take at most | {} µs | {} µs |", "contention", [f"{side}.p99_us" for side in SIDES[:2]]),
    ("README.md", "| commits per second, all together | {} | {} |", "contention", [f"{side}.tx_per_s" for side in SIDES[:2]]),
    ("docs/SCALING.md", "| {} commits/s together; the longest wait for a turn {} ms |", "contention", ["ours.tx_per_s", "ours.longest_wait_ms"]),
    ("docs/SCALING.md", "| {} reads/s |", "readers", ["variants.8 processes, beside a writer.ours.reads_per_s"]),
    (f"{GUIDES}/ChoosingHowToShare.md", "8 processes that write without pause | {} ms |", "contention", ["ours.longest_wait_ms"]),
]

# Figures of docs/BENCHMARKS.md: the document, its text, and the texts there, each alone or with what its unit is divided by.
REPEATED = [
    ("README.md", "p99.9; longest | {} ms; {} ms | {} ms; {} ms |", ("| UPDATE, 4 processes | ours | 18.8 | {} | 21,299 | {} |", 1000),
     ("| | grdb | 21.3 | {} | 132,252 | {} |", 1000)),
    ("README.md", "blocking; with `await` | {} µs; {} µs | {} µs; {} µs |", "| sync | 17.1 | {} | 314 |", "| async, 1 task | 96.1 | {} | 812 |",
     "| 314 | 18.9 | {} | 2,338 |", "| 812 | 88.7 | {} | 2,790 |"),
    ("README.md", "| memory of one process | {} MB | {} MB |", "| Roundtable, read-write | {} |", "| GRDB's `DatabasePool`, read-write | {} |"),
    ("README.md", "stripped | {} MB | {} MB |", "| `Roundtable` | {} MB |", "| GRDB | {} MB |"),
    ("README.md", "In [{} freezes]", "| ours | {} | **0** | 1,352,181 |"),
    ("README.md", "GRDB without suspension notifications\n  in {}, GRDB with them in {}.", "| GRDB | 2,000 | {} | 9,621,272 |", "| GRDB with notifications | 2,000 | {} | 1,521,732 |"),
    ("README.md", "time: {} of 30, beside {} for", "| 200 ms | 50 ms | off | 30 | 23 | 0 | 7 | {} (2 stalled)", "| 200 ms | 50 ms | off | 30 | {} | 0 | 7 |"),
    ("ChoosingHowToShare.md", "| open a database that another process has open | {} µs |", "| open, another process has | {} |"),
    ("ChoosingHowToShare.md", "| a read of one row, cached statement | {} µs |", "| read, cached one-row SELECT | {} |"),
    ("ChoosingHowToShare.md", "| a write of one row, no other process writes | {} µs |", "| sync | 17.1 | {} |"),
    ("ChoosingHowToShare.md", "is notified of the change | {} to", "| ours, `observeChanges` on no queue | {} |"),
    ("ChoosingHowToShare.md", "is notified of the change | 31 to {} µs |", "| ours, `changes(in:)` in a plain task | {} |"),
    ("ChoosingHowToShare.md", "value in another process | {} µs |", "| another process | **{}** |"),
    ("KeepingAHistory.md", "writes one row takes {} times as long", "| INSERT, one row a transaction | 12.5 | 19.3 | **{}** "),
    ("docs/SCALING.md", "some {} times GRDB's speed", "| async, 64 tasks, synced | 11.2 | 652 | 6,697 | 188 | 11,885 | 25,270 | **{}** "),
    ("docs/SCALING.md", "`changes(in:)` reports it | {} µs", "| ours, `changes(in:)` in a plain task | {} |"),
]


def tables():
    """The tables of docs/BENCHMARKS.md that show the data, a row at a time, as in MEASURED."""
    columns = ["tx_per_s", "jain", "longest_wait_ms", "p50_us", "p99_us", "commits_in_a_row", "errors"]
    for name, side in zip(["8 processes: ours", "grdb", "sqlite-c"], SIDES):
        ratio = [f"ratios.{side[6:]}", f"ratio_ranges.{side[6:]}.0", f"ratio_ranges.{side[6:]}.1"] if side != "ours" else []
        cells = " | ".join(["{}"] * len(columns)) + (" | {} ({}–{})" if ratio else " |")
        yield BENCHMARKS, f"| {name} | {cells}", "contention", [f"{side}.{column}" for column in columns] + ratio
    for count in (1, 2, 4, 8, 16, 32, 64):
        at = "" if count == 8 else f"variants.{count} process{'es' if count > 1 else ''}."
        paths = [f"ours.{column}" for column in ("tx_per_s", "jain", "longest_wait_ms", "errors")]
        paths += [f"peers.grdb.{column}" for column in ("tx_per_s", "jain", "longest_wait_ms")] + ["ratios.grdb"]
        yield BENCHMARKS, f"| {count} | " + " | ".join(["{}"] * len(paths)) + " |", "sweep", [at + path for path in paths]
    names = [f"{count} {kind}{other}" for other in ("", ", beside a writer") for kind, counts in
             (("thread", "1"), ("threads", "2 4 8 16"), ("processes", "2 4 8")) for count in counts.split()]
    for name in names:
        at = "" if name == "1 thread" else f"variants.{name}."
        each = ["reads_per_s"] + ([] if name.startswith("1 ") else ["times_one"])
        cells = "{} |  |" if len(each) == 1 else "{} | {} |"
        paths = [f"{side}.{column}" for side in SIDES for column in each]
        paths += [f"{part}.{peer}{end}" for peer in ("grdb", "sqlite-c") for part, end in (("ratios", ""), ("ratio_ranges", ".0"), ("ratio_ranges", ".1"))]
        yield BENCHMARKS, f"| {name} | " + " ".join([cells] * 3) + " {} ({}–{}) | {} ({}–{}) |", "readers", [at + path for path in paths]


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

    for document, template, name, paths in [*MEASURED, *tables()]:
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
