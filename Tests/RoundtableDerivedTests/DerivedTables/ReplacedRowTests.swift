import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

import enum RoundtableTestSupport.DerivedTableWorld

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDerived
@testable import RoundtableHistory
@testable import RoundtableTables

/// REPLACE deletes rows without firing their triggers: what is derived of them is removed (rule E3), and the history records it (rule H7).
@Suite struct ReplacedRowTests {
    private static let index = SecondaryIndex("ix", version: 1, of: "t", fields: [.init("v")])

    /// Each statement alone; afterwards nothing is derived of rows that are gone, and the history's last word about each is right.
    private func expectAgreement(_ columns: String, _ statements: [String]) throws {
        let fixture = try DerivedTableFixture()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(sql: "CREATE TABLE t (\(columns))")
            try DatabaseHistory.enable(for: "t", in: db)
        }
        let db = try fixture.open([Self.index], migrator: migrator)
        for sql in statements {
            try db.write { try $0.execute(sql: sql) }
            #expect(
                try db.read { try DerivedTableWorld.discrepancies(of: [Self.index], $0) } == [],
                "\(columns): \(sql)"
            )
            var last: [DatabaseValue: HistoryChange.Operation] = [:]
            for change in try db.history.changes(since: nil).changes { last[change.key[0]] = change.operation }
            let kept = Set(last.filter { $0.value != .delete }.keys)
            let key = try #require(columns.split(separator: " ").first)
            let rows = try db.read { try Set(DatabaseValue.fetchAll($0, sql: "SELECT \(key) FROM t")) }
            #expect(kept == rows, "\(columns): \(sql)")
        }
    }

    // MARK: Defaults in the place of NULL

    @Test(arguments: [
        "INTEGER NOT NULL DEFAULT '5'", "TEXT NOT NULL DEFAULT 5", "REAL NOT NULL DEFAULT 5", "NOT NULL DEFAULT '5'",
        "NUMERIC NOT NULL DEFAULT ' 5.0 '", "TEXT NOT NULL DEFAULT active", "TEXT NOT NULL DEFAULT \"it's\"",
        "TEXT NOT NULL DEFAULT [a word]", "INTEGER NOT NULL DEFAULT true",
        "NOT NULL DEFAULT (1 + 2 /* three */ -- so\n)",
        "NOT NULL DEFAULT CURRENT_DATE", "TEXT NOT NULL DEFAULT (upper('a'))",
    ])
    func defaults(_ type: String) throws {
        let statements = [
            "INSERT INTO t (id, v) VALUES (1, 1)", "INSERT OR REPLACE INTO t (id, v, x) VALUES (2, 2, NULL)",
            "INSERT OR REPLACE INTO t (id, v) VALUES (3, 3)", "INSERT INTO t (id, v, x) VALUES (4, 4, 'other')",
            "UPDATE OR REPLACE t SET x = NULL, v = 5 WHERE id = 4",
        ]
        for isExpression in [false, true] where !(isExpression && type.contains("REAL")) {
            let unique = isExpression ? "x \(type), y AS (x || '') UNIQUE" : "x \(type) UNIQUE"
            try expectAgreement("id INTEGER PRIMARY KEY, v INTEGER, \(unique)", statements)
        }
    }

    private struct User: Codable, PersistableRecord {
        static let databaseTableName = "t"
        static let persistenceConflictPolicy = PersistenceConflictPolicy(insert: .replace, update: .replace)
        var id: Int64
        var v: Int
        var uuid: String?
        var email: String
    }

    /// A default that differs each time shows nothing; the row is removed because of another column.
    @Test func defaultsThatVary() throws {
        let fixture = try DerivedTableFixture()
        var migrator = DatabaseMigrator()
        let uuid = "uuid TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16))))"
        migrator.registerMigration("v1") {
            try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, \(uuid), email TEXT UNIQUE)")
        }
        let db = try fixture.open([Self.index], migrator: migrator)
        try db.write { db in
            try User(id: 1, v: 1, email: "a@b").insert(db)
            try User(id: 2, v: 2, email: "a@b").insert(db)
        }
        #expect(try db.read { try User.fetchCount($0) } == 1)
        #expect(try db.read { try DerivedTableWorld.discrepancies(of: [Self.index], $0) } == [])
    }

    @Test(arguments: ["g", "g, a", "lower(g)", "g) WHERE (g IS NOT NULL"], ["STORED", "VIRTUAL"])
    func defaultsInGeneratedColumns(_ terms: String, _ kind: String) throws {
        try expectAgreement(
            "id INTEGER PRIMARY KEY, v, a TEXT, b TEXT NOT NULL DEFAULT '2', g AS (a || coalesce(\"B\", '')) \(kind)",
            [
                "CREATE UNIQUE INDEX u ON t (\(terms))", "INSERT INTO t VALUES (1, 1, 'x', '2'), (9, 9, 'y', '2')",
                "INSERT OR REPLACE INTO t (id, v, a, b) VALUES (2, 2, 'x', NULL)",
                "INSERT INTO t (id, v, a, b) VALUES (3, 3, 'x', '3')",
                "UPDATE OR REPLACE t SET b = NULL WHERE id = 3",
            ]
        )
    }

    /// The value of a default is the same as SQLite puts into a column of that type.
    @Test(arguments: ["INTEGER", "TEXT", "", "REAL", "NUMERIC"]) func valuesOfDefaults(_ type: String) throws {
        let queue = try DatabaseQueue()
        try queue.write { db in
            for text in [
                "5", "-5", "+5.0", "'5'", "'5.0'", "' 5 '", "'5x'", "''", "0.1", "'0.1'", "1e300", "'1e3'", "x'35'",
                "word",
                "9007199254740993", "9223372036854775807", "9223372036854775808", "'9223372036854775807'", "NULL",
                "true",
                "\"true\"", "-0.0", "'-0.0'", "0x10", "'0x10'", "\"it's\"", "`a``b`", "é", "(-5)", "(1 + 2.5)",
                "(x'35' || '5')", "(true + 1)",
            ] {
                try db.execute(sql: "CREATE TABLE t (x \(type) DEFAULT \(text)); INSERT INTO t DEFAULT VALUES")
                let declared = try #require(
                    try String.fetchOne(db, sql: "SELECT dflt_value FROM pragma_table_info('t')")
                )
                let value = try DefaultValue(declared, in: Affinity(ofType: type, inStrictTable: false), db)
                let quoted = try String.fetchOne(db, sql: "SELECT quote(\(value.sql))")
                #expect(try quoted == String.fetchOne(db, sql: "SELECT quote(x) FROM t"), "\(type) DEFAULT \(text)")
                #expect(value.isConstant)
                try db.execute(sql: "DROP TABLE t")
            }
        }
    }

    /// Not asked for their value: it may be another one each time, or not to be had in this program.
    @Test(arguments: [
        "CURRENT_TIMESTAMP", "random()", "1 + random ( )", "'a' COLLATE other", "'a' REGEXP 'b'", "current_date",
    ])
    func defaultsThatAreNotConstant(_ text: String) throws {
        let value = try DatabaseQueue().read { try DefaultValue(text, in: .text, $0) }
        #expect(!value.isConstant && value.sql == text)
    }

    // MARK: By rowid

    @Test(arguments: [
        "k TEXT PRIMARY KEY, v INTEGER", "k TEXT PRIMARY KEY, v INTEGER UNIQUE", "k PRIMARY KEY, v INTEGER, rowid",
        "k TEXT, v INTEGER, PRIMARY KEY (k COLLATE NOCASE)",
        "k TEXT PRIMARY KEY, v INTEGER, p REFERENCES t ON DELETE CASCADE",
    ])
    func rowIDs(_ columns: String) throws {
        let rowID = columns.hasSuffix("rowid") ? "_rowid_" : "rowid"
        try expectAgreement(
            columns,
            [
                "INSERT INTO t (\(rowID), k, v) VALUES (1, 'a', 1), (3, 'c', 3), (-1, 'd', 4), (5, 'e', 5)",
                "INSERT OR REPLACE INTO t (\(rowID), k, v) VALUES (1, 'b', 2)",
                "INSERT OR IGNORE INTO t (\(rowID), k, v) VALUES (1, 'x', 20)",
                "UPDATE OR REPLACE t SET \(rowID) = 1 WHERE k = 'c'",
                "INSERT OR REPLACE INTO t (k, v) VALUES ('x', 6)",
                "INSERT OR REPLACE INTO t (\(rowID), k, v) VALUES (-1, 'y', 7)",
                "UPDATE OR REPLACE t SET \(rowID) = 5, k = 'z' WHERE k = 'y'",
                "INSERT OR REPLACE INTO t (\(rowID), k, v) VALUES (5, 'c', 8)",
            ]
        )
    }

    /// The row in the way is removed, and with it the row that was to be moved there.
    @Test func rowIDsThatCascade() throws {
        try expectAgreement(
            "k TEXT PRIMARY KEY, v INTEGER, p REFERENCES t ON DELETE CASCADE",
            [
                "INSERT INTO t (rowid, k, v, p) VALUES (1, 'a', 1, NULL), (2, 'b', 2, 'a'), (3, 'c', 3, NULL)",
                "UPDATE OR REPLACE t SET rowid = 1 WHERE k = 'b'",
            ]
        )
    }

    /// Tables whose key is the rowid, or that have none, and no unique index need no guards.
    @Test(arguments: ["id INTEGER PRIMARY KEY, v", "k TEXT PRIMARY KEY, v) WITHOUT ROWID; --"])
    func guardsThatAreNotNeeded(_ columns: String) throws {
        let shape = try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE t (\(columns)\n)".replacing("--\n)", with: ""))
            return try TableShape(db, table: "t")
        }
        #expect(HistoryTriggers(shape: shape, id: 1, recording: .rows).statements.count == 4)
    }

    // MARK: Triggers of others

    /// A trigger that fires before is not taken for one that may prevent ours from firing, nor the reverse.
    @Test(arguments: [
        ("x AFTER INSERT", true), ("\"x\"AFTER INSERT", true), ("[x y]AFTER INSERT", true),
        ("'x'/**/AFTER INSERT", true),
        ("x BEFORE INSERT", false), ("`x`BEFORE INSERT", false), ("\"x\"INSERT", false), ("[after] UPDATE", false),
    ])
    func timesOfTriggers(_ start: String, _ isAfter: Bool) throws {
        let sql = try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE t (v); CREATE TRIGGER \(start) ON t BEGIN SELECT RAISE(IGNORE); END")
            return try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE type = 'trigger'")
        }
        #expect(OtherTrigger(try #require(sql)).isAfter == isAfter)
    }
}
