import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableHistory

/// Rows whose deletion cascades to the row that is being updated (rule H14b).
extension HistoryOldValuesTests {
    /// A tree whose names are unique.
    private static let tree = """
        CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE, parent REFERENCES item ON DELETE CASCADE, serverID)
        """

    private func notes(_ fixture: HistoryFixture) throws -> Int? {
        let sql = "SELECT count(*) FROM roundtable_history_conflicts"
        return try fixture.stranger.inDatabase { try Int.fetchOne($0, sql: sql) }
    }

    /// **Rule H14b**: the notes of an update that has succeeded are deleted. A later row with the same key is deleted, and the row that the
    /// update had replaced is not recorded again.
    @Test(arguments: [false, true]) func updateLeavesNoNotes(recursive: Bool) throws {
        let fixture = try keeping(Self.tree)
        try fixture.executeElsewhere("PRAGMA recursive_triggers = \(recursive)")
        try fixture.executeElsewhere("INSERT INTO item VALUES (0, 'x', NULL, 'a'), (3, 'y', NULL, 'b')")
        let replaced = try lines(fixture, "UPDATE OR REPLACE item SET id = 0 WHERE id = 3")
        #expect(
            replaced.sorted()
                == (recursive
                    ? ["delete 0: serverID=a", "delete 3: serverID=b", "insert 0"]
                    : ["delete 3: serverID=b", "insert 0: serverID=a"])
        )
        #expect(try notes(fixture) == 0)
        #expect(try lines(fixture, "DELETE FROM item WHERE id = 0") == ["delete 0: serverID=b"])
        try fixture.executeElsewhere("INSERT INTO item VALUES (3, 'z', NULL, 'c')")
        #expect(try lines(fixture, "DELETE FROM item WHERE id = 3") == ["delete 3: serverID=c"])
    }

    /// **Rule H14b**: an update that is ignored, or fails without being undone, leaves a note of the row 1, which is in its way. Whatever
    /// happens to that row before the row 2 is deleted, each id is in one change.
    @Test(
        arguments: ["IGNORE", "FAIL"],
        [
            "DELETE FROM item WHERE id = 1",
            "UPDATE item SET serverID = 'c' WHERE id = 1; DELETE FROM item WHERE id = 1",
            "REPLACE INTO item VALUES (1, 'z', NULL, 'c'); DELETE FROM item WHERE id = 2",
            "REPLACE INTO item VALUES (4, 'x', NULL, 'c'); DELETE FROM item WHERE id = 2",
            "UPDATE item SET parent = NULL; UPDATE item SET id = 5 WHERE id = 1; DELETE FROM item WHERE id = 2",
            "UPDATE item SET parent = NULL; REPLACE INTO item VALUES (1, 'z', NULL, 'c'); DELETE FROM item WHERE id = 2",
            """
            UPDATE item SET parent = NULL; UPDATE item SET serverID = 'c' WHERE id = 1;
            REPLACE INTO item VALUES (4, 'x', 2, 'd'); DELETE FROM item
            """,
            "UPDATE item SET name = 'z' WHERE id = 2; DELETE FROM item",
        ]
    )
    func notesOfUpdatesThatDidNothing(conflict: String, statements: String) throws {
        for recursive in [false, true] {
            let fixture = try keeping(Self.tree)
            try fixture.executeElsewhere("PRAGMA recursive_triggers = \(recursive)")
            try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'x', NULL, 'a'), (2, 'y', 1, 'b')")
            _ = try? fixture.executeElsewhere("UPDATE OR \(conflict) item SET name = 'x' WHERE id = 2")
            #expect(try notes(fixture) ?? 0 > 0, "there is no note that could be wrong")
            let token = try fixture.db.history.currentToken()
            try fixture.executeElsewhere(statements)
            let ids = try fixture.changes(token).compactMap {
                String.fromDatabaseValue($0.oldValue("serverID") ?? .null)
            }
            let isOverwritten = statements.contains("SET serverID")
            let isMoved = statements.contains("SET id")
            let gone = try fixture.stranger.inDatabase { db in
                Set(["a", "b"]).subtracting(try String.fetchSet(db, sql: "SELECT serverID FROM item"))
            }
            let expected = gone.subtracting(isOverwritten ? ["a"] : []).union(isMoved ? ["a"] : [])
            #expect(Set(ids).count == ids.count, "repeated: \(ids), \(recursive)")
            #expect(Set(ids).intersection(["a", "b"]) == expected, "\(recursive)")
        }
    }

    /// **Rule H14b**: the row that an update replaces takes the updated row with it. Both are recorded once, also if the replaced row fires
    /// its own trigger, and if another foreign key updates the row before it is deleted.
    @Test(
        arguments: [false, true],
        [
            "name UNIQUE, parent REFERENCES item ON DELETE CASCADE, other",
            "other, parent REFERENCES item ON DELETE CASCADE, name UNIQUE REFERENCES item ON DELETE SET NULL",
        ]
    )
    func replacedByTheRowThatGoesWithIt(recursive: Bool, columns: String) throws {
        let fixture = try keeping("CREATE TABLE item (id INTEGER PRIMARY KEY, \(columns), serverID)")
        try fixture.executeElsewhere("PRAGMA recursive_triggers = \(recursive)")
        try fixture.executeElsewhere(
            "INSERT INTO item (id, name, parent, serverID) VALUES (1, NULL, NULL, 'a'), (2, 1, 1, 'b')"
        )
        let changes = try lines(fixture, "UPDATE OR REPLACE item SET id = 1 WHERE id = 2").filter { $0 != "update 2" }
        #expect(changes.sorted() == ["delete 1: serverID=a", "delete 2: serverID=b"])
    }

    /// **Rules H12, H14**: triggers that are younger than those of the history, until a participant finds them, update the new row before it is
    /// recorded. The values of the replaced row are not lost.
    @Test(arguments: ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY"]) func youngerTriggersUpdateTheNewRow(key: String)
        throws
    {
        let fixture = try keeping("CREATE TABLE item (id \(key), name UNIQUE, touched, serverID)")
        try fixture.executeElsewhere(
            """
            INSERT INTO item VALUES (1, 'x', NULL, 'a'), (2, 'y', NULL, 'b');
            CREATE TRIGGER inserted AFTER INSERT ON item BEGIN UPDATE item SET touched = 1 WHERE id = new.id; END;
            CREATE TRIGGER updated AFTER UPDATE OF id, name ON item BEGIN UPDATE item SET touched = 2 WHERE id = new.id; END;
            """
        )
        #expect(try lines(fixture, "REPLACE INTO item VALUES (1, 'z', NULL, 'c')").contains("insert 1: serverID=a"))
        let moved = try lines(fixture, "UPDATE OR REPLACE item SET id = 1 WHERE id = 2")
        #expect(moved.contains("insert 1: serverID=c") && moved.contains("delete 2: serverID=b"))
    }

    /// **Rules H14a, H14b**, by random statements of every conflict clause on tables that cascade to themselves: each id that has left the table
    /// is in exactly one change.
    @Test(.long(), arguments: [false, true]) func noIDIsLostOrRepeatedByCascades(recursive: Bool) throws {
        var random = SeededGenerator()
        let tables = [
            Self.tree,
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE REFERENCES item ON DELETE CASCADE, parent, serverID)",
            """
            CREATE TABLE item (id TEXT PRIMARY KEY, name UNIQUE, parent REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE,
                serverID)
            """,
            """
            CREATE TABLE item (id PRIMARY KEY, name UNIQUE REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE, parent,
                serverID) WITHOUT ROWID
            """,
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, parent REFERENCES item ON DELETE CASCADE, name UNIQUE REFERENCES item ON DELETE SET NULL,
                serverID)
            """,
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE, parent REFERENCES folder ON DELETE CASCADE, serverID);
            CREATE TABLE folder (id INTEGER PRIMARY KEY, item REFERENCES item ON DELETE CASCADE)
            """,
        ]
        // All rounds of a long run have seeds of their own, which follow the first one.
        for round in 0..<(isLongRun ? 300 : 1) {
            if round > 0 { random = SeededGenerator(seed: random.seed &+ 1) }
            for (number, table) in tables.enumerated() {
                try runCascades(table, recursive: recursive, "seed \(random.seed), table \(number)", &random)
            }
        }
    }

    private func runCascades(
        _ table: String,
        recursive: Bool,
        _ name: String,
        _ random: inout SeededGenerator
    ) throws {
        let fixture = try keeping(table)
        try fixture.executeElsewhere("PRAGMA recursive_triggers = \(recursive); PRAGMA synchronous = OFF")
        var gone: Set<String> = []
        // Some tables refuse most statements. The walk continues until enough rows have been deleted.
        for step in 0..<3_000 where step < 300 || gone.count <= 10 {
            let statement = Self.cascadingStatement(step, &random, hasFolders: table.contains("folder"))
            func alive() throws -> Set<String> {
                try fixture.stranger.inDatabase { try String.fetchSet($0, sql: "SELECT serverID FROM item") }
            }
            let before = try alive()
            let token = try fixture.db.history.currentToken()
            _ = try? fixture.executeElsewhere(statement)
            let after = try alive()
            let reported = try fixture.changes(token).compactMap { $0.oldValue("serverID") }
                .compactMap(String.fromDatabaseValue).filter { !after.contains($0) }
            // An id that an update has overwritten is no row that was deleted.
            let missing = before.subtracting(after).subtracting(reported)
            #expect(
                missing.isEmpty || (statement.contains("SET serverID") && missing.count == 1),
                "lost; \(name), step \(step): \(statement): \(missing)"
            )
            #expect(
                Set(reported).count == reported.count && gone.isDisjoint(with: reported),
                "repeated; \(name), step \(step): \(statement): \(reported)"
            )
            gone.formUnion(before.subtracting(after))
        }
        #expect(gone.count > 10, "\(name): too few rows have gone")
    }

    /// A statement that is in conflict with at most one row for each row that it writes: REPLACE deletes a second one without firing any
    /// trigger if the deletion of the first one has cascaded to the updated row.
    private static func cascadingStatement(
        _ step: Int,
        _ random: inout SeededGenerator,
        hasFolders: Bool
    ) -> String {
        func key() -> String { "\(Int.random(in: 0..<12, using: &random))" }
        func reference() -> String { Int.random(in: 0..<3, using: &random) == 0 ? "NULL" : key() }
        let conflict = ["OR REPLACE", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", ""]
            .randomElement(using: &random)!
        let row = "item (id, name, parent, serverID) VALUES (\(key()), \(reference()), \(reference()), 's\(step)')"
        return switch Int.random(in: 0..<14, using: &random) {
        case 0...4: "INSERT \(conflict) INTO \(row)"
        case 5: "INSERT INTO \(row) ON CONFLICT DO UPDATE SET serverID = 't\(step)', name = \(reference())"
        case 6: "UPDATE \(conflict) item SET id = \(key()) WHERE id = \(key())"
        case 7: "UPDATE \(conflict) item SET name = \(reference()) WHERE id = \(key())"
        case 8: "UPDATE \(conflict) item SET parent = \(reference()) WHERE id = \(key())"
        case 9: "UPDATE item SET serverID = 'u\(step)' WHERE id = \(key())"
        case 10: "UPDATE \(conflict) item SET name = name + 1 WHERE id < \(key())"
        case 11 where hasFolders: "REPLACE INTO folder VALUES (\(key()), \(reference()))"
        case 11:
            "UPDATE \(conflict) item SET name = \(reference()), parent = \(reference()) WHERE id IN (\(key()), \(key()))"
        case 12: "DELETE FROM item WHERE id IN (\(key()), \(key()))"
        default: "DELETE FROM item WHERE id = \(key())"
        }
    }
}
