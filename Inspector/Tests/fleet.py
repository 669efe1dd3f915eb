"""What the tests of the inspector run: `roundtable demo` as a fleet, frozen readers, and the inspector itself."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

DEADLINE = 60.0
PAUSE = 0.02


class Failure(Exception):
    pass


def wait_for(what, condition):
    """Returns the first value of `condition` that is true."""
    deadline = time.monotonic() + DEADLINE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Failure(f"after {DEADLINE:.0f} s: {what}")
        time.sleep(PAUSE)
    return value


def expect(condition, message):
    if not condition:
        raise Failure(message)


def state(pid):
    """The letter of proc_pid_stat(5): T is stopped."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_for(f"pid {pid} does not stop", lambda: state(pid) == "T")


def start_reader(tool, database, author, table):
    """Starts a participant with a read that would last for minutes."""
    sql = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000000) SELECT count(*) FROM n, (SELECT 1 FROM {table} LIMIT 1)"
    return subprocess.Popen([tool, "sql", database, sql, "--as", author], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Fleet:
    """`roundtable demo`: an app, a daemon, extensions, a widget that reads."""

    def __init__(self, tool, database, processes=6, seconds=600):
        self.tool, self.database = tool, str(database)
        self.process = subprocess.Popen(
            [tool, "demo", "--at", self.database, "--processes", str(processes), "--seconds", str(seconds), "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.frozen = []

    def status(self):
        done = subprocess.run([self.tool, "status", self.database, "--json"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {"participants": []}

    def participant(self, author):
        return next((one for one in self.status()["participants"] if one["author"] == author), None)

    def writes(self):
        return sum(one["turns_taken"] for one in self.status()["participants"])

    def ready(self):
        wait_for("the fleet does not write", lambda: self.writes() > 100)

    def freeze_reader(self, author="report"):
        """Starts a participant, and stops it in the middle of a read: it holds the WAL back."""
        reader = start_reader(self.tool, self.database, author, "entry")
        self.frozen.append(reader)
        wait_for(f"'{author}' does not read", lambda: (self.participant(author) or {}).get("oldest_read"))
        stop(reader.pid)
        return reader.pid

    def close(self):
        for reader in self.frozen:
            reader.kill()
            reader.wait(DEADLINE)
        self.process.terminate()
        self.process.wait(DEADLINE)


class Peer:
    """`roundtable-peer`, the scriptable participant of the package's own tests (PeerCommand)."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(DEADLINE)
        self.process.stdin.close()
        self.process.stdout.close()

    def send(self, command, *values, **named):
        self.process.stdin.write(json.dumps({command: dict(named, **{f"_{index}": value for index, value in enumerate(values)})}) + "\n")

    def call(self, command, *values, **named):
        self.send(command, *values, **named)
        self.reply()

    def reply(self):
        answer = json.loads(self.process.stdout.readline() or "null")
        expect(answer and answer["outcome"] == "done", f"the peer has answered {answer}")

    def open(self, path, author):
        schema = {"kind": "unmanaged", "migrations": 0, "migrationMilliseconds": 0}
        self.call("open", {"path": str(path), "author": author, "schema": schema, "options": {}})


class Inspector:
    def __init__(self, program, tool, *arguments, log):
        self.log = pathlib.Path(log)
        with self.log.open("wb") as file:
            self.process = subprocess.Popen([program, "--tool", tool, *map(str, arguments)], stdout=subprocess.PIPE, stderr=file, text=True)
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", self.url)
        expect(found, f"the inspector has printed '{self.url}': {self.log.read_text()}")
        self.port, self.token = int(found[1]), found[2]

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            direct = file.read().split()
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{self.process.pid}/task/{task}/children") as file:
                direct += file.read().split()
        return sorted({int(pid) for pid in direct})

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        self.process.wait(DEADLINE)
        self.process.stdout.close()
