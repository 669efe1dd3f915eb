import Foundation
import GRDB
import Roundtable
import RoundtableUnitSupport
import Testing

/// A database that a program of an older version opens, and one of a newer version migrates.
final class UpgradeWorld: Sendable {
    static let insert = "INSERT INTO player (name) VALUES ('new')"
    static let addsColumn = "v2: adds a column"
    static let changesRows = "v3: changes rows"

    let folder: TemporaryFolder
    let events = Shared<[SchemaEvent]>([])
    var url: URL { folder.file("players.sqlite") }

    init() throws { folder = try TemporaryFolder() }

    /// The older program.
    func open(
        _ author: String = "old",
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options(change))
    }

    func openReadOnly(_ change: (inout SharedDatabase.Options) -> Void = { _ in }) throws -> SharedDatabase {
        // A writer has to create the database.
        try open("maker").close()
        let schema = SharedSchema(migrator())
        switch try SharedDatabase.openReadOnly(at: url, schema: schema, as: "widget", options: options(change)) {
        case .available(let db): return db
        case .unavailable(let reason): throw Unavailable(reason: reason)
        }
    }

    struct Unavailable: Error { let reason: SharedDatabase.Unavailability }

    private func options(_ change: (inout SharedDatabase.Options) -> Void) -> SharedDatabase.Options {
        var options = SharedDatabase.Options()
        options.follow { [events] (event: SchemaEvent) in events.change { $0.append(event) } }
        change(&options)
        return options
    }

    /// A connection that knows nothing of turns.
    func stranger() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue(path: url.path, configuration: configuration)
    }

    /// The migrator of the newer program, whose migrations until this one change what their names say.
    func newer(
        _ last: String,
        _ body: @escaping @Sendable (Database) throws -> Void = { _ in }
    ) -> DatabaseMigrator {
        // GRDB applies the missing migrations, and leaves alone the ones that it does not know.
        var migrator = DatabaseMigrator()
        migrator.registerMigration(last) { db in
            if last == Self.addsColumn { try db.execute(sql: "ALTER TABLE player ADD COLUMN team TEXT") }
            if last == Self.changesRows { try db.execute(sql: "UPDATE player SET score = score + 1") }
            try body(db)
        }
        return migrator
    }

    func migrateElsewhere(
        _ last: String,
        on stranger: DatabaseQueue? = nil,
        _ body: @escaping @Sendable (Database) throws -> Void = { _ in }
    ) throws {
        try newer(last, body).migrate(stranger ?? self.stranger())
    }

    func executeElsewhere(_ sql: String) throws { try stranger().write { try $0.execute(sql: sql) } }

    func backUp() throws -> DatabaseQueue {
        let copy = try DatabaseQueue()
        try stranger().backup(to: copy)
        return copy
    }

    func restore(_ copy: DatabaseQueue) throws { try copy.backup(to: stranger()) }

    /// The participant itself migrates.
    func migrate(_ db: SharedDatabase, _ migration: String) throws { try newer(migration).migrate(db) }

    func hasMigrated(_ migration: String) throws -> Bool {
        try stranger().read { try newer(migration).appliedIdentifiers($0).contains(migration) }
    }

    func tooNew(_ unknown: [String]) -> SharedDatabaseError {
        .schemaTooNew(path: url.resolvingSymlinksInPath().path, unknownMigrations: unknown)
    }

    /// Whether any connection commits to the database meanwhile.
    func hasCommits(during body: () throws -> Void) throws -> Bool {
        let witness = try stranger()
        func version() throws -> Int? { try witness.inDatabase { try Int.fetchOne($0, sql: "PRAGMA data_version") } }
        let before = try version()
        try body()
        return try version() != before
    }

    /// Events come on a thread of the system.
    func expectEvents(
        _ expected: [SchemaEvent],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let count = expected.count
        try await eventually("\(count) events", line: UInt(sourceLocation.line)) { events.value.count >= count }
        #expect(events.value == expected, sourceLocation: sourceLocation)
    }
}

// In async tests, Swift takes the async forms, unless a function without `async` stands between.

extension SharedDatabase {
    func insertWithoutTransaction() throws {
        try writeWithoutTransaction { try $0.execute(sql: UpgradeWorld.insert) }
    }

    func snapshotOfNow() throws -> SharedDatabaseSnapshot { try makeSnapshot() }
}

extension SharedDatabaseSnapshot {
    func countPlayers() throws -> Int { try read(Player.fetchCount) }
}

extension DatabaseMigrator {
    func migrateNow(_ db: SharedDatabase) throws { try migrate(db) }
}
