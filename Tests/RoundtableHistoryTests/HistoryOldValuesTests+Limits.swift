import Foundation
import GRDB
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableHistory

/// Values that are too long to be kept, and triggers of the generation before, which measured texts in characters (rules H13a, H13b).
extension HistoryOldValuesTests {
    /// **Rule H13b**: a value that is too long is left out, the others are kept, and the deletion succeeds. Texts are measured in bytes.
    @Test func longValues() throws {
        let fixture = try keeping("CREATE TABLE item (id INTEGER PRIMARY KEY, serverID, body)", ["serverID", "body"])
        let most = HistoryTriggers.longestValue
        try fixture.executeElsewhere(
            """
            INSERT INTO item VALUES (1, 'a', zeroblob(\(most))), (2, 'b', zeroblob(\(most + 1))),
                (3, 'c', replace(hex(zeroblob(\(most / 4))), '0', 'ä')),
                (4, replace(hex(zeroblob(\(most / 2 + 1))), '0', 'x'), NULL),
                (5, 'e', 'x' || replace(hex(zeroblob(\(most / 4))), '0', 'ä'))
            """
        )
        let token = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("DELETE FROM item")
        let changes = try fixture.changes(token)
        let kept: [String?] = ["a", "b", "c", nil, "e"]
        #expect(changes.map { $0.oldValue("serverID") } == kept.map { $0?.databaseValue })
        #expect(changes[0].oldValue("body") == Data(count: most).databaseValue)
        #expect(changes[1].oldValue("body") == nil && changes[3].oldValue("body") == .null)
        #expect(changes[2].oldValue("body") == String(repeating: "ä", count: most / 2).databaseValue)
        #expect(changes[4].oldValue("body") == nil, "a text of 1,000,001 bytes, and of 500,001 characters")
    }

    /// **Rule H13b**: what follows a NUL counts, in deletions, updates, replacements by the key and by another index.
    @Test(
        .long(),
        arguments: [
            "DELETE FROM item", "UPDATE item SET touched = 1", "UPDATE item SET id = 2",
            "REPLACE INTO item (id) VALUES (1)", "REPLACE INTO item (id, u) VALUES (2, 'u')",
        ]
    )
    func textsWithZeros(statement: String) throws {
        let most = HistoryTriggers.longestValue
        for (length, isKept) in [(most, true), (most + 1, false), (2 * most, false)] {
            let fixture = try keeping(
                "CREATE TABLE item (id INTEGER PRIMARY KEY, u UNIQUE, serverID, touched)",
                .deletedAndUpdated("serverID")
            )
            // The NUL is the first character.
            try fixture.executeElsewhere(
                """
                INSERT INTO item VALUES (1, 'u', char(0) || substr(replace(hex(zeroblob(\(most))), '0', 'x'), 1, \(length - 1)), 0)
                """
            )
            let size = "SELECT length(CAST(serverID AS BLOB)) FROM item"
            #expect(try fixture.stranger.inDatabase { try Int.fetchOne($0, sql: size) } == length)
            let token = try fixture.db.history.currentToken()
            try fixture.executeElsewhere(statement)
            let kept = try fixture.changes(token).compactMap { $0.oldValue("serverID") }
            // A failure must not print the values.
            let value = "\0" + String(repeating: "x", count: length - 1)
            let isAsExpected = kept == (isKept ? [value.databaseValue] : [])
            #expect(isAsExpected, "\(length) bytes: \(kept.count) values")
        }
    }

    /// Opens a database whose texts have another encoding.
    private func open(in folder: TemporaryFolder, encoding: String, _ table: String) throws -> SharedDatabase {
        let url = folder.file("\(encoding).sqlite")
        let stranger = try DatabaseQueue(path: url.path)
        try stranger.writeWithoutTransaction { try $0.execute(sql: "PRAGMA encoding = '\(encoding)'; \(table)") }
        try stranger.close()
        let db = try SharedDatabase.open(at: url, schema: .unmanaged, as: "app")
        try db.history.enable(for: "item", keeping: ["serverID"])
        return db
    }

    /// **Rules H4, H13b**: a text with a NUL comes back as it was, in every encoding, in a key of two columns too.
    @Test(arguments: ["UTF-8", "UTF-16le", "UTF-16be"]) func encodingOfTextsWithZeros(encoding: String) throws {
        let folder = try TemporaryFolder()
        let table = "CREATE TABLE item (a, b, serverID, PRIMARY KEY (a, b))"
        let db = try open(in: folder, encoding: encoding, table)
        let token = try db.history.currentToken()
        let text = "'Ω' || char(0) || '🎲''ä'"
        try db.write { try $0.execute(sql: "INSERT INTO item VALUES (1, \(text), \(text)); DELETE FROM item") }
        let change = try #require(try db.history.changes(since: token, in: nil).changes.last)
        #expect(change.oldValue("serverID") == "Ω\0🎲'ä".databaseValue)
        #expect(change.key == [1.databaseValue, "Ω\0🎲'ä".databaseValue])
    }

