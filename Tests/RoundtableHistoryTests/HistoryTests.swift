import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// A database with a history, and a plain GRDB connection that knows nothing of Roundtable beside it.
struct HistoryFixture {
    let folder: TemporaryFolder
    let url: URL
    let db: SharedDatabase
    let stranger: DatabaseQueue

    init(_ sql: String = "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER)") throws {
        folder = try TemporaryFolder()
        url = folder.file("history.sqlite")
        db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        try db.write { try $0.execute(sql: sql) }
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        stranger = try DatabaseQueue(path: url.path, configuration: configuration)
    }

    func execute(_ sql: String) throws { try db.write { try $0.execute(sql: sql) } }
    func executeElsewhere(_ sql: String) throws { try stranger.inDatabase { try $0.execute(sql: sql) } }

    func changes(_ token: HistoryToken? = nil, in tables: [String]? = nil) throws -> [HistoryChange] {
        try db.history.changes(since: token, in: tables).changes
    }

    /// Such as `insert 1`, `delete a,NULL`.
    func lines(_ token: HistoryToken? = nil, in tables: [String]? = nil) throws -> [String] {
        try changes(token, in: tables).map(\.line)
    }
}

@Suite struct HistoryTests {
    /// **Rule R7**: what a connection does for the history before its first write is no change of the schema.
    @Test(arguments: [HistoryRecording.rows, .changedColumns])
    func theFirstCommitToATableWithAHistory(recording: HistoryRecording) async throws {
        let fixture = try HistoryFixture()
        try await fixture.db.history.enable(for: "player", recording: recording)
        let seen = Shared<[DatabaseChange]>([])
        let cancellable = try fixture.db.observeChanges(on: nil) { change in seen.change { $0.append(change) } }
        let other = try await SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "other")
        for count in 1...2 {
            try await other.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
            try await eventually("commit \(count) is reported") { seen.value.count { $0.author == "other" } == count }
        }
        let tables = seen.value.filter { $0.author == "other" }.map(\.tables)
        #expect(tables == [.some(["player"]), .some(["player"])], "\(seen.value)")
        // Triggers that come back are a change of the schema.
        try fixture.executeElsewhere(
            "DROP TABLE player; CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER)"
        )
        try await other.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
        try await eventually("commit 3 is reported") { seen.value.count { $0.author == "other" } == 3 }
        #expect(seen.value.last { $0.author == "other" }?.tables == .fullDatabase, "\(seen.value)")
        cancellable.cancel()
    }

    /// A program that enables the history at each start makes no commit by that.
    @Test(arguments: [OldValuePolicy.deleted("name"), []])
    func enabledAlready(keeping: OldValuePolicy) throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player", recording: .changedColumns, keeping: keeping)
        func version() throws -> Int? { try fixture.stranger.read { try Int.fetchOne($0, sql: "PRAGMA data_version") } }
        let before = try version()
        try fixture.db.history.enable(for: "PLAYER", recording: .changedColumns, keeping: keeping)
        let other = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "other")
        try other.history.enable(for: "player", keeping: keeping)
        #expect(try version() == before)
        // What is asked for, and not kept yet, is.
        try other.history.enable(for: "player", keeping: ["name", "score"])
        #expect(try version() != before)
        try fixture.executeElsewhere("ALTER TABLE player RENAME TO hero")
        try other.history.enable(for: "hero", keeping: keeping)
        let names = try fixture.stranger.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM roundtable_history_tables")
        }
        #expect(names == ["hero"])
    }

    /// **Rule H1**: without its tables there is no history to start over with, and the next one is another one.
    @Test func erased() throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        try fixture.execute("INSERT INTO player (name) VALUES ('A')")
        try fixture.db.history.restartConsumer("indexer")
        let token = try fixture.db.history.currentToken()
        try fixture.db.erase()
        #expect(throws: HistoryError.notEnabled(path: fixture.db.path)) {
            try fixture.db.history.consume(as: "indexer") { (_: [HistoryChange]) in }
        }
        try fixture.execute("CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT)")
        try fixture.db.history.enable(for: "player")
        #expect(startOverReason { _ = try fixture.changes(token) } == .otherHistory)
        let reason = startOverReason { try fixture.db.history.consume(as: "indexer") { (_: [HistoryChange]) in } }
        #expect(reason == .newConsumer)
    }

    // MARK: What is recorded

    /// **Rules H4, H5**: all rows of all writers, with the author and the transaction of those that say them.
    @Test func authorsAndTransactionsOfRows() throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        try fixture.db.write { db in
            try db.execute(sql: "INSERT INTO player (name) VALUES ('A'), ('B')")
            try db.execute(sql: "UPDATE player SET score = 1 WHERE id = 1")
        }
        try fixture.executeElsewhere("INSERT INTO player (name) VALUES ('C')")
        let second = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "widget")
        try second.write { try $0.execute(sql: "DELETE FROM player") }
        let changes = try fixture.changes()
        #expect(
            changes.map(\.line) == [
                "insert 1", "insert 2", "update 1", "insert 3", "delete 1", "delete 2", "delete 3",
            ]
        )
        #expect(changes.map(\.author) == ["app", "app", "app", nil, "widget", "widget", "widget"])
        let transactions = changes.map(\.transaction)
        let (first, elsewhere, last) = (transactions[0], transactions[3], transactions[4])
        #expect(transactions == [first, first, first, elsewhere, last, last, last])
        #expect(first != nil)
        #expect(elsewhere == nil)
        #expect(last != nil)
        #expect(first != last)
        #expect(changes.allSatisfy { $0.table == "player" && $0.keyColumns == ["id"] && $0.columns == nil })
        #expect(changes.map(\.sequence) == changes.map(\.sequence).sorted())
        #expect(changes.allSatisfy { abs($0.date.timeIntervalSinceNow) < 60 })
        #expect(changes[0].id == 1)
    }

    /// **Rule H5** by every door: autocommit, transactions of the user's own, rollbacks, savepoints.
    @Test func transactionsByEveryDoor() throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        let insert = "INSERT INTO player (name) VALUES ('A')"
        // Another connection opens after the history exists, and writes without a transaction first.
        let second = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "second")
        try second.writeWithoutTransaction { db in
            try db.execute(sql: insert)
            try db.execute(sql: insert)
            try db.inTransaction {
                try db.execute(sql: insert)
                try db.execute(sql: insert)
                return .rollback
            }
            try db.inTransaction {
                try db.inSavepoint {
                    try db.execute(sql: insert)
                    return .rollback
                }
                try db.execute(sql: insert)
                try db.inSavepoint {
                    try db.execute(sql: insert)
                    return .commit
                }
                try db.inSavepoint {
                    try db.execute(sql: insert)
                    return .rollback
                }
                try db.execute(sql: insert)
                return .commit
            }
        }
        #expect(throws: DatabaseError.self) {
            try second.write { db in
                try db.execute(sql: insert)
                try db.execute(sql: "nonsense")
            }
        }
        try fixture.executeElsewhere(insert)
        try second.write { try $0.execute(sql: insert) }
        let changes = try fixture.changes()
        #expect(changes.count == 7)
        #expect(changes.map(\.author) == ["second", "second", "second", "second", "second", nil, "second"])
        let groups = changes.map(\.transaction)
        #expect(groups[2] == groups[3] && groups[3] == groups[4])
        #expect(Set([groups[0], groups[1], groups[2], groups[5], groups[6]]).count == 5)
    }

    /// **Rule H5**: a rollback of the transaction in which a connection first used the history does not remove the stamp.
    @Test func rollbackOfTheFirstTransaction() throws {
        let fixture = try HistoryFixture()
        let second = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "second")
        try second.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('before')") }
        try fixture.db.history.enable(for: "player")
        struct Failure: Error {}
        for _ in 0..<2 {
            #expect(throws: Failure.self) {
                try second.write { db in
                    try db.execute(sql: "INSERT INTO player (name) VALUES ('A')")
                    throw Failure()
                }
            }
        }
        try second.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('A')") }
        #expect(try fixture.changes().map(\.author) == ["second"])
    }

    /// **Rule H6**: the changed columns, whatever their collation.
    @Test func changedColumns() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, "the score" INTEGER,
                twice AS ("the score" * 2) VIRTUAL);
            INSERT INTO player (id, name, "the score") VALUES (1, 'a', 1)
            """
        )
        try fixture.db.history.enable(for: "player", recording: .changedColumns)
        try fixture.execute("UPDATE player SET name = 'A'")
        try fixture.execute(#"UPDATE player SET "the score" = 2"#)
        try fixture.execute("UPDATE player SET name = name")
        try fixture.execute(#"UPDATE player SET "the score" = NULL, name = 'c'"#)
        #expect(
            try fixture.changes().map(\.columns) == [
                ["name"], ["the score", "twice"], [], ["the score", "twice", "name"],
            ]
        )
    }

    /// **Rules H6, H8**: columns that are added, removed and renamed.
    @Test func alteredColumns() throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player", recording: .changedColumns)
        try fixture.execute("INSERT INTO player (id, name) VALUES (1, 'A')")
        let token = try fixture.db.history.currentToken()
        try fixture.execute("UPDATE player SET name = 'B'")
        try fixture.executeElsewhere("ALTER TABLE player RENAME COLUMN name TO title")
        #expect(try fixture.changes(token).map(\.columns) == [["title"]])
        try fixture.executeElsewhere("ALTER TABLE player ADD COLUMN team TEXT")
        try fixture.executeElsewhere("UPDATE player SET team = 'red', score = 1")
        // Before the triggers know the new column, it is unknown which columns changed.
        #expect(try fixture.changes(token).map(\.columns) == [nil, nil])
        try fixture.execute("UPDATE player SET team = 'blue'")
        #expect(try fixture.changes(token).map(\.columns) == [nil, nil, ["team"]])
        // Dropping fails while a trigger names the column.
        #expect(throws: DatabaseError.self) { try fixture.execute("ALTER TABLE player DROP COLUMN team") }
        try fixture.db.write { db in
            try DatabaseHistory.narrow(for: "player", in: db)
            try db.execute(sql: "ALTER TABLE player DROP COLUMN team")
            try DatabaseHistory.enable(for: "player", recording: .changedColumns, in: db)
        }
        try fixture.execute("UPDATE player SET score = 7")
        #expect(try fixture.changes(token).map(\.columns) == [nil, nil, nil, ["score"]])
    }

    /// **Rule H4**: keys of every kind come back as they were.
    @Test func keys() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE text (code TEXT PRIMARY KEY);
            CREATE TABLE "two ""keys"" ü" (b, "a b" TEXT, PRIMARY KEY ("a b", b)) WITHOUT ROWID;
            CREATE TABLE blob (k BLOB PRIMARY KEY) WITHOUT ROWID;
            CREATE TABLE hidden (rowid TEXT, _rowid_ TEXT, oid TEXT, k TEXT PRIMARY KEY, u TEXT UNIQUE);
            """
        )
        for table in ["text", "two \"keys\" ü", "blob", "HIDDEN"] { try fixture.db.history.enable(for: table) }
        try fixture.execute("INSERT INTO text VALUES ('it''s'), (NULL), ('1')")
        #expect(try fixture.lines(in: ["text"]) == ["insert it's", "insert NULL", "insert 1"])
        try fixture.execute(
            """
            INSERT INTO "two ""keys"" ü" ("a b", b) VALUES ('a,''b', 1.5), ('x', x'00ff'),
                ('', 9e999), ('∞', -9e999), ('big', 12345678901234567), ('X''00''', 'CAST'), ('', '')
            """
        )
        let inserted = Set(try fixture.changes(in: ["two \"keys\" ü"]).map(\.key))
        let stored = try fixture.db.read { db in
            try Row.fetchAll(db, sql: #"SELECT "a b", b FROM "two ""keys"" ü""#).map { Array($0.databaseValues) }
        }
        #expect(inserted == Set(stored) && stored.count == 7, "\(inserted) \(stored)")
        #expect(try fixture.changes(in: ["two \"keys\" ü"]).first?.keyColumns == ["a b", "b"])
        let token = try fixture.db.history.currentToken()
        try fixture.execute(#"INSERT INTO "two ""keys"" ü" ("a b", b) VALUES ('nul' || char(0) || 'é', -3)"#)
        #expect(try fixture.changes(token).first?.key == ["nul\0é".databaseValue, (-3).databaseValue])
        try fixture.execute("INSERT INTO blob VALUES (x'00ff00')")
        #expect(try fixture.lines(in: ["blob"]) == ["insert x00ff00"])
        try fixture.execute("INSERT OR REPLACE INTO hidden (k, u) VALUES ('a', '1'), ('b', '1')")
        #expect(try fixture.lines(in: ["hidden"]).sorted() == ["delete a", "insert a", "insert b"])
    }

    /// **Rule H4**: a changed key is a delete and an insert; VACUUM changes no key.
    @Test func changedKeys() throws {
        let fixture = try HistoryFixture(
            "CREATE TABLE t (code TEXT PRIMARY KEY COLLATE NOCASE, n); CREATE TABLE player (id INTEGER PRIMARY KEY, n)"
        )
        try fixture.db.history.enable(for: "t")
        try fixture.db.history.enable(for: "player")
        try fixture.execute("INSERT INTO t VALUES ('a', 1), ('b', 2); DELETE FROM t WHERE code = 'a'")
        try fixture.executeElsewhere("VACUUM")
        try fixture.execute("UPDATE t SET n = 3; UPDATE t SET code = 'B'; UPDATE t SET code = 'c', n = 4")
        #expect(
            try fixture.lines(in: ["t"]) == [
                "insert a", "insert b", "delete a", "update b", "delete b", "insert B", "delete B", "insert c",
            ]
        )
        try fixture.execute("INSERT INTO player VALUES (1, 1); UPDATE player SET rowid = 5; UPDATE player SET n = 2")
        #expect(try fixture.lines(in: ["player"]) == ["insert 1", "delete 1", "insert 5", "update 5"])
    }

    /// **Rule H4**: statements that fire no simple trigger: truncation, cascades, triggers of the user's, upserts.
    @Test func indirectChanges() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE, touched INTEGER DEFAULT 0);
            CREATE TABLE player (id INTEGER PRIMARY KEY, team REFERENCES team ON DELETE CASCADE ON UPDATE CASCADE);
            CREATE TABLE log (id INTEGER PRIMARY KEY, text);
            """
        )
        for table in ["team", "player", "log"] { try fixture.db.history.enable(for: table) }
        try fixture.execute(
            """
            CREATE TRIGGER touch AFTER INSERT ON team BEGIN UPDATE team SET touched = 1 WHERE id = new.id; END;
            CREATE TRIGGER logged AFTER DELETE ON player BEGIN INSERT INTO log (text) VALUES (old.id); END;
            INSERT INTO team (id, name) VALUES (1, 'red'), (2, 'blue');
            INSERT INTO player VALUES (10, 1), (11, 1), (12, 2);
            """
        )
        #expect(
            try fixture.lines(in: ["team"]).sorted() == ["insert 1", "insert 2", "update 1", "update 2"]
        )
        var token = try fixture.db.history.currentToken()
        try fixture.execute("UPDATE team SET id = 3 WHERE id = 1; DELETE FROM team WHERE id = 3")
        #expect(
            try fixture.lines(token, in: ["player"]).sorted() == ["delete 10", "delete 11", "update 10", "update 11"]
        )
        #expect(try fixture.lines(token, in: ["log"]) == ["insert 1", "insert 2"])
        token = try fixture.db.history.currentToken()
        try fixture.execute("INSERT INTO team (name) VALUES ('blue') ON CONFLICT (name) DO UPDATE SET touched = 5")
        try fixture.execute("INSERT OR IGNORE INTO team (name) VALUES ('blue')")
        #expect(try fixture.lines(token) == ["update 2"])
        token = try fixture.db.history.currentToken()
        try fixture.execute("DELETE FROM log")
        #expect(try fixture.lines(token) == ["delete 1", "delete 2"])
    }

    // MARK: What REPLACE deletes

    /// **Rule H7**: no row is deleted without a record, whichever unique index it is in the way of.
    @Test(arguments: [false, true], [false, true])
    func replacedRows(recursiveTriggers: Bool, elsewhere: Bool) throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE COLLATE NOCASE, b, c, d TEXT NOT NULL DEFAULT 'dd', g AS (c + 1),
                touched, UNIQUE (b, c));
            CREATE UNIQUE INDEX partial ON t (a, b) WHERE c > 5;
            CREATE UNIQUE INDEX "an expression" ON t ( lower(b) /* a comment, ( */ DESC, -- another
                coalesce(c, ')') ) where touched IS NOT NULL AND b <> ' WHERE ';
            CREATE UNIQUE INDEX generated ON t (g);
            CREATE UNIQUE INDEX defaulted ON t (d) WHERE a LIKE 'default%';
            """
        )
        try fixture.db.history.enable(for: "t")
        // Writes the same table within the same statement.
        try fixture.execute(
            "CREATE TRIGGER touch AFTER INSERT ON t BEGIN UPDATE t SET touched = 1 WHERE id = new.id; END"
        )
        func expect(_ sql: String, _ expected: Set<String>, _ location: SourceLocation = #_sourceLocation) throws {
            let keys = "SELECT 'row ' || id FROM t"
            let before = try fixture.db.read { try Set(String.fetchAll($0, sql: keys)) }
            let token = try fixture.db.history.currentToken()
            let script = "PRAGMA recursive_triggers = \(recursiveTriggers ? "ON" : "OFF"); \(sql)"
            if elsewhere {
                try fixture.executeElsewhere(script)
            } else {
                try fixture.db.writeWithoutTransaction { try $0.execute(sql: script) }
            }
            let lines = try Set(fixture.lines(token).filter { !$0.hasPrefix("update") })
            // With recursive triggers, a row that is replaced by one with its own key is reported as deleted first.
            let same = Set(expected.map { $0.replacingOccurrences(of: "insert", with: "delete") })
            let isRight = recursiveTriggers ? lines.subtracting(same) == expected.subtracting(same) : lines == expected
            #expect(isRight, "\(sql): \(lines)", sourceLocation: location)
            let after = try fixture.db.read { try Set(String.fetchAll($0, sql: keys)) }
            let deleted = Set(before.subtracting(after).map { $0.replacingOccurrences(of: "row", with: "delete") })
            #expect(deleted.isSubset(of: lines), "\(sql)", sourceLocation: location)
        }
        try expect(
            "INSERT INTO t (id, a, b, c, d) VALUES (1, 'x', 1, 1, 'd1'), (2, 'y', 2, 2, 'd2')",
            ["insert 1", "insert 2"]
        )
        try expect("INSERT OR REPLACE INTO t (a) VALUES ('X')", ["delete 1", "insert 3"])
        try expect("REPLACE INTO t (id, a, b, c) VALUES (4, 'Y', 9, 9)", ["delete 2", "insert 4"])
        try expect("INSERT OR IGNORE INTO t (id, a) VALUES (5, 'y')", [])
        try expect("INSERT INTO t (id, a) VALUES (6, 'y') ON CONFLICT DO UPDATE SET d = 'upserted'", [])
        try expect("UPDATE OR REPLACE t SET a = 'Y' WHERE id = 3", ["delete 4"])
        try expect("UPDATE OR IGNORE t SET a = a", [])
        try expect("REPLACE INTO t (id, a, b, c) VALUES (7, 'q', 'B', 6)", ["insert 7"])
        try expect("REPLACE INTO t (id, a, b, c) VALUES (8, 'r', 'b', 6)", ["delete 7", "insert 8"])
        try expect("REPLACE INTO t (id, c, b) VALUES (9, 6, 'other')", ["delete 8", "insert 9"])
        try expect("INSERT INTO t (id, a) VALUES (10, 'default 1')", ["insert 10"])
        try expect("REPLACE INTO t (id, a, d) VALUES (11, 'default 2', NULL)", ["delete 10", "insert 11"])
        try expect(
            "INSERT INTO t (id, a, b, c) VALUES (20, 'i', 'j', 30), (21, 'k', 'l', 31)",
            ["insert 20", "insert 21"]
        )
        // Two rows for one; then one row by its key and another by an index.
        try expect("REPLACE INTO t (id, a, c) VALUES (22, 'I', 31)", ["delete 20", "delete 21", "insert 22"])
        try expect("REPLACE INTO t (id, a, c) VALUES (3, 'i', 40)", ["delete 22", "insert 3"])
        try expect("REPLACE INTO t (id, a, c) VALUES (3, 'i', 41)", ["insert 3"])
        try expect("UPDATE OR REPLACE t SET id = 11 WHERE id = 3", ["delete 3", "insert 11"])
    }

    /// **Rule H7** for keys that are unique to a collation, keys of several columns, and tables without rowids.
    @Test func replacedRowsOfOtherKeys() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE nocase (k TEXT PRIMARY KEY COLLATE NOCASE, n);
            CREATE TABLE two (a, b, u UNIQUE ON CONFLICT REPLACE, PRIMARY KEY (a, b)) WITHOUT ROWID;
            CREATE TABLE three (a, b, u UNIQUE, PRIMARY KEY (a, b));
            """
        )
        for table in ["nocase", "two", "three"] { try fixture.db.history.enable(for: table) }
        try fixture.executeElsewhere("INSERT INTO nocase VALUES ('a', 1); REPLACE INTO nocase VALUES ('A', 2)")
        #expect(try fixture.lines(in: ["nocase"]).sorted() == ["delete a", "insert A", "insert a"])
        try fixture.executeElsewhere("INSERT INTO two VALUES (1, 2, 'x'); INSERT INTO two VALUES (1, 3, 'x')")
        #expect(try fixture.lines(in: ["two"]).sorted() == ["delete 1,2", "insert 1,2", "insert 1,3"])
        try fixture.executeElsewhere("INSERT INTO three VALUES (1, 2, 'x'); REPLACE INTO three VALUES (1, 3, 'x')")
        #expect(try fixture.lines(in: ["three"]).sorted() == ["delete 1,2", "insert 1,2", "insert 1,3"])
    }
}
