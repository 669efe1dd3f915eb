#!/usr/bin/env python3
"""Draws the recorded output of a program as a picture of a terminal, for the README.

    terminal-picture.py draw        draws docs/plots/NAME.svg of each docs/plots/data/NAME.txt, and those of docs/pictures
    terminal-picture.py --check     fails if a picture is not that of its text

The first line of the text is the command. The others are what a terminal got, with the control sequences for colours (SGR), as script(1) records it. The
characters are text in the picture, so they can be searched and read aloud.
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
PROMPT = "#6cb6ff"
# By the number of the control sequence: TextStyle of the tool.
COLOURS = {"0": "#d6dde6", "1": "#ffffff", "2": "#8b97a5", "31": "#ff7b72", "32": "#4cc38a", "33": "#e3b341"}
SEQUENCE = re.compile("\x1b\\[([0-9]*)m")


def parts(line):
    """The parts of a line that have one colour each, as (column, text, colour)."""
    column, colour, found = 0, COLOURS["0"], []
    # The pieces are text and the numbers of sequences by turns.
    for index, piece in enumerate(SEQUENCE.split(line)):
        if index % 2 == 1:
            colour = COLOURS[piece or "0"]
            continue
        if piece.strip():
            found.append((column + len(piece) - len(piece.lstrip()), piece.strip(), colour))
        column += len(piece)
    return found


def picture(text):
    lines = text.rstrip("\n").split("\n")
    width = round(max(len(SEQUENCE.sub("", line)) for line in lines) * CELL + 2 * PAD)
    height = len(lines) * LINE + BAR + 2 * PAD
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(lines[0].lstrip('$ '))}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#12181f"/>',
        *(f'<circle cx="{PAD + 4 + 18 * index}" cy="{BAR / 2 + 3:g}" r="5" fill="#3a4450"/>' for index in range(3)),
        f'<g font-family="{FONT}" font-size="14">',
    ]
    for number, line in enumerate(lines):
        y = BAR + PAD + LINE * number + 10
        for column, shown, colour in parts(line):
            # The length keeps columns in line, whichever font is there.
            drawn.append(
                f'<text x="{PAD + column * CELL:g}" y="{y}" textLength="{len(shown) * CELL:g}" '
                f'lengthAdjust="spacingAndGlyphs" fill="{PROMPT if number == 0 else colour}">{escape(shown.replace(" ", NO_BREAK))}</text>'
            )
    return "\n".join([*drawn, "</g>", "</svg>"]) + "\n"


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
