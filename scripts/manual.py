#!/usr/bin/env python3
"""Writes the manual pages of the tool, one for each verb, from what the program says of itself, and from the lists below.

    manual.py PROGRAM FOLDER

PROGRAM is the built tool: it is run with --experimental-dump-help, of swift-argument-parser. FOLDER gets roundtable.1 and roundtable-VERB.1.
"""

import json
import subprocess
import sys
from pathlib import Path


# What goes into the first page, because it concerns several verbs.
ENVIRONMENT = {
    "NO_COLOR": "Unless it is empty, no output has colours.",
    "TERM": "Where it is empty or 'dumb', no output has colours, and 'top' prints lines.",
    "ROUNDTABLE_HISTORY": "The file with the history of 'sql'; empty: none.",
    "SQLITE_TMPDIR, TMPDIR": "The folder for temporary files, such as a large result of 'sql'.",
    "PATH": "Where Litestream and rclone are found, which take credentials from variables of their own.",
}
FILES = {
    "NAME-wal, NAME-shm, NAME-journal": "Files of SQLite, beside the database NAME.",
    "NAME-coord4": "The control block: the memory that the participants share. Its number is that of its layout.",
    "NAME-outbox": "The folder of the outbox, unless the program has it elsewhere.",
    "NAME-salt": "The salt of an encrypted database, without which it cannot be opened.",
    "NAME-replica, NAME-fenced": "Marks of a read replica, and of a database whose writer is another machine now.",
    "~/.roundtable_history": "The history of 'sql'. Only its user can read it.",
}
EXIT_CODE = "Exit code: "


def escaped(text):
    """The text as roff shows it: no character is a command, and a hyphen can be searched and copied. Without UTF-8, roff has no ellipsis."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return "\\&" + text if text[:1] in (".", "'") else text


def prose(text):
    """Paragraphs; lines that are indented, such as examples, are kept as they are."""
    out, is_kept, needs_paragraph = [], False, False
    for line in text.split("\n"):
        if line.startswith("  "):
            if not is_kept:
                out += [".PP", ".RS 4", ".nf"]
            is_kept, needs_paragraph = True, False
            out.append(escaped(line[2:]))
            continue
        if is_kept:
            out += [".fi", ".RE"]
            is_kept, needs_paragraph = False, True
        if not line.strip():
            needs_paragraph = True
            continue
        if needs_paragraph:
            out.append(".PP")
            needs_paragraph = False
        out.append(escaped(line.strip()))
    return out + ([".fi", ".RE"] if is_kept else [])


def sections(discussion):
    """The description, and what of it has a section of its own."""
    described, examples, exit_code = [], [], []
    for paragraph in discussion.strip().split("\n\n"):
        if paragraph.startswith(EXIT_CODE):
            text = paragraph.removeprefix(EXIT_CODE)
            exit_code.append(text[0].upper() + text[1:])
        elif paragraph.startswith("Examples:\n"):
            examples.append(paragraph.removeprefix("Examples:\n"))
        else:
            described.append(paragraph)
    return ["\n\n".join(part) for part in (described, examples, exit_code)]


def listed(title, entries):
    out = [f".SH {title}"]
    for name, text in entries.items():
        out += [".TP", f"\\fB{escaped(name)}\\fR", *prose(text)]
    return out


def names(argument):
    spelled = [("-" if name["kind"] == "short" else "--") + name["name"] for name in argument.get("names", [])]
    value = f"\\fI{escaped(argument['valueName'])}\\fR"
    if argument["kind"] == "positional":
        return value
    text = ", ".join(f"\\fB{escaped(name)}\\fR" for name in spelled)
    return f"{text} {value}" if argument["kind"] == "option" else text


def synopsis(name, command):
    words = []
    for argument in command.get("arguments", []):
        if not argument["shouldDisplay"] or "help" in argument["valueName"] or argument["valueName"] == "version":
            continue
        if argument["kind"] == "positional":
            word = names(argument) + (" ..." if argument["isRepeating"] else "")
            words.append(f"[{word}]" if argument["isOptional"] else word)
    if any(argument["kind"] != "positional" for argument in command.get("arguments", [])):
        words.insert(0, "[\\fIoptions\\fR]")
    if visible(command):
        words.append("\\fIverb\\fR")
    return [f"\\fB{escaped(name)}\\fR " + " ".join(words)]


def visible(command):
    return [one for one in command.get("subcommands", []) if one["shouldDisplay"] and one["commandName"] != "help"]


def page(name, command, version, see_also):
    dashed = name.replace(" ", "-")
    out = [
        f'.TH "{dashed.upper()}" 1 "" "roundtable {version}" "Roundtable"',
        # Ragged lines without hyphenation: no word is broken.
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{escaped(dashed)} \\- {escaped(command.get('abstract', '').rstrip('.'))}",
        ".SH SYNOPSIS",
        *synopsis(name, command),
    ]
    described, examples, exit_code = sections(command.get("discussion", ""))
    if described:
        out += [".SH DESCRIPTION", *prose(described)]
    arguments = [argument for argument in command.get("arguments", []) if argument["shouldDisplay"]]
    if arguments:
        out.append(".SH OPTIONS")
    for argument in arguments:
        default = argument.get("defaultValue")
        text = argument.get("abstract", "") + (f" (default: {default})" if default else "")
        out += [".TP", names(argument), *prose(text)]
    verbs = visible(command)
    if verbs:
        out.append(".SH VERBS")
    for verb in verbs:
        out += [".TP", f"\\fB{escaped(verb['commandName'])}\\fR", *prose(verb.get("abstract", ""))]
    usual = "0 when all is well; roundtable(1) has the others."
    out += [".SH EXIT STATUS", *prose(exit_code or usual)]
    if " " not in name:
        out += listed("ENVIRONMENT", ENVIRONMENT) + listed("FILES", FILES)
    if examples:
        out += [".SH EXAMPLES", *prose(examples)]
    if see_also:
        out += [".SH SEE ALSO", ",\n".join(f"\\fB{escaped(other)}\\fR(1)" for other in see_also)]
    return "\n".join(out) + "\n"


def write(folder, name, command, version, siblings):
    verbs = [f"{name} {verb['commandName']}" for verb in visible(command)]
    see_also = [other.replace(" ", "-") for other in siblings + verbs if other != name]
    (folder / f"{name.replace(' ', '-')}.1").write_text(page(name, command, version, see_also))
    for verb, one in zip(verbs, visible(command)):
        write(folder, verb, one, version, [name])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    run = lambda *arguments: subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
    command = json.loads(run("--experimental-dump-help"))["command"]
    write(folder, command["commandName"], command, run("--version").strip(), [])


if __name__ == "__main__":
    main()
