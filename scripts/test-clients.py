#!/usr/bin/env python3
"""Runs the tests of clients of GRDB on queues, on pools and on shared databases, and compares the outcome of each test.

  test-clients.py [--flags='FLAGS OF swift build'] SWIFT CLIENT...

CLIENT is the path of a checkout, which stays as it is. A copy of it for each variant, in .build/clients, opens its databases with `ClientDatabase.open`:
the copies differ in that file alone. Databases in memory become temporary files in all of them. Nothing is fetched but what SwiftPM fetches to build.

Fails if a test passes on pools and not on shared databases, if a client can be built and run on pools and not on shared databases, and if no client
was compared. LIMIT=60 ends a run of tests after 60 seconds.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".build" / "clients"
LIMIT = int(os.environ.get("LIMIT", "600"))

# What else must change in a client, by the name of its folder: a file, an expression, and what replaces each match; or a file to leave out. A rule that
# matches nothing is an error.
RULES = {
    "GRDBUndoRedo": [
        ("Package.swift", r'exact: "7.0.0-beta.6"', 'from: "7.10.0"'),
        ("Tests/GRDBUndoRedoTests/TestRecords.swift", "fileprivate enum Columns", "enum Columns"),
    ],
}
# Apple's module of SQLite, and CloudKit.
if sys.platform == "linux":
    RULES["GRDBSnapshotTesting"] = [("Sources/GRDBSnapshotTesting/SnapshotDumpFormat.swift", "import SQLite3", "import GRDBSQLite")]
    RULES["sqlite-data"] = [
        ("Tests/SQLiteDataTests/CloudKitTests/UnattachedSyncEngineTests.swift",),
        ("Tests/SQLiteDataTests/Internal/CloudKitTestHelpers.swift",),
        ("Tests/SQLiteDataTests/Internal/UserDatabaseHelpers.swift",),
        ("Tests/SQLiteDataTests/PrimaryKeyMigrationTests.swift",),
        ("Tests/SQLiteDataTests/Internal/Schema.swift", r"try db\.attachMetadatabase\(.*\)", "()"),
    ]

OPENING = re.compile(r"\b(?:GRDB\.)?Database(?:Queue|Pool)\((?!named:)")
# A type where it is declared: not its members, and not where code asks which type a database is.
TYPE = re.compile(r"(?<!is )(?<!as )(?<!as[?!] )\b(?:GRDB\.)?Database(?:Queue|Pool)\b(?![.(:])")
# Comments, imports, and extensions of GRDB's own classes.
KEPT = re.compile(r"^\s*(?://|(?:@\w+\s+)*(?:\w+ )?(?:import|extension Database(?:Queue|Pool))\b)")

VARIANTS = {
    "queue": ("DatabaseQueue", "", "return try DatabaseQueue(path: path, configuration: configuration)"),
    "pool": ("DatabasePool", "", "return try DatabasePool(path: path, configuration: configuration)"),
    "shared": ("SharedDatabase", "public import Roundtable\n", """var options = SharedDatabase.Options()
        options.configuration = configuration
        return try SharedDatabase.open(at: URL(fileURLWithPath: path), schema: .unmanaged, as: "client", options: options)"""),
}
DATABASE = """\
public import Foundation
public import GRDB
{imported}
public enum ClientDatabase {{
    public typealias Kind = {kind}

