#!/usr/bin/env python3
"""Measures what metrics cost an access: one process with the meter of RoundtableService and without, in turns.

  metrics-cost.py [--rounds N] [PEER]    after `swift build -c release --traits Service --product roundtable-service-peer`
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("peer", nargs="?", default=ROOT / ".build" / "release" / "roundtable-service-peer")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.peer, f"{folder}/db.sqlite", "measured", "5000"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            process.stdin.write(f"measure {arguments.rounds}\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith("refused"):
                    sys.exit(line)
                if line.startswith("# EOF"):
                    break
                if line.startswith("measured"):
                    print(line.removeprefix("measured "), end="")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
