import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableHistory

/// Names of columns that look like a part of the triggers (rule H13c).
extension HistoryOldValuesTests {
    private static let hostileNames = [
        "length(old.", "x) > 1000000 THEN '' ELSE '0,' || ", "length(old.\"x\") > 1000000 THEN '' ELSE '0,' || ",
        "length(CAST(old.\"x\" AS BLOB)) > 1000000 THEN '' ELSE '0,' || CASE WHEN typeof(old.\"x\"", "typeof(old.",
        "'0,' || CASE WHEN typeof(old.", "'0,' || CASE WHEN typeof(old.x) || '",
        "CREATE TRIGGER roundtable_history_1_delete ",
        "", " ", "\"", "\"\"", "a\"b", "\"a", "a\"", "'", "'0,'", "`", "[", "]", "--", "/*", ";", "\n", "NULL", "old",
        "ä\u{301}", "🎲",
        // A quote and an accent are one character.
        "\u{301}", "\"\u{301}", "a\"\u{301}\"\u{301}b", "'\u{301}",
    ]

    private func changesBy(_ fixture: HistoryFixture, _ sql: String) throws -> [[String: DatabaseValue]] {
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere(sql)
        return try fixture.changes(token).map(\.oldValues)
    }

    /// **Rule H13c**: a column of any name is kept, before and after it is renamed. The triggers stay as they are, and no reader starts over.
    @Test(arguments: hostileNames) func hostileNameOfAColumn(name: String) throws {
        let columns = "id INTEGER PRIMARY KEY, \(name.quotedForTest), other, u UNIQUE"
        let fixture = try HistoryFixture("CREATE TABLE item (\(columns))")
        try fixture.db.history.enable(for: "item", keeping: OldValuePolicy(columns: [name, "other"]))
        let start = try fixture.db.history.currentToken()
        let insertion = "INSERT INTO item VALUES (1, 'a', 'b', 'c')"
        let deletion = try changesBy(fixture, "\(insertion); DELETE FROM item")
        let (first, second) = (["a", "b"].map(\.databaseValue), ["d", "e"].map(\.databaseValue))
        let none: [String: DatabaseValue] = [:]
        #expect(deletion == [none, [name: first[0], "other": first[1]]])
        // The first write of a participant compares the triggers with what the table needs.
        let version = try fixture.db.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") }
        let other = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "second")
        try other.write { try $0.execute(sql: insertion) }
        #expect(try fixture.db.read { try Int.fetchOne($0, sql: "PRAGMA schema_version") } == version)
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": [name, "other"]])
        let replacement = try changesBy(fixture, "REPLACE INTO item VALUES (2, 'd', 'e', 'c'); DELETE FROM item")
        let replaced = [[name: first[0], "other": first[1]], [name: second[0], "other": second[1]]]
        #expect(replacement.filter { $0 != none } == replaced)
        #expect(throws: Never.self) { try fixture.changes(start) }
    }

    /// **Rule H13c**: a kept column gets any name, and stays kept when a participant synchronizes.
    @Test(arguments: hostileNames) func columnGetsAHostileName(name: String) throws {
        let fixture = try keeping("CREATE TABLE item (id INTEGER PRIMARY KEY, serverID, other)", ["serverID", "other"])
        let start = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("ALTER TABLE item RENAME COLUMN serverID TO \(name.quotedForTest)")
        let old = [name: "a".databaseValue, "other": "b".databaseValue]
        #expect(try changesBy(fixture, "INSERT INTO item VALUES (1, 'a', 'b'); DELETE FROM item") == [[:], old])
        try fixture.execute("INSERT INTO item VALUES (2, 'a', 'b')")
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": [name, "other"]])
        #expect(try changesBy(fixture, "DELETE FROM item") == [old])
        #expect(try fixture.changes(start).map(\.oldValues) == [[:], old, [:], old])
    }

    /// **Rule H13c**: a participant that finds no column with the name in the trigger keeps it no longer, and readers start over.
    @Test func lostColumn() throws {
        let fixture = try keeping()
        let token = try fixture.db.history.currentToken()
        try fixture.stranger.inDatabase { db in
            let sql = "SELECT sql FROM sqlite_master WHERE name = 'roundtable_history_1_delete'"
            let text = try #require(try String.fetchOne(db, sql: sql))
            try db.execute(sql: "DROP TRIGGER roundtable_history_1_delete; \(text.replacing("serverID", with: "lost"))")
        }
        try fixture.execute("INSERT INTO item VALUES (1, 'a', 'A'); DELETE FROM item")
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == [:])
        #expect(startOverReason { _ = try fixture.changes(token) } == .changesMissing(table: "item"))
    }
}

extension String {
    /// The name as an identifier of SQL, made independently of the library.
    fileprivate var quotedForTest: String {
        String(decoding: [0x22] + utf8.flatMap { $0 == 0x22 ? [0x22, 0x22] : [$0] } + [0x22], as: UTF8.self)
    }
}
