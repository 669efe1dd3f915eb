import Foundation
import GRDB
import Roundtable

/// What the interactive widget asks the app to do: to log an entry of the widget's.
struct LogEntry: OutboxCommand {
    static let name = "log-entry"
    static let version = 1
    /// Of this demo: commands of one that was killed may still wait.
    var run: UUID
    /// From 1.
    var number: Int
}

/// What the app lets the interactive widget know.
struct WidgetState: Codable, Equatable, Sendable {
    /// The last entry that was logged for it.
    var run: UUID?
    var number = 0
}

extension OutboxHandlers {
    /// What the app does with commands.
    static var demo: OutboxHandlers {
        var handlers = OutboxHandlers()
        handlers.handle(LogEntry.self) { db, command in
            let sql = "INSERT INTO logged (run, number) VALUES (?, ?)"
            try db.cachedStatement(sql: sql).execute(arguments: [command.run.uuidString, command.number])
        }
        return handlers
    }
}

extension SnapshotFile<WidgetState> {
    /// The file that the app publishes for the interactive widget, beside the database.
    static func demo(_ database: URL, as writer: String) -> Self {
        var options = SnapshotFileOptions()
        // It is published again with the next entry.
        options.durability = .process
        return SnapshotFile(at: path(database), as: writer, options: options)
    }

    static func path(_ database: URL) -> URL { URL(fileURLWithPath: database.path + "-widget") }
}

extension WidgetState {
    init(_ db: Database) throws {
        let sql = "SELECT run, number FROM logged ORDER BY id DESC LIMIT 1"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)) else { return }
        run = UUID(uuidString: row["run"])
        number = row["number"]
    }
}
