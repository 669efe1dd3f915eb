import Foundation
import GRDB
import GRDBSQLite
import RoundtableUnitSupport
import Testing

import enum RoundtableTestSupport.DerivedTableWorld

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// Tables and columns that are called like something in our statements; statements that fail; followers of a table that is recreated.
@Suite(.timeLimit(.minutes(1))) struct DerivedTableNameTests {
    private let fixture: DerivedTableFixture
    init() throws { fixture = try DerivedTableFixture() }

    private struct Found: FetchableRecord {
        let id: Int
        init(row: Row) { id = row[0] }
    }

    private func migrator(_ sql: String) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try $0.execute(sql: sql) }
        return migrator
    }

    @Test(arguments: ["taken", "existing", "page", "fields", "texts", "words", "noted", "excluded"])
    func tables(name: String) async throws {
        let (index, view, search) = (
            SecondaryIndex("ix", version: 1, of: name, fields: [.init("value", "v")]),
            MaterializedView("vw", version: 1, of: name, sortedBy: [.ascending("v")]),
            FullTextSearch("se", version: 1, of: name, columns: [.init("txt")])
        )
        let table = name.sqlName
        let db = try fixture.open(
            [index, view, search],
            migrator: migrator(
                """
                CREATE TABLE \(table) (id INTEGER PRIMARY KEY, v INTEGER, code TEXT UNIQUE, txt TEXT);
                WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                INSERT INTO \(table) SELECT i, i, 'c' || i, 'round' FROM n
                """
            )
        )
        try await eventually("all is built") {
            try db.read { try StoredDerivedTable.fetchAll($0).allSatisfy { $0.state == .ready } }
        }
        func expectInStep() throws {
            let problems = try db.read { try DerivedTableWorld.discrepancies(of: [index, view, search], $0) }
            #expect(problems.isEmpty, "\(problems.prefix(3))")
        }
        try expectInStep()
        try await db.write { db in
            try db.execute(sql: "INSERT INTO \(table) VALUES (5001, 1, 'x', 'a')")
            try db.execute(sql: "INSERT OR REPLACE INTO \(table) VALUES (5002, 1, 'x', 'a')")
            try db.execute(sql: "UPDATE \(table) SET v = v + 1")
        }
        try expectInStep()
        try await db.read { db in
            let found = try [
                index.rows(Found.self, in: db, where: "value = 3"), view.rows(Found.self, in: db, limit: 1),
                search.rows(Found.self, in: db, matching: "a"),
            ]
            #expect(found.map { $0.map(\.id) } == [[2], [1], [5002]])
            let keys = try search.matches("a", in: db).map(\.key)
            #expect(keys == [[5002.databaseValue]])
        }
    }

    /// A trigger could not distinguish such a table from its row.
    @Test(arguments: ["new", "OLD"]) func namesOfRows(name: String) throws {
        let index = SecondaryIndex("ix", version: 1, of: name, fields: [.init("value", "v")])
        #expect(throws: DerivedTableError.self) {
            try fixture.open([index], migrator: migrator("CREATE TABLE \(name) (id INTEGER PRIMARY KEY, v)"))
        }
    }

    /// The best first, not by a column of that name.
    @Test func rank() throws {
        let search = FullTextSearch("se", version: 1, of: "player", columns: [.init("txt")])
        let db = try fixture.open(
            [search],
            migrator: migrator(
                """
                CREATE TABLE player (id INTEGER PRIMARY KEY, rank INTEGER, txt TEXT);
                INSERT INTO player VALUES (1, 3, 'round'), (2, 1, 'round table chair a b c d e'), (3, 2, 'round round round')
                """
            )
        )
        try db.read { db in
            let best = try search.matches("round", in: db).map(\.key)
            #expect(try search.rows(Found.self, in: db, matching: "round").map { [$0.id.databaseValue] } == best)
            #expect(best.first == [3.databaseValue])
        }
    }

    @Test func rankIsTheKey() throws {
        let search = FullTextSearch("se", version: 1, of: "player", columns: [.init("txt")])
        let sql = "CREATE TABLE player (rank INTEGER PRIMARY KEY, txt TEXT); INSERT INTO player VALUES (1, 'round')"
        let db = try fixture.open([search], migrator: migrator(sql))
        #expect(try db.read { try search.matches("round", in: $0).count } == 1)
    }

    /// On a table with a search, a statement that fails outside of a transaction leaves the connection reading in some versions of SQLite.
    @Test func failedStatements() throws {
        let search = FullTextSearch("se", version: 1, of: "t", columns: [.init("txt")])
        let sql = """
            CREATE TABLE t (id INTEGER PRIMARY KEY, p REFERENCES t(id), txt TEXT); INSERT INTO t VALUES (1, NULL, 'round')
            """
        let db = try fixture.open([search], migrator: migrator(sql))
        let stranger = try fixture.stranger()
        for sql in ["INSERT INTO t VALUES (103, 777, 'round')", "UPDATE t SET p = 99, txt = 'table'"] {
            #expect(throws: DatabaseError.self) { try db.writeWithoutTransaction { try $0.execute(sql: sql) } }
            let state = db.writer.queue.inDatabase { sqlite3_txn_state($0.sqliteConnection, "main") }
            #expect(state == SQLITE_TXN_NONE, "\(sql)")
            try stranger.write { try $0.execute(sql: "INSERT INTO t VALUES (NULL, NULL, 'x')") }
            try db.write { _ in }
        }
    }

    /// A migration of another process, or a stranger, recreates the table: a follower of the view continues.
    @Test(arguments: [true, false]) func updatesOfATableThatIsRecreated(byAMigration: Bool) async throws {
        let recreating = """
            CREATE TABLE n (id INTEGER PRIMARY KEY, txt TEXT, more); INSERT INTO n SELECT id, txt, 1 FROM t; DROP TABLE t;
            ALTER TABLE n RENAME TO t
            """
        let view = MaterializedView("vw", version: 1, of: "t", sortedBy: [.ascending("txt")])
        let first = migrator("CREATE TABLE t (id INTEGER PRIMARY KEY, txt TEXT); INSERT INTO t VALUES (1, 'round')")
        let db = try fixture.open([view], migrator: first)
        let received = Shared<[String]>([])
        let following = Task {
            do {
                for try await update in view.updates(in: db) {
                    received.change { $0.append("\(update.contents.groups.first?.keys.count ?? 0)") }
                }
            } catch {
                received.change { $0.append("\(error)") }
            }
        }
        defer { following.cancel() }
        try await eventually("the first") { received.value == ["1"] }
        var writer = db
        if byAMigration {
            var second = first
            second.registerMigration("v2") { try $0.execute(sql: recreating) }
            writer = try fixture.open([view], migrator: second, as: "other")
        } else {
            try await fixture.stranger().write { try $0.execute(sql: recreating) }
        }
        try await writer.write { try $0.execute(sql: "INSERT INTO t VALUES (2, 'x', 1), (3, 'y', 1)") }
        try await eventually("the last, not \(received.value)") { received.value.last == "3" }
    }
}
