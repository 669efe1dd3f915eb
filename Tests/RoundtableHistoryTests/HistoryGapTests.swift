import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// **Rule H8**: whatever may be missing is reported.
@Suite struct HistoryGapTests {
    private static let recreate = """
        CREATE TABLE new_player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER, team TEXT);
        INSERT INTO new_player (id, name, score) SELECT * FROM player;
        DROP TABLE player;
        ALTER TABLE new_player RENAME TO player;
        """
    private static let insert = "INSERT INTO player (name) VALUES ('A')"

    private func enabled() throws -> (HistoryFixture, HistoryToken) {
        let fixture = try HistoryFixture()
        try fixture.db.history.enable(for: "player")
        try fixture.execute(Self.insert)
        return (fixture, try fixture.db.history.currentToken())
    }

    private func expectStartOver(
        _ fixture: HistoryFixture,
        _ token: HistoryToken,
        _ location: SourceLocation = #_sourceLocation
    ) {
        let reason = startOverReason { _ = try fixture.changes(token) }
        #expect(reason == .changesMissing(table: "player"), sourceLocation: location)
        let named = startOverReason { _ = try fixture.changes(token, in: ["player"]) }
        #expect(named == .changesMissing(table: "player"), sourceLocation: location)
    }

    /// Any program recreates a table: readers get an error at once, and recording continues with the next write.
    @Test(arguments: [false, true]) func recreatedTable(elsewhere: Bool) throws {
        let (fixture, token) = try enabled()
        if elsewhere {
            try fixture.executeElsewhere("BEGIN; \(Self.recreate) COMMIT")
        } else {
            try fixture.execute(Self.recreate)
        }
        expectStartOver(fixture, token)
        try fixture.execute(Self.insert)
        try fixture.execute(Self.insert)
        expectStartOver(fixture, token)
        let current = try fixture.db.history.currentToken()
        try fixture.executeElsewhere(Self.insert)
        #expect(try fixture.lines(current) == ["insert 4"])
    }

