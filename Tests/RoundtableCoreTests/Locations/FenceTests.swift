import Foundation
import GRDB
import GRDBSQLite
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A database that another machine has replaced as the writer (rule D6 of `docs/PROTOCOL-FILES.md`).
@Suite struct FenceTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var url: URL { folder.file("players.sqlite") }

    private func open(_ author: String = "app") throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author)
    }

    private func mark() throws { try Data("damaged".utf8).write(to: URL(fileURLWithPath: url.path + Fence.suffix)) }

    private func isRefusal(_ error: any Error) -> Bool {
        (error as? DatabaseError)?.resultCode == .SQLITE_READONLY && "\(error)".contains("is fenced")
    }

    private func expectRefusal(_ body: () throws -> Void) {
        do {
            try body()
            Issue.record("it was written")
        } catch {
            #expect(isRefusal(error), "\(error)")
        }
    }

    @Test func everyWayToWriteIsRefused() async throws {
        let database = try open()
        try await database.write { db in _ = try Player(name: "before").inserted(db) }
        var connection: OpaquePointer?
        #expect(sqlite3_open_v2(url.path, &connection, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK)
        defer { sqlite3_close(connection) }
        let handle = try SharedDatabase.RawHandle(attachedTo: try #require(connection), of: database)
        defer { try? handle.detach() }
        try mark()
        database.announceFence()
        expectRefusal { try database.write { db in _ = try Player(name: "after").inserted(db) } }
        expectRefusal {
            try database.writeWithoutTransaction { db in _ = try Player(name: "after").inserted(db) }
        }
        expectRefusal {
            try database.writeWithoutTransaction { db in
                try db.inTransaction {
                    _ = try Player(name: "after").inserted(db)
                    return .commit
                }
            }
        }
        expectRefusal { try handle.withTurn {} }
        await #expect {
            try await database.write { db in _ = try Player(name: "after").inserted(db) }
        } throws: {
            isRefusal($0)
        }
        // Many writes wait at once, and share a commit.
        let failures = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<20 {
                group.addTask {
                    do {
                        try await database.write { db in _ = try Player(name: "\(number)").inserted(db) }
                        return false
                    } catch {
                        return isRefusal(error)
                    }
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(failures == 20)
        #expect(try await database.read { db in try Player.fetchAll(db) }.map(\.name) == ["before"])
        let names = ValueObservation.tracking { db in try String.fetchAll(db, sql: "SELECT name FROM player") }
        for try await value in names.values(in: database) {
            #expect(value == ["before"])
            break
        }
    }

    /// Without a control block nobody can be told, so each write looks for the mark.
    @Test func aWriterWithoutControlBlock() throws {
        try FileManager.default.createDirectory(
            atPath: ControlBlock.path(forDatabaseAt: url.path),
            withIntermediateDirectories: true
        )
        let database = try open()
        #expect(database.uncoordinatedReason != nil)
        try database.write { db in _ = try Player(name: "before").inserted(db) }
        try mark()
        expectRefusal { try database.write { db in _ = try Player(name: "after").inserted(db) } }
        #expect(try database.read { db in try Player.fetchAll(db) }.map(\.name) == ["before"])
    }

    @Test func openingForWritingIsRefused() throws {
        try (open() as SharedDatabase).close()
        try mark()
        expectRefusal { _ = try open() }
        let answer = try SharedDatabase.openReadOnly(at: url, schema: SharedSchema(migrator()), as: "reader")
        guard case .available = answer else {
            Issue.record("\(answer)")
            return
        }
        let fence = try #require(FenceStatus(ofDatabaseAt: url))
        #expect(fence.lines.what.contains("another machine is its writer"), "what cannot be read still counts")
    }

    /// The word in the control block is advice: without a mark, it refuses nothing.
    @Test func theWordAloneRefusesNothing() throws {
        let database = try open()
        database.announceFence()
        try database.write { db in _ = try Player(name: "A").inserted(db) }
        try mark()
        expectRefusal { try database.write { db in _ = try Player(name: "B").inserted(db) } }
        try FileManager.default.removeItem(atPath: url.path + Fence.suffix)
        try database.write { db in _ = try Player(name: "C").inserted(db) }
    }

    /// A transaction that has begun before the mark is not committed after it.
    @Test func aTransactionThatRunsIsNotCommitted() throws {
        let database = try open()
        expectRefusal {
            try database.write { db in
                _ = try Player(name: "A").inserted(db)
                try mark()
                database.announceFence()
            }
        }
        #expect(try database.read { db in try Player.fetchCount(db) } == 0)
    }
}
