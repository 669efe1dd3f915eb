import Foundation
import Roundtable
import SQLiteData

@Table public struct Reminder: Identifiable, Equatable, Sendable {
    public let id: Int
    public var title = ""
    public var isCompleted = false
}

extension Reminder {
    public static func add(_ title: String, to db: Database) throws {
        try Reminder.insert { Draft(title: title) }.execute(db)
    }
}

/// Opens the database that all programs share.
///
/// - parameter author: the name of the program for the others.
public func reminderDatabase(at url: URL, as author: String) throws -> any DatabaseWriter {
    var migrator = DatabaseMigrator()
    #if DEBUG
        // Erases only while no other program has the database open, and otherwise says which has.
        migrator.eraseDatabaseOnSchemaChange = true
    #endif
    migrator.registerMigration("reminders") { db in
        try #sql(
            """
            CREATE TABLE "reminders" (
                "id" INTEGER PRIMARY KEY AUTOINCREMENT,
                "title" TEXT NOT NULL,
                "isCompleted" INTEGER NOT NULL DEFAULT 0
            ) STRICT
            """
        )
        .execute(db)
    }
    return try SharedDatabase.open(at: url, schema: SharedSchema(migrator), as: author)
}
