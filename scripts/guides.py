#!/usr/bin/env python3
"""The guides, docs/guides: Markdown whose links lead from file to file.

  guides.py check               fails if a link of a document, or of a comment, leads to no file, heading or guide
  guides.py catalogues FOLDER   writes the catalogues of DocC, whose links have another form: FOLDER/Roundtable.docc, FOLDER/RoundtableTestKit.docc
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDES = ROOT / "docs" / "guides"
# The guides of the test kit. All others are Roundtable's.
TEST_KIT = {"RoundtableTestKit", "TestingFor0xDEAD10CC", "TestingYourOwnDatabaseCode"}
LINK = re.compile(r"\[([^\]]*)\]\(([^) ]+)\)")
DOC = re.compile(r"<doc:([^>]+)>")


def guide(name):
    """The file of a guide. DocC names the first page of a catalogue after its module."""
    return GUIDES / ("README.md" if name == "Roundtable" else name + ".md")


def name(path):
    return "Roundtable" if path.name == "README.md" else path.stem


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
            kept = re.sub(r"[^A-Za-z0-9_ -]", "", match[1]).replace(" ", "-")
            anchor, copies = kept.lower(), 0
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
    """One line of a guide, with DocC's links."""

    def convert(match):
        text, link = match.groups()
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if re.match(r"[a-z]+:", link):
            return match[0]
        if file.parent != GUIDES:
            # Other documents of the repository are not on the site.
            return f"`{file.relative_to(ROOT)}`" if text.strip("`") == str(file.relative_to(ROOT)) else text
        anchor = "#" + headings(file)[anchor] if anchor else ""
        if text == title(file):
            return f"<doc:{name(file)}{anchor}>"
        return f"[{text}]({'doc:' + name(file) if target else ''}{anchor})"

    # Code outside of links is left alone: what looks like a link there is none.
    return re.sub(LINK.pattern + r"|`+[^`]*`+", lambda match: convert(match) if match[2] else match[0], line)


def catalogues(out):
    for path in sorted(GUIDES.glob("*.md")):
        module = "RoundtableTestKit" if name(path) in TEST_KIT else "Roundtable"
        lines = path.read_text().splitlines()
        for index, line in prose(lines):
            lines[index] = for_docc(line, path)
        folder = out / f"{module}.docc"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name(path)}.md").write_text("\n".join(lines) + "\n")


if sys.argv[1:] == ["check"]:
    check()
elif len(sys.argv) == 3 and sys.argv[1] == "catalogues":
    catalogues(Path(sys.argv[2]))
else:
    sys.exit(__doc__)
