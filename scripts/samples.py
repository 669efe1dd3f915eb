#!/usr/bin/env python3
"""Compiles every Swift sample of the README, of the guides and of docs/TESTING.md, against the modules of the last build.

  samples.py           after `swift build --build-tests`; names the document and the line of what does not compile
  samples.py FILE…     only the samples of these documents

The rules by which a block ```swift becomes a file in .build/samples:

- Each document is a module. Tests/Samples/Common and Tests/Samples/<Document>.swift declare what belongs to the reader (`url`,
  `Player`), and may declare no name that a module has which the samples import.
- A block is split at its outermost level. Types, extensions, tests and imports go to the level of the file. Functions and computed variables go
  there too if the block has types or imports and no statements.
- All else becomes the body of a function, which is `async throws` if there is an `await` in it, and `throws` otherwise. It is nested in the functions of
  the blocks before it, so that it sees what they declare and may declare it again.
- A block that imports has these imports alone and sees the types of the blocks before it, but not their variables: it is a file of its own
  for the reader, too. Other blocks import Foundation, GRDB, Roundtable, what their document's context imports, and what blocks before them import.
- A block that declares a type for the second time begins a new module: its document shows another version of that type.
- A block whose first line is a comment with its path, `// Sources/NAME/…`, and whose module NAME another block of the document imports, is compiled to this
  module. It, and what imports it, do not see Common, whose names they may declare.
- `…` stands for the reader's code, and leaves the function after `else`.
- A document for Apple's systems, whose context begins with "// For iOS.", is compiled against the stubs of scripts/typecheck-apple.sh.
- Parts of a manifest (lines of `.package(…)` and `.product(…)`, or arguments of `Package`) become a Package.swift, which `swift package dump-package` reads. Products of this package must exist.

Warnings fail, but for those of values that a sample shows and does not use."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".build" / "samples"
PRODUCTS = ROOT / ".build" / "debug"
APPLE = ROOT / ".build" / "typecheck-apple" / "iOS"
CONTEXTS = ROOT / "Tests" / "Samples"
# Stubs that the samples need besides those of typecheck-apple.sh. Later ones import earlier ones.
APPLE_STUBS = ROOT / "Tests" / "AppleStubs"
APPLE_STUB_NAMES = ["SwiftUI", "AppIntents", "BackgroundTasks", "Security", "UserNotifications"]
OTHER_STUBS = ["SQLite", "Hummingbird"]
# The context of all samples. A module of its own, so that samples may declare its names.
COMMON = "Common"
SWIFT = os.environ.get("SWIFT", "swift")
SWIFTC = os.environ.get("SWIFTC", re.sub(r"swift$", "swiftc", SWIFT))

# Blocks that are not compiled: the document, a text that only this block has, and the reason.
EXCEPTIONS = []

# The samples of these documents are code of this package.
INTERNAL = {"docs/TESTING.md"}
IMPORTS = ["Foundation", "GRDB", "Roundtable"]
IMPORT_COMMON = f"@testable import {COMMON}"
# What contexts may not declare: the names of these modules, on Linux and on iOS.
REAL_MODULES = {False: IMPORTS + ["RoundtableTestKit", "Testing"], True: IMPORTS + ["UIKit", "WidgetKit", *APPLE_STUB_NAMES]}
UNUSED = re.compile(r"was never (used|mutated)|never read|will never be executed")

ATTRIBUTES = r"(?:@\w+(?:\([^)]*\))?\s+)*"
MODIFIERS = r"(?:(?:public|package|internal|fileprivate|private|final|indirect|nonisolated|distributed)\s+)*"
DECLARATION = re.compile(
    rf"({ATTRIBUTES}){MODIFIERS}(import|struct|class|enum|actor|protocol|extension|typealias|func|var)\s+([\w.]+)(.*)")
TYPES = {"struct", "class", "enum", "actor", "protocol", "extension", "typealias"}


class Block:
    """The lines of one sample, and the number of the first."""

    def __init__(self, document, line, lines):
        self.document, self.line, self.lines = document, line, lines
        self.imports, self.types, self.functions, self.statements = [], [], [], []
        self.names = []
        if not self.is_manifest:
            self.split()

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def is_manifest(self):
        return any(re.match(r"\s*\.(package|product)\(|import PackageDescription", line) for line in self.lines)

    def split(self):
        for start, end in items(self.lines):
            # An attribute may have a line of its own.
            text = re.sub(r"^(\s*//.*\n)+", "", "\n".join(self.lines[start:end]))
            found = DECLARATION.match(text.replace("\n", " "))
            kind, name = (found.group(2), found.group(3)) if found else (None, None)
            part = (start, end)
            if kind == "import":
                self.imports.append(part)
            elif kind in TYPES or found and re.search(r"@(Test|Suite|main)\b", found.group(1)):
                self.types.append(part)
                if kind != "extension":
                    self.names.append(name)
            elif kind == "func" or kind == "var" and re.match(r"[^=]*\{", found.group(4)):
                self.functions.append(part)
            else:
                self.statements.append(part)
        if not self.statements and (self.types or self.imports):
            self.types += self.functions
        else:
            self.statements += self.functions
        self.types.sort()
        self.statements.sort()

    @property
    def module(self):
        """The module that the comment in the first line names."""
        path = re.match(r"// Sources/(\w+)/", self.lines[0]) if self.lines else None
        return path and path.group(1)

    def imported(self):
        # A comment above the import is a part of it.
        return [re.search(r"^(?:@\w+ )*import (?:\w+ )?(\w+)", "\n".join(self.lines[start:end]), re.M).group(1) for start, end in self.imports]

    def code(self, parts):
        lines = []
        for start, end in parts:
            lines.append(f'#sourceLocation(file: "{self.document}", line: {self.line + start})')
            for line in self.lines[start:end]:
                line = re.sub(r"else \{ *… *\}", "else { fatalError() }", line)
                lines.append(line.replace("…", "yourCode()"))
        return lines + ["#sourceLocation()"] if parts else []


def items(lines):
    """The outermost declarations and statements, as ranges of lines: each begins outside of all brackets, strings and comments."""
    starts = []
    stack = []
    joins = False
    for number, line in enumerate(lines):
        if not stack and line.strip() and not joins and not re.match(r"[\]})\s.]|(else|catch)\b", line):
            starts.append(number)
        # What a comment or an attribute alone on its line is about follows.
        joins = not stack and re.fullmatch(r"\s*//.*|@\w.*", line) is not None and not DECLARATION.match(line)
        scan(line, stack)
    return list(zip(starts, starts[1:] + [len(lines)]))


def scan(line, stack):
    """Follows the brackets, strings and comments of a line. `stack` has those that are open."""
    position = 0
    while position < len(line):
        rest = line[position:]
        top = stack[-1] if stack else None
        if top in ('"', '"""'):
            if rest.startswith("\\("):
                stack.append("\\(")
                position += 2
            elif rest.startswith("\\"):
                position += 2
            elif rest.startswith(top):
                stack.pop()
                position += len(top)
            else:
                position += 1
        elif top == "/*":
            if rest.startswith("*/"):
                stack.pop()
                position += 2
            else:
                position += 1
        elif rest.startswith("//"):
            return
        else:
            opening = re.match(r'"""|"|/\*|[(\[{]', rest)
            if opening:
                stack.append(opening.group())
                position += len(opening.group())
            else:
                if rest[0] in ")]}" and stack:
                    stack.pop()
                position += 1


