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
    @Suite struct Opening {
        private static let processes = 64
        private static let rounds = 20
        private static let schema = PeerSchema(migrations: 4, migrationMilliseconds: 3)

        /// Any number of processes may create a database at once: all of them open it, and each migration is applied once
        /// (rules S1–S5, B1).
        @Test(.long(), .timeLimit(.minutes(10)))
        func manyProcessesCreateAtOnce() throws {
            try inEachRound { fleet, round, peers in
                let url = fleet.database
                for peer in peers { try peer.send(.open(fleet.opening(peer, at: url, schema: Self.schema))) }
                for peer in peers {
                    let reply = try peer.reply(within: .seconds(60))
                    #expect(reply.outcome == .done, "round \(round), \(peer): \(reply.message ?? "")")
                }
                for peer in peers { try peer.call(.close) }
                try expectEachMigrationOnce(url)
            }
        }

        /// The process that creates and migrates is killed at a random moment: the next one continues from
        /// there (rules S4, S5, T8, P4).
        @Test(.long(), .timeLimit(.minutes(10)))
        func migratingProcessIsKilled() throws {
            var random = SeededGenerator()
            var kills = 0
            var midway = 0
            try inEachRound { fleet, round, peers in
                let url = fleet.database
                // However long it takes to ask 64 processes, and to look at them, none has migrated when one is found.
                let gate = fleet.folder.appendingPathComponent("gate")
                let schema = PeerSchema(migrations: 4, migrationMilliseconds: 20, gate: gate.path)
                for peer in peers { try peer.send(.open(fleet.opening(peer, at: url, schema: schema))) }
                var migrating: Int32?
                try eventually("a process sets the database up") {
                    let participants = (try? fleet.participants()) ?? []
                    migrating = participants.first { $0.hasTurn && $0.state == .settingUp }?.pid
                    return migrating != nil
                }
                try Data().write(to: gate)
                usleep(.random(in: 0...90_000, using: &random))
                let victim = try #require(peers.first { $0.pid == migrating })
                try victim.process.killAndReap()
                kills += 1
                let living = peers.filter { $0.pid != victim.pid }
                for peer in living {
                    let reply = try peer.reply(within: .seconds(60))
                    #expect(reply.outcome == .done, "round \(round), \(peer): \(reply.message ?? "")")
                }
                for peer in living { try peer.call(.close) }
                let migrators = try expectEachMigrationOnce(url)
                if migrators.contains(where: { $0 != victim.pid }) { midway += 1 }
            }
            print("killed \(kills) migrating processes, \(midway) of them before their last migration")
            #expect(midway > 0, "no process was killed while migrating")
        }

        /// Each round has new processes and a new path.
        private func inEachRound(_ body: (PeerFleet, Int, [Peer]) throws -> Void) throws {
            for round in 1...(isLongRun ? 5 * Self.rounds : Self.rounds) {
                try PeerFleet.run { fleet in try body(fleet, round, try fleet.spawn(Self.processes)) }
            }
        }

        /// - returns: the pids of those that migrated.
        @discardableResult
        private func expectEachMigrationOnce(_ url: URL) throws -> [Int32] {
            let ledger = try Ledger(of: url)
            #expect(ledger.integrity == "ok")
            #expect(ledger.migrations == (1...Self.schema.migrations).map { "v\($0)" })
            let queue = try DatabaseQueue(path: url.path)
            defer { try? queue.close() }
            #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
            return try queue.read { try Int32.fetchAll($0, sql: "SELECT pid FROM migrationLog ORDER BY rowid") }
        }

        /// A database in rollback-journal mode is read as it is by a read-only process, which leaves it as it is, and is
        /// switched to WAL by a read-write one (rules S2, S7).
        @Test(.timeLimit(.minutes(1)))
        func rollbackJournal() throws {
            try PeerFleet.run { fleet in
                try makeDatabase(at: fleet.database, PeerSchema())
                let before = try FolderContents(of: fleet.databaseFolder)

                let reader = try fleet.spawn("reader")
                try reader.call(.openReadOnly(fleet.opening(reader), waiting: 0))
                #expect(try reader.call(.count).number == 1)
                try reader.call(.close)
                let after = try FolderContents(of: fleet.databaseFolder)
                #expect(after.differences(from: before) == [])

                let writer = try fleet.spawnOpen("writer")
                try writer.call(.write(rows: 1))
                #expect(try writer.call(.count).number == 2)
                // A process that has it open continues, too.
                try reader.call(.openReadOnly(fleet.opening(reader), waiting: 0))
                #expect(try reader.call(.count).number == 2)
                try writer.call(.close)
                let queue = try DatabaseQueue(path: fleet.database.path)
                #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
                try queue.close()
            }
        }

        /// Several processes switch a database from rollback-journal mode at once: none fails (rule S2).
        @Test(.timeLimit(.minutes(1)))
        func rollbackJournalSwitchedByMany() throws {
            try PeerFleet.run { fleet in
                let peers = try fleet.spawn(8)
                for round in 1...5 {
                    let url = fleet.database(named: "journal-\(round).sqlite")
                    try makeDatabase(at: url, PeerSchema())
                    for peer in peers { try peer.send(.open(fleet.opening(peer, at: url))) }
                    for peer in peers {
                        let reply = try peer.reply()
                        #expect(reply.outcome == .done, "round \(round), \(peer): \(reply.message ?? "")")
                    }
                    for peer in peers { try peer.call(.close) }
                }
            }
        }

        /// A read-only process that waits sees the database appear, whole; one that does not wait gets the error that there is
        /// none, and creates nothing (rule S7).
        @Test(.timeLimit(.minutes(1)))
        func readOnlyWaits() throws {
            try PeerFleet.run { fleet in
                let impatient = try fleet.spawn("impatient")
                let answer = try impatient.attempt(.openReadOnly(fleet.opening(impatient), waiting: 0))
                #expect(answer.outcome == .unavailable)
                #expect(answer.message == "notCreated")
                #expect(try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path) == [])

                let schema = PeerSchema(migrations: 5, migrationMilliseconds: 20)
                let waiting = try fleet.spawn("waiting")
                try waiting.send(.openReadOnly(fleet.opening(waiting, schema: schema), waiting: 10_000))
                let writer = try fleet.spawn("writer")
                try writer.call(.open(fleet.opening(writer, schema: schema)))
                #expect(try waiting.reply().outcome == .done)
                #expect(try waiting.call(.count).number == 0)
                try writer.call(.write(rows: 3))
                #expect(try waiting.call(.count).number == 3)

                let newer = PeerSchema(migrations: 6)
                let older = try impatient.attempt(.openReadOnly(fleet.opening(impatient, schema: newer), waiting: 0))
                #expect(older.message == #"schemaTooOld(missingMigrations: ["v6"])"#)
                let old = try impatient.attempt(.openReadOnly(fleet.opening(impatient), waiting: 0))
                #expect(old.message == #"schemaTooNew(unknownMigrations: ["v2", "v3", "v4", "v5"])"#)
            }
        }
    }
}

/// Makes a database in rollback-journal mode, with one row, in this process.
func makeDatabase(at url: URL, _ schema: PeerSchema) throws {
    let queue = try DatabaseQueue(path: url.path)
    try schema.migrator.migrate(queue)
    try queue.write { try $0.execute(sql: PeerSchema.insertEntry, arguments: ["test", 1, 0]) }
    try queue.close()
}
