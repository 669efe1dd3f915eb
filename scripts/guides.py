#!/usr/bin/env python3
"""The guides, docs/guides: Markdown whose links lead from file to file.

  guides.py check               fails if a link of a document, or of a comment, leads to no file, heading or guide
  guides.py catalogues FOLDER   writes DocC's catalogues, whose links have another form, as FOLDER/MODULE.docc: the guides, and the documents of docs and
                                Examples that docs/guides/README.md links to
"""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDES = ROOT / "docs" / "guides"
# The guides of the test kit. All others are Roundtable's.
TEST_KIT = {"RoundtableTestKit", "TestingYourOwnDatabaseCode"}
# The modules that have no guides of their own, and the first sentence of their pages.
ABSTRACTS = {
    "RoundtableFiles": "Snapshot files and the outbox, for processes that never open the database. Without GRDB and SQLite.",
    "RoundtableJobs": "A table of jobs that workers of all processes share.",
    "RoundtableService": "A shared database and its workers as services of swift-service-lifecycle, with metrics, tracing and health.",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^) ]+)\)")
DOC = re.compile(r"<doc:([^>]+)>")


def guide(name):
    """The file of a guide. DocC names the first page of a catalogue after its module."""
    return GUIDES / ("README.md" if name == "Roundtable" else name + ".md")


def name(path):
    if path.name == "README.md":
        return "Roundtable" if path.parent == GUIDES else "Example" + path.parent.name
    return path.stem


@cache
def pages():
    """The documents that the site has, with the modules to which they belong."""
    found = {path: "RoundtableTestKit" if name(path) in TEST_KIT else "Roundtable" for path in sorted(GUIDES.glob("*.md"))}
    for _, link in LINK.findall(guide("Roundtable").read_text()):
        path = (GUIDES / link.partition("#")[0]).resolve()
        if path.suffix == ".md" and not re.match(r"[a-z]+:", link):
            found.setdefault(path, "Roundtable")
    return found


def address(path, anchor=""):
    """Where the site has a page."""
    module = pages()[path]
    page = [] if name(path) == module else [name(path).lower()]
    return "/".join(["documentation", module.lower(), *page]) + ("#" + headings(path)[anchor] if anchor else "")


def prose(lines, comment=""):
    """The lines that are no code, with their indices."""
    is_code = False
    for index, line in enumerate(lines):
        if comment and not line.lstrip().startswith(comment):
            continue
        if re.match(r" *(/// *)?```", line):
            is_code = not is_code
        elif not is_code:
            yield index, line


@cache
def headings(path):
    """The headings of a document by their anchors on GitHub, with the anchors that DocC makes of them."""
    found = {}
    for _, line in prose(path.read_text().splitlines()):
        if match := re.match(r"#+ +(.*)", line):
            kept = re.sub(r"[^A-Za-z0-9_ –-]", "", match[1]).replace(" ", "-")
            # GitHub drops an en dash, and DocC makes a hyphen of it.
            anchor, kept, copies = kept.replace("–", "").lower(), kept.replace("–", "-"), 0
            while anchor in found:
                copies += 1
                anchor = f"{kept.lower()}-{copies}"
            found[anchor] = kept
    return found


@cache
def title(path):
    return re.sub("`", "", path.read_text().splitlines()[0].removeprefix("# "))


def check():
    problems = []

    def look(place, link, path, anchor):
        if not path.exists():
            problems.append(f"{place}: dead link: {link}")
        elif anchor and anchor not in headings(path):
            problems.append(f"{place}: no such heading: {link}")

    patterns = ["*.md", "Sources/*.swift", "Tool/*.swift", "Proof/*.swift"]
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    for file in files.stdout.split("\n"):
        path = ROOT / file
        if not file or not path.is_file():
            continue
        lines = path.read_text().splitlines()
        for index, line in prose(lines, "///" if path.suffix == ".swift" else ""):
            place, line = f"{file}:{index + 1}", re.sub(r"`[^`]*`", "", line)
            for reference in DOC.findall(line):
                page, _, anchor = reference.partition("#")
                look(place, reference, guide(page), anchor.lower())
            for _, link in LINK.findall(line):
                if re.match(r"[a-z]+:", link):
                    continue
                target, _, anchor = link.partition("#")
                look(place, link, (path.parent / target).resolve() if target else path, anchor)
    if problems:
        sys.exit("\n".join(problems))


def for_docc(line, path):
    """One line of a document, with DocC's links."""

    def convert(match):
        text, link = match.groups()
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if re.match(r"[a-z]+:", link):
            return match[0]
        if match[0].startswith("!"):
            return f"![{text}]({file.name})"
        if file not in pages():
            return f"`{file.relative_to(ROOT)}`" if text.strip("`") == str(file.relative_to(ROOT)) else text
        if pages()[file] != pages()[path]:
            return f"[{text}](/{address(file, anchor)})"
        anchor = "#" + headings(file)[anchor] if anchor else ""
        if text == title(file):
            return f"<doc:{name(file)}{anchor}>"
        return f"[{text}]({'doc:' + name(file) if target else ''}{anchor})"

    # Code outside of links is left alone: what looks like a link there is none.
    return re.sub("!?" + LINK.pattern + r"|`+[^`]*`+", lambda match: convert(match) if match[2] else match[0], line)


def catalogues(out):
    for module, abstract in ABSTRACTS.items():
        (out / f"{module}.docc").mkdir(parents=True)
        (out / f"{module}.docc" / f"{module}.md").write_text(f"# ``{module}``\n\n{abstract}\n")
    for path, module in pages().items():
        folder = out / f"{module}.docc"
        folder.mkdir(exist_ok=True)
        lines = path.read_text().splitlines()
        for index, line in prose(lines):
            lines[index] = for_docc(line, path)
            for _, picture in re.findall("!" + LINK.pattern, line):
                shutil.copy(path.parent / picture, folder)
        (folder / f"{name(path)}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        check()
    elif len(sys.argv) == 3 and sys.argv[1] == "catalogues":
        catalogues(Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
