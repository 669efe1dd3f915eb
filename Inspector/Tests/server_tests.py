"""The server: who gets an answer, and that the fleet is never disturbed."""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import threading
import time

from fleet import DEADLINE, Fleet, Inspector, expect, state, stop, wait_for

FILES = ["", "style.css", "main.js", "store.js", "chart.js", "panels.js", "parts.js", "keys.js"]


def request(port, path, method="GET", host=None):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)) as connection:
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def raw_status(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
        connection.sendall(text.encode())
        return int(connection.makefile("rb").readline().split()[1])


def established(port):
    """The connections that the server has, by proc_net(5)."""
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


class Events:
    """A client of the events, which reads them in a thread."""

    def __init__(self, inspector):
        self.connection = http.client.HTTPConnection("127.0.0.1", inspector.port, timeout=DEADLINE)
        self.connection.request("GET", f"/{inspector.token}/events")
        self.answer = self.connection.getresponse()
        expect(self.answer.status == 200, f"events: {self.answer.status}")
        self.lines = []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            while line := self.answer.readline():
                if line.startswith(b"data: "):
                    self.lines.append(json.loads(line[6:]))

    def kinds(self, kind):
        return [line for line in self.lines if line["kind"] == kind]

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.sock and self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(DEADLINE)
        self.connection.close()


def small_database(folder, name="a.db"):
    path = folder / name
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE player(name)")
        connection.commit()
    return path


def doors(options, folder):
    """Only this machine, only with the token, only by its own name, only GET."""
    with contextlib.closing(Inspector(options.inspector, options.tool, small_database(folder), log=folder / "log")) as inspector:
        token, port = inspector.token, inspector.port
        for name in FILES:
            status, headers, body = request(port, f"/{token}/{name}")
            expect(status == 200 and body, f"/{name}: {status}")
            expect("default-src 'none'" in headers["Content-Security-Policy"], f"/{name}: {headers}")
            expect(headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff", f"/{name}: {headers}")
            expect(headers["Referrer-Policy"] == "no-referrer", f"/{name}: {headers}")
        other = token[:-1] + ("0" if token[-1] != "0" else "1")
        for path in ["/", f"/{token}", "/style.css", "/events", f"/{other}/", f"/{other}/events", f"/{token}x/", f"//{token}/", f"/{token}/../{token}/", f"/{token}/none"]:
            status, headers, _ = request(port, path)
            expect(status == 404, f"{path}: {status}")
            expect("default-src 'none'" in headers["Content-Security-Policy"], f"{path}: {headers}")
        for host in ["evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", f"localhost.evil.example:{port}", "127.0.0.1:1:2", "[::1]", "10.0.0.1"]:
            status, _, _ = request(port, f"/{token}/", host=host)
            expect(status == 421, f"Host {host}: {status}")
        expect(request(port, f"/{token}/", host="")[0] in (400, 421), "a request without a host")
        expect(request(port, f"/{token}/", host=f"localhost:{port}")[0] == 200, "localhost")
        # Two names, of which the server and a proxy before it could believe different ones (RFC 9112, 3.2).
        own, evil = f"127.0.0.1:{port}", "evil.example"
        for hosts in [[own, evil], [evil, own], [own, own]]:
            status = raw_status(port, f"GET /{token}/ HTTP/1.1\r\n" + "".join(f"Host: {host}\r\n" for host in hosts) + "\r\n")
            expect(status == 421, f"{hosts}: {status}")
        for method in ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]:
            status, _, _ = request(port, f"/{token}/", method=method)
            expect(status == 405, f"{method}: {status}")
        # Listening sockets of this port, by proc_net(5): 127.0.0.1 alone.
        listening = []
        for table in ["/proc/net/tcp", "/proc/net/tcp6"]:
            with contextlib.suppress(FileNotFoundError), open(table) as file:
                rows = [line.split() for line in file.readlines()[1:]]
                listening += [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
        expect(listening == [f"0100007F:{port:04X}"], f"it listens at {listening}")
        with contextlib.closing(Inspector(options.inspector, options.tool, folder / "a.db", log=folder / "log2")) as second:
            expect(second.token != token, "two inspectors have one token")


def strangers(options, folder):
    """Connections that ask for nothing, as any user of the machine can make them, do not keep the page from others."""
    with contextlib.closing(Inspector(options.inspector, options.tool, small_database(folder), log=folder / "log")) as inspector, contextlib.ExitStack() as stack:

        def connect(text):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect(("127.0.0.1", inspector.port))
            wait_for("no connection is made", lambda: select.select([], [connection], [], 0)[1])
            connection.sendall(text)

        # Half of a first line, or nothing; more than the server takes at a time. The system completes the others, and they wait.
        for index in range(200):
            connect(b"GET /" if index % 2 else b"")
        begin = time.monotonic()
        expect(request(inspector.port, f"/{inspector.token}/")[0] == 200, "the page is not served")
        # Connections are accepted in their order: without a bound, all of them are open now.
        files = len(os.listdir(f"/proc/{inspector.process.pid}/fd"))
        expect(files < 200, f"the server has {files} open files")
        print(f"  (the page was served after {time.monotonic() - begin:.1f} s)")
        # A client that asks again and again, without the token, gets one answer, and the connection ends.
        keeper = stack.enter_context(socket.create_connection(("127.0.0.1", inspector.port), timeout=DEADLINE))
        keeper.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2)
        answers = b""
        # The system resets a connection that is closed before all of it was read.
        with contextlib.suppress(ConnectionResetError):
            while piece := keeper.recv(65536):
                answers += piece
        expect(answers.count(b"HTTP/1.1 404") <= 1, f"the connection goes on after a refusal: {answers}")
        client = Events(inspector)
        wait_for("idle connections stay", lambda: established(inspector.port) <= 1)
        # The page's own events stay connected meanwhile.
        count = len(client.lines)
        wait_for("the events have ended", lambda: len(client.lines) > count + 2)
        client.close()


def recording_readers(options, folder):
    """A recording is read by a bounded number of pages at a time, and a page that has ended makes room."""
    target = folder / "a.recording"
    recorder = subprocess.Popen([options.tool, "record", small_database(folder), "-o", target], stderr=subprocess.DEVNULL)
    try:
        wait_for("nothing is recorded", lambda: target.exists() and b"sample" in target.read_bytes())
    finally:
        recorder.kill()
        recorder.wait(DEADLINE)
    # Large enough that no client gets all of it before it reads.
    header, sample = (line + "\n" for line in target.read_text().splitlines()[:2])
    target.write_text(header + sample * ((64 << 20) // len(sample)))
    with contextlib.closing(Inspector(options.inspector, options.tool, "--recording", target, log=folder / "log")) as inspector, contextlib.ExitStack() as stack:
        text = f"GET /{inspector.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n"
        readers = []
        for _ in range(32):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", inspector.port), timeout=DEADLINE))
            connection.sendall(text.encode())
            expect(connection.recv(12) == b"HTTP/1.1 200", "a page is refused")
            readers.append(connection)
        expect(raw_status(inspector.port, text) == 503, "more pages than there is room for")
        with open(f"/proc/{inspector.process.pid}/status") as file:
            memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        expect(memory < 256 * 1024, f"the inspector has {memory} KiB")
        for connection in readers:
            connection.close()
        wait_for("pages that have ended make no room", lambda: raw_status(inspector.port, text) == 200)
    (folder / "pipe").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe")
    done = subprocess.run([options.inspector, "--recording", folder / "pipe"], capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode == 1 and "is no file" in done.stderr, f"a pipe: {done}")


def mistakes(options, folder):
    """What cannot be shown is said on one line, before anything is served."""
    (folder / "text").write_text("no recording\n")
    cases = [
        ([], 64, "Name a database"),
        (["a.db", "--recording", "x"], 64, "Name a database"),
        (["--recording", str(folder / "none")], 1, "cannot be opened"),
        (["--recording", str(folder / "text")], 1, "is no recording"),
        (["a.db", "--tool", str(folder / "none")], 1, "is no program"),
        (["a.db", "--port", "70000"], 64, "--port"),
    ]
    for arguments, code, text in cases:
        done = subprocess.run([options.inspector, *arguments], capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == code and text in done.stderr and not done.stdout, f"{arguments}: {done}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run([options.inspector, "--tool", options.tool, "a.db", "--port", port], capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == 1 and "cannot be served" in done.stderr, f"a port that is taken: {done}")


def leaves_no_trace(options, folder):
    """No file is created or changed, and the recorder ends with the inspector, however that ends."""
    path = small_database(folder)
    (folder / "log").touch()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]:
        inspector = Inspector(options.inspector, options.tool, path, log=folder / "log")
        client = Events(inspector)
        wait_for("no sample arrives", lambda: len(client.kinds("sample")) >= 2)
        recorder = wait_for("no recorder runs", inspector.children)[0]
        inspector.process.send_signal(number)
        code = inspector.process.wait(DEADLINE)
        expect(code == (-number if number == signal.SIGKILL else 128 + number), f"signal {number}: it has ended with {code}")
        client.close()
        inspector.process.stdout.close()
        wait_for("the recorder is left behind", lambda: not os.path.exists(f"/proc/{recorder}") or state(recorder) == "Z")
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    expect(before == after, f"files have changed: {sorted(before)} and {sorted(after)}")


def many_clients(options, folder):
    """Five clients at once, and one that never reads, which costs bounded memory and is disconnected."""
    fleet = Fleet(options.tool, folder / "demo.sqlite")
    inspector = None
    try:
        fleet.ready()
        inspector = Inspector(
            options.inspector, options.tool, fleet.database, "--every", 0.1, "--turns-every", 0.01, log=folder / "log"
        )
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", inspector.port))
        lazy.sendall(f"GET /{inspector.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n".encode())
        clients = [Events(inspector) for _ in range(5)]
        wait_for("five clients are not served", lambda: all(len(client.kinds("sample")) >= 5 for client in clients))

        def connections():
            return established(inspector.port)

        expect(connections() >= 5, "the connections are not seen")
        wait_for("the client that never reads stays connected", lambda: connections() == 5)
        counts = [len(client.lines) for client in clients]
        wait_for("the others are not served any more", lambda: all(len(one.lines) > count + 50 for one, count in zip(clients, counts)))
        with open(f"/proc/{inspector.process.pid}/status") as file:
            memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        expect(memory < 256 * 1024, f"the inspector has {memory} KiB")
        for client in clients:
            client.close()
        lazy.close()
        wait_for("connections stay", lambda: connections() == 0)
    finally:
        if inspector:
            inspector.close()
        fleet.close()


def stopped_inspector(options, folder):
    """An inspector that is stopped, or its recorder, holds nothing of the database: the fleet writes, and the WAL is copied."""
    fleet = Fleet(options.tool, folder / "demo.sqlite")
    inspector = None
    try:
        fleet.ready()
        inspector = Inspector(options.inspector, options.tool, fleet.database, log=folder / "log")
        client = Events(inspector)
        wait_for("no sample arrives", lambda: len(client.kinds("sample")) >= 2)
        recorder = inspector.children()[0]
        stop(inspector.process.pid)
        # The recorder fills the pipe, and then waits in write(2).
        written = fleet.writes()
        wait_for("the fleet does not go on", lambda: fleet.writes() > written + 5000)
        wait_for("the recorder never waits for the pipe", lambda: in_pipe_write(recorder))
        pins = [pin["holder"]["pid"] for pin in fleet.status()["wal"]["pins"]]
        expect(recorder not in pins and inspector.process.pid not in pins, f"it holds the WAL back: {pins}")
        os.kill(inspector.process.pid, signal.SIGCONT)
        count = len(client.lines)
        wait_for("it does not go on", lambda: len(client.lines) > count + 20)
        # The recorder is killed: it is said, and another one is started.
        os.kill(recorder, signal.SIGKILL)
        wait_for("no problem is told", lambda: any("started again" in line["message"] for line in client.kinds("problem")))
        headers = len(client.kinds("recording"))
        wait_for("no other recorder is started", lambda: len(client.kinds("recording")) > headers or inspector.children() not in ([], [recorder]))
        client.close()
    finally:
        if inspector:
            inspector.close()
        fleet.close()


def in_pipe_write(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan") as file:
        if "pipe" in file.read():
            return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/syscall") as file:
        # write(2) is 1 on x86-64 and 64 on arm64; its first argument is standard output.
        return file.read().split()[:2] in (["1", "0x1"], ["64", "0x1"])
    return False


def recording_file(options, folder):
    """A recording keeps the last seconds, only its owner can read it, and it never overwrites another file."""
    path = small_database(folder)
    target = folder / "a.recording"
    recorder = subprocess.Popen([options.tool, "record", path, "-o", target, "--keep", "1", "--every", "0.1"], stderr=subprocess.DEVNULL)
    try:
        identity = wait_for("no recording is made", lambda: target.exists() and os.stat(target).st_ino)
        expect(os.stat(target).st_mode & 0o777 == 0o600, f"its mode is {os.stat(target).st_mode:o}")
        wait_for("it is never replaced", lambda: os.stat(target).st_ino != identity)
        done = subprocess.run([options.tool, "record", path, "-o", target], capture_output=True, text=True, timeout=DEADLINE)
        expect(done.returncode == 1 and "another process records into it" in done.stderr, f"a second recorder: {done}")
        lines = [json.loads(line) for line in target.read_text().splitlines()]
        expect(lines[0]["kind"] == "recording" and lines[-1]["time"] - lines[1]["time"] < 5, f"it keeps too much: {lines[0]}")
    finally:
        recorder.send_signal(signal.SIGTERM)
        expect(recorder.wait(DEADLINE) == 128 + signal.SIGTERM, f"it has ended with {recorder.returncode}")
    expect(not list(folder.glob("*.new")), "a temporary file is left")
    # A device is no file that could be replaced.
    done = subprocess.run([options.tool, "record", path, "-o", "/dev/null"], capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode == 1 and "is no recording" in done.stderr, f"a device: {done}")
    content = path.read_bytes()
    done = subprocess.run([options.tool, "record", path, "-o", path], capture_output=True, text=True, timeout=DEADLINE)
    expect(done.returncode == 1 and "is no recording" in done.stderr and path.read_bytes() == content, f"the database itself: {done}")


TESTS = [doors, strangers, recording_readers, mistakes, leaves_no_trace, many_clients, stopped_inspector, recording_file]
