import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Synchronization
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// `roundtable follow` with the real Litestream (rules Q).
    @Suite(
        .timeLimit(.minutes(3)),
        .enabled(if: Litestream.path != nil, "litestream is not in PATH: run 'make test-replication'")
    )
    struct ReplicationFollow {
        private struct State: Equatable {
            var rows = 0
            var first = 1
            var last = 0
            /// Rows are numbered without gaps.
            var isWhole: Bool { rows == last - first + 1 }
        }

        private static func state(_ db: Database) throws -> State {
            let row = try Row.fetchOne(db, sql: "SELECT count(*), min(n), max(n) FROM entry")
            return State(rows: row?[0] ?? 0, first: row?[1] ?? 1, last: row?[2] ?? 0)
        }

        /// Waits for the first state.
        private func open(_ fleet: PeerFleet) throws -> SharedDatabase {
            var opened: SharedDatabase?
            try eventually("the first state has come", within: .seconds(60)) {
                let answer = try SharedDatabase.openReplica(at: fleet.followed, schema: .unmanaged, as: "reader")
                if case .available(let database) = answer { opened = database }
                return opened != nil
            }
            return try #require(opened)
        }

        /// **Q6**, **Q7**: two participants see whole states only, each later than the one before, and in the end everything.
        @Test func statesArriveWholeAndInOrder() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let (peer, _) = try fleet.replicateOneRow()
                let follower = try fleet.follow()
                let readers = [try open(fleet), try open(fleet)]
                defer { for reader in readers { try? reader.close() } }
                let seen = Mutex<[[State]]>([[], []])
                let observations = readers.enumerated().map { index, reader in
                    let queue = DispatchQueue(label: "values")
                    return ValueObservation.tracking(Self.state).start(in: reader, scheduling: .async(onQueue: queue)) {
                        Issue.record("\($0)")
                    } onChange: { state in
                        seen.withLock { $0[index].append(state) }
                    }
                }
                let touched = Mutex(0)
                let commits = Task {
                    for try await _ in readers[0].changes(in: .fullDatabase) { touched.withLock { $0 += 1 } }
                }
                try peer.send(.writeLoop(WriteLoad(seconds: 60, think: 4, commits: 1000)))
                _ = try peer.report()
                let end = try Ledger(of: fleet.database).entries.values.reduce(0, +)
                try eventually("all has come", within: .seconds(60)) {
                    seen.withLock { $0.allSatisfy { $0.last?.rows == end } }
                }
                commits.cancel()
                for observation in observations { observation.cancel() }
                for states in seen.withLock({ $0 }) {
                    #expect(states.allSatisfy { $0.isWhole }, "\(states)")
                    #expect(zip(states, states.dropFirst()).allSatisfy { $0.rows <= $1.rows }, "\(states)")
                    #expect(states.count > 5, "states come while the writer writes")
                }
                #expect(touched.withLock { $0 } > 5)
                let status = try #require(ReplicaStatus(ofDatabaseAt: fleet.followed))
                #expect(status.state == .following && status.follower == follower.process.pid)
                follower.process.signal(SIGTERM)
                #expect(try follower.process.waitForExit(within: .seconds(30)) == .status(0))
                let last = try readers[0].read(Self.state)
                #expect(last.rows == end, "the last state remains")
                #expect(ReplicaStatus(ofDatabaseAt: fleet.followed)?.state == .abandoned)
            }
        }

        /// **Q2**.
        @Test func writesAreRefused() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                _ = try fleet.replicateOneRow()
                let follower = try fleet.follow()
                let reader = try open(fleet)
                defer { try? reader.close() }
                func expectRefusal(_ body: () throws -> Void) {
                    do {
                        try body()
                        Issue.record("it was written")
                    } catch let error as DatabaseError {
                        #expect(error.resultCode == .SQLITE_READONLY)
                        #expect(error.message?.contains("is a read replica") == true, "\(error)")
                        #expect(error.message?.contains("Outbox") == true, "\(error)")
                    } catch {
                        Issue.record("\(error)")
                    }
                }
                expectRefusal { try reader.write { db in try db.execute(sql: "DELETE FROM entry") } }
                expectRefusal {
                    _ = try SharedDatabase.open(at: fleet.followed, schema: .unmanaged, as: "writer")
                }
                follower.process.signal(SIGTERM)
                #expect(try follower.process.waitForExit(within: .seconds(30)) == .status(0))
                expectRefusal {
                    _ = try SharedDatabase.open(at: fleet.followed, schema: .unmanaged, as: "writer")
                }
                // What is not a read replica is not opened as one, and not replaced.
                #expect(throws: DatabaseError.self) {
                    _ = try SharedDatabase.openReplica(at: fleet.database, schema: .unmanaged, as: "reader")
                }
                let other = try fleet.follow(to: fleet.database)
                #expect(try other.process.waitForExit(within: .seconds(30)) == .status(1))
                #expect(other.process.errorText.contains("is not a read replica"))
            }
        }

        /// **Q3**, **Q4**: killed at random moments, while states arrive, a follower leaves a whole state; the next one continues.
        @Test func followersAreKilled() throws {
            var random = SeededGenerator()
            try PeerFleet.run(ofOneUser: true) { fleet in
                let (peer, _) = try fleet.replicateOneRow()
                var follower = try fleet.follow()
                let reader = try open(fleet)
                defer { try? reader.close() }
                let second = try fleet.follow()
                #expect(try second.process.waitForExit(within: .seconds(30)) == .status(1))
                #expect(second.process.errorText.contains("(pid \(follower.process.pid)) keeps it already"))

                try peer.send(.writeLoop(WriteLoad(seconds: 60, think: 5)))
                var last = try reader.read(Self.state)
                for _ in 1...5 {
                    try follower.wait(for: .following)
                    usleep(.random(in: 0...600_000, using: &random))
                    try follower.process.killAndReap()
                    #expect(ReplicaStatus(ofDatabaseAt: fleet.followed)?.state == .abandoned)
                    let state = try reader.read(Self.state)
                    #expect(state.isWhole && state.rows >= last.rows)
                    let finding = try DatabaseDiagnosis(ofDatabaseAt: fleet.followed).findings.first {
                        $0.topic == .replica
                    }
                    #expect(finding?.message.contains("gets no new states") == true)
                    last = state
                    follower = try fleet.follow()
                }
                _ = try peer.stopLoop()
                let end = try Ledger(of: fleet.database).entries.values.reduce(0, +)
                try eventually("all has come", within: .seconds(60)) { try reader.read(Self.state).rows == end }
                #expect(try Ledger(of: fleet.followed).integrity == "ok")
            }
        }

        /// How long after its commit a row can be read in the read replica. With ROUNDTABLE_LONG=1, ten times as long.
        @Test(arguments: [10, 100, 1000]) func lag(commitsPerSecond rate: Int) throws {
            let seconds = isLongRun ? 30.0 : 3
            try PeerFleet.run(ofOneUser: true) { fleet in
                let writer = try SharedDatabase.open(at: fleet.database, schema: .unmanaged, as: "app")
                defer { try? writer.close() }
                try writer.write { db in try db.execute(sql: "CREATE TABLE entry (n INTEGER PRIMARY KEY, text)") }
                try fleet.replicate().wait(for: .replicating)
                _ = try fleet.follow()
                let reader = try open(fleet)
                defer { try? reader.close() }
                // The times of the commits of rows 1, 2, …; and of the arrivals of states, with the rows that each has.
                let commits = Mutex<[ContinuousClock.Instant]>([])
                let arrivals = Mutex<[(rows: Int, time: ContinuousClock.Instant)]>([])
                let observation = ValueObservation.tracking {
                    try Int.fetchOne($0, sql: "SELECT count(*) FROM entry") ?? 0
                }
                .start(in: reader, scheduling: .async(onQueue: DispatchQueue(label: "values"))) { error in
                    Issue.record("\(error)")
                } onChange: { rows in
                    arrivals.withLock { $0.append((rows, .now)) }
                }
                let begun = ContinuousClock.now
                for number in 1...Int(Double(rate) * seconds) {
                    let due = begun + .seconds(Double(number) / Double(rate))
                    while ContinuousClock.now < due { usleep(200) }
                    try writer.write { db in
                        try db.execute(sql: "INSERT INTO entry (text) VALUES (hex(randomblob(50)))")
                    }
                    commits.withLock { $0.append(.now) }
                }
                let times = commits.withLock { $0 }
                try eventually("all has come", within: .seconds(60)) {
                    arrivals.withLock { $0.last?.rows == times.count }
                }
                observation.cancel()
                var lags: [Double] = []
                for arrival in arrivals.withLock({ $0 }) where arrival.rows > lags.count {
                    for row in lags.count..<arrival.rows { lags.append((arrival.time - times[row]) / .milliseconds(1)) }
                }
                lags.sort()
                let (half, most) = (percentile(0.5, ofSorted: lags), percentile(0.99, ofSorted: lags))
                print(
                    "lag at \(rate) commits/s: p50 \(Int(half)) ms, p99 \(Int(most)) ms, \(arrivals.withLock { $0.count }) states"
                )
                #expect(lags.count == times.count)
                #expect(most < 10_000)
            }
        }

        /// **Q5**: an upload that is damaged in its middle is applied in part by Litestream, and its parts are never shown.
        @Test func aDamagedUploadIsNotShown() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let (peer, supervisor) = try fleet.replicateOneRow()
                let follower = try fleet.follow()
                let reader = try open(fleet)
                defer { try? reader.close() }
                try follower.wait(for: .following)
                // Litestream uploads in one file what is committed while the follower cannot look.
                let litestream = try #require(ReplicaStatus(ofDatabaseAt: fleet.followed)?.litestream)
                kill(litestream, SIGSTOP)
                let before = try fleet.uploads()
                try peer.send(.writeLoop(WriteLoad(seconds: 60, commits: 400)))
                _ = try peer.report()
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                let new = try #require(try fleet.uploads().subtracting(before).max())
                let whole = try Data(contentsOf: URL(fileURLWithPath: new))
                var damaged = whole
                damaged.replaceSubrange(damaged.count * 2 / 3..<damaged.count * 2 / 3 + 64, with: Data(count: 64))
                try damaged.write(to: URL(fileURLWithPath: new))
                kill(litestream, SIGCONT)
                let status = try follower.wait(for: .failing)
                #expect(status.problem != nil)
                let state = try reader.read(Self.state)
                #expect(state.isWhole, "\(state)")
                #expect(try Ledger(of: fleet.followed).integrity == "ok")
                try whole.write(to: URL(fileURLWithPath: new))
                let end = try Ledger(of: fleet.database).entries.values.reduce(0, +)
                try eventually("all has come", within: .seconds(60)) { try reader.read(Self.state).rows == end }
            }
        }
    }
}

