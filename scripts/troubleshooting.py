#!/usr/bin/env python3
"""Checks that each error message says what to do next, and that the guide "Troubleshooting" is not stale.

  troubleshooting.py --check    fails if
                                - a message that stands alone has no next step, and no row of a guide has it;
                                - the guides quote a message that no source has, or a case that does not exist;
                                - the guides do not name a public error type
  troubleshooting.py --list     prints all messages: the file, the line, the text, and "no next step" where there is none

A message is a string literal in one of these places, in the targets of all products, and in those on which they depend:
  - the argument `message:` of `DatabaseError(…)`, and the argument of `ToolError(…)`;
  - in the libraries, an argument `reason:`, and the arguments of the functions in REASONS, which become part of an error;
  - anywhere in a file that declares a public error type, and in the files of TEXTS.
What ADVICE and traps return or print is not one.

A message stands alone if it begins with a value and a colon (`\\(path): …`), or is the argument of `ToolError(…)`, and does not end with a value: other
texts are parts of a message, and what a message ends with may say what to do. It has a next step if one of its clauses begins with a verb of STEPS, or if
it names a command or an option of the tool.

A row is a row of a table. What its first column has in backquotes is a message if it has at least three words; `…` stands for its values. Messages of
other programs are in FOREIGN.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDES = [ROOT / "docs" / "guides" / "Troubleshooting.md"]
# Files whose texts become part of errors, or of SharedDatabase.uncoordinatedReason.
TEXTS = [
    "RoundtableCore/Inspection/ForbiddenFile.swift",
    "RoundtableCore/Connections/ForeignCompanions.swift",
    "RoundtableCore/Inspection/LockHolders/DatabaseError+LockHolder.swift",
    "RoundtableCore/Inspection/LockHolders/LockHolder.swift",
    "RoundtableCore/Locations/DatabaseURI+Sharing.swift",
    "RoundtableDiagnostics/OutboxTravel/OutboxTravelCause.swift",
    "RoundtableDiagnostics/Reports/ReplicationCause.swift",
    "RoundtableFiles/FileSystem/FileProblem.swift",
    "RoundtableKernel/ControlBlock/ControlBlock+Opening.swift",
    "RoundtableKernel/System/DatabasePlace.swift",
]
# The targets of the tool, whose folder is Tool.
TOOL = {"RoundtableReplication", "RoundtableTool", "RoundtableToolSupport"}
# Functions that make an error of a reason.
REASONS = ["invalid", "refusal", "SaltFileError", "FleetError", "RecordedHistoryError", "SuspensionPoliceError"]
# Clauses that say what to do begin with one of these verbs.
STEPS = """accept add apply ask attach begin build call change check choose close commit continue convert copy correct create declare decode delete detach do drop
empty enable end export finish fix follow free give install judge keep leave let limit link look lower make mount move name open pass perhaps promote publish
put raise read record release remove rename repeat replace report reset restart restore retry roll run save see select send set share shorten start stop submit
switch take throw try turn update use wait write""".split()
# Messages that the guides quote of other programs: SQLite, the Swift compiler.
FOREIGN = [
    "database disk image is malformed",
    "is not a valid module file: file too small",
    "no such column",
    "no such module 'GRDBSQLite'",
    "'SharedDatabaseService' is unavailable",
]
# Members that return what to do, which follows a message, or texts for the people who use a program.
ADVICE = r"\b(?:func|var) (?:advice|consequence|errorDescription|failureReason|recoverySuggestion|(?:reason|suggestion)ForPeople)\b[^{]*\{"
TRAPS = ["preconditionFailure", "precondition", "fatalError"]
# Enums that are part of errors, beside the errors themselves.
PARTS = ["FileProblem", "StartOverReason"]
VALUE = "\x00"


def targets():
    """The targets of all products, and those of this package on which they depend, as the manifest has them. Those in C have no Swift files."""
    # What follows the list of targets is for special builds.
    manifest = (ROOT / "Package.swift").read_text().split("swiftLanguageModes")[0]
    needs = {}
    for chunk in re.split(r"\n {8}\.(?:target|executableTarget|testTarget)\(", manifest)[1:]:
        names = re.findall(r'"([\w-]+)"', re.sub(r"\.product\([^)]*\)|//.*", "", chunk))
        needs.setdefault(names[0], set(names[1:]))
    wanted = [name for part in re.findall(r"\.(?:library|executable)\(name: .*?targets: \[(.*?)\]", manifest) for name in re.findall(r'"([\w-]+)"', part)]
    found = set()
    while wanted:
        name = wanted.pop()
        if name in needs and name not in found:
            found.add(name)
            wanted += needs[name]
    return sorted(found)


class Literal:
    def __init__(self, start, end, text):
        self.start, self.end, self.text = start, end, text


def scan(source):
    """The string literals of Swift source, outside of comments and of other literals, and the source with both blanked out."""
    literals = []
    code = list(source)

    def blank(start, end):
        for index in range(start, end):
            if code[index] != "\n":
                code[index] = " "

    def string(at):
        """Reads the literal at `at`, and returns its end and its text, with VALUE for each interpolation."""
        hashes = 0
        while source[at + hashes] == "#":
            hashes += 1
        escape = "\\" + "#" * hashes
        at += hashes
        quote = '"""' if source.startswith('"""', at) else '"'
        closing = quote + "#" * hashes
        at += len(quote)
        text = []
        while not source.startswith(closing, at):
            if source.startswith(escape + "(", at):
                at = group(at + len(escape))
                text.append(VALUE)
            elif source.startswith(escape, at):
                at += len(escape)
                # A line that ends with a backslash continues.
                if source[at] in " \t\n":
                    at = re.compile(r"[ \t]*\n[ \t]*").match(source, at).end()
                else:
                    text.append({"n": "\n", "t": "\t"}.get(source[at], source[at]))
                    at += 1
            else:
                text.append(source[at])
                at += 1
        return at + len(closing), "".join(text)

    def group(at):
        """The end of the group in parentheses that begins at `at`."""
        depth = 0
        while True:
            if source[at] == '"':
                at, _ = string(at)
                continue
            depth += {"(": 1, ")": -1}.get(source[at], 0)
            at += 1
            if depth == 0:
                return at

    at = 0
    while at < len(source):
        if source.startswith("//", at):
            end = source.find("\n", at)
            end = len(source) if end < 0 else end
            blank(at, end)
        elif source.startswith("/*", at):
            end = source.index("*/", at) + 2
            blank(at, end)
        elif source[at] == '"' or re.compile(r'#+"').match(source, at):
            end, text = string(at)
            literals.append(Literal(at, end, text))
            blank(at, end)
        elif source[at] == "/" and re.compile(r"(?<=[(=] )/[^/\n]+/|(?<=\()/[^/\n ][^/\n]*/").match(source, at):
            end = re.compile(r"/(\\.|[^/\\\n])+/").match(source, at).end()
            blank(at, end)
        else:
            end = at + 1
        at = end
    return literals, "".join(code)


def arguments(code, name):
    """The ranges of the arguments of each call of `name`, with their labels."""
    for call in re.finditer(rf"(?<![\w.])(?:{name})\(", code):
        start = at = call.end()
        depth = 1
        while depth:
            character = code[at]
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
            if (depth == 1 and character == ",") or depth == 0:
                label = re.match(r"\s*(\w+):", code[start:at])
                yield (label[1] if label else None), start, at
                start = at + 1
            at += 1


def normal(text):
    return re.sub(r"\s+", " ", text).strip()


def fact(text):
    """The pieces between the values of the clause of a message that the guide must have; None if no piece has three words."""
    for clause in re.split(r"(?<=[.:;])\s", text):
        pieces = [normal(piece).strip(" .:;,()'\"") for piece in clause.split(VALUE)]
        if any(len(re.findall(r"[\w'-]{2,}|\ba\b", piece)) >= 3 for piece in pieces):
            return [piece for piece in pieces if re.search(r"\w{2}", piece)]
    return None


def pattern(pieces):
    """What finds the pieces in one span of code."""
    return r"[^\n]*?".join(re.escape(piece) for piece in pieces)


def bodies(code, head):
    """The bodies of the declarations that match `head`, with the match."""
    for match in re.finditer(head, code):
        at = code.index("{", match.end() - 1) + 1
        start, depth = at, 1
        while depth:
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        yield match, start, at - 1


def error_cases(code):
    """The cases of the public error enums, and the public error types without cases."""
    errors = rf"\bpublic (enum|struct) (\w+): Error\b[^{{]*\{{|\bpublic (enum) ({'|'.join(PARTS)}): [^{{]*\{{"
    for match, start, end in bodies(code, errors):
        kind, name = match[1] or match[3], match[2] or match[4]
        if kind == "struct":
            yield name
        for cases in re.findall(r"^\s*case (.+)$", flat(code[start:end]), re.MULTILINE):
            # Without the associated values, "a(b: C), d" is "a, d".
            for case in re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", cases).split(","):
                yield name + "." + re.match(r"[\s`]*(\w+)", case)[1]


def flat(body):
    """The body without what its own braces enclose."""
    depth, kept = 0, []
    for character in body:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            kept.append(character)
    return "".join(kept)


def within(ranges, literal):
    return any(start <= literal.start < end for start, end in ranges)


def collect():
    """The messages, as (file, line, pieces, text, whether it is a ToolError), the cases, as {name: file}, and the texts of all literals."""
    messages, cases, texts = [], {}, []
    for target in targets():
        folder = next(ROOT.glob(f"[STP]*/{target}")).parent
        for path in sorted((folder / target).rglob("*.swift")):
            file = str(path.relative_to(folder))
            source = path.read_text()
            literals, code = scan(source)
            texts += [literal.text for literal in literals]
            tool_errors = [(start, end) for label, start, end in arguments(code, "ToolError") if label is None]
            found = list(error_cases(code))
            cases.update((name, file) for name in found)
            if found or file in TEXTS:
                ranges = [(0, len(code))]
            else:
                ranges = [(start, end) for label, start, end in arguments(code, "DatabaseError") if label == "message"]
                ranges += tool_errors
                if target not in TOOL:
                    ranges += [(start, end) for label, start, end in arguments(code, r"[\w.]+") if label == "reason"]
                    ranges += [(start, end) for name in REASONS for _, start, end in arguments(code, name)]
            others = [(start, end) for _, start, end in bodies(code, ADVICE)]
            others += [(start, end) for name in TRAPS for _, start, end in arguments(code, name)]
            for literal in literals:
                if not within(ranges, literal) or within(others, literal):
                    continue
                pieces = fact(literal.text)
                if pieces:
                    line = source.count("\n", 0, literal.start) + 1
                    messages.append((file, line, pieces, literal.text, within(tool_errors, literal)))
    return messages, cases, texts


def stands_alone(text, is_tool_error):
    text = normal(text)
    return not re.search(rf"{VALUE}['\".)]*$", text) and (is_tool_error or re.match(rf"{VALUE}: ", text) is not None)


def has_step(text):
    step = rf"(?:^|[.:;,{VALUE}]\s+|\b(?:or|and|then|first)\s+)['(]?(?:{'|'.join(STEPS)})\b|'roundtable |(?<!\S)--[a-z]"
    return re.search(step, normal(text), re.IGNORECASE) is not None


def rows(text):
    """The messages that the tables and lists of a guide quote, each as its pieces."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in text.splitlines():
        first = line.split("|")[1] if line.startswith("|") and line.count("|") > 2 else ""
        for span in re.findall(r"`([^`]+)`", first):
            if len(re.findall(r"[\w'-]{2,}|\ba\b", span)) >= 3:
                yield span, [normal(piece) for piece in span.split("…") if re.search(r"\w{2}", piece)]