    public static func open(path: String = "", configuration: Configuration = Configuration()) throws -> Kind {{
        FileHandle.standardError.write(Data("Client database opened\\n".utf8))
        let temporary = FileManager.default.temporaryDirectory.appendingPathComponent("\\(UUID().uuidString).sqlite").path
        let path = ["", ":memory:"].contains(path) ? temporary : path
        {opening}
    }}
}}
"""
# In all variants, so that they resolve to the same GRDB.
MANIFEST = """
package.platforms = [.iOS("18.0"), .macOS("15.0")]
package.dependencies.append(.package(name: "Roundtable", path: {root}))
for target in package.targets where {targets}.contains(target.name) {{
    target.dependencies.append(.product(name: "Roundtable", package: "Roundtable"))
}}
"""


class Unusable(Exception):
    """A client or a variant that says nothing, and why."""


def swift(arguments, log, limit=None, **options):
    """Runs SwiftPM with its output in a file. Returns its status, or None after a limit in seconds."""
    with open(log, "w") as output:
        process = subprocess.Popen([SWIFT, *arguments], stdout=output, stderr=subprocess.STDOUT, **options)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            # SwiftPM then ends the test program, which is in a process group of its own.
            process.send_signal(signal.SIGINT)
            process.wait()


def first_error(text):
    errors = re.findall(r"^(?:/.*:\d+: )?error: (?!emit-module).*", text, re.MULTILINE)
    return (errors or text.strip().splitlines() or ["no message"])[0].replace(f"{WORK}/", "")


def copy(client, name, variant):
    """Copies a checkout and makes it a variant. Returns the folder, the name of the package, and how many lines were changed."""
    folder = WORK / f"{name}-{variant}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(client, folder, symlinks=True, ignore=shutil.ignore_patterns(".build*", ".git", ".swiftpm", "Package.resolved"))
    for path, *rule in RULES.get(name, []):
        file = folder / path
        text, count = re.subn(*rule, file.read_text()) if rule and file.exists() else ("", file.exists())
        if not count: raise Unusable(f"a rule of test-clients.py does not apply any more: {path} {rule}")
        file.write_text(text) if rule else file.unlink()
    found = subprocess.run([SWIFT, "package", "--package-path", folder, "describe", "--type", "json"], capture_output=True, text=True)
    if found.returncode != 0: raise Unusable(f"its manifest cannot be read: {first_error(found.stderr)}")
    package = json.loads(found.stdout[found.stdout.index("{"):])
    kind, imported, opening = VARIANTS[variant]
    changed, targets = 0, []
    for target in package["targets"]:
        sources, before = folder / target["path"], changed
        for file in [sources / source for source in target.get("sources", []) if source.endswith(".swift")]:
            lines = file.read_text().splitlines(keepends=True)
            edited = [line if KEPT.match(line) else TYPE.sub("ClientDatabase.Kind", OPENING.sub("ClientDatabase.open(", line)) for line in lines]
            changed += sum(one != other for one, other in zip(lines, edited))
            file.write_text("".join(edited))
        if changed == before: continue
        targets.append(target["name"])
        (sources / "ClientDatabase.swift").write_text(DATABASE.format(kind=kind, opening=opening, imported=imported))
    if not targets: raise Unusable("no line opens a DatabaseQueue or a DatabasePool")
    for manifest in folder.glob("Package*.swift"):
        manifest.write_text(manifest.read_text() + MANIFEST.format(root=json.dumps(str(ROOT)), targets=json.dumps(targets)))
    return folder, package["name"], changed


def run(common, label):
    """Runs the tests of a variant that is built. Returns the outcome of each, and how many databases they opened. After a crash or a hang, runs those
    that remain."""
    outcomes, opened = {}, 0
    for library, other in [("xctest", "swift-testing"), ("swift-testing", "xctest")]:
        found, new = {}, {"": "unfinished"}
        while "unfinished" in new.values():
            log = WORK / f"{label}.{library}.{len(found)}.log"
            with tempfile.TemporaryDirectory() as temporary:
                events = Path(temporary) / "events"
                skipped = [f"--skip=\\b{re.sub(r'[^A-Za-z0-9_]', '.', test)}(/|$)" for test in found]
                streamed = ["--event-stream-output-path", events, "--event-stream-version", "0"]
                swift(["test", "--skip-build", *common, f"--disable-{other}", *streamed, *skipped], log, LIMIT, env={**os.environ, "TMPDIR": temporary})
                ran = from_text(log) if library == "xctest" else from_events(events)
            new = {test: outcome for test, outcome in ran.items() if test not in found}
            found.update(new)
            opened += log.read_text(errors="replace").count("Client database opened")
        outcomes.update(found)
    return outcomes, opened


def from_text(log):
    """The outcomes that XCTest prints."""
    lines = re.findall(r"Test Case '(?:-\[)?([^']*?)\]?' (started|passed|failed|skipped)", log.read_text(errors="replace"))
    return {test: outcome.replace("started", "unfinished") for test, outcome in lines}


def from_events(file):
    """The outcomes in the event stream of swift-testing."""
    outcomes, functions = {}, {}
    for line in file.read_text().splitlines() if file.exists() else []:
        try: payload = json.loads(line)["payload"]
        except ValueError: continue  # The process ended while it wrote this line.
        # The identifier without the line.
        if payload["kind"] == "function": functions[payload["id"]] = re.sub(r"/[^/]*\.swift:\d+:\d+$", "", payload["id"])
        test, issue = functions.get(payload.get("testID")), payload.get("issue", {})
        if test is None: continue
        if payload["kind"] == "testStarted": outcomes[test] = "unfinished"
        elif payload["kind"] == "testSkipped": outcomes[test] = "skipped"
        elif payload["kind"] == "issueRecorded" and issue.get("isFailure", not issue.get("isKnown")): outcomes[test] = "failed"
        elif payload["kind"] == "testEnded" and outcomes[test] == "unfinished": outcomes[test] = "passed"
    return outcomes


def compare(client, name):
    """Prints what differs. Returns the row of a client, and whether it has failed."""
    results, failed = {}, False
    for old in WORK.glob(f"{name}-*.log"): old.unlink()
    for variant in VARIANTS:
        folder, package, changed = copy(client, name, variant)
        print(f"{name}: {variant}, {changed} lines changed", flush=True)
        common = ["--package-path", folder, "--scratch-path", WORK / f"{name}-build"]
        log = WORK / f"{name}-{variant}.build.log"
        try:
            if swift(["build", *common, "--product", f"{package}PackageTests", *FLAGS], log) != 0:
                raise Unusable(f"{variant} could not be built: {first_error(log.read_text())}")
            outcomes, opened = run(common, f"{name}-{variant}")
            if opened == 0: raise Unusable(f"{variant}: no test opened a database: see {log.parent}")
            print(f"    {opened} databases opened", flush=True)
            results[variant] = outcomes
        except Unusable as reason:
            # Pools are the control.
            if variant == "pool": raise
            print(f"    {reason}", flush=True)
            failed = variant == "shared"
    tests = sorted(set().union(*results.values()))
    for test in tests:
        outcomes = {variant: found.get(test, "missing") for variant, found in results.items()}
        if set(outcomes.values()) in ({"passed"}, {"skipped"}): continue
        print(f"    {test}: " + ", ".join(f"{variant} {outcome}" for variant, outcome in outcomes.items()))
        failed = failed or outcomes["pool"] == "passed" and outcomes.get("shared", "passed") != "passed"
    passed = [str(list(results[variant].values()).count("passed")) if variant in results else "–" for variant in VARIANTS]
    return f"{changed} and {len(RULES.get(name, []))} | {len(tests)} | {' / '.join(passed)}", failed


def main(clients):
    WORK.mkdir(parents=True, exist_ok=True)
    rows, failed, compared = [], [], 0
    for client in map(Path, clients):
        name = client.resolve().name
        try:
            if not (client / "Package.swift").exists(): raise Unusable("there is no Package.swift")
            row, differs = compare(client, name)
            compared += 1
            if differs: failed.append(name)
        except Unusable as reason:
            row = f"| | not compared: {reason}"
        commit = subprocess.run(["git", "-C", client, "describe", "--tags", "--always"], capture_output=True, text=True).stdout.strip()
        rows.append(f"| {name} {commit} | {row} |")
    print("\n| client | lines changed, and rules | tests | passed on queue / pool / shared |\n| --- | --- | --- | --- |", *rows, sep="\n")
    if failed: sys.exit("Shared databases differ from pools: " + ", ".join(failed))
    if compared == 0: sys.exit("No client was compared.")


parser = argparse.ArgumentParser()
parser.add_argument("--flags", default="", type=shlex.split)
parser.add_argument("swift")
parser.add_argument("client", nargs="*")
arguments = parser.parse_args()
if not arguments.client: sys.exit('No client: make test-clients CLIENTS="PATH-OF-A-CHECKOUT ANOTHER-PATH"')
SWIFT, FLAGS = arguments.swift, arguments.flags
main(arguments.client)
