#!/usr/bin/env python3
"""Measures what `roundtable top` costs the processes that it looks at.

    top-cost.py PROGRAM [--rounds N] [--seconds S] [--every S]

Each round runs `roundtable demo --processes 6`, in which four processes write as fast as they can, once alone and once with `top` in a terminal beside
it; which of the two comes first alternates. Prints the commits per second of each, and the ratio of their medians. Only on a quiet machine.
"""

import argparse
import fcntl
import json
import os
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time


def start_top(program, database, every):
    """Starts the live view in a terminal of 80 columns; what it draws is read and dropped."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(program, [program, "top", database, "--every", str(every)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    drawn = [0]

    def read():
        while True:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                return
            if not data:
                return
            drawn[0] += len(data)

    threading.Thread(target=read, daemon=True).start()
    return pid, drawn


def run(program, seconds, every, with_top):
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "demo.sqlite")
        demo = subprocess.Popen(
            [program, "demo", "--at", database, "--processes", "6", "--seconds", str(seconds), "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        top, drawn = None, [0]
        if with_top:
            while not os.path.exists(database + "-wal"):
                time.sleep(0.01)
            top, drawn = start_top(program, database, every)
        result = json.loads(demo.communicate()[0])
        cost = 0.0
        if top:
            os.kill(top, signal.SIGTERM)
            _, status, usage = os.wait4(top, 0)
            cost = usage.ru_utime + usage.ru_stime
            if drawn[0] == 0 or os.waitstatus_to_exitcode(status) != 128 + signal.SIGTERM:
                sys.exit(f"top did not look: it drew {drawn[0]} bytes, and ended with {status}")
        writers = [one for one in result["participants"] if one["role"] == "read_write"]
        if len(writers) != 4 or result["problems"]:
            sys.exit(f"the demo was not as it should be: {len(writers)} writers, {result['problems']}")
        return result["tx_per_s"], cost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--every", type=float, default=1)
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    rates, costs = {False: [], True: []}, []
    for number in range(options.rounds):
        for with_top in [False, True] if number % 2 == 0 else [True, False]:
            rate, cost = run(program, options.seconds, options.every, with_top)
            rates[with_top].append(rate)
            if with_top:
                costs.append(cost / options.seconds)
        print(f"round {number + 1}: {rates[False][-1]:8.0f}/s alone, {rates[True][-1]:8.0f}/s with top", flush=True)
    alone, beside = statistics.median(rates[False]), statistics.median(rates[True])
    pairs = sorted(with_top / without for without, with_top in zip(rates[False], rates[True]))
    print(f"medians: {alone:.0f}/s alone, {beside:.0f}/s with top: ratio {beside / alone:.3f}")
    print(f"ratios of the rounds: {' '.join(f'{ratio:.3f}' for ratio in pairs)}; median {statistics.median(pairs):.3f}")
    print(f"processor time of top: {1000 * statistics.median(costs):.1f} ms per second")


if __name__ == "__main__":
    main()
