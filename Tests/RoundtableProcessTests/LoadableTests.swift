#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// Programs in Python that load the extension, among programs that use `SharedDatabase` (rules I).
        @Suite(.enabled(if: Python.path != nil, Python.isMissing)) struct Loadable {
            typealias Fate = FrozenHolders.Fate

            /// Four of each share the turns equally, and none waits for long (rules I3, T1b).
            ///
            /// Each transaction is longer than a slice, so a turn has one: Python's are faster than ours in a debug build, and more of
            /// them would fit into a slice.
            @Test(.long(), .timeLimit(.minutes(1)))
            func sharesAreEqual() throws {
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    let peers = try fleet.spawnOpen(4)
                    let programs = try (1...4).map { try fleet.spawnPython("python-\($0)") }
                    for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 5, transaction: 2.5))) }
                    for program in programs { try program.send("loop 5 2.5") }
                    let reports = try peers.map { try $0.report() }
                    let own = try programs.map { try $0.loopReport() }
                    for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                    let commits = reports.map(\.commits) + own.map(\.commits)
                    let waits = reports.map { Array($0.longestWaits.prefix(3)) } + own.map(\.longestWaits)
                    let fairness = jainIndex(commits)
                    let longest = waits.map { $0[0] }.max() ?? 0
                    let third = waits.map { $0[2] }.max() ?? 0
                    print("4 and 4 in Python: Jain \(fairness), longest waits \(longest), \(third) ms; \(commits)")
                    #expect(fairness >= 0.98, "\(commits)")
                    trial.expect("longest wait", longest, atMost: 150)
                    trial.expect("third longest wait", third, atMost: 100)
                    let ledger = try Ledger(of: fleet.database)
                    ledger.expectEverything(acknowledgedBy: peers)
                    for program in programs { program.expectEverything(in: ledger) }
                }
            }

            /// A program that has lost `-wal` and `-shm` leaves alone what is at their names when it closes, although it closes last
            /// (rule W12d).
            @Test(.timeLimit(.minutes(1))) func theFilesAreLostAndItCloses() throws {
                try PeerFleet.run { fleet in
                    try fleet.spawnOpen("first").call(.close)
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("write") == "written")
                    try fleet.expectNothingLost { try program.call("close") }
                }
            }

            /// A program that has the turn, but not SQLite's lock, and freezes or dies, delays the others by their patience, once
            /// (rules I3b, T8).
            ///
            ///     stranger          Python                       others
            ///     BEGIN IMMEDIATE
            ///                       takes the turn, and waits for
            ///                       the stranger's lock
            ///                       SIGSTOP or SIGKILL
            ///                                                    wait
            ///     COMMIT
            ///                                                    write within 150 ms
            @Test(.timeLimit(.minutes(1)), arguments: Fate.allCases)
            func turnWithoutLock(fate: Fate) throws {
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    let others = try fleet.spawnOpen(3, options: PeerOptions(busyTimeout: 20_000))
                    let stranger = try fleet.spawnPython("stranger", loads: false)
                    let program = try fleet.spawnPython("python")
                    #expect(try stranger.call("hold") == "held")
                    try program.send("write")
                    try eventually("Python holds the turn") {
                        try fleet.participants().contains { $0.author == "python" && $0.hasTurn }
                    }
                    switch fate {
                    case .stopped: try program.process.stop()
                    case .killed: try program.process.killAndReap()
                    }
                    for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 30))) }
                    try eventually("the others wait") {
                        try fleet.participants().count { $0.waiting != nil || $0.writing != nil } >= 3
                    }
                    let released = ContinuousClock.now
                    #expect(try stranger.call("release") == "released")
                    try fleet.waitForProgress(of: others, commits: 1)
                    let delay = (ContinuousClock.now - released) / .milliseconds(1)
                    print("Python \(fate) with the turn: \(delay) ms")
                    trial.expect("after a turn without the lock", delay, atMost: 150)
                    try fleet.waitForProgress(of: others, commits: 200)
                    for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                    if fate == .stopped {
                        program.process.resume()
                        #expect(try program.receive() == "written")
                    }
                    let ledger = try Ledger(of: fleet.database)
                    ledger.expectEverything(acknowledgedBy: others)
                    program.expectEverything(in: ledger)
                    stranger.expectEverything(in: ledger)
                }
            }

            /// A program that freezes with SQLite's lock is named by the waiters, and they continue when it resumes or dies (rules T8, T11,
            /// G1).
            @Test(.timeLimit(.minutes(1)), arguments: Fate.allCases)
            func turnWithLock(fate: Fate) throws {
                try PeerFleet.runTimed { fleet, trial in
                    let other = try fleet.spawnOpen("other", options: PeerOptions(busyTimeout: 600))
                    let patient = try fleet.spawnOpen("patient", options: PeerOptions(busyTimeout: 20_000))
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("hold") == "held")
                    try program.process.stop()
                    try patient.send(.write(rows: 1))
                    let reply = try other.attempt(.write(rows: 1))
                    let message = reply.message ?? ""
                    let isBusy = reply.outcome == .failed && (reply.code ?? 0) & 0xFF == 5
                    #expect(isBusy, "not SQLITE_BUSY: \(message)")
                    let writer = "'python' (pid \(program.process.pid)) has been writing for"
                    #expect(message.contains(writer), "\(message)")
                    #expect(message.contains("it is stopped (SIGSTOP)"), "\(message)")
                    let resumed = ContinuousClock.now
                    switch fate {
                    case .stopped:
                        program.process.resume()
                        #expect(try program.call("release") == "released")
                    case .killed:
                        try program.process.killAndReap()
                    }
                    #expect(try patient.reply().outcome == .done)
                    trial.expect("after Python", (ContinuousClock.now - resumed) / .milliseconds(1), atMost: 150)
                    try other.call(.write(rows: 1))
                    let ledger = try Ledger(of: fleet.database)
                    ledger.expectEverything(acknowledgedBy: fleet.peers)
                    program.expectEverything(in: ledger)
                }
            }

            /// `kill -9` at any moment, in a turn or in the queue, loses no acknowledged commit and stops no other process. An observer ends
            /// with the last state.
            @Test(.timeLimit(.minutes(1)))
            func killedAtRandom() throws {
                var random = SeededGenerator()
                try PeerFleet.run { fleet in
                    let others = try fleet.spawnOpen(3)
                    let observer = try fleet.spawnObserver("observer")
                    for peer in others { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                    var dead: [PythonPeer] = []
                    for round in 1...(isLongRun ? 100 : 15) {
                        let program = try fleet.spawnPython("python-\(round)")
                        try program.send("loop 60 0")
                        try eventually("Python commits") { program.acknowledged >= 1 }
                        usleep(.random(in: 0...30_000, using: &random))
                        try program.process.killAndReap()
                        dead.append(program)
                        try fleet.waitForProgress(of: others)
                    }
                    for peer in others { try peer.stopLoop().expectNoErrors(peer) }
                    let ledger = try Ledger(of: fleet.database)
                    ledger.expectEverything(acknowledgedBy: others)
                    for program in dead { program.expectEverything(in: ledger, isDead: true) }
                    try observer.waitForValue(fleet.authors().count)
                }
            }

            /// Observers in other processes are notified of each commit soon, as one that may have changed anything, with the author's name. A
            /// transaction that is rolled back is not reported (rule I4).
            @Test(.timeLimit(.minutes(1)))
            func observersAreNotified() throws {
                try PeerFleet.runTimed { fleet, trial in
                    let observer = try fleet.spawnObserver("observer", asSequence: true)
                    let program = try fleet.spawnPython("python")
                    var delays: [Double] = []
                    for row in 1...50 {
                        #expect(try program.call("rollback") == "rolled back")
                        let requested = MonotonicClock.now
                        #expect(try program.call("write") == "written")
                        let receivedAt = try observer.waitForValue(row)
                        try observer.waitForChange(row)
                        delays.append(Double(receivedAt.subtractingSaturating(requested)) / 1e6)
                    }
                    let changes = try observer.changes
                    #expect(changes.count == 50)
                    for change in changes {
                        #expect(change.author == "python" && change.pid == program.process.pid, "\(change)")
                        #expect(change.detail == "commit" && change.tables == ["*"], "\(change)")
                    }
                    delays.sort()
                    print("Python's commit to a fresh value: median \(delays[25]), longest \(delays[49]) ms")
                    // Without a record, the watch of the WAL reports a commit after 10 ms (rule N3).
                    trial.expect("median delay", delays[25], atMost: 8)
                }
            }

            /// It is a participant by its name from its first write on, and none any more when it has closed (rule I2).
            @Test(.timeLimit(.minutes(1)))
            func isNamed() throws {
                try PeerFleet.run { fleet in
                    _ = try fleet.spawnOpen("app")
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("describe").hasPrefix("no turns yet: python joins with its first write"))
                    #expect(try program.call("write") == "written")
                    #expect(try program.call("describe") == "takes turns as 'python'")
                    let status = try DatabaseStatus(ofDatabaseAt: fleet.database).description
                    #expect(status.contains("python") && status.contains("\(program.process.pid)"), "\(status)")
                    // A child that closes what it has inherited leaves its parent's place alone (rule P13).
                    #expect(try program.call("fork") == "forked")
                    #expect(try fleet.participants().map(\.author).sorted() == ["app", "python"])
                    #expect(try program.call("close") == "closed")
                    #expect(try fleet.participants().map(\.author) == ["app"])
                }
            }

            /// A child of fork can write neither by its parent's connection nor by one of its own: SQLite would take its parent's locks for
            /// its own, and lose what it writes (rule I6).
            @Test(.timeLimit(.minutes(1)))
            func aChildOfForkIsRefused() throws {
                try PeerFleet.run { fleet in
                    _ = try fleet.spawnOpen("app")
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("write") == "written")
                    let refusal = "bad parameter or other API misuse"
                    #expect(try program.call("fork-and-write") == "\(refusal), \(refusal)")
                    // The parent continues.
                    #expect(try program.call("write") == "written")
                    #expect(try program.call("close") == "closed")
                    let ledger = try Ledger(of: fleet.database)
                    program.expectEverything(in: ledger)
                    #expect(ledger.entries["child"] == nil)
                }
            }

            /// SQLite's default, FULL, would sync each commit within the turn. A host that sets it itself gets it (rule I7).
            @Test(.long(), .timeLimit(.minutes(1)), .enabled(if: SlowSync.compiler != nil, "there is no C compiler"))
            func commitsAreNotSynced() throws {
                try PeerFleet.run { fleet in
                    _ = try fleet.spawnOpen("app")
                    let environment = try SlowSync.environment(fleet, milliseconds: 3000)
                    let program = try fleet.spawnPython("python", environment: environment)
                    // This one may begin a WAL, whose header is synced.
                    #expect(try program.call("write") == "written")
                    #expect(try #require(Double(program.call("timed 5"))) < 3)
                    #expect(try program.call("synchronous FULL") == "set")
                    #expect(try #require(Double(program.call("timed 1"))) >= 3)
                    #expect(try program.call("close") == "closed")
                    program.expectEverything(in: try Ledger(of: fleet.database))
                }
            }

            /// A database without a control block stays as it is, unless the URI asks for turns (rule I2).
            @Test(.timeLimit(.minutes(1)))
            func strangeDatabaseStaysUntouched() throws {
                try PeerFleet.run { fleet in
                    let peer = try fleet.spawnOpen("app")
                    try peer.call(.close)
                    try FileManager.default.removeItem(at: fleet.controlBlock)
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("write") == "written")
                    #expect(!FileManager.default.fileExists(atPath: fleet.controlBlock.path))
                    let asking = try fleet.spawnPython("asking", parameters: "&roundtable=1")
                    #expect(try asking.call("write") == "written")
                    #expect(try fleet.participants().map(\.author) == ["asking"])
                    // The first one follows soon, without being opened again.
                    try eventually("Python joins") {
                        #expect(try program.call("write") == "written")
                        return try fleet.participants().count == 2
                    }
                    let ledger = try Ledger(of: fleet.database)
                    program.expectEverything(in: ledger)
                    asking.expectEverything(in: ledger)
                }
            }

            /// A transaction that has read before it writes cannot wait, so SQLite decides although the turn is another's (rule I3a).
            @Test(.timeLimit(.minutes(1)))
            func upgradeIsNotRefused() throws {
                try PeerFleet.run { fleet in
                    let holder = try fleet.spawnOpen("holder")
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("write") == "written")
                    #expect(try program.call("timeout 0") == "set")
                    try holder.call(.holdTurn)
                    #expect(try program.call("upgrade") == "written")
                    try holder.call(.release(commit: true))
                    program.expectEverything(in: try Ledger(of: fleet.database))
                }
            }

            /// A connection without a busy timeout does not wait. It is refused while the turn is another's, but not for longer than
            /// patience by a holder that is frozen without SQLite's lock (rule I3a).
            @Test(.timeLimit(.minutes(1)))
            func withoutTimeout() throws {
                try PeerFleet.runTimed { fleet, trial in
                    let holder = try fleet.spawnOpen("holder")
                    let program = try fleet.spawnPython("python")
                    #expect(try program.call("write") == "written")
                    #expect(try program.call("timeout 0") == "set")
                    try holder.call(.holdTurn)
                    try holder.process.stop()
                    let began = ContinuousClock.now
                    #expect(try program.call("write") == "busy")
                    try eventually("Python writes") { try program.call("write") == "written" }
                    let delay = (ContinuousClock.now - began) / .milliseconds(1)
                    trial.expect("refused by a frozen holder", delay, atMost: 250)
                    holder.process.resume()
                    try holder.call(.release(commit: true))
                    program.expectEverything(in: try Ledger(of: fleet.database))
                }
            }

            /// A program that does not wait, and that a stranger's lock has refused, leaves the turn to the others at once (rules I3, I3b).
            ///
            ///     stranger          Python                       other
            ///     BEGIN IMMEDIATE
            ///                       takes the turn, and is refused
            ///                       by the stranger's lock
            ///     COMMIT
            ///                                                    writes without a wait
            @Test(.timeLimit(.minutes(1)))
            func refusedByAStranger() throws {
                try PeerFleet.run { fleet in
                    try fleet.spawnOpen("app").call(.close)
                    let stranger = try fleet.spawnPython("stranger", loads: false)
                    let programs = try ["python", "other"].map { try fleet.spawnPython($0) }
                    for program in programs {
                        #expect(try program.call("write") == "written")
                        #expect(try program.call("timeout 0") == "set")
                    }
                    #expect(try stranger.call("hold") == "held")
                    #expect(try programs[0].call("write") == "busy")
                    #expect(try fleet.participants().map(\.author).sorted() == ["other", "python"])
                    #expect(try !fleet.participants().contains(where: \.hasTurn))
                    #expect(try stranger.call("release") == "released")
                    #expect(try programs[1].call("write") == "written")
                    let ledger = try Ledger(of: fleet.database)
                    for program in programs + [stranger] { program.expectEverything(in: ledger) }
                }
            }

            /// SQLite's shell loads it, too, and shares turns by the name of its program.
            @Test(
                .timeLimit(.minutes(1)),
                .enabled(
                    if: FileManager.default.isExecutableFile(atPath: "/usr/bin/sqlite3"),
                    "/usr/bin/sqlite3 is not installed"
                )
            )
            func shell() throws {
                try PeerFleet.run { fleet in
                    let peers = try fleet.spawnOpen(2)
                    let shell = ProgramSession(
                        try fleet.spawn(program: URL(fileURLWithPath: "/usr/bin/sqlite3"), arguments: [":memory:"])
                    )
                    try shell.send(".load \(fleet.loadable().path)")
                    try shell.send(".open \(fleet.database.path)")
                    try shell.send(".timeout 20000")
                    for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                    try fleet.waitForProgress(of: peers)
                    for row in 1...50 {
                        try shell.send("INSERT INTO entry (author, n, part) VALUES ('shell', \(row), 0);")
                    }
                    try shell.send("PRAGMA roundtable;")
                    #expect(try shell.receive() == "takes turns as 'sqlite3'")
                    let record = try fleet.participants().first { $0.author == "sqlite3" }
                    #expect(record?.pid == shell.process.pid)
                    for peer in peers { try peer.stopLoop().expectNoErrors(peer) }
                    let ledger = try Ledger(of: fleet.database)
                    ledger.expectEverything(acknowledgedBy: peers)
                    #expect(ledger.entries["shell"] == 50)
                }
            }
        }
    }
#endif
