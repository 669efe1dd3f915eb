#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// A participant that follows the formats and lies costs other participants time, and nothing else (`docs/SECURITY.md`; rules G1–G3).
        @Suite(.enabled(if: isSuperuser, "only the superuser can start a process as another user"))
        struct SecurityHostile {
            /// The busy timeout of the writers, in ms.
            private static let timeout = 2000

            /// A user who may write the control block alone: a user who may not write the database can do no more than this.
            ///
            ///     writers, observers        hostile
            ///     write, observe
            ///                               lies
            /// continue, each within its busy timeout
            ///                               ends
            /// lack no row, and are notified of each
            @Test(.long(oneIn: 32), .timeLimit(.minutes(1)), arguments: Lie.allCases)
            func whileTwoWrite(lie: Lie) throws {
                var random = SeededGenerator()
                try PeerFleet.runTimed { fleet, trial in
                    let victim = try fleet.spawn(program: URL(fileURLWithPath: "/bin/sleep"), arguments: ["60"])
                    let observers = [try fleet.spawnObserver("app"), try fleet.spawnObserver("widget", readOnly: true)]
                    let options = PeerOptions(busyTimeout: Self.timeout)
                    let writers = try fleet.spawnOpen(2, options: options)
                    for writer in writers { try writer.send(.writeLoop(WriteLoad(seconds: 60, think: 1))) }
                    try fleet.waitForProgress(of: writers)
                    // As it never is by itself (rule B2): a user may write the block, and not the database.
                    #expect(chmod(fleet.controlBlock.path, 0o666) == 0)
                    let hostile = try HostileParticipant(
                        lie,
                        databasePath: fleet.database.path,
                        victim: victim.pid,
                        user: nobody,
                        seed: .random(in: 0 ... .max, using: &random)
                    )
                    defer { hostile.end() }
                    let began = ContinuousClock.now
                    for _ in 0..<(isLongRun ? 10 : 2) {
                        try fleet.waitForProgress(of: writers, commits: 2, within: .milliseconds(4 * Self.timeout))
                        usleep(.random(in: 0...300_000, using: &random))
                    }
                    try expectCleanStatus(of: fleet.database)
                    if lie == .names {
                        let late = try fleet.spawnOpen("late", options: options)
                        try late.call(.write(rows: 1))
                    }
                    let lasted = (ContinuousClock.now - began) / .milliseconds(1)
                    hostile.end()

                    try fleet.waitForProgress(of: writers, commits: 50)
                    let reports = try writers.map { try $0.stopLoop() }
                    let waits = reports.map(\.longestWait)
                    print(
                        "hostile \(lie): \(Int(lasted)) ms, longest waits \(waits) ms, errors \(reports.map(\.errorCount))"
                    )
                    for (writer, report) in zip(writers, reports) {
                        // At its deadline, a writer asks SQLite once (rule T11), and may find it busy.
                        let others = report.errors.filter { !lie.exhaustsTimeout || !$0.hasPrefix("SQLite error 5:") }
                        #expect(
                            others.isEmpty && (lie.exhaustsTimeout || report.errorCount == 0),
                            "\(writer): \(others)"
                        )
                        #expect(report.commits > 0, "\(writer)")
                        let bound = lie.exhaustsTimeout ? Double(Self.timeout) + 1000 : 1500
                        trial.expect("longest wait of \(writer)", report.longestWait, atMost: bound)
                    }
                    // The next commit is reported, whatever was hidden before it.
                    let last = writers[0]
                    try last.call(.write(rows: 1))
                    let rows = try fleet.authors().count
                    for observer in observers { try observer.expectFinalState(rows: rows) }
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
                    // Nothing was sent to a process for its pid in the block.
                    #expect(victim.isRunning)
                }
            }

            /// Written here again, so that a mistake in the library's own list is seen.
            private static func steersTerminal(_ scalar: Unicode.Scalar) -> Bool {
                scalar.value < 0x20 || 0x7F...0x9F ~= scalar.value || scalar.value == 0x202E
            }

            /// What programs and people are shown is text that steers no terminal, and JSON.
            private func expectCleanStatus(of database: URL) throws {
                let status = try DatabaseStatus(ofDatabaseAt: database)
                let encoder = JSONEncoder()
                encoder.dateEncodingStrategy = .iso8601
                let json = try encoder.encode(status)
                #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: json) }
                let diagnosis = try DatabaseDiagnosis(ofDatabaseAt: database)
                for line in "\(status)\n\(diagnosis)".split(separator: "\n") {
                    let steers = line.unicodeScalars.contains(where: Self.steersTerminal)
                    #expect(!steers, "\(line.debugDescription)")
                }
                let tool = try PeerFleet.program(named: "roundtable")
                for arguments in [["status"], ["status", "--json"], ["doctor"], ["doctor", "--json"]] {
                    let process = Process()
                    let output = Pipe()
                    process.executableURL = tool
                    process.arguments = arguments + [database.path]
                    process.standardOutput = output
                    process.standardError = output
                    try process.run()
                    let text = output.fileHandleForReading.readDataToEndOfFile()
                    process.waitUntilExit()
                    #expect(process.terminationReason == .exit, "\(arguments)")
                    let shown = try #require(String(validating: text, as: UTF8.self), "\(arguments)")
                    let steers = shown.unicodeScalars.contains { $0 != "\n" && Self.steersTerminal($0) }
                    #expect(!steers, "\(arguments): \(shown.debugDescription)")
                    if arguments.contains("--json") {
                        #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: text) }
                    }
                }
            }

            /// An error names the process that has the lock, and that process has chosen its name.
            @Test(.timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
            func theNameOfAProcess() throws {
                try PeerFleet.run { fleet in
                    let writer = try fleet.spawnOpen("writer", options: PeerOptions(busyTimeout: 100))
                    let script = """
                        import sqlite3, sys
                        open("/proc/self/comm", "w").write("\\x1b[31m\\nroot")
                        db = sqlite3.connect(sys.argv[1], isolation_level=None)
                        db.execute("BEGIN IMMEDIATE")
                        print("locked", flush=True)
                        sys.stdin.readline()
                        """
                    let process = try fleet.spawn(
                        program: try #require(Program.python),
                        arguments: ["-c", script, fleet.database.path]
                    )
                    let session = ProgramSession(process)
                    #expect(try session.receive() == "locked")
                    let reply = try writer.attempt(.write(rows: 1))
                    let message = try #require(reply.message)
                    #expect(message.contains("(pid \(process.pid))") && message.contains("·[31m·root"), "\(message)")
                    let steers = message.unicodeScalars.contains(where: Self.steersTerminal)
                    #expect(!steers, "\(message.debugDescription)")
                    try session.send("end")
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [writer])
                }
            }
        }
    }
#endif
