#!/usr/bin/env python3
"""Checks that files which other users may replace are reached by descriptors, not by paths.

  by-path.py            fails if a file has other calls by path than scripts/by-path.txt says
  by-path.py --list     prints the calls, one a line: file, line, text

A path leads where whoever may write a folder on it wants, at each call anew. OpenFolder and StagingFolder hold a folder open, and reach what is in it
without following links. Where a path is used all the same, scripts/by-path.txt says how often, and why that harms nobody.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "scripts" / "by-path.txt"
# What runs as one user, often the superuser, among files that others may write.
PLACES = [
    "RoundtableReplication/Replication", "RoundtableReplication/Failover", "RoundtableReplication/Following",
    "RoundtableReplication/OutboxTravel", "RoundtableTool/Outbox",
    "RoundtableTool/Record", "RoundtableTool/Replace", "RoundtableTool/Snapshot", "RoundtableFiles", "RoundtableDelivery/Outbox",
    "RoundtableKernel/ControlBlock", "RoundtableKernel/Participants",
]
CALLS = re.compile(
    r"""FileManager\.default\.(?!fileExists|temporaryDirectory\b|attributesOfFileSystem) | \.write\(to(?:File)?: | contentsOf(?:File)?:\s*(?:URL|path|file) | FileHandle\(for
      | (?<![.\w])(?:chmod|chown|lchown|rename|unlink|rmdir|mkdir|link|symlink|mkfifo|creat|truncate|setxattr)\(
      | (?<![.\w])open\([^()]*\bO_
      | \bSystem\.(?:makeFile|makeFolder|renameFile|removeFile|removeIfPossible|contents|names|syncFile|syncFolder)\(""",
    re.VERBOSE,
)
FUNCTION = re.compile(r"\bfunc\s+$")


def calls():
    for place in PLACES:
        folder = ROOT / ("Tool" if place.startswith(("RoundtableTool/", "RoundtableReplication/")) else "Sources")
        if not (folder / place).is_dir(): sys.exit(f"{sys.argv[0]} looks into {place}, which does not exist")
        for path in sorted((folder / place).rglob("*.swift")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("//")[0]
                for match in CALLS.finditer(code):
                    if not FUNCTION.search(code[: match.start()]):
                        yield str(path.relative_to(folder)), number, line.strip()


def allowed():
    for number, line in enumerate(ALLOWED.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, count, reason = (part.strip() for part in line.split("|", 2))
        if not reason:
            sys.exit(f"{ALLOWED.name}:{number}: says no reason")
        yield name, int(count)


def main():
    found = list(calls())
    if "--list" in sys.argv[1:]:
        for name, number, line in found:
            print(f"{name}:{number}: {line}")
        print(f"{len(found)} calls by path")
        return
    expected, counts = dict(allowed()), {}
    for name, _, _ in found:
        counts[name] = counts.get(name, 0) + 1
    failed = False
    for name in sorted(expected.keys() | counts.keys()):
        if expected.get(name, 0) != counts.get(name, 0):
            failed = True
            print(
                f"{name}: has {counts.get(name, 0)} calls by path, and scripts/by-path.txt allows {expected.get(name, 0)}. Use OpenFolder, or say there"
                " why a path harms nobody: python3 scripts/by-path.py --list",
                file=sys.stderr,
            )
    sys.exit(failed)


main()
