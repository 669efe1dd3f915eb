import Foundation
import GRDB
import Roundtable
import RoundtableTestKit
import Synchronization
import Testing

/// Each invariant is found broken when it is.
@Suite struct InvariantsTests {
    private static let count = AggregateTable(
        "count_by_kind",
        version: 1,
        of: "item",
        groupedBy: [.init("kind")],
        values: []
    )

    private static func open(_ folder: TemporaryFolder, _ author: String = "writer") throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE parent (id INTEGER PRIMARY KEY);
                    CREATE TABLE item (id INTEGER PRIMARY KEY, kind TEXT, parent INTEGER REFERENCES parent);
                    CREATE INDEX item_kind ON item (kind);
                    """
            )
        }
        let schema = SharedSchema(migrator, derivedTables: DerivedTableSet(revision: 1, [count]))
        return try SharedDatabase.open(at: folder.url.appendingPathComponent("a.sqlite"), schema: schema, as: author)
    }

    private static func insert(_ db: SharedDatabase, _ kind: String) throws {
        try db.write { try $0.execute(sql: "INSERT INTO item (kind) VALUES (?)", arguments: [kind]) }
    }

    @Test func aMissingRowOfADerivedTable() throws {
        let folder = try TemporaryFolder()
        let db = try Self.open(folder)
        try Self.insert(db, "a")
        #expect(try db.read { try Invariants.derivedTables([Self.count], of: $0) } == [])
        try db.write { try $0.execute(sql: "DELETE FROM \(Self.count.tableName)") }
        #expect(try db.read { try Invariants.derivedTables([Self.count], of: $0) } != [])
        try db.close()
    }

    @Test func aBrokenIndexAndABrokenReference() throws {
        let queue = try DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA foreign_keys = OFF;
                    CREATE TABLE parent (id INTEGER PRIMARY KEY);
                    CREATE TABLE item (id INTEGER PRIMARY KEY, kind TEXT, parent INTEGER REFERENCES parent);
                    CREATE INDEX item_kind ON item (kind);
                    INSERT INTO item VALUES (1, 'a', NULL);
                    """
            )
            #expect(try Invariants.integrity(of: db) == [])
            try db.execute(sql: "INSERT INTO item VALUES (2, 'b', 7)")
            #expect(
                try Invariants.integrity(of: db).contains { $0.contains("foreign_key_check: a row of item refers") }
            )
            // The index gets the definition of another one, so its content is wrong.
            try db.execute(
                sql: """
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_master SET sql = 'CREATE INDEX item_kind ON item (parent)' WHERE name = 'item_kind';
                    PRAGMA writable_schema = RESET;
                    """
            )
            #expect(try Invariants.integrity(of: db).contains { $0.hasPrefix("integrity_check: ") })
        }
    }

    @Test func aCommitThatWasNotReported() async throws {
        let folder = try TemporaryFolder()
        let (one, other) = (try Self.open(folder, "one"), try Self.open(folder, "other"))
        try await one.history.enable(for: "item")
        let token = try await one.history.currentToken()
        let log = Mutex<[DatabaseChange]>([])
        let observation = try one.observeChanges(in: Table("item"), on: DispatchQueue(label: "log")) { change in
            log.withLock { $0.append(change) }
        }
        for round in 0..<20 {
            let writer = round % 3 == 0 ? other : one
            try await writer.write { try $0.execute(sql: "INSERT INTO item (kind) VALUES ('a')") }
        }
        try await eventually("all commits are reported") { log.withLock { $0.count } == 20 }
        observation.cancel()
        let reported = log.withLock { $0 }
        let history = try await one.history.changes(since: token).changes
        #expect(history.count == 20)
        #expect(Invariants.changes(reported, matching: history) == [])
        for index in reported.indices {
            var fewer = reported
            fewer.remove(at: index)
            #expect(!Invariants.changes(fewer, matching: history).isEmpty)
        }
        #expect(Invariants.changes(reported + [reported[0]], matching: history).count == 1)
        var swapped = reported
        swapped.swapAt(0, 1)
        #expect(!Invariants.changes(swapped, matching: history).isEmpty)
        try one.close()
        try other.close()
    }
}
