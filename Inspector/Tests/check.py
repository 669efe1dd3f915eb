#!/usr/bin/env python3
"""Tests roundtable-inspector with real fleets, and its page in a headless Chromium.

    check.py INSPECTOR TOOL PEER [--only NAME] [--pictures FOLDER]

INSPECTOR, TOOL and PEER are the built programs roundtable-inspector, roundtable and roundtable-peer. --pictures also makes the pictures of docs/pictures.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import page_tests
import server_tests
from browser import BrowserError
from fleet import Failure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("inspector", type=os.path.abspath)
    parser.add_argument("tool", type=os.path.abspath)
    parser.add_argument("peer", type=os.path.abspath)
    parser.add_argument("--only", help="the tests whose names contain this")
    parser.add_argument("--pictures", type=os.path.abspath)
    options = parser.parse_args()
    failed, ran = [], 0
    for test in server_tests.TESTS + page_tests.TESTS:
        if options.only and options.only not in test.__name__:
            continue
        ran += 1
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="inspector-test-") as folder:
            try:
                test(options, pathlib.Path(folder))
            except (Failure, BrowserError, OSError, subprocess.SubprocessError) as error:
                traceback.print_exc()
                failed.append(f"{test.__name__}: {error}")
        mark = "✘" if failed and failed[-1].startswith(test.__name__ + ":") else "✔"
        print(f"{mark} {test.__doc__.splitlines()[0]} ({time.monotonic() - begin:.1f} s)", flush=True)
    if not ran:
        sys.exit(f"no test is called '{options.only}'")
    if failed:
        sys.exit("failed:\n  " + "\n  ".join(failed))


if __name__ == "__main__":
    main()