extension PeerFleet {
    /// A writer, whose first row has been uploaded, and its supervisor.
    fileprivate func replicateOneRow() throws -> (Peer, ReplicationProcess) {
        let peer = try spawnOpen("app")
        try peer.call(.write(rows: 1))
        let supervisor = try replicate()
        try supervisor.wait(for: .replicating)
        return (peer, supervisor)
    }

    /// The paths of the files that Litestream has uploaded with each sync.
    fileprivate func uploads() throws -> Set<String> {
        let level = folder.appendingPathComponent("replica/ltx/0")
        return Set(try FileManager.default.contentsOfDirectory(atPath: level.path).map { "\(level.path)/\($0)" })
    }

    var followed: URL { folder.appendingPathComponent("followed.sqlite") }

    func follow(to database: URL? = nil) throws -> FollowProcess {
        FollowProcess(
            try spawn(
                program: try PeerFleet.program(named: "roundtable"),
                arguments: ["follow", replica, (database ?? followed).path, "--interval", "0.1", "--json"]
            )
        )
    }
}

/// A running `roundtable follow`, with the states that it has printed.
final class FollowProcess {
    let process: ChildProcess
    private let session: ProgramSession

    init(_ process: ChildProcess) {
        self.process = process
        session = ProgramSession(process)
    }

    /// The next status of this state. Other states before it are skipped.
    @discardableResult
    func wait(for state: ReplicaStatus.State) throws -> ReplicaStatus {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        while true {
            let text = try session.receive(within: .seconds(60))
            let status = try decoder.decode(ReplicaStatus.self, from: Data(text.utf8))
            if status.state == state { return status }
        }
    }
}
