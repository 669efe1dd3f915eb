import Foundation
import GRDB
import Roundtable

/// The database of a campaign: entries, shared writes, the outbox's commands, a mirror of the history, and derived tables.
package enum CampaignWorld {
    package static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("campaign") { db in
            try db.execute(
                sql: """
                    CREATE TABLE entry (id INTEGER PRIMARY KEY, author TEXT NOT NULL, n INTEGER NOT NULL, part INTEGER NOT NULL);
                    CREATE TABLE mirror (id INTEGER PRIMARY KEY, entry INTEGER NOT NULL);
                    CREATE TABLE applied (id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, n INTEGER NOT NULL);
                    """
            )
            try db.execute(sql: SharedWriteLoad.tables)
            try db.execute(sql: DerivedTableWorld.tables)
        }
        return SharedSchema(migrator, derivedTables: DerivedTableWorld.set(3))
    }

    /// The number of rows of the transaction number `n` of a writer.
    package static func rows(ofTransaction n: Int) -> Int { 1 + n % 3 }

    /// Creates the database, before any other process opens it.
    package static func create(at url: URL) throws {
        let database = try SharedDatabase.open(at: url, schema: schema, as: "campaign")
        defer { try? database.close() }
        try database.history.enable(for: "entry")
        try database.write { db in
            var settings = DatabaseHistory.Settings()
            settings.minimumCount = 0
            try DatabaseHistory.setSettings(settings, in: db)
        }
        for name in ["journal", "mirror"] { try database.history.restartConsumer(name) }
    }

    package static func handlers(defect: CampaignWork.Defect?) -> OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(PeerCommandEntry.self) { db, command, info in
            if command.n % 97 == 0, info.attempt == 1 { throw FirstTry() }
            let times = defect == .appliesTwice && command.n % 50 == 0 ? 2 : 1
            for _ in 0..<times {
                try db.cachedStatement(sql: "INSERT INTO applied (sender, n) VALUES (?, ?)")
                    .execute(arguments: [command.sender, command.n])
            }
        }
        handlers.retries.firstDelay = .milliseconds(1)
        return handlers
    }

    private struct FirstTry: Error {}
}
