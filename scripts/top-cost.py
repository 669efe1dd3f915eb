#!/usr/bin/env python3
"""Measures what `roundtable top`, `roundtable record` or `roundtable-inspector` costs the processes that it looks at.

    top-cost.py PROGRAM [--rounds N] [--seconds S] [--every S] [--beside top|record|INSPECTOR]

Each round runs `roundtable demo --processes 6`, in which four processes write as fast as they can, once alone and once with `top` in a terminal beside
it, or what --beside says; which of the two comes first alternates. INSPECTOR is the path of the inspector, whose events one client reads; its browser is
not measured. Prints the commits per second of each, and the ratio of their medians. Only on a quiet machine.
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
import urllib.request


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


def start_record(program, database, folder):
    """Starts a recorder into a file."""
    process = subprocess.Popen([program, "record", database, "-o", os.path.join(folder, "recording")], stderr=subprocess.DEVNULL)
    return process.pid, []


def start_inspector(inspector, program, database):
    """Starts the inspector with one page: a client that reads its events, and drops them."""
    process = subprocess.Popen([inspector, "--tool", program, database], stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip()
    drawn = [0]

    def read():
        try:
            with urllib.request.urlopen(url + "events") as events:
                for line in events:
                    drawn[0] += len(line)
        except OSError:
            return

    threading.Thread(target=read, daemon=True).start()
    return process.pid, drawn


def processor_time(pid):
    """In seconds, of a process and its children, by proc_pid_stat(5)."""
    total = 0
    for folder in os.listdir("/proc"):
        if not folder.isdigit():
            continue
        try:
            with open(f"/proc/{folder}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(folder) == pid or int(fields[1]) == pid:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def run(program, seconds, every, with_top, beside):
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "demo.sqlite")
        demo = subprocess.Popen(
            [program, "demo", "--at", database, "--processes", "6", "--seconds", str(seconds), "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        top, drawn, started = None, [0], time.monotonic()
        if with_top:
            while not os.path.exists(database + "-wal"):
                time.sleep(0.01)
            if beside == "top":
                top, drawn = start_top(program, database, every)
            elif beside == "record":
                top, drawn = start_record(program, database, folder)
            else:
                top, drawn = start_inspector(beside, program, database)
        result = json.loads(demo.communicate()[0])
        cost = 0.0
        if top:
            cost = processor_time(top) * seconds / (time.monotonic() - started)
            if beside == "record":
                drawn = [os.path.getsize(os.path.join(folder, "recording"))]
            os.kill(top, signal.SIGTERM)
            _, status = os.waitpid(top, 0)
            if drawn[0] == 0 or os.waitstatus_to_exitcode(status) != 128 + signal.SIGTERM:
                sys.exit(f"{beside} did not look: it wrote {drawn[0]} bytes, and ended with {status}")
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
    parser.add_argument("--beside", default="top")
    options = parser.parse_args()
    beside = options.beside if options.beside in ("top", "record") else os.path.abspath(options.beside)
    name = os.path.basename(beside)
    program = os.path.abspath(options.program)
    rates, costs = {False: [], True: []}, []
    for number in range(options.rounds):
        for with_top in [False, True] if number % 2 == 0 else [True, False]:
            rate, cost = run(program, options.seconds, options.every, with_top, beside)
            rates[with_top].append(rate)
            if with_top:
                costs.append(cost / options.seconds)
        print(f"round {number + 1}: {rates[False][-1]:8.0f}/s alone, {rates[True][-1]:8.0f}/s with {name}", flush=True)
    alone, beside = statistics.median(rates[False]), statistics.median(rates[True])
    pairs = sorted(with_top / without for without, with_top in zip(rates[False], rates[True]))
    print(f"medians: {alone:.0f}/s alone, {beside:.0f}/s with {name}: ratio {beside / alone:.3f}")
    print(f"ratios of the rounds: {' '.join(f'{ratio:.3f}' for ratio in pairs)}; median {statistics.median(pairs):.3f}")
    print(f"processor time of {name}: {1000 * statistics.median(costs):.1f} ms per second")


if __name__ == "__main__":
    main()
