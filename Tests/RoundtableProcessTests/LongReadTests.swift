import Foundation
import GRDB
import Roundtable
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// One moment over many calls, and what lies between two (rules O1–O4).
    @Suite struct LongReads {
        private static let python = URL(fileURLWithPath: "/usr/bin/python3")
        private static var hasPython: Bool { FileManager.default.isExecutableFile(atPath: python.path) }

        private struct Transaction: Equatable {
            var author: String
            var tables: Set<String>
        }

        private func makeLedger(_ fleet: PeerFleet) throws -> Peer {
            let peer = try fleet.spawn("founder")
            try peer.call(.open(fleet.opening(peer, schema: PeerSchema(.unmanaged))))
            try peer.call(.execute(sql: LedgerSchema.make))
            return peer
        }

        private func spawnWriter(_ fleet: PeerFleet, _ name: String) throws -> Peer {
            let peer = try fleet.spawn(name)
            try peer.call(.open(fleet.opening(peer, schema: PeerSchema(.unmanaged))))
            return peer
        }

        private func spawnReader(_ fleet: PeerFleet, _ name: String, readOnly: Bool) throws -> Peer {
            guard readOnly else { return try spawnWriter(fleet, name) }
            let peer = try fleet.spawn(name)
            try peer.call(.openReadOnly(fleet.opening(peer, schema: PeerSchema(.unmanaged)), waiting: 0))
            return peer
        }

        private func moment(_ peer: Peer, _ command: SnapshotCommand) throws -> PeerMoment {
            try #require(try peer.call(.snapshot(command)).moments?.first)
        }

        private func commit(_ peer: Peer, _ tables: [String]) throws {
            try peer.call(.execute(sql: LedgerSchema.transaction(author: peer.name, tables: tables)))
        }

        /// A program that knows nothing of Roundtable commits.
        private func commitByStranger(_ fleet: PeerFleet, _ tables: [String]) throws {
            let sql = LedgerSchema.transaction(author: "stranger", tables: tables)
            let script = """
                import sqlite3
                connection = sqlite3.connect("\(fleet.database.path)", timeout=20, isolation_level=None)
                connection.executescript("BEGIN IMMEDIATE; \(sql) COMMIT;")
                """
            let process = try fleet.spawn(program: Self.python, arguments: ["-c", script])
            #expect(try process.waitForExit(within: .seconds(20)) == .status(0), "\(process.errorText)")
        }

        private func ledger(_ fleet: PeerFleet) throws -> [Transaction] {
            let queue = try DatabaseQueue(path: fleet.database.path)
            defer { try? queue.close() }
            return try queue.read { db in
                try Row.fetchAll(db, sql: "SELECT author, tables FROM ledger ORDER BY n").map { row in
                    let tables: String = row["tables"]
                    return Transaction(
                        author: row["author"],
                        tables: Set(tables.split(separator: ",").map(String.init)).union(["ledger"])
                    )
                }
            }
        }

        private func oldestRead(_ fleet: PeerFleet, _ peer: Peer) throws -> ParticipantStatus.Read? {
            try DatabaseStatus(ofDatabaseAt: fleet.database).participants.first { $0.pid == peer.pid }?
                .oldestRead
        }

        /// Each transaction of another participant, and of its own, is reported as it was made; a stranger's, in its place, as anything.
        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: hasPython, "/usr/bin/python3 is not installed"),
            arguments: [false, true]
        )
        func advanceReportsEachTransaction(readOnly: Bool) throws {
            try PeerFleet.run { fleet in
                let founder = try makeLedger(fleet)
                let (a, b) = (try spawnWriter(fleet, "a"), try spawnWriter(fleet, "b"))
                let reader = try spawnReader(fleet, "reader", readOnly: readOnly)
                #expect(try moment(reader, .make).count == 0)
                try commit(a, ["t0"])
                try commit(b, ["t1", "t2"])
                #expect(try moment(reader, .look).count == 0)
                try commitByStranger(fleet, ["t3"])
                try commit(a, ["t4"])
                if !readOnly { try commit(reader, ["t5"]) }
                #expect(try moment(reader, .look).count == 0)
                let there = try moment(reader, .advance)
                #expect(there.count == (readOnly ? 4 : 5))
                #expect(there.changes.map(\.author) == ["a", "b", nil, "a"] + (readOnly ? [] : ["reader"]))
                let tables: [Set<String>?] = [["t0"], ["t1", "t2"], nil, ["t4"]] + (readOnly ? [] : [["t5"]])
                #expect(there.changes.map(\.tables) == tables.map { $0?.union(["ledger"]) })
                #expect(there.changes.map(\.isOwn) == [false, false, false, false] + (readOnly ? [] : [true]))
                #expect(there.changes.map(\.pid).prefix(2) == [a.pid, b.pid])
                #expect(try moment(reader, .advance).changes.isEmpty)
                try commit(founder, ["t6"])
                #expect(try moment(reader, .advance).changes.map(\.tables) == [["t6", "ledger"]])
            }
        }

        /// While several processes commit as they like, strangers among them, and one is killed: what each advance reports is
        /// at least what was committed between its two moments, and exactly that if all writers are participants.
        @Test(.long(), .timeLimit(.minutes(2)), .enabled(if: hasPython, "/usr/bin/python3 is not installed"))
        func advanceReportsWhatWasCommitted() throws {
            var random = SeededGenerator()
            let seconds = isLongRun ? 12.0 : 4.0
            try PeerFleet.run { fleet in
                _ = try makeLedger(fleet)
                let writers = try ["a", "b", "c"].map { try spawnWriter(fleet, $0) }
                let victim = try spawnWriter(fleet, "victim")
                let readers = try [false, true, false].enumerated().map {
                    try spawnReader(fleet, "reader \($0.offset)", readOnly: $0.element)
                }
                for reader in readers { _ = try moment(reader, .make) }
                for writer in writers + [victim] {
                    try writer.send(.ledgerLoop(seconds: seconds, pause: 2, seed: random.next()))
                }
                for reader in readers {
                    try reader.send(.snapshot(.follow(seconds: seconds, pause: .random(in: 0...20, using: &random))))
                }
                for _ in 0..<4 { try commitByStranger(fleet, ["t7"]) }
                try victim.process.killAndReap()
                for writer in writers { #expect(try writer.reply(within: .seconds(60)).outcome == .done) }
                let followed = try readers.map { reader in
                    let moments = try #require(try reader.reply(within: .seconds(60)).moments)
                    return moments + [try moment(reader, .advance)]
                }
                let ledger = try ledger(fleet)
                #expect(ledger.count > 100)
                for (reader, moments) in zip(readers, followed) {
                    try compare(moments, with: ledger, reader, context: "seed \(random.seed), \(reader)")
                }
            }
        }

        private func compare(_ moments: [PeerMoment], with ledger: [Transaction], _ reader: Peer, context: String)
            throws
        {
            var place = 0
            var exact = 0
            for moment in moments {
                #expect(moment.last == moment.count, "two moments seen as one; \(context)")
                let made = ledger[place..<moment.last]
                let reported = moment.changes
                #expect(reported.isEmpty == made.isEmpty, "\(reported.count) reported, \(made.count) made; \(context)")
                let names = reported.map(\.tables)
                if !names.contains(nil) {
                    let all = names.reduce(Set<String>()) { $0.union($1 ?? []) }
                    #expect(made.allSatisfy { $0.tables.isSubset(of: all) }, "\(reported), \(made); \(context)")
                }
                let known = reported.compactMap { change in
                    change.tables.map { Transaction(author: change.author ?? "", tables: $0) }
                }
                if known == Array(made) { exact += 1 }
                place = moment.last
            }
            #expect(place == ledger.count, "\(context)")
            // Four commits of strangers, one of the killed, and a moment that could not be distinguished from the next.
            #expect(exact >= moments.count - 8, "\(exact) of \(moments.count) exact; \(context)")
            print("\(reader): \(exact) of \(moments.count) moments reported exactly, \(ledger.count) transactions")
            #expect(moments.count > 20, "\(context)")
        }

        /// The WAL grows while a snapshot stays where it is, and no more once it advances, whatever the role (rule O4).
        @Test(.long(), .timeLimit(.minutes(1)), arguments: [false, true])
        func walIsBoundedByAdvancing(readOnly: Bool) throws {
            try PeerFleet.run(inMemory: true) { fleet in
                _ = try makeLedger(fleet)
                let writers = try ["a", "b"].map { try spawnWriter(fleet, $0) }
                let reader = try spawnReader(fleet, "reader", readOnly: readOnly)
                _ = try moment(reader, .make)
                for (number, writer) in writers.enumerated() {
                    try writer.send(.ledgerLoop(seconds: 60, pause: 0, seed: UInt64(number)))
                }
                try eventually("the WAL has 20,000 frames", within: .seconds(30)) { try frames(fleet) > 20_000 }
                let read = try #require(try oldestRead(fleet, reader))
                #expect(read.isPastLimit && read.heldFrames ?? 0 > 10_000)

                try reader.send(.snapshot(.follow(seconds: 60, pause: 20)))
                try eventually("the WAL is restarted", within: .seconds(20)) { try frames(fleet) < 4000 }
                var most = 0
                let end = ContinuousClock.now + .seconds(3)
                while ContinuousClock.now < end {
                    most = max(most, try frames(fleet))
                    usleep(2000)
                }
                print("readOnly \(readOnly): at most \(most) frames")
                #expect(most < 20_000)
                for peer in writers + [reader] {
                    try peer.send(.stop)
                    #expect(try peer.reply().outcome == .done)
                    _ = try peer.reply()
                }
            }
        }

        private func frames(_ fleet: PeerFleet) throws -> Int {
            try DatabaseStatus(ofDatabaseAt: fleet.database).wal?.committedFrames ?? 0
        }

        /// A process that holds the WAL back is named by the status, and is named no more once it is dead (rules O2, O3).
        @Test(.timeLimit(.minutes(1)))
        func statusNamesTheProcessThatHoldsTheWAL() throws {
            try PeerFleet.run { fleet in
                let founder = try makeLedger(fleet)
                let reader = try spawnReader(fleet, "reader", readOnly: true)
                _ = try moment(reader, .make)
                #expect(try oldestRead(fleet, reader)?.heldFrames == 0)
                for _ in 0..<20 { try commit(founder, ["t0"]) }
                #expect(try #require(oldestRead(fleet, reader)?.heldFrames) >= 20)
                #expect(try oldestRead(fleet, founder) == nil)
                try reader.process.killAndReap()
                #expect(try oldestRead(fleet, reader) == nil)

                let another = try spawnReader(fleet, "another", readOnly: true)
                _ = try moment(another, .make)
                #expect(try oldestRead(fleet, another) != nil)
                try another.call(.snapshot(.close))
                #expect(try oldestRead(fleet, another) == nil)
            }
        }
    }
}
