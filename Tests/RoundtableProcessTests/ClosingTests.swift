import Foundation
import GRDB
import Roundtable
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
    /// The last participant that closes leaves a small WAL (rule K11): the file is empty, and the database file has all rows.
    @Suite struct Closing {
        private func walSize(_ fleet: PeerFleet) throws -> Int? {
            try System.status(ofFileAt: fleet.database.path + "-wal").map { Int($0.st_size) }
        }

        /// What the database file alone holds: nothing of the WAL is read.
        private func rowsInFile(_ fleet: PeerFleet) throws -> Int {
            var configuration = Configuration()
            configuration.readonly = true
            let queue = try DatabaseQueue(path: "file:\(fleet.database.path)?immutable=1", configuration: configuration)
            defer { try? queue.close() }
            return try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") ?? 0 }
        }

        private func expectAllInFile(
            _ fleet: PeerFleet,
            _ rows: Int,
            _ comment: Comment? = nil,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            #expect(try walSize(fleet) == 0, comment, sourceLocation: sourceLocation)
            #expect(try rowsInFile(fleet) == rows, comment, sourceLocation: sourceLocation)
        }

        @Test(.timeLimit(.minutes(1)))
        func one() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let peer = try fleet.spawnOpen("one")
                try peer.call(.write(rows: 10))
                #expect(try walSize(fleet) ?? 0 > 0)
                try peer.call(.close)
                try expectAllInFile(fleet, 10)
            }
        }

        /// Participants close one after the other, in any order, while the others write.
        @Test(.timeLimit(.minutes(1)))
        func inAnyOrder() throws {
            var random = SeededGenerator()
            for _ in 0..<(isLongRun ? 30 : 5) {
                try PeerFleet.run(inMemory: true) { fleet in
                    let peers = try fleet.spawnOpen(4)
                    for peer in peers { try peer.call(.write(rows: 10)) }
                    var rows = 40
                    var left = peers.shuffled(using: &random)
                    while let peer = left.popLast() {
                        try peer.call(.close)
                        guard !left.isEmpty else { break }
                        for other in left { try other.call(.write(rows: 1)) }
                        rows += left.count
                    }
                    try expectAllInFile(fleet, rows)
                }
            }
        }

        /// Several participants close at the same moment: the last one empties the WAL.
        @Test(.timeLimit(.minutes(2)))
        func atTheSameMoment() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let peers = try fleet.spawn(3)
                var full = 0
                let rounds = isLongRun ? 300 : 30
                for round in 1...rounds {
                    for peer in peers { try peer.call(.open(fleet.opening(peer))) }
                    for peer in peers { try peer.call(.execute(sql: Self.insert(round, peer))) }
                    for peer in peers { try peer.send(.close) }
                    for peer in peers {
                        let reply = try peer.reply()
                        #expect(reply.outcome == .done, "\(reply.message ?? "")")
                    }
                    if try walSize(fleet) != 0 { full += 1 }
                }
                #expect(full == 0, "after \(full) of \(rounds) rounds the WAL was not empty")
                try expectAllInFile(fleet, 3 * rounds)
            }
        }

        private static func insert(_ round: Int, _ peer: Peer) -> String {
            "INSERT INTO entry (author, n, part) VALUES ('\(peer.name)', \(round), 0)"
        }

        /// A stranger that has the database open, and does not read, does not prevent this. It stays connected.
        @Test(.timeLimit(.minutes(1)))
        func besideAStranger() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let peer = try fleet.spawnOpen("one")
                try peer.call(.write(rows: 10))
                let stranger = try DatabaseQueue(path: fleet.database.path)
                defer { try? stranger.close() }
                #expect(try stranger.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } == 10)
                try peer.call(.close)
                #expect(try walSize(fleet) == 0)
                #expect(try stranger.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") } == 10)
            }
        }

        /// The dead do not count.
        @Test(.timeLimit(.minutes(1)))
        func besideTheDead() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let peers = try fleet.spawnOpen(2)
                for peer in peers { try peer.call(.write(rows: 10)) }
                try peers[1].process.killAndReap()
                #expect(try fleet.participants().count { $0.liveness == .dead } == 1)
                try peers[0].call(.close)
                try expectAllInFile(fleet, 20)
            }
        }

        /// Read-only participants do not checkpoint, not even when they are last.
        @Test(.timeLimit(.minutes(1)))
        func readOnlyOnesAreLast() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let writer = try fleet.spawnOpen("writer")
                let reader = try fleet.spawn("reader")
                try writer.call(.write(rows: 10))
                try reader.call(.openReadOnly(fleet.opening(reader), waiting: 0))
                try writer.call(.write(rows: 10))
                try writer.call(.close)
                let size = try walSize(fleet)
                #expect(size ?? 0 > 0, "the writer was not the last one that closed")
                try reader.call(.close)
                #expect(try walSize(fleet) == size)
                // The next participant has everything, and is the last one that closes.
                let next = try fleet.spawnOpen("next")
                #expect(try next.call(.count).number == 20)
                try next.call(.close)
                try expectAllInFile(fleet, 20)
            }
        }

        /// By policy *external*, another program is responsible for the WAL (rule K1).
        @Test(.timeLimit(.minutes(1)))
        func external() throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let peer = try fleet.spawnOpen("one", options: PeerOptions(checkpointing: .external))
                try peer.call(.write(rows: 10))
                let size = try walSize(fleet)
                try peer.call(.close)
                #expect(try walSize(fleet) == size)
            }
        }

        /// The participants that are open beside short-lived writers, and do nothing.
        enum Company: String, CaseIterable {
            case appReaderAndSuspendedApp, reader
        }

        /// **K11a**: each of 100 writers copies what it leaves beside idle participants, and a huge transaction leaves no long file.
        @Test(.long(), .timeLimit(.minutes(5)), arguments: Company.allCases)
        func shortLivedWriters(company: Company) throws {
            try PeerFleet.run(inMemory: true) { fleet in
                let writers = try fleet.spawn(10)
                let open = { (writer: Peer) in try writer.call(.open(fleet.opening(writer))) }
                _ = try open(writers[0])
                try writers[0].call(.execute(sql: "CREATE TABLE blob (a)"))
                try writers[0].call(.execute(sql: Self.insert(blobs: 1100)))
                var idle: [SharedDatabase] = []
                defer { for db in idle { try? db.close() } }
                let schema = PeerSchema().schema
                if company == .appReaderAndSuspendedApp {
                    idle.append(try SharedDatabase.open(at: fleet.database, schema: schema, as: "app"))
                    var options = SharedDatabase.Options()
                    options.process = ProcessSuspension()
                    let suspended = try SharedDatabase.open(
                        at: fleet.database,
                        schema: schema,
                        as: "suspended",
                        options: options
                    )
                    #expect(suspended.suspend(deadline: .now + .seconds(10)).isReleased)
                    idle.append(suspended)
                }
                let answer = try SharedDatabase.openReadOnly(at: fleet.database, schema: schema, as: "reader")
                guard case .available(let reader) = answer else { throw TestKitError("\(answer)") }
                idle.append(reader)
                try writers[0].call(.close)

                var longest = Duration.zero
                for round in 0..<100 {
                    let writer = writers[round % writers.count]
                    _ = try open(writer)
                    try writer.call(.execute(sql: "UPDATE blob SET a = randomblob(4000)"))
                    longest = max(longest, try ContinuousClock().measure { _ = try writer.call(.close) })
                    let wal = try reader.walHealth()
                    #expect(wal.committedFrames - wal.backfilledFrames < 1000, "after round \(round): \(wal)")
                }
                print("the longest of 100 closes beside \(company): \(longest)")
                _ = try open(writers[0])
                try writers[0].call(.execute(sql: Self.insert(blobs: 10_000)))
                try writers[0].call(.close)
                let size = try #require(try walSize(fleet))
                #expect(size <= 32 + 4000 * 4120)
                let findings = try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings
                #expect(!findings.contains { [.notCheckpointed, .longWAL].contains($0.topic) }, "\(findings)")
            }
        }

        private static func insert(blobs: Int) -> String {
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(blobs))
            INSERT INTO blob SELECT randomblob(4000) FROM n
            """
        }
    }
}