def check():
    messages, cases, literals = collect()
    guides = {path: path.read_text() for path in GUIDES}
    whole = "\n".join(guides.values())
    quoted = [(path, *row) for path, text in guides.items() for row in rows(text)]
    problems = []
    for file, line, pieces, text, is_tool_error in messages:
        if stands_alone(text, is_tool_error) and not has_step(text):
            plain = normal(text).replace(VALUE, "…")
            if not any(re.search(pattern(row), plain) for _, _, row in quoted):
                problems.append(f"{file}:{line}: this message does not say what to do next, and no row of a guide has it: {plain}")
    known = [normal(text).replace(VALUE, "…") for text in literals] + FOREIGN
    for path, span, pieces in quoted:
        if not any(re.search(pattern(pieces), text) for text in known):
            problems.append(f"{path.relative_to(ROOT)}: no source has this message any more: {span}")
    types = {name.split(".")[0] for name in cases}
    for name in sorted(types):
        if not re.search(rf"`{name}\b", whole):
            problems.append(f"the guides do not name {name}, which is declared in {next(file for case, file in cases.items() if case.split('.')[0] == name)}")
    for path, text in guides.items():
        for name in sorted(set(re.findall(r"`(\w+\.\w+)`", text)) | {f"{a}.{b}" for a, b in re.findall(r"``(\w+)/(\w+)\([^`]*``", text)}):
            if name.split(".")[0] in types and name not in cases:
                problems.append(f"{path.relative_to(ROOT)}: there is no {name}")
    # A search that finds nothing passes for ever.
    if len(messages) < 100 or len(cases) < 50 or len(quoted) < 20:
        problems.append(
            f"only {len(messages)} messages, {len(cases)} cases and {len(quoted)} rows were found: this script does not understand them any more")
    missing = {"Roundtable", "RoundtableFiles", "RoundtableJobs", "RoundtableService", "RoundtableTestKit"} | TOOL
    missing -= set(targets())
    if missing:
        problems.append(f"Package.swift: the targets {', '.join(sorted(missing))} were not found: this script does not understand the manifest any more")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(f"{len(problems)} problems of messages: see scripts/troubleshooting.py")


if sys.argv[1:] == ["--check"]:
    check()
elif sys.argv[1:] == ["--list"]:
    for file, line, pieces, text, is_tool_error in collect()[0]:
        note = "    (no next step)" if stands_alone(text, is_tool_error) and not has_step(text) else ""
        print(f"{file}:{line}{note}\n    {normal(text).replace(VALUE, '…')}")
    print("\n".join(collect()[1]))
else:
    sys.exit(__doc__.strip())
