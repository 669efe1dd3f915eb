#if os(Linux)
    import Foundation
    import RoundtableTestSupport
    import Testing

    /// A program in Python that writes through the loadable extension, or without it, as a stranger.
    final class PythonPeer {
        let name: String
        let process: ChildProcess
        private let session: ProgramSession
        private let progressPath: String

        fileprivate init(name: String, process: ChildProcess, progressPath: String) throws {
            self.name = name
            self.process = process
            self.progressPath = progressPath
            session = ProgramSession(process)
            #expect(try session.receive() == "open")
        }

        /// The number of transactions that it has reported as committed. It is known even after its death.
        var acknowledged: Int { ProgressFile.count(at: progressPath) }

        func send(_ command: String) throws { try session.send(command) }

        func receive(within timeout: Duration = .seconds(30)) throws -> String { try session.receive(within: timeout) }

        func call(_ command: String) throws -> String {
            try send(command)
            return try receive()
        }

        /// The report of a loop: its commits, and its three longest waits in ms, the longest first.
        func loopReport(within timeout: Duration = .seconds(60)) throws -> (commits: Int, longestWaits: [Double]) {
            let numbers = try receive(within: timeout).split(separator: " ").compactMap { Double($0) }
            guard numbers.count == 4 else { throw TestKitError("\(name): not a report: \(numbers)") }
            return (Int(numbers[0]), Array(numbers[1...]))
        }

        /// All transactions that it has acknowledged are there.
        func expectEverything(
            in ledger: Ledger,
            isDead: Bool = false,
            sourceLocation: SourceLocation = #_sourceLocation
        ) {
            let found = ledger.entries[name] ?? 0
            let acknowledged = acknowledged
            #expect(ledger.integrity == "ok", sourceLocation: sourceLocation)
            #expect(
                found == acknowledged || isDead && found == acknowledged + 1,
                "\(name): acknowledged \(acknowledged), found \(found)",
                sourceLocation: sourceLocation
            )
            #expect(ledger.highest[name] ?? 0 == found, "\(name): a hole", sourceLocation: sourceLocation)
        }
    }

    enum Python {
        /// The first Python 3 whose module `sqlite3` can load extensions; nil if there is none.
        static let path: URL? = {
            let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":").map(String.init) ?? []
            return (["/usr/bin"] + folders).map { URL(fileURLWithPath: $0).appendingPathComponent("python3") }
                .first { candidate in
                    guard FileManager.default.isExecutableFile(atPath: candidate.path) else { return false }
                    let probe = Process()
                    probe.executableURL = candidate
                    probe.arguments = ["-c", "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)"]
                    probe.standardError = FileHandle.nullDevice
                    guard (try? probe.run()) != nil else { return false }
                    probe.waitUntilExit()
                    return probe.terminationStatus == 0
                }
        }()

        static let isMissing: Comment = "no python3 whose module sqlite3 has enable_load_extension"

        /// Reads commands, one on each line, and answers each with a line.
        fileprivate static let program = """
            import os, sqlite3, struct, sys, time

            extension, path, author, progress, parameters = sys.argv[1:]
            if extension:
                loader = sqlite3.connect(":memory:")
                loader.enable_load_extension(True)
                loader.load_extension(extension)
            database = sqlite3.connect("file:" + path + "?roundtable_as=" + author + parameters, uri=True, timeout=20, isolation_level=None)
            if "\(SlowSync.variable)" not in os.environ:
                database.execute("PRAGMA synchronous = NORMAL")
            count = 0
            counter = os.open(progress, os.O_RDWR | os.O_CREAT)

            def insert():
                database.execute("INSERT INTO entry (author, n, part) VALUES (?, ?, 0)", (author, count + 1))

            def commit():
                global count
                database.execute("COMMIT")
                count += 1
                os.pwrite(counter, struct.pack("<Q", count), 0)

            def transaction(begin, milliseconds=0):
                try:
                    asked = time.monotonic()
                    database.execute(begin)
                    began = time.monotonic()
                    database.execute("SELECT count(*) FROM migrationLog").fetchone()
                    insert()
                    while time.monotonic() < began + milliseconds / 1000:
                        pass
                    commit()
                    return (began - asked) * 1000
                except sqlite3.OperationalError as error:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                    if "locked" not in str(error):
                        raise

            def answer(text):
                print(text, flush=True)

            answer("open")
            for line in sys.stdin:
                word, *rest = line.split() or [""]
                if word == "write":
                    answer("busy" if transaction("BEGIN IMMEDIATE") is None else "written")
                elif word == "upgrade":
                    answer("busy" if transaction("BEGIN DEFERRED") is None else "written")
                elif word == "rollback":
                    database.execute("BEGIN IMMEDIATE")
                    insert()
                    database.execute("ROLLBACK")
                    answer("rolled back")
                elif word == "loop":
                    waits, commits, end = [0, 0, 0], 0, time.monotonic() + float(rest[0])
                    while time.monotonic() < end:
                        waits = sorted(waits + [transaction("BEGIN IMMEDIATE", float(rest[1])) or 0])[1:]
                        commits += 1
                    answer(" ".join(str(number) for number in [commits] + waits[::-1]))
                elif word == "hold":
                    database.execute("BEGIN IMMEDIATE")
                    insert()
                    answer("held")
                elif word == "release":
                    commit()
                    answer("released")
                elif word == "timeout":
                    database.execute("PRAGMA busy_timeout = " + rest[0])
                    answer("set")
                elif word == "describe":
                    answer((database.execute("PRAGMA roundtable").fetchone() or [""])[0])
                elif word == "fork":
                    child = os.fork()
                    if child == 0:
                        database.close()
                        os._exit(0)
                    os.waitpid(child, 0)
                    answer("forked")
                elif word == "fork-and-write":
                    # A child that writes by its parent's connection, and by one of its own. It closes nothing.
                    child = os.fork()
                    if child == 0:
                        answers = []
                        try:
                            database.execute("INSERT INTO entry (author, n, part) VALUES ('child', 1, 0)")
                            answers.append("written")
                        except sqlite3.Error as error:
                            answers.append(str(error))
                        try:
                            own = sqlite3.connect(path, timeout=3, isolation_level=None)
                            own.execute("INSERT INTO entry (author, n, part) VALUES ('child', 2, 0)")
                            answers.append("written")
                        except sqlite3.Error as error:
                            answers.append(str(error))
                        answer(", ".join(answers))
                        os._exit(0)
                    os.waitpid(child, 0)
                elif word == "timed":
                    began = time.monotonic()
                    for _ in range(int(rest[0])):
                        transaction("BEGIN IMMEDIATE")
                    answer(str(time.monotonic() - began))
                elif word == "synchronous":
                    database.execute("PRAGMA synchronous = " + rest[0])
                    answer("set")
                elif word == "close":
                    database.close()
                    answer("closed")
            """
    }

    extension PeerFleet {
        /// The loadable extension under the name from which SQLite derives its entry point.
        func loadable() throws -> URL {
            let link = folder.appendingPathComponent("roundtable.so")
            if !FileManager.default.fileExists(atPath: link.path) {
                let library = try Self.program(named: "libRoundtableLoadable.so")
                try FileManager.default.createSymbolicLink(at: link, withDestinationURL: library)
            }
            return link
        }

        /// Starts a program in Python. The database must be there, with the peers' schema.
        ///
        /// - parameter loads: whether it loads the extension; otherwise it is a stranger.
        /// - parameter parameters: what its URI has in addition to the author.
        func spawnPython(
            _ name: String,
            loads: Bool = true,
            at url: URL? = nil,
            parameters: String = "",
            environment: [String: String] = [:]
        ) throws -> PythonPeer {
            guard let python = Python.path else { throw TestKitError("\(Python.isMissing)") }
            let script = folder.appendingPathComponent("peer.py")
            try Python.program.write(to: script, atomically: true, encoding: .utf8)
            let progress = folder.appendingPathComponent("\(name).progress").path
            let process = try spawn(
                program: python,
                arguments: [
                    script.path, loads ? try loadable().path : "", (url ?? database).path, name, progress, parameters,
                ],
                environment: environment
            )
            return try PythonPeer(name: name, process: process, progressPath: progress)
        }
    }
#endif
