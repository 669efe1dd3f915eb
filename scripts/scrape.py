#!/usr/bin/env python3
"""Runs servers that share one database, scrapes the metrics of each over HTTP, as Prometheus does, and prints them.

  scrape.py [--servers N] [--writes N] [--all]     prints the scrape of the first server; with --all, of each

After `swift build --traits Service --product roundtable-service-peer`. Every server writes, reads, fails once, and works on jobs. Then each gets SIGTERM.
Fails if a scrape lacks a metric, if the servers disagree about what they share, or if a server does not end in an orderly way.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / ".build" / "debug" / "roundtable-service-peer"
JOBS = 20
# Each is in every scrape.
METRICS = [
    'db_client_operation_duration_seconds_count{db_system_name="sqlite",db_namespace="shop.sqlite",db_operation_name="write"}',
    'db_client_operation_duration_seconds_count{db_system_name="sqlite",db_namespace="shop.sqlite",db_operation_name="read"}',
    'db_operation_name="write",error_type="SQLITE_CONSTRAINT",db_response_status_code="19"}',
    "db_client_connection_count{", "db_client_connection_max{", "db_client_connection_pending_requests{", "roundtable_turn_wait_duration_seconds_sum{",
    "roundtable_turn_wait_longest{", "roundtable_turns{", "roundtable_commits_total{", "roundtable_wal_frames{", "roundtable_checkpoints{",
    "roundtable_participants{", "roundtable_coordinated{", "roundtable_jobs{",
]


class Server:
    def __init__(self, folder, number):
        self.process = subprocess.Popen(
            [PEER, folder / "shop.sqlite", f"server-{number}", "5000", "jobs", "http"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(folder / f"server-{number}.log").open("w"), text=True,
        )

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, prefix):
        for line in self.process.stdout:
            if line.startswith(prefix):
                return line.split()
        sys.exit(f"scrape.py: a server ended before it said '{prefix}'")

    def scrape(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return answer.read().decode()


def value(text, pattern):
    found = re.search(rf"^{pattern} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else None


def problems(texts):
    """What is wrong with the scrapes of all servers. Gauges follow within an interval."""
    for number, text in enumerate(texts, 1):
        for metric in METRICS:
            if metric not in text:
                yield f"server-{number} lacks {metric}"
        if value(text, r'roundtable_participants\{.*roundtable_liveness="alive"\}') != len(texts):
            yield f"server-{number} does not see {len(texts)} participants"
        if value(text, r'roundtable_jobs\{.*roundtable_job_state="done"\}') != JOBS:
            yield f"server-{number} does not see {JOBS} jobs done"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--writes", type=int, default=300)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if not PEER.exists():
        sys.exit("scrape.py: first run swift build --traits Service --product roundtable-service-peer")
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        try:
            servers += [Server(Path(folder), number) for number in range(1, arguments.servers + 1)]
            run(servers, arguments)
        finally:
            for server in servers:
                if server.process.poll() is None:
                    server.process.kill()


def run(servers, arguments):
    for server in servers:
        server.port = int(server.wait("port")[1])
        server.wait("ready")
        # Handlers of jobs wait for this.
        server.send("release")
    for number in range(JOBS):
        servers[0].send(f"add {number}")
    for number in range(arguments.writes):
        for server in servers:
            server.send(f"write {number}")
        for server in servers:
            server.wait("wrote")
    for server in servers:
        for _ in range(arguments.writes // 5):
            server.send("read")
            server.wait("read")
        server.send("fail x")
        server.wait("refused")
    deadline = time.monotonic() + 60
    while True:
        texts = [server.scrape() for server in servers]
        wrong = list(problems(texts))
        if not wrong:
            break
        if time.monotonic() > deadline:
            sys.exit("scrape.py: " + "; ".join(wrong) + "\n" + texts[0])
        time.sleep(0.05)
    for text in texts if arguments.all else texts[:1]:
        print(text)
    for server in servers:
        server.process.send_signal(signal.SIGTERM)
    for server in servers:
        server.wait("ended")
        if server.process.wait(60) != 0:
            sys.exit(f"scrape.py: a server ended with status {server.process.returncode}")
    print(f"# {len(servers)} servers were scraped, and ended in an orderly way.", file=sys.stderr)


if __name__ == "__main__":
    main()
