#!/usr/bin/env python3
"""The public interface, one declaration a line, in docs/api: so that a change of it is seen in a review and never an accident.

    api.py GRAPHS --check    fails if docs/api is not what the symbol graphs in GRAPHS/MODULE say
    api.py GRAPHS --write    writes docs/api anew

`make api` calls it, and scripts/docs.sh makes the graphs. The lines are sorted by name; conformances are among the lines of their types.

The graphs are of a build on Linux, so they lack what is for Apple's systems alone. Those declarations are read from the sources, inside of
`#if canImport(Darwin)` and its like, and listed at the end as the source writes them, without what it infers.
"""

import difflib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
API = ROOT / "docs" / "api"
# Each module, and the targets whose declarations a program sees by importing it: scripts/docs.sh passes the same.
MODULES = {
    "Roundtable": ["Roundtable", "RoundtableCore", "RoundtableDelivery", "RoundtableDerived", "RoundtableDiagnostics", "RoundtableFiles",
                   "RoundtableHistory", "RoundtableKernel", "RoundtableRoles"],
    "RoundtableFiles": ["RoundtableFiles", "RoundtableKernel"],
    "RoundtableJobs": ["RoundtableJobs"],
    "RoundtableService": ["RoundtableService"],
    "RoundtableTestKit": ["RoundtableTestKit"],
}
HEAD = """\
# The public interface of {module}, as a build on Linux has it: what is for Linux alone is among it.
# {apple}
"""
NO_APPLE = "No public declaration is for Apple's systems alone."
SOME_APPLE = "What is for Apple's systems alone is at the end, as the sources write it."
# A condition that no build on Linux fulfills.
APPLE = re.compile(r"^(canImport\((Darwin|os|UIKit|WidgetKit|SwiftUI|AppIntents|BackgroundTasks|MetricKit|Security)\)|os\((iOS|macOS)\))")
TYPE = re.compile(r"\b(?:extension|struct|class|enum|protocol|actor)\s+([\w.]+)")


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


def opposite(condition):
    return condition[1:] if condition.startswith("!") else f"!{condition}"


def apple_lines(module):
    """The public declarations of a module that only Apple's systems have, in the sources of its targets, each with the types around it."""
    found = []
    for target in MODULES[module]:
        for path in sorted(next(ROOT.glob(f"[SP]*/{target}")).rglob("*.swift")):
            conditions, types, depth, pending = [], [], 0, None
            for number, line in enumerate(path.read_text().splitlines()):
                # Without strings and comments, whose braces are none.
                code = re.sub(r"//.*", "", re.sub(r'"(\\.|[^"\\])*"', '""', line)).strip()
                directive = re.match(r"#(if|elseif|else|endif)\b\s*(.*)", code)
                if directive:
                    kind, condition = directive.groups()
                    if kind == "if":
                        conditions.append(condition)
                    elif kind == "endif":
                        conditions.pop()
                    else:
                        conditions[-1] = condition if kind == "elseif" else opposite(conditions[-1])
                    continue
                if re.match(r"(?:@\S+\s+)*(?:public|open)\s", code) and any(APPLE.match(condition) for condition in conditions):
                    name = re.search(r"\b(?:var|let|func|struct|class|enum|protocol|actor|typealias|case)\s+(\w+)|\b(init)\b", code)
                    if not name:
                        sys.exit(f"{path}:{number + 1}: not understood: {code}")
                    scope = ".".join([around for around, _ in types[-1:]] + [name.group(1) or name.group(2)])
                    found.append(f"{scope}: {re.sub(r' *[{=].*', '', code)}")
                named = TYPE.search(code)
                if named and "{" in code:
                    pending = ".".join([around for around, _ in types[-1:]] + [named.group(1)])
                for character in code:
                    if character == "{":
                        depth += 1
                        if pending:
                            types.append((pending, depth))
                            pending = None
                    elif character == "}":
                        if types and types[-1][1] == depth:
                            types.pop()
                        depth -= 1
    return sorted(found)


def text(graphs, module):
    apple = apple_lines(module)
    parts = [HEAD.format(module=module, apple=SOME_APPLE if apple else NO_APPLE), "\n".join(lines(graphs / module)) + "\n"]
    if apple:
        parts.append("\n# For Apple's systems alone.\n" + "\n".join(apple) + "\n")
    return "".join(parts)


def main():
    graphs, mode = Path(sys.argv[1]), sys.argv[2]
    differs = False
    for module in MODULES:
        new = text(graphs, module)
        path = API / f"{module}.txt"
        if mode == "--write":
            API.mkdir(exist_ok=True)
            path.write_text(new)
            continue
        old = path.read_text() if path.exists() else ""
        if old != new:
            differs = True
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), f"docs/api/{module}.txt", "the sources", n=0))
    if differs:
        sys.exit("The public interface has changed: run 'make api', and say so in CHANGELOG.md.")


if __name__ == "__main__":
    main()