    /// GRDB's migrations recreate tables. A participant that opens with them puts the triggers back.
    @Test func recreatingMigration() throws {
        let folder = try TemporaryFolder()
        let url = folder.file("a.sqlite")
        var migrator = migrator()
        migrator.registerMigration("history") { try DatabaseHistory.enable(for: "player", in: $0) }
        // It continues while other participants migrate.
        var options = SharedDatabase.Options()
        options.newerSchemaPolicy = .continue
        let first = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "first", options: options)
        try first.write { _ = try Player(name: "A").inserted($0) }
        let token = try first.history.currentToken()
        #expect(try first.history.changes(since: nil).changes.map(\.author) == ["first"])
        migrator.registerMigration("recreate") { db in
            try db.create(table: "new") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("name", .text).notNull()
                table.column("score", .integer).notNull().defaults(to: 0)
            }
            try db.execute(sql: "INSERT INTO new SELECT * FROM player")
            try db.drop(table: "player")
            try db.rename(table: "new", to: "player")
        }
        _ = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "second")
        let stranger = try DatabaseQueue(path: url.path)
        try stranger.write { try $0.execute(sql: "INSERT INTO player (name) VALUES ('B')") }
        let page = try first.history.changes(since: nil)
        #expect(page.changes.map(\.line) == ["insert 2"])
        let reason = startOverReason { _ = try first.history.changes(since: token) }
        #expect(reason == .changesMissing(table: "player"))
        // Within the migration, the triggers can be put back at once. What came before must still be read again.
        migrator.registerMigration("again") { db in
            try db.execute(
                sql:
                    "UPDATE player SET score = 1; ALTER TABLE player RENAME TO old; CREATE TABLE player AS SELECT * FROM old"
            )
            try db.drop(table: "old")
        }
        _ = try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: "third")
        // No primary key any more: nothing is recorded, and that is reported.
        #expect(
            startOverReason { _ = try first.history.changes(since: page.token) } == .changesMissing(table: "player")
        )
        #expect(throws: HistoryError.self) { try first.history.enable(for: "player") }
    }

    /// The table is dropped, then recreated: recording stops in between, and starts with the next write of a participant.
    @Test func droppedTable() throws {
        let (fixture, token) = try enabled()
        try fixture.executeElsewhere("DROP TABLE player; CREATE TABLE other (id INTEGER PRIMARY KEY)")
        expectStartOver(fixture, token)
        try fixture.execute("INSERT INTO other VALUES (1)")
        expectStartOver(fixture, token)
        let between = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("CREATE TABLE player (id INTEGER PRIMARY KEY, name); \(Self.insert)")
        try fixture.execute("INSERT INTO other VALUES (2)")
        expectStartOver(fixture, between)
        let current = try fixture.db.history.currentToken()
        try fixture.executeElsewhere(Self.insert)
        #expect(try fixture.lines(current) == ["insert 2"])
    }

    /// The history of a renamed table continues, under its new name.
    @Test func renamedTable() throws {
        let (fixture, token) = try enabled()
        try fixture.executeElsewhere("\(Self.insert); ALTER TABLE player RENAME TO \"the team\"")
        try fixture.executeElsewhere("INSERT INTO \"the team\" (name) VALUES ('A')")
        try fixture.execute("CREATE TABLE player (id INTEGER PRIMARY KEY); INSERT INTO player VALUES (99)")
        try fixture.execute("UPDATE \"the team\" SET score = 5 WHERE id = 1")
        let changes = try fixture.changes(token)
        #expect(changes.map(\.line) == ["insert 2", "insert 3", "update 1"])
        #expect(Set(changes.map(\.table)) == ["the team"])
        #expect(throws: HistoryError.notTracked(path: fixture.db.path, table: "player")) {
            try fixture.changes(in: ["player"])
        }
    }

    /// A unique index without a guard against REPLACE may have swallowed rows.
    @Test func newUniqueIndex() throws {
        let (fixture, token) = try enabled()
        try fixture.executeElsewhere("CREATE UNIQUE INDEX name ON player (name)")
        try fixture.executeElsewhere("REPLACE INTO player (name) VALUES ('A')")
        try fixture.execute("UPDATE player SET score = 1")
        expectStartOver(fixture, token)
        let current = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("REPLACE INTO player (name) VALUES ('A')")
        #expect(try fixture.lines(current).sorted() == ["delete 2", "insert 3"])
    }

    /// Recording ends and begins again: both are reported to readers that ask for all tables.
    @Test func disabledAndEnabled() throws {
        let (fixture, token) = try enabled()
        try fixture.db.history.disable(for: "player")
        try fixture.execute(Self.insert)
        #expect(startOverReason { _ = try fixture.changes(token) } == .changesMissing(table: "player"))
        #expect(throws: HistoryError.notTracked(path: fixture.db.path, table: "player")) {
            try fixture.changes(token, in: ["player"])
        }
        let between = try fixture.db.history.currentToken()
        try fixture.execute(Self.insert)
        try fixture.db.history.enable(for: "player")
        #expect(startOverReason { _ = try fixture.changes(between) } == .changesMissing(table: "player"))
        let current = try fixture.db.history.currentToken()
        try fixture.execute(Self.insert)
        #expect(try fixture.lines(current) == ["insert 4"])
        // A second call changes nothing.
        try fixture.db.history.enable(for: "PLAYER")
        #expect(try fixture.lines(current) == ["insert 4"])
    }

    /// A database that was deleted, erased or put back: tokens of before are recognized.
    @Test func otherDatabase() throws {
        let (fixture, token) = try enabled()
        let copy = fixture.folder.file("copy.sqlite")
        try fixture.db.backup(to: DatabaseQueue(path: copy.path))
        try fixture.execute(Self.insert)
        let later = try fixture.db.history.currentToken()
        let older = try SharedDatabase.open(at: copy, schema: .unmanaged, as: "older")
        #expect(startOverReason { _ = try older.history.changes(since: later) } == .wentBack)
        #expect(try older.history.changes(since: token).changes.isEmpty)

        // A stranger drops its main table: it is recreated, and is another one.
        try fixture.executeElsewhere("DROP TABLE roundtable_history")
        #expect(throws: DatabaseError.self) { try fixture.execute(Self.insert) }
        #expect(throws: HistoryError.notEnabled(path: fixture.db.path)) { try fixture.changes(token) }
        try fixture.db.history.enable(for: "player")
        #expect(startOverReason { _ = try fixture.changes(token) } == .otherHistory)

        try fixture.db.erase()
        #expect(throws: HistoryError.notEnabled(path: fixture.db.path)) { try fixture.changes(token) }
        try fixture.execute("CREATE TABLE player (id INTEGER PRIMARY KEY, name); \(Self.insert)")
        try fixture.db.history.enable(for: "player")
        try fixture.execute(Self.insert)
        #expect(startOverReason { _ = try fixture.changes(token) } == .otherHistory)
        #expect(try fixture.changes().map(\.author) == ["app"])
    }

    /// Tables that cannot be recorded are refused, with nothing left behind.
    @Test func refusals() throws {
        let fixture = try HistoryFixture(
            """
            CREATE TABLE plain (a); CREATE VIEW seen AS SELECT * FROM plain; CREATE VIRTUAL TABLE text USING fts5(body);
            CREATE TABLE wide (id INTEGER PRIMARY KEY, \((1...62).map { "c\($0)" }.joined(separator: ", ")));
            """
        )
        for table in ["plain", "seen", "text", "nothing", "sqlite_master"] {
            do {
                try fixture.db.history.enable(for: table)
                Issue.record("\(table) was not refused")
            } catch HistoryError.cannotTrack(let path, let name, let reason) {
                #expect(path == fixture.db.path && name == table && reason.count > 20)
            }
        }
        #expect(throws: HistoryError.self) { try fixture.db.history.enable(for: "wide", recording: .changedColumns) }
        #expect(try fixture.db.read { try $0.tableExists("roundtable_history") } == false)
        #expect(throws: HistoryError.notEnabled(path: fixture.db.path)) { try fixture.db.history.currentToken() }
        try fixture.db.history.enable(for: "wide")
        #expect(throws: HistoryError.self) { try fixture.db.history.enable(for: "roundtable_history_settings") }
    }

    /// Two processes that ask for different recordings agree on the one that records more.
    @Test func differentRecordings() throws {
        let (fixture, token) = try enabled()
        try fixture.db.history.enable(for: "player", recording: .changedColumns)
        let second = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "second")
        try second.history.enable(for: "player", recording: .rows)
        let version = "PRAGMA schema_version"
        let before = try second.read { try Int.fetchOne($0, sql: version) }
        try second.write { try $0.execute(sql: "UPDATE player SET score = 3") }
        #expect(try fixture.changes(token).map(\.columns) == [["score"]])
        // What is as it should be is left alone.
        _ = try SharedDatabase.open(at: fixture.url, schema: .unmanaged, as: "third").write {
            try $0.execute(sql: Self.insert)
        }
        #expect(try second.read { try Int.fetchOne($0, sql: version) } == before)
        #expect(try second.read { try DatabaseHistory.tables(in: $0) } == ["player": .changedColumns])
    }

    /// Triggers of a later version are left alone, unless one is missing.
    @Test func laterTriggers() throws {
        let (fixture, _) = try enabled()
        let name = try #require(
            try fixture.db.read { db in
                try String.fetchOne(
                    db,
                    sql: "SELECT name FROM sqlite_master WHERE name GLOB 'roundtable_history_*_insert'"
                )
            }
        )
        try fixture.executeElsewhere(
            """
            UPDATE roundtable_history_tables SET generation = 99;
            DROP TRIGGER \(name);
            CREATE TRIGGER \(name) AFTER INSERT ON player BEGIN
                INSERT INTO roundtable_history (table_id, operation, row_key) VALUES (1, 'insert', -new.id);
            END
            """
        )
        try fixture.execute(Self.insert)
        #expect(try fixture.lines() == ["insert 1", "insert -2"])
        try fixture.executeElsewhere("DROP TRIGGER \(name)")
        try fixture.execute(Self.insert)
        #expect(try fixture.lines() == ["insert 3"])
        try fixture.executeElsewhere("UPDATE roundtable_history_settings SET format = 99")
        #expect(throws: HistoryError.newerFormat(path: fixture.db.path, format: 99)) { try fixture.changes() }
        #expect(throws: HistoryError.self) { try fixture.db.history.enable(for: "player", recording: .changedColumns) }
    }

    /// **Rule H2**: what a newer format keeps is not changed.
    @Test func aNewerFormatIsNotChanged() throws {
        let (fixture, _) = try enabled()
        try fixture.executeElsewhere("UPDATE roundtable_history_settings SET format = 99")
        func contents() throws -> [Row] {
            try fixture.db.read { db in
                try Row.fetchAll(db, sql: "SELECT * FROM roundtable_history_tables")
                    + Row.fetchAll(db, sql: "SELECT sequence, table_id, operation, row_key FROM roundtable_history")
                    + Row.fetchAll(db, sql: "SELECT name, sql FROM sqlite_master ORDER BY name")
            }
        }
        let before = try contents()
        let history = fixture.db.history
        let calls: [() throws -> Void] = [
            { try history.enable(for: "player", recording: .changedColumns) }, { try history.disable(for: "player") },
            { try history.disable(for: "no such table") },
            { try fixture.db.write { try DatabaseHistory.narrow(for: "player", in: $0) } },
        ]
        for call in calls {
            #expect(throws: HistoryError.newerFormat(path: fixture.db.path, format: 99)) { try call() }
        }
        #expect(try contents() == before)
    }

    /// The history of an attached database is its own; a temporary table of the same name is not the table.
    @Test func attachedAndTemporary() throws {
        let (fixture, token) = try enabled()
        let other = try HistoryFixture()
        try other.db.history.enable(for: "player")
        try fixture.db.writeWithoutTransaction { db in
            try db.execute(sql: "ATTACH ? AS other", arguments: [other.url.path])
            try db.execute(sql: "INSERT INTO other.player (name) VALUES ('A')")
            try db.execute(sql: "CREATE TEMP TABLE player (id INTEGER PRIMARY KEY); INSERT INTO player VALUES (1)")
            try db.execute(sql: "CREATE UNIQUE INDEX main.name ON player (name)")
            try db.execute(sql: "INSERT INTO main.player (name) VALUES ('B')")
        }
        try fixture.db.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO main.player (name) VALUES ('C')") }
        #expect(try other.changes().map(\.author) == [nil])
        let changes = try fixture.db.history.changes(since: nil).changes
        #expect(changes.last?.line == "insert 3" && changes.last?.author == "app")
        expectStartOver(fixture, token)
        let current = try fixture.db.history.currentToken()
        try fixture.executeElsewhere("REPLACE INTO player (name) VALUES ('C')")
        #expect(try fixture.lines(current).sorted() == ["delete 3", "insert 4"])
    }
}
