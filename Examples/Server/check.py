#!/usr/bin/env python3
"""Runs the programs of this example as a machine would: kills a worker, ends another, and checks that each mail is delivered once.

Usage: check.py [FOLDER OF THE PROGRAMS]     .build/debug if it is left out
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

# The longest time for which a condition may stay false.
DEADLINE = 60.0
# The pause between two looks at a condition.
PAUSE = 0.01


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


class Program:
    """A program that tells its service manager, which is this script, that it is ready."""

    def __init__(self, name, folder, programs, label, **settings):
        self.label = label
        self.log = folder / f"{label}.log"
        address = str(folder / f"{label}.notify")
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(address)
        self.notifications.settimeout(DEADLINE)
        environment = dict(os.environ, MAIL_FOLDER=str(folder), NOTIFY_SOCKET=address, **settings)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([programs / name], env=environment, stdout=log, stderr=log)

    def ready(self):
        """Waits until the program is ready, and returns what it says of itself."""
        try:
            lines = self.notifications.recv(4096).decode().splitlines()
        except TimeoutError:
            raise Failure(f"{self.label} does not become ready:\n{self.log.read_text()}") from None
        expect("READY=1" in lines, f"{self.label} has sent {lines}")
        return lines

    def ready_port(self):
        """Waits until the server is ready, and returns its port."""
        return int(next(line for line in self.ready() if line.startswith("STATUS=")).split()[-1])

    def signal(self, number):
        self.process.send_signal(number)

    def ended(self, status):
        """Waits until the program has ended, with this status."""
        try:
            actual = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.label} does not end:\n{self.log.read_text()}") from None
        expect(actual == status, f"{self.label} has ended with {actual}, not with {status}:\n{self.log.read_text()}")

    def discard(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notifications.close()


class Client:
    """A client of the server. Each request has its own connection."""

    def __init__(self, port):
        self.port = port

    def request(self, method, path, body=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def post(self, number):
        mail = {"to": f"reader-{number}@example.org", "subject": f"Number {number}", "body": "Hello!"}
        status, text = self.request("POST", "/mails", mail)
        expect(status == 202, f"POST /mails: {status} {text}")
        return json.loads(text)["id"]

    def state(self, mail):
        status, text = self.request("GET", f"/mails/{mail}")
        expect(status == 200, f"GET /mails/{mail}: {status} {text}")
        return json.loads(text)["state"]

    def metrics(self):
        status, text = self.request("GET", "/metrics")
        expect(status == 200, f"GET /metrics: {status} {text}")
        samples = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in samples}


class Database:
    """The database, for another program that only reads."""

    def __init__(self, path):
        self.uri = f"file:{path}?mode=ro"

    def rows(self, sql, *arguments):
        with contextlib.closing(sqlite3.connect(self.uri, uri=True, timeout=DEADLINE)) as connection:
            return connection.execute(sql, arguments).fetchall()

    def value(self, sql, *arguments):
        return self.rows(sql, *arguments)[0][0]

    def deliveries(self, worker):
        return self.value("SELECT count(*) FROM delivery WHERE worker = ?", worker)

    def running(self, worker):
        """How many jobs a worker holds."""
        sql = """
            SELECT count(*) FROM roundtable_job WHERE state = 'running'
            AND worker IN (SELECT id FROM roundtable_job_worker WHERE author = ?)
            """
        return self.value(sql, worker)


class Mails:
    """The mails that were posted. More are posted while workers would have nothing to do: on a slow machine, they may have sent all others."""

    def __init__(self, client, database):
        self.client, self.database, self.ids = client, database, []

    def post(self, count):
        first = len(self.ids)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.ids += pool.map(self.client.post, range(first, first + count))

    def keep_workers_busy(self):
        if self.database.value("SELECT count(*) FROM roundtable_job WHERE state = 'waiting'") == 0:
            self.post(1)


def kill_with_jobs(worker, database, mails):
    """Kills a worker with SIGKILL while it holds jobs. It is stopped before, so that it still holds them when it dies."""

    def is_stopped_with_jobs():
        worker.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, worker.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if database.running(worker.label) > 0:
            return True
        worker.signal(signal.SIGCONT)
        mails.keep_workers_busy()
        return False

    wait_for(f"{worker.label} holds no job", is_stopped_with_jobs)
    held = database.running(worker.label)
    worker.signal(signal.SIGKILL)
    worker.ended(-signal.SIGKILL)
    return held


def check(folder, programs, start):
    server = start("server", "server", MAIL_PORT="0")
    client = Client(server.ready_port())
    database = Database(folder / "mail.sqlite")
    expect(client.request("GET", "/health")[0] == 200, "GET /health")
    expect(client.request("POST", "/mails", {"to": "nobody", "subject": "", "body": ""})[0] == 400, "no address")
    expect(client.request("GET", "/mails/1")[0] == 404, "a mail that does not exist")

    # Sending takes so long that the 150 mails need 4 s at least.
    mails = Mails(client, database)
    workers = []
    for name in ("worker-1", "worker-2"):
        workers.append(start("worker", name, MAIL_WORKER=name, MAIL_DURATION_MS="200"))
        workers[-1].ready()
    mails.post(150)
    for worker in workers:

        def delivers():
            mails.keep_workers_busy()
            return database.deliveries(worker.label) > 0

        wait_for(f"{worker.label} delivers nothing", delivers)

    held = kill_with_jobs(workers[0], database, mails)
    print(f"worker-1 was killed with {held} jobs, after {database.deliveries('worker-1')} deliveries")
    nightly = start("nightly", "nightly", MAIL_KEEP_HOURS="0")

    def holds_jobs():
        mails.keep_workers_busy()
        return database.running("worker-2") > 0

    wait_for("worker-2 holds no job", holds_jobs)
    workers[1].signal(signal.SIGTERM)
    workers[1].ended(0)
    expect(database.running("worker-2") == 0, "worker-2 has ended and holds jobs")
    print(f"worker-2 has ended with status 0, after {database.deliveries('worker-2')} deliveries")
    nightly.ended(0)

    # The server needs no worker.
    mails.post(50)
    mails = mails.ids
    count = len(mails)
    expect(client.metrics()['mail_jobs{state="waiting"}'] >= 50, "the metrics do not show the jobs that wait")
    worker = start("worker", "worker-3", MAIL_WORKER="worker-3", MAIL_DURATION_MS="0")
    worker.ready()
    wait_for("not all mails are delivered", lambda: client.metrics()["mail_deliveries"] >= count)

    expect(len(set(mails)) == count, "two mails have the same id")
    delivered = collections.Counter(mail for (mail,) in database.rows("SELECT mail FROM delivery"))
    wrong = {mail: delivered[mail] for mail in {*mails, *delivered} if delivered[mail] != 1}
    expect(not wrong, f"not delivered once (mail: deliveries): {wrong}")
    expect({int(file.stem) for file in (folder / "sent").glob("*.eml")} == set(mails), "the files are not those of the mails")
    states = collections.Counter(map(client.state, mails))
    expect(states == {"done": count}, f"the states are {states}")
    repeated = database.value("SELECT count(*) FROM delivery WHERE attempt > 1")
    expect(repeated >= held, f"{repeated} mails were attempted again: worker-1 has left {held}")
    expect(database.deliveries("worker-3") >= 50, "worker-3 has not done what was left")
    print(f"{count} mails were delivered once each, {repeated} of them after more than one attempt")

    metrics = client.metrics()
    expect(metrics["mail_deliveries"] == count, f"the metrics are {metrics}")
    unfinished = [metrics[f'mail_jobs{{state="{state}"}}'] for state in ("scheduled", "waiting", "running", "dead")]
    expect(unfinished == [0, 0, 0, 0], f"the metrics are {metrics}")

    accepted = [name for name in metrics if name.startswith("hb_requests_total{") and 'method="POST"' in name and 'code="202"' in name]
    requests = sum(metrics[name] for name in accepted)
    duration = 'db_client_operation_duration_seconds_count{db_system_name="sqlite",db_namespace="mail.sqlite",db_operation_name="write"}'
    # Writes of requests that wait together share a commit.
    expect(0 < metrics[duration] <= count, f"the metrics count {metrics.get(duration)} writes: {metrics}")
    expect(requests == count, f"the metrics count {requests} accepted requests: {metrics}")

    nightly = start("nightly", "nightly-2", MAIL_KEEP_HOURS="0")
    nightly.ended(0)
    print(nightly.log.read_text().rstrip())
    expect(database.value("SELECT sum(delivered) FROM summary") == count, f"the summaries do not count {count} mails")
    expect(database.value("SELECT count(*) FROM roundtable_job") == 0, "finished jobs were not removed")
    expect(client.state(mails[0]) == "done", "the state of a mail whose job was removed")

    # Two servers that count together: of the mails to one address, one is accepted.
    servers = [start("server", name, MAIL_PORT="0", MAIL_PAUSE_MS="3600000") for name in ("server-2", "server-3")]
    ports = [server.ready_port() for server in servers]
    mail = {"to": "often@example.org", "subject": "Again", "body": "…"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda index: Client(ports[index % 2]).request("POST", "/mails", mail)[0], range(40)))
    expect(sorted(answers) == [202] + [429] * 39, f"two servers with a limit answer {answers}")
    print("Of 40 mails to one address, two servers have accepted one.")

    for program in (worker, *servers, server):
        program.signal(signal.SIGTERM)
        program.ended(0)
    wal = folder / "mail.sqlite-wal"
    expect(not wal.exists() or wal.stat().st_size == 0, "the last program has not emptied the WAL")
    print("The server has ended with status 0.")


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".build/debug").resolve()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as started:
        folder = pathlib.Path(name)

        def start(program, label, **settings):
            result = Program(program, folder, programs, label, **settings)
            started.callback(result.discard)
            return result

        # `kill` ends this script, and so all that it has started, like Ctrl-C.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            check(folder, programs, start)
        except Failure as failure:
            sys.exit(f"check.py: {failure}")


main()
