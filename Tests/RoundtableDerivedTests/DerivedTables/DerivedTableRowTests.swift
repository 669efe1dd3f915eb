import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

import enum RoundtableTestSupport.DerivedTableWorld
import struct RoundtableTestSupport.RandomStatements
import struct RoundtableTestSupport.SeededGenerator
import func RoundtableTestSupport.eventually

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived

/// What is derived follows from rows of all kinds, and from statements of all kinds (rules E2, E3, E10).
@Suite struct DerivedTableRowTests {
    private let fixture: DerivedTableFixture
    init() throws { fixture = try DerivedTableFixture() }

    private func open(_ sql: String, _ derivedTables: any DerivedTable...) throws -> SharedDatabase {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try $0.execute(sql: sql) }
        return try fixture.open(derivedTables, migrator: migrator)
    }

    private func expectAgreement(_ db: SharedDatabase, _ derivedTables: any DerivedTable..., after sql: String = "")
        throws
    {
        let problems = try db.read { try DerivedTableWorld.discrepancies(of: derivedTables, $0) }
        #expect(problems.isEmpty, "\(sql)")
    }

    private static let coded = "CREATE TABLE item (id INTEGER PRIMARY KEY, code TEXT UNIQUE, v INTEGER)"
    private static let values = SecondaryIndex("values", version: 1, of: "item", fields: [.init("v")])

    // MARK: Triggers of others

    /// The younger trigger fires first, and writes a row with the code of the one that fired it; or runs into a constraint, upon which the row
    /// stays.
    @Test(arguments: [
        "AFTER INSERT ON item WHEN new.v = 0 BEGIN INSERT OR REPLACE INTO item VALUES (new.id, new.code, 1); END",
        "AFTER INSERT ON item WHEN new.v = 0 BEGIN INSERT OR IGNORE INTO item VALUES (new.id + 100, new.code, 7); END",
        """
        AFTER INSERT ON item WHEN new.v = 0 BEGIN
            INSERT INTO item (code, v) VALUES (new.code, 9) ON CONFLICT (code) DO UPDATE SET v = 9;
        END
        """,
        """
        AFTER UPDATE OF code ON item WHEN new.v = 0 BEGIN
            DELETE FROM item WHERE id = new.id;
            INSERT INTO item VALUES (new.id, new.code, 1);
        END
        """,
        "AFTER INSERT ON item BEGIN INSERT INTO audit VALUES (new.v); END",
    ])
    func youngerTrigger(_ trigger: String) throws {
        let db = try open("\(Self.coded); CREATE TABLE audit (v UNIQUE); INSERT INTO audit VALUES (8)", Self.values)
        try db.write { try $0.execute(sql: "INSERT INTO item VALUES (14, 'k', 5), (2, NULL, 0)") }
        try fixture.stranger().write { try $0.execute(sql: "CREATE TRIGGER other \(trigger)") }
        // Notices it.
        try db.write { _ in }
        for sql in [
            "INSERT OR REPLACE INTO item VALUES (1, 'k', 0)", "UPDATE OR REPLACE item SET code = 'k' WHERE id = 2",
            "INSERT OR FAIL INTO item VALUES (30, 'f', 8)",
        ] {
            try fixture.stranger().inDatabase { db in
                do {
                    try db.execute(sql: sql)
                } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                    // What OR FAIL has done so far stays.
                }
            }
            try expectAgreement(db, Self.values, after: sql)
        }
    }

    /// Those that take notes stay where they are among the BEFORE triggers.
    @Test func notingTriggersStay() throws {
        let db = try open(Self.coded, Self.values)
        func rowIDs(_ part: String) throws -> [Int64] {
            let sql = "SELECT rowid FROM sqlite_master WHERE type = 'trigger' AND name LIKE ? ORDER BY 1"
            return try db.read { try Int64.fetchAll($0, sql: sql, arguments: ["roundtable_ext_values__\(part)%"]) }
        }
        let (notes, others) = (try rowIDs("note"), try rowIDs("insert"))
        try db.write { try $0.execute(sql: "CREATE TRIGGER b BEFORE INSERT ON item BEGIN SELECT 1; END") }
        try db.write { _ in }
        #expect(try rowIDs("insert") == others)
        try db.write { try $0.execute(sql: "CREATE TRIGGER a AFTER INSERT ON item BEGIN SELECT 1; END") }
        try db.write { _ in }
        #expect(try rowIDs("note") == notes)
        #expect(try rowIDs("insert") != others)
    }

    /// All triggers of `RandomStatements`, which come while the database is used.
    @Test(.long()) func randomTransactionsWithTriggers() throws {
        let db = try fixture.open()
        let stranger = try fixture.stranger()
        try stranger.write { try $0.execute(sql: "CREATE TABLE audit (code UNIQUE, number UNIQUE)") }
        var statements = RandomStatements(SeededGenerator())
        var problems: [String] = []
        for number in 1...(isLongRun ? 3000 : 160) where problems.isEmpty {
            if number % 20 == 0, let trigger = RandomStatements.triggers.dropFirst(number / 20 - 1).first {
                try stranger.write { try $0.execute(sql: trigger) }
                try db.write { _ in }
                try RoundtableTestKit.eventually("what was recreated is built") {
                    try db.read { try StoredDerivedTable.fetchAll($0).allSatisfy { $0.state == .ready } }
                }
            }
            var log: [String] = []
            try stranger.write { db in
                for _ in 1...3 {
                    log.append(statements.next())
                    do {
                        try db.execute(sql: log.last!)
                    } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                        // That one is not to be.
                    }
                }
                if number % 7 == 0 { try db.execute(sql: "DELETE FROM audit") }
            }
            problems = try db.read { try DerivedTableWorld.discrepancies($0) }
            #expect(problems.isEmpty, "after transaction \(number): \(log)")
        }
    }

    // MARK: Values

    @Test(arguments: ["a$b", "temp°", "we\"ird", "'q'", "[x", "e\u{301}"])
    func unusualNames(_ name: String) throws {
        let column = name.sqlName
        let named = SecondaryIndex("named", version: 1, of: "t", fields: [.init("x", column)])
        let bare = SecondaryIndex(
            "bare",
            version: 1,
            of: "t",
            fields: [.init("x", name.contains { "\"'[".contains($0) } ? column : name)]
        )
        let db = try open("CREATE TABLE t (id INTEGER PRIMARY KEY, \(column) INTEGER)", named, bare)
        try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 1); UPDATE t SET \(column) = 2") }
        try expectAgreement(db, named, bare)
    }

    /// 3 and 3.0 are equal, but their halves are not.
    @Test(arguments: ["id INTEGER PRIMARY KEY, x", "x PRIMARY KEY, id", "x BLOB PRIMARY KEY, id) WITHOUT ROWID; --"])
    func integersThatBecomeReals(_ columns: String) throws {
        let halves = SecondaryIndex("halves", version: 1, of: "t", fields: [.init("half", "x / 2")])
        let db = try open("CREATE TABLE t (\(columns)\n)".replacing("--\n)", with: ""), halves)
        try db.write { try $0.execute(sql: "INSERT INTO t (id, x) VALUES (1, 3); UPDATE t SET x = 3.0") }
        try expectAgreement(db, halves)
        try db.write { try $0.execute(sql: "UPDATE t SET x = 3") }
        try expectAgreement(db, halves)
    }

    @Test func keysOfAllTypes() throws {
        let values = SecondaryIndex("values", version: 1, of: "t", fields: [.init("v")])
        let rows = "('0123', 1), (123, 2), ('123', 3), (x'313233', 4), (1.5, 5)"
        let sql = "CREATE TABLE t (k ANY PRIMARY KEY, v INTEGER UNIQUE) STRICT; INSERT INTO t VALUES \(rows)"
        let db = try open(sql, values)
        try expectAgreement(db, values)
        for sql in [
            "INSERT INTO t VALUES ('00123', 6)", "DELETE FROM t WHERE k = '0123'",
            "INSERT OR REPLACE INTO t VALUES ('7', 2), (7, 3)", "UPDATE t SET v = v + 10",
        ] {
            try db.write { try $0.execute(sql: sql) }
            try expectAgreement(db, values, after: sql)
        }
    }

    private struct Value: FetchableRecord {
        let v: Int
        init(row: Row) { v = row["v"] }
    }

    /// The primary key's index may have another collation than its column.
    @Test(arguments: [("NOCASE", "BINARY"), ("BINARY", "NOCASE")])
    func keysOfTwoCollations(_ column: String, _ key: String) throws {
        let values = SecondaryIndex("values", version: 1, of: "t", fields: [.init("v")])
        let sql = """
            CREATE TABLE t (k TEXT COLLATE \(column), v INTEGER, code TEXT UNIQUE, PRIMARY KEY (k COLLATE \(key)))
            """
        let db = try open(sql, values)
        for sql in [
            "INSERT INTO t VALUES ('a', 1, 'x')", "INSERT OR REPLACE INTO t VALUES ('A', 2, 'y')",
            "INSERT OR REPLACE INTO t VALUES ('b', 3, 'x')", "UPDATE OR REPLACE t SET code = 'y' WHERE k = 'b'",
            "UPDATE t SET k = upper(k)", "UPDATE t SET v = v + 1",
        ] {
            try db.write { try $0.execute(sql: sql) }
            try expectAgreement(db, values, after: sql)
            let counts = try db.read { (try values.rows(Value.self, in: $0).count, try values.count(in: $0)) }
            #expect(counts.0 == counts.1)
        }
    }

    @Test(arguments: ["roundtable_x", "cause", "rowid", "a, b", "x DESC"], ["TEXT", "\"my-type\"", "VARCHAR(10)"])
    func namesAndTypesOfKeys(_ name: String, _ type: String) throws {
        let key = name.sqlName
        let values = SecondaryIndex("values", version: 1, of: "t", fields: [.init("v")])
        let words = FullTextSearch("words", version: 1, of: "t", columns: [.init("txt")])
        let sums = AggregateTable("sums", version: 1, of: "t", values: [.init("v")])
        let sql = "CREATE TABLE t (\(key) \(type) PRIMARY KEY, txt TEXT, v INTEGER UNIQUE)"
        let db = try open(sql, values, words, sums)
        try db.write { db in
            try db.execute(sql: "INSERT INTO t VALUES ('k', 'round', 1), ('l', 'fair', 2)")
            try db.execute(sql: "INSERT OR REPLACE INTO t VALUES ('m', 'round table', 2)")
            try db.execute(sql: "UPDATE t SET txt = txt || ' turn'")
        }
        try db.read { db throws in
            #expect(try words.matches("round", in: db).count == 2)
            #expect(try words.rows(Value.self, in: db, matching: "table").map(\.v) == [2])
            #expect(try values.rows(Value.self, in: db, where: "fields.v = 2").map(\.v) == [2])
            #expect(try sums.total(in: db)?.sum("v", as: Int.self) == 3)
        }
    }

    // MARK: Expressions

    @Test(arguments: [
        "date('now')", "date(at, 'unixepoch', 'localtime')", "julianday()", "at AND due >= date('now')",
        "NOT at AND due >= date('now')", "due = 'soon' AND at < unixepoch ( )", "CURRENT_TIMESTAMP", "random()",
    ])
    func expressionsThatAreNotOfTheRow(_ expression: String) {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, due TEXT, at INTEGER)"
        #expect(throws: DerivedTableError.self) {
            try open(sql, SecondaryIndex("ix", version: 1, of: "t", fields: [.init("x", expression)])).close()
        }
        #expect(throws: DerivedTableError.self) {
            try open(sql, SecondaryIndex("ix", version: 1, of: "t", where: expression, fields: [.init("due")])).close()
        }
    }

    /// Those that fail for some values are not refused.
    @Test func expressionsThatMayFail() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, due TEXT, at INTEGER)"
        let ix = SecondaryIndex(
            "ix",
            version: 1,
            of: "t",
            fields: [
                .init("x", "json_extract(due, '$.a')"), .init("day", "date(at, 'unixepoch')"),
                .init("year", "strftime('%Y', due)"),
            ]
        )
        let db = try open(sql, ix)
        try db.write { try $0.execute(sql: "INSERT INTO t VALUES (1, '{\"a\": 1}', 0)") }
        try expectAgreement(db, ix)
    }

    // MARK: Sums

    private static let sums = AggregateTable("sums", version: 1, of: "t", groupedBy: [.init("g")], values: [.init("x")])
    private static let summed = "CREATE TABLE t (id INTEGER PRIMARY KEY, g, x)"

    /// Each statement alone, and what follows from what is left.
    @Test func sumsOfWhatIsLarge() throws {
        let db = try open(Self.summed, Self.sums)
        func sum(_ sql: String) throws -> DatabaseValue? {
            try db.write { try $0.execute(sql: sql) }
            return try db.read { try Self.sums.total(of: ["g"], in: $0)?.sum("x") }
        }
        #expect(
            try sum("INSERT INTO t VALUES (1, 'g', 9223372036854775807), (2, 'g', 5)")
                == 9.223372036854775807e18.databaseValue
        )
        #expect(try sum("INSERT INTO t VALUES (3, 'g', -9223372036854775808)") == 4.databaseValue)
        #expect(try sum("DELETE FROM t WHERE id = 1") == (-9_223_372_036_854_775_803).databaseValue)
        #expect(try sum("DELETE FROM t WHERE id = 3") == 5.databaseValue)
        #expect(try sum("INSERT INTO t VALUES (4, 'g', 9e999)") == Double.infinity.databaseValue)
        #expect(try sum("INSERT OR FAIL INTO t VALUES (5, 'g', -9e999)") == DatabaseValue.null)
        #expect(try sum("UPDATE OR IGNORE t SET x = 1.5 WHERE id = 4") == (-Double.infinity).databaseValue)
        #expect(try sum("DELETE FROM t WHERE id = 5") == 6.5.databaseValue)
        #expect(try sum("INSERT INTO t VALUES (6, 'g', 1e308), (7, 'g', 1e308)") == Double.infinity.databaseValue)
        #expect(try sum("DELETE FROM t WHERE id > 5") == 6.5.databaseValue)
        #expect(try sum("INSERT INTO t VALUES (8, 'g', 1e20)") == 1e20.databaseValue)
        #expect(try sum("DELETE FROM t WHERE id = 8") == 6.5.databaseValue)
        #expect(try sum("INSERT INTO t VALUES (9, 'g', 9007199254740993)") == 9_007_199_254_741_000.0.databaseValue)
        #expect(try sum("DELETE FROM t WHERE id = 4") == 9_007_199_254_740_998.databaseValue)
        #expect(try sum("UPDATE t SET x = NULL") == nil)
    }

    @Test func sumsThatAreThereAlready() throws {
        let values =
            "(1, 'g', 9e999), (2, 'g', -9e999), (3, 'h', '12'), (4, 'h', 'no'), (5, 'h', x'31'), (6, NULL, 0.5)"
        let db = try open("\(Self.summed); INSERT INTO t VALUES \(values)", Self.sums)
        try db.read { db throws in
            #expect(try Self.sums.total(of: ["g"], in: db)?.count == 2)
            #expect(try Self.sums.total(of: ["h"], in: db)?.sum("x", as: Int.self) == 13)
            #expect(try Self.sums.total(of: [nil], in: db)?.sum("x", as: Double.self) == 0.5)
        }
    }

    // MARK: Notes

    /// Inserts that have no effect leave notes; the next one removes them.
    @Test func notesDoNotGather() throws {
        let db = try open(Self.coded, Self.values)
        let stranger = try fixture.stranger()
        func moment(_ db: Database) throws -> Double { try Double.fetchOne(db, sql: "SELECT julianday('now')")! }
        let count = try stranger.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                    INSERT INTO item (code, v) SELECT 'c' || i, i FROM n
                    """
            )
            try db.execute(sql: "INSERT OR IGNORE INTO item (code, v) SELECT code, 1 FROM item")
            try db.execute(sql: "INSERT INTO item (code, v) VALUES ('c1', 1) ON CONFLICT DO NOTHING")
            let (begin, deadline) = (try moment(db), ContinuousClock.now + .seconds(10))
            while try moment(db) == begin, ContinuousClock.now < deadline {}
            try db.execute(sql: "INSERT OR IGNORE INTO item (code, v) VALUES ('c2', 1)")
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM roundtable_ext_values__notes")
        }
        #expect(count == 1)
        try expectAgreement(db, Self.values)
    }

    /// A condition of an index names what it depends on, and no more is compared.
    @Test func tablesOfManyColumns() throws {
        let columns = (1...500).map { "c\($0) INTEGER" }.joined(separator: ", ")
        let sql = """
            CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT, \(columns));
            CREATE UNIQUE INDEX u ON t (lower(code)) WHERE [c1] > 0
            """
        let ix = SecondaryIndex("ix", version: 1, of: "t", fields: [.init("c1")])
        let db = try open(sql, ix)
        for sql in [
            "INSERT INTO t (id, code, c1) VALUES (1, 'a', 1), (2, 'A', 0), (3, 'b', 1)",
            "INSERT OR REPLACE INTO t (id, code, c1) VALUES (4, 'A', 5)",
            "UPDATE OR REPLACE t SET c1 = 1 WHERE id = 2", "UPDATE OR REPLACE t SET code = 'B' WHERE id = 2",
        ] {
            try db.write { try $0.execute(sql: sql) }
            try expectAgreement(db, ix, after: sql)
        }
        let text = try db.read {
            try String.fetchAll($0, sql: "SELECT sql FROM sqlite_master WHERE name LIKE '%note%'")
        }
        #expect(!text.isEmpty && !text.joined().contains("c2"))
    }
}
