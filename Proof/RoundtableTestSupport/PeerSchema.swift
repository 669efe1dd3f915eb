import Foundation
import GRDB
import Roundtable

/// The schema that a peer opens a database with.
///
/// Its migrations are `v1`, `v2`, …. Each adds a row to the table `migrationLog`, with the last `id` of `entry` at that moment, so
/// that a test detects a migration that ran twice. `v1` creates the table `entry`. Each row of `entry` says that `author` committed
/// its transaction number `n`. Of the other migrations, those with an even number change the schema, and those with an odd number
/// change only rows.
package struct PeerSchema: Codable, Sendable {
    package enum Kind: String, Codable, Sendable {
        case migrated
        /// The schema has no migrator.
        case unmanaged
    }

    package var kind: Kind
    package var migrations: Int
    /// The shortest duration of each migration.
    package var migrationMilliseconds: Double
    /// The path of a file without which the first migration does not begin; nil if it waits for nothing.
    package var gate: String?

    package init(
        _ kind: Kind = .migrated,
        migrations: Int = 1,
        migrationMilliseconds: Double = 0,
        gate: String? = nil
    ) {
        self.kind = kind
        self.migrations = migrations
        self.migrationMilliseconds = migrationMilliseconds
        self.gate = gate
    }

    package static let makeEntryTable = """
        CREATE TABLE entry (id INTEGER PRIMARY KEY, author TEXT NOT NULL, n INTEGER NOT NULL, part INTEGER NOT NULL,
            UNIQUE (author, n, part))
        """
    package static let insertEntry = "INSERT INTO entry (author, n, part) VALUES (?, ?, ?)"

    package var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for number in 0..<migrations {
            migrator.registerMigration("v\(number + 1)") { [migrationMilliseconds, gate] db in
                if number == 0 {
                    while let gate, !FileManager.default.fileExists(atPath: gate) { pause(milliseconds: 0.5) }
                    try db.execute(sql: Self.makeEntryTable)
                    try db.execute(
                        sql:
                            "CREATE TABLE migrationLog (migration TEXT NOT NULL, pid INTEGER NOT NULL, entries INTEGER)"
                    )
                } else if number % 2 == 1 {
                    try db.execute(sql: "CREATE TABLE version\(number + 1) (a)")
                }
                try db.execute(
                    sql: "INSERT INTO migrationLog VALUES (?, ?, (SELECT coalesce(max(id), 0) FROM entry))",
                    arguments: ["v\(number + 1)", ProcessInfo.processInfo.processIdentifier]
                )
                pause(milliseconds: migrationMilliseconds)
            }
        }
        return migrator
    }

    package var schema: SharedSchema { kind == .unmanaged ? .unmanaged : SharedSchema(migrator) }
}

/// Sleeps for this time, as a part of the work load.
package func pause(milliseconds: Double) {
    guard milliseconds > 0 else { return }
    Thread.sleep(forTimeInterval: milliseconds / 1000)
}
