import Foundation
import GRDB
import Roundtable
import RoundtableHistory
import RoundtableUnitSupport
import Testing

/// Any program can write any values to the tables of the history. A reader of them gets an error, and writes continue: no value ends a process.
@Suite struct HistoryDamageTests {
    private static let columns = [
        "history": ["table_id", "operation", "row_key", "columns", "time", "transaction_id", "author", "old_values"],
        "history_tables": [
            "name", "state", "recording", "key_columns", "conflicts", "generation", "gap", "kept_columns",
        ],
        "history_consumers": ["sequence", "seen", "state", "tables"],
        "history_settings": [
            "format", "identity", "kept_after", "maximum_age", "maximum_count", "minimum_count", "consumer_timeout",
        ],
    ]
    private static let values = [
        "'x'", "x'ff'", "x''", "''", "1e300", "-1e300", "9223372036854775807", "-9223372036854775808", "NULL", "'C'",
        "'X'", "'[1]'",
    ]

    private func readAndWrite(_ fixture: HistoryFixture) throws {
        let history = fixture.db.history
        _ = try? fixture.changes()
        _ = try? history.consumers()
        _ = try? fixture.db.read { try DatabaseHistory.settings(in: $0) }
        _ = try? fixture.db.read { try DatabaseHistory.token(beforeLast: 2, from: $0) }
        _ = try? history.consume(as: "b") { _ in }
        // Another participant looks at the tables again, and prunes with its first write.
        let other = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "other")
        try other.write { try $0.execute(sql: "INSERT INTO team VALUES (2, 'y', 1)") }
        try other.write { try $0.execute(sql: "UPDATE other SET a = a + 1") }
        try other.close()
    }

    @Test(.long(), arguments: columns.keys.sorted()) func strangeValues(table: String) throws {
        for column in try #require(Self.columns[table]) {
            for value in Self.values {
                let fixture = try HistoryFixture(
                    "CREATE TABLE team (a, b, c, PRIMARY KEY (a, b)); CREATE TABLE other (a); INSERT INTO other VALUES (1)"
                )
                try fixture.db.history.enable(for: "team", recording: .changedColumns, keeping: .deletedAndUpdated("c"))
                try fixture.execute("INSERT INTO team VALUES (1, 'x', 1); UPDATE team SET c = 2")
                try fixture.executeElsewhere(
                    "INSERT INTO roundtable_history_consumers VALUES ('b', 0, strftime('%s', 'now'), 'following', NULL)"
                )
                do {
                    try fixture.executeElsewhere("UPDATE roundtable_\(table) SET \(column) = \(value)")
                } catch DatabaseError.SQLITE_CONSTRAINT {
                    continue
                }
                do {
                    try readAndWrite(fixture)
                } catch {
                    Issue.record("\(table).\(column) = \(value): \(error)")
                }
            }
        }
    }

    /// The columns that have JSON, of which a decoder's own error would name neither the database nor the table.
    @Test(arguments: ["key_columns", "conflicts", "kept_columns"], ["x", "{}", "[1]", "[[]]"])
    func aTableThatIsMalformed(column: String, value: String) throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        try fixture.execute("INSERT INTO player (name) VALUES ('A')")
        try fixture.executeElsewhere("UPDATE roundtable_history_tables SET \(column) = '\(value)'")
        let error = try #require(throws: DatabaseError.self) { _ = try fixture.changes() }
        #expect(error.resultCode == .SQLITE_CORRUPT)
        #expect(error.message?.contains("'roundtable_history_tables.\(column)' that") == true, "\(error)")
    }

    @Test func theErrorSaysWhatToDo() throws {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        try fixture.execute("INSERT INTO player (name) VALUES ('A')")
        try fixture.executeElsewhere("UPDATE roundtable_history SET time = 'soon'")
        let error = try #require(throws: DatabaseError.self) { _ = try fixture.changes() }
        #expect(error.resultCode == .SQLITE_CORRUPT)
        #expect(error.message?.contains("have a value in 'time' that Roundtable did not write") == true, "\(error)")
    }
}
