import CFootprint
import Foundation
import GRDB

/// A process with a `DatabasePool` at a path that idles. It has read and, if it can, written once before it says that it is ready.
enum Participant: String {
    case readWrite = "read-write"
    case readOnly = "read-only"

    func stay(_ path: String) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(30)
        configuration.readonly = self == .readOnly
        let pool = try DatabasePool(path: path, configuration: configuration)
        if self == .readWrite {
            try Self.migrator.migrate(pool)
            try pool.write { try $0.execute(sql: "INSERT INTO entry (text) VALUES ('a row of some length')") }
        }
        _ = try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM entry") }
        footprint_stay()
        try pool.close()
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("create entry") { db in
            try db.create(table: "entry") { table in
                table.column("id", .integer).primaryKey()
                table.column("text", .text).notNull()
            }
        }
        return migrator
    }
}
