#!/usr/bin/env python3
"""The parts of docs/TOOL.md that are made from the tool, and from the sources.

    tool-docs.py write PROGRAM    writes them anew
    tool-docs.py check PROGRAM    fails if they are not what the program and the sources say, if a verb has none, or if the page has more than MOST words
                                  that are written by hand

PROGRAM is the built tool: it is run with --experimental-dump-help, of swift-argument-parser. A part stands between two lines:

    <!-- help: outbox ship -->      what `roundtable help outbox ship` says
    <!-- findings -->               the ids that `roundtable doctor --json` uses, of DatabaseDiagnosis.Topic
    <!-- end -->
"""

import json
import re
import subprocess
import sys
from pathlib import Path

# No __pycache__ beside the scripts.
sys.dont_write_bytecode = True
from manual import visible

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "TOOL.md"
TOPICS = ROOT / "Sources" / "RoundtableDiagnostics" / "DatabaseDiagnosis.swift"
MOST = 3000
PART = re.compile(r"^<!-- (help: [a-z ]+|findings) -->\n(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)


def cell(text):
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "\\<")


def prose(text):
    """Paragraphs; lines that are indented, which are examples, become a block of code."""
    out, is_code = [], False
    for line in text.strip().split("\n"):
        if line.startswith("  ") and not is_code:
            # The line before introduces them.
            out += [] if not out or out[-1] == "" else [""]
            out.append("```sh")
        if is_code and not line.startswith("  "):
            out += ["```", ""]
        is_code = line.startswith("  ")
        out.append(line[2:] if is_code else re.sub(r"([<*])", r"\\\1", line))
    return out + (["```"] if is_code else [])


def spelling(argument):
    names = ", ".join(("-" if name["kind"] == "short" else "--") + name["name"] for name in argument.get("names", []))
    value = f"<{argument['valueName']}>"
    return value if argument["kind"] == "positional" else f"{names} {value}" if argument["kind"] == "option" else names


def described(name, command):
    """The help of one verb, in Markdown. --help and --version, which all verbs have, are left out."""
    arguments = [one for one in command.get("arguments", []) if one["shouldDisplay"] and one["valueName"] not in ("help", "version")]
    words = [f"roundtable {name}"] + (["[options]"] if any(one["kind"] != "positional" for one in arguments) else [])
    for argument in arguments:
        word = spelling(argument) + (" …" if argument["isRepeating"] else "")
        if argument["kind"] == "positional" or not argument["isOptional"]:
            words.append(f"[{word}]" if argument["isOptional"] else word)
    verbs = visible(command)
    words += ["<verb>"] if verbs else []
    out = [f"{command['abstract']}", "", "```", " ".join(words), "```", ""]
    if command.get("discussion"):
        out += [*prose(command["discussion"]), ""]
    if arguments:
        out += ["| | |", "| --- | --- |"]
    for argument in arguments:
        default = argument.get("defaultValue")
        text = argument.get("abstract", "") + (f" (default: {default})" if default else "")
        out.append(f"| `{cell(spelling(argument)).replace(chr(92), '')}` | {cell(text)} |")
    return out


def findings():
    """The cases of Topic with their comments."""
    source = re.search(r"enum Topic\b.*?\n    \}", TOPICS.read_text(), re.DOTALL)[0]
    out, comment = ["| `id` | what |", "| --- | --- |"], []
    for line in source.splitlines():
        if match := re.match(r"\s*/// ?(.*)", line):
            comment.append(match[1])
        elif match := re.match(r'\s*case (\w+)(?: = "(\w+)")?', line):
            text = re.sub(r"``([^`]+)``", lambda link: f"`{link[1].replace('/', '.')}`", " ".join(comment))
            out.append(f"| `{match[2] or match[1]}` | {cell(text)} |")
            comment = []
    return out


def find(command, words):
    for word in words:
        command = next((one for one in visible(command) if one["commandName"] == word), None)
        if command is None:
            sys.exit(f"{PAGE.relative_to(ROOT)}: there is no verb '{' '.join(words)}'")
    return command


def names(command, prefix=""):
    for one in visible(command):
        yield prefix + one["commandName"]
        yield from names(one, prefix + one["commandName"] + " ")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__.strip())
    dump = subprocess.run([sys.argv[2], "--experimental-dump-help"], check=True, capture_output=True, text=True).stdout
    root = json.loads(dump)["command"]

    def made(match):
        kind = match[1]
        lines = findings() if kind == "findings" else described(kind[6:], find(root, kind[6:].split()))
        return f"<!-- {kind} -->\n" + "\n".join(lines).strip() + "\n<!-- end -->"

    text = PAGE.read_text()
    written = PART.sub(made, text)
    if sys.argv[1] == "write":
        PAGE.write_text(written)
    problems = []
    missing = sorted(set(names(root)) - {kind[6:] for kind, _ in PART.findall(text)})
    if missing:
        problems.append(f"these verbs have no part: {', '.join(missing)}")
    by_hand = len(re.findall(r"[^\s|]+", PART.sub("", text)))
    if by_hand > MOST:
        problems.append(f"{by_hand} words are written by hand, and {MOST} is the most: what a verb does is for its --help")
    if sys.argv[1] == "check" and written != text:
        problems.append("what the program or the sources say has changed: run scripts/tool-docs.py write PROGRAM")
    if problems:
        sys.exit("\n".join(f"{PAGE.relative_to(ROOT)}: {problem}" for problem in problems))


if __name__ == "__main__":
    main()