def blocks(document):
    found = []
    fence = None
    for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
        mark = re.match(r"( *)```(\w*)", line)
        if fence is None and mark:
            fence = (len(mark.group(1)), mark.group(2), number + 1, [])
        elif fence and re.fullmatch(r" *```", line):
            if fence[1] == "swift":
                found.append(Block(document, fence[2], fence[3]))
            fence = None
        elif fence:
            fence[3].append(line[min(fence[0], len(line) - len(line.lstrip())):])
    if fence:
        sys.exit(f"{document}:{fence[2] - 1}: this block does not end")
    return found


def modules(found):
    """The blocks of a document, in parts of which none declares a type twice."""
    parts = []
    names = set()
    for block in found:
        if not parts or names & set(block.names):
            parts.append([])
            names = set()
        parts[-1].append(block)
        names.update(block.names)
    return parts


def build_shared(found):
    """Compiles the blocks that are a module which other blocks import. Answers these modules' names, and what is wrong."""
    imported = {name for block in found for name in block.imported()}
    names, wrong = [], []
    for block in found:
        if block.module not in imported:
            continue
        names.append(block.module)
        file = WORK / "stubs" / f"{block.module}.swift"
        file.write_text("\n".join(block.code(block.imports) + block.code(block.types)) + "\n")
        status, output = compiler(
            "-emit-module", "-module-name", block.module, *module_flags(False), "-emit-module-path", file.with_suffix(".swiftmodule"), file)
        wrong += problems(output) or ([output] if status else [])
    return names, wrong


