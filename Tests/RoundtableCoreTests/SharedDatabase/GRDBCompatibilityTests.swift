import Dispatch
import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Synchronization
import Testing

/// Code that was written for GRDB, unchanged: its static type is `some DatabaseWriter`, and it runs on a
/// `SharedDatabase` as on a `DatabasePool`.
@Suite struct GRDBCompatibilityTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// The peer comes first, so that a wrong expectation shows there.
    private func onPoolAndShared(_ body: (any DatabaseWriter) async throws -> Void) async throws {
        try await body(DatabasePool(path: folder.file("pool.sqlite").path))
        let shared = try await SharedDatabase.open(at: folder.file("shared.sqlite"), schema: .unmanaged, as: "test")
        try await body(shared)
        try shared.close()
    }

    @Test func recordsAndMigrator() async throws {
        func play(_ writer: some DatabaseWriter) throws {
            try migrator().migrate(writer)
            let arthur = try writer.write { db in
                var player = Player(name: "Arthur")
                try player.insert(db)
                return player
            }
            #expect(try writer.read(Player.fetchAll) == [arthur])
            #expect(throws: CancellationError.self) {
                try writer.write { db in
                    _ = try Player.deleteAll(db)
                    throw CancellationError()
                }
            }
            #expect(try writer.read(Player.fetchCount) == 1)
            try migrator(upTo: 2).migrate(writer)
            #expect(try writer.read { try $0.columns(in: "player").map(\.name) }.contains("team"))
        }
        try await onPoolAndShared { try play($0) }
    }

    @Test func asynchronousForms() async throws {
        func play(_ writer: some DatabaseWriter) async throws {
            try migrator().migrate(writer)
            let id = try await writer.write { db in
                var player = Player(name: "Barbara")
                try player.insert(db)
                return player.id
            }
            #expect(try await writer.read { try Player.fetchOne($0, key: id)?.name } == "Barbara")
            #expect(try await writer.unsafeRead { try Player.fetchCount($0) } == 1)
            try await writer.barrierWriteWithoutTransaction { _ = try Player.deleteAll($0) }
            #expect(try await writer.read { try Player.fetchCount($0) } == 0)

            let written = await withCheckedContinuation { continuation in
                writer.asyncWrite {
                    try $0.execute(sql: "INSERT INTO player (name) VALUES ('C')")
                } completion: {
                    continuation.resume(returning: ($0.isInsideTransaction, (try? $1.get()) != nil))
                }
            }
            #expect(written == (false, true))
            let count = await withCheckedContinuation { continuation in
                writer.asyncRead { result in
                    continuation.resume(returning: try? Player.fetchCount(result.get()))
                }
            }
            #expect(count == 1)
        }
        try await onPoolAndShared { try await play($0) }
    }

    @Test func valueObservation() async throws {
        func play(_ writer: some DatabaseWriter) async throws {
            try migrator().migrate(writer)
            let counts = ValueObservation.tracking(Player.fetchCount).removeDuplicates().values(in: writer)
            var iterator = counts.makeAsyncIterator()
            #expect(try await iterator.next() == 0)
            try await writer.write { db in _ = try Player(name: "A").inserted(db) }
            #expect(try await iterator.next() == 1)
        }
        try await onPoolAndShared { try await play($0) }
    }

    @Test func transactionObserverAndRegionObservation() async throws {
        func play(_ writer: some DatabaseWriter) throws {
            try migrator().migrate(writer)
            let changes = Mutex(0)
            let cancellable = DatabaseRegionObservation(tracking: Player.all()).start(in: writer) { error in
                Issue.record(error)
            } onChange: { _ in
                changes.withLock { $0 += 1 }
            }
            try writer.write { db in _ = try Player(name: "A").inserted(db) }
            try writer.writeWithoutTransaction { db in _ = try Player(name: "B").inserted(db) }
            #expect(changes.withLock { $0 } == 2)
            cancellable.cancel()
        }
        try await onPoolAndShared { try play($0) }
    }

    /// A read that starts in a write, right after a commit, sees that commit and nothing later.
    @Test func spawnConcurrentRead() async throws {
        func play(_ writer: some DatabaseWriter) async throws {
            try migrator().migrate(writer)
            let seen = await withCheckedContinuation { continuation in
                writer.asyncWriteWithoutTransaction { db in
                    do {
                        try db.execute(sql: "INSERT INTO player (name) VALUES ('A')")
                        writer.spawnConcurrentRead { result in
                            continuation.resume(returning: try? Player.fetchCount(result.get()))
                        }
                        try db.execute(sql: "INSERT INTO player (name) VALUES ('B')")
                    } catch {
                        Issue.record(error)
                    }
                }
            }
            #expect(seen == 1)
        }
        try await onPoolAndShared { try await play($0) }
    }

    @Test func reentrantAccesses() async throws {
        func play(_ writer: some DatabaseWriter) throws {
            try migrator().migrate(writer)
            try writer.unsafeReentrantWrite { db in
                _ = try Player(name: "A").inserted(db)
                try writer.unsafeReentrantWrite { db in _ = try Player(name: "B").inserted(db) }
                #expect(try writer.unsafeReentrantRead(Player.fetchCount) == 2)
                // A read inside a write uses another connection, and sees what is committed.
                #expect(try writer.read(Player.fetchCount) == 2)
            }
            try writer.read { db in
                let count = try writer.unsafeReentrantRead(Player.fetchCount)
                #expect(count == 2)
                _ = try writer.write { try Player(name: "C").inserted($0) }
                #expect(try Player.fetchCount(db) == 2, "a read keeps its snapshot")
            }
        }
        try await onPoolAndShared { try play($0) }
    }

    @Test func backupVacuumEraseInterrupt() async throws {
        func play(_ writer: some DatabaseWriter) throws {
            try migrator().migrate(writer)
            try writer.write { db in _ = try Player(name: "A").inserted(db) }
            let copy = try DatabaseQueue()
            try writer.backup(to: copy)
            #expect(try copy.read(Player.fetchCount) == 1)
            try writer.vacuum()
            writer.interrupt()
            try writer.erase()
            #expect(try writer.read { try $0.tableExists("player") } == false)
        }
        try await onPoolAndShared { try play($0) }
    }

    /// `Database.transactionDate` of a read is the date of this read, not of an earlier one on the same connection.
    @Test func transactionDates() throws {
        let db = try SharedDatabase.open(at: folder.file("dates.sqlite"), schema: SharedSchema(migrator()), as: "test")
        let dates = try (0..<2).map { _ in
            try db.read { db in
                _ = try Player.fetchCount(db)
                return try db.transactionDate
            }
        }
        #expect(dates[0] < dates[1])
        // This asks for it before the first statement of the read.
        let third = try db.read { try $0.transactionDate }
        #expect(dates[1] < third)
    }

    @Test func configurationReachesAllConnections() throws {
        var options = SharedDatabase.Options()
        options.configuration.label = "players"
        options.configuration.prepareDatabase { db in
            db.add(function: DatabaseFunction("answer", argumentCount: 0, pure: true) { _ in 42 })
        }
        options.durability = .machine
        let db = try SharedDatabase.open(
            at: folder.file("a.sqlite"),
            schema: SharedSchema(migrator()),
            as: "test",
            options: options
        )
        #expect(try db.read { try Int.fetchOne($0, sql: "SELECT answer()") } == 42)
        #expect(try db.write { try Int.fetchOne($0, sql: "SELECT answer()") } == 42)
        #expect(try db.write { try Int.fetchOne($0, sql: "PRAGMA synchronous") } == 2)
        #expect(try db.write { try Int.fetchOne($0, sql: "PRAGMA foreign_keys") } == 1)
        #expect(try db.write { $0.description }.hasPrefix("players"))
    }
}
