#!/usr/bin/env python3
"""Draws the recorded output of a program as a picture of a terminal, for the README.

    terminal-picture.py draw        draws docs/plots/NAME.svg of each docs/plots/data/NAME.txt, and those of docs/pictures
    terminal-picture.py --check     fails if a picture is not that of its text

The first line of the text is the command. The characters are text in the picture, so they can be searched and read aloud.
"""

import re
import sys
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOLDERS = [DOCS / "plots", DOCS / "pictures"]
# Renderers collapse ordinary spaces.
NO_BREAK = "\u00a0"
CELL, LINE, PAD, BAR = 8.4, 19, 16, 30
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = {"text": "#d6dde6", "dim": "#8b97a5", "good": "#4cc38a", "bad": "#ff7b72", "warning": "#e3b341", "prompt": "#6cb6ff"}


def colour(line, number):
    text = line.strip()
    if number == 0:
        return "prompt"
    if text.startswith("✓"):
        return "good"
    if text.startswith("✗"):
        return "bad"
    if text.startswith("! ") or re.match("[a-z] .*, stopped\\) holds ", text):
        return "warning"
    if text.startswith("q quit ·") or text.endswith("…") or set(text) <= set("─ "):
        return "dim"
    return "text"


def picture(text):
    lines = text.rstrip("\n").split("\n")
    width = round(max(len(line) for line in lines) * CELL + 2 * PAD)
    height = len(lines) * LINE + BAR + 2 * PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(lines[0].lstrip('$ '))}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#12181f"/>',
        *(f'<circle cx="{PAD + 4 + 18 * index}" cy="{BAR / 2 + 3:g}" r="5" fill="#3a4450"/>' for index in range(3)),
        f'<g font-family="{FONT}" font-size="14">',
    ]
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        y = BAR + PAD + LINE * number + 10
        # The length keeps columns in line, whichever font is there.
        indent = len(line) - len(line.lstrip())
        shown = line.strip()
        parts.append(
            f'<text x="{PAD + indent * CELL:g}" y="{y}" textLength="{len(shown) * CELL:g}" '
            f'lengthAdjust="spacingAndGlyphs" fill="{COLOURS[colour(line, number)]}">{escape(shown.replace(" ", NO_BREAK))}</text>'
        )
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def main():
    is_check = sys.argv[1:] == ["--check"]
    if not is_check and sys.argv[1:] != ["draw"]:
        sys.exit(__doc__)
    for source in sorted(source for folder in FOLDERS for source in (folder / "data").glob("*.txt")):
        target = source.parent.parent / f"{source.stem}.svg"
        drawn = picture(source.read_text())
        if not is_check:
            target.write_text(drawn)
        elif not target.exists() or target.read_text() != drawn:
            sys.exit(f"{target} is not the picture of {source}: run 'python3 scripts/terminal-picture.py draw'.")


if __name__ == "__main__":
    main()