    /// **Rule H13b**: in a database whose encoding is UTF-16, a character has two bytes.
    @Test func encodingOfTheDatabase() throws {
        let folder = try TemporaryFolder()
        let db = try open(in: folder, encoding: "UTF-16le", Self.item)
        let most = HistoryTriggers.longestValue
        try db.write {
            for length in [most / 2, most / 2 + 1] {
                try $0.execute(
                    sql: "INSERT INTO item (serverID) VALUES (?)",
                    arguments: [String(repeating: "x", count: length)]
                )
            }
        }
        let token = try db.history.currentToken()
        try db.write { try $0.execute(sql: "DELETE FROM item") }
        let values = try db.history.changes(since: token, in: nil).changes.map { $0.oldValue("serverID") }
        let isAsExpected = values == [String(repeating: "x", count: most / 2).databaseValue, nil]
        #expect(isAsExpected, "\(values.map { $0 != nil })")
    }

    // MARK: Triggers of the generation before

    /// Gives the table the triggers of generation 2, by a program that does not use Roundtable.
    private func makeSecondGeneration(_ fixture: HistoryFixture) throws {
        try fixture.stranger.inDatabase { db in
            let sql = "SELECT name, sql FROM sqlite_master WHERE name LIKE 'roundtable_history_1_%' ORDER BY name"
            for trigger in try Row.fetchAll(db, sql: sql) {
                let text: String = trigger["sql"]
                let length = /length\(CAST\(((?:old|new|existing)\."[^"]*") AS BLOB\)\)/
                let former = text.replacing(length) { "length(\($0.1))" }
                try db.execute(sql: "DROP TRIGGER \(trigger["name"] as String); \(former)")
            }
            try db.execute(sql: "UPDATE roundtable_history_tables SET generation = 2")
        }
    }

    /// **Rules H8, H13a**: a participant replaces the triggers of generation 2 before its first write. No reader starts over, and a column that
    /// was renamed before is still kept.
    @Test func triggersOfGenerationTwoAreReplaced() throws {
        let fixture = try keeping("CREATE TABLE item (id INTEGER PRIMARY KEY, u UNIQUE, serverID)")
        try makeSecondGeneration(fixture)
        let token = try fixture.db.history.currentToken()
        let long = "char(0) || hex(zeroblob(\(HistoryTriggers.longestValue)))"
        try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'a', \(long)); DELETE FROM item")
        #expect(try fixture.changes(token).last?.oldValue("serverID") != nil, "the triggers are not of generation 2")
        try fixture.executeElsewhere("ALTER TABLE item RENAME COLUMN serverID TO \"remote \"\"id\"\"\"")
        #expect(try fixture.db.read { try DatabaseHistory.keptColumns(in: $0) } == ["item": ["remote \"id\""]])
        try fixture.execute("INSERT INTO item VALUES (2, 'b', \(long)), (3, 'c', 'C'); DELETE FROM item")
        #expect(
            try fixture.changes(token).suffix(2).map { $0.oldValue("remote \"id\"") } == [nil, "C".databaseValue]
        )
        let generation = "SELECT generation FROM roundtable_history_tables"
        #expect(try fixture.db.read { try Int.fetchOne($0, sql: generation) } == HistoryTriggers.generation)
        let stored = "SELECT count(*) FROM sqlite_master WHERE sql LIKE '%length(old.%'"
        #expect(try fixture.db.read { try Int.fetchOne($0, sql: stored) } == 0)
    }

    /// **Rules H7, H14b**: notes that an update which did nothing has left are deleted when other columns are kept, because they have the values of
    /// the columns before. No row is recorded twice.
    @Test func notesOfReplacedTriggersAreDeleted() throws {
        let fixture = try keeping(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE, parent REFERENCES item ON DELETE CASCADE, serverID)"
        )
        try fixture.executeElsewhere("INSERT INTO item VALUES (1, 'x', NULL, 'a'), (2, 'y', NULL, 'b')")
        try fixture.executeElsewhere("UPDATE OR IGNORE item SET name = 'x' WHERE id = 2")
        let notes = "SELECT count(*) FROM roundtable_history_conflicts"
        #expect(try fixture.stranger.inDatabase { try Int.fetchOne($0, sql: notes) } ?? 0 > 0, "nothing is tested")
        try fixture.db.history.enable(for: "item", keeping: ["name"])
        let changes = try lines(fixture, "DELETE FROM item WHERE id = 1; DELETE FROM item WHERE id = 2")
        #expect(changes == ["delete 1: name=x serverID=a", "delete 2: name=y serverID=b"])
    }
}
