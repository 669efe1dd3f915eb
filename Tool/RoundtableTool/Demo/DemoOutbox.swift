import Foundation
import GRDB
import Roundtable

/// The command of the interactive widget to the app: log an entry of the widget.
struct LogEntry: OutboxCommand {
    static let name = "log-entry"
    static let version = 1
    /// The run of this demo. Commands of an earlier demo that was killed may still wait.
    var run: UUID
    /// The number of the entry, counted from 1.
    var number: Int
}

/// The value that the app publishes for the interactive widget.
struct WidgetState: Codable, Equatable, Sendable {
    /// The run of the last entry that was logged for the widget. `number` is the number of that entry.
    var run: UUID?
    var number = 0
}

extension OutboxHandlers {
    /// The handlers with which the app applies commands.
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
        // The file need not survive a crash of the system, because the next entry publishes it again.
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
