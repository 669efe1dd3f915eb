import Foundation
import GRDB
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// Commits of programs that do not know us reach observations, in participants of either role (rules R5, N3).
    @Suite struct StrangerObservation {
        private func spawnObservers(_ fleet: PeerFleet) throws -> [Observer] {
            [try fleet.spawnObserver("app"), try fleet.spawnObserver("widget", readOnly: true)]
        }

        /// The `sqlite3` shell on the fleet's database; answers each statement with a line.
        private func spawnShell(_ fleet: PeerFleet) throws -> Stranger {
            let shell = try #require(Program.shell)
            let arguments = ["-batch", "-bail", fleet.database.path]
            let session = ProgramSession(try fleet.spawn(program: shell, arguments: arguments))
            try session.send(".timeout 20000")
            return Stranger(process: session.process) { sql in
                try session.send("\(sql); SELECT 'done';")
                while true {
                    let line = try session.receive()
                    if line == "done" { return }
                }
            }
        }

        /// Python's sqlite3, with the same protocol.
        private func spawnPython(_ fleet: PeerFleet) throws -> Stranger {
            let python = try #require(Program.python)
            let script = """
                import sqlite3, sys
                c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
                for line in sys.stdin:
                    c.execute(line).fetchall()
                    print("done", flush=True)
                """
            let arguments = ["-c", script, fleet.database.path]
            let session = ProgramSession(try fleet.spawn(program: python, arguments: arguments))
            return Stranger(process: session.process) { sql in
                try session.send(sql)
                _ = try session.receive()
            }
        }

        /// A plain GRDB pool, in a process of its own.
        private func spawnPool(_ fleet: PeerFleet) throws -> Stranger {
            let pool = try fleet.spawn("pool")
            try pool.call(.openPool(fleet.opening(pool)))
            return Stranger(process: pool.process) { _ in try pool.call(.write(rows: 1)) }
        }

        private func insert(_ row: Int) -> String {
            "INSERT INTO entry (author, n, part) VALUES ('stranger', \(row), 0)"
        }

        /// The delay from the request to commit until the value is reported: more than the wait that counts. The longest
        /// wait is counted from the commit's return, because a sync of the stranger comes before other processes can see its commit, and
        /// may take as long as the disk likes.
        private func measure(_ name: String, _ spawn: (PeerFleet) throws -> Stranger) throws {
            var random = SeededGenerator()
            try PeerFleet.runTimed { fleet, trial in
                let observers = try spawnObservers(fleet)
                let stranger = try spawn(fleet)
                try stranger.execute(insert(1))
                for observer in observers { try observer.waitForValue(1) }
                var delays = observers.map { _ in [Double]() }
                var longest = observers.map { _ in 0.0 }
                var longestCommit = 0.0
                for row in 2...101 {
                    // At any moment of the pause after which files are watched again.
                    usleep(.random(in: 0...25_000, using: &random))
                    let began = MonotonicClock.now
                    try stranger.execute(insert(row))
                    let committed = MonotonicClock.now
                    longestCommit = max(longestCommit, Double(committed - began) / 1e6)
                    for (index, observer) in observers.enumerated() {
                        let receivedAt = try observer.waitForValue(row)
                        delays[index].append(Double(receivedAt - began) / 1e6)
                        // The value may be reported before the stranger's answer has arrived here.
                        longest[index] = max(longest[index], Double(receivedAt) / 1e6 - Double(committed) / 1e6)
                    }
                }
                for (observer, (delays, longest)) in zip(observers, zip(delays, longest)) {
                    let sorted = delays.sorted()
                    let median = percentile(0.5, ofSorted: sorted)
                    print("\(name) → value in '\(observer.peer.name)': p50 \(median) ms, max \(longest) ms")
                    print("\(name): its longest commit took \(longestCommit) ms")
                    // Other programs of the machine affect the tail.
                    trial.expect("95th percentile", percentile(0.95, ofSorted: sorted), atMost: 50)
                    trial.expect("longest", longest, atMost: 200)
                    try observer.waitForChange(101)
                    try observer.expectFinalState(rows: 101)
                    #expect(try observer.changes.allSatisfy { $0.detail == "unrecorded" && $0.tables == ["*"] })
                    #expect(try observer.changes.allSatisfy { $0.author == "" && $0.pid == 0 && !$0.isOwn })
                }
            }
        }

        @Test(.timeLimit(.minutes(1)), .enabled(if: Program.shell != nil, "sqlite3 is not installed")) func shell()
            throws
        { try measure("sqlite3 shell", spawnShell) }
        @Test(.long(), .timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
        func python()
            throws
        { try measure("Python", spawnPython) }
        @Test(.timeLimit(.minutes(1))) func pool() throws { try measure("GRDB pool", spawnPool) }

        /// A sync comes between the last write and the commit; a big transaction writes to the WAL before it commits; a checkpoint
        /// empties the WAL; `VACUUM` writes everything again.
        @Test(.timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
        func whatStrangersDo() throws {
            try PeerFleet.runTimed { fleet, trial in
                let observers = try spawnObservers(fleet)
                let stranger = try spawnPython(fleet)
                var row = 0
                func expectNotification(_ what: Comment, _ rows: Int = 1) throws {
                    row += rows
                    for observer in observers {
                        try observer.expectNotification(row, in: trial)
                        #expect(try observer.values.last?.lastRow == row, what)
                    }
                }
                try stranger.execute("PRAGMA synchronous = FULL")
                for _ in 0..<10 {
                    try stranger.execute(insert(row + 1))
                    try expectNotification("synchronous")
                }
                try stranger.execute("PRAGMA cache_size = 10")
                for rows in [20_000, 5000] {
                    try stranger.execute("BEGIN IMMEDIATE")
                    try stranger.execute(Self.insertMany(rows, after: row))
                    let size = try FileManager.default.attributesOfItem(atPath: fleet.database.path + "-wal")[.size]
                    #expect((size as? Int ?? 0) > 100_000, "it has spilled into the WAL")
                    // The commit is seen, and not reported: it may be rolled back.
                    for observer in observers { #expect(try observer.values.last?.lastRow == row) }
                    try stranger.execute("COMMIT")
                    try expectNotification("spilled", rows)
                }
                try stranger.execute("BEGIN IMMEDIATE")
                try stranger.execute(Self.insertMany(20_000, after: row))
                try stranger.execute("ROLLBACK")
                try stranger.execute(insert(row + 1))
                try expectNotification("after a rollback")
                try stranger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                try stranger.execute(insert(row + 1))
                try expectNotification("after a checkpoint")
                try stranger.execute("PRAGMA wal_checkpoint(RESTART)")
                try stranger.execute(insert(row + 1))
                try expectNotification("after another")
                let before = try observers.map { try $0.changes.count }
                try stranger.execute("VACUUM")
                for (observer, count) in zip(observers, before) {
                    let start = MonotonicClock.now
                    try eventually("\(observer.peer) is notified of VACUUM") { try observer.changes.count > count }
                    trial.expect("VACUUM is reported", Double(MonotonicClock.now - start) / 1e6, atMost: 1000)
                }
                try stranger.execute(insert(row + 1))
                try expectNotification("after VACUUM")
                for observer in observers { try observer.expectFinalState(rows: row) }
            }
        }

        private static func insertMany(_ count: Int, after row: Int) -> String {
            """
            INSERT INTO entry (author, n, part) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c \
            WHERE i < \(count)) SELECT 'stranger', \(row) + i, 0 FROM c
            """
        }

        /// A stranger that is killed inside of a transaction has committed nothing; the next one is reported.
        @Test(.timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
        func strangersThatAreKilled() throws {
            try PeerFleet.runTimed { fleet, trial in
                let observers = try spawnObservers(fleet)
                for row in 1...5 {
                    let victim = try spawnPython(fleet)
                    try victim.execute("PRAGMA cache_size = 10")
                    try victim.execute("BEGIN IMMEDIATE")
                    try victim.execute(Self.insertMany(20_000, after: row))
                    try victim.process.killAndReap()
                    for observer in observers { #expect(try observer.values.last?.lastRow == row - 1) }
                    if row.isMultiple(of: 2) {
                        try observers[0].peer.call(.write(rows: 1))
                    } else {
                        try spawnPython(fleet).execute(insert(row))
                    }
                    for observer in observers { try observer.expectNotification(row, in: trial) }
                }
                for observer in observers { try observer.expectFinalState(rows: 5) }
            }
        }

        /// Programs that know the ring write at the same time as one that does not: nothing is missed, and the final state is right.
        @Test(.timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
        func besideParticipants() throws {
            try PeerFleet.run { fleet in
                let observers = try spawnObservers(fleet)
                let writers = try fleet.spawnOpen(2)
                let stranger = try spawnPython(fleet)
                for writer in writers { try writer.send(.writeLoop(WriteLoad(seconds: 60))) }
                for row in 1...200 { try stranger.execute(insert(row)) }
                for writer in writers { try writer.stopLoop().expectNoErrors(writer) }
                let rows = try fleet.authors().count
                for observer in observers {
                    try observer.expectFinalState(rows: rows)
                    let changes = try observer.changes
                    #expect(
                        changes.contains { $0.detail == "unrecorded" } && changes.contains { $0.detail == "commit" }
                    )
                }
            }
        }
    }
}

/// A program that writes the database, and does not know us.
private struct Stranger {
    let process: ChildProcess
    let execute: (String) throws -> Void

    init(process: ChildProcess, execute: @escaping (String) throws -> Void) {
        self.process = process
        self.execute = execute
    }
}
