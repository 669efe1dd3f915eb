import Foundation
import GRDB
import GRDBSQLite
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableHistory

/// What the history keeps of rows that are deleted, replaced and updated (rules H13, H14).
@Suite struct HistoryOldValuesTests {
    static let item = "CREATE TABLE item (id INTEGER PRIMARY KEY, name, serverID)"

    func keeping(_ sql: String = item, _ keeping: OldValuePolicy = ["serverID"]) throws -> HistoryFixture {
        let fixture = try HistoryFixture(sql)
        try fixture.db.history.enable(for: "item", keeping: keeping)
        return fixture
    }

    /// Such as `delete 1: serverID=a`.
    func lines(_ fixture: HistoryFixture, _ sql: String) throws -> [String] {
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere(sql)
        return try lines(fixture, since: token)
    }

    func lines(_ fixture: HistoryFixture, since token: HistoryToken?) throws -> [String] {
        try fixture.changes(token).map { change in
            let values = change.oldValues.sorted { $0.key < $1.key }.map { "\($0.key)=\(Self.text($0.value))" }
            return change.line + (values.isEmpty ? "" : ": " + values.joined(separator: " "))
        }
    }

    private static func text(_ value: DatabaseValue) -> String {
        switch value.storage {
        case .null: "NULL"
        case .string(let text): text
        case .int64(let number): "\(number)"
        case .double(let number): "\(number)"
        case .blob(let data): "x" + data.map { String(format: "%02x", $0) }.joined()
        }
    }

    // MARK: Values

    /// **Rule H13b**: a value of every type comes back as it was, whichever program deletes the row.
    @Test(arguments: [false, true]) func valuesOfEveryType(elsewhere: Bool) throws {
        let fixture = try keeping("CREATE TABLE item (id INTEGER PRIMARY KEY, a, b)", .deletedAndUpdated("a", "b"))
        let values: [DatabaseValue] = [
            .null, 0.databaseValue, Int64.min.databaseValue, Int64.max.databaseValue, 0.1.databaseValue,
            1e300.databaseValue, 3.0.databaseValue, Double.infinity.databaseValue, (-Double.infinity).databaseValue,
            "".databaseValue, "it's, 'NULL',1".databaseValue, "ÄÖ日本🎲".databaseValue,
            "12".databaseValue, Data().databaseValue, Data([0, 39, 255]).databaseValue,
        ]
        let token = try fixture.db.history.currentToken()
        for (index, value) in values.enumerated() {
            let other = values[values.count - 1 - index]
            try fixture.db.write { db in
                try db.execute(sql: "INSERT INTO item VALUES (?, ?, ?)", arguments: [index, value, other])
            }
        }
        let statements = "UPDATE item SET b = 'x'; DELETE FROM item;"
        if elsewhere { try fixture.executeElsewhere(statements) } else { try fixture.execute(statements) }
        let changes = try fixture.changes(token)
        let updates = changes.filter { $0.operation == .update }
        let deletions = changes.filter { $0.operation == .delete }
        // GRDB ends a text at a NUL, so the value is not an argument.
        try fixture.execute("INSERT INTO item VALUES (99, 'a' || char(0) || 'b''', 1); DELETE FROM item")
        #expect(try fixture.changes(token).last?.oldValue("a") == "a\0b'".databaseValue)
        #expect(deletions.map { $0.oldValue("a") } == values)
        #expect(deletions.allSatisfy { $0.oldValue("B") == "x".databaseValue })
        #expect(updates.map { $0.oldValue("b") } == values.reversed())
        #expect(changes.filter { $0.operation == .insert }.allSatisfy { $0.oldValues.isEmpty })
        #expect(deletions[4].oldRow["a"] as Double? == 0.1 && deletions[0].oldRow["a"] as Int? == nil)
        #expect(deletions[0].oldValue("id") == nil)
    }

