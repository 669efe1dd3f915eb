#!/usr/bin/env python3
"""The public interface, one declaration a line, in docs/api: so that a change of it is seen in a review and never an accident.

    api.py GRAPHS --check    fails if docs/api is not what the symbol graphs in GRAPHS/MODULE say
    api.py GRAPHS --write    writes docs/api anew

`make api` calls it, and scripts/docs.sh makes the graphs. The lines are sorted by name; conformances are among the lines of their types.
"""

import difflib
import json
import re
import sys
from pathlib import Path

API = Path(__file__).resolve().parent.parent / "docs" / "api"
MODULES = ["Roundtable", "RoundtableFiles", "RoundtableJobs", "RoundtableTestKit"]


def declaration(symbol):
    return re.sub(r"\s+", " ", "".join(fragment["spelling"] for fragment in symbol["declarationFragments"])).strip()


def lines(folder):
    found = set()
    for path in sorted(folder.glob("*.symbols.json")):
        graph = json.loads(path.read_text())
        names = {symbol["identifier"]["precise"]: ".".join(symbol["pathComponents"]) for symbol in graph["symbols"]}
        for symbol in graph["symbols"]:
            if symbol["accessLevel"] not in ("public", "open") or symbol["kind"]["identifier"] == "swift.extension":
                continue
            found.add(f"{names[symbol['identifier']['precise']]}: {declaration(symbol)}")
        for relation in graph["relationships"]:
            name = names.get(relation["source"])
            target = relation.get("targetFallback") or names.get(relation["target"])
            if relation["kind"] == "conformsTo" and name and target and not target.startswith("Swift.Copyable") \
                    and target not in ("Swift.Escapable", "Swift.SendableMetatype"):
                found.add(f"{name}: conforms to {target}")
    return sorted(found)


def main():
    graphs, mode = Path(sys.argv[1]), sys.argv[2]
    differs = False
    for module in MODULES:
        text = "\n".join(lines(graphs / module)) + "\n"
        path = API / f"{module}.txt"
        if mode == "--write":
            API.mkdir(exist_ok=True)
            path.write_text(text)
            continue
        old = path.read_text() if path.exists() else ""
        if old != text:
            differs = True
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), text.splitlines(True), f"docs/api/{module}.txt", "the sources", n=0))
    if differs:
        sys.exit("The public interface has changed: run 'make api', and say so in CHANGELOG.md.")


if __name__ == "__main__":
    main()
