import Foundation
import GRDB
import Roundtable

/// A measurement: how busy the machine was.
public struct Reading: Codable, FetchableRecord, PersistableRecord, Sendable {
    public static let databaseTableName = "reading"
    public var date: Date
    /// The load average of the last minute.
    public var load: Double

    public init(date: Date, load: Double) {
        self.date = date
        self.load = load
    }
}

/// The settings of the daemon, in the only row of their table. The tool changes them while the daemon runs.
public struct Settings: Codable, FetchableRecord, PersistableRecord, Sendable, Equatable {
    public static let databaseTableName = "settings"
    public private(set) var id = 1
    /// The time between two measurements, in milliseconds.
    public var interval: Int

    public static func current(_ db: Database) throws -> Settings { try fetchOne(db) ?? Settings(interval: 1000) }
}

public enum Meter {
    /// The schema, for both programs. The one that opens the database first applies the migrations.
    public static var schema: SharedSchema {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("readings") { db in
            try db.create(table: "reading") { table in
                table.column("date", .datetime).notNull().indexed()
                table.column("load", .double).notNull()
            }
        }
        migrator.registerMigration("settings") { db in
            try db.create(table: "settings") { table in
                table.column("id", .integer).primaryKey().check { $0 == 1 }
                table.column("interval", .integer).notNull().check { $0 >= 10 }
            }
            try Settings(interval: 1000).insert(db)
        }
        return SharedSchema(migrator)
    }
}