def write_module(name, part, context, shared):
    """One file a block, and the contexts. Answers the files."""
    folder = WORK / name
    folder.mkdir(parents=True)
    context_imports = re.findall(r"^import (\w+)", context.read_text(), re.M) if context.exists() else []
    imported = list(dict.fromkeys(IMPORTS + context_imports))
    before = []
    files = [context] if context.exists() else []
    for block in part:
        if block.imports:
            lines, enclosing = block.code(block.imports), []
            imported += [name for name in block.imported() if name not in imported]
        else:
            lines, enclosing = [f"import {name}" for name in imported], before
        lines += ([] if set(block.imported()) & set(shared) else [IMPORT_COMMON]) + block.code(block.types)
        if block.statements:
            for each in enclosing + [block]:
                code = each.code(each.statements)
                waits = "async " if any(re.search(r"\bawait\b", line) for line in code) else ""
                # Others of the module have functions of the same names.
                private = "private " if each is (enclosing + [block])[0] else ""
                lines += [f"{private}func sample{each.line}() {waits}throws {{"] + code
            lines += ["}"] * (len(enclosing) + 1)
            before.append(block)
        file = folder / f"line{block.line}.swift"
        file.write_text("\n".join(lines) + "\n")
        files.append(file)
    return files


def compiler(*arguments):
    run = subprocess.run(
        [SWIFTC, "-swift-version", "6", "-parse-as-library", "-diagnostic-style", "llvm", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def module_flags(is_apple, package=None):
    flags = ["-module-cache-path", PRODUCTS / "ModuleCache"]
    if is_apple:
        flags += ["-I", WORK / "apple-stubs", "-I", APPLE, "-Xfrontend", "-import-module", "-Xfrontend", "FoundationOnApple"]
    else:
        flags += ["-I", WORK / "stubs"]
    flags += ["-I", PRODUCTS / "Modules", "-I", ROOT / ".build/checkouts/GRDB.swift/Sources/GRDBSQLite"]
    for shims in ("CRoundtableShims", "CRoundtableTestShims", "CRoundtableTestSupport"):
        flags += ["-Xcc", f"-fmodule-map-file={PRODUCTS / (shims + '.build')}/module.modulemap"]
    if package:
        flags += ["-package-name", package]
    return flags


def problems(output):
    """The errors, and the warnings that count, each once, with the lines that explain it."""
    found = {}
    key = None
    for line in output.splitlines():
        message = re.match(r"(.*?):(\d+):\d+: (error|warning|note): (.*)", line)
        if message or re.match(r"(<unknown>|.*): (error|fatal error): ", line):
            if message and message.group(3) == "note":
                pass
            elif message and message.group(3) == "warning" and UNUSED.search(message.group(4)):
                key = None
            else:
                key = message.group(1, 2, 4) if message else line
                if key in found:
                    key = None
                else:
                    found[key] = []
        if key:
            found[key].append(line.replace(f"{ROOT}/", ""))
    return ["\n".join(lines) for lines in found.values()]


def check_module(name, part, document, shared):
    context = CONTEXTS / f"{Path(document).stem}.swift"
    is_apple = context.exists() and context.read_text().startswith("// For iOS.")
    files = write_module(name, part, context, shared)
    package = package_name() if document in INTERNAL else None
    # To SIL, because some of Swift's errors are found on the way: data races, variables without a value, missing returns.
    status, output = compiler("-emit-sil", "-wmo", "-module-name", name, "-o", os.devnull, *module_flags(is_apple, package), *files)
    found = problems(output)
    if status and not found:
        found = [f"{document}: the compiler failed:\n{output}"]
    return found


def build_stubs():
    """Compiles the stubs. Those of Apple's library are the check's that `make typecheck-apple` runs."""
    library = PRODUCTS / "Modules" / "Roundtable.swiftmodule"
    if not library.exists():
        sys.exit("There is no build to take the modules from: run 'swift build --build-tests' first.")
    done = APPLE.parent / "done"
    inputs = [*ROOT.glob("Sources/**/*.swift"), *ROOT.glob("Proof/RoundtableTestKit/**/*.swift"), *APPLE_STUBS.rglob("*.swift"), PRODUCTS / "Modules" / "GRDB.swiftmodule"]
    if not done.exists() or done.stat().st_mtime < max(file.stat().st_mtime for file in inputs):
        if subprocess.run(["sh", "scripts/typecheck-apple.sh", SWIFTC], cwd=ROOT).returncode:
            sys.exit(1)
    for is_apple, folder, names in (
        (False, "stubs", [CONTEXTS / name for name in OTHER_STUBS + [COMMON]]),
        (True, "apple-stubs", [APPLE_STUBS / name for name in APPLE_STUB_NAMES] + [CONTEXTS / COMMON])):
        (WORK / folder).mkdir()
        for stub in names:
            status, output = compiler(
                "-emit-module", "-enable-testing", "-module-name", stub.name, *module_flags(is_apple),
                "-emit-module-path", WORK / folder / f"{stub.name}.swiftmodule", *sorted(stub.glob("*.swift")))
            if status:
                sys.exit(output)


def package_name():
    """The name that the build gives to this package's modules, which is that of the folder."""
    names = re.findall(r'"-package-name","([^"]*)"', (ROOT / ".build" / "debug.yaml").read_text())
    return max(set(names), key=names.count)


def check_contexts(documents):
    """Asks the compiler for each name of the contexts in the real modules alone: it must know none of them."""
    declared = {}
    found = []
    stems = {Path(document).stem for document in documents}
    for file in sorted([*CONTEXTS.glob("*.swift"), *(CONTEXTS / COMMON).glob("*.swift")]):
        path = file.relative_to(ROOT)
        if file.parent == CONTEXTS and file.stem not in stems:
            found.append(f"{path}:1: error: there is no document of this name")
        lines = file.read_text().splitlines()
        for start, _ in items(lines):
            declaration = DECLARATION.match(re.sub(r"^let ", "var ", lines[start]))
            if declaration and declaration.group(2) != "import":
                declared.setdefault(declaration.group(3), []).append(f"{path}:{start + 1}")
    for is_apple, names in REAL_MODULES.items():
        probe = WORK / f"names{is_apple}.swift"
        lines = [f"import {name}" for name in names] + ["func names() {"] + [f"_ = {name}" for name in declared] + ["}"]
        probe.write_text("\n".join(lines) + "\n")
        _, output = compiler("-typecheck", *module_flags(is_apple), probe)
        unknown = set(re.findall(r"error: cannot find '(\w+)' in scope", output))
        if not unknown:
            found.append(output)
        for name in declared.keys() - unknown:
            found += [f"{place}: error: a module that the samples import has the name '{name}', too" for place in declared[name]]
    return sorted(set(found))


def check_manifest(block, own_products):
    tools = "// swift-tools-version: 6.1"

    def place(start):
        return f'#sourceLocation(file: "{block.document}", line: {block.line + start - 1})'

    if "Package(" in block.text:
        manifest = list(block.lines)
        if manifest[0].startswith("// swift-tools-version"):
            tools = manifest[0]
            manifest[0] = ""
        manifest.insert(0, place(1))
    elif re.match(r"\w+:", block.lines[0]):
        # Arguments of the package. A directive may not be inside of an expression.
        manifest = ["import PackageDescription", place(0), 'let package = Package(name: "Sample",', *block.lines, ")"]
    else:
        manifest = ["import PackageDescription", "var packages: [Package.Dependency] = []", "var products: [Target.Dependency] = []"]
        starts = [number for number, line in enumerate(block.lines) if line.lstrip().startswith(".")]
        for start, end in zip(starts, starts[1:] + [len(block.lines)]):
            name = "packages" if block.lines[start].lstrip().startswith(".package") else "products"
            manifest += [place(start), f"{name} += [", *block.lines[start:end], "]"]
        manifest.append(
            'let package = Package(name: "Sample", dependencies: packages, targets: [.target(name: "Sample", dependencies: products)])')
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Package.swift").write_text("\n".join([tools, *manifest]) + "\n")
        dump, errors = dump_package(folder)
    here = f"{block.document}:{block.line}"
    if dump is None:
        errors = "".join(line for line in errors.splitlines(True) if "Invalid manifest (compiled with" not in line)
        return [f"{here}: error: the manifest is not accepted:\n{errors}"]
    used = [each["product"] for target in dump["targets"] for each in target["dependencies"] if "product" in each]
    return [
        f"{here}: error: this package has no product {name}" for name, package, *_ in used if package == "Roundtable" and name not in own_products
    ]


def dump_package(folder):
    run = subprocess.run(
        [SWIFT, "package", "--package-path", str(folder), "--disable-sandbox", "dump-package"], capture_output=True, text=True)
    return (json.loads(run.stdout), "") if run.returncode == 0 else (None, run.stderr)


def main():
    os.chdir(ROOT)
    everything = ["README.md", *sorted(map(str, Path().glob("docs/guides/*.md"))), *sorted(INTERNAL)]
    documents = sys.argv[1:] or everything
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    build_stubs()

    count = 0
    excepted = []
    shared_problems = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        tasks = [pool.submit(check_contexts, everything)]
        own_products = None
        for document in documents:
            compiled = []
            for block in blocks(document):
                reasons = [reason for path, text, reason in EXCEPTIONS if path == document and text in block.text]
                if reasons:
                    excepted.append(f"{document}:{block.line}: not compiled: {reasons[0]}")
                    continue
                count += 1
                if block.is_manifest:
                    own_products = own_products or {product["name"] for product in dump_package(ROOT)[0]["products"]}
                    tasks.append(pool.submit(check_manifest, block, own_products))
                else:
                    compiled.append(block)
            shared, wrong = build_shared(compiled)
            shared_problems += wrong
            compiled = [block for block in compiled if block.module not in shared]
            for number, part in enumerate(modules(compiled)):
                tasks.append(pool.submit(check_module, f"{re.sub(r'[^A-Za-z0-9]', '_', str(document))}_{number}", part, document, shared))
        found = shared_problems + [problem for task in tasks for problem in task.result()]

    for line in excepted:
        print(line)
    if not sys.argv[1:] and len(excepted) != len(EXCEPTIONS):
        found.append("samples.py: error: an exception fits no block, or several")
    if found:
        print("\n".join(found), file=sys.stderr)
        sys.exit(f"{len(found)} errors in {count} samples. The rules are at the head of scripts/samples.py.")
    print(f"{count} samples compile; {len(excepted)} are not compiled.")


main()
