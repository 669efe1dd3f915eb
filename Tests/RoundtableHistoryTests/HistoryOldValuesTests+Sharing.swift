import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableHistory

/// Old values beside what else happens to a shared database.
extension HistoryOldValuesTests {
    private func readOnly(_ fixture: HistoryFixture) throws -> SharedDatabase {
        let answer = try SharedDatabase.openReadOnly(at: fixture.url, schema: .unmanaged, as: "reader")
        guard case .available(let reader) = answer else { throw DatabaseError(message: "\(answer)") }
        return reader
    }

    /// **Rule H13a**: a read-only participant reads old values, of a history of the version before too, and adds nothing to it.
    @Test func readOnlyParticipant() throws {
        let fixture = try HistoryFixture(Self.item)
        try fixture.db.history.enable(for: "item")
        try makeFormer(fixture)
        let token = try fixture.db.history.currentToken()
        try fixture.execute("INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B'); DELETE FROM item WHERE id = 1")
        let reader = try readOnly(fixture)
        let before = try reader.history.changes(since: token, in: nil).changes
        #expect(
            before.map(\.line) == ["insert 1", "insert 2", "delete 1"] && before.allSatisfy { $0.oldValues.isEmpty }
        )
        #expect(try reader.read { try DatabaseHistory.keptColumns(in: $0) } == [:])
        #expect(try fixture.db.read { try HistoryTables.canKeepValues($0) } == false)
        try fixture.db.history.enable(for: "item", keeping: ["serverID"])
        try fixture.executeElsewhere("DELETE FROM item")
        let after = try reader.history.changes(since: token, in: nil).changes
        #expect(after.map(\.line) == before.map(\.line) + ["delete 2"])
        #expect(after.map { $0.oldValue("serverID") } == [nil, nil, nil, "B".databaseValue])
        #expect(try reader.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": ["serverID"]])
    }

    /// **Rules H10, H14b**: pruning deletes old values with their changes, and the notes that updates which did nothing have left.
    @Test func pruningDeletesOldValues() throws {
        let fixture = try keeping(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE, parent REFERENCES item ON DELETE CASCADE, serverID)"
        )
        var settings = DatabaseHistory.Settings()
        settings.minimumCount = 0
        try fixture.db.write { try DatabaseHistory.setSettings(settings, in: $0) }
        try fixture.db.history.restartConsumer("engine")
        try fixture.execute("INSERT INTO item VALUES (1, 'x', NULL, 'a'), (2, 'y', 1, 'b'), (3, 'z', NULL, 'c')")
        try fixture.execute("UPDATE OR IGNORE item SET name = 'x' WHERE id = 2; DELETE FROM item WHERE id = 3")
        func kept() throws -> [String] {
            let sql = """
                SELECT old_values FROM roundtable_history WHERE old_values IS NOT NULL
                UNION ALL SELECT 'note ' || old_values FROM roundtable_history_conflicts
                """
            return try fixture.db.read { try String.fetchAll($0, sql: sql) }
        }
        #expect(try Set(kept()) == ["0,'c',", "note 0,'a',"])
        _ = try fixture.db.history.consume(as: "engine") { (_: [HistoryChange]) in }
        for id in 10..<(10 + 2 * HistoryPruning.interval) {
            try fixture.execute("INSERT INTO item (id) VALUES (\(id))")
        }
        #expect(try kept() == [])
        #expect(
            try lines(fixture, "DELETE FROM item WHERE id < 3").sorted() == [
                "delete 1: serverID=a", "delete 2: serverID=b",
            ]
        )
    }

    /// **Rule H13c**: a migration renames a kept column, keeps another one no longer, and drops that one.
    @Test func migration() throws {
        let folder = try TemporaryFolder()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("item") { db in
            try db.execute(sql: Self.item)
            try DatabaseHistory.enable(for: "item", keeping: ["serverID", "name"], in: db)
            try db.execute(sql: "INSERT INTO item VALUES (1, 'a', 'A'), (2, 'b', 'B')")
        }
        let url = folder.file("migrated.sqlite")
        let first = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "first")
        let token = try first.history.currentToken()
        try first.write { try $0.execute(sql: "DELETE FROM item WHERE id = 1") }
        try first.close()
        migrator.registerMigration("names") { db in
            try db.alter(table: "item") { $0.rename(column: "serverID", to: "remote") }
            try DatabaseHistory.stopKeeping(["name"], of: "item", in: db)
            try db.alter(table: "item") { $0.drop(column: "name") }
        }
        let second = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "second")
        try second.write { try $0.execute(sql: "DELETE FROM item WHERE id = 2") }
        let changes = try second.history.changes(since: token, in: nil).changes
        #expect(
            changes.map(\.oldValues) == [
                ["name": "a".databaseValue, "remote": "A".databaseValue], ["remote": "B".databaseValue],
            ]
        )
        try second.close()
    }
}
