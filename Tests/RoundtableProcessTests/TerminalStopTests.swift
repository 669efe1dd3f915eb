#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import GRDB
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// Ctrl-Z: other processes wait no longer than the grace (rule F8).
        @Suite(.serialized) struct TerminalStop {
            private static let grace = 20.0
            /// The default of `suspendAllOnTerminalStop(grace:)`.
            private static let libraryGrace = 40.0
            /// What the machine may add, in ms: from the signal to the rollback, four threads have to get a processor one after the
            /// other, beside whatever else runs. The busy timeout is far beyond.
            private static let slack = 300.0
            /// What the second run of a long write inserts.
            private static let rows = 1000

            /// `sql` in the middle of a write that does not end by itself. Another process begins to write when the signal is sent.
            /// For comparison SIGSTOP, which no process can catch: the other process is locked out until the busy timeout.
            @Test(.timeLimit(.minutes(2)), arguments: [SIGTSTP, SIGTTIN, SIGTTOU])
            func otherProcessesWaitNoLongerThanTheGrace(_ number: Int32) throws {
                var random = SeededGenerator()
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    let other = try fleet.spawnOpen("other", options: PeerOptions(busyTimeout: 1000))
                    try fleet.makeBigTable(other)
                    var waits: [Double] = []
                    for _ in 0..<(isLongRun ? 50 : 10) {
                        let tool = try fleet.spawnLongWrite()
                        usleep(.random(in: 0...100_000, using: &random))
                        let began = ContinuousClock.now
                        tool.signal(number)
                        try other.call(.write(rows: 1))
                        waits.append((ContinuousClock.now - began).milliseconds)
                        try tool.waitForStop(by: number)
                        let participant = try #require(fleet.participant("tool"))
                        #expect(participant.state == .suspended && participant.liveness == .stopped)
                        #expect(participant.writing == nil && participant.waiting == nil && !participant.hasTurn)
                        tool.end()
                    }
                    let sorted = waits.sorted().map { Int($0) }
                    print("signal \(number): other processes waited \(sorted) ms")
                    trial.expect("longest wait", waits.max() ?? .nan, atMost: Self.grace + Self.slack)

                    let frozen = try fleet.spawnLongWrite()
                    let began = ContinuousClock.now
                    try frozen.stop()
                    let reply = try other.attempt(.write(rows: 1))
                    print("SIGSTOP: another waited \(Int((ContinuousClock.now - began).milliseconds)) ms, in vain")
                    #expect(reply.outcome == .failed && reply.message?.contains("it is stopped (SIGSTOP)") == true)
                }
            }

            /// After SIGCONT, the statement is reported as rolled back, and run again.
            @Test(.timeLimit(.minutes(1))) func continuesAfterwards() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    try fleet.makeBigTable(other)
                    let tool = try fleet.spawnLongWrite(of: .setLater)
                    try tool.stopByTerminal()
                    #expect(tool.errorText == "", "it belongs to the shell's prompt")
                    try other.call(.write(rows: 1))
                    try other.call(.execute(sql: PeerFleet.setCount(Self.rows)))
                    tool.resume()
                    #expect(try tool.waitForExit(within: .seconds(30)) == .status(0))
                    #expect(
                        tool.errorText.contains("\(fleet.database.path): rolled back, since the program was stopped")
                    )
                    #expect(tool.errorText.contains("(Ctrl-Z)") && tool.errorText.contains(", in: WITH RECURSIVE n(i)"))
                    #expect(tool.errorText.hasSuffix("Running it again.\n"))
                    #expect(try Self.count("big", fleet) == Self.rows)
                    #expect(fleet.participant("tool") == nil)
                }
            }

            /// A script with transactions of its own cannot be run again: what is committed is kept.
            @Test(.timeLimit(.minutes(1))) func ownTransactions() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    try fleet.makeBigTable(other)
                    let script =
                        "BEGIN; INSERT INTO big VALUES (-1); COMMIT; BEGIN; \(PeerFleet.longWrite(of: .endless)); COMMIT"
                    let tool = try fleet.spawnTool("sql", fleet.database.path, script, "--as", "tool")
                    // The second transaction is under way when the first is there.
                    try eventually("the first transaction is committed") { try Self.count("big", fleet) == 1 }
                    try tool.stopByTerminal()
                    try other.call(.write(rows: 1))
                    tool.resume()
                    #expect(try tool.waitForExit() == .status(1))
                    #expect(tool.errorText.contains("had committed before is kept"), "\(tool.errorText)")
                    #expect(tool.errorText.filter(\.isNewline).count == 1)
                    #expect(try Self.count("big", fleet) == 1)
                }
            }

            /// A program that does nothing stops and continues, again and again; SIGCONT without a stop does nothing.
            @Test(.timeLimit(.minutes(1))) func idle() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    let watch = ProgramSession(try fleet.spawnTool("watch", fleet.database.path, "--as", "watcher"))
                    try eventually("it watches") { watch.process.errorText.contains("watching") }
                    watch.process.resume()
                    for _ in 0..<3 {
                        try watch.process.stopByTerminal()
                        #expect(fleet.participant("watcher")?.state == .suspended)
                        watch.process.resume()
                        try eventually("it takes part") { fleet.participant("watcher")?.state == .present }
                        try other.call(.write(rows: 1))
                        #expect(try watch.receive().contains("other (pid \(other.pid))"))
                    }
                    watch.process.signal(SIGTERM)
                    #expect(try watch.process.waitForExit() == .status(128 + SIGTERM))
                }
            }

            /// Stopped and continued at random moments while it writes, by a program that waits until it has stopped, as a shell does, and by
            /// one that does not, that presses twice, that continues what runs. With transactions that end within the grace, and with closures
            /// that compute beyond it: the process is not stopped before they have ended.
            @Test(.long(), .timeLimit(.minutes(3)), arguments: [3.0, 60]) func againAndAgain(milliseconds: Double)
                throws
            {
                var random = SeededGenerator(for: "againAndAgain(milliseconds: \(milliseconds))")
                try PeerFleet.run(inMemory: true) { fleet in
                    var options = PeerOptions()
                    options.suspendsOnTerminalStop = true
                    let writer = try fleet.spawnOpen("writer", options: options)
                    let other = try fleet.spawnOpen("other")
                    try writer.send(.writeLoop(WriteLoad(seconds: 300, transaction: milliseconds)))
                    try other.send(.writeLoop(WriteLoad(seconds: 300, think: 1)))
                    var last = 0
                    for round in 1...(isLongRun ? 500 : 50) {
                        do {
                            try fleet.waitForProgress(of: [writer, other], commits: 1)
                        } catch {
                            let state = fleet.participant("writer").map { "\($0.state)" } ?? "gone"
                            let stopped = writer.process.isStopped ? "stopped" : "running"
                            throw TestKitError("round \(round), stuck after '\(last)', \(stopped), \(state): \(error)")
                        }
                        usleep(.random(in: 0...20_000, using: &random))
                        writer.process.signal(SIGTSTP)
                        last = .random(in: 0..<4, using: &random)
                        switch last {
                        case 0:
                            usleep(.random(in: 0...60_000, using: &random))
                        case 1:
                            usleep(.random(in: 0...1000, using: &random))
                            writer.process.resume()
                            writer.process.signal(SIGTSTP)
                            usleep(.random(in: 0...20_000, using: &random))
                        case 2:
                            usleep(.random(in: 0...20_000, using: &random))
                            writer.process.signal(SIGTSTP)
                            fallthrough
                        default:
                            try eventually("it is stopped, round \(round)") { writer.process.isStopped }
                            #expect(fleet.participant("writer")?.state == .suspended)
                            try fleet.waitForProgress(of: [other], commits: 2)
                        }
                        writer.process.resume()
                    }
                    try fleet.waitForProgress(of: [writer, other])
                    let reports = try [writer, other].map { try $0.stopLoop() }
                    #expect(
                        reports[0].errors.allSatisfy { $0.contains("the database was suspended") },
                        "\(reports[0].errors)"
                    )
                    reports[1].expectNoErrors(other)
                    let rolledBack = reports[0].errorCount
                    let longest = Int(reports[1].longestWait)
                    print(
                        "closures of \(milliseconds) ms: waits of \(longest) ms at most, \(rolledBack) rolled back"
                    )
                    #expect(milliseconds < Self.libraryGrace || rolledBack > 0)
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [writer, other])
                }
            }

            /// No shell would continue it: by POSIX, it is not stopped, and continues. The other one has waited for its turn since before the signal,
            /// so the second run comes after that write.
            @Test(.timeLimit(.minutes(1))) func orphanedProcessGroup() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    try fleet.makeBigTable(other)
                    let tool = try Program.roundtable().path
                    let sql = ["sql", fleet.database.path, PeerFleet.longWrite(of: .setLater), "--as", "tool"]
                    let session = try fleet.spawn(
                        program: URL(fileURLWithPath: "/usr/bin/setsid"),
                        arguments: ["--wait", tool] + sql
                    )
                    try fleet.waitForWriting("tool", session)
                    let pid = try #require(fleet.participant("tool")?.pid)
                    defer { kill(pid, SIGKILL) }
                    try other.send(.execute(sql: PeerFleet.setCount(Self.rows)))
                    try eventually("the other waits") { fleet.participant("other")?.waiting != nil }
                    kill(pid, SIGTSTP)
                    #expect(try other.reply().outcome == .done)
                    #expect(try session.waitForExit(within: .seconds(30)) == .status(0))
                    #expect(session.errorText.hasSuffix("Running it again.\n"), "\(session.errorText)")
                    #expect(try Self.count("big", fleet) == Self.rows)
                }
            }

            /// A program that ignores the signal is not stopped by it.
            @Test(.timeLimit(.minutes(1))) func ignored() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    let tool = try Program.roundtable().path
                    let watch = ProgramSession(
                        try fleet.spawn(
                            program: URL(fileURLWithPath: "/bin/sh"),
                            arguments: [
                                "-c", "trap '' TSTP; exec '\(tool)' watch '\(fleet.database.path)' --as watcher",
                            ]
                        )
                    )
                    try eventually("it watches") { watch.process.errorText.contains("watching") }
                    #expect(!watch.process.catches(SIGTSTP) && watch.process.catches(SIGCONT))
                    watch.process.signal(SIGTSTP)
                    try other.call(.write(rows: 1))
                    #expect(try watch.receive().contains("other (pid \(other.pid))"))
                    #expect(fleet.participant("watcher")?.state == .present)
                    // Other stop signals still stop it.
                    try watch.process.stopByTerminal(SIGTTIN)
                }
            }

            /// As a thread of libdispatch has its signals, and each process that it spawns: SIGTSTP, SIGCONT, SIGTERM and SIGINT among them.
            private static let blockedByLibdispatch: Set<Int32> = {
                let mask: UInt64 = 0xffff_fffe_3bfb_ea27
                return Set((1...31).filter { mask & (1 << UInt64($0 - 1)) != 0 })
            }()

            /// A process that was spawned with its signals blocked is stopped and continued like any other, its gates closed meanwhile.
            @Test(.timeLimit(.minutes(1))) func spawnedWithBlockedSignals() throws {
                #expect(Self.blockedByLibdispatch.isSuperset(of: [SIGTSTP, SIGCONT, SIGTERM, SIGINT]))
                try PeerFleet.run(inMemory: true) { fleet in
                    var options = PeerOptions()
                    options.suspendsOnTerminalStop = true
                    let blocked = Self.blockedByLibdispatch
                    let writer = try fleet.spawnOpen("writer", options: options, blockedSignals: blocked)
                    let other = try fleet.spawnOpen("other")
                    try writer.send(.writeLoop(WriteLoad(seconds: 300, transaction: 3)))
                    for _ in 0..<3 {
                        try fleet.waitForProgress(of: [writer], commits: 1)
                        try writer.process.stopByTerminal()
                        #expect(fleet.participant("writer")?.state == .suspended)
                        try other.call(.write(rows: 1))
                        writer.process.resume()
                    }
                    try fleet.waitForProgress(of: [writer])
                    _ = try writer.stopLoop()
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [writer, other])
                }
            }

            /// The verbs of the tool unblock what they were spawned with.
            @Test(.timeLimit(.minutes(1))) func toolSpawnedWithBlockedSignals() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    try fleet.makeBigTable(other)
                    func spawn(_ arguments: String...) throws -> ChildProcess {
                        let blocked = Self.blockedByLibdispatch
                        return try fleet.spawn(
                            program: Program.roundtable(),
                            arguments: arguments,
                            blockedSignals: blocked
                        )
                    }
                    let sql = try spawn("sql", fleet.database.path, PeerFleet.longWrite(of: .endless), "--as", "tool")
                    try fleet.waitForWriting("tool", sql)
                    sql.signal(SIGTERM)
                    #expect(try sql.waitForExit() == .signal(SIGTERM))

                    let watch = try spawn("watch", fleet.database.path, "--as", "watcher")
                    try eventually("it watches") { watch.errorText.contains("watching") }
                    try watch.stopByTerminal()
                    #expect(fleet.participant("watcher")?.state == .suspended)
                    watch.resume()
                    watch.signal(SIGTERM)
                    #expect(try watch.waitForExit() == .status(128 + SIGTERM))
                }
            }

            /// What nohup(1) has a program ignore does not end it.
            @Test(.timeLimit(.minutes(1))) func hangupIsIgnored() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let other = try fleet.spawnOpen("other")
                    let tool = try Program.roundtable().path
                    let watch = ProgramSession(
                        try fleet.spawn(
                            program: URL(fileURLWithPath: "/bin/sh"),
                            arguments: ["-c", "trap '' HUP; exec '\(tool)' watch '\(fleet.database.path)'"]
                        )
                    )
                    try eventually("it watches") { watch.process.errorText.contains("watching") }
                    watch.process.signal(SIGHUP)
                    try other.call(.write(rows: 1))
                    #expect(try watch.receive().contains("other (pid \(other.pid))"))
                    watch.process.signal(SIGTERM)
                    #expect(try watch.process.waitForExit() == .status(128 + SIGTERM))
                }
            }

            /// A shell with job control on a terminal; Ctrl-Z is typed, and `fg`.
            @Test(.timeLimit(.minutes(1))) func shell() throws {
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    let other = try fleet.spawnOpen("other")
                    try fleet.makeBigTable(other)
                    let terminal = ProgramSession(
                        try fleet.spawn(
                            program: URL(fileURLWithPath: "/usr/bin/script"),
                            arguments: ["-qc", "/bin/bash --noprofile --norc -i", "/dev/null"],
                            environment: ["PS1": "", "PS2": "", "TERM": "dumb"]
                        )
                    )
                    func receive(until text: String) throws -> String {
                        var lines = ""
                        while !lines.contains(text) { lines += try terminal.receive() + "\n" }
                        return lines
                    }
                    let tool = try Program.roundtable().path
                    let sql = PeerFleet.longWrite(of: .setLater)
                    try terminal.send("'\(tool)' sql '\(fleet.database.path)' '\(sql)' --as tool; echo end=$?")
                    try fleet.waitForWriting("tool", terminal.process)
                    try terminal.send("\u{1A}")
                    let began = ContinuousClock.now
                    try other.call(.write(rows: 1))
                    let waited = (ContinuousClock.now - began).milliseconds
                    print("Ctrl-Z typed: another waited \(Int(waited)) ms")
                    trial.expect("wait", waited, atMost: Self.grace + Self.slack)
                    #expect(try receive(until: "Stopped").contains("[1]+"))
                    #expect(fleet.participant("tool")?.state == .suspended)
                    try other.call(.execute(sql: PeerFleet.setCount(Self.rows)))
                    try terminal.send("fg; echo fg=$?")
                    let rest = try receive(until: "\nfg=")
                    #expect(rest.contains("Running it again.") && rest.contains("1,000 rows changed"), "\(rest)")
                    #expect(rest.contains("fg=0"), "\(rest)")
                    #expect(try Self.count("big", fleet) == Self.rows)
                    try terminal.send("exit")
                    _ = try terminal.process.waitForExit()
                }
            }

            /// The police gives notice by SIGTSTP: never convicted. Without notice: nearly always. The notice is long, and ends when the
            /// process has stopped: how fast that is depends on the machine, and is measured above.
            @Test(.timeLimit(.minutes(3)), arguments: [true, false]) func police(hasNotice: Bool) throws {
                let random = SeededGenerator(for: "police(hasNotice: \(hasNotice))")
                var terms = SuspensionTerms.reporting()
                terms.notice = .seconds(2)
                terms.noticeSignal = SIGTSTP
                if !hasNotice { terms.notice = nil }
                try PeerFleet.run(inMemory: true) { fleet in
                    try withPolice(terms) { police in
                        let other = try fleet.spawnOpen("other")
                        try fleet.makeBigTable(other)
                        let tool = try fleet.spawnLongWrite()
                        let report = try police.patrol(
                            tool.pid,
                            freezes: isLongRun ? 500 : 40,
                            pauses: .zero...(.milliseconds(50)),
                            seed: random.seed
                        )
                        print("roundtable sql, \(hasNotice ? "SIGTSTP" : "no notice"): \(report)")
                        #expect(report.freezes == (isLongRun ? 500 : 40))
                        #expect(report.notified == (hasNotice ? report.freezes : 0))
                        #expect(hasNotice ? report.convicted == 0 : report.convicted > report.freezes / 2)
                        #expect(tool.isRunning, "\(tool.errorText)")
                    }
                }
            }

            private static func count(_ table: String, _ fleet: PeerFleet) throws -> Int {
                let queue = try DatabaseQueue(path: fleet.database.path)
                defer { try? queue.close() }
                return try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM \(table)") } ?? 0
            }
        }
    }
#endif
