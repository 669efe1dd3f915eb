#!/usr/bin/env python3
"""Fails when an operation takes more instructions than it did: counts those of Benchmarks/operations with callgrind, which repeats within a percent
on any machine, however busy.

  bench-guard.py PROGRAM [--write] [--json]

PROGRAM is the built `operations`. The counts are compared with Benchmarks/instructions.json, the base; --write makes them the base. What GRDB takes for
the same is counted too: another compiler or another SQLite changes both, so the base is scaled by it. A count may be 3 % above the base.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = ROOT / "Benchmarks" / "instructions.json"
COUNT = 200
# The threads of a process meet in another order each time. What is least is what an operation needs. Who is above the bound is counted again.
RUNS, MOST_RUNS = 3, 9
BOUND = 1.03


def count(program, side):
    """The instructions of one operation, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind"
        run = subprocess.run(
            ["valgrind", "--quiet", "--tool=callgrind", "--dump-before=bench_mark", f"--callgrind-out-file={out}",
             str(program), side, folder, str(COUNT)],
            capture_output=True, text=True, timeout=600,
        )
        if run.returncode != 0:
            sys.exit(f"{side}: status {run.returncode}\n{run.stdout}{run.stderr}")
        names = run.stdout.strip().splitlines()[-1].split(";")
        counts = {}
        for number, name in enumerate(names, 1):
            dump = Path(f"{out}.{number}").read_text()
            if name != "-":
                counts[name] = int(re.search(r"^summary: (\d+)$", dump, re.MULTILINE).group(1)) // COUNT
        return counts


def least(program, side, *others):
    runs = [*others, *(count(program, side) for _ in range(RUNS))]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def compare(ours, grdb, base):
    """For each operation: its instructions, those of the base, scaled, and those of GRDB or None."""
    scales = {name: grdb[name] / base["grdb"][name] for name in grdb}
    # For what GRDB does not have: how it takes the rest.
    usual = sorted(scales.values())[len(scales) // 2]
    return {name: (value, base["roundtable"][name] * scales.get(name, usual), grdb.get(name)) for name, value in ours.items()}


def above(compared):
    return [name for name, (value, expected, _) in compared.items() if value > BOUND * expected]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--write", action="store_true", help="make this the base")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Valgrind does not read the debug information of a release build of Swift.
        program = Path(folder) / "operations"
        subprocess.run(["strip", "-g", "-o", program, arguments.program], check=True)
        program.chmod(0o755)
        ours, grdb = least(program, "roundtable"), least(program, "grdb")
        if arguments.write:
            BASE.write_text(json.dumps({"roundtable": ours, "grdb": grdb}, indent=1) + "\n")
        base = json.loads(BASE.read_text())
        if base["roundtable"].keys() != ours.keys():
            sys.exit(f"the operations are others than those of {BASE.relative_to(ROOT)}: record them with --write")
        for _ in range(RUNS, MOST_RUNS, RUNS):
            if above(compare(ours, grdb, base)):
                ours = least(program, "roundtable", ours)
    compared = compare(ours, grdb, base)
    if arguments.json:
        figures = {name: {"instructions": value, "base": round(expected), "grdb": peer} for name, (value, expected, peer) in compared.items()}
        print(json.dumps({"operations": figures, "above": above(compared)}, indent=1))
    else:
        print(f"{'instructions for one':26} {'ours':>9} {'base':>9} {'of base':>8} {'GRDB':>9} {'of GRDB':>8}")
        for name, (value, expected, peer) in compared.items():
            beside = f"{peer:9} {value / peer:8.2f}" if peer else ""
            print(f"{name:26} {value:9} {expected:9.0f} {value / expected:8.3f} {beside}".rstrip())
    if slower := above(compared):
        sys.exit(f"more than {100 * BOUND - 100:.0f} % above the base: {', '.join(slower)}. If the change is worth that, record it: --write")


if __name__ == "__main__":
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing")
    main()