    /// **Rule H14a**: several changes of one row, read together: each has its own old values.
    @Test func eachChangeHasItsOwn() throws {
        let fixture = try keeping(Self.item, .deletedAndUpdated("serverID"))
        try fixture.db.history.enable(for: "item", recording: .changedColumns, keeping: ["name"])
        let read = try lines(
            fixture,
            """
            INSERT INTO item VALUES (1, 'n', 'a'); UPDATE item SET serverID = 'b'; UPDATE item SET name = 'm';
            DELETE FROM item; INSERT INTO item VALUES (1, NULL, 'c'); DELETE FROM item;
            """
        )
        #expect(
            read == [
                "insert 1", "update 1: serverID=a", "update 1: serverID=b", "delete 1: name=m serverID=b", "insert 1",
                "delete 1: name=NULL serverID=c",
            ]
        )
        #expect(try fixture.changes().filter { $0.operation == .update }.map(\.columns) == [["serverID"], ["name"]])
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": ["name", "serverID"]])
    }

    /// Generated columns are kept with the values that they had.
    @Test func generatedColumns() throws {
        let fixture = try keeping(
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, u UNIQUE, serverID AS (u || '-v') VIRTUAL, stored AS (u || '-s') STORED)
            """,
            .deletedAndUpdated("serverID", "stored")
        )
        try fixture.executeElsewhere("INSERT INTO item (id, u) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        #expect(try lines(fixture, "DELETE FROM item WHERE id = 1") == ["delete 1: serverID=a-v stored=a-s"])
        #expect(try lines(fixture, "UPDATE item SET u = 'd' WHERE id = 2") == ["update 2: serverID=b-v stored=b-s"])
        #expect(
            try lines(fixture, "REPLACE INTO item (id, u) VALUES (9, 'd')").sorted()
                == ["delete 2: serverID=d-v stored=d-s", "insert 9"]
        )
        #expect(
            try lines(fixture, "REPLACE INTO item (id, u) VALUES (3, 'x')") == ["insert 3: serverID=c-v stored=c-s"]
        )
    }

    // MARK: Rows that are deleted

    /// **Rule H14**: REPLACE, by the key and by other indexes; keys that change; statements that do nothing leave no trace.
    @Test(arguments: [false, true]) func replacedRows(recursive: Bool) throws {
        let fixture = try keeping("CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE, serverID)")
        try fixture.executeElsewhere("PRAGMA recursive_triggers = \(recursive)")
        try fixture.executeElsewhere(
            "INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B'), (3, 'c', 'C'), (4, 'd', 'D')"
        )
        let byKey = try lines(fixture, "REPLACE INTO item VALUES (1, 'a', 'E')")
        #expect(byKey == (recursive ? ["delete 1: serverID=A", "insert 1"] : ["insert 1: serverID=A"]))
        let both = try lines(fixture, "REPLACE INTO item VALUES (1, 'b', NULL)")
        #expect(both.contains { $0.hasSuffix(" 1: serverID=E") } && both.contains("delete 2: serverID=B"))
        #expect(both.count == (recursive ? 3 : 2))
        let moved = try lines(fixture, "UPDATE OR REPLACE item SET id = 4 WHERE id = 3")
        #expect(moved.contains("delete 3: serverID=C") && moved.contains { $0.hasSuffix(" 4: serverID=D") })
        #expect(moved.count == (recursive ? 3 : 2))
        #expect(try lines(fixture, "INSERT OR IGNORE INTO item VALUES (4, 'z', 'Z')").isEmpty)
        let upsert = "INSERT INTO item VALUES (4, 'z', 'Z') ON CONFLICT (id) DO UPDATE SET serverID = excluded.serverID"
        #expect(try lines(fixture, upsert) == ["update 4"])
        #expect(try lines(fixture, "DELETE FROM item WHERE id = 4") == ["delete 4: serverID=Z"])
        #expect(try lines(fixture, "INSERT INTO item VALUES (4, 'z', 'Y')") == ["insert 4"])
        #expect(try lines(fixture, "DELETE FROM item WHERE id = 1") == ["delete 1: serverID=NULL"])
    }

    /// **Rule H14**: a row that is replaced by its key and by another index, too, is in one change: the insertion in its place. The new row has
    /// another rowid, so that the former one counts as gone.
    @Test(arguments: ["", " WITHOUT ROWID"]) func replacedByKeyAndIndex(options: String) throws {
        let fixture = try keeping("CREATE TABLE item (id TEXT PRIMARY KEY, u UNIQUE, serverID)\(options)")
        try fixture.executeElsewhere("INSERT INTO item VALUES ('a', 'x', 'A'), ('b', 'y', 'B')")
        #expect(try lines(fixture, "REPLACE INTO item VALUES ('a', 'x', 'C')") == ["insert a: serverID=A"])
        let moved = try lines(fixture, "UPDATE OR REPLACE item SET id = 'a', u = 'x' WHERE id = 'b'")
        #expect(moved == ["delete b: serverID=B", "insert a: serverID=C"])
        #expect(try lines(fixture, "DELETE FROM item") == ["delete a: serverID=B"])
    }

    /// **Rule H14**: many UPSERTs leave no notes, which would hold old values.
    @Test func upsertLeavesNoNotes() throws {
        let fixture = try keeping()
        try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'a', 'A')")
        for _ in 0..<20 {
            try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'b', 'B') ON CONFLICT DO UPDATE SET name = 'c'")
        }
        let notes = "SELECT count(*) FROM roundtable_history_conflicts"
        #expect(try fixture.stranger.inDatabase { try Int.fetchOne($0, sql: notes) } == 0)
    }

    /// **Rule H14**: rows that foreign keys delete.
    @Test func cascades() throws {
        let fixture = try keeping(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, u UNIQUE);
            CREATE TABLE item (id INTEGER PRIMARY KEY, folder REFERENCES folder ON DELETE CASCADE,
                parent REFERENCES item ON DELETE CASCADE, serverID);
            INSERT INTO folder VALUES (1, 'x'), (2, 'y');
            INSERT INTO item VALUES (1, 1, NULL, 'a'), (2, NULL, 1, 'b'), (3, 2, NULL, 'c');
            """
        )
        #expect(
            try lines(fixture, "DELETE FROM folder WHERE id = 1").sorted()
                == ["delete 1: serverID=a", "delete 2: serverID=b"]
        )
        #expect(try lines(fixture, "REPLACE INTO folder VALUES (3, 'y')") == ["delete 3: serverID=c"])
    }

    /// **Rule H14a**, by random statements on tables of all kinds: each id that has left the table is in exactly one change.
    @Test(.long(oneIn: 32), arguments: [false, true])
    func noIDIsLostOrRepeated(recursive: Bool) throws {
        var random = SeededGenerator()
        let tables = [
            "CREATE TABLE item (k INTEGER PRIMARY KEY, u UNIQUE, serverID)",
            "CREATE TABLE item (k TEXT PRIMARY KEY, u UNIQUE, serverID)",
            "CREATE TABLE item (k PRIMARY KEY, u UNIQUE ON CONFLICT REPLACE, serverID) WITHOUT ROWID",
            "CREATE TABLE item (k TEXT PRIMARY KEY ON CONFLICT REPLACE COLLATE NOCASE, u, serverID)",
            "CREATE TABLE item (k, u, serverID, PRIMARY KEY (k, u))",
            "CREATE TABLE item (k INTEGER PRIMARY KEY, u UNIQUE REFERENCES item ON DELETE CASCADE, serverID)",
            "CREATE TABLE item (k NOT NULL DEFAULT 3 PRIMARY KEY, u AS (k % 5) UNIQUE, serverID)",
            """
            CREATE TABLE item (k INTEGER PRIMARY KEY, u UNIQUE, serverID);
            CREATE TRIGGER older AFTER INSERT ON item WHEN new.k % 7 = 0 BEGIN DELETE FROM item WHERE k = new.k; END;
            """,
        ]
        let younger = """
            CREATE TRIGGER younger AFTER INSERT ON item WHEN new.k % 5 = 0 AND new.k > 0 BEGIN DELETE FROM item WHERE k = new.k; END;
            CREATE TRIGGER undead AFTER DELETE ON item WHEN old.k % 6 = 0 BEGIN
                INSERT OR IGNORE INTO item (k, serverID) VALUES (old.k, 'undead-' || hex(randomblob(8)));
            END;
            """
        for (number, table) in tables.enumerated() {
            let fixture = try keeping(table)
            try fixture.executeElsewhere(
                "PRAGMA recursive_triggers = \(recursive); PRAGMA foreign_keys = \(number == 5)"
            )
            if number == 7 { try fixture.executeElsewhere(younger) }
            var gone: Set<String> = []
            // Some tables refuse most statements. The walk continues until enough rows have been deleted.
            for step in 0..<4_000 where step < 400 || gone.count <= 10 {
                func key() -> String {
                    let number = Int.random(in: 0..<12, using: &random)
                    return table.contains("TEXT")
                        ? (Bool.random(using: &random) ? "'k\(number)'" : "'K\(number)'") : "\(number)"
                }
                let isGenerated = table.contains(" AS (")
                let u = table.contains("CASCADE") ? key() : "'u\(Int.random(in: 0..<8, using: &random))'"
                let columns = isGenerated ? "(k, serverID)" : "(k, u, serverID)"
                let values = isGenerated ? "(\(key()), 's\(step)')" : "(\(key()), \(u), 's\(step)')"
                // A row that is moved, and then replaced by another one that is moved, is reported for both.
                let isOneRow =
                    table.contains("PRIMARY KEY (k, u)") ? " AND u = 'u\(Int.random(in: 0..<8, using: &random))'" : ""
                let statement =
                    switch Int.random(in: 0..<12, using: &random) {
                    case 0...3: "INSERT OR REPLACE INTO item \(columns) VALUES \(values)"
                    case 4: "INSERT OR IGNORE INTO item \(columns) VALUES \(values)"
                    case 5:
                        "INSERT INTO item \(columns) VALUES \(values) ON CONFLICT DO UPDATE SET serverID = 's\(step)'"
                    case 6: "UPDATE OR REPLACE item SET k = \(key()) WHERE k = \(key())\(isOneRow)"
                    case 7:
                        isGenerated ? "SELECT 1" : "UPDATE OR REPLACE item SET u = \(u) WHERE k = \(key())\(isOneRow)"
                    case 8: "REPLACE INTO item (serverID) VALUES ('s\(step)')"
                    case 9 where table.contains("PRIMARY KEY (k, u)"): "SELECT 1"
                    case 9: "UPDATE item SET serverID = 's\(step)' WHERE k = \(key())"
                    default: "DELETE FROM item WHERE k = \(key())"
                    }
                func alive() throws -> Set<String> {
                    let sql = "SELECT serverID FROM item WHERE serverID IS NOT NULL"
                    return try fixture.stranger.inDatabase { try String.fetchSet($0, sql: sql) }
                }
                let before = try alive()
                let token = try fixture.db.history.currentToken()
                _ = try? fixture.executeElsewhere(statement)
                let after = try alive()
                let changes = try fixture.changes(token)
                let reported = changes.filter { $0.operation != .update }.compactMap { $0.oldValue("serverID") }
                    .compactMap(String.fromDatabaseValue).filter { !after.contains($0) }
                // An id that an update has overwritten is no row that was deleted.
                let overwritten = statement.contains("SET serverID")
                let missing = before.subtracting(after).subtracting(reported)
                #expect(
                    missing.isEmpty || (overwritten && missing.count == 1),
                    "seed \(random.seed), table \(number), step \(step): \(statement): \(changes.map(\.line))"
                )
                #expect(
                    Set(reported).count == reported.count && gone.isDisjoint(with: reported),
                    "repeated; seed \(random.seed), table \(number), step \(step): \(statement): \(reported)"
                )
                gone.formUnion(reported)
            }
            #expect(gone.count > 10, "table \(number): too few rows have gone")
        }
    }

    // MARK: Columns that change

    /// **Rule H13c**: the present name is reported, of changes before and after; SQLite has the triggers in order.
    @Test func renamedColumn() throws {
        let fixture = try keeping(Self.item, ["serverID", "name"])
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B'), (3, 'c', 'C')")
        try fixture.executeElsewhere("DELETE FROM item WHERE id = 1")
        try fixture.executeElsewhere("ALTER TABLE item RENAME COLUMN serverID TO \"the \"\"id\"")
        try fixture.executeElsewhere("DELETE FROM item WHERE id = 2")
        let expected = ["delete 1: name=a the \"id=A", "delete 2: name=b the \"id=B"]
        #expect(try lines(fixture, since: token).suffix(2) == expected)
        try fixture.execute("DELETE FROM item WHERE id = 3")
        #expect(try lines(fixture, since: token).suffix(3) == expected + ["delete 3: name=c the \"id=C"])
        let stored = "SELECT kept_columns FROM roundtable_history_tables"
        #expect(try fixture.db.read { try String.fetchOne($0, sql: stored) }?.contains("serverID") == false)
        // The triggers are as they should be.
        let version = try fixture.db.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "second").write { db in
            try db.execute(sql: "DELETE FROM item")
        }
        #expect(try fixture.db.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") } == version)
    }

    /// **Rule H13c**: a kept column is dropped after it is no longer kept; what was kept of it can be read.
    @Test func droppedColumn() throws {
        let fixture = try keeping(Self.item, ["serverID", "name"])
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B'), (3, 'c', 'C')")
        try fixture.executeElsewhere("DELETE FROM item WHERE id = 1")
        #expect(throws: DatabaseError.self) { try fixture.executeElsewhere("ALTER TABLE item DROP COLUMN serverID") }
        try fixture.db.write { db in
            try DatabaseHistory.stopKeeping(["SERVERID"], of: "item", in: db)
            try db.execute(sql: "ALTER TABLE item DROP COLUMN serverID; DELETE FROM item WHERE id = 2")
        }
        let before = ["delete 1: name=a serverID=A", "delete 2: name=b"]
        #expect(try lines(fixture, since: token).suffix(2) == before)
        #expect(throws: HistoryError.self) { try fixture.db.history.enable(for: "item", keeping: ["serverID"]) }
        // A column of the same name is another one.
        try fixture.execute("ALTER TABLE item ADD COLUMN serverID DEFAULT 'new'")
        try fixture.db.history.enable(for: "item", keeping: ["serverID"])
        try fixture.executeElsewhere("DELETE FROM item WHERE id = 3")
        #expect(try lines(fixture, since: token).suffix(3) == before + ["delete 3: name=c serverID=new"])
        try fixture.db.write { try DatabaseHistory.stopKeeping(of: "item", in: $0) }
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == [:])
    }

    /// **Rules H8, H13c**: a table that was recreated without the column keeps the others.
    @Test func recreatedTable() throws {
        let fixture = try keeping(Self.item, ["serverID", "name"])
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere(
            "CREATE TABLE new (id INTEGER PRIMARY KEY, name); DROP TABLE item; ALTER TABLE new RENAME TO item"
        )
        #expect(startOverReason { _ = try fixture.changes(token) } == .changesMissing(table: "item"))
        try fixture.execute("INSERT INTO item VALUES (1, 'a'); DELETE FROM item")
        #expect(try lines(fixture, since: nil).suffix(2) == ["insert 1", "delete 1: name=a"])
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": ["name"]])
    }

    // MARK: Programs of two versions

    /// Makes the tables of the history those of the version before.
    func makeFormer(_ fixture: HistoryFixture) throws {
        try fixture.executeElsewhere(
            """
            ALTER TABLE roundtable_history DROP COLUMN old_values;
            ALTER TABLE roundtable_history_tables DROP COLUMN kept_columns;
            ALTER TABLE roundtable_history_conflicts DROP COLUMN old_values;
            ALTER TABLE roundtable_history_conflicts DROP COLUMN noted_after;
            """
        )
    }

    /// **Rule H13a**: a history of the version before is read and written as before; keeping values adds the columns, and loses nothing.
    @Test func upgrade() throws {
        let fixture = try HistoryFixture(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, u UNIQUE, serverID); CREATE TABLE other (id INTEGER PRIMARY KEY)"
        )
        try fixture.db.history.enable(for: "item")
        try makeFormer(fixture)
        let db = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "new")
        try db.history.enable(for: "other")
        try db.history.restartConsumer("engine")
        let token = try db.history.currentToken()
        try db.write {
            try $0.execute(sql: "INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B'); DELETE FROM item WHERE id = 1")
        }
        #expect(try lines(fixture, since: token) == ["insert 1", "insert 2", "delete 1"])
        let version = "PRAGMA schema_version"
        let before = try db.read { try Int.fetchOne($0, sql: version) }
        try db.write { try $0.execute(sql: "DELETE FROM other") }
        #expect(try db.read { try Int.fetchOne($0, sql: version) } == before)

        try db.history.enable(for: "item", keeping: ["serverID"])
        try fixture.executeElsewhere("DELETE FROM item")
        let expected = ["insert 1", "insert 2", "delete 1", "delete 2: serverID=B"]
        #expect(try lines(fixture, since: token) == expected)
        let consumed = try db.history.consume(as: "engine", in: ["item"]) { (_: [HistoryChange]) in }
        #expect(consumed.changes.map(\.line) == ["insert 1", "insert 2", "delete 1", "delete 2"])
        try db.write {
            try $0.execute(sql: "INSERT INTO item VALUES (5, 'e', 'E'); REPLACE INTO item VALUES (6, 'e', 'F')")
        }
        #expect(try lines(fixture, since: token).contains("delete 5: serverID=E"))
    }

    /// **Rule H13a**: a program of the version before has put its triggers. Readers start over, once, and the values are kept again.
    @Test func formerTriggers() throws {
        let fixture = try keeping()
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere(
            """
            DROP TRIGGER roundtable_history_1_delete;
            CREATE TRIGGER roundtable_history_1_delete AFTER DELETE ON item BEGIN
                INSERT INTO roundtable_history (table_id, operation, row_key) VALUES (1, 'delete', old.id);
            END;
            UPDATE roundtable_history_tables SET generation = 1;
            INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B');
            DELETE FROM item WHERE id = 1;
            """
        )
        #expect(startOverReason { _ = try fixture.changes(token) } == .changesMissing(table: "item"))
        try fixture.execute("DELETE FROM item WHERE id = 2")
        #expect(startOverReason { _ = try fixture.changes(token) } == .changesMissing(table: "item"))
        #expect(try lines(fixture, since: nil) == ["delete 2: serverID=B"])
        let current = try fixture.db.history.currentToken()
        try fixture.execute("INSERT INTO item VALUES (3, 'a', 'A'); DELETE FROM item")
        #expect(try lines(fixture, since: current) == ["insert 3", "delete 3: serverID=A"])
    }

    /// **Rule H13a**: enabling a table whose triggers are of a later version leaves them alone.
    @Test func laterTriggers() throws {
        let fixture = try keeping()
        try fixture.executeElsewhere("UPDATE roundtable_history_tables SET generation = 99")
        let texts = "SELECT rowid, name, sql FROM sqlite_master ORDER BY name"
        let before = try fixture.db.read { try Row.fetchAll($0, sql: texts) }
        try fixture.db.history.enable(for: "item", recording: .changedColumns, keeping: ["name"])
        #expect(try fixture.db.read { try Row.fetchAll($0, sql: texts) } == before)
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": ["name", "serverID"]])
        #expect(
            try fixture.db.read { try Int.fetchOne($0, sql: "SELECT generation FROM roundtable_history_tables") } == 99
        )
    }

    /// What is declared once more changes nothing; an unknown column is refused, and nothing is created.
    @Test func declarations() throws {
        let fixture = try HistoryFixture(Self.item)
        #expect(throws: HistoryError.self) { try fixture.db.history.enable(for: "item", keeping: ["nothing"]) }
        #expect(try fixture.db.read { try $0.tableExists("roundtable_history") } == false)
        try fixture.db.history.enable(for: "item", keeping: .deletedAndUpdated("serverID"))
        let token = try fixture.db.history.currentToken()
        let version = try fixture.db.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        try fixture.db.history.enable(for: "item", keeping: ["SERVERID"])
        try fixture.db.history.enable(for: "item")
        #expect(try fixture.db.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") } == version)
        #expect(try fixture.db.history.currentToken() == token)
        try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'a', 'A'); UPDATE item SET name = 'b'")
        #expect(try lines(fixture, since: token) == ["insert 1", "update 1: serverID=A"])
        // What a table kept before it was disabled is not kept again.
        try fixture.db.history.disable(for: "item")
        try fixture.db.history.enable(for: "item")
        #expect(try lines(fixture, "DELETE FROM item") == ["delete 1"])
    }

    // MARK: Authors

    /// **Rule H5**: a part of a write has another author; the name ends with the part, however that ends.
    @Test func anotherAuthor() async throws {
        let fixture = try keeping()
        let token = try await fixture.db.history.currentToken()
        struct Failure: Error {}
        @Sendable func insert(_ db: Database) throws { try db.execute(sql: "INSERT INTO item DEFAULT VALUES") }
        try await fixture.db.write { db in
            try insert(db)
            try DatabaseHistory.write(as: "server", in: db) {
                try insert(db)
                try DatabaseHistory.write(as: "other", in: db) { try insert(db) }
                try insert(db)
            }
            try insert(db)
            try? DatabaseHistory.write(as: "server", in: db) { throw Failure() }
            try insert(db)
        }
        try await fixture.db.write(insert)
        let changes = try fixture.changes(token)
        #expect(changes.map(\.author) == ["app", "server", "other", "server", "app", "app", "app"])
        #expect(Set(changes.prefix(6).map(\.transaction)).count == 1)
        do {
            try await fixture.stranger.write { try DatabaseHistory.write(as: "server", in: $0) {} }
            Issue.record("not refused")
        } catch let error as DatabaseError {
            #expect(error.resultCode == .SQLITE_MISUSE && error.message?.contains("SharedDatabase") == true)
        }
    }

    /// **Rule H5**: the author of a part ends with its write, also if the statement that resets it was interrupted.
    @Test func theAuthorOfAnInterruptedPart() throws {
        struct Failure: Error {}
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        #expect(throws: Failure.self) {
            try fixture.db.write { db in
                // An interruption lasts as long as a statement of the connection runs.
                let cursor = try Row.fetchCursor(db, sql: "SELECT 1 UNION ALL SELECT 2")
                _ = try cursor.next()
                try withExtendedLifetime(cursor) {
                    try DatabaseHistory.write(as: "server", in: db) {
                        fixture.db.interrupt()
                        throw Failure()
                    }
                }
            }
        }
        try fixture.execute("INSERT INTO player (name) VALUES ('A')")
        #expect(try fixture.changes().map(\.author) == ["app"])
    }
}
