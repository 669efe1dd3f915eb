import Foundation
import GRDB
import GRDBSQLite
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableHistory
@testable import RoundtableTables

/// What happens within one statement: other triggers, generated columns, cascades, long values.
@Suite struct HistoryTriggerTests {
    private func operations(_ fixture: HistoryFixture, _ sql: String, elsewhere: Bool = true) throws -> [String] {
        let token = try fixture.db.history.currentToken()
        if elsewhere { try fixture.executeElsewhere(sql) } else { try fixture.execute(sql) }
        return try fixture.lines(token)
    }

    /// **Rule H7**: in a BEFORE UPDATE trigger a generated column is NULL unless the triggers name what it is made of.
    @Test(arguments: ["UNIQUE", "UNIQUE ON CONFLICT REPLACE", "STORED UNIQUE"], [true, false])
    func uniqueGeneratedColumn(constraint: String, isOrReplace: Bool) throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, g AS (a || '-' || b) \(constraint));
            CREATE TABLE text (k TEXT PRIMARY KEY, a, b, g AS (a || b), h AS (g || 'h') \(constraint));
            """
        )
        try fixture.db.history.enable(for: "t")
        try fixture.db.history.enable(for: "text")
        let isReplaced = isOrReplace || constraint.hasSuffix("REPLACE")
        let update = isOrReplace ? "UPDATE OR REPLACE" : isReplaced ? "UPDATE" : "UPDATE OR IGNORE"
        try fixture.execute("INSERT INTO t (id, a, b) VALUES (1, 1, 1), (2, 1, 2)")
        try fixture.execute("INSERT INTO text (k, a, b) VALUES ('x', 1, 1), ('y', 1, 2)")
        let expected = isReplaced ? ["delete 1", "update 2"] : []
        #expect(try operations(fixture, "\(update) t SET b = 1 WHERE id = 2").sorted() == expected)
        #expect(try operations(fixture, "UPDATE t SET b = 5 WHERE id = 2") == ["update 2"])
        let texts = isReplaced ? ["delete x", "update y"] : []
        #expect(try operations(fixture, "\(update) text SET b = 1 WHERE k = 'y'").sorted() == texts)
    }

    /// **Rule H12**: triggers of the user's fire before those of the history when they are younger, and after them when they
    /// are older. The last word about a row is right all the same.
    @Test(arguments: [false, true], [false, true])
    func otherTriggersOfTheTable(isYounger: Bool, isTemporary: Bool) throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a, u UNIQUE);
            CREATE TABLE text (k TEXT PRIMARY KEY COLLATE NOCASE, a) WITHOUT ROWID;
            """
        )
        let temporary = isTemporary ? "TEMP " : ""
        let triggers = """
            CREATE \(temporary)TRIGGER spam AFTER INSERT ON t WHEN new.a = 'spam' BEGIN DELETE FROM t WHERE id = new.id; END;
            CREATE \(temporary)TRIGGER undead AFTER DELETE ON t WHEN old.a = 'undead' BEGIN
                INSERT INTO t (id) VALUES (old.id);
            END;
            CREATE \(temporary)TRIGGER moved AFTER UPDATE ON t WHEN new.a = 'moved' BEGIN
                UPDATE t SET id = new.id + 100, a = NULL WHERE id = new.id;
            END;
            CREATE \(temporary)TRIGGER gone AFTER UPDATE ON text WHEN new.a = 'gone' BEGIN
                DELETE FROM text WHERE k = new.k;
            END;
            """
        if !isYounger { try fixture.executeElsewhere(triggers) }
        try fixture.db.history.enable(for: "t")
        try fixture.db.history.enable(for: "text")
        if isYounger { try fixture.executeElsewhere(triggers) }
        let start = try fixture.db.history.currentToken()

        #expect(try operations(fixture, "INSERT INTO t (id, a) VALUES (1, 'spam')").last == "delete 1")
        try fixture.executeElsewhere("INSERT INTO t (id, a, u) VALUES (2, 'undead', 'x'), (3, 'b', 'y')")
        let undead = try operations(fixture, "DELETE FROM t WHERE id = 2")
        #expect(undead.last == "insert 2" && undead.count <= 2)
        let moved = try operations(fixture, "UPDATE t SET a = 'moved' WHERE id = 3")
        #expect(moved.last { $0.hasSuffix(" 3") } == "delete 3" && moved.last { $0.hasSuffix(" 103") } == "insert 103")
        try fixture.executeElsewhere("INSERT INTO text VALUES ('k', 1)")
        #expect(
            try operations(fixture, "UPDATE text SET a = 'gone', k = 'K'").last { $0.hasSuffix(" K") } != "insert K"
        )
        #expect(try operations(fixture, "INSERT INTO text VALUES ('k', 1)") == ["insert k"])
        #expect(try operations(fixture, "UPDATE text SET k = 'K'") == ["delete k", "insert K"])

        var last: [Int64: HistoryChange.Operation] = [:]
        for change in try fixture.changes(start, in: ["t"]) { last[try #require(change.id)] = change.operation }
        let kept = Set(last.filter { $0.value != .delete }.keys)
        #expect(try fixture.db.read { try Set(Int64.fetchAll($0, sql: "SELECT id FROM t")) } == kept)
        // No reader has to start over for them.
        try fixture.execute("INSERT INTO t (id) VALUES (50)")
        #expect(try fixture.lines(start).last == "insert 50")
    }

    /// **Rule H12**: a younger trigger that ends the statement prevents the others from firing. Readers get an error; the next writer puts
    /// the triggers in order, once, and leaves those that take notes where they were.
    @Test(arguments: ["RAISE(IGNORE)", "raise ( fail, 'no')"]) func triggerThatEndsTheStatement(raise: String) throws {
        let fixture = try HistoryFixture("CREATE TABLE player (id INTEGER PRIMARY KEY, name UNIQUE)")
        try fixture.db.history.enable(for: "player")
        let token = try fixture.db.history.currentToken()
        func schema(_ condition: String) throws -> [Int64] {
            let sql =
                "SELECT rowid FROM sqlite_master WHERE name GLOB 'roundtable_history_1_*' AND \(condition) ORDER BY name"
            return try fixture.stranger.inDatabase { try Int64.fetchAll($0, sql: sql) }
        }
        let notes = try schema("sql LIKE '%BEFORE%'")
        try fixture.executeElsewhere(
            """
            CREATE TRIGGER "an after" BEFORE INSERT ON player WHEN new.name = 'no' BEGIN SELECT RAISE(IGNORE); END;
            CREATE TRIGGER harmless AFTER INSERT ON player BEGIN SELECT 1; END;
            """
        )
        #expect(try operations(fixture, "INSERT INTO player VALUES (1, 'a'), (2, 'no')") == ["insert 1"])
        try fixture.execute("INSERT INTO player VALUES (3, 'b')")
        #expect(try fixture.lines(token) == ["insert 1", "insert 3"])

        try fixture.executeElsewhere(
            """
            CREATE TRIGGER "after ""all" AFTER INSERT ON PLAYER WHEN new.name = 'c' BEGIN SELECT \(raise); END
            """
        )
        _ = try? fixture.executeElsewhere("INSERT INTO player VALUES (4, 'c')")
        #expect(startOverReason { _ = try fixture.lines(token) } == .changesMissing(table: "player"))
        try fixture.execute("INSERT INTO player VALUES (5, 'd')")
        #expect(startOverReason { _ = try fixture.lines(token) } == .changesMissing(table: "player"))
        let inOrder = try schema("true")
        try #require(schema("sql LIKE '%BEFORE%'") == notes && notes.count == 2)
        let current = try fixture.db.history.currentToken()
        _ = try? fixture.executeElsewhere(
            "UPDATE player SET name = 'e' WHERE id = 4; INSERT INTO player VALUES (6, 'c')"
        )
        #expect(try fixture.lines(current) == ["update 4", "insert 6"])

        // No participant has anything to put in order any more.
        try fixture.db.history.enable(for: "player")
        let second = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "second")
        try second.write { try $0.execute(sql: "DELETE FROM player; CREATE TABLE other (a)") }
        try fixture.execute("INSERT INTO player VALUES (7, 'f')")
        #expect(try fixture.lines(current).last == "insert 7")
        #expect(try schema("true") == inOrder)
    }

    /// **Rule H12**: rows whose key is NULL are added and removed one by one; and the question whether a row is there uses the key's index,
    /// whatever its collation.
    @Test func keysThatAreLookedUp() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE nulls (a, b, PRIMARY KEY (a, b));
            CREATE TABLE odd (k TEXT, n, PRIMARY KEY (k COLLATE NOCASE));
            CREATE TABLE t (id INTEGER PRIMARY KEY, n);
            """
        )
        for table in ["nulls", "odd", "t"] { try fixture.db.history.enable(for: table) }
        try fixture.executeElsewhere("INSERT INTO nulls VALUES (1, NULL), (1, NULL)")
        #expect(try operations(fixture, "DELETE FROM nulls WHERE rowid = 1") == ["delete 1,NULL"])
        #expect(try operations(fixture, "UPDATE nulls SET b = 2") == ["delete 1,NULL", "insert 1,2"])
        let plans = try fixture.stranger.inDatabase { db in
            try ["nulls", "odd", "t"].flatMap { table in
                let triggers = HistoryTriggers(shape: try TableShape(db, table: table), id: 1, recording: .rows)
                return try ["IS", "="].flatMap { comparison in
                    let sql = "EXPLAIN QUERY PLAN SELECT \(triggers.exists("new", comparison)) FROM \(table) AS new"
                    return try Row.fetchAll(db, sql: sql).map { $0["detail"] as String }
                }
            }
        }
        #expect(plans.filter { $0.hasPrefix("SEARCH existing") }.count == 6, "\(plans)")
    }

    /// **Rule H7**: the row in conflict is deleted, and with it the row that was to be updated.
    @Test(arguments: [false, true]) func replacedRowThatCascades(byOtherTables: Bool) throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE player (id INTEGER PRIMARY KEY, u UNIQUE,
                captain REFERENCES \(byOtherTables ? "team" : "player") ON DELETE CASCADE);
            CREATE TABLE team (id INTEGER PRIMARY KEY REFERENCES player ON DELETE CASCADE);
            CREATE TABLE pair (a, b, x, y, PRIMARY KEY (a, b), FOREIGN KEY (x, y) REFERENCES pair ON DELETE CASCADE);
            INSERT INTO player VALUES (3, 'x', NULL), (5, 'y', NULL), (7, 'z', NULL);
            INSERT INTO team VALUES (3), (5), (7);
            INSERT INTO player VALUES (2, 'p', 3), (4, 'q', 5), (6, 'r', 7);
            INSERT INTO pair VALUES (1, 'one', NULL, NULL), (2, 'two', 1, 'one');
            """
        )
        try fixture.db.history.enable(for: "player")
        try fixture.db.history.enable(for: "pair")
        #expect(
            try operations(fixture, "UPDATE OR REPLACE player SET id = 3 WHERE id = 2").sorted() == [
                "delete 2", "delete 3",
            ]
        )
        #expect(
            try operations(fixture, "UPDATE OR REPLACE player SET u = 'y' WHERE id = 4").sorted() == [
                "delete 4", "delete 5",
            ]
        )
        #expect(
            try operations(fixture, "UPDATE OR REPLACE pair SET a = 1, b = 'one' WHERE a = 2").sorted()
                == ["delete 1,one", "delete 2,two"]
        )
        // What does not cascade is reported as before.
        #expect(
            try operations(fixture, "UPDATE OR REPLACE player SET id = 8 WHERE id = 6") == ["delete 6", "insert 8"]
        )
        #expect(try operations(fixture, "DELETE FROM player").sorted() == ["delete 7", "delete 8"])
    }

    /// **Rule H7**: an update that takes no notes leaves those of others alone: of the statement that it is a part of, and of one
    /// long ago.
    @Test func notesOfOthers() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a REFERENCES t ON DELETE SET NULL, b UNIQUE);
            CREATE TABLE text (k TEXT PRIMARY KEY, u UNIQUE);
            INSERT INTO t VALUES (1, NULL, 'x'), (3, 1, 'y');
            INSERT INTO text VALUES ('k', 'u');
            """
        )
        for table in ["t", "text"] { try fixture.db.history.enable(for: table) }
        #expect(try operations(fixture, "REPLACE INTO t (id, b) VALUES (1, 'y')").contains("delete 3"))
        #expect(try operations(fixture, "INSERT OR IGNORE INTO text VALUES ('other', 'u')") == [])
        #expect(try operations(fixture, "UPDATE text SET rowid = 9") == ["update k"])
    }

    /// **Rule H7**: a value may be as long as SQLite allows.
    @Test func longUniqueValues() throws {
        let fixture = try HistoryFixture("CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE)")
        try fixture.db.history.enable(for: "t")
        fixture.stranger.inDatabase { _ = sqlite3_limit($0.sqliteConnection, SQLITE_LIMIT_LENGTH, 100_000) }
        for value in ["zeroblob(90000)", "replace(hex(zeroblob(45000)), '0', '''')"] {
            try fixture.executeElsewhere("DELETE FROM t; INSERT INTO t VALUES (1, \(value))")
            #expect(
                try operations(fixture, "REPLACE INTO t VALUES (2, \(value))").sorted() == ["delete 1", "insert 2"]
            )
            try fixture.executeElsewhere("INSERT INTO t VALUES (3, 'other')")
            let update = "UPDATE OR REPLACE t SET u = \(value) WHERE id = 3"
            #expect(try operations(fixture, update).sorted() == ["delete 2", "update 3"])
        }
    }

    /// **Rule H7**: notes of what REPLACE did not do are not kept for long.
    @Test func notesGo() throws {
        let fixture = try HistoryFixture("CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE)")
        try fixture.db.history.enable(for: "t")
        for value in 0..<100 {
            try fixture.execute("INSERT INTO t (u) VALUES (\(value)); INSERT OR IGNORE INTO t (u) VALUES (\(value))")
        }
        let notes = "SELECT count(*) FROM roundtable_history_conflicts"
        try #require(try fixture.db.read { try Int.fetchOne($0, sql: notes) } ?? 0 > 0)
        // Nothing is old enough to be pruned.
        for _ in 0...HistoryPruning.interval { try fixture.execute("INSERT INTO t DEFAULT VALUES") }
        #expect(try fixture.db.read { try Int.fetchOne($0, sql: notes) } == 0)
    }

    /// **Rule H1**: names with the prefix are refused, and tables of the user's that have one are not taken for remains.
    @Test func reservedNames() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE player (id INTEGER PRIMARY KEY);
            CREATE TABLE roundtable_history_of_mine (id INTEGER PRIMARY KEY);
            """
        )
        do {
            try fixture.db.history.enable(for: "Roundtable_History_of_mine")
            Issue.record("not refused")
        } catch HistoryError.cannotTrack(_, _, let reason) {
            #expect(reason.contains("roundtable_") && reason.contains("Rename"))
        }
        try fixture.db.history.enable(for: "player")
        try fixture.executeElsewhere("DROP TABLE roundtable_history")
        try fixture.db.history.enable(for: "player")
        #expect(try operations(fixture, "INSERT INTO player VALUES (1)", elsewhere: false) == ["insert 1"])
        #expect(try fixture.db.read { try $0.tableExists("roundtable_history_of_mine") })
    }
}
